/* tests/log/wire_hostile.c: a server among strangers. Whatever they send or leave out, it answers others,
 * keeps its memory and its descriptors, and gets rid of them; and a client survives whatever a false server
 * says. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "log/clock.h"
#include "log/stream.h"
#include "log/wire.h"
#include "proto/base/seed.h"
#include "tests/log/wire_help.h"

static char dir[] = "/tmp/mu-hostile-XXXXXX";
static char unix_url[128], tcp_url[64];
static const char *urls[2] = {unix_url, tcp_url};
static struct mu_seed seed;

static void on_request(void *arg, struct wire_call *call, const struct wire_peer *peer,
		       struct mu_view request)
{
	static const uint8_t huge[16 << 20];
	if (request.len == 4 && memcmp(request.data, "huge", 4) == 0)
		wire_reply(call, (struct mu_view){huge, sizeof huge});
	else
		wire_reply(call, request);
}

static int dial(int u)
{
	int fd = -1;
	struct mu_err err = {0};
	if (stream_connect(urls[u], 5000, &fd, &err))
		fprintf(stderr, "%s\n", err.text);
	CHECK(fd >= 0);
	return fd;
}

/* An honest client on a connection of its own. */
static void serves(void)
{
	for (int u = 0; u < 2; u++) {
		struct wire_client *c = wire_client_new(&urls[u], 1);
		struct mu_buf out = {0};
		struct mu_err err = {0};
		int code = wire_request(c, view("still here?"), 10000, &out, &err);
		if (code)
			fprintf(stderr, "%s\n", err.text);
		CHECK(code == 0 && out.len == 11);
		mu_buf_free(&out);
		wire_client_free(c);
	}
}

static void drained(struct wire_server *s)
{
	struct wire_stats stats = {0};
	for (int i = 0; i < 4000; i++) {
		wire_server_stats(s, &stats);
		if (stats.connections == 0 && stats.waiting == 0 && stats.in_bytes == 0 &&
		    stats.out_bytes == 0)
			return;
		clock_sleep_msec(5);
	}
	fprintf(stderr, "%llu connections, %llu waiting, %llu in, %llu out\n",
		(unsigned long long)stats.connections, (unsigned long long)stats.waiting,
		(unsigned long long)stats.in_bytes, (unsigned long long)stats.out_bytes);
	CHECK(!"the server is rid of them");
}

static const char hello[] = "\0SP\0\0\x30\0\0";

/* What a stranger sends after connecting. CUT: the server closes at once. */
static void openings(struct wire_server *s)
{
	static const struct {
		const char *bytes;
		size_t len;
		bool unix_only, tcp_only, cut;
	} table[] = {
	    {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, false, false, true},
	    {"\0SP\0\0\x31\0\0", 8, false, false, true}, /* another replier */
	    {"\0SP\1\0\x30\0\0", 8, false, false, true},
	    {"\x16\x03\x01\x02\x00\x01\x00\x01", 8, false, false, true},
	    {"\0SP\0\0\x30\0\0\0\0\0\0\x40\0\0\0\x80\0\0\1", 20, false, true, true}, /* 1 GiB */
	    {"\0SP\0\0\x30\0\0\1\0\0\0\0\x40\0\0\0\x80\0\0\1", 21, true, false, true},
	    {"\0SP\0\0\x30\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x80\0\0\1", 20, false, true, true},
	    {"\0SP\0\0\x30\0\0\0\0\0\0\0\0\0\3\x80\0\0\1", 20, false, true, true}, /* shorter than its id */
	    {"\0SP\0\0\x30\0\0\0\0\0\0\0\x80\0\1\x80\0\0\1", 20, false, true,
	     true}, /* one byte over the bound */
	    {"\0SP\0\0\x30\0\0\0\0\0\0\0\0\0\x08\0\0\0\1", 20, false, true,
	     true}, /* an id without its top bit */
	    {"\0SP\0\0\x30\0\0\2\0\0\0\0\0\0\0\x08\x80\0\0\1", 21, true, false, true}, /* not a message */
	    {"", 0, false, false, false},
	    {"\0SP", 3, false, false, false},
	    {"\0SP\0\0\x30\0\0", 8, false, false, false},
	    {"\0SP\0\0\x30\0\0\0\0\0\0\0\x80\0\0\x80\0\0\1x", 21, false, true,
	     false}, /* 8 MiB announced, one byte sent */
	    {"\0SP\0\0\x30\0\0\1\0\0\0\0\0\x7f", 15, true, false, false},
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		for (int u = 0; u < 2; u++) {
			if ((u == 0 && table[i].tcp_only) || (u == 1 && table[i].unix_only))
				continue;
			int fd = dial(u);
			char reply[64];
			struct pollfd p = {.fd = fd, .events = POLLIN};
			CHECK(send(fd, table[i].bytes, table[i].len, MSG_NOSIGNAL) == (ssize_t)table[i].len);
			ssize_t n = 0, all = 0;
			while (poll(&p, 1, table[i].cut ? 10000 : 20) > 0 &&
			       (n = recv(fd, reply, sizeof reply, 0)) > 0)
				all += n;
			CHECK(!table[i].cut || p.revents); /* closed, not merely silent */
			CHECK(all <= 8);		   /* its hello and nothing else */
			serves();
			if (i % 2) {
				struct linger reset = {1, 0};
				setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
			}
			close(fd);
		}
	drained(s);
}

static void noise(struct wire_server *s, unsigned count)
{
	uint8_t bytes[4096];
	for (unsigned i = 0; i < count; i++) {
		int fd = dial((int)(i % 2));
		size_t len = mu_seed_below(&seed, sizeof bytes), from = 0;
		for (size_t k = 0; k < len; k++)
			bytes[k] = (uint8_t)mu_seed_next(&seed);
		if (i % 4 >= 2) { /* behind a good hello and a plausible length */
			memcpy(bytes, hello, 8);
			memcpy(bytes + 8, "\1\0\0\0\0\0\0\0\x20\x80\0\0\0\0\0\0\0\0" + (i % 2), 18);
			len = len < 40 ? 40 : len;
		}
		while (from < len) {
			size_t part = 1 + mu_seed_below(&seed, (uint32_t)(len - from));
			if (send(fd, bytes + from, part, MSG_NOSIGNAL) < 0)
				break;
			from += part;
		}
		close(fd);
		if (i % 200 == 0)
			serves();
	}
	serves();
	drained(s);
}

/* Announced megabytes cost what was sent, not what was claimed; many of them keep nobody from being served.
 */
static void half_bodies(struct wire_server *s, unsigned count)
{
	int *fd = calloc(count, sizeof *fd);
	struct wire_stats stats;
	for (unsigned i = 0; i < count; i++) {
		fd[i] = dial(1);
		CHECK(send(fd[i], "\0SP\0\0\x30\0\0\0\0\0\0\0\x7f\xff\xff\x80\0\0\1 some bytes", 31,
			   MSG_NOSIGNAL) == 31);
	}
	serves();
	wire_server_stats(s, &stats);
	CHECK(stats.connections >= count && stats.in_bytes > 0 && stats.in_bytes < (uint64_t)count * 140000);
	for (unsigned i = 0; i < count; i++)
		close(fd[i]);
	free(fd);
	drained(s);
}

/* Clients that ask for much and take nothing. */
static void slow_readers(struct wire_server *s)
{
	int fd[8];
	struct wire_stats stats = {0};
	for (int i = 0; i < 8; i++) {
		fd[i] = dial(1);
		CHECK(send(fd[i], "\0SP\0\0\x30\0\0\0\0\0\0\0\0\0\x08\x80\0\0\1huge", 24, MSG_NOSIGNAL) ==
		      24);
	}
	for (int i = 0; i < 2000 && stats.out_bytes < 8 * (8u << 20); i++) {
		wire_server_stats(s, &stats);
		clock_sleep_msec(5);
	}
	CHECK(stats.out_bytes >= 8 * (8u << 20) && stats.waiting == 0);
	serves();
	for (int i = 0; i < 8; i += 2)
		close(fd[i]);
	/* The others are cut for stalling. */
	drained(s);
	wire_server_stats(s, &stats);
	CHECK(stats.refused >= 4);
	for (int i = 1; i < 8; i += 2)
		close(fd[i]);
}

/* Silent connections are cut when their span is over: before the hello, in the middle of a request, and idle
 * behind it. */
static void silent(void)
{
	struct wire_server *s = NULL;
	CHECK(wire_server_open(urls, 2, 16, view("busy"), on_request, NULL, &s, NULL) == 0);
	wire_server_spans(s, 100, 100, 100);
	static const char *const kinds[] = {"", "\0SP\0\0\x30\0\0", "\0SP\0\0\x30\0\0\0\0\0"};
	static const size_t lens[] = {0, 8, 11};
	int fd[3];
	for (int i = 0; i < 3; i++) {
		fd[i] = dial(1);
		CHECK(send(fd[i], kinds[i], lens[i], MSG_NOSIGNAL) == (ssize_t)lens[i]);
	}
	struct wire_stats stats = {0};
	for (int i = 0; i < 2000 && stats.refused < 3; i++) {
		wire_server_stats(s, &stats);
		clock_sleep_msec(5);
	}
	CHECK(stats.refused == 3);
	drained(s);
	/* An honest client whose connection was closed for idleness notices nothing. */
	struct wire_client *c = wire_client_new(&urls[0], 1);
	struct mu_buf out = {0};
	CHECK(wire_request(c, view("a"), 5000, &out, NULL) == 0);
	drained(s);
	CHECK(wire_request(c, view("b"), 5000, &out, NULL) == 0 && out.len == 2);
	wire_client_free(c);
	mu_buf_free(&out);
	for (int i = 0; i < 3; i++)
		close(fd[i]);
	wire_server_close(s);
}

static void idle(struct wire_server *s, unsigned count)
{
	struct rlimit r;
	CHECK(getrlimit(RLIMIT_NOFILE, &r) == 0);
	if (r.rlim_cur < 2 * count + 1200)
		count = (unsigned)(r.rlim_cur - 1200) / 2; /* both ends are ours */
	int *fd = calloc(count, sizeof *fd);
	struct wire_stats stats = {0};
	for (unsigned i = 0; i < count; i++) {
		fd[i] = dial((int)(i % 2));
		if (i % 4 < 2)
			CHECK(send(fd[i], hello, 8, MSG_NOSIGNAL) == 8);
	}
	for (int i = 0; i < 2000 && stats.connections < count; i++) {
		wire_server_stats(s, &stats);
		clock_sleep_msec(5);
	}
	CHECK(stats.connections == count);
	serves();
	for (unsigned i = 0; i < count; i++)
		close(fd[i]);
	free(fd);
	drained(s);
}

/* Descriptors run short: strangers that only hold connections lose them to those who ask. Runs in a child
 * that may not raise limits. */
static void scarce(void)
{
	pid_t server = fork();
	int status;
	if (server == 0) {
		struct rlimit few = {400, 400};
		struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
		struct __user_cap_data_struct caps[2] = {0};
		CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0 && syscall(SYS_capset, &head, caps) == 0);
		struct wire_server *s = NULL;
		CHECK(wire_server_open(urls, 2, 16, view("busy"), on_request, NULL, &s, NULL) == 0);
		int spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
		for (;;) {
			struct wire_stats stats;
			wire_server_stats(s, &stats);
			CHECK(stats.connections <= 400 / 2 + 400 / 32);
			int more = dup(spare); /* the program's own files still open */
			CHECK(more >= 0);
			close(more);
			clock_sleep_msec(1);
		}
	}
	while (access(unix_url + 6, F_OK) < 0)
		clock_sleep_msec(5);
	clock_sleep_msec(50);
	enum { STRANGERS = 600 };
	int fd[STRANGERS], refused = 0;
	for (int i = 0; i < STRANGERS; i++) {
		fd[i] = dial(i % 2);
		if (i % 50 == 49)
			serves();
	}
	serves();
	for (int i = 0; i < STRANGERS; i++) {
		char b[9];
		ssize_t n = 0, r;
		while ((r = recv(fd[i], b, sizeof b, MSG_DONTWAIT)) > 0)
			n += r;
		refused += r == 0 || errno == ECONNRESET;
		close(fd[i]);
	}
	CHECK(refused >= STRANGERS - 250);
	CHECK(waitpid(server, &status, WNOHANG) == 0); /* it lives */
	kill(server, SIGKILL);
	waitpid(server, &status, 0);
}

/* ---- a false server ---- */

static int false_fd;
static atomic_bool false_stop;

static void *lie(void *arg)
{
	struct mu_seed own;
	mu_seed_init(&own, seed_of_run() + 5);
	while (!atomic_load(&false_stop)) {
		struct pollfd p = {.fd = false_fd, .events = POLLIN};
		if (poll(&p, 1, 20) <= 0)
			continue;
		int fd = accept4(false_fd, NULL, NULL, SOCK_CLOEXEC);
		uint8_t in[256], out[64] = "\0SP\0\0\x31\0\0\1\0\0\0\0\0\0\0\x09";
		size_t len = 8 + 9 + 9;
		ssize_t got = recv(fd, in, sizeof in, 0);
		if (got >= 21)
			memcpy(out + 17, in + 17, 4);
		memcpy(out + 21, "right", 5);
		unsigned kind = mu_seed_below(&own, 4);
		if (kind == 1)
			out[mu_seed_below(&own, 21)] ^= (uint8_t)(1 + mu_seed_below(&own, 255));
		if (kind == 2)
			len = mu_seed_below(&own, (uint32_t)len);
		if (kind == 3)
			for (size_t i = 0; i < sizeof out; i++)
				out[i] = (uint8_t)mu_seed_next(&own);
		send(fd, out, len, MSG_NOSIGNAL);
		close(fd);
	}
	return NULL;
}

static void false_server(unsigned count)
{
	char url[160];
	const char *list[] = {url};
	pthread_t thread;
	snprintf(url, sizeof url, "ipc://%s/false", dir);
	CHECK(stream_listen(url, 0600, &false_fd, NULL) == 0);
	CHECK(pthread_create(&thread, NULL, lie, NULL) == 0);
	unsigned right = 0, wrong = 0;
	for (unsigned i = 0; i < count; i++) {
		struct wire_client *c = wire_client_new(list, 1);
		struct mu_buf out = {0};
		if (wire_request(c, view("x"), 40, &out, NULL) == 0) {
			/* A changed length may cut the answer short; nothing else passes. */
			CHECK(out.len <= 5 &&
			      memcmp(out.data ? (char *)out.data : "", "right", out.len) == 0);
			right++;
		} else {
			CHECK(out.len == 0);
			wrong++;
		}
		wire_client_free(c);
		mu_buf_free(&out);
	}
	atomic_store(&false_stop, true);
	pthread_join(thread, NULL);
	close(false_fd);
	unlink(url + 6);
	CHECK(right > 0);
	printf("false server: %u right, %u refused\n", right, wrong);
}

int main(void)
{
	CHECK(mkdtemp(dir) != NULL);
	snprintf(unix_url, sizeof unix_url, "ipc://%s/sock", dir);
	snprintf(tcp_url, sizeof tcp_url, "tcp://127.0.0.1:%u", free_port());
	mu_seed_init(&seed, seed_of_run());
	scarce();
	silent();
	struct wire_server *s = NULL;
	CHECK(wire_server_open(urls, 2, 64, view("busy"), on_request, NULL, &s, NULL) == 0);
	wire_server_spans(s, 600000, 600000, 600000); /* nobody is cut for being slow on a busy host */
	openings(s);
	noise(s, sized(400, 2000, 10000));
	half_bodies(s, sized(50, 200, 1000));
	idle(s, size_row("MUSTER_SIZE_IDLE_CONNECTIONS", 200));
	wire_server_spans(s, 10000, 500, 10000);
	slow_readers(s);
	serves();
	wire_server_close(s);
	false_server(sized(60, 200, 500));
	CHECK(rmdir(dir) == 0);
	return 0;
}
