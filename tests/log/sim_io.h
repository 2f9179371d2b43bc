/* tests/log/sim_io.h: several servers' disks and network in one process, on a virtual clock: a raft_io of our
 * own for libraft 0.15.0.
 *
 * What a server has on disk is apart from its process: sim_crash throws the process away and keeps the disk.
 * One disk queue per server works in order (append, truncate, install) with random delays; an append counts
 * as durable when it completes, but a crash may leave a random prefix of the queue done all the same; terms
 * and votes are durable at once. Links have delay, loss and cuts by direction, deliver in order, or (reorder)
 * let messages overtake and repeat, as when connections are replaced. Nothing here is random but by the seed,
 * so a seed is a bug report. Knows libraft's I/O interface only, none of its core, so that it can judge any
 * core. */
#ifndef TESTS_LOG_SIM_IO_H
#define TESTS_LOG_SIM_IO_H

#include <raft.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/seed.h"

enum { SIM_MAX = 8 };

struct sim_entry {
	raft_term term;
	unsigned short type;
	size_t len;
	void *data;
};

struct sim_snapshot {
	raft_index index, conf_index;
	raft_term term;
	struct raft_configuration conf;
	size_t len;
	void *data;
};

/* What survives a crash. */
struct sim_disk {
	raft_term term;
	raft_id vote;
	struct sim_entry *entry;
	raft_index first; /* index of entry[0] */
	size_t count, cap;
	struct sim_snapshot *snapshot;
};

struct sim;
struct sim_op;
struct sim_event;

struct sim_server {
	struct sim *sim;
	unsigned number; /* id is number + 1 */
	unsigned incarnation;
	bool up;
	bool disk_broken; /* every further write fails until the next start */
	char address[24];
	struct raft_io *io; /* of the present process */
	struct sim_disk disk;
	struct sim_op *queue, *queue_last;
	raft_io_tick_cb tick;
	raft_io_recv_cb recv;
	unsigned tick_msec;
	raft_time down_since;

	/* Set by the test at any time. */
	unsigned disk_msec, net_msec; /* mean delays */
	unsigned fail_1000;	      /* of a thousand writes, so many fail */
};

struct sim {
	struct sim_server server[SIM_MAX];
	unsigned count;
	raft_time now;
	struct mu_seed seed;
	bool reorder;
	unsigned loss_1000, repeat_1000;
	bool cut[SIM_MAX][SIM_MAX]; /* from, to */
	raft_time link_free[SIM_MAX][SIM_MAX];
	bool log_hole; /* an append came that does not follow the log on disk: the core and the disk are apart
			*/
	int trace;     /* 2: every message */

	struct sim_event *event; /* heap by time, then by order of birth */
	size_t events, event_cap;
	uint64_t born;
};

void sim_init(struct sim *w, unsigned count, uint64_t seed);
unsigned sim_random(struct sim *w, unsigned below); /* 0 for 0 */
/* A process of server NUMBER starts on its disk; the io is valid until the crash. */
struct raft_io *sim_start(struct sim *w, unsigned number);
/* Its process ends now. Nothing of it is called again; its memory is the caller's. */
void sim_crash(struct sim *w, unsigned number);
/* Calls FN(ARG) after DELAY msec, unless the process of server NUMBER has ended by then. */
void sim_after(struct sim *w, unsigned number, raft_time delay, void (*fn)(void *arg), void *arg);
/* Does the next event, if it comes before or at UNTIL. Returns the server that it concerned, -1 for none of
 * interest, or -2 when there is none before UNTIL; the clock then stands at UNTIL. */
int sim_step(struct sim *w, raft_time until);

#endif
