/* query/keep.h: letting history go, tier by tier, as the configuration asks (proto/keep.def).
 *
 * Owns: what goes and in which order, the statement of a cut, and how far each tier was let go. Each
 * controller does this for itself, by the time of its own position, so it needs no entry of the log; State,
 * chain and digests stay what they are.
 *
 * Entries go up to a checkpoint, all at once in one batch: entries, parts, older checkpoints; with them comes
 * a Mu__Cut that says up to where, with which chain value and digest, by whose configuration, signed. Replay
 * then begins with the State of that checkpoint. Everything else goes in small rounds, each a batch; how far
 * a tier was let go is in the first of them, so a kill at any moment only means that the next round goes on.
 * Leaves to others: threads, intervals, keys. */
#ifndef QUERY_KEEP_H
#define QUERY_KEEP_H

#include "proto/keep.h"
#include "query/view.h"

/* Signs a cut's statement. */
enum { KEEP_SIGN_BYTES = 64 };
typedef void (*keep_sign)(void *arg, uint64_t pos, const struct mu_hash *statement,
			  uint8_t ret[KEEP_SIGN_BYTES]);

/* What a round came to. */
struct keep_round {
	uint64_t cut_pos; /* entries went up to here; 0: none went */
	uint64_t jobs, steps, blobs, moments, checkpoints;
	bool more; /* another round at once would find more */
};
/* One round over all tiers, bounded in records. Any thread, one at a time, beside the writer, whom it holds
 * up for a batch (some milliseconds). Nothing happens while history is being filled in. 0 or an error; what
 * was let go stays so. */
int view_keep(struct view *v, keep_sign sign, void *arg, struct keep_round *ret, struct mu_err *err);
/* The shortest span that any tier is kept for, in seconds; 0: everything is kept for ever. Any thread. */
int64_t view_keep_shortest_sec(struct view *v);

/* The statement of the archive's cut, in ARENA: 0, or MU_ENOENT where it was never cut. */
int view_cut(struct view *v, struct mu_arena *arena, Mu__Cut **ret, struct mu_err *err);

/* What lies below the cut, for one who has less: pages as of view_image_read, of an image of a cut archive.
 */
int view_base_read(struct view_image *im, struct mu_buf *cursor, size_t max, struct mu_buf *out,
		   bool *ret_more, struct mu_err *err);
/* Takes a page over; shows nowhere yet. 0, MU_EPROTO, ... */
int view_base_take(struct view *v, struct mu_view page, struct mu_err *err);
/* After the last page, while history is being filled in and its next entry is to be had nowhere: the archive
 * begins at that cut now and is filled in from there. 0; MU_ECORRUPT (the State there is not the one in the
 * statement), MU_EINVAL. By the writer's thread. */
int view_base_done(struct view *v, struct mu_err *err);
/* The same for a view with nothing in it: its present is the State at that cut. Where it fails the view is good for nothing. */
int view_base_begin(struct view *v, struct mu_err *err);

#endif
