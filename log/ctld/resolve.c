/* ctld/resolve.c: what the core needs of the past is put into the event before admission: how jobs ended that a
 * dependency names and that State has forgotten, or may forget before the event is folded. */
#include "log/ctld/ctld.h"

#include <string.h>

#include "proto/depend.h"
#include "proto/pb.h"
#include "proto/states.h"
#include "query/rows.h"

static void add(Mu__Submitted *submitted, const Mu__JobRow *job, struct mu_arena *arena)
{
	Mu__ResolvedParent *r = mu_arena_alloc(arena, sizeof *r);

	mu__resolved_parent__init(r);
	r->has_job = r->has_state = r->has_exit_code = r->has_pos = 1;
	r->job = job->id;
	r->state = job->state;
	r->exit_code = job->exit_code;
	r->pos = job->end_pos;
	submitted->resolved[submitted->n_resolved++] = r;
}

/* Asks history for the jobs of ID. One that it does not know stays unknown, and admission refuses it. */
static void from_history(struct ctl *c, Mu__Submitted *submitted, uint32_t *id, size_t count, struct mu_arena *arena)
{
	const struct query_caller caller = {.operator = true};
	Mu__Query query = MU__QUERY__INIT;
	Mu__Rows rows = MU__ROWS__INIT;
	struct mu_err err = {0};

	query.has_what = 1;
	query.what = MU__WHAT__WHAT_ACCT;
	query.job = id;
	query.n_job = count;
	if (query_rows(c->view, &query, &caller, arena, &rows, &err))
		return;
	for (size_t i = 0; i < rows.n_row && submitted->n_resolved < CTL_RESOLVED_MAX; i++) {
		const Mu__HistRow *row = (const Mu__HistRow *)mu_pb_unpack(&mu__hist_row__descriptor, rows.row[i].data,
									    rows.row[i].len, arena);
		if (row && row->job && mu_job_state_ended(row->job->state))
			add(submitted, row->job, arena);
	}
}

int ctl_resolve(struct ctl *c, Mu__Submitted *submitted, struct mu_arena *arena, struct mu_err *err)
{
	const char *text = submitted->spec->dependency;
	struct mu_depends d = {0};
	uint32_t *missing;
	size_t count = 0;
	int code;

	submitted->n_resolved = 0;
	if (!text || !*text)
		return 0;
	code = mu_depends_parse(text, arena, &d, err);
	if (code)
		return code;
	missing = mu_arena_alloc(arena, (d.count + 1) * sizeof missing[0]);
	submitted->resolved = mu_arena_alloc(arena, (CTL_RESOLVED_MAX + 1) * sizeof submitted->resolved[0]);
	for (size_t i = 0; i < d.count; i++) {
		const Mu__JobRow *job = d.item[i].job ? sch_job(c->st, d.item[i].job) : NULL;

		if (job && mu_job_state_ended(job->state) && submitted->n_resolved < CTL_RESOLVED_MAX)
			add(submitted, job, arena);
		else if (!job && d.item[i].job)
			missing[count++] = d.item[i].job;
	}
	if (count + submitted->n_resolved > CTL_RESOLVED_MAX)
		return mu_fail(err, MU_EDEPENDENCY, "A job may depend on at most %u jobs that have ended", CTL_RESOLVED_MAX);
	if (count)
		from_history(c, submitted, missing, count, arena);
	return 0;
}
