/* sched/share.h: CPUs that several jobs have at once. Internal to the room.
 *
 * In a partition with OverSubscribe=FORCE:N every job shares, with YES:N those that ask for it; what is the
 * system's by --core-spec stays alone. A CPU that such a job has may be given to N-1 others of the same
 * partition. Memory, devices and licences are nobody else's, and a job that does not share has its CPUs
 * alone: to it, and to jobs of other partitions, CPUs that are shared are taken.
 *
 * What the sharing jobs of one partition have of one node is a stack: its level K has the CPUs that more than
 * K of them have. sch_room.cpu has every CPU that anybody has, once. */
#ifndef SCHED_SHARE_H
#define SCHED_SHARE_H

#include "proto/base/bits.h"

struct sch_alloc;
struct sch_line;
struct sch_need;
struct sch_node;
struct sch_part;
struct sch_room;
struct sch_shape;
struct sch_state;

struct sch_stack {
	struct sch_stack *next;
	const char *part;      /* whose jobs they are; borrowed from what was taken first, or equal to it */
	struct mu_bits *level; /* none of them is empty */
	uint32_t levels;
};

/* How many jobs like it may have a CPU of P at once; 1: it has them alone. */
uint32_t sch__share_most(const struct sch_part *p, const struct sch_shape *shape);
/* The same by the name of a partition, of jobs that share already; 1 where it does not exist any more. */
uint32_t sch__share_most_in(const struct sch_state *st, const char *part);

/* R->cpu and the stacks of R; the other counts are the caller's. */
void sch__stack_take(struct sch_room *r, const char *part, const struct mu_bits *cpu);
void sch__stack_give(struct sch_room *r, const char *part, const struct mu_bits *cpu);
void sch__stacks_copy(struct sch_room *dst, const struct sch_room *src);
void sch__stacks_free(struct sch_room *r);
const struct sch_stack *sch__stack_of(const struct sch_room *r, const char *part); /* NULL: none */
/* True where A's CPUs are taken: where it shares, those that MOST others like it have already. */
bool sch__share_clash(const struct sch_room *r, const struct sch_alloc *a, uint32_t most);

/* R as NEED sees it: CPUs that it may share are not taken. False: R is as it sees it. RET is to be unseen,
 * and has R's devices. */
bool sch__share_see(const struct sch_need *need, const struct sch_node *n, const struct sch_room *r,
		    struct sch_room *ret);
void sch__share_unsee(struct sch_room *r);
/* How many of its kind have one of the STEP CPUs from B on, at most. */
uint32_t sch__share_load(const struct sch_need *need, const struct sch_room *r, uint32_t b, uint32_t step);

/* From now on the line is seen by NEED. */
void sch__share_look(struct sch_line *line, const struct sch_need *need);
/* Or by a job that held A and comes back to its CPUs. */
void sch__share_look_held(struct sch_line *line, const struct sch_alloc *a);
/* Adds to RET the CPUs that sharing jobs have of N at a moment, running and planned, in the eyes of who
 * looks: at worst, for nobody knows which CPUs planned jobs will have. */
void sch__share_at(struct sch_line *line, const struct sch_node *n, const struct sch_room *base,
		   int64_t at_usec, struct sch_room *ret);
/* Takes out of RET's numbers what the stacks of BASE are counted with. */
void sch__share_apart(const struct sch_node *n, const struct sch_room *base, struct sch_room *ret);

#endif
