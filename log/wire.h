/* log/wire.h: request and reply between commands, agents and controllers. Knows Envelope bytes, not what they
 * ask.
 *
 * Both halves speak the SP framing of nng's REQ and REP (so that any nng program can be the other half) over
 * plain sockets. Server: some threads on one epoll; a request that waits (long poll) costs a connection and
 * no thread; everything is bounded. Client: one plain blocking socket. TCP:  both send  00 'S' 'P' 00 00
 * protocol 00 00 (REQ0 0x30, REP0 0x31); then u64 big-endian length, message. Unix: the same with one byte 01
 * before each length.   Message of REQ/REP: u32 request id with the top bit set, then payload. */
#ifndef LOG_WIRE_H
#define LOG_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"

enum {
	WIRE_MAX_TCP = 8 << 20,
	WIRE_MAX_UNIX = 8 << 20,
	WIRE_MAX_REPLY = 64 << 20,
	WIRE_HELLO_SEC = 10, /* a connection without a hello for so long is cut */
	WIRE_IDLE_SEC =
	    900, /* one without a request for so long is closed; clients come back by themselves */
	WIRE_STALL_SEC =
	    30 /* one that is in the middle of a request, or does not take its reply, for so long is cut */
};

/* ---- server ---- */
struct wire_server;
/* Where a request came from. */
struct wire_peer {
	bool local; /* Unix socket: uid, gid and pid are the kernel's word */
	uint32_t uid, gid;
	int32_t pid;
	char address[64];
};
struct wire_call; /* one request waiting for its reply; answered exactly once, from any thread */
typedef void (*wire_handler)(void *arg, struct wire_call *call, const struct wire_peer *peer,
			     struct mu_view request);
/* Listens on COUNT addresses ("ipc:///path", "tcp://ip:port"; port 0 is refused; a socket file of a dead
 * process is replaced and every user may connect to it). HANDLER runs on wire threads, on several at a time,
 * must not block for long, and borrows PEER and REQUEST for the call only. MAX_WAITING bounds requests not
 * yet answered (one user of this host, root aside, gets a quarter of it); beyond it new ones are answered
 * BUSY_REPLY (copied) at once. Raises RLIMIT_NOFILE to its hard limit and keeps connections below it. 0,
 * MU_EINVAL, MU_EIO. */
int wire_server_open(const char *const *addresses, size_t count, size_t max_waiting,
		     struct mu_view busy_reply, wire_handler handler, void *arg, struct wire_server **ret,
		     struct mu_err *err);
/* Answers CALL, which is gone afterwards. Any thread, inside HANDLER too; never blocks; bytes are copied. A
 * client that left, or a server closed meanwhile, drops the answer. */
void wire_reply(struct wire_call *call, struct mu_view reply);
/* Stops listening, cuts the connections, waits for running HANDLERs; none runs after it. Calls that still
 * wait may be answered later, or never (their memory goes with the process). Not from inside HANDLER. NULL
 * gives NULL. */
struct wire_server *wire_server_close(struct wire_server *s);
size_t wire_server_waiting(const struct wire_server *s); /* requests not yet answered */

/* Other spans than WIRE_HELLO_SEC, WIRE_STALL_SEC and WIRE_IDLE_SEC, for connections that come to such a wait
 * from now on. They are looked at once a second. */
void wire_server_spans(struct wire_server *s, unsigned hello_msec, unsigned stall_msec, unsigned idle_msec);
/* Counters for sdiag and metrics. Any thread. */
struct wire_stats {
	uint64_t requests, busy;       /* received; of them answered BUSY_REPLY */
	uint64_t connections, refused; /* open now; cut so far: too many, too slow or too large */
	uint64_t waiting;	       /* requests not yet answered */
	uint64_t in_bytes, out_bytes;  /* of partly received requests and partly sent replies */
};
void wire_server_stats(const struct wire_server *s, struct wire_stats *ret);

/* ---- client: blocking, one request at a time, keeps its connection ---- */
struct wire_client;
/* ADDRESSES (as stream_connect takes them) are tried in turn, from the one that answered last; put
 * "ipc:///path" first. Copied. */
struct wire_client *wire_client_new(const char *const *addresses, size_t count);
struct wire_client *wire_client_free(struct wire_client *c);
/* Sends REQUEST and waits for the reply (appended to OUT). On a broken connection or timeout it turns to the
 * next address and sends the same bytes again (requests are idempotent by their id) until TIMEOUT_MSEC is
 * over; while nobody listens it pauses between rounds. A host that vanished is noticed by the kernel in some
 * 6 s; a process that hangs, when half of the time that was left is over (where there is another address): a
 * long poll wants TIMEOUT_MSEC of more than twice its own wait, or wire_client_patience. After fork the child
 * gets a connection of its own. Blocks; one thread at a time. 0, MU_ECONNECT (never reached anyone),
 * MU_ETIMEOUT, MU_ELIMIT (request or reply too large). OUT is untouched on failure. */
int wire_request(struct wire_client *c, struct mu_view request, unsigned timeout_msec, struct mu_buf *out,
		 struct mu_err *err);
/* One address may take MSEC to answer before the next is tried; 0: half of what is left. */
void wire_client_patience(struct wire_client *c, unsigned msec);
/* Turns to the next address: the present one said that it cannot help. */
void wire_client_rotate(struct wire_client *c);
/* The address in use; whether it is a Unix socket (no credential is needed there). Borrowed until the next
 * call. */
const char *wire_client_address(const struct wire_client *c);
bool wire_client_local(const struct wire_client *c);

#endif
