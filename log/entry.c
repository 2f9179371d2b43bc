/* log/entry.c: see entry.h for the byte format. */
#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "log/entry.h"

enum { ENTRY_MAGIC = 0x3145554d }; /* "MUE1" */

static void put_u32(uint8_t *p, uint32_t v)
{
	for (unsigned i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static void put_u64(uint8_t *p, uint64_t v)
{
	for (unsigned i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t get_u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t get_u64(const uint8_t *p)
{
	return (uint64_t)get_u32(p) | (uint64_t)get_u32(p + 4) << 32;
}

int log_entry_pack(int64_t time_usec, uint64_t term, const struct log_part *parts, size_t count,
		   struct mu_buf *out)
{
	size_t len = LOG_ENTRY_HEADER;
	if (count > LOG_PARTS_MAX)
		return MU_ELIMIT;
	for (size_t i = 0; i < count; i++) {
		if (parts[i].bytes.len > LOG_ENTRY_MAX)
			return MU_ELIMIT;
		len += LOG_PART_HEADER + parts[i].bytes.len;
		if (len > LOG_ENTRY_MAX)
			return MU_ELIMIT;
	}
	size_t padded = (len + 7) & ~(size_t)7;
	uint8_t *p = mu_buf_grow(out, padded);
	put_u32(p, ENTRY_MAGIC);
	put_u32(p + 4, (uint32_t)len);
	put_u64(p + 8, (uint64_t)time_usec);
	put_u64(p + 16, term);
	put_u32(p + 24, (uint32_t)count);
	put_u32(p + 28, 0);
	uint8_t *q = p + LOG_ENTRY_HEADER;
	for (size_t i = 0; i < count; i++) {
		put_u32(q, (uint32_t)parts[i].bytes.len);
		put_u32(q + 4, parts[i].kind); /* the kind and three zero bytes */
		if (parts[i].bytes.len)
			memcpy(q + LOG_PART_HEADER, parts[i].bytes.data, parts[i].bytes.len);
		q += LOG_PART_HEADER + parts[i].bytes.len;
	}
	assert((size_t)(q - p) == len);
	memset(q, 0, padded - len);
	return 0;
}

/* The length of the parts in bytes, where they are COUNT whole ones; *RET_TOLD is what the header says of
 * them. 0: they are not. */
static size_t walk_parts(const uint8_t *data, size_t len, uint32_t count, bool kept, size_t *ret_told)
{
	const uint8_t *p = data, *end = data + len;
	size_t told = 0;
	for (uint32_t i = 0; i < count; i++) {
		if ((size_t)(end - p) < LOG_PART_HEADER)
			return 0;
		uint32_t n = get_u32(p);
		uint8_t kind = p[4] & (kept ? (uint8_t)~LOG_PART_GONE : 0xff);
		if (p[5] || p[6] || p[7] || (kind != LOG_PART_EVENT && kind != LOG_PART_BLOB))
			return 0;
		if ((size_t)(end - p) - LOG_PART_HEADER < n || (kind != p[4] && n != LOG_GONE_BYTES))
			return 0;
		told += LOG_PART_HEADER + (kind != p[4] ? get_u32(p + LOG_PART_HEADER + MU_HASH_BYTES) : n);
		p += LOG_PART_HEADER + n;
	}
	*ret_told = told;
	return LOG_ENTRY_HEADER + (size_t)(p - data);
}

static int parse(const uint8_t *data, size_t len, bool kept, struct log_entry *ret)
{
	if (len < LOG_ENTRY_HEADER || get_u32(data) != ENTRY_MAGIC)
		return MU_EPROTO;
	size_t own = get_u32(data + 4), told = 0;
	struct log_entry e = {.time_usec = (int64_t)get_u64(data + 8),
			      .term = get_u64(data + 16),
			      .part_count = get_u32(data + 24),
			      .raw = data};
	if (own < LOG_ENTRY_HEADER || own > LOG_ENTRY_MAX || e.part_count > LOG_PARTS_MAX ||
	    get_u32(data + 28) != 0)
		return MU_EPROTO;
	e.raw_len = walk_parts(data + LOG_ENTRY_HEADER, len - LOG_ENTRY_HEADER, e.part_count, kept, &told);
	if (!e.raw_len || LOG_ENTRY_HEADER + told != own || len - e.raw_len >= 8)
		return MU_EPROTO;
	for (size_t i = e.raw_len; i < len; i++)
		if (data[i])
			return MU_EPROTO;
	*ret = e;
	return 0;
}

int log_entry_parse(const uint8_t *data, size_t len, struct log_entry *ret)
{
	return parse(data, len, false, ret);
}

int log_entry_parse_kept(const uint8_t *data, size_t len, struct log_entry *ret)
{
	return parse(data, len, true, ret);
}

int log_entry_next(const struct log_entry *e, size_t *cursor, struct log_part *ret)
{
	size_t at = *cursor ? *cursor : LOG_ENTRY_HEADER;
	if (at >= e->raw_len)
		return 0;
	const uint8_t *p = e->raw + at;
	ret->kind = p[4];
	ret->bytes.len = get_u32(p);
	ret->bytes.data = p + LOG_PART_HEADER;
	*cursor = at + LOG_PART_HEADER + ret->bytes.len;
	return 1;
}

void log_leaf(const struct log_part *part, struct mu_hash *ret)
{
	struct mu_hasher h;
	if (part->kind & LOG_PART_GONE) {
		memcpy(ret->b, part->bytes.data, MU_HASH_BYTES);
		return;
	}
	mu_hasher_init(&h);
	mu_hasher_add(&h, &part->kind, 1);
	mu_hasher_add(&h, part->bytes.data, part->bytes.len);
	mu_hasher_done(&h, ret);
}

void log_chain_next(struct mu_hash *chain, const struct log_entry *e)
{
	struct mu_hasher h;
	struct mu_hash leaf;
	struct log_part part;
	size_t cursor = 0;
	mu_hasher_init(&h);
	mu_hasher_add(&h, chain->b, MU_HASH_BYTES);
	mu_hasher_add(&h, e->raw, LOG_ENTRY_HEADER);
	while (log_entry_next(e, &cursor, &part)) {
		log_leaf(&part, &leaf);
		mu_hasher_add(&h, leaf.b, MU_HASH_BYTES);
	}
	mu_hasher_done(&h, chain);
}
