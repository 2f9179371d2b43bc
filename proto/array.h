/* proto/array.h: array indexes ("0-9:2%3") and how jobs, tasks and steps are named ("42_3.batch"). Pure. */
#ifndef PROTO_ARRAY_H
#define PROTO_ARRAY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bits.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"

struct mu_array {
	struct mu_bits tasks;
	uint32_t throttle; /* tasks that may run at once; 0: no limit */
};

/* "0-9:2%3", "[1-3]", "1,1,2", "007-009", "1-3%0". An index must be below MAX_SIZE (MaxArraySize). 0 or MU_EARRAY. On success
 * RET owns memory: mu_array_free. */
int mu_array_parse(const char *text, uint32_t max_size, struct mu_array *ret, struct mu_err *err);
void mu_array_free(struct mu_array *array);
/* The same checks, without making the set. */
int mu_array_check(const char *text, uint32_t max_size, uint32_t *ret_throttle, struct mu_err *err);

/* "1-5,7%2"; tasks that are evenly spaced by more than one, three or more, print as "0-8:2". */
void mu_array_print(const struct mu_bits *tasks, uint32_t throttle, struct mu_buf *out);

/* The tasks of an array as a list in ascending order of index: a task's place in it, counted from 0, is its ordinal. Sets of tasks
 * are kept as runs of ordinals, so that an even step costs nothing and a waiting array of a million tasks is one run. */
struct mu_task_piece {
	uint32_t first, count, step, before; /* before: tasks in the pieces ahead of this one */
};
struct mu_tasks {
	struct mu_task_piece *v; /* ascending, no index twice */
	uint32_t count, total;
	uint32_t throttle; /* as mu_array */
	uint32_t step;	   /* the even distance between all of them; 1 where there is none */
};
/* Accepts what mu_array_parse accepts. 0 or MU_EARRAY. On success RET owns memory: mu_tasks_free. */
int mu_tasks_parse(const char *text, uint32_t max_size, struct mu_tasks *ret, struct mu_err *err);
void mu_tasks_free(struct mu_tasks *tasks);
uint32_t mu_tasks_index(const struct mu_tasks *tasks, uint32_t ordinal); /* ORDINAL < total */
uint32_t mu_tasks_ordinal(const struct mu_tasks *tasks, uint32_t index); /* UINT32_MAX: no such task */
uint32_t mu_tasks_below(const struct mu_tasks *tasks, uint32_t index);	 /* how many tasks have a smaller index */

/* A set of ordinals: maximal runs, ascending. Zero-initialise. */
struct mu_run {
	uint32_t from, until;
};
struct mu_runs {
	struct mu_run *v;
	uint32_t head, count, cap; /* v[head..count): taking the first costs nothing */
	uint32_t total;
};
void mu_runs_free(struct mu_runs *r);
void mu_runs_add(struct mu_runs *r, uint32_t from, uint32_t until); /* not below what is in it: appends or widens the last */
bool mu_runs_has(const struct mu_runs *r, uint32_t n);
uint32_t mu_runs_next(const struct mu_runs *r, uint32_t from); /* first >= FROM, or UINT32_MAX */
bool mu_runs_remove(struct mu_runs *r, uint32_t n);	       /* false: was not in it */
/* What A shares with B, and what A has alone. The results are new sets, the caller's to free. */
void mu_runs_cut(const struct mu_runs *a, const struct mu_runs *b, struct mu_runs *ret_both, struct mu_runs *ret_rest);
void mu_runs_or(struct mu_runs *a, const struct mu_runs *b);
/* As rows keep them: for each run the distance from the end of the one before and its length. pack gives 2 * mu_runs_count
 * numbers into RET; unpack is false for malformed input or an ordinal at or above TOTAL, and then RET is empty. */
uint32_t mu_runs_count(const struct mu_runs *r);
void mu_runs_pack(const struct mu_runs *r, uint32_t *ret);
bool mu_runs_unpack(const uint32_t *v, size_t count, uint32_t total, struct mu_runs *ret);
/* The ordinals in TASKS of all tasks that SOME names; SOME may name others too. Adds to RET. */
void mu_tasks_select(const struct mu_tasks *tasks, const struct mu_tasks *some, struct mu_runs *ret);
/* "1-5,7" as mu_array_print without the step form's loss: the indexes of the tasks in R. */
void mu_runs_print(const struct mu_runs *r, const struct mu_tasks *tasks, uint32_t throttle, struct mu_buf *out);

/* What people call a job: 42, 42_3, 42_[1-3,7], 42+1, 42.0, 42.batch, 42_3.1. */
struct mu_job_name {
	uint32_t job;
	bool has_tasks;	      /* _T or _[...] */
	struct mu_bits tasks; /* owned: mu_job_name_free */
	bool has_component;   /* +K of a heterogeneous job */
	uint32_t component;
	bool has_step;
	uint32_t step; /* a number, MU_STEP_BATCH or MU_STEP_EXTERN */
};

/* 0 or MU_EJOBID with a sentence; job 0 is refused. Task indexes are below 4,000,001. */
int mu_job_name_parse(const char *text, struct mu_job_name *ret, struct mu_err *err);
void mu_job_name_free(struct mu_job_name *name);

#endif
