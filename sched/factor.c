/* sched/factor.c: priority/multifactor. Factors are Q32, weights whole numbers; each product is cut to a
 * whole number by itself, so that what sprio shows adds up. Numbers are computed when a job comes, and anew
 * for all that wait once in PriorityCalcPeriod, a bounded number per Tick: age and usage move slowly, and a
 * queue whose order changed with every position would have to be sorted for every pass. */
#include "sched/state.h"

#include <assert.h>

enum { PRIORITIES_PER_TICK = 1000 };

/* To the nearest whole number: a tenth of 4000 is 400. */
static uint64_t weigh(uint64_t weight, uint64_t factor)
{
	return (uint64_t)(((unsigned __int128)weight * factor + (MU_FIXED_ONE >> 1)) >> 32);
}

static uint64_t age_factor(const struct sch_state *st, const struct sch_job *j)
{
	const struct sch_policy *p = &st->accounts.policy;
	int64_t from = p->accrue_always ? j->submit_usec : j->eligible_usec, now = st->cluster->now_usec;
	if (!from || from >= now)
		return 0;
	return p->max_age_usec ? mu_fixed_ratio((uint64_t)(now - from), (uint64_t)p->max_age_usec) : 0;
}

static uint64_t size_factor(const struct sch_state *st, const struct sch_job *j, const struct sch_demand *d)
{
	const struct sch_policy *p = &st->accounts.policy;
	uint64_t nodes = mu_fixed_ratio((uint64_t)d->v[SCH_TRES_NODE], p->total[SCH_TRES_NODE]);
	uint64_t cpus = mu_fixed_ratio((uint64_t)d->v[SCH_TRES_CPU], p->total[SCH_TRES_CPU]);
	uint64_t size = (nodes + cpus) / 2;
	if (p->small_relative) {
		uint64_t minutes = j->time_limit_sec > 60 ? (uint64_t)j->time_limit_sec / 60 : 1;
		if (j->time_limit_sec < 0)
			minutes = UINT64_C(365) * 1440;
		size = cpus / minutes;
	}
	return p->favor_small ? MU_FIXED_ONE - size : size;
}

static uint64_t normal(uint64_t value, uint64_t max, bool absolute)
{
	if (absolute)
		return value * MU_FIXED_ONE; /* A number of its own, times the weight. */
	return mu_fixed_ratio(value, max);
}

static uint64_t part_value(const struct sch_part *p)
{
	return p && p->row->conf->has_priority_job_factor ? p->row->conf->priority_job_factor : 1;
}

static uint64_t tres_parts(const struct sch_state *st, const struct sch_demand *d, uint64_t *ret)
{
	const struct sch_policy *p = &st->accounts.policy;
	uint64_t sum = 0;
	for (uint32_t i = 0; i < SCH_TRES_MAX; i++) {
		ret[i] = p->tres_weight[i]
			     ? weigh(p->tres_weight[i], mu_fixed_ratio((uint64_t)d->v[i], p->total[i]))
			     : 0;
		sum += ret[i];
	}
	return sum;
}

void sch__factors(const struct sch_state *st, const struct sch_job *j, const struct sch_part *part,
		  const Mu__JobSpec *spec, struct sch_factors *ret)
{
	const struct sch_policy *p = &st->accounts.policy;
	const struct sch_assoc *a = sch__assoc(st, j->assoc);
	const struct sch_qos *q = sch__qos(st, sch__text(j->qos));
	struct sch_demand d;
	memset(ret, 0, sizeof(*ret));
	sch__demand_waiting(st, j, part, &d);
	ret->factor[SCH_W_AGE] = age_factor(st, j);
	ret->factor[SCH_W_ASSOC] = a ? normal(a->row->priority, p->assoc_max, p->no_normal_assoc) : 0;
	ret->factor[SCH_W_FAIR] = a ? a->row->fair : 0;
	ret->factor[SCH_W_SIZE] = size_factor(st, j, &d);
	ret->factor[SCH_W_PART] = normal(part_value(part), p->part_max, p->no_normal_part);
	ret->factor[SCH_W_QOS] = q ? normal(q->row->priority, p->qos_max, p->no_normal_qos) : 0;
	uint64_t sum = 0;
	for (int i = 0; i < SCH_WEIGHTS; i++) {
		ret->part[i] =
		    i == SCH_W_TRES ? tres_parts(st, &d, ret->tres) : weigh(p->weight[i], ret->factor[i]);
		sum = mu_fixed_add(sum, ret->part[i]);
	}
	ret->nice = spec->nice;
	ret->site = spec->site_factor;
	int64_t total = (int64_t)(sum > UINT32_MAX ? UINT32_MAX : sum) + ret->site - ret->nice;
	ret->priority = total < 1 ? 1 : total > UINT32_MAX - 2 ? UINT32_MAX - 2 : (uint32_t)total;
}

/* ---- anew, from time to time ---- */

int64_t sch__priorities_due(const struct sch_state *st)
{
	const struct sch_policy *p = &st->accounts.policy;
	if (!p->multifactor || !sch_founded(st))
		return 0;
	if (st->cluster->priority_cursor)
		return st->cluster->now_usec;
	if (!st->pending)
		return 0;
	return st->cluster->priority_usec + (p->calc_usec > SCH_USEC ? p->calc_usec : SCH_USEC);
}

static void renew(struct sch_state *st, struct sch_job *j)
{
	mu_arena_reset(&st->scratch->read);
	const Mu__JobSpec *spec = sch__spec_open(j->spec, &st->scratch->read);
	struct sch_factors f;
	sch__factors(st, j, sch__first_part(st, j), spec, &f);
	if (f.priority == j->priority)
		return;
	sch__queue_out(st, j);
	j->priority = f.priority;
	sch__queue_in(st, j);
	sch__touch(st, &j->rec);
}

void sch__priorities_tick(struct sch_ev *ev)
{
	struct sch_state *st = ev->st;
	Mu__ClusterRow *c = st->cluster;
	int64_t due = sch__priorities_due(st);
	if (!due || due > ev->now)
		return;
	if (!c->priority_cursor) {
		c->priority_usec = ev->now;
		sch__fair(st);
	}
	uint64_t id = 0;
	struct sch_job *j = mu_map_next_u64(&st->jobs, (uint64_t)c->priority_cursor + 1, &id);
	for (uint32_t i = 0; i < PRIORITIES_PER_TICK && j; i++) {
		if (j->state == JOB_PENDING && j->priority && !j->priority_fixed)
			renew(st, j);
		c->priority_cursor = j->id;
		j = mu_map_next_u64(&st->jobs, id + 1, &id);
	}
	if (!j)
		c->priority_cursor = 0;
	st->cluster->priority_usec = c->priority_usec;
}
