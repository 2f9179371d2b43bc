/* sched/topology.c: switches and blocks as the configuration draws them, by rank of nodes. Derived. */
#include "sched/state.h"

#include "proto/hostlist.h"

void sch__topology_free(struct sch_state *st)
{
	for (uint32_t i = 0; i < st->switch_count; i++)
		mu_bits_free(&st->switches[i].leaves);
	sch__free(st, st->switches, st->switch_count * sizeof(st->switches[0]));
	st->switches = NULL;
	st->switch_count = 0;
}

/* Every node is below one leaf: its number from 1, and one more for those that no switch names. */
static void place_nodes(const struct sch_state *st, const char *list, uint32_t leaf, struct mu_arena *arena)
{
	char **names;
	size_t count;
	if (!list || mu_hostlist_expand(list, SCH_NODES_MAX, arena, &names, &count, NULL))
		return;
	for (size_t i = 0; i < count; i++) {
		struct sch_node *n = sch__node(st, names[i]);
		if (n)
			n->leaf = leaf;
	}
}

static uint32_t find(const Mu__Config *c, const char *name)
{
	for (size_t i = 0; i < c->n_topology; i++)
		if (sch__same(c->topology[i]->name, name))
			return (uint32_t)i;
	return UINT32_MAX;
}

/* The leaves of the switches below, once those are known. True when something came in. */
static bool gather(struct sch_state *st, const Mu__Config *c, uint32_t at, struct mu_arena *arena)
{
	struct sch_switch *s = &st->switches[at];
	char **names;
	size_t count;
	uint32_t before = mu_bits_count(&s->leaves);
	if (!c->topology[at]->switches ||
	    mu_hostlist_expand(c->topology[at]->switches, SCH_SWITCHES_MAX, arena, &names, &count, NULL))
		return false;
	for (size_t i = 0; i < count; i++) {
		uint32_t below = find(c, names[i]);
		if (below == UINT32_MAX || below == at)
			continue;
		mu_bits_or(&s->leaves, &st->switches[below].leaves);
		if (s->level <= st->switches[below].level && st->switches[below].level < SCH_SWITCH_LEVELS)
			s->level = st->switches[below].level + 1;
	}
	return mu_bits_count(&s->leaves) != before;
}

/* How long jobs wait for few switches is the configuration's as well. */
static void wait_again(struct sch_state *st)
{
	uint64_t id = 0;
	for (struct sch_job *j = mu_map_next_u64(&st->jobs, 0, &id); j;
	     j = mu_map_next_u64(&st->jobs, id + 1, &id)) {
		sch__switch_wait_out(st, j);
		if (j->shape && j->shape->switches && sch__ready(j))
			sch__switch_wait_in(st, j);
	}
}

static void draw(struct sch_state *st)
{
	const Mu__Config *c = sch__conf(st);
	struct mu_arena arena = {0};
	sch__topology_free(st);
	if (!c->n_topology || c->n_topology > SCH_SWITCHES_MAX)
		return;
	st->switch_count = (uint32_t)c->n_topology;
	st->switches = sch__alloc(st, st->switch_count * sizeof(st->switches[0]));
	for (uint32_t i = 0; i < st->node_count; i++)
		st->node[i]->leaf = st->switch_count + 1;
	for (uint32_t i = 0; i < st->switch_count; i++) {
		if (c->topology[i]->switches && *c->topology[i]->switches)
			continue;
		mu_bits_set(&st->switches[i].leaves, i + 1);
		place_nodes(st, c->topology[i]->nodes, i + 1, &arena);
	}
	/* A level at a time: as many rounds as there are levels. */
	bool more = true;
	for (uint32_t round = 0; more && round < SCH_SWITCH_LEVELS; round++) {
		more = false;
		for (uint32_t i = 0; i < st->switch_count; i++)
			more = gather(st, c, i, &arena) || more;
	}
	mu_arena_free(&arena);
}

void sch__topology_derive(struct sch_state *st)
{
	bool was = st->switch_count > 0;
	draw(st);
	if (was || st->switch_count)
		wait_again(st);
}

int64_t sch__switch_moment(const struct sch_state *st, const struct sch_job *j)
{
	int64_t most = st->config.switch_wait_sec, asked = j->shape->switches_wait_sec;
	if (!st->switch_count || !j->shape->switches)
		return 0;
	return j->eligible_usec + (asked && asked < most ? asked : most) * SCH_USEC;
}

void sch__switch_wait_in(struct sch_state *st, struct sch_job *j)
{
	uint8_t key[12];
	int64_t at = sch__switch_moment(st, j);
	if (at <= st->cluster->last_tick_usec)
		return;
	j->switch_key = at;
	sch__pair_key(key, at, j->id);
	mu_map_put(&st->switch_waits, key, sizeof(key), j);
}

void sch__switch_wait_out(struct sch_state *st, struct sch_job *j)
{
	uint8_t key[12];
	if (!j->switch_key)
		return;
	sch__pair_key(key, j->switch_key, j->id);
	mu_map_del(&st->switch_waits, key, sizeof(key));
	j->switch_key = 0;
}

void sch__switch_waits_end(struct sch_ev *ev)
{
	for (uint32_t i = 0; i < SCH_BEGIN_PER_TICK; i++) {
		const uint8_t *key = NULL;
		size_t len = 0;
		struct sch_job *j = mu_map_seek(&ev->st->switch_waits, NULL, 0, 0, &key, &len);
		if (!j || j->switch_key > ev->now)
			return;
		sch__switch_wait_out(ev->st, j);
		sch__wake(ev->st);
	}
}
