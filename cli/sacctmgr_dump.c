/* cli/sacctmgr_dump.c: all accounts as a text that can be edited and loaded again. Lines are KIND - 'name'
 * and then :Field='value' or :Field=number, as sacctmgr has always written them; QOS come first. */
#include "cli/sacctmgr.h"

#include <stdlib.h>
#include <string.h>

/* ---- dump ---- */

static void limits_out(FILE *f, const Mu__Limits *l)
{
	for (unsigned i = 0; i < mgr_limits; i++) {
		struct mu_buf text = {0};

		mu_buf_str(&text, "");
		mgr_limit_text(l, i, &text);
		if (text.len)
			fprintf(f, ":%.*s='%s'", (int)strcspn(mgr_limit_name(i), " "), mgr_limit_name(i),
				(char *)text.data);
		mu_buf_free(&text);
	}
}

static void list_out(FILE *f, const char *name, char *const *list, size_t n)
{
	struct mu_buf text = {0};

	if (!n)
		return;
	mgr_join(list, n, &text);
	fprintf(f, ":%s='%s'", name, (char *)text.data);
	mu_buf_free(&text);
}

static void assoc_out(FILE *f, const Mu__AssocRow *a)
{
	if (a->has_shares && a->shares == 2147483647u)
		fprintf(f, ":Fairshare=parent");
	else
		fprintf(f, ":Fairshare=%u", a->has_shares ? a->shares : 1);
	if (a->priority)
		fprintf(f, ":Priority=%u", a->priority);
	list_out(f, "QOS", a->qos, a->n_qos);
	if (a->default_qos)
		fprintf(f, ":DefaultQOS='%s'", a->default_qos);
	limits_out(f, a->limits);
	fputc('\n', f);
}

static void qos_out(FILE *f, const Mu__QosRow *q)
{
	fprintf(f, "QOS - '%s':Description='%s'", q->name, q->description ? q->description : "");
	if (q->priority)
		fprintf(f, ":Priority=%u", q->priority);
	list_out(f, "Flags", q->flag, q->n_flag);
	list_out(f, "Preempt", q->preempt, q->n_preempt);
	if (q->preempt_mode)
		fprintf(f, ":PreemptMode='%s'", q->preempt_mode);
	if (q->grace_sec)
		fprintf(f, ":GraceTime=%lld", (long long)q->grace_sec);
	if (q->has_usage_factor_milli)
		fprintf(f, ":UsageFactor=%u.%03u", q->usage_factor_milli / 1000,
			q->usage_factor_milli % 1000);
	limits_out(f, q->limits);
	fputc('\n', f);
}

static void user_out(FILE *f, const struct mgr *m, const Mu__AssocRow *a)
{
	static const char *const levels[] = {"None", "Operator", "Administrator"};
	const Mu__UserRow *u = mgr_user(m, a->user);
	bool any = false;

	fprintf(f, "User - '%s'", a->user);
	if (a->partition)
		fprintf(f, ":Partition='%s'", a->partition);
	if (u && u->default_account)
		fprintf(f, ":DefaultAccount='%s'", u->default_account);
	if (u && u->admin && u->admin < 3)
		fprintf(f, ":AdminLevel='%s'", levels[u->admin]);
	for (size_t i = 0; i < m->accounts && u; i++)
		for (size_t k = 0; k < m->account[i]->n_coordinator; k++)
			if (strcmp(m->account[i]->coordinator[k], u->name) == 0) {
				fprintf(f, "%s%s", any ? "," : ":Coordinator='", m->account[i]->name);
				any = true;
			}
	if (any)
		fputc('\'', f);
	assoc_out(f, a);
}

/* Children of ACCOUNT, then theirs: parents before children. */
static void below(FILE *f, const struct mgr *m, const char *account, int depth)
{
	bool any = false;

	for (size_t i = 0; i < m->assocs; i++) {
		const Mu__AssocRow *a = m->assoc[i];
		bool user = a->user && *a->user;
		const char *parent = user ? a->account : a->parent ? a->parent : "root";

		if (strcmp(parent, account) != 0 || (!user && strcmp(a->account, "root") == 0))
			continue;
		if (!any)
			fprintf(f, "Parent - '%s'\n", account);
		any = true;
		if (user) {
			user_out(f, m, a);
			continue;
		}
		const Mu__AccountRow *row = mgr_account(m, a->account);
		fprintf(f, "Account - '%s':Description='%s':Organization='%s'", a->account,
			row && row->description ? row->description : "",
			row && row->organization ? row->organization : "");
		assoc_out(f, a);
	}
	for (size_t i = 0; i < m->assocs && depth < 100; i++) {
		const Mu__AssocRow *a = m->assoc[i];
		if (!(a->user && *a->user) && strcmp(a->account, "root") != 0 &&
		    strcmp(a->parent ? a->parent : "root", account) == 0)
			below(f, m, a->account, depth + 1);
	}
}

static void all_out(FILE *f, const struct mgr *m, const Mu__AssocRow *root)
{
	for (size_t i = 0; i < m->qoses; i++)
		qos_out(f, m->qos[i]);
	fprintf(f, "Cluster - '%s'", m->cli->conf.cluster);
	assoc_out(f, root);
	below(f, m, "root", 0);
}

int mgr_dump(struct mgr *m, char **words, size_t n)
{
	struct mu_err err = {0};
	const char *file = NULL, *cluster = NULL;

	if (mgr_load(m, &err)) {
		cli_error(m->cli, "%s", err.text);
		return 1;
	}
	for (size_t i = 0; i < n; i++) {
		size_t len = strcspn(words[i], "=");
		if (words[i][len] && strncasecmp(words[i], "file", len) == 0)
			file = words[i] + len + 1;
		else
			cluster = words[i][len] ? words[i] + len + 1 : words[i];
	}
	if (cluster && strcmp(cluster, m->cli->conf.cluster) != 0) {
		cli_error(m->cli, "Cluster %s is not known here: this one is %s", cluster,
			  m->cli->conf.cluster);
		return 1;
	}
	if (!file)
		file = mu_arena_printf(&m->cli->arena, "./%s.cfg", m->cli->conf.cluster);
	FILE *f = fopen(file, "we");
	const Mu__AssocRow *root = mgr_assoc(m, "root", NULL, NULL);
	if (!f || !root) {
		cli_error(m->cli, "File %s cannot be written", file);
		if (f)
			fclose(f);
		return 1;
	}
	fprintf(f,
		"# Accounts of %s. \"sacctmgr load file=THIS\" makes what is missing and sets what differs.\n"
		"# A line says what it is, its name in quotes, then :Field=value. What follows a Parent line "
		"is below it.\n",
		m->cli->conf.cluster);
	all_out(f, m, root);
	return fclose(f) ? 1 : 0;
}

/* ---- load ---- */

struct loading {
	struct mgr *m;
	const char *file, *parent;
	unsigned line;
	Mu__AccountsChange *coordinates[1024];
	size_t coordinate_count;
	char **known; /* what a dump would write now: each line behind the name of its parent, in order */
	size_t known_count;
};

static char *known_key(struct loading *l, const char *parent, const char *line)
{
	return mu_arena_printf(&l->m->cli->arena, "%s\n%s", parent, line);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_known(struct loading *l, const char *line)
{
	char *key = known_key(l, l->parent, line);
	return l->known_count && bsearch(&key, l->known, l->known_count, sizeof key, by_text);
}

/* Collects the lines of a dump of what is there, so that equal lines of the file need no change. */
static int learn(struct loading *l, struct mu_err *err)
{
	const Mu__AssocRow *root = mgr_assoc(l->m, "root", NULL, NULL);
	const char *parent = "root";
	char *text = NULL;
	size_t len = 0, lines = 0;
	FILE *f = open_memstream(&text, &len);

	if (f && root)
		all_out(f, l->m, root);
	if (!f || fclose(f)) {
		free(text);
		return mu_fail(err, MU_ENOMEM, "No memory for the accounts that are there");
	}
	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n';
	l->known = mu_arena_alloc(&l->m->cli->arena, (lines + 1) * sizeof *l->known);
	for (char *line = text, *end; (end = strchr(line, '\n')) && l->known_count < lines; line = end + 1) {
		*end = 0;
		if (strncmp(line, "Parent - '", 10) == 0)
			parent = mu_arena_printf(&l->m->cli->arena, "%.*s", (int)strcspn(line + 10, "'"),
						 line + 10);
		else
			l->known[l->known_count++] = known_key(l, parent, line);
	}
	free(text);
	qsort(l->known, l->known_count, sizeof *l->known, by_text);
	return 0;
}

static char *field_value(struct loading *l, char **cursor, char **ret_key)
{
	char *key = *cursor;
	size_t len = strcspn(key, "=:");
	char *value;

	*ret_key = key;
	if (key[len] != '=') {
		*cursor = key + len + (key[len] == ':');
		key[len] = 0;
		return mu_arena_strdup(&l->m->cli->arena, "");
	}
	key[len] = 0;
	value = key + len + 1;
	if (*value == '\'' || *value == '"') {
		char quote = *value++;
		char *end = strchr(value, quote);
		if (!end)
			return NULL;
		*end = 0;
		*cursor = end + 1 + (end[1] == ':');
		return value;
	}
	len = strcspn(value, ":");
	*cursor = value + len + (value[len] == ':');
	value[len] = 0;
	return value;
}

static int bad(const struct loading *l, struct mu_err *err, const char *what)
{
	return mu_fail(err, MU_ESYNTAX, "%s:%u: %s", l->file, l->line, what);
}

/* A limit, or a list, or a number of the association. */
static int assoc_field(struct loading *l, Mu__AssocPut *p, const char *key, const char *value,
		       struct mu_err *err)
{
	bool many;
	struct mgr_word w = {.field = F_LIMIT, .sign = '=', .value = value};

	if (strcasecmp(key, "Fairshare") == 0 || strcasecmp(key, "Shares") == 0) {
		p->has_shares = 1;
		p->shares =
		    strcasecmp(value, "parent") == 0 ? 2147483647u : (uint32_t)strtoul(value, NULL, 10);
		return 0;
	}
	if (strcasecmp(key, "Priority") == 0) {
		p->has_priority = 1;
		p->priority = (uint32_t)strtoul(value, NULL, 10);
		return 0;
	}
	if (strcasecmp(key, "QOS") == 0) {
		p->has_set_qos = p->set_qos = 1;
		p->qos = cli_split(&l->m->cli->arena, value, &p->n_qos);
		return 0;
	}
	if (strcasecmp(key, "DefaultQOS") == 0) {
		p->default_qos = (char *)value;
		return 0;
	}
	w.limit = mgr_limit_of(key, strlen(key), false, &many);
	if (w.limit == mgr_limits)
		return bad(l, err, mu_arena_printf(&l->m->cli->arena, "unknown field '%s'", key));
	return mgr_limit_set(l->m, &p->limits, &w, err);
}

static Mu__AssocPut *assoc_put(struct loading *l, const char *account, const char *user)
{
	Mu__AssocPut *p = mu_arena_alloc(&l->m->cli->arena, sizeof *p);

	mu__assoc_put__init(p);
	p->account = (char *)account;
	p->user = (char *)user;
	p->has_create = p->create = 1;
	return p;
}

static int load_qos(struct loading *l, char *name, char *rest, struct mu_err *err)
{
	Mu__QosPut *q = mu_arena_alloc(&l->m->cli->arena, sizeof *q);
	struct mgr_word w = {.field = F_LIMIT, .sign = '='};
	char *key, *value;
	bool many;
	int rc = 0;

	mu__qos_put__init(q);
	q->name = name;
	q->has_create = q->create = 1;
	while (*rest && !rc) {
		value = field_value(l, &rest, &key);
		if (!value)
			return bad(l, err, "a quote does not end");
		if (strcasecmp(key, "Description") == 0) {
			q->description = value;
		} else if (strcasecmp(key, "Priority") == 0) {
			q->has_priority = 1;
			q->priority = (uint32_t)strtoul(value, NULL, 10);
		} else if (strcasecmp(key, "Flags") == 0) {
			q->has_set_flags = q->set_flags = 1;
			q->flag = cli_split(&l->m->cli->arena, value, &q->n_flag);
		} else if (strcasecmp(key, "Preempt") == 0) {
			q->has_set_preempt = q->set_preempt = 1;
			q->preempt = cli_split(&l->m->cli->arena, value, &q->n_preempt);
		} else if (strcasecmp(key, "PreemptMode") == 0) {
			q->preempt_mode = value;
		} else if (strcasecmp(key, "GraceTime") == 0) {
			q->has_grace_sec = 1;
			q->grace_sec = strtoll(value, NULL, 10);
		} else if (strcasecmp(key, "UsageFactor") == 0) {
			q->has_usage_factor_milli = 1;
			q->usage_factor_milli = (uint32_t)(strtod(value, NULL) * 1000 + 0.5);
		} else {
			w.value = value;
			w.limit = mgr_limit_of(key, strlen(key), true, &many);
			rc = w.limit == mgr_limits
				 ? bad(l, err, mu_arena_printf(&l->m->cli->arena, "unknown field '%s'", key))
				 : mgr_limit_set(l->m, &q->limits, &w, err);
		}
	}
	if (!rc)
		mgr_change(l->m, MU__ACCOUNTS_CHANGE__KIND_QOS)->qos = q;
	return rc;
}

static int load_account(struct loading *l, char *name, char *rest, bool cluster, struct mu_err *err)
{
	Mu__AccountPut *a = mu_arena_alloc(&l->m->cli->arena, sizeof *a);
	Mu__AssocPut *p = assoc_put(l, cluster ? "root" : name, NULL);
	char *key, *value;
	int rc = 0;

	mu__account_put__init(a);
	a->name = name;
	a->has_create = a->create = 1;
	while (*rest && !rc) {
		value = field_value(l, &rest, &key);
		if (!value)
			return bad(l, err, "a quote does not end");
		if (strcasecmp(key, "Description") == 0)
			a->description = value;
		else if (strcasecmp(key, "Organization") == 0)
			a->organization = value;
		else
			rc = assoc_field(l, p, key, value, err);
	}
	if (rc)
		return rc;
	if (!cluster) {
		mgr_change(l->m, MU__ACCOUNTS_CHANGE__KIND_ACCOUNT)->account = a;
		const Mu__AssocRow *old = mgr_assoc(l->m, name, NULL, NULL);
		if (!old || strcmp(old->parent ? old->parent : "root", l->parent) != 0)
			p->parent = (char *)l->parent;
	}
	mgr_change(l->m, MU__ACCOUNTS_CHANGE__KIND_ASSOC)->assoc = p;
	return 0;
}

static int load_user(struct loading *l, char *name, char *rest, struct mu_err *err)
{
	Mu__UserPut *u = mu_arena_alloc(&l->m->cli->arena, sizeof *u);
	Mu__AssocPut *p = assoc_put(l, l->parent, name);
	const Mu__UserRow *old = mgr_user(l->m, name);
	char *key, *value;
	int rc = 0;

	mu__user_put__init(u);
	u->name = name;
	u->has_create = u->create = 1;
	while (*rest && !rc) {
		value = field_value(l, &rest, &key);
		if (!value)
			return bad(l, err, "a quote does not end");
		if (strcasecmp(key, "DefaultAccount") == 0) {
			if (strcmp(value, l->parent) == 0) /* Others are there later in the file. */
				u->default_account = value;
		} else if (strcasecmp(key, "AdminLevel") == 0) {
			unsigned level = strncasecmp(value, "o", 1) == 0   ? 1
					 : strncasecmp(value, "a", 1) == 0 ? 2
									   : 0;
			u->has_admin = !old || old->admin != level;
			u->admin = level;
		} else if (strcasecmp(key, "Partition") == 0) {
			p->partition = value;
		} else if (strcasecmp(key, "Coordinator") == 0) {
			size_t n;
			char **accounts = cli_split(&l->m->cli->arena, value, &n);
			for (size_t i = 0; i < n && l->coordinate_count < 1024; i++) {
				Mu__AccountsChange *c = mu_arena_alloc(&l->m->cli->arena, sizeof *c);
				mu__accounts_change__init(c);
				c->kind_case = MU__ACCOUNTS_CHANGE__KIND_ACCOUNT;
				c->account = mu_arena_alloc(&l->m->cli->arena, sizeof *c->account);
				mu__account_put__init(c->account);
				c->account->name = accounts[i];
				c->account->coordinator_add =
				    mu_arena_alloc(&l->m->cli->arena, sizeof(char *));
				c->account->coordinator_add[0] = name;
				c->account->n_coordinator_add = 1;
				l->coordinates[l->coordinate_count++] = c;
			}
		} else if (strncasecmp(key, "Default", 7) != 0 || strcasecmp(key, "DefaultQOS") == 0) {
			rc = assoc_field(l, p, key, value, err);
		}
	}
	if (rc)
		return rc;
	mgr_change(l->m, MU__ACCOUNTS_CHANGE__KIND_USER)->user = u;
	mgr_change(l->m, MU__ACCOUNTS_CHANGE__KIND_ASSOC)->assoc = p;
	return 0;
}

static int load_line(struct loading *l, char *line, struct mu_err *err)
{
	char *dash = strstr(line, " - "), *name, *end, *rest;

	line[strcspn(line, "\r\n")] = 0;
	if (!*line || *line == '#' || is_known(l, line))
		return 0;
	if (!dash || (dash[3] != '\'' && dash[3] != '"') || !(end = strchr(dash + 4, dash[3])))
		return bad(l, err, "a line is written KIND - 'name':Field=value");
	*dash = *end = 0;
	name = dash + 4;
	rest = end + 1 + (end[1] == ':');
	if (strcasecmp(line, "Parent") == 0) {
		l->parent = name;
		return 0;
	}
	if (strcasecmp(line, "QOS") == 0)
		return load_qos(l, name, rest, err);
	if (strcasecmp(line, "Account") == 0 || strcasecmp(line, "Project") == 0)
		return load_account(l, name, rest, false, err);
	if (strcasecmp(line, "User") == 0)
		return load_user(l, name, rest, err);
	if (strcasecmp(line, "Cluster") != 0)
		return bad(l, err,
			   "Misformatted line: only QOS, Cluster, Parent, Account and User begin one");
	if (strcmp(name, l->m->cli->conf.cluster) != 0)
		return bad(
		    l, err,
		    mu_arena_printf(&l->m->cli->arena, "the cluster here is %s", l->m->cli->conf.cluster));
	return load_account(l, name, rest, true, err);
}

int mgr_read(struct mgr *m, char **words, size_t n)
{
	struct loading *l = mu_arena_alloc(&m->cli->arena, sizeof *l);
	struct mu_err err = {0};
	char *text = NULL;
	size_t len;
	int rc = mgr_load(m, &err);

	memset(l, 0, sizeof *l);
	l->m = m;
	l->parent = "root";
	for (size_t i = 0; i < n; i++) {
		size_t k = strcspn(words[i], "=");
		if (words[i][k] && strncasecmp(words[i], "file", k) == 0)
			l->file = words[i] + k + 1;
		else if (strcasecmp(words[i], "clean") == 0)
			rc = mu_fail(&err, MU_EDISABLED,
				     "load clean is not part of this version: delete the accounts first");
		else if (!words[i][k])
			l->file = words[i];
	}
	if (!rc && !l->file)
		rc = mu_fail(&err, MU_EINVAL, "No filename was given: load file=NAME");
	if (!rc)
		rc = cli_read_file(l->file, 64 << 20, &m->cli->arena, &text, &len, &err);
	if (!rc)
		rc = learn(l, &err);
	for (char *line = text; !rc && line && *line;) {
		char *next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		l->line++;
		rc = load_line(l, line, &err);
		line = next;
	}
	for (size_t i = 0; i < l->coordinate_count && !rc; i++) {
		Mu__AccountsChange *c = mgr_change(m, MU__ACCOUNTS_CHANGE__KIND_ACCOUNT);
		*c = *l->coordinates[i];
	}
	if (rc) {
		cli_error(m->cli, "%s", err.text);
		return 1;
	}
	if (!m->changes) {
		mgr_say(m, " Nothing new added.\n");
		return 0;
	}
	mgr_say(m, "For cluster %s: %zu changes\n", m->cli->conf.cluster, m->changes);
	if (!mgr_confirm(m))
		return 0;
	if (mgr_send(m, &err)) {
		fprintf(stderr, " Problem loading accounts: %s\n", err.text);
		return 1;
	}
	return 0;
}
