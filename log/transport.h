/* log/transport.h: proven and encrypted connections between controllers, and whole messages on them.
 *
 * Owns: sockets, handshakes (log/secure.h), framing, queues and their bounds. Leaves to others: who may speak
 * (admit), what messages mean. A message on the wire is u32 length, u16 kind, u16 flags, u64 call, bytes;
 * many share one encrypted frame, a long one spans several and is encrypted only as fast as the socket takes
 * it. Each purpose has a connection of its own, so that a long answer does not delay a heartbeat. Links
 * (outgoing) connect again by themselves; messages of a broken connection are lost. Bounds: 64 incoming
 * connections, 16 of them without proof and those for 2 s; message and queue sizes below. Threads: all on the
 * loop's. Callbacks may send, but must not close the transport. */
#ifndef LOG_TRANSPORT_H
#define LOG_TRANSPORT_H

#include <stdbool.h>
#include <uv.h>

#include "log/secure.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"

enum transport_purpose { TRANSPORT_RAFT = 1, TRANSPORT_TALK = 2 };
enum {
	TRANSPORT_RAFT_MAX = 4 << 20,  /* one Raft message: an AppendEntries is cut to 1 MiB and one entry */
	TRANSPORT_TALK_MAX = 16 << 20, /* one message between applications */
	TRANSPORT_RAFT_QUEUE =
	    16 << 20, /* waiting bytes of a Raft connection: the guard stops at 4 MiB of entries */
	TRANSPORT_TALK_QUEUE = 40 << 20, /* two of the longest messages and room for short ones */
	TRANSPORT_CONNECTIONS_MAX = 64,
	TRANSPORT_HALF_OPEN_MAX = 16,
	TRANSPORT_HANDSHAKE_MSEC = 2000,
	TRANSPORT_SILENT_MSEC =
	    2000, /* unacknowledged bytes for so long end a connection: a healed network finds a fresh one */
	TRANSPORT_RETRY_MSEC = 100
};

struct transport;
struct transport_link; /* an outgoing connection, wanted until closed */

/* Where an answer goes: the connection that the question came by, if it is still the same. */
struct transport_from {
	struct secure_identity peer;
	uint64_t connection;
};

struct transport_config {
	uv_loop_t *loop;
	const char *listen; /* numeric "ip:port" */
	uint8_t key[32];
	/* Our identity as it is now (purpose is filled in by the transport). */
	void (*self)(void *arg, struct secure_identity *ret);
	/* PEER has proven the key: may it speak? EXPECTED: the id that a link was opened for, 0 for incoming
	 * ones and where any will do. */
	bool (*admit)(void *arg, const struct secure_identity *peer, uint64_t expected, bool incoming);
	/* A whole message; BYTES borrowed. */
	void (*received)(void *arg, const struct transport_from *from, uint16_t kind, uint16_t flags,
			 uint64_t call, struct mu_view bytes);
	/* A link was connected and proven, or lost. */
	void (*link_changed)(void *arg, struct transport_link *link, bool up);
	/* One sentence for the diagnostics; may be NULL. */
	void (*say)(void *arg, const char *sentence);
	void *arg;
};

/* Listens. 0, or MU_EINVAL (address), MU_EIO (in use) with a sentence. */
int transport_open(const struct transport_config *config, struct transport **ret, struct mu_err *err);
/* Ends every connection and link, then calls DONE on the loop; the transport is gone then. */
void transport_close(struct transport *t, void (*done)(void *arg), void *arg);

/* Ends every connection; links connect again, with our identity as it is now. */
void transport_reset(struct transport *t);

/* Wants a connection to ADDRESS. ID 0: whoever answers there. ARG is link_arg's. */
struct transport_link *transport_link_open(struct transport *t, const char *address, uint64_t id,
					   enum transport_purpose purpose, void *arg);
void transport_link_close(struct transport_link *link); /* NULL is accepted */
void *transport_link_arg(const struct transport_link *link);
/* The proven identity at the other end, NULL while not connected. Borrowed until the next change. */
const struct secure_identity *transport_link_peer(const struct transport_link *link);
const char *transport_link_address(const struct transport_link *link);
size_t transport_link_queued(const struct transport_link *link); /* bytes */

/* Queues a message (copied). SENT (may be NULL) is called later, exactly once: true when the kernel has taken
 * the last byte, false when the connection broke before; never before this function returns, not at all when
 * it fails. 0, MU_ECONNECT, MU_EBUSY (queue full), MU_ELIMIT. */
typedef void (*transport_sent)(void *arg, bool good);
int transport_link_send(struct transport_link *link, uint16_t kind, uint16_t flags, uint64_t call,
			struct mu_view bytes, transport_sent sent, void *arg);
/* The same on the connection that a message came by. */
int transport_answer(struct transport *t, uint64_t connection, uint16_t kind, uint16_t flags, uint64_t call,
		     struct mu_view bytes);

struct transport_stats {
	uint64_t refused;  /* no proof of the key, broken rules, or not admitted */
	uint64_t timeouts; /* handshakes that took too long */
	uint64_t sent_bytes, received_bytes;
};
void transport_stats(const struct transport *t, struct transport_stats *ret);

#endif
