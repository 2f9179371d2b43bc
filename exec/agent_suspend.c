/* exec/agent_suspend.c: attempts that stand still. The freezer stops the whole group of the job, steps and
 * batch script alike; shepherds live outside of it and go on. The kernel keeps it so while no agent is there,
 * and the record says it to the next one. */
#include "exec/agent.h"
#include "exec/herd.h"
#include "exec/spool.h"
#include "log/diag.h"

static void freeze(struct agent *a, struct agent_attempt *t, bool frozen)
{
	struct mu_err err = {0};
	if (exe_cgroup_freeze(&a->host, t->cgroup, frozen, &err))
		diag_error("job %u: %s", t->order->job, err.text);
}

/* A step's own limit stands still as the job's does. */
static void limit_steps(struct agent_attempt *t)
{
	for (struct agent_step *s = t->step; s; s = s->next) {
		int64_t more = (t->order->suspended_usec - s->order->suspended_before_usec) / 1000000;
		if (s->ended || s->lead || s->order->time_limit_sec <= 0)
			continue;
		exe_herd_put_limit(&s->out, t->order->suspended ? 0 : s->order->time_limit_sec + more);
		agent_step_flush(s);
	}
}

void agent_suspend_apply(struct agent *a, struct agent_attempt *t)
{
	if (!t->order->suspended || t->phase != EXE_RUNNING)
		return;
	freeze(a, t, true);
	limit_steps(t);
}

void agent_suspend_follow(struct agent *a, struct agent_attempt *t, const Mu__AttemptOrder *order)
{
	Mu__AttemptOrder *mine = t->record->order;
	bool stands = order->suspended, stood = mine->suspended;
	if (order->phase != MU__PHASE__PHASE_RUN || t->phase == EXE_ENDING || t->phase == EXE_ENDED ||
	    (stands == stood && order->suspended_usec == mine->suspended_usec))
		return;
	mine->has_suspended = mine->has_suspended_usec = 1;
	mine->suspended = stands;
	mine->suspended_usec = order->suspended_usec;
	agent_attempt_save(t, false);
	if (t->phase != EXE_RUNNING)
		return;
	freeze(a, t, stands);
	agent_attempt_limits(t);
	limit_steps(t);
	if (stands != stood)
		diag_info("job %u: %s", t->order->job, stands ? "suspended" : "goes on");
}

void agent_suspend_over(struct agent *a, struct agent_attempt *t)
{
	if (!t->record->order->suspended)
		return;
	t->record->order->suspended = false;
	freeze(a, t, false);
}
