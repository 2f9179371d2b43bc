/* exec/agent_hold.c: what lives as long as a client's connection: an allocation that salloc or srun holds,
 * and a step on several nodes, whose tasks srun started through each node's agent. Owns: holders and leads.
 * An agent that is restarted forgets them: a holder comes back by itself, a lead's row is closed with the
 * job. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "exec/agent.h"
#include "exec/shepherd.h"
#include "exec/spool.h"
#include "log/diag.h"
#include "proto/pb.h"
#include "proto/states.h"
#include "proto/usage.h"

int agent_hold_add(struct agent *a, struct agent_attempt *t, struct agent_client *c,
		   enum agent_client_kind kind, uint32_t step, struct mu_err *err)
{
	if (a->holder_count >= AGENT_HOLDERS_MAX)
		return mu_fail(err, MU_ELIMIT,
			       "%s holds %zu allocations and steps, which is as many as it can", a->node,
			       a->holder_count);
	c->kind = kind;
	c->job = t->order->job;
	c->attempt = t->order->attempt;
	c->step = step;
	a->holder_count++;
	a->client_count--;
	if (kind == AGENT_HOLDS)
		t->unheld_boot_usec = 0;
	return 0;
}

static void tell_over(struct agent_client *c, uint32_t cause)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf out = {0};
	stream_put_u32(&out, STREAM_OVER, 0, cause);
	if (send(c->fd, out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)out.len)
		diag_debug("a holder left before it was told");
	c->dead = true;
}

void agent_hold_over(struct agent *a, struct agent_attempt *t, uint32_t cause)
{
	for (struct agent_client *c = a->client; c; c = c->next)
		if (c->kind == AGENT_HOLDS && !c->dead && c->job == t->order->job &&
		    c->attempt == t->order->attempt)
			tell_over(c, cause);
}

/* ---- leads ---- */

struct agent_step *agent_lead_add(struct agent_attempt *t, Mu__StepOrder *order, struct mu_arena arena,
				  Mu__StepPart **part, size_t count)
{
	struct agent_step *s = agent_step_add(t, order, arena);
	s->lead = true;
	s->pid = 0;
	s->part = part;
	s->n_part = count;
	return s;
}

void agent_lead_end(struct agent_attempt *t, struct agent_step *s, int exit_code, int exit_signal,
		    uint32_t cause, uint32_t by_uid, const Mu__Usage *usage)
{
	Mu__StepEnd *end = mu_arena_alloc(&s->arena, sizeof *end);
	mu__step_end__init(end);
	end->exit_code = exit_code;
	end->exit_signal = exit_signal;
	end->cause = cause;
	end->by_uid = by_uid;
	end->start_usec = s->order->start_usec;
	end->end_usec = exe_wall_usec();
	if (usage) {
		end->usage = mu_arena_alloc(&s->arena, sizeof *end->usage);
		mu__usage__init(end->usage);
		mu_usage_merge(end->usage, usage, NULL, &s->arena);
		mu_usage_sum_up(end->usage, (uint32_t)s->order->n_task);
	}
	s->end = end;
	s->ended = true;
	t->steps_live--;
	t->steps_changed = true;
}

static struct agent_step *lead_of(struct agent_attempt *t, uint32_t step)
{
	for (struct agent_step *s = t->step; s; s = s->next)
		if (s->lead && !s->ended && s->order->step == step)
			return s;
	return NULL;
}

/* ---- what holders say ---- */

static void release(struct agent *a, struct agent_attempt *t, const struct stream_frame *f)
{
	uint32_t code;
	if (stream_get_u32(f, &code))
		return;
	if (t->phase == EXE_RUNNING) {
		t->record->has_release_code = 1;
		t->record->release_code = code & 0xffff;
	}
	agent_attempt_end(a, t, END_NONE, t->order->uid, false);
}

static void step_done(struct agent_attempt *t, struct agent_step *s, const struct stream_frame *f)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	const Mu__StepEnded *m = (Mu__StepEnded *)mu_pb_unpack(&mu__step_ended__descriptor, f->payload.data,
							       f->payload.len, &arena);
	if (m)
		agent_lead_end(t, s, m->exit_code & 0xff, m->exit_signal & 0x7f, END_NONE, 0, m->usage);
}

void agent_hold_frame(struct agent *a, struct agent_client *c, const struct stream_frame *f)
{
	struct agent_attempt *t = agent_attempt_find(a, c->job, c->attempt);
	struct agent_step *s = t && c->kind == AGENT_LEADS ? lead_of(t, c->step) : NULL;
	if (t && c->kind == AGENT_HOLDS && f->kind == STREAM_RELEASE)
		release(a, t, f);
	else if (s && f->kind == STREAM_STEP_DONE)
		step_done(t, s, f);
	if (c->kind == AGENT_LEADS && f->kind == STREAM_STEP_DONE) {
		c->dead = true;
		if (t)
			agent_attempt_settle(a, t);
	}
}

void agent_hold_lost(struct agent *a, struct agent_client *c)
{
	struct agent_attempt *t = agent_attempt_find(a, c->job, c->attempt);
	struct agent_step *s = t && c->kind == AGENT_LEADS ? lead_of(t, c->step) : NULL;
	if (s) {
		agent_lead_end(t, s, 0, 9, END_CANCEL, t->order->uid, NULL);
		agent_attempt_settle(a, t);
	}
	if (!t || c->kind != AGENT_HOLDS || t->phase != EXE_RUNNING)
		return;
	/* A process of this host is gone for good; a connection to another host may come again. */
	t->unheld_boot_usec = exe_boot_usec() + (c->remote ? AGENT_HOLD_GRACE_USEC : 0);
	diag_info("job %u: the command that held its allocation is gone", c->job);
}
