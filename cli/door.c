/* cli/door.c: reaching agents. */
#include "cli/door.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "proto/pb.h"

enum { CONNECT_MSEC = 5000, ANSWER_MSEC = 60000, AGAIN_MSEC = 100, TRIES = 50 };

bool cli_door_local(struct cli *c, const char *node)
{
	return access(mu_arena_printf(&c->arena, "%s/agent.%s.sock", c->conf.run_dir, node), F_OK) == 0;
}

int cli_job_ask(struct cli *c, struct cli_job *j, uint32_t until, uint32_t wait_msec, struct mu_err *err)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__WaitAsk ask = MU__WAIT_ASK__INIT;
	Mu__Reply *reply = NULL;
	int rc;

	ask.has_job = ask.has_wait_msec = ask.has_until = ask.has_want_key = 1;
	ask.job = j->job;
	ask.wait_msec = wait_msec;
	ask.until = until;
	ask.want_key = 1;
	request.ask_case = MU__REQUEST__ASK_WAIT;
	request.wait = &ask;
	rc = cli_ask_within(c, &request, wait_msec + 15000, &reply, err);
	if (rc)
		return rc;
	if (reply->code || reply->answer_case != MU__REPLY__ANSWER_JOB_ROW)
		return mu_fail(err, reply->code ? reply->code : MU_EPROTO, "%s",
			       reply->text && *reply->text
				   ? reply->text
				   : mu_strerror(reply->code ? reply->code : MU_EPROTO));
	j->row = reply->job_row;
	if (j->row->has_job_key && j->row->job_key.len == sizeof j->key) {
		memcpy(j->key, j->row->job_key.data, sizeof j->key);
		j->has_key = true;
	}
	return 0;
}

static int find_address(struct cli *c, struct cli_door *door, struct mu_err *err)
{
	Mu__Query query = MU__QUERY__INIT;
	char *name = (char *)door->node;
	void **rows;
	size_t count;
	int rc;

	query.has_what = 1;
	query.what = MU__WHAT__WHAT_NODES;
	query.node = &name;
	query.n_node = 1;
	rc = cli_query_all(c, &query, &mu__node_row__descriptor, &rows, &count, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < count; i++) {
		const Mu__NodeRow *n = rows[i];

		if (!n->name || strcmp(n->name, door->node) != 0)
			continue;
		door->addr = n->addr && *n->addr			  ? n->addr
			     : n->conf && n->conf->addr && *n->conf->addr ? n->conf->addr
									  : n->name;
		door->port = n->port ? n->port : n->conf ? n->conf->port : 0;
		return 0;
	}
	return mu_fail(err, MU_ENODENAME, "%s is no node of the cluster", door->node);
}

int cli_job_door(struct cli *c, struct cli_job *j, struct mu_err *err)
{
	int rc = 0;

	if (j->first.node && cli_door_local(c, j->first.node))
		return 0;
	if (!j->row)
		rc = cli_job_ask(c, j, 2, 0, err);
	if (rc)
		return rc;
	if (!j->row->n_alloc || !j->row->alloc[0]->node)
		return mu_fail(err, MU_EJOBID, "Job %u does not run", j->job);
	j->first.node = j->row->alloc[0]->node;
	return cli_door_local(c, j->first.node) ? 0 : find_address(c, &j->first, err);
}

/* The user has had enough of waiting for a node. */
static bool told_to_stop(const struct cli *c, int msec)
{
	struct pollfd p = {c->stop ? *c->stop : -1, POLLIN, 0};

	return poll(&p, 1, msec) > 0;
}

/* A node that hangs takes the request and says nothing: a signal ends the wait for its answer. */
static int read_frame(const struct cli *c, int fd, struct stream_reader *reader, struct stream_frame *ret,
		      struct mu_err *err)
{
	int64_t until = cli_mono_msec() + ANSWER_MSEC, left;

	for (;;) {
		struct pollfd p[] = {{fd, POLLIN, 0}, {c->stop ? *c->stop : -1, POLLIN, 0}};
		int rc = stream_read_frame(fd, reader, 0, ret, err);

		if (rc != MU_ETIMEOUT)
			return rc;
		left = until - cli_mono_msec();
		if (left <= 0 || poll(p, 2, (int)left) == 0)
			return mu_fail(err, MU_ETIMEOUT, "no answer came within %d s", ANSWER_MSEC / 1000);
		if (p[1].revents)
			return mu_fail(err, MU_EIO, "interrupted by a signal");
	}
}

static int connect_once(struct cli *c, const struct cli_door *door, bool *ret_remote, int *ret_fd,
			struct mu_err *err)
{
	*ret_remote = !cli_door_local(c, door->node) && door->addr && door->port;
	return stream_connect(
	    *ret_remote
		? mu_arena_printf(&c->arena, strchr(door->addr, ':') ? "tcp://[%s]:%u" : "tcp://%s:%u",
				  door->addr, door->port)
		: mu_arena_printf(&c->arena, "ipc://%s/agent.%s.sock", c->conf.run_dir, door->node),
	    CONNECT_MSEC, ret_fd, err);
}

bool cli_door_answers(struct cli *c, const struct cli_door *door)
{
	bool remote;
	int fd = -1;

	if (connect_once(c, door, &remote, &fd, NULL))
		return false;
	close(fd);
	return true;
}

/* An agent that is being restarted is back in a moment. */
static int reach(struct cli *c, const struct cli_door *door, bool *ret_remote, int *ret_fd,
		 struct mu_err *err)
{
	int rc = MU_ECONNECT;

	for (int tries = 0; tries < TRIES; tries++) {
		rc = connect_once(c, door, ret_remote, ret_fd, err);
		if (rc != MU_ECONNECT || told_to_stop(c, AGAIN_MSEC))
			break;
	}
	return rc;
}

static int prove(const struct cli *c, const struct cli_job *j, int fd, struct stream_reader *reader,
		 struct mu_view body, struct mu_buf *out, struct mu_err *err)
{
	struct stream_frame f;
	uint8_t proof[MU_HASH_BYTES];
	int rc = read_frame(c, fd, reader, &f, err);

	if (rc)
		return rc;
	if (f.kind != STREAM_HELLO || f.payload.len != STREAM_NONCE)
		return mu_fail(err, MU_EPROTO, "The node does not speak as an agent does");
	if (!j->has_key)
		return mu_fail(err, MU_EPERM, "%s", mu_strerror(MU_EPERM));
	stream_proof(j->key, f.payload.data, body, proof);
	stream_put(out, STREAM_PROOF, 0, proof, sizeof proof);
	return 0;
}

int cli_door_find(struct cli *c, struct cli_door *door, struct mu_err *err)
{
	return cli_door_local(c, door->node) ? 0 : find_address(c, door, err);
}

/* Connects, proves where that is needed, and sends. */
static int send_request(struct cli *c, const struct cli_job *j, const struct cli_door *door, uint8_t kind,
			struct mu_view body, int *ret_fd, struct stream_reader *reader, struct mu_err *err)
{
	struct mu_buf out MU_CLEANUP(mu_buf_free) = {0};
	bool remote;
	int rc = reach(c, door, &remote, ret_fd, err);

	if (rc)
		return rc;
	if (remote)
		rc = prove(c, j, *ret_fd, reader, body, &out, err);
	stream_put(&out, kind, 0, body.data, body.len);
	return rc ? rc : stream_write_all(*ret_fd, out.data, out.len, err);
}

/* The whole of one message; RET_KIND is what it is. */
static int read_message(const struct cli *c, int fd, struct stream_reader *reader, struct mu_buf *whole,
			uint8_t *ret_kind, struct mu_err *err)
{
	struct stream_frame f;
	int rc;

	do {
		rc = read_frame(c, fd, reader, &f, err);
		if (rc)
			return rc;
	} while (f.kind == STREAM_PING || (rc = stream_join(whole, &f)) == 0);
	*ret_kind = f.kind;
	return rc < 0 ? mu_fail(err, rc, "The node's answer is too long") : 0;
}

static int refusal(struct cli *c, const struct mu_buf *whole, uint8_t kind, struct mu_err *err)
{
	const Mu__StepRefused *m = kind == STREAM_REFUSED
				       ? (Mu__StepRefused *)mu_pb_unpack(&mu__step_refused__descriptor,
									 whole->data, whole->len, &c->arena)
				       : NULL;

	if (!m)
		return mu_fail(err, MU_EPROTO, "The node's answer cannot be read");
	if (m->busy)
		return 1;
	return mu_fail(err, m->code ? m->code : MU_EINTERNAL, "%s",
		       m->text && *m->text ? m->text : mu_strerror(m->code));
}

int cli_door_look(struct cli *c, const struct cli_job *j, const struct cli_door *door, struct mu_view body,
		  Mu__UsageReply **ret, struct mu_err *err)
{
	struct stream_reader reader = {0};
	struct mu_buf whole MU_CLEANUP(mu_buf_free) = {0};
	uint8_t kind = 0;
	int fd = -1, rc = send_request(c, j, door, STREAM_USAGE_ASK, body, &fd, &reader, err);

	if (!rc)
		rc = read_message(c, fd, &reader, &whole, &kind, err);
	if (!rc && kind == STREAM_USAGE) {
		*ret = (Mu__UsageReply *)mu_pb_unpack(&mu__usage_reply__descriptor, whole.data, whole.len,
						      &c->arena);
		rc = *ret ? 0 : mu_fail(err, MU_EPROTO, "The node's answer cannot be read");
	} else if (!rc) {
		rc = refusal(c, &whole, kind, err);
	}
	if (fd >= 0)
		close(fd);
	stream_reader_free(&reader);
	return rc;
}

int cli_door_ask(struct cli *c, const struct cli_job *j, const struct cli_door *door, uint8_t kind,
		 struct mu_view body, int *ret_fd, struct stream_reader *ret_reader, Mu__StepGranted **ret,
		 struct mu_err *err)
{
	struct stream_reader reader = {0};
	struct mu_buf whole MU_CLEANUP(mu_buf_free) = {0};
	uint8_t answer = 0;
	int fd = -1, rc = send_request(c, j, door, kind, body, &fd, &reader, err);

	if (!rc)
		rc = read_message(c, fd, &reader, &whole, &answer, err);
	if (!rc && answer == STREAM_GRANTED) {
		*ret = (Mu__StepGranted *)mu_pb_unpack(&mu__step_granted__descriptor, whole.data, whole.len,
						       &c->arena);
		rc = *ret ? 0 : mu_fail(err, MU_EPROTO, "The node's answer cannot be read");
	} else if (!rc) {
		rc = refusal(c, &whole, answer, err);
	}
	if (rc) {
		if (fd >= 0)
			close(fd);
		stream_reader_free(&reader);
		return rc;
	}
	*ret_fd = fd;
	*ret_reader = reader;
	return 0;
}
