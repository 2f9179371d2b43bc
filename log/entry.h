/* log/entry.h: the byte format of one entry of the replicated log, and the hash chain over entries. Pure; knows no event type.
 *
 *   0   u32  magic "MUE1" (little-endian 0x3145554d)
 *   4   u32  length of the whole entry in bytes without padding (header + parts)
 *   8   i64  time_usec, stamped by the leader
 *  16   u64  term in which the leader made it (for people; not used for consensus)
 *  24   u32  number of parts
 *  28   u32  reserved, 0
 *  32   parts: { u32 length; u8 kind; u8[3] 0; bytes }, each as long as it is
 *  ...  zero padding to a multiple of 8 (libraft 0.15 needs it); entry length excludes it
 *
 * An archive may have let the bytes of a part go. It gives the entry with LOG_PART_GONE in that part's kind, and instead of the
 * bytes their leaf and u32 their length; the header stays as it was committed, so its length is that of the whole entry.
 *
 * leaf = BLAKE2b(kind || part); chain[pos] = BLAKE2b(chain[pos-1] || header bytes 0..31 || leaves in order); chain[0] = 32 zero bytes. */
#ifndef LOG_ENTRY_H
#define LOG_ENTRY_H

#include <stdint.h>
#include <stddef.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/base/hash.h"

enum { LOG_ENTRY_MAX = 256 * 1024, LOG_ENTRY_HEADER = 32, LOG_PART_HEADER = 8, LOG_PARTS_MAX = 4096 };
enum log_part_kind { LOG_PART_EVENT = 1, LOG_PART_BLOB = 2, LOG_PART_GONE = 0x80 /* bit, out of archives only */ };
enum { LOG_GONE_BYTES = MU_HASH_BYTES + 4 };

struct log_part {
	uint8_t kind; /* enum log_part_kind */
	struct mu_view bytes; /* borrowed */
};
/* A parsed entry: everything borrowed from the bytes it was parsed from. */
struct log_entry {
	int64_t time_usec;
	uint64_t term;
	uint32_t part_count;
	const uint8_t *raw; /* header and parts, without padding */
	size_t raw_len;
};

/* Encodes; OUT gets the padded bytes. MU_ELIMIT when over LOG_ENTRY_MAX or LOG_PARTS_MAX. */
int log_entry_pack(int64_t time_usec, uint64_t term, const struct log_part *parts, size_t count, struct mu_buf *out);
/* Checks magic, lengths and bounds of the whole entry. 0 or MU_EPROTO. */
int log_entry_parse(const uint8_t *data, size_t len, struct log_entry *ret);
/* The same of an entry as an archive gives it: parts may be gone. */
int log_entry_parse_kept(const uint8_t *data, size_t len, struct log_entry *ret);
/* Iterates: *cursor starts at 0; returns 1 and the part, or 0 at the end. */
int log_entry_next(const struct log_entry *e, size_t *cursor, struct log_part *ret);
void log_leaf(const struct log_part *part, struct mu_hash *ret);
/* chain = next chain value after E. */
void log_chain_next(struct mu_hash *chain, const struct log_entry *e);

#endif
