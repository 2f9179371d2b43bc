/* cli/sbatch.c: submits a batch script. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/allocate.h"
#include "cli/het.h"
#include "cli/muster.h"
#include "cli/spec.h"
#include "proto/base/hash.h"
#include "proto/states.h"

enum { ENVIRONMENT_MAX = 3 << 20, WAIT_MSEC = 30000, WAIT_TRIES_SEC = 300 };

extern char **environ;

struct script {
	char *text;
	size_t len;
	const char *name;    /* of the job when nobody names it */
	const char *command; /* absolute path, "" for standard input and --wrap */
};

static const char *absolute(struct mu_arena *arena, const char *path)
{
	char *cwd;
	const char *full;

	if (path[0] == '/')
		return path;
	cwd = getcwd(NULL, 0);
	full = mu_arena_printf(arena, "%s/%s", cwd ? cwd : "", path);
	free(cwd);
	return full;
}

static int read_stdin(struct mu_arena *arena, struct script *s, struct mu_err *err)
{
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};
	char chunk[65536];

	for (;;) {
		ssize_t n = read(STDIN_FILENO, chunk, sizeof chunk);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return mu_fail(err, MU_EIO, "Unable to read the script from standard input: %s",
				       strerror(errno));
		if (n == 0)
			break;
		mu_buf_add(&text, chunk, (size_t)n);
		if (text.len > CLI_SCRIPT_MAX)
			return mu_fail(err, MU_ELIMIT, "A batch script has at most %d bytes", CLI_SCRIPT_MAX);
	}
	s->text = mu_arena_dup(arena, text.data ? (char *)text.data : "", text.len + 1);
	s->len = text.len;
	s->name = "sbatch";
	s->command = "";
	return 0;
}

static int read_script(struct mu_arena *arena, const struct cli_args *args, struct script *s,
		       struct mu_err *err)
{
	const char *wrap = cli_args_value(args, OPT_wrap), *slash;
	int rc;

	if (wrap && args->word_count)
		return mu_fail(err, MU_EINVAL, "Script arguments not permitted with --wrap option");
	if (wrap) {
		s->text = mu_arena_printf(
		    arena, "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n%s\n", wrap);
		s->len = strlen(s->text);
		s->name = "wrap";
		s->command = "";
		return 0;
	}
	if (!args->word_count)
		return read_stdin(arena, s, err);
	rc = cli_read_file(args->words[0], CLI_SCRIPT_MAX, arena, &s->text, &s->len, err);
	if (rc == MU_ENOENT || rc == MU_EIO)
		return mu_fail(err, rc, "Unable to open file %s", args->words[0]);
	if (rc)
		return rc;
	slash = strrchr(args->words[0], '/');
	s->name = slash ? slash + 1 : args->words[0];
	s->command = absolute(arena, args->words[0]);
	return 0;
}

static ProtobufCBinaryData bytes(struct mu_arena *arena, const char *text)
{
	return (ProtobufCBinaryData){strlen(text), (uint8_t *)mu_arena_strdup(arena, text)};
}

static const char *printable_line(struct mu_arena *arena, const char *name, int argc, char **argv)
{
	struct mu_buf line MU_CLEANUP(mu_buf_free) = {0};

	mu_buf_str(&line, name);
	for (int i = 0; i < argc && line.len < 16384; i++)
		mu_buf_printf(&line, " %s", argv[i]);
	for (size_t i = 0; i < line.len; i++) {
		if (line.data[i] < 0x20 || line.data[i] >= 0x7f)
			line.data[i] = line.data[i] == '\n' || line.data[i] == '\t'  ? ' '
				       : line.data[i] < 0x20 || line.data[i] == 0x7f ? '?'
										     : line.data[i];
	}
	return mu_arena_strdup(arena, (char *)line.data);
}

static bool is_ascii(const char *p)
{
	while (*p && (unsigned char)*p < 0x80)
		p++;
	return !*p;
}

int cli_spec_surroundings(struct cli *c, const char *command, int argc, char **argv, Mu__JobSpec *spec,
			  struct mu_err *err)
{
	char host[256] = "";
	const char *line = printable_line(&c->arena, command, argc, argv);
	mode_t mask = umask(0);

	umask(mask);
	gethostname(host, sizeof host - 1);
	spec->has_batch = 1;
	spec->submit_host = mu_arena_strdup(&c->arena, host);
	spec->has_submit_sid = spec->has_umask = 1;
	spec->submit_sid = (uint32_t)getsid(0);
	spec->umask = mask;
	spec->submit_line = (char *)(is_ascii(line) ? line : command);
	if (!spec->has_work_dir || spec->work_dir.len == 0 || spec->work_dir.data[0] != '/') {
		const char *dir =
		    spec->has_work_dir && spec->work_dir.len ? (char *)spec->work_dir.data : ".";
		const char *full = absolute(&c->arena, dir);
		size_t len = strlen(full);

		spec->has_work_dir = 1;
		spec->work_dir = bytes(&c->arena, len > 2 && strcmp(full + len - 2, "/.") == 0
						      ? mu_arena_printf(&c->arena, "%.*s", (int)len - 2, full)
						      : full);
	}
	return cli_spec_check(spec, err);
}

/* What the submitting process itself brings along. */
static int add_surroundings(struct cli *c, const struct cli_args *args, const struct script *s, int argc,
			    char **argv, Mu__JobSpec *spec, struct mu_err *err)
{
	spec->batch = 1;
	if (!spec->name)
		spec->name = (char *)s->name;
	spec->has_command = 1;
	spec->command = bytes(&c->arena, s->command);
	if (args->word_count > 1) {
		spec->n_argv = args->word_count - 1;
		spec->argv = mu_arena_alloc(&c->arena, spec->n_argv * sizeof *spec->argv);
		for (size_t i = 0; i < spec->n_argv; i++)
			spec->argv[i] = bytes(&c->arena, args->words[i + 1]);
	}
	return cli_spec_surroundings(c, "sbatch", argc, argv, spec, err);
}

static Mu__Blob *blob_of(struct mu_arena *arena, const void *data, size_t len, ProtobufCBinaryData *ret_hash)
{
	Mu__Blob *blob = mu_arena_alloc(arena, sizeof *blob);
	struct mu_hash *hash = mu_arena_alloc(arena, sizeof *hash);

	mu_hash_bytes(data, len, hash);
	mu__blob__init(blob);
	blob->has_hash = blob->has_data = 1;
	blob->hash = *ret_hash = (ProtobufCBinaryData){sizeof hash->b, hash->b};
	blob->data = (ProtobufCBinaryData){len, (uint8_t *)data};
	return blob;
}

static int make_environment(struct cli *c, const struct cli_args *args, const Mu__JobSpec *spec,
			    struct mu_buf *env, struct mu_err *err)
{
	const char *file = cli_args_value(args, OPT_export_file);
	int rc;

	if (file) {
		char *text;
		size_t len;

		rc = cli_read_file(file, ENVIRONMENT_MAX, &c->arena, &text, &len, err);
		if (rc)
			return rc;
		mu_buf_add(env, text, len);
		if (len && text[len - 1])
			mu_buf_add(env, "", 1);
	} else {
		rc = cli_environment_make(spec->export, environ, env, err);
		if (rc)
			return rc;
	}
	cli_environment_limits(cli_propagate(args), env);
	if (spec->export)
		mu_buf_printf(env, "SLURM_EXPORT_ENV=%s%c", spec->export, 0);
	if (env->len > ENVIRONMENT_MAX)
		return mu_fail(err, MU_ELIMIT,
			       "The environment has %zu bytes and a job takes at most %d along; use --export",
			       env->len, ENVIRONMENT_MAX);
	return 0;
}

/* Has CODE a text that tools know by heart? */
static bool has_fixed_text(int code)
{
	return code <= MU_EJOBID || code == MU_ECONNECT || code == MU_ETIMEOUT || code == MU_EPERM ||
	       code == MU_EAUTH;
}

static void refused(const struct cli *c, const Mu__JobSpec *spec, int code, const char *text, bool test_only)
{
	const char *fixed = has_fixed_text(code) || !text || !*text ? mu_strerror(code) : text;
	bool more = text && *text && strcmp(text, fixed) != 0;

	if (code == MU_EPARTITION && spec->n_partition && !test_only) {
		struct mu_buf names MU_CLEANUP(mu_buf_free) = {0};

		for (size_t i = 0; i < spec->n_partition; i++)
			mu_buf_printf(&names, "%s%s", i ? "," : "", spec->partition[i]);
		cli_error(c, "invalid partition specified: %s", (char *)names.data);
	} else if (more) {
		cli_error(c, "%s", text);
	}
	if (test_only)
		fprintf(stderr, "allocation failure: %s\n", fixed);
	else
		cli_error(c, "Batch job submission failed: %s", fixed);
}

static int exit_of(const Mu__JobRow *row)
{
	if (row->exit_signal)
		return 128 + row->exit_signal;
	return row->exit_code ? row->exit_code : row->state == JOB_COMPLETED ? 0 : 1;
}

/* The highest of all tasks of array JOB, which has ended. */
static int highest_exit(struct cli *c, uint32_t job)
{
	Mu__Query query = MU__QUERY__INIT;
	struct mu_err err = {0};
	void **rows;
	size_t count;
	int highest = 0;

	query.has_what = query.has_slim = query.slim = 1;
	query.what = MU__WHAT__WHAT_ACCT;
	query.job = &job;
	query.n_job = 1;
	if (cli_query_all(c, &query, &mu__hist_row__descriptor, &rows, &count, &err)) {
		cli_error(c, "reading how the tasks of job %u ended: %s", job, err.text);
		return 1;
	}
	for (size_t i = 0; i < count; i++) {
		const Mu__HistRow *row = rows[i];
		int code = row->job ? exit_of(row->job) : 0;

		highest = code > highest ? code : highest;
	}
	return highest;
}

/* Returns the job's exit code when it has ended. */
static int wait_for(struct cli *c, uint32_t job)
{
	int64_t lost_usec = 0;

	for (;;) {
		Mu__Request request = MU__REQUEST__INIT;
		Mu__WaitAsk ask = MU__WAIT_ASK__INIT;
		struct mu_err err = {0};
		Mu__Reply *reply = NULL;
		const Mu__JobRow *row;
		int rc;

		ask.has_job = ask.has_wait_msec = ask.has_until = 1;
		ask.job = job;
		ask.wait_msec = WAIT_MSEC;
		ask.until = 1;
		request.ask_case = MU__REQUEST__ASK_WAIT;
		request.wait = &ask;
		rc = cli_ask_within(c, &request, WAIT_MSEC + 15000, &reply, &err);
		if (rc) { /* a controller that is away for a while does not end the wait */
			lost_usec = lost_usec ? lost_usec : cli_now_usec();
			if (cli_now_usec() - lost_usec > WAIT_TRIES_SEC * INT64_C(1000000)) {
				cli_error(c, "waiting for job %u: %s", job, err.text);
				return 1;
			}
			nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
			continue;
		}
		lost_usec = 0;
		if (reply->code) {
			cli_error(c, "waiting for job %u: %s", job,
				  reply->text ? reply->text : mu_strerror(reply->code));
			return 1;
		}
		row = reply->answer_case == MU__REPLY__ANSWER_JOB_ROW ? reply->job_row : NULL;
		if (!row || !mu_job_state_ended(row->state)) {
			if (!row) /* an answer without a row must not become a busy loop */
				nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
			continue;
		}
		return row->array_job == job ? highest_exit(c, job) : exit_of(row);
	}
}

static int submit(struct cli *c, const struct cli_args *args, struct cli_part *parts, size_t count,
		  const struct script *s)
{
	Mu__JobSpec *spec = &parts[0].spec;
	struct mu_buf env MU_CLEANUP(mu_buf_free) = {0};
	Mu__Request request = MU__REQUEST__INIT;
	Mu__SubmitAsk ask = MU__SUBMIT_ASK__INIT;
	Mu__Blob *blobs[2];
	Mu__Reply *reply = NULL;
	struct mu_err err = {0};
	bool test_only = cli_args_has(args, OPT_test_only);

	if (make_environment(c, args, spec, &env, &err)) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	spec->has_script_hash = spec->has_env_hash = 1;
	blobs[0] = blob_of(&c->arena, s->text, s->len, &spec->script_hash);
	blobs[1] = blob_of(&c->arena, env.data ? (void *)env.data : "", env.len, &spec->env_hash);
	ask.spec = spec;
	ask.component = cli_parts_others(c, parts, count);
	ask.n_component = count - 1;
	ask.blob = blobs;
	ask.n_blob = 2;
	ask.has_test_only = ask.test_only = test_only;
	request.ask_case = MU__REQUEST__ASK_SUBMIT;
	request.submit = &ask;
	if (cli_ask(c, &request, &reply, &err)) {
		refused(c, spec, err.code, err.text, test_only);
		return 1;
	}
	if (reply->code) {
		refused(c, spec, reply->code, reply->text, test_only);
		return 1;
	}
	if (test_only) {
		cli_say_test(c, reply);
		return 0;
	}
	/* Its own name, also where "all" was asked for. */
	const char *cluster = cli_args_has(args, OPT_clusters) ? c->conf.cluster : NULL;

	if (cli_args_has(args, OPT_parsable)) {
		printf("%u%s%s\n", reply->job, cluster ? ";" : "", cluster ? cluster : "");
	} else if (!c->quiet) {
		printf("Submitted batch job %u%s%s\n", reply->job, cluster ? " on cluster " : "",
		       cluster ? cluster : "");
	}
	fflush(stdout);
	if (cli_args_has(args, OPT_receipt) &&
	    receipt_write(c, cli_args_value(args, OPT_receipt), reply->job, reply->pos, spec->script_hash))
		return 1;
	return cli_args_has(args, OPT_wait) ? wait_for(c, reply->job) : 0;
}

static int fail(const struct cli *c, const struct mu_err *err)
{
	char text[MU_ERR_TEXT], *rest = text, *line;

	snprintf(text, sizeof text, "%s", err->text);
	/* Slurm ends by a fatal line for options that exclude each other. */
	if (strstr(text, "mutually exclusive")) {
		cli_fatal(c, "%s", text);
		return 1;
	}
	while ((line = strsep(&rest, "\n")))
		cli_error(c, "%s", line);
	return err->code == MU_ESYNTAX && strstr(err->text, "option") ? CLI_EXIT_USAGE_SUBMIT : 1;
}

/* The options of every component: of the line, of the script's part for it, of the environment. --wrap's text
 * holds no directives of its own. */
static int read_parts(struct cli *c, const struct script *script, bool wrapped, struct cli_part *parts,
		      size_t *count, struct mu_err *err)
{
	size_t in_script = 1;

	for (size_t i = 0; i < *count || (!wrapped && i < in_script); i++) {
		int rc = i == *count ? cli_parts_add(c, parts, count, err) : 0;

		if (!rc && !wrapped)
			rc = cli_script_options(script->text, script->len, &parts[i].args, i, &in_script,
						&c->arena, err);
		if (rc)
			return rc;
		cli_args_order(&parts[i].args);
	}
	return 0;
}

int cli_sbatch(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	struct script script = {0};
	struct cli_part *parts;
	struct mu_err err = {0};
	size_t words, count;
	int rc;

	if (cli_begin(c, argc, argv, true, &args, &rc))
		return rc;
	if (cli_parts_split(c, &args, false, &parts, &count, &err))
		return fail(c, &err);
	struct cli_args *first = &parts[0].args;

	/* Those that say what sbatch is to do may stand behind any colon. */
	static const int own[] = {OPT_wrap,  OPT_parsable, OPT_wait,	    OPT_test_only,
				  OPT_quiet, OPT_clusters, OPT_export_file, OPT_receipt};

	for (size_t i = 1; i < count; i++)
		cli_args_append(first, &parts[i].args, CLI_LINE, own, sizeof own / sizeof *own, &c->arena);
	c->quiet = c->quiet || cli_args_has(first, OPT_quiet);
	words = first->word_count;
	if (read_script(&c->arena, first, &script, &err) || cli_script_check(script.text, script.len, &err))
		return fail(c, &err);
	if (read_parts(c, &script, cli_args_has(first, OPT_wrap), parts, &count, &err))
		return fail(c, &err);
	first->word_count = words;
	if (c->verbose)
		cli_spec_dump(c, first);
	if (cli_check_clusters(c, first, &err) || cli_parts_specs(c, parts, count, &err))
		return fail(c, &err);
	if (parts[0].spec.nice < 0 && getuid() != 0) {
		cli_error(c, "Nice value must be non-negative, value ignored");
		parts[0].spec.nice = 0;
	}
	rc = add_surroundings(c, first, &script, argc, argv, &parts[0].spec, &err);
	cli_parts_carry(parts, count);
	for (size_t i = 1; i < count && !rc; i++)
		rc = cli_spec_surroundings(c, "sbatch", argc, argv, &parts[i].spec, &err);
	if (rc) {
		refused(c, &parts[0].spec, err.code, err.text, false);
		return 1;
	}
	return submit(c, first, parts, count, &script);
}
