/* log/stream.h: framed, credit-based byte streams between srun, agents and shepherds.
 *
 * Frame: u32 big-endian payload length (at most STREAM_MAX), u8 kind, u8 flags, u16 big-endian channel (task number), payload.
 * Kinds are below; messages are packed protobuf. A sender of STREAM_DATA spends credit (bytes) that the receiver granted for that
 * direction; without credit it stops reading its source, so a slow reader slows the task and nothing is buffered without bound.
 * Not thread-safe; never blocks unless the name says so. */
#ifndef LOG_STREAM_H
#define LOG_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"

enum { STREAM_MAX = 64 * 1024, STREAM_HEADER = 8, STREAM_CREDIT = 256 * 1024 };
enum stream_kind {
	STREAM_STEP_ASK = 1,  /* srun -> agent: Mu__StepAsk (the only message that may span frames: flag MORE) */
	STREAM_GRANTED = 2,   /* agent -> srun: Mu__StepGranted */
	STREAM_REFUSED = 3,   /* agent -> srun: Mu__StepRefused; the connection is closed after it */
	STREAM_STDIN = 4,     /* srun -> task; channel 0xffff: all tasks; empty payload: end of file */
	STREAM_STDOUT = 5,    /* task -> srun */
	STREAM_STDERR = 6,
	STREAM_CREDIT_GRANT = 7, /* u32: bytes the other side may send more */
	STREAM_SIGNAL = 8,    /* srun -> task(s): u32 signal */
	STREAM_STARTED = 9,   /* shepherd -> srun: u32 pid */
	STREAM_TASK_ENDED = 10, /* Mu__TaskEnded */
	STREAM_STEP_ENDED = 11, /* Mu__StepEnded: last frame */
	STREAM_TEXT = 12,     /* a line for srun's stderr ("slurmstepd: error: ...") */
	STREAM_WINSIZE = 13,  /* u16 rows, u16 columns */
	STREAM_PING = 14
};
enum { STREAM_FLAG_MORE = 1 };

struct stream_frame {
	uint8_t kind, flags;
	uint16_t channel;
	struct mu_view payload; /* borrowed from the reader until its next call */
};

/* Incremental reader: feed bytes as they come. */
struct stream_reader {
	struct mu_buf in;
	size_t used;
};
void stream_feed(struct stream_reader *r, const void *data, size_t len);
/* 1 and a frame, 0 when more bytes are needed, MU_EPROTO when the peer breaks the rules. */
int stream_next(struct stream_reader *r, struct stream_frame *ret);
void stream_reader_free(struct stream_reader *r);

/* Appends one frame to OUT (any payload length: split with flag MORE). */
void stream_put(struct mu_buf *out, uint8_t kind, uint16_t channel, const void *payload, size_t len);

/* Blocking helpers for clients: write all of BUF, read until one frame. 0, MU_EIO, MU_EPROTO, MU_ETIMEOUT. */
int stream_write_all(int fd, const void *data, size_t len, struct mu_err *err);

/* Connects to "ipc:///path" or "tcp://ip:port": a blocking close-on-exec socket in RET_FD. 0 or MU_ECONNECT. */
int stream_connect(const char *address, unsigned timeout_msec, int *ret_fd, struct mu_err *err);
/* Listens on the same kinds of address (Unix: mode MODE, an old socket file is replaced). */
int stream_listen(const char *address, unsigned mode, int *ret_fd, struct mu_err *err);

#endif
