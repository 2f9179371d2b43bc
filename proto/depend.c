/* proto/depend.c: --dependency. See depend.h. */
#include "proto/depend.h"

#include <string.h>
#include <strings.h>

enum { MAX_ITEMS = 1000, MAX_MINUTES = 525600 * 10, MAX_INDEX = 4000000 };

static const char *const words[] = {
    [MU_DEPEND_AFTER] = "after",	 [MU_DEPEND_AFTERANY] = "afterany",
    [MU_DEPEND_AFTEROK] = "afterok",	 [MU_DEPEND_AFTERNOTOK] = "afternotok",
    [MU_DEPEND_AFTERCORR] = "aftercorr", [MU_DEPEND_AFTERBURST] = "afterburstbuffer",
    [MU_DEPEND_EXPAND] = "expand",	 [MU_DEPEND_SINGLETON] = "singleton",
};
enum { KINDS = sizeof(words) / sizeof(words[0]) };

const char *mu_depend_word(enum mu_depend_kind kind)
{
	return (unsigned)kind < KINDS ? words[kind] : "?";
}

static bool take_number(const char **p, uint64_t max, uint64_t *ret)
{
	uint64_t v = 0;
	if (**p < '0' || **p > '9')
		return false;
	for (; **p >= '0' && **p <= '9'; (*p)++) {
		v = v * 10 + (uint64_t)(**p - '0');
		if (v > max)
			return false;
	}
	*ret = v;
	return true;
}

static int find_kind(const char *p, size_t len)
{
	for (int i = 0; i < KINDS; i++)
		if (strlen(words[i]) == len && !strncasecmp(words[i], p, len))
			return i;
	return -1;
}

/* JOB[_TASK|_*][+MINUTES] */
static bool take_job(const char **p, struct mu_depend *item)
{
	uint64_t n;
	if (!take_number(p, UINT32_MAX, &n) || !n)
		return false;
	item->job = (uint32_t)n;
	if (**p == '_' && (*p)[1] == '*') {
		*p += 2;
	} else if (**p == '_') {
		++*p;
		if (!take_number(p, MAX_INDEX, &n))
			return false;
		item->has_task = true;
		item->task = (uint32_t)n;
	}
	if (**p == '+') {
		++*p;
		if (item->kind != MU_DEPEND_AFTER || !take_number(p, MAX_MINUTES, &n))
			return false;
		item->minutes = (uint32_t)n;
	}
	return true;
}

static int bad(const char *text, struct mu_err *err)
{
	return mu_fail(err, MU_EDEPENDENCY,
		       "\"%.80s\" is no dependency; write KIND:JOB[:JOB...] joined by commas, such as "
		       "afterok:42:43, or singleton",
		       text);
}

static int add(struct mu_depends *out, struct mu_arena *arena, const struct mu_depend *item,
	       struct mu_err *err)
{
	if (out->count == MAX_ITEMS)
		return mu_fail(err, MU_EDEPENDENCY, "a job may depend on at most %d others", MAX_ITEMS);
	if ((out->count & (out->count - 1)) == 0) { /* Room doubles at powers of two. */
		struct mu_depend *grown =
		    mu_arena_alloc(arena, (out->count ? out->count * 2 : 1) * sizeof(*grown));
		if (out->count)
			memcpy(grown, out->item, out->count * sizeof(*grown));
		out->item = grown;
	}
	out->item[out->count++] = *item;
	return 0;
}

/* KIND[:JOB...] up to a separator. */
static int take_part(const char **p, const char *text, struct mu_arena *arena, struct mu_depends *out,
		     struct mu_err *err)
{
	size_t len = strcspn(*p, ":,?");
	int kind = find_kind(*p, len);
	struct mu_depend item = {.kind = kind < 0 ? MU_DEPEND_AFTER : (enum mu_depend_kind)kind};
	if (kind < 0 && len && **p >= '0' && **p <= '9')
		return bad(text, err);
	if (kind < 0)
		return mu_fail(err, MU_EDEPENDENCY,
			       "\"%.*s\" is no kind of dependency; it must be after, afterany, afterok, "
			       "afternotok, aftercorr, "
			       "afterburstbuffer, expand or singleton",
			       (int)(len > 40 ? 40 : len), *p);
	*p += len;
	if (kind == MU_DEPEND_SINGLETON)
		return **p == ':' ? bad(text, err) : add(out, arena, &item, err);
	if (**p != ':')
		return bad(text, err);
	while (**p == ':') {
		++*p;
		item = (struct mu_depend){.kind = (enum mu_depend_kind)kind};
		if (!take_job(p, &item))
			return bad(text, err);
		int rc = add(out, arena, &item, err);
		if (rc)
			return rc;
	}
	return 0;
}

int mu_depends_parse(const char *text, struct mu_arena *arena, struct mu_depends *ret, struct mu_err *err)
{
	struct mu_depends out = {0};
	char between = 0;
	for (const char *p = text; *p;) {
		int rc = take_part(&p, text, arena, &out, err);
		if (rc)
			return rc;
		if (!*p)
			break;
		if ((*p != ',' && *p != '?') || !p[1])
			return bad(text, err);
		if (between && *p != between)
			return mu_fail(err, MU_EDEPENDENCY,
				       "\"%.80s\" mixes , (all of them) with ? (any of them); use one", text);
		between = *p++;
	}
	out.any = between == '?';
	*ret = out;
	return 0;
}

void mu_depend_print(const struct mu_depend *item, struct mu_buf *out)
{
	mu_buf_str(out, mu_depend_word(item->kind));
	if (item->kind == MU_DEPEND_SINGLETON)
		return;
	mu_buf_printf(out, ":%u", item->job);
	if (item->has_task)
		mu_buf_printf(out, "_%u", item->task);
	if (item->minutes)
		mu_buf_printf(out, "+%u", item->minutes);
}

void mu_depends_show(const char *text, const char *state, struct mu_arena *arena, struct mu_buf *out)
{
	struct mu_depends d;
	struct mu_err err = {0};
	bool any = false;
	if (!state || mu_depends_parse(text, arena, &d, &err) || d.count != strlen(state)) {
		mu_buf_str(out, text);
		return;
	}
	for (size_t i = 0; i < d.count; i++) {
		if (state[i] == 'f')
			continue;
		if (any)
			mu_buf_str(out, d.any ? "?" : ",");
		mu_depend_print(&d.item[i], out);
		mu_buf_str(out, state[i] == 'x' ? "(failed)" : "(unfulfilled)");
		any = true;
	}
}
