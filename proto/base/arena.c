/* base/arena.c: bump allocation. See arena.h. Chunks double, so a unit of work of any size costs few mallocs;
 * a reset keeps the newest chunk, which is the largest. */
#include "proto/base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 16, FIRST_BYTES = 4096, MAX_CHUNK_BYTES = 1 << 20 };

struct mu_arena_chunk {
	struct mu_arena_chunk *older;
	size_t used;
	size_t cap;
	size_t pad; /* Keeps data aligned to ALIGN. */
	uint8_t data[];
};

_Static_assert(sizeof(struct mu_arena_chunk) % ALIGN == 0, "an arena chunk's data is aligned");

static struct mu_arena_chunk *chunk_add(struct mu_arena *arena, size_t need)
{
	size_t cap = arena->chunks ? arena->chunks->cap * 2 : FIRST_BYTES;
	if (cap > MAX_CHUNK_BYTES)
		cap = MAX_CHUNK_BYTES;
	if (cap < need)
		cap = need;
	struct mu_arena_chunk *chunk = malloc(sizeof(*chunk) + cap);
	if (!chunk)
		abort();
	*chunk = (struct mu_arena_chunk){.older = arena->chunks, .cap = cap};
	arena->chunks = chunk;
	return chunk;
}

void *mu_arena_alloc(struct mu_arena *arena, size_t size)
{
	if (size > SIZE_MAX / 4)
		abort();
	size_t need = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	if (!need)
		need = ALIGN;
	struct mu_arena_chunk *chunk = arena->chunks;
	if (!chunk || chunk->cap - chunk->used < need)
		chunk = chunk_add(arena, need);
	void *p = chunk->data + chunk->used;
	chunk->used += need;
	arena->used_bytes += need;
	return memset(p, 0, need);
}

void *mu_arena_dup(struct mu_arena *arena, const void *data, size_t len)
{
	void *p = mu_arena_alloc(arena, len);
	if (len)
		memcpy(p, data, len);
	return p;
}

char *mu_arena_strdup(struct mu_arena *arena, const char *text)
{
	return text ? mu_arena_dup(arena, text, strlen(text) + 1) : NULL;
}

char *mu_arena_printf(struct mu_arena *arena, const char *format, ...)
{
	va_list args, again;
	va_start(args, format);
	va_copy(again, args);
	int len = vsnprintf(NULL, 0, format, args);
	if (len < 0)
		abort();
	char *text = mu_arena_alloc(arena, (size_t)len + 1);
	vsnprintf(text, (size_t)len + 1, format, again);
	va_end(again);
	va_end(args);
	return text;
}

static void free_older(struct mu_arena_chunk *chunk)
{
	while (chunk) {
		struct mu_arena_chunk *older = chunk->older;
		free(chunk);
		chunk = older;
	}
}

void mu_arena_reset(struct mu_arena *arena)
{
	arena->used_bytes = 0;
	if (!arena->chunks)
		return;
	free_older(arena->chunks->older);
	arena->chunks->older = NULL;
	arena->chunks->used = 0;
}

void mu_arena_free(struct mu_arena *arena)
{
	if (!arena)
		return;
	free_older(arena->chunks);
	*arena = (struct mu_arena){0};
}
