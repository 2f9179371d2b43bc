/* tests/sched/decisions.c: everything that the scheduler decides over recorded streams and over workloads out
 * of seeds, as one line of a hash for each. Two builds of the scheduler that print the same decide the same:
 * four_ways.py builds it with two compilers, with and without optimisation.
 *
 * Usage: decisions SEEDS LOG... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/map.h"
#include "proto/conf.h"
#include "proto/pb.h"
#include "sched/sim/sim.h"

static void print(const char *name, struct mu_hasher *h)
{
	struct mu_hash hash;
	char text[2 * MU_HASH_BYTES + 1];
	mu_hasher_done(h, &hash);
	mu_hash_print(&hash, text);
	printf("%s %s\n", name, text);
}

static void add_decision(const struct sch_state *st, uint32_t budget, struct mu_hasher *h)
{
	struct mu_arena arena = {0};
	struct mu_buf buf = {0};
	Mu__Event *e = NULL;
	sch_decide(st, budget, &arena, &e);
	if (e)
		mu_pb_pack(&e->base, &buf);
	mu_hasher_add(h, &buf.len, sizeof(buf.len));
	if (buf.len)
		mu_hasher_add(h, buf.data, buf.len);
	mu_buf_free(&buf);
	mu_arena_free(&arena);
}

/* Whatever had been decided there: what would this build decide after each event? */
static bool recorded(const char *path)
{
	static uint8_t bytes[1 << 20], head[12];
	struct sch_state *st = sch_state_new();
	struct sch_changes changes = {0};
	struct mu_hasher h;
	struct mu_hash digest;
	FILE *f = fopen(path, "rb");
	bool ok = f && fread(head, 1, 4, f) == 4 && memcmp(head, "MUL1", 4) == 0;
	const char *name = strrchr(path, '/');
	mu_hasher_init(&h);
	while (ok && fread(head, 1, sizeof(head), f) == sizeof(head) && mu_get_be64(head)) {
		uint32_t len = mu_get_be32(head + 8);
		struct sch_at at = {.pos = sch_pos(st) + 1, .time_usec = (int64_t)mu_get_be64(head)};
		struct sch_verdict v;
		struct mu_err err = {0};
		ok = len <= sizeof(bytes) && fread(bytes, 1, len, f) == len &&
		     sch_evolve(st, &at, bytes, len, &v, &changes, &err) == 0;
		sch_entry_done(st, at.pos, at.time_usec, &changes);
		sch_changes_reset(&changes);
		add_decision(st, 40, &h);
		add_decision(st, 1000000, &h);
	}
	sch_digest(st, &digest);
	mu_hasher_add(&h, digest.b, sizeof(digest.b));
	if (f)
		fclose(f);
	sch_changes_free(&changes);
	sch_state_free(st);
	print(name ? name + 1 : path, &h);
	return ok;
}

static int add_event(void *arg, enum sch_sim_what what, uint32_t job, const Mu__Start *start,
		     const uint8_t *event, size_t len)
{
	if (what == SCH_SIM_EVENT)
		mu_hasher_add(arg, event, len);
	return 0;
}

static const char *const CONFIGS[] = {
    "SchedulerType=sched/builtin\nSelectTypeParameters=CR_CPU\nNodeName=n[1-2] CPUs=32\n",
    "SchedulerParameters=bf_max_job_test=1\nSelectTypeParameters=CR_CORE\n"
    "NodeName=n[1-16] CPUs=8 ThreadsPerCore=2 Weight=2\nNodeName=m[1-4] CPUs=16\n",
    "SchedulerParameters=bf_max_job_test=20,bf_resolution=1\nPriorityType=priority/"
    "multifactor\nPriorityWeightAge=1000\n"
    "PriorityWeightJobSize=500\nPriorityWeightFairshare=2000\nNodeName=n[1-40] CPUs=4\n",
};

static bool workload(uint64_t seed)
{
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	struct sch_sim_job jobs[200];
	struct sch_sim_figures f;
	struct sch_sim *sim = NULL;
	struct mu_hasher h;
	Mu__Config *c = NULL;
	struct sch_sim_watch watch = {.arg = &h, .tell = add_event};
	struct sch_sim_model m = {.seed = seed,
				  .jobs = 200,
				  .users = 6,
				  .cpus_max = 48,
				  .load_percent = 110,
				  .cpus = 128,
				  .begin_usec = INT64_C(1790000000) * 1000000};
	char name[32];
	const char *text = mu_arena_printf(&arena,
					   "ClusterName=seeds\nSlurmctldHost=c\nSlurmdTimeout=0\n%s"
					   "PartitionName=p Nodes=ALL Default=YES\n",
					   CONFIGS[seed % 3]);
	mu_hasher_init(&h);
	int rc = mu_conf_parse("seeds", text, NULL, NULL, NULL, &arena, &c, &err);
	if (!rc)
		rc = sch_sim_new(c, m.begin_usec, &sim, &err);
	sch_sim_generate(&m, &arena, jobs);
	if (!rc)
		rc = sch_sim_run(sim, jobs, m.jobs, seed % 2 ? 0 : 300, &watch, &f, &err);
	if (rc)
		fprintf(stderr, "seed %llu: %s\n", (unsigned long long)seed, err.text);
	snprintf(name, sizeof(name), "seed %llu", (unsigned long long)seed);
	print(name, &h);
	sch_sim_free(sim);
	mu_arena_free(&arena);
	return rc == 0;
}

int main(int argc, char **argv)
{
	bool ok = argc > 1;
	for (uint64_t seed = 1; ok && seed <= strtoull(argv[1], NULL, 10); seed++)
		ok = workload(seed);
	for (int i = 2; i < argc; i++)
		ok = recorded(argv[i]) && ok;
	return ok ? 0 : 1;
}
