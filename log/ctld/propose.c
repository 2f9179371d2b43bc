/* ctld/propose.c: group commit: requests that arrive together share one entry and one sync.
 * Owns: the batch being gathered, what is in flight, the verdicts that answer proposers. */
#include "log/ctld/ctld.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "log/diag.h"
#include "proto/pb.h"

enum { SHARE = 64 }; /* events after which an entry does not wait for the one in flight */

static struct ctl_batch *batch_of(struct ctl *c)
{
	if (!c->batch) {
		c->batch = calloc(1, sizeof *c->batch);
		if (!c->batch)
			abort();
		c->batch->ctl = c;
	}
	return c->batch;
}

static void add_part(struct ctl_batch *b, uint8_t kind, size_t offset, struct ctl_req *req)
{
	struct ctl_part *p = &b->part[b->count++];

	p->kind = kind;
	p->offset = offset;
	p->len = b->bytes.len - offset;
	p->req = req;
}

static bool room_for(const struct ctl_batch *b, size_t bytes)
{
	size_t header = (b->count + 1) * LOG_PART_HEADER;

	return b->count + 1 < CTL_BATCH_EVENTS && b->bytes.len + header + bytes <= CTL_BATCH_BYTES;
}

void ctl_propose_event(struct ctl *c, const Mu__Event *event, struct ctl_req *req)
{
	size_t bytes = mu__event__get_packed_size(event);
	struct ctl_batch *b = batch_of(c);
	size_t offset;

	if (b->count && !room_for(b, bytes)) {
		ctl_propose_flush(c, true);
		b = batch_of(c);
	}
	offset = b->bytes.len;
	mu_pb_pack(&event->base, &b->bytes);
	if (event->kind_case == MU__EVENT__KIND_DECIDED)
		b->has_decided = true;
	add_part(b, LOG_PART_EVENT, offset, req);
}

int ctl_propose_blob(struct ctl *c, struct mu_view blob)
{
	struct ctl_batch *b = batch_of(c);
	size_t offset;

	if (b->count && !room_for(b, blob.len)) {
		ctl_propose_flush(c, true);
		b = batch_of(c);
	}
	offset = b->bytes.len;
	mu_buf_add(&b->bytes, blob.data, blob.len);
	add_part(b, LOG_PART_BLOB, offset, NULL);
	return 0;
}

struct ctl_verdicts *ctl_verdicts_at(struct ctl *c, uint64_t pos, bool make)
{
	struct ctl_verdicts *v = &c->ring[pos % CTL_VERDICT_RING];

	if (make) {
		v->pos = pos;
		v->count = 0;
	}
	return v->pos == pos ? v : NULL;
}

static void answer_committed(struct ctl *c, struct ctl_req *req)
{
	Mu__Reply reply = MU__REPLY__INIT;

	reply.has_code = 1;
	reply.code = req->verdict.code;
	if (req->verdict.text[0])
		reply.text = req->verdict.text;
	reply.has_job = req->verdict.job != 0;
	reply.job = req->verdict.job;
	reply.has_pos = 1;
	reply.pos = req->pos;
	ctl_req_answer(c, req, &reply);
}

/* One part of REQ was settled: CODE 0 with its verdict, or the proposal failed. */
static void part_settled(struct ctl *c, struct ctl_req *req, int code, const struct sch_verdict *verdict, uint64_t pos)
{
	if (code)
		req->code = code;
	else if (!req->verdict.code)
		req->verdict = *verdict;
	if (pos)
		req->pos = pos;
	if (--req->parts_left)
		return;
	ctl_req_landed(c, req);
	if (!req->code) {
		answer_committed(c, req);
		return;
	}
	req->maybe_in_log = req->maybe_in_log || req->code == MU_EUNKNOWN;
	req->code = 0;
	memset(&req->verdict, 0, sizeof req->verdict);
	/* Admission filled the message in: it starts again from the bytes. */
	req->request = (Mu__Request *)mu_pb_unpack(&mu__request__descriptor, req->raw.data, req->raw.len, &req->arena);
	req->next = NULL;
	*c->waiting_tail = req;
	c->waiting_tail = &req->next;
}

static void settle(struct ctl *c, struct ctl_batch *b, int code, uint64_t pos)
{
	struct ctl_verdicts *v = code ? NULL : ctl_verdicts_at(c, pos, false);
	struct sch_verdict too_large = {.code = MU_ELIMIT, .text = "The request is larger than an entry of the log may be."};
	size_t n = 0;

	if (!code && !v)
		code = MU_EUNKNOWN;
	for (size_t i = 0; i < b->count; i++) {
		if (b->part[i].kind != LOG_PART_EVENT)
			continue;
		if (b->part[i].req && code == MU_ELIMIT)
			part_settled(c, b->part[i].req, 0, &too_large, 0);
		else if (b->part[i].req)
			part_settled(c, b->part[i].req, v && n < v->count ? 0 : code ? code : MU_EUNKNOWN, v && n < v->count ? &v->v[n] : NULL, pos);
		n++;
	}
}

static void on_proposed(void *arg, int code, uint64_t pos)
{
	struct ctl_batch *b = arg;
	struct ctl *c = b->ctl;

	c->in_flight--;
	if (b->has_decided)
		c->decided_in_flight = false;
	c->tick_in_flight = false;
	settle(c, b, code, pos);
	if (!code && b->term && b->term == c->term)
		ctl_elected(c, pos);
	mu_buf_free(&b->bytes);
	free(b);
	if (!c->closing)
		ctl_req_retry_waiting(c);
}

static void send_batch(struct ctl *c)
{
	struct log_part parts[CTL_BATCH_EVENTS * 2];
	struct ctl_batch *b = c->batch;
	int code;

	c->batch = NULL;
	for (size_t i = 0; i < b->count; i++) {
		parts[i].kind = b->part[i].kind;
		parts[i].bytes = (struct mu_view){b->bytes.data + b->part[i].offset, b->part[i].len};
	}
	c->in_flight++;
	if (b->has_decided)
		c->decided_in_flight = true;
	code = log_replica_propose(c->replica, ctl_stamp(c), parts, b->count, on_proposed, b);
	if (code) {
		diag_debug("An entry of %zu parts was not taken: %s", b->count, mu_strerror(code));
		on_proposed(b, code == MU_ELIMIT ? code : MU_ENOTLEADER, 0);
	}
}

void ctl_propose_flush(struct ctl *c, bool force)
{
	if (!c->batch || !c->batch->count)
		return;
	if (force || c->in_flight == 0 || (c->batch->count >= SHARE && c->in_flight < CTL_IN_FLIGHT))
		send_batch(c);
}
