/* sched/sim/sim.h: the core in virtual time: a workload runs against admit, evolve and decide as a leader
 * would drive them, only that nobody waits.
 *
 * Owns: the clock, which jumps from event to event, and the part of users and nodes: submissions, ends of
 * jobs, release of nodes, ticks when they are due. Decides nothing: every start is the core's. Leaves to
 * others: where a workload comes from, what is reported of it, files. Pure, like the room; the same workload
 * over the same configuration gives the same events. */
#ifndef SCHED_SIM_SIM_H
#define SCHED_SIM_SIM_H

#include "sched/sched.h"

/* One job: what is asked, and what became of it. */
struct sch_sim_job {
	Mu__JobSpec *spec;   /* borrowed until the run is over */
	Mu__Author *author;  /* the same; whoever submits it */
	int64_t submit_usec; /* not before the beginning of the simulation */
	int64_t run_usec;    /* how long it runs if nothing ends it: cut at its time limit; at least 1 */
	int64_t cancel_usec; /* so long after its submission its owner cancels it; 0: never */
	int exit_code;	     /* of its script */
	uint32_t after;	     /* 1 + the index of an earlier job whose end it waits for; 0: none */
	/* TASKS of an array "0-(tasks-1)" have so many places in the workload, in order: the first has TASKS,
	 * the others TASK_OF, 1 + the index of the first, and the first's spec. 0: no array. */
	uint32_t tasks, task_of;
	/* Answers, filled by sch_sim_run: */
	int code;		      /* why it was refused; 0: it has an id */
	uint32_t id, state, restarts; /* state: its last, of states.def */
	int64_t start_usec, end_usec; /* of its last attempt; 0: never */
	int64_t planned_usec;	      /* the first planned start that it was told; 0: none */
};
/* What somebody does to the cluster itself: borrowed until the run is over. */
struct sch_sim_act {
	int64_t usec;
	Mu__Event *event; /* with its author */
};
enum sch_sim_what { SCH_SIM_STARTED, SCH_SIM_ENDED, SCH_SIM_EVENT };
struct sch_sim_watch {
	void *arg;
	/* Called after each event: with STARTED and the start for each job that started (JOB is its index),
	 * with ENDED and its index for each that left its nodes, with EVENT and the packed event for each
	 * that was folded. Borrowed for the call. A non-zero return ends the run and is returned. May be
	 * NULL. */
	int (*tell)(void *arg, enum sch_sim_what what, uint32_t job, const Mu__Start *start,
		    const uint8_t *event, size_t len);
};
struct sch_sim_figures {
	uint64_t events;	       /* folded, all kinds */
	uint64_t decided, passes;      /* slices that said something; passes among them */
	uint64_t steps, steps_max;     /* counted steps of all slices; of one */
	uint64_t starts, planned;      /* jobs started; planned starts made or moved */
	uint32_t waiting_max, started; /* most jobs that waited at once; jobs that started at least once */
	uint64_t acts, acts_void;
	uint32_t refused, never; /* refused at submission; still waiting when nothing could happen any more */
	int64_t begin_usec, end_usec; /* first submission, last event */
	uint64_t busy_cpu_usec;	      /* CPUs held, over time */
	uint64_t cpus;		      /* of the cluster */
	uint64_t state_bytes_max;
};

struct sch_sim;
/* A founded cluster of CONFIG (borrowed for the call) whose nodes have all registered with what their lines
 * say, at BEGIN_USEC. 0, or an errors.def code with the reason. */
int sch_sim_new(const Mu__Config *config, int64_t begin_usec, struct sch_sim **ret, struct mu_err *err);
struct sch_sim *sch_sim_free(struct sch_sim *sim); /* NULL is accepted; returns NULL */
/* The same, and TAP (which outlives the simulation) sees each entry as it is closed, from the founding on:
 * its position, its time, and its packed events. Borrowed for the call. A non-zero return ends the run and is
 * returned. */
struct sch_sim_tap {
	void *arg;
	int (*entry)(void *arg, uint64_t pos, int64_t time_usec, const struct mu_view *event, size_t count);
};
int sch_sim_new_tapped(const Mu__Config *config, int64_t begin_usec, const struct sch_sim_tap *tap,
		       struct sch_sim **ret, struct mu_err *err);
const struct sch_state *sch_sim_state(const struct sch_sim *sim);
/* Folds one event of somebody's (accounts, say) now. Its verdict's code. */
int sch_sim_event(struct sch_sim *sim, const Mu__Event *event, struct mu_err *err);
/* ACTS, in any order, happen in the run; those of one moment before its jobs, in their order. What does not
 * fit is void, as it would be. Borrowed until the run is over. */
void sch_sim_plan(struct sch_sim *sim, const struct sch_sim_act *acts, uint32_t count);
/* Runs JOBS, sorted by submit_usec, until nothing can happen any more. One whole pass behind each event;
 * events of one moment go by the order of JOBS. BUDGET: steps of a slice, 0: a pass is one slice. 0, what
 * WATCH returned, MU_EINVAL (not sorted, an array without places for its tasks), MU_ECORRUPT (the core voided
 * an event that must fit: a defect). */
int sch_sim_run(struct sch_sim *sim, struct sch_sim_job *jobs, uint32_t count, uint32_t budget,
		const struct sch_sim_watch *watch, struct sch_sim_figures *ret, struct mu_err *err);

/* A workload out of a seed: arrivals with bursts, sizes in powers of two and odd ones, run times from seconds
 * to days of which users ask for more than they need, a few users who submit most. */
struct sch_sim_model {
	uint64_t seed;
	uint32_t jobs, users, cpus_max; /* a job asks for at most cpus_max */
	uint32_t load_percent;		/* of a machine with CPUS processors */
	uint64_t cpus;
	int64_t begin_usec;
};
/* JOBS has model->jobs places; all memory is ARENA's. */
void sch_sim_generate(const struct sch_sim_model *model, struct mu_arena *arena, struct sch_sim_job *jobs);
/* Makes of the workload of sch_sim_generate what a site sees in a year: accounts in a tree and users in them,
 * arrays, jobs that wait for others, fail, are cancelled, go to the other partitions; reservations and their
 * jobs, nodes that fall and are drained and come back, changes of the configuration, which is CONFIG. All
 * memory is ARENA's. */
void sch_sim_year(const struct sch_sim_model *model, const Mu__Config *config, struct mu_arena *arena,
		  struct sch_sim_job *jobs, struct sch_sim_act **ret_acts, uint32_t *ret_count);

#endif
