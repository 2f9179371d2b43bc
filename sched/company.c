/* sched/company.c: who else is, or is planned to be, on a node: for jobs that share nodes with their own
 * user's jobs only
 * (--exclusive=user, ExclusiveUser) and for partitions that may use only so many CPUs of a node
 * (MaxCPUsPerNode). */
#include "sched/timeline.h"

bool sch__user_only(const struct sch_job *j, const struct sch_part *p)
{
	return j->shape->user_only || (p && p->row->conf->exclusive_user);
}

bool sch__personal(const struct sch_state *st)
{
	bool any = st->user_shapes > 0;
	for (uint32_t i = 0; i < st->part_count && !any; i++)
		any = st->part[i]->row->conf->exclusive_user;
	return any;
}

static void meet(const struct sch_need *need, const struct sch_job *j, const struct sch_part *p,
		 uint32_t cpus, struct sch_company *ret)
{
	bool stranger = j->who->uid != need->uid;
	ret->part_cpus += p == need->part ? cpus : 0;
	ret->strangers = ret->strangers || stranger;
	ret->owned = ret->owned || (stranger && sch__user_only(j, p));
}

/* Reservations keep nobody company: only planned jobs do. */
static bool sees(const struct sch_line *line, const struct sch_line_span *s, const struct sch_node *n)
{
	return s->job && sch__line_sees(line, s, n);
}

/* What the partition's jobs hold at one moment. */
static uint32_t part_cpus_at(const struct sch_need *need, const struct sch_line *line,
			     const struct sch_node *n, int64_t at)
{
	uint32_t sum = 0;
	for (const struct sch_line_end *e = line->ends[n->rank]; e; e = e->next)
		sum += e->at_usec > at && !e->out && e->part == need->part ? e->use.cpus : 0;
	for (const struct sch_line_span *s = line->spans[n->rank]; s; s = s->next)
		if (s->from_usec <= at && at < s->until_usec && sees(line, s, n) &&
		    sch__first_part(line->st, s->job) == need->part)
			sum += s->use.cpus;
	return sum;
}

static void meet_line(const struct sch_need *need, struct sch_line *line, const struct sch_node *n,
		      int64_t from, int64_t until, struct sch_company *ret)
{
	for (const struct sch_line_end *e = line->ends[n->rank]; e; e = e->next, ++*line->steps)
		if (e->at_usec > from && !e->out)
			meet(need, e->job, e->part, e->use.cpus, ret);
	for (const struct sch_line_span *s = line->spans[n->rank]; s; s = s->next, ++*line->steps)
		if (s->from_usec < until && s->until_usec > from && sees(line, s, n))
			meet(need, s->job, sch__first_part(line->st, s->job), 0, ret);
	if (need->cpu_cap == UINT32_MAX)
		return;
	ret->part_cpus = part_cpus_at(need, line, n, from);
	/* Within the span more can only be held where a plan begins. */
	for (const struct sch_line_span *s = line->spans[n->rank]; s; s = s->next, ++*line->steps) {
		bool within = s->from_usec > from && s->from_usec < until && sees(line, s, n);
		uint32_t then = within ? part_cpus_at(need, line, n, s->from_usec) : 0;
		ret->part_cpus = then > ret->part_cpus ? then : ret->part_cpus;
	}
}

void sch__company(const struct sch_need *need, const struct sch_overlay *o, const struct sch_node *n,
		  struct sch_company *ret)
{
	*ret = (struct sch_company){0};
	if (o->line) {
		meet_line(need, o->line, n, o->from_usec, o->until_usec, ret);
		return;
	}
	for (uint32_t i = 0; i < n->hold_count; i++) {
		struct sch_job *j = n->hold[i].job;
		const struct sch_alloc *a = sch__alloc_on(j, n->hold[i].attempt, n);
		if (!a || !a->parked)
			meet(need, j, sch__part(o->st, sch__text(j->partition)), a ? a->cpus : 0, ret);
	}
	for (const struct sch_guest *g = o->guest ? o->guest[n->rank] : NULL; g; g = g->next)
		meet(need, g->job, g->part, g->cpus, ret);
}

void sch__guest_add(struct sch_overlay *o, const struct sch_node *n, const struct sch_job *j,
		    const struct sch_part *p, uint32_t cpus, struct mu_arena *arena)
{
	if (!o->guest)
		o->guest = mu_arena_alloc(arena, (o->st->node_count + 1) * sizeof(o->guest[0]));
	struct sch_guest *g = mu_arena_alloc(arena, sizeof(*g));
	*g = (struct sch_guest){.next = o->guest[n->rank], .job = j, .part = p, .cpus = cpus};
	o->guest[n->rank] = g;
}

bool sch__welcome(const struct sch_need *need, const struct sch_company *c)
{
	return !c->owned && !(need->user_only && c->strangers);
}

struct sch_pick sch__fit_in(const struct sch_need *need, const struct sch_overlay *o, struct sch_node *n)
{
	struct sch_company c;
	if (o->line)
		sch__share_look(o->line, need);
	if (!need->careful)
		return sch__fit(need, n, sch__overlay_see(o, n));
	sch__company(need, o, n, &c);
	if (!sch__welcome(need, &c))
		return (struct sch_pick){.node = n};
	struct sch_need rest = *need;
	if (rest.cpu_cap != UINT32_MAX)
		rest.cpu_cap = rest.cpu_cap > c.part_cpus ? rest.cpu_cap - c.part_cpus : 0;
	return sch__fit(&rest, n, sch__overlay_see(o, n));
}
