#include "log/metrics.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "log/clock.h"
#include "log/stream.h"

/* ---- the page ---- */

static bool name_ok(const char *name, bool colon)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:";
	size_t n = strspn(name, letters);
	return n > 0 &&
	       name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_:0123456789")] ==
		   '\0' &&
	       (colon || !strchr(name, ':'));
}

/* Length of the well-formed UTF-8 character at P, or 0. */
static size_t utf8_len(const unsigned char *p)
{
	static const struct {
		unsigned char mask, lead, low, high; /* low, high: of the second byte */
		size_t len;
	} forms[] = {{0x80, 0x00, 0, 0, 1},
		     {0xe0, 0xc0, 0x80, 0xbf, 2},
		     {0xf0, 0xe0, 0x80, 0xbf, 3},
		     {0xf8, 0xf0, 0x80, 0xbf, 4}};
	for (size_t i = 0; i < 4; i++) {
		if ((p[0] & forms[i].mask) != forms[i].lead)
			continue;
		for (size_t k = 1; k < forms[i].len; k++)
			if ((p[k] & 0xc0) != 0x80)
				return 0;
		bool bad = (p[0] & 0xfe) == 0xc0 || (p[0] == 0xe0 && p[1] < 0xa0) ||
			   (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
			   (p[0] == 0xf4 && p[1] > 0x8f) || p[0] > 0xf4;
		return bad ? 0 : forms[i].len;
	}
	return 0;
}

static void add_escaped(struct mu_buf *out, const char *text, bool quotes)
{
	for (const unsigned char *p = (const unsigned char *)text; *p;) {
		size_t n = utf8_len(p);
		if (*p == '\\' || (*p == '"' && quotes))
			mu_buf_printf(out, "\\%c", *p);
		else if (*p == '\n')
			mu_buf_str(out, "\\n");
		else if (n == 0)
			mu_buf_str(out, "?");
		else
			mu_buf_add(out, p, n);
		p += n ? n : 1;
	}
}

void metrics_family(struct mu_buf *out, const char *name, enum metrics_type type, const char *help)
{
	assert(name_ok(name, true));
	mu_buf_printf(out, "# HELP %s ", name);
	add_escaped(out, help, false);
	mu_buf_printf(out, "\n# TYPE %s %s\n", name, type == METRICS_COUNTER ? "counter" : "gauge");
}

static void add_name(struct mu_buf *out, const char *name, const char *const *labels)
{
	assert(name_ok(name, true));
	mu_buf_str(out, name);
	for (size_t i = 0; labels && labels[i]; i += 2) {
		assert(name_ok(labels[i], false));
		mu_buf_printf(out, "%s%s=\"", i ? "," : "{", labels[i]);
		add_escaped(out, labels[i + 1], true);
		mu_buf_str(out, "\"");
	}
	mu_buf_str(out, labels && labels[0] ? "} " : " ");
}

void metrics_u64(struct mu_buf *out, const char *name, const char *const *labels, uint64_t value)
{
	add_name(out, name, labels);
	mu_buf_printf(out, "%" PRIu64 "\n", value);
}

void metrics_i64(struct mu_buf *out, const char *name, const char *const *labels, int64_t value)
{
	add_name(out, name, labels);
	mu_buf_printf(out, "%" PRId64 "\n", value);
}

void metrics_micro(struct mu_buf *out, const char *name, const char *const *labels, int64_t value)
{
	uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;
	add_name(out, name, labels);
	mu_buf_printf(out, "%s%" PRIu64 ".%06" PRIu64 "\n", value < 0 ? "-" : "", size / 1000000,
		      size % 1000000);
}

/* ---- the server ---- */

struct visitor {
	int fd; /* -1: nobody */
	int64_t deadline_usec;
	char head[METRICS_HEAD_MAX + 1];
	size_t have;
	struct mu_buf answer; /* empty while the request is read */
	size_t sent;
};

struct metrics_server {
	int listener, stop;
	char *path; /* of the Unix socket */
	metrics_fill fill;
	void *arg;
	pthread_t thread;
	struct mu_buf page;
	int64_t page_usec;
	struct visitor visitors[METRICS_CONNECTIONS];
};

static void leave(struct visitor *v)
{
	close(v->fd);
	mu_buf_free(&v->answer);
	v->fd = -1;
}

static void answer(struct visitor *v, const char *status, const char *type, struct mu_view body,
		   bool with_body)
{
	mu_buf_printf(&v->answer,
		      "HTTP/1.0 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n"
		      "X-Content-Type-Options: nosniff\r\n\r\n",
		      status, type, body.len);
	if (with_body)
		mu_buf_add(&v->answer, body.data, body.len);
	v->sent = 0;
	v->deadline_usec = clock_mono_usec() + METRICS_WRITE_MSEC * 1000;
}

static void refuse(struct visitor *v, const char *status)
{
	char text[64];
	int n = snprintf(text, sizeof text, "%s\n", status);
	answer(v, status, "text/plain", (struct mu_view){(uint8_t *)text, (size_t)n}, true);
}

static void answer_page(struct metrics_server *m, struct visitor *v, bool with_body)
{
	int64_t now = clock_mono_usec();
	if (m->page_usec == 0 || now - m->page_usec > METRICS_FRESH_MSEC * 1000) {
		mu_buf_reset(&m->page);
		m->fill(m->arg, &m->page);
		m->page_usec = now;
	}
	answer(v, "200 OK", "text/plain; version=0.0.4; charset=utf-8",
	       (struct mu_view){m->page.data, m->page.len}, with_body);
}

/* "GET /metrics HTTP/1.1": decides by the first line alone. */
static void decide(struct metrics_server *m, struct visitor *v)
{
	char method[8], path[METRICS_LINE_MAX], rest;
	unsigned major, minor;
	size_t line = strcspn(v->head, "\r\n");
	if (line >= METRICS_LINE_MAX) {
		refuse(v, "414 URI Too Long");
		return;
	}
	v->head[line] = '\0';
	if (sscanf(v->head, "%7[A-Z] %1023s HTTP/%1u.%1u%c", method, path, &major, &minor, &rest) != 4) {
		refuse(v, "400 Bad Request");
		return;
	}
	path[strcspn(path, "?")] = '\0';
	bool get = strcmp(method, "GET") == 0, head = strcmp(method, "HEAD") == 0;
	if (!get && !head)
		refuse(v, "405 Method Not Allowed");
	else if (strcmp(path, "/") != 0 && strcmp(path, "/metrics") != 0)
		refuse(v, "404 Not Found");
	else
		answer_page(m, v, get);
}

/* The request is whole with an empty line; what does not fit is refused. */
static void hear(struct metrics_server *m, struct visitor *v)
{
	ssize_t n = recv(v->fd, v->head + v->have, METRICS_HEAD_MAX - v->have, MSG_DONTWAIT);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		leave(v);
		return;
	}
	v->have += (size_t)n;
	v->head[v->have] = '\0';
	if (strlen(v->head) < v->have)
		refuse(v, "400 Bad Request"); /* A NUL byte. */
	else if (strstr(v->head, "\r\n\r\n") || strstr(v->head, "\n\n"))
		decide(m, v);
	else if (strcspn(v->head, "\r\n") >= METRICS_LINE_MAX)
		refuse(v, "414 URI Too Long");
	else if (v->have == METRICS_HEAD_MAX)
		refuse(v, "431 Request Header Fields Too Large");
}

static void tell(struct visitor *v)
{
	ssize_t n =
	    send(v->fd, v->answer.data + v->sent, v->answer.len - v->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n > 0)
		v->sent += (size_t)n;
	if (n <= 0 || v->sent == v->answer.len) {
		shutdown(v->fd, SHUT_WR);
		leave(v);
	}
}

static void welcome(struct metrics_server *m)
{
	for (int i = 0; i < METRICS_CONNECTIONS; i++) {
		struct visitor *v = &m->visitors[i];
		if (v->fd >= 0)
			continue;
		v->fd = accept4(m->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (v->fd < 0)
			return;
		v->have = 0;
		v->deadline_usec = clock_mono_usec() + METRICS_READ_MSEC * 1000;
	}
}

/* One turn: waits, then serves whoever is ready and drops whoever is late. False at the end. */
static bool turn(struct metrics_server *m)
{
	struct pollfd p[METRICS_CONNECTIONS + 2];
	int64_t next = clock_mono_usec() + INT64_C(60) * 1000000;
	bool room = false;
	for (int i = 0; i < METRICS_CONNECTIONS; i++) {
		struct visitor *v = &m->visitors[i];
		p[i] = (struct pollfd){.fd = v->fd, .events = v->answer.len ? POLLOUT : POLLIN};
		room |= v->fd < 0;
		if (v->fd >= 0 && v->deadline_usec < next)
			next = v->deadline_usec;
	}
	/* Full: whoever knocks waits in the listener's queue. */
	p[METRICS_CONNECTIONS] = (struct pollfd){.fd = room ? m->listener : -1, .events = POLLIN};
	p[METRICS_CONNECTIONS + 1] = (struct pollfd){.fd = m->stop, .events = POLLIN};
	if (poll(p, METRICS_CONNECTIONS + 2, clock_left_msec(next)) < 0)
		return true;
	if (p[METRICS_CONNECTIONS + 1].revents)
		return false;
	for (int i = 0; i < METRICS_CONNECTIONS; i++) {
		struct visitor *v = &m->visitors[i];
		if (v->fd >= 0 && p[i].revents && v->answer.len)
			tell(v);
		else if (v->fd >= 0 && p[i].revents)
			hear(m, v);
		if (v->fd >= 0 && clock_left_msec(v->deadline_usec) == 0)
			leave(v);
	}
	if (p[METRICS_CONNECTIONS].revents) {
		welcome(m);
		if (p[METRICS_CONNECTIONS].revents & ~POLLIN)
			clock_sleep_msec(100);
	}
	return true;
}

static void *serve(void *arg)
{
	struct metrics_server *m = arg;
	while (turn(m))
		;
	return NULL;
}

static int start(struct metrics_server *m, const char *address, struct mu_err *err)
{
	char url[256];
	int yes = 1;
	bool local = *address == '/';
	bool four = strncmp(address, "127.", 4) == 0 && address[strspn(address, "0123456789.")] == ':';
	if (!local && !four && strncmp(address, "[::1]:", 6) != 0)
		return mu_fail(err, MU_EINVAL,
			       "figures are shown on a Unix socket or a loopback port; '%s' is neither /path "
			       "nor 127.0.0.1:port",
			       address);
	if (snprintf(url, sizeof url, "%s%s", local ? "ipc://" : "tcp://", address) >= (int)sizeof url)
		return mu_fail(err, MU_EINVAL, "address '%s' is too long", address);
	int code = stream_listen(url, 0660, &m->listener, err);
	if (code)
		return code;
	if (local && !(m->path = strdup(address)))
		abort();
	m->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (m->stop < 0 || ioctl(m->listener, FIONBIO, &yes) < 0)
		return mu_fail(err, MU_EIO, "cannot prepare %s: %s", address, strerror(errno));
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = pthread_create(&m->thread, NULL, serve, m);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r ? mu_fail(err, MU_EIO, "cannot start a thread: %s", strerror(r)) : 0;
}

static void dispose(struct metrics_server *m)
{
	for (int i = 0; i < METRICS_CONNECTIONS; i++)
		if (m->visitors[i].fd >= 0)
			leave(&m->visitors[i]);
	if (m->path)
		unlink(m->path); /* While we still listen: nobody else can have put his own there. */
	free(m->path);
	if (m->listener >= 0)
		close(m->listener);
	if (m->stop >= 0)
		close(m->stop);
	mu_buf_free(&m->page);
	free(m);
}

int metrics_open(const char *address, metrics_fill fill, void *arg, struct metrics_server **ret,
		 struct mu_err *err)
{
	struct metrics_server *m = calloc(1, sizeof *m);
	if (!m)
		abort();
	m->listener = m->stop = -1;
	m->fill = fill;
	m->arg = arg;
	for (int i = 0; i < METRICS_CONNECTIONS; i++)
		m->visitors[i].fd = -1;
	int code = start(m, address, err);
	if (code) {
		dispose(m);
		return code;
	}
	*ret = m;
	return 0;
}

struct metrics_server *metrics_close(struct metrics_server *m)
{
	uint64_t one = 1;
	if (!m)
		return NULL;
	if (write(m->stop, &one, sizeof one) == (ssize_t)sizeof one)
		pthread_join(m->thread, NULL);
	dispose(m);
	return NULL;
}
