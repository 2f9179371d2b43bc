/* cli/scontrol_job.c: the verbs of scontrol that act on jobs, wait for one, or write its script. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/array.h"
#include "cli/column.h"
#include "cli/filter.h"
#include "cli/scontrol.h"
#include "proto/states.h"

enum { IDS_MAX = 10000 };

int scontrol_ids(struct scontrol *s, char **words, size_t count, struct cli_job_id **ret, size_t *ret_count,
		 struct mu_err *err)
{
	struct mu_arena *a = &s->cli->arena;
	size_t cap = 1, n = 0;
	struct cli_job_id *id;

	for (size_t i = 0; i < count; i++) {
		cap++;
		for (const char *p = words[i]; *p; p++)
			cap += *p == ',';
	}
	id = mu_arena_alloc(a, cap * sizeof *id);
	for (size_t i = 0; i < count; i++) {
		size_t pieces;
		const char *text = strncasecmp(words[i], "jobid=", 6) == 0 ? words[i] + 6 : words[i];
		char **list = cli_split(a, text, &pieces);

		for (size_t k = 0; k < pieces; k++) {
			char *word = list[k];

			while (strchr(word, '[') && !strchr(word, ']') && k + 1 < pieces)
				word = mu_arena_printf(a, "%s,%s", word, list[++k]);
			if (cli_job_id_parse(a, word, &id[n++], NULL))
				return mu_fail(err, MU_EJOBID, "Invalid job id specified for job %s", word);
		}
	}
	*ret = id;
	*ret_count = n;
	return 0;
}

static Mu__Event *new_event(struct mu_arena *a)
{
	Mu__Event *e = mu_arena_alloc(a, sizeof *e);

	mu__event__init(e);
	return e;
}

static int send_event(struct scontrol *s, Mu__Event *event, Mu__Reply **ret, struct mu_err *err)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__EventAsk ask = MU__EVENT_ASK__INIT;

	ask.event = event;
	request.ask_case = MU__REQUEST__ASK_EVENT;
	request.event = &ask;
	return cli_ask(s->cli, &request, ret, err);
}

static void job_failed(const struct scontrol *s, const char *verb, uint32_t job, int code, const char *text)
{
	const char *said = text && *text ? text : mu_strerror(code);

	if (code == MU_EJOBID || code == MU_EALREADYDONE)
		fprintf(stderr, "%s for job %u\n", mu_strerror(code), job);
	else
		fprintf(stderr, "%s for job %u\n", said, job);
	if (strcmp(verb, "hold") == 0 || strcmp(verb, "uhold") == 0 || strcmp(verb, "release") == 0)
		fprintf(stderr, "slurm_suspend error: %s\n", code == MU_EJOBID ? mu_strerror(code) : said);
}

static void fill_event(struct scontrol *s, const char *verb, uint32_t *jobs, size_t count,
		       Mu__ArrayTasks **some, size_t n_some, Mu__Event *e)
{
	struct mu_arena *a = &s->cli->arena;

	if (strcmp(verb, "top") == 0) {
		Mu__JobTop *t = mu_arena_alloc(a, sizeof *t);

		mu__job_top__init(t);
		t->job = jobs;
		t->n_job = count;
		e->kind_case = MU__EVENT__KIND_JOB_TOP;
		e->job_top = t;
	} else if (strcmp(verb, "suspend") == 0 || strcmp(verb, "resume") == 0) {
		Mu__JobSuspend *p = mu_arena_alloc(a, sizeof *p);

		mu__job_suspend__init(p);
		p->job = jobs;
		p->n_job = count;
		p->some = some;
		p->n_some = n_some;
		p->has_resume = 1;
		p->resume = strcmp(verb, "resume") == 0;
		e->kind_case = MU__EVENT__KIND_JOB_SUSPEND;
		e->job_suspend = p;
	} else if (strcmp(verb, "requeue") == 0 || strcmp(verb, "requeuehold") == 0) {
		Mu__JobRequeue *q = mu_arena_alloc(a, sizeof *q);

		mu__job_requeue__init(q);
		q->job = jobs;
		q->n_job = count;
		q->some = some;
		q->n_some = n_some;
		q->has_hold = 1;
		q->hold = strcmp(verb, "requeuehold") == 0;
		e->kind_case = MU__EVENT__KIND_JOB_REQUEUE;
		e->job_requeue = q;
	} else {
		Mu__JobHold *h = mu_arena_alloc(a, sizeof *h);

		mu__job_hold__init(h);
		h->job = jobs;
		h->n_job = count;
		h->some = some;
		h->n_some = n_some;
		h->has_release = 1;
		h->release = strcmp(verb, "release") == 0;
		/* "hold" by an operator is the operator's hold, "uhold" the user's: the controller looks at
		 * who asks. */
		h->has_by_admin = 1;
		h->by_admin = strcmp(verb, "hold") == 0;
		e->kind_case = MU__EVENT__KIND_JOB_HOLD;
		e->job_hold = h;
	}
}

/* The jobs called NAME that the caller may act on: one's own, and for root everybody's. */
static int ids_by_name(struct scontrol *s, const char *name, struct cli_job_id **ret, size_t *ret_count,
		       struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	char *names[] = {(char *)name};
	uint32_t uid = getuid(), living[] = {JOB_PENDING, JOB_RUNNING, JOB_SUSPENDED};
	void **rows;
	size_t n;
	int rc;

	ask.has_what = ask.has_slim = ask.slim = 1;
	ask.what = MU__WHAT__WHAT_JOBS;
	ask.name = names;
	ask.n_name = 1;
	ask.state = living;
	ask.n_state = sizeof living / sizeof *living;
	ask.uid = &uid;
	ask.n_uid = uid != 0;
	rc = cli_query_all(s->cli, &ask, &mu__job_row__descriptor, &rows, &n, err);
	if (rc)
		return rc;
	*ret = mu_arena_alloc(&s->cli->arena, (n + 1) * sizeof **ret);
	for (size_t i = 0; i < n; i++)
		(*ret)[i] = (struct cli_job_id){.job = ((Mu__JobRow *)rows[i])->id};
	*ret_count = n;
	return n ? 0 : mu_fail(err, MU_EJOBID, "Job name %s not found", name);
}

/* "1,2_3 4", or "jobname=NAME". */
static int named_ids(struct scontrol *s, char **words, size_t count, struct cli_job_id **ret,
		     size_t *ret_count, struct mu_err *err)
{
	const char *equals = strchr(words[0], '=');

	if (equals && (strncasecmp(words[0], "name=", 5) == 0 || strncasecmp(words[0], "jobname=", 8) == 0))
		return ids_by_name(s, equals + 1, ret, ret_count, err);
	return scontrol_ids(s, words, count, ret, ret_count, err);
}

int scontrol_jobs(struct scontrol *s, char **words, size_t count)
{
	const char *verb = s->verb;
	struct cli_job_id *id;
	size_t ids, kept = 0;
	struct mu_err err = {0};
	Mu__Reply *reply;
	Mu__Event *e = new_event(&s->cli->arena);
	uint32_t *jobs;
	Mu__ArrayTasks **some;
	size_t n_some = 0;
	int rc = 0;

	bool special = count && strncmp(verb, "requeue", 7) == 0 && strncasecmp(words[0], "State=", 6) == 0;
	if (special && strcasecmp(words[0] + 6, "SpecialExit") != 0 &&
	    strcasecmp(words[0] + 6, "SPECIAL_EXIT") != 0) {
		cli_error(s->cli,
			  "Invalid job state \"%s\": a job is requeued in State=SpecialExit or without one",
			  words[0] + 6);
		return 1;
	}
	words += special;
	count -= special;
	bool incomplete =
	    count && strncmp(verb, "requeue", 7) == 0 && strcasecmp(words[0], "incomplete") == 0;
	words += incomplete;
	count -= incomplete;
	if (!count) {
		cli_error(s->cli, "too few arguments for keyword:%s", verb);
		return 1;
	}
	if (named_ids(s, words, count, &id, &ids, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	if (!ids) {
		fprintf(stderr, "Invalid job id specified for job %s\n", words[0]);
		return 1;
	}
	jobs = mu_arena_alloc(&s->cli->arena, (ids + 1) * sizeof *jobs);
	some = mu_arena_alloc(&s->cli->arena, (ids + 1) * sizeof *some);
	for (size_t i = 0; i < ids; i++) {
		if (cli_component(s->cli, &id[i], &jobs[kept], &err)) {
			job_failed(s, verb, id[i].job, err.code, NULL);
			rc = 1;
		} else if (id[i].has_task && strcmp(verb, "top") == 0) {
			cli_error(s->cli, "top takes jobs, not tasks of an array: %u", id[i].job);
			return 1;
		} else if (id[i].has_task) {
			some[n_some++] = cli_array_some(&s->cli->arena, &id[i]);
		} else {
			kept++;
		}
	}
	if (kept + n_some > IDS_MAX) {
		cli_error(s->cli, "at most %d jobs at once", IDS_MAX);
		return 1;
	}
	if (!kept && !n_some)
		return rc;
	fill_event(s, verb, jobs, kept, some, n_some, e);
	if (special)
		e->job_requeue->has_special = e->job_requeue->special = 1;
	if (incomplete)
		e->job_requeue->has_incomplete = e->job_requeue->incomplete = 1;
	if (send_event(s, e, &reply, &err)) {
		fprintf(stderr, "slurm_%s error: %s\n", verb, err.text);
		return 1;
	}
	if (reply->code && !reply->n_verdict) {
		for (size_t i = 0; i < kept; i++)
			job_failed(s, verb, jobs[i], reply->code, reply->text);
		for (size_t i = 0; i < n_some; i++)
			job_failed(s, verb, some[i]->job, reply->code, reply->text);
		rc = 1;
	}
	for (size_t i = 0; i < reply->n_verdict; i++) {
		if (reply->verdict[i]->code) {
			job_failed(s, verb, reply->verdict[i]->job, reply->verdict[i]->code,
				   reply->verdict[i]->text);
			rc = 1;
		}
	}
	return rc;
}

/* ---- write batch_script ---- */

static int fetch_blob(struct scontrol *s, const Mu__JobRow *job, struct mu_buf *out, struct mu_err *err)
{
	uint64_t total = 1;

	while (out->len < total) {
		Mu__Request request = MU__REQUEST__INIT;
		Mu__BlobAsk ask = MU__BLOB_ASK__INIT;
		Mu__Reply *reply;
		int rc;

		ask.has_hash = ask.has_offset = ask.has_job = 1;
		ask.hash = cli_job_spec(job)->script_hash;
		ask.offset = out->len;
		ask.job = job->id;
		request.ask_case = MU__REQUEST__ASK_BLOB;
		request.blob = &ask;
		rc = cli_ask_done(s->cli, &request, &reply, err);
		if (rc)
			return rc;
		if (reply->answer_case != MU__REPLY__ANSWER_BLOB || !reply->blob->data.len)
			break;
		mu_buf_add(out, reply->blob->data.data, reply->blob->data.len);
		total = reply->blob->total;
	}
	return 0;
}

int scontrol_write(struct scontrol *s, char **words, size_t count)
{
	struct mu_buf script MU_CLEANUP(mu_buf_free) = {0};
	struct cli_job_id *id;
	struct mu_err err = {0};
	Mu__JobRow **rows;
	const char *file;
	size_t ids, n;
	FILE *f;

	if (count < 2 || strcasecmp(words[0], "batch_script") != 0) {
		cli_error(s->cli, "write knows only: write batch_script JOB [FILE|-]");
		return 1;
	}
	if (scontrol_ids(s, words + 1, 1, &id, &ids, &err) ||
	    scontrol_load_jobs(s, id, ids, &rows, &n, &err) || ids != 1) {
		fprintf(stderr, "job script retrieval failed: %s\n",
			err.code && err.code != MU_EJOBID ? err.text : mu_strerror(MU_EJOBID));
		return 1;
	}
	if (!cli_job_spec(rows[0])->batch || fetch_blob(s, rows[0], &script, &err)) {
		fprintf(stderr, "job script retrieval failed: %s\n",
			err.code ? err.text : "The job has no batch script");
		return 1;
	}
	file = count > 2 ? words[2] : mu_arena_printf(&s->cli->arena, "slurm-%u.sh", rows[0]->id);
	if (strcmp(file, "-") == 0) {
		fwrite(script.data, 1, script.len, stdout);
		return 0;
	}
	f = fopen(file, "we");
	if (!f || fwrite(script.data ? (void *)script.data : "", 1, script.len, f) != script.len ||
	    fclose(f)) {
		cli_error(s->cli, "failed to open file `%s`: %s", file, strerror(errno));
		return 1;
	}
	printf("batch script for job %u written to %s\n", rows[0]->id, file);
	return 0;
}

/* ---- waiting ---- */

int scontrol_wait_job(struct scontrol *s, char **words, size_t count)
{
	struct cli_job_id id;
	struct mu_err err = {0};

	if (!count || cli_job_id_parse(&s->cli->arena, words[0], &id, &err) ||
	    cli_component(s->cli, &id, &id.job, &err)) {
		cli_error(s->cli, "%s", count ? err.text : "too few arguments for keyword:wait_job");
		return 1;
	}
	for (;;) {
		Mu__Request request = MU__REQUEST__INIT;
		Mu__WaitAsk ask = MU__WAIT_ASK__INIT;
		Mu__Reply *reply;

		ask.has_job = ask.has_wait_msec = ask.has_until = 1;
		ask.job = id.job;
		ask.wait_msec = 30000;
		ask.until = 2;
		request.ask_case = MU__REQUEST__ASK_WAIT;
		request.wait = &ask;
		if (cli_ask_within(s->cli, &request, 45000, &reply, &err) || reply->code) {
			fprintf(stderr, "slurm_job_node_ready error: %s\n",
				err.code ? err.text : mu_strerror(reply->code));
			return 1;
		}
		if (reply->answer_case == MU__REPLY__ANSWER_JOB_ROW && reply->job_row->state != JOB_PENDING &&
		    reply->job_row->state != JOB_CONFIGURING)
			return mu_job_state_ended(reply->job_row->state) ? 1 : 0;
	}
}
