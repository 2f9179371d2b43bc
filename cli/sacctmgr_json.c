/* cli/sacctmgr_json.c: sacctmgr show with --json and --yaml: accounts, users, associations, QOS, the cluster
 * and TRES in the data model's shape. */
#include <string.h>

#include "cli/model.h"
#include "cli/model_parts.h"
#include "cli/sacctmgr.h"

static void assoc_id(struct cli_json *j, const struct mgr *m, const char *name, const Mu__AssocRow *a)
{
	json_object(j, name);
	json_text(j, "account", a->account);
	json_text(j, "cluster", m->cli->conf.cluster);
	json_text(j, "partition", a->partition);
	json_text(j, "user", a->user);
	json_number(j, "id", a->id);
	json_object_end(j);
}

/* ---- limits ---- */

/* A limit of -1 is none. */
static void number(struct cli_json *j, const char *name, bool has, int64_t value)
{
	bool set = has && value >= 0;

	json_triple(j, name, set, !set, set ? value : 0);
}

static void wall(struct cli_json *j, const char *name, bool has, int64_t sec)
{
	number(j, name, has, sec < 0 ? sec : sec / 60);
}

static void tres(struct cli_json *j, const char *name, Mu__TresCount *const *v, size_t n)
{
	json_array(j, name);
	for (size_t i = 0; i < n; i++) {
		const char *slash = strchr(v[i]->name, '/');
		size_t len = slash ? (size_t)(slash - v[i]->name) : strlen(v[i]->name);

		if (v[i]->count < 0)
			continue;
		json_object(j, NULL);
		json_bytes(j, "type", v[i]->name, len);
		json_text(j, "name", slash ? slash + 1 : "");
		json_number(j, "count", v[i]->count);
		json_object_end(j);
	}
	json_array_end(j);
}

static void assoc_limits(struct cli_json *j, const Mu__Limits *l)
{
	json_object(j, "max");
	json_object(j, "jobs");
	json_object(j, "per");
	number(j, "count", l->has_grp_jobs, l->grp_jobs);
	number(j, "submitted", l->has_grp_submit, l->grp_submit);
	wall(j, "wall_clock", l->has_max_wall_sec, l->max_wall_sec);
	json_object_end(j);
	number(j, "active", l->has_max_jobs, l->max_jobs);
	number(j, "total", l->has_max_submit, l->max_submit);
	json_object_end(j);
	json_object(j, "tres");
	tres(j, "total", l->grp_tres, l->n_grp_tres);
	json_object(j, "group");
	tres(j, "minutes", l->grp_tres_mins, l->n_grp_tres_mins);
	tres(j, "active", l->grp_tres_run_mins, l->n_grp_tres_run_mins);
	json_object_end(j);
	json_object(j, "minutes");
	json_object(j, "per");
	tres(j, "job", l->max_tres_mins_job, l->n_max_tres_mins_job);
	json_object_end(j);
	json_object_end(j);
	json_object(j, "per");
	tres(j, "job", l->max_tres_job, l->n_max_tres_job);
	tres(j, "node", l->max_tres_node, l->n_max_tres_node);
	json_object_end(j);
	json_object_end(j);
	json_object(j, "per");
	json_object(j, "account");
	wall(j, "wall_clock", l->has_grp_wall_sec, l->grp_wall_sec);
	json_object_end(j);
	json_object_end(j);
	json_object_end(j);
}

static void qos_limits(struct cli_json *j, const Mu__QosRow *q, const Mu__Limits *l)
{
	json_object(j, "limits");
	json_number(j, "grace_time", q->grace_sec);
	json_object(j, "max");
	json_object(j, "active_jobs");
	number(j, "count", l->has_grp_jobs, l->grp_jobs);
	json_object_end(j);
	json_object(j, "tres");
	tres(j, "total", l->grp_tres, l->n_grp_tres);
	json_object(j, "minutes");
	tres(j, "total", l->grp_tres_mins, l->n_grp_tres_mins);
	json_object(j, "per");
	tres(j, "job", l->max_tres_mins_job, l->n_max_tres_mins_job);
	tres(j, "account", l->max_tres_run_mins_account, l->n_max_tres_run_mins_account);
	tres(j, "user", l->max_tres_run_mins_user, l->n_max_tres_run_mins_user);
	json_object_end(j);
	json_object_end(j);
	json_object(j, "per");
	tres(j, "account", l->max_tres_account, l->n_max_tres_account);
	tres(j, "job", l->max_tres_job, l->n_max_tres_job);
	tres(j, "node", l->max_tres_node, l->n_max_tres_node);
	tres(j, "user", l->max_tres_user, l->n_max_tres_user);
	json_object_end(j);
	json_object_end(j);
	json_object(j, "wall_clock");
	json_object(j, "per");
	wall(j, "qos", l->has_grp_wall_sec, l->grp_wall_sec);
	wall(j, "job", l->has_max_wall_sec, l->max_wall_sec);
	json_object_end(j);
	json_object_end(j);
	json_object(j, "jobs");
	number(j, "count", l->has_grp_submit, l->grp_submit);
	json_object(j, "active_jobs");
	json_object(j, "per");
	number(j, "account", l->has_max_jobs_account, l->max_jobs_account);
	number(j, "user", l->has_max_jobs_user, l->max_jobs_user);
	json_object_end(j);
	json_object_end(j);
	json_object(j, "per");
	number(j, "account", l->has_max_submit_account, l->max_submit_account);
	number(j, "user", l->has_max_submit_user, l->max_submit_user);
	json_object_end(j);
	json_object_end(j);
	json_object_end(j);
	json_triple_real(j, "factor", q->limit_factor_milli != 0, false, q->limit_factor_milli / 1000.0);
	json_object(j, "min");
	json_object(j, "tres");
	json_object(j, "per");
	tres(j, "job", l->min_tres_job, l->n_min_tres_job);
	json_object_end(j);
	json_object_end(j);
	json_object_end(j);
	json_object_end(j);
}

/* ---- rows ---- */

static void put_assoc(struct cli_json *j, const struct mgr *m, const Mu__AssocRow *a)
{
	static const Mu__Limits none = MU__LIMITS__INIT;
	bool user = a->user && *a->user;
	const Mu__UserRow *row = user ? mgr_user(m, a->user) : NULL;
	const Mu__AssocRow *holder = mgr_qos_holder(m, a);

	json_object(j, NULL);
	json_text(j, "account", a->account);
	json_text(j, "cluster", m->cli->conf.cluster);
	json_text(j, "partition", a->partition);
	json_text(j, "user", a->user);
	json_text(j, "comment", a->comment);
	json_text(j, "parent_account",
		  user || strcmp(a->account, "root") == 0 ? ""
		  : a->parent				  ? a->parent
							  : "root");
	assoc_id(j, m, "id", a);
	json_bool(j, "is_default",
		  row && row->default_account && strcmp(row->default_account, a->account) == 0);
	json_object(j, "default");
	json_text(j, "qos", a->default_qos);
	json_object_end(j);
	json_array(j, "flags");
	json_array_end(j);
	assoc_limits(j, a->limits ? a->limits : &none);
	json_triple(j, "priority", a->priority != 0, a->priority == 0, a->priority);
	texts(j, "qos", holder ? holder->qos : NULL, holder ? holder->n_qos : 0);
	json_number(j, "shares_raw", a->has_shares ? a->shares : 1);
	json_object_end(j);
}

/* Each association that belongs to an account, or to a user where USER says so, by its id alone. */
static void assocs_of(struct cli_json *j, const struct mgr *m, const char *name, bool user)
{
	json_array(j, "associations");
	for (size_t i = 0; i < m->assocs; i++) {
		const char *owner = user ? m->assoc[i]->user : m->assoc[i]->account;

		if (owner && strcmp(owner, name) == 0)
			assoc_id(j, m, NULL, m->assoc[i]);
	}
	json_array_end(j);
}

static void put_account(struct cli_json *j, const struct mgr *m, const Mu__AccountRow *a)
{
	json_object(j, NULL);
	json_text(j, "name", a->name);
	json_text(j, "description", a->description);
	json_text(j, "organization", a->organization);
	json_array(j, "coordinators");
	for (size_t i = 0; i < a->n_coordinator; i++) {
		json_object(j, NULL);
		json_text(j, "name", a->coordinator[i]);
		json_bool(j, "direct", true);
		json_object_end(j);
	}
	json_array_end(j);
	assocs_of(j, m, a->name, false);
	json_array(j, "flags");
	json_array_end(j);
	json_object_end(j);
}

static void put_user(struct cli_json *j, const struct mgr *m, const Mu__UserRow *u)
{
	static const char *const levels[] = {"None", "Operator", "Administrator"};

	json_object(j, NULL);
	json_text(j, "name", u->name);
	json_text(j, "old_name", "");
	json_array(j, "administrator_level");
	json_text(j, NULL, levels[u->admin < 3 ? u->admin : 0]);
	json_array_end(j);
	json_object(j, "default");
	json_text(j, "account", u->default_account);
	json_text(j, "wckey", "");
	json_object_end(j);
	json_array(j, "coordinators");
	for (size_t i = 0; i < m->accounts; i++) {
		for (size_t k = 0; k < m->account[i]->n_coordinator; k++) {
			if (strcmp(m->account[i]->coordinator[k], u->name) != 0)
				continue;
			json_object(j, NULL);
			json_text(j, "name", m->account[i]->name);
			json_bool(j, "direct", true);
			json_object_end(j);
		}
	}
	json_array_end(j);
	assocs_of(j, m, u->name, true);
	json_array(j, "wckeys");
	json_array_end(j);
	json_array(j, "flags");
	json_array_end(j);
	json_object_end(j);
}

static void put_qos(struct cli_json *j, const Mu__QosRow *q)
{
	static const Mu__Limits none = MU__LIMITS__INIT;

	json_object(j, NULL);
	json_text(j, "name", q->name);
	json_number(j, "id", q->id);
	json_text(j, "description", q->description);
	texts(j, "flags", q->flag, q->n_flag);
	qos_limits(j, q, q->limits ? q->limits : &none);
	json_object(j, "preempt");
	texts(j, "list", q->preempt, q->n_preempt);
	json_array(j, "mode");
	json_text(j, NULL, q->preempt_mode ? q->preempt_mode : "DISABLED");
	json_array_end(j);
	json_triple(j, "exempt_time", q->has_exempt_sec, !q->has_exempt_sec, q->exempt_sec);
	json_object_end(j);
	json_triple(j, "priority", true, false, q->priority);
	json_triple_real(j, "usage_factor", true, false,
			 q->has_usage_factor_milli ? q->usage_factor_milli / 1000.0 : 1.0);
	json_triple_real(j, "usage_threshold", q->usage_threshold_milli != 0, q->usage_threshold_milli == 0,
			 q->usage_threshold_milli / 1000.0);
	json_object_end(j);
}

static void put_cluster(struct cli_json *j, const struct mgr *m)
{
	const struct cli_conf *f = &m->cli->conf;
	const Mu__AssocRow *root = mgr_assoc(m, "root", NULL, NULL);

	json_object(j, NULL);
	json_text(j, "name", f->cluster);
	json_object(j, "controller");
	json_text(j, "host",
		  f->controllers ? f->controller[0].addr ? f->controller[0].addr : f->controller[0].name
				 : "");
	json_number(j, "port", f->controllers ? f->controller[0].port : 0);
	json_object_end(j);
	json_array(j, "flags");
	json_array_end(j);
	json_text(j, "select_plugin", "select/cons_tres");
	if (root) {
		json_object(j, "associations");
		assoc_id(j, m, "root", root);
		json_object_end(j);
	}
	json_object_end(j);
}

int mgr_list_json(struct mgr *m, enum mgr_entity e)
{
	struct cli_model model = {0};
	struct cli_json *j = &model.json;

	if (e != MGR_ACCOUNT && e != MGR_USER && e != MGR_COORDINATOR && e != MGR_ASSOC && e != MGR_QOS &&
	    e != MGR_CLUSTER) {
		cli_error(m->cli,
			  "--json and --yaml show accounts, associations, clusters, QOS and users; this is "
			  "shown as text alone (-P divides its fields)");
		return 1;
	}
	cli_model_begin(m->cli, &model);
	json_array(j, e == MGR_ACCOUNT	 ? "accounts"
		      : e == MGR_ASSOC	 ? "associations"
		      : e == MGR_QOS	 ? "qos"
		      : e == MGR_CLUSTER ? "clusters"
					 : "users");
	for (size_t i = 0; i < m->accounts && e == MGR_ACCOUNT; i++)
		if (mgr_account_wanted(m, m->account[i]))
			put_account(j, m, m->account[i]);
	for (size_t i = 0; i < m->users && (e == MGR_USER || e == MGR_COORDINATOR); i++)
		if (mgr_user_wanted(m, m->user[i]))
			put_user(j, m, m->user[i]);
	for (size_t i = 0; i < m->assocs && e == MGR_ASSOC; i++)
		if (mgr_assoc_wanted(m, m->assoc[i]))
			put_assoc(j, m, m->assoc[i]);
	for (size_t i = 0; i < m->qoses && e == MGR_QOS; i++)
		if (mgr_qos_wanted(m, m->qos[i]))
			put_qos(j, m->qos[i]);
	if (e == MGR_CLUSTER && mgr_cluster_wanted(m))
		put_cluster(j, m);
	json_array_end(j);
	return cli_model_end(&model);
}
