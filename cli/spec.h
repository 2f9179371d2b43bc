/* cli/spec.h: from options given to a JobSpec. Absent stays absent: defaults are admission's. */
#ifndef CLI_SPEC_H
#define CLI_SPEC_H

#include "cli/cli.h"
#include "cli/option.h"
#include "proto/spec.pb-c.h"

/* Applies every job option of ARGS (ordered) to SPEC, the strongest last, and checks what options mean
 * together. 0, or a code with one sentence that names option and value. */
int cli_spec_make(const struct cli_args *args, struct mu_arena *arena, Mu__JobSpec *spec, struct mu_err *err);

/* The same for a step in a job: counts of GPUs per job or task, CPUs and memory per GPU become counts per
 * node and task where that is exact. */
int cli_spec_step(struct mu_arena *arena, Mu__JobSpec *spec, struct mu_err *err);

/* The names in a file, divided by blanks, commas or lines, in their order and as often as they are there. */
int cli_host_file(const char *path, struct mu_arena *arena, char ***ret, size_t *ret_count,
		  struct mu_err *err);
/* SLURM_HOSTFILE, where tasks go to the hosts that it names: with --distribution=arbitrary, and ALONE (srun)
 * whatever that says unless nodes are named. NULL: it is not asked for. */
const char *cli_spec_by_file(const struct cli_args *args, bool alone);
/* What that file says of a job to be submitted: a task for each host, on exactly those nodes, as far as the
 * options do not say otherwise. Fewer tasks need only the first hosts. */
int cli_spec_hosts(const struct cli_args *args, bool alone, struct mu_arena *arena, Mu__JobSpec *spec,
		   struct mu_err *err);

/* Fewer tasks than nodes, both asked for in one place: as many nodes as tasks, and a warning says so. */
void cli_spec_nodes(const struct cli *c, const struct cli_args *args, Mu__JobSpec *spec);

/* Strings that are no UTF-8, or too long: MU_EINVAL or MU_EPATH. */
int cli_spec_check(const Mu__JobSpec *spec, struct mu_err *err);

/* "[B:]SIG[@SECONDS]" */
int cli_spec_signal(const char *text, Mu__JobSpec *spec, struct mu_err *err);
/* "N" or "N-M" */
int cli_spec_range(const char *what, const char *text, uint32_t *ret_min, uint32_t *ret_max,
		   struct mu_err *err);

/* The block that -v prints: every option that was set, by name. */
void cli_spec_dump(const struct cli *c, const struct cli_args *args);

/* ---- scripts (cli/script.c) ---- */
enum { CLI_SCRIPT_MAX = 4 << 20 };
/* Checks a script: #! first, no DOS line ends, no NUL bytes, not empty. 0, or MU_ESCRIPT with up to three
 * lines in ERR divided by \n. */
int cli_script_check(const char *text, size_t len, struct mu_err *err);
/* Reads the #SBATCH lines before the first command into ARGS at level CLI_SCRIPT: those of COMPONENT, from 0.
 * #SBATCH hetjob begins the next one; RET_COMPONENTS: how many there are. */
int cli_script_options(const char *text, size_t len, struct cli_args *args, size_t component,
		       size_t *ret_components, struct mu_arena *arena, struct mu_err *err);
/* Words of one directive's rest: quotes undone, an unquoted # ends it. 0 or MU_ESYNTAX (a quote that does not
 * end). */
int cli_script_words(const char *text, size_t len, struct mu_arena *arena, char ***ret, size_t *ret_count,
		     struct mu_err *err);

/* ---- environment of the job (cli/environment.c) ---- */
/* Appends NAME=VALUE NUL ... to OUT as --export asks (NULL: ALL) of ENVIRON. */
int cli_environment_make(const char *export_text, char *const *environ_list, struct mu_buf *out,
			 struct mu_err *err);
/* Appends the limits of this process (ulimit), each as SLURM_RLIMIT_NAME=NUMBER NUL; the node sets them
 * again. */
void cli_environment_limits(const char *propagate, struct mu_buf *out);
/* 0, or MU_EINVAL naming the word of --propagate that is no limit. */
/* What --propagate names: NULL when it was not given, "" for all. */
const char *cli_propagate(const struct cli_args *args);
int cli_environment_check_limits(const char *propagate, struct mu_err *err);

#endif
