/* sched/priority.c: the number that orders the queue; 0 is held. PriorityType=priority/basic: first in, first
 * out by counting down from a fixed top with the job's id, so that a job released from hold stands where it
 * stood. priority/multifactor becomes a second branch of this one function, with its factors from the config
 * and usage that State keeps. */
#include "sched/state.h"

#define PRIORITY_TOP 4294901760u

uint32_t sch__priority(const struct sch_state *st, uint32_t id, const Mu__JobSpec *spec, bool operator)
{
	if (spec->hold || (spec->has_priority && spec->priority == 0))
		return 0;
	int64_t p = id < PRIORITY_TOP ? (int64_t)PRIORITY_TOP - id : 1;
	if (spec->has_priority && operator&& spec->priority<UINT32_MAX - 1)
		return spec->priority;
	if (spec->has_priority && spec->priority > 0 && spec->priority < p) /* Anyone may lower his own. */
		p = spec->priority;
	p -= spec->nice;
	return p < 1 ? 1 : p > UINT32_MAX - 2 ? UINT32_MAX - 2 : (uint32_t)p;
}
