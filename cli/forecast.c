/* cli/forecast.c: muster forecast: when waiting jobs may start, with what was learnt of how long jobs really run
 * beside what they ask for; and how good past forecasts were.
 *
 * A planned start counts on every job running to its limit. Of each user (else account, else the cluster) the
 * shares of the limit that jobs really ran are known from the accounts; a job that has run for a while is compared
 * with those that ran at least as long. All in integers: shares are thousandths. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/array.h"
#include "cli/column.h"
#include "cli/filter.h"
#include "cli/muster.h"
#include "proto/base/map.h"
#include "proto/hostlist.h"
#include "proto/pb.h"
#include "proto/states.h"
#include "proto/why.pb-c.h"

enum {
	SAMPLES_MAX = 512, /* of each name: the last ones */
	SAMPLES_LEAST = 5, /* fewer say nothing */
	DAYS_DEFAULT = 30,
	NODES_MAX = 65536,
	SCORED_MAX = 2000, /* started jobs that are looked at, the last ones */
	NEAR_USEC = 60000000
};
#define DAY_USEC (INT64_C(86400) * 1000000)

/* ---- what was learnt ---- */

struct shares {
	uint16_t permille[SAMPLES_MAX];
	size_t seen; /* the last SAMPLES_MAX of them are kept */
	bool sorted;
};
struct learnt {
	struct cli *cli;
	struct mu_map user, account; /* name -> struct shares */
	struct shares all;
};

static void add_share(struct learnt *l, struct mu_map *map, const char *name, uint16_t permille)
{
	struct shares *s = name && *name ? mu_map_get_str(map, name) : NULL;

	if (!s && name && *name) {
		s = mu_arena_alloc(&l->cli->arena, sizeof *s);
		memset(s, 0, sizeof *s);
		mu_map_put_str(map, name, s);
	}
	if (s)
		s->permille[s->seen++ % SAMPLES_MAX] = permille;
}

static void learn(void *arg, struct mu_view bytes)
{
	struct learnt *l = arg;
	struct mu_arena arena = {0};
	const Mu__HistRow *row = (Mu__HistRow *)mu_pb_unpack(&mu__hist_row__descriptor, bytes.data, bytes.len, &arena);
	const Mu__JobRow *j = row ? row->job : NULL;

	if (j && mu_job_state_ended(j->state) && j->start_usec && j->end_usec > j->start_usec && j->time_limit_sec > 0) {
		int64_t ran = (j->end_usec - j->start_usec) / 1000000 * 1000 / j->time_limit_sec;
		uint16_t permille = (uint16_t)(ran > 1000 ? 1000 : ran);
		add_share(l, &l->user, j->user, permille);
		add_share(l, &l->account, j->account, permille);
		l->all.permille[l->all.seen++ % SAMPLES_MAX] = permille;
	}
	mu_arena_free(&arena);
}

static int by_number(const void *a, const void *b)
{
	return *(const uint16_t *)a - *(const uint16_t *)b;
}

static size_t kept(struct shares *s)
{
	size_t n = s->seen < SAMPLES_MAX ? s->seen : SAMPLES_MAX;

	if (!s->sorted && n)
		qsort(s->permille, n, sizeof *s->permille, by_number);
	s->sorted = true;
	return n;
}

/* The user's own jobs, else the account's, else everybody's; NULL: too few are known. *RET says whose. */
static struct shares *shares_of(struct learnt *l, const Mu__JobRow *j, const char **ret)
{
	struct shares *s = j->user ? mu_map_get_str(&l->user, j->user) : NULL;

	*ret = "user";
	if (s && s->seen >= SAMPLES_LEAST)
		return s;
	*ret = "account";
	s = j->account ? mu_map_get_str(&l->account, j->account) : NULL;
	if (s && s->seen >= SAMPLES_LEAST)
		return s;
	*ret = l->all.seen >= SAMPLES_LEAST ? "cluster" : "limit";
	return l->all.seen >= SAMPLES_LEAST ? &l->all : NULL;
}

/* The share that TENTHS of those jobs did not exceed that ran for more than RAN. */
static int64_t share_at(struct shares *s, int64_t ran, unsigned tenths)
{
	size_t n = s ? kept(s) : 0, first = 0;

	while (first < n && s->permille[first] <= ran)
		first++;
	return first < n ? s->permille[first + (n - first - 1) * tenths / 10] : 1000;
}

/* ---- jobs and the nodes that they hold, or will ---- */

struct member {
	const Mu__JobRow *job;
	const char *basis;
	char **node;
	size_t nodes;
	int64_t by_limit;      /* when its limit ends it, as planned */
	int64_t early, likely; /* starts, of one that waits; ends, of one that runs */
	int64_t end_early, end_likely;
};

static void expand(struct learnt *l, struct member *m, const char *list)
{
	if (list && *list && mu_hostlist_expand(list, NODES_MAX, &l->cli->arena, &m->node, &m->nodes, NULL))
		m->nodes = 0;
}

static int64_t limit_usec(const Mu__JobRow *j)
{
	return j->time_limit_sec > 0 ? j->time_limit_sec * 1000000 : 365 * DAY_USEC;
}

static void running(struct learnt *l, struct member *m, int64_t now)
{
	const Mu__JobRow *j = m->job;
	struct shares *s = shares_of(l, j, &m->basis);
	int64_t limit = limit_usec(j), ran = (now - j->start_usec) / (limit / 1000 ? limit / 1000 : 1);

	m->by_limit = j->start_usec + limit;
	m->end_early = j->start_usec + limit / 1000 * share_at(s, ran, 1);
	m->end_likely = j->start_usec + limit / 1000 * share_at(s, ran, 5);
	m->end_early = m->end_early > now ? m->end_early : now;
	m->end_likely = m->end_likely > now ? m->end_likely : now;
	expand(l, m, j->node_list);
}

static bool meet(const struct member *a, const struct member *b)
{
	for (size_t i = 0; i < a->nodes; i++)
		for (size_t k = 0; k < b->nodes; k++)
			if (strcmp(a->node[i], b->node[k]) == 0)
				return true;
	return false;
}

/* One that waits: those before it on its planned nodes that must be over by then end as they are used to. */
static void waiting(struct learnt *l, struct member *m, const struct member *before, size_t count, int64_t now)
{
	const Mu__JobRow *j = m->job;
	int64_t plan = j->plan_start_usec, limit = limit_usec(j);
	bool any = false;

	m->early = m->likely = now;
	expand(l, m, j->plan_nodes);
	for (size_t i = 0; i < count; i++) {
		if (before[i].by_limit > plan + NEAR_USEC || !meet(m, &before[i]))
			continue;
		any = true;
		m->early = before[i].end_early > m->early ? before[i].end_early : m->early;
		m->likely = before[i].end_likely > m->likely ? before[i].end_likely : m->likely;
	}
	if (!any || m->likely > plan)
		m->likely = plan;
	if (!any || m->early > m->likely)
		m->early = any ? m->likely : plan;
	struct shares *s = shares_of(l, j, &m->basis);
	m->by_limit = plan + limit;
	m->end_early = m->early + limit / 1000 * share_at(s, 0, 1);
	m->end_likely = m->likely + limit / 1000 * share_at(s, 0, 5);
}

static int by_plan(const void *a, const void *b)
{
	const Mu__JobRow *x = *(Mu__JobRow *const *)a, *y = *(Mu__JobRow *const *)b;

	if (x->plan_start_usec != y->plan_start_usec)
		return x->plan_start_usec < y->plan_start_usec ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

static void print_member(const struct member *m, bool json)
{
	char early[32], likely[32], plan[32];
	struct mu_buf id MU_CLEANUP(mu_buf_free) = {0};

	cli_job_name(m->job, &id);
	mu_date_print(m->early, &cli_zone, early);
	mu_date_print(m->likely, &cli_zone, likely);
	mu_date_print(m->job->plan_start_usec, &cli_zone, plan);
	if (json)
		printf("{\"job\":%u,\"early_usec\":%" PRId64 ",\"likely_usec\":%" PRId64 ",\"planned_usec\":%" PRId64 ",\"basis\":\"%s\"}\n",
		       m->job->id, m->early, m->likely, m->job->plan_start_usec, m->basis);
	else
		printf("%14s %9.9s %10.10s %19s %19s %19s %s\n", (char *)id.data, m->job->user ? m->job->user : "",
		       m->job->account ? m->job->account : "", early, likely, plan, m->basis);
}

static int list(struct learnt *l, const char *words, bool json, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	Mu__JobRow **plan;
	void **rows;
	size_t n, members = 0, plans = 0;
	int rc;

	ask.has_what = ask.has_slim = ask.slim = 1;
	ask.what = MU__WHAT__WHAT_JOBS;
	rc = cli_query_all(l->cli, &ask, &mu__job_row__descriptor, &rows, &n, err);
	if (rc)
		return rc;
	struct member *m = mu_arena_alloc(&l->cli->arena, (n + 1) * sizeof *m);
	plan = mu_arena_alloc(&l->cli->arena, (n + 1) * sizeof *plan);
	memset(m, 0, (n + 1) * sizeof *m);
	for (size_t i = 0; i < n; i++) {
		Mu__JobRow *j = rows[i];
		if (j->state == JOB_RUNNING && j->start_usec) {
			m[members].job = j;
			running(l, &m[members++], l->cli->now_usec);
		} else if (j->state == JOB_PENDING && j->plan_start_usec) {
			plan[plans++] = j;
		}
	}
	if (plans)
		qsort(plan, plans, sizeof *plan, by_plan);
	if (!json)
		printf("%14s %9s %10s %19s %19s %19s %s\n", "JOBID", "USER", "ACCOUNT", "EARLIEST", "LIKELY", "PLANNED", "BASIS");
	for (size_t i = 0; i < plans; i++) {
		char id[16];
		m[members].job = plan[i];
		waiting(l, &m[members], m, members, l->cli->now_usec);
		snprintf(id, sizeof id, "%u", plan[i]->id);
		if (!words || cli_in_list(words, id))
			print_member(&m[members], json);
		members++;
	}
	return 0;
}

/* ---- how good forecasts were ---- */

struct score {
	size_t told, kept; /* jobs that were told a start; that started by then */
	int64_t error[SCORED_MAX]; /* seconds behind the first planned start; before it: negative */
};

static int by_error(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* The first start that the job was told before it started, against what came of it. */
static int score_job(struct cli *c, const Mu__JobRow *j, struct score *s, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	void **rows;
	size_t n;
	uint32_t id = j->id;

	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_MOMENTS;
	ask.job = &id;
	ask.n_job = 1;
	int rc = cli_query_all(c, &ask, &mu__moment__descriptor, &rows, &n, err);
	for (size_t i = 0; i < n && !rc; i++) {
		const Mu__Moment *m = rows[i];
		if (!m->job || m->job->state != JOB_PENDING || !m->job->plan_start_usec || m->time_usec >= j->start_usec)
			continue;
		int64_t error = (j->start_usec - m->job->plan_start_usec) / 1000000;
		s->error[s->told++] = error;
		s->kept += error <= 0;
		break;
	}
	return rc;
}

static int by_start(const void *a, const void *b)
{
	const Mu__HistRow *x = *(Mu__HistRow *const *)a, *y = *(Mu__HistRow *const *)b;

	return (x->job->start_usec < y->job->start_usec) - (x->job->start_usec > y->job->start_usec);
}

static void put_error(const char *what, int64_t sec)
{
	char span[32];

	mu_span_print(sec < 0 ? -sec : sec, 0, span);
	printf("  %s: %s %s\n", what, span, sec < 0 ? "before the planned start" : sec ? "behind it" : "to the second");
}

static int score(struct cli *c, int64_t from, bool json, struct mu_err *err)
{
	struct score *s = mu_arena_alloc(&c->arena, sizeof *s);
	Mu__Query ask = MU__QUERY__INIT;
	void **rows;
	size_t n, started = 0;

	memset(s, 0, sizeof *s);
	ask.has_what = ask.has_from_usec = ask.has_slim = ask.slim = 1;
	ask.what = MU__WHAT__WHAT_ACCT;
	ask.from_usec = from;
	int rc = cli_query_all(c, &ask, &mu__hist_row__descriptor, &rows, &n, err);
	for (size_t i = 0; i < n && !rc; i++) {
		const Mu__HistRow *row = rows[i];
		if (row->job && row->job->start_usec >= from)
			rows[started++] = rows[i];
	}
	if (started)
		qsort(rows, started, sizeof *rows, by_start);
	started = started < SCORED_MAX ? started : SCORED_MAX;
	for (size_t i = 0; i < started && !rc; i++)
		rc = score_job(c, ((Mu__HistRow *)rows[i])->job, s, err);
	if (rc)
		return rc;
	if (s->told)
		qsort(s->error, s->told, sizeof *s->error, by_error);
	int64_t median = s->told ? s->error[s->told / 2] : 0, late = s->told ? s->error[s->told * 9 / 10] : 0;
	if (json) {
		printf("{\"started\":%zu,\"told\":%zu,\"kept\":%zu,\"median_sec\":%" PRId64 ",\"ninth_tenth_sec\":%" PRId64 "}\n", started,
		       s->told, s->kept, median, late);
		return 0;
	}
	printf("%zu jobs started; %zu had been told a start, %zu of them started by then\n", started, s->told, s->kept);
	if (s->told) {
		put_error("half of them", median);
		put_error("nine of ten", late);
	}
	return 0;
}

/* ---- the command ---- */

int muster_forecast(struct cli *c, size_t count, char **words)
{
	const char *scored = NULL, *from = NULL, *days = NULL, *json = NULL;
	const struct muster_word options[] = {{"score", MUSTER_FLAG, &scored},
					      {"from", MUSTER_VALUE, &from},
					      {"days", MUSTER_VALUE, &days},
					      {"json", MUSTER_FLAG, &json}};
	struct learnt *l = mu_arena_alloc(&c->arena, sizeof *l);
	Mu__Query ask = MU__QUERY__INIT;
	struct mu_err err = {0};
	int64_t since = 0, back = DAYS_DEFAULT;
	int left = muster_words(c, count, words, options, sizeof options / sizeof *options), rc = 0;

	if (left < 0)
		return 1;
	if (left > 1 || (left && scored)) {
		cli_error(c, "usage: muster forecast [JOBS] [--days N] [--json] | --score [--from TIME] [--json]");
		return 1;
	}
	if (days)
		rc = mu_number_parse("--days", days, 1, 3660, &back, &err);
	if (!rc && from && mu_date_parse(from, cli_now_usec(), 0, &cli_zone, &since, NULL))
		rc = mu_fail(&err, MU_EINVAL, "Invalid time specification: \"%s\" of --from", from);
	if (!since)
		since = cli_now_usec() - back * DAY_USEC;
	memset(l, 0, sizeof *l);
	l->cli = c;
	ask.has_what = ask.has_from_usec = ask.has_slim = ask.slim = 1;
	ask.what = MU__WHAT__WHAT_ACCT;
	ask.from_usec = since;
	if (!rc && scored) {
		rc = score(c, since, json != NULL, &err);
	} else if (!rc) {
		rc = cli_query(c, &ask, learn, l, &err);
		if (!rc)
			rc = list(l, left ? words[0] : NULL, json != NULL, &err);
	}
	mu_map_clear(&l->user);
	mu_map_clear(&l->account);
	if (rc)
		cli_error(c, "%s", err.text);
	return rc != 0;
}
