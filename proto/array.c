/* proto/array.c: array indexes and job names. See array.h. */
#include "proto/array.h"

#include <string.h>

#include "proto/states.h"

enum { MAX_INDEX = 4000000 };

static bool take_number(const char **p, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;
	if (**p < '0' || **p > '9')
		return false;
	for (; **p >= '0' && **p <= '9'; (*p)++) {
		v = v * 10 + (uint64_t)(**p - '0');
		if (v > max)
			v = max + 1; /* Too large, but read to its end. */
	}
	*ret = v;
	return true;
}

void mu_array_free(struct mu_array *array)
{
	if (array)
		mu_bits_free(&array->tasks);
}

static int bad(const char *whole, struct mu_err *err)
{
	return mu_fail(err, MU_EARRAY,
		       "\"%.80s\" is no array of tasks; write indexes and ranges such as 0-9, 1,3,5 or "
		       "0-15:4, with %%N behind for N at once",
		       whole);
}

/* LOW[-HIGH[:STEP]] into TASKS, where given. */
static int take_range(const char **p, const char *whole, uint32_t max_size, struct mu_bits *tasks,
		      struct mu_err *err)
{
	uint64_t low, high, step = 1;
	if (!take_number(p, UINT32_MAX, &low))
		return bad(whole, err);
	high = low;
	if (**p == '-') {
		++*p;
		if (!take_number(p, UINT32_MAX, &high))
			return bad(whole, err);
		if (**p == ':') {
			++*p;
			if (!take_number(p, UINT32_MAX, &step))
				return bad(whole, err);
		}
	}
	if (high < low)
		return mu_fail(err, MU_EARRAY, "the array \"%.80s\" has a range that runs backwards", whole);
	if (!step)
		return mu_fail(err, MU_EARRAY, "the array \"%.80s\" has a step of 0", whole);
	if (high >= max_size || high > MAX_INDEX)
		return mu_fail(err, MU_EARRAY,
			       "the array \"%.80s\" has an index above %u (MaxArraySize is %u)", whole,
			       max_size ? max_size - 1 : 0, max_size);
	if (!tasks)
		return 0;
	for (uint64_t i = low; i <= high; i += step)
		mu_bits_set(tasks, (uint32_t)i);
	return 0;
}

static int read_list(const char *text, uint32_t max_size, struct mu_bits *tasks, uint32_t *ret_throttle,
		     struct mu_err *err)
{
	const char *p = text;
	bool bracket = *p == '[';
	uint64_t throttle = 0;
	int rc = 0;
	p += bracket;
	do {
		rc = take_range(&p, text, max_size, tasks, err);
	} while (!rc && *p == ',' && p++);
	if (!rc && *p == '%') {
		p++;
		if (!take_number(&p, MAX_INDEX + 1, &throttle))
			rc = bad(text, err);
	}
	if (!rc && bracket)
		rc = *p == ']' ? (p++, 0) : bad(text, err);
	if (!rc && *p)
		rc = bad(text, err);
	if (!rc)
		*ret_throttle = (uint32_t)throttle;
	return rc;
}

int mu_array_check(const char *text, uint32_t max_size, uint32_t *ret_throttle, struct mu_err *err)
{
	return read_list(text, max_size, NULL, ret_throttle, err);
}

int mu_array_parse(const char *text, uint32_t max_size, struct mu_array *ret, struct mu_err *err)
{
	struct mu_array out = {0};
	int rc = read_list(text, max_size, &out.tasks, &out.throttle, err);
	if (rc)
		mu_array_free(&out);
	else
		*ret = out;
	return rc;
}

/* The even distance between all tasks, 0 when there is none above one. */
static uint32_t even_step(const struct mu_bits *tasks, uint32_t first)
{
	uint32_t second = mu_bits_next(tasks, first + 1), at = second, count = 2;
	if (second == UINT32_MAX || second == first + 1)
		return 0;
	for (uint32_t next; (next = mu_bits_next(tasks, at + 1)) != UINT32_MAX; at = next, count++)
		if (next - at != second - first)
			return 0;
	return count > 2 ? second - first : 0;
}

void mu_array_print(const struct mu_bits *tasks, uint32_t throttle, struct mu_buf *out)
{
	uint32_t first = mu_bits_next(tasks, 0);
	uint32_t step = first == UINT32_MAX ? 0 : even_step(tasks, first);
	mu_buf_add(out, "", 0);
	if (step) {
		uint32_t last = first;
		for (uint32_t next; (next = mu_bits_next(tasks, last + 1)) != UINT32_MAX;)
			last = next;
		mu_buf_printf(out, "%u-%u:%u", first, last, step);
	} else {
		size_t len = mu_bits_print(tasks, NULL, 0);
		char *at = (char *)mu_buf_grow(out, len);
		mu_bits_print(tasks, at, len + 1);
	}
	if (throttle)
		mu_buf_printf(out, "%%%u", throttle);
}

/* ---- job names ---- */

void mu_job_name_free(struct mu_job_name *name)
{
	if (name)
		mu_bits_free(&name->tasks);
}

static bool take_tasks(const char **p, struct mu_job_name *out)
{
	const char *end = **p == '[' ? strchr(*p, ']') : *p + strspn(*p, "0123456789");
	char list[1024];
	struct mu_array array;
	if (!end)
		return false;
	end += *end == ']';
	size_t len = (size_t)(end - *p);
	if (!len || len >= sizeof(list) || memchr(*p, '%', len))
		return false;
	memcpy(list, *p, len);
	list[len] = 0;
	if (mu_array_parse(list, MAX_INDEX + 1, &array, NULL))
		return false;
	out->tasks = array.tasks;
	out->has_tasks = true;
	*p = end;
	return true;
}

static bool take_step(const char **p, struct mu_job_name *out)
{
	uint64_t n;
	out->has_step = true;
	if (!strcmp(*p, "batch") || !strcmp(*p, "extern")) {
		out->step = **p == 'b' ? MU_STEP_BATCH : MU_STEP_EXTERN;
		*p += strlen(*p);
		return true;
	}
	if (!take_number(p, MU_STEP_BATCH - 1, &n) || n >= MU_STEP_BATCH)
		return false;
	out->step = (uint32_t)n;
	return true;
}

int mu_job_name_parse(const char *text, struct mu_job_name *ret, struct mu_err *err)
{
	struct mu_job_name out = {0};
	const char *p = text;
	uint64_t n = 0;
	bool good = take_number(&p, UINT32_MAX, &n) && n > 0 && n <= UINT32_MAX;
	out.job = (uint32_t)n;
	if (good && *p == '_') {
		p++;
		good = take_tasks(&p, &out);
	} else if (good && *p == '+') {
		p++;
		good = take_number(&p, MAX_INDEX, &n) && n <= MAX_INDEX;
		out.component = (uint32_t)n;
		out.has_component = true;
	}
	if (good && *p == '.') {
		p++;
		good = take_step(&p, &out);
	}
	if (!good || *p) {
		mu_job_name_free(&out);
		return mu_fail(err, MU_EJOBID, "Invalid job id %.80s", text);
	}
	*ret = out;
	return 0;
}
