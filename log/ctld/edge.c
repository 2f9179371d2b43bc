/* ctld/edge.c: requests from the wire: verified on nng's threads, then to the readers or to the core. */
#include "log/ctld/ctld.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "log/diag.h"
#include "log/ctld/follow.h"
#include "log/ctld/nodekeys.h"
#include "proto/pb.h"
#include "proto/version.h"

static void reply_now(struct ctl *c, struct wire_call *call, const struct auth_who *who, int code, const char *text)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf body = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf out = {0};
	struct mu_err err = {0};
	Mu__Reply reply = MU__REPLY__INIT;

	reply.has_code = 1;
	reply.code = code;
	reply.text = (char *)text;
	mu_pb_pack(&reply.base, &body);
	(void)auth_seal_reply(&c->keys, who, (struct mu_view){body.data, body.len}, &out, &err);
	wire_reply(call, (struct mu_view){out.data, out.len});
}

static Mu__Author *author_of(struct ctl *c, struct ctl_req *req, struct mu_err *err)
{
	Mu__Author *a = mu_arena_alloc(&req->arena, sizeof *a);
	struct auth_user user;

	mu__author__init(a);
	a->verifier = mu_arena_strdup(&req->arena, req->who.verifier);
	a->host = mu_arena_strdup(&req->arena, req->who.host);
	if (req->who.is_node) {
		a->node = mu_arena_strdup(&req->arena, req->who.node);
		return a;
	}
	if (auth_user_lookup(req->who.uid, &user, err))
		return NULL;
	a->has_uid = a->has_gid = 1;
	a->uid = req->who.uid;
	a->gid = user.gid;
	a->user = mu_arena_strdup(&req->arena, user.user);
	a->group = mu_arena_strdup(&req->arena, user.group);
	a->n_groups = user.group_count;
	a->groups = mu_arena_dup(&req->arena, user.groups, user.group_count * sizeof *a->groups);
	a->has_operator_ = a->operator_ = a->uid == 0 || a->uid == c->slurm_uid;
	return a;
}

static void to_core(struct ctl *c, void *arg)
{
	ctl_req_dispatch(c, arg);
}

/* A controller that waits to be founded or added knows no job and no node: others must answer. */
static bool others_must_answer(const struct ctl *c, const struct ctl_req *req)
{
	switch (req->request->ask_case) {
	case MU__REQUEST__ASK_PING:
	case MU__REQUEST__ASK_DIGEST:
	case MU__REQUEST__ASK_DIAG:
	case MU__REQUEST__ASK_CONTROL:
		return false;
	default:
		return !atomic_load(&c->founded);
	}
}

static void route(struct ctl *c, struct ctl_req *req)
{
	if (c->follow) {
		ctl_follow_route(c, req);
		return;
	}
	if (others_must_answer(c, req)) {
		ctl_req_fail(c, req, MU_ENOTREADY, "This controller is not a member of a cluster yet.");
		return;
	}
	switch (req->request->ask_case) {
	case MU__REQUEST__ASK_QUERY:
		atomic_fetch_add(&c->n.queries, 1);
		ctl_read(c, req);
		return;
	case MU__REQUEST__ASK_BLOB:
	case MU__REQUEST__ASK_LOG:
	case MU__REQUEST__ASK_RECEIPT:
		ctl_read(c, req);
		return;
	default:
		ctl_post(c, to_core, req);
	}
}

static void on_request(void *arg, struct wire_call *call, const struct wire_peer *peer, struct mu_view bytes)
{
	struct ctl *c = arg;
	struct ctl_req *req;
	struct mu_view body = {0};
	struct mu_err err = {0};
	int code;

	atomic_fetch_add(&c->n.requests, 1);
	if (atomic_fetch_add(&c->requests, 1) >= CTL_REQUESTS_MAX) {
		atomic_fetch_sub(&c->requests, 1);
		atomic_fetch_add(&c->n.refused_busy, 1);
		reply_now(c, call, NULL, MU_EBUSY, "The controller has too many requests; try again");
		return;
	}
	req = ctl_req_new();
	req->call = call;
	req->deadline_msec = ctl_mono_msec() + CTL_REQUEST_SEC * 1000;
	/* By the controllers' common time: one whose own clock is off still hears nodes whose clocks are right. */
	code = auth_verify(&c->keys, bytes, peer, ctl_wall_usec(c) + atomic_load(&c->clock_off_usec), ctl_node_key_get, c, &req->arena, &req->who, &body, &err);
	if (code) {
		if (!atomic_load(&c->founded)) { /* it knows no node's key yet */
			ctl_req_fail(c, req, MU_ENOTREADY, "This controller is not a member of a cluster yet.");
			return;
		}
		atomic_fetch_add(&c->n.refused_auth, 1);
		diag(DIAG_VERBOSE, "A request from %s was refused: %s", peer->local ? "a local process" : peer->address, err.text);
		ctl_req_fail(c, req, code, err.text);
		return;
	}
	/* The wire lends its bytes for this call only; the request goes on. */
	req->raw = (struct mu_view){mu_arena_dup(&req->arena, body.data, body.len), body.len};
	body = req->raw;
	req->request = (Mu__Request *)mu_pb_unpack(&mu__request__descriptor, body.data, body.len, &req->arena);
	if (!req->request || req->request->ask_case == MU__REQUEST__ASK__NOT_SET) {
		atomic_fetch_add(&c->n.refused_bad, 1);
		ctl_req_fail(c, req, MU_EPROTO, "The controller cannot read the request; are the versions alike?");
		return;
	}
	req->author = author_of(c, req, &err);
	if (!req->author) {
		ctl_req_fail(c, req, MU_EUSER, err.text);
		return;
	}
	route(c, req);
}

int ctl_edge_open(struct ctl *c, struct mu_err *err)
{
	char local[256], remote[128];
	const char *addresses[2] = {local, remote};

	(void)snprintf(local, sizeof local, "ipc://%s", c->socket_path);
	(void)snprintf(remote, sizeof remote, "tcp://%s:%u", c->self->addr, c->self->port);
	return ctl_edge_listen(c, addresses, 2, err);
}

int ctl_edge_listen(struct ctl *c, const char *const *addresses, size_t count, struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf body = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf busy = {0};
	Mu__Reply reply = MU__REPLY__INIT;
	int code;

	reply.has_code = 1;
	reply.code = MU_EBUSY;
	mu_pb_pack(&reply.base, &body);
	(void)auth_seal_reply(&c->keys, NULL, (struct mu_view){body.data, body.len}, &busy, err);
	code = wire_server_open(addresses, count, CTL_REQUESTS_MAX, (struct mu_view){busy.data, busy.len}, on_request, c, &c->server, err);
	if (code)
		return mu_wrap(err, "Listening for clients on %s%s%s", addresses[0], count > 1 ? " and " : "", count > 1 ? addresses[1] : "");
	if (c->socket_path && chmod(c->socket_path, 0777))
		return mu_fail(err, MU_EIO, "The socket %s could not be opened to users: %m.", c->socket_path);
	return 0;
}
