/* sched/sched.h: the deterministic core. State is fold(evolve, events) and nothing else.
 *
 * Owns: State, admission, evolve, decide, rows, digest, orders derived from State.
 * Leaves to others: bytes on disk and wire (log), rows on disk (query), clocks (entries carry time), people
 * (cli). Purity: no clock, randomness, float, I/O, thread, mutable static, pointer or hash order. All work is
 * bounded by counted steps. Not thread-safe: one State belongs to one thread. */
#ifndef SCHED_SCHED_H
#define SCHED_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/base/hash.h"
#include "proto/event.pb-c.h"
#include "proto/orders.pb-c.h"
#include "proto/why.pb-c.h"
#include "proto/wire.pb-c.h"

#define SCH_PLANNER_VERSION 5u

struct sch_state;

struct sch_state *sch_state_new(void);			/* an empty State at pos 0 */
struct sch_state *sch_state_free(struct sch_state *st); /* NULL is accepted; returns NULL */

/* ---- rows ---- */
enum sch_row_kind {			   /* numbers on disk */
		    SCH_ROW_CLUSTER = 1,   /* Mu__ClusterRow, key "" */
		    SCH_ROW_CONFIG = 2,	   /* Mu__ConfigRow, key "" */
		    SCH_ROW_PARTITION = 3, /* Mu__PartitionRow, key name */
		    SCH_ROW_NODE = 4,	   /* Mu__NodeRow, key name */
		    SCH_ROW_JOB = 5,	   /* Mu__JobRow, key be32 id */
		    SCH_ROW_STEP = 6,	   /* Mu__StepRow, key be32 job, be32 attempt, be32 step */
		    SCH_ROW_ANSWER = 7,	   /* Mu__AnswerRow, key be64 birth, 16 bytes nonce */
		    SCH_ROW_NODE_KEY = 8,  /* Mu__NodeKeyRow, key node name */
		    SCH_ROW_ACCOUNT = 9,   /* Mu__AccountRow, key name */
		    SCH_ROW_USER = 10,	   /* Mu__UserRow, key name */
		    SCH_ROW_ASSOC = 11,	   /* Mu__AssocRow, key be32 id */
		    SCH_ROW_QOS = 12,	   /* Mu__QosRow, key name */
		    SCH_ROW_RESERVATION = 13, /* Mu__ReservationRow, key name */
		    SCH_ROW_ARRAY = 14,	   /* Mu__ArrayRow, key be32 id */
		    SCH_ROW_KINDS = 15
};
enum { SCH_KEY_MAX = 255 };
struct sch_key {
	uint8_t kind; /* enum sch_row_kind */
	uint8_t len;
	uint8_t bytes[SCH_KEY_MAX];
};

/* Rows that one or more evolve calls changed, without duplicates, in first-touched order. Zero-initialise. */
struct sch_change {
	struct sch_key key;
	bool gone;	/* the row left State */
	size_t at, len; /* of the row as packed, in sch_changes.rows; LEN 0: not kept */
};
struct sch_changes {
	struct sch_change *v;
	size_t count, cap;
	bool keep_rows;	    /* set by who wants the rows too: evolve packs each for the digest anyway */
	struct mu_buf rows; /* older versions of a row among them */
};
void sch_changes_reset(struct sch_changes *c); /* KEEP_ROWS stays */
void sch_changes_free(struct sch_changes *c);
/* Appends row I, which is not gone, as the entry left it: to be called before the next entry is folded. 0 or
 * MU_ENOENT. */
int sch_changes_row(const struct sch_state *st, const struct sch_changes *c, size_t i, struct mu_buf *out);

/* Appends the packed row to OUT; 0 or MU_ENOENT. */
int sch_row_pack(const struct sch_state *st, const struct sch_key *key, struct mu_buf *out);
/* Calls SINK for every row of KIND (0: all kinds) in key order; a non-zero return of SINK stops and is
 * returned. */
typedef int (*sch_row_sink)(void *arg, const struct sch_key *key, const uint8_t *row, size_t len);
int sch_rows(const struct sch_state *st, uint8_t kind, sch_row_sink sink, void *arg);
/* Puts one row into a State under construction (checkpoint, snapshot). After the last, sch_load_done derives
 * what is derived and checks that rows refer to each other rightly: 0, MU_EPROTO or MU_ECORRUPT (then the
 * State must be freed). */
int sch_load_row(struct sch_state *st, uint8_t kind, const uint8_t *row, size_t len, struct mu_err *err);
int sch_load_done(struct sch_state *st, struct mu_err *err);

/* Sum modulo 2^256 of BLAKE2b(kind || key length || key || row) over all rows, kept up by evolve. The walk
 * recomputes it (tests). */
void sch_digest(const struct sch_state *st, struct mu_hash *ret);
void sch_digest_walk(const struct sch_state *st, struct mu_hash *ret);

/* ---- reading State ---- */
uint64_t sch_pos(const struct sch_state *st);	  /* entries folded */
int64_t sch_now_usec(const struct sch_state *st); /* time of the last entry folded */
uint32_t sch_level(const struct sch_state *st);
const Mu__ClusterRow *
sch_cluster(const struct sch_state *st); /* borrowed until the next evolve; so are the next four */
const Mu__Config *sch_config(const struct sch_state *st);
const Mu__JobRow *sch_job(const struct sch_state *st, uint32_t id); /* NULL when not in State */
/* Of array ID: how many tasks it has, how many of them wait, run or are ending, and have failed. False when State
 * knows no such array. */
struct sch_array_counts {
	uint32_t tasks, waiting, active, failed, uid;
};
bool sch_array_counts(const struct sch_state *st, uint32_t id, struct sch_array_counts *ret);
/* A job row of array ID: one that has not ended where there is one. NULL as above. */
const Mu__JobRow *sch_array_job(const struct sch_state *st, uint32_t id);
const Mu__JobRow *sch_task(const struct sch_state *st, uint32_t array, uint32_t index); /* NULL: not in State */
const Mu__NodeRow *sch_node(const struct sch_state *st, const char *name);
const Mu__NodeKeyRow *sch_node_key(const struct sch_state *st, const char *name);
bool sch_founded(const struct sch_state *st);
struct sch_counts {
	uint32_t jobs_pending, jobs_running, jobs_completing, jobs_total;
	uint32_t jobs_planned; /* of those pending, with a planned start */
	uint32_t nodes_total, nodes_idle, nodes_mixed, nodes_allocated, nodes_down, nodes_drain;
	uint64_t gpus_total, gpus_allocated, cpus_total, cpus_allocated;
	uint64_t state_bytes; /* memory held by State */
};
void sch_counts(const struct sch_state *st, struct sch_counts *ret); /* O(1) or O(nodes) */

/* ---- admit ---- */
/* Refuses EVENT early, over the present State, with the sentence that the client will print; fills in what
 * evolve needs and the client could not know (defaults are left to evolve). EVENT->author must be set.
 * TEST_ONLY callers propose nothing afterwards. 0 or an errors.def code. Pure: never changes State. Bounded
 * by the size of EVENT, never by the number of jobs waiting. */
int sch_admit(const struct sch_state *st, Mu__Event *event, struct mu_err *err);

/* --test-only: when and where would this job start if it were submitted now. 0 with the answer in RET (arena
 * memory), or a code. */
int sch_test_only(const struct sch_state *st, const Mu__Event *event, struct mu_arena *arena, Mu__Reply *ret,
		  struct mu_err *err);

/* ---- evolve ---- */
struct sch_at {
	uint64_t pos;	   /* position of the entry: sch_pos + 1 at its first event, then the same */
	uint32_t n;	   /* index of the event within the entry */
	int64_t time_usec; /* from the entry's header */
};
/* What the event came to: the answer for the client that asked. */
struct sch_verdict {
	int code;     /* 0, or why it was voided */
	uint32_t job; /* id given or concerned */
	bool
	    repeated; /* the request id had been answered before: code, job and text are the first answer's */
	char text[256];
};
/* Folds one committed event. Never aborts on content: what does not fit is voided and counted before the
 * first write. MU_EVERSION alone (unknown event type or a level above ours) stops the replica, with nothing
 * changed. Appends to CHANGES. An event whose request id is known changes nothing and gets the first answer
 * again. */
int sch_evolve(struct sch_state *st, const struct sch_at *at, const uint8_t *event, size_t len,
	       struct sch_verdict *ret_verdict, struct sch_changes *changes, struct mu_err *err);
/* Ends the entry at AT->pos: advances pos (also for an entry without events). */
void sch_entry_done(struct sch_state *st, uint64_t pos, int64_t time_usec, struct sch_changes *changes);

/* ---- decide ---- */
/* True when the State at this position has something to decide: an event since the last pass could change the
 * outcome, a slice is unfinished, or something is due at sch_now_usec. */
bool sch_wants_decide(const struct sch_state *st);
/* The next moment at which a Tick would make something due (begin time, silence, time limit backstop, purge);
 * 0: none. */
int64_t sch_due_usec(const struct sch_state *st);
/* Decides over State with at most BUDGET counted steps. Gives an event in ARENA, or NULL when nothing is to
 * be logged. The same State and budget give the same bytes. Changes nothing. */
int sch_decide(const struct sch_state *st, uint32_t budget_steps, struct mu_arena *arena,
	       Mu__Event **ret_event);

/* ---- what State says of shares and priorities; rows in ARENA, texts of shares borrowed from State ---- */
/* Association number INDEX of the tree, parents before children; MU_ENOENT behind the last. */
int sch_explain_share(const struct sch_state *st, uint32_t index, struct mu_arena *arena, Mu__ShareRow **ret);
/* The parts of a waiting job's priority as of sch_now_usec; MU_ENOENT when it does not wait. */
int sch_explain_priority(const struct sch_state *st, uint32_t id, struct mu_arena *arena, Mu__PriorityRow **ret);
/* What keeps a waiting job from starting: holders, those before it, limit, dependencies, expected start;
 * MU_ENOENT when it does not wait. Looks at all jobs and nodes: for readers, on a State of their own. */
int sch_explain_wait(const struct sch_state *st, uint32_t id, struct mu_arena *arena, Mu__WaitRow **ret);
/* Fills RET->help: the smallest changes of what a waiting job asks for, one thing each, with which it would
 * start by BY_USEC (at or before sch_now_usec: at once). Found by deciding again over copies of ST, bounded by
 * the rows copied. MU_ENOENT when it does not wait. */
int sch_explain_help(const struct sch_state *st, uint32_t id, int64_t by_usec, struct mu_arena *arena,
		     Mu__WhyRow *ret);
/* The living jobs that would stand otherwise, all decided now, were CONFIG folded in first. 0, or the code and sentence with which
 * evolve refuses CONFIG. */
int sch_explain_config(const struct sch_state *st, const Mu__Config *config, struct mu_arena *arena,
		       Mu__PlanRow ***ret, size_t *ret_count, struct mu_err *err);
uint32_t sch_next_waiting(const struct sch_state *st, uint32_t after); /* id of the next waiting job; 0: none */
/* By who vouches for the author, or by his row among the users. */
bool sch_is_operator(const struct sch_state *st, const Mu__Author *author);

/* ---- orders ---- */
/* What should exist on NODE, in ARENA: attempts in job order, digest filled. MU_ENOENT for an unknown node.
 */
int sch_orders(const struct sch_state *st, const char *node, struct mu_arena *arena, Mu__OrderSet **ret);
/* Nodes whose orders the change list touches are found by the job rows in it: this appends the names of the
 * nodes job ID concerns (borrowed until the next evolve). */
size_t sch_job_nodes(const struct sch_state *st, uint32_t id, const char **names, size_t cap);

#endif
