/* cli/trail.c: scontrol show job N --trail: from cause to process: what was asked and decided about a job's
 * processes, what befell its devices, and how each of its steps ended. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/filter.h"
#include "cli/life.h"
#include "proto/states.h"

enum { TO_BATCH = 1, TO_ALL = 2 }; /* JobRow.signal_flags */

struct mark {
	int64_t usec;
	uint64_t order; /* among marks of one moment */
	char *text;
};

struct trail {
	struct cli *c;
	struct mark *mark;
	size_t count, cap;
};

static void add(struct trail *t, int64_t usec, const char *what, const char *cause)
{
	if (t->count == t->cap) {
		struct mark *more = mu_arena_alloc(&t->c->arena, 2 * (t->cap + 16) * sizeof *more);

		if (t->count)
			memcpy(more, t->mark, t->count * sizeof *more);
		t->mark = more;
		t->cap = 2 * (t->cap + 16);
	}
	t->mark[t->count] =
	    (struct mark){usec, t->count, mu_arena_printf(&t->c->arena, "%-48s  %s", what, cause)};
	t->count++;
}

static void signal_words(const Mu__JobRow *j, struct mu_buf *out)
{
	mu_buf_printf(out, "signal %u (%s) for ", j->pending_signal, cli_signal_name((int)j->pending_signal));
	if (j->signal_has_step)
		mu_buf_printf(out, "step %u", j->signal_step);
	else
		mu_buf_str(out, j->signal_flags & TO_ALL     ? "every process"
				: j->signal_flags & TO_BATCH ? "the batch script"
							     : "the steps");
}

static bool differs(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") != 0;
}

/* A moment in which something was done to the job's processes; what only moves it in the queue is none. */
static void take_moment(struct trail *t, const Mu__Moment *m, const Mu__JobRow *before)
{
	struct mu_buf cause MU_CLEANUP(mu_buf_free) = {0}, what MU_CLEANUP(mu_buf_free) = {0};
	const Mu__JobRow *j = m->job;
	bool turned = !before || before->state != j->state || before->end_state != j->end_state;

	life_cause(m, &cause);
	if (j->signal_seq && (!before || before->signal_seq != j->signal_seq)) {
		signal_words(j, &what);
		add(t, m->time_usec, (char *)what.data, (char *)cause.data);
		mu_buf_reset(&what);
	}
	if (j->system_comment && differs(j->system_comment, before ? before->system_comment : NULL))
		add(t, m->time_usec, j->system_comment, (char *)cause.data);
	if (!turned || j->state == JOB_PENDING)
		return;
	mu_buf_str(&what, mu_job_state_long(j->state));
	if (j->state == JOB_COMPLETING && j->end_state)
		mu_buf_printf(&what, " (%s)", mu_job_state_long(j->end_state));
	if (j->has_canceller)
		mu_buf_printf(&what, ", cancelled by uid %u", j->cancelled_by);
	if (mu_job_state_ended(j->state))
		mu_buf_printf(&what, ", exit %d, signal %d", j->exit_code, j->exit_signal);
	if (j->end_detail && *j->end_detail)
		mu_buf_printf(&what, ", %s", j->end_detail);
	add(t, m->time_usec, (char *)what.data, (char *)cause.data);
}

static void step_word(uint32_t step, char out[16])
{
	if (step == MU_STEP_BATCH || step == MU_STEP_EXTERN)
		snprintf(out, 16, "%s", step == MU_STEP_BATCH ? "batch" : "extern");
	else
		snprintf(out, 16, "%u", step);
}

/* How a step ended: by the kernel, by a signal, by itself. */
static void take_step(struct trail *t, const Mu__StepRow *s)
{
	struct mu_buf what MU_CLEANUP(mu_buf_free) = {0}, where MU_CLEANUP(mu_buf_free) = {0};
	uint32_t killed = s->usage ? s->usage->oom_kills : 0;
	char word[16];

	if (!s->end_usec)
		return;
	step_word(s->step, word);
	mu_buf_printf(&what, "step %s %s, exit %d", word, mu_job_state_long(s->state), s->exit_code);
	if (s->exit_signal)
		mu_buf_printf(&what, ", signal %d (%s)", s->exit_signal, cli_signal_name(s->exit_signal));
	if (killed)
		mu_buf_printf(&what, ", the kernel killed %u for memory", killed);
	if (s->has_canceller)
		mu_buf_printf(&what, ", cancelled by uid %u", s->cancelled_by);
	if (s->detail && *s->detail)
		mu_buf_printf(&what, ", %s", s->detail);
	mu_buf_printf(&where, "told by node %s", s->node_list ? s->node_list : "?");
	add(t, s->end_usec, (char *)what.data, (char *)where.data);
}

static int by_time(const void *a, const void *b)
{
	const struct mark *x = a, *y = b;

	if (x->usec != y->usec)
		return x->usec < y->usec ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

static int take_moments(struct trail *t, uint32_t job, struct mu_err *err)
{
	Mu__Query query = MU__QUERY__INIT;
	const Mu__JobRow *before = NULL;
	void **rows;
	size_t n;

	query.has_what = 1;
	query.what = MU__WHAT__WHAT_MOMENTS;
	query.job = &job;
	query.n_job = 1;
	int code = cli_query_all(t->c, &query, &mu__moment__descriptor, &rows, &n, err);
	if (code == 0 && n == 0)
		code = mu_fail(err, MU_EJOBID, "%s", mu_strerror(MU_EJOBID));
	for (size_t i = 0; code == 0 && i < n; i++) {
		const Mu__Moment *m = rows[i];

		if (!m->job)
			continue;
		take_moment(t, m, before);
		before = m->job;
	}
	return code;
}

static int take_steps(struct trail *t, uint32_t job, struct mu_err *err)
{
	Mu__Query query = MU__QUERY__INIT;
	void **rows;
	size_t n;

	query.has_what = query.has_duplicates = query.duplicates = 1;
	query.what = MU__WHAT__WHAT_ACCT;
	query.job = &job;
	query.n_job = 1;
	int code = cli_query_all(t->c, &query, &mu__hist_row__descriptor, &rows, &n, err);
	for (size_t i = 0; code == 0 && i < n; i++) {
		const Mu__HistRow *h = rows[i];

		for (size_t k = 0; h->job && h->job->id == job && k < h->n_step; k++)
			take_step(t, h->step[k]);
	}
	return code;
}

int life_trail(struct cli *c, uint32_t job, FILE *out)
{
	struct trail t = {.c = c};
	struct mu_err err = {0};
	char when[32];

	if (take_moments(&t, job, &err) || take_steps(&t, job, &err)) {
		fprintf(stderr, "slurm_load_jobs error: %s\n", err.text);
		return 1;
	}
	if (t.count)
		qsort(t.mark, t.count, sizeof *t.mark, by_time);
	fprintf(out, "JobId=%u\n", job);
	for (size_t i = 0; i < t.count; i++) {
		mu_date_print(t.mark[i].usec, &cli_zone, when);
		fprintf(out, "%s.%06d  %s\n", when, (int)(t.mark[i].usec % 1000000), t.mark[i].text);
	}
	return 0;
}
