/* sched/timeline.c: when a job that does not fit now would fit, if every running job used its whole limit and
 * nothing else started. Free capacity only grows along that line, so the first moment is found by bisection
 * over the expected ends. */
#include "sched/state.h"

struct ends {
	struct sch_job **job; /* by expected end */
	uint32_t count;
};

static void collect(const struct sch_state *st, struct mu_arena *arena, struct ends *ret)
{
	const uint8_t *key = NULL;
	size_t len = 0;
	ret->job = mu_arena_alloc(arena, (st->running.count + 1) * sizeof(ret->job[0]));
	for (struct sch_job *j = mu_map_seek(&st->running, NULL, 0, 0, &key, &len);
	     j && j->time_limit_sec >= 0; j = mu_map_seek(&st->running, key, len, 1, &key, &len))
		ret->job[ret->count++] = j;
}

static int64_t end_of(const struct sch_state *st, const struct sch_job *j)
{
	int64_t end = j->start_usec + j->time_limit_sec * SCH_USEC, now = st->cluster->now_usec;
	return end > now ? end : now;
}

static void give_back(struct sch_overlay *o, const struct sch_job *j, const struct mu_bits *nodes,
		      struct mu_arena *arena, uint64_t *steps)
{
	for (uint32_t i = 0; i < j->run->alloc_count; i++) {
		const struct sch_alloc *a = &j->run->alloc[i];
		++*steps;
		if (!a->released && !a->lost && mu_bits_test(nodes, a->node->rank))
			sch__room_give(sch__overlay_own(o, a->node, arena), a->node, a,
				       a->node->room.exclusive);
	}
}

/* Jobs that are ending already: their nodes will be free at once, as far as anyone can tell. */
static void give_ending(struct sch_overlay *o, const struct mu_bits *nodes, struct mu_arena *arena,
			uint64_t *steps)
{
	for (uint32_t r = mu_bits_next(nodes, 0); r != UINT32_MAX; r = mu_bits_next(nodes, r + 1)) {
		struct sch_node *n = o->st->by_rank[r];
		for (uint32_t i = 0; n->row->flags & NODE_FLAG_COMPLETING && i < n->hold_count; i++) {
			const struct sch_alloc *a = sch__alloc_on(n->hold[i].job, n->hold[i].attempt, n);
			++*steps;
			if (n->hold[i].job->state == JOB_COMPLETING && !a->lost)
				sch__room_give(sch__overlay_own(o, n, arena), n, a, n->room.exclusive);
		}
	}
}

static uint32_t fits_after(const struct sch_state *st, const struct sch_need *need,
			   const struct mu_bits *nodes, const struct mu_bits *required,
			   const struct ends *ends, uint32_t ended, uint64_t *steps, struct sch_pick *pick)
{
	struct mu_arena arena = {0};
	struct sch_overlay o;
	sch__overlay_init(&o, st, &arena);
	give_ending(&o, nodes, &arena, steps);
	for (uint32_t i = 0; i < ended; i++)
		give_back(&o, ends->job[i], nodes, &arena, steps);
	uint32_t count = sch__choose(need, &o, nodes, required, NULL, steps, pick);
	sch__overlay_free(&o);
	mu_arena_free(&arena);
	return count;
}

int64_t sch__plan(const struct sch_state *st, const struct sch_need *need, const struct mu_bits *nodes,
		  const struct mu_bits *required, struct mu_arena *arena, uint64_t *steps,
		  struct sch_pick *pick, uint32_t *ret_count)
{
	struct ends ends = {0};
	collect(st, arena, &ends);
	uint32_t low = 0, high = ends.count;
	*ret_count = fits_after(st, need, nodes, required, &ends, high, steps, pick);
	if (!*ret_count)
		return 0;
	while (low < high) { /* HIGH ends are enough; fewer than LOW are not. */
		uint32_t middle = low + (high - low) / 2;
		if (fits_after(st, need, nodes, required, &ends, middle, steps, pick))
			high = middle;
		else
			low = middle + 1;
	}
	*ret_count = fits_after(st, need, nodes, required, &ends, high, steps, pick);
	return high ? end_of(st, ends.job[high - 1]) : st->cluster->now_usec;
}
