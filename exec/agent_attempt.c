/* exec/agent_attempt.c: an attempt's life on this node, from the order to the report that nothing of it is
 * left. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exec/agent.h"
#include "exec/herd.h"
#include "exec/shepherd.h"
#include "exec/spool.h"
#include "log/diag.h"
#include "proto/base/bits.h"
#include "proto/conf.h"
#include "proto/pb.h"
#include "proto/signals.h"
#include "proto/states.h"

enum {
	SETTLE_KILL_MSEC = 200, /* how long the loop waits for a group to empty before it comes back later */
	SETTLE_AGAIN_USEC = 300000
};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

struct agent_attempt *agent_attempt_find(struct agent *a, uint32_t job, uint32_t attempt)
{
	for (struct agent_attempt *t = a->attempt; t; t = t->next)
		if (t->order->job == job && (attempt == 0 || t->order->attempt == attempt))
			return t;
	return NULL;
}

/* --signal comes so long before the time limit that it is part of the order. */
static void plan_warning(struct agent_attempt *t)
{
	const Mu__JobSpec *spec = t->order->spec;
	int64_t left = agent_limit_left_sec(t);
	bool wanted = spec->signal_number && left && !t->record->warned;
	t->warn_boot_usec =
	    wanted ? exe_boot_usec() + (left - (int64_t)spec->signal_before_sec) * 1000000 : 0;
}

struct agent_attempt *agent_attempt_add(struct agent *a, Mu__AttemptRecord *record, struct mu_arena arena)
{
	struct agent_attempt *t = calloc(1, sizeof *t);
	if (!t)
		abort();
	t->arena = arena;
	t->record = record;
	t->order = record->order;
	snprintf(t->name, sizeof t->name, "job_%u_%u", t->order->job, t->order->attempt);
	snprintf(t->dir, sizeof t->dir, "%s/%s", a->spool, t->name);
	snprintf(t->cgroup, sizeof t->cgroup, "%s", record->cgroup);
	t->next = a->attempt;
	a->attempt = t;
	a->attempt_count++;
	if (!(t->order->batch_host && t->order->spec->batch) && agent_time_left_sec(t))
		t->deadline_boot_usec = exe_boot_usec() + agent_time_left_sec(t) * 1000000;
	/* Components of a heterogeneous job beside the first end with it. */
	if (t->order->batch_host && !t->order->spec->batch && !t->order->het_offset && !record->claimed)
		t->unheld_boot_usec = exe_boot_usec() + AGENT_CLAIM_USEC;
	plan_warning(t);
	return t;
}

void agent_attempt_save(struct agent_attempt *t, bool sync)
{
	struct mu_err err = {0};
	MU_CLEANUP(close_fd) int dir = open(t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || exe_spool_write_pb(dir, "attempt", &t->record->base, sync, &err))
		diag_error("%s: its record cannot be written: %s", t->name,
			   dir < 0 ? strerror(errno) : err.text);
}

void agent_step_free(struct agent_step *s)
{
	if (s->control >= 0)
		close(s->control);
	if (s->cpus)
		mu_bits_free(s->cpus);
	mu_buf_free(&s->out);
	stream_reader_free(&s->reader);
	mu_arena_free(&s->look_arena);
	mu_arena_free(&s->arena);
	free(s);
}

static void free_attempt(struct agent *a, struct agent_attempt *t)
{
	for (struct agent_attempt **at = &a->attempt; *at; at = &(*at)->next)
		if (*at == t) {
			*at = t->next;
			break;
		}
	a->attempt_count--;
	if (a->blob_for == t)
		a->blob_for = NULL;
	for (struct agent_step *s = t->step, *next; s; s = next) {
		next = s->next;
		agent_step_free(s);
	}
	mu_buf_free(&t->script);
	mu_buf_free(&t->env);
	mu_arena_free(&t->arena);
	free(t);
}

void agent_attempt_forget(struct agent *a, struct agent_attempt *t)
{
	struct mu_err err = {0};
	if (exe_spool_remove(a->spool_dir, t->name, &err))
		diag_error("%s: %s", t->name, err.text);
	diag_debug("%s: forgotten", t->name);
	free_attempt(a, t);
}

/* ---- the end ---- */

static const struct agent_step *batch_of(const struct agent_attempt *t)
{
	for (const struct agent_step *s = t->step; s; s = s->next)
		if (s->order->step == MU_STEP_BATCH)
			return s;
	return NULL;
}

static void put_steps(struct agent *a, struct agent_attempt *t, Mu__AttemptEnded *e)
{
	size_t count = 0;
	for (struct agent_step *s = t->step; s; s = s->next)
		count += !s->told_end;
	e->step = mu_arena_alloc(&t->arena, (count + 2) * sizeof *e->step);
	Mu__StepRow *outer = mu_arena_alloc(&t->arena, sizeof *outer);
	if (agent_extern_row(a, t, true, outer))
		e->step[e->n_step++] = outer;
	for (struct agent_step *s = t->step; s; s = s->next)
		if (!s->told_end && s->ended) { /* on its way or not: saying it twice harms nobody */
			e->step[e->n_step] = mu_arena_alloc(&t->arena, sizeof **e->step);
			agent_step_row(a, s, e->step[e->n_step++]);
			s->told_end = true;
		}
}

/* How the attempt ended, from the batch script's end or from what ended the attempt as a whole. */
static Mu__AttemptEnded *describe_end(struct agent *a, struct agent_attempt *t)
{
	Mu__AttemptEnded *e = mu_arena_alloc(&t->arena, sizeof *e);
	const struct agent_step *batch = batch_of(t);
	mu__attempt_ended__init(e);
	e->has_job = e->has_attempt = e->has_batch = e->has_exit_code = e->has_exit_signal = 1;
	e->has_cause = e->has_span_usec = e->has_oom_kills = e->has_released = 1;
	e->job = t->order->job;
	e->attempt = t->order->attempt;
	e->node = a->node;
	e->batch = t->order->batch_host;
	e->cause = t->record->end_cause;
	e->span_usec = exe_boot_usec() - t->record->begin_mono_usec;
	e->released = true;
	if (batch && batch->end) {
		const Mu__StepEnd *b = batch->end;
		e->exit_code = b->exit_code;
		e->exit_signal = b->exit_signal;
		if (b->cause != END_NONE && (e->cause == END_NONE || e->cause == END_JOB_OVER))
			e->cause = b->cause;
		e->detail = b->detail;
		e->span_usec = b->span_usec;
		e->oom_kills = b->usage ? b->usage->oom_kills : 0;
	}
	if (!batch && e->cause == END_NONE)
		e->exit_code = t->record->release_code & 0xff;
	if (!batch && e->cause == END_NONE && t->record->release_code > 0xff)
		e->exit_signal = t->record->release_code >> 8;
	if (!e->detail && t->record->ended)
		e->detail = t->record->ended->detail;
	e->drain = t->record->drain;
	put_steps(a, t, e);
	return e;
}

/* Something of the attempt stays for a while: how it ended is told all the same. */
static void tell_early(struct agent *a, struct agent_attempt *t)
{
	if (t->early && (t->early_sent || strcmp(t->early->drain ? t->early->drain : "",
						 t->record->drain ? t->record->drain : "") == 0))
		return;
	t->early = describe_end(a, t);
	t->early->released = false;
	agent_mail_end(a, t, t->early);
	t->early_told = false;
}

/* True while the epilog runs, or is to be waited for. */
static bool epilog_first(struct agent *a, struct agent_attempt *t)
{
	const char *program = mu_conf_get(a->live, "Epilog", NULL);
	struct mu_err err = {0};
	if (t->prog_running)
		return true;
	if (!program || !program[0] || t->record->epiloged || t->record->end_cause == END_NO_SUCH_ATTEMPT)
		return false;
	t->phase = EXE_ENDING;
	t->record->has_epiloged = 1;
	if (agent_prog_start(a, AGENT_EPILOG, t, program, &t->prog_running, &err)) {
		t->record->epiloged = true;
		t->record->drain = "Epilog error";
		diag_error("job %u: %s", t->order->job, err.text);
	}
	if (t->prog_running)
		tell_early(a, t);
	t->force_boot_usec = INT64_MAX;
	return t->prog_running;
}

void agent_attempt_epilog_ended(struct agent *a, struct agent_attempt *t, bool good, const char *detail)
{
	(void)detail;
	t->prog_running = false;
	t->record->has_epiloged = 1;
	t->record->epiloged = true;
	if (!good)
		t->record->drain = "Epilog error";
	agent_attempt_save(t, false);
	agent_attempt_settle(a, t);
}

void agent_attempt_settle(struct agent *a, struct agent_attempt *t)
{
	struct mu_err err = {0};
	bool over = t->phase == EXE_ENDING || (batch_of(t) && batch_of(t)->ended);
	if (t->phase == EXE_ENDED || !over || t->steps_live || t->prog_running || t->clearing)
		return;
	if (t->group_made && !exe_cgroup_vanish(&a->host, t->cgroup) &&
	    (exe_cgroup_kill(&a->host, t->cgroup, SETTLE_KILL_MSEC, &err) ||
	     exe_cgroup_remove(&a->host, t->cgroup, &err))) {
		t->phase = EXE_ENDING;
		if (t->force_boot_usec < exe_boot_usec())
			diag_error("%s: %s", t->name, err.text);
		t->force_boot_usec = exe_boot_usec() + SETTLE_AGAIN_USEC;
		return;
	}
	if (epilog_first(a, t) || agent_private_remove(a, t))
		return;
	t->record->ended = describe_end(a, t);
	t->phase = EXE_ENDED;
	agent_attempt_save(t, false); /* forced to disk where the report of it must wait */
	const Mu__AttemptEnded *e = t->record->ended;
	agent_mail_end(a, t, e);
	diag_info("job %u attempt %u ended on this node: %s, exit %d:%d%s%s", e->job, e->attempt,
		  mu_end_cause_word(e->cause), e->exit_code, e->exit_signal, e->detail ? ", " : "",
		  e->detail ? e->detail : "");
}

static void send_end(struct agent_step *s, uint32_t cause, uint32_t by_uid, bool at_once)
{
	if (s->ended || s->lead)
		return;
	exe_herd_put_end(&s->out, cause, by_uid, at_once);
	agent_step_flush(s);
}

void agent_attempt_end(struct agent *a, struct agent_attempt *t, uint32_t cause, uint32_t by_uid,
		       bool at_once)
{
	bool fresh = t->phase != EXE_ENDING;
	if (t->phase == EXE_ENDED)
		return;
	if (fresh) {
		t->phase = EXE_ENDING;
		t->record->has_ending = t->record->has_end_cause = 1;
		t->record->ending = true;
		t->record->end_cause = cause;
		agent_suspend_over(a, t);
		t->wants_script = t->wants_env = false;
		/* Without a step left it is over in a moment, and saved then. */
		if (t->steps_live)
			agent_attempt_save(t, false);
		agent_hold_over(a, t, cause);
		for (struct agent_step *s = t->step; s; s = s->next)
			if (s->lead && !s->ended)
				agent_lead_end(t, s, 0, 15, cause == END_NONE ? END_JOB_OVER : cause, by_uid,
					       NULL);
		diag_info("job %u attempt %u: ending it: %s", t->order->job, t->order->attempt,
			  mu_end_cause_word(cause));
	}
	t->force_boot_usec = exe_boot_usec() + (at_once ? 0 : (int64_t)a->kill_wait_sec * 1000000) +
			     (int64_t)a->config->unkillable_timeout_sec * 1000000;
	if (!t->unkillable_boot_usec || at_once)
		t->unkillable_boot_usec = t->force_boot_usec;
	for (struct agent_step *s = t->step; s; s = s->next)
		send_end(s, cause == END_NONE ? END_JOB_OVER : cause, by_uid, at_once);
	bool saved = !fresh || t->steps_live;
	agent_attempt_settle(a, t);
	if (!saved && t->phase != EXE_ENDED)
		agent_attempt_save(t, false);
}

void agent_attempt_fail(struct agent *a, struct agent_attempt *t, const char *detail)
{
	Mu__AttemptEnded *e = mu_arena_alloc(&t->arena, sizeof *e);
	mu__attempt_ended__init(e);
	e->detail = mu_arena_strdup(&t->arena, detail);
	t->record->ended = e;
	diag_error("job %u attempt %u cannot be launched: %s", t->order->job, t->order->attempt, detail);
	agent_attempt_end(a, t, END_LAUNCH_FAILED, 0, true);
}

void agent_attempt_step_ended(struct agent *a, struct agent_attempt *t, struct agent_step *s)
{
	agent_step_read_end(a, t, s);
	diag_debug("job %u step %u ended: %d:%d", t->order->job, s->order->step, s->end->exit_code,
		   s->end->exit_signal);
	if (s->order->step == MU_STEP_BATCH && t->phase != EXE_ENDING && t->phase != EXE_ENDED)
		agent_attempt_end(a, t, s->end->cause, s->end->by_uid, false);
	agent_attempt_settle(a, t);
}

/* ---- the start ---- */

static Mu__AttemptRecord *record_new(struct agent *a, const Mu__AttemptOrder *order, uint64_t pos,
				     struct mu_arena *arena)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf copy = {0};
	Mu__AttemptRecord *r = mu_arena_alloc(arena, sizeof *r);
	mu__attempt_record__init(r);
	mu_pb_pack(&order->base, &copy);
	r->order =
	    (Mu__AttemptOrder *)mu_pb_unpack(&mu__attempt_order__descriptor, copy.data, copy.len, arena);
	if (!r->order)
		return NULL;
	/* The end of an attempt that was lost is ordered without what it was. */
	if (!r->order->spec) {
		r->order->spec = mu_arena_alloc(arena, sizeof *r->order->spec);
		mu__job_spec__init(r->order->spec);
	}
	r->cgroup =
	    mu_arena_printf(arena, "muster_%s/%s/job_%u_%u", a->cluster, a->node, order->job, order->attempt);
	r->has_boot_id = r->has_begin_mono_usec = r->has_begin_usec = r->has_pos = r->has_signal_seq = 1;
	r->boot_id = (ProtobufCBinaryData){16, a->inventory.boot_id};
	r->begin_mono_usec = exe_boot_usec();
	r->begin_usec = exe_wall_usec();
	r->pos = pos;
	r->signal_seq = order->signal_seq;
	return r;
}

/* The attempt's folder and record, in the file system before anything of it exists: another agent process
 * finds them. They need not be forced to disk: after a power cut nothing of the attempt runs, and the boot id
 * says so. */
static struct agent_attempt *take_up(struct agent *a, const Mu__AttemptOrder *order, uint64_t pos)
{
	struct mu_arena arena = {0};
	Mu__AttemptRecord *r =
	    a->attempt_count < AGENT_ATTEMPTS_MAX ? record_new(a, order, pos, &arena) : NULL;
	if (!r) {
		diag_error("job %u attempt %u: the order is not taken up (%zu are held)", order->job,
			   order->attempt, a->attempt_count);
		mu_arena_free(&arena);
		return NULL;
	}
	struct agent_attempt *t = agent_attempt_add(a, r, arena);
	if (mkdirat(a->spool_dir, t->name, 0711) && errno != EEXIST)
		diag_error("%s: %s", t->dir, strerror(errno));
	agent_attempt_save(t, false);
	return t;
}

void agent_attempt_blobs(struct agent *a, struct agent_attempt *t)
{
	struct mu_err err = {0};
	const Mu__JobSpec *spec = t->order->spec;
	if (t->wants_script && !t->script.len && agent_blob_known(a, &spec->script_hash, &t->script))
		t->wants_script = false;
	if (t->wants_env && !t->env.len && agent_blob_known(a, &spec->env_hash, &t->env))
		t->wants_env = false;
	if (t->wants_script || t->wants_env || t->prog_running || t->phase != EXE_STARTING)
		return;
	int code = agent_group_make(a, t, &err);
	if (code == 0)
		code = agent_launch_batch(a, t, &err);
	mu_buf_free(&t->script);
	mu_buf_free(&t->env);
	if (code) {
		agent_attempt_fail(a, t, err.text);
	} else {
		t->phase = EXE_RUNNING;
		agent_suspend_apply(a, t);
		agent_mail_begin(a, t);
	}
}

/* An allocation is there when its group is. */
static void open_allocation(struct agent *a, struct agent_attempt *t)
{
	struct mu_err err = {0};
	if (agent_group_make(a, t, &err)) {
		agent_attempt_fail(a, t, err.text);
	} else {
		t->phase = EXE_RUNNING;
		agent_suspend_apply(a, t);
		agent_mail_begin(a, t);
	}
}

static bool has_script(const struct agent_attempt *t)
{
	return t->order->batch_host && t->order->spec->batch;
}

/* The prolog runs on every node of the allocation before anything of the job does. False: it cannot. */
static bool prolog_begin(struct agent *a, struct agent_attempt *t)
{
	const char *program = mu_conf_get(a->live, "Prolog", NULL);
	struct mu_err err = {0};
	if (!program || !program[0] || t->record->prologed)
		return true;
	if (agent_prog_start(a, AGENT_PROLOG, t, program, &t->prog_running, &err) == 0)
		return true;
	agent_attempt_prolog_ended(a, t, false, err.text);
	return false;
}

void agent_attempt_prolog_ended(struct agent *a, struct agent_attempt *t, bool good, const char *detail)
{
	t->prog_running = false;
	t->record->has_prologed = 1;
	t->record->prologed = true;
	if (!good)
		t->record->drain = "Prolog error";
	agent_attempt_save(t, false);
	if (t->phase != EXE_STARTING)
		agent_attempt_settle(a, t);
	else if (!good)
		agent_attempt_fail(a, t, detail);
	else if (has_script(t))
		agent_attempt_blobs(a, t);
	else
		open_allocation(a, t);
}

/* What a fresh order needs before it runs. */
void agent_attempt_begin(struct agent *a, struct agent_attempt *t)
{
	t->phase = EXE_STARTING;
	if (!prolog_begin(a, t))
		return;
	if (!has_script(t)) {
		if (!t->prog_running)
			open_allocation(a, t);
		return;
	}
	t->wants_script = true;
	t->wants_env = t->order->spec->env_hash.len > 0;
	if (t->order->spec->script_hash.len == 0) {
		agent_attempt_fail(a, t, "the order names no script");
		return;
	}
	agent_attempt_blobs(a, t);
}

static void start(struct agent *a, const Mu__AttemptOrder *order, uint64_t pos)
{
	struct agent_attempt *t = take_up(a, order, pos);
	if (!t)
		return;
	diag_info("job %u attempt %u: starting for uid %u", order->job, order->attempt, order->uid);
	agent_attempt_begin(a, t);
}

/* An end is ordered for what this node does not have: it says so, by the same path as any other end. */
static void report_lost(struct agent *a, const Mu__AttemptOrder *order, uint64_t pos)
{
	struct agent_attempt *t = take_up(a, order, pos);
	if (!t)
		return;
	t->record->has_end_cause = 1;
	t->record->end_cause = END_NO_SUCH_ATTEMPT;
	t->group_made = true;
	t->phase = EXE_ENDING;
	agent_attempt_settle(a, t);
}

/* ---- orders ---- */

static bool is_meant(const struct agent_step *s, const Mu__AttemptOrder *order)
{
	bool batch = s->order->step == MU_STEP_BATCH;
	if (s->ended || s->lead)
		return false;
	if (order->signal_has_step)
		return s->order->step == order->signal_step;
	return (order->signal_flags & MU_SIGNAL_FULL) ||
	       ((order->signal_flags & MU_SIGNAL_BATCH_ONLY) ? batch : !batch);
}

static void deliver(struct agent_attempt *t, const Mu__AttemptOrder *order)
{
	for (struct agent_step *s = t->step; s; s = s->next) {
		if (!is_meant(s, order))
			continue;
		if (order->signal_flags & MU_SIGNAL_CONTINUE)
			exe_herd_put_signal(&s->out, SIGCONT, false);
		/* Without a signal's number a step is to end. */
		if (order->signal_number == 0)
			exe_herd_put_end(&s->out, END_CANCEL, t->order->uid, false);
		else
			exe_herd_put_signal(&s->out, order->signal_number,
					    s->order->step == MU_STEP_BATCH &&
						(order->signal_flags & MU_SIGNAL_BATCH_ONLY));
		agent_step_flush(s);
	}
	diag_info("job %u: signal %u delivered", order->job, order->signal_number);
	t->record->signal_seq = order->signal_seq;
	agent_attempt_save(t, false);
}

void agent_attempt_limits(struct agent_attempt *t)
{
	int64_t left = agent_time_left_sec(t);
	if (t->deadline_boot_usec || !batch_of(t))
		t->deadline_boot_usec = left ? exe_boot_usec() + left * 1000000 : 0;
	plan_warning(t);
}

/* A time limit that was changed while the job runs. */
static void follow_limit(struct agent *a, struct agent_attempt *t, const Mu__AttemptOrder *order)
{
	if ((order->time_limit_sec == t->order->time_limit_sec &&
	     order->over_time_sec == t->order->over_time_sec) ||
	    t->phase != EXE_RUNNING)
		return;
	t->record->order->has_time_limit_sec = 1;
	t->record->order->time_limit_sec = order->time_limit_sec;
	t->record->order->has_over_time_sec = 1;
	t->record->order->over_time_sec = order->over_time_sec;
	agent_attempt_save(t, false);
	int64_t left = agent_time_left_sec(t);
	agent_attempt_limits(t);
	for (struct agent_step *s = t->step; s; s = s->next)
		if (!s->ended) {
			int64_t gone = (exe_wall_usec() - s->order->start_usec) / 1000000;
			exe_herd_put_limit(&s->out, left ? left + gone : 0);
			agent_step_flush(s);
		}
}

static void act(struct agent *a, const Mu__OrderSet *set, const struct exe_todo *todo, bool may_start)
{
	struct agent_attempt *t = agent_attempt_find(a, todo->job, todo->attempt);
	switch (todo->act) {
	case EXE_START:
		if (may_start)
			start(a, todo->order, set->pos);
		break;
	case EXE_SIGNAL:
		deliver(t, todo->order);
		break;
	case EXE_END:
		if (todo->order)
			agent_attempt_end(a, t, todo->order->end_cause, todo->order->end_by_uid, false);
		else
			agent_attempt_end(a, t, END_NO_SUCH_ATTEMPT, 0, true);
		break;
	case EXE_FORGET:
		agent_attempt_forget(a, t);
		break;
	case EXE_REPORT_LOST:
		if (may_start)
			report_lost(a, todo->order, set->pos);
		break;
	}
}

void agent_apply(struct agent *a, const Mu__OrderSet *set)
{
	static struct exe_held held[AGENT_ATTEMPTS_MAX];
	static struct exe_todo todo[2 * AGENT_ATTEMPTS_MAX];
	/* A controller that lags behind tells what was, not what is. */
	if (set->pos < a->floor_pos || set->pos < a->base_pos) {
		diag_debug("orders of position %llu are older than %llu: left aside",
			   (unsigned long long)set->pos,
			   (unsigned long long)(a->floor_pos > a->base_pos ? a->floor_pos : a->base_pos));
		return;
	}
	bool may_start = a->registered && set->pos >= a->register_pos;
	size_t n = 0;
	for (struct agent_attempt *t = a->attempt; t && n < AGENT_ATTEMPTS_MAX; t = t->next)
		held[n++] =
		    (struct exe_held){t->order->job, t->order->attempt, t->phase, t->record->signal_seq};
	if (a->floor_pos < set->pos)
		a->floor_pos = set->pos;
	for (size_t i = 0; i < set->n_attempt; i++) {
		struct agent_attempt *t =
		    agent_attempt_find(a, set->attempt[i]->job, set->attempt[i]->attempt);
		if (t) {
			follow_limit(a, t, set->attempt[i]);
			agent_suspend_follow(a, t, set->attempt[i]);
		}
	}
	size_t count = exe_orders_compare(set, held, n, todo, sizeof todo / sizeof *todo);
	/* Before anything is forgotten the floor is written: no older set may ever start it again. */
	for (size_t i = 0; i < count && i < sizeof todo / sizeof *todo; i++)
		if (todo[i].act == EXE_FORGET) {
			agent_floor_save(a);
			break;
		}
	for (size_t i = 0; i < count && i < sizeof todo / sizeof *todo; i++)
		act(a, set, &todo[i], may_start);
	a->looked = true;
	/* What could not be started yet must come again: the base stays unknown. */
	a->base_digest_len = may_start && set->digest.len <= sizeof a->base_digest ? set->digest.len : 0;
	memcpy(a->base_digest, set->digest.data, a->base_digest_len);
	a->base_pos = may_start ? set->pos : 0;
}

/* ---- time ---- */

struct names {
	char text[400];
	size_t used;
};

static void name_process(void *arg, pid_t pid)
{
	struct names *n = arg;
	char path[64], word[32] = "?";
	snprintf(path, sizeof path, "/proc/%d/comm", pid);
	FILE *f = fopen(path, "re");
	if (f && fgets(word, sizeof word, f))
		word[strcspn(word, "\n")] = 0;
	if (f)
		fclose(f);
	if (n->used + 64 < sizeof n->text)
		n->used +=
		    (size_t)snprintf(n->text + n->used, sizeof n->text - n->used, " %s[%d]", word, pid);
}

/* What survives SIGKILL past UnkillableStepTimeout takes the node out of service, by name. */
static void look_for_unkillable(struct agent *a, struct agent_attempt *t)
{
	struct names n = {.used = 0};
	struct mu_err err = {0};
	const char *program = mu_conf_get(a->live, "UnkillableStepProgram", NULL);
	bool running;
	int64_t now = exe_boot_usec();
	if (!t->unkillable_boot_usec)
		t->unkillable_boot_usec = now + (int64_t)a->config->unkillable_timeout_sec * 1000000;
	if (now < t->unkillable_boot_usec || t->record->drain ||
	    exe_cgroup_each(&a->host, t->cgroup, name_process, &n) == 0)
		return;
	t->record->drain = mu_arena_printf(&t->arena, "Kill task failed:%s", n.text);
	diag_error("job %u: processes survive SIGKILL:%s", t->order->job, n.text);
	agent_attempt_save(t, false);
	tell_early(a, t);
	if (program && program[0] && agent_prog_start(a, AGENT_UNKILLABLE, t, program, &running, &err))
		diag_error("%s", err.text);
}

static void force(struct agent *a, struct agent_attempt *t)
{
	/* The shepherds had their time. What survives SIGKILL is the kernel's; it is tried until it is gone.
	 */
	if (t->steps_live && exe_cgroup_kill_once(&a->host, t->cgroup) == 0)
		for (struct agent_step *s = t->step; s; s = s->next)
			if (!s->ended && s->pid > 0)
				kill(s->pid, SIGKILL);
	look_for_unkillable(a, t);
	t->force_boot_usec = exe_boot_usec() + SETTLE_AGAIN_USEC;
	agent_attempt_settle(a, t);
}

static void warn(struct agent_attempt *t)
{
	const Mu__JobSpec *spec = t->order->spec;
	for (struct agent_step *s = t->step; s; s = s->next)
		if (!s->ended && (s->order->step == MU_STEP_BATCH) == (bool)spec->signal_batch) {
			exe_herd_put_signal(&s->out, spec->signal_number, spec->signal_batch);
			agent_step_flush(s);
		}
	diag_info("job %u: signal %u, %u s before its time limit", t->order->job, spec->signal_number,
		  spec->signal_before_sec);
	t->warn_boot_usec = 0;
	t->record->has_warned = 1;
	t->record->warned = true;
	agent_attempt_save(t, false);
}

void agent_attempts_timer(struct agent *a)
{
	int64_t now = exe_boot_usec();
	for (struct agent_attempt *t = a->attempt; t; t = t->next) {
		if (agent_mail_due(t) <= now)
			agent_mail_timer(a, t, now);
		if (agent_hold_due(t) <= now)
			agent_hold_timer(a, t, now);
		if (t->phase == EXE_RUNNING && t->warn_boot_usec && now >= t->warn_boot_usec)
			warn(t);
		if (t->phase == EXE_RUNNING && t->deadline_boot_usec && now >= t->deadline_boot_usec)
			agent_attempt_end(a, t, END_TIME_LIMIT, 0, false);
		if (t->phase == EXE_RUNNING && t->unheld_boot_usec && now >= t->unheld_boot_usec)
			agent_attempt_end(a, t, END_CANCEL, t->order->uid, false);
		if (t->phase == EXE_ENDING && now >= t->force_boot_usec)
			force(a, t);
	}
}

int64_t agent_attempts_due(struct agent *a)
{
	int64_t due = INT64_MAX;
	for (struct agent_attempt *t = a->attempt; t; t = t->next) {
		if (agent_mail_due(t) < due)
			due = agent_mail_due(t);
		if (agent_hold_due(t) < due)
			due = agent_hold_due(t);
		if (t->phase == EXE_RUNNING && t->warn_boot_usec && t->warn_boot_usec < due)
			due = t->warn_boot_usec;
		if (t->phase == EXE_RUNNING && t->deadline_boot_usec && t->deadline_boot_usec < due)
			due = t->deadline_boot_usec;
		if (t->phase == EXE_RUNNING && t->unheld_boot_usec && t->unheld_boot_usec < due)
			due = t->unheld_boot_usec;
		if (t->phase == EXE_ENDING && t->force_boot_usec < due)
			due = t->force_boot_usec;
	}
	return due;
}
