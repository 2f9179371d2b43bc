/* tests/query/fake_lives.c: events of the fake State, made by hand or drawn from a seed with the lives of
 * jobs in them. */
#include "tests/query/fake.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/map.h"
#include "proto/pb.h"
#include "proto/rows.pb-c.h"
#include "proto/states.h"

void fake_event(struct mu_buf *event, uint8_t kind, const void *row, size_t len, const struct sch_key *gone)
{
	uint8_t *p = mu_buf_grow(event, gone ? 3u + gone->len : 6);

	p[0] = gone != NULL;
	p[1] = kind;
	if (gone) {
		p[2] = gone->len;
		memcpy(p + 3, gone->bytes, gone->len);
		return;
	}
	mu_put_be32(p + 2, (uint32_t)len);
	mu_buf_add(event, row, len);
}

static Mu__JobRow *job_get(struct fake_log *log, uint32_t id, struct mu_arena *arena)
{
	struct sch_key key = {.kind = SCH_ROW_JOB, .len = 4};
	MU_CLEANUP(mu_buf_free) struct mu_buf row = {0};

	mu_put_be32(key.bytes, id);
	if (sch_row_pack(log->st, &key, &row))
		return NULL;
	return (Mu__JobRow *)mu_pb_unpack(&mu__job_row__descriptor, row.data, row.len, arena);
}

static void put_row(struct mu_buf *event, uint8_t kind, const ProtobufCMessage *row)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf bytes = {0};

	mu_pb_pack(row, &bytes);
	fake_event(event, kind, bytes.data, bytes.len, NULL);
}

#define SET(row, field, value) ((row)->has_##field = 1, (row)->field = (value))

static void submit(struct fake_log *log, struct mu_buf *event, struct mu_arena *arena, int64_t now)
{
	static char *const users[4] = {"ann", "bob", "cyn", "dan"};
	static char *const accounts[2] = {"physics", "bio"};
	Mu__JobRow row = MU__JOB_ROW__INIT;
	Mu__JobSpec spec = MU__JOB_SPEC__INIT;
	uint32_t user = mu_seed_below(&log->seed, 4);
	uint8_t secret[32];

	memset(secret, 'K', sizeof secret);
	spec.name = mu_arena_printf(arena, "job%u", mu_seed_below(&log->seed, 10));
	spec.submit_line = "sbatch something long enough";
	SET(&row, id, ++log->jobs);
	row.spec = &spec;
	SET(&row, uid, 1000 + user);
	row.user = users[user];
	row.account = accounts[mu_seed_below(&log->seed, 2)];
	row.partition = mu_seed_below(&log->seed, 2) ? "debug" : "long";
	SET(&row, submit_usec, now);
	SET(&row, job_key, ((ProtobufCBinaryData){32, secret}));
	put_row(event, SCH_ROW_JOB, &row.base);
}

static void step(struct mu_buf *event, uint32_t job, uint32_t attempt, uint32_t number, uint32_t state,
		 int64_t now)
{
	Mu__StepRow row = MU__STEP_ROW__INIT;

	SET(&row, job, job);
	SET(&row, attempt, attempt);
	SET(&row, step, number);
	SET(&row, state, state);
	SET(&row, start_usec, now);
	row.name = "batch";
	put_row(event, SCH_ROW_STEP, &row.base);
}

/* The steps of a job that leaves State leave with it. */
struct purge {
	struct mu_buf *event;
	uint32_t job;
};
static int purge_step(void *arg, const struct sch_key *key, const uint8_t *row, size_t len)
{
	struct purge *p = arg;

	if (mu_get_be32(key->bytes) == p->job)
		fake_event(p->event, SCH_ROW_STEP, NULL, 0, key);
	return 0;
}

/* One step in the life of one job: start, end, requeue, late step, purge. */
static void advance(struct fake_log *log, struct mu_buf *event, struct mu_arena *arena, int64_t now)
{
	uint32_t id = 1 + mu_seed_below(&log->seed, log->jobs), dice = mu_seed_below(&log->seed, 10);
	Mu__JobRow *row = job_get(log, id, arena);

	if (!row)
		return;
	if (row->state == JOB_PENDING) {
		if (dice == 0) {
			SET(row, state, JOB_CANCELLED);
			SET(row, end_usec, now);
			SET(row, end_pos, log->count + 1);
		} else {
			SET(row, state, JOB_RUNNING);
			SET(row, attempt, row->attempt + 1);
			SET(row, start_usec, now);
			row->node_list = "n[1-2]";
		}
	} else if (row->state == JOB_RUNNING) {
		if (dice == 0) {
			SET(row, state, JOB_PENDING);
			SET(row, restarts, row->restarts + 1);
			row->start_usec = row->has_start_usec = 0; /* end and nodes stay until the next run */
		} else if (dice < 4) {
			step(event, id, row->attempt, dice, JOB_RUNNING, now);
		} else {
			SET(row, state, dice < 8 ? JOB_COMPLETED : JOB_FAILED);
			SET(row, end_usec, now);
			SET(row, end_pos, log->count + 1);
			step(event, id, row->attempt, MU_STEP_BATCH, row->state, now);
		}
	} else if (dice < 3) {
		step(event, id, row->attempt, 7, JOB_COMPLETED, now); /* told of late */
	} else if (dice < 6) {
		struct sch_key key = {.kind = SCH_ROW_JOB, .len = 4};
		mu_put_be32(key.bytes, id);
		sch_rows(log->st, SCH_ROW_STEP, purge_step, &(struct purge){event, id});
		fake_event(event, SCH_ROW_JOB, NULL, 0, &key);
		return;
	}
	put_row(event, SCH_ROW_JOB, &row->base);
}

void fake_log_grow(struct fake_log *log, size_t count)
{
	while (log->count < count) {
		struct mu_arena arena = {0};
		struct mu_buf event[64] = {{0}};
		struct view_part parts[65];
		/* Several entries may bear the same time. */
		int64_t now = 1700000000000000 + (int64_t)(log->count / 3) * 1000000;
		size_t n = mu_seed_below(&log->seed, log->events_each + 1);
		char blob[64];
		/* Events are drawn from the State before the entry, so only one of them may concern a job
		 * that exists. */
		for (size_t i = 0; i < n; i++) {
			if (i > 0 || log->jobs < 4 || mu_seed_below(&log->seed, 5) == 0)
				submit(log, &event[i], &arena, now);
			else
				advance(log, &event[i], &arena, now);
			parts[i] = (struct view_part){1, {event[i].data, event[i].len}};
		}
		if (mu_seed_below(&log->seed, 8) == 0) {
			int len = snprintf(blob, sizeof blob, "#!/bin/sh\necho %u\n",
					   mu_seed_below(&log->seed, 20));
			parts[n++] = (struct view_part){2, {(const uint8_t *)blob, (size_t)len}};
		}
		fake_log_add(log, now, parts, n);
		for (size_t i = 0; i < 64; i++)
			mu_buf_free(&event[i]);
		mu_arena_free(&arena);
	}
}
