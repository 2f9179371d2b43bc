/* tests/log/replica_node.c: one replica as a process, driven by lines on standard input; the tests' stand-in
 * for a controller.
 *
 * replica_node NAME DIR IP:PORT KEYWORD [FOUNDER=IP:PORT ...]
 * replica_node --recover NAME DIR IP:PORT
 * Environment: SNAPSHOT_ENTRIES, TRAILING.
 * Its state is the list of values that were committed; rows are that list. An entry is one event of 8 bytes
 * and padding of random length. Commands: put N, load WINDOW (for ever, while leading), stop, status, dump
 * FILE, add ADDRESS NAME, promote ID, remove ID, transfer ID, ask ID BYTES, quit. Output: "ack VALUE POS" for
 * each committed value of ours, "status ...", "ok WORD" or "no WORD TEXT". */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log/replica.h"

enum { ASK_ROWS = 1, ASK_ECHO = 2 };

static struct {
	uv_loop_t loop;
	struct log_replica *r;
	const char *dir;
	uint64_t *value; /* value[pos - 1] */
	size_t cap;
	uint64_t pos, next;
	unsigned window, flying;
	uint64_t todo;
	bool leads, closing;
	uint64_t leader;
	struct log_pointer fetching;
	bool fetch_busy;
	uv_pipe_t in;
	uv_timer_t feed;
	char line[4096];
	size_t line_len;
} n;

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

static void set_pos(uint64_t pos)
{
	if (pos > n.cap) {
		n.cap = 2 * pos + 1024;
		n.value = realloc(n.value, n.cap * sizeof *n.value);
	}
	n.pos = pos;
}

static void digest(struct mu_hash *ret)
{
	mu_hash_bytes(n.value, n.pos * sizeof *n.value, ret);
}

/* ---- hooks ---- */

static void committed(void *arg, uint64_t pos, const struct log_entry *entry, const struct mu_hash *chain)
{
	struct log_part part = {0};
	size_t cursor = 0;
	if (pos != n.pos + 1 || !log_entry_next(entry, &cursor, &part) || part.bytes.len < 8) {
		say("broken: position %" PRIu64 " after %" PRIu64, pos, n.pos);
		abort();
	}
	set_pos(pos);
	memcpy(&n.value[pos - 1], part.bytes.data, 8);
}

static void role(void *arg, enum log_role now, uint64_t term, uint64_t leader)
{
	n.leads = now == LOG_LEADER;
	n.leader = leader;
	say("role %d term %" PRIu64 " leader %" PRIu64, now, term, leader);
}

static void rows_path(char out[512], uint64_t pos)
{
	snprintf(out, 512, "%s/rows-%" PRIu64, n.dir, pos);
}

static void write_rows(const char *path, const void *data, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, data, len) != (ssize_t)len || fsync(fd))
		abort();
	close(fd);
}

static void snapshot_due(void *arg)
{
	char path[512];
	struct log_pointer p = {.pos = n.pos};
	digest(&p.digest);
	rows_path(path, n.pos);
	write_rows(path, n.value, n.pos * 8);
	log_replica_snapshot_ready(n.r, &p);
}

static int restore(void *arg, const struct log_pointer *p)
{
	char path[512];
	struct mu_hash have;
	rows_path(path, p->pos);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	set_pos(p->pos);
	if (fd < 0 || read(fd, n.value, p->pos * 8) != (ssize_t)(p->pos * 8))
		return -1;
	close(fd);
	digest(&have);
	say("restored %" PRIu64, p->pos);
	return memcmp(&have, &p->digest, sizeof have) ? -1 : 0;
}

static void rows_came(void *arg, int code, struct mu_view bytes)
{
	struct mu_hash have;
	n.fetch_busy = false;
	bool ok = !code && bytes.len == n.fetching.pos * 8;
	if (ok) {
		char path[512];
		mu_hash_bytes(bytes.data, bytes.len, &have);
		ok = !memcmp(&have, &n.fetching.digest, sizeof have);
		rows_path(path, n.fetching.pos);
		if (ok)
			write_rows(path, bytes.data, bytes.len);
	}
	say("fetched %" PRIu64 " %s", n.fetching.pos, ok ? "good" : mu_errname(code));
	log_replica_install_ready(n.r, &n.fetching, ok);
}

static void install(void *arg, const struct log_pointer *p, uint64_t from)
{
	if (n.fetch_busy)
		return;
	n.fetching = *p;
	n.fetch_busy = log_replica_call(n.r, from, ASK_ROWS, (struct mu_view){(const uint8_t *)&p->pos, 8},
					5000, rows_came, NULL) == 0;
}

static void message(void *arg, uint64_t from, uint16_t kind, struct mu_view bytes, struct log_reply_to *reply)
{
	uint64_t pos = 0;
	if (!reply)
		return;
	if (kind == ASK_ECHO) {
		log_replica_answer(n.r, reply, bytes);
		return;
	}
	memcpy(&pos, bytes.data, bytes.len == 8 ? 8 : 0);
	if (pos > n.pos)
		pos = 0;
	log_replica_answer(n.r, reply, (struct mu_view){(const uint8_t *)n.value, pos * 8});
}

static void fatal(void *arg, const char *sentence)
{
	say("fatal %s", sentence);
	fflush(stdout);
	_exit(3);
}

static void told(void *arg, const char *sentence)
{
	say("says %s", sentence);
}

/* ---- load ---- */

static void feed(void);

static void proposed(void *arg, int code, uint64_t pos)
{
	uint64_t value = (uint64_t)(uintptr_t)arg;
	n.flying--;
	if (!code && n.value[pos - 1] != value) {
		say("broken: value %" PRIu64 " was acknowledged at %" PRIu64 " where another stands", value,
		    pos);
		abort();
	}
	if (!code)
		say("ack %" PRIu64 " %" PRIu64, value, pos);
	else
		say("%s %" PRIu64, code == MU_EUNKNOWN ? "unknown" : "refused", value);
	feed();
}

static void feed(void)
{
	static const uint8_t padding[4300];
	while (n.leads && n.flying < n.window && n.todo) {
		uint8_t bytes[4300];
		uint64_t value = n.next++;
		size_t len = 8 + (size_t)(value * 2654435761u % 200) + (value % 50 == 0 ? 4000 : 0);
		memcpy(bytes, &value, 8);
		memcpy(bytes + 8, padding, len - 8);
		struct log_part part = {LOG_PART_EVENT, {bytes, len}};
		int rv =
		    log_replica_propose(n.r, (int64_t)value, &part, 1, proposed, (void *)(uintptr_t)value);
		if (rv)
			return;
		n.flying++;
		n.todo--;
	}
}

static void feed_tick(uv_timer_t *t)
{
	feed();
	fflush(stdout);
}

/* ---- commands ---- */

static void done(void *arg, int code, uint64_t pos)
{
	char *word = arg;
	say("%s %s %s", code ? "no" : "ok", word, code ? mu_errname(code) : "");
	free(word);
}

static void echoed(void *arg, int code, struct mu_view bytes)
{
	bool good = code == 0 && bytes.len == (size_t)(uintptr_t)arg;
	for (size_t i = 0; good && i < bytes.len; i++)
		good = bytes.data[i] == (uint8_t)(i * 7);
	say("%s ask %s", good ? "ok" : "no", code ? mu_errname(code) : "");
}

static void ask(uint64_t id, size_t len)
{
	uint8_t *bytes = malloc(len + 1);
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(i * 7);
	int rv = log_replica_call(n.r, id, ASK_ECHO, (struct mu_view){bytes, len}, 5000, echoed,
				  (void *)(uintptr_t)len);
	free(bytes);
	if (rv)
		say("no ask %s", mu_errname(rv));
}

static void status(void)
{
	struct log_member m[LOG_MEMBERS_MAX];
	struct log_stats s;
	char hex[2 * MU_HASH_BYTES + 1];
	size_t count = log_replica_members(n.r, m, LOG_MEMBERS_MAX);
	mu_hash_print(log_replica_chain(n.r), hex);
	log_replica_stats(n.r, &s, false);
	printf("status id %" PRIu64 " pos %" PRIu64 " chain %s role %d leader %" PRIu64
	       " lease %d installs %" PRIu64 " snapshots %" PRIu64 " stall %" PRIu64 " members",
	       log_replica_id(n.r), log_replica_pos(n.r), hex, log_replica_role(n.r), log_replica_leader(n.r),
	       log_replica_lease(n.r), s.installs, s.snapshots, s.loop_stall_usec_max);
	for (size_t i = 0; i < count; i++)
		printf(" %s:%" PRIu64 ":%s", m[i].name, m[i].id, m[i].voter ? "voter" : "spare");
	putchar('\n');
}

static void stop_input(void)
{
	if (!uv_is_closing((uv_handle_t *)&n.in))
		uv_close((uv_handle_t *)&n.in, NULL);
	if (!uv_is_closing((uv_handle_t *)&n.feed))
		uv_close((uv_handle_t *)&n.feed, NULL);
}

static void closed(void *arg)
{
	say("closed");
	fflush(stdout);
	stop_input();
}

static void quit(void)
{
	if (n.closing)
		return;
	n.closing = true;
	log_replica_close(n.r, closed, NULL);
}

static void change(const char *word, const char *a, const char *b)
{
	struct mu_err err = {0};
	struct log_member m = {.id = 0};
	char *kept = strdup(word);
	int rv;
	if (!strcmp(word, "add")) {
		snprintf(m.address, sizeof m.address, "%s", a);
		snprintf(m.name, sizeof m.name, "%s", b);
		rv = log_replica_add(n.r, &m, done, kept, &err);
	} else if (!strcmp(word, "promote")) {
		rv = log_replica_promote(n.r, strtoull(a, NULL, 10), done, kept, &err);
	} else if (!strcmp(word, "remove")) {
		rv = log_replica_remove(n.r, strtoull(a, NULL, 10), done, kept, &err);
	} else {
		rv = log_replica_transfer(n.r, strtoull(a, NULL, 10), done, kept, &err);
	}
	if (rv) {
		say("no %s %s %s", word, mu_errname(rv), err.text);
		free(kept);
	}
}

static void dump(const char *path)
{
	FILE *f = fopen(path, "w");
	for (uint64_t i = 0; f && i < n.pos; i++)
		fprintf(f, "%" PRIu64 "\n", n.value[i]);
	if (f)
		fclose(f);
	say("ok dump");
}

static void command(char *line)
{
	char word[32] = "", a[256] = "", b[256] = "";
	sscanf(line, "%31s %255s %255s", word, a, b);
	if (!strcmp(word, "put")) {
		n.todo = strtoull(a, NULL, 10);
		n.window = 64;
	} else if (!strcmp(word, "load")) {
		n.todo = UINT64_MAX;
		n.window = (unsigned)strtoul(a, NULL, 10);
	} else if (!strcmp(word, "stop")) {
		n.todo = 0;
	} else if (!strcmp(word, "status")) {
		status();
	} else if (!strcmp(word, "dump")) {
		dump(a);
	} else if (!strcmp(word, "ask")) {
		ask(strtoull(a, NULL, 10), strtoull(b, NULL, 10));
	} else if (!strcmp(word, "quit")) {
		quit();
	} else {
		change(word, a, b);
	}
	feed();
	fflush(stdout);
}

static void room(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
	*buf = uv_buf_init(n.line + n.line_len, (unsigned)(sizeof n.line - 1 - n.line_len));
}

static void read_line(uv_stream_t *s, ssize_t got, const uv_buf_t *buf)
{
	if (got < 0) {
		quit();
		return;
	}
	n.line_len += (size_t)got;
	n.line[n.line_len] = 0;
	char *at = n.line, *end;
	while ((end = strchr(at, '\n'))) {
		*end = 0;
		command(at);
		at = end + 1;
	}
	n.line_len = strlen(at);
	memmove(n.line, at, n.line_len);
}

static uint64_t number(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	return text ? strtoull(text, NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
	struct mu_err err = {0};
	struct log_config c = {.loop = &n.loop, .election_msec = 500, .heartbeat_msec = 50};
	if (argc == 5 && !strcmp(argv[1], "--recover")) {
		int rv = log_replica_recover(argv[3], argv[2], argv[4], &err);
		puts(rv ? err.text : "recovered");
		return rv ? 1 : 0;
	}
	if (argc < 5)
		return 2;
	c.name = argv[1];
	c.dir = n.dir = argv[2];
	c.listen = argv[3];
	mu_hash_bytes(argv[4], strlen(argv[4]), (struct mu_hash *)c.cluster_key);
	c.found = argc > 5;
	for (int i = 5; i < argc && c.founders < LOG_MEMBERS_MAX; i++) {
		struct log_member *m = &c.founder[c.founders++];
		sscanf(argv[i], "%63[^=]=%63s", m->name, m->address);
	}
	c.snapshot_bytes = 64 << 20;
	c.snapshot_entries = number("SNAPSHOT_ENTRIES", 8192);
	c.trailing_entries = number("TRAILING", 2048);
	c.hooks = (struct log_hooks){.committed = committed,
				     .role = role,
				     .snapshot_due = snapshot_due,
				     .install = install,
				     .restore = restore,
				     .message = message,
				     .fatal = fatal,
				     .say = told};
	n.next = (uint64_t)getpid() << 32 | 1;
	uv_loop_init(&n.loop);
	if (log_replica_open(&c, &n.r, &err)) {
		say("refused %s", err.text);
		return 1;
	}
	uv_timer_init(&n.loop, &n.feed);
	uv_timer_start(&n.feed, feed_tick, 10, 10);
	uv_pipe_init(&n.loop, &n.in, 0);
	uv_pipe_open(&n.in, 0);
	uv_read_start((uv_stream_t *)&n.in, room, read_line);
	say("started %" PRIu64, log_replica_id(n.r));
	fflush(stdout);
	uv_run(&n.loop, UV_RUN_DEFAULT);
	uv_loop_close(&n.loop);
	free(n.value);
	return 0;
}
