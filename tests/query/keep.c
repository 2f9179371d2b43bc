/* tests/query/keep.c: retention over the real core. Two archives of one log let history go by the same rules,
 * one of them always behind and now and then killed; a third keeps everything and says what the others must
 * still answer: what was kept verifies, replays to the same State, shows each moment since the cut and each
 * record since its horizon, and no script is gone that a job of State names. */
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/pb.h"
#include "proto/states.h"
#include "query/history.h"
#include "query/keep.h"
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

enum { EVENTS_SEC = 1200, JOBS_SEC = 900, SCRIPTS_SEC = 600, SCRIPTS = 150, JOBS_MAX = 4096 };
static const char rules[] =
    "MusterKeepEvents=0-00:20:00\nPurgeJobAfter=0-00:15:00\nMusterKeepScripts=0-00:10:00\n"
    "BlobRetention=0-00:10:00\nPurgeStepAfter=0-00:12:00\nMusterKeepCheckpoints=0-00:05:00\n"
    "PurgeEventAfter=0-00:10:00\nPurgeResvAfter=0-00:10:00\nPurgeTXNAfter=0-00:10:00\n";
static char base[] = "/tmp/muster-keep-XXXXXX";

/* The stand-in for a signature: the statement's hash, twice. */
static void sign(void *arg, uint64_t pos, const struct mu_hash *statement, uint8_t ret[KEEP_SIGN_BYTES])
{
	(void)arg;
	(void)pos;
	memcpy(ret, statement->b, MU_HASH_BYTES);
	memcpy(ret + MU_HASH_BYTES, statement->b, MU_HASH_BYTES);
}

static void apply(struct view *v, const struct real *r, uint64_t upto)
{
	while (view_pos(v) < upto) {
		struct view_entry batch[16];
		size_t n = 0;
		for (uint64_t p = view_pos(v); p < upto && n < 16; p++)
			batch[n++] = r->log.v[p].e;
		OK(view_apply(v, batch, n, &err));
	}
}

static struct keep_round keep(struct view *v, bool all)
{
	struct keep_round round;

	do
		OK(view_keep(v, sign, NULL, &round, &err));
	while (all && round.more);
	return round;
}

static void script_text(unsigned n, char out[64])
{
	snprintf(out, 64, "#!/bin/sh\necho script %u\n", n);
}

static int64_t sent_usec[SCRIPTS];

static void act(struct real *r, struct mu_seed *g)
{
	uint32_t job = r->last_job ? r->last_job - mu_seed_below(g, r->last_job < 20 ? r->last_job : 20) : 0;
	char text[64];
	unsigned n;
	bool send;

	switch (mu_seed_below(g, 10)) {
	case 0:
	case 1:
	case 2:
		/* As a leader does: what was committed within a quarter of the span is not sent again. */
		n = mu_seed_below(g, SCRIPTS);
		script_text(n, text);
		send = r->now_usec - sent_usec[n] > SCRIPTS_SEC * 250000ll;
		real_script(r, text, send);
		if (send)
			sent_usec[n] = r->now_usec;
		break;
	case 3:
		real_kill(r, job);
		break;
	case 4:
		real_requeue(r, job);
		break;
	case 5:
		real_tick(r, 1 + mu_seed_below(g, 60));
		break;
	case 6:
		real_decide(r);
		break;
	case 7:
		real_steps(r, job, mu_seed_below(g, 3), JOB_COMPLETED);
		break;
	default:
		real_end(r, job, mu_seed_below(g, 3) ? 0 : 3);
		break;
	}
}

/* ---- what must be true ---- */

static int named(void *arg, const struct sch_key *key, const uint8_t *row, size_t len)
{
	struct mu_buf bytes = {0};
	struct mu_arena arena = {0};
	const Mu__JobRow *job = (const Mu__JobRow *)mu_pb_unpack(&mu__job_row__descriptor, row, len, &arena);

	(void)key;
	CHECK(job);
	if (job->spec && job->spec->script_hash.len)
		OK(view_blob_get(arg, job->spec->script_hash.data, &bytes, &err));
	mu_buf_free(&bytes);
	mu_arena_free(&arena);
	return 0;
}

/* The jobs whose records the answer has, by their ends; of jobs that live: none. */
struct records {
	int64_t end[JOBS_MAX];
	unsigned steps[JOBS_MAX];
};
static void read_records(struct view *v, struct records *ret, Mu__Rows *ret_rows)
{
	const struct query_caller root = {.operator= true };
	Mu__Query q = MU__QUERY__INIT;
	struct mu_arena arena = {0};

	memset(ret, 0, sizeof *ret);
	q.what = MU__WHAT__WHAT_ACCT;
	q.has_from_usec = 1;
	q.from_usec = 1;
	OK(query_rows(v, &q, &root, &arena, ret_rows, &err));
	CHECK(!ret_rows->has_next_key);
	for (size_t i = 0; i < ret_rows->n_row; i++) {
		const Mu__HistRow *h = (const Mu__HistRow *)mu_pb_unpack(
		    &mu__hist_row__descriptor, ret_rows->row[i].data, ret_rows->row[i].len, &arena);
		CHECK(h && h->job && h->job->id < JOBS_MAX);
		if (!mu_job_state_ended(h->job->state))
			continue;
		ret->end[h->job->id] = h->job->end_usec;
		ret->steps[h->job->id] = (unsigned)h->n_step;
	}
	mu_arena_free(&arena);
}

static void check_records(struct view *kept, struct view *full, int64_t now, uint64_t *ret_gone)
{
	static struct records a, b;
	Mu__Rows some, all;

	read_records(kept, &a, &some);
	read_records(full, &b, &all);
	CHECK(!all.kept_from_usec);
	for (unsigned id = 1; id < JOBS_MAX; id++) {
		bool old = b.end[id] < now - JOBS_SEC * 1000000ll;
		if (b.end[id] && !old) {
			CHECK(a.end[id] == b.end[id]);
			if (b.end[id] >= now - 720 * 1000000ll)
				CHECK(a.steps[id] == b.steps[id]);
			else
				CHECK(a.steps[id] == 0);
		}
		if (b.end[id] && old) {
			CHECK(!a.end[id]);
			CHECK(some.kept_from_usec > b.end[id]);
			++*ret_gone;
		}
	}
}

static void check_moments(struct view *kept, struct view *full, struct mu_seed *g)
{
	uint64_t first = view_archive_first(kept), last = view_pos(kept);

	for (int i = 0; i < 6; i++) {
		struct sch_state *a = NULL, *b = NULL;
		uint64_t pos = 1 + mu_seed_below(g, (uint32_t)last);
		struct mu_hash x, y;
		int code = view_state_at(kept, pos, &a, NULL);
		if (pos + 1 < first) {
			CHECK(code == MU_ENOENT);
			continue;
		}
		CHECK(code == 0);
		OK(view_state_at(full, pos, &b, &err));
		sch_digest(a, &x);
		sch_digest(b, &y);
		CHECK(memcmp(x.b, y.b, sizeof x.b) == 0);
		sch_state_free(a);
		sch_state_free(b);
	}
}

static void check_kept(struct view *v, const struct real *r)
{
	struct mu_arena arena = {0};
	struct hist_replay replay;
	struct mu_hash digest, chain;
	struct mu_hash statement;
	uint64_t bad = 0;
	Mu__Cut *cut;

	view_tip(v, &chain, &digest, NULL);
	OK(view_verify(v, 0, 0, &bad, &err));
	OK(hist_replay(v, 0, 0, NULL, NULL, &replay, &bad, &err));
	CHECK(replay.last == view_pos(v) && replay.first == view_archive_first(v));
	CHECK(memcmp(replay.digest.b, digest.b, sizeof digest.b) == 0);
	CHECK(memcmp(replay.chain.b, chain.b, sizeof chain.b) == 0);
	if (view_cut(v, &arena, &cut, NULL) == 0) {
		CHECK(cut->pos + 1 == view_archive_first(v));
		CHECK(memcmp(cut->chain.data, r->log.v[cut->pos - 1].e.chain.b, MU_HASH_BYTES) == 0);
		mu_cut_hash(cut, &statement);
		CHECK(memcmp(cut->signature.data, statement.b, MU_HASH_BYTES) == 0);
		CHECK(strcmp(cut->rule, "MusterKeepEvents=00:20:00") == 0);
	}
	mu_arena_free(&arena);
}

/* ---- a round with the process killed in it ---- */

static void killed_round(const char *dir, const struct real *r, struct mu_seed *g)
{
	struct view *v;
	pid_t child = fork();

	assert(child >= 0);
	if (child == 0) {
		struct keep_round round;
		if (view_open(dir, false, &v, NULL))
			_exit(1);
		for (uint64_t pos = view_pos(v); pos < r->log.count; pos++) {
			if (view_apply(v, &r->log.v[pos].e, 1, NULL) ||
			    view_keep(v, sign, NULL, &round, NULL))
				_exit(1);
		}
		_exit(0);
	}
	usleep(mu_seed_below(g, 30000));
	kill(child, SIGKILL);
	int status = 0;
	waitpid(child, &status, 0);
	CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
}

static struct view *open_in(const char *name, char *dir)
{
	struct view *v;

	snprintf(dir, 128, "%s/%s", base, name);
	fake_remove_dir(dir);
	OK(view_open(dir, false, &v, &err));
	return v;
}

/* ---- a controller that comes new to archives that were cut ---- */

static void switch_to(struct view *v, const struct real *r, uint64_t pos)
{
	struct sch_state *st = sch_state_new();
	struct sch_changes changes = {0};
	struct sch_verdict verdict;

	for (uint64_t p = 1; p <= pos; p++) {
		const struct view_entry *e = &r->log.v[p - 1].e;
		struct sch_at at = {.pos = p, .time_usec = e->time_usec};
		for (size_t i = 0; i < e->part_count; i++) {
			if (e->parts[i].kind != 1)
				continue;
			OK(sch_evolve(st, &at, e->parts[i].bytes.data, e->parts[i].bytes.len, &verdict,
				      &changes, &err));
			at.n++;
		}
		sch_entry_done(st, p, e->time_usec, &changes);
		sch_changes_reset(&changes);
	}
	OK(view_switch(v, st, &r->log.v[pos - 1].e.chain, &err));
	sch_changes_free(&changes);
	sch_state_free(st);
}

static void fetch_base(struct view *to, struct view *from, struct mu_seed *g)
{
	struct mu_buf cursor = {0}, page = {0};
	struct view_image *im;
	uint64_t pos;
	bool more = true;

	OK(view_image_open(from, &im, &pos, &err));
	while (more) {
		mu_buf_reset(&page);
		OK(view_base_read(im, &cursor, 1 + mu_seed_below(g, 60000), &page, &more, &err));
		OK(view_base_take(to, (struct mu_view){page.data, page.len}, &err));
	}
	view_image_close(im);
	OK(view_base_done(to, &err));
	mu_buf_free(&cursor);
	mu_buf_free(&page);
}

/* From a snapshot at SNAPSHOT, what lies below the cut of FROM, and entries from there on. */
static void newcomer(struct view *from, struct view *full, const struct real *r, uint64_t snapshot,
		     struct mu_seed *g)
{
	char dir[128];
	struct view *v = open_in("new", dir);
	uint64_t next, gone = 0;

	switch_to(v, r, snapshot);
	apply(v, r, r->log.count);
	CHECK(view_backfill_next(v) == 1);
	fetch_base(v, from, g);
	next = view_backfill_next(v);
	CHECK(next == (snapshot < view_archive_first(from) ? 0 : view_archive_first(from)));
	while ((next = view_backfill_next(v))) {
		struct mu_buf raw = {0};
		struct mu_hash chain;
		OK(view_entry_get(from, next, &raw, &chain, &err));
		OK(view_backfill(v, next, (struct mu_view){raw.data, raw.len}, &chain, &err));
		mu_buf_free(&raw);
		if (mu_seed_below(g, 100) == 0) {
			view_close(v);
			OK(view_open(dir, false, &v, &err));
		}
	}
	CHECK(view_archive_first(v) == view_archive_first(from));
	check_kept(v, r);
	check_moments(v, full, g);
	CHECK(sch_rows(r->log.st, SCH_ROW_JOB, named, v) == 0);
	keep(v, true);
	check_kept(v, r);
	check_records(v, full, r->log.v[r->log.count - 1].e.time_usec, &gone);
	CHECK(sch_rows(r->log.st, SCH_ROW_JOB, named, v) == 0);
	view_close(v);
	fake_remove_dir(dir);
}

static void one(uint64_t seed, size_t count)
{
	char dirs[3][128];
	struct view *leader, *behind, *full;
	struct mu_seed g;
	struct real r;
	uint64_t gone = 0;

	seed_now = seed;
	memset(sent_usec, 0, sizeof sent_usec);
	mu_seed_init(&g, seed);
	real_open_with(&r, 3, 8, 300, rules);
	leader = open_in("leader", dirs[0]);
	behind = open_in("behind", dirs[1]);
	full = open_in("full", dirs[2]);
	while (r.log.count < count) {
		act(&r, &g);
		apply(leader, &r, r.log.count);
		if (mu_seed_below(&g, 15) == 0)
			keep(leader, mu_seed_below(&g, 2));
		if (mu_seed_below(&g, 40) == 0) {
			apply(behind, &r,
			      view_pos(behind) +
				  mu_seed_below(&g, (uint32_t)(r.log.count - view_pos(behind) + 1)));
			keep(behind, true);
		}
		if (mu_seed_below(&g, 300) == 0) {
			view_close(behind);
			killed_round(dirs[1], &r, &g);
			OK(view_open(dirs[1], false, &behind, &err));
			check_kept(behind, &r);
		}
		CHECK(sch_rows(r.log.st, SCH_ROW_JOB, named, leader) == 0);
	}
	apply(behind, &r, r.log.count);
	apply(full, &r, r.log.count);
	keep(leader, true);
	keep(behind, true);
	CHECK(sch_rows(r.log.st, SCH_ROW_JOB, named, behind) == 0);
	check_kept(leader, &r);
	check_kept(behind, &r);
	check_moments(leader, full, &g);
	check_records(leader, full, r.log.v[r.log.count - 1].e.time_usec, &gone);
	CHECK(view_archive_first(leader) > 1 && gone > 0);
	uint64_t first = view_archive_first(leader);
	newcomer(leader, full, &r, first + mu_seed_below(&g, (uint32_t)(r.log.count - first)), &g);
	newcomer(leader, full, &r, first - 1, &g);
	newcomer(leader, full, &r, 1 + mu_seed_below(&g, (uint32_t)first - 2), &g);
	struct view_stats stats;
	view_stats(leader, &stats);
	CHECK(stats.dropped_blobs > 0 && stats.dropped_jobs > 0);
	view_close(leader);
	view_close(behind);
	view_close(full);
	for (int i = 0; i < 3; i++)
		fake_remove_dir(dirs[i]);
	real_close(&r);
}

int main(int argc, char **argv)
{
	const char *size = getenv("MUSTER_TEST_SIZE");
	unsigned seeds = size && !strcmp(size, "full") ? 60 : size && !strcmp(size, "ci") ? 4 : 1;
	uint64_t first = 1;

	if (argc > 1) {
		first = strtoull(argv[1], NULL, 10);
		seeds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
	}
	assert(mkdtemp(base));
	for (unsigned i = 0; i < seeds; i++)
		one(first + i, 1200);
	fake_remove_dir(base);
	printf("%u seeds passed\n", seeds);
	return 0;
}
