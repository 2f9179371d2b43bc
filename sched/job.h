/* sched/job.h: what the files that change jobs on request share (evolve_job.c, evolve_update.c). Internal to
 * the room. */
#ifndef SCHED_JOB_H
#define SCHED_JOB_H

#include "sched/state.h"

#define SCH_SPEC_BYTES_MAX (96u * 1024u)

/* A job named by a request; of an array's record perhaps only some tasks. */
struct sch_target {
	struct sch_job *job;
	struct mu_runs part; /* total 0: all of it */
};
struct sch_targets { /* in the event's arena; the parts are to be freed */
	struct sch_target *v;
	size_t count, cap;
};
/* What the id of a heterogeneous job's component stands for: all of them; all, unless it is not the first and runs
 * already; that one. */
enum sch_targets_of { SCH_TARGETS_WHOLE, SCH_TARGETS_RUNNING, SCH_TARGETS_ALONE };
/* Adds job ID, or all records of array ID: 0 or MU_EJOBID. */
int sch__targets_job(struct sch_ev *ev, uint32_t id, enum sch_targets_of of, struct sch_targets *ret);
/* Those tasks of array ID that TEXT lists and State still has. */
int sch__targets_tasks(struct sch_ev *ev, uint32_t id, const char *text, struct sch_targets *ret);
void sch__targets_free(struct sch_targets *t);
/* The record that T stands for, split off where it is a part of one; NULL when that cannot be. */
struct sch_job *sch__target_narrow(struct sch_ev *ev, struct sch_target *t, struct mu_err *err);

/* What the spec came to. The job is in no queue. */
void sch__job_apply(struct sch_state *st, struct sch_job *j, Mu__JobSpec *spec, const struct sch_want *w);
/* Another spec that asks for the same of nodes. */
void sch__job_swap_spec(struct sch_state *st, struct sch_job *j, const Mu__JobSpec *merged);
/* Takes the job out of its place, gives it another priority, and puts it where that belongs. */
void sch__job_rank(struct sch_ev *ev, struct sch_job *j, uint32_t priority, bool by_admin);

#endif
