/* proto/layout/layout.h: which task runs on which node. Pure; used by srun, the node and the scheduler alike. */
#ifndef PROTO_LAYOUT_LAYOUT_H
#define PROTO_LAYOUT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"

enum { MU_LAYOUT_MAX_TASKS = 1 << 20 };

enum mu_spread {
	MU_SPREAD_DEFAULT, /* block over nodes, cyclic over sockets */
	MU_SPREAD_BLOCK,   /* fill one before the next, but leave at least one task for each later node */
	MU_SPREAD_CYCLIC,  /* one each in turn */
	MU_SPREAD_PLANE,   /* PLANE tasks each in turn */
	MU_SPREAD_ARBITRARY, /* as a list of hosts says */
	MU_SPREAD_FCYCLIC  /* over sockets: each CPU of a task on the next socket */
};

/* --distribution=NODES[:SOCKETS[:CORES]][,Pack|NoPack], "plane=4", "*" for a default. */
struct mu_distribution {
	enum mu_spread nodes, sockets, cores;
	uint32_t plane; /* of MU_SPREAD_PLANE */
	bool pack, nopack;
};
/* 0 or MU_EINVAL. */
int mu_distribution_parse(const char *text, struct mu_distribution *ret, struct mu_err *err);

struct mu_layout_ask {
	uint32_t nodes;
	const uint32_t *cpus;	/* usable CPUs of each node */
	uint32_t tasks;		/* at least 1 */
	uint32_t cpus_per_task; /* 0: 1 */
	uint32_t tasks_per_node; /* most on a node; 0: no limit */
	bool overcommit;	/* CPUs do not limit the number of tasks */
	enum mu_spread spread;
	uint32_t plane;
	const uint32_t *host; /* MU_SPREAD_ARBITRARY: the node of each task, below NODES */
	bool even; /* MU_SPREAD_BLOCK and the default: on each node as many as MU_SPREAD_CYCLIC has there */
};

struct mu_layout {
	uint32_t nodes, tasks;
	uint32_t *tasks_on; /* by node */
	uint32_t *node_of;  /* by task */
	uint32_t *local_of; /* by task: its number on its node */
};

/* Places the tasks. Arrays lie in ARENA. MU_ECPUCOUNT when the nodes hold fewer tasks; MU_EINVAL for no node or no task; MU_ELIMIT above
 * MU_LAYOUT_MAX_TASKS. With fewer tasks than nodes the last nodes get none. The same ask gives the same layout. */
int mu_layout_make(const struct mu_layout_ask *ask, struct mu_arena *arena, struct mu_layout *ret, struct mu_err *err);

/* "4(x2),2" for 4 4 2: SLURM_TASKS_PER_NODE, SLURM_JOB_CPUS_PER_NODE. */
void mu_counts_print(const uint32_t *count, size_t n, struct mu_buf *out);
/* The reverse, at most MAX numbers. 0, MU_ESYNTAX or MU_ELIMIT. */
int mu_counts_parse(const char *text, size_t max, struct mu_arena *arena, uint32_t **ret, size_t *ret_n);

#endif
