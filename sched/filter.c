/* sched/filter.c: which nodes a job may use at all: partition, features, node lists, and what an empty node
 * must have. Nodes are judged by class, so the cost follows the number of kinds of nodes, not the number of
 * nodes. */
#include "sched/state.h"

#include <assert.h>
#include <stdlib.h>

#include "proto/hostlist.h"

/* ---- node lists ---- */

int sch__name_bits(const struct sch_state *st, const char *list, struct mu_arena *arena, struct mu_bits *ret,
		   struct mu_err *err)
{
	char **names;
	size_t count;
	int rc = mu_hostlist_expand(list, SCH_NODES_MAX, arena, &names, &count, err);
	if (rc)
		return sch__refuse(err, MU_ENODENAME);
	for (size_t i = 0; i < count; i++) {
		const struct sch_node *n = sch__node(st, names[i]);
		if (!n)
			return sch__refuse(err, MU_ENODENAME);
		mu_bits_set(ret, n->rank);
	}
	return 0;
}

int sch__filter(const struct sch_state *st, const struct sch_need *need, const struct sch_part *p,
		struct mu_arena *arena, struct mu_bits *ret_nodes, struct mu_bits *ret_required,
		struct mu_err *err)
{
	const uint8_t *key = NULL;
	size_t len = 0;
	int rc = 0;
	for (const struct sch_class *c = mu_map_seek(&st->classes, NULL, 0, 0, &key, &len); c;
	     c = mu_map_seek(&st->classes, key, len, 1, &key, &len))
		if (sch__node_serves(need, c->sample))
			mu_bits_or(ret_nodes, &c->nodes);
	mu_bits_and(ret_nodes, &p->nodes);
	if (need->shape->excluded) {
		struct mu_bits out = {0};
		rc = sch__name_bits(st, need->shape->excluded->text, arena, &out, err);
		mu_bits_andnot(ret_nodes, &out);
		mu_bits_free(&out);
	}
	if (need->shape->required && !rc)
		rc = sch__name_bits(st, need->shape->required->text, arena, ret_required, err);
	return rc;
}

/* ---- would it ever fit ---- */

struct kind {
	uint32_t tasks, gpus, count;
};

static int more_tasks(const void *a, const void *b)
{
	const struct kind *x = a, *y = b;
	if (x->gpus != y->gpus)
		return x->gpus > y->gpus ? -1 : 1;
	return x->tasks > y->tasks ? -1 : x->tasks < y->tasks;
}

/* Without the library's table: the room calls as little as it can. */
static uint32_t ones(uint64_t w)
{
	w -= w >> 1 & UINT64_C(0x5555555555555555);
	w = (w & UINT64_C(0x3333333333333333)) + (w >> 2 & UINT64_C(0x3333333333333333));
	w = (w + (w >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	return (uint32_t)(w * UINT64_C(0x0101010101010101) >> 56);
}

/* Classes of NODES with what an empty node of each takes, most first. Returns how many. */
static size_t kinds(const struct sch_state *st, const struct sch_need *need, const struct mu_bits *nodes,
		    struct kind *ret)
{
	struct sch_gres_room none[SCH_GRES_PER_NODE] = {0};
	struct sch_room empty = {.gres = none};
	const uint8_t *key = NULL;
	size_t len = 0, n = 0;
	for (const struct sch_class *c = mu_map_seek(&st->classes, NULL, 0, 0, &key, &len); c;
	     c = mu_map_seek(&st->classes, key, len, 1, &key, &len)) {
		uint32_t count = 0;
		for (uint32_t i = 0; i < nodes->words && i < c->nodes.words; i++)
			count += ones(nodes->word[i] & c->nodes.word[i]);
		struct sch_pick p = count ? sch__fit(need, c->sample, &empty) : (struct sch_pick){0};
		if (count)
			ret[n++] = (struct kind){.tasks = p.tasks, .gpus = p.gpus, .count = count};
	}
	if (n > 1)
		qsort(ret, n, sizeof(ret[0]), more_tasks);
	return n;
}

/* Why not even an empty cluster would do: the first demand without which it would. Nodes that would serve as
 * they are were excluded by name. */
static int blame(const struct sch_state *st, const struct sch_need *need, const struct sch_part *p)
{
	struct sch_need easy = *need;
	int rc = MU_ENODECONFIG;
	easy.mem_kind = SCH_MEM_NONE;
	for (uint32_t r = mu_bits_next(&p->nodes, 0); r != UINT32_MAX; r = mu_bits_next(&p->nodes, r + 1)) {
		if (sch__node_serves(need, st->by_rank[r]))
			return MU_ENODECONFIG;
		if (sch__node_serves(&easy, st->by_rank[r]))
			rc = MU_EMEMORY;
	}
	return rc;
}

/* Nodes of NODES with the CHOICE-th of the features of which all must have the same. */
static void of_choice(const struct sch_state *st, const struct sch_shape *s, uint32_t choice,
		      const struct mu_bits *nodes, struct mu_bits *ret)
{
	const uint8_t *key = NULL;
	size_t len = 0;
	for (const struct sch_class *c = mu_map_seek(&st->classes, NULL, 0, 0, &key, &len); c;
	     c = mu_map_seek(&st->classes, key, len, 1, &key, &len))
		if (sch__features_match(s->features->text, c->sample, choice))
			mu_bits_or(ret, &c->nodes);
	mu_bits_and(ret, nodes);
}

static int room_for(const struct sch_state *st, const struct sch_need *need, const struct mu_bits *nodes)
{
	const struct sch_shape *s = need->shape;
	uint32_t want = s->ntasks > s->nodes_min ? s->ntasks : s->nodes_min;
	uint32_t max = s->nodes_max ? s->nodes_max : UINT32_MAX;
	uint32_t part = need->max_nodes > s->nodes_min ? need->max_nodes : s->nodes_min;
	struct kind *v = calloc(st->classes.count + 1, sizeof(*v));
	if (!v)
		abort();
	if (s->job_gpus && max > s->job_gpus)
		max = s->job_gpus;
	bool bound = need->max_nodes && max > part;
	uint64_t tasks = 0, count = 0, gpus = 0, within = 0;
	size_t n = kinds(st, need, nodes, v);
	bool fits_part = !bound;
	for (size_t i = 0; i < n && count < max; i++) {
		uint64_t take = v[i].count < max - count ? v[i].count : max - count;
		if (bound && count < part) {
			within = take < part - count ? take : part - count;
			fits_part =
			    tasks + within * v[i].tasks >= want && gpus + within * v[i].gpus >= s->job_gpus;
		}
		count += take;
		tasks += take * v[i].tasks;
		gpus += take * v[i].gpus;
	}
	free(v);
	if (count < s->nodes_min || tasks < want || gpus < s->job_gpus)
		return MU_ENODECONFIG;
	return fits_part ? 0 : MU_ENODECOUNT;
}

int sch__feasible(const struct sch_state *st, const struct sch_need *need, const struct sch_part *p,
		  const struct mu_bits *nodes, const struct mu_bits *required)
{
	const struct sch_shape *s = need->shape;
	for (uint32_t r = mu_bits_next(required, 0); r != UINT32_MAX; r = mu_bits_next(required, r + 1))
		if (!mu_bits_test(nodes, r))
			return MU_ENODECONFIG;
	if (s->nodes_min > mu_bits_count(&p->nodes))
		return MU_ENODECOUNT;
	if (mu_bits_next(nodes, 0) == UINT32_MAX)
		return blame(st, need, p);
	uint32_t choices = s->features ? s->feature_kind.choices : 0;
	int rc = choices ? MU_ENODECONFIG : room_for(st, need, nodes);
	for (uint32_t i = 0; i < choices && rc; i++) {
		struct mu_bits some = {0};
		of_choice(st, s, i, nodes, &some);
		rc = room_for(st, need, &some);
		mu_bits_free(&some);
	}
	return rc ? rc : sch__possible(st, need, nodes, required);
}
