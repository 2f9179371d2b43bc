#include "log/stream.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "log/clock.h"

enum { READ_BYTES = 16 * 1024, BACKLOG = 4096, HOST_MAX = 256, PORT_MAX = 6, LOOKUPS_MAX = 8 };

/* ---- frames ---- */

static uint32_t get_u32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void set_u32(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 24);
	p[1] = (uint8_t)(v >> 16);
	p[2] = (uint8_t)(v >> 8);
	p[3] = (uint8_t)v;
}

static bool is_kind(uint8_t kind)
{
	return (kind >= STREAM_STEP_ASK && kind <= STREAM_LEAD) ||
	       (kind >= STREAM_CONTROL_FIRST && kind <= STREAM_CONTROL_LAST);
}
static bool is_data(uint8_t kind)
{
	return kind == STREAM_STDIN || kind == STREAM_STDOUT || kind == STREAM_STDERR;
}

void stream_feed(struct stream_reader *r, const void *data, size_t len)
{
	if (r->used == r->in.len) {
		mu_buf_reset(&r->in);
		r->used = 0;
	} else if (r->used >= STREAM_MAX) {
		memmove(r->in.data, r->in.data + r->used, r->in.len - r->used);
		r->in.len -= r->used;
		r->used = 0;
	}
	mu_buf_add(&r->in, data, len);
}

int stream_next(struct stream_reader *r, struct stream_frame *ret)
{
	size_t have = r->in.len - r->used;
	if (have < STREAM_HEADER)
		return 0;
	const uint8_t *p = r->in.data + r->used;
	uint32_t len = get_u32(p);
	uint8_t kind = p[4], flags = p[5];
	if (len > STREAM_MAX || !is_kind(kind))
		return MU_EPROTO;
	if (flags & ~STREAM_FLAG_MORE || (flags && is_data(kind)))
		return MU_EPROTO;
	if (have - STREAM_HEADER < len)
		return 0;
	ret->kind = kind;
	ret->flags = flags;
	ret->channel = (uint16_t)(p[6] << 8 | p[7]);
	ret->payload = (struct mu_view){p + STREAM_HEADER, len};
	r->used += STREAM_HEADER + len;
	return 1;
}

void stream_reader_free(struct stream_reader *r)
{
	if (!r)
		return;
	mu_buf_free(&r->in);
	r->used = 0;
}

int stream_join(struct mu_buf *whole, const struct stream_frame *frame)
{
	if (whole->len + frame->payload.len > STREAM_JOINED_MAX)
		return MU_ELIMIT;
	mu_buf_add(whole, frame->payload.data, frame->payload.len);
	return !(frame->flags & STREAM_FLAG_MORE);
}

void stream_put(struct mu_buf *out, uint8_t kind, uint16_t channel, const void *payload, size_t len)
{
	const uint8_t *from = payload;
	do {
		size_t n = len < STREAM_MAX ? len : STREAM_MAX;
		uint8_t *p = mu_buf_grow(out, STREAM_HEADER + n);
		set_u32(p, (uint32_t)n);
		p[4] = kind;
		p[5] = n < len && !is_data(kind) ? STREAM_FLAG_MORE : 0;
		p[6] = (uint8_t)(channel >> 8);
		p[7] = (uint8_t)channel;
		if (n > 0)
			memcpy(p + STREAM_HEADER, from, n);
		from += n;
		len -= n;
	} while (len > 0);
}

void stream_proof(const uint8_t key[STREAM_KEY], const uint8_t nonce[STREAM_NONCE], struct mu_view request,
		  uint8_t ret[MU_HASH_BYTES])
{
	struct mu_hasher hasher;
	struct mu_hash hash;
	mu_hasher_init(&hasher);
	mu_hasher_add(&hasher, key, STREAM_KEY);
	mu_hasher_add(&hasher, nonce, STREAM_NONCE);
	mu_hasher_add(&hasher, request.data, request.len);
	mu_hasher_done(&hasher, &hash);
	memcpy(ret, hash.b, sizeof hash.b);
}

void stream_put_u32(struct mu_buf *out, uint8_t kind, uint16_t channel, uint32_t value)
{
	uint8_t p[4];
	set_u32(p, value);
	stream_put(out, kind, channel, p, sizeof p);
}

int stream_get_u32(const struct stream_frame *frame, uint32_t *ret)
{
	if (frame->payload.len != 4)
		return MU_EPROTO;
	*ret = get_u32(frame->payload.data);
	return 0;
}

/* ---- credit ---- */

void stream_credit_init(struct stream_credit *c, uint32_t window_bytes)
{
	*c = (struct stream_credit){.window = window_bytes, .left = window_bytes};
}

uint32_t stream_may_send(const struct stream_credit *c)
{
	return c->left;
}

void stream_sent(struct stream_credit *c, uint32_t bytes)
{
	assert(bytes <= c->left);
	c->left -= bytes;
}

int stream_granted(struct stream_credit *c, uint32_t bytes)
{
	if (bytes > c->window - c->left)
		return MU_EPROTO;
	c->left += bytes;
	return 0;
}

int stream_received(struct stream_credit *c, uint32_t bytes)
{
	if (bytes > c->left)
		return MU_EPROTO;
	c->left -= bytes;
	return 0;
}

uint32_t stream_consumed(struct stream_credit *c, uint32_t bytes)
{
	assert(bytes <= c->window - c->left - c->owed);
	c->owed += bytes;
	if (c->owed < (c->window + 1) / 2)
		return 0;
	uint32_t grant = c->owed;
	c->left += grant;
	c->owed = 0;
	return grant;
}

/* ---- blocking helpers ---- */

int stream_write_all(int fd, const void *data, size_t len, struct mu_err *err)
{
	const uint8_t *p = data;
	while (len > 0) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return mu_fail(err, MU_EIO, "cannot send: %s", strerror(errno));
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

int stream_read_frame(int fd, struct stream_reader *r, unsigned timeout_msec, struct stream_frame *ret,
		      struct mu_err *err)
{
	int64_t deadline = clock_mono_usec() + (int64_t)timeout_msec * 1000;
	for (;;) {
		int code = stream_next(r, ret);
		if (code == 1)
			return 0;
		if (code < 0)
			return mu_fail(err, code, "the peer does not speak the stream protocol");
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int ready = poll(&p, 1, clock_left_msec(deadline));
		if (ready < 0 && errno == EINTR)
			continue;
		if (ready <= 0)
			return mu_fail(err, ready < 0 ? MU_EIO : MU_ETIMEOUT, "no frame came within %u ms",
				       timeout_msec);
		uint8_t bytes[READ_BYTES];
		ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n == 0)
			return mu_fail(err, MU_ECONNECT, "the peer closed the connection");
		if (n < 0)
			return mu_fail(err, MU_EIO, "cannot receive: %s", strerror(errno));
		stream_feed(r, bytes, (size_t)n);
	}
}

/* ---- addresses ---- */

/* Splits "tcp://host:port" or "tcp://[host]:port". */
static int split_tcp(const char *address, char host[HOST_MAX], char port[PORT_MAX], struct mu_err *err)
{
	const char *p = address + strlen("tcp://"), *colon = strrchr(p, ':'), *from = p, *to = colon;
	bool bracket = *p == '[';
	if (bracket && colon && colon > p + 1 && colon[-1] == ']') {
		from = p + 1;
		to = colon - 1;
	} else if (bracket) {
		colon = NULL;
	}
	if (!colon || to == from || (size_t)(to - from) >= HOST_MAX)
		return mu_fail(err, MU_EINVAL, "address '%s' is not of the form tcp://host:port", address);
	char *end;
	long number = strtol(colon + 1, &end, 10);
	if (colon[1] < '0' || colon[1] > '9' || *end || number < 1 || number > 65535)
		return mu_fail(err, MU_EINVAL, "address '%s' has no port between 1 and 65535", address);
	memcpy(host, from, (size_t)(to - from));
	host[to - from] = '\0';
	snprintf(port, PORT_MAX, "%u", (unsigned)(uint16_t)number);
	return 0;
}

static int unix_address(const char *address, struct sockaddr_un *ret, struct mu_err *err)
{
	const char *path = address + strlen("ipc://");
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (*path != '/' || strlen(path) >= sizeof ret->sun_path)
		return mu_fail(err, MU_EINVAL, "address '%s' needs an absolute path of at most %zu bytes",
			       address, sizeof ret->sun_path - 1);
	memcpy(ret->sun_path, path, strlen(path) + 1);
	return 0;
}

static bool is_unix(const char *address)
{
	return strncmp(address, "ipc://", 6) == 0;
}

static int check_form(const char *address, struct mu_err *err)
{
	if (is_unix(address) || strncmp(address, "tcp://", 6) == 0)
		return 0;
	return mu_fail(err, MU_EINVAL, "address '%s' is neither ipc:///path nor tcp://host:port", address);
}

/* Waits until FD has connected; errno tells otherwise. A full queue of a Unix listener is asked again every
 * few milliseconds. */
static int connect_until(int fd, const struct sockaddr *sa, socklen_t len, int64_t deadline)
{
	for (;;) {
		if (connect(fd, sa, len) == 0)
			return 0;
		if (errno == EINPROGRESS || errno == EINTR)
			break;
		if (errno != EAGAIN)
			return -1;
		if (clock_left_msec(deadline) == 0) {
			errno = ETIMEDOUT;
			return -1;
		}
		clock_sleep_msec(5);
	}
	struct pollfd p = {.fd = fd, .events = POLLOUT};
	int n;
	do
		n = poll(&p, 1, clock_left_msec(deadline));
	while (n < 0 && errno == EINTR);
	int error = n == 0 ? ETIMEDOUT : 0;
	socklen_t size = sizeof error;
	if (n < 0 || (n > 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0))
		return -1;
	errno = error;
	return error ? -1 : 0;
}

static int connect_one(int family, const struct sockaddr *sa, socklen_t len, int64_t deadline, int *ret_fd)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1;
	if (fd < 0)
		return -1;
	if (connect_until(fd, sa, len, deadline) < 0 ||
	    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) < 0) {
		int keep = errno;
		close(fd);
		errno = keep;
		return -1;
	}
	if (family != AF_UNIX)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	*ret_fd = fd;
	return 0;
}

/* The addresses behind "tcp://host:port": a number is taken as it is, anything else is looked up. 0,
 * MU_EINVAL, MU_ECONNECT. */
static int resolve(const char *address, struct addrinfo **ret, struct mu_err *err)
{
	char host[HOST_MAX], port[PORT_MAX];
	int code = split_tcp(address, host, port, err);
	if (code)
		return code;
	struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | AI_NUMERICHOST};
	int lookup = getaddrinfo(host, port, &want, ret);
	if (lookup == EAI_NONAME) {
		want.ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG;
		lookup = getaddrinfo(host, port, &want, ret);
	}
	if (lookup)
		return mu_fail(err, MU_ECONNECT, "cannot find host '%s': %s", host, gai_strerror(lookup));
	return 0;
}

static int connect_tcp(const char *address, int64_t deadline, int *ret_fd, struct mu_err *err)
{
	struct addrinfo *list = NULL;
	int code = resolve(address, &list, err);
	if (code)
		return code;
	int failed = ECONNREFUSED, tried = 0, fd = -1;
	for (struct addrinfo *a = list; a && fd < 0 && tried < LOOKUPS_MAX; a = a->ai_next, tried++)
		if (connect_one(a->ai_family, a->ai_addr, a->ai_addrlen, deadline, &fd) < 0)
			failed = errno;
	freeaddrinfo(list);
	errno = failed;
	if (fd < 0)
		return mu_fail(err, MU_ECONNECT, "cannot connect to %s: %s", address, strerror(failed));
	*ret_fd = fd;
	return 0;
}

int stream_connect(const char *address, unsigned timeout_msec, int *ret_fd, struct mu_err *err)
{
	int64_t deadline = clock_mono_usec() + (int64_t)timeout_msec * 1000;
	int code = check_form(address, err);
	if (code)
		return code;
	if (!is_unix(address))
		return connect_tcp(address, deadline, ret_fd, err);
	struct sockaddr_un sa;
	code = unix_address(address, &sa, err);
	if (code)
		return code;
	if (connect_one(AF_UNIX, (struct sockaddr *)&sa, sizeof sa, deadline, ret_fd) < 0)
		return mu_fail(err, MU_ECONNECT, "cannot connect to %s: %s", address, strerror(errno));
	return 0;
}

/* Removes the socket file of a process that is gone. Anything else at that path stays. */
static int clear_stale(const char *address, const struct sockaddr_un *sa, struct mu_err *err)
{
	struct stat st;
	int fd = -1;
	if (lstat(sa->sun_path, &st) < 0)
		return 0; /* bind will tell what is wrong, if anything is. */
	if (!S_ISSOCK(st.st_mode))
		return mu_fail(err, MU_EEXIST, "%s exists and is not a socket", sa->sun_path);
	int64_t deadline = clock_mono_usec() + 1000000;
	if (connect_one(AF_UNIX, (const struct sockaddr *)sa, sizeof *sa, deadline, &fd) == 0) {
		close(fd);
		return mu_fail(err, MU_EEXIST, "another process listens on %s", address);
	}
	if (errno != ECONNREFUSED)
		return mu_fail(err, MU_EEXIST, "cannot tell who listens on %s: %s", address, strerror(errno));
	unlink(sa->sun_path);
	return 0;
}

static int bind_unix(int fd, const char *address, unsigned mode, struct mu_err *err)
{
	struct sockaddr_un sa;
	int code = unix_address(address, &sa, err);
	if (!code)
		code = clear_stale(address, &sa, err);
	if (code)
		return code;
	/* The mode of the unbound socket caps that of the file, so it is never wider than asked, whatever the
	 * umask. */
	if (fchmod(fd, mode) < 0 || bind(fd, (struct sockaddr *)&sa, sizeof sa) < 0 ||
	    chmod(sa.sun_path, mode) < 0)
		return mu_fail(err, MU_EIO, "cannot listen on %s: %s", address, strerror(errno));
	return 0;
}

static int bind_tcp(const char *address, int *ret_fd, struct mu_err *err)
{
	struct addrinfo *list = NULL;
	int code = resolve(address, &list, err), one = 1;
	if (code && err)
		err->code = MU_EINVAL; /* Nobody was to be reached: the address is wrong. */
	if (code)
		return MU_EINVAL;
	int fd = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
	    bind(fd, list->ai_addr, list->ai_addrlen) < 0) {
		code = mu_fail(err, MU_EIO, "cannot listen on %s: %s", address, strerror(errno));
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	freeaddrinfo(list);
	*ret_fd = fd;
	return code;
}

int stream_listen(const char *address, unsigned mode, int *ret_fd, struct mu_err *err)
{
	int fd = -1, code = check_form(address, err);
	if (code)
		return code;
	if (is_unix(address)) {
		fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return mu_fail(err, MU_EIO, "cannot make a socket: %s", strerror(errno));
		code = bind_unix(fd, address, mode, err);
	} else {
		code = bind_tcp(address, &fd, err);
	}
	if (!code && listen(fd, BACKLOG) < 0)
		code = mu_fail(err, MU_EIO, "cannot listen on %s: %s", address, strerror(errno));
	if (code) {
		if (fd >= 0)
			close(fd);
		return code;
	}
	*ret_fd = fd;
	return 0;
}
