/* tests/query/view_real.c: the real core beneath the view: what squeue showed is what it shows at that moment
 * later, accounts have every job once (and every run with duplicates), replay reaches the digest, a State
 * loaded from rows goes on as the one that wrote them. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/pb.h"
#include "proto/states.h"
#include "query/history.h"
#include "query/rows.h"
#include "tests/query/real.h"

static uint64_t seed_now;

#define CHECK(condition)                                                                                  \
	do {                                                                                              \
		if (!(condition)) {                                                                       \
			fprintf(stderr, "seed %llu: %s:%d: %s\n", (unsigned long long)seed_now, __FILE__, \
				__LINE__, #condition);                                                    \
			exit(1);                                                                          \
		}                                                                                         \
	} while (0)
#define OK(call)                                                                                       \
	do {                                                                                           \
		struct mu_err err = {0};                                                               \
		int code_ = (call);                                                                    \
		if (code_) {                                                                           \
			fprintf(stderr, "seed %llu: %s:%d: %s: %d %s\n", (unsigned long long)seed_now, \
				__FILE__, __LINE__, #call, code_, err.text);                           \
			exit(1);                                                                       \
		}                                                                                      \
	} while (0)

enum { SEEN_MAX = 100 };
static struct seen {
	uint64_t pos;
	struct mu_hash what[4];
} seen[SEEN_MAX];
static size_t seen_count;

static const Mu__What kinds[4] = {MU__WHAT__WHAT_JOBS, MU__WHAT__WHAT_NODES, MU__WHAT__WHAT_STEPS,
				  MU__WHAT__WHAT_ACCT};

/* One hash over an answer's rows. Accounts are put in order first: pages come from history and from the
 * living. */
static int compare_rows(const void *a, const void *b)
{
	const ProtobufCBinaryData *x = a, *y = b;
	int order = memcmp(x->data, y->data, x->len < y->len ? x->len : y->len);

	return order ? order : (x->len > y->len) - (x->len < y->len);
}

static void ask(struct view *v, Mu__What what, const char *at, uint64_t *ret_pos, struct mu_hash *ret)
{
	const struct query_caller root = {.operator= true };
	Mu__Query q = MU__QUERY__INIT;
	struct mu_arena arena = {0};
	struct mu_hasher h;
	Mu__Rows rows;

	q.what = what;
	q.at = (char *)at;
	q.has_duplicates = q.duplicates = 1;
	OK(query_rows(v, &q, &root, &arena, &rows, &err));
	CHECK(!rows.has_next_key);
	if (rows.n_row)
		qsort(rows.row, rows.n_row, sizeof *rows.row, compare_rows);
	mu_hasher_init(&h);
	for (size_t i = 0; i < rows.n_row; i++) {
		CHECK(!memmem(rows.row[i].data, rows.row[i].len, "SECRET", 6));
		mu_hasher_add(&h, rows.row[i].data, rows.row[i].len);
	}
	mu_hasher_done(&h, ret);
	*ret_pos = rows.pos;
	mu_arena_free(&arena);
}

static void look(struct view *v)
{
	if (seen_count == SEEN_MAX)
		return;
	struct seen *s = &seen[seen_count++];
	for (int i = 0; i < 4; i++)
		ask(v, kinds[i], NULL, &s->pos, &s->what[i]);
}

static void look_again(struct view *v)
{
	for (size_t i = 0; i < seen_count; i++) {
		char at[32];
		snprintf(at, sizeof at, "@%llu", (unsigned long long)seen[i].pos);
		for (int k = 0; k < 4; k++) {
			struct mu_hash now;
			uint64_t pos;
			ask(v, kinds[k], at, &pos, &now);
			CHECK(pos == seen[i].pos);
			if (memcmp(now.b, seen[i].what[k].b, 32) != 0) {
				fprintf(stderr, "seed %llu: kind %d at %s is not what was shown then\n",
					(unsigned long long)seed_now, (int)kinds[k], at);
				exit(1);
			}
		}
	}
}

/* Every job once without duplicates; with them a job has one more record than restarts that followed a run.
 */
static void check_accounts(struct view *v, const struct real *r)
{
	const struct query_caller root = {.operator= true };
	uint8_t *times = calloc(r->last_job + 1, 1);
	Mu__Query q = MU__QUERY__INIT;
	struct mu_arena arena = {0};
	Mu__Rows rows;

	assert(times);
	q.what = MU__WHAT__WHAT_ACCT;
	q.page_bytes = 5000;
	do {
		OK(query_rows(v, &q, &root, &arena, &rows, &err));
		for (size_t i = 0; i < rows.n_row; i++) {
			Mu__HistRow *h = (void *)mu_pb_unpack(&mu__hist_row__descriptor, rows.row[i].data,
							      rows.row[i].len, &arena);
			CHECK(h && h->job && h->job->id >= 1 && h->job->id <= r->last_job);
			times[h->job->id]++;
			if (mu_job_state_ended(h->job->state)) {
				CHECK(h->job->end_usec > 0 && h->job->end_pos > 0);
				CHECK(h->job->state == JOB_CANCELLED || h->n_step >= 1);
			}
		}
		q.has_after_key = rows.has_next_key;
		q.after_key = rows.next_key;
	} while (rows.has_next_key);
	for (uint32_t id = 1; id <= r->last_job; id++)
		CHECK(times[id] == 1);
	free(times);
	mu_arena_free(&arena);
}

static void apply(struct view *v, const struct real *r)
{
	while (view_pos(v) < r->log.count) {
		struct view_entry batch[16];
		size_t n = 0;
		for (uint64_t p = view_pos(v); p < r->log.count && n < 16; p++)
			batch[n++] = r->log.v[p].e;
		OK(view_apply(v, batch, n, &err));
	}
}

static void act(struct real *r, struct mu_seed *g)
{
	uint32_t job = r->last_job ? r->last_job - mu_seed_below(g, r->last_job < 40 ? r->last_job : 40) : 0;

	switch (mu_seed_below(g, 12)) {
	case 0:
	case 1:
	case 2:
		real_submit(r, 1 + mu_seed_below(g, 3), 1 + mu_seed_below(g, 4), 1 + mu_seed_below(g, 3),
			    mu_seed_below(g, 10) == 0);
		break;
	case 3:
		real_kill(r, job);
		break;
	case 4:
		real_requeue(r, job);
		break;
	case 5:
		real_steps(r, job, mu_seed_below(g, 3), mu_seed_below(g, 2) ? JOB_RUNNING : JOB_COMPLETED);
		break;
	case 6:
		real_tick(r, 1 + mu_seed_below(g, 120));
		break;
	case 7:
	case 8:
		real_decide(r);
		break;
	default:
		real_end(r, job, mu_seed_below(g, 3) ? 0 : 3);
		break;
	}
}

static void check_loaded(struct view *v, const struct real *r)
{
	struct mu_hash a, b;
	struct sch_state *st;

	OK(view_load_state(v, &st, &err));
	sch_digest(st, &a);
	sch_digest(r->log.st, &b);
	CHECK(memcmp(a.b, b.b, 32) == 0);
	sch_state_free(st);
}

static void one(uint64_t seed, const char *dir, size_t entries)
{
	struct real r;
	struct mu_seed g;
	struct view *v;
	struct hist_replay replay;
	uint64_t bad = 0;

	seed_now = seed;
	seen_count = 0;
	mu_seed_init(&g, seed);
	real_open(&r, 3, 8, 300);
	fake_remove_dir(dir);
	OK(view_open(dir, false, &v, &err));
	for (size_t next = 20; r.log.count < entries;) {
		act(&r, &g);
		if (r.log.count >= next) {
			apply(v, &r);
			look(v);
			next += entries / 30 + mu_seed_below(&g, 5);
		}
		if (mu_seed_below(&g, 400) == 0) {
			apply(v, &r);
			view_close(v);
			OK(view_open(dir, false, &v, &err));
			check_loaded(v, &r);
		}
	}
	apply(v, &r);
	check_accounts(v, &r);
	look_again(v);
	OK(hist_replay(v, 0, 0, NULL, NULL, &replay, &bad, &err));
	CHECK(replay.last == r.log.count && replay.digests_checked == r.log.count);
	for (int i = 0; i < 10; i++) {
		struct sch_state *st;
		uint64_t pos = 1 + mu_seed_below(&g, (uint32_t)r.log.count);
		OK(view_state_at(v, pos, &st, &err));
		sch_state_free(st);
	}
	view_close(v);
	fake_remove_dir(dir);
	real_close(&r);
}

int main(int argc, char **argv)
{
	const char *size = getenv("MUSTER_TEST_SIZE");
	unsigned seeds = size && !strcmp(size, "full") ? 200 : size && !strcmp(size, "ci") ? 20 : 2;
	uint64_t first = 1;
	char dir[] = "/tmp/muster-real-XXXXXX";

	if (argc > 1) {
		first = strtoull(argv[1], NULL, 10);
		seeds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
	}
	assert(mkdtemp(dir));
	for (unsigned i = 0; i < seeds; i++)
		one(first + i, dir, 1000);
	fake_remove_dir(dir);
	printf("%u seeds passed\n", seeds);
	return 0;
}
