/* base/pool.c: equal-sized records. See pool.h. Under AddressSanitizer a record that was put back is
 * poisoned, so that a stale pointer is found as it would be with malloc. */
#include "proto/base/pool.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
/* The compiler's run time, declared here because its header is no part of the C library. */
void __asan_poison_memory_region(const volatile void *p, size_t n);
void __asan_unpoison_memory_region(const volatile void *p, size_t n);
#else
#define __asan_poison_memory_region(p, n) ((void)(p), (void)(n))
#define __asan_unpoison_memory_region(p, n) ((void)(p), (void)(n))
#endif

enum { ALIGN = 16, SLAB_BYTES = 64 * 1024 };

struct mu_pool_slab {
	struct mu_pool_slab *next;
	size_t items;
	uint8_t data[];
};

_Static_assert(sizeof(struct mu_pool_slab) % ALIGN == 0, "a slab's records are aligned");

void mu_pool_init(struct mu_pool *pool, size_t item_bytes)
{
	if (item_bytes < sizeof(void *))
		item_bytes = sizeof(void *);
	*pool = (struct mu_pool){.item_bytes = (item_bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1)};
}

static void slab_add(struct mu_pool *pool)
{
	size_t items = SLAB_BYTES / pool->item_bytes;
	if (!items)
		items = 1;
	struct mu_pool_slab *slab = malloc(sizeof(*slab) + items * pool->item_bytes);
	if (!slab)
		abort();
	slab->next = pool->slabs;
	slab->items = items;
	pool->slabs = slab;
	pool->total += items;
	for (size_t i = items; i-- > 0;) { /* The first record is handed out first. */
		void *item = slab->data + i * pool->item_bytes;
		memcpy(item, &pool->free_items, sizeof(void *));
		pool->free_items = item;
		__asan_poison_memory_region(item, pool->item_bytes);
	}
}

void *mu_pool_get(struct mu_pool *pool)
{
	assert(pool->item_bytes);
	if (!pool->free_items)
		slab_add(pool);
	void *item = pool->free_items;
	__asan_unpoison_memory_region(item, pool->item_bytes);
	memcpy(&pool->free_items, item, sizeof(void *));
	pool->live++;
	return memset(item, 0, pool->item_bytes);
}

void mu_pool_put(struct mu_pool *pool, void *item)
{
	if (!item)
		return;
	assert(pool->live > 0);
	memcpy(item, &pool->free_items, sizeof(void *));
	pool->free_items = item;
	pool->live--;
	__asan_poison_memory_region(item, pool->item_bytes);
}

void mu_pool_free(struct mu_pool *pool)
{
	if (!pool)
		return;
	while (pool->slabs) {
		struct mu_pool_slab *slab = pool->slabs;
		pool->slabs = slab->next;
		__asan_unpoison_memory_region(slab->data, slab->items * pool->item_bytes);
		free(slab);
	}
	*pool = (struct mu_pool){.item_bytes = pool->item_bytes};
}
