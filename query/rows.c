/* query/rows.c: filters and pages. */
#include "query/answer.h"

#include <stdlib.h>

#include "proto/hostlist.h"
#include "proto/states.h"

enum { /* see proto/rows.proto, proto/spec.proto, proto/conf.proto */
       SPEC_NAME = 1,
       SPEC_PARTITION = 4,
       STEP_JOB = 1,
       STEP_STATE = 5,
       STEP_NODE_LIST = 12,
       PARTITION_CONF = 1,
       CONF_NODE = 3,
       CONF_HIDDEN = 19,
};

/* ---- the page ---- */

uint8_t *answer_room(struct answer *a, size_t len)
{
	if (a->count && a->bytes + len > a->limit) {
		a->more = true;
		return NULL;
	}
	return mu_arena_alloc(a->arena, len ? len : 1);
}

void answer_add(struct answer *a, uint8_t *row, size_t len, const void *key, size_t key_len)
{
	if (a->count == a->cap) {
		size_t cap = a->cap ? 2 * a->cap : 256;
		ProtobufCBinaryData *rows = mu_arena_alloc(a->arena, cap * sizeof *rows);
		if (a->count)
			memcpy(rows, a->row, a->count * sizeof *rows);
		a->row = rows;
		a->cap = cap;
	}
	a->row[a->count++] = (ProtobufCBinaryData){.len = len, .data = row};
	a->bytes += len + 4;
	if (a->last_key.len == key_len && key_len)
		memcpy((uint8_t *)a->last_key.data, key, key_len);
	else
		a->last_key = (struct mu_view){mu_arena_dup(a->arena, key, key_len), key_len};
}

int answer_plain(struct answer *a, struct mu_view key, struct mu_view row)
{
	uint8_t *room = answer_room(a, row.len);

	if (!room)
		return ANSWER_FULL;
	memcpy(room, row.data, row.len);
	answer_add(a, room, row.len, key.data, key.len);
	return 0;
}

/* ---- filters ---- */

static bool any_text(char *const *texts, size_t count, struct mu_view value)
{
	for (size_t i = 0; i < count; i++)
		if (pick_equals(value, texts[i]))
			return true;
	return count == 0;
}

static bool any_number(const uint32_t *numbers, size_t count, uint32_t value)
{
	for (size_t i = 0; i < count; i++)
		if (numbers[i] == value)
			return true;
	return count == 0;
}

bool answer_may_see(const struct answer *a, uint32_t uid)
{
	return a->caller->operator|| !(a->private_data & VIEW_PRIVATE_JOBS) || uid == a->caller->uid;
}

/* True when the folded LIST has a node that was asked for. */
bool answer_on_nodes(const struct answer *a, struct mu_view list)
{
	struct mu_arena scratch = {0};
	char **names;
	size_t count = 0;
	bool found = false;

	if (a->nodes.count == 0)
		return true;
	if (list.len == 0)
		return false;
	char *text = mu_arena_alloc(&scratch, list.len + 1);
	memcpy(text, list.data, list.len);
	if (mu_hostlist_expand(text, ANSWER_HOSTS_MAX, &scratch, &names, &count, NULL))
		count = 0;
	for (size_t i = 0; i < count && !found; i++)
		found = mu_map_get_str(&a->nodes, names[i]) != NULL;
	mu_arena_free(&scratch);
	return found;
}

/* A waiting job may start in any of the partitions that it named. */
static bool in_partition(const Mu__Query *q, const struct pick_job *job)
{
	struct mu_view rest = job->spec;
	struct pick f;

	if (any_text(q->partition, q->n_partition, job->partition))
		return true;
	if (job->state != JOB_PENDING)
		return false;
	while (pick_next(&rest, &f))
		if (f.number == SPEC_PARTITION && f.type == 2 &&
		    any_text(q->partition, q->n_partition, f.bytes))
			return true;
	return false;
}

/* In a partition that is hidden from those who do not ask for all; people see their own jobs there. */
static bool in_hidden(const struct answer *a, const struct pick_job *job)
{
	return a->hidden.count && job->uid != a->caller->uid &&
	       mu_map_get(&a->hidden, job->partition.data, job->partition.len);
}

bool answer_wants_job(const struct answer *a, const struct pick_job *job, bool with_state)
{
	const Mu__Query *q = a->query;

	if (!answer_may_see(a, job->uid) || in_hidden(a, job))
		return false;
	if (q->n_user || q->n_uid) {
		bool user = q->n_user && any_text(q->user, q->n_user, job->user);
		if (!user && !(q->n_uid && any_number(q->uid, q->n_uid, job->uid)))
			return false;
	}
	bool named = any_number(q->job, q->n_job, job->id) ||
		     (job->array_job && any_number(q->job, q->n_job, job->array_job)) ||
		     (job->het_job && any_number(q->job, q->n_job, job->het_job));
	return named && in_partition(q, job) && any_text(q->account, q->n_account, job->account) &&
	       any_text(q->qos, q->n_qos, job->qos) &&
	       (!with_state || any_number(q->state, q->n_state, job->state) ||
		(job->special_exit && job->state == JOB_PENDING &&
		 any_number(q->state, q->n_state, JOB_SPECIAL_EXIT))) &&
	       (q->n_name == 0 || any_text(q->name, q->n_name, pick_bytes(job->spec, SPEC_NAME))) &&
	       answer_on_nodes(a, job->node_list);
}

static bool filters_jobs(const struct answer *a)
{
	const Mu__Query *q = a->query;

	return q->n_job || q->n_user || q->n_uid || q->n_partition || q->n_account || q->n_qos || q->n_name ||
	       q->n_state || q->n_node || a->hidden.count ||
	       (!a->caller->operator&&(a->private_data & VIEW_PRIVATE_JOBS));
}

/* How far into a row the filters look. */
static uint32_t filter_reach(const struct answer *a)
{
	const Mu__Query *q = a->query;

	if (q->n_node || q->n_job || (q->n_state && any_number(q->state, q->n_state, JOB_SPECIAL_EXIT)))
		return PICK_JOB_ALL;
	return q->n_partition || q->n_account || q->n_qos || a->hidden.count ? PICK_JOB_QOS : PICK_JOB_STATE;
}

/* ---- what was asked ---- */

static int add_job(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err)
{
	struct answer *a = arg;
	struct pick_job job;

	if (filters_jobs(a)) {
		pick_job_head(row, filter_reach(a), &job);
		if (!answer_wants_job(a, &job, true))
			return 0;
	}
	uint8_t *room = answer_room(a, row.len);
	if (!room)
		return ANSWER_FULL;
	answer_add(a, room, pick_job_public(row, a->query->slim, room), key.data, key.len);
	return 0;
}

/* The ids asked for, ascending, without duplicates, behind the page key. */
static int jobs_asked(struct answer *a, uint32_t **ret, size_t *ret_count, uint32_t *ret_cut)
{
	const Mu__Query *q = a->query;
	uint32_t after = q->has_after_key && q->after_key.len >= 4 ? mu_get_be32(q->after_key.data) : 0;

	return answer_ids(a, after, false, ret, ret_count, ret_cut);
}

static void cut_at(struct answer *a, uint32_t id)
{
	uint8_t key[4];

	if (!id)
		return;
	mu_put_be32(key, id);
	answer_cut(a, key, sizeof key);
}

/* Jobs by id are looked up, not searched for. */
static int jobs_by_id(struct answer *a)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf row = {0};
	size_t count = 0;
	uint32_t *ids, cut;
	bool found = false;
	int code = jobs_asked(a, &ids, &count, &cut);

	for (size_t i = 0; i < count && code == 0; i++) {
		uint8_t key[4];
		mu_put_be32(key, ids[i]);
		mu_buf_reset(&row);
		code = source_get(&a->source, SCH_ROW_JOB, (struct mu_view){key, 4}, &row, a->err);
		found = found || code == 0;
		if (code == 0)
			code =
			    add_job(a, (struct mu_view){key, 4}, (struct mu_view){row.data, row.len}, a->err);
		else if (code == MU_ENOENT)
			code = 0;
	}
	if (code == 0 && a->count == 0 && a->query->n_job == 1 && !a->query->has_after_key && !found)
		return mu_fail(a->err, MU_EJOBID, "%s", mu_strerror(MU_EJOBID));
	if (code == 0)
		cut_at(a, cut);
	return code;
}

struct mu_view answer_page_key(const struct answer *a)
{
	return a->query->has_after_key ? (struct mu_view){a->query->after_key.data, a->query->after_key.len}
				       : (struct mu_view){0};
}

static int answer_jobs(struct answer *a)
{
	if (a->query->n_job)
		return jobs_by_id(a);
	return source_each(&a->source, SCH_ROW_JOB, (struct mu_view){0}, answer_page_key(a), add_job, a,
			   a->err);
}

struct step_walk {
	struct answer *a;
	uint32_t job; /* the job last looked at, and whether its steps are wanted */
	bool wanted;
	struct mu_buf row;
};

static int add_step(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err)
{
	struct step_walk *w = arg;
	struct answer *a = w->a;
	uint32_t id = key.len >= 4 ? mu_get_be32(key.data) : 0;

	if (id != w->job) {
		struct pick_job job;
		w->job = id;
		mu_buf_reset(&w->row);
		int code = source_get(&a->source, SCH_ROW_JOB, (struct mu_view){key.data, 4}, &w->row, err);
		if (code && code != MU_ENOENT)
			return code;
		pick_job((struct mu_view){w->row.data, w->row.len}, &job);
		/* Nodes and states are the step's own here. */
		job.node_list = (struct mu_view){0};
		struct mu_map nodes = a->nodes;
		a->nodes = (struct mu_map){0};
		w->wanted = code == 0 && answer_wants_job(a, &job, false);
		a->nodes = nodes;
	}
	if (!w->wanted ||
	    !any_number(a->query->state, a->query->n_state, (uint32_t)pick_number(row, STEP_STATE)) ||
	    !answer_on_nodes(a, pick_bytes(row, STEP_NODE_LIST)))
		return 0;
	return answer_plain(a, key, row);
}

static int answer_steps(struct answer *a)
{
	struct step_walk w = {.a = a};
	int code = 0;

	if (a->query->n_job == 0) {
		code = source_each(&a->source, SCH_ROW_STEP, (struct mu_view){0}, answer_page_key(a),
				   add_step, &w, a->err);
	} else {
		size_t count = 0;
		struct mu_view after = answer_page_key(a);
		uint32_t *ids, cut;
		code = jobs_asked(a, &ids, &count, &cut);
		/* The page may have ended within a job. */
		if (code == 0 && after.len >= 4) {
			uint8_t key[4];
			memcpy(key, after.data, 4);
			code = source_each(&a->source, SCH_ROW_STEP, (struct mu_view){key, 4}, after,
					   add_step, &w, a->err);
		}
		for (size_t i = 0; i < count && code == 0; i++) {
			uint8_t key[4];
			mu_put_be32(key, ids[i]);
			code = source_each(&a->source, SCH_ROW_STEP, (struct mu_view){key, 4},
					   (struct mu_view){0}, add_step, &w, a->err);
		}
		if (code == 0)
			cut_at(a, cut);
	}
	mu_buf_free(&w.row);
	return code;
}

/* Keeps in a->nodes the nodes of the partitions asked for (and of the names asked for, where there are any).
 */
struct partition_walk {
	struct answer *a;
	struct mu_map members;
};

static int add_members(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err)
{
	struct partition_walk *w = arg;
	struct mu_view rest = pick_bytes(row, PARTITION_CONF);
	struct pick f;

	if (!any_text(w->a->query->partition, w->a->query->n_partition, key))
		return 0;
	while (pick_next(&rest, &f))
		if (f.number == CONF_NODE && f.type == 2)
			mu_map_put(&w->members, f.bytes.data, f.bytes.len, w);
	return 0;
}

struct node_walk {
	struct answer *a;
	struct mu_map *members; /* NULL: no partition asked for */
};

static int add_node(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err)
{
	struct node_walk *w = arg;

	if (w->members && !mu_map_get(w->members, key.data, key.len))
		return 0;
	if (w->a->nodes.count && !mu_map_get(&w->a->nodes, key.data, key.len))
		return 0;
	return answer_plain(w->a, key, row);
}

static int answer_nodes(struct answer *a)
{
	struct partition_walk partitions = {.a = a};
	struct node_walk nodes = {.a = a};
	int code = 0;

	if ((a->private_data & VIEW_PRIVATE_NODES) && !a->caller->operator)
		return 0;
	if (a->query->n_partition) {
		code = source_each(&a->source, SCH_ROW_PARTITION, (struct mu_view){0}, (struct mu_view){0},
				   add_members, &partitions, a->err);
		nodes.members = &partitions.members;
	}
	if (code == 0)
		code = source_each(&a->source, SCH_ROW_NODE, (struct mu_view){0}, answer_page_key(a),
				   add_node, &nodes, a->err);
	mu_map_clear(&partitions.members);
	return code;
}

static int add_hidden(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err)
{
	struct answer *a = arg;

	if (pick_number(pick_bytes(row, PARTITION_CONF), CONF_HIDDEN))
		mu_map_put(&a->hidden, key.data, key.len, a);
	return 0;
}

static int add_partition(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err)
{
	struct answer *a = arg;

	return any_text(a->query->partition, a->query->n_partition, key) ? answer_plain(a, key, row) : 0;
}

static int add_any(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err)
{
	return answer_plain(arg, key, row);
}

static int answer_all(struct answer *a, uint8_t kind, source_sink sink)
{
	return source_each(&a->source, kind, (struct mu_view){0}, answer_page_key(a), sink, a, a->err);
}

static int answer_what(struct answer *a)
{
	switch (a->query->what) {
	case MU__WHAT__WHAT_JOBS:
		return answer_jobs(a);
	case MU__WHAT__WHAT_STEPS:
		return answer_steps(a);
	case MU__WHAT__WHAT_NODES:
		return answer_nodes(a);
	case MU__WHAT__WHAT_PARTITIONS:
		return answer_all(a, SCH_ROW_PARTITION, add_partition);
	case MU__WHAT__WHAT_CONFIG:
		return answer_all(a, SCH_ROW_CONFIG, add_any);
	case MU__WHAT__WHAT_CLUSTER:
		return answer_all(a, SCH_ROW_CLUSTER, add_any);
	case MU__WHAT__WHAT_ACCT:
		return answer_acct(a);
	case MU__WHAT__WHAT_KEYS:
		if (!a->caller->operator)
			return mu_fail(a->err, MU_EPERM, "the keys of nodes are shown to operators only");
		return answer_all(a, SCH_ROW_NODE_KEY, add_any);
	case MU__WHAT__WHAT_ACCOUNTS:
	case MU__WHAT__WHAT_USERS:
	case MU__WHAT__WHAT_ASSOCS:
		return answer_people(a);
	case MU__WHAT__WHAT_QOS:
		return answer_all(a, SCH_ROW_QOS, add_any);
	case MU__WHAT__WHAT_MOMENTS:
		return answer_moments(a);
	case MU__WHAT__WHAT_ACTS:
		return answer_acts(a);
	case MU__WHAT__WHAT_PLAN:
		return answer_plan(a);
	case MU__WHAT__WHAT_USAGE:
		return answer_usage(a);
	case MU__WHAT__WHAT_WHY:
		return answer_why(a);
	case MU__WHAT__WHAT_RESERVATIONS:
		return answer_reservations(a);
	case MU__WHAT__WHAT_SHARES:
	case MU__WHAT__WHAT_PRIORITY:
		return answer_computed(a);
	default:
		return mu_fail(a->err, MU_EINVAL, "a query of kind %d is unknown to this controller",
			       (int)a->query->what);
	}
}

/* Node filters are host lists; the names are kept as a set. */
static int expand_nodes(struct answer *a)
{
	for (size_t i = 0; i < a->query->n_node; i++) {
		char **names;
		size_t count;
		int code =
		    mu_hostlist_expand(a->query->node[i], ANSWER_HOSTS_MAX, a->arena, &names, &count, a->err);
		if (code)
			return code;
		for (size_t k = 0; k < count; k++)
			mu_map_put_str(&a->nodes, names[k], names);
	}
	return 0;
}

/* Says of an answer that reaches into what was let go from when on it is whole. */
static void tell_kept(const struct answer *a, Mu__Rows *ret)
{
	static const struct {
		Mu__What what;
		enum mu_keep_tier tier;
		bool of_jobs; /* asked for by number: told where nothing was found */
	} rules[] = {
	    {MU__WHAT__WHAT_ACCT, MU_KEEP_JOBS, true},	  {MU__WHAT__WHAT_USAGE, MU_KEEP_JOBS, false},
	    {MU__WHAT__WHAT_USAGE, MU_KEEP_NODES, false}, {MU__WHAT__WHAT_USAGE, MU_KEEP_RESERVATIONS, false},
	    {MU__WHAT__WHAT_MOMENTS, MU_KEEP_JOBS, true}, {MU__WHAT__WHAT_MOMENTS, MU_KEEP_NODES, false},
	    {MU__WHAT__WHAT_ACTS, MU_KEEP_ACTS, false}};
	const Mu__Query *q = a->query;

	for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
		int64_t usec = view__kept_usec(a->source.v, rules[i].tier);
		if (q->what != rules[i].what || usec <= ret->kept_from_usec)
			continue;
		if (q->n_job ? !rules[i].of_jobs || a->count || q->after_key.len : q->from_usec >= usec)
			continue;
		ret->has_kept_from_usec = 1;
		ret->kept_from_usec = usec;
		ret->kept_rule = (char *)mu_keep_key(rules[i].tier);
	}
}

int query_rows(struct view *v, const Mu__Query *query, const struct query_caller *caller,
	       struct mu_arena *arena, Mu__Rows *ret, struct mu_err *err)
{
	struct answer a = {.query = query, .caller = caller, .arena = arena, .err = err};
	int code = source_open(v, query->at, &a.source, err);

	if (code)
		return code;
	pthread_mutex_lock(&v->lock);
	a.private_data = v->private_data;
	pthread_mutex_unlock(&v->lock);
	a.limit = query->page_bytes ? query->page_bytes : ANSWER_PAGE_DEFAULT;
	if (a.limit > ANSWER_PAGE_MAX)
		a.limit = ANSWER_PAGE_MAX;
	code = expand_nodes(&a);
	if (code == 0 && query->skip_hidden && !caller->operator)
		code = source_each(&a.source, SCH_ROW_PARTITION, (struct mu_view){0}, (struct mu_view){0},
				   add_hidden, &a, err);
	if (code == 0)
		code = answer_what(&a);
	if (code == 0 || code == ANSWER_FULL) {
		mu__rows__init(ret);
		ret->row = a.row;
		ret->n_row = a.count;
		ret->has_pos = ret->has_now_usec = true;
		ret->pos = a.source.pos;
		ret->now_usec = a.source.now_usec;
		tell_kept(&a, ret);
		if (a.more) {
			ret->has_next_key = true;
			ret->next_key =
			    (ProtobufCBinaryData){.len = a.last_key.len, .data = (uint8_t *)a.last_key.data};
		}
		code = 0;
	}
	mu_map_clear(&a.nodes);
	mu_map_clear(&a.hidden);
	source_close(&a.source);
	return code;
}
