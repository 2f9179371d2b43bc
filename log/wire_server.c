/* The server half of log/wire.h: SP framing over epoll, without nng.
 *
 * Why not nng's own REP socket, whose framing this is: it accepts and keeps connections before anything can
 * count them (a stranger could take every descriptor that the log needs), lets a half-sent message stay for
 * ever, reads on while replies wait, and has known uses after free on shutdown. Here every connection has one
 * owner, one request and one deadline at a time.
 *
 * A connection's life. In an armed state it lies in epoll (one-shot) and on the list of its deadline; whoever
 * claims it under the lock owns its socket until he arms, closes or hands it on:
 *
 *   accept -> ARMED_READ -event-> READING -whole request-> HANDLING -wire_reply-> REPLYING -all sent->
 * ARMED_READ
 *                ^---- more bytes needed ----'                 |                     '-socket full->
 * ARMED_WRITE <-> WRITING
 *                                                              '-client left-> GONE (memory waits for
 * wire_reply)
 *
 * Nothing is read while a request waits, so a client that sends many fills only its own socket. Events carry
 * a slot and a generation, never a pointer, so a late event for a closed connection finds nothing. The
 * sweeper only calls shutdown(2): the owner, or the event that follows, closes. The lock is never held over a
 * read, a write or the handler. */
#include "log/wire.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "log/clock.h"
#include "log/diag.h"
#include "log/stream.h"

enum {
	THREADS = 16, /* run handlers: some may wait for munged or the name service while others serve */
	ADDRESSES_MAX = 16,
	HELLO_BYTES = 8,
	ID_BYTES = 4,
	HEAD_BYTES = 1 + 8 + ID_BYTES, /* TCP has one less */
	FIRST_BYTES = 16 * 1024, /* a body's buffer starts with at most this and doubles as bytes come */
	KEEP_BYTES = 16 * 1024,	 /* a thread's buffer that grew beyond is given back */
	DESCRIPTORS_WANTED =
	    65536, /* 10,000 agents with two connections each, as many clients, and the log's own */
	DESCRIPTORS_KEPT = 512, /* for the log, the view and the peers */
	SWEEP_MSEC = 1000,
	USERS = 1024,
	USER_SHARE = 4, /* one user on this host may have a quarter of what may wait; root runs agents */
	EVENTS = 1	/* one at a time: a handler that blocks must not keep other events waiting */
};
/* All partly received bodies, and all partly sent replies, together. */
static const uint64_t in_bytes_max = 512ull << 20, out_bytes_max = 1ull << 30;

enum state { ARMED_READ, READING, HANDLING, REPLYING, ARMED_WRITE, WRITING, GONE };

/* One list for each span of time, so that every list is in the order of its deadlines. */
enum list { LIST_FRESH, LIST_FRAME, LIST_SEND, LIST_IDLE, LIST_CALL, LISTS, LIST_NONE = LISTS };

struct wire_call {
	struct wire_server *server;
	int fd;
	uint32_t slot, generation;
	enum state state;
	struct wire_peer peer;

	enum list list;
	int64_t deadline_usec;
	struct wire_call *prev, *next;

	bool greeted;
	uint8_t head[HELLO_BYTES + HEAD_BYTES];
	size_t head_have;
	uint64_t body_len; /* known once the head is whole */
	bool headed;
	struct mu_buf in;  /* the body so far; empty between requests */
	size_t in_counted; /* of in.cap, in the server's in_bytes */
	struct mu_buf out; /* what the socket did not take yet, from out_sent on */
	size_t out_sent;
};

struct slot {
	struct wire_call *conn;
	uint32_t generation;
	uint32_t next_free;
};

struct wire_server {
	wire_handler handler;
	void *arg;
	size_t max_waiting, max_connections;
	struct mu_buf busy;
	int listeners[ADDRESSES_MAX];
	bool local[ADDRESSES_MAX];
	char *paths[ADDRESSES_MAX]; /* socket files to remove */
	size_t listener_count;
	int epoll, stop;
	pthread_t threads[THREADS], acceptor;
	size_t thread_count;
	bool accepting;

	pthread_mutex_t lock; /* guards everything below, and state, list and fd of every connection */
	pthread_cond_t replied;
	bool closed;
	int64_t span_usec[LISTS];
	struct slot *slots;
	uint32_t slot_count, free_slot; /* UINT32_MAX ends the list */
	struct wire_call *heads[LISTS], *tails[LISTS];
	size_t waiting_of[USERS]; /* of the users on this host, by uid modulo USERS */
	size_t waiting;	 /* calls not yet answered; after closing the last of them frees the server */
	size_t replying; /* threads inside wire_reply */
	uint64_t in_bytes, out_bytes;
	struct wire_stats stats;
};

/* ---- lists, slots (under the lock) ---- */

static void unlist(struct wire_call *c)
{
	struct wire_server *s = c->server;
	if (c->list == LIST_NONE)
		return;
	*(c->prev ? &c->prev->next : &s->heads[c->list]) = c->next;
	*(c->next ? &c->next->prev : &s->tails[c->list]) = c->prev;
	c->prev = c->next = NULL;
	c->list = LIST_NONE;
}

static void enlist(struct wire_call *c, enum list list)
{
	struct wire_server *s = c->server;
	unlist(c);
	c->list = list;
	c->deadline_usec = clock_mono_usec() + s->span_usec[list];
	c->prev = s->tails[list];
	*(c->prev ? &c->prev->next : &s->heads[list]) = c;
	s->tails[list] = c;
}

static void take_slot(struct wire_server *s, struct wire_call *c)
{
	if (s->free_slot == UINT32_MAX) {
		uint32_t more = s->slot_count ? s->slot_count : 64;
		s->slots = realloc(s->slots, ((size_t)s->slot_count + more) * sizeof *s->slots);
		if (!s->slots)
			abort();
		for (uint32_t i = 0; i < more; i++)
			s->slots[s->slot_count + i] =
			    (struct slot){NULL, 0, i + 1 < more ? s->slot_count + i + 1 : UINT32_MAX};
		s->free_slot = s->slot_count;
		s->slot_count += more;
	}
	struct slot *slot = &s->slots[s->free_slot];
	c->slot = s->free_slot;
	c->generation = slot->generation;
	s->free_slot = slot->next_free;
	slot->conn = c;
	s->stats.connections++;
}

static struct wire_call *find(struct wire_server *s, uint64_t key)
{
	struct slot *slot = &s->slots[(uint32_t)key];
	return slot->generation == key >> 32 ? slot->conn : NULL;
}

static bool arm(struct wire_call *c, uint32_t events, int op)
{
	struct epoll_event e = {.events = events | EPOLLONESHOT,
				.data.u64 = (uint64_t)c->generation << 32 | c->slot};
	return epoll_ctl(c->server->epoll, op, c->fd, &e) ==
	       0; /* MOD of a descriptor that is in does not fail. */
}

/* Takes the connection out of the server: its socket is closed, its memory stays the caller's. */
static void detach(struct wire_call *c)
{
	struct wire_server *s = c->server;
	struct slot *slot = &s->slots[c->slot];
	unlist(c);
	slot->conn = NULL;
	slot->generation++;
	slot->next_free = s->free_slot;
	s->free_slot = c->slot;
	s->stats.connections--;
	s->in_bytes -= c->in_counted;
	c->in_counted = 0;
	s->out_bytes -= c->out.cap;
	mu_buf_free(&c->in);
	mu_buf_free(&c->out);
	epoll_ctl(s->epoll, EPOLL_CTL_DEL, c->fd, NULL);
	close(c->fd);
	c->fd = -1;
}

static void destroy(struct wire_call *c)
{
	struct wire_server *s = c->server;
	pthread_mutex_lock(&s->lock);
	detach(c);
	pthread_mutex_unlock(&s->lock);
	free(c);
}

/* Ends a connection that somebody else may own: he, or the event that follows, will close it. */
static void cut(struct wire_call *c)
{
	unlist(c);
	c->server->stats.refused++;
	shutdown(c->fd, SHUT_RDWR);
}

static bool user_bound(const struct wire_call *c)
{
	return c->peer.local && c->peer.uid != 0;
}

static size_t *waiting_of(const struct wire_call *c)
{
	return &c->server->waiting_of[c->peer.uid % USERS];
}

static void count_waiting(struct wire_call *c, int by)
{
	c->server->waiting += (size_t)by;
	if (user_bound(c))
		*waiting_of(c) += (size_t)by;
}

/* ---- replies ---- */

static void rearm_read(struct wire_call *c, enum list list)
{
	struct wire_server *s = c->server;
	pthread_mutex_lock(&s->lock);
	c->state = ARMED_READ;
	enlist(c, list);
	arm(c, EPOLLIN | EPOLLRDHUP, EPOLL_CTL_MOD);
	pthread_mutex_unlock(&s->lock);
}

/* Sends what is left in c->out. Called by the owner. */
static void write_on(struct wire_call *c)
{
	struct wire_server *s = c->server;
	bool progress = false;
	while (c->out_sent < c->out.len) {
		ssize_t n = send(c->fd, c->out.data + c->out_sent, c->out.len - c->out_sent,
				 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN) {
			destroy(c);
			return;
		}
		if (n < 0)
			break;
		c->out_sent += (size_t)n;
		progress = true;
	}
	if (c->out_sent == c->out.len) {
		pthread_mutex_lock(&s->lock);
		s->out_bytes -= c->out.cap;
		pthread_mutex_unlock(&s->lock);
		mu_buf_free(&c->out);
		c->out_sent = 0;
		rearm_read(c, LIST_IDLE);
		return;
	}
	pthread_mutex_lock(&s->lock);
	c->state = ARMED_WRITE;
	if (progress || c->list != LIST_SEND)
		enlist(c, LIST_SEND);
	arm(c, EPOLLOUT, EPOLL_CTL_MOD);
	pthread_mutex_unlock(&s->lock);
}

/* Keeps the part of HEAD and BODY behind SENT for later. False when too much waits already. */
static bool keep_rest(struct wire_call *c, const uint8_t *head, size_t head_len, struct mu_view body,
		      size_t sent)
{
	struct wire_server *s = c->server;
	if (sent < head_len)
		mu_buf_add(&c->out, head + sent, head_len - sent);
	size_t from = sent > head_len ? sent - head_len : 0;
	mu_buf_add(&c->out, body.data + from, body.len - from);
	pthread_mutex_lock(&s->lock);
	s->out_bytes += c->out.cap;
	bool fits = s->out_bytes <= out_bytes_max;
	if (!fits)
		s->stats.refused++;
	pthread_mutex_unlock(&s->lock);
	return fits;
}

/* Sends a reply on a connection in state REPLYING. */
static void send_reply(struct wire_call *c, struct mu_view reply)
{
	uint8_t head[HEAD_BYTES];
	size_t n = 0, sent = 0;
	if (c->peer.local)
		head[n++] = 1;
	for (int shift = 56; shift >= 0; shift -= 8)
		head[n++] = (uint8_t)((uint64_t)(reply.len + ID_BYTES) >> shift);
	memcpy(head + n, c->head + c->head_have - ID_BYTES, ID_BYTES);
	n += ID_BYTES;
	c->head_have = 0;
	struct iovec iov[2] = {{head, n}, {(void *)reply.data, reply.len}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	ssize_t r;
	do
		r = sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (r < 0 && errno == EINTR);
	if (r < 0 && errno != EAGAIN) {
		destroy(c);
		return;
	}
	sent = r < 0 ? 0 : (size_t)r;
	if (sent == n + reply.len)
		rearm_read(c, LIST_IDLE);
	else if (keep_rest(c, head, n, reply, sent))
		write_on(c);
	else
		destroy(c);
}

static void free_server(struct wire_server *s)
{
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->replied);
	mu_buf_free(&s->busy);
	free(s->slots);
	free(s);
}

void wire_reply(struct wire_call *call, struct mu_view reply)
{
	struct wire_server *s = call->server;
	pthread_mutex_lock(&s->lock);
	assert(call->state == HANDLING || call->state == GONE);
	count_waiting(call, -1);
	bool gone = call->state == GONE, last = s->closed && s->waiting == 0;
	if (!gone) {
		call->state = REPLYING;
		s->replying++;
	}
	pthread_mutex_unlock(&s->lock);
	if (gone) {
		free(call);
		if (last)
			free_server(s);
		return;
	}
	send_reply(call, reply);
	pthread_mutex_lock(&s->lock);
	if (--s->replying == 0)
		pthread_cond_broadcast(&s->replied);
	pthread_mutex_unlock(&s->lock);
}

/* ---- requests ---- */

/* A thread's own memory: requests that arrive at once never touch the connection's. */
struct scratch {
	struct mu_buf body;
};

/* Hands a whole request to the handler. The connection is not touched after it: the reply may have come
 * already. */
static void dispatch(struct wire_call *c, struct scratch *scratch)
{
	struct wire_server *s = c->server;
	struct wire_peer peer = c->peer;
	mu_buf_free(&scratch->body);
	scratch->body = c->in;
	c->in = (struct mu_buf){0};
	c->headed = false;
	pthread_mutex_lock(&s->lock);
	s->in_bytes -= c->in_counted;
	c->in_counted = 0;
	enlist(c, LIST_CALL);
	s->stats.requests++;
	bool busy =
	    s->waiting >= s->max_waiting || (user_bound(c) && *waiting_of(c) * USER_SHARE >= s->max_waiting);
	if (busy)
		s->stats.busy++;
	else
		count_waiting(c, 1);
	c->state = busy ? REPLYING : HANDLING;
	pthread_mutex_unlock(&s->lock);
	if (busy) {
		send_reply(c, (struct mu_view){s->busy.data, s->busy.len});
		return;
	}
	s->handler(s->arg, c, &peer, (struct mu_view){scratch->body.data, scratch->body.len});
}

/* 1: all LEN bytes of P are there (HAVE counts them), 0: not yet, -1: the connection is over. */
static int fill(int fd, uint8_t *p, size_t *have, size_t len)
{
	while (*have < len) {
		ssize_t n = recv(fd, p + *have, len - *have, MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return -1;
		*have += (size_t)n;
	}
	return 1;
}

/* Checks hello and head as soon as they are whole: the claim is refused before a byte is allocated for it. */
static int read_head(struct wire_call *c)
{
	static const uint8_t hello[HELLO_BYTES] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
	size_t head_len = HEAD_BYTES - (c->peer.local ? 0 : 1);
	if (!c->greeted) {
		int r = fill(c->fd, c->head, &c->head_have, HELLO_BYTES);
		if (r <= 0)
			return r;
		if (memcmp(c->head, hello, sizeof hello) != 0)
			return -1;
		c->greeted = true;
		c->head_have = 0;
	}
	int r = fill(c->fd, c->head, &c->head_have, head_len);
	if (r <= 0)
		return r;
	const uint8_t *p = c->head;
	if (c->peer.local && *p++ != 1)
		return -1;
	c->body_len = 0;
	for (int i = 0; i < 8; i++)
		c->body_len = c->body_len << 8 | *p++;
	if (c->body_len < ID_BYTES || c->body_len > (c->peer.local ? WIRE_MAX_UNIX : WIRE_MAX_TCP) ||
	    !(*p & 0x80))
		return -1; /* An id without its top bit has passed through a device; we have none. */
	c->body_len -= ID_BYTES;
	c->headed = true;
	return 1;
}

/* Counts the body's buffer among all. False when too much waits already. */
static bool count_in(struct wire_call *c)
{
	struct wire_server *s = c->server;
	if (c->in.cap == c->in_counted)
		return true;
	pthread_mutex_lock(&s->lock);
	s->in_bytes += c->in.cap - c->in_counted;
	c->in_counted = c->in.cap;
	bool fits = s->in_bytes <= in_bytes_max;
	if (!fits)
		s->stats.refused++;
	pthread_mutex_unlock(&s->lock);
	return fits;
}

/* Makes room for what may come next: the buffer follows the bytes, not the claim. False when too many large
 * bodies are under way. */
static bool grow_body(struct wire_call *c, struct scratch *scratch)
{
	if (c->in.cap == 0 && scratch->body.cap > 0) {
		c->in = scratch->body; /* at most KEEP_BYTES */
		mu_buf_reset(&c->in);
		scratch->body = (struct mu_buf){0};
	}
	size_t have = c->in.len, room = have < FIRST_BYTES ? FIRST_BYTES : have;
	if (room > c->body_len - have)
		room = (size_t)c->body_len - have;
	if (c->in.cap <= have + room) {
		mu_buf_grow(&c->in, room);
		c->in.len = have;
	}
	/* Small ones are counted when they must wait: most arrive whole. */
	return c->in.cap <= FIRST_BYTES || count_in(c);
}

static int read_body(struct wire_call *c, struct scratch *scratch)
{
	while (c->in.len < c->body_len || c->in.cap == 0) {
		if (!grow_body(c, scratch))
			return -1;
		size_t room = c->in.cap - 1 - c->in.len, left = (size_t)c->body_len - c->in.len;
		size_t want = c->in.len + (room < left ? room : left);
		int r = fill(c->fd, c->in.data, &c->in.len, want);
		if (r <= 0)
			return r;
	}
	c->in.data[c->in.len] = 0;
	return 1;
}

/* The owner in state READING takes what the socket has. */
static void read_on(struct wire_call *c, struct scratch *scratch)
{
	int r = c->headed ? 1 : read_head(c);
	if (r == 1)
		r = read_body(c, scratch);
	if (r < 0 || (r == 0 && !count_in(c))) {
		destroy(c);
		return;
	}
	if (r == 1) {
		dispatch(c, scratch);
		return;
	}
	struct wire_server *s = c->server;
	pthread_mutex_lock(&s->lock);
	c->state = ARMED_READ;
	if (c->greeted && c->head_have == 0 && c->list != LIST_IDLE)
		enlist(c, LIST_IDLE);
	else if (c->greeted && c->head_have > 0 && c->list != LIST_FRAME)
		enlist(c,
		       LIST_FRAME); /* From the first byte of a request on; more bytes do not prolong it. */
	arm(c, EPOLLIN | EPOLLRDHUP, EPOLL_CTL_MOD);
	pthread_mutex_unlock(&s->lock);
}

static void on_event(struct wire_server *s, uint64_t key, uint32_t events, struct scratch *scratch)
{
	pthread_mutex_lock(&s->lock);
	struct wire_call *c = find(s, key);
	enum state was = c ? c->state : GONE;
	if (was == ARMED_READ) {
		c->state = READING;
	} else if (was == ARMED_WRITE) {
		c->state = WRITING;
	} else if (was == HANDLING && events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
		detach(c);
		c->state = GONE;
	}
	pthread_mutex_unlock(&s->lock);
	if (was == ARMED_READ)
		read_on(c, scratch);
	else if (was == ARMED_WRITE)
		write_on(c);
}

static const uint64_t key_stop = UINT64_MAX;

static void *serve(void *arg)
{
	struct wire_server *s = arg;
	struct scratch scratch = {0};
	for (;;) {
		struct epoll_event e;
		int n = epoll_wait(s->epoll, &e, EVENTS, -1);
		if (n < 0)
			continue; /* EINTR: nothing else can happen to a good descriptor. */
		if (e.data.u64 == key_stop)
			break;
		on_event(s, e.data.u64, e.events, &scratch);
		if (scratch.body.cap > KEEP_BYTES)
			mu_buf_free(&scratch.body);
	}
	mu_buf_free(&scratch.body);
	return NULL;
}

/* ---- accepting and sweeping ---- */

static void name_peer(struct wire_call *c, const struct sockaddr_storage *sa)
{
	char text[INET6_ADDRSTRLEN] = "?";
	unsigned port = 0;
	if (sa->ss_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)sa;
		inet_ntop(AF_INET, &in->sin_addr, text, sizeof text);
		port = ntohs(in->sin_port);
	} else if (sa->ss_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)sa;
		if (IN6_IS_ADDR_V4MAPPED(&in->sin6_addr))
			inet_ntop(AF_INET, in->sin6_addr.s6_addr + 12, text, sizeof text);
		else
			inet_ntop(AF_INET6, &in->sin6_addr, text, sizeof text);
		port = ntohs(in->sin6_port);
	}
	snprintf(c->peer.address, sizeof c->peer.address, strchr(text, ':') ? "[%s]:%u" : "%s:%u", text,
		 port);
}

/* Fills the peer; false when the kernel cannot vouch for a local one. */
static bool know_peer(struct wire_call *c, const struct sockaddr_storage *sa)
{
	if (!c->peer.local) {
		int one = 1, idle_sec = 60, interval_sec = 10, probes = 3, dead_msec = WIRE_STALL_SEC * 1000;
		setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		setsockopt(c->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
		setsockopt(c->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_sec, sizeof idle_sec);
		setsockopt(c->fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_sec, sizeof interval_sec);
		setsockopt(c->fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
		setsockopt(c->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_msec, sizeof dead_msec);
		name_peer(c, sa);
		return true;
	}
	struct ucred cred;
	socklen_t len = sizeof cred;
	if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0 || len != sizeof cred)
		return false;
	c->peer.uid = cred.uid;
	c->peer.gid = cred.gid;
	c->peer.pid = cred.pid;
	snprintf(c->peer.address, sizeof c->peer.address, "localhost");
	return true;
}

/* Makes room by cutting whoever did nothing for longest: first those that never said hello. False when nobody
 * can be cut. */
static bool evict(struct wire_server *s)
{
	pthread_mutex_lock(&s->lock);
	struct wire_call *c = s->heads[LIST_FRESH] ? s->heads[LIST_FRESH] : s->heads[LIST_IDLE];
	if (c)
		cut(c);
	pthread_mutex_unlock(&s->lock);
	return c != NULL;
}

static void admit(struct wire_server *s, int fd, bool local, const struct sockaddr_storage *sa)
{
	static const uint8_t hello[HELLO_BYTES] = {0, 'S', 'P', 0, 0, 0x31, 0, 0};
	struct wire_call *c = calloc(1, sizeof *c);
	if (!c)
		abort();
	c->server = s;
	c->fd = fd;
	c->list = LIST_NONE;
	c->peer.local = local;
	if (!know_peer(c, sa) || send(fd, hello, sizeof hello, MSG_NOSIGNAL | MSG_DONTWAIT) != sizeof hello) {
		close(fd);
		free(c);
		return;
	}
	pthread_mutex_lock(&s->lock);
	size_t open_now = s->stats.connections;
	if (open_now < s->max_connections + s->max_connections / 16) {
		take_slot(s, c);
		c->state = ARMED_READ;
		enlist(c, LIST_FRESH);
		if (arm(c, EPOLLIN | EPOLLRDHUP, EPOLL_CTL_ADD))
			c = NULL;
		else
			detach(c);
	}
	if (c)
		s->stats.refused++;
	pthread_mutex_unlock(&s->lock);
	if (c && c->fd >= 0)
		close(fd);
	free(c);
	if (open_now >= s->max_connections)
		evict(s);
}

static void accept_some(struct wire_server *s, size_t i)
{
	for (int n = 0; n < 64; n++) {
		struct sockaddr_storage sa;
		socklen_t len = sizeof sa;
		int fd = accept4(s->listeners[i], (struct sockaddr *)&sa, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			admit(s, fd, s->local[i], &sa);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			/* The connection stays in the listener's queue: make room and do not spin on it. */
			evict(s);
			clock_sleep_msec(20);
		}
		if (errno != EINTR && errno != ECONNABORTED)
			return;
	}
}

/* Cuts what is past its deadline. A call that waits since the last time is watched from now on, to notice a
 * client that leaves: most are answered long before, and need no word to the kernel. */
static void sweep(struct wire_server *s)
{
	int64_t now = clock_mono_usec();
	pthread_mutex_lock(&s->lock);
	while (s->heads[LIST_CALL]) {
		struct wire_call *c = s->heads[LIST_CALL];
		unlist(c);
		if (c->state == HANDLING)
			arm(c, EPOLLRDHUP, EPOLL_CTL_MOD);
	}
	for (int list = 0; list < LISTS; list++)
		while (s->heads[list] && s->heads[list]->deadline_usec <= now)
			cut(s->heads[list]);
	pthread_mutex_unlock(&s->lock);
}

static void *accept_on(void *arg)
{
	struct wire_server *s = arg;
	struct pollfd p[ADDRESSES_MAX + 1];
	for (size_t i = 0; i < s->listener_count; i++)
		p[i] = (struct pollfd){.fd = s->listeners[i], .events = POLLIN};
	p[s->listener_count] = (struct pollfd){.fd = s->stop, .events = POLLIN};
	int64_t next_sweep = clock_mono_usec() + SWEEP_MSEC * 1000;
	for (;;) {
		int n = poll(p, (nfds_t)s->listener_count + 1, clock_left_msec(next_sweep));
		if (n > 0 && p[s->listener_count].revents)
			return NULL;
		for (size_t i = 0; n > 0 && i < s->listener_count; i++)
			if (p[i].revents)
				accept_some(s, i);
		if (clock_left_msec(next_sweep) == 0) {
			sweep(s);
			next_sweep = clock_mono_usec() + SWEEP_MSEC * 1000;
		}
	}
}

/* ---- opening and closing ---- */

/* Descriptors that connections may take. */
static size_t raise_descriptors(void)
{
	struct rlimit r;
	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return 64;
	if (r.rlim_max < DESCRIPTORS_WANTED) {
		struct rlimit more = {DESCRIPTORS_WANTED, DESCRIPTORS_WANTED};
		if (setrlimit(RLIMIT_NOFILE, &more) == 0)
			r = more; /* Only the privileged may raise the hard limit. */
	}
	rlim_t want = r.rlim_max < DESCRIPTORS_WANTED ? r.rlim_max : DESCRIPTORS_WANTED;
	if (r.rlim_cur < want) {
		struct rlimit soft = {want, r.rlim_max};
		if (setrlimit(RLIMIT_NOFILE, &soft) == 0)
			r = soft;
	}
	size_t limit = r.rlim_cur > DESCRIPTORS_WANTED * 16 ? DESCRIPTORS_WANTED * 16 : (size_t)r.rlim_cur;
	return limit > 4 * DESCRIPTORS_KEPT ? limit - limit / 16 - DESCRIPTORS_KEPT : limit / 2;
}

static int listen_all(struct wire_server *s, const char *const *addresses, size_t count, struct mu_err *err)
{
	if (count == 0 || count > ADDRESSES_MAX)
		return mu_fail(err, MU_EINVAL, "a server listens on 1 to %d addresses", ADDRESSES_MAX);
	for (size_t i = 0; i < count; i++) {
		int fd, code = stream_listen(addresses[i], 0666, &fd, err);
		if (code)
			return code == MU_EINVAL
				   ? code
				   : mu_fail(err, MU_EIO, "%s", err ? err->text : "cannot listen");
		s->local[i] = strncmp(addresses[i], "ipc://", 6) == 0;
		s->listeners[i] = fd;
		s->listener_count++;
		if (s->local[i] && !(s->paths[i] = strdup(addresses[i] + 6)))
			abort();
		int flags = 1;
		if (ioctl(fd, FIONBIO, &flags) < 0)
			return mu_fail(err, MU_EIO, "cannot prepare %s: %s", addresses[i], strerror(errno));
	}
	return 0;
}

static int start_threads(struct wire_server *s, struct mu_err *err)
{
	sigset_t all, before;
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = key_stop};
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	s->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->epoll < 0 || s->stop < 0 || epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->stop, &e) < 0)
		return mu_fail(err, MU_EIO, "cannot make an event queue: %s", strerror(errno));
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* Signals are the program's own thread's. */
	int r = pthread_create(&s->acceptor, NULL, accept_on, s);
	s->accepting = r == 0;
	while (r == 0 && s->thread_count < THREADS) {
		r = pthread_create(&s->threads[s->thread_count], NULL, serve, s);
		if (r == 0)
			pthread_setname_np(s->threads[s->thread_count++], "wire");
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r ? mu_fail(err, MU_EIO, "cannot start threads: %s", strerror(r)) : 0;
}

int wire_server_open(const char *const *addresses, size_t count, size_t max_waiting,
		     struct mu_view busy_reply, wire_handler handler, void *arg, struct wire_server **ret,
		     struct mu_err *err)
{
	struct wire_server *s = calloc(1, sizeof *s);
	struct mu_err own = {0};
	if (!s)
		abort();
	*s = (struct wire_server){
	    .handler = handler, .arg = arg, .max_waiting = max_waiting, .epoll = -1, .stop = -1};
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->replied, NULL);
	s->free_slot = UINT32_MAX;
	wire_server_spans(s, WIRE_HELLO_SEC * 1000, WIRE_STALL_SEC * 1000, WIRE_IDLE_SEC * 1000);
	s->max_connections = raise_descriptors();
	mu_buf_add(&s->busy, busy_reply.data, busy_reply.len);
	int code = listen_all(s, addresses, count, &own);
	if (!code)
		code = start_threads(s, &own);
	if (code) {
		wire_server_close(s);
		return mu_fail(err, code, "%s", own.text);
	}
	*ret = s;
	return 0;
}

void wire_server_spans(struct wire_server *s, unsigned hello_msec, unsigned stall_msec, unsigned idle_msec)
{
	pthread_mutex_lock(&s->lock);
	s->span_usec[LIST_FRESH] = hello_msec * INT64_C(1000);
	s->span_usec[LIST_FRAME] = s->span_usec[LIST_SEND] = stall_msec * INT64_C(1000);
	s->span_usec[LIST_IDLE] = idle_msec * INT64_C(1000);
	pthread_mutex_unlock(&s->lock);
}

static void stop_threads(struct wire_server *s)
{
	uint64_t one = 1;
	if (s->stop >= 0 && write(s->stop, &one, sizeof one) < 0)
		diag_error("cannot stop the wire: %s", strerror(errno));
	if (s->accepting)
		pthread_join(s->acceptor, NULL);
	for (size_t i = 0; i < s->thread_count; i++)
		pthread_join(s->threads[i], NULL);
	for (size_t i = 0; i < s->listener_count; i++) {
		if (s->paths[i])
			unlink(
			    s->paths[i]); /* While we still listen: nobody else can have put his own there. */
		close(s->listeners[i]);
		free(s->paths[i]);
	}
}

struct wire_server *wire_server_close(struct wire_server *s)
{
	if (!s)
		return NULL;
	stop_threads(s);
	pthread_mutex_lock(&s->lock);
	while (s->replying > 0)
		pthread_cond_wait(&s->replied, &s->lock);
	for (uint32_t i = 0; i < s->slot_count; i++) {
		struct wire_call *c = s->slots[i].conn;
		if (!c)
			continue;
		bool waits = c->state == HANDLING;
		detach(c);
		c->state = GONE;
		if (!waits)
			free(c);
	}
	if (s->epoll >= 0)
		close(s->epoll);
	if (s->stop >= 0)
		close(s->stop);
	bool last = s->waiting == 0;
	s->closed = true;
	pthread_mutex_unlock(&s->lock);
	if (last)
		free_server(s);
	return NULL;
}

size_t wire_server_waiting(const struct wire_server *s)
{
	struct wire_stats stats;
	wire_server_stats(s, &stats);
	return (size_t)stats.waiting;
}

void wire_server_stats(const struct wire_server *server, struct wire_stats *ret)
{
	struct wire_server *s = (struct wire_server *)server; /* Only the lock changes. */
	pthread_mutex_lock(&s->lock);
	*ret = s->stats;
	ret->waiting = s->waiting;
	ret->in_bytes = s->in_bytes;
	ret->out_bytes = s->out_bytes;
	pthread_mutex_unlock(&s->lock);
}
