/* base/pool.h: equal-sized records with stable addresses and a free list. Not thread-safe. Allocation failure aborts. */
#ifndef PROTO_BASE_POOL_H
#define PROTO_BASE_POOL_H

#include <stddef.h>

struct mu_pool_slab;
struct mu_pool {
	size_t item_bytes; /* set with mu_pool_init */
	struct mu_pool_slab *slabs;
	void *free_items;
	size_t live;  /* records handed out */
	size_t total; /* records that exist, live or free */
};

void mu_pool_init(struct mu_pool *pool, size_t item_bytes);
void *mu_pool_get(struct mu_pool *pool); /* zeroed */
void mu_pool_put(struct mu_pool *pool, void *item);
void mu_pool_free(struct mu_pool *pool); /* returns all memory, items included */

#endif
