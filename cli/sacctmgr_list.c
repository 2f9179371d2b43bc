/* cli/sacctmgr_list.c: sacctmgr show: columns from the registries, one set for each kind of row. */
#include <stdlib.h>
#include <string.h>

#include "cli/column.h"
#include "cli/model.h"
#include "cli/sacctmgr.h"
#include "proto/base/map.h"
#include "proto/event.pb-c.h"
#include "proto/pb.h"
#include "proto/states.h"
#include "proto/why.pb-c.h"

struct cli_mgr_cell {
	const struct mgr *m;
	const Mu__AccountRow *account;
	const Mu__UserRow *user;
	const Mu__AssocRow *assoc;
	const Mu__QosRow *qos;
	const Mu__Limits *limits;
	uint32_t depth, lft, rgt;
	bool tree;
	const char *word[6];
};

#define GET(name) static void get_##name(const struct cli_cell *c, struct mu_buf *out)

static void text(struct mu_buf *out, const char *value)
{
	mu_buf_str(out, value ? value : "");
}

GET(empty)
{
	mu_buf_str(out, "");
}
GET(account)
{
	const struct cli_mgr_cell *m = c->mgr;
	if (m->assoc && m->tree)
		mu_buf_printf(out, "%*s", (int)m->depth, "");
	text(out, m->assoc ? m->assoc->account : m->account ? m->account->name : "");
}
GET(description)
{
	const struct cli_mgr_cell *m = c->mgr;
	text(out, m->qos ? m->qos->description : m->account ? m->account->description : "");
}
GET(organization)
{
	text(out, c->mgr->account ? c->mgr->account->organization : "");
}
GET(coordinators)
{
	if (c->mgr->account)
		mgr_join(c->mgr->account->coordinator, c->mgr->account->n_coordinator, out);
}
GET(coordinates)
{
	const struct mgr *m = c->mgr->m;
	bool any = false;
	for (size_t i = 0; i < m->accounts && c->mgr->user; i++)
		for (size_t k = 0; k < m->account[i]->n_coordinator; k++)
			if (strcmp(m->account[i]->coordinator[k], c->mgr->user->name) == 0) {
				mu_buf_printf(out, "%s%s", any ? "," : "", m->account[i]->name);
				any = true;
			}
}
GET(user)
{
	text(out, c->mgr->assoc ? c->mgr->assoc->user : c->mgr->user ? c->mgr->user->name : "");
}
GET(default_account)
{
	text(out, c->mgr->user ? c->mgr->user->default_account : "");
}
GET(admin)
{
	static const char *const levels[] = {"None", "Operator", "Administrator"};
	if (c->mgr->user)
		mu_buf_str(out, levels[c->mgr->user->admin < 3 ? c->mgr->user->admin : 0]);
}
GET(cluster)
{
	text(out, c->cluster);
}
GET(partition)
{
	text(out, c->mgr->assoc ? c->mgr->assoc->partition : "");
}
GET(share)
{
	const Mu__AssocRow *a = c->mgr->assoc;
	if (a && a->has_shares && a->shares == 2147483647u)
		mu_buf_str(out, "parent");
	else if (a)
		mu_buf_printf(out, "%u", a->has_shares ? a->shares : 1);
}
GET(priority)
{
	if (c->mgr->qos)
		mu_buf_printf(out, "%u", c->mgr->qos->priority);
	else if (c->mgr->assoc && c->mgr->assoc->priority)
		mu_buf_printf(out, "%u", c->mgr->assoc->priority);
}
GET(qos)
{
	const Mu__AssocRow *a = mgr_qos_holder(c->mgr->m, c->mgr->assoc);
	if (a)
		mgr_join(a->qos, a->n_qos, out);
}
GET(default_qos)
{
	text(out, c->mgr->assoc ? c->mgr->assoc->default_qos : "");
}
GET(id)
{
	if (c->mgr->assoc || c->mgr->qos)
		mu_buf_printf(out, "%u", c->mgr->assoc ? c->mgr->assoc->id : c->mgr->qos->id);
}
GET(lft)
{
	mu_buf_printf(out, "%u", c->mgr->lft);
}
GET(rgt)
{
	mu_buf_printf(out, "%u", c->mgr->rgt);
}
static const Mu__AssocRow *above(const struct cli_cell *c)
{
	const Mu__AssocRow *a = c->mgr->assoc;
	if (!a || (a->user && *a->user) || strcmp(a->account, "root") == 0)
		return NULL;
	return mgr_assoc(c->mgr->m, a->parent ? a->parent : "root", NULL, NULL);
}
GET(parent)
{
	const Mu__AssocRow *a = above(c);
	text(out, a ? a->account : "");
}
GET(parent_id)
{
	const Mu__AssocRow *a = above(c);
	if (a)
		mu_buf_printf(out, "%u", a->id);
}
GET(comment)
{
	text(out, c->mgr->assoc ? c->mgr->assoc->comment : "");
}
GET(qos_name)
{
	text(out, c->mgr->qos->name);
}
static void span(struct mu_buf *out, int64_t sec)
{
	char buf[32];
	mu_span_print(sec, 0, buf);
	mu_buf_str(out, buf);
}
GET(grace)
{
	span(out, c->mgr->qos->grace_sec);
}
GET(preempt)
{
	mgr_join(c->mgr->qos->preempt, c->mgr->qos->n_preempt, out);
}
GET(exempt)
{
	if (c->mgr->qos->has_exempt_sec)
		span(out, c->mgr->qos->exempt_sec);
}
GET(preempt_mode)
{
	text(out, c->mgr->qos->preempt_mode ? c->mgr->qos->preempt_mode : "cluster");
}
GET(flags)
{
	mgr_join(c->mgr->qos->flag, c->mgr->qos->n_flag, out);
}
static void thousandths(struct mu_buf *out, uint32_t v)
{
	mu_buf_printf(out, "%u.%03u000", v / 1000, v % 1000);
}
GET(usage_threshold)
{
	if (c->mgr->qos->usage_threshold_milli)
		thousandths(out, c->mgr->qos->usage_threshold_milli);
}
GET(usage_factor)
{
	thousandths(out, c->mgr->qos->has_usage_factor_milli ? c->mgr->qos->usage_factor_milli : 1000);
}
GET(limit_factor)
{
	if (c->mgr->qos->limit_factor_milli)
		thousandths(out, c->mgr->qos->limit_factor_milli);
}
GET(control_host)
{
	const struct cli_conf *f = &c->mgr->m->cli->conf;
	text(out,
	     f->controllers ? f->controller[0].addr ? f->controller[0].addr : f->controller[0].name : "");
}
GET(control_port)
{
	const struct cli_conf *f = &c->mgr->m->cli->conf;
	mu_buf_printf(out, "%u", f->controllers ? f->controller[0].port : 0);
}
GET(rpc)
{
	mu_buf_str(out, "10496"); /* The protocol number of the version that -V names. */
}
#define WORD(n)                             \
	GET(word##n)                        \
	{                                   \
		text(out, c->mgr->word[n]); \
	}
WORD(0)
WORD(1)
WORD(2)
WORD(3)
WORD(4)
WORD(5)

/* ---- limits ---- */

enum limit_row {
#define MU_LIMIT_PLAIN(id, ...) ROW_##id,
#define MU_LIMIT_TRES(id, ...) ROW_##id,
#include "proto/limits.def"
};
#define MU_LIMIT_PLAIN(id, ...)                                \
	GET(limit_##id)                                        \
	{                                                      \
		mgr_limit_text(c->mgr->limits, ROW_##id, out); \
	}
#define MU_LIMIT_TRES(id, ...) MU_LIMIT_PLAIN(id)
#include "proto/limits.def"

/* One resource of a limit, under its old name. */
static void one(const struct mu_buf *unused, Mu__TresCount *const *v, size_t n, const char *name,
		struct mu_buf *out)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(v[i]->name, name) == 0)
			mu_buf_printf(out, "%lld", (long long)v[i]->count);
}
#define OLD(getter, field, tres)                                                                \
	GET(getter)                                                                             \
	{                                                                                       \
		if (c->mgr->limits)                                                             \
			one(NULL, c->mgr->limits->field, c->mgr->limits->n_##field, tres, out); \
	}
OLD(old_grp_cpu, grp_tres, "cpu")
OLD(old_grp_mem, grp_tres, "mem")
OLD(old_grp_node, grp_tres, "node")
OLD(old_max_cpu, max_tres_job, "cpu")
OLD(old_max_node, max_tres_job, "node")
OLD(old_grp_cpu_mins, grp_tres_mins, "cpu")
OLD(old_max_cpu_mins, max_tres_mins_job, "cpu")

/* ---- sets ---- */

#define ROW(name, heading, width, getter) {0, name, heading, width, 0, get_##getter},
#define OLD_ROWS                                              \
	ROW("GrpCPUs", "GrpCPUs", 8, old_grp_cpu)             \
	ROW("GrpMem", "GrpMem", 7, old_grp_mem)               \
	ROW("GrpNodes", "GrpNodes", 8, old_grp_node)          \
	ROW("MaxCPUs", "MaxCPUs", 8, old_max_cpu)             \
	ROW("MaxNodes", "MaxNodes", 8, old_max_node)          \
	ROW("GrpCPUMins", "GrpCPUMins", 11, old_grp_cpu_mins) \
	ROW("MaxCPUMins", "MaxCPUMins", 11, old_max_cpu_mins)
#define ACCOUNT_account(...)
static const struct cli_column account_columns[] = {
#define MU_COLUMN_MGR(set, name, heading, width, getter) MU_IF_ACCOUNT_##set(name, heading, width, getter)
#define MU_IF_ACCOUNT_ACCOUNT(...) ROW(__VA_ARGS__)
#define MU_IF_ACCOUNT_USER(...)
#define MU_IF_ACCOUNT_ASSOC(...)
#define MU_IF_ACCOUNT_QOS(...)
#define MU_IF_ACCOUNT_CLUSTER(...)
#define MU_IF_ACCOUNT_TRES(...)
#define MU_IF_ACCOUNT_TRANS(...)
#define MU_IF_ACCOUNT_EVENT(...)
#include "proto/columns.def"
};
static const struct cli_column user_columns[] = {
#define MU_COLUMN_MGR(set, name, heading, width, getter) MU_IF_USER_##set(name, heading, width, getter)
#define MU_IF_USER_ACCOUNT(...)
#define MU_IF_USER_USER(...) ROW(__VA_ARGS__)
#define MU_IF_USER_ASSOC(...)
#define MU_IF_USER_QOS(...)
#define MU_IF_USER_CLUSTER(...)
#define MU_IF_USER_TRES(...)
#define MU_IF_USER_TRANS(...)
#define MU_IF_USER_EVENT(...)
#include "proto/columns.def"
};
static const struct cli_column assoc_columns[] = {
#define MU_COLUMN_MGR(set, name, heading, width, getter) MU_IF_ASSOC_##set(name, heading, width, getter)
#define MU_IF_ASSOC_ACCOUNT(...)
#define MU_IF_ASSOC_USER(...)
#define MU_IF_ASSOC_ASSOC(...) ROW(__VA_ARGS__)
#define MU_IF_ASSOC_QOS(...)
#define MU_IF_ASSOC_CLUSTER(...)
#define MU_IF_ASSOC_TRES(...)
#define MU_IF_ASSOC_TRANS(...)
#define MU_IF_ASSOC_EVENT(...)
#include "proto/columns.def"
#define A 1
#define AQ 1
#define LIMIT(id, names, heading, width) {0, heading, heading, width, 0, get_limit_##id},
#define MU_LIMIT_PLAIN(id, field, owners, names, heading, width, ...) LIMIT(id, names, heading, width)
#define MU_LIMIT_TRES(id, field, owners, names, heading, width, ...) LIMIT(id, names, heading, width)
#include "proto/limits.def"
    ROW("GrpSubmitJobs", "GrpSubmit", 9, limit_GRP_SUBMIT)
	ROW("MaxSubmitJobs", "MaxSubmit", 9, limit_MAX_SUBMIT)
	    ROW("MaxTRESPerJob", "MaxTRES", 13, limit_MAX_TRES_JOB)
		ROW("MaxTRESMinsPerJob", "MaxTRESMins", 13, limit_MAX_TRES_MINS_JOB) OLD_ROWS};
static const struct cli_column qos_columns[] = {
#define MU_COLUMN_MGR(set, name, heading, width, getter) MU_IF_QOS_##set(name, heading, width, getter)
#define MU_IF_QOS_ACCOUNT(...)
#define MU_IF_QOS_USER(...)
#define MU_IF_QOS_ASSOC(...)
#define MU_IF_QOS_QOS(...) ROW(__VA_ARGS__)
#define MU_IF_QOS_CLUSTER(...)
#define MU_IF_QOS_TRES(...)
#define MU_IF_QOS_TRANS(...)
#define MU_IF_QOS_EVENT(...)
#include "proto/columns.def"
#define MU_LIMIT_PLAIN(id, field, owners, names, heading, width, ...) LIMIT(id, names, heading, width)
#define MU_LIMIT_TRES(id, field, owners, names, heading, width, ...) LIMIT(id, names, heading, width)
#include "proto/limits.def"
    ROW("MaxTRESPerUser", "MaxTRESPU", 13, limit_MAX_TRES_USER)
	ROW("MaxJobsPerUser", "MaxJobsPU", 9, limit_MAX_JOBS_USER)
	    ROW("MaxSubmitJobsPerUser", "MaxSubmitPU", 11, limit_MAX_SUBMIT_USER)
		ROW("MaxTRESPerAccount", "MaxTRESPA", 13, limit_MAX_TRES_ACCOUNT)
		    ROW("MaxJobsPerAccount", "MaxJobsPA", 9, limit_MAX_JOBS_ACCOUNT)
			ROW("MaxSubmitJobsPerAccount", "MaxSubmitPA", 11, limit_MAX_SUBMIT_ACCOUNT)
			    ROW("GrpSubmitJobs", "GrpSubmit", 9, limit_GRP_SUBMIT)
				ROW("MaxTRESPerJob", "MaxTRES", 13, limit_MAX_TRES_JOB) OLD_ROWS};
static const struct cli_column cluster_columns[] = {
#define MU_COLUMN_MGR(set, name, heading, width, getter) MU_IF_CLUSTER_##set(name, heading, width, getter)
#define MU_IF_CLUSTER_ACCOUNT(...)
#define MU_IF_CLUSTER_USER(...)
#define MU_IF_CLUSTER_ASSOC(...)
#define MU_IF_CLUSTER_QOS(...)
#define MU_IF_CLUSTER_CLUSTER(...) ROW(__VA_ARGS__)
#define MU_IF_CLUSTER_TRES(...)
#define MU_IF_CLUSTER_TRANS(...)
#define MU_IF_CLUSTER_EVENT(...)
#include "proto/columns.def"
#define MU_LIMIT_PLAIN(id, field, owners, names, heading, width, ...) LIMIT(id, names, heading, width)
#define MU_LIMIT_TRES(id, field, owners, names, heading, width, ...) LIMIT(id, names, heading, width)
#include "proto/limits.def"
};
static const struct cli_column tres_columns[] = {
#define MU_COLUMN_MGR(set, name, heading, width, getter) MU_IF_TRES_##set(name, heading, width, getter)
#define MU_IF_TRES_ACCOUNT(...)
#define MU_IF_TRES_USER(...)
#define MU_IF_TRES_ASSOC(...)
#define MU_IF_TRES_QOS(...)
#define MU_IF_TRES_CLUSTER(...)
#define MU_IF_TRES_TRES(...) ROW(__VA_ARGS__)
#define MU_IF_TRES_TRANS(...)
#define MU_IF_TRES_EVENT(...)
#include "proto/columns.def"
};
static const struct cli_column trans_columns[] = {
#define MU_COLUMN_MGR(set, name, heading, width, getter) MU_IF_TRANS_##set(name, heading, width, getter)
#define MU_IF_TRANS_ACCOUNT(...)
#define MU_IF_TRANS_USER(...)
#define MU_IF_TRANS_ASSOC(...)
#define MU_IF_TRANS_QOS(...)
#define MU_IF_TRANS_CLUSTER(...)
#define MU_IF_TRANS_TRES(...)
#define MU_IF_TRANS_TRANS(...) ROW(__VA_ARGS__)
#define MU_IF_TRANS_EVENT(...)
#include "proto/columns.def"
};
static const struct cli_column event_columns[] = {
#define MU_COLUMN_MGR(set, name, heading, width, getter) MU_IF_EVENT_##set(name, heading, width, getter)
#define MU_IF_EVENT_ACCOUNT(...)
#define MU_IF_EVENT_USER(...)
#define MU_IF_EVENT_ASSOC(...)
#define MU_IF_EVENT_QOS(...)
#define MU_IF_EVENT_CLUSTER(...)
#define MU_IF_EVENT_TRES(...)
#define MU_IF_EVENT_TRANS(...)
#define MU_IF_EVENT_EVENT(...) ROW(__VA_ARGS__)
#include "proto/columns.def"
};
#define SET(list)                                \
	{                                        \
		list, sizeof list / sizeof *list \
	}

/* ---- printing ---- */

struct listing {
	struct mgr *m;
	struct cli_format format;
	struct cli_acct_style style;
	struct mu_buf out;
};

static int open_list(struct listing *l, struct mgr *m, const struct cli_columns *set, const char *fallback)
{
	struct mu_err err = {0};
	const char *asked = mgr_value(m, F_FORMAT, false);

	*l = (struct listing){.m = m};
	if (cli_args_has(m->args, OPT_mgr_parsable) || cli_args_has(m->args, OPT_mgr_parsable2))
		l->style = (struct cli_acct_style){.delimiter = "|",
						   .trail = cli_args_has(m->args, OPT_mgr_parsable)};
	if (cli_format_acct(set, asked ? asked : fallback, &m->cli->arena, &l->format, &err)) {
		const char *quote = strchr(err.text, '"');
		if (quote && strncmp(err.text, "Invalid field", 13) == 0)
			fprintf(stderr, "Unknown field '%.*s'\n", (int)strcspn(quote + 1, "\""), quote + 1);
		else
			cli_error(m->cli, "%s", err.text);
		return 1;
	}
	if (!cli_args_has(m->args, OPT_mgr_noheader))
		cli_acct_heading(&l->format, &l->style, &l->out);
	return 0;
}

static void put(struct listing *l, const struct cli_mgr_cell *row)
{
	struct cli_cell cell = {.mgr = row, .cluster = l->m->cli->conf.cluster, .arena = &l->m->cli->arena};

	cli_acct_row(&l->format, &l->style, &cell, &l->out);
}

static int close_list(struct listing *l)
{
	fwrite(l->out.data ? (char *)l->out.data : "", 1, l->out.len, stdout);
	mu_buf_free(&l->out);
	return 0;
}

bool mgr_assoc_wanted(const struct mgr *m, const Mu__AssocRow *a)
{
	const char *ids = mgr_value(m, F_ID, false);

	return mgr_listed(m, F_ACCOUNT, a->account) && mgr_listed(m, F_USER, a->user ? a->user : "") &&
	       mgr_listed(m, F_PARTITION, a->partition ? a->partition : "") &&
	       mgr_listed(m, F_CLUSTER, m->cli->conf.cluster) &&
	       mgr_listed(m, F_PARENT, a->parent ? a->parent : "root") &&
	       (!ids || strtoul(ids, NULL, 10) == a->id);
}

#define ASSOC_FORMAT                                                                                   \
	"Cluster,Account,User,Partition,Share,Priority,GrpJobs,GrpTRES,GrpSubmit,GrpWall,GrpTRESMins," \
	"MaxJobs,MaxTRES,"                                                                             \
	"MaxTRESPerNode,MaxSubmit,MaxWall,MaxTRESMins,QOS,DefaultQOS,GrpTRESRunMins"

static int list_assocs(struct mgr *m, const char *fallback, bool users, bool accounts)
{
	struct listing l;

	if (open_list(&l, m, &(struct cli_columns)SET(assoc_columns), fallback))
		return 1;
	for (size_t i = 0; i < m->assocs; i++) {
		const Mu__AssocRow *a = m->assoc[i];
		bool user = a->user && *a->user;

		if (!mgr_assoc_wanted(m, a) || (user ? !users : !accounts))
			continue;
		if ((users && !accounts && !mgr_listed(m, F_NAME, a->user)) ||
		    (accounts && !users && !mgr_listed(m, F_NAME, a->account)))
			continue;
		put(&l, &(struct cli_mgr_cell){.m = m,
					       .assoc = a,
					       .limits = a->limits,
					       .depth = m->depth[i],
					       .lft = m->lft[i],
					       .rgt = m->rgt[i],
					       .tree = mgr_find(m, F_TREE, false) != NULL,
					       .user = user ? mgr_user(m, a->user) : NULL,
					       .account = mgr_account(m, a->account)});
	}
	return close_list(&l);
}

static bool with_assoc(const struct mgr *m)
{
	return mgr_find(m, F_WITH_ASSOC, false) || cli_args_has(m->args, OPT_mgr_associations);
}

bool mgr_account_wanted(const struct mgr *m, const Mu__AccountRow *a)
{
	return mgr_listed(m, F_NAME, a->name) && mgr_listed(m, F_ACCOUNT, a->name);
}

static int list_accounts(struct mgr *m)
{
	struct listing l;

	if (with_assoc(m))
		return list_assocs(
		    m,
		    "Account,Description,Organization,Cluster,ParentName,User,Share,Priority,GrpJobs,"
		    "GrpTRES,GrpSubmit,GrpWall,GrpTRESMins,MaxJobs,MaxTRES,MaxTRESPerNode,MaxSubmit,"
		    "MaxWall,MaxTRESMins,QOS,DefaultQOS",
		    true, true);
	if (open_list(&l, m, &(struct cli_columns)SET(account_columns),
		      mgr_find(m, F_WITH_COORD, false) ? "Account,Description,Organization,Coordinators"
						       : "Account,Description,Organization"))
		return 1;
	for (size_t i = 0; i < m->accounts; i++) {
		if (mgr_account_wanted(m, m->account[i]))
			put(&l, &(struct cli_mgr_cell){.m = m, .account = m->account[i]});
	}
	return close_list(&l);
}

bool mgr_user_wanted(const struct mgr *m, const Mu__UserRow *u)
{
	bool in = !mgr_find(m, F_ACCOUNT, false);

	for (size_t k = 0; k < m->assocs && !in; k++)
		in = m->assoc[k]->user && strcmp(m->assoc[k]->user, u->name) == 0 &&
		     mgr_listed(m, F_ACCOUNT, m->assoc[k]->account);
	return in && mgr_listed(m, F_NAME, u->name) && mgr_listed(m, F_USER, u->name) &&
	       mgr_listed(m, F_DEFAULT_ACCOUNT, u->default_account);
}

static int list_users(struct mgr *m)
{
	struct listing l;

	if (with_assoc(m))
		return list_assocs(
		    m,
		    "User,DefaultAccount,AdminLevel,Cluster,Account,Partition,Share,Priority,MaxJobs,"
		    "MaxNodes,MaxCPUs,MaxSubmit,MaxWall,MaxCPUMins,QOS,DefaultQOS",
		    true, false);
	if (open_list(&l, m, &(struct cli_columns)SET(user_columns),
		      mgr_find(m, F_WITH_COORD, false) ? "User,DefaultAccount,AdminLevel,Coordinators"
						       : "User,DefaultAccount,AdminLevel"))
		return 1;
	for (size_t i = 0; i < m->users; i++) {
		if (mgr_user_wanted(m, m->user[i]))
			put(&l, &(struct cli_mgr_cell){.m = m, .user = m->user[i]});
	}
	return close_list(&l);
}

bool mgr_qos_wanted(const struct mgr *m, const Mu__QosRow *q)
{
	return mgr_listed(m, F_NAME, q->name) && mgr_listed(m, F_QOS, q->name);
}

static int list_qos(struct mgr *m)
{
	struct listing l;

	if (open_list(&l, m, &(struct cli_columns)SET(qos_columns),
		      "Name,Priority,GraceTime,Preempt,PreemptExemptTime,PreemptMode,Flags,UsageThres,"
		      "UsageFactor,GrpTRES,"
		      "GrpTRESMins,GrpTRESRunMins,GrpJobs,GrpSubmit,GrpWall,MaxTRES,MaxTRESPerNode,"
		      "MaxTRESMins,MaxWall,"
		      "MaxTRESPU,MaxJobsPU,MaxSubmitPU,MaxTRESPA,MaxTRESRunMinsPA,MaxTRESRunMinsPU,MaxJobsPA,"
		      "MaxSubmitPA,"
		      "MinTRES"))
		return 1;
	for (uint32_t id = 1; id; id++) { /* in the order in which they were made */
		const Mu__QosRow *q = NULL;
		uint32_t next = UINT32_MAX;
		for (size_t i = 0; i < m->qoses; i++)
			if (m->qos[i]->id >= id && m->qos[i]->id <= next) {
				q = m->qos[i];
				next = q->id;
			}
		if (!q)
			break;
		id = next;
		if (mgr_qos_wanted(m, q))
			put(&l, &(struct cli_mgr_cell){.m = m, .qos = q, .limits = q->limits});
	}
	return close_list(&l);
}

bool mgr_cluster_wanted(const struct mgr *m)
{
	return mgr_listed(m, F_NAME, m->cli->conf.cluster) && mgr_listed(m, F_CLUSTER, m->cli->conf.cluster);
}

static int list_cluster(struct mgr *m)
{
	struct listing l;
	const Mu__AssocRow *root = mgr_assoc(m, "root", NULL, NULL);

	if (open_list(&l, m, &(struct cli_columns)SET(cluster_columns),
		      "Cluster,ControlHost,ControlPort,RPC,Share,GrpJobs,GrpTRES,GrpSubmit,MaxJobs,MaxTRES,"
		      "MaxSubmit,MaxWall,"
		      "QOS,DefaultQOS"))
		return 1;
	if (mgr_cluster_wanted(m))
		put(&l, &(struct cli_mgr_cell){.m = m, .assoc = root, .limits = root ? root->limits : NULL});
	return close_list(&l);
}

/* Slurm's fixed numbers, then devices as nodes have them. */
static int list_tres(struct mgr *m)
{
	static const char *const fixed[][3] = {{"cpu", "", "1"},  {"mem", "", "2"},	{"energy", "", "3"},
					       {"node", "", "4"}, {"billing", "", "5"}, {"fs", "disk", "6"},
					       {"vmem", "", "7"}, {"pages", "", "8"}};
	struct listing l;
	Mu__Query ask = MU__QUERY__INIT;
	struct mu_err err = {0};
	struct mu_map seen = {0};
	void **rows;
	size_t n;
	unsigned id = 1001;

	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_NODES;
	if (cli_query_all(m->cli, &ask, &mu__node_row__descriptor, &rows, &n, &err)) {
		cli_error(m->cli, "%s", err.text);
		return 1;
	}
	if (open_list(&l, m, &(struct cli_columns)SET(tres_columns), "Type,Name,ID"))
		return 1;
	for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
		put(&l, &(struct cli_mgr_cell){.m = m, .word = {fixed[i][0], fixed[i][1], fixed[i][2]}});
	for (size_t i = 0; i < n; i++) {
		const Mu__NodeRow *node = rows[i];
		for (size_t g = 0; g < node->n_gres; g++) {
			if (!node->gres[g]->name || mu_map_put_str(&seen, node->gres[g]->name, m))
				continue;
			put(&l,
			    &(struct cli_mgr_cell){.m = m,
						   .word = {"gres", node->gres[g]->name,
							    mu_arena_printf(&m->cli->arena, "%u", id++)}});
		}
	}
	mu_map_clear(&seen);
	return close_list(&l);
}

/* ---- transactions: the log's own entries ---- */

static const char *action(const Mu__AccountsChanged *c, const char **ret_where)
{
	const Mu__AccountsChange *first = c->n_change ? c->change[0] : NULL;

	*ret_where = "";
	switch (first ? first->kind_case : MU__ACCOUNTS_CHANGE__KIND__NOT_SET) {
	case MU__ACCOUNTS_CHANGE__KIND_ACCOUNT:
		*ret_where = first->account->name;
		return first->account->create ? "Add Accounts" : "Modify Accounts";
	case MU__ACCOUNTS_CHANGE__KIND_USER:
		*ret_where = first->user->name;
		return first->user->create ? "Add Users" : "Modify Users";
	case MU__ACCOUNTS_CHANGE__KIND_ASSOC:
		*ret_where = first->assoc->account;
		return first->assoc->create ? "Add Associations" : "Modify Associations";
	case MU__ACCOUNTS_CHANGE__KIND_QOS:
		*ret_where = first->qos->name;
		return first->qos->create ? "Add QOS" : "Modify QOS";
	case MU__ACCOUNTS_CHANGE__KIND_REMOVE:
		*ret_where = first->remove->account ? first->remove->account
			     : first->remove->user  ? first->remove->user
			     : first->remove->qos   ? first->remove->qos
						    : first->remove->assoc->account;
		return first->remove->account ? "Remove Accounts"
		       : first->remove->user  ? "Remove Users"
		       : first->remove->qos   ? "Remove QOS"
					      : "Remove Associations";
	default:
		return "";
	}
}

static void put_transaction(struct listing *l, const Mu__Moment *act)
{
	char when[32];
	const Mu__Event *event = (Mu__Event *)mu_pb_unpack(&mu__event__descriptor, act->body.data,
							   act->body.len, &l->m->cli->arena);
	const char *where;

	if (!event || event->kind_case != MU__EVENT__KIND_ACCOUNTS_CHANGED || act->code)
		return;
	const char *what = action(event->accounts_changed, &where);
	mu_date_print(act->time_usec, &cli_zone, when);
	put(l, &(struct cli_mgr_cell){
		   .m = l->m,
		   .word = {when, what, act->user ? act->user : "", where,
			    event->accounts_changed->line ? event->accounts_changed->line : "",
			    mu_arena_printf(&l->m->cli->arena, "%llu", (unsigned long long)act->pos)}});
}

static int list_transactions(struct mgr *m)
{
	Mu__Query ask = MU__QUERY__INIT;
	struct listing l;
	struct mu_err err = {0};
	void **rows;
	size_t n;

	if (open_list(&l, m, &(struct cli_columns)SET(trans_columns), "Time,Action,Actor,Where,Info"))
		return 1;
	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_ACTS;
	if (cli_query_all(m->cli, &ask, &mu__moment__descriptor, &rows, &n, &err)) {
		cli_error(m->cli, "%s", err.text);
		return 1;
	}
	for (size_t i = 0; i < n; i++)
		put_transaction(&l, rows[i]);
	return close_list(&l);
}

/* ---- events: when nodes were out of service ---- */

static bool in_service(const Mu__NodeRow *n)
{
	return n->base_state == NODE_IDLE &&
	       !(n->flags & (NODE_FLAG_DRAIN | NODE_FLAG_FAIL | NODE_FLAG_NO_RESPOND));
}

static void put_outage(struct listing *l, const char *node, const Mu__Moment *from, const Mu__Moment *to)
{
	char begin[32], end[32] = "Unknown", state[128];
	const char *since = mgr_value(l->m, F_START, false);
	int64_t start = 0;

	/* A node that is new is UNKNOWN for the moment until it registers: that is no outage. */
	if (to && from->node->base_state == NODE_UNKNOWN && to->time_usec - from->time_usec < 1000000)
		return;
	if (since && !mu_date_parse(since, cli_now_usec(), 0, &cli_zone, &start, NULL) && to &&
	    to->time_usec < start)
		return;

	mu_date_print(from->time_usec, &cli_zone, begin);
	if (to)
		mu_date_print(to->time_usec, &cli_zone, end);
	mu_node_state_scontrol(from->node->base_state, from->node->flags, 0, 1, state);
	put(l, &(struct cli_mgr_cell){.m = l->m,
				      .word = {node, begin, end, state,
					       from->node->reason ? from->node->reason : "",
					       from->node->reason_user ? from->node->reason_user : ""}});
}

static int list_node_events(struct mgr *m, struct listing *l, char *node, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	const Mu__Moment *open = NULL;
	void **rows;
	size_t n;

	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_MOMENTS;
	ask.node = &node;
	ask.n_node = 1;
	int rc = cli_query_all(m->cli, &ask, &mu__moment__descriptor, &rows, &n, err);
	for (size_t i = 0; !rc && i < n; i++) {
		const Mu__Moment *at = rows[i];
		if (!at->node)
			continue;
		bool same = open && open->node->base_state == at->node->base_state &&
			    open->node->flags == at->node->flags &&
			    strcmp(open->node->reason ? open->node->reason : "",
				   at->node->reason ? at->node->reason : "") == 0;
		if (open && !same)
			put_outage(l, node, open, at);
		open = in_service(at->node) ? NULL : same ? open : at;
	}
	if (!rc && open)
		put_outage(l, node, open, NULL);
	return rc;
}

static int list_events(struct mgr *m)
{
	Mu__Query ask = MU__QUERY__INIT;
	struct listing l;
	struct mu_err err = {0};
	void **rows;
	size_t n;

	if (open_list(&l, m, &(struct cli_columns)SET(event_columns),
		      "Cluster,NodeName,Start,End,State,Reason,User"))
		return 1;
	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_NODES;
	int rc = cli_query_all(m->cli, &ask, &mu__node_row__descriptor, &rows, &n, &err);
	for (size_t i = 0; !rc && i < n; i++)
		if (mgr_listed(m, F_NAME, ((Mu__NodeRow *)rows[i])->name))
			rc = list_node_events(m, &l, ((Mu__NodeRow *)rows[i])->name, &err);
	if (rc) {
		cli_error(m->cli, "%s", err.text);
		return 1;
	}
	return close_list(&l);
}

/* Who is in no account, and which accounts nobody is in. */
static int list_problems(struct mgr *m)
{
	printf("%10s %10s %10s %s\n", "Cluster", "Account", "User", "Problem");
	for (size_t i = 0; i < m->accounts; i++) {
		bool used = false;
		for (size_t k = 0; k < m->assocs; k++)
			used = used ||
			       (m->assoc[k]->user && strcmp(m->assoc[k]->account, m->account[i]->name) == 0);
		if (!mgr_assoc(m, m->account[i]->name, NULL, NULL))
			printf("%10s %10.10s %10s Account has no Associations\n", "", m->account[i]->name,
			       "");
		else if (!used)
			printf("%10s %10.10s %10s Account has no users\n", "", m->account[i]->name, "");
	}
	for (size_t i = 0; i < m->users; i++) {
		bool used = false;
		uint32_t uid;
		for (size_t k = 0; k < m->assocs; k++)
			used =
			    used || (m->assoc[k]->user && strcmp(m->assoc[k]->user, m->user[i]->name) == 0);
		if (!used)
			printf("%10s %10s %10.10s User has no Associations\n", "", "", m->user[i]->name);
		if (cli_user_id(m->user[i]->name, &uid, NULL))
			printf("%10s %10s %10.10s User does not have a uid\n", "", "", m->user[i]->name);
	}
	return 0;
}

int mgr_list(struct mgr *m, enum mgr_entity e)
{
	if (cli_model_wanted(m->args))
		return mgr_list_json(m, e);
	switch (e) {
	case MGR_ACCOUNT:
		return list_accounts(m);
	case MGR_ASSOC:
		return list_assocs(m, ASSOC_FORMAT, true, true);
	case MGR_USER:
		return list_users(m);
	case MGR_QOS:
		return list_qos(m);
	case MGR_CLUSTER:
		return list_cluster(m);
	case MGR_TRES:
		return list_tres(m);
	case MGR_TRANSACTION:
		return list_transactions(m);
	case MGR_EVENT:
		return list_events(m);
	case MGR_PROBLEM:
		return list_problems(m);
	case MGR_COORDINATOR:
		return list_users(m);
	case MGR_RUNAWAY:
		printf("Runaway Jobs: No runaway jobs found on cluster %s\n", m->cli->conf.cluster);
		return 0;
	case MGR_CONFIGURATION:
		return mgr_show_config(m);
	case MGR_STATS:
		return mgr_show_stats(m);
	case MGR_WCKEY:
	case MGR_RESOURCE:
		break; /* refused by name before */
	}
	return 1;
}
