/* sched/place.c: how much of a node a job could have, and which parts of it: the lowest free devices, then
 * the cores nearest to them, then the lowest free ones. Nothing here depends on time or on other jobs: only
 * on what the overlay says is taken. */
#include "sched/timeline.h"

#include <assert.h>
#include <stdlib.h>

static bool is_gpu(const struct sch_ask *ask)
{
	return strcmp(sch__text(ask->name) ? sch__text(ask->name) : "", "gpu") == 0;
}

/* What GPUs bring along: by the job, else by the partition, else by the configuration. */
static void need_gpus(const struct sch_state *st, const struct sch_part *p, struct sch_need *ret)
{
	const struct sch_shape *s = ret->shape;
	for (uint32_t i = 0; i < s->ask_count; i++)
		ret->node_gpus += is_gpu(&s->ask[i]) ? (uint32_t)s->ask[i].count : 0;
	for (uint32_t i = 0; i < s->task_ask_count; i++)
		ret->task_gpus += is_gpu(&s->task_ask[i]) ? (uint32_t)s->task_ask[i].count : 0;
	if (!ret->node_gpus && !ret->task_gpus && !s->job_gpus)
		return;
	ret->cpus_per_gpu = s->cpus_per_gpu;
	if (!ret->cpus_per_gpu && !s->cpus_given)
		ret->cpus_per_gpu = (uint32_t)sch__job_default(st, p, "DefCpuPerGPU");
	uint64_t mem = s->mem_kind == SCH_MEM_NONE ? sch__job_default(st, p, "DefMemPerGPU") : 0;
	if (mem) {
		ret->mem_kind = SCH_MEM_GPU;
		ret->mem_mib = mem;
	}
}

void sch__need(const struct sch_state *st, const struct sch_shape *shape, const struct sch_part *p,
	       uint32_t uid, struct sch_need *ret)
{
	const Mu__PartitionConf *c = p->row->conf;
	*ret = (struct sch_need){.shape = shape,
				 .by_core = st->config.by_core,
				 .by_socket = st->config.by_socket,
				 .memory = st->config.memory,
				 .emptiest = st->config.lln || c->lln,
				 .near = shape->near || (st->config.near && !shape->anywhere),
				 .max_nodes = c->has_max_nodes ? c->max_nodes : 0,
				 .user_only = shape->user_only || c->exclusive_user,
				 .uid = uid,
				 .part = p,
				 .cpu_cap = c->max_cpus_node ? c->max_cpus_node : UINT32_MAX};
	ret->careful = c->max_cpus_node || sch__personal(st);
	ret->share = ret->share_full = sch__share_most(p, shape);
	ret->exclusive = (shape->exclusive && ret->share == 1) ||
			 (c->oversubscribe && strcasecmp(c->oversubscribe, "EXCLUSIVE") == 0);
	ret->tasks_per_core = shape->tasks_per_core ? shape->tasks_per_core : st->config.one_task_per_core;
	sch__part_mem(st, p, shape->mem_kind, shape->mem_mib, &ret->mem_kind, &ret->mem_mib);
	need_gpus(st, p, ret);
}

/* ---- one node ---- */

/* How many CPUs of the node are the system's: its own say, or the job's. */
static uint32_t spec_cpus(const struct sch_need *need, const struct sch_node *n)
{
	const struct sch_shape *s = need->shape;
	uint32_t tpc = n->tpc;
	uint64_t own = (uint64_t)s->spec_cores * tpc;
	if (!s->own_spec)
		return n->spec_cpus;
	if (s->spec_threads)
		own = (s->spec_threads + (uint64_t)tpc - 1) / tpc * tpc;
	return own < n->row->cpus ? (uint32_t)own : n->row->cpus;
}

static bool is_spec(const struct sch_need *need, const struct sch_node *n, uint32_t cpu)
{
	if (need->shape->own_spec)
		return cpu >= n->row->cpus - spec_cpus(need, n);
	return mu_bits_test(&n->spec, cpu);
}

/* How many CPUs jobs may have. */
static uint32_t cpus_given(const struct sch_need *need, const struct sch_node *n)
{
	return need->shape->own_spec ? n->row->cpus - spec_cpus(need, n) : n->cpu_end;
}

static uint64_t mem_end(const struct sch_node *n)
{
	uint64_t spec = n->row->conf ? n->row->conf->mem_spec_limit_mib : 0;
	return n->row->real_memory_mib > spec ? n->row->real_memory_mib - spec : 0;
}

/* CPUs of one core that tasks of this shape use. */
static uint32_t cpus_per_core(const struct sch_need *need, const struct sch_node *n)
{
	uint32_t tpc = n->tpc, threads = need->shape->threads;
	return need->by_core && threads && threads < tpc ? threads : tpc;
}

/* CPUs that are given out together: a CPU, a core or a socket. */
static uint32_t step_of(const struct sch_need *need, const struct sch_node *n)
{
	if (!need->by_socket)
		return need->by_core ? n->tpc : 1;
	return (n->row->cores_per_socket ? n->row->cores_per_socket : 1) * n->tpc;
}

static bool block_free(const struct sch_need *need, const struct sch_node *n, const struct sch_room *r,
		       uint32_t b, uint32_t step)
{
	for (uint32_t t = 0; t < step; t++)
		if (mu_bits_test(&r->cpu, b + t) || is_spec(need, n, b + t))
			return false;
	return true;
}

/* Whole ones; where only numbers are known, as on the line, as many as the free cores could be. */
static uint32_t sockets_free(const struct sch_need *need, const struct sch_node *n, const struct sch_room *r,
			     uint32_t step)
{
	uint32_t tpc = n->tpc, cores = cpus_given(need, n) / tpc, count = 0;
	if (mu_bits_count(&r->cpu) != r->cpus)
		return (cores > r->cores ? cores - r->cores : 0) / (step / tpc);
	for (uint32_t b = 0; b + step <= n->row->cpus; b += step)
		count += block_free(need, n, r, b, step);
	return count;
}

static uint32_t all_cpus_free(const struct sch_need *need, const struct sch_node *n, const struct sch_room *r)
{
	uint32_t tpc = n->tpc, end = cpus_given(need, n), cores = end / tpc, step = step_of(need, n);
	uint32_t free = cores > r->cores ? cores - r->cores : 0;
	if (!need->by_core && !need->by_socket)
		return end > r->cpus ? end - r->cpus : 0;
	if (need->by_socket)
		free = sockets_free(need, n, r, step) * (step / tpc);
	return free * cpus_per_core(need, n);
}

/* CPUs that a job could use of what is free, as far as its partition lets it. */
static uint32_t cpus_free(const struct sch_need *need, const struct sch_node *n, const struct sch_room *r)
{
	uint32_t free = all_cpus_free(need, n, r), step = step_of(need, n), tpc = n->tpc, cap = need->cpu_cap;
	if (cap == UINT32_MAX)
		return free;
	cap = need->by_core || need->by_socket ? cap / step * (step / tpc) * cpus_per_core(need, n) : cap;
	return free < cap ? free : cap;
}

static bool asked(const struct sch_ask *ask, const Mu__GresHave *have)
{
	return sch__same(have->name, sch__text(ask->name)) &&
	       (!ask->type || sch__same(have->type, ask->type->text));
}

/* Units of what ASK names that are free, beyond what TAKEN (may be NULL) has of each entry already. */
static uint64_t gres_free(const struct sch_ask *ask, const struct sch_node *n, const struct sch_room *r,
			  const uint64_t *taken)
{
	uint64_t sum = 0;
	for (size_t g = 0; g < n->row->n_gres; g++) {
		uint64_t used = r->gres[g].count + (taken ? taken[g] : 0), have = n->row->gres[g]->count;
		if (asked(ask, n->row->gres[g]) && have > used)
			sum += have - used;
	}
	return sum;
}

static bool gres_fits(const struct sch_need *need, const struct sch_node *n, const struct sch_room *r)
{
	for (uint32_t i = 0; i < need->shape->ask_count; i++)
		if (gres_free(&need->shape->ask[i], n, r, NULL) < need->shape->ask[i].count)
			return false;
	return true;
}

/* GPUs of one node that holds TASKS, GPUS of them by a count for the whole job. */
static uint64_t gpus_on(const struct sch_need *need, uint32_t tasks, uint32_t gpus)
{
	return need->node_gpus ? need->node_gpus : need->task_gpus ? (uint64_t)need->task_gpus * tasks : gpus;
}

/* CPUs that one task brings, with those of its GPUs. */
static uint32_t task_cpus(const struct sch_need *need)
{
	uint32_t own = need->shape->cpus_per_task;
	uint64_t more = need->node_gpus ? 0 : (uint64_t)need->task_gpus * need->cpus_per_gpu;
	return more > own ? (uint32_t)(more < SCH_CPUS_PER_NODE ? more : SCH_CPUS_PER_NODE) : own;
}

static uint32_t gres_tasks(const struct sch_need *need, const struct sch_node *n, const struct sch_room *r,
			   uint32_t tasks)
{
	for (uint32_t i = 0; i < need->shape->task_ask_count; i++) {
		const struct sch_ask *ask = &need->shape->task_ask[i];
		uint64_t free = is_gpu(ask) && need->node_gpus ? need->node_gpus : gres_free(ask, n, r, NULL);
		uint64_t fit = ask->count ? free / ask->count : tasks;
		tasks = fit < tasks ? (uint32_t)fit : tasks;
	}
	return tasks;
}

/* Lowers what *RET could have to what memory allows. */
static void mem_fits(const struct sch_need *need, const struct sch_node *n, const struct sch_room *r,
		     struct sch_pick *ret)
{
	uint64_t end = mem_end(n), used = need->memory ? r->mem_mib : 0, left = end > used ? end - used : 0;
	uint64_t tasks = UINT64_MAX, gpus = UINT64_MAX, mib = need->mem_mib;
	if (need->mem_kind == SCH_MEM_NONE || n->row->real_memory_mib == 0)
		return;
	if (used > end) {
		tasks = 0;
	} else if (need->mem_kind == SCH_MEM_NODE) {
		tasks = (mib ? mib <= left : used == 0) ? tasks : 0;
	} else if (need->mem_kind == SCH_MEM_GPU && mib) {
		gpus = left / mib;
		if (need->node_gpus)
			tasks = gpus >= need->node_gpus ? tasks : 0;
		else if (need->task_gpus)
			tasks = gpus / need->task_gpus;
	} else if (need->mem_kind == SCH_MEM_CPU && mib) {
		uint64_t cpus = left / mib;
		if (need->by_core || need->by_socket)
			cpus = cpus / step_of(need, n) * (step_of(need, n) / n->tpc) * cpus_per_core(need, n);
		tasks = need->exclusive ? (cpus >= cpus_given(need, n) ? tasks : 0) : cpus / task_cpus(need);
		if (need->shape->overcommit && tasks)
			tasks = UINT64_MAX;
		if (need->cpus_per_gpu && !need->exclusive)
			gpus = cpus / need->cpus_per_gpu;
		if (need->node_gpus > gpus)
			tasks = 0;
	}
	ret->tasks = tasks < ret->tasks ? (uint32_t)tasks : ret->tasks;
	ret->gpus = gpus < ret->gpus ? (uint32_t)gpus : ret->gpus;
}

/* ---- which CPUs, which devices ---- */

/* How many steps of CPUs: see step_of. */
static uint64_t units_of(const struct sch_need *need, const struct sch_pick *pick)
{
	const struct sch_shape *s = need->shape;
	uint32_t tasks = pick->tasks, step = step_of(need, pick->node), tpc = pick->node->tpc;
	uint64_t cpus = (uint64_t)(s->overcommit ? tasks > 0 : tasks) * s->cpus_per_task;
	uint64_t gpu_cpus = gpus_on(need, tasks, pick->gpus) * need->cpus_per_gpu;
	uint64_t units = cpus < s->mincpus ? s->mincpus : cpus;
	units = units < gpu_cpus ? gpu_cpus : units;
	if (need->exclusive)
		return UINT64_MAX;
	if (!need->by_core && !need->by_socket)
		return units;
	units = (units + cpus_per_core(need, pick->node) - 1) / cpus_per_core(need, pick->node);
	if (need->tasks_per_core && units * need->tasks_per_core < tasks)
		units = (tasks + need->tasks_per_core - 1) / need->tasks_per_core;
	return (units * tpc + step - 1) / step;
}

/* CPUs near any free unit of the entry; none: the entry has no place. */
static void near_entry(const struct sch_node *n, const struct sch_room *r, size_t entry, struct mu_bits *ret)
{
	const Mu__GresHave *have = n->row->gres[entry];
	bool units = have->count <= SCH_CPUS_PER_NODE;
	for (uint32_t u = 0; units && u < have->count; u++)
		if (!mu_bits_test(&r->gres[entry].used, u))
			sch__near_cpus(n, sch__unit_cores(have, u), ret);
	if (!units)
		sch__near_cpus(n, have->cores, ret);
}

/* CPUs near the devices in ROW; the whole node where none has a place. */
static void near_cpus(const struct sch_node *n, const Mu__AllocNode *row, struct mu_bits *ret)
{
	for (size_t i = 0; i < row->n_gres; i++) {
		uint32_t entry = sch__gres_entry(n, row->gres[i]);
		const Mu__GresHave *have = entry != UINT32_MAX ? n->row->gres[entry] : NULL;
		if (!have)
			continue;
		for (size_t k = 0; k < row->gres[i]->n_index; k++)
			sch__near_cpus(n, sch__unit_cores(have, row->gres[i]->index[k] - have->first_index),
				       ret);
		if (!row->gres[i]->n_index)
			sch__near_cpus(n, have->cores, ret);
	}
}

/* Up to UNITS more of those that no more than LOAD jobs like it have. Returns how many are left to find. */
static uint64_t cut_loaded(const struct sch_need *need, const struct sch_pick *pick, const struct sch_room *r,
			   const struct mu_bits *near, uint32_t load, uint64_t units, struct mu_bits *ret)
{
	const struct sch_node *n = pick->node;
	uint32_t step = step_of(need, n);
	bool first = mu_bits_next(near, 0) != UINT32_MAX && !need->shape->anywhere;
	for (int pass = first ? 0 : 1; pass < (first && need->near ? 1 : 2); pass++)
		for (uint32_t b = 0; b + step <= n->row->cpus && units; b += step) {
			bool free = (pass == 1 || mu_bits_test(near, b)) && !mu_bits_test(ret, b) &&
				    block_free(need, n, r, b, step) &&
				    sch__share_load(need, r, b, step) <= load;
			for (uint32_t t = 0; free && t < step; t++)
				mu_bits_set(ret, b + t);
			units -= free;
		}
	return units;
}

static void cut_cpus(const struct sch_need *need, const struct sch_pick *pick, const struct sch_room *r,
		     const struct mu_bits *near, struct mu_bits *ret)
{
	const struct sch_stack *s =
	    need->share > 1 && r->stack ? sch__stack_of(r, need->part->row->conf->name) : NULL;
	uint64_t units = units_of(need, pick);
	for (uint32_t load = 0; load <= (s ? s->levels : 0) && units; load++)
		units = cut_loaded(need, pick, r, near, load, units, ret);
}

static Mu__GresGot *cut_entry(const struct sch_node *n, const struct sch_room *r, size_t entry,
			      uint64_t count, uint64_t cpus, struct mu_arena *arena)
{
	const Mu__GresHave *have = n->row->gres[entry];
	Mu__GresGot *got = mu_arena_alloc(arena, sizeof(*got));
	mu__gres_got__init(got);
	got->name = have->name;
	got->type = have->type;
	SCH_SET(got, count, count);
	if (!have->n_file && have->count > SCH_CPUS_PER_NODE)
		return got; /* A bare counter without units. */
	got->index = mu_arena_alloc(arena, count * sizeof(got->index[0]));
	if (sch__units_choose(n, r, (uint32_t)entry, count, cpus, got->index)) {
		got->n_index = count;
		return got;
	}
	for (uint32_t u = 0; u < have->count && got->n_index < count; u++)
		if (!mu_bits_test(&r->gres[entry].used, u))
			got->index[got->n_index++] = have->first_index + u;
	return got;
}

/* How many of the CPUs in NEAR a job could use; where there are none, all. */
static uint32_t cpus_near(const struct sch_need *need, const struct sch_node *n, const struct sch_room *r,
			  const struct mu_bits *near)
{
	uint32_t step = step_of(need, n), tpc = n->tpc, blocks = 0;
	if (mu_bits_next(near, 0) == UINT32_MAX)
		return UINT32_MAX;
	for (uint32_t b = 0; b + step <= n->row->cpus; b += step)
		blocks += mu_bits_test(near, b) && block_free(need, n, r, b, step);
	return need->by_core || need->by_socket ? blocks * (step / tpc) * cpus_per_core(need, n) : blocks;
}

/* With enforce-binding: all COUNT units of one entry, the one with the most free CPUs near it. */
static bool share_near(const struct sch_need *need, const struct sch_ask *ask, uint64_t count,
		       const struct sch_node *n, const struct sch_room *r, uint64_t *taken)
{
	size_t best = n->row->n_gres;
	uint32_t most = 0;
	for (size_t g = 0; g < n->row->n_gres; g++) {
		uint64_t have = n->row->gres[g]->count, used = r->gres[g].count + taken[g];
		struct mu_bits near = {0};
		if (!asked(ask, n->row->gres[g]) || have < used + count)
			continue;
		near_entry(n, r, g, &near);
		uint32_t cpus = cpus_near(need, n, r, &near);
		mu_bits_free(&near);
		if (best == n->row->n_gres || cpus > most) {
			best = g;
			most = cpus;
		}
	}
	if (best == n->row->n_gres)
		return false;
	taken[best] += count;
	return true;
}

static void share_one(const struct sch_need *need, const struct sch_ask *ask, uint64_t count,
		      const struct sch_node *n, const struct sch_room *r, uint64_t *taken)
{
	if (need->near && count && share_near(need, ask, count, n, r, taken))
		return;
	for (size_t g = 0; g < n->row->n_gres && count; g++) {
		uint64_t have = n->row->gres[g]->count, used = r->gres[g].count + taken[g];
		uint64_t free = have > used ? have - used : 0, take = free < count ? free : count;
		if (!asked(ask, n->row->gres[g]))
			continue;
		taken[g] += take;
		count -= take;
	}
}

/* How many units of each entry of the node. */
static void share_gres(const struct sch_need *need, const struct sch_pick *pick, const struct sch_room *r,
		       uint64_t *taken)
{
	const struct sch_shape *s = need->shape;
	const struct sch_node *n = pick->node;
	struct sch_ask whole = {.name = s->gpu_name, .type = s->job_gpu_type};
	for (uint32_t i = 0; i < s->ask_count; i++)
		share_one(need, &s->ask[i], s->ask[i].count, n, r, taken);
	for (uint32_t i = 0; i < s->task_ask_count; i++)
		if (!is_gpu(&s->task_ask[i]) || !need->node_gpus)
			share_one(need, &s->task_ask[i], s->task_ask[i].count * pick->tasks, n, r, taken);
	if (s->job_gpus)
		share_one(need, &whole, pick->gpus, n, r, taken);
	for (size_t g = 0; need->exclusive && g < n->row->n_gres; g++)
		taken[g] = n->row->gres[g]->count;
}

static void cut_gres(const struct sch_need *need, const struct sch_pick *pick, const struct sch_room *r,
		     Mu__AllocNode *row, struct mu_arena *arena)
{
	const struct sch_node *n = pick->node;
	uint64_t taken[SCH_GRES_PER_NODE] = {0};
	uint64_t units = units_of(need, pick), step = step_of(need, n);
	uint64_t cpus = units < SCH_CPUS_PER_NODE ? units * step : SCH_CPUS_PER_NODE;
	share_gres(need, pick, r, taken);
	row->gres = mu_arena_alloc(arena, (n->row->n_gres + 1) * sizeof(row->gres[0]));
	for (size_t g = 0; g < n->row->n_gres; g++)
		if (taken[g])
			row->gres[row->n_gres++] = cut_entry(n, r, g, taken[g], cpus, arena);
}

/* With enforce-binding: no more tasks than the CPUs near the devices that they would get can take. Where only
 * numbers are known, as on the line, they stand. */
static void keep_near(const struct sch_need *need, const struct sch_room *r, struct sch_pick *p)
{
	const struct sch_node *n = p->node;
	bool known = mu_bits_count(&r->cpu) == r->cpus && !need->exclusive;
	for (uint32_t round = 0; known && p->tasks && round < SCH_GRES_PER_NODE; round++) {
		struct mu_arena own = {0};
		Mu__AllocNode row = MU__ALLOC_NODE__INIT;
		struct mu_bits near = {0};
		uint32_t step = step_of(need, n);
		uint64_t blocks = 0, units = units_of(need, p);
		cut_gres(need, p, r, &row, &own);
		near_cpus(n, &row, &near);
		bool any = mu_bits_next(&near, 0) != UINT32_MAX;
		for (uint32_t b = 0; any && b + step <= n->row->cpus; b += step)
			blocks += mu_bits_test(&near, b) && block_free(need, n, r, b, step);
		mu_bits_free(&near);
		mu_arena_free(&own);
		if (!any || blocks >= units)
			return;
		p->tasks = (uint32_t)(p->tasks * blocks / units);
	}
	if (known)
		p->tasks = 0; /* Not settled: nothing is promised. */
}

static uint64_t mem_of(const struct sch_need *need, const struct sch_pick *pick, uint32_t cpus)
{
	if (need->mem_kind == SCH_MEM_NODE)
		return need->mem_mib ? need->mem_mib : mem_end(pick->node);
	if (need->mem_kind == SCH_MEM_GPU)
		return need->mem_mib * gpus_on(need, pick->tasks, pick->gpus);
	return need->mem_kind == SCH_MEM_CPU ? need->mem_mib * cpus : 0;
}

void sch__use(const struct sch_need *need, const struct sch_pick *pick, const struct sch_room *r,
	      struct mu_arena *arena, struct sch_use *ret)
{
	const struct sch_node *n = pick->node;
	uint32_t tpc = n->tpc, step = step_of(need, n), end = cpus_given(need, n) / step * step;
	uint64_t units = units_of(need, pick);
	ret->cpus = units < end / step ? (uint32_t)units * step : end;
	ret->cores = (ret->cpus + tpc - 1) / tpc;
	ret->mem_mib = mem_of(need, pick, ret->cpus);
	ret->exclusive = need->exclusive;
	ret->share = need->share_full > 1 ? need->part->row->conf->name : NULL;
	ret->gres = mu_arena_alloc(arena, (n->row->n_gres + 1) * sizeof(ret->gres[0]));
	share_gres(need, pick, r, ret->gres);
}

static Mu__AllocNode *cut(const struct sch_need *need, const struct sch_pick *pick, const struct sch_room *r,
			  struct mu_arena *arena)
{
	Mu__AllocNode *row = mu_arena_alloc(arena, sizeof(*row));
	struct mu_bits cpu = {0}, near = {0};
	mu__alloc_node__init(row);
	row->node = pick->node->row->name;
	cut_gres(need, pick, r, row, arena);
	near_cpus(pick->node, row, &near);
	cut_cpus(need, pick, r, &near, &cpu);
	size_t len = mu_bits_print(&cpu, NULL, 0);
	row->cpu_list = mu_arena_alloc(arena, len + 1);
	mu_bits_print(&cpu, row->cpu_list, len + 1);
	SCH_SET(row, cpus, mu_bits_count(&cpu));
	SCH_SET(row, tasks, pick->tasks);
	SCH_SET(row, mem_mib, mem_of(need, pick, row->cpus));
	if (need->share_full > 1)
		row->share = need->part->row->conf->name;
	mu_bits_free(&cpu);
	mu_bits_free(&near);
	return row;
}

Mu__AllocNode *sch__cut(const struct sch_need *need, const struct sch_pick *pick, const struct sch_room *r,
			struct mu_arena *arena)
{
	struct sch_room seen;
	if (!sch__share_see(need, pick->node, r, &seen))
		return cut(need, pick, r, arena);
	Mu__AllocNode *row = cut(need, pick, &seen, arena);
	sch__share_unsee(&seen);
	return row;
}

/* ---- how much ---- */

static const struct sch_room *room_now(const struct sch_overlay *o, const struct sch_node *n)
{
	const struct sch_overlay *rooms = o->line ? o->line->rooms : o;
	return rooms->room[n->rank] ? rooms->room[n->rank] : &n->room;
}

/* Running jobs that are gone by then give back; plans only take, so that without them it is at least as much.
 */
static void taken_at(const struct sch_overlay *o, const struct sch_node *n, struct sch_room *ret)
{
	const struct sch_room *now = room_now(o, n);
	const struct sch_line_end *e = o->line ? o->line->ends[n->rank] : NULL;
	ret->cpus = now->cpus;
	ret->cores = now->cores;
	for (; e; e = e->next) {
		if (e->at_usec > o->from_usec || e->out)
			continue;
		ret->cpus -= e->use.cpus;
		ret->cores = ret->cores > e->use.cores ? ret->cores - e->use.cores : 0;
	}
}

bool sch__cpus_reach(const struct sch_need *need, const struct sch_overlay *o, const struct sch_node *n,
		     uint32_t tasks)
{
	struct sch_room taken = {0};
	if (need->by_socket || need->shape->overcommit || room_now(o, n)->stack)
		return true;
	taken_at(o, n, &taken);
	return all_cpus_free(need, n, &taken) / task_cpus(need) >= tasks;
}

/* Also where no job is there: suspended ones keep theirs. */
static bool devices_held(const struct sch_node *n, const struct sch_room *r)
{
	for (size_t g = 0; g < n->row->n_gres; g++)
		if (r->gres[g].count)
			return true;
	return false;
}

static struct sch_pick fit(const struct sch_need *need, struct sch_node *n, const struct sch_room *r)
{
	const struct sch_shape *s = need->shape;
	struct sch_pick p = {.node = n};
	if (r->exclusive || (need->exclusive && (r->jobs || devices_held(n, r))))
		return p;
	uint32_t cpus = cpus_free(need, n, r), end = cpus_given(need, n), each = task_cpus(need);
	p.idle = end > r->cpus ? end - r->cpus : 0;
	if (cpus == 0 || cpus < s->mincpus || cpus < each || !gres_fits(need, n, r) ||
	    (uint64_t)need->node_gpus * need->cpus_per_gpu > cpus)
		return p;
	uint32_t tasks = cpus / each;
	if (s->overcommit && tasks) /* A node gives the CPUs of one task, however many run there. */
		tasks = UINT32_MAX;
	if (s->tasks_per_node && tasks > s->tasks_per_node)
		tasks = s->tasks_per_node;
	uint32_t sockets = n->row->sockets ? n->row->sockets : 1;
	if (s->tasks_per_socket && tasks / sockets >= s->tasks_per_socket)
		tasks = s->tasks_per_socket * sockets;
	uint32_t cores = end / n->tpc, cores_free = cores > r->cores ? cores - r->cores : 0;
	if (need->tasks_per_core && tasks / need->tasks_per_core >= cores_free)
		tasks = need->tasks_per_core * cores_free;
	p.tasks = s->task_ask_count ? gres_tasks(need, n, r, tasks) : tasks;
	if (s->job_gpus) {
		struct sch_ask any = {.name = s->gpu_name, .type = s->job_gpu_type};
		uint64_t free = gres_free(&any, n, r, NULL);
		uint32_t most = need->cpus_per_gpu ? cpus / need->cpus_per_gpu : UINT32_MAX;
		p.gpus = free < most ? (uint32_t)free : most;
	}
	if (p.tasks)
		mem_fits(need, n, r, &p);
	if (need->near && p.tasks)
		keep_near(need, r, &p);
	if (!p.tasks || (s->job_gpus && !p.gpus))
		p.tasks = p.gpus = 0;
	return p;
}

struct sch_pick sch__fit(const struct sch_need *need, struct sch_node *n, const struct sch_room *r)
{
	struct sch_room seen;
	if (!sch__share_see(need, n, r, &seen))
		return fit(need, n, r);
	struct sch_pick p = fit(need, n, &seen);
	sch__share_unsee(&seen);
	return p;
}

bool sch__node_serves(const struct sch_need *need, struct sch_node *n)
{
	const struct sch_shape *s = need->shape;
	struct sch_gres_room none[SCH_GRES_PER_NODE] = {0};
	struct sch_room empty = {.gres = none};
	if (n->row->base_state == NODE_FUTURE || n->row->n_gres > SCH_GRES_PER_NODE)
		return false;
	if ((s->sockets && n->row->sockets < s->sockets) ||
	    (s->cores && n->row->cores_per_socket < s->cores) || (s->threads && n->tpc < s->threads) ||
	    (s->tmp_mib && n->row->tmp_disk_mib < s->tmp_mib))
		return false;
	if (s->features && !sch__features_match(s->features->text, n, SCH_ANY_CHOICE))
		return false;
	return sch__fit(need, n, &empty).tasks > 0;
}

/* ---- overlays ---- */

void sch__overlay_init(struct sch_overlay *o, const struct sch_state *st, struct mu_arena *arena)
{
	*o = (struct sch_overlay){.st = st};
	o->room = mu_arena_alloc(arena, (st->node_count + 1) * sizeof(o->room[0]));
	o->used = mu_arena_alloc(arena, (st->node_count + 1) * sizeof(o->used[0]));
}

void sch__overlay_free(struct sch_overlay *o)
{
	for (uint32_t i = 0; i < o->used_count; i++)
		sch__room_free(o->room[o->used[i]], o->st->by_rank[o->used[i]]);
	o->used_count = 0;
}

const struct sch_room *sch__overlay_see(const struct sch_overlay *o, const struct sch_node *n)
{
	if (o->line)
		return sch__line_room(o->line, n, o->from_usec, o->until_usec);
	return o->room[n->rank] ? o->room[n->rank] : &n->room;
}

struct sch_room *sch__overlay_own(struct sch_overlay *o, const struct sch_node *n, struct mu_arena *arena)
{
	if (!o->room[n->rank]) {
		o->room[n->rank] = mu_arena_alloc(arena, sizeof(struct sch_room));
		sch__room_copy(o->room[n->rank], &n->room, n);
		o->used[o->used_count++] = n->rank;
	}
	return o->room[n->rank];
}
