/* cli/scontrol.c: the verbs of scontrol, and its prompt. */
#include "cli/scontrol.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/array.h"
#include "cli/column.h"
#include "cli/filter.h"
#include "proto/conf.h"
#include "proto/conf_fold.h"
#include "proto/states.h"
#include "proto/version.h"

enum { PROMPT_WORDS_MAX = 256, IDS_MAX = 10000, PING_MSEC = 3000 };

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

/* Says so when a verb has more than MOST words behind it. */
static bool too_many(struct scontrol *s, const char *verb, size_t count, size_t most)
{
	if (count > most)
		cli_error(s->cli, "too many arguments for keyword:%s", verb);
	return count > most;
}

int scontrol_ping(struct scontrol *s, FILE *out)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__PingAsk ask = MU__PING_ASK__INIT;
	struct cli_conf conf;
	struct mu_err err = {0};
	Mu__Reply *reply = NULL;
	bool answered;

	if (cli_conf_read(&s->cli->arena, &conf, &err)) {
		cli_error(s->cli, "%s", err.text);
		return 1;
	}
	request.ask_case = MU__REQUEST__ASK_PING;
	request.ping = &ask;
	answered =
	    cli_ask_done(s->cli, &request, &reply, &err) == 0 && reply->answer_case == MU__REPLY__ANSWER_PING;
	for (unsigned i = 0; i < conf.controllers; i++) {
		const char *which = i == 0		    ? "primary"
				    : conf.controllers == 2 ? "backup"
							    : mu_arena_printf(&s->cli->arena, "backup%u", i);
		bool up = false;

		for (size_t k = 0; answered && k < reply->ping->n_controller; k++) {
			const Mu__ControllerState *c = reply->ping->controller[k];

			if (c->name && strcmp(c->name, conf.controller[i].name) == 0)
				up = c->role && strcmp(c->role, "down") != 0;
		}
		fprintf(out, "Slurmctld(%s) at %s is %s\n", which, conf.controller[i].name,
			up ? "UP" : "DOWN");
	}
	return answered ? 0 : 1;
}

/* ---- jobs ---- */

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

static bool fill_event(struct scontrol *s, const char *verb, uint32_t *jobs, size_t count,
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
	return true;
}

int scontrol_jobs(struct scontrol *s, const char *verb, char **words, size_t count)
{
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
	if (strncasecmp(words[0], "name=", 5) == 0 || strncasecmp(words[0], "jobname=", 8) == 0) {
		cli_error(
		    s->cli,
		    "%s by name is not supported: give job ids, such as those of squeue -h -o %%i -n NAME",
		    verb);
		return 1;
	}
	if (scontrol_ids(s, words, count, &id, &ids, &err)) {
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

/* ---- configuration ---- */

struct conf_files {
	struct cli *cli;
	const char *path;
};

static int read_conf_file(void *arg, const char *name, struct mu_arena *arena, const char **ret_text,
			  struct mu_err *err)
{
	struct conf_files *f = arg;
	const char *slash = strrchr(f->path, '/'), *full = name;
	char *text;
	size_t len;
	int rc;

	if (name[0] != '/' && slash)
		full = mu_arena_printf(arena, "%.*s/%s", (int)(slash - f->path), f->path, name);
	rc = cli_read_file(full, 64 << 20, arena, &text, &len, err);
	*ret_text = rc ? NULL : text;
	return rc;
}

static void note(void *arg, const char *sentence)
{
	cli_say(((struct conf_files *)arg)->cli, "%s", sentence);
}

int scontrol_reconfigure(struct scontrol *s)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__ReconfigureAsk ask = MU__RECONFIGURE_ASK__INIT;
	struct conf_files files = {.cli = s->cli};
	struct mu_err err = {0};
	Mu__Config *config;
	Mu__Reply *reply;
	char *text;
	size_t len;

	if (cli_conf_find(&s->cli->arena, &files.path, &err) ||
	    cli_read_file(files.path, 64 << 20, &s->cli->arena, &text, &len, &err) ||
	    mu_conf_parse(files.path, text, read_conf_file, note, &files, &s->cli->arena, &config, &err)) {
		cli_error(s->cli, "%s", err.text);
		return 1;
	}
	ask.config = mu_conf_fold(config, &s->cli->arena);
	ask.source = (char *)files.path;
	if (cli_args_has(s->args, OPT_reconfigure_plan))
		return scontrol_plan(s->cli, ask.config);
	request.ask_case = MU__REQUEST__ASK_RECONFIGURE;
	request.reconfigure = &ask;
	if (cli_ask_done(s->cli, &request, &reply, &err)) {
		fprintf(stderr, "slurm_reconfigure error: %s\n", err.text);
		return 1;
	}
	if (reply->text && *reply->text && !s->cli->quiet)
		printf("%s\n", reply->text);
	return 0;
}

static int control(struct scontrol *s, const char *verb, const char *arg)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__ControlAsk ask = MU__CONTROL_ASK__INIT;
	struct mu_err err = {0};
	Mu__Reply *reply;

	ask.verb = (char *)verb;
	ask.arg = (char *)arg;
	request.ask_case = MU__REQUEST__ASK_CONTROL;
	request.control = &ask;
	if (cli_ask_done(s->cli, &request, &reply, &err)) {
		fprintf(stderr, "slurm_%s error: %s\n", verb, err.text);
		return 1;
	}
	if (reply->text && *reply->text)
		printf("%s\n", reply->text);
	return 0;
}

/* Each controller has its own level and flags: all of them are told. */
static int control_all(struct scontrol *s, const char *verb, const char *arg)
{
	struct mu_err err = {0};
	int rc = 0;

	if (cli_open(s->cli, &err)) {
		fprintf(stderr, "slurm_%s error: %s\n", verb, err.text);
		return 1;
	}
	for (unsigned i = 0; i < s->cli->conf.controllers; i++) {
		struct cli one;
		struct scontrol to = *s;

		to.cli = &one;
		if (cli_open_one(s->cli, i, &one, &err)) {
			fprintf(stderr, "slurm_%s error: %s\n", verb, err.text);
			rc = 1;
			continue;
		}
		rc |= control(&to, verb, arg);
		cli_done(&one);
	}
	return rc;
}

/* Leadership goes to the controller that is named, by its name or its place in the file, or else to the other
 * one that is furthest. Nobody stops for it: the one that led follows. */
static int takeover(struct scontrol *s, char **words, size_t count)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__MemberAsk ask = MU__MEMBER_ASK__INIT;
	struct mu_err err = {0};
	int64_t place;

	if (too_many(s, "takeover", count, 1))
		return 1;
	if (cli_open(s->cli, &err)) {
		fprintf(stderr, "slurm_takeover error: %s\n", err.text);
		return 1;
	}
	ask.verb = (char *)"transfer";
	if (count &&
	    mu_number_parse("takeover", words[0], 0, s->cli->conf.controllers - 1, &place, NULL) == 0)
		ask.name = (char *)s->cli->conf.controller[place].name;
	else if (count)
		ask.name = words[0];
	request.ask_case = MU__REQUEST__ASK_MEMBER;
	request.member = &ask;
	if (cli_ask_done(s->cli, &request, NULL, &err)) {
		fprintf(stderr, "slurm_takeover error: %s\n", err.text);
		return 1;
	}
	return 0;
}

/* Ends the controllers. A supervisor that is told to keep them up starts them again. */
static int shutdown_all(struct scontrol *s, char **words, size_t count)
{
	bool alone =
	    count == 1 && (strcasecmp(words[0], "slurmctld") == 0 || strcasecmp(words[0], "controller") == 0);

	if (count && !alone) {
		cli_error(s->cli, "shutdown: \"%s\" is none of slurmctld and controller", words[0]);
		return 1;
	}
	if (!alone)
		cli_say(s->cli, "the controllers end; nodes and their jobs go on (systemctl stop "
				"muster-agent on a node ends its agent)");
	return control_all(s, "shutdown", "");
}

static int wait_job(struct scontrol *s, char **words, size_t count)
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

/* ---- words ---- */

static const struct {
	const char *verb, *why;
} absent[] = {
    {"notify", "there is no channel to a job's own terminal; write to its output file"},
    {"listpids", "processes are those in the job's control group on its node"},
    {"pidinfo", "processes are those in the job's control group on its node"},
    {"cluster", "there is one cluster"},
    {"fsdampeningfactor", "shares are counted by the fair tree, which has no damping"},
    {"reboot", "nodes are not rebooted by the cluster; drain them and reboot them yourself"},
    {"cancel_reboot", "nodes are not rebooted by the cluster"},
    {"power", "nodes are not powered up or down by the cluster"},
    {"token", "users are proven by MUNGE or the local socket"},
    {"schedloglevel", "use setdebugflags"},
    {"abort", "stop a controller with its own service manager"},
    {"bbstat", "there are no burst buffers"},
};

static bool is(const char *word, const char *verb, size_t least)
{
	size_t len = strlen(word);

	return len >= least && strncasecmp(word, verb, len) == 0;
}

static int run(struct scontrol *s, char **words, size_t count)
{
	const char *w = words[0];

	if (is(w, "show", 3))
		return scontrol_show(s, words + 1, count - 1);
	if (is(w, "ping", 3))
		return too_many(s, "ping", count - 1, 0) ? 1 : scontrol_ping(s, stdout);
	if (is(w, "update", 1))
		return scontrol_update(s, words + 1, count - 1);
	if (is(w, "create", 2))
		return scontrol_create(s, words + 1, count - 1);
	if (is(w, "delete", 1))
		return scontrol_delete(s, words + 1, count - 1);
	if (is(w, "hold", 4) || is(w, "holdu", 5))
		return scontrol_jobs(s, "hold", words + 1, count - 1);
	if (is(w, "uhold", 5))
		return scontrol_jobs(s, "uhold", words + 1, count - 1);
	if (is(w, "release", 3))
		return scontrol_jobs(s, "release", words + 1, count - 1);
	if (is(w, "requeue", 3))
		return scontrol_jobs(s, "requeue", words + 1, count - 1);
	if (is(w, "requeuehold", 8))
		return scontrol_jobs(s, "requeuehold", words + 1, count - 1);
	if (is(w, "suspend", 2))
		return scontrol_jobs(s, "suspend", words + 1, count - 1);
	if (is(w, "resume", 3))
		return scontrol_jobs(s, "resume", words + 1, count - 1);
	if (is(w, "reconfigure", 3))
		return scontrol_reconfigure(s);
	if (is(w, "setdebug", 4) || is(w, "setdebugflags", 9)) {
		if (count != 2) {
			cli_error(s->cli, "%s for keyword:%s",
				  count < 2 ? "too few arguments" : "too many arguments", w);
			return 1;
		}
		return control_all(s, is(w, "setdebug", 4) ? "setdebug" : "setdebugflags", words[1]);
	}
	if (is(w, "completing", 4))
		return scontrol_completing(s);
	if (is(w, "errnumstr", 3)) {
		if (count != 2) {
			cli_error(s->cli, "%s for keyword:%s",
				  count < 2 ? "too few arguments" : "too many arguments", w);
			return 1;
		}
		return scontrol_errnumstr(s, words[1]);
	}
	if (is(w, "top", 3))
		return scontrol_jobs(s, "top", words + 1, count - 1);
	if (is(w, "takeover", 4))
		return takeover(s, words + 1, count - 1);
	if (is(w, "shutdown", 2))
		return shutdown_all(s, words + 1, count - 1);
	if (is(w, "write", 2))
		return scontrol_write(s, words + 1, count - 1);
	if (is(w, "wait_job", 4))
		return wait_job(s, words + 1, count - 1);
	if (is(w, "version", 2)) {
		cli_version(stdout);
		return 0;
	}
	if (is(w, "help", 1)) {
		cli_help(s->cli, stdout);
		return 0;
	}
	if (is(w, "oneliner", 1) || is(w, "details", 3) || is(w, "all", 1) || is(w, "quiet", 4) ||
	    is(w, "verbose", 4) || is(w, "hide", 2)) {
		s->oneline = s->oneline || is(w, "oneliner", 1);
		s->details = s->details || is(w, "details", 3);
		s->cli->quiet = s->cli->quiet || is(w, "quiet", 4);
		return 0;
	}
	for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
		if (strcasecmp(absent[i].verb, w) == 0) {
			cli_error(s->cli, "%s is not supported: %s", absent[i].verb, absent[i].why);
			return 1;
		}
	}
	cli_error(s->cli, "invalid keyword: %s", w);
	return 1;
}

/* Words of one typed line; quotes keep blanks together. */
static size_t split_line(char *text, char **words)
{
	size_t count = 0;

	for (char *p = text; *p && count < PROMPT_WORDS_MAX;) {
		char *out, quote = 0;

		p += strspn(p, " \t\n");
		if (!*p)
			break;
		words[count++] = out = p;
		for (; *p && (quote || !strchr(" \t\n", *p)); p++) {
			if (!quote && (*p == '"' || *p == '\''))
				quote = *p;
			else if (*p == quote)
				quote = 0;
			else
				*out++ = *p;
		}
		if (*p)
			p++;
		*out = 0;
	}
	return count;
}

static int prompt(struct scontrol *s)
{
	char *text = NULL, *last = NULL, *words[PROMPT_WORDS_MAX];
	size_t cap = 0;
	int rc = 0;

	for (;;) {
		size_t count;
		char *copy;

		printf("scontrol: ");
		fflush(stdout);
		if (getline(&text, &cap, stdin) < 0)
			break;
		copy = mu_arena_strdup(&s->cli->arena, strncmp(text, "!!", 2) == 0 && last ? last : text);
		if (strncmp(text, "!!", 2) == 0)
			printf("%s", copy);
		last = mu_arena_strdup(&s->cli->arena, copy);
		count = split_line(copy, words);
		if (!count)
			continue;
		if (is(words[0], "exit", 3) || is(words[0], "quit", 4))
			break;
		rc = run(s, words, count);
	}
	free(text);
	return rc;
}

int cli_scontrol(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	struct scontrol s = {.cli = c, .args = &args};
	struct mu_err err = {0};
	int rc;

	if (cli_begin(c, argc, argv, false, &args, &rc))
		return rc;
	s.oneline = cli_args_has(&args, OPT_oneliner);
	s.details = cli_args_has(&args, OPT_details);
	s.json = cli_args_has(&args, OPT_json);
	s.history = cli_args_has(&args, OPT_history);
	s.trail = cli_args_has(&args, OPT_trail);
	s.all = cli_args_has(&args, OPT_all);
	if ((cli_args_has(&args, OPT_at) && cli_set_at(c, cli_args_value(&args, OPT_at), &err)) ||
	    cli_check_clusters(c, &args, &err)) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	return args.word_count ? run(&s, args.words, args.word_count) : prompt(&s);
}
