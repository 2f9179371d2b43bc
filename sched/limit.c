/* sched/limit.c: what jobs hold, counted where limits look, and the limits.
 *
 * Of limits per job, per node and of the wall the first that says something holds, in this order: partition's
 * QOS, job's QOS (the other way round with its flag OverPartQOS), the user's association, accounts upwards.
 * Limits of a group hold at every level at once. */
#include "sched/state.h"

#include <assert.h>
#include <stdlib.h>

#include "proto/conf.h"

#define UNLIMITED_SEC (INT64_C(365) * 86400)
#define MINUTE_USEC (60 * SCH_USEC)

/* ---- demands ---- */

static void want(const struct sch_state *st, struct sch_demand *d, const char *name, int64_t total,
		 int64_t node)
{
	uint32_t tres = sch__tres_known(st, name);
	if (tres == SCH_TRES_MAX)
		return; /* No limit and no weight knows it. */
	d->v[tres] += total;
	if (node > d->node[tres])
		d->node[tres] = node;
}

static void want_gres(const struct sch_state *st, struct sch_demand *d, const char *name, const char *type,
		      int64_t total, int64_t node)
{
	char text[SCH_TRES_NAME];
	sch__tres_gres(text, name, NULL);
	want(st, d, text, total, node);
	if (!type || !*type)
		return;
	sch__tres_gres(text, name, type);
	want(st, d, text, total, node);
}

/* Devices that are held are counted, limited or not: a limit may come while they are. */
static void know_devices(struct sch_state *st, const struct sch_job *j)
{
	char text[SCH_TRES_NAME];
	for (uint32_t i = 0; i < j->run->alloc_count; i++)
		for (uint32_t g = 0; g < j->run->alloc[i].got_count; g++) {
			const struct sch_got *got = &j->run->alloc[i].got[g];
			sch__tres_gres(text, sch__text(got->name), NULL);
			sch__tres(st, text);
			sch__tres_gres(text, sch__text(got->name), sch__text(got->type));
			sch__tres(st, text);
		}
}

static void want_plain(struct sch_demand *d, int64_t nodes, int64_t cpus, int64_t mem)
{
	d->v[SCH_TRES_CPU] = cpus;
	d->v[SCH_TRES_MEM] = mem;
	d->v[SCH_TRES_NODE] = nodes;
	d->v[SCH_TRES_WALL] = 1;
	d->node[SCH_TRES_CPU] = nodes ? (cpus + nodes - 1) / nodes : cpus;
	d->node[SCH_TRES_MEM] = nodes ? (mem + nodes - 1) / nodes : mem;
	d->node[SCH_TRES_NODE] = 1;
}

static const char *extra_value(const Mu__PartitionConf *c, const char *key)
{
	for (size_t i = 0; i < c->n_extra; i++)
		if (c->extra[i]->key && strcasecmp(c->extra[i]->key, key) == 0)
			return c->extra[i]->value;
	return NULL;
}

/* "0.25" in thousandths. */
static uint64_t milli(const char *text, const char **ret_end)
{
	char *end;
	uint64_t v = strtoull(text, &end, 10) * 1000, place = 100;
	if (*end == '.')
		for (end++; *end >= '0' && *end <= '9'; end++, place /= 10)
			v += (uint64_t)(*end - '0') * place;
	*ret_end = end;
	return v;
}

/* TRESBillingWeights=CPU=1.0,Mem=0.25G,GRES/gpu=2.0 of the partition; without them a job is billed its CPUs.
 */
static uint64_t billing(const struct sch_state *st, const struct sch_part *p, const struct sch_demand *d)
{
	const char *text = p ? extra_value(p->row->conf, "TRESBillingWeights") : NULL;
	uint64_t sum = 0;
	if (!text || !*text)
		return (uint64_t)d->v[SCH_TRES_CPU];
	while (*text) {
		char name[128];
		size_t n = strcspn(text, ","), k = strcspn(text, "=,");
		const char *end;
		if (k < n && k < sizeof(name)) {
			for (size_t i = 0; i < k; i++)
				name[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]);
			name[k] = 0;
			uint32_t tres = sch__tres_known(st, name);
			uint64_t weight = milli(text + k + 1, &end);
			uint64_t unit = tres != SCH_TRES_MEM	     ? 1
					: *end == 'G' || *end == 'g' ? 1024
					: *end == 'T' || *end == 't' ? 1024 * 1024
								     : 1;
			if (tres < SCH_TRES_MAX)
				sum = mu_fixed_add(sum, mu_fixed_muldiv(weight, (uint64_t)d->v[tres], unit));
		}
		text += n + (text[n] == ',');
	}
	return sum / 1000;
}

static void bill(const struct sch_state *st, const struct sch_part *p, struct sch_demand *d)
{
	d->v[SCH_TRES_BILLING] = (int64_t)(billing(st, p, d) & INT64_MAX);
	d->node[SCH_TRES_BILLING] = d->v[SCH_TRES_BILLING];
}

void sch__demand_waiting(const struct sch_state *st, const struct sch_job *j, const struct sch_part *p,
			 struct sch_demand *ret)
{
	int64_t nodes = j->nodes_min ? j->nodes_min : 1;
	uint64_t cpus = (uint64_t)(j->ntasks > j->nodes_min ? j->ntasks : j->nodes_min) * j->cpus_per_task;
	memset(ret, 0, sizeof(*ret));
	want_plain(ret, nodes, (int64_t)cpus,
		   (int64_t)(j->mem_cpu_mib ? j->mem_cpu_mib * cpus : j->mem_node_mib * (uint64_t)nodes));
	for (uint32_t i = 0; j->shape && i < j->shape->ask_count; i++)
		want_gres(st, ret, j->shape->ask[i].name->text, sch__text(j->shape->ask[i].type),
			  (int64_t)j->shape->ask[i].count * nodes, (int64_t)j->shape->ask[i].count);
	for (uint32_t i = 0; j->shape && i < j->shape->task_ask_count; i++) {
		int64_t all = (int64_t)j->shape->task_ask[i].count * j->ntasks;
		want_gres(st, ret, j->shape->task_ask[i].name->text, sch__text(j->shape->task_ask[i].type),
			  all, (all + nodes - 1) / nodes);
	}
	if (j->shape && j->shape->job_gpus)
		want_gres(st, ret, "gpu", sch__text(j->shape->job_gpu_type), j->shape->job_gpus,
			  (j->shape->job_gpus + nodes - 1) / nodes);
	bill(st, p, ret);
}

static void demand_spec(const struct sch_state *st, const Mu__JobSpec *spec, const struct sch_want *w,
			struct sch_demand *ret)
{
	int64_t nodes = w->nodes_min ? w->nodes_min : 1;
	memset(ret, 0, sizeof(*ret));
	want_plain(
	    ret, nodes, w->cpus_total,
	    (int64_t)(w->mem_cpu_mib ? w->mem_cpu_mib * w->cpus_total : w->mem_node_mib * (uint64_t)nodes));
	for (size_t i = 0; i < spec->n_gres; i++)
		want_gres(st, ret, spec->gres[i]->name, spec->gres[i]->type,
			  (int64_t)spec->gres[i]->count * nodes, (int64_t)spec->gres[i]->count);
	for (size_t i = 0; i < spec->n_gres_task; i++) {
		int64_t all = (int64_t)spec->gres_task[i]->count * w->ntasks;
		want_gres(st, ret, spec->gres_task[i]->name, spec->gres_task[i]->type, all,
			  (all + nodes - 1) / nodes);
	}
	if (w->job_gpus)
		want_gres(st, ret, "gpu", spec->n_gres_job ? spec->gres_job[0]->type : NULL, w->job_gpus,
			  (w->job_gpus + nodes - 1) / nodes);
	bill(st, w->part[0], ret);
}

static void add_node(struct sch_demand *d, uint32_t cpus, uint64_t mem)
{
	d->v[SCH_TRES_CPU] += cpus;
	d->v[SCH_TRES_MEM] += (int64_t)mem;
	d->v[SCH_TRES_NODE]++;
	d->v[SCH_TRES_WALL] = 1;
	d->node[SCH_TRES_NODE] = 1;
	if (cpus > d->node[SCH_TRES_CPU])
		d->node[SCH_TRES_CPU] = cpus;
	if ((int64_t)mem > d->node[SCH_TRES_MEM])
		d->node[SCH_TRES_MEM] = (int64_t)mem;
}

void sch__demand_rows(const struct sch_state *st, const struct sch_job *j, const struct sch_part *p,
		      Mu__AllocNode *const *rows, size_t count, struct sch_demand *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < count; i++) {
		add_node(ret, rows[i]->cpus, rows[i]->mem_mib);
		for (size_t g = 0; g < rows[i]->n_gres; g++)
			want_gres(st, ret, rows[i]->gres[g]->name, rows[i]->gres[g]->type,
				  (int64_t)rows[i]->gres[g]->count, (int64_t)rows[i]->gres[g]->count);
	}
	bill(st, p, ret);
}

static void demand_allocs(const struct sch_state *st, const struct sch_alloc *a, uint32_t count,
			  struct sch_demand *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (uint32_t i = 0; i < count; i++) {
		add_node(ret, a[i].cpus, a[i].mem_mib);
		for (uint32_t g = 0; g < a[i].got_count; g++)
			want_gres(st, ret, sch__text(a[i].got[g].name), sch__text(a[i].got[g].type),
				  (int64_t)a[i].got[g].count, (int64_t)a[i].got[g].count);
	}
}

void sch__demand_allocs(const struct sch_state *st, const struct sch_part *p, const struct sch_alloc *a,
			uint32_t count, struct sch_demand *ret)
{
	demand_allocs(st, a, count, ret);
	bill(st, p, ret);
}

void sch__demand_running(const struct sch_state *st, const struct sch_job *j, struct sch_demand *ret)
{
	demand_allocs(st, j->run->alloc, j->run->alloc_count, ret);
	ret->v[SCH_TRES_BILLING] = ret->node[SCH_TRES_BILLING] = (int64_t)j->billing;
}

/* ---- where a job counts ---- */

/* One tally, with what limits and usage go with it. */
struct spot {
	char kind; /* A association, Q QOS, U user in a QOS, C account in a QOS */
	uint32_t id;
	const char *name;
	struct sch_tally *tally; /* NULL: nothing counted yet */
	const struct sch_caps *caps;
	struct sch_usage *usage; /* of A and Q */
	struct sch_rec *rec;
	struct sch_qos *qos;
	bool leaf;
};
enum { SPOTS = SCH_TREE_DEPTH_MAX + 2 + 6 };

static uint32_t qos_spots(struct sch_qos *q, const char *user, const char *account, struct spot *v)
{
	uint32_t n = 0;
	if (!q)
		return 0;
	v[n++] = (struct spot){.kind = 'Q',
			       .id = q->row->id,
			       .tally = &q->tally,
			       .caps = &q->caps,
			       .usage = &q->usage,
			       .rec = &q->rec,
			       .qos = q};
	if (user)
		v[n++] = (struct spot){.kind = 'U',
				       .id = q->row->id,
				       .name = user,
				       .tally = mu_map_get_str(&q->by_user, user),
				       .caps = &q->caps,
				       .qos = q};
	if (account)
		v[n++] = (struct spot){.kind = 'C',
				       .id = q->row->id,
				       .name = account,
				       .tally = mu_map_get_str(&q->by_account, account),
				       .caps = &q->caps,
				       .qos = q};
	return n;
}

/* In the order in which limits count. */
static uint32_t spots(const struct sch_state *st, uint32_t assoc, const char *qos, const char *part_qos,
		      const char *user, const char *account, struct spot *v)
{
	struct sch_qos *own = sch__qos(st, qos), *part = sch__qos(st, part_qos);
	uint32_t n = 0;
	if (part == own)
		part = NULL;
	if (sch__qos_flag(own, "OverPartQOS")) {
		n += qos_spots(own, user, account, v + n);
		n += qos_spots(part, user, account, v + n);
	} else {
		n += qos_spots(part, user, account, v + n);
		n += qos_spots(own, user, account, v + n);
	}
	bool leaf = true;
	for (struct sch_assoc *a = sch__assoc(st, assoc); a && n < SPOTS; a = a->parent, leaf = false)
		v[n++] = (struct spot){.kind = 'A',
				       .id = a->row->id,
				       .tally = &a->tally,
				       .caps = &a->caps,
				       .usage = &a->usage,
				       .rec = &a->rec,
				       .leaf = leaf};
	return n;
}

static struct sch_tally *tally_of(struct sch_state *st, struct spot *s)
{
	if (s->tally)
		return s->tally;
	s->tally = sch__alloc(st, sizeof(*s->tally));
	mu_map_put_str(s->kind == 'U' ? &s->qos->by_user : &s->qos->by_account, s->name, s->tally);
	return s->tally;
}

static void tally_drop(struct sch_state *st, struct spot *s)
{
	struct sch_tally *t = s->tally;
	if (s->usage || t->jobs || t->submits)
		return;
	mu_map_del_str(s->kind == 'U' ? &s->qos->by_user : &s->qos->by_account, s->name);
	sch__free(st, t->item, t->count * sizeof(t->item[0]));
	sch__free(st, t, sizeof(*t));
}

void sch__count_submit(struct sch_state *st, const struct sch_job *j, int sign)
{
	struct spot v[SPOTS];
	uint32_t size = sch__job_size(j);
	uint32_t n =
	    spots(st, j->assoc, sch__text(j->qos), NULL, sch__text(j->who->user), sch__text(j->account), v);
	for (uint32_t i = 0; i < n; i++) {
		struct sch_tally *t = tally_of(st, &v[i]);
		assert(sign > 0 || t->submits >= size);
		t->submits = sign > 0 ? t->submits + size : t->submits - size;
		tally_drop(st, &v[i]);
	}
}

static int64_t end_sec(int64_t now_usec, int64_t limit_sec)
{
	return now_usec / SCH_USEC + (limit_sec < 0 ? UNLIMITED_SEC : limit_sec);
}

/* Amounts are thousandths; of memory the unit itself, which is large. */
static uint64_t rate(uint32_t tres, int64_t held, uint32_t factor_milli)
{
	return mu_fixed_muldiv((uint64_t)held, factor_milli, tres == SCH_TRES_MEM ? 1000 : 1);
}

/* What of T moves with time. */
static void tally_pace(struct sch_tally *t, const struct sch_demand *d, uint32_t factor, int64_t end,
		       int sign)
{
	for (uint32_t i = 0; i < t->count; i++) {
		if (!d->v[i])
			continue;
		t->item[i].end += (__int128)end * d->v[i] * sign;
		if (sign > 0)
			t->item[i].rate += rate(i, d->v[i], factor);
		else
			t->item[i].rate -= rate(i, d->v[i], factor);
	}
}

static void tally_add(struct sch_state *st, struct sch_tally *t, const struct sch_demand *d, uint32_t factor,
		      int64_t end, int sign)
{
	uint32_t count = st->accounts.tres_count;
	if (t->count < count) {
		t->item = sch__grow(st, t->item, t->count * sizeof(t->item[0]), count * sizeof(t->item[0]));
		t->count = count;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (!d->v[i])
			continue;
		t->item[i].used += sign * d->v[i];
		assert(t->item[i].used >= 0);
	}
	tally_pace(t, d, factor, end, sign);
	assert(sign > 0 || t->jobs > 0);
	t->jobs += (uint32_t)sign;
}

/* What the start fixes: it must be the same when the job leaves. */
static void fix(struct sch_state *st, struct sch_job *j)
{
	const struct sch_part *p = sch__part(st, sch__text(j->partition));
	const struct sch_qos *q = sch__qos(st, sch__text(j->qos));
	struct sch_demand d;
	demand_allocs(st, j->run->alloc, j->run->alloc_count, &d);
	j->billing = billing(st, p, &d);
	j->usage_factor_milli = q && q->row->has_usage_factor_milli ? q->row->usage_factor_milli : 1000;
	sch__str_set(st, &j->part_qos, p ? p->row->conf->qos : NULL);
}

void sch__count_running(struct sch_state *st, struct sch_job *j, int sign)
{
	struct spot v[SPOTS];
	struct sch_demand d;
	assert(j->tallied == (sign < 0));
	j->tallied = sign > 0;
	if (sign > 0)
		know_devices(st, j);
	if (sign > 0 && !st->loading)
		fix(st, j);
	uint32_t n = spots(st, j->assoc, sch__text(j->qos), sch__text(j->part_qos), sch__text(j->who->user),
			   sch__text(j->account), v);
	sch__demand_running(st, j, &d);
	for (uint32_t i = 0; i < n; i++) {
		struct sch_tally *t = tally_of(st, &v[i]);
		if (v[i].usage && !st->loading) {
			sch__usage_settle(st, v[i].usage, t,
					  v[i].kind == 'A' || !sch__qos_flag(v[i].qos, "NoDecay"));
			sch__touch(st, v[i].rec);
		}
		tally_add(st, t, &d, j->usage_factor_milli, end_sec(sch__run_since(j), j->time_limit_sec),
			  sign);
		tally_drop(st, &v[i]);
	}
	if (sign < 0 && !st->loading && st->accounts.policy.limits)
		sch__wake(st); /* Limits let go at the end, before any node does. */
}

void sch__count_pause(struct sch_state *st, struct sch_job *j, int sign)
{
	struct spot v[SPOTS];
	struct sch_demand d;
	assert(j->tallied);
	uint32_t n = spots(st, j->assoc, sch__text(j->qos), sch__text(j->part_qos), sch__text(j->who->user),
			   sch__text(j->account), v);
	sch__demand_running(st, j, &d);
	for (uint32_t i = 0; i < n; i++) {
		struct sch_tally *t = v[i].tally;
		assert(t);
		if (v[i].usage && !st->loading) {
			sch__usage_settle(st, v[i].usage, t,
					  v[i].kind == 'A' || !sch__qos_flag(v[i].qos, "NoDecay"));
			sch__touch(st, v[i].rec);
		}
		tally_pace(t, &d, j->usage_factor_milli, end_sec(sch__run_since(j), j->time_limit_sec),
			   -sign);
		for (uint32_t k = 0; k < t->count; k++)
			t->item[k].still += sign * d.v[k];
	}
}

int64_t sch__tally_ahead(const struct sch_tally *t, uint32_t tres, int64_t now_usec)
{
	if (!t || tres >= t->count)
		return 0;
	__int128 ahead =
	    t->item[tres].end - (__int128)(t->item[tres].used - t->item[tres].still) * (now_usec / SCH_USEC);
	return ahead < 0 ? 0 : ahead > INT64_MAX ? INT64_MAX : (int64_t)ahead;
}

/* ---- what a pass has given ---- */

static size_t extra_key(const struct spot *s, uint8_t key[SCH_KEY_MAX])
{
	size_t len = s->name ? strlen(s->name) : 0;
	len = len < SCH_KEY_MAX - 5 ? len : SCH_KEY_MAX - 5;
	key[0] = (uint8_t)s->kind;
	mu_put_be32(key + 1, s->id);
	if (len)
		memcpy(key + 5, s->name, len);
	return 5 + len;
}

static const struct sch_tally *extra_of(const struct sch_extra *extra, const struct spot *s)
{
	uint8_t key[SCH_KEY_MAX];
	if (!extra || !extra->tally.count)
		return NULL;
	size_t len = extra_key(s, key);
	return mu_map_get(&extra->tally, key, len);
}

void sch__limit_note(const struct sch_state *st, const struct sch_job *j, const struct sch_part *p,
		     const struct sch_demand *d, int64_t limit_sec, int sign, struct sch_extra *extra)
{
	struct spot v[SPOTS];
	uint8_t key[SCH_KEY_MAX];
	if (!st->accounts.policy.limits)
		return;
	uint32_t n = spots(st, j->assoc, sch__text(j->qos), p->row->conf->qos, sch__text(j->who->user),
			   sch__text(j->account), v);
	int64_t end = end_sec(st->cluster->now_usec, limit_sec);
	for (uint32_t i = 0; i < n; i++) {
		size_t len = extra_key(&v[i], key);
		struct sch_tally *t = mu_map_get(&extra->tally, key, len);
		if (!t) {
			t = mu_arena_alloc(extra->arena, sizeof(*t));
			memset(t, 0, sizeof(*t));
			t->count = SCH_TRES_MAX;
			t->item = mu_arena_alloc(extra->arena, SCH_TRES_MAX * sizeof(t->item[0]));
			memset(t->item, 0, SCH_TRES_MAX * sizeof(t->item[0]));
			mu_map_put(&extra->tally, key, len, t);
		}
		t->jobs += (uint32_t)sign;
		for (uint32_t k = 0; k < st->accounts.tres_count; k++) {
			t->item[k].used += sign * d->v[k];
			t->item[k].end += (__int128)end * sign * d->v[k];
		}
	}
}

/* ---- limits ---- */

static const struct {
	uint16_t assoc, qos;
} reasons[SCH_LIMITS] = {
#define MU_LIMIT_PLAIN(id, field, owners, names, heading, width, kind, assoc_reason, qos_reason) \
	[SCH_LIMIT_##id] = {REASON_##assoc_reason, REASON_##qos_reason},
#define MU_LIMIT_TRES(id, field, owners, names, heading, width, assoc_reason, qos_reason) \
	[SCH_LIMIT_##id] = {REASON_##assoc_reason, REASON_##qos_reason},
#include "proto/limits.def"
};

static uint32_t reason_of(const struct sch_state *st, const struct spot *s, uint32_t limit, uint32_t tres)
{
	uint32_t first = s->kind == 'A' ? reasons[limit].assoc : reasons[limit].qos;
	if (tres == SCH_TRES_MAX)
		return first;
	return first + (tres == SCH_TRES_CPU					 ? 0
			: tres == SCH_TRES_MEM					 ? 1
			: tres == SCH_TRES_NODE					 ? 2
			: tres == SCH_TRES_BILLING				 ? 4
			: strncmp(st->accounts.tres_name[tres], "gres/", 5) == 0 ? 3
										 : 5);
}

struct asked {
	const struct sch_state *st;
	const struct sch_demand *d;
	int64_t limit_sec; /* -1: none given, or unlimited */
	bool limit_given;
	const struct sch_extra *extra;
	uint32_t seen[SCH_LIMITS]; /* resources for which a limit of the job has been found: one bit each */
	const struct spot *spot;   /* where the limit lies that holds, */
	struct sch_cap cap;	   /* and which it is */
};

/* The limit that holds, noted for those who ask which. */
static uint32_t holds(struct asked *q, const struct spot *s, uint32_t limit, uint32_t tres, int64_t count)
{
	q->spot = s;
	q->cap = (struct sch_cap){.limit = (uint8_t)limit, .tres = (uint8_t)tres, .count = count};
	return reason_of(q->st, s, limit, tres);
}

static bool first(struct asked *q, uint32_t limit, uint32_t tres)
{
	uint32_t bit = UINT32_C(1) << (tres == SCH_TRES_MAX ? 0 : tres);
	if (q->seen[limit] & bit)
		return false;
	q->seen[limit] |= bit;
	return true;
}

static int64_t seconds(const struct asked *q)
{
	return q->limit_sec < 0 ? UNLIMITED_SEC : q->limit_sec;
}

/* Limits of the job alone: it will never fit, whatever else runs. */
static uint32_t job_alone(struct asked *q, const struct spot *s)
{
	int64_t wall = s->caps->plain[SCH_LIMIT_MAX_WALL];
	if (wall >= 0 && first(q, SCH_LIMIT_MAX_WALL, SCH_TRES_MAX) && q->limit_given && seconds(q) > wall)
		return holds(q, s, SCH_LIMIT_MAX_WALL, SCH_TRES_MAX, wall);
	for (uint32_t i = 0; i < s->caps->count; i++) {
		const struct sch_cap *c = &s->caps->v[i];
		bool over;
		if (c->limit == SCH_LIMIT_MAX_TRES_JOB)
			over = q->d->v[c->tres] > c->count;
		else if (c->limit == SCH_LIMIT_MAX_TRES_NODE)
			over = q->d->node[c->tres] > c->count;
		else if (c->limit == SCH_LIMIT_MIN_TRES_JOB)
			over = q->d->v[c->tres] < c->count;
		else if (c->limit == SCH_LIMIT_MAX_TRES_MINS_JOB)
			over = (__int128)q->d->v[c->tres] * seconds(q) > (__int128)c->count * 60;
		else
			continue;
		if (first(q, c->limit, c->tres) && over)
			return holds(q, s, c->limit, c->tres, c->count);
	}
	return REASON_None;
}

static int64_t held(const struct spot *s, const struct sch_tally *more, uint32_t tres)
{
	return (s->tally && tres < s->tally->count ? s->tally->item[tres].used : 0) +
	       (more ? more->item[tres].used : 0);
}

static uint32_t running(const struct spot *s, const struct sch_tally *more)
{
	return (s->tally ? s->tally->jobs : 0) + (more ? more->jobs : 0);
}

/* What runs in the group may still use, and the job with it, in seconds of the resource. */
static __int128 ahead(const struct asked *q, const struct spot *s, const struct sch_tally *more,
		      uint32_t tres)
{
	int64_t now = q->st->cluster->limits_usec;
	return (__int128)sch__tally_ahead(s->tally, tres, now) + sch__tally_ahead(more, tres, now) +
	       (__int128)q->d->v[tres] * seconds(q);
}

static bool over_minutes(const struct asked *q, const struct spot *s, const struct sch_tally *more,
			 uint32_t tres, int64_t minutes)
{
	static const struct sch_tally none;
	uint64_t amount[SCH_TRES_MAX];
	if (!s->usage || !q->d->v[tres])
		return false;
	sch__usage_at(q->st, s->usage, s->tally ? s->tally : &none,
		      s->kind == 'A' || !sch__qos_flag(s->qos, "NoDecay"), q->st->cluster->limits_usec,
		      amount, tres + 1);
	__int128 sec = tres == SCH_TRES_MEM ? amount[tres] : amount[tres] / 1000;
	if (sec >= (__int128)minutes * 60)
		return true;
	return q->st->accounts.policy.safe && sec + ahead(q, s, more, tres) > (__int128)minutes * 60;
}

static bool cap_over(const struct asked *q, const struct spot *s, const struct sch_tally *more,
		     const struct sch_cap *c)
{
	int64_t wanted = q->d->v[c->tres];
	switch (c->limit) {
	case SCH_LIMIT_GRP_TRES:
		return (s->kind == 'A' || s->kind == 'Q') && wanted &&
		       held(s, more, c->tres) + wanted > c->count;
	case SCH_LIMIT_MAX_TRES_USER:
		return s->kind == 'U' && wanted && held(s, more, c->tres) + wanted > c->count;
	case SCH_LIMIT_MAX_TRES_ACCOUNT:
		return s->kind == 'C' && wanted && held(s, more, c->tres) + wanted > c->count;
	case SCH_LIMIT_GRP_TRES_RUN_MINS:
		return (s->kind == 'A' || s->kind == 'Q') && wanted &&
		       ahead(q, s, more, c->tres) > (__int128)c->count * 60;
	case SCH_LIMIT_MAX_TRES_RUN_MINS_USER:
		return s->kind == 'U' && wanted && ahead(q, s, more, c->tres) > (__int128)c->count * 60;
	case SCH_LIMIT_MAX_TRES_RUN_MINS_ACCOUNT:
		return s->kind == 'C' && wanted && ahead(q, s, more, c->tres) > (__int128)c->count * 60;
	case SCH_LIMIT_GRP_TRES_MINS:
		return (s->kind == 'A' || s->kind == 'Q') && over_minutes(q, s, more, c->tres, c->count);
	default:
		return false;
	}
}

/* Of a group: each level must have room. */
static uint32_t group(struct asked *q, const struct spot *s)
{
	static const struct {
		char kind;
		uint8_t limit;
	} counts[] = {{'A', SCH_LIMIT_GRP_JOBS},
		      {'Q', SCH_LIMIT_GRP_JOBS},
		      {'U', SCH_LIMIT_MAX_JOBS_USER},
		      {'C', SCH_LIMIT_MAX_JOBS_ACCOUNT}};
	const struct sch_tally *more = extra_of(q->extra, s);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		int64_t cap = s->caps->plain[counts[i].limit];
		if (s->kind == counts[i].kind && cap >= 0 && running(s, more) >= cap)
			return holds(q, s, counts[i].limit, SCH_TRES_MAX, cap);
	}
	int64_t wall = s->caps->plain[SCH_LIMIT_GRP_WALL];
	if (wall >= 0 && (s->kind == 'A' || s->kind == 'Q') &&
	    over_minutes(q, s, more, SCH_TRES_WALL, wall / 60))
		return holds(q, s, SCH_LIMIT_GRP_WALL, SCH_TRES_MAX, wall);
	for (uint32_t i = 0; i < s->caps->count; i++)
		if (cap_over(q, s, more, &s->caps->v[i]))
			return holds(q, s, s->caps->v[i].limit, s->caps->v[i].tres, s->caps->v[i].count);
	return REASON_None;
}

/* MaxJobs of a user's association: the nearest upwards that says so. */
static uint32_t own_jobs(struct asked *q, const struct spot *v, uint32_t n)
{
	const struct spot *leaf = NULL;
	for (uint32_t i = 0; i < n; i++) {
		if (v[i].kind != 'A')
			continue;
		leaf = leaf ? leaf : &v[i];
		int64_t cap = v[i].caps->plain[SCH_LIMIT_MAX_JOBS];
		if (cap < 0)
			continue;
		if (running(leaf, extra_of(q->extra, leaf)) < cap)
			return REASON_None;
		return holds(q, leaf, SCH_LIMIT_MAX_JOBS, SCH_TRES_MAX, cap);
	}
	return REASON_None;
}

/* The first limit of V that holds. */
static uint32_t look(struct asked *q, const struct spot *v, uint32_t n)
{
	uint32_t reason = REASON_None;
	for (uint32_t i = 0; i < n && !reason; i++)
		if (v[i].caps->any && v[i].kind != 'U' && v[i].kind != 'C')
			reason = job_alone(q, &v[i]);
	if (!reason)
		reason = own_jobs(q, v, n);
	for (uint32_t i = 0; i < n && !reason; i++)
		if (v[i].caps->any)
			reason = group(q, &v[i]);
	return reason;
}

uint32_t sch__limit_start(const struct sch_state *st, const struct sch_job *j, const struct sch_part *p,
			  const struct sch_demand *d, int64_t limit_sec, const struct sch_extra *extra)
{
	struct spot v[SPOTS];
	struct asked q = {
	    .st = st, .d = d, .limit_sec = limit_sec, .limit_given = j->limit_given, .extra = extra};
	if (!st->accounts.policy.limits)
		return REASON_None;
	uint32_t n = spots(st, j->assoc, sch__text(j->qos), p->row->conf->qos, sch__text(j->who->user),
			   sch__text(j->account), v);
	return look(&q, v, n);
}

/* ---- for those who ask ---- */

static const char *limit_name(uint32_t limit)
{
	static const char *const names[SCH_LIMITS] = {
#define MU_LIMIT_PLAIN(id, field, owners, names, heading, width, kind, assoc_reason, qos_reason) \
	[SCH_LIMIT_##id] = names,
#define MU_LIMIT_TRES(id, field, owners, names, heading, width, assoc_reason, qos_reason) \
	[SCH_LIMIT_##id] = names,
#include "proto/limits.def"
	};
	return names[limit];
}

/* What of the limit is used, and what the job would add, in the limit's own unit. */
static void blame_numbers(const struct asked *q, const struct spot *s, const struct sch_cap *c,
			  struct sch_blame *ret)
{
	static const struct sch_tally none;
	uint64_t amount[SCH_TRES_MAX];
	uint32_t tres = c->tres == SCH_TRES_MAX ? SCH_TRES_WALL : c->tres;
	__int128 ahead_sec = sch__tally_ahead(s->tally, tres, q->st->cluster->limits_usec);
	ret->wanted = q->d->v[tres];
	ret->used = held(s, NULL, tres);
	switch (c->limit) {
	case SCH_LIMIT_GRP_JOBS:
	case SCH_LIMIT_MAX_JOBS:
	case SCH_LIMIT_MAX_JOBS_USER:
	case SCH_LIMIT_MAX_JOBS_ACCOUNT:
		ret->used = running(s, NULL);
		ret->wanted = 1;
		break;
	case SCH_LIMIT_MAX_WALL:
		ret->used = 0;
		ret->wanted = seconds(q);
		ret->seconds = true;
		break;
	case SCH_LIMIT_MAX_TRES_NODE:
		ret->wanted = q->d->node[tres];
		ret->used = 0;
		break;
	case SCH_LIMIT_MAX_TRES_JOB:
	case SCH_LIMIT_MIN_TRES_JOB:
		ret->used = 0;
		break;
	case SCH_LIMIT_MAX_TRES_MINS_JOB:
		ret->used = 0;
		ret->wanted = mu_fixed_muldiv((uint64_t)q->d->v[tres], (uint64_t)seconds(q), 60);
		break;
	case SCH_LIMIT_GRP_TRES_RUN_MINS:
	case SCH_LIMIT_MAX_TRES_RUN_MINS_USER:
	case SCH_LIMIT_MAX_TRES_RUN_MINS_ACCOUNT:
		ret->used = (int64_t)(ahead_sec / 60);
		ret->wanted = mu_fixed_muldiv((uint64_t)q->d->v[tres], (uint64_t)seconds(q), 60);
		break;
	case SCH_LIMIT_GRP_TRES_MINS:
	case SCH_LIMIT_GRP_WALL:
		sch__usage_at(q->st, s->usage, s->tally ? s->tally : &none,
			      s->kind == 'A' || !sch__qos_flag(s->qos, "NoDecay"),
			      q->st->cluster->limits_usec, amount, tres + 1);
		ret->used = (int64_t)((tres == SCH_TRES_MEM ? amount[tres] : amount[tres] / 1000) / 60);
		ret->wanted = mu_fixed_muldiv((uint64_t)q->d->v[tres], (uint64_t)seconds(q), 60);
		ret->limit = c->limit == SCH_LIMIT_GRP_WALL ? c->count / 60 : c->count;
		break;
	default:
		break;
	}
}

/* What the other components of J's job would take. */
static void note_others(const struct sch_state *st, const struct sch_job *j, struct sch_extra *extra)
{
	struct sch_demand d;
	for (uint32_t k = 0; k < j->het_count; k++) {
		const struct sch_job *m = sch__het_part(st, j, k);
		const struct sch_part *p = m && m != j ? sch__first_part(st, m) : NULL;
		if (!p)
			continue;
		sch__demand_waiting(st, m, p, &d);
		sch__limit_note(st, m, p, &d, m->time_limit_sec, 1, extra);
	}
}

uint32_t sch__limit_blame(const struct sch_state *st, const struct sch_job *j, const struct sch_part *p,
			  struct sch_blame *ret)
{
	struct spot v[SPOTS];
	struct sch_demand d;
	struct mu_arena arena = {0};
	struct sch_extra extra = {.arena = &arena};
	struct asked q = {.st = st,
			  .d = &d,
			  .limit_sec = j->time_limit_sec,
			  .limit_given = j->limit_given,
			  .extra = &extra};
	*ret = (struct sch_blame){0};
	if (!st->accounts.policy.limits)
		return REASON_None;
	note_others(st, j, &extra);
	sch__demand_waiting(st, j, p, &d);
	uint32_t n = spots(st, j->assoc, sch__text(j->qos), p->row->conf->qos, sch__text(j->who->user),
			   sch__text(j->account), v);
	uint32_t reason = look(&q, v, n);
	mu_map_clear(&extra.tally);
	mu_arena_free(&arena);
	q.extra = NULL;
	if (!reason)
		return REASON_None;
	const struct sch_assoc *a = q.spot->kind == 'A' ? sch__assoc(st, q.spot->id) : NULL;
	ret->kind = q.spot->kind;
	ret->id = q.spot->id;
	ret->owner = a ? a->row->account : q.spot->qos->row->name;
	ret->whose = a ? a->row->user : q.spot->name;
	ret->name = limit_name(q.cap.limit);
	ret->tres = q.cap.tres == SCH_TRES_MAX ? NULL : st->accounts.tres_name[q.cap.tres];
	ret->limit = q.cap.count;
	blame_numbers(&q, q.spot, &q.cap, ret);
	ret->of_job = q.cap.limit == SCH_LIMIT_MAX_WALL || q.cap.limit == SCH_LIMIT_MAX_TRES_JOB ||
		      q.cap.limit == SCH_LIMIT_MAX_TRES_NODE || q.cap.limit == SCH_LIMIT_MIN_TRES_JOB ||
		      q.cap.limit == SCH_LIMIT_MAX_TRES_MINS_JOB;
	return reason;
}

bool sch__limit_counts(const struct sch_state *st, const struct sch_job *j, const struct sch_blame *b)
{
	struct spot v[SPOTS];
	uint32_t n = spots(st, j->assoc, sch__text(j->qos), sch__text(j->part_qos), sch__text(j->who->user),
			   sch__text(j->account), v);
	for (uint32_t i = 0; i < n; i++)
		if (v[i].kind == b->kind && v[i].id == b->id &&
		    (v[i].kind == 'A' || v[i].kind == 'Q' || sch__same(v[i].name, b->whose)))
			return true;
	return false;
}

int64_t sch__limit_wall(const struct sch_state *st, uint32_t assoc, const char *qos, const struct sch_part *p)
{
	struct spot v[SPOTS];
	if (!st->accounts.policy.limits)
		return -1;
	uint32_t n = spots(st, assoc, qos, p->row->conf->qos, NULL, NULL, v);
	for (uint32_t i = 0; i < n; i++)
		if (v[i].caps->plain[SCH_LIMIT_MAX_WALL] >= 0)
			return v[i].caps->plain[SCH_LIMIT_MAX_WALL];
	return -1;
}

/* ---- time ---- */

static bool is_timed(const struct sch_caps *c)
{
	bool yes = c->plain[SCH_LIMIT_GRP_WALL] >= 0;
	for (uint32_t i = 0; i < c->count; i++)
		yes = yes || c->v[i].limit == SCH_LIMIT_GRP_TRES_MINS ||
		      c->v[i].limit == SCH_LIMIT_GRP_TRES_RUN_MINS ||
		      c->v[i].limit == SCH_LIMIT_MAX_TRES_RUN_MINS_USER ||
		      c->v[i].limit == SCH_LIMIT_MAX_TRES_RUN_MINS_ACCOUNT;
	return yes;
}

void sch__limits_timed(struct sch_state *st)
{
	const uint8_t *key = NULL;
	size_t len = 0;
	bool timed = false;
	for (uint32_t i = 0; i < st->accounts.tree_count; i++)
		timed = timed || is_timed(&st->accounts.tree[i]->caps);
	for (const struct sch_qos *q = mu_map_seek(&st->accounts.qos, NULL, 0, 0, &key, &len); q;
	     q = mu_map_seek(&st->accounts.qos, key, len, 1, &key, &len))
		timed = timed || is_timed(&q->caps);
	st->accounts.timed = timed && st->accounts.policy.limits;
}

static int64_t minute(int64_t usec)
{
	return usec - usec % MINUTE_USEC;
}

void sch__limits_time(struct sch_state *st, int64_t before_usec)
{
	if (st->accounts.timed && minute(before_usec) != minute(st->cluster->now_usec))
		sch__wake(st);
}

int64_t sch__limits_due(const struct sch_state *st)
{
	return st->accounts.timed && st->pending ? minute(st->cluster->now_usec) + MINUTE_USEC : 0;
}

/* ---- submission ---- */

/* MORE jobs: each task of an array counts. */
static uint32_t submits(const struct spot *v, uint32_t n, uint64_t more)
{
	const struct spot *leaf = NULL;
	bool own = false;
	for (uint32_t i = 0; i < n; i++) {
		const struct spot *s = &v[i];
		int64_t count = (int64_t)((s->tally ? s->tally->submits : 0) + more - 1);
		const int64_t *cap = s->caps->plain;
		if (s->kind == 'Q' && cap[SCH_LIMIT_GRP_SUBMIT] >= 0 && count >= cap[SCH_LIMIT_GRP_SUBMIT])
			return REASON_QOSGrpSubmitJobsLimit;
		if (s->kind == 'U' && cap[SCH_LIMIT_MAX_SUBMIT_USER] >= 0 &&
		    count >= cap[SCH_LIMIT_MAX_SUBMIT_USER])
			return REASON_QOSMaxSubmitJobPerUserLimit;
		if (s->kind == 'C' && cap[SCH_LIMIT_MAX_SUBMIT_ACCOUNT] >= 0 &&
		    count >= cap[SCH_LIMIT_MAX_SUBMIT_ACCOUNT])
			return REASON_QOSMaxSubmitJobPerAccountLimit;
		if (s->kind != 'A')
			continue;
		leaf = leaf ? leaf : s;
		if (cap[SCH_LIMIT_GRP_SUBMIT] >= 0 && count >= cap[SCH_LIMIT_GRP_SUBMIT])
			return REASON_AssocGrpSubmitJobsLimit;
		if (!own && cap[SCH_LIMIT_MAX_SUBMIT] >= 0) {
			own = true;
			if ((int64_t)(leaf->tally->submits + more - 1) >= cap[SCH_LIMIT_MAX_SUBMIT])
				return REASON_AssocMaxSubmitJobLimit;
		}
	}
	return REASON_None;
}

int sch__limit_submit(const struct sch_state *st, const Mu__JobSpec *spec, const struct sch_want *w,
		      const Mu__Author *a, struct mu_err *err)
{
	struct spot v[SPOTS];
	struct sch_demand d;
	if (!st->accounts.policy.limits)
		return 0;
	uint32_t n = spots(st, w->assoc, w->qos, w->part[0]->row->conf->qos, a->user, w->account, v);
	uint32_t reason = submits(v, n, w->tasks ? w->tasks : 1);
	bool deny = sch__qos_flag(sch__qos(st, w->qos), "DenyOnLimit") ||
		    sch__qos_flag(sch__qos(st, w->part[0]->row->conf->qos), "DenyOnLimit");
	struct asked q = {
	    .st = st, .d = &d, .limit_sec = w->time_limit_sec, .limit_given = spec->has_time_limit_sec};
	demand_spec(st, spec, w, &d);
	for (uint32_t i = 0; i < n && deny && !reason; i++)
		if (v[i].kind == 'A' || v[i].kind == 'Q')
			reason = job_alone(&q, &v[i]);
	/* More than the whole group may ever hold is no matter of waiting either. */
	for (uint32_t i = 0; i < n && deny && !reason; i++)
		for (uint32_t k = 0; k < v[i].caps->count && !reason; k++)
			if (v[i].caps->v[k].limit == SCH_LIMIT_GRP_TRES &&
			    (v[i].kind == 'A' || v[i].kind == 'Q') &&
			    d.v[v[i].caps->v[k].tres] > v[i].caps->v[k].count)
				reason = reason_of(st, &v[i], SCH_LIMIT_GRP_TRES, v[i].caps->v[k].tres);
	return reason
		   ? mu_fail(err, MU_EPOLICY, "%s: %s", mu_strerror(MU_EPOLICY), mu_job_reason_word(reason))
		   : 0;
}

static bool listed(char *const *list, size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i], word) == 0)
			return true;
	return false;
}

/* The QOS that A gives: its default, else the only one allowed, else normal. */
static const char *default_qos(const struct sch_assoc *a, const struct sch_assoc *allowed)
{
	for (; a; a = a->parent)
		if (a->row->default_qos)
			return a->row->default_qos;
	if (allowed && allowed->row->n_qos == 1)
		return allowed->row->qos[0];
	return "normal";
}

int sch__account_resolve(const struct sch_state *st, const Mu__JobSpec *spec, const Mu__Author *a,
			 struct sch_want *w, struct mu_err *err)
{
	const struct sch_policy *p = &st->accounts.policy;
	const struct sch_user *u = sch__user(st, a->user);
	const struct sch_assoc *assoc, *allowed;
	bool given = spec->account && *spec->account;
	w->account = given ? spec->account : u ? u->row->default_account : NULL;
	assoc = w->account && a->user ? sch__assoc_for(st, w->account, a->user, w->part[0]->row->conf->name)
				      : NULL;
	if (!assoc && p->associations)
		return sch__refuse(err, MU_EACCOUNT);
	w->assoc = assoc ? assoc->row->id : 0;
	for (allowed = assoc; allowed && !allowed->row->n_qos;)
		allowed = allowed->parent;
	if (!spec->qos || !*spec->qos)
		w->qos = default_qos(assoc, allowed);
	else if (p->associations && !sch__qos(st, spec->qos))
		return sch__refuse(err, MU_EQOS);
	if (p->qos && allowed && !listed(allowed->row->qos, allowed->row->n_qos, w->qos))
		return sch__refuse(err, MU_EQOS);
	return 0;
}
