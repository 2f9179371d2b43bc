/* sched/help.c: what would have let a waiting job start sooner: the smallest change of one thing that it asks
 * for. Each candidate is tried the way it would happen: State is copied, the change is folded into the copy
 * as an update by the job's owner, and passes are decided and folded until nothing is left to decide. */
#include "sched/timeline.h"

#include "proto/pb.h"
#include "proto/why.pb-c.h"

/* Rows copied for one answer: some seconds of a reader's time. A candidate costs as many as State has. */
enum { HELP_ROWS_MAX = 2000000, HELP_SLICES_MAX = 256, HELP_BUDGET = 1000000, HELP_LIST_MAX = 32 };

/* ---- a copy ---- */

struct copying {
	struct sch_state *to;
	struct mu_err *err;
	uint64_t rows;
};

static int copy_row(void *arg, const struct sch_key *key, const uint8_t *row, size_t len)
{
	struct copying *c = arg;
	c->rows++;
	/* Decisions look at neither. */
	if (key->kind == SCH_ROW_ANSWER || key->kind == SCH_ROW_STEP)
		return 0;
	return sch_load_row(c->to, key->kind, row, len, c->err);
}

/* What decides of ST, given to the caller: not its answers and steps. NULL when it does not load. */
struct sch_state *sch__copy(const struct sch_state *st, uint64_t *rows)
{
	struct mu_err err = {0};
	struct copying c = {.to = sch_state_new(), .err = &err};
	int rc = 0;
	for (uint8_t kind = SCH_ROW_CLUSTER; kind < SCH_ROW_KINDS && !rc; kind++)
		if (kind != SCH_ROW_ANSWER && kind != SCH_ROW_STEP)
			rc = sch_rows(st, kind, copy_row, &c);
	if (!rc)
		rc = sch_load_done(c.to, &err);
	*rows += c.rows;
	return rc ? sch_state_free(c.to) : c.to;
}

/* ---- one candidate ---- */

struct search {
	const struct sch_state *st;
	const struct sch_job *j;
	const Mu__JobSpec *spec;
	struct mu_arena *arena;
	int64_t by_usec;
	uint64_t rows;
	Mu__WhyRow *ret;
	/* The last that helped: */
	int64_t start_usec;
	char *nodes;
	bool decided;
};

int sch__copy_fold(struct sch_state *st, Mu__Event *event, struct sch_changes *changes,
		   struct mu_err *ret_err)
{
	struct sch_at at = {.pos = st->cluster->entries + 1, .time_usec = st->cluster->now_usec};
	struct sch_verdict verdict = {0};
	struct mu_err err = {0};
	struct mu_buf bytes MU_CLEANUP(mu_buf_free) = {0};
	mu_pb_pack(&event->base, &bytes);
	int rc = sch_evolve(st, &at, bytes.data, bytes.len, &verdict, changes, &err);
	sch_entry_done(st, at.pos, at.time_usec, changes);
	sch_changes_reset(changes);
	if (ret_err && (rc || verdict.code))
		mu_fail(ret_err, rc ? rc : verdict.code, "%s", rc ? err.text : verdict.text);
	return rc ? rc : verdict.code;
}

void sch__copy_settle(struct sch_state *st, struct sch_changes *changes)
{
	struct mu_arena arena = {0};
	Mu__Event *event = NULL;
	Mu__Author leader = MU__AUTHOR__INIT;
	leader.verifier = (char *)"controller";
	for (int i = 0; i < HELP_SLICES_MAX && sch_wants_decide(st); i++) {
		if (sch_decide(st, HELP_BUDGET, &arena, &event) || !event)
			break;
		event->author = &leader;
		if (sch__copy_fold(st, event, changes, NULL))
			break;
		mu_arena_reset(&arena);
	}
	mu_arena_free(&arena);
}

/* When the job starts in ST, all decided; 0: nobody can say. */
static int64_t start_in(struct search *s, const struct sch_state *st)
{
	const struct sch_job *j = sch__job(st, s->j->id);
	Mu__WaitRow *wait = NULL;
	if (!j)
		return 0;
	s->decided = j->state == JOB_RUNNING;
	if (s->decided) {
		s->nodes = mu_arena_strdup(s->arena, sch__text(j->run->node_list));
		return j->start_usec;
	}
	if (s->by_usec <= st->cluster->now_usec || sch_explain_wait(st, j->id, s->arena, &wait))
		return 0;
	/* A limit, a dependency or a hold gives no moment. */
	if (!wait->start_usec || wait->limit ||
	    (j->reason != REASON_Resources && j->reason != REASON_Priority))
		return 0;
	s->nodes = wait->start_nodes;
	return wait->start_usec;
}

static const Mu__Author *owner_of(const struct search *s)
{
	const struct sch_person *who = s->j->who;
	Mu__Author *a = mu_arena_alloc(s->arena, sizeof(*a));
	mu__author__init(a);
	SCH_SET(a, uid, who->uid);
	a->has_uid = 1;
	SCH_SET(a, gid, who->gid);
	a->user = (char *)sch__text(who->user);
	a->group = (char *)sch__text(who->group);
	a->groups = (uint32_t *)who->groups;
	a->n_groups = who->group_count;
	a->verifier = (char *)"socket";
	return a;
}

/* True when the job, changed by CHANGE (NULL: not at all), starts by the moment asked for. */
static bool helps(struct search *s, Mu__JobSpec *change)
{
	struct sch_changes changes = {0};
	if (s->rows > HELP_ROWS_MAX)
		return false;
	struct sch_state *st = sch__copy(s->st, &s->rows);
	int rc = st ? 0 : MU_ECORRUPT;
	s->ret->help_tried++;
	if (!rc && change) {
		Mu__Event event = MU__EVENT__INIT;
		Mu__JobUpdate update = MU__JOB_UPDATE__INIT;
		SCH_SET(&update, job, s->j->id);
		update.spec = change;
		event.author = (Mu__Author *)owner_of(s);
		event.kind_case = MU__EVENT__KIND_JOB_UPDATE;
		event.job_update = &update;
		rc = sch__copy_fold(st, &event, &changes, NULL);
	}
	int64_t start = 0;
	if (!rc) {
		sch__copy_settle(st, &changes);
		start = start_in(s, st);
	}
	sch_changes_free(&changes);
	sch_state_free(st);
	bool yes = start && (s->decided || start <= s->by_usec);
	if (yes)
		s->start_usec = start;
	return yes;
}

static void found(struct search *s, const char *what, char *from, char *to)
{
	Mu__Help *h = mu_arena_alloc(s->arena, sizeof(*h));
	mu__help__init(h);
	h->what = mu_arena_strdup(s->arena, what);
	h->from = from;
	h->to = to;
	SCH_SET(h, start_usec, s->start_usec);
	SCH_SET(h, decided, s->decided);
	h->nodes = s->nodes;
	if (s->ret->n_help < HELP_LIST_MAX)
		s->ret->help[s->ret->n_help++] = h;
}

/* ---- the largest number below the present one that helps ---- */

typedef void (*number_fn)(const struct search *s, Mu__JobSpec *change, uint64_t value);

static void set_limit(const struct search *s, Mu__JobSpec *change, uint64_t value)
{
	change->has_time_limit_sec = 1;
	change->time_limit_sec = (int64_t)value * 60;
}

static void set_nodes(const struct search *s, Mu__JobSpec *change, uint64_t value)
{
	change->has_nodes_min = change->has_nodes_max = 1;
	change->nodes_min = change->nodes_max = (uint32_t)value;
	if (s->spec->has_ntasks && s->spec->ntasks_per_node) {
		change->has_ntasks = 1;
		change->ntasks = (uint32_t)value * s->spec->ntasks_per_node;
	}
}

static void set_tasks(const struct search *s, Mu__JobSpec *change, uint64_t value)
{
	change->has_ntasks = 1;
	change->ntasks = (uint32_t)value;
}

static void set_task_cpus(const struct search *s, Mu__JobSpec *change, uint64_t value)
{
	change->has_cpus_per_task = 1;
	change->cpus_per_task = (uint32_t)value;
}

static void set_memory(const struct search *s, Mu__JobSpec *change, uint64_t value)
{
	if (s->j->mem_cpu_mib) {
		change->has_mem_cpu_mib = 1;
		change->mem_cpu_mib = value;
	} else {
		change->has_mem_node_mib = 1;
		change->mem_node_mib = value;
	}
}

static void set_devices(const struct search *s, Mu__JobSpec *change, uint64_t value)
{
	change->gres = mu_arena_alloc(s->arena, sizeof(change->gres[0]) * s->spec->n_gres);
	change->n_gres = s->spec->n_gres;
	for (size_t i = 0; i < change->n_gres; i++)
		change->gres[i] = mu_arena_dup(s->arena, s->spec->gres[i], sizeof(Mu__GresAsk));
	change->gres[0]->has_count = 1;
	change->gres[0]->count = value;
}

static bool number_helps(struct search *s, number_fn set, uint64_t value)
{
	Mu__JobSpec change = MU__JOB_SPEC__INIT;
	set(s, &change, value);
	return helps(s, &change);
}

/* Fewer is never worse, so halves find it: LEAST is tried first. */
static bool largest(struct search *s, number_fn set, uint64_t least, uint64_t present, uint64_t *ret)
{
	if (present <= least || !number_helps(s, set, least))
		return false;
	uint64_t good = least, bad = present;
	int64_t start = s->start_usec;
	char *nodes = s->nodes;
	bool decided = s->decided;
	while (bad - good > (good >> 6) + 1 || (good < 64 && bad - good > 1)) {
		uint64_t middle = good + (bad - good) / 2;
		if (number_helps(s, set, middle)) {
			good = middle;
			start = s->start_usec;
			nodes = s->nodes;
			decided = s->decided;
		} else {
			bad = middle;
		}
	}
	s->start_usec = start;
	s->nodes = nodes;
	s->decided = decided;
	*ret = good;
	return true;
}

static void try_number(struct search *s, const char *what, number_fn set, uint64_t least, uint64_t present)
{
	uint64_t value;
	if (!largest(s, set, least, present, &value))
		return;
	found(s, what, mu_arena_printf(s->arena, "%llu", (unsigned long long)present),
	      mu_arena_printf(s->arena, "%llu", (unsigned long long)value));
}

static void try_numbers(struct search *s)
{
	const struct sch_job *j = s->j;
	int64_t limit = sch__job_limit_in(j, sch__first_part(s->st, j));
	/* A year stands for no limit. */
	try_number(s, "TimeLimit", set_limit, 1,
		   limit < 0 ? (uint64_t)SCH_NO_LIMIT_SEC / 60 : (uint64_t)(limit + 59) / 60);
	try_number(s, "Nodes", set_nodes, 1, j->nodes_min);
	if (s->spec->ntasks > 1)
		try_number(s, "Tasks", set_tasks, j->nodes_min > 0 ? j->nodes_min : 1, s->spec->ntasks);
	if (s->spec->cpus_per_task > 1)
		try_number(s, "CPUs/Task", set_task_cpus, 1, s->spec->cpus_per_task);
	try_number(s, j->mem_cpu_mib ? "MinMemoryCPU" : "MinMemoryNode", set_memory, 1,
		   j->mem_cpu_mib ? j->mem_cpu_mib : j->mem_node_mib);
	if (s->spec->n_gres)
		try_number(s, s->spec->gres[0]->name, set_devices, 1, s->spec->gres[0]->count);
}

/* ---- another partition, another QOS ---- */

static void try_partitions(struct search *s)
{
	const struct sch_part *own = sch__first_part(s->st, s->j);
	for (uint32_t i = 0; i < s->st->part_count; i++) {
		const struct sch_part *p = s->st->part[i];
		Mu__JobSpec change = MU__JOB_SPEC__INIT;
		char *name = p->row->conf->name;
		if (p == own || p->state != SCH_PART_UP)
			continue;
		change.partition = &name;
		change.n_partition = 1;
		if (helps(s, &change))
			found(s, "Partition", mu_arena_strdup(s->arena, own->row->conf->name),
			      mu_arena_strdup(s->arena, name));
	}
}

static void try_qos(struct search *s)
{
	const uint8_t *key = NULL;
	size_t len = 0;
	const struct mu_map *all = &s->st->accounts.qos;
	if (!s->st->accounts.policy.qos)
		return;
	for (const struct sch_qos *q = mu_map_seek(all, NULL, 0, 0, &key, &len); q;
	     q = mu_map_seek(all, key, len, 1, &key, &len)) {
		Mu__JobSpec change = MU__JOB_SPEC__INIT;
		if (sch__same(q->row->name, sch__text(s->j->qos)))
			continue;
		change.qos = q->row->name;
		if (helps(s, &change))
			found(s, "QOS", mu_arena_strdup(s->arena, sch__text(s->j->qos)),
			      mu_arena_strdup(s->arena, q->row->name));
	}
}

int sch_explain_help(const struct sch_state *st, uint32_t id, int64_t by_usec, struct mu_arena *arena,
		     Mu__WhyRow *ret)
{
	const struct sch_job *j = sch__job(st, id);
	struct search s = {.st = st, .j = j, .arena = arena, .by_usec = by_usec, .ret = ret};
	if (!j || j->state != JOB_PENDING || !sch__first_part(st, j))
		return MU_ENOENT;
	s.spec = sch__spec_open(j->spec, arena);
	ret->help = mu_arena_alloc(arena, HELP_LIST_MAX * sizeof(ret->help[0]));
	ret->n_help = 0;
	ret->has_help_tried = ret->has_help_pos = ret->has_help_by_usec = 1;
	ret->help_tried = 0;
	ret->help_pos = st->cluster->entries;
	ret->help_by_usec = by_usec;
	if (helps(&s, NULL)) {
		found(&s, "nothing", NULL, NULL);
		return 0;
	}
	try_numbers(&s);
	try_partitions(&s);
	try_qos(&s);
	return 0;
}
