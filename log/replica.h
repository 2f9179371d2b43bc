/* log/replica.h: one replica of the log. The only module that knows libraft; no Raft index is seen outside.
 *
 * Owns: consensus, its directory, the guard, the encrypted transport to the other controllers, positions, the
 * chain. Leaves to others: what entries mean, rows, snapshots' content (the application gives and takes a
 * pointer). Threads: everything here, callbacks included, runs on the one thread that runs LOOP. */
#ifndef LOG_REPLICA_H
#define LOG_REPLICA_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "log/entry.h"
#include "proto/base/err.h"

struct log_replica;
struct log_reply_to;

struct log_member {
	uint64_t id;	  /* replica id: belongs to a disk, never used twice */
	char name[64];	  /* controller's name in the configuration; no white space */
	char address[64]; /* numeric "ip:port" of its peer port */
	bool voter;
};
enum { LOG_MEMBERS_MAX = 9 };

/* What a snapshot of ours is: not the rows, but the position that they must reproduce. */
struct log_pointer {
	uint64_t pos;
	int64_t time_usec;
	struct mu_hash chain;  /* chain[pos] */
	struct mu_hash digest; /* State digest at pos */
};

enum log_role { LOG_FOLLOWER, LOG_CANDIDATE, LOG_LEADER, LOG_STOPPED };

struct log_reply_to;

/* Called by the replica. ARG is log_config.arg. */
struct log_hooks {
	/* Entry number POS is committed; in order, none left out, none twice after LOAD_POS. Everything
	 * borrowed for the call. */
	void (*committed)(void *arg, uint64_t pos, const struct log_entry *entry,
			  const struct mu_hash *chain);
	/* Role, leader or term changed. LEADER_ID 0: unknown. */
	void (*role)(void *arg, enum log_role role, uint64_t term, uint64_t leader_id);
	/* A snapshot is due: the application makes its rows at exactly its present position (that of the last
	 * committed()) durable and calls log_replica_snapshot_ready with that position, now or later. Entries
	 * go on being committed meanwhile. */
	void (*snapshot_due)(void *arg);
	/* The leader wants to install POINTER on us (we lag too far). The application fetches the rows from
	 * peer FROM on another thread and calls log_replica_install_ready(ok). Until then the message is held
	 * back. Called again while it repeats: ignore when busy. */
	void (*install)(void *arg, const struct log_pointer *pointer, uint64_t from);
	/* Switch to the rows fetched for POINTER; all later entries follow by committed. Also called at start
	 * with the stored snapshot. 0 or a code. */
	int (*restore)(void *arg, const struct log_pointer *pointer);
	/* A message from another controller (log_replica_send, log_replica_call). REPLY is NULL for a send;
	 * else answer it once, now or later, with log_replica_answer. BYTES borrowed. */
	void (*message)(void *arg, uint64_t from, uint16_t kind, struct mu_view bytes,
			struct log_reply_to *reply);
	/* Nothing can go on: a write failed, storage is damaged, the library is unavailable. Must not return.
	 */
	void (*fatal)(void *arg, const char *sentence);
	/* One sentence for the diagnostics (founding waits for whom, a peer was refused and why). NULL: not
	 * told. */
	void (*say)(void *arg, const char *sentence);
};

struct log_config {
	uv_loop_t *loop;
	const char *dir;    /* data directory of the replica; must exist, mode 0700 */
	const char *listen; /* numeric "ip:port" for peers */
	const char *name;
	uint8_t cluster_key[32]; /* secret shared by controllers; proves peers to each other */
	uint8_t cluster_id[16];	 /* in every hello; zero before founding */
	unsigned election_msec, heartbeat_msec;
	uint64_t snapshot_bytes, snapshot_entries, trailing_entries; /* 64 MiB, 8192, 2048 */
	/* Founding members (names and addresses; ids are drawn by the disks), used only when the directory is
	 * empty and found is set; the same on every founding controller, our own name among them. A lone one
	 * founds at once. Several ask each other until all are empty and reachable; where one answers with a
	 * log that does not list this disk, this replica waits to be added. */
	bool found;
	struct log_member founder[LOG_MEMBERS_MAX];
	unsigned founders;
	struct log_hooks hooks;
	void *arg;
};

/* Opens the directory (made by an earlier start or empty) and starts. The replica's id is read from, or drawn
 * into, the directory. A damaged directory, another cluster's, or one in use is refused: 0, MU_EIO, MU_EBUSY,
 * MU_ECORRUPT, MU_EVERSION, MU_EINVAL. Entries up to the application's own position are delivered again from
 * the snapshot on; the application skips what it has. CONFIG's texts are copied. restore() may be called
 * before this returns. After a failure the caller ends: handles of the loop may be left open. */
int log_replica_open(const struct log_config *config, struct log_replica **ret, struct mu_err *err);
/* Stops cleanly (hands leadership over when it leads, waiting one election time-out at most), then calls DONE
 * on the loop. Proposals and calls that are open end with MU_EUNKNOWN and MU_ECONNECT before. May be called
 * from any callback of ours. */
void log_replica_close(struct log_replica *r, void (*done)(void *arg), void *arg);

/* Proposes one entry of COUNT parts (copied). CODE in the callback: 0 committed at POS (committed() was
 * called before), MU_ENOTLEADER (certainly not in the log), MU_EUNKNOWN (may still commit). Returns 0,
 * MU_ENOTLEADER, MU_ELIMIT, MU_EBUSY (too much in flight). */
typedef void (*log_proposed)(void *arg, int code, uint64_t pos);
int log_replica_propose(struct log_replica *r, int64_t time_usec, const struct log_part *parts, size_t count,
			log_proposed cb, void *arg);
uint64_t log_replica_in_flight_bytes(const struct log_replica *r);
enum {
	LOG_IN_FLIGHT_BYTES = 8 << 20,
	LOG_IN_FLIGHT_ENTRIES = 1024
}; /* MU_EBUSY beyond; both well below the trailing entries */

uint64_t log_replica_id(const struct log_replica *r);
void log_replica_cluster(const struct log_replica *r,
			 uint8_t ret[16]); /* zero before founding or being added */
enum log_role log_replica_role(const struct log_replica *r);
uint64_t log_replica_term(const struct log_replica *r);
uint64_t log_replica_leader(const struct log_replica *r); /* id, 0 unknown */
uint64_t log_replica_pos(const struct log_replica *r);	  /* last delivered by committed */
const struct mu_hash *log_replica_chain(const struct log_replica *r);
/* True while a majority has acknowledged this leader within half an election timeout: reads at
 * log_replica_pos are current. */
bool log_replica_lease(const struct log_replica *r);
size_t log_replica_members(const struct log_replica *r, struct log_member *ret, size_t cap);
bool log_replica_peer_up(const struct log_replica *r,
			 uint64_t id); /* heard from within an election timeout */

void log_replica_snapshot_ready(struct log_replica *r, const struct log_pointer *pointer);
void log_replica_install_ready(struct log_replica *r, const struct log_pointer *pointer, bool ok);

/* How far the clock of replica ID was ahead of ours when it was last heard, in microseconds (half the round
 * trip uncertain). 0 or MU_ENOENT. */
int log_replica_clock_offset(const struct log_replica *r, uint64_t id, int64_t *ret_usec);

/* Messages between controllers over the same proven, encrypted connections. BYTES are copied; at most 16 MiB.
 * KIND below 0xff00. send: may be lost. call: CB exactly once, later, with 0 and the answer (borrowed),
 * MU_ETIMEOUT, or MU_ECONNECT. Both return 0, or MU_ECONNECT (not connected at this moment), MU_EBUSY (too
 * much is queued for that peer), MU_ELIMIT; then CB is never called. */
typedef void (*log_answered)(void *arg, int code, struct mu_view bytes);
int log_replica_send(struct log_replica *r, uint64_t to, uint16_t kind, struct mu_view bytes);
int log_replica_call(struct log_replica *r, uint64_t to, uint16_t kind, struct mu_view bytes,
		     unsigned timeout_msec, log_answered cb, void *arg);
void log_replica_answer(struct log_replica *r, struct log_reply_to *reply,
			struct mu_view bytes); /* takes REPLY */

/* Membership: leader only, one at a time, and only while every voter (but the one to remove) is up and level,
 * so that a change never meets another failure. Returns 0, then CB comes exactly once with 0 or a code (POS
 * is 0); or MU_ENOTLEADER, MU_EBUSY, MU_ENOENT, MU_EEXIST, MU_ENOTREADY with what is missing in ERR, and CB
 * never comes. add: joins as a replica that follows the log without a vote; id 0: whoever proves the key at
 * that address and is empty. promote: becomes a voter when level (MU_ETIMEOUT after 60 s). remove: of the
 * leader itself hands leadership over and ends with MU_ENOTLEADER: ask the next leader. transfer: MU_ETIMEOUT
 * when the other does not lead after one election time-out. */
int log_replica_add(struct log_replica *r, const struct log_member *m, log_proposed cb, void *arg,
		    struct mu_err *err);
int log_replica_promote(struct log_replica *r, uint64_t id, log_proposed cb, void *arg, struct mu_err *err);
int log_replica_remove(struct log_replica *r, uint64_t id, log_proposed cb, void *arg, struct mu_err *err);
int log_replica_transfer(struct log_replica *r, uint64_t to /* 0: the most level voter */, log_proposed cb,
			 void *arg, struct mu_err *err);
/* Offline: makes a cluster of one out of DIR (an operator has lost the others). New replica id and cluster
 * generation: the others, should they come back, are shut out. Runs its own loop; DIR must not be in use. 0,
 * or as log_replica_open. */
int log_replica_recover(const char *dir, const char *name, const char *address, struct mu_err *err);

/* Copies DIR, which a replica of this process uses, to TO, which must not be there: what a power cut would leave, so that
 * log_replica_recover takes it. To be called on the loop's thread; some 10 ms. 0, MU_EIO, MU_EBUSY (its files did not come to
 * rest). */
int log_replica_backup(const char *dir, const char *to, struct mu_err *err);

/* Counters for sdiag and metrics. */
struct log_stats {
	uint64_t proposed, committed, bytes, apply_usec_max, loop_stall_usec_max,
	    loop_stalls, loop_stall_cpu_usec_max; /* stall: core thread busy over 10 ms; of it, on a CPU */
	uint64_t elections, snapshots, installs, held, dropped;
	uint64_t last_commit_latency_usec;
};
void log_replica_stats(struct log_replica *r, struct log_stats *ret, bool reset_max);

#endif
