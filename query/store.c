/* query/store.c: small helpers over RocksDB's C interface. */
#include "query/store.h"

#include <stdlib.h>

int view__fail(struct mu_err *err, char *message, const char *doing)
{
	int code = MU_EIO;

	if (strstr(message, "No space left") || strstr(message, "File too large") ||
	    strstr(message, "Disk quota"))
		code = MU_EDISKFULL;
	else if (!strncmp(message, "Corruption", 10))
		code = MU_ECORRUPT;
	mu_fail(err, code, "%s: the view's store says: %s", doing, message);
	rocksdb_free(message);
	return code;
}

int view__get(struct view *v, const rocksdb_readoptions_t *read, enum view_cf cf, const void *key, size_t len,
	      struct mu_buf *out, struct mu_err *err)
{
	char *message = NULL;
	rocksdb_pinnableslice_t *slice =
	    rocksdb_get_pinned_cf(v->db, read ? read : v->read, v->cf[cf], key, len, &message);

	if (message)
		return view__fail(err, message, "reading a row");
	if (!slice)
		return MU_ENOENT;
	size_t n;
	const char *data = rocksdb_pinnableslice_value(slice, &n);
	mu_buf_add(out, data, n);
	rocksdb_pinnableslice_destroy(slice);
	return 0;
}

bool view__has(struct view *v, enum view_cf cf, const void *key, size_t len)
{
	char *message = NULL;
	rocksdb_pinnableslice_t *slice = rocksdb_get_pinned_cf(v->db, v->read, v->cf[cf], key, len, &message);
	bool found = slice != NULL;

	if (message)
		rocksdb_free(message);
	if (slice)
		rocksdb_pinnableslice_destroy(slice);
	return found;
}

void view__put(struct view *v, rocksdb_writebatch_t *wb, enum view_cf cf, const void *key, size_t len,
	       const void *value, size_t value_len)
{
	rocksdb_writebatch_put_cf(wb, v->cf[cf], key, len, value_len ? value : "", value_len);
}

void view__del(struct view *v, rocksdb_writebatch_t *wb, enum view_cf cf, const void *key, size_t len)
{
	rocksdb_writebatch_delete_cf(wb, v->cf[cf], key, len);
}

void view__del_range(struct view *v, rocksdb_writebatch_t *wb, enum view_cf cf, struct mu_view from,
		     struct mu_view to)
{
	rocksdb_writebatch_delete_range_cf(wb, v->cf[cf], (const char *)from.data, from.len,
					   (const char *)to.data, to.len);
}

int view__write(struct view *v, rocksdb_writebatch_t *wb, const char *doing, struct mu_err *err)
{
	char *message = NULL;

	rocksdb_write(v->db, v->write, wb, &message);
	return message ? view__fail(err, message, doing) : 0;
}

void view__scan(struct view *v, const rocksdb_snapshot_t *snapshot, enum view_cf cf, struct mu_view from,
		struct mu_view to, struct view_scan *scan)
{
	scan->read = rocksdb_readoptions_create();
	if (snapshot)
		rocksdb_readoptions_set_snapshot(scan->read, snapshot);
	if (to.len) {
		/* RocksDB keeps the pointer, not a copy. */
		size_t n = to.len < sizeof scan->upper ? to.len : sizeof scan->upper;
		memcpy(scan->upper, to.data, n);
		rocksdb_readoptions_set_iterate_upper_bound(scan->read, (const char *)scan->upper, n);
	}
	scan->it = rocksdb_create_iterator_cf(v->db, scan->read, v->cf[cf]);
	if (from.len)
		rocksdb_iter_seek(scan->it, (const char *)from.data, from.len);
	else
		rocksdb_iter_seek_to_first(scan->it);
}

bool view__scan_valid(const struct view_scan *scan)
{
	return rocksdb_iter_valid(scan->it);
}

struct mu_view view__scan_key(const struct view_scan *scan)
{
	size_t n;
	const char *data = rocksdb_iter_key(scan->it, &n);

	return (struct mu_view){(const uint8_t *)data, n};
}

struct mu_view view__scan_value(const struct view_scan *scan)
{
	size_t n;
	const char *data = rocksdb_iter_value(scan->it, &n);

	return (struct mu_view){(const uint8_t *)data, n};
}

void view__scan_next(struct view_scan *scan)
{
	rocksdb_iter_next(scan->it);
}

int view__scan_end(const struct view_scan *scan, const char *doing, struct mu_err *err)
{
	char *message = NULL;

	rocksdb_iter_get_error(scan->it, &message);
	return message ? view__fail(err, message, doing) : 0;
}

void view__scan_done(struct view_scan *scan)
{
	if (scan->it)
		rocksdb_iter_destroy(scan->it);
	if (scan->read)
		rocksdb_readoptions_destroy(scan->read);
	scan->it = NULL;
	scan->read = NULL;
}

size_t view__after_prefix(uint8_t *prefix, size_t len)
{
	while (len > 0 && prefix[len - 1] == 0xff)
		len--;
	if (len > 0)
		prefix[len - 1]++;
	return len;
}

void view__tip_pack(const struct view_tip *tip, uint8_t out[VIEW_TIP_BYTES])
{
	mu_put_be64(out, tip->pos);
	mu_put_be64(out + 8, (uint64_t)tip->time_usec);
	memcpy(out + 16, tip->chain.b, MU_HASH_BYTES);
	memcpy(out + 16 + MU_HASH_BYTES, tip->digest.b, MU_HASH_BYTES);
}

int view__tip_unpack(struct mu_view bytes, struct view_tip *ret)
{
	if (bytes.len != VIEW_TIP_BYTES)
		return MU_ECORRUPT;
	ret->pos = mu_get_be64(bytes.data);
	ret->time_usec = (int64_t)mu_get_be64(bytes.data + 8);
	memcpy(ret->chain.b, bytes.data + 16, MU_HASH_BYTES);
	memcpy(ret->digest.b, bytes.data + 16 + MU_HASH_BYTES, MU_HASH_BYTES);
	return 0;
}

int view__tip_read(struct view *v, const rocksdb_readoptions_t *read, const char *key, struct view_tip *ret,
		   struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf hold = {0};
	int code = view__get(v, read, VIEW_META, key, strlen(key), &hold, err);

	if (code)
		return code;
	if (view__tip_unpack((struct mu_view){hold.data, hold.len}, ret))
		return mu_fail(err, MU_ECORRUPT, "the view's record \"%s\" has %zu bytes instead of %d", key,
			       hold.len, VIEW_TIP_BYTES);
	return 0;
}

void view__count(struct view *v, uint64_t *counter, uint64_t n)
{
	pthread_mutex_lock(&v->lock);
	*counter += n;
	pthread_mutex_unlock(&v->lock);
}
