/* sched/place.c: which nodes, and which parts of them. First the nodes in order of weight and configuration;
 * within a node the lowest free cores, the lowest free devices. Nothing here depends on time or on other
 * jobs: only on what the overlay says is taken. */
#include "sched/state.h"

#include <assert.h>
#include <stdlib.h>

void sch__need(const struct sch_state *st, const struct sch_shape *shape, const struct sch_part *p,
	       struct sch_need *ret)
{
	const char *share = p->row->conf->oversubscribe;
	ret->shape = shape;
	ret->exclusive = shape->exclusive || (share && strcasecmp(share, "EXCLUSIVE") == 0);
	ret->by_core = st->config.by_core;
	ret->memory = st->config.memory;
	sch__part_mem(st, p, shape->mem_kind, shape->mem_mib, &ret->mem_kind, &ret->mem_mib);
}

/* ---- one node ---- */

/* CPU ids at and above this are the system's (CoreSpecCount). */
static uint32_t cpu_end(const struct sch_node *n)
{
	uint32_t spec = n->row->conf ? n->row->conf->core_spec_count * sch__tpc(n) : 0;
	return n->row->cpus > spec ? n->row->cpus - spec : 0;
}

static uint64_t mem_end(const struct sch_node *n)
{
	uint64_t spec = n->row->conf ? n->row->conf->mem_spec_limit_mib : 0;
	return n->row->real_memory_mib > spec ? n->row->real_memory_mib - spec : 0;
}

/* CPUs of one core that tasks of this shape use. */
static uint32_t cpus_per_core(const struct sch_need *need, const struct sch_node *n)
{
	uint32_t tpc = sch__tpc(n), threads = need->shape->threads;
	return need->by_core && threads && threads < tpc ? threads : tpc;
}

static bool gres_fits(const struct sch_need *need, const struct sch_node *n, const struct sch_room *r)
{
	for (uint32_t i = 0; i < need->shape->ask_count; i++) {
		const struct sch_ask *ask = &need->shape->ask[i];
		uint64_t have = 0;
		for (size_t g = 0; g < n->row->n_gres; g++)
			if (sch__same(n->row->gres[g]->name, sch__text(ask->name)) &&
			    (!ask->type || sch__same(n->row->gres[g]->type, ask->type->text)))
				have += n->row->gres[g]->count > r->gres[g].count
					    ? n->row->gres[g]->count - r->gres[g].count
					    : 0;
		if (have < ask->count)
			return false;
	}
	return true;
}

/* Tasks that memory allows, at most TASKS. */
static uint32_t mem_fits(const struct sch_need *need, const struct sch_node *n, const struct sch_room *r,
			 uint32_t tasks)
{
	uint64_t end = mem_end(n), used = need->memory ? r->mem_mib : 0;
	if (need->mem_kind == SCH_MEM_NONE || n->row->real_memory_mib == 0)
		return tasks;
	if (used > end)
		return 0;
	if (need->mem_kind == SCH_MEM_NODE)
		return need->mem_mib ? (need->mem_mib <= end - used ? tasks : 0) : (used == 0 ? tasks : 0);
	uint64_t cpus = need->mem_mib ? (end - used) / need->mem_mib : UINT32_MAX;
	if (need->by_core)
		cpus = cpus / sch__tpc(n) * cpus_per_core(need, n);
	if (need->exclusive)
		return cpus >= cpu_end(n) ? tasks : 0;
	uint64_t fit = cpus / need->shape->cpus_per_task;
	if (need->shape->overcommit)
		return fit ? tasks : 0;
	return fit < tasks ? (uint32_t)fit : tasks;
}

uint32_t sch__tasks_that_fit(const struct sch_need *need, const struct sch_node *n, const struct sch_room *r)
{
	const struct sch_shape *s = need->shape;
	uint32_t tpc = sch__tpc(n), end = cpu_end(n), cores = end / tpc;
	if (r->exclusive || (need->exclusive && r->jobs))
		return 0;
	uint32_t cores_free = cores > r->cores ? cores - r->cores : 0;
	uint32_t cpus = need->by_core	? cores_free * cpus_per_core(need, n)
			: end > r->cpus ? end - r->cpus
					: 0;
	if (cpus == 0 || cpus < s->mincpus || !gres_fits(need, n, r))
		return 0;
	uint32_t tasks = cpus / s->cpus_per_task;
	if (s->overcommit && tasks) /* A node gives the CPUs of one task, however many run there. */
		tasks = UINT32_MAX;
	if (s->tasks_per_node && tasks > s->tasks_per_node)
		tasks = s->tasks_per_node;
	uint32_t sockets = n->row->sockets ? n->row->sockets : 1;
	if (s->tasks_per_socket && tasks / sockets >= s->tasks_per_socket)
		tasks = s->tasks_per_socket * sockets;
	if (s->tasks_per_core && tasks / s->tasks_per_core >= cores_free)
		tasks = s->tasks_per_core * cores_free;
	return tasks ? mem_fits(need, n, r, tasks) : 0;
}

bool sch__node_serves(const struct sch_need *need, const struct sch_node *n)
{
	const struct sch_shape *s = need->shape;
	struct sch_gres_room none[SCH_GRES_PER_NODE] = {0};
	struct sch_room empty = {.gres = none};
	if (n->row->base_state == NODE_FUTURE || n->row->n_gres > SCH_GRES_PER_NODE)
		return false;
	if ((s->sockets && n->row->sockets < s->sockets) ||
	    (s->cores && n->row->cores_per_socket < s->cores) || (s->threads && sch__tpc(n) < s->threads) ||
	    (s->tmp_mib && n->row->tmp_disk_mib < s->tmp_mib))
		return false;
	if (s->features && !sch__features_match(s->features->text, n))
		return false;
	return sch__tasks_that_fit(need, n, &empty) > 0;
}

/* ---- which CPUs, which devices ---- */

/* Cores, or CPUs where those are given out one by one. */
static uint64_t units_of(const struct sch_need *need, const struct sch_node *n, uint32_t tasks)
{
	const struct sch_shape *s = need->shape;
	uint64_t cpus = (uint64_t)(s->overcommit ? tasks > 0 : tasks) * s->cpus_per_task;
	uint64_t units = cpus < s->mincpus ? s->mincpus : cpus;
	if (need->exclusive)
		return UINT64_MAX;
	if (need->by_core) {
		units = (units + cpus_per_core(need, n) - 1) / cpus_per_core(need, n);
		if (s->tasks_per_core && units * s->tasks_per_core < tasks)
			units = (tasks + s->tasks_per_core - 1) / s->tasks_per_core;
	}
	return units;
}

static void cut_cpus(const struct sch_need *need, const struct sch_node *n, const struct sch_room *r,
		     uint32_t tasks, struct mu_bits *ret)
{
	uint32_t tpc = sch__tpc(n), end = cpu_end(n), step = need->by_core ? tpc : 1;
	uint64_t units = units_of(need, n, tasks);
	for (uint32_t b = 0; b + step <= end && units; b += step) {
		bool free = true;
		for (uint32_t t = 0; t < step; t++)
			free = free && !mu_bits_test(&r->cpu, b + t);
		for (uint32_t t = 0; free && t < step; t++)
			mu_bits_set(ret, b + t);
		units -= free;
	}
}

static Mu__GresGot *cut_entry(const struct sch_node *n, const struct sch_room *r, size_t entry,
			      uint64_t count, struct mu_arena *arena)
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
	for (uint32_t u = 0; u < have->count && got->n_index < count; u++)
		if (!mu_bits_test(&r->gres[entry].used, u))
			got->index[got->n_index++] = have->first_index + u;
	return got;
}

/* How many units of each entry of N. */
static void share_gres(const struct sch_need *need, const struct sch_node *n, const struct sch_room *r,
		       uint64_t *taken)
{
	for (uint32_t i = 0; i < need->shape->ask_count; i++) {
		const struct sch_ask *ask = &need->shape->ask[i];
		uint64_t left = ask->count;
		for (size_t g = 0; g < n->row->n_gres && left; g++) {
			uint64_t have = n->row->gres[g]->count, used = r->gres[g].count + taken[g];
			uint64_t free = have > used ? have - used : 0;
			if (!sch__same(n->row->gres[g]->name, sch__text(ask->name)) ||
			    (ask->type && !sch__same(n->row->gres[g]->type, ask->type->text)))
				continue;
			uint64_t take = free < left ? free : left;
			taken[g] += take;
			left -= take;
		}
	}
	for (size_t g = 0; need->exclusive && g < n->row->n_gres; g++)
		taken[g] = n->row->gres[g]->count;
}

static void cut_gres(const struct sch_need *need, const struct sch_node *n, const struct sch_room *r,
		     Mu__AllocNode *row, struct mu_arena *arena)
{
	uint64_t taken[SCH_GRES_PER_NODE] = {0};
	share_gres(need, n, r, taken);
	row->gres = mu_arena_alloc(arena, (n->row->n_gres + 1) * sizeof(row->gres[0]));
	for (size_t g = 0; g < n->row->n_gres; g++)
		if (taken[g])
			row->gres[row->n_gres++] = cut_entry(n, r, g, taken[g], arena);
}

static uint64_t mem_of(const struct sch_need *need, const struct sch_node *n, uint32_t cpus)
{
	if (need->mem_kind == SCH_MEM_NODE)
		return need->mem_mib ? need->mem_mib : mem_end(n);
	return need->mem_kind == SCH_MEM_CPU ? need->mem_mib * cpus : 0;
}

void sch__use(const struct sch_need *need, const struct sch_node *n, const struct sch_room *r, uint32_t tasks,
	      struct mu_arena *arena, struct sch_use *ret)
{
	uint32_t tpc = sch__tpc(n), step = need->by_core ? tpc : 1, end = cpu_end(n) / step * step;
	uint64_t units = units_of(need, n, tasks);
	ret->cpus = units < end / step ? (uint32_t)units * step : end;
	ret->cores = (ret->cpus + tpc - 1) / tpc;
	ret->mem_mib = mem_of(need, n, ret->cpus);
	ret->exclusive = need->exclusive;
	ret->gres = mu_arena_alloc(arena, (n->row->n_gres + 1) * sizeof(ret->gres[0]));
	share_gres(need, n, r, ret->gres);
}

Mu__AllocNode *sch__cut(const struct sch_need *need, const struct sch_node *n, const struct sch_room *r,
			uint32_t tasks, struct mu_arena *arena)
{
	Mu__AllocNode *row = mu_arena_alloc(arena, sizeof(*row));
	struct mu_bits cpu = {0};
	mu__alloc_node__init(row);
	cut_cpus(need, n, r, tasks, &cpu);
	size_t len = mu_bits_print(&cpu, NULL, 0);
	row->node = n->row->name;
	row->cpu_list = mu_arena_alloc(arena, len + 1);
	mu_bits_print(&cpu, row->cpu_list, len + 1);
	SCH_SET(row, cpus, mu_bits_count(&cpu));
	SCH_SET(row, tasks, tasks);
	SCH_SET(row, mem_mib, mem_of(need, n, row->cpus));
	cut_gres(need, n, r, row, arena);
	mu_bits_free(&cpu);
	return row;
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

/* ---- which nodes ---- */

static int by_tasks(const void *a, const void *b)
{
	const struct sch_pick *x = a, *y = b;
	if (x->tasks != y->tasks)
		return x->tasks > y->tasks ? -1 : 1;
	return x->node->rank < y->node->rank ? -1 : x->node->rank > y->node->rank;
}

static int by_rank(const void *a, const void *b)
{
	const struct sch_pick *x = a, *y = b;
	return x->node->rank < y->node->rank ? -1 : x->node->rank > y->node->rank;
}

struct goal {
	uint32_t tasks, min, max;
};

/* Turns what each chosen node could take into what it gets: at least one task each, the first ones filled. */
static uint32_t deal(const struct goal *goal, struct sch_pick *pick, uint32_t count)
{
	uint32_t left = goal->tasks;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t later = count - 1 - i;
		uint32_t most = left > later ? left - later : 1;
		if (pick[i].tasks > most)
			pick[i].tasks = most;
		left = left > pick[i].tasks ? left - pick[i].tasks : 0;
	}
	return left ? 0 : count;
}

static bool enough(const struct goal *goal, uint64_t tasks, uint32_t count)
{
	return tasks >= goal->tasks && count >= goal->min;
}

/* Required nodes come first and must all fit. Returns their number, UINT32_MAX when one does not. */
static uint32_t choose_required(const struct sch_need *need, const struct sch_overlay *o,
				const struct mu_bits *candidates, const struct mu_bits *required,
				uint64_t *steps, struct sch_pick *ret, uint64_t *ret_tasks)
{
	uint32_t count = 0;
	for (uint32_t r = mu_bits_next(required, 0); r != UINT32_MAX; r = mu_bits_next(required, r + 1)) {
		struct sch_node *n = o->st->by_rank[r];
		uint32_t tasks =
		    mu_bits_test(candidates, r) ? sch__tasks_that_fit(need, n, sch__overlay_see(o, n)) : 0;
		++*steps;
		if (!tasks)
			return UINT32_MAX;
		ret[count++] = (struct sch_pick){.node = n, .tasks = tasks};
		*ret_tasks += tasks;
	}
	return count;
}

/* The first node that takes all tasks alone; *hint moves past nodes that cannot, which stay so within a pass.
 */
static struct sch_node *choose_one(const struct sch_need *need, const struct sch_overlay *o,
				   const struct mu_bits *candidates, uint32_t tasks, uint32_t *hint,
				   uint64_t *steps)
{
	for (uint32_t r = mu_bits_next(candidates, hint ? *hint : 0); r != UINT32_MAX;
	     r = mu_bits_next(candidates, r + 1)) {
		struct sch_node *n = o->st->by_rank[r];
		++*steps;
		if (hint)
			*hint = r;
		if (sch__tasks_that_fit(need, n, sch__overlay_see(o, n)) >= tasks)
			return n;
	}
	if (hint)
		*hint = UINT32_MAX;
	return NULL;
}

uint32_t sch__choose(const struct sch_need *need, const struct sch_overlay *o,
		     const struct mu_bits *candidates, const struct mu_bits *required, uint32_t *hint,
		     uint64_t *steps, struct sch_pick *ret)
{
	const struct sch_shape *s = need->shape;
	struct goal goal = {.tasks = s->ntasks > s->nodes_min ? s->ntasks : s->nodes_min,
			    .min = s->nodes_min,
			    .max = s->nodes_max ? s->nodes_max : UINT32_MAX};
	uint64_t tasks = 0;
	uint32_t count = choose_required(need, o, candidates, required, steps, ret, &tasks);
	if (count == UINT32_MAX || count > goal.max)
		return 0;
	uint32_t fixed = count;
	if (fixed == 0 && goal.min <= 1) {
		struct sch_node *n = !hint || *hint != UINT32_MAX
					 ? choose_one(need, o, candidates, goal.tasks, hint, steps)
					 : NULL;
		if (n) {
			ret[0] = (struct sch_pick){.node = n, .tasks = goal.tasks};
			return 1;
		}
		if (goal.tasks == 1 || goal.max == 1)
			return 0;
	}
	bool done = enough(&goal, tasks, count);
	for (uint32_t r = done ? UINT32_MAX : mu_bits_next(candidates, 0); r != UINT32_MAX && !done;
	     r = mu_bits_next(candidates, r + 1)) {
		struct sch_node *n = o->st->by_rank[r];
		uint32_t fit =
		    mu_bits_test(required, r) ? 0 : sch__tasks_that_fit(need, n, sch__overlay_see(o, n));
		++*steps;
		if (!fit)
			continue;
		ret[count++] = (struct sch_pick){.node = n, .tasks = fit};
		tasks += fit;
		done = count <= goal.max && enough(&goal, tasks, count);
	}
	if (!done) { /* Too many small ones: the roomiest first. */
		if (count <= goal.max)
			return 0;
		qsort(ret + fixed, count - fixed, sizeof(ret[0]), by_tasks);
		for (tasks = 0, count = 0;
		     count < goal.max && !(count >= fixed && enough(&goal, tasks, count)); count++)
			tasks += ret[count].tasks;
		if (!enough(&goal, tasks, count))
			return 0;
	}
	qsort(ret, count, sizeof(ret[0]), by_rank);
	return deal(&goal, ret, count);
}
