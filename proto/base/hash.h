/* base/hash.h: BLAKE2b-256 (RFC 7693) and the sum of hashes modulo 2^256. Pure. */
#ifndef PROTO_BASE_HASH_H
#define PROTO_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

enum { MU_HASH_BYTES = 32 };

struct mu_hash {
	uint8_t b[MU_HASH_BYTES];
};

/* Streaming form; plain data. */
struct mu_hasher {
	uint64_t h[8], t[2];
	uint8_t block[128];
	size_t fill;
};

void mu_hasher_init(struct mu_hasher *s);
void mu_hasher_add(struct mu_hasher *s, const void *data, size_t len);
void mu_hasher_done(struct mu_hasher *s, struct mu_hash *ret);
void mu_hash_bytes(const void *data, size_t len, struct mu_hash *ret);

/* dst = dst + src and dst = dst - src, as 256-bit little-endian numbers modulo 2^256: the State digest's arithmetic. */
void mu_hash_sum_add(struct mu_hash *dst, const struct mu_hash *src);
void mu_hash_sum_sub(struct mu_hash *dst, const struct mu_hash *src);

/* 64 hex digits and NUL. parse returns 0 or MU_ESYNTAX. */
void mu_hash_print(const struct mu_hash *h, char out[2 * MU_HASH_BYTES + 1]);
int mu_hash_parse(const char *text, struct mu_hash *ret);

#endif
