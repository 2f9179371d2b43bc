/* log/entry.c: see entry.h for the byte format. */
#include <assert.h>
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

/* Are the parts exactly what lies between the header and the end? */
static int check_parts(const struct log_entry *e)
{
	const uint8_t *p = e->raw + LOG_ENTRY_HEADER, *end = e->raw + e->raw_len;
	for (uint32_t i = 0; i < e->part_count; i++) {
		if ((size_t)(end - p) < LOG_PART_HEADER)
			return MU_EPROTO;
		uint32_t len = get_u32(p);
		if (p[5] || p[6] || p[7] || (p[4] != LOG_PART_EVENT && p[4] != LOG_PART_BLOB))
			return MU_EPROTO;
		p += LOG_PART_HEADER;
		if ((size_t)(end - p) < len)
			return MU_EPROTO;
		p += len;
	}
	return p == end ? 0 : MU_EPROTO;
}

int log_entry_parse(const uint8_t *data, size_t len, struct log_entry *ret)
{
	if (len < LOG_ENTRY_HEADER || get_u32(data) != ENTRY_MAGIC)
		return MU_EPROTO;
	size_t own = get_u32(data + 4);
	if (own < LOG_ENTRY_HEADER || own > LOG_ENTRY_MAX || own > len || len - own >= 8)
		return MU_EPROTO;
	for (size_t i = own; i < len; i++)
		if (data[i])
			return MU_EPROTO;
	struct log_entry e = {.time_usec = (int64_t)get_u64(data + 8),
			      .term = get_u64(data + 16),
			      .part_count = get_u32(data + 24),
			      .raw = data,
			      .raw_len = own};
	if (e.part_count > LOG_PARTS_MAX || get_u32(data + 28) != 0)
		return MU_EPROTO;
	int rv = check_parts(&e);
	if (rv)
		return rv;
	*ret = e;
	return 0;
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
