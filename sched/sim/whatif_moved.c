/* sched/sim/whatif_moved.c: attempts that the other history begins at another moment or elsewhere, and what
 * becomes of jobs: see whatif.h. */
#include "sched/sim/whatif_int.h"

#include <stdlib.h>

/* ---- the heap ---- */

static bool before(const struct whatif_due *a, const struct whatif_due *b)
{
	return a->usec != b->usec ? a->usec < b->usec : a->serial < b->serial;
}

static void push(struct sch_whatif *w, struct whatif_due due)
{
	if (w->heap_count == w->heap_cap) {
		w->heap_cap = w->heap_cap ? 2 * w->heap_cap : 1024;
		w->heap = realloc(w->heap, w->heap_cap * sizeof(w->heap[0]));
		if (!w->heap)
			abort();
	}
	due.serial = ++w->serial;
	size_t i = w->heap_count++;
	for (; i && before(&due, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
		w->heap[i] = w->heap[(i - 1) / 2];
	w->heap[i] = due;
}

static struct whatif_due pop(struct sch_whatif *w)
{
	struct whatif_due top = w->heap[0], last = w->heap[--w->heap_count];
	size_t i = 0, child;
	while ((child = 2 * i + 1) < w->heap_count) {
		if (child + 1 < w->heap_count && before(&w->heap[child + 1], &w->heap[child]))
			child++;
		if (!before(&w->heap[child], &last))
			break;
		w->heap[i] = w->heap[child];
		i = child;
	}
	w->heap[i] = last;
	return top;
}

/* ---- an attempt begins ---- */

static bool same_nodes(const struct whatif_attempt *a, const struct sch_job *j)
{
	bool same = a->node_count == j->run->alloc_count;
	for (uint32_t i = 0; i < a->node_count && same; i++)
		same = strcmp(a->node[i], j->run->alloc[i].name->text) == 0;
	return same;
}

/* How long the job ran where nothing cut it short; 0: nobody knows. */
static int64_t run_of(const struct whatif_tale *t)
{
	int64_t run = 0;
	for (const struct whatif_attempt *a = t->attempt; a; a = a->next)
		run = a->run_usec ? a->run_usec : run;
	return run;
}

static void plan(struct sch_whatif *w, struct whatif_tale *t, struct whatif_attempt *of,
		 const struct sch_job *j)
{
	struct whatif_due due = {.tale = t, .generation = t->generation, .attempt = j->attempt, .of = of};
	w->f.moved++;
	if (of && of->run_usec) {
		for (const struct whatif_said *s = of->said; s; s = s->next) {
			due.said = s;
			due.usec = j->start_usec + s->offset_usec;
			push(w, due);
		}
		return;
	}
	int64_t run = run_of(t), limit = j->time_limit_sec >= 0 ? j->time_limit_sec * SCH_USEC : 0;
	w->f.assumed++;
	if (limit && (!run || run > limit)) {
		run = limit;
		due.cause = END_TIME_LIMIT;
	}
	if (!run) {
		w->f.endless++;
		return;
	}
	due.usec = j->start_usec + run;
	push(w, due);
}

/* It was cut short on the node that stays here. */
static bool goes_on(const struct sch_whatif *w, const struct whatif_attempt *a)
{
	for (uint32_t i = 0; w->change->alive && !a->run_usec && i < a->node_count; i++)
		if (strcmp(a->node[i], w->change->alive) == 0)
			return true;
	return false;
}

static void began(struct sch_whatif *w, struct whatif_tale *t, const struct sch_job *j)
{
	struct whatif_attempt *of = whatif__attempt(t, j->attempt);
	t->generation++;
	if (of && of->start_usec == j->start_usec && same_nodes(of, j) && !goes_on(w, of)) {
		of->told = WHATIF_SAME;
		return;
	}
	if (of)
		of->told = WHATIF_MOVED;
	plan(w, t, of, j);
}

/* The core itself ended it, as it did not do in reality at that moment: its nodes obey at once. */
static void left(struct sch_whatif *w, struct whatif_tale *t, const struct sch_job *j)
{
	struct whatif_attempt *of = whatif__attempt(t, j->attempt);
	if (t == w->firing || !j->run ||
	    (of && of->told == WHATIF_SAME && !t->real.attempt &&
	     t->job.real.end_usec == t->job.other.end_usec))
		return;
	if (of)
		of->told = WHATIF_MOVED;
	t->generation++;
	push(w, (struct whatif_due){.usec = w->now_usec,
				    .tale = t,
				    .of = of,
				    .generation = t->generation,
				    .attempt = j->attempt,
				    .cause = END_CANCEL});
}

/* ---- what becomes of jobs ---- */

static uint64_t within(const struct sch_whatif *w, int64_t from, int64_t until)
{
	from = from > w->from_usec ? from : w->from_usec;
	until = until < w->to_usec ? until : w->to_usec;
	return until > from ? (uint64_t)(until - from) : 0;
}

static void stand(struct sch_whatif *w, struct whatif_tale *t, const struct sch_job *j, bool other)
{
	struct whatif_now *now = other ? &t->other : &t->real;
	struct sch_whatif_life *life = other ? &t->job.other : &t->job.real;
	struct sch_whatif_side *side = other ? &w->f.other : &w->f.real;
	bool runs = j->state == JOB_RUNNING, waits = j->state == JOB_PENDING;
	life->state = j->state;
	if (t->in_period && waits != now->waits)
		w->waiting += waits ? 1u : (uint32_t)-1;
	now->waits = waits;
	if (now->attempt && (!runs || now->attempt != j->attempt)) {
		life->end_usec = j->end_usec ? j->end_usec : w->now_usec;
		side->busy_cpu_usec += now->cpus * within(w, now->since_usec, life->end_usec);
		now->attempt = 0;
		if (other)
			left(w, t, j);
	}
	if (!runs || now->attempt)
		return;
	now->attempt = j->attempt;
	now->cpus = j->cpus_total;
	now->since_usec = life->last_usec = j->start_usec;
	life->starts++;
	side->starts++;
	t->job.cpus = j->cpus_total;
	t->job.nodes = j->run->alloc_count;
	t->job.limit_sec = j->time_limit_sec;
	t->job.gpus = 0;
	for (uint32_t i = 0; i < j->run->alloc_count; i++)
		for (uint32_t k = 0; k < j->run->alloc[i].got_count; k++)
			if (strcmp(j->run->alloc[i].got[k].name->text, "gpu") == 0)
				t->job.gpus += (uint32_t)j->run->alloc[i].got[k].count;
	if (!life->start_usec) {
		life->start_usec = j->start_usec;
		life->start_pos = j->start_pos;
		life->ready_usec = j->eligible_usec > j->submit_usec ? j->eligible_usec : j->submit_usec;
	}
	if (other)
		began(w, t, j);
}

void whatif__first_sight(struct sch_whatif *w, const struct sch_job *j)
{
	struct whatif_tale *t = whatif__tale(w, j, false);
	if (j->state == JOB_RUNNING) {
		t->job.real.start_usec = t->job.real.last_usec = j->start_usec;
		t->job.real.start_pos = j->start_pos;
		t->job.real.ready_usec = j->submit_usec;
		t->job.real.starts = 1;
		t->real = (struct whatif_now){j->attempt, j->cpus_total, j->start_usec, false};
	}
	t->real.waits = j->state == JOB_PENDING;
	t->job.real.state = j->state;
	if (t->in_period && t->real.waits)
		w->waiting += 2;
	t->job.other = t->job.real;
	t->other = t->real;
}

void whatif__under_way(struct sch_whatif *w)
{
	uint64_t id = 0;
	for (const struct sch_job *j = mu_map_next_u64(&w->b->jobs, 0, &id); j;
	     j = mu_map_next_u64(&w->b->jobs, id + 1, &id)) {
		struct whatif_tale *t = j->tasks || j->state != JOB_RUNNING ? NULL : whatif__tale(w, j, true);
		struct whatif_attempt *of = t ? whatif__attempt(t, j->attempt) : NULL;
		if (of && goes_on(w, of)) {
			of->told = WHATIF_MOVED;
			plan(w, t, of, j);
		}
	}
}

void whatif__observe(struct sch_whatif *w, bool other)
{
	struct sch_state *st = other ? w->b : w->a;
	bool capacity = false;
	for (size_t i = 0; i < w->changes.count; i++) {
		const struct sch_change *c = &w->changes.v[i];
		capacity = capacity || c->key.kind == SCH_ROW_CONFIG || c->key.kind == SCH_ROW_PARTITION;
		if (c->key.kind != SCH_ROW_JOB || c->gone)
			continue;
		const struct sch_job *j = sch__job(st, mu_get_be32(c->key.bytes));
		if (j && !j->tasks)
			stand(w, whatif__tale(w, j, other), j, other);
	}
	if (capacity)
		whatif__capacity(w);
}

static uint64_t cpus_of(const struct sch_state *st)
{
	uint64_t cpus = 0;
	for (uint32_t i = 0; i < st->node_count; i++)
		if (st->node[i]->row->base_state != NODE_FUTURE)
			cpus += st->node[i]->row->cpus;
	return cpus;
}

void whatif__capacity(struct sch_whatif *w)
{
	uint64_t span = within(w, w->cpus_from_usec, w->now_usec);
	w->f.real.cpu_usec += w->cpus_a * span;
	w->f.other.cpu_usec += w->cpus_b * span;
	w->cpus_from_usec = w->now_usec;
	w->cpus_a = cpus_of(w->a);
	w->cpus_b = cpus_of(w->b);
}

/* ---- what was said of it comes now ---- */

static Mu__Event *ended_on(struct sch_whatif *w, const struct sch_job *j, const struct whatif_due *due,
			   uint32_t i)
{
	Mu__Event *e = whatif__blank(&w->event, MU__EVENT__KIND_ATTEMPT_ENDED, "node-key");
	Mu__AttemptEnded *a = e->attempt_ended = mu_arena_alloc(&w->event, sizeof(*a));
	mu__attempt_ended__init(a);
	SCH_SET(a, job, j->id);
	SCH_SET(a, attempt, due->attempt);
	a->node = e->author->node = mu_arena_strdup(&w->event, j->run->alloc[i].name->text);
	SCH_SET(a, batch, i == 0);
	SCH_SET(a, cause, due->cause);
	SCH_SET(a, released, true);
	return e;
}

/* All that holds something of the attempt, from node FIRST on, lets go of it. */
static size_t all_end(struct sch_whatif *w, const struct sch_job *j, const struct whatif_due *due,
		      uint32_t first, Mu__Event **ret)
{
	size_t count = 0;
	for (uint32_t i = first; i < j->run->alloc_count; i++)
		if (!j->run->alloc[i].released && !j->run->alloc[i].lost)
			ret[count++] = ended_on(w, j, due, i);
	return count;
}

/* Gives the number of events in RET, which has a place for each node and one more. */
static size_t said_now(struct sch_whatif *w, const struct sch_job *j, const struct whatif_due *due,
		       Mu__Event **ret)
{
	const struct whatif_said *s = due->said;
	Mu__Event *e = whatif__open(s->bytes, s->len, &w->event);
	size_t count = 0;
	if (!e)
		return 0;
	ret[count++] = e;
	if (e->kind_case == MU__EVENT__KIND_ATTEMPT_ENDED) {
		Mu__AttemptEnded *a = e->attempt_ended;
		if (s->node >= j->run->alloc_count)
			return 0;
		a->job = j->id;
		a->attempt = due->attempt;
		a->drain = NULL; /* What a node is fit for does not move with a job. */
		a->node = e->author->node = mu_arena_strdup(&w->event, j->run->alloc[s->node].name->text);
		if (a->batch)
			count += all_end(w, j, due, due->of->node_count, ret + count);
		return count;
	}
	e->request = NULL;
	uint32_t *id = mu_arena_dup(&w->event, &j->id, sizeof(j->id));
	if (e->kind_case == MU__EVENT__KIND_JOB_SIGNAL) {
		e->job_signal->job = id;
		e->job_signal->n_job = 1;
		e->job_signal->n_some = 0;
	} else if (e->kind_case == MU__EVENT__KIND_JOB_REQUEUE) {
		e->job_requeue->job = id;
		e->job_requeue->n_job = 1;
		e->job_requeue->n_some = 0;
	} else if (e->kind_case == MU__EVENT__KIND_JOB_UPDATE) {
		e->job_update->job = j->id;
	}
	return count;
}

static const struct sch_job *job_of(struct sch_whatif *w, const struct whatif_tale *t)
{
	uint32_t family = t->job.array ? t->job.array : t->job.id;
	const void *other = mu_map_get_u64(&w->ids, family);
	family = other ? (uint32_t)((uintptr_t)other - 1) : family;
	if (!t->job.array)
		return sch__job(w->b, family);
	const struct sch_array *a = sch__array(w->b, family);
	return a ? sch__array_task(w->b, a, t->job.task) : NULL;
}

static int fire(struct sch_whatif *w, const struct whatif_due *due, struct mu_err *err)
{
	const struct sch_job *j = job_of(w, due->tale);
	if (due->generation != due->tale->generation || !j || j->tasks || !j->run ||
	    j->attempt != due->attempt || (j->state != JOB_RUNNING && j->state != JOB_COMPLETING))
		return 0;
	mu_arena_reset(&w->event);
	Mu__Event **e = mu_arena_alloc(&w->event, (j->run->alloc_count + 2) * sizeof(e[0]));
	size_t count = due->said ? said_now(w, j, due, e) : all_end(w, j, due, 0, e);
	if (!count)
		return 0;
	w->firing = due->tale;
	int rc = whatif__own_entry(w, e, count, err);
	w->firing = NULL;
	return rc;
}

static int tick(struct sch_whatif *w, struct mu_err *err)
{
	mu_arena_reset(&w->event);
	Mu__Event *e = whatif__blank(&w->event, MU__EVENT__KIND_TICK, "controller");
	e->tick = mu_arena_alloc(&w->event, sizeof(*e->tick));
	mu__tick__init(e->tick);
	return whatif__own_entry(w, &e, 1, err);
}

int whatif__fire_next(struct sch_whatif *w, int64_t until_usec, bool *ret_fired, struct mu_err *err)
{
	int64_t due = sch_founded(w->b) ? sch_due_usec(w->b) : 0;
	*ret_fired = false;
	if (!whatif__different(w))
		return 0;
	if (due && due <= w->b->cluster->last_tick_usec)
		due = 0;
	if (w->heap_count && w->heap[0].usec <= until_usec && (!due || w->heap[0].usec <= due)) {
		struct whatif_due d = pop(w);
		*ret_fired = true;
		w->now_usec = d.usec > w->now_usec ? d.usec : w->now_usec;
		return fire(w, &d, err);
	}
	if (!due || due > until_usec)
		return 0;
	*ret_fired = true;
	w->now_usec = due > w->now_usec ? due : w->now_usec;
	return tick(w, err);
}

int whatif__fire_until(struct sch_whatif *w, int64_t usec, struct mu_err *err)
{
	bool fired = true;
	int rc = 0;
	while (fired && !rc)
		rc = whatif__fire_next(w, usec, &fired, err);
	return rc;
}
