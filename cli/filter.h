/* cli/filter.h: what listings ask for: options that become a Query, and states. */
#ifndef CLI_FILTER_H
#define CLI_FILTER_H

#include "cli/cli.h"
#include "cli/option.h"

/* Sets QUERY's words (partition, account, qos, name) and users (-u, --me) from ARGS. 0 or a sentence. */
int cli_filter_query(struct cli *c, const struct cli_args *args, Mu__Query *query, struct mu_err *err);
/* Adds ID to QUERY->job. */
void cli_filter_job(struct cli *c, Mu__Query *query, uint32_t id);
/* Adds the job that ID names: of 12+1 the first component and, as ids of components follow one another, it. */
void cli_filter_id(struct cli *c, Mu__Query *query, const struct cli_job_id *id);
/* Adds STATES ("PD,running", "all") to QUERY->state; "all" leaves it empty. WHAT: the command's word for a
 * mistake. */
int cli_filter_states(struct cli *c, const char *states, Mu__Query *query, struct mu_err *err);
/* Adds the nodes of LIST; every name must be a node of the cluster: MU_ENODENAME "Invalid node name X". */
int cli_filter_nodes(struct cli *c, const char *list, bool must_exist, Mu__Query *query, struct mu_err *err);
/* Is WORD in the comma list LIST? Case-sensitive. */
bool cli_in_list(const char *list, const char *word);

#endif
