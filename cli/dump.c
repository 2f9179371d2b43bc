/* cli/dump.c: see dump.h. */
#include "cli/dump.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const void *member(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
	return (const char *)m + f->offset;
}

/* Where the values of F lie, how many there are. */
static size_t values(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, const void **ret)
{
	const char *q = (const char *)m + f->quantifier_offset;

	if (f->label == PROTOBUF_C_LABEL_REPEATED) {
		*ret = *(void *const *)member(m, f);
		return *(const size_t *)q;
	}
	*ret = member(m, f);
	if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF)
		return *(const uint32_t *)q == f->id;
	if (f->type == PROTOBUF_C_TYPE_MESSAGE || f->type == PROTOBUF_C_TYPE_STRING)
		return *(void *const *)*ret != NULL;
	return *(const protobuf_c_boolean *)q != 0;
}

static size_t width(const ProtobufCFieldDescriptor *f)
{
	switch (f->type) {
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_SFIXED64:
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

static bool is_signed(const ProtobufCFieldDescriptor *f)
{
	return f->type == PROTOBUF_C_TYPE_INT32 || f->type == PROTOBUF_C_TYPE_SINT32 ||
	       f->type == PROTOBUF_C_TYPE_INT64 || f->type == PROTOBUF_C_TYPE_SINT64;
}

static int64_t number(const ProtobufCFieldDescriptor *f, const void *v)
{
	if (f->type == PROTOBUF_C_TYPE_DOUBLE)
		return (int64_t) * (const double *)v;
	if (width(f) == 8)
		return *(const int64_t *)v;
	return is_signed(f) ? *(const int32_t *)v : (int64_t) * (const uint32_t *)v;
}

static void put_hex(struct mu_buf *out, const ProtobufCBinaryData *b, size_t most)
{
	for (size_t i = 0; i < b->len && i < most; i++)
		mu_buf_printf(out, "%02x", b->data[i]);
	if (b->len > most)
		mu_buf_printf(out, "..(%zu bytes)", b->len);
}

static void put_quoted(struct mu_buf *out, const char *text)
{
	struct cli_json j = {.out = out};

	json_text(&j, NULL, text);
}

static const char *enum_word(const ProtobufCFieldDescriptor *f, const void *v)
{
	const ProtobufCEnumValue *e =
	    f->type == PROTOBUF_C_TYPE_ENUM
		? protobuf_c_enum_descriptor_get_value(f->descriptor, *(const int *)v)
		: NULL;

	return e ? e->name : NULL;
}

static void put_value(const ProtobufCFieldDescriptor *f, const void *v, struct mu_buf *out)
{
	switch (f->type) {
	case PROTOBUF_C_TYPE_STRING:
		put_quoted(out, *(char *const *)v);
		break;
	case PROTOBUF_C_TYPE_BYTES:
		put_hex(out, v, 32);
		break;
	case PROTOBUF_C_TYPE_BOOL:
		mu_buf_str(out, *(const protobuf_c_boolean *)v ? "true" : "false");
		break;
	case PROTOBUF_C_TYPE_UINT64:
		mu_buf_printf(out, "%" PRIu64, *(const uint64_t *)v);
		break;
	default:
		if (enum_word(f, v))
			mu_buf_str(out, enum_word(f, v));
		else
			mu_buf_printf(out, "%" PRId64, number(f, v));
		break;
	}
}

void cli_dump_text(const ProtobufCMessage *m, struct mu_buf *out)
{
	bool some = false;

	for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
		const void *v;
		size_t n = values(m, f, &v);

		for (size_t k = 0; k < n; k++) {
			const void *one = (const char *)v + k * width(f);

			mu_buf_printf(out, "%s%s", some ? " " : "", f->name);
			some = true;
			if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
				mu_buf_str(out, " {");
				cli_dump_text(*(ProtobufCMessage *const *)one, out);
				mu_buf_str(out, "}");
			} else {
				mu_buf_str(out, ": ");
				put_value(f, one, out);
			}
		}
	}
}

static void json_value(struct cli_json *j, const char *name, const ProtobufCFieldDescriptor *f, const void *v)
{
	struct mu_buf hex MU_CLEANUP(mu_buf_free) = {0};

	switch (f->type) {
	case PROTOBUF_C_TYPE_STRING:
		json_text(j, name, *(char *const *)v);
		break;
	case PROTOBUF_C_TYPE_BYTES:
		put_hex(&hex, v, SIZE_MAX);
		json_bytes(j, name, hex.data, hex.len);
		break;
	case PROTOBUF_C_TYPE_BOOL:
		json_bool(j, name, *(const protobuf_c_boolean *)v);
		break;
	case PROTOBUF_C_TYPE_MESSAGE:
		cli_dump_json(j, name, *(ProtobufCMessage *const *)v);
		break;
	default:
		if (enum_word(f, v))
			json_text(j, name, enum_word(f, v));
		else
			json_number(j, name, number(f, v));
		break;
	}
}

void cli_dump_json(struct cli_json *j, const char *name, const ProtobufCMessage *m)
{
	json_object(j, name);
	for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
		const void *v;
		size_t n = values(m, f, &v);

		if (f->label != PROTOBUF_C_LABEL_REPEATED) {
			if (n)
				json_value(j, f->name, f, v);
			continue;
		}
		if (!n)
			continue;
		json_array(j, f->name);
		for (size_t k = 0; k < n; k++)
			json_value(j, NULL, f, (const char *)v + k * width(f));
		json_array_end(j);
	}
	json_object_end(j);
}

/* What tells one of several messages from the others: its name, key or node. */
static const char *own_name(const ProtobufCMessage *m)
{
	static const char *const names[] = {"name", "key", "node"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const ProtobufCFieldDescriptor *f =
		    protobuf_c_message_descriptor_get_field_by_name(m->descriptor, names[i]);

		if (f && f->type == PROTOBUF_C_TYPE_STRING && f->label == PROTOBUF_C_LABEL_OPTIONAL &&
		    *(char *const *)member(m, f))
			return *(char *const *)member(m, f);
	}
	return NULL;
}

void cli_dump_lines(const ProtobufCMessage *m, const char *prefix, struct mu_buf *out)
{
	for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
		const void *v;
		size_t n = values(m, f, &v);

		for (size_t k = 0; k < n; k++) {
			const void *one = (const char *)v + k * width(f);
			struct mu_buf path MU_CLEANUP(mu_buf_free) = {0};

			mu_buf_printf(&path, "%s%s%s", prefix, *prefix ? "." : "", f->name);
			if (f->label == PROTOBUF_C_LABEL_REPEATED) {
				const char *name = f->type == PROTOBUF_C_TYPE_MESSAGE
						       ? own_name(*(ProtobufCMessage *const *)one)
						       : NULL;

				if (name)
					mu_buf_printf(&path, "[%s]", name);
				else
					mu_buf_printf(&path, "[%zu]", k);
			}
			if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
				cli_dump_lines(*(ProtobufCMessage *const *)one, (char *)path.data, out);
			} else {
				mu_buf_printf(out, "%s = ", (char *)path.data);
				put_value(f, one, out);
				mu_buf_str(out, "\n");
			}
		}
	}
}
