/* sched/sim/sim.c: see sim.h. A heap of moments; at each the event, then passes until the core is at rest. */
#include "sched/sim/sim.h"

#include <assert.h>
#include <stdlib.h>

#include "proto/conf.h"
#include "sched/state.h"

/* Ticks in a row after which nothing has started and nobody ran: nothing will. A year of them every five
 * minutes. */
#define IDLE_TICKS 110000u

enum kind { ACT, SUBMIT, END, CANCEL };
struct moment {
	int64_t usec;
	uint32_t job; /* or act */
	uint8_t kind;
};
struct live {		     /* what the outside knows of a job */
	int64_t end_usec;    /* 0: it does not run */
	int64_t paused_usec; /* when it was suspended */
	uint32_t attempt, cpus;
	bool counted;
};
struct sch_sim {
	struct sch_state *st;
	struct sch_changes changes;
	struct mu_arena arena, slice;
	struct mu_buf buf;
	int64_t now_usec;
	struct sch_sim_job *job;
	uint32_t job_count;
	struct live *live;
	const struct sch_sim_act *act;
	uint32_t act_count;
	struct moment *heap;
	size_t heap_count, heap_cap;
	uint32_t *by_id; /* index + 1 of the job with the id FIRST_ID + i */
	uint32_t first_id, id_cap;
	const struct sch_sim_watch *watch;
	const struct sch_sim_tap *tap;
	struct mu_buf tapped; /* events of the entry that is open, one behind the other */
	size_t *part_end, parts, part_cap;
	int tap_code; /* what the tap returned */
	struct sch_sim_figures f;
	uint64_t cpus_held;
	int64_t held_since_usec;
};

/* ---- the heap ---- */

static bool before(const struct moment *a, const struct moment *b)
{
	if (a->usec != b->usec)
		return a->usec < b->usec;
	if ((a->kind == ACT) != (b->kind == ACT))
		return a->kind == ACT;
	return a->job != b->job ? a->job < b->job : a->kind < b->kind;
}

static void push(struct sch_sim *s, int64_t usec, uint32_t job, enum kind kind)
{
	if (s->heap_count == s->heap_cap) {
		s->heap_cap = s->heap_cap ? 2 * s->heap_cap : 1024;
		s->heap = realloc(s->heap, s->heap_cap * sizeof(s->heap[0]));
		if (!s->heap)
			abort();
	}
	struct moment m = {.usec = usec, .job = job, .kind = (uint8_t)kind};
	size_t i = s->heap_count++;
	for (; i && before(&m, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
		s->heap[i] = s->heap[(i - 1) / 2];
	s->heap[i] = m;
}

static struct moment pop(struct sch_sim *s)
{
	struct moment top = s->heap[0], last = s->heap[--s->heap_count];
	size_t i = 0, child;
	while ((child = 2 * i + 1) < s->heap_count) {
		if (child + 1 < s->heap_count && before(&s->heap[child + 1], &s->heap[child]))
			child++;
		if (!before(&s->heap[child], &last))
			break;
		s->heap[i] = s->heap[child];
		i = child;
	}
	s->heap[i] = last;
	return top;
}

/* ---- events ---- */

static void hold(struct sch_sim *s, int64_t cpus)
{
	s->f.busy_cpu_usec += s->cpus_held * (uint64_t)(s->now_usec - s->held_since_usec);
	s->held_since_usec = s->now_usec;
	s->cpus_held = (uint64_t)((int64_t)s->cpus_held + cpus);
}

static Mu__Event *blank(struct sch_sim *s, Mu__Event__KindCase kind, const char *verifier)
{
	Mu__Event *e = mu_arena_alloc(&s->arena, sizeof(*e));
	mu__event__init(e);
	e->kind_case = kind;
	e->author = mu_arena_alloc(&s->arena, sizeof(*e->author));
	mu__author__init(e->author);
	e->author->verifier = (char *)verifier;
	SCH_SET(e->author, operator_, true);
	return e;
}

static int tell(struct sch_sim *s, enum sch_sim_what what, uint32_t job, const Mu__Start *start)
{
	if (!s->watch || !s->watch->tell)
		return 0;
	return s->watch->tell(s->watch->arg, what, job, start, s->buf.data, s->buf.len);
}

/* The event in BUF belongs to the entry that is open. */
static void keep_part(struct sch_sim *s)
{
	mu_buf_add(&s->tapped, s->buf.data, s->buf.len);
	if (s->parts == s->part_cap) {
		s->part_cap = s->part_cap ? 2 * s->part_cap : 64;
		s->part_end = realloc(s->part_end, s->part_cap * sizeof(s->part_end[0]));
		if (!s->part_end)
			abort();
	}
	s->part_end[s->parts++] = s->tapped.len;
}

static void tap(struct sch_sim *s)
{
	struct mu_view *event = mu_arena_alloc(&s->slice, (s->parts + 1) * sizeof(event[0]));
	for (size_t i = 0; i < s->parts; i++) {
		size_t from = i ? s->part_end[i - 1] : 0;
		event[i] = (struct mu_view){s->tapped.data + from, s->part_end[i] - from};
	}
	if (!s->tap_code)
		s->tap_code = s->tap->entry(s->tap->arg, sch_pos(s->st), s->now_usec, event, s->parts);
	mu_buf_reset(&s->tapped);
	s->parts = 0;
}

/* Folds E as part N of the entry that is open; the verdict's code. */
static int fold(struct sch_sim *s, const Mu__Event *e, uint32_t n, struct sch_verdict *v, struct mu_err *err)
{
	struct sch_at at = {.pos = sch_pos(s->st) + 1, .n = n, .time_usec = s->now_usec};
	mu_buf_reset(&s->buf);
	mu_pb_pack(&e->base, &s->buf);
	if (s->tap)
		keep_part(s);
	int rc = sch_evolve(s->st, &at, s->buf.data, s->buf.len, v, &s->changes, err);
	s->f.events++;
	if (rc)
		return rc;
	if (v->code)
		mu_fail(err, v->code, "%s", v->text);
	return v->code;
}

static void close_entry(struct sch_sim *s)
{
	sch_entry_done(s->st, sch_pos(s->st) + 1, s->now_usec, &s->changes);
	if (s->tap && s->parts)
		tap(s);
}

int sch_sim_event(struct sch_sim *s, const Mu__Event *event, struct mu_err *err)
{
	struct sch_verdict v = {0};
	int rc = fold(s, event, 0, &v, err);
	close_entry(s);
	sch_changes_reset(&s->changes);
	return rc;
}

/* ---- what became of jobs ---- */

static uint32_t index_of(const struct sch_sim *s, uint32_t id)
{
	return id >= s->first_id && id - s->first_id < s->id_cap ? s->by_id[id - s->first_id] : 0;
}

static void know_id(struct sch_sim *s, uint32_t id, uint32_t job)
{
	if (!s->id_cap)
		s->first_id = id;
	if (id < s->first_id)
		return;
	if (id - s->first_id >= s->id_cap) {
		uint32_t cap = 2 * (id - s->first_id) + 1024;
		s->by_id = realloc(s->by_id, cap * sizeof(s->by_id[0]));
		if (!s->by_id)
			abort();
		memset(s->by_id + s->id_cap, 0, (cap - s->id_cap) * sizeof(s->by_id[0]));
		s->id_cap = cap;
	}
	s->by_id[id - s->first_id] = job + 1;
}

/* The place of J in the workload, plus 1; 0: none, or several. */
static uint32_t place_of(const struct sch_sim *s, const struct sch_job *j)
{
	uint32_t base = index_of(s, sch__job_family(j));
	if (!j->array || !base)
		return base;
	return j->tasks || j->task >= s->job[base - 1].tasks ? 0 : base + j->task;
}

static int64_t length_of(const struct sch_sim_job *mine, const struct sch_job *j)
{
	int64_t limit = j->time_limit_sec >= 0 ? j->time_limit_sec * SCH_USEC : INT64_MAX;
	return mine->run_usec < limit ? mine->run_usec : limit > 0 ? limit : 1;
}

static void job_runs(struct sch_sim *s, uint32_t index, const struct sch_job *j)
{
	struct sch_sim_job *mine = &s->job[index];
	struct live *l = &s->live[index];
	if (l->paused_usec) {
		l->end_usec += s->now_usec - l->paused_usec;
		l->paused_usec = 0;
		push(s, l->end_usec, index, END);
	} else if (j->attempt != l->attempt || !l->end_usec) {
		mine->start_usec = s->now_usec;
		mine->end_usec = 0;
		s->f.starts++;
		s->f.started += l->attempt == 0;
		l->attempt = j->attempt;
		l->cpus = j->cpus_total;
		l->counted = true;
		hold(s, l->cpus);
		l->end_usec = s->now_usec + length_of(mine, j);
		push(s, l->end_usec, index, END);
	}
}

/* The nodes are asked to end it: they do, at once. */
static void job_must_end(struct sch_sim *s, uint32_t index)
{
	s->live[index].end_usec = s->now_usec;
	s->live[index].paused_usec = 0;
	push(s, s->now_usec, index, END);
}

static int job_left(struct sch_sim *s, uint32_t index)
{
	struct live *l = &s->live[index];
	l->end_usec = l->paused_usec = 0;
	if (!l->counted)
		return 0;
	l->counted = false;
	s->job[index].end_usec = s->now_usec;
	hold(s, -(int64_t)l->cpus);
	return tell(s, SCH_SIM_ENDED, index, NULL);
}

/* Looks at every job that the entry changed. */
static int look(struct sch_sim *s)
{
	int rc = 0;
	for (size_t i = 0; i < s->changes.count && !rc; i++) {
		const struct sch_change *c = &s->changes.v[i];
		if (c->key.kind != SCH_ROW_JOB || c->gone)
			continue;
		const struct sch_job *j = sch__job(s->st, mu_get_be32(c->key.bytes));
		uint32_t index = j ? place_of(s, j) : 0;
		if (!index--)
			continue;
		struct live *l = &s->live[index];
		s->job[index].id = j->id;
		s->job[index].state = j->state;
		s->job[index].restarts = j->restarts;
		if (j->state == JOB_PENDING && j->plan_start_usec > 0 && !s->job[index].planned_usec)
			s->job[index].planned_usec = j->plan_start_usec;
		if (j->state == JOB_RUNNING)
			job_runs(s, index, j);
		else if (j->state == JOB_SUSPENDED && !l->paused_usec)
			l->paused_usec = s->now_usec;
		else if (j->state == JOB_COMPLETING && l->end_usec != s->now_usec)
			job_must_end(s, index);
		else if (j->state == JOB_PENDING || mu_job_state_ended(j->state))
			rc = job_left(s, index);
	}
	sch_changes_reset(&s->changes);
	return rc;
}

/* ---- passes ---- */

static void count_slice(struct sch_sim *s, const Mu__Decided *d)
{
	s->f.decided++;
	s->f.passes += d->cursor_out == 0;
	s->f.steps += d->steps;
	s->f.steps_max = d->steps > s->f.steps_max ? d->steps : s->f.steps_max;
	s->f.planned += d->n_plan;
}

static int tell_starts(struct sch_sim *s, const Mu__Decided *d)
{
	int rc = 0;
	for (size_t i = 0; i < d->n_start && !rc; i++) {
		const struct sch_job *j = sch__job(s->st, d->start[i]->job);
		uint32_t index = index_of(s, j ? sch__job_family(j) : d->start[i]->job);
		if (index && j && j->array)
			index += d->start[i]->has_task_index ? d->start[i]->task_index : j->task;
		if (index)
			rc = tell(s, SCH_SIM_STARTED, index - 1, d->start[i]);
	}
	return rc;
}

static int settle(struct sch_sim *s, uint32_t budget, struct mu_err *err)
{
	int rc = look(s);
	while (!rc && sch_wants_decide(s->st)) {
		struct sch_verdict v = {0};
		Mu__Event *e = NULL;
		Mu__Author leader = MU__AUTHOR__INIT;
		mu_arena_reset(&s->slice);
		rc = sch_decide(s->st, budget ? budget : UINT32_MAX, &s->slice, &e);
		if (rc || !e)
			break;
		leader.verifier = (char *)"controller";
		SCH_SET(&leader, operator_, true);
		e->author = &leader;
		rc = fold(s, e, 0, &v, err);
		close_entry(s);
		if (rc)
			return mu_fail(err, MU_ECORRUPT, "a fresh decision was void: %s", v.text);
		count_slice(s, e->decided);
		rc = tell(s, SCH_SIM_EVENT, 0, NULL);
		if (!rc)
			rc = look(s);
		if (!rc)
			rc = tell_starts(s, e->decided);
	}
	if (s->st->pending > s->f.waiting_max)
		s->f.waiting_max = s->st->pending;
	return rc;
}

/* What the job waits for is not known before it has its id: the spec is the job's own but for that. */
static Mu__JobSpec *spec_of(struct sch_sim *s, const struct sch_sim_job *mine)
{
	Mu__JobSpec *spec = mine->spec;
	const struct sch_job *parent = mine->after ? sch__job(s->st, s->job[mine->after - 1].id) : NULL;
	if (!parent)
		return spec;
	spec = mu_arena_dup(&s->arena, spec, sizeof(*spec));
	spec->dependency = mu_arena_printf(&s->arena, "afterany:%u", parent->id);
	return spec;
}

static int submit(struct sch_sim *s, uint32_t index, struct mu_err *err)
{
	struct sch_sim_job *mine = &s->job[index];
	Mu__Event *e = blank(s, MU__EVENT__KIND_SUBMITTED, "socket");
	struct sch_verdict v = {0};
	struct mu_err why = {0};
	e->author = mine->author;
	e->submitted = mu_arena_alloc(&s->arena, sizeof(*e->submitted));
	mu__submitted__init(e->submitted);
	e->submitted->spec = spec_of(s, mine);
	mine->code = sch_admit(s->st, e, &why);
	if (!mine->code) {
		mine->code = fold(s, e, 0, &v, &why);
		close_entry(s);
		int rc = tell(s, SCH_SIM_EVENT, index, NULL);
		if (rc)
			return rc;
	}
	if (mine->code) {
		if (!s->f.refused++)
			*err = why; /* The first refusal is worth a word. */
		return 0;
	}
	mine->id = v.job;
	know_id(s, v.job, index);
	if (mine->cancel_usec)
		push(s, s->now_usec + mine->cancel_usec, index, CANCEL);
	return 0;
}

/* An act that does not fit is void and counted: a reservation that is not there any more, say. */
static int act(struct sch_sim *s, uint32_t index)
{
	struct sch_verdict v = {0};
	struct mu_err why = {0};
	s->f.acts++;
	if (sch_admit(s->st, s->act[index].event, &why)) {
		s->f.acts_void++;
		return 0;
	}
	s->f.acts_void += fold(s, s->act[index].event, 0, &v, &why) != 0;
	close_entry(s);
	return tell(s, SCH_SIM_EVENT, 0, NULL);
}

static int cancel(struct sch_sim *s, uint32_t index)
{
	const struct sch_job *j = sch__job(s->st, s->job[index].id);
	struct sch_verdict v = {0};
	struct mu_err why = {0};
	if (!j || mu_job_state_ended(j->state))
		return 0;
	Mu__Event *e = blank(s, MU__EVENT__KIND_JOB_SIGNAL, "socket");
	e->author = s->job[index].author;
	e->job_signal = mu_arena_alloc(&s->arena, sizeof(*e->job_signal));
	mu__job_signal__init(e->job_signal);
	e->job_signal->job = &s->job[index].id;
	e->job_signal->n_job = 1;
	(void)fold(s, e, 0, &v, &why);
	close_entry(s);
	return tell(s, SCH_SIM_EVENT, index, NULL);
}

/* Every node that still holds something says that the attempt is over: one entry. */
static int end(struct sch_sim *s, uint32_t index, struct mu_err *err)
{
	struct sch_job *j = sch__job(s->st, s->job[index].id);
	struct live *l = &s->live[index];
	uint32_t n = 0, attempt = l->attempt;
	if (!j || !j->run || l->end_usec != s->now_usec || l->paused_usec ||
	    (j->state != JOB_RUNNING && j->state != JOB_COMPLETING))
		return 0;
	bool over =
	    j->state == JOB_RUNNING && s->job[index].run_usec > l->end_usec - s->job[index].start_usec;
	uint32_t count = j->run->alloc_count;
	const char **names = mu_arena_alloc(&s->arena, (count + 1) * sizeof(names[0]));
	for (uint32_t i = 0; i < count; i++)
		names[i] = j->run->alloc[i].released
			       ? NULL
			       : mu_arena_strdup(&s->arena, j->run->alloc[i].name->text);
	for (uint32_t i = 0; i < count; i++) {
		struct sch_verdict v = {0};
		Mu__Event *e = blank(s, MU__EVENT__KIND_ATTEMPT_ENDED, "node-key");
		Mu__AttemptEnded *a = e->attempt_ended = mu_arena_alloc(&s->arena, sizeof(*a));
		if (!names[i])
			continue;
		mu__attempt_ended__init(a);
		SCH_SET(a, job, s->job[index].id);
		SCH_SET(a, attempt, attempt);
		a->node = e->author->node = (char *)names[i];
		SCH_SET(a, batch, i == 0);
		SCH_SET(a, cause, over ? (uint32_t)END_TIME_LIMIT : 0u);
		SCH_SET(a, exit_code, over ? 0 : s->job[index].exit_code);
		SCH_SET(a, released, true);
		if (fold(s, e, n++, &v, err))
			return mu_fail(err, MU_ECORRUPT, "the end of job %u was void: %s", s->job[index].id,
				       v.text);
		int rc = tell(s, SCH_SIM_EVENT, index, NULL);
		if (rc)
			return rc;
	}
	close_entry(s);
	return 0;
}

static int tick(struct sch_sim *s, struct mu_err *err)
{
	struct sch_verdict v = {0};
	Mu__Event *e = blank(s, MU__EVENT__KIND_TICK, "controller");
	e->tick = mu_arena_alloc(&s->arena, sizeof(*e->tick));
	mu__tick__init(e->tick);
	int rc = fold(s, e, 0, &v, err);
	close_entry(s);
	return rc ? rc : tell(s, SCH_SIM_EVENT, 0, NULL);
}

/* The next thing that happens; *RET_MORE false when nothing will. */
static int step(struct sch_sim *s, uint32_t *idle, uint32_t budget, bool *ret_more, struct mu_err *err)
{
	int64_t due = sch_due_usec(s->st);
	int rc;
	*ret_more = false;
	mu_arena_reset(&s->arena);
	if (due && (!s->heap_count || due <= s->heap[0].usec)) {
		if (!s->heap_count && (!s->st->pending || ++*idle > IDLE_TICKS))
			return 0;
		s->now_usec = due > s->now_usec ? due : s->now_usec;
		rc = tick(s, err);
	} else if (s->heap_count) {
		struct moment m = pop(s);
		s->now_usec = m.usec > s->now_usec ? m.usec : s->now_usec;
		*idle = 0;
		rc = m.kind == ACT	? act(s, m.job)
		     : m.kind == SUBMIT ? submit(s, m.job, err)
		     : m.kind == CANCEL ? cancel(s, m.job)
					: end(s, m.job, err);
		s->f.end_usec = s->now_usec;
	} else {
		return 0;
	}
	*ret_more = true;
	if (!rc)
		rc = settle(s, budget, err);
	return rc ? rc : s->tap_code;
}

void sch_sim_plan(struct sch_sim *s, const struct sch_sim_act *acts, uint32_t count)
{
	s->act = acts;
	s->act_count = count;
}

static int check_jobs(const struct sch_sim *s, const struct sch_sim_job *jobs, uint32_t count,
		      struct mu_err *err)
{
	for (uint32_t i = 0; i < count; i++)
		if (jobs[i].submit_usec < (i ? jobs[i - 1].submit_usec : s->now_usec))
			return mu_fail(err, MU_EINVAL, "job %u of the workload is not in order of submission",
				       i);
	for (uint32_t i = 0; i < count; i++)
		if (jobs[i].task_of
			? jobs[i].task_of > i || i >= jobs[i].task_of - 1 + jobs[jobs[i].task_of - 1].tasks
			: !!jobs[i].spec->array != !!jobs[i].tasks || jobs[i].tasks > count - i)
			return mu_fail(err, MU_EINVAL,
				       "job %u of the workload is an array without places for its tasks", i);
	return 0;
}

int sch_sim_run(struct sch_sim *s, struct sch_sim_job *jobs, uint32_t count, uint32_t budget,
		const struct sch_sim_watch *watch, struct sch_sim_figures *ret, struct mu_err *err)
{
	struct sch_counts k;
	uint32_t idle = 0;
	bool more = true;
	int rc = check_jobs(s, jobs, count, err);
	if (rc)
		return rc;
	s->job = jobs;
	s->job_count = count;
	s->watch = watch;
	s->live = calloc(count + 1, sizeof(s->live[0]));
	if (!s->live)
		abort();
	for (uint32_t i = count; i-- > 0;)
		if (!jobs[i].task_of)
			push(s, jobs[i].submit_usec, i, SUBMIT);
	for (uint32_t i = 0; i < s->act_count; i++)
		push(s, s->act[i].usec, i, ACT);
	s->f = (struct sch_sim_figures){.begin_usec = count ? jobs[0].submit_usec : s->now_usec};
	s->held_since_usec = s->now_usec;
	for (uint64_t n = 0; more && !rc; n++) {
		rc = step(s, &idle, budget, &more, err);
		if (n % 1024)
			continue;
		sch_counts(s->st, &k);
		s->f.state_bytes_max =
		    k.state_bytes > s->f.state_bytes_max ? k.state_bytes : s->f.state_bytes_max;
	}
	sch_counts(s->st, &k);
	s->f.cpus = k.cpus_total;
	for (uint32_t i = 0; i < count; i++)
		s->f.never += !jobs[i].code && !jobs[i].start_usec;
	*ret = s->f;
	free(s->live);
	s->live = NULL;
	return rc;
}

/* ---- beginning and end ---- */

static int register_node(struct sch_sim *s, const char *name, struct mu_err *err)
{
	const Mu__NodeRow *row = sch_node(s->st, name);
	Mu__Event *e = blank(s, MU__EVENT__KIND_NODE_REGISTERED, "node-key");
	Mu__NodeRow *n = mu_arena_alloc(&s->arena, sizeof(*n));
	if (!row || (row->base_state == NODE_FUTURE))
		return 0;
	e->node_registered = mu_arena_alloc(&s->arena, sizeof(*e->node_registered));
	mu__node_registered__init(e->node_registered);
	mu__node_row__init(n);
	e->node_registered->inventory = n;
	n->name = e->author->node = mu_arena_strdup(&s->arena, name);
	SCH_SET(n, cpus, row->cpus);
	SCH_SET(n, sockets, row->sockets);
	SCH_SET(n, cores_per_socket, row->cores_per_socket);
	SCH_SET(n, threads_per_core, row->threads_per_core);
	SCH_SET(n, real_memory_mib, row->real_memory_mib);
	SCH_SET(n, tmp_disk_mib, row->tmp_disk_mib);
	n->n_gres = row->n_gres;
	n->gres = row->gres;
	n->has_boot_id = 1;
	n->boot_id = (ProtobufCBinaryData){.len = 3, .data = (uint8_t *)"sim"};
	return sch_sim_event(s, e, err);
}

int sch_sim_new(const Mu__Config *config, int64_t begin_usec, struct sch_sim **ret, struct mu_err *err)
{
	return sch_sim_new_tapped(config, begin_usec, NULL, ret, err);
}

int sch_sim_new_tapped(const Mu__Config *config, int64_t begin_usec, const struct sch_sim_tap *tap,
		       struct sch_sim **ret, struct mu_err *err)
{
	struct sch_sim *s = calloc(1, sizeof(*s));
	if (!s)
		abort();
	s->tap = tap;
	s->st = sch_state_new();
	s->now_usec = begin_usec;
	Mu__Event *e = blank(s, MU__EVENT__KIND_FOUNDED, "controller");
	Mu__Founded *f = e->founded = mu_arena_alloc(&s->arena, sizeof(*f));
	mu__founded__init(f);
	f->config = (Mu__Config *)config;
	f->name = config->cluster_name;
	f->has_cluster_id = 1;
	f->cluster_id = (ProtobufCBinaryData){.len = 16, .data = (uint8_t *)"virtual cluster "};
	SCH_SET(f, level, MU_LEVEL);
	int rc = sch_sim_event(s, e, err);
	for (size_t i = 0; i < config->n_node && !rc; i++) {
		rc = register_node(s, config->node[i]->name, err);
		mu_arena_reset(&s->arena);
	}
	if (rc) {
		sch_sim_free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

struct sch_sim *sch_sim_free(struct sch_sim *s)
{
	if (!s)
		return NULL;
	sch_state_free(s->st);
	sch_changes_free(&s->changes);
	mu_arena_free(&s->arena);
	mu_arena_free(&s->slice);
	mu_buf_free(&s->buf);
	mu_buf_free(&s->tapped);
	free(s->part_end);
	free(s->heap);
	free(s->by_id);
	free(s->live);
	free(s);
	return NULL;
}

const struct sch_state *sch_sim_state(const struct sch_sim *s)
{
	return s->st;
}
