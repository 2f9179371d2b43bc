/* sched/evolve_attempt.c: the life of an attempt: its start, what nodes report of its end, what becomes of
 * the job. */
#include "sched/preempt.h"
#include "sched/timeline.h"

#include <assert.h>
#include <stdlib.h>

#include "proto/hostlist.h"

/* ---- small transitions ---- */

void sch__job_set_state(struct sch_state *st, struct sch_job *j, uint32_t state)
{
	uint32_t old = j->state;
	bool was = mu_job_state_ended(old), is = mu_job_state_ended(state);
	sch__job_count(st, j, -1);
	j->state = (uint8_t)state;
	sch__job_count(st, j, 1);
	if (was != is) {
		sch__job_part_refs(st, j, is ? -1 : 1);
		sch__array_moved(st, j, old);
	}
	sch__touch(st, &j->rec);
}

/* COMPLETING shows on a node as long as a job there is ending. */
static void node_completing(struct sch_state *st, struct sch_node *n)
{
	bool yes = false;
	for (uint32_t i = 0; i < n->hold_count; i++)
		yes = yes || n->hold[i].job->state == JOB_COMPLETING;
	uint32_t flags =
	    yes ? n->row->flags | NODE_FLAG_COMPLETING : n->row->flags & ~(uint32_t)NODE_FLAG_COMPLETING;
	if (flags == n->row->flags)
		return;
	n->row->flags = flags;
	sch__touch(st, &n->rec);
}

static void nodes_completing(struct sch_state *st, struct sch_job *j)
{
	for (uint32_t i = 0; j->run && i < j->run->alloc_count; i++)
		if (j->run->alloc[i].node)
			node_completing(st, j->run->alloc[i].node);
}

static void count_end(struct sch_state *st, uint32_t state)
{
	if (state == JOB_COMPLETED)
		st->cluster->jobs_completed++;
	else if (state == JOB_CANCELLED)
		st->cluster->jobs_cancelled++;
	else
		st->cluster->jobs_failed++;
}

/* The word behind an end, where there is one. */
static uint32_t end_reason(const struct sch_job *j)
{
	switch (j->end_state) {
	case JOB_FAILED:
		return j->reason == REASON_JobLaunchFailure || j->reason == REASON_Prolog
			   ? REASON_JobLaunchFailure
		       : j->run && j->run->exit_signal ? REASON_RaisedSignal
						       : REASON_NonZeroExitCode;
	case JOB_TIMEOUT:
		return REASON_TimeLimit;
	case JOB_OUT_OF_MEMORY:
		return REASON_OutOfMemory;
	case JOB_NODE_FAIL:
		return REASON_NodeDown;
	case JOB_DEADLINE:
		return REASON_DeadLine;
	default:
		return REASON_None;
	}
}

void sch__job_ending(struct sch_ev *ev, struct sch_job *j, uint32_t end_state)
{
	sch__job_ending_alone(ev, j, end_state);
	sch__het_ending(ev, j);
}

void sch__job_ending_alone(struct sch_ev *ev, struct sch_job *j, uint32_t end_state)
{
	assert(sch__lives(j));
	sch__due_clear(ev->st, j);
	if (j->state == JOB_SUSPENDED) /* What it has left is held until its nodes have ended it. */
		j->run->suspended_usec += ev->now - j->run->suspend_usec;
	j->end_state = (uint8_t)end_state;
	j->end_usec = ev->now;
	j->end_pos = ev->at->pos;
	sch__job_set_state(ev->st, j, JOB_COMPLETING);
	nodes_completing(ev->st, j);
	if (ev->st->plans.count)
		sch__wake(ev->st); /* Plans counted on its limit. */
}

void sch__job_settle(struct sch_ev *ev, struct sch_job *j)
{
	struct sch_state *st = ev->st;
	if (j->state != JOB_COMPLETING || j->run->open)
		return;
	if (j->requeue_after && sch__first_part(st, j)) {
		sch__job_wait_again(ev, j);
		return;
	}
	sch__reason(st, j, end_reason(j), sch__text(j->run->end_detail));
	sch__job_set_state(st, j, j->end_state);
	nodes_completing(st, j);
	count_end(st, j->state);
	sch__tomb_in(st, j);
	sch__name_index(st, j, false);
	sch__depend_parent(ev, j);
}

void sch__job_end_waiting(struct sch_ev *ev, struct sch_job *j, uint32_t state)
{
	sch__job_end_waiting_alone(ev, j, state);
	sch__het_end_waiting(ev, j, state);
}

void sch__job_end_waiting_alone(struct sch_ev *ev, struct sch_job *j, uint32_t state)
{
	struct sch_state *st = ev->st;
	assert(j->state == JOB_PENDING);
	sch__queue_out(st, j);
	sch__due_clear(st, j);
	j->end_state = (uint8_t)state;
	j->end_usec = ev->now;
	j->end_pos = ev->at->pos;
	sch__plan_clear(st, j);
	sch__reason(st, j, end_reason(j), NULL);
	sch__job_set_state(st, j, state);
	count_end(st, state);
	sch__tomb_in(st, j);
	sch__name_index(st, j, false);
	sch__depend_index(st, j, false);
	sch__depend_parent(ev, j);
}

/* Launch failures come further and further apart, and in the end the job is held: a broken node or script
 * must not spin. */
static void after_launch_failure(struct sch_ev *ev, struct sch_job *j, bool prolog)
{
	if (j->launch_failures >= SCH_LAUNCH_FAILURES_MAX) {
		j->priority = 0;
		j->held_by_admin = true;
		j->eligible_usec = 0;
		sch__reason(ev->st, j, REASON_launch_failed_requeued_held, sch__text(j->run->end_detail));
		return;
	}
	/* The first prolog that fails drains its node alone: elsewhere the job may well start at once. */
	if (prolog && j->launch_failures == 1)
		return;
	j->eligible_usec = ev->now + ((int64_t)SCH_LAUNCH_SPACE_SEC << (j->launch_failures - 1)) * SCH_USEC;
	sch__reason(ev->st, j, REASON_BeginTime, sch__text(j->run->end_detail));
}

/* Back to the queue: after a requeue, a lost node, a failed launch; also from a final state. */
void sch__job_wait_again(struct sch_ev *ev, struct sch_job *j)
{
	struct sch_state *st = ev->st;
	if (mu_job_state_ended(j->state)) {
		sch__tomb_out(st, j);
		sch__name_index(st, j, true);
		if (!j->run)
			j->end_usec = 0;
	}
	bool prolog = j->reason == REASON_Prolog;
	/* An operator who released it has forgiven the failures that its reason may still name. */
	bool launch = j->launch_failures && (prolog || j->reason == REASON_JobLaunchFailure);
	sch__job_set_state(st, j, JOB_PENDING);
	nodes_completing(st, j);
	j->restarts++; /* Also without a run in between: each time it ends is a record of its own. */
	j->requeue_after = false;
	j->has_canceller = false;
	j->cancelled_by = 0;
	j->eligible_usec = ev->now;
	/* Readers tell a job that runs or ran from one that waits again, or ended waiting, by its start. */
	j->start_usec = 0;
	j->start_pos = 0;
	j->ntasks = j->shape->ntasks;
	sch__str_set(st, &j->resv, NULL);
	j->resv_end_usec = 0;
	sch__plan_clear(st, j);
	sch__str_set(st, &j->partition, j->shape->part[0]->text);
	if (j->time_min_sec) { /* The last run may have had less than it asked for. */
		const Mu__JobSpec *spec = sch__spec_open(j->spec, ev->arena);
		const struct sch_part *part = sch__first_part(st, j);
		j->time_limit_sec = part ? sch__part_limit(part, spec) : j->time_limit_sec;
	}
	if (j->run)
		j->run->pending_signal = j->run->signal_flags = 0;
	sch__reason(st, j, REASON_None, NULL);
	if (j->priority == 0 || j->hold_after) {
		j->priority = 0;
		j->held_by_admin = false;
		j->eligible_usec = 0;
		sch__reason(st, j, REASON_JobHeldUser, NULL);
	} else if (launch) {
		after_launch_failure(ev, j, prolog);
	}
	j->hold_after = false;
	sch__queue_in(st, j);
	sch__due_set(st, j);
}

/* ---- start ---- */

/* Room for a new attempt: what old ones still hold on lost nodes moves aside. */
static struct sch_run *fresh_run(struct sch_state *st, struct sch_job *j)
{
	struct sch_run *run = j->run;
	if (!run)
		return j->run = mu_pool_get(&st->run_pool);
	for (uint32_t i = 0; i < run->alloc_count; i++) {
		if (run->alloc[i].released) {
			sch__alloc_clear(st, &run->alloc[i]);
			continue;
		}
		run->left = sch__grow(st, run->left, run->left_count * sizeof(run->left[0]),
				      (run->left_count + 1) * sizeof(run->left[0]));
		run->left[run->left_count++] = run->alloc[i];
	}
	sch__free(st, run->alloc, run->alloc_count * sizeof(run->alloc[0]));
	sch__str_drop(st, &run->node_list);
	sch__str_drop(st, &run->batch_host);
	sch__str_drop(st, &run->end_detail);
	sch__str_drop(st, &run->note);
	struct sch_run kept = {
	    .left = run->left, .left_count = run->left_count, .signal_seq = run->signal_seq};
	*run = kept;
	return run;
}

static void name_nodes(struct sch_ev *ev, struct sch_run *run)
{
	struct mu_buf list = {0};
	const char **names = mu_arena_alloc(ev->arena, (run->alloc_count + 1) * sizeof(names[0]));
	for (uint32_t i = 0; i < run->alloc_count; i++)
		names[i] = run->alloc[i].name->text;
	mu_hostlist_fold(names, run->alloc_count, &list); /* In their order: the first runs the script, and leads. */
	run->node_list = sch__str(ev->st, (const char *)list.data);
	run->batch_host = sch__str(ev->st, names[0]);
	mu_buf_free(&list);
}

static int64_t limit_at_start(const struct sch_ev *ev, const struct sch_job *j, const struct sch_part *p)
{
	const Mu__JobSpec *spec = sch__spec_open(j->spec, ev->arena);
	int64_t limit = sch__part_limit(p, spec);
	int64_t wall =
	    spec->has_time_limit_sec ? -1 : sch__limit_wall(ev->st, j->assoc, sch__text(j->qos), p);
	if (wall >= 0 && (limit < 0 || limit > wall))
		limit = wall;
	int64_t left = j->deadline_usec ? (j->deadline_usec - ev->now) / SCH_USEC : 0;
	if (j->deadline_usec && !spec->has_time_limit_sec && left > 0 && (limit < 0 || left < limit))
		limit = left;
	return limit;
}

/* Everything has been checked: ALLOC (taken over) fits, the job waits, P is one of its partitions. */
void sch__job_start(struct sch_ev *ev, struct sch_job *j, const struct sch_part *p, const struct sch_resv *in,
		    struct sch_alloc *alloc, uint32_t count, bool exclusive, int64_t shorter_sec,
		    int64_t from_usec)
{
	struct sch_state *st = ev->st;
	sch__queue_out(st, j);
	sch__due_clear(st, j);
	struct sch_run *run = fresh_run(st, j);
	run->alloc = alloc;
	run->alloc_count = run->open = count;
	j->attempt++;
	j->exclusive = exclusive;
	j->cpus_total = 0;
	j->end_state = 0;
	j->start_usec = ev->now;
	j->start_late_usec = ev->now - from_usec;
	j->special_exit = false;
	j->end_usec = 0;
	j->end_pos = 0;
	j->start_pos = ev->at->pos;
	j->last_sched_usec = ev->now;
	sch__plan_clear(st, j);
	sch__str_set(st, &j->resv, in ? in->row->name : NULL);
	j->resv_end_usec = sch__resv_job_end(st, in);
	sch__str_set(st, &j->partition, p->row->conf->name);
	j->time_limit_sec = shorter_sec ? shorter_sec : limit_at_start(ev, j, p);
	sch__reason(st, j, REASON_None, NULL);
	name_nodes(ev, run);
	sch__steps_drop(st, j->id, j->attempt);
	if (j->shape->grows)
		j->ntasks = 0;
	if (j->array) {
		j->array->last_start_usec = ev->now;
		sch__touch(st, &j->array->rec);
	}
	for (uint32_t i = 0; i < count; i++) {
		alloc[i].attempt = j->attempt;
		j->cpus_total += alloc[i].cpus;
		j->ntasks += j->shape->grows ? alloc[i].tasks : 0;
		sch__hold_add(st, j, &alloc[i]);
	}
	int64_t exempt = sch__preempt_exempt_sec(st, j);
	run->preempt_eligible_usec = exempt > 0 ? ev->now + exempt * SCH_USEC : 0;
	sch__job_set_state(st, j, JOB_RUNNING);
	sch__due_set(st, j);
	sch__depend_index(st, j, false);
	sch__depend_parent(ev, j);
	st->cluster->jobs_started++;
}

/* ---- failure of nodes ---- */

void sch__job_node_failed(struct sch_ev *ev, struct sch_job *j, const struct sch_node *n)
{
	struct sch_alloc *a = sch__alloc_on(j, j->attempt, n);
	if (!a || a->lost || a->released)
		return;
	a->lost = true;
	j->run->open--;
	sch__touch(ev->st, &j->rec);
	if (sch__lives(j)) {
		j->requeue_after = sch__job_requeues(ev->st, j);
		sch__str_set(ev->st, &j->run->end_detail,
			     mu_arena_printf(ev->arena, "node %s failed", n->row->name));
		sch__job_ending(ev, j, JOB_NODE_FAIL);
	}
	sch__job_settle(ev, j);
}

/* The node, or its fencing, says that nothing of A is left. */
void sch__alloc_released(struct sch_ev *ev, struct sch_job *j, struct sch_alloc *a)
{
	struct sch_state *st = ev->st;
	struct sch_node *n = a->node;
	bool left = a >= j->run->left && a < j->run->left + j->run->left_count;
	if (!a->lost && !left)
		j->run->open--;
	sch__hold_end(st, j, a);
	if (left)
		sch__run_left_drop(st, j->run, (uint32_t)(a - j->run->left));
	node_completing(st, n);
	sch__job_settle(ev, j);
	sch__tomb_in(st, j);
}

/* ---- steps ---- */

static void step_key(uint8_t key[12], uint32_t job, uint32_t attempt, uint32_t step)
{
	mu_put_be32(key, job);
	mu_put_be32(key + 4, attempt);
	mu_put_be32(key + 8, step);
}

static struct sch_step *step_new(struct sch_state *st, const Mu__StepRow *row)
{
	size_t len = mu__step_row__get_packed_size(row);
	struct sch_step *s = sch__alloc(st, sizeof(*s) + len);
	s->rec.kind = SCH_ROW_STEP;
	s->rec.change = UINT32_MAX;
	s->job = row->job;
	s->attempt = row->attempt;
	s->step = row->step;
	s->len = (uint32_t)len;
	mu__step_row__pack(row, s->bytes);
	return s;
}

void sch__step_put(struct sch_state *st, struct sch_job *j, uint32_t attempt, const Mu__StepRow *row)
{
	uint8_t key[12];
	Mu__StepRow own = *row;
	SCH_SET(&own, job, j->id);
	SCH_SET(&own, attempt, attempt);
	SCH_SET(&own, step, row->step);
	SCH_SET(&own, state, row->state);
	step_key(key, j->id, attempt, row->step);
	struct sch_step *old = mu_map_get(&st->steps, key, sizeof(key));
	struct sch_step *s = step_new(st, &own);
	if (old) {
		sch__retouch(st, &old->rec, &s->rec);
		sch__free(st, old, sizeof(*old) + old->len);
	}
	mu_map_put(&st->steps, key, sizeof(key), s);
	sch__touch(st, &s->rec);
	if (row->step == MU_STEP_BATCH || row->step == MU_STEP_EXTERN || !j->run || attempt != j->attempt)
		return;
	if (row->exit_code > j->run->derived_code)
		j->run->derived_code = row->exit_code;
	if (row->exit_signal > j->run->derived_signal)
		j->run->derived_signal = row->exit_signal;
	sch__touch(st, &j->rec);
}

int sch__step_load(struct sch_state *st, const Mu__StepRow *row)
{
	uint8_t key[12];
	step_key(key, row->job, row->attempt, row->step);
	if (!sch__job(st, row->job) || mu_map_get(&st->steps, key, sizeof(key)))
		return MU_ECORRUPT;
	struct sch_step *s = step_new(st, row);
	mu_map_put(&st->steps, key, sizeof(key), s);
	return 0;
}

/* Forgets steps of attempts below ATTEMPT_BELOW. */
void sch__steps_drop(struct sch_state *st, uint32_t job, uint32_t attempt_below)
{
	uint8_t key[12];
	step_key(key, job, 0, 0);
	for (;;) {
		struct sch_step *s = mu_map_seek(&st->steps, key, sizeof(key), 0, NULL, NULL);
		if (!s || s->job != job || s->attempt >= attempt_below)
			return;
		uint8_t own[12];
		step_key(own, s->job, s->attempt, s->step);
		mu_map_del(&st->steps, own, sizeof(own));
		sch__gone(st, &s->rec);
	}
}

/* ---- reports ---- */

static uint32_t steps_of(const struct sch_state *st, uint32_t job, uint32_t attempt, uint32_t stop)
{
	uint8_t key[12];
	uint32_t n = 0;
	step_key(key, job, attempt, 0);
	const struct sch_step *s = mu_map_seek(&st->steps, key, sizeof(key), 0, NULL, NULL);
	for (; s && s->job == job && s->attempt == attempt && n < stop; n++) {
		step_key(key, job, attempt, s->step);
		s = mu_map_seek(&st->steps, key, sizeof(key), 1, NULL, NULL);
	}
	return n;
}

static int check_steps(struct sch_ev *ev, const struct sch_job *j, uint32_t attempt, size_t count)
{
	const Mu__Config *c = sch__conf(ev->st);
	uint32_t max = c->max_step_count ? c->max_step_count : 40000;
	if (count && steps_of(ev->st, j->id, attempt, max) + count > max)
		return mu_fail(&ev->err, MU_ELIMIT, "Job %u has more than %u steps", j->id, max);
	return 0;
}

int sch__evolve_steps_reported(struct sch_ev *ev)
{
	const Mu__StepsReported *r = ev->event->steps_reported;
	struct sch_job *j = sch__job(ev->st, r->job);
	struct sch_node *n = sch__node(ev->st, ev->author->node);
	ev->job = r->job;
	if (!j || !r->attempt || r->attempt != j->attempt || !j->run)
		return sch__refuse(&ev->err, MU_EJOBID);
	if (!n || !j->run->batch_host || strcmp(j->run->batch_host->text, n->row->name) != 0)
		return sch__refuse(&ev->err, MU_EPERM);
	int rc = check_steps(ev, j, r->attempt, r->n_step);
	if (rc)
		return rc;
	for (size_t i = 0; i < r->n_step; i++)
		sch__step_put(ev->st, j, r->attempt, r->step[i]);
	return 0;
}

static uint32_t natural_end(const Mu__AttemptEnded *e)
{
	switch (e->cause) {
	case END_CANCEL:
		return JOB_CANCELLED;
	case END_TIME_LIMIT:
		return JOB_TIMEOUT;
	case END_OOM:
		return JOB_OUT_OF_MEMORY;
	case END_NODE_FAIL:
	case END_NO_SUCH_ATTEMPT:
		return JOB_NODE_FAIL;
	case END_PREEMPT:
		return JOB_PREEMPTED;
	case END_DEADLINE:
		return JOB_DEADLINE;
	case END_REQUEUE:
		return JOB_REQUEUED;
	case END_LAUNCH_FAILED:
	case END_SHEPHERD_LOST:
		return JOB_FAILED;
	default:
		break;
	}
	if (e->oom_kills)
		return JOB_OUT_OF_MEMORY;
	return e->exit_code || e->exit_signal ? JOB_FAILED : JOB_COMPLETED;
}

static void record_exit(struct sch_ev *ev, struct sch_job *j, const Mu__AttemptEnded *e, uint32_t end)
{
	j->run->exit_code = e->exit_code;
	j->run->exit_signal = e->exit_signal;
	j->run->span_usec = e->span_usec;
	if (end == JOB_OUT_OF_MEMORY && !e->exit_code && !e->exit_signal)
		j->run->exit_signal = 125; /* What people look for: 0:125. */
	if (e->detail && *e->detail)
		sch__str_set(ev->st, &j->run->end_detail, e->detail);
}

void sch__node_drain(struct sch_ev *ev, struct sch_node *n, const char *reason)
{
	if (n->row->flags & NODE_FLAG_DRAIN)
		return;
	n->row->flags |= NODE_FLAG_DRAIN;
	sch__replace(&n->row->reason, reason);
	sch__replace(&n->row->reason_user, "slurm");
	SCH_SET(n->row, reason_usec, ev->now);
	sch__touch(ev->st, &n->rec);
	sch__node_index(ev->st, n);
}

static bool is_batch(const struct sch_state *st, const struct sch_job *j)
{
	struct mu_arena arena = {0};
	const struct sch_job *first = sch__het_leader(st, j);
	bool batch = sch__spec_open((first ? first : j)->spec, &arena)->batch;
	mu_arena_free(&arena);
	return batch;
}

/* The node could not start it. An exit code or signal says that the job itself was to blame; otherwise the
 * node is drained with the cause and the job tries again elsewhere. */
static uint32_t launch_failed(struct sch_ev *ev, struct sch_job *j, struct sch_node *n,
			      const Mu__AttemptEnded *e)
{
	bool prolog = e->drain && *e->drain;
	sch__reason(ev->st, j, prolog ? REASON_Prolog : REASON_JobLaunchFailure, NULL);
	if (e->exit_code || e->exit_signal)
		return JOB_FAILED;
	sch__node_drain(ev, n,
			prolog ? e->drain
			       : mu_arena_printf(ev->arena, "launch of job %u failed: %s", j->id,
						 e->detail ? e->detail : "?"));
	if (j->launch_failures < UINT8_MAX)
		j->launch_failures++;
	/* An allocation is its holder's, who is told of its end. */
	j->requeue_after = !prolog || is_batch(ev->st, j);
	return JOB_FAILED;
}

/* The batch host's word ends the job; another node's does only when it could not do its part. */
static void ended_running(struct sch_ev *ev, struct sch_job *j, struct sch_node *n, const Mu__AttemptEnded *e)
{
	bool broke = e->cause == END_LAUNCH_FAILED || e->cause == END_SHEPHERD_LOST ||
		     e->cause == END_NODE_FAIL || e->cause == END_NO_SUCH_ATTEMPT;
	if (!e->batch && !broke)
		return;
	uint32_t end = natural_end(e);
	record_exit(ev, j, e, end);
	if (e->cause == END_LAUNCH_FAILED)
		end = launch_failed(ev, j, n, e);
	if (end == JOB_NODE_FAIL)
		j->requeue_after = sch__job_requeues(ev->st, j);
	if (end == JOB_COMPLETED)
		j->launch_failures = 0;
	else if (j->run->preempt_end_usec && !broke) { /* Warned, it went by itself. */
		sch__preempt_end(ev, j);
		return;
	}
	sch__job_ending(ev, j, end);
}

int sch__evolve_attempt_ended(struct sch_ev *ev)
{
	const Mu__AttemptEnded *e = ev->event->attempt_ended;
	struct sch_job *j = sch__job(ev->st, e->job);
	struct sch_node *n = sch__node(ev->st, e->node);
	ev->job = e->job;
	if (!j || !n)
		return sch__refuse(&ev->err, j ? MU_ENODENAME : MU_EJOBID);
	if (!sch__same(ev->author->node, e->node))
		return sch__refuse(&ev->err, MU_EPERM);
	struct sch_alloc *a = sch__alloc_on(j, e->attempt, n);
	if (!a || !e->attempt)
		return mu_fail(&ev->err, MU_EVOID, "Job %u attempt %u holds nothing on %s", e->job,
			       e->attempt, e->node);
	int rc = check_steps(ev, j, e->attempt, e->n_step);
	if (rc)
		return rc;
	bool current = e->attempt == j->attempt;
	/* Of a heterogeneous job the first component alone has a script: its exit code is that of all. */
	bool batch = e->batch && current && !j->het_offset && j->run->batch_host &&
		     strcmp(j->run->batch_host->text, e->node) == 0;
	sch__touch(ev->st, &j->rec);
	for (size_t i = 0; i < e->n_step; i++) /* of a lost attempt too: its node says how its steps ended */
		sch__step_put(ev->st, j, e->attempt, e->step[i]);
	if (current && sch__lives(j))
		ended_running(ev, j, n, e);
	else if (batch && j->state == JOB_COMPLETING && !a->lost)
		record_exit(ev, j, e, j->end_state);
	if (e->drain && *e->drain)
		sch__node_drain(ev, n, e->drain);
	if (e->released)
		sch__alloc_released(ev, j, a);
	return 0;
}
