/* sched/pass.h: one slice of a pass while it is made. Internal to decide.c, pass.c, promise.c and together.c;
 * all memory is the slice's arena's, but for bit sets and maps, which decide.c opens and closes. */
#ifndef SCHED_PASS_H
#define SCHED_PASS_H

#include "sched/timeline.h"

/* One shape in one partition, as far as this slice has found out. */
struct sch_attempt {
	struct sch_attempt *next;
	const struct sch_part *part;
	struct sch_need need;
	struct mu_bits nodes, required;
	uint32_t hint;
	uint32_t reason; /* never runs as things are: why; else REASON_None */
	const char *detail;
	bool failed; /* did not fit in this slice; will not, because rooms only shrink */
	int64_t
	    failed_usec; /* 0, or: nor does a job of this length fit between the plans as they were then */
	uint32_t failed_moves;
	/* Nobody can give way to such a job, of this QOS, with no higher priority, nor a shorter one. */
	bool hunted;
	const struct sch_str *hunted_qos;
	uint32_t hunted_priority;
	int64_t hunted_usec;
};
struct sch_pass_begun { /* one node of a start of this slice */
	const struct sch_node *node;
	const Mu__AllocNode *row;
	int64_t until_usec;
	bool exclusive;
	const struct sch_job *job;
	const struct sch_part *part;
};
struct sch_lane {
	struct sch_part *part;
	uint32_t tier;
	struct sch_job *head;			  /* NULL: nothing left to visit */
	uint64_t head_key, blocked_key, seen_key; /* seen: visited last by this pass */
	bool blocked;
	struct sch_job *blocker;
};
struct sch_pass_list {
	void **v;
	size_t count, cap;
};
/* What this slice has started of a job: for an array's record, how many tasks, and which is next. */
struct sch_pass_taken {
	uint32_t count, next; /* next: ordinal from which on none was taken */
};
/* A running job that could give way, of a heterogeneous one all components. */
struct sch_held {
	struct sch_job *job;
	struct sch_alloc *alloc;
};
struct sch_victim {
	struct sch_job *job; /* the first */
	struct sch_held *held;
	uint32_t held_count;
	uint32_t rank, second; /* its place in the order */
	uint8_t how;	       /* enum sch_preempt_how */
	bool wanted, lifted;
	int64_t grace_usec, gone_usec; /* gone: when it is out, by its grace or by its own limit */
};
struct sch_pass {
	const struct sch_state *st;
	struct mu_arena *arena;
	uint64_t steps, budget;
	uint64_t setup; /* steps before the first job: a slice visits one at least */
	size_t bytes;
	Mu__Decided *d;
	struct sch_pass_list start, reason, plan, stop, lost, preempt, resume;
	struct sch_overlay overlay;
	struct mu_bits avail; /* open nodes that no blocked job keeps */
	struct mu_bits kept;  /* nodes kept for blocked jobs, of stopped partitions and others */
	struct mu_bits named; /* of those: required by jobs that stopped no partition */
	struct sch_lane *lane;
	uint32_t lane_count;
	struct sch_attempt **attempt; /* by shape id */
	struct sch_pass_list attempts;
	struct mu_map started;	/* struct sch_pass_taken by job id */
	struct mu_map families; /* struct sch_pass_taken by array id: all its tasks together */
	uint32_t ids;		/* new job ids that the starts will take */
	struct mu_bits arrays;	/* nodes for which more tasks of an array wait than have a plan */
	struct sch_extra extra; /* what this slice has started, as limits count it */
	struct sch_pick *pick;
	int64_t limit_sec; /* shorter than the job's own, with which it is about to start; 0: none */
	bool veiled;
	const struct sch_resv *in; /* the reservation that the job being visited would run in */
	struct sch_prey *prey;	   /* who could give way, by whose jobs ask */
	struct mu_map preempted;   /* jobs that give way, or go on again, by this slice */
	bool claims;		   /* plans stand for which others give way */
	/* Backfill: */
	struct sch_line *line; /* NULL until a plan stands or is needed */
	struct sch_pass_list begun;
	bool personal;	      /* it matters whose job is where: attempts are by user */
	uint32_t reserved;    /* jobs visited in this pass whose plan stands */
	uint32_t moves;	      /* plans of this slice that gave up a place */
	uint32_t made;	      /* first plans of this slice */
	uint32_t given_up;    /* plans in State whose jobs started in this slice or lost them */
	struct sch_job *last; /* of the jobs with plans, the one visited last */
};

/* pass.c: what a slice has said and taken so far */
void sch__pass_add(struct sch_pass *p, struct sch_pass_list *l, void *item, size_t bytes);
/* True when the slice has used up its steps or bytes. */
bool sch__pass_exhausted(const struct sch_pass *p);
/* What the slice has started of J; NULL: nothing. */
struct sch_pass_taken *sch__pass_taken(const struct sch_pass *p, const struct sch_job *j);
bool sch__pass_all_taken(const struct sch_pass *p,
			 const struct sch_job *j); /* nothing of J is left to visit */
uint32_t sch__pass_array_room(const struct sch_pass *p, const struct sch_job *j);
bool sch__pass_more_behind(const struct sch_pass *p, const struct sch_job *j);
/* Says in S which task of J starts, and notes that it does. */
void sch__pass_take_task(struct sch_pass *p, const struct sch_job *j, Mu__Start *s);

/* decide.c */
struct sch_attempt *sch__pass_attempt(struct sch_pass *p, const struct sch_job *j,
				      const struct sch_part *part);
void sch__pass_reason(struct sch_pass *p, struct sch_job *j, uint32_t reason, const char *detail);
/* What keeps J out of PART whatever is free: limits, and what is left of its last run. */
uint32_t sch__pass_never(const struct sch_pass *p, const struct sch_part *part, const struct sch_job *j);
/* A start of J on the first COUNT nodes of p->pick, of what the rooms have as they are. */
Mu__Start *sch__pass_cut(struct sch_pass *p, const struct sch_attempt *a, const struct sch_job *j,
			 uint32_t count);
/* Takes what S holds: J's now, for those that are looked at behind it. p->pick is as sch__pass_cut saw it. */
void sch__pass_take(struct sch_pass *p, const struct sch_attempt *a, const struct sch_job *j, Mu__Start *s);

/* together.c: visits the components of a heterogeneous job, whose first is J. True when they start. */
bool sch__pass_together(struct sch_pass *p, struct sch_lane *l, struct sch_job *j);

/* promise.c: planned starts */
/* The planned start that J has, 0 where the slice has started the task that it was for. */
int64_t sch__pass_plan_of(const struct sch_pass *p, const struct sch_job *j);
struct sch_line *sch__pass_line(struct sch_pass *p); /* made when it is first asked for */
/* From now on the line is seen with J's eyes. */
void sch__pass_look_as(struct sch_pass *p, const struct sch_job *j);
void sch__pass_say_plan(struct sch_pass *p, const struct sch_job *j, int64_t start,
			const struct sch_pick *pick, uint32_t count);
void sch__pass_drop_plan(struct sch_pass *p, const struct sch_job *j);
/* Keeps, betters or makes the planned start of a job that does not fit now. */
void sch__pass_reserve(struct sch_pass *p, struct sch_attempt *a, struct sch_job *j);
/* May J, which is visited in PART, have a plan that it has not? BEHIND: of those that wait for the same
 * nodes. */
bool sch__pass_may_plan(const struct sch_pass *p, const struct sch_job *j, const struct sch_part *part,
			int64_t planned, bool behind);

/* pass_preempt.c */
enum sch_hunt { SCH_HUNT_NOTHING, SCH_HUNT_START, SCH_HUNT_CLAIM };
/* Who has to give way for J, which does not fit. START: p->pick has its places, and it is to be started;
 * CLAIM: it has a plan that stands until they are gone. */
enum sch_hunt sch__pass_preempt(struct sch_pass *p, struct sch_attempt *a, struct sch_job *j,
				uint32_t *ret_count);
/* Jobs suspended by preemption whose place is before TIER and KEY go on where there is room. */
void sch__pass_resume(struct sch_pass *p, uint32_t tier, uint64_t key);

#endif
