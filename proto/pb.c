/* proto/pb.c: protobuf-c's messages on arenas, with the checks that the library leaves out. See pb.h.
 * The library decodes strings with NUL bytes and bad UTF-8, recurses as deep as the sender likes, and looks
 * at every field that a message could have, several times; messages of two hundred fields of which ten are
 * set are our daily bread. So they are decoded here, by the library's own descriptors, in one walk over the
 * bytes. The vocabulary has no required fields. */
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
	while (p < end && *p - 1u < 0x7f)
		p++;
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

static const uint8_t *long_varint(const uint8_t *p, const uint8_t *end, uint64_t *ret)
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

/* Most are one byte long. */
static inline const uint8_t *varint(const uint8_t *p, const uint8_t *end, uint64_t *ret)
{
	if (p == end || *p & 0x80)
		return long_varint(p, end, ret);
	*ret = *p;
	return p + 1;
}

/* The number and type of a field: 32 bits in no more than the five bytes that they need, as the library has
 * it. */
static const uint8_t *take_key(const uint8_t *p, const uint8_t *end, uint64_t *ret)
{
	const uint8_t *after = varint(p, end, ret);
	return after && after - p <= 5 && *ret <= UINT32_MAX ? after : NULL;
}

bool mu_pb_next(struct mu_view *rest, struct mu_pb_field *ret)
{
	const uint8_t *p = rest->data, *end = p + rest->len;
	uint64_t key, n = 0;
	if (rest->len == 0 || !(p = take_key(p, end, &key)))
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

struct decode {
	struct mu_arena *arena;
	size_t room;  /* what the structures made from the bytes may still take */
	bool unknown; /* a field that the vocabulary does not have was met */
};

/* A field's bytes: its number for types 0, 1 and 5, its content for type 2. */
struct value {
	unsigned type;
	uint64_t number;
	const uint8_t *p, *end;
};

static ProtobufCMessage *decode_new(const ProtobufCMessageDescriptor *type, const uint8_t *p,
				    const uint8_t *end, int depth, struct decode *d);
static bool decode_into(ProtobufCMessage *m, const uint8_t *p, const uint8_t *end, int depth,
			struct decode *d);

/* Fields come in the order of their numbers as a rule: the search begins at *AT, the place of the last one
 * found. */
static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessageDescriptor *type, uint32_t tag,
						unsigned *at)
{
	enum { NEAR = 16 };
	for (unsigned i = *at; i < type->n_fields && i < *at + NEAR && type->fields[i].id <= tag; i++)
		if (type->fields[i].id == tag) {
			*at = i;
			return &type->fields[i];
		}
	const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field(type, tag);
	if (field)
		*at = (unsigned)(field - type->fields);
	return field;
}

static uint64_t little_endian(const uint8_t *p, size_t n)
{
	uint64_t v = 0;
	while (n--)
		v = v << 8 | p[n];
	return v;
}

/* Takes the value of a field of wire type V->type from the front of the bytes; NULL when it does not fit. */
static const uint8_t *take_value(const uint8_t *p, const uint8_t *end, struct value *v)
{
	uint64_t n;
	switch (v->type) {
	case 0:
		return varint(p, end, &v->number);
	case 1:
	case 5:
		n = v->type == 1 ? 8 : 4;
		if (n > (uint64_t)(end - p))
			return NULL;
		v->number = little_endian(p, (size_t)n);
		return p + n;
	case 2:
		p = varint(p, end, &n);
		if (!p || n > (uint64_t)(end - p))
			return NULL;
		v->p = p;
		v->end = p + n;
		return p + n;
	default: /* Groups are not part of the vocabulary. */
		return NULL;
	}
}

/* Of each type of field: bytes of an element, and the wire type that carries it. */
static const struct {
	uint8_t bytes, wire;
} type_row[] = {
    [PROTOBUF_C_TYPE_INT32] = {4, 0},
    [PROTOBUF_C_TYPE_SINT32] = {4, 0},
    [PROTOBUF_C_TYPE_SFIXED32] = {4, 5},
    [PROTOBUF_C_TYPE_INT64] = {8, 0},
    [PROTOBUF_C_TYPE_SINT64] = {8, 0},
    [PROTOBUF_C_TYPE_SFIXED64] = {8, 1},
    [PROTOBUF_C_TYPE_UINT32] = {4, 0},
    [PROTOBUF_C_TYPE_FIXED32] = {4, 5},
    [PROTOBUF_C_TYPE_UINT64] = {8, 0},
    [PROTOBUF_C_TYPE_FIXED64] = {8, 1},
    [PROTOBUF_C_TYPE_FLOAT] = {4, 5},
    [PROTOBUF_C_TYPE_DOUBLE] = {8, 1},
    [PROTOBUF_C_TYPE_BOOL] = {sizeof(protobuf_c_boolean), 0},
    [PROTOBUF_C_TYPE_ENUM] = {4, 0},
    [PROTOBUF_C_TYPE_STRING] = {sizeof(char *), 2},
    [PROTOBUF_C_TYPE_BYTES] = {sizeof(ProtobufCBinaryData), 2},
    [PROTOBUF_C_TYPE_MESSAGE] = {sizeof(ProtobufCMessage *), 2},
};

static size_t element_bytes(ProtobufCType type)
{
	return type_row[type].bytes;
}

static unsigned wire_type(ProtobufCType type)
{
	return type_row[type].wire;
}

static void put_number(ProtobufCType type, uint64_t n, void *at)
{
	uint32_t half = (uint32_t)n;
	switch (type) {
	case PROTOBUF_C_TYPE_SINT32:
		half = half >> 1 ^ -(half & 1);
		break;
	case PROTOBUF_C_TYPE_SINT64:
		n = n >> 1 ^ -(n & 1);
		break;
	case PROTOBUF_C_TYPE_BOOL:
		half = n != 0;
		break;
	default:
		break;
	}
	if (element_bytes(type) == 4)
		memcpy(at, &half, 4);
	else
		memcpy(at, &n, 8);
}

/* One value into its place, which holds zeros, or a message that is added to. */
static bool put_value(const ProtobufCFieldDescriptor *field, const struct value *v, void *at, int depth,
		      struct decode *d)
{
	size_t len = v->type == 2 ? (size_t)(v->end - v->p) : 0;
	if (v->type != wire_type(field->type))
		return false;
	if (field->type == PROTOBUF_C_TYPE_STRING) {
		if (!is_text(v->p, v->end))
			return false;
		char *text = mu_arena_alloc(d->arena, len + 1);
		memcpy(text, v->p, len);
		*(char **)at = text;
	} else if (field->type == PROTOBUF_C_TYPE_BYTES) {
		*(ProtobufCBinaryData *)at =
		    (ProtobufCBinaryData){len, len ? mu_arena_dup(d->arena, v->p, len) : NULL};
	} else if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
		ProtobufCMessage **m = at;
		if (*m)
			return decode_into(*m, v->p, v->end, depth + 1, d);
		*m = decode_new(field->descriptor, v->p, v->end, depth + 1, d);
		return *m != NULL;
	} else {
		put_number(field->type, v->number, at);
	}
	return true;
}

/* Room for MORE elements behind the *COUNT of an array that has room for the next power of two. */
static void *array_room(void **array, size_t count, size_t more, size_t size, struct mu_arena *arena)
{
	size_t cap = count ? 1 : 0, want = 1;
	while (cap && cap < count)
		cap *= 2;
	while (want < count + more)
		want *= 2;
	if (want > cap) {
		void *larger = mu_arena_alloc(arena, want * size);
		if (count)
			memcpy(larger, *array, count * size);
		*array = larger;
	}
	return (uint8_t *)*array + count * size;
}

/* Numbers one after another in the bytes of one field. */
static bool put_packed(const ProtobufCFieldDescriptor *field, const struct value *v, void **array,
		       size_t *count, struct decode *d)
{
	size_t size = element_bytes(field->type), more = 0;
	struct value one = {.type = wire_type(field->type)};
	for (const uint8_t *p = v->p; p < v->end; more++)
		if (!(p = take_value(p, v->end, &one)))
			return false;
	if (!more)
		return true;
	uint8_t *at = array_room(array, *count, more, size, d->arena);
	for (const uint8_t *p = v->p; p < v->end; at += size) {
		p = take_value(p, v->end, &one);
		put_number(field->type, one.number, at);
	}
	*count += more;
	return true;
}

static bool put_repeated(ProtobufCMessage *m, const ProtobufCFieldDescriptor *field, const struct value *v,
			 int depth, struct decode *d)
{
	void **array = (void **)((uint8_t *)m + field->offset);
	size_t *count = (size_t *)((uint8_t *)m + field->quantifier_offset);
	if (v->type == 2 && wire_type(field->type) != 2)
		return put_packed(field, v, array, count, d);
	void *at = array_room(array, *count, 1, element_bytes(field->type), d->arena);
	memset(at, 0, element_bytes(field->type));
	if (!put_value(field, v, at, depth, d))
		return false;
	++*count;
	return true;
}

static bool put_field(ProtobufCMessage *m, const ProtobufCFieldDescriptor *field, const struct value *v,
		      int depth, struct decode *d)
{
	void *at = (uint8_t *)m + field->offset, *says = (uint8_t *)m + field->quantifier_offset;
	if (field->label == PROTOBUF_C_LABEL_REPEATED)
		return put_repeated(m, field, v, depth, d);
	if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
		memset(at, 0, element_bytes(field->type));
		*(uint32_t *)says = field->id;
	} else if (field->quantifier_offset) {
		*(protobuf_c_boolean *)says = 1;
	}
	return put_value(field, v, at, depth, d);
}

/* What is unknown stays with the message, so that packing it again loses nothing. */
static void keep_unknown(ProtobufCMessage *m, uint32_t number, unsigned type, const uint8_t *p,
			 const uint8_t *end, struct decode *d)
{
	ProtobufCMessageUnknownField *u =
	    array_room((void **)&m->unknown_fields, m->n_unknown_fields, 1, sizeof *u, d->arena);
	*u = (ProtobufCMessageUnknownField){.tag = number,
					    .wire_type = (ProtobufCWireType)type,
					    .len = (size_t)(end - p),
					    .data = mu_arena_dup(d->arena, p, (size_t)(end - p))};
	m->n_unknown_fields++;
	d->unknown = true;
}

static bool decode_into(ProtobufCMessage *m, const uint8_t *p, const uint8_t *end, int depth,
			struct decode *d)
{
	unsigned at = 0;
	if (depth > MAX_DEPTH)
		return false;
	while (p < end) {
		uint64_t key;
		p = take_key(p, end, &key);
		if (!p || key >> 3 == 0)
			return false;
		struct value v = {.type = key & 7};
		const uint8_t *begin = p;
		p = take_value(p, end, &v);
		if (!p)
			return false;
		const ProtobufCFieldDescriptor *field = field_of(m->descriptor, (uint32_t)(key >> 3), &at);
		if (!field)
			keep_unknown(m, (uint32_t)(key >> 3), v.type, begin, p, d);
		else if (!put_field(m, field, &v, depth, d))
			return false;
	}
	return true;
}

static ProtobufCMessage *decode_new(const ProtobufCMessageDescriptor *type, const uint8_t *p,
				    const uint8_t *end, int depth, struct decode *d)
{
	size_t need = type->sizeof_message + STRUCT_OVERHEAD;
	if (depth > MAX_DEPTH || need > d->room)
		return NULL;
	d->room -= need;
	ProtobufCMessage *m = mu_arena_alloc(d->arena, type->sizeof_message);
	type->message_init(m);
	return decode_into(m, p, end, depth, d) ? m : NULL;
}

ProtobufCMessage *mu_pb_unpack_known(const ProtobufCMessageDescriptor *type, const void *data, size_t len,
				     struct mu_arena *arena, bool *ret_unknown)
{
	static const uint8_t nothing[1];
	const uint8_t *p = data ? data : nothing;
	struct decode d = {.arena = arena,
			   .room = ROOM_BYTES +
				   (len < SIZE_MAX / ROOM_FACTOR - ROOM_BYTES ? len * ROOM_FACTOR : 0)};
	if (!data && len)
		return NULL;
	ProtobufCMessage *m = decode_new(type, p, p + len, 1, &d);
	*ret_unknown = d.unknown;
	return m;
}

ProtobufCMessage *mu_pb_unpack(const ProtobufCMessageDescriptor *type, const void *data, size_t len,
			       struct mu_arena *arena)
{
	bool unknown;
	return mu_pb_unpack_known(type, data, len, arena, &unknown);
}
