/* exec/agent_link.c: a thread that carries one request at a time to whichever controller answers. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/agent.h"
#include "log/clock.h"
#include "log/diag.h"
#include "log/wire.h"
#include "proto/pb.h"

struct agent_link {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct wire_client *client;
	const struct auth_keys *keys;
	char node[256];
	int wake_fd;
	enum { LINK_IDLE, LINK_ASKED, LINK_ANSWERED, LINK_STOP } state;
	unsigned timeout_msec;
	struct mu_buf body, reply;
	int code;
	struct mu_err err;
};

static int exchange(struct agent_link *l, struct mu_buf *reply, struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf envelope = {0}, answer = {0};
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	struct mu_view body = {l->body.data, l->body.len};
	struct auth_sent sent;
	int code = auth_seal_node(l->keys, l->node, clock_wall_usec(), body, &envelope, &sent, err);
	if (code == 0)
		code = wire_request(l->client, (struct mu_view){envelope.data, envelope.len}, l->timeout_msec,
				    &answer, err);
	if (code == 0)
		code = auth_open_reply(l->keys, &sent, (struct mu_view){answer.data, answer.len}, &arena,
				       &body, err);
	if (code == 0)
		mu_buf_add(reply, body.data, body.len);
	return code;
}

static void *run(void *arg)
{
	struct agent_link *l = arg;
	pthread_mutex_lock(&l->lock);
	while (l->state != LINK_STOP) {
		if (l->state != LINK_ASKED) {
			pthread_cond_wait(&l->work, &l->lock);
			continue;
		}
		pthread_mutex_unlock(&l->lock);
		struct mu_err err = {0};
		mu_buf_reset(&l->reply);
		int code = exchange(l, &l->reply, &err);
		if (code)
			wire_client_rotate(l->client);
		pthread_mutex_lock(&l->lock);
		l->code = code;
		l->err = err;
		if (l->state == LINK_ASKED)
			l->state = LINK_ANSWERED;
		uint64_t one = 1;
		if (write(l->wake_fd, &one, sizeof one) < 0 && errno != EAGAIN)
			diag_error("cannot wake the agent's loop: %s", strerror(errno));
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

struct agent_link *agent_link_new(const char *const *addresses, size_t count, const struct auth_keys *keys,
				  const char *node, int wake_fd)
{
	struct agent_link *l = calloc(1, sizeof *l);
	if (!l)
		abort();
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->work, NULL);
	l->client = wire_client_new(addresses, count);
	l->keys = keys;
	l->wake_fd = wake_fd;
	memccpy(l->node, node, 0, sizeof l->node - 1);
	if (pthread_create(&l->thread, NULL, run, l))
		abort();
	return l;
}

struct agent_link *agent_link_free(struct agent_link *l)
{
	if (!l)
		return NULL;
	/* A request under way may take as long as its time-out; the process ends, so nobody waits for it. */
	pthread_mutex_lock(&l->lock);
	bool busy = l->state == LINK_ASKED;
	l->state = LINK_STOP;
	pthread_cond_signal(&l->work);
	pthread_mutex_unlock(&l->lock);
	if (busy) {
		pthread_detach(l->thread);
		return NULL;
	}
	pthread_join(l->thread, NULL);
	wire_client_free(l->client);
	mu_buf_free(&l->body);
	mu_buf_free(&l->reply);
	free(l);
	return NULL;
}

bool agent_link_idle(struct agent_link *l)
{
	pthread_mutex_lock(&l->lock);
	bool idle = l->state == LINK_IDLE;
	pthread_mutex_unlock(&l->lock);
	return idle;
}

void agent_link_ask(struct agent_link *l, const Mu__Request *request, unsigned timeout_msec)
{
	pthread_mutex_lock(&l->lock);
	mu_buf_reset(&l->body);
	mu_pb_pack(&request->base, &l->body);
	l->timeout_msec = timeout_msec;
	l->state = LINK_ASKED;
	pthread_cond_signal(&l->work);
	pthread_mutex_unlock(&l->lock);
}

bool agent_link_take(struct agent_link *l, struct mu_arena *arena, int *ret_code, Mu__Reply **ret,
		     struct mu_err *err)
{
	pthread_mutex_lock(&l->lock);
	bool there = l->state == LINK_ANSWERED;
	if (there) {
		l->state = LINK_IDLE;
		*ret_code = l->code;
		*err = l->err;
		*ret = NULL;
		if (l->code == 0) {
			*ret = (Mu__Reply *)mu_pb_unpack(&mu__reply__descriptor, l->reply.data, l->reply.len,
							 arena);
			if (!*ret)
				*ret_code = mu_fail(err, MU_EPROTO, "the controller's reply is malformed");
		}
	}
	pthread_mutex_unlock(&l->lock);
	if (there && *ret && ((*ret)->code == MU_ENOTLEADER || (*ret)->code == MU_ENOTREADY))
		wire_client_rotate(l->client);
	return there;
}
