/* tests/query/whatif.c: a generated history told again. With nothing changed it is the same history, position
 * for position, from its beginning and from the middle of it. With twice the nodes everybody's run time is
 * what it was, waits are shorter in sum, and nobody is lost.
 *
 * Usage: whatif [FIRST_SEED [SEEDS]]; MUSTER_TEST_SIZE=fast|ci|full sets the number of seeds. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/conf.h"
#include "proto/states.h"
#include "query/history.h"
#include "sched/sim/whatif.h"
#include "tests/query/real.h"

enum { NODES = 4, CPUS = 8, ROUNDS = 150 };

static void ok(int code, const struct mu_err *err, const char *what)
{
	if (!code)
		return;
	printf("%s: %d: %s\n", what, code, err->text);
	exit(1);
}

static uint32_t running(struct real *r, struct mu_seed *g)
{
	uint32_t found = 0, seen = 0;

	for (uint32_t id = 1; id <= r->last_job; id++) {
		const Mu__JobRow *j = sch_job(r->log.st, id);
		if (j &&
		    (j->state == JOB_RUNNING ||
		     (j->state == JOB_COMPLETING && j->alloc && !j->alloc[0]->released)) &&
		    mu_seed_below(g, ++seen) == 0)
			found = id;
	}
	return found;
}

/* Jobs come, wait, are cancelled and requeued while they wait and run, fail and end. */
static void generate(struct real *r, struct mu_seed *g)
{
	real_open(r, NODES, CPUS, 60000);
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t job = running(r, g);
		switch (mu_seed_below(g, 8)) {
		case 0:
		case 1:
		case 2:
			if (i < ROUNDS * 3 / 4)
				real_submit(r, 1 + mu_seed_below(g, 4), 1 + mu_seed_below(g, CPUS),
					    1 + mu_seed_below(g, 3), false);
			break;
		case 3:
			if (mu_seed_below(g, 3) == 0 && r->last_job)
				real_kill(r, 1 + mu_seed_below(g, r->last_job));
			break;
		case 4:
			if (mu_seed_below(g, 4) == 0 && job)
				real_requeue(r, job);
			break;
		default:
			if (job)
				real_end(r, job, mu_seed_below(g, 5) == 0);
			break;
		}
		real_decide(r);
		real_tick(r, 1 + mu_seed_below(g, 60));
		real_decide(r);
	}
	for (uint32_t job = running(r, g); job; job = running(r, g)) {
		real_tick(r, 30);
		real_end(r, job, 0);
		real_decide(r);
	}
}

struct pass {
	struct sch_whatif *w;
	struct mu_err err;
};

static int learn(void *arg, const struct sch_state *st, const struct sch_at *at, const uint8_t *event,
		 size_t len, const struct sch_verdict *verdict)
{
	return sch_whatif_learn(((struct pass *)arg)->w, st, at, event, len, verdict);
}

static int tell(void *arg, uint64_t pos, int64_t time_usec, const struct mu_view *event, size_t count)
{
	struct pass *p = arg;

	return sch_whatif_entry(p->w, pos, time_usec, event, count, &p->err);
}

static struct sch_state *state_before(struct view *v, uint64_t pos)
{
	struct sch_state *st = NULL;
	struct mu_err err = {0};

	if (pos <= 1)
		return sch_state_new();
	ok(view_state_at(v, pos - 1, &st, &err), &err, "the State before");
	return st;
}

static struct sch_whatif *told(struct view *v, uint64_t from, const struct sch_whatif_change *change)
{
	struct pass p = {.w = sch_whatif_new(change, 0, INT64_MAX)};
	struct hist_replay r;
	uint64_t bad = 0;

	ok(hist_walk(v, from, 0, learn, &p, &r, &bad, &p.err), &p.err, "learning");
	struct sch_state *a = state_before(v, from), *b = state_before(v, from);
	ok(sch_whatif_begin(p.w, a, b, sch_now_usec(a), &p.err), &p.err, "beginning");
	ok(hist_entries(v, from, 0, tell, &p, &p.err), &p.err, "telling");
	ok(sch_whatif_finish(p.w, &p.err), &p.err, "finishing");
	return p.w;
}

static bool same(struct view *v, uint64_t from)
{
	const struct sch_whatif_change none = {0};
	struct sch_whatif *w = told(v, from, &none);
	const struct sch_whatif_figures *f = sch_whatif_figures(w);
	struct mu_hash a, b, tip, chain;
	int64_t usec;
	size_t at = 0, jobs = 0;

	sch_digest(sch_whatif_real(w), &a);
	sch_digest(sch_whatif_other(w), &b);
	view_tip(v, &chain, &tip, &usec);
	bool equal = !memcmp(&a, &b, sizeof a) && !memcmp(&a, &tip, sizeof a) &&
		     sch_pos(sch_whatif_other(w)) == view_pos(v) && !f->different && !f->own && !f->moved &&
		     f->equal + f->foreign == f->slices && f->equal && f->real.starts == f->other.starts &&
		     f->other.starts && f->real.busy_cpu_usec == f->other.busy_cpu_usec;
	for (const struct sch_whatif_job *j = sch_whatif_job(w, at++); j && equal;
	     j = sch_whatif_job(w, at++), jobs++)
		equal = !memcmp(&j->real, &j->other, sizeof j->real);
	if (!equal || !jobs)
		printf("told again from %llu with nothing changed it differs: first at %llu; %llu of %llu "
		       "slices equal, %llu moved\n",
		       (unsigned long long)from, (unsigned long long)f->different,
		       (unsigned long long)f->equal, (unsigned long long)f->slices,
		       (unsigned long long)f->moved);
	sch_whatif_free(w);
	return equal && jobs;
}

/* Twice the nodes. */
static int more_nodes(void *arg, const Mu__Config *was, struct mu_arena *arena, Mu__Config **ret,
		      struct mu_err *err)
{
	const char *text = mu_arena_printf(
	    arena,
	    "ClusterName=view\nSlurmctldHost=c1\nSelectType=select/"
	    "cons_tres\nSelectTypeParameters=CR_CPU\nMinJobAge=300\n"
	    "SlurmdTimeout=60000\nNodeName=n[1-%d] CPUs=%d RealMemory=64000\nPartitionName=debug Nodes=ALL "
	    "Default=YES MaxTime=INFINITE State=UP\n",
	    2 * NODES, CPUS);

	(void)arg, (void)was;
	return mu_conf_parse("muster.conf", text, NULL, NULL, NULL, arena, ret, err);
}

static bool wider(struct view *v, uint64_t from)
{
	const struct sch_whatif_change change = {.alter = more_nodes};
	struct sch_whatif *w = told(v, from, &change);
	const struct sch_whatif_figures *f = sch_whatif_figures(w);
	int64_t real = 0, other = 0;
	size_t at = 0, kept = 0;
	bool good = true;

	for (const struct sch_whatif_job *j = sch_whatif_job(w, at++); j && good;
	     j = sch_whatif_job(w, at++)) {
		if (j->real.starts && !j->other.starts && j->other.state != JOB_CANCELLED)
			good = printf("job %u started then and never starts here: %u\n", j->id,
				      j->other.state) < 0;
		if (j->real.starts)
			real += j->real.start_usec - j->real.ready_usec;
		if (j->real.starts && j->other.starts)
			other += j->other.start_usec - j->other.ready_usec;
		if (j->real.starts != 1 || j->other.starts != 1 || j->real.state != j->other.state ||
		    j->real.state == JOB_CANCELLED)
			continue;
		kept++;
		if (j->real.end_usec - j->real.last_usec != j->other.end_usec - j->other.last_usec)
			good = printf("job %u ran %lld us then and %lld here\n", j->id,
				      (long long)(j->real.end_usec - j->real.last_usec),
				      (long long)(j->other.end_usec - j->other.last_usec)) < 0;
	}
	if (good &&
	    (!kept || other > real || (real && other == real) || f->other.cpu_usec <= f->real.cpu_usec))
		good = printf("with twice the nodes waits are %lld us in sum, they were %lld; %zu kept their "
			      "run times\n",
			      (long long)other, (long long)real, kept) < 0;
	sch_whatif_free(w);
	return good;
}

static bool seed(uint64_t number)
{
	char dir[] = "/tmp/muster-whatif-XXXXXX";
	struct mu_err err = {0};
	struct mu_seed g;
	struct real r;
	struct view *v;

	mu_seed_init(&g, number);
	generate(&r, &g);
	assert(mkdtemp(dir));
	ok(view_open(dir, false, &v, &err), &err, "a view");
	for (size_t p = 0; p < r.log.count; p++)
		ok(view_apply(v, &r.log.v[p].e, 1, &err), &err, "an entry");
	bool good = same(v, 1) && same(v, r.log.count / 2) && wider(v, 1) && wider(v, r.log.count / 4);
	if (!good)
		printf("seed %llu, %zu entries\n", (unsigned long long)number, r.log.count);
	view_close(v);
	real_close(&r);
	fake_remove_dir(dir);
	return good;
}

int main(int argc, char **argv)
{
	const char *size = getenv("MUSTER_TEST_SIZE");
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	uint64_t seeds = argc > 2			 ? strtoull(argv[2], NULL, 10)
			 : size && !strcmp(size, "full") ? 200
			 : size && !strcmp(size, "fast") ? 1
							 : 3;
	bool good = true;

	for (uint64_t s = first; s < first + seeds && good; s++)
		good = seed(s);
	return good ? 0 : 1;
}
