/* sched/sim/whatif_learn.c: what was said of each attempt, and how long after its start: see whatif.h. */
#include "sched/sim/whatif_int.h"

#include <stdlib.h>

/* Slices recorded before the budget was: all of them had this. */
enum { BUDGET_BEFORE = 400000 };

static void spoken_key(uint8_t key[16], uint64_t pos, uint32_t n, uint32_t job)
{
	mu_put_be64(key, pos);
	mu_put_be32(key + 8, n);
	mu_put_be32(key + 12, job);
}

struct whatif_attempt *whatif__spoken_to(struct sch_whatif *w, uint64_t pos, uint32_t n, uint32_t job)
{
	uint8_t key[16];
	spoken_key(key, pos, n, job);
	return mu_map_get(&w->said, key, sizeof(key));
}

static void attempt_began(struct sch_whatif *w, const struct sch_job *j)
{
	struct whatif_tale *t = whatif__tale(w, j, true);
	struct whatif_attempt *a = mu_arena_alloc(&w->keep, sizeof(*a));
	a->number = j->attempt;
	a->start_usec = j->start_usec;
	a->node_count = j->run->alloc_count;
	a->node = mu_arena_alloc(&w->keep, (a->node_count + 1) * sizeof(a->node[0]));
	for (uint32_t i = 0; i < a->node_count; i++)
		a->node[i] = mu_arena_strdup(&w->keep, j->run->alloc[i].name->text);
	a->said_tail = &a->said;
	if (!t->tail)
		t->tail = &t->attempt;
	*t->tail = a;
	t->tail = &a->next;
	mu_map_put_u64(&w->reals, j->id, t);
}

static void say(struct sch_whatif *w, struct whatif_attempt *a, const struct sch_at *at, uint32_t node,
		const Mu__Event *e)
{
	struct mu_buf bytes = {0};
	mu_pb_pack(&e->base, &bytes);
	struct whatif_said *s = mu_arena_alloc(&w->keep, sizeof(*s) + bytes.len);
	*s = (struct whatif_said){.offset_usec = at->time_usec - a->start_usec,
				  .node = node,
				  .pos = at->pos,
				  .n = at->n,
				  .len = (uint32_t)bytes.len};
	memcpy(s->bytes, bytes.data, bytes.len);
	*a->said_tail = s;
	a->said_tail = &s->next;
	mu_buf_free(&bytes);
}

/* A node's word. An attempt that was cut short by what may not be so elsewhere says nothing of how long it
 * would have run. */
static void node_spoke(struct sch_whatif *w, const struct sch_state *st, const struct sch_at *at,
		       Mu__Event *e)
{
	Mu__AttemptEnded *x = e->attempt_ended;
	struct whatif_tale *t = mu_map_get_u64(&w->reals, x->job);
	struct whatif_attempt *a = t ? whatif__attempt(t, x->attempt) : NULL;
	const struct sch_job *j = sch__job(st, x->job);
	uint32_t node = 0;
	if (!a)
		return;
	while (node < a->node_count && strcmp(a->node[node], x->node) != 0)
		node++;
	bool cut = x->cause == END_NODE_FAIL || x->cause == END_NO_SUCH_ATTEMPT || x->cause == END_PREEMPT ||
		   x->cause == END_DEADLINE ||
		   (j && j->attempt == x->attempt &&
		    (j->end_state == JOB_NODE_FAIL || j->end_state == JOB_DEADLINE));
	if (x->batch && !cut)
		a->run_usec = at->time_usec - a->start_usec ? at->time_usec - a->start_usec : 1;
	x->n_step = 0; /* Steps weigh nothing. */
	say(w, a, at, node, e);
}

/* A person's word to a job that runs: the moment goes by what the job has done, so it moves along. */
static void person_spoke(struct sch_whatif *w, const struct sch_state *st, const struct sch_at *at,
			 const Mu__Event *e, const uint32_t *job, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct whatif_tale *t = mu_map_get_u64(&w->reals, job[i]);
		const struct sch_job *j = sch__job(st, job[i]);
		struct whatif_attempt *a = t && j ? whatif__attempt(t, j->attempt) : NULL;
		uint8_t key[16];
		if (!a || sch__array(st, job[i]) || (j->state != JOB_RUNNING && j->state != JOB_COMPLETING))
			continue;
		spoken_key(key, at->pos, at->n, job[i]);
		mu_map_put(&w->said, key, sizeof(key), a);
		say(w, a, at, UINT32_MAX, e);
	}
}

static void started(struct sch_whatif *w, const struct sch_state *st, const struct sch_at *at,
		    const Mu__Start *s)
{
	const struct sch_job *j = sch__job(st, s->job);
	if (j && j->array && s->has_task_index)
		j = sch__array_task(st, j->array, s->task_index);
	if (j && j->state == JOB_RUNNING && j->attempt == s->attempt && j->start_pos == at->pos)
		attempt_began(w, j);
}

static void decided(struct sch_whatif *w, const struct sch_state *st, const struct sch_at *at,
		    const Mu__Decided *d)
{
	if (w->slice_count == w->slice_cap) {
		w->slice_cap = w->slice_cap ? 2 * w->slice_cap : 1024;
		w->slices = realloc(w->slices, w->slice_cap * sizeof(w->slices[0]));
		if (!w->slices)
			abort();
	}
	w->slices[w->slice_count++] =
	    (struct whatif_slice){.basis = d->basis,
				  .pos = at->pos,
				  .n = at->n,
				  .basis_usec = d->now_usec ? d->now_usec : at->time_usec,
				  .budget = d->has_budget ? d->budget : BUDGET_BEFORE,
				  .foreign = d->planner != SCH_PLANNER_VERSION,
				  .bare = !d->has_budget};
	for (size_t i = 0; i < d->n_start; i++) {
		started(w, st, at, d->start[i]);
		for (size_t k = 0; k < d->start[i]->n_with; k++)
			started(w, st, at, d->start[i]->with[k]);
	}
}

/* Attempts that were under way when the period began. */
static void seed(struct sch_whatif *w, const struct sch_state *st)
{
	uint64_t id = 0;
	w->seeded = true;
	for (const struct sch_job *j = mu_map_next_u64(&st->jobs, 0, &id); j;
	     j = mu_map_next_u64(&st->jobs, id + 1, &id))
		if (j->run && j->run->alloc_count &&
		    (j->state == JOB_RUNNING || j->state == JOB_COMPLETING)) {
			attempt_began(w, j);
			whatif__attempt(whatif__tale(w, j, true), j->attempt)->told = WHATIF_SAME;
		}
}

int sch_whatif_learn(struct sch_whatif *w, const struct sch_state *st, const struct sch_at *at,
		     const uint8_t *event, size_t len, const struct sch_verdict *verdict)
{
	if (!w->seeded)
		seed(w, st);
	if (!verdict || verdict->code || verdict->repeated)
		return 0;
	mu_arena_reset(&w->event);
	Mu__Event *e = whatif__open(event, len, &w->event);
	if (!e)
		return MU_ECORRUPT;
	if (e->kind_case == MU__EVENT__KIND_DECIDED)
		decided(w, st, at, e->decided);
	else if (e->kind_case == MU__EVENT__KIND_ATTEMPT_ENDED)
		node_spoke(w, st, at, e);
	else if (e->kind_case == MU__EVENT__KIND_JOB_SIGNAL)
		person_spoke(w, st, at, e, e->job_signal->job, e->job_signal->n_job);
	else if (e->kind_case == MU__EVENT__KIND_JOB_REQUEUE)
		person_spoke(w, st, at, e, e->job_requeue->job, e->job_requeue->n_job);
	else if (e->kind_case == MU__EVENT__KIND_JOB_UPDATE && !e->job_update->tasks)
		person_spoke(w, st, at, e, &e->job_update->job, 1);
	return 0;
}
