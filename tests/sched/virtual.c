/* tests/sched/virtual.c: what holds of whole workloads in virtual time, first come first: nobody is delayed
 * by who passes him (a job starts no later than it was first promised), nobody starves (behind an endless
 * stream of small jobs the large one starts when it was promised), twins start in the order of their ids
 * where one job at most has a plan. (With plans for all, the younger twin's own may lie where it can begin at
 * once, and nobody may take that place from it.)
 *
 * Usage: virtual [FIRST_SEED [SEEDS]]; MUSTER_TEST_SIZE=fast|ci|full sets the number of seeds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/seed.h"
#include "proto/conf.h"
#include "sched/sim/sim.h"

enum { JOBS = 240, SEC = 1000000 };
static const int64_t BEGIN = INT64_C(1790000000) * SEC;

static const char *const PARAMETERS[] = {"bf_max_job_test=1,bf_resolution=1,bf_window=1000000",
					 "bf_max_job_test=1000,bf_resolution=1,bf_window=1000000",
					 "bf_max_job_test=10"};
static const char *const NODES[] = {"NodeName=n1 CPUs=64\n", "NodeName=n[1-16] CPUs=4\n",
				    "NodeName=n[1-4] CPUs=8\nNodeName=m[1-8] CPUs=4 Weight=2\n"};

static int run(uint64_t seed, struct sch_sim_job *jobs, uint32_t count, struct sch_sim_figures *f,
	       struct mu_err *err)
{
	struct mu_arena arena = {0};
	struct sch_sim *sim = NULL;
	Mu__Config *c = NULL;
	const char *text = mu_arena_printf(
	    &arena,
	    "ClusterName=virtual\nSlurmctldHost=c\nSlurmdTimeout=0\nSelectTypeParameters=CR_CPU\n"
	    "SchedulerParameters=%s\n%sPartitionName=p Nodes=ALL Default=YES\n",
	    PARAMETERS[seed % 3], NODES[seed / 3 % 3]);
	int rc = mu_conf_parse("virtual", text, NULL, NULL, NULL, &arena, &c, err);
	if (!rc)
		rc = sch_sim_new(c, BEGIN, &sim, err);
	if (!rc)
		rc = sch_sim_run(sim, jobs, count, seed / 9 % 2 ? 200 : 0, NULL, f, err);
	sch_sim_free(sim);
	mu_arena_free(&arena);
	return rc;
}

static bool fail(uint64_t seed, const struct sch_sim_job *j, const char *what)
{
	printf("seed %llu, job %u of %u CPUs submitted at %lld, started at %lld, promised %lld: %s\n",
	       (unsigned long long)seed, j->id, j->spec->ntasks, (long long)(j->submit_usec - BEGIN) / SEC,
	       (long long)(j->start_usec - BEGIN) / SEC, (long long)(j->planned_usec - BEGIN) / SEC, what);
	return false;
}

/* Twins: some jobs come twice in the same second. */
static bool workload(uint64_t seed)
{
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	struct sch_sim_job jobs[JOBS];
	struct sch_sim_figures f;
	struct sch_sim_model m = {.seed = seed,
				  .jobs = JOBS,
				  .users = 5,
				  .cpus_max = 60,
				  .load_percent = 115,
				  .cpus = 64,
				  .begin_usec = BEGIN};
	bool ok = true;
	sch_sim_generate(&m, &arena, jobs);
	for (uint32_t i = 7; i < JOBS; i += 7) {
		jobs[i].spec = jobs[i - 1].spec;
		jobs[i].submit_usec = jobs[i - 1].submit_usec;
	}
	if (run(seed, jobs, JOBS, &f, &err)) {
		printf("seed %llu: %s\n", (unsigned long long)seed, err.text);
		ok = false;
	}
	for (uint32_t i = 0; i < JOBS && ok; i++) {
		const struct sch_sim_job *j = &jobs[i];
		if (j->code || !j->start_usec)
			ok = fail(seed, j, "never started");
		else if (j->planned_usec && j->start_usec > j->planned_usec)
			ok = fail(seed, j, "later than promised");
		else if (seed % 3 == 0 && i && i % 7 == 0 && j->start_usec < jobs[i - 1].start_usec)
			ok = fail(seed, j, "before its elder twin");
	}
	mu_arena_free(&arena);
	return ok;
}

/* Small jobs without end, and one that needs all. */
static bool stream(uint64_t seed)
{
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	struct mu_seed g;
	struct sch_sim_job jobs[JOBS];
	struct sch_sim_figures f;
	struct sch_sim_model m = {.seed = seed,
				  .jobs = JOBS,
				  .users = 5,
				  .cpus_max = 4,
				  .load_percent = 100,
				  .cpus = 64,
				  .begin_usec = BEGIN};
	struct sch_sim_job *large = &jobs[JOBS / 4];
	mu_seed_init(&g, seed);
	sch_sim_generate(&m, &arena, jobs);
	for (uint32_t i = 0; i < JOBS; i++) { /* Twice what the machine can bear. */
		jobs[i].submit_usec = BEGIN + (int64_t)i * 20 * SEC;
		jobs[i].spec->time_limit_sec = 600 + 60 * (int64_t)mu_seed_below(&g, 20);
		jobs[i].run_usec = (300 + (int64_t)mu_seed_below(&g, 300)) * SEC;
		jobs[i].spec->ntasks = 1 + mu_seed_below(&g, 4);
	}
	large->spec->ntasks = 64;
	bool ok = run(seed, jobs, JOBS, &f, &err) == 0;
	if (!ok)
		printf("seed %llu: %s\n", (unsigned long long)seed, err.text);
	else if (!large->start_usec || !large->planned_usec || large->start_usec > large->planned_usec)
		ok = fail(seed, large, "the large one starves");
	else if (large->planned_usec > large->submit_usec + 2 * 1800 * (int64_t)SEC + 3600 * (int64_t)SEC)
		ok = fail(seed, large, "promised for a day that never comes");
	mu_arena_free(&arena);
	return ok;
}

int main(int argc, char **argv)
{
	const char *size = getenv("MUSTER_TEST_SIZE");
	uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	uint64_t seeds = argc > 2			     ? strtoull(argv[2], NULL, 10)
			 : size && strcmp(size, "full") == 0 ? 2000
			 : size && strcmp(size, "fast") == 0 ? 3
							     : 9;
	bool ok = true;
	for (uint64_t s = first; s < first + seeds && ok; s++)
		ok = workload(s) && stream(s);
	return ok ? 0 : 1;
}
