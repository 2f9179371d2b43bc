/* exec/agent_hold.c: what lives as long as a client's connection: an allocation that salloc or srun holds,
 * and a step on several nodes, whose tasks srun started through each node's agent. Owns: holders and leads.
 * Both come back by themselves to an agent that was restarted; until then what a lead gave to its step is
 * held by the record in the spool. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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

static struct agent_step *add_lead(struct agent_attempt *t, Mu__StepOrder *order, struct mu_arena arena,
				   Mu__StepPart **part, size_t count)
{
	struct agent_step *s = agent_step_add(t, order, arena);
	s->lead = true;
	s->pid = 0;
	s->part = part;
	s->n_part = count;
	return s;
}

static void record_path(const struct agent_attempt *t, uint32_t step, char out[4200])
{
	char word[16];
	exe_step_word(step, word);
	snprintf(out, 4200, "%s/step_%s.lead", t->dir, word);
}

struct agent_step *agent_lead_add(struct agent_attempt *t, Mu__StepOrder *order, struct mu_arena arena,
				  Mu__StepPart **part, size_t count)
{
	Mu__LeadRecord r = MU__LEAD_RECORD__INIT;
	struct mu_err err = {0};
	char path[4200];
	r.order = order;
	r.part = part;
	r.n_part = count;
	record_path(t, order->step, path);
	int dir = open(t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Without it a restarted agent knows less; the step runs all the same. */
	if (exe_spool_write_pb(dir, strrchr(path, '/') + 1, &r.base, false, &err))
		diag_error("job %u step %u: %s", t->order->job, order->step, err.text);
	if (dir >= 0)
		close(dir);
	return add_lead(t, order, arena, part, count);
}

void agent_lead_recover(struct agent *a, struct agent_attempt *t, int dir, const char *word)
{
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	ProtobufCMessage *m = NULL;
	char name[40];
	snprintf(name, sizeof name, "step_%s.lead", word);
	int code = exe_spool_read_pb(dir, name, &mu__lead_record__descriptor, &arena, &m, &err);
	const Mu__LeadRecord *r = (Mu__LeadRecord *)m;
	if (code || !r->order) {
		diag_error("%s: %s: %s", t->name, name, code ? err.text : "no order");
		mu_arena_free(&arena);
		return;
	}
	struct agent_step *s = add_lead(t, r->order, arena, r->part, r->n_part);
	s->unled_boot_usec = exe_boot_usec() + AGENT_HOLD_GRACE_USEC;
	if (r->order->step < MU_STEP_BATCH && r->order->step >= t->record->next_step) {
		t->record->has_next_step = 1;
		t->record->next_step = r->order->step + 1;
	}
	diag_info("job %u step %s goes on; its srun is waited for on %s", t->order->job, word, a->node);
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
	s->unled_boot_usec = 0;
	t->steps_live--;
	t->steps_changed = true;
	char path[4200];
	record_path(t, s->order->step, path);
	unlink(path);
}

static struct agent_step *lead_of(struct agent_attempt *t, uint32_t step)
{
	for (struct agent_step *s = t->step; s; s = s->next)
		if (s->lead && !s->ended && s->order->step == step)
			return s;
	return NULL;
}

bool agent_hold_lead(struct agent *a, struct agent_client *c)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	struct mu_err err = {0};
	Mu__StepGranted granted = MU__STEP_GRANTED__INIT;
	const Mu__AttachAsk *ask =
	    (Mu__AttachAsk *)mu_pb_unpack(&mu__attach_ask__descriptor, c->ask.data, c->ask.len, &arena);
	if (!ask)
		agent_refuse(c->fd, MU_EPROTO, false, "the request to lead a step is malformed");
	struct agent_attempt *t = ask ? agent_step_admit(a, c, ask->job, false) : NULL;
	struct agent_step *s = t ? lead_of(t, ask->step) : NULL;
	if (!t)
		return false;
	if (!s || !s->unled_boot_usec) {
		agent_refuse(c->fd, MU_EJOBID, false, "the step is not led from here");
		return false;
	}
	if (agent_hold_add(a, t, c, AGENT_LEADS, ask->step, &err)) {
		agent_refuse(c->fd, err.code, false, err.text);
		return false;
	}
	s->unled_boot_usec = 0;
	agent_send(c->fd, STREAM_GRANTED, &granted.base);
	return true;
}

void agent_hold_timer(struct agent *a, struct agent_attempt *t, int64_t now_boot_usec)
{
	bool some = false;
	for (struct agent_step *s = t->step; s; s = s->next)
		if (s->lead && !s->ended && s->unled_boot_usec &&
		    (now_boot_usec >= s->unled_boot_usec || t->phase == EXE_ENDING)) {
			agent_lead_end(t, s, 0, 9, END_CANCEL, t->order->uid, NULL);
			some = true;
		}
	if (some)
		agent_attempt_settle(a, t);
}

int64_t agent_hold_due(const struct agent_attempt *t)
{
	int64_t due = INT64_MAX;
	for (const struct agent_step *s = t->step; s; s = s->next)
		if (s->lead && !s->ended && s->unled_boot_usec) {
			int64_t then = t->phase == EXE_ENDING ? 0 : s->unled_boot_usec;
			due = then < due ? then : due;
		}
	return due;
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
