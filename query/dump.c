/* query/dump.c: a printer over protobuf-c's descriptors. */
#include "query/dump.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "proto/event.pb-c.h"
#include "proto/pb.h"
#include "query/store.h"

enum { DUMP_DEPTH_MAX = 16 };

/* Length of the UTF-8 sequence at P if it is well formed and printable; 0 otherwise. */
static size_t printable(const uint8_t *p, size_t len)
{
	size_t n = p[0] < 0x80		   ? 1
		   : (p[0] & 0xe0) == 0xc0 ? 2
		   : (p[0] & 0xf0) == 0xe0 ? 3
		   : (p[0] & 0xf8) == 0xf0 ? 4
					   : 0;

	if (n == 0 || n > len || (n == 1 && (p[0] < 0x20 || p[0] == 0x7f)))
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

/* A quoted text; control characters and what is no UTF-8 as \u escapes, so that a line stays a line. */
static void put_text(const uint8_t *p, size_t len, struct mu_buf *out)
{
	mu_buf_str(out, "\"");
	while (len) {
		size_t n = printable(p, len);
		if (n == 0) {
			mu_buf_printf(out, "\\u%04x", p[0]);
			n = 1;
		} else if (p[0] == '"' || p[0] == '\\') {
			mu_buf_printf(out, "\\%c", p[0]);
		} else {
			mu_buf_add(out, p, n);
		}
		p += n;
		len -= n;
	}
	mu_buf_str(out, "\"");
}

static void put_hex(const uint8_t *p, size_t len, struct mu_buf *out)
{
	mu_buf_str(out, "\"");
	for (size_t i = 0; i < len; i++)
		mu_buf_printf(out, "%02x", p[i]);
	mu_buf_str(out, "\"");
}

static void put_bytes(const ProtobufCBinaryData *b, struct mu_buf *out)
{
	size_t at = 0, n = 1;

	while (at < b->len && n) {
		/* Line feeds and tabs occur in paths and words, too. */
		n = b->data[at] == '\n' || b->data[at] == '\t' ? 1 : printable(b->data + at, b->len - at);
		at += n;
	}
	if (n)
		put_text(b->data, b->len, out);
	else
		put_hex(b->data, b->len, out);
}

static void put_message(const ProtobufCMessage *message, bool json, unsigned depth, struct mu_buf *out);

static void put_enum(const ProtobufCEnumDescriptor *type, int value, bool json, struct mu_buf *out)
{
	const ProtobufCEnumValue *named = protobuf_c_enum_descriptor_get_value(type, value);

	if (named)
		mu_buf_printf(out, json ? "\"%s\"" : "%s", named->name);
	else
		mu_buf_printf(out, "%d", value);
}

static void put_value(const ProtobufCFieldDescriptor *f, const void *at, bool json, unsigned depth,
		      struct mu_buf *out)
{
	switch (f->type) {
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SFIXED32:
		mu_buf_printf(out, "%d", *(const int32_t *)at);
		break;
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
		mu_buf_printf(out, "%u", *(const uint32_t *)at);
		break;
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
		mu_buf_printf(out, "%lld", (long long)*(const int64_t *)at);
		break;
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
		mu_buf_printf(out, "%llu", (unsigned long long)*(const uint64_t *)at);
		break;
	case PROTOBUF_C_TYPE_FLOAT:
		mu_buf_printf(out, "%.9g", (double)*(const float *)at);
		break;
	case PROTOBUF_C_TYPE_DOUBLE:
		mu_buf_printf(out, "%.17g", *(const double *)at);
		break;
	case PROTOBUF_C_TYPE_BOOL:
		mu_buf_str(out, *(const protobuf_c_boolean *)at ? "true" : "false");
		break;
	case PROTOBUF_C_TYPE_ENUM:
		put_enum(f->descriptor, *(const int *)at, json, out);
		break;
	case PROTOBUF_C_TYPE_STRING: {
		const char *text = *(char *const *)at;
		put_text((const uint8_t *)text, strlen(text), out);
		break;
	}
	case PROTOBUF_C_TYPE_BYTES:
		put_bytes(at, out);
		break;
	case PROTOBUF_C_TYPE_MESSAGE:
		put_message(*(const ProtobufCMessage *const *)at, json, depth + 1, out);
		break;
	}
}

static size_t value_bytes(ProtobufCType type)
{
	switch (type) {
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return 8;
	case PROTOBUF_C_TYPE_BOOL:
		return sizeof(protobuf_c_boolean);
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE:
		return sizeof(void *);
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
	default:
		return 4;
	}
}

static bool present(const ProtobufCFieldDescriptor *f, const void *message)
{
	const uint8_t *base = message;

	if (f->label == PROTOBUF_C_LABEL_REQUIRED)
		return true;
	if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
		return *(const uint32_t *)(base + f->quantifier_offset) == f->id;
	if (f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_MESSAGE)
		return *(void *const *)(base + f->offset) != NULL;
	return *(const protobuf_c_boolean *)(base + f->quantifier_offset);
}

static void put_repeated(const ProtobufCFieldDescriptor *f, const void *message, bool json, unsigned depth,
			 struct mu_buf *out)
{
	const uint8_t *base = message;
	size_t count = *(const size_t *)(base + f->quantifier_offset), size = value_bytes(f->type);
	const uint8_t *values = *(uint8_t *const *)(base + f->offset);

	mu_buf_str(out, "[");
	for (size_t i = 0; i < count; i++) {
		if (i)
			mu_buf_str(out, ",");
		put_value(f, values + i * size, json, depth, out);
	}
	mu_buf_str(out, "]");
}

static void put_message(const ProtobufCMessage *message, bool json, unsigned depth, struct mu_buf *out)
{
	const char *between = "";

	mu_buf_str(out, "{");
	for (unsigned i = 0; i < message->descriptor->n_fields && depth < DUMP_DEPTH_MAX; i++) {
		const ProtobufCFieldDescriptor *f = &message->descriptor->fields[i];
		bool repeated = f->label == PROTOBUF_C_LABEL_REPEATED;
		if (repeated ? *(const size_t *)((const uint8_t *)message + f->quantifier_offset) == 0
			     : !present(f, message))
			continue;
		mu_buf_printf(out, json ? "%s\"%s\":" : "%s%s=", between, f->name);
		between = json ? "," : " ";
		if (!strcmp(f->name, "job_key"))
			mu_buf_str(out, "\"(hidden)\"");
		else if (repeated)
			put_repeated(f, message, json, depth, out);
		else
			put_value(f, (const uint8_t *)message + f->offset, json, depth, out);
	}
	mu_buf_str(out, "}");
}

void dump_message(const ProtobufCMessage *message, bool json, struct mu_buf *out)
{
	put_message(message, json, 0, out);
}

/* The name of the kind that is set. */
static const char *event_kind(const Mu__Event *event)
{
	const ProtobufCFieldDescriptor *f =
	    protobuf_c_message_descriptor_get_field(&mu__event__descriptor, (unsigned)event->kind_case);

	return event->kind_case && f ? f->name : "unknown";
}

static void put_head(uint64_t pos, size_t n, int64_t time_usec, const char *kind, bool json,
		     struct mu_buf *out)
{
	time_t sec = (time_t)(time_usec / 1000000);
	char date[64] = "";
	struct tm tm;

	if (json) {
		mu_buf_printf(out, "{\"pos\":%llu,\"n\":%zu,\"time_usec\":%lld,\"kind\":\"%s\"",
			      (unsigned long long)pos, n, (long long)time_usec, kind);
		return;
	}
	if (gmtime_r(&sec, &tm))
		strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
	mu_buf_printf(out, "@%llu.%zu %s.%06dZ %s", (unsigned long long)pos, n, date,
		      (int)(time_usec % 1000000), kind);
}

static void put_part(uint64_t pos, size_t n_part, int64_t time_usec, const struct view_part *part, bool json,
		     struct mu_arena *arena, struct mu_buf *out)
{
	if (part->kind & VIEW_PART_GONE) {
		const uint8_t *n = part->bytes.data + MU_HASH_BYTES;
		put_head(pos, n_part, time_usec, "forgotten", json, out);
		mu_buf_printf(out, json ? ",\"bytes\":%u}" : " bytes=%u",
			      (uint32_t)n[0] | (uint32_t)n[1] << 8 | (uint32_t)n[2] << 16 |
				  (uint32_t)n[3] << 24);
	} else if (part->kind == VIEW_PART_BLOB) {
		char hex[2 * MU_HASH_BYTES + 1];
		struct mu_hash hash;
		mu_hash_bytes(part->bytes.data, part->bytes.len, &hash);
		mu_hash_print(&hash, hex);
		put_head(pos, n_part, time_usec, "blob", json, out);
		mu_buf_printf(out, json ? ",\"hash\":\"%s\",\"bytes\":%zu}" : " hash=%s bytes=%zu", hex,
			      part->bytes.len);
	} else {
		Mu__Event *event = (Mu__Event *)mu_pb_unpack(&mu__event__descriptor, part->bytes.data,
							     part->bytes.len, arena);
		put_head(pos, n_part, time_usec, event ? event_kind(event) : "unreadable", json, out);
		mu_buf_str(out, json ? ",\"event\":" : " ");
		if (event)
			dump_message(&event->base, json, out);
		else
			put_hex(part->bytes.data, part->bytes.len, out);
		if (json)
			mu_buf_str(out, "}");
	}
	mu_buf_str(out, "\n");
}

int dump_entry(uint64_t pos, struct mu_view raw, bool json, dump_sink sink, void *arg, struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf line = {0};
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	struct view_entry entry = {0};
	int code = view__entry_split(raw, &arena, &entry, err);

	for (size_t n = 0; n < entry.part_count && code == 0; n++) {
		mu_buf_reset(&line);
		put_part(pos, n, entry.time_usec, &entry.parts[n], json, &arena, &line);
		code = sink(arg, (const char *)line.data, line.len);
	}
	return code;
}
