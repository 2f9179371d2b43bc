/* tests/log/world.h: a cluster of guarded replicas in virtual time, with chaos around it and judges over it.
 *
 * Each server is libraft's core behind log/guard on sim_io's disk and network, with positions, chain and
 * snapshots as pointers as log/replica has them, and an application from a table of functions: a counter for
 * the log's own fuzzer, the scheduler's State for the whole one. Judges: one history of (bytes, chain,
 * digest) over all servers, restarts and installations; what was acknowledged is what was applied; a leader
 * holds everything applied in earlier terms; one leader a term; and when the chaos ends, a leader, commits
 * and level members within 60 virtual seconds. */
#ifndef TESTS_LOG_WORLD_H
#define TESTS_LOG_WORLD_H

#include "log/entry.h"
#include "log/guard.h"
#include "tests/log/sim_io.h"

enum world_area {
	WORLD_CUTS = 1,	     /* cuts by direction, loss */
	WORLD_CRASHES = 2,   /* restarts that forget what was not synced */
	WORLD_FAULTS = 4,    /* failing writes */
	WORLD_SNAPSHOTS = 8, /* snapshots every few entries, installations */
	WORLD_MEMBERS = 16,  /* two more servers, which come and go */
	WORLD_TRANSFER = 32, /* leadership handed over */
	WORLD_REORDER = 64,  /* messages overtake and repeat, in half of the seeds */
	WORLD_SLOW = 128,    /* disks that take up to a second */
	WORLD_SMALL = 256 /* AppendEntries cut to a few entries, peers' queues full, in half of the seeds */
};

enum world_result {
	WORLD_GOOD = 0,
	WORLD_DIVERGED =
	    1, /* two servers applied different entries, or their chain, digest or acknowledgement differs */
	WORLD_TWO_LEADERS = 2,
	WORLD_LOST = 3, /* a leader lacks an applied entry */
	WORLD_NO_PROGRESS = 4,
	WORLD_BEHIND = 5,   /* a member does not catch up */
	WORLD_NO_START = 6, /* a server does not start, or gives up again and again */
	WORLD_LOG_HOLE = 7, /* core and disk are apart */
	WORLD_APP = 8,	    /* the application's judge */
	WORLD_RESULTS = 9
};

struct world;
enum { WORLD_PARTS = 8 };

/* The application. ST is one server's memory; WORLD_ARG is shared by all and outlives crashes (agents,
 * clients). */
struct world_app {
	void *(*open)(void *world_arg, unsigned server);
	void (*close)(void *st);
	void (*apply)(void *st, uint64_t pos, const struct log_entry *entry);
	void (*digest)(void *st, struct mu_hash *ret);
	void (*rows)(void *st, struct mu_buf *out);		    /* the whole state */
	bool (*restore)(void *st, const uint8_t *rows, size_t len); /* into a fresh one; false: broken */
	/* Fills the parts of the next entry that a leader proposes, and its time; returns their number, 0:
	 * nothing now. Bytes stay the application's until the next call. */
	size_t (*propose)(void *st, int64_t now_usec, struct log_part ret_part[WORLD_PARTS],
			  int64_t *ret_time_usec);
	void (*deposed)(void *st); /* this server leads no more. May be NULL */
	void (*step)(void *world_arg,
		     int64_t now_usec);	       /* after every event: agents and clients act. May be NULL */
	const char *(*judge)(void *world_arg); /* NULL: all is well */
	bool (*progressed)(void *world_arg);   /* after healing; may be NULL */
	unsigned propose_msec;		       /* mean time between proposals of a leader */
};

struct world_setup {
	uint64_t seed;
	unsigned areas, founders; /* at most SIM_MAX, two less with WORLD_MEMBERS */
	unsigned closures;	  /* of the guard */
	unsigned wild_msec;	  /* how long the chaos lasts */
	unsigned pace_msec; /* shortest mean time between two acts of chaos; 0: 100; the seed makes it up to
			       16 times that */
	bool one_down;	    /* one founder stays down after it */
	int trace;	    /* 0, 1 the story, 2 every message */
	const struct world_app *app;
	void *arg;
};

/* Runs one world to its end in this process; may crash when the core does. The sentence says what the judges
 * saw. */
enum world_result world_run(const struct world_setup *setup, const char **ret_sentence);

/* Runs SEEDS worlds, each in a process of its own with a bound on CPU, and prints the first failures and a
 * line of counts. Returns the number of failures, crashes and hangs included; adds to UNSAFE (may be NULL)
 * those that lost or changed history. */
unsigned world_run_many(const struct world_setup *setup, uint64_t first, unsigned seeds, unsigned *unsafe);

/* For applications: the present leader's state (the one of the latest term), NULL when there is none; any
 * live server's state. */
void *world_leader(struct world *w);
void *world_state(struct world *w, unsigned server); /* NULL: down */
struct world *world_now(void);			     /* the one that runs */
int64_t world_usec(const struct world *w);
unsigned world_random(struct world *w, unsigned below);
bool world_healed(const struct world *w);
void world_say(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* MUSTER_TEST_SIZE and arguments. */
unsigned world_size(unsigned fast, unsigned ci, unsigned full);

#endif
