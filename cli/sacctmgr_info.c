/* cli/sacctmgr_info.c: sacctmgr show configuration, stats: what stands elsewhere in Muster, in the place
 * where people look. */
#include <inttypes.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/sacctmgr.h"
#include "proto/version.h"

static void date_of(int64_t usec, char *out, size_t cap)
{
	time_t t = (time_t)(usec / 1000000);
	struct tm tm;

	localtime_r(&t, &tm);
	strftime(out, cap, "%a %b %d %H:%M:%S %Y", &tm);
}

/* The keys of the configuration that accounting goes by, as the cluster has them. */
int mgr_show_config(struct mgr *m)
{
	static const char *const keys[] = {"AccountingStorageEnforce",
					   "AccountingStorageTRES",
					   "AccountingStoreFlags",
					   "ClusterName",
					   "JobAcctGatherFrequency",
					   "JobAcctGatherType",
					   "MinJobAge",
					   "PriorityDecayHalfLife",
					   "PriorityType",
					   "PriorityUsageResetPeriod",
					   "PrivateData",
					   "SlurmUser",
					   "TrackWCKey"};
	Mu__Query ask = MU__QUERY__INIT;
	struct mu_err err = {0};
	char date[64];
	void **rows;
	size_t n;

	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_CONFIG;
	if (cli_query_all(m->cli, &ask, &mu__config_row__descriptor, &rows, &n, &err)) {
		cli_error(m->cli, "%s", err.text);
		return 1;
	}
	const Mu__ConfigRow *row = n ? rows[0] : NULL;
	date_of(m->cli->now_usec, date, sizeof date);
	printf("Configuration data as of %s\n", date);
	printf("%-24s = %s\n", "AccountingStorageType", "the replicated log of the controllers");
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const char *value = "(null)";
		for (size_t k = 0; row && row->config && k < row->config->n_key; k++)
			if (strcasecmp(row->config->key[k]->key, keys[i]) == 0)
				value = row->config->key[k]->value;
		printf("%-24s = %s\n", keys[i],
		       strcmp(keys[i], "ClusterName") == 0 ? m->cli->conf.cluster : value);
	}
	printf("%-24s = %s\n", "SLURM_VERSION", MU_SLURM_VERSION);
	return 0;
}

/* What the controller that answers counts of requests; there are no rollups to speak of. */
int mgr_show_stats(struct mgr *m)
{
	static const char *const shown[] = {"muster_requests_total", "muster_queries_total",
					    "muster_submits_total", "muster_refused_total"};
	Mu__Request request = MU__REQUEST__INIT;
	Mu__DiagAsk ask = MU__DIAG_ASK__INIT;
	Mu__Reply *reply;
	struct mu_err err = {0};
	char date[64];

	request.ask_case = MU__REQUEST__ASK_DIAG;
	request.diag = &ask;
	if (cli_ask_done(m->cli, &request, &reply, &err) || reply->answer_case != MU__REPLY__ANSWER_DIAG) {
		cli_error(m->cli, "%s", err.code ? err.text : "A controller answered another question");
		return 1;
	}
	date_of(cli_now_usec(), date, sizeof date);
	printf("*******************************************************************\n"
	       "sacctmgr show stats output at %s (%" PRId64 ")\n"
	       "All statistics are in microseconds\n"
	       "*******************************************************************\n"
	       "\nInternal DBD rollup: none; reports are integrated when they are asked for\n"
	       "\nRemote Procedure Call statistics of the controller that answers\n",
	       date, cli_now_usec() / 1000000);
	for (size_t i = 0; i < reply->diag->n_metric; i++) {
		const Mu__Metric *x = reply->diag->metric[i];
		for (size_t k = 0; k < sizeof shown / sizeof *shown; k++)
			if (strcmp(x->name, shown[k]) == 0)
				printf("\t%-32s %-24s count:%.0f\n", x->name, x->labels ? x->labels : "",
				       x->value);
	}
	return 0;
}
