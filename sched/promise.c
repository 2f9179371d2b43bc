/* sched/promise.c: planned starts within a slice: kept where they stand, bettered where something became
 * free, made for the first jobs that do not fit, given up with a word. */
#include "sched/pass.h"

/* The plan is for one task, and this slice has started it. */
int64_t sch__pass_plan_of(const struct sch_pass *p, const struct sch_job *j)
{
	return sch__pass_taken(p, j) ? 0 : j->plan_start_usec;
}

struct sch_line *sch__pass_line(struct sch_pass *p)
{
	if (p->line)
		return p->line;
	p->line = mu_arena_alloc(p->arena, sizeof(*p->line));
	sch__line_init(p->line, &p->overlay, p->arena, &p->steps);
	for (size_t i = 0; i < p->begun.count; i++) {
		const struct sch_pass_begun *b = p->begun.v[i];
		sch__line_ends(p->line, b->node, b->job, b->part, b->row, b->exclusive, b->until_usec);
	}
	return p->line;
}

void sch__pass_say_plan(struct sch_pass *p, const struct sch_job *j, int64_t start,
			const struct sch_pick *pick, uint32_t count)
{
	Mu__PlanSet *s = sch__fold_plan(p->st, j, start, pick, count, p->arena);
	sch__pass_add(p, &p->plan, s, 20 + 2 * (s->n_tasks + s->n_gpus) + (s->nodes ? strlen(s->nodes) : 0));
}

void sch__pass_drop_plan(struct sch_pass *p, const struct sch_job *j)
{
	if (!sch__pass_plan_of(p, j))
		return;
	sch__pass_say_plan(p, j, 0, p->pick, 0);
	p->given_up++;
}

/* Whose plans J must respect: all, unless it is new here; then those of jobs before it. */
void sch__pass_look_as(struct sch_pass *p, const struct sch_job *j)
{
	p->line->me = j;
	p->line->above_only = j->reason == REASON_None && !sch__pass_plan_of(p, j);
	p->line->claims_only = p->line->no_spans = p->line->siblings = false;
	p->line->in = p->in;
	p->line->licenses = sch__text(j->licenses);
}

/* True when J's plan can still be kept to the moment. */
static bool plan_stands(struct sch_pass *p, const struct sch_attempt *a, const struct sch_job *j,
			int64_t length, uint32_t *ret_count)
{
	int64_t now = p->st->cluster->now_usec, from = j->plan_start_usec, until = from + length;
	uint32_t count = sch__plan_picks(p->st, j, p->arena, p->pick);
	if (from <= now)
		from = now + 1;
	if (until <= from)
		until = from + 1;
	bool ok = count > 0 && sch__line_licences(p->line, from, until);
	/* Where those that give way are slow a claim comes late: then the others' plans move, not this one.
	 */
	p->line->claims_only = j->plan_claim;
	for (uint32_t i = 0; i < count && ok; i++) {
		struct sch_node *n = p->pick[i].node;
		struct sch_overlay view = {
		    .st = p->st, .line = p->line, .from_usec = from, .until_usec = until};
		struct sch_pick fit = sch__fit_in(&a->need, &view, n);
		ok = n->usable && mu_bits_test(&a->nodes, n->rank) && fit.tasks >= p->pick[i].tasks &&
		     fit.gpus >= p->pick[i].gpus;
		p->steps++;
	}
	p->line->claims_only = false;
	*ret_count = count;
	return ok;
}

static bool over_share(const struct sch_pass *p, const struct sch_job *j, const struct sch_part *part)
{
	const struct sch_config_rec *c = &p->st->config;
	uint32_t user = 0, here = 0;
	uint64_t id = 0;
	if (!c->bf_max_user && !c->bf_max_part)
		return false;
	for (const struct sch_job *k = mu_map_next_u64(&p->st->plans, 0, &id); k;
	     k = mu_map_next_u64(&p->st->plans, id + 1, &id)) {
		user += k != j && k->who->uid == j->who->uid;
		here += k != j && sch__first_part(p->st, k) == part;
	}
	for (size_t i = 0; i < p->plan.count; i++) { /* First plans of this slice. */
		const Mu__PlanSet *s = p->plan.v[i];
		const struct sch_job *k = sch__job(p->st, s->job);
		if (k->plan_start_usec || !s->start_usec)
			continue;
		user += k->who->uid == j->who->uid;
		here += sch__first_part(p->st, k) == part;
	}
	return (c->bf_max_user && user >= c->bf_max_user) || (c->bf_max_part && here >= c->bf_max_part);
}

static void put_plan(struct sch_pass *p, const struct sch_attempt *a, const struct sch_job *j, int64_t start,
		     int64_t length, uint32_t count)
{
	sch__line_plan(p->line, j, &a->need, start, start + length, p->pick, count);
	sch__pass_say_plan(p, j, start, p->pick, count);
	p->moves++;
}

bool sch__pass_may_plan(const struct sch_pass *p, const struct sch_job *j, const struct sch_part *part,
			int64_t planned, bool behind)
{
	const struct sch_config_rec *c = &p->st->config;
	uint32_t most = c->backfill ? c->bf_max_job : UINT32_MAX;
	/* Only a newcomer may push one who has a plan out of their number. */
	bool newcomer = j->reason == REASON_None;
	if (p->reserved >= most ||
	    (!planned && !newcomer && p->st->plans.count + p->made >= (uint64_t)most + p->given_up))
		return false;
	/* Of an array only the next task is planned, whatever bf_max_job_array_resv allows beyond one, and
	 * nobody is newly promised what the next tasks of an array before it will want. */
	if (j->tasks && !c->bf_max_array)
		return false;
	return planned || (!behind && !over_share(p, j, part));
}

void sch__pass_reserve(struct sch_pass *p, struct sch_attempt *a, struct sch_job *j)
{
	const struct sch_config_rec *c = &p->st->config;
	int64_t length = sch__length(sch__job_limit_in(j, a->part)), now = p->st->cluster->now_usec, start;
	uint32_t count = 0;
	struct mu_bits nodes = {0};
	int64_t planned = sch__pass_plan_of(p, j);
	bool claimed = planned && j->plan_claim;
	if ((p->in && p->in->part_count) ||
	    (!claimed &&
	     !sch__pass_may_plan(p, j, a->part, planned, mu_bits_intersects(&a->nodes, &p->arrays)))) {
		sch__pass_drop_plan(p, j);
		return;
	}
	sch__pass_line(p);
	sch__pass_look_as(p, j);
	mu_bits_copy(&nodes, &a->nodes);
	mu_bits_and(&nodes, &p->st->usable);
	if (p->in && !sch__resv_flag(p->in, RESV_FLAG_FLEX))
		mu_bits_and(&nodes, &p->in->nodes);
	bool first = p->reserved == 0, stands = planned && plan_stands(p, a, j, length, &count);
	int64_t before = stands ? j->plan_start_usec : INT64_MAX;
	if (stands) {
		p->reserved++;
		uint32_t old_count = count;
		struct sch_pick *old = mu_arena_dup(p->arena, p->pick, (old_count + 1) * sizeof(old[0]));
		start = before > now + 1 && !claimed && p->steps - p->setup < p->budget
			    ? sch__line_earliest(p->line, &a->need, &nodes, &a->required, length, before,
						 p->pick, &count)
			    : 0;
		if (start) {
			sch__line_unplan(p->line, j, old, old_count);
			put_plan(p, a, j, start, length, count);
		}
	} else {
		start = sch__line_earliest(p->line, &a->need, &nodes, &a->required, length, before, p->pick,
					   &count);
		/* The first is planned however far away: nobody waits for ever. */
		if (start && (first || start <= now + c->bf_window_usec)) {
			put_plan(p, a, j, start, length, count);
			p->reserved++;
			p->made += planned == 0;
		} else {
			sch__pass_drop_plan(p, j);
			start = 0;
		}
	}
	if ((stands || start) && sch__pass_more_behind(p, j))
		mu_bits_or(&p->arrays, &a->nodes);
	mu_bits_free(&nodes);
}
