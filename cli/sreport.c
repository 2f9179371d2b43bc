/* cli/sreport.c: reports of what was used: the request, and the page. See sreport.h. */
#include "cli/sreport.h"

#include <ctype.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/filter.h"
#include "proto/base/map.h"
#include "proto/states.h"

enum { TOP_DEFAULT = 10, TREE_DEPTH = 64 };

static const struct {
	const char *word;
	enum report_unit unit;
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

static void put_date(int64_t usec, struct mu_buf *out)
{
	char date[32];

	mu_date_print(usec, &cli_zone, date);
	mu_buf_str(out, date);
}

#define GET(name) static void get_##name(const struct cli_cell *c, struct mu_buf *out)
#define AMOUNT(name)                                         \
	GET(name)                                            \
	{                                                    \
		put_amount(c->report, c->report->name, out); \
	}
AMOUNT(used)
AMOUNT(unused)
AMOUNT(allocated)
AMOUNT(down)
AMOUNT(idle)
AMOUNT(planned)
#define KEY(name, which)                                                                     \
	GET(name)                                                                            \
	{                                                                                    \
		mu_buf_str(out, c->report->key[which] ? c->report->key[which] : ""); \
	}
KEY(login, BY_USER)
KEY(wckey, BY_WCKEY)
KEY(partition, BY_PARTITION)
KEY(qos, BY_QOS)
KEY(reservation, BY_RESERVATION)
GET(account)
{
	mu_buf_printf(out, "%*s%s", c->report->depth, "", c->report->key[BY_ACCOUNT] ? c->report->key[BY_ACCOUNT] : "");
}
GET(node)
{
	mu_buf_str(out, c->report->node ? c->report->node : "");
}
GET(nodes)
{
	mu_buf_str(out, c->report->nodes ? c->report->nodes : "");
}
GET(start)
{
	put_date(c->report->start_usec, out);
}
GET(end)
{
	put_date(c->report->end_usec, out);
}
GET(flags)
{
	bool any = false;

	for (unsigned bit = 0; bit < 64; bit++)
		if (c->report->flags >> bit & 1 && mu_resv_flag_word(bit)) {
			mu_buf_printf(out, "%s%s", any ? "," : "", mu_resv_flag_word(bit));
			any = true;
		}
}
GET(jobs)
{
	mu_buf_printf(out, "%" PRIu64, c->report->jobs);
}
GET(cost)
{
	report_cost_print(c->report->cost, out);
}
GET(reported)
{
	put_amount(c->report, c->report->total, out);
}
GET(tres_count)
{
	int64_t sec = (c->report->end_usec - c->report->start_usec) / 1000000;

	mu_buf_printf(out, "%" PRId64, sec > 0 ? c->report->total / sec : 0);
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
GET(tres)
{
	mu_buf_str(out, c->report->tres);
}
GET(proper)
{
	struct passwd hold, *p = NULL;
	const char *user = c->report->key[BY_USER];
	char room[4096];

	if (user && *user)
		(void)getpwnam_r(user, &hold, room, sizeof room, &p);
	if (p && p->pw_gecos)
		mu_buf_add(out, p->pw_gecos, strcspn(p->pw_gecos, ","));
}
static void put_size(const struct cli_report *r, int n, struct mu_buf *out)
{
	if (r->counts_jobs)
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
SIZE(5)
SIZE(6)
SIZE(7)
SIZE(8)
SIZE(9)
GET(share)
{
	int64_t sum = 0;

	for (int i = 0; i < REPORT_SIZES; i++)
		sum += c->report->size[i];
	mu_buf_printf(out, "%.2f%%", c->report->total ? 100.0 * (double)sum / (double)c->report->total : 0.0);
}

static const struct cli_column columns[] = {
#define MU_COLUMN_REPORT(name, heading, width, getter) {0, name, heading, width, 0, get_##getter},
#include "proto/columns.def"
};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* ---- the request ---- */

enum kind { K_CLUSTER, K_TREE, K_GROUPS, K_TOP, K_SIZES, K_NODES, K_RESERVATION };
#define BIT(key) (1u << (key))
static const struct {
	const char *family, *report;
	enum kind kind;
	unsigned keys;
	const char *title, *format;
} reports[] = {
    {"cluster", "Utilization", K_CLUSTER, 0, "Cluster Utilization", "cluster,allocated,down,planneddown,idle,planned,reported"},
    {"cluster", "AccountUtilizationByUser", K_TREE, BIT(BY_ACCOUNT) | BIT(BY_USER), "Cluster/Account/User Utilization",
     "cluster,accounts,login,proper,used,energy"},
    {"cluster", "UserUtilizationByAccount", K_GROUPS, BIT(BY_ACCOUNT) | BIT(BY_USER), "Cluster/User/Account Utilization",
     "cluster,login,proper,accounts,used,energy"},
    {"cluster", "UserUtilizationByWCKey", K_GROUPS, BIT(BY_USER) | BIT(BY_WCKEY), "Cluster/User/WCKey Utilization",
     "cluster,login,proper,wckey,used,energy"},
    {"cluster", "WCKeyUtilizationByUser", K_GROUPS, BIT(BY_USER) | BIT(BY_WCKEY), "Cluster/WCKey/User Utilization",
     "cluster,wckey,login,proper,used,energy"},
    {"cluster", "UtilizationByPartition", K_GROUPS, BIT(BY_PARTITION), "Cluster/Partition Utilization",
     "cluster,partition,jobs,used"},
    {"cluster", "UtilizationByQOS", K_GROUPS, BIT(BY_QOS), "Cluster/QOS Utilization", "cluster,qos,jobs,used"},
    {"cluster", "UtilizationByReservation", K_GROUPS, BIT(BY_RESERVATION), "Cluster/Reservation Utilization",
     "cluster,reservation,jobs,used"},
    {"cluster", "UtilizationByNode", K_NODES, 0, "Cluster/Node Utilization", "cluster,nodename,used"},
    {"cluster", "UnusedDevices", K_GROUPS, BIT(BY_ACCOUNT) | BIT(BY_USER), "Devices held and not used",
     "cluster,accounts,login,proper,used,unused"},
    {"job", "SizesByAccount", K_SIZES, BIT(BY_ACCOUNT), "Job Sizes", "accounts"},
    {"job", "SizesByAccountAndWcKey", K_SIZES, BIT(BY_ACCOUNT) | BIT(BY_WCKEY), "Job Sizes by Account and WCKey", "accounts,wckey"},
    {"job", "SizesByWcKey", K_SIZES, BIT(BY_WCKEY), "Job Sizes by WCKey", "wckey"},
    {"reservation", "Utilization", K_RESERVATION, 0, "Reservation Utilization", "cluster,name,start,end,tresname,allocated,idle"},
    {"user", "TopUsage", K_TOP, BIT(BY_ACCOUNT) | BIT(BY_USER), "Top %u Users", "cluster,login,proper,accounts,used,energy"},
};

struct sreport {
	struct cli *cli;
	const struct cli_args *args;
	enum kind kind;
	unsigned keys;
	const char *title, *format_text;
	int64_t from, to;
	enum report_unit unit;
	const char *unit_heading, *grouping, *names, *prices_path;
	struct report_filter filter;
	struct report_sums sums;
	struct report_price *price;
	size_t prices;
	uint32_t border[REPORT_SIZES - 1];
	unsigned top;
	bool print_jobs, group, tree, format_given;
	struct cli_column column[COLUMNS];
	struct cli_format format;
	struct cli_acct_style style;
	struct report_rows rows;
	struct mu_buf out;
};

static int read_report(struct sreport *s, const char *family, const char *report, struct mu_err *err)
{
	for (size_t i = 0; i < sizeof reports / sizeof *reports; i++) {
		if (strncasecmp(reports[i].family, family, strlen(family)) != 0 ||
		    strncasecmp(reports[i].report, report, strlen(report)) != 0)
			continue;
		s->kind = reports[i].kind;
		s->keys = reports[i].keys;
		s->title = reports[i].title;
		s->format_text = reports[i].format;
		return 0;
	}
	return mu_fail(err, MU_EINVAL, "Not valid report %s %s", family, report);
}

static int read_flag(struct sreport *s, const char *word, size_t len, struct mu_err *err)
{
	if (strncasecmp(word, "printjobcount", len) == 0 && len > 1)
		s->print_jobs = true;
	else if (strncasecmp(word, "grouping", len) == 0 || strncasecmp(word, "group", len) == 0)
		s->group = true;
	else if (strncasecmp(word, "tree", len) == 0)
		s->tree = true;
	else if (strncasecmp(word, "flatview", len) != 0 && strncasecmp(word, "all_clusters", len) != 0)
		return mu_fail(err, MU_EINVAL, "Unknown condition: %s", word);
	return 0;
}

static int read_key(struct sreport *s, char *word, struct mu_err *err)
{
	char *equal = strchr(word, '=');
	size_t len = equal ? (size_t)(equal - word) : strlen(word);
	const char *value = equal ? equal + 1 : "";
	const struct {
		const char *name;
		const char **into;
	} words[] = {{"users", &s->filter.users},     {"accounts", &s->filter.accounts},     {"wckeys", &s->filter.wckeys},
		     {"grouping", &s->grouping},      {"partitions", &s->filter.partitions}, {"names", &s->names},
		     {"prices", &s->prices_path},     {"format", &s->format_text}};

	if (!equal)
		return read_flag(s, word, len, err);
	if (strncasecmp(word, "start", len) == 0 || strncasecmp(word, "end", len) == 0) {
		int64_t *at = tolower((unsigned char)word[0]) == 's' ? &s->from : &s->to;
		if (mu_date_parse(value, cli_now_usec(), 0, &cli_zone, at, NULL))
			return mu_fail(err, MU_EINVAL, "Invalid time specification (pos=0): %s", value);
		return 0;
	}
	if (strncasecmp(word, "topcount", len) == 0) {
		int64_t n;
		int rc = mu_number_parse("topcount", value, 1, INT32_MAX, &n, err);
		s->top = rc ? 0 : (unsigned)n;
		return rc;
	}
	if (strncasecmp(word, "clusters", len) == 0)
		return 0;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (len && strncasecmp(word, words[i].name, len) == 0) {
			*words[i].into = value;
			s->format_given = s->format_given || words[i].into == &s->format_text;
			return 0;
		}
	return mu_fail(err, MU_EINVAL, "Unknown condition: %.*s", (int)len, word);
}

static int read_options(struct sreport *s, struct mu_err *err)
{
	const char *unit = cli_args_value(s->args, OPT_report_time), *tres = cli_args_value(s->args, OPT_report_tres);
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
	s->sums.tres = cli_split(&s->cli->arena, tres ? tres : "cpu", &s->sums.tress);
	if (!s->sums.tress || s->sums.tress > REPORT_TRES_MAX)
		return mu_fail(err, MU_EINVAL, "Between 1 and %d resources can be reported at once", REPORT_TRES_MAX);
	if (plain || bare)
		s->style = (struct cli_acct_style){.delimiter = "|", .trail = !bare};
	return s->prices_path ? report_prices_read(s->cli, s->prices_path, &s->price, &s->prices, err) : 0;
}

/* grouping=50,250: below 50, from 50, from 250. */
static int read_sizes(struct sreport *s, struct mu_err *err)
{
	size_t count;
	char **words = cli_split(&s->cli->arena, s->grouping ? s->grouping : "50,250,500,1000", &count);

	if (count >= REPORT_SIZES)
		return mu_fail(err, MU_EINVAL, "grouping= takes at most %d numbers", REPORT_SIZES - 1);
	for (size_t i = 0; i < count; i++) {
		int64_t n;
		int rc = mu_number_parse("grouping", words[i], i ? (int64_t)s->border[i - 1] + 1 : 1, UINT32_MAX, &n, err);
		if (rc)
			return rc;
		s->border[i] = (uint32_t)n;
	}
	s->sums.border = s->border;
	s->sums.borders = count;
	return 0;
}

/* The columns, of which those of sizes have their headings from grouping=. */
static int read_format(struct sreport *s, struct mu_err *err)
{
	struct cli_columns set = {s->column, COLUMNS};
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};
	size_t borders = s->sums.borders;
	bool named = s->sums.tress > 1 || strcasecmp(s->sums.tres[0], "cpu") != 0;

	memcpy(s->column, columns, sizeof columns);
	for (size_t i = 0; i < COLUMNS; i++) {
		size_t n = strncmp(columns[i].name, "Size", 4) == 0 ? (size_t)(columns[i].name[4] - '0') : REPORT_SIZES;
		if (n > borders)
			continue;
		uint32_t from = n ? s->border[n - 1] : 0;
		s->column[i].heading = n == borders ? mu_arena_printf(&s->cli->arena, ">= %u CPUs", from)
						    : mu_arena_printf(&s->cli->arena, "%u-%u CPUs", from, s->border[n] - 1);
	}
	if (s->format_given)
		return cli_format_acct(&set, s->format_text, &s->cli->arena, &s->format, err);
	mu_buf_str(&text, s->format_text);
	if (s->kind == K_SIZES) {
		mu_buf_reset(&text);
		mu_buf_printf(&text, "cluster,%s", s->format_text);
		for (size_t i = 0; i <= borders; i++)
			mu_buf_printf(&text, ",size%zu", i);
		mu_buf_str(&text, ",share");
	} else if (named && s->kind != K_RESERVATION) {
		mu_buf_reset(&text);
		mu_buf_printf(&text, "cluster,tresname%s", strchr(s->format_text, ','));
	}
	if (s->prices_path && s->kind != K_CLUSTER && s->kind != K_RESERVATION)
		mu_buf_str(&text, ",cost");
	return cli_format_acct(&set, mu_arena_strdup(&s->cli->arena, (char *)text.data), &s->cli->arena, &s->format, err);
}

/* Yesterday, unless told otherwise; a start alone goes to the present. */
static int read_window(struct sreport *s, struct mu_err *err)
{
	int64_t now = cli_now_usec();

	if (!s->from)
		mu_date_parse("yesterday", now, 0, &cli_zone, &s->from, NULL);
	if (!s->to)
		mu_date_parse("midnight", now, 0, &cli_zone, &s->to, NULL);
	if (s->to <= s->from && s->from < now)
		s->to = now;
	return s->to > s->from ? 0 : mu_fail(err, MU_EINVAL, "The end of the report lies before its start");
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

/* A line for each TRES of which the group had any. */
static void group_lines(struct sreport *s, const struct report_group *g, int depth, bool named)
{
	for (size_t t = 0; t < s->sums.tress; t++) {
		struct cli_report r = {.depth = depth, .used = g->used[t], .unused = g->unused[t], .cost = g->cost, .jobs = g->jobs};
		for (int k = 0; k < REPORT_KEYS; k++)
			r.key[k] = !named && k != BY_ACCOUNT ? "" : g->key[k];
		if (g->used[t])
			line(s, &r, s->sums.tres[t], report_total(&s->rows, ROW_CLUSTER, s->sums.tres[t]));
	}
}

static void print_cluster(struct sreport *s)
{
	for (size_t t = 0; t < s->sums.tress; t++) {
		const char *tres = s->sums.tres[t];
		struct cli_report r = {0};
		int64_t total = report_total(&s->rows, ROW_CLUSTER, tres), planned = report_total(&s->rows, ROW_WAITED, tres), free;
		r.allocated = report_total(&s->rows, ROW_NODE, tres);
		r.down = report_total(&s->rows, ROW_DOWN, tres);
		free = total - r.allocated - r.down;
		r.planned = planned < free ? planned : free > 0 ? free : 0;
		r.idle = free - r.planned;
		line(s, &r, tres, total);
	}
}

static void add_group(const struct sreport *s, struct report_group *sum, const struct report_group *g)
{
	for (size_t t = 0; t < s->sums.tress; t++) {
		sum->used[t] += g->used[t];
		sum->unused[t] += g->unused[t];
	}
	sum->jobs += g->jobs;
	sum->cost += g->cost;
}

/* An account with all below it, then its own users, then the accounts below. */
static void print_tree(struct sreport *s, const char *account, int depth, const struct report_group *v, size_t n)
{
	struct report_group sum = {.key = {[BY_ACCOUNT] = account}};
	int indent = s->tree ? depth : 0;

	for (size_t i = 0; i < n; i++)
		if (report_below(&s->rows, v[i].key[BY_ACCOUNT], account))
			add_group(s, &sum, &v[i]);
	group_lines(s, &sum, indent, false);
	for (size_t i = 0; i < n; i++)
		if (strcmp(v[i].key[BY_ACCOUNT], account) == 0)
			group_lines(s, &v[i], indent, true);
	for (size_t i = 0; depth < TREE_DEPTH && i < s->rows.assocs; i++) {
		const Mu__AssocRow *a = s->rows.assoc[i];
		const char *parent = a->account && !a->user ? report_parent(&s->rows, a->account) : NULL;
		if (parent && strcmp(parent, account) == 0)
			print_tree(s, a->account, depth + 1, v, n);
	}
}

static int by_user(const void *a, const void *b)
{
	const struct report_group *x = a, *y = b;
	int d = strcmp(x->key[BY_USER], y->key[BY_USER]);

	d = d ? d : strcmp(x->key[BY_ACCOUNT], y->key[BY_ACCOUNT]);
	return d ? d : strcmp(x->key[BY_WCKEY], y->key[BY_WCKEY]);
}

static int by_wckey(const void *a, const void *b)
{
	const struct report_group *x = a, *y = b;
	int d = strcmp(x->key[BY_WCKEY], y->key[BY_WCKEY]);

	return d ? d : strcmp(x->key[BY_USER], y->key[BY_USER]);
}

static int by_use(const void *a, const void *b)
{
	const struct report_group *x = a, *y = b;

	return x->used[0] != y->used[0] ? (x->used[0] > y->used[0] ? -1 : 1) : by_user(a, b);
}

static void print_groups(struct sreport *s)
{
	bool by_key = strncmp(s->title, "Cluster/WCKey", 13) == 0;
	size_t n;
	struct report_group *v = report_groups(&s->sums, s->keys, &s->cli->arena, &n);

	if (n && (s->keys & BIT(BY_USER)))
		qsort(v, n, sizeof *v, by_key ? by_wckey : by_user);
	for (size_t i = 0; i < n; i++) {
		if (by_key && (i == 0 || strcmp(v[i - 1].key[BY_WCKEY], v[i].key[BY_WCKEY]) != 0)) {
			struct report_group sum = {.key = {[BY_WCKEY] = v[i].key[BY_WCKEY]}};
			for (size_t k = i; k < n && strcmp(v[k].key[BY_WCKEY], v[i].key[BY_WCKEY]) == 0; k++)
				add_group(s, &sum, &v[k]);
			group_lines(s, &sum, 0, true);
		}
		group_lines(s, &v[i], 0, true);
	}
}

static void print_top(struct sreport *s)
{
	size_t n;
	struct report_group *v = report_groups(&s->sums, s->group ? BIT(BY_USER) : s->keys, &s->cli->arena, &n);

	if (n)
		qsort(v, n, sizeof *v, by_use);
	for (size_t i = 0; i < n && i < s->top; i++)
		group_lines(s, &v[i], 0, true);
}

static void print_sizes(struct sreport *s)
{
	size_t n;
	struct report_group *v = report_groups(&s->sums, s->keys, &s->cli->arena, &n);
	int64_t sum = 0;

	/* The share is that of the whole: of the cluster's time, or of the number of jobs. */
	for (size_t i = 0; i < n && s->print_jobs; i++)
		sum += (int64_t)v[i].jobs;
	for (size_t i = 0; i < n; i++) {
		struct cli_report r = {.counts_jobs = s->print_jobs, .cost = v[i].cost, .jobs = v[i].jobs};
		memcpy(r.key, v[i].key, sizeof r.key);
		memcpy(r.size, v[i].size, sizeof r.size);
		line(s, &r, s->sums.tres[0], s->print_jobs ? sum : report_total(&s->rows, ROW_CLUSTER, s->sums.tres[0]));
	}
}

/* A line for each node, its rows of several pieces of the window added. */
static void print_nodes(struct sreport *s)
{
	struct mu_map seen = {0};

	for (size_t i = 0; i < s->rows.count; i++) {
		const Mu__UsageRow *u = s->rows.row[i];
		if (u->kind != ROW_NODE || mu_map_put_str(&seen, u->node, s))
			continue;
		for (size_t t = 0; t < s->sums.tress; t++) {
			struct cli_report r = {.node = u->node};
			for (size_t k = i; k < s->rows.count; k++)
				if (s->rows.row[k]->kind == ROW_NODE && strcmp(s->rows.row[k]->node, u->node) == 0) {
					r.used += report_used(s->rows.row[k], s->sums.tres[t]);
					r.cost += s->rows.cost[k];
				}
			line(s, &r, s->sums.tres[t], report_total(&s->rows, ROW_CLUSTER, s->sums.tres[t]));
		}
	}
	mu_map_clear(&seen);
}

/* What jobs that ran in the reservation held. */
static int64_t held_in(const struct sreport *s, const char *name, const char *tres)
{
	int64_t sum = 0;

	for (size_t i = 0; i < s->rows.count; i++) {
		const Mu__UsageRow *u = s->rows.row[i];
		if (u->kind == ROW_JOBS && u->reservation && strcmp(u->reservation, name) == 0)
			sum += report_used(u, tres);
	}
	return sum;
}

/* Several times of one reservation share what its jobs held: it is said with the last, for all of them. */
static void print_reservations(struct sreport *s)
{
	for (size_t i = 0; i < s->rows.count; i++) {
		const Mu__UsageRow *u = s->rows.row[i], *last = u;
		int64_t end = 0;
		bool first = true;
		if (u->kind != ROW_RESERVATION || (s->names && !cli_in_list(s->names, u->reservation)))
			continue;
		for (size_t k = 0; k < i; k++)
			first = first && !(s->rows.row[k]->kind == ROW_RESERVATION && strcmp(s->rows.row[k]->reservation, u->reservation) == 0);
		if (!first)
			continue;
		for (size_t t = 0; t < s->sums.tress; t++) {
			int64_t total = 0;
			for (size_t k = i; k < s->rows.count; k++)
				if (s->rows.row[k]->kind == ROW_RESERVATION && strcmp(s->rows.row[k]->reservation, u->reservation) == 0) {
					last = s->rows.row[k];
					total += report_used(last, s->sums.tres[t]);
				}
			end = last->end_usec;
			struct cli_report r = {.key = {[BY_RESERVATION] = u->reservation}, .nodes = u->nodes, .flags = u->flags,
					       .start_usec = u->start_usec, .end_usec = end,
					       .allocated = held_in(s, u->reservation, s->sums.tres[t])};
			r.used = r.allocated;
			r.idle = total > r.allocated ? total - r.allocated : 0;
			line(s, &r, s->sums.tres[t], total);
		}
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
		printf("Usage reported in %s %s\n", s->sums.tress > 1 || strcasecmp(s->sums.tres[0], "cpu") != 0 ? "TRES" : "CPU",
		       s->unit_heading);
	if (!parsable)
		rule();
}

static void print_lines(struct sreport *s)
{
	struct report_group *v;
	size_t n;

	switch (s->kind) {
	case K_CLUSTER:
		print_cluster(s);
		break;
	case K_TREE:
		v = report_groups(&s->sums, s->keys, &s->cli->arena, &n);
		print_tree(s, "root", 0, v, n);
		break;
	case K_GROUPS:
		print_groups(s);
		break;
	case K_TOP:
		print_top(s);
		break;
	case K_SIZES:
		print_sizes(s);
		break;
	case K_NODES:
		print_nodes(s);
		break;
	default:
		print_reservations(s);
	}
}

static int prepare(struct sreport *s, struct mu_err *err)
{
	const struct cli_args *args = s->args;
	int rc;

	if (args->word_count < 2)
		return mu_fail(err, MU_EINVAL,
			       "usage: sreport cluster|job|reservation|user REPORT [start=TIME] [end=TIME] ...");
	rc = read_report(s, args->words[0], args->words[1], err);
	for (size_t i = 2; i < args->word_count && !rc; i++)
		rc = read_key(s, args->words[i], err);
	if (!rc)
		rc = read_options(s, err);
	if (!rc)
		rc = read_sizes(s, err);
	if (!rc)
		rc = read_window(s, err);
	if (!rc)
		rc = read_format(s, err);
	if (!rc)
		rc = cli_check_clusters(s->cli, args, err);
	s->sums.rows = &s->rows;
	s->sums.filter = &s->filter;
	s->sums.count_jobs = s->print_jobs;
	return rc;
}

static int run(struct cli *c, const struct cli_args *args, bool first)
{
	struct sreport s = {.cli = c, .args = args, .top = TOP_DEFAULT};
	struct mu_err err = {0};

	if (prepare(&s, &err) || report_rows_load(c, s.from, s.to, s.price, s.prices, &s.rows, &err)) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	if (first)
		print_title(&s);
	if (first && !cli_args_has(args, OPT_report_noheader))
		cli_acct_heading(&s.format, &s.style, &s.out);
	print_lines(&s);
	fwrite(s.out.data ? (char *)s.out.data : "", 1, s.out.len, stdout);
	mu_buf_free(&s.out);
	return 0;
}

/* clusters=LIST and all_clusters say what --clusters says. */
static void take_clusters(struct cli *c, struct cli_args *args)
{
	for (size_t i = 2; i < args->word_count; i++) {
		const char *word = args->words[i], *equal = strchr(word, '=');
		size_t len = equal ? (size_t)(equal - word) : 0;
		const char *list = strcasecmp(word, "all_clusters") == 0				    ? "all"
				   : equal && len > 1 && strncasecmp(word, "clusters", len) == 0 ? equal + 1
												   : NULL;
		if (!list)
			continue;
		struct cli_given *more = mu_arena_alloc(&c->arena, (args->count + 1) * sizeof *more);
		if (args->count)
			memcpy(more, args->given, args->count * sizeof *more);
		more[args->count++] = (struct cli_given){&mu_options[OPT_clusters], list, CLI_LINE};
		args->given = more;
	}
}

int cli_sreport(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	int rc;

	if (cli_begin(c, argc, argv, false, &args, &rc))
		return rc;
	take_clusters(c, &args);
	return cli_each_cluster(c, &args, run);
}
