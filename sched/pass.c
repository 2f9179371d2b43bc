/* sched/pass.c: what a slice has said and taken so far: its lists, its budget, and how far it is with the
 * tasks of arrays. */
#include "sched/pass.h"

void sch__pass_add(struct sch_pass *p, struct sch_pass_list *l, void *item, size_t bytes)
{
	if (l->count == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 16;
		void **v = mu_arena_alloc(p->arena, cap * sizeof(v[0]));
		if (l->count)
			memcpy(v, l->v, l->count * sizeof(v[0]));
		l->v = v;
		l->cap = cap;
	}
	l->v[l->count++] = item;
	p->bytes += bytes;
}

/* A slice that has nothing to say yet goes on for a while: it would be an entry for its place alone. */
bool sch__pass_exhausted(const struct sch_pass *p)
{
	uint64_t budget = p->bytes ? p->budget : p->budget * SCH_QUIET_BUDGETS;
	return p->steps - p->setup >= budget || p->bytes >= SCH_SLICE_BYTES;
}

/* ---- arrays ---- */

struct sch_pass_taken *sch__pass_taken(const struct sch_pass *p, const struct sch_job *j)
{
	return mu_map_get_u64(&p->started, j->id);
}

/* Nothing of J is left to visit. */
bool sch__pass_all_taken(const struct sch_pass *p, const struct sch_job *j)
{
	const struct sch_pass_taken *t = sch__pass_taken(p, j);
	return t && t->count >= sch__job_size(j);
}

/* How many more tasks may start before the array's own limit stands in the way. */
uint32_t sch__pass_array_room(const struct sch_pass *p, const struct sch_job *j)
{
	const struct sch_array *a = j->array;
	if (!a || !a->throttle)
		return UINT32_MAX;
	const struct sch_pass_taken *t = mu_map_get_u64(&p->families, a->id);
	uint64_t active = (uint64_t)a->active + (t ? t->count : 0);
	return active < a->throttle ? a->throttle - (uint32_t)active : 0;
}

/* True when, beside the task that comes next, others of the record would start if they could. */
bool sch__pass_more_behind(const struct sch_pass *p, const struct sch_job *j)
{
	const struct sch_pass_taken *t = sch__pass_taken(p, j);
	return j->tasks && j->tasks->total - (t ? t->count : 0) > 1 && sch__pass_array_room(p, j) > 1;
}

static void take(struct sch_pass *p, struct mu_map *map, uint32_t id, uint32_t next)
{
	struct sch_pass_taken *t = mu_map_get_u64(map, id);
	if (!t) {
		t = mu_arena_alloc(p->arena, sizeof(*t));
		*t = (struct sch_pass_taken){0};
		mu_map_put_u64(map, id, t);
	}
	t->count++;
	t->next = next;
}

/* Which task S starts, and that it does. */
void sch__pass_take_task(struct sch_pass *p, const struct sch_job *j, Mu__Start *s)
{
	const struct sch_pass_taken *t = sch__pass_taken(p, j);
	uint32_t ordinal = 0;
	if (j->array) {
		s->has_task_index = true;
		s->task_index = j->task;
		take(p, &p->families, j->array->id, 0);
	}
	if (j->tasks) {
		ordinal = mu_runs_next(j->tasks, t ? t->next : 0);
		s->task_index = mu_tasks_index(&j->array->tasks, ordinal);
		p->ids += (t ? t->count : 0) + 1 < j->tasks->total; /* The last keeps the id. */
	}
	take(p, &p->started, j->id, ordinal + 1);
}
