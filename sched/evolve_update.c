/* sched/evolve_update.c: scontrol update JobId=: which fields of a job may change when, and by whom. The
 * rules are a table by field; a field without a row may change while the job waits, and is judged as a new
 * request would be. */
#include "sched/job.h"

enum {
	RUNS = 1,     /* may change while the job runs, too */
	PLAIN = 2,    /* does not bear on placement: nothing is resolved anew */
	OPERATOR = 4, /* for operators only */
	NEVER = 8
};
enum { F_NAME = 1, F_LIMIT = 40, F_BEGIN = 42, F_DEPENDENCY = 44, F_ARRAY = 45, F_HINT = 76 };
static const struct {
	uint32_t field; /* of JobSpec */
	unsigned rule;
} rules[] = {
    {F_NAME, RUNS | PLAIN},
    {5, RUNS | PLAIN}, /* comment */
    {6, PLAIN},	       /* wckey */
    {F_LIMIT, RUNS},
    {F_BEGIN, PLAIN},
    {F_ARRAY, NEVER},
    {50, PLAIN},	/* hold */
    {51, PLAIN},	/* priority */
    {52, PLAIN},	/* nice */
    {53, RUNS | PLAIN}, /* requeue */
    {54, PLAIN},	/* no_kill */
    {55, PLAIN},	/* kill_on_invalid_dep */
    {56, PLAIN},	/* the signal before the end, in three fields */
    {57, PLAIN},
    {58, PLAIN},
    {60, NEVER}, /* batch, script, environment, arguments, path */
    {61, NEVER},
    {62, NEVER},
    {63, NEVER},
    {64, NEVER},
    {65, PLAIN}, /* work_dir, std_in, std_out, std_err, open_append */
    {66, PLAIN},
    {67, PLAIN},
    {68, PLAIN},
    {69, PLAIN},
    {73, RUNS | PLAIN}, /* mail_user, mail_type */
    {74, RUNS | PLAIN},
    {F_HINT, PLAIN},
    {77, PLAIN},		    /* submit_line */
    {78, RUNS | PLAIN | OPERATOR},  /* admin_comment */
    {112, RUNS | PLAIN | OPERATOR}, /* site_factor */
};

static unsigned rule_of(uint32_t field)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rules[i].field == field)
			return rules[i].rule;
	return 0;
}

/* What one job's update comes to. */
struct change {
	const Mu__JobUpdate *asked;
	Mu__JobSpec spec;    /* fields that change, with what follows from the job itself */
	Mu__JobSpec *merged; /* the job's spec afterwards */
	struct sch_want want;
	bool resolved; /* WANT is filled */
};

static bool cleared(const Mu__JobUpdate *u, uint32_t field)
{
	for (size_t i = 0; i < u->n_clear; i++)
		if (u->clear[i] == field)
			return true;
	return false;
}

static bool changes(const struct change *c, const ProtobufCFieldDescriptor *f)
{
	return sch__present(&c->spec.base, f) || cleared(c->asked, f->id);
}

static bool changes_field(const struct change *c, uint32_t field)
{
	const ProtobufCFieldDescriptor *f =
	    protobuf_c_message_descriptor_get_field(c->spec.base.descriptor, field);
	return f && changes(c, f);
}

/* Words for the site's own use may change at any time, the other hints before the start. */
static unsigned hint_rule(const Mu__JobSpec *spec)
{
	for (size_t i = 0; i < spec->n_hint; i++)
		if (!sch__same(spec->hint[i]->name, "extra"))
			return rule_of(F_HINT);
	return rule_of(F_HINT) | RUNS;
}

static int check_fields(const struct sch_ev *ev, const struct sch_job *j, struct change *c, bool *ret_plain,
			struct mu_err *err)
{
	const ProtobufCMessageDescriptor *d = c->spec.base.descriptor;
	*ret_plain = true;
	for (unsigned i = 0; i < d->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &d->fields[i];
		if (!changes(c, f))
			continue;
		unsigned rule = f->id == F_HINT ? hint_rule(&c->spec) : rule_of(f->id);
		if (rule & NEVER)
			return f->id == F_ARRAY
				   ? mu_fail(err, MU_EARRAY, "The tasks of an array cannot be changed")
				   : mu_fail(err, MU_EINVAL, "A job's %s cannot be changed", f->name);
		if (rule & OPERATOR && !ev->author->operator_)
			return sch__refuse(err, MU_EPERM);
		if (j->state != JOB_PENDING && !(rule & RUNS))
			return sch__refuse(err, MU_ENOTPENDING);
		*ret_plain = *ret_plain && rule & PLAIN;
	}
	return 0;
}

/* Who is no operator may ask for less than he has, not for more. */
static int check_rights(const struct sch_ev *ev, const struct sch_job *j, const Mu__JobSpec *u,
			struct mu_err *err)
{
	if (ev->author->operator_)
		return 0;
	bool longer = u->has_time_limit_sec && j->time_limit_sec >= 0 &&
		      (u->time_limit_sec < 0 || u->time_limit_sec > j->time_limit_sec);
	if (longer || (u->has_nice && u->nice < 0))
		return sch__refuse(err, MU_EPERM);
	if (u->has_priority && (u->priority > j->priority || j->held_by_admin))
		return sch__refuse(err, MU_EPERM);
	return 0;
}

static int check_values(const struct sch_ev *ev, const struct sch_job *j, const struct change *c,
			struct mu_err *err)
{
	const Mu__JobSpec *u = &c->spec;
	if (u->has_time_limit_sec && (u->time_limit_sec < -1 || u->time_limit_sec == 0 ||
				      u->time_limit_sec > INT64_C(60) * UINT32_MAX))
		return sch__refuse(err, MU_ETIMELIMIT);
	if (u->has_begin_usec && (u->begin_usec < 0 || u->begin_usec > INT64_MAX / 2))
		return mu_fail(err, MU_EINVAL, "Begin time lies outside the calendar");
	if ((c->asked->begin_now || c->asked->accrue_again) && j->state != JOB_PENDING)
		return sch__refuse(err, MU_ENOTPENDING);
	if (u->qos && *u->qos && !sch__qos(ev->st, u->qos))
		return sch__refuse(err, MU_EQOS);
	if (mu__job_spec__get_packed_size(c->merged) > SCH_SPEC_BYTES_MAX)
		return mu_fail(err, MU_ELIMIT, "The job's options take more than %u bytes",
			       SCH_SPEC_BYTES_MAX);
	return u->dependency && *u->dependency
		   ? sch__depends_check(ev->st, u, sch__job_kin(j), NULL, 0, ev->arena, err)
		   : 0;
}

/* What is said relative to the job itself becomes fields like the others. */
static int relative(const struct sch_job *j, struct change *c, const Mu__JobSpec *now, struct mu_err *err)
{
	const Mu__JobUpdate *u = c->asked;
	Mu__JobSpec *s = &c->spec;
	if (u->has_limit_by_sec) {
		if (j->time_limit_sec < 0 || u->limit_by_sec > INT64_C(60) * UINT32_MAX ||
		    u->limit_by_sec <= -j->time_limit_sec)
			return sch__refuse(err, MU_ETIMELIMIT);
		s->has_time_limit_sec = 1;
		s->time_limit_sec = j->time_limit_sec + u->limit_by_sec;
	}
	if (u->has_end_usec) {
		if (j->state == JOB_PENDING)
			return sch__refuse(err, MU_EPENDING);
		if (u->end_usec <= j->start_usec)
			return sch__refuse(err, MU_ETIMELIMIT);
		s->has_time_limit_sec = 1;
		s->time_limit_sec = (u->end_usec - j->start_usec + SCH_USEC - 1) / SCH_USEC;
	}
	if (u->has_cpus) {
		uint32_t each = s->has_cpus_per_task ? s->cpus_per_task : now->cpus_per_task;
		each = each ? each : 1;
		if (!u->cpus || u->cpus % each || s->has_ntasks)
			return mu_fail(err, MU_ECPUCOUNT,
				       "%u CPUs are no whole number of tasks of %u CPUs each", u->cpus, each);
		s->has_ntasks = 1;
		s->ntasks = u->cpus / each;
	}
	return 0;
}

/* Hints are a list by name: those that are given replace their like. */
static void merge_hints(struct sch_ev *ev, Mu__JobSpec *s, const Mu__JobSpec *old)
{
	Mu__Hint **list = mu_arena_alloc(ev->arena, (s->n_hint + old->n_hint + 1) * sizeof(list[0]));
	size_t n = 0;
	for (size_t i = 0; i < old->n_hint; i++) {
		bool again = false;
		for (size_t k = 0; k < s->n_hint; k++)
			again = again || sch__same(old->hint[i]->name, s->hint[k]->name);
		if (!again)
			list[n++] = old->hint[i];
	}
	for (size_t i = 0; i < s->n_hint; i++)
		list[n++] = s->hint[i];
	s->hint = list;
	s->n_hint = n;
}

/* Makes C->merged. */
static void merge(struct sch_ev *ev, struct change *c, const Mu__JobSpec *old)
{
	const ProtobufCMessageDescriptor *d = old->base.descriptor;
	c->merged = mu_arena_dup(ev->arena, old, sizeof(*old));
	for (size_t i = 0; i < c->asked->n_clear; i++) {
		const ProtobufCFieldDescriptor *f =
		    protobuf_c_message_descriptor_get_field(d, c->asked->clear[i]);
		if (f)
			sch__absent(&c->merged->base, f);
	}
	Mu__JobSpec given = c->spec;
	if (given.n_hint)
		merge_hints(ev, &given, old);
	if (given.has_mem_node_mib || given.has_mem_cpu_mib) /* One kind of memory takes the other's place. */
		c->merged->has_mem_node_mib = c->merged->has_mem_cpu_mib = c->merged->has_mem_gpu_mib = 0;
	sch__merge(&c->merged->base, &given.base);
}

static int check(struct sch_ev *ev, struct sch_job *j, struct change *c, struct mu_err *err)
{
	bool plain;
	if (!sch__may_act(ev, j))
		return sch__refuse(err, MU_EPERM);
	if (mu_job_state_ended(j->state) || j->state == JOB_COMPLETING)
		return sch__refuse(err, MU_EALREADYDONE);
	const Mu__JobSpec *old = sch__spec_open(j->spec, ev->arena);
	int rc = relative(j, c, old, err);
	if (rc)
		return rc;
	merge(ev, c, old);
	rc = check_rights(ev, j, &c->spec, err);
	rc = rc ? rc : check_fields(ev, j, c, &plain, err);
	rc = rc ? rc : check_values(ev, j, c, err);
	if (rc || j->state != JOB_PENDING || plain)
		return rc;
	Mu__Author owner = *ev->author;
	owner.uid = ev->author->operator_ ? ev->author->uid : j->who->uid;
	owner.user = (char *)sch__text(j->who->user); /* Whose account it is. */
	c->resolved = true;
	return sch__resolve(ev->st, c->merged, &owner, ev->arena, &c->want, err);
}

static void set_limit(struct sch_ev *ev, struct sch_job *j, int64_t limit_sec)
{
	sch__due_clear(ev->st, j);
	j->time_limit_sec = limit_sec;
	sch__due_set(ev->st, j);
	sch__wake(ev->st); /* Plans stand on the ends of running jobs. */
}

void sch__job_swap_spec(struct sch_state *st, struct sch_job *j, const Mu__JobSpec *merged)
{
	struct sch_spec *packed = sch__spec(st, merged);
	sch__spec_drop(st, &j->spec);
	j->spec = packed;
	j->limit_given = merged->has_time_limit_sec;
	sch__str_set(st, &j->resv_want, merged->reservation);
	sch__str_set(st, &j->licenses, merged->licenses);
}

static void rename_job(struct sch_state *st, struct sch_job *j, const struct change *c)
{
	if (!changes_field(c, F_NAME))
		return;
	sch__name_index(st, j, false);
	sch__name_index(st, j, true);
}

static void update_waiting(struct sch_ev *ev, struct sch_job *j, struct change *c)
{
	struct sch_state *st = ev->st;
	const Mu__JobSpec *s = &c->spec;
	bool rank = s->has_priority || s->has_nice || s->has_hold || s->has_site_factor;
	bool depends = changes_field(c, F_DEPENDENCY);
	uint32_t priority = j->priority;
	if (c->asked->accrue_again && j->eligible_usec && j->eligible_usec < ev->now)
		rank = true;
	sch__queue_out(st, j);
	sch__due_clear(st, j);
	if (s->has_begin_usec || c->asked->begin_now)
		j->eligible_usec = !c->asked->begin_now && s->begin_usec > ev->now ? s->begin_usec : ev->now;
	if (c->asked->accrue_again && j->eligible_usec && j->eligible_usec < ev->now)
		j->eligible_usec = ev->now;
	if (c->resolved) {
		sch__job_part_refs(st, j, -1);
		sch__job_apply(st, j, c->merged, &c->want);
		sch__job_part_refs(st, j, 1);
	} else {
		sch__job_swap_spec(st, j, c->merged);
	}
	if (rank && (j->priority || s->has_priority || s->has_hold))
		priority = sch__priority(st, j, c->merged, ev->author->operator_);
	rename_job(st, j, c);
	if (depends)
		sch__depend_new(ev, j, c->merged, NULL, 0);
	sch__waiting_reason(ev, j);
	sch__queue_in(st, j);
	sch__due_set(st, j);
	sch__job_rank(ev, j, priority, ev->author->operator_ && ev->author->uid != j->who->uid);
	if (depends)
		sch__depend_apart(ev, j, NULL, 0);
}

static void act(struct sch_ev *ev, struct sch_job *j, struct change *c)
{
	sch__touch(ev->st, &j->rec);
	if (j->state == JOB_PENDING) {
		update_waiting(ev, j, c);
		return;
	}
	sch__job_swap_spec(ev->st, j, c->merged);
	rename_job(ev->st, j, c);
	if (c->spec.has_time_limit_sec)
		set_limit(ev, j, c->spec.time_limit_sec);
}

static int update_one(struct sch_ev *ev, struct sch_target *t, const Mu__JobUpdate *u, struct mu_err *err)
{
	struct change c = {.asked = u, .spec = *u->spec};
	struct mu_arena own = {0}, *was = ev->arena;
	ev->arena = &own; /* There may be very many. */
	int rc = check(ev, t->job, &c, err);
	struct sch_job *j = rc ? NULL : sch__target_narrow(ev, t, err);
	if (j)
		act(ev, j, &c);
	ev->arena = was;
	mu_arena_free(&own);
	return j ? 0 : err->code;
}

static int set_throttle(struct sch_ev *ev, struct sch_array *a, uint32_t throttle)
{
	struct sch_array_at at = {0};
	if (!a)
		return sch__refuse(&ev->err, MU_EARRAY);
	if (!sch__may_act(ev, sch__array_each(ev->st, a, &at)))
		return sch__refuse(&ev->err, MU_EPERM);
	sch__array_throttle(ev->st, a, throttle);
	return 0;
}

static bool asks_nothing(const Mu__JobUpdate *u)
{
	const ProtobufCMessageDescriptor *d = u->spec->base.descriptor;
	for (unsigned i = 0; i < d->n_fields; i++)
		if (sch__present(&u->spec->base, &d->fields[i]))
			return false;
	return !u->n_clear && !u->begin_now && !u->has_limit_by_sec && !u->has_end_usec && !u->has_cpus &&
	       !u->accrue_again;
}

/* Who changes the first component of a heterogeneous job changes all of it, unless it is about what each asks
 * of nodes. */
static enum sch_targets_of whose(struct sch_ev *ev, const Mu__JobUpdate *u)
{
	static const uint32_t common[] = {1, 2, 3, 5, 6, 40, 42, 43, 44, 50, 51, 52, 53, 54, 55, 73, 74, 78};
	const struct sch_job *j = sch__job(ev->st, u->job);
	const ProtobufCMessageDescriptor *d = u->spec->base.descriptor;
	bool all = j && !j->het_offset;
	for (unsigned i = 0; i < d->n_fields && all; i++) {
		all = !sch__present(&u->spec->base, &d->fields[i]);
		for (size_t k = 0; k < sizeof(common) / sizeof(common[0]) && !all; k++)
			all = d->fields[i].id == common[k];
	}
	return all && !u->has_cpus ? SCH_TARGETS_WHOLE : SCH_TARGETS_ALONE;
}

/* As with other requests about several jobs: one that fits makes it good. */
int sch__evolve_job_update(struct sch_ev *ev)
{
	static const Mu__JobSpec nothing = MU__JOB_SPEC__INIT;
	Mu__JobUpdate *u = ev->event->job_update;
	struct sch_targets targets = {0};
	struct mu_err first = {0};
	bool any = false;
	ev->job = u->job;
	if (!u->spec)
		u->spec = mu_arena_dup(ev->arena, &nothing, sizeof(nothing));
	bool each = !asks_nothing(u) || !u->has_array_throttle;
	int rc = u->tasks ? sch__targets_tasks(ev, u->job, u->tasks, &targets)
			  : sch__targets_job(ev, u->job, whose(ev, u), &targets);
	if (rc)
		return sch__refuse(&ev->err, rc);
	for (size_t i = 0; i < targets.count && each; i++) {
		struct mu_err why = {0};
		if (update_one(ev, &targets.v[i], u, &why) == 0)
			any = true;
		else if (!first.code)
			first = why;
	}
	sch__targets_free(&targets);
	if (each && !any) {
		ev->err = first;
		return first.code;
	}
	if (!u->has_array_throttle)
		return 0;
	const struct sch_job *j = sch__job(ev->st, u->job);
	struct sch_array *a = sch__array(ev->st, u->job);
	rc = set_throttle(ev, a || !j ? a : j->array, u->array_throttle);
	return any ? 0 : rc;
}
