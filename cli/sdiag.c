/* cli/sdiag.c: what the controller that answers counts. */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "cli/model.h"
#include "cli/model_parts.h"
#include "cli/option.h"

static void banner(const char *text, int64_t now_usec)
{
	char date[64];
	time_t t = (time_t)(now_usec / 1000000);
	struct tm tm;

	localtime_r(&t, &tm);
	strftime(date, sizeof date, "%a %b %d %H:%M:%S %Y", &tm);
	printf("*******************************************************\n%s %s (%" PRId64 ")\n", text, date,
	       now_usec / 1000000);
}

/* Whole numbers without a fraction: counters are whole, spans are not. */
static void put_value(const Mu__Metric *m)
{
	int64_t whole = (int64_t)m->value;

	if ((double)whole == m->value)
		printf("\t%s%s%s%s: %" PRId64 "\n", m->name, m->labels && *m->labels ? "{" : "",
		       m->labels ? m->labels : "", m->labels && *m->labels ? "}" : "", whole);
	else
		printf("\t%s%s%s%s: %.6f\n", m->name, m->labels && *m->labels ? "{" : "",
		       m->labels ? m->labels : "", m->labels && *m->labels ? "}" : "", m->value);
}

static double metric(const Mu__DiagReply *diag, const char *name)
{
	for (size_t i = 0; i < diag->n_metric; i++)
		if (strcmp(diag->metric[i]->name, name) == 0)
			return diag->metric[i]->value;
	return 0;
}

/* Seconds as people read them in such a table: microseconds. */
static int64_t usec(const Mu__DiagReply *diag, const char *name)
{
	return (int64_t)(metric(diag, name) * 1e6 + 0.5);
}

/* Passes are those of the controller that answers: zeros where it has not led. */
static void print_passes(const Mu__ClusterRow *row, const Mu__DiagReply *diag)
{
	int64_t cycles = (int64_t)metric(diag, "muster_passes_total"), all = cycles ? cycles : 1;

	printf("Main schedule statistics (microseconds):\n\tLast cycle:   %" PRId64
	       "\n\tMax cycle:    %" PRId64 "\n\tTotal cycles: %" PRIu64 "\n\tMean cycle:   %" PRId64
	       "\n\tMean depth cycle: %" PRId64 "\n\tLast queue length: %" PRId64 "\n",
	       usec(diag, "muster_pass_seconds"), usec(diag, "muster_pass_max_seconds"), row->pass,
	       usec(diag, "muster_pass_seconds_total") / all,
	       (int64_t)metric(diag, "muster_pass_steps_total") / all,
	       (int64_t)metric(diag, "muster_pass_queue_depth"));
	printf("\tLast cycle steps: %" PRId64 "\n\tMax cycle steps: %" PRId64 "\n\tSlices: %" PRId64
	       "\n\tStarts void: %" PRIu64 "\n\tEvents void: %" PRIu64 "\n\n",
	       (int64_t)metric(diag, "muster_pass_steps"), (int64_t)metric(diag, "muster_pass_steps_max"),
	       (int64_t)metric(diag, "muster_pass_slices_total"), row->starts_void, row->voided);
	printf("Backfilling stats\n\tLast depth cycle: %" PRId64 "\n\tLast queue length: %" PRId64
	       "\n\nController statistics:\n",
	       (int64_t)metric(diag, "muster_pass_backfill_depth"),
	       (int64_t)metric(diag, "muster_pass_queue_depth"));
}

static int load_cluster(struct cli *c, const Mu__ClusterRow **ret, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	void **rows;
	size_t n;
	int rc;

	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_CLUSTER;
	rc = cli_query_all(c, &ask, &mu__cluster_row__descriptor, &rows, &n, err);
	if (rc)
		return rc;
	if (!n)
		return mu_fail(err, MU_ENOTREADY, "The cluster has no history yet");
	*ret = rows[0];
	return 0;
}

/* The sum of NAME over its labels that have LABEL (NULL: all of them). */
static int64_t labelled(const Mu__DiagReply *diag, const char *name, const char *label)
{
	double sum = 0;

	for (size_t i = 0; i < diag->n_metric; i++) {
		const Mu__Metric *m = diag->metric[i];

		if (strcmp(m->name, name) == 0 && (!label || (m->labels && strstr(m->labels, label))))
			sum += m->value;
	}
	return (int64_t)sum;
}

static void put_passes(struct cli_json *j, const Mu__ClusterRow *row, const Mu__DiagReply *diag)
{
	int64_t cycles = (int64_t)metric(diag, "muster_passes_total"), all = cycles ? cycles : 1,
		queue = (int64_t)metric(diag, "muster_pass_queue_depth"),
		depth = (int64_t)metric(diag, "muster_pass_backfill_depth");

	json_number(j, "schedule_cycle_total", (int64_t)row->pass);
	json_number(j, "schedule_cycle_last", usec(diag, "muster_pass_seconds"));
	json_number(j, "schedule_cycle_max", usec(diag, "muster_pass_max_seconds"));
	json_number(j, "schedule_cycle_sum", usec(diag, "muster_pass_seconds_total"));
	json_number(j, "schedule_cycle_mean", usec(diag, "muster_pass_seconds_total") / all);
	json_number(j, "schedule_cycle_mean_depth", (int64_t)metric(diag, "muster_pass_steps_total") / all);
	json_number(j, "schedule_queue_length", queue);
	/* One pass starts jobs in order and behind those that wait: its figures are those of both. */
	json_bool(j, "bf_active", false);
	json_number(j, "bf_cycle_counter", (int64_t)row->pass);
	json_number(j, "bf_cycle_last", usec(diag, "muster_pass_seconds"));
	json_number(j, "bf_cycle_max", usec(diag, "muster_pass_max_seconds"));
	json_number(j, "bf_cycle_sum", usec(diag, "muster_pass_seconds_total"));
	json_number(j, "bf_cycle_mean", usec(diag, "muster_pass_seconds_total") / all);
	json_number(j, "bf_last_depth", depth);
	json_number(j, "bf_last_depth_try", depth);
	json_number(j, "bf_queue_len", queue);
	json_number(j, "bf_backfilled_jobs", 0);
	json_number(j, "bf_last_backfilled_jobs", 0);
	json_number(j, "bf_backfilled_het_jobs", 0);
}

static int print_json(struct cli *c, const Mu__ClusterRow *row, const Mu__DiagReply *diag)
{
	struct cli_model m = {0};
	struct cli_json *j = &m.json;

	cli_model_begin(c, &m);
	json_object(j, "statistics");
	json_number(j, "parts_packed", 1);
	when(j, "req_time", c->now_usec);
	when(j, "req_time_start", 0);
	json_number(j, "server_thread_count", (int64_t)metric(diag, "muster_requests_waiting"));
	json_number(j, "agent_queue_size", 0);
	json_number(j, "agent_count", 0);
	json_number(j, "agent_thread_count", 0);
	json_number(j, "dbd_agent_queue_size", 0);
	json_number(j, "gettimeofday_latency", 0);
	json_number(j, "jobs_submitted", (int64_t)row->jobs_submitted);
	json_number(j, "jobs_started", (int64_t)row->jobs_started);
	json_number(j, "jobs_completed", (int64_t)row->jobs_completed);
	json_number(j, "jobs_canceled", (int64_t)row->jobs_cancelled);
	json_number(j, "jobs_failed", (int64_t)row->jobs_failed);
	json_number(j, "jobs_pending", labelled(diag, "muster_jobs", "pending"));
	json_number(j, "jobs_running", labelled(diag, "muster_jobs", "running"));
	when(j, "job_states_ts", c->now_usec);
	put_passes(j, row, diag);
	for (int k = 0; k < 4; k++) {
		static const char *const empty[] = {"rpcs_by_message_type", "rpcs_by_user", "pending_rpcs",
						    "pending_rpcs_by_hostlist"};

		json_array(j, empty[k]);
		json_array_end(j);
	}
	json_array(j, "metrics");
	for (size_t i = 0; i < diag->n_metric; i++) {
		json_object(j, NULL);
		json_text(j, "name", diag->metric[i]->name);
		json_text(j, "labels", diag->metric[i]->labels);
		json_real(j, "value", diag->metric[i]->value);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
	return cli_model_end(&m);
}

int cli_sdiag(struct cli *c, int argc, char **argv)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__DiagAsk ask = MU__DIAG_ASK__INIT;
	struct cli_args args = {0};
	struct mu_err err = {0};
	const Mu__ClusterRow *row = NULL;
	Mu__DiagReply none = MU__DIAG_REPLY__INIT;
	Mu__Reply *reply = NULL;
	int rc;

	if (cli_begin(c, argc, argv, false, &args, &rc))
		return rc;
	if (args.word_count) {
		cli_error(c, "Unrecognized option: %s", args.words[0]);
		return 1;
	}
	request.ask_case = MU__REQUEST__ASK_DIAG;
	request.diag = &ask;
	if (cli_take_at(c, &args, &err)) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	/* What the controllers count of themselves is of the present only. */
	if (load_cluster(c, &row, &err) || (!c->at && cli_ask_done(c, &request, &reply, &err))) {
		fprintf(stderr, "slurm_get_statistics: %s\n", err.text);
		return 1;
	}
	if (!c->at && reply->answer_case != MU__REPLY__ANSWER_DIAG) {
		cli_error(c, "A controller answered without counters");
		return 1;
	}
	if (cli_model_wanted(&args))
		return print_json(c, row, c->at ? &none : reply->diag);
	banner("sdiag output at", c->at ? c->now_usec : cli_now_usec());
	printf("Data since the cluster was founded; nothing is ever "
	       "reset\n*******************************************************\n");
	printf("Jobs submitted: %" PRIu64 "\nJobs started:   %" PRIu64 "\nJobs completed: %" PRIu64
	       "\nJobs canceled:  %" PRIu64 "\nJobs failed:    %" PRIu64 "\n\n",
	       row->jobs_submitted, row->jobs_started, row->jobs_completed, row->jobs_cancelled,
	       row->jobs_failed);
	if (c->at)
		printf("Main schedule statistics:\n\tTotal cycles: %" PRIu64 "\n\tStarts void: %" PRIu64
		       "\n\tEvents void: %" PRIu64 "\n",
		       row->pass, row->starts_void, row->voided);
	else
		print_passes(row, reply->diag);
	for (size_t i = 0; !c->at && i < reply->diag->n_metric; i++)
		put_value(reply->diag->metric[i]);
	return 0;
}
