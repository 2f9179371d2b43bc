/* sched/explain.c: what a State says of shares and priorities, for those who ask. Reads only. */
#include "sched/state.h"

/* ---- shares ---- */

static Mu__TresCount *tres_count(const struct sch_state *st, uint32_t tres, int64_t count,
				 struct mu_arena *arena)
{
	Mu__TresCount *t = mu_arena_alloc(arena, sizeof(*t));
	mu__tres_count__init(t);
	t->name = mu_arena_strdup(arena, st->accounts.tres_name[tres]);
	t->has_count = 1;
	t->count = count;
	return t;
}

static void minutes(const struct sch_state *st, const struct sch_assoc *a, const uint64_t *amount,
		    Mu__ShareRow *row, struct mu_arena *arena)
{
	uint32_t n = st->accounts.tres_count;
	row->run_mins = mu_arena_alloc(arena, (n + 1) * sizeof(row->run_mins[0]));
	row->used_mins = mu_arena_alloc(arena, (n + 1) * sizeof(row->used_mins[0]));
	for (uint32_t i = 0; i < n; i++) {
		int64_t used = (int64_t)(amount[i] / (i == SCH_TRES_MEM ? 60 : 60000));
		row->used_mins[row->n_used_mins++] = tres_count(st, i, used, arena);
		if (i != SCH_TRES_WALL)
			row->run_mins[row->n_run_mins++] = tres_count(
			    st, i, sch__tally_ahead(&a->tally, i, st->cluster->now_usec) / 60, arena);
	}
}

static uint64_t raw(const struct sch_state *st, const struct sch_assoc *a)
{
	uint64_t amount[SCH_TRES_MAX];
	sch__usage_at(st, &a->usage, &a->tally, true, st->cluster->now_usec, amount, SCH_TRES_BILLING + 1);
	return amount[SCH_TRES_BILLING];
}

static uint32_t depth_of(const struct sch_assoc *a)
{
	uint32_t depth = 0;
	for (; a->parent; a = a->parent)
		depth++;
	return depth;
}

static uint32_t shares_of(const struct sch_assoc *a)
{
	return a->row->has_shares ? a->row->shares : 1;
}

static void among_siblings(const struct sch_state *st, const struct sch_assoc *a, uint64_t own,
			   Mu__ShareRow *row)
{
	uint64_t shares = 0, usage = 0;
	for (uint32_t i = 0; a->parent && i < a->parent->child_count; i++) {
		const struct sch_assoc *s = a->parent->child[i];
		shares += shares_of(s) == SCH_SHARES_PARENT ? 0 : shares_of(s);
		usage = mu_fixed_add(usage, raw(st, s));
	}
	SCH_SET(row, norm_shares,
		!a->parent || shares_of(a) == SCH_SHARES_PARENT ? MU_FIXED_ONE
								: mu_fixed_ratio(shares_of(a), shares));
	SCH_SET(row, effective_usage, a->parent ? mu_fixed_ratio(own, usage) : MU_FIXED_ONE);
}

int sch_explain_share(const struct sch_state *st, uint32_t index, struct mu_arena *arena, Mu__ShareRow **ret)
{
	uint64_t amount[SCH_TRES_MAX];
	if (index >= st->accounts.tree_count)
		return MU_ENOENT;
	const struct sch_assoc *a = st->accounts.tree[index];
	Mu__ShareRow *row = mu_arena_alloc(arena, sizeof(*row));
	mu__share_row__init(row);
	sch__usage_at(st, &a->usage, &a->tally, true, st->cluster->now_usec, amount, st->accounts.tres_count);
	uint64_t own = amount[SCH_TRES_BILLING];
	SCH_SET(row, id, a->row->id);
	row->account = a->row->account;
	row->user = a->row->user;
	row->partition = a->row->partition;
	row->has_depth = row->has_shares = 1;
	row->depth = depth_of(a);
	row->shares = shares_of(a);
	SCH_SET(row, raw_usage_sec, own / 1000);
	SCH_SET(row, norm_usage, mu_fixed_ratio(own, raw(st, st->accounts.tree[0])));
	SCH_SET(row, fair, a->row->fair);
	SCH_SET(row, level_fs, a->level_fs);
	row->limits = a->row->limits;
	among_siblings(st, a, own, row);
	minutes(st, a, amount, row, arena);
	*ret = row;
	return 0;
}

/* ---- priorities ---- */

int sch_explain_priority(const struct sch_state *st, uint32_t id, struct mu_arena *arena,
			 Mu__PriorityRow **ret)
{
	const struct sch_job *j = sch__job(st, id);
	struct sch_factors f;
	if (!j || j->state != JOB_PENDING)
		return MU_ENOENT;
	Mu__PriorityRow *row = mu_arena_alloc(arena, sizeof(*row));
	mu__priority_row__init(row);
	const Mu__JobSpec *spec = sch__spec_open(j->spec, arena);
	sch__factors(st, j, sch__first_part(st, j), spec, &f);
	SCH_SET(row, job, j->id);
	SCH_SET(row, uid, j->who->uid);
	row->has_uid = 1;
	row->user = mu_arena_strdup(arena, sch__text(j->who->user));
	row->account = mu_arena_strdup(arena, sch__text(j->account));
	row->partition = mu_arena_strdup(arena, sch__text(j->partition));
	row->qos = mu_arena_strdup(arena, sch__text(j->qos));
	SCH_SET(row, basic, !st->accounts.policy.multifactor);
	if (row->basic || j->priority_fixed || !j->priority) { /* Not a sum of factors. */
		row->has_priority = row->has_site = 1;
		row->priority = j->priority;
		row->site = row->basic ? 0 : j->priority;
		*ret = row;
		return 0;
	}
	/* As of now, and so that it adds up; the queue's order is at most PriorityCalcPeriod older. */
	SCH_SET(row, priority, f.priority);
	SCH_SET(row, age, f.part[SCH_W_AGE]);
	SCH_SET(row, assoc, f.part[SCH_W_ASSOC]);
	SCH_SET(row, fair, f.part[SCH_W_FAIR]);
	SCH_SET(row, size, f.part[SCH_W_SIZE]);
	SCH_SET(row, part, f.part[SCH_W_PART]);
	SCH_SET(row, qos_part, f.part[SCH_W_QOS]);
	SCH_SET(row, tres, f.part[SCH_W_TRES]);
	SCH_SET(row, site, f.site);
	SCH_SET(row, nice, f.nice);
	SCH_SET(row, age_factor, f.factor[SCH_W_AGE]);
	SCH_SET(row, assoc_factor, f.factor[SCH_W_ASSOC]);
	SCH_SET(row, fair_factor, f.factor[SCH_W_FAIR]);
	SCH_SET(row, size_factor, f.factor[SCH_W_SIZE]);
	SCH_SET(row, part_factor, f.factor[SCH_W_PART]);
	SCH_SET(row, qos_factor, f.factor[SCH_W_QOS]);
	row->tres_part = mu_arena_alloc(arena, (SCH_TRES_MAX + 1) * sizeof(row->tres_part[0]));
	for (uint32_t i = 0; i < st->accounts.tres_count; i++)
		if (f.tres[i])
			row->tres_part[row->n_tres_part++] = tres_count(st, i, (int64_t)f.tres[i], arena);
	*ret = row;
	return 0;
}

uint32_t sch_next_waiting(const struct sch_state *st, uint32_t after)
{
	uint64_t id = 0;
	for (const struct sch_job *j = mu_map_next_u64(&st->jobs, (uint64_t)after + 1, &id); j;
	     j = mu_map_next_u64(&st->jobs, id + 1, &id))
		if (j->state == JOB_PENDING)
			return j->id;
	return 0;
}

bool sch_is_operator(const struct sch_state *st, const Mu__Author *author)
{
	return sch__admin_level(st, author) > 0;
}
