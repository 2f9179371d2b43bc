/* sched/preempt.c: who gives way to whom, and how. See preempt.h. */
#include "sched/preempt.h"
#include "sched/timeline.h"

#include <assert.h>

#include "proto/conf.h"
#include "proto/signals.h"

enum sch_preempt_how sch__preempt_mode(const char *words, enum sch_preempt_how otherwise)
{
	if (!words || !*words)
		return otherwise;
	return sch__has_word(words, "SUSPEND")	 ? SCH_PREEMPT_SUSPEND
	       : sch__has_word(words, "REQUEUE") ? SCH_PREEMPT_REQUEUE
	       : sch__has_word(words, "CANCEL")	 ? SCH_PREEMPT_CANCEL
	       : sch__has_word(words, "OFF")	 ? SCH_PREEMPT_OFF
						 : otherwise; /* WITHIN alone, GANG alone */
}

static bool named(const struct sch_qos *q, const char *name)
{
	for (size_t i = 0; i < q->row->n_preempt; i++)
		if (strcmp(q->row->preempt[i], name) == 0)
			return true;
	return false;
}

bool sch__preempt_within(const struct sch_state *st, const struct sch_qos *q)
{
	if (!q)
		return false;
	return q->row->preempt_mode ? sch__has_word(q->row->preempt_mode, "WITHIN")
				    : st->config.preempt_within;
}

enum sch_preempt_how sch__preempt_way(const struct sch_state *st, const struct sch_job *v,
				      const struct sch_job *j, const struct sch_part *p, uint32_t *ret_rank)
{
	enum sch_preempt_how how = st->config.preempt_mode;
	if (v->state != JOB_RUNNING || v->resv || j->het_first || v->run->preempt_end_usec ||
	    (st->config.min_exempt_priority && v->priority >= st->config.min_exempt_priority))
		return SCH_PREEMPT_OFF;
	if (st->config.preempt_by == SCH_BY_PARTITION) {
		const struct sch_part *mine = sch__part(st, sch__text(v->partition));
		if (!mine || sch__tier(mine) >= sch__tier(p))
			return SCH_PREEMPT_OFF;
		how = sch__preempt_mode(mine->row->conf->preempt_mode, how);
		*ret_rank = sch__tier(mine);
	} else if (st->config.preempt_by == SCH_BY_QOS) {
		const struct sch_qos *mine = sch__qos(st, sch__text(v->qos)),
				     *theirs = sch__qos(st, sch__text(j->qos));
		bool same = mine == theirs && sch__preempt_within(st, theirs) && v->priority < j->priority;
		if (!mine || !theirs || !(same || named(theirs, mine->row->name)))
			return SCH_PREEMPT_OFF;
		how = sch__preempt_mode(mine->row->preempt_mode, how);
		*ret_rank = mine->row->priority;
	} else {
		return SCH_PREEMPT_OFF;
	}
	if (how == SCH_PREEMPT_REQUEUE && !sch__job_requeues(st, v))
		how = SCH_PREEMPT_CANCEL;
	return how;
}

bool sch__preempt_exempt(const struct sch_state *st, const struct sch_job *v)
{
	return v->run->preempt_eligible_usec > st->cluster->last_tick_usec;
}

int64_t sch__preempt_exempt_sec(const struct sch_state *st, const struct sch_job *v)
{
	const struct sch_qos *q = sch__qos(st, sch__text(v->qos));
	if (st->config.preempt_by == SCH_BY_NOTHING)
		return 0;
	return q && q->row->has_exempt_sec ? q->row->exempt_sec : st->config.preempt_exempt_sec;
}

int64_t sch__preempt_grace_sec(const struct sch_state *st, const struct sch_job *v)
{
	const struct sch_part *p = sch__part(st, sch__text(v->partition));
	const struct sch_qos *q = sch__qos(st, sch__text(v->qos));
	if (st->config.preempt_by == SCH_BY_QOS)
		return q ? q->row->grace_sec : 0;
	return p ? p->row->conf->grace_time_sec : 0;
}

/* ---- folding ---- */

/* SIGCONT and SIGTERM to its tasks, or the signal that it asked for itself. */
static void warn(struct sch_ev *ev, struct sch_job *j)
{
	const Mu__JobSpec *spec = sch__spec_open(j->spec, ev->arena);
	bool own = ev->st->config.send_user_signal && spec->signal_number;
	j->run->pending_signal = own ? spec->signal_number : 15;
	j->run->signal_flags = own && spec->signal_batch ? MU_SIGNAL_BATCH_ONLY : 0;
	j->run->signal_flags |= MU_SIGNAL_CONTINUE;
	j->run->signal_step = 0;
	j->run->signal_has_step = false;
	j->run->signal_seq++;
	j->run->signal_pos = ev->at->pos;
}

void sch__preempt_end(struct sch_ev *ev, struct sch_job *j)
{
	j->requeue_after = j->run->preempt_how == SCH_PREEMPT_REQUEUE && sch__job_requeues(ev->st, j) &&
			   sch__first_part(ev->st, j);
	sch__job_ending(ev, j, JOB_PREEMPTED);
	sch__job_settle(ev, j);
}

static void give_way(struct sch_ev *ev, struct sch_job *j, const Mu__Preempt *p)
{
	sch__touch(ev->st, &j->rec);
	j->run->preempt_usec = ev->now;
	j->run->preempted_by = p->by;
	j->run->preempt_how = p->how;
	if (p->how == SCH_PREEMPT_SUSPEND) {
		sch__job_suspend(ev, j);
		return;
	}
	sch__wake(ev->st); /* It ends sooner than plans knew. */
	sch__due_clear(ev->st, j);
	j->run->preempt_end_usec = ev->now + p->grace_sec * SCH_USEC;
	sch__due_set(ev->st, j);
	sch__str_set(ev->st, &j->run->end_detail, mu_arena_printf(ev->arena, "preempted by job %u", p->by));
	if (p->grace_sec)
		warn(ev, j);
}

void sch__preempted(struct sch_ev *ev, const Mu__Preempt *p)
{
	struct sch_job *j = sch__job(ev->st, p->job), *by = sch__job(ev->st, p->by);
	if (!j || !by || j->state != JOB_RUNNING || j->attempt != p->attempt || j->run->preempt_end_usec ||
	    p->grace_sec < 0 || p->grace_sec > INT32_MAX)
		return;
	for (uint32_t k = 0; k < sch__het_size(j); k++) {
		struct sch_job *m = sch__het_part(ev->st, j, k);
		if (m && m->state == JOB_RUNNING && !m->run->preempt_end_usec)
			give_way(ev, m, p);
	}
	if (p->how != SCH_PREEMPT_SUSPEND && !p->grace_sec)
		sch__preempt_end(ev, j);
}

void sch__preempt_exempts_end(struct sch_ev *ev)
{
	for (uint32_t i = 0; i < SCH_BEGIN_PER_TICK; i++) {
		const uint8_t *key = NULL;
		size_t len = 0;
		struct sch_job *j = mu_map_seek(&ev->st->exempts, NULL, 0, 0, &key, &len);
		if (!j || j->exempt_key > ev->now)
			return;
		sch__exempt_out(ev->st, j);
		sch__wake(ev->st);
	}
}
