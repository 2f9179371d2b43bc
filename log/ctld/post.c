/* ctld/post.c: the mailbox through which other threads reach the core, and the clocks it reads. */
#include "log/ctld/ctld.h"

#include <stdlib.h>
#include <time.h>

struct ctl_note {
	struct ctl_note *next;
	ctl_fn fn;
	void *arg;
};

static void on_wake(uv_async_t *handle)
{
	struct ctl *c = handle->data;
	struct ctl_note *list;

	pthread_mutex_lock(&c->post_lock);
	list = c->post_first;
	c->post_first = NULL;
	c->post_tail = &c->post_first;
	pthread_mutex_unlock(&c->post_lock);
	while (list) {
		struct ctl_note *note = list;

		list = note->next;
		note->fn(c, note->arg);
		free(note);
	}
}

void ctl_post_init(struct ctl *c)
{
	pthread_mutex_init(&c->post_lock, NULL);
	c->post_tail = &c->post_first;
	uv_async_init(&c->loop, &c->wake, on_wake);
	c->wake.data = c;
}

void ctl_post(struct ctl *c, ctl_fn fn, void *arg)
{
	struct ctl_note *note = calloc(1, sizeof *note);

	if (!note)
		abort();
	note->fn = fn;
	note->arg = arg;
	pthread_mutex_lock(&c->post_lock);
	*c->post_tail = note;
	c->post_tail = &note->next;
	pthread_mutex_unlock(&c->post_lock);
	uv_async_send(&c->wake);
}

int64_t ctl_mono_usec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t ctl_mono_msec(void)
{
	return ctl_mono_usec() / 1000;
}

int64_t ctl_wall_usec(const struct ctl *c)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000 + c->opt.clock_skew_usec;
}
