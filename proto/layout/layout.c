/* proto/layout/layout.c: tasks to nodes. See layout.h. */
#include "proto/layout/layout.h"

#include <string.h>
#include <strings.h>

#include "proto/units.h"

/* ---- --distribution ---- */

static bool take_spread(const char *p, size_t len, bool over_nodes, enum mu_spread *ret)
{
	static const struct {
		const char *word;
		enum mu_spread spread;
	} words[] = {{"*", MU_SPREAD_DEFAULT},
		     {"block", MU_SPREAD_BLOCK},
		     {"cyclic", MU_SPREAD_CYCLIC},
		     {"arbitrary", MU_SPREAD_ARBITRARY},
		     {"fcyclic", MU_SPREAD_FCYCLIC}};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strlen(words[i].word) != len || strncasecmp(words[i].word, p, len))
			continue;
		*ret = words[i].spread;
		return over_nodes ? *ret != MU_SPREAD_FCYCLIC : *ret != MU_SPREAD_ARBITRARY;
	}
	return false;
}

static bool take_plane(const char *p, size_t len, uint32_t *ret)
{
	char digits[12];
	int64_t n;
	if (len < 7 || len - 6 >= sizeof(digits) || strncasecmp(p, "plane=", 6))
		return false;
	memcpy(digits, p + 6, len - 6);
	digits[len - 6] = 0;
	if (mu_number_parse("", digits, 1, MU_LAYOUT_MAX_TASKS, &n, NULL))
		return false;
	*ret = (uint32_t)n;
	return true;
}

/* NODES[:SOCKETS[:CORES]] of LEN bytes. */
static bool take_levels(const char *p, size_t len, struct mu_distribution *out)
{
	enum mu_spread *const level[] = {&out->nodes, &out->sockets, &out->cores};
	for (int i = 0; i < 3; i++) {
		const char *colon = memchr(p, ':', len);
		size_t n = colon ? (size_t)(colon - p) : len;
		if (i == 0 && take_plane(p, n, &out->plane))
			out->nodes = MU_SPREAD_PLANE;
		else if (!take_spread(p, n, i == 0, level[i]))
			return false;
		if (!colon)
			return true;
		p += n + 1;
		len -= n + 1;
	}
	return false;
}

int mu_distribution_parse(const char *text, struct mu_distribution *ret, struct mu_err *err)
{
	struct mu_distribution out = {0};
	bool good = *text, levels = false;
	for (const char *p = text; *p && good;) {
		size_t len = strcspn(p, ",");
		if (len == 4 && !strncasecmp(p, "pack", 4))
			out.pack = true;
		else if (len == 6 && !strncasecmp(p, "nopack", 6))
			out.nopack = true;
		else if (levels)
			good = false;
		else
			good = levels = take_levels(p, len, &out);
		p += len;
		if (*p == ',' && !*++p)
			good = false;
	}
	if (!good || (out.pack && out.nopack))
		return mu_fail(err, MU_EINVAL,
			       "\"%.80s\" is no distribution of tasks; write block, cyclic, plane=SIZE, "
			       "arbitrary or *, then :block, :cyclic or :fcyclic "
			       "for sockets and cores, then ,Pack or ,NoPack",
			       text);
	*ret = out;
	return 0;
}

/* ---- placing ---- */

/* How many tasks each node may take; overcommit begins a new round of the same when all are full. */
static uint64_t capacities(const struct mu_layout_ask *ask, uint32_t *room)
{
	uint32_t each = ask->cpus_per_task ? ask->cpus_per_task : 1;
	uint64_t sum = 0;
	for (uint32_t i = 0; i < ask->nodes; i++) {
		room[i] = ask->cpus[i] / each;
		if (ask->overcommit && !room[i])
			room[i] = 1;
		if (ask->tasks_per_node && room[i] > ask->tasks_per_node)
			room[i] = ask->tasks_per_node;
		if (ask->overcommit && ask->tasks_per_node)
			room[i] = ask->tasks_per_node;
		sum += room[i];
	}
	return sum;
}

static uint32_t later_nodes(const uint32_t *room, uint32_t from, uint32_t nodes)
{
	uint32_t n = 0;
	for (uint32_t i = from; i < nodes; i++)
		n += room[i] > 0;
	return n;
}

static void place_block(const struct mu_layout_ask *ask, const uint32_t *room, struct mu_layout *out)
{
	uint32_t left = ask->tasks;
	bool first = true;
	for (; left; first = false) { /* More than one round only with overcommit. */
		uint32_t later = later_nodes(room, 0, ask->nodes);
		for (uint32_t i = 0; i < ask->nodes && left; i++) {
			if (!room[i])
				continue;
			later--;
			uint32_t keep = !first ? 0 : later < left ? later : left - 1;
			uint32_t take = room[i] < left - keep ? room[i] : left - keep;
			out->tasks_on[i] += take;
			left -= take;
		}
	}
	uint32_t task = 0;
	for (uint32_t i = 0; i < ask->nodes; i++)
		for (uint32_t k = 0; k < out->tasks_on[i]; k++)
			out->node_of[task++] = i;
}

/* CHUNK tasks to each node in turn. */
static void place_cyclic(const struct mu_layout_ask *ask, const uint32_t *room, uint32_t chunk,
			 struct mu_layout *out)
{
	uint32_t task = 0;
	for (uint64_t rounds = 1; task < ask->tasks; rounds++) {
		bool moved = true;
		while (moved && task < ask->tasks) {
			moved = false;
			for (uint32_t i = 0; i < ask->nodes; i++)
				for (uint32_t k = 0;
				     k < chunk && task < ask->tasks && out->tasks_on[i] < room[i] * rounds;
				     k++) {
					out->node_of[task++] = i;
					out->tasks_on[i]++;
					moved = true;
				}
		}
	}
}

/* Neighbouring tasks share a node, of which none has more than it must. */
static void place_evenly(const struct mu_layout_ask *ask, const uint32_t *room, struct mu_layout *out)
{
	uint32_t task = 0;
	place_cyclic(ask, room, 1, out);
	for (uint32_t i = 0; i < ask->nodes; i++)
		for (uint32_t k = 0; k < out->tasks_on[i]; k++)
			out->node_of[task++] = i;
}

static int place_arbitrary(const struct mu_layout_ask *ask, struct mu_layout *out, struct mu_err *err)
{
	for (uint32_t t = 0; t < ask->tasks; t++) {
		if (!ask->host || ask->host[t] >= ask->nodes)
			return mu_fail(err, MU_EINVAL,
				       "an arbitrary distribution needs a list of hosts with a node of the "
				       "job for each of the %u tasks",
				       ask->tasks);
		out->node_of[t] = ask->host[t];
		out->tasks_on[ask->host[t]]++;
	}
	return 0;
}

int mu_layout_make(const struct mu_layout_ask *ask, struct mu_arena *arena, struct mu_layout *ret,
		   struct mu_err *err)
{
	if (!ask->nodes || !ask->tasks)
		return mu_fail(err, MU_EINVAL, "there must be at least one task and one node");
	if (ask->tasks > MU_LAYOUT_MAX_TASKS || ask->nodes > MU_LAYOUT_MAX_TASKS)
		return mu_fail(err, MU_ELIMIT, "%u tasks are more than the %d that a step may have",
			       ask->tasks, MU_LAYOUT_MAX_TASKS);
	struct mu_layout out = {.nodes = ask->nodes, .tasks = ask->tasks};
	out.tasks_on = mu_arena_alloc(arena, ask->nodes * sizeof(uint32_t));
	out.node_of = mu_arena_alloc(arena, ask->tasks * sizeof(uint32_t));
	out.local_of = mu_arena_alloc(arena, ask->tasks * sizeof(uint32_t));
	uint32_t *room = mu_arena_alloc(arena, ask->nodes * sizeof(uint32_t));
	uint64_t sum = capacities(ask, room);
	int rc = 0;
	if (ask->spread == MU_SPREAD_ARBITRARY)
		rc = place_arbitrary(ask, &out, err);
	else if (!sum || (sum < ask->tasks && !(ask->overcommit && !ask->tasks_per_node)))
		rc = mu_fail(err, MU_ECPUCOUNT, "%u tasks do not fit: the nodes have room for %llu",
			     ask->tasks, (unsigned long long)sum);
	else if (ask->spread == MU_SPREAD_CYCLIC)
		place_cyclic(ask, room, 1, &out);
	else if (ask->spread == MU_SPREAD_PLANE)
		place_cyclic(ask, room, ask->plane ? ask->plane : 1, &out);
	else if (ask->even)
		place_evenly(ask, room, &out);
	else
		place_block(ask, room, &out);
	if (rc)
		return rc;
	uint32_t *seen = memset(room, 0, ask->nodes * sizeof(uint32_t));
	for (uint32_t t = 0; t < ask->tasks; t++)
		out.local_of[t] = seen[out.node_of[t]]++;
	*ret = out;
	return 0;
}

/* ---- "4(x2),2" ---- */

void mu_counts_print(const uint32_t *count, size_t n, struct mu_buf *out)
{
	mu_buf_add(out, "", 0);
	for (size_t i = 0, same; i < n; i += same) {
		for (same = 1; i + same < n && count[i + same] == count[i]; same++)
			;
		mu_buf_printf(out, "%s%u", i ? "," : "", count[i]);
		if (same > 1)
			mu_buf_printf(out, "(x%zu)", same);
	}
}

static bool take_number(const char **p, uint64_t *ret)
{
	uint64_t v = 0;
	if (**p < '0' || **p > '9')
		return false;
	for (; **p >= '0' && **p <= '9'; (*p)++) {
		v = v * 10 + (uint64_t)(**p - '0');
		if (v > UINT32_MAX)
			return false;
	}
	*ret = v;
	return true;
}

int mu_counts_parse(const char *text, size_t max, struct mu_arena *arena, uint32_t **ret, size_t *ret_n)
{
	size_t n = 0, cap = 0;
	uint32_t *list = NULL;
	for (const char *p = text; *p;) {
		uint64_t value, times = 1;
		if (!take_number(&p, &value))
			return MU_ESYNTAX;
		if (*p == '(') {
			if (p[1] != 'x')
				return MU_ESYNTAX;
			p += 2;
			if (!take_number(&p, &times) || *p++ != ')')
				return MU_ESYNTAX;
		}
		if (times > max - n)
			return MU_ELIMIT;
		if (n + times > cap) {
			cap = (n + times) * 2;
			uint32_t *grown = mu_arena_alloc(arena, cap * sizeof(*grown));
			if (n)
				memcpy(grown, list, n * sizeof(*grown));
			list = grown;
		}
		for (uint64_t i = 0; i < times; i++)
			list[n++] = (uint32_t)value;
		if (*p == ',' && p[1])
			p++;
		else if (*p)
			return MU_ESYNTAX;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}
