/* query/frames.h: a compressed file of frames: zstd over u8 kind, be32 length, bytes.
 *
 * Owns: the compression and the bounds of a frame (32 MiB). Leaves to others: what kinds there are, and the
 * file, which is at the right place when frames are opened. */
#ifndef QUERY_FRAMES_H
#define QUERY_FRAMES_H

#include <stdbool.h>
#include <stdio.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"

struct frames {
	FILE *f;
	struct ZSTD_CCtx_s *out;
	struct ZSTD_DCtx_s *in;
	struct mu_buf room;
	size_t rest, rest_end; /* bytes of ROOM that are not decompressed yet */
	struct mu_err *err;
};

/* Begins to write or read at the place where F, which is borrowed, stands. ERR takes the reasons until the
 * close. */
void frames_open(struct frames *s, FILE *f, bool write, struct mu_err *err);
void frames_close(struct frames *s);				      /* the file stays open */
int frames_put(struct frames *s, uint8_t kind, struct mu_view bytes); /* 0 or MU_EIO */
int frames_end(struct frames *s); /* after the last frame, before the close: 0 or MU_EIO */
/* The next frame: its bytes in OUT, which is emptied first. 0, or MU_ECORRUPT also where the file ends. */
int frames_get(struct frames *s, uint8_t *ret_kind, struct mu_buf *out);

#endif
