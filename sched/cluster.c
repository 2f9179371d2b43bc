/* sched/cluster.c: nodes and partitions as scheduling sees them: order of preference, bit sets, classes of
 * like nodes, silence. Ranks number the nodes by weight, then configuration order; every bit set over nodes
 * is by rank. */
#include "sched/preempt.h"
#include "sched/state.h"

#include "proto/conf.h"

#include <assert.h>
#include <stdlib.h>

static int by_weight(const void *a, const void *b)
{
	const struct sch_node *x = *(struct sch_node *const *)a, *y = *(struct sch_node *const *)b;
	uint32_t wx = x->row->conf && x->row->conf->has_weight ? x->row->conf->weight : 1;
	uint32_t wy = y->row->conf && y->row->conf->has_weight ? y->row->conf->weight : 1;
	if (wx != wy)
		return wx < wy ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

void sch__rank_all(struct sch_state *st)
{
	for (uint32_t i = 0; i < st->node_count; i++)
		if (st->node[i]->class)
			sch__node_unclass(st, st->node[i]);
	if (st->node_count)
		memcpy(st->by_rank, st->node, st->node_count * sizeof(st->node[0]));
	if (st->node_count > 1)
		qsort(st->by_rank, st->node_count, sizeof(st->by_rank[0]), by_weight);
	mu_bits_free(&st->open);
	mu_bits_free(&st->usable);
	for (uint32_t i = 0; i < st->node_count; i++)
		st->by_rank[i]->rank = i;
	for (uint32_t i = 0; i < st->node_count; i++) {
		sch__node_class(st, st->node[i]);
		sch__node_index(st, st->node[i]);
	}
	for (uint32_t i = 0; i < st->part_count; i++)
		sch__part_derive(st, st->part[i]);
	sch__topology_derive(st);
	sch__resvs_derive(st);
	sch__wake(st);
}

void sch__node_index(struct sch_state *st, struct sch_node *n)
{
	const uint32_t bad = NODE_FLAG_DRAIN | NODE_FLAG_FAIL | NODE_FLAG_NO_RESPOND | NODE_FLAG_REBOOT |
			     NODE_FLAG_INVALID_REG;
	bool was = n->usable;
	n->usable = n->row->base_state == NODE_IDLE && !(n->row->flags & bad) && n->row->cpus > 0;
	if (n->usable)
		mu_bits_set(&st->usable, n->rank);
	else
		mu_bits_clear(&st->usable, n->rank);
	if (n->usable && !sch__room_full(&n->room, n))
		mu_bits_set(&st->open, n->rank);
	else
		mu_bits_clear(&st->open, n->rank);
	if (was != n->usable)
		sch__wake(st);
}

/* Everything that a shape can ask of an empty node, packed as a row of its own. */
static void class_key(const struct sch_node *n, struct mu_hash *ret)
{
	Mu__NodeRow row = MU__NODE_ROW__INIT;
	Mu__NodeConf conf = MU__NODE_CONF__INIT;
	struct mu_buf buf = {0};
	struct mu_arena arena = {0};
	SCH_SET(&row, cpus, n->row->cpus);
	SCH_SET(&row, sockets, n->row->sockets);
	SCH_SET(&row, cores_per_socket, n->row->cores_per_socket);
	SCH_SET(&row, threads_per_core, n->row->threads_per_core);
	SCH_SET(&row, real_memory_mib, n->row->real_memory_mib);
	SCH_SET(&row, tmp_disk_mib, n->row->tmp_disk_mib);
	if (n->row->conf) {
		conf.n_extra = n->row->conf->n_extra;
		conf.extra = n->row->conf->extra;
		conf.n_feature = n->row->conf->n_feature;
		conf.feature = n->row->conf->feature;
		SCH_SET(&conf, core_spec_count, n->row->conf->core_spec_count);
		SCH_SET(&conf, mem_spec_limit_mib, n->row->conf->mem_spec_limit_mib);
	}
	row.conf = &conf;
	row.n_gres = n->row->n_gres;
	row.gres = mu_arena_alloc(&arena, (row.n_gres + 1) * sizeof(row.gres[0]));
	for (size_t i = 0; i < row.n_gres; i++) {
		row.gres[i] = mu_arena_dup(&arena, n->row->gres[i], sizeof(*row.gres[i]));
		row.gres[i]->n_unit = 0; /* No two nodes have the same device; none asks for one. */
	}
	mu_pb_pack(&row.base, &buf);
	mu_arena_free(&arena);
	mu_hash_bytes(buf.data, buf.len, ret);
	mu_buf_free(&buf);
}

void sch__node_class(struct sch_state *st, struct sch_node *n)
{
	struct mu_hash key;
	assert(!n->class);
	class_key(n, &key);
	n->tpc = sch__tpc(n);
	n->cpu_end = n->row->cpus - n->spec_cpus;
	struct sch_class *c = mu_map_get(&st->classes, key.b, sizeof(key.b));
	if (!c) {
		c = sch__alloc(st, sizeof(*c));
		c->key = key;
		mu_map_put(&st->classes, key.b, sizeof(key.b), c);
	}
	c->sample = n;
	c->count++;
	mu_bits_set(&c->nodes, n->rank);
	n->class = c;
}

void sch__node_unclass(struct sch_state *st, struct sch_node *n)
{
	struct sch_class *c = n->class;
	n->class = NULL;
	mu_bits_clear(&c->nodes, n->rank);
	if (--c->count) {
		uint32_t other = mu_bits_next(&c->nodes, 0);
		if (c->sample == n && other != UINT32_MAX)
			c->sample = st->by_rank[other];
		return;
	}
	mu_map_del(&st->classes, c->key.b, sizeof(c->key.b));
	mu_bits_free(&c->nodes);
	sch__free(st, c, sizeof(*c));
}

bool sch__node_has_feature(const struct sch_node *n, const char *name, size_t len)
{
	const Mu__NodeConf *c = n->row->conf;
	for (size_t i = 0; c && i < c->n_feature; i++)
		if (strlen(c->feature[i]) == len && memcmp(c->feature[i], name, len) == 0)
			return true;
	return false;
}

/* A node whose silence counts: it once answered and is not already down. */
static bool silence_counts(const struct sch_node *n)
{
	return n->row->base_state == NODE_IDLE;
}

void sch__node_moments_drop(struct sch_state *st, struct sch_node *n)
{
	uint8_t key[12];
	if (n->silent_key > 0) {
		sch__pair_key(key, n->silent_key, n->order);
		mu_map_del(&st->silent, key, sizeof(key));
	} else if (n->silent_key < 0) {
		st->heard_count--;
	}
	n->silent_key = 0;
	if (n->resume_key) {
		sch__pair_key(key, n->resume_key, n->order);
		mu_map_del(&st->resumes, key, sizeof(key));
	}
	n->resume_key = 0;
}

void sch__node_moments_index(struct sch_state *st, struct sch_node *n)
{
	uint8_t key[12];
	sch__node_moments_drop(st, n);
	if (n->row->resume_usec) {
		n->resume_key = n->row->resume_usec;
		sch__pair_key(key, n->resume_key, n->order);
		mu_map_put(&st->resumes, key, sizeof(key), n);
	}
	if (!silence_counts(n))
		return;
	if (n->row->heard_usec == 0) {
		n->silent_key = -1; /* Named by the last summary, with all the others. */
		st->heard_count++;
		return;
	}
	n->silent_key = n->row->heard_usec;
	sch__pair_key(key, n->silent_key, n->order);
	mu_map_put(&st->silent, key, sizeof(key), n);
}

void sch__node_heard(struct sch_state *st, struct sch_node *n, int64_t usec)
{
	if (n->row->heard_usec != usec) {
		n->row->heard_usec = usec;
		sch__touch(st, &n->rec);
	}
	if (n->row->flags & NODE_FLAG_NO_RESPOND && n->row->base_state != NODE_UNKNOWN) {
		n->row->flags &= ~(uint32_t)NODE_FLAG_NO_RESPOND;
		sch__touch(st, &n->rec);
		sch__node_index(st, n);
	}
	sch__node_moments_index(st, n);
}

enum sch_part_state sch__part_state(const char *word)
{
	static const char *const words[] = {"UP", "DOWN", "DRAIN", "INACTIVE"};
	for (size_t i = 0; word && i < sizeof(words) / sizeof(words[0]); i++)
		if (strcasecmp(word, words[i]) == 0)
			return (enum sch_part_state)i;
	return SCH_PART_UP;
}

void sch__part_derive(struct sch_state *st, struct sch_part *p)
{
	uint32_t cpus = 0, nodes = 0;
	mu_bits_free(&p->nodes);
	for (size_t i = 0; i < p->row->conf->n_node; i++) {
		const struct sch_node *n = sch__node(st, p->row->conf->node[i]);
		if (!n || mu_bits_test(&p->nodes, n->rank))
			continue;
		mu_bits_set(&p->nodes, n->rank);
		cpus += n->row->cpus;
		nodes++;
	}
	p->state = sch__part_state(p->row->conf->state);
	if (st->loading || (p->row->total_cpus == cpus && p->row->total_nodes == nodes))
		return;
	SCH_SET(p->row, total_cpus, cpus);
	SCH_SET(p->row, total_nodes, nodes);
	sch__touch(st, &p->rec);
}

bool sch__has_word(const char *list, const char *word)
{
	size_t len = strlen(word);
	for (const char *p = list; p && *p;) {
		size_t n = strcspn(p, ",");
		if (n == len && strncasecmp(p, word, n) == 0)
			return true;
		p += n + (p[n] == ',');
	}
	return false;
}

static bool contains(const char *text, const char *word)
{
	size_t n = strlen(word);
	for (; text && *text; text++)
		if (strncasecmp(text, word, n) == 0)
			return true;
	return false;
}

/* The number behind KEY= in SchedulerParameters; OTHERWISE where it is not given or no number. */
static int64_t parameter(const char *text, const char *key, int64_t otherwise)
{
	size_t len = strlen(key);
	for (const char *w = text; w && *w; w = strchr(w, ',') ? strchr(w, ',') + 1 : NULL) {
		int64_t v = 0;
		if (strncasecmp(w, key, len) != 0 || w[len] != '=' || w[len + 1] < '0' || w[len + 1] > '9')
			continue;
		for (const char *d = w + len + 1; *d >= '0' && *d <= '9' && v < INT32_MAX; d++)
			v = 10 * v + (*d - '0');
		return v < INT32_MAX ? v : INT32_MAX;
	}
	return otherwise;
}

static void scheduler_derive(struct sch_config_rec *r, const Mu__Config *c)
{
	const char *text = mu_conf_get(c, "SchedulerParameters", "");
	r->backfill = strcasecmp(mu_conf_get(c, "SchedulerType", "sched/backfill"), "sched/builtin") != 0;
#define MU_SCHED_PARAM(name, member, fallback, scale) \
	r->member = (__typeof__(r->member))(parameter(text, #name, fallback) * (scale));
#define MU_SCHED_FLAG(name, member) r->member = contains(text, #name);
#include "proto/schedparams.def"
#undef MU_SCHED_FLAG
#undef MU_SCHED_PARAM
}

static void preempt_derive(struct sch_config_rec *r, const Mu__Config *c)
{
	const char *type = mu_conf_get(c, "PreemptType", ""), *mode = mu_conf_get(c, "PreemptMode", "OFF"),
		   *text = mu_conf_get(c, "PreemptParameters", "");
	r->preempt_by = strcasecmp(type, "preempt/partition_prio") == 0 ? SCH_BY_PARTITION
			: strcasecmp(type, "preempt/qos") == 0		? SCH_BY_QOS
									: SCH_BY_NOTHING;
	r->preempt_mode = sch__preempt_mode(mode, SCH_PREEMPT_OFF);
	r->preempt_within = sch__has_word(mode, "WITHIN");
	r->youngest_first = sch__has_word(text, "youngest_first");
	r->strict_order = sch__has_word(text, "strict_order");
	r->send_user_signal = sch__has_word(text, "send_user_signal");
	r->min_exempt_priority = (uint32_t)parameter(text, "min_exempt_priority", 0);
	r->preempt_tries = (uint32_t)parameter(text, "reorder_count", SCH_PREEMPT_TRIES);
	r->preempt_exempt_sec = sch__conf_span_usec(c, "PreemptExemptTime", 0) / SCH_USEC;
}

void sch__config_derive(struct sch_state *st)
{
	const Mu__Config *c = sch__conf(st);
	scheduler_derive(&st->config, c);
	preempt_derive(&st->config, c);
	sch__lic_config(st);
	st->config.by_socket = contains(c->select_type_parameters, "CR_SOCKET");
	st->config.by_core = !st->config.by_socket && !contains(c->select_type_parameters, "CR_CPU");
	st->config.lln = contains(c->select_type_parameters, "CR_LLN");
	st->config.one_task_per_core = contains(c->select_type_parameters, "CR_ONE_TASK_PER_CORE");
	st->config.near = contains(c->select_type_parameters, "ENFORCE_BINDING_GRES");
	st->config.spec_usage = mu_conf_on(c, "AllowSpecResourcesUsage", 0);
	st->config.memory = contains(c->select_type_parameters, "MEMORY");
	st->config.enforce = c->enforce_part_limits && (strcasecmp(c->enforce_part_limits, "ALL") == 0 ||
							strcasecmp(c->enforce_part_limits, "YES") == 0)
				 ? SCH_ENFORCE_ALL
			     : c->enforce_part_limits && strcasecmp(c->enforce_part_limits, "ANY") == 0
				 ? SCH_ENFORCE_ANY
				 : SCH_ENFORCE_NO;
}

int64_t sch__min_job_age(const struct sch_state *st)
{
	const Mu__Config *c = sch__conf(st);
	return (c->has_min_job_age_sec ? c->min_job_age_sec : 300) * SCH_USEC;
}

/* Takes ROW, which was made by malloc. The caller ranks and puts the node into its arrays. */
int sch__node_build(struct sch_state *st, Mu__NodeRow *row, struct sch_node **ret)
{
	struct sch_node *n = sch__alloc(st, sizeof(*n));
	n->rec.kind = SCH_ROW_NODE;
	n->rec.change = UINT32_MAX;
	n->row = row;
	n->order = row->order;
	sch__inventory_spec(n);
	sch__room_init(&n->room, n);
	mu_map_put_str(&st->node_by_name, row->name, n);
	*ret = n;
	return 0;
}

void sch__node_free(struct sch_state *st, struct sch_node *n)
{
	if (n->class)
		sch__node_unclass(st, n);
	sch__room_free(&n->room, n);
	mu_bits_free(&n->spec);
	sch__free(st, n->hold, n->hold_cap * sizeof(n->hold[0]));
	mu__node_row__free_unpacked(n->row, NULL);
	sch__free(st, n, sizeof(*n));
}

struct sch_part *sch__part_build(struct sch_state *st, Mu__PartitionRow *row)
{
	struct sch_part *p = sch__alloc(st, sizeof(*p));
	p->rec.kind = SCH_ROW_PARTITION;
	p->rec.change = UINT32_MAX;
	p->row = row;
	p->order = row->order;
	mu_map_put_str(&st->part_by_name, row->conf->name, p);
	return p;
}

static int by_order(const void *a, const void *b)
{
	const struct sch_part *x = *(struct sch_part *const *)a, *y = *(struct sch_part *const *)b;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* Rebuilds the array of partitions from the map. */
void sch__parts_order(struct sch_state *st)
{
	sch__free(st, st->part, st->part_count * sizeof(st->part[0]));
	st->part_count = (uint32_t)st->part_by_name.count;
	st->part = sch__alloc(st, st->part_count * sizeof(st->part[0]));
	const uint8_t *key = NULL;
	size_t len = 0;
	uint32_t i = 0;
	for (void *v = mu_map_seek(&st->part_by_name, NULL, 0, 0, &key, &len); v;
	     v = mu_map_seek(&st->part_by_name, key, len, 1, &key, &len))
		st->part[i++] = v;
	if (i > 1)
		qsort(st->part, i, sizeof(st->part[0]), by_order);
	sch__shapes_parts(st);
}
