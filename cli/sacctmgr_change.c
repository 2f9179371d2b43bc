/* cli/sacctmgr_change.c: add, modify, delete: from words to changes, with the lines that say what is about to
 * happen. Rows show what there is; the controllers judge again. */
#include "cli/sacctmgr.h"

#include <stdlib.h>
#include <string.h>

#include "proto/states.h"

static int fail(struct mgr *m, const struct mu_err *err)
{
	fflush(stdout);
	if (err->text[0] == ' ')
		fprintf(stderr, "%s\n", err->text);
	else
		fprintf(stderr, " error: %s\n", err->text);
	return 1;
}

/* Slurm's line for a refusal: what was tried and why not. */
static int problem(const struct mu_err *err, const char *what)
{
	fflush(stdout);
	fprintf(stderr, " Problem %s: %s\n", what, err->text);
	if (err->code == MU_EPERM)
		fprintf(stderr, " Your uid doesn't have the privilege to perform this action\n");
	return 1;
}

static int nothing(struct mgr *m)
{
	mgr_say(m, " Nothing new added.\n");
	return 1;
}

static const char *cluster(const struct mgr *m)
{
	return m->cli->conf.cluster ? m->cli->conf.cluster : "linux";
}

/* Does J stand in an association, or under a QOS, that the changes remove? */
static bool job_goes(const struct mgr *m, const Mu__JobRow *j)
{
	for (size_t i = 0; i < m->changes; i++) {
		const Mu__AccountsRemove *r = m->change[i]->remove;
		const char *user = j->user ? j->user : "", *account = j->account ? j->account : "";

		if (m->change[i]->kind_case != MU__ACCOUNTS_CHANGE__KIND_REMOVE)
			continue;
		if ((r->account && strcmp(r->account, account) == 0) ||
		    (r->user && strcmp(r->user, user) == 0) ||
		    (r->qos && j->qos && strcmp(r->qos, j->qos) == 0) ||
		    (r->assoc && strcmp(r->assoc->account, account) == 0 &&
		     strcmp(r->assoc->user, user) == 0))
			return true;
	}
	return false;
}

/* The jobs for which nothing was removed, a line each. */
static void say_active(struct mgr *m)
{
	Mu__Query ask = MU__QUERY__INIT;
	uint32_t living[] = {JOB_PENDING, JOB_RUNNING, JOB_SUSPENDED, JOB_COMPLETING};
	void **rows;
	size_t n;

	ask.has_what = ask.has_slim = ask.slim = 1;
	ask.what = MU__WHAT__WHAT_JOBS;
	ask.state = living;
	ask.n_state = sizeof living / sizeof *living;
	if (cli_query_all(m->cli, &ask, &mu__job_row__descriptor, &rows, &n, NULL))
		return;
	for (size_t i = 0; i < n; i++) {
		const Mu__JobRow *j = rows[i];

		if (job_goes(m, j))
			fprintf(stderr, "  JobID = %-10u C = %-10.10s A = %-10.10s U = %-9.9s\n", j->id,
				cluster(m), j->account ? j->account : "", j->user ? j->user : "");
	}
}

static int commit(struct mgr *m, const char *what)
{
	struct mu_err err = {0};
	int rc;

	if (!mgr_confirm(m))
		return 0;
	rc = mgr_send(m, &err);
	if (!rc)
		return 0;
	if (rc != MU_EBUSY || !strstr(err.text, "active"))
		return problem(&err, what);
	fflush(stdout);
	fprintf(stderr, " Error with request: %s\n", err.text);
	say_active(m);
	return 1;
}

/* ---- values ---- */

static int shares(const char *text, uint32_t *ret, struct mu_err *err)
{
	int64_t n;

	if (strcasecmp(text, "parent") == 0) {
		*ret = 2147483647u;
		return 0;
	}
	if (strcmp(text, "-1") == 0) {
		*ret = 1;
		return 0;
	}
	int rc = mu_number_parse("Fairshare", text, 0, 2147483646, &n, err);
	*ret = (uint32_t)n;
	return rc;
}

static int milli(const char *what, const char *text, uint32_t *ret, struct mu_err *err)
{
	char *end;
	double v = strtod(text, &end);

	if (strcmp(text, "-1") == 0) {
		*ret = 0;
		return 0;
	}
	if (end == text || *end || !(v >= 0) || v > 1e6)
		return mu_fail(err, MU_EINVAL, "Invalid %s: \"%s\" is no number from 0 to 1000000", what,
			       text);
	*ret = (uint32_t)(v * 1000 + 0.5);
	return 0;
}

/* LIST changed by what the word says: =, +=, -=. "" and -1 empty it. */
static char **list_value(struct mgr *m, char *const *old, size_t n_old, const struct mgr_word *w, size_t *ret)
{
	size_t n, count = 0;
	char **named = cli_split(&m->cli->arena, w->value, &n);
	char **list = mu_arena_alloc(&m->cli->arena, (n_old + n + 1) * sizeof *list);
	bool add = w->sign == '+' || (w->sign == '=' && n && named[0][0] == '+');
	bool take =
	    w->sign == '-' || (w->sign == '=' && n && named[0][0] == '-' && strcmp(named[0], "-1") != 0);

	if (w->sign == '=' && n == 1 && strcmp(named[0], "-1") == 0)
		n = 0;
	for (size_t i = 0; i < n_old && (add || take); i++)
		list[count++] = old[i];
	for (size_t i = 0; i < n; i++) {
		char *name = named[i] + (named[i][0] == '+' || named[i][0] == '-');
		size_t k = 0;

		while (k < count && strcasecmp(list[k], name) != 0)
			k++;
		if (take && k < count) {
			memmove(list + k, list + k + 1, (count - k - 1) * sizeof *list);
			count--;
		} else if (!take && k == count) {
			list[count++] = name;
		}
	}
	*ret = count;
	return list;
}

/* Fields of an association among the words into P; *RET_ANY when there were any. OLD may be NULL. */
static int assoc_fields(struct mgr *m, Mu__AssocPut *p, const Mu__AssocRow *old, bool set, bool *ret_any,
			struct mu_err *err)
{
	/* += and -= change the list that holds there, which may be that of an account above. */
	const Mu__AssocRow *held = mgr_qos_holder(m, old ? old : mgr_assoc(m, p->account, NULL, NULL));
	int rc = 0;
	int64_t n;

	for (size_t i = 0; i < m->words && !rc; i++) {
		const struct mgr_word *w = &m->word[i];
		if (w->set != set)
			continue;
		*ret_any = true;
		switch (w->field) {
		case F_SHARES:
			p->has_shares = 1;
			rc = shares(w->value, &p->shares, err);
			break;
		case F_PRIORITY:
			p->has_priority = 1;
			rc = mu_number_parse("Priority", strcmp(w->value, "-1") ? w->value : "0", 0,
					     UINT32_MAX - 2, &n, err);
			p->priority = (uint32_t)n;
			break;
		case F_QOS:
			p->has_set_qos = p->set_qos = 1;
			p->qos = list_value(m, held ? held->qos : NULL, held ? held->n_qos : 0, w, &p->n_qos);
			for (size_t k = 0; k < p->n_qos && !rc; k++)
				if (!mgr_qos(m, p->qos[k]))
					rc = mu_fail(
					    err, MU_EQOS,
					    "You gave a bad qos '%s'. Use 'list qos' to get complete list.",
					    p->qos[k]);
			break;
		case F_DEFAULT_QOS:
			p->default_qos = (char *)(strcmp(w->value, "-1") ? w->value : "");
			break;
		case F_COMMENT:
			p->comment = (char *)w->value;
			break;
		case F_PARENT:
			p->parent = (char *)w->value;
			break;
		case F_RAW_USAGE:
			p->has_reset_usage = p->reset_usage = 1;
			if (strcmp(w->value, "0") != 0)
				rc = mu_fail(err, MU_EINVAL, "RawUsage can only be set to 0");
			break;
		case F_LIMIT:
		case F_LEGACY:
			rc = mgr_limit_set(m, &p->limits, w, err);
			break;
		default:
			*ret_any = *ret_any && i > 0 && false;
			break;
		}
	}
	*ret_any = p->has_shares || p->has_priority || p->has_set_qos || p->default_qos || p->comment ||
		   p->parent || p->has_reset_usage || p->limits;
	return rc;
}

static Mu__AssocPut *new_assoc(struct mgr *m, const char *account, const char *user, const char *partition)
{
	Mu__AccountsChange *c = mgr_change(m, MU__ACCOUNTS_CHANGE__KIND_ASSOC);
	Mu__AssocPut *p = c->assoc = mu_arena_alloc(&m->cli->arena, sizeof *p);

	mu__assoc_put__init(p);
	p->account = (char *)account;
	p->user = (char *)user;
	p->partition = (char *)partition;
	return p;
}

static char **names_of(struct mgr *m, enum mgr_field own, size_t *ret)
{
	struct mu_buf all = {0};

	mu_buf_str(&all, "");
	for (size_t i = 0; i < m->words; i++) {
		if ((m->word[i].field == F_NAME || m->word[i].field == own) && !m->word[i].set)
			mu_buf_printf(&all, "%s,", m->word[i].value);
	}
	char **names = cli_split(&m->cli->arena, all.data ? (const char *)all.data : "", ret);
	mu_buf_free(&all);
	return names;
}

/* ---- add ---- */

static int add_account(struct mgr *m)
{
	struct mu_err err = {0};
	size_t n, fresh = 0;
	char **names = names_of(m, F_ACCOUNT, &n);
	const char *parent = mgr_value(m, F_PARENT, false), *desc = mgr_value(m, F_DESCRIPTION, false),
		   *org = mgr_value(m, F_ORGANIZATION, false);
	bool any;

	if (!n) {
		fprintf(stderr, " Need name of account to add.\n");
		return 1;
	}
	if (parent && !mgr_account(m, parent)) {
		fprintf(stderr, " error: Parent account '%s' doesn't exist.\n", parent);
		return 1;
	}
	for (size_t i = 0; i < n; i++) {
		if (mgr_account(m, names[i]) && mgr_assoc(m, names[i], NULL, NULL))
			continue;
		if (!fresh++)
			mgr_say(m, " Adding Account(s)\n");
		mgr_say(m, "  %s\n", names[i]);
		Mu__AccountsChange *c = mgr_change(m, MU__ACCOUNTS_CHANGE__KIND_ACCOUNT);
		c->account = mu_arena_alloc(&m->cli->arena, sizeof *c->account);
		mu__account_put__init(c->account);
		c->account->name = names[i];
		c->account->has_create = c->account->create = 1;
		c->account->description = (char *)(desc ? desc : names[i]);
		c->account->organization = (char *)(org				       ? org
						    : parent && strcmp(parent, "root") ? parent
										       : names[i]);
		Mu__AssocPut *p = new_assoc(m, names[i], NULL, NULL);
		p->has_create = p->create = 1;
		if (assoc_fields(m, p, NULL, false, &any, &err))
			return fail(m, &err);
	}
	if (!fresh)
		return nothing(m);
	mgr_say(m, " Settings\n  Description     = %s\n  Organization    = %s\n",
		desc ? desc : "Account Name", org ? org : "Parent/Account Name");
	mgr_say(m, " Associations\n");
	for (size_t i = 0; i < n; i++) {
		if (!mgr_assoc(m, names[i], NULL, NULL))
			mgr_say(m, "  A = %-10.10s C = %-10.10s\n", names[i], cluster(m));
	}
	return commit(m, "adding accounts");
}

static int add_user(struct mgr *m)
{
	struct mu_err err = {0};
	size_t n, n_acct, n_part, fresh = 0, places = 0;
	const char *given = mgr_value(m, F_ACCOUNT, false), *own = mgr_value(m, F_DEFAULT_ACCOUNT, false),
		   *admin = mgr_value(m, F_ADMIN, false);
	char **names = names_of(m, F_USER, &n),
	     **acct = cli_split(&m->cli->arena,
				given ? given
				: own ? own
				      : "",
				&n_acct),
	     **part =
		 cli_split(&m->cli->arena,
			   mgr_value(m, F_PARTITION, false) ? mgr_value(m, F_PARTITION, false) : "", &n_part);
	bool any;

	if (!n) {
		fprintf(stderr, " Need name of user to add.\n");
		return 1;
	}
	for (size_t i = 0; i < n_acct; i++) {
		if (!mgr_account(m, acct[i])) {
			fprintf(stderr,
				" error: This account '%s' doesn't exist.\n        Contact your admin to add "
				"this account.\n",
				acct[i]);
			return 1;
		}
	}
	if (!n_acct && !admin) {
		fprintf(stderr, " Need name of account to add user to.\n");
		return 1;
	}
	for (size_t i = 0; i < n; i++) {
		const Mu__UserRow *u = mgr_user(m, names[i]);
		if (u && !admin && !own) /* Only new places. */
			continue;
		if (!u && !fresh++)
			mgr_say(m, " Adding User(s)\n");
		if (!u)
			mgr_say(m, "  %s\n", names[i]);
	}
	for (size_t i = 0; i < n; i++) {
		const Mu__UserRow *u = mgr_user(m, names[i]);
		if (!u || (own && (!u->default_account || strcmp(u->default_account, own) != 0)) ||
		    (u && !u->default_account && n_acct)) {
			Mu__AccountsChange *c = mgr_change(m, MU__ACCOUNTS_CHANGE__KIND_USER);
			c->user = mu_arena_alloc(&m->cli->arena, sizeof *c->user);
			mu__user_put__init(c->user);
			c->user->name = names[i];
			c->user->has_create = c->user->create = 1;
			c->user->default_account = (char *)(own ? own : n_acct ? acct[0] : NULL);
			if (admin && strncasecmp(admin, "none", 1) != 0) {
				c->user->has_admin = 1;
				c->user->admin = strncasecmp(admin, "operator", 1) == 0 ? 1 : 2;
			}
		}
		for (size_t k = 0; k < n_acct; k++) {
			for (size_t q = 0; q < (n_part ? n_part : 1); q++) {
				const char *partition = n_part ? part[q] : NULL;
				if (mgr_assoc(m, acct[k], names[i], partition))
					continue;
				if (!places++)
					mgr_say(m, " Associations =\n");
				mgr_say(m, "  U = %-9.9s A = %-10.10s C = %-10.10s%s%s\n", names[i], acct[k],
					cluster(m), partition ? " P = " : "", partition ? partition : "");
				Mu__AssocPut *p = new_assoc(m, acct[k], names[i], partition);
				p->has_create = p->create = 1;
				if (assoc_fields(m, p, NULL, false, &any, &err))
					return fail(m, &err);
			}
		}
	}
	if (!m->changes)
		return nothing(m);
	if (fresh && (own || n_acct))
		mgr_say(m, " Settings =\n  Default Account = %s\n", own ? own : acct[0]);
	return commit(m, "adding users");
}

/* ---- QOS ---- */

static int qos_fields(struct mgr *m, Mu__QosPut *p, const Mu__QosRow *old, bool set, bool *ret_any,
		      struct mu_err *err)
{
	int rc = 0;
	int64_t n;

	for (size_t i = 0; i < m->words && !rc; i++) {
		const struct mgr_word *w = &m->word[i];
		if (w->set != set)
			continue;
		bool known = true;
		switch (w->field) {
		case F_DESCRIPTION:
			p->description = (char *)w->value;
			break;
		case F_PRIORITY:
			p->has_priority = 1;
			rc = mu_number_parse("Priority", strcmp(w->value, "-1") ? w->value : "0", 0,
					     UINT32_MAX - 2, &n, err);
			p->priority = (uint32_t)n;
			break;
		case F_FLAGS:
			p->has_set_flags = p->set_flags = 1;
			p->flag = list_value(m, old ? old->flag : NULL, old ? old->n_flag : 0, w, &p->n_flag);
			break;
		case F_PREEMPT:
			p->has_set_preempt = p->set_preempt = 1;
			p->preempt = list_value(m, old ? old->preempt : NULL, old ? old->n_preempt : 0, w,
						&p->n_preempt);
			break;
		case F_PREEMPT_MODE:
			p->preempt_mode = (char *)w->value;
			break;
		case F_GRACE:
			p->has_grace_sec = 1;
			rc = strchr(w->value, ':')
				 ? mu_pause_parse(w->value, &p->grace_sec, err)
				 : mu_number_parse("GraceTime", strcmp(w->value, "-1") ? w->value : "0", 0,
						   UINT32_MAX, &p->grace_sec, err);
			break;
		case F_EXEMPT:
			p->has_exempt_sec = 1;
			rc = mu_pause_parse(w->value, &p->exempt_sec, err);
			break;
		case F_USAGE_FACTOR:
			p->has_usage_factor_milli = 1;
			rc = milli("UsageFactor", strcmp(w->value, "-1") ? w->value : "1",
				   &p->usage_factor_milli, err);
			break;
		case F_USAGE_THRESHOLD:
			p->has_usage_threshold_milli = 1;
			rc = milli("UsageThreshold", w->value, &p->usage_threshold_milli, err);
			break;
		case F_LIMIT_FACTOR:
			p->has_limit_factor_milli = 1;
			rc = milli("LimitFactor", w->value, &p->limit_factor_milli, err);
			break;
		case F_RAW_USAGE:
			p->has_reset_usage = p->reset_usage = 1;
			break;
		case F_LIMIT:
		case F_LEGACY:
			rc = mgr_limit_set(m, &p->limits, w, err);
			break;
		default:
			known = false;
		}
		*ret_any = *ret_any || known;
	}
	return rc;
}

static int add_qos(struct mgr *m)
{
	struct mu_err err = {0};
	size_t n, fresh = 0;
	char **names = names_of(m, F_QOS, &n);
	const char *desc = mgr_value(m, F_DESCRIPTION, false);
	bool any = false;

	if (!n) {
		fprintf(stderr, " Need name of qos to add.\n");
		return 1;
	}
	for (size_t i = 0; i < n; i++) {
		if (mgr_qos(m, names[i]))
			continue;
		if (!fresh++)
			mgr_say(m, " Adding QOS(s)\n");
		mgr_say(m, "  %s\n", names[i]);
		Mu__AccountsChange *c = mgr_change(m, MU__ACCOUNTS_CHANGE__KIND_QOS);
		c->qos = mu_arena_alloc(&m->cli->arena, sizeof *c->qos);
		mu__qos_put__init(c->qos);
		c->qos->name = names[i];
		c->qos->has_create = c->qos->create = 1;
		if (qos_fields(m, c->qos, NULL, false, &any, &err))
			return fail(m, &err);
	}
	if (!fresh)
		return nothing(m);
	mgr_say(m, " Settings\n  Description    = %s\n", desc ? desc : "QOS Name");
	return commit(m, "adding qos");
}

static int coordinators(struct mgr *m, bool remove)
{
	size_t n_user, n_acct;
	const char *given = mgr_value(m, F_ACCOUNT, false);
	char **user = names_of(m, F_USER, &n_user),
	     **acct = cli_split(&m->cli->arena, given ? given : "", &n_acct);

	if (!n_user || !n_acct) {
		fprintf(stderr, " You need to specify both accounts and users: account=NAMES names=USERS\n");
		return 1;
	}
	for (size_t i = 0; i < n_user; i++) {
		if (!mgr_user(m, user[i])) {
			fprintf(stderr, " You specified an invalid user: %s\n", user[i]);
			return 1;
		}
	}
	mgr_say(m, remove ? " Removing Coordinators with user name\n" : " Adding Coordinator User(s)\n");
	for (size_t i = 0; i < n_user; i++)
		mgr_say(m, "  %s\n", user[i]);
	mgr_say(m, remove ? " From Account(s)\n" : " To Account(s) and all sub-accounts\n");
	for (size_t i = 0; i < n_acct; i++) {
		mgr_say(m, "  %s\n", acct[i]);
		Mu__AccountsChange *c = mgr_change(m, MU__ACCOUNTS_CHANGE__KIND_ACCOUNT);
		c->account = mu_arena_alloc(&m->cli->arena, sizeof *c->account);
		mu__account_put__init(c->account);
		c->account->name = acct[i];
		if (remove) {
			c->account->coordinator_remove = user;
			c->account->n_coordinator_remove = n_user;
		} else {
			c->account->coordinator_add = user;
			c->account->n_coordinator_add = n_user;
		}
	}
	return commit(m, remove ? "removing coordinators" : "adding coordinators");
}

static int add_cluster(struct mgr *m)
{
	size_t n;
	char **names = names_of(m, F_CLUSTER, &n);

	for (size_t i = 0; i < n; i++) {
		if (strcmp(names[i], cluster(m)) != 0) {
			fprintf(stderr,
				" A cluster's accounts live in its own log: only %s can be managed here.\n",
				cluster(m));
			return 1;
		}
		mgr_say(m, " This cluster %s already exists.  Not adding.\n", names[i]);
	}
	return nothing(m);
}

int mgr_add(struct mgr *m, enum mgr_entity e)
{
	switch (e) {
	case MGR_ACCOUNT:
		return add_account(m);
	case MGR_USER:
		return add_user(m);
	case MGR_QOS:
		return add_qos(m);
	case MGR_COORDINATOR:
		return coordinators(m, false);
	case MGR_CLUSTER:
		return add_cluster(m);
	default:
		fprintf(stderr,
			"No valid entity in add command\nInput line must include \"Account\", \"Cluster\", "
			"\"Coordinator\", \"QOS\", or \"User\"\n");
		return 1;
	}
}

/* ---- modify ---- */

static bool chosen(const struct mgr *m, const Mu__AssocRow *a, bool users)
{
	bool user = a->user && *a->user;

	if (user != users)
		return false;
	if (users && (!mgr_listed(m, F_NAME, a->user) || !mgr_listed(m, F_USER, a->user)))
		return false;
	if (!users && !mgr_listed(m, F_NAME, a->account))
		return false;
	return mgr_listed(m, F_ACCOUNT, a->account) && mgr_listed(m, F_CLUSTER, cluster(m)) &&
	       mgr_listed(m, F_PARTITION, a->partition) &&
	       mgr_listed(m, F_PARENT, a->parent ? a->parent : "root");
}

static int modified(struct mgr *m, const char *what)
{
	if (!m->changes) {
		mgr_say(m, "  Nothing modified\n");
		return 1;
	}
	return commit(m, what);
}

/* Changes the associations chosen; the number of them. */
static int modify_assocs(struct mgr *m, bool users, size_t *ret, struct mu_err *err)
{
	Mu__AssocPut probe = MU__ASSOC_PUT__INIT;
	bool any = false;
	int rc = assoc_fields(m, &probe, NULL, true, &any, err);

	for (size_t i = 0; i < m->assocs && any && !rc; i++) {
		const Mu__AssocRow *a = m->assoc[i];
		if (!chosen(m, a, users))
			continue;
		if (!(*ret)++)
			mgr_say(m, users ? " Modified user associations...\n"
					 : " Modified account associations...\n");
		mgr_say(m,
			users ? "  C = %-10.10s A = %-20.20s U = %-9.9s\n" : "  C = %-10.10s A = %-20.20s\n",
			cluster(m), a->account, a->user ? a->user : "");
		rc = assoc_fields(m, new_assoc(m, a->account, a->user, a->partition), a, true, &any, err);
	}
	return rc;
}

static int modify_account(struct mgr *m)
{
	struct mu_err err = {0};
	const char *desc = mgr_value(m, F_DESCRIPTION, true), *org = mgr_value(m, F_ORGANIZATION, true);
	size_t n = 0, own = 0;

	for (size_t i = 0; i < m->accounts && (desc || org); i++) {
		if (!mgr_listed(m, F_NAME, m->account[i]->name) ||
		    !mgr_listed(m, F_ACCOUNT, m->account[i]->name))
			continue;
		if (!own++)
			mgr_say(m, " Modified accounts...\n");
		mgr_say(m, "  %s\n", m->account[i]->name);
		Mu__AccountsChange *c = mgr_change(m, MU__ACCOUNTS_CHANGE__KIND_ACCOUNT);
		c->account = mu_arena_alloc(&m->cli->arena, sizeof *c->account);
		mu__account_put__init(c->account);
		c->account->name = m->account[i]->name;
		c->account->description = (char *)desc;
		c->account->organization = (char *)org;
	}
	if (modify_assocs(m, false, &n, &err))
		return fail(m, &err);
	return modified(m, "modifying accounts");
}

static int modify_user(struct mgr *m)
{
	struct mu_err err = {0};
	const char *admin = mgr_value(m, F_ADMIN, true), *own = mgr_value(m, F_DEFAULT_ACCOUNT, true);
	size_t n = 0, users = 0;

	for (size_t i = 0; i < m->users && (admin || own); i++) {
		const char *name = m->user[i]->name;
		if (!mgr_listed(m, F_NAME, name) || !mgr_listed(m, F_USER, name))
			continue;
		if (own && !mgr_assoc(m, own, name, NULL)) {
			fprintf(stderr, " User '%s' has no association with account '%s'; add it first\n",
				name, own);
			return 1;
		}
		if (!users++)
			mgr_say(m, " Modified users...\n");
		mgr_say(m, "  %s\n", name);
		Mu__AccountsChange *c = mgr_change(m, MU__ACCOUNTS_CHANGE__KIND_USER);
		c->user = mu_arena_alloc(&m->cli->arena, sizeof *c->user);
		mu__user_put__init(c->user);
		c->user->name = (char *)name;
		c->user->default_account = (char *)own;
		c->user->has_admin = admin != NULL;
		c->user->admin = !admin || strncasecmp(admin, "none", 1) == 0 ? 0
				 : strncasecmp(admin, "operator", 1) == 0     ? 1
									      : 2;
	}
	if (modify_assocs(m, true, &n, &err))
		return fail(m, &err);
	return modified(m, "modifying users");
}

static int modify_qos(struct mgr *m)
{
	struct mu_err err = {0};
	size_t n = 0;

	for (size_t i = 0; i < m->qoses; i++) {
		bool any = false;
		if (!mgr_listed(m, F_NAME, m->qos[i]->name) || !mgr_listed(m, F_QOS, m->qos[i]->name))
			continue;
		Mu__QosPut *p = mu_arena_alloc(&m->cli->arena, sizeof *p);
		mu__qos_put__init(p);
		p->name = m->qos[i]->name;
		if (qos_fields(m, p, m->qos[i], true, &any, &err))
			return fail(m, &err);
		if (!any)
			continue;
		if (!n++)
			mgr_say(m, " Modified qos...\n");
		mgr_say(m, "  %s\n", p->name);
		mgr_change(m, MU__ACCOUNTS_CHANGE__KIND_QOS)->qos = p;
	}
	return modified(m, "modifying qos");
}

/* The cluster's own limits are those of the root account. */
static int modify_cluster(struct mgr *m)
{
	struct mu_err err = {0};
	bool any = false;
	Mu__AssocRow *root = mgr_assoc(m, "root", NULL, NULL);

	if (!mgr_listed(m, F_NAME, cluster(m)) || !root)
		return modified(m, "modifying clusters");
	mgr_say(m, " Setting\n Default Limits =\n Modified cluster defaults for associations...\n  %s\n",
		cluster(m));
	if (assoc_fields(m, new_assoc(m, "root", NULL, NULL), root, true, &any, &err))
		return fail(m, &err);
	m->changes = any ? m->changes : 0;
	return modified(m, "modifying clusters");
}

int mgr_modify(struct mgr *m, enum mgr_entity e)
{
	bool set = false;

	for (size_t i = 0; i < m->words; i++)
		set = set || m->word[i].set;
	if (!set) {
		fprintf(stderr, " You didn't give me anything to set\n");
		return 1;
	}
	switch (e) {
	case MGR_ACCOUNT:
		return modify_account(m);
	case MGR_USER:
		return modify_user(m);
	case MGR_QOS:
		return modify_qos(m);
	case MGR_CLUSTER:
		return modify_cluster(m);
	default:
		fprintf(stderr, "No valid entity in modify command\nInput line must include \"Account\", "
				"\"Cluster\", \"QOS\", "
				"or \"User\"\n");
		return 1;
	}
}

/* ---- delete ---- */

static Mu__AccountsRemove *new_remove(struct mgr *m)
{
	Mu__AccountsChange *c = mgr_change(m, MU__ACCOUNTS_CHANGE__KIND_REMOVE);

	c->remove = mu_arena_alloc(&m->cli->arena, sizeof *c->remove);
	mu__accounts_remove__init(c->remove);
	return c->remove;
}

static int deleted(struct mgr *m, const char *what)
{
	if (!m->changes) {
		mgr_say(m, " Nothing deleted\n");
		return 0;
	}
	return commit(m, what);
}

/* Is A at or below account TOP? */
static bool is_below(const struct mgr *m, const Mu__AssocRow *a, const char *top)
{
	for (int i = 0; a && i < 100; i++) {
		if (strcmp(a->account, top) == 0)
			return true;
		if (strcmp(a->account, "root") == 0)
			return false;
		const Mu__AssocRow *own = mgr_assoc(m, a->account, NULL, NULL);
		a = own ? mgr_assoc(m, own->parent ? own->parent : "root", NULL, NULL) : NULL;
	}
	return false;
}

/* Is the user's place among those that go? */
static bool goes(const struct mgr *m, const Mu__AssocRow *a)
{
	for (size_t i = 0; i < m->changes; i++) {
		const Mu__AssocPut *p = m->change[i]->remove ? m->change[i]->remove->assoc : NULL;
		if (p && p->user && strcmp(p->account, a->account) == 0 && strcmp(p->user, a->user) == 0 &&
		    strcmp(p->partition ? p->partition : "", a->partition ? a->partition : "") == 0)
			return true;
	}
	return false;
}

/* A user who stays elsewhere keeps his default account. True, with the sentence printed, where one would lose
 * it. */
static bool loses_default(struct mgr *m)
{
	for (size_t i = 0; i < m->assocs; i++) {
		const Mu__AssocRow *a = m->assoc[i];
		const Mu__UserRow *u = a->user && *a->user ? mgr_user(m, a->user) : NULL;
		bool elsewhere = false, here = false;
		if (!u || !u->default_account || strcmp(u->default_account, a->account) != 0 || !goes(m, a))
			continue;
		for (size_t k = 0; k < m->assocs; k++) {
			const Mu__AssocRow *b = m->assoc[k];
			if (!b->user || strcmp(b->user, a->user) != 0 || goes(m, b))
				continue;
			here = here || strcmp(b->account, a->account) == 0;
			elsewhere = elsewhere || strcmp(b->account, a->account) != 0;
		}
		if (!elsewhere || here)
			continue;
		fflush(stdout);
		fprintf(stderr,
			" Error with request: You can not remove the default account of a user association\n"
			"  DefaultAccount = %s User = %s; give the user another default account first\n",
			a->account, a->user);
		return true;
	}
	return false;
}

/* What goes with accounts, from above: accounts, then places of users. */
static void say_below(const struct mgr *m)
{
	for (int users = 0; users < 2; users++) {
		bool some = false;

		for (size_t i = m->changes; i-- > 0;) {
			const Mu__AccountsRemove *r = m->change[i]->remove;

			if ((r->assoc != NULL) != (users != 0))
				continue;
			if (!some)
				mgr_say(m, users ? " Deleting user associations...\n"
						 : " Deleting accounts...\n");
			some = true;
			if (users)
				mgr_say(m, "  C = %-10.10s A = %-20.20s U = %-9.9s\n", cluster(m),
					r->assoc->account, r->assoc->user);
			else
				mgr_say(m, "  %s\n", r->account);
		}
	}
}

/* With an account go the accounts and users' places below it, from below. */
static int delete_account(struct mgr *m)
{
	size_t n, kept = 0;
	char **names = names_of(m, F_ACCOUNT, &n);

	for (size_t i = 0; i < n; i++) {
		if (mgr_account(m, names[i]))
			names[kept++] = names[i];
	}
	for (size_t i = m->assocs; i-- > 0;) {
		const Mu__AssocRow *a = m->assoc[i];
		bool gone = false;

		for (size_t k = 0; k < kept; k++)
			gone = gone || is_below(m, a, names[k]);
		if (!gone)
			continue;
		Mu__AccountsRemove *r = new_remove(m);
		if (a->user && *a->user) {
			r->assoc = mu_arena_alloc(&m->cli->arena, sizeof *r->assoc);
			mu__assoc_put__init(r->assoc);
			r->assoc->account = a->account;
			r->assoc->user = a->user;
			r->assoc->partition = a->partition;
		} else {
			r->account = a->account;
		}
	}
	if (loses_default(m))
		return 1;
	say_below(m);
	return deleted(m, "deleting accounts");
}

static int delete_user(struct mgr *m)
{
	size_t n, n_acct;
	const char *given = mgr_value(m, F_ACCOUNT, false), *part = mgr_value(m, F_PARTITION, false);
	char **names = names_of(m, F_USER, &n);

	(void)cli_split(&m->cli->arena, given ? given : "", &n_acct);
	for (size_t i = 0; i < n && !n_acct && !part; i++) {
		if (!mgr_user(m, names[i]))
			continue;
		if (!m->changes)
			mgr_say(m, " Deleting users...\n");
		mgr_say(m, "  %s\n", names[i]);
		new_remove(m)->user = names[i];
	}
	for (size_t i = 0; i < m->assocs && (n_acct || part) && n; i++) {
		const Mu__AssocRow *a = m->assoc[i];
		if (!chosen(m, a, true))
			continue;
		if (!m->changes)
			mgr_say(m, " Deleting user associations...\n");
		mgr_say(m, "  C = %-10.10s A = %-20.20s U = %-9.9s\n", cluster(m), a->account, a->user);
		Mu__AccountsRemove *r = new_remove(m);
		r->assoc = mu_arena_alloc(&m->cli->arena, sizeof *r->assoc);
		mu__assoc_put__init(r->assoc);
		r->assoc->account = a->account;
		r->assoc->user = a->user;
		r->assoc->partition = a->partition;
	}
	if (loses_default(m))
		return 1;
	return deleted(m, "deleting users");
}

static int delete_qos(struct mgr *m)
{
	size_t n;
	char **names = names_of(m, F_QOS, &n);

	for (size_t i = 0; i < n; i++) {
		if (!mgr_qos(m, names[i]))
			continue;
		if (!m->changes)
			mgr_say(m, " Deleting QOS(s)...\n");
		mgr_say(m, "  %s\n", names[i]);
		new_remove(m)->qos = names[i];
	}
	return deleted(m, "deleting qos");
}

int mgr_delete(struct mgr *m, enum mgr_entity e)
{
	switch (e) {
	case MGR_ACCOUNT:
		return delete_account(m);
	case MGR_USER:
		return delete_user(m);
	case MGR_QOS:
		return delete_qos(m);
	case MGR_COORDINATOR:
		return coordinators(m, true);
	case MGR_CLUSTER:
		fprintf(stderr, " A cluster cannot remove itself from its own log\n");
		return 1;
	default:
		fprintf(
		    stderr,
		    "No valid entity in delete command\nInput line must include \"Account\", \"Cluster\", "
		    "\"Coordinator\", \"QOS\", or \"User\"\n");
		return 1;
	}
}
