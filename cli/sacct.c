/* cli/sacct.c: lists jobs and steps, finished ones too. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "cli/array.h"
#include "cli/column.h"
#include "cli/filter.h"
#include "cli/model.h"
#include "cli/option.h"
#include "cli/spec.h"
#include "proto/base/map.h"
#include "proto/states.h"

#define FORMAT_DEFAULT "jobid,jobname,partition,account,alloccpus,state,exitcode"
#define FORMAT_BRIEF "jobid,state,exitcode"
#define FORMAT_LONG                                                                                          \
	"jobid,jobidraw,jobname,partition,maxvmsize,maxvmsizenode,maxvmsizetask,avevmsize,maxrss,"           \
	"maxrssnode,"                                                                                        \
	"maxrsstask,averss,maxpages,maxpagesnode,maxpagestask,avepages,mincpu,mincpunode,mincputask,avecpu," \
	"ntasks,"                                                                                            \
	"alloccpus,elapsed,state,exitcode,avecpufreq,reqcpufreqmin,reqcpufreqmax,reqcpufreqgov,reqmem,"      \
	"consumedenergy,"                                                                                    \
	"maxdiskread,maxdiskreadnode,maxdiskreadtask,avediskread,maxdiskwrite,maxdiskwritenode,"             \
	"maxdiskwritetask,"                                                                                  \
	"avediskwrite,reqtres,alloctres,tresusageinave,tresusageinmax,tresusageinmaxnode,"                   \
	"tresusageinmaxtask,"                                                                                \
	"tresusageinmin,tresusageinminnode,tresusageinmintask,tresusageintot,tresusageoutmax,"               \
	"tresusageoutmaxnode,"                                                                               \
	"tresusageoutmaxtask,tresusageoutave,tresusageouttot"

struct sacct {
	struct cli *cli;
	const struct cli_args *args;
	struct cli_format format;
	struct cli_acct_style style;
	Mu__Query query;
	struct cli_job_id *id;
	size_t ids;
	uint32_t nodes[2], cpus[2];
	int64_t limit[2];
	unsigned cell_flags;
	struct mu_map qos; /* by name, where their numbers are shown */
	char unit;
	bool jobs_only, duplicates, more; /* more: of another cluster, under the same heading */
};

/* ---- filters that the query does not have ---- */

static bool in_range(const uint32_t range[2], uint32_t value)
{
	return !range[0] || (value >= range[0] && value <= range[1]);
}

static bool group_wanted(const struct sacct *s, const Mu__JobRow *j)
{
	const char *groups = cli_args_value(s->args, OPT_list_gid);
	size_t count;
	char **words;

	if (!groups)
		return true;
	words = cli_split(&s->cli->arena, groups, &count);
	for (size_t i = 0; i < count; i++) {
		uint32_t gid;

		if ((j->group && strcmp(j->group, words[i]) == 0) ||
		    (!cli_group_id(words[i], &gid, NULL) && gid == j->gid))
			return true;
	}
	return false;
}

static bool job_wanted(const struct sacct *s, const Mu__JobRow *j)
{
	const Mu__JobSpec *spec = cli_job_spec(j);
	const char *wckeys = cli_args_value(s->args, OPT_wckeys),
		   *features = cli_args_value(s->args, OPT_constraints),
		   *assocs = cli_args_value(s->args, OPT_associations),
		   *flags = cli_args_value(s->args, OPT_acct_flags),
		   *reasons = cli_args_value(s->args, OPT_acct_reason);
	char assoc[16];

	if (!in_range(s->nodes, j->node_count ? j->node_count : j->nodes_min) ||
	    !in_range(s->cpus, j->cpus_total))
		return false;
	if (s->limit[0] && (s->limit[1] ? j->time_limit_sec < s->limit[0] : j->time_limit_sec != s->limit[0]))
		return false;
	if (s->limit[1] && j->time_limit_sec > s->limit[1])
		return false;
	if (wckeys && !cli_in_list(wckeys, spec->wckey))
		return false;
	if (features && (!spec->features || !cli_in_list(features, spec->features)))
		return false;
	snprintf(assoc, sizeof assoc, "%u", j->assoc);
	if (assocs && !cli_in_list(assocs, assoc))
		return false;
	/* Jobs start in the one pass that goes through the queue, which Slurm calls its main one. */
	if (flags && (!j->start_usec || !cli_in_list(flags, "SchedMain")))
		return false;
	if (reasons && !cli_in_list(reasons, mu_job_reason_word(j->reason)))
		return false;
	return group_wanted(s, j);
}

/* Was the row of JOB (step NULL) or STEP asked for by -j? */
static bool row_wanted(const struct sacct *s, const Mu__JobRow *job, const Mu__StepRow *step)
{
	if (s->jobs_only && step)
		return false;
	if (!s->ids)
		return true;
	for (size_t i = 0; i < s->ids; i++) {
		const struct cli_job_id *id = &s->id[i];

		if (cli_id_names(id, job) && (!id->has_step || (step && step->step == id->step)))
			return true;
	}
	return false;
}

/* ---- printing ---- */

static void print_cell(const struct sacct *s, const Mu__HistRow *row, const Mu__StepRow *step,
		       const Mu__Usage *sum, struct mu_buf *out)
{
	struct cli_cell cell = {.job = row->job,
				.step = step,
				.usage = sum,
				.now_usec = s->cli->now_usec,
				.flags = s->cell_flags,
				.unit = s->unit};

	cell.cluster = s->cli->conf.cluster;
	cell.arena = &s->cli->arena;
	cell.qos_ids = &s->qos;
	if (cli_args_has(s->args, OPT_truncate)) {
		cell.from_usec = s->query.from_usec;
		cell.to_usec = s->query.to_usec;
	}
	cli_acct_row(&s->format, &s->style, &cell, out);
}

/* Batch and extern first, then by number, as Slurm lists them. */
static int step_order(const Mu__StepRow *s)
{
	return s->step == MU_STEP_BATCH ? 0 : s->step == MU_STEP_EXTERN ? 1 : 2;
}

static int compare_steps(const void *a, const void *b)
{
	const Mu__StepRow *x = *(Mu__StepRow *const *)a, *y = *(Mu__StepRow *const *)b;

	if (step_order(x) != step_order(y))
		return step_order(x) - step_order(y);
	return (x->step > y->step) - (x->step < y->step);
}

static void print_row(const struct sacct *s, const Mu__HistRow *row, struct mu_buf *out)
{
	Mu__Usage sum = MU__USAGE__INIT;

	if (row->n_step)
		qsort(row->step, row->n_step, sizeof *row->step, compare_steps);
	for (size_t i = 0; i < row->n_step; i++) {
		if (row->step[i]->usage) {
			sum.user_cpu_usec += row->step[i]->usage->user_cpu_usec;
			sum.sys_cpu_usec += row->step[i]->usage->sys_cpu_usec;
		}
	}
	if (row_wanted(s, row->job, NULL))
		print_cell(s, row, NULL, &sum, out);
	for (size_t i = 0; i < row->n_step; i++) {
		if (row_wanted(s, row->job, row->step[i]))
			print_cell(s, row, row->step[i], NULL, out);
	}
}

struct task_of {
	const struct sacct *s;
	const Mu__HistRow *row;
	struct mu_buf *out;
};

static void print_task(void *arg, const Mu__JobRow *task)
{
	const struct task_of *t = arg;
	Mu__HistRow row = *t->row;

	row.job = (Mu__JobRow *)task;
	print_row(t->s, &row, t->out);
}

/* The script, or (ENVIRONMENT) what the job was submitted with, NAME=VALUE on each line. */
static int print_blob(const struct sacct *s, const Mu__HistRow *row, bool environment)
{
	const Mu__JobSpec *spec = cli_job_spec(row->job);
	uint64_t offset = 0, total = 1;

	printf(
	    "%s for %u\n--------------------------------------------------------------------------------\n",
	    environment ? "Environment used" : "Batch Script", row->job->id);
	if (!(environment ? spec->has_env_hash : spec->has_script_hash)) {
		printf("NONE\n");
		return 0;
	}
	while (offset < total) {
		Mu__Request request = MU__REQUEST__INIT;
		Mu__BlobAsk ask = MU__BLOB_ASK__INIT;
		Mu__Reply *reply;
		struct mu_err err = {0};

		ask.has_hash = ask.has_offset = ask.has_job = 1;
		ask.hash = environment ? spec->env_hash : spec->script_hash;
		ask.offset = offset;
		ask.job = row->job->id;
		request.ask_case = MU__REQUEST__ASK_BLOB;
		request.blob = &ask;
		if (cli_ask_done(s->cli, &request, &reply, &err)) {
			cli_error(s->cli, "%s", err.text);
			return 1;
		}
		if (reply->answer_case != MU__REPLY__ANSWER_BLOB || !reply->blob->data.len)
			break;
		for (size_t i = 0; environment && i < reply->blob->data.len; i++)
			if (!reply->blob->data.data[i])
				reply->blob->data.data[i] = '\n';
		fwrite(reply->blob->data.data, 1, reply->blob->data.len, stdout);
		offset += reply->blob->data.len;
		total = reply->blob->total;
	}
	return 0;
}

/* By job, then attempt: history comes in the order in which jobs ended. */
static int compare_rows(const void *a, const void *b)
{
	const Mu__HistRow *x = *(Mu__HistRow *const *)a, *y = *(Mu__HistRow *const *)b;
	const Mu__JobRow none = MU__JOB_ROW__INIT, *i = x->job ? x->job : &none, *j = y->job ? y->job : &none;

	if (i->id != j->id)
		return cli_job_order(i, j);
	return (i->attempt > j->attempt) - (i->attempt < j->attempt);
}

/* --whole-hetjob: 1 yes, -1 no, 0 as the id says. */
static int whole_hetjob(const struct sacct *s)
{
	const char *value = cli_args_value(s->args, OPT_whole_hetjob);

	if (!cli_args_has(s->args, OPT_whole_hetjob))
		return 0;
	return value && strcasecmp(value, "no") == 0 ? -1 : 1;
}

/* Names all components of which one is named. */
static int widen(struct sacct *s, struct mu_err *err)
{
	Mu__Query query = s->query;
	void **rows;
	size_t count;
	int rc = cli_query_all(s->cli, &query, &mu__hist_row__descriptor, &rows, &count, err);

	if (rc)
		return rc == MU_EJOBID ? 0 : rc;
	struct cli_job_id *more = mu_arena_alloc(&s->cli->arena, (s->ids + count + 1) * sizeof *more);

	memcpy(more, s->id, s->ids * sizeof *more);
	for (size_t i = 0, ids = s->ids; i < count; i++) {
		const Mu__JobRow *j = ((Mu__HistRow *)rows[i])->job;

		if (!j || !j->het_job || !cli_job_named(&s->cli->arena, (Mu__JobRow *)j, s->id, ids))
			continue;
		more[s->ids++] = (struct cli_job_id){.job = j->het_job};
		cli_filter_job(s->cli, &s->query, j->het_job);
	}
	s->id = more;
	return 0;
}

/* Is J one of those that --whole-hetjob=no leaves out: named by its first component alone? */
static bool beside_named(const struct sacct *s, const Mu__JobRow *j)
{
	bool named = !j->het_job || !s->ids || whole_hetjob(s) >= 0;

	for (size_t i = 0; i < s->ids && !named; i++)
		named = s->id[i].has_component || s->id[i].job == j->id;
	return !named;
}

static int list(struct sacct *s)
{
	struct mu_buf out MU_CLEANUP(mu_buf_free) = {0};
	struct cli_model model = {0};
	struct mu_err err = {0};
	void **rows;
	size_t count;
	bool json = cli_model_wanted(s->args), env = cli_args_has(s->args, OPT_env_vars),
	     scripts = env || cli_args_has(s->args, OPT_batch_script);
	int rc = s->ids && whole_hetjob(s) > 0 ? widen(s, &err) : 0;

	if (rc) {
		cli_error(s->cli, "%s", err.text);
		return 1;
	}
	if (cli_query_all(s->cli, &s->query, &mu__hist_row__descriptor, &rows, &count, &err)) {
		/* An id that nobody knows is an empty list here. */
		if (err.code != MU_EJOBID) {
			cli_error(s->cli, "%s", err.text);
			return 1;
		}
		count = 0;
	}
	if (count)
		qsort(rows, count, sizeof *rows, compare_rows);
	if (json) {
		cli_model_begin(s->cli, &model);
		json_array(&model.json, "jobs");
	} else if (!scripts && !s->more && !cli_args_has(s->args, OPT_noheader_acct)) {
		cli_acct_heading(&s->format, &s->style, &out);
	}
	for (size_t i = 0; i < count; i++) {
		Mu__HistRow *row = rows[i], *next = i + 1 < count ? rows[i + 1] : NULL;

		if (!row->job || !job_wanted(s, row->job))
			continue;
		/* Without -D a job's last attempt is shown. */
		if (!s->duplicates && next && next->job && next->job->id == row->job->id &&
		    next->job->attempt > row->job->attempt)
			continue;
		row->job = cli_job_named(&s->cli->arena, row->job, s->id, s->ids);
		if (!row->job || beside_named(s, row->job))
			continue;
		if (json)
			cli_model_history(&model.json, s->cli, row);
		else if (scripts)
			rc |= print_blob(s, row, env && !cli_args_has(s->args, OPT_batch_script));
		else if (cli_args_has(s->args, OPT_acct_array))
			cli_job_each(row->job, print_task, &(struct task_of){s, row, &out});
		else
			print_row(s, row, &out);
		if (!json && out.len > 60000) {
			fwrite(out.data, 1, out.len, stdout);
			mu_buf_reset(&out);
		}
	}
	if (json) {
		json_array_end(&model.json);
		return cli_model_end(&model);
	}
	fwrite(out.data ? (char *)out.data : "", 1, out.len, stdout);
	return rc;
}

/* ---- options ---- */

static int read_ids(struct sacct *s, const char *text, struct mu_err *err)
{
	size_t count;
	char **words = cli_split_ids(&s->cli->arena, text, &count);
	struct cli_job_id *more = mu_arena_alloc(&s->cli->arena, (s->ids + count + 1) * sizeof *more);

	if (s->ids)
		memcpy(more, s->id, s->ids * sizeof *more);
	s->id = more;
	for (size_t i = 0; i < count; i++) {
		if (cli_job_id_parse(&s->cli->arena, words[i], &s->id[s->ids], NULL))
			return mu_fail(err, MU_EINVAL, "Invalid job id specified: %s", words[i]);
		cli_filter_id(s->cli, &s->query, &s->id[s->ids++]);
	}
	return 0;
}

static int read_time(const struct sacct *s, int option, int64_t *ret_usec, struct mu_err *err)
{
	const char *text = cli_args_value(s->args, option);

	if (!text)
		return 0;
	if (mu_date_parse(text, cli_now_usec(), 0, &cli_zone, ret_usec, NULL))
		return mu_fail(
		    err, MU_EINVAL,
		    "Invalid time specification: \"%s\" of --%s (such as 2026-10-01T15:00, now-2days, 15:00)",
		    text, mu_options[option].name);
	return 0;
}

/* The present of the answer: with --at that moment. */
static int present(struct sacct *s, int64_t *ret, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	void **rows;
	size_t n;

	*ret = cli_now_usec();
	if (!cli_args_has(s->args, OPT_at) && !s->cli->pin)
		return 0;
	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_CLUSTER;
	int rc = cli_args_has(s->args, OPT_at) ? cli_set_at(s->cli, cli_args_value(s->args, OPT_at), err) : 0;
	if (!rc)
		rc = cli_query_all(s->cli, &ask, &mu__cluster_row__descriptor, &rows, &n, err);
	if (!rc)
		*ret = s->cli->now_usec;
	return rc;
}

/* Slurm's default window: from midnight until now; of jobs by their number from the beginning; of states this
 * moment, or that of --starttime. */
static int read_window(struct sacct *s, struct mu_err *err)
{
	Mu__Query *q = &s->query;
	int64_t now = 0;
	bool named = s->ids > 0, states = cli_args_has(s->args, OPT_list_state);
	int rc = present(s, &now, err);

	if (!rc && !named && !states)
		mu_date_parse("midnight", now, 0, &cli_zone, &q->from_usec, NULL);
	if (!rc)
		rc = read_time(s, OPT_starttime, &q->from_usec, err);
	if (!rc)
		rc = read_time(s, OPT_endtime, &q->to_usec, err);
	if (rc)
		return rc;
	if (states && !q->to_usec && !(named && !q->from_usec))
		q->to_usec = q->from_usec ? q->from_usec : now;
	if (states && !named && !q->from_usec)
		q->from_usec = q->to_usec < now ? q->to_usec : now;
	q->has_from_usec = q->from_usec != 0;
	q->has_to_usec = q->to_usec != 0;
	if (q->from_usec > (q->to_usec ? q->to_usec : now)) {
		char from[32], to[32];

		mu_date_print(q->from_usec, &cli_zone, from);
		mu_date_print(q->to_usec ? q->to_usec : now, &cli_zone, to);
		return mu_fail(err, MU_EINVAL, "Start time (%s) requested is after end time (%s).", from, to);
	}
	return 0;
}

static int read_format(struct sacct *s, struct mu_err *err)
{
	const struct cli_given *given = cli_args_last(s->args, OPT_format_acct);
	const char *text = FORMAT_DEFAULT;
	struct mu_buf all MU_CLEANUP(mu_buf_free) = {0};

	if (given && (given->level == CLI_LINE ||
		      !(cli_args_has(s->args, OPT_brief) || cli_args_has(s->args, OPT_long)))) {
		/* Several -o add up. */
		for (size_t i = 0; i < s->args->count; i++) {
			const struct cli_given *g = &s->args->given[i];

			if (g->option->id == OPT_format_acct && g->level == given->level)
				mu_buf_printf(&all, "%s%s", all.len ? "," : "", g->value);
		}
		text = (char *)all.data;
		if (strcasecmp(text, "all") == 0) {
			mu_buf_reset(&all);
			for (size_t i = 0; i < cli_acct_columns.count; i++)
				mu_buf_printf(&all, "%s%s", i ? "," : "", cli_acct_columns.column[i].name);
			text = (char *)all.data;
		}
	} else if (cli_args_has(s->args, OPT_brief)) {
		text = FORMAT_BRIEF;
	} else if (cli_args_has(s->args, OPT_long)) {
		text = FORMAT_LONG;
	}
	return cli_format_acct(&cli_acct_columns, text, &s->cli->arena, &s->format, err);
}

/* The numbers of QOSs, where a column shows them. */
static int read_qos(struct sacct *s, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	bool wanted = false;
	void **rows;
	size_t n;

	for (size_t i = 0; i < s->format.count; i++)
		wanted = wanted || strcmp(s->format.item[i].column->name, "QOSRAW") == 0;
	if (!wanted)
		return 0;
	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_QOS;
	int rc = cli_query_all(s->cli, &ask, &mu__qos_row__descriptor, &rows, &n, err);
	for (size_t i = 0; !rc && i < n; i++)
		if (((Mu__QosRow *)rows[i])->name)
			mu_map_put_str(&s->qos, ((Mu__QosRow *)rows[i])->name, rows[i]);
	return rc;
}

static int read_ranges(struct sacct *s, struct mu_err *err)
{
	const char *nodes = cli_args_value(s->args, OPT_nnodes), *cpus = cli_args_value(s->args, OPT_ncpus);
	const char *least = cli_args_value(s->args, OPT_timelimit_min),
		   *most = cli_args_value(s->args, OPT_timelimit_max);
	int rc = 0;

	if (nodes)
		rc = cli_spec_range("--nnodes", nodes, &s->nodes[0], &s->nodes[1], err);
	if (!rc && cpus)
		rc = cli_spec_range("--ncpus", cpus, &s->cpus[0], &s->cpus[1], err);
	if (!rc && least && mu_span_parse(least, &s->limit[0], NULL))
		rc = mu_fail(err, MU_EINVAL, "Invalid --timelimit-min specification: \"%s\"", least);
	if (!rc && most && mu_span_parse(most, &s->limit[1], NULL))
		rc = mu_fail(err, MU_EINVAL, "Invalid --timelimit-max specification: \"%s\"", most);
	return rc;
}

static int read_units(struct sacct *s, struct mu_err *err)
{
	const char *units = cli_args_value(s->args, OPT_units);

	if (cli_args_has(s->args, OPT_noconvert))
		s->cell_flags |= CELL_NOCONVERT;
	if (!units)
		return 0;
	if (!units[0] || units[1] || !strchr("KMGTPkmgtp", units[0]))
		return mu_fail(err, MU_EINVAL, "Invalid --units specification: \"%s\" (one of K, M, G, T, P)",
			       units);
	s->unit = (char)toupper((unsigned char)units[0]);
	return 0;
}

static int read_people(struct sacct *s, struct mu_err *err)
{
	int rc = cli_filter_query(s->cli, s->args, &s->query, err);
	bool all = cli_args_has(s->args, OPT_allusers) || s->ids ||
		   cli_args_has(s->args, OPT_list_nodelist_acct) || getuid() == 0;

	if (rc || s->query.n_uid || all)
		return rc;
	s->query.uid = mu_arena_alloc(&s->cli->arena, sizeof *s->query.uid);
	s->query.uid[0] = (uint32_t)getuid();
	s->query.n_uid = 1;
	return 0;
}

static int prepare(struct sacct *s, struct mu_err *err)
{
	const struct cli_args *args = s->args;
	int rc = 0;

	s->query = (Mu__Query)MU__QUERY__INIT;
	s->query.has_what = 1;
	s->query.what = MU__WHAT__WHAT_ACCT;
	s->jobs_only = cli_args_has(args, OPT_allocations);
	s->duplicates = cli_args_has(args, OPT_duplicates);
	if (args->word_count)
		return mu_fail(err, MU_EINVAL, "Unrecognized argument: %s", args->words[0]);
	if (cli_args_has(args, OPT_parsable_acct) || cli_args_has(args, OPT_parsable2)) {
		s->style.delimiter =
		    cli_args_value(args, OPT_delimiter) ? cli_args_value(args, OPT_delimiter) : "|";
		s->style.trail = !cli_args_has(args, OPT_parsable2);
	}
	for (size_t i = 0; i < args->count && !rc; i++) {
		if (args->given[i].option->id == OPT_jobs_acct)
			rc = read_ids(s, args->given[i].value, err);
		else if (args->given[i].option->id == OPT_list_state)
			rc = cli_filter_states(s->cli, args->given[i].value, &s->query, err);
	}
	if (!rc)
		rc = read_window(s, err);
	if (!rc)
		rc = read_format(s, err);
	if (!rc)
		rc = read_qos(s, err);
	if (!rc)
		rc = read_ranges(s, err);
	if (!rc)
		rc = read_units(s, err);
	if (!rc)
		rc = read_people(s, err);
	if (!rc)
		rc = cli_check_clusters(s->cli, args, err);
	if (!rc && cli_args_has(args, OPT_list_nodelist_acct))
		rc = cli_filter_nodes(s->cli, cli_args_value(args, OPT_list_nodelist_acct), false, &s->query,
				      err);
	return rc;
}

static int run(struct cli *c, const struct cli_args *args, bool first)
{
	struct sacct s = {.cli = c, .args = args, .more = !first};
	struct mu_err err = {0};

	if (prepare(&s, &err)) {
		char *rest = err.text, *line;

		while ((line = strsep(&rest, "\n")))
			cli_error(c, "%s", line);
		mu_map_clear(&s.qos);
		return 1;
	}
	int rc = list(&s);

	mu_map_clear(&s.qos);
	return rc;
}

int cli_sacct(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	int rc;

	if (cli_begin(c, argc, argv, false, &args, &rc))
		return rc;
	if (cli_args_has(&args, OPT_helpformat)) {
		cli_table_names(&cli_acct_columns, stdout);
		return 0;
	}
	return cli_each_cluster(c, &args, run);
}
