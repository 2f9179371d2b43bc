/* sched/het.c: heterogeneous jobs. Each component is a job of its own, with its spec, allocation, steps and
 * accounts. Their ids follow one another, so that from any one all are found. What makes them one job:
 *
 * They wait in one place, that of the first, which is in the queues while every one of them is ready; the
 * others are in none. A pass starts all or none (together.c), and so does evolve. When one ends, all end the
 * same way, and none is forgotten or waits again without the others. The one exception is a person who ends a
 * component other than the first while it runs. */
#include "sched/timeline.h"

uint32_t sch__het_size(const struct sch_job *j)
{
	return j->het_count ? j->het_count : 1;
}

struct sch_job *sch__het_part(const struct sch_state *st, const struct sch_job *j, uint32_t offset)
{
	if (!j->het_count) /* Asked often: no look-up for jobs by themselves. */
		return (struct sch_job *)j;
	struct sch_job *m = sch__job(st, j->het_first + offset);
	return m && m->het_first == j->het_first ? m : NULL;
}

struct sch_job *sch__het_leader(const struct sch_state *st, const struct sch_job *j)
{
	return sch__het_part(st, j, 0);
}

uint32_t sch__job_kin(const struct sch_job *j)
{
	return j->het_first ? j->het_first : sch__job_family(j);
}

bool sch__het_same(const struct sch_job *a, const struct sch_job *b)
{
	return a == b || (a && b && a->het_first && a->het_first == b->het_first);
}

bool sch__ready(const struct sch_job *j)
{
	bool waits = j->reason == REASON_Dependency || j->reason == REASON_DependencyNeverSatisfied ||
		     j->reason == REASON_BeginTime;
	return j->state == JOB_PENDING && j->priority && (!waits || j->reason_of);
}

bool sch__het_ready(const struct sch_state *st, const struct sch_job *j)
{
	bool ready = true;
	for (uint32_t k = 0; k < sch__het_size(j) && ready; k++) {
		const struct sch_job *m = sch__het_part(st, j, k);
		ready = m && sch__ready(m);
	}
	return ready;
}

bool sch__waits(const struct sch_state *st, const struct sch_job *j)
{
	const struct sch_job *first = sch__het_leader(st, j);
	return first && first->queued;
}

void sch__het_unplan(struct sch_state *st, const struct sch_job *j)
{
	for (uint32_t k = 0; k < j->het_count; k++) {
		struct sch_job *m = sch__het_part(st, j, k);
		if (!m || !m->plan_start_usec)
			continue;
		sch__plan_clear(st, m);
		sch__touch(st, &m->rec);
	}
}

void sch__het_tell(struct sch_state *st, const struct sch_job *j)
{
	struct sch_job *first = sch__het_leader(st, j), *cause = NULL;
	if (!j->het_count || !first || !sch__ready(first))
		return;
	for (uint32_t k = 1; k < j->het_count && !cause; k++) {
		struct sch_job *m = sch__het_part(st, j, k);
		cause = m && m->state == JOB_PENDING && !sch__ready(m) ? m : NULL;
	}
	uint32_t id = cause ? cause->id : 0;
	if (first->reason_of == id && (!cause || first->reason == cause->reason))
		return;
	sch__reason(st, first, cause ? cause->reason : REASON_None,
		    cause ? sch__text(cause->reason_detail) : NULL);
	first->reason_of = id;
	sch__touch(st, &first->rec);
}

/* ---- submission ---- */

/* The specs of one job are judged one by one, and what is counted is counted together. */
int sch__submission_check(const struct sch_state *st, const Mu__Submitted *s, const Mu__Author *author,
			  struct mu_arena *arena, struct sch_want **ret, struct mu_err *err)
{
	size_t count = 1 + s->n_component;
	uint64_t tasks = 0;
	int rc = 0;
	if (count > SCH_HET_MAX)
		return mu_fail(err, MU_ELIMIT, "A heterogeneous job has at most %u components", SCH_HET_MAX);
	struct sch_want *want = mu_arena_alloc(arena, count * sizeof(want[0]));
	for (size_t i = 0; i < count && !rc; i++) {
		const Mu__JobSpec *spec = i ? s->component[i - 1] : s->spec;
		if (count > 1 && spec->array && *spec->array)
			return sch__refuse(err, MU_EARRAY);
		if (i && (spec->batch || spec->script_hash.len))
			return mu_fail(err, MU_EINVAL,
				       "Only the first component of a heterogeneous job has a script");
		rc = sch__rights(spec, author, err);
		if (!rc)
			rc = sch__depends_check(st, spec, UINT32_MAX, s->resolved, s->n_resolved, arena, err);
		if (!rc)
			rc = sch__resolve(st, spec, author, arena, &want[i], err);
		tasks += rc ? 0 : want[i].tasks;
	}
	if (!rc && sch__jobs_full(st, (uint32_t)tasks))
		rc = sch__refuse(err, MU_EMAXJOBS);
	for (size_t i = 0; i < count && !rc; i++) {
		struct sch_want all = want[i];
		for (size_t k = 0; k < i; k++) /* Where one limit counts them both. */
			all.tasks += sch__same(want[k].qos, want[i].qos) || want[k].assoc == want[i].assoc;
		rc = sch__limit_submit(st, i ? s->component[i - 1] : s->spec, &all, author, err);
	}
	*ret = want;
	return rc;
}

/* ---- ends ---- */

/* J has begun to end as a part of its job: so do the others. */
void sch__het_ending(struct sch_ev *ev, struct sch_job *j)
{
	for (uint32_t k = 0; k < j->het_count; k++) {
		struct sch_job *m = sch__het_part(ev->st, j, k);
		if (!m || m == j || m->state == JOB_PENDING)
			continue;
		if (sch__lives(m)) {
			m->run->exit_code = j->run->exit_code;
			m->run->exit_signal = j->run->exit_signal;
			m->has_canceller = j->has_canceller;
			m->cancelled_by = j->cancelled_by;
			sch__job_ending_alone(ev, m, j->end_state);
		} else if (!j->requeue_after) {
			continue;
		}
		m->requeue_after = j->requeue_after;
		m->hold_after = j->hold_after;
		sch__touch(ev->st, &m->rec);
		if (mu_job_state_ended(m->state))
			sch__job_wait_again(ev, m);
		else
			sch__job_settle(ev, m);
	}
}

/* One that was to wait again with J, which has been ended instead, does not. */
void sch__het_end_waiting(struct sch_ev *ev, struct sch_job *j, uint32_t state)
{
	for (uint32_t k = 0; k < j->het_count; k++) {
		struct sch_job *m = sch__het_part(ev->st, j, k);
		bool coming = m && m->state == JOB_COMPLETING && m->requeue_after;
		if (!m || m == j || (m->state != JOB_PENDING && !coming))
			continue;
		m->has_canceller = j->has_canceller;
		m->cancelled_by = j->cancelled_by;
		sch__touch(ev->st, &m->rec);
		if (!coming) {
			sch__job_end_waiting_alone(ev, m, state);
			continue;
		}
		m->requeue_after = m->hold_after = false;
		m->end_state = (uint8_t)state;
	}
}
