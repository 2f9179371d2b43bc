/* sched/fairshare.c: what was used, and who is owed most. Usage is folded lazily: an amount stands for a
 * moment, and what it is later follows from what runs (the tally's rates), the half-life and the reset
 * period, in integers. So nothing walks the tree because time went by: amounts move when something starts or
 * stops below them, or when the rules change. Factors are those of the fair tree: at each level siblings are
 * ordered by shares over usage, and users get their rank in the walk. */
#include "sched/state.h"

#include <assert.h>
#include <stdlib.h>

#include "proto/conf.h"

/* ---- the configuration ---- */

/* "7-00:00:00", "00:05:00" as the configuration shows spans. */
int64_t sch__conf_span_usec(const Mu__Config *c, const char *key, int64_t otherwise)
{
	const char *text = mu_conf_get(c, key, NULL);
	int64_t days = 0, sec = 0;
	if (!text)
		return otherwise * SCH_USEC;
	const char *dash = strchr(text, '-');
	if (dash) {
		days = strtoll(text, NULL, 10);
		text = dash + 1;
	}
	for (const char *p = text; *p; p = strchr(p, ':') ? strchr(p, ':') + 1 : "")
		sec = sec * 60 + strtoll(p, NULL, 10);
	return (days * 86400 + sec) * SCH_USEC;
}

static void tres_weights(struct sch_state *st, const char *text)
{
	struct sch_policy *p = &st->accounts.policy;
	memset(p->tres_weight, 0, sizeof(p->tres_weight));
	p->weight[SCH_W_TRES] = 0;
	while (text && *text) {
		char name[128];
		size_t n = strcspn(text, ","), k = strcspn(text, "=,");
		if (k < n && k < sizeof(name)) {
			for (size_t i = 0; i < k; i++)
				name[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]);
			name[k] = 0;
			uint32_t tres = sch__tres(st, name);
			if (tres < SCH_TRES_MAX)
				p->tres_weight[tres] = strtoull(text + k + 1, NULL, 10);
			p->weight[SCH_W_TRES] = 1;
		}
		text += n + (text[n] == ',');
	}
}

static void read_weights(struct sch_state *st, const Mu__Config *c)
{
	static const struct {
		enum sch_weight w;
		const char *key;
	} keys[] = {{SCH_W_AGE, "PriorityWeightAge"},	     {SCH_W_ASSOC, "PriorityWeightAssoc"},
		    {SCH_W_FAIR, "PriorityWeightFairshare"}, {SCH_W_SIZE, "PriorityWeightJobSize"},
		    {SCH_W_PART, "PriorityWeightPartition"}, {SCH_W_QOS, "PriorityWeightQOS"}};
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		st->accounts.policy.weight[keys[i].w] = strtoull(mu_conf_get(c, keys[i].key, "0"), NULL, 10);
	tres_weights(st, mu_conf_get(c, "PriorityWeightTRES", NULL));
}

void sch__policy_node(struct sch_state *st, const struct sch_node *n, int sign)
{
	struct sch_policy *p = &st->accounts.policy;
	uint64_t by = (uint64_t)(int64_t)sign;
	p->total[SCH_TRES_CPU] += by * n->row->cpus;
	p->total[SCH_TRES_BILLING] += by * n->row->cpus;
	p->total[SCH_TRES_MEM] += by * n->row->real_memory_mib;
	for (size_t g = 0; g < n->row->n_gres; g++) {
		char name[SCH_TRES_NAME];
		sch__tres_gres(name, n->row->gres[g]->name, NULL);
		uint32_t tres = sch__tres(st, name);
		if (tres < SCH_TRES_MAX)
			p->total[tres] += by * n->row->gres[g]->count;
	}
}

/* Largest values and totals, by which factors are normalised. */
static void read_maxima(struct sch_state *st)
{
	struct sch_policy *p = &st->accounts.policy;
	const uint8_t *key = NULL;
	size_t len = 0;
	p->part_max = p->qos_max = p->assoc_max = 0;
	for (uint32_t i = 0; i < st->part_count; i++) {
		const Mu__PartitionConf *c = st->part[i]->row->conf;
		uint32_t f = c->has_priority_job_factor ? c->priority_job_factor : 1;
		p->part_max = f > p->part_max ? f : p->part_max;
	}
	for (struct sch_qos *q = mu_map_seek(&st->accounts.qos, NULL, 0, 0, &key, &len); q;
	     q = mu_map_seek(&st->accounts.qos, key, len, 1, &key, &len))
		p->qos_max = q->row->priority > p->qos_max ? q->row->priority : p->qos_max;
	for (uint32_t i = 0; i < st->accounts.tree_count; i++)
		if (st->accounts.tree[i]->row->priority > p->assoc_max)
			p->assoc_max = st->accounts.tree[i]->row->priority;
	memset(p->total, 0, sizeof(p->total));
	p->total[SCH_TRES_NODE] = st->node_count;
	for (uint32_t i = 0; i < st->node_count; i++)
		sch__policy_node(st, st->node[i], 1);
}

void sch__policy(struct sch_state *st)
{
	static const char *const resets[] = {"NONE", "DAILY", "WEEKLY", "MONTHLY", "QUARTERLY", "YEARLY"};
	const Mu__Config *c = sch__conf(st);
	struct sch_policy *p = &st->accounts.policy;
	const char *enforce = mu_conf_get(c, "AccountingStorageEnforce", "none");
	const char *flags = mu_conf_get(c, "PriorityFlags", "");
	bool all = sch__has_word(enforce, "all");
	sch__tres(st, "cpu");
	p->safe = all || sch__has_word(enforce, "safe");
	p->limits = p->safe || sch__has_word(enforce, "limits");
	p->qos = all || sch__has_word(enforce, "qos");
	p->associations =
	    p->limits || p->qos || sch__has_word(enforce, "associations") || sch__has_word(enforce, "wckeys");
	p->multifactor = c->priority_type && strcmp(c->priority_type, "priority/multifactor") == 0;
	p->favor_small = mu_conf_on(c, "PriorityFavorSmall", 0);
	p->accrue_always = sch__has_word(flags, "ACCRUE_ALWAYS");
	p->small_relative = sch__has_word(flags, "SMALL_RELATIVE_TO_TIME");
	p->no_normal_part = sch__has_word(flags, "NO_NORMAL_ALL") || sch__has_word(flags, "NO_NORMAL_PART");
	p->no_normal_qos = sch__has_word(flags, "NO_NORMAL_ALL") || sch__has_word(flags, "NO_NORMAL_QOS");
	p->no_normal_assoc = sch__has_word(flags, "NO_NORMAL_ALL") || sch__has_word(flags, "NO_NORMAL_ASSOC");
	p->max_age_usec = sch__conf_span_usec(c, "PriorityMaxAge", 7 * 86400);
	p->half_life_usec = sch__conf_span_usec(c, "PriorityDecayHalfLife", 7 * 86400);
	p->calc_usec = sch__conf_span_usec(c, "PriorityCalcPeriod", 300);
	const char *reset = mu_conf_get(c, "PriorityUsageResetPeriod", "NONE");
	p->reset = SCH_RESET_NONE;
	for (size_t i = 0; i < sizeof(resets) / sizeof(resets[0]); i++)
		if (strcasecmp(reset, resets[i]) == 0)
			p->reset = i;
	read_weights(st, c);
	read_maxima(st);
	sch__limits_timed(st);
}

/* ---- usage ---- */

/* Year and month (from 0) of a day since 1970. */
static void civil(int64_t day, int64_t *ret_year, int64_t *ret_month, int64_t *ret_day)
{
	int64_t z = day + 719468, era = z / 146097, doe = z - era * 146097;
	int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
	*ret_day = doy - (153 * mp + 2) / 5;
	*ret_month = mp < 10 ? mp + 2 : mp - 10;
	*ret_year = yoe + era * 400 + (*ret_month < 2);
}

static int64_t day_of(int64_t year, int64_t month)
{
	int64_t y = year - (month < 2), era = y / 400, yoe = y - era * 400,
		mp = month < 2 ? month + 10 : month - 2;
	int64_t doy = (153 * mp + 2) / 5, doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
	return era * 146097 + doe - 719468;
}

/* When the period that holds NOW began, in UTC; 0: there are no periods. */
static int64_t period_start(const struct sch_policy *p, int64_t now)
{
	int64_t day = now / (86400 * SCH_USEC), year, month, in_month;
	civil(day, &year, &month, &in_month);
	switch (p->reset) {
	case SCH_RESET_NONE:
		return 0;
	case SCH_RESET_DAILY:
		break;
	case SCH_RESET_WEEKLY:
		day -= (day + 4) % 7; /* Day 0 was a Thursday; weeks begin on Sunday. */
		break;
	case SCH_RESET_MONTHLY:
		day = day_of(year, month);
		break;
	case SCH_RESET_QUARTERLY:
		day = day_of(year, month - month % 3);
		break;
	case SCH_RESET_YEARLY:
		day = day_of(year, 0);
		break;
	}
	return day * 86400 * SCH_USEC;
}

void sch__usage_at(const struct sch_state *st, const struct sch_usage *u, const struct sch_tally *t,
		   bool decays, int64_t now, uint64_t *ret, uint32_t count)
{
	const struct sch_policy *p = &st->accounts.policy;
	uint64_t half = decays ? (uint64_t)p->half_life_usec : 0;
	int64_t from = u->usec ? u->usec : now, start = decays ? period_start(p, now) : 0;
	bool fresh = start > from;
	uint64_t span = now > (fresh ? start : from) ? (uint64_t)(now - (fresh ? start : from)) : 0;
	uint64_t left = mu_fixed_left(span, half), counted = mu_fixed_decayed_span(span, half);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t old = i < u->count && !fresh ? u->amount[i] : 0;
		uint64_t rate = i < t->count ? t->item[i].rate : 0;
		if (half)
			old = mu_fixed_scale(old, left);
		ret[i] = mu_fixed_add(old, mu_fixed_muldiv(rate, counted, (uint64_t)SCH_USEC));
	}
}

void sch__usage_settle(struct sch_state *st, struct sch_usage *u, const struct sch_tally *t, bool decays)
{
	int64_t now = st->cluster->now_usec;
	uint32_t count = u->count > t->count ? u->count : t->count;
	uint64_t amount[SCH_TRES_MAX];
	if (st->loading)
		return;
	assert(count <= SCH_TRES_MAX);
	sch__usage_at(st, u, t, decays, now, amount, count);
	u->usec = now;
	if (count > u->count) {
		u->amount = sch__grow(st, u->amount, u->count * sizeof(uint64_t), count * sizeof(uint64_t));
		u->count = count;
	}
	if (count)
		memcpy(u->amount, amount, count * sizeof(amount[0]));
}

bool sch__qos_flag(const struct sch_qos *q, const char *flag)
{
	for (size_t i = 0; q && i < q->row->n_flag; i++)
		if (strcasecmp(q->row->flag[i], flag) == 0)
			return true;
	return false;
}

void sch__usage_settle_all(struct sch_state *st)
{
	const uint8_t *key = NULL;
	size_t len = 0;
	for (uint32_t i = 0; i < st->accounts.tree_count; i++) {
		struct sch_assoc *a = st->accounts.tree[i];
		sch__usage_settle(st, &a->usage, &a->tally, true);
		sch__touch(st, &a->rec);
	}
	for (struct sch_qos *q = mu_map_seek(&st->accounts.qos, NULL, 0, 0, &key, &len); q;
	     q = mu_map_seek(&st->accounts.qos, key, len, 1, &key, &len)) {
		sch__usage_settle(st, &q->usage, &q->tally, !sch__qos_flag(q, "NoDecay"));
		sch__touch(st, &q->rec);
	}
}

/* ---- the fair tree ---- */

struct fair {
	struct sch_assoc *a;
	uint64_t usage, level; /* level: shares over usage, in 2^-16 */
	bool none;	       /* no shares, here or above */
};

static uint64_t usage_of(const struct sch_state *st, const struct sch_assoc *a)
{
	uint64_t amount[SCH_TRES_BILLING + 1];
	sch__usage_at(st, &a->usage, &a->tally, true, st->cluster->now_usec, amount, SCH_TRES_BILLING + 1);
	return amount[SCH_TRES_BILLING];
}

static uint32_t shares_of(const struct sch_assoc *a)
{
	if (!a->row->has_shares)
		return 1;
	return a->row->shares;
}

/* S / U of A among its siblings: (shares / their sum) / (usage / theirs), UINT64_MAX without usage. */
static uint64_t level_of(uint64_t shares, uint64_t all_shares, uint64_t usage, uint64_t all_usage)
{
	if (!shares)
		return 0;
	if (!usage)
		return UINT64_MAX;
	uint64_t s = mu_fixed_muldiv(shares, MU_FIXED_ONE, all_shares), u = mu_fixed_ratio(usage, all_usage);
	if (!u)
		return UINT64_MAX - 1;
	uint64_t level = mu_fixed_muldiv(s, 65536, u);
	return level < UINT64_MAX - 1 ? level : UINT64_MAX - 1;
}

static int by_level(const void *x, const void *y)
{
	const struct fair *a = x, *b = y;
	if (a->level != b->level)
		return a->level > b->level ? -1 : 1;
	return a->a->order < b->a->order ? -1 : a->a->order > b->a->order;
}

/* Children of one parent, with their levels. */
static size_t children(const struct sch_state *st, const struct sch_assoc *parent, bool none, uint64_t above,
		       struct fair *ret)
{
	uint64_t shares = 0, usage = 0;
	for (uint32_t i = 0; i < parent->child_count; i++) {
		struct sch_assoc *c = parent->child[i];
		ret[i] = (struct fair){.a = c, .usage = usage_of(st, c), .none = none};
		usage = mu_fixed_add(usage, ret[i].usage);
		shares += shares_of(c) == SCH_SHARES_PARENT ? 0 : shares_of(c);
	}
	for (uint32_t i = 0; i < parent->child_count; i++) {
		uint32_t own = shares_of(ret[i].a);
		ret[i].level = own == SCH_SHARES_PARENT ? above : level_of(own, shares, ret[i].usage, usage);
		ret[i].none = ret[i].none || own == 0;
		ret[i].a->level_fs = ret[i].level;
	}
	return parent->child_count;
}

static bool is_user(const struct sch_assoc *a)
{
	return a->row->user && *a->row->user;
}

static void set_fair(struct sch_state *st, struct sch_assoc *a, uint64_t fair)
{
	if (a->row->fair == fair)
		return;
	SCH_SET(a->row, fair, fair);
	sch__touch(st, &a->rec);
}

struct ranks {
	uint64_t users, seen, rank; /* rank: of the last level */
};

/* Users of LIST[0..N), which are sorted, get their ranks; accounts of one level are taken together. */
static void rank_level(struct sch_state *st, struct fair *list, size_t n, struct ranks *r)
{
	for (size_t i = 0; i < n;) {
		size_t end = i, below = 0;
		while (end < n && list[end].level == list[i].level)
			end++;
		uint64_t rank = r->users - r->seen; /* Equal ones share it. */
		for (size_t k = i; k < end; k++) {
			below += is_user(list[k].a) ? 0 : list[k].a->child_count;
			if (!is_user(list[k].a))
				continue;
			set_fair(st, list[k].a, list[k].none ? 0 : mu_fixed_ratio(rank, r->users));
			r->seen++;
		}
		struct fair *next = sch__alloc(st, (below + 1) * sizeof(*next));
		size_t count = 0;
		for (size_t k = i; k < end; k++)
			if (!is_user(list[k].a))
				count += children(st, list[k].a, list[k].none, list[k].level, next + count);
		if (count > 1)
			qsort(next, count, sizeof(*next), by_level);
		rank_level(st, next, count, r);
		sch__free(st, next, (below + 1) * sizeof(*next));
		i = end;
	}
}

void sch__fair(struct sch_state *st)
{
	struct sch_accounts *c = &st->accounts;
	struct ranks r = {0};
	if (!c->tree_count)
		return;
	for (uint32_t i = 0; i < c->tree_count; i++)
		r.users += is_user(c->tree[i]);
	struct fair root = {.a = c->tree[0], .level = UINT64_MAX};
	rank_level(st, &root, 1, &r);
}
