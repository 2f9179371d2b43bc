/* sched/top.c: scontrol top: which of a user's own waiting jobs goes first. Only nice values change, and what
 * one job gains the others that it passes lose: nobody else's place moves. */
#include "sched/state.h"

enum { NICE_MOST = INT32_MAX - 2 };

/* The same user, partition, account and QOS; in one partition only. */
static bool alike(const struct sch_job *a, const struct sch_job *b)
{
	return b->state == JOB_PENDING && b->queued && b->priority && b->shape->part_count == 1 &&
	       a->who->uid == b->who->uid && a->shape->part[0] == b->shape->part[0] &&
	       sch__same(sch__text(a->account), sch__text(b->account)) &&
	       sch__same(sch__text(a->qos), sch__text(b->qos));
}

static int64_t clip(int64_t nice)
{
	return nice > NICE_MOST ? NICE_MOST : nice < -NICE_MOST ? -NICE_MOST : nice;
}

/* Its nice value grows by MORE, and its priority follows. */
static void be_nicer(struct sch_ev *ev, struct sch_job *j, int64_t more)
{
	Mu__JobSpec *spec = sch__spec_open(j->spec, ev->arena);
	spec->has_nice = 1;
	spec->nice = (int32_t)clip(spec->nice + more);
	sch__job_renice(ev, j, spec);
}

static int check(struct sch_ev *ev, const struct sch_job *j, struct mu_err *err)
{
	if (!j)
		return sch__refuse(err, MU_EJOBID);
	if (!sch__may_act(ev, j))
		return sch__refuse(err, MU_EPERM);
	if (!ev->author->operator_ && !ev->st->config.user_top)
		return sch__refuse(err, MU_EPERM);
	if (j->state != JOB_PENDING)
		return sch__refuse(err, MU_ENOTPENDING);
	if (!alike(j, j))
		return mu_fail(err, MU_EDISABLED,
			       "%s: the job is held, or waits in several partitions, or not yet in any",
			       mu_strerror(MU_EDISABLED));
	return 0;
}

/* Of its kind J goes before all that stand before it now, apart from those of DONE. */
static void top(struct sch_ev *ev, struct sch_job *j, const uint32_t *done, size_t done_count)
{
	struct sch_part *p = sch__first_part(ev->st, j);
	uint64_t key = 0;
	size_t count = 0;
	struct sch_job **passed = NULL;
	uint32_t most = 0;
	for (int round = 0; p && round < 2; round++) { /* counts them, then names them */
		if (round)
			passed = mu_arena_alloc(ev->arena, (count + 1) * sizeof(passed[0]));
		count = 0;
		for (struct sch_job *k = mu_map_next_u64(&p->queue, 0, &key); k && k != j;
		     k = mu_map_next_u64(&p->queue, key + 1, &key)) {
			bool skip = !alike(j, k);
			for (size_t i = 0; i < done_count && !skip; i++)
				skip = done[i] == k->id;
			if (skip)
				continue;
			most = k->priority > most ? k->priority : most;
			if (round)
				passed[count] = k;
			count++;
		}
	}
	if (!count)
		return;
	/* It passes them by the way that it goes up and they go down, half each. */
	int64_t way = (int64_t)most - j->priority + 1, own = way - way / 2;
	be_nicer(ev, j, -own);
	for (size_t i = 0; i < count; i++)
		be_nicer(ev, passed[i], way / 2);
	if (sch__queue_key(j->priority, j->id) > passed[0]->queue_key) /* Priorities end at 1. */
		be_nicer(ev, j, -((int64_t)passed[0]->priority - j->priority + 1));
}

int sch__evolve_job_top(struct sch_ev *ev)
{
	const Mu__JobTop *t = ev->event->job_top;
	ev->job = t->n_job ? t->job[0] : 0;
	if (!t->n_job || t->n_job > SCH_TOP_MAX)
		return mu_fail(&ev->err, t->n_job ? MU_ELIMIT : MU_EJOBID,
			       "Between 1 and %u jobs may be named", SCH_TOP_MAX);
	for (size_t i = 0; i < t->n_job; i++) {
		int rc = check(ev, sch__job(ev->st, t->job[i]), &ev->err);
		if (rc)
			return rc;
	}
	for (size_t i = 0; i < t->n_job; i++)
		top(ev, sch__job(ev->st, t->job[i]), t->job, i);
	return 0;
}
