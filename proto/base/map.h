/* base/map.h: an ordered map from byte-string keys to pointers; iteration is in key order (memcmp, shorter first),
 * so nothing ever depends on hash or pointer order. Not thread-safe. Values are borrowed. */
#ifndef PROTO_BASE_MAP_H
#define PROTO_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

struct mu_map_node;
struct mu_map {
	struct mu_map_node *root;
	size_t count;
};

/* Inserts or replaces; the key is copied. Returns the former value or NULL. VALUE must not be NULL. O(log n). */
void *mu_map_put(struct mu_map *map, const void *key, size_t len, void *value);
void *mu_map_get(const struct mu_map *map, const void *key, size_t len); /* NULL when absent */
void *mu_map_del(struct mu_map *map, const void *key, size_t len);       /* the former value or NULL */
/* The first entry whose key is >= KEY (> KEY when AFTER is non-zero); KEY NULL means the very first. Returns its value or NULL
 * and, where ret_key/ret_len are not NULL, the borrowed key. */
void *mu_map_seek(const struct mu_map *map, const void *key, size_t len, int after, const uint8_t **ret_key, size_t *ret_len);
void mu_map_clear(struct mu_map *map); /* forgets all; values stay the caller's */

/* The same by number and by text. */
void *mu_map_put_u64(struct mu_map *map, uint64_t key, void *value);
void *mu_map_get_u64(const struct mu_map *map, uint64_t key);
void *mu_map_del_u64(struct mu_map *map, uint64_t key);
void *mu_map_next_u64(const struct mu_map *map, uint64_t from, uint64_t *ret_key); /* first >= from */
void *mu_map_put_str(struct mu_map *map, const char *key, void *value);
void *mu_map_get_str(const struct mu_map *map, const char *key);
void *mu_map_del_str(struct mu_map *map, const char *key);

/* Big-endian numbers, so that byte order is number order. */
void mu_put_be32(uint8_t *p, uint32_t v);
void mu_put_be64(uint8_t *p, uint64_t v);
uint32_t mu_get_be32(const uint8_t *p);
uint64_t mu_get_be64(const uint8_t *p);

#endif
