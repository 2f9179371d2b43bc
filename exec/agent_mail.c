/* exec/agent_mail.c: what a job's owner is told by mail. The agent of the job's first node runs MailProg, for
 * what it sees of the job: that it began, how it ended, how much of its time is gone. Each mail is noted in
 * the attempt's record once its program runs, so a restarted agent sends what is still due; between the two a
 * mail may be sent twice, never lost. Leaves to the controllers: jobs that never reach a node send nothing.
 */
#include <stdio.h>
#include <string.h>

#include "exec/agent.h"
#include "exec/spool.h"
#include "log/diag.h"
#include "proto/conf.h"
#include "proto/states.h"
#include "proto/units.h"

enum { BEGIN, END, FAIL, REQUEUE, PERCENT_50, PERCENT_80, PERCENT_90, PERCENT_100, KINDS };

static const struct {
	const char *word;
	bool in_all;
	int64_t percent;
} kind_row[KINDS] = {[BEGIN] = {"BEGIN", true, 0},
		     [END] = {"END", true, 0},
		     [FAIL] = {"FAIL", true, 0},
		     [REQUEUE] = {"REQUEUE", true, 0},
		     [PERCENT_50] = {"TIME_LIMIT_50", false, 50},
		     [PERCENT_80] = {"TIME_LIMIT_80", false, 80},
		     [PERCENT_90] = {"TIME_LIMIT_90", false, 90},
		     [PERCENT_100] = {"TIME_LIMIT", false, 100}};

static bool lists(const char *list, const char *word)
{
	for (const char *p = list; *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ','))
		if (strcspn(p, ",") == strlen(word) && strncmp(p, word, strlen(word)) == 0)
			return true;
	return false;
}

/* Asked for, and not yet sent. */
static bool is_due(const struct agent_attempt *t, int kind)
{
	const char *types = t->order->spec->mail_type;
	if (!types || !t->order->batch_host || (t->record->mailed >> kind & 1))
		return false;
	/* Of an array's tasks each is told of only where that was asked for. */
	if (t->order->has_array_task && !lists(types, "ARRAY_TASKS"))
		return false;
	return lists(types, kind_row[kind].word) || (kind_row[kind].in_all && lists(types, "ALL"));
}

static void span(int64_t usec, char out[32])
{
	mu_span_print(usec > 0 ? usec / 1000000 : 0, 0, out);
}

static const char *address(const struct agent *a, struct agent_attempt *t)
{
	const char *to = t->order->spec->mail_user, *domain = mu_conf_get(a->live, "MailDomain", NULL);
	if (!to || !*to)
		to = t->order->user;
	if (to && !strchr(to, '@') && domain && *domain)
		to = mu_arena_printf(&t->arena, "%s@%s", to, domain);
	return to;
}

static void send(struct agent *a, struct agent_attempt *t, int kind, const char *what)
{
	const Mu__AttemptOrder *o = t->order;
	const char *program = mu_conf_get(a->live, "MailProg", "/bin/mail"), *to = address(a, t);
	const char *name = o->spec->name ? o->spec->name : "";
	const char *subject =
	    o->has_array_task ? mu_arena_printf(&t->arena, "Slurm Array Task Job_id=%u_%u (%u) Name=%s %s",
						o->array_job, o->array_task, o->job, name, what)
			      : mu_arena_printf(&t->arena, "Slurm Job_id=%u Name=%s %s", o->job, name, what);
	struct mu_err err = {0};
	t->record->has_mailed = 1;
	t->record->mailed |= 1u << kind;
	if (to && *to && *to != '-' && agent_prog_mail(a, t, program, subject, to, kind_row[kind].word, &err))
		diag_error("job %u: mail: %s", o->job, err.text);
	agent_attempt_save(t, false);
}

void agent_mail_begin(struct agent *a, struct agent_attempt *t)
{
	char queued[32];
	if (!is_due(t, BEGIN))
		return;
	span(t->order->start_usec - t->order->submit_usec, queued);
	send(a, t, BEGIN, mu_arena_printf(&t->arena, "Began, Queued time %s", queued));
}

static uint32_t state_of(const Mu__AttemptEnded *e)
{
	static const struct {
		uint32_t cause, state;
	} row[] = {{END_CANCEL, JOB_CANCELLED},	 {END_TIME_LIMIT, JOB_TIMEOUT},
		   {END_OOM, JOB_OUT_OF_MEMORY}, {END_NODE_FAIL, JOB_NODE_FAIL},
		   {END_PREEMPT, JOB_PREEMPTED}, {END_REQUEUE, JOB_REQUEUED},
		   {END_DEADLINE, JOB_DEADLINE}};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		if (row[i].cause == e->cause)
			return row[i].state;
	if (e->cause == END_LAUNCH_FAILED)
		return e->exit_code || e->exit_signal ? JOB_FAILED : JOB_REQUEUED;
	return e->exit_code || e->exit_signal || e->cause == END_SHEPHERD_LOST ? JOB_FAILED : JOB_COMPLETED;
}

void agent_mail_end(struct agent *a, struct agent_attempt *t, const Mu__AttemptEnded *e)
{
	char run[32];
	uint32_t state = state_of(e);
	bool well = state == JOB_COMPLETED || state == JOB_CANCELLED;
	bool told = (t->record->mailed >> END & 1) || (t->record->mailed >> FAIL & 1);
	int kind = state == JOB_REQUEUED || state == JOB_PREEMPTED ? REQUEUE
		   : !well && is_due(t, FAIL)			   ? FAIL
								   : END;
	if (e->cause == END_NO_SUCH_ATTEMPT || told || !is_due(t, kind))
		return;
	span(e->span_usec, run);
	if (kind == REQUEUE)
		send(a, t, kind, mu_arena_printf(&t->arena, "Requeued, Run time %s", run));
	else
		send(a, t, kind,
		     mu_arena_printf(&t->arena, "%s, Run time %s, %s, ExitCode %d",
				     kind == FAIL ? "Failed" : "Ended", run, mu_job_state_long(state),
				     e->exit_code));
}

/* When the next share of the time limit is gone; INT64_MAX where nobody wants to know. */
static int64_t next_percent(const struct agent_attempt *t, int *ret_kind)
{
	int64_t limit = t->order->has_time_limit_sec ? t->order->time_limit_sec : 0;
	for (int kind = PERCENT_50; kind <= PERCENT_100 && limit > 0; kind++)
		if (is_due(t, kind)) {
			*ret_kind = kind;
			return t->record->begin_mono_usec + limit * 10000 * kind_row[kind].percent;
		}
	return INT64_MAX;
}

int64_t agent_mail_due(const struct agent_attempt *t)
{
	int kind;
	return t->phase == EXE_RUNNING || t->phase == EXE_ENDING ? next_percent(t, &kind) : INT64_MAX;
}

void agent_mail_timer(struct agent *a, struct agent_attempt *t, int64_t now_boot_usec)
{
	char run[32];
	int kind = 0;
	while (now_boot_usec >= next_percent(t, &kind)) {
		span(now_boot_usec - t->record->begin_mono_usec, run);
		send(a, t, kind,
		     kind == PERCENT_100
			 ? mu_arena_printf(&t->arena, "Reached time limit, Run time %s", run)
			 : mu_arena_printf(&t->arena, "Reached %d%% of time limit, Run time %s",
					   (int)kind_row[kind].percent, run));
	}
}
