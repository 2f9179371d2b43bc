/* tests/sched/promise.c: over random workloads of one priority, where jobs only arrive behind, start, and end
 * at or before their limits, the planned start of a reserved job never moves later, from slice to slice and
 * from pass to pass, and a job has started by the moment first promised to it.
 *
 * Usage: promise [FIRST_SEED [SEEDS]]; MUSTER_TEST_SIZE=fast|ci|full sets the number of seeds. A failure
 * prints its seed. */
#include <stdlib.h>
#include <string.h>

#include "proto/states.h"
#include "tests/sched/harness.h"
#include "tests/sched/make.h"

enum { JOBS = 48, IDS = 512, ROUNDS = 220, SEC = 1000000 };
struct world {
	struct harness h;
	struct mu_seed seed;
	struct mu_arena arena;
	uint32_t nodes, jobs;
	bool personal;	      /* some jobs share nodes with their own user's only */
	bool sharing;	      /* some share CPUs */
	int64_t promise[IDS]; /* by id: the earliest planned start seen; 0: none yet. Of an array: its next
				 task */
	int64_t ends[IDS];    /* by id: when the running job will end */
	uint32_t size[IDS];   /* by id: tasks that wait together */
	uint64_t plans, kept;
};

static Mu__Event *blank(struct world *w, Mu__Event__KindCase kind)
{
	Mu__Event *e = NEW(w, Mu__Event, mu__event__init);
	e->author = NEW(w, Mu__Author, mu__author__init);
	e->author->verifier = (char *)"controller";
	SET(e->author, uid, 1000 + below(w, 3));
	e->author->user = mu_arena_printf(&w->arena, "u%u", e->author->uid);
	e->kind_case = kind;
	return e;
}

/* ---- the cluster ---- */

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

static Mu__Config *config(struct world *w)
{
	static const char *const select[] = {"CR_CORE",	      "CR_CPU",	   "CR_CORE_MEMORY",
					     "CR_CPU_MEMORY", "CR_SOCKET", "CR_LLN,CR_CPU"};
	static const char *const bounds[] = {"", "bf_max_job_test=1", "bf_max_job_test=3,bf_resolution=1",
					     "bf_max_job_user=2", "bf_resolution=600,bf_window=600"};
	Mu__Config *c = NEW(w, Mu__Config, mu__config__init);
	c->cluster_name = (char *)"promise";
	c->node = mu_arena_alloc(&w->arena, w->nodes * sizeof(c->node[0]));
	c->partition = mu_arena_alloc(&w->arena, 2 * sizeof(c->partition[0]));
	for (uint32_t i = 0; i < w->nodes; i++) {
		Mu__NodeConf *n = c->node[c->n_node++] = NEW(w, Mu__NodeConf, mu__node_conf__init);
		uint32_t threads = chance(w, 30) ? 2 : 1;
		n->name = mu_arena_printf(&w->arena, "n%u", i);
		SET(n, cpus, threads * (1 + below(w, 5)));
		SET(n, threads_per_core, threads);
		SET(n, sockets, chance(w, 30) && n->cpus / threads % 2 == 0 ? 2 : 1);
		SET(n, real_memory_mib, 1000 * (1 + below(w, 3)));
		SET(n, weight, 1 + below(w, 3));
		if (chance(w, 60)) {
			Mu__GresConf *g = NEW(w, Mu__GresConf, mu__gres_conf__init);
			g->name = (char *)"gpu";
			SET(g, count, 1 + below(w, 4));
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
			if (i == 0 || chance(w, 60))
				p->node[p->n_node++] = mu_arena_printf(&w->arena, "n%u", n);
		SET(p, max_time_sec, -1);
		if (w->sharing)
			p->oversubscribe = (char *)(i ? "FORCE:2" : "YES:3");
		if (i == 1 && chance(w, 30))
			SET(p, max_cpus_node, 1 + below(w, 4));
		SET(p, exclusive_user, w->personal && chance(w, 20));
		SET(p, lln, chance(w, 20));
	}
	SET(c, first_job_id, 1);
	SET(c, min_job_age_sec, 1000000);
	SET(c, slurmd_timeout_sec, 0);
	c->select_type_parameters = (char *)select[below(w, 6)];
	Mu__KeyValue *k = NEW(w, Mu__KeyValue, mu__key_value__init);
	k->key = (char *)"SchedulerParameters";
	k->value = (char *)bounds[below(w, 5)];
	c->key = mu_arena_dup(&w->arena, &k, sizeof(k));
	c->n_key = 1;
	if (chance(w, 30))
		draw_topology(w, c);
	return c;
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
}

/* ---- what happens ---- */

static Mu__GresAsk **gpus(struct world *w, uint32_t count)
{
	Mu__GresAsk *g = NEW(w, Mu__GresAsk, mu__gres_ask__init);
	g->name = (char *)"gpu";
	SET(g, count, count);
	return mu_arena_dup(&w->arena, &g, sizeof(g));
}

/* The rarer ways to ask: some contradict the rest and are refused. */
static void shape(struct world *w, Mu__JobSpec *s)
{
	if (!s->n_gres && chance(w, 12)) {
		s->gres_job = gpus(w, 1 + below(w, 5));
		s->n_gres_job = 1;
	} else if (!s->n_gres && chance(w, 12)) {
		s->gres_task = gpus(w, 1);
		s->n_gres_task = 1;
	}
	if ((s->n_gres || s->n_gres_job || s->n_gres_task) && chance(w, 30)) {
		s->has_cpus_per_task = 0;
		SET(s, cpus_per_gpu, 1 + below(w, 2));
	}
	if ((s->n_gres || s->n_gres_job || s->n_gres_task) && !s->has_mem_node_mib && !s->has_mem_cpu_mib &&
	    chance(w, 30))
		SET(s, mem_gpu_mib, 100 * (1 + below(w, 4)));
	if (chance(w, 10))
		s->has_ntasks = 0;
	SET(s, contiguous, chance(w, 8));
	if (chance(w, 15))
		SET(s, switches, 1);
	if (s->switches && chance(w, 50))
		SET(s, switches_wait_sec, 1 + below(w, 200));
	SET(s, exclusive_user, w->personal && chance(w, 15));
	SET(s, spread_job, chance(w, 8));
	SET(s, use_min_nodes, chance(w, 8));
	if (chance(w, 15))
		SET(s, time_min_sec, 60);
}

static Mu__JobSpec *random_spec(struct world *w, bool component)
{
	Mu__JobSpec *s = NEW(w, Mu__JobSpec, mu__job_spec__init);
	char *part = mu_arena_printf(&w->arena, "p%u", below(w, 2));
	s->partition = mu_arena_dup(&w->arena, &part, sizeof(part));
	s->n_partition = 1;
	SET(s, batch, !component);
	SET(s, ntasks, 1 + below(w, 7));
	if (chance(w, 40)) {
		SET(s, nodes_min, 1 + below(w, w->nodes));
		SET(s, nodes_max, s->nodes_min + (chance(w, 30) ? 1 : 0));
	}
	if (chance(w, 30))
		SET(s, cpus_per_task, 1 + below(w, 2));
	if (!chance(w, 5))
		SET(s, time_limit_sec, 60 * (int64_t)(1 + below(w, 40)));
	if (chance(w, 40))
		SET(s, mem_node_mib, 100 * (1 + below(w, 12)));
	else if (chance(w, 30))
		SET(s, mem_cpu_mib, 100 * (1 + below(w, 5)));
	if (chance(w, 30)) {
		Mu__GresAsk *g = NEW(w, Mu__GresAsk, mu__gres_ask__init);
		g->name = (char *)"gpu";
		SET(g, count, 1 + below(w, 3));
		s->gres = mu_arena_dup(&w->arena, &g, sizeof(g));
		s->n_gres = 1;
	}
	shape(w, s);
	SET(s, oversubscribe, w->sharing && chance(w, 60));
	SET(s, exclusive, chance(w, 10));
	if (chance(w, 20)) {
		static const char *const arrays[] = {"0-1", "1-3", "0-8:2", "0-9"};
		s->array = (char *)arrays[below(w, 4)];
	}
	if (chance(w, 5))
		s->nodes_required = mu_arena_printf(&w->arena, "n%u", below(w, w->nodes));
	return s;
}

static void submit(struct world *w)
{
	Mu__Event *e = blank(w, MU__EVENT__KIND_SUBMITTED);
	Mu__Submitted *s = e->submitted = NEW(w, Mu__Submitted, mu__submitted__init);
	s->spec = random_spec(w, false);
	s->component = mu_arena_alloc(&w->arena, 3 * sizeof(s->component[0]));
	for (uint32_t more = chance(w, 25) ? 1 + below(w, 3) : 0; more > 0; more--) {
		s->component[s->n_component++] = random_spec(w, true);
		s->component[s->n_component - 1]->array = s->spec->array = NULL;
	}
	if (h_apply(&w->h, e) == 0)
		w->jobs++;
}

static void end_one(struct world *w, uint32_t id)
{
	const char *names[64];
	const Mu__JobRow *j = sch_job(w->h.st, id);
	uint32_t attempt = j->attempt;
	size_t count = sch_job_nodes(w->h.st, id, names, 64);
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
	w->ends[id] = 0;
}

/* The components of one job end together. */
static void end(struct world *w, uint32_t id)
{
	const Mu__JobRow *j = sch_job(w->h.st, id);
	uint32_t first = j->het_job ? j->het_job : id, count = j->het_job ? j->het_count : 1;
	end_one(w, id);
	for (uint32_t k = 0; k < count; k++)
		if (first + k != id)
			end_one(w, first + k);
}

static uint32_t last_id(const struct world *w)
{
	uint32_t next = sch_cluster(w->h.st)->next_job_id;
	return next < IDS ? next : IDS;
}

/* Time goes on to the next end or so, but not past a moment at which the core wants to be told of it; what
 * ends then, ends. */
static void pass_time(struct world *w)
{
	int64_t to = w->h.now_usec + (int64_t)(1 + below(w, 400)) * SEC, due = sch_due_usec(w->h.st);
	if (due > w->h.now_usec && due < to)
		to = due;
	for (uint32_t id = 1; id < last_id(w); id++)
		if (w->ends[id] && w->ends[id] < to)
			to = w->ends[id];
	w->h.now_usec = to;
	for (uint32_t id = 1; id < last_id(w); id++)
		if (w->ends[id] && w->ends[id] <= to)
			end(w, id); /* Whoever of it is first. */
	Mu__Event *e = blank(w, MU__EVENT__KIND_TICK);
	e->tick = NEW(w, Mu__Tick, mu__tick__init);
	h_apply(&w->h, e);
}

/* ---- the promise ---- */

static uint32_t size_of(const Mu__JobRow *j)
{
	uint32_t size = j->n_array_run ? 0 : 1;
	for (size_t i = 1; i < j->n_array_run; i += 2)
		size += j->array_run[i];
	return size;
}

/* Tasks of the array have started: the first of them was promised to by now. */
static bool tasks_started(struct world *w, uint32_t id, const Mu__JobRow *j)
{
	uint32_t size = size_of(j), was = w->size[id];
	w->size[id] = size;
	if (!was || was == size)
		return true;
	if (w->promise[id] && w->h.now_usec > w->promise[id] + SEC)
		return h_fail(&w->h, "the next task of %u was promised %lld and starts %lld s later", id,
			      (long long)w->promise[id], (long long)(w->h.now_usec - w->promise[id]) / SEC);
	w->promise[id] = 0;
	return true;
}

static bool look(struct world *w)
{
	for (uint32_t id = 1; id < last_id(w); id++) {
		const Mu__JobRow *j = sch_job(w->h.st, id);
		if (!tasks_started(w, id, j))
			return false;
		int64_t said = j->state == JOB_PENDING ? j->plan_start_usec : j->start_usec;
		if (j->state == JOB_RUNNING && !w->ends[id]) {
			int64_t limit = j->time_limit_sec < 0 ? 2000 : j->time_limit_sec;
			w->ends[id] =
			    j->start_usec + (chance(w, 40) ? limit : 1 + below(w, (uint32_t)limit)) * SEC;
		}
		if (w->promise[id] && !said)
			return h_fail(&w->h, "job %u lost its planned start", id);
		if (w->promise[id] && said > w->promise[id] + (j->state == JOB_PENDING ? 0 : SEC))
			return h_fail(&w->h, "job %u was promised %lld and is now due %lld s later", id,
				      (long long)w->promise[id], (long long)(said - w->promise[id]) / SEC);
		if (j->state == JOB_PENDING && said && said != w->promise[id])
			w->plans++;
		if (said && j->state == JOB_PENDING)
			w->promise[id] = said;
		w->kept += w->promise[id] && j->state != JOB_PENDING;
	}
	return true;
}

static bool decide(struct world *w)
{
	for (int i = 0; i < 4000; i++) {
		w->h.now_usec += below(w, 3000); /* The log takes its time. */
		if (!h_decide(&w->h))
			break;
		if (!look(w))
			return false;
	}
	for (uint32_t id = 1; id < last_id(w); id++) {
		const Mu__JobRow *j = sch_job(w->h.st, id);
		if (j->state == JOB_PENDING && w->promise[id] && w->promise[id] + SEC <= w->h.now_usec)
			return h_fail(&w->h, "job %u waits beyond its promised start", id);
	}
	return true;
}

static bool run(uint64_t seed, uint64_t *plans, uint64_t *kept)
{
	struct world w = {0};
	mu_seed_init(&w.seed, seed);
	h_open(&w.h, true);
	w.h.every = 50;
	w.nodes = 1 + below(&w, 6);
	w.personal = chance(&w, 40);
	w.sharing = seed % 3 == 0;
	w.h.budget = chance(&w, 40) ? 1 + below(&w, 40) : 100000;
	found(&w);
	bool ok = true;
	for (int i = 0; i < ROUNDS && ok; i++) {
		bool arrives = w.jobs < JOBS && chance(&w, 60);
		if (arrives)
			submit(&w);
		else
			pass_time(&w);
		ok = (arrives && chance(&w, 30)) || decide(&w);
		ok = ok && !w.h.failure[0];
	}
	if (!ok)
		fprintf(stderr, "seed %llu, event %zu: %s\n", (unsigned long long)seed, w.h.count,
			w.h.failure);
	*plans += w.plans;
	*kept += w.kept;
	h_close(&w.h);
	mu_arena_free(&w.arena);
	return ok;
}

int main(int argc, char **argv)
{
	const char *size = getenv("MUSTER_TEST_SIZE");
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : argc > 1 ? 1 : 40;
	uint64_t failed = 0, plans = 0, kept = 0;
	if (argc < 2 && size)
		count = strcmp(size, "full") == 0 ? 1000 : strcmp(size, "fast") == 0 ? 15 : 60;
	for (uint64_t s = first; s < first + count; s++)
		failed += !run(s, &plans, &kept);
	printf("%llu seeds, %llu plans, %llu failed\n", (unsigned long long)count, (unsigned long long)plans,
	       (unsigned long long)failed);
	return failed || !plans ? 1 : 0;
}
