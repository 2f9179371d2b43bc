/* ctld/entry_fold.c: see entry_fold.h. */
#include "log/ctld/entry_fold.h"

#include "log/entry.h"

/* The rows that changed, as ST has them now, in ARENA. */
static int pack_rows(const struct sch_state *st, const struct sch_changes *changes, struct mu_arena *arena, struct view_entry *ret)
{
	struct view_row *rows = mu_arena_alloc(arena, (changes->count + 1) * sizeof *rows);
	int code = 0;

	for (size_t i = 0; i < changes->count && !code; i++) {
		MU_CLEANUP(mu_buf_free) struct mu_buf row = {0};

		if (!changes->v[i].gone)
			code = sch_changes_row(st, changes, i, &row);
		rows[i] = (struct view_row){.key = changes->v[i].key, .gone = changes->v[i].gone,
					    .row = {row.len ? mu_arena_dup(arena, row.data, row.len) : NULL, row.len}};
	}
	ret->rows = rows;
	ret->row_count = changes->count;
	return code;
}

int ctl_entry_fold(struct sch_state *st, struct mu_hash *chain, uint64_t pos, struct mu_view raw, struct mu_arena *arena,
		   struct view_entry *ret, struct mu_err *err)
{
	struct sch_at at = {.pos = pos};
	struct sch_changes changes = {.keep_rows = true};
	struct log_entry entry;
	struct log_part part;
	size_t cursor = 0, n = 0;
	int code = log_entry_parse_kept(raw.data, raw.len, &entry);

	if (code)
		return mu_fail(err, code, "entry %llu cannot be read", (unsigned long long)pos);
	struct view_part *parts = mu_arena_alloc(arena, (entry.part_count + 1) * sizeof *parts);
	at.time_usec = entry.time_usec;
	while (!code && log_entry_next(&entry, &cursor, &part)) {
		struct sch_verdict verdict = {0};

		parts[n++] = (struct view_part){part.kind, part.bytes};
		if (part.kind != LOG_PART_EVENT)
			continue;
		code = sch_evolve(st, &at, part.bytes.data, part.bytes.len, &verdict, &changes, err);
		at.n++;
	}
	if (!code)
		sch_entry_done(st, pos, entry.time_usec, &changes);
	log_chain_next(chain, &entry);
	*ret = (struct view_entry){.pos = pos, .time_usec = entry.time_usec, .header = {raw.data, LOG_ENTRY_HEADER}, .parts = parts,
				   .part_count = n, .chain = *chain};
	if (!code)
		code = pack_rows(st, &changes, arena, ret);
	sch_digest(st, &ret->digest);
	sch_changes_free(&changes);
	return code;
}
