/* base/arena.h: bump allocation for one unit of work, released all at once.
 * Owns: chunks of memory. Allocation failure aborts. Not thread-safe. */
#ifndef PROTO_BASE_ARENA_H
#define PROTO_BASE_ARENA_H

#include <stddef.h>

struct mu_arena_chunk;

/* Zero-initialise before use. */
struct mu_arena {
	struct mu_arena_chunk *chunks;
	size_t used_bytes;
};

void *mu_arena_alloc(struct mu_arena *arena, size_t size); /* zeroed, aligned to 16 */
char *mu_arena_strdup(struct mu_arena *arena, const char *text); /* NULL gives NULL */
char *mu_arena_printf(struct mu_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
void *mu_arena_dup(struct mu_arena *arena, const void *data, size_t len);
void mu_arena_reset(struct mu_arena *arena); /* forgets every allocation, keeps one chunk */
void mu_arena_free(struct mu_arena *arena);  /* returns all memory; the arena may be used again */

#endif
