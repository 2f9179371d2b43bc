/* query/base.c: what lies below the cut of one archive, carried into another that has less: the State there
 * as checkpoints, the records of jobs, lives and acts that were told of before it, and blobs. From the cut on
 * the other one's history is filled in with entries (image.c).
 *
 * A page is records, each u8 section, be32 key length, be32 value length, key, value; the cursor is a section
 * and a key. They are read under an image's snapshot, so they belong together. What is taken over shows
 * nowhere before the last page: then the rows give the State whose digest is in the statement of the cut, or
 * nothing comes of it. */
#include <assert.h>

#include "query/keep.h"
#include "query/store.h"

enum { RECORD_HEAD = 1 + 4 + 4, CUT_KEY = 3, CURSOR_MAX = 1 + 512 };
static const char staged[] = VIEW_STAGED_CUT;

/* Sections: a family's keys from the prefix on, up to and with it; empty: the whole family. */
static const struct {
	enum view_cf cf;
	const char *prefix;
	bool below; /* of these only those that the cut's position is not before */
} sections[] = {{VIEW_META, "cut", false}, {VIEW_META, "K", false}, {VIEW_META, "C", true},
		{VIEW_CKPT, "", true},	   {VIEW_ENTRY, "", true},  {VIEW_INDEX, "T", true},
		{VIEW_HIST, "", false},	   {VIEW_INDEX, "J", true}, {VIEW_INDEX, "N", true},
		{VIEW_INDEX, "V", true},   {VIEW_INDEX, "X", true}, {VIEW_BLOB, "", false},
		{VIEW_INDEX, "B", false},  {VIEW_INDEX, "P", false}};
enum { SECTIONS = sizeof sections / sizeof sections[0] };

/* The position that a key tells of. */
static uint64_t pos_of(unsigned section, struct mu_view key)
{
	switch (sections[section].cf) {
	case VIEW_META: /* 'C' be64 pos, type */
		return key.len >= 9 ? mu_get_be64(key.data + 1) : 0;
	case VIEW_INDEX:
		if (sections[section].prefix[0] == 'X' && key.len >= 17) /* 'X' usec, pos, part */
			return mu_get_be64(key.data + 9);
		return key.len >= 9 ? mu_get_be64(key.data + key.len - 8) : 0;
	default:
		return key.len >= 8 ? mu_get_be64(key.data) : 0;
	}
}

/* ---- giving ---- */

static void put_record(struct mu_buf *out, unsigned section, struct mu_view key, struct mu_view value)
{
	uint8_t *head = mu_buf_grow(out, RECORD_HEAD);

	head[0] = (uint8_t)section;
	mu_put_be32(head + 1, (uint32_t)key.len);
	mu_put_be32(head + 5, (uint32_t)value.len);
	mu_buf_add(out, key.data, key.len);
	if (value.len)
		mu_buf_add(out, value.data, value.len);
}

/* One section behind *CURSOR until OUT holds about MAX bytes; *RET_END: it is through. */
static int read_section(struct view *v, const rocksdb_snapshot_t *snapshot, unsigned section, uint64_t cut,
			struct mu_buf *cursor, size_t max, struct mu_buf *out, bool *ret_end,
			struct mu_err *err)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	const char *prefix = sections[section].prefix;
	size_t n = strlen(prefix), behind = cursor->len - 1;
	uint8_t to[8];
	struct mu_view from = behind ? (struct mu_view){cursor->data + 1, behind}
				     : (struct mu_view){(const uint8_t *)prefix, n};

	memcpy(to, prefix, n);
	view__scan(v, snapshot, sections[section].cf, from,
		   (struct mu_view){to, n ? view__after_prefix(to, n) : 0}, &scan);
	for (; view__scan_valid(&scan) && out->len < max; view__scan_next(&scan)) {
		struct mu_view key = view__scan_key(&scan);
		if (key.len >= CURSOR_MAX ||
		    (behind && from.len == key.len && memcmp(cursor->data + 1, key.data, behind) == 0))
			continue;
		if (!sections[section].below || pos_of(section, key) <= cut)
			put_record(out, section, key, view__scan_value(&scan));
		mu_buf_reset(cursor);
		*(uint8_t *)mu_buf_grow(cursor, 1) = (uint8_t)section;
		mu_buf_add(cursor, key.data, key.len);
		behind = 0; /* FROM lies in the cursor no more */
	}
	*ret_end = !view__scan_valid(&scan);
	return view__scan_end(&scan, "reading what lies below the cut", err);
}

int view_base_read(struct view_image *im, struct mu_buf *cursor, size_t max, struct mu_buf *out,
		   bool *ret_more, struct mu_err *err)
{
	const rocksdb_snapshot_t *snapshot;
	struct view *v = view__image_of(im, &snapshot);
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	Mu__Cut *cut = NULL;
	unsigned section = cursor->len ? cursor->data[0] : 0;
	int code = view__cut_read(v, snapshot, &arena, &cut, err);

	if (code)
		return code;
	if (!cursor->len)
		*(uint8_t *)mu_buf_grow(cursor, 1) = 0;
	while (code == 0 && section < SECTIONS && out->len < max) {
		bool end = false;
		code = read_section(v, snapshot, section, cut->pos, cursor, max, out, &end, err);
		if (!end)
			break;
		mu_buf_reset(cursor);
		*(uint8_t *)mu_buf_grow(cursor, 1) = (uint8_t)++section;
	}
	*ret_more = section < SECTIONS;
	return code;
}

/* ---- taking ---- */

static int take_record(struct view *v, rocksdb_writebatch_t *wb, unsigned section, struct mu_view key,
		       struct mu_view value, struct mu_err *err)
{
	enum view_cf cf = sections[section].cf;

	if (section == 0)
		view__put(v, wb, VIEW_META, staged, sizeof staged - 1, value.data, value.len);
	else if (cf == VIEW_HIST)
		return view__hist_take(v, key, value, err);
	else if (cf == VIEW_BLOB && key.len == MU_HASH_BYTES && view__blob_kept(v, key.data))
		return 0;
	else if (sections[section].prefix[0] == 'B')
		view__blob_stamp(v, wb, key, value);
	else
		view__put(v, wb, cf, key.data, key.len, value.data, value.len);
	return 0;
}

int view_base_take(struct view *v, struct mu_view page, struct mu_err *err)
{
	const uint8_t *p = page.data, *end = p + page.len;
	rocksdb_writebatch_t *wb = rocksdb_writebatch_create();
	int code = 0;

	while (p < end && code == 0) {
		uint64_t key = end - p >= RECORD_HEAD ? mu_get_be32(p + 1) : UINT32_MAX;
		uint64_t value = key < UINT32_MAX ? mu_get_be32(p + 5) : 0;
		if (key >= CURSOR_MAX || (uint64_t)(end - p) < RECORD_HEAD + key + value ||
		    p[0] >= SECTIONS) {
			code = mu_fail(err, MU_EPROTO, "what lies below a peer's cut came in pieces");
			break;
		}
		code = take_record(v, wb, p[0], (struct mu_view){p + RECORD_HEAD, key},
				   (struct mu_view){p + RECORD_HEAD + key, value}, err);
		p += RECORD_HEAD + key + value;
	}
	if (code == 0)
		code = view__write(v, wb, "taking over what lies below a cut", err);
	rocksdb_writebatch_destroy(wb);
	return code;
}

/* The State at the cut that was taken over; it must be what the statement says. */
static int staged_state(struct view *v, const Mu__Cut *cut, struct sch_state **ret, struct mu_err *err)
{
	struct mu_hash digest;
	int code = view__state_at(v, cut->pos, ret, err);

	if (code)
		return code;
	sch_digest(*ret, &digest);
	if (sch_pos(*ret) == cut->pos && memcmp(digest.b, cut->digest.data, MU_HASH_BYTES) == 0)
		return 0;
	*ret = sch_state_free(*ret);
	return mu_fail(err, MU_ECORRUPT, "the State below a peer's cut is not the one in its statement");
}

static int read_staged(struct view *v, struct mu_arena *arena, Mu__Cut **ret, struct view_archived *at,
		       struct mu_buf *hold, struct mu_err *err)
{
	int code = view__get(v, NULL, VIEW_META, staged, sizeof staged - 1, hold, err);

	if (code == 0)
		code = view__cut_parse((struct mu_view){hold->data, hold->len}, arena, ret, err);
	if (code == 0)
		code = view__archived(v, (*ret)->pos, at, err);
	if (code == 0 && memcmp(at->chain.b, (*ret)->chain.data, MU_HASH_BYTES) != 0)
		code = mu_fail(err, MU_ECORRUPT,
			       "the entry at a peer's cut does not have the chain value of its statement");
	return code;
}

int view_base_done(struct view *v, struct mu_err *err)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	MU_CLEANUP(view__archived_done) struct view_archived a = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf hold = {0};
	struct sch_state *st = NULL;
	Mu__Cut *cut = NULL;
	int code = read_staged(v, &arena, &cut, &a, &hold, err);

	if (code == 0 && cut->pos > view_pos(v))
		code = mu_fail(err, MU_ENOTREADY, "a peer's cut lies behind what is known here");
	if (code == 0)
		code = staged_state(v, cut, &st, err);
	if (code == 0) {
		pthread_mutex_lock(&v->writer);
		code = view__fill_from(v, st, &a, (struct mu_view){hold.data, hold.len}, err);
		pthread_mutex_unlock(&v->writer);
	}
	sch_state_free(st);
	return code ? code : view__keep_open(v, err);
}

int view_base_begin(struct view *v, struct mu_err *err)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	MU_CLEANUP(view__archived_done) struct view_archived a = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf hold = {0};
	struct sch_state *st = NULL;
	Mu__Cut *cut = NULL;
	int code = view_pos(v) ? mu_fail(err, MU_EINVAL, "the view holds a history already")
			       : read_staged(v, &arena, &cut, &a, &hold, err);

	if (code == 0)
		code = staged_state(v, cut, &st, err);
	if (code == 0)
		code = view_switch(v, st, &a.chain, err);
	sch_state_free(st);
	return code ? code : view_base_done(v, err);
}
