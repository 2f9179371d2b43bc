/* tests/sched/make.h: how the programs around the core draw lots and make their messages. */
#ifndef TESTS_SCHED_MAKE_H
#define TESTS_SCHED_MAKE_H

#include "proto/base/arena.h"
#include "proto/base/seed.h"
#include "proto/rows.pb-c.h"

/* From W's seed: a number below N, and true in PERCENT of a hundred cases. */
#define below(w, n) mu_seed_below(&(w)->seed, (n))
#define chance(w, percent) (below((w), 100) < (uint32_t)(percent))

/* An optional number of a message, with its flag. */
#define SET(row, field, v)              \
	do {                            \
		(row)->field = (v);     \
		(row)->has_##field = 1; \
	} while (0)
/* A message of TYPE in W's arena. */
#define NEW(w, type, init)                                            \
	({                                                            \
		type *m_ = mu_arena_alloc(&(w)->arena, sizeof(type)); \
		init(m_);                                             \
		m_;                                                   \
	})

/* What the node of ROW, which State made of the configuration, says of itself: as much, since its first boot.
 */
static inline Mu__NodeRow *make_inventory(struct mu_arena *arena, const Mu__NodeRow *row)
{
	Mu__NodeRow *n = mu_arena_alloc(arena, sizeof(*n));
	mu__node_row__init(n);
	n->name = mu_arena_strdup(arena, row->name);
	SET(n, cpus, row->cpus);
	SET(n, threads_per_core, row->threads_per_core);
	SET(n, sockets, row->sockets);
	SET(n, cores_per_socket, row->cores_per_socket);
	SET(n, real_memory_mib, row->real_memory_mib);
	n->n_gres = row->n_gres;
	n->gres = row->gres;
	n->has_boot_id = 1;
	n->boot_id = (ProtobufCBinaryData){4, (uint8_t *)"boot"};
	return n;
}

#endif
