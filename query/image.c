/* query/image.c: rows as a whole: loaded into a State, sent as an image, replaced by a received one, and the
 * history below a received image filled in by folding the entries that a peer sends. */
#include "query/store.h"

#include <assert.h>
#include <stdlib.h>

enum { IMAGE_ROW_MAX = 16 * 1024 * 1024 };

static void kinds_range(uint8_t shadow, uint8_t *from, uint8_t *to)
{
	*from = shadow | 1;
	*to = shadow | SCH_ROW_KINDS;
}

static int load_rows(struct view *v, const struct view_line *line, struct sch_state *st, struct mu_err *err)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	uint8_t from, to;
	int code = 0;

	kinds_range(line->shadow, &from, &to);
	view__scan(v, NULL, VIEW_ROWS, (struct mu_view){&from, 1}, (struct mu_view){&to, 1}, &scan);
	for (; view__scan_valid(&scan) && code == 0; view__scan_next(&scan)) {
		struct mu_view row = view__scan_value(&scan);
		uint8_t kind = view__scan_key(&scan).data[0];
		code = sch_load_row(st, (uint8_t)(kind & ~VIEW_SHADOW), row.data, row.len, err);
	}
	if (code == 0)
		code = view__scan_end(&scan, "loading State", err);
	return code ? code : sch_load_done(st, err);
}

static int check_loaded(const struct sch_state *st, const struct view_tip *tip, struct mu_err *err)
{
	struct mu_hash digest;

	sch_digest(st, &digest);
	if (sch_pos(st) != tip->pos || memcmp(digest.b, tip->digest.b, MU_HASH_BYTES) != 0)
		return mu_fail(err, MU_ECORRUPT,
			       "the rows stored for position %llu do not give the State recorded there",
			       (unsigned long long)tip->pos);
	return 0;
}

static int load_line(struct view *v, const struct view_line *line, struct sch_state **ret, struct mu_err *err)
{
	struct sch_state *st = sch_state_new();
	int code = line->tip.pos ? load_rows(v, line, st, err) : 0;

	if (code == 0 && line->tip.pos)
		code = check_loaded(st, &line->tip, err);
	if (code == 0)
		*ret = st;
	else
		sch_state_free(st);
	return code;
}

int view_load_state(struct view *v, struct sch_state **ret, struct mu_err *err)
{
	pthread_mutex_lock(&v->writer);
	int code = load_line(v, &v->now, ret, err);
	pthread_mutex_unlock(&v->writer);
	return code;
}

/* ---- sending ---- */

struct view_image {
	struct view *v;
	const rocksdb_snapshot_t *snapshot;
};

int view_image_open(struct view *v, struct view_image **ret, uint64_t *ret_pos, struct mu_err *err)
{
	struct view_image *im = calloc(1, sizeof *im);
	struct view_tip tip = {0};

	if (!im)
		return mu_fail(err, MU_ENOMEM, "out of memory for an image of the rows");
	im->v = v;
	im->snapshot = rocksdb_create_snapshot(v->db);
	rocksdb_readoptions_t *read = rocksdb_readoptions_create();
	rocksdb_readoptions_set_snapshot(read, im->snapshot);
	int code = view__tip_read(v, read, "tip", &tip, err);
	rocksdb_readoptions_destroy(read);
	if (code && code != MU_ENOENT) {
		view_image_close(im);
		return code;
	}
	*ret = im;
	*ret_pos = tip.pos;
	return 0;
}

struct view *view__image_of(struct view_image *im, const rocksdb_snapshot_t **ret_snapshot)
{
	*ret_snapshot = im->snapshot;
	return im->v;
}

struct view_image *view_image_close(struct view_image *im)
{
	if (!im)
		return NULL;
	rocksdb_release_snapshot(im->v->db, im->snapshot);
	free(im);
	return NULL;
}

static void put_le32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

int view_image_read(struct view_image *im, struct mu_buf *cursor, size_t max, struct mu_buf *out,
		    bool *ret_more, struct mu_err *err)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	uint8_t first, end, last[VIEW_KEY_MAX];
	size_t start = out->len, last_len = 0;

	kinds_range(0, &first, &end);
	struct mu_view from =
	    cursor->len ? (struct mu_view){cursor->data, cursor->len} : (struct mu_view){&first, 1};
	view__scan(im->v, im->snapshot, VIEW_ROWS, from, (struct mu_view){&end, 1}, &scan);
	for (; view__scan_valid(&scan) && out->len - start < max; view__scan_next(&scan)) {
		struct mu_view key = view__scan_key(&scan), row = view__scan_value(&scan);
		if (cursor->len == key.len && memcmp(cursor->data, key.data, key.len) == 0)
			continue;
		assert(key.len >= 1 && key.len <= VIEW_KEY_MAX);
		uint8_t *p = mu_buf_grow(out, 2 + (key.len - 1) + 4);
		p[0] = key.data[0];
		p[1] = (uint8_t)(key.len - 1);
		memcpy(p + 2, key.data + 1, key.len - 1);
		put_le32(p + 2 + key.len - 1, (uint32_t)row.len);
		mu_buf_add(out, row.data, row.len);
		memcpy(last, key.data, key.len);
		last_len = key.len;
	}
	bool more = view__scan_valid(&scan);
	int code = view__scan_end(&scan, "reading an image of the rows", err);
	if (code) {
		out->len = start;
		return code;
	}
	if (last_len) {
		mu_buf_reset(cursor);
		mu_buf_add(cursor, last, last_len);
	}
	*ret_more = more;
	return 0;
}

int view_image_feed(struct sch_state *st, struct mu_view page, struct mu_err *err)
{
	const uint8_t *p = page.data, *end = p + page.len;

	while (p < end) {
		if (end - p < 2 || end - p < 2 + p[1] + 4)
			return mu_fail(err, MU_EPROTO, "an image of the rows ends within a key");
		uint8_t kind = p[0];
		p += 2 + p[1];
		uint32_t len =
		    (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
		p += 4;
		if (len > IMAGE_ROW_MAX || len > (size_t)(end - p))
			return mu_fail(err, MU_EPROTO, "an image of the rows ends within a row of %u bytes",
				       len);
		int code = sch_load_row(st, kind, p, len, err);
		if (code)
			return code;
		p += len;
	}
	return 0;
}

/* ---- receiving ---- */

struct collect {
	struct mu_arena arena;
	struct view_row *rows;
	size_t count, cap;
	int code;
};

static int collect_row(void *arg, const struct sch_key *key, const uint8_t *row, size_t len)
{
	struct collect *c = arg;

	if (c->count == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 1024;
		struct view_row *rows = realloc(c->rows, c->cap * sizeof *rows);
		if (!rows)
			return MU_ENOMEM;
		c->rows = rows;
	}
	c->rows[c->count++] = (struct view_row){*key, false, {mu_arena_dup(&c->arena, row, len), len}};
	return 0;
}

static void collect_done(struct collect *c)
{
	free(c->rows);
	mu_arena_free(&c->arena);
}

static void del_rows(struct view *v, rocksdb_writebatch_t *wb, uint8_t shadow)
{
	uint8_t from, to;

	kinds_range(shadow, &from, &to);
	view__del_range(v, wb, VIEW_ROWS, (struct mu_view){&from, 1}, (struct mu_view){&to, 1});
}

/* The rows of the present become those of the history to be filled in. */
static int shadow_rows(struct view *v, rocksdb_writebatch_t *wb, struct mu_err *err)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	uint8_t from, to, full[VIEW_KEY_MAX];

	kinds_range(0, &from, &to);
	view__scan(v, NULL, VIEW_ROWS, (struct mu_view){&from, 1}, (struct mu_view){&to, 1}, &scan);
	for (; view__scan_valid(&scan); view__scan_next(&scan)) {
		struct mu_view key = view__scan_key(&scan), row = view__scan_value(&scan);
		memcpy(full, key.data, key.len);
		full[0] |= VIEW_SHADOW;
		view__put(v, wb, VIEW_ROWS, full, key.len, row.data, row.len);
	}
	return view__scan_end(&scan, "keeping rows to fill in history", err);
}

/* What the batch of a switch holds: rows, history of the jobs that had ended, and from where history is to be
 * filled in. */
static int switch_batch(struct view_batch *b, const struct view_entry *all, const struct view_tip *tip,
			struct mu_err *err)
{
	struct view *v = b->v;
	uint8_t record[VIEW_TIP_BYTES];
	int code = 0;

	if (v->fill_to.pos == 0)
		code = shadow_rows(v, b->wb, err);
	if (code)
		return code;
	del_rows(v, b->wb, 0);
	code = view__apply(b, all, err);
	if (code)
		return code;
	if (v->fill_to.pos == 0) {
		view__tip_pack(&v->now.tip, record);
		view__put(v, b->wb, VIEW_META, "fill", 4, record, sizeof record);
	}
	view__tip_pack(tip, record);
	view__put(v, b->wb, VIEW_META, "fill_to", 7, record, sizeof record);
	return 0;
}

int view_switch(struct view *v, const struct sch_state *st, const struct mu_hash *chain, struct mu_err *err)
{
	struct view_tip tip = {.pos = sch_pos(st), .time_usec = sch_now_usec(st), .chain = *chain}, old;
	MU_CLEANUP(collect_done) struct collect c = {0};
	MU_CLEANUP(view__batch_done) struct view_batch b = {0};
	int code;

	if (v->read_only)
		return mu_fail(err, MU_EINVAL, "the view was opened for reading only");
	sch_digest(st, &tip.digest);
	code = sch_rows(st, 0, collect_row, &c);
	if (code)
		return mu_fail(err, code, "out of memory for the rows of a received State");
	struct view_entry all = {
	    .pos = tip.pos, .time_usec = tip.time_usec, .rows = c.rows, .row_count = c.count};
	pthread_mutex_lock(&v->writer);
	old = v->now.tip;
	if (tip.pos <= old.pos) {
		code =
		    mu_fail(err, MU_EINVAL, "a State at position %llu came, but the view is at %llu already",
			    (unsigned long long)tip.pos, (unsigned long long)old.pos);
		goto out;
	}
	view__batch_begin(&b, v, &v->now);
	code = switch_batch(&b, &all, &tip, err);
	if (code == 0)
		code = view__batch_write(&b, &tip, err);
	if (code)
		goto out;
	pthread_mutex_lock(&v->lock);
	if (v->fill_to.pos == 0)
		v->fill.tip = old;
	v->fill_to = tip;
	pthread_mutex_unlock(&v->lock);
	view__ckpt_stop(v, &v->now);
	for (size_t i = 0; i < c.count; i++)
		if (c.rows[i].key.kind == SCH_ROW_CONFIG)
			view__config_changed(v, c.rows[i].row);
	view__seen(v);
	code = view__ckpt_full(v, &v->now, err);
out:
	pthread_mutex_unlock(&v->writer);
	return code;
}

/* ---- filling in ---- */

int view__fill_open(struct view *v, struct mu_err *err)
{
	int code = view__tip_read(v, NULL, "fill_to", &v->fill_to, err);

	if (code == MU_ENOENT) {
		v->fill_to = (struct view_tip){0};
		return 0;
	}
	if (code == 0)
		code = view__tip_read(v, NULL, "fill", &v->fill.tip, err);
	return code ? code : view__ckpt_open(v, &v->fill, err);
}

uint64_t view_backfill_next(struct view *v)
{
	pthread_mutex_lock(&v->lock);
	uint64_t next = v->fill_to.pos ? v->fill.tip.pos + 1 : 0;
	pthread_mutex_unlock(&v->lock);
	return next;
}

/* The last entry was filled in: what came must lead to what stands above it. */
static int fill_finish(struct view *v, struct mu_err *err)
{
	if (memcmp(v->fill.tip.chain.b, v->fill_to.chain.b, MU_HASH_BYTES) != 0)
		return mu_fail(err, MU_ECORRUPT,
			       "the history that was filled in does not lead to the chain at position %llu",
			       (unsigned long long)v->fill_to.pos);
	if (memcmp(v->fill.tip.digest.b, v->fill_to.digest.b, MU_HASH_BYTES) != 0)
		return mu_fail(err, MU_ECORRUPT,
			       "the history that was filled in does not lead to the State at position %llu",
			       (unsigned long long)v->fill_to.pos);
	rocksdb_writebatch_t *wb = rocksdb_writebatch_create();
	view__ckpt_stop(v, &v->fill);
	del_rows(v, wb, VIEW_SHADOW);
	view__del(v, wb, VIEW_META, "fill", 4);
	view__del(v, wb, VIEW_META, "fill_to", 7);
	view__del(v, wb, VIEW_META, "copy_fill", 9);
	int code = view__write(v, wb, "ending the filling in of history", err);
	rocksdb_writebatch_destroy(wb);
	if (code)
		return code;
	v->fill_state = sch_state_free(v->fill_state);
	pthread_mutex_lock(&v->lock);
	v->fill_to = (struct view_tip){0};
	v->fill.tip = (struct view_tip){0};
	pthread_mutex_unlock(&v->lock);
	return 0;
}

/* The rows of ST become those of the history to be filled in, up to TIP. */
static int fill_rows(struct view *v, rocksdb_writebatch_t *wb, const struct sch_state *st,
		     const struct view_tip *tip)
{
	MU_CLEANUP(collect_done) struct collect c = {0};
	uint8_t full[VIEW_KEY_MAX], record[VIEW_TIP_BYTES];
	int code = sch_rows(st, 0, collect_row, &c);

	for (size_t i = 0; i < c.count && code == 0; i++) {
		full[0] = c.rows[i].key.kind | VIEW_SHADOW;
		memcpy(full + 1, c.rows[i].key.bytes, c.rows[i].key.len);
		view__put(v, wb, VIEW_ROWS, full, c.rows[i].key.len + 1u, c.rows[i].row.data,
			  c.rows[i].row.len);
	}
	view__tip_pack(tip, record);
	view__put(v, wb, VIEW_META, "fill", 4, record, sizeof record);
	return code;
}

int view__fill_from(struct view *v, const struct sch_state *st, const struct view_archived *a,
		    struct mu_view statement, struct mu_err *err)
{
	struct view_tip tip = {a->pos, a->time_usec, a->chain, a->digest};
	rocksdb_writebatch_t *wb = rocksdb_writebatch_create();
	bool over = a->pos >= v->fill_to.pos;
	uint64_t base = 0;
	int code = 0;

	if (v->fill_to.pos == 0 || a->pos <= v->fill.tip.pos || view__ckpt_before(v, a->pos, &base) != a->pos)
		code = mu_fail(err, MU_EINVAL, "nothing is to be filled in from position %llu on",
			       (unsigned long long)a->pos);
	view__cut_batch(v, wb, a, base, statement);
	view__del(v, wb, VIEW_META, VIEW_STAGED_CUT, sizeof VIEW_STAGED_CUT - 1);
	view__del(v, wb, VIEW_META, "copy_fill", 9);
	del_rows(v, wb, VIEW_SHADOW);
	if (code == 0 && !over)
		code = fill_rows(v, wb, st, &tip);
	if (over) {
		view__del(v, wb, VIEW_META, "fill", 4);
		view__del(v, wb, VIEW_META, "fill_to", 7);
	}
	if (code == 0)
		code = view__write(v, wb, "taking over a cut", err);
	rocksdb_writebatch_destroy(wb);
	if (code)
		return code;
	view__ckpt_stop(v, &v->fill);
	if (over) /* its checkpoints may rest on some that are gone */
		view__ckpt_stop(v, &v->now);
	v->fill_state = sch_state_free(v->fill_state);
	view__cut_set(v, a->pos, a->time_usec);
	pthread_mutex_lock(&v->lock);
	v->fill.tip = over ? (struct view_tip){0} : tip;
	if (over)
		v->fill_to = (struct view_tip){0};
	pthread_mutex_unlock(&v->lock);
	return over ? 0 : view__ckpt_open(v, &v->fill, err);
}

/* Folds ENTRY's events into the State of the history being filled in and packs the rows that they changed. */
static int fill_fold(struct view *v, struct view_entry *entry, struct collect *c, struct mu_err *err)
{
	struct sch_at at = {.pos = entry->pos, .time_usec = entry->time_usec};
	struct sch_changes changes = {0};
	struct mu_buf row = {0};
	int code = 0;

	for (size_t i = 0; i < entry->part_count && code == 0; i++) {
		struct sch_verdict verdict;
		if (entry->parts[i].kind != VIEW_PART_EVENT)
			continue;
		code = sch_evolve(v->fill_state, &at, entry->parts[i].bytes.data, entry->parts[i].bytes.len,
				  &verdict, &changes, err);
		at.n++;
	}
	if (code == 0)
		sch_entry_done(v->fill_state, entry->pos, entry->time_usec, &changes);
	for (size_t i = 0; i < changes.count && code == 0; i++) {
		mu_buf_reset(&row);
		if (!changes.v[i].gone)
			code = sch_row_pack(v->fill_state, &changes.v[i].key, &row);
		if (code == 0)
			code = collect_row(c, &changes.v[i].key, row.data, row.len);
		if (code == 0)
			c->rows[c->count - 1].gone = changes.v[i].gone;
	}
	sch_digest(v->fill_state, &entry->digest);
	mu_buf_free(&row);
	sch_changes_free(&changes);
	entry->rows = c->rows;
	entry->row_count = c->count;
	return code;
}

static int fill_entry(struct view *v, uint64_t pos, struct mu_view raw, const struct mu_hash *chain,
		      struct mu_err *err)
{
	MU_CLEANUP(collect_done) struct collect c = {0};
	MU_CLEANUP(view__batch_done) struct view_batch b = {0};
	struct view_entry entry = {.pos = pos, .chain = *chain};
	int code;

	if (v->fill_to.pos == 0 || pos <= v->fill.tip.pos)
		return 0;
	if (pos != v->fill.tip.pos + 1)
		return mu_fail(err, MU_EINVAL,
			       "history is filled in in order: entry %llu came, %llu is wanted",
			       (unsigned long long)pos, (unsigned long long)v->fill.tip.pos + 1);
	code = view__entry_split(raw, &c.arena, &entry, err);
	if (code)
		return code;
	view__batch_begin(&b, v, &v->fill);
	code = view__archive(&b, &entry, &v->fill.tip.chain, err);
	if (code == 0 && !v->fill_state)
		code = load_line(v, &v->fill, &v->fill_state, err);
	if (code == 0)
		code = fill_fold(v, &entry, &c, err);
	if (code == 0) {
		/* Again, now that the digest is known. */
		view__batch_done(&b);
		view__batch_begin(&b, v, &v->fill);
		code = view__archive(&b, &entry, &v->fill.tip.chain, err);
	}
	if (code == 0)
		code = view__apply(&b, &entry, err);
	struct view_tip tip = {entry.pos, entry.time_usec, entry.chain, entry.digest};
	if (code == 0)
		code = view__batch_write(&b, &tip, err);
	if (code) {
		/* The State may be ahead of the rows now: it is loaded again from them. */
		v->fill_state = sch_state_free(v->fill_state);
		return code;
	}
	view__ckpt_touch(&v->fill, &entry);
	code = view__ckpt_step(v, &v->fill, err);
	return code || pos < v->fill_to.pos ? code : fill_finish(v, err);
}

int view_backfill(struct view *v, uint64_t pos, struct mu_view raw, const struct mu_hash *chain,
		  struct mu_err *err)
{
	if (v->read_only)
		return mu_fail(err, MU_EINVAL, "the view was opened for reading only");
	pthread_mutex_lock(&v->writer);
	int code = fill_entry(v, pos, raw, chain, err);
	pthread_mutex_unlock(&v->writer);
	return code;
}

int view_backfill_hist(struct view *v, struct mu_view key, struct mu_view hist_row, struct mu_err *err)
{
	return view__hist_take(v, key, hist_row, err);
}
