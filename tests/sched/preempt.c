/* tests/sched/preempt.c: over random workloads of two tiers, where jobs only arrive, end at or before their
 * limits and give way: nothing is given twice (the harness looks), nobody gives way without a start that
 * comes of it, nobody gives way to one who may not ask it, and all comes to rest.
 *
 * Usage: preempt [FIRST_SEED [SEEDS]]; MUSTER_TEST_SIZE=fast|ci|full sets the number of seeds. A failure
 * prints its seed. */
#include <stdlib.h>
#include <string.h>

#include "proto/hostlist.h"
#include "proto/states.h"
#include "tests/sched/harness.h"
#include "tests/sched/make.h"

/* SLICES: of the smallest budget each may visit one job only. */
enum { JOBS = 40, IDS = 256, ROUNDS = 160, NODES = 5, SLICES = 400, SEC = 1000000 };
struct world {
	struct harness h;
	struct mu_seed seed;
	struct mu_arena arena;
	uint32_t nodes, jobs;
	bool sharing;			 /* some share CPUs */
	bool by_qos, builtin, operators; /* operators: they stop jobs, and take their own CPUs back */
	bool claimed[IDS];		 /* others gave way, or give way, to its plan */
	int64_t left[IDS];		 /* microseconds that a running job will still run; 0: not drawn */
	int64_t seen_usec;
	uint64_t victims, suspended;
};

static Mu__Event *blank(struct world *w, Mu__Event__KindCase kind)
{
	Mu__Event *e = NEW(w, Mu__Event, mu__event__init);
	e->author = NEW(w, Mu__Author, mu__author__init);
	e->author->verifier = (char *)"controller";
	SET(e->author, operator_, 1);
	SET(e->author, uid, 1000 + below(w, 3));
	e->author->user = mu_arena_printf(&w->arena, "u%u", e->author->uid);
	e->kind_case = kind;
	return e;
}

/* ---- the cluster ---- */

static void put_key(struct world *w, Mu__Config *c, const char *key, const char *value)
{
	Mu__KeyValue *k = NEW(w, Mu__KeyValue, mu__key_value__init);
	k->key = (char *)key;
	k->value = (char *)value;
	c->key[c->n_key++] = k;
}

static void preemption(struct world *w, Mu__Config *c)
{
	static const char *const modes[] = {"CANCEL", "REQUEUE", "SUSPEND,GANG"};
	static const char *const words[] = {"(null)", "youngest_first", "strict_order", "reorder_count=1"};
	c->key = mu_arena_alloc(&w->arena, 8 * sizeof(c->key[0]));
	put_key(w, c, "PreemptType", w->by_qos ? "preempt/qos" : "preempt/partition_prio");
	put_key(w, c, "PreemptMode", modes[below(w, 3)]);
	put_key(w, c, "PreemptParameters", words[below(w, 4)]);
	put_key(w, c, "PreemptExemptTime", chance(w, 40) ? "00:02:00" : "00:00:00");
	put_key(w, c, "SchedulerType", w->builtin ? "sched/builtin" : "sched/backfill");
}

static Mu__Config *config(struct world *w)
{
	static const char *const select[] = {"CR_CORE", "CR_CPU_MEMORY", "CR_CORE_MEMORY", "CR_LLN,CR_CPU"};
	static const char *const own[] = {"OFF", "CANCEL", "REQUEUE", "SUSPEND"};
	Mu__Config *c = NEW(w, Mu__Config, mu__config__init);
	c->cluster_name = (char *)"preempt";
	c->node = mu_arena_alloc(&w->arena, w->nodes * sizeof(c->node[0]));
	c->partition = mu_arena_alloc(&w->arena, 2 * sizeof(c->partition[0]));
	for (uint32_t i = 0; i < w->nodes; i++) {
		Mu__NodeConf *n = c->node[c->n_node++] = NEW(w, Mu__NodeConf, mu__node_conf__init);
		n->name = mu_arena_printf(&w->arena, "n%u", i);
		SET(n, cpus, 1 + below(w, 4));
		SET(n, sockets, 1);
		SET(n, real_memory_mib, 1000 * (1 + below(w, 3)));
		if (chance(w, 50)) {
			Mu__GresConf *g = NEW(w, Mu__GresConf, mu__gres_conf__init);
			g->name = (char *)"gpu";
			SET(g, count, 1 + below(w, 3));
			n->gres = mu_arena_dup(&w->arena, &g, sizeof(g));
			n->n_gres = 1;
		}
	}
	for (uint32_t i = 0; i < 2; i++) {
		Mu__PartitionConf *p = c->partition[c->n_partition++] =
		    NEW(w, Mu__PartitionConf, mu__partition_conf__init);
		p->name = mu_arena_printf(&w->arena, "p%u", i);
		SET(p, is_default, i == 0);
		p->node = mu_arena_alloc(&w->arena, w->nodes * sizeof(char *));
		for (uint32_t n = 0; n < w->nodes; n++)
			if (i == 0 || chance(w, 70))
				p->node[p->n_node++] = mu_arena_printf(&w->arena, "n%u", n);
		SET(p, max_time_sec, -1);
		SET(p, priority_tier, 1 + i);
		if (w->sharing)
			p->oversubscribe = (char *)(i ? "YES:2" : "FORCE:2");
		if (chance(w, 40))
			p->preempt_mode = (char *)own[below(w, 4)];
		if (chance(w, 40))
			SET(p, grace_time_sec, 1 + below(w, 100));
	}
	SET(c, first_job_id, 1);
	SET(c, min_job_age_sec, 1000000);
	SET(c, slurmd_timeout_sec, 0);
	SET(c, kill_wait_sec, 30);
	c->select_type_parameters = (char *)select[below(w, 4)];
	preemption(w, c);
	return c;
}

static void qos(struct world *w, const char *name, const char *preempts)
{
	Mu__Event *e = blank(w, MU__EVENT__KIND_ACCOUNTS_CHANGED);
	Mu__AccountsChanged *c = e->accounts_changed =
	    NEW(w, Mu__AccountsChanged, mu__accounts_changed__init);
	Mu__QosPut *q = NEW(w, Mu__QosPut, mu__qos_put__init);
	q->name = (char *)name;
	SET(q, create, 1);
	SET(q, priority, preempts ? 10 : 1);
	if (preempts) {
		SET(q, set_preempt, 1);
		q->preempt = mu_arena_dup(&w->arena, &preempts, sizeof(preempts));
		q->n_preempt = 1;
	} else if (chance(w, 50)) {
		SET(q, grace_sec, below(w, 90));
	}
	Mu__AccountsChange *one = NEW(w, Mu__AccountsChange, mu__accounts_change__init);
	one->kind_case = MU__ACCOUNTS_CHANGE__KIND_QOS;
	one->qos = q;
	c->change = mu_arena_dup(&w->arena, &one, sizeof(one));
	c->n_change = 1;
	SET(e->author, uid, 0);
	e->author->user = (char *)"root";
	h_apply(&w->h, e);
}

static void found(struct world *w)
{
	Mu__Event *e = blank(w, MU__EVENT__KIND_FOUNDED);
	e->founded = NEW(w, Mu__Founded, mu__founded__init);
	e->founded->config = config(w);
	e->founded->has_cluster_id = 1;
	e->founded->cluster_id.data = (uint8_t *)"0123456789abcdef";
	e->founded->cluster_id.len = 16;
	SET(e->founded, level, 1);
	h_apply(&w->h, e);
	for (uint32_t i = 0; i < w->nodes; i++) {
		e = blank(w, MU__EVENT__KIND_NODE_REGISTERED);
		e->node_registered = NEW(w, Mu__NodeRegistered, mu__node_registered__init);
		e->node_registered->inventory =
		    make_inventory(&w->arena, sch_node(w->h.st, mu_arena_printf(&w->arena, "n%u", i)));
		e->author->node = e->node_registered->inventory->name;
		h_apply(&w->h, e);
	}
	qos(w, "low", NULL);
	qos(w, "high", "low");
}

/* ---- what happens ---- */

static Mu__JobSpec *random_spec(struct world *w, bool urgent)
{
	Mu__JobSpec *s = NEW(w, Mu__JobSpec, mu__job_spec__init);
	char *part = (char *)(urgent && !w->by_qos ? "p1" : "p0");
	s->partition = mu_arena_dup(&w->arena, &part, sizeof(part));
	s->n_partition = 1;
	if (w->by_qos)
		s->qos = (char *)(urgent ? "high" : "low");
	SET(s, batch, 1);
	SET(s, requeue, chance(w, 80));
	SET(s, ntasks, 1 + below(w, 5));
	if (chance(w, 30)) {
		SET(s, nodes_min, 1 + below(w, w->nodes));
		SET(s, nodes_max, s->nodes_min);
	}
	SET(s, time_limit_sec, 60 * (int64_t)(1 + below(w, 20)));
	if (chance(w, 50))
		SET(s, mem_node_mib, 100 * (1 + below(w, 12)));
	if (chance(w, 20)) {
		Mu__GresAsk *g = NEW(w, Mu__GresAsk, mu__gres_ask__init);
		g->name = (char *)"gpu";
		SET(g, count, 1);
		s->gres = mu_arena_dup(&w->arena, &g, sizeof(g));
		s->n_gres = 1;
	}
	SET(s, oversubscribe, w->sharing && chance(w, 60));
	SET(s, exclusive, chance(w, 10));
	return s;
}

/* Some have a second component, which would give way to the same jobs as the first. */
static void submit(struct world *w)
{
	Mu__Event *e = blank(w, MU__EVENT__KIND_SUBMITTED);
	bool urgent = chance(w, 35);
	Mu__Submitted *s = e->submitted = NEW(w, Mu__Submitted, mu__submitted__init);
	s->spec = random_spec(w, urgent);
	if (chance(w, 10)) {
		s->spec->array = (char *)"0-3";
	} else if (chance(w, 20)) {
		Mu__JobSpec *more = random_spec(w, urgent);
		more->batch = 0;
		s->component = mu_arena_dup(&w->arena, &more, sizeof(more));
		s->n_component = 1;
	}
	if (h_apply(&w->h, e) == 0)
		w->jobs++;
}

/* The nodes of ID say that all of it is gone. */
static void gone(struct world *w, uint32_t id)
{
	const char *names[NODES];
	const Mu__JobRow *j = sch_job(w->h.st, id);
	uint32_t attempt = j->attempt;
	size_t count = sch_job_nodes(w->h.st, id, names, NODES);
	for (size_t i = 0; i < count; i++)
		names[i] = mu_arena_strdup(&w->arena, names[i]);
	for (size_t i = 0; i < count; i++) {
		Mu__Event *e = blank(w, MU__EVENT__KIND_ATTEMPT_ENDED);
		Mu__AttemptEnded *a = e->attempt_ended = NEW(w, Mu__AttemptEnded, mu__attempt_ended__init);
		SET(a, job, id);
		SET(a, attempt, attempt);
		a->node = (char *)names[i];
		SET(a, batch, i == 0);
		SET(a, released, 1);
		e->author->node = a->node;
		h_apply(&w->h, e);
	}
	w->left[id] = 0;
}

static uint32_t last_id(const struct world *w)
{
	uint32_t next = sch_cluster(w->h.st)->next_job_id;
	return next < IDS ? next : IDS;
}

static void operators(struct world *w)
{
	uint32_t id = 1 + below(w, last_id(w));
	Mu__Event *e = blank(w, MU__EVENT__KIND_JOB_SUSPEND);
	e->job_suspend = NEW(w, Mu__JobSuspend, mu__job_suspend__init);
	e->job_suspend->job = mu_arena_dup(&w->arena, &id, sizeof(id));
	e->job_suspend->n_job = 1;
	SET(e->job_suspend, resume, chance(w, 60));
	h_apply(&w->h, e);
}

static void pass_time(struct world *w)
{
	int64_t step = (int64_t)(1 + below(w, 200)) * SEC, due = sch_due_usec(w->h.st);
	if (due > w->h.now_usec && due < w->h.now_usec + step)
		step = due - w->h.now_usec;
	w->h.now_usec += step;
	for (uint32_t id = 1; id < last_id(w); id++) {
		const Mu__JobRow *j = sch_job(w->h.st, id);
		if (!j || j->state != JOB_RUNNING || j->het_offset)
			continue;
		w->left[id] =
		    w->left[id] ? w->left[id] : (1 + below(w, (uint32_t)j->time_limit_sec)) * (int64_t)SEC;
		if ((w->left[id] -= step) <= 0)
			gone(w, id);
	}
	Mu__Event *e = blank(w, MU__EVENT__KIND_TICK);
	e->tick = NEW(w, Mu__Tick, mu__tick__init);
	h_apply(&w->h, e);
}

/* Nodes end what they are told to end, sooner or later. */
static void nodes_obey(struct world *w, uint32_t percent)
{
	for (uint32_t id = 1; id < last_id(w); id++) {
		const Mu__JobRow *j = sch_job(w->h.st, id);
		if (j && j->state == JOB_COMPLETING && chance(w, percent))
			gone(w, id);
	}
}

/* ---- what must hold ---- */

/* A plan may count on those that give way to another as well, where they share a node with it. */
static bool gives_way_still(struct world *w, const Mu__JobRow *to)
{
	const char *held[NODES];
	char **names;
	size_t count;
	if (mu_hostlist_expand(to->plan_nodes, NODES, &w->arena, &names, &count, NULL))
		return false;
	for (uint32_t id = 1; id < last_id(w); id++) {
		const Mu__JobRow *j = sch_job(w->h.st, id);
		if (!j || !j->preempt_end_usec || (j->state != JOB_RUNNING && j->state != JOB_COMPLETING))
			continue;
		size_t holds = sch_job_nodes(w->h.st, id, held, NODES);
		for (size_t i = 0; i < holds * count; i++)
			if (strcmp(held[i / count], names[i % count]) == 0)
				return true;
	}
	return false;
}

static bool may_ask(const struct world *w, const Mu__JobRow *v, const Mu__JobRow *by)
{
	return w->by_qos ? strcmp(by->qos, "high") == 0 && strcmp(v->qos, "low") == 0
			 : strcmp(by->partition, "p1") == 0 && strcmp(v->partition, "p0") == 0;
}

static bool look(struct world *w)
{
	for (uint32_t id = 1; id < last_id(w); id++) {
		const Mu__JobRow *j = sch_job(w->h.st, id);
		if (!j)
			continue;
		if (j->preempt_usec > w->seen_usec && j->preempted_by) {
			const Mu__JobRow *by = sch_job(w->h.st, j->preempted_by);
			w->victims++;
			w->suspended += j->state == JOB_SUSPENDED;
			if (!by || !may_ask(w, j, by))
				return h_fail(&w->h, "job %u gives way to %u, who may not ask it", id,
					      j->preempted_by);
			if (j->state == JOB_SUSPENDED && by->state == JOB_PENDING && !by->plan_claim &&
			    !by->array_job)
				return h_fail(&w->h, "job %u is suspended for %u, which does not start", id,
					      j->preempted_by);
		}
		if (j->state != JOB_PENDING || w->operators)
			w->claimed[id] = false;
		else if (w->claimed[id] && !j->plan_claim && !j->n_array_run && !j->array_job)
			return h_fail(&w->h, "job %u lost what others gave way for (%s)", id,
				      mu_job_reason_word(j->reason));
		else if (j->plan_claim && !gives_way_still(w, j))
			return h_fail(&w->h, "all gave way to job %u, and it does not start (%s)", id,
				      mu_job_reason_word(j->reason));
		else
			w->claimed[id] = j->plan_claim;
	}
	w->seen_usec = w->h.now_usec;
	return !w->h.failure[0];
}

static bool settle(struct world *w)
{
	for (int k = SLICES; k > 0 && !w->h.failure[0]; k--)
		if (!h_decide(&w->h))
			return look(w);
	return w->h.failure[0] ? false : h_fail(&w->h, "decisions do not come to an end");
}

/* All that waits and stands still runs in the end. */
static bool comes_to_rest(struct world *w)
{
	for (int round = 0; round < 400; round++) {
		bool more = false;
		for (uint32_t id = 1; id < last_id(w); id++) {
			const Mu__JobRow *j = sch_job(w->h.st, id);
			more = more || (j && !mu_job_state_ended(j->state) &&
					!(j->state == JOB_SUSPENDED && !j->preempted_by) &&
					!(j->state == JOB_PENDING && j->reason != REASON_None &&
					  j->reason != REASON_Resources && j->reason != REASON_Priority));
			/* What an operator stopped would never end, and components may be too large together.
			 */
			bool never = j && j->state == JOB_SUSPENDED && !j->preempted_by;
			if (never || (j && j->state == JOB_PENDING && j->het_job && round > 100)) {
				Mu__Event *e = blank(w, MU__EVENT__KIND_JOB_SIGNAL);
				e->job_signal = NEW(w, Mu__JobSignal, mu__job_signal__init);
				e->job_signal->job = mu_arena_dup(&w->arena, &id, sizeof(id));
				e->job_signal->n_job = 1;
				h_apply(&w->h, e);
			}
		}
		if (!more)
			return true;
		pass_time(w);
		nodes_obey(w, 100);
		if (!settle(w))
			return false;
	}
	return h_fail(&w->h, "it does not come to rest");
}

static bool run(uint64_t seed, struct world *sum)
{
	struct world w;
	memset(&w, 0, sizeof(w));
	mu_seed_init(&w.seed, seed);
	h_open(&w.h, true);
	w.h.every = 4;
	w.h.budget = chance(&w, 20) ? 20 + below(&w, 100) : 1000000;
	w.nodes = 1 + below(&w, NODES);
	w.by_qos = chance(&w, 40);
	w.builtin = chance(&w, 25);
	w.operators = chance(&w, 30);
	w.sharing = seed % 3 == 0;
	found(&w);
	for (uint32_t i = 0; i < ROUNDS && !w.h.failure[0]; i++) {
		if (w.jobs < JOBS && chance(&w, 60))
			submit(&w);
		else if (w.operators && chance(&w, 20))
			operators(&w);
		else
			pass_time(&w);
		nodes_obey(&w, 60);
		if (!settle(&w))
			break;
	}
	bool ok = !w.h.failure[0] && comes_to_rest(&w) && h_replay(&w.h) && !w.h.failure[0];
	if (!ok)
		fprintf(stderr, "seed %llu, event %zu: %s\n", (unsigned long long)seed, w.h.count,
			w.h.failure);
	sum->victims += w.victims;
	sum->suspended += w.suspended;
	h_close(&w.h);
	mu_arena_free(&w.arena);
	return ok;
}

int main(int argc, char **argv)
{
	const char *size = getenv("MUSTER_TEST_SIZE");
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : 30;
	size_t failed = 0;
	struct world sum = {0};
	if (argc < 2 && size)
		count = strcmp(size, "full") == 0 ? 1000 : strcmp(size, "fast") == 0 ? 15 : 40;
	for (uint64_t s = first; s < first + count; s++)
		failed += !run(s, &sum);
	printf("%llu seeds, %llu gave way, %llu of them suspended, %zu failed\n", (unsigned long long)count,
	       (unsigned long long)sum.victims, (unsigned long long)sum.suspended, failed);
	return failed || (count >= 10 && !sum.victims) ? 1 : 0;
}
