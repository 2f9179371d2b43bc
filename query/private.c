/* query/private.c: accounts, users, associations and reservations, and what PrivateData hides of them: people who are no
 * operators see themselves and the accounts that they belong to or coordinate. */
#include <string.h>

#include "proto/pb.h"
#include "proto/reservation.pb-c.h"
#include "query/answer.h"
#include "query/store.h"

enum { TREE_DEPTH = 64 }; /* walks up the tree of accounts */

bool answer_hides(const struct answer *a, unsigned private_bit)
{
	return (a->private_data & private_bit) && !a->caller->operator;
}

bool answer_is_caller(const struct answer *a, const char *user)
{
	return user && a->caller->user && strcmp(user, a->caller->user) == 0;
}

/* The accounts that are the caller's, and those above them. */
struct mine {
	struct answer *a;
	struct mu_map accounts, above; /* name -> this */
	bool grown;
};

static int find_mine(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err)
{
	struct mine *m = arg;
	struct mu_arena arena = {0};
	Mu__AssocRow *assoc =
	    (Mu__AssocRow *)mu_pb_unpack(&mu__assoc_row__descriptor, row.data, row.len, &arena);

	if (assoc && assoc->account && answer_is_caller(m->a, assoc->user))
		mu_map_put_str(&m->accounts, assoc->account, m);
	mu_arena_free(&arena);
	return 0;
}

/* One step up the tree from what is known. */
static int find_above(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err)
{
	struct mine *m = arg;
	struct mu_arena arena = {0};
	Mu__AssocRow *assoc =
	    (Mu__AssocRow *)mu_pb_unpack(&mu__assoc_row__descriptor, row.data, row.len, &arena);
	bool below =
	    assoc && assoc->account && !(assoc->user && *assoc->user) &&
	    (mu_map_get_str(&m->accounts, assoc->account) || mu_map_get_str(&m->above, assoc->account));
	const char *parent =
	    below && strcmp(assoc->account, "root") != 0 ? (assoc->parent ? assoc->parent : "root") : NULL;

	if (parent && !mu_map_get_str(&m->above, parent)) {
		mu_map_put_str(&m->above, parent, m);
		m->grown = true;
	}
	mu_arena_free(&arena);
	return 0;
}

static int find_led(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err)
{
	struct mine *m = arg;
	struct mu_arena arena = {0};
	Mu__AccountRow *account =
	    (Mu__AccountRow *)mu_pb_unpack(&mu__account_row__descriptor, row.data, row.len, &arena);

	for (size_t i = 0; account && account->name && i < account->n_coordinator; i++)
		if (answer_is_caller(m->a, account->coordinator[i]))
			mu_map_put_str(&m->accounts, account->name, m);
	mu_arena_free(&arena);
	return 0;
}

static int add_account(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err)
{
	struct mine *m = arg;

	if (answer_hides(m->a, VIEW_PRIVATE_ACCOUNTS) && !mu_map_get(&m->accounts, key.data, key.len))
		return 0;
	return answer_plain(m->a, key, row);
}

static int add_user(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err)
{
	struct mine *m = arg;
	const char *user = m->a->caller->user;

	if (answer_hides(m->a, VIEW_PRIVATE_USERS) &&
	    !(user && key.len == strlen(user) && memcmp(key.data, user, key.len) == 0))
		return 0;
	return answer_plain(m->a, key, row);
}

static int add_assoc(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err)
{
	struct mine *m = arg;
	struct mu_arena arena = {0};
	Mu__AssocRow *assoc =
	    (Mu__AssocRow *)mu_pb_unpack(&mu__assoc_row__descriptor, row.data, row.len, &arena);
	bool own = assoc && answer_is_caller(m->a, assoc->user), user = assoc && assoc->user && *assoc->user,
	     member = assoc && assoc->account &&
		      (mu_map_get_str(&m->accounts, assoc->account) ||
		       (!user && mu_map_get_str(&m->above, assoc->account)));

	mu_arena_free(&arena);
	if (!own && user && answer_hides(m->a, VIEW_PRIVATE_USERS))
		return 0;
	if (!own && !member && answer_hides(m->a, VIEW_PRIVATE_ACCOUNTS))
		return 0;
	return answer_plain(m->a, key, row);
}

int answer_people(struct answer *a)
{
	struct mine mine = {.a = a};
	struct mu_view all = {0};
	int code = 0;

	if (answer_hides(a, VIEW_PRIVATE_ACCOUNTS)) {
		code = source_each(&a->source, SCH_ROW_ASSOC, all, all, find_mine, &mine, a->err);
		if (code == 0)
			code = source_each(&a->source, SCH_ROW_ACCOUNT, all, all, find_led, &mine, a->err);
		mine.grown = a->query->what == MU__WHAT__WHAT_ASSOCS;
		for (int depth = 0; code == 0 && mine.grown && depth < TREE_DEPTH; depth++) {
			mine.grown = false;
			code = source_each(&a->source, SCH_ROW_ASSOC, all, all, find_above, &mine, a->err);
		}
	}
	if (code == 0 && a->query->what == MU__WHAT__WHAT_ACCOUNTS)
		code = source_each(&a->source, SCH_ROW_ACCOUNT, all, answer_page_key(a), add_account, &mine,
				   a->err);
	else if (code == 0 && a->query->what == MU__WHAT__WHAT_USERS)
		code =
		    source_each(&a->source, SCH_ROW_USER, all, answer_page_key(a), add_user, &mine, a->err);
	else if (code == 0)
		code =
		    source_each(&a->source, SCH_ROW_ASSOC, all, answer_page_key(a), add_assoc, &mine, a->err);
	mu_map_clear(&mine.accounts);
	mu_map_clear(&mine.above);
	return code;
}

static bool in_texts(char *const *texts, size_t count, const char *word)
{
	for (size_t i = 0; i < count; i++)
		if (word && strcmp(texts[i], word) == 0)
			return true;
	return false;
}

static bool in_accounts(const struct mine *m, const Mu__ReservationRow *v)
{
	for (size_t i = 0; i < v->n_account; i++)
		if (mu_map_get_str(&m->accounts, v->account[i]))
			return true;
	return false;
}

/* May the caller run in it? */
static bool is_open(const struct mine *m, const Mu__ReservationRow *v)
{
	bool user = in_texts(v->user, v->n_user, m->a->caller->user);

	if (v->n_user && (v->deny_users ? !user : user))
		return true;
	return v->n_account && (v->deny_accounts ? !in_accounts(m, v) : in_accounts(m, v));
}

static int add_reservation(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err)
{
	struct mine *m = arg;
	struct mu_arena arena = {0};
	bool shown = true;

	(void)err;
	if (answer_hides(m->a, VIEW_PRIVATE_RESERVATIONS)) {
		const Mu__ReservationRow *v =
		    (Mu__ReservationRow *)mu_pb_unpack(&mu__reservation_row__descriptor, row.data, row.len, &arena);
		shown = v && is_open(m, v);
	}
	mu_arena_free(&arena);
	return shown ? answer_plain(m->a, key, row) : 0;
}

int answer_reservations(struct answer *a)
{
	struct mine mine = {.a = a};
	struct mu_view all = {0};
	int code = 0;

	if (answer_hides(a, VIEW_PRIVATE_RESERVATIONS))
		code = source_each(&a->source, SCH_ROW_ASSOC, all, all, find_mine, &mine, a->err);
	if (code == 0)
		code = source_each(&a->source, SCH_ROW_RESERVATION, all, answer_page_key(a), add_reservation, &mine,
				   a->err);
	mu_map_clear(&mine.accounts);
	mu_map_clear(&mine.above);
	return code;
}
