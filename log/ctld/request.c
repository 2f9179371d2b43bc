/* ctld/request.c: what becomes of a request on the core thread: admitted here by the leader, forwarded to it, or kept until there is
 * one. A request is repeated after a change of leader: its id makes that harmless (the first answer comes back). */
#include "log/ctld/ctld.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "log/diag.h"
#include "proto/base/hash.h"
#include "proto/conf_fold.h"
#include "proto/pb.h"
#include "proto/pieces.h"

struct ctl_req *ctl_req_new(void)
{
	struct ctl_req *req = calloc(1, sizeof *req);

	if (!req)
		abort();
	return req;
}

void ctl_req_free(struct ctl *c, struct ctl_req *req)
{
	mu_arena_free(&req->arena);
	free(req);
	atomic_fetch_sub(&c->requests, 1);
}

static void answer_bytes(struct ctl *c, struct ctl_req *req, struct mu_view body)
{
	if (req->call) {
		ctl_reply(c, req->call, &req->who, body);
		req->call = NULL;
	} else if (req->peer) {
		log_replica_answer(c->replica, req->peer, body);
		req->peer = NULL;
	}
}

void ctl_req_answer(struct ctl *c, struct ctl_req *req, const Mu__Reply *reply)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf body = {0};

	mu_pb_pack(&reply->base, &body);
	answer_bytes(c, req, (struct mu_view){body.data, body.len});
	ctl_req_free(c, req);
}

void ctl_req_fail(struct ctl *c, struct ctl_req *req, int code, const char *text)
{
	Mu__Reply reply = MU__REPLY__INIT;

	reply.has_code = 1;
	reply.code = code;
	if (text && *text)
		reply.text = (char *)text;
	ctl_req_answer(c, req, &reply);
}

static void wait_for_leader(struct ctl *c, struct ctl_req *req)
{
	req->next = NULL;
	*c->waiting_tail = req;
	c->waiting_tail = &req->next;
}

static void give_up(struct ctl *c, struct ctl_req *req)
{
	if (req->maybe_in_log)
		ctl_req_fail(c, req, MU_EUNKNOWN, NULL);
	else
		ctl_req_fail(c, req, MU_ECONNECT, "Unable to contact slurm controller (connect failure): no controller leads");
}

void ctl_req_retry_waiting(struct ctl *c)
{
	struct ctl_req *list = c->waiting;
	int64_t now = ctl_mono_msec();

	c->waiting = NULL;
	c->waiting_tail = &c->waiting;
	while (list) {
		struct ctl_req *req = list;

		list = req->next;
		if (now >= req->deadline_msec)
			give_up(c, req);
		else
			ctl_req_dispatch(c, req);
	}
}

/* ---- forwarding ---- */
struct forward {
	struct ctl *ctl;
	struct ctl_req *req;
};

static void on_forwarded(void *arg, int code, struct mu_view bytes)
{
	struct forward *f = arg;
	struct ctl *c = f->ctl;
	struct ctl_req *req = f->req;
	struct mu_arena arena = {0};
	Mu__Reply *reply = NULL;

	free(f);
	if (!code)
		reply = (Mu__Reply *)mu_pb_unpack(&mu__reply__descriptor, bytes.data, bytes.len, &arena);
	if (!reply || reply->code == MU_ENOTLEADER) {
		if (code == MU_ETIMEOUT)
			req->maybe_in_log = true;
		wait_for_leader(c, req);
	} else {
		answer_bytes(c, req, bytes);
		ctl_req_free(c, req);
	}
	mu_arena_free(&arena);
}

static void forward(struct ctl *c, struct ctl_req *req)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf bytes = {0};
	Mu__Forward message = MU__FORWARD__INIT;
	struct forward *f;

	if (req->peer) { /* forwarded to us by mistake: its sender looks again */
		ctl_req_fail(c, req, MU_ENOTLEADER, NULL);
		return;
	}
	f = calloc(1, sizeof *f);
	if (!f)
		abort();
	f->ctl = c;
	f->req = req;
	message.author = req->author;
	message.has_request = 1;
	message.request.data = (uint8_t *)req->raw.data;
	message.request.len = req->raw.len;
	mu_pb_pack(&message.base, &bytes);
	if (log_replica_call(c->replica, c->leader, CTL_PEER_REQUEST, (struct mu_view){bytes.data, bytes.len}, 4000, on_forwarded, f)) {
		free(f);
		wait_for_leader(c, req);
	}
}

void ctl_req_from_peer(struct ctl *c, struct mu_view bytes, struct log_reply_to *reply)
{
	struct ctl_req *req = ctl_req_new();
	Mu__Forward *message;

	atomic_fetch_add(&c->requests, 1);
	req->peer = reply;
	req->deadline_msec = ctl_mono_msec() + 3000;
	message = (Mu__Forward *)mu_pb_unpack(&mu__forward__descriptor, bytes.data, bytes.len, &req->arena);
	if (message && message->author) {
		req->author = message->author;
		req->raw = (struct mu_view){message->request.data, message->request.len}; /* in the arena already */
		req->request = (Mu__Request *)mu_pb_unpack(&mu__request__descriptor, req->raw.data, req->raw.len, &req->arena);
	}
	if (!req->request)
		ctl_req_fail(c, req, MU_EPROTO, "A controller forwarded a malformed request.");
	else
		ctl_req_dispatch(c, req);
}

/* ---- blobs ---- */
static struct mu_hash *blob_slot(struct ctl *c, const uint8_t *hash)
{
	return &c->blob_held[(hash[0] | (unsigned)hash[1] << 8) % CTL_BLOBS_HELD];
}

/* From memory alone: the view would know of older ones too, but its disk may be slow, and a blob that comes twice is kept once. */
static bool blob_known(struct ctl *c, const uint8_t *hash)
{
	return !memcmp(blob_slot(c, hash)->b, hash, MU_HASH_BYTES);
}

void ctl_blob_committed(struct ctl *c, struct mu_view blob)
{
	struct mu_hash hash;

	mu_hash_bytes(blob.data, blob.len, &hash);
	*blob_slot(c, hash.b) = hash;
}

/* Proposes DATA so that it can be read back under *hash; a large one becomes pieces and *hash is changed to their list's. */
static int propose_blob(struct ctl *c, struct ctl_req *req, struct mu_view data, struct mu_hash *hash, struct mu_err *err)
{
	struct mu_buf list = {0};
	int code = 0;

	if (data.len <= CTL_BLOB_INLINE)
		return blob_known(c, hash->b) ? 0 : ctl_propose_blob(c, data);
	mu_buf_str(&list, MU_PIECES_HEAD);
	for (size_t off = 0; off < data.len && !code; off += MU_PIECE_BYTES) {
		struct mu_view piece = {data.data + off, data.len - off < MU_PIECE_BYTES ? data.len - off : MU_PIECE_BYTES};
		struct mu_hash h;

		mu_hash_bytes(piece.data, piece.len, &h);
		mu_buf_add(&list, h.b, sizeof h.b);
		if (!blob_known(c, h.b))
			code = ctl_propose_blob(c, piece);
	}
	if (!code) {
		void *kept = mu_arena_dup(&req->arena, list.data, list.len);

		mu_hash_bytes(kept, list.len, hash);
		code = ctl_propose_blob(c, (struct mu_view){kept, list.len});
	}
	mu_buf_free(&list);
	return code;
}

static int take_blob(struct ctl *c, struct ctl_req *req, Mu__SubmitAsk *ask, protobuf_c_boolean has, ProtobufCBinaryData *hash,
		     const char *what, struct mu_err *err)
{
	struct mu_hash h;

	if (!has)
		return 0;
	if (hash->len != MU_HASH_BYTES)
		return mu_fail(err, MU_EPROTO, "The hash of the %s has %zu bytes, not %d.", what, hash->len, MU_HASH_BYTES);
	for (size_t i = 0; i < ask->n_blob; i++) {
		ProtobufCBinaryData *d = &ask->blob[i]->data;
		int code;

		if (ask->blob[i]->hash.len != MU_HASH_BYTES || memcmp(ask->blob[i]->hash.data, hash->data, MU_HASH_BYTES))
			continue;
		if (d->len > CTL_BLOB_MAX)
			return mu_fail(err, MU_ELIMIT, "The %s has %zu bytes; at most %d are allowed.", what, d->len, CTL_BLOB_MAX);
		mu_hash_bytes(d->data, d->len, &h);
		if (memcmp(h.b, hash->data, MU_HASH_BYTES))
			return mu_fail(err, MU_EPROTO, "The %s is not what its hash says.", what);
		code = propose_blob(c, req, (struct mu_view){d->data, d->len}, &h, err);
		if (code)
			return mu_fail(err, code, "The log cannot take the %s now.", what);
		hash->data = mu_arena_dup(&req->arena, h.b, sizeof h.b);
		return 0;
	}
	/* Who submits again what the log has once (muster undo) names it only: rare enough to look on the disk. */
	MU_CLEANUP(mu_buf_free) struct mu_buf stored = {0};
	if (blob_known(c, hash->data) || view_blob_get(c->view, hash->data, &stored, err) == 0)
		return 0;
	return mu_fail(err, MU_EPROTO, "The %s was not sent with the request.", what);
}

/* ---- events of a request ---- */
enum { ID_BYTES = 24 };

static bool id_of(const struct ctl_req *req, uint8_t id[ID_BYTES])
{
	const Mu__RequestId *r = req->request->id;

	if (!r || r->nonce.len != 16)
		return false;
	mu_put_be64(id, (uint64_t)r->birth_usec);
	memcpy(id + 8, r->nonce.data, 16);
	return true;
}

/* A client that asked again while its first request is on the way: admission must not judge the copy by a State that does not know
 * what the first will do. */
static bool copy_is_flying(const struct ctl *c, const struct ctl_req *req)
{
	uint8_t id[ID_BYTES];

	return id_of(req, id) && mu_map_get(&c->flying, id, sizeof id);
}

void ctl_req_landed(struct ctl *c, struct ctl_req *req)
{
	uint8_t id[ID_BYTES];

	if (req->flying && id_of(req, id))
		mu_map_del(&c->flying, id, sizeof id);
	req->flying = false;
}

static void propose_or_wait(struct ctl *c, struct ctl_req *req, const Mu__Event *event)
{
	uint8_t id[ID_BYTES];

	if (!req->flying && id_of(req, id)) {
		mu_map_put(&c->flying, id, sizeof id, req);
		req->flying = true;
	}
	req->parts_left++;
	ctl_propose_event(c, event, req);
}

static void refuse(struct ctl *c, struct ctl_req *req, int code, const struct mu_err *err)
{
	atomic_fetch_add(&c->n.refused_admit, 1);
	ctl_req_fail(c, req, code, err->text);
}

static void lead_submit(struct ctl *c, struct ctl_req *req, Mu__Event *event)
{
	Mu__SubmitAsk *ask = req->request->submit;
	Mu__Submitted submitted = MU__SUBMITTED__INIT;
	struct mu_err err = {0};
	uint8_t key[32];
	int code;

	if (!req->past)
		atomic_fetch_add(&c->n.submits, 1);
	if (!ask->spec) {
		ctl_req_fail(c, req, MU_EPROTO, "The submission has no job specification.");
		return;
	}
	if (ask->n_component && ask->test_only) {
		ctl_req_fail(c, req, MU_EDISABLED, "--test-only is not supported for heterogeneous jobs: ask for each component by itself");
		return;
	}
	if (c->disk_low && !ask->test_only) {
		atomic_fetch_add(&c->n.refused_disk, 1);
		ctl_req_fail(c, req, MU_EDISKFULL, NULL);
		return;
	}
	if (getrandom(key, sizeof key, 0) != sizeof key)
		diag_fatal("The kernel gives no random bytes.");
	submitted.spec = ask->spec;
	submitted.component = ask->component;
	submitted.n_component = ask->n_component;
	submitted.has_job_key = 1;
	submitted.job_key.data = key;
	submitted.job_key.len = sizeof key;
	event->kind_case = MU__EVENT__KIND_SUBMITTED;
	event->submitted = &submitted;
	code = ctl_resolve(c, req, &submitted, &err);
	if (code == CTL_LATER)
		return;
	if (!code)
		code = sch_admit(c->st, event, &err);
	if (code) {
		refuse(c, req, code, &err);
		return;
	}
	if (ask->test_only) {
		Mu__Reply reply = MU__REPLY__INIT;

		code = sch_test_only(c->st, event, &req->arena, &reply, &err);
		if (code)
			refuse(c, req, code, &err);
		else
			ctl_req_answer(c, req, &reply);
		return;
	}
	code = take_blob(c, req, ask, ask->spec->has_script_hash, &ask->spec->script_hash, "script", &err);
	if (!code)
		code = take_blob(c, req, ask, ask->spec->has_env_hash, &ask->spec->env_hash, "environment", &err);
	if (code)
		refuse(c, req, code, &err);
	else
		propose_or_wait(c, req, event);
}

static void lead_one(struct ctl *c, struct ctl_req *req, Mu__Event *event)
{
	struct mu_err err = {0};
	int code = sch_admit(c->st, event, &err);

	if (code)
		refuse(c, req, code, &err);
	else
		propose_or_wait(c, req, event);
}

/* Which events a client may hand in as they are; who may is admission's question. */
static bool client_event(const Mu__Event *event)
{
	switch (event->kind_case) {
	case MU__EVENT__KIND_JOB_HOLD:
	case MU__EVENT__KIND_JOB_REQUEUE:
	case MU__EVENT__KIND_JOB_TOP:
	case MU__EVENT__KIND_JOB_SUSPEND:
	case MU__EVENT__KIND_JOB_UPDATE:
	case MU__EVENT__KIND_NODE_ENROLLED:
	case MU__EVENT__KIND_NODE_UPDATE:
	case MU__EVENT__KIND_PARTITION_UPDATE:
	case MU__EVENT__KIND_ACCOUNTS_CHANGED:
	case MU__EVENT__KIND_RESERVATION_CHANGED:
		return true;
	case MU__EVENT__KIND_NODE_FENCED:
		return event->author && event->author->operator_;
	default:
		return false;
	}
}

static bool speaks_for(const struct ctl_req *req, const char *node)
{
	return node && req->author->node && !strcmp(req->author->node, node);
}

static void lead_register(struct ctl *c, struct ctl_req *req, Mu__Event *event)
{
	Mu__RegisterAsk *ask = req->request->register_;

	if (!ask->node || !ask->node->inventory || !speaks_for(req, ask->node->inventory->name)) {
		ctl_req_fail(c, req, MU_EPERM, "A node registers only itself.");
		return;
	}
	event->kind_case = MU__EVENT__KIND_NODE_REGISTERED;
	event->node_registered = ask->node;
	lead_one(c, req, event);
}

static void lead_report(struct ctl *c, struct ctl_req *req, Mu__Event *event)
{
	Mu__ReportAsk *ask = req->request->report;

	for (size_t i = 0; i < ask->n_ended; i++)
		if (!speaks_for(req, ask->ended[i]->node)) {
			ctl_req_fail(c, req, MU_EPERM, "A node reports only what ended on itself.");
			return;
		}
	if (ask->n_ended + ask->n_steps > CTL_BATCH_EVENTS / 2) {
		ctl_req_fail(c, req, MU_ELIMIT, "A report names too many ends at once.");
		return;
	}
	/* Several events of one request: each is harmless to repeat by itself, and its id would let only the first one through. */
	event->request = NULL;
	req->parts_left++; /* held until all are proposed */
	for (size_t i = 0; i < ask->n_steps; i++) {
		event->kind_case = MU__EVENT__KIND_STEPS_REPORTED;
		event->steps_reported = ask->steps[i];
		propose_or_wait(c, req, event);
	}
	for (size_t i = 0; i < ask->n_ended; i++) {
		event->kind_case = MU__EVENT__KIND_ATTEMPT_ENDED;
		event->attempt_ended = ask->ended[i];
		propose_or_wait(c, req, event);
	}
	if (--req->parts_left == 0) {
		Mu__Reply reply = MU__REPLY__INIT;

		ctl_req_answer(c, req, &reply);
	}
}

int ctl_conf_fits(const Mu__Config *config, struct mu_err *err)
{
	size_t bytes = mu__config__get_packed_size(config);

	if (bytes <= CTL_CONF_MAX)
		return 0;
	return mu_fail(err, MU_ELIMIT,
		       "The configuration takes %zu KiB, but an entry of the log holds %d KiB; give nodes that are alike in one NodeName line (NodeName=n[1-1000] ...), so that they are kept as one.",
		       bytes / 1024, CTL_CONF_MAX / 1024);
}

/* The key pair, the log and the nodes' keys belong to one cluster: a file of another one is a slip. */
static int same_cluster(const struct ctl *c, const Mu__Config *config, struct mu_err *err)
{
	const char *name = sch_config(c->st)->cluster_name;

	if (!name || !config->cluster_name || strcmp(name, config->cluster_name) == 0)
		return 0;
	return mu_fail(err, MU_EINVAL, "The file is of cluster %s, but this is cluster %s, which keeps its name.",
		       config->cluster_name, name);
}

static void lead_reconfigure(struct ctl *c, struct ctl_req *req, Mu__Event *event)
{
	Mu__ReconfigureAsk *ask = req->request->reconfigure;
	Mu__ConfigSet set = MU__CONFIG_SET__INIT;
	struct mu_err err = {0};
	int code;

	if (!ask->config) {
		ctl_req_fail(c, req, MU_EPROTO, "The request has no configuration.");
		return;
	}
	set.config = mu_conf_fold(ask->config, &req->arena); /* an old client sends it at length */
	event->kind_case = MU__EVENT__KIND_CONFIG_SET;
	event->config_set = &set;
	code = sch_admit(c->st, event, &err);
	if (!code)
		code = same_cluster(c, set.config, &err);
	if (!code)
		code = ctl_conf_fits(set.config, &err);
	if (code) {
		refuse(c, req, code, &err);
	} else if (ask->plan_only) {
		Mu__Reply reply = MU__REPLY__INIT;

		ctl_req_answer(c, req, &reply);
	} else {
		propose_or_wait(c, req, event);
	}
}

static void lead(struct ctl *c, struct ctl_req *req)
{
	Mu__Event event = MU__EVENT__INIT;
	Mu__Request *r = req->request;

	if (ctl_project_bytes(c) > CTL_PROJECT_MAX) {
		atomic_fetch_add(&c->n.refused_busy, 1);
		ctl_req_fail(c, req, MU_EBUSY, "The controller is busy writing its view; try again");
		return;
	}
	event.author = req->author;
	event.request = r->id;
	switch (r->ask_case) {
	case MU__REQUEST__ASK_SUBMIT:
		lead_submit(c, req, &event);
		return;
	case MU__REQUEST__ASK_KILL:
		event.kind_case = MU__EVENT__KIND_JOB_SIGNAL;
		event.job_signal = r->kill->signal;
		if (!event.job_signal)
			ctl_req_fail(c, req, MU_EPROTO, "The request names no job.");
		else
			lead_one(c, req, &event);
		return;
	case MU__REQUEST__ASK_EVENT:
		if (!r->event->event) {
			ctl_req_fail(c, req, MU_EPROTO, "The request has no event.");
			return;
		}
		r->event->event->author = req->author;
		r->event->event->request = r->id;
		if (!client_event(r->event->event))
			ctl_req_fail(c, req, MU_EPERM, NULL);
		else
			lead_one(c, req, r->event->event);
		return;
	case MU__REQUEST__ASK_RECONFIGURE:
		lead_reconfigure(c, req, &event);
		return;
	case MU__REQUEST__ASK_REGISTER:
		lead_register(c, req, &event);
		return;
	case MU__REQUEST__ASK_REPORT:
		lead_report(c, req, &event);
		return;
	case MU__REQUEST__ASK_MEMBER:
		ctl_member(c, req);
		return;
	default:
		ctl_req_fail(c, req, MU_EPROTO, "This controller does not know the request.");
	}
}

void ctl_req_dispatch(struct ctl *c, struct ctl_req *req)
{
	if (c->closing) {
		wait_for_leader(c, req);
		return;
	}
	switch (req->request->ask_case) {
	case MU__REQUEST__ASK_POLL:
		ctl_poll_add(c, req);
		return;
	case MU__REQUEST__ASK_WAIT:
		ctl_wait_add(c, req);
		return;
	case MU__REQUEST__ASK_PING:
		ctl_ping(c, req);
		return;
	case MU__REQUEST__ASK_DIGEST:
		ctl_digest_ask(c, req);
		return;
	case MU__REQUEST__ASK_DIAG:
		ctl_diag_ask(c, req);
		return;
	case MU__REQUEST__ASK_CONTROL:
		ctl_control(c, req);
		return;
	default:
		break;
	}
	if (c->role == LOG_LEADER) {
		if (c->suspect)
			ctl_req_fail(c, req, MU_ECORRUPT, "Controllers disagree about the State and no majority agrees; requests are refused.");
		else if (c->leader_ready && c->in_flight < CTL_IN_FLIGHT && !copy_is_flying(c, req))
			lead(c, req);
		else
			wait_for_leader(c, req);
	} else if (c->leader) {
		forward(c, req);
	} else {
		wait_for_leader(c, req);
	}
}
