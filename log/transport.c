/* log/transport.c: see transport.h. */
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "log/transport.h"

enum {
	MESSAGE_HEADER = 16,
	WRITE_AHEAD = 256 * 1024,
	FLUSH_ROUNDS = 8, /* of messages that the sending of others brought about, before the loop turns */
	SWEEP_MSEC = 50,
	ADDRESS_MAX = 64,
	LISTEN_BACKLOG = 64
};

/* A message waiting to be encrypted. */
struct outgoing {
	struct outgoing *next;
	transport_sent sent;
	void *arg;
	size_t len, done; /* header included */
	uint8_t bytes[];
};

enum conn_state { CONN_CONNECTING, CONN_HELLO, CONN_HEADER, CONN_PROOF, CONN_OPEN };

struct conn {
	uv_tcp_t tcp;
	uv_connect_t connecting;
	struct transport *t;
	struct conn *next;
	struct transport_link *link; /* NULL: incoming */
	uint64_t serial, born_msec;
	enum conn_state state;
	bool closing, linked;
	enum transport_purpose purpose;
	struct secure_identity peer;
	struct secure_session session;

	struct outgoing *queue, **queue_tail;
	size_t queued, writing;

	size_t in_len;
	uint8_t in[SECURE_FRAME_MAX];

	/* The message being put together. */
	uint8_t head[MESSAGE_HEADER];
	size_t head_len, body_len, body_want;
	uint8_t *body;
};

struct transport_link {
	struct transport *t;
	struct transport_link *next;
	struct conn *conn;
	char address[ADDRESS_MAX];
	uint64_t id, retry_msec;
	enum transport_purpose purpose;
	void *arg;
};

struct transport {
	struct transport_config config;
	struct transport_stats stats;
	uv_tcp_t listener;
	uv_timer_t sweep;
	uv_prepare_t flush; /* before the loop waits: what one round queued for a peer leaves in few writes */
	bool unsent;
	unsigned handles; /* listener, sweep and flush still open */
	struct conn *conns;
	struct transport_link *links;
	uint64_t serial;
	bool closing;
	void (*closed)(void *arg);
	void *closed_arg;
};

/* What one uv_write carries, and which messages end with it. */
struct write {
	uv_write_t req;
	struct conn *conn;
	struct outgoing *ended, **ended_tail;
	size_t len;
	uint8_t bytes[];
};

static void pump(struct conn *c);

static uint64_t now_msec(const struct transport *t)
{
	return uv_now(t->config.loop);
}

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

static void say(struct transport *t, const char *format, const char *a, const char *b)
{
	char text[256];
	if (!t->config.say)
		return;
	snprintf(text, sizeof text, format, a, b);
	t->config.say(t->config.arg, text);
}

/* ---- the end of connections ---- */

static void free_outgoing(struct outgoing *list, bool good)
{
	while (list) {
		struct outgoing *next = list->next;
		if (list->sent)
			list->sent(list->arg, good);
		free(list);
		list = next;
	}
}

static void maybe_closed(struct transport *t)
{
	if (!t->closing || t->handles || t->conns)
		return;
	void (*closed)(void *) = t->closed;
	void *arg = t->closed_arg;
	while (t->links) {
		struct transport_link *next = t->links->next;
		free(t->links);
		t->links = next;
	}
	sodium_memzero(&t->config.key, sizeof t->config.key);
	free(t);
	closed(arg);
}

static void conn_closed(uv_handle_t *handle)
{
	struct conn *c = handle->data;
	struct transport *t = c->t;
	for (struct conn **p = &t->conns; *p; p = &(*p)->next) {
		if (*p != c)
			continue;
		*p = c->next;
		break;
	}
	free_outgoing(c->queue, false);
	free(c->body);
	secure_wipe(&c->session);
	free(c);
	maybe_closed(t);
}

static void drop(struct conn *c)
{
	if (c->closing)
		return;
	c->closing = true;
	struct transport_link *link = c->link;
	if (link && link->conn == c) {
		link->conn = NULL;
		link->retry_msec = now_msec(c->t) + TRANSPORT_RETRY_MSEC;
		if (c->state == CONN_OPEN && !c->t->closing)
			c->t->config.link_changed(c->t->config.arg, link, false);
	}
	uv_close((uv_handle_t *)&c->tcp, conn_closed);
}

static void refuse(struct conn *c, const char *why)
{
	c->t->stats.refused++;
	say(c->t, "refused a controller connection (%s): %s", c->link ? c->link->address : "incoming", why);
	drop(c);
}

/* ---- writing ---- */

static void written(uv_write_t *req, int status)
{
	struct write *w = req->data;
	struct conn *c = w->conn;
	struct outgoing *ended = w->ended;
	c->writing -= w->len;
	c->t->stats.sent_bytes += w->len;
	free(w);
	free_outgoing(ended, status == 0);
	if (status)
		drop(c);
	else
		pump(c);
}

static struct write *write_new(struct conn *c, size_t room)
{
	struct write *w = must(malloc(sizeof *w + room));
	w->conn = c;
	w->ended = NULL;
	w->ended_tail = &w->ended;
	w->len = 0;
	w->req.data = w;
	return w;
}

static void write_go(struct write *w)
{
	struct conn *c = w->conn;
	uv_buf_t buf = uv_buf_init((char *)w->bytes, (unsigned)w->len);
	c->writing += w->len;
	if (uv_write(&w->req, (uv_stream_t *)&c->tcp, &buf, 1, written) == 0)
		return;
	/* The messages go with the connection, later: nobody may be called back from within a send. */
	c->writing -= w->len;
	*w->ended_tail = c->queue;
	c->queue = w->ended;
	free(w);
	drop(c);
}

static void write_plain(struct conn *c, const void *data, size_t len)
{
	struct write *w = write_new(c, len);
	memcpy(w->bytes, data, len);
	w->len = len;
	write_go(w);
}

/* A socket with room takes the frame at once: uv_write would cost a copy on the heap, a change of what epoll
 * watches and a turn of the loop. What it does not take goes the long way. Never called from within a send,
 * so senders may be told here. */
static void write_frame(struct conn *c, const uint8_t *text, size_t len, struct outgoing *ended)
{
	uint8_t frame[SECURE_FRAME_MAX];
	size_t n = secure_seal(&c->session, text, len, frame);
	uv_buf_t buf = uv_buf_init((char *)frame, (unsigned)n);
	int taken = uv_try_write((uv_stream_t *)&c->tcp, &buf, 1);
	size_t sent = taken > 0 ? (size_t)taken : 0;
	c->t->stats.sent_bytes += sent;
	if (sent == n) {
		free_outgoing(ended, true);
		return;
	}
	struct write *w = write_new(c, n - sent);
	memcpy(w->bytes, frame + sent, n - sent);
	w->len = n - sent;
	w->ended = ended;
	while (*w->ended_tail)
		w->ended_tail = &(*w->ended_tail)->next;
	write_go(w);
}

/* Encrypts queued messages while the socket keeps up. */
static void pump(struct conn *c)
{
	uint8_t text[SECURE_CHUNK];
	while (c->state == CONN_OPEN && !c->closing && c->queue && c->writing < WRITE_AHEAD) {
		struct outgoing *ended = NULL, **tail = &ended;
		size_t len = 0;
		while (c->queue && len < sizeof text) {
			struct outgoing *m = c->queue;
			size_t n = m->len - m->done;
			if (n > sizeof text - len)
				n = sizeof text - len;
			memcpy(text + len, m->bytes + m->done, n);
			len += n;
			m->done += n;
			if (m->done < m->len)
				break;
			c->queue = m->next;
			if (!c->queue)
				c->queue_tail = &c->queue;
			m->next = NULL;
			*tail = m;
			tail = &m->next;
		}
		c->queued -= len;
		write_frame(c, text, len, ended);
	}
}

static void put_u32(uint8_t *p, uint32_t v)
{
	for (unsigned i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t get_u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int conn_send(struct conn *c, uint16_t kind, uint16_t flags, uint64_t call, struct mu_view bytes,
		     transport_sent sent, void *arg)
{
	bool raft = c->purpose == TRANSPORT_RAFT;
	if (c->state != CONN_OPEN || c->closing)
		return MU_ECONNECT;
	if (bytes.len > (raft ? TRANSPORT_RAFT_MAX : TRANSPORT_TALK_MAX))
		return MU_ELIMIT;
	if (c->queued + bytes.len > (raft ? TRANSPORT_RAFT_QUEUE : TRANSPORT_TALK_QUEUE))
		return MU_EBUSY;
	struct outgoing *m = must(malloc(sizeof *m + MESSAGE_HEADER + bytes.len));
	*m = (struct outgoing){.sent = sent, .arg = arg, .len = MESSAGE_HEADER + bytes.len};
	put_u32(m->bytes, (uint32_t)bytes.len);
	put_u32(m->bytes + 4, kind | (uint32_t)flags << 16);
	put_u32(m->bytes + 8, (uint32_t)call);
	put_u32(m->bytes + 12, (uint32_t)(call >> 32));
	if (bytes.len)
		memcpy(m->bytes + MESSAGE_HEADER, bytes.data, bytes.len);
	*c->queue_tail = m;
	c->queue_tail = &m->next;
	c->queued += m->len;
	c->t->unsent = true;
	return 0;
}

static void flush(uv_prepare_t *prepare)
{
	struct transport *t = prepare->data;
	/* Who is told that his message is on its way may send another. */
	for (int round = 0; t->unsent && round < FLUSH_ROUNDS; round++) {
		t->unsent = false;
		for (struct conn *c = t->conns; c; c = c->next)
			pump(c);
	}
}

/* ---- reading ---- */

static void deliver(struct conn *c)
{
	struct transport *t = c->t;
	struct transport_from from = {.peer = c->peer, .connection = c->serial};
	uint32_t word = get_u32(c->head + 4);
	uint64_t call = (uint64_t)get_u32(c->head + 8) | (uint64_t)get_u32(c->head + 12) << 32;
	struct mu_view bytes = {c->body, c->body_len};
	uint8_t *body = c->body;
	c->body = NULL;
	c->head_len = 0;
	if (!t->closing)
		t->config.received(t->config.arg, &from, (uint16_t)word, (uint16_t)(word >> 16), call, bytes);
	free(body);
}

/* The stream of messages inside the frames. */
static void take_text(struct conn *c, const uint8_t *p, size_t len)
{
	while (!c->closing) {
		if (c->head_len < MESSAGE_HEADER) {
			size_t n = MESSAGE_HEADER - c->head_len;
			if (n > len)
				n = len;
			memcpy(c->head + c->head_len, p, n);
			c->head_len += n;
			p += n;
			len -= n;
			if (c->head_len < MESSAGE_HEADER)
				return;
			c->body_want = get_u32(c->head);
			c->body_len = 0;
			if (c->body_want >
			    (c->purpose == TRANSPORT_RAFT ? TRANSPORT_RAFT_MAX : TRANSPORT_TALK_MAX)) {
				refuse(c, "a message longer than allowed");
				return;
			}
			c->body = must(malloc(c->body_want ? c->body_want : 1));
		}
		size_t n = c->body_want - c->body_len;
		if (n > len)
			n = len;
		memcpy(c->body + c->body_len, p, n);
		c->body_len += n;
		p += n;
		len -= n;
		if (c->body_len < c->body_want)
			return;
		deliver(c);
	}
}

static void opened(struct conn *c)
{
	c->state = CONN_OPEN;
	if (c->link)
		c->t->config.link_changed(c->t->config.arg, c->link, true);
	pump(c);
}

static bool admit(struct conn *c)
{
	struct transport *t = c->t;
	if (t->config.admit(t->config.arg, &c->peer, c->link ? c->link->id : 0, !c->link))
		return true;
	t->stats.refused++;
	drop(c);
	return false;
}

/* Client: REPLY and the server's stream header have come. */
static void take_reply(struct conn *c)
{
	uint8_t header[SECURE_HEADER];
	int rv = secure_take_reply(&c->session, c->in, &c->peer, header);
	if (rv || secure_take_header(&c->session, c->in + SECURE_REPLY)) {
		refuse(c, rv == MU_EPROTO ? "what answers there is no controller of this version"
					  : "the other side does not hold this cluster's key");
		return;
	}
	c->peer.purpose = (uint8_t)c->purpose;
	if (!admit(c))
		return;
	write_plain(c, header, sizeof header);
	write_frame(c, NULL, 0, NULL);
	if (!c->closing)
		opened(c);
}

static void take_hello(struct conn *c)
{
	struct secure_identity self = {.purpose = 0};
	uint8_t reply[SECURE_REPLY + SECURE_HEADER];
	c->t->config.self(c->t->config.arg, &self);
	int rv =
	    secure_take_hello(&c->session, c->t->config.key, c->in, &self, &c->peer, reply + SECURE_REPLY);
	if (rv) {
		refuse(c, rv == MU_EPROTO ? "it does not speak this version of the protocol"
					  : "it does not hold this cluster's key");
		return;
	}
	if (c->peer.purpose != TRANSPORT_RAFT && c->peer.purpose != TRANSPORT_TALK) {
		refuse(c, "it asks for an unknown purpose");
		return;
	}
	c->purpose = (enum transport_purpose)c->peer.purpose;
	memcpy(reply, c->session.reply, SECURE_REPLY);
	c->state = CONN_HEADER;
	write_plain(c, reply, sizeof reply);
}

/* A whole frame stands at the beginning of in. */
static void take_frame(struct conn *c, size_t len)
{
	uint8_t text[SECURE_CHUNK];
	int n = secure_open(&c->session, c->in, len, text);
	if (n < 0) {
		refuse(c, "a frame that was not sealed with the agreed key");
		return;
	}
	if (c->state == CONN_PROOF) { /* only now it is known that the client is there and holds the key */
		if (n != 0)
			refuse(c, "the first frame is not empty");
		else if (admit(c))
			opened(c);
		return;
	}
	take_text(c, text, (size_t)n);
}

/* How many bytes the next thing takes; 0: not known before more have come; negative: broken. */
static int wanted(const struct conn *c)
{
	switch (c->state) {
	case CONN_HELLO:
		return c->link ? SECURE_REPLY + SECURE_HEADER : SECURE_HELLO;
	case CONN_HEADER:
		return SECURE_HEADER;
	case CONN_PROOF:
	case CONN_OPEN:
		return c->in_len < 4 ? 0 : secure_frame_length(c->in);
	case CONN_CONNECTING:
		break;
	}
	return MU_EPROTO;
}

static void take_one(struct conn *c, size_t len)
{
	if (c->state == CONN_HELLO && c->link)
		take_reply(c);
	else if (c->state == CONN_HELLO)
		take_hello(c);
	else if (c->state == CONN_HEADER) {
		if (secure_take_header(&c->session, c->in))
			refuse(c, "a broken stream header");
		else
			c->state = CONN_PROOF;
	} else
		take_frame(c, len);
}

static void read_done(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct conn *c = stream->data;
	(void)buf;
	if (n < 0) {
		drop(c);
		return;
	}
	c->in_len += (size_t)n;
	c->t->stats.received_bytes += (uint64_t)n;
	size_t at = 0;
	while (!c->closing) {
		/* A whole buffer holds few frames, so moving the rest down each time is cheap. */
		if (at) {
			memmove(c->in, c->in + at, c->in_len - at);
			c->in_len -= at;
			at = 0;
		}
		int want = wanted(c);
		if (want < 0) {
			refuse(c, "a broken frame");
			return;
		}
		if (!want || c->in_len < (size_t)want)
			return;
		take_one(c, (size_t)want);
		at = (size_t)want;
	}
}

static void read_room(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
	struct conn *c = handle->data;
	(void)suggested;
	*buf = uv_buf_init((char *)c->in + c->in_len, (unsigned)(sizeof c->in - c->in_len));
}

/* ---- making connections ---- */

static void tune(struct conn *c)
{
	uv_os_fd_t fd;
	unsigned silent = TRANSPORT_SILENT_MSEC;
	uv_tcp_nodelay(&c->tcp, 1);
	uv_tcp_keepalive(&c->tcp, 1, 1);
	if (uv_fileno((uv_handle_t *)&c->tcp, &fd) == 0)
		setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silent, sizeof silent);
}

static struct conn *conn_new(struct transport *t)
{
	struct conn *c = must(calloc(1, sizeof *c));
	c->t = t;
	c->serial = ++t->serial;
	c->born_msec = now_msec(t);
	c->queue_tail = &c->queue;
	c->tcp.data = c;
	uv_tcp_init(t->config.loop, &c->tcp);
	c->next = t->conns;
	t->conns = c;
	return c;
}

static void accept_one(uv_stream_t *listener, int status)
{
	struct transport *t = listener->data;
	unsigned all = 0, half = 0;
	if (status || t->closing)
		return;
	for (struct conn *c = t->conns; c; c = c->next) {
		all += !c->link && !c->closing;
		half += !c->link && !c->closing && c->state != CONN_OPEN;
	}
	struct conn *c = conn_new(t);
	c->state = CONN_HELLO;
	if (uv_accept(listener, (uv_stream_t *)&c->tcp) || all >= TRANSPORT_CONNECTIONS_MAX ||
	    half >= TRANSPORT_HALF_OPEN_MAX) {
		t->stats.refused++;
		drop(c);
		return;
	}
	tune(c);
	if (uv_read_start((uv_stream_t *)&c->tcp, read_room, read_done))
		drop(c);
}

static void connected(uv_connect_t *req, int status)
{
	struct conn *c = req->data;
	struct secure_identity self = {.purpose = 0};
	if (c->closing)
		return;
	if (status) {
		drop(c);
		return;
	}
	tune(c);
	c->t->config.self(c->t->config.arg, &self);
	self.purpose = (uint8_t)c->purpose;
	if (secure_hello(&c->session, c->t->config.key, &self)) {
		drop(c);
		return;
	}
	c->state = CONN_HELLO;
	write_plain(c, c->session.hello, SECURE_HELLO);
	if (!c->closing && uv_read_start((uv_stream_t *)&c->tcp, read_room, read_done))
		drop(c);
}

static int parse_address(const char *address, struct sockaddr_storage *ret)
{
	char host[ADDRESS_MAX];
	const char *colon = strrchr(address, ':');
	if (!colon || (size_t)(colon - address) >= sizeof host)
		return MU_EINVAL;
	memcpy(host, address, (size_t)(colon - address));
	host[colon - address] = 0;
	char *end;
	long port = strtol(colon + 1, &end, 10);
	if (end == colon + 1 || *end || port < 1 || port > 65535)
		return MU_EINVAL;
	size_t n = strlen(host);
	if (n > 2 && host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = 0;
		return uv_ip6_addr(host + 1, (int)port, (struct sockaddr_in6 *)ret) ? MU_EINVAL : 0;
	}
	return uv_ip4_addr(host, (int)port, (struct sockaddr_in *)ret) ? MU_EINVAL : 0;
}

static void link_connect(struct transport_link *link)
{
	struct transport *t = link->t;
	struct sockaddr_storage to;
	link->retry_msec = now_msec(t) + TRANSPORT_RETRY_MSEC;
	if (parse_address(link->address, &to))
		return;
	struct conn *c = conn_new(t);
	c->link = link;
	c->purpose = link->purpose;
	c->state = CONN_CONNECTING;
	c->connecting.data = c;
	link->conn = c;
	if (uv_tcp_connect(&c->connecting, &c->tcp, (struct sockaddr *)&to, connected))
		drop(c);
}

/* Ends what takes too long and connects again what is wanted. */
static void sweep(uv_timer_t *timer)
{
	struct transport *t = timer->data;
	uint64_t now = now_msec(t);
	for (struct conn *c = t->conns; c; c = c->next) {
		if (c->closing || c->state == CONN_OPEN || now - c->born_msec < TRANSPORT_HANDSHAKE_MSEC)
			continue;
		t->stats.timeouts++;
		drop(c);
	}
	for (struct transport_link *link = t->links; link; link = link->next)
		if (!link->conn && now >= link->retry_msec)
			link_connect(link);
}

int transport_open(const struct transport_config *config, struct transport **ret, struct mu_err *err)
{
	struct sockaddr_storage at;
	if (parse_address(config->listen, &at))
		return mu_fail(err, MU_EINVAL, "the controllers' address \"%s\" is not of the form ip:port",
			       config->listen);
	struct transport *t = must(calloc(1, sizeof *t));
	t->config = *config;
	uv_tcp_init(config->loop, &t->listener);
	uv_timer_init(config->loop, &t->sweep);
	uv_prepare_init(config->loop, &t->flush);
	t->listener.data = t;
	t->sweep.data = t;
	t->flush.data = t;
	t->handles = 3;
	int rv = uv_tcp_bind(&t->listener, (struct sockaddr *)&at, 0);
	if (!rv)
		rv = uv_listen((uv_stream_t *)&t->listener, LISTEN_BACKLOG, accept_one);
	*ret = t; /* to be closed by the caller in any case: handles need a turn of the loop to go */
	if (rv)
		return mu_fail(err, MU_EIO, "cannot listen on %s for the other controllers: %s",
			       config->listen, uv_strerror(rv));
	uv_timer_start(&t->sweep, sweep, SWEEP_MSEC, SWEEP_MSEC);
	uv_prepare_start(&t->flush, flush);
	return 0;
}

static void handle_closed(uv_handle_t *handle)
{
	struct transport *t = handle->data;
	t->handles--;
	maybe_closed(t);
}

void transport_close(struct transport *t, void (*done)(void *arg), void *arg)
{
	assert(!t->closing);
	t->closing = true;
	t->closed = done;
	t->closed_arg = arg;
	uv_close((uv_handle_t *)&t->listener, handle_closed);
	uv_close((uv_handle_t *)&t->sweep, handle_closed);
	uv_close((uv_handle_t *)&t->flush, handle_closed);
	for (struct conn *c = t->conns; c; c = c->next)
		drop(c);
}

void transport_reset(struct transport *t)
{
	for (struct conn *c = t->conns; c; c = c->next)
		drop(c);
}

struct transport_link *transport_link_open(struct transport *t, const char *address, uint64_t id,
					   enum transport_purpose purpose, void *arg)
{
	struct transport_link *link = must(calloc(1, sizeof *link));
	link->t = t;
	link->id = id;
	link->purpose = purpose;
	link->arg = arg;
	snprintf(link->address, sizeof link->address, "%s", address);
	link->next = t->links;
	t->links = link;
	link_connect(link);
	return link;
}

void transport_link_close(struct transport_link *link)
{
	if (!link)
		return;
	for (struct transport_link **p = &link->t->links; *p; p = &(*p)->next) {
		if (*p != link)
			continue;
		*p = link->next;
		break;
	}
	struct conn *c = link->conn;
	link->conn = NULL;
	if (c) {
		c->link = NULL;
		drop(c);
	}
	/* Connections on their way out may still point here. */
	for (struct conn *k = link->t->conns; k; k = k->next)
		if (k->link == link)
			k->link = NULL;
	free(link);
}

void *transport_link_arg(const struct transport_link *link)
{
	return link->arg;
}

const struct secure_identity *transport_link_peer(const struct transport_link *link)
{
	return link->conn && link->conn->state == CONN_OPEN ? &link->conn->peer : NULL;
}

const char *transport_link_address(const struct transport_link *link)
{
	return link->address;
}

size_t transport_link_queued(const struct transport_link *link)
{
	return link->conn ? link->conn->queued + link->conn->writing : 0;
}

int transport_link_send(struct transport_link *link, uint16_t kind, uint16_t flags, uint64_t call,
			struct mu_view bytes, transport_sent sent, void *arg)
{
	return link->conn ? conn_send(link->conn, kind, flags, call, bytes, sent, arg) : MU_ECONNECT;
}

int transport_answer(struct transport *t, uint64_t connection, uint16_t kind, uint16_t flags, uint64_t call,
		     struct mu_view bytes)
{
	for (struct conn *c = t->conns; c; c = c->next)
		if (c->serial == connection)
			return conn_send(c, kind, flags, call, bytes, NULL, NULL);
	return MU_ECONNECT;
}

void transport_stats(const struct transport *t, struct transport_stats *ret)
{
	*ret = t->stats;
}
