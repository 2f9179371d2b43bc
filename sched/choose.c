/* sched/choose.c: which nodes a job gets, of those with room. By default the first ones in order of weight
 * and configuration that do, the roomiest where the first would be too many; the emptiest, the evenest,
 * neighbours, or those below the fewest switches where the job or the configuration says so. Nothing here
 * depends on time or on other jobs: only on what the overlay says is taken. */
#include "sched/state.h"

#include <assert.h>
#include <stdlib.h>

struct goal {
	uint32_t tasks, gpus, min, max;
	uint32_t want; /* nodes, where that many can be had */
	uint32_t each; /* tasks of each node, whatever the number of nodes; 0: tasks are dealt out */
};
struct search {
	const struct sch_need *need;
	const struct sch_overlay *o;
	const struct mu_bits *candidates, *required;
	uint64_t *steps;
	struct goal goal;
	struct sch_pick *pick;
	uint32_t count, fixed; /* fixed: the first ones that cannot be given up */
	uint32_t passed;       /* nodes that were told by their CPUs alone */
	uint64_t tasks, gpus;
};

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static struct goal goal_of(const struct sch_need *need)
{
	const struct sch_shape *s = need->shape;
	struct goal g = {.tasks = s->ntasks > s->nodes_min ? s->ntasks : s->nodes_min,
			 .gpus = s->job_gpus,
			 .min = s->nodes_min,
			 .max = s->nodes_max ? s->nodes_max : UINT32_MAX};
	if (need->max_nodes && g.max > need->max_nodes)
		g.max = need->max_nodes > g.min ? need->max_nodes : g.min;
	if (g.gpus)
		g.max = least(g.max, g.gpus);
	g.want = g.min;
	if (s->grows)
		g.each = s->tasks_per_node ? s->tasks_per_node : 1;
	if (s->spread || (s->nodes_max > s->nodes_min && !s->fewest))
		g.want = s->grows ? g.max : least(g.max, g.tasks);
	return g;
}

/* ---- order ---- */

static int by_room(const void *a, const void *b)
{
	const struct sch_pick *x = a, *y = b;
	if (x->gpus != y->gpus)
		return x->gpus > y->gpus ? -1 : 1;
	if (x->tasks != y->tasks)
		return x->tasks > y->tasks ? -1 : 1;
	return x->node->rank < y->node->rank ? -1 : x->node->rank > y->node->rank;
}

static int by_idle(const void *a, const void *b)
{
	const struct sch_pick *x = a, *y = b;
	if (x->idle != y->idle)
		return x->idle > y->idle ? -1 : 1;
	return x->node->rank < y->node->rank ? -1 : x->node->rank > y->node->rank;
}

static int by_rank(const void *a, const void *b)
{
	const struct sch_pick *x = a, *y = b;
	return x->node->rank < y->node->rank ? -1 : x->node->rank > y->node->rank;
}

/* ---- adding up ---- */

static bool enough(const struct search *c)
{
	return c->tasks >= c->goal.tasks && c->gpus >= c->goal.gpus && c->count >= c->goal.min &&
	       c->count <= c->goal.max;
}

static bool done(const struct search *c)
{
	return enough(c) && c->count >= c->goal.want;
}

/* What the node could give; nothing where that is less than WANTED tasks and its CPUs tell already. */
static struct sch_pick look(struct search *c, uint32_t rank, uint32_t wanted)
{
	struct sch_node *n = c->o->st->by_rank[rank];
	if (!sch__cpus_reach(c->need, c->o, n, wanted)) {
		*c->steps += ++c->passed % SCH_PASSED_PER_STEP == 0;
		return (struct sch_pick){.node = n};
	}
	struct sch_pick p = sch__fit_in(c->need, c->o, n);
	++*c->steps;
	if (c->goal.each && p.tasks)
		p.tasks = p.tasks >= c->goal.each ? c->goal.each : 0;
	return p;
}

static bool take(struct search *c, uint32_t rank)
{
	struct sch_pick p = look(c, rank, 1);
	if (!p.tasks)
		return false;
	c->pick[c->count++] = p;
	c->tasks += p.tasks;
	c->gpus += p.gpus;
	return true;
}

static bool taken(const struct search *c, uint32_t rank)
{
	for (uint32_t i = 0; i < c->fixed; i++)
		if (c->pick[i].node->rank == rank)
			return true;
	return false;
}

/* Keeps the first picks that do, behind the fixed ones. False: all together do not. */
static bool keep_first(struct search *c)
{
	uint32_t all = c->count;
	c->tasks = c->gpus = c->count = 0;
	while (c->count < all && c->count < c->goal.max && !(c->count >= c->fixed && done(c))) {
		c->tasks += c->pick[c->count].tasks;
		c->gpus += c->pick[c->count].gpus;
		c->count++;
	}
	return enough(c);
}

/* ---- who must be among them ---- */

static bool take_required(struct search *c)
{
	for (uint32_t r = mu_bits_next(c->required, 0); r != UINT32_MAX; r = mu_bits_next(c->required, r + 1))
		if (!mu_bits_test(c->candidates, r) || !take(c, r))
			return false;
	c->fixed = c->count;
	return true;
}

static bool may_lead(const struct search *c, const struct sch_node *n)
{
	return sch__features_match(c->need->shape->batch->text, n, SCH_ANY_CHOICE);
}

/* One of the nodes must be fit to run the script. */
static bool take_leader(struct search *c)
{
	for (uint32_t i = 0; i < c->fixed; i++)
		if (may_lead(c, c->pick[i].node))
			return true;
	for (uint32_t r = mu_bits_next(c->candidates, 0); r != UINT32_MAX;
	     r = mu_bits_next(c->candidates, r + 1))
		if (may_lead(c, c->o->st->by_rank[r]) && !taken(c, r) && take(c, r)) {
			c->fixed = c->count;
			return true;
		}
	return false;
}

/* The script runs on the first. */
static bool put_leader_first(struct search *c)
{
	uint32_t i = 0;
	while (i < c->count && !may_lead(c, c->pick[i].node))
		i++;
	if (i == c->count)
		return false;
	struct sch_pick leader = c->pick[i];
	memmove(c->pick + 1, c->pick, i * sizeof(c->pick[0]));
	c->pick[0] = leader;
	return true;
}

/* So many nodes of each kind that --constraint counts; nodes that are required count as well. */
static bool take_groups(struct search *c, const char *expr, const struct sch_features *kind)
{
	for (uint32_t g = 0; g < kind->groups; g++) {
		uint32_t count = 0, have = 0, wanted = 0;
		for (uint32_t i = 0; i < c->fixed; i++)
			have += sch__features_group(expr, g, c->pick[i].node, &count);
		for (uint32_t r = mu_bits_next(c->candidates, 0); r != UINT32_MAX;
		     r = mu_bits_next(c->candidates, r + 1)) {
			bool in = sch__features_group(expr, g, c->o->st->by_rank[r], &wanted);
			if (have >= wanted)
				break;
			if (in && !taken(c, r) && take(c, r)) {
				c->fixed = c->count;
				have++;
			}
		}
		if (have < wanted)
			return false;
	}
	return true;
}

/* ---- the ways of choosing ---- */

static bool first_fit(struct search *c)
{
	for (uint32_t r = done(c) ? UINT32_MAX : mu_bits_next(c->candidates, 0); r != UINT32_MAX && !done(c);
	     r = mu_bits_next(c->candidates, r + 1))
		if (!taken(c, r))
			take(c, r);
	if (enough(c))
		return true;
	if (c->count <= c->goal.max)
		return false;
	/* Too many small ones: the roomiest first. */
	qsort(c->pick + c->fixed, c->count - c->fixed, sizeof(c->pick[0]), by_room);
	return keep_first(c);
}

static void take_all(struct search *c)
{
	for (uint32_t r = mu_bits_next(c->candidates, 0); r != UINT32_MAX;
	     r = mu_bits_next(c->candidates, r + 1))
		if (!taken(c, r))
			take(c, r);
}

static bool best_of_all(struct search *c, int (*order)(const void *, const void *))
{
	take_all(c);
	qsort(c->pick + c->fixed, c->count - c->fixed, sizeof(c->pick[0]), order);
	if (keep_first(c))
		return true;
	return false;
}

/* Drops picks from the front until COUNT are left. */
static void slide(struct search *c, uint32_t count)
{
	uint32_t drop = c->count - count;
	for (uint32_t i = 0; i < drop; i++) {
		c->tasks -= c->pick[i].tasks;
		c->gpus -= c->pick[i].gpus;
	}
	memmove(c->pick, c->pick + drop, count * sizeof(c->pick[0]));
	c->count = count;
}

/* Neighbours in the order of the configuration, the first that do. */
static bool neighbours(struct search *c)
{
	const struct sch_state *st = c->o->st;
	uint32_t needed = mu_bits_count(c->required), inside = 0;
	for (uint32_t i = 0; i < st->node_count; i++) {
		uint32_t r = st->node[i]->rank;
		if (!mu_bits_test(c->candidates, r) || !take(c, r)) {
			slide(c, 0);
			inside = 0;
			continue;
		}
		inside += mu_bits_test(c->required, r);
		while (c->count > c->goal.max) {
			inside -= mu_bits_test(c->required, c->pick[0].node->rank);
			slide(c, c->count - 1);
		}
		if (enough(c) && inside == needed)
			return true;
	}
	return false;
}

/* ---- below few switches ---- */

/* What the picks below one switch come to. */
struct below {
	uint32_t nodes;
	uint64_t tasks, gpus;
};

static bool does(const struct search *c, const struct below *b, uint32_t nodes, uint64_t tasks, uint64_t gpus)
{
	return b->nodes + nodes >= c->goal.want && b->tasks + tasks >= c->goal.tasks &&
	       b->gpus + gpus >= c->goal.gpus;
}

/* The smallest switch of the lowest level below which all fixed nodes and enough others are; switch_count:
 * none. */
static uint32_t lowest(const struct search *c, const struct below *leaf)
{
	const struct sch_state *st = c->o->st;
	uint32_t best = st->switch_count, best_nodes = UINT32_MAX;
	for (uint32_t i = 0; i < st->switch_count; i++) {
		const struct sch_switch *s = &st->switches[i];
		struct below b = {0};
		bool all = true;
		for (uint32_t k = 0; k < c->fixed; k++)
			all = all && mu_bits_test(&s->leaves, c->pick[k].node->leaf);
		for (uint32_t l = mu_bits_next(&s->leaves, 0); l != UINT32_MAX;
		     l = mu_bits_next(&s->leaves, l + 1)) {
			b.nodes += leaf[l].nodes;
			b.tasks += leaf[l].tasks;
			b.gpus += leaf[l].gpus;
			++*c->steps;
		}
		bool better = best == st->switch_count || s->level < st->switches[best].level ||
			      (s->level == st->switches[best].level && b.nodes < best_nodes);
		if (all && does(c, &b, 0, 0, 0) && better) {
			best = i;
			best_nodes = b.nodes;
		}
	}
	return best;
}

/* Of the leaves not yet used the smallest that does with what there is, else the largest; 0: none is left. */
static uint32_t next_leaf(const struct search *c, const struct below *leaf, const struct mu_bits *used)
{
	uint32_t best = 0;
	bool best_does = false;
	for (uint32_t l = 1; l <= c->o->st->switch_count + 1; l++) {
		if (!leaf[l].nodes || mu_bits_test(used, l))
			continue;
		bool fits = does(c, &leaf[l], c->count, c->tasks, c->gpus);
		bool better = !best || (fits && !best_does) ||
			      (fits == best_does &&
			       (fits ? leaf[l].nodes < leaf[best].nodes : leaf[l].nodes > leaf[best].nodes));
		if (better) {
			best = l;
			best_does = fits;
		}
	}
	return best;
}

/* Leaf after leaf into the picks, from ALL. Returns how many leaves that took. */
static uint32_t leaf_by_leaf(struct search *c, const struct sch_pick *all, uint32_t count, struct below *leaf)
{
	struct mu_bits used = {0};
	uint32_t leaves = 0;
	c->count = 0;
	c->tasks = c->gpus = 0;
	for (uint32_t i = 0; i < c->fixed; i++) {
		uint32_t l = all[i].node->leaf;
		leaves += !mu_bits_test(&used, l) && l;
		mu_bits_set(&used, l);
		c->pick[c->count++] = all[i];
		c->tasks += all[i].tasks;
		c->gpus += all[i].gpus;
	}
	struct mu_bits first = {0}; /* leaves of fixed nodes are filled before others are begun */
	mu_bits_copy(&first, &used);
	for (uint32_t l = mu_bits_next(&first, 1); !done(c);) {
		if (l == UINT32_MAX) {
			l = next_leaf(c, leaf, &used);
			if (!l)
				break;
			leaves++;
			mu_bits_set(&used, l);
		}
		for (uint32_t i = c->fixed; i < count && !done(c) && c->count < c->goal.max; i++) {
			if (all[i].node->leaf != l)
				continue;
			c->pick[c->count++] = all[i];
			c->tasks += all[i].tasks;
			c->gpus += all[i].gpus;
			++*c->steps;
		}
		if (c->count >= c->goal.max)
			break;
		l = mu_bits_next(&first, l) == l ? mu_bits_next(&first, l + 1) : UINT32_MAX;
	}
	mu_bits_free(&first);
	mu_bits_free(&used);
	return leaves;
}

static void add_up(const struct search *c, bool fixed, struct below *leaf)
{
	memset(leaf, 0, (c->o->st->switch_count + 2) * sizeof(leaf[0]));
	for (uint32_t i = fixed ? 0 : c->fixed; i < c->count; i++) {
		leaf[c->pick[i].node->leaf].nodes++;
		leaf[c->pick[i].node->leaf].tasks += c->pick[i].tasks;
		leaf[c->pick[i].node->leaf].gpus += c->pick[i].gpus;
	}
}

static bool few_switches(struct search *c)
{
	const struct sch_state *st = c->o->st;
	take_all(c);
	struct sch_pick *all = calloc(c->count + 1, sizeof(all[0]));
	struct below *leaf = calloc(st->switch_count + 2, sizeof(leaf[0]));
	if (!all || !leaf)
		abort();
	add_up(c, true, leaf);
	uint32_t top = lowest(c, leaf), count = 0, most = c->need->switches;
	for (uint32_t i = 0; i < c->count; i++)
		if (i < c->fixed || top == st->switch_count ||
		    mu_bits_test(&st->switches[top].leaves, c->pick[i].node->leaf))
			all[count++] = c->pick[i];
	memcpy(c->pick, all, count * sizeof(all[0]));
	c->count = count;
	add_up(c, false, leaf);
	uint32_t leaves = leaf_by_leaf(c, all, count, leaf);
	free(all);
	free(leaf);
	if (enough(c) && (!most || leaves <= most))
		return true;
	if (most)
		return false;
	c->count = c->fixed; /* Of small nodes too many: the roomiest, wherever they are. */
	return best_of_all(c, by_room);
}

/* The first node that takes all alone; *hint moves past nodes that cannot, which stay so within a pass. */
static bool alone(struct search *c, uint32_t *hint)
{
	for (uint32_t r = mu_bits_next(c->candidates, hint ? *hint : 0); r != UINT32_MAX;
	     r = mu_bits_next(c->candidates, r + 1)) {
		struct sch_pick p = look(c, r, c->goal.each ? 1 : c->goal.tasks);
		if (hint)
			*hint = r;
		if (p.tasks >= c->goal.tasks && p.gpus >= c->goal.gpus && p.tasks) {
			c->pick[c->count++] = p;
			c->tasks = p.tasks;
			c->gpus = p.gpus;
			return true;
		}
	}
	if (hint)
		*hint = UINT32_MAX;
	return false;
}

/* pack_serial_at_end: the last node that takes a job of one CPU. */
static bool last(struct search *c)
{
	for (uint32_t r = c->o->st->node_count; r-- > 0;)
		if (mu_bits_test(c->candidates, r) && take(c, r)) {
			if (enough(c))
				return true;
			slide(c, 0);
		}
	return false;
}

/* ---- what each gets ---- */

/* Turns what each chosen node could take into what it gets: at least one task each, the first ones filled. */
static bool deal(struct search *c)
{
	uint32_t tasks = c->goal.tasks, gpus = c->goal.gpus;
	for (uint32_t i = 0; i < c->count; i++) {
		uint32_t later = c->count - 1 - i;
		if (!c->goal.each)
			c->pick[i].tasks = least(c->pick[i].tasks, tasks > later ? tasks - later : 1);
		tasks -= least(tasks, c->pick[i].tasks);
		c->pick[i].gpus = least(c->pick[i].gpus, gpus > later ? gpus - later : 1);
		gpus -= least(gpus, c->pick[i].gpus);
	}
	return !tasks && !gpus;
}

/* The same, as evenly as the nodes allow. Each round fills one node at least, or is the last. */
static bool deal_evenly(struct search *c, struct mu_bits *full)
{
	uint32_t left = c->goal.tasks, open = c->count;
	uint32_t *most = calloc(c->count + 1, sizeof(most[0]));
	if (!most)
		abort();
	for (uint32_t i = 0; i < c->count; i++) {
		most[i] = c->pick[i].tasks;
		c->pick[i].tasks = 0;
	}
	while (left && open) {
		uint32_t share = left / open, extra = left % open;
		for (uint32_t i = 0; i < c->count && left; i++) {
			uint32_t more = share + (extra > 0), room = most[i] - c->pick[i].tasks;
			if (mu_bits_test(full, i))
				continue;
			extra -= extra > 0;
			more = least(least(more, room), left);
			c->pick[i].tasks += more;
			left -= more;
			if (c->pick[i].tasks == most[i]) {
				mu_bits_set(full, i);
				open--;
			}
		}
	}
	free(most);
	return !left;
}

static bool deal_out(struct search *c)
{
	qsort(c->pick, c->count, sizeof(c->pick[0]), by_rank);
	if (!c->need->shape->spread || c->goal.each)
		return deal(c);
	struct mu_bits full = {0};
	uint32_t tasks = c->goal.tasks;
	c->goal.tasks = tasks > c->count ? tasks : c->count;
	bool ok = deal_evenly(c, &full);
	mu_bits_free(&full);
	uint32_t gpus = c->goal.gpus;
	for (uint32_t i = 0; i < c->count; i++) {
		uint32_t later = c->count - 1 - i;
		c->pick[i].gpus = least(c->pick[i].gpus, gpus > later ? gpus - later : 1);
		gpus -= least(gpus, c->pick[i].gpus);
	}
	return ok && !gpus;
}

/* ---- all together ---- */

static bool fill(struct search *c, uint32_t *hint)
{
	const struct sch_shape *s = c->need->shape;
	if (s->contiguous)
		return neighbours(c);
	if (!take_required(c) || c->count > c->goal.max)
		return false;
	if (s->batch && (!take_leader(c) || c->count > c->goal.max))
		return false;
	if (s->features && s->feature_kind.groups &&
	    (!take_groups(c, s->features->text, &s->feature_kind) || c->count > c->goal.max))
		return false;
	if (s->spread)
		return best_of_all(c, by_room);
	if (c->need->emptiest)
		return best_of_all(c, by_idle);
	if (!c->fixed && s->ntasks == 1 && s->cpus_per_task == 1 && s->nodes_min == 1 &&
	    c->o->st->config.serial_at_end)
		return last(c);
	if (!c->fixed && c->goal.min <= 1 && c->goal.want <= 1) {
		if ((!hint || *hint != UINT32_MAX) && alone(c, hint))
			return true;
		if ((c->goal.tasks == 1 && c->goal.gpus <= 1) || c->goal.max == 1)
			return false;
	}
	return c->o->st->switch_count ? few_switches(c) : first_fit(c);
}

/* The candidates that have the CHOICE-th of the features of which all nodes must have the same. */
static void narrow(const struct search *c, const char *expr, uint32_t choice, struct mu_bits *ret)
{
	const uint8_t *key = NULL;
	size_t len = 0;
	const struct mu_map *classes = &c->o->st->classes;
	for (const struct sch_class *k = mu_map_seek(classes, NULL, 0, 0, &key, &len); k;
	     k = mu_map_seek(classes, key, len, 1, &key, &len))
		if (sch__features_match(expr, k->sample, choice))
			mu_bits_or(ret, &k->nodes);
	for (uint32_t i = 0; i < ret->words; i++)
		ret->word[i] &= i < c->candidates->words ? c->candidates->word[i] : 0;
}

/* Those of the candidates that have what the job prefers, in SOME. */
static void prefer(struct search *c, struct mu_bits *some)
{
	struct mu_bits liked = {0};
	narrow(c, c->need->shape->prefer->text, SCH_ANY_CHOICE, &liked);
	mu_bits_free(some);
	*some = liked;
	c->candidates = some;
}

static uint32_t choose(const struct sch_need *need, const struct sch_overlay *o,
		       const struct mu_bits *candidates, const struct mu_bits *required, uint32_t *hint,
		       uint64_t *steps, struct sch_pick *ret)
{
	const struct sch_shape *s = need->shape;
	uint32_t choices = s->features ? s->feature_kind.choices : 0, each = choices ? choices : 1, count = 0;
	/* With a preference all is tried twice: among the nodes that have it first. */
	for (uint32_t k = s->prefer ? 0 : each; k < 2 * each && !count; k++) {
		uint32_t i = k % each;
		struct search c = {.need = need,
				   .o = o,
				   .candidates = candidates,
				   .required = required,
				   .steps = steps,
				   .goal = goal_of(need),
				   .pick = ret};
		struct mu_bits some = {0};
		if (choices) {
			narrow(&c, s->features->text, i, &some);
			c.candidates = &some;
		}
		if (k < each)
			prefer(&c, &some);
		if (fill(&c, choices || s->prefer ? NULL : hint) && deal_out(&c) &&
		    (!s->batch || put_leader_first(&c)))
			count = c.count;
		mu_bits_free(&some);
	}
	return count;
}

/* Who shares goes where it has its CPUs alone, on whichever nodes, else where the fewest are that it shares
 * with: one by one up to so many. */
uint32_t sch__choose(const struct sch_need *need, const struct sch_overlay *o,
		     const struct mu_bits *candidates, const struct mu_bits *required, uint32_t *hint,
		     uint64_t *steps, struct sch_pick *ret)
{
	uint32_t count = choose(need, o, candidates, required, hint, steps, ret), fewer = 0;
	struct sch_need alone = *need;
	if (!count || need->share_full <= 1)
		return count;
	for (uint32_t n = 1; n < need->share && n <= SCH_SHARE_TRIES && !fewer; n++) {
		alone.share = n;
		fewer = choose(&alone, o, candidates, required, NULL, steps, ret);
	}
	return fewer ? fewer : choose(need, o, candidates, required, NULL, steps, ret);
}

/* Where sums over kinds of nodes do not tell: neighbours, and kinds that are counted. */
int sch__possible(const struct sch_state *st, const struct sch_need *need, const struct mu_bits *nodes,
		  const struct mu_bits *required)
{
	const struct sch_shape *s = need->shape;
	if (!s->contiguous && !(s->features && s->feature_kind.groups))
		return 0;
	struct sch_gres_room none[SCH_GRES_PER_NODE] = {0};
	struct sch_room empty = {.gres = none};
	struct sch_overlay o = {.st = st, .room = calloc(st->node_count + 1, sizeof(o.room[0]))};
	struct sch_pick *pick = calloc(st->node_count + 1, sizeof(pick[0]));
	uint64_t steps = 0;
	if (!o.room || !pick)
		abort();
	for (uint32_t i = 0; i < st->node_count; i++)
		o.room[i] = &empty;
	struct sch_need by_itself = *need; /* Nobody else is there. */
	by_itself.careful = false;
	uint32_t count = sch__choose(&by_itself, &o, nodes, required, NULL, &steps, pick);
	free(pick);
	free(o.room);
	return count ? 0 : MU_ENODECONFIG;
}
