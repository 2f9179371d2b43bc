/* query/hist.c: what sacct reads: one record for each run of a job, with its steps, kept after the job has
 * left State.
 *
 * A record is written whenever a job row arrives in an ended state, and when a job goes back to waiting: then
 * the row as it was before becomes the record of the run that is over. The record's number is the attempt,
 * or, for a job that ended while it waited, a bit and the restarts before. So folding the same entries again
 * writes the same records. Steps reported after the end are merged into the record. */
#include "query/store.h"

#include <assert.h>
#include <stdio.h>

#include "proto/states.h"
#include "query/pick.h"

/* Fields of a row that a record overrides, see proto/rows.proto; in protobuf the last value of a field
 * counts. */
enum {
	JOB_STATE = 8,
	JOB_END = 43,
	JOB_NODE_LIST = 51,
	JOB_NODE_COUNT = 52,
	JOB_EXIT_CODE = 60,
	JOB_EXIT_SIGNAL = 61,
	JOB_END_DETAIL = 67,
	JOB_END_POS = 73,
};
enum { HIST_JOB = 1, HIST_STEP = 2, STEP_NUMBER = 3, STEP_KEY = 12, REINDEX_BATCH = 10000 };

size_t view__index_key(uint8_t *out, uint8_t kind, struct mu_view name, int64_t usec, uint32_t job,
		       uint32_t record)
{
	size_t n = 0;

	out[n++] = kind;
	if (kind != 'E') {
		/* A name longer than a key's worth is indexed by its beginning; readers compare the whole. */
		size_t len = name.len < 128 ? name.len : 128;
		if (len)
			memcpy(out + n, name.data, len);
		n += len;
		out[n++] = 0;
	}
	mu_put_be64(out + n, (uint64_t)usec);
	mu_put_be32(out + n + 8, job);
	mu_put_be32(out + n + 12, record);
	return n + 16;
}

uint32_t view__record(const struct pick_job *job)
{
	return pick_job_ran(job) ? job->attempt : VIEW_RECORD_WAITED | job->restarts;
}

static void index_record(struct view *v, rocksdb_writebatch_t *wb, const struct pick_job *job, uint32_t id,
			 uint32_t record, uint64_t pos, bool put)
{
	static const uint8_t kinds[4] = {'E', 'I', 'A', 'R'};
	char array[16], uid[16];
	/* Readers ask for all that belongs to an array, or to a heterogeneous job, by one number. */
	uint32_t family = job->array_job ? job->array_job : job->het_job;
	int len = snprintf(array, sizeof array, "%u", family),
	    uid_len = snprintf(uid, sizeof uid, "%u", job->uid);
	const struct mu_view names[4] = {{0},
					 {(const uint8_t *)uid, (size_t)uid_len},
					 job->account,
					 {(const uint8_t *)array, (size_t)len}};
	uint8_t key[1 + 128 + 1 + 16], value[16];

	mu_put_be64(value, (uint64_t)job->submit_usec);
	mu_put_be64(value + 8, pos);
	for (int i = 0; i < (family ? 4 : 3); i++) {
		size_t n =
		    view__index_key(key, kinds[i], names[i], kinds[i] == 'R' ? 0 : job->end_usec, id, record);
		if (put)
			view__put(v, wb, VIEW_INDEX, key, n, value, sizeof value);
		else
			view__del(v, wb, VIEW_INDEX, key, n);
	}
}

static void step_put(struct view_batch *b, struct mu_map *steps, uint32_t step, struct mu_view bytes,
		     bool copy)
{
	struct mu_view *slot = mu_arena_alloc(&b->pending.arena, sizeof *slot);

	*slot = bytes;
	if (copy)
		slot->data = mu_arena_dup(&b->pending.arena, bytes.data, bytes.len);
	mu_map_put_u64(steps, step, slot);
}

/* The steps that a record has already. */
static void steps_old(struct view_batch *b, struct mu_view old_row, struct mu_map *steps)
{
	struct pick f;

	while (pick_next(&old_row, &f))
		if (f.number == HIST_STEP && f.type == 2)
			step_put(b, steps, (uint32_t)pick_number(f.bytes, STEP_NUMBER), f.bytes, true);
}

/* All step rows of one attempt as the batch leaves them. */
static int steps_gather(struct view_batch *b, uint32_t job, uint32_t attempt, struct mu_map *steps,
			struct mu_err *err)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	uint8_t from[9], to[9];

	from[0] = SCH_ROW_STEP | b->line->shadow;
	mu_put_be32(from + 1, job);
	mu_put_be32(from + 5, attempt);
	memcpy(to, from, sizeof to);
	size_t to_len = view__after_prefix(to, sizeof to);
	view__scan(b->v, NULL, VIEW_ROWS, (struct mu_view){from, sizeof from}, (struct mu_view){to, to_len},
		   &scan);
	for (; view__scan_valid(&scan); view__scan_next(&scan)) {
		struct mu_view key = view__scan_key(&scan);
		if (key.len == 1 + STEP_KEY)
			step_put(b, steps, mu_get_be32(key.data + 9), view__scan_value(&scan), true);
	}
	int code = view__scan_end(&scan, "reading a job's steps", err);
	if (code)
		return code;
	from[0] = SCH_ROW_STEP;
	const uint8_t *key = from;
	size_t len = sizeof from;
	for (struct view_pending_row *row;
	     (row = mu_map_seek(&b->pending.map, key, len, key != from, &key, &len));) {
		if (len != 1 + STEP_KEY || memcmp(key, from, sizeof from) != 0)
			break;
		if (!row->gone)
			step_put(b, steps, mu_get_be32(key + 9), row->bytes, false);
	}
	return 0;
}

struct record {
	uint32_t job, record, attempt; /* attempt 0: it has no steps */
	struct mu_view job_row;	       /* empty: the record exists and keeps its own */
	bool superseded;
	bool steps_only;    /* there may be no record yet: keep the steps for it */
	uint32_t state;	    /* overrides the row's, where not 0 */
	struct mu_view now; /* the row that shows how the run ended, where that is not job_row; or empty */
};

/* What the row of a job that waits again still tells of the run that is over. */
static void copy_end(struct mu_buf *job, struct mu_view now)
{
	struct pick f;

	while (pick_next(&now, &f))
		if (f.number == JOB_END || f.number == JOB_EXIT_CODE || f.number == JOB_EXIT_SIGNAL ||
		    f.number == JOB_END_DETAIL)
			mu_buf_add(job, f.begin, (size_t)(f.end - f.begin));
}

/* A job that ended while it waited has nothing of the run before. */
void view__clear_run(struct mu_buf *job)
{
	static const uint32_t numbers[] = {JOB_EXIT_CODE, JOB_EXIT_SIGNAL, JOB_NODE_COUNT};

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		pick_put_number(job, numbers[i], 0);
	pick_put_bytes(job, JOB_NODE_LIST, (struct mu_view){0});
}

/* The job's part of the record: the row without its secret, with state, end and position filled in. */
static struct mu_view record_job(struct view_batch *b, const struct record *r, const struct view_entry *entry,
				 struct pick_job *ret)
{
	struct mu_buf job = {0};
	uint8_t *copy = mu_buf_grow(&job, r->job_row.len);

	job.len = pick_job_public(r->job_row, false, copy);
	copy_end(&job, r->now);
	if (r->state)
		pick_put_number(&job, JOB_STATE, r->state);
	pick_job((struct mu_view){job.data, job.len}, ret);
	if (!pick_job_ran(ret) && ret->attempt)
		view__clear_run(&job);
	if (ret->end_usec == 0)
		pick_put_number(&job, JOB_END, (uint64_t)entry->time_usec);
	if (ret->end_pos == 0)
		pick_put_number(&job, JOB_END_POS, entry->pos);
	struct mu_view kept = {mu_arena_dup(&b->pending.arena, job.data, job.len), job.len};
	mu_buf_free(&job);
	pick_job(kept, ret);
	return kept;
}

/* What stands in history under a record's key. */
struct old_record {
	uint64_t first, last; /* entries that wrote it first and last */
	uint8_t flags;
	struct mu_view row; /* empty: there is none */
	struct mu_view
	    job; /* empty: there is none, or it only keeps steps for a record still to be filled in */
	struct pick_job face;
	struct mu_buf hold;
};

static void old_done(struct old_record *old)
{
	mu_buf_free(&old->hold);
}

static int old_read(struct view_batch *b, const uint8_t key[8], struct old_record *ret, struct mu_err *err)
{
	struct mu_view value = {0};
	int found = view__row(b, VIEW_PENDING_HIST, key, 8, &ret->hold, &value, err);

	if (found <= 0 || value.len <= VIEW_HIST_HEAD)
		return found < 0 ? found : 0;
	ret->first = mu_get_be64(value.data);
	ret->last = mu_get_be64(value.data + 8);
	ret->flags = value.data[16];
	ret->row = (struct mu_view){value.data + VIEW_HIST_HEAD, value.len - VIEW_HIST_HEAD};
	ret->job = pick_bytes(ret->row, HIST_JOB);
	pick_job(ret->job, &ret->face);
	return 0;
}

/* Puts the record together. One that a later entry has written already (history is being filled in below it)
 * keeps its job and its steps; what comes from below is only added. So the order in which entries reach the
 * view does not matter. */
static int record_write(struct view_batch *b, const struct view_entry *entry, const struct record *r,
			struct mu_err *err)
{
	MU_CLEANUP(old_done) struct old_record old = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf value = {0};
	MU_CLEANUP(mu_map_clear) struct mu_map steps = {0};
	uint8_t key[8], flags = r->superseded ? VIEW_HIST_SUPERSEDED : 0;
	struct pick_job face;
	struct mu_view job;

	mu_put_be32(key, r->job);
	mu_put_be32(key + 4, r->record);
	int code = old_read(b, key, &old, err);
	if (code || (!old.row.len && !r->job_row.len && !r->steps_only))
		return code;
	bool below = old.row.len && old.last > entry->pos;
	/* A step may come to a record that a later entry made; it does not make it older. */
	bool older = r->job_row.len ? old.job.len && old.first < entry->pos : old.row.len > 0;
	uint64_t first = older ? old.first : entry->pos;
	if (r->job_row.len && !(below && old.job.len)) {
		job = record_job(b, r, entry, &face);
	} else {
		job = old.job;
		face = old.face;
	}
	if (!below)
		steps_old(b, old.row, &steps);
	if (r->attempt)
		code = steps_gather(b, r->job, r->attempt, &steps, err);
	if (code)
		return code;
	if (below)
		steps_old(b, old.row, &steps);
	uint8_t *head = mu_buf_grow(&value, VIEW_HIST_HEAD);
	mu_put_be64(head, first);
	mu_put_be64(head + 8, below ? old.last : entry->pos);
	head[16] = old.flags | flags;
	if (job.len)
		pick_put_bytes(&value, HIST_JOB, job);
	uint64_t step = 0;
	for (struct mu_view *row; (row = mu_map_next_u64(&steps, step, &step)); step++)
		pick_put_bytes(&value, HIST_STEP, *row);
	if (old.job.len)
		index_record(b->v, b->wb, &old.face, r->job, r->record, old.first, false);
	if (job.len)
		index_record(b->v, b->wb, &face, r->job, r->record, first, true);
	if (job.len && r->job_row.len)
		view__blob_used(b, face.spec, face.end_usec);
	view__put(b->v, b->wb, VIEW_HIST, key, sizeof key, value.data, value.len);
	struct mu_view kept = {mu_arena_dup(&b->pending.arena, value.data, value.len), value.len};
	view__pending_put(b, VIEW_PENDING_HIST, key, sizeof key, kept, false)->entry_pos = entry->pos;
	if (job.len && face.submit_usec && face.end_usec - face.submit_usec > b->life_usec)
		b->life_usec = face.end_usec - face.submit_usec;
	return 0;
}

/* The attempt before is over when a job that ran waits again or is at a later attempt. */
static int requeued(struct view_batch *b, const struct view_entry *entry, const struct view_row *row,
		    const struct pick_job *now, struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf hold = {0};
	struct mu_view before;
	struct pick_job was;

	/* Where a whole State came, nothing is known of how runs ended before it; filling in tells. */
	if (now->restarts == 0 || !entry->header.data)
		return 0;
	int found = view__row(b, SCH_ROW_JOB, row->key.bytes, row->key.len, &hold, &before, err);
	if (found <= 0)
		return found;
	pick_job(before, &was);
	bool ran = pick_job_ran(&was);
	if (was.restarts >= now->restarts || (!ran && !mu_job_state_ended(was.state)))
		return 0;
	struct record r = {.job = was.id,
			   .record = view__record(&was),
			   .attempt = ran ? was.attempt : 0,
			   .job_row = before,
			   .superseded = true};
	if (!mu_job_state_ended(was.state)) {
		if (!pick_job_ran(now))
			r.now = row->row;
		r.state = mu_job_state_ended(was.end_state)    ? was.end_state
			  : mu_job_state_ended(now->end_state) ? now->end_state
							       : JOB_REQUEUED;
	}
	return record_write(b, entry, &r, err);
}

static int hist_job(struct view_batch *b, const struct view_entry *entry, const struct view_row *row,
		    struct mu_err *err)
{
	struct pick_job job;

	pick_job(row->row, &job);
	int code = requeued(b, entry, row, &job, err);
	if (code || !mu_job_state_ended(job.state))
		return code;
	struct record r = {.job = job.id,
			   .record = view__record(&job),
			   .attempt = pick_job_ran(&job) ? job.attempt : 0,
			   .job_row = row->row};
	return record_write(b, entry, &r, err);
}

/* A step told of after its job's end belongs into the record; while the job lives there is none. */
static int hist_step(struct view_batch *b, const struct view_entry *entry, const struct view_row *row,
		     struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf hold = {0};
	struct mu_view old;
	uint8_t full[1 + 8] = {VIEW_PENDING_HIST};

	if (row->key.len != STEP_KEY)
		return 0;
	uint32_t attempt = mu_get_be32(row->key.bytes + 4);
	struct record r = {.job = mu_get_be32(row->key.bytes), .record = attempt, .attempt = attempt};
	mu_put_be32(full + 1, r.job);
	mu_put_be32(full + 5, r.record);
	struct view_pending_row *pending = mu_map_get(&b->pending.map, full, sizeof full);
	if (pending && pending->entry_pos == entry->pos)
		return 0;
	int found = view__row(b, VIEW_PENDING_HIST, full + 1, 8, &hold, &old, err);
	if (found == 0 && b->v->fill_to.pos && !b->line->shadow) {
		/* The record of a run that ended in the history still to be filled in: its step waits there.
		 */
		struct pick_job job;
		found = view__row(b, SCH_ROW_JOB, row->key.bytes, 4, &hold, &old, err);
		if (found > 0)
			pick_job(old, &job);
		r.steps_only = found > 0 && attempt > 0 && job.restarts >= attempt;
		found = found < 0 ? found : r.steps_only;
	}
	return found <= 0 ? found : record_write(b, entry, &r, err);
}

int view__hist(struct view_batch *b, const struct view_entry *entry, struct mu_err *err)
{
	int code = 0;

	for (size_t i = 0; i < entry->row_count; i++) {
		const struct view_row *row = &entry->rows[i];
		if (row->key.kind == SCH_ROW_STEP)
			view__pending_put(b, SCH_ROW_STEP, row->key.bytes, row->key.len, row->row, row->gone);
	}
	for (size_t i = 0; i < entry->row_count && code == 0; i++)
		if (entry->rows[i].key.kind == SCH_ROW_JOB && !entry->rows[i].gone)
			code = hist_job(b, entry, &entry->rows[i], err);
	for (size_t i = 0; i < entry->row_count && code == 0; i++)
		if (entry->rows[i].key.kind == SCH_ROW_STEP && !entry->rows[i].gone)
			code = hist_step(b, entry, &entry->rows[i], err);
	return code;
}

int view__hist_take(struct view *v, struct mu_view key, struct mu_view value, struct mu_err *err)
{
	struct mu_view row;
	struct pick_job job;
	int code = 0;

	if (v->read_only)
		return mu_fail(err, MU_EINVAL, "the view was opened for reading only");
	if (key.len != 8 || value.len <= VIEW_HIST_HEAD)
		return mu_fail(err, MU_EPROTO, "a history record of %zu bytes under a key of %zu came",
			       value.len, key.len);
	row = (struct mu_view){value.data + VIEW_HIST_HEAD, value.len - VIEW_HIST_HEAD};
	pick_job(pick_bytes(row, HIST_JOB), &job);
	if (job.id != mu_get_be32(key.data))
		return mu_fail(err, MU_EPROTO, "a history record of job %u came as one of job %u", job.id,
			       mu_get_be32(key.data));
	pthread_mutex_lock(&v->writer);
	if (!view__has(v, VIEW_HIST, key.data, key.len)) {
		rocksdb_writebatch_t *wb = rocksdb_writebatch_create();
		index_record(v, wb, &job, job.id, mu_get_be32(key.data + 4), mu_get_be64(value.data), true);
		view__put(v, wb, VIEW_HIST, key.data, key.len, value.data, value.len);
		code = view__write(v, wb, "taking over a history record", err);
		rocksdb_writebatch_destroy(wb);
		if (code == 0 && job.submit_usec && job.end_usec - job.submit_usec > v->life_usec)
			v->life_usec = job.end_usec - job.submit_usec;
	}
	pthread_mutex_unlock(&v->writer);
	return code;
}

/* Job's part and face of the record under KEY: 1, 0 where there is none, or an error. */
static int record_read(struct view *v, const uint8_t key[8], struct mu_buf *hold, struct pick_job *ret,
		       struct mu_err *err)
{
	int code = view__get(v, NULL, VIEW_HIST, key, 8, hold, err);

	if (code || hold->len <= VIEW_HIST_HEAD)
		return code == MU_ENOENT ? 0 : code;
	pick_job(
	    pick_bytes((struct mu_view){hold->data + VIEW_HIST_HEAD, hold->len - VIEW_HIST_HEAD}, HIST_JOB),
	    ret);
	return 1;
}

int view__hist_drop(struct view *v, rocksdb_writebatch_t *wb, const uint8_t key[8], struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf hold = {0};
	struct pick_job job;
	int found = record_read(v, key, &hold, &job, err);

	if (found <= 0)
		return found;
	index_record(v, wb, &job, mu_get_be32(key), mu_get_be32(key + 4), mu_get_be64(hold.data), false);
	view__del(v, wb, VIEW_HIST, key, 8);
	return 0;
}

int view__hist_strip(struct view *v, rocksdb_writebatch_t *wb, const uint8_t key[8], struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf hold = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf value = {0};
	struct pick_job job;
	struct pick f;
	int found = record_read(v, key, &hold, &job, err);

	if (found <= 0)
		return found;
	struct mu_view rest = {hold.data + VIEW_HIST_HEAD, hold.len - VIEW_HIST_HEAD};
	mu_buf_add(&value, hold.data, VIEW_HIST_HEAD);
	while (pick_next(&rest, &f))
		if (f.number != HIST_STEP)
			mu_buf_add(&value, f.begin, (size_t)(f.end - f.begin));
	if (value.len != hold.len)
		view__put(v, wb, VIEW_HIST, key, 8, value.data, value.len);
	return 0;
}

/* Format 1 had an index by the users' names, which nobody asked by, and none by their numbers. */
int view__hist_reindex(struct view *v, struct mu_err *err)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	const struct mu_view none = {0};
	rocksdb_writebatch_t *wb = rocksdb_writebatch_create();
	int code = 0;

	view__del_range(v, wb, VIEW_INDEX, (struct mu_view){(const uint8_t *)"U", 1},
			(struct mu_view){(const uint8_t *)"V", 1});
	view__scan(v, NULL, VIEW_HIST, none, none, &scan);
	for (unsigned n = 1; code == 0 && view__scan_valid(&scan); view__scan_next(&scan), n++) {
		struct mu_view key = view__scan_key(&scan), value = view__scan_value(&scan), face;
		struct pick_job job;
		if (key.len != 8 || value.len <= VIEW_HIST_HEAD)
			continue;
		face = pick_bytes((struct mu_view){value.data + VIEW_HIST_HEAD, value.len - VIEW_HIST_HEAD},
				  HIST_JOB);
		if (!face.len)
			continue; /* Steps alone are in no index. */
		pick_job(face, &job);
		index_record(v, wb, &job, mu_get_be32(key.data), mu_get_be32(key.data + 4),
			     mu_get_be64(value.data), true);
		if (n % REINDEX_BATCH)
			continue;
		code = view__write(v, wb, "indexing history", err);
		rocksdb_writebatch_clear(wb);
	}
	if (code == 0)
		code = view__scan_end(&scan, "reading history", err);
	if (code == 0)
		code = view__write(v, wb, "indexing history", err);
	rocksdb_writebatch_destroy(wb);
	return code;
}

int view_hist_read(struct view *v, struct mu_buf *cursor, size_t max, struct mu_buf *out, bool *ret_more,
		   struct mu_err *err)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	struct mu_view none = {0}, from = {cursor->data, cursor->len};
	size_t start = out->len;
	uint8_t last[8];
	bool any = false;

	view__scan(v, NULL, VIEW_HIST, from, none, &scan);
	for (; view__scan_valid(&scan) && out->len - start < max; view__scan_next(&scan)) {
		struct mu_view key = view__scan_key(&scan), value = view__scan_value(&scan);
		if (key.len != sizeof last ||
		    (from.len == key.len && memcmp(cursor->data, key.data, key.len) == 0))
			continue;
		mu_buf_add(out, key.data, key.len);
		mu_put_be32(mu_buf_grow(out, 4), (uint32_t)value.len);
		mu_buf_add(out, value.data, value.len);
		memcpy(last, key.data, sizeof last);
		any = true;
	}
	bool more = view__scan_valid(&scan);
	int code = view__scan_end(&scan, "reading history", err);
	if (code) {
		out->len = start;
		return code;
	}
	if (any) {
		mu_buf_reset(cursor);
		mu_buf_add(cursor, last, sizeof last);
	}
	*ret_more = more;
	return 0;
}
