/* tests/log/wire_page.c: what programs say: log/diag.h and log/metrics.h; and the hand-over of log/loop.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "log/clock.h"
#include "log/diag.h"
#include "log/loop.h"
#include "log/metrics.h"
#include "log/stream.h"
#include "tests/log/wire_help.h"

static char dir[] = "/tmp/mu-page-XXXXXX";
static char path[128], moved[128];

static char *slurp(const char *file)
{
	static char text[65536];
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	ssize_t n = read(fd, text, sizeof text - 1);
	CHECK(n >= 0);
	close(fd);
	text[n] = '\0';
	return text;
}

/* ---- diag ---- */

static void words(void)
{
	static const struct {
		const char *word;
		int code;
		enum diag_level level;
	} table[] = {{"quiet", 0, DIAG_QUIET},	 {"Info", 0, DIAG_INFO}, {"3", 0, DIAG_INFO},
		     {"debug2", 0, DIAG_DEBUG2}, {"9", 0, DIAG_DEBUG5},	 {"debug6", MU_EINVAL, 0},
		     {"10", MU_EINVAL, 0},	 {"", MU_EINVAL, 0},	 {"inf", MU_EINVAL, 0}};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		enum diag_level level = DIAG_FATAL;
		CHECK(diag_level_parse(table[i].word, &level) == table[i].code &&
		      (table[i].code ? level == DIAG_FATAL : level == table[i].level));
	}
	CHECK(diag_set_flags("Agent,backfill") == 0 && diag_flag("Agent") && diag_flag("Backfill") &&
	      !diag_flag("Steps"));
	CHECK(diag_set_flags("+Steps,-Agent") == 0 && !diag_flag("Agent") && diag_flag("Backfill") &&
	      diag_flag("STEPS"));
	CHECK(diag_set_flags("+Nonsense") == MU_EINVAL && diag_set_flags("Agentx") == MU_EINVAL &&
	      diag_flag("Steps"));
	CHECK(diag_set_flags("Raft") == 0 && !diag_flag("Steps") && diag_flag("Raft"));
	CHECK(diag_set_flags("") == 0 && !diag_flag("Raft") && !diag_flag("Nonsense"));
}

static void lines(void)
{
	char big[9000];
	memset(big, 'b', sizeof big - 1);
	big[sizeof big - 1] = '\0';
	CHECK(diag_open("prog", "/no/such/dir/file", DIAG_INFO, 0) == MU_EIO);
	CHECK(diag_open("prog", path, DIAG_INFO, 0) == 0);
	errno = 42;
	diag_info("job %d\nforged: line\t\x1b[31m", 7);
	CHECK(errno == 42);
	diag_error("bad thing");
	diag_debug("not shown");
	diag(DIAG_QUIET, "never shown");
	diag_info("%s", big);
	diag_set_level(DIAG_DEBUG);
	CHECK(diag_get_level() == DIAG_DEBUG);
	diag_debug("shown");
	char *text = slurp(path);
	int year, day, n = 0;
	CHECK(sscanf(text, "[%d-%*d-%dT%*d:%*d:%*d.%*d] job 7 forged: line ?[31m\n%n", &year, &day, &n) ==
		  2 &&
	      n > 0);
	text += n;
	CHECK(strstr(text, "] error: bad thing\n") && strstr(text, "] debug: shown\n") &&
	      !strstr(text, "not shown") && !strstr(text, "never"));
	CHECK(strstr(text, "bbb\n") && strlen(text) < 4400); /* cut, with its end */
	/* logrotate: moved away, then reopened. */
	CHECK(rename(path, moved) == 0);
	diag_info("still to the old file");
	CHECK(diag_reopen() == 0);
	diag_info("to the new one");
	CHECK(strstr(slurp(moved), "still to the old") && !strstr(slurp(moved), "to the new one") &&
	      strstr(slurp(path), "to the new one"));
	struct stat st;
	CHECK(stat(path, &st) == 0 && (st.st_mode & 0777 & ~0640) == 0);
}

/* Runs WHAT in a child whose stderr is a file, and returns its wait status. */
static int in_child(void (*what)(void), const char *journal)
{
	unlink(path);
	pid_t child = fork();
	int status;
	if (child == 0) {
		int fd = open(path, O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0600);
		struct stat st;
		char stream[64];
		dup2(fd, 2);
		fstat(2, &st);
		snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)st.st_dev,
			 (unsigned long long)st.st_ino);
		if (journal)
			setenv("JOURNAL_STREAM", *journal ? journal : stream, 1);
		what();
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	return status;
}

static void say_fatal(void)
{
	CHECK(diag_open("prog", NULL, DIAG_INFO, 0) == 0);
	diag_info("before");
	diag_fatal("cannot go on: %s", "reason");
}

static void crash(void)
{
	CHECK(diag_open("prog", NULL, DIAG_INFO, 0) == 0);
	diag_catch_crashes();
	raise(SIGILL);
}

static void ends(void)
{
	int status = in_child(say_fatal, NULL);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	CHECK(strcmp(slurp(path), "prog: before\nprog: fatal: cannot go on: reason\n") == 0);
	in_child(say_fatal, "");
	CHECK(strcmp(slurp(path), "<6>before\n<2>fatal: cannot go on: reason\n") == 0);
	in_child(say_fatal, "1:1"); /* somebody else's stderr was the journal */
	CHECK(strncmp(slurp(path), "prog: before", 12) == 0);
	status = in_child(crash, NULL);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGILL);
	CHECK(strncmp(slurp(path), "fatal: signal 4\n", 16) == 0 && strchr(slurp(path) + 16, '\n'));
}

/* ---- metrics ---- */

static atomic_int fills;

static void fill(void *arg, struct mu_buf *out)
{
	atomic_fetch_add(&fills, 1);
	metrics_family(out, "muster_jobs", METRICS_GAUGE, "Jobs by state\\\nand more");
	metrics_u64(out, "muster_jobs",
		    (const char *const[]){"state", "a\"b\\c\nd", "x", "\xc3\xa4\xff\xed\xa0\x80", NULL},
		    UINT64_MAX);
	metrics_i64(out, "muster_jobs", NULL, INT64_MIN);
	metrics_family(out, "muster_lag_seconds", METRICS_COUNTER, "Lag");
	metrics_micro(out, "muster_lag_seconds", NULL, 1500000);
	metrics_micro(out, "muster_lag_seconds", NULL, -7);
	metrics_micro(out, "muster_lag_seconds", NULL, INT64_MIN);
	if (arg)
		memset(mu_buf_grow(out, 3 << 20), '#', 3 << 20);
}

static const char page[] =
    "# HELP muster_jobs Jobs by state\\\\\\nand more\n# TYPE muster_jobs gauge\n"
    "muster_jobs{state=\"a\\\"b\\\\c\\nd\",x=\"\xc3\xa4????\"} 18446744073709551615\n"
    "muster_jobs -9223372036854775808\n"
    "# HELP muster_lag_seconds Lag\n# TYPE muster_lag_seconds counter\n"
    "muster_lag_seconds 1.500000\nmuster_lag_seconds -0.000007\nmuster_lag_seconds -9223372036854.775808\n";

static size_t fetch(const char *url, const char *request, size_t len, char *ret, size_t cap)
{
	int fd;
	size_t n = 0;
	CHECK(stream_connect(url, 5000, &fd, NULL) == 0);
	for (size_t at = 0; at < len;) { /* in pieces: the server collects them */
		size_t part = len - at > 7 ? (len - at) / 2 : len - at;
		if (send(fd, request + at, part, MSG_NOSIGNAL) < 0)
			break;
		at += part;
	}
	struct pollfd p = {.fd = fd, .events = POLLIN};
	ssize_t r;
	while (n < cap - 1 && poll(&p, 1, 10000) > 0 && (r = recv(fd, ret + n, cap - 1 - n, 0)) > 0)
		n += (size_t)r;
	ret[n] = '\0';
	close(fd);
	return n;
}

static void pages(void)
{
	char url[160], socket_path[128], request[12000], reply[16384];
	struct metrics_server *m = NULL;
	struct mu_err err = {0};
	static const char *const wrong[] = {"0.0.0.0:9000", "10.0.0.1:9000", "relative",    "",
					    "[::]:9000",    "127.0.0.1",     "127.0.0.1:0", "127.evil:1"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		CHECK(metrics_open(wrong[i], fill, NULL, &m, &err) == MU_EINVAL && !m && err.text[0]);
	snprintf(socket_path, sizeof socket_path, "%s/metrics", dir);
	snprintf(url, sizeof url, "ipc://%s", socket_path);
	CHECK(metrics_open(socket_path, fill, NULL, &m, &err) == 0);
	struct stat st;
	CHECK(stat(socket_path, &st) == 0 && (st.st_mode & 0777) == 0660);
	static const struct {
		const char *request, *status;
	} table[] = {
	    {"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "200"},
	    {"GET / HTTP/1.0\n\n", "200"},
	    {"GET /metrics?x=y HTTP/1.0\r\n\r\n", "200"},
	    {"HEAD /metrics HTTP/1.0\r\n\r\n", "200"},
	    {"POST /metrics HTTP/1.0\r\n\r\n", "405"},
	    {"GET /other HTTP/1.0\r\n\r\n", "404"},
	    {"GET /metrics/../../etc/passwd HTTP/1.0\r\n\r\n", "404"},
	    {"nonsense\r\n\r\n", "400"},
	    {"\r\n\r\n", "400"},
	    {"GET /metrics\r\n\r\n", "400"},
	    {"GET  HTTP/1.0 x y\r\n\r\n", "400"},
	    {"GETGETGETGET / HTTP/1.0\r\n\r\n", "400"},
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		fetch(url, table[i].request, strlen(table[i].request), reply, sizeof reply);
		CHECK(strncmp(reply, "HTTP/1.0 ", 9) == 0 && strncmp(reply + 9, table[i].status, 3) == 0);
		char *body = strstr(reply, "\r\n\r\n");
		CHECK(body && strstr(reply, "Content-Length: "));
		size_t length = strtoul(strstr(reply, "Content-Length: ") + 16, NULL, 10);
		bool head = *table[i].request == 'H';
		CHECK(strlen(body + 4) == (head ? 0 : length));
		if (strcmp(table[i].status, "200") == 0)
			CHECK(head || strcmp(body + 4, page) == 0);
	}
	CHECK(atomic_load(&fills) >= 1);
	memset(request, 'a', sizeof request);
	memcpy(request, "GET /", 5);
	fetch(url, request, 5000, reply, sizeof reply);
	CHECK(strncmp(reply, "HTTP/1.0 414", 12) == 0 || !*reply); /* cut while it still sent */
	memcpy(request, "GET / HTTP/1.0\r\n", 16);
	fetch(url, request, sizeof request, reply, sizeof reply);
	CHECK(strncmp(reply, "HTTP/1.0 431", 12) == 0 || !*reply);
	fetch(url, "GET /\0 HTTP/1.0\r\n\r\n", 20, reply, sizeof reply);
	CHECK(strncmp(reply, "HTTP/1.0 400", 12) == 0);
	m = metrics_close(m);
	CHECK(!m && access(socket_path, F_OK) < 0 && metrics_close(NULL) == NULL);
}

/* Visitors that say nothing, more than fit, hold others up for two seconds at most; a large page goes out
 * whole. */
static void crowd(void)
{
	char address[64], url[80], *reply = malloc(4 << 20);
	int fd[METRICS_CONNECTIONS + 8];
	struct metrics_server *m = NULL;
	snprintf(address, sizeof address, "127.0.0.1:%u", free_port());
	snprintf(url, sizeof url, "tcp://%s", address);
	CHECK(metrics_open(address, fill, &m, &m, NULL) == 0);
	for (int i = 0; i < METRICS_CONNECTIONS + 8; i++)
		CHECK(stream_connect(url, 5000, &fd[i], NULL) == 0);
	size_t n = fetch(url, "GET / HTTP/1.0\r\n\r\n", 18, reply, 4 << 20);
	CHECK(n > 3u << 20 && strncmp(reply, "HTTP/1.0 200", 12) == 0);
	for (int i = 0; i < METRICS_CONNECTIONS + 8; i++)
		close(fd[i]);
	metrics_close(m);
	free(reply);
}

/* ---- loop ---- */

enum { PUTTERS = 4, ITEMS = 20000, CAPACITY = 512 };
static struct loop_queue *queue;
static uintptr_t next_of[PUTTERS];
static unsigned got, largest;
static bool is_done;
static atomic_uint refused;
static pthread_t loop_thread;

static void on_done(void *arg)
{
	is_done = true;
}

static void on_batch(void *arg, void *const *items, size_t count)
{
	CHECK(pthread_equal(pthread_self(), loop_thread) && count >= 1 && count <= LOOP_BATCH);
	largest = count > largest ? (unsigned)count : largest;
	for (size_t i = 0; i < count; i++) {
		uintptr_t v = (uintptr_t)items[i];
		CHECK(v % ITEMS == next_of[v / ITEMS]);
		next_of[v / ITEMS]++;
		got++;
	}
	if (got == PUTTERS * ITEMS)
		loop_queue_close(queue, on_done, NULL);
}

static void *put_all(void *arg)
{
	uintptr_t me = (uintptr_t)arg;
	for (uintptr_t i = 0; i < ITEMS; i++) {
		int code;
		while ((code = loop_queue_put(queue, (void *)(me * ITEMS + i))) == MU_EBUSY) {
			atomic_fetch_add(&refused, 1);
			clock_sleep_msec(1);
		}
		CHECK(code == 0);
	}
	return NULL;
}

static void hand_over(void)
{
	uv_loop_t loop;
	pthread_t t[PUTTERS];
	struct loop_queue_stats stats;
	CHECK(uv_loop_init(&loop) == 0 &&
	      loop_queue_open(&loop, CAPACITY, on_batch, NULL, &queue, NULL) == 0);
	loop_thread = pthread_self();
	for (uintptr_t i = 0; i < PUTTERS; i++)
		CHECK(pthread_create(&t[i], NULL, put_all, (void *)i) == 0);
	while (atomic_load(&refused) == 0)
		clock_sleep_msec(1); /* the loop does not run yet: the queue fills and then refuses */
	loop_queue_stats(queue, &stats);
	CHECK(stats.waiting == CAPACITY && stats.waiting_max == CAPACITY && stats.refused > 0 &&
	      stats.batches == 0);
	CHECK(uv_run(&loop, UV_RUN_DEFAULT) == 0 && is_done && got == PUTTERS * ITEMS &&
	      largest == LOOP_BATCH);
	for (int i = 0; i < PUTTERS; i++)
		pthread_join(t[i], NULL);
	CHECK(uv_loop_close(&loop) == 0);
}

/* What waits at the end is handed over, what comes later is not taken. */
static void close_with_items(void)
{
	uv_loop_t loop;
	CHECK(uv_loop_init(&loop) == 0 &&
	      loop_queue_open(&loop, CAPACITY, on_batch, NULL, &queue, NULL) == 0);
	got = 0;
	is_done = false;
	memset(next_of, 0, sizeof next_of);
	for (uintptr_t i = 0; i < 300; i++)
		CHECK(loop_queue_put(queue, (void *)i) == 0);
	loop_queue_close(queue, on_done, NULL);
	CHECK(got == 300 && loop_queue_put(queue, NULL) == MU_ENOTREADY && !is_done);
	CHECK(uv_run(&loop, UV_RUN_DEFAULT) == 0 && is_done && got == 300 && uv_loop_close(&loop) == 0);
}

int main(void)
{
	CHECK(mkdtemp(dir) != NULL);
	snprintf(path, sizeof path, "%s/out.log", dir);
	snprintf(moved, sizeof moved, "%s/out.log.1", dir);
	int64_t t = clock_mono_usec(), wall = clock_wall_usec();
	clock_sleep_msec(20);
	CHECK(clock_mono_usec() - t >= 20000 && wall > INT64_C(1600000000) * 1000000);
	CHECK(clock_left_msec(clock_mono_usec()) <= 1 && clock_left_msec(t) == 0 &&
	      clock_left_msec(INT64_MAX) == 3600000);
	words();
	lines();
	diag_open("wire_page", NULL, DIAG_INFO, 0);
	ends();
	pages();
	crowd();
	hand_over();
	close_with_items();
	unlink(path);
	unlink(moved);
	CHECK(rmdir(dir) == 0);
	return 0;
}
