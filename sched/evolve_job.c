/* sched/evolve_job.c: what people do with jobs: submit, cancel and signal, hold and release, requeue. */
#include "sched/job.h"
#include "sched/preempt.h"

#include <assert.h>

bool sch__may_act(const struct sch_ev *ev, const struct sch_job *j)
{
	return ev->author->operator_ || ev->author->uid == j->who->uid;
}

/* ---- submission ---- */

static void part_refs(struct sch_state *st, const struct sch_job *j, int sign)
{
	sch__count_submit(st, j, sign);
	sch__resv_ref(st, j, sign);
	for (uint32_t i = 0; i < j->shape->part_count; i++) {
		struct sch_part *p = sch__part(st, j->shape->part[i]->text);
		if (p)
			p->job_refs += (uint32_t)sign;
	}
}

void sch__job_split_refs(struct sch_state *st, const struct sch_job *j)
{
	sch__resv_ref(st, j, 1);
	for (uint32_t i = 0; i < j->shape->part_count; i++) {
		struct sch_part *p = sch__part(st, j->shape->part[i]->text);
		if (p)
			p->job_refs++;
	}
}

void sch__job_part_refs(struct sch_state *st, const struct sch_job *j, int sign)
{
	part_refs(st, j, sign);
}

void sch__job_apply(struct sch_state *st, struct sch_job *j, Mu__JobSpec *spec, const struct sch_want *w)
{
	char *parts[SCH_PARTS_PER_JOB];
	for (uint32_t i = 0; i < w->part_count; i++)
		parts[i] = w->part[i]->row->conf->name;
	spec->n_partition = w->part_count;
	spec->partition = parts;
	if (!w->own_spec)
		spec->has_core_spec = spec->has_thread_spec = 0; /* Not for jobs to say. */
	struct sch_shape *shape = sch__shape(st, spec, w);
	struct sch_spec *packed = sch__spec(st, spec);
	sch__shape_drop(st, &j->shape);
	sch__spec_drop(st, &j->spec);
	j->shape = shape;
	j->spec = packed;
	j->deadline_usec = spec->deadline_usec;
	j->time_min_sec = spec->time_min_sec;
	j->limit_given = spec->has_time_limit_sec;
	sch__str_set(st, &j->resv_want, spec->reservation);
	sch__str_set(st, &j->licenses, spec->licenses);
	sch__str_set(st, &j->partition, parts[0]);
	sch__str_set(st, &j->account, w->account);
	j->assoc = w->assoc;
	sch__str_set(st, &j->qos, w->qos);
	j->time_limit_sec = w->time_limit_sec;
	j->nodes_min = w->nodes_min;
	j->nodes_max = w->nodes_max;
	j->ntasks = w->ntasks;
	j->cpus_per_task = w->cpus_per_task;
	j->cpus_total = w->cpus_total;
	j->mem_node_mib = w->mem_node_mib;
	j->mem_cpu_mib = w->mem_cpu_mib;
	spec->n_partition = 0;
	spec->partition = NULL;
}

/* The reason that follows from priority and begin time alone; the rest is decided. */
void sch__waiting_reason(struct sch_ev *ev, struct sch_job *j)
{
	if (j->priority == 0)
		sch__reason(ev->st, j, j->held_by_admin ? REASON_JobHeldAdmin : REASON_JobHeldUser, NULL);
	else if (sch__depend(j) != SCH_DEPEND_MET)
		sch__reason(ev->st, j,
			    sch__depend(j) == SCH_DEPEND_OPEN ? REASON_Dependency
							      : REASON_DependencyNeverSatisfied,
			    NULL);
	else if (j->eligible_usec > ev->now)
		sch__reason(ev->st, j, REASON_BeginTime, NULL);
	else
		sch__reason(ev->st, j, REASON_None, NULL);
}

static int check_submission(struct sch_ev *ev, struct sch_want **ret)
{
	const Mu__Submitted *s = ev->event->submitted;
	const struct sch_state *st = ev->st;
	const Mu__Config *c = sch__conf(st);
	size_t bytes = s->spec ? mu__job_spec__get_packed_size(s->spec) : 0;
	if (!s->spec || s->job_key.len > 32)
		return mu_fail(&ev->err, MU_EINVAL, "A submission without a job, or with a malformed key");
	for (size_t i = 0; i < s->n_component; i++)
		bytes += mu__job_spec__get_packed_size(s->component[i]);
	if (bytes > SCH_SPEC_BYTES_MAX)
		return mu_fail(&ev->err, MU_ELIMIT, "The job's options take more than %u bytes",
			       SCH_SPEC_BYTES_MAX);
	if (st->cluster->next_job_id >= UINT32_MAX - s->n_component ||
	    (c->max_job_id && st->cluster->next_job_id + s->n_component > c->max_job_id))
		return mu_fail(&ev->err, MU_ELIMIT, "All job ids up to MaxJobId are used; raise it");
	return sch__submission_check(st, s, ev->author, ev->arena, ret, &ev->err);
}

/* Component OFFSET, in all indexes but the queue's. */
static struct sch_job *create(struct sch_ev *ev, Mu__JobSpec *spec, const struct sch_want *want,
			      uint32_t offset)
{
	const Mu__Submitted *s = ev->event->submitted;
	const Mu__Author *a = ev->author;
	struct sch_state *st = ev->st;
	struct sch_job *j = mu_pool_get(&st->job_pool);
	j->rec.kind = SCH_ROW_JOB;
	j->rec.change = UINT32_MAX;
	j->id = st->cluster->next_job_id++;
	if (s->n_component) {
		j->het_first = j->id - offset;
		j->het_offset = offset;
		j->het_count = 1 + (uint32_t)s->n_component;
	}
	j->who = sch__person(st, a->uid, a->gid, a->user, a->group, a->groups, a->n_groups);
	j->state = JOB_PENDING;
	j->submit_usec = ev->now;
	j->submit_pos = ev->at->pos;
	j->job_key_len = (uint8_t)s->job_key.len;
	if (s->job_key.len)
		memcpy(j->job_key, s->job_key.data, s->job_key.len);
	sch__job_apply(st, j, spec, want);
	if (spec->array && *spec->array)
		sch__array_new(st, j, spec->array);
	st->job_tasks += sch__job_size(j);
	j->eligible_usec = spec->begin_usec > ev->now ? spec->begin_usec : ev->now;
	j->priority = sch__priority(st, j, spec, a->operator_);
	if (!j->priority && spec->begin_usec <= ev->now)
		j->eligible_usec = 0;
	sch__name_index(st, j, true);
	mu_map_put_u64(&st->jobs, j->id, j);
	sch__depend_new(ev, j, spec, s->resolved, s->n_resolved);
	sch__waiting_reason(ev, j);
	part_refs(st, j, 1);
	sch__job_count(st, j, 1);
	return j;
}

int sch__evolve_submitted(struct sch_ev *ev)
{
	const Mu__Submitted *s = ev->event->submitted;
	struct sch_state *st = ev->st;
	struct sch_want *want;
	int rc = check_submission(ev, &want);
	if (rc)
		return rc;
	ev->job = st->cluster->next_job_id;
	for (uint32_t k = 0; k <= s->n_component; k++) {
		struct sch_job *j = create(ev, k ? s->component[k - 1] : s->spec, &want[k], k);
		sch__queue_in(st, j);
		sch__due_set(st, j);
		sch__touch(st, &j->rec);
		st->cluster->jobs_submitted++;
		sch__depend_apart(ev, j, s->resolved, s->n_resolved);
	}
	for (uint32_t k = 0; k <= s->n_component; k++) {
		struct sch_job *j = sch__job(st, ev->job + k);
		if (j->state == JOB_PENDING)
			sch__depend_kill(ev, j);
	}
	sch__jobs_make_room(ev);
	return 0;
}

/* ---- many jobs at once ---- */

static void add_target(struct sch_ev *ev, struct sch_targets *t, struct sch_job *j,
		       const struct mu_runs *part)
{
	struct mu_runs none = {0};
	if (t->count == t->cap) {
		size_t cap = t->cap ? 2 * t->cap : 16;
		struct sch_target *v = mu_arena_alloc(ev->arena, cap * sizeof(v[0]));
		if (t->count)
			memcpy(v, t->v, t->count * sizeof(v[0]));
		t->v = v;
		t->cap = cap;
	}
	t->v[t->count++] = (struct sch_target){j, none};
	if (part)
		mu_runs_or(&t->v[t->count - 1].part, part);
}

void sch__targets_free(struct sch_targets *t)
{
	for (size_t i = 0; i < t->count; i++)
		mu_runs_free(&t->v[i].part);
}

static void add_components(struct sch_ev *ev, struct sch_targets *t, struct sch_job *j,
			   enum sch_targets_of of)
{
	bool alone = of == SCH_TARGETS_ALONE ||
		     (of == SCH_TARGETS_RUNNING && j->het_offset && j->state != JOB_PENDING);
	if (!j->het_count || alone) {
		add_target(ev, t, j, NULL);
		return;
	}
	for (uint32_t k = 0; k < j->het_count; k++) {
		struct sch_job *m = sch__het_part(ev->st, j, k);
		if (m)
			add_target(ev, t, m, NULL);
	}
}

int sch__targets_job(struct sch_ev *ev, uint32_t id, enum sch_targets_of of, struct sch_targets *ret)
{
	const struct sch_array *a = sch__array(ev->st, id);
	struct sch_job *j = a ? NULL : sch__job(ev->st, id);
	struct sch_array_at at = {0};
	size_t before = ret->count;
	if (j)
		add_components(ev, ret, j, of);
	for (j = a ? sch__array_each(ev->st, a, &at) : NULL; j; j = sch__array_each(ev->st, a, &at))
		add_target(ev, ret, j, NULL);
	return ret->count > before ? 0 : MU_EJOBID;
}

int sch__targets_tasks(struct sch_ev *ev, uint32_t id, const char *text, struct sch_targets *ret)
{
	const struct sch_array *a = sch__array(ev->st, id);
	struct sch_array_at at = {0};
	struct mu_tasks asked;
	struct mu_runs runs = {0};
	size_t before = ret->count;
	if (!a || !text || mu_tasks_parse(text, UINT32_MAX, &asked, NULL))
		return MU_EJOBID;
	mu_tasks_select(&a->tasks, &asked, &runs);
	if (asked.total == 1 && runs.total == 1) { /* One is found, not searched for. */
		struct sch_job *j = sch__array_task(ev->st, a, asked.v[0].first);
		if (j)
			add_target(ev, ret, j, j->tasks ? &runs : NULL);
	}
	for (struct sch_job *j = asked.total > 1 ? sch__array_each(ev->st, a, &at) : NULL; j;
	     j = sch__array_each(ev->st, a, &at)) {
		struct mu_runs both = {0}, rest = {0};
		if (j->tasks)
			mu_runs_cut(j->tasks, &runs, &both, &rest);
		if (j->tasks ? both.total > 0 : mu_runs_has(&runs, mu_tasks_ordinal(&a->tasks, j->task)))
			add_target(ev, ret, j, j->tasks && rest.total ? &both : NULL);
		mu_runs_free(&both);
		mu_runs_free(&rest);
	}
	mu_runs_free(&runs);
	mu_tasks_free(&asked);
	return ret->count > before ? 0 : MU_EJOBID;
}

struct sch_job *sch__target_narrow(struct sch_ev *ev, struct sch_target *t, struct mu_err *err)
{
	struct sch_job *j = t->job;
	struct mu_runs both, rest;
	if (!t->part.total || !j->tasks)
		return j;
	mu_runs_cut(j->tasks, &t->part, &both, &rest);
	bool all = both.total && !rest.total;
	bool room = sch__ids_left(ev->st) && (both.total == 1 || j->array->parts < SCH_ARRAY_PARTS_MAX);
	if (both.total && rest.total && room)
		j = sch__array_split(ev->st, j, &both);
	else if (!all)
		j = NULL;
	mu_runs_free(&both);
	mu_runs_free(&rest);
	if (!j && !room)
		mu_fail(err, MU_ELIMIT,
			"Array %u is in too many pieces already, or all job ids are used: name its tasks one "
			"by one",
			t->job->array->id);
	else if (!j)
		sch__refuse(err, MU_EJOBID);
	return j;
}

/* Applies ACT to each job named. One that fits makes the event good; otherwise the first refusal is its
 * verdict. A lone job's refusal is exact. CHECK writes nothing. */
static int each_job(struct sch_ev *ev, const uint32_t *id, size_t count, Mu__ArrayTasks *const *some,
		    size_t some_count, enum sch_targets_of of,
		    int (*check)(struct sch_ev *, struct sch_job *, struct mu_err *),
		    void (*act)(struct sch_ev *, struct sch_job *))
{
	struct mu_err first = {0};
	struct sch_targets targets = {0};
	bool any = false;
	if (!(count + some_count) || count + some_count > SCH_JOBS_PER_EVENT)
		return mu_fail(&ev->err, MU_EJOBID, "%s", mu_strerror(MU_EJOBID));
	ev->job = count ? id[0] : some[0]->job;
	for (size_t i = 0; i < count + some_count; i++) {
		int rc = i < count
			     ? sch__targets_job(ev, id[i], of, &targets)
			     : sch__targets_tasks(ev, some[i - count]->job, some[i - count]->tasks, &targets);
		if (rc && !first.code)
			sch__refuse(&first, rc);
	}
	for (size_t i = 0; i < targets.count; i++) {
		struct mu_err why = {0};
		struct sch_target *t = &targets.v[i];
		struct sch_job *j = check(ev, t->job, &why) ? NULL : sch__target_narrow(ev, t, &why);
		if (!j && !first.code)
			first = why;
		if (!j)
			continue;
		act(ev, j);
		any = true;
	}
	sch__targets_free(&targets);
	if (any)
		return 0;
	ev->err = first;
	return first.code;
}

/* ---- cancel and signal ---- */

static int check_signal(struct sch_ev *ev, struct sch_job *j, struct mu_err *err)
{
	const Mu__JobSignal *s = ev->event->job_signal;
	if (!sch__may_act(ev, j))
		return sch__refuse(err, MU_EPERM);
	if (mu_job_state_ended(j->state))
		return sch__refuse(err, MU_EALREADYDONE);
	if (j->state == JOB_COMPLETING && !j->requeue_after)
		return s->signal ? sch__refuse(err, MU_EALREADYDONE) : 0;
	if (j->state == JOB_PENDING && (s->signal || s->has_step))
		return sch__refuse(err, MU_EPENDING);
	return 0;
}

static void cancelled_by(struct sch_ev *ev, struct sch_job *j)
{
	j->has_canceller = true;
	j->cancelled_by = ev->author->uid;
}

static void act_signal(struct sch_ev *ev, struct sch_job *j)
{
	const Mu__JobSignal *s = ev->event->job_signal;
	sch__touch(ev->st, &j->rec);
	if (s->signal || s->has_step) {
		if (!sch__lives(j))
			return;
		j->run->pending_signal = s->signal;
		j->run->signal_flags = s->flags;
		j->run->signal_step = s->has_step ? s->step : 0;
		j->run->signal_has_step = s->has_step;
		j->run->signal_seq++;
		j->run->signal_pos = ev->at->pos;
		return;
	}
	if (j->state == JOB_PENDING) {
		cancelled_by(ev, j);
		sch__job_end_waiting(ev, j, JOB_CANCELLED);
	} else if (sch__lives(j)) {
		cancelled_by(ev, j);
		if (j->het_offset)
			sch__job_ending_alone(ev, j, JOB_CANCELLED);
		else
			sch__job_ending(ev, j, JOB_CANCELLED);
		sch__job_settle(ev, j);
	} else if (j->requeue_after) { /* It was to wait again: now it will not. */
		cancelled_by(ev, j);
		j->requeue_after = j->hold_after = false;
		j->end_state = JOB_CANCELLED;
	}
}

int sch__evolve_job_signal(struct sch_ev *ev)
{
	const Mu__JobSignal *s = ev->event->job_signal;
	if (s->signal > 64)
		return mu_fail(&ev->err, MU_EINVAL, "There is no signal %u", s->signal);
	return each_job(ev, s->job, s->n_job, s->some, s->n_some, SCH_TARGETS_RUNNING, check_signal,
			act_signal);
}

/* ---- hold and release ---- */

static int check_hold(struct sch_ev *ev, struct sch_job *j, struct mu_err *err)
{
	const Mu__JobHold *h = ev->event->job_hold;
	if (!sch__may_act(ev, j))
		return sch__refuse(err, MU_EPERM);
	if (mu_job_state_ended(j->state))
		return sch__refuse(err, MU_EALREADYDONE);
	if (j->state != JOB_PENDING)
		return sch__refuse(err, MU_ENOTPENDING);
	if (h->release && j->priority == 0 && j->held_by_admin && !ev->author->operator_)
		return sch__refuse(err, MU_EPERM);
	return 0;
}

void sch__job_rank(struct sch_ev *ev, struct sch_job *j, uint32_t priority, bool by_admin)
{
	struct sch_state *st = ev->st;
	sch__queue_out(st, j);
	if (priority == 0)
		j->eligible_usec = j->eligible_usec > ev->now ? j->eligible_usec : 0;
	else if (j->eligible_usec == 0)
		j->eligible_usec = ev->now;
	j->priority = priority;
	j->held_by_admin = priority == 0 && by_admin;
	j->special_exit = j->special_exit && priority == 0;
	sch__waiting_reason(ev, j);
	sch__queue_in(st, j);
	sch__touch(st, &j->rec);
}

static void act_hold(struct sch_ev *ev, struct sch_job *j)
{
	const Mu__JobHold *h = ev->event->job_hold;
	Mu__JobSpec spec = *sch__spec_open(j->spec, ev->arena);
	if (!h->release) {
		sch__job_rank(ev, j, 0, h->by_admin && ev->author->operator_);
		return;
	}
	if (j->priority)
		return;
	spec.has_hold = spec.hold = false;
	spec.has_priority = spec.has_priority && spec.priority > 0;
	j->launch_failures = 0;
	sch__job_rank(ev, j, sch__priority(ev->st, j, &spec, false), false);
}

int sch__evolve_job_hold(struct sch_ev *ev)
{
	const Mu__JobHold *h = ev->event->job_hold;
	return each_job(ev, h->job, h->n_job, h->some, h->n_some, SCH_TARGETS_WHOLE, check_hold, act_hold);
}

/* ---- requeue ---- */

bool sch__job_requeues(const struct sch_state *st, const struct sch_job *j)
{
	struct mu_arena arena = {0};
	const struct sch_job *first = sch__het_leader(st, j);
	const Mu__JobSpec *spec = sch__spec_open((first ? first : j)->spec, &arena);
	const Mu__Config *c = sch__conf(st);
	bool by_default = c->has_job_requeue ? c->job_requeue : true;
	bool yes = spec->batch && (spec->has_requeue ? spec->requeue : by_default);
	mu_arena_free(&arena);
	return yes;
}

static int check_requeue(struct sch_ev *ev, struct sch_job *j, struct mu_err *err)
{
	if (!sch__may_act(ev, j))
		return sch__refuse(err, MU_EPERM);
	if (j->state == JOB_PENDING)
		return sch__refuse(err, MU_EPENDING);
	if (ev->event->job_requeue->incomplete && j->state == JOB_COMPLETED)
		return sch__refuse(err, MU_EALREADYDONE);
	if (!sch__job_requeues(ev->st, j))
		return sch__refuse(err, MU_EDISABLED);
	for (uint32_t k = 0; k < j->het_count; k++)
		if (!sch__het_part(ev->st, j, k))
			return sch__refuse(err, MU_EJOBID); /* Part of it is history. */
	if (!sch__first_part(ev->st, j))
		return sch__refuse(err, MU_EPARTITION);
	return 0;
}

static void act_requeue(struct sch_ev *ev, struct sch_job *j)
{
	bool ended = mu_job_state_ended(j->state);
	bool special = ev->event->job_requeue->special;
	j->hold_after = ev->event->job_requeue->hold || special || j->state == JOB_SUSPENDED;
	j->special_exit = special;
	sch__touch(ev->st, &j->rec);
	if (sch__lives(j)) {
		j->requeue_after = true;
		sch__job_ending(ev, j, JOB_REQUEUED);
		sch__job_settle(ev, j);
	} else if (ended) {
		sch__job_wait_again(ev, j);
	} else {
		j->requeue_after = true;
	}
}

int sch__evolve_job_requeue(struct sch_ev *ev)
{
	const Mu__JobRequeue *r = ev->event->job_requeue;
	return each_job(ev, r->job, r->n_job, r->some, r->n_some, SCH_TARGETS_WHOLE, check_requeue,
			act_requeue);
}

/* SPEC, J's own with another nice value, and the priority that follows. */
void sch__job_renice(struct sch_ev *ev, struct sch_job *j, const Mu__JobSpec *spec)
{
	sch__job_swap_spec(ev->st, j, spec);
	sch__job_rank(ev, j, sch__priority(ev->st, j, spec, true), false);
}

/* ---- suspend and resume ---- */

static int check_suspend(struct sch_ev *ev, struct sch_job *j, struct mu_err *err)
{
	const struct sch_alloc *busy;
	if (!ev->author->operator_)
		return sch__refuse(err, MU_EPERM);
	if (j->state == JOB_PENDING)
		return sch__refuse(err, MU_EPENDING);
	if (!sch__lives(j))
		return sch__refuse(err, MU_EALREADYDONE);
	if (!ev->event->job_suspend->resume)
		return j->state == JOB_SUSPENDED ? sch__refuse(err, MU_ESUSPENDED) : 0;
	if (j->state != JOB_SUSPENDED)
		return sch__refuse(err, MU_ENOTSUSPENDED);
	if (!sch__job_can_resume(ev->st, j, &busy))
		return mu_fail(err, MU_ENODEBUSY, "%s: CPUs of job %u on %s are in use",
			       mu_strerror(MU_ENODEBUSY), j->id, busy->name->text);
	return 0;
}

static void act_suspend(struct sch_ev *ev, struct sch_job *j)
{
	if (ev->event->job_suspend->resume)
		sch__job_resume(ev, j);
	else
		sch__job_suspend(ev, j);
}

int sch__evolve_job_suspend(struct sch_ev *ev)
{
	const Mu__JobSuspend *s = ev->event->job_suspend;
	return each_job(ev, s->job, s->n_job, s->some, s->n_some, SCH_TARGETS_RUNNING, check_suspend, act_suspend);
}

/* A waiting job's wish for a reservation that goes: it is held, or may run anywhere. */
void sch__job_forget_resv(struct sch_ev *ev, struct sch_job *j, const char *name, bool hold)
{
	struct sch_state *st = ev->st;
	Mu__JobSpec *spec = sch__spec_open(j->spec, ev->arena);
	char *left = mu_arena_alloc(ev->arena, j->resv_want->len + 1);
	size_t out = 0, len;
	bool named = false;
	for (const char *p = j->resv_want->text; *p; p += len + (p[len] == ',')) {
		len = strcspn(p, ",");
		if (len == strlen(name) && memcmp(p, name, len) == 0) {
			named = true;
			continue;
		}
		if (out)
			left[out++] = ',';
		memcpy(left + out, p, len);
		out += len;
	}
	left[out] = 0;
	if (!named || mu_job_state_ended(j->state))
		return;
	spec->reservation = out ? left : NULL;
	bool waits = j->state == JOB_PENDING;
	if (waits)
		sch__queue_out(st, j);
	sch__resv_ref(st, j, -1);
	sch__job_swap_spec(st, j, spec);
	sch__resv_ref(st, j, 1);
	sch__touch(st, &j->rec);
	if (!waits)
		return;
	if (!out && hold) {
		j->priority = 0;
		j->held_by_admin = true;
		j->eligible_usec = 0;
		sch__reason(st, j, REASON_ReservationDeleted, NULL);
	}
	sch__queue_in(st, j);
}
