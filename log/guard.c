/* log/guard.c: receiving, sending and writing under guard. Why each closure exists is told in guard.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "log/guard_int.h"

static struct log_guard *guard_of(struct raft_io *io)
{
	struct raft *r = io->data;
	return r->data;
}

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

static void touched(struct log_guard *g)
{
	if (g->config.touched && !g->closing)
		g->config.touched(g->config.arg);
}

static void die(struct log_guard *g, const char *what, int status)
{
	g->config.fatal(g->config.arg, what, status);
}

/* ---- the log in memory ---- */

const struct raft_entry *log_guard_entry(const struct raft *r, raft_index index)
{
	const struct raft_log *l = &r->log;
	size_t n = l->front <= l->back ? l->back - l->front : l->size - l->front + l->back;
	if (index <= l->offset || index > l->offset + n)
		return NULL;
	return &l->entries[(l->front + (size_t)(index - 1 - l->offset)) % l->size];
}

raft_term guard_term_of(const struct raft *r, raft_index index)
{
	if (index == r->log.snapshot.last_index)
		return r->log.snapshot.last_term;
	const struct raft_entry *e = log_guard_entry(r, index);
	return e ? e->term : 0;
}

/* An installation is under way: the core has emptied its log and writes the snapshot. */
static bool installing(const struct raft *r)
{
	return r->snapshot.put.data != NULL && r->last_stored == 0;
}

/* The first index of ours that REQUEST contradicts, 0 when it contradicts none. */
static raft_index conflict(const struct raft *r, const struct raft_append_entries *request)
{
	raft_index prev = request->prev_log_index;
	if (prev && guard_term_of(r, prev) != request->prev_log_term)
		return 0; /* refused as a whole */
	for (unsigned i = 0; i < request->n_entries; i++) {
		raft_term own = guard_term_of(r, prev + 1 + i);
		if (!own)
			return 0;
		if (own != request->entries[i].term)
			return prev + 1 + i;
	}
	return 0;
}

/* ---- peers ---- */

static int server_index(const struct raft *r, raft_id id)
{
	for (unsigned i = 0; i < r->configuration.n; i++)
		if (r->configuration.servers[i].id == id)
			return (int)i;
	return -1;
}

static struct guard_peer *peer_of(struct log_guard *g, raft_id id)
{
	struct guard_peer *idle = NULL;
	for (unsigned i = 0; i < GUARD_PEERS_MAX; i++) {
		struct guard_peer *p = &g->peer[i];
		if (p->id == id)
			return p;
		if (!idle && (!p->id || (!p->in_flight && server_index(g->r, p->id) < 0)))
			idle = p;
	}
	if (!idle)
		return NULL; /* more servers than any configuration of ours: no bookkeeping, only less comfort
			      */
	*idle = (struct guard_peer){.id = id};
	return idle;
}

/* The core counts what it handed to send as sent; after a cut it has to go on where the cut was. */
static void mend_next(struct log_guard *g)
{
	struct raft *r = g->r;
	for (unsigned k = 0; k < GUARD_PEERS_MAX; k++) {
		struct guard_peer *p = &g->peer[k];
		if (!p->next)
			continue;
		int i = server_index(r, p->id);
		if (r->state == RAFT_LEADER && i >= 0) {
			struct raft_progress *progress = &r->leader_state.progress[i];
			if (progress->next_index > p->next && p->next > progress->match_index)
				progress->next_index = p->next;
		}
		p->next = 0;
	}
}

void log_guard_flush(struct log_guard *g)
{
	struct guard_sent *s = g->sent;
	g->sent = NULL;
	g->sent_tail = &g->sent;
	mend_next(g);
	while (s) {
		struct guard_sent *next = s->next;
		if (s->req->cb)
			s->req->cb(s->req, 0);
		free(s);
		s = next;
	}
}

static void complete_later(struct log_guard *g, struct raft_io_send *req, raft_io_send_cb cb)
{
	req->cb = cb;
	if (!cb)
		return;
	struct guard_sent *s = must(calloc(1, sizeof *s));
	s->req = req;
	*g->sent_tail = s;
	g->sent_tail = &s->next;
}

/* ---- G1 ---- */

static void barrier_done(struct raft_barrier *barrier, int status)
{
	(void)status;
	free(barrier);
}

static void open_term(struct log_guard *g)
{
	struct raft *r = g->r;
	if (!guard_on(g, LOG_G1) || g->closing || r->state != RAFT_LEADER || g->lead_term == r->current_term)
		return;
	struct raft_barrier *barrier = must(calloc(1, sizeof *barrier));
	raft_term term = r->current_term;
	g->floor = ~0ULL;
	for (unsigned i = 0; i < GUARD_PEERS_MAX; i++)
		g->peer[i].told_commit = 0;
	if (raft_barrier(r, barrier, barrier_done)) {
		free(barrier); /* tried again at the next tick */
		return;
	}
	if (r->state == RAFT_LEADER && r->current_term == term) {
		g->floor = raft_last_index(r);
		g->lead_term = term;
	}
}

bool log_guard_settled(const struct log_guard *g)
{
	const struct raft *r = g->r;
	return r->state == RAFT_LEADER && g->lead_term == r->current_term && r->last_applied >= g->floor &&
	       !r->transfer;
}

bool log_guard_may_change(const struct log_guard *g)
{
	const struct raft *r = g->r;
	if (!guard_on(g, LOG_G8))
		return r->state == RAFT_LEADER;
	return log_guard_settled(g) && !r->configuration_uncommitted_index && !r->leader_state.change;
}

bool log_guard_may_snapshot(struct log_guard *g)
{
	return !(guard_on(g, LOG_G8) && g->r->configuration_uncommitted_index);
}

raft_index log_guard_match(const struct log_guard *g, raft_id id)
{
	const struct raft *r = g->r;
	int i = server_index(r, id);
	if (r->state != RAFT_LEADER || i < 0)
		return 0;
	return id == r->id ? r->last_stored : r->leader_state.progress[i].match_index;
}

/* ---- receiving ---- */

static void drop_message(struct raft_message *m)
{
	if (m->type == RAFT_IO_APPEND_ENTRIES && m->append_entries.entries) {
		void *batch = NULL;
		for (unsigned i = 0; i < m->append_entries.n_entries; i++) {
			if (m->append_entries.entries[i].batch == batch)
				continue;
			batch = m->append_entries.entries[i].batch;
			raft_free(batch);
		}
		raft_free(m->append_entries.entries);
	}
	if (m->type == RAFT_IO_INSTALL_SNAPSHOT) {
		raft_configuration_close(&m->install_snapshot.conf);
		raft_free(m->install_snapshot.data.base);
	}
}

/* G10: all below our snapshot is committed, hence equal, so the request may as well begin there. */
static void lift(struct log_guard *g, struct raft_append_entries *a)
{
	struct raft *r = g->r;
	if (!guard_on(g, LOG_G10) || r->state == RAFT_UNAVAILABLE || a->term < r->current_term ||
	    a->prev_log_index >= r->log.offset || installing(r))
		return;
	raft_index to = r->log.snapshot.last_index;
	raft_index skip = to - a->prev_log_index;
	unsigned k = skip > a->n_entries ? a->n_entries : (unsigned)skip;
	void *kept = k < a->n_entries ? a->entries[k].batch : NULL, *last = kept;
	for (unsigned i = 0; i < k; i++) {
		if (a->entries[i].batch == last)
			continue;
		last = a->entries[i].batch;
		raft_free(last);
	}
	if (k && k == a->n_entries) {
		raft_free(a->entries);
		a->entries = NULL;
	} else if (k) {
		memmove(a->entries, a->entries + k, (a->n_entries - k) * sizeof *a->entries);
	}
	a->n_entries -= k;
	a->prev_log_index = to;
	a->prev_log_term = r->log.snapshot.last_term;
}

static void begin_match(struct log_guard *g, raft_term term)
{
	if (term > g->match_term) {
		g->match_term = term;
		g->match = 0;
	}
}

static void receive_append(struct log_guard *g, struct raft_message *m)
{
	struct raft *r = g->r;
	struct raft_append_entries *a = &m->append_entries;
	lift(g, a);
	raft_term term = a->term;
	raft_index upto = a->prev_log_index + a->n_entries;
	raft_index from = 0;
	if (r->state != RAFT_UNAVAILABLE && term >= r->current_term)
		from = conflict(r, a);
	if (guard_on(g, LOG_G5) && from && g->writes) {
		g->stats.held++;
		drop_message(m); /* the leader repeats it */
		return;
	}
	if (guard_on(g, LOG_G13) && a->leader_commit > upto)
		a->leader_commit = upto;
	guard_conf_rollback(g, from);
	begin_match(g, term);
	g->in_request = term == g->match_term;
	g->request_upto = upto;
	g->rejected = false;
	g->recv(r->io, m);
	if (g->in_request && !g->rejected && r->state == RAFT_FOLLOWER && r->current_term == term &&
	    upto > g->match)
		g->match = upto;
	if (!g->rejected)
		g->streak = 0;
	g->in_request = false;
}

static void hold(struct log_guard *g, struct raft_message *m, bool for_app)
{
	/* Kept, not dropped: the leader would repeat it only after its installation time-out. */
	if (g->has_waiting)
		drop_message(&g->waiting);
	char *address = must(strdup(m->server_address)); /* may be the one that is let go of here */
	free(g->waiting_address);
	g->waiting_address = address;
	g->waiting = *m;
	g->waiting.server_address = g->waiting_address;
	g->has_waiting = true;
	g->waits_for_app = for_app;
	g->stats.held++;
}

static void receive_install(struct log_guard *g, struct raft_message *m)
{
	struct raft *r = g->r;
	const struct raft_install_snapshot *s = &m->install_snapshot;
	raft_term term = s->term;
	raft_index last = s->last_index;
	bool matters = term >= r->current_term && last > r->log.snapshot.last_index &&
		       guard_term_of(r, last) != s->last_term;
	if (matters && g->config.may_install &&
	    !g->config.may_install(g->config.arg, &s->data, m->server_id)) {
		hold(g, m, true);
		return;
	}
	if (guard_on(g, LOG_G5) && g->writes) {
		hold(g, m, false);
		return;
	}
	begin_match(g, term);
	g->recv(r->io, m);
	if (r->current_term == term && term == g->match_term && last > g->match)
		g->match = last;
}

/* Votes and acknowledgements that must not reach the core. */
static bool refuse(struct log_guard *g, const struct raft_message *m)
{
	const struct raft *r = g->r;
	if (m->type == RAFT_IO_APPEND_ENTRIES_RESULT)
		return guard_on(g, LOG_G1) && r->state == RAFT_LEADER &&
		       m->append_entries_result.rejected == 0 &&
		       m->append_entries_result.term <= r->current_term &&
		       (g->lead_term != r->current_term || r->last_stored < g->floor);
	if (m->type == RAFT_IO_TIMEOUT_NOW)
		return guard_on(g, LOG_G4) && (g->writes || installing(r));
	if (m->type != RAFT_IO_REQUEST_VOTE)
		return false;
	if (!m->request_vote.disrupt_leader && r->io->time(r->io) < g->born + g->config.quiet_msec)
		return true;
	return guard_on(g, LOG_G7) && !m->request_vote.pre_vote && m->request_vote.term == r->current_term &&
	       r->voted_for && r->voted_for != m->request_vote.candidate_id;
}

static void receive(struct raft_io *io, struct raft_message *m)
{
	struct log_guard *g = guard_of(io);
	log_guard_flush(g);
	if (refuse(g, m)) {
		g->stats.dropped++;
		return;
	}
	if (m->type == RAFT_IO_APPEND_ENTRIES)
		receive_append(g, m);
	else if (m->type == RAFT_IO_INSTALL_SNAPSHOT)
		receive_install(g, m);
	else if (m->type == RAFT_IO_REQUEST_VOTE && guard_on(g, LOG_G11) && g->r->state != RAFT_UNAVAILABLE)
		guard_conf_vote(g, m);
	else
		g->recv(io, m);
	open_term(g);
	touched(g);
}

void log_guard_receive(struct log_guard *g, struct raft_message *message)
{
	if (!g->recv || g->closing)
		drop_message(message);
	else
		receive(g->r->io, message);
}

static void deliver_waiting(struct log_guard *g)
{
	if (!g->has_waiting || g->waits_for_app || g->writes || g->closing)
		return;
	struct raft_message m = g->waiting;
	g->has_waiting = false;
	receive(g->r->io, &m); /* copies the address before it lets go of ours */
}

void log_guard_release(struct log_guard *g)
{
	g->waits_for_app = false;
	deliver_waiting(g);
}

static void tick(struct raft_io *io)
{
	struct log_guard *g = guard_of(io);
	struct raft *r = g->r;
	log_guard_flush(g);
	if (guard_on(g, LOG_G4) && r->state == RAFT_FOLLOWER && (g->writes || installing(r)))
		r->election_timer_start = io->time(io);
	/* Left over when a snapshot was installed on top of an uncommitted configuration. */
	if (guard_on(g, LOG_G8) && r->configuration_uncommitted_index &&
	    r->configuration_uncommitted_index <= r->last_applied)
		r->configuration_uncommitted_index = 0;
	g->tick(io);
	open_term(g);
	touched(g);
}

/* ---- sending ---- */

struct guard_copy {
	struct raft_io_send inner;
	struct log_guard *g;
	raft_id to;
	size_t bytes;
	struct raft_entry *entries;
};

static void copy_sent(struct raft_io_send *req, int status)
{
	struct guard_copy *c = (struct guard_copy *)req;
	(void)status;
	if (c->bytes) {
		struct guard_peer *p = peer_of(c->g, c->to);
		if (p)
			p->in_flight = p->in_flight > c->bytes ? p->in_flight - c->bytes : 0;
	}
	free(c->entries);
	free(c);
}

/* Sends a deep copy of MESSAGE; nothing of the core is referred to afterwards. */
static int send_copy(struct log_guard *g, const struct raft_message *message)
{
	struct guard_copy *c = must(calloc(1, sizeof *c));
	struct raft_message m = *message;
	c->g = g;
	c->to = m.server_id;
	if (m.type == RAFT_IO_APPEND_ENTRIES && m.append_entries.n_entries) {
		unsigned n = m.append_entries.n_entries;
		size_t len = n * sizeof(struct raft_entry);
		for (unsigned i = 0; i < n; i++)
			c->bytes += m.append_entries.entries[i].buf.len;
		c->entries = must(malloc(len + c->bytes));
		uint8_t *p = (uint8_t *)c->entries + len;
		for (unsigned i = 0; i < n; i++) {
			c->entries[i] = m.append_entries.entries[i];
			memcpy(p, c->entries[i].buf.base, c->entries[i].buf.len);
			c->entries[i].buf.base = p;
			p += c->entries[i].buf.len;
		}
		m.append_entries.entries = c->entries;
	}
	struct guard_peer *p = peer_of(g, c->to);
	if (p)
		p->in_flight += c->bytes;
	int rv = g->in.send(g->r->io, &c->inner, &m, copy_sent);
	if (rv)
		copy_sent(&c->inner, rv);
	return rv;
}

/* Shortens A to what may be on the way to P. */
static void cut(struct log_guard *g, struct guard_peer *p, struct raft_append_entries *a)
{
	size_t bytes = 0;
	unsigned k = 0;
	while (k < a->n_entries) {
		bytes += a->entries[k].buf.len;
		if (k && g->config.append_bytes && bytes > g->config.append_bytes)
			break;
		k++;
	}
	if (g->config.in_flight_bytes && p->in_flight > g->config.in_flight_bytes)
		k = 0;
	if (k == a->n_entries)
		return;
	a->n_entries = k;
	if (a->leader_commit > a->prev_log_index + k)
		a->leader_commit = a->prev_log_index + k;
	p->next = a->prev_log_index + k + 1;
	g->stats.cut++;
}

/* How much of COMMIT a message without entries tells P: libraft there forgets what is beyond its disk. */
static raft_index heard(struct log_guard *g, const struct guard_peer *p, raft_index commit)
{
	const struct raft *r = g->r;
	if (r->state == RAFT_LEADER)
		for (unsigned i = 0; i < r->configuration.n; i++)
			if (r->configuration.servers[i].id == p->id &&
			    r->leader_state.progress[i].match_index < commit)
				return r->leader_state.progress[i].match_index;
	return commit;
}

static int send_append(struct log_guard *g, struct raft_io_send *req, const struct raft_message *message,
		       raft_io_send_cb cb)
{
	struct raft_message m = *message;
	struct guard_peer *p = peer_of(g, m.server_id);
	if (p && p->next && m.append_entries.prev_log_index + 1 > p->next) {
		complete_later(g, req, cb); /* would lie behind a gap that the cut has left */
		return 0;
	}
	if (p)
		cut(g, p, &m.append_entries);
	int rv;
	if (guard_on(g, LOG_G5)) {
		rv = send_copy(g, &m);
		if (!rv)
			complete_later(g, req, cb);
	} else {
		rv = g->in.send(g->r->io, req, &m, cb);
	}
	if (!rv && p)
		p->told_commit = m.append_entries.n_entries ? m.append_entries.leader_commit
							    : heard(g, p, m.append_entries.leader_commit);
	return rv;
}

/* G2, G3, G4, G12 */
static int send_append_result(struct log_guard *g, struct raft_io_send *req,
			      const struct raft_message *message, raft_io_send_cb cb)
{
	struct raft *r = g->r;
	struct raft_message m = *message;
	struct raft_append_entries_result *a = &m.append_entries_result;
	if (guard_on(g, LOG_G4) && (!m.server_id || !m.server_address)) {
		g->stats.dropped++;
		return RAFT_NOCONNECTION;
	}
	if (a->rejected) {
		if (guard_on(g, LOG_G12) && g->in_request && r->state == RAFT_FOLLOWER &&
		    a->last_log_index >= a->rejected && a->rejected > r->commit_index) {
			raft_index back = 1ULL << (g->streak < 30 ? g->streak++ : 30);
			raft_index to = a->rejected > back ? a->rejected - back : 0;
			a->last_log_index = to < r->commit_index ? r->commit_index : to;
		}
		g->rejected = true;
		return g->in.send(r->io, req, &m, cb);
	}
	raft_index limit = g->match;
	if (g->in_request && g->request_upto > limit)
		limit = g->request_upto;
	if (guard_on(g, LOG_G3) && (r->state != RAFT_FOLLOWER || r->current_term != g->match_term)) {
		limit = 0;
		g->stats.dropped++;
	} else if (!guard_on(g, LOG_G2)) {
		limit = ~0ULL;
	}
	if (a->last_log_index > limit) {
		a->last_log_index = limit;
		g->stats.clamped++;
	}
	return g->in.send(r->io, req, &m, cb);
}

static int guarded_send(struct raft_io *io, struct raft_io_send *req, const struct raft_message *message,
			raft_io_send_cb cb)
{
	struct log_guard *g = guard_of(io);
	if (message->type == RAFT_IO_APPEND_ENTRIES)
		return send_append(g, req, message, cb);
	if (message->type == RAFT_IO_APPEND_ENTRIES_RESULT)
		return send_append_result(g, req, message, cb);
	if (message->type == RAFT_IO_TIMEOUT_NOW && guard_on(g, LOG_G5)) {
		/* REQ lies in the caller's raft_transfer, which may be gone before the send is over. */
		int rv = send_copy(g, message);
		if (!rv)
			complete_later(g, req, cb);
		return rv;
	}
	if (message->type == RAFT_IO_REQUEST_VOTE_RESULT && guard_on(g, LOG_G9)) {
		struct raft_message m = *message;
		struct raft_request_vote_result *v = &m.request_vote_result;
		if (v->pre_vote == raft_tribool_true && !v->vote_granted && v->term < g->r->current_term)
			v->term = g->r->current_term;
		return g->in.send(io, req, &m, cb);
	}
	return g->in.send(io, req, message, cb);
}

void log_guard_announce(struct log_guard *g)
{
	struct raft *r = g->r;
	enum { PIPELINE = 1 }; /* libraft's PROGRESS__PIPELINE */
	if (r->state != RAFT_LEADER || g->closing)
		return;
	log_guard_flush(g);
	for (unsigned i = 0; i < r->configuration.n; i++) {
		const struct raft_server *s = &r->configuration.servers[i];
		const struct raft_progress *progress = &r->leader_state.progress[i];
		if (s->id == r->id || s->role == RAFT_SPARE || progress->state != PIPELINE ||
		    !progress->next_index)
			continue;
		struct guard_peer *p = peer_of(g, s->id);
		raft_index prev = progress->next_index - 1;
		/* A follower that has not said that the entries are on its disk leaves the word aside:
		 * libraft there forgets a commit index beyond what is stored. It is told when it says so. */
		raft_index commit = r->commit_index < prev ? r->commit_index : prev;
		if (commit > progress->match_index)
			commit = progress->match_index;
		raft_term term = guard_term_of(r, prev);
		if (!p || p->told_commit >= commit || !term)
			continue;
		struct raft_message m = {
		    .type = RAFT_IO_APPEND_ENTRIES, .server_id = s->id, .server_address = s->address};
		m.append_entries.term = r->current_term;
		m.append_entries.prev_log_index = prev;
		m.append_entries.prev_log_term = term;
		m.append_entries.leader_commit = commit;
		if (send_copy(g, &m) == 0)
			p->told_commit = commit;
	}
}

/* ---- writing ---- */

struct guard_append {
	struct raft_io_append inner;
	struct raft_io_append *req;
	struct log_guard *g;
};

static void append_done(struct raft_io_append *inner, int status)
{
	struct guard_append *a = (struct guard_append *)inner;
	struct log_guard *g = a->g;
	struct raft_io_append *req = a->req;
	free(a);
	g->writes--;
	if (status && status != RAFT_CANCELED && guard_on(g, LOG_G6)) {
		die(g, "writing entries", status);
		return;
	}
	log_guard_flush(g);
	req->cb(req, status);
	open_term(g);
	deliver_waiting(g);
	touched(g);
}

static int guarded_append(struct raft_io *io, struct raft_io_append *req, const struct raft_entry entries[],
			  unsigned n, raft_io_append_cb cb)
{
	struct log_guard *g = guard_of(io);
	struct guard_append *a = must(calloc(1, sizeof *a));
	a->req = req;
	a->g = g;
	req->cb = cb;
	guard_conf_entries(g, raft_last_index(g->r) - n + 1, entries, n);
	int rv = g->in.append(io, &a->inner, entries, n, append_done);
	if (rv) {
		free(a);
		if (guard_on(g, LOG_G6))
			die(g, "writing entries", rv);
		return rv;
	}
	g->writes++;
	return 0;
}

static int guarded_truncate(struct raft_io *io, raft_index index)
{
	struct log_guard *g = guard_of(io);
	guard_conf_cut(g, index);
	int rv = g->in.truncate(io, index);
	if (rv && guard_on(g, LOG_G6))
		die(g, "cutting the log", rv);
	return rv;
}

static int guarded_set_term(struct raft_io *io, raft_term term)
{
	struct log_guard *g = guard_of(io);
	int rv = g->in.set_term(io, term);
	if (rv && guard_on(g, LOG_G6))
		die(g, "writing the term", rv);
	return rv;
}

static int guarded_set_vote(struct raft_io *io, raft_id id)
{
	struct log_guard *g = guard_of(io);
	int rv = g->in.set_vote(io, id);
	if (rv && guard_on(g, LOG_G6))
		die(g, "writing the vote", rv);
	return rv;
}

struct guard_put {
	struct raft_io_snapshot_put inner;
	struct raft_io_snapshot_put *req;
	struct log_guard *g;
	const struct raft_snapshot *snapshot; /* the core's, until its callback */
	unsigned trailing;
};

static void put_done(struct raft_io_snapshot_put *inner, int status)
{
	struct guard_put *p = (struct guard_put *)inner;
	struct log_guard *g = p->g;
	struct raft_io_snapshot_put *req = p->req;
	if (p->trailing == 0)
		g->writes--;
	free(p);
	if (status && status != RAFT_CANCELED && guard_on(g, LOG_G6)) {
		die(g, "writing a snapshot", status);
		return;
	}
	req->cb(req, status);
	open_term(g);
	deliver_waiting(g);
	touched(g);
}

static int put_now(struct log_guard *g, struct guard_put *p)
{
	int rv = g->in.snapshot_put(g->r->io, p->trailing, &p->inner, p->snapshot, put_done);
	if (rv) {
		free(p);
		if (guard_on(g, LOG_G6))
			die(g, "writing a snapshot", rv);
	}
	return rv;
}

static int guarded_put(struct raft_io *io, unsigned trailing, struct raft_io_snapshot_put *req,
		       const struct raft_snapshot *snapshot, raft_io_snapshot_put_cb cb)
{
	struct log_guard *g = guard_of(io);
	struct guard_put *p = must(calloc(1, sizeof *p));
	*p = (struct guard_put){.req = req, .g = g, .snapshot = snapshot, .trailing = trailing};
	req->cb = cb;
	if (trailing == 0) { /* an installation: the log below is replaced */
		guard_conf_cut(g, 0);
		guard_conf_add(g, snapshot->configuration_index, &snapshot->configuration);
		int rv = put_now(g, p);
		if (!rv)
			g->writes++;
		return rv;
	}
	if (g->config.may_put && !g->config.may_put(g->config.arg, &snapshot->bufs[0])) {
		g->put_held = p;
		return 0;
	}
	return put_now(g, p);
}

void log_guard_put_held(struct log_guard *g)
{
	struct guard_put *p = g->put_held;
	if (!p || g->closing)
		return;
	if (!g->config.may_put(g->config.arg, &p->snapshot->bufs[0]))
		return;
	g->put_held = NULL;
	put_now(g, p);
}

/* ---- opening and closing ---- */

static int guarded_load(struct raft_io *io, raft_term *term, raft_id *vote, struct raft_snapshot **snapshot,
			raft_index *start, struct raft_entry *entries[], size_t *n)
{
	struct log_guard *g = guard_of(io);
	int rv = g->in.load(io, term, vote, snapshot, start, entries, n);
	if (rv)
		return rv;
	raft_index from = 0;
	guard_conf_cut(g, 0);
	if (*snapshot) {
		from = (*snapshot)->configuration_index;
		guard_conf_add(g, from, &(*snapshot)->configuration);
	}
	for (size_t i = 0; i < *n; i++)
		if (*start + i > from)
			guard_conf_entries(g, *start + i, *entries + i, 1);
	return 0;
}

static int guarded_start(struct raft_io *io, unsigned msecs, raft_io_tick_cb on_tick, raft_io_recv_cb on_recv)
{
	struct log_guard *g = guard_of(io);
	g->tick = on_tick;
	g->recv = on_recv;
	return g->in.start(io, msecs, tick, receive);
}

static void forget_waiting(struct log_guard *g)
{
	if (g->has_waiting)
		drop_message(&g->waiting);
	g->has_waiting = false;
	free(g->waiting_address);
	g->waiting_address = NULL;
}

/* The disk of libraft says that it is closed a second time where a segment that was being prepared ends late:
 * raft would free its own address twice. */
static void closed_once(struct raft_io *io)
{
	struct log_guard *g = guard_of(io);
	raft_io_close_cb cb = g->closed;
	g->closed = NULL;
	if (cb)
		cb(io);
}

static void guarded_close(struct raft_io *io, raft_io_close_cb cb)
{
	struct log_guard *g = guard_of(io);
	log_guard_flush(g);
	g->closing = true;
	forget_waiting(g);
	struct guard_put *p = g->put_held;
	if (p) {
		g->put_held = NULL;
		p->req->cb(p->req, RAFT_CANCELED);
		free(p);
	}
	g->closed = cb;
	g->in.close(io, closed_once);
}

struct log_guard *log_guard_new(struct raft *r, const struct log_guard_config *config)
{
	struct raft_io *io = r->io;
	assert(io->data == r);
	assert(config->fatal);
	struct log_guard *g = must(calloc(1, sizeof *g));
	g->r = r;
	g->in = *io;
	g->config = *config;
	g->sent_tail = &g->sent;
	r->data = g;
	io->load = guarded_load;
	io->start = guarded_start;
	io->close = guarded_close;
	io->send = guarded_send;
	io->append = guarded_append;
	io->truncate = guarded_truncate;
	io->set_term = guarded_set_term;
	io->set_vote = guarded_set_vote;
	io->snapshot_put = guarded_put;
	return g;
}

void log_guard_started(struct log_guard *g)
{
	g->born = g->r->io->time(g->r->io);
	guard_conf_started(g);
}

struct log_guard *log_guard_free(struct log_guard *g)
{
	if (!g)
		return NULL;
	forget_waiting(g);
	while (g->sent) {
		struct guard_sent *next = g->sent->next;
		free(g->sent);
		g->sent = next;
	}
	free(g->put_held);
	guard_conf_cut(g, 0);
	free(g->conf);
	free(g);
	return NULL;
}

void log_guard_stats(const struct log_guard *g, struct log_guard_stats *ret)
{
	*ret = g->stats;
}
