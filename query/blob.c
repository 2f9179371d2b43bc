/* query/blob.c: when scripts and environments were last of use, and letting go of those that nobody needs any
 * more.
 *
 * Each blob has a stamp for each kind of use: 'S' as a script, 'E' as an environment or only as something
 * that came. It is the time of the entry that brought it or of the last end of a job that named it; a blob
 * goes when all its stamps are older than their kinds are kept. What waits or runs is asked of State's rows
 * at that moment, so it needs no count. Of a blob that goes an empty value stays, so that it is told from one
 * that is lost.
 *
 * A leader need not send a blob again that was committed within the last quarter of the shortest span. A
 * controller that is behind lets go by the time of its own position, which is earlier: it still has the blob
 * then, or meets the entry that brings it again. */
#include "query/store.h"

#include "proto/pieces.h"
#include "query/pick.h"

enum { SPEC_SCRIPT = 61, SPEC_ENVIRONMENT = 62, SWEEP_KEYS = 512 };
enum {
	USE_BYTES = 1 + MU_HASH_BYTES + 1,
	DUE_BYTES = 2 + 8 + MU_HASH_BYTES,
	PIECE_BYTES = 1 + 2 * MU_HASH_BYTES
};
static const struct {
	uint8_t kind;
	enum mu_keep_tier tier;
} uses[2] = {{'E', MU_KEEP_ENVIRONMENTS}, {'S', MU_KEEP_SCRIPTS}};

static size_t use_key(uint8_t out[USE_BYTES], const uint8_t *hash, uint8_t kind)
{
	out[0] = 'B';
	memcpy(out + 1, hash, MU_HASH_BYTES);
	out[1 + MU_HASH_BYTES] = kind;
	return USE_BYTES;
}

static size_t due_key(uint8_t out[DUE_BYTES], uint8_t kind, int64_t usec, const uint8_t *hash)
{
	out[0] = 'b';
	out[1] = kind;
	mu_put_be64(out + 2, (uint64_t)usec);
	if (!hash)
		return 10;
	memcpy(out + 10, hash, MU_HASH_BYTES);
	return DUE_BYTES;
}

static size_t piece_key(uint8_t out[PIECE_BYTES], const uint8_t *piece, const uint8_t *list)
{
	out[0] = 'P';
	memcpy(out + 1, piece, MU_HASH_BYTES);
	if (!list)
		return 1 + MU_HASH_BYTES;
	memcpy(out + 1 + MU_HASH_BYTES, list, MU_HASH_BYTES);
	return PIECE_BYTES;
}

/* The stamp of a use; 0: there is none. */
static int64_t stamp_of(struct view *v, const uint8_t *hash, uint8_t kind)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf hold = {0};
	uint8_t key[USE_BYTES];

	return view__get(v, NULL, VIEW_INDEX, key, use_key(key, hash, kind), &hold, NULL) == 0 &&
		       hold.len == 8
		   ? (int64_t)mu_get_be64(hold.data)
		   : 0;
}

static void unstamp(struct view *v, rocksdb_writebatch_t *wb, const uint8_t *hash, uint8_t kind, int64_t usec)
{
	uint8_t use[USE_BYTES], due[DUE_BYTES];

	view__del(v, wb, VIEW_INDEX, use, use_key(use, hash, kind));
	view__del(v, wb, VIEW_INDEX, due, due_key(due, kind, usec, hash));
}

/* A stamp is only ever raised. */
static void stamp(struct view *v, rocksdb_writebatch_t *wb, const uint8_t *hash, uint8_t kind, int64_t usec)
{
	uint8_t use[USE_BYTES], due[DUE_BYTES], value[8];
	int64_t was = stamp_of(v, hash, kind);

	if (was >= usec)
		return;
	if (was)
		unstamp(v, wb, hash, kind, was);
	mu_put_be64(value, (uint64_t)usec);
	view__put(v, wb, VIEW_INDEX, use, use_key(use, hash, kind), value, sizeof value);
	view__put(v, wb, VIEW_INDEX, due, due_key(due, kind, usec, hash), NULL, 0);
}

void view__blob_stamp(struct view *v, rocksdb_writebatch_t *wb, struct mu_view key, struct mu_view value)
{
	if (key.len == USE_BYTES && value.len == 8)
		stamp(v, wb, key.data + 1, key.data[1 + MU_HASH_BYTES], (int64_t)mu_get_be64(value.data));
}

static bool is_list(struct mu_view bytes)
{
	return bytes.len >= MU_PIECES_HEAD_BYTES &&
	       memcmp(bytes.data, MU_PIECES_HEAD, MU_PIECES_HEAD_BYTES) == 0;
}

/* Notes for each piece of a LIST that it belongs to it, or no more. */
static void note_pieces(struct view *v, rocksdb_writebatch_t *wb, const uint8_t *list, struct mu_view bytes,
			bool put)
{
	uint8_t key[PIECE_BYTES];

	for (size_t at = MU_PIECES_HEAD_BYTES; at + MU_HASH_BYTES <= bytes.len; at += MU_HASH_BYTES) {
		size_t n = piece_key(key, bytes.data + at, list);
		if (put)
			view__put(v, wb, VIEW_INDEX, key, n, NULL, 0);
		else
			view__del(v, wb, VIEW_INDEX, key, n);
	}
}

void view__blob_came(struct view_batch *b, const struct mu_hash *hash, struct mu_view bytes, int64_t usec)
{
	stamp(b->v, b->wb, hash->b, 'E', usec);
	if (is_list(bytes))
		note_pieces(b->v, b->wb, hash->b, bytes, true);
}

void view__blob_used(struct view_batch *b, struct mu_view spec, int64_t usec)
{
	struct mu_view script = pick_bytes(spec, SPEC_SCRIPT), env = pick_bytes(spec, SPEC_ENVIRONMENT);

	if (script.len == MU_HASH_BYTES)
		stamp(b->v, b->wb, script.data, 'S', usec);
	if (env.len == MU_HASH_BYTES)
		stamp(b->v, b->wb, env.data, 'E', usec);
}

bool view__blob_kept(struct view *v, const uint8_t hash[MU_HASH_BYTES])
{
	MU_CLEANUP(mu_buf_free) struct mu_buf hold = {0};
	struct mu_hash empty;

	if (view__get(v, NULL, VIEW_BLOB, hash, MU_HASH_BYTES, &hold, NULL))
		return false;
	mu_hash_bytes("", 0, &empty);
	return hold.len > 0 || memcmp(empty.b, hash, MU_HASH_BYTES) == 0;
}

static int64_t keep_sec(struct view *v, enum mu_keep_tier tier)
{
	pthread_mutex_lock(&v->lock);
	int64_t sec = v->keep_sec[tier];
	pthread_mutex_unlock(&v->lock);
	return sec;
}

/* ---- letting go ---- */

struct sweep {
	struct view *v;
	rocksdb_writebatch_t *wb;
	struct mu_map living; /* hashes that jobs of State name */
	bool living_known;
	int64_t now;
	uint64_t count;
	struct mu_err *err;
};

static void lives(struct sweep *s, struct mu_view hash)
{
	if (hash.len == MU_HASH_BYTES)
		mu_map_put(&s->living, hash.data, hash.len, s);
}

static int learn_living(struct sweep *s)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	uint8_t from = SCH_ROW_JOB, to = SCH_ROW_JOB + 1;
	struct pick_job job;

	if (s->living_known)
		return 0;
	s->living_known = true;
	view__scan(s->v, NULL, VIEW_ROWS, (struct mu_view){&from, 1}, (struct mu_view){&to, 1}, &scan);
	for (; view__scan_valid(&scan); view__scan_next(&scan)) {
		pick_job_head(view__scan_value(&scan), PICK_JOB_STATE, &job);
		lives(s, pick_bytes(job.spec, SPEC_SCRIPT));
		lives(s, pick_bytes(job.spec, SPEC_ENVIRONMENT));
	}
	return view__scan_end(&scan, "reading jobs", s->err);
}

/* A job of State names it, or it is a piece of something that is kept. */
static bool needed(struct sweep *s, const uint8_t *hash)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	uint8_t from[PIECE_BYTES], to[PIECE_BYTES];
	bool yes = mu_map_get(&s->living, hash, MU_HASH_BYTES) != NULL;

	size_t n = piece_key(from, hash, NULL);
	memcpy(to, from, n);
	view__scan(s->v, NULL, VIEW_INDEX, (struct mu_view){from, n},
		   (struct mu_view){to, view__after_prefix(to, n)}, &scan);
	for (; !yes && view__scan_valid(&scan); view__scan_next(&scan)) {
		struct mu_view key = view__scan_key(&scan);
		yes = key.len == PIECE_BYTES && view__blob_kept(s->v, key.data + 1 + MU_HASH_BYTES);
	}
	return yes;
}

/* Its use of the other kind keeps it. */
static bool kept_otherwise(struct sweep *s, const uint8_t *hash, size_t other, int64_t *ret_usec)
{
	int64_t sec = keep_sec(s->v, uses[other].tier),
		usec = *ret_usec = stamp_of(s->v, hash, uses[other].kind);

	return usec && (!sec || usec >= s->now - sec * 1000000);
}

static void forget(struct sweep *s, const uint8_t *hash)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf bytes = {0};

	if (view__get(s->v, NULL, VIEW_BLOB, hash, MU_HASH_BYTES, &bytes, NULL) == 0 &&
	    is_list((struct mu_view){bytes.data, bytes.len}))
		note_pieces(s->v, s->wb, hash, (struct mu_view){bytes.data, bytes.len}, false);
	view__put(s->v, s->wb, VIEW_BLOB, hash, MU_HASH_BYTES, NULL, 0);
	s->count++;
}

/* A stamp of use I whose time has come. */
static int take(struct sweep *s, size_t i, int64_t usec, const uint8_t *hash)
{
	uint8_t due[DUE_BYTES];
	int64_t other;

	if (stamp_of(s->v, hash, uses[i].kind) != usec) { /* one batch stamped it twice */
		view__del(s->v, s->wb, VIEW_INDEX, due, due_key(due, uses[i].kind, usec, hash));
		return 0;
	}
	int code = learn_living(s);
	if (code)
		return code;
	if (needed(s, hash)) {
		stamp(s->v, s->wb, hash, uses[i].kind, s->now);
		return 0;
	}
	unstamp(s->v, s->wb, hash, uses[i].kind, usec);
	if (kept_otherwise(s, hash, 1 - i, &other))
		return 0;
	if (other)
		unstamp(s->v, s->wb, hash, uses[1 - i].kind, other);
	forget(s, hash);
	return 0;
}

int view__blob_sweep(struct view *v, int64_t now_usec, uint64_t *ret_count, bool *ret_more,
		     struct mu_err *err)
{
	struct sweep s = {.v = v, .now = now_usec, .wb = rocksdb_writebatch_create(), .err = err};
	int code = 0;

	for (size_t i = 0; i < 2 && code == 0; i++) {
		MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
		uint8_t from[DUE_BYTES], to[DUE_BYTES];
		int64_t sec = keep_sec(v, uses[i].tier);
		size_t keys = 0;
		if (!sec || now_usec <= sec * 1000000)
			continue;
		size_t n = due_key(from, uses[i].kind, 0, NULL);
		due_key(to, uses[i].kind, now_usec - sec * 1000000, NULL);
		view__scan(v, NULL, VIEW_INDEX, (struct mu_view){from, n}, (struct mu_view){to, n}, &scan);
		for (; code == 0 && view__scan_valid(&scan) && keys < SWEEP_KEYS;
		     view__scan_next(&scan), keys++) {
			struct mu_view key = view__scan_key(&scan);
			if (key.len == DUE_BYTES)
				code = take(&s, i, (int64_t)mu_get_be64(key.data + 2), key.data + 10);
		}
		*ret_more = *ret_more || keys == SWEEP_KEYS;
		if (code == 0)
			code = view__scan_end(&scan, "looking for blobs to let go", err);
	}
	if (code == 0)
		code = view__write(v, s.wb, "letting blobs go", err);
	rocksdb_writebatch_destroy(s.wb);
	mu_map_clear(&s.living);
	*ret_count = s.count;
	return code;
}
