/* sched/depend.c: jobs that wait for others. Each item of --dependency has a letter in the job's row, in the
 * order written: u (open), f (fulfilled), x (can never be). A letter that is not u stays: what became of the
 * other job later, or its leaving State, changes nothing. Items are looked at again when the job they name
 * starts or ends, and those with minutes when their moment comes. */
#include "sched/state.h"

#include <assert.h>
#include <stdlib.h>

#include "proto/conf.h"

enum { OPEN = 'u', DONE = 'f', NEVER = 'x' };

static void child_key(uint8_t key[8], uint32_t parent, uint32_t child)
{
	mu_put_be32(key, parent);
	mu_put_be32(key + 4, child);
}

static void name_key(uint8_t key[16], const struct sch_job *j, uint32_t id)
{
	mu_put_be32(key, j->who->uid);
	mu_put_be64(key + 4, j->name_key);
	mu_put_be32(key + 12, id);
}

/* ---- checks ---- */

static bool known(const struct sch_state *st, uint32_t id, Mu__ResolvedParent *const *resolved, size_t count)
{
	if (sch__job(st, id))
		return true;
	for (size_t i = 0; i < count; i++)
		if (resolved[i]->job == id)
			return true;
	return false;
}

int sch__depends_check(const struct sch_state *st, const Mu__JobSpec *spec, uint32_t below,
		       Mu__ResolvedParent *const *resolved, size_t count, struct mu_arena *arena,
		       struct mu_err *err)
{
	struct mu_depends d;
	if (!spec->dependency || !*spec->dependency)
		return 0;
	int rc = mu_depends_parse(spec->dependency, arena, &d, err);
	if (rc)
		return rc;
	for (size_t i = 0; i < d.count; i++) {
		const struct mu_depend *item = &d.item[i];
		if (item->kind == MU_DEPEND_AFTERCORR || item->kind == MU_DEPEND_AFTERBURST ||
		    item->kind == MU_DEPEND_EXPAND)
			return mu_fail(err, MU_EDEPENDENCY,
				       "--dependency=%s is not supported by this version",
				       mu_depend_word(item->kind));
		if (item->has_task)
			return mu_fail(err, MU_EDEPENDENCY,
				       "--dependency on a task of an array is not supported by this version");
		if (item->kind == MU_DEPEND_SINGLETON)
			continue;
		if (item->job >= below || !known(st, item->job, resolved, count))
			return sch__refuse(err, MU_EDEPENDENCY);
	}
	return 0;
}

/* ---- what has become of an item ---- */

static char by_end(enum mu_depend_kind kind, uint32_t state)
{
	bool good = state == JOB_COMPLETED;
	switch (kind) {
	case MU_DEPEND_AFTEROK:
		return good ? DONE : NEVER;
	case MU_DEPEND_AFTERNOTOK:
		return good ? NEVER : DONE;
	default:
		return DONE;
	}
}

static char look_after(const struct sch_job *p, uint32_t minutes, int64_t now, int64_t *due)
{
	bool began = p->state != JOB_PENDING;
	int64_t from = p->start_usec ? p->start_usec : p->end_usec;
	int64_t moment = from + (int64_t)minutes * 60 * SCH_USEC;
	if (!began)
		return OPEN;
	if (moment <= now)
		return DONE;
	if (!*due || moment < *due)
		*due = moment;
	return OPEN;
}

static bool first_of_name(const struct sch_state *st, const struct sch_job *j)
{
	uint8_t key[16];
	name_key(key, j, 0);
	return mu_map_seek(&st->named, key, sizeof(key), 0, NULL, NULL) == j;
}

static char look_at(const struct sch_state *st, const struct sch_job *j, const struct mu_depend *item,
		    int64_t now, int64_t was_due, int64_t *due)
{
	const struct sch_job *p = sch__job(st, item->job);
	if (item->kind == MU_DEPEND_SINGLETON)
		return first_of_name(st, j) ? DONE : OPEN;
	if (item->kind == MU_DEPEND_AFTER && p)
		return look_after(p, item->minutes, now, due);
	if (item->kind == MU_DEPEND_AFTER) { /* It has left State: only its moment is waited for. */
		if (was_due > now)
			*due = *due && *due < was_due ? *due : was_due;
		return was_due > now ? OPEN : DONE;
	}
	return p && mu_job_state_ended(p->state) ? by_end(item->kind, p->state) : OPEN;
}

static void items_of(const struct sch_job *j, struct mu_arena *arena, struct mu_depends *ret)
{
	const Mu__JobSpec *spec = sch__spec_open(j->spec, arena);
	struct mu_err err = {0};
	*ret = (struct mu_depends){0};
	if (!spec->dependency || mu_depends_parse(spec->dependency, arena, ret, &err))
		ret->count = 0;
	if (ret->count != j->depend_count)
		ret->count = 0;
}

static void look_again(struct sch_state *st, struct sch_job *j, struct mu_arena *arena)
{
	struct mu_depends d;
	int64_t due = 0;
	items_of(j, arena, &d);
	for (size_t i = 0; i < d.count; i++)
		if (j->depend[i] == OPEN)
			j->depend[i] =
			    look_at(st, j, &d.item[i], st->cluster->now_usec, j->depend_due_usec, &due);
	j->depend_due_usec = due;
	j->depend_any = d.any;
}

enum sch_depend sch__depend(const struct sch_job *j)
{
	uint32_t open = 0, done = 0, never = 0;
	for (uint32_t i = 0; i < j->depend_count; i++) {
		open += j->depend[i] == OPEN;
		done += j->depend[i] == DONE;
		never += j->depend[i] == NEVER;
	}
	if (!j->depend_count || (j->depend_any ? done > 0 : !open && !never))
		return SCH_DEPEND_MET;
	return (j->depend_any ? !open : never > 0) ? SCH_DEPEND_NEVER : SCH_DEPEND_OPEN;
}

/* ---- indexes ---- */

void sch__depend_index(struct sch_state *st, struct sch_job *j, bool in)
{
	struct mu_arena arena = {0};
	struct mu_depends d;
	uint8_t key[8];
	if (!j->depend_count)
		return;
	items_of(j, &arena, &d);
	j->depend_any = d.any;
	for (size_t i = 0; i < d.count; i++) {
		if (d.item[i].kind == MU_DEPEND_SINGLETON)
			continue;
		child_key(key, d.item[i].job, j->id);
		if (in && j->depend[i] == OPEN)
			mu_map_put(&st->children, key, sizeof(key), j);
		else if (!in)
			mu_map_del(&st->children, key, sizeof(key));
	}
	mu_arena_free(&arena);
}

void sch__name_index(struct sch_state *st, struct sch_job *j, bool in)
{
	uint8_t key[16];
	if (in) {
		struct mu_arena arena = {0};
		struct mu_hash hash;
		const char *name = sch__spec_open(j->spec, &arena)->name;
		mu_hash_bytes(name ? name : "", name ? strlen(name) : 0, &hash);
		j->name_key = mu_get_be64(hash.b);
		mu_arena_free(&arena);
	}
	name_key(key, j, j->id);
	if (in)
		mu_map_put(&st->named, key, sizeof(key), j);
	else
		mu_map_del(&st->named, key, sizeof(key));
}

/* ---- changes ---- */

void sch__depend_clear(struct sch_state *st, struct sch_job *j)
{
	if (!j->depend)
		return;
	sch__free(st, j->depend, j->depend_count + 1);
	j->depend = NULL;
	j->depend_count = 0;
	j->depend_due_usec = 0;
}

void sch__depend_load(struct sch_state *st, struct sch_job *j, const char *letters, int64_t due_usec)
{
	size_t count = letters ? strlen(letters) : 0;
	if (!count)
		return;
	j->depend = sch__alloc(st, count + 1);
	memcpy(j->depend, letters, count);
	j->depend_count = (uint32_t)count;
	j->depend_due_usec = due_usec;
}

void sch__depend_new(struct sch_ev *ev, struct sch_job *j, const Mu__JobSpec *spec,
		     Mu__ResolvedParent *const *resolved, size_t count)
{
	struct mu_depends d = {0};
	struct mu_err err = {0};
	sch__depend_index(ev->st, j, false);
	sch__depend_clear(ev->st, j);
	if (!spec->dependency || mu_depends_parse(spec->dependency, ev->arena, &d, &err) || !d.count)
		return;
	j->depend = sch__alloc(ev->st, d.count + 1);
	j->depend_count = (uint32_t)d.count;
	memset(j->depend, OPEN, d.count);
	for (size_t i = 0; i < d.count; i++)
		for (size_t k = 0; k < count; k++)
			if (d.item[i].kind != MU_DEPEND_SINGLETON && resolved[k]->job == d.item[i].job &&
			    !sch__job(ev->st, d.item[i].job))
				j->depend[i] = by_end(d.item[i].kind, resolved[k]->state);
	look_again(ev->st, j, ev->arena);
	sch__depend_index(ev->st, j, true);
}

bool sch__depend_kills(const struct sch_state *st, const struct sch_job *j)
{
	struct mu_arena arena = {0};
	const Mu__JobSpec *spec = sch__spec_open(j->spec, &arena);
	const char *text = mu_conf_get(sch__conf(st), "DependencyParameters", "");
	bool yes = spec->has_kill_on_invalid_dep ? spec->kill_on_invalid_dep
						 : strstr(text, "kill_invalid_depend") != NULL;
	mu_arena_free(&arena);
	return yes;
}

void sch__depend_kill(struct sch_ev *ev, struct sch_job *j)
{
	if (j->state != JOB_PENDING || sch__depend(j) != SCH_DEPEND_NEVER || !sch__depend_kills(ev->st, j))
		return;
	sch__job_end_waiting(ev, j, JOB_CANCELLED);
	sch__reason(ev->st, j, REASON_Dependency, NULL);
}

void sch__depend_again(struct sch_ev *ev, struct sch_job *j)
{
	struct sch_state *st = ev->st;
	enum sch_depend was = sch__depend(j);
	if (j->state != JOB_PENDING || !j->depend_count || was != SCH_DEPEND_OPEN)
		return;
	sch__queue_out(st, j);
	sch__depend_index(st, j, false);
	look_again(st, j, ev->arena);
	sch__depend_index(st, j, true);
	if (sch__depend(j) == SCH_DEPEND_MET && j->priority && j->eligible_usec < ev->now)
		j->eligible_usec = ev->now;
	sch__waiting_reason(ev, j);
	sch__queue_in(st, j);
	sch__touch(st, &j->rec);
	sch__depend_kill(ev, j);
}

static void children_of(struct sch_ev *ev, const struct sch_job *p)
{
	struct sch_state *st = ev->st;
	uint8_t key[16];
	const uint8_t *at = NULL;
	size_t len = 0, count = 0, cap = 0;
	struct sch_job **v = NULL;
	child_key(key, p->id, 0);
	for (struct sch_job *j = mu_map_seek(&st->children, key, 8, 0, &at, &len);
	     j && mu_get_be32(at) == p->id; j = mu_map_seek(&st->children, at, len, 1, &at, &len)) {
		if (count == cap) {
			size_t more = cap ? 2 * cap : 16;
			struct sch_job **grown = mu_arena_alloc(ev->arena, more * sizeof(grown[0]));
			if (count)
				memcpy(grown, v, count * sizeof(v[0]));
			v = grown;
			cap = more;
		}
		v[count++] = j;
	}
	for (size_t i = 0; i < count; i++)
		sch__depend_again(ev, v[i]);
	if (!mu_job_state_ended(p->state))
		return;
	name_key(key, p, 0);
	struct sch_job *next = mu_map_seek(&st->named, key, sizeof(key), 0, &at, &len);
	if (next && memcmp(at, key, 12) == 0)
		sch__depend_again(ev, next);
}

/* A cancelled child may have children: they take their turn, however long the chain. */
void sch__depend_parent(struct sch_ev *ev, struct sch_job *p)
{
	if (ev->parent_count == ev->parent_cap) {
		uint32_t cap = ev->parent_cap ? 2 * ev->parent_cap : 16;
		struct sch_job **v = mu_arena_alloc(ev->arena, cap * sizeof(v[0]));
		if (ev->parent_count)
			memcpy(v, ev->parent, ev->parent_count * sizeof(v[0]));
		ev->parent = v;
		ev->parent_cap = cap;
	}
	ev->parent[ev->parent_count++] = p;
	if (ev->parents_busy)
		return;
	ev->parents_busy = true;
	for (uint32_t i = 0; i < ev->parent_count; i++)
		children_of(ev, ev->parent[i]);
	ev->parent_count = 0;
	ev->parents_busy = false;
}
