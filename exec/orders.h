/* exec/orders.h: the agent's side of orders: from an OrderSet to what must be started, signalled, ended,
 * forgotten here. Pure: compares the set with what the node holds; exec/agent.c acts on the result. */
#ifndef EXEC_ORDERS_H
#define EXEC_ORDERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/orders.pb-c.h"

/* What the node holds of one attempt. */
enum exe_phase {
	EXE_STARTING, /* spool record written, shepherd not yet known */
	EXE_RUNNING,
	EXE_ENDING, /* TERM sent, KILL to follow */
	EXE_ENDED   /* nothing left; report not yet acknowledged */
};
struct exe_held {
	uint32_t job, attempt;
	enum exe_phase phase;
	uint64_t signal_seq; /* last one delivered */
};
enum exe_act {
	EXE_START,
	EXE_SIGNAL,
	EXE_END,
	EXE_FORGET /* reported and no longer ordered */,
	EXE_REPORT_LOST
};
struct exe_todo {
	enum exe_act act;
	uint32_t job, attempt;
	const Mu__AttemptOrder *order; /* borrowed from the set; NULL when not ordered any more */
};
/* Writes at most CAP acts, in job order; returns how many there are. An attempt held but not ordered is
 * ended, then forgotten; an attempt ordered and not held is started; applying the same set twice gives
 * nothing the second time. */
size_t exe_orders_compare(const Mu__OrderSet *set, const struct exe_held *held, size_t held_count,
			  struct exe_todo *ret, size_t cap);

#endif
