/* tests/sched/limits.c: limits hold after every event of random workloads. The sums are taken from the job
 * rows alone, by a tree that this program made itself; harness.c checks the rest, a State loaded from rows
 * included.
 *
 * Usage: limits [FIRST_SEED [SEEDS [STEPS_OF_A_SLICE]]]; MUSTER_TEST_SIZE=fast|ci|full sets the number of
 * seeds. */
#include <stdlib.h>
#include <string.h>

#include "proto/base/seed.h"
#include "proto/conf.h"
#include "proto/states.h"
#include "tests/sched/harness.h"
#include "tests/sched/make.h"

enum { ACCOUNTS = 6, USERS = 4, EVENTS = 120, IDS = 4096 };
struct world {
	struct harness h;
	struct mu_seed seed;
	struct mu_arena arena;
	bool sharing;	      /* jobs share CPUs */
	int parent[ACCOUNTS]; /* -1: the root */
	int64_t cpu_cap[ACCOUNTS], job_cap[ACCOUNTS], user_cap;
	int64_t cpus[ACCOUNTS], jobs[ACCOUNTS], of_user[USERS];
	uint32_t of_array[IDS]; /* tasks that run, by the array's id */
};

static Mu__Event *event(struct world *w, Mu__Event__KindCase kind, bool leader, unsigned user)
{
	Mu__Event *e = NEW(w, Mu__Event, mu__event__init);
	e->kind_case = kind;
	e->author = NEW(w, Mu__Author, mu__author__init);
	e->author->verifier = (char *)(leader ? "controller" : "socket");
	SET(e->author, operator_, leader || user == 99);
	SET(e->author, uid, user == 99 ? 0 : 1000 + user);
	e->author->user = mu_arena_printf(&w->arena, "u%u", user);
	return e;
}

static Mu__AccountsChange *change(struct world *w, Mu__AccountsChanged *c, Mu__AccountsChange__KindCase kind)
{
	Mu__AccountsChange *one = NEW(w, Mu__AccountsChange, mu__accounts_change__init);
	one->kind_case = kind;
	c->change[c->n_change++] = one;
	return one;
}

static void cap(struct world *w, Mu__Limits *l, int64_t cpus, int64_t jobs)
{
	if (cpus >= 0) {
		l->grp_tres = mu_arena_alloc(&w->arena, sizeof(l->grp_tres[0]));
		l->grp_tres[l->n_grp_tres++] = NEW(w, Mu__TresCount, mu__tres_count__init);
		l->grp_tres[0]->name = (char *)"cpu";
		SET(l->grp_tres[0], count, cpus);
	}
	if (jobs >= 0)
		SET(l, grp_jobs, jobs);
}

/* Random tree and caps; every user is in every account. */
static void accounts(struct world *w)
{
	Mu__Event *e = event(w, MU__EVENT__KIND_ACCOUNTS_CHANGED, false, 99);
	Mu__AccountsChanged *c = e->accounts_changed =
	    NEW(w, Mu__AccountsChanged, mu__accounts_changed__init);
	c->change = mu_arena_alloc(&w->arena, 200 * sizeof(c->change[0]));
	w->user_cap = mu_seed_below(&w->seed, 4);
	Mu__QosPut *q = change(w, c, MU__ACCOUNTS_CHANGE__KIND_QOS)->qos =
	    NEW(w, Mu__QosPut, mu__qos_put__init);
	q->name = (char *)"normal";
	q->limits = NEW(w, Mu__Limits, mu__limits__init);
	SET(q->limits, max_jobs_user, w->user_cap);
	for (int u = 0; u < USERS; u++) {
		Mu__UserPut *p = change(w, c, MU__ACCOUNTS_CHANGE__KIND_USER)->user =
		    NEW(w, Mu__UserPut, mu__user_put__init);
		p->name = mu_arena_printf(&w->arena, "u%d", u);
		SET(p, create, 1);
	}
	for (int a = 0; a < ACCOUNTS; a++) {
		w->parent[a] = (int)mu_seed_below(&w->seed, (uint32_t)a + 1) - 1;
		w->cpu_cap[a] = mu_seed_below(&w->seed, 3) ? (int64_t)mu_seed_below(&w->seed, 12) : -1;
		w->job_cap[a] = mu_seed_below(&w->seed, 3) ? -1 : (int64_t)mu_seed_below(&w->seed, 4);
		char *name = mu_arena_printf(&w->arena, "a%d", a);
		Mu__AccountPut *p = change(w, c, MU__ACCOUNTS_CHANGE__KIND_ACCOUNT)->account =
		    NEW(w, Mu__AccountPut, mu__account_put__init);
		p->name = name;
		SET(p, create, 1);
		for (int u = -1; u < USERS; u++) {
			Mu__AssocPut *s = change(w, c, MU__ACCOUNTS_CHANGE__KIND_ASSOC)->assoc =
			    NEW(w, Mu__AssocPut, mu__assoc_put__init);
			s->account = name;
			SET(s, create, 1);
			if (u >= 0) {
				s->user = mu_arena_printf(&w->arena, "u%d", u);
				continue;
			}
			s->parent = w->parent[a] < 0 ? NULL : mu_arena_printf(&w->arena, "a%d", w->parent[a]);
			s->limits = NEW(w, Mu__Limits, mu__limits__init);
			cap(w, s->limits, w->cpu_cap[a], w->job_cap[a]);
		}
	}
	if (h_apply(&w->h, e))
		h_fail(&w->h, "accounts: %s", w->h.verdict.text);
}

static void found(struct world *w)
{
	struct mu_err err = {0};
	Mu__Event *e = event(w, MU__EVENT__KIND_FOUNDED, true, 0);
	Mu__Founded *f = e->founded = NEW(w, Mu__Founded, mu__founded__init);
	if (mu_conf_parse(
		"limits.conf",
		mu_arena_printf(
		    &w->arena,
		    "ClusterName=limits\nSlurmctldHost=c1\nSelectTypeParameters=CR_CORE\nSlurmdTimeout=0\n"
		    "AccountingStorageEnforce=limits\nPriorityType=priority/multifactor\n"
		    "PriorityWeightFairshare=1000\nPriorityWeightAge=1000\nPriorityDecayHalfLife=5\n"
		    "NodeName=n[1-3] CPUs=8 RealMemory=1000\nPartitionName=p Nodes=ALL Default=YES "
		    "OverSubscribe=%s\n",
		    w->sharing ? "FORCE:2" : "NO"),
		NULL, NULL, NULL, &w->arena, &f->config, &err))
		h_fail(&w->h, "%s", err.text);
	f->has_cluster_id = 1;
	f->cluster_id = (ProtobufCBinaryData){16, (uint8_t *)"0123456789abcdef"};
	SET(f, level, 1);
	h_apply(&w->h, e);
	for (int i = 1; i <= 3; i++) {
		e = event(w, MU__EVENT__KIND_NODE_REGISTERED, false, 99);
		e->node_registered = NEW(w, Mu__NodeRegistered, mu__node_registered__init);
		Mu__NodeRow *n = e->node_registered->inventory = NEW(w, Mu__NodeRow, mu__node_row__init);
		n->name = e->author->node = mu_arena_printf(&w->arena, "n%d", i);
		SET(n, cpus, 8);
		SET(n, real_memory_mib, 1000);
		n->has_boot_id = 1;
		n->boot_id = (ProtobufCBinaryData){4, (uint8_t *)"boot"};
		h_apply(&w->h, e);
	}
}

static int add_job(void *arg, const struct sch_key *key, const uint8_t *row, size_t len)
{
	struct world *w = arg;
	Mu__JobRow *j = (Mu__JobRow *)mu_pb_unpack(&mu__job_row__descriptor, row, len, &w->arena);
	if (j->state != JOB_RUNNING)
		return 0;
	for (int a = j->account[1] - '0'; a >= 0; a = w->parent[a]) {
		w->cpus[a] += j->cpus_total;
		w->jobs[a]++;
	}
	w->of_user[j->user[1] - '0']++;
	if (j->array_job && j->array_job < IDS && ++w->of_array[j->array_job] > j->array_throttle &&
	    j->array_throttle)
		h_fail(&w->h, "array %u runs %u tasks, %u at once are its limit", j->array_job,
		       w->of_array[j->array_job], j->array_throttle);
	return 0;
}

static void check(struct world *w)
{
	memset(w->cpus, 0, sizeof(w->cpus));
	memset(w->jobs, 0, sizeof(w->jobs));
	memset(w->of_user, 0, sizeof(w->of_user));
	memset(w->of_array, 0, sizeof(w->of_array));
	sch_rows(w->h.st, SCH_ROW_JOB, add_job, w);
	if (sch_cluster(w->h.st)->starts_void) /* Nothing comes between a decision and its fold here. */
		h_fail(&w->h, "a pass started what its own starts forbid");
	for (int a = 0; a < ACCOUNTS; a++)
		if ((w->cpu_cap[a] >= 0 && w->cpus[a] > w->cpu_cap[a]) ||
		    (w->job_cap[a] >= 0 && w->jobs[a] > w->job_cap[a]))
			h_fail(&w->h, "account a%d runs %lld CPUs in %lld jobs, its limits are %lld and %lld",
			       a, (long long)w->cpus[a], (long long)w->jobs[a], (long long)w->cpu_cap[a],
			       (long long)w->job_cap[a]);
	for (int u = 0; u < USERS; u++)
		if (w->of_user[u] > w->user_cap)
			h_fail(&w->h, "user u%d runs %lld jobs, his limit is %lld", u,
			       (long long)w->of_user[u], (long long)w->user_cap);
}

static void submit(struct world *w)
{
	Mu__Event *e = event(w, MU__EVENT__KIND_SUBMITTED, false, mu_seed_below(&w->seed, USERS));
	e->submitted = NEW(w, Mu__Submitted, mu__submitted__init);
	Mu__JobSpec *s = e->submitted->spec = NEW(w, Mu__JobSpec, mu__job_spec__init);
	s->account = mu_arena_printf(&w->arena, "a%u", mu_seed_below(&w->seed, ACCOUNTS));
	SET(s, ntasks, 1 + mu_seed_below(&w->seed, 5));
	SET(s, time_limit_sec, 600);
	SET(s, batch, 1);
	if (mu_seed_below(&w->seed, 4) == 0)
		s->array = (char *)(mu_seed_below(&w->seed, 2) ? "1-9" : "0-20:4%2");
	h_apply(&w->h, e);
}

static void end(struct world *w)
{
	const char *names[8];
	uint32_t id = 1 + mu_seed_below(&w->seed, sch_cluster(w->h.st)->next_job_id);
	const Mu__JobRow *j = sch_job(w->h.st, id);
	size_t n = j && j->state == JOB_RUNNING ? sch_job_nodes(w->h.st, id, names, 8) : 0;
	uint32_t attempt = j ? j->attempt : 0;
	for (size_t i = 0; i < n; i++)
		names[i] = mu_arena_strdup(&w->arena, names[i]);
	for (size_t i = 0; i < n; i++) {
		Mu__Event *e = event(w, MU__EVENT__KIND_ATTEMPT_ENDED, false, 99);
		Mu__AttemptEnded *a = e->attempt_ended = NEW(w, Mu__AttemptEnded, mu__attempt_ended__init);
		SET(a, job, id);
		SET(a, attempt, attempt);
		a->node = e->author->node = (char *)names[i];
		SET(a, batch, i == 0);
		SET(a, released, 1);
		h_apply(&w->h, e);
	}
}

static bool one(uint64_t seed, uint32_t budget)
{
	struct world w = {0};
	h_open(&w.h, true);
	w.h.every = 8;
	w.h.budget = budget;
	mu_seed_init(&w.seed, seed);
	w.sharing = seed % 3 == 0;
	found(&w);
	accounts(&w);
	for (int i = 0; i < EVENTS && !w.h.failure[0]; i++) {
		w.h.now_usec += 1000000 * (int64_t)mu_seed_below(&w.seed, 40);
		if (mu_seed_below(&w.seed, 100) < 45)
			submit(&w);
		else if (mu_seed_below(&w.seed, 100) < 40)
			end(&w);
		else
			h_decide(&w.h);
		check(&w);
	}
	bool ok = !w.h.failure[0] && h_replay(&w.h);
	if (!ok)
		printf("seed %llu: %s\n", (unsigned long long)seed, w.h.failure);
	h_close(&w.h);
	mu_arena_free(&w.arena);
	return ok;
}

int main(int argc, char **argv)
{
	const char *size = getenv("MUSTER_TEST_SIZE");
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	uint64_t seeds = argc > 2			     ? strtoull(argv[2], NULL, 10)
			 : size && strcmp(size, "full") == 0 ? 2000
							     : 60;
	bool ok = true;
	for (uint64_t s = first; s < first + seeds && ok; s++)
		ok = one(s, argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 3);
	return ok ? 0 : 1;
}
