/* sched/resv.h: reservations in State: what is kept, for whom, when. Room-internal.
 *
 * A reservation never takes a node's resources by itself: it forbids nodes (or some of their CPUs) to jobs
 * that are not of it, for every span of time in which it holds. Rules are questions about a job and a span,
 * so that decide, evolve and the timeline ask the same ones. */
#ifndef SCHED_RESV_H
#define SCHED_RESV_H

#include "proto/reservation.pb-c.h"

struct sch_state;
struct sch_job;
struct sch_node;
struct sch_alloc;
struct sch_ev;
struct sch_rec;

/* Reservations of a cluster; occurrences of a repeating one that are looked at: beyond a year nothing is
 * planned. */
enum { SCH_RESVS_MAX = 1000, SCH_RESV_TIMES_MAX = 400, SCH_RESV_LINE_TIMES = 8 };

struct sch_resv_part { /* CPUs of one node */
	struct sch_node *node;
	struct mu_bits cpu;
	uint32_t cpus, cores;
};
struct sch_resv {
	struct sch_rec rec;
	Mu__ReservationRow *row;
	struct mu_bits nodes; /* by rank; derived */
	struct sch_resv_part *part;
	uint32_t part_count; /* 0: nodes are kept whole */
	uint32_t jobs;	     /* running in it, or ending */
	uint32_t refs;	     /* jobs that wait for it or are in it */
};

struct sch_resv *sch__resv(const struct sch_state *st, const char *name);
struct sch_resv *sch__resv_next(const struct sch_state *st,
				const struct sch_resv *after);			       /* in order of names */
int sch__resv_load(struct sch_state *st, Mu__ReservationRow *row, struct mu_err *err); /* takes ROW */
struct sch_resv *sch__resv_build(struct sch_state *st, Mu__ReservationRow *row);
void sch__resv_free(struct sch_state *st, struct sch_resv *r);
void sch__resvs_derive(struct sch_state *st); /* after ranks or partitions changed */
void sch__resv_derive(struct sch_state *st, struct sch_resv *r);
void sch__resv_node_flags(struct sch_state *st); /* MAINT and RESERVED on nodes */
bool sch__resv_flag(const struct sch_resv *r, uint64_t flag);

/* Who may use it. */
struct sch_resv_asker {
	const char *user;
	const char *account;
	uint32_t assoc, gid, group_count;
	const uint32_t *groups;
};
void sch__resv_asker(const struct sch_job *j, struct sch_resv_asker *ret);
bool sch__resv_open_to(const struct sch_state *st, const struct sch_resv *r, const struct sch_resv_asker *a);
/* Checks the names of a request: 0, MU_ERESERVATION, MU_EPERM. */
int sch__resv_check(const struct sch_state *st, const char *names, const struct sch_resv_asker *a,
		    struct mu_err *err);

/* When: the occurrence number K as seen at NOW. False when there is none. */
bool sch__resv_time(const struct sch_resv *r, int64_t now, uint32_t k, int64_t *ret_from, int64_t *ret_until);
bool sch__resv_meets(const struct sch_resv *r, int64_t now, int64_t from, int64_t until);

/* May a job that runs in IN (NULL: in none) for the span use what R keeps? */
bool sch__resv_bars(const struct sch_resv *r, const struct sch_resv *in, int64_t now, int64_t from,
		    int64_t until);
/* Takes from NODES (by rank) those that reservations keep from a job in IN for the span. True when one went.
 */
bool sch__resv_mask(const struct sch_state *st, const struct sch_resv *in, int64_t from, int64_t until,
		    struct mu_bits *nodes);
/* Some reservation keeps parts of nodes. */
bool sch__resv_parts(const struct sch_state *st);
/* CPUs of N that are kept from a job in IN for the span, into RET. */
void sch__resv_cpus(const struct sch_state *st, const struct sch_resv *in, const struct sch_node *n,
		    int64_t from, int64_t until, struct mu_bits *ret);
/* Why J cannot start in IN now with this length (REASON_None: it can, if there is room). */
uint32_t sch__resv_reason(const struct sch_state *st, const struct sch_job *j, const struct sch_resv *in,
			  int64_t now, int64_t length);
struct sch_need;
struct sch_part;
/* Reservations that J may run in, in the order in which they are tried; the last may be NULL: in none. RET
 * has one place more than there are reservations. */
uint32_t sch__resv_choices(const struct sch_state *st, const struct sch_job *j, const struct sch_resv **ret);
/* All NODES that would serve are kept by reservations: how it is told; NULL: they are not. */
const char *sch__resv_kept(const struct sch_state *st, const struct sch_need *need,
			   const struct sch_part *part, const struct mu_bits *nodes,
			   const struct mu_bits *required, const struct sch_resv *in, int64_t length);
/* All that evolve asks again before a start. */
bool sch__resv_permits(const struct sch_state *st, const struct sch_job *j, const struct sch_resv *in,
		       const struct sch_alloc *a, uint32_t count, int64_t from, int64_t length);
/* LENGTH, or what is left until a job that starts in IN now is ended with it. */
int64_t sch__resv_length(const struct sch_state *st, const struct sch_resv *in, int64_t now, int64_t length);
int64_t sch__resv_job_end(const struct sch_state *st, const struct sch_resv *in); /* 0: no end of its own */

/* Counters: J's state changes; J's wish changes. */
void sch__resv_count(struct sch_state *st, const struct sch_job *j, int sign);
void sch__resv_ref(struct sch_state *st, const struct sch_job *j, int sign);
int64_t sch__resv_due(const struct sch_state *st);
void sch__resv_tick(struct sch_ev *ev);
void sch__resv_remove(struct sch_ev *ev, struct sch_resv *r);

#endif
