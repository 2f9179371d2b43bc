/* sched/evolve_resv.c: what operators do with reservations, and what time does with them. */
#include "sched/timeline.h"

#include <assert.h>
#include <stdlib.h>

#include "proto/hostlist.h"

enum { PURGE_SEC = 300, OUTER_TIMES_MAX = 32, USERS_MAX = 10000 };
#define YEAR_SEC (INT64_C(365) * 86400)

static const uint64_t repeats =
    RESV_FLAG_HOURLY | RESV_FLAG_DAILY | RESV_FLAG_WEEKLY | RESV_FLAG_WEEKDAY | RESV_FLAG_WEEKEND;

static bool given(const char *text)
{
	return text && *text;
}

/* ---- what a reservation may have ---- */

struct plan { /* a reservation that is being made or changed */
	const struct sch_state *st;
	struct sch_resv want;	    /* a row in the event's memory */
	const struct sch_resv *old; /* NULL: a new one */
	struct mu_arena *arena;
	struct mu_err *err;
};

/* Do times of the wanted one and of R meet? */
static bool times_meet(const struct plan *p, const struct sch_resv *r)
{
	int64_t from, until, now = p->st->cluster->now_usec;
	for (uint32_t k = 0; k < OUTER_TIMES_MAX && sch__resv_time(&p->want, now, k, &from, &until); k++)
		if (sch__resv_meets(r, now, from, until))
			return true;
	return false;
}

/* CPUs of N that another reservation has at a common time; *ret_whole: all of it. */
static void taken_by_others(const struct plan *p, const struct sch_node *n, bool *ret_whole,
			    struct mu_bits *ret)
{
	*ret_whole = false;
	if (sch__resv_flag(&p->want, RESV_FLAG_MAINT | RESV_FLAG_OVERLAP))
		return;
	for (const struct sch_resv *r = sch__resv_next(p->st, NULL); r && !*ret_whole;
	     r = sch__resv_next(p->st, r)) {
		/* One that may be overlapped keeps its nodes from jobs, not from reservations. */
		if (r == p->old || !mu_bits_test(&r->nodes, n->rank) || !times_meet(p, r))
			continue;
		*ret_whole = r->part_count == 0;
		for (uint32_t i = 0; i < r->part_count; i++)
			if (r->part[i].node == n)
				mu_bits_or(ret, &r->part[i].cpu);
	}
}

/* CPUs of N that jobs hold when the reservation begins. Those of its own do not count. */
static void taken_by_jobs(const struct plan *p, const struct sch_node *n, struct mu_bits *ret)
{
	int64_t from, until, now = p->st->cluster->now_usec;
	if (sch__resv_flag(&p->want, RESV_FLAG_IGNORE_JOBS))
		return;
	sch__resv_time(&p->want, now, 0, &from, &until);
	for (uint32_t i = 0; i < n->hold_count; i++) {
		const struct sch_job *j = n->hold[i].job;
		const struct sch_alloc *a = sch__alloc_on(n->hold[i].job, n->hold[i].attempt, n);
		int64_t end = j->state == JOB_COMPLETING ? now : sch__job_end_usec(j);
		if (end > from && !(j->resv && sch__same(j->resv->text, p->want.row->name)))
			mu_bits_or(ret, &a->cpu);
	}
}

static bool free_whole(const struct plan *p, const struct sch_node *n)
{
	struct mu_bits cpu = {0};
	bool whole;
	taken_by_others(p, n, &whole, &cpu);
	taken_by_jobs(p, n, &cpu);
	bool ok = !whole && mu_bits_count(&cpu) == 0;
	mu_bits_free(&cpu);
	return ok;
}

/* As many whole cores of N as are free, at most *left: a ResvCores in the arena, or NULL. */
static Mu__ResvCores *cut_cores(const struct plan *p, const struct sch_node *n, uint32_t *left)
{
	struct mu_bits taken = {0}, got = {0};
	uint32_t tpc = sch__tpc(n);
	bool whole;
	Mu__ResvCores *c = NULL;
	taken_by_others(p, n, &whole, &taken);
	taken_by_jobs(p, n, &taken);
	for (uint32_t b = 0; b + tpc <= n->row->cpus && *left && !whole; b += tpc) {
		bool free = true;
		for (uint32_t t = 0; t < tpc; t++)
			free = free && !mu_bits_test(&taken, b + t);
		for (uint32_t t = 0; t < tpc && free; t++)
			mu_bits_set(&got, b + t);
		*left -= free;
	}
	if (mu_bits_count(&got)) {
		size_t len = mu_bits_print(&got, NULL, 0);
		c = mu_arena_alloc(p->arena, sizeof(*c));
		mu__resv_cores__init(c);
		c->node = n->row->name;
		c->cpu_list = mu_arena_alloc(p->arena, len + 1);
		mu_bits_print(&got, c->cpu_list, len + 1);
	}
	mu_bits_free(&taken);
	mu_bits_free(&got);
	return c;
}

/* ---- which nodes ---- */

static int nodes_busy(const struct plan *p)
{
	return sch__refuse(p->err, MU_ENODEBUSY);
}

static const struct sch_part *part_of(const struct plan *p)
{
	const struct sch_state *st = p->st;
	if (given(p->want.row->partition))
		return sch__part(st, p->want.row->partition);
	for (uint32_t i = 0; i < st->part_count; i++)
		if (st->part[i]->row->conf->is_default)
			return st->part[i];
	return st->part_count ? st->part[0] : NULL;
}

static bool suits(const struct plan *p, const struct sch_node *n)
{
	const char *features = p->want.row->features;
	return n->usable && (!given(features) || sch__features_match(features, n, SCH_ANY_CHOICE));
}

static char *fold(const struct plan *p, const struct mu_bits *nodes)
{
	struct mu_buf buf = {0};
	const char **names = mu_arena_alloc(p->arena, (p->st->node_count + 1) * sizeof(names[0]));
	size_t count = 0;
	for (uint32_t r = mu_bits_next(nodes, 0); r != UINT32_MAX; r = mu_bits_next(nodes, r + 1))
		names[count++] = p->st->by_rank[r]->row->name;
	mu_hostlist_fold_sorted(names, count, &buf);
	char *text = mu_arena_strdup(p->arena, buf.data ? (const char *)buf.data : "");
	mu_buf_free(&buf);
	return text;
}

/* Nodes that nobody uses first, then by rank. */
static int choose_nodes(struct plan *p, struct mu_bits *ret)
{
	const struct sch_part *part = part_of(p);
	uint32_t left = p->want.row->node_cnt;
	for (int busy = 0; busy < 2 && part; busy++)
		for (uint32_t r = mu_bits_next(&part->nodes, 0); r != UINT32_MAX && left;
		     r = mu_bits_next(&part->nodes, r + 1)) {
			const struct sch_node *n = p->st->by_rank[r];
			if ((n->hold_count > 0) != busy || !suits(p, n) || !free_whole(p, n))
				continue;
			mu_bits_set(ret, r);
			left--;
		}
	return left ? nodes_busy(p) : 0;
}

static int named_nodes(struct plan *p, struct mu_bits *ret)
{
	Mu__ReservationRow *w = p->want.row;
	if (strcasecmp(w->nodes, "ALL") == 0) {
		for (uint32_t i = 0; i < p->st->node_count; i++)
			if (p->st->by_rank[i]->row->base_state != NODE_FUTURE)
				mu_bits_set(ret, i);
		const struct sch_part *part = sch__part(p->st, w->partition);
		for (uint32_t i = 0; i < ret->words && part; i++)
			ret->word[i] &= i < part->nodes.words ? part->nodes.word[i] : 0;
		if (!part)
			w->flags |= RESV_FLAG_ALL_NODES;
		if (sch__resv_flag(&p->want, RESV_FLAG_PART_NODES) && !part)
			return sch__refuse(p->err, MU_EPARTITION);
		return 0;
	}
	w->flags |= RESV_FLAG_SPEC_NODES;
	return sch__name_bits(p->st, w->nodes, p->arena, ret, p->err);
}

static int set_cores(struct plan *p, struct mu_bits *nodes, bool named)
{
	Mu__ReservationRow *w = p->want.row;
	const struct sch_part *part = part_of(p);
	const struct mu_bits *from = named ? nodes : part ? &part->nodes : nodes;
	struct mu_bits got = {0};
	uint32_t left = w->core_cnt, cap = mu_bits_count(from), most = w->node_cnt ? w->node_cnt : UINT32_MAX;
	w->cores = mu_arena_alloc(p->arena, (cap + 1) * sizeof(w->cores[0]));
	w->n_cores = 0;
	for (uint32_t r = mu_bits_next(from, 0); r != UINT32_MAX && left && w->n_cores < most;
	     r = mu_bits_next(from, r + 1)) {
		const struct sch_node *n = p->st->by_rank[r];
		uint32_t share = left;
		if (!named && !suits(p, n))
			continue;
		if (most != UINT32_MAX) /* Spread over that many. */
			share = (left + most - (uint32_t)w->n_cores - 1) / (most - (uint32_t)w->n_cores);
		left -= share;
		Mu__ResvCores *c = cut_cores(p, n, &share);
		left += share;
		if (!c)
			continue;
		w->cores[w->n_cores++] = c;
		mu_bits_set(&got, r);
	}
	mu_bits_copy(nodes, &got);
	mu_bits_free(&got);
	return left ? nodes_busy(p) : 0;
}

static int find_nodes(struct plan *p)
{
	Mu__ReservationRow *w = p->want.row;
	struct mu_bits nodes = {0};
	bool named = given(w->nodes);
	int rc = 0;
	if (named)
		rc = named_nodes(p, &nodes);
	if (!rc && w->core_cnt)
		rc = set_cores(p, &nodes, named);
	else if (!rc && !named && w->node_cnt)
		rc = choose_nodes(p, &nodes);
	else if (!rc)
		for (uint32_t r = mu_bits_next(&nodes, 0); r != UINT32_MAX && !rc;
		     r = mu_bits_next(&nodes, r + 1))
			rc = free_whole(p, p->st->by_rank[r]) ? 0 : nodes_busy(p);
	if (!rc && (named || w->core_cnt || w->node_cnt))
		w->nodes = fold(p, &nodes);
	mu_bits_free(&nodes);
	return rc;
}

/* ---- checks ---- */

static int check_words(const struct plan *p, const Mu__ReservationRow *w)
{
	const struct sch_state *st = p->st;
	if (!w->n_user && !w->n_account && !w->n_group)
		return mu_fail(p->err, MU_EINVAL, "Either Users/Groups and/or Accounts must be specified");
	if (w->n_user > USERS_MAX || w->n_account > USERS_MAX || w->n_group > USERS_MAX ||
	    w->n_gid != w->n_group)
		return mu_fail(p->err, MU_EINVAL, "A reservation names at most %d users, accounts or groups",
			       USERS_MAX);
	for (size_t i = 0; i < w->n_account; i++)
		if (!sch__account(st, w->account[i]))
			return sch__refuse(p->err, MU_EACCOUNT);
	if (given(w->partition) && !sch__part(st, w->partition))
		return sch__refuse(p->err, MU_EPARTITION);
	if (w->flags & (RESV_FLAG_REPLACE | RESV_FLAG_REPLACE_DOWN) &&
	    (w->core_cnt || w->flags & RESV_FLAG_STATIC))
		return mu_fail(p->err, MU_EINVAL, "REPLACE is for whole nodes that the cluster chose");
	if (given(w->features))
		return sch__features_check(st, w->features, p->err);
	return given(w->licenses) ? sch__lic_check(st, w->licenses, p->err) : 0;
}

static int check_times(const struct plan *p, Mu__ReservationRow *w, const Mu__ReservationChanged *c)
{
	int64_t now = p->st->cluster->now_usec, length = c->duration_sec < 0 ? YEAR_SEC : c->duration_sec;
	if (w->start_usec <= 0 || w->start_usec > INT64_MAX / 4 || w->end_usec < 0 ||
	    w->end_usec > INT64_MAX / 4 || length > 100 * YEAR_SEC)
		return mu_fail(p->err, MU_EINVAL, "Invalid time value");
	if (c->has_duration_sec && !c->row->has_end_usec)
		SCH_SET(w, end_usec, w->start_usec + length * SCH_USEC);
	if (c->row->has_start_usec && w->flags & RESV_FLAG_TIME_FLOAT)
		SCH_SET(w, float_usec, w->start_usec > now ? w->start_usec - now : 0);
	if (w->end_usec <= w->start_usec || w->end_usec <= now)
		return mu_fail(p->err, MU_EINVAL, "Invalid time value");
	if ((w->flags & repeats) & ((w->flags & repeats) - 1))
		return mu_fail(p->err, MU_EINVAL, "A reservation repeats in one way only");
	int64_t period = w->flags & RESV_FLAG_HOURLY   ? 3600
			 : w->flags & RESV_FLAG_WEEKLY ? 7 * 86400
			 : w->flags & repeats	       ? 86400
						       : 0;
	if (period && w->end_usec - w->start_usec > period * SCH_USEC)
		return mu_fail(p->err, MU_EINVAL,
			       "A reservation that repeats must end before it begins again");
	return 0;
}

static char *new_name(const struct plan *p)
{
	const Mu__ReservationRow *w = p->want.row;
	const char *who = w->n_account ? w->account[0] : w->n_user ? w->user[0] : w->group[0];
	for (uint32_t i = p->st->cluster->next_resv_id ? p->st->cluster->next_resv_id : 1;; i++) {
		char *name = mu_arena_printf(p->arena, "%.200s_%u", who, i);
		if (!sch__resv(p->st, name))
			return name;
	}
}

static bool name_fits(const char *name)
{
	for (const char *c = name; *c; c++)
		if ((unsigned char)*c <= ' ' || strchr(",=/", *c))
			return false;
	return strlen(name) <= SCH_KEY_MAX;
}

/* ---- making and changing ---- */

static void merge_lists(Mu__ReservationRow *w, const Mu__ReservationChanged *c)
{
	const Mu__ReservationRow *from = c->row;
	if (c->set_users) {
		w->n_user = from->n_user;
		w->user = from->user;
		SCH_SET(w, deny_users, from->deny_users);
	}
	if (c->set_accounts) {
		w->n_account = from->n_account;
		w->account = from->account;
		SCH_SET(w, deny_accounts, from->deny_accounts);
	}
	if (c->set_groups) {
		w->n_group = from->n_group;
		w->group = from->group;
		w->n_gid = from->n_gid;
		w->gid = from->gid;
	}
}

/* The row as it would be, in the event's memory. */
static void merged(struct plan *p, const Mu__ReservationChanged *c)
{
	Mu__ReservationRow *w = mu_arena_alloc(p->arena, sizeof(*w));
	mu__reservation_row__init(w);
	if (p->old)
		*w = *p->old->row;
	uint64_t flags = (w->flags & ~c->flags_clear) | c->row->flags;
	bool nodes = given(c->row->nodes) || c->row->has_node_cnt || c->row->has_core_cnt;
	if (nodes) { /* A new choice of nodes replaces the old one whole. */
		w->nodes = NULL;
		w->has_node_cnt = w->has_core_cnt = 0;
		w->node_cnt = w->core_cnt = 0;
		w->n_cores = 0;
		flags &= ~(RESV_FLAG_SPEC_NODES | RESV_FLAG_ALL_NODES);
	}
	Mu__ReservationRow from = *c->row;
	from.n_user = from.n_account = from.n_group = from.n_gid = from.n_cores = 0;
	from.has_deny_users = from.has_deny_accounts = from.has_id = from.has_active = from.has_idle_usec = 0;
	from.creator = NULL;
	sch__merge(&w->base, &from.base);
	SCH_SET(w, flags, flags);
	merge_lists(w, c);
	if (w->flags & RESV_FLAG_PURGE_COMP && !w->purge_sec)
		SCH_SET(w, purge_sec, PURGE_SEC);
	p->want.row = w;
}

/* Within the time that it had it needs no look at others. */
static bool changes_place(const struct plan *p, const Mu__ReservationChanged *c)
{
	const Mu__ReservationRow *r = c->row, *w = p->want.row;
	bool same = p->old && !given(r->nodes) && !r->has_node_cnt && !r->has_core_cnt &&
		    !given(r->partition) && !given(r->features);
	if (same && w->start_usec >= p->old->row->start_usec && w->end_usec <= p->old->row->end_usec)
		return false;
	return c->create || given(r->nodes) || r->has_node_cnt || r->has_core_cnt || r->has_start_usec ||
	       r->has_end_usec || c->has_duration_sec || given(r->partition) || given(r->features);
}

static int check(struct plan *p, const Mu__ReservationChanged *c)
{
	merged(p, c);
	Mu__ReservationRow *w = p->want.row;
	int rc = check_words(p, w);
	if (!rc)
		rc = check_times(p, w, c);
	if (rc)
		return rc;
	if (c->create && !given(w->name))
		w->name = new_name(p);
	if (!name_fits(w->name))
		return mu_fail(p->err, MU_EINVAL, "A reservation's name has no blanks and none of , = /");
	if (!given(w->nodes) && !w->node_cnt && !w->core_cnt && !given(w->licenses))
		return mu_fail(p->err, MU_EINVAL, "Nodes, NodeCnt, CoreCnt or Licenses must be specified");
	return changes_place(p, c) ? find_nodes(p) : 0;
}

/* Jobs that run in it end with it. */
static void move_ends(struct sch_state *st, const struct sch_resv *r)
{
	uint64_t id = 0;
	for (struct sch_job *j = r->jobs ? mu_map_next_u64(&st->jobs, 0, &id) : NULL; j;
	     j = mu_map_next_u64(&st->jobs, id + 1, &id)) {
		if ((j->state != JOB_RUNNING && j->state != JOB_SUSPENDED) || !j->resv ||
		    !sch__same(j->resv->text, r->row->name))
			continue;
		sch__due_clear(st, j);
		j->resv_end_usec = sch__resv_job_end(st, r);
		sch__due_set(st, j);
		sch__touch(st, &j->rec);
	}
}

/* The time has come, or is over, or neither any more. */
static void set_active(struct sch_state *st, struct sch_resv *r, bool active)
{
	SCH_SET(r->row, active, active && !sch__resv_flag(r, RESV_FLAG_TIME_FLOAT));
	SCH_SET(r->row, idle_usec, r->row->active && !r->jobs && !r->refs ? st->cluster->now_usec : 0);
	sch__touch(st, &r->rec);
}

/* Plans were made around other reservations: what they promised cannot be kept, or need not. */
static void forget_plans(struct sch_state *st)
{
	uint64_t id = 0;
	for (struct sch_job *j = mu_map_next_u64(&st->plans, 0, &id); j; j = mu_map_next_u64(&st->plans, id + 1, &id)) {
		sch__plan_clear(st, j);
		sch__touch(st, &j->rec);
	}
}

static void settle(struct sch_ev *ev, struct sch_resv *r)
{
	struct sch_state *st = ev->st;
	sch__resv_derive(st, r);
	set_active(st, r, r->row->start_usec <= ev->now && r->row->end_usec > ev->now);
	move_ends(st, r);
	sch__resv_node_flags(st);
	sch__touch(st, &r->rec);
	forget_plans(st);
	sch__pass_restart(st);
}

static int create(struct sch_ev *ev, struct plan *p, const Mu__ReservationChanged *c)
{
	struct sch_state *st = ev->st;
	if (st->resvs.count >= SCH_RESVS_MAX)
		return mu_fail(&ev->err, MU_ELIMIT, "A cluster has at most %d reservations", SCH_RESVS_MAX);
	int rc = check(p, c);
	if (rc)
		return rc;
	Mu__ReservationRow *w = p->want.row;
	if (sch__resv(st, w->name))
		return mu_fail(&ev->err, MU_EEXIST, "Duplicate reservation name");
	if (!st->cluster->next_resv_id)
		st->cluster->next_resv_id = 1;
	SCH_SET(w, id, st->cluster->next_resv_id++);
	w->creator = ev->author->user;
	struct sch_resv *r = sch__resv_build(st, sch__copy_message(&w->base));
	settle(ev, r);
	mu_fail(&ev->err, 0, "%s", r->row->name); /* The verdict's text tells a name that was made up. */
	return 0;
}

static void replace_row(struct sch_state *st, struct sch_resv *r, const Mu__ReservationRow *w)
{
	Mu__ReservationRow *copy = sch__copy_message(&w->base);
	for (uint32_t i = 0; i < r->part_count; i++)
		mu_bits_free(&r->part[i].cpu);
	sch__free(st, r->part, r->row->n_cores * sizeof(r->part[0]));
	r->part = NULL;
	r->part_count = 0;
	mu__reservation_row__free_unpacked(r->row, NULL);
	r->row = copy;
}

/* To the first time that is not over at NOW. */
static void next_time(struct sch_resv *r, int64_t now)
{
	int64_t from, until;
	for (uint32_t k = 1; k < SCH_RESV_TIMES_MAX && sch__resv_time(r, now, k, &from, &until); k++) {
		if (until <= now && k + 1 < SCH_RESV_TIMES_MAX)
			continue;
		SCH_SET(r->row, start_usec, from);
		SCH_SET(r->row, end_usec, until);
		return;
	}
}

int sch__evolve_reservation_changed(struct sch_ev *ev)
{
	Mu__ReservationChanged *c = ev->event->reservation_changed;
	static const Mu__ReservationRow nothing = MU__RESERVATION_ROW__INIT;
	if (!ev->author->operator_)
		return sch__refuse(&ev->err, MU_EPERM);
	if (!c->row)
		c->row = mu_arena_dup(ev->arena, &nothing, sizeof(nothing));
	struct sch_resv *r = sch__resv(ev->st, c->row->name);
	struct plan p = {.st = ev->st, .old = r, .arena = ev->arena, .err = &ev->err};
	if (c->create) {
		if (r)
			return mu_fail(&ev->err, MU_EEXIST, "Duplicate reservation name");
		return create(ev, &p, c);
	}
	if (!r)
		return sch__refuse(&ev->err, MU_ERESERVATION);
	if (c->remove) {
		if (r->jobs)
			return mu_fail(&ev->err, MU_EBUSY, "Requested reservation is in use");
		sch__resv_remove(ev, r);
		return 0;
	}
	if (c->skip) {
		if (!sch__resv_flag(r, repeats))
			return mu_fail(&ev->err, MU_EINVAL,
				       "Only a reservation that repeats can skip a time");
		next_time(r, ev->now);
		settle(ev, r);
		return 0;
	}
	int rc = check(&p, c);
	if (rc)
		return rc;
	replace_row(ev->st, r, p.want.row);
	settle(ev, r);
	return 0;
}

/* ---- the end of a reservation ---- */

void sch__resv_remove(struct sch_ev *ev, struct sch_resv *r)
{
	struct sch_state *st = ev->st;
	uint64_t id = 0;
	bool hold = !sch__resv_flag(r, RESV_FLAG_NO_HOLD_JOBS_AFTER);
	assert(r->jobs == 0);
	for (struct sch_job *j = r->refs ? mu_map_next_u64(&st->jobs, 0, &id) : NULL; j;
	     j = mu_map_next_u64(&st->jobs, id + 1, &id))
		if (j->resv_want)
			sch__job_forget_resv(ev, j, r->row->name, hold);
	mu_map_del_str(&st->resvs, r->row->name);
	sch__gone(st, &r->rec);
	forget_plans(st);
	sch__resv_node_flags(st);
	sch__pass_restart(st);
}

/* ---- nodes that are to be replaced ---- */

static bool wants_another(const struct sch_resv *r, const struct sch_node *n)
{
	return !n->usable || (sch__resv_flag(r, RESV_FLAG_REPLACE) && n->hold_count);
}

/* A node that is to go, and one that may come: by rank; false when there are none. */
static bool find_other(struct plan *p, const struct sch_resv *r, uint32_t *ret_out, uint32_t *ret_in)
{
	const struct sch_part *part = part_of(p);
	uint32_t out = mu_bits_next(&r->nodes, 0);
	while (out != UINT32_MAX && !wants_another(r, p->st->by_rank[out]))
		out = mu_bits_next(&r->nodes, out + 1);
	if (out == UINT32_MAX || !part)
		return false;
	for (uint32_t in = mu_bits_next(&part->nodes, 0); in != UINT32_MAX;
	     in = mu_bits_next(&part->nodes, in + 1)) {
		const struct sch_node *n = p->st->by_rank[in];
		if (mu_bits_test(&r->nodes, in) || n->hold_count || !suits(p, n) || !free_whole(p, n))
			continue;
		*ret_out = out;
		*ret_in = in;
		return true;
	}
	return false;
}

static bool replaces(const struct sch_resv *r)
{
	return sch__resv_flag(r, RESV_FLAG_REPLACE | RESV_FLAG_REPLACE_DOWN) &&
	       !sch__resv_flag(r, RESV_FLAG_SPEC_NODES | RESV_FLAG_ALL_NODES);
}

bool sch__resv_replace_due(const struct sch_state *st)
{
	uint32_t out, in;
	for (const struct sch_resv *r = sch__resv_next(st, NULL); r; r = sch__resv_next(st, r)) {
		struct plan p = {.st = st, .want = {.row = r->row}, .old = r};
		if (replaces(r) && find_other(&p, r, &out, &in))
			return true;
	}
	return false;
}

static void replace_nodes(struct sch_ev *ev, struct sch_resv *r)
{
	struct plan p = {.st = ev->st, .want = {.row = r->row}, .old = r, .arena = ev->arena};
	uint32_t out, in;
	bool any = false;
	for (uint32_t i = 0; i < ev->st->node_count && replaces(r) && find_other(&p, r, &out, &in); i++) {
		mu_bits_clear(&r->nodes, out);
		mu_bits_set(&r->nodes, in);
		any = true;
	}
	if (!any)
		return;
	sch__replace(&r->row->nodes, fold(&p, &r->nodes));
	settle(ev, r);
}

/* ---- time ---- */

static void one_tick(struct sch_ev *ev, struct sch_resv *r)
{
	struct sch_state *st = ev->st;
	Mu__ReservationRow *w = r->row;
	if (sch__resv_flag(r, RESV_FLAG_TIME_FLOAT))
		return;
	bool purge = sch__resv_flag(r, RESV_FLAG_PURGE_COMP) && w->idle_usec &&
		     w->idle_usec + w->purge_sec * SCH_USEC <= ev->now;
	if (purge || w->end_usec <= ev->now) {
		if (sch__resv_flag(r, repeats)) {
			next_time(r, ev->now);
			set_active(st, r, w->start_usec <= ev->now);
		} else if (!r->jobs) {
			sch__resv_remove(ev, r);
			return;
		} else if (w->active) {
			set_active(st, r, false);
		} else {
			return;
		}
	} else if (!w->active && w->start_usec <= ev->now) {
		set_active(st, r, true);
	} else {
		replace_nodes(ev, r);
		return;
	}
	sch__resv_node_flags(st);
	sch__wake(st);
}

void sch__resv_tick(struct sch_ev *ev)
{
	struct sch_resv *r = sch__resv_next(ev->st, NULL);
	while (r) {
		struct sch_resv *next = sch__resv_next(ev->st, r); /* R may go. */
		one_tick(ev, r);
		r = next;
	}
}
