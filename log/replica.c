/* log/replica.c: one replica: opening, positions, proposals, snapshots, closing. See replica.h.
 *
 * libraft runs its callbacks deep inside its own functions. So they only record what happened and start
 * `later`, an idle handle that runs once when the loop turns: there proposals are handed over (several at
 * once: one message and one write), roles are reported, and closing begins. */
#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "log/replica_int.h"

enum {
	BATCH_ENTRIES = 64,
	BATCH_BYTES = 1 << 20,
	INSTALL_MSEC = 3000,
	STALL_NSEC = 10 * 1000 * 1000,
	APPEND_BYTES = 1 << 20,
	PEER_BYTES = 4 << 20,
	TRAILING_MIN = 16
};

static void begin_close(struct log_replica *r);

uint64_t replica_now_msec(const struct log_replica *r)
{
	return uv_now(r->config.loop);
}

void replica_say(struct log_replica *r, const char *format, ...)
{
	char text[512];
	va_list args;
	if (!r->config.hooks.say)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	/* What repeats itself with every attempt to connect is said once in a while. */
	struct mu_hash hash;
	uint64_t now = replica_now_msec(r);
	mu_hash_bytes(text, strlen(text), &hash);
	for (unsigned i = 0; i < REPLICA_SAID; i++)
		if (!memcmp(&r->said[i].hash, &hash, sizeof hash) &&
		    now - r->said[i].msec < REPLICA_SAID_MSEC)
			return;
	r->said[r->said_next].hash = hash;
	r->said[r->said_next].msec = now;
	r->said_next = (r->said_next + 1) % REPLICA_SAID;
	r->config.hooks.say(r->config.arg, text);
}

void replica_fatal(struct log_replica *r, const char *format, ...)
{
	char text[512];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	r->config.hooks.fatal(r->config.arg, text);
	abort(); /* the contract says that it does not return */
}

void replica_compose(char ret[REPLICA_ADDRESS], const char *address, const char *name)
{
	snprintf(ret, REPLICA_ADDRESS, "%.63s %.63s", address, name);
}

void replica_split(const char *composed, char ret_address[64], char ret_name[64])
{
	const char *space = strchr(composed, ' ');
	size_t n = space ? (size_t)(space - composed) : strlen(composed);
	snprintf(ret_address, 64, "%.*s", (int)(n > 63 ? 63 : n), composed);
	snprintf(ret_name, 64, "%.63s", space ? space + 1 : "");
}

int replica_store(struct log_replica *r)
{
	struct mu_err err = {0};
	int rv = log_identity_store(r->dir, &r->self, &err);
	if (rv)
		replica_fatal(r, "%s", err.text);
	return rv;
}

/* ---- pointers as bytes: magic 8, pos, time, chain 32, digest 32; a multiple of 8 ---- */

static const uint8_t pointer_magic[8] = {'M', 'U', 'S', 'N', 'A', 'P', '0', '1'};

static void pointer_encode(const struct log_pointer *p, uint8_t out[REPLICA_POINTER_BYTES])
{
	memcpy(out, pointer_magic, 8);
	for (unsigned i = 0; i < 8; i++) {
		out[8 + i] = (uint8_t)(p->pos >> (8 * i));
		out[16 + i] = (uint8_t)((uint64_t)p->time_usec >> (8 * i));
	}
	memcpy(out + 24, p->chain.b, 32);
	memcpy(out + 56, p->digest.b, 32);
}

static int pointer_decode(const struct raft_buffer *buf, struct log_pointer *ret)
{
	const uint8_t *in = buf->base;
	uint64_t time = 0;
	struct log_pointer p = {.pos = 0};
	if (buf->len != REPLICA_POINTER_BYTES || memcmp(in, pointer_magic, 8))
		return MU_EPROTO;
	for (unsigned i = 8; i--;) {
		p.pos = p.pos << 8 | in[8 + i];
		time = time << 8 | in[16 + i];
	}
	p.time_usec = (int64_t)time;
	memcpy(p.chain.b, in + 24, 32);
	memcpy(p.digest.b, in + 56, 32);
	*ret = p;
	return 0;
}

/* ---- proposals ---- */

static void queue_init(struct replica_queue *q)
{
	q->first = NULL;
	q->tail = &q->first;
	q->count = 0;
}

static void queue_put(struct replica_queue *q, struct replica_proposal *p)
{
	p->next = NULL;
	*q->tail = p;
	q->tail = &p->next;
	q->count++;
}

static struct replica_proposal *queue_get(struct replica_queue *q)
{
	struct replica_proposal *p = q->first;
	q->first = p->next;
	if (!q->first)
		q->tail = &q->first;
	q->count--;
	return p;
}

static void proposal_end(struct log_replica *r, struct replica_proposal *p, int code, uint64_t pos)
{
	r->in_flight_bytes -= p->bytes;
	if (p->cb)
		p->cb(p->arg, code, pos);
	raft_free(p->buf.base);
	free(p);
}

/* Those in the log may still commit; those that were not handed over certainly do not. */
static void fail_proposals(struct log_replica *r)
{
	while (r->proposed.first)
		proposal_end(r, queue_get(&r->proposed), MU_EUNKNOWN, 0);
	while (r->waiting.first)
		proposal_end(r, queue_get(&r->waiting), MU_ENOTLEADER, 0);
}

static bool leads(const struct log_replica *r)
{
	return r->raft_open && r->phase == REPLICA_RUNNING && log_guard_settled(r->guard);
}

int log_replica_propose(struct log_replica *r, int64_t time_usec, const struct log_part *parts, size_t count,
			log_proposed cb, void *arg)
{
	struct mu_buf packed MU_CLEANUP(mu_buf_free) = {0};
	if (!leads(r))
		return MU_ENOTLEADER;
	if (r->in_flight_bytes >= LOG_IN_FLIGHT_BYTES ||
	    r->waiting.count + r->proposed.count >= LOG_IN_FLIGHT_ENTRIES)
		return MU_EBUSY;
	int rv = log_entry_pack(time_usec, r->raft.current_term, parts, count, &packed);
	if (rv)
		return rv;
	struct replica_proposal *p = calloc(1, sizeof *p);
	void *bytes = raft_malloc(packed.len);
	if (!p || !bytes)
		abort();
	memcpy(bytes, packed.data, packed.len);
	*p = (struct replica_proposal){.buf = {bytes, packed.len},
				       .bytes = packed.len,
				       .term = r->raft.current_term,
				       .born_usec = uv_hrtime() / 1000,
				       .cb = cb,
				       .arg = arg};
	queue_put(&r->waiting, p);
	r->in_flight_bytes += p->bytes;
	r->stats.proposed++;
	replica_later(r);
	return 0;
}

static void apply_done(struct raft_apply *req, int status, void *result)
{
	(void)status; /* told by fsm_apply, or by the loss of leadership */
	(void)result;
	free(req);
}

/* One raft_apply: one message to each follower and one write. */
static void submit_batch(struct log_replica *r)
{
	struct raft_buffer bufs[BATCH_ENTRIES];
	struct replica_proposal *first = r->waiting.first;
	size_t bytes = 0;
	unsigned n = 0;
	for (struct replica_proposal *p = first; p && n < BATCH_ENTRIES && bytes < BATCH_BYTES; p = p->next) {
		/* An entry's header names its term: one proposed in an older term of ours is not carried into
		 * the new one. */
		if (p->term != r->raft.current_term)
			break;
		bufs[n++] = p->buf;
		bytes += p->buf.len;
	}
	if (!n) {
		proposal_end(r, queue_get(&r->waiting), MU_ENOTLEADER, 0);
		return;
	}
	struct raft_apply *req = calloc(1, sizeof *req);
	if (!req)
		abort();
	raft_index index = raft_last_index(&r->raft) + 1;
	int rv = raft_apply(&r->raft, req, bufs, n, apply_done);
	if (rv) {
		free(req);
		while (n--)
			proposal_end(r, queue_get(&r->waiting), MU_ENOTLEADER, 0);
		return;
	}
	for (unsigned i = 0; i < n; i++) {
		struct replica_proposal *p = queue_get(&r->waiting);
		p->buf = (struct raft_buffer){NULL, 0};
		p->index = index + i;
		queue_put(&r->proposed, p);
	}
	log_guard_flush(r->guard);
}

uint64_t log_replica_in_flight_bytes(const struct log_replica *r)
{
	return r->in_flight_bytes;
}

/* ---- the state machine's side ---- */

static int fsm_apply(struct raft_fsm *fsm, const struct raft_buffer *buf, void **result)
{
	struct log_replica *r = fsm->data;
	raft_index index = r->raft.last_applied + 1; /* the library does not tell */
	struct log_entry entry;
	uint64_t start = uv_hrtime() / 1000;
	*result = NULL;
	if (log_entry_parse(buf->base, buf->len, &entry))
		replica_fatal(r, "entry %" PRIu64 " of the log is no entry of this program's", r->pos + 1);
	log_chain_next(&r->chain, &entry);
	r->pos++;
	r->time_usec = entry.time_usec;
	r->sizes[r->pos % REPLICA_SIZES] = (uint32_t)buf->len;
	r->since_entries++;
	r->since_bytes += buf->len;
	r->stats.committed++;
	r->stats.bytes += entry.raw_len;
	r->config.hooks.committed(r->config.arg, r->pos, &entry, &r->chain);
	while (r->proposed.first && r->proposed.first->index <= index) {
		struct replica_proposal *p = queue_get(&r->proposed);
		bool ours =
		    p->index == index && r->raft.state == RAFT_LEADER && p->term == r->raft.current_term;
		if (ours)
			r->stats.last_commit_latency_usec = uv_hrtime() / 1000 - p->born_usec;
		proposal_end(r, p, ours ? 0 : MU_EUNKNOWN, ours ? r->pos : 0);
	}
	uint64_t took = uv_hrtime() / 1000 - start;
	if (took > r->stats.apply_usec_max)
		r->stats.apply_usec_max = took;
	if (r->since_bytes >= r->config.snapshot_bytes && !r->snapshot_wanted)
		raft_set_snapshot_threshold(&r->raft, 1); /* the library counts entries only */
	return 0;
}

/* As many of the last entries as fit the bytes, so that a follower that was away for a moment needs no
 * snapshot. */
static unsigned trailing(const struct log_replica *r)
{
	uint64_t n = 0, bytes = 0;
	while (n < r->config.trailing_entries && n < REPLICA_SIZES && n < r->pos) {
		bytes += r->sizes[(r->pos - n) % REPLICA_SIZES];
		if (bytes > REPLICA_TRAILING_BYTES)
			break;
		n++;
	}
	return n < TRAILING_MIN ? TRAILING_MIN : (unsigned)n; /* 0 would mean an installation */
}

static int fsm_snapshot(struct raft_fsm *fsm, struct raft_buffer *bufs[], unsigned *n)
{
	struct log_replica *r = fsm->data;
	if (!log_guard_may_snapshot(r->guard) || r->snapshot_wanted || !r->pos ||
	    !r->config.hooks.snapshot_due)
		return RAFT_BUSY;
	struct raft_buffer *buf = raft_malloc(sizeof *buf);
	uint8_t *bytes = raft_malloc(REPLICA_POINTER_BYTES);
	if (!buf || !bytes)
		abort();
	r->snapshot = (struct log_pointer){.pos = r->pos, .time_usec = r->time_usec, .chain = r->chain};
	r->snapshot_wanted = true;
	r->snapshot_ready = false;
	r->since_entries = 0;
	r->since_bytes = 0;
	raft_set_snapshot_threshold(&r->raft, (unsigned)r->config.snapshot_entries);
	raft_set_snapshot_trailing(&r->raft, trailing(r));
	pointer_encode(&r->snapshot, bytes);
	*buf = (struct raft_buffer){bytes, REPLICA_POINTER_BYTES};
	*bufs = buf;
	*n = 1;
	r->config.hooks.snapshot_due(r->config.arg);
	return 0;
}

static bool may_put(void *arg, struct raft_buffer *data)
{
	struct log_replica *r = arg;
	if (!r->snapshot_ready)
		return false;
	pointer_encode(&r->snapshot, data->base);
	r->snapshot_wanted = false;
	r->stats.snapshots++;
	return true;
}

void log_replica_snapshot_ready(struct log_replica *r, const struct log_pointer *pointer)
{
	if (!r->snapshot_wanted || r->snapshot_ready || pointer->pos != r->snapshot.pos) {
		replica_say(r, "a snapshot of position %" PRIu64 " was offered, but none of it is due",
			    pointer->pos);
		return;
	}
	r->snapshot.digest = pointer->digest;
	r->snapshot_ready = true;
	log_guard_put_held(r->guard);
}

static int fsm_restore(struct raft_fsm *fsm, struct raft_buffer *buf)
{
	struct log_replica *r = fsm->data;
	struct log_pointer p;
	if (pointer_decode(buf, &p))
		replica_fatal(r, "the snapshot in %s is none of this program's", r->raft_dir);
	raft_free(buf->base);
	r->pos = p.pos;
	r->chain = p.chain;
	r->time_usec = p.time_usec;
	r->since_entries = r->since_bytes = 0;
	r->install_ready = false;
	if (r->phase == REPLICA_RUNNING && r->raft_used)
		r->stats.installs++;
	if (r->config.hooks.restore(r->config.arg, &p))
		replica_fatal(r, "the rows of position %" PRIu64 " cannot be taken up", p.pos);
	return 0;
}

static bool install_is_ready(const struct log_replica *r, const struct log_pointer *p)
{
	return r->install_ready && r->install_pointer.pos == p->pos &&
	       !memcmp(&r->install_pointer.chain, &p->chain, sizeof p->chain);
}

static bool may_install(void *arg, const struct raft_buffer *data, raft_id from)
{
	struct log_replica *r = arg;
	struct log_pointer p;
	if (pointer_decode(data, &p)) {
		replica_say(r, "replica %llu offers a snapshot that is none of this program's", from);
		return false;
	}
	if (install_is_ready(r, &p))
		return true;
	r->stats.held++;
	if (r->config.hooks.install)
		r->config.hooks.install(r->config.arg, &p, from);
	return install_is_ready(r, &p); /* the application may have the rows already */
}

void log_replica_install_ready(struct log_replica *r, const struct log_pointer *pointer, bool ok)
{
	if (!r->raft_open || r->phase != REPLICA_RUNNING)
		return;
	r->install_ready = ok;
	r->install_pointer = *pointer;
	if (ok)
		log_guard_release(r->guard);
}

/* ---- what the loop does between libraft's callbacks ---- */

static void guard_fatal(void *arg, const char *what, int status)
{
	struct log_replica *r = arg;
	replica_fatal(r, "%s in %s failed: %s: %s", what, r->raft_dir, raft_strerror(status), r->io.errmsg);
}

static void guard_touched(void *arg)
{
	replica_later(arg);
}

static void report_role(struct log_replica *r)
{
	enum log_role role = LOG_FOLLOWER;
	raft_id leader = 0;
	const char *address;
	int state = r->raft_open ? raft_state(&r->raft) : RAFT_FOLLOWER;
	uint64_t term = r->raft_open ? r->raft.current_term : 0;
	if (r->phase == REPLICA_CLOSING)
		role = LOG_STOPPED;
	else if (state == RAFT_LEADER && log_guard_settled(r->guard))
		role = LOG_LEADER; /* only now everything that older leaders committed is applied here */
	else if (state == RAFT_LEADER || state == RAFT_CANDIDATE)
		role = LOG_CANDIDATE;
	if (role == LOG_LEADER)
		leader = r->self.id;
	else if (r->raft_open && state == RAFT_FOLLOWER)
		raft_leader(&r->raft, &leader, &address);
	if (role == r->role && term == r->term && leader == r->leader)
		return;
	if (role == LOG_LEADER && r->role != LOG_LEADER)
		r->stats.elections++;
	r->role = role;
	r->term = term;
	r->leader = leader;
	if (r->config.hooks.role)
		r->config.hooks.role(r->config.arg, role, term, leader);
}

static void run_later(uv_idle_t *idle)
{
	struct log_replica *r = idle->data;
	uv_idle_stop(idle);
	replica_sends_done(r, RAFT_NOCONNECTION);
	if (r->phase == REPLICA_CLOSING || !r->raft_open)
		return;
	log_guard_flush(r->guard);
	if (raft_state(&r->raft) == RAFT_UNAVAILABLE)
		replica_fatal(r, "the log in %s cannot go on: %s", r->raft_dir, raft_errmsg(&r->raft));
	while (leads(r) && r->waiting.first)
		submit_batch(r);
	if (raft_state(&r->raft) != RAFT_LEADER)
		fail_proposals(r);
	report_role(r);
	log_guard_announce(r->guard);
	if (r->phase == REPLICA_LEAVING && (raft_state(&r->raft) != RAFT_LEADER || !r->transferring))
		begin_close(r);
}

void replica_later(struct log_replica *r)
{
	if (r->handles && !uv_is_closing((uv_handle_t *)&r->later))
		uv_idle_start(&r->later, run_later);
}

static void run_clock(uv_timer_t *timer)
{
	struct log_replica *r = timer->data;
	if (r->phase == REPLICA_CLOSING)
		return;
	replica_peers_tick(r);
	if (r->phase == REPLICA_FOUNDING)
		replica_found_tick(r);
	replica_job_tick(r);
	if (r->raft_open && !r->self.joined && r->raft.current_term) {
		r->self.joined = true;
		replica_store(r);
	}
	if (r->phase == REPLICA_LEAVING && replica_now_msec(r) >= r->leave_deadline_msec)
		begin_close(r);
	replica_later(r);
}

static uint64_t thread_cpu_nsec(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void run_woke(uv_check_t *check)
{
	struct log_replica *r = check->data;
	r->woke_nsec = uv_hrtime();
	r->woke_cpu_nsec = thread_cpu_nsec();
}

static void run_sleeps(uv_prepare_t *prepare)
{
	struct log_replica *r = prepare->data;
	if (!r->woke_nsec)
		return;
	uint64_t busy = uv_hrtime() - r->woke_nsec;
	r->woke_nsec = 0;
	if (busy > STALL_NSEC) {
		/* What it computed, beside the time that the host gave to others or the disk took. */
		uint64_t cpu = (thread_cpu_nsec() - r->woke_cpu_nsec) / 1000;
		r->stats.loop_stalls++;
		if (cpu > r->stats.loop_stall_cpu_usec_max)
			r->stats.loop_stall_cpu_usec_max = cpu;
	}
	if (busy / 1000 > r->stats.loop_stall_usec_max)
		r->stats.loop_stall_usec_max = busy / 1000;
}

/* ---- starting ---- */

/* libraft's own network layer is not used (see replica_peers.c), but its disk layer insists on one. */
static int no_init(struct raft_uv_transport *t, raft_id id, const char *address)
{
	(void)t;
	(void)id;
	(void)address;
	return 0;
}

static int no_listen(struct raft_uv_transport *t, raft_uv_accept_cb cb)
{
	(void)t;
	(void)cb;
	return 0;
}

static int no_connect(struct raft_uv_transport *t, struct raft_uv_connect *req, raft_id id,
		      const char *address, raft_uv_connect_cb cb)
{
	(void)t;
	(void)req;
	(void)id;
	(void)address;
	(void)cb;
	return RAFT_NOCONNECTION;
}

static void no_close(struct raft_uv_transport *t, raft_uv_transport_close_cb cb)
{
	cb(t);
}

static int start_failed(struct log_replica *r, int rv, struct mu_err *err)
{
	const char *why = r->raft.errmsg[0] ? r->raft.errmsg : raft_strerror(rv);
	if (rv == RAFT_CORRUPT || rv == RAFT_MALFORMED)
		return mu_fail(err, MU_ECORRUPT,
			       "the log in %s is damaged (%s): this controller does not start; remove it "
			       "from the cluster, "
			       "empty %s and add it again",
			       r->raft_dir, why, r->dir);
	return mu_fail(err, MU_EIO, "the log in %s cannot be used: %s", r->raft_dir, why);
}

static int init_raft(struct log_replica *r, struct mu_err *err)
{
	r->no_network = (struct raft_uv_transport){
	    .init = no_init, .listen = no_listen, .connect = no_connect, .close = no_close};
	memset(&r->io, 0, sizeof r->io);
	int rv = raft_uv_init(&r->io, r->config.loop, r->raft_dir, &r->no_network);
	if (rv)
		return mu_fail(err, MU_EIO, "the log in %s cannot be used: %s", r->raft_dir, r->io.errmsg);
	raft_uv_set_auto_recovery(&r->io, false);
	raft_uv_set_snapshot_compression(&r->io, false);
	r->io.send = replica_raft_send;
	r->fsm = (struct raft_fsm){
	    .version = 1, .data = r, .apply = fsm_apply, .snapshot = fsm_snapshot, .restore = fsm_restore};
	rv = raft_init(&r->raft, &r->io, &r->fsm, r->self.id, r->own_address);
	if (rv)
		return start_failed(r, rv, err);
	raft_set_election_timeout(&r->raft, r->config.election_msec);
	raft_set_heartbeat_timeout(&r->raft, r->config.heartbeat_msec);
	raft_set_install_snapshot_timeout(&r->raft, INSTALL_MSEC);
	raft_set_snapshot_threshold(&r->raft, (unsigned)r->config.snapshot_entries);
	raft_set_snapshot_trailing(&r->raft, (unsigned)r->config.trailing_entries);
	raft_set_pre_vote(&r->raft, true);
	return 0;
}

static int bootstrap(struct log_replica *r, struct mu_err *err)
{
	struct raft_configuration conf;
	raft_configuration_init(&conf);
	int rv = 0;
	for (unsigned i = 0; !rv && i < r->self.founders; i++) {
		char composed[REPLICA_ADDRESS];
		replica_compose(composed, r->self.founder[i].address, r->self.founder[i].name);
		rv = raft_configuration_add(&conf, r->self.founder[i].id, composed, RAFT_VOTER);
	}
	if (!rv)
		rv = raft_bootstrap(&r->raft, &conf);
	raft_configuration_close(&conf);
	return rv ? start_failed(r, rv, err) : 0;
}

int replica_start(struct log_replica *r, bool found, struct mu_err *err)
{
	int rv = init_raft(r, err);
	if (rv)
		return rv;
	struct log_guard_config guard = {.closures = LOG_GUARD_ALL,
					 .append_bytes = APPEND_BYTES,
					 .in_flight_bytes = PEER_BYTES,
					 .quiet_msec = found ? 0 : r->config.election_msec,
					 .fatal = guard_fatal,
					 .may_install = may_install,
					 .may_put = may_put,
					 .touched = guard_touched,
					 .arg = r};
	r->guard = log_guard_new(&r->raft, &guard);
	r->raft_open = true;
	if (found)
		rv = bootstrap(r, err);
	if (!rv) {
		rv = raft_start(&r->raft);
		if (rv)
			rv = start_failed(r, rv, err);
	}
	if (rv)
		return rv;
	log_guard_started(r->guard);
	r->raft_used = true;
	r->phase = REPLICA_RUNNING;
	if (found && !r->self.joined) {
		r->self.joined = true;
		replica_store(r);
	}
	replica_later(r);
	return 0;
}

static void own_address(struct log_replica *r)
{
	const char *address = r->listen;
	for (unsigned i = 0; i < r->config.founders; i++)
		if (!strcmp(r->config.founder[i].name, r->name))
			address = r->config.founder[i].address;
	replica_compose(r->own_address, address, r->name);
}

static int check_config(const struct log_config *c, struct mu_err *err)
{
	if (!c->name[0] || strlen(c->name) > 63 || strpbrk(c->name, " \t\n"))
		return mu_fail(err, MU_EINVAL, "\"%s\" is no name for a controller", c->name);
	if (c->founders > LOG_MEMBERS_MAX)
		return mu_fail(err, MU_EINVAL, "%u controllers are configured; at most %d are allowed",
			       c->founders, LOG_MEMBERS_MAX);
	if (c->heartbeat_msec < 1 || c->election_msec < 4 * c->heartbeat_msec)
		return mu_fail(err, MU_EINVAL, "the election time-out must be four heartbeats at least");
	for (unsigned i = 0; i < c->founders; i++)
		for (unsigned k = 0; k < i; k++)
			if (!strcmp(c->founder[i].name, c->founder[k].name) ||
			    !strcmp(c->founder[i].address, c->founder[k].address))
				return mu_fail(err, MU_EINVAL,
					       "controllers %s and %s share a name or an address",
					       c->founder[k].name, c->founder[i].name);
	return 0;
}

static char *join(const char *dir, const char *name)
{
	char *path;
	if (asprintf(&path, "%s/%s", dir, name) < 0)
		abort();
	return path;
}

static struct log_replica *replica_new(const struct log_config *config)
{
	struct log_replica *r = calloc(1, sizeof *r);
	if (!r)
		abort();
	r->config = *config;
	r->dir = strdup(config->dir);
	r->raft_dir = join(config->dir, "raft");
	r->listen = strdup(config->listen);
	r->name = strdup(config->name);
	if (!r->dir || !r->listen || !r->name)
		abort();
	r->config.dir = r->dir;
	r->config.listen = r->listen;
	r->config.name = r->name;
	r->sends_tail = &r->sends;
	queue_init(&r->waiting);
	queue_init(&r->proposed);
	own_address(r);
	return r;
}

static void replica_free(struct log_replica *r)
{
	replica_peers_free(r);
	log_guard_free(r->guard);
	if (r->io.impl)
		raft_uv_close(&r->io);
	if (r->lock > 0)
		close(r->lock);
	free(r->dir);
	free(r->raft_dir);
	free(r->listen);
	free(r->name);
	sodium_memzero(r, sizeof *r);
	free(r);
}

static void open_handles(struct log_replica *r)
{
	uv_timer_init(r->config.loop, &r->clock);
	uv_idle_init(r->config.loop, &r->later);
	uv_check_init(r->config.loop, &r->woke);
	uv_prepare_init(r->config.loop, &r->sleeps);
	r->clock.data = r->later.data = r->woke.data = r->sleeps.data = r;
	r->handles = 4;
	uv_timer_start(&r->clock, run_clock, r->config.heartbeat_msec, r->config.heartbeat_msec);
	uv_check_start(&r->woke, run_woke);
	uv_prepare_start(&r->sleeps, run_sleeps);
}

int log_replica_open(const struct log_config *config, struct log_replica **ret, struct mu_err *err)
{
	bool empty = false;
	/* libuv writes to sockets with plain write: a peer that dies would otherwise end this process. */
	sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	int rv = check_config(config, err);
	if (!rv)
		rv = log_guard_check_library(err);
	if (rv)
		return rv;
	struct log_replica *r = replica_new(config);
	rv = log_identity_open(r->dir, &r->self, &r->lock, &empty, err);
	if (rv) {
		replica_free(r);
		return rv;
	}
	if (!log_identity_is_zero(config->cluster_id) && !log_identity_is_zero(r->self.cluster) &&
	    memcmp(config->cluster_id, r->self.cluster, 16)) {
		rv = mu_fail(err, MU_EINVAL, "the data directory %s belongs to another cluster", r->dir);
		replica_free(r);
		return rv;
	}
	if (r->self.shut_out) {
		rv = mu_fail(err, MU_EVERSION,
			     "the replica in %s belongs to generation %" PRIu64 " of its cluster, which generation %" PRIu64
			     " has replaced; empty the directory and add the controller again",
			     r->dir, r->self.generation, r->self.shut_out);
		replica_free(r);
		return rv;
	}
	open_handles(r);
	rv = replica_peers_open(r, err);
	if (rv)
		return rv;
	/* A founding that a crash cut short goes on with the members that were agreed. */
	if (empty && r->self.founders)
		rv = replica_start(r, true, err);
	else if (empty && config->found && log_identity_is_zero(r->self.cluster))
		r->phase = REPLICA_FOUNDING;
	else
		rv = replica_start(r, false, err);
	if (rv)
		return rv;
	if (r->phase == REPLICA_FOUNDING)
		replica_found_tick(r);
	*ret = r;
	return 0;
}

/* ---- closing ---- */

static void handle_closed(uv_handle_t *handle)
{
	struct log_replica *r = handle->data;
	if (--r->handles)
		return;
	void (*done)(void *) = r->closed;
	void *arg = r->closed_arg;
	replica_free(r);
	if (done)
		done(arg);
}

static void transport_closed(void *arg)
{
	struct log_replica *r = arg;
	r->transport = NULL;
	uv_close((uv_handle_t *)&r->clock, handle_closed);
	uv_close((uv_handle_t *)&r->later, handle_closed);
	uv_close((uv_handle_t *)&r->woke, handle_closed);
	uv_close((uv_handle_t *)&r->sleeps, handle_closed);
}

static void raft_closed(struct raft *raft)
{
	struct log_replica *r = ((struct raft_fsm *)raft->fsm)->data;
	r->raft_closed = true;
	transport_close(r->transport, transport_closed, r);
}

static void begin_close(struct log_replica *r)
{
	if (r->phase == REPLICA_CLOSING)
		return;
	r->phase = REPLICA_CLOSING;
	uv_timer_stop(&r->clock);
	replica_job_end(r, MU_EUNKNOWN);
	fail_proposals(r);
	replica_calls_fail(r, NULL, MU_ECONNECT);
	report_role(r);
	if (r->raft_open) {
		log_guard_flush(r->guard);
		replica_sends_done(r, RAFT_CANCELED);
		r->raft_open = false;
		raft_close(&r->raft, raft_closed);
	} else {
		transport_close(r->transport, transport_closed, r);
	}
}

static void close_soon(uv_timer_t *timer)
{
	struct log_replica *r = timer->data;
	if (r->raft_open && r->phase == REPLICA_RUNNING && raft_state(&r->raft) == RAFT_LEADER &&
	    replica_transfer_begin(r, 0) == 0) {
		r->phase = REPLICA_LEAVING;
		r->leave_deadline_msec = replica_now_msec(r) + r->config.election_msec;
		uv_timer_start(&r->clock, run_clock, r->config.heartbeat_msec, r->config.heartbeat_msec);
		return;
	}
	begin_close(r);
}

void log_replica_close(struct log_replica *r, void (*done)(void *arg), void *arg)
{
	r->closed = done;
	r->closed_arg = arg;
	/* Not from within a callback of libraft's. */
	uv_timer_start(&r->clock, close_soon, 0, 0);
}

/* ---- asking ---- */

uint64_t log_replica_id(const struct log_replica *r)
{
	return r->self.id;
}

void log_replica_cluster(const struct log_replica *r, uint8_t ret[16])
{
	memcpy(ret, r->self.cluster, 16);
}

enum log_role log_replica_role(const struct log_replica *r)
{
	return r->role;
}

uint64_t log_replica_term(const struct log_replica *r)
{
	return r->term;
}

uint64_t log_replica_leader(const struct log_replica *r)
{
	return r->leader;
}

uint64_t log_replica_pos(const struct log_replica *r)
{
	return r->pos;
}

const struct mu_hash *log_replica_chain(const struct log_replica *r)
{
	return &r->chain;
}

size_t log_replica_members(const struct log_replica *r, struct log_member *ret, size_t cap)
{
	const struct raft_configuration *c = &r->raft.configuration;
	if (!r->raft_open)
		return 0;
	for (unsigned i = 0; i < c->n && i < cap; i++) {
		ret[i] =
		    (struct log_member){.id = c->servers[i].id, .voter = c->servers[i].role == RAFT_VOTER};
		replica_split(c->servers[i].address, ret[i].address, ret[i].name);
	}
	return c->n < cap ? c->n : cap;
}

void log_replica_stats(struct log_replica *r, struct log_stats *ret, bool reset_max)
{
	struct log_guard_stats guard = {0};
	if (r->guard)
		log_guard_stats(r->guard, &guard);
	*ret = r->stats;
	ret->dropped = guard.dropped + guard.clamped;
	if (reset_max)
		r->stats.apply_usec_max = r->stats.loop_stall_usec_max = r->stats.loop_stall_cpu_usec_max = 0;
}
