/* log/replica_int.h: shared by the files that make up a replica: replica.c (log, positions, opening,
 * closing), replica_peers.c (connections, pings, lease, messages), replica_found.c (founding),
 * replica_member.c (membership). Nobody else includes it. */
#ifndef LOG_REPLICA_INT_H
#define LOG_REPLICA_INT_H

#include <raft.h>
#include <raft/uv.h>

#include "log/guard.h"
#include "log/identity.h"
#include "log/replica.h"
#include "log/transport.h"

enum {
	REPLICA_ADDRESS = 136, /* "ip:port name": what libraft knows as a server's address */
	REPLICA_PEERS_MAX = 16,
	REPLICA_PINGS = 64,	    /* pings whose sending time is remembered */
	REPLICA_POINTER_BYTES = 88, /* see pointer_encode */
	REPLICA_TRAILING_BYTES = 16 << 20,
	REPLICA_SIZES = 4096, /* entries whose sizes are remembered, to keep trailing within its bytes */
	REPLICA_CALLS_MAX = 4096,
	REPLICA_SAID = 16,	   /* sentences remembered, so as not to be repeated within ... */
	REPLICA_SAID_MSEC = 30000, /* ... this time */
	REPLICA_FOREIGN_MSEC =
	    10000 /* a peer outside the configuration that was not heard for so long is forgotten */
};

/* Message kinds of our own. */
enum replica_kind { REPLICA_FOUND = 0xff01, REPLICA_PING = 0xff02, REPLICA_OWN_KINDS = 0xff00 };
enum replica_flag { REPLICA_ASK = 1, REPLICA_ANSWER = 2 };

struct replica_peer {
	struct replica_peer *next;
	struct log_replica *r;
	uint64_t id; /* 0: a founder that has not answered yet */
	char address[64], name[64];
	struct transport_link *raft, *talk;
	uint64_t heard_msec, used_msec;
	/* Pings: when number n was sent, and up to when the peer vouches for our leadership. */
	uint64_t ping_seq, ping_sent_msec[REPLICA_PINGS], ping_next_msec;
	uint64_t lease_term, lease_from_msec;
	int64_t clock_offset_usec;
	bool clock_known;
	/* Founding: what it answered last. */
	uint64_t asked_msec, answered_msec, answer_id;
};

struct replica_call {
	struct replica_call *next;
	struct replica_peer *peer;
	uint64_t number, deadline_msec;
	log_answered cb;
	void *arg;
};

struct replica_proposal {
	struct replica_proposal *next;
	struct raft_buffer buf; /* libraft's once it was applied */
	size_t bytes;
	raft_index index;
	raft_term term;
	uint64_t born_usec;
	log_proposed cb;
	void *arg;
};

struct replica_queue {
	struct replica_proposal *first, **tail;
	size_t count;
};

enum replica_phase { REPLICA_FOUNDING, REPLICA_RUNNING, REPLICA_LEAVING, REPLICA_CLOSING };

/* The one membership job under way. */
enum replica_job_kind { JOB_NONE, JOB_ADD, JOB_PROMOTE, JOB_REMOVE, JOB_TRANSFER };
struct replica_job {
	enum replica_job_kind kind;
	uint64_t id;
	unsigned step;
	bool waiting; /* for libraft's callback */
	uint64_t deadline_msec;
	log_proposed cb;
	void *arg;
	struct log_member member;
	struct replica_peer *candidate; /* asked who it is */
};

struct log_replica {
	struct log_config config;
	char *dir, *raft_dir, *listen, *name;
	char own_address[REPLICA_ADDRESS];
	struct log_identity self;
	int lock;
	enum replica_phase phase;

	uv_timer_t clock;    /* every heartbeat: pings, deadlines, founding, membership */
	uv_idle_t later;     /* what must not happen inside libraft's callbacks */
	uv_check_t woke;     /* watchdog: the loop has events ... */
	uv_prepare_t sleeps; /* ... and is done with them */
	unsigned handles;    /* of the four above, still open */
	uint64_t woke_nsec, woke_cpu_nsec;

	struct raft raft;
	struct raft_io io;
	struct raft_fsm fsm;
	struct raft_uv_transport no_network;
	struct log_guard *guard;
	bool raft_open, raft_closed, raft_used;
	struct replica_send *sends, **sends_tail; /* of libraft's, to be called back */

	struct transport *transport;
	struct replica_peer *peers;
	struct replica_call *calls;
	size_t call_count;
	uint64_t call_number;

	struct replica_queue waiting;  /* proposed, not yet given to libraft */
	struct replica_queue proposed; /* in libraft's log */
	size_t in_flight_bytes;

	uint64_t pos;
	int64_t time_usec;
	struct mu_hash chain;

	/* Snapshots. */
	uint64_t since_entries, since_bytes;
	uint32_t sizes[REPLICA_SIZES]; /* ring over positions */
	bool snapshot_wanted;	       /* the application has been asked */
	bool snapshot_ready;
	struct log_pointer snapshot;
	bool install_ready;
	struct log_pointer install_pointer;

	/* As reported last. */
	enum log_role role;
	uint64_t term, leader;
	raft_index announced;

	bool reset_links; /* our identity has changed */
	uint64_t found_said_msec;
	uint64_t no_lease_until_msec; /* after a transfer was tried */
	struct replica_job job;
	struct raft_transfer transfer;
	bool transferring;
	uint64_t leave_deadline_msec;
	void (*closed)(void *arg);
	void *closed_arg;

	struct {
		struct mu_hash hash;
		uint64_t msec;
	} said[REPLICA_SAID];
	unsigned said_next;

	struct log_stats stats;
};

/* replica.c */
uint64_t replica_now_msec(const struct log_replica *r);
void replica_say(struct log_replica *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void replica_fatal(struct log_replica *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void replica_later(struct log_replica *r);
/* Starts libraft: with COUNT founding members (already in self.founder), or with what the directory holds. */
int replica_start(struct log_replica *r, bool bootstrap, struct mu_err *err);
int replica_store(struct log_replica *r); /* the identity; fatal when it fails */
void replica_compose(char ret[REPLICA_ADDRESS], const char *address, const char *name);
void replica_split(const char *composed, char ret_address[64], char ret_name[64]);
bool replica_is_up(const struct log_replica *r, uint64_t id);

/* replica_peers.c */
int replica_peers_open(struct log_replica *r, struct mu_err *err);
void replica_peers_free(struct log_replica *r);
void replica_peers_tick(struct log_replica *r);
struct replica_peer *replica_peer_by_id(const struct log_replica *r, uint64_t id);
struct replica_peer *replica_peer_add(struct log_replica *r, uint64_t id, const char *address,
				      const char *name);
void replica_peer_drop(struct replica_peer *p);
int replica_peer_call(struct replica_peer *p, uint16_t kind, struct mu_view bytes, unsigned timeout_msec,
		      log_answered cb, void *arg);
/* raft_io.send */
int replica_raft_send(struct raft_io *io, struct raft_io_send *req, const struct raft_message *message,
		      raft_io_send_cb cb);
void replica_sends_done(struct log_replica *r, int status); /* calls libraft back */
void replica_calls_fail(struct log_replica *r, struct replica_peer *peer, int code);

/* replica_found.c */
void replica_found_tick(struct log_replica *r);
void replica_found_answer(struct log_replica *r, struct mu_view ask, struct mu_buf *out);

/* replica_member.c */
void replica_job_tick(struct log_replica *r);
void replica_job_end(struct log_replica *r, int code);
int replica_transfer_begin(struct log_replica *r, uint64_t to);

#endif
