/* log/wire.h: request and reply between commands, agents and controllers. Knows Envelope bytes, not what they ask.
 *
 * Server: nng REP over Unix sockets and TCP, contexts grow with what waits (long polls), receive size bounded.
 * Client: one plain blocking socket that speaks nng's SP framing (so that a command needs no nng):
 *   TCP:  both send  00 'S' 'P' 00 00 protocol 00 00 (REQ0 0x30, REP0 0x31); then u64 big-endian length, message.
 *   Unix: the same with one byte 01 before each length.   Message of REQ/REP: u32 request id with the top bit set, then payload. */
#ifndef LOG_WIRE_H
#define LOG_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"

enum { WIRE_MAX_TCP = 8 << 20, WIRE_MAX_UNIX = 8 << 20, WIRE_MAX_REPLY = 64 << 20 };

/* ---- server ---- */
struct wire_server;
/* Where a request came from. */
struct wire_peer {
	bool local;     /* Unix socket: uid, gid and pid are the kernel's word */
	uint32_t uid, gid;
	int32_t pid;
	char address[64];
};
struct wire_call; /* one request waiting for its reply; answered exactly once, from any thread */
typedef void (*wire_handler)(void *arg, struct wire_call *call, const struct wire_peer *peer, struct mu_view request);
/* Listens on COUNT addresses ("ipc:///path", "tcp://ip:port"; port 0 is refused). HANDLER runs on nng threads and must not block for
 * long. MAX_WAITING bounds requests not yet answered; beyond it new ones are answered BUSY_REPLY at once. 0, MU_EIO. */
int wire_server_open(const char *const *addresses, size_t count, size_t max_waiting, struct mu_view busy_reply, wire_handler handler,
		     void *arg, struct wire_server **ret, struct mu_err *err);
void wire_reply(struct wire_call *call, struct mu_view reply); /* bytes are copied */
struct wire_server *wire_server_close(struct wire_server *s);
size_t wire_server_waiting(const struct wire_server *s);

/* ---- client: blocking, one request at a time, keeps its connection ---- */
struct wire_client;
/* ADDRESSES are tried in turn, from the one that answered last; "ipc:///path" first where it exists. Copied. */
struct wire_client *wire_client_new(const char *const *addresses, size_t count);
struct wire_client *wire_client_free(struct wire_client *c);
/* Sends REQUEST and waits for the reply (appended to OUT). On a broken connection or timeout it turns to the next address and sends the
 * same bytes again (requests are idempotent by their id) until TIMEOUT_MSEC is over. 0, MU_ECONNECT (never reached anyone),
 * MU_ETIMEOUT, MU_ELIMIT. */
int wire_request(struct wire_client *c, struct mu_view request, unsigned timeout_msec, struct mu_buf *out, struct mu_err *err);
/* Turns to the next address: the present one said that it cannot help. */
void wire_client_rotate(struct wire_client *c);

#endif
