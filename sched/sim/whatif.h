/* sched/sim/whatif.h: a recorded history told again under other rules. Two States go through the same entries
 * side by side: one as it was, the other with something changed, where the core decides anew at the recorded
 * moments and with the recorded budgets. Nothing that comes from outside is invented: submissions, operators
 * and nodes keep their moments; what nodes and users said of an attempt that has begun keeps its distance
 * from the attempt's start, so that launch delays, run times and ends by cause stay as they were. Where the
 * other history gives an attempt that there never was, or one that was cut short by what is no longer so, its
 * run time is that of the job's other attempt, else its time limit: these are counted.
 *
 * With nothing changed the second State is the first, position for position.
 *
 * Owns: the pairing of events with attempts, the second State's entries, what became of each job in both.
 * Leaves to others: reading an archive, changing a configuration, figures and words. Pure, like the room. */
#ifndef SCHED_SIM_WHATIF_H
#define SCHED_SIM_WHATIF_H

#include "sched/sched.h"

/* What became of one job in one of the two histories. */
struct sch_whatif_life {
	int64_t start_usec, end_usec; /* first start, last end; 0: never */
	int64_t last_usec;	      /* last start */
	int64_t ready_usec;	      /* from when on it could have started: its wait counts from there */
	uint32_t starts, state;
	uint64_t start_pos; /* of the first start */
};
struct sch_whatif_job {
	uint32_t id, array, task; /* as it was; ARRAY 0: no task of an array */
	const char *user, *account;
	int64_t submit_usec, limit_sec;
	uint32_t cpus, nodes, gpus;
	bool refused; /* by the other rules, when it was submitted */
	struct sch_whatif_life real, other;
};
/* Figures of one history over the period. */
struct sch_whatif_side {
	uint64_t busy_cpu_usec, cpu_usec; /* CPUs held, CPUs there, over time */
	uint64_t starts, entries;
};
struct sch_whatif_figures {
	struct sch_whatif_side real, other;
	uint64_t slices, equal;	   /* recorded slices met; that came out byte for byte the same */
	uint64_t own;		   /* slices at moments of their own: see sch_whatif_entry */
	uint64_t foreign;	   /* recorded by another planner version */
	uint64_t moved;		   /* attempts that began at another moment or elsewhere */
	uint64_t assumed, endless; /* attempts whose run time is assumed; of them, those that nothing ended */
	uint32_t refused;	   /* submissions that the other rules refuse */
	uint64_t different;	   /* position of the first difference; 0: none */
};
struct sch_whatif_change {
	/* Another configuration for each that was in force: the same arena memory or borrowed; NULL: as the
	 * first. Called for the one at the beginning and for each that was set later. May be NULL. */
	int (*alter)(void *arg, const Mu__Config *was, struct mu_arena *arena, Mu__Config **ret,
		     struct mu_err *err);
	void *arg;
	const char *const *drop; /* names of reservations that there are not */
	size_t drop_count;
	uint64_t skip_pos; /* an event that did not happen; 0: none */
	uint32_t skip_n;
	const char *alive; /* a node that never falls silent; NULL: none */
};

struct sch_whatif;
/* Jobs submitted in FROM_USEC..TO_USEC are reported, figures are of that period. CHANGE is borrowed until the
 * end. */
struct sch_whatif *sch_whatif_new(const struct sch_whatif_change *change, int64_t from_usec, int64_t to_usec);
struct sch_whatif *sch_whatif_free(struct sch_whatif *w); /* NULL is accepted; returns NULL */

/* First the whole history is shown, event by event, before (VERDICT NULL) and after it is folded. 0 or
 * MU_ECORRUPT. */
int sch_whatif_learn(struct sch_whatif *w, const struct sch_state *st, const struct sch_at *at,
		     const uint8_t *event, size_t len, const struct sch_verdict *verdict);
/* Then both States begin at the position before the first entry shown; takes them. 0, or why the change
 * cannot be made. */
int sch_whatif_begin(struct sch_whatif *w, struct sch_state *real, struct sch_state *other, int64_t now_usec,
		     struct mu_err *err);
/* Then each entry again, with its events. After the first difference the other history also decides at
 * moments of its own: where its State wants to and no recorded slice begins within a second. 0, MU_ECORRUPT,
 * MU_EVERSION. */
int sch_whatif_entry(struct sch_whatif *w, uint64_t pos, int64_t time_usec, const struct mu_view *event,
		     size_t count, struct mu_err *err);
/* Then what is still to come of attempts that were moved, until nothing of the period waits or nothing more
 * can happen. */
int sch_whatif_finish(struct sch_whatif *w, struct mu_err *err);
/* True when the period is over and none of its jobs waits in either history. */
bool sch_whatif_over(const struct sch_whatif *w);

const struct sch_state *sch_whatif_real(const struct sch_whatif *w);
const struct sch_state *sch_whatif_other(const struct sch_whatif *w);
const struct sch_whatif_figures *sch_whatif_figures(const struct sch_whatif *w);
/* Jobs of the period in order of id and task: the AT-th; NULL at the end. */
const struct sch_whatif_job *sch_whatif_job(struct sch_whatif *w, size_t at);

#endif
