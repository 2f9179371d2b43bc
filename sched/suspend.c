/* sched/suspend.c: jobs that stand still. A suspended job keeps its memory, its devices and its licences, and
 * counts for limits as before; its CPUs, and a node that it had to itself, are free for others. Its time
 * limit does not run and no usage grows of it. It goes on when all its CPUs are free again, never before: a
 * CPU is never two jobs'. */
#include "sched/preempt.h"
#include "sched/state.h"

#include <assert.h>

void sch__job_suspend(struct sch_ev *ev, struct sch_job *j)
{
	struct sch_state *st = ev->st;
	assert(j->state == JOB_RUNNING);
	sch__due_clear(st, j);
	for (uint32_t i = 0; i < j->run->alloc_count; i++) {
		struct sch_alloc *a = &j->run->alloc[i];
		if (a->released)
			continue;
		sch__room_park(&a->node->room, a->node, a, j->exclusive);
		a->parked = j->exclusive ? 2 : 1;
		sch__touch(st, &a->node->rec);
		sch__node_index(st, a->node);
	}
	j->run->suspend_usec = ev->now;
	sch__job_set_state(st, j, JOB_SUSPENDED);
	sch__due_set(st, j);
	sch__wake(st);
}

bool sch__job_can_resume(const struct sch_state *st, const struct sch_job *j,
			 const struct sch_alloc **ret_busy)
{
	for (uint32_t i = 0; i < j->run->alloc_count; i++) {
		*ret_busy = &j->run->alloc[i];
		if (!(*ret_busy)->released && !sch__room_parks(st, &(*ret_busy)->node->room, *ret_busy))
			return false;
	}
	return true;
}

void sch__job_resume(struct sch_ev *ev, struct sch_job *j)
{
	struct sch_state *st = ev->st;
	assert(j->state == JOB_SUSPENDED);
	sch__due_clear(st, j);
	j->run->preempted_by = j->run->preempt_how = 0;
	for (uint32_t i = 0; i < j->run->alloc_count; i++) {
		struct sch_alloc *a = &j->run->alloc[i];
		if (a->released) {
			a->parked = 0;
			continue;
		}
		j->exclusive = a->parked == 2;
		a->parked = 0;
		sch__room_unpark(&a->node->room, a->node, a, j->exclusive);
		sch__touch(st, &a->node->rec);
		sch__node_index(st, a->node);
	}
	j->run->suspended_usec += ev->now - j->run->suspend_usec;
	j->run->suspend_usec = ev->now;
	sch__job_set_state(st, j, JOB_RUNNING);
	sch__due_set(st, j);
	sch__wake(st);
}
