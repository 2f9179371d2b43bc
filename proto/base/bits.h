/* base/bits.h: fixed-capacity bit sets over uint64 words. Pure. */
#ifndef PROTO_BASE_BITS_H
#define PROTO_BASE_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialise; grows on set. Bits beyond the capacity read as 0. */
struct mu_bits {
	uint64_t *word;
	uint32_t words;
};

void mu_bits_free(struct mu_bits *b);
void mu_bits_set(struct mu_bits *b, uint32_t bit);
void mu_bits_clear(struct mu_bits *b, uint32_t bit);
bool mu_bits_test(const struct mu_bits *b, uint32_t bit);
uint32_t mu_bits_count(const struct mu_bits *b);
/* First bit >= FROM that is set (clear), or UINT32_MAX. For clear, every bit beyond the capacity counts as
 * clear. */
uint32_t mu_bits_next(const struct mu_bits *b, uint32_t from);
uint32_t mu_bits_next_clear(const struct mu_bits *b, uint32_t from);
void mu_bits_or(struct mu_bits *dst, const struct mu_bits *src);
void mu_bits_and(struct mu_bits *dst, const struct mu_bits *src);
void mu_bits_andnot(struct mu_bits *dst, const struct mu_bits *src);
bool mu_bits_intersects(const struct mu_bits *a, const struct mu_bits *b);
void mu_bits_copy(struct mu_bits *dst, const struct mu_bits *src);
/* "0-3,8" <-> bits. parse returns 0 or MU_ESYNTAX; bits above MAX_BIT are MU_ELIMIT. print writes a
 * NUL-terminated text and returns its length (as snprintf: may exceed CAP). */
int mu_bits_parse(struct mu_bits *ret, const char *text, uint32_t max_bit);
size_t mu_bits_print(const struct mu_bits *b, char *out, size_t cap);

#endif
