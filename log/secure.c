/* log/secure.c: see secure.h. */
#include <assert.h>
#include <string.h>

#include "log/secure.h"
#include "proto/base/err.h"

static const uint8_t magic[8] = {'M', 'U', 'S', 'T', 'P', 'R', '0', '1'};

enum {
	AT_CLUSTER = 8,
	AT_GENERATION = 24,
	AT_ID = 32,
	AT_PURPOSE = 40,
	AT_NAME = 48,
	AT_ADDRESS = 112,
	AT_KEY = 176
};
_Static_assert(AT_KEY + 32 == SECURE_CLAIM, "the claim's fields fill it");

static void put_u64(uint8_t *p, uint64_t v)
{
	for (unsigned i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get_u64(const uint8_t *p)
{
	uint64_t v = 0;
	for (unsigned i = 8; i--;)
		v = v << 8 | p[i];
	return v;
}

static void mac(uint8_t out[32], const uint8_t key[32], const void *a, size_t a_len, const void *b,
		size_t b_len)
{
	crypto_generichash_state h;
	crypto_generichash_init(&h, key, 32, 32);
	crypto_generichash_update(&h, a, a_len);
	crypto_generichash_update(&h, b, b_len);
	crypto_generichash_final(&h, out, 32);
}

/* Writes the claim and draws the ephemeral key. */
static void write_claim(struct secure_session *s, const struct secure_identity *self, uint8_t *out)
{
	memset(out, 0, SECURE_CLAIM);
	memcpy(out, magic, sizeof magic);
	memcpy(out + AT_CLUSTER, self->cluster, 16);
	put_u64(out + AT_GENERATION, self->generation);
	put_u64(out + AT_ID, self->id);
	out[AT_PURPOSE] = self->purpose;
	memcpy(out + AT_NAME, self->name, strnlen(self->name, 63));
	memcpy(out + AT_ADDRESS, self->address, strnlen(self->address, 63));
	randombytes_buf(s->ephemeral, sizeof s->ephemeral);
	crypto_scalarmult_base(out + AT_KEY, s->ephemeral);
}

static int read_claim(const uint8_t *in, struct secure_identity *ret)
{
	struct secure_identity p;
	memset(&p, 0, sizeof p);
	if (in[AT_NAME + 63] || in[AT_ADDRESS + 63])
		return MU_EPROTO;
	memcpy(p.cluster, in + AT_CLUSTER, 16);
	p.generation = get_u64(in + AT_GENERATION);
	p.id = get_u64(in + AT_ID);
	p.purpose = in[AT_PURPOSE];
	memcpy(p.name, in + AT_NAME, 64);
	memcpy(p.address, in + AT_ADDRESS, 64);
	if (!p.id)
		return MU_EPROTO;
	*ret = p;
	return 0;
}

/* Derives both directions' keys and begins our own stream. */
static int begin(struct secure_session *s, const uint8_t peer_key[32], uint8_t ret_header[SECURE_HEADER])
{
	uint8_t shared[32], keys[64];
	crypto_generichash_state h;
	if (crypto_scalarmult(shared, s->ephemeral, peer_key))
		return MU_EAUTH;
	crypto_generichash_init(&h, s->key, 32, sizeof keys);
	crypto_generichash_update(&h, shared, sizeof shared);
	crypto_generichash_update(&h, s->hello, sizeof s->hello);
	crypto_generichash_update(&h, s->reply, sizeof s->reply);
	crypto_generichash_final(&h, keys, sizeof keys);
	crypto_secretstream_xchacha20poly1305_init_push(&s->push, ret_header, keys + (s->client ? 0 : 32));
	/* The other direction's key waits where the ephemeral one was, which is of no more use. */
	memcpy(s->ephemeral, keys + (s->client ? 32 : 0), 32);
	sodium_memzero(shared, sizeof shared);
	sodium_memzero(keys, sizeof keys);
	return 0;
}

int secure_hello(struct secure_session *s, const uint8_t key[32], const struct secure_identity *self)
{
	if (sodium_init() < 0)
		return MU_EINTERNAL;
	memset(s, 0, sizeof *s);
	s->client = 1;
	memcpy(s->key, key, 32);
	write_claim(s, self, s->hello);
	mac(s->hello + SECURE_CLAIM, key, "hello", 5, s->hello, SECURE_CLAIM);
	return 0;
}

int secure_take_reply(struct secure_session *s, const uint8_t reply[SECURE_REPLY],
		      struct secure_identity *ret_peer, uint8_t ret_header[SECURE_HEADER])
{
	uint8_t want[32];
	if (memcmp(reply, magic, sizeof magic))
		return MU_EPROTO;
	memcpy(s->reply, reply, SECURE_REPLY);
	mac(want, s->key, s->hello, SECURE_HELLO, reply, SECURE_CLAIM);
	if (sodium_memcmp(want, reply + SECURE_CLAIM, 32))
		return MU_EAUTH;
	int rv = read_claim(reply, ret_peer);
	return rv ? rv : begin(s, reply + AT_KEY, ret_header);
}

int secure_take_hello(struct secure_session *s, const uint8_t key[32], const uint8_t hello[SECURE_HELLO],
		      const struct secure_identity *self, struct secure_identity *ret_peer,
		      uint8_t ret_header[SECURE_HEADER])
{
	uint8_t want[32];
	if (memcmp(hello, magic, sizeof magic))
		return MU_EPROTO;
	if (sodium_init() < 0)
		return MU_EINTERNAL;
	mac(want, key, "hello", 5, hello, SECURE_CLAIM);
	if (sodium_memcmp(want, hello + SECURE_CLAIM, 32))
		return MU_EAUTH;
	memset(s, 0, sizeof *s);
	memcpy(s->key, key, 32);
	memcpy(s->hello, hello, SECURE_HELLO);
	int rv = read_claim(hello, ret_peer);
	if (rv)
		return rv;
	write_claim(s, self, s->reply);
	mac(s->reply + SECURE_CLAIM, key, s->hello, SECURE_HELLO, s->reply, SECURE_CLAIM);
	return begin(s, hello + AT_KEY, ret_header);
}

int secure_take_header(struct secure_session *s, const uint8_t header[SECURE_HEADER])
{
	int rv = crypto_secretstream_xchacha20poly1305_init_pull(&s->pull, header, s->ephemeral);
	sodium_memzero(s->ephemeral, sizeof s->ephemeral);
	return rv ? MU_EAUTH : 0;
}

size_t secure_seal(struct secure_session *s, const uint8_t *text, size_t len, uint8_t *out)
{
	unsigned long long sealed;
	assert(len <= SECURE_CHUNK);
	crypto_secretstream_xchacha20poly1305_push(&s->push, out + 4, &sealed, text, len, NULL, 0, 0);
	for (unsigned i = 0; i < 4; i++)
		out[i] = (uint8_t)(sealed >> (8 * i));
	return 4 + (size_t)sealed;
}

int secure_frame_length(const uint8_t *p)
{
	uint32_t len = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
	if (len < SECURE_OVERHEAD || len > SECURE_CHUNK + SECURE_OVERHEAD)
		return MU_EPROTO;
	return (int)(4 + len);
}

int secure_open(struct secure_session *s, const uint8_t *frame, size_t len, uint8_t *out)
{
	unsigned long long text;
	unsigned char tag;
	if (crypto_secretstream_xchacha20poly1305_pull(&s->pull, out, &text, &tag, frame + 4, len - 4, NULL,
						       0))
		return MU_EAUTH;
	return (int)text;
}

void secure_wipe(struct secure_session *s)
{
	sodium_memzero(s, sizeof *s);
}
