/* query/members.c: the ids that a query names, where an array's id stands for all of its jobs, and the first id
 * of a heterogeneous job for all of its components: those that State has, and those that have ended (index 'R'
 * of store.h). Found page by page: an array may have a
 * million. */
#include <stdio.h>
#include <stdlib.h>

#include "query/answer.h"

enum { ARRAY_LAST_ID = 6, ID_MAX = 20000 /* of one array for one page: more rows than a page takes */ };

struct members {
	struct answer *a;
	uint32_t *v;
	size_t count, cap;
	uint32_t array, last_id, after;
	size_t taken; /* of this array */
};

static int add(struct members *m, uint32_t id, struct mu_err *err)
{
	if (m->count == m->cap) {
		m->cap = m->cap ? 2 * m->cap : 64;
		uint32_t *v = realloc(m->v, m->cap * sizeof *v);
		if (!v)
			return mu_fail(err, MU_ENOMEM, "out of memory for job ids");
		m->v = v;
	}
	m->v[m->count++] = id;
	m->taken++;
	return m->taken < ID_MAX ? 0 : ANSWER_FULL;
}

static int add_living(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err)
{
	struct members *m = arg;
	struct pick_job job;
	uint32_t id = key.len == 4 ? mu_get_be32(key.data) : 0;

	if (id > m->last_id)
		return ANSWER_FULL;
	pick_job(row, &job);
	return job.array_job == m->array ? add(m, id, err) : 0;
}

/* The other components of the heterogeneous job whose first the id is, where State has it. */
static int components(struct members *m)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf row = {0};
	struct pick_job job;
	uint8_t key[4];

	mu_put_be32(key, m->array);
	int code = source_get(&m->a->source, SCH_ROW_JOB, (struct mu_view){key, 4}, &row, m->a->err);
	if (code)
		return code == MU_ENOENT ? 0 : code;
	pick_job((struct mu_view){row.data, row.len}, &job);
	for (uint32_t k = 1; job.het_job == m->array && k < job.het_count && code == 0; k++)
		if (m->array + k > m->after)
			code = add(m, m->array + k, m->a->err);
	return code;
}

/* The array's jobs in State, from the one behind AFTER on. */
static int living(struct members *m)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf row = {0};
	uint8_t key[4], from[4];
	uint32_t after = m->after > m->array - 1 ? m->after : m->array - 1;

	mu_put_be32(key, m->array);
	int code = source_get(&m->a->source, SCH_ROW_ARRAY, (struct mu_view){key, 4}, &row, m->a->err);
	if (code)
		return code == MU_ENOENT ? components(m) : code;
	m->last_id = (uint32_t)pick_number((struct mu_view){row.data, row.len}, ARRAY_LAST_ID);
	mu_put_be32(from, after);
	return source_each(&m->a->source, SCH_ROW_JOB, (struct mu_view){0}, (struct mu_view){from, 4},
			   add_living, m, m->a->err);
}

static int ended(struct members *m)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	struct answer *a = m->a;
	char name[16];
	uint8_t from[64], to[64];
	int len = snprintf(name, sizeof name, "%u", m->array), code = 0;
	struct mu_view array = {(const uint8_t *)name, (size_t)len};

	size_t n = view__index_key(from, 'R', array, 0, m->after + 1, 0);
	memcpy(to, from, n - 16);
	size_t to_len = view__after_prefix(to, n - 16);
	view__scan(a->source.v, a->source.snapshot, VIEW_INDEX, (struct mu_view){from, n},
		   (struct mu_view){to, to_len}, &scan);
	for (; code == 0 && view__scan_valid(&scan); view__scan_next(&scan)) {
		struct mu_view key = view__scan_key(&scan);
		if (key.len == n)
			code = add(m, mu_get_be32(key.data + n - 8), a->err);
	}
	int end = view__scan_end(&scan, "reading history", a->err);
	return end ? end : code;
}

static int compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

int answer_ids(struct answer *a, uint32_t after, bool history, uint32_t **ret, size_t *ret_count,
	       uint32_t *ret_cut)
{
	struct members m = {.a = a, .after = after};
	const Mu__Query *q = a->query;
	uint32_t cut = UINT32_MAX;
	size_t n = 0;
	int code = 0;

	for (size_t i = 0; i < q->n_job && code >= 0; i++) {
		m.array = q->job[i];
		if (m.array > after)
			code = add(&m, m.array, a->err);
		for (int past = 0; past <= history && code >= 0 && m.array; past++) {
			m.taken = 0;
			code = past ? ended(&m) : living(&m);
			if (code == ANSWER_FULL && m.taken == ID_MAX && m.v[m.count - 1] < cut)
				cut = m.v[m.count - 1];
		}
		m.taken = 0;
	}
	if (m.count)
		qsort(m.v, m.count, sizeof m.v[0], compare);
	for (size_t i = 0; i < m.count; i++)
		if (m.v[i] <= cut && (n == 0 || m.v[n - 1] != m.v[i]))
			m.v[n++] = m.v[i];
	*ret = n ? mu_arena_dup(a->arena, m.v, n * sizeof m.v[0]) : NULL;
	*ret_count = n;
	*ret_cut = cut == UINT32_MAX ? 0 : cut;
	free(m.v);
	return code < 0 ? code : 0;
}

void answer_cut(struct answer *a, const void *key, size_t len)
{
	a->more = true;
	a->last_key = (struct mu_view){mu_arena_dup(a->arena, key, len), len};
}
