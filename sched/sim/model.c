/* sched/sim/model.c: a workload out of a seed, in whole numbers: see sim.h. */
#include "proto/base/seed.h"
#include "sched/sim/sim.h"
#include "sched/state.h"

/* The smaller of two draws: low numbers are likelier. */
static uint32_t low(struct mu_seed *g, uint32_t n)
{
	uint32_t a = mu_seed_below(g, n), b = mu_seed_below(g, n);
	return a < b ? a : b;
}

static uint32_t size_of(struct mu_seed *g, uint32_t most)
{
	uint32_t powers = 1;
	while (powers < 31 && (UINT32_C(1) << powers) <= most)
		powers++;
	if (mu_seed_below(g, 4))
		return UINT32_C(1) << low(g, powers);
	return 1 + low(g, most);
}

/* From seconds to a day: each power of ten is as likely as the next. */
static int64_t run_of(struct mu_seed *g)
{
	static const int64_t most[] = {60, 600, 3600, 14400, 86400};
	return 1 + (int64_t)mu_seed_below(g, (uint32_t)most[low(g, 5)]);
}

static int64_t limit_of(struct mu_seed *g, int64_t run)
{
	static const int64_t times[] = {1, 2, 4, 10};
	int64_t asked = run * times[mu_seed_below(g, 4)];
	return (asked + 299) / 300 * 300; /* People ask in fives of minutes. */
}

static Mu__Author **people(const struct sch_sim_model *m, struct mu_arena *arena, uint32_t count)
{
	Mu__Author **who = mu_arena_alloc(arena, count * sizeof(who[0]));
	for (uint32_t i = 0; i < count; i++) {
		who[i] = mu_arena_alloc(arena, sizeof(*who[i]));
		mu__author__init(who[i]);
		SCH_SET(who[i], uid, 1000 + i);
		SCH_SET(who[i], gid, 1000);
		who[i]->user = mu_arena_printf(arena, "u%u", i);
		who[i]->group = (char *)"users";
		who[i]->verifier = (char *)"socket";
	}
	return who;
}

void sch_sim_generate(const struct sch_sim_model *m, struct mu_arena *arena, struct sch_sim_job *jobs)
{
	struct mu_seed g;
	uint32_t users = m->users ? m->users : 1;
	Mu__Author **who = people(m, arena, users);
	uint64_t work = 0, load = m->load_percent ? m->load_percent : 1;
	mu_seed_init(&g, m->seed);
	for (uint32_t i = 0; i < m->jobs; i++) {
		Mu__JobSpec *s = mu_arena_alloc(arena, sizeof(*s));
		int64_t run = run_of(&g);
		mu__job_spec__init(s);
		SCH_SET(s, ntasks, size_of(&g, m->cpus_max ? m->cpus_max : 1));
		SCH_SET(s, time_limit_sec, limit_of(&g, run));
		SCH_SET(s, batch, true);
		work += (uint64_t)s->ntasks * (uint64_t)run;
		jobs[i] = (struct sch_sim_job){
		    .spec = s, .author = who[low(&g, users)], .run_usec = run * SCH_USEC};
	}
	uint64_t span = work * 100 / load / (m->cpus ? m->cpus : 1), gap = m->jobs ? span / m->jobs : 0;
	int64_t at = m->begin_usec;
	for (uint32_t i = 0; i < m->jobs; i++) {
		uint32_t most = gap < UINT32_MAX / 4 ? (uint32_t)gap : UINT32_MAX / 4;
		jobs[i].submit_usec = at;
		/* Half of them come in bursts; the others make up for it. */
		at += (int64_t)mu_seed_below(&g, mu_seed_below(&g, 2) ? 2 + most / 16 : 1 + 4 * most) *
		      SCH_USEC;
	}
}
