/* ctld/sim_swf.c: workloads in the Standard Workload Format, plain or compressed. */
#include "log/ctld/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum swf_field { SWF_ID, SWF_SUBMIT, SWF_WAIT, SWF_RUN, SWF_PROCS, SWF_CPU_TIME, SWF_MEM, SWF_PROCS_ASKED, SWF_TIME_ASKED, SWF_MEM_ASKED,
		 SWF_STATUS, SWF_USER, SWF_GROUP };

/* ---- what a workload is made of ---- */

void sim_work_free(struct sim_work *w)
{
	free(w->job);
	free(w->line);
	mu_map_clear(&w->people);
	mu_arena_free(&w->arena);
	*w = (struct sim_work){0};
}

struct sch_sim_job *sim_work_add(struct sim_work *w)
{
	if (w->count == w->cap) {
		w->cap = w->cap ? 2 * w->cap : 1024;
		w->job = realloc(w->job, w->cap * sizeof w->job[0]);
		if (!w->job)
			abort();
	}
	w->job[w->count] = (struct sch_sim_job){0};
	return &w->job[w->count++];
}

Mu__Author *sim_work_user(struct sim_work *w, const char *name, uint32_t number)
{
	Mu__Author *a = mu_map_get_str(&w->people, name);

	if (a)
		return a;
	a = mu_arena_alloc(&w->arena, sizeof *a);
	mu__author__init(a);
	a->has_uid = a->has_gid = 1;
	a->uid = number;
	a->gid = 1000;
	a->user = mu_arena_strdup(&w->arena, name);
	a->group = "users";
	a->verifier = "socket";
	mu_map_put_str(&w->people, name, a);
	return a;
}

/* ---- files ---- */

int sim_open(const char *path, struct sim_file *ret, struct mu_err *err)
{
	unsigned char magic[2] = {0};
	int fd = open(path, O_RDONLY | O_CLOEXEC), ends[2];
	char *argv[] = {"gzip", "-dc", NULL};
	posix_spawn_file_actions_t actions;

	*ret = (struct sim_file){0};
	if (fd < 0)
		return mu_fail(err, MU_EIO, "%s: %s", path, strerror(errno));
	if (pread(fd, magic, 2, 0) != 2 || magic[0] != 0x1f || magic[1] != 0x8b) {
		ret->in = fdopen(fd, "r");
		return ret->in ? 0 : mu_fail(err, MU_EIO, "%s: %s", path, strerror(errno));
	}
	if (pipe2(ends, O_CLOEXEC)) {
		(void)close(fd);
		return mu_fail(err, MU_EIO, "pipe: %s", strerror(errno));
	}
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_adddup2(&actions, fd, 0);
	(void)posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
	int code = posix_spawnp(&ret->pid, "gzip", &actions, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)close(fd);
	(void)close(ends[1]);
	if (code) {
		(void)close(ends[0]);
		return mu_fail(err, MU_EIO, "%s is compressed and gzip does not run: %s", path, strerror(code));
	}
	ret->in = fdopen(ends[0], "r");
	return ret->in ? 0 : mu_fail(err, MU_EIO, "%s: %s", path, strerror(errno));
}

int sim_close(struct sim_file *f, const char *path, struct mu_err *err)
{
	int status = 0;

	if (f->in)
		(void)fclose(f->in);
	if (f->pid > 0)
		(void)waitpid(f->pid, &status, 0);
	f->in = NULL;
	return status && !(WIFSIGNALED(status) && WTERMSIG(status) == 13) ? mu_fail(err, MU_ECORRUPT, "%s does not decompress", path) : 0;
}

/* ---- reading ---- */

static bool numbers(const char *text, struct swf_line *ret)
{
	int n = 0;

	for (; n < SWF_FIELDS; n++) {
		char *end;
		double v = strtod(text, &end); /* Some files have fractions. */
		if (end == text)
			break;
		ret->field[n] = v > -1e15 && v < 1e15 ? (int64_t)v : -1;
		text = end;
	}
	for (int k = n; k < SWF_FIELDS; k++)
		ret->field[k] = -1;
	return n > SWF_PROCS;
}

/* What no simulation can run is dropped; what is missing is filled in. */
static bool clean(struct swf_line *l, uint32_t procs)
{
	int64_t *f = l->field;

	if (f[SWF_PROCS] <= 0)
		f[SWF_PROCS] = f[SWF_PROCS_ASKED];
	if (f[SWF_PROCS_ASKED] <= 0)
		f[SWF_PROCS_ASKED] = f[SWF_PROCS];
	if (f[SWF_TIME_ASKED] == -1)
		f[SWF_TIME_ASKED] = f[SWF_RUN];
	if (f[SWF_PROCS_ASKED] <= 0 || f[SWF_PROCS] > procs || f[SWF_PROCS_ASKED] > procs || f[SWF_RUN] <= 0 || f[SWF_TIME_ASKED] <= 0 ||
	    f[SWF_SUBMIT] < 0)
		return false;
	if (f[SWF_RUN] > f[SWF_TIME_ASKED])
		f[SWF_RUN] = f[SWF_TIME_ASKED];
	return true;
}

static int by_submission(const void *a, const void *b)
{
	const struct swf_line *x = a, *y = b;

	if (x->field[SWF_SUBMIT] != y->field[SWF_SUBMIT])
		return x->field[SWF_SUBMIT] < y->field[SWF_SUBMIT] ? -1 : 1;
	return x->field[SWF_ID] < y->field[SWF_ID] ? -1 : x->field[SWF_ID] > y->field[SWF_ID];
}

static void add_job(struct sim_work *w, const struct swf_line *l)
{
	const int64_t *f = l->field;
	struct sch_sim_job *j = sim_work_add(w);
	char name[SIM_WORD];

	j->spec = mu_arena_alloc(&w->arena, sizeof *j->spec);
	mu__job_spec__init(j->spec);
	j->spec->has_ntasks = j->spec->has_time_limit_sec = j->spec->has_batch = 1;
	j->spec->ntasks = (uint32_t)f[SWF_PROCS_ASKED];
	j->spec->time_limit_sec = f[SWF_TIME_ASKED];
	j->spec->batch = 1;
	(void)snprintf(name, sizeof name, "u%" PRId64, f[SWF_USER] < 0 ? 0 : f[SWF_USER]);
	j->author = sim_work_user(w, name, 1000 + (uint32_t)(f[SWF_USER] < 0 ? 0 : f[SWF_USER] % 1000000));
	j->submit_usec = w->begin_usec + f[SWF_SUBMIT] * 1000000;
	j->run_usec = f[SWF_RUN] * 1000000;
}

int sim_swf_read(const char *path, uint32_t procs, struct sim_work *w, struct mu_err *err)
{
	struct sim_file file;
	struct mu_err late = {0};
	char *text = NULL;
	size_t room = 0, lines = 0, cap = 0, number = 0;
	int code = sim_open(path, &file, err);

	w->begin_usec = INT64_C(1000000000) * 1000000;
	while (!code && getline(&text, &room, file.in) > 0) {
		struct swf_line l;
		number++;
		if (text[0] == ';') {
			long v;
			if (sscanf(text, "; MaxProcs: %ld", &v) == 1 && v > 0 && v < 65536)
				w->procs = (uint32_t)v;
			if (sscanf(text, "; UnixStartTime: %ld", &v) == 1 && v > 0)
				w->begin_usec = (int64_t)v * 1000000;
			continue;
		}
		if (text[strspn(text, " \t\r\n")] == 0)
			continue;
		if (!numbers(text, &l)) {
			code = mu_fail(err, MU_EINVAL, "%s:%zu: this is no line of an SWF file", path, number);
			break;
		}
		if (lines == cap) {
			cap = cap ? 2 * cap : 4096;
			w->line = realloc(w->line, cap * sizeof w->line[0]);
			if (!w->line)
				abort();
		}
		if (clean(&l, procs ? procs : w->procs ? w->procs : UINT32_MAX))
			w->line[lines++] = l;
		else
			w->dropped++;
	}
	free(text);
	if (file.in && sim_close(&file, path, code ? &late : err) && !code)
		code = MU_ECORRUPT;
	if (code)
		return code;
	if (lines)
		qsort(w->line, lines, sizeof w->line[0], by_submission);
	for (size_t i = 0; i < lines; i++)
		add_job(w, &w->line[i]);
	return lines ? 0 : mu_fail(err, MU_EINVAL, "%s holds no job that can run", path);
}

/* ---- writing ---- */

int sim_swf_write(const char *path, const struct sim_work *w, const char *how, struct mu_err *err)
{
	FILE *out = fopen(path, "we");

	if (!out)
		return mu_fail(err, MU_EIO, "%s: %s", path, strerror(errno));
	fprintf(out, "; Version: 2.2\n; Computer: muster sim, %s\n; MaxJobs: %u\n; Note: field 3 is the simulated wait; -1: never started\n", how, w->count);
	for (uint32_t i = 0; i < w->count; i++) {
		const struct sch_sim_job *j = &w->job[i];
		struct swf_line l = {{0}};
		if (w->line) {
			l = w->line[i];
		} else {
			for (int k = 0; k < SWF_FIELDS; k++)
				l.field[k] = -1;
			l.field[SWF_ID] = i + 1;
			l.field[SWF_SUBMIT] = (j->submit_usec - w->begin_usec) / 1000000;
			l.field[SWF_RUN] = j->run_usec / 1000000;
			l.field[SWF_PROCS] = l.field[SWF_PROCS_ASKED] = j->spec->ntasks;
			l.field[SWF_TIME_ASKED] = j->spec->time_limit_sec;
			l.field[SWF_STATUS] = 1;
			l.field[SWF_USER] = j->author->uid;
			l.field[SWF_GROUP] = j->author->gid;
		}
		l.field[SWF_WAIT] = j->start_usec ? (j->start_usec - j->submit_usec) / 1000000 : -1;
		for (int k = 0; k < SWF_FIELDS; k++)
			fprintf(out, "%s%" PRId64, k ? " " : "", l.field[k]);
		fputc('\n', out);
	}
	if (fflush(out) || ferror(out)) {
		(void)fclose(out);
		return mu_fail(err, MU_EIO, "%s: %s", path, strerror(errno));
	}
	(void)fclose(out);
	return 0;
}
