/* tests/bench/view.c: what the view costs: entries applied, 10,000 jobs listed, past moments read. Figures,
 * no verdicts. view-bench [DIR [ENTRIES [JOBS]]] */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/map.h"
#include "proto/pb.h"
#include "proto/states.h"
#include "query/rows.h"
#include "tests/query/fake.h"

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void ok(int code, const struct mu_err *err)
{
	if (code) {
		fprintf(stderr, "%d: %s\n", code, err->text);
		exit(1);
	}
}

/* A waiting job as sbatch makes it: about 700 bytes. */
static void job_row(uint32_t id, uint32_t state, struct mu_buf *out)
{
	Mu__JobRow row = MU__JOB_ROW__INIT;
	Mu__JobSpec spec = MU__JOB_SPEC__INIT;
	uint8_t hash[32];

	for (int i = 0; i < 32; i++)
		hash[i] = (uint8_t)(id * 131 + (uint32_t)i * 17);
	spec.name = "train-resnet";
	char *partition[1] = {"gpu"};
	spec.n_partition = 1;
	spec.partition = partition;
	ProtobufCBinaryData b = {32, hash}, command = {26, (uint8_t *)"/home/ann/train/submit.sh "},
			    dir = {15, (uint8_t *)"/home/ann/train"};
	spec.has_script_hash = spec.has_env_hash = spec.has_command = spec.has_work_dir = 1;
	spec.script_hash = spec.env_hash = b;
	spec.command = command;
	spec.work_dir = dir;
	spec.submit_line =
	    "sbatch --partition=gpu --gres=gpu:a100:2 --time=1-00:00:00 --mem=64G submit.sh --epochs 100";
	spec.submit_host = "login1.cluster.example.org";
	row.spec = &spec;
#define SET(field, value) (row.has_##field = 1, row.field = (value))
	SET(id, id);
	SET(uid, 1000 + id % 50);
	SET(gid, 1000);
	row.user = "ann";
	row.group = "users";
	SET(state, state);
	SET(reason, 2);
	SET(priority, 1000 + id);
	row.partition = "gpu";
	row.account = "physics";
	row.qos = "normal";
	SET(time_limit_sec, 86400);
	SET(nodes_min, 1);
	SET(ntasks, 1);
	SET(cpus_total, 8);
	SET(mem_node_mib, 65536);
	SET(submit_usec, 1700000000000000 + id);
	SET(eligible_usec, 1700000000000000 + id);
	SET(submit_pos, id);
	SET(job_key, b);
	if (state != JOB_PENDING) {
		SET(attempt, 1);
		SET(start_usec, 1700000000500000 + id);
		row.node_list = "n[1-4]";
	}
	if (mu_job_state_ended(state))
		SET(end_usec, 1700000001000000 + id);
	mu_pb_pack(&row.base, out);
}

static void add_entry(struct fake_log *log, uint32_t first, uint32_t count, uint32_t state)
{
	struct view_part parts[64];
	struct mu_buf event[64] = {{0}}, row = {0};

	for (uint32_t i = 0; i < count; i++) {
		mu_buf_reset(&row);
		job_row(first + i, state, &row);
		fake_event(&event[i], SCH_ROW_JOB, row.data, row.len, NULL);
		parts[i] = (struct view_part){1, {event[i].data, event[i].len}};
	}
	fake_log_add(log, 1700000000000000 + (int64_t)log->count * 10000, parts, count);
	for (uint32_t i = 0; i < count; i++)
		mu_buf_free(&event[i]);
	mu_buf_free(&row);
}

static void apply(struct view *v, const struct fake_log *log, size_t from, size_t to, const char *what)
{
	struct mu_err err = {0};
	double t = now_ms(), worst = 0;
	size_t rows = 0;

	for (size_t p = from; p < to; p++) {
		double one = now_ms();
		ok(view_apply(v, &log->v[p].e, 1, &err), &err);
		rows += log->v[p].e.row_count;
		one = now_ms() - one;
		if (one > worst)
			worst = one;
	}
	t = now_ms() - t;
	printf("%-52s %8.0f entries/s %8.0f rows/s, worst entry %.1f ms\n", what,
	       (double)(to - from) / t * 1e3, (double)rows / t * 1e3, worst);
}

static void ask(struct view *v, Mu__Query *q, const char *what)
{
	struct query_caller root = {.operator= true };
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	Mu__Rows rows;
	double best = 1e9;
	size_t count = 0, bytes = 0;

	for (int i = 0; i < 10; i++) {
		double t = now_ms();
		count = bytes = 0;
		q->has_after_key = 0;
		do {
			ok(query_rows(v, q, &root, &arena, &rows, &err), &err);
			count += rows.n_row;
			for (size_t k = 0; k < rows.n_row; k++)
				bytes += rows.row[k].len;
			q->has_after_key = rows.has_next_key;
			if (rows.has_next_key) {
				q->after_key.len = rows.next_key.len;
				q->after_key.data =
				    mu_arena_dup(&arena, rows.next_key.data, rows.next_key.len);
			}
		} while (rows.has_next_key);
		t = now_ms() - t;
		if (t < best)
			best = t;
		mu_arena_free(&arena);
	}
	printf("%-52s %8.2f ms, %zu rows, %zu bytes\n", what, best, count, bytes);
}

static void past(struct view *v, const struct fake_log *log)
{
	struct mu_err err = {0};
	struct mu_seed g;
	double sum = 0, worst = 0;

	mu_seed_init(&g, 3);
	for (int i = 0; i < 50; i++) {
		struct sch_state *st;
		double t = now_ms();
		ok(view_state_at(v, 1 + mu_seed_below(&g, (uint32_t)log->count), &st, &err), &err);
		t = now_ms() - t;
		sum += t;
		if (t > worst)
			worst = t;
		sch_state_free(st);
	}
	printf("%-52s %8.1f ms mean, %.1f ms worst\n", "State at 50 random positions", sum / 50, worst);
}

int main(int argc, char **argv)
{
	char temporary[] = "/tmp/muster-view-bench-XXXXXX";
	const char *dir = argc > 1 ? argv[1] : mkdtemp(temporary);
	size_t entries = argc > 2 ? strtoul(argv[2], NULL, 10) : 20000;
	uint32_t jobs = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 10000;
	struct mu_err err = {0};
	struct fake_log log;
	struct view *v;
	struct view_stats stats;
	uint64_t bad;

	assert(dir);
	fake_log_init(&log, 1);
	for (uint32_t i = 0; i < jobs; i += 20)
		add_entry(&log, 1 + i, 20, JOB_PENDING);
	size_t submitted = log.count;
	for (size_t i = 0; i < entries; i++) {
		static const uint32_t states[3] = {JOB_PENDING, JOB_RUNNING, JOB_COMPLETED};
		add_entry(&log, 1 + (uint32_t)((i * 2) % (jobs - 2)), 2, states[i * 2 / (jobs - 2) % 3]);
	}
	ok(view_open(dir, false, &v, &err), &err);
	apply(v, &log, 0, submitted, "20 submissions in each entry");
	apply(v, &log, submitted, log.count, "2 job rows in each entry, a third of them ends");
	view_stats(v, &stats);
	printf("checkpoints: %llu deltas, %llu full, %llu rows; disk %.1f MB, memory %.1f MB\n",
	       (unsigned long long)stats.checkpoint_deltas, (unsigned long long)stats.checkpoint_fulls,
	       (unsigned long long)stats.checkpoint_rows, (double)stats.disk_bytes / 1e6,
	       (double)stats.memory_bytes / 1e6);

	Mu__Query q = MU__QUERY__INIT;
	q.has_what = 1;
	q.what = MU__WHAT__WHAT_JOBS;
	ask(v, &q, "all jobs");
	q.has_slim = q.slim = 1;
	ask(v, &q, "all jobs, slim");
	uint32_t uid = 1003;
	q.uid = &uid;
	q.n_uid = 1;
	ask(v, &q, "jobs of one of 50 users");
	q.n_uid = 0;
	char text[32];
	snprintf(text, sizeof text, "@%zu", log.count / 2);
	q.at = text;
	ask(v, &q, "all jobs at a past moment (State kept)");
	q.at = NULL;
	q.what = MU__WHAT__WHAT_ACCT;
	ask(v, &q, "accounts of all jobs");
	past(v, &log);
	double t = now_ms();
	ok(view_verify(v, 0, 0, &bad, &err), &err);
	printf("%-52s %8.0f entries/s\n", "chain verified", (double)log.count / (now_ms() - t) * 1e3);
	t = now_ms();
	view_close(v);
	ok(view_open(dir, false, &v, &err), &err);
	struct sch_state *st;
	double opened = now_ms() - t;
	t = now_ms();
	ok(view_load_state(v, &st, &err), &err);
	printf("%-52s %8.1f ms, State loaded in %.1f ms\n", "closed and opened", opened, now_ms() - t);
	sch_state_free(st);
	view_close(v);
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	printf("most memory %ld MB (the log in memory included); directory %s\n", usage.ru_maxrss / 1024,
	       dir);
	fake_log_done(&log);
	return 0;
}
