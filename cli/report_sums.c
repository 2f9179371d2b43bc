/* cli/report_sums.c: rows of use into groups, and into money. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/filter.h"
#include "cli/sreport.h"
#include "proto/base/map.h"

#define DEPTH_MAX 64 /* of the tree of accounts */

/* ---- prices ---- */

/* "0.0125" as millionths. */
static int price_parse(const char *text, int64_t *ret)
{
	int64_t whole = 0, part = 0, unit = 1000000;
	const char *p = text;

	for (; isdigit((unsigned char)*p) && whole < 1000000000; p++)
		whole = whole * 10 + (*p - '0');
	if (*p == '.')
		for (p++; isdigit((unsigned char)*p) && unit > 1; p++) {
			unit /= 10;
			part += (*p - '0') * unit;
		}
	*ret = whole * 1000000 + part;
	return p == text || *p ? MU_ESYNTAX : 0;
}

static int by_time(const void *a, const void *b)
{
	const struct report_price *x = a, *y = b;

	if (x->from_usec != y->from_usec)
		return x->from_usec < y->from_usec ? -1 : 1;
	return strcmp(x->tres, y->tres);
}

int report_prices_read(struct cli *c, const char *path, struct report_price **ret, size_t *ret_count, struct mu_err *err)
{
	struct report_price *v = mu_arena_alloc(&c->arena, REPORT_PRICES_MAX * sizeof *v);
	size_t n = 0, len, line = 0;
	char *text, *next;
	int rc = cli_read_file(path, 1 << 20, &c->arena, &text, &len, err);

	for (; !rc && text && *text; text = next) {
		char *save = NULL, *word[4] = {NULL};
		next = strchr(text, '\n');
		if (next)
			*next++ = 0;
		else
			next = text + strlen(text);
		line++;
		text[strcspn(text, "#\r")] = 0;
		word[0] = strtok_r(text, " \t", &save);
		for (int i = 1; i < 4 && word[i - 1]; i++)
			word[i] = strtok_r(NULL, " \t", &save);
		if (!word[0])
			continue;
		if (n == REPORT_PRICES_MAX)
			return mu_fail(err, MU_ELIMIT, "%s holds more than %d prices", path, REPORT_PRICES_MAX);
		v[n].tres = word[1];
		if (!word[2] || word[3] || price_parse(word[2], &v[n].micro) ||
		    mu_date_parse(word[0], cli_now_usec(), 0, &cli_zone, &v[n].from_usec, NULL))
			return mu_fail(err, MU_ESYNTAX,
				       "%s, line %zu: a price reads \"DATE TRES PRICE\", such as 2026-01-01 gres/gpu 0.90", path, line);
		n++;
	}
	if (rc)
		return rc;
	if (n)
		qsort(v, n, sizeof *v, by_time);
	*ret = v;
	*ret_count = n;
	return 0;
}

int64_t report_price_at(const struct report_price *price, size_t count, const char *tres, int64_t usec)
{
	int64_t micro = 0;

	for (size_t i = 0; i < count && price[i].from_usec <= usec; i++)
		if (strcasecmp(price[i].tres, tres) == 0)
			micro = price[i].micro;
	return micro;
}

void report_cost_print(report_cost cost, struct mu_buf *out)
{
	int64_t cents = (int64_t)((cost / 3600 + 5000) / 10000);

	mu_buf_printf(out, "%" PRId64 ".%02d", cents / 100, (int)(cents % 100));
}

/* ---- rows ---- */

static int load_piece(struct cli *c, int64_t from, int64_t to, const struct report_price *price, size_t prices,
		      struct report_rows *r, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	void **rows;
	size_t count;

	ask.has_what = ask.has_from_usec = ask.has_to_usec = 1;
	ask.what = MU__WHAT__WHAT_USAGE;
	ask.from_usec = from;
	ask.to_usec = to;
	int rc = cli_query_all(c, &ask, &mu__usage_row__descriptor, &rows, &count, err);
	if (rc)
		return rc;
	Mu__UsageRow **row = mu_arena_alloc(&c->arena, (r->count + count + 1) * sizeof *row);
	report_cost *cost = mu_arena_alloc(&c->arena, (r->count + count + 1) * sizeof *cost);
	if (r->count) {
		memcpy(row, r->row, r->count * sizeof *row);
		memcpy(cost, r->cost, r->count * sizeof *cost);
	}
	for (size_t i = 0; i < count; i++) {
		Mu__UsageRow *u = rows[i];
		row[r->count + i] = u;
		cost[r->count + i] = 0;
		for (size_t k = 0; k < u->n_used && prices; k++)
			cost[r->count + i] +=
			    (report_cost)u->used[k]->count * report_price_at(price, prices, u->used[k]->name, from);
	}
	r->row = row;
	r->cost = cost;
	r->count += count;
	return 0;
}

int report_rows_load(struct cli *c, int64_t from_usec, int64_t to_usec, const struct report_price *price, size_t prices,
		     struct report_rows *ret, struct mu_err *err)
{
	Mu__Query tree = MU__QUERY__INIT;
	void **assoc;
	int64_t at = from_usec;
	int rc = 0;

	*ret = (struct report_rows){0};
	while (!rc && at < to_usec) {
		int64_t next = to_usec;
		for (size_t i = 0; i < prices; i++)
			if (price[i].from_usec > at && price[i].from_usec < next)
				next = price[i].from_usec;
		rc = load_piece(c, at, next, price, prices, ret, err);
		at = next;
	}
	tree.has_what = 1;
	tree.what = MU__WHAT__WHAT_ASSOCS;
	if (!rc)
		rc = cli_query_all(c, &tree, &mu__assoc_row__descriptor, &assoc, &ret->assocs, err);
	if (!rc)
		ret->assoc = (Mu__AssocRow **)assoc;
	return rc;
}

int64_t report_used(const Mu__UsageRow *r, const char *tres)
{
	for (size_t i = 0; i < r->n_used; i++)
		if (strcasecmp(r->used[i]->name, tres) == 0)
			return r->used[i]->count;
	return 0;
}

static int64_t unused_of(const Mu__UsageRow *r, const char *tres)
{
	for (size_t i = 0; i < r->n_unused; i++)
		if (strcasecmp(r->unused[i]->name, tres) == 0)
			return r->unused[i]->count;
	return 0;
}

int64_t report_total(const struct report_rows *r, enum report_row kind, const char *tres)
{
	int64_t sum = 0;

	for (size_t i = 0; i < r->count; i++)
		if (r->row[i]->kind == (uint32_t)kind)
			sum += report_used(r->row[i], tres);
	return sum;
}

const char *report_parent(const struct report_rows *r, const char *account)
{
	for (size_t i = 0; i < r->assocs; i++) {
		const Mu__AssocRow *a = r->assoc[i];
		if (a->account && !a->user && strcmp(a->account, account) == 0)
			return a->parent ? a->parent : strcmp(account, "root") == 0 ? NULL : "root";
	}
	return strcmp(account, "root") == 0 ? NULL : "root";
}

bool report_below(const struct report_rows *r, const char *account, const char *above)
{
	for (int depth = 0; account && depth < DEPTH_MAX; depth++, account = report_parent(r, account))
		if (strcmp(account, above) == 0)
			return true;
	return false;
}

/* ---- groups ---- */

static const char *key_of(const Mu__UsageRow *u, enum report_key key)
{
	const char *word = key == BY_ACCOUNT	 ? u->account
			   : key == BY_USER	 ? u->user
			   : key == BY_WCKEY	 ? u->wckey
			   : key == BY_PARTITION ? u->partition
			   : key == BY_QOS	 ? u->qos
						 : u->reservation;

	if (word && *word)
		return word;
	return key == BY_ACCOUNT ? "root" : "";
}

static bool listed(const char *list, const char *word)
{
	return !list || cli_in_list(list, word);
}

static bool wanted(const struct report_filter *f, const Mu__UsageRow *u)
{
	return u->kind == ROW_JOBS && listed(f->users, key_of(u, BY_USER)) && listed(f->accounts, key_of(u, BY_ACCOUNT)) &&
	       listed(f->wckeys, key_of(u, BY_WCKEY)) && listed(f->partitions, key_of(u, BY_PARTITION));
}

static int by_names(const void *a, const void *b)
{
	const struct report_group *x = *(struct report_group *const *)a, *y = *(struct report_group *const *)b;

	for (int k = 0; k < REPORT_KEYS; k++) {
		int d = strcmp(x->key[k], y->key[k]);
		if (d)
			return d;
	}
	return 0;
}

static void count_row(const struct report_sums *s, struct report_group *g, size_t index)
{
	const Mu__UsageRow *u = s->rows->row[index];
	size_t size = 0;

	for (size_t t = 0; t < s->tress; t++) {
		g->used[t] += report_used(u, s->tres[t]);
		g->unused[t] += unused_of(u, s->tres[t]);
	}
	while (size < s->borders && u->cpus >= s->border[size])
		size++;
	g->size[size] += s->count_jobs ? (int64_t)u->jobs : report_used(u, s->tres[0]);
	g->jobs += u->jobs;
	g->cost += s->rows->cost[index];
}

struct report_group *report_groups(const struct report_sums *s, unsigned keys, struct mu_arena *arena, size_t *ret_count)
{
	struct report_group **list = mu_arena_alloc(arena, (s->rows->count + 1) * sizeof *list), *sorted;
	struct mu_buf name MU_CLEANUP(mu_buf_free) = {0};
	struct mu_map seen = {0};
	size_t n = 0;

	for (size_t i = 0; i < s->rows->count; i++) {
		const Mu__UsageRow *u = s->rows->row[i];
		struct report_group *g;
		if (!wanted(s->filter, u))
			continue;
		mu_buf_reset(&name);
		for (int k = 0; k < REPORT_KEYS; k++)
			mu_buf_printf(&name, "%s%c", keys & 1u << k ? key_of(u, k) : "", 1);
		g = mu_map_get(&seen, name.data, name.len);
		if (!g) {
			g = list[n++] = mu_arena_alloc(arena, sizeof *g);
			memset(g, 0, sizeof *g);
			for (int k = 0; k < REPORT_KEYS; k++)
				g->key[k] = keys & 1u << k ? key_of(u, k) : "";
			mu_map_put(&seen, name.data, name.len, g);
		}
		count_row(s, g, i);
	}
	mu_map_clear(&seen);
	if (n)
		qsort(list, n, sizeof *list, by_names);
	sorted = mu_arena_alloc(arena, (n + 1) * sizeof *sorted);
	for (size_t i = 0; i < n; i++)
		sorted[i] = *list[i];
	*ret_count = n;
	return sorted;
}
