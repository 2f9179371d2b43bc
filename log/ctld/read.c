/* ctld/read.c: queries: first the position they must see, then a reader thread answers from the view.
 * Owns: readers, the coalescing of position questions (one under way for all that wait). */
#include "log/ctld/ctld.h"

#include <stdlib.h>
#include <string.h>

#include "log/diag.h"
#include "log/entry.h"
#include "proto/base/map.h"
#include "proto/pb.h"
#include "proto/pieces.h"
#include "query/keep.h"
#include "query/rows.h"

enum { READ_NO_LEADER_MSEC = 1000, READ_WAIT_MSEC = 3000, LOG_PAGE_BYTES = 4 << 20 };

struct task {
	struct task *next;
	void (*fn)(struct ctl *c, void *arg);
	void *arg;
};

struct ctl_readers {
	struct ctl *ctl;
	pthread_t thread[CTL_READERS];
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct task *first, **tail;
	unsigned queued;
	bool stop;
	/* core thread only */
	struct ctl_req *wanting;  /* arrived since the last question went out */
	struct ctl_req *asking;   /* the question in flight covers these */
	bool in_flight;
	bool confirmed; /* a leader has told a position since this controller started */
};

void ctl_read_task(struct ctl *c, void (*fn)(struct ctl *c, void *arg), void *arg)
{
	struct ctl_readers *rs = c->readers;
	struct task *t = calloc(1, sizeof *t);

	if (!t)
		abort();
	t->fn = fn;
	t->arg = arg;
	pthread_mutex_lock(&rs->lock);
	*rs->tail = t;
	rs->tail = &t->next;
	rs->queued++;
	pthread_cond_signal(&rs->cond);
	pthread_mutex_unlock(&rs->lock);
}

static void *run(void *arg)
{
	struct ctl_readers *rs = arg;

	for (;;) {
		struct task *t;

		pthread_mutex_lock(&rs->lock);
		while (!rs->first && !rs->stop)
			pthread_cond_wait(&rs->cond, &rs->lock);
		t = rs->first;
		if (t) {
			rs->first = t->next;
			if (!rs->first)
				rs->tail = &rs->first;
			rs->queued--;
		}
		pthread_mutex_unlock(&rs->lock);
		if (!t)
			return NULL;
		t->fn(rs->ctl, t->arg);
		free(t);
	}
}

int ctl_readers_start(struct ctl *c, struct mu_err *err)
{
	struct ctl_readers *rs = calloc(1, sizeof *rs);

	if (!rs)
		return mu_fail(err, MU_ENOMEM, "No memory for readers.");
	rs->ctl = c;
	rs->tail = &rs->first;
	pthread_mutex_init(&rs->lock, NULL);
	pthread_cond_init(&rs->cond, NULL);
	for (unsigned i = 0; i < CTL_READERS; i++)
		if (pthread_create(&rs->thread[i], NULL, run, rs))
			return mu_fail(err, MU_EINTERNAL, "A reader thread could not be started.");
	c->readers = rs;
	return 0;
}

void ctl_readers_stop(struct ctl *c)
{
	struct ctl_readers *rs = c->readers;

	if (!rs)
		return;
	pthread_mutex_lock(&rs->lock);
	rs->stop = true;
	pthread_cond_broadcast(&rs->cond);
	pthread_mutex_unlock(&rs->lock);
	for (unsigned i = 0; i < CTL_READERS; i++)
		pthread_join(rs->thread[i], NULL);
	pthread_mutex_destroy(&rs->lock);
	pthread_cond_destroy(&rs->cond);
	free(rs);
	c->readers = NULL;
}

/* ---- answers, on a reader thread ---- */
static void answer_query(struct ctl *c, struct ctl_req *req)
{
	struct query_caller caller = {.uid = req->author->uid, .operator = req->author->operator_, .user = req->author->user};
	Mu__Reply reply = MU__REPLY__INIT;
	Mu__Rows rows = MU__ROWS__INIT;
	struct mu_err err = {0};
	int64_t age = req->deadline_msec < 0 ? -req->deadline_msec : 0;
	int code;

	(void)view_wait(c->view, req->pos, READ_WAIT_MSEC);
	code = query_rows(c->view, req->request->query, &caller, &req->arena, &rows, &err);
	if (code) {
		ctl_req_fail(c, req, code, err.text);
		return;
	}
	if (age) {
		rows.has_age_usec = 1;
		rows.age_usec = age * 1000;
	}
	reply.answer_case = MU__REPLY__ANSWER_ROWS;
	reply.rows = &rows;
	ctl_req_answer(c, req, &reply);
}

static ProtobufCBinaryData kept(struct ctl_req *req, const void *data, size_t len)
{
	return (ProtobufCBinaryData){.len = len, .data = mu_arena_dup(&req->arena, data, len)};
}

static void sign_page(struct ctl *c, struct ctl_req *req, Mu__LogReply *log)
{
	uint8_t signature[AUTH_SIGN_BYTES];
	struct mu_hash chain, digest;
	int64_t usec;
	bool known;

	if (view_mark(c->view, log->last, &chain, &digest, &known, &usec, NULL))
		return;
	auth_chain_sign(c->keys.cluster_secret, log->last, &chain, signature);
	log->has_chain_last = log->has_signature = 1;
	log->chain_last = kept(req, chain.b, sizeof chain.b);
	log->signature = kept(req, signature, sizeof signature);
}

/* ---- receipts ---- */
/* Is the part a submission of the asker's, with the script that he names? */
static bool is_own(const struct ctl_req *req, const struct log_part *part)
{
	const Mu__ReceiptAsk *ask = req->request->receipt;
	struct mu_arena arena = {0};
	bool own = false;

	if (part->kind == LOG_PART_EVENT) {
		const Mu__Event *e =
		    (Mu__Event *)mu_pb_unpack(&mu__event__descriptor, part->bytes.data, part->bytes.len, &arena);
		own = e && e->kind_case == MU__EVENT__KIND_SUBMITTED && e->author && e->author->uid == req->author->uid &&
		      e->submitted->spec &&
		      (!ask->script_hash.len ||
		       (e->submitted->spec->script_hash.len == ask->script_hash.len &&
			memcmp(e->submitted->spec->script_hash.data, ask->script_hash.data, ask->script_hash.len) == 0));
	}
	mu_arena_free(&arena);
	return own;
}

/* Fills in leaves and the submission itself; false when the entry holds none of the asker's. */
static bool receipt_parts(struct ctl_req *req, const struct log_entry *e, Mu__ReceiptReply *receipt)
{
	struct log_part part;
	size_t cursor = 0;
	bool found = false;

	receipt->leaf = mu_arena_alloc(&req->arena, (e->part_count + 1) * sizeof *receipt->leaf);
	while (log_entry_next(e, &cursor, &part) == 1) {
		struct mu_hash leaf;
		log_leaf(&part, &leaf);
		if (!found && is_own(req, &part)) {
			found = true;
			receipt->has_part = receipt->has_event = 1;
			receipt->part = (uint32_t)receipt->n_leaf;
			receipt->event = kept(req, part.bytes.data, part.bytes.len);
		}
		receipt->leaf[receipt->n_leaf++] = kept(req, leaf.b, sizeof leaf.b);
	}
	return found;
}

static void answer_receipt(struct ctl *c, struct ctl_req *req)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf raw = {0};
	Mu__Reply reply = MU__REPLY__INIT;
	Mu__ReceiptReply receipt = MU__RECEIPT_REPLY__INIT;
	uint64_t pos = req->request->receipt->pos;
	uint8_t signature[AUTH_SIGN_BYTES];
	struct mu_hash chain, first = {{0}}, digest;
	struct mu_err err = {0};
	struct log_entry e;
	int64_t usec;
	bool known;

	(void)view_wait(c->view, pos, READ_WAIT_MSEC);
	int code = pos > 1 ? view_mark(c->view, pos - 1, &first, &digest, &known, &usec, &err) : 0;
	if (!code)
		code = view_entry_get(c->view, pos, &raw, &chain, &err);
	if (!code)
		code = log_entry_parse_kept(raw.data, raw.len, &e);
	if (!code && !receipt_parts(req, &e, &receipt))
		code = mu_fail(&err, MU_EPERM, "That entry of the log holds no such submission of yours");
	if (code) {
		ctl_req_fail(c, req, code, err.text);
		return;
	}
	auth_chain_sign(c->keys.cluster_secret, pos, &chain, signature);
	receipt.has_chain_before = receipt.has_header = receipt.has_chain = receipt.has_signature = 1;
	receipt.chain_before = kept(req, first.b, sizeof first.b);
	receipt.header = kept(req, raw.data, LOG_ENTRY_HEADER);
	receipt.chain = kept(req, chain.b, sizeof chain.b);
	receipt.signature = kept(req, signature, sizeof signature);
	reply.answer_case = MU__REPLY__ANSWER_RECEIPT;
	reply.receipt = &receipt;
	ctl_req_answer(c, req, &reply);
}

struct refusals {
	struct ctl_req *req;
	Mu__LogReply *log;
	size_t cap;
};

static void add_refusal(void *arg, uint64_t pos, uint32_t part, int32_t code, struct mu_view text)
{
	struct refusals *f = arg;
	Mu__Refusal *r = mu_arena_alloc(&f->req->arena, sizeof *r);

	if (f->log->n_refusal == f->cap) {
		Mu__Refusal **more = mu_arena_alloc(&f->req->arena, (f->cap = f->cap ? 2 * f->cap : 16) * sizeof *more);

		if (f->log->n_refusal)
			memcpy(more, f->log->refusal, f->log->n_refusal * sizeof *more);
		f->log->refusal = more;
	}
	mu__refusal__init(r);
	r->has_pos = r->has_part = r->has_code = 1;
	r->pos = pos;
	r->part = part;
	r->code = code;
	r->text = mu_arena_printf(&f->req->arena, "%.*s", (int)text.len, (const char *)text.data);
	f->log->refusal[f->log->n_refusal++] = r;
}

static void answer_log(struct ctl *c, struct ctl_req *req)
{
	const Mu__LogAsk *ask = req->request->log;
	Mu__Reply reply = MU__REPLY__INIT;
	Mu__LogReply log = MU__LOG_REPLY__INIT;
	struct mu_err err = {0};
	struct mu_hash chain, digest;
	int64_t usec;
	bool known;
	size_t bytes = 0, cap = 0, max = ask->max_bytes && ask->max_bytes < LOG_PAGE_BYTES ? ask->max_bytes : LOG_PAGE_BYTES;
	uint64_t pos = ask->from ? ask->from : view_archive_first(c->view), last = ask->to ? ask->to : UINT64_MAX;

	if (!req->author->operator_) {
		ctl_req_fail(c, req, MU_EPERM, NULL);
		return;
	}
	if (ask->wait_msec)
		(void)view_wait(c->view, pos, ask->wait_msec > CTL_POLL_MSEC_MAX ? CTL_POLL_MSEC_MAX : ask->wait_msec);
	/* What was asked for may reach before what is kept: then the word on the cut goes with it. */
	if (!view_cut(c->view, &req->arena, &log.cut, NULL) && pos <= log.cut->pos)
		pos = log.cut->pos + 1;
	else
		log.cut = NULL;
	log.has_first = log.has_last = 1;
	log.first = pos;
	if (pos > 1 && !view_mark(c->view, pos - 1, &chain, &digest, &known, &usec, NULL)) {
		log.has_chain_before = 1;
		log.chain_before = kept(req, chain.b, sizeof chain.b);
	}
	for (; pos && pos <= last && bytes < max; pos++) {
		MU_CLEANUP(mu_buf_free) struct mu_buf raw = {0};

		if (view_entry_get(c->view, pos, &raw, &chain, &err))
			break;
		if (log.n_entry == cap) {
			ProtobufCBinaryData *more = mu_arena_alloc(&req->arena, (cap = cap ? 2 * cap : 64) * sizeof *more);

			if (log.n_entry)
				memcpy(more, log.entry, log.n_entry * sizeof *more);
			log.entry = more;
		}
		log.entry[log.n_entry].data = mu_arena_dup(&req->arena, raw.data, raw.len);
		log.entry[log.n_entry++].len = raw.len;
		log.last = pos;
		bytes += raw.len;
	}
	if (log.n_entry)
		(void)view_refusals(c->view, log.first, log.last, add_refusal, &(struct refusals){req, &log, 0}, &err);
	if (ask->sign && log.n_entry)
		sign_page(c, req, &log);
	reply.answer_case = MU__REPLY__ANSWER_LOG;
	reply.log = &log;
	ctl_req_answer(c, req, &reply);
}

/* ---- blobs: scripts and environments ---- */
static int blob_whole(struct ctl *c, const uint8_t *hash, struct mu_buf *out, struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf list = {0};
	int code = view_blob_get(c->view, hash, &list, err);
	size_t head = MU_PIECES_HEAD_BYTES;

	if (code)
		return code;
	if (list.len < head || memcmp(list.data, MU_PIECES_HEAD, head)) {
		mu_buf_add(out, list.data, list.len);
		return 0;
	}
	for (size_t at = head; at + MU_HASH_BYTES <= list.len; at += MU_HASH_BYTES) {
		code = view_blob_get(c->view, list.data + at, out, err);
		if (code)
			return code;
		if (out->len > CTL_BLOB_MAX)
			return mu_fail(err, MU_ECORRUPT, "A script or environment in the view is larger than any that was accepted.");
	}
	return 0;
}

static void answer_blob(struct ctl *c, struct ctl_req *req)
{
	enum { PAGE = 4 << 20, ALSO = 256 << 10 };
	const Mu__BlobAsk *ask = req->request->blob;
	MU_CLEANUP(mu_buf_free) struct mu_buf out = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf also = {0};
	Mu__Reply reply = MU__REPLY__INIT;
	Mu__BlobReply blob = MU__BLOB_REPLY__INIT;
	struct mu_err err = {0};
	int code;

	(void)view_wait(c->view, req->pos, READ_WAIT_MSEC);
	code = blob_whole(c, ask->hash.data, &out, &err);
	if (!code && ask->offset > out.len)
		code = mu_fail(&err, MU_EINVAL, "The offset lies behind the end of the blob.");
	if (code) {
		ctl_req_fail(c, req, code, err.text);
		return;
	}
	blob.has_data = blob.has_total = 1;
	blob.total = out.len;
	blob.data.data = out.data + ask->offset;
	blob.data.len = out.len - ask->offset < PAGE ? out.len - ask->offset : PAGE;
	/* A script and its environment are small as a rule, and a node that starts a job wants both. */
	if (ask->has_also && !blob_whole(c, ask->also.data, &also, &err) && also.len <= ALSO) {
		blob.has_also = 1;
		blob.also.data = also.data;
		blob.also.len = also.len;
	}
	reply.answer_case = MU__REPLY__ANSWER_BLOB;
	reply.blob = &blob;
	ctl_req_answer(c, req, &reply);
}

static void answer(struct ctl *c, void *arg)
{
	struct ctl_req *req = arg;

	switch (req->request->ask_case) {
	case MU__REQUEST__ASK_QUERY:
		answer_query(c, req);
		return;
	case MU__REQUEST__ASK_LOG:
		answer_log(c, req);
		return;
	case MU__REQUEST__ASK_RECEIPT:
		answer_receipt(c, req);
		return;
	default:
		answer_blob(c, req);
	}
}

/* ---- which position, on the core thread ---- */
static bool same_hash(protobuf_c_boolean has, const ProtobufCBinaryData *a, const ProtobufCBinaryData *b)
{
	return has && a->len == MU_HASH_BYTES && b->len == MU_HASH_BYTES && !memcmp(a->data, b->data, MU_HASH_BYTES);
}

static bool job_names(const Mu__JobSpec *spec, const ProtobufCBinaryData *hash)
{
	return same_hash(spec->has_script_hash, &spec->script_hash, hash) || same_hash(spec->has_env_hash, &spec->env_hash, hash);
}

/* A blob is for the job's owner, operators, and nodes that run the job; its name must be one the job carries. */
static bool may_read_blob(struct ctl *c, const struct ctl_req *req)
{
	const Mu__BlobAsk *ask = req->request->blob;
	const Mu__JobRow *job = sch_job(c->st, ask->job);
	bool named, allowed = false;

	if (!job || !job->spec)
		return false;
	named = job_names(job->spec, &ask->hash) && (!ask->has_also || job_names(job->spec, &ask->also));
	if (req->author->node) {
		for (size_t i = 0; i < job->n_alloc && !allowed; i++)
			allowed = job->alloc[i]->node && !strcmp(job->alloc[i]->node, req->author->node);
	} else {
		allowed = req->author->operator_ || job->uid == req->author->uid;
	}
	return named && allowed;
}

/* The same for a job that State has let go: what history says, to whom it says it. On a reader thread. */
static void answer_old_blob(struct ctl *c, void *arg)
{
	struct ctl_req *req = arg;
	struct query_caller caller = {.uid = req->author->uid, .operator = req->author->operator_, .user = req->author->user};
	Mu__Query query = MU__QUERY__INIT;
	Mu__Rows rows = MU__ROWS__INIT;
	bool allowed = false;

	query.has_what = query.has_duplicates = query.duplicates = 1;
	query.what = MU__WHAT__WHAT_ACCT;
	query.job = &req->request->blob->job;
	query.n_job = 1;
	if (!req->author->node && !query_rows(c->view, &query, &caller, &req->arena, &rows, NULL))
		for (size_t i = 0; i < rows.n_row && !allowed; i++) {
			const Mu__HistRow *row = (Mu__HistRow *)mu_pb_unpack(&mu__hist_row__descriptor, rows.row[i].data, rows.row[i].len,
									     &req->arena);
			allowed = row && row->job && row->job->spec && (caller.operator|| row->job->uid == caller.uid) &&
				  job_names(row->job->spec, &req->request->blob->hash) && !req->request->blob->has_also;
		}
	if (allowed)
		answer_blob(c, req);
	else
		ctl_req_fail(c, req, MU_EPERM, NULL);
}

static void release(struct ctl *c, struct ctl_req *list, uint64_t pos, int64_t age_msec)
{
	while (list) {
		struct ctl_req *req = list;

		list = req->next;
		bool old = req->request->ask_case == MU__REQUEST__ASK_BLOB && !sch_job(c->st, req->request->blob->job);
		if (req->request->ask_case == MU__REQUEST__ASK_BLOB && !old && !may_read_blob(c, req)) {
			ctl_req_fail(c, req, MU_EPERM, NULL);
			continue;
		}
		req->pos = pos;
		req->deadline_msec = age_msec ? -age_msec : 0;
		ctl_read_task(c, old ? answer_old_blob : answer, req);
	}
}

static void ask_position(struct ctl *c);

static void on_pos(void *arg, int code, struct mu_view bytes)
{
	struct ctl *c = arg;
	struct ctl_readers *rs = c->readers;
	struct ctl_req *list;

	if (!rs)
		return;
	list = rs->asking;
	rs->asking = NULL;
	rs->in_flight = false;
	if (!code && bytes.len == 8) {
		rs->confirmed = true;
		release(c, list, mu_get_be64(bytes.data), 0);
		ask_position(c); /* for those that came meanwhile */
		return;
	}
	while (list) { /* asked again by housekeeping, or answered with its age */
		struct ctl_req *req = list;

		list = req->next;
		req->next = rs->wanting;
		rs->wanting = req;
	}
}

/* One question is under way at a time, for all that came before it was put. */
static void ask_position(struct ctl *c)
{
	struct ctl_readers *rs = c->readers;

	if (!rs->wanting || rs->in_flight)
		return;
	if (c->role == LOG_LEADER && c->leader_ready && log_replica_lease(c->replica)) {
		struct ctl_req *list = rs->wanting;

		rs->wanting = NULL;
		rs->confirmed = true;
		release(c, list, sch_pos(c->st), 0);
	} else if (c->role != LOG_LEADER && c->leader) {
		rs->asking = rs->wanting;
		rs->wanting = NULL;
		rs->in_flight = true;
		if (log_replica_call(c->replica, c->leader, CTL_PEER_READPOS, (struct mu_view){NULL, 0}, 1000, on_pos, c))
			on_pos(c, MU_ECONNECT, (struct mu_view){NULL, 0});
	}
}

void ctl_readpos_from_peer(struct ctl *c, struct log_reply_to *reply)
{
	uint8_t pos[8];
	bool current = c->role == LOG_LEADER && c->leader_ready && log_replica_lease(c->replica);

	mu_put_be64(pos, sch_pos(c->st));
	log_replica_answer(c->replica, reply, (struct mu_view){pos, current ? 8 : 0});
}

/* How old State may be for a question that nobody with the lease has answered in WAITED_MSEC: a leader that is known
 * may not know yet what is committed. Before the first such answer only State's own clock tells. */
static int64_t age_of_state(const struct ctl *c, int64_t waited_msec)
{
	int64_t age = c->leader_seen_msec ? ctl_mono_msec() - c->leader_seen_msec : 0;
	int64_t behind = (ctl_wall_usec(c) - sch_now_usec(c->st)) / 1000;

	age = age > waited_msec ? age : waited_msec;
	return !c->readers->confirmed && behind > age ? behind : age;
}

void ctl_read_housekeeping(struct ctl *c)
{
	struct ctl_readers *rs = c->readers;
	struct ctl_req **at = &rs->wanting;
	int64_t now = ctl_mono_msec();

	ask_position(c);
	while (*at) {
		struct ctl_req *req = *at;
		int64_t waited = now - (req->deadline_msec - CTL_REQUEST_SEC * 1000);

		if (waited >= READ_NO_LEADER_MSEC) {
			*at = req->next;
			req->next = NULL;
			release(c, req, sch_pos(c->st), age_of_state(c, waited));
		} else {
			at = &req->next;
		}
	}
}

static void wants_position(struct ctl *c, void *arg)
{
	struct ctl_req *req = arg;

	if (req->request->ask_case == MU__REQUEST__ASK_LOG) {
		ctl_read_task(c, answer, req);
		return;
	}
	/* A blob never changes: where the job is known here, nobody need be asked how new the State is. */
	if (req->request->ask_case == MU__REQUEST__ASK_BLOB && may_read_blob(c, req)) {
		req->pos = sch_pos(c->st);
		ctl_read_task(c, answer, req);
		return;
	}
	req->next = c->readers->wanting;
	c->readers->wanting = req;
	ask_position(c);
}

bool ctl_read_full(const struct ctl *c)
{
	return c->readers->queued > CTL_READ_QUEUE;
}

void ctl_read(struct ctl *c, struct ctl_req *req)
{
	if (ctl_read_full(c)) {
		atomic_fetch_add(&c->n.refused_busy, 1);
		ctl_req_fail(c, req, MU_EBUSY, "The controller has too many queries waiting; try again");
		return;
	}
	ctl_post(c, wants_position, req);
}
