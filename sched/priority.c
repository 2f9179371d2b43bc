/* sched/priority.c: the number that orders the queue; 0 is held. PriorityType=priority/basic: first in, first
 * out by counting down from a fixed top with the job's id, so that a job released from hold stands where it
 * stood. priority/multifactor adds up factors (factor.c). */
#include "sched/state.h"

#define PRIORITY_TOP 4294901760u

static int64_t computed(const struct sch_state *st, const struct sch_job *j, const Mu__JobSpec *spec)
{
	struct sch_factors f;
	uint32_t id = sch__job_kin(j); /* Tasks came with their array. */
	if (!st->accounts.policy.multifactor)
		return (id < PRIORITY_TOP ? (int64_t)PRIORITY_TOP - id : 1) + spec->site_factor - spec->nice;
	sch__factors(st, j, sch__first_part(st, j), spec, &f);
	return f.priority;
}

uint32_t sch__priority(const struct sch_state *st, struct sch_job *j, const Mu__JobSpec *spec, bool operator)
{
	j->priority_fixed = false;
	if (spec->hold || (spec->has_priority && spec->priority == 0))
		return 0;
	if (spec->has_priority && operator&& spec->priority<UINT32_MAX - 1) {
		j->priority_fixed = true;
		return spec->priority;
	}
	int64_t p = computed(st, j, spec);
	if (spec->has_priority && spec->priority > 0 && spec->priority < p + spec->nice) {
		p = (int64_t)spec->priority - spec->nice; /* Anyone may lower his own. */
		j->priority_fixed = true;
	}
	return p < 1 ? 1 : p > UINT32_MAX - 2 ? UINT32_MAX - 2 : (uint32_t)p;
}
