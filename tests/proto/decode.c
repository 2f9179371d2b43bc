/* tests/proto/decode: our decoder beside the library's, over random messages and damaged ones. A plain
 * program, meant for AddressSanitizer. decode [SEED]. What both take must pack to the same bytes; what was
 * packed must be taken; what ours takes and the library does not, or the other way round, must have its
 * reason. MUSTER_TEST_SIZE=fast|ci|full sets the count. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/seed.h"
#include "proto/event.pb-c.h"
#include "proto/pb.h"
#include "proto/rows.pb-c.h"
#include "proto/wire.pb-c.h"

static struct mu_seed rng;

static void put_varint(struct mu_buf *out, uint64_t v)
{
	do {
		uint8_t byte = (uint8_t)(v & 0x7f) | (v > 0x7f ? 0x80 : 0);
		mu_buf_add(out, &byte, 1);
		v >>= 7;
	} while (v);
}

static void put_message(struct mu_buf *out, const ProtobufCMessageDescriptor *type, int depth);

static void put_content(struct mu_buf *out, const ProtobufCFieldDescriptor *f, int depth)
{
	struct mu_buf inner = {0};
	uint8_t raw[8];
	uint32_t bits = mu_seed_below(&rng, 64);
	uint64_t n = mu_seed_next(&rng) >> bits;
	switch (f->type) {
	case PROTOBUF_C_TYPE_MESSAGE:
		put_message(&inner, f->descriptor, depth + 1);
		break;
	case PROTOBUF_C_TYPE_STRING:
		mu_buf_str(&inner, &"Maria Sibylla \xc3\xb6"[mu_seed_below(&rng, 17) / 2 * 2]);
		break;
	case PROTOBUF_C_TYPE_BYTES:
		mu_buf_add(&inner, &n, mu_seed_below(&rng, 9));
		break;
	case PROTOBUF_C_TYPE_DOUBLE:
		memcpy(raw, &n, 8);
		mu_buf_add(out, raw, 8);
		return;
	default:
		put_varint(out, n);
		return;
	}
	put_varint(out, inner.len);
	mu_buf_add(out, inner.data, inner.len);
	mu_buf_free(&inner);
}

static void put_field(struct mu_buf *out, const ProtobufCFieldDescriptor *f, int depth)
{
	bool text = f->type == PROTOBUF_C_TYPE_MESSAGE || f->type == PROTOBUF_C_TYPE_STRING ||
		    f->type == PROTOBUF_C_TYPE_BYTES;
	struct mu_buf packed = {0};
	if (f->label == PROTOBUF_C_LABEL_REPEATED && !text && mu_seed_below(&rng, 2)) {
		for (uint32_t n = mu_seed_below(&rng, 6); n; n--)
			put_content(&packed, f, depth);
		put_varint(out, (uint64_t)f->id << 3 | 2);
		put_varint(out, packed.len);
		mu_buf_add(out, packed.data, packed.len);
		mu_buf_free(&packed);
		return;
	}
	put_varint(out, (uint64_t)f->id << 3 | (text ? 2 : f->type == PROTOBUF_C_TYPE_DOUBLE ? 1 : 0));
	put_content(out, f, depth);
}

/* Fields in any order; one that is not repeated comes once, as an honest sender has it. */
static void put_message(struct mu_buf *out, const ProtobufCMessageDescriptor *type, int depth)
{
	uint8_t seen[512] = {0};
	bool oneof = false;
	for (uint32_t n = depth > 4 ? 0 : mu_seed_below(&rng, 12); n && type->n_fields; n--) {
		uint32_t i = mu_seed_below(&rng, type->n_fields);
		const ProtobufCFieldDescriptor *f = &type->fields[i];
		bool one = f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
		if ((f->label != PROTOBUF_C_LABEL_REPEATED && seen[i % 512]) || (one && oneof))
			continue;
		seen[i % 512] = 1;
		oneof = oneof || one;
		put_field(out, f, depth);
		if (mu_seed_below(&rng, 20) == 0) { /* what a later version may have */
			put_varint(out, (uint64_t)60000 << 3 | 0);
			put_varint(out, mu_seed_next(&rng) >> 40);
			put_varint(out, (uint64_t)60001 << 3 | 2);
			put_varint(out, 3);
			mu_buf_str(out, "new");
		}
	}
}

static void damage(struct mu_buf *b)
{
	for (uint32_t n = 1 + mu_seed_below(&rng, 3); n && b->len; n--) {
		uint32_t at = mu_seed_below(&rng, (uint32_t)b->len);
		if (mu_seed_below(&rng, 3) == 0)
			b->len = at;
		else
			b->data[at] = (uint8_t)mu_seed_below(&rng, 256);
	}
}

static void fail(const char *what, const ProtobufCMessageDescriptor *type, const struct mu_buf *b)
{
	fprintf(stderr, "%s, a %s of %zu bytes:", what, type->short_name, b->len);
	for (size_t i = 0; i < b->len; i++)
		fprintf(stderr, " %02x", b->data[i]);
	fprintf(stderr, "\n");
	abort();
}

/* 1: both took it. */
static int compare(const ProtobufCMessageDescriptor *type, const struct mu_buf *b, bool honest)
{
	struct mu_arena arena = {0};
	struct mu_buf x = {0}, y = {0};
	ProtobufCMessage *ours = mu_pb_unpack(type, b->data, b->len, &arena);
	ProtobufCMessage *theirs =
	    protobuf_c_message_unpack(type, NULL, b->len, b->data ? b->data : (uint8_t *)"");
	int both = ours && theirs;
	if (honest && !both)
		fail("an honest message was refused", type, b);
	/* Ours refuses more: texts that are none. It takes no more. */
	if (ours && !theirs)
		fail("the library refuses what we take", type, b);
	if (both) {
		mu_pb_pack(ours, &x);
		mu_pb_pack(theirs, &y);
		if (honest && (x.len != y.len || (x.len && memcmp(x.data, y.data, x.len) != 0)))
			fail("it packs to other bytes", type, b);
	}
	if (theirs)
		protobuf_c_message_free_unpacked(theirs, NULL);
	mu_buf_free(&x);
	mu_buf_free(&y);
	mu_arena_free(&arena);
	return both;
}

/* Damage that once parted the two: a field's key of six bytes, of which the last says nothing. */
static void known(void)
{
	static const uint8_t long_key[] = {0x80, 0xa6, 0xb8, 0xa7, 0x8b, 0x00, 0x04};
	struct mu_buf b = {0};
	mu_buf_add(&b, long_key, sizeof long_key);
	compare(&mu__config_row__descriptor, &b, false);
	mu_buf_free(&b);
}

int main(int argc, char **argv)
{
	static const ProtobufCMessageDescriptor *const types[] = {
	    &mu__request__descriptor, &mu__reply__descriptor,	 &mu__event__descriptor,
	    &mu__job_row__descriptor, &mu__node_row__descriptor, &mu__config_row__descriptor};
	const char *size = getenv("MUSTER_TEST_SIZE");
	int rounds = !size || !strcmp(size, "ci") ? 20000 : !strcmp(size, "full") ? 1000000 : 4000, taken = 0;
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	mu_seed_init(&rng, seed);
	printf("seed %llu, %d rounds\n", (unsigned long long)seed, rounds);
	known();
	for (int i = 0; i < rounds; i++) {
		const ProtobufCMessageDescriptor *type =
		    types[mu_seed_below(&rng, sizeof types / sizeof *types)];
		struct mu_buf b = {0};
		put_message(&b, type, 0);
		compare(type, &b, true);
		damage(&b);
		taken += compare(type, &b, false);
		mu_buf_free(&b);
	}
	printf("%d damaged ones were taken by both\n", taken);
	return taken ? 0 : 1;
}
