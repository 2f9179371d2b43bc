/* log/loop.h: how other threads hand work to the thread that runs a libuv loop.
 * Owns: a bounded queue of pointers and its wake-up. Leaves to others: what the pointers mean and who frees
 * them. */
#ifndef LOG_LOOP_H
#define LOG_LOOP_H

#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "proto/base/err.h"

enum {
	LOOP_BATCH = 256
}; /* items in one call; between calls the loop turns, so that timers and peers are not kept waiting */

struct loop_queue;
/* Called on the loop's thread with 1 to LOOP_BATCH items in the order of their put (of one thread's puts;
 * threads are interleaved). ITEMS is borrowed. Whatever waited together comes together: one log entry can
 * carry it. */
typedef void (*loop_batch)(void *arg, void *const *items, size_t count);

/* A queue of at most CAPACITY items into LOOP. On the loop's thread, or before it runs. 0 or MU_EIO. */
int loop_queue_open(uv_loop_t *loop, size_t capacity, loop_batch batch, void *arg, struct loop_queue **ret,
		    struct mu_err *err);
/* Adds ITEM. Any thread; never blocks for long. 0, MU_EBUSY (full) or MU_ENOTREADY (closing): the item stays
 * the caller's. */
int loop_queue_put(struct loop_queue *q, void *item);
/* Refuses further items, hands over those that wait (one last time, in batches), then calls DONE (may be
 * NULL) and is gone. On the loop's thread. No thread may put after DONE. */
void loop_queue_close(struct loop_queue *q, void (*done)(void *arg), void *arg);

struct loop_queue_stats {
	uint64_t puts, refused, batches;
	size_t waiting, waiting_max;
};
void loop_queue_stats(struct loop_queue *q, struct loop_queue_stats *ret); /* any thread */

#endif
