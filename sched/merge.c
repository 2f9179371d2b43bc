/* sched/merge.c: updates say only what changes. Works on any message of the vocabulary, by its descriptor, so
 * that a new field needs no line here. */
#include "sched/state.h"

#include <assert.h>

static size_t field_size(const ProtobufCFieldDescriptor *f)
{
	switch (f->type) {
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_UINT64:
		return sizeof(uint64_t);
	case PROTOBUF_C_TYPE_BOOL:
		return sizeof(protobuf_c_boolean);
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE:
		return sizeof(void *);
	default:
		return sizeof(uint32_t);
	}
}

/* True when M gives FIELD a value. */
bool sch__present(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
	const char *at = (const char *)m;
	if (f->label == PROTOBUF_C_LABEL_REPEATED)
		return *(const size_t *)(at + f->quantifier_offset) > 0;
	if (f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_MESSAGE)
		return *(void *const *)(at + f->offset) != NULL;
	return *(const protobuf_c_boolean *)(at + f->quantifier_offset) != 0;
}

/* Takes FIELD's value away. */
void sch__absent(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
	char *at = (char *)m;
	if (f->label == PROTOBUF_C_LABEL_REPEATED) {
		*(size_t *)(at + f->quantifier_offset) = 0;
		*(void **)(at + f->offset) = NULL;
		return;
	}
	if (f->type != PROTOBUF_C_TYPE_STRING && f->type != PROTOBUF_C_TYPE_MESSAGE)
		*(protobuf_c_boolean *)(at + f->quantifier_offset) = 0;
	memset(at + f->offset, 0, field_size(f));
}

/* Fields present in FROM replace those of INTO (shallow: INTO then borrows from FROM). */
void sch__merge(ProtobufCMessage *into, const ProtobufCMessage *from)
{
	assert(into->descriptor == from->descriptor);
	for (unsigned i = 0; i < from->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &from->descriptor->fields[i];
		if (!sch__present(from, f))
			continue;
		char *dst = (char *)into;
		const char *src = (const char *)from;
		if (f->label == PROTOBUF_C_LABEL_REPEATED) {
			*(size_t *)(dst + f->quantifier_offset) =
			    *(const size_t *)(src + f->quantifier_offset);
			*(void **)(dst + f->offset) = *(void *const *)(src + f->offset);
			continue;
		}
		if (f->type != PROTOBUF_C_TYPE_STRING && f->type != PROTOBUF_C_TYPE_MESSAGE)
			*(protobuf_c_boolean *)(dst + f->quantifier_offset) = 1;
		memcpy(dst + f->offset, src + f->offset, field_size(f));
	}
}

/* Leaves out fields that this program does not know: every replica must make the same bytes, whatever its
 * version. A new field of a spec is therefore switched on by the level. */
void sch__strip(ProtobufCMessage *m)
{
	m->n_unknown_fields = 0;
	m->unknown_fields = NULL;
	for (unsigned i = 0; i < m->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
		if (f->type != PROTOBUF_C_TYPE_MESSAGE || !sch__present(m, f))
			continue;
		char *at = (char *)m;
		if (f->label != PROTOBUF_C_LABEL_REPEATED) {
			sch__strip(*(ProtobufCMessage **)(at + f->offset));
			continue;
		}
		ProtobufCMessage **list = *(ProtobufCMessage ***)(at + f->offset);
		for (size_t k = 0; k < *(size_t *)(at + f->quantifier_offset); k++)
			sch__strip(list[k]);
	}
}
