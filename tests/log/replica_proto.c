/* tests/log/replica_proto.c: what controllers say to each other, as bytes: the handshake, Raft's messages,
 * the stored identity. Each good case beside the refused one, and mutations that must never read outside (run
 * it under the address sanitizer). */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log/identity.h"
#include "log/rpc.h"
#include "log/secure.h"
#include "proto/base/seed.h"

#define CHECK(x)                                                                              \
	do {                                                                                  \
		if (!(x)) {                                                                   \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #x); \
			exit(1);                                                              \
		}                                                                             \
	} while (0)

static struct mu_seed seed;

/* ---- the handshake ---- */

struct pair {
	struct secure_session client, server;
	struct secure_identity a, b, seen_a, seen_b;
};

/* Runs it with byte AT of message WHICH (1 hello, 2 reply, 3 server's header, 4 client's header, 5 first
 * frame) changed; 0: none. Returns the number of the message that was refused, 0 for none. */
static int shake(struct pair *p, const uint8_t key_a[32], const uint8_t key_b[32], int which, size_t at)
{
	uint8_t server_header[SECURE_HEADER], client_header[SECURE_HEADER], frame[SECURE_FRAME_MAX],
	    text[SECURE_CHUNK];
	CHECK(secure_hello(&p->client, key_a, &p->a) == 0);
	uint8_t hello[SECURE_HELLO], reply[SECURE_REPLY];
	memcpy(hello, p->client.hello, sizeof hello);
	if (which == 1)
		hello[at % sizeof hello] ^= 1;
	if (secure_take_hello(&p->server, key_b, hello, &p->b, &p->seen_a, server_header))
		return 1;
	memcpy(reply, p->server.reply, sizeof reply);
	if (which == 2)
		reply[at % sizeof reply] ^= 1;
	if (secure_take_reply(&p->client, reply, &p->seen_b, client_header))
		return 2;
	if (which == 3)
		server_header[at % SECURE_HEADER] ^= 1;
	if (which == 4)
		client_header[at % SECURE_HEADER] ^= 1;
	if (secure_take_header(&p->client, server_header))
		return 3;
	if (secure_take_header(&p->server, client_header))
		return 4;
	size_t len = secure_seal(&p->client, NULL, 0, frame);
	if (which == 5)
		frame[4 + at % (len - 4)] ^= 1;
	CHECK(secure_frame_length(frame) == (int)len);
	if (secure_open(&p->server, frame, len, text) != 0)
		return 5;
	len = secure_seal(&p->server, (const uint8_t *)"from server", 11, frame);
	if (secure_open(&p->client, frame, len, text) != 11)
		return 6;
	CHECK(!memcmp(text, "from server", 11));
	return 0;
}

static void handshakes(void)
{
	static struct pair p;
	uint8_t key[32] = {1, 2, 3}, other[32] = {1, 2, 4};
	p.a = (struct secure_identity){
	    .cluster = {9}, .generation = 3, .id = 77, .purpose = 2, .name = "a", .address = "1.2.3.4:5"};
	p.b = (struct secure_identity){.id = 78, .name = "b"};
	CHECK(shake(&p, key, key, 0, 0) == 0);
	CHECK(p.seen_a.id == 77 && p.seen_a.generation == 3 && p.seen_a.purpose == 2 &&
	      p.seen_a.cluster[0] == 9);
	CHECK(!strcmp(p.seen_a.name, "a") && !strcmp(p.seen_a.address, "1.2.3.4:5") && p.seen_b.id == 78);
	CHECK(shake(&p, key, other, 0, 0) == 1);
	p.a.id = 0; /* nobody */
	CHECK(shake(&p, key, key, 0, 0) == 1);
	p.a.id = 77;
	for (size_t at = 0; at < SECURE_HELLO; at++)
		CHECK(shake(&p, key, key, 1, at) == 1);
	for (size_t at = 0; at < SECURE_REPLY; at++)
		CHECK(shake(&p, key, key, 2, at) == 2);
	for (size_t at = 0; at < SECURE_HEADER; at++) {
		CHECK(shake(&p, key, key, 3, at) == 6);
		CHECK(shake(&p, key, key, 4, at) == 5);
	}
	for (size_t at = 0; at < SECURE_OVERHEAD; at++)
		CHECK(shake(&p, key, key, 5, at) == 5);
	CHECK(secure_frame_length((uint8_t[]){0, 0, 0, 0}) < 0 &&
	      secure_frame_length((uint8_t[]){255, 255, 255, 255}) < 0);
}

/* A recorded hello and first frame, sent again, open nothing: the server's part of the key is fresh. */
static void replay(void)
{
	static struct pair p;
	uint8_t key[32] = {5}, frame[SECURE_FRAME_MAX], text[SECURE_CHUNK], header[SECURE_HEADER],
		mine[SECURE_HEADER];
	p.a.id = 1;
	p.b.id = 2;
	CHECK(secure_hello(&p.client, key, &p.a) == 0);
	CHECK(secure_take_hello(&p.server, key, p.client.hello, &p.b, &p.seen_a, header) == 0);
	CHECK(secure_take_reply(&p.client, p.server.reply, &p.seen_b, mine) == 0);
	CHECK(secure_take_header(&p.server, mine) == 0);
	size_t len = secure_seal(&p.client, NULL, 0, frame);
	CHECK(secure_open(&p.server, frame, len, text) == 0);
	CHECK(secure_open(&p.server, frame, len, text) < 0); /* not twice on one connection */
	CHECK(secure_take_hello(&p.server, key, p.client.hello, &p.b, &p.seen_a, header) == 0);
	CHECK(secure_take_header(&p.server, mine) == 0);
	CHECK(secure_open(&p.server, frame, len, text) < 0);
}

/* ---- Raft's messages ---- */

static void free_message(struct raft_message *m)
{
	if (m->type == RAFT_IO_APPEND_ENTRIES && m->append_entries.n_entries) {
		raft_free(m->append_entries.entries[0].batch);
		raft_free(m->append_entries.entries);
	}
	if (m->type == RAFT_IO_INSTALL_SNAPSHOT) {
		raft_configuration_close(&m->install_snapshot.conf);
		raft_free(m->install_snapshot.data.base);
	}
}

/* What is decoded encodes to the same bytes again. */
static void round_trip(const struct raft_message *m, unsigned rounds)
{
	struct mu_buf bytes = {0}, again = {0};
	struct raft_message got;
	CHECK(rpc_encode(m, &bytes) == 0);
	CHECK(rpc_decode(m->type, (struct mu_view){bytes.data, bytes.len}, &got) == 0);
	CHECK(rpc_encode(&got, &again) == 0);
	CHECK(bytes.len == again.len && !memcmp(bytes.data, again.data, bytes.len));
	free_message(&got);
	for (size_t len = 0; len < bytes.len; len++) {
		uint8_t *cut = malloc(len + 1); /* of exactly this length, so that a read outside is seen */
		memcpy(cut, bytes.data, len);
		CHECK(rpc_decode(m->type, (struct mu_view){cut, len}, &got) == MU_EPROTO);
		free(cut);
	}
	for (unsigned i = 0; i < rounds; i++) {
		uint8_t *wrong = malloc(bytes.len);
		memcpy(wrong, bytes.data, bytes.len);
		for (unsigned k = 0; k <= mu_seed_below(&seed, 3); k++)
			wrong[mu_seed_below(&seed, (uint32_t)bytes.len)] = (uint8_t)mu_seed_next(&seed);
		if (rpc_decode(m->type, (struct mu_view){wrong, bytes.len}, &got) == 0)
			free_message(&got);
		free(wrong);
	}
	mu_buf_free(&bytes);
	mu_buf_free(&again);
}

static void messages(void)
{
	uint8_t data[64] = {1, 2, 3};
	struct raft_entry e[3] = {{.term = 4, .type = RAFT_COMMAND, .buf = {data, 64}},
				  {.term = 5, .type = RAFT_BARRIER, .buf = {data, 8}},
				  {.term = 5, .type = RAFT_COMMAND, .buf = {data, 3}}};
	struct raft_message m = {.type = RAFT_IO_APPEND_ENTRIES};
	m.append_entries = (struct raft_append_entries){
	    .term = 5, .prev_log_index = 6, .prev_log_term = 4, .leader_commit = 6};
	round_trip(&m, 2000);
	m.append_entries.entries = e;
	m.append_entries.n_entries = 3;
	round_trip(&m, 20000);
	m = (struct raft_message){.type = RAFT_IO_APPEND_ENTRIES_RESULT, .append_entries_result = {7, 8, 9}};
	round_trip(&m, 100);
	m = (struct raft_message){.type = RAFT_IO_REQUEST_VOTE, .request_vote = {1, 2, 3, 4, true, false}};
	round_trip(&m, 100);
	m = (struct raft_message){.type = RAFT_IO_REQUEST_VOTE_RESULT,
				  .request_vote_result = {1, true, raft_tribool_false}};
	round_trip(&m, 100);
	m = (struct raft_message){.type = RAFT_IO_TIMEOUT_NOW, .timeout_now = {1, 2, 3}};
	round_trip(&m, 100);
	m = (struct raft_message){.type = RAFT_IO_INSTALL_SNAPSHOT};
	m.install_snapshot = (struct raft_install_snapshot){.term = 1, .last_index = 2, .data = {data, 20}};
	raft_configuration_init(&m.install_snapshot.conf);
	raft_configuration_add(&m.install_snapshot.conf, 1, "1.2.3.4:5 a", RAFT_VOTER);
	raft_configuration_add(&m.install_snapshot.conf, 9, "1.2.3.4:6 b", RAFT_SPARE);
	round_trip(&m, 20000);
	raft_configuration_close(&m.install_snapshot.conf);
	struct raft_message got;
	CHECK(rpc_decode(7, (struct mu_view){data, 8}, &got) == MU_EPROTO);
}

/* ---- the stored identity ---- */

static void remove_tree(const char *dir)
{
	static const char *const name[] = {"identity", "identity.new", "lock", "raft/metadata1", "raft"};
	char path[300];
	for (size_t i = 0; i < sizeof name / sizeof name[0]; i++) {
		snprintf(path, sizeof path, "%s/%s", dir, name[i]);
		remove(path);
	}
	rmdir(dir);
}

static void identities(void)
{
	char dir[] = "/tmp/muster-identity-XXXXXX", path[300], text[4096];
	struct log_identity self, again;
	struct mu_err err = {0};
	int lock, second;
	bool empty;
	CHECK(mkdtemp(dir));
	CHECK(log_identity_open(dir, &self, &lock, &empty, &err) == 0);
	CHECK(empty && self.id && self.generation == 1 && !self.joined && log_identity_is_zero(self.cluster));
	CHECK(log_identity_open(dir, &again, &second, &empty, &err) == MU_EBUSY && strstr(err.text, dir));
	close(lock);
	self.founders = 2;
	self.founder[0] = (struct log_member){.id = 9, .name = "b", .address = "1.2.3.4:5"};
	self.founder[1] = (struct log_member){.id = 3, .name = "a", .address = "1.2.3.4:6"};
	log_identity_sort(self.founder, 2);
	log_identity_cluster(self.founder, 2, self.cluster);
	CHECK(self.founder[0].id == 3 && log_identity_store(dir, &self, &err) == 0);
	CHECK(log_identity_open(dir, &again, &lock, &empty, &err) == 0);
	CHECK(again.id == self.id && again.founders == 2 && !memcmp(again.cluster, self.cluster, 16));
	CHECK(again.founder[1].id == 9 && !strcmp(again.founder[1].name, "b"));
	close(lock);
	/* It belonged to a cluster, and its log is gone. */
	self.joined = true;
	CHECK(log_identity_store(dir, &self, &err) == 0);
	CHECK(log_identity_open(dir, &again, &lock, &empty, &err) == MU_ECORRUPT && strstr(err.text, "gone"));
	snprintf(path, sizeof path, "%s/raft/metadata1", dir);
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	CHECK(log_identity_open(dir, &again, &lock, &empty, &err) == 0 && !empty);
	close(lock);
	/* Any changed byte is noticed. */
	snprintf(path, sizeof path, "%s/identity", dir);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof text);
	for (ssize_t at = 0; at < n; at++) {
		char wrong = (char)(text[at] ^ 2);
		CHECK(pwrite(fd, &wrong, 1, at) == 1);
		CHECK(log_identity_open(dir, &again, &lock, &empty, &err) != 0);
		CHECK(pwrite(fd, &text[at], 1, at) == 1);
	}
	close(fd);
	unlink(path);
	CHECK(log_identity_open(dir, &again, &lock, &empty, &err) == MU_ECORRUPT);
	remove_tree(dir);
}

int main(void)
{
	mu_seed_init(&seed, 11);
	handshakes();
	replay();
	messages();
	identities();
	puts("protocol: good");
	return 0;
}
