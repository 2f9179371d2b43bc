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

/* "1-5,7%2"; tasks that are evenly spaced by more than one, three or more, print as "0-8:2". */
void mu_array_print(const struct mu_bits *tasks, uint32_t throttle, struct mu_buf *out);

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
