/* sched/preempt.h: jobs that give way to others. Room-internal.
 *
 * Who may: with preempt/partition_prio a job of a partition of a higher PriorityTier; with preempt/qos a job
 * whose QOS names the other's in Preempt (WITHIN: of the same QOS, with a higher priority). How is the
 * PreemptMode of the partition or QOS of the job that gives way, else the cluster's: it is suspended, or
 * requeued, or ended; one that cannot be requeued is ended. A job that is exempt for a while after its start,
 * runs in a reservation, or gives way already is left alone. A heterogeneous job gives way as a whole, to a
 * job that all its components would give way to, and counts as one; nobody gives way to one.
 *
 * Which: jobs give way only when the other job then starts, at once where they are suspended, else on a
 * claimed plan that nobody may push and that stands until they are gone. Victims are ordered by the tier or
 * QOS priority, then by their own priority, lowest first, then the youngest start, then the highest id
 * (youngest_first: by start and id alone). Of that order no more is taken than is needed at all; within it
 * one job that is enough alone goes before several, and of several none is left in that could be left out.
 *
 * Suspended jobs go on where their CPUs are free and no plan before their place wants them. A job that
 * stopped its partition does not keep them from that: it may wait for the memory that they hold, and it can
 * suspend again whom it suspended. */
#ifndef SCHED_PREEMPT_H
#define SCHED_PREEMPT_H

#include "sched/state.h"

enum sch_preempt_how { /* numbers in events and rows */
		       SCH_PREEMPT_OFF = 0,
		       SCH_PREEMPT_SUSPEND = 1,
		       SCH_PREEMPT_REQUEUE = 2,
		       SCH_PREEMPT_CANCEL = 3
};
/* What PreemptMode's words come to; WITHIN says separately. */
enum sch_preempt_how sch__preempt_mode(const char *words, enum sch_preempt_how otherwise);
/* How V would give way to J in P; OFF: not at all. *ret_rank orders victims, lowest first. */
enum sch_preempt_how sch__preempt_way(const struct sch_state *st, const struct sch_job *v,
				      const struct sch_job *j, const struct sch_part *p, uint32_t *ret_rank);
bool sch__preempt_within(const struct sch_state *st, const struct sch_qos *q); /* NULL: no */
bool sch__preempt_exempt(const struct sch_state *st,
			 const struct sch_job *v); /* still, as of the last tick */
int64_t sch__preempt_grace_sec(const struct sch_state *st, const struct sch_job *v);
/* For how long from its start V is exempt; 0: not. */
int64_t sch__preempt_exempt_sec(const struct sch_state *st, const struct sch_job *v);

/* Folding. */
void sch__preempted(struct sch_ev *ev, const Mu__Preempt *p);
void sch__preempt_end(struct sch_ev *ev, struct sch_job *j); /* its grace is over, or it had none */
void sch__preempt_exempts_end(struct sch_ev *ev);	     /* those whose exemption is over */

/* room.c: CPUs of a job that stands still. */
void sch__room_park(struct sch_room *r, const struct sch_node *n, const struct sch_alloc *a, bool exclusive);
/* Its CPUs are there again. */
bool sch__room_parks(const struct sch_state *st, const struct sch_room *r, const struct sch_alloc *a);
void sch__room_unpark(struct sch_room *r, const struct sch_node *n, const struct sch_alloc *a,
		      bool exclusive);
/* queue.c */
void sch__exempt_out(struct sch_state *st, struct sch_job *j);
/* suspend.c */
void sch__job_suspend(struct sch_ev *ev, struct sch_job *j);
/* The job that holds CPUs of the suspended J now; 0: none, it can go on. */
bool sch__job_can_resume(const struct sch_state *st, const struct sch_job *j,
			 const struct sch_alloc **ret_busy);
void sch__job_resume(struct sch_ev *ev, struct sch_job *j);
void sch__job_set_state(struct sch_state *st, struct sch_job *j, uint32_t state); /* evolve_attempt.c */

#endif
