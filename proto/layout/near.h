/* proto/layout/near.h: which memory nodes and which GPUs each of a node's tasks is near: --mem-bind,
 * --gpu-bind,
 * --tres-bind=gres/gpu and --accel-bind. Pure. */
#ifndef PROTO_LAYOUT_NEAR_H
#define PROTO_LAYOUT_NEAR_H

#include "proto/layout/bind.h"

enum mu_near_kind {
	MU_NEAR_NONE,	 /* everything that the step has */
	MU_NEAR_LOCAL,	 /* memory of the CPU in use */
	MU_NEAR_RANK,	 /* memory: task k on node k */
	MU_NEAR_MAP,	 /* task k on list[k mod n] */
	MU_NEAR_MASK,	 /* task k on mask[k mod n] */
	MU_NEAR_CLOSEST, /* GPUs near the task's CPUs; all where none is known to be nearer than others */
	MU_NEAR_SINGLE,	 /* one of those: EACH tasks share a GPU */
	MU_NEAR_PER_TASK /* EACH GPUs for a task, in the order of tasks, near ones first */
};
struct mu_near {
	enum mu_near_kind kind;
	bool verbose, prefer; /* prefer: memory elsewhere will do when it is full there */
	uint32_t each;
	struct mu_bind list; /* of MAP and MASK: mu_bind_free */
};
enum { MU_NEAR_GPUS = 256, MU_NEAR_NODES = 64 };

/* --mem-bind=[quiet|verbose,][sort|nosort,][prefer,]none|local|rank|map_mem:LIST|mask_mem:LIST. sort is for a
 * kind of processor that is no more, and does nothing. 0 or MU_EINVAL. */
int mu_mem_bind_parse(const char *text, struct mu_arena *arena, struct mu_near *ret, struct mu_err *err);
/* --gpu-bind=[verbose,]none|closest|single:N|map_gpu:LIST|mask_gpu:LIST|per_task:N, with "gres/gpu:" before
 * it as
 * --tres-bind has it. 0 or MU_EINVAL. */
int mu_gpu_bind_parse(const char *text, struct mu_arena *arena, struct mu_near *ret, struct mu_err *err);

/* The memory nodes of the K-th task of a node, one bit each; 0: no wish, or the CPU's own. */
uint64_t mu_near_mems(const struct mu_near *near, uint32_t k);
/* Which of COUNT GPUs (at most MU_NEAR_GPUS) the K-th task of a node uses: the bits of RET, cleared by the
 * caller. CLOSE[i] says that GPU i is near the task's CPUs; GIVEN (COUNT of them, zeroed before the first
 * task) remembers what PER_TASK has given out. What names no GPU that is there gives none. */
void mu_near_gpus(const struct mu_near *near, uint32_t k, uint32_t count, const bool *close, bool *given,
		  struct mu_bits *ret);

#endif
