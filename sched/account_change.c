/* sched/account_change.c: AccountsChanged: who may change what, and the changes. All checks of all changes of
 * one event come first, over State and what the earlier changes of the event will have made of it. */
#include "sched/state.h"

#include <assert.h>
#include <stdlib.h>

#include "proto/conf.h"

/* ---- what there will be ---- */

/* Keys: a letter, then the name. Values say present or absent. */
struct outlook {
	const struct sch_state *st;
	const Mu__Author *author;
	unsigned level;
	struct mu_map known;
	uint32_t assocs; /* made */
	bool moved;
	struct mu_arena arena;
	struct mu_err *err;
};
static const char PRESENT = 1, ABSENT = 0;

static void will(struct outlook *o, char kind, const char *name, bool present)
{
	char *key = mu_arena_printf(&o->arena, "%c%s", kind, name);
	mu_map_put_str(&o->known, key, (void *)(present ? &PRESENT : &ABSENT));
}

static bool marked(struct outlook *o, char kind, const char *name, bool otherwise)
{
	void *v = mu_map_get_str(&o->known, mu_arena_printf(&o->arena, "%c%s", kind, name));
	return v ? v == &PRESENT : otherwise;
}

static bool has_account(struct outlook *o, const char *name)
{
	return name && marked(o, 'a', name, sch__account(o->st, name) != NULL);
}

static bool has_user(struct outlook *o, const char *name)
{
	return name && marked(o, 'u', name, sch__user(o->st, name) != NULL);
}

static bool has_qos(struct outlook *o, const char *name)
{
	return name && marked(o, 'q', name, sch__qos(o->st, name) != NULL);
}

static char *place(struct outlook *o, const char *account, const char *user, const char *partition)
{
	return mu_arena_printf(&o->arena, "%s/%s/%s", account ? account : "", user ? user : "",
			       partition ? partition : "");
}

static bool has_assoc(struct outlook *o, const char *account, const char *user, const char *partition)
{
	return marked(o, 's', place(o, account, user, partition),
		      sch__assoc_at(o->st, account, user, partition) != NULL);
}

/* ---- rights ---- */

static bool coordinates(const struct outlook *o, const char *account)
{
	const struct sch_assoc *a = sch__assoc_at(o->st, account, NULL, NULL);
	for (; a && o->author->user; a = a->parent) {
		const struct sch_account *acct = sch__account(o->st, a->row->account);
		for (size_t i = 0; acct && i < acct->row->n_coordinator; i++)
			if (strcmp(acct->row->coordinator[i], o->author->user) == 0)
				return true;
	}
	return false;
}

static bool coordinates_any(const struct outlook *o)
{
	const uint8_t *key = NULL;
	size_t len = 0;
	for (const struct sch_account *a = mu_map_seek(&o->st->accounts.account, NULL, 0, 0, &key, &len); a;
	     a = mu_map_seek(&o->st->accounts.account, key, len, 1, &key, &len))
		for (size_t i = 0; o->author->user && i < a->row->n_coordinator; i++)
			if (strcmp(a->row->coordinator[i], o->author->user) == 0)
				return true;
	return false;
}

/* May the author do things to associations in ACCOUNT, which hangs (or will hang) below PARENT? */
static bool may_in(const struct outlook *o, const char *account, const char *parent)
{
	return o->level > 0 || coordinates(o, account) || (parent && coordinates(o, parent));
}

/* ---- checks ---- */

static bool name_good(const char *name)
{
	if (!name || !*name || strlen(name) > 200)
		return false;
	for (const char *p = name; *p; p++)
		if ((unsigned char)*p <= ' ' || strchr(",=\"'/|", *p))
			return false;
	return true;
}

static int bad_name(struct outlook *o, const char *what, const char *name)
{
	return mu_fail(o->err, MU_EINVAL,
		       "\"%.64s\" is no name for %s: letters, digits, and no blank , = / | or quote",
		       name ? name : "", what);
}

static int check_account(struct outlook *o, const Mu__AccountPut *p)
{
	bool there = has_account(o, p->name);
	if (!name_good(p->name))
		return bad_name(o, "an account", p->name);
	if (!there && !p->create)
		return mu_fail(o->err, MU_EACCOUNT, "There is no account %s", p->name);
	if (o->level == 0 && !(there ? coordinates(o, p->name) : coordinates_any(o)))
		return sch__refuse(o->err, MU_EPERM);
	if (p->n_coordinator_add > SCH_CHANGES_MAX)
		return mu_fail(o->err, MU_ELIMIT, "More than %u coordinators", (unsigned)SCH_CHANGES_MAX);
	for (size_t i = 0; i < p->n_coordinator_add; i++)
		if (!has_user(o, p->coordinator_add[i]))
			return mu_fail(o->err, MU_EUSER, "There is no user %s", p->coordinator_add[i]);
	will(o, 'a', p->name, true);
	return 0;
}

static int check_user(struct outlook *o, const Mu__UserPut *p)
{
	bool there = has_user(o, p->name);
	bool self =
	    o->author->user && p->name && strcmp(o->author->user, p->name) == 0 && there && !p->has_admin;
	if (!name_good(p->name))
		return bad_name(o, "a user", p->name);
	if (!there && !p->create)
		return mu_fail(o->err, MU_EUSER, "There is no user %s", p->name);
	if (o->level == 0 && !self && !(p->has_admin ? false : coordinates_any(o)))
		return sch__refuse(o->err, MU_EPERM);
	if (p->has_admin && (o->level < 2 || p->admin > 2))
		return sch__refuse(o->err, p->admin > 2 ? MU_EINVAL : MU_EPERM);
	if (p->default_account && *p->default_account && !has_account(o, p->default_account))
		return mu_fail(o->err, MU_EACCOUNT, "There is no account %s", p->default_account);
	will(o, 'u', p->name, true);
	return 0;
}

static int check_limits(struct outlook *o, const Mu__Limits *l)
{
	const ProtobufCMessage *m = l ? &l->base : NULL;
	for (unsigned i = 0; m && i < m->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &m->descriptor->fields[i];
		if (f->label != PROTOBUF_C_LABEL_REPEATED)
			continue;
		size_t n = *(const size_t *)((const char *)m + f->quantifier_offset);
		Mu__TresCount **v = *(Mu__TresCount ***)((const char *)m + f->offset);
		if (n > SCH_TRES_MAX)
			return mu_fail(o->err, MU_ELIMIT, "A limit names at most %d kinds of resources",
				       SCH_TRES_MAX);
		for (size_t k = 0; k < n; k++)
			if (!v[k]->name || !*v[k]->name || strlen(v[k]->name) > 127 || v[k]->count < -1 ||
			    v[k]->count > INT64_MAX / 128)
				return mu_fail(o->err, MU_EINVAL,
					       "A limit without a resource's name, or out of range");
	}
	return 0;
}

static bool below(const struct sch_assoc *a, const struct sch_assoc *top)
{
	for (; a; a = a->parent)
		if (a == top)
			return true;
	return false;
}

static unsigned depth_of(const struct sch_assoc *a)
{
	unsigned n = 0;
	for (; a; a = a->parent)
		n++;
	return n;
}

static int check_parent(struct outlook *o, const Mu__AssocPut *p, bool there)
{
	const struct sch_assoc *own = sch__assoc_at(o->st, p->account, NULL, NULL);
	const struct sch_assoc *above = sch__assoc_at(o->st, p->parent, NULL, NULL);
	if (p->user && *p->user)
		return mu_fail(o->err, MU_EINVAL, "A user's association has no parent of its own");
	if (strcmp(p->account, "root") == 0)
		return mu_fail(o->err, MU_EINVAL, "The root account has no parent");
	if (!has_assoc(o, p->parent, NULL, NULL))
		return mu_fail(o->err, MU_EACCOUNT, "There is no parent account %s", p->parent);
	if (depth_of(above) >= SCH_TREE_DEPTH_MAX)
		return mu_fail(o->err, MU_ELIMIT, "Accounts lie at most %d deep", SCH_TREE_DEPTH_MAX);
	if (!there)
		return 0;
	if (o->moved || (own && above && below(above, own)) ||
	    (own && own->child_count && depth_of(above) > 32))
		return mu_fail(o->err, MU_EINVAL, "Account %s cannot move below %s%s", p->account, p->parent,
			       o->moved ? " in the same request as another move" : "");
	o->moved = true;
	return 0;
}

static int check_assoc(struct outlook *o, const Mu__AssocPut *p)
{
	bool user = p->user && *p->user,
	     there = p->account && has_assoc(o, p->account, p->user, p->partition);
	if (!has_account(o, p->account))
		return mu_fail(o->err, MU_EACCOUNT, "There is no account %s",
			       p->account ? p->account : "\"\"");
	if (user && !has_user(o, p->user))
		return mu_fail(o->err, MU_EUSER, "There is no user %s", p->user);
	if (!there && !p->create)
		return mu_fail(o->err, MU_ENOENT, "There is no such association");
	if (!there && (user ? !has_assoc(o, p->account, NULL, NULL) : p->partition && *p->partition))
		return mu_fail(o->err, MU_EACCOUNT, "Account %s has no association", p->account);
	if (p->partition && strlen(p->partition) > 200)
		return sch__refuse(o->err, MU_EPARTITION);
	if (!may_in(o, p->account, p->parent))
		return sch__refuse(o->err, MU_EPERM);
	if (!there && o->st->accounts.assoc.count + ++o->assocs > SCH_ASSOCS_MAX)
		return mu_fail(o->err, MU_ELIMIT, "A cluster has at most %d associations", SCH_ASSOCS_MAX);
	for (size_t i = 0; i < p->n_qos; i++)
		if (!has_qos(o, p->qos[i]))
			return sch__refuse(o->err, MU_EQOS);
	if (p->default_qos && *p->default_qos && !has_qos(o, p->default_qos))
		return sch__refuse(o->err, MU_EQOS);
	int rc = check_limits(o, p->limits);
	if (!rc && p->parent && *p->parent)
		rc = check_parent(o, p, there);
	will(o, 's', place(o, p->account, p->user, p->partition), true);
	if (!there)
		will(o, 'c', user ? p->account : p->parent && *p->parent ? p->parent : "root", true);
	return rc;
}

static int check_qos(struct outlook *o, const Mu__QosPut *p)
{
	if (!name_good(p->name))
		return bad_name(o, "a QOS", p->name);
	if (!has_qos(o, p->name) && !p->create)
		return sch__refuse(o->err, MU_EQOS);
	if (o->level == 0)
		return sch__refuse(o->err, MU_EPERM);
	for (size_t i = 0; i < p->n_preempt; i++)
		if (!has_qos(o, p->preempt[i]))
			return sch__refuse(o->err, MU_EQOS);
	if (p->preempt_mode && strcasecmp(p->preempt_mode, "cluster") &&
	    mu_preempt_mode_check(p->preempt_mode, o->err))
		return o->err ? o->err->code : MU_EINVAL;
	if (p->n_preempt > SCH_CHANGES_MAX || p->n_flag > 64)
		return mu_fail(o->err, MU_ELIMIT, "Too many flags or QOS to preempt");
	will(o, 'q', p->name, true);
	return check_limits(o, p->limits);
}

static bool has_children(struct outlook *o, const char *account)
{
	const struct sch_assoc *a = sch__assoc_at(o->st, account, NULL, NULL);
	for (uint32_t i = 0; a && i < a->child_count; i++) {
		const Mu__AssocRow *c = a->child[i]->row;
		if (has_assoc(o, c->account, c->user, c->partition))
			return true;
	}
	return marked(o, 'c', account, false);
}

static int busy(struct outlook *o)
{
	return mu_fail(o->err, MU_EBUSY, "Job(s) active, cancel job(s) before remove");
}

static int remove_user(struct outlook *o, const char *name)
{
	if (!has_user(o, name))
		return mu_fail(o->err, MU_EUSER, "There is no user %s", name);
	if (o->level == 0 || strcmp(name, "root") == 0)
		return sch__refuse(o->err, MU_EPERM);
	for (uint32_t i = 0; i < o->st->accounts.tree_count; i++) {
		const struct sch_assoc *a = o->st->accounts.tree[i];
		if (a->row->user && strcmp(a->row->user, name) == 0) {
			if (a->tally.submits)
				return busy(o);
			will(o, 's', place(o, a->row->account, name, a->row->partition), false);
		}
	}
	will(o, 'u', name, false);
	return 0;
}

static int remove_assoc(struct outlook *o, const Mu__AssocPut *p)
{
	const struct sch_assoc *a = sch__assoc_at(o->st, p->account, p->user, p->partition);
	if (!a || !has_assoc(o, p->account, p->user, p->partition))
		return mu_fail(o->err, MU_ENOENT, "There is no such association");
	if (!may_in(o, p->account, NULL))
		return sch__refuse(o->err, MU_EPERM);
	if (!p->user || !*p->user)
		return mu_fail(o->err, MU_EINVAL, "An account's association goes with the account");
	if (strcmp(p->user, "root") == 0 && strcmp(p->account, "root") == 0)
		return sch__refuse(o->err, MU_EPERM);
	if (a->tally.submits)
		return busy(o);
	will(o, 's', place(o, p->account, p->user, p->partition), false);
	return 0;
}

static int check_remove(struct outlook *o, const Mu__AccountsRemove *r)
{
	if (r->assoc)
		return remove_assoc(o, r->assoc);
	if (r->user)
		return remove_user(o, r->user);
	if (r->qos) {
		const struct sch_qos *q = sch__qos(o->st, r->qos);
		if (!q || !has_qos(o, r->qos))
			return sch__refuse(o->err, MU_EQOS);
		if (o->level == 0 || strcmp(r->qos, "normal") == 0)
			return sch__refuse(o->err, MU_EPERM);
		if (q->tally.submits || q->tally.jobs)
			return busy(o);
		will(o, 'q', r->qos, false);
		return 0;
	}
	const struct sch_assoc *a = sch__assoc_at(o->st, r->account, NULL, NULL);
	if (!r->account || !has_account(o, r->account))
		return mu_fail(o->err, MU_EACCOUNT, "There is no account %s",
			       r->account ? r->account : "\"\"");
	if (strcmp(r->account, "root") == 0 || !may_in(o, r->account, NULL))
		return sch__refuse(o->err, MU_EPERM);
	if (a && a->tally.submits)
		return busy(o);
	if (has_children(o, r->account))
		return mu_fail(o->err, MU_EBUSY, "Account %s still has users or accounts below it",
			       r->account);
	will(o, 'a', r->account, false);
	will(o, 's', place(o, r->account, NULL, NULL), false);
	return 0;
}

static int check_change(struct outlook *o, const Mu__AccountsChange *c)
{
	switch (c->kind_case) {
	case MU__ACCOUNTS_CHANGE__KIND_ACCOUNT:
		return check_account(o, c->account);
	case MU__ACCOUNTS_CHANGE__KIND_USER:
		return check_user(o, c->user);
	case MU__ACCOUNTS_CHANGE__KIND_ASSOC:
		return check_assoc(o, c->assoc);
	case MU__ACCOUNTS_CHANGE__KIND_QOS:
		return check_qos(o, c->qos);
	case MU__ACCOUNTS_CHANGE__KIND_REMOVE:
		return check_remove(o, c->remove);
	default:
		return mu_fail(o->err, MU_EINVAL, "A change of a kind that this version does not know");
	}
}

int sch__accounts_check(const struct sch_state *st, const Mu__Author *a, const Mu__AccountsChanged *c,
			struct mu_err *err)
{
	struct outlook o = {.st = st, .author = a, .level = sch__admin_level(st, a), .err = err};
	int rc = c->n_change && c->n_change <= SCH_CHANGES_MAX
		     ? 0
		     : mu_fail(err, MU_ELIMIT, "One request makes 1 to %d changes", SCH_CHANGES_MAX);
	for (size_t i = 0; i < c->n_change && !rc; i++)
		rc = check_change(&o, c->change[i]);
	mu_map_clear(&o.known);
	mu_arena_free(&o.arena);
	return rc;
}

/* ---- changes ---- */

static void free_list(char **list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i]);
	free(list);
}

static char **copy_list(char *const *from, size_t n)
{
	char **list = calloc(n + 1, sizeof(*list));
	if (!list)
		abort();
	for (size_t i = 0; i < n; i++)
		list[i] = sch__copy_text(from[i]);
	return list;
}

static void set_list(char ***list, size_t *count, char *const *from, size_t n)
{
	free_list(*list, *count);
	*list = copy_list(from, n);
	*count = n;
}

/* Keeps the list sorted and without doubles. */
static void add_name(char ***list, size_t *count, const char *name)
{
	size_t i = 0;
	while (i < *count && strcmp((*list)[i], name) < 0)
		i++;
	if (i < *count && strcmp((*list)[i], name) == 0)
		return;
	*list = realloc(*list, (*count + 1) * sizeof(**list));
	if (!*list)
		abort();
	memmove(*list + i + 1, *list + i, (*count - i) * sizeof(**list));
	(*list)[i] = sch__copy_text(name);
	(*count)++;
}

static bool drop_name(char **list, size_t *count, const char *name)
{
	for (size_t i = 0; i < *count; i++) {
		if (strcmp(list[i], name) != 0)
			continue;
		free(list[i]);
		memmove(list + i, list + i + 1, (*count - i - 1) * sizeof(*list));
		(*count)--;
		return true;
	}
	return false;
}

static void put_account(struct sch_ev *ev, const Mu__AccountPut *p)
{
	struct sch_account *a = sch__account(ev->st, p->name);
	if (!a) {
		Mu__AccountRow row = MU__ACCOUNT_ROW__INIT;
		row.name = p->name;
		row.description = p->description ? p->description : p->name;
		row.organization = p->organization ? p->organization : p->name;
		SCH_SET(&row, created_usec, ev->now);
		a = sch__account_build(ev->st, sch__copy_message(&row.base));
	} else {
		if (p->description)
			sch__replace(&a->row->description, p->description);
		if (p->organization)
			sch__replace(&a->row->organization, p->organization);
	}
	for (size_t i = 0; i < p->n_coordinator_add; i++)
		add_name(&a->row->coordinator, &a->row->n_coordinator, p->coordinator_add[i]);
	for (size_t i = 0; i < p->n_coordinator_remove; i++)
		drop_name(a->row->coordinator, &a->row->n_coordinator, p->coordinator_remove[i]);
	sch__touch(ev->st, &a->rec);
}

static void put_user(struct sch_ev *ev, const Mu__UserPut *p)
{
	struct sch_user *u = sch__user(ev->st, p->name);
	if (!u) {
		Mu__UserRow row = MU__USER_ROW__INIT;
		row.name = p->name;
		SCH_SET(&row, created_usec, ev->now);
		u = sch__user_build(ev->st, sch__copy_message(&row.base));
	}
	if (p->default_account)
		sch__replace(&u->row->default_account, p->default_account);
	if (p->has_admin)
		SCH_SET(u->row, admin, p->admin);
	sch__touch(ev->st, &u->rec);
}

/* Counts of FROM replace those of the same resource in the list; -1 takes them out. */
static void merge_tres(Mu__TresCount ***list, size_t *count, Mu__TresCount *const *from, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		size_t k = 0;
		while (k < *count && strcmp((*list)[k]->name, from[i]->name) < 0)
			k++;
		bool there = k < *count && strcmp((*list)[k]->name, from[i]->name) == 0;
		if (there && from[i]->count < 0) {
			mu__tres_count__free_unpacked((*list)[k], NULL);
			memmove(*list + k, *list + k + 1, (*count - k - 1) * sizeof(**list));
			(*count)--;
		} else if (there) {
			(*list)[k]->has_count = 1;
			(*list)[k]->count = from[i]->count;
		} else if (from[i]->count >= 0 && *count < SCH_TRES_MAX) {
			*list = realloc(*list, (*count + 1) * sizeof(**list));
			if (!*list)
				abort();
			memmove(*list + k + 1, *list + k, (*count - k) * sizeof(**list));
			Mu__TresCount one = *from[i];
			one.has_count = 1;
			(*list)[k] = sch__copy_message(&one.base);
			(*count)++;
		}
	}
}

static void merge_limits(Mu__Limits **to, const Mu__Limits *from)
{
	if (!from)
		return;
	if (!*to) {
		static const Mu__Limits none = MU__LIMITS__INIT;
		*to = sch__copy_message(&none.base);
	}
	Mu__Limits *l = *to;
#define MU_LIMIT_PLAIN(id, name, owners, names, heading, width, kind, assoc_reason, qos_reason) \
	if (from->has_##name) {                                                                 \
		l->has_##name = from->name >= 0;                                                \
		l->name = from->name >= 0 ? from->name : 0;                                     \
	}
#define MU_LIMIT_TRES(id, name, owners, names, heading, width, assoc_reason, qos_reason) \
	merge_tres(&l->name, &l->n_##name, from->name, from->n_##name);
#include "proto/limits.def"
	if (mu__limits__get_packed_size(l) == 0) {
		mu__limits__free_unpacked(l, NULL);
		*to = NULL;
	}
}

static void reset(struct sch_usage *u, int64_t now)
{
	for (uint32_t i = 0; i < u->count; i++)
		u->amount[i] = 0;
	u->usec = now;
}

/* What the subtree used moves with it. */
static void move_usage(struct sch_state *st, struct sch_assoc *a, struct sch_assoc *from,
		       struct sch_assoc *to)
{
	sch__usage_settle(st, &a->usage, &a->tally, true);
	for (struct sch_assoc *p = from; p; p = p->parent) {
		sch__usage_settle(st, &p->usage, &p->tally, true);
		for (uint32_t i = 0; i < a->usage.count && i < p->usage.count; i++)
			p->usage.amount[i] -=
			    p->usage.amount[i] < a->usage.amount[i] ? p->usage.amount[i] : a->usage.amount[i];
		sch__touch(st, &p->rec);
	}
	for (struct sch_assoc *p = to; p; p = p->parent) {
		sch__usage_settle(st, &p->usage, &p->tally, true);
		if (p->usage.count < a->usage.count) {
			p->usage.amount = sch__grow(st, p->usage.amount, p->usage.count * sizeof(uint64_t),
						    a->usage.count * sizeof(uint64_t));
			p->usage.count = a->usage.count;
		}
		for (uint32_t i = 0; i < a->usage.count; i++)
			p->usage.amount[i] = mu_fixed_add(p->usage.amount[i], a->usage.amount[i]);
		sch__touch(st, &p->rec);
	}
	sch__touch(st, &a->rec);
}

static struct sch_assoc *assoc_of(struct sch_ev *ev, const Mu__AssocPut *p)
{
	struct sch_assoc *a = sch__assoc_at(ev->st, p->account, p->user, p->partition);
	if (a)
		return a;
	Mu__AssocRow row = MU__ASSOC_ROW__INIT;
	SCH_SET(&row, id, ++ev->st->cluster->next_assoc_id);
	row.account = p->account;
	row.user = p->user && *p->user ? p->user : NULL;
	row.partition = p->partition && *p->partition ? p->partition : NULL;
	SCH_SET(&row, created_usec, ev->now);
	return sch__assoc_build(ev->st, sch__copy_message(&row.base));
}

static void put_assoc(struct sch_ev *ev, const Mu__AssocPut *p)
{
	struct sch_state *st = ev->st;
	struct sch_assoc *a = assoc_of(ev, p);
	Mu__AssocRow *r = a->row;
	if (p->parent && *p->parent) {
		struct sch_assoc *to = sch__assoc_at(st, p->parent, NULL, NULL);
		if (a->parent && to != a->parent)
			move_usage(st, a, a->parent, to);
		sch__replace(&r->parent, strcmp(p->parent, "root") == 0 ? NULL : p->parent);
	}
	if (p->has_shares) {
		r->has_shares = p->shares != 1;
		r->shares = p->shares;
	}
	if (p->has_priority)
		SCH_SET(r, priority, p->priority);
	if (p->set_qos)
		set_list(&r->qos, &r->n_qos, p->qos, p->n_qos);
	if (p->default_qos)
		sch__replace(&r->default_qos, p->default_qos);
	if (p->comment)
		sch__replace(&r->comment, p->comment);
	if (p->reset_usage)
		reset(&a->usage, ev->now);
	merge_limits(&r->limits, p->limits);
	sch__touch(st, &a->rec);
}

static void put_qos(struct sch_ev *ev, const Mu__QosPut *p)
{
	struct sch_state *st = ev->st;
	struct sch_qos *q = sch__qos(st, p->name);
	if (!q) {
		Mu__QosRow row = MU__QOS_ROW__INIT;
		row.name = p->name;
		row.description = p->description ? p->description : p->name;
		SCH_SET(&row, id, ++st->cluster->next_qos_id);
		SCH_SET(&row, created_usec, ev->now);
		q = sch__qos_build(st, sch__copy_message(&row.base));
	}
	Mu__QosRow *r = q->row;
	if (p->description)
		sch__replace(&r->description, p->description);
	if (p->has_priority)
		SCH_SET(r, priority, p->priority);
	if (p->set_flags)
		set_list(&r->flag, &r->n_flag, p->flag, p->n_flag);
	if (p->has_grace_sec)
		SCH_SET(r, grace_sec, p->grace_sec);
	if (p->set_preempt)
		set_list(&r->preempt, &r->n_preempt, p->preempt, p->n_preempt);
	if (p->preempt_mode)
		sch__replace(&r->preempt_mode,
			     strcasecmp(p->preempt_mode, "cluster") ? p->preempt_mode : NULL);
	if (p->has_exempt_sec) { /* 0 is a time as well: the cluster's does not count then. */
		r->has_exempt_sec = p->exempt_sec >= 0;
		r->exempt_sec = p->exempt_sec >= 0 ? p->exempt_sec : 0;
	}
	if (p->has_usage_factor_milli) {
		r->has_usage_factor_milli = p->usage_factor_milli != 1000;
		r->usage_factor_milli = p->usage_factor_milli;
	}
	if (p->has_usage_threshold_milli)
		SCH_SET(r, usage_threshold_milli, p->usage_threshold_milli);
	if (p->has_limit_factor_milli)
		SCH_SET(r, limit_factor_milli, p->limit_factor_milli);
	if (p->reset_usage)
		reset(&q->usage, ev->now);
	merge_limits(&r->limits, p->limits);
	sch__caps_compile(st, &q->caps, r->limits);
	sch__touch(st, &q->rec);
}

static void drop_assoc(struct sch_state *st, struct sch_assoc *a)
{
	struct sch_key key;
	const char *part[3] = {a->row->account, a->row->user, a->row->partition};
	char place_bytes[3 * (SCH_KEY_MAX + 1)];
	size_t len = 0;
	for (int i = 0; i < 3; i++) {
		size_t n = part[i] ? strlen(part[i]) : 0;
		if (n)
			memcpy(place_bytes + len, part[i], n);
		len += n;
		place_bytes[len++] = 0;
	}
	sch__accounts_rec_key(&a->rec, &key);
	mu_map_del(&st->accounts.place, place_bytes, len);
	mu_map_del(&st->accounts.assoc, key.bytes, key.len);
	struct sch_user *u = sch__user(st, a->row->user);
	if (u && u->row->default_account && strcmp(u->row->default_account, a->row->account) == 0 &&
	    !sch__assoc_at(st, a->row->account, a->row->user, NULL)) {
		sch__replace(&u->row->default_account, NULL);
		sch__touch(st, &u->rec);
	}
	sch__gone(st, &a->rec);
}

static void drop_user(struct sch_state *st, const char *name)
{
	struct sch_user *u = sch__user(st, name);
	const uint8_t *key = NULL;
	size_t len = 0;
	for (struct sch_assoc *a = mu_map_seek(&st->accounts.assoc, NULL, 0, 0, &key, &len); a;) {
		uint8_t at[4];
		memcpy(at, key, sizeof(at));
		if (a->row->user && strcmp(a->row->user, name) == 0)
			drop_assoc(st, a);
		a = mu_map_seek(&st->accounts.assoc, at, sizeof(at), 1, &key, &len);
	}
	for (struct sch_account *a = mu_map_seek(&st->accounts.account, NULL, 0, 0, &key, &len); a;
	     a = mu_map_seek(&st->accounts.account, key, len, 1, &key, &len))
		if (drop_name(a->row->coordinator, &a->row->n_coordinator, name))
			sch__touch(st, &a->rec);
	mu_map_del_str(&st->accounts.user, name);
	sch__gone(st, &u->rec);
}

static void drop_qos(struct sch_state *st, const char *name)
{
	struct sch_qos *q = sch__qos(st, name);
	const uint8_t *key = NULL;
	size_t len = 0;
	for (struct sch_assoc *a = mu_map_seek(&st->accounts.assoc, NULL, 0, 0, &key, &len); a;
	     a = mu_map_seek(&st->accounts.assoc, key, len, 1, &key, &len)) {
		bool had = drop_name(a->row->qos, &a->row->n_qos, name);
		if (a->row->default_qos && strcmp(a->row->default_qos, name) == 0) {
			sch__replace(&a->row->default_qos, NULL);
			had = true;
		}
		if (had)
			sch__touch(st, &a->rec);
	}
	for (struct sch_qos *other = mu_map_seek(&st->accounts.qos, NULL, 0, 0, &key, &len); other;
	     other = mu_map_seek(&st->accounts.qos, key, len, 1, &key, &len))
		if (drop_name(other->row->preempt, &other->row->n_preempt, name))
			sch__touch(st, &other->rec);
	mu_map_del_str(&st->accounts.qos, name);
	sch__gone(st, &q->rec);
}

static void drop_account(struct sch_state *st, const char *name)
{
	struct sch_account *a = sch__account(st, name);
	struct sch_assoc *s = sch__assoc_at(st, name, NULL, NULL);
	if (s)
		drop_assoc(st, s);
	mu_map_del_str(&st->accounts.account, name);
	sch__gone(st, &a->rec);
}

static void apply(struct sch_ev *ev, const Mu__AccountsChange *c)
{
	switch (c->kind_case) {
	case MU__ACCOUNTS_CHANGE__KIND_ACCOUNT:
		put_account(ev, c->account);
		break;
	case MU__ACCOUNTS_CHANGE__KIND_USER:
		put_user(ev, c->user);
		break;
	case MU__ACCOUNTS_CHANGE__KIND_ASSOC:
		put_assoc(ev, c->assoc);
		break;
	case MU__ACCOUNTS_CHANGE__KIND_QOS:
		put_qos(ev, c->qos);
		break;
	default:
		if (c->remove->assoc)
			drop_assoc(ev->st,
				   sch__assoc_at(ev->st, c->remove->assoc->account, c->remove->assoc->user,
						 c->remove->assoc->partition));
		else if (c->remove->user)
			drop_user(ev->st, c->remove->user);
		else if (c->remove->qos)
			drop_qos(ev->st, c->remove->qos);
		else
			drop_account(ev->st, c->remove->account);
	}
}

int sch__evolve_accounts_changed(struct sch_ev *ev)
{
	const Mu__AccountsChanged *c = ev->event->accounts_changed;
	int rc = sch__accounts_check(ev->st, ev->author, c, &ev->err);
	if (rc)
		return rc;
	for (size_t i = 0; i < c->n_change; i++)
		apply(ev, c->change[i]);
	sch__accounts_tree(ev->st);
	sch__fair(ev->st);
	sch__wake(ev->st);
	return 0;
}
