/* proto/pb.h: protobuf-c on our buffers and arenas. Pure. */
#ifndef PROTO_PB_H
#define PROTO_PB_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#include "proto/base/arena.h"
#include "proto/base/buf.h"

/* An allocator for X__unpack that takes from ARENA (borrowed by it); messages unpacked with it are never freed one by one. */
ProtobufCAllocator mu_pb_allocator(struct mu_arena *arena);

/* Appends the encoding of MESSAGE to OUT; returns its length in bytes. */
size_t mu_pb_pack(const ProtobufCMessage *message, struct mu_buf *out);

/* Decodes LEN bytes into ARENA; NULL when malformed, when a string holds a NUL byte or is not UTF-8, when a
 * message nests deeper than 16, or when the structures would take more than 1 MiB and 32 times LEN. The result lives as long as ARENA. */
ProtobufCMessage *mu_pb_unpack(const ProtobufCMessageDescriptor *type, const void *data, size_t len, struct mu_arena *arena);

/* The same; *RET_UNKNOWN says whether a field was met, at any depth, that this program does not know. */
ProtobufCMessage *mu_pb_unpack_known(const ProtobufCMessageDescriptor *type, const void *data, size_t len, struct mu_arena *arena,
				     bool *ret_unknown);

/* One field of an encoded message. */
struct mu_pb_field {
	uint32_t number;
	struct mu_view whole; /* with its tag */
	struct mu_view bytes; /* of a string, bytes or message field, else empty */
};
/* Takes the next field from the front of REST; false at the end, and at malformed bytes (then REST is not empty). */
bool mu_pb_next(struct mu_view *rest, struct mu_pb_field *ret);

/* True for well-formed UTF-8: what a string field may hold. A text that is not must be refused before it is packed, because
 * nobody would unpack it again. */
int mu_pb_is_text(const char *text);

#endif
