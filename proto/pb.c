/* proto/pb.c: protobuf-c on arenas, with the checks that the library leaves out. See pb.h.
 * The library decodes strings with NUL bytes and bad UTF-8 and recurses as deep as the sender likes; a walk
 * over the bytes before the decoding refuses all three. */
#include "proto/pb.h"

#include <string.h>

/* Two bytes can ask for a structure of several hundred. What honest senders fill comes to less than ten times
 * the bytes, so a message of 8 MiB cannot take more than some 256 MiB. */
enum { MAX_DEPTH = 16, STRUCT_OVERHEAD = 16, ROOM_FACTOR = 32, ROOM_BYTES = 1 << 20 };

static void *pb_alloc(void *data, size_t size)
{
	return mu_arena_alloc(data, size);
}

static void pb_free(void *data, void *pointer)
{
}

ProtobufCAllocator mu_pb_allocator(struct mu_arena *arena)
{
	return (ProtobufCAllocator){.alloc = pb_alloc, .free = pb_free, .allocator_data = arena};
}

size_t mu_pb_pack(const ProtobufCMessage *message, struct mu_buf *out)
{
	size_t len = protobuf_c_message_get_packed_size(message);
	protobuf_c_message_pack(message, mu_buf_grow(out, len));
	return len;
}

/* Length of the well-formed UTF-8 character at P (never past END), 0 for none or a NUL. */
static size_t utf8_char(const uint8_t *p, const uint8_t *end)
{
	uint8_t c = p[0];
	size_t n = c == 0 ? 0 : c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
	if (!n || (size_t)(end - p) < n)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	if ((c == 0xe0 && p[1] < 0xa0) || (c == 0xed && p[1] > 0x9f) || (c == 0xf0 && p[1] < 0x90) ||
	    (c == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

static int is_text(const uint8_t *p, const uint8_t *end)
{
	while (p < end) {
		size_t n = utf8_char(p, end);
		if (!n)
			return 0;
		p += n;
	}
	return 1;
}

int mu_pb_is_text(const char *text)
{
	return is_text((const uint8_t *)text, (const uint8_t *)text + strlen(text));
}

static const uint8_t *varint(const uint8_t *p, const uint8_t *end, uint64_t *ret)
{
	uint64_t v = 0;
	for (int shift = 0; shift < 70 && p < end; shift += 7) {
		uint8_t c = *p++;
		if (shift < 64)
			v |= (uint64_t)(c & 0x7f) << shift;
		if (!(c & 0x80)) {
			*ret = v;
			return p;
		}
	}
	return NULL;
}

bool mu_pb_next(struct mu_view *rest, struct mu_pb_field *ret)
{
	const uint8_t *p = rest->data, *end = p + rest->len;
	uint64_t key, n = 0;
	if (rest->len == 0 || !(p = varint(p, end, &key)) || key > UINT32_MAX)
		return false;
	*ret = (struct mu_pb_field){.number = (uint32_t)(key >> 3), .whole = {rest->data, 0}};
	unsigned type = key & 7;
	if (type == 0 && !(p = varint(p, end, &n)))
		return false;
	if (type == 2 && !(p = varint(p, end, &n)))
		return false;
	n = type == 0 ? 0 : type == 1 ? 8 : type == 5 ? 4 : n;
	if (type == 3 || type == 4 || type > 5 || n > (uint64_t)(end - p))
		return false;
	if (type == 2)
		ret->bytes = (struct mu_view){p, (size_t)n};
	p += n;
	ret->whole.len = (size_t)(p - rest->data);
	*rest = (struct mu_view){p, (size_t)(end - p)};
	return true;
}

struct check {
	size_t room;  /* what the structures made from the bytes may still take */
	bool unknown; /* a field that the vocabulary does not have was met */
};

static int check_message(const ProtobufCMessageDescriptor *type, const uint8_t *p, const uint8_t *end,
			 int depth, struct check *c);

/* Fields come in the order of their numbers as a rule: *AT, the place of the last one found, is tried first.
 */
static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessageDescriptor *type, uint32_t tag,
						unsigned *at)
{
	for (unsigned i = *at; i < type->n_fields && i < *at + 3; i++)
		if (type->fields[i].id == tag) {
			*at = i;
			return &type->fields[i];
		}
	const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(type, tag);
	if (field)
		*at = (unsigned)(field - type->fields);
	return field;
}

static int check_bytes(const ProtobufCFieldDescriptor *field, const uint8_t *p, const uint8_t *end, int depth,
		       struct check *c)
{
	if (field && field->type == PROTOBUF_C_TYPE_STRING)
		return is_text(p, end);
	if (field && field->type == PROTOBUF_C_TYPE_MESSAGE)
		return check_message(field->descriptor, p, end, depth + 1, c);
	return 1;
}

static int check_message(const ProtobufCMessageDescriptor *type, const uint8_t *p, const uint8_t *end,
			 int depth, struct check *c)
{
	size_t need = type->sizeof_message + STRUCT_OVERHEAD;
	unsigned at = 0;
	if (depth > MAX_DEPTH || need > c->room)
		return 0;
	c->room -= need;
	while (p < end) {
		uint64_t key, n = 0;
		p = varint(p, end, &key);
		if (!p || key > UINT32_MAX)
			return 0;
		const ProtobufCFieldDescriptor *field = field_of(type, (uint32_t)(key >> 3), &at);
		c->unknown = c->unknown || !field;
		switch (key & 7) {
		case 0:
			p = varint(p, end, &n);
			if (!p)
				return 0;
			n = 0;
			break;
		case 1:
			n = 8;
			break;
		case 2:
			p = varint(p, end, &n);
			if (!p || n > (uint64_t)(end - p) || !check_bytes(field, p, p + n, depth, c))
				return 0;
			break;
		case 5:
			n = 4;
			break;
		default: /* Groups are not part of the vocabulary. */
			return 0;
		}
		if (n > (uint64_t)(end - p))
			return 0;
		p += n;
	}
	return 1;
}

ProtobufCMessage *mu_pb_unpack_known(const ProtobufCMessageDescriptor *type, const void *data, size_t len,
				     struct mu_arena *arena, bool *ret_unknown)
{
	static const uint8_t nothing[1];
	const uint8_t *p = data ? data : nothing;
	struct check c = {.room = ROOM_BYTES +
				  (len < SIZE_MAX / ROOM_FACTOR - ROOM_BYTES ? len * ROOM_FACTOR : 0)};
	if ((!data && len) || !check_message(type, p, p + len, 1, &c))
		return NULL;
	ProtobufCAllocator allocator = mu_pb_allocator(arena);
	*ret_unknown = c.unknown;
	return protobuf_c_message_unpack(type, &allocator, len, p);
}

ProtobufCMessage *mu_pb_unpack(const ProtobufCMessageDescriptor *type, const void *data, size_t len,
			       struct mu_arena *arena)
{
	bool unknown;
	return mu_pb_unpack_known(type, data, len, arena, &unknown);
}
