/* ctld/reply.c: replies on their way out. One that crosses a network is sealed and signed, which takes a tenth of a millisecond and
 * more: threads of their own do it, so that ten thousand nodes cost the core nothing but a copy. One to a local socket is sent at
 * once. Owns: the queue of replies to be sealed; each is the answer to a call, so it is as bounded as the calls are. */
#include "log/ctld/ctld.h"

#include <stdlib.h>
#include <string.h>

#include "log/diag.h"

enum { SEALERS = 2 };

struct outgoing {
	struct outgoing *next;
	struct wire_call *call;
	struct auth_who who;
	size_t len;
	uint8_t body[];
};

struct ctl_sealers {
	struct ctl *ctl;
	pthread_t thread[SEALERS];
	unsigned threads;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct outgoing *first, **tail;
	bool stop;
};

static void send_now(struct ctl *c, struct wire_call *call, const struct auth_who *who, struct mu_view body)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf out = {0};
	struct mu_err err = {0};

	if (auth_seal_reply(&c->keys, who, body, &out, &err))
		diag_error("A reply could not be sealed: %s", err.text);
	wire_reply(call, (struct mu_view){out.data, out.len});
}

static void *run(void *arg)
{
	struct ctl_sealers *s = arg;

	for (;;) {
		struct outgoing *o;

		pthread_mutex_lock(&s->lock);
		while (!s->first && !s->stop)
			pthread_cond_wait(&s->cond, &s->lock);
		o = s->first;
		if (o && !(s->first = o->next))
			s->tail = &s->first;
		pthread_mutex_unlock(&s->lock);
		if (!o)
			return NULL;
		send_now(s->ctl, o->call, &o->who, (struct mu_view){o->body, o->len});
		free(o);
	}
}

void ctl_reply(struct ctl *c, struct wire_call *call, const struct auth_who *who, struct mu_view body)
{
	struct ctl_sealers *s = c->sealers;
	struct outgoing *o;

	if (!s || !(who->seal_reply || who->sign_reply)) {
		send_now(c, call, who, body);
		return;
	}
	o = malloc(sizeof *o + body.len);
	if (!o)
		abort();
	o->next = NULL;
	o->call = call;
	o->who = *who;
	o->len = body.len;
	if (body.len)
		memcpy(o->body, body.data, body.len);
	pthread_mutex_lock(&s->lock);
	*s->tail = o;
	s->tail = &o->next;
	pthread_cond_signal(&s->cond);
	pthread_mutex_unlock(&s->lock);
}

int ctl_reply_start(struct ctl *c, struct mu_err *err)
{
	struct ctl_sealers *s = calloc(1, sizeof *s);

	if (!s)
		return mu_fail(err, MU_ENOMEM, "No memory for the replies.");
	s->ctl = c;
	s->tail = &s->first;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->cond, NULL);
	c->sealers = s;
	for (; s->threads < SEALERS; s->threads++) {
		if (pthread_create(&s->thread[s->threads], NULL, run, s))
			return mu_fail(err, MU_EINTERNAL, "A thread for the replies could not be started.");
		(void)pthread_setname_np(s->thread[s->threads], "seal");
	}
	return 0;
}

void ctl_reply_stop(struct ctl *c)
{
	struct ctl_sealers *s = c->sealers;

	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_broadcast(&s->cond);
	pthread_mutex_unlock(&s->lock);
	for (unsigned i = 0; i < s->threads; i++)
		pthread_join(s->thread[i], NULL);
	c->sealers = NULL;
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->cond);
	free(s);
}
