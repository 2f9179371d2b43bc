/* sched/account.c: records of accounts, users, associations and QOS: birth, rows, the tree. What may change
 * and by whom is account_change.c; what they limit is limit.c. */
#include "sched/state.h"

#include <assert.h>
#include <stdlib.h>

/* ---- finding ---- */

struct sch_account *sch__account(const struct sch_state *st, const char *name)
{
	return name && *name ? mu_map_get_str(&st->accounts.account, name) : NULL;
}

struct sch_user *sch__user(const struct sch_state *st, const char *name)
{
	return name && *name ? mu_map_get_str(&st->accounts.user, name) : NULL;
}

struct sch_qos *sch__qos(const struct sch_state *st, const char *name)
{
	return name && *name ? mu_map_get_str(&st->accounts.qos, name) : NULL;
}

static void id_key(uint8_t key[4], uint32_t id)
{
	mu_put_be32(key, id);
}

struct sch_assoc *sch__assoc(const struct sch_state *st, uint32_t id)
{
	uint8_t key[4];
	id_key(key, id);
	return id ? mu_map_get(&st->accounts.assoc, key, sizeof(key)) : NULL;
}

enum { PLACE_MAX = 3 * (SCH_KEY_MAX + 1) };

static size_t place_key(char key[PLACE_MAX], const char *account, const char *user, const char *partition)
{
	const char *part[3] = {account, user, partition};
	size_t len = 0;
	for (int i = 0; i < 3; i++) {
		size_t n = part[i] ? strlen(part[i]) : 0;
		if (n > SCH_KEY_MAX)
			return 0;
		if (n)
			memcpy(key + len, part[i], n);
		len += n;
		key[len++] = 0;
	}
	return len;
}

struct sch_assoc *sch__assoc_at(const struct sch_state *st, const char *account, const char *user,
				const char *partition)
{
	char key[PLACE_MAX];
	size_t len = place_key(key, account, user, partition);
	return len ? mu_map_get(&st->accounts.place, key, len) : NULL;
}

struct sch_assoc *sch__assoc_for(const struct sch_state *st, const char *account, const char *user,
				 const char *partition)
{
	struct sch_assoc *a = partition ? sch__assoc_at(st, account, user, partition) : NULL;
	return a ? a : sch__assoc_at(st, account, user, NULL);
}

unsigned sch__admin_level(const struct sch_state *st, const Mu__Author *a)
{
	if (a->operator_ || (a->verifier && strcmp(a->verifier, "controller") == 0))
		return 2;
	const struct sch_user *u = sch__user(st, a->user);
	return u ? u->row->admin : 0;
}

/* ---- kinds of resources ---- */

uint32_t sch__tres_known(const struct sch_state *st, const char *name)
{
	uintptr_t number = (uintptr_t)mu_map_get_str(&st->accounts.tres, name);
	return number ? (uint32_t)number - 1 : SCH_TRES_MAX;
}

uint32_t sch__tres(struct sch_state *st, const char *name)
{
	static const char *const fixed[] = {"cpu", "mem", "node", "billing", "wall"};
	struct sch_accounts *c = &st->accounts;
	while (c->tres_count < SCH_TRES_FIXED) {
		c->tres_name[c->tres_count] = sch__copy_text(fixed[c->tres_count]);
		c->tres_count++;
		mu_map_put_str(&c->tres, fixed[c->tres_count - 1], (void *)(uintptr_t)c->tres_count);
	}
	uint32_t number = sch__tres_known(st, name);
	if (number < SCH_TRES_MAX || c->tres_count == SCH_TRES_MAX)
		return number;
	c->tres_name[c->tres_count++] = sch__copy_text(name);
	mu_map_put_str(&c->tres, name, (void *)(uintptr_t)c->tres_count);
	return c->tres_count - 1;
}

static size_t put_text(char *out, size_t at, const char *text)
{
	for (; *text && at < SCH_TRES_NAME - 1; text++)
		out[at++] = *text;
	out[at] = 0;
	return at;
}

void sch__tres_gres(char out[SCH_TRES_NAME], const char *name, const char *type)
{
	size_t at = put_text(out, 0, "gres/");
	at = put_text(out, at, name ? name : "");
	if (!type || !*type)
		return;
	at = put_text(out, at, ":");
	put_text(out, at, type);
}

/* ---- limits, compiled ---- */

static void cap_list(struct sch_state *st, struct sch_caps *c, uint8_t limit, Mu__TresCount *const *v,
		     size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t tres = sch__tres(st, v[i]->name);
		if (tres == SCH_TRES_MAX || v[i]->count < 0)
			continue;
		c->v = sch__grow(st, c->v, c->count * sizeof(c->v[0]), (c->count + 1) * sizeof(c->v[0]));
		c->v[c->count++] = (struct sch_cap){limit, (uint8_t)tres, v[i]->count};
	}
}

void sch__caps_compile(struct sch_state *st, struct sch_caps *c, const Mu__Limits *l)
{
	sch__free(st, c->v, c->count * sizeof(c->v[0]));
	memset(c, 0, sizeof(*c));
	for (int i = 0; i < SCH_LIMITS; i++)
		c->plain[i] = -1;
	if (!l)
		return;
#define MU_LIMIT_PLAIN(id, field, owners, names, heading, width, kind, assoc_reason, qos_reason) \
	if (l->has_##field && l->field >= 0) {                                                   \
		c->plain[SCH_LIMIT_##id] = l->field;                                             \
		c->any = true;                                                                   \
	}
#define MU_LIMIT_TRES(id, field, owners, names, heading, width, assoc_reason, qos_reason) \
	cap_list(st, c, SCH_LIMIT_##id, l->field, l->n_##field);
#include "proto/limits.def"
	c->any = c->any || c->count;
}

/* ---- records ---- */

struct sch_account *sch__account_build(struct sch_state *st, Mu__AccountRow *row)
{
	struct sch_account *a = sch__alloc(st, sizeof(*a));
	a->rec = (struct sch_rec){.kind = SCH_ROW_ACCOUNT, .change = UINT32_MAX};
	a->row = row;
	mu_map_put_str(&st->accounts.account, row->name, a);
	return a;
}

struct sch_user *sch__user_build(struct sch_state *st, Mu__UserRow *row)
{
	struct sch_user *u = sch__alloc(st, sizeof(*u));
	u->rec = (struct sch_rec){.kind = SCH_ROW_USER, .change = UINT32_MAX};
	u->row = row;
	mu_map_put_str(&st->accounts.user, row->name, u);
	return u;
}

static void usage_open(struct sch_state *st, struct sch_usage *u, Mu__TresUsed *const *v, size_t n,
		       int64_t usec)
{
	u->usec = usec;
	for (size_t i = 0; i < n; i++) {
		uint32_t tres = sch__tres(st, v[i]->name);
		if (tres == SCH_TRES_MAX)
			continue;
		if (tres >= u->count) {
			u->amount = sch__grow(st, u->amount, u->count * sizeof(u->amount[0]),
					      (tres + 1) * sizeof(u->amount[0]));
			u->count = tres + 1;
		}
		u->amount[tres] = v[i]->amount;
	}
}

static void used_free(Mu__TresUsed **v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		mu__tres_used__free_unpacked(v[i], NULL);
	free(v);
}

struct sch_assoc *sch__assoc_build(struct sch_state *st, Mu__AssocRow *row)
{
	char place[PLACE_MAX];
	uint8_t key[4];
	struct sch_assoc *a = sch__alloc(st, sizeof(*a));
	a->rec = (struct sch_rec){.kind = SCH_ROW_ASSOC, .change = UINT32_MAX};
	a->row = row;
	usage_open(st, &a->usage, row->used, row->n_used, row->used_usec);
	used_free(row->used, row->n_used);
	row->used = NULL;
	row->n_used = 0;
	id_key(key, row->id);
	mu_map_put(&st->accounts.assoc, key, sizeof(key), a);
	mu_map_put(&st->accounts.place, place, place_key(place, row->account, row->user, row->partition), a);
	return a;
}

struct sch_qos *sch__qos_build(struct sch_state *st, Mu__QosRow *row)
{
	struct sch_qos *q = sch__alloc(st, sizeof(*q));
	q->rec = (struct sch_rec){.kind = SCH_ROW_QOS, .change = UINT32_MAX};
	q->row = row;
	usage_open(st, &q->usage, row->used, row->n_used, row->used_usec);
	used_free(row->used, row->n_used);
	row->used = NULL;
	row->n_used = 0;
	mu_map_put_str(&st->accounts.qos, row->name, q);
	return q;
}

void sch__accounts_rec_key(const struct sch_rec *rec, struct sch_key *ret)
{
	const char *name = rec->kind == SCH_ROW_ACCOUNT ? ((const struct sch_account *)rec)->row->name
			   : rec->kind == SCH_ROW_USER	? ((const struct sch_user *)rec)->row->name
			   : rec->kind == SCH_ROW_QOS	? ((const struct sch_qos *)rec)->row->name
							: NULL;
	if (!name) {
		id_key(ret->bytes, ((const struct sch_assoc *)rec)->row->id);
		ret->len = 4;
		return;
	}
	ret->len = (uint8_t)strlen(name);
	memcpy(ret->bytes, name, ret->len);
}

/* Amounts as a list sorted by name, in ARENA. */
static size_t used_list(const struct sch_state *st, const struct sch_usage *u, struct mu_arena *arena,
			Mu__TresUsed ***ret)
{
	const uint8_t *key = NULL;
	size_t len = 0, n = 0;
	*ret = mu_arena_alloc(arena, (u->count + 1) * sizeof(**ret));
	for (void *v = mu_map_seek(&st->accounts.tres, NULL, 0, 0, &key, &len); v;
	     v = mu_map_seek(&st->accounts.tres, key, len, 1, &key, &len)) {
		uint32_t tres = (uint32_t)(uintptr_t)v - 1;
		if (tres >= u->count || !u->amount[tres])
			continue;
		Mu__TresUsed *t = (*ret)[n++] = mu_arena_alloc(arena, sizeof(*t));
		mu__tres_used__init(t);
		t->name = st->accounts.tres_name[tres];
		SCH_SET(t, amount, u->amount[tres]);
	}
	return n;
}

void sch__accounts_rec_pack(const struct sch_state *st, const struct sch_rec *rec, struct mu_buf *out)
{
	struct mu_arena arena = {0};
	if (rec->kind == SCH_ROW_ACCOUNT) {
		mu_pb_pack(&((const struct sch_account *)rec)->row->base, out);
	} else if (rec->kind == SCH_ROW_USER) {
		mu_pb_pack(&((const struct sch_user *)rec)->row->base, out);
	} else if (rec->kind == SCH_ROW_ASSOC) {
		const struct sch_assoc *a = (const struct sch_assoc *)rec;
		Mu__AssocRow row = *a->row;
		row.n_used = used_list(st, &a->usage, &arena, &row.used);
		SCH_SET(&row, used_usec, a->usage.usec);
		mu_pb_pack(&row.base, out);
	} else {
		const struct sch_qos *q = (const struct sch_qos *)rec;
		Mu__QosRow row = *q->row;
		row.n_used = used_list(st, &q->usage, &arena, &row.used);
		SCH_SET(&row, used_usec, q->usage.usec);
		mu_pb_pack(&row.base, out);
	}
	mu_arena_free(&arena);
}

static void tally_free(struct sch_state *st, struct sch_tally *t)
{
	sch__free(st, t->item, t->count * sizeof(t->item[0]));
	memset(t, 0, sizeof(*t));
}

static void tallies_free(struct sch_state *st, struct mu_map *map)
{
	const uint8_t *key = NULL;
	size_t len = 0;
	for (struct sch_tally *t = mu_map_seek(map, NULL, 0, 0, &key, &len); t;
	     t = mu_map_seek(map, key, len, 1, &key, &len)) {
		tally_free(st, t);
		sch__free(st, t, sizeof(*t));
	}
	mu_map_clear(map);
}

static void caps_free(struct sch_state *st, struct sch_caps *c)
{
	sch__free(st, c->v, c->count * sizeof(c->v[0]));
}

void sch__accounts_rec_free(struct sch_state *st, struct sch_rec *rec)
{
	if (rec->kind == SCH_ROW_ACCOUNT) {
		struct sch_account *a = (struct sch_account *)rec;
		mu__account_row__free_unpacked(a->row, NULL);
		sch__free(st, a, sizeof(*a));
	} else if (rec->kind == SCH_ROW_USER) {
		struct sch_user *u = (struct sch_user *)rec;
		mu__user_row__free_unpacked(u->row, NULL);
		sch__free(st, u, sizeof(*u));
	} else if (rec->kind == SCH_ROW_ASSOC) {
		struct sch_assoc *a = (struct sch_assoc *)rec;
		tally_free(st, &a->tally);
		caps_free(st, &a->caps);
		sch__free(st, a->usage.amount, a->usage.count * sizeof(uint64_t));
		sch__free(st, a->child, a->child_count * sizeof(a->child[0]));
		mu__assoc_row__free_unpacked(a->row, NULL);
		sch__free(st, a, sizeof(*a));
	} else {
		struct sch_qos *q = (struct sch_qos *)rec;
		tally_free(st, &q->tally);
		caps_free(st, &q->caps);
		tallies_free(st, &q->by_user);
		tallies_free(st, &q->by_account);
		sch__free(st, q->usage.amount, q->usage.count * sizeof(uint64_t));
		mu__qos_row__free_unpacked(q->row, NULL);
		sch__free(st, q, sizeof(*q));
	}
}

static void drain(struct sch_state *st, struct mu_map *map)
{
	const uint8_t *key = NULL;
	size_t len = 0;
	for (void *v = mu_map_seek(map, NULL, 0, 0, &key, &len); v;
	     v = mu_map_seek(map, key, len, 1, &key, &len))
		sch__accounts_rec_free(st, v);
	mu_map_clear(map);
}

void sch__accounts_free(struct sch_state *st)
{
	struct sch_accounts *c = &st->accounts;
	sch__free(st, c->tree, c->tree_count * sizeof(c->tree[0]));
	drain(st, &c->account);
	drain(st, &c->user);
	drain(st, &c->assoc);
	drain(st, &c->qos);
	mu_map_clear(&c->place);
	mu_map_clear(&c->tres);
	for (uint32_t i = 0; i < c->tres_count; i++)
		free(c->tres_name[i]);
}

struct sch_rec *sch__accounts_rec_find(const struct sch_state *st, const struct sch_key *key)
{
	const struct mu_map *map = sch__accounts_map(st, key->kind);
	return map ? mu_map_get(map, key->bytes, key->len) : NULL;
}

const struct mu_map *sch__accounts_map(const struct sch_state *st, uint8_t kind)
{
	return kind == SCH_ROW_ACCOUNT ? &st->accounts.account
	       : kind == SCH_ROW_USER  ? &st->accounts.user
	       : kind == SCH_ROW_ASSOC ? &st->accounts.assoc
	       : kind == SCH_ROW_QOS   ? &st->accounts.qos
				       : NULL;
}

/* ---- the tree ---- */

/* Users before accounts, then by name; the partition decides last. */
static int by_place(const void *x, const void *y)
{
	const Mu__AssocRow *a = (*(struct sch_assoc *const *)x)->row,
			   *b = (*(struct sch_assoc *const *)y)->row;
	bool ua = a->user && *a->user, ub = b->user && *b->user;
	if (ua != ub)
		return ua ? -1 : 1;
	int d = ua ? strcmp(a->user, b->user) : strcmp(a->account, b->account);
	if (!d)
		d = strcmp(a->partition ? a->partition : "", b->partition ? b->partition : "");
	return d ? d : a->id < b->id ? -1 : a->id > b->id;
}

static bool is_user(const struct sch_assoc *a)
{
	return a->row->user && *a->row->user;
}

static void find_parent(struct sch_state *st, struct sch_assoc *a)
{
	a->parent = NULL;
	if (is_user(a))
		a->parent = sch__assoc_at(st, a->row->account, NULL, NULL);
	else if (strcmp(a->row->account, "root") != 0)
		a->parent = sch__assoc_at(st, a->row->parent ? a->row->parent : "root", NULL, NULL);
}

static void walk_tree(struct sch_accounts *c, struct sch_assoc *a, uint32_t depth)
{
	assert(depth < SCH_TREE_DEPTH_MAX + 2);
	a->order = c->tree_count;
	c->tree[c->tree_count++] = a;
	for (uint32_t i = 0; i < a->child_count; i++)
		walk_tree(c, a->child[i], depth + 1);
}

static void add_tally(struct sch_state *st, struct sch_tally *to, const struct sch_tally *from)
{
	to->jobs += from->jobs;
	to->submits += from->submits;
	if (from->count > to->count) {
		to->item = sch__grow(st, to->item, to->count * sizeof(to->item[0]),
				     from->count * sizeof(to->item[0]));
		to->count = from->count;
	}
	for (uint32_t i = 0; i < from->count; i++) {
		to->item[i].used += from->item[i].used;
		to->item[i].rate += from->item[i].rate;
		to->item[i].end += from->item[i].end;
	}
}

/* What accounts hold is what their children hold. */
static void sum_tallies(struct sch_state *st)
{
	struct sch_accounts *c = &st->accounts;
	for (uint32_t i = 0; i < c->tree_count; i++)
		if (!is_user(c->tree[i]))
			tally_free(st, &c->tree[i]->tally);
	for (uint32_t i = c->tree_count; i-- > 0;)
		if (c->tree[i]->parent)
			add_tally(st, &c->tree[i]->parent->tally, &c->tree[i]->tally);
}

static void link_children(struct sch_state *st)
{
	const struct mu_map *map = &st->accounts.assoc;
	const uint8_t *key = NULL;
	size_t len = 0;
	struct sch_assoc *a;
	for (a = mu_map_seek(map, NULL, 0, 0, &key, &len); a; a = mu_map_seek(map, key, len, 1, &key, &len)) {
		sch__free(st, a->child, a->child_count * sizeof(a->child[0]));
		a->child = NULL;
		a->child_count = 0;
		find_parent(st, a);
	}
	for (a = mu_map_seek(map, NULL, 0, 0, &key, &len); a; a = mu_map_seek(map, key, len, 1, &key, &len))
		if (a->parent)
			a->parent->child_count++;
	for (a = mu_map_seek(map, NULL, 0, 0, &key, &len); a; a = mu_map_seek(map, key, len, 1, &key, &len)) {
		a->child = sch__alloc(st, a->child_count * sizeof(a->child[0]));
		a->order = 0;
	}
	for (a = mu_map_seek(map, NULL, 0, 0, &key, &len); a; a = mu_map_seek(map, key, len, 1, &key, &len))
		if (a->parent)
			a->parent->child[a->parent->order++] = a;
	for (a = mu_map_seek(map, NULL, 0, 0, &key, &len); a; a = mu_map_seek(map, key, len, 1, &key, &len))
		if (a->child_count > 1)
			qsort(a->child, a->child_count, sizeof(a->child[0]), by_place);
}

void sch__accounts_tree(struct sch_state *st)
{
	struct sch_accounts *c = &st->accounts;
	struct sch_assoc *root = sch__assoc_at(st, "root", NULL, NULL);
	sch__free(st, c->tree, c->tree_count * sizeof(c->tree[0]));
	c->tree = sch__alloc(st, c->assoc.count * sizeof(c->tree[0]));
	c->tree_count = 0;
	link_children(st);
	if (root)
		walk_tree(c, root, 0);
	assert(c->tree_count == c->assoc.count);
	for (uint32_t i = 0; i < c->tree_count; i++)
		sch__caps_compile(st, &c->tree[i]->caps, c->tree[i]->row->limits);
	sum_tallies(st);
	sch__policy(st);
}

/* ---- the way back ---- */

int sch__accounts_load(struct sch_state *st, uint8_t kind, const void *row, struct mu_err *err)
{
	bool ok;
	if (kind == SCH_ROW_ACCOUNT) {
		Mu__AccountRow *r = (Mu__AccountRow *)row;
		ok = r->name && *r->name && !sch__account(st, r->name);
		if (ok)
			sch__account_build(st, r);
		else
			mu__account_row__free_unpacked(r, NULL);
	} else if (kind == SCH_ROW_USER) {
		Mu__UserRow *r = (Mu__UserRow *)row;
		ok = r->name && *r->name && !sch__user(st, r->name);
		if (ok)
			sch__user_build(st, r);
		else
			mu__user_row__free_unpacked(r, NULL);
	} else if (kind == SCH_ROW_ASSOC) {
		Mu__AssocRow *r = (Mu__AssocRow *)row;
		ok = r->id && r->account && *r->account && !sch__assoc(st, r->id) &&
		     !sch__assoc_at(st, r->account, r->user, r->partition);
		if (ok)
			sch__assoc_build(st, r);
		else
			mu__assoc_row__free_unpacked(r, NULL);
	} else {
		Mu__QosRow *r = (Mu__QosRow *)row;
		ok = r->name && *r->name && !sch__qos(st, r->name);
		if (ok)
			sch__qos_build(st, r);
		else
			mu__qos_row__free_unpacked(r, NULL);
	}
	return ok ? 0 : mu_fail(err, MU_ECORRUPT, "an accounting row without a name, or twice");
}

/* Every account hangs below the root, at a bounded depth. */
static bool hangs(const struct sch_state *st, const struct sch_assoc *a)
{
	for (int i = 0; i < SCH_TREE_DEPTH_MAX + 2; i++) {
		if (!is_user(a) && strcmp(a->row->account, "root") == 0)
			return true;
		a = is_user(a) ? sch__assoc_at(st, a->row->account, NULL, NULL)
			       : sch__assoc_at(st, a->row->parent ? a->row->parent : "root", NULL, NULL);
		if (!a)
			return false;
	}
	return false;
}

int sch__accounts_load_done(struct sch_state *st, struct mu_err *err)
{
	const uint8_t *key = NULL;
	size_t len = 0;
	for (struct sch_assoc *a = mu_map_seek(&st->accounts.assoc, NULL, 0, 0, &key, &len); a;
	     a = mu_map_seek(&st->accounts.assoc, key, len, 1, &key, &len))
		if (!hangs(st, a))
			return mu_fail(err, MU_ECORRUPT, "association %u hangs below no account", a->row->id);
	for (struct sch_qos *q = mu_map_seek(&st->accounts.qos, NULL, 0, 0, &key, &len); q;
	     q = mu_map_seek(&st->accounts.qos, key, len, 1, &key, &len))
		sch__caps_compile(st, &q->caps, q->row->limits);
	sch__accounts_tree(st);
	return 0;
}

/* ---- the beginning ---- */

static struct sch_assoc *found_assoc(struct sch_ev *ev, const char *user)
{
	Mu__AssocRow row = MU__ASSOC_ROW__INIT;
	char *normal[] = {(char *)"normal"};
	SCH_SET(&row, id, ++ev->st->cluster->next_assoc_id);
	row.account = (char *)"root";
	row.user = (char *)user;
	SCH_SET(&row, created_usec, ev->now);
	row.qos = normal;
	row.n_qos = user ? 0 : 1;
	struct sch_assoc *a = sch__assoc_build(ev->st, sch__copy_message(&row.base));
	sch__touch(ev->st, &a->rec);
	return a;
}

void sch__accounts_found(struct sch_ev *ev)
{
	struct sch_state *st = ev->st;
	Mu__AccountRow account = MU__ACCOUNT_ROW__INIT;
	account.name = (char *)"root";
	account.description = (char *)"default root account";
	account.organization = (char *)"root";
	SCH_SET(&account, created_usec, ev->now);
	sch__touch(st, &sch__account_build(st, sch__copy_message(&account.base))->rec);
	Mu__UserRow user = MU__USER_ROW__INIT;
	user.name = (char *)"root";
	user.default_account = (char *)"root";
	SCH_SET(&user, admin, 2);
	SCH_SET(&user, created_usec, ev->now);
	sch__touch(st, &sch__user_build(st, sch__copy_message(&user.base))->rec);
	Mu__QosRow qos = MU__QOS_ROW__INIT;
	qos.name = (char *)"normal";
	qos.description = (char *)"Normal QOS default";
	SCH_SET(&qos, id, ++st->cluster->next_qos_id);
	SCH_SET(&qos, created_usec, ev->now);
	struct sch_qos *q = sch__qos_build(st, sch__copy_message(&qos.base));
	sch__caps_compile(st, &q->caps, NULL);
	sch__touch(st, &q->rec);
	found_assoc(ev, NULL);
	found_assoc(ev, "root");
	sch__accounts_tree(st);
	sch__fair(st);
}
