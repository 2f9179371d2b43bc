/* proto/pattern.h: file name patterns of --output, --error and --input. Pure. */
#ifndef PROTO_PATTERN_H
#define PROTO_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/buf.h"

struct mu_pattern {
	uint32_t job, step; /* MU_STEP_BATCH prints as "batch", MU_STEP_EXTERN as "extern" */
	uint32_t task, node_index;
	const char *user, *job_name, *node;
	bool is_array;
	uint32_t array_job, array_task;
};

/* Appends TEXT to OUT with %A (array's job, else job) %a (task of the array) %J (job.step; the job alone for its script) %j (job)
 * %N (node) %n (its number in the job) %s (step) %t (task) %u (user) %x (job name) %% replaced. A number between % and a numeric
 * letter is a width filled with zeros, at most 10. A backslash anywhere turns patterns off and is dropped. A slash in a user or job name becomes
 * an underscore, so that no name leads out of its folder. Unknown letters stay as written. A relative result is put behind
 * WORK_DIR. The result ends with a NUL byte that is not counted. */
void mu_pattern_expand(const char *text, const char *work_dir, const struct mu_pattern *words, struct mu_buf *out);

/* True when the result differs between nodes (%N %n) or tasks (%t): each then has a file of its own. */
bool mu_pattern_per_node(const char *text);
bool mu_pattern_per_task(const char *text);

#endif
