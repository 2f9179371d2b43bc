/* cli/sacctmgr.c: accounts, users, associations and QOS: words, rows, sending. Listing is sacctmgr_list.c,
 * changes sacctmgr_change.c, dump and load sacctmgr_dump.c. */
#include "cli/sacctmgr.h"

#include <ctype.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/model.h"
#include "cli/prompt.h"

/* ---- limits by their rows ---- */

enum { A = 1, Q = 2, AQ = 3, COUNT = 0, WALL = 1, TRES = 2 };
static const struct {
	const char *names;
	unsigned owners, kind;
	size_t offset, has; /* of the field and its count or has flag in Mu__Limits */
} limits[] = {
#define MU_LIMIT_PLAIN(id, field, owners, names, heading, width, kind, assoc_reason, qos_reason) \
	{names, owners, kind, offsetof(Mu__Limits, field), offsetof(Mu__Limits, has_##field)},
#define MU_LIMIT_TRES(id, field, owners, names, heading, width, assoc_reason, qos_reason) \
	{names, owners, TRES, offsetof(Mu__Limits, field), offsetof(Mu__Limits, n_##field)},
#include "proto/limits.def"
};
const unsigned mgr_limits = sizeof limits / sizeof *limits;

/* Names from before TRES, which mean one resource of a limit. */
static const struct {
	const char *name, *limit, *tres;
} legacy[] = {{"GrpCPUs", "GrpTRES", "cpu"},
	      {"GrpMemory", "GrpTRES", "mem"},
	      {"GrpNodes", "GrpTRES", "node"},
	      {"GrpCPUMins", "GrpTRESMins", "cpu"},
	      {"GrpCPURunMins", "GrpTRESRunMins", "cpu"},
	      {"MaxCPUs", "MaxTRES", "cpu"},
	      {"MaxNodes", "MaxTRES", "node"},
	      {"MaxCPUMins", "MaxTRESMins", "cpu"}};

/* Is KEY one of NAMES, or (0) the beginning of one (1)? 2: neither. */
static int match(const char *names, const char *key, size_t len)
{
	int best = 2;

	for (const char *p = names; *p;) {
		size_t n = strcspn(p, " ");

		if (n >= len && strncasecmp(p, key, len) == 0 && best > (n == len ? 0 : 1))
			best = n == len ? 0 : 1;
		p += n + (p[n] == ' ');
	}
	return best;
}

unsigned mgr_limit_of(const char *key, size_t len, bool qos, bool *ret_many)
{
	unsigned found = mgr_limits, count = 0;

	for (unsigned i = 0; i < mgr_limits; i++) {
		int how = limits[i].owners & (qos ? Q : A) ? match(limits[i].names, key, len) : 2;

		if (how == 0) {
			*ret_many = false;
			return i;
		}
		if (how == 1) {
			found = i;
			count++;
		}
	}
	*ret_many = count > 1;
	return count == 1 ? found : mgr_limits;
}

const char *mgr_limit_name(unsigned limit)
{
	return limits[limit].names;
}

void mgr_tres(Mu__TresCount *const *v, size_t n, struct mu_buf *out)
{
	char memory[24];

	for (size_t i = 0; i < n; i++) {
		mu_buf_printf(out, "%s%s=", i ? "," : "", v[i]->name);
		if (strcmp(v[i]->name, "mem") == 0 && v[i]->count > 0) {
			mu_mem_print((uint64_t)v[i]->count, 0, memory);
			mu_buf_str(out, memory);
		} else {
			mu_buf_printf(out, "%lld", (long long)v[i]->count);
		}
	}
}

void mgr_limit_text(const Mu__Limits *l, unsigned limit, struct mu_buf *out)
{
	char span[32];

	if (!l)
		return;
	const char *at = (const char *)l;
	if (limits[limit].kind == TRES) {
		mgr_tres(*(Mu__TresCount ***)(at + limits[limit].offset),
			 *(const size_t *)(at + limits[limit].has), out);
		return;
	}
	if (!*(const protobuf_c_boolean *)(at + limits[limit].has))
		return;
	int64_t value = *(const int64_t *)(at + limits[limit].offset);
	if (limits[limit].kind == WALL) {
		mu_span_print(value, 0, span);
		mu_buf_str(out, span);
	} else {
		mu_buf_printf(out, "%lld", (long long)value);
	}
}

static int tres_known(const char *name, struct mu_err *err)
{
	static const char *const plain[] = {"cpu",     "mem",	  "energy", "node",
					    "billing", "fs/disk", "vmem",   "pages"};

	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
		if (strcmp(plain[i], name) == 0)
			return 0;
	}
	if (strncmp(name, "gres/", 5) == 0 || strncmp(name, "license/", 8) == 0 ||
	    strncmp(name, "bb/", 3) == 0)
		return 0;
	return mu_fail(err, MU_EINVAL, "Unknown TRES type '%s'", name);
}

/* "cpu=4,mem=2G,gres/gpu=-1" added to the list. */
static int tres_list(struct mgr *m, const char *text, bool memory, Mu__TresCount ***list, size_t *count,
		     struct mu_err *err)
{
	size_t n;
	char **words = cli_split(&m->cli->arena, text, &n);
	Mu__TresCount **v = mu_arena_alloc(&m->cli->arena, (*count + n + 1) * sizeof *v);

	if (*count)
		memcpy(v, *list, *count * sizeof *v);
	for (size_t i = 0; i < n; i++) {
		Mu__TresCount *t = mu_arena_alloc(&m->cli->arena, sizeof *t);
		char *at = strrchr(words[i], '=');
		uint64_t mib;
		int rc = 0;

		mu__tres_count__init(t);
		if (!at || at == words[i])
			return mu_fail(err, MU_EINVAL, "Bad TRES list '%s': write cpu=4,mem=2G,gres/gpu=1",
				       text);
		*at = 0;
		for (char *c = words[i]; *c && *c != ':'; c++)
			*c = (char)tolower((unsigned char)*c);
		t->name = words[i];
		t->has_count = 1;
		if (strcmp(at + 1, "-1") == 0) {
			t->count = -1;
		} else if (memory && strcmp(t->name, "mem") == 0) {
			rc = mu_mem_parse(at + 1, &mib, err);
			t->count = (int64_t)mib;
		} else {
			rc = mu_number_parse(t->name, at + 1, 0, INT64_MAX / 256, &t->count, err);
		}
		if (!rc)
			rc = tres_known(t->name, err);
		if (rc)
			return rc;
		v[(*count)++] = t;
	}
	*list = v;
	return 0;
}

int mgr_limit_set(struct mgr *m, Mu__Limits **l, const struct mgr_word *w, struct mu_err *err)
{
	unsigned limit = w->limit;
	const char *value = w->value;
	bool many;

	if (w->field == F_LEGACY) {
		value = mu_arena_printf(&m->cli->arena, "%s=%s", legacy[w->limit].tres, w->value);
		limit = mgr_limit_of(legacy[w->limit].limit, strlen(legacy[w->limit].limit), false, &many);
	}
	if (!*l) {
		*l = mu_arena_alloc(&m->cli->arena, sizeof **l);
		mu__limits__init(*l);
	}
	char *at = (char *)*l;
	int64_t *field = (int64_t *)(at + limits[limit].offset);
	if (limits[limit].kind == TRES)
		return tres_list(m, value, !strstr(limits[limit].names, "Mins"),
				 (Mu__TresCount ***)(at + limits[limit].offset),
				 (size_t *)(at + limits[limit].has), err);
	*(protobuf_c_boolean *)(at + limits[limit].has) = 1;
	if (strcmp(value, "-1") == 0) {
		*field = -1;
		return 0;
	}
	if (limits[limit].kind == WALL)
		return mu_span_parse(value, field, err);
	return mu_number_parse(limits[limit].names, value, 0, UINT32_MAX - 2, field, err);
}

/* ---- rows ---- */

void mgr_say(const struct mgr *m, const char *format, ...)
{
	va_list args;

	if (m->cli->quiet)
		return;
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
}

void mgr_join(char *const *list, size_t n, struct mu_buf *out)
{
	for (size_t i = 0; i < n; i++)
		mu_buf_printf(out, "%s%s", i ? "," : "", list[i]);
}

static bool same(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

Mu__AssocRow *mgr_assoc(const struct mgr *m, const char *account, const char *user, const char *partition)
{
	for (size_t i = 0; i < m->assocs; i++) {
		Mu__AssocRow *a = m->assoc[i];
		if (same(a->account, account) && same(a->user, user) && same(a->partition, partition))
			return a;
	}
	return NULL;
}

Mu__AccountRow *mgr_account(const struct mgr *m, const char *name)
{
	for (size_t i = 0; i < m->accounts; i++) {
		if (same(m->account[i]->name, name))
			return m->account[i];
	}
	return NULL;
}

Mu__UserRow *mgr_user(const struct mgr *m, const char *name)
{
	for (size_t i = 0; i < m->users; i++) {
		if (same(m->user[i]->name, name))
			return m->user[i];
	}
	return NULL;
}

Mu__QosRow *mgr_qos(const struct mgr *m, const char *name)
{
	for (size_t i = 0; i < m->qoses; i++) {
		if (same(m->qos[i]->name, name))
			return m->qos[i];
	}
	return NULL;
}

static int rows(struct mgr *m, int what, const ProtobufCMessageDescriptor *type, void *ret, size_t *ret_n,
		struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;

	ask.has_what = 1;
	ask.what = what;
	return cli_query_all(m->cli, &ask, type, (void ***)ret, ret_n, err);
}

static int by_place(const void *x, const void *y)
{
	const Mu__AssocRow *a = *(Mu__AssocRow *const *)x, *b = *(Mu__AssocRow *const *)y;
	bool ua = a->user && *a->user, ub = b->user && *b->user;

	if (ua != ub)
		return ua ? -1 : 1;
	int d = ua ? strcmp(a->user, b->user) : strcmp(a->account, b->account);
	if (!d)
		d = strcmp(a->partition ? a->partition : "", b->partition ? b->partition : "");
	return d ? d : a->id < b->id ? -1 : a->id > b->id;
}

/* A and what hangs below it, numbered on the way down and up. */
static void walk(struct mgr *m, Mu__AssocRow **all, size_t n, Mu__AssocRow *a, uint32_t depth,
		 uint32_t *number)
{
	size_t at = m->assocs++;
	bool user = a->user && *a->user;

	m->assoc[at] = a;
	m->depth[at] = depth;
	m->lft[at] = ++*number;
	for (size_t i = 0; i < n && !user && depth < 100; i++) {
		bool is_user = all[i]->user && *all[i]->user;
		const char *above = is_user ? all[i]->account : all[i]->parent ? all[i]->parent : "root";

		if (all[i] != a && strcmp(above, a->account) == 0 &&
		    (is_user || strcmp(all[i]->account, "root") != 0))
			walk(m, all, n, all[i], depth + 1, number);
	}
	m->rgt[at] = ++*number;
}

const Mu__AssocRow *mgr_qos_holder(const struct mgr *m, const Mu__AssocRow *a)
{
	for (int i = 0; a && !a->n_qos && i < 100; i++)
		a = a->user && *a->user ? mgr_assoc(m, a->account, NULL, NULL)
		    : strcmp(a->account, "root") == 0
			? NULL
			: mgr_assoc(m, a->parent ? a->parent : "root", NULL, NULL);
	return a && a->n_qos ? a : NULL;
}

int mgr_load(struct mgr *m, struct mu_err *err)
{
	Mu__AssocRow **all;
	size_t n;
	uint32_t number = 0;
	int rc =
	    rows(m, MU__WHAT__WHAT_ACCOUNTS, &mu__account_row__descriptor, &m->account, &m->accounts, err);

	if (!rc)
		rc = rows(m, MU__WHAT__WHAT_USERS, &mu__user_row__descriptor, &m->user, &m->users, err);
	if (!rc)
		rc = rows(m, MU__WHAT__WHAT_QOS, &mu__qos_row__descriptor, &m->qos, &m->qoses, err);
	if (!rc)
		rc = rows(m, MU__WHAT__WHAT_ASSOCS, &mu__assoc_row__descriptor, &all, &n, err);
	if (rc)
		return rc;
	m->assoc = mu_arena_alloc(&m->cli->arena, (n + 1) * sizeof *m->assoc);
	m->depth = mu_arena_alloc(&m->cli->arena, (n + 1) * sizeof *m->depth);
	m->lft = mu_arena_alloc(&m->cli->arena, (n + 1) * sizeof *m->lft);
	m->rgt = mu_arena_alloc(&m->cli->arena, (n + 1) * sizeof *m->rgt);
	if (n)
		qsort(all, n, sizeof *all, by_place);
	for (size_t i = 0; i < n; i++) {
		if (strcmp(all[i]->account, "root") == 0 && !(all[i]->user && *all[i]->user))
			walk(m, all, n, all[i], 0, &number);
	}
	return 0;
}

/* ---- sending ---- */

Mu__AccountsChange *mgr_change(struct mgr *m, Mu__AccountsChange__KindCase kind)
{
	if (m->changes == m->change_cap) {
		size_t cap = m->change_cap ? 2 * m->change_cap : 64;
		Mu__AccountsChange **more = mu_arena_alloc(&m->cli->arena, cap * sizeof *more);

		if (m->changes)
			memcpy(more, m->change, m->changes * sizeof *more);
		m->change = more;
		m->change_cap = cap;
	}
	Mu__AccountsChange *c = m->change[m->changes++] = mu_arena_alloc(&m->cli->arena, sizeof *c);
	mu__accounts_change__init(c);
	c->kind_case = kind;
	return c;
}

bool mgr_confirm(struct mgr *m)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	char answer = 'n';

	if (cli_args_has(m->args, OPT_mgr_immediate))
		return true;
	printf("Would you like to commit changes? (You have 30 seconds to decide)\n(N/y): ");
	fflush(stdout);
	if (poll(&in, 1, 30000) > 0 && read(STDIN_FILENO, &answer, 1) == 1 &&
	    (answer == 'y' || answer == 'Y'))
		return true;
	printf(" Changes Discarded\n");
	return false;
}

int mgr_send(struct mgr *m, struct mu_err *err)
{
	enum { AT_ONCE = 1000 };

	for (size_t i = 0; i < m->changes; i += AT_ONCE) {
		Mu__Request request = MU__REQUEST__INIT;
		Mu__EventAsk ask = MU__EVENT_ASK__INIT;
		Mu__Event event = MU__EVENT__INIT;
		Mu__AccountsChanged changed = MU__ACCOUNTS_CHANGED__INIT;
		Mu__Reply *reply;

		changed.change = m->change + i;
		changed.n_change = m->changes - i < AT_ONCE ? m->changes - i : AT_ONCE;
		changed.line = (char *)m->line;
		event.kind_case = MU__EVENT__KIND_ACCOUNTS_CHANGED;
		event.accounts_changed = &changed;
		ask.event = &event;
		request.ask_case = MU__REQUEST__ASK_EVENT;
		request.event = &ask;
		int rc = cli_ask_done(m->cli, &request, &reply, err);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- words ---- */

static const struct {
	enum mgr_field field;
	const char *names;
} fields[] = {{F_CLUSTER, "Clusters"},
	      {F_ACCOUNT, "Accounts Account Acct"},
	      {F_USER, "Users User"},
	      {F_NAME, "Names Name"},
	      {F_PARTITION, "Partitions"},
	      {F_PARENT, "ParentName Parent"},
	      {F_DESCRIPTION, "Description"},
	      {F_ORGANIZATION, "Organization"},
	      {F_SHARES, "Fairshare Shares"},
	      {F_PRIORITY, "Priority"},
	      {F_QOS, "QosLevel QOS"},
	      {F_DEFAULT_QOS, "DefaultQOS DefQOS"},
	      {F_DEFAULT_ACCOUNT, "DefaultAccount DefAccount"},
	      {F_ADMIN, "AdminLevel"},
	      {F_COMMENT, "Comment"},
	      {F_RAW_USAGE, "RawUsage"},
	      {F_FORMAT, "Format"},
	      {F_FLAGS, "Flags"},
	      {F_GRACE, "GraceTime"},
	      {F_PREEMPT, "Preempt"},
	      {F_PREEMPT_MODE, "PreemptMode"},
	      {F_EXEMPT, "PreemptExemptTime"},
	      {F_USAGE_FACTOR, "UsageFactor"},
	      {F_USAGE_THRESHOLD, "UsageThreshold"},
	      {F_LIMIT_FACTOR, "LimitFactor"},
	      {F_WITH_ASSOC, "WithAssoc WithAssociations"},
	      {F_WITH_COORD, "WithCoordinators"},
	      {F_TREE, "Tree"},
	      {F_START, "Start"},
	      {F_ID, "IDs"},
	      {F_FILE, "File"},
	      {F_IGNORED,
	       "WithDeleted WithSubAccounts WithRawQOSLevel WOPInfo WOPLimits OnlyDefaults End Action Actor "
	       "Classification DefaultWCKey WCKeys NewName WithClusters"}};

/* Which field the first LEN bytes of KEY name. */
static enum mgr_field field_of(const char *key, size_t len, bool qos, unsigned *ret_limit)
{
	enum mgr_field found = F_UNKNOWN;
	unsigned count = 0;
	bool many = false;

	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		int how = match(fields[i].names, key, len);
		if (how == 0)
			return fields[i].field;
		if (how == 1) {
			found = fields[i].field;
			count++;
		}
	}
	for (size_t i = 0; i < sizeof legacy / sizeof *legacy; i++) {
		if (match(legacy[i].name, key, len) < 2 && len + 1 >= strlen(legacy[i].name)) {
			*ret_limit = (unsigned)i;
			return F_LEGACY;
		}
	}
	*ret_limit = mgr_limit_of(key, len, qos, &many);
	if (*ret_limit < mgr_limits && count == 0)
		return F_LIMIT;
	return count == 1 && !many && *ret_limit == mgr_limits ? found : F_UNKNOWN;
}

/* A word without "=": a switch, or the name of what is meant. */
static bool bare(struct mgr *m, const char *word, enum mgr_entity e, bool set)
{
	struct mgr_word *w = &m->word[m->words];
	unsigned limit;
	enum mgr_field f = field_of(word, strlen(word), e == MGR_QOS, &limit);

	if (f == F_WITH_ASSOC || f == F_WITH_COORD || f == F_TREE || (f == F_IGNORED && strlen(word) > 4)) {
		*w = (struct mgr_word){.field = f, .sign = '=', .value = ""};
		m->words++;
		return true;
	}
	*w = (struct mgr_word){.field = F_NAME, .sign = '=', .value = word, .set = set};
	m->words++;
	return true;
}

static const char *unquote(struct mgr *m, const char *value)
{
	size_t len = strlen(value);

	if (len >= 2 && (value[0] == '"' || value[0] == '\'') && value[len - 1] == value[0])
		return mu_arena_printf(&m->cli->arena, "%.*s", (int)(len - 2), value + 1);
	return value;
}

static int parse(struct mgr *m, char **words, size_t n, enum mgr_entity e, bool modify, struct mu_err *err)
{
	bool set = false;

	for (size_t i = 0; i < n; i++) {
		size_t len = strcspn(words[i], "=");
		struct mgr_word *w = &m->word[m->words];

		if (m->words + 1 >= MGR_WORDS_MAX)
			return mu_fail(err, MU_ELIMIT, "At most %d words are read", MGR_WORDS_MAX);
		if (strcasecmp(words[i], "where") == 0 || strcasecmp(words[i], "set") == 0) {
			set = strcasecmp(words[i], "set") == 0;
			continue;
		}
		if (!words[i][len]) {
			bare(m, words[i], e, set && modify);
			continue;
		}
		w->sign =
		    len && (words[i][len - 1] == '+' || words[i][len - 1] == '-') ? words[i][len - 1] : '=';
		w->field = field_of(words[i], len - (w->sign != '='), e == MGR_QOS, &w->limit);
		w->value = unquote(m, words[i] + len + 1);
		w->set = set;
		if (w->field == F_UNKNOWN)
			return mu_fail(err, MU_EINVAL, " Unknown %s: %s", modify ? "option" : "condition",
				       words[i]);
		m->words++;
	}
	return 0;
}

const struct mgr_word *mgr_find(const struct mgr *m, enum mgr_field field, bool set)
{
	for (size_t i = m->words; i-- > 0;) {
		if (m->word[i].field == field && m->word[i].set == set)
			return &m->word[i];
	}
	return NULL;
}

const char *mgr_value(const struct mgr *m, enum mgr_field field, bool set)
{
	const struct mgr_word *w = mgr_find(m, field, set);

	return w ? w->value : NULL;
}

bool mgr_listed(const struct mgr *m, enum mgr_field field, const char *name)
{
	bool any = false;

	for (size_t i = 0; i < m->words; i++) {
		const struct mgr_word *w = &m->word[i];
		size_t len = name ? strlen(name) : 0;

		if (w->field != field || w->set)
			continue;
		any = true;
		for (const char *p = w->value; *p;) {
			size_t k = strcspn(p, ",");
			if (k == len && strncasecmp(p, name ? name : "", k) == 0)
				return true;
			p += k + (p[k] == ',');
		}
	}
	return !any;
}

/* ---- the command ---- */

static const struct {
	enum mgr_entity e;
	const char *names;
} entities[] = {{MGR_ACCOUNT, "Accounts"},
		{MGR_ASSOC, "Associations"},
		{MGR_CLUSTER, "Clusters"},
		{MGR_COORDINATOR, "Coordinators"},
		{MGR_CONFIGURATION, "Configuration"},
		{MGR_EVENT, "Events"},
		{MGR_PROBLEM, "Problems"},
		{MGR_QOS, "QOS"},
		{MGR_RESOURCE, "Resources"},
		{MGR_RUNAWAY, "RunawayJobs"},
		{MGR_STATS, "Stats"},
		{MGR_TRANSACTION, "Transactions"},
		{MGR_TRES, "TRES"},
		{MGR_USER, "Users"},
		{MGR_WCKEY, "WCKeys"}};

static enum mgr_entity entity_of(const char *word)
{
	enum mgr_entity found = 0;
	unsigned count = 0;

	for (size_t i = 0; word && i < sizeof entities / sizeof *entities; i++) {
		if (match(entities[i].names, word, strlen(word)) < 2) {
			found = entities[i].e;
			count++;
		}
	}
	return count == 1 ? found : 0;
}

static int no_entity(const char *verb, const char *list)
{
	fprintf(stderr, "No valid entity in %s command\nInput line must include %s\n", verb, list);
	return 1;
}

enum verb {
	V_ADD = 1,
	V_LIST,
	V_MODIFY,
	V_DELETE,
	V_DUMP,
	V_LOAD,
	V_PING,
	V_VERSION,
	V_HELP,
	V_RECONFIGURE,
	V_ASSOCIATIONS,
	V_MODE,
	V_END
};
static const struct {
	enum verb v;
	const char *names;
	size_t least;
} verbs[] = {{V_ADD, "add create", 2},
	     {V_LIST, "list show", 1},
	     {V_MODIFY, "modify update", 1},
	     {V_DELETE, "delete remove", 2},
	     {V_DUMP, "dump", 2},
	     {V_LOAD, "load", 2},
	     {V_PING, "ping", 1},
	     {V_VERSION, "version", 1},
	     {V_HELP, "help", 1},
	     {V_RECONFIGURE, "reconfigure", 3},
	     {V_ASSOCIATIONS, "associations", 2},
	     {V_MODE, "oneliner quiet verbose parsable", 4},
	     {V_END, "exit quit", 2}};

/* What Slurm keeps in its database and here is kept elsewhere: verbs, and things that a verb names. */
static const struct {
	const char *names, *why;
} absent[] = {
    {"archive",
     "there is no database to archive: every change stays in the log, and muster log export writes it "
     "to files"},
    {"clear", "counters are part of the cluster's history and are never reset"},
    {"shutdown", "accounts live in the controllers, which scontrol shutdown ends"},
    {"federations", "there are no federations"},
    {"instances", "nodes have no instances of a cloud; scontrol update NodeName=N InstanceId= notes one"},
    {"jobs", "scontrol update JobId=N changes a job that is not over; one that is over is history"},
    {"reservations", "scontrol show reservation lists them, sreport reservation what they were used for"},
    {"resources", "licences are those of Licenses= in muster.conf; scontrol show licenses lists them"},
    {"wckeys",
     "wckeys are words of jobs and are not kept as a list; sreport cluster WCKeyUtilizationByUser tells "
     "which were used"},
};

static bool is_absent(const struct mgr *m, const char *word)
{
	for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
		if (strlen(word) >= 3 && match(absent[i].names, word, strlen(word)) < 2) {
			cli_error(m->cli, "%s is not supported: %s", absent[i].names, absent[i].why);
			return true;
		}
	}
	return false;
}

static enum verb verb_of(const char *word)
{
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
		if (strlen(word) >= verbs[i].least && match(verbs[i].names, word, strlen(word)) < 2)
			return verbs[i].v;
	}
	return 0;
}

static int say_error(struct mgr *m, const struct mu_err *err)
{
	fflush(stdout);
	if (err->text[0] == ' ')
		fprintf(stderr, "%s\n", err->text);
	else
		cli_error(m->cli, "%s", err->text);
	return 1;
}

static int on_entity(struct mgr *m, enum verb v, char **words, size_t n)
{
	struct mu_err err = {0};
	enum mgr_entity e = n ? entity_of(words[0]) : 0;

	if (n && (!e || e == MGR_WCKEY || e == MGR_RESOURCE) && is_absent(m, words[0]))
		return 1;
	if (v == V_LIST && !e)
		return no_entity("list", "\"Account\", \"Association\", \"Cluster\", "
					 "\"Configuration\",\n\"Coordinator\", \"Event\", "
					 "\"Problem\", \"QOS\", \"Resource\", \"RunawayJobs\",\n\"Stats\", "
					 "\"Transaction\", \"TRES\", "
					 "\"User\", or \"WCKey\"");
	if (!e)
		return no_entity(v == V_ADD	 ? "add"
				 : v == V_MODIFY ? "modify"
						 : "delete",
				 "\"Account\", \"Cluster\", \"Coordinator\", \"QOS\", or \"User\"");
	if (parse(m, words + 1, n - 1, e, v == V_MODIFY, &err) || mgr_load(m, &err))
		return say_error(m, &err);
	switch (v) {
	case V_ADD:
		return mgr_add(m, e);
	case V_MODIFY:
		return mgr_modify(m, e);
	case V_DELETE:
		return mgr_delete(m, e);
	default:
		return mgr_list(m, e);
	}
}

static int ping(struct mgr *m)
{
	struct mu_err err = {0};
	int rc = mgr_load(m, &err);

	if (rc)
		return say_error(m, &err);
	printf("slurmdbd(primary) at %s is UP\n",
	       m->cli->conf.controllers ? m->cli->conf.controller[0].name : "localhost");
	return 0;
}

static const char *whole_line(struct cli *c, char **words, size_t n)
{
	struct mu_buf out = {0};

	mu_buf_str(&out, "sacctmgr");
	for (size_t i = 0; i < n && out.len < 2000; i++)
		mu_buf_printf(&out, " %.500s", words[i]);
	const char *line = mu_arena_strdup(&c->arena, (const char *)out.data);
	mu_buf_free(&out);
	return line;
}

static int run(struct mgr *m, char **words, size_t n)
{
	struct cli *c = m->cli;
	enum verb v = verb_of(words[0]);

	m->line = whole_line(c, words, n);
	if (c->at && v != V_LIST && v != V_DUMP) {
		cli_error(c, "--at is for what shows, and changes nothing: show, list, dump");
		return 1;
	}
	if (cli_model_wanted(m->args) && v != V_LIST && v != V_ASSOCIATIONS) {
		cli_error(c, "--json and --yaml are for what shows: show, list");
		return 1;
	}
	if (cli_args_has(m->args, OPT_mgr_readonly) &&
	    (v == V_ADD || v == V_MODIFY || v == V_DELETE || v == V_LOAD)) {
		cli_error(c, "Can't run this command in readonly mode.");
		return 1;
	}
	switch (v) {
	case V_ADD:
	case V_LIST:
	case V_MODIFY:
	case V_DELETE:
		return on_entity(m, v, words + 1, n - 1);
	case V_ASSOCIATIONS:
		return on_entity(m, V_LIST, words, n);
	case V_DUMP:
		return mgr_dump(m, words + 1, n - 1);
	case V_LOAD:
		return mgr_read(m, words + 1, n - 1);
	case V_PING:
		return ping(m);
	case V_VERSION:
		cli_version(stdout);
		return 0;
	case V_HELP:
		cli_help(c, stdout);
		return 0;
	case V_RECONFIGURE: /* Accounts are part of the log: there is no second daemon to tell. */
	case V_MODE:
	case V_END:
		return 0;
	}
	if (!is_absent(m, words[0]))
		cli_error(c, "invalid keyword: %s", words[0]);
	return 1;
}

/* Each line begins without what the one before asked and read. */
static int prompt_line(void *arg, char **words, size_t n)
{
	struct mgr *m = arg;
	struct mgr fresh = {.cli = m->cli, .args = m->args};

	*m = fresh;
	return verb_of(words[0]) == V_END ? CLI_PROMPT_END : run(m, words, n);
}

int cli_sacctmgr(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	struct mgr *m;
	struct mu_err err = {0};
	int rc;

	if (cli_begin(c, argc, argv, false, &args, &rc))
		return rc;
	m = mu_arena_alloc(&c->arena, sizeof *m);
	memset(m, 0, sizeof *m);
	m->cli = c;
	m->args = &args;
	if (cli_check_clusters(c, &args, &err) || cli_take_at(c, &args, &err))
		return say_error(m, &err);
	return args.word_count ? run(m, args.words, args.word_count) : cli_prompt(c, prompt_line, m);
}
