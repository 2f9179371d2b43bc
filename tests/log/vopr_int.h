/* tests/log/vopr_int.h: what vopr.c (the State as the world's application, clients, the leader's work) and
 * vopr_agents.c (simulated nodes) share. */
#ifndef TESTS_LOG_VOPR_INT_H
#define TESTS_LOG_VOPR_INT_H

#include "proto/base/bits.h"
#include "proto/pb.h"
#include "sched/sched.h"
#include "tests/log/world.h"

enum { NODES = 4, NODE_CPUS = 4, NODE_GPUS = 2, HELD_MAX = 64, DONE_MAX = 256, ASKS_MAX = 20000 };
#define EPOCH_USEC (INT64_C(1790000000) * 1000000)

#define SET(message, field, value) ((message)->has_##field = 1, (message)->field = (value))

/* A request on its way: proposed by any leader, any number of times, until an answer has come; sometimes once
 * more after that. */
struct ask {
	struct mu_buf event; /* packed, with author and id */
	int node;	     /* whose, -1: a client's */
	bool open, answered;
	int64_t ready_usec;  /* it takes this long on its way to a leader */
	int64_t forget_usec; /* its sender is gone; nobody sends it again after this */
	int code;	     /* of the first answer */
	uint32_t job;
	uint64_t pos;
};

/* An attempt on a node, as the node itself knows it. */
struct held {
	uint32_t job, attempt;
	bool used, ended, batch;
	int64_t ends_usec; /* when the batch script ends by itself */
	struct mu_bits cpus;
	uint32_t gpus;
	int report; /* ask, -1: none */
};

struct agent {
	char name[8];
	unsigned boots;
	bool up;
	int64_t up_again_usec, cut_until_usec, poll_usec, beat_usec;
	bool registered;
	int registration; /* ask under way, -1 */
	int64_t started_usec;
	uint64_t seen_pos; /* older orders are not obeyed */
	struct held held[HELD_MAX];
	uint64_t done[DONE_MAX]; /* attempts that are over here: job << 32 | attempt */
	unsigned dones;
};

struct vopr {
	struct ask ask[ASKS_MAX];
	unsigned asks;
	struct agent agent[NODES];
	int64_t submit_usec, cancel_usec, chaos_usec; /* when next */
	uint32_t last_job;
	unsigned submitted, launched, repeated;
	bool careless;	 /* nodes obey old orders too: must be seen by the judge */
	char wrong[300]; /* what the judge says */
};

/* vopr.c */
int vopr_ask(struct vopr *v, Mu__Event *e, int node, int64_t now_usec);
void vopr_wrong(struct vopr *v, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The State that a node reaches now: any live controller's, or NULL. */
const struct sch_state *vopr_any_state(void);

/* vopr_agents.c */
void agents_init(struct vopr *v);
void agents_step(struct vopr *v, int64_t now_usec, bool chaos); /* CHAOS: one of them has an accident */
bool agents_reachable(const struct agent *a, int64_t now_usec);

#endif
