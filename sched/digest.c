/* sched/digest.c: the sum over all rows, moved with each change, and the change list that the view feeds on.
 * The cluster's row changes with every entry: its hash is added when somebody asks, never kept in the sum. */
#include "sched/state.h"

#include <assert.h>
#include <stdlib.h>

/* Bytes of rows that a change list holds on to between entries. */
enum { SCH_CHANGES_KEPT = 1 << 20 };

void sch__touch(struct sch_state *st, struct sch_rec *rec)
{
	if (rec->touched || st->loading)
		return;
	if (st->touched_count == st->touched_cap) {
		st->touched_cap = st->touched_cap ? 2 * st->touched_cap : 64;
		st->touched = realloc(st->touched, st->touched_cap * sizeof(st->touched[0]));
		if (!st->touched)
			abort();
	}
	rec->touched = true;
	st->touched[st->touched_count++] = rec;
}

void sch__gone(struct sch_state *st, struct sch_rec *rec)
{
	assert(!rec->gone);
	sch__touch(st, rec);
	rec->gone = true;
}

void sch__retouch(struct sch_state *st, struct sch_rec *old, struct sch_rec *fresh)
{
	*fresh = *old;
	for (size_t i = st->touched_count; fresh->touched && i > 0; i--)
		if (st->touched[i - 1] == old) {
			st->touched[i - 1] = fresh;
			return;
		}
}

void sch__row_hash(const struct sch_key *key, const uint8_t *row, size_t len, struct mu_hash *ret)
{
	struct mu_hasher h;
	mu_hasher_init(&h);
	mu_hasher_add(&h, &key->kind, 1);
	mu_hasher_add(&h, &key->len, 1);
	mu_hasher_add(&h, key->bytes, key->len);
	mu_hasher_add(&h, row, len);
	mu_hasher_done(&h, ret);
}

static struct sch_change *change_at(struct sch_changes *changes, uint32_t *at, const struct sch_key *key)
{
	if (*at < changes->count && changes->v[*at].key.kind == key->kind &&
	    changes->v[*at].key.len == key->len &&
	    memcmp(changes->v[*at].key.bytes, key->bytes, key->len) == 0)
		return &changes->v[*at];
	if (changes->count == changes->cap) {
		changes->cap = changes->cap ? 2 * changes->cap : 16;
		changes->v = realloc(changes->v, changes->cap * sizeof(changes->v[0]));
		if (!changes->v)
			abort();
	}
	*at = (uint32_t)changes->count++;
	changes->v[*at].key = *key;
	return &changes->v[*at];
}

void sch__note(struct sch_changes *changes, uint32_t *at, const struct sch_key *key, bool gone,
	       const struct mu_buf *row)
{
	if (!changes)
		return;
	struct sch_change *c = change_at(changes, at, key);
	c->gone = gone;
	c->at = changes->rows.len;
	c->len = row && changes->keep_rows ? row->len : 0;
	if (c->len)
		mu_buf_add(&changes->rows, row->data, row->len);
}

static void flush_one(struct sch_state *st, struct sch_rec *rec, struct sch_changes *changes)
{
	struct sch_key key;
	sch__rec_key(rec, &key);
	rec->touched = false;
	if (rec->gone) {
		if (rec->counted) {
			mu_hash_sum_sub(&st->sum, &rec->hash);
			sch__note(changes, &rec->change, &key, true, NULL);
		}
		sch__rec_free(st, rec);
		return;
	}
	struct mu_hash hash;
	mu_buf_reset(&st->scratch->row);
	sch__rec_pack(st, rec, &st->scratch->row);
	sch__row_hash(&key, st->scratch->row.data, st->scratch->row.len, &hash);
	if (rec->counted && memcmp(&hash, &rec->hash, sizeof(hash)) == 0)
		return;
	if (rec->counted)
		mu_hash_sum_sub(&st->sum, &rec->hash);
	mu_hash_sum_add(&st->sum, &hash);
	rec->hash = hash;
	rec->counted = true;
	sch__note(changes, &rec->change, &key, false, &st->scratch->row);
}

void sch__flush(struct sch_state *st, struct sch_changes *changes)
{
	for (size_t i = 0; i < st->touched_count; i++)
		flush_one(st, st->touched[i], changes);
	st->touched_count = 0;
}

void sch_digest(const struct sch_state *st, struct mu_hash *ret)
{
	struct sch_key key = {.kind = SCH_ROW_CLUSTER};
	struct mu_hash own;
	struct mu_buf row = {0};
	sch__cluster_pack(st, &row);
	sch__row_hash(&key, row.data, row.len, &own);
	mu_buf_free(&row);
	*ret = st->sum;
	mu_hash_sum_add(ret, &own);
}

static int walk_one(void *arg, const struct sch_key *key, const uint8_t *row, size_t len)
{
	struct mu_hash hash;
	sch__row_hash(key, row, len, &hash);
	mu_hash_sum_add(arg, &hash);
	return 0;
}

void sch_digest_walk(const struct sch_state *st, struct mu_hash *ret)
{
	memset(ret, 0, sizeof(*ret));
	sch_rows(st, 0, walk_one, ret);
}

void sch_changes_reset(struct sch_changes *c)
{
	c->count = 0;
	if (c->rows.cap > SCH_CHANGES_KEPT)
		mu_buf_free(&c->rows); /* after a new configuration, say */
	else
		mu_buf_reset(&c->rows);
}

int sch_changes_row(const struct sch_state *st, const struct sch_changes *c, size_t i, struct mu_buf *out)
{
	const struct sch_change *change = &c->v[i];
	assert(i < c->count && !change->gone);
	if (!change->len)
		return sch_row_pack(st, &change->key, out);
	mu_buf_add(out, c->rows.data + change->at, change->len);
	return 0;
}

void sch_changes_free(struct sch_changes *c)
{
	free(c->v);
	mu_buf_free(&c->rows);
	memset(c, 0, sizeof(*c));
}
