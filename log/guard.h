/* log/guard.h: stands between libraft 0.15.0's core and its raft_io, and closes the holes through which the
 * packaged library loses committed entries, crashes, or stays without a leader for ever.
 *
 * Owns: every read and write of libraft's own structures (struct raft, its log, its configuration); copies of
 * configurations and of messages on their way out. Leaves to others: disk and network (the raft_io below),
 * what entries mean (the FSM above). Order of calls: raft_init, log_guard_new, (raft_bootstrap,) raft_start,
 * log_guard_started. One guard per struct raft; it lives in raft->data. Everything runs on the thread that
 * runs raft.
 *
 * Each closure only drops, delays, shrinks or corrects messages, as a slow or lossy network could, or ends
 * the process, with the exceptions that G8, G11 and the cut mend fields of the core. What each one prevents:
 *   G1  A new leader proposes a barrier at once and ignores acknowledgements until the barrier is on its own
 * disk: else the core commits entries of old terms by counting copies ("figure 8"), and another leader may
 * still overwrite them. G2  A follower acknowledges only what was checked against the present leader: the
 * core reports its last stored entry, which may be a leftover of a deposed leader. G3  An acknowledgement in
 * the works while term or role changed counts for nothing: the core sends it to the new leader. G4  No
 * candidacy while a write or an installation is under way, no reply to nobody: the core crashes on both. G5
 * Requests that cut or replace the log wait until no write of ours refers to it; what is sent is copied: the
 * core frees entries that a write, a send or a caller's transfer request still uses. G6  Any failed write
 * ends the process: the core would go on with memory and disk apart. G7  One vote a term: during a leadership
 * transfer the core gives two. G8  Configurations: the uncommitted one is recognised after a restart,
 * rollback goes to the latest one left in the log, no snapshot holds an uncommitted one, no change starts
 * before an entry of the own term is committed. G9  A refused pre-vote tells the true term: else one server
 * ahead in term and one ahead in log block each other for ever. G10 A request that starts below our compacted
 * log is moved up to the snapshot: the core would append old entries at the end. G11 A vote does not depend
 * on the voter's own configuration, as in the Raft thesis. G12 Refusals in a row step back 1, 2, 4 ...
 * entries: the core steps back one entry a heartbeat. G13 A follower never takes more for committed than the
 * request itself covers: the core goes up to its last stored entry. */
#ifndef LOG_GUARD_H
#define LOG_GUARD_H

#include <raft.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/err.h"

enum log_guard_closure {
	LOG_G1 = 1 << 0,
	LOG_G2 = 1 << 1,
	LOG_G3 = 1 << 2,
	LOG_G4 = 1 << 3,
	LOG_G5 = 1 << 4,
	LOG_G6 = 1 << 5,
	LOG_G7 = 1 << 6,
	LOG_G8 = 1 << 7,
	LOG_G9 = 1 << 8,
	LOG_G10 = 1 << 9,
	LOG_G11 = 1 << 10,
	LOG_G12 = 1 << 11,
	LOG_G13 = 1 << 12,
	LOG_GUARD_ALL = (1 << 13) - 1
};

struct log_guard_config {
	unsigned closures;	/* LOG_GUARD_ALL; tests take single ones away to show that they are needed */
	size_t append_bytes;	/* an outgoing AppendEntries is cut to this many bytes (but never below one
				   entry); 0: never */
	size_t in_flight_bytes; /* with more than this on the way to one peer, it gets no entries until sends
				   complete; 0: no bound */
	unsigned quiet_msec;	/* votes are refused for so long after a start: a lease that we helped to give
				   may still run */
	/* A write failed, or the core gave up. In production it must not return; a test may return and crash
	 * the server itself. */
	void (*fatal)(void *arg, const char *what, int status);
	/* May this snapshot (what the leader's FSM wrote) be installed now? False holds the message back, as
	 * if delayed; the latest one held is delivered by log_guard_release. NULL: always. DATA borrowed. */
	bool (*may_install)(void *arg, const struct raft_buffer *data, raft_id from);
	/* May this snapshot of our own be written now? False holds it until log_guard_put_held. NULL: always.
	 * DATA may be rewritten in place, now or at log_guard_put_held; its length may not change. */
	bool (*may_put)(void *arg, struct raft_buffer *data);
	/* Called at the end of everything that may have changed the core's state. Must not call raft. NULL:
	 * not. */
	void (*touched)(void *arg);
	void *arg;
};

struct log_guard;

struct log_guard_stats {
	uint64_t dropped; /* acknowledgements and votes not let through */
	uint64_t clamped; /* acknowledgements shrunk */
	uint64_t held;	  /* requests that waited for our own writes or for the application */
	uint64_t cut;	  /* AppendEntries shortened */
	uint64_t rolled;  /* configurations taken back */
};

/* Checks the library that this process runs with: 0 or MU_EVERSION with the sentence. */
int log_guard_check_library(struct mu_err *err);

/* Puts a guard before R's io and FSM. Never fails. */
struct log_guard *log_guard_new(struct raft *r, const struct log_guard_config *config);
/* To be called once after raft_start returned 0. */
void log_guard_started(struct log_guard *g);
/* After raft_close's callback, or when the simulated process is gone. NULL is accepted; returns NULL. */
struct log_guard *log_guard_free(struct log_guard *g);

/* Messages from the network below: what raft_io.start's receiver would be called with. Takes what MESSAGE
 * owns, as the core does. */
void log_guard_receive(struct log_guard *g, struct raft_message *message);
/* The application is ready for what may_install refused: delivers the message held, if it is still there. */
void log_guard_release(struct log_guard *g);
/* The application is ready for what may_put refused. */
void log_guard_put_held(struct log_guard *g);
/* Completes sends towards the core whose bytes were copied. Done by every event; call before raft_close. */
void log_guard_flush(struct log_guard *g);
/* Leader: tells followers that have everything but do not know yet that it is committed. Cheap when nothing
 * is to tell. */
void log_guard_announce(struct log_guard *g);

/* True when R leads, an entry of its own term is committed and applied, and no transfer is under way. */
bool log_guard_settled(const struct log_guard *g);
/* To be asked by the FSM's snapshot function, which returns RAFT_BUSY when it is false: a configuration is
 * not committed yet (G8). */
bool log_guard_may_snapshot(struct log_guard *g);
/* May a membership change start now (settled, none under way)? */
bool log_guard_may_change(const struct log_guard *g);
/* Leader: the index up to which server ID is known to have the log; 0 when unknown. */
raft_index log_guard_match(const struct log_guard *g, raft_id id);
/* The entry at INDEX in the memory log, NULL when it is not there. Borrowed until the next event. */
const struct raft_entry *log_guard_entry(const struct raft *r, raft_index index);
void log_guard_stats(const struct log_guard *g, struct log_guard_stats *ret);

#endif
