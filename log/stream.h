/* log/stream.h: framed, credit-based byte streams between srun, agents and shepherds.
 *
 * Frame: u32 big-endian payload length (at most STREAM_MAX), u8 kind, u8 flags, u16 big-endian channel (task
 * number), payload. Kinds are below; messages are packed protobuf. A sender of STDIN, STDOUT or STDERR spends
 * credit (bytes) that the receiver granted for that direction; without credit it stops reading its source, so
 * a slow reader slows the task and nothing is buffered without bound. Each direction starts with
 * STREAM_CREDIT. A message larger than a frame spans several with flag MORE on all but the last (data needs
 * none: it is cut anywhere). Not thread-safe; nothing blocks unless its comment says so. */
#ifndef LOG_STREAM_H
#define LOG_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/base/hash.h"

enum {
	STREAM_MAX = 64 * 1024,
	STREAM_HEADER = 8,
	STREAM_CREDIT = 256 * 1024,
	STREAM_JOINED_MAX =
	    8
	    << 20, /* a message of several frames: an environment and its arguments fit (ARG_MAX is 2 MiB) */
	STREAM_ALL = 0xffff /* channel: every task */
};
enum stream_kind {
	STREAM_STEP_ASK = 1, /* srun -> agent: Mu__StepAsk */
	STREAM_GRANTED = 2,  /* agent -> srun: Mu__StepGranted */
	STREAM_REFUSED = 3,  /* agent -> srun: Mu__StepRefused; the connection is closed after it */
	STREAM_STDIN = 4,    /* srun -> task; channel 0xffff: all tasks; empty payload: end of file */
	STREAM_STDOUT = 5,   /* task -> srun */
	STREAM_STDERR = 6,
	STREAM_CREDIT_GRANT = 7, /* u32: bytes the other side may send more */
	STREAM_SIGNAL = 8,	 /* srun -> task(s): u32 signal */
	STREAM_STARTED = 9,	 /* shepherd -> srun: u32 pid */
	STREAM_TASK_ENDED = 10,	 /* Mu__TaskEnded */
	STREAM_STEP_ENDED = 11,	 /* Mu__StepEnded: last frame */
	STREAM_TEXT = 12,	 /* a line for srun's stderr ("slurmstepd: error: ...") */
	STREAM_WINSIZE = 13,	 /* u16 rows, u16 columns */
	STREAM_PING = 14,
	STREAM_HELLO = 15,   /* agent -> client over TCP, first: STREAM_NONCE random bytes */
	STREAM_PROOF = 16,   /* client -> agent over TCP, before its request: see stream_proof */
	STREAM_HOLD = 17,    /* salloc, srun -> agent: Mu__HoldAsk; answered by GRANTED (empty) or REFUSED */
	STREAM_RELEASE = 18, /* holder -> agent: u32 exit code; the allocation is over */
	STREAM_OVER = 19,    /* agent -> holder: u32 cause; last frame */
	STREAM_STEP_DONE = 20,	   /* srun -> step manager: Mu__StepEnded of a step on several nodes */
	STREAM_USAGE_ASK = 21,	   /* sstat -> agent: Mu__UsageAsk */
	STREAM_USAGE = 22,	   /* agent -> sstat: Mu__UsageReply; last frame */
	STREAM_PMI = 23,	   /* shepherd -> srun: what its tasks put before a fence; srun -> shepherds:
				      everybody's. Pairs of texts, each	   ended by a NUL byte */
	STREAM_ATTACH = 24,	   /* sattach -> agent: Mu__AttachAsk; answered by GRANTED or REFUSED */
	STREAM_LEAD = 25,	   /* srun -> step manager that was restarted: Mu__AttachAsk, whose step it leads;
				      answered by GRANTED (empty) or REFUSED */
	STREAM_CONTROL_FIRST = 64, /* agent and shepherd (exec/shepherd.h) */
	STREAM_CONTROL_LAST = 79
};
enum { STREAM_FLAG_MORE = 1, STREAM_NONCE = 16, STREAM_KEY = 32 };

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
/* 1 and a frame, 0 when more bytes are needed, MU_EPROTO when the peer breaks the rules (length, kind or
 * flag): close the connection. */
int stream_next(struct stream_reader *r, struct stream_frame *ret);
void stream_reader_free(struct stream_reader *r);

/* Collects the frames of one message in WHOLE (empty at first): 1 when FRAME ends it, 0 when more follow,
 * MU_ELIMIT beyond STREAM_JOINED_MAX. The caller resets WHOLE. */
int stream_join(struct mu_buf *whole, const struct stream_frame *frame);

/* Appends LEN bytes to OUT as one frame, or as many as they need. */
void stream_put(struct mu_buf *out, uint8_t kind, uint16_t channel, const void *payload, size_t len);
void stream_put_u32(struct mu_buf *out, uint8_t kind, uint16_t channel, uint32_t value);
/* The payload of STREAM_CREDIT_GRANT, STREAM_SIGNAL or STREAM_STARTED. 0 or MU_EPROTO. */
int stream_get_u32(const struct stream_frame *frame, uint32_t *ret);

/* Credit of one direction, both ends' view. The sender asks may_send before it reads its source and tells
 * sent; the receiver tells received for each data frame and consumed when the bytes have left it, and sends
 * the grant that it is told to. Pure. */
struct stream_credit {
	uint32_t window; /* most that may be under way */
	uint32_t left;	 /* sender: bytes that may go; receiver: bytes that may still come */
	uint32_t owed;	 /* receiver: consumed, not yet granted again */
};
void stream_credit_init(struct stream_credit *c, uint32_t window_bytes);
uint32_t stream_may_send(const struct stream_credit *c);
void stream_sent(struct stream_credit *c, uint32_t bytes); /* at most stream_may_send */
int stream_granted(struct stream_credit *c,
		   uint32_t bytes); /* 0, or MU_EPROTO when it would exceed the window */
int stream_received(struct stream_credit *c,
		    uint32_t bytes); /* 0, or MU_EPROTO when the peer sent without credit */
/* Returns the grant to send now: 0 until half a window is owed, so that grants are few. */
uint32_t stream_consumed(struct stream_credit *c, uint32_t bytes);

/* What a client without a Unix socket shows instead of its uid: BLAKE2b-256 of the job's key, the agent's
 * nonce and the packed request behind it. Pure. */
void stream_proof(const uint8_t key[STREAM_KEY], const uint8_t nonce[STREAM_NONCE], struct mu_view request,
		  uint8_t ret[MU_HASH_BYTES]);

/* Blocking helpers for clients. Write all of DATA: 0 or MU_EIO (never SIGPIPE). */
int stream_write_all(int fd, const void *data, size_t len, struct mu_err *err);
/* Read until one frame is there: 0, MU_ECONNECT (the peer closed), MU_EIO, MU_EPROTO, MU_ETIMEOUT. */
int stream_read_frame(int fd, struct stream_reader *r, unsigned timeout_msec, struct stream_frame *ret,
		      struct mu_err *err);

/* Connects to "ipc:///path" or "tcp://host:port" ("tcp://[v6]:port"): a blocking close-on-exec socket in
 * RET_FD. A host that is no number is looked up. Blocks for TIMEOUT_MSEC at most, the look-up aside. 0,
 * MU_ECONNECT (errno tells), MU_EINVAL (no such form). */
int stream_connect(const char *address, unsigned timeout_msec, int *ret_fd, struct mu_err *err);
/* Listens on the same kinds of address, a name's first: a close-on-exec socket. Unix: mode MODE; an old
 * socket file is replaced unless somebody still listens there (MU_EEXIST). TCP port 0 is refused. 0, MU_EIO,
 * MU_EINVAL (no such form or host). */
int stream_listen(const char *address, unsigned mode, int *ret_fd, struct mu_err *err);

#endif
