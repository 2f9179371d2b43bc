/* base/hash.c: BLAKE2b with a 32-byte result and no key, from RFC 7693. See hash.h. */
#include "proto/base/hash.h"

#include <string.h>

#include "proto/base/err.h"

static const uint64_t initial[8] = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179,
};

static inline uint64_t turn(uint64_t v, int n)
{
	return v >> n | v << (64 - n);
}

static inline uint64_t load64(const uint8_t *p)
{
	return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 | (uint64_t)p[4] << 32 |
	       (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}

static inline __attribute__((always_inline)) void mix(uint64_t *v, int a, int b, int c, int d, uint64_t x, uint64_t y)
{
	v[a] += v[b] + x;
	v[d] = turn(v[d] ^ v[a], 32);
	v[c] += v[d];
	v[b] = turn(v[b] ^ v[c], 24);
	v[a] += v[b] + y;
	v[d] = turn(v[d] ^ v[a], 16);
	v[c] += v[d];
	v[b] = turn(v[b] ^ v[c], 63);
}

/* One round with the order of words written out: as constants they need no table, and v and m can stay in registers. */
#define ROUND(a, b, c, d, e, f, g, h, i, j, k, l, n, o, p, q) \
	mix(v, 0, 4, 8, 12, m[a], m[b]);                      \
	mix(v, 1, 5, 9, 13, m[c], m[d]);                      \
	mix(v, 2, 6, 10, 14, m[e], m[f]);                     \
	mix(v, 3, 7, 11, 15, m[g], m[h]);                     \
	mix(v, 0, 5, 10, 15, m[i], m[j]);                     \
	mix(v, 1, 6, 11, 12, m[k], m[l]);                     \
	mix(v, 2, 7, 8, 13, m[n], m[o]);                      \
	mix(v, 3, 4, 9, 14, m[p], m[q]);

static void compress(struct mu_hasher *s, const uint8_t *block, int last)
{
	uint64_t v[16], m[16];
	for (int i = 0; i < 8; i++) {
		v[i] = s->h[i];
		v[i + 8] = initial[i];
	}
	v[12] ^= s->t[0];
	v[13] ^= s->t[1];
	if (last)
		v[14] = ~v[14];
	for (int i = 0; i < 16; i++)
		m[i] = load64(block + 8 * i);
	ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
	ROUND(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3)
	ROUND(11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4)
	ROUND(7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8)
	ROUND(9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13)
	ROUND(2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9)
	ROUND(12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11)
	ROUND(13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10)
	ROUND(6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5)
	ROUND(10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0)
	ROUND(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
	ROUND(14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3)
	for (int i = 0; i < 8; i++)
		s->h[i] ^= v[i] ^ v[i + 8];
}

static void count(struct mu_hasher *s, size_t n)
{
	s->t[0] += n;
	s->t[1] += s->t[0] < n;
}

void mu_hasher_init(struct mu_hasher *s)
{
	*s = (struct mu_hasher){0};
	memcpy(s->h, initial, sizeof(s->h));
	s->h[0] ^= 0x01010000 ^ MU_HASH_BYTES; /* Sequential mode, no key. */
}

void mu_hasher_add(struct mu_hasher *s, const void *data, size_t len)
{
	const uint8_t *p = data;
	while (len) {
		/* A full block is compressed only when more follows: the last one is marked. */
		if (s->fill == sizeof(s->block)) {
			count(s, sizeof(s->block));
			compress(s, s->block, 0);
			s->fill = 0;
		}
		size_t n = sizeof(s->block) - s->fill;
		if (n > len)
			n = len;
		memcpy(s->block + s->fill, p, n);
		s->fill += n;
		p += n;
		len -= n;
	}
}

void mu_hasher_done(struct mu_hasher *s, struct mu_hash *ret)
{
	count(s, s->fill);
	memset(s->block + s->fill, 0, sizeof(s->block) - s->fill);
	compress(s, s->block, 1);
	for (int i = 0; i < MU_HASH_BYTES; i++)
		ret->b[i] = (uint8_t)(s->h[i / 8] >> (8 * (i % 8)));
}

void mu_hash_bytes(const void *data, size_t len, struct mu_hash *ret)
{
	struct mu_hasher s;
	mu_hasher_init(&s);
	mu_hasher_add(&s, data, len);
	mu_hasher_done(&s, ret);
}

void mu_hash_sum_add(struct mu_hash *dst, const struct mu_hash *src)
{
	unsigned carry = 0;
	for (int i = 0; i < MU_HASH_BYTES; i++) {
		carry += (unsigned)dst->b[i] + src->b[i];
		dst->b[i] = (uint8_t)carry;
		carry >>= 8;
	}
}

void mu_hash_sum_sub(struct mu_hash *dst, const struct mu_hash *src)
{
	unsigned borrow = 0;
	for (int i = 0; i < MU_HASH_BYTES; i++) {
		unsigned take = src->b[i] + borrow;
		borrow = dst->b[i] < take;
		dst->b[i] = (uint8_t)(dst->b[i] - take);
	}
}

void mu_hash_print(const struct mu_hash *h, char out[2 * MU_HASH_BYTES + 1])
{
	static const char digit[] = "0123456789abcdef";
	for (int i = 0; i < MU_HASH_BYTES; i++) {
		out[2 * i] = digit[h->b[i] >> 4];
		out[2 * i + 1] = digit[h->b[i] & 15];
	}
	out[2 * MU_HASH_BYTES] = 0;
}

static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int mu_hash_parse(const char *text, struct mu_hash *ret)
{
	struct mu_hash h;
	for (int i = 0; i < MU_HASH_BYTES; i++) {
		int hi = digit_value(text[2 * i]);
		int lo = hi < 0 ? -1 : digit_value(text[2 * i + 1]);
		if (lo < 0)
			return MU_ESYNTAX;
		h.b[i] = (uint8_t)(hi << 4 | lo);
	}
	if (text[2 * MU_HASH_BYTES])
		return MU_ESYNTAX;
	*ret = h;
	return 0;
}
