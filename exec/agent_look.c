/* exec/agent_look.c: what the steps of a job that run on this node use now. Their shepherds are asked, and
 * sstat gets its answer when all have spoken or two seconds are over. */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "exec/agent.h"
#include "exec/shepherd.h"
#include "exec/spool.h"
#include "proto/pb.h"

enum { LOOK_USEC = 2000000, LOOK_STEPS_MAX = 256, LOOK_BUFFER_BYTES = 1 << 20 };

bool agent_look_take(struct agent *a, struct agent_client *c)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	const Mu__UsageAsk *ask =
	    (Mu__UsageAsk *)mu_pb_unpack(&mu__usage_ask__descriptor, c->ask.data, c->ask.len, &arena);
	struct agent_attempt *t = ask ? agent_step_admit(a, c, ask->job, false) : NULL;
	int bytes = LOOK_BUFFER_BYTES;
	if (!t)
		return false;
	setsockopt(c->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	c->job = t->order->job;
	c->attempt = t->order->attempt;
	c->look_until_usec = exe_boot_usec() + LOOK_USEC;
	for (struct agent_step *s = t->step; s; s = s->next)
		if (!s->ended && s->control >= 0 && !s->looked_at) {
			stream_put(&s->out, EXE_SHEPHERD_ASK, 0, NULL, 0);
			agent_step_flush(s);
			s->looked_at = true;
		}
	return true;
}

void agent_look_hear(struct agent_step *s, const struct stream_frame *f)
{
	mu_arena_free(&s->look_arena);
	s->look = (Mu__StepState *)mu_pb_unpack(&mu__step_state__descriptor, f->payload.data, f->payload.len,
						&s->look_arena);
	s->looked_at = false;
}

static void answer(struct agent *a, struct agent_client *c, const struct agent_attempt *t)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	Mu__UsageReply reply = MU__USAGE_REPLY__INIT;
	reply.step = mu_arena_alloc(&arena, LOOK_STEPS_MAX * sizeof *reply.step);
	for (const struct agent_step *s = t ? t->step : NULL; s && reply.n_step < LOOK_STEPS_MAX;
	     s = s->next) {
		if (s->ended || (!s->look && !s->lead))
			continue;
		Mu__StepUsage *u = mu_arena_alloc(&arena, sizeof *u);
		mu__step_usage__init(u);
		u->step = mu_arena_alloc(&arena, sizeof *u->step);
		agent_step_row(a, s, u->step);
		u->step->submit_line = NULL;
		if (s->look) {
			u->step->usage = s->look->usage;
			u->process = s->look->process;
			u->n_process = s->look->n_process;
		}
		reply.step[reply.n_step++] = u;
	}
	agent_send(c->fd, STREAM_USAGE, &reply.base);
	c->dead = true;
}

void agent_look_turn(struct agent *a)
{
	for (struct agent_client *c = a->client; c; c = c->next) {
		if (!c->look_until_usec || c->dead)
			continue;
		struct agent_attempt *t = agent_attempt_find(a, c->job, c->attempt);
		bool waits = false;
		for (const struct agent_step *s = t ? t->step : NULL; s; s = s->next)
			waits = waits || (s->looked_at && !s->ended && s->control >= 0);
		if (!waits || exe_boot_usec() >= c->look_until_usec)
			answer(a, c, t);
	}
}
