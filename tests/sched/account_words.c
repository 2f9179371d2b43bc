/* tests/sched/account_words.c: accounts, users and QOS of a scenario line. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tests/sched/story.h"

static bool is_word(const char *names, const char *key, size_t len)
{
	for (const char *p = names; *p;) {
		size_t n = strcspn(p, " ");
		if (n == len && strncasecmp(p, key, n) == 0)
			return true;
		p += n + (p[n] == ' ');
	}
	return false;
}

static void tres(struct story *s, const char *text, Mu__TresCount ***ret, size_t *ret_count)
{
	char *copy = mu_arena_strdup(&s->arena, text), *save = NULL;
	*ret = mu_arena_alloc(&s->arena, 32 * sizeof(**ret));
	*ret_count = 0;
	for (char *w = strtok_r(copy, ",", &save); w && *ret_count < 32; w = strtok_r(NULL, ",", &save)) {
		Mu__TresCount *t = (*ret)[(*ret_count)++] = mu_arena_alloc(&s->arena, sizeof(*t));
		char *at = strrchr(w, '=');
		mu__tres_count__init(t);
		t->has_count = 1;
		t->count = at ? strtoll(at + 1, NULL, 10) : 0;
		if (at)
			*at = 0;
		t->name = w;
	}
}

/* Words such as GrpTRES=cpu=4 and MaxJobs=2 by limits.def; walls in minutes. NULL: none among them. */
static Mu__Limits *limits(struct story *s, char **word)
{
	Mu__Limits *l = mu_arena_alloc(&s->arena, sizeof(*l));
	bool any = false;
	mu__limits__init(l);
	for (; *word; word++) {
		size_t len = strcspn(*word, "=");
		const char *v = (*word)[len] ? *word + len + 1 : "";
		enum { COUNT, WALL };
#define MU_LIMIT_PLAIN(id, field, owners, names, heading, width, kind, assoc_reason, qos_reason) \
	if (is_word(names, *word, len)) {                                                        \
		int64_t n = strtoll(v, NULL, 10);                                                \
		SET(l, field, kind == WALL && n > 0 ? n * 60 : n);                               \
		any = true;                                                                      \
	}
#define MU_LIMIT_TRES(id, field, owners, names, heading, width, assoc_reason, qos_reason) \
	if (is_word(names, *word, len)) {                                                 \
		tres(s, v, &l->field, &l->n_##field);                                     \
		any = true;                                                               \
	}
#include "proto/limits.def"
	}
	return any ? l : NULL;
}

static Mu__AccountsChange *change(struct story *s, Mu__AccountsChange__KindCase kind)
{
	Mu__AccountsChange *c = mu_arena_alloc(&s->arena, sizeof(*c));
	mu__accounts_change__init(c);
	c->kind_case = kind;
	return c;
}

static bool send(struct story *s, char **word, Mu__AccountsChange **list, size_t n)
{
	Mu__Event *e = story_event(s, MU__EVENT__KIND_ACCOUNTS_CHANGED);
	e->accounts_changed = mu_arena_alloc(&s->arena, sizeof(*e->accounts_changed));
	mu__accounts_changed__init(e->accounts_changed);
	e->accounts_changed->change = list;
	e->accounts_changed->n_change = n;
	char **by = word;
	static char *root[] = {NULL};
	for (; *by && strncmp(*by, "by=", 3) != 0; by++) {
	}
	e->author = story_author(s, root);
	if (*by) {
		char *as[] = {mu_arena_printf(&s->arena, "user=%s", *by + 3), NULL};
		e->author = story_author(s, as);
	}
	return story_ask(s, e);
}

static char **list_of(struct story *s, const char *text, size_t *ret)
{
	char *copy = mu_arena_strdup(&s->arena, text), *save = NULL;
	char **v = mu_arena_alloc(&s->arena, 32 * sizeof(*v));
	*ret = 0;
	for (char *w = strtok_r(copy, ",", &save); w && *ret < 32; w = strtok_r(NULL, ",", &save))
		v[(*ret)++] = w;
	return v;
}

static Mu__AssocPut *place(struct story *s, char **word, const char *account, const char *user)
{
	Mu__AssocPut *p = mu_arena_alloc(&s->arena, sizeof(*p));
	mu__assoc_put__init(p);
	p->account = (char *)account;
	p->user = (char *)user;
	p->partition = (char *)story_value(word, "partition");
	p->parent = (char *)story_value(word, "parent");
	p->default_qos = (char *)story_value(word, "defaultqos");
	if (story_value(word, "fairshare"))
		SET(p, shares,
		    strcmp(story_value(word, "fairshare"), "parent") == 0
			? 2147483647u
			: (uint32_t)strtoul(story_value(word, "fairshare"), NULL, 10));
	if (story_value(word, "priority"))
		SET(p, priority, (uint32_t)strtoul(story_value(word, "priority"), NULL, 10));
	if (story_value(word, "qos")) {
		SET(p, set_qos, 1);
		p->qos = list_of(s, story_value(word, "qos"), &p->n_qos);
	}
	p->limits = limits(s, word);
	return p;
}

/* account NAME [parent=P] [fairshare=N] [qos=LIST] [limits] */
bool act_account(struct story *s, char **word)
{
	Mu__AccountsChange *list[2] = {change(s, MU__ACCOUNTS_CHANGE__KIND_ACCOUNT),
				       change(s, MU__ACCOUNTS_CHANGE__KIND_ASSOC)};
	char *name = mu_arena_strdup(&s->arena, word[0]);
	list[0]->account = mu_arena_alloc(&s->arena, sizeof(*list[0]->account));
	mu__account_put__init(list[0]->account);
	list[0]->account->name = name;
	SET(list[0]->account, create, 1);
	if (story_value(word, "coordinator"))
		list[0]->account->coordinator_add =
		    list_of(s, story_value(word, "coordinator"), &list[0]->account->n_coordinator_add);
	list[1]->assoc = place(s, word + 1, name, NULL);
	SET(list[1]->assoc, create, 1);
	return send(s, word, list, 2);
}

/* user NAME account=A [admin=N] [limits] */
bool act_user(struct story *s, char **word)
{
	Mu__AccountsChange *list[2] = {change(s, MU__ACCOUNTS_CHANGE__KIND_USER),
				       change(s, MU__ACCOUNTS_CHANGE__KIND_ASSOC)};
	Mu__UserPut *u = list[0]->user = mu_arena_alloc(&s->arena, sizeof(*u));
	char *account = (char *)story_value(word, "account");
	mu__user_put__init(u);
	u->name = mu_arena_strdup(&s->arena, word[0]);
	SET(u, create, 1);
	if (!story_value(word, "nodefault"))
		u->default_account = account;
	if (story_value(word, "admin"))
		SET(u, admin, (uint32_t)strtoul(story_value(word, "admin"), NULL, 10));
	list[1]->assoc = place(s, word + 1, account, u->name);
	SET(list[1]->assoc, create, 1);
	return send(s, word, list, account ? 2 : 1);
}

/* qos NAME [priority=N] [flags=LIST] [usagefactor=MILLI] [preempt=LIST] [preemptmode=MODE] [grace=SEC]
 * [exempt=SEC] [limits] */
bool act_qos(struct story *s, char **word)
{
	Mu__AccountsChange *one = change(s, MU__ACCOUNTS_CHANGE__KIND_QOS);
	Mu__QosPut *q = one->qos = mu_arena_alloc(&s->arena, sizeof(*q));
	mu__qos_put__init(q);
	q->name = mu_arena_strdup(&s->arena, word[0]);
	SET(q, create, 1);
	if (story_value(word, "priority"))
		SET(q, priority, (uint32_t)strtoul(story_value(word, "priority"), NULL, 10));
	if (story_value(word, "usagefactor"))
		SET(q, usage_factor_milli, (uint32_t)strtoul(story_value(word, "usagefactor"), NULL, 10));
	if (story_value(word, "preempt")) {
		SET(q, set_preempt, 1);
		q->preempt = list_of(s, story_value(word, "preempt"), &q->n_preempt);
	}
	if (story_value(word, "exempt"))
		SET(q, exempt_sec, strtoll(story_value(word, "exempt"), NULL, 10));
	if (story_value(word, "grace"))
		SET(q, grace_sec, strtoll(story_value(word, "grace"), NULL, 10));
	q->preempt_mode = (char *)story_value(word, "preemptmode");
	if (story_value(word, "flags")) {
		SET(q, set_flags, 1);
		q->flag = list_of(s, story_value(word, "flags"), &q->n_flag);
	}
	q->limits = limits(s, word + 1);
	return send(s, word, &one, 1);
}

/* remove account|user|qos NAME, or remove user NAME account=A */
bool act_remove(struct story *s, char **word)
{
	Mu__AccountsChange *one = change(s, MU__ACCOUNTS_CHANGE__KIND_REMOVE);
	Mu__AccountsRemove *r = one->remove = mu_arena_alloc(&s->arena, sizeof(*r));
	char *name = word[1] ? mu_arena_strdup(&s->arena, word[1]) : NULL;
	mu__accounts_remove__init(r);
	if (strcmp(word[0], "account") == 0)
		r->account = name;
	else if (strcmp(word[0], "qos") == 0)
		r->qos = name;
	else if (story_value(word, "account"))
		r->assoc = place(s, word + 1, story_value(word, "account"), name);
	else
		r->user = name;
	return send(s, word, &one, 1);
}

/* expect share ACCOUNT[/USER] usage=SEC fair=PERMILLE level=...; expect sprio JOB age=N ... */
bool expect_share(struct story *s, char **word)
{
	char *user = strchr(word[0], '/');
	Mu__ShareRow *row;
	uint32_t i = 0;
	if (user)
		*user++ = 0;
	while (
	    !sch_explain_share(s->h.st, i, &s->arena, &row) &&
	    (strcmp(row->account, word[0]) != 0 || strcmp(row->user ? row->user : "", user ? user : "") != 0))
		i++;
	if (sch_explain_share(s->h.st, i, &s->arena, &row))
		return wrong(s, "there is no association %s/%s", word[0], user ? user : "");
	const struct {
		const char *key;
		uint64_t have;
	} v[] = {{"usage", row->raw_usage_sec},
		 {"fair", (row->fair * 1000 + (UINT64_C(1) << 31)) >> 32},
		 {"shares", row->shares},
		 {"effective", (row->effective_usage * 1000 + (UINT64_C(1) << 31)) >> 32},
		 {"norm", (row->norm_shares * 1000 + (UINT64_C(1) << 31)) >> 32}};
	for (size_t k = 0; k < sizeof(v) / sizeof(v[0]); k++)
		if (story_value(word, v[k].key) &&
		    strtoull(story_value(word, v[k].key), NULL, 10) != v[k].have)
			return wrong(s, "%s of %s is %llu instead of %s", v[k].key, word[0],
				     (unsigned long long)v[k].have, story_value(word, v[k].key));
	return true;
}

bool expect_sprio(struct story *s, char **word)
{
	Mu__PriorityRow *row;
	if (sch_explain_priority(s->h.st, (uint32_t)strtoul(word[0], NULL, 10), &s->arena, &row))
		return wrong(s, "job %s does not wait", word[0]);
	const struct {
		const char *key;
		int64_t have;
	} v[] = {
	    {"priority", row->priority},  {"age", (int64_t)row->age},	  {"fair", (int64_t)row->fair},
	    {"size", (int64_t)row->size}, {"part", (int64_t)row->part},	  {"qos", (int64_t)row->qos_part},
	    {"tres", (int64_t)row->tres}, {"assoc", (int64_t)row->assoc}, {"nice", row->nice}};
	int64_t sum = (int64_t)(row->site + row->age + row->assoc + row->fair + row->size + row->part +
				row->qos_part + row->tres) -
		      row->nice;
	if (row->priority > 1 && !row->basic && sum != row->priority)
		return wrong(s, "the parts add up to %lld, the priority is %u", (long long)sum,
			     row->priority);
	for (size_t k = 0; k < sizeof(v) / sizeof(v[0]); k++)
		if (story_value(word, v[k].key) &&
		    strtoll(story_value(word, v[k].key), NULL, 10) != v[k].have)
			return wrong(s, "%s of job %s is %lld instead of %s", v[k].key, word[0],
				     (long long)v[k].have, story_value(word, v[k].key));
	return true;
}
