/* query/history.c: replay and dump of an archive. */
#include "query/history.h"

#include "query/store.h"

enum { PROGRESS_EVERY = 1024 };

/* The range as asked, cut to what is there. MU_ENOENT when its beginning is not. */
static int range(struct view *v, uint64_t *from, uint64_t *to, struct mu_err *err)
{
	uint64_t first = view_archive_first(v), last = view_pos(v);

	if (*to == 0 || *to > last)
		*to = last;
	if (*from == 0)
		*from = first;
	if (first && *from < first)
		return mu_fail(err, MU_ENOENT, "entry %llu is not in the archive, which begins at %llu",
			       (unsigned long long)*from, (unsigned long long)first);
	return 0;
}

/* The State and chain before FROM. */
static int begin(struct view *v, uint64_t from, struct sch_state **ret, struct mu_hash *chain,
		 struct mu_err *err)
{
	MU_CLEANUP(view__archived_done) struct view_archived a = {0};

	if (from <= 1) {
		*ret = sch_state_new();
		*chain = (struct mu_hash){{0}};
		return 0;
	}
	int code = view__archived(v, from - 1, &a, err);
	if (code)
		return code;
	*chain = a.chain;
	return view_state_at(v, from - 1, ret, err);
}

struct watcher {
	hist_event event; /* NULL: nobody looks */
	void *arg;
};

static int fold_event(struct sch_state *st, const struct sch_at *at, struct mu_view bytes,
		      const struct watcher *w, struct sch_changes *changes, struct sch_verdict *verdict,
		      struct mu_err *err)
{
	int code = w->event ? w->event(w->arg, st, at, bytes.data, bytes.len, NULL) : 0;

	if (code == 0)
		code = sch_evolve(st, at, bytes.data, bytes.len, verdict, changes, err);
	if (code == 0 && w->event)
		code = w->event(w->arg, st, at, bytes.data, bytes.len, verdict);
	return code;
}

/* Folds one entry; recomputes its chain value and compares both it and the digest with what is recorded. */
static int replay_entry(struct sch_state *st, const struct view_archived *a, const struct view_entry *entry,
			const struct watcher *w, struct sch_changes *changes, struct hist_replay *r,
			struct mu_err *err)
{
	struct sch_at at = {.pos = a->pos, .time_usec = entry->time_usec};
	struct mu_hasher h;

	mu_hasher_init(&h);
	mu_hasher_add(&h, r->chain.b, MU_HASH_BYTES);
	mu_hasher_add(&h, entry->header.data, VIEW_HEADER);
	for (size_t i = 0; i < entry->part_count; i++) {
		const struct view_part *part = &entry->parts[i];
		struct sch_verdict verdict = {0};
		struct mu_hash leaf;
		view__leaf(part->kind, part->bytes, &leaf);
		mu_hasher_add(&h, leaf.b, MU_HASH_BYTES);
		if (part->kind != VIEW_PART_EVENT)
			continue;
		int code = fold_event(st, &at, part->bytes, w, changes, &verdict, err);
		if (code)
			return code;
		at.n++;
		r->events++;
		r->voided += verdict.code != 0;
	}
	sch_entry_done(st, a->pos, entry->time_usec, changes);
	mu_hasher_done(&h, &r->chain);
	sch_digest(st, &r->digest);
	r->last = a->pos;
	r->time_usec = entry->time_usec;
	if (memcmp(r->chain.b, a->chain.b, MU_HASH_BYTES) != 0)
		return mu_fail(err, MU_ECORRUPT, "entry %llu does not give the chain value recorded for it",
			       (unsigned long long)a->pos);
	if (!a->digest_known)
		return 0;
	r->digests_checked++;
	if (memcmp(r->digest.b, a->digest.b, MU_HASH_BYTES) != 0)
		return mu_fail(err, MU_ECORRUPT,
			       "the State folded up to position %llu differs from the one recorded there",
			       (unsigned long long)a->pos);
	return 0;
}

static int replay_pos(struct view *v, struct sch_state *st, uint64_t pos, struct mu_buf *raw,
		      const struct watcher *w, struct sch_changes *changes, struct hist_replay *r,
		      struct mu_err *err)
{
	MU_CLEANUP(view__archived_done) struct view_archived a = {0};
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	struct view_entry entry = {0};

	mu_buf_reset(raw);
	int code = view__archived(v, pos, &a, err);
	if (code == 0)
		code = view_entry_get(v, pos, raw, NULL, err);
	if (code == 0)
		code = view__entry_split((struct mu_view){raw->data, raw->len}, &arena, &entry, err);
	if (code == 0)
		code = replay_entry(st, &a, &entry, w, changes, r, err);
	sch_changes_reset(changes);
	/* Here a missing or malformed entry is damage. */
	return code == MU_ENOENT || code == MU_EPROTO ? MU_ECORRUPT : code;
}

static int walk(struct view *v, uint64_t from, uint64_t to, const struct watcher *w, hist_progress progress,
		void *arg, struct hist_replay *ret, uint64_t *ret_bad, struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf raw = {0};
	struct sch_changes changes = {0};
	struct sch_state *st = NULL;

	*ret = (struct hist_replay){0};
	int code = range(v, &from, &to, err);
	if (code || from == 0 || to < from)
		return code;
	code = begin(v, from, &st, &ret->chain, err);
	if (code)
		return code;
	ret->first = from;
	ret->last = from - 1;
	for (uint64_t pos = from; pos <= to && code == 0; pos++) {
		code = replay_pos(v, st, pos, &raw, w, &changes, ret, err);
		if (code)
			*ret_bad = pos;
		else if (progress && pos % PROGRESS_EVERY == 0)
			code = progress(arg, pos, to);
	}
	sch_changes_free(&changes);
	sch_state_free(st);
	return code;
}

int hist_replay(struct view *v, uint64_t from, uint64_t to, hist_progress progress, void *arg,
		struct hist_replay *ret, uint64_t *ret_bad, struct mu_err *err)
{
	return walk(v, from, to, &(struct watcher){0}, progress, arg, ret, ret_bad, err);
}

int hist_walk(struct view *v, uint64_t from, uint64_t to, hist_event event, void *arg,
	      struct hist_replay *ret, uint64_t *ret_bad, struct mu_err *err)
{
	return walk(v, from, to, &(struct watcher){event, arg}, NULL, NULL, ret, ret_bad, err);
}

int hist_entries(struct view *v, uint64_t from, uint64_t to, hist_entry entry, void *arg, struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf raw = {0};
	int code = range(v, &from, &to, err);

	for (uint64_t pos = from; pos && pos <= to && code == 0; pos++) {
		MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
		struct view_entry e = {0};
		size_t count = 0;
		mu_buf_reset(&raw);
		code = view_entry_get(v, pos, &raw, NULL, err);
		if (code == 0)
			code = view__entry_split((struct mu_view){raw.data, raw.len}, &arena, &e, err);
		if (code)
			return code == MU_EPROTO ? MU_ECORRUPT : code;
		struct mu_view *event = mu_arena_alloc(&arena, (e.part_count + 1) * sizeof(event[0]));
		for (size_t i = 0; i < e.part_count; i++)
			if (e.parts[i].kind == VIEW_PART_EVENT)
				event[count++] = e.parts[i].bytes;
		code = entry(arg, pos, e.time_usec, event, count);
	}
	return code;
}

int hist_dump(struct view *v, uint64_t from, uint64_t to, bool json, dump_sink sink, void *arg,
	      struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf raw = {0};
	int code = range(v, &from, &to, err);

	for (uint64_t pos = from; code == 0 && pos && pos <= to; pos++) {
		mu_buf_reset(&raw);
		code = view_entry_get(v, pos, &raw, NULL, err);
		if (code == 0) {
			code = dump_entry(pos, (struct mu_view){raw.data, raw.len}, json, sink, arg, err);
		} else if (code == MU_ENOENT) {
			MU_CLEANUP(mu_buf_free) struct mu_buf line = {0};
			mu_buf_printf(&line,
				      json ? "{\"pos\":%llu,\"kind\":\"forgotten\"}\n" : "@%llu forgotten\n",
				      (unsigned long long)pos);
			code = sink(arg, (const char *)line.data, line.len);
		}
	}
	return code;
}
