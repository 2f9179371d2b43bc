/* sched/fold.c: the parts of a decision, written short. */
#include "sched/state.h"

#include <assert.h>

#include "proto/hostlist.h"

static char *fold_picks(const struct sch_pick *pick, uint32_t count, struct mu_arena *arena)
{
	struct mu_buf buf = {0};
	const char **names = mu_arena_alloc(arena, (count + 1) * sizeof(names[0]));
	for (uint32_t i = 0; i < count; i++)
		names[i] = pick[i].node->row->name;
	mu_hostlist_fold_sorted(names, count, &buf);
	char *text = mu_arena_strdup(arena, buf.data ? (const char *)buf.data : "");
	mu_buf_free(&buf);
	return text;
}

Mu__PlanSet *sch__fold_plan(const struct sch_state *st, const struct sch_job *j, int64_t start,
			    const struct sch_pick *picks, uint32_t count, struct mu_arena *arena)
{
	Mu__PlanSet *s = mu_arena_alloc(arena, sizeof(*s));
	mu__plan_set__init(s);
	SCH_SET(s, job, j->id);
	SCH_SET(s, start_usec, start);
	if (count) { /* Tasks in the order of the folded list. */
		char **names;
		size_t n = 0;
		const struct sch_pick **at = mu_arena_alloc(arena, (st->node_count + 1) * sizeof(at[0]));
		bool same = true, same_gpus = true;
		s->nodes = fold_picks(picks, count, arena);
		for (uint32_t i = 0; i < count; i++)
			at[picks[i].node->rank] = &picks[i];
		int rc = mu_hostlist_expand(s->nodes, SCH_NODES_MAX, arena, &names, &n, NULL);
		assert(rc == 0 && n == count);
		s->tasks = mu_arena_alloc(arena, count * sizeof(s->tasks[0]));
		s->gpus = mu_arena_alloc(arena, count * sizeof(s->gpus[0]));
		for (uint32_t i = 0; i < count; i++) {
			const struct sch_pick *pick = at[sch__node(st, names[i])->rank];
			s->tasks[i] = pick->tasks;
			s->gpus[i] = pick->gpus;
			same = same && s->tasks[i] == s->tasks[0];
			same_gpus = same_gpus && s->gpus[i] == s->gpus[0];
		}
		s->n_tasks = same ? 1 : count;
		s->n_gpus = !j->shape->job_gpus ? 0 : same_gpus ? 1 : count;
	}
	return s;
}

const char *sch__fold_unavailable(const struct sch_state *st, const struct mu_bits *nodes,
				  const struct mu_bits *required, struct mu_arena *arena)
{
	struct mu_buf buf = {0};
	const char **names = mu_arena_alloc(arena, (st->node_count + 1) * sizeof(names[0]));
	size_t count = 0;
	const struct mu_bits *look = mu_bits_next(required, 0) != UINT32_MAX ? required : nodes;
	for (uint32_t r = mu_bits_next(look, 0); r != UINT32_MAX; r = mu_bits_next(look, r + 1))
		if (!st->by_rank[r]->usable)
			names[count++] = st->by_rank[r]->row->name;
	mu_hostlist_fold_sorted(names, count, &buf);
	const char *text =
	    mu_arena_printf(arena, "UnavailableNodes:%.2000s", buf.data ? (const char *)buf.data : "");
	mu_buf_free(&buf);
	return text;
}
