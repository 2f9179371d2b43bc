/* tests/query/rows.c: what a query answers, as tables over one small cluster; errors; dump and replay; a full
 * disk. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/map.h"
#include "proto/pb.h"
#include "proto/states.h"
#include "query/history.h"
#include "query/rows.h"
#include "tests/query/fake.h"

#define SET(row, field, value) ((row)->has_##field = 1, (row)->field = (value))
#define OK(call)                                                             \
	do {                                                                 \
		struct mu_err err = {0};                                     \
		int code_ = (call);                                          \
		cr_assert_eq(code_, 0, "%s: %d %s", #call, code_, err.text); \
	} while (0)

static char dir[] = "/tmp/muster-rows-XXXXXX";
static struct fake_log history;
static struct view *v;
static struct mu_arena arena;
enum { SECOND = 1000000 };
static const int64_t T0 = 1700000000000000;
static uint64_t before_end; /* position at which job 3 was running */

static void row_event(struct mu_buf *event, uint8_t kind, const ProtobufCMessage *row)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf bytes = {0};

	mu_pb_pack(row, &bytes);
	fake_event(event, kind, bytes.data, bytes.len, NULL);
}

static void entry(struct mu_buf *event, int64_t sec)
{
	struct view_part part = {1, {event->data, event->len}};

	fake_log_add(&history, T0 + sec * SECOND, &part, 1);
	mu_buf_reset(event);
}

/* Life of the jobs below, one line each: who, where, when (seconds behind T0; 0: not yet). */
static const struct made {
	uint32_t id, uid;
	const char *user, *partition, *account, *name, *nodes;
	uint32_t state, attempt;
	int64_t submit, start, end;
} jobs[] = {
    {1, 1001, "ann", "debug", "physics", "a", NULL, JOB_PENDING, 0, 100, 0, 0},
    {2, 1002, "bob", "debug", "bio", "b", "n[1-2]", JOB_RUNNING, 1, 110, 200, 0},
    {3, 1001, "ann", "long", "physics", "c", "n3", JOB_COMPLETED, 1, 120, 130, 300},
    {4, 1003, "cyn", "long", "bio", "d", NULL, JOB_CANCELLED, 0, 130, 0, 400},
    {5, 1001, "ann", "long", "physics", "a", "n[2-3]", JOB_FAILED, 1, 140, 150, 500},
};

static void put_job(struct mu_buf *event, const struct made *m, uint32_t state)
{
	Mu__JobRow row = MU__JOB_ROW__INIT;
	Mu__JobSpec spec = MU__JOB_SPEC__INIT;
	ProtobufCBinaryData argv[1] = {{4, (uint8_t *)"word"}};
	char *partition[2] = {"debug", "spare"};

	spec.name = (char *)m->name;
	spec.submit_line = "sbatch with many words";
	spec.n_argv = 1;
	spec.argv = argv;
	spec.n_partition = 2;
	spec.partition = partition;
	row.spec = &spec;
	SET(&row, id, m->id);
	SET(&row, uid, m->uid);
	row.user = (char *)m->user;
	row.partition = (char *)m->partition;
	row.account = (char *)m->account;
	row.qos = "normal";
	SET(&row, state, state);
	SET(&row, submit_usec, T0 + m->submit * SECOND);
	SET(&row, job_key, ((ProtobufCBinaryData){32, (uint8_t *)"SECRETSECRETSECRETSECRETSECRET!!"}));
	SET(&row, preempt_usec, 7); /* a field behind the secret */
	if (state != JOB_PENDING && m->start) {
		SET(&row, attempt, m->attempt);
		SET(&row, start_usec, T0 + m->start * SECOND);
		row.node_list = (char *)m->nodes;
	}
	if (mu_job_state_ended(state))
		SET(&row, end_usec, T0 + m->end * SECOND);
	row_event(event, SCH_ROW_JOB, &row.base);
}

static void put_step(struct mu_buf *event, uint32_t job, uint32_t number, uint32_t state, const char *nodes)
{
	Mu__StepRow row = MU__STEP_ROW__INIT;

	SET(&row, job, job);
	SET(&row, attempt, 1);
	SET(&row, step, number);
	SET(&row, state, state);
	row.node_list = (char *)nodes;
	row_event(event, SCH_ROW_STEP, &row.base);
}

static void put_cluster(struct mu_buf *event, const char *private_data)
{
	Mu__ConfigRow config = MU__CONFIG_ROW__INIT;
	Mu__Config conf = MU__CONFIG__INIT;
	Mu__KeyValue key = MU__KEY_VALUE__INIT, *keys[1] = {&key};
	char *members[2] = {"n1", "n2"};

	for (int i = 1; i <= 3; i++) {
		Mu__NodeRow node = MU__NODE_ROW__INIT;
		node.name = mu_arena_printf(&arena, "n%d", i);
		row_event(event, SCH_ROW_NODE, &node.base);
	}
	for (int i = 0; i < 2; i++) {
		Mu__PartitionRow partition = MU__PARTITION_ROW__INIT;
		Mu__PartitionConf part = MU__PARTITION_CONF__INIT;
		part.name = i ? "long" : "debug";
		part.node = i ? members + 1 : members;
		part.n_node = i ? 1 : 2;
		partition.conf = &part;
		row_event(event, SCH_ROW_PARTITION, &partition.base);
	}
	key.key = "PrivateData";
	key.value = (char *)private_data;
	conf.key = keys;
	conf.n_key = 1;
	config.config = &conf;
	row_event(event, SCH_ROW_CONFIG, &config.base);
	Mu__NodeKeyRow secret = MU__NODE_KEY_ROW__INIT;
	secret.node = "n1";
	row_event(event, SCH_ROW_NODE_KEY, &secret.base);
}

static void apply_all(void)
{
	for (size_t i = view_pos(v); i < history.count; i++)
		OK(view_apply(v, &history.v[i].e, 1, &err));
}

static void setup(void)
{
	struct mu_buf event = {0};

	cr_assert(mkdtemp(dir));
	fake_log_init(&history, 1);
	OK(view_open(dir, false, &v, &err));
	put_cluster(&event, "none");
	entry(&event, 10);
	for (size_t i = 0; i < 5; i++) {
		put_job(&event, &jobs[i], JOB_PENDING);
		entry(&event, jobs[i].submit);
	}
	put_job(&event, &jobs[2], JOB_RUNNING);
	put_step(&event, 3, 0, JOB_RUNNING, "n3");
	entry(&event, 160);
	before_end = history.count;
	for (size_t i = 1; i < 5; i++) {
		put_job(&event, &jobs[i], jobs[i].state);
		entry(&event, jobs[i].state == JOB_RUNNING ? 200 : jobs[i].end);
	}
	put_step(&event, 2, 0, JOB_RUNNING, "n1");
	put_step(&event, 2, MU_STEP_BATCH, JOB_RUNNING, "n2");
	put_step(&event, 3, MU_STEP_BATCH, JOB_COMPLETED, "n3");
	entry(&event, 600);
	/* Job 5 leaves State. */
	struct sch_key key = {.kind = SCH_ROW_JOB, .len = 4};
	mu_put_be32(key.bytes, 5);
	fake_event(&event, SCH_ROW_JOB, NULL, 0, &key);
	entry(&event, 700);
	apply_all();
	mu_buf_free(&event);
}

static void teardown(void)
{
	view_close(v);
	fake_log_done(&history);
	mu_arena_free(&arena);
	fake_remove_dir(dir);
}

/* The rows of an answer as "1 2 3/0": ids of jobs, names, steps, accounts with their steps counted. */
static const char *answer(Mu__Query *q, const struct query_caller *caller)
{

	struct mu_buf out = {0};
	Mu__Rows rows;
	int code = query_rows(v, q, caller, &arena, &rows, NULL);

	if (code)
		return mu_errname(code);
	for (size_t i = 0; i < rows.n_row; i++) {
		ProtobufCBinaryData *r = &rows.row[i];
		if (i)
			mu_buf_str(&out, " ");
		cr_assert_null(memmem(r->data, r->len, "SECRET", 6), "a secret leaves the view");
		if (q->what == MU__WHAT__WHAT_JOBS) {
			Mu__JobRow *job =
			    (void *)mu_pb_unpack(&mu__job_row__descriptor, r->data, r->len, &arena);
			cr_assert(job && job->preempt_usec == 7);
			mu_buf_printf(&out, "%u", job->id);
		} else if (q->what == MU__WHAT__WHAT_STEPS) {
			Mu__StepRow *step =
			    (void *)mu_pb_unpack(&mu__step_row__descriptor, r->data, r->len, &arena);
			mu_buf_printf(&out, "%u.%d", step->job, (int)step->step);
		} else if (q->what == MU__WHAT__WHAT_NODES) {
			mu_buf_str(&out, ((Mu__NodeRow *)mu_pb_unpack(&mu__node_row__descriptor, r->data,
								      r->len, &arena))
					     ->name);
		} else if (q->what == MU__WHAT__WHAT_PARTITIONS) {
			Mu__PartitionRow *p =
			    (void *)mu_pb_unpack(&mu__partition_row__descriptor, r->data, r->len, &arena);
			mu_buf_str(&out, p->conf->name);
		} else if (q->what == MU__WHAT__WHAT_ACCT) {
			Mu__HistRow *h =
			    (void *)mu_pb_unpack(&mu__hist_row__descriptor, r->data, r->len, &arena);
			mu_buf_printf(&out, "%u/%zu%s", h->job->id, h->n_step,
				      mu_job_state_compact(h->job->state));
		} else {
			mu_buf_printf(&out, "row");
		}
	}
	const char *text = mu_arena_strdup(&arena, out.data ? (char *)out.data : "");
	mu_buf_free(&out);
	return text;
}

static const struct query_caller root = {0, true, "root"}, ann = {1001, false, "ann"};

static uint32_t N[8][4] = {{1}, {2}, {3}, {1, 3, 9}, {99}, {1001}, {JOB_RUNNING}, {JOB_PENDING}};
static char *W[][2] = {{"ann"},	  {"long"}, {"physics"}, {"a"},	   {"n[2-3]"}, {"bio"},
		       {"spare"}, {"n2"},   {"debug"},	 {"high"}, {"nobody"}};
static char at_running[16];
#define NUM(field, i, n) .n_##field = n, .field = N[i]
#define TXT(field, i) .n_##field = 1, .field = W[i]

static const struct {
	const char *what, *want;
	Mu__Query q;
} cases[] = {
    {"all", "1 2 3 4", {.what = 1}},
    {"by id, unknown ones among them", "1 3", {.what = 1, NUM(job, 3, 3)}},
    {"a lone unknown id", "EJOBID", {.what = 1, NUM(job, 4, 1)}},
    {"an id that left State", "EJOBID", {.what = 1, .n_job = 1, .job = (uint32_t[]){5}}},
    {"user", "1 3", {.what = 1, TXT(user, 0)}},
    {"uid", "1 3", {.what = 1, NUM(uid, 5, 1)}},
    {"an unknown user", "", {.what = 1, TXT(user, 10)}},
    {"partition", "1 3 4", {.what = 1, .n_partition = 2, .partition = (char *[]){"long", "spare"}}},
    {"a waiting job in any it named", "1", {.what = 1, TXT(partition, 6)}},
    {"account", "1 3", {.what = 1, TXT(account, 2)}},
    {"qos", "", {.what = 1, TXT(qos, 9)}},
    {"name", "1", {.what = 1, TXT(name, 3)}},
    {"state", "2", {.what = 1, NUM(state, 6, 1)}},
    {"nodes by host list", "2 3", {.what = 1, TXT(node, 4)}},
    {"filters combine", "1", {.what = 1, TXT(user, 0), NUM(state, 7, 1)}},
    {"a bad host list", "ESYNTAX", {.what = 1, .n_node = 1, .node = (char *[]){"n[1-"}}},
    {"steps", "2.0 2.-5 3.0 3.-5", {.what = 2}},
    {"steps of a job", "2.0 2.-5", {.what = 2, NUM(job, 1, 1)}},
    {"steps of a user", "3.0 3.-5", {.what = 2, TXT(user, 0)}},
    {"steps on a node", "2.-5", {.what = 2, TXT(node, 7)}},
    {"steps by state", "2.0 2.-5 3.0", {.what = 2, NUM(state, 6, 1)}},
    {"nodes", "n1 n2 n3", {.what = 3}},
    {"nodes by name", "n2 n3", {.what = 3, TXT(node, 4)}},
    {"nodes of a partition", "n1 n2", {.what = 3, TXT(partition, 8)}},
    {"nodes of both", "n2", {.what = 3, TXT(partition, 8), TXT(node, 4)}},
    {"partitions", "debug long", {.what = 4}},
    {"partition by name", "long", {.what = 4, TXT(partition, 1)}},
    {"configuration", "row", {.what = 5}},
    {"cluster", "row", {.what = 6}},
    {"keys", "row", {.what = 8}},
    {"an unknown kind", "EINVAL", {.what = 77}},
    {"accounts", "3/2CD 4/0CA 5/0F 1/0PD 2/2R", {.what = 7}},
    {"accounts of one job", "5/0F", {.what = 7, .n_job = 1, .job = (uint32_t[]){5}}},
    {"accounts of an unknown job", "", {.what = 7, NUM(job, 4, 1)}},
    {"accounts of a user", "3/2CD 5/0F 1/0PD", {.what = 7, TXT(user, 0)}},
    {"accounts of an account", "4/0CA 2/2R", {.what = 7, TXT(account, 5)}},
    {"ended within",
     "3/2CD 4/0CA",
     {.what = 7,
      .n_state = 2,
      .state = (uint32_t[]){JOB_COMPLETED, JOB_CANCELLED},
      .from_usec = 1,
      .to_usec = T0 + 450 * SECOND}},
    {"touched the window",
     "4/0CA 5/0F 1/0PD 2/2R",
     {.what = 7, .from_usec = T0 + 350 * SECOND, .to_usec = T0 + 450 * SECOND}},
    {"over before the window", "1/0PD 2/2R", {.what = 7, .from_usec = T0 + 650 * SECOND}},
    {"not yet born in the window",
     "3/2CD 1/0PD 2/2R",
     {.what = 7, .from_usec = T0, .to_usec = T0 + 125 * SECOND}},
    {"running in the window",
     "3/2CD 5/0F",
     {.what = 7, NUM(state, 6, 1), .from_usec = T0, .to_usec = T0 + 160 * SECOND}},
    {"waiting in the window",
     "4/0CA 5/0F 1/0PD 2/2R",
     {.what = 7, NUM(state, 7, 1), .from_usec = T0 + 135 * SECOND, .to_usec = T0 + 160 * SECOND}},
    {"now in a state", "1/0PD", {.what = 7, NUM(state, 7, 1)}},
    {"before a job ended", "1 2 3 4 5", {.what = 1, .at = at_running}},
    {"by state at that moment", "3", {.what = 1, NUM(state, 6, 1), .at = at_running}},
    {"steps at that moment", "3.0", {.what = 2, .at = at_running}},
    {"accounts at that moment", "1/0PD 2/0PD 3/1R 4/0PD 5/0PD", {.what = 7, .at = at_running}},
    {"by time", "1 2", {.what = 1, .at = "=1700000115000000"}},
    {"before the first entry", "ENOENT", {.what = 1, .at = "=1600000000000000"}},
    {"position 0", "ENOENT", {.what = 1, .at = "@0"}},
    {"in the future", "EINVAL", {.what = 1, .at = "@1000"}},
    {"no moment", "EINVAL", {.what = 1, .at = "yesterday"}},
    {"a number and more", "EINVAL", {.what = 1, .at = "@5x"}},
};

Test(rows, answers, .init = setup, .fini = teardown)
{
	snprintf(at_running, sizeof at_running, "@%llu", (unsigned long long)before_end);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		Mu__Query q = cases[i].q;
		q.base.descriptor = &mu__query__descriptor;
		const char *got = answer(&q, &root);
		cr_expect_str_eq(got, cases[i].want, "%s: \"%s\" instead of \"%s\"", cases[i].what, got,
				 cases[i].want);
	}
	/* A page of one row each gives the same. */
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct mu_buf all = {0};
		Mu__Query q = cases[i].q;
		Mu__Rows rows;
		if (cases[i].want[0] == 'E' || cases[i].want[0] == 0)
			continue;
		unsigned pages = 0, words = 1;
		for (const char *p = cases[i].want; *p; p++)
			words += *p == ' ';
		q.page_bytes = 1;
		do {
			cr_assert_eq(query_rows(v, &q, &root, &arena, &rows, NULL), 0);
			cr_expect(rows.n_row == 1 || (rows.n_row == 0 && !rows.has_next_key),
				  "%s: a page of %zu rows", cases[i].what, rows.n_row);
			pages += (unsigned)rows.n_row;
			q.has_after_key = rows.has_next_key;
			q.after_key = rows.next_key;
		} while (rows.has_next_key && pages < 100);
		cr_expect_eq(pages, words, "%s: %u rows in pages instead of %u", cases[i].what, pages, words);
		mu_buf_free(&all);
	}
}

Test(rows, privacy_and_slim, .init = setup, .fini = teardown)
{
	Mu__Query all = MU__QUERY__INIT, acct = MU__QUERY__INIT, keys = MU__QUERY__INIT,
		  nodes = MU__QUERY__INIT;
	struct mu_buf event = {0};
	Mu__Rows rows;

	all.what = MU__WHAT__WHAT_JOBS;
	acct.what = MU__WHAT__WHAT_ACCT;
	keys.what = MU__WHAT__WHAT_KEYS;
	nodes.what = MU__WHAT__WHAT_NODES;
	cr_expect_str_eq(answer(&all, &ann), "1 2 3 4");
	cr_expect_str_eq(answer(&keys, &ann), "EPERM");
	cr_expect_str_eq(answer(&nodes, &ann), "n1 n2 n3");
	put_cluster(&event, "jobs,nodes");
	entry(&event, 800);
	apply_all();
	cr_expect_str_eq(answer(&all, &ann), "1 3");
	cr_expect_str_eq(answer(&all, &root), "1 2 3 4");
	cr_expect_str_eq(answer(&acct, &ann), "3/2CD 5/0F 1/0PD");
	cr_expect_str_eq(answer(&nodes, &ann), "");
	/* The present rules hold for the past, and after a restart. */
	snprintf(at_running, sizeof at_running, "@%llu", (unsigned long long)before_end);
	all.at = at_running;
	cr_expect_str_eq(answer(&all, &ann), "1 3 5");
	view_close(v);
	OK(view_open(dir, false, &v, &err));
	all.at = NULL;
	cr_expect_str_eq(answer(&all, &ann), "1 3");

	all.slim = acct.slim = 1;
	cr_assert_eq(query_rows(v, &all, &root, &arena, &rows, NULL), 0);
	Mu__JobRow *job =
	    (void *)mu_pb_unpack(&mu__job_row__descriptor, rows.row[0].data, rows.row[0].len, &arena);
	cr_assert(job && job->spec);
	cr_expect_null(job->spec->submit_line);
	cr_expect_eq(job->spec->n_argv, 0);
	cr_expect_str_eq(job->spec->name, "a");
	cr_expect_eq(job->spec->n_partition, 2);
	cr_assert_eq(query_rows(v, &acct, &root, &arena, &rows, NULL), 0);
	Mu__HistRow *record =
	    (void *)mu_pb_unpack(&mu__hist_row__descriptor, rows.row[0].data, rows.row[0].len, &arena);
	cr_assert(record && record->job->spec);
	cr_expect_null(record->job->spec->submit_line);
	cr_expect_eq(record->n_step, 2);
	mu_buf_free(&event);
}

/* ---- dump, replay ---- */

static int keep_line(void *arg, const char *text, size_t len)
{
	mu_buf_add(arg, text, len);
	return 0;
}

Test(history, dump_and_replay, .init = setup, .fini = teardown)
{
	struct hist_replay r;
	uint64_t bad = 0;
	struct mu_buf out = {0}, packed = {0}, raw = {0};

	OK(hist_replay(v, 0, 0, NULL, NULL, &r, &bad, &err));
	cr_expect_eq(r.first, 1);
	cr_expect_eq(r.last, view_pos(v));
	cr_expect_eq(r.digests_checked, view_pos(v));
	cr_expect_eq(memcmp(r.digest.b, history.v[history.count - 1].e.digest.b, 32), 0);
	cr_expect_eq(memcmp(r.chain.b, history.v[history.count - 1].e.chain.b, 32), 0);
	OK(hist_replay(v, before_end, before_end + 2, NULL, NULL, &r, &bad, &err));
	cr_expect_eq(r.last, before_end + 2);

	/* One entry of known content, in both forms. */
	Mu__Event event = MU__EVENT__INIT;
	Mu__Author author = MU__AUTHOR__INIT;
	Mu__Submitted submitted = MU__SUBMITTED__INIT;
	Mu__JobSpec spec = MU__JOB_SPEC__INIT;
	SET(&author, uid, 1000);
	author.user = "ann";
	spec.name = "say \"hi\"\n";
	SET(&spec, time_limit_sec, -1);
	SET(&spec, work_dir, ((ProtobufCBinaryData){5, (uint8_t *)"/home"}));
	SET(&spec, script_hash, ((ProtobufCBinaryData){3, (uint8_t *)"\x01\xff\x02"}));
	submitted.spec = &spec;
	SET(&submitted, job_key, ((ProtobufCBinaryData){3, (uint8_t *)"key"}));
	event.author = &author;
	event.kind_case = MU__EVENT__KIND_SUBMITTED;
	event.submitted = &submitted;
	mu_pb_pack(&event.base, &packed);
	struct fake_log one;
	fake_log_init(&one, 1);
	struct view_part parts[3] = {{2, {(const uint8_t *)"#!/bin/sh\n", 10}},
				     {2, {packed.data, packed.len}},
				     {2, {(const uint8_t *)"\xff\xff", 2}}};
	fake_log_add(&one, T0 + 1500000, parts, 3);
	/* The fake State folds no real events: they went in as blobs and become events here. */
	mu_buf_add(&raw, one.v[0].raw.data, one.v[0].raw.len);
	raw.data[32 + 8 + 10 + 4] = 1;
	raw.data[32 + 8 + 10 + 8 + packed.len + 4] = 1;
	OK(dump_entry(12, (struct mu_view){raw.data, raw.len}, false, keep_line, &out, &err));
	char hex[65];
	struct mu_hash hash;
	mu_hash_bytes("#!/bin/sh\n", 10, &hash);
	mu_hash_print(&hash, hex);
	char *want = mu_arena_printf(&arena,
				     "@12.0 2023-11-14T22:13:21.500000Z blob hash=%s bytes=10\n"
				     "@12.1 2023-11-14T22:13:21.500000Z submitted {author={uid=1000 "
				     "user=\"ann\"} submitted={spec={name=\"say "
				     "\\\"hi\\\"\\u000a\" time_limit_sec=-1 script_hash=\"01ff02\" "
				     "work_dir=\"/home\"} job_key=\"(hidden)\"}}\n"
				     "@12.2 2023-11-14T22:13:21.500000Z unreadable \"ffff\"\n",
				     hex);
	cr_expect_str_eq((char *)out.data, want);
	mu_buf_reset(&out);
	OK(dump_entry(12, (struct mu_view){raw.data, raw.len}, true, keep_line, &out, &err));
	want =
	    mu_arena_printf(&arena,
			    "{\"pos\":12,\"n\":0,\"time_usec\":1700000001500000,\"kind\":\"blob\",\"hash\":"
			    "\"%s\",\"bytes\":10}\n"
			    "{\"pos\":12,\"n\":1,\"time_usec\":1700000001500000,\"kind\":\"submitted\","
			    "\"event\":{\"author\":{\"uid\":1000,"
			    "\"user\":\"ann\"},\"submitted\":{\"spec\":{\"name\":\"say "
			    "\\\"hi\\\"\\u000a\",\"time_limit_sec\":-1,"
			    "\"script_hash\":\"01ff02\",\"work_dir\":\"/home\"},\"job_key\":\"(hidden)\"}}}\n"
			    "{\"pos\":12,\"n\":2,\"time_usec\":1700000001500000,\"kind\":\"unreadable\","
			    "\"event\":\"ffff\"}\n",
			    hex);
	cr_expect_str_eq((char *)out.data, want);
	mu_buf_reset(&out);
	OK(hist_dump(v, 0, 0, false, keep_line, &out, &err));
	size_t lines = 0;
	for (size_t i = 0; i < out.len; i++)
		lines += out.data[i] == '\n';
	cr_expect_eq(lines, history.count);
	/* Cut short anywhere it is refused, not read behind. */
	for (size_t n = 0; n < raw.len; n++)
		cr_expect_eq(dump_entry(1, (struct mu_view){raw.data, n}, true, keep_line, &out, NULL),
			     MU_EPROTO, "%zu bytes", n);
	cr_expect_eq(hist_dump(v, 1000, 0, false, keep_line, &out, NULL), 0);
	fake_log_done(&one);
	mu_buf_free(&packed);
	mu_buf_free(&raw);
	mu_buf_free(&out);
}

/* ---- refused ---- */

Test(view, refusals, .init = setup, .fini = teardown)
{
	struct mu_err why = {0};
	struct sch_state *st;
	struct view *other;
	struct mu_buf out = {0};
	uint64_t pos;

	struct view_entry e = history.v[history.count - 1].e;
	cr_expect_eq(view_apply(v, &e, 1, &why), 0); /* already there */
	e.pos += 5;
	cr_expect_eq(view_apply(v, &e, 1, &why), MU_EINVAL);
	e.pos -= 4;
	cr_expect_eq(view_apply(v, &e, 1, &why), MU_ECORRUPT); /* the chain does not follow */
	cr_expect_eq(view_pos(v), history.count);
	cr_expect_eq(view_state_at(v, history.count + 1, &st, &why), MU_ENOENT);
	cr_expect_eq(view_entry_get(v, history.count + 1, &out, NULL, &why), MU_ENOENT);
	cr_expect_eq(view_blob_get(v, e.chain.b, &out, &why), MU_ENOENT);
	cr_expect_not(view_wait(v, history.count + 1, 20));
	cr_expect(view_wait(v, history.count, 0));
	cr_expect_eq(view_open(dir, false, &other, &why), MU_EIO); /* held by us */
	OK(view_open(dir, true, &other, &err));
	cr_expect_eq(view_pos(other), history.count);
	cr_expect_eq(view_apply(other, &e, 1, &why), MU_EINVAL);
	view_close(other);
	cr_expect_eq(view_open("/nowhere/at/all", false, &other, &why), MU_EIO);
	cr_expect_eq(view_open("/nowhere/at/all", true, &other, &why), MU_ENOENT);
	OK(view_pos_at(v, T0 + 99 * SECOND, &pos, &err));
	cr_expect_eq(pos, 1);
	OK(view_pos_at(v, T0, &pos, &err));
	cr_expect_eq(pos, 0);
	cr_expect_eq(view_backfill_next(v), 0);
	mu_buf_free(&out);
}

/* Files that cannot grow are what a full disk is: a code, never a crash, and what was written stays readable.
 */
static void fill_disk(const char *where)
{
	struct rlimit limit = {3 << 20, 3 << 20};
	struct fake_log log;
	struct view *full;
	int code = 0;

	sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	setrlimit(RLIMIT_FSIZE, &limit);
	fake_log_init(&log, 7);
	if (view_open(where, false, &full, NULL))
		_exit(3);
	uint8_t *noise = malloc(100000);
	for (int i = 0; i < 200 && code == 0; i++) {
		for (int k = 0; k < 100000; k++)
			noise[k] = (uint8_t)mu_seed_next(&log.seed);
		struct view_part part = {2, {noise, 100000}};
		fake_log_add(&log, T0 + i, &part, 1);
		code = view_apply(full, &log.v[log.count - 1].e, 1, NULL);
	}
	uint64_t pos = view_pos(full), bad;
	bool whole = view_verify(full, 0, 0, &bad, NULL) == 0 && pos > 5;
	_exit(code == MU_EDISKFULL && whole ? 0 : code == MU_EIO && whole ? 0 : 1);
}

Test(view, full_disk)
{
	char where[] = "/tmp/muster-full-XXXXXX";
	int status;

	cr_assert(mkdtemp(where));
	pid_t pid = fork();
	cr_assert(pid >= 0);
	if (pid == 0)
		fill_disk(where);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
	/* With room again it opens and is whole. */
	struct view *again;
	uint64_t bad;
	OK(view_open(where, false, &again, &err));
	cr_expect(view_pos(again) > 5);
	OK(view_verify(again, 0, 0, &bad, &err));
	view_close(again);
	fake_remove_dir(where);
}
