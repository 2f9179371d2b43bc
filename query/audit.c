/* query/audit.c: every recorded slice decided again: see history.h. A State follows the archive as far as the
 * next slice's basis; what lies between basis and commit is not in it, as it was not for the leader. */
#include "query/history.h"
#include "query/store.h"

/* Slices recorded before the budget was: all of them had this. */
enum { BUDGET_BEFORE = 400000 };

struct audit {
	struct view *v;
	struct sch_state *st; /* NULL: none yet */
	struct sch_changes changes;
	struct mu_buf raw;
	struct hist_audit *r;
};

static int fold_pos(struct audit *a, uint64_t pos, struct mu_err *err)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	struct view_entry entry = {0};

	mu_buf_reset(&a->raw);
	int code = view_entry_get(a->v, pos, &a->raw, NULL, err);
	if (code == 0)
		code = view__entry_split((struct mu_view){a->raw.data, a->raw.len}, &arena, &entry, err);
	struct sch_at at = {.pos = pos, .time_usec = entry.time_usec};
	for (size_t i = 0; i < entry.part_count && code == 0; i++) {
		struct sch_verdict verdict = {0};
		const struct view_part *part = &entry.parts[i];
		if (part->kind != VIEW_PART_EVENT)
			continue;
		code = sch_evolve(a->st, &at, part->bytes.data, part->bytes.len, &verdict, &a->changes, err);
		at.n++;
	}
	if (code == 0)
		sch_entry_done(a->st, pos, entry.time_usec, &a->changes);
	sch_changes_reset(&a->changes);
	return code;
}

/* Brings the State to POS. MU_ENOENT where history does not reach it. */
static int go_to(struct audit *a, uint64_t pos, struct mu_err *err)
{
	int code = 0;

	if (!a->st && view_archive_first(a->v) == 1 && pos < 1000)
		a->st = sch_state_new();
	if (!a->st || sch_pos(a->st) > pos) {
		a->st = sch_state_free(a->st);
		code = view_state_at(a->v, pos, &a->st, err);
	}
	while (code == 0 && sch_pos(a->st) < pos)
		code = fold_pos(a, sch_pos(a->st) + 1, err);
	return code;
}

static void show(struct mu_buf *out, const char *what, const Mu__Event *e)
{
	mu_buf_str(out, what);
	if (e)
		dump_message(&e->base, false, out);
	else
		mu_buf_str(out, "nothing");
	mu_buf_str(out, "\n");
}

static int decide_again(struct audit *a, const Mu__Event *recorded, struct mu_view bytes,
			struct mu_buf *difference, bool *ret_equal)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf again = {0};
	const Mu__Decided *d = recorded->decided;
	Mu__Event *e = NULL;
	int code = sch_decide(a->st, d->has_budget ? d->budget : BUDGET_BEFORE, &arena, &e);

	if (code)
		return code;
	if (e) {
		e->author = recorded->author;
		e->request = recorded->request;
		if (!d->has_budget)
			e->decided->has_budget = 0;
		mu_pb_pack(&e->base, &again);
	}
	*ret_equal = again.len == bytes.len && memcmp(again.data, bytes.data, bytes.len) == 0;
	if (!*ret_equal && difference) {
		show(difference, "recorded: ", recorded);
		show(difference, "again:    ", e);
	}
	return 0;
}

static int audit_event(struct audit *a, uint64_t pos, struct mu_view bytes, struct mu_buf *difference,
		       struct mu_err *err)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	const Mu__Event *e = (Mu__Event *)mu_pb_unpack(&mu__event__descriptor, bytes.data, bytes.len, &arena);
	bool equal = false;

	if (!e || e->kind_case != MU__EVENT__KIND_DECIDED)
		return 0;
	if (e->decided->planner != SCH_PLANNER_VERSION || e->decided->basis >= pos) {
		a->r->unchecked++;
		return 0;
	}
	int code = go_to(a, e->decided->basis, err);
	if (code == MU_ENOENT) {
		a->r->unchecked++;
		return 0;
	}
	if (code == 0)
		code = decide_again(a, e, bytes, difference, &equal);
	if (code)
		return code;
	a->r->passes++;
	a->r->starts += e->decided->n_start;
	a->r->equal += equal;
	return equal ? 0
		     : mu_fail(err, MU_ECORRUPT,
			       "the slice of pass %llu, decided over position %llu, comes out otherwise now",
			       (unsigned long long)e->decided->pass, (unsigned long long)e->decided->basis);
}

int hist_audit(struct view *v, uint64_t from, uint64_t to, struct hist_audit *ret, uint64_t *ret_bad,
	       struct mu_buf *difference, struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf raw = {0};
	struct audit a = {.v = v, .r = ret};
	uint64_t last = view_pos(v), first = view_archive_first(v);
	int code = 0;

	*ret = (struct hist_audit){.planner = SCH_PLANNER_VERSION};
	if (to == 0 || to > last)
		to = last;
	if (from == 0)
		from = first;
	for (uint64_t pos = from; pos && pos <= to && code == 0; pos++) {
		MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
		struct view_entry entry = {0};
		mu_buf_reset(&raw);
		code = view_entry_get(v, pos, &raw, NULL, err);
		if (code == 0)
			code = view__entry_split((struct mu_view){raw.data, raw.len}, &arena, &entry, err);
		for (size_t i = 0; i < entry.part_count && code == 0; i++)
			if (entry.parts[i].kind == VIEW_PART_EVENT)
				code = audit_event(&a, pos, entry.parts[i].bytes, difference, err);
		if (code)
			*ret_bad = pos;
	}
	sch_state_free(a.st);
	sch_changes_free(&a.changes);
	mu_buf_free(&a.raw);
	return code;
}
