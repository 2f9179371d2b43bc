/* tests/bench/history.c: what past moments cost over the real core: 2,000 jobs that wait held, and a stream
 * of jobs that come, run and end. Figures in CPU time, no verdicts. history-bench [JOBS] */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "query/history.h"
#include "tests/query/real.h"

/* Time of this process's CPU, so that neighbours on the machine do not count. */
static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void ok(int code, const struct mu_err *err)
{
	if (code) {
		fprintf(stderr, "%d: %s\n", code, err->text);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	unsigned jobs = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 10000;
	char dir[] = "/tmp/muster-history-bench-XXXXXX";
	struct mu_err err = {0};
	struct hist_replay replay;
	struct view_stats stats;
	struct mu_seed g;
	struct sch_state *st;
	struct real r;
	struct view *v;
	uint64_t bad;
	size_t rows = 0;

	assert(mkdtemp(dir));
	double t = now_ms();
	real_open(&r, 4, 64, 60000);
	for (int i = 0; i < 100; i++)
		real_submit(&r, 20, 1, 1 + (unsigned)i % 3, true);
	for (unsigned i = 0; i < jobs; i += 20) {
		uint32_t first = r.last_job + 1;
		real_submit(&r, 20, 1, 1 + i % 3, false);
		real_decide(&r);
		for (uint32_t job = first; job <= r.last_job; job++)
			real_end(&r, job, job % 5 == 0);
		real_tick(&r, 10);
	}
	printf("%zu entries made and folded in %.0f ms\n", r.log.count, now_ms() - t);
	ok(view_open(dir, false, &v, &err), &err);
	t = now_ms();
	for (size_t p = 0; p < r.log.count; p++) {
		ok(view_apply(v, &r.log.v[p].e, 1, &err), &err);
		rows += r.log.v[p].e.row_count;
	}
	t = now_ms() - t;
	printf("applied one by one: %.0f entries/s, %.0f rows/s\n", (double)r.log.count / t * 1e3,
	       (double)rows / t * 1e3);
	view_stats(v, &stats);
	printf("checkpoints: %llu deltas, %llu full, %llu rows of %zu written\n",
	       (unsigned long long)stats.checkpoint_deltas, (unsigned long long)stats.checkpoint_fulls,
	       (unsigned long long)stats.checkpoint_rows, rows);
	double sum = 0, worst = 0;
	mu_seed_init(&g, 3);
	for (int i = 0; i < 50; i++) {
		t = now_ms();
		ok(view_state_at(v, 1 + mu_seed_below(&g, (uint32_t)r.log.count), &st, &err), &err);
		t = now_ms() - t;
		sum += t;
		worst = t > worst ? t : worst;
		sch_state_free(st);
	}
	printf("State at 50 random positions: %.1f ms mean, %.1f ms worst\n", sum / 50, worst);
	t = now_ms();
	ok(view_load_state(v, &st, &err), &err);
	printf("State loaded in %.1f ms\n", now_ms() - t);
	sch_state_free(st);
	t = now_ms();
	ok(hist_replay(v, 0, 0, NULL, NULL, &replay, &bad, &err), &err);
	t = now_ms() - t;
	printf("replay: %llu entries in %.0f ms, %.0f entries/s\n", (unsigned long long)replay.last, t,
	       (double)replay.last / t * 1e3);
	view_close(v);
	fake_remove_dir(dir);
	real_close(&r);
	return 0;
}
