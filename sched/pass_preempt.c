/* sched/pass_preempt.c: one slice's look at preemption: which jobs would have to give way for a job to start,
 * and which of those that stand still can go on. See preempt.h. */
#include "sched/pass.h"
#include "sched/preempt.h"

#include <assert.h>
#include <stdlib.h>

/* Those that jobs of one QOS in one partition may preempt, in order. */
struct sch_prey {
	struct sch_prey *next;
	const struct sch_part *part;
	const struct sch_str *qos;
	uint32_t priority; /* where jobs of the same QOS may be preempted */
	struct sch_victim *v;
	uint32_t count;
};

/* ---- candidates ---- */

static int by_order(const void *a, const void *b)
{
	const struct sch_victim *x = a, *y = b;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->second != y->second)
		return x->second < y->second ? -1 : 1;
	if (x->job->start_usec != y->job->start_usec)
		return x->job->start_usec > y->job->start_usec ? -1 : 1;
	return x->job->id > y->job->id ? -1 : x->job->id < y->job->id;
}

/* How X's job gives way to J, and what comes free by it. A heterogeneous job gives way as a whole: every
 * component that runs has to, and in the way that all of them can. */
static bool gives_way(struct sch_pass *p, const struct sch_job *j, const struct sch_part *part,
		      struct sch_victim *x)
{
	const struct sch_state *st = p->st;
	uint32_t most = 0, rank = 0;
	int64_t last = 0;
	bool exempt = false;
	for (uint32_t k = 0; k < sch__het_size(x->job); k++) {
		struct sch_job *m = sch__het_part(st, x->job, k);
		if (!m || !sch__lives(m))
			continue;
		enum sch_preempt_how how = sch__preempt_way(st, m, j, part, &rank);
		if (how == SCH_PREEMPT_OFF)
			return false;
		exempt = exempt || sch__preempt_exempt(st, m);
		x->how = how > x->how ? (uint8_t)how : x->how;
		x->rank = rank > x->rank ? rank : x->rank;
		int64_t grace = sch__preempt_grace_sec(st, m) * SCH_USEC;
		x->grace_usec = grace > x->grace_usec ? grace : x->grace_usec;
		int64_t own = sch__line_end_usec(m);
		last = own > last ? own : last;
		most += m->run->alloc_count;
		p->steps += k > 0;
	}
	if (exempt && x->how != SCH_PREEMPT_SUSPEND)
		return false;
	x->held = mu_arena_alloc(p->arena, (most + 1) * sizeof(x->held[0]));
	for (uint32_t k = 0; k < sch__het_size(x->job); k++) {
		struct sch_job *m = sch__het_part(st, x->job, k);
		for (uint32_t i = 0; m && m->state == JOB_RUNNING && i < m->run->alloc_count; i++)
			if (!m->run->alloc[i].released && !m->run->alloc[i].lost)
				x->held[x->held_count++] = (struct sch_held){m, &m->run->alloc[i]};
	}
	x->gone_usec = st->cluster->now_usec + x->grace_usec;
	if (x->gone_usec > last) /* Its own end comes first. */
		x->gone_usec = last;
	if (st->config.youngest_first)
		x->rank = x->second = 0;
	return true;
}

static struct sch_prey *prey_of(struct sch_pass *p, const struct sch_job *j, const struct sch_part *part)
{
	const struct sch_state *st = p->st;
	bool qos = st->config.preempt_by == SCH_BY_QOS;
	bool within = qos && sch__preempt_within(st, sch__qos(st, sch__text(j->qos)));
	struct sch_prey *g = p->prey;
	while (g && (g->part != part || (qos && g->qos != j->qos) || (within && g->priority != j->priority)))
		g = g->next;
	if (g)
		return g;
	g = mu_arena_alloc(p->arena, sizeof(*g));
	*g = (struct sch_prey){.next = p->prey, .part = part, .qos = j->qos, .priority = j->priority};
	p->prey = g;
	g->v = mu_arena_alloc(p->arena, (st->running.count + 1) * sizeof(g->v[0]));
	const uint8_t *key = NULL;
	size_t len = 0;
	for (struct sch_job *v = mu_map_seek(&st->running, NULL, 0, 0, &key, &len); v;
	     v = mu_map_seek(&st->running, key, len, 1, &key, &len), p->steps++) {
		struct sch_victim *x = &g->v[g->count];
		*x = (struct sch_victim){.job = v, .second = v->priority};
		g->count += v->het_offset == 0 && gives_way(p, j, part, x);
	}
	if (g->count > 1)
		qsort(g->v, g->count, sizeof(g->v[0]), by_order);
	return g;
}

/* ---- as if they were gone ---- */

static void lift(struct sch_pass *p, struct sch_victim *v)
{
	for (uint32_t i = 0; i < v->held_count; i++, p->steps++) {
		const struct sch_alloc *a = v->held[i].alloc;
		struct sch_job *j = v->held[i].job;
		struct sch_room *room = sch__overlay_own(&p->overlay, a->node, p->arena);
		if (v->how == SCH_PREEMPT_SUSPEND)
			sch__room_park(room, a->node, a, j->exclusive);
		else
			sch__room_give(room, a->node, a, j->exclusive);
		sch__line_lift(p->line, a->node, j, true);
	}
	v->lifted = true;
}

static void put_back(struct sch_pass *p, struct sch_victim *v)
{
	for (uint32_t i = v->held_count; i > 0; i--) {
		const struct sch_alloc *a = v->held[i - 1].alloc;
		struct sch_job *j = v->held[i - 1].job;
		struct sch_room *room = sch__overlay_own(&p->overlay, a->node, p->arena);
		if (v->how == SCH_PREEMPT_SUSPEND)
			sch__room_unpark(room, a->node, a, j->exclusive);
		else
			sch__room_take(room, a->node, a, j->exclusive);
		sch__line_lift(p->line, a->node, j, false);
	}
	v->lifted = false;
}

/* ---- the search ---- */

struct hunt {
	struct sch_pass *p;
	struct sch_attempt *a;
	struct sch_job *j;
	struct sch_victim **v; /* in order */
	uint32_t count;
	struct mu_bits nodes; /* where it may start at all */
	int64_t length;
	uint64_t until_steps;
	uint32_t picks; /* of the last try that found places */
};

/* True when J has its places with exactly those gone that are wanted. */
static bool serves(struct hunt *h)
{
	struct sch_pass *p = h->p;
	struct mu_bits nodes = {0};
	int64_t now = p->st->cluster->now_usec, from = now, until = now + h->length;
	for (uint32_t i = 0; i < h->count; i++) {
		struct sch_victim *v = h->v[i];
		if (v->wanted && !v->lifted)
			lift(p, v);
		else if (!v->wanted && v->lifted)
			put_back(p, v);
		if (v->wanted && v->how != SCH_PREEMPT_SUSPEND && v->gone_usec + h->length > until)
			until = v->gone_usec + h->length;
	}
	mu_bits_copy(&nodes, &h->nodes);
	if (p->st->resvs.count)
		sch__resv_mask(p->st, NULL, from, until, &nodes);
	if (p->line->span_count || h->a->need.careful) {
		sch__pass_look_as(p, h->j);
		h->picks =
		    sch__line_choose(p->line, &h->a->need, &nodes, &h->a->required, from, until, p->pick);
	} else {
		h->picks =
		    sch__choose(&h->a->need, &p->overlay, &nodes, &h->a->required, NULL, &p->steps, p->pick);
	}
	mu_bits_free(&nodes);
	return h->picks > 0;
}

static void want(struct hunt *h, uint32_t from, uint32_t to, bool yes)
{
	for (uint32_t i = from; i < to; i++)
		h->v[i]->wanted = yes;
}

static bool holds_on(const struct mu_bits *picked, const struct sch_victim *v)
{
	for (uint32_t i = 0; i < v->held_count; i++)
		if (mu_bits_test(picked, v->held[i].alloc->node->rank))
			return true;
	return false;
}

/* One of the first COUNT that is enough alone. */
static bool one_alone(struct hunt *h, uint32_t count)
{
	struct sch_pass *p = h->p;
	uint32_t most = p->st->config.preempt_tries;
	for (uint32_t i = 0; i < count && i < most && p->steps < h->until_steps; i++) {
		want(h, 0, count, false);
		h->v[i]->wanted = true;
		if (serves(h))
			return true;
	}
	want(h, 0, count, true);
	return false;
}

/* Leaves out of the first COUNT, which are enough together, whoever can be left out, the dearest first. It
 * stays where it would start: the others' nodes are not looked at again. */
static void leave_out(struct hunt *h, uint32_t count)
{
	struct sch_pass *p = h->p;
	struct mu_bits picked = {0}, all = h->nodes;
	for (uint32_t i = 0; i < h->picks; i++)
		mu_bits_set(&picked, p->pick[i].node->rank);
	h->nodes = picked;
	for (uint32_t i = 0; i < count; i++)
		h->v[i]->wanted = holds_on(&picked, h->v[i]);
	if (!serves(h)) { /* Licences and limits apart, it has all that it had. */
		h->nodes = all;
		want(h, 0, count, true);
	} else {
		mu_bits_free(&all);
	}
	for (uint32_t i = count; i > 0 && p->steps < h->until_steps; i--) {
		if (!h->v[i - 1]->wanted)
			continue;
		h->v[i - 1]->wanted = false;
		h->v[i - 1]->wanted = !serves(h);
	}
	if (h->nodes.word != picked.word)
		mu_bits_free(&picked);
}

/* Finds the victims; false: there are none that help. */
static bool find(struct hunt *h)
{
	uint32_t low = 1, high = h->count;
	want(h, 0, h->count, true);
	if (!h->count || !serves(h))
		return false;
	while (low < high) { /* So many of the first are enough; fewer than LOW are not. */
		uint32_t middle = low + (high - low) / 2;
		want(h, 0, middle, true);
		want(h, middle, h->count, false);
		if (serves(h))
			high = middle;
		else
			low = middle + 1;
	}
	/* Whoever ranks the same as the last that is needed is as good as it. */
	while (high < h->count && h->v[high]->rank == h->v[high - 1]->rank && !h->p->st->config.strict_order)
		high++;
	want(h, 0, high, true);
	want(h, high, h->count, false);
	if (!h->p->st->config.strict_order && one_alone(h, high))
		return true;
	if (!serves(h))
		return false;
	leave_out(h, high);
	return serves(h);
}

/* ---- what comes of it ---- */

static void say(struct sch_pass *p, const struct sch_victim *v, const struct sch_job *by)
{
	Mu__Preempt *e = mu_arena_alloc(p->arena, sizeof(*e));
	mu__preempt__init(e);
	SCH_SET(e, job, v->job->id);
	SCH_SET(e, attempt, v->job->attempt);
	SCH_SET(e, by, by->id);
	SCH_SET(e, how, v->how);
	SCH_SET(e, grace_sec, v->how == SCH_PREEMPT_SUSPEND ? 0 : v->grace_usec / SCH_USEC);
	sch__pass_add(p, &p->preempt, e, 24);
	mu_map_put_u64(&p->preempted, v->job->id, v->job);
}

/* Its places are promised from the moment on at which the last of them is gone. */
static void claim(struct hunt *h, int64_t at)
{
	struct sch_pass *p = h->p;
	if (sch__pass_plan_of(p, h->j)) {
		struct sch_pick *old = mu_arena_alloc(p->arena, (p->st->node_count + 1) * sizeof(old[0]));
		sch__line_unplan(p->line, h->j, old, sch__plan_picks(p->st, h->j, p->arena, old));
	}
	sch__line_plan(p->line, h->j, &h->a->need, at, at + h->length, p->pick, h->picks);
	Mu__PlanSet *s = sch__fold_plan(p->st, h->j, at, p->pick, h->picks, p->arena);
	SCH_SET(s, claim, true);
	sch__pass_add(p, &p->plan, s, 20 + 2 * (s->n_tasks + s->n_gpus) + strlen(s->nodes));
	p->moves++;
	p->claims = true;
	p->reserved++;
	p->made += sch__pass_plan_of(p, h->j) == 0;
}

/* On the line those that give way end at AT. */
static void end_at(struct sch_pass *p, const struct sch_victim *v, int64_t at)
{
	for (uint32_t i = 0; i < v->held_count; i++) {
		const struct sch_job *j = v->held[i].job;
		const struct sch_alloc *a = v->held[i].alloc;
		sch__line_lift(p->line, a->node, j, true);
		sch__line_ends(p->line, a->node, j, sch__part(p->st, sch__text(j->partition)),
			       sch__alloc_row(a, p->arena), j->exclusive, at);
	}
}

static void open_hunt(struct hunt *h, struct sch_prey *g)
{
	struct sch_pass *p = h->p;
	h->v = mu_arena_alloc(p->arena, (g->count + 1) * sizeof(h->v[0]));
	mu_bits_copy(&h->nodes, &p->avail);
	for (uint32_t i = 0; i < g->count; i++) {
		struct sch_victim *v = &g->v[i];
		bool near = false;
		if (mu_map_get_u64(&p->preempted, v->job->id))
			continue;
		for (uint32_t k = 0; k < v->held_count; k++) {
			const struct sch_node *n = v->held[k].alloc->node;
			if (!mu_bits_test(&h->a->nodes, n->rank) || !n->usable)
				continue;
			near = true;
			mu_bits_set(&h->nodes, n->rank);
		}
		p->steps++;
		if (!near)
			continue;
		v->wanted = v->lifted = false;
		h->v[h->count++] = v;
	}
	if (!p->st->config.backfill)
		mu_bits_andnot(&h->nodes, &p->kept);
	mu_bits_and(&h->nodes, &h->a->nodes);
	mu_bits_and(&h->nodes, &p->st->usable);
}

/* The limits of accounts count what is held: of whole cores that is known only now. */
static bool allowed(struct hunt *h)
{
	struct sch_pass *p = h->p;
	struct sch_demand d;
	if (!p->st->accounts.policy.limits)
		return true;
	Mu__AllocNode **row = mu_arena_alloc(p->arena, (h->picks + 1) * sizeof(row[0]));
	for (uint32_t i = 0; i < h->picks; i++)
		row[i] = sch__cut(&h->a->need, &p->pick[i], sch__overlay_see(&p->overlay, p->pick[i].node),
				  p->arena);
	sch__demand_rows(p->st, h->j, h->a->part, row, h->picks, &d);
	return !sch__limit_start(p->st, h->j, h->a->part, &d, h->j->time_limit_sec, &p->extra);
}

enum sch_hunt sch__pass_preempt(struct sch_pass *p, struct sch_attempt *a, struct sch_job *j,
				uint32_t *ret_count)
{
	const struct sch_state *st = p->st;
	struct hunt h = {.p = p, .a = a, .j = j, .length = sch__length(sch__job_limit_in(j, a->part))};
	int64_t now = st->cluster->now_usec, at = now;
	if (st->config.preempt_by == SCH_BY_NOTHING || j->plan_claim || p->in || sch__resv_parts(st) ||
	    (a->hunted && j->reason != REASON_None && a->hunted_qos == j->qos &&
	     a->hunted_priority >= j->priority && h.length >= a->hunted_usec))
		return SCH_HUNT_NOTHING;
	struct sch_prey *g = prey_of(p, j, a->part);
	if (g->count)
		open_hunt(&h, g);
	if (h.count)
		sch__pass_line(p); /* Before anything is lifted out of the rooms that it is made from. */
	h.until_steps = p->steps + SCH_PREEMPT_STEPS;
	bool found = h.count && find(&h) && allowed(&h), waits = false;
	a->hunted = !found;
	a->hunted_qos = j->qos;
	a->hunted_priority = j->priority;
	a->hunted_usec = h.length;
	for (uint32_t i = 0; i < h.count && found; i++)
		if (h.v[i]->wanted && h.v[i]->how != SCH_PREEMPT_SUSPEND) {
			waits = true;
			at = h.v[i]->gone_usec > at ? h.v[i]->gone_usec : at;
		}
	found = found && (!waits || sch__first_part(st, j) == a->part); /* One partition plans for a job. */
	if (found && waits)
		claim(&h, at > now ? at : now + 1);
	for (uint32_t i = 0; i < h.count; i++) {
		struct sch_victim *v = h.v[i];
		bool goes = found && v->wanted;
		/* Where it starts at once, those that stand still are gone from now on. */
		if (v->lifted && (!goes || v->how != SCH_PREEMPT_SUSPEND))
			put_back(p, v);
		if (goes)
			say(p, v, j);
		if (goes && v->how != SCH_PREEMPT_SUSPEND)
			end_at(p, v, at > now ? at : now + 1);
	}
	mu_bits_free(&h.nodes);
	*ret_count = h.picks;
	return !found ? SCH_HUNT_NOTHING : waits ? SCH_HUNT_CLAIM : SCH_HUNT_START;
}

/* ---- those that stand still ---- */

static bool room_again(struct sch_pass *p, const struct sch_job *j)
{
	int64_t now = p->st->cluster->now_usec, left = sch__length(j->time_limit_sec);
	int64_t ran = j->run->suspend_usec - sch__run_since(j);
	left = left > ran ? left - ran : 1;
	for (uint32_t i = 0; i < j->run->alloc_count; i++, p->steps++) {
		const struct sch_alloc *a = &j->run->alloc[i];
		if (a->released || a->lost)
			continue;
		if (!sch__room_parks(p->st, sch__overlay_see(&p->overlay, a->node), a))
			return false;
		if (!p->line || !p->line->span_count)
			continue;
		sch__pass_look_as(p, j);
		sch__share_look_held(p->line, a);
		p->line->above_only = true; /* Plans behind its place did not count on it. */
		const struct sch_room *r = sch__line_room(p->line, a->node, now, now + left);
		if (r->exclusive || r->cpus + mu_bits_count(&a->cpu) > a->node->row->cpus ||
		    (a->parked == 2 && r->jobs))
			return false;
	}
	return true;
}

static void go_on(struct sch_pass *p, struct sch_job *j)
{
	const struct sch_part *part = sch__part(p->st, sch__text(j->partition));
	int64_t at = p->st->cluster->now_usec - (j->run->suspend_usec - sch__run_since(j)) +
		     sch__span(j->time_limit_sec);
	for (uint32_t i = 0; i < j->run->alloc_count; i++) {
		const struct sch_alloc *a = &j->run->alloc[i];
		if (a->released || a->lost)
			continue;
		struct sch_room *room = sch__overlay_own(&p->overlay, a->node, p->arena);
		sch__room_unpark(room, a->node, a, a->parked == 2);
		if (sch__room_full(room, a->node))
			mu_bits_clear(&p->avail, a->node->rank);
		if (p->line)
			sch__line_ends(p->line, a->node, j, part, sch__alloc_row(a, p->arena), a->parked == 2,
				       at);
	}
	mu_map_put_u64(&p->preempted, j->id,
		       j); /* Whoever goes on now does not stand still again in this slice. */
}

/* Those of a place before TIER and KEY that stand still by preemption go on where they can. */
void sch__pass_resume(struct sch_pass *p, uint32_t tier, uint64_t key)
{
	uint64_t id = 0;
	for (struct sch_job *j = mu_map_next_u64(&p->st->stopped, 0, &id); j;
	     j = mu_map_next_u64(&p->st->stopped, id + 1, &id)) {
		const struct sch_part *part = sch__part(p->st, sch__text(j->partition));
		uint32_t mine = part ? sch__tier(part) : 0;
		bool before = mine > tier || (mine == tier && sch__queue_key(j->priority, j->id) < key);
		p->steps++;
		bool room = before && !mu_map_get_u64(&p->preempted, j->id);
		for (uint32_t k = 0; room && k < sch__het_size(j); k++) {
			struct sch_job *m = sch__het_part(p->st, j, k);
			room = !m || !mu_map_get_u64(&p->st->stopped, m->id) || room_again(p, m);
		}
		for (uint32_t k = 0; room && k < sch__het_size(j); k++) {
			struct sch_job *m = sch__het_part(p->st, j, k);
			if (m && mu_map_get_u64(&p->st->stopped, m->id))
				go_on(p, m);
		}
		if (room)
			sch__pass_add(p, &p->resume, j, 5);
	}
}
