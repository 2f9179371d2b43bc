/* proto/layout/bind.h: which CPUs of a node each of its tasks may use. Pure. */
#ifndef PROTO_LAYOUT_BIND_H
#define PROTO_LAYOUT_BIND_H

#include "proto/base/bits.h"
#include "proto/layout/layout.h"

/* CPU ids are abstract: core * threads + thread, cores socket by socket. */
struct mu_cpu_shape {
	uint32_t sockets, cores /* of a socket */, threads /* of a core */;
};

enum mu_bind_kind {
	MU_BIND_DEFAULT, /* threads: exactly the CPUs that were asked for */
	MU_BIND_NONE,	 /* every task on all CPUs of the step */
	MU_BIND_THREADS,
	MU_BIND_CORES,	 /* whole cores */
	MU_BIND_SOCKETS, /* the step's CPUs of whole sockets */
	MU_BIND_RANK,	 /* task k on the k-th CPU */
	MU_BIND_MAP,	 /* task k on CPU list[k mod n] */
	MU_BIND_MASK,	 /* task k on mask[k mod n] */
	MU_BIND_RANK_LDOM, /* task k on the step's CPUs of socket k mod n */
	MU_BIND_MAP_LDOM,  /* as MAP and MASK, of sockets instead of CPUs */
	MU_BIND_MASK_LDOM
};

struct mu_bind {
	enum mu_bind_kind kind;
	bool verbose;
	uint32_t *map; /* of MU_BIND_MAP, in the arena */
	struct mu_bits *mask; /* of MU_BIND_MASK: the array in the arena, the bits owned: mu_bind_free */
	size_t count;
};

/* --cpu-bind=[quiet|verbose,]none|rank|threads|cores|sockets|ldoms|rank_ldom|map_cpu:LIST|mask_cpu:LIST|map_ldom:LIST|mask_ldom:LIST.
 * ldoms are sockets here. 0 or MU_EINVAL. */
int mu_bind_parse(const char *text, struct mu_arena *arena, struct mu_bind *ret, struct mu_err *err);
void mu_bind_free(struct mu_bind *bind);
/* The LIST of numbers, or with MASKS of masks, each "VALUE[*TIMES]"; kind is MU_BIND_MAP or MU_BIND_MASK then. False
 * when it is none: what RET holds is to be freed all the same. */
bool mu_bind_list_parse(const char *list, bool masks, struct mu_arena *arena, struct mu_bind *ret);

/* Fills RET[0..tasks-1] (zeroed by the caller, owned by it) with the CPUs of each task out of ALLOWED. SPREAD is the order over sockets
 * (default cyclic). Where there are too few CPUs for all tasks, they are given out again from the start. MU_EINVAL when ALLOWED is
 * empty, or when a map or mask names no CPU of ALLOWED. */
int mu_bind_masks(const struct mu_cpu_shape *shape, const struct mu_bits *allowed, uint32_t tasks, uint32_t cpus_per_task, const struct mu_bind *bind,
		  enum mu_spread spread, struct mu_bits *ret, struct mu_err *err);

/* Appends "0x0F" style: hexadecimal, lowest CPU last; "0x0" for none. */
void mu_mask_print(const struct mu_bits *mask, struct mu_buf *out);
/* Hexadecimal with or without 0x, CPUs up to 65,535. 0 or MU_ESYNTAX. */
int mu_mask_parse(const char *text, size_t len, struct mu_bits *ret);

#endif
