/* query/archive.c: every entry for good: header, leaves and chain for ever, parts as long as they are kept,
 * blobs once. */
#include "query/store.h"

#include <assert.h>

void view__leaf(uint8_t kind, struct mu_view part, struct mu_hash *ret)
{
	struct mu_hasher h;

	if (kind & VIEW_PART_GONE) {
		memcpy(ret->b, part.data, MU_HASH_BYTES);
		return;
	}
	mu_hasher_init(&h);
	mu_hasher_add(&h, &kind, 1);
	mu_hasher_add(&h, part.data, part.len);
	mu_hasher_done(&h, ret);
}

static uint32_t get_le32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t get_le64(const uint8_t *p)
{
	return (uint64_t)get_le32(p) | (uint64_t)get_le32(p + 4) << 32;
}

static void put_le32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

/* How long the part is, or was. */
static uint32_t part_length(const struct view_part *part)
{
	return part->kind & VIEW_PART_GONE ? get_le32(part->bytes.data + MU_HASH_BYTES)
					   : (uint32_t)part->bytes.len;
}

int view__entry_split(struct mu_view raw, struct mu_arena *arena, struct view_entry *ret, struct mu_err *err)
{
	static const uint8_t magic[4] = {'M', 'U', 'E', '1'};

	if (raw.len < VIEW_HEADER || memcmp(raw.data, magic, sizeof magic) != 0)
		return mu_fail(err, MU_EPROTO, "what came is no log entry");
	uint32_t length = get_le32(raw.data + 4), count = get_le32(raw.data + 24);
	if (length < VIEW_HEADER || count > VIEW_PARTS_MAX)
		return mu_fail(err, MU_EPROTO, "an entry of %u bytes and %u parts cannot be", length, count);
	struct view_part *parts = mu_arena_alloc(arena, (count ? count : 1) * sizeof *parts);
	size_t at = VIEW_HEADER, whole = VIEW_HEADER;
	for (uint32_t i = 0; i < count; i++) {
		if (raw.len - at < VIEW_PART_HEADER ||
		    get_le32(raw.data + at) > raw.len - at - VIEW_PART_HEADER)
			return mu_fail(err, MU_EPROTO, "part %u of an entry ends behind the entry", i);
		parts[i].kind = raw.data[at + 4];
		parts[i].bytes = (struct mu_view){raw.data + at + VIEW_PART_HEADER, get_le32(raw.data + at)};
		if ((parts[i].kind & VIEW_PART_GONE) && parts[i].bytes.len != VIEW_GONE_BYTES)
			return mu_fail(err, MU_EPROTO, "part %u of an entry is gone, and its leaf too", i);
		whole += VIEW_PART_HEADER + part_length(&parts[i]);
		at += VIEW_PART_HEADER + parts[i].bytes.len;
	}
	if (whole != length || at != raw.len)
		return mu_fail(err, MU_EPROTO, "an entry's %u bytes are not those of its parts", length);
	ret->header = (struct mu_view){raw.data, VIEW_HEADER};
	ret->time_usec = (int64_t)get_le64(raw.data + 8);
	ret->parts = parts;
	ret->part_count = count;
	return 0;
}

/* One part: its bytes under (pos, n); a blob's bytes under their own hash, unless they are there already. */
static void put_part(struct view_batch *b, const struct view_entry *entry, uint32_t n)
{
	const struct view_part *part = &entry->parts[n];
	uint8_t key[12];

	mu_put_be64(key, entry->pos);
	mu_put_be32(key + 8, n);
	if (part->kind & VIEW_PART_GONE) {
		view__put(b->v, b->wb, VIEW_PART, key, sizeof key, NULL, 0);
		return;
	}
	if (part->kind != VIEW_PART_BLOB) {
		view__put(b->v, b->wb, VIEW_PART, key, sizeof key, part->bytes.data, part->bytes.len);
		return;
	}
	struct mu_hash hash;
	mu_hash_bytes(part->bytes.data, part->bytes.len, &hash);
	view__put(b->v, b->wb, VIEW_PART, key, sizeof key, hash.b, MU_HASH_BYTES);
	if (!view__blob_kept(b->v, hash.b))
		view__put(b->v, b->wb, VIEW_BLOB, hash.b, MU_HASH_BYTES, part->bytes.data, part->bytes.len);
	view__blob_came(b, &hash, part->bytes, entry->time_usec);
}

int view__archive(struct view_batch *b, const struct view_entry *entry, const struct mu_hash *before,
		  struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf record = {0};
	struct mu_hasher chain;
	struct mu_hash next;

	if (entry->header.len != VIEW_HEADER || entry->part_count > VIEW_PARTS_MAX)
		return mu_fail(err, MU_EPROTO, "entry %llu has a header of %zu bytes and %zu parts",
			       (unsigned long long)entry->pos, entry->header.len, entry->part_count);
	uint8_t *head = mu_buf_grow(&record, VIEW_ENTRY_HEAD + entry->part_count * VIEW_LEAF_BYTES);
	mu_hasher_init(&chain);
	mu_hasher_add(&chain, before->b, MU_HASH_BYTES);
	mu_hasher_add(&chain, entry->header.data, VIEW_HEADER);
	uint8_t *leaf = head + VIEW_ENTRY_HEAD;
	for (size_t i = 0; i < entry->part_count; i++, leaf += VIEW_LEAF_BYTES) {
		struct mu_hash hash;
		view__leaf(entry->parts[i].kind, entry->parts[i].bytes, &hash);
		mu_hasher_add(&chain, hash.b, MU_HASH_BYTES);
		leaf[0] = entry->parts[i].kind & (uint8_t)~VIEW_PART_GONE;
		memcpy(leaf + 1, hash.b, MU_HASH_BYTES);
		mu_put_be32(leaf + 1 + MU_HASH_BYTES, part_length(&entry->parts[i]));
		put_part(b, entry, (uint32_t)i);
	}
	mu_hasher_done(&chain, &next);
	if (memcmp(next.b, entry->chain.b, MU_HASH_BYTES) != 0)
		return mu_fail(err, MU_ECORRUPT,
			       "entry %llu does not follow from the entry before: its chain value differs",
			       (unsigned long long)entry->pos);
	memcpy(head, entry->chain.b, MU_HASH_BYTES);
	memcpy(head + MU_HASH_BYTES, entry->digest.b, MU_HASH_BYTES);
	head[2 * MU_HASH_BYTES] = 1;
	memcpy(head + 2 * MU_HASH_BYTES + 1, entry->header.data, VIEW_HEADER);
	mu_put_be32(head + 2 * MU_HASH_BYTES + 1 + VIEW_HEADER, (uint32_t)entry->part_count);

	uint8_t pos_key[8], time_key[17] = {'T'};
	mu_put_be64(pos_key, entry->pos);
	view__put(b->v, b->wb, VIEW_ENTRY, pos_key, sizeof pos_key, record.data, record.len);
	mu_put_be64(time_key + 1, (uint64_t)entry->time_usec);
	mu_put_be64(time_key + 9, entry->pos);
	view__put(b->v, b->wb, VIEW_INDEX, time_key, sizeof time_key, NULL, 0);
	return 0;
}

void view__archived_done(struct view_archived *a)
{
	mu_buf_free(&a->hold);
}

/* The record's fields, borrowed from HOLD. */
static int archived_parse(struct view_archived *a, struct mu_err *err)
{
	const uint8_t *p = a->hold.data;
	bool fits = a->hold.len >= VIEW_ENTRY_HEAD;

	if (fits) {
		a->parts = mu_get_be32(p + VIEW_ENTRY_HEAD - 4);
		fits = a->parts <= VIEW_PARTS_MAX &&
		       a->hold.len == VIEW_ENTRY_HEAD + (size_t)a->parts * VIEW_LEAF_BYTES;
	}
	if (!fits)
		return mu_fail(err, MU_ECORRUPT,
			       "the archive's record of entry %llu has %zu bytes, which is impossible",
			       (unsigned long long)a->pos, a->hold.len);
	memcpy(a->chain.b, p, MU_HASH_BYTES);
	memcpy(a->digest.b, p + MU_HASH_BYTES, MU_HASH_BYTES);
	a->digest_known = p[2 * MU_HASH_BYTES] != 0;
	a->header = (struct mu_view){p + 2 * MU_HASH_BYTES + 1, VIEW_HEADER};
	a->time_usec = (int64_t)get_le64(a->header.data + 8);
	a->leaf = p + VIEW_ENTRY_HEAD;
	return 0;
}

int view__archived(struct view *v, uint64_t pos, struct view_archived *ret, struct mu_err *err)
{
	uint8_t key[8];

	mu_put_be64(key, pos);
	ret->pos = pos;
	mu_buf_reset(&ret->hold);
	int code = view__get(v, NULL, VIEW_ENTRY, key, sizeof key, &ret->hold, err);
	if (code == MU_ENOENT)
		return pos < view__cut_pos(v) ? view__too_old(v, err)
					      : mu_fail(err, MU_ENOENT, "entry %llu is not in the archive",
							(unsigned long long)pos);
	return code ? code : archived_parse(ret, err);
}

static bool leaf_is_empty(const struct view_archived *a, uint32_t n)
{
	const uint8_t *leaf = a->leaf + (size_t)n * VIEW_LEAF_BYTES;
	struct mu_hash empty;

	view__leaf(leaf[0], (struct mu_view){(const uint8_t *)"", 0}, &empty);
	return memcmp(empty.b, leaf + 1, MU_HASH_BYTES) == 0;
}

int view__archived_part(struct view *v, const struct view_archived *a, uint32_t n, uint8_t *ret_kind,
			struct mu_buf *out, struct mu_err *err)
{
	uint8_t key[12];
	size_t before = out->len;

	assert(n < a->parts);
	mu_put_be64(key, a->pos);
	mu_put_be32(key + 8, n);
	*ret_kind = a->leaf[(size_t)n * VIEW_LEAF_BYTES];
	int code = view__get(v, NULL, VIEW_PART, key, sizeof key, out, err);
	if (code == 0 && *ret_kind == VIEW_PART_BLOB && out->len - before == MU_HASH_BYTES) {
		uint8_t hash[MU_HASH_BYTES];
		memcpy(hash, out->data + before, MU_HASH_BYTES);
		out->len = before;
		code = view__get(v, NULL, VIEW_BLOB, hash, MU_HASH_BYTES, out, err);
	}
	if (code == MU_ENOENT)
		return mu_fail(err, MU_ECORRUPT, "part %u of entry %llu is missing", n,
			       (unsigned long long)a->pos);
	/* What is forgotten leaves an empty value behind, so that it is told from what is lost. */
	if (code == 0 && out->len == before && !leaf_is_empty(a, n))
		return mu_fail(err, MU_ENOENT, "part %u of entry %llu is no longer kept", n,
			       (unsigned long long)a->pos);
	return code;
}

int view_entry_get(struct view *v, uint64_t pos, struct mu_buf *out, struct mu_hash *ret_chain,
		   struct mu_err *err)
{
	MU_CLEANUP(view__archived_done) struct view_archived a = {0};
	size_t start = out->len;
	int code = view__archived(v, pos, &a, err);

	if (code == 0 && pos && pos == view__cut_pos(v))
		code = view__too_old(v, err);
	if (code)
		return code;
	mu_buf_add(out, a.header.data, VIEW_HEADER);
	for (uint32_t n = 0; n < a.parts; n++) {
		size_t head = out->len;
		uint8_t kind;
		memset(mu_buf_grow(out, VIEW_PART_HEADER), 0, VIEW_PART_HEADER);
		code = view__archived_part(v, &a, n, &kind, out, err);
		if (code == MU_ENOENT && kind == VIEW_PART_BLOB) {
			/* Of what is no longer kept the leaf serves those who check the chain. */
			const uint8_t *leaf = a.leaf + (size_t)n * VIEW_LEAF_BYTES;
			kind |= VIEW_PART_GONE;
			mu_buf_add(out, leaf + 1, MU_HASH_BYTES);
			put_le32(mu_buf_grow(out, 4), mu_get_be32(leaf + 1 + MU_HASH_BYTES));
			code = 0;
		}
		if (code) {
			out->len = start;
			return code;
		}
		put_le32(out->data + head, (uint32_t)(out->len - head - VIEW_PART_HEADER));
		out->data[head + 4] = kind;
	}
	if (ret_chain)
		*ret_chain = a.chain;
	return 0;
}

int view_mark(struct view *v, uint64_t pos, struct mu_hash *ret_chain, struct mu_hash *ret_digest,
	      bool *ret_digest_known, int64_t *ret_time_usec, struct mu_err *err)
{
	MU_CLEANUP(view__archived_done) struct view_archived a = {0};
	int code = view__archived(v, pos, &a, err);

	if (code)
		return code;
	*ret_chain = a.chain;
	*ret_digest = a.digest;
	*ret_digest_known = a.digest_known;
	*ret_time_usec = a.time_usec;
	return 0;
}

uint64_t view_archive_first(struct view *v)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	uint8_t from[8] = {0};

	/* Of the entry at the cut only the record stays, for its chain value. */
	mu_put_be64(from, view__cut_pos(v) + 1);
	view__scan(v, NULL, VIEW_ENTRY, (struct mu_view){from, sizeof from}, (struct mu_view){0}, &scan);
	return view__scan_valid(&scan) ? mu_get_be64(view__scan_key(&scan).data) : 0;
}

/* Recomputes one entry behind CHAIN, which becomes its value. Parts that are kept must give their leaves. */
static int verify_entry(struct view *v, const struct view_archived *a, struct mu_hash *chain,
			struct mu_buf *hold, struct mu_err *err)
{
	struct mu_hasher h;

	mu_hasher_init(&h);
	mu_hasher_add(&h, chain->b, MU_HASH_BYTES);
	mu_hasher_add(&h, a->header.data, VIEW_HEADER);
	for (uint32_t n = 0; n < a->parts; n++) {
		const uint8_t *leaf = a->leaf + (size_t)n * VIEW_LEAF_BYTES;
		struct mu_hash hash;
		uint8_t kind;
		mu_hasher_add(&h, leaf + 1, MU_HASH_BYTES);
		mu_buf_reset(hold);
		int code = view__archived_part(v, a, n, &kind, hold, err);
		if (code == MU_ENOENT)
			continue;
		if (code)
			return code;
		view__leaf(kind, (struct mu_view){hold->data, hold->len}, &hash);
		if (memcmp(hash.b, leaf + 1, MU_HASH_BYTES) != 0 ||
		    mu_get_be32(leaf + 1 + MU_HASH_BYTES) != hold->len)
			return mu_fail(err, MU_ECORRUPT,
				       "part %u of entry %llu does not have the bytes that were committed", n,
				       (unsigned long long)a->pos);
	}
	mu_hasher_done(&h, chain);
	if (memcmp(chain->b, a->chain.b, MU_HASH_BYTES) != 0)
		return mu_fail(err, MU_ECORRUPT,
			       "entry %llu does not follow from the entry before: its chain value differs",
			       (unsigned long long)a->pos);
	return 0;
}

int view_verify(struct view *v, uint64_t from, uint64_t to, uint64_t *ret_bad, struct mu_err *err)
{
	MU_CLEANUP(view__archived_done) struct view_archived a = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf hold = {0};
	uint64_t first = view_archive_first(v), pos;
	struct mu_hash chain = {{0}};
	int code = 0;

	if (to == 0)
		to = view_pos(v);
	pos = from > first ? from : first;
	if (first == 0 || pos == 0 || to < pos)
		return 0;
	if (pos == view__cut_pos(v) + 1 && pos > 1) {
		code = view__cut_chain(v, &chain, err);
		if (code) {
			*ret_bad = pos - 1;
			return code;
		}
	} else if (pos > 1) {
		/* Behind the first position the entry before says where the chain stood; at the lowest one
		 * nothing but position 1 does. */
		code = view__archived(v, pos - 1, &a, NULL);
		if (code == MU_ENOENT) {
			code = view__archived(v, pos, &a, err);
			pos++;
		}
		if (code) {
			*ret_bad = pos - 1;
			return code;
		}
		chain = a.chain;
	}
	for (; pos <= to; pos++) {
		code = view__archived(v, pos, &a, err);
		if (code == 0)
			code = verify_entry(v, &a, &chain, &hold, err);
		if (code == 0)
			continue;
		*ret_bad = pos;
		if (code == MU_ENOENT)
			return mu_fail(err, MU_ECORRUPT, "entry %llu is missing in the archive",
				       (unsigned long long)pos);
		return code;
	}
	return 0;
}

int view_blob_get(struct view *v, const uint8_t hash[MU_HASH_BYTES], struct mu_buf *out, struct mu_err *err)
{
	struct mu_hash now;
	size_t before = out->len;
	int code = view__get(v, NULL, VIEW_BLOB, hash, MU_HASH_BYTES, out, err);

	if (code == MU_ENOENT)
		return mu_fail(err, MU_ENOENT, "no such script or environment is kept");
	if (code)
		return code;
	mu_hash_bytes(out->data + before, out->len - before, &now);
	if (memcmp(now.b, hash, MU_HASH_BYTES) == 0)
		return 0;
	if (out->len == before)
		return mu_fail(err, MU_ENOENT, "that script or environment is no longer kept");
	out->len = before;
	return mu_fail(err, MU_ECORRUPT,
		       "a stored script or environment does not have the bytes that its hash names");
}

int view_pos_at(struct view *v, int64_t usec, uint64_t *ret_pos, struct mu_err *err)
{
	rocksdb_iterator_t *it = rocksdb_create_iterator_cf(v->db, v->read, v->cf[VIEW_INDEX]);
	uint8_t key[17] = {'T'};
	uint64_t pos = 0;
	char *message = NULL;
	size_t n;

	mu_put_be64(key + 1, usec < 0 ? 0 : (uint64_t)usec);
	memset(key + 9, usec < 0 ? 0 : 0xff, 8);
	rocksdb_iter_seek_for_prev(it, (const char *)key, sizeof key);
	if (rocksdb_iter_valid(it)) {
		const char *found = rocksdb_iter_key(it, &n);
		if (n == sizeof key && found[0] == 'T')
			pos = mu_get_be64((const uint8_t *)found + 9);
	}
	rocksdb_iter_get_error(it, &message);
	rocksdb_iter_destroy(it);
	if (message)
		return view__fail(err, message, "looking for a moment in the archive");
	if (pos < view__cut_pos(v))
		return view__too_old(v, err);
	pthread_mutex_lock(&v->lock);
	uint64_t gap_from = v->fill_to.pos ? v->fill.tip.pos : 0, gap_to = v->fill_to.pos;
	pthread_mutex_unlock(&v->lock);
	if (gap_to && pos >= gap_from && pos < gap_to)
		return mu_fail(
		    err, MU_ENOTREADY,
		    "history between positions %llu and %llu is still being fetched from another controller",
		    (unsigned long long)gap_from, (unsigned long long)gap_to);
	*ret_pos = pos;
	return 0;
}
