/* cli/ask.c: one question to any controller. Local sockets first, where the kernel vouches for the user and
 * no credential is needed; else TCP with a MUNGE credential. The request's id lets the same bytes be sent
 * again, to any controller, without doing anything twice. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "log/auth.h"
#include "log/stream.h"
#include "log/wire.h"
#include "proto/pb.h"
#include "proto/version.h"

enum {
	RETRY_MSEC = 100,
	AGE_TOLD_USEC = 1000000,
	LOCAL_MSEC = 1000,	  /* for local sockets nobody may be behind, before the network is tried */
	PATIENCE_MSEC = 2500,	  /* for one controller before the next is asked the same */
	PATIENT_FROM_MSEC = 20000 /* requests with a time-out from here on wait by themselves */
};

enum { REPLY_ROWS = 20, ROWS_ROW = 1 }; /* fields of proto/wire.proto */

/* A page of rows as it came: thousands of rows are looked at one by one, not unpacked into one reply. */
struct cli_page {
	struct mu_buf received; /* the rows lie here, or in the command's arena */
	struct mu_view rows;	/* the encoded message Rows */
};

int64_t cli_mono_msec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Connections to the controllers of C->conf. */
static void open_to(struct cli *c)
{
	const char *ipc[CLI_CONTROLLERS_MAX], *tcp[CLI_CONTROLLERS_MAX];
	unsigned ipcs = 0;

	for (unsigned i = 0; i < c->conf.controllers; i++) {
		const char *path = mu_arena_printf(&c->arena, "%s/musterd.%s.sock", c->conf.run_dir,
						   c->conf.controller[i].name);

		if (access(path, F_OK) == 0)
			ipc[ipcs++] = mu_arena_printf(&c->arena, "ipc://%s", path);
		tcp[i] = mu_arena_printf(&c->arena, "tcp://%s:%u", c->conf.controller[i].addr,
					 c->conf.controller[i].port);
	}
	if (ipcs)
		c->local = wire_client_new(ipc, ipcs);
	c->all_local = ipcs == c->conf.controllers;
	c->remote = wire_client_new(tcp, c->conf.controllers);
	c->has_conf = true;
}

/* The follower's socket where it is on this host, else its address. */
static void open_follower(struct cli *c)
{
	const char *ipc[1], *tcp[CLI_CONTROLLERS_MAX];
	unsigned ipcs = 0, tcps = 0;
	size_t count;
	char **words = cli_split(&c->arena, c->conf.follower, &count);

	for (size_t i = 0; i < count; i++) {
		const char *word = words[i] + strspn(words[i], " ");
		if (*word == '/' && !ipcs && access(word, F_OK) == 0)
			ipc[ipcs++] = mu_arena_printf(&c->arena, "ipc://%s", word);
		else if (*word != '/' && tcps < CLI_CONTROLLERS_MAX)
			tcp[tcps++] = mu_arena_printf(&c->arena, "tcp://%s", word);
	}
	c->local = ipcs ? wire_client_new(ipc, ipcs) : NULL;
	c->all_local = ipcs > 0;
	c->remote = tcps ? wire_client_new(tcp, tcps) : NULL;
}

int cli_turn_to(struct cli *c, const char *cluster, struct mu_err *err)
{
	struct cli_conf conf;
	int rc = cli_conf_read(&c->arena, &conf, err);

	if (rc)
		return rc;
	c->local = c->local ? wire_client_free(c->local) : NULL;
	c->remote = c->remote ? wire_client_free(c->remote) : NULL;
	c->conf = conf;
	c->has_conf = true;
	c->age_told = false;
	c->followed = NULL;
	if (strcasecmp(cluster, conf.cluster) == 0) {
		open_to(c);
		return 0;
	}
	if (!conf.follower)
		return mu_fail(
		    err, MU_EINVAL,
		    "'%s' can't be reached now, or it is an invalid entry for --cluster; this cluster is %s",
		    cluster, conf.cluster);
	c->followed = c->conf.cluster = mu_arena_strdup(&c->arena, cluster);
	open_follower(c);
	return c->local || c->remote ? 0 : mu_fail(err, MU_ECONNECT, "The follower %s is not there", conf.follower);
}

int cli_cluster_names(struct cli *c, const char *list, char ***ret, size_t *ret_count, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	void **rows = NULL;
	size_t n = 0;
	int rc;

	if (strcasecmp(list, "all") != 0) {
		*ret = cli_split(&c->arena, list, ret_count);
		return 0;
	}
	rc = cli_open(c, err);
	if (rc)
		return rc;
	char *own = mu_arena_strdup(&c->arena, c->conf.cluster);
	if (c->conf.follower) {
		ask.has_what = 1;
		ask.what = MU__WHAT__WHAT_FOLLOWED;
		rc = cli_turn_to(c, "", err);
		if (!rc)
			rc = cli_query_all(c, &ask, &mu__followed_row__descriptor, &rows, &n, err);
	}
	*ret = mu_arena_alloc(&c->arena, (n + 1) * sizeof **ret);
	(*ret)[0] = own;
	*ret_count = 1;
	for (size_t i = 0; i < n && !rc; i++)
		if (strcasecmp(((Mu__FollowedRow *)rows[i])->name, own) != 0)
			(*ret)[(*ret_count)++] = ((Mu__FollowedRow *)rows[i])->name;
	return rc ? rc : cli_turn_to(c, own, err);
}

int cli_open(struct cli *c, struct mu_err *err)
{
	int rc;

	if (c->has_conf)
		return 0;
	rc = cli_conf_read(&c->arena, &c->conf, err);
	if (rc)
		return rc;
	if (!c->conf.controllers)
		return mu_fail(err, MU_EINVAL, "%s names no controller: it has no SlurmctldHost line",
			       c->conf.path);
	open_to(c);
	return 0;
}

int cli_open_one(struct cli *c, unsigned index, struct cli *ret, struct mu_err *err)
{
	int rc = cli_open(c, err);

	if (rc)
		return rc;
	if (index >= c->conf.controllers)
		return mu_fail(err, MU_ENOENT, "There are %u controllers", c->conf.controllers);
	*ret = (struct cli){.name = c->name, .command = c->command, .conf = c->conf};
	ret->conf.controllers = 1;
	ret->conf.controller[0] = c->conf.controller[index];
	open_to(ret);
	return 0;
}

/* Everything of MESSAGE but its fields NUMBER, of which the last is *RET_TAKEN. */
static struct mu_view without(struct mu_view message, uint32_t number, struct mu_arena *arena,
			      struct mu_view *ret_taken)
{
	struct mu_buf kept MU_CLEANUP(mu_buf_free) = {0};
	struct mu_pb_field f;

	while (mu_pb_next(&message, &f)) {
		if (f.number == number)
			*ret_taken = f.bytes;
		else
			mu_buf_add(&kept, f.whole.data, f.whole.len);
	}
	mu_buf_add(&kept, message.data, message.len); /* malformed: whoever unpacks it says so */
	return (struct mu_view){mu_arena_dup(arena, kept.data, kept.len), kept.len};
}

/* A reply whose rows stay where they are. */
static Mu__Reply *read_page(struct cli *c, struct mu_view body, struct mu_buf *in)
{
	struct cli_page *page = c->page;
	struct mu_view last, head;
	Mu__Reply *reply;

	page->rows = (struct mu_view){0};
	head = without(body, REPLY_ROWS, &c->arena, &page->rows);
	reply = (Mu__Reply *)mu_pb_unpack(&mu__reply__descriptor, head.data, head.len, &c->arena);
	if (!reply || !page->rows.data)
		return reply;
	head = without(page->rows, ROWS_ROW, &c->arena, &last);
	reply->rows = (Mu__Rows *)mu_pb_unpack(&mu__rows__descriptor, head.data, head.len, &c->arena);
	if (!reply->rows)
		return NULL;
	reply->answer_case = MU__REPLY__ANSWER_ROWS;
	mu_buf_free(&page->received);
	page->received = *in;
	*in = (struct mu_buf){0};
	return reply;
}

static int read_reply(struct cli *c, const struct auth_keys *keys, const struct auth_sent *sent,
		      struct mu_buf *in, Mu__Reply **ret, struct mu_err *err)
{
	struct mu_view envelope = {in->data, in->len}, body;
	int rc = auth_open_reply(keys, sent, envelope, &c->arena, &body, err);

	if (rc)
		return rc;
	*ret = c->page ? read_page(c, body, in)
		       : (Mu__Reply *)mu_pb_unpack(&mu__reply__descriptor, body.data, body.len, &c->arena);
	return *ret ? 0 : mu_fail(err, MU_EPROTO, "A controller sent a reply that cannot be read");
}

static int ask_local(struct cli *c, struct mu_view body, unsigned timeout_msec, Mu__Reply **ret,
		     struct mu_err *err)
{
	struct mu_buf out MU_CLEANUP(mu_buf_free) = {0}, in MU_CLEANUP(mu_buf_free) = {0};
	int rc = auth_seal_user(NULL, body, false, &out, NULL, err);

	if (rc)
		return rc;
	rc = wire_request(c->local, (struct mu_view){out.data, out.len}, timeout_msec, &in, err);
	return rc ? rc : read_reply(c, NULL, NULL, &in, ret, err);
}

static int ask_remote(struct cli *c, struct mu_view body, unsigned timeout_msec, Mu__Reply **ret,
		      struct mu_err *err)
{
	struct mu_buf out MU_CLEANUP(mu_buf_free) = {0}, in MU_CLEANUP(mu_buf_free) = {0};
	struct auth_keys keys = {0};
	struct auth_sent sent = {0};
	const char *path = mu_arena_printf(&c->arena, "%s/cluster.pub", c->conf.key_dir);
	int rc;

	keys.has_public = access(path, F_OK) == 0;
	if (keys.has_public) {
		rc = auth_load_public(path, keys.cluster_public, err);
		if (rc)
			return rc;
	}
	rc = auth_seal_user(&keys, body, true, &out, &sent, err);
	if (rc)
		return rc;
	rc = wire_request(c->remote, (struct mu_view){out.data, out.len}, timeout_msec, &in, err);
	return rc ? rc : read_reply(c, &keys, &sent, &in, ret, err);
}

/* An answer that another controller, or the same one a moment later, may better. */
static bool worth_another(int code)
{
	return code == MU_ENOTLEADER || code == MU_ENOTREADY;
}

/* Is anyone listening at all? Without MUNGE nobody can be asked over TCP, but "nobody is there" is the truer
 * answer. */
static bool anyone_listens(struct cli *c)
{
	for (unsigned i = 0; i < c->conf.controllers; i++) {
		int fd;

		if (stream_connect(mu_arena_printf(&c->arena, "tcp://%s:%u", c->conf.controller[i].addr,
						   c->conf.controller[i].port),
				   500, &fd, NULL) == 0) {
			close(fd);
			return true;
		}
	}
	return false;
}

/* One round: local sockets, then the network where that may help. */
static int ask_round(struct cli *c, struct mu_view body, unsigned left_msec, Mu__Reply **ret,
		     struct mu_err *err)
{
	/* A request that may wait long itself is given its time; else a silent controller is left for the
	 * next one. */
	unsigned patience = left_msec > PATIENT_FROM_MSEC ? left_msec : PATIENCE_MSEC;
	int rc = MU_ECONNECT;

	if (c->local && !c->skip_local) {
		wire_client_patience(c->local, patience);
		rc = ask_local(c, body, c->all_local || left_msec < LOCAL_MSEC ? left_msec : LOCAL_MSEC, ret,
			       err);
		if (rc != MU_ECONNECT || c->all_local)
			return rc;
	}
	wire_client_patience(c->remote, patience);
	rc = ask_remote(c, body, left_msec, ret, err);
	if (rc == MU_EAUTH && !c->followed && !anyone_listens(c))
		return mu_fail(err, MU_ECONNECT, "%s", mu_strerror(MU_ECONNECT));
	return rc;
}

int cli_ask_within(struct cli *c, Mu__Request *request, unsigned timeout_msec, Mu__Reply **ret,
		   struct mu_err *err)
{
	char client[64];
	uint8_t nonce[16];
	Mu__RequestId id = MU__REQUEST_ID__INIT;
	struct mu_buf body MU_CLEANUP(mu_buf_free) = {0};
	int64_t until = cli_mono_msec() + timeout_msec;
	int rc = cli_open(c, err);

	if (rc)
		return rc;
	if (getrandom(nonce, sizeof nonce, 0) != sizeof nonce)
		return mu_fail(err, MU_EIO, "No random bytes for the request's id: %s", strerror(errno));
	id.has_birth_usec = id.has_nonce = 1;
	id.birth_usec = cli_now_usec();
	id.nonce = (ProtobufCBinaryData){sizeof nonce, nonce};
	request->id = &id;
	snprintf(client, sizeof client, "%s " MU_VERSION, c->name);
	request->client = client;
	request->cluster = (char *)c->followed;
	mu_pb_pack(&request->base, &body);
	request->id = NULL;
	request->client = request->cluster = NULL;
	for (unsigned tries = 0;; tries++) {
		int64_t left = until - cli_mono_msec();

		rc = ask_round(c, (struct mu_view){body.data, body.len}, left < 1 ? 1 : (unsigned)left, ret,
			       err);
		/* A local controller that is being restarted has no socket for a moment. */
		if (rc == MU_ECONNECT && !c->local && !c->followed && cli_mono_msec() + RETRY_MSEC < until) {
			nanosleep(&(struct timespec){.tv_nsec = RETRY_MSEC * 1000000L}, NULL);
			c->remote = wire_client_free(c->remote);
			open_to(c);
			continue;
		}
		if (rc || !worth_another((*ret)->code) || cli_mono_msec() + RETRY_MSEC >= until)
			return rc;
		/* After a few rounds the one that can help may be on another host. */
		c->skip_local = c->local && !c->all_local && tries >= c->conf.controllers && !c->skip_local;
		wire_client_rotate(c->local && !c->skip_local ? c->local : c->remote);
		nanosleep(&(struct timespec){.tv_nsec = RETRY_MSEC * 1000000L}, NULL);
	}
}

int cli_ask(struct cli *c, Mu__Request *request, Mu__Reply **ret, struct mu_err *err)
{
	int rc = cli_open(c, err);

	return rc ? rc : cli_ask_within(c, request, c->conf.message_timeout_sec * 1000, ret, err);
}

int cli_ask_done(struct cli *c, Mu__Request *request, Mu__Reply **ret, struct mu_err *err)
{
	Mu__Reply *reply;
	int rc = cli_ask(c, request, &reply, err);

	if (rc)
		return rc;
	if (reply->code)
		return mu_fail(err, reply->code, "%s",
			       reply->text && *reply->text ? reply->text : mu_strerror(reply->code));
	if (ret)
		*ret = reply;
	return 0;
}

static int ask_page(struct cli *c, Mu__Query *query, struct cli_page *page, Mu__Rows **ret,
		    struct mu_err *err)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__Reply *reply;
	int rc;

	if (c->at && *c->at)
		query->at = (char *)c->at;
	else if (c->pinned)
		query->at = (char *)c->pinned;
	request.ask_case = MU__REQUEST__ASK_QUERY;
	request.query = query;
	c->page = page;
	rc = cli_ask_done(c, &request, &reply, err);
	c->page = NULL;
	if (rc)
		return rc;
	if (reply->answer_case != MU__REPLY__ANSWER_ROWS)
		return mu_fail(err, MU_EPROTO, "A controller answered a query without rows");
	*ret = reply->rows;
	return 0;
}

/* The moment that ROWS are of: spans go on between two entries of the log, but not within one showing. */
static void take_moment(struct cli *c, const Mu__Rows *rows)
{
	bool past = c->at && *c->at;

	c->pos = rows->pos;
	c->now_usec = rows->now_usec;
	if (!past)
		c->now_usec = cli_now_usec() > c->now_usec ? cli_now_usec() : c->now_usec;
	if (c->pinned_now_usec)
		c->now_usec = c->pinned_now_usec;
	if (!c->pin)
		return;
	c->pinned_now_usec = c->now_usec;
	if (!past && !c->pinned)
		c->pinned = mu_arena_printf(&c->arena, "@%" PRIu64, c->pos);
}

void cli_as_of(struct cli *c)
{
	if (c->as_of && c->pos)
		printf("As of @%" PRIu64 ",%" PRId64 "\n", c->pos, c->now_usec);
	c->pinned = NULL;
	if (!c->at)
		c->pinned_now_usec = 0;
}

static void page_free(struct cli_page *page)
{
	mu_buf_free(&page->received);
}

int cli_query(struct cli *c, Mu__Query *query, cli_row_fn row, void *arg, struct mu_err *err)
{
	MU_CLEANUP(page_free) struct cli_page page = {0};

	for (;;) {
		struct mu_pb_field f;
		Mu__Rows *rows = NULL;
		int rc = ask_page(c, query, &page, &rows, err);

		if (rc)
			return rc;
		if (rows->age_usec >= AGE_TOLD_USEC && !c->age_told) {
			cli_say(c,
				"%s%s; this is how things stood %" PRId64 " seconds ago",
				c->followed ? c->followed : "no controller leads at present",
				c->followed ? " is away" : "", rows->age_usec / 1000000);
			c->age_told = true;
		}
		if (rows->kept_from_usec && !c->kept_told) {
			char from[32];

			mu_date_print(rows->kept_from_usec, &cli_zone, from);
			cli_say(c, "what ended before %s is no longer kept (%s)", from,
				rows->kept_rule ? rows->kept_rule : "retention");
			c->kept_told = true;
		}
		take_moment(c, rows);
		while (mu_pb_next(&page.rows, &f))
			if (f.number == ROWS_ROW)
				row(arg, f.bytes);
		if (page.rows.len)
			return mu_fail(err, MU_EPROTO, "A controller sent rows that cannot be read");
		if (!rows->next_key.len)
			return 0;
		query->has_after_key = 1;
		query->after_key = rows->next_key;
	}
}

struct collect {
	struct cli *cli;
	const ProtobufCMessageDescriptor *type;
	void **rows;
	size_t count, cap;
	bool broken;
};

static void collect_row(void *arg, struct mu_view row)
{
	struct collect *k = arg;
	void *m = mu_pb_unpack(k->type, row.data, row.len, &k->cli->arena);

	if (!m) {
		k->broken = true;
		return;
	}
	if (k->count == k->cap) {
		size_t cap = k->cap ? 2 * k->cap : 64;
		void **more = mu_arena_alloc(&k->cli->arena, cap * sizeof *more);

		if (k->count)
			memcpy(more, k->rows, k->count * sizeof *more);
		k->rows = more;
		k->cap = cap;
	}
	k->rows[k->count++] = m;
}

int cli_query_all(struct cli *c, Mu__Query *query, const ProtobufCMessageDescriptor *type, void ***ret,
		  size_t *ret_count, struct mu_err *err)
{
	struct collect k = {.cli = c, .type = type};
	int rc = cli_query(c, query, collect_row, &k, err);

	if (rc)
		return rc;
	if (k.broken)
		return mu_fail(err, MU_EPROTO, "A controller sent a row that cannot be read");
	*ret = k.rows;
	*ret_count = k.count;
	return 0;
}

int cli_set_at(struct cli *c, const char *text, struct mu_err *err)
{
	int64_t usec;
	int rc;

	if (text[0] == '@') {
		size_t digits = strspn(text + 1, "0123456789");
		const char *now = text + 1 + digits;

		if (!digits || (*now && (*now != ',' || !now[1] || strspn(now + 1, "0123456789") != strlen(now + 1))))
			return mu_fail(
			    err, MU_ESYNTAX,
			    "Invalid --at specification: \"%s\" (a time, or @ and a position of the log)",
			    text);
		c->at = mu_arena_printf(&c->arena, "@%.*s", (int)digits, text + 1);
		if (*now)
			return mu_number_parse("the moment in --at", now + 1, 1, INT64_MAX, &c->pinned_now_usec, err);
		return 0;
	}
	rc = mu_date_parse(text, cli_now_usec(), 0, &cli_zone, &usec, NULL);
	if (rc)
		return mu_fail(err, rc,
			       "Invalid --at specification: \"%s\" (a time, or @ and a position of the log)",
			       text);
	if (usec > cli_now_usec())
		return mu_fail(err, MU_EINVAL, "Invalid --at specification: \"%s\" is not past", text);
	c->at = mu_arena_printf(&c->arena, "=%" PRId64, usec);
	return 0;
}

void cli_done(struct cli *c)
{
	c->local = c->local ? wire_client_free(c->local) : NULL;
	c->remote = c->remote ? wire_client_free(c->remote) : NULL;
	mu_arena_free(&c->arena);
}
