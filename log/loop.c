#include "log/loop.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct loop_queue {
	uv_async_t wake;
	loop_batch batch;
	void *arg;
	void (*done)(void *arg);
	void *done_arg;
	pthread_mutex_t lock; /* guards what follows */
	void **ring;
	size_t capacity, first, count;
	bool closing;
	struct loop_queue_stats stats;
};

/* Takes up to LOOP_BATCH items out; says whether more wait. */
static size_t take(struct loop_queue *q, void *items[LOOP_BATCH], bool *ret_more)
{
	pthread_mutex_lock(&q->lock);
	size_t n = q->count < LOOP_BATCH ? q->count : LOOP_BATCH;
	for (size_t i = 0; i < n; i++)
		items[i] = q->ring[(q->first + i) % q->capacity];
	q->first = (q->first + n) % q->capacity;
	q->count -= n;
	q->stats.batches += n > 0;
	*ret_more = q->count > 0;
	pthread_mutex_unlock(&q->lock);
	return n;
}

static void on_wake(uv_async_t *wake)
{
	struct loop_queue *q = wake->data;
	void *items[LOOP_BATCH];
	bool more;
	size_t n = take(q, items, &more);
	if (more)
		uv_async_send(wake); /* Before the handler, which may close the queue. */
	if (n > 0)
		q->batch(q->arg, items, n);
}

int loop_queue_open(uv_loop_t *loop, size_t capacity, loop_batch batch, void *arg, struct loop_queue **ret,
		    struct mu_err *err)
{
	struct loop_queue *q = calloc(1, sizeof *q);
	assert(capacity > 0);
	if (!q || !(q->ring = calloc(capacity, sizeof *q->ring)))
		abort();
	int r = uv_async_init(loop, &q->wake, on_wake);
	if (r) {
		free(q->ring);
		free(q);
		return mu_fail(err, MU_EIO, "cannot prepare a wake-up: %s", uv_strerror(r));
	}
	q->wake.data = q;
	q->batch = batch;
	q->arg = arg;
	q->capacity = capacity;
	pthread_mutex_init(&q->lock, NULL);
	*ret = q;
	return 0;
}

int loop_queue_put(struct loop_queue *q, void *item)
{
	int code = 0;
	bool first = false;
	pthread_mutex_lock(&q->lock);
	if (q->closing) {
		code = MU_ENOTREADY;
	} else if (q->count == q->capacity) {
		code = MU_EBUSY;
		q->stats.refused++;
	} else {
		q->ring[(q->first + q->count) % q->capacity] = item;
		first = q->count++ == 0;
		q->stats.puts++;
		if (q->count > q->stats.waiting_max)
			q->stats.waiting_max = q->count;
	}
	/* Under the lock: the queue cannot close between. One signal is enough until the loop has taken some;
	 * it renews it itself. */
	if (first)
		uv_async_send(&q->wake);
	pthread_mutex_unlock(&q->lock);
	return code;
}

static void on_closed(uv_handle_t *handle)
{
	struct loop_queue *q = handle->data;
	void (*done)(void *arg) = q->done;
	void *arg = q->done_arg;
	pthread_mutex_destroy(&q->lock);
	free(q->ring);
	free(q);
	if (done)
		done(arg);
}

void loop_queue_close(struct loop_queue *q, void (*done)(void *arg), void *arg)
{
	void *items[LOOP_BATCH];
	size_t n;
	bool more = true;
	pthread_mutex_lock(&q->lock);
	assert(!q->closing);
	q->closing = true;
	pthread_mutex_unlock(&q->lock);
	q->done = done;
	q->done_arg = arg;
	while (more)
		if ((n = take(q, items, &more)) > 0)
			q->batch(q->arg, items, n);
	uv_close((uv_handle_t *)&q->wake, on_closed);
}

void loop_queue_stats(struct loop_queue *q, struct loop_queue_stats *ret)
{
	pthread_mutex_lock(&q->lock);
	*ret = q->stats;
	ret->waiting = q->count;
	pthread_mutex_unlock(&q->lock);
}
