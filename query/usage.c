/* query/usage.c: what was used in a window of time, integrated exactly over the allocations of jobs and the
 * states of nodes.
 *
 * A job holds what it was allocated from its start to its end; a second belongs to the window in which it
 * begins. So windows that meet add up, and each job's seconds are computed once: whatever they are grouped
 * by, the sums are the same. A node reports from when it was first known; it is down while its state is DOWN
 * or UNKNOWN, drained or failing, as far as no job holds it then. */
#include "query/answer.h"

#include <stdio.h>

#include "proto/pb.h"
#include "proto/states.h"

enum { HIST_JOB = 1, GROUPS_MAX = 1000000, NODE_LIFE_MAX = 20000 };

#define SEC INT64_C(1000000)

struct down {
	int64_t from, to; /* seconds */
};
struct node {
	char *name;
	int64_t since;
	struct down *down;
	size_t downs;
	Mu__NodeRow *row;
	Mu__UsageRow *use;    /* what jobs held of it */
	Mu__UsageRow *hidden; /* of that, while it was down */
};
struct usage {
	struct answer *a;
	int64_t from, to; /* seconds */
	struct mu_map group, node;
	Mu__UsageRow *waited; /* what eligible jobs asked for while they waited */
	size_t groups;
};

static int64_t floor_sec(int64_t usec)
{
	return usec / SEC;
}

/* Seconds of [BEGIN, END) microseconds within [FROM, TO) seconds; END 0: it lasts. */
static int64_t overlap(int64_t begin, int64_t end, int64_t from, int64_t to)
{
	int64_t x = floor_sec(begin), y = end ? floor_sec(end) : to;

	x = x > from ? x : from;
	y = y < to ? y : to;
	return y > x ? y - x : 0;
}

/* ---- sums ---- */

static Mu__UsageRow *row_new(struct usage *u, uint32_t kind)
{
	Mu__UsageRow *r = mu_arena_alloc(u->a->arena, sizeof *r);

	mu__usage_row__init(r);
	r->has_kind = 1;
	r->kind = kind;
	return r;
}

static void add(struct usage *u, Mu__UsageRow *r, const char *tres, int64_t amount)
{
	if (!amount)
		return;
	for (size_t i = 0; i < r->n_used; i++)
		if (strcmp(r->used[i]->name, tres) == 0) {
			r->used[i]->count += amount;
			return;
		}
	Mu__TresCount **v = mu_arena_alloc(u->a->arena, (r->n_used + 1) * sizeof *v);
	Mu__TresCount *t = mu_arena_alloc(u->a->arena, sizeof *t);
	if (r->n_used)
		memcpy(v, r->used, r->n_used * sizeof *v);
	mu__tres_count__init(t);
	t->name = mu_arena_strdup(u->a->arena, tres);
	t->has_count = 1;
	t->count = amount;
	v[r->n_used++] = t;
	r->used = v;
}

static void add_gres(struct usage *u, Mu__UsageRow *r, const char *name, const char *type, int64_t amount)
{
	char text[300];

	snprintf(text, sizeof text, "gres/%s", name ? name : "?");
	add(u, r, text, amount);
	if (!type || !*type)
		return;
	snprintf(text, sizeof text, "gres/%s:%s", name ? name : "?", type);
	add(u, r, text, amount);
}

static void add_alloc(struct usage *u, Mu__UsageRow *r, const Mu__AllocNode *n, int64_t sec)
{
	add(u, r, "cpu", sec * n->cpus);
	add(u, r, "mem", sec * (int64_t)n->mem_mib);
	add(u, r, "node", sec);
	for (size_t i = 0; i < n->n_gres; i++)
		add_gres(u, r, n->gres[i]->name, n->gres[i]->type, sec * (int64_t)n->gres[i]->count);
}

static char *copy(struct usage *u, const char *text)
{
	return mu_arena_strdup(u->a->arena, text ? text : "");
}

/* The group that the job belongs to: of equal account, user, partition, QOS, wckey and number of CPUs. */
static Mu__UsageRow *group_of(struct usage *u, const Mu__JobRow *j, uint32_t cpus)
{
	char key[240];
	int n = snprintf(key, sizeof key, "%s%c%s%c%s%c%s%c%s%c%u", j->account ? j->account : "", 1,
			 j->user ? j->user : "", 1, j->partition ? j->partition : "", 1, j->qos ? j->qos : "",
			 1, j->spec && j->spec->wckey ? j->spec->wckey : "", 1, cpus);
	size_t len = n < (int)sizeof key ? (size_t)n : sizeof key - 1;
	Mu__UsageRow *r = mu_map_get(&u->group, key, len);

	if (r)
		return r;
	r = row_new(u, 1);
	r->account = copy(u, j->account);
	r->user = copy(u, j->user);
	r->partition = copy(u, j->partition);
	r->qos = copy(u, j->qos);
	r->wckey = copy(u, j->spec ? j->spec->wckey : NULL);
	r->has_cpus = r->has_jobs = r->has_uid = 1;
	r->cpus = cpus;
	r->uid = j->uid;
	mu_map_put(&u->group, key, len, r);
	u->groups++;
	return r;
}

/* ---- nodes ---- */

static bool is_down(const Mu__NodeRow *n)
{
	return n->base_state == NODE_DOWN || n->base_state == NODE_UNKNOWN ||
	       (n->flags & (NODE_FLAG_DRAIN | NODE_FLAG_FAIL));
}

static int node_life(struct usage *u, struct node *n)
{
	Mu__Moment **life;
	size_t count;
	int code = answer_life(u->a, 0, n->name, 0, NODE_LIFE_MAX, &life, &count);

	n->since = count ? floor_sec(life[0]->time_usec) : u->from;
	n->down = mu_arena_alloc(u->a->arena, (count + 1) * sizeof *n->down);
	for (size_t i = 0; i < count; i++) {
		int64_t at = floor_sec(life[i]->time_usec);
		bool down = life[i]->node && is_down(life[i]->node);
		bool open = n->downs && n->down[n->downs - 1].to == INT64_MAX;
		if (down && !open)
			n->down[n->downs++] = (struct down){at, INT64_MAX};
		else if (!down && open)
			n->down[n->downs - 1].to = at;
	}
	return code;
}

static int add_node(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err)
{
	struct usage *u = arg;
	struct node *n = mu_arena_alloc(u->a->arena, sizeof *n);

	(void)err;
	n->name = mu_arena_alloc(u->a->arena, key.len + 1);
	memcpy(n->name, key.data, key.len);
	n->row = (Mu__NodeRow *)mu_pb_unpack(&mu__node_row__descriptor, row.data, row.len, u->a->arena);
	n->use = row_new(u, 2);
	n->use->node = n->name;
	n->hidden = row_new(u, 0);
	mu_map_put(&u->node, key.data, key.len, n);
	return 0;
}

static void node_held(struct usage *u, const Mu__JobRow *j, const Mu__AllocNode *alloc, int64_t sec)
{
	struct node *n = alloc->node ? mu_map_get_str(&u->node, alloc->node) : NULL;

	if (!n)
		return;
	add_alloc(u, n->use, alloc, sec);
	for (size_t i = 0; i < n->downs; i++) {
		int64_t from = n->down[i].from > u->from ? n->down[i].from : u->from;
		int64_t to = n->down[i].to < u->to ? n->down[i].to : u->to;
		int64_t hidden = to > from ? overlap(j->start_usec, j->end_usec, from, to) : 0;
		if (hidden)
			add_alloc(u, n->hidden, alloc, hidden);
	}
}

static int64_t used_of(const Mu__UsageRow *r, const char *tres)
{
	for (size_t i = 0; i < r->n_used; i++)
		if (strcmp(r->used[i]->name, tres) == 0)
			return r->used[i]->count;
	return 0;
}

static void node_tres(struct usage *u, const struct node *n, const char *tres, int64_t have, int64_t known,
		      int64_t down, Mu__UsageRow *total, Mu__UsageRow *away)
{
	(void)u;
	add(u, total, tres, have * known);
	/* What a job holds of a node that drains is held, not down. */
	int64_t lost = have * down - used_of(n->hidden, tres);
	add(u, away, tres, lost > 0 ? lost : 0);
}

/* The node's share of what the cluster reports and of what was down. */
static void node_totals(struct usage *u, const struct node *n, Mu__UsageRow *total, Mu__UsageRow *away)
{
	const Mu__NodeRow *row = n->row;
	int64_t from = n->since > u->from ? n->since : u->from, down = 0;
	int64_t known = u->to > from ? u->to - from : 0;
	char text[300];

	for (size_t i = 0; i < n->downs; i++) {
		int64_t x = n->down[i].from > from ? n->down[i].from : from;
		int64_t y = n->down[i].to < u->to ? n->down[i].to : u->to;
		down += y > x ? y - x : 0;
	}
	if (!row || row->base_state == NODE_FUTURE)
		return;
	node_tres(u, n, "cpu", row->cpus, known, down, total, away);
	node_tres(u, n, "mem", (int64_t)row->real_memory_mib, known, down, total, away);
	node_tres(u, n, "node", 1, known, down, total, away);
	for (size_t i = 0; i < row->n_gres; i++) {
		const Mu__GresHave *g = row->gres[i];
		snprintf(text, sizeof text, "gres/%s", g->name ? g->name : "?");
		node_tres(u, n, text, (int64_t)g->count, known, down, total, away);
		if (!g->type || !*g->type)
			continue;
		snprintf(text, sizeof text, "gres/%s:%s", g->name ? g->name : "?", g->type);
		node_tres(u, n, text, (int64_t)g->count, known, down, total, away);
	}
}

/* ---- jobs ---- */

static int take_job(struct answer *a, struct mu_view hist_row)
{
	struct usage *u = a->each_arg;
	struct mu_arena arena = {0};
	struct mu_view face = pick_bytes(hist_row, HIST_JOB);
	const Mu__JobRow *j =
	    (Mu__JobRow *)mu_pb_unpack(&mu__job_row__descriptor, face.data, face.len, &arena);
	int64_t sec = 0;

	if (j && j->eligible_usec && j->eligible_usec <= a->source.now_usec) {
		int64_t until = j->start_usec ? j->start_usec : j->end_usec;
		add(u, u->waited, "cpu", overlap(j->eligible_usec, until, u->from, u->to) * j->cpus_total);
	}
	if (j && j->start_usec)
		sec = overlap(j->start_usec, j->end_usec, u->from, u->to);
	/* A job that began within the window counts as one of it, however short it was. */
	bool began =
	    j && j->start_usec && floor_sec(j->start_usec) >= u->from && floor_sec(j->start_usec) < u->to;
	if (sec || began) {
		uint32_t cpus = 0;
		for (size_t i = 0; i < j->n_alloc; i++)
			cpus += j->alloc[i]->cpus;
		Mu__UsageRow *r = group_of(u, j, cpus ? cpus : j->cpus_total);
		r->jobs += began;
		for (size_t i = 0; i < j->n_alloc && sec; i++) {
			add_alloc(u, r, j->alloc[i], sec);
			node_held(u, j, j->alloc[i], sec);
		}
		if (sec)
			add(u, r, "billing", sec * (int64_t)(j->billing ? j->billing : cpus));
	}
	mu_arena_free(&arena);
	return u->groups > GROUPS_MAX
		   ? mu_fail(a->err, MU_ELIMIT, "more than %d groups; ask for a shorter time", GROUPS_MAX)
		   : 0;
}

/* ---- the answer ---- */

static int send(struct answer *a, const Mu__UsageRow *r)
{
	uint8_t key[1] = {0};
	size_t len = protobuf_c_message_get_packed_size(&r->base);
	uint8_t *room = mu_arena_alloc(a->arena, len ? len : 1);

	protobuf_c_message_pack(&r->base, room);
	answer_add(a, room, len, key, sizeof key);
	return a->bytes > ANSWER_PAGE_MAX
		   ? mu_fail(a->err, MU_ELIMIT, "the answer is too large; ask for a shorter time")
		   : 0;
}

static int send_all(struct usage *u)
{
	Mu__UsageRow *total = row_new(u, 3), *away = row_new(u, 4);
	const uint8_t *key = NULL;
	size_t len = 0;
	int code = 0;

	for (Mu__UsageRow *r = mu_map_seek(&u->group, NULL, 0, 0, &key, &len); r && !code;
	     r = mu_map_seek(&u->group, key, len, 1, &key, &len))
		code = send(u->a, r);
	key = NULL;
	for (struct node *n = mu_map_seek(&u->node, NULL, 0, 0, &key, &len); n && !code;
	     n = mu_map_seek(&u->node, key, len, 1, &key, &len)) {
		node_totals(u, n, total, away);
		code = send(u->a, n->use);
	}
	code = code ? code : send(u->a, total);
	code = code ? code : send(u->a, away);
	return code ? code : send(u->a, u->waited);
}

int answer_usage(struct answer *a)
{
	struct usage u = {.a = a};
	Mu__Query query = *a->query;
	int code;

	if (!a->query->from_usec || !a->query->to_usec || a->query->to_usec <= a->query->from_usec)
		return mu_fail(a->err, MU_EINVAL,
			       "a window of time is needed, and its end must lie behind its start");
	if (a->query->after_key.len)
		return 0; /* one page */
	u.from = floor_sec(a->query->from_usec);
	u.to = floor_sec(a->query->to_usec < a->source.now_usec ? a->query->to_usec : a->source.now_usec);
	u.waited = row_new(&u, 5);
	query.has_duplicates = query.duplicates = 1;
	query.n_state = 0;
	const Mu__Query *asked = a->query;
	a->query = &query;
	a->each = take_job;
	a->each_arg = &u;
	code = source_each(&a->source, SCH_ROW_NODE, (struct mu_view){0}, (struct mu_view){0}, add_node, &u,
			   a->err);
	const uint8_t *key = NULL;
	size_t len = 0;
	for (struct node *n = mu_map_seek(&u.node, NULL, 0, 0, &key, &len); n && !code;
	     n = mu_map_seek(&u.node, key, len, 1, &key, &len))
		code = node_life(&u, n);
	if (!code)
		code = answer_acct(a);
	if (!code)
		code = send_all(&u);
	a->query = asked;
	mu_map_clear(&u.group);
	mu_map_clear(&u.node);
	return code;
}
