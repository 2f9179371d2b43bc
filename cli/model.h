/* cli/model.h: rows as JSON, in the data model v0.0.40. */
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
/* Only v0.0.40 is known: MODEL NULL means that. 0, MU_EINVAL, or 1 for "list": what there is has been
 * printed. */
int cli_model_check(const char *model, struct mu_err *err);
void cli_model_begin(struct cli *c, struct cli_model *m);
int cli_model_end(struct cli_model *m);

void cli_model_job(struct cli_json *j, const struct cli *c, const Mu__JobRow *job);
void cli_model_node(struct cli_json *j, const struct cli *c, const Mu__NodeRow *node,
		    const char *const *partitions, size_t count);
void cli_model_partition(struct cli_json *j, const struct cli *c, const Mu__PartitionRow *partition);
void cli_model_history(struct cli_json *j, const struct cli *c, const Mu__HistRow *row);

#endif
