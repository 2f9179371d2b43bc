/* tests/cli/fakectl.c: a controller that answers from a file of canned rows, for tests of what commands print
 * and ask.
 *
 *     fakectl SOCKET ROWS LOG      answers on the Unix socket SOCKET; writes each request that changes
 * something to LOG as text
 *
 * A line of ROWS is a kind (job, step, node, partition, config, cluster, hist) and a message as `muster log
 * dump` prints it. */
#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/dump.h"
#include "log/auth.h"
#include "log/wire.h"
#include "proto/pb.h"
#include "proto/wire.pb-c.h"

enum { ROWS_MAX = 20000, NOW_USEC_SEC = 1790000000 };

static struct mu_arena forever;
static struct {
	int what;
	ProtobufCMessage *message;
} rows[ROWS_MAX];
static size_t row_count;
static FILE *request_log;

static const struct {
	const char *word;
	int what;
	const ProtobufCMessageDescriptor *type;
} kinds[] = {
    {"job", MU__WHAT__WHAT_JOBS, &mu__job_row__descriptor},
    {"step", MU__WHAT__WHAT_STEPS, &mu__step_row__descriptor},
    {"node", MU__WHAT__WHAT_NODES, &mu__node_row__descriptor},
    {"partition", MU__WHAT__WHAT_PARTITIONS, &mu__partition_row__descriptor},
    {"config", MU__WHAT__WHAT_CONFIG, &mu__config_row__descriptor},
    {"cluster", MU__WHAT__WHAT_CLUSTER, &mu__cluster_row__descriptor},
    {"hist", MU__WHAT__WHAT_ACCT, &mu__hist_row__descriptor},
};

static void die(const char *what, const char *where)
{
	fprintf(stderr, "fakectl: %s: %.60s\n", what, where);
	exit(1);
}

/* ---- text to message ---- */

static const char *parse(ProtobufCMessage *m, const char *p);

static size_t width(const ProtobufCFieldDescriptor *f)
{
	if (f->type == PROTOBUF_C_TYPE_BYTES)
		return sizeof(ProtobufCBinaryData);
	if (f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_MESSAGE)
		return sizeof(void *);
	return f->type == PROTOBUF_C_TYPE_INT64 || f->type == PROTOBUF_C_TYPE_UINT64 ||
		       f->type == PROTOBUF_C_TYPE_DOUBLE
		   ? 8
		   : 4;
}

static void *place(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
	char *at = (char *)m + f->offset, *q = (char *)m + f->quantifier_offset;
	size_t *count = (size_t *)q;
	char *more;

	if (f->label != PROTOBUF_C_LABEL_REPEATED) {
		if (f->type != PROTOBUF_C_TYPE_STRING && f->type != PROTOBUF_C_TYPE_MESSAGE)
			*(protobuf_c_boolean *)q = 1;
		return at;
	}
	more = mu_arena_alloc(&forever, (*count + 1) * width(f));
	if (*count)
		memcpy(more, *(void **)at, *count * width(f));
	*(void **)at = more;
	return more + (*count)++ * width(f);
}

static const char *value(const ProtobufCFieldDescriptor *f, void *at, const char *p)
{
	char *end;

	if (*p == '"') {
		const char *close = strchr(++p, '"');
		char *text;

		if (!close)
			die("a quote does not end", p);
		text = mu_arena_printf(&forever, "%.*s", (int)(close - p), p);
		if (f->type == PROTOBUF_C_TYPE_BYTES)
			*(ProtobufCBinaryData *)at = (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
		else
			*(char **)at = text;
		return close + 1;
	}
	if (strncmp(p, "true", 4) == 0) {
		*(protobuf_c_boolean *)at = 1;
		return p + 4;
	}
	if (width(f) == 8)
		*(int64_t *)at = strtoll(p, &end, 10);
	else
		*(int32_t *)at = (int32_t)strtoll(p, &end, 10);
	if (end == p)
		die("no value", p);
	return end;
}

static const char *parse(ProtobufCMessage *m, const char *p)
{
	for (;;) {
		char name[64];
		size_t len;
		const ProtobufCFieldDescriptor *f;

		p += strspn(p, " \t\n");
		if (!*p || *p == '}')
			return p;
		len = strspn(p, "abcdefghijklmnopqrstuvwxyz_0123456789");
		snprintf(name, sizeof name, "%.*s", (int)len, p);
		f = protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name);
		if (!f)
			die("no such field", p);
		p += len + strspn(p + len, " ");
		if (*p == '{') {
			const ProtobufCMessageDescriptor *type = f->descriptor;
			ProtobufCMessage *inner = mu_arena_alloc(&forever, type->sizeof_message);

			type->message_init(inner);
			*(ProtobufCMessage **)place(m, f) = inner;
			p = parse(inner, p + 1);
			if (*p != '}')
				die("a brace does not end", p);
			p++;
		} else if (*p == ':') {
			p = value(f, place(m, f), p + 1 + strspn(p + 1, " "));
		} else {
			die("neither : nor {", p);
		}
	}
}

static void load(const char *path)
{
	FILE *in = fopen(path, "re");
	char *line = NULL;
	size_t cap = 0;

	if (!in)
		die("cannot read", path);
	while (getline(&line, &cap, in) > 0) {
		size_t len = strcspn(line, " \n"), k = 0, kind_count = sizeof kinds / sizeof *kinds;

		if (*line == '#' || *line == '\n')
			continue;
		while (k < kind_count &&
		       (strlen(kinds[k].word) != len || strncmp(kinds[k].word, line, len) != 0))
			k++;
		if (k == kind_count || row_count == ROWS_MAX)
			die("no such kind", line);
		rows[row_count].what = kinds[k].what;
		rows[row_count].message = mu_arena_alloc(&forever, kinds[k].type->sizeof_message);
		kinds[k].type->message_init(rows[row_count].message);
		parse(rows[row_count++].message, line + len);
	}
	free(line);
	fclose(in);
}

/* ---- answers ---- */

static const Mu__JobRow *job_of(size_t i)
{
	if (rows[i].what == MU__WHAT__WHAT_JOBS)
		return (Mu__JobRow *)rows[i].message;
	return rows[i].what == MU__WHAT__WHAT_ACCT ? ((Mu__HistRow *)rows[i].message)->job : NULL;
}

static bool has_u32(const uint32_t *list, size_t n, uint32_t value_)
{
	for (size_t i = 0; i < n; i++) {
		if (list[i] == value_)
			return true;
	}
	return n == 0;
}

static bool has_text(char *const *list, size_t n, const char *text)
{
	for (size_t i = 0; i < n; i++) {
		if (text && strcmp(list[i], text) == 0)
			return true;
	}
	return n == 0;
}

static bool wanted(const Mu__Query *q, size_t i)
{
	const Mu__JobRow *j = job_of(i);

	if ((int)q->what != rows[i].what)
		return false;
	if (q->what == MU__WHAT__WHAT_STEPS)
		return has_u32(q->job, q->n_job, ((Mu__StepRow *)rows[i].message)->job);
	if (!j)
		return true;
	return has_u32(q->job, q->n_job, j->id) && has_u32(q->uid, q->n_uid, j->uid) &&
	       has_u32(q->state, q->n_state, j->state) &&
	       has_text(q->partition, q->n_partition, j->partition) &&
	       has_text(q->name, q->n_name, j->spec ? j->spec->name : NULL);
}

static bool known_job(uint32_t id)
{
	for (size_t i = 0; i < row_count; i++) {
		if (rows[i].what == MU__WHAT__WHAT_JOBS && ((Mu__JobRow *)rows[i].message)->id == id)
			return true;
	}
	return false;
}

static void answer_query(const Mu__Query *q, Mu__Reply *reply, struct mu_arena *arena)
{
	Mu__Rows *out = mu_arena_alloc(arena, sizeof *out);

	mu__rows__init(out);
	if (q->what == MU__WHAT__WHAT_JOBS && q->n_job == 1 && !known_job(q->job[0])) {
		reply->code = MU_EJOBID;
		return;
	}
	out->row = mu_arena_alloc(arena, (row_count + 1) * sizeof *out->row);
	for (size_t i = 0; i < row_count; i++) {
		struct mu_buf b = {0};

		if (!wanted(q, i))
			continue;
		mu_pb_pack(rows[i].message, &b);
		out->row[out->n_row++] = (ProtobufCBinaryData){
		    b.len, mu_arena_dup(arena, b.data ? (void *)b.data : "", b.len + 1)};
		mu_buf_free(&b);
	}
	out->has_pos = out->has_now_usec = 1;
	out->pos = 7;
	out->now_usec = NOW_USEC_SEC * INT64_C(1000000);
	reply->answer_case = MU__REPLY__ANSWER_ROWS;
	reply->rows = out;
}

static void write_request(Mu__Request *r)
{
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};

	r->id = NULL;
	r->client = NULL;
	cli_dump_text(&r->base, &text);
	mu_buf_str(&text, "\n");
	fwrite(text.data, 1, text.len, request_log);
	fflush(request_log);
}

static void answer(Mu__Request *r, Mu__Reply *reply, struct mu_arena *arena)
{
	reply->has_code = 1;
	switch (r->ask_case) {
	case MU__REQUEST__ASK_QUERY:
		answer_query(r->query, reply, arena);
		return;
	case MU__REQUEST__ASK_KILL:
		reply->verdict = mu_arena_alloc(arena, (r->kill->signal->n_job + 1) * sizeof *reply->verdict);
		for (size_t i = 0; i < r->kill->signal->n_job; i++) {
			Mu__JobVerdict *v = mu_arena_alloc(arena, sizeof *v);

			mu__job_verdict__init(v);
			v->has_job = v->has_code = 1;
			v->job = r->kill->signal->job[i];
			v->code = known_job(v->job) ? 0 : MU_EJOBID;
			reply->verdict[reply->n_verdict++] = v;
		}
		break;
	case MU__REQUEST__ASK_SUBMIT:
		if (r->submit->spec->n_partition && strcmp(r->submit->spec->partition[0], "nope") == 0)
			reply->code = MU_EPARTITION;
		/* Environments differ from host to host. */
		for (size_t i = 0; i < r->submit->n_blob; i++)
			r->submit->blob[i]->has_data = r->submit->blob[i]->has_hash = 0;
		r->submit->spec->has_env_hash = 0;
		r->submit->spec->submit_host = NULL;
		r->submit->spec->has_submit_sid = r->submit->spec->has_umask = r->submit->spec->has_work_dir =
		    0;
		r->submit->spec->has_command = 0;
		reply->has_job = 1;
		reply->job = 42;
		break;
	case MU__REQUEST__ASK_EVENT:
		if (r->event->event->kind_case == MU__EVENT__KIND_JOB_HOLD &&
		    !known_job(r->event->event->job_hold->job[0]))
			reply->code = MU_EJOBID;
		break;
	default:
		break;
	}
	write_request(r);
}

static void handle(void *arg, struct wire_call *call, const struct wire_peer *peer, struct mu_view bytes)
{
	struct mu_arena arena = {0};
	struct auth_who who;
	struct mu_view body;
	struct mu_err err = {0};
	Mu__Reply reply = MU__REPLY__INIT;
	struct mu_buf packed = {0}, out = {0};

	if (auth_verify(NULL, bytes, peer, (int64_t)time(NULL) * 1000000, NULL, NULL, &arena, &who, &body,
			&err) == 0) {
		Mu__Request *r =
		    (Mu__Request *)mu_pb_unpack(&mu__request__descriptor, body.data, body.len, &arena);

		if (r)
			answer(r, &reply, &arena);
		mu_pb_pack(&reply.base, &packed);
		auth_seal_reply(NULL, &who, (struct mu_view){packed.data, packed.len}, &out, &err);
	}
	wire_reply(call, (struct mu_view){out.data, out.len});
	mu_buf_free(&packed);
	mu_buf_free(&out);
	mu_arena_free(&arena);
}

int main(int argc, char **argv)
{
	struct wire_server *server;
	struct mu_err err = {0};
	const char *address[1];
	sigset_t set;
	int number;

	if (argc != 4)
		die("usage", "fakectl SOCKET ROWS LOG");
	load(argv[2]);
	request_log = fopen(argv[3], "we");
	if (!request_log)
		die("cannot write", argv[3]);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	address[0] = mu_arena_printf(&forever, "ipc://%s", argv[1]);
	if (wire_server_open(address, 1, 64, (struct mu_view){0}, handle, NULL, &server, &err))
		die("cannot listen", err.text);
	printf("ready\n");
	fflush(stdout);
	sigwait(&set, &number);
	wire_server_close(server);
	fclose(request_log);
	mu_arena_free(&forever);
	return 0;
}
