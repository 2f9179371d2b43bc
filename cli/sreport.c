/* cli/sreport.c: reports of what was used. The controllers integrate; here is grouped and printed. */
#include <ctype.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/column.h"
#include "cli/filter.h"
#include "cli/option.h"
#include "proto/why.pb-c.h"

enum { SIZES = 5, TOP_DEFAULT = 10 };
enum unit { U_SECONDS, U_MINUTES, U_HOURS, U_PERCENT, U_SEC_PER, U_MIN_PER, U_HOUR_PER };

struct cli_report {
	const char *account, *user, *tres;
	int64_t used, total; /* TRES-seconds; total: of the cluster */
	int64_t allocated, down, idle, planned;
	int64_t size[SIZES]; /* by number of CPUs */
	enum unit unit;
	bool jobs; /* sizes count jobs */
};

static const struct {
	const char *word;
	enum unit unit;
	const char *heading;
} units[] = {{"Seconds", U_SECONDS, "Seconds"},
	     {"Minutes", U_MINUTES, "Minutes"},
	     {"Hours", U_HOURS, "Hours"},
	     {"Percent", U_PERCENT, "Percentage of Total"},
	     {"SecPer", U_SEC_PER, "Seconds/Percentage of Total"},
	     {"MinPer", U_MIN_PER, "Minutes/Percentage of Total"},
	     {"HourPer", U_HOUR_PER, "Hours/Percentage of Total"}};

/* ---- cells ---- */

static void put_amount(const struct cli_report *r, int64_t amount, struct mu_buf *out)
{
	double part = r->total ? 100.0 * (double)amount / (double)r->total : 0.0;
	int64_t by = r->unit == U_MINUTES || r->unit == U_MIN_PER  ? 60
		     : r->unit == U_HOURS || r->unit == U_HOUR_PER ? 3600
								   : 1;

	if (r->unit != U_PERCENT)
		mu_buf_printf(out, "%" PRId64, (amount + by / 2) / by);
	if (r->unit == U_PERCENT)
		mu_buf_printf(out, "%.2f%%", part);
	else if (r->unit >= U_SEC_PER)
		mu_buf_printf(out, "(%.2f%%)", part);
}

#define GET(name) static void get_##name(const struct cli_cell *c, struct mu_buf *out)
#define AMOUNT(name)                                         \
	GET(name)                                            \
	{                                                    \
		put_amount(c->report, c->report->name, out); \
	}
AMOUNT(used)
AMOUNT(allocated)
AMOUNT(down)
AMOUNT(idle)
AMOUNT(planned)
GET(reported)
{
	put_amount(c->report, c->report->total, out);
}
GET(planned_down)
{
	put_amount(c->report, 0, out);
}
GET(energy)
{
	mu_buf_str(out, "0");
}
GET(cluster)
{
	mu_buf_str(out, c->cluster ? c->cluster : "");
}
GET(account)
{
	mu_buf_str(out, c->report->account ? c->report->account : "");
}
GET(login)
{
	mu_buf_str(out, c->report->user ? c->report->user : "");
}
GET(tres)
{
	mu_buf_str(out, c->report->tres);
}
GET(proper)
{
	struct passwd hold, *p = NULL;
	char room[4096];

	if (c->report->user && *c->report->user)
		(void)getpwnam_r(c->report->user, &hold, room, sizeof room, &p);
	if (p && p->pw_gecos)
		mu_buf_add(out, p->pw_gecos, strcspn(p->pw_gecos, ","));
}
static void put_size(const struct cli_report *r, int n, struct mu_buf *out)
{
	if (r->jobs)
		mu_buf_printf(out, "%" PRId64, r->size[n]);
	else
		put_amount(r, r->size[n], out);
}
#define SIZE(n)                              \
	GET(size##n)                         \
	{                                    \
		put_size(c->report, n, out); \
	}
SIZE(0)
SIZE(1)
SIZE(2)
SIZE(3)
SIZE(4)
GET(share)
{
	int64_t sum = 0;

	for (int i = 0; i < SIZES && !c->report->jobs; i++)
		sum += c->report->size[i];
	mu_buf_printf(out, "%.2f%%", c->report->total ? 100.0 * (double)sum / (double)c->report->total : 0.0);
}

static const struct cli_column columns[] = {
#define MU_COLUMN_REPORT(name, heading, width, getter) {0, name, heading, width, 0, get_##getter},
#include "proto/columns.def"
};
static const struct cli_columns set = {columns, sizeof columns / sizeof *columns};

/* ---- the request ---- */

enum kind { K_CLUSTER, K_ACCOUNT_USER, K_USER_ACCOUNT, K_TOP, K_SIZES };
static const struct {
	const char *family, *report;
	enum kind kind;
	const char *title, *format;
} reports[] = {
    {"cluster", "Utilization", K_CLUSTER, "Cluster Utilization",
     "cluster,allocated,down,planneddown,idle,planned,reported"},
    {"cluster", "AccountUtilizationByUser", K_ACCOUNT_USER, "Cluster/Account/User Utilization",
     "cluster,accounts,login,proper,used,energy"},
    {"cluster", "UserUtilizationByAccount", K_USER_ACCOUNT, "Cluster/User/Account Utilization",
     "cluster,login,proper,accounts,used,energy"},
    {"job", "SizesByAccount", K_SIZES, "Job Sizes", "cluster,accounts,size0,size1,size2,size3,size4,share"},
    {"user", "TopUsage", K_TOP, "Top %u Users", "cluster,login,proper,accounts,used,energy"},
};

struct sreport {
	struct cli *cli;
	const struct cli_args *args;
	enum kind kind;
	const char *title, *format_text;
	int64_t from, to;
	enum unit unit;
	const char *unit_heading;
	char **tres;
	size_t tress;
	const char *users, *accounts;
	unsigned top;
	bool print_jobs, group, format_given;
	struct cli_format format;
	struct cli_acct_style style;
	void **row;
	size_t rows;
	void **assoc;
	size_t assocs;
	struct mu_buf out;
};

static int read_report(struct sreport *s, const char *family, const char *report, struct mu_err *err)
{
	if (strncasecmp(family, "reservation", strlen(family)) == 0)
		return mu_fail(err, MU_EDISABLED, "reports of reservations are not part of this version");
	if (strcasestr(report, "WCKey"))
		return mu_fail(err, MU_EDISABLED,
			       "%s: jobs are not accounted by wckey (AccountingStorageEnforce has no wckeys)",
			       report);
	for (size_t i = 0; i < sizeof reports / sizeof *reports; i++) {
		if (strncasecmp(reports[i].family, family, strlen(family)) != 0 ||
		    strncasecmp(reports[i].report, report, strlen(report)) != 0)
			continue;
		s->kind = reports[i].kind;
		s->title = reports[i].title;
		s->format_text = reports[i].format;
		return 0;
	}
	return mu_fail(err, MU_EINVAL, "Not valid report %s %s", family, report);
}

static int read_key(struct sreport *s, char *word, struct mu_err *err)
{
	char *equal = strchr(word, '=');
	size_t len = equal ? (size_t)(equal - word) : strlen(word);
	const char *value = equal ? equal + 1 : "";

	if (!equal && strncasecmp(word, "printjobcount", len) == 0 && len > 1) {
		s->print_jobs = true;
		return 0;
	}
	if (!equal && (strncasecmp(word, "grouping", len) == 0 || strncasecmp(word, "group", len) == 0)) {
		s->group = true;
		return 0;
	}
	if (!equal)
		return mu_fail(err, MU_EINVAL, "Unknown condition: %s", word);
	if (strncasecmp(word, "start", len) == 0 || strncasecmp(word, "end", len) == 0) {
		int64_t *at = tolower((unsigned char)word[0]) == 's' ? &s->from : &s->to;
		if (mu_date_parse(value, cli_now_usec(), 0, &cli_zone, at, NULL))
			return mu_fail(err, MU_EINVAL, "Invalid time specification (pos=0): %s", value);
		return 0;
	}
	if (strncasecmp(word, "format", len) == 0) {
		s->format_text = value;
		s->format_given = true;
	} else if (strncasecmp(word, "users", len) == 0)
		s->users = value;
	else if (strncasecmp(word, "accounts", len) == 0)
		s->accounts = value;
	else if (strncasecmp(word, "topcount", len) == 0)
		s->top = (unsigned)strtoul(value, NULL, 10);
	else if (strncasecmp(word, "clusters", len) == 0 || strncasecmp(word, "tree", len) == 0)
		return 0;
	else
		return mu_fail(err, MU_EINVAL, "Unknown condition: %.*s", (int)len, word);
	return 0;
}

static int read_options(struct sreport *s, struct mu_err *err)
{
	const char *unit = cli_args_value(s->args, OPT_report_time),
		   *tres = cli_args_value(s->args, OPT_report_tres);
	bool plain = cli_args_has(s->args, OPT_mgr_parsable), bare = cli_args_has(s->args, OPT_mgr_parsable2);

	s->unit = U_MINUTES;
	s->unit_heading = "Minutes";
	for (size_t i = 0; unit && i < sizeof units / sizeof *units; i++)
		if (strcasecmp(units[i].word, unit) == 0) {
			s->unit = units[i].unit;
			s->unit_heading = units[i].heading;
			unit = NULL;
		}
	if (unit)
		return mu_fail(err, MU_EINVAL, "Invalid time format: %s", unit);
	s->tres = cli_split(&s->cli->arena, tres ? tres : "cpu", &s->tress);
	if (plain || bare)
		s->style = (struct cli_acct_style){.delimiter = "|", .trail = !bare};
	return 0;
}

/* Yesterday, unless told otherwise; a start alone goes to the present. */
static int read_window(struct sreport *s, struct mu_err *err)
{
	int64_t now = cli_now_usec();

	if (!s->from)
		mu_date_parse("midnight-1days", now, 0, &cli_zone, &s->from, NULL);
	if (!s->from)
		mu_date_parse("yesterday", now, 0, &cli_zone, &s->from, NULL);
	if (!s->to)
		mu_date_parse("midnight", now, 0, &cli_zone, &s->to, NULL);
	if (s->to <= s->from && s->from < now)
		s->to = now;
	return s->to > s->from ? 0 : mu_fail(err, MU_EINVAL, "The end of the report lies before its start");
}

static int load(struct sreport *s, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT, tree = MU__QUERY__INIT;

	ask.has_what = ask.has_from_usec = ask.has_to_usec = 1;
	ask.what = MU__WHAT__WHAT_USAGE;
	ask.from_usec = s->from;
	ask.to_usec = s->to;
	int rc = cli_query_all(s->cli, &ask, &mu__usage_row__descriptor, &s->row, &s->rows, err);
	tree.has_what = 1;
	tree.what = MU__WHAT__WHAT_ASSOCS;
	if (!rc)
		rc = cli_query_all(s->cli, &tree, &mu__assoc_row__descriptor, &s->assoc, &s->assocs, err);
	return rc;
}

/* ---- sums ---- */

static int64_t used_of(const Mu__UsageRow *r, const char *tres)
{
	for (size_t i = 0; i < r->n_used; i++)
		if (strcasecmp(r->used[i]->name, tres) == 0)
			return r->used[i]->count;
	return 0;
}

static int64_t sum_kind(const struct sreport *s, uint32_t kind, const char *tres)
{
	int64_t sum = 0;

	for (size_t i = 0; i < s->rows; i++)
		if (((Mu__UsageRow *)s->row[i])->kind == kind)
			sum += used_of(s->row[i], tres);
	return sum;
}

static const char *parent_of(const struct sreport *s, const char *account)
{
	for (size_t i = 0; i < s->assocs; i++) {
		const Mu__AssocRow *a = s->assoc[i];
		if (a->account && !a->user && strcmp(a->account, account) == 0)
			return a->parent ? a->parent : strcmp(account, "root") == 0 ? NULL : "root";
	}
	return strcmp(account, "root") == 0 ? NULL : "root";
}

static const char *account_of(const Mu__UsageRow *r)
{
	return r->account && *r->account ? r->account : "root";
}

/* Does ACCOUNT lie at or below ABOVE? The tree is no deeper than 64. */
static bool is_below(const struct sreport *s, const char *account, const char *above)
{
	for (int depth = 0; account && depth < 64; depth++, account = parent_of(s, account))
		if (strcmp(account, above) == 0)
			return true;
	return false;
}

static bool wanted(const struct sreport *s, const Mu__UsageRow *r)
{
	return r->kind == 1 && (!s->users || cli_in_list(s->users, r->user ? r->user : "")) &&
	       (!s->accounts || cli_in_list(s->accounts, account_of(r)));
}

static int64_t sum_of(const struct sreport *s, const char *account, const char *user, bool below,
		      const char *tres)
{
	int64_t sum = 0;

	for (size_t i = 0; i < s->rows; i++) {
		const Mu__UsageRow *r = s->row[i];
		if (!wanted(s, r) || (user && strcmp(r->user ? r->user : "", user) != 0))
			continue;
		if (!account ||
		    (below ? is_below(s, account_of(r), account) : strcmp(account_of(r), account) == 0))
			sum += used_of(r, tres);
	}
	return sum;
}

/* ---- lines ---- */

static void line(struct sreport *s, struct cli_report *r, const char *tres, int64_t total)
{
	struct cli_cell cell = {.cluster = s->cli->conf.cluster, .report = r, .arena = &s->cli->arena};

	r->tres = tres;
	r->total = total;
	r->unit = s->unit;
	cli_acct_row(&s->format, &s->style, &cell, &s->out);
}

/* Pairs of account and user that used anything, each once. */
struct pair {
	const char *account, *user;
	int64_t used; /* for sorting */
};

static size_t pairs(struct sreport *s, struct pair **ret, bool by_account)
{
	struct pair *v = mu_arena_alloc(&s->cli->arena, (s->rows + 1) * sizeof *v);
	size_t n = 0;

	for (size_t i = 0; i < s->rows; i++) {
		const Mu__UsageRow *r = s->row[i];
		size_t k = 0;
		if (!wanted(s, r))
			continue;
		while (k < n && (strcmp(v[k].user, r->user) != 0 ||
				 (by_account && strcmp(v[k].account, account_of(r)) != 0)))
			k++;
		if (k == n)
			v[n++] = (struct pair){by_account ? account_of(r) : "", r->user, 0};
		v[k].used += used_of(r, s->tres[0]);
	}
	*ret = v;
	return n;
}

static int by_names(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	int d = strcmp(x->account, y->account);

	return d ? d : strcmp(x->user, y->user);
}

static int by_user(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	int d = strcmp(x->user, y->user);

	return d ? d : strcmp(x->account, y->account);
}

static int by_use(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;

	return x->used != y->used ? (x->used > y->used ? -1 : 1) : strcmp(x->user, y->user);
}

static void print_cluster(struct sreport *s)
{
	for (size_t t = 0; t < s->tress; t++) {
		const char *tres = s->tres[t];
		struct cli_report r = {0};
		int64_t total = sum_kind(s, 3, tres), planned = sum_kind(s, 5, tres), free;
		r.allocated = sum_kind(s, 2, tres);
		r.down = sum_kind(s, 4, tres);
		free = total - r.allocated - r.down;
		r.planned = planned < free ? planned : free > 0 ? free : 0;
		r.idle = free - r.planned;
		line(s, &r, tres, total);
	}
}

/* Accounts in the tree's order, each with all below it, then its own users. */
static void print_account(struct sreport *s, const char *account, struct pair *v, size_t n)
{
	for (size_t t = 0; t < s->tress; t++) {
		struct cli_report r = {.account = account,
				       .used = sum_of(s, account, NULL, true, s->tres[t])};
		if (r.used)
			line(s, &r, s->tres[t], sum_kind(s, 3, s->tres[t]));
	}
	for (size_t i = 0; i < n; i++)
		for (size_t t = 0; t < s->tress && strcmp(v[i].account, account) == 0; t++) {
			struct cli_report r = {.account = account,
					       .user = v[i].user,
					       .used = sum_of(s, account, v[i].user, false, s->tres[t])};
			if (r.used)
				line(s, &r, s->tres[t], sum_kind(s, 3, s->tres[t]));
		}
}

static void print_tree(struct sreport *s, const char *account, int depth, struct pair *v, size_t n)
{
	print_account(s, account, v, n);
	for (size_t i = 0; depth < 64 && i < s->assocs; i++) {
		const Mu__AssocRow *a = s->assoc[i];
		const char *parent = a->account && !a->user ? parent_of(s, a->account) : NULL;
		if (parent && strcmp(parent, account) == 0)
			print_tree(s, a->account, depth + 1, v, n);
	}
}

static void print_pairs(struct sreport *s, struct pair *v, size_t n, bool by_account)
{
	for (size_t i = 0; i < n; i++)
		for (size_t t = 0; t < s->tress; t++) {
			const char *account = by_account ? v[i].account : NULL;
			struct cli_report r = {.account = account ? account : "",
					       .user = v[i].user,
					       .used = sum_of(s, account, v[i].user, false, s->tres[t])};
			if (r.used)
				line(s, &r, s->tres[t], sum_kind(s, 3, s->tres[t]));
		}
}

static int size_of(uint32_t cpus)
{
	return cpus < 50 ? 0 : cpus < 250 ? 1 : cpus < 500 ? 2 : cpus < 1000 ? 3 : 4;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void print_sizes(struct sreport *s)
{
	const char **names = mu_arena_alloc(&s->cli->arena, (s->rows + 1) * sizeof *names);
	size_t n = 0;

	for (size_t i = 0; i < s->rows; i++) {
		size_t k = 0;
		if (!wanted(s, s->row[i]))
			continue;
		while (k < n && strcmp(names[k], account_of(s->row[i])) != 0)
			k++;
		if (k == n)
			names[n++] = account_of(s->row[i]);
	}
	if (n)
		qsort(names, n, sizeof *names, by_text);
	for (size_t k = 0; k < n; k++) {
		struct cli_report r = {.account = names[k], .jobs = s->print_jobs};
		for (size_t i = 0; i < s->rows; i++) {
			const Mu__UsageRow *u = s->row[i];
			if (wanted(s, u) && strcmp(account_of(u), names[k]) == 0)
				r.size[size_of(u->cpus)] +=
				    s->print_jobs ? (int64_t)u->jobs : used_of(u, s->tres[0]);
		}
		line(s, &r, s->tres[0], sum_kind(s, 3, s->tres[0]));
	}
}

/* ---- the page ---- */

static void rule(void)
{
	printf("--------------------------------------------------------------------------------\n");
}

static void print_title(const struct sreport *s)
{
	char from[32], to[32], title[64];
	bool parsable = s->style.delimiter != NULL;

	if (cli_args_has(s->args, OPT_report_noheader))
		return;
	mu_date_print(s->from, &cli_zone, from);
	mu_date_print(s->to - 1, &cli_zone, to);
	if (s->kind == K_TOP)
		snprintf(title, sizeof title, "Top %u Users", s->top);
	else
		snprintf(title, sizeof title, "%s", s->title);
	if (!parsable)
		rule();
	printf("%s %s - %s", title, from, to);
	printf(s->kind == K_CLUSTER ? "\n" : " (%" PRId64 " secs)\n", (s->to - s->from) / 1000000);
	if (s->kind == K_SIZES && s->print_jobs)
		printf("Units are in number of jobs ran\n");
	else
		printf("Usage reported in %s %s\n",
		       s->tress > 1 || strcasecmp(s->tres[0], "cpu") != 0 ? "TRES" : "CPU", s->unit_heading);
	if (!parsable)
		rule();
}

static void print_report(struct sreport *s)
{
	struct pair *v;
	size_t n = pairs(s, &v, s->kind != K_TOP || !s->group);

	print_title(s);
	if (!cli_args_has(s->args, OPT_report_noheader))
		cli_acct_heading(&s->format, &s->style, &s->out);
	switch (s->kind) {
	case K_CLUSTER:
		print_cluster(s);
		break;
	case K_ACCOUNT_USER:
		if (n)
			qsort(v, n, sizeof *v, by_names);
		print_tree(s, "root", 0, v, n);
		break;
	case K_USER_ACCOUNT:
		if (n)
			qsort(v, n, sizeof *v, by_user);
		print_pairs(s, v, n, true);
		break;
	case K_TOP:
		if (n)
			qsort(v, n, sizeof *v, by_use);
		print_pairs(s, v, n < s->top ? n : s->top, !s->group);
		break;
	default:
		print_sizes(s);
	}
	fwrite(s->out.data ? (char *)s->out.data : "", 1, s->out.len, stdout);
}

static int prepare(struct sreport *s, struct mu_err *err)
{
	const struct cli_args *args = s->args;
	int rc;

	if (args->word_count < 2)
		return mu_fail(err, MU_EINVAL,
			       "usage: sreport cluster|job|user REPORT [start=TIME] [end=TIME] ...");
	rc = read_report(s, args->words[0], args->words[1], err);
	for (size_t i = 2; i < args->word_count && !rc; i++)
		rc = read_key(s, args->words[i], err);
	if (!rc)
		rc = read_options(s, err);
	if (!rc)
		rc = read_window(s, err);
	if (!rc && (s->tress > 1 || strcasecmp(s->tres[0], "cpu") != 0) && !s->format_given &&
	    s->kind != K_SIZES)
		s->format_text =
		    mu_arena_printf(&s->cli->arena, "cluster,tresname%s", strchr(s->format_text, ','));
	if (!rc)
		rc = cli_format_acct(&set, s->format_text, &s->cli->arena, &s->format, err);
	if (!rc)
		rc = cli_check_clusters(s->cli, args, err);
	return rc ? rc : load(s, err);
}

int cli_sreport(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	struct sreport s = {.cli = c, .args = &args, .top = TOP_DEFAULT};
	struct mu_err err = {0};
	int rc;

	if (cli_begin(c, argc, argv, false, &args, &rc))
		return rc;
	if (prepare(&s, &err)) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	print_report(&s);
	mu_buf_free(&s.out);
	return 0;
}
