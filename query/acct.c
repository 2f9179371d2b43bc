/* query/acct.c: the accounts of jobs (sacct): records of ended runs out of history, and the jobs that live,
 * by one set of filters.
 *
 * Pages go through history first, in the order of the index that was chosen, then through the living jobs in
 * id order; a page key is a letter ('j' jobs by id, 'h' history, 'l' living) and where to go on. At a past
 * moment a record counts when it was written by then, and what State held then comes before what history says
 * now. */
#include "query/answer.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/states.h"

enum { HIST_JOB = 1, HIST_STEP = 2, STEP_KEY = 12 };

/* ---- the window ---- */

static bool overlaps(const struct answer *a, int64_t begin, int64_t end)
{
	int64_t from = a->query->from_usec, to = a->query->to_usec;

	return (to == 0 || begin <= to) && (end == 0 || end >= from);
}

/* With states a job must have been in one of them within the window; without, it must have touched the
 * window. */
static bool in_window(const struct answer *a, const struct pick_job *job)
{
	const Mu__Query *q = a->query;
	int64_t born = job->submit_usec ? job->submit_usec : job->eligible_usec;

	if (q->n_state == 0)
		return overlaps(a, born, job->end_usec);
	for (size_t i = 0; i < q->n_state; i++) {
		uint32_t state = q->state[i];
		if (!q->from_usec && !q->to_usec) {
			if (job->state == state)
				return true;
		} else if (state == JOB_PENDING) {
			if (overlaps(a, born, job->start_usec ? job->start_usec : job->end_usec))
				return true;
		} else if (state == JOB_RUNNING || state == JOB_SUSPENDED) {
			if (job->start_usec && overlaps(a, job->start_usec, job->end_usec))
				return true;
		} else if (job->state == state) {
			if (!mu_job_state_ended(state) ? overlaps(a, born, 0)
						       : overlaps(a, job->end_usec, job->end_usec))
				return true;
		}
	}
	return false;
}

static bool wanted(const struct answer *a, const struct pick_job *job)
{
	return in_window(a, job) && answer_wants_job(a, job, false);
}

/* ---- the living ---- */

struct step {
	uint32_t job, attempt;
	struct mu_view row;
};
struct steps {
	struct answer *a;
	struct step *v;
	size_t count, cap;
};

static int collect_step(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err)
{
	struct steps *s = arg;

	if (key.len != STEP_KEY)
		return 0;
	if (s->count == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 256;
		struct step *v = realloc(s->v, s->cap * sizeof *v);
		if (!v)
			return mu_fail(err, MU_ENOMEM, "out of memory for steps");
		s->v = v;
	}
	s->v[s->count++] = (struct step){mu_get_be32(key.data),
					 mu_get_be32(key.data + 4),
					 {mu_arena_dup(s->a->arena, row.data, row.len), row.len}};
	return 0;
}

static void steps_done(struct steps *s)
{
	free(s->v);
}

/* The first step of (JOB, ATTEMPT) or behind it: steps come in key order. */
static size_t steps_find(const struct steps *s, uint32_t job, uint32_t attempt)
{
	size_t low = 0, high = s->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		if (s->v[mid].job < job || (s->v[mid].job == job && s->v[mid].attempt < attempt))
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct living {
	struct answer *a;
	struct steps steps;
	struct mu_buf record, row;
};

/* One job of State with the steps of its present attempt. PAGE_KEY as in the file's head. */
static int add_living(struct living *w, struct mu_view row, const struct pick_job *job,
		      struct mu_view page_key)
{
	mu_buf_reset(&w->row);
	mu_buf_reset(&w->record);
	uint8_t *copy = mu_buf_grow(&w->row, row.len);
	w->row.len = pick_job_public(row, w->a->query->slim, copy);
	if (mu_job_state_ended(job->state) && job->attempt && !pick_job_ran(job))
		view__clear_run(&w->row);
	pick_put_bytes(&w->record, HIST_JOB, (struct mu_view){w->row.data, w->row.len});
	if (pick_job_ran(job))
		for (size_t i = steps_find(&w->steps, job->id, job->attempt);
		     i < w->steps.count && w->steps.v[i].job == job->id &&
		     w->steps.v[i].attempt == job->attempt;
		     i++)
			pick_put_bytes(&w->record, HIST_STEP, w->steps.v[i].row);
	if (w->a->each)
		return w->a->each(w->a, (struct mu_view){w->record.data, w->record.len});
	uint8_t *room = answer_room(w->a, w->record.len);
	if (!room)
		return ANSWER_FULL;
	memcpy(room, w->record.data, w->record.len);
	answer_add(w->a, room, w->record.len, page_key.data, page_key.len);
	return 0;
}

/* Now, ended jobs are in history; at a past moment State says it better where it still has them. */
static bool is_living(const struct answer *a, const struct pick_job *job)
{
	return a->source.past || !mu_job_state_ended(job->state);
}

static int walk_living(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err)
{
	struct living *w = arg;
	struct pick_job job;
	uint8_t page_key[5] = {'l'};

	if (key.len != 4)
		return 0;
	pick_job(row, &job);
	if (!is_living(w->a, &job) || !wanted(w->a, &job))
		return 0;
	memcpy(page_key + 1, key.data, 4);
	return add_living(w, row, &job, (struct mu_view){page_key, sizeof page_key});
}

static void living_done(struct living *w)
{
	steps_done(&w->steps);
	mu_buf_free(&w->record);
	mu_buf_free(&w->row);
}

static int all_living(struct answer *a, struct mu_view after)
{
	MU_CLEANUP(living_done) struct living w = {.a = a, .steps = {.a = a}};
	struct mu_view none = {0};
	int code = source_each(&a->source, SCH_ROW_STEP, none, none, collect_step, &w.steps, a->err);

	return code ? code : source_each(&a->source, SCH_ROW_JOB, none, after, walk_living, &w, a->err);
}

/* ---- history ---- */

/* What a past State says of a record's job: nothing (0), the same run (1), or that it waits to run again and
 * has the steps of this run still (2). */
static int state_has(struct answer *a, uint32_t job, uint32_t record)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf row = {0};
	struct pick_job face;
	uint8_t key[4];

	if (!a->source.past)
		return 0;
	mu_put_be32(key, job);
	int code = source_get(&a->source, SCH_ROW_JOB, (struct mu_view){key, 4}, &row, a->err);
	if (code)
		return code == MU_ENOENT ? 0 : code;
	pick_job((struct mu_view){row.data, row.len}, &face);
	if (view__record(&face) == record)
		return 1;
	return record == face.attempt ? 2 : 0;
}

/* The record with the steps that had been told by then: State keeps those of a run until the next one starts.
 */
static int record_then(struct answer *a, uint32_t job, uint32_t record, struct mu_view row,
		       struct mu_buf *out)
{
	uint8_t key[8];
	MU_CLEANUP(steps_done) struct steps steps = {.a = a};

	mu_put_be32(key, job);
	mu_put_be32(key + 4, record);
	int code = source_each(&a->source, SCH_ROW_STEP, (struct mu_view){key, 8}, (struct mu_view){0},
			       collect_step, &steps, a->err);

	pick_put_bytes(out, HIST_JOB, pick_bytes(row, HIST_JOB));
	for (size_t i = 0; i < steps.count; i++)
		pick_put_bytes(out, HIST_STEP, steps.v[i].row);
	return code;
}

/* The record as it is shown; slim where asked. */
static int add_record(struct answer *a, struct mu_view hist_row, struct mu_view page_key)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf slim = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf job = {0};
	struct mu_view shown = hist_row, rest = hist_row;
	struct pick f;

	if (a->each)
		return a->each(a, hist_row);
	if (a->query->slim) {
		while (pick_next(&rest, &f)) {
			if (f.number == HIST_JOB && f.type == 2) {
				uint8_t *copy = mu_buf_grow(&job, f.bytes.len);
				job.len = pick_job_public(f.bytes, true, copy);
				pick_put_bytes(&slim, HIST_JOB, (struct mu_view){job.data, job.len});
			} else {
				mu_buf_add(&slim, f.begin, (size_t)(f.end - f.begin));
			}
		}
		shown = (struct mu_view){slim.data, slim.len};
	}
	uint8_t *room = answer_room(a, shown.len);
	if (!room)
		return ANSWER_FULL;
	memcpy(room, shown.data, shown.len);
	answer_add(a, room, shown.len, page_key.data, page_key.len);
	return 0;
}

/* One record, if it counts: written by then, not superseded (unless asked for), and passing the filters. */
static int try_record(struct answer *a, struct mu_view key, struct mu_view value, struct mu_view page_key)
{
	struct pick_job job;

	if (key.len != 8 || value.len <= VIEW_HIST_HEAD)
		return 0;
	if (a->source.past && mu_get_be64(value.data) > a->source.pos)
		return 0;
	if ((value.data[16] & VIEW_HIST_SUPERSEDED) && !a->query->duplicates)
		return 0;
	struct mu_view row = {value.data + VIEW_HIST_HEAD, value.len - VIEW_HIST_HEAD},
		       face = pick_bytes(row, HIST_JOB);
	if (face.len == 0)
		return 0; /* steps of a record that is still to be filled in */
	pick_job(face, &job);
	if (!wanted(a, &job))
		return 0;
	int held = state_has(a, job.id, mu_get_be32(key.data + 4));
	if (held < 0 || held == 1)
		return held < 0 ? held : 0;
	MU_CLEANUP(mu_buf_free) struct mu_buf then = {0};
	if (held == 2) {
		int code = record_then(a, job.id, mu_get_be32(key.data + 4), row, &then);
		if (code)
			return code;
		row = (struct mu_view){then.data, then.len};
	}
	return add_record(a, row, page_key);
}

/* The index to walk: the narrowest that the filters allow. Returns the prefix before the time. */
static size_t choose_index(const struct answer *a, uint8_t *out)
{
	const Mu__Query *q = a->query;
	uint8_t key[1 + 128 + 1 + 16];
	const char *name = "";
	char uid[16];
	uint8_t kind = 'E';

	if (q->n_uid == 1 && q->n_user == 0) {
		(void)snprintf(uid, sizeof uid, "%u", q->uid[0]);
		kind = 'I';
		name = uid;
	} else if (q->n_account == 1) {
		kind = 'A';
		name = q->account[0];
	}
	size_t n =
	    view__index_key(key, kind, (struct mu_view){(const uint8_t *)name, strlen(name)}, 0, 0, 0) - 16;
	memcpy(out, key, n);
	return n;
}

/* Walks the index from the window's start; past its end only as far as a job that began within it can have
 * lasted. */
static int all_history(struct answer *a, struct mu_view after)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf value = {0};
	uint8_t from[160], to[160], page_key[160] = {'h'};
	size_t prefix = choose_index(a, from), to_len;
	int64_t start = a->query->from_usec > 0 ? a->query->from_usec : 0, end = a->query->to_usec;
	int code = 0;

	memcpy(to, from, prefix);
	mu_put_be64(from + prefix, (uint64_t)start);
	if (end > 0) {
		mu_put_be64(to + prefix, (uint64_t)(end + a->source.v->life_usec + 1));
		to_len = prefix + 8;
	} else {
		to_len = view__after_prefix(to, prefix);
	}
	struct mu_view first = {from, prefix + 8};
	if (after.len)
		first = after;
	view__scan(a->source.v, a->source.snapshot, VIEW_INDEX, first, (struct mu_view){to, to_len}, &scan);
	for (; code == 0 && view__scan_valid(&scan); view__scan_next(&scan)) {
		struct mu_view key = view__scan_key(&scan), skip = view__scan_value(&scan);
		if (key.len != prefix + 16 ||
		    (after.len == key.len && memcmp(after.data, key.data, key.len) == 0))
			continue;
		if (end > 0 && skip.len == 16 && (int64_t)mu_get_be64(skip.data) > end)
			continue;
		mu_buf_reset(&value);
		code = view__get(a->source.v, a->source.read, VIEW_HIST, key.data + prefix + 8, 8, &value,
				 a->err);
		if (code == MU_ENOENT)
			code = 0;
		else if (code == 0) {
			memcpy(page_key + 1, key.data, key.len);
			code = try_record(a, (struct mu_view){key.data + prefix + 8, 8},
					  (struct mu_view){value.data, value.len},
					  (struct mu_view){page_key, 1 + key.len});
		}
	}
	return code ? code : view__scan_end(&scan, "reading history", a->err);
}

/* ---- by id ---- */

/* All runs of one job, oldest first; a page never ends within a job unless the job alone fills it. */
static int one_job(struct living *w, uint32_t id)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	struct answer *a = w->a;
	uint8_t from[4], to[4], page_key[5] = {'j'};
	struct mu_view none = {0}, key = {from, 4};
	struct pick_job job;
	int code = 0;

	mu_put_be32(from, id);
	memcpy(to, from, 4);
	memcpy(page_key + 1, from, 4);
	size_t to_len = view__after_prefix(to, 4);
	view__scan(a->source.v, a->source.snapshot, VIEW_HIST, key, (struct mu_view){to, to_len}, &scan);
	for (; code == 0 && view__scan_valid(&scan); view__scan_next(&scan))
		code = try_record(a, view__scan_key(&scan), view__scan_value(&scan),
				  (struct mu_view){page_key, 5});
	if (code == 0)
		code = view__scan_end(&scan, "reading history", a->err);
	if (code)
		return code;
	MU_CLEANUP(mu_buf_free) struct mu_buf row = {0};
	code = source_get(&a->source, SCH_ROW_JOB, key, &row, a->err);
	if (code)
		return code == MU_ENOENT ? 0 : code;
	pick_job((struct mu_view){row.data, row.len}, &job);
	if (!is_living(a, &job) || !wanted(a, &job))
		return 0;
	w->steps.count = 0;
	code = source_each(&a->source, SCH_ROW_STEP, key, none, collect_step, &w->steps, a->err);
	return code ? code
		    : add_living(w, (struct mu_view){row.data, row.len}, &job, (struct mu_view){page_key, 5});
}

static int by_id(struct answer *a, struct mu_view after)
{
	MU_CLEANUP(living_done) struct living w = {.a = a, .steps = {.a = a}};
	uint32_t *ids, cut;
	size_t n = 0;
	int code = answer_ids(a, after.len == 4 ? mu_get_be32(after.data) : 0, true, &ids, &n, &cut);

	for (size_t i = 0; i < n && code == 0; i++) {
		size_t count = a->count, bytes = a->bytes;
		struct mu_view key = {0};
		uint8_t kept[5];
		if (a->last_key.len == 5) {
			memcpy(kept, a->last_key.data, 5);
			key = (struct mu_view){kept, 5};
		}
		/* A job alone may fill more than a page; its runs stay together. */
		size_t limit = a->limit;
		if (count == 0)
			a->limit = SIZE_MAX;
		code = one_job(&w, ids[i]);
		a->limit = limit;
		if (code == ANSWER_FULL && count) {
			/* The whole job goes to the next page. */
			a->count = count;
			a->bytes = bytes;
			memcpy((uint8_t *)a->last_key.data, key.data, key.len);
		}
	}
	if (code == 0 && cut) {
		uint8_t key[5] = {'j'};
		mu_put_be32(key + 1, cut);
		answer_cut(a, key, sizeof key);
	}
	return code;
}

int answer_acct(struct answer *a)
{
	const Mu__Query *q = a->query;
	struct mu_view after = {0}, none = {0};
	uint8_t phase = q->n_job ? 'j' : 'h';
	int code = 0;

	if (q->has_after_key && q->after_key.len > 0) {
		phase = q->after_key.data[0];
		after = (struct mu_view){q->after_key.data + 1, q->after_key.len - 1};
		if (after.len > 1 + 128 + 1 + 16)
			return mu_fail(a->err, MU_EINVAL, "a page key of %zu bytes is too long",
				       after.len + 1);
	}
	if (phase == 'j')
		return by_id(a, after);
	if (phase == 'h') {
		code = all_history(a, after);
		after = none;
	}
	return code ? code : all_living(a, after);
}
