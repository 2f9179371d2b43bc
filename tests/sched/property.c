/* tests/sched/property.c: random streams of events, sensible and not, with the invariants of harness.c after
 * each prefix, the same stream folded again, and at the end a cluster that comes to rest with nothing held.
 *
 * Usage: property [FIRST_SEED [SEEDS]]; MUSTER_TEST_SIZE=fast|ci|full sets the number of seeds. A failure
 * prints its seed. */
#include <stdlib.h>
#include <string.h>

#include "proto/base/map.h"
#include "proto/states.h"
#include "tests/sched/harness.h"
#include "tests/sched/make.h"

enum { EVENTS = 160, NODES_MAX = 6 };
struct world {
	struct harness h;
	struct mu_seed seed;
	struct mu_arena arena;
	Mu__Config *config;
	uint32_t nodes;
	bool reserves; /* reservations come and go */
	bool personal; /* some jobs share nodes with their own user's only */
	bool sharing;  /* some share CPUs */
};

static char *node_name(struct world *w)
{
	return mu_arena_printf(&w->arena, "n%u", below(w, w->nodes + (chance(w, 3) ? 2 : 0)));
}

static char *part_name(struct world *w)
{
	return mu_arena_printf(&w->arena, "p%u", below(w, chance(w, 3) ? 4 : 3));
}

static uint32_t job_id(struct world *w)
{
	uint32_t next = sch_cluster(w->h.st)->next_job_id;
	uint32_t span = next > 12 && chance(w, 80) ? 12 : next + 2;
	return next + 1 - below(w, span);
}

/* ---- the cluster ---- */

static Mu__NodeConf *random_node(struct world *w, uint32_t i)
{
	Mu__NodeConf *c = NEW(w, Mu__NodeConf, mu__node_conf__init);
	uint32_t threads = chance(w, 30) ? 2 : 1;
	c->name = mu_arena_printf(&w->arena, "n%u", i);
	SET(c, cpus, threads * (1 + below(w, 6)));
	SET(c, threads_per_core, threads);
	SET(c, sockets, 1);
	SET(c, real_memory_mib, 1000 * (1 + below(w, 4)));
	SET(c, weight, 1 + below(w, 3));
	if (chance(w, 15))
		SET(c, core_spec_count, 1);
	c->feature = mu_arena_alloc(&w->arena, sizeof(char *));
	c->feature[0] = mu_arena_printf(&w->arena, "f%u", below(w, 2));
	c->n_feature = 1;
	c->gres = mu_arena_alloc(&w->arena, 2 * sizeof(c->gres[0]));
	for (uint32_t g = below(w, 3); g > 0; g--) {
		Mu__GresConf *r = NEW(w, Mu__GresConf, mu__gres_conf__init);
		r->name = (char *)"gpu";
		r->type = g == 1 ? (char *)"a" : (char *)"b";
		SET(r, count, 1 + below(w, 3));
		if (chance(w, 30))
			r->cores = (char *)(chance(w, 50) ? "0" : "1-2");
		c->gres[c->n_gres++] = r;
	}
	return c;
}

static Mu__PartitionConf *random_part(struct world *w, uint32_t i)
{
	Mu__PartitionConf *p = NEW(w, Mu__PartitionConf, mu__partition_conf__init);
	p->name = mu_arena_printf(&w->arena, "p%u", i);
	SET(p, is_default, i == 0);
	p->node = mu_arena_alloc(&w->arena, NODES_MAX * sizeof(char *));
	for (uint32_t n = 0; n < w->nodes; n++)
		if (i == 0 || chance(w, 60))
			p->node[p->n_node++] = mu_arena_printf(&w->arena, "n%u", n);
	SET(p, max_time_sec, chance(w, 50) ? -1 : 60 * (int64_t)(1 + below(w, 60)));
	SET(p, priority_tier, 1 + below(w, 2));
	if (chance(w, 20))
		p->oversubscribe = (char *)"EXCLUSIVE";
	if (w->sharing && i)
		p->oversubscribe = (char *)(i == 1 ? "FORCE:2" : "YES:3");
	if (chance(w, 20))
		SET(p, max_nodes, 1 + below(w, 3));
	if (chance(w, 20))
		SET(p, max_cpus_node, 1 + below(w, 4));
	SET(p, exclusive_user, w->personal && chance(w, 20));
	SET(p, lln, chance(w, 20));
	return p;
}

/* Two leaves and what is above them; some nodes below none. */
static void draw_topology(struct world *w, Mu__Config *c)
{
	char *list[2] = {(char *)"", (char *)""};
	c->topology = mu_arena_alloc(&w->arena, 3 * sizeof(c->topology[0]));
	for (uint32_t i = 0; i < w->nodes; i++) {
		uint32_t leaf = below(w, 3);
		if (leaf < 2)
			list[leaf] =
			    mu_arena_printf(&w->arena, "%s%sn%u", list[leaf], *list[leaf] ? "," : "", i);
	}
	for (uint32_t i = 0; i < 3; i++) {
		Mu__SwitchConf *s = c->topology[c->n_topology++] =
		    NEW(w, Mu__SwitchConf, mu__switch_conf__init);
		s->name = mu_arena_printf(&w->arena, "s%u", i);
		s->nodes = i < 2 ? list[i] : NULL;
		s->switches = i < 2 ? NULL : (char *)"s[0-1]";
	}
}

static void draw_preemption(struct world *w, Mu__Config *c)
{
	static const char *const modes[] = {"CANCEL", "REQUEUE", "SUSPEND,GANG", "OFF"};
	static const char *const pairs[][2] = {{"PreemptType", "preempt/partition_prio"},
					       {"PreemptExemptTime", "00:01:00"},
					       {"PreemptMode", NULL}};
	Mu__KeyValue **before = c->key;
	c->key = mu_arena_alloc(&w->arena, (c->n_key + 3) * sizeof(c->key[0]));
	if (c->n_key)
		memcpy(c->key, before, c->n_key * sizeof(c->key[0]));
	for (size_t i = 0; i < 3; i++) {
		Mu__KeyValue *k = c->key[c->n_key++] = NEW(w, Mu__KeyValue, mu__key_value__init);
		k->key = (char *)pairs[i][0];
		k->value = (char *)(pairs[i][1] ? pairs[i][1] : modes[below(w, 4)]);
		if (i == 1 && chance(w, 60))
			k->value = (char *)"00:00:00";
	}
	for (size_t i = 0; i < c->n_partition; i++) {
		SET(c->partition[i], priority_tier, 1 + below(w, 3));
		if (chance(w, 40))
			c->partition[i]->preempt_mode = (char *)modes[below(w, 4)];
		if (chance(w, 30))
			SET(c->partition[i], grace_time_sec, below(w, 90));
	}
}

static Mu__Config *random_config(struct world *w)
{
	static const char *const select[] = {"CR_CORE",	      "CR_CPU",	   "CR_CORE_MEMORY",
					     "CR_CPU_MEMORY", "CR_SOCKET", "CR_LLN,CR_CPU"};
	static const char *const enforce[] = {"NO", "ANY", "ALL"};
	Mu__Config *c = NEW(w, Mu__Config, mu__config__init);
	c->cluster_name = (char *)"random";
	c->node = mu_arena_alloc(&w->arena, NODES_MAX * sizeof(c->node[0]));
	for (uint32_t i = 0; i < w->nodes; i++)
		c->node[c->n_node++] = random_node(w, i);
	c->partition = mu_arena_alloc(&w->arena, 3 * sizeof(c->partition[0]));
	for (uint32_t i = 0; i < 3; i++)
		c->partition[c->n_partition++] = random_part(w, i);
	SET(c, first_job_id, 1);
	SET(c, min_job_age_sec, 50 + below(w, 300));
	SET(c, slurmd_timeout_sec, chance(w, 20) ? 0 : 100 + below(w, 300));
	SET(c, kill_wait_sec, 30);
	SET(c, return_to_service, below(w, 3));
	SET(c, requeue_needs_fence, chance(w, 20));
	SET(c, job_requeue, chance(w, 80));
	SET(c, max_job_count, 60);
	c->select_type_parameters = (char *)select[below(w, 6)];
	c->enforce_part_limits = (char *)enforce[below(w, 3)];
	if (chance(w, 50))
		SET(c, def_mem_cpu_mib, 100);
	if (chance(w, 30))
		draw_topology(w, c);
	if (chance(w, 50)) {
		Mu__KeyValue *k = NEW(w, Mu__KeyValue, mu__key_value__init);
		k->key = (char *)"AllowSpecResourcesUsage";
		k->value = (char *)"Yes";
		c->key = mu_arena_dup(&w->arena, &k, sizeof(k));
		c->n_key = 1;
	}
	if (chance(w, 50))
		draw_preemption(w, c);
	return c;
}

/* ---- events ---- */

static void founding(struct world *w, Mu__Event *e)
{
	e->kind_case = MU__EVENT__KIND_FOUNDED;
	e->founded = NEW(w, Mu__Founded, mu__founded__init);
	e->founded->config = w->config;
	e->founded->has_cluster_id = 1;
	e->founded->cluster_id.data = (uint8_t *)"0123456789abcdef";
	e->founded->cluster_id.len = 16;
	SET(e->founded, level, 1);
}

static Mu__GresAsk **gpus(struct world *w, uint32_t count)
{
	Mu__GresAsk *g = NEW(w, Mu__GresAsk, mu__gres_ask__init);
	g->name = (char *)"gpu";
	g->type = chance(w, 70) ? NULL : chance(w, 50) ? (char *)"a" : (char *)"b";
	SET(g, count, count);
	return mu_arena_dup(&w->arena, &g, sizeof(g));
}

/* The rarer ways to ask of nodes. */
static void random_shape(struct world *w, Mu__JobSpec *s)
{
	if (chance(w, 12)) {
		s->gres_job = gpus(w, below(w, 5));
		s->n_gres_job = 1;
	}
	if (chance(w, 10)) {
		s->gres_task = gpus(w, below(w, 3));
		s->n_gres_task = 1;
	}
	if (chance(w, 12))
		SET(s, cpus_per_gpu, below(w, 3));
	if (chance(w, 8))
		SET(s, mem_gpu_mib, 100 * below(w, 4));
	if (chance(w, 5))
		SET(s, ntasks_per_gpu, 1 + below(w, 2));
	SET(s, contiguous, chance(w, 6));
	if (chance(w, 10))
		SET(s, switches, 1 + below(w, 2));
	if (s->switches && chance(w, 50))
		SET(s, switches_wait_sec, below(w, 200));
	SET(s, exclusive_user, w->personal && chance(w, 10));
	SET(s, spread_job, chance(w, 6));
	SET(s, use_min_nodes, chance(w, 6));
	if (chance(w, 10))
		s->prefer = (char *)(chance(w, 50) ? "f0" : "f1");
	if (chance(w, 6))
		s->batch_features = (char *)(chance(w, 50) ? "f0" : "f1");
	if (chance(w, 6))
		SET(s, core_spec, below(w, 3));
	SET(s, near_gpus, chance(w, 10));
	SET(s, any_cpus, chance(w, 5));
	if (chance(w, 10))
		SET(s, time_min_sec, 60 * (int64_t)(1 + below(w, 10)));
}

static Mu__JobSpec *random_spec(struct world *w)
{
	Mu__JobSpec *s = NEW(w, Mu__JobSpec, mu__job_spec__init);
	s->partition = mu_arena_alloc(&w->arena, 3 * sizeof(char *));
	for (uint32_t i = below(w, 3); i > 0; i--)
		s->partition[s->n_partition++] = part_name(w);
	if (chance(w, 50))
		SET(s, ntasks, below(w, 6));
	if (chance(w, 30)) {
		SET(s, nodes_min, below(w, 4));
		SET(s, nodes_max, chance(w, 50) ? s->nodes_min : s->nodes_min + below(w, 2));
	}
	if (chance(w, 30))
		SET(s, cpus_per_task, 1 + below(w, 3));
	if (chance(w, 15))
		SET(s, ntasks_per_node, 1 + below(w, 3));
	if (chance(w, 60))
		SET(s, time_limit_sec, chance(w, 10) ? -1 : 60 * (int64_t)below(w, 30));
	if (chance(w, 30))
		SET(s, mem_node_mib, 100 * below(w, 12));
	else if (chance(w, 20))
		SET(s, mem_cpu_mib, 100 * below(w, 6));
	if (chance(w, 25)) {
		Mu__GresAsk *g = NEW(w, Mu__GresAsk, mu__gres_ask__init);
		g->name = (char *)"gpu";
		g->type = chance(w, 50) ? NULL : chance(w, 50) ? (char *)"a" : (char *)"b";
		SET(g, count, below(w, 3));
		s->gres = mu_arena_dup(&w->arena, &g, sizeof(g));
		s->n_gres = 1;
	}
	if (chance(w, 10)) {
		static const char *const wanted[] = {"f0|f1", "f0",	     "[f0|f1]",
						     "f1*1",  "[f0*1&f1*1]", "(f0|f1)&f0"};
		s->features = (char *)wanted[below(w, 6)];
	}
	random_shape(w, s);
	if (chance(w, 10))
		s->nodes_required = node_name(w);
	if (chance(w, 10))
		s->nodes_excluded = node_name(w);
	SET(s, oversubscribe, w->sharing && chance(w, 60));
	SET(s, exclusive, chance(w, 10));
	SET(s, hold, chance(w, 8));
	SET(s, overcommit, chance(w, 5));
	if (chance(w, 10))
		SET(s, priority, below(w, 3) * 100000000);
	if (chance(w, 10))
		SET(s, begin_usec, w->h.now_usec + (int64_t)below(w, 300) * 1000000 - 100000000);
	if (chance(w, 8))
		SET(s, deadline_usec, w->h.now_usec + (int64_t)below(w, 3000) * 1000000);
	if (chance(w, 15)) {
		static const char *const kinds[] = {"after", "afterany", "afterok", "afternotok",
						    "aftercorr"};
		const char *between = chance(w, 50) ? "," : "?";
		s->dependency = chance(w, 20)
				    ? mu_arena_strdup(&w->arena, "singleton")
				    : mu_arena_printf(&w->arena, chance(w, 30) ? "%s:%u_1" : "%s:%u",
						      kinds[below(w, 5)], job_id(w));
		if (chance(w, 40))
			s->dependency = mu_arena_printf(&w->arena, "%s%s%s:%u", s->dependency, between,
							kinds[below(w, 4)], job_id(w));
		else if (chance(w, 20))
			s->dependency = mu_arena_printf(&w->arena, "after:%u+%u", job_id(w), below(w, 5));
		if (chance(w, 50))
			SET(s, kill_on_invalid_dep, chance(w, 50));
	}
	if (chance(w, 30))
		s->name = mu_arena_printf(&w->arena, "name%u", below(w, 2));
	if (w->reserves && chance(w, 25))
		s->reservation = mu_arena_printf(&w->arena, chance(w, 80) ? "r%u" : "r%u,r2", below(w, 3));
	SET(s, batch, chance(w, 90));
	if (chance(w, 25)) {
		static const char *const arrays[] = {"0-4%2", "1-9:3", "0",   "2,5,7-8",
						     "1-2",   "0-9%3", "1-60"};
		s->array = (char *)arrays[below(w, 7)];
	}
	if (chance(w, 20))
		SET(s, requeue, chance(w, 50));
	return s;
}

static void submit(struct world *w, Mu__Event *e)
{
	e->kind_case = MU__EVENT__KIND_SUBMITTED;
	Mu__Submitted *s = e->submitted = NEW(w, Mu__Submitted, mu__submitted__init);
	s->spec = random_spec(w);
	s->component = mu_arena_alloc(&w->arena, 3 * sizeof(s->component[0]));
	for (uint32_t more = chance(w, 25) ? 1 + below(w, 3) : 0; more > 0; more--) {
		Mu__JobSpec *c = s->component[s->n_component++] = random_spec(w);
		SET(c, batch, chance(w, 3));
		c->array = chance(w, 3) ? c->array : NULL;
		s->spec->array = chance(w, 3) ? s->spec->array : NULL;
	}
	e->submitted->has_job_key = 1;
	e->submitted->job_key.data = (uint8_t *)"01234567890123456789012345678901";
	e->submitted->job_key.len = 32;
}

/* Numbers of fields, some of which there are not. */
static uint32_t *some_fields(struct world *w, uint32_t below_number, size_t *ret_count)
{
	uint32_t *v = mu_arena_alloc(&w->arena, 3 * sizeof(*v));
	*ret_count = 1 + below(w, 2);
	for (size_t i = 0; i < *ret_count; i++)
		v[i] = 1 + below(w, below_number);
	return v;
}

/* What an update says relative to the job, or takes away. */
static void update_rest(struct world *w, Mu__JobUpdate *u)
{
	if (chance(w, 10))
		SET(u, limit_by_sec, 60 * ((int64_t)below(w, 20) - 10));
	if (chance(w, 10))
		SET(u, end_usec, w->h.now_usec + (int64_t)below(w, 1000) * 1000000 - 100000000);
	if (chance(w, 10))
		SET(u, cpus, below(w, 6));
	if (chance(w, 20))
		u->clear = some_fields(w, 118, &u->n_clear);
	SET(u, accrue_again, chance(w, 10));
}

static void act_on_job(struct world *w, Mu__Event *e)
{
	uint32_t *id = mu_arena_alloc(&w->arena, 2 * sizeof(*id));
	size_t n = 1 + below(w, 2);
	id[0] = job_id(w);
	id[1] = job_id(w);
	static const char *const lists[] = {"1", "0-1", "1,4", "0-3:3", "2-50"};
	Mu__ArrayTasks **some = mu_arena_alloc(&w->arena, sizeof(some[0]));
	size_t n_some = chance(w, 30);
	some[0] = NEW(w, Mu__ArrayTasks, mu__array_tasks__init);
	SET(some[0], job, job_id(w));
	some[0]->tasks = (char *)lists[below(w, 5)];
	if (n_some && chance(w, 70))
		n = 0;
	switch (below(w, 6)) {
	case 4:
		e->kind_case = MU__EVENT__KIND_JOB_SUSPEND;
		e->job_suspend = NEW(w, Mu__JobSuspend, mu__job_suspend__init);
		e->job_suspend->job = id;
		e->job_suspend->n_job = n;
		e->job_suspend->some = some;
		e->job_suspend->n_some = n_some;
		SET(e->job_suspend, resume, chance(w, 50));
		SET(e->author, operator_, chance(w, 90));
		return;
	case 5:
		if (chance(w, 70))
			break;
		e->kind_case = MU__EVENT__KIND_JOB_TOP;
		e->job_top = NEW(w, Mu__JobTop, mu__job_top__init);
		e->job_top->job = id;
		e->job_top->n_job = n ? n : 1;
		return;
	case 0:
		e->kind_case = MU__EVENT__KIND_JOB_SIGNAL;
		e->job_signal = NEW(w, Mu__JobSignal, mu__job_signal__init);
		e->job_signal->job = id;
		e->job_signal->n_job = n;
		e->job_signal->some = some;
		e->job_signal->n_some = n_some;
		if (chance(w, 30))
			SET(e->job_signal, signal, below(w, 70));
		return;
	case 1:
		e->kind_case = MU__EVENT__KIND_JOB_HOLD;
		e->job_hold = NEW(w, Mu__JobHold, mu__job_hold__init);
		e->job_hold->job = id;
		e->job_hold->n_job = n;
		e->job_hold->some = some;
		e->job_hold->n_some = n_some;
		SET(e->job_hold, release, chance(w, 60));
		SET(e->job_hold, by_admin, chance(w, 50));
		return;
	case 2:
		e->kind_case = MU__EVENT__KIND_JOB_REQUEUE;
		e->job_requeue = NEW(w, Mu__JobRequeue, mu__job_requeue__init);
		e->job_requeue->job = id;
		e->job_requeue->n_job = n;
		e->job_requeue->some = some;
		e->job_requeue->n_some = n_some;
		SET(e->job_requeue, hold, chance(w, 20));
		SET(e->job_requeue, special, chance(w, 10));
		return;
	default:
		break;
	}
	{
		e->kind_case = MU__EVENT__KIND_JOB_UPDATE;
		e->job_update = NEW(w, Mu__JobUpdate, mu__job_update__init);
		SET(e->job_update, job, id[0]);
		if (n_some)
			e->job_update->tasks = some[0]->tasks;
		if (chance(w, 30))
			SET(e->job_update, array_throttle, below(w, 4));
		e->job_update->spec =
		    chance(w, 60) ? random_spec(w) : NEW(w, Mu__JobSpec, mu__job_spec__init);
		if (chance(w, 50))
			SET(e->job_update->spec, time_limit_sec, 60 * (int64_t)below(w, 20));
		SET(e->job_update, begin_now, chance(w, 20));
		update_rest(w, e->job_update);
	}
}

/* What a node would truly say of a job that it has; sometimes of one that it has not. */
static void attempt_ended(struct world *w, Mu__Event *e)
{
	const char *names[NODES_MAX * 2];
	uint32_t id = job_id(w);
	const Mu__JobRow *j = sch_job(w->h.st, id);
	size_t count = sch_job_nodes(w->h.st, id, names, NODES_MAX * 2);
	Mu__AttemptEnded *a = NEW(w, Mu__AttemptEnded, mu__attempt_ended__init);
	e->kind_case = MU__EVENT__KIND_ATTEMPT_ENDED;
	e->attempt_ended = a;
	SET(a, job, id);
	SET(a, attempt, j ? j->attempt - (chance(w, 10) && j->attempt ? 1 : 0) : below(w, 3));
	a->node = count && chance(w, 95) ? mu_arena_strdup(&w->arena, names[below(w, (uint32_t)count)])
					 : node_name(w);
	SET(a, batch, chance(w, 70));
	SET(a, released, chance(w, 75));
	SET(a, cause, chance(w, 70) ? 0 : below(w, 14));
	SET(a, exit_code, chance(w, 60) ? 0 : (int32_t)below(w, 256));
	if (chance(w, 10))
		SET(a, oom_kills, 1);
	if (chance(w, 30)) {
		Mu__StepRow *s = NEW(w, Mu__StepRow, mu__step_row__init);
		SET(s, step, chance(w, 50) ? MU_STEP_BATCH : below(w, 3));
		SET(s, exit_code, (int32_t)below(w, 3));
		a->step = mu_arena_dup(&w->arena, &s, sizeof(s));
		a->n_step = 1;
	}
	e->author->node = a->node;
}

/* What the node knows of each device: sometimes of too few or too many, now and then one is at fault. */
static void tell_devices(struct world *w, Mu__NodeRow *n)
{
	Mu__GresHave **list = mu_arena_alloc(&w->arena, (n->n_gres + 1) * sizeof(list[0]));
	for (size_t g = 0; g < n->n_gres; g++) {
		Mu__GresHave *h = list[g] = mu_arena_dup(&w->arena, n->gres[g], sizeof(*h));
		h->n_unit = chance(w, 90) ? h->count : below(w, 5);
		h->unit = mu_arena_alloc(&w->arena, (h->n_unit + 1) * sizeof(h->unit[0]));
		h->n_file = 0;
		for (size_t k = 0; k < h->n_unit; k++) {
			Mu__GresUnit *u = h->unit[k] = NEW(w, Mu__GresUnit, mu__gres_unit__init);
			u->cores = chance(w, 80) ? mu_arena_printf(&w->arena, "%u", below(w, 7)) : NULL;
			u->fault = chance(w, 5) ? (char *)"chance" : NULL;
			u->n_link = below(w, 8);
			u->link = mu_arena_alloc(&w->arena, (u->n_link + 1) * sizeof(u->link[0]));
			for (size_t v = 0; v < u->n_link; v++)
				u->link[v] = (int32_t)below(w, 4) - 1;
		}
	}
	n->gres = list;
}

static void registered(struct world *w, Mu__Event *e)
{
	Mu__NodeRegistered *r = NEW(w, Mu__NodeRegistered, mu__node_registered__init);
	Mu__NodeRow *n = NEW(w, Mu__NodeRow, mu__node_row__init);
	e->kind_case = MU__EVENT__KIND_NODE_REGISTERED;
	e->node_registered = r;
	r->inventory = n;
	n->name = node_name(w);
	const Mu__NodeRow *row = sch_node(w->h.st, n->name);
	SET(n, cpus, row && chance(w, 90) ? row->cpus : below(w, 4));
	SET(n, threads_per_core, row ? row->threads_per_core : 1);
	SET(n, sockets, 1);
	SET(n, real_memory_mib, row && chance(w, 95) ? row->real_memory_mib : 10);
	n->n_gres = row ? row->n_gres : 0;
	n->gres = row ? row->gres : NULL;
	if (chance(w, 60))
		tell_devices(w, n);
	n->has_boot_id = 1;
	n->boot_id.data = (uint8_t *)(chance(w, 85) ? "boot 1" : "boot 2");
	n->boot_id.len = 6;
	if (chance(w, 30)) {
		Mu__HeldAttempt *h = NEW(w, Mu__HeldAttempt, mu__held_attempt__init);
		SET(h, job, job_id(w));
		SET(h, attempt, 1);
		r->held = mu_arena_dup(&w->arena, &h, sizeof(h));
		r->n_held = 1;
	}
	e->author->node = n->name;
}

static void node_event(struct world *w, Mu__Event *e)
{
	static const char *const words[] = {"DOWN", "DRAIN", "RESUME", "UNDRAIN", "FAIL", "IDLE", "NONSENSE"};
	if (chance(w, 20)) {
		e->kind_case = MU__EVENT__KIND_NODE_FENCED;
		e->node_fenced = NEW(w, Mu__NodeFenced, mu__node_fenced__init);
		e->node_fenced->node = node_name(w);
		return;
	}
	Mu__NodeUpdate *u = NEW(w, Mu__NodeUpdate, mu__node_update__init);
	char *name = node_name(w);
	e->kind_case = MU__EVENT__KIND_NODE_UPDATE;
	e->node_update = u;
	u->node = mu_arena_dup(&w->arena, &name, sizeof(name));
	u->n_node = 1;
	u->state = (char *)words[below(w, chance(w, 50) ? 3 : 7)];
	if (chance(w, 80))
		u->reason = (char *)"chance";
	SET(u, fenced, chance(w, 20));
	if (chance(w, 15))
		SET(u, weight, below(w, 4));
	if (chance(w, 20))
		SET(u, resume_after_sec, below(w, 200));
	if (chance(w, 10))
		u->comment = (char *)(chance(w, 50) ? "remark" : "");
}

static void reservation(struct world *w, Mu__Event *e)
{
	static const uint64_t kinds[] = {RESV_FLAG_MAINT,      RESV_FLAG_OVERLAP,
					 RESV_FLAG_FLEX,       RESV_FLAG_MAGNETIC,
					 RESV_FLAG_DAILY,      RESV_FLAG_HOURLY,
					 RESV_FLAG_REPLACE,    RESV_FLAG_REPLACE_DOWN,
					 RESV_FLAG_TIME_FLOAT, RESV_FLAG_NO_HOLD_JOBS_AFTER,
					 RESV_FLAG_WEEKEND};
	Mu__ReservationChanged *c = NEW(w, Mu__ReservationChanged, mu__reservation_changed__init);
	Mu__ReservationRow *r = NEW(w, Mu__ReservationRow, mu__reservation_row__init);
	e->kind_case = MU__EVENT__KIND_RESERVATION_CHANGED;
	e->reservation_changed = c;
	c->row = r;
	r->name = mu_arena_printf(&w->arena, "r%u", below(w, 3));
	if (chance(w, 25)) {
		SET(c, remove, 1);
		return;
	}
	SET(c, create, chance(w, 75));
	SET(c, skip, chance(w, 5));
	if (c->create || chance(w, 50))
		SET(r, start_usec, w->h.now_usec + (int64_t)below(w, 400) * 1000000);
	if (c->create || chance(w, 50))
		SET(c, duration_sec, 60 * (int64_t)(1 + below(w, 10)));
	if (chance(w, 50))
		SET(r, flags, kinds[below(w, 11)]);
	if (chance(w, 40))
		r->flags |= RESV_FLAG_IGNORE_JOBS, r->has_flags = 1;
	if (chance(w, 20))
		r->flags |= RESV_FLAG_PURGE_COMP, r->has_flags = 1;
	switch (below(w, 4)) {
	case 0:
		SET(r, node_cnt, 1 + below(w, 2));
		break;
	case 1:
		SET(r, core_cnt, 1 + below(w, 4));
		break;
	default:
		r->nodes = chance(w, 20) ? (char *)"ALL" : node_name(w);
	}
	SET(c, set_users, 1);
	r->user = mu_arena_alloc(&w->arena, sizeof(char *));
	r->user[r->n_user++] = mu_arena_printf(&w->arena, "u%u", 1000 + below(w, 3));
	SET(e->author, operator_, 1);
}

static void cluster_event(struct world *w, Mu__Event *e)
{
	static const char *const states[] = {"UP", "DOWN", "DRAIN", "INACTIVE"};
	switch (below(w, 5)) {
	case 0:
		e->kind_case = MU__EVENT__KIND_LEADER_ELECTED;
		e->leader_elected = NEW(w, Mu__LeaderElected, mu__leader_elected__init);
		return;
	case 1: {
		uint8_t *bits = mu_arena_alloc(&w->arena, 1);
		bits[0] = (uint8_t)(below(w, 256) | below(w, 256));
		e->kind_case = MU__EVENT__KIND_NODES_HEARD;
		e->nodes_heard = NEW(w, Mu__NodesHeard, mu__nodes_heard__init);
		e->nodes_heard->has_heard = 1;
		e->nodes_heard->heard.data = bits;
		e->nodes_heard->heard.len = 1;
		return;
	}
	case 2:
		e->kind_case = MU__EVENT__KIND_CONFIG_SET;
		e->config_set = NEW(w, Mu__ConfigSet, mu__config_set__init);
		e->config_set->config = chance(w, 50) ? w->config : random_config(w);
		return;
	case 3:
		if (chance(w, 90))
			break;
		founding(w, e);
		return;
	default:
		break;
	}
	e->kind_case = MU__EVENT__KIND_PARTITION_UPDATE;
	e->partition_update = NEW(w, Mu__PartitionUpdate, mu__partition_update__init);
	e->partition_update->conf = NEW(w, Mu__PartitionConf, mu__partition_conf__init);
	e->partition_update->conf->name = part_name(w);
	e->partition_update->conf->state = (char *)states[chance(w, 60) ? 0 : below(w, 4)];
	SET(e->partition_update, create, chance(w, 10));
	SET(e->partition_update, remove, chance(w, 10));
	if (chance(w, 20))
		e->partition_update->nodes_more = node_name(w);
	if (chance(w, 20))
		e->partition_update->nodes_less = node_name(w);
	if (chance(w, 20))
		e->partition_update->clear = some_fields(w, 34, &e->partition_update->n_clear);
	if (chance(w, 10))
		e->partition_update->conf->alternate = part_name(w);
}

static Mu__Event *blank(struct world *w)
{
	Mu__Event *e = NEW(w, Mu__Event, mu__event__init);
	e->author = NEW(w, Mu__Author, mu__author__init);
	SET(e->author, uid, 1000 + below(w, 3));
	e->author->user = mu_arena_printf(&w->arena, "u%u", e->author->uid);
	SET(e->author, operator_, chance(w, 50));
	e->author->verifier = (char *)"controller";
	if (chance(w, 80)) {
		e->request = NEW(w, Mu__RequestId, mu__request_id__init);
		SET(e->request, birth_usec, w->h.now_usec - (int64_t)below(w, 100) * 1000000);
		e->request->has_nonce = 1;
		e->request->nonce.len = 16;
		e->request->nonce.data = mu_arena_alloc(&w->arena, 16);
		mu_put_be64(e->request->nonce.data, chance(w, 95) ? mu_seed_next(&w->seed) : below(w, 3));
	}
	return e;
}

/* A forged decision: a start of anything anywhere. */
static void forged(struct world *w, Mu__Event *e)
{
	const Mu__ClusterRow *c = sch_cluster(w->h.st);
	Mu__Decided *d = NEW(w, Mu__Decided, mu__decided__init);
	Mu__Start *s = NEW(w, Mu__Start, mu__start__init);
	Mu__AllocNode *a = NEW(w, Mu__AllocNode, mu__alloc_node__init);
	e->kind_case = MU__EVENT__KIND_DECIDED;
	e->decided = d;
	SET(d, basis, c->entries);
	SET(d, pass, c->cursor ? c->pass : c->pass + 1);
	SET(d, cursor_in, c->cursor);
	SET(s, job, job_id(w));
	SET(s, attempt, 1 + below(w, 2));
	if (chance(w, 30))
		SET(s, task_index, below(w, 5));
	s->partition = part_name(w);
	a->node = chance(w, 80) ? node_name(w) : mu_arena_printf(&w->arena, "n[0-%u]", below(w, 3));
	a->cpu_list = mu_arena_printf(&w->arena, "%u-%u", below(w, 3), 2 + below(w, 3));
	SET(a, cpus, chance(w, 70) ? 3 : below(w, 5));
	SET(a, mem_mib, below(w, 2000));
	s->alloc = mu_arena_dup(&w->arena, &a, sizeof(a));
	s->n_alloc = 1;
	d->start = mu_arena_dup(&w->arena, &s, sizeof(s));
	d->n_start = 1;
}

static void tick(struct world *w, Mu__Event *e)
{
	int64_t due = sch_due_usec(w->h.st);
	w->h.now_usec += chance(w, 50) ? (int64_t)below(w, 60) * 1000000 : 1;
	if (due > w->h.now_usec && chance(w, 30))
		w->h.now_usec = due;
	e->kind_case = MU__EVENT__KIND_TICK;
	e->tick = NEW(w, Mu__Tick, mu__tick__init);
}

static void one_event(struct world *w)
{
	Mu__Event *e = blank(w);
	uint32_t dice = below(w, 100);
	if (dice < 30)
		submit(w, e);
	else if (dice < 50)
		attempt_ended(w, e);
	else if (dice < 65)
		act_on_job(w, e);
	else if (dice < 75)
		registered(w, e);
	else if (dice < 82)
		node_event(w, e);
	else if (dice < 86)
		cluster_event(w, e);
	else if (dice < 88)
		forged(w, e);
	else if (dice < 91 && w->reserves)
		reservation(w, e);
	else
		tick(w, e);
	struct mu_buf buf = {0};
	mu_pb_pack(&e->base, &buf);
	for (uint32_t i = chance(w, 5) ? 1 + below(w, 3) : 0; i > 0 && buf.len; i--)
		buf.data[below(w, (uint32_t)buf.len)] ^= (uint8_t)(1u << below(w, 8));
	h_apply_bytes(&w->h, buf.data, buf.len);
	mu_buf_free(&buf);
}

/* ---- a run ---- */

static void open_world(struct world *w, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	mu_seed_init(&w->seed, seed);
	h_open(&w->h, true);
	w->h.every = 3;
	w->h.budget = chance(w, 30) ? 1 + below(w, 20) : 100000;
	w->nodes = 1 + below(w, NODES_MAX);
	w->reserves = chance(w, 60);
	w->personal = chance(w, 30);
	w->sharing = seed % 3 == 0;
	w->config = random_config(w);
	Mu__Event *e = blank(w);
	founding(w, e);
	h_apply(&w->h, e);
	for (uint32_t i = 0; i < w->nodes; i++) {
		e = blank(w);
		registered(w, e);
		h_apply(&w->h, e);
	}
}

/* Every job cancelled, every node fenced: nothing may be held, and after MinJobAge nothing may be left. */
static bool comes_to_rest(struct world *w)
{
	struct sch_counts c;
	uint32_t last = sch_cluster(w->h.st)->next_job_id;
	for (uint32_t id = 1; id < last; id++) {
		Mu__Event *e = blank(w);
		e->request = NULL; /* A chance repetition would be answered, not done. */
		e->kind_case = MU__EVENT__KIND_JOB_SIGNAL;
		e->job_signal = NEW(w, Mu__JobSignal, mu__job_signal__init);
		e->job_signal->job = mu_arena_dup(&w->arena, &id, sizeof(id));
		e->job_signal->n_job = 1;
		SET(e->author, operator_, 1);
		h_apply(&w->h, e);
	}
	for (uint32_t i = 0; i < w->nodes; i++) {
		Mu__Event *e = blank(w);
		e->kind_case = MU__EVENT__KIND_NODE_FENCED;
		e->node_fenced = NEW(w, Mu__NodeFenced, mu__node_fenced__init);
		e->node_fenced->node = mu_arena_printf(&w->arena, "n%u", i);
		h_apply(&w->h, e);
	}
	sch_counts(w->h.st, &c);
	if (c.jobs_pending || c.jobs_running || c.jobs_completing || c.cpus_allocated || c.gpus_allocated)
		return h_fail(&w->h, "at rest %u jobs wait, %u run, %u end and %llu CPUs are held",
			      c.jobs_pending, c.jobs_running, c.jobs_completing,
			      (unsigned long long)c.cpus_allocated);
	for (int i = 0; i < 3; i++) {
		w->h.now_usec += INT64_C(400) * 1000000;
		Mu__Event *e = blank(w);
		e->kind_case = MU__EVENT__KIND_TICK;
		e->tick = NEW(w, Mu__Tick, mu__tick__init);
		h_apply(&w->h, e);
	}
	sch_counts(w->h.st, &c);
	return !c.jobs_total || h_fail(&w->h, "%u jobs are never forgotten", c.jobs_total);
}

static bool run(uint64_t seed, size_t *events)
{
	struct world w;
	open_world(&w, seed);
	for (uint32_t i = 0; i < EVENTS && !w.h.failure[0]; i++) {
		one_event(&w);
		for (int k = chance(&w, 60) ? 40 : 0; k > 0 && !w.h.failure[0]; k--)
			if (!h_decide(&w.h))
				break;
	}
	bool ok = !w.h.failure[0] && comes_to_rest(&w) && h_replay(&w.h) && !w.h.failure[0];
	if (!ok)
		fprintf(stderr, "seed %llu, event %zu: %s\n", (unsigned long long)seed, w.h.count,
			w.h.failure);
	*events += w.h.count;
	h_close(&w.h);
	mu_arena_free(&w.arena);
	return ok;
}

int main(int argc, char **argv)
{
	const char *size = getenv("MUSTER_TEST_SIZE");
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : 40;
	size_t events = 0, failed = 0;
	if (argc < 2 && size)
		count = strcmp(size, "full") == 0 ? 2000 : strcmp(size, "fast") == 0 ? 15 : 60;
	for (uint64_t s = first; s < first + count; s++)
		failed += !run(s, &events);
	printf("%llu seeds, %zu events, %zu failed\n", (unsigned long long)count, events, failed);
	return failed ? 1 : 0;
}
