/* proto/tres.c: trackable resources. See tres.h. */
#include "proto/tres.h"

#include <string.h>
#include <strings.h>

#include "proto/units.h"

enum { MAX_ITEMS = 256, MAX_NAME = 128 };

void mu_tres_add(struct mu_tres *tres, struct mu_arena *arena, const char *name, uint64_t n)
{
	if (!n)
		return;
	for (size_t i = 0; i < tres->count; i++)
		if (!strcmp(tres->item[i].name, name)) {
			tres->item[i].count += n;
			return;
		}
	if ((tres->count & (tres->count - 1)) == 0) { /* Room doubles at powers of two. */
		struct mu_tres_item *grown =
		    mu_arena_alloc(arena, (tres->count ? tres->count * 2 : 1) * sizeof(*grown));
		if (tres->count)
			memcpy(grown, tres->item, tres->count * sizeof(*grown));
		tres->item = grown;
	}
	tres->item[tres->count++] = (struct mu_tres_item){mu_arena_strdup(arena, name), n};
}

uint64_t mu_tres_get(const struct mu_tres *tres, const char *name)
{
	for (size_t i = 0; i < tres->count; i++)
		if (!strcmp(tres->item[i].name, name))
			return tres->item[i].count;
	return 0;
}

/* Slurm's fixed numbers of the first ones; the rest have none in common. */
static int rank(const char *name)
{
	static const char *const fixed[] = {"cpu", "mem", "energy", "node", "billing"};
	for (int i = 0; i < (int)(sizeof(fixed) / sizeof(fixed[0])); i++)
		if (!strcmp(fixed[i], name))
			return i;
	return 99;
}

/* Which of A and B (places in the list) is printed first. */
static int before(const struct mu_tres *tres, size_t a, size_t b, enum mu_tres_order order)
{
	int c = order == MU_TRES_BY_NAME ? strcmp(tres->item[a].name, tres->item[b].name)
					 : rank(tres->item[a].name) - rank(tres->item[b].name);
	return c ? c < 0 : a < b;
}

/* How many items are printed before item I. */
static size_t place(const struct mu_tres *tres, size_t i, enum mu_tres_order order)
{
	size_t n = 0;
	for (size_t k = 0; k < tres->count; k++)
		n += k != i && before(tres, k, i, order);
	return n;
}

void mu_tres_print(const struct mu_tres *tres, enum mu_tres_order order, int noconvert, struct mu_buf *out)
{
	char memory[24];
	mu_buf_add(out, "", 0);
	for (size_t at = 0; at < tres->count; at++)
		for (size_t i = 0; i < tres->count; i++) {
			if (place(tres, i, order) != at)
				continue;
			mu_buf_printf(out, "%s%s=", at ? "," : "", tres->item[i].name);
			if (strcmp(tres->item[i].name, "mem")) {
				mu_buf_printf(out, "%llu", (unsigned long long)tres->item[i].count);
				continue;
			}
			mu_mem_print(tres->item[i].count, noconvert, memory);
			mu_buf_str(out, memory);
		}
}

static int take_item(const char *p, size_t len, const char *whole, struct mu_arena *arena,
		     struct mu_tres *out, struct mu_err *err)
{
	const char *equal = memchr(p, '=', len);
	size_t name_len = equal ? (size_t)(equal - p) : 0;
	uint64_t count = 0;
	int64_t n;
	if (!name_len || name_len > MAX_NAME || out->count == MAX_ITEMS)
		return mu_fail(err, MU_EINVAL,
			       "\"%.80s\" is no list of resources; write NAME=COUNT joined by commas, such "
			       "as cpu=4,mem=2G,gres/gpu=1",
			       whole);
	char *name = memcpy(mu_arena_alloc(arena, name_len + 1), p, name_len);
	char *value = memcpy(mu_arena_alloc(arena, len - name_len), equal + 1, len - name_len - 1);
	for (char *c = name; *c && *c != ':'; c++)
		*c = (char)(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
	int rc;
	if (!strcmp(name, "mem")) {
		rc = mu_mem_parse(value, &count, err);
	} else {
		rc = mu_number_parse(name, value, 0, INT64_MAX / 1024, &n, err);
		count = rc ? 0 : (uint64_t)n;
	}
	if (!rc)
		mu_tres_add(out, arena, name, count);
	return rc ? MU_EINVAL : 0;
}

int mu_tres_parse(const char *text, struct mu_arena *arena, struct mu_tres *ret, struct mu_err *err)
{
	struct mu_tres out = {0};
	for (const char *p = text; *p;) {
		size_t len = strcspn(p, ",");
		int rc = take_item(p, len, text, arena, &out, err);
		if (rc) {
			if (err)
				err->code = rc;
			return rc;
		}
		p += len + (p[len] == ',');
	}
	*ret = out;
	return 0;
}
