/* sched/room.c: taking resources of a node and giving them back; the only code that writes what is taken.
 * A unit is taken when its bit is set: taking a set bit or giving a clear one is a broken promise and
 * asserted. */
#include "sched/preempt.h"
#include "sched/state.h"

#include <assert.h>
#include <stdlib.h>

uint32_t sch__tpc(const struct sch_node *n)
{
	return n->row->threads_per_core ? n->row->threads_per_core : 1;
}

void sch__room_init(struct sch_room *r, const struct sch_node *n)
{
	memset(r, 0, sizeof(*r));
	if (!n->row->n_gres)
		return;
	r->gres = calloc(n->row->n_gres, sizeof(r->gres[0]));
	if (!r->gres)
		abort();
}

void sch__room_free(struct sch_room *r, const struct sch_node *n)
{
	for (size_t i = 0; r->gres && i < n->row->n_gres; i++)
		mu_bits_free(&r->gres[i].used);
	free(r->gres);
	sch__stacks_free(r);
	mu_bits_free(&r->veil);
	mu_bits_free(&r->cpu);
	memset(r, 0, sizeof(*r));
}

void sch__room_copy(struct sch_room *dst, const struct sch_room *src, const struct sch_node *n)
{
	sch__room_init(dst, n);
	mu_bits_copy(&dst->cpu, &src->cpu);
	sch__stacks_copy(dst, src);
	dst->cpus = src->cpus;
	dst->cores = src->cores;
	dst->jobs = src->jobs;
	dst->mem_mib = src->mem_mib;
	dst->exclusive = src->exclusive;
	for (size_t i = 0; i < n->row->n_gres; i++) {
		mu_bits_copy(&dst->gres[i].used, &src->gres[i].used);
		dst->gres[i].count = src->gres[i].count;
	}
}

static uint32_t busy_cores(const struct mu_bits *cpu, uint32_t tpc)
{
	if (tpc == 1)
		return mu_bits_count(cpu);
	uint32_t cores = 0;
	for (uint32_t b = mu_bits_next(cpu, 0); b != UINT32_MAX; b = mu_bits_next(cpu, (b / tpc + 1) * tpc))
		cores++;
	return cores;
}

/* Nothing of it is left for anybody; CPUs that are shared may go on to be. */
bool sch__room_full(const struct sch_room *r, const struct sch_node *n)
{
	return r->exclusive || (r->cpus >= n->row->cpus && !r->stack);
}

/* After bits of R->cpu changed by hand. */
void sch__room_recount(struct sch_room *r, const struct sch_node *n)
{
	r->cpus = mu_bits_count(&r->cpu);
	r->cores = busy_cores(&r->cpu, sch__tpc(n));
}

static bool gres_fits(const struct sch_room *r, const struct sch_node *n, const struct sch_got *g)
{
	if (g->entry >= n->row->n_gres)
		return false;
	const Mu__GresHave *have = n->row->gres[g->entry];
	if (r->gres[g->entry].count + g->count > have->count)
		return false;
	for (uint32_t u = mu_bits_next(&g->index, 0); u != UINT32_MAX; u = mu_bits_next(&g->index, u + 1))
		if (u < have->first_index || u - have->first_index >= have->count ||
		    mu_bits_test(&r->gres[g->entry].used, u - have->first_index))
			return false;
	return true;
}

bool sch__room_apart(const struct sch_room *r, const struct sch_node *n, const struct sch_alloc *a,
		     uint32_t most)
{
	uint32_t last = UINT32_MAX;
	for (uint32_t b = mu_bits_next(&a->cpu, 0); b != UINT32_MAX; b = mu_bits_next(&a->cpu, b + 1))
		last = b;
	if ((last != UINT32_MAX && last >= n->row->cpus) ||
	    (!a->parked && (r->exclusive || sch__share_clash(r, a, most))))
		return false;
	for (uint32_t i = 0; i < a->got_count; i++)
		if (!gres_fits(r, n, &a->got[i]))
			return false;
	return true;
}

bool sch__room_fits(const struct sch_state *st, const struct sch_room *r, const struct sch_node *n,
		    const struct sch_alloc *a)
{
	uint32_t most = a->share ? sch__share_most_in(st, a->share) : 1;
	return (!st->config.memory || r->mem_mib + a->mem_mib <= n->row->real_memory_mib) &&
	       sch__room_apart(r, n, a, most);
}

/* Which of the node's entries the devices of ROW belong to. */
uint32_t sch__gres_entry(const struct sch_node *n, const Mu__GresGot *row)
{
	for (size_t i = 0; i < n->row->n_gres; i++) {
		const Mu__GresHave *have = n->row->gres[i];
		bool in = !row->n_index || (row->index[0] >= have->first_index &&
					    row->index[0] - have->first_index < have->count);
		if (sch__same(have->name, row->name) && sch__same(have->type, row->type) && in)
			return (uint32_t)i;
	}
	return UINT32_MAX;
}

static void take_cpus(struct sch_room *r, const struct sch_node *n, const struct sch_alloc *a, bool exclusive)
{
	assert(!sch__share_clash(r, a, UINT32_MAX));
	if (a->share)
		sch__stack_take(r, a->share, &a->cpu);
	else
		mu_bits_or(&r->cpu, &a->cpu);
	sch__room_recount(r, n);
	r->jobs++;
	r->exclusive = exclusive;
}

static void give_cpus(struct sch_room *r, const struct sch_node *n, const struct sch_alloc *a, bool exclusive)
{
	uint32_t count = mu_bits_count(&a->cpu), before = r->cpus;
	assert(r->cpus >= count && r->jobs > 0);
	if (a->share)
		sch__stack_give(r, a->share, &a->cpu);
	else
		mu_bits_andnot(&r->cpu, &a->cpu);
	sch__room_recount(r, n);
	assert(a->share || r->cpus + count == before);
	r->jobs--;
	if (exclusive)
		r->exclusive = false;
}

/* A suspended job leaves its CPUs, and the node where it had it to itself, to others; what else it has it
 * keeps. */
void sch__room_park(struct sch_room *r, const struct sch_node *n, const struct sch_alloc *a, bool exclusive)
{
	assert(!a->parked);
	give_cpus(r, n, a, exclusive);
}

bool sch__room_parks(const struct sch_state *st, const struct sch_room *r, const struct sch_alloc *a)
{
	uint32_t most = a->share ? sch__share_most_in(st, a->share) : 1;
	return !r->exclusive && !sch__share_clash(r, a, most) && !(a->parked == 2 && r->jobs);
}

void sch__room_unpark(struct sch_room *r, const struct sch_node *n, const struct sch_alloc *a, bool exclusive)
{
	take_cpus(r, n, a, exclusive);
}

void sch__room_take(struct sch_room *r, const struct sch_node *n, const struct sch_alloc *a, bool exclusive)
{
	if (!a->parked)
		take_cpus(r, n, a, exclusive);
	r->mem_mib += a->mem_mib;
	for (uint32_t i = 0; i < a->got_count; i++) {
		struct sch_gres_room *g = &r->gres[a->got[i].entry];
		uint32_t first = n->row->gres[a->got[i].entry]->first_index;
		g->count += a->got[i].count;
		for (uint32_t u = mu_bits_next(&a->got[i].index, 0); u != UINT32_MAX;
		     u = mu_bits_next(&a->got[i].index, u + 1)) {
			assert(!mu_bits_test(&g->used, u - first));
			mu_bits_set(&g->used, u - first);
		}
	}
}

void sch__room_give(struct sch_room *r, const struct sch_node *n, const struct sch_alloc *a, bool exclusive)
{
	assert(r->mem_mib >= a->mem_mib);
	if (!a->parked)
		give_cpus(r, n, a, exclusive);
	r->mem_mib -= a->mem_mib;
	for (uint32_t i = 0; i < a->got_count; i++) {
		struct sch_gres_room *g = &r->gres[a->got[i].entry];
		uint32_t first = n->row->gres[a->got[i].entry]->first_index;
		assert(g->count >= a->got[i].count);
		g->count -= a->got[i].count;
		for (uint32_t u = mu_bits_next(&a->got[i].index, 0); u != UINT32_MAX;
		     u = mu_bits_next(&a->got[i].index, u + 1))
			mu_bits_clear(&g->used, u - first);
	}
}

/* ROW was made by sch__cut for a room of N; no names are kept. GOT has places for all of the node's entries.
 */
static void open_row(const struct sch_node *n, const Mu__AllocNode *row, struct sch_got *got,
		     struct sch_alloc *ret)
{
	*ret = (struct sch_alloc){.mem_mib = row->mem_mib,
				  .got = got,
				  .got_count = (uint32_t)row->n_gres,
				  .share = row->share && *row->share ? row->share : NULL};
	int rc = mu_bits_parse(&ret->cpu, row->cpu_list, SCH_CPUS_PER_NODE - 1);
	assert(rc == 0);
	for (size_t i = 0; i < row->n_gres; i++) {
		got[i].count = row->gres[i]->count;
		got[i].entry = sch__gres_entry(n, row->gres[i]);
		assert(got[i].entry != UINT32_MAX);
		for (size_t k = 0; k < row->gres[i]->n_index; k++)
			mu_bits_set(&got[i].index, row->gres[i]->index[k]);
	}
}

static void close_row(struct sch_alloc *a)
{
	for (uint32_t i = 0; i < a->got_count; i++)
		mu_bits_free(&a->got[i].index);
	mu_bits_free(&a->cpu);
}

void sch__room_take_row(struct sch_room *r, const struct sch_node *n, const Mu__AllocNode *row,
			bool exclusive)
{
	struct sch_got got[SCH_GRES_PER_NODE] = {0};
	struct sch_alloc a;
	open_row(n, row, got, &a);
	sch__room_take(r, n, &a, exclusive);
	close_row(&a);
}

void sch__room_give_row(struct sch_room *r, const struct sch_node *n, const Mu__AllocNode *row,
			bool exclusive)
{
	struct sch_got got[SCH_GRES_PER_NODE] = {0};
	struct sch_alloc a;
	open_row(n, row, got, &a);
	sch__room_give(r, n, &a, exclusive);
	close_row(&a);
}

void sch__hold_add(struct sch_state *st, struct sch_job *j, struct sch_alloc *a)
{
	struct sch_node *n = a->node;
	if (n->hold_count == n->hold_cap) {
		uint32_t cap = n->hold_cap ? 2 * n->hold_cap : 4;
		n->hold = sch__grow(st, n->hold, n->hold_cap * sizeof(n->hold[0]), cap * sizeof(n->hold[0]));
		n->hold_cap = cap;
	}
	uint32_t at = n->hold_count++;
	while (at > 0 && (n->hold[at - 1].job->id > j->id ||
			  (n->hold[at - 1].job == j && n->hold[at - 1].attempt > a->attempt))) {
		n->hold[at] = n->hold[at - 1];
		at--;
	}
	n->hold[at] = (struct sch_hold){.job = j, .attempt = a->attempt};
	sch__room_take(&n->room, n, a, j->exclusive);
	sch__touch(st, &n->rec);
	sch__node_index(st, n);
}

void sch__hold_end(struct sch_state *st, struct sch_job *j, struct sch_alloc *a)
{
	struct sch_node *n = a->node;
	uint32_t i = 0;
	while (i < n->hold_count && !(n->hold[i].job == j && n->hold[i].attempt == a->attempt))
		i++;
	assert(i < n->hold_count);
	memmove(&n->hold[i], &n->hold[i + 1], (n->hold_count - i - 1) * sizeof(n->hold[0]));
	n->hold_count--;
	sch__room_give(&n->room, n, a, n->room.exclusive);
	a->released = true;
	a->node = NULL;
	n->row->last_busy_usec = st->cluster->now_usec;
	sch__touch(st, &n->rec);
	sch__touch(st, &j->rec);
	sch__node_index(st, n);
	sch__wake(st);
}

struct sch_alloc *sch__alloc_on(struct sch_job *j, uint32_t attempt, const struct sch_node *n)
{
	for (uint32_t i = 0; j->run && i < j->run->alloc_count; i++)
		if (j->run->alloc[i].node == n && j->run->alloc[i].attempt == attempt)
			return &j->run->alloc[i];
	for (uint32_t i = 0; j->run && i < j->run->left_count; i++)
		if (j->run->left[i].node == n && j->run->left[i].attempt == attempt)
			return &j->run->left[i];
	return NULL;
}

static int got_from_row(struct sch_state *st, const Mu__GresGot *row, const struct sch_node *n,
			struct sch_got *ret)
{
	ret->name = sch__str(st, row->name);
	ret->type = sch__str(st, row->type);
	ret->count = row->count;
	ret->entry = UINT32_MAX;
	for (size_t i = 0; i < row->n_index; i++) {
		if (row->index[i] >= SCH_CPUS_PER_NODE || mu_bits_test(&ret->index, row->index[i]))
			return MU_EPROTO;
		mu_bits_set(&ret->index, row->index[i]);
	}
	if (n)
		ret->entry = sch__gres_entry(n, row);
	return n && ret->entry == UINT32_MAX ? MU_EPROTO : 0;
}

/* Makes the record of ROW on node NAME; the room is not yet taken. A released one needs no node. MU_EPROTO
 * when it cannot be: RET is then to be cleared all the same. */
int sch__alloc_from_row(struct sch_state *st, const Mu__AllocNode *row, const char *name,
			struct sch_alloc *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->name = sch__str(st, name && *name ? name : "?");
	ret->mem_mib = row->mem_mib;
	ret->cpus = row->cpus;
	ret->tasks = row->tasks;
	ret->attempt = row->attempt;
	ret->released = row->released;
	ret->lost = row->lost;
	ret->parked = (uint8_t)(row->parked > 2 ? 0 : row->parked);
	ret->share_name = sch__str(st, row->share);
	ret->share = sch__text(ret->share_name);
	ret->node = row->released ? NULL : sch__node(st, name);
	if (!row->released && !ret->node)
		return MU_EPROTO;
	if (row->cpu_list && mu_bits_parse(&ret->cpu, row->cpu_list, SCH_CPUS_PER_NODE - 1))
		return MU_EPROTO;
	if (row->n_gres > SCH_GRES_PER_NODE)
		return MU_EPROTO;
	ret->got = sch__alloc(st, row->n_gres * sizeof(ret->got[0]));
	ret->got_count = (uint32_t)row->n_gres;
	for (size_t i = 0; i < row->n_gres; i++)
		if (got_from_row(st, row->gres[i], ret->node, &ret->got[i]))
			return MU_EPROTO;
	return 0;
}
