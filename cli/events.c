/* cli/events.c: muster events: what happens, as the log has it, one line each; muster wait: until a job is in
 * a state.
 *
 * A line of JSON has "v":1. Within one version members are only added; a reader passes over those that it
 * does not know, and goes on after a pause with --from @POS of the last line it has seen, plus one. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/dump.h"
#include "cli/filter.h"
#include "cli/life.h"
#include "cli/muster.h"
#include "log/entry.h"
#include "proto/event.pb-c.h"
#include "proto/pb.h"
#include "proto/states.h"

enum { FOLLOW_MSEC = 20000, PAGE_BYTES = 2 << 20, SHAPE = 1, DEPTH_MAX = 8, WAIT_TRIES_SEC = 60 };

struct events {
	struct cli *cli;
	uint64_t from, to;
	int64_t since_usec;
	const char *kinds, *users, *node;
	uint32_t job;
	bool json, follow;
	uint64_t left; /* lines still to be printed; 0: no bound */
	bool bounded;
};

/* ---- filters ---- */

/* Does MESSAGE, or one within it, have a member "job" of this number, or "node" of this name? */
static bool mentions(const ProtobufCMessage *m, uint32_t job, const char *node, int depth)
{
	const ProtobufCMessageDescriptor *d = m->descriptor;

	for (unsigned i = 0; i < d->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &d->fields[i];
		const char *at = (const char *)m + f->offset;
		bool many = f->label == PROTOBUF_C_LABEL_REPEATED;
		if ((f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) &&
		    *(const uint32_t *)((const char *)m + f->quantifier_offset) != f->id)
			continue;
		size_t n = many ? *(const size_t *)((const char *)m + f->quantifier_offset) : 1;
		if (many)
			at = *(const char *const *)at;
		for (size_t k = 0; k < n; k++) {
			if (f->type == PROTOBUF_C_TYPE_UINT32 && job && strcmp(f->name, "job") == 0 &&
			    ((const uint32_t *)at)[k] == job)
				return true;
			if (f->type == PROTOBUF_C_TYPE_STRING && node &&
			    (strcmp(f->name, "node") == 0 || strcmp(f->name, "name") == 0) &&
			    ((char *const *)at)[k] && strcmp(((char *const *)at)[k], node) == 0)
				return true;
			if (f->type == PROTOBUF_C_TYPE_MESSAGE && depth < DEPTH_MAX &&
			    ((ProtobufCMessage *const *)at)[k] &&
			    mentions(((ProtobufCMessage *const *)at)[k], job, node, depth + 1))
				return true;
		}
	}
	return false;
}

static bool wanted(const struct events *v, const Mu__Event *e)
{
	if (v->kinds && !cli_in_list(v->kinds, life_event(e->kind_case)))
		return false;
	if (v->users && (!e->author || !e->author->user || !cli_in_list(v->users, e->author->user)))
		return false;
	return (!v->job && !v->node) || mentions(&e->base, v->job, v->node, 0);
}

/* ---- lines ---- */

/* What is put behind a request that changed nothing; NULL: it did what it says. */
static const Mu__Refusal *refusal_of(const Mu__LogReply *log, uint64_t pos, uint32_t part)
{
	for (size_t i = 0; i < log->n_refusal; i++)
		if (log->refusal[i]->pos == pos && log->refusal[i]->part == part)
			return log->refusal[i];
	return NULL;
}

static void print_event(const struct events *v, uint64_t pos, uint32_t part, int64_t usec, const Mu__Event *e,
			const Mu__Refusal *refusal)
{
	struct mu_buf out MU_CLEANUP(mu_buf_free) = {0};
	char when[32];
	Mu__Event bare = *e;

	bare.author = NULL;
	bare.request = NULL;
	mu_date_print(usec, &cli_zone, when);
	if (v->json) {
		struct cli_json j = {.out = &out};
		json_object(&j, NULL);
		json_number(&j, "v", SHAPE);
		json_number(&j, "pos", (int64_t)pos);
		json_number(&j, "part", part);
		json_number(&j, "time_usec", usec);
		json_text(&j, "kind", life_event(e->kind_case));
		json_text(&j, "user", e->author ? e->author->user : NULL);
		json_text(&j, "host", e->author ? e->author->host : NULL);
		json_text(&j, "by_node", e->author ? e->author->node : NULL);
		if (refusal) {
			json_object(&j, "refused");
			json_number(&j, "code", refusal->code);
			json_text(&j, "text", refusal->text);
			json_object_end(&j);
		}
		cli_dump_json(&j, "event", &bare.base);
		json_object_end(&j);
		for (size_t i = 0; i < out.len; i++)
			out.data[i] = out.data[i] == '\n' ? ' ' : out.data[i];
	} else {
		mu_buf_printf(&out, "@%" PRIu64 ".%u %s.%06d ", pos, part, when, (int)(usec % 1000000));
		if (e->author && e->author->user)
			mu_buf_printf(&out, "%s ", e->author->user);
		if (refusal)
			mu_buf_printf(&out, "(refused: %s) ",
				      refusal->text && *refusal->text ? refusal->text
								      : mu_strerror(refusal->code));
		cli_dump_text(&bare.base, &out);
	}
	mu_buf_str(&out, "\n");
	fwrite(out.data, 1, out.len, stdout);
}

static int take_entry(struct events *v, uint64_t pos, ProtobufCBinaryData raw, const Mu__LogReply *log,
		      struct mu_err *err)
{
	struct log_entry e;
	struct log_part part;
	size_t cursor = 0;

	if (log_entry_parse_kept(raw.data, raw.len, &e))
		return mu_fail(err, MU_ECORRUPT, "The entry at @%" PRIu64 " cannot be read", pos);
	for (uint32_t n = 0; log_entry_next(&e, &cursor, &part) == 1; n++) {
		if (part.kind != LOG_PART_EVENT || e.time_usec < v->since_usec || (v->bounded && !v->left))
			continue;
		const Mu__Event *event = (Mu__Event *)mu_pb_unpack(&mu__event__descriptor, part.bytes.data,
								   part.bytes.len, &v->cli->arena);
		if (!event || !wanted(v, event))
			continue;
		print_event(v, pos, n, e.time_usec, event, refusal_of(log, pos, n));
		v->left -= v->bounded;
	}
	return 0;
}

static int take_page(struct events *v, bool *ret_more, struct mu_err *err)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__LogAsk ask = MU__LOG_ASK__INIT;
	Mu__Reply *reply;

	ask.has_from = ask.has_to = ask.has_max_bytes = ask.has_wait_msec = 1;
	ask.from = v->from;
	ask.to = v->to;
	ask.max_bytes = PAGE_BYTES;
	ask.wait_msec = v->follow ? FOLLOW_MSEC : 0;
	request.ask_case = MU__REQUEST__ASK_LOG;
	request.log = &ask;
	int rc = cli_ask_within(v->cli, &request, FOLLOW_MSEC + 10000, &reply, err);
	if (rc)
		return rc;
	if (reply->code)
		return mu_fail(err, reply->code, "%s", reply->text ? reply->text : mu_strerror(reply->code));
	if (reply->answer_case != MU__REPLY__ANSWER_LOG)
		return mu_fail(err, MU_EPROTO, "A controller answered without entries");
	if (reply->log->n_entry && reply->log->first > v->from)
		v->from = reply->log->first;
	for (size_t i = 0; i < reply->log->n_entry && !rc; i++)
		rc = take_entry(v, v->from++, reply->log->entry[i], reply->log, err);
	*ret_more = reply->log->n_entry > 0 && (!v->to || v->from <= v->to);
	return rc;
}

/* Where the entries of a moment begin: the position that a query of that moment shows. */
static int pos_of(struct cli *c, int64_t usec, uint64_t *ret, struct mu_err *err)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__Query ask = MU__QUERY__INIT;
	Mu__Reply *reply;

	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_CLUSTER;
	ask.at = mu_arena_printf(&c->arena, "=%" PRId64, usec);
	request.ask_case = MU__REQUEST__ASK_QUERY;
	request.query = &ask;
	int rc = cli_ask(c, &request, &reply, err);
	if (rc)
		return rc;
	*ret = reply->code || reply->answer_case != MU__REPLY__ANSWER_ROWS ? 1 : reply->rows->pos;
	return 0;
}

static int end_of(struct cli *c, uint64_t *ret, struct mu_err *err)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__DigestAsk ask = MU__DIGEST_ASK__INIT;
	Mu__Reply *reply;

	request.ask_case = MU__REQUEST__ASK_DIGEST;
	request.digest = &ask;
	int rc = cli_ask_done(c, &request, &reply, err);
	if (!rc)
		*ret = reply->answer_case == MU__REPLY__ANSWER_DIGEST ? reply->digest->pos : 0;
	return rc;
}

static int read_from(struct events *v, const char *from, struct mu_err *err)
{
	char *end;

	if (!from) {
		int rc = v->follow ? end_of(v->cli, &v->from, err) : 0;
		v->from = v->follow ? v->from + 1 : 1;
		return rc;
	}
	if (*from == '@') {
		v->from = strtoull(from + 1, &end, 10);
		return *end || end == from + 1
			   ? mu_fail(err, MU_EINVAL, "\"%s\" is no position such as @120", from)
			   : 0;
	}
	if (mu_date_parse(from, cli_now_usec(), 0, &cli_zone, &v->since_usec, NULL))
		return mu_fail(err, MU_EINVAL, "Invalid time specification: \"%s\" of --from", from);
	return pos_of(v->cli, v->since_usec, &v->from, err);
}

static int run(struct events *v, struct mu_err *err)
{
	struct mu_arena page = {0}, keep;
	bool more = true;
	int rc = 0;

	while (!rc && (more || v->follow) && !(v->bounded && !v->left)) {
		/* Each page in an arena of its own: a year of entries must not stay in memory. */
		keep = v->cli->arena;
		v->cli->arena = page;
		rc = take_page(v, &more, err);
		page = v->cli->arena;
		v->cli->arena = keep;
		mu_arena_reset(&page);
		if (fflush(stdout)) /* whoever reads has gone */
			break;
	}
	mu_arena_free(&page);
	return rc;
}

int muster_events(struct cli *c, size_t count, char **words)
{
	const char *from = NULL, *to = NULL, *kind = NULL, *user = NULL, *job = NULL, *node = NULL,
		   *follow = NULL, *json = NULL, *limit = NULL;
	const struct muster_word list[] = {
	    {"from", MUSTER_VALUE, &from},   {"to", MUSTER_VALUE, &to},	       {"kind", MUSTER_VALUE, &kind},
	    {"user", MUSTER_VALUE, &user},   {"job", MUSTER_VALUE, &job},      {"node", MUSTER_VALUE, &node},
	    {"count", MUSTER_VALUE, &limit}, {"follow", MUSTER_FLAG, &follow}, {"json", MUSTER_FLAG, &json}};
	struct events v = {.cli = c};
	struct mu_err err = {0};
	int left = muster_words(c, count, words, list, sizeof list / sizeof *list);

	if (left < 0)
		return 1;
	if (left == 1 && !job)
		job = words[0];
	else if (left) {
		cli_error(c,
			  "usage: muster events [JOB] [--from @POS|TIME] [--to @POS] [--kind KINDS] [--user "
			  "USERS] [--job N] "
			  "[--node NAME] [--count N] [--follow] [--json]");
		return 1;
	}
	v.kinds = kind;
	v.users = user;
	v.node = node;
	v.json = json != NULL;
	v.follow = follow != NULL;
	if (job && life_id(c, job, true, &v.job))
		return 1;
	v.to = to ? strtoull(to + (*to == '@'), NULL, 10) : 0;
	v.bounded = limit != NULL;
	v.left = limit ? strtoull(limit, NULL, 10) : 0;
	int rc = cli_open(c, &err);
	if (!rc)
		rc = read_from(&v, from, &err);
	if (!rc)
		rc = run(&v, &err);
	if (rc)
		cli_error(c, "%s", err.text);
	return rc != 0;
}

/* ---- wait ---- */

/* What history has of a job that has left State. */
static int ended_state(struct cli *c, uint32_t job, const Mu__JobRow **ret, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	void **rows;
	size_t n;

	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_ACCT;
	cli_filter_job(c, &ask, job);
	int rc = cli_query_all(c, &ask, &mu__hist_row__descriptor, &rows, &n, err);
	if (!rc && !n)
		rc = mu_fail(err, MU_EJOBID, "%s", mu_strerror(MU_EJOBID));
	if (!rc)
		*ret = ((Mu__HistRow *)rows[n - 1])->job;
	return rc;
}

static int wait_once(struct cli *c, uint32_t job, uint32_t state, unsigned msec, const Mu__JobRow **ret,
		     struct mu_err *err)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__WaitAsk ask = MU__WAIT_ASK__INIT;
	Mu__Reply *reply;

	*ret = NULL;
	ask.has_job = ask.has_wait_msec = ask.has_until = ask.has_state = 1;
	ask.job = job;
	ask.wait_msec = msec;
	ask.until = 3;
	ask.state = state;
	request.ask_case = MU__REQUEST__ASK_WAIT;
	request.wait = &ask;
	int rc = cli_ask_within(c, &request, FOLLOW_MSEC + 10000, &reply, err);
	if (rc)
		return rc;
	if (reply->code == MU_EJOBID)
		return ended_state(c, job, ret, err);
	if (reply->code)
		return mu_fail(err, reply->code, "%s", reply->text ? reply->text : mu_strerror(reply->code));
	*ret = reply->answer_case == MU__REPLY__ANSWER_JOB_ROW ? reply->job_row : NULL;
	return 0;
}

/* Has it been there? A short job may have run between two looks. */
static bool reached(const Mu__JobRow *j, uint32_t state)
{
	if (state == JOB_PENDING)
		return true;
	if (state == JOB_RUNNING)
		return j->start_usec != 0 && j->state != JOB_PENDING;
	return j->state == state;
}

static int wait_for(struct cli *c, uint32_t job, uint32_t state, int64_t until_usec)
{
	int64_t lost_usec = 0;

	for (;;) {
		const Mu__JobRow *row = NULL;
		struct mu_err err = {0};
		int64_t left = until_usec ? (until_usec - cli_now_usec()) / 1000 : FOLLOW_MSEC;
		unsigned msec = left > FOLLOW_MSEC ? FOLLOW_MSEC : left > 1 ? (unsigned)left : 1;
		int rc = wait_once(c, job, state, msec, &row, &err);
		bool away = rc == MU_ECONNECT || rc == MU_ETIMEOUT;
		lost_usec = !away ? 0 : lost_usec ? lost_usec : cli_now_usec();
		if (rc && (!away || cli_now_usec() - lost_usec > WAIT_TRIES_SEC * INT64_C(1000000))) {
			cli_error(c, "waiting for job %u: %s", job, err.text);
			return 1;
		}
		if (row && (reached(row, state) || mu_job_state_ended(row->state))) {
			printf("%s\n", mu_job_state_long(row->state));
			return !reached(row, state);
		}
		if (until_usec && cli_now_usec() >= until_usec) {
			cli_error(c, "job %u is not %s yet", job, mu_job_state_long(state));
			return 2;
		}
		if (!row) /* an answer without a row must not become a busy loop */
			nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
	}
}

int muster_wait(struct cli *c, size_t count, char **words)
{
	const char *state = NULL, *limit = NULL;
	const struct muster_word list[] = {{"state", MUSTER_VALUE, &state},
					   {"timeout", MUSTER_VALUE, &limit}};
	uint32_t id, number = JOB_COMPLETED;
	int left = muster_words(c, count, words, list, sizeof list / sizeof *list);

	if (left < 0)
		return 1;
	if (left != 1) {
		cli_error(c, "usage: muster wait JOB [--state STATE] [--timeout SECONDS]");
		return 1;
	}
	if (state && mu_job_state_parse(state, &number)) {
		cli_error(c, "Invalid job state specified: %s", state);
		return 1;
	}
	int64_t until = limit ? cli_now_usec() + strtoll(limit, NULL, 10) * 1000000 : 0;
	return life_id(c, words[0], true, &id) ? 1 : wait_for(c, id, number, until);
}
