/* tests/query/view_threads.c: queries of the present and the past beside a writer. Every answer must be that
 * of one position. Plain, so that it also runs under ThreadSanitizer. */
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/map.h"
#include "query/rows.h"
#include "tests/query/fake.h"

static struct view *v;
static struct fake_log history;
static atomic_bool over;

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                        \
		}                                                                       \
	} while (0)

/* The number of job rows after each position, from the entries. */
static size_t *jobs_at;

static void count_jobs(void)
{
	struct mu_map there = {0};

	jobs_at = calloc(history.count + 1, sizeof *jobs_at);
	assert(jobs_at);
	for (size_t p = 0; p < history.count; p++) {
		for (size_t i = 0; i < history.v[p].e.row_count; i++) {
			const struct view_row *row = &history.v[p].e.rows[i];
			if (row->key.kind == SCH_ROW_JOB && row->gone)
				mu_map_del(&there, row->key.bytes, 4);
			else if (row->key.kind == SCH_ROW_JOB)
				mu_map_put(&there, row->key.bytes, 4, &there);
		}
		jobs_at[p + 1] = there.count;
	}
	mu_map_clear(&there);
}

static void *reader(void *arg)
{
	const struct query_caller root = {.operator= true };
	struct mu_seed g;
	uint64_t last = 0;

	mu_seed_init(&g, (uint64_t)(uintptr_t)arg);
	while (!over) {
		struct mu_arena arena = {0};
		Mu__Query q = MU__QUERY__INIT;
		uint64_t pos = view_pos(v);
		char text[32];
		Mu__Rows rows;
		q.what = (uintptr_t)arg == 3 ? MU__WHAT__WHAT_ACCT : MU__WHAT__WHAT_JOBS;
		if ((uintptr_t)arg == 2 && pos) {
			snprintf(text, sizeof text, "@%llu",
				 (unsigned long long)(1 + mu_seed_below(&g, (uint32_t)pos)));
			q.at = text;
		}
		CHECK(query_rows(v, &q, &root, &arena, &rows, NULL) == 0);
		if (q.what == MU__WHAT__WHAT_JOBS)
			CHECK(rows.n_row == jobs_at[rows.pos]);
		if (!q.at) {
			CHECK(rows.pos >= pos && rows.pos >= last);
			last = rows.pos;
		}
		view_wait(v, pos + 1, 5);
		mu_arena_free(&arena);
	}
	return NULL;
}

int main(void)
{
	char dir[] = "/tmp/muster-threads-XXXXXX";
	pthread_t thread[4];
	struct mu_err err = {0};

	assert(mkdtemp(dir));
	fake_log_init(&history, 11);
	fake_log_grow(&history, 6000);
	count_jobs();
	CHECK(view_open(dir, false, &v, &err) == 0);
	for (uintptr_t i = 0; i < 4; i++)
		CHECK(pthread_create(&thread[i], NULL, reader, (void *)(i + 1)) == 0);
	for (size_t i = 0; i < history.count;) {
		struct view_entry batch[4];
		size_t n = 0;
		while (n < 4 && i < history.count)
			batch[n++] = history.v[i++].e;
		CHECK(view_apply(v, batch, n, &err) == 0);
		if (i % 1000 == 0)
			CHECK(view_sync(v, &err) == 0);
	}
	over = true;
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	struct view_stats stats;
	view_stats(v, &stats);
	CHECK(stats.entries == history.count && stats.checkpoint_fulls > 0);
	view_close(v);
	fake_remove_dir(dir);
	fake_log_done(&history);
	free(jobs_at);
	printf("passed\n");
	return 0;
}
