/* sched/array.c: records of job arrays and how tasks leave them. See array.h. */
#include "sched/state.h"

#include <assert.h>
#include <stdlib.h>

/* ---- finding ---- */

uint32_t sch__max_array_size(const struct sch_state *st)
{
	const Mu__Config *c = sch__conf(st);
	return c->has_max_array_size ? c->max_array_size : 1001;
}

struct sch_array *sch__array(const struct sch_state *st, uint32_t id)
{
	return mu_map_get_u64(&st->arrays, id);
}

uint32_t sch__job_size(const struct sch_job *j)
{
	return j->tasks ? j->tasks->total : 1;
}

uint32_t sch__job_family(const struct sch_job *j)
{
	return j->array ? j->array->id : j->id;
}

bool sch__job_has_task(const struct sch_job *j, uint32_t ordinal)
{
	if (j->tasks)
		return mu_runs_has(j->tasks, ordinal);
	return ordinal < j->array->tasks.total && mu_tasks_index(&j->array->tasks, ordinal) == j->task;
}

/* Records with several tasks come behind all with one. */
static void task_key(uint8_t key[12], uint32_t array, uint32_t task, uint32_t id)
{
	mu_put_be32(key, array);
	mu_put_be32(key + 4, task);
	mu_put_be32(key + 8, id);
}

static void index_record(struct sch_state *st, struct sch_job *j, bool in)
{
	uint8_t key[12];
	task_key(key, j->array->id, j->tasks ? UINT32_MAX : j->task, j->id);
	if (in)
		mu_map_put(&st->tasks, key, sizeof(key), j);
	else
		mu_map_del(&st->tasks, key, sizeof(key));
	if (j->tasks)
		j->array->parts += in ? 1 : (uint32_t)-1;
}

static struct sch_job *record_at(const struct sch_state *st, const struct sch_array *a, uint8_t key[12],
				 int after)
{
	const uint8_t *at = NULL;
	size_t len = 0;
	struct sch_job *j = mu_map_seek(&st->tasks, key, 12, after, &at, &len);
	if (!j || j->array != a)
		return NULL;
	memcpy(key, at, 12);
	return j;
}

struct sch_job *sch__array_task(const struct sch_state *st, const struct sch_array *a, uint32_t index)
{
	uint8_t key[12];
	uint32_t ordinal = mu_tasks_ordinal(&a->tasks, index);
	if (ordinal == UINT32_MAX)
		return NULL;
	task_key(key, a->id, index, 0);
	struct sch_job *j = record_at(st, a, key, 0);
	if (j && !j->tasks && j->task == index)
		return j;
	task_key(key, a->id, UINT32_MAX, 0);
	for (j = record_at(st, a, key, 0); j && !mu_runs_has(j->tasks, ordinal);)
		j = record_at(st, a, key, 1);
	return j;
}

struct sch_job *sch__array_each(const struct sch_state *st, const struct sch_array *a,
				struct sch_array_at *at)
{
	if (!at->on)
		task_key(at->key, a->id, 0, 0);
	struct sch_job *j = record_at(st, a, at->key, at->on);
	at->on = true;
	return j;
}

bool sch_array_counts(const struct sch_state *st, uint32_t id, struct sch_array_counts *ret)
{
	const struct sch_array *a = sch__array(st, id);
	struct sch_array_at at = {0};
	if (!a)
		return false;
	*ret = (struct sch_array_counts){a->tasks.total, a->waiting, a->active, a->failed,
					 sch__array_each(st, a, &at)->who->uid};
	return true;
}

const Mu__JobRow *sch_array_job(const struct sch_state *st, uint32_t id)
{
	const struct sch_array *a = sch__array(st, id);
	const struct sch_job *found = NULL;
	struct sch_array_at at = {0};
	for (const struct sch_job *j = a ? sch__array_each(st, a, &at) : NULL; j; j = sch__array_each(st, a, &at)) {
		if (!found || !mu_job_state_ended(j->state))
			found = j;
		if (!mu_job_state_ended(j->state) || sch__array_ended(a) == a->tasks.total)
			break;
	}
	return found ? sch__job_row(found, &st->scratch->read) : NULL;
}

const Mu__JobRow *sch_task(const struct sch_state *st, uint32_t array, uint32_t index)
{
	const struct sch_array *a = sch__array(st, array);
	const struct sch_job *j = a ? sch__array_task(st, a, index) : NULL;
	return j ? sch__job_row(j, &st->scratch->read) : NULL;
}

/* ---- making and splitting ---- */

/* What the sets of J take is part of State's memory; rows of others see to their own. */
static void count_bytes(struct sch_state *st, const struct sch_job *j, int sign)
{
	if (!j->tasks)
		return;
	size_t size = sizeof(*j->tasks) + j->tasks->cap * sizeof(j->tasks->v[0]);
	st->bytes = sign > 0 ? st->bytes + size : st->bytes - size;
}

/* J's tasks are those of RUNS, which is taken over. */
static void set_tasks(struct sch_state *st, struct sch_job *j, struct mu_runs *runs)
{
	j->tasks = NULL;
	j->task = 0;
	if (runs->total == 1) {
		j->task = mu_tasks_index(&j->array->tasks, runs->v[runs->head].from);
		mu_runs_free(runs);
		return;
	}
	j->tasks = malloc(sizeof(*j->tasks));
	if (!j->tasks)
		abort();
	*j->tasks = *runs;
	memset(runs, 0, sizeof(*runs));
	count_bytes(st, j, 1);
}

void sch__job_tasks_free(struct sch_state *st, struct sch_job *j)
{
	if (!j->tasks)
		return;
	count_bytes(st, j, -1);
	mu_runs_free(j->tasks);
	free(j->tasks);
	j->tasks = NULL;
}

static struct sch_array *array_of(struct sch_state *st, uint32_t id, const char *text, struct mu_err *err)
{
	struct mu_tasks tasks;
	if (!text || mu_tasks_parse(text, UINT32_MAX, &tasks, err))
		return NULL;
	struct sch_array *a = sch__alloc(st, sizeof(*a));
	a->rec.kind = SCH_ROW_ARRAY;
	a->rec.change = UINT32_MAX;
	a->id = id;
	a->tasks = tasks;
	a->throttle = tasks.throttle;
	a->text = sch__str(st, text);
	st->bytes += tasks.count * sizeof(tasks.v[0]);
	mu_map_put_u64(&st->arrays, id, a);
	return a;
}

void sch__array_new(struct sch_state *st, struct sch_job *j, const char *text)
{
	struct mu_err err = {0};
	struct mu_runs all = {0};
	j->array = array_of(st, j->id, text, &err);
	assert(j->array); /* The submission was checked. */
	j->array->last_id = j->id;
	mu_runs_add(&all, 0, j->array->tasks.total);
	set_tasks(st, j, &all);
	j->array->refs++;
	index_record(st, j, true);
	sch__touch(st, &j->array->rec);
}

uint32_t sch__ids_left(const struct sch_state *st)
{
	const Mu__Config *c = sch__conf(st);
	uint32_t last = c->max_job_id && c->max_job_id < UINT32_MAX - 1 ? c->max_job_id : UINT32_MAX - 1;
	return st->cluster->next_job_id > last ? 0 : last - st->cluster->next_job_id + 1;
}

/* A record like J with the next id and no tasks yet, in no index. */
static struct sch_job *twin(struct sch_state *st, const struct sch_job *j)
{
	struct sch_job *k = mu_pool_get(&st->job_pool);
	assert(!j->run && !j->tallied);
	*k = *j;
	k->rec = (struct sch_rec){.kind = SCH_ROW_JOB, .change = UINT32_MAX};
	k->id = st->cluster->next_job_id++;
	k->queued = false;
	k->due_key = 0;
	k->queue_key = 0;
	k->tasks = NULL;
	k->spec->refs++;
	k->who->refs++;
	k->shape->refs++;
	sch__str_ref(k->partition);
	sch__str_ref(k->account);
	sch__str_ref(k->qos);
	sch__str_ref(k->reason_detail);
	sch__str_ref(k->part_qos);
	sch__str_ref(k->resv_want);
	sch__str_ref(k->resv);
	sch__str_ref(k->licenses);
	k->plan_nodes = NULL;
	k->plan_tasks = k->plan_gpus = NULL;
	k->plan_task_count = k->plan_gpu_count = 0;
	k->plan_start_usec = 0;
	k->plan_claim = false;
	k->depend = NULL;
	k->depend_count = 0;
	if (j->depend) {
		int64_t due = j->depend_due_usec;
		sch__depend_load(st, k, j->depend, due);
	}
	return k;
}

/* Moves TAKE out of J's tasks. */
static void take_out(struct sch_state *st, struct sch_job *j, const struct mu_runs *take)
{
	struct mu_runs both, rest;
	if (take->total > 1 || j->tasks->total == 2) {
		mu_runs_cut(j->tasks, take, &both, &rest);
		assert(both.total == take->total);
		mu_runs_free(&both);
		sch__job_tasks_free(st, j);
		set_tasks(st, j, &rest);
		return;
	}
	count_bytes(st, j, -1); /* A start: nothing is copied. */
	bool was = mu_runs_remove(j->tasks, take->v[take->head].from);
	count_bytes(st, j, 1);
	assert(was);
}

struct sch_job *sch__array_split(struct sch_state *st, struct sch_job *j, struct mu_runs *take)
{
	struct sch_array *a = j->array;
	assert(j->tasks && take->total && take->total < j->tasks->total && sch__ids_left(st));
	index_record(st, j, false);
	take_out(st, j, take);
	index_record(st, j, true);
	struct sch_job *k = twin(st, j);
	set_tasks(st, k, take);
	a->refs++;
	a->last_id = k->id;
	index_record(st, k, true);
	mu_map_put_u64(&st->jobs, k->id, k);
	if (!mu_job_state_ended(k->state)) {
		sch__job_split_refs(st, k);
		sch__name_index_twin(st, k);
		sch__depend_index(st, k, k->state == JOB_PENDING);
	}
	sch__queue_in(st, k);
	sch__due_set(st, k);
	sch__tomb_in(st, k);
	sch__touch(st, &j->rec);
	sch__touch(st, &k->rec);
	sch__touch(st, &a->rec);
	return k;
}

struct sch_job *sch__array_split_one(struct sch_state *st, struct sch_job *j, uint32_t ordinal)
{
	struct mu_runs take = {0};
	if (!j->tasks)
		return j;
	mu_runs_add(&take, ordinal, ordinal + 1);
	return sch__array_split(st, j, &take);
}

/* ---- what the array knows ---- */

void sch__array_touch(struct sch_state *st, struct sch_job *j)
{
	if (j->array)
		sch__touch(st, &j->array->rec);
}

void sch__array_count(const struct sch_job *j, int sign)
{
	struct sch_array *a = j->array;
	uint32_t size = sch__job_size(j);
	uint32_t *counter = !a				   ? NULL
			    : j->state == JOB_PENDING	   ? &a->waiting
			    : mu_job_state_ended(j->state) ? NULL
							   : &a->active;
	if (!counter)
		return;
	assert(sign > 0 || *counter >= size);
	*counter = sign > 0 ? *counter + size : *counter - size;
}

void sch__array_moved(struct sch_state *st, struct sch_job *j, uint32_t was)
{
	struct sch_array *a = j->array;
	bool out = mu_job_state_ended(j->state);
	if (!a)
		return;
	uint32_t *counter = (out ? j->state : was) == JOB_COMPLETED ? &a->done : &a->failed;
	*counter = out ? *counter + sch__job_size(j) : *counter - sch__job_size(j);
	sch__touch(st, &a->rec);
	if (a->throttle)
		sch__wake(st); /* Another may run now. */
}

void sch__array_throttle(struct sch_state *st, struct sch_array *a, uint32_t throttle)
{
	struct sch_array_at at = {0};
	a->throttle = throttle;
	sch__touch(st, &a->rec);
	for (struct sch_job *j = sch__array_each(st, a, &at); j; j = sch__array_each(st, a, &at))
		if (!mu_job_state_ended(j->state))
			sch__touch(st, &j->rec);
	sch__wake(st);
}

void sch__array_purge(struct sch_state *st, struct sch_job *j)
{
	struct sch_array *a = j->array;
	if (!a)
		return;
	index_record(st, j, false);
	j->array = NULL;
	if (--a->refs)
		return;
	mu_map_del_u64(&st->arrays, a->id);
	sch__gone(st, &a->rec);
}

/* ---- rows ---- */

void sch__array_pack(const struct sch_array *a, struct mu_buf *out)
{
	Mu__ArrayRow row = MU__ARRAY_ROW__INIT;
	SCH_SET(&row, id, a->id);
	row.tasks = a->text->text;
	SCH_SET(&row, throttle, a->throttle);
	SCH_SET(&row, done, a->done);
	SCH_SET(&row, failed, a->failed);
	SCH_SET(&row, last_id, a->last_id);
	SCH_SET(&row, last_start_usec, a->last_start_usec);
	mu_pb_pack(&row.base, out);
}

int sch__array_load(struct sch_state *st, const Mu__ArrayRow *row, struct mu_err *err)
{
	struct sch_array *a = sch__array(st, row->id); /* Made for its first job row. */
	if (!a || a->last_id || !row->last_id || !sch__same(a->text->text, row->tasks))
		return mu_fail(err, MU_ECORRUPT, "array row %u: no job, other tasks, or twice", row->id);
	a->throttle = row->throttle;
	a->done = row->done;
	a->failed = row->failed;
	a->last_id = row->last_id;
	a->last_start_usec = row->last_start_usec;
	return 0;
}

void sch__job_array_row(const struct sch_job *j, Mu__JobRow *row, struct mu_arena *arena)
{
	if (!j->array)
		return;
	SCH_SET(row, array_job, j->array->id);
	SCH_SET(row, array_throttle, mu_job_state_ended(j->state) ? 0 : j->array->throttle);
	row->has_array_task = !j->tasks;
	row->array_task = j->task;
	if (!j->tasks)
		return;
	row->n_array_run = 2 * mu_runs_count(j->tasks);
	row->array_run = mu_arena_alloc(arena, (row->n_array_run + 1) * sizeof(row->array_run[0]));
	mu_runs_pack(j->tasks, row->array_run);
}

int sch__array_join(struct sch_state *st, struct sch_job *j, const Mu__JobRow *row, struct mu_err *err)
{
	struct mu_runs runs = {0};
	if (!row->array_job)
		return 0;
	j->array = sch__array(st, row->array_job);
	if (!j->array)
		j->array = array_of(st, row->array_job, row->spec->array, err);
	if (!j->array)
		return mu_fail(err, MU_ECORRUPT, "job row %u is of array %u, which has no tasks", row->id,
			       row->array_job);
	uint32_t ordinal = row->has_array_task ? mu_tasks_ordinal(&j->array->tasks, row->array_task) : 0;
	bool ok = ordinal != UINT32_MAX;
	if (ok && row->has_array_task)
		mu_runs_add(&runs, ordinal, ordinal + 1);
	else if (ok)
		ok = mu_runs_unpack(row->array_run, row->n_array_run, j->array->tasks.total, &runs) &&
		     runs.total > 1 && !row->n_alloc && !row->attempt;
	if (!ok) {
		mu_runs_free(&runs);
		j->array = NULL;
		return mu_fail(err, MU_ECORRUPT, "job row %u has tasks that array %u does not", row->id,
			       row->array_job);
	}
	set_tasks(st, j, &runs);
	j->array->refs++;
	index_record(st, j, true);
	return 0;
}

int sch__array_check_loaded(struct sch_state *st, struct mu_err *err)
{
	uint64_t id = 0;
	for (struct sch_array *a = mu_map_next_u64(&st->arrays, 0, &id); a;
	     a = mu_map_next_u64(&st->arrays, id + 1, &id))
		if (!a->last_id || (uint64_t)a->done + a->failed + a->waiting + a->active != a->tasks.total)
			return mu_fail(err, MU_ECORRUPT, "array row %u does not count its tasks", a->id);
	return 0;
}

void sch__array_free(struct sch_state *st, struct sch_array *a)
{
	st->bytes -= a->tasks.count * sizeof(a->tasks.v[0]);
	mu_tasks_free(&a->tasks);
	sch__str_drop(st, &a->text);
	sch__free(st, a, sizeof(*a));
}
