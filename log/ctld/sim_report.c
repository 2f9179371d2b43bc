/* ctld/sim_report.c: what a simulation comes to, for people and as JSON. */
#include "log/ctld/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/states.h"

/* Waits are compared by bounded slowdown: jobs under ten seconds do not count as shorter than that. */
enum { BOUND_SEC = 10 };

struct tally {
	const char *name;
	uint64_t jobs;
	double wait, response, slowdown, wait_max, work;
};

static void add(struct tally *t, const struct sch_sim_job *j)
{
	double wait = (double)(j->start_usec - j->submit_usec) / 1e6, run = (double)(j->end_usec - j->start_usec) / 1e6;
	double slow = (wait + run) / (run > BOUND_SEC ? run : BOUND_SEC);

	t->jobs++;
	t->wait += wait;
	t->response += wait + run;
	t->slowdown += slow > 1 ? slow : 1;
	t->wait_max = wait > t->wait_max ? wait : t->wait_max;
	t->work += run * j->spec->ntasks;
}

static bool finished(const struct sch_sim_job *j)
{
	return j->start_usec && j->end_usec;
}

/* Classes: by processors and by the time asked, as people speak of jobs. */
static const struct {
	const char *name;
	uint32_t procs_to;
	int64_t sec_to;
} CLASSES[] = {{"serial short", 1, 3600},      {"serial long", 1, INT64_MAX},    {"narrow short", 8, 3600},	  {"narrow long", 8, INT64_MAX},
	       {"wide short", 64, 3600},       {"wide long", 64, INT64_MAX},     {"huge short", UINT32_MAX, 3600}, {"huge long", UINT32_MAX, INT64_MAX}};
enum { CLASS_COUNT = sizeof CLASSES / sizeof CLASSES[0] };

static size_t class_of(const struct sch_sim_job *j)
{
	size_t c = 0;

	while (c + 1 < CLASS_COUNT && (j->spec->ntasks > CLASSES[c].procs_to || j->spec->time_limit_sec > CLASSES[c].sec_to))
		c++;
	return c;
}

struct sums {
	struct tally all, class[CLASS_COUNT], *user;
	size_t users, cap;
	struct mu_map by_name;
};

static struct tally *user_of(struct sums *s, const char *name)
{
	size_t at = (size_t)mu_map_get_str(&s->by_name, name);

	if (at)
		return &s->user[at - 1];
	if (s->users == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->user = realloc(s->user, s->cap * sizeof s->user[0]);
		if (!s->user)
			abort();
	}
	s->user[s->users++] = (struct tally){.name = name};
	mu_map_put_str(&s->by_name, name, (void *)s->users);
	return &s->user[s->users - 1];
}

static int by_work(const void *a, const void *b)
{
	const struct tally *x = a, *y = b;

	if (x->work != y->work)
		return x->work > y->work ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void sum_up(const struct sim_report *r, struct sums *s)
{
	s->all.name = "all";
	for (size_t c = 0; c < CLASS_COUNT; c++)
		s->class[c].name = CLASSES[c].name;
	for (uint32_t i = 0; i < r->w->count; i++) {
		const struct sch_sim_job *j = &r->w->job[i];
		if (!finished(j))
			continue;
		add(&s->all, j);
		add(&s->class[class_of(j)], j);
		add(user_of(s, j->author->user), j);
	}
	if (s->users)
		qsort(s->user, s->users, sizeof s->user[0], by_work);
}

static void done(struct sums *s)
{
	free(s->user);
	mu_map_clear(&s->by_name);
}

static double utilisation(const struct sch_sim_figures *f)
{
	double span = (double)(f->end_usec - f->begin_usec) * (double)f->cpus;

	return span > 0 ? (double)f->busy_cpu_usec / span : 0;
}

/* ---- for people ---- */

static void line(FILE *out, const struct tally *t)
{
	double n = t->jobs ? (double)t->jobs : 1;

	fprintf(out, "%-16s %8llu %12.1f %12.1f %12.2f %12.0f %14.0f\n", t->name, (unsigned long long)t->jobs, t->wait / n, t->response / n,
		t->slowdown / n, t->wait_max, t->work / 3600);
}

void sim_report_print(const struct sim_report *r, FILE *out)
{
	const struct sch_sim_figures *f = r->f;
	struct sums s = {0};

	sum_up(r, &s);
	fprintf(out, "%s, policy %s: %u jobs, %u dropped, %u refused, %u never started, on %llu CPUs over %.1f days\n", r->source, r->policy, r->w->count,
		r->w->dropped, f->refused, f->never, (unsigned long long)f->cpus, (double)(f->end_usec - f->begin_usec) / 86400e6);
	fprintf(out, "utilisation %.2f %%, at most %u jobs waiting\n\n", 100 * utilisation(f), f->waiting_max);
	fprintf(out, "%-16s %8s %12s %12s %12s %12s %14s\n", "class", "jobs", "wait s", "response s", "slowdown", "longest wait", "CPU hours");
	line(out, &s.all);
	for (size_t c = 0; c < CLASS_COUNT; c++)
		if (s.class[c].jobs)
			line(out, &s.class[c]);
	fprintf(out, "\n%-16s\n", "user");
	for (size_t i = 0; i < s.users && i < 10; i++)
		line(out, &s.user[i]);
	if (s.users > 10)
		fprintf(out, "(%zu more in --report)\n", s.users - 10);
	fprintf(out, "\n%llu events, %llu passes of %.0f steps (longest slice %llu), %llu planned starts; %.2f s, %.0f events/s\n",
		(unsigned long long)f->events, (unsigned long long)f->passes, f->passes ? (double)f->steps / (double)f->passes : 0,
		(unsigned long long)f->steps_max, (unsigned long long)f->planned, r->seconds, r->seconds > 0 ? (double)f->events / r->seconds : 0);
	if (f->acts)
		fprintf(out, "%llu acts besides, %llu of them void\n", (unsigned long long)f->acts, (unsigned long long)f->acts_void);
	done(&s);
}

/* ---- JSON ---- */

void sim_json_text(FILE *out, const char *s)
{
	fputc('"', out);
	for (; *s; s++)
		if (*s == '"' || *s == '\\')
			fprintf(out, "\\%c", *s);
		else if ((unsigned char)*s < 0x20)
			fprintf(out, "\\u%04x", *s);
		else
			fputc(*s, out);
	fputc('"', out);
}

static void object(FILE *out, const struct tally *t)
{
	double n = t->jobs ? (double)t->jobs : 1;

	fputs("{\"name\":", out);
	sim_json_text(out, t->name);
	fprintf(out, ",\"jobs\":%llu,\"mean_wait\":%.3f,\"mean_response\":%.3f,\"mean_bounded_slowdown\":%.6f,\"max_wait\":%.0f,\"cpu_seconds\":%.0f}",
		(unsigned long long)t->jobs, t->wait / n, t->response / n, t->slowdown / n, t->wait_max, t->work);
}

int sim_report_write(const struct sim_report *r, const char *path, struct mu_err *err)
{
	const struct sch_sim_figures *f = r->f;
	struct sums s = {0};
	FILE *out = fopen(path, "we");

	if (!out)
		return mu_fail(err, MU_EIO, "%s: %s", path, strerror(errno));
	sum_up(r, &s);
	fputs("{\"source\":", out);
	sim_json_text(out, r->source);
	fputs(",\"policy\":", out);
	sim_json_text(out, r->policy);
	fprintf(out, ",\"jobs\":%u,\"dropped\":%u,\"refused\":%u,\"never_started\":%u,\"cpus\":%llu,\"span_seconds\":%.0f,\"utilisation\":%.6f,\"waiting_max\":%u",
		r->w->count, r->w->dropped, f->refused, f->never, (unsigned long long)f->cpus, (double)(f->end_usec - f->begin_usec) / 1e6,
		utilisation(f), f->waiting_max);
	fprintf(out, ",\"events\":%llu,\"passes\":%llu,\"slices\":%llu,\"steps\":%llu,\"steps_max\":%llu,\"planned\":%llu,\"state_bytes_max\":%llu,\"seconds\":%.3f,\"all\":",
		(unsigned long long)f->events, (unsigned long long)f->passes, (unsigned long long)f->decided, (unsigned long long)f->steps,
		(unsigned long long)f->steps_max, (unsigned long long)f->planned, (unsigned long long)f->state_bytes_max, r->seconds);
	object(out, &s.all);
	fputs(",\"classes\":[", out);
	for (size_t c = 0; c < CLASS_COUNT; c++) {
		if (c)
			fputc(',', out);
		object(out, &s.class[c]);
	}
	fputs("],\"users\":[", out);
	for (size_t i = 0; i < s.users; i++) {
		if (i)
			fputc(',', out);
		object(out, &s.user[i]);
	}
	fputs("]}\n", out);
	done(&s);
	bool bad = fflush(out) || ferror(out);
	(void)fclose(out);
	return bad ? mu_fail(err, MU_EIO, "%s: %s", path, strerror(errno)) : 0;
}
