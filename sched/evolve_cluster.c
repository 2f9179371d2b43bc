/* sched/evolve_cluster.c: founding, configuration, partitions, leaders, levels, time. */
#include "sched/preempt.h"
#include "sched/state.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

#include "proto/conf_fold.h"
#include "proto/hostlist.h"
#include "proto/version.h"

/* ---- configuration ---- */

static bool name_fits(const char *name)
{
	return name && *name && strlen(name) <= SCH_KEY_MAX;
}

static int check_node(const struct sch_state *st, const Mu__NodeConf *c, struct mu_map *seen,
		      struct mu_err *err)
{
	const struct sch_node *old = sch__node(st, c->name);
	if (!name_fits(c->name) || mu_map_put_str(seen, c->name, (void *)c))
		return mu_fail(err, MU_EINVAL, "Node name \"%s\" is empty, too long, or given twice",
			       c->name ? c->name : "");
	if (c->cpus > SCH_CPUS_PER_NODE || c->sockets > SCH_CPUS_PER_NODE || c->threads_per_core > 64 ||
	    c->cores_per_socket > SCH_CPUS_PER_NODE || c->n_gres > SCH_GRES_PER_NODE ||
	    c->core_spec_count > SCH_CPUS_PER_NODE)
		return mu_fail(err, MU_ELIMIT, "Node %s has more CPUs or gres entries than a node can have",
			       c->name);
	for (size_t i = 0; i < c->n_gres; i++)
		if (!c->gres[i]->name || c->gres[i]->count > SCH_CPUS_PER_NODE)
			return mu_fail(err, MU_EGRES,
				       "Node %s: a gres entry without a name, or with more than %u units",
				       c->name, SCH_CPUS_PER_NODE);
	if (old && old->hold_count && !sch__inventory_same(old, c))
		return mu_fail(err, MU_EBUSY, "Node %s has jobs; drain it before changing its CPUs or gres",
			       c->name);
	return 0;
}

static int check_parts(const struct sch_state *st, const Mu__Config *c, struct mu_err *err)
{
	struct mu_map seen = {0};
	int rc = 0;
	for (size_t i = 0; i < c->n_partition && !rc; i++)
		if (!name_fits(c->partition[i]->name) ||
		    mu_map_put_str(&seen, c->partition[i]->name, c->partition[i]))
			rc = mu_fail(err, MU_EINVAL, "A partition's name is empty, too long, or given twice");
	for (uint32_t i = 0; i < st->part_count && !rc; i++)
		if (st->part[i]->job_refs && !mu_map_get_str(&seen, st->part[i]->row->conf->name))
			rc = mu_fail(err, MU_EBUSY, "Partition %s has jobs; it cannot be removed",
				     st->part[i]->row->conf->name);
	mu_map_clear(&seen);
	return rc;
}

static int check_config(const struct sch_state *st, const Mu__Config *c, struct mu_err *err)
{
	struct mu_map seen = {0};
	int rc = 0;
	if (c->n_node > SCH_NODES_MAX || c->n_partition > SCH_NODES_MAX)
		return mu_fail(err, MU_ELIMIT, "More than %u nodes or partitions", SCH_NODES_MAX);
	for (size_t i = 0; i < c->n_node && !rc; i++)
		rc = check_node(st, c->node[i], &seen, err);
	for (uint32_t i = 0; i < st->node_count && !rc; i++)
		if (st->node[i]->hold_count && !mu_map_get_str(&seen, st->node[i]->row->name))
			rc = mu_fail(err, MU_EBUSY, "Node %s has jobs; it cannot be removed",
				     st->node[i]->row->name);
	mu_map_clear(&seen);
	return rc ? rc : check_parts(st, c, err);
}

static void initial_state(Mu__NodeRow *row, const Mu__NodeConf *c, int64_t now)
{
	const char *word = c->state ? c->state : "UNKNOWN";
	row->base_state = strcasecmp(word, "DOWN") == 0	    ? NODE_DOWN
			  : strcasecmp(word, "FUTURE") == 0 ? NODE_FUTURE
							    : NODE_UNKNOWN;
	if (strcasecmp(word, "DRAIN") == 0)
		row->flags |= NODE_FLAG_DRAIN;
	if (strcasecmp(word, "FAIL") == 0)
		row->flags |= NODE_FLAG_FAIL;
	if (c->reason && *c->reason) {
		row->reason = sch__strdup(c->reason);
		row->reason_user = sch__strdup("root");
		row->reason_usec = now;
	}
}

static struct sch_node *set_node(struct sch_state *st, const Mu__NodeConf *c, uint32_t order)
{
	struct sch_node *n = sch__node(st, c->name);
	Mu__NodeConf *conf = sch__copy_message(&c->base);
	if (!n) {
		Mu__NodeRow *row = calloc(1, sizeof(*row));
		if (!row)
			abort();
		mu__node_row__init(row);
		row->name = sch__strdup(c->name);
		initial_state(row, c, st->cluster->now_usec);
		sch__node_build(st, row, &n);
	}
	if (n->row->conf)
		mu__node_conf__free_unpacked(n->row->conf, NULL);
	n->row->conf = conf;
	n->order = order;
	SCH_SET(n->row, order, order);
	sch__inventory_set(n, NULL);
	sch__touch(st, &n->rec);
	return n;
}

static void set_nodes(struct sch_state *st, const Mu__Config *c)
{
	struct mu_map kept = {0};
	struct sch_node **list = sch__alloc(st, c->n_node * sizeof(list[0]));
	for (uint32_t i = 0; i < st->node_count; i++) {
		sch__node_unclass(st, st->node[i]);
		sch__node_moments_drop(st, st->node[i]);
	}
	for (size_t i = 0; i < c->n_node; i++) {
		list[i] = set_node(st, c->node[i], (uint32_t)i);
		mu_map_put_str(&kept, c->node[i]->name, list[i]);
	}
	for (uint32_t i = 0; i < st->node_count; i++)
		if (!mu_map_get_str(&kept, st->node[i]->row->name)) {
			mu_map_del_str(&st->node_by_name, st->node[i]->row->name);
			sch__gone(st, &st->node[i]->rec);
		}
	mu_map_clear(&kept);
	sch__free(st, st->node, st->node_count * sizeof(st->node[0]));
	sch__free(st, st->by_rank, st->node_count * sizeof(st->node[0]));
	st->node = list;
	st->node_count = (uint32_t)c->n_node;
	st->by_rank = sch__alloc(st, c->n_node * sizeof(list[0]));
	for (uint32_t i = 0; i < st->node_count; i++)
		sch__node_moments_index(st, st->node[i]);
}

/* A partition's nodes as names: given expanded, or as text ("ALL", a host list). */
static int expand(const struct sch_state *st, Mu__PartitionConf *conf, struct mu_arena *arena,
		  struct mu_err *err)
{
	char **names = NULL;
	size_t count = 0;
	if (conf->n_node || !conf->nodes || !*conf->nodes)
		return 0;
	if (strcasecmp(conf->nodes, "ALL") == 0) {
		names = mu_arena_alloc(arena, (st->node_count + 1) * sizeof(names[0]));
		for (; count < st->node_count; count++)
			names[count] = st->node[count]->row->name;
	} else {
		int rc = mu_hostlist_expand(conf->nodes, SCH_NODES_MAX, arena, &names, &count, err);
		if (rc)
			return rc;
	}
	conf->node = names;
	conf->n_node = count;
	return 0;
}

static void set_part(struct sch_state *st, const Mu__PartitionConf *conf, uint32_t order)
{
	struct sch_part *p = sch__part(st, conf->name);
	Mu__PartitionConf *copy = sch__copy_message(&conf->base);
	if (!p) {
		Mu__PartitionRow *row = calloc(1, sizeof(*row));
		if (!row)
			abort();
		mu__partition_row__init(row);
		row->conf = copy;
		p = sch__part_build(st, row);
	} else {
		mu__partition_conf__free_unpacked(p->row->conf, NULL);
		p->row->conf = copy;
	}
	p->order = order;
	SCH_SET(p->row, order, order);
	sch__touch(st, &p->rec);
}

static void drop_part(struct sch_state *st, struct sch_part *p)
{
	mu_map_del_str(&st->part_by_name, p->row->conf->name);
	sch__gone(st, &p->rec);
}

/* KEPT is what came, which the row keeps; C is the same with every node spelt out. */
static void apply_config(struct sch_ev *ev, Mu__Config *kept_config, Mu__Config *c)
{
	struct sch_state *st = ev->st;
	struct mu_map kept = {0};
	mu__config_row__free_unpacked(st->config.row, NULL);
	Mu__ConfigRow row = MU__CONFIG_ROW__INIT;
	row.config = kept_config;
	SCH_SET(&row, since_pos, ev->at->pos);
	SCH_SET(&row, since_usec, ev->now);
	row.author = ev->author->user;
	st->config.row = sch__copy_message(&row.base);
	sch__touch(st, &st->config.rec);
	sch__usage_settle_all(st); /* By the rules up to now. */
	sch__config_derive(st);
	set_nodes(st, c);
	for (size_t i = 0; i < c->n_partition; i++)
		mu_map_put_str(&kept, c->partition[i]->name, c);
	for (uint32_t i = 0; i < st->part_count; i++)
		if (!mu_map_get_str(&kept, st->part[i]->row->conf->name))
			drop_part(st, st->part[i]);
	mu_map_clear(&kept);
	for (size_t i = 0; i < c->n_partition; i++)
		set_part(st, c->partition[i], (uint32_t)i);
	sch__parts_order(st);
	sch__rank_all(st);
	sch__policy(st);
	sch__due_again(st);
	if (st->cluster->next_job_id < c->first_job_id)
		st->cluster->next_job_id = c->first_job_id;
	sch__pass_restart(st);
}

void sch__pass_clear(struct sch_state *st)
{
	Mu__ClusterRow *c = st->cluster;
	c->cursor = c->cursor_tier = c->cursor_priority = c->cursor_part = 0;
	for (size_t i = 0; i < c->n_taken; i++)
		free(c->taken[i]);
	free(c->taken);
	free(c->blocked);
	free(c->seen);
	c->taken = NULL;
	c->blocked = NULL;
	c->seen = NULL;
	c->n_taken = c->n_blocked = c->n_seen = 0;
}

/* An unfinished pass cannot go on over other partitions or nodes. */
void sch__pass_restart(struct sch_state *st)
{
	sch__pass_clear(st);
	sch__wake(st);
}

static void set_bytes(ProtobufCBinaryData *field, protobuf_c_boolean *has, const ProtobufCBinaryData *from)
{
	free(field->data);
	field->data = NULL;
	field->len = 0;
	*has = from->len > 0;
	if (!from->len)
		return;
	field->data = malloc(from->len);
	if (!field->data)
		abort();
	memcpy(field->data, from->data, from->len);
	field->len = from->len;
}

int sch__evolve_founded(struct sch_ev *ev)
{
	const Mu__Founded *f = ev->event->founded;
	Mu__ClusterRow *c = ev->st->cluster;
	if (f->level > MU_LEVEL)
		return mu_fail(&ev->err, MU_EVERSION,
			       "the cluster was founded at level %u, this program knows %u", f->level,
			       MU_LEVEL);
	if (sch_founded(ev->st))
		return mu_fail(&ev->err, MU_EEXIST, "The cluster has been founded already");
	if (!f->config || !f->cluster_id.len || f->cluster_id.len > 64 || !f->level)
		return mu_fail(&ev->err, MU_EINVAL,
			       "A founding needs an identity, a level and a configuration");
	Mu__Config *full = NULL;
	int rc = mu_conf_expand(f->config, SCH_NODES_MAX, ev->arena, &full, &ev->err);
	if (!rc)
		rc = check_config(ev->st, full, &ev->err);
	if (rc)
		return rc;
	sch__replace(&c->name, f->name ? f->name : f->config->cluster_name);
	set_bytes(&c->cluster_id, &c->has_cluster_id, &f->cluster_id);
	set_bytes(&c->public_key, &c->has_public_key, &f->public_key);
	c->level = f->level;
	c->next_job_id = f->config->first_job_id ? f->config->first_job_id : 1;
	apply_config(ev, f->config, full);
	sch__accounts_found(ev);
	return 0;
}

int sch__evolve_config_set(struct sch_ev *ev)
{
	Mu__Config *c = ev->event->config_set->config;
	if (!ev->author->operator_)
		return sch__refuse(&ev->err, MU_EPERM);
	if (!c)
		return mu_fail(&ev->err, MU_EINVAL, "No configuration was sent");
	Mu__Config *full = NULL;
	int rc = mu_conf_expand(c, SCH_NODES_MAX, ev->arena, &full, &ev->err);
	if (!rc)
		rc = check_config(ev->st, full, &ev->err);
	if (rc)
		return rc;
	apply_config(ev, c, full);
	return 0;
}

/* ---- partitions by hand ---- */

/* Words that have no field of their own are a list by name; "" takes one away. */
static void merge_extra(struct sch_ev *ev, const Mu__PartitionConf *from, Mu__PartitionConf *into)
{
	size_t n = 0;
	Mu__KeyValue **list =
	    mu_arena_alloc(ev->arena, (into->n_extra + from->n_extra + 1) * sizeof(list[0]));
	for (size_t i = 0; i < into->n_extra; i++) {
		bool again = false;
		for (size_t k = 0; k < from->n_extra; k++)
			again = again || sch__same(into->extra[i]->key, from->extra[k]->key);
		if (!again)
			list[n++] = into->extra[i];
	}
	for (size_t k = 0; k < from->n_extra; k++)
		if (from->extra[k]->value && *from->extra[k]->value)
			list[n++] = from->extra[k];
	into->extra = list;
	into->n_extra = n;
}

/* Nodes that join come behind those that are there. */
static int change_nodes(struct sch_ev *ev, const Mu__PartitionUpdate *u, Mu__PartitionConf *c)
{
	struct mu_map less = {0};
	char **more = NULL, **out = NULL;
	size_t more_count = 0, out_count = 0, n = 0;
	int rc = u->nodes_more ? mu_hostlist_expand(u->nodes_more, SCH_NODES_MAX, ev->arena, &more,
						    &more_count, &ev->err)
			       : 0;
	if (!rc && u->nodes_less)
		rc = mu_hostlist_expand(u->nodes_less, SCH_NODES_MAX, ev->arena, &out, &out_count, &ev->err);
	if (rc)
		return sch__refuse(&ev->err, MU_ENODENAME);
	char **list = mu_arena_alloc(ev->arena, (c->n_node + more_count + 1) * sizeof(list[0]));
	for (size_t i = 0; i < out_count; i++)
		mu_map_put_str(&less, out[i], ev);
	for (size_t i = 0; i < c->n_node + more_count; i++) {
		char *name = i < c->n_node ? c->node[i] : more[i - c->n_node];
		if (!mu_map_put_str(&less, name, ev)) /* Once is enough. */
			list[n++] = name;
	}
	mu_map_clear(&less);
	struct mu_buf folded = {0};
	mu_hostlist_fold((const char *const *)list, n, &folded);
	c->node = list;
	c->n_node = n;
	c->nodes = mu_arena_strdup(ev->arena, folded.len ? (const char *)folded.data : "");
	mu_buf_free(&folded);
	return 0;
}

/* The partition's configuration as U makes it; nothing is written. */
static int merge_part(struct sch_ev *ev, const Mu__PartitionUpdate *u, Mu__PartitionConf *merged)
{
	struct sch_state *st = ev->st;
	for (size_t i = 0; i < u->n_clear; i++) {
		const ProtobufCFieldDescriptor *f =
		    protobuf_c_message_descriptor_get_field(merged->base.descriptor, u->clear[i]);
		if (f && f->offset != offsetof(Mu__PartitionConf, name))
			sch__absent(&merged->base, f);
	}
	if (u->conf->nodes || u->conf->n_node) { /* A new list replaces the old one whole. */
		merged->node = NULL;
		merged->n_node = 0;
	}
	Mu__PartitionConf given = *u->conf;
	merge_extra(ev, &given, merged);
	given.n_extra = 0;
	sch__merge(&merged->base, &given.base);
	merged->has_max_nodes =
	    merged->has_max_nodes && merged->max_nodes != UINT32_MAX; /* unlimited again */
	int rc = expand(st, merged, ev->arena, &ev->err);
	if (!rc && (u->nodes_more || u->nodes_less))
		rc = change_nodes(ev, u, merged);
	for (size_t i = 0; i < merged->n_node && !rc; i++)
		if (!sch__node(st, merged->node[i]))
			rc = mu_fail(&ev->err, MU_ENODENAME, "%s: %s", mu_strerror(MU_ENODENAME),
				     merged->node[i]);
	if (!rc && u->conf->qos && *u->conf->qos && !sch__qos(st, u->conf->qos))
		rc = sch__refuse(&ev->err, MU_EQOS);
	if (!rc && u->conf->alternate && *u->conf->alternate && !sch__part(st, u->conf->alternate))
		rc = sch__refuse(&ev->err, MU_EPARTITION);
	if (!rc && merged->has_max_nodes && merged->min_nodes > merged->max_nodes)
		rc = mu_fail(&ev->err, MU_EINVAL, "MinNodes (%u) is above MaxNodes (%u)", merged->min_nodes,
			     merged->max_nodes);
	return rc;
}

/* Which other one was it is so no more. */
static void one_default(struct sch_state *st, const struct sch_part *p)
{
	for (uint32_t i = 0; i < st->part_count; i++)
		if (st->part[i] != p && st->part[i]->row->conf->is_default) {
			st->part[i]->row->conf->is_default = 0;
			sch__touch(st, &st->part[i]->rec);
		}
}

int sch__evolve_partition_update(struct sch_ev *ev)
{
	struct sch_state *st = ev->st;
	const Mu__PartitionUpdate *u = ev->event->partition_update;
	struct sch_part *p = u->conf ? sch__part(st, u->conf->name) : NULL;
	if (!ev->author->operator_)
		return sch__refuse(&ev->err, MU_EPERM);
	if (!u->conf || !name_fits(u->conf->name))
		return sch__refuse(&ev->err, MU_EPARTITION);
	if (u->create && u->remove)
		return mu_fail(&ev->err, MU_EINVAL, "A partition cannot be created and removed at once");
	if (u->create ? p != NULL : p == NULL)
		return sch__refuse(&ev->err, u->create ? MU_EEXIST : MU_EPARTITION);
	if (u->remove && p->job_refs)
		return mu_fail(&ev->err, MU_EBUSY, "Partition %s has jobs; it cannot be removed",
			       u->conf->name);
	Mu__PartitionConf merged = MU__PARTITION_CONF__INIT;
	if (p)
		merged = *p->row->conf;
	int rc = u->remove ? 0 : merge_part(ev, u, &merged);
	if (rc)
		return rc;
	if (merged.is_default && u->conf->is_default)
		one_default(st, p);
	if (u->remove)
		drop_part(st, p);
	else
		set_part(st, &merged,
			 p		  ? p->order
			 : st->part_count ? st->part[st->part_count - 1]->order + 1
					  : 0);
	sch__parts_order(st);
	for (uint32_t i = 0; i < st->part_count; i++)
		sch__part_derive(st, st->part[i]);
	sch__due_again(st);
	sch__resvs_derive(st);
	sch__policy(st);
	sch__pass_restart(st);
	return 0;
}

/* ---- leaders, levels ---- */

int sch__evolve_leader_elected(struct sch_ev *ev)
{
	ev->st->cluster->leader = ev->event->leader_elected->replica;
	ev->st->cluster->leader_since_usec = ev->now;
	sch__wake(ev->st);
	return 0;
}

int sch__evolve_replica_level(struct sch_ev *ev)
{
	const Mu__ReplicaLevel *r = ev->event->replica_level;
	Mu__ClusterRow *c = ev->st->cluster;
	if (!r->replica || c->n_voter >= 64)
		return mu_fail(&ev->err, MU_EINVAL, "A replica without an id, or too many of them");
	size_t i = 0;
	while (i < c->n_voter && c->voter[i]->replica < r->replica)
		i++;
	if (i == c->n_voter || c->voter[i]->replica != r->replica) {
		c->voter = realloc(c->voter, (c->n_voter + 1) * sizeof(c->voter[0]));
		Mu__Voter *v = calloc(1, sizeof(*v));
		if (!c->voter || !v)
			abort();
		mu__voter__init(v);
		memmove(&c->voter[i + 1], &c->voter[i], (c->n_voter - i) * sizeof(c->voter[0]));
		c->voter[i] = v;
		c->n_voter++;
	}
	SCH_SET(c->voter[i], replica, r->replica);
	SCH_SET(c->voter[i], level, r->level);
	return 0;
}

int sch__evolve_level_raised(struct sch_ev *ev)
{
	const Mu__LevelRaised *l = ev->event->level_raised;
	Mu__ClusterRow *c = ev->st->cluster;
	if (l->level > MU_LEVEL)
		return mu_fail(&ev->err, MU_EVERSION, "the State rises to level %u, this program knows %u",
			       l->level, MU_LEVEL);
	if (l->level <= c->level || !sch_founded(ev->st))
		return mu_fail(&ev->err, MU_EVOID, "The State is at level %u already", c->level);
	for (size_t i = 0; i < c->n_voter; i++)
		if (c->voter[i]->level < l->level)
			return mu_fail(&ev->err, MU_EVOID, "A controller has not reported level %u yet",
				       l->level);
	c->level = l->level;
	return 0;
}

int sch__evolve_digest_announced(struct sch_ev *ev)
{
	return 0; /* Compared by the controller; the State has no memory of past digests. */
}

int sch__evolve_voided(struct sch_ev *ev)
{
	return 0; /* Says which position replay and audit pass over; the position itself never reached evolve.
		   */
}

/* ---- time ---- */

static void begin_times(struct sch_ev *ev)
{
	for (uint32_t i = 0; i < SCH_BEGIN_PER_TICK; i++) {
		const uint8_t *key = NULL;
		size_t len = 0;
		struct sch_job *j = mu_map_seek(&ev->st->begins, NULL, 0, 0, &key, &len);
		if (!j || (int64_t)mu_get_be64(key) > ev->now)
			return;
		if (j->reason == REASON_Dependency) {
			sch__depend_again(ev, j);
			continue;
		}
		sch__queue_out(ev->st, j);
		sch__reason(ev->st, j, REASON_None, NULL);
		sch__queue_in(ev->st, j);
		sch__touch(ev->st, &j->rec);
	}
}

static void purge(struct sch_ev *ev)
{
	int64_t before = ev->now - sch__min_job_age(ev->st);
	for (uint32_t i = 0; i < SCH_PURGE_PER_TICK; i++)
		if (!sch__purge_oldest(ev->st, before))
			return;
}

int sch__evolve_tick(struct sch_ev *ev)
{
	ev->st->cluster->last_tick_usec = ev->now;
	if (ev->st->cluster->level >= 2) /* A rule changed by the level, as such rules are. */
		ev->st->cluster->probe++;
	sch__resv_tick(ev);
	sch__nodes_resume(ev);
	begin_times(ev);
	sch__switch_waits_end(ev);
	sch__preempt_exempts_end(ev);
	purge(ev);
	sch__priorities_tick(ev);
	return 0;
}

#if MU_LEVEL >= 2
int sch__evolve_level_probe(struct sch_ev *ev)
{
	if (!ev->author->operator_)
		return sch__refuse(&ev->err, MU_EPERM);
	ev->st->cluster->probe += ev->event->level_probe->value;
	return 0;
}
#endif
