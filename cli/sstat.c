/* cli/sstat.c: what running steps use, asked of the nodes that run them: each has the figures of its own
 * tasks and this command puts a step's nodes together. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/array.h"
#include "cli/column.h"
#include "cli/door.h"
#include "cli/option.h"
#include "proto/hostlist.h"
#include "proto/pb.h"
#include "proto/states.h"
#include "proto/usage.h"

#define FORMAT_PIDS "jobid,nodelist,pids"
#define PIDS_NAME "Pids"

/* The columns of sacct that tell of what is used now, in the order of their default. */
static const char *const shown[] = {"JobID",
				    "MaxVMSize",
				    "MaxVMSizeNode",
				    "MaxVMSizeTask",
				    "AveVMSize",
				    "MaxRSS",
				    "MaxRSSNode",
				    "MaxRSSTask",
				    "AveRSS",
				    "MaxPages",
				    "MaxPagesNode",
				    "MaxPagesTask",
				    "AvePages",
				    "MinCPU",
				    "MinCPUNode",
				    "MinCPUTask",
				    "AveCPU",
				    "NTasks",
				    "AveCPUFreq",
				    "ReqCPUFreqMin",
				    "ReqCPUFreqMax",
				    "ReqCPUFreqGov",
				    "ConsumedEnergy",
				    "MaxDiskRead",
				    "MaxDiskReadNode",
				    "MaxDiskReadTask",
				    "AveDiskRead",
				    "MaxDiskWrite",
				    "MaxDiskWriteNode",
				    "MaxDiskWriteTask",
				    "AveDiskWrite",
				    "TRESUsageInAve",
				    "TRESUsageInMax",
				    "TRESUsageInMaxNode",
				    "TRESUsageInMaxTask",
				    "TRESUsageInMin",
				    "TRESUsageInMinNode",
				    "TRESUsageInMinTask",
				    "TRESUsageInTot",
				    "TRESUsageOutAve",
				    "TRESUsageOutMax",
				    "TRESUsageOutMaxNode",
				    "TRESUsageOutMaxTask",
				    "TRESUsageOutMin",
				    "TRESUsageOutMinNode",
				    "TRESUsageOutMinTask",
				    "TRESUsageOutTot",
				    "ConsumedEnergyRaw",
				    "NodeList",
				    "ReqCPUFreq"};
enum { SHOWN = sizeof shown / sizeof *shown, SHOWN_BY_DEFAULT = SHOWN - 3, STEPS_MAX = 65536 };

struct seen {
	Mu__StepRow row;
	Mu__Usage usage;
	struct mu_buf pids;
};

struct sstat {
	struct cli *cli;
	const struct cli_args *args;
	struct cli_column column[SHOWN + 1];
	struct cli_columns set;
	struct cli_format format;
	struct cli_acct_style style;
	struct mu_buf out;
	struct seen *seen;
	size_t count, cap;
	unsigned flags;
};

static void get_pids(const struct cli_cell *c, struct mu_buf *out)
{
	mu_buf_str(out, c->pids ? c->pids : "");
}

static void make_columns(struct sstat *s)
{
	for (size_t i = 0; i < SHOWN; i++)
		for (size_t k = 0; k < cli_acct_columns.count; k++)
			if (strcasecmp(cli_acct_columns.column[k].name, shown[i]) == 0)
				s->column[s->set.count++] = cli_acct_columns.column[k];
	s->column[s->set.count++] = (struct cli_column){0, PIDS_NAME, PIDS_NAME, 20, 0, get_pids};
	s->set.column = s->column;
}

static int read_format(struct sstat *s, struct mu_err *err)
{
	const char *text = cli_args_value(s->args, OPT_format_stat);
	struct mu_buf all MU_CLEANUP(mu_buf_free) = {0};

	for (size_t i = 0; i < SHOWN_BY_DEFAULT; i++)
		mu_buf_printf(&all, "%s%s", i ? "," : "", shown[i]);
	if (cli_args_has(s->args, OPT_pidformat))
		text = FORMAT_PIDS;
	if (cli_args_has(s->args, OPT_parsable_acct) || cli_args_has(s->args, OPT_parsable2)) {
		s->style.delimiter = "|";
		s->style.trail = !cli_args_has(s->args, OPT_parsable2);
	}
	if (cli_args_has(s->args, OPT_noconvert))
		s->flags |= CELL_NOCONVERT;
	return cli_format_acct(&s->set, text ? text : (char *)all.data, &s->cli->arena, &s->format, err);
}

/* ---- collecting ---- */

static struct seen *find(struct sstat *s, const Mu__StepRow *row)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->seen[i].row.step == row->step) {
			/* The step manager's row tells of the whole step, a node's of its part. */
			if (row->node_count > s->seen[i].row.node_count)
				s->seen[i].row = *row;
			return &s->seen[i];
		}
	if (s->count == STEPS_MAX)
		return NULL;
	if (s->count == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->seen = realloc(s->seen, s->cap * sizeof *s->seen);
		if (!s->seen)
			abort();
	}
	s->seen[s->count] = (struct seen){.row = *row, .usage = MU__USAGE__INIT};
	return &s->seen[s->count++];
}

static void add(struct sstat *s, const Mu__UsageReply *reply, const char *node)
{
	for (size_t i = 0; i < reply->n_step; i++) {
		const Mu__StepUsage *u = reply->step[i];
		struct seen *e = u->step ? find(s, u->step) : NULL;

		if (!e)
			continue;
		if (u->step->usage)
			mu_usage_merge(&e->usage, u->step->usage, node, &s->cli->arena);
		for (size_t k = 0; k < u->n_process; k++)
			mu_buf_printf(&e->pids, "%s%u", e->pids.len ? "," : "", u->process[k]);
	}
}

static int collect(struct sstat *s, struct cli_job *j, struct mu_err *err)
{
	struct cli *c = s->cli;
	Mu__UsageAsk ask = MU__USAGE_ASK__INIT;
	struct mu_buf body MU_CLEANUP(mu_buf_free) = {0};
	int rc = cli_job_ask(c, j, 2, 0, err);
	size_t answered = 0;

	if (rc)
		return rc;
	ask.has_job = 1;
	ask.job = j->job;
	mu_pb_pack(&ask.base, &body);
	for (size_t i = 0; i < j->row->n_alloc; i++) {
		struct cli_door door = {.node = j->row->alloc[i]->node};
		Mu__UsageReply *reply;

		rc = cli_door_find(c, &door, err);
		if (!rc)
			rc = cli_door_look(c, j, &door, (struct mu_view){body.data, body.len}, &reply, err);
		if (rc == 0) {
			add(s, reply, door.node);
			answered++;
		} else if (rc != MU_EJOBID) {
			cli_error(c, "%s: %s", door.node, err->text);
		}
	}
	if (j->row->state != JOB_RUNNING || !answered)
		return mu_fail(err, MU_EJOBID, "no steps running for job %u", j->job);
	return 0;
}

/* ---- printing ---- */

static int rank(const struct seen *e)
{
	return e->row.step == MU_STEP_EXTERN ? 0 : e->row.step == MU_STEP_BATCH ? 1 : 2;
}

static int compare(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	return rank(x) != rank(y) ? rank(x) - rank(y)
				  : (x->row.step > y->row.step) - (x->row.step < y->row.step);
}

static void print(struct sstat *s, const Mu__JobRow *job, struct seen *e)
{
	e->row.usage = &e->usage;
	mu_usage_sum_up(&e->usage, e->row.tasks);
	struct cli_cell cell = {.job = job,
				.step = &e->row,
				.now_usec = cli_now_usec(),
				.flags = s->flags,
				.cluster = s->cli->conf.cluster,
				.pids = e->pids.len ? (char *)e->pids.data : "",
				.arena = &s->cli->arena};

	cli_acct_row(&s->format, &s->style, &cell, &s->out);
}

/* Of one job: the step that was named, all with -a, else the lowest number, or the batch script. */
static int show(struct sstat *s, const char *word)
{
	struct cli_job_id id;
	struct mu_err err = {0};
	bool all = cli_args_has(s->args, OPT_allsteps), found = false;
	int rc = cli_job_id_parse(&s->cli->arena, word, &id, &err);
	struct cli_job job = {0};

	if (!rc)
		rc = cli_component(s->cli, &id, &job.job, &err);
	if (!rc)
		rc = collect(s, &job, &err);
	if (!rc && s->count)
		qsort(s->seen, s->count, sizeof *s->seen, compare);
	for (size_t i = 0; !rc && i < s->count; i++) {
		bool wanted = id.has_step ? s->seen[i].row.step == id.step
					  : all || rank(&s->seen[i]) == 2 || i + 1 == s->count;

		if (!wanted || (found && !all))
			continue;
		print(s, job.row, &s->seen[i]);
		found = true;
	}
	if (!rc && !found && id.has_step)
		rc = mu_fail(&err, MU_EJOBID, "couldn't get steps for job %s: no such step runs", word);
	for (size_t i = 0; i < s->count; i++)
		mu_buf_free(&s->seen[i].pids);
	s->count = 0;
	if (rc)
		cli_error(s->cli, "%s", err.text);
	return rc ? 1 : 0;
}

int cli_sstat(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	static struct sstat s;
	struct mu_err err = {0};
	int rc;

	if (cli_begin(c, argc, argv, false, &args, &rc))
		return rc;
	s = (struct sstat){.cli = c, .args = &args};
	make_columns(&s);
	if (cli_args_has(&args, OPT_helpformat)) {
		cli_table_names(&s.set, stdout);
		return 0;
	}
	if (!cli_args_has(&args, OPT_jobs_acct) && !args.word_count) {
		cli_error(c, "You didn't give me any jobs to stat.");
		return 1;
	}
	if (read_format(&s, &err) || cli_conf_read(&c->arena, &c->conf, &err)) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	if (!cli_args_has(&args, OPT_noheader_acct))
		cli_acct_heading(&s.format, &s.style, &s.out);
	rc = 0;
	for (size_t i = 0; i < args.count + args.word_count; i++) {
		const struct cli_given *g = i < args.count ? &args.given[i] : NULL;
		size_t n;

		if (g && g->option->id != OPT_jobs_acct)
			continue;
		char **word = cli_split(&c->arena, g ? g->value : args.words[i - args.count], &n);

		for (size_t k = 0; k < n; k++)
			rc |= show(&s, word[k]);
	}
	fwrite(s.out.data ? (char *)s.out.data : "", 1, s.out.len, stdout);
	mu_buf_free(&s.out);
	free(s.seen);
	return rc;
}
