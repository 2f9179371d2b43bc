/* The client half of log/wire.h: one plain socket, no thread, nothing but libc. */
#include "log/wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "log/clock.h"
#include "log/stream.h"

enum {
	SP_HELLO = 8,
	REQUEST_ID = 4,
	CHUNK_BYTES = 1 << 20, /* a reply's buffer grows as bytes come, not as a length claims */
	CONNECT_MSEC = 1000,   /* one address; a lost SYN is sent again after a second */
	PAUSE_FIRST_MSEC = 50, /* between rounds over all addresses, doubled up to PAUSE_MOST_MSEC */
	PAUSE_MOST_MSEC = 500,
	PATIENCE_LEAST_MSEC = 1000,
	DEAD_HOST_MSEC = 6000 /* TCP gives a silent host up */
};

static const uint8_t hello_mine[SP_HELLO] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};   /* REQ0 */
static const uint8_t hello_theirs[SP_HELLO] = {0, 'S', 'P', 0, 0, 0x31, 0, 0}; /* REP0 */

struct wire_client {
	char **addresses;
	size_t count, at;
	int fd;
	pid_t owner;  /* process that opened fd: a forked child must not speak on it */
	bool local;   /* fd is a Unix socket */
	bool greeted; /* the peer's hello was read */
	bool served;  /* fd carried a reply already, so its breaking says little about the address */
	uint32_t next_id;
	unsigned patience_msec;
};

struct wire_client *wire_client_new(const char *const *addresses, size_t count)
{
	struct wire_client *c = calloc(1, sizeof *c);
	if (!c || !(c->addresses = calloc(count + 1, sizeof *c->addresses)))
		abort();
	for (size_t i = 0; i < count; i++)
		if (!(c->addresses[i] = strdup(addresses[i])))
			abort();
	c->count = count;
	c->fd = -1;
	if (getrandom(&c->next_id, sizeof c->next_id, GRND_NONBLOCK) < 0)
		c->next_id = (uint32_t)clock_mono_usec();
	return c;
}

static void drop(struct wire_client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
	c->greeted = c->served = false;
}

struct wire_client *wire_client_free(struct wire_client *c)
{
	if (!c)
		return NULL;
	drop(c);
	for (size_t i = 0; i < c->count; i++)
		free(c->addresses[i]);
	free(c->addresses);
	free(c);
	return NULL;
}

void wire_client_patience(struct wire_client *c, unsigned msec)
{
	c->patience_msec = msec;
}

void wire_client_rotate(struct wire_client *c)
{
	drop(c);
	if (c->count > 0)
		c->at = (c->at + 1) % c->count;
}

const char *wire_client_address(const struct wire_client *c)
{
	return c->count > 0 ? c->addresses[c->at] : "";
}

bool wire_client_local(const struct wire_client *c)
{
	return strncmp(wire_client_address(c), "ipc://", 6) == 0;
}

/* A host that lost its power answers nothing: let the kernel find out, also while we only wait. */
static void watch_peer(int fd)
{
	int one = 1, idle_sec = 3, interval_sec = 1, probes = 3, dead_msec = DEAD_HOST_MSEC;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_sec, sizeof idle_sec);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_sec, sizeof interval_sec);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &dead_msec, sizeof dead_msec);
}

static int ensure_connected(struct wire_client *c, int64_t deadline, struct mu_err *err)
{
	if (c->fd >= 0 && c->owner != getpid())
		drop(c); /* Closes our copy; the parent's connection lives. */
	if (c->fd >= 0)
		return 0;
	int left = clock_left_msec(deadline);
	unsigned wait = left < CONNECT_MSEC ? (unsigned)left : CONNECT_MSEC;
	int code = stream_connect(c->addresses[c->at], wait, &c->fd, err);
	if (code) {
		c->fd = -1;
		return code;
	}
	c->owner = getpid();
	c->local = wire_client_local(c);
	if (!c->local)
		watch_peer(c->fd);
	return 0;
}

/* Waits for EVENTS on the socket: 0, MU_ETIMEOUT, MU_EIO. */
static int wait_for(struct wire_client *c, short events, int64_t deadline, struct mu_err *err)
{
	for (;;) {
		struct pollfd p = {.fd = c->fd, .events = events};
		int n = poll(&p, 1, clock_left_msec(deadline));
		if (n > 0)
			return 0;
		if (n == 0)
			return mu_fail(err, MU_ETIMEOUT, "%s does not answer", c->addresses[c->at]);
		if (errno != EINTR)
			return mu_fail(err, MU_EIO, "cannot wait for %s: %s", c->addresses[c->at],
				       strerror(errno));
	}
}

static int broken(struct wire_client *c, const char *what, struct mu_err *err)
{
	return mu_fail(err, MU_EIO, "connection to %s broke while %s: %s", c->addresses[c->at], what,
		       strerror(errno));
}

static int send_request(struct wire_client *c, uint32_t id, struct mu_view request, int64_t deadline,
			struct mu_err *err)
{
	uint8_t head[SP_HELLO + 1 + 8 + REQUEST_ID];
	size_t n = 0;
	if (!c->served) {
		memcpy(head, hello_mine, SP_HELLO);
		n = SP_HELLO;
	}
	if (c->local)
		head[n++] = 1;
	for (int shift = 56; shift >= 0; shift -= 8)
		head[n++] = (uint8_t)((uint64_t)(request.len + REQUEST_ID) >> shift);
	for (int shift = 24; shift >= 0; shift -= 8)
		head[n++] = (uint8_t)(id >> shift);
	struct iovec iov[2] = {{head, n}, {(void *)request.data, request.len}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	while (iov[0].iov_len + iov[1].iov_len > 0) {
		ssize_t sent = sendmsg(c->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno == EAGAIN) {
			int code = wait_for(c, POLLOUT, deadline, err);
			if (code)
				return code;
			continue;
		}
		if (sent < 0)
			return broken(c, "sending", err);
		for (int i = 0; i < 2 && sent > 0; i++) {
			size_t part = (size_t)sent < iov[i].iov_len ? (size_t)sent : iov[i].iov_len;
			iov[i].iov_base = (uint8_t *)iov[i].iov_base + part;
			iov[i].iov_len -= part;
			sent -= (ssize_t)part;
		}
	}
	return 0;
}

static int receive(struct wire_client *c, void *data, size_t len, int64_t deadline, struct mu_err *err)
{
	uint8_t *p = data;
	while (len > 0) {
		ssize_t n = recv(c->fd, p, len, MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			int code = wait_for(c, POLLIN, deadline, err);
			if (code)
				return code;
			continue;
		}
		if (n == 0)
			errno = ECONNRESET;
		if (n <= 0)
			return broken(c, "waiting for the reply", err);
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

static int receive_hello(struct wire_client *c, int64_t deadline, struct mu_err *err)
{
	uint8_t hello[SP_HELLO];
	int code = receive(c, hello, sizeof hello, deadline, err);
	if (code)
		return code;
	if (memcmp(hello, hello_theirs, sizeof hello) != 0)
		return mu_fail(err, MU_EPROTO, "what listens on %s is no controller", c->addresses[c->at]);
	c->greeted = true;
	return 0;
}

static int receive_reply(struct wire_client *c, uint32_t id, int64_t deadline, struct mu_buf *out,
			 struct mu_err *err)
{
	uint8_t head[1 + 8 + REQUEST_ID], *p = head;
	size_t want = sizeof head - (c->local ? 0 : 1);
	int code = c->greeted ? 0 : receive_hello(c, deadline, err);
	if (!code)
		code = receive(c, head, want, deadline, err);
	if (code)
		return code;
	if (c->local && *p++ != 1)
		return mu_fail(err, MU_EPROTO, "%s sent a malformed frame", c->addresses[c->at]);
	uint64_t len = 0;
	for (int i = 0; i < 8; i++)
		len = len << 8 | *p++;
	uint32_t got = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
	if (len > (uint64_t)WIRE_MAX_REPLY + REQUEST_ID)
		return mu_fail(err, MU_ELIMIT, "%s sent a reply of %llu bytes; at most %d are taken",
			       c->addresses[c->at], (unsigned long long)len, WIRE_MAX_REPLY);
	if (len < REQUEST_ID || got != id)
		return mu_fail(err, MU_EPROTO, "%s answered something else", c->addresses[c->at]);
	len -= REQUEST_ID;
	while (len > 0 && !code) {
		size_t n = len < CHUNK_BYTES ? (size_t)len : CHUNK_BYTES;
		code = receive(c, mu_buf_grow(out, n), n, deadline, err);
		len -= n;
	}
	return code;
}

/* One attempt at the present address. */
static int try_once(struct wire_client *c, struct mu_view request, int64_t deadline, struct mu_buf *out,
		    bool *reached, struct mu_err *err)
{
	size_t before = out->len;
	int code = ensure_connected(c, deadline, err);
	if (code)
		return code;
	*reached = true;
	uint32_t id = c->next_id++ | 0x80000000u;
	code = send_request(c, id, request, deadline, err);
	if (!code)
		code = receive_reply(c, id, deadline, out, err);
	if (code)
		out->len = before;
	else
		c->served = true;
	return code;
}

static int64_t try_deadline(const struct wire_client *c, int64_t deadline)
{
	int64_t now = clock_mono_usec(), msec = c->patience_msec;
	if (c->count < 2)
		return deadline;
	if (msec == 0)
		msec = (deadline - now) / 2000;
	if (msec < PATIENCE_LEAST_MSEC)
		msec = PATIENCE_LEAST_MSEC;
	return now + msec * 1000 < deadline ? now + msec * 1000 : deadline;
}

int wire_request(struct wire_client *c, struct mu_view request, unsigned timeout_msec, struct mu_buf *out,
		 struct mu_err *err)
{
	int64_t deadline = clock_mono_usec() + (int64_t)timeout_msec * 1000;
	unsigned pause_msec = PAUSE_FIRST_MSEC;
	bool reached = false;
	struct mu_err last = {0};
	if (c->count == 0)
		return mu_fail(err, MU_EINVAL, "no controller's address is known");
	if (request.len > (c->local ? WIRE_MAX_UNIX : WIRE_MAX_TCP) - REQUEST_ID)
		return mu_fail(err, MU_ELIMIT, "a request of %zu bytes is too large; at most %d are sent",
			       request.len, WIRE_MAX_TCP - REQUEST_ID);
	for (size_t failures = 0;;) {
		bool old = c->fd >= 0 && c->served;
		int code = try_once(c, request, try_deadline(c, deadline), out, &reached, &last);
		if (code == 0)
			return 0;
		drop(c);
		if (code == MU_ELIMIT || code == MU_EINVAL)
			return mu_fail(err, code, "%s", last.text);
		if (old && code == MU_EIO)
			continue; /* The controller restarted or dropped an idle connection: it gets a fresh
				     one first. */
		wire_client_rotate(c);
		if (++failures % c->count == 0 && clock_left_msec(deadline) > 0) {
			unsigned left = (unsigned)clock_left_msec(deadline);
			clock_sleep_msec(pause_msec < left ? pause_msec : left);
			pause_msec = pause_msec * 2 < PAUSE_MOST_MSEC ? pause_msec * 2 : PAUSE_MOST_MSEC;
		}
		if (clock_left_msec(deadline) == 0)
			return mu_fail(err, reached ? MU_ETIMEOUT : MU_ECONNECT,
				       "no controller answered within %u.%u s: %s", timeout_msec / 1000,
				       timeout_msec % 1000 / 100, last.text);
	}
}
