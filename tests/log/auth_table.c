/* tests/log/auth_table.c: the contract of log/auth.h. Starts a munged of its own; without one that part says
 * why it is skipped. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "log/auth.h"
#include "log/clock.h"
#include "log/envelope.pb-c.h"
#include "tests/log/wire_help.h"

extern char **environ;
static char dir[] = "/tmp/mu-auth-XXXXXX";
static struct auth_keys cluster, agent, stranger, user;

static const char *in_dir(const char *name)
{
	static char path[8][256];
	static unsigned at;
	char *p = path[at++ % 8];
	snprintf(p, sizeof path[0], "%s/%s", dir, name);
	return p;
}

static int put_file(const char *name, const char *text, mode_t mode)
{
	int fd = open(in_dir(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && fchmod(fd, mode) == 0);
	return close(fd);
}

static char *slurp(const char *name)
{
	static char text[1024];
	int fd = open(in_dir(name), O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof text - 1);
	CHECK(fd >= 0 && n > 0);
	close(fd);
	text[n] = '\0';
	return text;
}

static void make_keys(void)
{
	struct mu_err err = {0};
	struct stat st;
	uint8_t secret[64], key[32];
	CHECK(auth_keygen(in_dir("c.secret"), in_dir("c.pub"), &err) == 0);
	CHECK(auth_keygen(in_dir("n.secret"), in_dir("n.pub"), &err) == 0);
	CHECK(auth_keygen(in_dir("x.secret"), in_dir("x.pub"), &err) == 0);
	CHECK(stat(in_dir("c.secret"), &st) == 0 && (st.st_mode & 07777) == 0600);
	CHECK(stat(in_dir("c.pub"), &st) == 0 && (st.st_mode & 07777) == 0644);
	CHECK(auth_keygen(in_dir("c.secret"), in_dir("new.pub"), &err) == MU_EEXIST &&
	      strstr(err.text, "c.secret"));
	CHECK(auth_keygen(in_dir("new.secret"), in_dir("c.pub"), &err) == MU_EEXIST &&
	      access(in_dir("new.secret"), F_OK) < 0);
	CHECK(auth_keygen(in_dir("no/such.secret"), in_dir("no/such.pub"), &err) == MU_EIO);

	CHECK(auth_load_secret(in_dir("c.secret"), cluster.cluster_secret, cluster.cluster_public, &err) ==
	      0);
	cluster.has_secret = cluster.has_public = true;
	CHECK(auth_load_secret(in_dir("n.secret"), agent.node_secret, agent.node_public, &err) == 0);
	CHECK(auth_load_public(in_dir("c.pub"), agent.cluster_public, &err) == 0);
	agent.has_node = agent.has_public = true;
	CHECK(auth_load_secret(in_dir("x.secret"), secret, key, &err) == 0);
	stranger = agent;
	memcpy(stranger.node_secret, secret, 64);
	memcpy(user.cluster_public, agent.cluster_public, 32);
	user.has_public = true;
	CHECK(memcmp(agent.cluster_public, cluster.cluster_public, 32) == 0);

	char text[65];
	auth_public_print(agent.cluster_public, text);
	CHECK(auth_public_parse(text, key) == 0 && memcmp(key, agent.cluster_public, 32) == 0);
	CHECK(strncmp(slurp("c.pub"), text, 64) == 0);
	memset(text, '0', 64); /* a point of small order */
	CHECK(auth_public_parse(text, key) == MU_ESYNTAX);
	uint8_t one[32], two[32];
	auth_peer_key(cluster.cluster_secret, one);
	auth_peer_key(agent.node_secret, two);
	CHECK(memcmp(one, two, 32) != 0 && memcmp(one, cluster.cluster_secret, 32) != 0);
}

static void bad_key_files(void)
{
	char good[256], halves[256], open_mode[] = "bad";
	snprintf(good, sizeof good, "%s", slurp("n.secret"));
	snprintf(halves, sizeof halves, "%s", good);
	halves[100] = halves[100] == 'a' ? 'b' : 'a';
	const struct {
		const char *text;
		mode_t mode;
		int code;
		const char *cure;
	} table[] = {
	    {good, 0600, 0, ""},
	    {good, 0400, 0, ""},
	    {good, 0640, MU_EPERM, "chmod 600"},
	    {good, 0604, MU_EPERM, "chmod 600"},
	    {good, 0660, MU_EPERM, "chmod 600"},
	    {"", 0600, MU_ESYNTAX, "128"},
	    {"xyz", 0600, MU_ESYNTAX, "128"},
	    {halves, 0600, MU_ESYNTAX, "halves"},
	    {slurp("n.pub"), 0600, MU_ESYNTAX, "128"},
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct mu_err err = {0};
		uint8_t secret[64];
		put_file(open_mode, table[i].text, table[i].mode);
		CHECK(auth_load_secret(in_dir("bad"), secret, NULL, &err) == table[i].code);
		CHECK(strstr(err.text, table[i].cure) && (!table[i].code || strstr(err.text, "/bad'")));
	}
	uint8_t key[32], secret[64];
	struct mu_err err = {0};
	CHECK(auth_load_secret(in_dir("none"), secret, key, &err) == MU_ENOENT && strstr(err.text, "none"));
	CHECK(auth_load_secret(dir, secret, key, &err) == MU_ESYNTAX);
	CHECK(auth_load_public(in_dir("c.secret"), key, &err) == MU_ESYNTAX);
	put_file("bad", slurp("c.pub"), 0664);
	CHECK(auth_load_public(in_dir("bad"), key, &err) == MU_EPERM && strstr(err.text, "chmod 644"));
}

static int lookup(void *arg, const char *node, uint8_t ret[32])
{
	if (strcmp(node, "n1") != 0)
		return MU_ENOENT;
	memcpy(ret, agent.node_public, 32);
	return 0;
}

static const struct wire_peer unix_peer = {
    .local = true, .uid = 1234, .gid = 99, .pid = 7, .address = "localhost"};
static const struct wire_peer tcp_peer = {.address = "10.1.2.3:4444"},
			      tcp_again = {.address = "10.1.2.3:5555"},
			      tcp_other = {.address = "10.1.2.4:4444"},
			      tcp_six = {.address = "[fd00::1]:4444"};

struct verdict {
	int code;
	struct auth_who who;
	struct mu_view body;
	struct mu_err err;
};

static struct mu_arena arena;

static struct verdict verify(const struct mu_buf *bytes, const struct wire_peer *peer, int64_t now)
{
	struct verdict v = {0};
	v.code = auth_verify(&cluster, (struct mu_view){bytes->data, bytes->len}, peer, now, lookup, NULL,
			     &arena, &v.who, &v.body, &v.err);
	CHECK((v.code != 0) == (v.err.text[0] != '\0'));
	if (v.code)
		CHECK(v.who.uid == UINT32_MAX && !v.who.is_node && !v.who.verifier[0] && !v.body.data);
	return v;
}

static bool is_text(struct mu_view v, const char *text)
{
	return v.len == strlen(text) && memcmp(v.data, text, v.len) == 0;
}

/* WHO gets a reply, and SENT opens it; every other recipient and every change fails. */
static void reply_round(const struct auth_keys *keys, const struct auth_sent *sent,
			const struct auth_who *who)
{
	struct mu_buf out = {0};
	struct mu_view body;
	CHECK(auth_seal_reply(&cluster, who, view("the answer"), &out, NULL) == 0);
	struct mu_view env = {out.data, out.len};
	CHECK(auth_open_reply(keys, sent, env, &arena, &body, NULL) == 0 && is_text(body, "the answer"));
	if (sent->credential) {
		struct auth_sent other = *sent;
		other.request.b[3] ^= 1;
		CHECK(auth_open_reply(keys, &other, env, &arena, &body, NULL) ==
		      MU_EAUTH); /* the answer to another request */
		struct auth_keys wrong = *keys;
		memcpy(wrong.cluster_public, agent.node_public, 32);
		CHECK(auth_open_reply(&wrong, sent, env, &arena, &body, NULL) == MU_EAUTH);
		CHECK(!memmem(out.data, out.len, "the answer", 10)); /* sealed */
		for (size_t i = 0; i < out.len; i++) {
			out.data[i] ^= 4;
			CHECK(auth_open_reply(keys, sent, env, &arena, &body, NULL) != 0);
			out.data[i] ^= 4;
		}
		struct auth_who plain = *who;
		plain.sign_reply = plain.is_node = false;
		mu_buf_reset(&out);
		CHECK(auth_seal_reply(&cluster, &plain, view("the answer"), &out, NULL) == 0);
		CHECK(auth_open_reply(keys, sent, (struct mu_view){out.data, out.len}, &arena, &body, NULL) ==
		      MU_EBUSY);
	}
	mu_buf_free(&out);
}

static void socket_peers(void)
{
	struct mu_buf out = {0};
	struct auth_sent sent;
	CHECK(auth_seal_user(&user, view("hello"), false, &out, &sent, NULL) == 0 && !sent.sealed &&
	      !sent.credential);
	struct verdict v = verify(&out, &unix_peer, 0);
	CHECK(v.code == 0 && is_text(v.body, "hello") && v.who.uid == 1234 && v.who.gid == 99 &&
	      !v.who.is_node);
	CHECK(strcmp(v.who.verifier, "socket") == 0 && strcmp(v.who.host, "localhost") == 0);
	reply_round(&user, &sent, &v.who);
	reply_round(NULL, &sent, NULL);
	v = verify(&out, &tcp_peer, 0); /* the same bytes over a network prove nothing */
	CHECK(v.code == MU_EAUTH && strstr(v.err.text, "10.1.2.3"));
	mu_buf_reset(&out);
	CHECK(auth_seal_user(NULL, (struct mu_view){0}, false, &out, NULL, NULL) ==
	      0); /* an empty body is a body */
	v = verify(&out, &unix_peer, 0);
	CHECK(v.code == 0 && v.body.len == 0 && v.body.data);
	mu_buf_free(&out);
}

static void nodes(void)
{
	const int64_t now = INT64_C(1700000000) * 1000000, sec = 1000000;
	struct mu_buf out = {0}, more = {0};
	struct auth_sent sent;
	auth_seen_clear();
	CHECK(auth_seal_node(&agent, "n1", now, view("poll"), &out, &sent, NULL) == 0 && sent.sealed &&
	      sent.credential);
	CHECK(!memmem(out.data, out.len, "poll", 4));
	struct verdict v = verify(&out, &tcp_peer, now + 5 * sec);
	CHECK(v.code == 0 && v.who.is_node && strcmp(v.who.node, "n1") == 0 && is_text(v.body, "poll"));
	CHECK(strcmp(v.who.verifier, "node-key") == 0 && strcmp(v.who.host, "10.1.2.3") == 0 &&
	      auth_seen_count() == 1);
	reply_round(&agent, &sent, &v.who);
	/* Resent from the same host after a break; refused from another; refused when it comes too often. */
	CHECK(verify(&out, &tcp_again, now + 6 * sec).code == 0);
	v = verify(&out, &tcp_other, now + 6 * sec);
	CHECK(v.code == MU_EAUTH && strstr(v.err.text, "10.1.2.4") && strstr(v.err.text, "10.1.2.3"));
	int good = 2, n = 0;
	while (n++ < 40 && verify(&out, &tcp_peer, now + 7 * sec).code == 0)
		good++;
	CHECK(good <= AUTH_RESENDS_MAX && good >= AUTH_RESENDS_MAX - 2);
	/* A refusal can be believed by the one who asked. */
	v = verify(&out, &tcp_other, now + 6 * sec);
	reply_round(&agent, &sent, &v.who);
	/* The window, and the memory's end behind it. */
	CHECK(verify(&out, &tcp_other, now + 301 * sec).code == MU_EAUTH &&
	      verify(&out, &tcp_other, now - 301 * sec).code == MU_EAUTH);
	for (int side = -299; side <= 299; side += 598) {
		mu_buf_reset(&more);
		CHECK(auth_seal_node(&agent, "n1", now + side * sec, view("p"), &more, &sent, NULL) == 0);
		v = verify(&more, &tcp_six, now);
		CHECK(v.code == 0 && strcmp(v.who.host, "fd00::1") == 0);
	}
	CHECK(auth_seen_count() == 3);
	verify(&out, &tcp_peer, now + 1200 * sec);
	mu_buf_reset(&more);
	CHECK(auth_seal_node(&agent, "n1", now + 1200 * sec, view("p"), &more, &sent, NULL) == 0);
	CHECK(verify(&more, &tcp_peer, now + 1200 * sec).code == 0 && auth_seen_count() == 1);
	/* Whoever is not enrolled, or speaks for another, or without a key. */
	mu_buf_reset(&more);
	CHECK(auth_seal_node(&agent, "n2", now, view("p"), &more, &sent, NULL) == 0);
	v = verify(&more, &tcp_peer, now);
	CHECK(v.code == MU_EAUTH && strstr(v.err.text, "n2"));
	mu_buf_reset(&more);
	CHECK(auth_seal_node(&stranger, "n1", now, view("p"), &more, &sent, NULL) == 0);
	CHECK(verify(&more, &tcp_peer, now).code == MU_EAUTH &&
	      verify(&more, &unix_peer, now).code == MU_EAUTH);
	CHECK(auth_seal_node(&user, "n1", now, view("p"), &more, &sent, NULL) == MU_EAUTH);
	CHECK(auth_seal_node(&agent, "n 1", now, view("p"), &more, &sent, NULL) == MU_EAUTH);
	CHECK(auth_seal_node(&agent, "", now, view("p"), &more, &sent, NULL) == MU_EAUTH);
	/* A controller without the cluster's key neither opens nor signs. */
	struct auth_who who;
	struct mu_view body;
	struct auth_keys none = {0};
	CHECK(auth_verify(&none, (struct mu_view){out.data, out.len}, &tcp_peer, now, lookup, NULL, &arena,
			  &who, &body, NULL) == MU_EAUTH);
	CHECK(auth_verify(NULL, (struct mu_view){out.data, out.len}, &tcp_peer, now, NULL, NULL, &arena, &who,
			  &body, NULL) == MU_EAUTH);
	who.is_node = who.sign_reply = true;
	who.seal_reply = false;
	CHECK(auth_seal_reply(&none, &who, view("x"), &more, NULL) == MU_EAUTH);
	mu_buf_free(&out);
	mu_buf_free(&more);
}

/* Every single change of a proven request is noticed, and what was proven of one cannot be carried to
 * another. */
static void forgeries(void)
{
	const int64_t now = INT64_C(1700000000) * 1000000;
	struct mu_buf out = {0}, forged = {0};
	struct auth_sent sent;
	auth_seen_clear();
	CHECK(auth_seal_node(&agent, "n1", now, view("a body"), &out, &sent, NULL) == 0);
	for (size_t i = 0; i < out.len; i++)
		for (int bit = 0; bit < 8; bit++) {
			out.data[i] ^= (uint8_t)(1 << bit);
			CHECK(verify(&out, &tcp_peer, now).code != 0);
			out.data[i] ^= (uint8_t)(1 << bit);
		}
	for (size_t n = 0; n < out.len; n++) {
		struct mu_buf cut = {.data = out.data, .len = n};
		CHECK(verify(&cut, &unix_peer, now).code != 0);
	}
	CHECK(verify(&out, &tcp_peer, now).code == 0);
	/* Another enrolled node re-signs the sealed body as its own: the seal names its sender. */
	Mu__Envelope *m = mu__envelope__unpack(NULL, out.len, out.data);
	struct auth_keys twin = agent;
	uint8_t sig[64];
	struct mu_hasher h;
	struct mu_hash hash, mark;
	CHECK(m && m->has_sealed);
	m->node_time_usec = now + 1;
	uint8_t flags = 1, len[4] = {2}, time_le[8];
	for (int i = 0; i < 8; i++)
		time_le[i] = (uint8_t)((uint64_t)m->node_time_usec >> (8 * i));
	mu_hash_bytes(m->sealed.data, m->sealed.len, &hash);
	mu_hasher_init(&h);
	mu_hasher_add(&h, "muster-request-1", 16);
	mu_hasher_add(&h, &flags, 1);
	mu_hasher_add(&h, len, 4);
	mu_hasher_add(&h, "n1", 2);
	mu_hasher_add(&h, time_le, 8);
	mu_hasher_add(&h, m->reply_key.data, 32);
	mu_hasher_add(&h, hash.b, 32);
	mu_hasher_done(&h, &mark);
	crypto_sign_detached(sig, NULL, mark.b, 32, twin.node_secret);
	memcpy(m->node_sig.data, sig, 64);
	mu__envelope__pack(m, mu_buf_grow(&forged, mu__envelope__get_packed_size(m)));
	struct verdict v = verify(&forged, &tcp_peer, now);
	CHECK(v.code == MU_EAUTH && strstr(v.err.text, "by its sender"));
	mu__envelope__free_unpacked(m, NULL);
	mu_buf_free(&out);
	mu_buf_free(&forged);
}

static void malformed(void)
{
	static const struct {
		const char *bytes;
		size_t len;
		int code;
	} table[] = {
	    {"", 0, MU_EVERSION},
	    {"\x12\x01x", 3, MU_EVERSION},		  /* no version */
	    {"\x08\x02\x12\x01x", 5, MU_EVERSION},	  /* a later one */
	    {"\x08\x01", 2, MU_EPROTO},			  /* neither body nor sealed */
	    {"\x08\x01\x12\x01x\x42\x01y", 8, MU_EPROTO}, /* both */
	    {"\x08\x01\x12\x05x", 5, MU_EPROTO},	  /* a length beyond the end */
	    {"\x08\x01\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x", 14, MU_EPROTO},
	    {"\x08\x01\x12\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 14,
	     MU_EPROTO},						     /* a varint without end */
	    {"\x08\x01\x12\x01x\x12\x01y", 8, MU_EPROTO},		     /* two bodies */
	    {"\x08\x01\x08\x01\x12\x01x", 7, MU_EPROTO},		     /* two versions */
	    {"\x0a\x01\x01\x12\x01x", 6, MU_EPROTO},			     /* version of another type */
	    {"\x08\x01\x12\x01x\x4a\x02yy", 9, MU_EPROTO},		     /* a short reply key */
	    {"\x08\x01\x12\x01x\x22\x02n1", 9, MU_EAUTH},		     /* a name without signature */
	    {"\x08\x01\x12\x01x\x28\x01", 7, MU_EAUTH},			     /* a time alone */
	    {"\x08\x01\x12\x01x\x32\x01s", 8, MU_EAUTH},		     /* a signature alone */
	    {"\x08\x01\x12\x01x\x22\x02n1\x28\x01\x32\x01s", 14, MU_EAUTH},  /* a short signature */
	    {"\x08\x01\x12\x01x\x22\x02n/\x28\x01\x32\x01s", 14, MU_EPROTO}, /* a bad name */
	    {"\x08\x01\x12\x01x\x22\x00\x28\x01\x32\x01s", 12, MU_EPROTO},   /* an empty one */
	    {"\x08\x01\x12\x01x\x22\x02n1\x28\x01\x32\x01s\x1a\x01m", 17,
	     MU_EAUTH},					  /* node and user at once */
	    {"\x08\x01\x12\x01x\x3a\x01s", 8, MU_EPROTO}, /* the cluster's signature in a request */
	    {"\x08\x01\x12\x01x\x03", 6, MU_EPROTO},	  /* a group */
	    {"\x08\x01\x12\x01x\x00", 6, MU_EPROTO},	  /* field 0 */
	    {"\x08\x01\x12\x01x\x50\x01", 7, 0},	  /* a later field is skipped */
	    {"\x08\x01\x12\x01x\x55\x01\x01\x01\x01", 10, 0},
	    {"\x08\x01\x12\x01x\x51\x01\x01\x01\x01\x01\x01\x01\x01", 14, 0},
	    {"\x08\x01\x12\x01x\x42", 6, MU_EPROTO},
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct mu_buf b = {0};
		mu_buf_add(&b, table[i].bytes, table[i].len);
		struct verdict v = verify(&b, &unix_peer, 0);
		if (v.code != table[i].code)
			fprintf(stderr, "row %zu: %d %s\n", i, v.code, v.err.text);
		CHECK(v.code == table[i].code);
		mu_buf_free(&b);
	}
	/* Millions of unknown fields are not even counted. */
	struct mu_buf b = {0};
	mu_buf_str(&b, "\x08\x01\x12\x01x");
	for (int i = 0; i < 100; i++)
		mu_buf_add(&b, "\x50\x01", 2);
	CHECK(verify(&b, &unix_peer, 0).code == MU_EPROTO);
	mu_buf_free(&b);
}

/* ---- MUNGE ---- */

static pid_t munged(void)
{
	const char *program = "/usr/sbin/munged";
	if (access(program, X_OK) < 0) {
		printf("munged is not installed: MUNGE is not tested\n");
		return 0;
	}
	char key[129];
	memset(key, 'k', 128);
	key[128] = '\0';
	put_file("munge.key", key, 0400);
	char args[5][300];
	snprintf(args[0], sizeof args[0], "--socket=%s", in_dir("munge.sock"));
	snprintf(args[1], sizeof args[1], "--key-file=%s", in_dir("munge.key"));
	snprintf(args[2], sizeof args[2], "--pid-file=%s", in_dir("munge.pid"));
	snprintf(args[3], sizeof args[3], "--log-file=%s", in_dir("munge.log"));
	snprintf(args[4], sizeof args[4], "--seed-file=%s", in_dir("munge.seed"));
	char *argv[] = {"munged", "--force", "--foreground", args[0], args[1],
			args[2],  args[3],   args[4],	     NULL};
	posix_spawn_file_actions_t quiet;
	posix_spawn_file_actions_init(&quiet);
	posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
	pid_t pid = 0;
	CHECK(posix_spawn(&pid, program, &quiet, NULL, argv, environ) == 0);
	posix_spawn_file_actions_destroy(&quiet);
	auth_munge_socket(in_dir("munge.sock"));
	struct mu_buf out = {0};
	for (int i = 0; i < 1000; i++) {
		mu_buf_reset(&out);
		struct auth_sent sent;
		if (auth_seal_user(NULL, view("x"), true, &out, &sent, NULL) == 0) {
			mu_buf_free(&out);
			return pid;
		}
		clock_sleep_msec(10);
	}
	CHECK(!"munged answers");
	return 0;
}

static void munge_users(void)
{
	const int64_t now = clock_wall_usec();
	struct mu_buf out = {0}, second = {0};
	struct auth_sent sent;
	auth_seen_clear();
	for (int sealed = 0; sealed < 2; sealed++) {
		mu_buf_reset(&out);
		CHECK(auth_seal_user(sealed ? &user : NULL, view("submit"), true, &out, &sent, NULL) == 0);
		CHECK(sent.sealed == sealed && sent.credential &&
		      (memmem(out.data, out.len, "submit", 6) == NULL) == (sealed != 0));
		struct verdict v = verify(&out, &tcp_peer, now);
		if (v.code)
			fprintf(stderr, "%s\n", v.err.text);
		CHECK(v.code == 0 && v.who.uid == getuid() && v.who.gid == getgid() && !v.who.is_node &&
		      is_text(v.body, "submit"));
		CHECK(strcmp(v.who.verifier, "munge") == 0);
		CHECK(verify(&out, &tcp_again, now).code == 0); /* resent: munged alone would refuse it */
		CHECK(verify(&out, &tcp_other, now).code == MU_EAUTH);
		if (sealed)
			reply_round(&user, &sent, &v.who);
		auth_seen_clear(); /* another controller on this host, which shares the daemon but not our
				      memory */
		CHECK(verify(&out, &tcp_peer, now).code == 0);
		CHECK(verify(&out, &tcp_other, now).code == MU_EAUTH);
	}
	/* The credential of one request does not fit another, a changed one fits none, and an unproven guess
	 * at a known mark is no proof. */
	CHECK(auth_seal_user(NULL, view("one"), true, &second, &sent, NULL) == 0);
	uint8_t *p = memmem(second.data, second.len, "one", 3);
	memcpy(p, "two", 3);
	struct verdict v = verify(&second, &tcp_peer, now);
	CHECK(v.code == MU_EAUTH && strstr(v.err.text, "another request"));
	memcpy(p, "one", 3);
	CHECK(verify(&second, &tcp_peer, now).code == 0);
	p = memmem(second.data, second.len, "MUNGE:", 6);
	p[40] ^= 1;
	v = verify(&second, &tcp_peer, now);
	CHECK(v.code == MU_EAUTH && strstr(v.err.text, "MUNGE"));
	mu_buf_free(&out);
	mu_buf_free(&second);
}

static void munge_gone(void)
{
	struct mu_buf out = {0};
	struct mu_err err = {0};
	struct auth_sent sent;
	auth_munge_socket(in_dir("nobody.sock"));
	CHECK(auth_seal_user(NULL, view("x"), true, &out, &sent, &err) == MU_EAUTH &&
	      strstr(err.text, "munged") && out.len == 0);
	mu_buf_free(&out);
}

static void users(void)
{
	struct auth_user u = {0};
	struct mu_err err = {0};
	for (int i = 0; i < 2; i++) { /* the second from memory */
		CHECK(auth_user_lookup(0, &u, &err) == 0 && strcmp(u.user, "root") == 0 &&
		      strcmp(u.group, "root") == 0);
		CHECK(u.gid == 0 && u.group_count >= 1 && u.groups[0] == 0);
	}
	CHECK(auth_user_lookup(0x7ffffff0, &u, &err) == MU_EUSER && strstr(err.text, "2147483632"));
}

static void bounded_memory(void)
{
	const int64_t now = INT64_C(1700000000) * 1000000;
	struct mu_buf out = {0};
	struct auth_sent sent;
	auth_seen_clear();
	unsigned n = sized(2000, 5000, 20000);
	for (unsigned i = 0; i < n; i++) {
		mu_buf_reset(&out);
		CHECK(auth_seal_node(&agent, "n1", now + i * INT64_C(1000000), view("p"), &out, &sent,
				     NULL) == 0);
		CHECK(verify(&out, &tcp_peer, now + i * INT64_C(1000000)).code == 0);
		mu_arena_reset(&arena);
		CHECK(auth_seen_count() <= 2 * AUTH_WINDOW_SEC);
	}
	mu_buf_free(&out);
}

int main(void)
{
	CHECK(mkdtemp(dir) != NULL);
	make_keys();
	bad_key_files();
	socket_peers();
	nodes();
	forgeries();
	malformed();
	users();
	bounded_memory();
	pid_t pid = munged();
	if (pid) {
		munge_users();
		kill(pid, SIGTERM);
		waitpid(pid, NULL, 0);
	}
	munge_gone();
	auth_munge_socket(NULL);
	auth_seen_clear();
	mu_arena_free(&arena);
	static const char *const files[] = {
	    "c.secret",	 "c.pub",     "n.secret",   "n.pub",	 "x.secret",   "x.pub",		 "bad",
	    "munge.key", "munge.log", "munge.seed", "munge.pid", "munge.sock", "munge.sock.lock"};
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		unlink(in_dir(files[i]));
	CHECK(rmdir(dir) == 0);
	return 0;
}
