/* tests/query/fake_sched.c: the part of sched/sched.h that the view uses, over plain rows. An event is a list
 * of rows to write: u8 gone, u8 kind, then (gone) u8 key length, key or (written) u32 length, row. */
#include "tests/query/fake.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/map.h"
#include "proto/rows.pb-c.h"
#include "query/pick.h"

struct sch_state {
	struct mu_map rows; /* kind, key -> struct row */
	struct mu_hash digest;
	uint64_t pos;
	int64_t now_usec;
};
struct row {
	size_t len;
	uint8_t bytes[];
};

struct sch_state *sch_state_new(void)
{
	return calloc(1, sizeof(struct sch_state));
}

struct sch_state *sch_state_free(struct sch_state *st)
{
	const uint8_t *key = NULL;
	size_t len = 0;
	void *row;

	if (!st)
		return NULL;
	while ((row = mu_map_seek(&st->rows, key, len, key != NULL, &key, &len)))
		free(row);
	mu_map_clear(&st->rows);
	free(st);
	return NULL;
}

static void row_hash(const uint8_t *full, size_t len, const struct row *row, struct mu_hash *ret)
{
	struct mu_hasher h;
	uint8_t key_len = (uint8_t)(len - 1);

	mu_hasher_init(&h);
	mu_hasher_add(&h, full, 1);
	mu_hasher_add(&h, &key_len, 1);
	mu_hasher_add(&h, full + 1, len - 1);
	mu_hasher_add(&h, row->bytes, row->len);
	mu_hasher_done(&h, ret);
}

static void put(struct sch_state *st, const struct sch_key *key, const uint8_t *bytes, size_t len, bool gone)
{
	uint8_t full[1 + SCH_KEY_MAX];
	struct mu_hash hash;
	struct row *old, *row = NULL;

	full[0] = key->kind;
	memcpy(full + 1, key->bytes, key->len);
	if (gone) {
		old = mu_map_del(&st->rows, full, 1u + key->len);
	} else {
		row = malloc(sizeof *row + len);
		assert(row);
		row->len = len;
		memcpy(row->bytes, bytes, len);
		old = mu_map_put(&st->rows, full, 1u + key->len, row);
		row_hash(full, 1u + key->len, row, &hash);
		mu_hash_sum_add(&st->digest, &hash);
	}
	if (old) {
		row_hash(full, 1u + key->len, old, &hash);
		mu_hash_sum_sub(&st->digest, &hash);
		free(old);
	}
}

static int key_of(uint8_t kind, struct mu_view row, struct sch_key *ret)
{
	struct mu_view name = {0};

	*ret = (struct sch_key){.kind = kind};
	switch (kind) {
	case SCH_ROW_CLUSTER:
	case SCH_ROW_CONFIG:
		return 0;
	case SCH_ROW_JOB:
		ret->len = 4;
		mu_put_be32(ret->bytes, (uint32_t)pick_number(row, 1));
		return 0;
	case SCH_ROW_STEP:
		ret->len = 12;
		for (uint32_t i = 0; i < 3; i++)
			mu_put_be32(ret->bytes + 4 * i, (uint32_t)pick_number(row, i + 1));
		return 0;
	case SCH_ROW_PARTITION:
		name = pick_bytes(pick_bytes(row, 1), 1);
		break;
	case SCH_ROW_NODE:
	case SCH_ROW_NODE_KEY:
		name = pick_bytes(row, 1);
		break;
	default:
		return MU_EPROTO;
	}
	ret->len = (uint8_t)name.len;
	memcpy(ret->bytes, name.data, name.len);
	return 0;
}

int sch_load_row(struct sch_state *st, uint8_t kind, const uint8_t *row, size_t len, struct mu_err *err)
{
	struct sch_key key;
	int code = key_of(kind, (struct mu_view){row, len}, &key);

	if (code)
		return mu_fail(err, code, "row of kind %u", kind);
	put(st, &key, row, len, false);
	if (kind == SCH_ROW_CLUSTER) {
		st->pos = pick_number((struct mu_view){row, len}, 14);
		st->now_usec = (int64_t)pick_number((struct mu_view){row, len}, 5);
	}
	return 0;
}

int sch_load_done(struct sch_state *st, struct mu_err *err)
{
	return st->pos ? 0 : mu_fail(err, MU_ECORRUPT, "no cluster row");
}

int sch_row_pack(const struct sch_state *st, const struct sch_key *key, struct mu_buf *out)
{
	uint8_t full[1 + SCH_KEY_MAX];

	full[0] = key->kind;
	memcpy(full + 1, key->bytes, key->len);
	struct row *row = mu_map_get(&st->rows, full, 1u + key->len);
	if (!row)
		return MU_ENOENT;
	mu_buf_add(out, row->bytes, row->len);
	return 0;
}

int sch_rows(const struct sch_state *st, uint8_t kind, sch_row_sink sink, void *arg)
{
	const uint8_t *full = NULL;
	size_t len = 0;
	struct row *row;
	int code = 0;

	while (code == 0 && (row = mu_map_seek(&st->rows, full, len, full != NULL, &full, &len))) {
		struct sch_key key = {.kind = full[0], .len = (uint8_t)(len - 1)};
		if (kind && key.kind != kind)
			continue;
		memcpy(key.bytes, full + 1, len - 1);
		code = sink(arg, &key, row->bytes, row->len);
	}
	return code;
}

void sch_digest(const struct sch_state *st, struct mu_hash *ret)
{
	*ret = st->digest;
}

uint64_t sch_pos(const struct sch_state *st)
{
	return st->pos;
}

int64_t sch_now_usec(const struct sch_state *st)
{
	return st->now_usec;
}

static void touched(struct sch_changes *c, const struct sch_key *key, bool gone)
{
	for (size_t i = 0; i < c->count; i++)
		if (c->v[i].key.kind == key->kind && c->v[i].key.len == key->len &&
		    memcmp(c->v[i].key.bytes, key->bytes, key->len) == 0) {
			c->v[i].gone = gone;
			return;
		}
	if (c->count == c->cap) {
		c->cap = c->cap ? 2 * c->cap : 16;
		c->v = realloc(c->v, c->cap * sizeof *c->v);
		assert(c->v);
	}
	c->v[c->count++] = (struct sch_change){.key = *key, .gone = gone};
}

void sch_changes_reset(struct sch_changes *c)
{
	c->count = 0;
}

void sch_changes_free(struct sch_changes *c)
{
	free(c->v);
	*c = (struct sch_changes){0};
}

int sch_evolve(struct sch_state *st, const struct sch_at *at, const uint8_t *event, size_t len,
	       struct sch_verdict *ret_verdict, struct sch_changes *changes, struct mu_err *err)
{
	const uint8_t *p = event, *end = event + len;

	assert(at->pos == st->pos + 1);
	*ret_verdict = (struct sch_verdict){0};
	while (p < end) {
		struct sch_key key = {.kind = p[1]};
		bool gone = p[0] != 0;
		p += 2;
		if (gone) {
			key.len = p[0];
			memcpy(key.bytes, p + 1, key.len);
			p += 1 + key.len;
			put(st, &key, NULL, 0, true);
		} else {
			uint32_t n = mu_get_be32(p);
			if (key_of(key.kind, (struct mu_view){p + 4, n}, &key))
				return mu_fail(err, MU_EVERSION, "row of kind %u", key.kind);
			put(st, &key, p + 4, n, false);
			p += 4 + n;
		}
		touched(changes, &key, gone);
	}
	return 0;
}

void sch_entry_done(struct sch_state *st, uint64_t pos, int64_t time_usec, struct sch_changes *changes)
{
	Mu__ClusterRow row = MU__CLUSTER_ROW__INIT;
	struct sch_key key = {.kind = SCH_ROW_CLUSTER};
	uint8_t bytes[64];

	st->pos = pos;
	st->now_usec = time_usec;
	row.has_entries = row.has_now_usec = true;
	row.entries = pos;
	row.now_usec = time_usec;
	size_t n = mu__cluster_row__pack(&row, bytes);
	put(st, &key, bytes, n, false);
	touched(changes, &key, false);
}

/* Nothing is computed from rows that mean nothing. */
int sch_explain_share(const struct sch_state *st, uint32_t index, struct mu_arena *arena, Mu__ShareRow **ret)
{
	return MU_ENOENT;
}

int sch_explain_priority(const struct sch_state *st, uint32_t id, struct mu_arena *arena, Mu__PriorityRow **ret)
{
	return MU_ENOENT;
}

int sch_explain_wait(const struct sch_state *st, uint32_t id, struct mu_arena *arena, Mu__WaitRow **ret)
{
	return MU_ENOENT;
}

int sch_explain_help(const struct sch_state *st, uint32_t id, int64_t by_usec, struct mu_arena *arena,
		     Mu__WhyRow *ret)
{
	return MU_ENOENT;
}

int sch_explain_config(const struct sch_state *st, const Mu__Config *config, struct mu_arena *arena,
		       Mu__PlanRow ***ret, size_t *ret_count, struct mu_err *err)
{
	return MU_ENOENT;
}

uint32_t sch_next_waiting(const struct sch_state *st, uint32_t after)
{
	return 0;
}
