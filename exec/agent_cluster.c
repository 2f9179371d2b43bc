/* exec/agent_cluster.c: what the agent says to controllers and hears from them. Three conversations go on
 * side by side: orders (a long poll, which is the heartbeat too), reports, and blobs, so that none waits for
 * another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "exec/agent.h"
#include "exec/shepherd.h"
#include "exec/spool.h"
#include "log/diag.h"
#include "proto/base/hash.h"
#include "proto/pb.h"
#include "proto/pieces.h"
#include "proto/states.h"
#include "proto/version.h"

enum { BLOB_PATIENCE_USEC = 60000000, LOOK_AGAIN_USEC = 200000, EARLY_WAIT_MSEC = 500 };

static void ask(struct agent_link *l, Mu__Request *r, unsigned timeout_msec)
{
	Mu__RequestId id = MU__REQUEST_ID__INIT;
	uint8_t nonce[16];
	if (getrandom(nonce, sizeof nonce, 0) != (ssize_t)sizeof nonce)
		abort();
	id.has_birth_usec = id.has_nonce = 1;
	id.birth_usec = exe_wall_usec();
	id.nonce = (ProtobufCBinaryData){sizeof nonce, nonce};
	r->id = &id;
	r->client = "muster-agent " MU_VERSION;
	agent_link_ask(l, r, timeout_msec);
}

/* ---- orders and registration ---- */

static bool unordered_alive(const struct agent *a)
{
	for (const struct agent_attempt *t = a->attempt; t; t = t->next)
		if (t->phase == EXE_ENDING && t->record->end_cause == END_NO_SUCH_ATTEMPT)
			return true;
	return false;
}

/* What ended before this node was off is told before it registers: by the registration under another boot id
 * whatever is not known to have ended counts as lost with the node. */
static bool old_ends_untold(const struct agent *a)
{
	for (const struct agent_attempt *t = a->attempt; t; t = t->next)
		if (t->of_old_boot && t->phase == EXE_ENDED && !t->record->acknowledged &&
		    t->record->ended->cause != END_NODE_FAIL)
			return true;
	return false;
}

static void ask_register(struct agent *a)
{
	Mu__Request r = MU__REQUEST__INIT;
	Mu__RegisterAsk ask_body = MU__REGISTER_ASK__INIT;
	Mu__NodeRegistered node = MU__NODE_REGISTERED__INIT;
	Mu__NodeRow row = MU__NODE_ROW__INIT;
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	exe_inventory_row(&a->inventory, &row);
	row.name = a->node;
	row.version = MU_SLURM_VERSION;
	row.has_agent_start_usec = row.has_port = 1;
	row.agent_start_usec = a->start_usec;
	row.addr = a->conf->addr && a->conf->addr[0] ? a->conf->addr : a->node;
	row.port = a->conf->port;
	node.inventory = &row;
	node.has_seen_pos = a->seen_pos != 0;
	node.seen_pos = a->seen_pos;
	node.held = mu_arena_alloc(&arena, (a->attempt_count + 1) * sizeof *node.held);
	for (struct agent_attempt *t = a->attempt; t; t = t->next) {
		if (t->phase == EXE_ENDED)
			continue;
		Mu__HeldAttempt *h = mu_arena_alloc(&arena, sizeof *h);
		mu__held_attempt__init(h);
		h->has_job = h->has_attempt = 1;
		h->job = t->order->job;
		h->attempt = t->order->attempt;
		node.held[node.n_held++] = h;
	}
	ask_body.node = &node;
	ask_body.version = MU_VERSION;
	ask_body.has_conf_hash = a->config_hash_len > 0;
	ask_body.conf_hash = (ProtobufCBinaryData){a->config_hash_len, a->config_hash};
	r.ask_case = MU__REQUEST__ASK_REGISTER;
	r.register_ = &ask_body;
	a->asked = AGENT_ASKED_REGISTER;
	ask(a->poll_link, &r, AGENT_ASK_MSEC);
}

static void ask_poll(struct agent *a)
{
	Mu__Request r = MU__REQUEST__INIT;
	Mu__PollAsk p = MU__POLL_ASK__INIT;
	Mu__NodeBeat beat = MU__NODE_BEAT__INIT;
	beat.node = p.node = a->node;
	beat.has_load_centi = beat.has_free_mem_mib = 1;
	exe_inventory_beat(&beat.load_centi, &beat.free_mem_mib);
	p.beat = &beat;
	p.has_boot_id = p.has_base_pos = p.has_wait_msec = p.has_agent_start_usec = p.has_base_digest = 1;
	p.boot_id = (ProtobufCBinaryData){sizeof a->inventory.boot_id, a->inventory.boot_id};
	p.base_pos = a->base_pos;
	p.base_digest = (ProtobufCBinaryData){a->base_digest_len, a->base_digest};
	p.agent_start_usec = a->start_usec;
	p.wait_msec = a->registered ? a->heartbeat_sec * 1000 : a->looked ? EARLY_WAIT_MSEC : 0;
	r.ask_case = MU__REQUEST__ASK_POLL;
	r.poll = &p;
	a->asked = AGENT_ASKED_POLL;
	ask(a->poll_link, &r, 2 * p.wait_msec + AGENT_POLL_SLACK_MSEC);
}

static void ask_config(struct agent *a)
{
	Mu__Request r = MU__REQUEST__INIT;
	Mu__Query q = MU__QUERY__INIT;
	q.has_what = 1;
	q.what = MU__WHAT__WHAT_CONFIG;
	r.ask_case = MU__REQUEST__ASK_QUERY;
	r.query = &q;
	a->asked = AGENT_ASKED_CONFIG;
	ask(a->poll_link, &r, AGENT_ASK_MSEC);
}

static void take_orders(struct agent *a, const Mu__OrderSet *set)
{
	/* A controller that has not yet seen the registration asks for what is done. */
	bool behind = set->has_pos && set->pos < a->register_pos;
	if (set->register_ && !a->register_wanted && !behind) {
		diag_info("the controllers want this node to register");
		a->register_wanted = true;
	}
	/* No orders yet: the node is to say first that it is there. */
	if (!set->has_pos) {
		a->looked = true;
		return;
	}
	a->seen_pos = set->pos;
	size_t len = set->config_hash.len;
	if (len && len <= sizeof a->config_hash &&
	    (len != a->config_hash_len || memcmp(a->config_hash, set->config_hash.data, len) != 0)) {
		a->config_wanted = a->config_hash_len > 0;
		a->config_hash_len = len;
		memcpy(a->config_hash, set->config_hash.data, len);
	}
	if (!set->unchanged)
		agent_apply(a, set);
	else
		a->looked = true;
}

static void take_registered(struct agent *a, const Mu__Reply *reply)
{
	a->registered = true;
	a->register_wanted = false;
	a->register_pos = reply->pos;
	a->base_pos = 0;
	a->base_digest_len = 0;
	diag_info("registered %s: %u CPUs, %llu MiB, at position %llu", a->node, a->inventory.cpus,
		  (unsigned long long)a->inventory.real_memory_mib, (unsigned long long)reply->pos);
}

static void take_config(struct agent *a, const Mu__Reply *reply)
{
	a->config_wanted = false;
	if (!reply->rows || reply->rows->n_row == 0)
		return;
	struct mu_arena arena = {0};
	const ProtobufCBinaryData *row = &reply->rows->row[0];
	Mu__ConfigRow *c =
	    (Mu__ConfigRow *)mu_pb_unpack(&mu__config_row__descriptor, row->data, row->len, &arena);
	if (!c || !c->config) {
		mu_arena_free(&arena);
		return;
	}
	mu_arena_free(&a->live_arena);
	a->live_arena = arena;
	a->live = c->config;
	agent_config_follow(a, c->config);
	diag_info("the cluster's configuration has changed: KillWait=%u, heartbeat every %u s",
		  a->kill_wait_sec, a->heartbeat_sec);
}

static void take_poll_answer(struct agent *a)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	struct mu_err err = {0};
	Mu__Reply *reply;
	int code;
	if (!agent_link_take(a->poll_link, &arena, &code, &reply, &err))
		return;
	int asked = a->asked;
	a->asked = AGENT_ASKED_NOTHING;
	if (code == 0 && reply->code != 0)
		code = mu_fail(&err, reply->code, "%s", reply->text ? reply->text : mu_strerror(reply->code));
	if (code) {
		if (code != a->last_code)
			diag_error("%s: %s",
				   asked == AGENT_ASKED_REGISTER ? "registration" : "asking for orders",
				   err.text);
		a->last_code = code;
		a->poll_again_usec = exe_boot_usec() + AGENT_RETRY_USEC;
		return;
	}
	a->last_code = 0;
	if (asked == AGENT_ASKED_REGISTER)
		take_registered(a, reply);
	else if (asked == AGENT_ASKED_CONFIG)
		take_config(a, reply);
	else if (reply->orders)
		take_orders(a, reply->orders);
	/* What waits for an unordered attempt's end looks again soon; else the next long poll follows at
	 * once. */
	bool soon = a->register_wanted && (unordered_alive(a) || old_ends_untold(a));
	a->poll_again_usec = soon ? exe_boot_usec() + LOOK_AGAIN_USEC : 0;
}

/* ---- reports ---- */

static size_t put_ended(struct agent *a, Mu__ReportAsk *report)
{
	for (struct agent_attempt *t = a->attempt; t && report->n_ended < AGENT_REPORT_BATCH; t = t->next)
		if (t->phase == EXE_ENDED && !t->record->acknowledged) {
			report->ended[report->n_ended++] = t->record->ended;
			t->report_sent = true;
		} else if (t->phase == EXE_ENDING && t->early && !t->early_told) {
			report->ended[report->n_ended++] = t->early;
			t->early_sent = true;
		}
	return report->n_ended;
}

static bool step_is_news(const struct agent_step *s)
{
	bool batch = s->order->step == MU_STEP_BATCH;
	/* A batch script that is over within the second is told with the attempt's end alone. */
	bool old = exe_wall_usec() - s->order->start_usec >= AGENT_STEP_REPORT_USEC;
	return (!s->told_start && (!batch || (old && !s->ended))) || (s->ended && !s->told_end && !batch);
}

static Mu__StepsReported *steps_of(struct agent *a, struct agent_attempt *t, struct mu_arena *arena)
{
	Mu__StepsReported *r = NULL;
	size_t cap = 0;
	for (struct agent_step *s = t->step; s; s = s->next)
		cap += step_is_news(s);
	Mu__StepRow *outer = mu_arena_alloc(arena, sizeof *outer);
	if (t->extern_told || t->phase != EXE_RUNNING || !agent_extern_row(a, t, false, outer))
		outer = NULL;
	if (cap == 0)
		return NULL;
	r = mu_arena_alloc(arena, sizeof *r);
	mu__steps_reported__init(r);
	r->has_job = r->has_attempt = 1;
	r->job = t->order->job;
	r->attempt = t->order->attempt;
	r->step = mu_arena_alloc(arena, (cap + 1) * sizeof *r->step);
	if (outer)
		r->step[r->n_step++] = outer;
	t->extern_told = true;
	for (struct agent_step *s = t->step; s; s = s->next) {
		if (!step_is_news(s))
			continue;
		Mu__StepRow *row = mu_arena_alloc(arena, sizeof *row);
		agent_step_row(a, s, row);
		r->step[r->n_step++] = row;
		s->asked_start = true;
		s->asked_end = s->ended;
	}
	return r;
}

static void ask_report(struct agent *a)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	Mu__Request r = MU__REQUEST__INIT;
	Mu__ReportAsk report = MU__REPORT_ASK__INIT;
	int64_t now = exe_boot_usec();
	report.ended = mu_arena_alloc(&arena, AGENT_REPORT_BATCH * sizeof *report.ended);
	report.steps = mu_arena_alloc(&arena, (a->attempt_count + 1) * sizeof *report.steps);
	put_ended(a, &report);
	if (now - a->steps_told_usec >= AGENT_STEP_REPORT_USEC)
		for (struct agent_attempt *t = a->attempt; t; t = t->next) {
			Mu__StepsReported *s = t->phase == EXE_ENDED ? NULL : steps_of(a, t, &arena);
			if (s)
				report.steps[report.n_steps++] = s;
		}
	if (report.n_steps)
		a->steps_told_usec = now;
	if (report.n_ended == 0 && report.n_steps == 0)
		return;
	r.ask_case = MU__REQUEST__ASK_REPORT;
	r.report = &report;
	a->report_asked_usec = now;
	ask(a->report_link, &r, AGENT_ASK_MSEC);
}

/* Whether sending the same again could help. */
static bool worth_retrying(int code)
{
	switch (code) {
	case MU_EVOID:
	case MU_EJOBID:
	case MU_EALREADYDONE:
	case MU_EINVAL:
	case MU_EPERM:
	case MU_ENODENAME:
	case MU_ELIMIT:
		return false;
	default:
		return code != 0;
	}
}

static void settle_steps(struct agent_attempt *t, bool done)
{
	for (struct agent_step *s = t->step; s; s = s->next) {
		s->told_start = s->told_start || (done && s->asked_start);
		s->told_end = s->told_end || (done && s->asked_end);
		s->asked_start = s->asked_end = false;
	}
}

/* Nobody else has it yet: it must outlive a power cut. */
static void keep_end(struct agent_attempt *t)
{
	if (t->end_on_disk)
		return;
	agent_attempt_save(t, true);
	t->end_on_disk = true;
	diag_info("job %u attempt %u: nobody has taken its end yet; it is kept on this node's disk",
		  t->order->job, t->order->attempt);
}

static void keep_slow_ends(struct agent *a, int64_t now)
{
	if (agent_link_idle(a->report_link) || now - a->report_asked_usec < AGENT_REPORT_SLOW_USEC)
		return;
	for (struct agent_attempt *t = a->attempt; t; t = t->next)
		if (t->report_sent && t->phase == EXE_ENDED)
			keep_end(t);
}

static void take_report_answer(struct agent *a)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	struct mu_err err = {0};
	Mu__Reply *reply;
	int code;
	if (!agent_link_take(a->report_link, &arena, &code, &reply, &err))
		return;
	if (code == 0 && reply->code != 0)
		code = mu_fail(&err, reply->code, "%s", reply->text ? reply->text : mu_strerror(reply->code));
	bool done = !worth_retrying(code);
	if (code)
		diag_error("report: %s%s", err.text, done ? " (dropped)" : "");
	a->report_again_usec = done ? 0 : exe_boot_usec() + AGENT_RETRY_USEC;
	for (struct agent_attempt *t = a->attempt; t; t = t->next) {
		settle_steps(t, done);
		agent_steps_prune(t);
		if (t->report_sent && done) {
			t->record->has_acknowledged = 1;
			t->record->acknowledged =
			    true; /* another agent would say it again, which harms nobody */
		} else if (t->report_sent) {
			keep_end(t);
		}
		t->report_sent = false;
		t->early_told = t->early_told || (t->early_sent && done);
		t->early_sent = false;
	}
}

/* ---- blobs ---- */

bool agent_blob_known(struct agent *a, const ProtobufCBinaryData *hash, struct mu_buf *out)
{
	for (size_t i = 0; i < AGENT_BLOBS_KEPT && hash->len == MU_HASH_BYTES; i++) {
		struct agent_blob *k = &a->blob[i];
		if (!k->bytes.len || memcmp(k->hash, hash->data, MU_HASH_BYTES) != 0)
			continue;
		k->used = ++a->blob_turn;
		mu_buf_add(out, k->bytes.data, k->bytes.len);
		return true;
	}
	return false;
}

/* B has this HASH: it is kept instead of the one that was not wanted for the longest time. */
static void keep_blob(struct agent *a, const ProtobufCBinaryData *hash, const struct mu_buf *b)
{
	struct agent_blob *oldest = &a->blob[0];
	if (!b->len || b->len > AGENT_BLOB_KEPT_MAX)
		return;
	for (size_t i = 0; i < AGENT_BLOBS_KEPT; i++) {
		if (a->blob[i].bytes.len && memcmp(a->blob[i].hash, hash->data, MU_HASH_BYTES) == 0)
			return;
		if (a->blob[i].used < oldest->used)
			oldest = &a->blob[i];
	}
	mu_buf_free(&oldest->bytes);
	mu_buf_add(&oldest->bytes, b->data, b->len);
	memcpy(oldest->hash, hash->data, MU_HASH_BYTES);
	oldest->used = ++a->blob_turn;
}

static void ask_blob(struct agent *a)
{
	Mu__Request r = MU__REQUEST__INIT;
	Mu__BlobAsk b = MU__BLOB_ASK__INIT;
	/* The list is newest first: the last one found has waited longest. One that fails lets the others
	 * pass. */
	a->blob_for = NULL;
	for (struct agent_attempt *t = a->attempt; t; t = t->next) {
		if (t->wants_script || t->wants_env)
			agent_attempt_blobs(a, t); /* what it wants may have come for another one */
		if ((t->wants_script || t->wants_env) &&
		    (!a->blob_for || t->blob_failures <= a->blob_for->blob_failures))
			a->blob_for = t;
	}
	struct agent_attempt *t = a->blob_for;
	if (!t)
		return;
	a->blob_is_env = !t->wants_script;
	if (!t->blob_since_usec)
		t->blob_since_usec = exe_boot_usec();
	b.has_hash = b.has_offset = b.has_job = 1;
	b.hash = a->blob_is_env ? t->order->spec->env_hash : t->order->spec->script_hash;
	b.offset = a->blob_is_env ? t->env.len : t->script.len;
	b.job = t->order->job;
	b.has_also = !a->blob_is_env && t->wants_env && !b.offset && !t->env.len;
	b.also = t->order->spec->env_hash;
	r.ask_case = MU__REQUEST__ASK_BLOB;
	r.blob = &b;
	ask(a->blob_link, &r, AGENT_ASK_MSEC);
}

static bool blob_is_right(const struct mu_buf *b, const ProtobufCBinaryData *hash)
{
	return hash->len == MU_HASH_BYTES && mu_pieces_match(b->data, b->len, hash->data);
}

static void blob_failed(struct agent *a, struct agent_attempt *t, const char *text)
{
	char detail[MU_ERR_TEXT + 64];
	t->blob_failures++;
	a->blob_again_usec = exe_boot_usec() + AGENT_RETRY_USEC / 2;
	if (exe_boot_usec() - t->blob_since_usec < BLOB_PATIENCE_USEC)
		return;
	snprintf(detail, sizeof detail, "the %s cannot be fetched: %s",
		 a->blob_is_env ? "environment" : "script", text);
	agent_attempt_fail(a, t, detail);
}

/* The environment came with the script. */
static void take_other(struct agent *a, struct agent_attempt *t, const Mu__BlobReply *got)
{
	struct mu_buf other = {.data = got->also.data, .len = got->also.len};
	if (!got->has_also || !t->wants_env || t->env.len ||
	    !blob_is_right(&other, &t->order->spec->env_hash))
		return;
	mu_buf_add(&t->env, other.data, other.len);
	keep_blob(a, &t->order->spec->env_hash, &t->env);
	t->wants_env = false;
}

static void take_blob_answer(struct agent *a)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	struct mu_err err = {0};
	Mu__Reply *reply;
	int code;
	if (!agent_link_take(a->blob_link, &arena, &code, &reply, &err))
		return;
	struct agent_attempt *t = a->blob_for;
	a->blob_for = NULL;
	if (!t || !(a->blob_is_env ? t->wants_env : t->wants_script))
		return; /* ended meanwhile */
	struct mu_buf *b = a->blob_is_env ? &t->env : &t->script;
	const Mu__BlobReply *got = code == 0 && reply->code == 0 ? reply->blob : NULL;
	if (!got) {
		blob_failed(a, t, code ? err.text : reply->text ? reply->text : mu_strerror(reply->code));
		return;
	}
	if (got->total > AGENT_BLOB_MAX || got->data.len > got->total - b->len ||
	    (got->data.len == 0 && b->len < got->total)) {
		blob_failed(a, t, "its pieces do not fit");
		return;
	}
	take_other(a, t, got);
	mu_buf_add(b, got->data.data, got->data.len);
	if (b->len < got->total)
		return;
	const ProtobufCBinaryData *hash =
	    a->blob_is_env ? &t->order->spec->env_hash : &t->order->spec->script_hash;
	if (!blob_is_right(b, hash)) {
		mu_buf_reset(b);
		blob_failed(a, t, "its bytes do not have the hash that the order names");
		return;
	}
	keep_blob(a, hash, b);
	if (a->blob_is_env)
		t->wants_env = false;
	else
		t->wants_script = false;
	agent_attempt_blobs(a, t);
}

/* ---- the turn ---- */

void agent_cluster_turn(struct agent *a)
{
	int64_t now = exe_boot_usec();
	take_poll_answer(a);
	take_blob_answer(a);
	take_report_answer(a);
	keep_slow_ends(a, now);
	if (agent_link_idle(a->blob_link) && now >= a->blob_again_usec)
		ask_blob(a);
	if (agent_link_idle(a->report_link) && now >= a->report_again_usec)
		ask_report(a);
	if (!agent_link_idle(a->poll_link) || now < a->poll_again_usec)
		return;
	if (a->register_wanted && a->looked && !unordered_alive(a) && !old_ends_untold(a))
		ask_register(a);
	else if (a->config_wanted)
		ask_config(a);
	else
		ask_poll(a);
}

int64_t agent_cluster_due(struct agent *a)
{
	int64_t due = INT64_MAX, now = exe_boot_usec();
	if (agent_link_idle(a->poll_link))
		due = a->poll_again_usec > now ? a->poll_again_usec : now;
	if (agent_link_idle(a->blob_link) && a->blob_again_usec > now && a->blob_again_usec < due)
		due = a->blob_again_usec;
	if (agent_link_idle(a->report_link) && a->report_again_usec > now && a->report_again_usec < due)
		due = a->report_again_usec;
	for (struct agent_attempt *t = a->attempt; t; t = t->next)
		if (t->report_sent && t->phase == EXE_ENDED && !t->end_on_disk &&
		    a->report_asked_usec + AGENT_REPORT_SLOW_USEC < due)
			due = a->report_asked_usec + AGENT_REPORT_SLOW_USEC;
	for (struct agent_attempt *t = a->attempt; t; t = t->next)
		if (t->steps_changed && t->phase != EXE_ENDED && now + AGENT_STEP_REPORT_USEC < due)
			due = now + AGENT_STEP_REPORT_USEC;
	return due;
}
