/* query/ckpt.c: checkpoints, so that any past moment is near one.
 *
 * Now and then a delta is written: the rows changed since the checkpoint before. When the deltas since the
 * last full set hold more rows than the set itself, or are many, a full set follows; so reading costs at most
 * about twice State, and writing is paid for by changes. A full set is copied out of a RocksDB snapshot, a
 * bounded piece behind each batch, and counts only when it is complete: meanwhile the older sets and the
 * delta written at the same position serve. */
#include "query/store.h"

#include <assert.h>
#include <stdlib.h>

enum { CKPT_FULL = 0, CKPT_DELTA = 1 };
enum {
	/* Reading and folding an event and packing the rows that it changed costs some 10 to 20 us: 8,192
	 * units stay near 0.1 s on a quiet core, and below 0.3 s on a busy one. */
	WEIGHT_EVENT = 2,
	WEIGHT_ROW = 1,
	WEIGHT_DUE = 8192,
	DELTAS_MAX = 64,	      /* seeks when a moment is read */
	KEPT_BYTES = 8 * 1024 * 1024, /* of rows kept for the next delta: WEIGHT_DUE rows of 1 KiB */
	FULL_ROWS_MIN = 4096,	      /* below this many rows in deltas a full set is not worth it */
	COPY_BYTES = 1024 * 1024      /* of a full set behind one batch: some 10 ms */
};

static const char *copy_key(const struct view_line *line)
{
	return line->shadow ? "copy_fill" : "copy";
}

static size_t index_key(uint8_t out[10], uint64_t pos, uint8_t type)
{
	out[0] = 'C';
	mu_put_be64(out + 1, pos);
	out[9] = type;
	return 10;
}

/* Where the rows of one set lie: [be64 pos, type, ...). */
static size_t set_key(uint8_t *out, uint64_t pos, uint8_t type)
{
	mu_put_be64(out, pos);
	out[8] = type;
	return 9;
}

static void put_index(struct view *v, rocksdb_writebatch_t *wb, uint64_t pos, uint8_t type, uint64_t before,
		      uint64_t rows)
{
	uint8_t key[10], value[16];

	mu_put_be64(value, before);
	mu_put_be64(value + 8, rows);
	view__put(v, wb, VIEW_META, key, index_key(key, pos, type), value, sizeof value);
}

static void put_set_row(struct view *v, rocksdb_writebatch_t *wb, uint64_t pos, uint8_t type,
			struct mu_view row_key, bool gone, struct mu_view row)
{
	uint8_t key[9 + VIEW_KEY_MAX];
	const char *keys[1] = {(const char *)key}, *values[2] = {gone ? "\1" : "\0", (const char *)row.data};
	size_t key_len[1], value_len[2] = {1, gone ? 0 : row.len};

	assert(row_key.len >= 1 && row_key.len <= VIEW_KEY_MAX);
	size_t n = set_key(key, pos, type);
	memcpy(key + n, row_key.data, row_key.len);
	key[n] &= (uint8_t)~VIEW_SHADOW;
	key_len[0] = n + row_key.len;
	rocksdb_writebatch_putv_cf(wb, v->cf[VIEW_CKPT], 1, keys, key_len, 2, values, value_len);
}

/* A changed row as the last batch left it, so that the next delta need not read it back. */
struct view_dirty {
	bool kept, gone; /* not kept: it is read from the store */
	size_t len, cap;
	uint8_t bytes[];
};

static void dirty_clear(struct view_line *line)
{
	const uint8_t *key = NULL;
	size_t len = 0;
	struct view_dirty *d;

	while ((d = mu_map_seek(&line->dirty, key, len, key != NULL, &key, &len)))
		free(d);
	mu_map_clear(&line->dirty);
	line->dirty_bytes = 0;
}

/* What is known of ROW after it was known as OLD (NULL: not yet), which goes. */
static struct view_dirty *dirty_row(struct view_line *line, struct view_dirty *old,
				    const struct view_row *row)
{
	size_t before = old ? old->cap : 0, len = row->gone ? 0 : row->row.len;
	bool kept = line->dirty_bytes - before + len <= KEPT_BYTES;
	size_t cap = !kept ? 0 : before >= len ? before : len;
	struct view_dirty *d = old;

	if (!old || cap != before) {
		d = realloc(old, sizeof *d + cap);
		if (!d)
			abort();
		d->cap = cap;
		line->dirty_bytes += cap - before;
	}
	d->kept = kept;
	d->gone = row->gone;
	d->len = len;
	if (kept && len)
		memcpy(d->bytes, row->row.data, len);
	return d;
}

void view__ckpt_touch(struct view_line *line, const struct view_entry *entry)
{
	uint8_t key[VIEW_KEY_MAX];

	line->weight += WEIGHT_EVENT * (entry->part_count + 1) + WEIGHT_ROW * entry->row_count;
	if (!line->dirty_known)
		return;
	for (size_t i = 0; i < entry->row_count; i++) {
		const struct sch_key *k = &entry->rows[i].key;
		key[0] = k->kind;
		memcpy(key + 1, k->bytes, k->len);
		struct view_dirty *old = mu_map_get(&line->dirty, key, k->len + 1u);
		struct view_dirty *now = dirty_row(line, old, &entry->rows[i]);
		if (now != old)
			mu_map_put(&line->dirty, key, k->len + 1u, now);
	}
}

/* The rows changed since the checkpoint before, as they are now. */
static int write_delta(struct view *v, struct view_line *line, struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf row = {0};
	rocksdb_writebatch_t *wb = rocksdb_writebatch_create();
	const uint8_t *key = NULL;
	size_t len = 0;
	uint8_t full[VIEW_KEY_MAX];
	uint64_t rows = 0;
	int code = 0;

	const struct view_dirty *d;
	while ((d = mu_map_seek(&line->dirty, key, len, key != NULL, &key, &len))) {
		struct mu_view bytes = {d->bytes, d->len};
		bool gone = d->gone;
		if (!d->kept) {
			memcpy(full, key, len);
			full[0] |= line->shadow;
			mu_buf_reset(&row);
			code = view__get(v, NULL, VIEW_ROWS, full, len, &row, err);
			if (code && code != MU_ENOENT)
				break;
			gone = code == MU_ENOENT;
			bytes = (struct mu_view){row.data, row.len};
			code = 0;
		}
		put_set_row(v, wb, line->tip.pos, CKPT_DELTA, (struct mu_view){key, len}, gone, bytes);
		rows++;
	}
	put_index(v, wb, line->tip.pos, CKPT_DELTA, line->last_pos, rows);
	if (code == 0)
		code = view__write(v, wb, "writing a checkpoint", err);
	rocksdb_writebatch_destroy(wb);
	if (code)
		return code;
	dirty_clear(line);
	line->last_pos = line->tip.pos;
	line->weight = 0;
	line->delta_rows += rows;
	line->deltas++;
	view__count(v, &v->stats.checkpoint_deltas, 1);
	view__count(v, &v->stats.checkpoint_rows, rows);
	return 0;
}

static void copy_done(struct view *v, struct view_line *line)
{
	if (line->copy)
		rocksdb_iter_destroy(line->copy);
	if (line->copy_read)
		rocksdb_readoptions_destroy(line->copy_read);
	if (line->copy_snapshot)
		rocksdb_release_snapshot(v->db, line->copy_snapshot);
	line->copy = NULL;
	line->copy_read = NULL;
	line->copy_snapshot = NULL;
}

/* A bounded piece of the full set in the making; the last one makes it count. */
static int copy_step(struct view *v, struct view_line *line, struct mu_err *err)
{
	rocksdb_writebatch_t *wb = rocksdb_writebatch_create();
	size_t bytes = 0;
	int code = 0;

	for (; rocksdb_iter_valid(line->copy) && bytes < COPY_BYTES; rocksdb_iter_next(line->copy)) {
		struct mu_view key, row;
		key.data = (const uint8_t *)rocksdb_iter_key(line->copy, &key.len);
		if (key.data[0] >= (line->shadow | SCH_ROW_KINDS))
			break;
		row.data = (const uint8_t *)rocksdb_iter_value(line->copy, &row.len);
		put_set_row(v, wb, line->copy_pos, CKPT_FULL, key, false, row);
		bytes += key.len + row.len;
		line->copy_rows++;
	}
	bool end = bytes < COPY_BYTES;
	char *message = NULL;
	rocksdb_iter_get_error(line->copy, &message);
	if (message)
		code = view__fail(err, message, "reading rows for a checkpoint");
	if (end) {
		put_index(v, wb, line->copy_pos, CKPT_FULL, 0, line->copy_rows);
		view__del(v, wb, VIEW_META, copy_key(line), strlen(copy_key(line)));
	}
	if (code == 0)
		code = view__write(v, wb, "writing a checkpoint", err);
	rocksdb_writebatch_destroy(wb);
	if (code || end)
		copy_done(v, line);
	if (code == 0 && end) {
		line->full_rows = line->copy_rows;
		view__count(v, &v->stats.checkpoint_fulls, 1);
		view__count(v, &v->stats.checkpoint_rows, line->copy_rows);
	}
	return code;
}

/* Rows of a full set that was never completed. */
static void forget_copy(struct view *v, rocksdb_writebatch_t *wb, const struct view_line *line, uint64_t pos)
{
	uint8_t from[9], to[9];

	set_key(from, pos, CKPT_FULL);
	set_key(to, pos, CKPT_DELTA);
	view__del_range(v, wb, VIEW_CKPT, (struct mu_view){from, sizeof from},
			(struct mu_view){to, sizeof to});
	view__del(v, wb, VIEW_META, copy_key(line), strlen(copy_key(line)));
}

void view__ckpt_stop(struct view *v, struct view_line *line)
{
	copy_done(v, line);
	dirty_clear(line);
	line->dirty_known = false;
	line->weight = 0;
}

int view__ckpt_full(struct view *v, struct view_line *line, struct mu_err *err)
{
	uint8_t first = line->shadow | 1, pos[8];
	int code = 0;

	if (line->copy)
		return 0;
	/* The older chain goes on to this very position, so that it serves until the new set is complete. */
	if (line->dirty_known && line->last_pos && line->last_pos < line->tip.pos)
		code = write_delta(v, line, err);
	if (code)
		return code;
	rocksdb_writebatch_t *wb = rocksdb_writebatch_create();
	mu_put_be64(pos, line->tip.pos);
	view__put(v, wb, VIEW_META, copy_key(line), strlen(copy_key(line)), pos, sizeof pos);
	code = view__write(v, wb, "beginning a checkpoint", err);
	rocksdb_writebatch_destroy(wb);
	if (code)
		return code;
	line->copy_snapshot = rocksdb_create_snapshot(v->db);
	line->copy_read = rocksdb_readoptions_create();
	rocksdb_readoptions_set_snapshot(line->copy_read, line->copy_snapshot);
	rocksdb_readoptions_set_fill_cache(line->copy_read, 0);
	line->copy = rocksdb_create_iterator_cf(v->db, line->copy_read, v->cf[VIEW_ROWS]);
	rocksdb_iter_seek(line->copy, (const char *)&first, 1);
	line->copy_pos = line->tip.pos;
	line->copy_rows = 0;
	dirty_clear(line);
	line->dirty_known = true;
	line->last_pos = line->tip.pos;
	line->weight = 0;
	line->delta_rows = 0;
	line->deltas = 0;
	return copy_step(v, line, err);
}

/* The kind that is due: a delta, or a full set where deltas have become many. */
static int write_due(struct view *v, struct view_line *line, struct mu_err *err)
{
	uint64_t full_due = line->full_rows > FULL_ROWS_MIN ? line->full_rows : FULL_ROWS_MIN;
	bool full = !line->dirty_known || line->deltas >= DELTAS_MAX ||
		    line->delta_rows + line->dirty.count > full_due;
	/* While one is being copied the deltas go on; the next full set has to wait for it. */
	if (full && !line->copy)
		return view__ckpt_full(v, line, err);
	return line->dirty_known ? write_delta(v, line, err) : 0;
}

int view__ckpt_step(struct view *v, struct view_line *line, struct mu_err *err)
{
	if (line->copy) {
		int code = copy_step(v, line, err);
		if (code)
			return code;
	}
	return line->weight < WEIGHT_DUE ? 0 : write_due(v, line, err);
}

int view__ckpt_now(struct view *v, struct view_line *line, struct mu_err *err)
{
	return line->weight ? write_due(v, line, err) : 0;
}
void view__ckpt_close(struct view *v, struct view_line *line)
{
	/* A delta at the end makes the next start's first checkpoint a delta too. When it cannot be written,
	 * that one is full. */
	if (!v->read_only && line->dirty_known && line->last_pos && line->last_pos < line->tip.pos &&
	    !line->copy)
		write_delta(v, line, NULL);
	copy_done(v, line);
	dirty_clear(line);
	mu_map_clear(&line->node_faces);
}

/* Index records, newest first from POS down. Returns false at the end. */
struct ckpt_ref {
	uint64_t pos, before, rows;
	uint8_t type;
};
static bool ref_read(rocksdb_iterator_t *it, struct ckpt_ref *ret)
{
	size_t n, m;

	if (!rocksdb_iter_valid(it))
		return false;
	const uint8_t *key = (const uint8_t *)rocksdb_iter_key(it, &n);
	const uint8_t *value = (const uint8_t *)rocksdb_iter_value(it, &m);
	if (n != 10 || key[0] != 'C' || m != 16)
		return false;
	*ret = (struct ckpt_ref){mu_get_be64(key + 1), mu_get_be64(value), mu_get_be64(value + 8), key[9]};
	return true;
}

static bool ref_at(struct view *v, uint64_t pos, uint8_t type, struct ckpt_ref *ret)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf hold = {0};
	uint8_t key[10];

	if (pos == 0 || view__get(v, NULL, VIEW_META, key, index_key(key, pos, type), &hold, NULL) ||
	    hold.len != 16)
		return false;
	*ret = (struct ckpt_ref){pos, mu_get_be64(hold.data), mu_get_be64(hold.data + 8), type};
	return true;
}

/* The sets to read for the newest checkpoint at or before POS: deltas from the newest down, a full one last.
 * 0: none. */
static size_t chain_find(struct view *v, uint64_t pos, struct ckpt_ref *chain, size_t cap)
{
	rocksdb_iterator_t *it = rocksdb_create_iterator_cf(v->db, v->read, v->cf[VIEW_META]);
	struct ckpt_ref candidate;
	uint8_t key[10];
	size_t n = 0;

	index_key(key, pos, 0xff);
	rocksdb_iter_seek_for_prev(it, (const char *)key, sizeof key);
	for (; ref_read(it, &candidate); rocksdb_iter_prev(it)) {
		for (n = 0; n < cap; n++) {
			chain[n] = candidate;
			if (candidate.type == CKPT_FULL)
				break;
			uint64_t before = candidate.before;
			if (!ref_at(v, before, CKPT_FULL, &candidate) &&
			    !ref_at(v, before, CKPT_DELTA, &candidate)) {
				n = cap;
				break;
			}
		}
		if (n < cap) {
			n++;
			break;
		}
		n = 0;
	}
	rocksdb_iter_destroy(it);
	return n;
}

uint64_t view__ckpt_before(struct view *v, uint64_t pos, uint64_t *ret_base)
{
	struct ckpt_ref chain[2 * DELTAS_MAX + 2];
	size_t n = chain_find(v, pos, chain, sizeof chain / sizeof *chain);

	*ret_base = n ? chain[n - 1].pos : 0;
	return n ? chain[0].pos : 0;
}

void view__ckpt_cut(struct view *v, rocksdb_writebatch_t *wb, uint64_t base)
{
	uint8_t from[10] = {0}, to[10];

	size_t n = set_key(to, base, CKPT_FULL);
	view__del_range(v, wb, VIEW_CKPT, (struct mu_view){from, 1}, (struct mu_view){to, n});
	size_t first = index_key(from, 0, CKPT_FULL);
	n = index_key(to, base, CKPT_FULL);
	view__del_range(v, wb, VIEW_META, (struct mu_view){from, first}, (struct mu_view){to, n});
}

/* The newest complete full set at or before POS; 0: none. */
static uint64_t full_before(struct view *v, uint64_t pos)
{
	rocksdb_iterator_t *it = rocksdb_create_iterator_cf(v->db, v->read, v->cf[VIEW_META]);
	struct ckpt_ref ref;
	uint8_t key[10];
	uint64_t found = 0;

	index_key(key, pos, CKPT_FULL);
	for (rocksdb_iter_seek_for_prev(it, (const char *)key, sizeof key); !found && ref_read(it, &ref);
	     rocksdb_iter_prev(it))
		found = ref.type == CKPT_FULL ? ref.pos : 0;
	rocksdb_iter_destroy(it);
	return found;
}

int view__ckpt_thin(struct view *v, uint64_t after, uint64_t upto, unsigned max, uint64_t *ret_count,
		    struct mu_err *err)
{
	rocksdb_writebatch_t *wb = rocksdb_writebatch_create();
	rocksdb_iterator_t *it = rocksdb_create_iterator_cf(v->db, v->read, v->cf[VIEW_META]);
	uint64_t end = full_before(v, upto);
	struct ckpt_ref ref;
	uint8_t key[10], from[9], to[9];
	int code = 0;

	*ret_count = 0;
	index_key(key, after + 1, CKPT_FULL);
	for (rocksdb_iter_seek(it, (const char *)key, sizeof key);
	     *ret_count < max && ref_read(it, &ref) && ref.pos < end; rocksdb_iter_next(it)) {
		if (ref.type != CKPT_DELTA)
			continue;
		set_key(from, ref.pos, CKPT_DELTA);
		set_key(to, ref.pos, CKPT_DELTA + 1);
		view__del_range(v, wb, VIEW_CKPT, (struct mu_view){from, sizeof from},
				(struct mu_view){to, sizeof to});
		view__del(v, wb, VIEW_META, key, index_key(key, ref.pos, CKPT_DELTA));
		++*ret_count;
	}
	rocksdb_iter_destroy(it);
	if (*ret_count)
		code = view__write(v, wb, "letting checkpoints go", err);
	rocksdb_writebatch_destroy(wb);
	return code;
}

int view__ckpt_open(struct view *v, struct view_line *line, struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf hold = {0};
	struct ckpt_ref chain[2 * DELTAS_MAX + 2];
	size_t n;

	if (!v->read_only &&
	    view__get(v, NULL, VIEW_META, copy_key(line), strlen(copy_key(line)), &hold, NULL) == 0) {
		rocksdb_writebatch_t *wb = rocksdb_writebatch_create();
		if (hold.len == 8)
			forget_copy(v, wb, line, mu_get_be64(hold.data));
		int code = view__write(v, wb, "removing an unfinished checkpoint", err);
		rocksdb_writebatch_destroy(wb);
		if (code)
			return code;
	}
	n = chain_find(v, line->tip.pos, chain, sizeof chain / sizeof *chain);
	line->dirty_known = line->tip.pos == 0 || (n > 0 && chain[0].pos == line->tip.pos);
	line->last_pos = n ? chain[0].pos : 0;
	line->weight = (line->tip.pos - line->last_pos) * (2 * WEIGHT_EVENT + WEIGHT_ROW);
	line->full_rows = n ? chain[n - 1].rows : 0;
	line->deltas = n ? (unsigned)(n - 1) : 0;
	line->delta_rows = 0;
	for (size_t i = 0; i + 1 < n; i++)
		line->delta_rows += chain[i].rows;
	/* Without a first full set deltas have nothing to stand on. */
	if (n == 0)
		line->dirty_known = false;
	return 0;
}

/* Row of a set: key without position and type. */
struct set_row {
	bool gone;
	struct mu_view bytes;
};

static int overlay(struct view *v, const struct ckpt_ref *ref, struct mu_map *map, struct mu_arena *arena,
		   struct mu_err *err)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	uint8_t from[9], to[9];

	set_key(from, ref->pos, ref->type);
	set_key(to, ref->pos, ref->type + 1);
	view__scan(v, NULL, VIEW_CKPT, (struct mu_view){from, sizeof from}, (struct mu_view){to, sizeof to},
		   &scan);
	for (; view__scan_valid(&scan); view__scan_next(&scan)) {
		struct mu_view key = view__scan_key(&scan), value = view__scan_value(&scan);
		if (key.len < 10 || value.len < 1 || mu_map_get(map, key.data + 9, key.len - 9))
			continue;
		struct set_row *row = mu_arena_alloc(arena, sizeof *row);
		row->gone = value.data[0] != 0;
		row->bytes.len = value.len - 1;
		row->bytes.data = mu_arena_dup(arena, value.data + 1, value.len - 1);
		mu_map_put(map, key.data + 9, key.len - 9, row);
	}
	return view__scan_end(&scan, "reading a checkpoint", err);
}

static int load_row(struct sch_state *st, const uint8_t *key, const struct set_row *row, struct mu_err *err)
{
	return row->gone ? 0 : sch_load_row(st, key[0], row->bytes.data, row->bytes.len, err);
}

static int compare_keys(struct mu_view a, struct mu_view b)
{
	int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);

	return order ? order : (a.len > b.len) - (a.len < b.len);
}

/* Full set FULL with the newer rows of MAP over it, in key order. */
static int merge(struct view *v, const struct ckpt_ref *full, struct mu_map *map, struct sch_state *st,
		 struct mu_err *err)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	uint8_t from[9], to[9];
	struct mu_view newer = {0};
	int code = 0;

	set_key(from, full->pos, full->type);
	set_key(to, full->pos, full->type + 1);
	view__scan(v, NULL, VIEW_CKPT, (struct mu_view){from, sizeof from}, (struct mu_view){to, sizeof to},
		   &scan);
	struct set_row *row = mu_map_seek(map, NULL, 0, 0, &newer.data, &newer.len);
	while (code == 0 && (row || view__scan_valid(&scan))) {
		int order = 1;
		struct mu_view key = {0};
		if (view__scan_valid(&scan)) {
			key = view__scan_key(&scan);
			if (key.len < 10)
				return mu_fail(err, MU_ECORRUPT, "a checkpoint holds a row without a key");
			key = (struct mu_view){key.data + 9, key.len - 9};
			order = row ? compare_keys(newer, key) : 1;
		} else {
			order = -1;
		}
		if (order <= 0) {
			code = load_row(st, newer.data, row, err);
			row = mu_map_seek(map, newer.data, newer.len, 1, &newer.data, &newer.len);
		} else {
			struct mu_view value = view__scan_value(&scan);
			code = value.len ? sch_load_row(st, key.data[0], value.data + 1, value.len - 1, err)
					 : MU_ECORRUPT;
		}
		if (order >= 0)
			view__scan_next(&scan);
	}
	return code ? code : view__scan_end(&scan, "reading a checkpoint", err);
}

/* The State of the newest checkpoint at or before POS; an empty one where history begins before the first
 * checkpoint. */
static int load_checkpoint(struct view *v, uint64_t pos, struct sch_state *st, struct mu_err *err)
{
	struct ckpt_ref chain[2 * DELTAS_MAX + 2];
	struct mu_arena arena = {0};
	struct mu_map map = {0};
	size_t n = chain_find(v, pos, chain, sizeof chain / sizeof *chain);
	int code = 0;

	if (n == 0)
		return 0;
	for (size_t i = 0; i + 1 < n && code == 0; i++)
		code = overlay(v, &chain[i], &map, &arena, err);
	if (code == 0)
		code = merge(v, &chain[n - 1], &map, st, err);
	if (code == 0)
		code = sch_load_done(st, err);
	mu_map_clear(&map);
	mu_arena_free(&arena);
	return code;
}

/* One archived entry folded into ST. */
static int fold_entry(struct view *v, struct sch_state *st, const struct view_archived *a,
		      struct mu_buf *part, struct sch_changes *changes, struct mu_err *err)
{
	struct sch_at at = {.pos = a->pos, .time_usec = a->time_usec};

	for (uint32_t n = 0; n < a->parts; n++) {
		struct sch_verdict verdict;
		uint8_t kind;
		if (a->leaf[(size_t)n * VIEW_LEAF_BYTES] != VIEW_PART_EVENT)
			continue;
		mu_buf_reset(part);
		int code = view__archived_part(v, a, n, &kind, part, err);
		if (code == 0)
			code = sch_evolve(st, &at, part->data, part->len, &verdict, changes, err);
		if (code)
			return code;
		at.n++;
	}
	sch_entry_done(st, a->pos, a->time_usec, changes);
	return 0;
}

static int check_digest(const struct sch_state *st, const struct mu_hash *recorded, uint64_t pos,
			struct mu_err *err)
{
	struct mu_hash digest;

	sch_digest(st, &digest);
	if (memcmp(digest.b, recorded->b, MU_HASH_BYTES) != 0)
		return mu_fail(err, MU_ECORRUPT,
			       "the State folded up to position %llu differs from the one recorded there",
			       (unsigned long long)pos);
	return 0;
}

int view__fold(struct view *v, struct sch_state *st, uint64_t to, struct mu_err *err)
{
	MU_CLEANUP(view__archived_done) struct view_archived a = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf part = {0};
	struct sch_changes changes = {0};
	int code = 0;

	for (uint64_t pos = sch_pos(st) + 1; pos <= to && code == 0; pos++) {
		code = view__archived(v, pos, &a, err);
		if (code == 0)
			code = fold_entry(v, st, &a, &part, &changes, err);
		sch_changes_reset(&changes);
	}
	sch_changes_free(&changes);
	if (code || a.pos != to || !a.digest_known)
		return code;
	return check_digest(st, &a.digest, to, err);
}

/* A checkpoint at the very position has nothing folded over it that would show a fault. */
static int check_recorded(struct view *v, const struct sch_state *st, uint64_t pos, struct mu_err *err)
{
	MU_CLEANUP(view__archived_done) struct view_archived a = {0};
	int code = view__archived(v, pos, &a, err);

	return code || !a.digest_known ? code : check_digest(st, &a.digest, pos, err);
}

int view_state_at(struct view *v, uint64_t pos, struct sch_state **ret, struct mu_err *err)
{
	if (pos > view_pos(v))
		return mu_fail(err, MU_ENOENT, "position %llu lies in the future: the log is at %llu",
			       (unsigned long long)pos, (unsigned long long)view_pos(v));
	return view__state_at(v, pos, ret, err);
}

int view__state_at(struct view *v, uint64_t pos, struct sch_state **ret, struct mu_err *err)
{
	struct sch_state *st;
	int code;

	if (pos < view__cut_pos(v))
		return view__too_old(v, err);
	st = sch_state_new();
	code = load_checkpoint(v, pos, st, err);
	if (code == 0 && pos && sch_pos(st) == pos)
		code = check_recorded(v, st, pos, err);
	else if (code == 0)
		code = view__fold(v, st, pos, err);
	if (code == 0) {
		*ret = st;
		return 0;
	}
	sch_state_free(st);
	return code;
}
