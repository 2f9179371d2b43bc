/* query/source.h: rows of one moment, whichever: the present out of a RocksDB snapshot, the past out of a
 * State. Room-internal. Owns: where an answer's rows come from. Leaves to others: which rows are wanted. */
#ifndef QUERY_SOURCE_H
#define QUERY_SOURCE_H

#include "query/store.h"

struct source {
	struct view *v;
	uint64_t pos;
	int64_t now_usec;
	/* The present. */
	const rocksdb_snapshot_t *snapshot;
	rocksdb_readoptions_t *read;
	/* The past. */
	struct view_past *past;
};

/* Opens the moment AT ("" or NULL: now, "@POS", "=USEC"): 0, MU_EINVAL, MU_ENOENT, MU_ENOTREADY, ... */
int source_open(struct view *v, const char *at, struct source *ret, struct mu_err *err);
void source_close(struct source *s);

/* Gives KIND's rows in key order whose key begins with PREFIX and lies behind AFTER (empty: all). A non-zero
 * return of SINK ends the walk and is returned. Borrowed for the call. */
typedef int (*source_sink)(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err);
int source_each(struct source *s, uint8_t kind, struct mu_view prefix, struct mu_view after, source_sink sink,
		void *arg, struct mu_err *err);
/* One row appended to OUT: 0, MU_ENOENT or an error. */
int source_get(struct source *s, uint8_t kind, struct mu_view key, struct mu_buf *out, struct mu_err *err);

#endif
