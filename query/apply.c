/* query/apply.c: one batch: rows, history, archive and the applied position become visible together or not at
 * all. */
#include "query/store.h"

#include <assert.h>

#include "proto/pb.h"

void view__batch_begin(struct view_batch *b, struct view *v, struct view_line *line)
{
	*b = (struct view_batch){
	    .v = v, .line = line, .wb = rocksdb_writebatch_create(), .life_usec = v->life_usec};
}

void view__batch_done(struct view_batch *b)
{
	if (b->wb)
		rocksdb_writebatch_destroy(b->wb);
	b->wb = NULL;
	mu_map_clear(&b->pending.map);
	mu_arena_free(&b->pending.arena);
}

struct view_pending_row *view__pending_put(struct view_batch *b, uint8_t kind, const void *key, size_t len,
					   struct mu_view bytes, bool gone)
{
	uint8_t full[VIEW_KEY_MAX];
	struct view_pending_row *row = mu_arena_alloc(&b->pending.arena, sizeof *row);

	assert(len < sizeof full);
	full[0] = kind;
	memcpy(full + 1, key, len);
	row->gone = gone;
	row->bytes = bytes;
	mu_map_put(&b->pending.map, full, len + 1, row);
	return row;
}

int view__row(struct view_batch *b, uint8_t kind, const void *key, size_t len, struct mu_buf *hold,
	      struct mu_view *ret, struct mu_err *err)
{
	uint8_t full[VIEW_KEY_MAX];

	assert(len < sizeof full);
	full[0] = kind;
	memcpy(full + 1, key, len);
	struct view_pending_row *row = mu_map_get(&b->pending.map, full, len + 1);
	if (row) {
		*ret = row->bytes;
		return row->gone ? 0 : 1;
	}
	mu_buf_reset(hold);
	enum view_cf cf = kind == VIEW_PENDING_HIST ? VIEW_HIST : VIEW_ROWS;
	full[0] = kind | b->line->shadow;
	int code = cf == VIEW_HIST ? view__get(b->v, NULL, cf, key, len, hold, err)
				   : view__get(b->v, NULL, cf, full, len + 1, hold, err);
	if (code == MU_ENOENT)
		return 0;
	if (code)
		return code;
	*ret = (struct mu_view){hold->data, hold->len};
	return 1;
}

static void put_row(struct view_batch *b, const struct view_row *row)
{
	uint8_t key[VIEW_KEY_MAX];

	key[0] = row->key.kind | b->line->shadow;
	memcpy(key + 1, row->key.bytes, row->key.len);
	if (row->gone)
		view__del(b->v, b->wb, VIEW_ROWS, key, row->key.len + 1u);
	else
		view__put(b->v, b->wb, VIEW_ROWS, key, row->key.len + 1u, row->row.data, row->row.len);
}

int view__apply(struct view_batch *b, const struct view_entry *entry, struct mu_err *err)
{
	/* History looks at the rows as they were before this entry, so it comes before they are replaced. */
	int code = view__hist(b, entry, err);

	if (code == 0)
		code = view__moments(b, entry, err);
	if (code)
		return code;
	for (size_t i = 0; i < entry->row_count; i++) {
		const struct view_row *row = &entry->rows[i];
		if (row->key.kind == 0 || row->key.kind >= SCH_ROW_KINDS)
			return mu_fail(err, MU_EVERSION,
				       "a row of kind %u is unknown to this version of the view",
				       row->key.kind);
		put_row(b, row);
		/* Only these two kinds are looked up again while the batch is being built. */
		if (row->key.kind == SCH_ROW_JOB || row->key.kind == SCH_ROW_STEP)
			view__pending_put(b, row->key.kind, row->key.bytes, row->key.len, row->row,
					  row->gone);
	}
	return 0;
}

void view__config_changed(struct view *v, struct mu_view config_row)
{
	struct mu_arena arena = {0};
	static const struct {
		const char *word;
		unsigned bit;
	} kinds[] = {{"jobs", VIEW_PRIVATE_JOBS},
		     {"nodes", VIEW_PRIVATE_NODES},
		     {"accounts", VIEW_PRIVATE_ACCOUNTS},
		     {"users", VIEW_PRIVATE_USERS},
		     {"usage", VIEW_PRIVATE_USAGE},
		     {"reservations", VIEW_PRIVATE_RESERVATIONS},
		     {"events", VIEW_PRIVATE_EVENTS}};
	unsigned private_data = 0;
	Mu__ConfigRow *row = (Mu__ConfigRow *)mu_pb_unpack(&mu__config_row__descriptor, config_row.data,
							   config_row.len, &arena);

	for (size_t i = 0; row && row->config && i < row->config->n_key; i++) {
		const char *words = row->config->key[i]->value;
		if (strcasecmp(row->config->key[i]->key, "PrivateData") != 0 || !words)
			continue;
		for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
			if (strcasestr(words, kinds[k].word) || strcasecmp(words, "all") == 0)
				private_data |= kinds[k].bit;
	}
	int64_t keep[MU_KEEP_TIERS];
	for (int i = 0; i < MU_KEEP_TIERS; i++)
		keep[i] = mu_keep_sec(row ? row->config : NULL, (enum mu_keep_tier)i);
	mu_arena_free(&arena);
	pthread_mutex_lock(&v->lock);
	v->private_data = private_data;
	memcpy(v->keep_sec, keep, sizeof keep);
	pthread_mutex_unlock(&v->lock);
}

void view__seen(struct view *v)
{
	pthread_mutex_lock(&v->lock);
	v->seen = v->now.tip;
	pthread_cond_broadcast(&v->moved);
	pthread_mutex_unlock(&v->lock);
}

int view__batch_write(struct view_batch *b, const struct view_tip *tip, struct mu_err *err)
{
	uint8_t record[VIEW_TIP_BYTES], life[8];

	view__tip_pack(tip, record);
	view__put(b->v, b->wb, VIEW_META, b->line->tip_key, strlen(b->line->tip_key), record, sizeof record);
	if (b->life_usec > b->v->life_usec) {
		mu_put_be64(life, (uint64_t)b->life_usec);
		view__put(b->v, b->wb, VIEW_META, "life", 4, life, sizeof life);
	}
	int code = view__write(b->v, b->wb, "writing what entries changed", err);
	if (code)
		return code;
	pthread_mutex_lock(&b->v->lock);
	b->line->tip = *tip;
	b->v->life_usec = b->life_usec;
	pthread_mutex_unlock(&b->v->lock);
	return 0;
}

/* Everything of COUNT entries in one batch; nothing is changed when an entry does not follow. */
static int apply_batch(struct view *v, const struct view_entry *entries, size_t count, struct mu_err *err)
{
	MU_CLEANUP(view__batch_done) struct view_batch b;
	struct view_tip tip = v->now.tip;

	view__batch_begin(&b, v, &v->now);
	for (size_t i = 0; i < count; i++) {
		const struct view_entry *e = &entries[i];
		if (e->pos != tip.pos + 1)
			return mu_fail(err, MU_EINVAL, "entry %llu was given to the view, which is at %llu",
				       (unsigned long long)e->pos, (unsigned long long)tip.pos);
		int code = view__archive(&b, e, &tip.chain, err);
		if (code == 0)
			code = view__apply(&b, e, err);
		if (code)
			return code;
		tip = (struct view_tip){e->pos, e->time_usec, e->chain, e->digest};
	}
	return view__batch_write(&b, &tip, err);
}

int view_apply(struct view *v, const struct view_entry *entries, size_t count, struct mu_err *err)
{
	int code;

	if (v->read_only)
		return mu_fail(err, MU_EINVAL, "the view was opened for reading only");
	pthread_mutex_lock(&v->writer);
	while (count && entries->pos <= v->now.tip.pos) {
		entries++;
		count--;
	}
	code = count ? apply_batch(v, entries, count, err) : 0;
	if (code == 0 && count) {
		for (size_t i = 0; i < count; i++) {
			view__ckpt_touch(&v->now, &entries[i]);
			for (size_t k = 0; k < entries[i].row_count; k++)
				if (entries[i].rows[k].key.kind == SCH_ROW_CONFIG && !entries[i].rows[k].gone)
					view__config_changed(v, entries[i].rows[k].row);
			view__count(v, &v->stats.rows, entries[i].row_count);
		}
		view__count(v, &v->stats.batches, 1);
		view__count(v, &v->stats.entries, count);
		view__seen(v);
		code = view__ckpt_step(v, &v->now, err);
	}
	pthread_mutex_unlock(&v->writer);
	return code;
}
