/* exec/spool.h: small files that are there whole or not at all. Blocks on the disk. */
#ifndef EXEC_SPOOL_H
#define EXEC_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/pb.h"

enum { EXE_SPOOL_FILE_MAX = 64 << 20 };

/* Writes DATA to NAME in the directory DIR beside and renames it into place; SYNC waits until file and
 * directory are on disk. 0 or MU_EIO. */
int exe_spool_write(int dir, const char *name, const void *data, size_t len, mode_t mode, bool sync,
		    struct mu_err *err);
int exe_spool_write_pb(int dir, const char *name, const ProtobufCMessage *message, bool sync,
		       struct mu_err *err);
/* Reads NAME into OUT. 0, MU_ENOENT, MU_ELIMIT, MU_EIO. */
int exe_spool_read(int dir, const char *name, struct mu_buf *out, struct mu_err *err);
/* The message in ARENA; MU_ECORRUPT where it does not decode. */
int exe_spool_read_pb(int dir, const char *name, const ProtobufCMessageDescriptor *type,
		      struct mu_arena *arena, ProtobufCMessage **ret, struct mu_err *err);
/* Removes the folder NAME in DIR with its files (no deeper folders). 0 or MU_EIO. */
int exe_spool_remove(int dir, const char *name, struct mu_err *err);

int64_t
exe_boot_usec(void); /* CLOCK_BOOTTIME: goes on in suspend, comparable between processes of one boot */
int64_t exe_wall_usec(void);

#endif
