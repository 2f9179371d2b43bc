/* ctld/resolve.c: what the core needs of the past is put into the event before admission: how jobs ended that a
 * dependency names and that State has forgotten, or may forget before the event is folded.
 *
 * The core never reads history itself, whose disk may be slow: it notes which jobs it must know of, a reader fills them in, and the
 * request begins anew. */
#include "log/ctld/ctld.h"

#include <string.h>

#include "proto/array.h"
#include "proto/depend.h"
#include "proto/pb.h"
#include "proto/states.h"
#include "query/rows.h"

static Mu__ResolvedParent *add(Mu__Submitted *submitted, uint32_t id, uint32_t state, struct mu_arena *arena)
{
	Mu__ResolvedParent *r = mu_arena_alloc(arena, sizeof *r);

	mu__resolved_parent__init(r);
	r->has_job = r->has_state = 1;
	r->job = id;
	r->state = state;
	submitted->resolved[submitted->n_resolved++] = r;
	return r;
}

static void add_job(Mu__Submitted *submitted, const Mu__JobRow *job, struct mu_arena *arena)
{
	Mu__ResolvedParent *r = add(submitted, job->id, job->state, arena);

	r->has_exit_code = r->has_pos = 1;
	r->exit_code = job->exit_code;
	r->pos = job->end_pos;
}

enum {
	PAST_WAIT_MSEC = 1000,	/* for the view to reach the State that asks */
	PAST_FRESH_MSEC = 1000, /* jobs stay in State for longer after their end, so that none is missed between the two */
	PAST_READS = 3		/* on a disk so slow that it is never fresh, the third answer must do */
};

/* What history says of job ID: noted by the core, filled in by a reader, in the request's arena. */
struct ctl_past {
	struct ctl_past *next;
	uint32_t id;
	bool asked; /* and not yet answered */
	bool here;  /* State has some of the array's tasks, and may let them go meanwhile */
	unsigned reads;
	int64_t asked_msec;
	int code;
	struct mu_err err;
	const Mu__JobRow *last; /* NULL: nothing is known */
	char *done, *failed;	/* of an array: the tasks that ended so; else NULL */
};

/* A request on its way to a reader. */
struct look {
	struct ctl_req *req;
	uint64_t pos;
};

/* What history has of one job, or of an array's jobs. */
struct past {
	const Mu__JobRow **row;
	size_t count;
};

static int from_history(struct ctl *c, uint32_t id, struct past *ret, struct mu_arena *arena, struct mu_err *err)
{
	const struct query_caller caller = {.operator = true};
	Mu__Query query = MU__QUERY__INIT;
	struct mu_err why = {0};

	query.has_what = query.has_slim = query.slim = 1;
	query.what = MU__WHAT__WHAT_ACCT;
	query.job = &id;
	query.n_job = 1;
	ret->row = mu_arena_alloc(arena, CTL_RESOLVED_ROWS * sizeof ret->row[0]);
	for (;;) {
		Mu__Rows rows = MU__ROWS__INIT;

		if (query_rows(c->view, &query, &caller, arena, &rows, &why))
			return 0; /* Nothing is known: admission refuses it. */
		for (size_t i = 0; i < rows.n_row; i++) {
			const Mu__HistRow *row = (const Mu__HistRow *)mu_pb_unpack(&mu__hist_row__descriptor, rows.row[i].data,
										    rows.row[i].len, arena);
			if (!row || !row->job || !mu_job_state_ended(row->job->state))
				continue;
			if (ret->count == CTL_RESOLVED_ROWS)
				return mu_fail(err, MU_EDEPENDENCY,
					       "Job %u has too many tasks that ended long ago to ask history for them", id);
			ret->row[ret->count++] = row->job;
		}
		if (!rows.has_next_key)
			return 0;
		query.has_after_key = 1;
		query.after_key = rows.next_key;
	}
}

/* Indexes of the tasks that ended so, "1-4,7"; "" for none. */
static char *tasks_that(const struct past *past, uint32_t id, bool well, struct mu_arena *arena)
{
	struct mu_bits bits = {0};
	struct mu_buf list = {0};

	mu_buf_str(&list, "");
	for (size_t i = 0; i < past->count; i++) {
		const Mu__JobRow *j = past->row[i];
		struct mu_tasks tasks;
		struct mu_runs runs = {0};

		if (j->array_job != id || (j->state == JOB_COMPLETED) != well)
			continue;
		if (j->has_array_task) {
			mu_bits_set(&bits, j->array_task);
		} else if (j->spec && j->spec->array && !mu_tasks_parse(j->spec->array, UINT32_MAX, &tasks, NULL)) {
			mu_runs_unpack(j->array_run, j->n_array_run, tasks.total, &runs);
			for (uint32_t n = mu_runs_next(&runs, 0); n != UINT32_MAX; n = mu_runs_next(&runs, n + 1))
				mu_bits_set(&bits, mu_tasks_index(&tasks, n));
			mu_runs_free(&runs);
			mu_tasks_free(&tasks);
		}
	}
	if (mu_bits_next(&bits, 0) != UINT32_MAX)
		mu_array_print(&bits, 0, &list);
	char *text = mu_arena_strdup(arena, (const char *)list.data);
	mu_buf_free(&list);
	mu_bits_free(&bits);
	return text;
}

static bool lists(const char *list, uint32_t task)
{
	struct mu_tasks tasks;

	if (!*list || mu_tasks_parse(list, UINT32_MAX, &tasks, NULL))
		return false;
	bool found = mu_tasks_ordinal(&tasks, task) != UINT32_MAX;
	mu_tasks_free(&tasks);
	return found;
}

static void read_past(struct ctl *c, struct ctl_past *p, struct mu_arena *arena)
{
	struct past past = {0};
	bool array = false;

	p->code = from_history(c, p->id, &past, arena, &p->err);
	if (p->code || !past.count)
		return;
	p->last = past.row[past.count - 1];
	for (size_t i = 0; i < past.count; i++)
		array = array || past.row[i]->array_job == p->id;
	if (array) {
		p->done = tasks_that(&past, p->id, true, arena);
		p->failed = tasks_that(&past, p->id, false, arena);
	}
}

static void looked(struct ctl *c, void *arg)
{
	struct look *l = arg;

	for (struct ctl_past *p = l->req->past; p; p = p->next)
		p->asked = false;
	ctl_req_dispatch(c, l->req);
}

/* On a reader thread; the core does not touch the request meanwhile. */
static void look(struct ctl *c, void *arg)
{
	struct look *l = arg;

	(void)view_wait(c->view, l->pos, PAST_WAIT_MSEC);
	for (struct ctl_past *p = l->req->past; p; p = p->next)
		if (p->asked)
			read_past(c, p, &l->req->arena);
	ctl_post(c, looked, l);
}

/* What was read of job ID; asked, and empty, where it was not yet or too long ago. NULL: too many others were. */
static struct ctl_past *past_of(struct ctl_req *req, uint32_t id, bool here)
{
	struct ctl_past *p = req->past;
	int64_t now = ctl_mono_msec();
	unsigned others = 0;

	for (; p && p->id != id; p = p->next)
		others++;
	if (p && (p->asked || !p->here || p->reads == PAST_READS || now - p->asked_msec <= PAST_FRESH_MSEC))
		return p;
	if (!p && others == CTL_RESOLVED_MAX)
		return NULL;
	unsigned reads = p ? p->reads : 0;
	struct ctl_past *next = p ? p->next : req->past;
	if (!p)
		req->past = p = mu_arena_alloc(&req->arena, sizeof *p);
	*p = (struct ctl_past){
		.next = next, .id = id, .asked = true, .here = here, .reads = reads + 1, .asked_msec = now};
	return p;
}

static int too_many(struct mu_err *err)
{
	return mu_fail(err, MU_EDEPENDENCY, "A job may depend on at most %u jobs that have ended", CTL_RESOLVED_MAX);
}

/* ITEM is about an array that State has in part or not at all, or about a job that it has not. */
static int ask_history(struct ctl_req *req, Mu__Submitted *submitted, const struct mu_depend *item, bool here,
		       struct mu_err *err)
{
	struct ctl_past *p = past_of(req, item->job, here);
	struct mu_arena *arena = &req->arena;

	if (!p)
		return too_many(err);
	if (p->code)
		return mu_fail(err, p->code, "%s", p->err.text);
	if (p->asked || !p->last)
		return 0;
	if (!p->done) {
		if (!item->has_task)
			add_job(submitted, p->last, arena);
		return 0;
	}
	if (!item->has_task) {
		Mu__ResolvedParent *r = add(submitted, item->job, *p->failed ? JOB_FAILED : JOB_COMPLETED, arena);
		if (here || *p->failed) { /* Each task by itself, where they differ. */
			r->done = p->done;
			r->failed = p->failed;
		}
	} else if (lists(p->done, item->task) || lists(p->failed, item->task)) {
		Mu__ResolvedParent *r =
		    add(submitted, item->job, lists(p->done, item->task) ? JOB_COMPLETED : JOB_FAILED, arena);
		r->has_task_index = 1;
		r->task_index = item->task;
	}
	return 0;
}

static bool is_resolved(const Mu__Submitted *submitted, const struct mu_depend *item)
{
	for (size_t i = 0; i < submitted->n_resolved; i++) {
		const Mu__ResolvedParent *r = submitted->resolved[i];

		if (r->job == item->job && item->has_task == (r->has_task_index != 0) &&
		    (!item->has_task || r->task_index == item->task))
			return true;
	}
	return false;
}

static int resolve_one(struct ctl *c, struct ctl_req *req, Mu__Submitted *submitted, const char *text,
		       struct mu_err *err)
{
	struct mu_arena *arena = &req->arena;
	struct mu_depends d = {0};
	int code;

	if (!text || !*text)
		return 0;
	code = mu_depends_parse(text, arena, &d, err);
	if (code)
		return code;
	if (!submitted->n_resolved)
		submitted->resolved = mu_arena_alloc(arena, (CTL_RESOLVED_MAX + 1) * sizeof submitted->resolved[0]);
	for (size_t i = 0; i < d.count && !code; i++) {
		const struct mu_depend *item = &d.item[i];
		struct sch_array_counts array;
		bool here = item->job && sch_array_counts(c->st, item->job, &array);
		const Mu__JobRow *job = !item->job	  ? NULL
					: item->has_task ? sch_task(c->st, item->job, item->task)
							  : sch_job(c->st, item->job);

		if (!item->job || (here && !item->has_task && item->kind != MU_DEPEND_AFTERCORR))
			continue; /* State itself knows of the whole array. */
		if (is_resolved(submitted, item))
			continue;
		if (submitted->n_resolved == CTL_RESOLVED_MAX)
			return too_many(err);
		if (here ? item->has_task && job : job != NULL) {
			if (mu_job_state_ended(job->state) && item->has_task) {
				Mu__ResolvedParent *r = add(submitted, item->job, job->state, arena);
				r->has_task_index = 1;
				r->task_index = item->task;
			} else if (mu_job_state_ended(job->state)) {
				add_job(submitted, job, arena);
			}
			continue;
		}
		code = ask_history(req, submitted, item, here, err);
	}
	return code;
}

/* The components of a heterogeneous job may depend on the same jobs, and on others. */
int ctl_resolve(struct ctl *c, struct ctl_req *req, Mu__Submitted *submitted, struct mu_err *err)
{
	int code = 0;
	bool asked = false;

	submitted->n_resolved = 0;
	for (size_t i = 0; i <= submitted->n_component && !code; i++)
		code = resolve_one(c, req, submitted, (i ? submitted->component[i - 1] : submitted->spec)->dependency,
				   err);
	for (const struct ctl_past *p = req->past; p && !asked; p = p->next)
		asked = p->asked;
	if (code || !asked)
		return code;
	if (ctl_read_full(c))
		return mu_fail(err, MU_EBUSY, "The controller has too many queries waiting; try again");
	struct look *l = mu_arena_alloc(&req->arena, sizeof *l);
	*l = (struct look){req, sch_pos(c->st)};
	ctl_read_task(c, look, l);
	return CTL_LATER;
}
