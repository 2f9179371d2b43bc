/* tests/sched/harness.h: the core alone, driven by events, with every invariant checked after each of them.
 * Used by the scenario runner, the property test and the benchmark. */
#ifndef TESTS_SCHED_HARNESS_H
#define TESTS_SCHED_HARNESS_H

#include <stdbool.h>
#include <stdio.h>

#include "proto/pb.h"
#include "sched/sched.h"

struct h_event {
	uint8_t *bytes;
	size_t len;
	int64_t time_usec;
	struct mu_hash digest; /* after it */
};
struct harness {
	struct sch_state *st;
	struct h_event *event; /* all so far: one entry each */
	size_t count, cap;
	int64_t now_usec;
	uint64_t request; /* numbers request ids */
	struct sch_verdict verdict;
	struct sch_changes changes;
	bool check;	    /* invariants after each event */
	unsigned every;	    /* the expensive ones only after each EVERYth event; 0 and 1: each */
	uint32_t budget;    /* steps of a slice */
	char failure[1024]; /* first broken invariant */
};

void h_open(struct harness *h, bool check);
void h_close(struct harness *h);
/* Folds EVENT as an entry of its own at h->now_usec; the verdict's code. The time must not go backwards. */
int h_apply(struct harness *h, const Mu__Event *event);
int h_apply_bytes(struct harness *h, const uint8_t *bytes, size_t len);
/* One slice: 1 when an event was folded, 0 when there was nothing to decide. */
int h_decide(struct harness *h);
/* Folds all events in a fresh State: same bytes, same digest after each. False and h->failure when not. */
bool h_replay(struct harness *h);
bool h_invariants(struct harness *h);
bool h_fail(struct harness *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Rows to a fresh State. NULL when it does not load. */
struct sch_state *h_copy(const struct sch_state *st, struct mu_err *err);

#endif
