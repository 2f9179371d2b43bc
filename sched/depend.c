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

/* In the order of submission: tasks stand where their array does. */
static void name_key(uint8_t key[20], const struct sch_job *j, uint32_t family, uint32_t id)
{
	mu_put_be32(key, j->who->uid);
	mu_put_be64(key + 4, j->name_key);
	mu_put_be32(key + 12, family);
	mu_put_be32(key + 16, id);
}

/* ---- checks ---- */

static const Mu__ResolvedParent *answer_of(const struct mu_depend *item, Mu__ResolvedParent *const *resolved,
					   size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (resolved[i]->job == item->job && item->has_task == (resolved[i]->has_task_index != 0) &&
		    (!item->has_task || resolved[i]->task_index == item->task))
			return resolved[i];
	return NULL;
}

static bool known(const struct sch_state *st, const struct mu_depend *item,
		  Mu__ResolvedParent *const *resolved, size_t count)
{
	const struct sch_array *a = sch__array(st, item->job);
	if (a && item->has_task && mu_tasks_ordinal(&a->tasks, item->task) == UINT32_MAX)
		return false;
	if (item->has_task ? a && sch__array_task(st, a, item->task) : a || sch__job(st, item->job))
		return true;
	return answer_of(item, resolved, count) != NULL;
}

/* aftercorr of an array waits for an array that has its tasks; for a job without tasks it is afterok. */
static int check_corr(const struct sch_state *st, const Mu__JobSpec *spec, const struct mu_depend *item,
		      struct mu_err *err)
{
	const struct sch_array *a = sch__array(st, item->job);
	struct mu_tasks own;
	struct mu_runs shared = {0};
	if (!a || item->has_task || !spec->array || mu_tasks_parse(spec->array, UINT32_MAX, &own, NULL))
		return 0;
	mu_tasks_select(&own, &a->tasks, &shared);
	bool all = shared.total == own.total;
	mu_runs_free(&shared);
	mu_tasks_free(&own);
	return all ? 0
		   : mu_fail(err, MU_EDEPENDENCY, "%s: array %u has not all the tasks of this one",
			     mu_strerror(MU_EDEPENDENCY), item->job);
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
		if (item->kind == MU_DEPEND_AFTERBURST || item->kind == MU_DEPEND_EXPAND)
			return mu_fail(err, MU_EDEPENDENCY,
				       "--dependency=%s is not supported by this version",
				       mu_depend_word(item->kind));
		if (item->kind == MU_DEPEND_SINGLETON)
			continue;
		if (item->job >= below || !known(st, item, resolved, count))
			return sch__refuse(err, MU_EDEPENDENCY);
		rc = item->kind == MU_DEPEND_AFTERCORR ? check_corr(st, spec, item, err) : 0;
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- what has become of an item ---- */

static char by_end(enum mu_depend_kind kind, uint32_t state)
{
	bool good = state == JOB_COMPLETED;
	switch (kind) {
	case MU_DEPEND_AFTEROK:
	case MU_DEPEND_AFTERCORR:
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

/* Tasks of one array do not wait for each other. */
static bool first_of_name(const struct sch_state *st, const struct sch_job *j)
{
	uint8_t key[20];
	name_key(key, j, 0, 0);
	const struct sch_job *first = mu_map_seek(&st->named, key, sizeof(key), 0, NULL, NULL);
	return first && sch__job_kin(first) == sch__job_kin(j);
}

/* The array as a whole. */
static char look_at_array(const struct sch_array *a, const struct mu_depend *item, int64_t now, int64_t *due)
{
	bool over = sch__array_ended(a) == a->tasks.total;
	int64_t moment = a->last_start_usec + (int64_t)item->minutes * 60 * SCH_USEC;
	switch (item->kind) {
	case MU_DEPEND_AFTER:
		if (a->waiting)
			return OPEN;
		if (a->last_start_usec && moment > now) {
			*due = *due && *due < moment ? *due : moment;
			return OPEN;
		}
		return DONE;
	case MU_DEPEND_AFTEROK:
	case MU_DEPEND_AFTERCORR:
		return a->failed ? NEVER : over ? DONE : OPEN;
	case MU_DEPEND_AFTERNOTOK:
		return !over ? OPEN : a->failed ? DONE : NEVER;
	default:
		return over ? DONE : OPEN;
	}
}

static char look_at(const struct sch_state *st, const struct sch_job *j, const struct mu_depend *item,
		    int64_t now, int64_t was_due, int64_t *due)
{
	const struct sch_array *a = sch__array(st, item->job);
	const struct sch_job *p = sch__job(st, item->job);
	if (item->kind == MU_DEPEND_SINGLETON)
		return first_of_name(st, j) ? DONE : OPEN;
	if (a && item->has_task) {
		p = sch__array_task(st, a, item->task);
	} else if (a && item->kind == MU_DEPEND_AFTERCORR && j->array) {
		if (j->tasks)
			return OPEN; /* Until they are told apart: tell_apart. */
		p = sch__array_task(st, a, j->task);
	} else if (a) {
		return look_at_array(a, item, now, due);
	}
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

void sch__name_index_twin(struct sch_state *st, struct sch_job *j)
{
	uint8_t key[20];
	name_key(key, j, sch__job_kin(j), j->id);
	mu_map_put(&st->named, key, sizeof(key), j);
}

void sch__name_index(struct sch_state *st, struct sch_job *j, bool in)
{
	uint8_t key[20];
	if (in) {
		struct mu_arena arena = {0};
		struct mu_hash hash;
		const char *name = sch__spec_open(j->spec, &arena)->name;
		mu_hash_bytes(name ? name : "", name ? strlen(name) : 0, &hash);
		j->name_key = mu_get_be64(hash.b);
		mu_arena_free(&arena);
	}
	name_key(key, j, sch__job_kin(j), j->id);
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

static bool in_list(const char *list, uint32_t task)
{
	struct mu_tasks tasks;
	if (!*list || mu_tasks_parse(list, UINT32_MAX, &tasks, NULL))
		return false;
	bool found = mu_tasks_ordinal(&tasks, task) != UINT32_MAX;
	mu_tasks_free(&tasks);
	return found;
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
	for (size_t i = 0; i < d.count; i++) {
		const struct mu_depend *item = &d.item[i];
		const Mu__ResolvedParent *r =
		    item->kind == MU_DEPEND_SINGLETON ? NULL : answer_of(item, resolved, count);
		const struct sch_array *a = sch__array(ev->st, item->job);
		bool here = item->has_task ? a && sch__array_task(ev->st, a, item->task)
					   : a || sch__job(ev->st, item->job);
		bool apart = item->kind == MU_DEPEND_AFTERCORR && !item->has_task && j->tasks && r &&
			     (r->done || r->failed);
		bool one = item->kind == MU_DEPEND_AFTERCORR && !item->has_task && j->array && !j->tasks;
		if (r && !here && one && r->failed)
			j->depend[i] = in_list(r->failed, j->task) ? NEVER : DONE;
		else if (r && !here && !apart)
			j->depend[i] = by_end(item->kind, r->state);
	}
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
	sch__reason(ev->st, j, REASON_DependencyNeverSatisfied, NULL);
}

/* ITEM (UINT32_MAX: none) has got LETTER; the others are looked at. */
static void again(struct sch_ev *ev, struct sch_job *j, uint32_t item, char letter)
{
	struct sch_state *st = ev->st;
	struct mu_arena arena = {0};
	sch__queue_out(st, j);
	sch__depend_index(st, j, false);
	if (item < j->depend_count)
		j->depend[item] = letter;
	look_again(st, j, &arena);
	mu_arena_free(&arena);
	sch__depend_index(st, j, true);
	if (sch__depend(j) == SCH_DEPEND_MET && j->priority && j->eligible_usec < ev->now)
		j->eligible_usec = ev->now;
	sch__waiting_reason(ev, j);
	sch__queue_in(st, j);
	sch__touch(st, &j->rec);
	sch__depend_kill(ev, j);
}

void sch__depend_again(struct sch_ev *ev, struct sch_job *j)
{
	if (j->state == JOB_PENDING && j->depend_count && sch__depend(j) == SCH_DEPEND_OPEN)
		again(ev, j, UINT32_MAX, 0);
}

/* ---- aftercorr: tasks that get an answer leave those that have none ---- */

/* ITEM of J is answered with LETTER for the tasks in TAKE, which is taken over. */
static void answered(struct sch_ev *ev, struct sch_job *j, uint32_t item, struct mu_runs *take, char letter)
{
	struct mu_runs both = {0}, rest = {0};
	bool waits = j->state == JOB_PENDING && item < j->depend_count && j->depend[item] == OPEN;
	if (waits && j->tasks)
		mu_runs_cut(j->tasks, take, &both, &rest);
	bool any = !waits ? false : j->tasks ? both.total > 0 : take->total > 0, some = any && rest.total > 0;
	if (some && sch__ids_left(ev->st))
		again(ev, sch__array_split(ev->st, j, &both), item, letter);
	else if (any && !some)
		again(ev, j, item, letter);
	mu_runs_free(&both);
	mu_runs_free(&rest);
	mu_runs_free(take);
}

/* The tasks of J that correspond to those of P. */
static void corresponding(const struct sch_job *j, const struct sch_job *p, struct mu_runs *ret)
{
	const struct mu_tasks *own = &j->array->tasks, *theirs = &p->array->tasks;
	if (!p->tasks) {
		uint32_t n = mu_tasks_ordinal(own, p->task);
		if (n != UINT32_MAX)
			mu_runs_add(ret, n, n + 1);
		return;
	}
	for (uint32_t i = p->tasks->head; i < p->tasks->count; i++)
		for (uint32_t k = p->tasks->v[i].from; k < p->tasks->v[i].until; k++) {
			uint32_t n = mu_tasks_ordinal(own, mu_tasks_index(theirs, k));
			if (n != UINT32_MAX)
				mu_runs_add(ret, n, n + 1);
		}
}

static void add_corresponding(const struct sch_job *j, const struct sch_job *p, struct mu_runs *ret)
{
	struct mu_runs more = {0};
	corresponding(j, p, &more);
	bool behind = more.total && (!ret->total || ret->v[ret->count - 1].until <= more.v[more.head].from);
	for (uint32_t i = more.head; behind && i < more.count; i++)
		mu_runs_add(ret, more.v[i].from, more.v[i].until);
	if (!behind && more.total)
		mu_runs_or(ret, &more);
	mu_runs_free(&more);
}

static bool waits_apart(const struct sch_job *j, const struct mu_depend *item, uint32_t array)
{
	return j->tasks && item->kind == MU_DEPEND_AFTERCORR && !item->has_task && item->job == array;
}

/* P, of an array, has ended: what of J waited for its tasks? */
static void tell_apart(struct sch_ev *ev, struct sch_job *j, const struct sch_job *p)
{
	struct mu_arena arena = {0};
	struct mu_depends d;
	items_of(j, &arena, &d);
	for (uint32_t i = 0; i < d.count && i < j->depend_count && j->state == JOB_PENDING; i++) {
		struct mu_runs take = {0};
		if (!waits_apart(j, &d.item[i], p->array->id) || j->depend[i] != OPEN)
			continue;
		corresponding(j, p, &take);
		answered(ev, j, i, &take, by_end(MU_DEPEND_AFTERCORR, p->state));
	}
	mu_arena_free(&arena);
}

static void from_list(struct sch_ev *ev, struct sch_job *j, uint32_t item, const char *list, char letter)
{
	struct mu_tasks tasks;
	struct mu_runs take = {0};
	if (!list || !*list || mu_tasks_parse(list, UINT32_MAX, &tasks, NULL))
		return;
	mu_tasks_select(&j->array->tasks, &tasks, &take);
	mu_tasks_free(&tasks);
	answered(ev, j, item, &take, letter);
}

void sch__depend_apart(struct sch_ev *ev, struct sch_job *j, Mu__ResolvedParent *const *resolved,
		       size_t count)
{
	struct mu_depends d;
	items_of(j, ev->arena, &d);
	for (uint32_t i = 0; i < d.count && j->tasks; i++) {
		const struct sch_array *a = sch__array(ev->st, d.item[i].job);
		if (!waits_apart(j, &d.item[i], d.item[i].job))
			continue;
		const Mu__ResolvedParent *r = answer_of(&d.item[i], resolved, count);
		if (r) {
			from_list(ev, j, i, r->done, DONE);
			from_list(ev, j, i, r->failed, NEVER);
		}
		struct mu_runs done = {0}, never = {0};
		struct sch_array_at at = {0};
		for (struct sch_job *p = a ? sch__array_each(ev->st, a, &at) : NULL; p;
		     p = sch__array_each(ev->st, a, &at))
			if (mu_job_state_ended(p->state))
				add_corresponding(j, p, p->state == JOB_COMPLETED ? &done : &never);
		answered(ev, j, i, &done, DONE);
		answered(ev, j, i, &never, NEVER);
	}
}

/* ---- what follows from a start or an end ---- */

struct jobs {
	struct sch_job **v;
	size_t count, cap;
};

static void add_job(struct sch_ev *ev, struct jobs *l, struct sch_job *j)
{
	if (l->count == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 16;
		struct sch_job **v = mu_arena_alloc(ev->arena, cap * sizeof(v[0]));
		if (l->count)
			memcpy(v, l->v, l->count * sizeof(v[0]));
		l->v = v;
		l->cap = cap;
	}
	l->v[l->count++] = j;
}

static void add_children(struct sch_ev *ev, struct jobs *l, uint32_t id)
{
	uint8_t key[8];
	const uint8_t *at = NULL;
	size_t len = 0;
	child_key(key, id, 0);
	for (struct sch_job *j = mu_map_seek(&ev->st->children, key, 8, 0, &at, &len);
	     j && mu_get_be32(at) == id; j = mu_map_seek(&ev->st->children, at, len, 1, &at, &len))
		add_job(ev, l, j);
}

/* The job of the name that stands first now; of an array, all its records. */
static void add_next(struct sch_ev *ev, struct jobs *l, const struct sch_job *p)
{
	uint8_t key[20];
	const uint8_t *at = NULL;
	size_t len = 0;
	name_key(key, p, 0, 0);
	struct sch_job *j = mu_map_seek(&ev->st->named, key, sizeof(key), 0, &at, &len);
	uint32_t family = j ? sch__job_kin(j) : 0;
	if (family == sch__job_kin(p))
		return; /* It is still their turn. */
	for (; j && memcmp(at, key, 12) == 0 && sch__job_kin(j) == family;
	     j = mu_map_seek(&ev->st->named, at, len, 1, &at, &len))
		if (j->depend_count)
			add_job(ev, l, j);
}

static void children_of(struct sch_ev *ev, const struct sch_job *p)
{
	struct jobs l = {0};
	bool ended = mu_job_state_ended(p->state);
	add_children(ev, &l, p->id);
	if (sch__job_family(p) != p->id)
		add_children(ev, &l, sch__job_family(p));
	for (size_t i = 0; i < l.count; i++) {
		if (ended && p->array)
			tell_apart(ev, l.v[i], p);
		sch__depend_again(ev, l.v[i]);
	}
	l.count = 0;
	if (ended)
		add_next(ev, &l, p);
	for (size_t i = 0; i < l.count; i++)
		sch__depend_again(ev, l.v[i]);
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
