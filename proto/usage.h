/* proto/usage.h: what a step used, measure by measure: totals, and which task had most and least. Pure. */
#ifndef PROTO_USAGE_H
#define PROTO_USAGE_H

#include <stdbool.h>

#include "proto/base/arena.h"
#include "proto/rows.pb-c.h"

/* UsageMeasure.kind: numbers in the log, never used again. */
enum mu_measure {
	MU_MEASURE_CPU = 1,	 /* microseconds */
	MU_MEASURE_MEM = 2,	 /* bytes: peak of each task */
	MU_MEASURE_VMEM = 3,	 /* bytes: peak of each task */
	MU_MEASURE_PAGES = 4,	 /* page faults that needed the disk */
	MU_MEASURE_READ = 5,	 /* bytes asked for by reading calls */
	MU_MEASURE_WRITE = 6,	 /* bytes given to writing calls */
	MU_MEASURE_GPU_UTIL = 7, /* percent: peak of each task over its GPUs */
	MU_MEASURE_GPU_MEM = 8,	 /* bytes: peak of each task over its GPUs */
	MU_MEASURES = 8
};

/* The measure of KIND, or NULL. */
const Mu__UsageMeasure *mu_usage_measure(const Mu__Usage *u, uint32_t kind);
/* Counts VALUE of TASK into M. */
void mu_measure_add(Mu__UsageMeasure *m, uint64_t value, uint32_t task);
/* Adds what one node of a step used, NODE its name where PART does not say, to INTO; memory from ARENA, which
 * must outlive INTO, as must NODE. */
void mu_usage_merge(Mu__Usage *into, const Mu__Usage *part, const char *node, struct mu_arena *arena);
/* Fills the plain fields (peaks, averages, bytes) of U from its measures; TASKS is how many there are. */
void mu_usage_sum_up(Mu__Usage *u, uint32_t tasks);

#endif
