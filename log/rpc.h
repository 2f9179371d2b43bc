/* log/rpc.h: libraft's messages as bytes on our own connections. Pure.
 *
 * Little-endian. AppendEntries: term, prev index, prev term, commit (u64 each), u32 count, u32 0, count times
 * {u64 term, u32 length, u8 type, u8[3] 0}, then each entry's bytes padded to 8. InstallSnapshot: term, last
 * index, last term, configuration index, u32 length of the configuration (as libraft encodes it), u32 length
 * of the data, both padded to 8. The others are their fields in order. */
#ifndef LOG_RPC_H
#define LOG_RPC_H

#include <raft.h>

#include "proto/base/buf.h"

enum { RPC_ENTRIES_MAX = 64 * 1024 };

/* Appends MESSAGE's bytes, without sender and type, to OUT. 0 or MU_EINVAL for a type that we do not know. */
int rpc_encode(const struct raft_message *message, struct mu_buf *out);
/* Fills type and contents of RET; what it owns is allocated with raft_malloc as the core expects it. 0 or
 * MU_EPROTO (then RET owns nothing). server_id and server_address are the caller's. */
int rpc_decode(unsigned type, struct mu_view bytes, struct raft_message *ret);

#endif
