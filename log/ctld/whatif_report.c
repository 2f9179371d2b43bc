/* ctld/whatif_report.c: two histories side by side in figures, JSON and a picture: see whatif.h. */
#include "log/ctld/whatif.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log/ctld/sim.h"
#include "proto/base/map.h"
#include "proto/states.h"

/* Waits are compared by bounded slowdown: jobs under ten seconds do not count as shorter than that. */
enum { BOUND_SEC = 10, GROUPS_TEXT = 12 };

struct samples {
	double *wait;
	size_t count, cap;
	double slowdown;
	uint32_t ended;
};
struct group {
	struct whatif_group g;
	struct samples real, other;
};
struct sums {
	struct mu_map by_name;
	struct group **list;
	size_t count, cap;
};

static void *more(void *list, size_t *cap, size_t size)
{
	*cap = *cap ? 2 * *cap : 64;
	void *grown = realloc(list, *cap * size);
	if (!grown)
		abort();
	return grown;
}

static struct group *group_of(struct sums *s, const char *name, struct mu_arena *arena)
{
	struct group *g = mu_map_get_str(&s->by_name, name);

	if (g)
		return g;
	g = mu_arena_alloc(arena, sizeof *g);
	g->g.name = mu_arena_strdup(arena, name);
	if (s->count == s->cap)
		s->list = more(s->list, &s->cap, sizeof s->list[0]);
	s->list[s->count++] = g;
	mu_map_put_str(&s->by_name, name, g);
	return g;
}

static double wait_of(const struct sch_whatif_life *l)
{
	return l->start_usec > l->ready_usec ? (double)(l->start_usec - l->ready_usec) / 1e6 : 0;
}

static void add_life(struct whatif_tally *t, struct samples *s, const struct sch_whatif_life *l)
{
	t->jobs++;
	t->waiting += l->state == JOB_PENDING && !l->starts;
	if (!l->starts)
		return;
	t->started++;
	if (s->count == s->cap)
		s->wait = more(s->wait, &s->cap, sizeof s->wait[0]);
	double wait = wait_of(l);
	s->wait[s->count++] = wait;
	t->mean += wait;
	if (l->end_usec < l->last_usec)
		return;
	double run = (double)(l->end_usec - l->last_usec) / 1e6,
	       slow = (wait + run) / (run > BOUND_SEC ? run : BOUND_SEC);
	s->slowdown += slow > 1 ? slow : 1;
	s->ended++;
}

static void add(struct group *g, const struct sch_whatif_job *j)
{
	add_life(&g->g.real, &g->real, &j->real);
	add_life(&g->g.other, &g->other, &j->other);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The smallest wait that so many in a hundred did not exceed. */
static double quantile(const struct samples *s, unsigned percent)
{
	size_t at = (s->count * percent + 99) / 100;

	return s->count ? s->wait[at ? at - 1 : 0] : 0;
}

static void settle(struct whatif_tally *t, struct samples *s)
{
	if (s->count)
		qsort(s->wait, s->count, sizeof s->wait[0], by_size);
	t->p50 = quantile(s, 50);
	t->p90 = quantile(s, 90);
	t->p99 = quantile(s, 99);
	t->mean = t->started ? t->mean / t->started : 0;
	t->slowdown = s->ended ? s->slowdown / s->ended : 0;
	free(s->wait);
	s->wait = NULL;
}

static int by_jobs(const void *a, const void *b)
{
	const struct whatif_group *x = a, *y = b;

	if (x->real.jobs != y->real.jobs)
		return x->real.jobs > y->real.jobs ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void list_of(struct sums *s, struct mu_arena *arena, struct whatif_group **ret, size_t *ret_count)
{
	*ret = mu_arena_alloc(arena, (s->count + 1) * sizeof **ret);
	for (size_t i = 0; i < s->count; i++) {
		settle(&s->list[i]->g.real, &s->list[i]->real);
		settle(&s->list[i]->g.other, &s->list[i]->other);
		(*ret)[i] = s->list[i]->g;
	}
	*ret_count = s->count;
	if (s->count)
		qsort(*ret, s->count, sizeof **ret, by_jobs);
	free(s->list);
	mu_map_clear(&s->by_name);
}

/* Powers of two, so that shapes stay few. */
static uint32_t rounded(uint32_t n)
{
	uint32_t up = 1;

	while (up < n && up < UINT32_C(1) << 31)
		up *= 2;
	return up;
}

static void shape_of(const struct sch_whatif_job *j, char *out, size_t cap)
{
	const char *time = j->limit_sec < 0	   ? "unlimited"
			   : j->limit_sec <= 3600  ? "1h"
			   : j->limit_sec <= 86400 ? "1d"
						   : "days";
	int n = j->cpus ? snprintf(out, cap, "%uN %uC", rounded(j->nodes), rounded(j->cpus))
			: snprintf(out, cap, "never started");

	if (j->cpus && j->gpus)
		n += snprintf(out + n, cap - (size_t)n, " %uG", rounded(j->gpus));
	if (j->cpus)
		(void)snprintf(out + n, cap - (size_t)n, " %s", time);
}

void whatif_sum(struct whatif_run *r, struct mu_arena *arena, struct whatif_groups *ret)
{
	struct sums accounts = {0}, shapes = {0};
	struct group all = {.g.name = "all"};
	char shape[64];

	*ret = (struct whatif_groups){0};
	size_t at = 0;
	for (const struct sch_whatif_job *j = sch_whatif_job(r->w, at++); j; j = sch_whatif_job(r->w, at++)) {
		shape_of(j, shape, sizeof shape);
		add(&all, j);
		add(group_of(&accounts, *j->account ? j->account : j->user, arena), j);
		add(group_of(&shapes, shape, arena), j);
		ret->same += j->real.start_usec == j->other.start_usec;
		ret->sooner +=
		    j->other.start_usec && (!j->real.start_usec || j->other.start_usec < j->real.start_usec);
		ret->later +=
		    j->real.start_usec && (!j->other.start_usec || j->other.start_usec > j->real.start_usec);
	}
	settle(&all.g.real, &all.real);
	settle(&all.g.other, &all.other);
	ret->all = all.g;
	list_of(&accounts, arena, &ret->account, &ret->accounts);
	list_of(&shapes, arena, &ret->shape, &ret->shapes);
}

static const char *const METRICS[] = {"wait:p50", "wait:p90", "wait:p99", "wait:mean", "slowdown"};

bool whatif_metric_known(const char *word)
{
	for (size_t i = 0; i < sizeof METRICS / sizeof METRICS[0]; i++)
		if (!strcmp(METRICS[i], word))
			return true;
	return false;
}

double whatif_measure(struct whatif_run *r, const struct whatif_metric *m, bool other, uint32_t *ret_jobs)
{
	struct whatif_tally t = {0};
	struct samples s = {0};
	size_t at = 0;

	for (const struct sch_whatif_job *j = sch_whatif_job(r->w, at++); j; j = sch_whatif_job(r->w, at++))
		if (j->submit_usec >= m->from_usec && j->submit_usec < m->to_usec && (!m->account || !strcmp(m->account, j->account)))
			add_life(&t, &s, other ? &j->other : &j->real);
	settle(&t, &s);
	*ret_jobs = t.started;
	const double value[] = {t.p50, t.p90, t.p99, t.mean, t.slowdown};
	for (size_t i = 0; i < sizeof METRICS / sizeof METRICS[0]; i++)
		if (!strcmp(METRICS[i], m->word))
			return value[i];
	return 0;
}

static double utilisation(const struct sch_whatif_side *s)
{
	return s->cpu_usec ? (double)s->busy_cpu_usec / (double)s->cpu_usec : 0;
}

/* ---- for people ---- */

static void row(FILE *out, const char *name, const char *which, const struct whatif_tally *t)
{
	fprintf(out, "%-20s %-8s %7u %7u %7u %10.1f %10.1f %10.1f %10.1f %9.2f\n", name, which, t->jobs,
		t->started, t->waiting, t->p50, t->p90, t->p99, t->mean, t->slowdown);
}

static void rows(FILE *out, const char *what, const struct whatif_group *g, size_t count)
{
	fprintf(out, "\n%s\n", what);
	for (size_t i = 0; i < count && i < GROUPS_TEXT; i++) {
		row(out, g[i].name, "real", &g[i].real);
		row(out, "", "what-if", &g[i].other);
	}
	if (count > GROUPS_TEXT)
		fprintf(out, "(%zu more with --json)\n", count - GROUPS_TEXT);
}

static void changes(const struct whatif_run *r, FILE *out)
{
	const struct whatif_rules *u = &r->rules;

	fputs("changed: ", out);
	if (!u->set_count && !u->conf && !u->add_count && !u->drop_count && !u->skip_pos)
		fputs("nothing", out);
	if (u->conf)
		fprintf(out, " configuration of %s", u->conf);
	for (size_t i = 0; i < u->set_count; i++)
		fprintf(out, " %s", u->set[i]);
	for (size_t i = 0; i < u->add_count; i++)
		fprintf(out, " nodes %s", u->add[i]);
	for (size_t i = 0; i < u->drop_count; i++)
		fprintf(out, " without reservation %s", u->drop[i]);
	if (u->skip_pos)
		fprintf(out, " without event @%llu.%u", (unsigned long long)u->skip_pos, u->skip_n);
	fputc('\n', out);
}

static void assumptions(const struct whatif_run *r, const struct sch_whatif_figures *f, FILE *out)
{
	fprintf(out,
		"\nkept: submissions, operators and nodes at their moments; the moments and step budgets of "
		"%llu recorded slices;\n"
		"      of each attempt its launch delay, run time, end and cause, counted from its start\n",
		(unsigned long long)f->slices);
	fprintf(out,
		"assumed: %llu attempts moved; %llu of them have no end of their own to go by: they run as "
		"long as the job's other\n"
		"      attempt, else up to the time limit (%llu have none and run on); %llu slices at "
		"moments of their own, where State\n"
		"      wanted one and none was recorded within a second; what a moved attempt's node said of "
		"itself is left out\n",
		(unsigned long long)f->moved, (unsigned long long)f->assumed, (unsigned long long)f->endless,
		(unsigned long long)f->own);
	if (f->refused)
		fprintf(out, "      %u submissions are refused by the other rules and leave the comparison\n",
			f->refused);
	if (f->foreign)
		fprintf(out,
			"      %llu slices were made by another planner version, or over a State before the "
			"period: not made again\n",
			(unsigned long long)f->foreign);
	(void)r;
}

void whatif_print(const struct whatif_run *r, const struct whatif_groups *g, FILE *out)
{
	const struct sch_whatif_figures *f = sch_whatif_figures(r->w);
	struct mu_hash real, other;

	changes(r, out);
	sch_digest(sch_whatif_real(r->w), &real);
	sch_digest(sch_whatif_other(r->w), &other);
	if (memcmp(&real, &other, sizeof real) == 0)
		fprintf(out,
			"the same history: %llu slices decided again, %llu equal, %llu starts; State at "
			"position %llu has the recorded digest\n",
			(unsigned long long)f->slices, (unsigned long long)f->equal,
			(unsigned long long)f->other.starts,
			(unsigned long long)sch_pos(sch_whatif_other(r->w)));
	else
		fprintf(out,
			"another history, from position %llu on: %u jobs start when they did, %u sooner, %u "
			"later\n",
			(unsigned long long)(f->different ? f->different : r->from), g->same, g->sooner,
			g->later);
	fprintf(out, "utilisation: real %.2f %%, what-if %.2f %%\n\n", 100 * utilisation(&f->real),
		100 * utilisation(&f->other));
	fprintf(out, "%-20s %-8s %7s %7s %7s %10s %10s %10s %10s %9s\n", "wait in seconds", "", "jobs",
		"started", "waiting", "median", "90%", "99%", "mean", "slowdown");
	row(out, "all", "real", &g->all.real);
	row(out, "", "what-if", &g->all.other);
	rows(out, "account", g->account, g->accounts);
	rows(out, "shape (nodes, CPUs, GPUs up to; time asked)", g->shape, g->shapes);
	assumptions(r, f, out);
}

/* ---- JSON ---- */

static void tally(FILE *out, const char *name, const struct whatif_tally *t)
{
	fprintf(out,
		"\"%s\":{\"jobs\":%u,\"started\":%u,\"waiting\":%u,\"wait_p50\":%.6f,\"wait_p90\":%.6f,"
		"\"wait_p99\":%.6f,\"wait_mean\":%.6f,\"slowdown\":%.6f}",
		name, t->jobs, t->started, t->waiting, t->p50, t->p90, t->p99, t->mean, t->slowdown);
}

static void group(FILE *out, const struct whatif_group *g)
{
	fputs("{\"name\":", out);
	sim_json_text(out, g->name);
	fputc(',', out);
	tally(out, "real", &g->real);
	fputc(',', out);
	tally(out, "what_if", &g->other);
	fputc('}', out);
}

static void groups(FILE *out, const char *name, const struct whatif_group *g, size_t count)
{
	fprintf(out, ",\"%s\":[", name);
	for (size_t i = 0; i < count; i++) {
		if (i)
			fputc(',', out);
		group(out, &g[i]);
	}
	fputc(']', out);
}

static void words(FILE *out, const char *name, const char *const *list, size_t count)
{
	fprintf(out, "\"%s\":[", name);
	for (size_t i = 0; i < count; i++) {
		if (i)
			fputc(',', out);
		sim_json_text(out, list[i]);
	}
	fputs("],", out);
}

static void side(FILE *out, const char *name, const struct sch_state *st, const struct sch_whatif_side *s)
{
	struct mu_hash digest;
	char hex[2 * MU_HASH_BYTES + 1];

	sch_digest(st, &digest);
	mu_hash_print(&digest, hex);
	fprintf(out,
		",\"%s\":{\"pos\":%llu,\"digest\":\"%s\",\"starts\":%llu,\"utilisation\":%.6f,\"cpu_"
		"seconds\":%.3f}",
		name, (unsigned long long)sch_pos(st), hex, (unsigned long long)s->starts, utilisation(s),
		(double)s->busy_cpu_usec / 1e6);
}

void whatif_json(const struct whatif_run *r, const struct whatif_groups *g, FILE *out)
{
	const struct sch_whatif_figures *f = sch_whatif_figures(r->w);

	fprintf(out, "{\"from\":%llu,\"to\":%llu,\"from_usec\":%lld,\"to_usec\":%lld,",
		(unsigned long long)r->from, (unsigned long long)r->to, (long long)r->from_usec,
		(long long)r->to_usec);
	words(out, "set", r->rules.set, r->rules.set_count);
	words(out, "add_nodes", r->rules.add, r->rules.add_count);
	words(out, "drop_reservation", r->rules.drop, r->rules.drop_count);
	fputs("\"conf\":", out);
	sim_json_text(out, r->rules.conf ? r->rules.conf : "");
	fprintf(out,
		",\"slices\":%llu,\"equal\":%llu,\"own_slices\":%llu,\"foreign\":%llu,\"moved\":%llu,"
		"\"assumed\":%llu,\"endless\":%llu,\"refused\":%u,\"different\":%llu",
		(unsigned long long)f->slices, (unsigned long long)f->equal, (unsigned long long)f->own,
		(unsigned long long)f->foreign, (unsigned long long)f->moved, (unsigned long long)f->assumed,
		(unsigned long long)f->endless, f->refused, (unsigned long long)f->different);
	fprintf(out, ",\"same_start\":%u,\"sooner\":%u,\"later\":%u", g->same, g->sooner, g->later);
	side(out, "real", sch_whatif_real(r->w), &f->real);
	side(out, "what_if", sch_whatif_other(r->w), &f->other);
	fputs(",\"all\":", out);
	group(out, &g->all);
	groups(out, "accounts", g->account, g->accounts);
	groups(out, "shapes", g->shape, g->shapes);
	fputs("}\n", out);
}

/* ---- the picture: CPUs in use over time, and waits from the shortest to the longest ---- */

enum { WIDTH = 1000, HEIGHT = 220, LEFT = 60, TOP = 40, GAP = 60 };

static void held(const struct whatif_run *r, const struct sch_whatif_job *j, const struct sch_whatif_life *l,
		 double *column)
{
	double width = (double)(r->to_usec - r->from_usec) / WIDTH;
	int64_t until = l->end_usec >= l->last_usec ? l->end_usec : r->to_usec;

	if (!l->starts || width <= 0)
		return;
	double from = (double)(l->last_usec - r->from_usec) / width,
	       to = (double)(until - r->from_usec) / width;
	for (int c = from > 0 ? (int)from : 0; c < WIDTH && c < to; c++) {
		double a = c > from ? c : from, b = c + 1 < to ? c + 1 : to;
		column[c] += (b - a) * j->cpus;
	}
}

static void curve(FILE *out, const double *y, size_t count, double most, int top, const char *colour)
{
	fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"", colour);
	for (size_t i = 0; i < count; i++)
		fprintf(out, "%.1f,%.1f ", LEFT + (double)i * WIDTH / (double)(count > 1 ? count - 1 : 1),
			top + HEIGHT - (most > 0 ? y[i] / most : 0) * HEIGHT);
	fputs("\"/>\n", out);
}

static double most_of(const double *a, const double *b, size_t count)
{
	double most = 0;

	for (size_t i = 0; i < count; i++) {
		most = a[i] > most ? a[i] : most;
		most = b[i] > most ? b[i] : most;
	}
	return most;
}

static void frame(FILE *out, int top, const char *what, double most, const char *unit)
{
	fprintf(out,
		"<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#f4f4f4\"/><text x=\"%d\" "
		"y=\"%d\">%s</text><text x=\"4\" y=\"%d\">%.0f %s</text>\n",
		LEFT, top, WIDTH, HEIGHT, LEFT, top - 6, what, top + 10, most, unit);
}

int whatif_picture(const struct whatif_run *r, const char *path, struct mu_err *err)
{
	FILE *out = fopen(path, "we");
	double *column = calloc(2 * WIDTH, sizeof *column), *wait[2] = {NULL, NULL};
	size_t count = 0, cap = 0, at = 0;

	if (!out || !column) {
		free(column);
		if (out)
			(void)fclose(out);
		return mu_fail(err, MU_EIO, "%s: %s", path, strerror(errno));
	}
	for (const struct sch_whatif_job *j = sch_whatif_job(r->w, at++); j; j = sch_whatif_job(r->w, at++)) {
		held(r, j, &j->real, column);
		held(r, j, &j->other, column + WIDTH);
		if (!j->real.starts || !j->other.starts)
			continue;
		if (count == cap) {
			size_t old = cap;
			wait[0] = more(wait[0], &cap, sizeof(double));
			wait[1] = more(wait[1], &old, sizeof(double));
		}
		wait[0][count] = wait_of(&j->real);
		wait[1][count++] = wait_of(&j->other);
	}
	int below = TOP + HEIGHT + GAP;
	double cpus = most_of(column, column + WIDTH, WIDTH),
	       longest = count ? most_of(wait[0], wait[1], count) : 0;
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"font-family=\"sans-serif\" font-size=\"11\">\n",
		LEFT + WIDTH + 20, below + HEIGHT + 30);
	fprintf(out,
		"<text x=\"%d\" y=\"16\" font-size=\"13\"><tspan fill=\"#777\">as it was</tspan> and <tspan "
		"fill=\"#26c\">what if</tspan></text>\n",
		LEFT);
	frame(out, TOP, "CPUs in use over the period", cpus, "CPUs");
	curve(out, column, WIDTH, cpus, TOP, "#777");
	curve(out, column + WIDTH, WIDTH, cpus, TOP, "#26c");
	frame(out, below, "waits, from the shortest to the longest", longest, "s");
	for (int k = 0; k < 2 && count; k++) {
		qsort(wait[k], count, sizeof(double), by_size);
		curve(out, wait[k], count, longest, below, k ? "#26c" : "#777");
	}
	fputs("</svg>\n", out);
	free(column);
	free(wait[0]);
	free(wait[1]);
	bool bad = fflush(out) || ferror(out);
	(void)fclose(out);
	return bad ? mu_fail(err, MU_EIO, "%s: %s", path, strerror(errno)) : 0;
}
