/* proto/layout/bind.c: CPUs for tasks. See bind.h. */
#include "proto/layout/bind.h"

#include <string.h>
#include <strings.h>

#include "proto/units.h"

enum { MAX_LIST = 4096, MAX_CPU = 65535 };

/* ---- masks as text ---- */

void mu_mask_print(const struct mu_bits *mask, struct mu_buf *out)
{
	uint32_t words = mask->words;
	while (words > 1 && !mask->word[words - 1])
		words--;
	mu_buf_printf(out, "0x%llX", words ? (unsigned long long)mask->word[words - 1] : 0ULL);
	while (words-- > 1)
		mu_buf_printf(out, "%016llX", (unsigned long long)mask->word[words - 1]);
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)(c | 32);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int mu_mask_parse(const char *text, size_t len, struct mu_bits *ret)
{
	struct mu_bits out = {0};
	if (len > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
		text += 2;
		len -= 2;
	}
	if (!len || len > (MAX_CPU + 1) / 4)
		return MU_ESYNTAX;
	for (size_t i = 0; i < len; i++) {
		int v = hex_value(text[len - 1 - i]);
		if (v < 0) {
			mu_bits_free(&out);
			return MU_ESYNTAX;
		}
		for (uint32_t k = 0; k < 4; k++)
			if (v >> k & 1)
				mu_bits_set(&out, (uint32_t)i * 4 + k);
	}
	*ret = out;
	return 0;
}

/* ---- --cpu-bind ---- */

void mu_bind_free(struct mu_bind *bind)
{
	if (!bind || !bind->mask)
		return;
	for (size_t i = 0; i < bind->count; i++)
		mu_bits_free(&bind->mask[i]);
	bind->mask = NULL;
	bind->count = 0;
}

/* One entry "VALUE[*TIMES]" of a list. */
static bool take_entry(const char *p, size_t len, struct mu_bind *out)
{
	char word[24];
	int64_t times = 1, cpu = 0;
	const char *star = memchr(p, '*', len);
	size_t value_len = star ? (size_t)(star - p) : len;
	if (star) {
		size_t n = len - value_len - 1;
		if (!n || n >= sizeof(word))
			return false;
		memcpy(word, star + 1, n);
		word[n] = 0;
		if (mu_number_parse("", word, 1, MAX_LIST, &times, NULL))
			return false;
	}
	if (out->kind == MU_BIND_MAP) {
		if (!value_len || value_len >= sizeof(word))
			return false;
		memcpy(word, p, value_len);
		word[value_len] = 0;
		if (mu_number_parse("", word, 0, MAX_CPU, &cpu, NULL))
			return false;
	}
	for (int64_t i = 0; i < times; i++) {
		if (out->count == MAX_LIST)
			return false;
		if (out->kind == MU_BIND_MAP)
			out->map[out->count] = (uint32_t)cpu;
		else if (mu_mask_parse(p, value_len, &out->mask[out->count]))
			return false;
		out->count++;
	}
	return true;
}

static bool take_list(const char *p, struct mu_arena *arena, struct mu_bind *out)
{
	if (out->kind == MU_BIND_MAP)
		out->map = mu_arena_alloc(arena, MAX_LIST * sizeof(*out->map));
	else
		out->mask = mu_arena_alloc(arena, MAX_LIST * sizeof(*out->mask));
	while (1) {
		size_t len = strcspn(p, ",");
		if (!take_entry(p, len, out))
			return false;
		p += len;
		if (!*p)
			return true;
		p++;
	}
}

bool mu_bind_list_parse(const char *list, bool masks, struct mu_arena *arena, struct mu_bind *ret)
{
	ret->kind = masks ? MU_BIND_MASK : MU_BIND_MAP;
	return take_list(list, arena, ret);
}

static bool take_kind(const char *p, struct mu_arena *arena, struct mu_bind *out)
{
	static const struct {
		const char *word;
		enum mu_bind_kind kind;
	} words[] = {
	    {"none", MU_BIND_NONE},	  {"no", MU_BIND_NONE},		{"rank", MU_BIND_RANK},
	    {"threads", MU_BIND_THREADS}, {"thread", MU_BIND_THREADS},	{"cores", MU_BIND_CORES},
	    {"core", MU_BIND_CORES},	  {"sockets", MU_BIND_SOCKETS}, {"socket", MU_BIND_SOCKETS},
	    {"ldoms", MU_BIND_SOCKETS},	  {"ldom", MU_BIND_SOCKETS},	{"rank_ldom", MU_BIND_RANK_LDOM},
	    {"boards", MU_BIND_SOCKETS}};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcasecmp(p, words[i].word)) {
			out->kind = words[i].kind;
			return true;
		}
	bool map = !strncasecmp(p, "map_", 4), ldom;
	if (!map && strncasecmp(p, "mask_", 5))
		return false;
	p += map ? 4 : 5;
	ldom = !strncasecmp(p, "ldom:", 5);
	if (!ldom && strncasecmp(p, "cpu:", 4))
		return false;
	bool good = mu_bind_list_parse(p + (ldom ? 5 : 4), !map, arena, out);
	if (ldom)
		out->kind = map ? MU_BIND_MAP_LDOM : MU_BIND_MASK_LDOM;
	return good;
}

int mu_bind_parse(const char *text, struct mu_arena *arena, struct mu_bind *ret, struct mu_err *err)
{
	struct mu_bind out = {0};
	bool good = *text;
	for (const char *p = text; *p && good;) {
		size_t len = strcspn(p, ",");
		if ((len == 5 && !strncasecmp(p, "quiet", 5)) || (len == 1 && (*p | 32) == 'q')) {
			out.verbose = false;
		} else if ((len == 7 && !strncasecmp(p, "verbose", 7)) || (len == 1 && (*p | 32) == 'v')) {
			out.verbose = true;
		} else { /* The kind is the last word; its list has commas of its own. */
			good = take_kind(p, arena, &out);
			break;
		}
		p += len;
		if (*p == ',' && !*++p)
			good = false;
	}
	if (!good) {
		mu_bind_free(&out);
		return mu_fail(err, MU_EINVAL,
			       "\"%.80s\" is no CPU binding; write none, rank, threads, cores, sockets, "
			       "ldoms, rank_ldom, map_cpu:CPU,..., mask_cpu:MASK,..., map_ldom:SOCKET,... or "
			       "mask_ldom:MASK,..., with quiet, or verbose, before it",
			       text);
	}
	*ret = out;
	return 0;
}

/* ---- masks for tasks ---- */

struct giver {
	const struct mu_cpu_shape *shape;
	const struct mu_bits *allowed;
	struct mu_bits left; /* not yet given out */
	uint32_t socket;     /* whose turn it is */
	uint32_t unit;	     /* CPUs given out together: 1 or a core's threads */
};

static uint32_t socket_cpus(const struct giver *g)
{
	return g->shape->cores * g->shape->threads;
}

/* First unit with a CPU left at or behind FROM and below END; UINT32_MAX when there is none. */
static uint32_t find_unit(const struct giver *g, uint32_t from, uint32_t end)
{
	uint32_t cpu = mu_bits_next(&g->left, from);
	return cpu < end ? cpu / g->unit : UINT32_MAX;
}

static uint32_t left_in(const struct giver *g, uint32_t socket)
{
	uint32_t n = 0, last = UINT32_MAX, end = (socket + 1) * socket_cpus(g);
	for (uint32_t cpu = mu_bits_next(&g->left, socket * socket_cpus(g)); cpu < end;
	     cpu = mu_bits_next(&g->left, cpu + 1)) {
		n += cpu / g->unit != last;
		last = cpu / g->unit;
	}
	return n;
}

static void give_unit(struct giver *g, uint32_t unit, struct mu_bits *task)
{
	for (uint32_t cpu = unit * g->unit; cpu < (unit + 1) * g->unit; cpu++) {
		if (mu_bits_test(&g->left, cpu))
			mu_bits_set(task, cpu);
		mu_bits_clear(&g->left, cpu);
	}
}

/* Takes one unit from the socket whose turn it is, or the next one that has any; begins again when all is
 * given out. */
static void take_unit(struct giver *g, struct mu_bits *task)
{
	uint32_t width = socket_cpus(g);
	if (mu_bits_next(&g->left, 0) == UINT32_MAX)
		mu_bits_copy(&g->left, g->allowed);
	for (uint32_t i = 0; i < g->shape->sockets; i++) {
		uint32_t s = (g->socket + i) % g->shape->sockets;
		uint32_t unit = find_unit(g, s * width, (s + 1) * width);
		if (unit == UINT32_MAX)
			continue;
		g->socket = s;
		give_unit(g, unit, task);
		return;
	}
}

static void give_task(struct giver *g, uint32_t units, enum mu_spread spread, struct mu_bits *task)
{
	if (spread == MU_SPREAD_BLOCK)
		g->socket = 0;
	else if (spread != MU_SPREAD_FCYCLIC) /* A socket that holds the whole task, where there is one. */
		for (uint32_t i = 0; i < g->shape->sockets; i++) {
			uint32_t s = (g->socket + i) % g->shape->sockets;
			if (left_in(g, s) < units)
				continue;
			g->socket = s;
			break;
		}
	for (uint32_t k = 0; k < units; k++) {
		take_unit(g, task);
		if (spread == MU_SPREAD_FCYCLIC)
			g->socket = (g->socket + 1) % g->shape->sockets;
	}
	if (spread != MU_SPREAD_FCYCLIC)
		g->socket = (g->socket + 1) % g->shape->sockets;
}

static void widen_to_sockets(const struct giver *g, struct mu_bits *task)
{
	uint32_t width = socket_cpus(g);
	for (uint32_t s = 0; s < g->shape->sockets; s++) {
		if (mu_bits_next(task, s * width) >= (s + 1) * width)
			continue;
		for (uint32_t cpu = s * width; cpu < (s + 1) * width; cpu++)
			if (mu_bits_test(g->allowed, cpu))
				mu_bits_set(task, cpu);
	}
}

static void give_listed(const struct mu_bind *bind, const struct mu_bits *allowed, uint32_t task,
			struct mu_bits *ret)
{
	if (bind->kind == MU_BIND_MAP) {
		uint32_t cpu = bind->map[task % bind->count];
		if (mu_bits_test(allowed, cpu))
			mu_bits_set(ret, cpu);
		return;
	}
	const struct mu_bits *mask = &bind->mask[task % bind->count];
	for (uint32_t cpu = mu_bits_next(mask, 0); cpu != UINT32_MAX; cpu = mu_bits_next(mask, cpu + 1))
		if (mu_bits_test(allowed, cpu))
			mu_bits_set(ret, cpu);
}

static void give_sockets(const struct giver *g, const struct mu_bind *bind, uint32_t task,
			 struct mu_bits *ret)
{
	uint32_t width = socket_cpus(g);
	for (uint32_t s = 0; s < g->shape->sockets; s++) {
		bool wanted = bind->kind == MU_BIND_RANK_LDOM ? task % g->shape->sockets == s
			      : bind->kind == MU_BIND_MAP_LDOM
				  ? bind->map[task % bind->count] == s
				  : mu_bits_test(&bind->mask[task % bind->count], s);
		for (uint32_t cpu = s * width; wanted && cpu < (s + 1) * width; cpu++)
			if (mu_bits_test(g->allowed, cpu))
				mu_bits_set(ret, cpu);
	}
	/* A rank whose socket gives the step nothing is not to be left without a CPU. */
	if (bind->kind == MU_BIND_RANK_LDOM && mu_bits_next(ret, 0) == UINT32_MAX)
		mu_bits_copy(ret, g->allowed);
}

static int give_all(struct giver *g, uint32_t tasks, uint32_t cpus, const struct mu_bind *bind,
		    enum mu_spread spread, struct mu_bits *ret, struct mu_err *err)
{
	uint32_t count = mu_bits_count(g->allowed), at = 0;
	for (uint32_t t = 0; t < tasks; t++) {
		switch (bind->kind) {
		case MU_BIND_NONE:
			mu_bits_copy(&ret[t], g->allowed);
			break;
		case MU_BIND_RANK:
			if (t % count == 0)
				at = 0;
			at = mu_bits_next(g->allowed, at);
			mu_bits_set(&ret[t], at++);
			break;
		case MU_BIND_RANK_LDOM:
			give_sockets(g, bind, t, &ret[t]);
			break;
		case MU_BIND_MAP:
		case MU_BIND_MASK:
		case MU_BIND_MAP_LDOM:
		case MU_BIND_MASK_LDOM:
			if (bind->kind == MU_BIND_MAP || bind->kind == MU_BIND_MASK)
				give_listed(bind, g->allowed, t, &ret[t]);
			else
				give_sockets(g, bind, t, &ret[t]);
			if (mu_bits_next(&ret[t], 0) == UINT32_MAX)
				return mu_fail(err, MU_EINVAL,
					       "--cpu-bind gives task %u no CPU that the step has", t);
			break;
		default:
			give_task(g, (cpus + g->unit - 1) / g->unit, spread, &ret[t]);
			if (bind->kind == MU_BIND_SOCKETS)
				widen_to_sockets(g, &ret[t]);
		}
	}
	return 0;
}

int mu_bind_masks(const struct mu_cpu_shape *shape, const struct mu_bits *allowed, uint32_t tasks,
		  uint32_t cpus_per_task, const struct mu_bind *bind, enum mu_spread spread,
		  struct mu_bits *ret, struct mu_err *err)
{
	static const struct mu_bind by_default = {.kind = MU_BIND_DEFAULT};
	if (!bind)
		bind = &by_default;
	struct giver g = {
	    .shape = shape, .allowed = allowed, .unit = bind->kind == MU_BIND_CORES ? shape->threads : 1};
	uint64_t all = (uint64_t)shape->sockets * shape->cores * shape->threads;
	uint32_t last = UINT32_MAX;
	for (uint32_t cpu = mu_bits_next(allowed, 0); cpu != UINT32_MAX; cpu = mu_bits_next(allowed, cpu + 1))
		last = cpu;
	if (last == UINT32_MAX || last >= all || all > MAX_CPU + 1)
		return mu_fail(err, MU_EINVAL,
			       last == UINT32_MAX ? "the step has no CPUs on the node"
						  : "the step has CPUs that the node lacks");
	uint32_t cpus = cpus_per_task ? cpus_per_task : 1, count = mu_bits_count(allowed);
	if (cpus > count)
		cpus = count;
	mu_bits_copy(&g.left, allowed);
	int rc = give_all(&g, tasks, cpus, bind, spread, ret, err);
	mu_bits_free(&g.left);
	return rc;
}
