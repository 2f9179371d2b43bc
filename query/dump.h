/* query/dump.h: every entry in a form that people and programs can read, one line for each part.
 *
 * Plain:  @12.0 2026-10-01T15:00:00.000000Z submitted author={uid=1000 user="ann"} spec={name="hello"}
 * JSON:
 * {"pos":12,"n":0,"time_usec":1790866800000000,"kind":"submitted","event":{"author":{...},"submitted":{...}}}
 * A blob: @12.1 2026-10-01T15:00:00.000000Z blob hash=... bytes=211
 *
 * Byte strings are printed as text where they are printable UTF-8, else as hexadecimal digits. job_key is
 * never printed, nor are the bytes of scripts and environments. Any thread; no state. */
#ifndef QUERY_DUMP_H
#define QUERY_DUMP_H

#include "proto/pb.h"
#include "query/view.h"

/* Gets TEXT, one whole line with its line feed; a non-zero return ends the dump and is returned. */
typedef int (*dump_sink)(void *arg, const char *text, size_t len);

/* Appends MESSAGE as one JSON object, or as "{name=value ...}". */
void dump_message(const ProtobufCMessage *message, bool json, struct mu_buf *out);

/* One entry, from its raw bytes. An event that cannot be read is printed with kind "unreadable" and its bytes
 * in hexadecimal digits. 0, MU_EPROTO (no entry), or what SINK returned. */
int dump_entry(uint64_t pos, struct mu_view raw, bool json, dump_sink sink, void *arg, struct mu_err *err);

#endif
