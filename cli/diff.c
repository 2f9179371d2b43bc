/* cli/diff.c: muster diff: what changed between two moments: jobs in and out, nodes, partitions,
 * configuration, accounts and limits. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/dump.h"
#include "cli/muster.h"
#include "proto/account.pb-c.h"
#include "proto/states.h"
#include "proto/wire.pb-c.h"

/* One thing at one moment: its name and what is said of it, sorted. */
struct thing {
	char *name;
	char **line;
	size_t lines;
};
struct side {
	struct thing *v;
	size_t count;
};

static const struct what {
	Mu__What what;
	const ProtobufCMessageDescriptor *type;
	const char *word;
	const char *const *noise; /* fields that change all the time */
} whats[] = {
#define NOISE(...)                \
	(const char *const[])     \
	{                         \
		__VA_ARGS__, NULL \
	}
    {MU__WHAT__WHAT_JOBS, &mu__job_row__descriptor, "job", NULL},
    {MU__WHAT__WHAT_NODES, &mu__node_row__descriptor, "node", NULL},
    {MU__WHAT__WHAT_PARTITIONS, &mu__partition_row__descriptor, "partition", NOISE("order")},
    {MU__WHAT__WHAT_CONFIG, &mu__config_row__descriptor, "configuration",
     NOISE("since_", "source_hash", "config.source_hash", "author")},
    {MU__WHAT__WHAT_ACCOUNTS, &mu__account_row__descriptor, "account", NOISE("created_usec")},
    {MU__WHAT__WHAT_USERS, &mu__user_row__descriptor, "user", NOISE("created_usec")},
    {MU__WHAT__WHAT_ASSOCS, &mu__assoc_row__descriptor, "association", NOISE("used", "fair", "created_usec")},
    {MU__WHAT__WHAT_QOS, &mu__qos_row__descriptor, "QOS", NOISE("used", "created_usec")},
};

/* ---- what is said of a thing ---- */

static void job_lines(const Mu__JobRow *j, struct mu_buf *out)
{
	mu_buf_printf(out, "state = %s\n", mu_job_state_long(j->state));
	if (j->state == JOB_PENDING)
		mu_buf_printf(out, "reason = %s\npriority = %u\n", mu_job_reason_word(j->reason),
			      j->priority);
	if (j->node_list)
		mu_buf_printf(out, "nodes = %s\n", j->node_list);
	mu_buf_printf(out, "partition = %s\ntime_limit_sec = %" PRId64 "\nrestarts = %u\n",
		      j->partition ? j->partition : "", j->time_limit_sec, j->restarts);
}

static void node_lines(const Mu__NodeRow *n, struct mu_buf *out)
{
	char state[128];

	mu_node_state_scontrol(n->base_state, n->flags, 0, n->cpus, state);
	mu_buf_printf(out, "state = %s\nallocated CPUs = %u\nCPUs = %u\nmemory_mib = %" PRIu64 "\n", state,
		      n->alloc_cpus, n->cpus, n->real_memory_mib);
	if (n->reason)
		mu_buf_printf(out, "reason = %s\n", n->reason);
}

static const char *name_of(struct cli *c, const struct what *w, const void *row)
{
	switch (w->what) {
	case MU__WHAT__WHAT_JOBS:
		return mu_arena_printf(&c->arena, "%u", ((const Mu__JobRow *)row)->id);
	case MU__WHAT__WHAT_NODES:
		return ((const Mu__NodeRow *)row)->name;
	case MU__WHAT__WHAT_PARTITIONS:
		return ((const Mu__PartitionRow *)row)->conf ? ((const Mu__PartitionRow *)row)->conf->name
							     : "";
	case MU__WHAT__WHAT_ACCOUNTS:
		return ((const Mu__AccountRow *)row)->name;
	case MU__WHAT__WHAT_USERS:
		return ((const Mu__UserRow *)row)->name;
	case MU__WHAT__WHAT_QOS:
		return ((const Mu__QosRow *)row)->name;
	case MU__WHAT__WHAT_ASSOCS: {
		const Mu__AssocRow *a = row;
		return mu_arena_printf(&c->arena, "%s%s%s%s%s", a->account ? a->account : "",
				       a->user ? "/" : "", a->user ? a->user : "", a->partition ? "/" : "",
				       a->partition ? a->partition : "");
	}
	default:
		return "";
	}
}

static bool is_noise(const struct what *w, const char *line)
{
	for (size_t i = 0; w->noise && w->noise[i]; i++)
		if (strncmp(line, w->noise[i], strlen(w->noise[i])) == 0)
			return true;
	return false;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int by_name(const void *a, const void *b)
{
	const char *x = ((const struct thing *)a)->name, *y = ((const struct thing *)b)->name;
	size_t n = strlen(x), m = strlen(y);
	bool numbers = strspn(x, "0123456789") == n && strspn(y, "0123456789") == m;

	return numbers && n != m ? (n < m ? -1 : 1) : strcmp(x, y);
}

static void make_thing(struct cli *c, const struct what *w, const void *row, struct thing *ret)
{
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};
	char *rest, *line;
	size_t cap = 1;

	mu_buf_str(&text, "");
	if (w->what == MU__WHAT__WHAT_JOBS)
		job_lines(row, &text);
	else if (w->what == MU__WHAT__WHAT_NODES)
		node_lines(row, &text);
	else
		cli_dump_lines(row, "", &text);
	for (size_t i = 0; i < text.len; i++)
		cap += text.data[i] == '\n';
	ret->name = mu_arena_strdup(&c->arena, name_of(c, w, row) ? name_of(c, w, row) : "");
	ret->line = mu_arena_alloc(&c->arena, cap * sizeof *ret->line);
	rest = mu_arena_strdup(&c->arena, (char *)text.data);
	while ((line = strsep(&rest, "\n")))
		if (*line && !is_noise(w, line))
			ret->line[ret->lines++] = line;
	if (ret->lines)
		qsort(ret->line, ret->lines, sizeof *ret->line, by_text);
}

static int load(struct cli *c, const struct what *w, const char *at, struct side *ret, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	void **rows;
	size_t n;

	ask.has_what = ask.has_slim = ask.slim = 1;
	ask.what = w->what;
	c->at = at;
	int rc = cli_query_all(c, &ask, w->type, &rows, &n, err);
	if (rc)
		return rc;
	ret->v = mu_arena_alloc(&c->arena, (n + 1) * sizeof *ret->v);
	for (size_t i = 0; i < n; i++)
		make_thing(c, w, rows[i], &ret->v[ret->count++]);
	if (n)
		qsort(ret->v, n, sizeof *ret->v, by_name);
	return 0;
}

/* ---- differences ---- */

static size_t print_whole(const struct what *w, const struct thing *t, char sign)
{
	printf("%c %s%s%s", sign, w->word, *t->name ? " " : "", t->name);
	for (size_t i = 0;
	     i < t->lines && (w->what == MU__WHAT__WHAT_JOBS || w->what == MU__WHAT__WHAT_NODES); i++)
		printf("%s %s", i ? "," : ":", t->line[i]);
	printf("\n");
	return 1;
}

static size_t print_changes(const struct what *w, const struct thing *a, const struct thing *b)
{
	size_t i = 0, k = 0, n = 0;

	while (i < a->lines || k < b->lines) {
		int d = i == a->lines ? 1 : k == b->lines ? -1 : strcmp(a->line[i], b->line[k]);
		if (d && !n)
			printf("  %s%s%s\n", w->word, *a->name ? " " : "", a->name);
		if (d)
			printf("    %c %s\n", d < 0 ? '-' : '+', d < 0 ? a->line[i] : b->line[k]);
		n += d != 0;
		i += d <= 0;
		k += d >= 0;
	}
	return n != 0;
}

static size_t compare(const struct what *w, const struct side *a, const struct side *b)
{
	size_t i = 0, k = 0, n = 0;

	while (i < a->count || k < b->count) {
		int d = i == a->count ? 1 : k == b->count ? -1 : by_name(&a->v[i], &b->v[k]);
		n += d < 0   ? print_whole(w, &a->v[i], '-')
		     : d > 0 ? print_whole(w, &b->v[k], '+')
			     : print_changes(w, &a->v[i], &b->v[k]);
		i += d <= 0;
		k += d >= 0;
	}
	return n;
}

int muster_diff(struct cli *c, size_t count, char **words)
{
	const char *from = NULL, *to = NULL, *a, *b = NULL;
	const struct muster_word list[] = {{"from", MUSTER_VALUE, &from}, {"to", MUSTER_VALUE, &to}};
	struct mu_err err = {0};
	size_t differ = 0;
	int left = muster_words(c, count, words, list, sizeof list / sizeof *list), rc;

	if (left < 0)
		return 1;
	if (left || !from) {
		cli_error(c, "usage: muster diff --from TIME|@POS [--to TIME|@POS]");
		return 1;
	}
	rc = cli_set_at(c, from, &err);
	a = c->at;
	c->at = NULL;
	if (!rc && to)
		rc = cli_set_at(c, to, &err);
	b = c->at;
	for (size_t i = 0; i < sizeof whats / sizeof *whats && !rc; i++) {
		struct side was = {0}, is = {0};
		rc = load(c, &whats[i], a, &was, &err);
		if (!rc)
			rc = load(c, &whats[i], b, &is, &err);
		if (!rc)
			differ += compare(&whats[i], &was, &is);
	}
	if (rc) {
		cli_error(c, "%s", err.text);
		return 2;
	}
	return differ != 0;
}
