/* proto/conf_fold.c: configurations folded and expanded. See conf_fold.h. A fold is taken only where
 * expanding it gives back what was there, so odd names stay as they are. */
#include "proto/conf_fold.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "proto/hostlist.h"
#include "proto/pb.h"

enum { FOLD_MAX = 100000 };

static bool is_list(const char *text)
{
	return text && strpbrk(text, "[],") != NULL;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_names(char *const *a, size_t count, char *const *b, size_t other)
{
	if (count != other)
		return false;
	for (size_t i = 0; i < count; i++)
		if (!same_text(a[i], b[i]))
			return false;
	return true;
}

/* NAMES as one list; NULL where it would not expand to the same. A stem of one name alone is written as it
 * is. */
static char *fold_names(char *const *names, size_t count, struct mu_arena *arena)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf text = {0};
	struct mu_arena page = {0};
	char **back, *ret = NULL;
	size_t n;

	for (size_t i = 0; i < count; i++)
		if (!names[i] || !*names[i] || is_list(names[i]))
			return NULL;
	mu_hostlist_fold((const char *const *)names, count, &text);
	if (!mu_hostlist_expand((char *)text.data, FOLD_MAX, &page, &back, &n, NULL) &&
	    same_names(names, count, back, n))
		ret = mu_arena_strdup(arena, (char *)text.data);
	mu_arena_free(&page);
	return ret;
}

/* ---- nodes ---- */

/* What must be equal for two nodes to share a line. */
static void rest_of(const Mu__NodeConf *node, struct mu_buf *out)
{
	Mu__NodeConf rest = *node;

	rest.name = rest.addr = rest.hostname = NULL;
	mu_buf_reset(out);
	mu_pb_pack(&rest.base, out);
}

static bool foldable(const Mu__NodeConf *node)
{
	return node->name && *node->name && !is_list(node->name) && !is_list(node->addr) &&
	       !is_list(node->hostname);
}

/* One of the texts of COUNT nodes: for all, or a list, or false when it is neither. Absent must be absent
 * everywhere. */
static bool fold_field(Mu__NodeConf *const *node, size_t count, size_t offset, char **field,
		       struct mu_arena *arena, char **ret)
{
	bool all = true;

	for (size_t i = 0; i < count; i++) {
		field[i] = *(char **)((uint8_t *)node[i] + offset);
		all = all && same_text(field[i], field[0]);
	}
	*ret = all ? field[0] : fold_names(field, count, arena);
	return all || *ret;
}

static Mu__NodeConf *fold_group(Mu__NodeConf *const *node, size_t count, char **field, struct mu_arena *arena)
{
	Mu__NodeConf *one = mu_arena_dup(arena, node[0], sizeof *one);

	if (fold_field(node, count, offsetof(Mu__NodeConf, name), field, arena, &one->name) &&
	    fold_field(node, count, offsetof(Mu__NodeConf, addr), field, arena, &one->addr) &&
	    fold_field(node, count, offsetof(Mu__NodeConf, hostname), field, arena, &one->hostname))
		return one;
	return NULL;
}

static void fold_nodes(const Mu__Config *config, struct mu_arena *arena, Mu__Config *ret)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf first = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf next = {0};
	char **field = mu_arena_alloc(arena, (config->n_node + 1) * sizeof *field);

	ret->node = mu_arena_alloc(arena, (config->n_node + 1) * sizeof *ret->node);
	ret->n_node = 0;
	for (size_t i = 0, end; i < config->n_node; i = end) {
		Mu__NodeConf *one = NULL;

		end = i + 1;
		if (foldable(config->node[i])) {
			rest_of(config->node[i], &first);
			for (; end < config->n_node && foldable(config->node[end]); end++) {
				rest_of(config->node[end], &next);
				if (next.len != first.len || memcmp(next.data, first.data, first.len) != 0)
					break;
			}
		}
		if (end - i > 1)
			one = fold_group(&config->node[i], end - i, field, arena);
		if (one)
			ret->node[ret->n_node++] = one;
		for (size_t k = i; !one && k < end; k++)
			ret->node[ret->n_node++] = config->node[k];
	}
}

/* ---- partitions ---- */

static bool names_all(const Mu__PartitionConf *p)
{
	return p->nodes && strcasecmp(p->nodes, "ALL") == 0;
}

static bool names_some(const Mu__PartitionConf *p)
{
	return p->nodes && *p->nodes && strcmp(p->nodes, "\"\"") != 0;
}

/* True when P's text alone says which its nodes are. */
static bool text_says(const Mu__Config *config, const Mu__PartitionConf *p)
{
	struct mu_arena page = {0};
	char **names;
	size_t count;
	bool same;

	if (names_all(p)) {
		if (p->n_node != config->n_node)
			return false;
		for (size_t i = 0; i < p->n_node; i++)
			if (!same_text(p->node[i], config->node[i]->name))
				return false;
		return true;
	}
	same = names_some(p) && !mu_hostlist_expand(p->nodes, FOLD_MAX, &page, &names, &count, NULL) &&
	       same_names(p->node, p->n_node, names, count);
	mu_arena_free(&page);
	return same;
}

static Mu__PartitionConf *fold_partition(const Mu__Config *config, Mu__PartitionConf *p,
					 struct mu_arena *arena)
{
	Mu__PartitionConf *ret;
	char *list;

	if (!p->n_node)
		return p;
	ret = mu_arena_dup(arena, p, sizeof *ret);
	if (text_says(config, p)) {
		ret->n_node = 0;
		ret->node = NULL;
		return ret;
	}
	list = p->n_node > 1 ? fold_names(p->node, p->n_node, arena) : NULL;
	if (!list)
		return p;
	ret->node = mu_arena_alloc(arena, sizeof *ret->node);
	ret->node[0] = list;
	ret->n_node = 1;
	return ret;
}

Mu__Config *mu_conf_fold(const Mu__Config *config, struct mu_arena *arena)
{
	Mu__Config *ret = mu_arena_dup(arena, config, sizeof *ret);

	fold_nodes(config, arena, ret);
	ret->partition = mu_arena_alloc(arena, (config->n_partition + 1) * sizeof *ret->partition);
	for (size_t i = 0; i < config->n_partition; i++)
		ret->partition[i] = fold_partition(config, config->partition[i], arena);
	return ret;
}

/* ---- back ---- */

struct expand {
	size_t max;
	struct mu_arena *arena;
	Mu__Config *ret;
	size_t cap;
	struct mu_err *err;
};

static void add_node(struct expand *x, Mu__NodeConf *node)
{
	Mu__Config *c = x->ret;

	if (c->n_node == x->cap) {
		Mu__NodeConf **grown = mu_arena_alloc(x->arena, 2 * x->cap * sizeof *grown);

		memcpy(grown, c->node, c->n_node * sizeof *grown);
		c->node = grown;
		x->cap *= 2;
	}
	c->node[c->n_node++] = node;
}

/* A text of a folded node: one for all, or one each. */
static int expand_field(struct expand *x, const Mu__NodeConf *node, char *text, size_t names, char ***ret)
{
	size_t count;
	int code;

	*ret = NULL;
	if (!is_list(text))
		return 0;
	code = mu_hostlist_expand(text, x->max, x->arena, ret, &count, x->err);
	if (!code && count != names)
		code = mu_fail(x->err, MU_EINVAL,
			       "The list \"%.100s\" gives %zu values for the %zu nodes of %.100s", text,
			       count, names, node->name);
	return code;
}

static int expand_node(struct expand *x, const Mu__NodeConf *node)
{
	char **name, **addr, **host;
	size_t count;
	int code = mu_hostlist_expand(node->name, x->max - x->ret->n_node, x->arena, &name, &count, x->err);

	if (!code)
		code = expand_field(x, node, node->addr, count, &addr);
	if (!code)
		code = expand_field(x, node, node->hostname, count, &host);
	for (size_t i = 0; !code && i < count; i++) {
		Mu__NodeConf *one = mu_arena_dup(x->arena, node, sizeof *one);

		one->name = name[i];
		one->addr = addr ? addr[i] : node->addr;
		one->hostname = host ? host[i] : node->hostname;
		add_node(x, one);
	}
	return code;
}

static int expand_nodes(struct expand *x, const Mu__Config *config)
{
	int code = 0;

	x->cap = config->n_node + 1;
	x->ret->node = mu_arena_alloc(x->arena, x->cap * sizeof *x->ret->node);
	x->ret->n_node = 0;
	for (size_t i = 0; i < config->n_node && !code; i++) {
		if (x->ret->n_node >= x->max)
			code =
			    mu_fail(x->err, MU_ELIMIT, "The configuration has more than %zu nodes", x->max);
		else if (is_list(config->node[i]->name))
			code = expand_node(x, config->node[i]);
		else
			add_node(x, config->node[i]);
	}
	return code;
}

static int expand_partition(struct expand *x, Mu__PartitionConf **at)
{
	Mu__PartitionConf *p = *at;
	const char *list = p->n_node == 1 && is_list(p->node[0]) ? p->node[0]
			   : !p->n_node && names_some(p)	 ? p->nodes
								 : NULL;
	int code = 0;

	if (!list)
		return 0;
	*at = p = mu_arena_dup(x->arena, p, sizeof *p);
	if (!p->n_node && names_all(p)) {
		p->node = mu_arena_alloc(x->arena, (x->ret->n_node + 1) * sizeof *p->node);
		for (; p->n_node < x->ret->n_node; p->n_node++)
			p->node[p->n_node] = x->ret->node[p->n_node]->name;
	} else {
		code = mu_hostlist_expand(list, x->max, x->arena, &p->node, &p->n_node, x->err);
	}
	return code;
}

int mu_conf_expand(const Mu__Config *config, size_t max_nodes, struct mu_arena *arena, Mu__Config **ret,
		   struct mu_err *err)
{
	struct expand x = {
	    .max = max_nodes, .arena = arena, .ret = mu_arena_dup(arena, config, sizeof *config), .err = err};
	int code = expand_nodes(&x, config);

	x.ret->partition =
	    mu_arena_dup(arena, config->partition, config->n_partition * sizeof *x.ret->partition);
	for (size_t i = 0; i < config->n_partition && !code; i++)
		code = expand_partition(&x, &x.ret->partition[i]);
	if (!code)
		*ret = x.ret;
	return code;
}
