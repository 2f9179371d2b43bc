/* exec/orders.c: the comparison of what should be with what is. */
#include "exec/orders.h"

#include <stdlib.h>

static int by_attempt(const void *a, const void *b)
{
	const struct exe_todo *x = a, *y = b;
	if (x->job != y->job)
		return x->job < y->job ? -1 : 1;
	return x->attempt < y->attempt ? -1 : x->attempt > y->attempt;
}

static const Mu__AttemptOrder *find_order(const Mu__OrderSet *set, uint32_t job, uint32_t attempt)
{
	for (size_t i = 0; i < set->n_attempt; i++)
		if (set->attempt[i]->job == job && set->attempt[i]->attempt == attempt)
			return set->attempt[i];
	return NULL;
}

static bool is_held(const struct exe_held *held, size_t count, uint32_t job, uint32_t attempt)
{
	for (size_t i = 0; i < count; i++)
		if (held[i].job == job && held[i].attempt == attempt)
			return true;
	return false;
}

static void put(struct exe_todo *ret, size_t cap, size_t *count, enum exe_act act, uint32_t job,
		uint32_t attempt, const Mu__AttemptOrder *order)
{
	if (*count < cap)
		ret[*count] = (struct exe_todo){act, job, attempt, order};
	++*count;
}

/* What one held attempt wants. An attempt that is ending is left to its end: KILL follows by itself. */
static void for_held(const struct exe_held *h, const Mu__AttemptOrder *order, struct exe_todo *ret,
		     size_t cap, size_t *count)
{
	bool alive = h->phase == EXE_STARTING || h->phase == EXE_RUNNING;
	if (!order) {
		if (alive)
			put(ret, cap, count, EXE_END, h->job, h->attempt, NULL);
		else if (h->phase == EXE_ENDED)
			put(ret, cap, count, EXE_FORGET, h->job, h->attempt, NULL);
	} else if (alive && order->phase == MU__PHASE__PHASE_END) {
		put(ret, cap, count, EXE_END, h->job, h->attempt, order);
	} else if (h->phase == EXE_RUNNING && order->signal_seq > h->signal_seq) {
		put(ret, cap, count, EXE_SIGNAL, h->job, h->attempt, order);
	}
}

size_t exe_orders_compare(const Mu__OrderSet *set, const struct exe_held *held, size_t held_count,
			  struct exe_todo *ret, size_t cap)
{
	size_t count = 0;
	for (size_t i = 0; i < held_count; i++)
		for_held(&held[i], find_order(set, held[i].job, held[i].attempt), ret, cap, &count);
	for (size_t i = 0; i < set->n_attempt; i++) {
		const Mu__AttemptOrder *o = set->attempt[i];
		if (is_held(held, held_count, o->job, o->attempt))
			continue;
		put(ret, cap, &count, o->phase == MU__PHASE__PHASE_END ? EXE_REPORT_LOST : EXE_START, o->job,
		    o->attempt, o);
	}
	qsort(ret, count < cap ? count : cap, sizeof *ret, by_attempt);
	return count;
}
