/* query/store.h: what the files of this room share about the RocksDB directory. Room-internal.
 *
 * Owns: the column families, the keys and values in them, small helpers over RocksDB's C interface.
 * Leaves to others: what is written when (apply.c, hist.c, ckpt.c, image.c).
 *
 * All numbers in keys are big-endian, so that byte order is number order; numbers in values are big-endian
 * too.
 *
 *   meta   "format" -> u32 1
 *          "tip" -> tip (below) of the present; "fill" -> tip of the history being filled in; "fill_to" ->
 * tip it must reach "life" -> i64, the longest time from submission to end of any job in history "copy" ->
 * u64, position of a full checkpoint that is not complete yet 'C' be64 pos, type -> be64 pos of the
 * checkpoint before, u64 rows: index of complete checkpoints (type: 0 full, 1 delta) rows   kind, key -> row;
 * kind | 0x80 for the rows of the history being filled in hist   be32 job, be32 record -> u64 pos, u8 flags,
 * HistRow index  'T' be64 usec, be64 pos -> "" 'E' be64 end_usec, be32 job, be32 record -> u64 submit_usec,
 * u64 pos 'I' uid in decimal NUL, then as 'E'; 'A' account NUL, then as 'E'; 'J', 'N', 'V', 'X', 'Z': moment.c
 * 'R' array NUL be64 0, be32 job, be32 record: ended jobs of an array entry  be64 pos -> chain, digest, u8 digest
 * known, 32 header bytes, u32 parts, per part: u8 kind, leaf, u32 length part   be64 pos, be32 n -> bytes of
 * an event, or the 32-byte hash of a blob; empty: forgotten blob   hash -> bytes (the family is compressed
 * with zstd by RocksDB); empty: forgotten ckpt   be64 pos, type, kind, key -> u8 gone, row
 *
 * What retention adds: meta "cut" -> Mu__Cut, 'K' tier -> i64 usec, what tier is let go up to (keep.c); the use of blobs in
 * index: 'B' hash, kind -> i64 usec, 'b' kind, be64 usec, hash -> "", 'P' piece, list -> "" (blob.c).
 *
 *   tip    u64 pos, i64 time_usec, chain, digest */
#ifndef QUERY_STORE_H
#define QUERY_STORE_H

#include <pthread.h>
#include <rocksdb/c.h>
#include <string.h>

#include "proto/base/map.h"
#include "proto/keep.h"
#include "query/view.h"

enum view_cf {
	VIEW_META,
	VIEW_ROWS,
	VIEW_HIST,
	VIEW_INDEX,
	VIEW_ENTRY,
	VIEW_PART,
	VIEW_BLOB,
	VIEW_CKPT,
	VIEW_CFS
};

enum {
	VIEW_FORMAT = 2,
	VIEW_HEADER = 32,     /* an entry's header, as log/entry.h draws it */
	VIEW_PART_HEADER = 8, /* u32 length, u8 kind, three zero bytes */
	VIEW_PART_EVENT = 1,
	VIEW_PART_BLOB = 2,
	VIEW_PART_GONE = 0x80, /* bit: the bytes are the leaf and u32 length of what is no longer kept */
	VIEW_GONE_BYTES = MU_HASH_BYTES + 4,
	VIEW_ENTRY_HEAD = 2 * MU_HASH_BYTES + 1 + VIEW_HEADER + 4, /* fixed part of an entry record */
	VIEW_LEAF_BYTES = 1 + MU_HASH_BYTES + 4,
	VIEW_TIP_BYTES = 8 + 8 + 2 * MU_HASH_BYTES,
	VIEW_KEY_MAX = 1 + SCH_KEY_MAX,
	VIEW_SHADOW = 0x80,	    /* kind bit of rows that belong to the history being filled in */
	VIEW_PARTS_MAX = 4096,	    /* as LOG_PARTS_MAX */
	VIEW_HIST_HEAD = 8 + 8 + 1, /* positions and flags before a HistRow */
	VIEW_HIST_SUPERSEDED = 1,   /* flag: the job went on in a later record (requeue) */
	VIEW_PAST_STATES = 4,	    /* past States kept for --at; each as large as State was then */
};

/* What is applied: the position and what stands at it. */
struct view_tip {
	uint64_t pos;
	int64_t time_usec;
	struct mu_hash chain, digest;
};

/* A sequence of entries being applied, with its rows and its checkpoints. The present is one; history that is
 * filled in below it, after a snapshot was received, is another. */
struct view_line {
	uint8_t shadow; /* 0 or VIEW_SHADOW */
	const char *tip_key;
	struct view_tip tip;
	struct mu_map node_faces; /* name -> hash of a node's face, as last seen (moment.c) */
	/* Checkpoints. */
	struct mu_map dirty; /* row keys changed since the last checkpoint -> struct view_dirty (ckpt.c) */
	size_t dirty_bytes;  /* of the rows kept in it */
	bool
	    dirty_known; /* false after a start that did not follow a checkpoint: the next one must be full */
	uint64_t weight; /* cost of folding from the last checkpoint on (see ckpt.c) */
	uint64_t last_pos;			 /* last checkpoint's position; 0: none */
	uint64_t full_rows;			 /* rows of the last full one */
	uint64_t delta_rows;			 /* rows of the deltas since */
	unsigned deltas;			 /* how many */
	const rocksdb_snapshot_t *copy_snapshot; /* a full checkpoint is being copied */
	rocksdb_readoptions_t *copy_read;
	rocksdb_iterator_t *copy;
	uint64_t copy_pos, copy_rows;
};

/* A past State that queries read. */
struct view_past {
	uint64_t pos; /* 0: free */
	uint64_t used;
	unsigned readers;
	struct sch_state *state;
	pthread_mutex_t reading; /* one State belongs to one thread at a time */
};

struct view {
	rocksdb_t *db;
	rocksdb_cache_t *cache;
	rocksdb_options_t *options[VIEW_CFS];
	rocksdb_column_family_handle_t *cf[VIEW_CFS];
	rocksdb_readoptions_t *read;
	rocksdb_writeoptions_t *write;
	bool read_only;

	pthread_mutex_t writer; /* apply, switch, backfill, close */
	struct view_line now, fill;
	struct view_tip fill_to; /* pos 0: nothing is being filled in */
	struct sch_state *fill_state;
	int64_t life_usec;

	pthread_mutex_t lock; /* tip as readers see it, and what follows */
	pthread_cond_t moved;
	struct view_tip seen;
	unsigned private_data; /* enum view_private */
	/* Retention: what the configuration asks for, and what was let go. */
	int64_t keep_sec[MU_KEEP_TIERS];
	int64_t kept_usec[MU_KEEP_TIERS]; /* what ended before is gone; 0: nothing is */
	uint64_t cut_pos;		  /* entries up to it are gone; 0: none */
	int64_t cut_usec;

	pthread_mutex_t past_lock;
	struct view_past past[VIEW_PAST_STATES];
	uint64_t past_clock;
	struct view_stats stats;
};
enum view_private {
	VIEW_PRIVATE_JOBS = 1,
	VIEW_PRIVATE_NODES = 2,
	VIEW_PRIVATE_ACCOUNTS = 4,
	VIEW_PRIVATE_USERS = 8,
	VIEW_PRIVATE_USAGE = 16,
	VIEW_PRIVATE_RESERVATIONS = 32,
	VIEW_PRIVATE_EVENTS = 64
};

/* Rows and history records of the batch being built: seen before they are written. */
struct view_pending {
	struct mu_map map; /* kind, key -> struct view_pending_row; history under kind VIEW_PENDING_HIST */
	struct mu_arena arena;
};
#define VIEW_STAGED_CUT "staged_cut" /* meta: the statement that base.c is taking over */
#define VIEW_RECORD_WAITED 0x80000000u /* bit of a record of a job that ended while it waited */
enum { VIEW_PENDING_HIST = 0xF0 };
struct view_pending_row {
	bool gone;
	struct mu_view bytes;
	uint64_t entry_pos; /* of a history record: the entry that wrote it last */
};

/* One batch under construction for LINE. */
struct view_batch {
	struct view *v;
	struct view_line *line;
	rocksdb_writebatch_t *wb;
	struct view_pending pending;
	int64_t life_usec;
};

/* ---- store.c ---- */
/* Takes RocksDB's MESSAGE (freed) and turns it into a code: MU_ECORRUPT, MU_EDISKFULL or MU_EIO. */
int view__fail(struct mu_err *err, char *message, const char *doing);
/* The value of KEY appended to OUT: 0, MU_ENOENT or an error. SNAPSHOT options READ may be NULL. */
int view__get(struct view *v, const rocksdb_readoptions_t *read, enum view_cf cf, const void *key, size_t len,
	      struct mu_buf *out, struct mu_err *err);
bool view__has(struct view *v, enum view_cf cf, const void *key, size_t len);
void view__put(struct view *v, rocksdb_writebatch_t *wb, enum view_cf cf, const void *key, size_t len,
	       const void *value, size_t value_len);
void view__del(struct view *v, rocksdb_writebatch_t *wb, enum view_cf cf, const void *key, size_t len);
/* Removes every key in [FROM, TO). */
void view__del_range(struct view *v, rocksdb_writebatch_t *wb, enum view_cf cf, struct mu_view from,
		     struct mu_view to);
int view__write(struct view *v, rocksdb_writebatch_t *wb, const char *doing, struct mu_err *err);

/* Iterates over [FROM, TO) of one family; TO empty: to its end. Zero-initialise; done with view__scan_done
 * (cleanup attribute). */
struct view_scan {
	rocksdb_readoptions_t *read;
	rocksdb_iterator_t *it;
	uint8_t upper[VIEW_KEY_MAX + 64];
};
void view__scan(struct view *v, const rocksdb_snapshot_t *snapshot, enum view_cf cf, struct mu_view from,
		struct mu_view to, struct view_scan *scan);
bool view__scan_valid(const struct view_scan *scan);
struct mu_view view__scan_key(const struct view_scan *scan);
struct mu_view view__scan_value(const struct view_scan *scan);
void view__scan_next(struct view_scan *scan);
int view__scan_end(const struct view_scan *scan, const char *doing,
		   struct mu_err *err); /* 0, or why it stopped early */
void view__scan_done(struct view_scan *scan);

/* Turns PREFIX in place into the key that ends the range of all keys beginning with it; returns its length
 * (0: no end). */
size_t view__after_prefix(uint8_t *prefix, size_t len);
void view__tip_pack(const struct view_tip *tip, uint8_t out[VIEW_TIP_BYTES]);
int view__tip_unpack(struct mu_view bytes, struct view_tip *ret);
int view__tip_read(struct view *v, const rocksdb_readoptions_t *read, const char *key, struct view_tip *ret,
		   struct mu_err *err);

void view__count(struct view *v, uint64_t *counter, uint64_t n); /* a counter in v->stats */

/* ---- apply.c ---- */
int view__apply(struct view_batch *b, const struct view_entry *entry, struct mu_err *err);
/* The row as the batch leaves it: 1 found (BYTES borrowed from the batch or from HOLD), 0 absent, or an
 * error. */
int view__row(struct view_batch *b, uint8_t kind, const void *key, size_t len, struct mu_buf *hold,
	      struct mu_view *ret, struct mu_err *err);
struct view_pending_row *view__pending_put(struct view_batch *b, uint8_t kind, const void *key, size_t len,
					   struct mu_view bytes, bool gone);
void view__batch_begin(struct view_batch *b, struct view *v, struct view_line *line);
void view__batch_done(struct view_batch *b);
/* Writes the batch with LINE's new tip. */
int view__batch_write(struct view_batch *b, const struct view_tip *tip, struct mu_err *err);
void view__seen(struct view *v); /* lets readers see the present line's tip */
void view__config_changed(struct view *v, struct mu_view config_row);

/* ---- archive.c ---- */
/* Leaves and chain of ENTRY behind CHAIN; checks it against ENTRY->chain: 0 or MU_ECORRUPT. Puts entry,
 * parts, blobs, time. */
int view__archive(struct view_batch *b, const struct view_entry *entry, const struct mu_hash *before,
		  struct mu_err *err);
/* One archived entry, read whole. */
struct view_archived {
	uint64_t pos;
	int64_t time_usec;
	struct mu_hash chain, digest;
	bool digest_known;
	struct mu_view header;
	uint32_t parts;
	const uint8_t *leaf; /* PARTS records of VIEW_LEAF_BYTES */
	struct mu_buf hold;
};
void view__archived_done(struct view_archived *a);
int view__archived(struct view *v, uint64_t pos, struct view_archived *ret,
		   struct mu_err *err); /* 0, MU_ENOENT, ... */
/* Bytes of part N (blob parts: the blob's bytes) appended to OUT; MU_ENOENT when forgotten. */
int view__archived_part(struct view *v, const struct view_archived *a, uint32_t n, uint8_t *ret_kind,
			struct mu_buf *out, struct mu_err *err);
/* Splits raw entry bytes into header and parts (borrowed; at most VIEW_PARTS_MAX, in ARENA): 0 or MU_EPROTO.
 */
int view__entry_split(struct mu_view raw, struct mu_arena *arena, struct view_entry *ret, struct mu_err *err);
void view__leaf(uint8_t kind, struct mu_view part, struct mu_hash *ret);

/* ---- hist.c ---- */
struct pick_job;
/* Number of the record that the job's present or last run has or will have. */
uint32_t view__record(const struct pick_job *job);
/* Appends to an encoded JobRow what makes nodes and exit of a run before count for nothing. */
void view__clear_run(struct mu_buf *job);
int view__hist(struct view_batch *b, const struct view_entry *entry, struct mu_err *err);
/* Brings the indexes of format 1 to this one's. */
int view__hist_reindex(struct view *v, struct mu_err *err);
int view__hist_take(struct view *v, struct mu_view key, struct mu_view value, struct mu_err *err);
size_t view__index_key(uint8_t *out, uint8_t kind, struct mu_view name, int64_t usec, uint32_t job,
		       uint32_t record);

/* A record and its index entries are let go; 0 (also where it is not there) or an error. */
int view__hist_drop(struct view *v, rocksdb_writebatch_t *wb, const uint8_t key[8], struct mu_err *err);
/* Its steps are let go. */
int view__hist_strip(struct view *v, rocksdb_writebatch_t *wb, const uint8_t key[8], struct mu_err *err);

/* ---- keep.c ---- */
int view__keep_open(struct view *v, struct mu_err *err); /* reads what was let go */
uint64_t view__cut_pos(struct view *v);
/* The chain value in the cut's statement, which must be that of the entry there: 0 or MU_ECORRUPT. */
int view__cut_chain(struct view *v, struct mu_hash *ret, struct mu_err *err);
/* MU_ENOENT with the sentence that names the earliest moment that can be asked for. */
int view__too_old(struct view *v, struct mu_err *err);
int64_t view__kept_usec(struct view *v, enum mu_keep_tier tier);
/* A cut's statement as stored (SNAPSHOT may be NULL), checked for what it must have. */
int view__cut_parse(struct mu_view bytes, struct mu_arena *arena, Mu__Cut **ret, struct mu_err *err);
int view__cut_read(struct view *v, const rocksdb_snapshot_t *snapshot, struct mu_arena *arena, Mu__Cut **ret,
		   struct mu_err *err);
/* Puts the STATEMENT and removes all that lies below the entry A but the checkpoints from the full set at BASE on. */
void view__cut_batch(struct view *v, rocksdb_writebatch_t *wb, const struct view_archived *a, uint64_t base,
		     struct mu_view statement);
void view__cut_set(struct view *v, uint64_t pos, int64_t usec);

/* ---- blob.c ---- */
bool view__blob_kept(struct view *v, const uint8_t hash[MU_HASH_BYTES]);
/* A blob came with an entry of USEC; a job that names blobs in its SPEC ended then. */
void view__blob_came(struct view_batch *b, const struct mu_hash *hash, struct mu_view bytes, int64_t usec);
void view__blob_used(struct view_batch *b, struct mu_view spec, int64_t usec);
/* Takes a stamp over: key and value as 'B' of the index. */
void view__blob_stamp(struct view *v, rocksdb_writebatch_t *wb, struct mu_view key, struct mu_view value);
/* Lets go of some blobs that nobody needs any more, with the writer's lock held; *RET_MORE: there may be others. */
int view__blob_sweep(struct view *v, int64_t now_usec, uint64_t *ret_count, bool *ret_more,
		     struct mu_err *err);

/* ---- moment.c ---- */
int view__moments(struct view_batch *b, const struct view_entry *entry, struct mu_err *err);

/* ---- ckpt.c ---- */
void view__ckpt_touch(struct view_line *line, const struct view_entry *entry);
int view__ckpt_open(struct view *v, struct view_line *line, struct mu_err *err);
/* Behind each batch: writes a delta, begins or goes on with a full set where one is due. */
int view__ckpt_step(struct view *v, struct view_line *line, struct mu_err *err);
/* Begins a full set now, at the line's tip. */
int view__ckpt_full(struct view *v, struct view_line *line, struct mu_err *err);
/* Writes one now, of whichever kind is due, where anything changed since the last. */
int view__ckpt_now(struct view *v, struct view_line *line, struct mu_err *err);
/* The newest complete checkpoint at or before POS (0: none) and the full set that it rests on. */
uint64_t view__ckpt_before(struct view *v, uint64_t pos, uint64_t *ret_base);
/* What is to be removed so that nothing before the full set at BASE is left. */
void view__ckpt_cut(struct view *v, rocksdb_writebatch_t *wb, uint64_t base);
/* Removes up to MAX deltas behind position AFTER and before the newest full set at or before UPTO. */
int view__ckpt_thin(struct view *v, uint64_t after, uint64_t upto, unsigned max, uint64_t *ret_count,
		    struct mu_err *err);
void view__ckpt_stop(struct view *v, struct view_line *line); /* drops what is in the making */
void view__ckpt_close(struct view *v, struct view_line *line);
/* view_state_at, also of a position that is not applied yet but taken over (base.c). */
int view__state_at(struct view *v, uint64_t pos, struct sch_state **ret, struct mu_err *err);
/* Folds entries (sch_pos + 1)..TO of the archive into ST. */
int view__fold(struct view *v, struct sch_state *st, uint64_t to, struct mu_err *err);

/* ---- image.c ---- */
int view__fill_open(struct view *v, struct mu_err *err);
struct view *view__image_of(struct view_image *im, const rocksdb_snapshot_t **ret_snapshot);
/* What is being filled in begins with the State ST at the entry A now, whose STATEMENT becomes the archive's; it is over
 * where A lies behind what was to be filled in. Writer held. */
int view__fill_from(struct view *v, const struct sch_state *st, const struct view_archived *a,
		    struct mu_view statement, struct mu_err *err);

/* ---- past.c ---- */
int view__past_get(struct view *v, uint64_t pos, struct view_past **ret, struct mu_err *err);
void view__past_put(struct view *v, struct view_past *past);
void view__past_free(struct view *v);

#endif
