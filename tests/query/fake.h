/* tests/query/fake.h: a State whose events say which rows to write, in the place of sched, so that the view
 * can be driven by any stream of rows; and a generator of such streams with the life of jobs in them. */
#ifndef TESTS_QUERY_FAKE_H
#define TESTS_QUERY_FAKE_H

#include "proto/base/seed.h"
#include "query/view.h"

/* One entry of a generated log, whole and as the projector gets it. */
struct fake_entry {
	struct mu_buf raw; /* header and parts */
	struct mu_arena arena;
	struct view_entry e; /* rows and parts borrowed from the arena */
};
struct fake_log {
	struct mu_seed seed;
	struct sch_state *st;
	struct fake_entry *v; /* v[i] is position i + 1 */
	size_t count, cap;
	uint32_t jobs;
	struct sch_verdict verdict; /* of the last event */
	unsigned events_each;	    /* events in one entry, at most; below 60 */
};
void fake_log_init(struct fake_log *log, uint64_t seed);
void fake_log_grow(struct fake_log *log, size_t count); /* up to COUNT entries in all */
void fake_log_done(struct fake_log *log);

/* Appends an event that writes (or, ROW empty, removes) one row. */
void fake_event(struct mu_buf *event, uint8_t kind, const void *row, size_t len, const struct sch_key *gone);
/* Makes the next entry out of PARTS parts (kind 1 event, 2 blob). */
void fake_log_add(struct fake_log *log, int64_t time_usec, const struct view_part *parts, size_t count);

/* Removes DIR and the plain files in it, where it exists. */
void fake_remove_dir(const char *dir);

#endif
