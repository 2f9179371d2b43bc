/* cli/sshare.c: shares and usage of accounts and users, as the controllers compute them from State. */
#include <string.h>
#include <unistd.h>

#include "cli/column.h"
#include "cli/filter.h"
#include "cli/model.h"
#include "cli/option.h"

#define GET(name) static void get_##name(const struct cli_cell *c, struct mu_buf *out)

static bool is_user(const Mu__ShareRow *s)
{
	return s->user && *s->user;
}

GET(account)
{
	mu_buf_printf(out, "%*s%s", (int)c->share->depth, "", c->share->account);
}
GET(user)
{
	mu_buf_str(out, c->share->user ? c->share->user : "");
}
GET(partition)
{
	mu_buf_str(out, c->share->partition ? c->share->partition : "");
}
GET(raw_shares)
{
	if (c->share->depth == 0)
		mu_buf_str(out, "");
	else if (c->share->shares == 2147483647u)
		mu_buf_str(out, "parent");
	else
		mu_buf_printf(out, "%u", c->share->shares);
}
static void fraction(struct mu_buf *out, uint64_t q32)
{
	mu_buf_printf(out, "%.6f", (double)q32 / 4294967296.0);
}
GET(norm_shares)
{
	if (c->share->depth)
		fraction(out, c->share->norm_shares);
}
GET(raw_usage)
{
	mu_buf_printf(out, "%llu", (unsigned long long)c->share->raw_usage_sec);
}
GET(norm_usage)
{
	if (c->share->depth)
		fraction(out, c->share->norm_usage);
}
GET(effective)
{
	fraction(out, c->share->effective_usage);
}
GET(fair)
{
	if (is_user(c->share))
		fraction(out, c->share->fair);
}
GET(level)
{
	if (c->share->depth == 0)
		return;
	if (c->share->level_fs == UINT64_MAX)
		mu_buf_str(out, "inf");
	else
		mu_buf_printf(out, "%.6f", (double)c->share->level_fs / 65536.0);
}
static void counts(Mu__TresCount *const *v, size_t n, struct mu_buf *out)
{
	for (size_t i = 0; i < n; i++)
		mu_buf_printf(out, "%s%s=%lld", i ? "," : "", v[i]->name, (long long)v[i]->count);
}
GET(grp_mins)
{
	if (c->share->limits)
		counts(c->share->limits->grp_tres_mins, c->share->limits->n_grp_tres_mins, out);
}
GET(run_mins)
{
	counts(c->share->run_mins, c->share->n_run_mins, out);
}
GET(used_mins)
{
	counts(c->share->used_mins, c->share->n_used_mins, out);
}
GET(cluster)
{
	mu_buf_str(out, c->cluster ? c->cluster : "");
}
GET(id)
{
	mu_buf_printf(out, "%u", c->share->id);
}

static const struct cli_column columns[] = {
#define MU_COLUMN_SHARE(name, width, left, getter) {0, name, name, width, left ? COL_LEFT : 0, get_##getter},
#include "proto/columns.def"
};
static const struct cli_columns set = {columns, sizeof columns / sizeof *columns};

/* Accounts show always unless users alone are asked for; users: oneself, those named, or all. */
static bool wanted(const struct cli *c, const struct cli_args *args, const Mu__ShareRow *s)
{
	const char *accounts = cli_args_value(args, OPT_share_accounts),
		   *users = cli_args_value(args, OPT_share_users);

	(void)c;
	if (accounts && !cli_in_list(accounts, s->account))
		return false;
	if (!is_user(s))
		return !cli_args_has(args, OPT_share_Users);
	if (users)
		return cli_in_list(users, s->user);
	if (cli_args_has(args, OPT_share_all))
		return true;
	struct mu_arena arena = {0};
	bool self = strcmp(cli_user_name(&arena, getuid()), s->user) == 0;
	mu_arena_free(&arena);
	return self;
}

static void say_asked(const struct cli_args *args)
{
	const char *accounts = cli_args_value(args, OPT_share_accounts),
		   *users = cli_args_value(args, OPT_share_users);

	printf("Users requested:\n\t: %s\n", users				 ? users
					     : cli_args_has(args, OPT_share_all) ? "all"
										 : "self");
	printf("Accounts requested:\n\t: %s\n", accounts ? accounts : "all");
}

static void put_counts(struct cli_json *j, const char *name, Mu__TresCount *const *v, size_t n)
{
	json_array(j, name);
	for (size_t i = 0; i < n; i++) {
		json_object(j, NULL);
		json_text(j, "name", v[i]->name);
		json_triple(j, "value", true, false, v[i]->count);
		json_object_end(j);
	}
	json_array_end(j);
}

static double part(uint64_t q32)
{
	return (double)q32 / 4294967296.0;
}

static void put_share(struct cli_json *j, const struct cli *c, const Mu__ShareRow *s, const char *parent)
{
	const Mu__Limits *l = s->limits;

	json_object(j, NULL);
	json_number(j, "id", s->id);
	json_text(j, "cluster", c->conf.cluster);
	json_text(j, "name", is_user(s) ? s->user : s->account);
	json_text(j, "parent", parent);
	json_text(j, "partition", s->partition);
	json_triple_real(j, "shares_normalized", s->depth != 0, false, part(s->norm_shares));
	json_triple(j, "shares", s->depth != 0, s->shares == 2147483647u, s->shares);
	json_object(j, "tres");
	put_counts(j, "run_seconds", s->run_mins, s->n_run_mins);
	put_counts(j, "group_minutes", l ? l->grp_tres_mins : NULL, l ? l->n_grp_tres_mins : 0);
	put_counts(j, "usage", s->used_mins, s->n_used_mins);
	json_object_end(j);
	json_triple_real(j, "effective_usage", true, false, part(s->effective_usage));
	json_triple_real(j, "usage_normalized", s->depth != 0, false, part(s->norm_usage));
	json_number(j, "usage", (int64_t)s->raw_usage_sec);
	json_object(j, "fairshare");
	json_triple_real(j, "factor", is_user(s), false, part(s->fair));
	json_triple_real(j, "level", s->depth != 0, s->level_fs == UINT64_MAX,
			 s->level_fs == UINT64_MAX ? 0 : (double)s->level_fs / 65536.0);
	json_object_end(j);
	json_array(j, "type");
	json_text(j, NULL, is_user(s) ? "USER" : "ASSOCIATION");
	json_array_end(j);
	json_object_end(j);
}

/* Of a row, the account above: rows come with parents before their children. */
static const char *parent_of(void *const *rows, size_t at)
{
	const Mu__ShareRow *s = rows[at];

	if (is_user(s))
		return s->account;
	for (size_t i = at; i-- > 0;) {
		const Mu__ShareRow *up = rows[i];

		if (!is_user(up) && up->depth < s->depth)
			return up->account;
	}
	return "";
}

static int print_json(struct cli *c, const struct cli_args *args, void *const *rows, size_t n)
{
	struct cli_model m = {0};
	int64_t total = 0;

	cli_model_begin(c, &m);
	json_object(&m.json, "shares");
	json_array(&m.json, "shares");
	for (size_t i = 0; i < n; i++) {
		const Mu__ShareRow *s = rows[i];

		total += s->depth && s->shares != 2147483647u ? s->shares : 0;
		if (wanted(c, args, s))
			put_share(&m.json, c, s, parent_of(rows, i));
	}
	json_array_end(&m.json);
	json_number(&m.json, "total_shares", total);
	json_object_end(&m.json);
	return cli_model_end(&m);
}

int cli_sshare(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	struct cli_acct_style style = {0};
	struct cli_format format;
	struct mu_buf out MU_CLEANUP(mu_buf_free) = {0};
	struct mu_err err = {0};
	Mu__Query ask = MU__QUERY__INIT;
	void **rows;
	size_t n;
	int rc;

	if (cli_begin(c, argc, argv, false, &args, &rc))
		return rc;
	if (args.word_count) {
		cli_error(c, "Unrecognized option: %s", args.words[0]);
		return 1;
	}
	if (cli_args_has(&args, OPT_share_help_format)) {
		for (size_t i = 0; i < set.count; i++)
			printf("%s%s", columns[i].name, i % 4 == 3 || i + 1 == set.count ? "\n" : " ");
		return 0;
	}
	const char *text = cli_args_value(&args, OPT_share_format);
	if (!text)
		text = cli_args_has(&args, OPT_share_long)
			   ? "Account,User,RawShares,NormShares,RawUsage,NormUsage,EffectvUsage,FairShare,"
			     "LevelFS,GrpTRESMins,"
			     "TRESRunMins"
		       : cli_args_has(&args, OPT_share_partition)
			   ? "Account,User,Partition,RawShares,NormShares,RawUsage,EffectvUsage,FairShare"
			   : "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare";
	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_SHARES;
	rc = cli_format_acct(&set, text, &c->arena, &format, &err);
	if (!rc)
		rc = cli_check_clusters(c, &args, &err);
	if (!rc)
		rc = cli_take_at(c, &args, &err);
	if (!rc)
		rc = cli_query_all(c, &ask, &mu__share_row__descriptor, &rows, &n, &err);
	if (rc) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	if (cli_args_has(&args, OPT_mgr_parsable) || cli_args_has(&args, OPT_mgr_parsable2))
		style =
		    (struct cli_acct_style){.delimiter = "|", .trail = cli_args_has(&args, OPT_mgr_parsable)};
	if (cli_model_wanted(&args))
		return print_json(c, &args, rows, n);
	if (c->verbose)
		say_asked(&args);
	if (!cli_args_has(&args, OPT_mgr_noheader))
		cli_acct_heading(&format, &style, &out);
	for (size_t i = 0; i < n; i++) {
		struct cli_cell cell = {.share = rows[i], .cluster = c->conf.cluster, .arena = &c->arena};
		if (wanted(c, &args, rows[i]))
			cli_acct_row(&format, &style, &cell, &out);
	}
	fwrite(out.data ? (char *)out.data : "", 1, out.len, stdout);
	return 0;
}
