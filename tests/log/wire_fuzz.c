/* tests/log/wire_fuzz.c: changed and random envelopes into auth's two parsers. A mutation may be refused or
 * harmless; it never proves another identity, and never lets the parser step outside its bytes (each input
 * lies in memory of exactly its length). */
#include "log/auth.h"
#include "log/envelope.pb-c.h"
#include "proto/base/seed.h"
#include "tests/log/wire_help.h"

static struct auth_keys keys;
static char dir[] = "/tmp/mu-fuzz-XXXXXX";

static int lookup(void *arg, const char *node, uint8_t ret[32])
{
	memcpy(ret, keys.node_public, 32);
	return 0;
}

static void mutate(struct mu_seed *seed, struct mu_buf *b)
{
	for (unsigned i = 1 + mu_seed_below(seed, 4); i > 0 && b->len > 0; i--) {
		size_t at = mu_seed_below(seed, (uint32_t)b->len), len = mu_seed_below(seed, 9);
		len = len < b->len - at ? len : b->len - at;
		switch (mu_seed_below(seed, 5)) {
		case 0:
			b->data[at] ^= (uint8_t)(1 << mu_seed_below(seed, 8));
			break;
		case 1:
			b->data[at] = (uint8_t)mu_seed_next(seed);
			break;
		case 2: /* cut out */
			memmove(b->data + at, b->data + at + len, b->len - at - len);
			b->len -= len;
			break;
		case 3: /* twice */
			mu_buf_grow(b, len);
			memmove(b->data + at + len, b->data + at, b->len - at - len);
			break;
		default:
			b->len = at;
		}
	}
}

int main(void)
{
	char secret[64], public_key[64];
	struct mu_seed seed;
	struct mu_arena arena = {0};
	struct mu_buf good[4] = {{0}};
	struct auth_sent sent;
	const int64_t now = INT64_C(1700000000) * 1000000;
	CHECK(mkdtemp(dir) != NULL);
	snprintf(secret, sizeof secret, "%s/s", dir);
	snprintf(public_key, sizeof public_key, "%s/p", dir);
	CHECK(auth_keygen(secret, public_key, NULL) == 0);
	CHECK(auth_load_secret(secret, keys.cluster_secret, keys.cluster_public, NULL) == 0);
	memcpy(keys.node_secret, keys.cluster_secret, 64);
	memcpy(keys.node_public, keys.cluster_public, 32);
	keys.has_secret = keys.has_public = keys.has_node = true;
	unlink(secret);
	unlink(public_key);
	CHECK(rmdir(dir) == 0);

	mu_seed_init(&seed, seed_of_run());
	struct auth_who who = {.is_node = true, .sign_reply = true};
	CHECK(auth_seal_node(&keys, "node17", now, view("what a node asks"), &good[0], &sent, NULL) == 0);
	CHECK(auth_seal_user(NULL, view("what a user asks"), false, &good[1], NULL, NULL) == 0);
	who.request = sent.request;
	CHECK(auth_seal_reply(&keys, &who, view("what is answered"), &good[2], NULL) == 0);
	mu_buf_str(&good[3], "\x08\x01\x12\x01x\x1a\x05MUNGE\x3a\x02xx\x42\x03yyy");
	unsigned accepted = 0, refused = 0, n = size_row("MUSTER_SIZE_FUZZ_INPUTS", 20000);
	for (unsigned i = 0; i < n; i++) {
		struct mu_buf b = {0};
		const struct mu_buf *from = &good[i % 4];
		mu_buf_add(&b, from->data, from->len);
		if (i % 16 < 15)
			mutate(&seed, &b);
		else
			for (size_t k = 0; k < b.len; k++)
				b.data[k] = (uint8_t)mu_seed_next(&seed);
		uint8_t *exact = malloc(b.len ? b.len : 1);
		memcpy(exact, b.data ? b.data : (uint8_t *)"", b.len);
		struct mu_view in = {exact, b.len}, body = {0};
		struct wire_peer peer = {.local = i % 3 == 0, .uid = 77, .gid = 7, .address = "10.0.0.1:1"};
		struct mu_err err = {0};
		int code = auth_verify(&keys, in, &peer, now, lookup, NULL, &arena, &who, &body, &err);
		CHECK((code != 0) == (err.text[0] != '\0'));
		if (code == 0 && who.is_node) /* only the unchanged proof: what follows it was skipped */
			CHECK(strcmp(who.node, "node17") == 0 && body.len == 16 &&
			      memcmp(body.data, "what a node asks", 16) == 0);
		else if (code == 0)
			CHECK(peer.local && who.uid == 77 && strcmp(who.verifier, "socket") == 0);
		accepted += code == 0;
		refused += code != 0;
		body = (struct mu_view){0};
		if (auth_open_reply(&keys, &sent, in, &arena, &body, NULL) == 0)
			CHECK(body.len == 16 && memcmp(body.data, "what is answered", 16) == 0);
		free(exact);
		mu_buf_free(&b);
		mu_arena_reset(&arena);
		if (i % 1000 == 0)
			auth_seen_clear();
	}
	printf("%u accepted, %u refused\n", accepted, refused);
	CHECK(accepted > 0 && refused > accepted);
	for (int i = 0; i < 4; i++)
		mu_buf_free(&good[i]);
	auth_seen_clear();
	mu_arena_free(&arena);
	return 0;
}
