/* cli/sprio.c: what the priorities of waiting jobs are made of, as of now. */
#include <stdlib.h>
#include <string.h>

#include "cli/column.h"
#include "cli/filter.h"
#include "cli/option.h"
#include "proto/conf.h"

#define FORMAT "%.15i %9r %.10Y %.10S %.10A %.10F %.10J %.10P %.10Q %20T"
#define FORMAT_LONG "%.15i %9r %8u %.10Y %.10S %.10A %.10B %.10F %.10J %.10P %.10Q %.11N %20T"
#define FORMAT_NORM "%.15i %9r %.10y %10S %10a %10f %10j %10p %10q %20t"

#define GET(name) static void get_##name(const struct cli_cell *c, struct mu_buf *out)
#define NUMBER(name, field)                                                     \
	GET(name)                                                               \
	{                                                                       \
		mu_buf_printf(out, "%llu", (unsigned long long)c->prio->field); \
	}
#define FACTOR(name, field)                                                        \
	GET(name)                                                                  \
	{                                                                          \
		mu_buf_printf(out, "%.7f", (double)c->prio->field / 4294967296.0); \
	}
#define TEXT(name, field)                                              \
	GET(name)                                                      \
	{                                                              \
		mu_buf_str(out, c->prio->field ? c->prio->field : ""); \
	}
TEXT(partition, partition)
TEXT(user, user)
TEXT(account, account)
TEXT(qos_name, qos)
GET(job)
{
	if (c->prio->job)
		mu_buf_printf(out, "%u", c->prio->job);
	else
		mu_buf_str(out, "Weights");
}
GET(priority)
{
	if (c->prio->job)
		mu_buf_printf(out, "%u", c->prio->priority);
}
GET(priority_norm)
{
	if (c->prio->job)
		mu_buf_printf(out, "%.14f", (double)c->prio->priority / 4294967295.0);
}
GET(site)
{
	mu_buf_printf(out, "%lld", (long long)c->prio->site);
}
NUMBER(age, age)
NUMBER(assoc, assoc)
NUMBER(fair, fair)
NUMBER(size, size)
NUMBER(part, part)
NUMBER(qos, qos_part)
FACTOR(age_norm, age_factor)
FACTOR(assoc_norm, assoc_factor)
FACTOR(fair_norm, fair_factor)
FACTOR(size_norm, size_factor)
FACTOR(part_norm, part_factor)
FACTOR(qos_norm, qos_factor)
GET(nice)
{
	if (c->prio->job)
		mu_buf_printf(out, "%lld", (long long)c->prio->nice);
}
GET(tres)
{
	for (size_t i = 0; i < c->prio->n_tres_part; i++)
		mu_buf_printf(out, "%s%s=%lld", i ? "," : "", c->prio->tres_part[i]->name,
			      (long long)c->prio->tres_part[i]->count);
}

static const struct cli_column columns[] = {
#define MU_COLUMN_PRIO(letter, name, heading, getter) {letter, name, heading, 20, 0, get_##getter},
#include "proto/columns.def"
};
static const struct cli_columns set = {columns, sizeof columns / sizeof *columns};

static uint64_t weight(const Mu__Config *c, const char *key)
{
	return strtoull(mu_conf_get(c, key, "0"), NULL, 10);
}

static int load_config(struct cli *c, const Mu__Config **ret, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	void **rows;
	size_t n;

	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_CONFIG;
	int rc = cli_query_all(c, &ask, &mu__config_row__descriptor, &rows, &n, err);
	if (!rc && !n)
		rc = mu_fail(err, MU_ENOTREADY, "The cluster has no configuration yet");
	if (!rc)
		*ret = ((Mu__ConfigRow *)rows[0])->config;
	return rc;
}

static void weights_row(struct cli *c, const Mu__Config *conf, Mu__PriorityRow *row)
{
	size_t n;
	const char *tres = mu_conf_get(conf, "PriorityWeightTRES", "");
	char **words = cli_split(&c->arena, tres, &n);

	mu__priority_row__init(row);
	row->site = 1;
	row->age = weight(conf, "PriorityWeightAge");
	row->assoc = weight(conf, "PriorityWeightAssoc");
	row->fair = weight(conf, "PriorityWeightFairshare");
	row->size = weight(conf, "PriorityWeightJobSize");
	row->part = weight(conf, "PriorityWeightPartition");
	row->qos_part = weight(conf, "PriorityWeightQOS");
	row->tres_part = mu_arena_alloc(&c->arena, (n + 1) * sizeof *row->tres_part);
	for (size_t i = 0; i < n; i++) {
		Mu__TresCount *t = mu_arena_alloc(&c->arena, sizeof *t);
		char *at = strchr(words[i], '=');
		mu__tres_count__init(t);
		t->count = at ? strtoll(at + 1, NULL, 10) : 0;
		if (at)
			*at = 0;
		t->name = words[i];
		row->tres_part[row->n_tres_part++] = t;
	}
}

static int read_query(struct cli *c, const struct cli_args *args, Mu__Query *ask, struct mu_err *err)
{
	const char *parts = cli_args_value(args, OPT_prio_partition),
		   *users = cli_args_value(args, OPT_prio_users);
	size_t n;

	for (size_t i = 0; i < args->count; i++) {
		if (args->given[i].option->id != OPT_prio_jobs || !args->given[i].value)
			continue;
		char **ids = cli_split(&c->arena, args->given[i].value, &n);
		for (size_t k = 0; k < n; k++) {
			struct cli_job_id id;
			if (cli_job_id_parse(&c->arena, ids[k], &id, err))
				return MU_EINVAL;
			cli_filter_id(c, ask, &id);
		}
	}
	if (parts)
		ask->partition = cli_split(&c->arena, parts, &ask->n_partition);
	if (users) {
		char **names = cli_split(&c->arena, users, &n);
		ask->uid = mu_arena_alloc(&c->arena, (n + 1) * sizeof *ask->uid);
		for (size_t i = 0; i < n; i++) {
			if (cli_user_id(names[i], &ask->uid[ask->n_uid++], NULL))
				return mu_fail(err, MU_EUSER, "Invalid user id: %s", names[i]);
		}
	}
	ask->has_what = 1;
	ask->what = MU__WHAT__WHAT_PRIORITY;
	return 0;
}

int cli_sprio(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	struct cli_format format;
	struct mu_buf out MU_CLEANUP(mu_buf_free) = {0};
	struct mu_err err = {0};
	Mu__Query ask = MU__QUERY__INIT;
	const Mu__Config *conf = NULL;
	void **rows = NULL;
	size_t n = 0;
	int rc;

	if (cli_begin(c, argc, argv, false, &args, &rc))
		return rc;
	const char *text = cli_args_value(&args, OPT_prio_format);
	if (!text)
		text = cli_args_has(&args, OPT_prio_norm)    ? FORMAT_NORM
		       : cli_args_has(&args, OPT_share_long) ? FORMAT_LONG
							     : FORMAT;
	rc = cli_format_letters(&set, text, &c->arena, &format, &err);
	if (!rc)
		rc = cli_check_clusters(c, &args, &err);
	if (!rc)
		rc = cli_take_at(c, &args, &err);
	if (!rc)
		rc = read_query(c, &args, &ask, &err);
	if (!rc)
		rc = load_config(c, &conf, &err);
	if (!rc && strcmp(mu_conf_get(conf, "PriorityType", "priority/basic"), "priority/multifactor") != 0) {
		printf("You are not running a supported priority plugin\n(%s).\nOnly 'priority/multifactor' "
		       "is supported.\n",
		       mu_conf_get(conf, "PriorityType", "priority/basic"));
		return 1;
	}
	if (!rc && !cli_args_has(&args, OPT_prio_weights))
		rc = cli_query_all(c, &ask, &mu__priority_row__descriptor, &rows, &n, &err);
	if (rc) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	if (!cli_args_has(&args, OPT_noheader))
		cli_table_heading(&format, &out);
	if (cli_args_has(&args, OPT_prio_weights)) {
		Mu__PriorityRow row;
		weights_row(c, conf, &row);
		cli_table_row(&format, &(struct cli_cell){.prio = &row, .arena = &c->arena}, &out);
	}
	for (size_t i = 0; i < n; i++)
		cli_table_row(&format, &(struct cli_cell){.prio = rows[i], .arena = &c->arena}, &out);
	if (!n && (ask.n_job || ask.n_uid) && !cli_args_has(&args, OPT_prio_weights)) {
		printf("Unable to find jobs matching user/id(s) specified\n");
		return 0;
	}
	fwrite(out.data ? (char *)out.data : "", 1, out.len, stdout);
	return 0;
}
