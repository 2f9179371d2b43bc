/* tests/log/wire_basic.c: the contract of log/wire.h, both halves. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "log/clock.h"
#include "log/stream.h"
#include "log/wire.h"
#include "tests/log/wire_help.h"

static char dir[] = "/tmp/mu-wire-XXXXXX";
static char unix_url[128], tcp_url[64];

/* Calls held back by the request "hold", answered by release(). */
enum { HELD_MAX = 64 };
static struct wire_call *held[HELD_MAX];
static unsigned held_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint handled;

static void on_request(void *arg, struct wire_call *call, const struct wire_peer *peer,
		       struct mu_view request)
{
	const char *name = arg;
	struct mu_buf out = {0};
	atomic_fetch_add(&handled, 1);
	if (request.len == 4 && memcmp(request.data, "hold", 4) == 0) {
		pthread_mutex_lock(&lock);
		CHECK(held_count < HELD_MAX);
		held[held_count++] = call;
		pthread_mutex_unlock(&lock);
		return;
	}
	if (request.len == 3 && memcmp(request.data, "who", 3) == 0)
		mu_buf_printf(&out, "%s %d %u %u %d %s", name, peer->local, peer->uid, peer->gid,
			      peer->local ? (int)peer->pid : 0, peer->address);
	else if (request.len == 3 && memcmp(request.data, "big", 3) == 0)
		memset(mu_buf_grow(&out, WIRE_MAX_REPLY + 1), 'x', WIRE_MAX_REPLY + 1);
	else
		mu_buf_add(&out, request.data, request.len);
	wire_reply(call, (struct mu_view){out.data, out.len});
	/* The request stays ours until we return, whoever speaks on the connection meanwhile. */
	volatile uint8_t last = request.len ? request.data[request.len - 1] : 0;
	(void)last;
	mu_buf_free(&out);
}

static unsigned release(const char *text)
{
	pthread_mutex_lock(&lock);
	unsigned n = held_count;
	held_count = 0;
	pthread_mutex_unlock(&lock);
	for (unsigned i = 0; i < n; i++)
		wire_reply(held[i], view(text));
	return n;
}

static struct wire_server *open_server(size_t max_waiting, const char *name)
{
	const char *urls[] = {unix_url, tcp_url};
	struct wire_server *s = NULL;
	struct mu_err err = {0};
	int code = wire_server_open(urls, 2, max_waiting, view("busy"), on_request, (void *)name, &s, &err);
	if (code)
		fprintf(stderr, "%s\n", err.text);
	CHECK(code == 0);
	return s;
}

static int ask(struct wire_client *c, const char *what, unsigned msec, struct mu_buf *out)
{
	struct mu_err err = {0};
	mu_buf_reset(out);
	int code = wire_request(c, view(what), msec, out, &err);
	CHECK((code == 0) == (err.text[0] == '\0'));
	return code;
}

static void echoes(void)
{
	static const size_t sizes[] = {0, 1, 4, 300, 65535, 65536, 65537, 200000, (8 << 20) - 4};
	const char *urls[] = {unix_url, tcp_url};
	for (int u = 0; u < 2; u++) {
		struct wire_client *c = wire_client_new(&urls[u], 1);
		struct mu_buf in = {0}, out = {0};
		for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
			mu_buf_reset(&in);
			memset(mu_buf_grow(&in, sizes[i]), (int)('a' + i), sizes[i]);
			mu_buf_reset(&out);
			mu_buf_str(&out, "kept");
			struct mu_err err = {0};
			int code = wire_request(c, (struct mu_view){in.data, in.len}, 20000, &out, &err);
			if (code)
				fprintf(stderr, "%s\n", err.text);
			CHECK(code == 0 && out.len == sizes[i] + 4);
			CHECK(memcmp(out.data, "kept", 4) == 0 && memcmp(out.data + 4, in.data, in.len) == 0);
		}
		mu_buf_grow(&in, 1);
		CHECK(wire_request(c, (struct mu_view){in.data, in.len}, 20000, &out, NULL) == MU_ELIMIT);
		CHECK(ask(c, "big", 20000, &out) == MU_ELIMIT && out.len == 0);
		CHECK(ask(c, "again", 20000, &out) == 0 && out.len == 5);
		wire_client_free(c);
		mu_buf_free(&in);
		mu_buf_free(&out);
	}
}

static void peers(void)
{
	const char *urls[] = {unix_url, tcp_url};
	char want[128];
	struct mu_buf out = {0};
	struct wire_client *c = wire_client_new(urls, 2);
	CHECK(wire_client_local(c));
	CHECK(ask(c, "who", 5000, &out) == 0);
	snprintf(want, sizeof want, "one 1 %u %u %d localhost", getuid(), getgid(), (int)getpid());
	CHECK(strcmp((char *)out.data, want) == 0);
	wire_client_rotate(c);
	CHECK(!wire_client_local(c) && strcmp(wire_client_address(c), tcp_url) == 0);
	CHECK(ask(c, "who", 5000, &out) == 0);
	CHECK(strncmp((char *)out.data, "one 0 0 0 0 127.0.0.1:", 22) == 0);
	/* A child speaks on a connection of its own and the parent's goes on. */
	wire_client_rotate(c);
	CHECK(ask(c, "who", 5000, &out) == 0);
	pid_t child = fork();
	if (child == 0) {
		CHECK(ask(c, "who", 5000, &out) == 0);
		snprintf(want, sizeof want, "one 1 %u %u %d localhost", getuid(), getgid(), (int)getpid());
		_exit(strcmp((char *)out.data, want) != 0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	CHECK(ask(c, "still", 5000, &out) == 0 && out.len == 5);
	wire_client_free(c);
	struct stat st;
	CHECK(stat(unix_url + 6, &st) == 0 && (st.st_mode & 0777) == 0666);
	mu_buf_free(&out);
}

struct asker {
	pthread_t thread;
	const char *url, *what;
	unsigned msec;
	int code;
	struct mu_buf out;
};

static void *ask_thread(void *arg)
{
	struct asker *a = arg;
	struct wire_client *c = wire_client_new(&a->url, 1);
	a->code = wire_request(c, view(a->what), a->msec, &a->out, NULL);
	wire_client_free(c);
	return NULL;
}

static void start(struct asker *a, size_t count, const char *url, const char *what, unsigned msec)
{
	for (size_t i = 0; i < count; i++) {
		a[i] = (struct asker){.url = url, .what = what, .msec = msec};
		CHECK(pthread_create(&a[i].thread, NULL, ask_thread, &a[i]) == 0);
	}
}

static void finish(struct asker *a, size_t count, int code, const char *text)
{
	for (size_t i = 0; i < count; i++) {
		pthread_join(a[i].thread, NULL);
		CHECK(a[i].code == code);
		CHECK(!text ||
		      (a[i].out.len == strlen(text) && memcmp(a[i].out.data, text, a[i].out.len) == 0));
		mu_buf_free(&a[i].out);
	}
}

static void wait_waiting(struct wire_server *s, size_t n)
{
	for (int i = 0; i < 2000 && wire_server_waiting(s) != n; i++)
		clock_sleep_msec(5);
	CHECK(wire_server_waiting(s) == n);
}

/* More long polls than threads wait at once; beyond the bound the answer is "busy"; others are served
 * meanwhile. */
static void long_polls(struct wire_server *s)
{
	struct asker a[40];
	struct mu_buf out = {0};
	const char *url = unix_url;
	start(a, 10, unix_url, "hold", 20000);
	start(a + 10, 30, tcp_url, "hold", 20000);
	wait_waiting(s, 40);
	struct wire_client *c = wire_client_new(&url, 1);
	CHECK(ask(c, "hello", 5000, &out) == 0 && strcmp((char *)out.data, "busy") == 0);
	CHECK(release("now") == 40);
	finish(a, 40, 0, "now");
	CHECK(ask(c, "hello", 5000, &out) == 0 && strcmp((char *)out.data, "hello") == 0);
	struct wire_stats stats;
	wire_server_stats(s, &stats);
	CHECK(stats.busy == 1 && stats.waiting == 0 && stats.in_bytes == 0 && stats.out_bytes == 0);
	/* Clients that leave while they wait: their calls are answered into nothing. */
	int left[10];
	for (int i = 0; i < 10; i++) {
		CHECK(stream_connect(tcp_url, 5000, &left[i], NULL) == 0);
		CHECK(stream_write_all(left[i], "\0SP\0\0\x30\0\0\0\0\0\0\0\0\0\x08\x80\0\0\1hold", 24,
				       NULL) == 0);
	}
	wait_waiting(s, 10);
	for (int i = 0; i < 10; i++)
		close(left[i]);
	for (int i = 0; i < 2000; i++) {
		wire_server_stats(s, &stats);
		if (stats.connections <= 1)
			break;
		clock_sleep_msec(5);
	}
	CHECK(stats.connections == 1);
	CHECK(wire_server_waiting(s) == 10 && release("too late") == 10 && wire_server_waiting(s) == 0);
	wire_client_free(c);
	mu_buf_free(&out);
}

/* One ordinary user cannot take every place. */
static void one_greedy_user(struct wire_server *s)
{
	struct asker a[10];
	struct mu_buf out = {0};
	const char *url = unix_url;
	int up[2], down[2], status;
	char c;
	if (geteuid() != 0) {
		printf("not root: no other user can be tried\n");
		return;
	}
	CHECK(chmod(dir, 0711) == 0 && pipe(up) == 0 && pipe(down) == 0);
	pid_t child = fork();
	if (child == 0) {
		CHECK(setgid(12345) == 0 && setuid(12345) == 0);
		start(a, 10, unix_url, "hold", 20000);
		CHECK(read(down[0], &c, 1) == 1);
		struct wire_client *w = wire_client_new(&url, 1);
		CHECK(ask(w, "one more", 5000, &out) == 0 && strcmp((char *)out.data, "busy") == 0);
		CHECK(write(up[1], "x", 1) == 1);
		finish(a, 10, 0, "now");
		CHECK(ask(w, "who", 5000, &out) == 0 &&
		      strncmp((char *)out.data, "one 1 12345 12345 ", 18) == 0);
		_exit(0);
	}
	wait_waiting(s, 10);
	struct wire_client *w = wire_client_new(&url, 1);
	CHECK(write(down[1], "x", 1) == 1 && read(up[0], &c, 1) == 1);
	CHECK(ask(w, "root", 5000, &out) == 0 && strcmp((char *)out.data, "root") == 0);
	CHECK(release("now") == 10);
	CHECK(waitpid(child, &status, 0) == child && status == 0);
	for (int i = 0; i < 2; i++) {
		close(up[i]);
		close(down[i]);
	}
	wire_client_free(w);
	mu_buf_free(&out);
}

/* Addresses of nobody, of somebody else and of a controller: the client finds the last, and says so when
 * there is none. */
static void rotation(void)
{
	char dead[64], other[128], missing[128];
	int fd = -1;
	struct mu_buf out = {0};
	struct mu_err err = {0};
	snprintf(dead, sizeof dead, "tcp://127.0.0.1:%u", free_port());
	snprintf(other, sizeof other, "ipc://%s/other", dir);
	snprintf(missing, sizeof missing, "ipc://%s/missing", dir);
	CHECK(stream_listen(other, 0600, &fd, &err) == 0); /* accepts into its queue and never speaks */
	const char *urls[] = {missing, dead, other, tcp_url};
	struct wire_client *c = wire_client_new(urls, 4);
	wire_client_patience(c, 1000);
	CHECK(ask(c, "found", 20000, &out) == 0 && strcmp(wire_client_address(c), tcp_url) == 0);
	wire_client_free(c);
	close(fd);
	c = wire_client_new(urls, 2);
	int64_t t = clock_mono_usec();
	CHECK(ask(c, "nobody", 300, &out) == MU_ECONNECT);
	CHECK(clock_mono_usec() - t >= 300000);
	wire_client_free(c);
	const char *wrong = "http://here";
	c = wire_client_new(&wrong, 1);
	CHECK(ask(c, "x", 300, &out) == MU_EINVAL);
	wire_client_free(c);
	c = wire_client_new(&wrong, 0);
	CHECK(ask(c, "x", 300, &out) == MU_EINVAL);
	wire_client_free(c);
	mu_buf_free(&out);
}

static void on_alarm(int sig)
{
}

/* The kept connection breaks with the server; the same client finds the next server at the same address,
 * through signals. */
static void restart(struct wire_server **s)
{
	struct mu_buf out = {0};
	const char *url = unix_url;
	struct wire_client *c = wire_client_new(&url, 1);
	struct asker a[4];
	CHECK(ask(c, "one", 5000, &out) == 0);
	start(a, 4, tcp_url, "hold", 20000);
	wait_waiting(*s, 4);
	*s = wire_server_close(*s);
	CHECK(access(unix_url + 6, F_OK) < 0);
	struct sigaction sa = {.sa_handler = on_alarm};
	sigaction(SIGALRM, &sa, NULL);
	struct itimerval tick = {{0, 2000}, {0, 2000}}, none = {0};
	setitimer(ITIMER_REAL, &tick, NULL);
	CHECK(ask(c, "none", 200, &out) == MU_ETIMEOUT); /* The bytes may have arrived. */
	CHECK(release("after the end") == 4); /* The closed server's calls are still ours to answer. */
	*s = open_server(40, "two");
	wait_waiting(*s, 4); /* The clients came back with the same bytes. */
	CHECK(ask(c, "who", 5000, &out) == 0 && strncmp((char *)out.data, "two ", 4) == 0);
	setitimer(ITIMER_REAL, &none, NULL);
	CHECK(release("at last") == 4);
	finish(a, 4, 0, "at last");
	wire_client_free(c);
	mu_buf_free(&out);
}

static void refused_addresses(void)
{
	static const struct {
		const char *url;
		int code;
	} table[] = {
	    {"tcp://127.0.0.1:0", MU_EINVAL},
	    {"tcp://127.0.0.1:65536", MU_EINVAL},
	    {"tcp://127.0.0.1", MU_EINVAL},
	    {"tcp://:80", MU_EINVAL},
	    {"tcp://127.0.0.1:80x", MU_EINVAL},
	    {"tcp://127.0.0.1:-1", MU_EINVAL},
	    {"tcp://[::1:80", MU_EINVAL},
	    {"ipc://relative", MU_EINVAL},
	    {"inproc://x", MU_EINVAL},
	    {"", MU_EINVAL},
	    {"tcp://no.such.host.invalid:80", MU_EINVAL},
	    {"ipc:///no/such/dir/socket", MU_EIO},
	    {"ipc:///dev/null", MU_EIO},
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct wire_server *s = NULL;
		struct mu_err err = {0};
		CHECK(wire_server_open(&table[i].url, 1, 4, view("busy"), on_request, "x", &s, &err) ==
		      table[i].code);
		CHECK(s == NULL && err.text[0]);
	}
	/* An address in use is refused, and the one that uses it goes on. */
	struct wire_server *s = open_server(4, "first"), *second = NULL;
	const char *urls[] = {unix_url, tcp_url};
	for (int i = 0; i < 2; i++)
		CHECK(wire_server_open(&urls[i], 1, 4, view("busy"), on_request, "x", &second, NULL) ==
		      MU_EIO);
	struct wire_client *c = wire_client_new(urls, 1);
	struct mu_buf out = {0};
	CHECK(ask(c, "who", 5000, &out) == 0);
	mu_buf_free(&out);
	wire_client_free(c);
	wire_server_close(s);
	CHECK(wire_server_close(NULL) == NULL);
}

int main(void)
{
	CHECK(mkdtemp(dir) != NULL);
	snprintf(unix_url, sizeof unix_url, "ipc://%s/sock", dir);
	snprintf(tcp_url, sizeof tcp_url, "tcp://127.0.0.1:%u", free_port());
	refused_addresses();
	struct wire_server *s = open_server(40, "one");
	echoes();
	peers();
	long_polls(s);
	one_greedy_user(s);
	rotation();
	restart(&s);
	wire_server_close(s);
	char path[128];
	snprintf(path, sizeof path, "%s/other", dir);
	unlink(path);
	CHECK(rmdir(dir) == 0);
	return 0;
}
