/* sched/together.c: a pass visits a heterogeneous job: its components start in one decision, or none does,
 * and they are planned for one moment.
 *
 * They are placed one after the other, each beside what those before it would take: first those that few
 * nodes serve. That order is a guess, not a search: when it fails the job waits for more room than it needs.
 * A plan that stands gives places that are known to serve: where the guess fails they are tried, before the
 * plan's moment as well, for they may be free earlier than others had promised. */
#include "sched/pass.h"

/* One node that a component tries, and how it was before. */
struct step {
	struct step *before;
	const struct sch_node *node;
	const Mu__AllocNode *row;
	bool exclusive, avail;
	struct sch_guest *guest;
	struct sch_line_end *ends;
};
/* A component. */
struct part {
	struct sch_job *j;
	struct sch_attempt *a;	   /* in the partition where it would start, or is planned */
	const struct sch_resv *in; /* likewise */
	Mu__Start *start;
	struct sch_demand demand;
	struct sch_pick *pick; /* where it is planned */
	uint32_t count;
	struct sch_line_lic *lic;
	struct mu_bits among;
	int64_t length_usec;
};
struct group {
	struct sch_pass *p;
	struct sch_lane *l;
	struct sch_job *j; /* the first */
	struct part *v;
	uint32_t count, *order;
	struct step *step;
	size_t begun;
};

/* ---- laying components over the rooms, and taking them off again ---- */

static void note_nodes(struct group *g, const struct part *m)
{
	struct sch_pass *p = g->p;
	for (size_t i = 0; i < m->start->n_alloc; i++) {
		struct step *s = mu_arena_alloc(p->arena, sizeof(*s));
		const struct sch_node *n = p->pick[i].node;
		*s = (struct step){.before = g->step,
				   .node = n,
				   .row = m->start->alloc[i],
				   .exclusive = m->a->need.exclusive,
				   .avail = mu_bits_test(&p->avail, n->rank),
				   .guest = p->overlay.guest ? p->overlay.guest[n->rank] : NULL,
				   .ends = p->line->ends[n->rank]};
		g->step = s;
	}
}

static void take_off(struct group *g)
{
	struct sch_pass *p = g->p;
	for (struct step *s = g->step; s; s = s->before) {
		sch__room_give_row(sch__overlay_own(&p->overlay, s->node, p->arena), s->node, s->row,
				   s->exclusive);
		if (s->avail)
			mu_bits_set(&p->avail, s->node->rank);
		if (p->overlay.guest)
			p->overlay.guest[s->node->rank] = s->guest;
		p->line->ends[s->node->rank] = s->ends;
	}
	g->step = NULL;
	p->begun.count = g->begun;
	for (uint32_t k = 0; k < g->count; k++) {
		struct part *m = &g->v[k];
		if (m->lic)
			m->lic->dead = true;
		if (m->start)
			sch__limit_note(p->st, m->j, m->a->part, &m->demand, m->j->time_limit_sec, -1,
					&p->extra);
		m->start = NULL;
		m->lic = NULL;
	}
}

static void look(struct group *g, const struct part *m)
{
	sch__pass_look_as(g->p, g->j);
	g->p->line->in = m->in;
	g->p->line->licenses = sch__text(m->j->licenses);
}

/* The plan's own places, where they still serve. */
static uint32_t planned_places(struct group *g, const struct part *m, const struct mu_bits *among,
			       int64_t from, int64_t until)
{
	struct sch_pass *p = g->p;
	uint32_t count = sch__plan_picks(p->st, m->j, p->arena, p->pick);
	struct sch_overlay view = {.st = p->st, .line = p->line, .from_usec = from, .until_usec = until};
	if (!sch__line_licences(p->line, from, until))
		return 0;
	for (uint32_t i = 0; i < count; i++) {
		struct sch_pick *pick = &p->pick[i], fit = sch__fit_in(&m->a->need, &view, pick->node);
		p->steps++;
		if (!mu_bits_test(among, pick->node->rank) || fit.tasks < pick->tasks ||
		    fit.gpus < pick->gpus)
			return 0;
	}
	return count;
}

/* How many nodes of p->pick M gets now. */
static uint32_t choose_now(struct group *g, struct part *m, bool by_plan)
{
	struct sch_pass *p = g->p;
	int64_t now = p->st->cluster->now_usec, planned = sch__pass_plan_of(p, m->j),
		until = now + sch__resv_length(p->st, m->in, now, m->length_usec);
	struct mu_bits nodes = {0};
	uint32_t count;
	if (planned && planned <= now) /* It may have its promised place, come what may behind. */
		until = planned + m->length_usec > now ? planned + m->length_usec : now + 1;
	mu_bits_copy(&nodes, &m->a->nodes);
	mu_bits_and(&nodes, &p->avail);
	p->steps += nodes.words / 16;
	if (p->st->resvs.count)
		sch__resv_mask(p->st, m->in, now, until, &nodes);
	look(g, m);
	if (by_plan)
		count = planned_places(g, m, &nodes, now, until);
	else if (p->line->span_count && p->st->config.backfill)
		count = sch__line_choose(p->line, &m->a->need, &nodes, &m->a->required, now, until, p->pick);
	else
		count =
		    sch__choose(&m->a->need, &p->overlay, &nodes, &m->a->required, NULL, &p->steps, p->pick);
	mu_bits_free(&nodes);
	return count;
}

/* Lays M over what is taken; false with what is in the way beside room, if anything. */
static bool lay(struct group *g, struct part *m, bool by_plan, uint32_t *why)
{
	struct sch_pass *p = g->p;
	struct sch_veil veil = {0};
	int64_t now = p->st->cluster->now_usec, length = m->length_usec;
	uint32_t reason = sch__resv_reason(p->st, m->j, m->in, now, length), count = 0;
	p->in = m->in;
	length = sch__resv_length(p->st, m->in, now, length);
	look(g, m);
	if (!reason && m->j->licenses && !sch__line_licences(p->line, now, now + length))
		reason = REASON_Licenses;
	if (!reason) {
		sch__veil_on(&veil, &p->overlay, p->arena, m->in, now, now + length);
		p->line->veiled = p->veiled = sch__resv_parts(p->st);
		count = choose_now(g, m, by_plan);
		m->start = count ? sch__pass_cut(p, m->a, m->j, count) : NULL;
	}
	if (m->start) {
		sch__demand_rows(p->st, m->j, m->a->part, m->start->alloc, count, &m->demand);
		reason =
		    sch__limit_start(p->st, m->j, m->a->part, &m->demand, m->j->time_limit_sec, &p->extra);
		m->start = reason ? NULL : m->start;
	}
	if (m->start) {
		sch__limit_note(p->st, m->j, m->a->part, &m->demand, m->j->time_limit_sec, 1, &p->extra);
		note_nodes(g, m);
		sch__pass_take(p, m->a, m->j, m->start);
		sch__line_lic(p->line, m->j, now, now + sch__span(sch__job_limit_in(m->j, m->a->part)),
			      false);
		m->lic = m->j->licenses ? p->line->lic : NULL;
	}
	sch__veil_off(&veil);
	p->line->veiled = p->veiled = false;
	*why = *why ? *why : reason;
	return m->start != NULL;
}

/* ---- where a component may start at all ---- */

/* The next partition after *AT in which M may be tried; what keeps it out of others goes to *why, *detail. */
static struct sch_attempt *next_part(struct group *g, const struct part *m, uint32_t *at, uint32_t *why,
				     const char **detail)
{
	struct sch_pass *p = g->p;
	const struct sch_shape *shape = m->j->shape;
	for (; *at < shape->part_count; ++*at) {
		struct sch_part *part = sch__part(p->st, shape->part[*at]->text);
		if (!part || (m->j == g->j && part != g->l->part))
			continue;
		uint32_t reason = part->state == SCH_PART_DOWN	     ? REASON_PartitionDown
				  : part->state == SCH_PART_INACTIVE ? REASON_PartitionInactive
								     : sch__pass_never(p, part, m->j);
		struct sch_attempt *a = reason ? NULL : sch__pass_attempt(p, m->j, part);
		if (a && !a->reason) {
			++*at;
			return a;
		}
		if (!*why) {
			*why = a ? a->reason : reason;
			*detail = a ? a->detail : NULL;
		}
	}
	return NULL;
}

/* The reservations that M may start in; the first is where it is planned. */
static uint32_t choices(struct group *g, struct part *m, const struct sch_resv ***ret)
{
	const struct sch_state *st = g->p->st;
	*ret = mu_arena_alloc(g->p->arena, (st->resvs.count + 1) * sizeof((*ret)[0]));
	uint32_t n = sch__resv_choices(st, m->j, *ret);
	m->in = n ? (*ret)[0] : NULL;
	return n;
}

/* Tries M in each of its partitions and reservations. */
static bool lay_anywhere(struct group *g, struct part *m, bool by_plan, uint32_t *why)
{
	const struct sch_resv **choice;
	uint32_t at = 0, never = REASON_None, n = choices(g, m, &choice);
	const char *detail = NULL;
	if (!n && !*why)
		*why = REASON_Reservation;
	for (m->a = next_part(g, m, &at, &never, &detail); m->a; m->a = next_part(g, m, &at, &never, &detail))
		for (uint32_t i = 0; i < n; i++) {
			m->in = choice[i];
			m->length_usec = sch__length(sch__job_limit_in(m->j, m->a->part));
			if (lay(g, m, by_plan, why))
				return true;
		}
	/* What those before it would take may leave it no place under a limit. */
	*why = *why ? *why : never;
	return false;
}

static bool lay_all(struct group *g, bool by_plan, uint32_t *why)
{
	bool ok = true;
	g->begun = g->p->begun.count;
	for (uint32_t i = 0; i < g->count && ok; i++)
		ok = lay_anywhere(g, &g->v[g->order[i]], by_plan, why);
	if (!ok)
		take_off(g);
	return ok;
}

/* ---- starting ---- */

static void start(struct group *g)
{
	struct sch_pass *p = g->p;
	Mu__Start *s = g->v[0].start;
	uint32_t planned = 0;
	s->with = mu_arena_alloc(p->arena, g->count * sizeof(s->with[0]));
	for (uint32_t k = 0; k < g->count; k++) {
		struct part *m = &g->v[k];
		sch__fold_allocs(m->start, p->arena);
		if (k)
			s->with[s->n_with++] = m->start;
		if (sch__pass_plan_of(p, m->j)) {
			uint32_t count = sch__plan_picks(p->st, m->j, p->arena, p->pick);
			sch__line_unplan(p->line, m->j, p->pick, count);
			planned++;
		}
		sch__pass_take_task(p, m->j, m->start);
	}
	p->given_up += planned;
	p->moves += planned > 0;
	sch__pass_add(p, &p->start, s, mu__start__get_packed_size(s) + 4);
}

/* ---- planning ---- */

static void drop_plans(struct group *g)
{
	for (uint32_t k = 0; k < g->count; k++)
		sch__pass_drop_plan(g->p, g->v[k].j);
}

/* What was planned for the first COUNT of the order is off the line again. */
static void forget(struct group *g, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct part *m = &g->v[g->order[i]];
		sch__line_unplan(g->p->line, m->j, m->pick, m->count);
	}
}

/* Puts all on the line for AT: where the plan in State has them, or anywhere. */
static bool plan_at(struct group *g, int64_t at, bool by_plan)
{
	struct sch_pass *p = g->p;
	for (uint32_t i = 0; i < g->count; i++) {
		struct part *m = &g->v[g->order[i]];
		int64_t until = (by_plan ? m->j->plan_start_usec : at) + m->length_usec;
		until = until > at ? until : at + 1;
		look(g, m);
		p->line->siblings = true;
		uint32_t count = by_plan ? planned_places(g, m, &m->among, at, until)
					 : sch__line_choose(p->line, &m->a->need, &m->among, &m->a->required,
							    at, until, p->pick);
		if (!count) {
			forget(g, i);
			return false;
		}
		m->pick = mu_arena_dup(p->arena, p->pick, count * sizeof(p->pick[0]));
		m->count = count;
		sch__line_plan(p->line, m->j, &m->a->need, at, until, m->pick, count);
	}
	return true;
}

/* The earliest moment before BEFORE at which all have their places: they are on the line then. None can have
 * them before the last of those at which each by itself first has. */
static int64_t plan_earliest(struct group *g, int64_t before)
{
	struct sch_pass *p = g->p;
	int64_t at = 0;
	for (uint32_t k = 0; k < g->count; k++) {
		struct part *m = &g->v[k];
		uint32_t count;
		look(g, m);
		int64_t alone = sch__line_earliest(p->line, &m->a->need, &m->among, &m->a->required,
						   m->length_usec, before, p->pick, &count);
		if (!alone)
			return 0;
		at = alone > at ? alone : at;
	}
	for (uint32_t tries = 0; at && at < before && tries < SCH_PLAN_TRIES; tries++) {
		if (plan_at(g, at, false))
			return at;
		at = sch__line_after(p->line, at);
	}
	return 0;
}

/* A plan is for the first partition of each. */
static bool may_plan(struct group *g)
{
	struct sch_pass *p = g->p;
	bool behind = false, fits = true;
	for (uint32_t k = 0; k < g->count; k++) {
		const struct part *m = &g->v[k];
		fits = fits && m->a->part == sch__first_part(p->st, m->j) && !(m->in && m->in->part_count);
		behind = behind || mu_bits_intersects(&m->a->nodes, &p->arrays);
	}
	return fits && sch__pass_may_plan(p, g->j, g->l->part, sch__pass_plan_of(p, g->j), behind);
}

/* Their wishes as a plan sees them. */
static void open_wishes(struct group *g)
{
	struct sch_pass *p = g->p;
	for (uint32_t k = 0; k < g->count; k++) {
		struct part *m = &g->v[k];
		m->length_usec = sch__length(sch__job_limit_in(m->j, m->a->part));
		mu_bits_copy(&m->among, &m->a->nodes);
		mu_bits_and(&m->among, &p->st->usable);
		if (m->in && !sch__resv_flag(m->in, RESV_FLAG_FLEX))
			mu_bits_and(&m->among, &m->in->nodes);
		if (sch__pass_plan_of(p, m->j)) {
			uint32_t count = sch__plan_picks(p->st, m->j, p->arena, p->pick);
			sch__line_unplan(p->line, m->j, p->pick, count);
		}
	}
}

static void say_plans(struct group *g, int64_t start)
{
	struct sch_pass *p = g->p;
	for (uint32_t k = 0; k < g->count; k++) {
		struct part *m = &g->v[k];
		p->made += !sch__pass_plan_of(p, m->j);
		sch__pass_say_plan(p, m->j, start, m->pick, m->count);
	}
	p->moves++;
}

/* Keeps, betters or makes the planned start, as sch__pass_reserve does for a job by itself. */
static void reserve(struct group *g)
{
	struct sch_pass *p = g->p;
	int64_t now = p->st->cluster->now_usec, planned = sch__pass_plan_of(p, g->j);
	if (!may_plan(g)) {
		drop_plans(g);
		return;
	}
	open_wishes(g);
	int64_t kept = planned > now ? planned : now + 1;
	bool first = p->reserved == 0, stands = planned && plan_at(g, kept, true);
	int64_t start = 0;
	if (stands && planned > now + 1 && p->steps - p->setup < p->budget) {
		forget(g, g->count);
		start = plan_earliest(g, planned);
		if (!start)
			stands = plan_at(g, kept, true);
	} else if (!stands) {
		start = plan_earliest(g, INT64_MAX);
		if (start && !first && start > now + p->st->config.bf_window_usec) {
			forget(g, g->count);
			start = 0;
		}
	}
	if (start)
		say_plans(g, start);
	else if (!stands)
		drop_plans(g);
	p->reserved += start || stands;
	for (uint32_t k = 0; k < g->count; k++)
		mu_bits_free(&g->v[k].among);
}

/* ---- waiting ---- */

static struct sch_lane *lane_of(struct group *g, const struct sch_part *part)
{
	struct sch_lane *l = g->p->lane;
	while (l->part != part)
		l++;
	return l;
}

/* What M keeps from others: nodes by name, or all of its partition (BY_NAME false). */
static const struct mu_bits *nodes_of(const struct part *m, bool *ret_by_name)
{
	bool named = mu_bits_next(&m->a->required, 0) != UINT32_MAX;
	bool reserved = m->in && !sch__resv_flag(m->in, RESV_FLAG_FLEX);
	*ret_by_name = reserved || (named && mu_bits_count(&m->a->required) >= m->j->shape->nodes_min);
	return !*ret_by_name ? &m->a->part->nodes : named ? &m->a->required : &m->in->nodes;
}

/* Do they wait behind others for some of their nodes? */
static bool is_behind(struct group *g)
{
	bool behind = false;
	for (uint32_t k = 0; k < g->count; k++) {
		const struct sch_attempt *a = g->v[k].a;
		bool named = mu_bits_next(&a->required, 0) != UINT32_MAX;
		behind = behind || lane_of(g, a->part)->blocked ||
			 mu_bits_intersects(named ? &a->required : &a->nodes, &g->p->kept);
	}
	return behind;
}

/* Keeps the nodes that each component waits for, as a job that does not fit keeps its own. */
static void keep(struct group *g)
{
	struct sch_pass *p = g->p;
	for (uint32_t k = 0; k < g->count; k++) {
		const struct part *m = &g->v[k];
		struct sch_lane *l = lane_of(g, m->a->part);
		bool by_name;
		const struct mu_bits *nodes = nodes_of(m, &by_name);
		mu_bits_or(&p->kept, nodes);
		if (!p->st->config.backfill)
			mu_bits_andnot(&p->avail, nodes);
		if (by_name)
			mu_bits_or(&p->named, nodes);
		if (by_name || l->blocked)
			continue;
		l->blocked = true;
		l->blocked_key = g->j->queue_key;
		l->blocker = g->j;
	}
}

/* The nodes of some component are kept by reservations: how it is told; NULL: they are not. */
static const char *kept_by_resv(struct group *g, bool *ret_inside)
{
	const char *text = NULL;
	for (uint32_t k = 0; k < g->count && !text && g->p->st->resvs.count; k++) {
		const struct part *m = &g->v[k];
		text = sch__resv_kept(g->p->st, &m->a->need, m->a->part, &m->a->nodes, &m->a->required, m->in,
				      sch__length(sch__job_limit_in(m->j, m->a->part)));
		*ret_inside = m->in != NULL;
	}
	return text;
}

/* They do not start: for WHY, or for want of room. The first partition of the first one speaks for all. */
static void stay(struct group *g, uint32_t why)
{
	struct sch_pass *p = g->p;
	bool first = sch__first_part(p->st, g->j) == g->l->part, inside = false;
	const char *kept = why ? NULL : kept_by_resv(g, &inside);
	bool behind = !why && !kept && is_behind(g);
	uint32_t reason = why	   ? why
			  : !kept  ? (behind ? REASON_Priority : REASON_Resources)
			  : inside ? REASON_Reservation
				   : REASON_ReqNodeNotAvail;
	bool plans = why ? why == REASON_Licenses : kept ? !inside : !behind || p->st->config.backfill;
	for (uint32_t k = 0; k < g->count && first; k++)
		sch__pass_reason(p, g->v[k].j, reason, inside ? NULL : kept);
	if (first && plans)
		reserve(g);
	else if (first)
		drop_plans(g);
	if (!why && !kept)
		keep(g);
}

/* ---- the visit ---- */

/* Finds for each component the first partition and reservation in which it may start some day; where there is
 * none all wait for what keeps that one from it. */
static bool open_parts(struct group *g)
{
	struct sch_pass *p = g->p;
	bool first = sch__first_part(p->st, g->j) == g->l->part;
	for (uint32_t k = 0; k < g->count; k++) {
		const struct sch_resv **choice;
		uint32_t at = 0, why = REASON_None;
		const char *detail = NULL;
		struct part *m = &g->v[k];
		m->a = next_part(g, m, &at, &why, &detail);
		choices(g, m, &choice);
		if (m->a)
			continue;
		for (uint32_t i = 0; i < g->count && first; i++)
			sch__pass_reason(p, g->v[i].j, why ? why : REASON_PartitionConfig, detail);
		if (first)
			drop_plans(g);
		return false;
	}
	return true;
}

/* Those that few nodes serve come first. */
static void put_in_order(struct group *g)
{
	for (uint32_t k = 0; k < g->count; k++) {
		uint32_t at = k, nodes = mu_bits_count(&g->v[k].a->nodes);
		for (; at > 0 && mu_bits_count(&g->v[g->order[at - 1]].a->nodes) > nodes; at--)
			g->order[at] = g->order[at - 1];
		g->order[at] = k;
	}
}

bool sch__pass_together(struct sch_pass *p, struct sch_lane *l, struct sch_job *j)
{
	struct group g = {.p = p, .l = l, .j = j, .count = sch__het_size(j)};
	uint32_t why = REASON_None;
	g.v = mu_arena_alloc(p->arena, g.count * sizeof(g.v[0]));
	g.order = mu_arena_alloc(p->arena, g.count * sizeof(g.order[0]));
	for (uint32_t k = 0; k < g.count; k++)
		g.v[k] = (struct part){.j = sch__het_part(p->st, j, k)};
	p->steps += g.count;
	p->limit_sec = 0;
	if (!open_parts(&g))
		return false;
	put_in_order(&g);
	sch__pass_line(p);
	bool planned = sch__pass_plan_of(p, j) != 0;
	if (lay_all(&g, false, &why) || (planned && lay_all(&g, true, &why))) {
		start(&g);
		return true;
	}
	open_parts(&g); /* Where they were tried last is no matter. */
	stay(&g, why);
	return false;
}
