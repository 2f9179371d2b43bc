/* query/why.c: why a job waits or waited: the spans of its wait out of the index of lives, each of the longer
 * ones explained by the State of its moment; why another one started first; what would have helped.
 *
 * Past States belong to one reader at a time, so no two are held at once. */
#include "query/answer.h"

#include "proto/pb.h"
#include "proto/states.h"
#include "proto/why.pb-c.h"

enum { LIFE_MAX = 20000, SPANS_EXPLAINED = 6, HIST_JOB = 1 };

struct why {
	struct answer *a;
	uint32_t id;
	Mu__WhyRow row;
	Mu__Moment **life;
	size_t count;
	bool waits;	/* at the answer's moment */
	uint32_t array; /* the row in which a task of an array waited with others; 0: none */
};

/* ---- the State of a moment ---- */

typedef int (*with_state)(struct why *w, const struct sch_state *st, void *arg);

static int at_state(struct why *w, uint64_t pos, with_state fn, void *arg)
{
	struct view_past *past;
	int code = view__past_get(w->a->source.v, pos, &past, w->a->err);

	if (code)
		return code;
	code = fn(w, past->state, arg);
	view__past_put(w->a->source.v, past);
	return code;
}

static int explain(struct why *w, const struct sch_state *st, void *arg)
{
	int code = sch_explain_wait(st, w->id, w->a->arena, arg);

	if (code == MU_ENOENT && w->array)
		code = sch_explain_wait(st, w->array, w->a->arena, arg);

	return code == MU_ENOENT ? 0 : code;
}

/* ---- the job ---- */

static Mu__JobRow *public_row(struct answer *a, struct mu_view row)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf copy = {0};
	uint8_t *room = mu_buf_grow(&copy, row.len);

	copy.len = pick_job_public(row, true, room);
	return (Mu__JobRow *)mu_pb_unpack(&mu__job_row__descriptor, copy.data, copy.len, a->arena);
}

/* Out of State, else the newest record of history that was written by then. */
static int find_job(struct answer *a, uint32_t id, Mu__JobRow **ret)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf row = {0};
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	uint8_t key[4], to[4];

	*ret = NULL;
	mu_put_be32(key, id);
	int code = source_get(&a->source, SCH_ROW_JOB, (struct mu_view){key, 4}, &row, a->err);
	if (code == 0)
		*ret = public_row(a, (struct mu_view){row.data, row.len});
	if (code != MU_ENOENT)
		return code;
	memcpy(to, key, 4);
	view__scan(a->source.v, a->source.snapshot, VIEW_HIST, (struct mu_view){key, 4},
		   (struct mu_view){to, view__after_prefix(to, 4)}, &scan);
	for (; view__scan_valid(&scan); view__scan_next(&scan)) {
		struct mu_view value = view__scan_value(&scan);
		if (value.len <= VIEW_HIST_HEAD || mu_get_be64(value.data) > a->source.pos)
			continue;
		struct mu_view hist = {value.data + VIEW_HIST_HEAD, value.len - VIEW_HIST_HEAD};
		if (pick_bytes(hist, HIST_JOB).len)
			*ret = public_row(a, pick_bytes(hist, HIST_JOB));
	}
	return view__scan_end(&scan, "reading history", a->err);
}

static int need_job(struct answer *a, uint32_t id, Mu__JobRow **ret)
{
	int code = find_job(a, id, ret);

	if (code)
		return code;
	if (!*ret)
		return mu_fail(a->err, MU_EJOBID, "%s", mu_strerror(MU_EJOBID));
	return answer_may_see(a, (*ret)->uid) ? 0 : mu_fail(a->err, MU_EPERM, "%s", mu_strerror(MU_EPERM));
}

/* ---- spans ---- */

static bool same_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static int64_t span_length(const struct why *w, const Mu__WaitSpan *s)
{
	return (s->has_to_usec ? s->to_usec : w->a->source.now_usec) - s->from_usec;
}

/* Moments of waiting become spans; neighbours that say the same are one. */
static void make_spans(struct why *w)
{
	Mu__WaitSpan *last = NULL;

	w->row.span = mu_arena_alloc(w->a->arena, (w->count + 1) * sizeof *w->row.span);
	for (size_t i = 0; i < w->count; i++) {
		const Mu__Moment *m = w->life[i];
		bool waits = m->job && m->job->state == JOB_PENDING;
		if (last) {
			last->has_to_usec = 1;
			last->to_usec = m->time_usec;
		}
		if (!waits) {
			last = NULL;
			continue;
		}
		if (last && last->reason == m->job->reason &&
		    same_text(last->detail, m->job->reason_detail)) {
			last->has_to_usec = 0;
			continue;
		}
		last = mu_arena_alloc(w->a->arena, sizeof *last);
		mu__wait_span__init(last);
		last->has_from_usec = last->has_reason = 1;
		last->from_usec = m->time_usec;
		last->reason = m->job->reason;
		last->detail = m->job->reason_detail;
		last->by = w->life[i];
		w->row.span[w->row.n_span++] = last;
	}
	w->waits = last != NULL;
	w->row.has_waited_usec = 1;
	for (size_t i = 0; i < w->row.n_span; i++)
		w->row.waited_usec += span_length(w, w->row.span[i]);
}

static int causes(struct why *w)
{
	int code = 0;

	for (size_t i = 0; i < w->row.n_span && code == 0; i++) {
		Mu__Moment *by = w->row.span[i]->by;
		code = answer_cause(w->a, by, w->array && by->pos < w->row.job->start_pos ? w->array : w->id,
				    NULL, by == w->life[0]);
	}
	return code;
}

/* The longest spans that are over, each by the State that the decision left. What lasts is explained by the
 * answer's own moment. */
static int explain_spans(struct why *w)
{
	int code = 0;

	for (int n = 0; n < SPANS_EXPLAINED && code == 0; n++) {
		Mu__WaitSpan *best = NULL;
		for (size_t i = 0; i < w->row.n_span; i++) {
			Mu__WaitSpan *s = w->row.span[i];
			if (!s->wait && s->reason && s->has_to_usec && s->to_usec > s->from_usec &&
			    (!best || span_length(w, s) > span_length(w, best)))
				best = s;
		}
		if (!best)
			break;
		code = at_state(w, best->by->pos, explain, &best->wait);
		if (code == MU_ENOENT || (code == 0 && !best->wait)) {
			/* The archive no longer goes back so far: the span stands without its explanation. */
			code = 0;
			break;
		}
	}
	return code;
}

/* ---- before ---- */

struct before {
	uint32_t other;
	Mu__Before *row;
	Mu__WaitRow *theirs;
};

static int both(struct why *w, const struct sch_state *st, void *arg)
{
	struct before *b = arg;

	(void)sch_explain_wait(st, w->id, w->a->arena, &b->row->wait);
	(void)sch_explain_wait(st, b->other, w->a->arena, &b->theirs);
	(void)sch_explain_priority(st, w->id, w->a->arena, &b->row->mine);
	(void)sch_explain_priority(st, b->other, w->a->arena, &b->row->theirs);
	return 0;
}

static bool can_run(uint32_t reason)
{
	return reason == REASON_None || reason == REASON_Priority || reason == REASON_Resources;
}

static uint32_t rule_of(const struct before *b)
{
	const Mu__WaitRow *mine = b->row->wait, *theirs = b->theirs;

	if (!mine)
		return MU__BEFORE_RULE__BEFORE_ABSENT;
	if (!can_run(mine->reason) || mine->limit)
		return MU__BEFORE_RULE__BEFORE_NOT_ELIGIBLE;
	if (!theirs || theirs->priority > mine->priority ||
	    (theirs->priority == mine->priority && theirs->job < mine->job))
		return MU__BEFORE_RULE__BEFORE_ORDER;
	return MU__BEFORE_RULE__BEFORE_GAP;
}

static int say_before(struct why *w, uint32_t other)
{
	struct before b = {.other = other};
	Mu__JobRow *job;
	Mu__Moment **life, *start = NULL;
	size_t count;
	int code = need_job(w->a, other, &job);

	if (code == 0)
		code = answer_life(w->a, other, NULL, 0, LIFE_MAX, &life, &count);
	if (code)
		return code;
	for (size_t i = 0; i < count; i++)
		if (life[i]->job && life[i]->job->state == JOB_RUNNING &&
		    (!start || start->job->attempt != life[i]->job->attempt))
			start = life[i];
	if (!start)
		return mu_fail(w->a->err, MU_EPENDING, "job %u has not started", other);
	code = answer_cause(w->a, start, other, NULL, false);
	if (code)
		return code;
	b.row = w->row.before = mu_arena_alloc(w->a->arena, sizeof *b.row);
	mu__before__init(b.row);
	b.row->other = job;
	b.row->start = start;
	code = at_state(w, start->pos - 1, both, &b);
	b.row->has_rule = 1;
	b.row->rule = rule_of(&b);
	if (job->time_limit_sec > 0) {
		b.row->has_ends_usec = 1;
		b.row->ends_usec = start->time_usec + job->time_limit_sec * 1000000;
	}
	return code;
}

/* ---- help ---- */

static int find_help(struct why *w, const struct sch_state *st, void *arg)
{
	int64_t by = w->a->query->help_by_usec;

	return sch_explain_help(st, w->id, by ? by : sch_now_usec(st), w->a->arena, &w->row);
}

/* The State to decide over again: at the moment asked for, where that has passed; as it is, where the job waits; as it
 * was last, where it ended and never started; else as the first decision left it that let the job wait. */
static int help_pos(struct why *w, uint64_t *ret)
{
	int64_t by = w->a->query->help_by_usec;

	*ret = 0;
	if (by && by <= w->a->source.now_usec)
		return view_pos_at(w->a->source.v, by, ret, w->a->err);
	if (w->waits)
		*ret = w->a->source.pos;
	else if (!w->row.job->start_usec && w->row.job->end_pos > 1)
		*ret = w->row.job->end_pos - 1;
	for (size_t i = 0; i < w->row.n_span && !*ret; i++)
		if (w->row.span[i]->reason)
			*ret = w->row.span[i]->by->pos;
	return 0;
}

/* A task of an array waits in one row with the others until it starts: that row's life comes before its own.
 */
static int array_life(struct why *w)
{
	Mu__Moment **others, **all;
	size_t count = 0, n = 0;
	uint32_t array = w->row.job->array_job;

	if (!array || array == w->id || !w->count)
		return 0;
	int code = answer_life(w->a, array, NULL, 0, LIFE_MAX, &others, &count);
	if (code || !count)
		return code;
	all = mu_arena_alloc(w->a->arena, (count + w->count) * sizeof *all);
	while (n < count && others[n]->pos < w->life[0]->pos) {
		all[n] = others[n];
		n++;
	}
	memcpy(all + n, w->life, w->count * sizeof *all);
	w->life = all;
	w->count += n;
	w->array = array;
	return 0;
}

static int say_help(struct why *w)
{
	uint64_t pos = 0;
	int code = help_pos(w, &pos);

	if (code == 0 && pos)
		code = at_state(w, pos, find_help, NULL);
	if ((code == 0 && !pos) || code == MU_ENOENT)
		return mu_fail(w->a->err, MU_ENOTPENDING, "job %u did not wait at that moment", w->id);
	return code;
}

/* ---- the answer ---- */

static void past_put(struct answer *a)
{
	if (a->source.past)
		view__past_put(a->source.v, a->source.past);
	a->source.past = NULL;
}

int answer_why(struct answer *a)
{
	struct why w = {.a = a};
	uint8_t key[4] = {0};
	int code;

	if (a->query->n_job != 1)
		return mu_fail(a->err, MU_EINVAL, "of which job? One is to be named");
	w.id = a->query->job[0];
	mu__why_row__init(&w.row);
	code = need_job(a, w.id, &w.row.job);
	if (code == 0)
		code = answer_life(a, w.id, NULL, 0, LIFE_MAX, &w.life, &w.count);
	if (code == 0)
		code = array_life(&w);
	if (code == 0)
		make_spans(&w);
	past_put(a); /* what the answer's own moment tells is read */
	if (code == 0)
		code = causes(&w);
	if (code == 0 && w.waits)
		code = at_state(&w, a->source.pos, explain, &w.row.wait);
	if (code == 0)
		code = explain_spans(&w);
	if (code == 0 && a->query->before)
		code = say_before(&w, a->query->before);
	if (code == 0 && a->query->has_help_by_usec)
		code = say_help(&w);
	if (code)
		return code;
	size_t len = protobuf_c_message_get_packed_size(&w.row.base);
	uint8_t *room = answer_room(a, len);
	protobuf_c_message_pack(&w.row.base, room);
	answer_add(a, room, len, key, sizeof key);
	return 0;
}
