/* proto/tasks.c: tasks of an array by ordinal, and sets of them as runs. See array.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/array.h"

/* ---- tasks ---- */

void mu_tasks_free(struct mu_tasks *tasks)
{
	if (!tasks)
		return;
	free(tasks->v);
	memset(tasks, 0, sizeof(*tasks));
}

static uint32_t last_of(const struct mu_task_piece *p)
{
	return p->first + (p->count - 1) * p->step;
}

static void add_piece(struct mu_tasks *t, uint32_t *cap, struct mu_task_piece p)
{
	struct mu_task_piece *last = t->count ? &t->v[t->count - 1] : NULL;
	p.before = t->total;
	t->total += p.count;
	if (p.count == 1)
		p.step = 1;
	if (last && last->step == 1 && p.step == 1 && last_of(last) + 1 == p.first) {
		last->count += p.count;
		return;
	}
	if (t->count == *cap) {
		*cap = *cap ? 2 * *cap : 4;
		t->v = realloc(t->v, *cap * sizeof(t->v[0]));
		if (!t->v)
			abort();
	}
	t->v[t->count++] = p;
}

/* From TEXT, whose ranges are known to be well formed. False when they do not ascend: then sets decide. */
static bool ascending(const char *text, struct mu_tasks *t, uint32_t *cap)
{
	char *end;
	for (const char *p = text + (*text == '['); *p && *p != '%' && *p != ']'; p = end + (*end == ',')) {
		struct mu_task_piece piece = {.step = 1};
		uint32_t high = piece.first = (uint32_t)strtoul(p, &end, 10);
		if (*end == '-')
			high = (uint32_t)strtoul(end + 1, &end, 10);
		if (*end == ':') {
			unsigned long step = strtoul(end + 1, &end, 10);
			piece.step = step > high ? high + 1 : (uint32_t)step;
		}
		piece.count = (high - piece.first) / piece.step + 1;
		if (t->count && piece.first <= last_of(&t->v[t->count - 1]))
			return false;
		add_piece(t, cap, piece);
	}
	return true;
}

/* Greedy: as long as the distance stays the same. */
static void from_bits(const struct mu_bits *bits, struct mu_tasks *t, uint32_t *cap)
{
	for (uint32_t a = mu_bits_next(bits, 0); a != UINT32_MAX;) {
		uint32_t b = mu_bits_next(bits, a + 1);
		struct mu_task_piece p = {.first = a, .count = 1, .step = b == UINT32_MAX ? 1 : b - a};
		uint32_t next = b;
		while (next != UINT32_MAX && next == p.first + p.count * p.step) {
			p.count++;
			next = mu_bits_next(bits, next + 1);
		}
		if (p.count == 2 && p.step > 1) {
			p.count = 1;
			next = b;
		}
		add_piece(t, cap, p);
		a = next;
	}
}

static uint32_t even_step(const struct mu_tasks *t)
{
	return t->count == 1 && t->total > 1 ? t->v[0].step : 1;
}

int mu_tasks_parse(const char *text, uint32_t max_size, struct mu_tasks *ret, struct mu_err *err)
{
	struct mu_tasks t = {0};
	struct mu_array array;
	uint32_t cap = 0;
	int rc = mu_array_check(text, max_size, &t.throttle, err);
	if (rc)
		return rc;
	if (!ascending(text, &t, &cap)) {
		t.count = t.total = 0;
		rc = mu_array_parse(text, max_size, &array, err);
		assert(rc == 0); /* It has been looked at. */
		from_bits(&array.tasks, &t, &cap);
		mu_array_free(&array);
	}
	t.step = even_step(&t);
	*ret = t;
	return 0;
}

uint32_t mu_tasks_index(const struct mu_tasks *tasks, uint32_t ordinal)
{
	uint32_t low = 0, high = tasks->count;
	assert(ordinal < tasks->total);
	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;
		if (tasks->v[mid].before <= ordinal)
			low = mid;
		else
			high = mid;
	}
	return tasks->v[low].first + (ordinal - tasks->v[low].before) * tasks->v[low].step;
}

uint32_t mu_tasks_below(const struct mu_tasks *tasks, uint32_t index)
{
	uint32_t low = 0, high = tasks->count; /* the first piece that does not end below INDEX */
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		if (last_of(&tasks->v[mid]) < index)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == tasks->count)
		return tasks->total;
	const struct mu_task_piece *p = &tasks->v[low];
	return p->before + (index > p->first ? (index - p->first + p->step - 1) / p->step : 0);
}

uint32_t mu_tasks_ordinal(const struct mu_tasks *tasks, uint32_t index)
{
	uint32_t n = mu_tasks_below(tasks, index);
	return n < tasks->total && mu_tasks_index(tasks, n) == index ? n : UINT32_MAX;
}

void mu_tasks_select(const struct mu_tasks *tasks, const struct mu_tasks *some, struct mu_runs *ret)
{
	for (uint32_t i = 0; i < some->count; i++) {
		const struct mu_task_piece *p = &some->v[i];
		if (p->step == 1) {
			uint32_t from = mu_tasks_below(tasks, p->first),
				 until = mu_tasks_below(tasks, last_of(p) + 1);
			if (from < until)
				mu_runs_add(ret, from, until);
			continue;
		}
		for (uint32_t k = 0; k < p->count; k++) {
			uint32_t n = mu_tasks_ordinal(tasks, p->first + k * p->step);
			if (n != UINT32_MAX)
				mu_runs_add(ret, n, n + 1);
		}
	}
}

/* ---- runs ---- */

void mu_runs_free(struct mu_runs *r)
{
	if (!r)
		return;
	free(r->v);
	memset(r, 0, sizeof(*r));
}

static void make_room(struct mu_runs *r)
{
	if (r->count < r->cap)
		return;
	r->cap = r->cap ? 2 * r->cap : 2;
	r->v = realloc(r->v, r->cap * sizeof(r->v[0]));
	if (!r->v)
		abort();
}

void mu_runs_add(struct mu_runs *r, uint32_t from, uint32_t until)
{
	struct mu_run *last = r->count > r->head ? &r->v[r->count - 1] : NULL;
	assert(from < until && (!last || from >= last->until));
	r->total += until - from;
	if (last && last->until == from) {
		last->until = until;
		return;
	}
	make_room(r);
	r->v[r->count++] = (struct mu_run){from, until};
}

/* The first run that does not end at or below N; r->count when there is none. */
static uint32_t run_at(const struct mu_runs *r, uint32_t n)
{
	uint32_t low = r->head, high = r->count;
	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		if (r->v[mid].until <= n)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

bool mu_runs_has(const struct mu_runs *r, uint32_t n)
{
	uint32_t i = run_at(r, n);
	return i < r->count && r->v[i].from <= n;
}

uint32_t mu_runs_next(const struct mu_runs *r, uint32_t from)
{
	uint32_t i = run_at(r, from);
	if (i == r->count)
		return UINT32_MAX;
	return r->v[i].from > from ? r->v[i].from : from;
}

bool mu_runs_remove(struct mu_runs *r, uint32_t n)
{
	uint32_t i = run_at(r, n);
	if (i == r->count || r->v[i].from > n)
		return false;
	struct mu_run old = r->v[i];
	r->total--;
	if (old.from == n && old.until == n + 1) {
		if (i == r->head) {
			r->head++;
		} else {
			memmove(&r->v[i], &r->v[i + 1], (r->count - i - 1) * sizeof(r->v[0]));
			r->count--;
		}
	} else if (old.from == n) {
		r->v[i].from++;
	} else if (old.until == n + 1) {
		r->v[i].until--;
	} else {
		make_room(r);
		memmove(&r->v[i + 1], &r->v[i], (r->count - i) * sizeof(r->v[0]));
		r->count++;
		r->v[i].until = n;
		r->v[i + 1].from = n + 1;
	}
	return true;
}

void mu_runs_cut(const struct mu_runs *a, const struct mu_runs *b, struct mu_runs *ret_both,
		 struct mu_runs *ret_rest)
{
	uint32_t k = b->head;
	memset(ret_both, 0, sizeof(*ret_both));
	memset(ret_rest, 0, sizeof(*ret_rest));
	for (uint32_t i = a->head; i < a->count; i++) {
		uint32_t at = a->v[i].from, end = a->v[i].until;
		while (at < end) {
			while (k < b->count && b->v[k].until <= at)
				k++;
			uint32_t from = k < b->count && b->v[k].from < end ? b->v[k].from : end;
			if (from > at) {
				mu_runs_add(ret_rest, at, from);
				at = from;
				continue;
			}
			uint32_t until = b->v[k].until < end ? b->v[k].until : end;
			mu_runs_add(ret_both, at, until);
			at = until;
		}
	}
}

void mu_runs_or(struct mu_runs *a, const struct mu_runs *b)
{
	struct mu_runs sum = {0};
	uint32_t i = a->head, k = b->head, reached = 0;
	while (i < a->count || k < b->count) {
		bool first = k == b->count || (i < a->count && a->v[i].from <= b->v[k].from);
		struct mu_run r = first ? a->v[i++] : b->v[k++];
		if (r.from < reached)
			r.from = reached;
		if (r.from >= r.until)
			continue;
		mu_runs_add(&sum, r.from, r.until);
		reached = r.until;
	}
	mu_runs_free(a);
	*a = sum;
}

uint32_t mu_runs_count(const struct mu_runs *r)
{
	return r->count - r->head;
}

void mu_runs_pack(const struct mu_runs *r, uint32_t *ret)
{
	uint32_t at = 0;
	for (uint32_t i = r->head; i < r->count; i++) {
		*ret++ = r->v[i].from - at;
		*ret++ = r->v[i].until - r->v[i].from;
		at = r->v[i].until;
	}
}

bool mu_runs_unpack(const uint32_t *v, size_t count, uint32_t total, struct mu_runs *ret)
{
	uint64_t at = 0;
	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i + 1 < count; i += 2) {
		uint64_t from = at + v[i], until = from + v[i + 1];
		if (!v[i + 1] || until > total || (i && !v[i]))
			break;
		mu_runs_add(ret, (uint32_t)from, (uint32_t)until);
		at = until;
	}
	if (2 * (size_t)mu_runs_count(ret) == count)
		return true;
	mu_runs_free(ret);
	return false;
}

/* The indexes of the tasks in R, where they lie one beside the other; false: singly, or at steps. */
static bool index_runs(const struct mu_runs *r, const struct mu_tasks *tasks, struct mu_runs *ret)
{
	bool wide = false;
	for (uint32_t i = r->head, k = 0; i < r->count; i++)
		for (uint32_t at = r->v[i].from, end; at < r->v[i].until && at < tasks->total; at = end) {
			while (tasks->v[k].before + tasks->v[k].count <= at)
				k++;
			const struct mu_task_piece *p = &tasks->v[k];
			if (p->step != 1)
				return false;
			end = r->v[i].until < p->before + p->count ? r->v[i].until : p->before + p->count;
			uint32_t first = p->first + (at - p->before);
			mu_runs_add(ret, first, first + (end - at));
			wide = wide || end - at > 1;
		}
	return wide;
}

void mu_runs_print(const struct mu_runs *r, const struct mu_tasks *tasks, uint32_t throttle,
		   struct mu_buf *out)
{
	struct mu_bits bits = {0};
	struct mu_runs wide = {0};
	if (index_runs(r, tasks, &wide)) {
		for (uint32_t i = 0; i < wide.count; i++)
			mu_buf_printf(out, wide.v[i].until - wide.v[i].from > 1 ? "%s%u-%u" : "%s%u",
				      i ? "," : "", wide.v[i].from, wide.v[i].until - 1);
		if (throttle)
			mu_buf_printf(out, "%%%u", throttle);
		mu_runs_free(&wide);
		return;
	}
	mu_runs_free(&wide);
	for (uint32_t i = r->head; i < r->count; i++)
		for (uint32_t n = r->v[i].from; n < r->v[i].until && n < tasks->total; n++)
			mu_bits_set(&bits, mu_tasks_index(tasks, n));
	mu_array_print(&bits, throttle, out);
	mu_bits_free(&bits);
}
