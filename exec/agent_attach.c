/* exec/agent_attach.c: sattach at the agent's door: who may join a step's streams, and where. The connection
 * goes to the step's shepherd; of a step on several nodes the step manager names the nodes, and each is asked
 * for its own. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "exec/agent.h"
#include "exec/shepherd.h"
#include "proto/pb.h"
#include "proto/states.h"

static const struct agent_step *find(const struct agent_attempt *t, uint32_t step, bool lead)
{
	for (const struct agent_step *s = t->step; s; s = s->next)
		if (s->order->step == step && s->lead == lead && !s->ended)
			return s;
	return NULL;
}

static int judge(const struct agent_attempt *t, const Mu__AttachAsk *ask, const struct agent_step *s,
		 struct mu_err *err)
{
	if (ask->step >= MU_STEP_BATCH)
		return mu_fail(err, MU_EJOBID, "%s", mu_strerror(MU_EJOBID));
	if (!s)
		return mu_fail(err, MU_EJOBID, "StepId=%u.%u does not run", t->order->job, ask->step);
	if (!s->lead && !s->order->streamed)
		return mu_fail(err, MU_EINVAL,
			       "StepId=%u.%u has files for its output, not a terminal that could be joined",
			       t->order->job, ask->step);
	if (ask->pty && !s->order->pty)
		return mu_fail(err, MU_EINVAL, "StepId=%u.%u was not started with --pty", t->order->job,
			       ask->step);
	if (!s->lead && s->control < 0)
		return mu_fail(err, MU_ENODEBUSY, "StepId=%u.%u is being looked for", t->order->job,
			       ask->step);
	return 0;
}

static void answer(struct agent *a, struct agent_client *c, const struct agent_step *s,
		   struct mu_arena *arena)
{
	Mu__StepGranted m = MU__STEP_GRANTED__INIT;
	char *node = a->node;
	uint32_t tasks = (uint32_t)s->order->n_task;
	m.has_job = m.has_step = 1;
	m.job = s->order->job;
	m.step = s->order->step;
	m.n_node = m.n_tasks = s->lead ? s->n_part : 1;
	m.node = s->lead ? mu_arena_alloc(arena, s->n_part * sizeof *m.node) : &node;
	m.tasks = s->lead ? mu_arena_alloc(arena, s->n_part * sizeof *m.tasks) : &tasks;
	for (size_t i = 0; i < s->n_part; i++) {
		m.node[i] = s->part[i]->node;
		m.tasks[i] = (uint32_t)s->part[i]->n_task;
	}
	m.part = s->part;
	m.n_part = s->n_part;
	agent_send(c->fd, STREAM_GRANTED, &m.base);
}

/* The frame's bytes and the descriptor go together; what the shepherd has not read before goes first. */
static bool pass(struct agent_step *s, int fd)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf frame = {0};
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	agent_step_flush(s);
	if (s->out.len)
		return false;
	stream_put(&frame, EXE_SHEPHERD_ATTACH, 0, NULL, 0);
	struct iovec io = {frame.data, frame.len};
	struct msghdr m = {.msg_iov = &io,
			   .msg_iovlen = 1,
			   .msg_control = control.room,
			   .msg_controllen = sizeof control.room};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(c), &fd, sizeof fd);
	return sendmsg(s->control, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)frame.len;
}

void agent_attach_take(struct agent *a, struct agent_client *c)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	struct mu_err err = {0};
	const Mu__AttachAsk *ask =
	    (Mu__AttachAsk *)mu_pb_unpack(&mu__attach_ask__descriptor, c->ask.data, c->ask.len, &arena);
	struct agent_attempt *t = ask ? agent_step_admit(a, c, ask->job, false) : NULL;
	if (!t)
		return;
	const struct agent_step *s = ask->here ? NULL : find(t, ask->step, true);
	if (!s)
		s = find(t, ask->step, false);
	int code = judge(t, ask, s, &err);
	if (code == 0 && c->reader.in.len != c->reader.used)
		code = mu_fail(&err, MU_EPROTO, "what comes behind the request comes too early");
	if (code) {
		agent_refuse(c->fd, code, code == MU_ENODEBUSY, err.text);
		return;
	}
	answer(a, c, s, &arena);
	if (!s->lead && !ask->look_only)
		pass((struct agent_step *)s, c->fd);
}
