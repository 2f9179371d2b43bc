/* exec/pattern.h: file name patterns of --output, --error and --input. Pure. */
#ifndef EXEC_PATTERN_H
#define EXEC_PATTERN_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/buf.h"

struct exe_pattern_words {
	uint32_t job, step; /* step: MU_STEP_BATCH gives "batch" */
	uint32_t task, node_index;
	const char *user, *job_name, *node;
	bool has_array;
	uint32_t array_job, array_task;
};

/* Appends PATTERN with %A %a %J %j %N %n %s %t %u %x %% replaced to OUT; a number between % and a numeric
 * letter pads with zeros (at most 10 digits). A backslash anywhere turns patterns off and is itself dropped.
 * An unknown letter stays as it is. A relative result is put behind WORK_DIR. */
void exe_pattern_expand(const char *pattern, const char *work_dir, const struct exe_pattern_words *w,
			struct mu_buf *out);

#endif
