/* sched/timeline.h: what will be free when, and the planned starts of waiting jobs that lie on it. Internal
 * to the room. */
#ifndef SCHED_TIMELINE_H
#define SCHED_TIMELINE_H

#include "sched/state.h"

/* timeline.c: what will be free when: running jobs end at their limits, planned jobs take their places. */
struct sch_line_span { /* a planned job on one node */
	struct sch_line_span *next;
	const struct sch_job *job;
	const struct sch_resv *resv; /* or what a reservation keeps */
	int64_t from_usec, until_usec;
	bool dead;
	struct sch_use use;
};
struct sch_line_end { /* something on one node becomes free */
	struct sch_line_end *next;
	int64_t at_usec;
	const struct sch_job *job;
	const struct sch_part *part;
	struct sch_use use;
	bool out; /* it is not in the rooms: nothing of it comes free */
};
struct sch_line_delta;
struct sch_line_order { /* of one node: made again when the heads of its lists have changed */
	const struct sch_line_end *ends;
	const struct sch_line_span *spans;
	struct sch_line_delta *v;
	uint32_t count, cap;
};
struct sch_line_lic { /* a running or planned job that has licences */
	struct sch_line_lic *next;
	const struct sch_job *job;
	int64_t from_usec, until_usec;
	bool plan, dead;
};
struct sch_line {
	const struct sch_state *st;
	struct mu_arena *arena;
	const struct sch_overlay *rooms; /* what is taken now */
	int64_t now_usec;
	struct sch_line_end **ends;   /* by rank */
	struct sch_line_span **spans; /* by rank */
	struct sch_line_order *order; /* by rank */
	uint32_t span_count;
	int64_t *times; /* moments at which something becomes free, ascending once sorted */
	uint32_t time_count, time_cap;
	bool sorted;
	uint64_t *steps;
	/* Whose eyes look: */
	const struct sch_job *me;	 /* its own plan, and its components', do not count; may be NULL */
	bool siblings;			 /* but those do: they are being planned with it */
	bool above_only;		 /* nor do those of jobs behind it */
	bool no_spans, claims_only;	 /* nor does any; nor any but a claim */
	bool veiled;			 /* the rooms show already which CPUs are kept by reservations */
	const struct sch_resv *in;	 /* the reservation it would run in */
	const char *licenses;		 /* what it needs of them; NULL: none */
	struct sch_line_lic *lic;	 /* who has licences when */
	const char *share;		 /* the partition with whose jobs it would share CPUs; NULL: none */
	uint32_t share_most, share_full; /* as of struct sch_need */
	uint32_t share_cpus;		 /* of a node it has no more */
	bool sharing;			 /* plans share CPUs */
	uint16_t *share_times;		 /* share.c's memory */
	uint32_t times_cap;
	struct sch_room peak; /* the answer's memory */
	struct sch_gres_room gres[SCH_GRES_PER_NODE];
};
/* Builds the line over ROOMS from the running jobs and the plans in State. All memory is ARENA's. */
void sch__line_init(struct sch_line *line, const struct sch_overlay *rooms, struct mu_arena *arena,
		    uint64_t *steps);
bool sch__line_sees(const struct sch_line *line, const struct sch_line_span *s, const struct sch_node *n);
void sch__line_ends(struct sch_line *line, const struct sch_node *n, const struct sch_job *j,
		    const struct sch_part *p, const Mu__AllocNode *row, bool exclusive,
		    int64_t at_usec); /* a start made meanwhile */
/* J was taken OUT of the rooms, or put back: its end on N gives nothing, or does again. */
void sch__line_lift(struct sch_line *line, const struct sch_node *n, const struct sch_job *j, bool out);
void sch__line_plan(struct sch_line *line, const struct sch_job *j, const struct sch_need *need,
		    int64_t from_usec, int64_t until_usec, const struct sch_pick *pick, uint32_t count);
/* J has its licences for the span. */
void sch__line_lic(struct sch_line *line, const struct sch_job *j, int64_t from_usec, int64_t until_usec,
		   bool plan);
bool sch__line_licences(struct sch_line *line, int64_t from_usec,
			int64_t until_usec); /* of whose eyes look */
void sch__line_unplan(struct sch_line *line, const struct sch_job *j, const struct sch_pick *pick,
		      uint32_t count); /* its places on the nodes of PICK */
/* The most that is taken of N at any moment from FROM to before UNTIL; valid until the next call. */
const struct sch_room *sch__line_room(struct sch_line *line, const struct sch_node *n, int64_t from_usec,
				      int64_t until_usec);
uint32_t sch__line_choose(struct sch_line *line, const struct sch_need *need, const struct mu_bits *nodes,
			  const struct mu_bits *required, int64_t from_usec, int64_t until_usec,
			  struct sch_pick *pick);
/* The earliest moment after now and before BEFORE (INT64_MAX: any) at which NEED has its places for LENGTH;
 * 0 when there is none or the tries are used up. */
int64_t sch__line_earliest(struct sch_line *line, const struct sch_need *need, const struct mu_bits *nodes,
			   const struct mu_bits *required, int64_t length_usec, int64_t before_usec,
			   struct sch_pick *pick, uint32_t *ret_count);
/* The next moment after AT at which something becomes free; 0: none. */
int64_t sch__line_after(struct sch_line *line, int64_t at_usec);
int64_t sch__line_end_usec(const struct sch_job *j); /* when running J is counted to be gone */
int64_t sch__counted_from(const struct sch_job *j, int64_t now_usec); /* if J started now */
int64_t sch__span(int64_t limit_sec);	/* how long a running job is expected to run, microseconds */
int64_t sch__length(int64_t limit_sec); /* how long a waiting job needs its places */
uint32_t sch__tier(const struct sch_part *p);
bool sch__behind(const struct sch_state *st, const struct sch_job *a,
		 const struct sch_job *b); /* A is visited after B */

/* plan.c: planned starts of waiting jobs, as they stand in State */
void sch__plan_set(struct sch_state *st, struct sch_job *j, int64_t start_usec, const char *nodes,
		   const uint32_t *tasks, size_t count, const uint32_t *gpus, size_t gpu_count);
void sch__plan_clear(struct sch_state *st, struct sch_job *j);
/* A plan whose moment has come needs its places for ever less, and keeps others away for ever less: when time
 * has gone on since BEFORE, wakes the pass if that alone may let a job start. Due: the next such moment after
 * SINCE; 0: none. */
void sch__plans_time(struct sch_state *st, int64_t before_usec);
int64_t sch__plans_due(const struct sch_state *st, int64_t since_usec);
/* The places of J's plan. Returns how many; 0 when they do not read (a node has gone). PICK has node_count
 * places. */
uint32_t sch__plan_picks(const struct sch_state *st, const struct sch_job *j, struct mu_arena *arena,
			 struct sch_pick *pick);
void sch__fold_allocs(Mu__Start *s, struct mu_arena *arena); /* neighbours that hold the same: one element */
int64_t sch__job_limit_in(const struct sch_job *j, const struct sch_part *p);
/* Whether J may start with LIMIT_SEC instead of its own limit. */
bool sch__job_limit_may(const struct sch_job *j, const struct sch_part *p, int64_t limit_sec);
/* What of P's limits keeps J waiting; whether it waits for what is left of its last run. */
uint32_t sch__part_reason(const struct sch_job *j, const struct sch_part *p);
bool sch__waits_for_fence(const struct sch_state *st, const struct sch_job *j);

#endif
