/* sched/sim/whatif_int.h: the inside of whatif.h. */
#ifndef SCHED_SIM_WHATIF_INT_H
#define SCHED_SIM_WHATIF_INT_H

#include "sched/sim/whatif.h"
#include "sched/state.h"

/* What was said of an attempt: by its nodes, or to it. */
struct whatif_said {
	struct whatif_said *next;
	int64_t offset_usec; /* from its start */
	uint32_t node;	     /* which of its nodes spoke; UINT32_MAX: a person */
	uint64_t pos;
	uint32_t n, len;
	uint8_t bytes[];
};
enum whatif_told { WHATIF_NOT_YET, WHATIF_SAME, WHATIF_MOVED };
struct whatif_attempt {
	struct whatif_attempt *next;
	uint32_t number, node_count;
	int64_t start_usec, run_usec; /* run: as far as it was not cut short; 0: unknown */
	const char **node;
	struct whatif_said *said, **said_tail;
	enum whatif_told told; /* in the other history */
};
struct whatif_tale {
	struct sch_whatif_job job;
	struct whatif_attempt *attempt, **tail;
	bool seen, in_period;
	/* Where it stands, in both: the attempt that runs (0: none), its CPUs. */
	struct whatif_now {
		uint32_t attempt, cpus;
		int64_t since_usec;
		bool waits;
	} real, other;
	uint32_t generation; /* of what is planned for the other's attempt */
};
struct whatif_slice {
	uint64_t basis, pos;
	int64_t basis_usec;
	uint32_t n, budget;
	bool foreign, bare; /* bare: recorded before budgets were */
};
struct whatif_due {
	int64_t usec;
	uint64_t serial;
	struct whatif_tale *tale;
	struct whatif_attempt *of;
	const struct whatif_said *said; /* NULL: it ends, all of it */
	uint32_t generation, attempt, cause;
};
struct sch_whatif {
	const struct sch_whatif_change *change;
	int64_t from_usec, to_usec;
	struct sch_state *a, *b;
	struct sch_changes changes;
	struct mu_arena keep, entry, event, slice;
	uint8_t walk[8]; /* the last job that was asked for */
	struct mu_buf buf, decided;
	bool decided_ready, altered, seeded, config_new;
	size_t decided_for;  /* slice */
	struct mu_map tales; /* by job (or array) and task */
	struct mu_map reals; /* real id -> tale of a job that ran */
	struct mu_map said;  /* be64 pos, be32 n, be32 job -> attempt that a person spoke to */
	struct mu_map
	    ids; /* of a submission: real id -> 1 + the one in the other history, where they differ */
	struct mu_map backs; /* and back */
	struct mu_map names; /* texts that jobs share */
	struct whatif_slice *slices;
	size_t slice_count, slice_cap, slice_at;
	struct whatif_due *heap;
	size_t heap_count, heap_cap;
	uint64_t serial;
	int64_t now_usec, cpus_from_usec;
	uint64_t cpus_a, cpus_b;
	uint32_t waiting; /* jobs of the period that wait, in both */
	struct whatif_tale *firing;
	uint32_t budget;
	struct sch_whatif_figures f;
};

/* whatif.c */
struct whatif_tale *whatif__tale(struct sch_whatif *w, const struct sch_job *j, bool other);
struct whatif_attempt *whatif__attempt(struct whatif_tale *t, uint32_t number);
Mu__Event *whatif__open(const void *bytes, size_t len, struct mu_arena *arena);
Mu__Event *whatif__blank(struct mu_arena *arena, Mu__Event__KindCase kind, const char *verifier);
/* Folds COUNT events as an entry of the other history's own, now, and decides where that is due. */
int whatif__own_entry(struct sch_whatif *w, Mu__Event *const *e, size_t count, struct mu_err *err);
/* Something is not as it was: before that, every moment is a recorded one. */
static inline bool whatif__different(const struct sch_whatif *w)
{
	return w->altered || w->f.different;
}

/* whatif_learn.c */
/* The attempt that a person spoke to with event (POS, N); NULL: none, it counts as of its moment. */
struct whatif_attempt *whatif__spoken_to(struct sch_whatif *w, uint64_t pos, uint32_t n, uint32_t job);

/* whatif_tell.c */
/* Makes of an event of the real history what the other one has instead, in the arena of the event. False: it
 * is left out. *RET_CHANGED: it must be packed anew. */
bool whatif__translate(struct sch_whatif *w, Mu__Event *e, uint64_t pos, uint32_t n,
		       const struct sch_verdict *real, bool *ret_changed, struct mu_err *err);
/* Nodes that only the other history has say that they are there. */
int whatif__register(struct sch_whatif *w, struct mu_err *err);

/* whatif_moved.c */
/* What the other history has to come up to USEC: what was said of attempts that were moved, and ticks. */
int whatif__fire_until(struct sch_whatif *w, int64_t usec, struct mu_err *err);
int whatif__fire_next(struct sch_whatif *w, int64_t until_usec, bool *ret_fired, struct mu_err *err);
/* An entry was folded: what became of jobs, in the real history or the other. */
void whatif__observe(struct sch_whatif *w, bool other);
void whatif__first_sight(struct sch_whatif *w, const struct sch_job *j); /* at the beginning, in both */
/* Attempts that only the other history sees through get an end. */
void whatif__under_way(struct sch_whatif *w);
void whatif__capacity(struct sch_whatif *w); /* CPUs there, up to now; anew from now on */

#endif
