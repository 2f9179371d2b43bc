/* query/view.h: the materialized view in RocksDB: current rows, history, archive, blobs, checkpoints.
 *
 * Owns: one RocksDB directory. One writer (the projector thread, through view_apply), any number of reading threads.
 * Leaves to others: threads, sockets, proposing, entry format (the caller gives parts).
 * Column families: rows (kind || key -> row), hist (be32 job, be32 attempt -> HistRow), hist_end (be64 end_usec, job, attempt ->
 * ""), hist_user (user NUL be64 end ...), entry (be64 pos -> header || per part: kind, leaf, length), part (be64 pos, be32 n ->
 * bytes), chain (be64 pos -> 32), time (be64 usec, be64 pos -> ""), blob (hash -> zstd bytes), ckpt (be64 pos, kind, key -> row),
 * meta. */
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

/* Opens or creates DIR. 0, MU_EIO, MU_ECORRUPT. */
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
/* Applies COUNT consecutive entries in one batch (WAL on, no sync). Entries at or below the applied position are skipped.
 * A job row in an ended state (and a requeued attempt) is also written to history with its steps. */
int view_apply(struct view *v, const struct view_entry *entries, size_t count, struct mu_err *err);
/* Makes everything applied so far durable (before Raft may truncate). */
int view_sync(struct view *v, struct mu_err *err);
uint64_t view_pos(const struct view *v); /* applied position; any thread */
/* Chain and digest at the applied position. */
void view_tip(const struct view *v, struct mu_hash *ret_chain, struct mu_hash *ret_digest, int64_t *ret_time_usec);
/* Blocks until view_pos >= POS, at most TIMEOUT_MSEC; true when reached. Any thread. */
bool view_wait(struct view *v, uint64_t pos, unsigned timeout_msec);

/* Loads the current rows into a fresh State. */
int view_load_state(struct view *v, struct sch_state **ret, struct mu_err *err);

/* Checkpoints for --at: full sets and deltas, chosen by the view from the entries applied since (steps of evolve, bytes). */
/* State at POS: nearest checkpoint at or before it + evolve over the archive. MU_ENOENT when POS is in the future or forgotten. */
int view_state_at(struct view *v, uint64_t pos, struct sch_state **ret, struct mu_err *err);
/* The last position whose time is <= USEC (0 before the first). */
int view_pos_at(struct view *v, int64_t usec, uint64_t *ret_pos, struct mu_err *err);

/* Archive. OUT gets the raw entry (header + parts, unpadded, as log/entry.h); MU_ENOENT when not there. */
int view_entry_get(struct view *v, uint64_t pos, struct mu_buf *out, struct mu_hash *ret_chain, struct mu_err *err);
uint64_t view_archive_first(struct view *v); /* lowest archived position; 0: none */
/* Recomputes the chain over FROM..TO (0: all): 0, or MU_ECORRUPT with RET_BAD the first position that is wrong. */
int view_verify(struct view *v, uint64_t from, uint64_t to, uint64_t *ret_bad, struct mu_err *err);
int view_blob_get(struct view *v, const uint8_t hash[MU_HASH_BYTES], struct mu_buf *out, struct mu_err *err);
bool view_blob_has(struct view *v, const uint8_t hash[MU_HASH_BYTES]);

/* Snapshot transfer: an immutable image (RocksDB snapshot) of rows at exactly the applied position, read page by page. */
struct view_image;
int view_image_open(struct view *v, struct view_image **ret, uint64_t *ret_pos, struct mu_err *err);
/* Appends rows (u8 kind, u8 key length, key, u32 row length, row) behind *CURSOR until about MAX bytes; *ret_more false at the end. */
int view_image_read(struct view_image *im, struct mu_buf *cursor, size_t max, struct mu_buf *out, bool *ret_more, struct mu_err *err);
struct view_image *view_image_close(struct view_image *im);
/* Receiving side: rows of an image go into a fresh State (sch_load_row); view_switch replaces the current rows and the applied
 * position by it in one batch. History and archive below are filled in afterwards by view_backfill. */
int view_switch(struct view *v, const struct sch_state *st, const struct mu_hash *chain, struct mu_err *err);
/* Adds archived entries (raw) that lie below the applied position, of a peer; checked against the chain by view_verify. History rows
 * of jobs that ended in them come from folding: the view does that. */
int view_backfill(struct view *v, uint64_t pos, struct mu_view raw, const struct mu_hash *chain, struct mu_err *err);
int view_backfill_hist(struct view *v, struct mu_view key, struct mu_view hist_row, struct mu_err *err);

#endif
