/* cli/sinfo.c: lists partitions and nodes. Nodes that do not differ in what is shown share a line. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <time.h>

#include "cli/column.h"
#include "cli/filter.h"
#include "cli/reservation.h"
#include "cli/model.h"
#include "cli/option.h"
#include "proto/base/map.h"
#include "proto/states.h"

#define FORMAT_SHORT "%#P %.5a %.10l %.6D %.6t %N"
#define FORMAT_LONG "%#P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"
#define FORMAT_SUMMARY "%#P %.5a %.10l %.16F %N"
#define FORMAT_REASONS "%20E %9u %19H %N"
#define FORMAT_REASONS_LONG "%20E %12U %19H %6t %N"
#define FORMAT_NODES "%#N %.6D %.#P %6t"
#define FORMAT_NODES_LONG "%#N %.6D %.#P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"

enum { WIDEN_LEAST = 9 };

struct sinfo {
	struct cli *cli;
	const struct cli_args *args;
	struct cli_format format;
	Mu__PartitionRow **partition;
	Mu__NodeRow **node;
	size_t partitions, nodes;
	struct cli_group *group;
	size_t groups, cap;
	bool by_node, reasons, exact, noheader;
	const char *sort;
};

/* ---- which nodes ---- */

static bool is_word(const char *word, const char *a, const char *b)
{
	return strcasecmp(word, a) == 0 || (b && strcasecmp(word, b) == 0);
}

static bool known_state(const char *w)
{
	static const char *const words[] = {"alloc",	     "allocated",    "all",
					    "cloud",	     "comp",	     "completing",
					    "down",	     "drain",	     "drained",
					    "draining",	     "drng",	     "error",
					    "fail",	     "failing",	     "future",
					    "futr",	     "idle",	     "inval",
					    "maint",	     "mix",	     "mixed",
					    "no_respond",    "npc",	     "perfctrs",
					    "planned",	     "plnd",	     "power_down",
					    "powering_down", "powered_down", "powering_up",
					    "power_up",	     "reboot",	     "reboot_requested",
					    "reboot_issued", "resv",	     "reserved",
					    "unk",	     "unknown",	     "blocked"};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		if (strcasecmp(words[i], w) == 0)
			return true;
	}
	return false;
}

static bool in_state(const Mu__NodeRow *n, const char *w)
{
	uint32_t base = cli_node_shown_base(n);
	bool drain = n->flags & NODE_FLAG_DRAIN, busy = n->alloc_cpus || (n->flags & NODE_FLAG_COMPLETING);

	if (is_word(w, "all", NULL))
		return true;
	if (is_word(w, "idle", NULL))
		return base == NODE_IDLE && !drain && !(n->flags & NODE_FLAG_COMPLETING);
	if (is_word(w, "alloc", "allocated"))
		return base == NODE_ALLOCATED && !drain;
	if (is_word(w, "mix", "mixed"))
		return base == NODE_MIXED && !drain;
	if (is_word(w, "down", NULL))
		return base == NODE_DOWN;
	if (is_word(w, "drain", NULL))
		return drain;
	if (is_word(w, "drained", NULL))
		return drain && !busy;
	if (is_word(w, "drng", "draining"))
		return drain && busy;
	if (is_word(w, "comp", "completing"))
		return n->flags & NODE_FLAG_COMPLETING;
	if (is_word(w, "fail", "failing"))
		return n->flags & NODE_FLAG_FAIL;
	if (is_word(w, "maint", NULL))
		return n->flags & NODE_FLAG_MAINT;
	if (is_word(w, "resv", "reserved"))
		return n->flags & NODE_FLAG_RES;
	if (is_word(w, "plnd", "planned"))
		return n->flags & NODE_FLAG_PLANNED;
	if (is_word(w, "no_respond", NULL))
		return n->flags & NODE_FLAG_NO_RESPOND;
	if (is_word(w, "unk", "unknown"))
		return base == NODE_UNKNOWN;
	if (is_word(w, "futr", "future"))
		return base == NODE_FUTURE;
	if (is_word(w, "error", NULL))
		return base == NODE_ERROR;
	if (is_word(w, "inval", NULL))
		return n->flags & NODE_FLAG_INVALID_REG;
	if (is_word(w, "reboot", "reboot_requested"))
		return n->flags & NODE_FLAG_REBOOT;
	return false;
}

/* "idle,mix" or "drain&idle". */
static bool state_wanted(const struct sinfo *s, const Mu__NodeRow *n)
{
	const char *states = cli_args_value(s->args, OPT_list_states);
	bool all = states && strchr(states, '&') != NULL;
	char word[32];

	if (!states)
		return true;
	for (const char *p = states; *p;) {
		size_t len = strcspn(p, ",&");

		snprintf(word, sizeof word, "%.*s", (int)len, p);
		if (len && in_state(n, word) != all)
			return !all;
		p += len + (p[len] != 0);
	}
	return all;
}

static int check_states(const char *states, struct mu_err *err)
{
	char word[32];

	for (const char *p = states; *p;) {
		size_t len = strcspn(p, ",&");

		snprintf(word, sizeof word, "%.*s", (int)len, p);
		if (len && !known_state(word))
			return mu_fail(err, MU_EINVAL,
				       "Bad state string: \"%.*s\"\nValid node states include: alloc, "
				       "completing, down, drain, drained, draining, fail, future, idle, "
				       "maint, mix, no_respond, planned, resv, unknown",
				       (int)len, p);
		p += len + (p[len] != 0);
	}
	return 0;
}

static bool node_wanted(const struct sinfo *s, const Mu__NodeRow *n, const struct mu_map *named)
{
	if (named && !mu_map_get_str(named, n->name))
		return false;
	if (cli_args_has(s->args, OPT_dead) && !(n->flags & NODE_FLAG_NO_RESPOND))
		return false;
	if (cli_args_has(s->args, OPT_responding) && (n->flags & NODE_FLAG_NO_RESPOND))
		return false;
	if (s->reasons && (!n->reason || !*n->reason ||
			   (n->base_state != NODE_DOWN && !(n->flags & (NODE_FLAG_DRAIN | NODE_FLAG_FAIL)))))
		return false;
	if (n->base_state == NODE_FUTURE && !cli_args_has(s->args, OPT_future) &&
	    !cli_args_has(s->args, OPT_list_states))
		return false;
	return state_wanted(s, n);
}

/* ---- grouping ---- */

static struct cli_group *new_group(struct sinfo *s, const Mu__PartitionRow *p)
{
	if (s->groups == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 64;
		struct cli_group *more = mu_arena_alloc(&s->cli->arena, cap * sizeof *more);

		if (s->groups)
			memcpy(more, s->group, s->groups * sizeof *more);
		s->group = more;
		s->cap = cap;
	}
	s->group[s->groups] = (struct cli_group){.partition = p};
	return &s->group[s->groups++];
}

static void add_node(struct sinfo *s, struct cli_group *g, const Mu__NodeRow *n)
{
	if ((g->count & (g->count - 1)) == 0) { /* full at each power of two */
		const Mu__NodeRow **more =
		    mu_arena_alloc(&s->cli->arena, (g->count ? 2 * g->count : 1) * sizeof *more);

		if (g->count)
			memcpy(more, g->node, g->count * sizeof *more);
		g->node = more;
	}
	g->node[g->count++] = n;
}

static bool is_partition_letter(char letter)
{
	return letter && strchr("PRalLBghIMprsS", letter) != NULL;
}

/* Does the format show something of the partition? Else a node in two of them counts once. */
static bool shows_partition(const struct sinfo *s)
{
	for (size_t i = 0; i < s->format.count; i++) {
		if (is_partition_letter(s->format.item[i].column->letter))
			return true;
	}
	return false;
}

static void group_key(const struct sinfo *s, const Mu__PartitionRow *p, const Mu__NodeRow *n,
		      bool of_partition, struct mu_buf *key)
{
	const Mu__NodeRow *one[] = {n};
	struct cli_group g = {.partition = p, .node = one, .count = 1};
	struct cli_cell cell = {.group = &g,
				.now_usec = s->cli->now_usec,
				.cluster = s->cli->conf.cluster,
				.arena = &s->cli->arena};

	mu_buf_reset(key);
	if (of_partition)
		mu_buf_printf(key, "%u%c", p ? p->order + 1 : 0, 0);
	if (s->by_node)
		mu_buf_printf(key, "%s%c", n->name, 0);
	for (size_t i = 0; i < s->format.count; i++) {
		const struct cli_column *col = s->format.item[i].column;

		if ((col->flags & COL_KEY) || ((col->flags & COL_EXACT) && s->exact)) {
			col->get(&cell, key);
			mu_buf_add(key, "", 1);
		}
	}
}

static void group_nodes(struct sinfo *s, const struct mu_map *named)
{
	bool of_partition = shows_partition(s);
	struct mu_map by_name = {0}, keys = {0}, seen = {0};
	struct mu_buf key MU_CLEANUP(mu_buf_free) = {0};

	for (size_t i = 0; i < s->nodes; i++)
		mu_map_put_str(&by_name, s->node[i]->name, s->node[i]);
	for (size_t i = 0; i < s->partitions; i++) {
		const Mu__PartitionRow *p = s->partition[i];
		size_t before = s->groups;

		for (size_t k = 0; p->conf && k < p->conf->n_node; k++) {
			const Mu__NodeRow *n = mu_map_get_str(&by_name, p->conf->node[k]);
			uintptr_t at;

			if (!n || !node_wanted(s, n, named))
				continue;
			if (!of_partition && mu_map_put_str(&seen, n->name, (void *)n))
				continue;
			group_key(s, p, n, of_partition, &key);
			at = (uintptr_t)mu_map_get(&keys, key.data, key.len);
			if (!at) {
				new_group(s, p);
				at = s->groups; /* index + 1: the array moves as it grows */
				mu_map_put(&keys, key.data, key.len, (void *)at);
			}
			add_node(s, &s->group[at - 1], n);
		}
		if (s->groups == before && of_partition && !s->by_node && !s->reasons)
			new_group(s, p);
	}
	mu_map_clear(&by_name);
	mu_map_clear(&keys);
	mu_map_clear(&seen);
}

/* ---- order ---- */

static const struct sinfo *sorting;

/* "n2" before "n10". */
static int natural(const char *a, const char *b)
{
	while (*a && *b) {
		if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
			char *x, *y;
			unsigned long long m = strtoull(a, &x, 10), n = strtoull(b, &y, 10);

			if (m != n)
				return m < n ? -1 : 1;
			a = x;
			b = y;
		} else if (*a != *b) {
			return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
		} else {
			a++;
			b++;
		}
	}
	return (*a != 0) - (*b != 0);
}

static const char *first_name(const struct cli_group *g)
{
	return g->count ? g->node[0]->name : "";
}

static int compare_by(char letter, bool by_order, const struct cli_group *a, const struct cli_group *b)
{
	struct mu_buf x MU_CLEANUP(mu_buf_free) = {0}, y MU_CLEANUP(mu_buf_free) = {0};
	int d = 0;

	if ((letter == 'P' || letter == 'R') && by_order)
		return (a->partition->order > b->partition->order) -
		       (a->partition->order < b->partition->order);
	if (letter == 't' || letter == 'T') {
		uint32_t m = a->count ? cli_node_state_rank(a->node[0]) : 0,
			 n = b->count ? cli_node_state_rank(b->node[0]) : 0;

		return (m > n) - (m < n);
	}
	if (letter == 'N' || letter == 'n')
		return natural(first_name(a), first_name(b));
	for (size_t i = 0; i < cli_node_columns.count; i++) {
		const struct cli_column *col = &cli_node_columns.column[i];

		if (col->letter != letter)
			continue;
		mu_buf_add(&x, "", 0);
		mu_buf_add(&y, "", 0);
		col->get(&(struct cli_cell){.group = a, .arena = &sorting->cli->arena}, &x);
		col->get(&(struct cli_cell){.group = b, .arena = &sorting->cli->arena}, &y);
		d = natural((char *)x.data, (char *)y.data);
		break;
	}
	return d;
}

static int compare_groups(const void *va, const void *vb)
{
	const struct cli_group *a = va, *b = vb;
	int sign = 1;
	bool by_order = false;

	for (const char *p = sorting->sort; *p; p++) {
		int d;

		if (*p == '-' || *p == '+' || *p == '#' || *p == ',') {
			sign = *p == '-' ? -1 : *p == '#' ? sign : 1;
			by_order = *p == '#' || (by_order && *p != ',');
			continue;
		}
		d = compare_by(*p, by_order, a, b);
		if (d)
			return sign * d;
		sign = 1;
		by_order = false;
	}
	if (natural(first_name(a), first_name(b)))
		return natural(first_name(a), first_name(b));
	return (a->partition->order > b->partition->order) - (a->partition->order < b->partition->order);
}

static int compare_partitions(const void *a, const void *b)
{
	const Mu__PartitionRow *x = *(Mu__PartitionRow *const *)a, *y = *(Mu__PartitionRow *const *)b;

	return x->order < y->order ? -1 : x->order > y->order;
}

/* ---- printing ---- */

static void widen(struct sinfo *s)
{
	for (size_t i = 0; i < s->format.count; i++) {
		struct cli_item *it = &s->format.item[i];

		if (!it->widen)
			continue;
		it->width = WIDEN_LEAST;
		for (size_t k = 0; k < s->groups; k++) {
			struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};
			size_t n;

			mu_buf_add(&text, "", 0);
			it->column->get(&(struct cli_cell){.group = &s->group[k], .arena = &s->cli->arena},
					&text);
			n = cli_chars((char *)text.data, text.len);
			it->width = (int)n > it->width ? (int)n : it->width;
		}
	}
}

static void print_table(struct sinfo *s)
{
	struct mu_buf out MU_CLEANUP(mu_buf_free) = {0};

	widen(s);
	if (!s->noheader)
		cli_table_heading(&s->format, &out);
	for (size_t i = 0; i < s->groups; i++) {
		struct cli_cell cell = {.group = &s->group[i],
					.now_usec = s->cli->now_usec,
					.cluster = s->cli->conf.cluster,
					.arena = &s->cli->arena};

		cli_table_row(&s->format, &cell, &out);
	}
	fwrite(out.data ? (char *)out.data : "", 1, out.len, stdout);
}

/* The names of the partitions that N is in. */
static size_t partitions_of(const struct sinfo *s, const Mu__NodeRow *n, const char **names, size_t most)
{
	size_t count = 0;

	for (size_t p = 0; p < s->partitions && count < most; p++) {
		const Mu__PartitionConf *conf = s->partition[p]->conf;

		for (size_t k = 0; conf && k < conf->n_node; k++) {
			if (strcmp(conf->node[k], n->name) == 0) {
				names[count++] = conf->name;
				break;
			}
		}
	}
	return count;
}

/* "sinfo" has the lines of the table; "nodes", which older versions had in its place, each node. */
static int print_json(struct sinfo *s, const struct mu_map *named)
{
	struct cli_model m = {0};

	cli_model_begin(s->cli, &m);
	json_array(&m.json, "sinfo");
	for (size_t i = 0; i < s->groups; i++)
		cli_model_group(&m.json, s->cli, &s->group[i]);
	json_array_end(&m.json);
	json_array(&m.json, "nodes");
	for (size_t i = 0; i < s->nodes; i++) {
		const char *names[256];
		size_t count;

		if (!node_wanted(s, s->node[i], named))
			continue;
		count = partitions_of(s, s->node[i], names, 256);
		if (count || !cli_args_has(s->args, OPT_list_partition))
			cli_model_node(&m.json, s->cli, s->node[i], names, count);
	}
	json_array_end(&m.json);
	return cli_model_end(&m);
}

static int load_error(const struct cli *c, const struct mu_err *err)
{
	char text[MU_ERR_TEXT], *rest = text, *line;

	if (err->code == MU_ECONNECT || err->code == MU_ETIMEOUT)
		fprintf(stderr, "slurm_load_partitions: %s\n", mu_strerror(err->code));
	snprintf(text, sizeof text, "%s", err->text);
	while (strcmp(err->text, mu_strerror(err->code)) != 0 && (line = strsep(&rest, "\n")))
		cli_error(c, "%s", line);
	return 1;
}

static int list_once(struct sinfo *s)
{
	Mu__Query parts = MU__QUERY__INIT, nodes = MU__QUERY__INIT, named_query = MU__QUERY__INIT;
	struct mu_err err = {0};
	struct mu_map named = {0};
	const char *names = cli_args_value(s->args, OPT_list_nodes);
	void **rows;
	size_t count;
	int rc = 0;

	if (cli_filter_query(s->cli, s->args, &parts, &err))
		return load_error(s->cli, &err);
	if (names && cli_filter_nodes(s->cli, names, false, &named_query, &err))
		return load_error(s->cli, &err);
	for (size_t i = 0; i < named_query.n_node; i++)
		mu_map_put_str(&named, named_query.node[i], named_query.node[i]);
	parts.has_what = nodes.has_what = 1;
	parts.what = MU__WHAT__WHAT_PARTITIONS;
	nodes.what = MU__WHAT__WHAT_NODES;
	if (cli_query_all(s->cli, &parts, &mu__partition_row__descriptor, &rows, &count, &err))
		return load_error(s->cli, &err);
	s->partition = (Mu__PartitionRow **)rows;
	s->partitions = 0;
	for (size_t i = 0; i < count; i++) { /* also where the view did not filter */
		const char *name =
		    ((Mu__PartitionRow *)rows[i])->conf ? ((Mu__PartitionRow *)rows[i])->conf->name : NULL;
		bool hidden = name && ((Mu__PartitionRow *)rows[i])->conf->hidden && getuid() != 0 &&
			      !cli_args_has(s->args, OPT_all);
		bool keep = parts.n_partition == 0 && !hidden;

		for (size_t k = 0; k < parts.n_partition && !keep; k++)
			keep = name && strcmp(name, parts.partition[k]) == 0;
		if (keep && name)
			s->partition[s->partitions++] = rows[i];
	}
	if (s->partitions)
		qsort(s->partition, s->partitions, sizeof *s->partition, compare_partitions);
	if (cli_query_all(s->cli, &nodes, &mu__node_row__descriptor, &rows, &count, &err))
		return load_error(s->cli, &err);
	s->node = (Mu__NodeRow **)rows;
	s->nodes = count;
	s->groups = s->cap = 0;
	group_nodes(s, names ? &named : NULL);
	sorting = s;
	if (s->groups)
		qsort(s->group, s->groups, sizeof *s->group, compare_groups);
	if (cli_model_wanted(s->args))
		rc = print_json(s, names ? &named : NULL);
	else
		print_table(s);
	mu_map_clear(&named);
	return rc;
}

/* ---- options ---- */

static int read_format(struct sinfo *s, struct mu_err *err)
{
	const struct cli_given *letters = cli_args_last(s->args, OPT_format_letters),
			       *names = cli_args_last(s->args, OPT_format_names);
	bool is_long = cli_args_has(s->args, OPT_long);
	const char *text = FORMAT_SHORT;

	if (letters && names && letters->level == names->level)
		return mu_fail(err, MU_EINVAL,
			       "-o/--format and -O/--Format are incompatible: give one of them");
	if (names && (!letters || names->level > letters->level))
		return cli_format_names(&cli_node_columns, names->value, &s->cli->arena, &s->format, err);
	if (letters)
		text = letters->value;
	else if (s->reasons)
		text = is_long ? FORMAT_REASONS_LONG : FORMAT_REASONS;
	else if (s->by_node)
		text = is_long ? FORMAT_NODES_LONG : FORMAT_NODES;
	else if (cli_args_has(s->args, OPT_summarize))
		text = FORMAT_SUMMARY;
	else if (is_long)
		text = FORMAT_LONG;
	return cli_format_letters(&cli_node_columns, text, &s->cli->arena, &s->format, err);
}

static int prepare(struct sinfo *s, struct mu_err *err)
{
	const struct cli_args *args = s->args;
	const char *states = cli_args_value(args, OPT_list_states);
	int rc;

	s->by_node = cli_args_has(args, OPT_node_oriented);
	s->reasons = cli_args_has(args, OPT_list_reasons);
	s->exact = cli_args_has(args, OPT_exact_list);
	s->noheader = cli_args_has(args, OPT_noheader);
	s->sort = cli_args_value(args, OPT_sort);
	if (args->word_count)
		return mu_fail(err, MU_EINVAL, "Unrecognized option: %s", args->words[0]);
	if (!s->sort)
		s->sort = s->by_node ? "N" : s->reasons ? "E,H,N" : "#P,-t";
	for (const char *p = s->sort; *p; p++) {
		bool known = strchr("-+,#", *p) != NULL;

		for (size_t i = 0; i < cli_node_columns.count && !known; i++)
			known = cli_node_columns.column[i].letter == *p;
		if (!known)
			return mu_fail(err, MU_EINVAL,
				       "Invalid sort specification: \"%c\" is no column's letter", *p);
	}
	if (states && (rc = check_states(states, err)))
		return rc;
	rc = read_format(s, err);
	return rc ? rc : cli_check_clusters(s->cli, args, err);
}

static int run(struct cli *c, const struct cli_args *args, bool first)
{
	struct sinfo s = {.cli = c, .args = args};
	struct mu_err err = {0};
	const char *iterate;
	int64_t seconds = 0;
	bool dated;
	int rc;

	(void)first;
	if (c->many)
		printf("CLUSTER: %s\n", c->conf.cluster);
	if (prepare(&s, &err))
		return load_error(c, &err);
	if (cli_args_has(args, OPT_list_reservations))
		return cli_list_reservations(c, !s.noheader);
	iterate = cli_args_value(args, OPT_iterate);
	if (iterate && mu_number_parse("--iterate", iterate, 1, 86400 * 365, &seconds, &err)) {
		cli_error(c, "Invalid --iterate specification: \"%s\" (seconds, 1 and up)", iterate);
		return 1;
	}
	dated = (iterate || (cli_args_has(args, OPT_long) && !s.noheader)) && !cli_model_wanted(args);
	for (;;) {
		char date[64];

		cli_date_line(date, sizeof date);
		if (dated)
			printf("%s\n", date);
		rc = list_once(&s);
		if (!iterate)
			return rc;
		cli_as_of(c);
		printf("\n");
		fflush(stdout);
		nanosleep(&(struct timespec){.tv_sec = seconds}, NULL);
	}
}

int cli_sinfo(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	int rc;

	if (cli_begin(c, argc, argv, false, &args, &rc))
		return rc;
	if (cli_args_has(&args, OPT_list_helpformat) || cli_args_has(&args, OPT_list_helpFormat)) {
		cli_table_names(&cli_node_columns, stdout);
		return 0;
	}
	return cli_each_cluster(c, &args, run);
}
