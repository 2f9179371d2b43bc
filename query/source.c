/* query/source.c: the same rows from a snapshot of the present and from a past State. */
#include "query/source.h"

#include <errno.h>
#include <stdlib.h>

static int parse_at(struct view *v, const char *at, uint64_t *ret_pos, struct mu_err *err)
{
	char *end;

	errno = 0;
	long long number = strtoll(at + 1, &end, 10);
	if ((at[0] != '@' && at[0] != '=') || at[1] < '0' || at[1] > '9' || *end || errno)
		return mu_fail(err, MU_EINVAL,
			       "a moment \"%.64s\" is not understood; a position is written @N", at);
	if (at[0] == '@') {
		*ret_pos = (uint64_t)number;
		if (*ret_pos > view_pos(v))
			return mu_fail(err, MU_EINVAL, "position %lld lies in the future: the log is at %llu",
				       number, (unsigned long long)view_pos(v));
		if (*ret_pos < view__cut_pos(v))
			return view__too_old(v, err);
	} else {
		int code = view_pos_at(v, number, ret_pos, err);
		if (code)
			return code;
	}
	if (*ret_pos == 0)
		return mu_fail(err, MU_ENOENT, "that moment lies before the cluster's first entry");
	return 0;
}

static int open_now(struct source *s, struct mu_err *err)
{
	struct view_tip tip = {0};

	s->snapshot = rocksdb_create_snapshot(s->v->db);
	s->read = rocksdb_readoptions_create();
	rocksdb_readoptions_set_snapshot(s->read, s->snapshot);
	int code = view__tip_read(s->v, s->read, "tip", &tip, err);
	if (code && code != MU_ENOENT)
		return code;
	s->pos = tip.pos;
	s->now_usec = tip.time_usec;
	return 0;
}

int source_open(struct view *v, const char *at, struct source *ret, struct mu_err *err)
{
	uint64_t pos = 0;
	int code;

	*ret = (struct source){.v = v};
	if (at && *at) {
		code = parse_at(v, at, &pos, err);
		if (code)
			return code;
	}
	code = open_now(ret, err);
	if (code == 0 && pos && pos != ret->pos) {
		source_close(ret);
		code = view__past_get(v, pos, &ret->past, err);
		if (code == 0) {
			ret->pos = pos;
			ret->now_usec = sch_now_usec(ret->past->state);
		}
	}
	if (code)
		source_close(ret);
	return code;
}

void source_close(struct source *s)
{
	if (s->past)
		view__past_put(s->v, s->past);
	if (s->read)
		rocksdb_readoptions_destroy(s->read);
	if (s->snapshot)
		rocksdb_release_snapshot(s->v->db, s->snapshot);
	s->past = NULL;
	s->read = NULL;
	s->snapshot = NULL;
}

struct walk {
	struct mu_view prefix, after;
	source_sink sink;
	void *arg;
	struct mu_err *err;
};

static bool behind(struct mu_view key, struct mu_view after)
{
	size_t n = key.len < after.len ? key.len : after.len;
	int order = n ? memcmp(key.data, after.data, n) : 0;

	return order > 0 || (order == 0 && key.len > after.len);
}

static int walk_state(void *arg, const struct sch_key *key, const uint8_t *row, size_t len)
{
	struct walk *w = arg;
	struct mu_view bytes = {key->bytes, key->len};

	if (bytes.len < w->prefix.len ||
	    (w->prefix.len && memcmp(bytes.data, w->prefix.data, w->prefix.len) != 0))
		return 0;
	if (w->after.len && !behind(bytes, w->after))
		return 0;
	return w->sink(w->arg, bytes, (struct mu_view){row, len}, w->err);
}

int source_each(struct source *s, uint8_t kind, struct mu_view prefix, struct mu_view after, source_sink sink,
		void *arg, struct mu_err *err)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	struct walk w = {prefix, after, sink, arg, err};
	uint8_t from[VIEW_KEY_MAX], to[VIEW_KEY_MAX];
	size_t from_len, to_len;
	int code = 0;

	if (s->past)
		return sch_rows(s->past->state, kind, walk_state, &w);
	if (prefix.len > SCH_KEY_MAX || after.len > SCH_KEY_MAX)
		return mu_fail(err, MU_EINVAL, "a page key of %zu bytes is too long", after.len);
	from[0] = to[0] = kind;
	if (prefix.len)
		memcpy(to + 1, prefix.data, prefix.len);
	to_len = view__after_prefix(to, 1 + prefix.len);
	/* AFTER lies within PREFIX when it was a key of this walk. */
	struct mu_view start = after.len ? after : prefix;
	if (start.len)
		memcpy(from + 1, start.data, start.len);
	from_len = 1 + start.len;
	view__scan(s->v, s->snapshot, VIEW_ROWS, (struct mu_view){from, from_len},
		   (struct mu_view){to, to_len}, &scan);
	for (; code == 0 && view__scan_valid(&scan); view__scan_next(&scan)) {
		struct mu_view key = view__scan_key(&scan);
		key = (struct mu_view){key.data + 1, key.len - 1};
		if (after.len && !behind(key, after))
			continue;
		code = sink(arg, key, view__scan_value(&scan), err);
	}
	return code ? code : view__scan_end(&scan, "reading rows", err);
}

int source_get(struct source *s, uint8_t kind, struct mu_view key, struct mu_buf *out, struct mu_err *err)
{
	struct sch_key state_key = {.kind = kind, .len = (uint8_t)key.len};
	uint8_t full[VIEW_KEY_MAX];

	if (key.len > SCH_KEY_MAX)
		return MU_ENOENT;
	if (s->past) {
		memcpy(state_key.bytes, key.data, key.len);
		return sch_row_pack(s->past->state, &state_key, out);
	}
	full[0] = kind;
	memcpy(full + 1, key.data, key.len);
	return view__get(s->v, s->read, VIEW_ROWS, full, key.len + 1, out, err);
}
