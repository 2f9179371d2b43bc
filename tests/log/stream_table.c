/* tests/log/stream_table.c: the contracts of log/stream.h and log/fdpass.h: tables, then random cuts and
 * noise. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "log/clock.h"
#include "log/fdpass.h"
#include "log/stream.h"
#include "proto/base/seed.h"
#include "tests/log/wire_help.h"

static char dir[] = "/tmp/mu-stream-XXXXXX";

static void headers(void)
{
	static const struct {
		uint8_t bytes[8];
		size_t len;
		int want;
	} table[] = {
	    {{0, 0, 0, 0, STREAM_PING, 0, 0, 0}, 8, 1},
	    {{0, 0, 0, 0, STREAM_PING, 0, 0, 0}, 7, 0},
	    {{0, 0, 0, 0, STREAM_STDIN, 0, 0xff, 0xff}, 8, 1},
	    {{0, 0, 0, 1, STREAM_PING, 0, 0, 0}, 8, 0},
	    {{0, 1, 0, 0, STREAM_STDOUT, 0, 0, 1}, 8, 0},	       /* STREAM_MAX */
	    {{0, 1, 0, 1, STREAM_STDOUT, 0, 0, 1}, 8, MU_EPROTO},      /* and one more */
	    {{0x40, 0, 0, 0, STREAM_STEP_ASK, 0, 0, 0}, 8, MU_EPROTO}, /* 1 GiB */
	    {{0xff, 0xff, 0xff, 0xff, STREAM_STEP_ASK, 0, 0, 0}, 8, MU_EPROTO},
	    {{0, 0, 0, 0, 0, 0, 0, 0}, 8, MU_EPROTO},
	    {{0, 0, 0, 0, STREAM_LEAD + 1, 0, 0, 0}, 8, MU_EPROTO},
	    {{0, 0, 0, 0, STREAM_STEP_ASK, 1, 0, 0}, 8, 1},
	    {{0, 0, 0, 0, STREAM_STEP_ASK, 2, 0, 0}, 8, MU_EPROTO},
	    {{0, 0, 0, 0, STREAM_STDERR, 1, 0, 0}, 8, MU_EPROTO}, /* data needs no MORE */
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct stream_reader r = {0};
		struct stream_frame f;
		stream_feed(&r, table[i].bytes, table[i].len);
		CHECK(stream_next(&r, &f) == table[i].want);
		stream_reader_free(&r);
	}
}

/* Messages and data of every size, cut anywhere on the way, arrive as they were. */
static void round_trips(unsigned rounds)
{
	struct mu_seed seed;
	struct mu_buf source = {0};
	mu_seed_init(&seed, seed_of_run());
	for (int i = 0; i < 300000; i++)
		*mu_buf_grow(&source, 1) = (uint8_t)mu_seed_next(&seed);
	static const size_t sizes[] = {0, 1, 7, 8, 65535, 65536, 65537, 131072, 200000, 300000};
	for (unsigned k = 0; k < rounds; k++) {
		struct mu_buf out = {0}, whole = {0}, data = {0};
		struct stream_reader r = {0};
		struct stream_frame f;
		size_t message = sizes[mu_seed_below(&seed, 10)], bytes = sizes[mu_seed_below(&seed, 10)],
		       at = 0;
		stream_put(&out, STREAM_STEP_ASK, 3, source.data, message);
		stream_put(&out, STREAM_STDOUT, 0xfffe, source.data, bytes);
		stream_put_u32(&out, STREAM_SIGNAL, STREAM_ALL, 0x01020304);
		bool joined = false, ended = false;
		unsigned frames = 0;
		while (!ended) {
			int code = stream_next(&r, &f);
			CHECK(code >= 0);
			if (code == 0) {
				size_t n = 1 + mu_seed_below(&seed, 30000);
				n = n < out.len - at ? n : out.len - at;
				CHECK(n > 0);
				stream_feed(&r, out.data + at, n);
				at += n;
				CHECK(r.in.len <= 2 * STREAM_MAX + 60000);
				continue;
			}
			frames++;
			uint32_t value;
			if (f.kind == STREAM_STEP_ASK) {
				CHECK(!joined && f.channel == 3);
				joined = stream_join(&whole, &f) == 1;
				CHECK(joined == !(f.flags & STREAM_FLAG_MORE) &&
				      stream_get_u32(&f, &value) == (f.payload.len == 4 ? 0 : MU_EPROTO));
			} else if (f.kind == STREAM_STDOUT) {
				CHECK(joined && f.flags == 0 && f.channel == 0xfffe &&
				      f.payload.len <= STREAM_MAX);
				mu_buf_add(&data, f.payload.data, f.payload.len);
			} else {
				CHECK(f.kind == STREAM_SIGNAL && f.channel == STREAM_ALL &&
				      stream_get_u32(&f, &value) == 0 && value == 0x01020304);
				ended = true;
			}
		}
		CHECK(whole.len == message && data.len == bytes && at == out.len);
		CHECK(!message || memcmp(whole.data, source.data, message) == 0);
		CHECK(!bytes || memcmp(data.data, source.data, bytes) == 0);
		CHECK(frames == 1 + (message ? (message + STREAM_MAX - 1) / STREAM_MAX : 1) +
				    (bytes ? (bytes + STREAM_MAX - 1) / STREAM_MAX : 1));
		stream_reader_free(&r);
		mu_buf_free(&out);
		mu_buf_free(&whole);
		mu_buf_free(&data);
	}
	struct stream_frame f = {
	    .kind = STREAM_STEP_ASK, .flags = STREAM_FLAG_MORE, .payload = {source.data, STREAM_MAX}};
	struct mu_buf whole = {0};
	int code, n = 0;
	while ((code = stream_join(&whole, &f)) == 0)
		n++;
	CHECK(code == MU_ELIMIT && n == STREAM_JOINED_MAX / STREAM_MAX);
	mu_buf_free(&whole);
	mu_buf_free(&source);
}

/* Whatever comes, the reader says frame, more, or no; and never reads beyond. */
static void noise(unsigned rounds)
{
	struct mu_seed seed;
	mu_seed_init(&seed, seed_of_run() + 1);
	for (unsigned k = 0; k < rounds; k++) {
		struct mu_buf out = {0};
		struct stream_reader r = {0};
		struct stream_frame f;
		uint8_t payload[64] = {0};
		for (int i = 0; i < 4; i++)
			stream_put(&out, (uint8_t)(1 + mu_seed_below(&seed, 14)), (uint16_t)i, payload,
				   mu_seed_below(&seed, 64));
		for (unsigned i = mu_seed_below(&seed, 4); i > 0; i--)
			out.data[mu_seed_below(&seed, (uint32_t)out.len)] ^=
			    (uint8_t)(1 << mu_seed_below(&seed, 8));
		uint8_t *copy =
		    malloc(out.len); /* exactly as long, so that a sanitizer sees a step too far */
		memcpy(copy, out.data, out.len);
		stream_feed(&r, copy, out.len);
		size_t sum = 0;
		int code;
		while ((code = stream_next(&r, &f)) == 1) {
			CHECK(f.payload.len <= STREAM_MAX);
			sum += STREAM_HEADER + f.payload.len;
			for (size_t i = 0; i < f.payload.len; i++)
				sum += f.payload.data[i] & 0;
		}
		CHECK(sum <= out.len && (code == 0 || code == MU_EPROTO));
		free(copy);
		stream_reader_free(&r);
		mu_buf_free(&out);
	}
}

/* A sender and a receiver that obey never block for ever nor have more than the window under way; cheats are
 * noticed. */
static void credit(unsigned rounds)
{
	struct mu_seed seed;
	mu_seed_init(&seed, seed_of_run() + 2);
	static const uint32_t windows[] = {1, 2, 3, 1000, STREAM_CREDIT};
	for (int w = 0; w < 5; w++) {
		struct stream_credit tx, rx;
		uint32_t way = 0, unread = 0;
		uint64_t moved = 0;
		stream_credit_init(&tx, windows[w]);
		stream_credit_init(&rx, windows[w]);
		for (unsigned i = 0; i < rounds; i++) {
			uint32_t may = stream_may_send(&tx), n = mu_seed_below(&seed, may + 1);
			stream_sent(&tx, n);
			way += n;
			CHECK(way + unread <= windows[w]);
			n = mu_seed_below(&seed, way + 1);
			CHECK(stream_received(&rx, n) == 0);
			way -= n;
			unread += n;
			n = mu_seed_below(&seed, unread + 1);
			uint32_t grant = stream_consumed(&rx, n);
			unread -= n;
			moved += n;
			if (grant)
				CHECK(stream_granted(&tx, grant) == 0);
			if (way == 0 && unread == 0)
				CHECK(stream_may_send(&tx) > 0); /* no dead end */
		}
		CHECK(moved > rounds / 8);
		CHECK(stream_received(&rx, windows[w] + 1) == MU_EPROTO);
		CHECK(stream_granted(&tx, windows[w] + 1) == MU_EPROTO &&
		      stream_granted(&tx, UINT32_MAX) == MU_EPROTO);
	}
}

static void blocking(void)
{
	int fd[2];
	struct mu_buf out = {0};
	struct mu_err err = {0};
	struct stream_reader r = {0};
	struct stream_frame f;
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) == 0);
	int64_t t = clock_mono_usec();
	CHECK(stream_read_frame(fd[0], &r, 50, &f, &err) == MU_ETIMEOUT && clock_mono_usec() - t >= 50000);
	mu_buf_grow(&out, 0);
	stream_put(&out, STREAM_TEXT, 0, "one", 3);
	stream_put(&out, STREAM_TEXT, 0, "two", 3);
	CHECK(stream_write_all(fd[1], out.data, out.len, &err) == 0);
	CHECK(stream_read_frame(fd[0], &r, 1000, &f, &err) == 0 && memcmp(f.payload.data, "one", 3) == 0);
	CHECK(stream_read_frame(fd[0], &r, 1000, &f, &err) == 0 && memcmp(f.payload.data, "two", 3) == 0);
	CHECK(stream_write_all(fd[1], "\xff\xff\xff\xff\xff\xff\xff\xff", 8, &err) == 0);
	CHECK(stream_read_frame(fd[0], &r, 1000, &f, &err) == MU_EPROTO);
	stream_reader_free(&r);
	CHECK(stream_write_all(fd[1], out.data, 5, &err) == 0);
	close(fd[1]);
	CHECK(stream_read_frame(fd[0], &r, 1000, &f, &err) == MU_ECONNECT);
	CHECK(stream_write_all(fd[0], out.data, out.len, &err) == MU_EIO); /* and no SIGPIPE */
	close(fd[0]);
	stream_reader_free(&r);
	mu_buf_free(&out);
}

static void addresses(void)
{
	char url[160], other[160];
	int fd = -1, second = -1, peer = -1;
	struct mu_err err = {0};
	struct stat st;
	snprintf(url, sizeof url, "ipc://%s/s", dir);
	CHECK(stream_connect(url, 100, &peer, &err) == MU_ECONNECT && peer == -1 && strstr(err.text, url));
	mode_t mask = umask(0);
	CHECK(stream_listen(url, 0600, &fd, &err) == 0 && stat(url + 6, &st) == 0 &&
	      (st.st_mode & 0777) == 0600);
	umask(mask);
	CHECK(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	CHECK(stream_listen(url, 0600, &second, &err) == MU_EEXIST && second == -1);
	CHECK(stream_connect(url, 1000, &peer, &err) == 0 && fcntl(peer, F_GETFD) & FD_CLOEXEC &&
	      !(fcntl(peer, F_GETFL) & O_NONBLOCK));
	close(peer);
	close(fd); /* a dead process leaves its file behind */
	CHECK(stat(url + 6, &st) == 0 && stream_listen(url, 0666, &fd, &err) == 0);
	CHECK(stat(url + 6, &st) == 0 && (st.st_mode & 0777) == 0666);
	close(fd);
	unlink(url + 6);
	fd = open(url + 6, O_CREAT | O_WRONLY | O_CLOEXEC, 0600); /* somebody's file is not ours to remove */
	CHECK(close(fd) == 0 && stream_listen(url, 0600, &fd, &err) == MU_EEXIST && stat(url + 6, &st) == 0);
	unlink(url + 6);
	snprintf(other, sizeof other, "tcp://127.0.0.1:%u", free_port());
	CHECK(stream_listen(other, 0, &fd, &err) == 0 && stream_connect(other, 1000, &peer, &err) == 0);
	CHECK(stream_listen(other, 0, &second, &err) == MU_EIO);
	close(peer);
	snprintf(url, sizeof url, "tcp://localhost:%s", strrchr(other, ':') + 1); /* a name is looked up */
	CHECK(stream_connect(url, 1000, &peer, &err) == 0);
	close(peer);
	snprintf(url, sizeof url, "tcp://localhost:%u", free_port());
	CHECK(stream_listen(url, 0, &second, &err) == 0 && stream_connect(url, 1000, &peer, &err) == 0);
	close(second);
	CHECK(stream_listen("tcp://no.such.host.invalid:80", 0, &second, &err) == MU_EINVAL);
	CHECK(stream_connect("tcp://no.such.host.invalid:80", 100, &second, &err) == MU_ECONNECT);
	close(peer);
	close(fd);
	/* A queue that is full: the time is over, not sooner and not never. */
	snprintf(url, sizeof url, "ipc://%s/full", dir);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct {
		sa_family_t family;
		char path[108];
	} sa = {AF_UNIX, ""};
	snprintf(sa.path, sizeof sa.path, "%s/full", dir);
	CHECK(bind(fd, (struct sockaddr *)&sa, sizeof sa) == 0 && listen(fd, 0) == 0);
	int64_t t = clock_mono_usec();
	int code = 0, n = 0, held[8];
	while (n < 8 && (code = stream_connect(url, 60, &held[n], &err)) == 0)
		n++;
	CHECK(code == MU_ECONNECT && n < 8 && clock_mono_usec() - t >= 60000);
	while (n > 0)
		close(held[--n]);
	close(fd);
	unlink(url + 6);
}

static void descriptors(void)
{
	int pair[2], many[FDPASS_MAX + 1], got[FDPASS_MAX];
	char text[64];
	size_t len, count;
	struct mu_err err = {0};
	for (int kind = 0; kind < 2; kind++) {
		CHECK(socketpair(AF_UNIX, (kind ? SOCK_SEQPACKET : SOCK_STREAM) | SOCK_CLOEXEC, 0, pair) ==
		      0);
		for (int i = 0; i <= FDPASS_MAX; i++) {
			many[i] = memfd_create("t", MFD_CLOEXEC);
			CHECK(many[i] >= 0 && write(many[i], &i, sizeof i) == sizeof i);
		}
		CHECK(fdpass_send(pair[0], "three", 5, many, 3, &err) == 0);
		CHECK(fdpass_receive(pair[1], text, sizeof text, &len, got, FDPASS_MAX, &count, &err) == 0);
		CHECK(len == 5 && count == 3 && memcmp(text, "three", 5) == 0);
		for (int i = 0; i < 3; i++) {
			int v = -1;
			CHECK(fcntl(got[i], F_GETFD) & FD_CLOEXEC &&
			      pread(got[i], &v, sizeof v, 0) == sizeof v && v == i);
			close(got[i]);
		}
		CHECK(fdpass_send(pair[0], "none", 4, NULL, 0, &err) == 0);
		CHECK(fdpass_receive(pair[1], text, sizeof text, &len, got, FDPASS_MAX, &count, &err) == 0 &&
		      len == 4 && count == 0);
		CHECK(fdpass_send(pair[0], "", 0, many, 1, &err) == MU_ELIMIT);
		CHECK(fdpass_send(pair[0], "x", 1, many, FDPASS_MAX + 1, &err) == MU_ELIMIT);
		/* More than the receiver wants: refused, and none leaks. */
		int before = dup(pair[0]);
		close(before);
		CHECK(fdpass_send(pair[0], "four", 4, many, 4, &err) == 0);
		CHECK(fdpass_receive(pair[1], text, sizeof text, &len, got, 2, &count, &err) == MU_EPROTO);
		int after = dup(pair[0]);
		CHECK(after == before);
		close(after);
		CHECK(fcntl(pair[1], F_SETFL, O_NONBLOCK) == 0);
		CHECK(fdpass_receive(pair[1], text, sizeof text, &len, got, 2, &count, &err) == MU_ENOTREADY);
		close(pair[0]);
		CHECK(fdpass_receive(pair[1], text, sizeof text, &len, got, 2, &count, &err) == 0 &&
		      len == 0);
		CHECK(fdpass_send(pair[1], "x", 1, many, 1, &err) == MU_EIO);
		close(pair[1]);
		for (int i = 0; i <= FDPASS_MAX; i++)
			close(many[i]);
	}
}

int main(void)
{
	CHECK(mkdtemp(dir) != NULL);
	headers();
	round_trips(sized(30, 100, 1000));
	noise(size_row("MUSTER_SIZE_FUZZ_INPUTS", 20000));
	credit(sized(2000, 20000, 200000));
	blocking();
	addresses();
	descriptors();
	CHECK(rmdir(dir) == 0);
	return 0;
}
