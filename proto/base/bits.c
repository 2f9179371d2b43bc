/* base/bits.c: bit sets. See bits.h. */
#include "proto/base/bits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/err.h"

void mu_bits_free(struct mu_bits *b)
{
	if (!b)
		return;
	free(b->word);
	*b = (struct mu_bits){0};
}

static void make_room(struct mu_bits *b, uint32_t words)
{
	if (words <= b->words)
		return;
	uint32_t cap = b->words < UINT32_MAX / 2 ? b->words * 2 : b->words;
	if (cap < words)
		cap = words;
	uint64_t *word = realloc(b->word, (size_t)cap * sizeof(*word));
	if (!word)
		abort();
	memset(word + b->words, 0, (size_t)(cap - b->words) * sizeof(*word));
	b->word = word;
	b->words = cap;
}

void mu_bits_set(struct mu_bits *b, uint32_t bit)
{
	make_room(b, bit / 64 + 1);
	b->word[bit / 64] |= UINT64_C(1) << (bit % 64);
}

void mu_bits_clear(struct mu_bits *b, uint32_t bit)
{
	if (bit / 64 < b->words)
		b->word[bit / 64] &= ~(UINT64_C(1) << (bit % 64));
}

bool mu_bits_test(const struct mu_bits *b, uint32_t bit)
{
	return bit / 64 < b->words && (b->word[bit / 64] >> (bit % 64) & 1);
}

uint32_t mu_bits_count(const struct mu_bits *b)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < b->words; i++)
		count += (uint32_t)__builtin_popcountll(b->word[i]);
	return count;
}

/* The first set bit at or after FROM of the words, each xored with FLIP; UINT32_MAX when there is none. */
static uint32_t scan(const struct mu_bits *b, uint32_t from, uint64_t flip)
{
	uint32_t i = from / 64;
	if (i >= b->words)
		return UINT32_MAX;
	uint64_t w = (b->word[i] ^ flip) & (UINT64_MAX << (from % 64));
	while (!w) {
		if (++i >= b->words)
			return UINT32_MAX;
		w = b->word[i] ^ flip;
	}
	return i * 64 + (uint32_t)__builtin_ctzll(w);
}

uint32_t mu_bits_next(const struct mu_bits *b, uint32_t from)
{
	return scan(b, from, 0);
}

uint32_t mu_bits_next_clear(const struct mu_bits *b, uint32_t from)
{
	uint32_t bit = scan(b, from, UINT64_MAX);
	if (bit != UINT32_MAX)
		return bit;
	uint64_t end = (uint64_t)b->words * 64;
	return end > UINT32_MAX ? UINT32_MAX : from > end ? from : (uint32_t)end;
}

void mu_bits_or(struct mu_bits *dst, const struct mu_bits *src)
{
	make_room(dst, src->words);
	for (uint32_t i = 0; i < src->words; i++)
		dst->word[i] |= src->word[i];
}

void mu_bits_and(struct mu_bits *dst, const struct mu_bits *src)
{
	for (uint32_t i = 0; i < dst->words; i++)
		dst->word[i] &= i < src->words ? src->word[i] : 0;
}

void mu_bits_andnot(struct mu_bits *dst, const struct mu_bits *src)
{
	for (uint32_t i = 0; i < src->words && i < dst->words; i++)
		dst->word[i] &= ~src->word[i];
}

bool mu_bits_intersects(const struct mu_bits *a, const struct mu_bits *b)
{
	for (uint32_t i = 0; i < a->words && i < b->words; i++)
		if (a->word[i] & b->word[i])
			return true;
	return false;
}

void mu_bits_copy(struct mu_bits *dst, const struct mu_bits *src)
{
	if (dst == src)
		return;
	make_room(dst, src->words);
	if (src->words)
		memcpy(dst->word, src->word, (size_t)src->words * sizeof(*src->word));
	if (dst->words > src->words)
		memset(dst->word + src->words, 0, (size_t)(dst->words - src->words) * sizeof(*dst->word));
}

static int parse_number(const char **text, uint32_t max_bit, uint32_t *ret)
{
	const char *p = *text;
	uint64_t v = 0;
	if (*p < '0' || *p > '9')
		return MU_ESYNTAX;
	for (; *p >= '0' && *p <= '9'; p++) {
		v = v * 10 + (uint64_t)(*p - '0');
		if (v > max_bit)
			return MU_ELIMIT;
	}
	*text = p;
	*ret = (uint32_t)v;
	return 0;
}

static int parse_into(struct mu_bits *b, const char *text, uint32_t max_bit)
{
	while (*text) {
		uint32_t lo, hi;
		int rc = parse_number(&text, max_bit, &lo);
		if (rc)
			return rc;
		hi = lo;
		if (*text == '-') {
			text++;
			rc = parse_number(&text, max_bit, &hi);
			if (rc)
				return rc;
		}
		if (hi < lo)
			return MU_ESYNTAX;
		for (uint64_t bit = lo; bit <= hi; bit++)
			mu_bits_set(b, (uint32_t)bit);
		if (*text == ',' && text[1])
			text++;
		else if (*text)
			return MU_ESYNTAX;
	}
	return 0;
}

int mu_bits_parse(struct mu_bits *ret, const char *text, uint32_t max_bit)
{
	struct mu_bits b = {0};
	int rc = parse_into(&b, text, max_bit);
	if (rc) {
		mu_bits_free(&b);
		return rc;
	}
	mu_bits_free(ret);
	*ret = b;
	return 0;
}

size_t mu_bits_print(const struct mu_bits *b, char *out, size_t cap)
{
	size_t len = 0;
	if (cap)
		out[0] = 0;
	for (uint32_t lo = mu_bits_next(b, 0); lo != UINT32_MAX;) {
		uint32_t end = mu_bits_next_clear(b, lo);
		char piece[32];
		int n = end - lo == 1
			    ? snprintf(piece, sizeof(piece), "%s%u", len ? "," : "", lo)
			    : snprintf(piece, sizeof(piece), "%s%u-%u", len ? "," : "", lo, end - 1);
		if (len < cap)
			snprintf(out + len, cap - len, "%s", piece);
		len += (size_t)n;
		if (end == UINT32_MAX)
			break;
		lo = mu_bits_next(b, end);
	}
	return len;
}
