/* sched/resv.c: reservations: who may use one, when it holds, what it keeps from others. Questions only, and
 * what is derived from rows; creating, changing and ending them is evolve_resv.c.
 *
 * Days repeat every 86,400 seconds and weekdays are those of UTC: the core knows no time zone. */
#include "sched/state.h"

#include <assert.h>
#include <stdlib.h>

#include "proto/conf.h"
#include "proto/hostlist.h"

#define HOUR_SEC INT64_C(3600)
#define DAY_SEC INT64_C(86400)

/* ---- rows ---- */

struct sch_resv *sch__resv(const struct sch_state *st, const char *name)
{
	return name && *name ? mu_map_get_str(&st->resvs, name) : NULL;
}

struct sch_resv *sch__resv_next(const struct sch_state *st, const struct sch_resv *after)
{
	if (!after)
		return mu_map_seek(&st->resvs, NULL, 0, 0, NULL, NULL);
	return mu_map_seek(&st->resvs, after->row->name, strlen(after->row->name), 1, NULL, NULL);
}

bool sch__resv_flag(const struct sch_resv *r, uint64_t flag)
{
	return (r->row->flags & flag) != 0;
}

struct sch_resv *sch__resv_build(struct sch_state *st, Mu__ReservationRow *row)
{
	struct sch_resv *r = sch__alloc(st, sizeof(*r));
	r->rec.kind = SCH_ROW_RESERVATION;
	r->rec.change = UINT32_MAX;
	r->row = row;
	mu_map_put_str(&st->resvs, row->name, r);
	return r;
}

int sch__resv_load(struct sch_state *st, Mu__ReservationRow *row, struct mu_err *err)
{
	if (!row->name || !*row->name || sch__resv(st, row->name)) {
		mu__reservation_row__free_unpacked(row, NULL);
		return mu_fail(err, MU_ECORRUPT, "a reservation row without a name, or twice");
	}
	sch__resv_build(st, row);
	return 0;
}

static void drop_parts(struct sch_state *st, struct sch_resv *r)
{
	for (uint32_t i = 0; i < r->part_count; i++)
		mu_bits_free(&r->part[i].cpu);
	sch__free(st, r->part, r->row->n_cores * sizeof(r->part[0]));
	r->part = NULL;
	r->part_count = 0;
}

void sch__resv_free(struct sch_state *st, struct sch_resv *r)
{
	drop_parts(st, r);
	mu_bits_free(&r->nodes);
	mu__reservation_row__free_unpacked(r->row, NULL);
	sch__free(st, r, sizeof(*r));
}

/* ---- what is derived ---- */

static void derive_parts(struct sch_state *st, struct sch_resv *r)
{
	r->part = sch__alloc(st, r->row->n_cores * sizeof(r->part[0]));
	for (size_t i = 0; i < r->row->n_cores; i++) {
		struct sch_resv_part *p = &r->part[r->part_count];
		p->node = sch__node(st, r->row->cores[i]->node);
		if (!p->node || mu_bits_parse(&p->cpu, r->row->cores[i]->cpu_list, SCH_CPUS_PER_NODE - 1)) {
			mu_bits_free(&p->cpu);
			continue;
		}
		p->cpus = mu_bits_count(&p->cpu);
		p->cores = (p->cpus + sch__tpc(p->node) - 1) / sch__tpc(p->node);
		r->part_count++;
	}
}

/* PART_NODES follows its partition. */
static void follow_part(struct sch_state *st, struct sch_resv *r)
{
	const struct sch_part *p = sch__part(st, r->row->partition);
	struct mu_buf list = {0};
	if (!p || !sch__resv_flag(r, RESV_FLAG_PART_NODES))
		return;
	const char **names = calloc(st->node_count + 1, sizeof(names[0]));
	size_t count = 0;
	if (!names)
		abort();
	for (uint32_t n = mu_bits_next(&p->nodes, 0); n != UINT32_MAX; n = mu_bits_next(&p->nodes, n + 1))
		names[count++] = st->by_rank[n]->row->name;
	mu_hostlist_fold_sorted(names, count, &list);
	free(names);
	if (!st->loading && !sch__same(r->row->nodes, (const char *)list.data)) {
		sch__replace(&r->row->nodes, (const char *)list.data);
		sch__touch(st, &r->rec);
	}
	mu_buf_free(&list);
}

void sch__resv_derive(struct sch_state *st, struct sch_resv *r)
{
	struct mu_arena arena = {0};
	char **names = NULL;
	size_t count = 0;
	drop_parts(st, r);
	mu_bits_free(&r->nodes);
	follow_part(st, r);
	if (r->row->nodes && *r->row->nodes &&
	    mu_hostlist_expand(r->row->nodes, SCH_NODES_MAX, &arena, &names, &count, NULL))
		count = 0;
	for (size_t i = 0; i < count; i++) {
		const struct sch_node *n = sch__node(st, names[i]);
		if (n)
			mu_bits_set(&r->nodes, n->rank);
	}
	derive_parts(st, r);
	mu_arena_free(&arena);
}

void sch__resvs_derive(struct sch_state *st)
{
	for (struct sch_resv *r = sch__resv_next(st, NULL); r; r = sch__resv_next(st, r))
		sch__resv_derive(st, r);
	if (st->resvs.count)
		sch__resv_node_flags(st);
}

void sch__resv_node_flags(struct sch_state *st)
{
	struct mu_bits maint = {0}, other = {0};
	for (struct sch_resv *r = sch__resv_next(st, NULL); r; r = sch__resv_next(st, r))
		if (r->row->active && !r->part_count)
			mu_bits_or(sch__resv_flag(r, RESV_FLAG_MAINT) ? &maint : &other, &r->nodes);
	for (uint32_t i = 0; i < st->node_count && !st->loading; i++) {
		struct sch_node *n = st->by_rank[i];
		uint32_t flags = n->row->flags & ~(uint32_t)(NODE_FLAG_MAINT | NODE_FLAG_RES);
		if (mu_bits_test(&maint, i))
			flags |= NODE_FLAG_MAINT;
		else if (mu_bits_test(&other, i))
			flags |= NODE_FLAG_RES;
		if (flags == n->row->flags)
			continue;
		n->row->flags = flags;
		sch__touch(st, &n->rec);
	}
	mu_bits_free(&maint);
	mu_bits_free(&other);
}

bool sch__resv_parts(const struct sch_state *st)
{
	for (struct sch_resv *r = sch__resv_next(st, NULL); r; r = sch__resv_next(st, r))
		if (r->part_count)
			return true;
	return false;
}

/* ---- who ---- */

void sch__resv_asker(const struct sch_job *j, struct sch_resv_asker *ret)
{
	*ret = (struct sch_resv_asker){.user = sch__text(j->who->user),
				       .account = sch__text(j->account),
				       .assoc = j->assoc,
				       .gid = j->who->gid,
				       .group_count = j->who->group_count,
				       .groups = j->who->groups};
}

static bool listed(char *const *list, size_t count, const char *word)
{
	for (size_t i = 0; word && i < count; i++)
		if (strcmp(list[i], word) == 0)
			return true;
	return false;
}

/* The account or one above it. */
static bool account_listed(const struct sch_state *st, const struct sch_resv *r,
			   const struct sch_resv_asker *a)
{
	if (listed(r->row->account, r->row->n_account, a->account))
		return true;
	for (const struct sch_assoc *s = sch__assoc(st, a->assoc); s; s = s->parent)
		if (listed(r->row->account, r->row->n_account, s->row->account))
			return true;
	return false;
}

static bool group_listed(const struct sch_resv *r, const struct sch_resv_asker *a)
{
	for (size_t i = 0; i < r->row->n_gid; i++) {
		if (r->row->gid[i] == a->gid)
			return true;
		for (uint32_t k = 0; k < a->group_count; k++)
			if (a->groups[k] == r->row->gid[i])
				return true;
	}
	return false;
}

bool sch__resv_open_to(const struct sch_state *st, const struct sch_resv *r, const struct sch_resv_asker *a)
{
	const Mu__ReservationRow *row = r->row;
	if (row->n_user && listed(row->user, row->n_user, a->user) == row->deny_users)
		return false;
	if (row->n_account && account_listed(st, r, a) == row->deny_accounts)
		return false;
	return !row->n_gid || group_listed(r, a);
}

int sch__resv_check(const struct sch_state *st, const char *names, const struct sch_resv_asker *a,
		    struct mu_err *err)
{
	char name[SCH_KEY_MAX + 1];
	for (const char *p = names; p && *p;) {
		size_t len = strcspn(p, ",");
		if (!len || len > SCH_KEY_MAX)
			return sch__refuse(err, MU_ERESERVATION);
		memcpy(name, p, len);
		name[len] = 0;
		const struct sch_resv *r = sch__resv(st, name);
		if (!r)
			return sch__refuse(err, MU_ERESERVATION);
		if (!sch__resv_open_to(st, r, a))
			return sch__refuse(err, MU_EPERM);
		p += len + (p[len] == ',');
	}
	return 0;
}

/* ---- when ---- */

/* Day 0 of 1970 was a Thursday. */
static bool is_weekend(int64_t usec)
{
	int64_t day = (usec / SCH_USEC / DAY_SEC + 4) % 7;
	return day == 0 || day == 6;
}

static int64_t shift_of(const struct sch_resv *r, uint32_t k)
{
	const Mu__ReservationRow *row = r->row;
	int64_t days = 0;
	if (sch__resv_flag(r, RESV_FLAG_HOURLY))
		return k * HOUR_SEC * SCH_USEC;
	if (sch__resv_flag(r, RESV_FLAG_WEEKDAY | RESV_FLAG_WEEKEND)) {
		bool end = sch__resv_flag(r, RESV_FLAG_WEEKEND);
		for (uint32_t seen = 0; seen < k;
		     seen += is_weekend(row->start_usec + days * DAY_SEC * SCH_USEC) == end)
			days++;
		return days * DAY_SEC * SCH_USEC;
	}
	return k * (sch__resv_flag(r, RESV_FLAG_WEEKLY) ? 7 : 1) * DAY_SEC * SCH_USEC;
}

bool sch__resv_time(const struct sch_resv *r, int64_t now, uint32_t k, int64_t *ret_from, int64_t *ret_until)
{
	const uint64_t again =
	    RESV_FLAG_HOURLY | RESV_FLAG_DAILY | RESV_FLAG_WEEKLY | RESV_FLAG_WEEKDAY | RESV_FLAG_WEEKEND;
	int64_t length = r->row->end_usec - r->row->start_usec;
	if (k && !sch__resv_flag(r, again))
		return false;
	if (sch__resv_flag(r, RESV_FLAG_TIME_FLOAT)) {
		*ret_from = now + r->row->float_usec;
		*ret_until = *ret_from + length;
		return k == 0;
	}
	*ret_from = r->row->start_usec + (k ? shift_of(r, k) : 0);
	*ret_until = *ret_from + length;
	/* It holds until a tick has ended it: nothing becomes free merely because time went by. */
	if (k == 0 && *ret_until <= now && (r->row->active || !r->jobs))
		*ret_until = now + 1;
	return true;
}

bool sch__resv_meets(const struct sch_resv *r, int64_t now, int64_t from, int64_t until)
{
	int64_t f, u;
	for (uint32_t k = 0; k < SCH_RESV_TIMES_MAX && sch__resv_time(r, now, k, &f, &u) && f < until; k++)
		if (u > from)
			return true;
	return false;
}

/* ---- what is kept from whom ---- */

bool sch__resv_bars(const struct sch_resv *r, const struct sch_resv *in, int64_t now, int64_t from,
		    int64_t until)
{
	return r != in && sch__resv_meets(r, now, from, until);
}

/* A maintenance, or one that was told to overlap, has its nodes whatever else keeps them. */
static bool prevails(const struct sch_resv *in)
{
	return in && sch__resv_flag(in, RESV_FLAG_MAINT | RESV_FLAG_OVERLAP);
}

bool sch__resv_mask(const struct sch_state *st, const struct sch_resv *in, int64_t from, int64_t until,
		    struct mu_bits *nodes)
{
	uint32_t before = mu_bits_count(nodes);
	int64_t now = st->cluster->now_usec;
	if (in && !sch__resv_flag(in, RESV_FLAG_FLEX) && mu_bits_next(&in->nodes, 0) != UINT32_MAX)
		for (uint32_t i = 0; i < nodes->words; i++)
			nodes->word[i] &= i < in->nodes.words ? in->nodes.word[i] : 0;
	for (const struct sch_resv *r = sch__resv_next(st, NULL); r; r = sch__resv_next(st, r)) {
		if (r->part_count || !sch__resv_bars(r, in, now, from, until))
			continue;
		struct mu_bits kept = {0};
		mu_bits_copy(&kept, &r->nodes);
		if (prevails(in))
			mu_bits_andnot(&kept, &in->nodes);
		mu_bits_andnot(nodes, &kept);
		mu_bits_free(&kept);
	}
	return mu_bits_count(nodes) != before;
}

static const struct sch_resv_part *part_on(const struct sch_resv *r, const struct sch_node *n)
{
	for (uint32_t i = 0; i < r->part_count; i++)
		if (r->part[i].node == n)
			return &r->part[i];
	return NULL;
}

void sch__resv_cpus(const struct sch_state *st, const struct sch_resv *in, const struct sch_node *n,
		    int64_t from, int64_t until, struct mu_bits *ret)
{
	const struct sch_resv_part *own = in ? part_on(in, n) : NULL;
	for (const struct sch_resv *r = sch__resv_next(st, NULL); r; r = sch__resv_next(st, r)) {
		const struct sch_resv_part *p = part_on(r, n);
		if (p && sch__resv_bars(r, in, st->cluster->now_usec, from, until))
			mu_bits_or(ret, &p->cpu);
	}
	if (!own)
		return;
	if (prevails(in))
		mu_bits_andnot(ret, &own->cpu);
	for (uint32_t c = 0; c < n->row->cpus && !sch__resv_flag(in, RESV_FLAG_FLEX); c++)
		if (!mu_bits_test(&own->cpu, c))
			mu_bits_set(ret, c);
}

static int64_t over_run_usec(const struct sch_state *st)
{
	const char *text = mu_conf_get(sch__conf(st), "ResvOverRun", "0");
	if (strncasecmp(text, "UNLIM", 5) == 0 || strncasecmp(text, "INF", 3) == 0)
		return -1;
	int64_t minutes = 0;
	for (; *text >= '0' && *text <= '9' && minutes < INT32_MAX; text++)
		minutes = 10 * minutes + (*text - '0');
	return minutes * 60 * SCH_USEC;
}

int64_t sch__resv_job_end(const struct sch_state *st, const struct sch_resv *in)
{
	int64_t more = over_run_usec(st);
	if (!in || sch__resv_flag(in, RESV_FLAG_FLEX) || more < 0)
		return 0;
	return in->row->end_usec + more;
}

int64_t sch__resv_length(const struct sch_state *st, const struct sch_resv *in, int64_t now, int64_t length)
{
	int64_t end = sch__resv_job_end(st, in);
	return end && end > now && end - now < length ? end - now : length;
}

uint32_t sch__resv_reason(const struct sch_state *st, const struct sch_job *j, const struct sch_resv *in,
			  int64_t now, int64_t length)
{
	int64_t from, until, end = sch__resv_job_end(st, in);
	if (!in)
		return REASON_None;
	sch__resv_time(in, now, 0, &from, &until);
	if (until <= now)
		return REASON_Reservation;
	if (sch__resv_flag(in, RESV_FLAG_FLEX))
		return REASON_None;
	/* Who named a limit is given all of it; who did not is ended with the reservation. */
	if (!in->row->active || (j->limit_given && end && now + length > end))
		return REASON_Reservation;
	return REASON_None;
}

bool sch__resv_permits(const struct sch_state *st, const struct sch_job *j, const struct sch_resv *in,
		       const struct sch_alloc *a, uint32_t count, int64_t from, int64_t length)
{
	struct sch_resv_asker who;
	struct mu_bits nodes = {0};
	bool ok = true;
	sch__resv_asker(j, &who);
	if (in && (!sch__resv_open_to(st, in, &who) || sch__resv_reason(st, j, in, from, length)))
		return false;
	length = sch__resv_length(st, in, from, length);
	for (uint32_t i = 0; i < count; i++)
		mu_bits_set(&nodes, a[i].node->rank);
	ok = !sch__resv_mask(st, in, from, from + length, &nodes);
	for (uint32_t i = 0; i < count && ok && sch__resv_parts(st); i++) {
		struct mu_bits kept = {0};
		sch__resv_cpus(st, in, a[i].node, from, from + length, &kept);
		ok = !mu_bits_intersects(&kept, &a[i].cpu);
		mu_bits_free(&kept);
	}
	mu_bits_free(&nodes);
	return ok;
}

/* ---- for a pass ---- */

/* Reservations that J may run in, in the order in which they are tried; the last may be NULL: in none. */
uint32_t sch__resv_choices(const struct sch_state *st, const struct sch_job *j, const struct sch_resv **ret)
{
	struct sch_resv_asker who;
	uint32_t n = 0;
	sch__resv_asker(j, &who);
	for (const struct sch_resv *r = sch__resv_next(st, NULL); r; r = sch__resv_next(st, r)) {
		const char *at = j->resv_want ? strstr(j->resv_want->text, r->row->name) : NULL;
		size_t len = strlen(r->row->name);
		while (at && ((at != j->resv_want->text && at[-1] != ',') || (at[len] && at[len] != ',')))
			at = strstr(at + 1, r->row->name);
		bool pulls = !j->resv_want && r->row->active && sch__resv_flag(r, RESV_FLAG_MAGNETIC);
		if ((at || pulls) && sch__resv_open_to(st, r, &who))
			ret[n++] = r;
	}
	if (!j->resv_want)
		ret[n++] = NULL;
	return n;
}

/* The nodes that J could have are kept by reservations: how it is told; NULL: they are not. */
const char *sch__resv_kept(const struct sch_state *st, const struct sch_need *need,
			   const struct sch_part *part, const struct mu_bits *nodes,
			   const struct mu_bits *required, const struct sch_resv *in, int64_t length)
{
	int64_t now = st->cluster->now_usec, until = now + length;
	struct mu_bits left = {0};
	const char *text = "May be reserved for other job";
	mu_bits_copy(&left, nodes);
	for (uint32_t i = 0; i < left.words; i++)
		left.word[i] &= i < st->usable.words ? st->usable.word[i] : 0;
	bool kept =
	    sch__resv_mask(st, in, now, until, &left) && sch__feasible(st, need, part, &left, required) != 0;
	for (const struct sch_resv *r = sch__resv_next(st, NULL); r; r = sch__resv_next(st, r))
		if (sch__resv_flag(r, RESV_FLAG_MAINT) && mu_bits_intersects(nodes, &r->nodes) &&
		    sch__resv_bars(r, in, now, now, until))
			text = "Reserved for maintenance";
	mu_bits_free(&left);
	return kept ? text : NULL;
}

/* ---- who uses it ---- */

static void idle_since(struct sch_state *st, struct sch_resv *r)
{
	bool idle = r->row->active && !r->jobs && !r->refs;
	if (st->loading || idle == (r->row->idle_usec > 0))
		return;
	SCH_SET(r->row, idle_usec, idle ? st->cluster->now_usec : 0);
	sch__touch(st, &r->rec);
}

void sch__resv_count(struct sch_state *st, const struct sch_job *j, int sign)
{
	struct sch_resv *r =
	    j->resv && (j->state == JOB_RUNNING || j->state == JOB_SUSPENDED || j->state == JOB_COMPLETING)
		? sch__resv(st, j->resv->text)
		: NULL;
	if (!r)
		return;
	assert(sign > 0 || r->jobs > 0);
	r->jobs += (uint32_t)sign;
	idle_since(st, r);
}

void sch__resv_ref(struct sch_state *st, const struct sch_job *j, int sign)
{
	char name[SCH_KEY_MAX + 1];
	for (const char *p = sch__text(j->resv_want); p && *p;) {
		size_t len = strcspn(p, ",");
		if (len <= SCH_KEY_MAX) {
			memcpy(name, p, len);
			name[len] = 0;
			struct sch_resv *r = sch__resv(st, name);
			if (r) {
				r->refs += (uint32_t)sign;
				idle_since(st, r);
			}
		}
		p += len + (p[len] == ',');
	}
}

int64_t sch__resv_due(const struct sch_state *st)
{
	int64_t first = 0;
	for (const struct sch_resv *r = sch__resv_next(st, NULL); r; r = sch__resv_next(st, r)) {
		const Mu__ReservationRow *w = r->row;
		bool over = w->end_usec <= st->cluster->now_usec && !w->active;
		int64_t at = over && r->jobs ? 0 : w->active || over ? w->end_usec : w->start_usec;
		if (sch__resv_flag(r, RESV_FLAG_TIME_FLOAT))
			at = 0;
		if (sch__resv_flag(r, RESV_FLAG_PURGE_COMP) && w->idle_usec && at &&
		    w->idle_usec + w->purge_sec * SCH_USEC < at)
			at = w->idle_usec + w->purge_sec * SCH_USEC;
		if (at && (!first || at < first))
			first = at;
	}
	return first;
}
