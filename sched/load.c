/* sched/load.c: rows to State: kinds in ascending order, then everything that is derived. The only other
 * place that knows all derived things is evolve, which keeps them up: a test compares the two. */
#include "sched/state.h"

#include <assert.h>
#include <stdlib.h>

static int bad_row(struct mu_err *err, uint8_t kind)
{
	return mu_fail(err, MU_EPROTO, "a row of kind %u does not decode", kind);
}

/* Parses into malloc memory, after the arena's checks. */
static void *open_row(const ProtobufCMessageDescriptor *type, const uint8_t *row, size_t len)
{
	struct mu_arena arena = {0};
	ProtobufCMessage *m = mu_pb_unpack(type, row, len, &arena);
	void *copy = m ? sch__copy_message(m) : NULL;
	mu_arena_free(&arena);
	return copy;
}

static int load_cluster(struct sch_state *st, const uint8_t *row, size_t len, struct mu_err *err)
{
	Mu__ClusterRow *c = open_row(&mu__cluster_row__descriptor, row, len);
	if (!c)
		return bad_row(err, SCH_ROW_CLUSTER);
	mu__cluster_row__free_unpacked(st->cluster, NULL);
	st->cluster = c;
	return 0;
}

static int load_config(struct sch_state *st, const uint8_t *row, size_t len, struct mu_err *err)
{
	Mu__ConfigRow *c = open_row(&mu__config_row__descriptor, row, len);
	if (!c)
		return bad_row(err, SCH_ROW_CONFIG);
	mu__config_row__free_unpacked(st->config.row, NULL);
	st->config.row = c;
	st->config.rec.counted = true;
	return 0;
}

static int load_part(struct sch_state *st, const uint8_t *row, size_t len, struct mu_err *err)
{
	Mu__PartitionRow *r = open_row(&mu__partition_row__descriptor, row, len);
	if (!r)
		return bad_row(err, SCH_ROW_PARTITION);
	if (!r->conf || !r->conf->name || sch__part(st, r->conf->name)) {
		mu__partition_row__free_unpacked(r, NULL);
		return mu_fail(err, MU_ECORRUPT, "a partition row without a name, or twice");
	}
	sch__part_build(st, r);
	return 0;
}

static int load_node(struct sch_state *st, const uint8_t *row, size_t len, struct mu_err *err)
{
	struct sch_node *n;
	Mu__NodeRow *r = open_row(&mu__node_row__descriptor, row, len);
	if (!r)
		return bad_row(err, SCH_ROW_NODE);
	if (!r->name || !r->conf || sch__node(st, r->name) || r->n_gres > SCH_GRES_PER_NODE) {
		mu__node_row__free_unpacked(r, NULL);
		return mu_fail(err, MU_ECORRUPT, "a node row without name or configuration, or twice");
	}
	for (size_t i = 0; i < r->n_gres; i++) { /* What is taken follows from the jobs. */
		r->gres[i]->n_used_index = 0;
		SCH_SET(r->gres[i], used, 0);
	}
	return sch__node_build(st, r, &n);
}

static int load_key(struct sch_state *st, const uint8_t *row, size_t len, struct mu_err *err)
{
	Mu__NodeKeyRow *r = open_row(&mu__node_key_row__descriptor, row, len);
	if (!r)
		return bad_row(err, SCH_ROW_NODE_KEY);
	if (!r->node || mu_map_get_str(&st->node_key, r->node)) {
		mu__node_key_row__free_unpacked(r, NULL);
		return mu_fail(err, MU_ECORRUPT, "a node key row without a node, or twice");
	}
	struct sch_key_rec *k = sch__alloc(st, sizeof(*k));
	k->rec.kind = SCH_ROW_NODE_KEY;
	k->rec.change = UINT32_MAX;
	k->row = r;
	mu_map_put_str(&st->node_key, r->node, k);
	return 0;
}

/* Accounts and what belongs to them. */
static int load_accounts(struct sch_state *st, uint8_t kind, const uint8_t *row, size_t len,
			 struct mu_err *err)
{
	const ProtobufCMessageDescriptor *type = kind == SCH_ROW_ACCOUNT ? &mu__account_row__descriptor
						 : kind == SCH_ROW_USER	 ? &mu__user_row__descriptor
						 : kind == SCH_ROW_ASSOC ? &mu__assoc_row__descriptor
									 : &mu__qos_row__descriptor;
	void *m = open_row(type, row, len);
	return m ? sch__accounts_load(st, kind, m, err) : bad_row(err, kind);
}

/* Jobs, steps and answers become records of our own: the decoded row is scratch. */
static int load_record(struct sch_state *st, uint8_t kind, const uint8_t *row, size_t len, struct mu_err *err)
{
	const ProtobufCMessageDescriptor *type = kind == SCH_ROW_JOB	 ? &mu__job_row__descriptor
						 : kind == SCH_ROW_STEP	 ? &mu__step_row__descriptor
						 : kind == SCH_ROW_ARRAY ? &mu__array_row__descriptor
									 : &mu__answer_row__descriptor;
	mu_arena_reset(&st->scratch->event);
	ProtobufCMessage *m = mu_pb_unpack(type, row, len, &st->scratch->event);
	if (!m)
		return bad_row(err, kind);
	if (kind == SCH_ROW_JOB)
		return sch__job_load(st, (Mu__JobRow *)m, err);
	if (kind == SCH_ROW_ARRAY)
		return sch__array_load(st, (Mu__ArrayRow *)m, err);
	if (kind == SCH_ROW_STEP)
		return sch__step_load(st, (Mu__StepRow *)m)
			   ? mu_fail(err, MU_ECORRUPT, "a step row without its job, or twice")
			   : 0;
	sch__answer_load(st, (Mu__AnswerRow *)m);
	return 0;
}

int sch_load_row(struct sch_state *st, uint8_t kind, const uint8_t *row, size_t len, struct mu_err *err)
{
	st->loading = true;
	switch (kind) {
	case SCH_ROW_CLUSTER:
		return load_cluster(st, row, len, err);
	case SCH_ROW_CONFIG:
		return load_config(st, row, len, err);
	case SCH_ROW_PARTITION:
		return load_part(st, row, len, err);
	case SCH_ROW_NODE:
		return load_node(st, row, len, err);
	case SCH_ROW_NODE_KEY:
		return load_key(st, row, len, err);
	case SCH_ROW_ACCOUNT:
	case SCH_ROW_USER:
	case SCH_ROW_ASSOC:
	case SCH_ROW_QOS:
		return load_accounts(st, kind, row, len, err);
	case SCH_ROW_RESERVATION: {
		Mu__ReservationRow *r = open_row(&mu__reservation_row__descriptor, row, len);
		return r ? sch__resv_load(st, r, err) : bad_row(err, kind);
	}
	case SCH_ROW_JOB:
	case SCH_ROW_STEP:
	case SCH_ROW_ANSWER:
	case SCH_ROW_ARRAY:
		return load_record(st, kind, row, len, err);
	default:
		return mu_fail(err, MU_EPROTO, "%u is no kind of row", kind);
	}
}

/* ---- what is derived ---- */

static int order_nodes(struct sch_state *st, struct mu_err *err)
{
	st->node_count = (uint32_t)st->node_by_name.count;
	st->node = sch__alloc(st, st->node_count * sizeof(st->node[0]));
	st->by_rank = sch__alloc(st, st->node_count * sizeof(st->node[0]));
	const uint8_t *key = NULL;
	size_t len = 0;
	bool ok = true;
	for (struct sch_node *n = mu_map_seek(&st->node_by_name, NULL, 0, 0, &key, &len); n;
	     n = mu_map_seek(&st->node_by_name, key, len, 1, &key, &len)) {
		ok = ok && n->order < st->node_count && !st->node[n->order];
		if (ok)
			st->node[n->order] = n;
	}
	if (ok)
		return 0;
	sch__free(st, st->node, st->node_count * sizeof(st->node[0]));
	sch__free(st, st->by_rank, st->node_count * sizeof(st->node[0]));
	st->node = st->by_rank = NULL;
	st->node_count = 0;
	return mu_fail(err, MU_ECORRUPT, "node rows are not numbered from 0 without holes");
}

static void shape_of(struct sch_state *st, struct sch_job *j)
{
	Mu__JobSpec *spec = sch__spec_open(j->spec, &st->scratch->event);
	struct sch_want w = {.nodes_min = j->nodes_min,
			     .nodes_max = j->nodes_max,
			     .ntasks = j->ntasks,
			     .cpus_per_task = j->cpus_per_task,
			     .own_spec = spec->has_core_spec || spec->has_thread_spec,
			     .exclusive = spec->exclusive};
	w.exclusive = w.exclusive || w.own_spec;
	sch__want_gpus(spec, &w, NULL); /* Only what follows from the spec alone: it was admitted. */
	w.nodes_min = j->nodes_min;
	w.nodes_max = j->nodes_max;
	w.ntasks = j->ntasks;
	if (sch__grows(spec, &w)) /* The row has what the last attempt came to. */
		w.ntasks = j->nodes_min * (spec->ntasks_per_node ? spec->ntasks_per_node : 1);
	sch__mem_asked(spec, &w.mem_kind, &w.mem_mib);
	if (w.mem_kind == SCH_MEM_CPU)
		w.mem_mib = j->mem_cpu_mib;
	j->shape = sch__shape(st, spec, &w);
}

static int take_holds(struct sch_state *st, struct sch_job *j, struct sch_alloc *a, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		if (a[i].released)
			continue;
		/* Attempts of one job may differ in it. */
		j->exclusive = a[i].parked ? a[i].parked == 2 : a[i].node->row->exclusive;
		/* Of memory a node may have less by now than its jobs were given. */
		if (!sch__room_apart(&a[i].node->room, a[i].node, &a[i], UINT32_MAX))
			return MU_ECORRUPT;
		sch__hold_add(st, j, &a[i]);
	}
	return 0;
}

static int derive_job(struct sch_state *st, struct sch_job *j, struct mu_err *err)
{
	mu_arena_reset(&st->scratch->event);
	shape_of(st, j);
	if (!mu_job_state_ended(j->state))
		sch__job_part_refs(st, j, 1);
	sch__job_count(st, j, 1);
	st->job_tasks += sch__job_size(j);
	if (j->run) {
		for (uint32_t i = 0; i < j->run->alloc_count; i++)
			j->run->open += !j->run->alloc[i].released && !j->run->alloc[i].lost;
		if (take_holds(st, j, j->run->alloc, j->run->alloc_count) ||
		    take_holds(st, j, j->run->left, j->run->left_count))
			return mu_fail(err, MU_ECORRUPT, "job row %u holds what another job holds", j->id);
	} else if (sch__lives(j) || j->state == JOB_COMPLETING) {
		return mu_fail(err, MU_ECORRUPT, "job row %u runs nowhere", j->id);
	}
	if (j->eligible_usec < 0 || j->end_usec < 0 || j->deadline_usec < 0 || j->start_usec < 0)
		return mu_fail(err, MU_ECORRUPT, "job row %u has a moment before the calendar", j->id);
	if (!mu_job_state_ended(j->state))
		sch__name_index(st, j, true);
	sch__depend_index(st, j, j->state == JOB_PENDING);
	sch__queue_in(st, j);
	sch__due_set(st, j);
	sch__tomb_in(st, j);
	return 0;
}

static int derive_jobs(struct sch_state *st, struct mu_err *err)
{
	uint64_t id = 0;
	int rc = 0;
	for (struct sch_job *j = mu_map_next_u64(&st->jobs, 0, &id); j && !rc;
	     j = mu_map_next_u64(&st->jobs, id + 1, &id))
		rc = derive_job(st, j, err);
	return rc ? rc : sch__array_check_loaded(st, err);
}

static int count_row(void *arg, const struct sch_key *key, const uint8_t *row, size_t len)
{
	struct sch_state *st = arg;
	struct mu_hash hash;
	sch__row_hash(key, row, len, &hash);
	if (key->kind == SCH_ROW_CLUSTER)
		return 0;
	mu_hash_sum_add(&st->sum, &hash);
	struct sch_rec *rec = sch__rec_find(st, key);
	if (rec) {
		rec->hash = hash;
		rec->counted = true;
	}
	return 0;
}

int sch_load_done(struct sch_state *st, struct mu_err *err)
{
	st->loading = true;
	sch__config_derive(st);
	int rc = order_nodes(st, err);
	if (rc)
		return rc;
	sch__parts_order(st);
	sch__rank_all(st);
	sch__policy(st);
	rc = sch__accounts_load_done(st, err);
	if (rc)
		return rc;
	rc = derive_jobs(st, err);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < st->node_count; i++)
		sch__node_moments_index(st, st->node[i]);
	sch_rows(st, 0, count_row, st);
	st->loading = false;
	st->wake_pos = st->cluster->entries;
	return 0;
}
