/* query/view.h: the materialized view in RocksDB: current rows, history, archive, blobs, checkpoints.
 *
 * Owns: one RocksDB directory. One writer at a time (view_apply, view_switch, view_backfill* and view_close
 * exclude each other), any number of reading threads. Leaves to others: threads, sockets, proposing. Of an
 * entry it knows what log/entry.h draws: header, parts, leaves, chain. What is let go and when: query/keep.h.
 * query/store.h draws the column
 * families, keys and values. */
#ifndef QUERY_VIEW_H
#define QUERY_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/base/hash.h"
#include "sched/sched.h"

struct view;

/* Opens or creates DIR (mode 0700). READ_ONLY opens an existing one beside its writer or after it, as it is
 * now. 0, MU_EIO (also when another process holds it), MU_ENOENT (read only, nothing there), MU_ECORRUPT,
 * MU_EDISKFULL, MU_EVERSION (another format). */
int view_open(const char *dir, bool read_only, struct view **ret, struct mu_err *err);
struct view *view_close(struct view *v); /* NULL is accepted */

/* One part of an entry as archived. */
struct view_part {
	uint8_t kind; /* 1 event, 2 blob, as in log/entry.h */
	struct mu_view bytes;
};
/* One row as evolve left it at this position. */
struct view_row {
	struct sch_key key;
	bool gone;
	struct mu_view row; /* empty when gone */
};
/* Everything that one committed entry did. Borrowed for the call. */
struct view_entry {
	uint64_t pos;
	int64_t time_usec;
	struct mu_view header; /* the entry's 32 header bytes */
	const struct view_part *parts;
	size_t part_count;
	struct mu_hash chain;
	struct mu_hash digest;
	const struct view_row *rows;
	size_t row_count;
};
/* Applies COUNT consecutive entries in one batch (WAL on, no sync). Entries at or below the applied position
 * are skipped. A job row in an ended state (and a requeued attempt) is also written to history with its
 * steps. After a kill at any instant the view stands at the end of some batch. 0; MU_EINVAL (the first new
 * entry does not follow the applied position), MU_ECORRUPT (an entry's chain value does not follow from the
 * one before), MU_EDISKFULL, MU_EIO. After MU_EIO and MU_EDISKFULL the batch may or may not be there; open
 * the view again to know. Blocks on the disk; now and then it writes a checkpoint behind the batch (up to
 * some 10 ms). */
int view_apply(struct view *v, const struct view_entry *entries, size_t count, struct mu_err *err);
/* Makes everything applied so far durable (before Raft may truncate). */
int view_sync(struct view *v, struct mu_err *err);
uint64_t view_pos(const struct view *v); /* applied position; any thread */
/* Chain and digest at the applied position. */
void view_tip(const struct view *v, struct mu_hash *ret_chain, struct mu_hash *ret_digest,
	      int64_t *ret_time_usec);
/* Blocks until view_pos >= POS, at most TIMEOUT_MSEC; true when reached. Any thread. */
bool view_wait(struct view *v, uint64_t pos, unsigned timeout_msec);

/* Loads the current rows into a fresh State, given to the caller, and checks it against the recorded position
 * and digest. 0, MU_ECORRUPT, MU_EIO. */
int view_load_state(struct view *v, struct sch_state **ret, struct mu_err *err);

/* Checkpoints for --at: full sets and deltas, chosen by the view from the entries applied since (steps of
 * evolve, bytes). */
/* State at POS, given to the caller: nearest checkpoint at or before it + evolve over the archive, checked
 * against the digest recorded at POS. MU_ENOENT when POS is in the future, forgotten or not filled in yet;
 * MU_ECORRUPT. Any thread; costs up to 0.3 s. */
int view_state_at(struct view *v, uint64_t pos, struct sch_state **ret, struct mu_err *err);
/* The last position whose time is <= USEC (0 before the first). MU_ENOTREADY when that lies in history still
 * being filled in. */
int view_pos_at(struct view *v, int64_t usec, uint64_t *ret_pos, struct mu_err *err);

/* Chain, digest and time recorded at POS; MU_ENOENT when it is not in the archive. RET_DIGEST_KNOWN false:
 * the digest was not recorded. */
int view_mark(struct view *v, uint64_t pos, struct mu_hash *ret_chain, struct mu_hash *ret_digest,
	      bool *ret_digest_known, int64_t *ret_time_usec, struct mu_err *err);
/* Archive. OUT gets the raw entry (header + parts, unpadded, as log/entry.h); MU_ENOENT when not there. */
int view_entry_get(struct view *v, uint64_t pos, struct mu_buf *out, struct mu_hash *ret_chain,
		   struct mu_err *err);
/* Calls FN for each request in the entries FROM..TO that changed nothing: its part, and why (TEXT is borrowed for the
 * call). 0, MU_EIO. */
typedef void (*view_refusal_fn)(void *arg, uint64_t pos, uint32_t part, int32_t code, struct mu_view text);
int view_refusals(struct view *v, uint64_t from, uint64_t to, view_refusal_fn fn, void *arg, struct mu_err *err);
uint64_t view_archive_first(struct view *v); /* lowest archived position; 0: none */
/* Recomputes leaves and chain over FROM..TO (0: from the first, up to the applied position); where the archive was cut,
 * the chain begins with the value in the cut's statement, whose signature is the caller's to check: 0, or
 * MU_ECORRUPT (MU_EIO where the disk refuses) with RET_BAD the first position that is wrong, missing or
 * unreadable. Parts that are no longer kept are taken by their leaf. */
int view_verify(struct view *v, uint64_t from, uint64_t to, uint64_t *ret_bad, struct mu_err *err);
int view_blob_get(struct view *v, const uint8_t hash[MU_HASH_BYTES], struct mu_buf *out, struct mu_err *err);

/* Snapshot transfer: an immutable image (RocksDB snapshot) of rows at exactly the applied position, read page
 * by page. */
struct view_image;
int view_image_open(struct view *v, struct view_image **ret, uint64_t *ret_pos, struct mu_err *err);
/* Appends rows (u8 kind, u8 key length, key, u32 row length, row) behind *CURSOR until about MAX bytes;
 * *ret_more false at the end. */
/* CURSOR is empty at first and may travel: any image of the same position goes on from it. */
int view_image_read(struct view_image *im, struct mu_buf *cursor, size_t max, struct mu_buf *out,
		    bool *ret_more, struct mu_err *err);
struct view_image *view_image_close(struct view_image *im);
/* Receiving side: puts the rows of one page into a State under construction (sch_load_row); sch_load_done is
 * the caller's, after the last page. 0, MU_EPROTO, MU_ECORRUPT. */
int view_image_feed(struct sch_state *st, struct mu_view page, struct mu_err *err);
/* Receiving side: rows of an image go into a fresh State (sch_load_row); view_switch replaces the current
 * rows and the applied position by it in one batch. History and archive below are filled in afterwards by
 * view_backfill. */
int view_switch(struct view *v, const struct sch_state *st, const struct mu_hash *chain, struct mu_err *err);
/* The lowest position that is still to be filled in after a switch; 0: none. It survives a restart. */
uint64_t view_backfill_next(struct view *v);
/* Adds the archived entry POS (raw bytes from a peer's view_entry_get), in order from view_backfill_next. It
 * is chained to the one before and folded: history records and checkpoints come from that. At the last one
 * chain and digest must be those of the switch: MU_ECORRUPT otherwise, as for an entry that does not follow.
 * Entries filled in already are accepted and ignored. MU_EINVAL out of order. */
int view_backfill(struct view *v, uint64_t pos, struct mu_view raw, const struct mu_hash *chain,
		  struct mu_err *err);
/* History records of jobs, page by page, as a peer takes them over: be32 job, be32 record, u32 length
 * (big-endian), value; until about MAX bytes. CURSOR is empty at first. */
int view_hist_read(struct view *v, struct mu_buf *cursor, size_t max, struct mu_buf *out, bool *ret_more,
		   struct mu_err *err);
/* Takes over one history record of a peer (key and value of its hist family) where the archive below is no
 * longer kept. */
int view_backfill_hist(struct view *v, struct mu_view key, struct mu_view hist_row, struct mu_err *err);

/* Copies everything, as of one position, to DIR, which must not be there; files that never change again are links where the
 * disk is the same one. Any thread, beside the writer. 0 or MU_EIO. */
int view_backup(struct view *v, const char *dir, struct mu_err *err);

/* Counters since the start, and sizes. */
struct view_stats {
	uint64_t batches, entries, rows;
	uint64_t checkpoint_deltas, checkpoint_fulls, checkpoint_rows;
	uint64_t fill_from, fill_to; /* history being filled in; 0: none */
	uint64_t hist_records;	     /* an estimate */
	uint64_t kept_rounds, dropped_jobs, dropped_blobs, dropped_moments, dropped_checkpoints; /* by retention */
	uint64_t cut_pos;
	uint64_t disk_bytes, memory_bytes;
};
void view_stats(struct view *v, struct view_stats *ret);

#endif
