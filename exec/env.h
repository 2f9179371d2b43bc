/* exec/env.h: the environment of batch scripts and steps: what the user sent, and the variables of env.def
 * over it. Owns: the table env.def. Pure but for the passwd look-up of a user who sent no HOME. */
#ifndef EXEC_ENV_H
#define EXEC_ENV_H

#include <stdint.h>

#include "exec/inventory.h"
#include "exec/shepherd.pb-c.h"
#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/orders.pb-c.h"

/* Limits travel as variables of this prefix; the shepherd sets them and takes them out (proto/rlimits.def).
 */
#define EXE_RLIMIT_PREFIX "SLURM_RLIMIT_"

/* What the table takes from the agent. */
struct exe_env_words {
	const char *cluster, *node, *conf_path;
	const char *propagate, *propagate_except; /* PropagateResourceLimits...; NULL: all, and none */
	uint32_t
	    *ret_defaults; /* NULL, or how many entries at the end only fill gaps: HOME, SHELL, PATH ... */
	struct exe_inventory *inventory; /* NULL: nothing is known of the devices */
	bool open_devices; /* jobs see every device of the node: theirs are named by the node's numbers */
	/* Filled by exe_env_build. */
	const char *cpus_per_node, *tasks_per_node, *submit_dir, *umask;
	const char *gpus, *step_gpus, *step_gtids;
	const char *gpus_cuda, *gpus_nvidia, *gpus_rocr, *gpus_ordinal, *gpus_ze;
	const char *tres_per_task, *distribution, *plane_size;
	uint32_t step_ntasks;
	const char *step_tasks_per_node;
	uint32_t gpu_count;
	uint32_t array_count, array_min, array_max, array_step;
};

/* Environment of the batch script (STEP NULL) or of a step: the user's block BASE (NAME=VALUE, each ended by
 * a NUL byte; of the limits in it those that are propagated), then the table, later ones winning. A step's
 * devices are those of STEP->gres. RET and its strings lie in ARENA. */
void exe_env_build(const Mu__AttemptOrder *o, const struct exe_env_words *words, const Mu__StepOrder *step,
		   struct mu_view base, struct mu_arena *arena, ProtobufCBinaryData **ret, size_t *ret_count);

#endif
