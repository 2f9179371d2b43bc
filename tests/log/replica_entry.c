/* tests/log/replica_entry.c: the entry's byte format and chain, and the library check. Plain program: a
 * table, then mutations. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/entry.h"
#include "log/guard.h"
#include "proto/base/seed.h"

#define CHECK(x)                                                                              \
	do {                                                                                  \
		if (!(x)) {                                                                   \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #x); \
			exit(1);                                                              \
		}                                                                             \
	} while (0)

static struct mu_view text(const char *s)
{
	return (struct mu_view){(const uint8_t *)s, strlen(s)};
}

static void round_trips(void)
{
	static const struct {
		const char *part[3];
		size_t count;
	} table[] = {{{0}, 0}, {{""}, 1}, {{"a"}, 1}, {{"event", "", "blob bytes"}, 3}};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		struct log_part parts[3], got;
		struct mu_buf b = {0};
		struct log_entry e;
		size_t cursor = 0;
		for (size_t k = 0; k < table[i].count; k++)
			parts[k] = (struct log_part){k == 2 ? LOG_PART_BLOB : LOG_PART_EVENT,
						     text(table[i].part[k])};
		CHECK(log_entry_pack(-5, 7, parts, table[i].count, &b) == 0);
		CHECK(b.len % 8 == 0);
		CHECK(log_entry_parse(b.data, b.len, &e) == 0);
		CHECK(e.time_usec == -5 && e.term == 7 && e.part_count == table[i].count);
		for (size_t k = 0; k < table[i].count; k++) {
			CHECK(log_entry_next(&e, &cursor, &got) == 1);
			CHECK(got.kind == parts[k].kind && got.bytes.len == parts[k].bytes.len);
			CHECK(!memcmp(got.bytes.data, parts[k].bytes.data, got.bytes.len));
		}
		CHECK(log_entry_next(&e, &cursor, &got) == 0);
		mu_buf_free(&b);
	}
}

static void refuses(void)
{
	static uint8_t big[LOG_ENTRY_MAX];
	struct mu_buf b = {0};
	struct log_part p = {LOG_PART_EVENT, {big, sizeof big - LOG_ENTRY_HEADER - LOG_PART_HEADER}};
	struct log_part *many = calloc(LOG_PARTS_MAX + 1, sizeof *many);
	CHECK(log_entry_pack(0, 0, &p, 1, &b) == 0);
	mu_buf_reset(&b);
	p.bytes.len++;
	CHECK(log_entry_pack(0, 0, &p, 1, &b) == MU_ELIMIT && b.len == 0);
	for (size_t i = 0; i <= LOG_PARTS_MAX; i++)
		many[i].kind = LOG_PART_EVENT;
	CHECK(log_entry_pack(0, 0, many, LOG_PARTS_MAX, &b) == 0);
	CHECK(log_entry_pack(0, 0, many, LOG_PARTS_MAX + 1, &b) == MU_ELIMIT);
	free(many);
	mu_buf_free(&b);
}

/* Any single changed byte is refused or changes the chain; random bytes never make the parser read outside.
 */
static void mutations(unsigned rounds)
{
	struct log_part parts[2] = {{LOG_PART_EVENT, text("one event")}, {LOG_PART_BLOB, text("#!/bin/sh")}};
	struct mu_buf b = {0};
	struct log_entry e;
	struct mu_hash first = {{0}}, chain;
	struct mu_seed seed;
	mu_seed_init(&seed, 4);
	CHECK(log_entry_pack(1, 2, parts, 2, &b) == 0 && log_entry_parse(b.data, b.len, &e) == 0);
	log_chain_next(&first, &e);
	for (size_t at = 0; at < b.len; at++) {
		b.data[at] ^= 1u << mu_seed_below(&seed, 8);
		uint8_t changed = b.data[at];
		if (log_entry_parse(b.data, b.len, &e) == 0) {
			memset(&chain, 0, sizeof chain);
			log_chain_next(&chain, &e);
			CHECK(memcmp(&chain, &first, sizeof chain) != 0);
		}
		for (unsigned bit = 0; bit < 8; bit++) {
			b.data[at] = changed ^ (uint8_t)(1u << bit);
			memset(&chain, 0, sizeof chain);
			if (log_entry_parse(b.data, b.len, &e) == 0) {
				log_chain_next(&chain, &e);
				if (!memcmp(&chain, &first, sizeof chain))
					break; /* the original again */
			}
		}
	}
	for (unsigned i = 0; i < rounds; i++) {
		size_t len = mu_seed_below(&seed, 200), cursor = 0;
		uint8_t *bytes = malloc(len + 1);
		struct log_part part;
		for (size_t k = 0; k < len; k++)
			bytes[k] = (uint8_t)mu_seed_below(&seed, seed.s[0] & 1 ? 256 : 3);
		if (len >= 4 && i & 1)
			memcpy(bytes, "MUE1", 4);
		if (len >= 32 && i & 2)
			memcpy(bytes + 4, (uint8_t[]){(uint8_t)len, 0, 0, 0}, 4);
		if (log_entry_parse(bytes, len, &e) == 0)
			while (log_entry_next(&e, &cursor, &part))
				log_leaf(&part, &chain);
		free(bytes);
	}
	mu_buf_free(&b);
}

/* An archive's entry whose blob is gone has the chain of the whole one, and is none for the replica. */
static void gone(void)
{
	const struct mu_view script = text("#!/bin/sh\nsleep 1000000000000000000000000000\n");
	struct log_part parts[3] = {
	    {LOG_PART_EVENT, text("one event")}, {LOG_PART_BLOB, script}, {LOG_PART_EVENT, text("another")}};
	struct mu_buf whole = {0}, kept = {0};
	struct mu_hash leaf, first = {{0}}, chain = {{0}};
	struct log_entry e;
	uint8_t head[LOG_PART_HEADER] = {LOG_GONE_BYTES, 0, 0, 0, LOG_PART_BLOB | LOG_PART_GONE},
		length[4] = {(uint8_t)script.len};

	CHECK(log_entry_pack(1, 2, parts, 3, &whole) == 0 && log_entry_parse(whole.data, whole.len, &e) == 0);
	log_chain_next(&first, &e);
	log_leaf(&parts[1], &leaf);
	size_t before = LOG_ENTRY_HEADER + LOG_PART_HEADER + parts[0].bytes.len;
	mu_buf_add(&kept, whole.data, before);
	mu_buf_add(&kept, head, sizeof head);
	mu_buf_add(&kept, leaf.b, sizeof leaf.b);
	mu_buf_add(&kept, length, sizeof length);
	before += LOG_PART_HEADER + script.len;
	mu_buf_add(&kept, whole.data + before, e.raw_len - before);
	CHECK(log_entry_parse(kept.data, kept.len, &e) == MU_EPROTO);
	CHECK(log_entry_parse_kept(kept.data, kept.len, &e) == 0 && e.part_count == 3);
	log_chain_next(&chain, &e);
	CHECK(memcmp(&chain, &first, sizeof chain) == 0);
	size_t at = LOG_ENTRY_HEADER + LOG_PART_HEADER + parts[0].bytes.len + LOG_PART_HEADER;
	kept.data[at + MU_HASH_BYTES]++; /* another length does not fit the header */
	CHECK(log_entry_parse_kept(kept.data, kept.len, &e) == MU_EPROTO);
	kept.data[at + MU_HASH_BYTES]--;
	kept.data[at] ^= 1;
	memset(&chain, 0, sizeof chain);
	CHECK(log_entry_parse_kept(kept.data, kept.len, &e) == 0);
	log_chain_next(&chain, &e);
	CHECK(memcmp(&chain, &first, sizeof chain) != 0);
	for (size_t len = 0; len < kept.len; len++)
		CHECK(log_entry_parse_kept(kept.data, len, &e) == MU_EPROTO);
	mu_buf_free(&whole);
	mu_buf_free(&kept);
}

int main(void)
{
	struct mu_err err = {0};
	round_trips();
	refuses();
	gone();
	mutations(200000);
	if (log_guard_check_library(&err)) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	puts("entry: good");
	return 0;
}
