/* sched/evolve_decided.c: folding a decision. It was made over an older position: each of its parts is
 * checked again, and a start that no longer fits is void and counted, alone. */
#include "sched/preempt.h"
#include "sched/timeline.h"

#include <assert.h>
#include <stdlib.h>

#include "proto/hostlist.h"

/* ---- starts ---- */

static bool in_list(const struct sch_job *j, const struct sch_part *p)
{
	for (uint32_t i = 0; i < j->shape->part_count; i++)
		if (strcmp(j->shape->part[i]->text, p->row->conf->name) == 0)
			return true;
	return false;
}

/* One element may stand for many nodes: a folded list. Gives *ret_places records, of which *ret_count have
 * been made, also on failure. */
static int open_alloc(struct sch_ev *ev, const Mu__Start *s, struct sch_alloc **ret, uint32_t *ret_count,
		      size_t *ret_places)
{
	struct sch_state *st = ev->st;
	size_t total = 0;
	char ***names = mu_arena_alloc(ev->arena, (s->n_alloc + 1) * sizeof(names[0]));
	size_t *counts = mu_arena_alloc(ev->arena, (s->n_alloc + 1) * sizeof(counts[0]));
	*ret = NULL;
	*ret_count = 0;
	for (size_t i = 0; i < s->n_alloc; i++) {
		if (!s->alloc[i]->node || s->alloc[i]->released || s->alloc[i]->lost ||
		    mu_hostlist_expand(s->alloc[i]->node, SCH_NODES_MAX, ev->arena, &names[i], &counts[i],
				       NULL))
			return MU_EPROTO;
		total += counts[i];
		if (total > st->node_count)
			return MU_EPROTO;
	}
	if (!total)
		return MU_EPROTO;
	*ret = sch__alloc(st, total * sizeof((*ret)[0]));
	*ret_places = total;
	for (size_t i = 0; i < s->n_alloc; i++)
		for (size_t k = 0; k < counts[i]; k++) {
			int rc = sch__alloc_from_row(st, s->alloc[i], names[i][k], &(*ret)[(*ret_count)++]);
			if (rc)
				return rc;
		}
	return 0;
}

/* One job that is to start, and what it would get. */
struct begin {
	const Mu__Start *s;
	struct sch_job *j;
	const struct sch_part *p;
	const struct sch_resv *in;
	struct sch_need need;
	struct sch_alloc *a;
	uint32_t count;
	size_t places;
	int64_t shorter_sec; /* a limit below its own; 0: none */
};
/* The components of one job, and what those looked at already would take beside what State says; a job by
 * itself needs neither of the latter. */
struct begins {
	struct sch_ev *ev;
	struct begin *v;
	uint32_t count;
	bool several;
	struct sch_overlay rooms;
	struct sch_extra extra;
};

static const struct sch_room *room_of(const struct begins *g, const struct sch_node *n)
{
	return g->several ? sch__overlay_see(&g->rooms, n) : &n->room;
}

/* It may have its CPUs alone whatever its partition says: so it was decided before that said it. */
static bool shares_right(const struct begin *b, const struct sch_alloc *a)
{
	return !a->share || (b->need.share_full > 1 && strcmp(a->share, b->p->row->conf->name) == 0);
}

static bool fits(const struct begins *g, const struct begin *b)
{
	struct mu_bits seen = {0};
	bool ok = true;
	for (uint32_t i = 0; i < b->count && ok; i++) {
		const struct sch_alloc *a = &b->a[i];
		const struct sch_room *r = room_of(g, a->node);
		ok = a->node->usable && !mu_bits_test(&seen, a->node->rank) && mu_bits_count(&a->cpu) > 0 &&
		     mu_bits_count(&a->cpu) == a->cpus && shares_right(b, a) &&
		     (!b->need.exclusive || !r->jobs) && sch__room_fits(g->ev->st, r, a->node, a);
		mu_bits_set(&seen, a->node->rank);
	}
	mu_bits_free(&seen);
	return ok;
}

static bool company_fits(const struct begins *g, const struct begin *b)
{
	const struct sch_overlay state = {.st = g->ev->st};
	const struct sch_need *need = &b->need;
	bool ok = true;
	for (uint32_t i = 0; i < b->count && ok && need->careful; i++) {
		struct sch_company c;
		sch__company(need, g->several ? &g->rooms : &state, b->a[i].node, &c);
		ok = sch__welcome(need, &c) && (need->exclusive || need->cpu_cap == UINT32_MAX ||
						c.part_cpus + (uint64_t)b->a[i].cpus <= need->cpu_cap);
	}
	return ok;
}

/* The same device must not be named twice in one element. */
static bool devices_once(const struct sch_alloc *a)
{
	for (uint32_t i = 0; i < a->got_count; i++)
		for (uint32_t k = i + 1; k < a->got_count; k++)
			if (a->got[i].entry == a->got[k].entry)
				return false;
	return true;
}

static void void_start(struct begins *g)
{
	struct sch_state *st = g->ev->st;
	for (uint32_t k = 0; k < g->count; k++) {
		struct begin *b = &g->v[k];
		for (uint32_t i = 0; i < b->count; i++)
			sch__alloc_clear(st, &b->a[i]);
		sch__free(st, b->a, b->places * sizeof(b->a[0]));
	}
	st->cluster->starts_void++;
	sch__wake(st);
}

/* A task starts out of those that wait with it, and where its array lets one more run. */
static bool may_split(const struct sch_state *st, const struct sch_job *j, const Mu__Start *s)
{
	if (!j->array)
		return !s->has_task_index;
	if (j->array->throttle && j->array->active >= j->array->throttle)
		return false;
	uint32_t ordinal = s->has_task_index ? mu_tasks_ordinal(&j->array->tasks, s->task_index) : UINT32_MAX;
	if (ordinal == UINT32_MAX || !sch__job_has_task(j, ordinal))
		return false;
	return !j->tasks || sch__ids_left(st) > 0;
}

/* What components looked at before take counts as used. */
static uint64_t licences_taken(void *arg, const struct sch_lic_ask *ask)
{
	const struct begins *g = arg;
	const struct sch_lic *lic = mu_map_get(&g->ev->st->lics, ask->name, ask->len);
	uint64_t used = lic ? lic->used : 0;
	for (uint32_t k = 0; k + 1 < g->count; k++)
		used += sch__lic_of(g->v[k].j, ask);
	return used;
}

static bool begin_may(const struct begins *g, const struct begin *b)
{
	const struct sch_state *st = g->ev->st;
	const struct sch_job *j = b->j;
	return j && may_split(st, j, b->s) && j->state == JOB_PENDING && sch__waits(st, j) &&
	       b->s->attempt == j->attempt + 1 && b->p && in_list(j, b->p) &&
	       (b->p->state == SCH_PART_UP || b->p->state == SCH_PART_DRAIN) &&
	       (b->in || !b->s->reservation || !*b->s->reservation);
}

/* Looks at one component, behind those before it; its places are G's to free whatever it says. */
static bool begin_fits(struct begins *g, struct begin *b, int64_t moment)
{
	struct sch_ev *ev = g->ev;
	struct sch_state *st = ev->st;
	sch__need(st, b->j->shape, b->p, b->j->who->uid, &b->need);
	bool ok = open_alloc(ev, b->s, &b->a, &b->count, &b->places) == 0 && fits(g, b) && company_fits(g, b);
	for (uint32_t i = 0; i < b->count && ok; i++)
		ok = devices_once(&b->a[i]) && mu_bits_test(&b->p->nodes, b->a[i].node->rank);
	if (!ok)
		return false;
	struct sch_demand d;
	sch__demand_allocs(st, b->p, b->a, b->count, &d);
	if (b->s->has_limit_sec && sch__job_limit_may(b->j, b->p, b->s->limit_sec))
		b->shorter_sec = b->s->limit_sec;
	int64_t length = sch__length(b->shorter_sec ? b->shorter_sec : sch__job_limit_in(b->j, b->p));
	if (sch__limit_start(st, b->j, b->p, &d, b->j->time_limit_sec, g->several ? &g->extra : NULL) ||
	    !sch__resv_permits(st, b->j, b->in, b->a, b->count, moment, length) ||
	    !sch__lic_fits(st, sch__text(b->j->licenses), b->in, moment,
			   moment + sch__resv_length(st, b->in, moment, length),
			   g->several ? licences_taken : NULL, g))
		return false;
	if (!g->several)
		return true;
	sch__limit_note(st, b->j, b->p, &d, b->j->time_limit_sec, 1, &g->extra);
	for (uint32_t i = 0; i < b->count; i++) {
		const struct sch_node *n = b->a[i].node;
		sch__room_take(sch__overlay_own(&g->rooms, n, ev->arena), n, &b->a[i], b->need.exclusive);
		if (b->need.careful)
			sch__guest_add(&g->rooms, n, b->j, b->p, b->a[i].cpus, ev->arena);
	}
	return true;
}

static void begin_now(struct sch_ev *ev, struct begin *b, int64_t moment)
{
	struct sch_state *st = ev->st;
	struct sch_job *j = b->j;
	int64_t from = sch__counted_from(j, moment);
	if (j->tasks) {
		sch__plan_clear(st, j); /* It was this task's. */
		j = sch__array_split_one(st, j, mu_tasks_ordinal(&j->array->tasks, b->s->task_index));
	}
	sch__job_start(ev, j, b->p, b->in, b->a, b->count, b->need.exclusive, b->shorter_sec, from);
}

static void start(struct sch_ev *ev, const Mu__Start *s, int64_t decided_usec)
{
	const struct sch_state *st = ev->st;
	const struct sch_job *first = sch__job(st, s->job);
	int64_t moment = decided_usec > 0 && decided_usec < ev->now ? decided_usec : ev->now;
	uint32_t size = first ? sch__het_size(first) : 0;
	struct begins group = {.ev = ev, .several = size > 1, .extra.arena = ev->arena}, *g = &group;
	g->v = mu_arena_alloc(ev->arena, (size + 1) * sizeof(g->v[0]));
	bool ok = first && !first->het_offset && s->n_with + 1 == size;
	if (ok && g->several)
		sch__overlay_init(&g->rooms, st, ev->arena);
	for (uint32_t k = 0; k < size && ok; k++) {
		struct begin *b = &g->v[g->count++];
		b->s = k ? s->with[k - 1] : s;
		b->j = sch__job(st, b->s->job);
		b->p = sch__part(st, b->s->partition);
		b->in = sch__resv(st, b->s->reservation);
		ok = begin_may(g, b) && b->j->het_offset == k && sch__het_same(b->j, first) &&
		     begin_fits(g, b, moment);
	}
	if (!ok)
		void_start(g);
	for (uint32_t k = 0; k < g->count && ok; k++)
		begin_now(ev, &g->v[k], moment);
	if (g->several)
		sch__overlay_free(&g->rooms);
	mu_map_clear(&g->extra.tally);
}

/* ---- the rest ---- */

static void reason(struct sch_ev *ev, const Mu__ReasonSet *r)
{
	struct sch_job *j = sch__job(ev->st, r->job);
	if (!j || j->state != JOB_PENDING || !sch__waits(ev->st, j) || r->reason >= SCH_REASONS ||
	    r->reason == REASON_BeginTime)
		return;
	sch__reason(ev->st, j, r->reason, r->detail);
	if (r->reason != REASON_None)
		j->last_sched_usec = ev->now;
	sch__touch(ev->st, &j->rec);
}

/* True when a plan that stood is another one now: what it kept may serve others. */
static bool plan(struct sch_ev *ev, const Mu__PlanSet *p)
{
	struct sch_job *j = sch__job(ev->st, p->job);
	if (!j || j->state != JOB_PENDING || !sch__waits(ev->st, j) || p->start_usec < 0)
		return false;
	bool stood = j->plan_start_usec > 0;
	sch__plan_set(ev->st, j, p->start_usec, p->nodes, p->tasks, p->n_tasks, p->gpus, p->n_gpus);
	j->plan_claim = p->claim && p->start_usec;
	sch__touch(ev->st, &j->rec);
	return stood;
}

static void stop(struct sch_ev *ev, const Mu__Stop *s)
{
	struct sch_job *j = sch__job(ev->st, s->job);
	if (j && j->state == JOB_RUNNING && s->cause == END_PREEMPT && j->run->preempt_end_usec) {
		sch__preempt_end(ev, j);
	} else if (j && sch__lives(j)) {
		sch__job_ending(ev, j, s->cause == END_DEADLINE ? JOB_DEADLINE : JOB_TIMEOUT);
		sch__job_settle(ev, j);
	} else if (j && j->state == JOB_PENDING && s->cause == END_DEADLINE) {
		sch__job_end_waiting(ev, j, JOB_DEADLINE);
	}
}

static void resume(struct sch_ev *ev, uint32_t id)
{
	struct sch_job *j = mu_map_get_u64(&ev->st->stopped, id);
	const struct sch_alloc *busy;
	bool all = j != NULL;
	for (uint32_t k = 0; all && k < sch__het_size(j); k++) {
		const struct sch_job *m = sch__het_part(ev->st, j, k);
		all = !m || !mu_map_get_u64(&ev->st->stopped, m->id) || sch__job_can_resume(ev->st, m, &busy);
	}
	for (uint32_t k = 0; all && k < sch__het_size(j); k++) {
		struct sch_job *m = sch__het_part(ev->st, j, k);
		if (!m || !mu_map_get_u64(&ev->st->stopped, m->id))
			continue;
		sch__touch(ev->st, &m->rec);
		sch__job_resume(ev, m);
	}
}

static void lost(struct sch_ev *ev, const Mu__NodeLost *l)
{
	struct sch_node *n = sch__node(ev->st, l->node);
	if (!n || n->row->base_state != NODE_IDLE)
		return;
	n->row->flags |= NODE_FLAG_NO_RESPOND;
	sch__node_down(ev, n, l->reason ? l->reason : SCH_NOT_RESPONDING, "slurm", 0);
}

static void hand_over(struct sch_ev *ev, const Mu__Decided *d)
{
	Mu__ClusterRow *c = ev->st->cluster;
	if (c->cursor == 0 && d->pass)
		ev->st->pass_basis = d->basis;
	sch__pass_clear(ev->st);
	c->pass = d->pass;
	c->cursor = d->cursor_out;
	if (!d->cursor_out)
		return;
	c->cursor_tier = d->cursor_tier;
	c->cursor_priority = d->cursor_priority;
	c->cursor_part = d->cursor_part;
	c->blocked = calloc(d->n_blocked + 1, sizeof(c->blocked[0]));
	c->taken = calloc(d->n_taken + 1, sizeof(c->taken[0]));
	c->seen = calloc(d->n_seen + 1, sizeof(c->seen[0]));
	if (!c->blocked || !c->taken || !c->seen)
		abort();
	for (; c->n_blocked < d->n_blocked; c->n_blocked++)
		c->blocked[c->n_blocked] = d->blocked[c->n_blocked];
	for (; c->n_taken < d->n_taken; c->n_taken++) {
		c->taken[c->n_taken] = sch__copy_text(d->taken[c->n_taken]);
	}
	for (; c->n_seen < d->n_seen; c->n_seen++)
		c->seen[c->n_seen] = d->seen[c->n_seen];
}

int sch__evolve_decided(struct sch_ev *ev)
{
	const Mu__Decided *d = ev->event->decided;
	const Mu__ClusterRow *c = ev->st->cluster;
	bool next = c->cursor ? d->pass == c->pass : d->pass == c->pass + 1;
	if (d->basis > c->entries || d->cursor_in != c->cursor || !next) {
		sch__wake(ev->st);
		return mu_fail(&ev->err, MU_EVOID,
			       "The decision belongs to pass %llu, not to the one that is due",
			       (unsigned long long)d->pass);
	}
	uint64_t wake = ev->st->wake_pos, starts_void = c->starts_void;
	int64_t limits = c->limits_usec;
	for (size_t i = 0; i < d->n_lost; i++)
		lost(ev, d->lost[i]);
	for (size_t i = 0; i < d->n_stop; i++)
		stop(ev, d->stop[i]);
	for (size_t i = 0; i < d->n_preempt; i++)
		sch__preempted(ev, d->preempt[i]);
	for (size_t i = 0; i < d->n_resume; i++)
		resume(ev, d->resume[i]);
	for (size_t i = 0; i < d->n_start; i++)
		start(ev, d->start[i], d->now_usec);
	for (size_t i = 0; i < d->n_reason; i++)
		reason(ev, d->reason[i]);
	bool moved = false;
	for (size_t i = 0; i < d->n_plan; i++)
		moved = plan(ev, d->plan[i]) || moved;
	hand_over(ev, d);
	if (moved) {
		sch__wake(ev->st);
	} else if (c->starts_void == starts_void && !d->n_start && !d->n_stop && !d->n_preempt &&
		   !d->n_resume &&
		   !d->n_lost) { /* Reasons and first plans change nothing for the next pass. */
		ev->st->wake_pos = wake;
		ev->st->cluster->limits_usec = limits;
	}
	return 0;
}
