/* base/map.c: the ordered map, an AVL tree whose shape follows from the sequence of puts and deletes alone.
 * See map.h. Height is at most 1.44 log2(n), so 64 levels hold more than can exist. */
#include "proto/base/map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HEIGHT = 64 };

struct mu_map_node {
	struct mu_map_node *child[2];
	void *value;
	uint32_t len;
	int32_t height;
	uint8_t key[];
};

/* The way from the root to a node: each element is the link that leads to the next node. */
struct path {
	struct mu_map_node **link[MAX_HEIGHT];
	int depth;
};

static int compare(const void *a, size_t a_len, const struct mu_map_node *n)
{
	size_t common = a_len < n->len ? a_len : n->len;
	int c = common ? memcmp(a, n->key, common) : 0;
	if (c)
		return c;
	return a_len < n->len ? -1 : a_len > n->len;
}

static int height(const struct mu_map_node *n)
{
	return n ? n->height : 0;
}

static void measure(struct mu_map_node *n)
{
	int l = height(n->child[0]), r = height(n->child[1]);
	n->height = (l > r ? l : r) + 1;
}

static struct mu_map_node *rotate(struct mu_map_node *n, int up)
{
	struct mu_map_node *top = n->child[up];
	n->child[up] = top->child[!up];
	top->child[!up] = n;
	measure(n);
	measure(top);
	return top;
}

static struct mu_map_node *balance(struct mu_map_node *n)
{
	measure(n);
	int lean = height(n->child[1]) - height(n->child[0]);
	if (lean >= -1 && lean <= 1)
		return n;
	int up = lean > 0;
	struct mu_map_node *c = n->child[up];
	if (height(c->child[!up]) > height(c->child[up]))
		n->child[up] = rotate(c, !up);
	return rotate(n, up);
}

static void balance_path(struct path *path)
{
	while (path->depth > 0) {
		struct mu_map_node **link = path->link[--path->depth];
		*link = balance(*link);
	}
}

static void push(struct path *path, struct mu_map_node **link)
{
	assert(path->depth < MAX_HEIGHT);
	path->link[path->depth++] = link;
}

/* Walks to KEY; returns the link that holds it or where it belongs. PATH gets every link above. */
static struct mu_map_node **descend(struct mu_map *map, const void *key, size_t len, struct path *path)
{
	struct mu_map_node **link = &map->root;
	while (*link) {
		int c = compare(key, len, *link);
		if (!c)
			break;
		push(path, link);
		link = &(*link)->child[c > 0];
	}
	return link;
}

void *mu_map_put(struct mu_map *map, const void *key, size_t len, void *value)
{
	assert(value);
	assert(len <= UINT32_MAX);
	struct path path = {.depth = 0};
	struct mu_map_node **link = descend(map, key, len, &path);
	if (*link) {
		void *former = (*link)->value;
		(*link)->value = value;
		return former;
	}
	struct mu_map_node *n = malloc(sizeof(*n) + len);
	if (!n)
		abort();
	*n = (struct mu_map_node){.value = value, .len = (uint32_t)len, .height = 1};
	if (len)
		memcpy(n->key, key, len);
	*link = n;
	map->count++;
	balance_path(&path);
	return NULL;
}

void *mu_map_get(const struct mu_map *map, const void *key, size_t len)
{
	const struct mu_map_node *n = map->root;
	while (n) {
		int c = compare(key, len, n);
		if (!c)
			return n->value;
		n = n->child[c > 0];
	}
	return NULL;
}

void *mu_map_del(struct mu_map *map, const void *key, size_t len)
{
	struct path path = {.depth = 0};
	struct mu_map_node **link = descend(map, key, len, &path);
	struct mu_map_node *gone = *link;
	if (!gone)
		return NULL;
	if (gone->child[0] && gone->child[1]) {
		/* The successor takes the place; its own place is taken by its right child. */
		int at = path.depth;
		push(&path, link);
		struct mu_map_node **down = &gone->child[1];
		while ((*down)->child[0]) {
			push(&path, down);
			down = &(*down)->child[0];
		}
		struct mu_map_node *next = *down;
		*down = next->child[1];
		next->child[0] = gone->child[0];
		next->child[1] = gone->child[1];
		*link = next;
		if (path.depth > at + 1)
			path.link[at + 1] = &next->child[1]; /* It pointed into the node that goes. */
	} else {
		*link = gone->child[0] ? gone->child[0] : gone->child[1];
	}
	balance_path(&path);
	void *value = gone->value;
	free(gone);
	map->count--;
	return value;
}

void *mu_map_seek(const struct mu_map *map, const void *key, size_t len, int after, const uint8_t **ret_key,
		  size_t *ret_len)
{
	const struct mu_map_node *n = map->root, *found = NULL;
	while (n) {
		int c = key ? compare(key, len, n) : -1;
		if (c < 0 || (c == 0 && !after)) {
			found = n;
			n = n->child[0];
		} else {
			n = n->child[1];
		}
	}
	if (!found)
		return NULL;
	if (ret_key)
		*ret_key = found->key;
	if (ret_len)
		*ret_len = found->len;
	return found->value;
}

void mu_map_clear(struct mu_map *map)
{
	if (!map)
		return;
	struct mu_map_node *n = map->root;
	while (n) { /* Each left subtree is rotated up until there is none: no recursion, no stack. */
		struct mu_map_node *l = n->child[0];
		if (l) {
			n->child[0] = l->child[1];
			l->child[1] = n;
			n = l;
		} else {
			struct mu_map_node *r = n->child[1];
			free(n);
			n = r;
		}
	}
	*map = (struct mu_map){0};
}

void *mu_map_put_u64(struct mu_map *map, uint64_t key, void *value)
{
	uint8_t k[8];
	mu_put_be64(k, key);
	return mu_map_put(map, k, sizeof(k), value);
}

void *mu_map_get_u64(const struct mu_map *map, uint64_t key)
{
	uint8_t k[8];
	mu_put_be64(k, key);
	return mu_map_get(map, k, sizeof(k));
}

void *mu_map_del_u64(struct mu_map *map, uint64_t key)
{
	uint8_t k[8];
	mu_put_be64(k, key);
	return mu_map_del(map, k, sizeof(k));
}

void *mu_map_next_u64(const struct mu_map *map, uint64_t from, uint64_t *ret_key)
{
	uint8_t k[8];
	const uint8_t *found;
	size_t len;
	mu_put_be64(k, from);
	void *value = mu_map_seek(map, k, sizeof(k), 0, &found, &len);
	if (!value)
		return NULL;
	assert(len == sizeof(k));
	if (ret_key)
		*ret_key = mu_get_be64(found);
	return value;
}

void *mu_map_put_str(struct mu_map *map, const char *key, void *value)
{
	return mu_map_put(map, key, strlen(key), value);
}

void *mu_map_get_str(const struct mu_map *map, const char *key)
{
	return mu_map_get(map, key, strlen(key));
}

void *mu_map_del_str(struct mu_map *map, const char *key)
{
	return mu_map_del(map, key, strlen(key));
}

void mu_put_be32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

void mu_put_be64(uint8_t *p, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (56 - 8 * i));
}

uint32_t mu_get_be32(const uint8_t *p)
{
	uint32_t v = 0;
	for (int i = 0; i < 4; i++)
		v = v << 8 | p[i];
	return v;
}

uint64_t mu_get_be64(const uint8_t *p)
{
	uint64_t v = 0;
	for (int i = 0; i < 8; i++)
		v = v << 8 | p[i];
	return v;
}
