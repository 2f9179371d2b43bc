/* sched/orders.c: what should exist on a node, from State alone: applying it twice changes nothing. */
#include "proto/layout/layout.h"
#include "sched/state.h"

static uint32_t end_cause(const struct sch_job *j, bool current)
{
	if (!current)
		return END_NODE_FAIL;
	switch (j->end_state) {
	case JOB_CANCELLED:
		return END_CANCEL;
	case JOB_TIMEOUT:
		return END_TIME_LIMIT;
	case JOB_NODE_FAIL:
		return END_NODE_FAIL;
	case JOB_PREEMPTED:
		return END_PREEMPT;
	case JOB_DEADLINE:
		return END_DEADLINE;
	case JOB_REQUEUED:
		return END_REQUEUE;
	default:
		return END_JOB_OVER;
	}
}

static Mu__NodeAddr *peer(const struct sch_state *st, const struct sch_alloc *a, struct mu_arena *arena)
{
	const struct sch_node *n = sch__node(st, a->name->text);
	Mu__NodeAddr *p = mu_arena_alloc(arena, sizeof(*p));
	mu__node_addr__init(p);
	p->node = a->name->text;
	p->addr = n && n->row->addr ? n->row->addr : n && n->row->conf ? n->row->conf->addr : NULL;
	if (n)
		SCH_SET(p, port, n->row->port ? n->row->port : n->row->conf ? n->row->conf->port : 0);
	return p;
}

static void whole_allocation(const struct sch_state *st, const struct sch_job *j, Mu__AttemptOrder *o,
			     struct mu_arena *arena)
{
	uint32_t count = j->run->alloc_count;
	o->alloc = mu_arena_alloc(arena, (count + 1) * sizeof(o->alloc[0]));
	o->peer = mu_arena_alloc(arena, (count + 1) * sizeof(o->peer[0]));
	for (uint32_t i = 0; i < count; i++) {
		o->alloc[i] = sch__alloc_row(&j->run->alloc[i], arena);
		SCH_SET(o->alloc[i], attempt, 0);
		/* What others have released is no matter of this node: its orders must not change with it. */
		SCH_SET(o->alloc[i], released, 0);
		SCH_SET(o->alloc[i], lost, 0);
		SCH_SET(o->alloc[i], parked, 0);
		o->peer[i] = peer(st, &j->run->alloc[i], arena);
	}
	o->n_alloc = o->n_peer = count;
	o->node_list = (char *)sch__text(j->run->node_list);
}

static char *counts(const struct sch_job *j, bool tasks, struct mu_arena *arena)
{
	uint32_t count = j->run->alloc_count, *v = mu_arena_alloc(arena, (count + 1) * sizeof(v[0]));
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};
	for (uint32_t i = 0; i < count; i++)
		v[i] = tasks ? j->run->alloc[i].tasks : j->run->alloc[i].cpus;
	mu_counts_print(v, count, &text);
	return mu_arena_strdup(arena, (const char *)text.data);
}

/* What the processes of one component of a heterogeneous job are told of the others: it stays the same for as
 * long as the attempt lasts. */
static void components(const struct sch_state *st, const struct sch_job *j, Mu__AttemptOrder *o,
		       struct mu_arena *arena)
{
	SCH_SET(o, het_offset, j->het_offset);
	o->het = mu_arena_alloc(arena, (j->het_count + 1) * sizeof(o->het[0]));
	for (uint32_t k = 0; k < j->het_count; k++) {
		const struct sch_job *m = sch__het_part(st, j, k);
		Mu__HetComponent *c = mu_arena_alloc(arena, sizeof(*c));
		mu__het_component__init(c);
		o->het[o->n_het++] = c;
		SCH_SET(c, job, j->het_first + k);
		if (!m || !m->run || !m->run->alloc_count)
			continue;
		c->node_list = (char *)sch__text(m->run->node_list);
		c->partition = (char *)sch__text(m->partition);
		SCH_SET(c, ntasks, m->ntasks);
		SCH_SET(c, cpus_per_task, m->shape->cpus_given ? m->cpus_per_task : 0);
		SCH_SET(c, mem_cpu_mib, m->mem_cpu_mib);
		SCH_SET(c, mem_node_mib, m->mem_node_mib);
		SCH_SET(c, nodes, m->run->alloc_count);
		c->cpus_per_node = counts(m, false, arena);
		c->tasks_per_node = counts(m, true, arena);
		c->first = peer(st, &m->run->alloc[0], arena);
	}
}

static void job_part(const struct sch_state *st, const struct sch_job *j, Mu__AttemptOrder *o,
		     struct mu_arena *arena)
{
	o->spec = sch__spec_open(j->spec, arena);
	SCH_SET(o, uid, j->who->uid);
	SCH_SET(o, gid, j->who->gid);
	o->user = (char *)sch__text(j->who->user);
	o->group = (char *)sch__text(j->who->group);
	o->groups = j->who->groups;
	o->n_groups = j->who->group_count;
	o->partition = (char *)sch__text(j->partition);
	o->account = (char *)sch__text(j->account);
	o->qos = (char *)sch__text(j->qos);
	SCH_SET(o, time_limit_sec, j->time_limit_sec);
	SCH_SET(o, over_time_sec, sch__over_time_sec(st, j));
	SCH_SET(o, start_usec, j->start_usec);
	SCH_SET(o, submit_usec, j->submit_usec);
	SCH_SET(o, suspended, j->state == JOB_SUSPENDED);
	SCH_SET(o, suspended_usec, j->run->suspended_usec);
	SCH_SET(o, restarts, j->restarts);
	SCH_SET(o, ntasks, j->ntasks);
	SCH_SET(o, cpus_per_task, j->cpus_per_task);
	SCH_SET(o, mem_cpu_mib, j->mem_cpu_mib);
	SCH_SET(o, mem_node_mib, j->mem_node_mib);
	if (j->array) {
		SCH_SET(o, array_job, j->array->id);
		o->has_array_task = true;
		o->array_task = j->task;
	}
	o->has_job_key = j->job_key_len > 0;
	o->job_key.data = (uint8_t *)j->job_key;
	o->job_key.len = j->job_key_len;
	SCH_SET(o, signal_seq, j->run->signal_seq);
	SCH_SET(o, signal_number, j->run->pending_signal);
	SCH_SET(o, signal_flags, j->run->signal_flags);
	SCH_SET(o, signal_step, j->run->signal_step);
	SCH_SET(o, signal_has_step, j->run->signal_has_step);
}

static Mu__AttemptOrder *order(const struct sch_state *st, const struct sch_node *n, const struct sch_hold *h,
			       struct mu_arena *arena)
{
	struct sch_job *j = h->job;
	bool current = h->attempt == j->attempt && (sch__lives(j) || j->state == JOB_COMPLETING);
	const struct sch_alloc *a = sch__alloc_on(j, h->attempt, n);
	Mu__AttemptOrder *o = mu_arena_alloc(arena, sizeof(*o));
	mu__attempt_order__init(o);
	SCH_SET(o, job, j->id);
	SCH_SET(o, attempt, h->attempt);
	o->has_phase = true;
	o->phase = current && sch__lives(j) ? MU__PHASE__PHASE_RUN : MU__PHASE__PHASE_END;
	if (o->phase == MU__PHASE__PHASE_END) {
		SCH_SET(o, end_cause, end_cause(j, h->attempt == j->attempt));
		if (j->has_canceller)
			SCH_SET(o, end_by_uid, j->cancelled_by);
	}
	if (!current) /* An attempt that was lost with the node: only its end is ordered. */
		return o;
	job_part(st, j, o, arena);
	if (j->het_count)
		components(st, j, o, arena);
	whole_allocation(st, j, o, arena);
	SCH_SET(o, batch_host, a == &j->run->alloc[0]);
	SCH_SET(o, node_index, (uint32_t)(a - j->run->alloc));
	o->here = o->alloc[a - j->run->alloc];
	return o;
}

/* A node asks for its orders: should it first say who it is? One that nobody knows yet; and one that was
 * given up for its silence where ReturnToService lets it come back, or a cut network would cost the node for
 * good. After it has registered the reason is another, so that it is not asked again and again. */
static bool wants_registration(const struct sch_state *st, const struct sch_node *n)
{
	if (n->row->base_state == NODE_UNKNOWN)
		return true;
	return n->row->base_state == NODE_DOWN && sch__conf(st)->return_to_service > 0 && n->row->reason &&
	       strcmp(n->row->reason, SCH_NOT_RESPONDING) == 0;
}

int sch_orders(const struct sch_state *st, const char *node, struct mu_arena *arena, Mu__OrderSet **ret)
{
	const struct sch_node *n = sch__node(st, node);
	if (!n)
		return MU_ENOENT;
	Mu__OrderSet *set = mu_arena_alloc(arena, sizeof(*set));
	struct mu_buf packed = {0};
	struct mu_hash hash;
	mu__order_set__init(set);
	set->node = n->row->name;
	set->attempt = mu_arena_alloc(arena, (n->hold_count + 1) * sizeof(set->attempt[0]));
	for (uint32_t i = 0; i < n->hold_count; i++)
		set->attempt[set->n_attempt++] = order(st, n, &n->hold[i], arena);
	const Mu__Config *c = sch__conf(st);
	set->has_config_hash = c->has_source_hash;
	set->config_hash = c->source_hash;
	SCH_SET(set, register_, wants_registration(st, n));
	mu_pb_pack(&set->base, &packed);
	mu_hash_bytes(packed.data, packed.len, &hash);
	mu_buf_free(&packed);
	set->has_digest = true;
	set->digest.len = sizeof(hash.b);
	set->digest.data = mu_arena_dup(arena, hash.b, sizeof(hash.b));
	SCH_SET(set, pos, st->cluster->entries);
	*ret = set;
	return 0;
}
