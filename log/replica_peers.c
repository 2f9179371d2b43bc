/* log/replica_peers.c: the other controllers: connections, Raft messages, pings and the lease, applications'
 * messages.
 *
 * Raft messages do not use libraft's network layer: it has no proof of identity, no bound on what waits for a
 * slow peer, and one stream for everything. Here each peer has two connections of ours, one for Raft and
 * pings and one for the applications' messages.
 *
 * The lease. The leader pings every voter each heartbeat. The answer says whom the peer follows, in which
 * term, and how long ago it last heard that leader (its age); for at least an election time-out from that
 * moment it neither stands nor votes for another. So it vouches for us from (ping sent - age) on, and we
 * count half of the time-out. A replica that restarts refuses votes for an election time-out (quiet_msec of
 * the guard), lest it forgets that it vouched. Transfer is the one way round this: from its beginning until
 * two election time-outs after it there is no lease. */
#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "log/replica_int.h"
#include "log/rpc.h"

enum { FOLLOWER_PING_MSEC = 200, PING_BYTES = 16, PONG_BYTES = 28 };

/* A send of libraft's on its way. */
struct replica_send {
	struct replica_send *next;
	struct log_replica *r;
	struct raft_io_send *req;
	raft_io_send_cb cb;
	bool failed; /* to be called back by replica_sends_done */
};

struct log_reply_to {
	uint64_t connection, call;
};

static void put_u64(uint8_t *p, uint64_t v)
{
	for (unsigned i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get_u64(const uint8_t *p)
{
	uint64_t v = 0;
	for (unsigned i = 8; i--;)
		v = v << 8 | p[i];
	return v;
}

static int64_t wall_usec(void)
{
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- the list ---- */

struct replica_peer *replica_peer_by_id(const struct log_replica *r, uint64_t id)
{
	for (struct replica_peer *p = r->peers; p; p = p->next)
		if (id && p->id == id)
			return p;
	return NULL;
}

struct replica_peer *replica_peer_add(struct log_replica *r, uint64_t id, const char *address,
				      const char *name)
{
	struct replica_peer *p = calloc(1, sizeof *p);
	if (!p)
		abort();
	p->r = r;
	p->id = id;
	snprintf(p->address, sizeof p->address, "%.63s", address);
	snprintf(p->name, sizeof p->name, "%.63s", name);
	p->used_msec = replica_now_msec(r);
	p->next = r->peers;
	r->peers = p;
	p->talk = transport_link_open(r->transport, p->address, id, TRANSPORT_TALK, p);
	if (id)
		p->raft = transport_link_open(r->transport, p->address, id, TRANSPORT_RAFT, p);
	return p;
}

void replica_peer_drop(struct replica_peer *peer)
{
	struct log_replica *r = peer->r;
	for (struct replica_peer **p = &r->peers; *p; p = &(*p)->next) {
		if (*p != peer)
			continue;
		*p = peer->next;
		break;
	}
	replica_calls_fail(r, peer, MU_ECONNECT);
	transport_link_close(peer->raft);
	transport_link_close(peer->talk);
	free(peer);
}

static bool heard_lately(const struct replica_peer *p)
{
	return p->heard_msec && replica_now_msec(p->r) - p->heard_msec < p->r->config.election_msec;
}

bool log_replica_peer_up(const struct log_replica *r, uint64_t id)
{
	const struct replica_peer *p = replica_peer_by_id(r, id);
	return id == r->self.id || (p && heard_lately(p));
}

bool replica_is_up(const struct log_replica *r, uint64_t id)
{
	return log_replica_peer_up(r, id);
}

int log_replica_clock_offset(const struct log_replica *r, uint64_t id, int64_t *ret_usec)
{
	const struct replica_peer *p = replica_peer_by_id(r, id);
	if (!p || !p->clock_known)
		return MU_ENOENT;
	*ret_usec = p->clock_offset_usec;
	return 0;
}

/* ---- who may speak ---- */

static void tell_self(void *arg, struct secure_identity *ret)
{
	struct log_replica *r = arg;
	memcpy(ret->cluster, r->self.cluster, 16);
	ret->generation = r->self.generation;
	ret->id = r->self.id;
	char address[64];
	replica_split(r->own_address, address, ret->name);
	memcpy(ret->address, address, sizeof address);
}

/* A replica with an empty log that waits to be added learns its cluster from the first member that speaks
 * Raft to it. */
static bool adopt(struct log_replica *r, const struct secure_identity *peer)
{
	if (r->phase != REPLICA_RUNNING || r->self.joined || r->raft.current_term)
		return false;
	memcpy(r->self.cluster, peer->cluster, 16);
	r->self.generation = peer->generation;
	replica_store(r);
	r->reset_links = true;
	replica_say(r, "replica %" PRIu64 " (%s) takes this one into its cluster", peer->id, peer->name);
	return true;
}

/* A proven controller of a later generation: the operator gave our majority up, so we must not lead it any more, now or after a
 * restart. */
static void leave_for_good(struct log_replica *r, const struct secure_identity *peer)
{
	r->self.shut_out = peer->generation;
	replica_store(r);
	replica_fatal(r,
		      "Generation %" PRIu64 " of this cluster (%s at %s) has replaced generation %" PRIu64
		      ", to which this controller belongs; empty its directory and add it again.",
		      peer->generation, peer->name, peer->address, r->self.generation);
}

static bool admit(void *arg, const struct secure_identity *peer, uint64_t expected, bool incoming)
{
	struct log_replica *r = arg;
	bool same = !memcmp(peer->cluster, r->self.cluster, 16);
	bool talk = peer->purpose == TRANSPORT_TALK;
	if (same && !log_identity_is_zero(peer->cluster) && peer->generation > r->self.generation) {
		leave_for_good(r, peer);
		return false;
	}
	if (peer->id == r->self.id) {
		replica_say(r,
			    "another controller (%s at %s) uses this one's replica id %" PRIu64
			    ": was a data directory copied? It is not spoken to",
			    peer->name, peer->address, peer->id);
		return false;
	}
	if (expected && peer->id != expected) {
		replica_say(r,
			    "replica %" PRIu64 " (%s) answers at %s where replica %" PRIu64
			    " should: its disk was replaced; "
			    "remove the old one and add the new one",
			    peer->id, peer->name, peer->address, expected);
		return false;
	}
	if (same && peer->generation == r->self.generation)
		return true;
	if (same) {
		replica_say(r,
			    "replica %" PRIu64 " (%s) belongs to generation %" PRIu64
			    " of this cluster, this one to %" PRIu64
			    ": after a recovery the others must be emptied and added again",
			    peer->id, peer->name, peer->generation, r->self.generation);
		return false;
	}
	if (log_identity_is_zero(peer->cluster))
		return talk || !incoming; /* founding, or one that we add */
	if (log_identity_is_zero(r->self.cluster))
		return talk || (incoming && adopt(r, peer));
	replica_say(r, "replica %" PRIu64 " (%s at %s) belongs to another cluster", peer->id, peer->name,
		    peer->address);
	return false;
}

static void link_changed(void *arg, struct transport_link *link, bool up)
{
	struct log_replica *r = arg;
	struct replica_peer *p = transport_link_arg(link);
	if (up) {
		const struct secure_identity *who = transport_link_peer(link);
		p->answer_id = who->id;
		p->heard_msec = replica_now_msec(r);
		if (!p->name[0])
			snprintf(p->name, sizeof p->name, "%s", who->name);
	} else if (link == p->talk) {
		p->answer_id = 0;
		p->answered_msec = 0;
		replica_calls_fail(r, p, MU_ECONNECT);
	}
}

/* ---- Raft messages ---- */

static void send_ended(void *arg, bool good)
{
	struct replica_send *s = arg;
	struct log_replica *r = s->r;
	for (struct replica_send **p = &r->sends; *p; p = &(*p)->next) {
		if (*p != s)
			continue;
		*p = s->next;
		if (r->sends_tail == &s->next)
			r->sends_tail = p;
		break;
	}
	if (s->cb)
		s->cb(s->req, good ? 0 : RAFT_NOCONNECTION);
	free(s);
}

void replica_sends_done(struct log_replica *r, int status)
{
	bool all = status == RAFT_CANCELED;
	for (struct replica_send *s = r->sends, *next; s; s = next) {
		next = s->next;
		if (!s->failed && !all)
			continue;
		raft_io_send_cb cb = s->cb;
		struct raft_io_send *req = s->req;
		bool failed = s->failed;
		s->cb = NULL;
		if (failed)
			send_ended(s, false);
		if (cb)
			cb(req, status);
	}
}

int replica_raft_send(struct raft_io *io, struct raft_io_send *req, const struct raft_message *m,
		      raft_io_send_cb cb)
{
	struct raft *raft = io->data;
	struct log_replica *r = (struct log_replica *)((char *)raft - offsetof(struct log_replica, raft));
	struct mu_buf bytes MU_CLEANUP(mu_buf_free) = {0};
	struct replica_peer *p = replica_peer_by_id(r, m->server_id);
	struct replica_send *s = calloc(1, sizeof *s);
	if (!s)
		abort();
	*s = (struct replica_send){.r = r, .req = req, .cb = cb};
	*r->sends_tail = s;
	r->sends_tail = &s->next;
	req->cb = cb;
	if (!p && m->server_address) { /* a leader or candidate that our configuration does not know yet */
		char address[64], name[64];
		replica_split(m->server_address, address, name);
		p = replica_peer_add(r, m->server_id, address, name);
	}
	int rv = MU_ECONNECT;
	if (p) {
		p->used_msec = replica_now_msec(r);
		rv = rpc_encode(m, &bytes);
		if (!rv && p->raft)
			rv = transport_link_send(p->raft, m->type, 0, 0,
						 (struct mu_view){bytes.data, bytes.len}, send_ended, s);
	}
	if (rv) {
		s->failed = true; /* told later: the library does not expect it before we return */
		replica_later(r);
	}
	return 0;
}

static void receive_raft(struct log_replica *r, const struct transport_from *from, uint16_t kind,
			 struct mu_view bytes)
{
	struct raft_message m;
	char composed[REPLICA_ADDRESS];
	if (!r->raft_open || r->phase == REPLICA_FOUNDING || memcmp(from->peer.cluster, r->self.cluster, 16))
		return;
	if (rpc_decode(kind, bytes, &m)) {
		replica_say(r, "replica %" PRIu64 " (%s) sent a message that cannot be read", from->peer.id,
			    from->peer.name);
		return;
	}
	replica_compose(composed, from->peer.address, from->peer.name);
	m.server_id = from->peer.id;
	m.server_address = composed;
	log_guard_receive(r->guard, &m);
}

/* ---- pings ---- */

static void ping(struct replica_peer *p)
{
	struct log_replica *r = p->r;
	uint8_t bytes[PING_BYTES];
	uint64_t now = replica_now_msec(r);
	if (!p->raft || !transport_link_peer(p->raft) || now < p->ping_next_msec)
		return;
	bool leader = r->raft_open && raft_state(&r->raft) == RAFT_LEADER;
	p->ping_next_msec = now + (leader ? 0 : FOLLOWER_PING_MSEC);
	uint64_t number = ++p->ping_seq;
	p->ping_sent_msec[number % REPLICA_PINGS] = now;
	put_u64(bytes, r->raft_open ? r->raft.current_term : 0);
	put_u64(bytes + 8, (uint64_t)wall_usec());
	transport_link_send(p->raft, REPLICA_PING, REPLICA_ASK, number, (struct mu_view){bytes, sizeof bytes},
			    NULL, NULL);
}

static void pong(struct log_replica *r, const struct transport_from *from, uint64_t number)
{
	uint8_t bytes[PONG_BYTES];
	raft_id leader = 0;
	const char *address;
	uint64_t age = UINT32_MAX;
	if (r->raft_open && raft_state(&r->raft) == RAFT_FOLLOWER) {
		raft_leader(&r->raft, &leader, &address);
		uv_update_time(r->config.loop);
		age = replica_now_msec(r) - r->raft.election_timer_start;
	}
	put_u64(bytes, r->raft_open ? r->raft.current_term : 0);
	put_u64(bytes + 8, leader);
	put_u64(bytes + 16, (uint64_t)wall_usec());
	for (unsigned i = 0; i < 4; i++)
		bytes[24 + i] = (uint8_t)((age > UINT32_MAX ? UINT32_MAX : age) >> (8 * i));
	transport_answer(r->transport, from->connection, REPLICA_PING, REPLICA_ANSWER, number,
			 (struct mu_view){bytes, sizeof bytes});
}

static void take_pong(struct replica_peer *p, uint64_t number, struct mu_view bytes)
{
	struct log_replica *r = p->r;
	uint64_t age = 0;
	if (bytes.len != PONG_BYTES || number > p->ping_seq || p->ping_seq - number >= REPLICA_PINGS)
		return;
	uint64_t sent = p->ping_sent_msec[number % REPLICA_PINGS], now = replica_now_msec(r);
	uint64_t term = get_u64(bytes.data), leader = get_u64(bytes.data + 8);
	for (unsigned i = 4; i--;)
		age = age << 8 | bytes.data[24 + i];
	p->clock_offset_usec = (int64_t)get_u64(bytes.data + 16) + (int64_t)(now - sent) * 500 - wall_usec();
	p->clock_known = true;
	if (!r->raft_open || raft_state(&r->raft) != RAFT_LEADER || term != r->raft.current_term ||
	    leader != r->self.id || age > sent)
		return;
	if (p->lease_term != term || sent - age > p->lease_from_msec)
		p->lease_from_msec = sent - age;
	p->lease_term = term;
}

bool log_replica_lease(const struct log_replica *r)
{
	unsigned voters = 0, vouch = 0;
	/* The loop's own clock stands still while a callback runs. */
	uint64_t now = uv_hrtime() / 1000000;
	if (!r->raft_open || r->phase != REPLICA_RUNNING || !log_guard_settled(r->guard) ||
	    now < r->no_lease_until_msec)
		return false;
	const struct raft_configuration *c = &r->raft.configuration;
	for (unsigned i = 0; i < c->n; i++) {
		if (c->servers[i].role != RAFT_VOTER)
			continue;
		voters++;
		const struct replica_peer *p = replica_peer_by_id(r, c->servers[i].id);
		if (c->servers[i].id == r->self.id)
			vouch++;
		else if (p && p->lease_term == r->raft.current_term &&
			 p->lease_from_msec + r->config.election_msec / 2 > now)
			vouch++;
	}
	return vouch > voters / 2;
}

/* ---- applications' messages ---- */

void replica_calls_fail(struct log_replica *r, struct replica_peer *peer, int code)
{
	struct replica_call **p = &r->calls;
	while (*p) {
		struct replica_call *c = *p;
		if (peer && c->peer != peer) {
			p = &c->next;
			continue;
		}
		*p = c->next;
		r->call_count--;
		c->cb(c->arg, code, (struct mu_view){NULL, 0});
		free(c);
		p = &r->calls; /* the callback may have changed the list */
	}
}

static void time_out_calls(struct log_replica *r)
{
	uint64_t now = replica_now_msec(r);
	struct replica_call **p = &r->calls;
	while (*p) {
		struct replica_call *c = *p;
		if (now < c->deadline_msec) {
			p = &c->next;
			continue;
		}
		*p = c->next;
		r->call_count--;
		c->cb(c->arg, MU_ETIMEOUT, (struct mu_view){NULL, 0});
		free(c);
		p = &r->calls;
	}
}

static void take_answer(struct log_replica *r, uint64_t number, struct mu_view bytes)
{
	for (struct replica_call **p = &r->calls; *p; p = &(*p)->next) {
		struct replica_call *c = *p;
		if (c->number != number)
			continue;
		*p = c->next;
		r->call_count--;
		c->cb(c->arg, 0, bytes);
		free(c);
		return;
	}
}

int replica_peer_call(struct replica_peer *p, uint16_t kind, struct mu_view bytes, unsigned timeout_msec,
		      log_answered cb, void *arg)
{
	struct log_replica *r = p->r;
	if (r->call_count >= REPLICA_CALLS_MAX)
		return MU_EBUSY;
	uint64_t number = ++r->call_number;
	int rv = transport_link_send(p->talk, kind, REPLICA_ASK, number, bytes, NULL, NULL);
	if (rv)
		return rv;
	struct replica_call *c = calloc(1, sizeof *c);
	if (!c)
		abort();
	*c = (struct replica_call){.next = r->calls,
				   .peer = p,
				   .number = number,
				   .deadline_msec = replica_now_msec(r) + timeout_msec,
				   .cb = cb,
				   .arg = arg};
	r->calls = c;
	r->call_count++;
	return 0;
}

int log_replica_send(struct log_replica *r, uint64_t to, uint16_t kind, struct mu_view bytes)
{
	struct replica_peer *p = replica_peer_by_id(r, to);
	assert(kind < REPLICA_OWN_KINDS);
	return p ? transport_link_send(p->talk, kind, 0, 0, bytes, NULL, NULL) : MU_ECONNECT;
}

int log_replica_call(struct log_replica *r, uint64_t to, uint16_t kind, struct mu_view bytes,
		     unsigned timeout_msec, log_answered cb, void *arg)
{
	struct replica_peer *p = replica_peer_by_id(r, to);
	assert(kind < REPLICA_OWN_KINDS);
	return p ? replica_peer_call(p, kind, bytes, timeout_msec, cb, arg) : MU_ECONNECT;
}

void log_replica_answer(struct log_replica *r, struct log_reply_to *reply, struct mu_view bytes)
{
	if (r->transport)
		transport_answer(r->transport, reply->connection, 0, REPLICA_ANSWER, reply->call, bytes);
	free(reply);
}

static void receive_talk(struct log_replica *r, const struct transport_from *from, uint16_t kind,
			 uint16_t flags, uint64_t call, struct mu_view bytes)
{
	if (flags & REPLICA_ANSWER) {
		take_answer(r, call, bytes);
		return;
	}
	if (kind == REPLICA_FOUND) {
		struct mu_buf out MU_CLEANUP(mu_buf_free) = {0};
		replica_found_answer(r, bytes, &out);
		transport_answer(r->transport, from->connection, kind, REPLICA_ANSWER, call,
				 (struct mu_view){out.data, out.len});
		return;
	}
	if (kind >= REPLICA_OWN_KINDS || memcmp(from->peer.cluster, r->self.cluster, 16) ||
	    !r->config.hooks.message)
		return;
	struct log_reply_to *reply = NULL;
	if (flags & REPLICA_ASK) {
		reply = calloc(1, sizeof *reply);
		if (!reply)
			abort();
		*reply = (struct log_reply_to){from->connection, call};
	}
	r->config.hooks.message(r->config.arg, from->peer.id, kind, bytes, reply);
}

static void received(void *arg, const struct transport_from *from, uint16_t kind, uint16_t flags,
		     uint64_t call, struct mu_view bytes)
{
	struct log_replica *r = arg;
	struct replica_peer *p = replica_peer_by_id(r, from->peer.id);
	if (r->phase == REPLICA_CLOSING)
		return;
	if (p)
		p->heard_msec = replica_now_msec(r);
	if (from->peer.purpose == TRANSPORT_TALK)
		receive_talk(r, from, kind, flags, call, bytes);
	else if (kind != REPLICA_PING)
		receive_raft(r, from, kind, bytes);
	else if (flags & REPLICA_ASK)
		pong(r, from, call);
	else if (p)
		take_pong(p, call, bytes);
}

/* ---- upkeep ---- */

static const struct raft_server *server_of(const struct log_replica *r, uint64_t id)
{
	const struct raft_configuration *c = &r->raft.configuration;
	for (unsigned i = 0; r->raft_open && i < c->n; i++)
		if (c->servers[i].id == id)
			return &c->servers[i];
	return NULL;
}

/* Members are peers; others stay only while they are spoken to. */
static void follow_configuration(struct log_replica *r)
{
	const struct raft_configuration *c = &r->raft.configuration;
	uint64_t now = replica_now_msec(r);
	for (unsigned i = 0; r->raft_open && i < c->n; i++) {
		char address[64], name[64];
		if (c->servers[i].id == r->self.id)
			continue;
		struct replica_peer *p = replica_peer_by_id(r, c->servers[i].id);
		replica_split(c->servers[i].address, address, name);
		if (p && strcmp(p->address, address)) {
			replica_peer_drop(p);
			p = NULL;
		}
		if (!p)
			p = replica_peer_add(r, c->servers[i].id, address, name);
		p->used_msec = now;
	}
	for (struct replica_peer *p = r->peers, *next; p; p = next) {
		next = p->next;
		if (r->phase == REPLICA_FOUNDING || p == r->job.candidate || (p->id && server_of(r, p->id)))
			continue;
		if (now - p->used_msec > REPLICA_FOREIGN_MSEC || !p->id)
			replica_peer_drop(p);
	}
}

void replica_peers_tick(struct log_replica *r)
{
	/* Handshakes carry the cluster's id: once we have one, everybody has to hear it. */
	if (r->reset_links) {
		r->reset_links = false;
		transport_reset(r->transport);
	}
	follow_configuration(r);
	time_out_calls(r);
	for (struct replica_peer *p = r->peers; p; p = p->next)
		ping(p);
}

static void transport_says(void *arg, const char *sentence)
{
	replica_say(arg, "%s", sentence);
}

int replica_peers_open(struct log_replica *r, struct mu_err *err)
{
	struct transport_config c = {.loop = r->config.loop,
				     .listen = r->listen,
				     .self = tell_self,
				     .admit = admit,
				     .received = received,
				     .link_changed = link_changed,
				     .say = transport_says,
				     .arg = r};
	memcpy(c.key, r->config.cluster_key, sizeof c.key);
	return transport_open(&c, &r->transport, err);
}

void replica_peers_free(struct log_replica *r)
{
	while (r->peers) {
		struct replica_peer *next = r->peers->next;
		free(r->peers);
		r->peers = next;
	}
	while (r->sends) {
		struct replica_send *next = r->sends->next;
		free(r->sends);
		r->sends = next;
	}
}
