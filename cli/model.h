/* cli/model.h: rows as JSON or YAML, in the data model v0.0.41, or v0.0.40 where it is asked for. The two
 * differ in how a job's resources lie on its nodes. */
#ifndef CLI_MODEL_H
#define CLI_MODEL_H

#include "cli/cli.h"
#include "cli/json.h"

/* The outermost object with its meta part; ends with errors and warnings. Writes to stdout and returns the
 * exit code. */
struct cli_model {
	struct mu_buf out;
	struct cli_json json;
	const struct cli *cli;
	size_t meta_end; /* where the moment goes that the rows are of: known when they are there */
};
/* Reads --json=MODEL and --yaml=MODEL into C. 0, MU_EINVAL, or 1 for "list": what there is has been printed.
 */
struct cli_args;
int cli_model_read(struct cli *c, const struct cli_args *args, struct mu_err *err);
/* Is the output to be JSON or YAML? */
bool cli_model_wanted(const struct cli_args *args);
void cli_model_begin(struct cli *c, struct cli_model *m);
int cli_model_end(struct cli_model *m);

void cli_model_job(struct cli_json *j, const struct cli *c, const Mu__JobRow *job);
void cli_model_node(struct cli_json *j, const struct cli *c, const Mu__NodeRow *node,
		    const char *const *partitions, size_t count);
void cli_model_partition(struct cli_json *j, const struct cli *c, const Mu__PartitionRow *partition);
/* What sinfo has of GROUP, nodes that it shows in one line. */
struct cli_group;
void cli_model_group(struct cli_json *j, const struct cli *c, const struct cli_group *group);
void cli_model_step(struct cli_json *j, const Mu__StepRow *step);
void cli_model_history(struct cli_json *j, const struct cli *c, const Mu__HistRow *row);

#endif
