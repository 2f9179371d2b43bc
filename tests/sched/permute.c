/* tests/sched/permute.c: events that carry the same stamp and touch no common job, node or association may
 * come in any order: what is decided afterwards is the same. (Submissions excepted: they get their ids in
 * order.)
 *
 * Usage: permute [FIRST_SEED [SEEDS]]; MUSTER_TEST_SIZE=fast|ci|full sets the number of seeds. */
#include <stdlib.h>
#include <string.h>

#include "proto/conf.h"
#include "proto/states.h"
#include "tests/sched/harness.h"
#include "tests/sched/make.h"

enum { NODES = 8, USERS = 8, EVENTS = 90, GROUP = 12 };
struct world {
	struct harness h;
	struct mu_seed seed;
	struct mu_arena arena;
	uint64_t groups, permuted;
};

static Mu__Event *event(struct world *w, Mu__Event__KindCase kind, const char *verifier)
{
	Mu__Event *e = NEW(w, Mu__Event, mu__event__init);
	e->kind_case = kind;
	e->author = NEW(w, Mu__Author, mu__author__init);
	e->author->verifier = (char *)verifier;
	SET(e->author, operator_, 1);
	SET(e->author, uid, 0);
	e->author->user = (char *)"root";
	return e;
}

/* One account for each user: their jobs have no association in common but the root. */
static void accounts(struct world *w)
{
	Mu__Event *e = event(w, MU__EVENT__KIND_ACCOUNTS_CHANGED, "socket");
	Mu__AccountsChanged *c = e->accounts_changed =
	    NEW(w, Mu__AccountsChanged, mu__accounts_changed__init);
	c->change = mu_arena_alloc(&w->arena, 4 * USERS * sizeof(c->change[0]));
	for (unsigned u = 0; u < USERS; u++) {
		Mu__AccountsChange *v[4];
		char *user = mu_arena_printf(&w->arena, "u%u", u),
		     *account = mu_arena_printf(&w->arena, "a%u", u);
		for (int i = 0; i < 4; i++)
			v[i] = c->change[c->n_change++] =
			    NEW(w, Mu__AccountsChange, mu__accounts_change__init);
		v[0]->kind_case = MU__ACCOUNTS_CHANGE__KIND_USER;
		v[0]->user = NEW(w, Mu__UserPut, mu__user_put__init);
		v[0]->user->name = user;
		SET(v[0]->user, create, 1);
		v[1]->kind_case = MU__ACCOUNTS_CHANGE__KIND_ACCOUNT;
		v[1]->account = NEW(w, Mu__AccountPut, mu__account_put__init);
		v[1]->account->name = account;
		SET(v[1]->account, create, 1);
		for (int i = 2; i < 4; i++) {
			v[i]->kind_case = MU__ACCOUNTS_CHANGE__KIND_ASSOC;
			v[i]->assoc = NEW(w, Mu__AssocPut, mu__assoc_put__init);
			v[i]->assoc->account = account;
			v[i]->assoc->user = i == 3 ? user : NULL;
			SET(v[i]->assoc, create, 1);
			v[i]->assoc->limits = NEW(w, Mu__Limits, mu__limits__init);
			if (i == 2 && below(w, 2))
				SET(v[i]->assoc->limits, grp_jobs, 1 + below(w, 3));
		}
	}
	if (h_apply(&w->h, e))
		h_fail(&w->h, "accounts: %s", w->h.verdict.text);
}

static void found(struct world *w)
{
	static const char *const kinds[] = {
	    "SchedulerType=sched/builtin\n", "SchedulerParameters=bf_max_job_test=1\n",
	    "PriorityType=priority/multifactor\nPriorityWeightFairshare=1000\nPriorityWeightAge=1000\n"};
	struct mu_err err = {0};
	Mu__Event *e = event(w, MU__EVENT__KIND_FOUNDED, "controller");
	Mu__Founded *f = e->founded = NEW(w, Mu__Founded, mu__founded__init);
	const char *text =
	    mu_arena_printf(&w->arena,
			    "ClusterName=permute\nSlurmctldHost=c1\nSlurmdTimeout=0\nMinJobAge=65533\n"
			    "AccountingStorageEnforce=limits\n%sNodeName=n[0-%u] CPUs=4\nPartitionName=p "
			    "Nodes=ALL Default=YES\n",
			    kinds[below(w, 3)], NODES - 1);
	if (mu_conf_parse("permute.conf", text, NULL, NULL, NULL, &w->arena, &f->config, &err))
		h_fail(&w->h, "%s", err.text);
	f->has_cluster_id = 1;
	f->cluster_id = (ProtobufCBinaryData){16, (uint8_t *)"0123456789abcdef"};
	SET(f, level, 1);
	h_apply(&w->h, e);
	for (unsigned i = 0; i < NODES; i++) {
		e = event(w, MU__EVENT__KIND_NODE_REGISTERED, "node-key");
		e->node_registered = NEW(w, Mu__NodeRegistered, mu__node_registered__init);
		Mu__NodeRow *n = e->node_registered->inventory = NEW(w, Mu__NodeRow, mu__node_row__init);
		n->name = e->author->node = mu_arena_printf(&w->arena, "n%u", i);
		SET(n, cpus, 4);
		n->has_boot_id = 1;
		n->boot_id = (ProtobufCBinaryData){4, (uint8_t *)"boot"};
		h_apply(&w->h, e);
	}
}

static void submit(struct world *w)
{
	unsigned user = below(w, USERS);
	Mu__Event *e = event(w, MU__EVENT__KIND_SUBMITTED, "socket");
	SET(e->author, uid, 1000 + user);
	SET(e->author, operator_, 0);
	e->author->user = mu_arena_printf(&w->arena, "u%u", user);
	e->submitted = NEW(w, Mu__Submitted, mu__submitted__init);
	Mu__JobSpec *s = e->submitted->spec = NEW(w, Mu__JobSpec, mu__job_spec__init);
	s->account = mu_arena_printf(&w->arena, "a%u", user);
	SET(s, ntasks, 1 + below(w, below(w, 4) ? 4 : 16));
	SET(s, time_limit_sec, 60 * (1 + below(w, 60)));
	SET(s, batch, 1);
	h_apply(&w->h, e);
}

/* ---- a group of events that have nothing in common ---- */

struct group {
	Mu__Event *e[GROUP];
	uint32_t count;
	bool user[USERS], node[NODES];
};

static bool claim(struct group *g, const Mu__JobRow *j, const char **names, size_t n)
{
	unsigned user = j->uid - 1000;
	if (user >= USERS || g->user[user])
		return false;
	for (size_t i = 0; i < n; i++)
		if (g->node[names[i][1] - '0'])
			return false;
	for (size_t i = 0; i < n; i++)
		g->node[names[i][1] - '0'] = true;
	return g->user[user] = true;
}

/* Of jobs on one node: the events of a larger one have that job in common. */
static void add_end(struct world *w, struct group *g, uint32_t id)
{
	const char *names[NODES];
	const Mu__JobRow *j = sch_job(w->h.st, id);
	uint32_t attempt = j->attempt;
	size_t n = sch_job_nodes(w->h.st, id, names, NODES);
	if (n != 1 || !claim(g, j, names, n))
		return;
	Mu__Event *e = event(w, MU__EVENT__KIND_ATTEMPT_ENDED, "node-key");
	Mu__AttemptEnded *a = e->attempt_ended = NEW(w, Mu__AttemptEnded, mu__attempt_ended__init);
	SET(a, job, id);
	SET(a, attempt, attempt);
	a->node = e->author->node = mu_arena_strdup(&w->arena, names[0]);
	SET(a, batch, 1);
	SET(a, released, below(w, 4) > 0);
	g->e[g->count++] = e;
}

static void add_hold(struct world *w, struct group *g, const Mu__JobRow *j)
{
	uint32_t id = j->id, priority = j->priority;
	if (!claim(g, j, NULL, 0))
		return;
	Mu__Event *e = event(w, MU__EVENT__KIND_JOB_HOLD, "socket");
	e->job_hold = NEW(w, Mu__JobHold, mu__job_hold__init);
	e->job_hold->job = mu_arena_dup(&w->arena, &id, sizeof(id));
	e->job_hold->n_job = 1;
	SET(e->job_hold, release, priority == 0);
	g->e[g->count++] = e;
}

static void add_drain(struct world *w, struct group *g)
{
	unsigned n = below(w, NODES);
	if (g->node[n])
		return;
	g->node[n] = true;
	const Mu__NodeRow *row = sch_node(w->h.st, mu_arena_printf(&w->arena, "n%u", n));
	bool drained = row->flags & NODE_FLAG_DRAIN;
	Mu__Event *e = event(w, MU__EVENT__KIND_NODE_UPDATE, "socket");
	e->node_update = NEW(w, Mu__NodeUpdate, mu__node_update__init);
	char *name = mu_arena_printf(&w->arena, "n%u", n);
	e->node_update->node = mu_arena_dup(&w->arena, &name, sizeof(name));
	e->node_update->n_node = 1;
	e->node_update->state = (char *)(drained ? "RESUME" : "DRAIN");
	e->node_update->reason = (char *)"permuted";
	g->e[g->count++] = e;
}

static void gather(struct world *w, struct group *g)
{
	for (int i = 0; i < 30 && g->count + 2 < GROUP; i++) {
		uint32_t id = 1 + below(w, sch_cluster(w->h.st)->next_job_id);
		const Mu__JobRow *j = sch_job(w->h.st, id);
		if (below(w, 12) == 0)
			add_drain(w, g);
		else if (j && j->state == JOB_RUNNING)
			add_end(w, g, id);
		else if (j && j->state == JOB_PENDING && below(w, 4) == 0)
			add_hold(w, g, j);
	}
}

/* All of them in one entry, in the order given, then passes to the end: what was decided, into OUT. */
static void fold(struct world *w, struct sch_state *st, const struct group *g, const uint32_t *order,
		 struct mu_buf *out)
{
	struct sch_changes changes = {0};
	struct sch_at at = {.pos = sch_pos(st) + 1, .time_usec = w->h.now_usec};
	struct mu_buf buf = {0};
	struct sch_verdict v;
	struct mu_err err = {0};
	for (uint32_t i = 0; i < g->count; i++, at.n++) {
		mu_buf_reset(&buf);
		mu_pb_pack(&g->e[order[i]]->base, &buf);
		sch_evolve(st, &at, buf.data, buf.len, &v, &changes, &err);
		if (v.code)
			h_fail(&w->h, "an event of the group was void: %s", v.text);
	}
	sch_entry_done(st, at.pos, at.time_usec, &changes);
	for (int i = 0; i < 100 && sch_wants_decide(st); i++) {
		struct mu_arena arena = {0};
		Mu__Event *e = NULL;
		Mu__Author leader = MU__AUTHOR__INIT;
		sch_decide(st, w->h.budget, &arena, &e);
		if (e) {
			leader.verifier = (char *)"controller";
			e->author = &leader;
			mu_pb_pack(&e->base, out);
			mu_buf_reset(&buf);
			mu_pb_pack(&e->base, &buf);
			at = (struct sch_at){.pos = sch_pos(st) + 1, .time_usec = w->h.now_usec};
			sch_evolve(st, &at, buf.data, buf.len, &v, &changes, &err);
			sch_entry_done(st, at.pos, at.time_usec, &changes);
		}
		mu_arena_free(&arena);
	}
	mu_buf_free(&buf);
	sch_changes_free(&changes);
}

static void permute(struct world *w)
{
	struct group g = {0};
	uint32_t order[GROUP];
	struct mu_err err = {0};
	struct mu_buf first = {0}, other = {0};
	gather(w, &g);
	for (uint32_t i = 0; i < g.count; i++)
		order[i] = i;
	for (int round = 0; round < 3 && !w->h.failure[0]; round++) {
		struct sch_state *st = h_copy(w->h.st, &err);
		if (!st) {
			h_fail(&w->h, "%s", err.text);
			break;
		}
		mu_buf_reset(&other);
		fold(w, st, &g, order, round ? &other : &first);
		sch_state_free(st);
		if (round &&
		    (first.len != other.len || (first.len && memcmp(first.data, other.data, first.len) != 0)))
			h_fail(&w->h, "%u events in another order, another decision", g.count);
		for (uint32_t i = g.count; i > 1; i--) { /* Shuffle. */
			uint32_t k = below(w, i), swap = order[k];
			order[k] = order[i - 1];
			order[i - 1] = swap;
		}
	}
	w->groups++;
	w->permuted += g.count;
	for (uint32_t i = 0; i < g.count; i++)
		h_apply(&w->h, g.e[i]);
	mu_buf_free(&first);
	mu_buf_free(&other);
}

static bool one(uint64_t seed, uint64_t *groups, uint64_t *events)
{
	struct world w = {0};
	h_open(&w.h, false);
	mu_seed_init(&w.seed, seed);
	w.h.budget = below(&w, 2) ? 1000000 : 20;
	found(&w);
	accounts(&w);
	for (int i = 0; i < EVENTS && !w.h.failure[0]; i++) {
		uint32_t dice = below(&w, 100);
		w.h.now_usec += 1000000 * (int64_t)below(&w, 60);
		if (dice < 55)
			submit(&w);
		else if (dice < 70)
			permute(&w);
		else
			for (int k = 0; k < 50 && h_decide(&w.h); k++)
				;
	}
	*groups += w.groups;
	*events += w.permuted;
	if (w.h.failure[0])
		printf("seed %llu: %s\n", (unsigned long long)seed, w.h.failure);
	bool ok = !w.h.failure[0];
	h_close(&w.h);
	mu_arena_free(&w.arena);
	return ok;
}

int main(int argc, char **argv)
{
	const char *size = getenv("MUSTER_TEST_SIZE");
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, groups = 0, events = 0;
	uint64_t seeds = argc > 2			     ? strtoull(argv[2], NULL, 10)
			 : size && strcmp(size, "full") == 0 ? 2000
							     : 60;
	bool ok = true;
	for (uint64_t s = first; s < first + seeds && ok; s++)
		ok = one(s, &groups, &events);
	printf("%llu groups of %llu events\n", (unsigned long long)groups, (unsigned long long)events);
	return ok && events ? 0 : 1;
}
