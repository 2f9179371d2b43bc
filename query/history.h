/* query/history.h: the verbs over a whole archive: replay, verify, dump. For muster-history (offline, on a
 * view opened for reading) and for a controller that answers the same.
 *
 * Owns: walking the archive. Leaves to others: options, printing of results, following a live log (view_wait
 * and hist_dump). */
#ifndef QUERY_HISTORY_H
#define QUERY_HISTORY_H

#include "query/dump.h"
#include "query/view.h"

/* What a replay came to. */
struct hist_replay {
	uint64_t first, last;	      /* positions folded; 0 and 0: none */
	uint64_t events;	      /* event parts folded */
	uint64_t voided;	      /* of them, events that did not fit */
	uint64_t digests_checked;     /* positions at which a recorded digest was there to compare with */
	struct mu_hash chain, digest; /* at LAST: recomputed from the entries, not read */
	int64_t time_usec;
};
/* Tells how far a replay has come, every 1,024 entries; a non-zero return ends it and is returned. May be
 * NULL. */
typedef int (*hist_progress)(void *arg, uint64_t pos, uint64_t to);

/* Folds the archive through sch_evolve over FROM..TO (0: from the first entry, up to the applied position),
 * beginning with an empty State at position 1, else with the State of FROM - 1. Chain and digest are
 * recomputed and compared at every position. 0; MU_ECORRUPT with *RET_BAD the first position at which
 * something differs or is missing; MU_EVERSION (an event that this version does not know; *RET_BAD);
 * MU_ENOENT (FROM is not in the archive). Blocks: some 10 us an event. RET is filled as far as it got. */
int hist_replay(struct view *v, uint64_t from, uint64_t to, hist_progress progress, void *arg,
		struct hist_replay *ret, uint64_t *ret_bad, struct mu_err *err);

/* Sees each event of a walk twice: before it is folded (VERDICT NULL) and after. STATE is as it is then.
 * Borrowed for the call. A non-zero return ends the walk and is returned. */
typedef int (*hist_event)(void *arg, const struct sch_state *st, const struct sch_at *at,
			  const uint8_t *event, size_t len, const struct sch_verdict *verdict);
/* hist_replay that shows each event to EVENT. */
int hist_walk(struct view *v, uint64_t from, uint64_t to, hist_event event, void *arg,
	      struct hist_replay *ret, uint64_t *ret_bad, struct mu_err *err);

/* Shows each entry FROM..TO (0: up to the applied position) with its events; nothing is folded or checked.
 * Borrowed for the call. A non-zero return ends it and is returned. MU_ENOENT, MU_ECORRUPT. */
typedef int (*hist_entry)(void *arg, uint64_t pos, int64_t time_usec, const struct mu_view *event,
			  size_t count);
int hist_entries(struct view *v, uint64_t from, uint64_t to, hist_entry entry, void *arg, struct mu_err *err);

/* What deciding again came to. */
struct hist_audit {
	uint64_t passes, equal; /* slices in the range that were decided again; that came out the same */
	uint64_t unchecked;	/* by another planner version, or over a State that is no longer kept */
	uint64_t starts;	/* jobs that they started */
	uint32_t planner;	/* the version that this program is */
};
/* Decides every recorded slice FROM..TO (0: all) again over the State at its basis and compares what comes of
 * it with what was recorded, byte for byte. 0; MU_ECORRUPT with *RET_BAD the position of the first that
 * differs and both of them in DIFFERENCE (text lines; may be NULL); else as hist_replay. */
int hist_audit(struct view *v, uint64_t from, uint64_t to, struct hist_audit *ret, uint64_t *ret_bad,
	       struct mu_buf *difference, struct mu_err *err);

/* Prints the entries FROM..TO (0: from the first archived, up to the applied position), one line for each
 * part, as query/dump.h shows. Entries whose parts are no longer all kept are printed as one line of kind
 * "forgotten". 0, what SINK returned, MU_ENOENT, ... */
int hist_dump(struct view *v, uint64_t from, uint64_t to, bool json, dump_sink sink, void *arg,
	      struct mu_err *err);

#endif
