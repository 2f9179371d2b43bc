/* cli/dump.h: any message as text, by its own descriptor. Pure. */
#ifndef CLI_DUMP_H
#define CLI_DUMP_H

#include <protobuf-c/protobuf-c.h>

#include "cli/json.h"
#include "proto/base/buf.h"

/* "name: value" pairs on one line, nested ones in braces; bytes in hex, cut after 32. */
void cli_dump_text(const ProtobufCMessage *message, struct mu_buf *out);
/* The same as a JSON object NAME; bytes in hex, whole. */
void cli_dump_json(struct cli_json *j, const char *name, const ProtobufCMessage *message);
/* "path.to.field = value" lines, one for each value; repeated ones numbered, or named by their name, key or
 * node. */
void cli_dump_lines(const ProtobufCMessage *message, const char *prefix, struct mu_buf *out);

#endif
