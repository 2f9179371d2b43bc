/* tests/sched/model_feed.c: random workloads through the core, told event by event in plain words, for a
 * model in another language (model.py) that makes its own decisions and compares.
 *
 * Usage: model_feed FIRST_SEED SEEDS. Each line is one thing:
 *   workload SEED                              begins; what follows until "." is its cluster and its events
 *   node NAME CPUS MEM GPUS WEIGHT             in configuration order
 *   account NAME PARENT SHARES JOBS CPUS GPUS  its GrpJobs and GrpTRES; -1: no limit, "-": the root
 *   user NAME ACCOUNT SHARES MAXJOBS           its association
 *   share N                                   so many jobs may have a CPU at once
 *   qos JOBSPU CPUSPU GPUS                     MaxJobsPU, MaxTRESPU=cpu, GrpTRES=gres/gpu of the only QOS
 *   submit TIME ID USER ACCOUNT CPUS MEM GPUS  memory and GPUs of each node
 *   end TIME ID | tick TIME
 *   fair ACCOUNT USER FACTOR USAGE             the core's answer to a tick: 2^-32, seconds of billing
 *   decide TIME                                then what the core started, in its order:
 *   start ID NODE CPULIST GPUS ...             three words for each node; "-": none */
#include <stdlib.h>
#include <string.h>

#include "proto/conf.h"
#include "proto/states.h"
#include "proto/hostlist.h"
#include "tests/sched/harness.h"
#include "tests/sched/make.h"

enum { NODES = 5, ACCOUNTS = 4, USERS = 5, EVENTS = 90 };
struct world {
	struct harness h;
	struct mu_seed seed;
	struct mu_arena arena;
	int start_sec;
	uint32_t share;
};

static long now(const struct world *w)
{
	return (long)(w->h.now_usec / 1000000);
}

static Mu__Event *event(struct world *w, Mu__Event__KindCase kind, const char *verifier, unsigned user)
{
	Mu__Event *e = NEW(w, Mu__Event, mu__event__init);
	e->kind_case = kind;
	e->author = NEW(w, Mu__Author, mu__author__init);
	e->author->verifier = (char *)verifier;
	SET(e->author, operator_, user == 99);
	SET(e->author, uid, user == 99 ? 0 : 1000 + user);
	e->author->user = user == 99 ? (char *)"root" : mu_arena_printf(&w->arena, "u%u", user);
	return e;
}

static int64_t cap(struct world *w, uint32_t chance, uint32_t most)
{
	return below(w, chance) ? -1 : 1 + (int64_t)below(w, most);
}

static void add_tres(struct world *w, Mu__TresCount ***list, size_t *n, const char *name, int64_t count)
{
	if (count < 0)
		return;
	Mu__TresCount **v = mu_arena_alloc(&w->arena, (*n + 1) * sizeof(v[0]));
	if (*n)
		memcpy(v, *list, *n * sizeof(v[0]));
	v[*n] = NEW(w, Mu__TresCount, mu__tres_count__init);
	v[*n]->name = (char *)name;
	SET(v[*n], count, count);
	*list = v;
	++*n;
}

static Mu__AccountsChange *change(struct world *w, Mu__AccountsChanged *c, Mu__AccountsChange__KindCase kind)
{
	Mu__AccountsChange *one = NEW(w, Mu__AccountsChange, mu__accounts_change__init);
	one->kind_case = kind;
	c->change[c->n_change++] = one;
	return one;
}

static void add_assoc(struct world *w, Mu__AccountsChanged *c, const char *account, const char *parent,
		      const char *user, uint32_t shares, Mu__Limits *limits)
{
	Mu__AssocPut *s = change(w, c, MU__ACCOUNTS_CHANGE__KIND_ASSOC)->assoc =
	    NEW(w, Mu__AssocPut, mu__assoc_put__init);
	s->account = (char *)account;
	s->user = (char *)user;
	s->parent = (char *)parent;
	s->limits = limits;
	SET(s, create, 1);
	SET(s, shares, shares);
}

static void add_account(struct world *w, Mu__AccountsChanged *c, unsigned a)
{
	char *name = mu_arena_printf(&w->arena, "a%u", a);
	unsigned parent = below(w, a + 1);
	Mu__Limits *l = NEW(w, Mu__Limits, mu__limits__init);
	int64_t jobs = cap(w, 3, 4), cpus = cap(w, 3, 14), gpus = cap(w, 3, 4);
	uint32_t shares = 1 + below(w, 4);
	Mu__AccountPut *p = change(w, c, MU__ACCOUNTS_CHANGE__KIND_ACCOUNT)->account =
	    NEW(w, Mu__AccountPut, mu__account_put__init);
	p->name = name;
	SET(p, create, 1);
	if (jobs >= 0)
		SET(l, grp_jobs, jobs);
	add_tres(w, &l->grp_tres, &l->n_grp_tres, "cpu", cpus);
	add_tres(w, &l->grp_tres, &l->n_grp_tres, "gres/gpu", gpus);
	char *above = parent ? mu_arena_printf(&w->arena, "a%u", parent - 1) : NULL;
	add_assoc(w, c, name, above, NULL, shares, l);
	printf("account %s %s %u %lld %lld %lld\n", name, above ? above : "-", shares, (long long)jobs,
	       (long long)cpus, (long long)gpus);
	for (unsigned u = 0; u < USERS; u++) {
		int64_t most = cap(w, 4, 3);
		Mu__Limits *own = NEW(w, Mu__Limits, mu__limits__init);
		shares = 1 + below(w, 3);
		if (most >= 0)
			SET(own, max_jobs, most);
		add_assoc(w, c, name, NULL, mu_arena_printf(&w->arena, "u%u", u), shares, own);
		printf("user u%u %s %u %lld\n", u, name, shares, (long long)most);
	}
}

static void accounts(struct world *w)
{
	Mu__Event *e = event(w, MU__EVENT__KIND_ACCOUNTS_CHANGED, "socket", 99);
	Mu__AccountsChanged *c = e->accounts_changed =
	    NEW(w, Mu__AccountsChanged, mu__accounts_changed__init);
	c->change = mu_arena_alloc(&w->arena, 200 * sizeof(c->change[0]));
	for (unsigned u = 0; u < USERS; u++) {
		Mu__UserPut *p = change(w, c, MU__ACCOUNTS_CHANGE__KIND_USER)->user =
		    NEW(w, Mu__UserPut, mu__user_put__init);
		p->name = mu_arena_printf(&w->arena, "u%u", u);
		SET(p, create, 1);
	}
	Mu__QosPut *q = change(w, c, MU__ACCOUNTS_CHANGE__KIND_QOS)->qos =
	    NEW(w, Mu__QosPut, mu__qos_put__init);
	int64_t jobs = cap(w, 2, 4), cpus = cap(w, 3, 12), gpus = cap(w, 3, 6);
	q->name = (char *)"normal";
	q->limits = NEW(w, Mu__Limits, mu__limits__init);
	if (jobs >= 0)
		SET(q->limits, max_jobs_user, jobs);
	add_tres(w, &q->limits->max_tres_user, &q->limits->n_max_tres_user, "cpu", cpus);
	add_tres(w, &q->limits->grp_tres, &q->limits->n_grp_tres, "gres/gpu", gpus);
	printf("qos %lld %lld %lld\n", (long long)jobs, (long long)cpus, (long long)gpus);
	for (unsigned a = 0; a < ACCOUNTS; a++)
		add_account(w, c, a);
	if (h_apply(&w->h, e))
		h_fail(&w->h, "accounts: %s", w->h.verdict.text);
}

static void found(struct world *w)
{
	struct mu_err err = {0};
	struct mu_buf text = {0};
	uint32_t cpus[NODES], mem[NODES], gpus[NODES];
	mu_buf_str(
	    &text,
	    "ClusterName=model\nSlurmctldHost=c1\nSelectTypeParameters=CR_CPU_Memory\nSlurmdTimeout=0\n"
	    "SchedulerType=sched/builtin\nAccountingStorageEnforce=limits\nPriorityType=priority/"
	    "multifactor\n"
	    "PriorityWeightFairshare=10000\nPriorityWeightAge=1000\nPriorityMaxAge=01:00:00\n"
	    "PriorityDecayHalfLife=00:30:00\nGresTypes=gpu\nMinJobAge=65533\n");
	for (unsigned i = 0; i < NODES; i++) {
		uint32_t weight = 1 + below(w, 3);
		cpus[i] = 1 + below(w, 8);
		mem[i] = 1000 * (1 + below(w, 4));
		gpus[i] = below(w, 4);
		mu_buf_printf(&text, "NodeName=n%u CPUs=%u RealMemory=%u Weight=%u%s\n", i, cpus[i], mem[i],
			      weight, gpus[i] ? mu_arena_printf(&w->arena, " Gres=gpu:%u", gpus[i]) : "");
		printf("node n%u %u %u %u %u\n", i, cpus[i], mem[i], gpus[i], weight);
	}
	mu_buf_printf(&text, "PartitionName=p Nodes=ALL Default=YES OverSubscribe=FORCE:%u\n", w->share);
	printf("share %u\n", w->share);
	Mu__Event *e = event(w, MU__EVENT__KIND_FOUNDED, "controller", 99);
	Mu__Founded *f = e->founded = NEW(w, Mu__Founded, mu__founded__init);
	if (mu_conf_parse("model.conf", (char *)text.data, NULL, NULL, NULL, &w->arena, &f->config, &err))
		h_fail(&w->h, "%s", err.text);
	mu_buf_free(&text);
	f->has_cluster_id = 1;
	f->cluster_id = (ProtobufCBinaryData){16, (uint8_t *)"0123456789abcdef"};
	SET(f, level, 1);
	if (!w->h.failure[0] && h_apply(&w->h, e))
		h_fail(&w->h, "%s", w->h.verdict.text);
	for (unsigned i = 0; i < NODES && !w->h.failure[0]; i++) {
		const char *name = mu_arena_printf(&w->arena, "n%u", i);
		const Mu__NodeRow *row = sch_node(w->h.st, name);
		e = event(w, MU__EVENT__KIND_NODE_REGISTERED, "node-key", 99);
		e->node_registered = NEW(w, Mu__NodeRegistered, mu__node_registered__init);
		Mu__NodeRow *n = e->node_registered->inventory = NEW(w, Mu__NodeRow, mu__node_row__init);
		n->name = e->author->node = (char *)name;
		SET(n, cpus, cpus[i]);
		SET(n, real_memory_mib, mem[i]);
		n->n_gres = row->n_gres;
		n->gres = row->gres;
		n->has_boot_id = 1;
		n->boot_id = (ProtobufCBinaryData){4, (uint8_t *)"boot"};
		h_apply(&w->h, e);
	}
}

static void submit(struct world *w)
{
	unsigned user = below(w, USERS), account = below(w, ACCOUNTS);
	Mu__Event *e = event(w, MU__EVENT__KIND_SUBMITTED, "socket", user);
	e->submitted = NEW(w, Mu__Submitted, mu__submitted__init);
	Mu__JobSpec *s = e->submitted->spec = NEW(w, Mu__JobSpec, mu__job_spec__init);
	uint32_t gpus = below(w, 3) ? 0 : 1 + below(w, 2);
	s->account = mu_arena_printf(&w->arena, "a%u", account);
	SET(s, ntasks, 1 + below(w, below(w, 3) ? 3 : 12));
	SET(s, mem_node_mib, 100 * (1 + below(w, 12)));
	SET(s, time_limit_sec, 86400);
	SET(s, batch, 1);
	if (gpus) {
		Mu__GresAsk *g = NEW(w, Mu__GresAsk, mu__gres_ask__init);
		g->name = (char *)"gpu";
		SET(g, count, gpus);
		s->gres = mu_arena_dup(&w->arena, &g, sizeof(g));
		s->n_gres = 1;
	}
	struct mu_err err = {0};
	if (sch_admit(w->h.st, e, &err) || h_apply(&w->h, e)) /* Larger than the machine. */
		return;
	printf("submit %ld %u u%u a%u %u %u %u\n", now(w), w->h.verdict.job, user, account, s->ntasks,
	       (uint32_t)s->mem_node_mib, gpus);
}

static void end(struct world *w)
{
	const char *names[NODES];
	uint32_t most = sch_cluster(w->h.st)->next_job_id, id = 1 + below(w, most);
	const Mu__JobRow *j = sch_job(w->h.st, id);
	for (uint32_t i = 0; i < most && !(j && j->state == JOB_RUNNING); i++) {
		id = id % most + 1;
		j = sch_job(w->h.st, id);
	}
	size_t n = j && j->state == JOB_RUNNING ? sch_job_nodes(w->h.st, id, names, NODES) : 0;
	uint32_t attempt = j ? j->attempt : 0;
	for (size_t i = 0; i < n; i++)
		names[i] = mu_arena_strdup(&w->arena, names[i]);
	for (size_t i = 0; i < n; i++) {
		Mu__Event *e = event(w, MU__EVENT__KIND_ATTEMPT_ENDED, "node-key", 99);
		Mu__AttemptEnded *a = e->attempt_ended = NEW(w, Mu__AttemptEnded, mu__attempt_ended__init);
		SET(a, job, id);
		SET(a, attempt, attempt);
		a->node = e->author->node = (char *)names[i];
		SET(a, batch, i == 0);
		SET(a, released, 1);
		h_apply(&w->h, e);
	}
	if (n)
		printf("end %ld %u\n", now(w), id);
}

static void tick(struct world *w)
{
	Mu__Event *e = event(w, MU__EVENT__KIND_TICK, "controller", 99);
	Mu__ShareRow *row;
	e->tick = NEW(w, Mu__Tick, mu__tick__init);
	h_apply(&w->h, e);
	printf("tick %ld\n", now(w));
	for (uint32_t i = 0; sch_explain_share(w->h.st, i, &w->arena, &row) == 0; i++)
		if (row->account && strcmp(row->account, "root") != 0)
			printf("fair %s %s %llu %llu\n", row->account,
			       row->user && *row->user ? row->user : "-", (unsigned long long)row->fair,
			       (unsigned long long)row->raw_usage_sec);
}

static void print_start(struct world *w, const Mu__Start *s)
{
	printf("start %u", s->job);
	for (size_t i = 0; i < s->n_alloc; i++) {
		const Mu__AllocNode *a = s->alloc[i];
		char **names;
		size_t count;
		if (mu_hostlist_expand(a->node, NODES, &w->arena, &names, &count, NULL))
			h_fail(&w->h, "a start on %s", a->node);
		for (size_t k = 0; k < count; k++) {
			printf(" %s %s ", names[k], a->cpu_list);
			for (size_t g = 0; a->n_gres && g < a->gres[0]->n_index; g++)
				printf("%s%u", g ? "," : "", a->gres[0]->index[g]);
			if (!a->n_gres)
				printf("-");
		}
	}
	printf("\n");
}

static void decide(struct world *w)
{
	struct mu_arena slice = {0};
	printf("decide %ld\n", now(w));
	while (sch_wants_decide(w->h.st) && !w->h.failure[0]) {
		Mu__Event *e = NULL;
		Mu__Author leader = MU__AUTHOR__INIT;
		mu_arena_reset(&slice);
		sch_decide(w->h.st, 1000000, &slice, &e);
		if (!e)
			break;
		leader.verifier = (char *)"controller";
		e->author = &leader;
		for (size_t i = 0; i < e->decided->n_start; i++)
			print_start(w, e->decided->start[i]);
		if (h_apply(&w->h, e) || sch_cluster(w->h.st)->starts_void)
			h_fail(&w->h, "a fresh decision was void");
	}
	mu_arena_free(&slice);
}

static bool one(uint64_t seed)
{
	struct world w = {0};
	h_open(&w.h, false);
	mu_seed_init(&w.seed, seed);
	w.share = seed % 3 == 0 ? 2 + seed % 2 : 1; /* Every third cluster gives CPUs more than once. */
	printf("workload %llu\n", (unsigned long long)seed);
	found(&w);
	accounts(&w);
	for (int i = 0; i < EVENTS && !w.h.failure[0]; i++) {
		uint32_t dice = below(&w, 100);
		w.h.now_usec += 1000000 * (int64_t)below(&w, 90);
		if (dice < 40)
			submit(&w);
		else if (dice < 65)
			end(&w);
		else if (dice < 75)
			tick(&w);
		else
			decide(&w);
	}
	printf(".\n");
	if (w.h.failure[0])
		fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, w.h.failure);
	bool ok = !w.h.failure[0];
	h_close(&w.h);
	mu_arena_free(&w.arena);
	return ok;
}

int main(int argc, char **argv)
{
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1,
		 seeds = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	bool ok = true;
	for (uint64_t s = first; s < first + seeds && ok; s++)
		ok = one(s);
	return ok ? 0 : 1;
}
