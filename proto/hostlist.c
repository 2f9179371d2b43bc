/* proto/hostlist.c: node lists. See hostlist.h.
 * A name is a stem and the digits at its end. A range is written low-high; every number in it is printed at
 * least as wide as the low end is written, so "08-11" is 08 09 10 11 and "8-11" is 8 9 10 11. */
#include "proto/hostlist.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_GROUPS = 3, MAX_DIGITS = 18, MAX_NAME = 255 };

struct names {
	struct mu_arena *arena;
	char **name;
	size_t count, cap, max;
	const char *whole; /* The text in messages. */
	struct mu_err *err;
};

static int add_name(struct names *out, const char *name, size_t len)
{
	if (len > MAX_NAME)
		return mu_fail(out->err, MU_ELIMIT, "the node name \"%.40s...\" is longer than %d characters",
			       name, MAX_NAME);
	if (out->count >= out->max)
		return mu_fail(out->err, MU_ELIMIT, "the node list \"%.200s\" names more than %zu nodes",
			       out->whole, out->max);
	if (out->count == out->cap) {
		size_t cap = out->cap ? out->cap * 2 : 16;
		char **grown = mu_arena_alloc(out->arena, cap * sizeof(*grown));
		if (out->count)
			memcpy(grown, out->name, out->count * sizeof(*grown));
		out->name = grown;
		out->cap = cap;
	}
	char *copy = mu_arena_alloc(out->arena, len + 1);
	memcpy(copy, name, len);
	out->name[out->count++] = copy;
	return 0;
}

/* Reads digits at *P; their number goes to RET_WIDTH. */
static int read_number(struct names *out, const char **p, uint64_t *ret, int *ret_width)
{
	uint64_t v = 0;
	int width = 0;
	for (; **p >= '0' && **p <= '9'; (*p)++, width++) {
		if (width == MAX_DIGITS)
			return mu_fail(out->err, MU_ESYNTAX,
				       "a number in the node list \"%.200s\" has more than %d digits",
				       out->whole, MAX_DIGITS);
		v = v * 10 + (uint64_t)(**p - '0');
	}
	if (!width)
		return mu_fail(out->err, MU_ESYNTAX,
			       "the brackets of the node list \"%.200s\" may hold only numbers and ranges "
			       "such as [1-3,5]",
			       out->whole);
	*ret = v;
	*ret_width = width;
	return 0;
}

static int expand_item(struct names *out, char *stem, size_t len, const char *p, const char *end, int groups);

/* P stands behind an opening bracket. */
static int expand_group(struct names *out, char *stem, size_t len, const char *p, const char *end, int groups)
{
	const char *close = memchr(p, ']', (size_t)(end - p));
	if (!close)
		return mu_fail(out->err, MU_ESYNTAX,
			       "the node list \"%.200s\" opens a bracket that it does not close", out->whole);
	if (groups == MAX_GROUPS)
		return mu_fail(out->err, MU_ESYNTAX,
			       "a name in the node list \"%.200s\" has more than %d bracket groups",
			       out->whole, MAX_GROUPS);
	while (1) {
		uint64_t lo, hi;
		int width, unused;
		int rc = read_number(out, &p, &lo, &width);
		if (rc)
			return rc;
		hi = lo;
		if (*p == '-') {
			p++;
			rc = read_number(out, &p, &hi, &unused);
			if (rc)
				return rc;
		}
		if (hi < lo)
			return mu_fail(out->err, MU_ESYNTAX,
				       "the node list \"%.200s\" has a range that runs backwards",
				       out->whole);
		for (uint64_t n = lo; n <= hi; n++) {
			char digits[MAX_DIGITS + 2];
			size_t d =
			    (size_t)snprintf(digits, sizeof(digits), "%0*llu", width, (unsigned long long)n);
			if (len + d > MAX_NAME)
				return mu_fail(
				    out->err, MU_ELIMIT,
				    "the node list \"%.200s\" makes a name longer than %d characters",
				    out->whole, MAX_NAME);
			memcpy(stem + len, digits, d);
			rc = expand_item(out, stem, len + d, close + 1, end, groups + 1);
			if (rc)
				return rc;
		}
		if (p == close)
			return 0;
		if (*p++ != ',')
			return mu_fail(out->err, MU_ESYNTAX,
				       "the brackets of the node list \"%.200s\" may hold only numbers and "
				       "ranges such as [1-3,5]",
				       out->whole);
	}
}

/* One item between commas: STEM holds LEN characters already made, P..END is what follows. */
static int expand_item(struct names *out, char *stem, size_t len, const char *p, const char *end, int groups)
{
	for (; p < end; p++) {
		if (*p == '[')
			return expand_group(out, stem, len, p + 1, end, groups);
		if (*p == ']')
			return mu_fail(out->err, MU_ESYNTAX,
				       "the node list \"%.200s\" closes a bracket that it does not open",
				       out->whole);
		if ((unsigned char)*p <= ' ' || *p == 0x7f)
			return mu_fail(out->err, MU_ESYNTAX, "the node list \"%.200s\" has a blank in a name",
				       out->whole);
		if (len >= MAX_NAME)
			return mu_fail(out->err, MU_ELIMIT,
				       "the node list \"%.200s\" makes a name longer than %d characters",
				       out->whole, MAX_NAME);
		stem[len++] = *p;
	}
	return add_name(out, stem, len);
}

int mu_hostlist_expand(const char *text, size_t max, struct mu_arena *arena, char ***ret_names,
		       size_t *ret_count, struct mu_err *err)
{
	struct names out = {.arena = arena, .max = max, .whole = text, .err = err};
	char stem[MAX_NAME + 1];
	for (const char *p = text; *p;) {
		const char *end = p;
		int open = 0;
		for (; *end && (open || *end != ','); end++)
			open = *end == '[' ? 1 : *end == ']' ? 0 : open;
		if (end > p) { /* Two commas in a row or one at the end do no harm. */
			int rc = expand_item(&out, stem, 0, p, end, 0);
			if (rc)
				return rc;
		}
		p = *end ? end + 1 : end;
	}
	if (!out.name)
		out.name = mu_arena_alloc(arena, sizeof(*out.name));
	*ret_names = out.name;
	*ret_count = out.count;
	return 0;
}

/* A name taken apart: LEN is the stem's length, DIGITS what follows it. */
struct part {
	const char *name;
	size_t len;
	uint64_t number;
	size_t digits;
};

static struct part take_apart(const char *name)
{
	struct part part = {.name = name, .len = strlen(name)};
	while (part.len && part.digits < MAX_DIGITS && name[part.len - 1] >= '0' &&
	       name[part.len - 1] <= '9') {
		part.len--;
		part.digits++;
	}
	for (size_t i = 0; i < part.digits; i++)
		part.number = part.number * 10 + (uint64_t)(name[part.len + i] - '0');
	return part;
}

static int same_stem(const struct part *a, const struct part *b)
{
	return a->digits && b->digits && a->len == b->len && !memcmp(a->name, b->name, a->len);
}

/* NEXT is the number after LAST in a range whose low end is LO. */
static int continues(const struct part *lo, const struct part *last, const struct part *next)
{
	char digits[MAX_DIGITS + 2];
	if (next->number != last->number + 1)
		return 0;
	int n = snprintf(digits, sizeof(digits), "%0*llu", (int)lo->digits, (unsigned long long)next->number);
	return (size_t)n == next->digits && !memcmp(digits, next->name + next->len, next->digits);
}

static void fold(const struct part *part, size_t count, struct mu_buf *out)
{
	mu_buf_add(out, "", 0);
	for (size_t i = 0; i < count;) {
		size_t group = i + 1;
		while (group < count && same_stem(&part[i], &part[group]))
			group++;
		if (i)
			mu_buf_str(out, ",");
		if (group == i + 1) {
			mu_buf_str(out, part[i].name);
			i = group;
			continue;
		}
		mu_buf_add(out, part[i].name, part[i].len);
		for (char before = '['; i < group; before = ',') {
			size_t last = i;
			while (last + 1 < group && continues(&part[i], &part[last], &part[last + 1]))
				last++;
			mu_buf_printf(out, "%c%s", before, part[i].name + part[i].len);
			if (last > i)
				mu_buf_printf(out, "-%s", part[last].name + part[last].len);
			i = last + 1;
		}
		mu_buf_str(out, "]");
	}
}

static int compare_parts(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	size_t common = x->len < y->len ? x->len : y->len;
	int c = memcmp(x->name, y->name, common);
	if (c)
		return c;
	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	if (x->number != y->number)
		return x->number < y->number ? -1 : 1;
	return x->digits < y->digits ? -1 : x->digits > y->digits;
}

static void fold_names(const char *const *names, size_t count, int sorted, struct mu_buf *out)
{
	struct part *part = calloc(count ? count : 1, sizeof(*part));
	if (!part)
		abort();
	for (size_t i = 0; i < count; i++)
		part[i] = take_apart(names[i]);
	if (sorted)
		qsort(part, count, sizeof(*part), compare_parts);
	fold(part, count, out);
	free(part);
}

void mu_hostlist_fold(const char *const *names, size_t count, struct mu_buf *out)
{
	fold_names(names, count, 0, out);
}

void mu_hostlist_fold_sorted(const char *const *names, size_t count, struct mu_buf *out)
{
	fold_names(names, count, 1, out);
}
