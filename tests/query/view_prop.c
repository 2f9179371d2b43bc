/* tests/query/view_prop.c: random lives of jobs written into a view that is killed between and within
 * batches, compared with a model: rows, chain, history, past moments, transfer to another view, damage. A
 * failing run prints its seed. */
#include <assert.h>
#include <rocksdb/c.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/map.h"
#include "proto/pb.h"
#include "proto/states.h"
#include "query/rows.h"
#include "tests/query/fake.h"

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

/* ---- the model: what accounts must say at POS, from the entries alone ---- */

enum { JOBS_MAX = 4096, ATTEMPTS_MAX = 64 };
struct lines {
	char (*v)[48];
	size_t count, cap;
};

static void line_add(struct lines *l, uint32_t job, uint32_t attempt, uint32_t state, unsigned steps)
{
	if (l->count == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 256;
		l->v = realloc(l->v, l->cap * sizeof *l->v);
		assert(l->v);
	}
	snprintf(l->v[l->count++], sizeof *l->v, "%u/%u %s %u", job, attempt, mu_job_state_long(state),
		 steps);
}

static int line_compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

struct run {
	uint32_t state;
	unsigned steps;
	bool there;
};
struct life {
	bool there, started;
	uint32_t state, attempt;
	struct run run[ATTEMPTS_MAX]; /* by record */
	unsigned steps[ATTEMPTS_MAX]; /* by attempt: distinct ones ever told of */
	uint64_t seen[ATTEMPTS_MAX];  /* which */
};

static void model_job(struct life *l, const Mu__JobRow *row)
{
	bool started = row->attempt > 0 && row->start_usec > 0;

	CHECK(row->attempt + 1 < ATTEMPTS_MAX);
	if (l->there && l->started && !started && !mu_job_state_ended(l->state))
		l->run[l->attempt] = (struct run){JOB_REQUEUED, 0, true};
	l->there = true;
	l->started = started;
	l->state = row->state;
	l->attempt = row->attempt;
	if (mu_job_state_ended(row->state))
		l->run[started ? row->attempt : row->attempt + 1] = (struct run){row->state, 0, true};
}

static void model_at(const struct fake_log *log, uint64_t pos, struct lines *ret)
{
	struct life *lives = calloc(JOBS_MAX, sizeof *lives);
	struct mu_arena arena = {0};

	assert(lives);
	for (uint64_t p = 0; p < pos; p++)
		for (size_t i = 0; i < log->v[p].e.row_count; i++) {
			const struct view_row *row = &log->v[p].e.rows[i];
			if (row->key.kind == SCH_ROW_JOB && !row->gone) {
				Mu__JobRow *job = (Mu__JobRow *)mu_pb_unpack(
				    &mu__job_row__descriptor, row->row.data, row->row.len, &arena);
				CHECK(job && job->id < JOBS_MAX);
				model_job(&lives[job->id], job);
			} else if (row->key.kind == SCH_ROW_JOB) {
				lives[mu_get_be32(row->key.bytes)].there = false;
			} else if (row->key.kind == SCH_ROW_STEP && !row->gone) {
				struct life *l = &lives[mu_get_be32(row->key.bytes)];
				uint32_t attempt = mu_get_be32(row->key.bytes + 4),
					 step = mu_get_be32(row->key.bytes + 8);
				uint64_t bit = 1ull << (step == MU_STEP_BATCH ? 63 : step);
				l->steps[attempt] += !(l->seen[attempt] & bit);
				l->seen[attempt] |= bit;
			}
		}
	for (uint32_t id = 1; id < JOBS_MAX; id++) {
		struct life *l = &lives[id];
		for (uint32_t r = 1; r < ATTEMPTS_MAX; r++)
			if (l->run[r].there) {
				/* A job that ended while it waited never had steps in that run. */
				bool ran = l->seen[r] || l->run[r].state != JOB_CANCELLED;
				line_add(ret, id, ran ? r : r - 1, l->run[r].state, ran ? l->steps[r] : 0);
			}
		if (l->there && !mu_job_state_ended(l->state))
			line_add(ret, id, l->attempt, l->state, l->started ? l->steps[l->attempt] : 0);
	}
	qsort(ret->v, ret->count, sizeof *ret->v, line_compare);
	mu_arena_free(&arena);
	free(lives);
}

/* What the view says, page by page. */
static void view_says(struct view *v, uint64_t at, unsigned page_bytes, struct lines *ret)
{
	struct query_caller root = {.operator= true };
	Mu__Query q = MU__QUERY__INIT;
	struct mu_arena arena = {0};
	char text[32];
	Mu__Rows rows;

	snprintf(text, sizeof text, "@%llu", (unsigned long long)at);
	q.has_what = true;
	q.what = MU__WHAT__WHAT_ACCT;
	q.duplicates = q.has_duplicates = true;
	q.at = text;
	q.page_bytes = page_bytes;
	do {
		OK(query_rows(v, &q, &root, &arena, &rows, &err));
		CHECK(rows.pos == at);
		for (size_t i = 0; i < rows.n_row; i++) {
			Mu__HistRow *h = (Mu__HistRow *)mu_pb_unpack(
			    &mu__hist_row__descriptor, rows.row[i].data, rows.row[i].len, &arena);
			CHECK(h && h->job && !h->job->has_job_key);
			line_add(ret, h->job->id, h->job->attempt, h->job->state, (unsigned)h->n_step);
		}
		q.has_after_key = rows.has_next_key;
		q.after_key = rows.next_key;
	} while (rows.has_next_key);
	qsort(ret->v, ret->count, sizeof *ret->v, line_compare);
	mu_arena_free(&arena);
}

static void compare_accounts(const struct fake_log *log, struct view *v, uint64_t pos, unsigned page_bytes)
{
	struct lines model = {0}, said = {0};

	model_at(log, pos, &model);
	view_says(v, pos, page_bytes, &said);
	for (size_t i = 0; i < model.count || i < said.count; i++) {
		const char *want = i < model.count ? model.v[i] : "(end)",
			   *got = i < said.count ? said.v[i] : "(end)";
		if (strcmp(want, got) != 0) {
			fprintf(stderr, "seed %llu: accounts at %llu: \"%s\" wanted, \"%s\" said\n",
				(unsigned long long)seed_now, (unsigned long long)pos, want, got);
			exit(1);
		}
	}
	free(model.v);
	free(said.v);
}

static void same_hash(const struct mu_hash *a, const struct mu_hash *b)
{
	CHECK(memcmp(a->b, b->b, 32) == 0);
}

/* ---- writing and dying ---- */

static void apply_some(const struct fake_log *log, struct view *v, uint64_t to, struct mu_seed *g)
{
	while (view_pos(v) < to) {
		struct view_entry batch[8];
		size_t n = 1 + mu_seed_below(g, 8);
		uint64_t pos = view_pos(v), first = pos > 2 ? pos - mu_seed_below(g, 3) : pos;
		size_t count = 0;
		for (uint64_t p = first; p < to && count < n; p++)
			batch[count++] = log->v[p].e;
		OK(view_apply(v, batch, count, &err));
	}
}

/* A child writes and is killed by a signal that strikes at any instant. */
static void write_and_die(const struct fake_log *log, const char *dir, struct mu_seed *g, bool clean)
{
	unsigned usec = mu_seed_below(g, 60000);
	uint64_t seed = mu_seed_next(g);
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		struct mu_seed child;
		struct view *v;
		mu_seed_init(&child, seed);
		OK(view_open(dir, false, &v, &err));
		uint64_t to = view_pos(v) + 1 + mu_seed_below(&child, (uint32_t)log->count / 4);
		apply_some(log, v, to < log->count ? to : log->count, &child);
		if (clean)
			view_close(v);
		_exit(0);
	}
	if (!clean) {
		usleep(usec);
		kill(pid, SIGKILL);
	}
	int status;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
}

static void check_present(const struct fake_log *log, struct view *v)
{
	uint64_t pos = view_pos(v), bad = 0;
	struct mu_hash chain, digest;
	struct sch_state *st;

	CHECK(pos <= log->count);
	if (pos == 0)
		return;
	OK(view_load_state(v, &st, &err));
	sch_digest(st, &digest);
	same_hash(&digest, &log->v[pos - 1].e.digest);
	sch_state_free(st);
	view_tip(v, &chain, &digest, NULL);
	same_hash(&chain, &log->v[pos - 1].e.chain);
	OK(view_verify(v, 0, 0, &bad, &err));
}

static void check_past(const struct fake_log *log, struct view *v, struct mu_seed *g, unsigned times)
{
	for (unsigned i = 0; i < times && view_pos(v); i++) {
		uint64_t pos = 1 + mu_seed_below(g, (uint32_t)view_pos(v)), found, want = pos;
		struct mu_buf raw = {0};
		struct mu_hash chain, digest;
		struct sch_state *st;
		OK(view_state_at(v, pos, &st, &err));
		sch_digest(st, &digest);
		same_hash(&digest, &log->v[pos - 1].e.digest);
		sch_state_free(st);
		OK(view_entry_get(v, pos, &raw, &chain, &err));
		CHECK(raw.len == log->v[pos - 1].raw.len &&
		      memcmp(raw.data, log->v[pos - 1].raw.data, raw.len) == 0);
		same_hash(&chain, &log->v[pos - 1].e.chain);
		mu_buf_free(&raw);
		while (want < view_pos(v) && log->v[want].e.time_usec == log->v[pos - 1].e.time_usec)
			want++;
		OK(view_pos_at(v, log->v[pos - 1].e.time_usec + 1, &found, &err));
		CHECK(found == want);
	}
}

/* ---- transfer ---- */

/* Everything that accounts are made of, but for the entry that wrote a record last. */
static void history_hash(struct view *v, struct mu_seed *g, struct mu_hash *ret)
{
	struct mu_buf cursor = {0}, page = {0};
	struct mu_hasher h;
	bool more = true;

	mu_hasher_init(&h);
	while (more) {
		mu_buf_reset(&page);
		OK(view_hist_read(v, &cursor, 1 + mu_seed_below(g, 5000), &page, &more, &err));
		for (size_t at = 0; at < page.len;) {
			uint32_t len = mu_get_be32(page.data + at + 8);
			mu_hasher_add(&h, page.data + at, 12 + 8);
			mu_hasher_add(&h, page.data + at + 12 + 16, len - 16);
			at += 12 + len;
		}
	}
	mu_hasher_done(&h, ret);
	mu_buf_free(&cursor);
	mu_buf_free(&page);
}

static void transfer(const struct fake_log *log, struct view *from, const char *dir, struct mu_seed *g)
{
	struct mu_buf cursor = {0}, page = {0}, raw = {0};
	struct sch_state *st = sch_state_new();
	struct view_image *im;
	struct view *to;
	uint64_t pos, next;
	bool more = true;

	fake_remove_dir(dir);
	OK(view_open(dir, false, &to, &err));
	apply_some(log, to, mu_seed_below(g, (uint32_t)view_pos(from)), g);
	OK(view_image_open(from, &im, &pos, &err));
	while (more) {
		mu_buf_reset(&page);
		OK(view_image_read(im, &cursor, 1 + mu_seed_below(g, 4000), &page, &more, &err));
		OK(view_image_feed(st, (struct mu_view){page.data, page.len}, &err));
	}
	view_image_close(im);
	OK(sch_load_done(st, &err));
	OK(view_switch(to, st, &log->v[pos - 1].e.chain, &err));
	sch_state_free(st);
	CHECK(view_pos(to) == pos);
	/* Life goes on while history is filled in, across a restart. */
	uint64_t live = pos + (log->count - pos) / 2, stop = pos / 2;
	apply_some(log, to, live, g);
	while ((next = view_backfill_next(to))) {
		CHECK(next <= pos);
		if (next == stop) {
			view_close(to);
			OK(view_open(dir, false, &to, &err));
			CHECK(view_backfill_next(to) == next);
		}
		mu_buf_reset(&raw);
		struct mu_hash chain;
		OK(view_entry_get(from, next, &raw, &chain, &err));
		if (mu_seed_below(g, 10) == 0) {
			struct mu_hash wrong = chain;
			wrong.b[3] ^= 1;
			CHECK(view_backfill(to, next, (struct mu_view){raw.data, raw.len}, &wrong, NULL) ==
			      MU_ECORRUPT);
		}
		OK(view_backfill(to, next, (struct mu_view){raw.data, raw.len}, &chain, &err));
	}
	apply_some(log, to, log->count, g);
	struct mu_hash mine, theirs;
	apply_some(log, from, log->count, g);
	history_hash(to, g, &mine);
	history_hash(from, g, &theirs);
	same_hash(&mine, &theirs);
	check_present(log, to);
	check_past(log, to, g, 10);
	compare_accounts(log, to, view_pos(to), 0);
	compare_accounts(log, to, 1 + mu_seed_below(g, (uint32_t)pos), 500);
	view_close(to);
	mu_buf_free(&cursor);
	mu_buf_free(&page);
	mu_buf_free(&raw);
}

/* ---- damage ---- */

/* Flips one bit in the value of an archived part or record, below everything that would notice early. */
static uint64_t flip(const char *dir, struct mu_seed *g)
{
	const char *names[8] = {"default", "rows", "hist", "index", "entry", "part", "blob", "ckpt"};
	rocksdb_options_t *o = rocksdb_options_create();
	const rocksdb_options_t *os[8] = {o, o, o, o, o, o, o, o};
	rocksdb_column_family_handle_t *cf[8];
	char *message = NULL;
	rocksdb_t *db = rocksdb_open_column_families(o, dir, 8, names, os, cf, &message);

	CHECK(db && !message);
	rocksdb_readoptions_t *r = rocksdb_readoptions_create();
	rocksdb_writeoptions_t *w = rocksdb_writeoptions_create();
	int family = mu_seed_below(g, 2) ? 4 : 5;
	rocksdb_iterator_t *it = rocksdb_create_iterator_cf(db, r, cf[family]);
	size_t count = 0, key_len, len;
	for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
		rocksdb_iter_value(it, &len);
		count += len > 0; /* an empty event has no byte to flip */
	}
	CHECK(count > 0);
	size_t skip = mu_seed_below(g, (uint32_t)count);
	const char *value = NULL;
	for (rocksdb_iter_seek_to_first(it);; rocksdb_iter_next(it)) {
		value = rocksdb_iter_value(it, &len);
		if (len > 0 && skip-- == 0)
			break;
	}
	const char *key = rocksdb_iter_key(it, &key_len);
	char *copy = malloc(len + 1);
	memcpy(copy, value, len);
	size_t at = mu_seed_below(g, (uint32_t)len);
	/* The digest beside the chain is not part of it. */
	if (family == 4 && at >= 32 && at < 65)
		at = 70;
	copy[at] ^= (char)(1 << mu_seed_below(g, 8));
	uint64_t pos = mu_get_be64((const uint8_t *)key);
	rocksdb_put_cf(db, w, cf[family], key, key_len, copy, len, &message);
	CHECK(!message);
	free(copy);
	rocksdb_iter_destroy(it);
	rocksdb_readoptions_destroy(r);
	rocksdb_writeoptions_destroy(w);
	for (int i = 0; i < 8; i++)
		rocksdb_column_family_handle_destroy(cf[i]);
	rocksdb_close(db);
	rocksdb_options_destroy(o);
	return pos;
}

static void damage(const char *dir, struct mu_seed *g)
{
	uint64_t want = flip(dir, g), bad = 0;
	struct mu_err why = {0};
	struct view *v;

	OK(view_open(dir, true, &v, &err));
	int code = view_verify(v, 0, 0, &bad, &why);
	if (code == 0 || bad != want)
		fprintf(stderr, "flipped at %llu, found %d at %llu: %s\n", (unsigned long long)want, code,
			(unsigned long long)bad, why.text);
	CHECK(code != 0);
	CHECK(bad == want);
	view_close(v);
}

/* A byte of a table file that holds parts of the archive: reading it fails, and the position is named. */
static void damage_file(const char *dir, struct mu_seed *g)
{
	const char *names[8] = {"default", "rows", "hist", "index", "entry", "part", "blob", "ckpt"};
	rocksdb_options_t *o = rocksdb_options_create();
	const rocksdb_options_t *os[8] = {o, o, o, o, o, o, o, o};
	rocksdb_column_family_handle_t *cf[8];
	char *message = NULL, path[512] = "";
	rocksdb_t *db = rocksdb_open_column_families(o, dir, 8, names, os, cf, &message);

	CHECK(db && !message);
	rocksdb_flushoptions_t *f = rocksdb_flushoptions_create();
	rocksdb_flush_cf(db, f, cf[5], &message);
	CHECK(!message);
	const rocksdb_livefiles_t *files = rocksdb_livefiles(db);
	for (int i = 0; i < rocksdb_livefiles_count(files); i++)
		if (!strcmp(rocksdb_livefiles_column_family_name(files, i), "part"))
			snprintf(path, sizeof path, "%s%s", dir, rocksdb_livefiles_name(files, i));
	rocksdb_livefiles_destroy(files);
	rocksdb_flushoptions_destroy(f);
	for (int i = 0; i < 8; i++)
		rocksdb_column_family_handle_destroy(cf[i]);
	rocksdb_close(db);
	rocksdb_options_destroy(o);

	FILE *file = fopen(path, "r+");
	CHECK(file);
	fseek(file, 0, SEEK_END);
	long at = ftell(file) / 4 + (long)mu_seed_below(g, (uint32_t)ftell(file) / 4);
	fseek(file, at, SEEK_SET);
	int byte = fgetc(file);
	fseek(file, at, SEEK_SET);
	fputc(byte ^ 0x10, file);
	CHECK(fclose(file) == 0);

	struct mu_err why = {0};
	uint64_t bad = 0;
	struct view *v;
	OK(view_open(dir, true, &v, &err));
	CHECK(view_verify(v, 0, 0, &bad, &why) == MU_ECORRUPT);
	CHECK(bad >= 1 && bad <= view_pos(v));
	view_close(v);
}

/* ---- one seed ---- */

static void one(uint64_t seed, const char *base)
{
	char dir[300], other[300];
	struct fake_log log;
	struct mu_seed g;
	struct view *v;

	seed_now = seed;
	mu_seed_init(&g, seed ^ 0x5151);
	fake_log_init(&log, seed);
	fake_log_grow(&log, 300 + mu_seed_below(&g, 600));
	snprintf(dir, sizeof dir, "%s/a", base);
	snprintf(other, sizeof other, "%s/b", base);
	fake_remove_dir(dir);
	for (unsigned i = 0; i < 12; i++) {
		write_and_die(&log, dir, &g, mu_seed_below(&g, 3) == 0);
		OK(view_open(dir, false, &v, &err));
		check_present(&log, v);
		check_past(&log, v, &g, 2);
		view_close(v);
	}
	OK(view_open(dir, false, &v, &err));
	apply_some(&log, v, log.count * 3 / 4, &g);
	check_past(&log, v, &g, 20);
	compare_accounts(&log, v, view_pos(v), 0);
	compare_accounts(&log, v, view_pos(v), 300);
	for (int i = 0; i < 6; i++)
		compare_accounts(&log, v, 1 + mu_seed_below(&g, (uint32_t)view_pos(v)), i & 1 ? 700 : 0);
	transfer(&log, v, other, &g);
	view_close(v);
	damage(dir, &g);
	damage_file(other, &g);
	fake_remove_dir(other);
	fake_remove_dir(dir);
	fake_log_done(&log);
}

int main(int argc, char **argv)
{
	const char *size = getenv("MUSTER_TEST_SIZE");
	unsigned seeds = size && !strcmp(size, "full") ? 200 : size && !strcmp(size, "ci") ? 20 : 2;
	uint64_t first = 1;
	char base[] = "/tmp/muster-view-XXXXXX";

	if (argc > 1) {
		first = strtoull(argv[1], NULL, 10);
		seeds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1;
	}
	assert(mkdtemp(base));
	for (unsigned i = 0; i < seeds; i++)
		one(first + i, base);
	fake_remove_dir(base);
	printf("%u seeds passed\n", seeds);
	return 0;
}
