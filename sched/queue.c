/* sched/queue.c: where jobs wait, and the ordered indexes of what is due. All derived from job rows.
 *
 * A pending job is in the queue of each partition it names unless it is held (priority 0) or waits for its
 * begin time (its reason says so). The order is priority downwards, then the id, which is the order of
 * submission because ids are never used twice. */
#include "sched/preempt.h"
#include "sched/timeline.h"

#include <assert.h>

enum { PURGE_PER_SUBMISSION = 16 };

uint64_t sch__queue_key(uint32_t priority, uint32_t id)
{
	return (uint64_t)(UINT32_MAX - priority) << 32 | id;
}

/* Reasons that a pass leaves alone when the job is behind a blocked one. */
bool sch__reason_settled(uint32_t reason)
{
	switch (reason) {
	case REASON_None:
	case REASON_Resources:
	case REASON_ReservationDeleted:
	case REASON_PartitionDown:
	case REASON_PartitionInactive:
	case REASON_BeginTime:
	case REASON_JobHeldUser:
	case REASON_JobHeldAdmin:
	case REASON_launch_failed_requeued_held:
		return false;
	default:
		return true;
	}
}

struct sch_part *sch__first_part(const struct sch_state *st, const struct sch_job *j)
{
	return j->shape ? j->shape->first : NULL;
}

static void first_in(struct sch_part *p, struct sch_job *j)
{
	p->by_reason[j->reason]++;
	if (!sch__reason_settled(j->reason))
		mu_map_put_u64(&p->unsettled, j->queue_key, j);
}

static void first_out(struct sch_part *p, struct sch_job *j)
{
	assert(p->by_reason[j->reason] > 0);
	p->by_reason[j->reason]--;
	if (!sch__reason_settled(j->reason))
		mu_map_del_u64(&p->unsettled, j->queue_key);
}

void sch__reason(struct sch_state *st, struct sch_job *j, uint32_t reason, const char *detail)
{
	assert(reason < SCH_REASONS);
	struct sch_part *p = j->queued ? sch__first_part(st, j) : NULL;
	if (p)
		first_out(p, j);
	j->reason = (uint8_t)reason;
	j->reason_of = 0;
	sch__str_set(st, &j->reason_detail, detail);
	if (p)
		first_in(p, j);
}

static void into_queues(struct sch_state *st, struct sch_job *j)
{
	struct sch_part *first = sch__first_part(st, j);
	j->queue_key = sch__queue_key(j->priority, j->id);
	j->queued = true;
	for (uint32_t i = 0; i < j->shape->part_count; i++) {
		struct sch_part *p = sch__part(st, j->shape->part[i]->text);
		if (p)
			mu_map_put_u64(&p->queue, j->queue_key, j);
	}
	if (first) {
		first->first_count++;
		first_in(first, j);
	}
	sch__wake(st);
}

/* When time alone may make J ready; 0: never. */
static int64_t begin_moment(const struct sch_job *j)
{
	if (j->state != JOB_PENDING || j->priority == 0 || j->reason_of)
		return 0;
	return j->reason == REASON_BeginTime	? j->eligible_usec
	       : j->reason == REASON_Dependency ? j->depend_due_usec
						: 0;
}

void sch__queue_in(struct sch_state *st, struct sch_job *j)
{
	uint8_t key[12];
	assert(!j->queued);
	if (!sch__ready(j)) {
		sch__plan_clear(st, j);
		sch__het_unplan(st, j);
		sch__het_tell(st, j);
		if (begin_moment(j) > 0) {
			sch__pair_key(key, begin_moment(j), j->id);
			mu_map_put(&st->begins, key, sizeof(key), j);
		}
		return;
	}
	sch__het_tell(st, j);
	struct sch_job *first = sch__het_leader(st, j);
	if (first && !first->queued && sch__het_ready(st, j))
		into_queues(st, first);
	if (j->shape->switches)
		sch__switch_wait_in(st, j);
}

void sch__queue_out(struct sch_state *st, struct sch_job *j)
{
	uint8_t key[12];
	if (j->state == JOB_PENDING && begin_moment(j) > 0) {
		sch__pair_key(key, begin_moment(j), j->id);
		mu_map_del(&st->begins, key, sizeof(key));
	}
	sch__switch_wait_out(st, j);
	j = sch__het_leader(st, j);
	if (!j || !j->queued)
		return;
	struct sch_part *first = sch__first_part(st, j);
	if (first) {
		first_out(first, j);
		first->first_count--;
	}
	for (uint32_t i = 0; i < j->shape->part_count; i++) {
		struct sch_part *p = sch__part(st, j->shape->part[i]->text);
		if (p)
			mu_map_del_u64(&p->queue, j->queue_key);
	}
	j->queued = false;
	sch__wake(st); /* Others may stand first now. */
}

uint32_t sch__over_time_sec(const struct sch_state *st, const struct sch_job *j)
{
	const struct sch_part *p = sch__part(st, sch__text(j->partition));
	return p && p->row->conf->has_over_time_limit_sec ? p->row->conf->over_time_limit_sec
							  : sch__conf(st)->over_time_limit_sec;
}

/* Running: the limit's backstop. Waiting with a deadline: the last moment at which a start still makes sense.
 */
static int64_t due_moment(const struct sch_state *st, const struct sch_job *j)
{
	const Mu__Config *c = sch__conf(st);
	if (j->state == JOB_SUSPENDED) /* Its time limit stands still. */
		return j->resv_end_usec;
	if (j->state == JOB_RUNNING) {
		uint32_t over = sch__over_time_sec(st, j);
		int64_t last = sch__run_since(j) +
			       (j->time_limit_sec + c->kill_wait_sec + over + SCH_BACKSTOP_SEC) * SCH_USEC;
		if (j->time_limit_sec < 0 || over == UINT32_MAX)
			last = 0;
		if (j->run->preempt_end_usec && (!last || j->run->preempt_end_usec < last))
			last = j->run->preempt_end_usec;
		return j->resv_end_usec && (!last || j->resv_end_usec < last) ? j->resv_end_usec : last;
	}
	if (j->state != JOB_PENDING || j->deadline_usec <= 0)
		return 0;
	int64_t last = j->deadline_usec -
		       (j->limit_given && j->time_limit_sec > 0 ? j->time_limit_sec * SCH_USEC : 0) + 1;
	return last > 0 ? last : 1;
}

int64_t sch__job_end_usec(const struct sch_job *j)
{
	int64_t end = j->time_limit_sec < 0 ? INT64_MAX : sch__run_since(j) + j->time_limit_sec * SCH_USEC;
	return j->run && j->run->preempt_end_usec && j->run->preempt_end_usec < end ? j->run->preempt_end_usec
										    : end;
}

static void exempt_in(struct sch_state *st, struct sch_job *j)
{
	uint8_t key[12];
	if (j->run->preempt_eligible_usec <= st->cluster->last_tick_usec)
		return;
	j->exempt_key = j->run->preempt_eligible_usec;
	sch__pair_key(key, j->exempt_key, j->id);
	mu_map_put(&st->exempts, key, sizeof(key), j);
}

void sch__exempt_out(struct sch_state *st, struct sch_job *j)
{
	uint8_t key[12];
	if (!j->exempt_key)
		return;
	sch__pair_key(key, j->exempt_key, j->id);
	mu_map_del(&st->exempts, key, sizeof(key));
	j->exempt_key = 0;
}

void sch__due_clear(struct sch_state *st, struct sch_job *j)
{
	uint8_t key[12];
	if (j->due_key > 0) {
		sch__pair_key(key, j->due_key, j->id);
		mu_map_del(&st->due, key, sizeof(key));
		j->due_key = 0;
	}
	if (j->state == JOB_SUSPENDED) {
		sch__count_pause(st, j, -1);
		mu_map_del_u64(&st->stopped, j->id);
	}
	if (sch__lives(j))
		sch__count_running(st, j, -1);
	if (j->state == JOB_RUNNING) {
		sch__exempt_out(st, j);
		sch__pair_key(key, sch__line_end_usec(j), j->id);
		mu_map_del(&st->running, key, sizeof(key));
	}
}

void sch__due_set(struct sch_state *st, struct sch_job *j)
{
	uint8_t key[12];
	int64_t moment = due_moment(st, j);
	if (moment > 0) {
		j->due_key = moment;
		sch__pair_key(key, moment, j->id);
		mu_map_put(&st->due, key, sizeof(key), j);
	}
	if (sch__lives(j))
		sch__count_running(st, j, 1);
	if (j->state == JOB_SUSPENDED)
		sch__count_pause(st, j, 1);
	if (j->state == JOB_SUSPENDED && j->run->preempted_by)
		mu_map_put_u64(&st->stopped, j->id, j);
	if (j->state == JOB_RUNNING) {
		exempt_in(st, j);
		sch__pair_key(key, sch__line_end_usec(j), j->id);
		mu_map_put(&st->running, key, sizeof(key), j);
	}
}

/* KillWait and OverTimeLimit are part of the moment: after a new configuration, or another partition's word.
 */
void sch__due_again(struct sch_state *st)
{
	uint64_t id = 0;
	uint8_t key[12];
	for (struct sch_job *j = mu_map_next_u64(&st->jobs, 0, &id); j;
	     j = mu_map_next_u64(&st->jobs, id + 1, &id)) {
		int64_t moment = due_moment(st, j);
		bool stands = j->due_key > 0;
		if (moment == j->due_key || (!stands && j->state != JOB_RUNNING))
			continue;
		sch__pair_key(key, j->due_key, j->id);
		if (stands)
			mu_map_del(&st->due, key, sizeof(key));
		j->due_key = moment > 0 ? moment : 0;
		sch__pair_key(key, moment, j->id);
		if (moment > 0)
			mu_map_put(&st->due, key, sizeof(key), j);
	}
}

static bool is_gone(const struct sch_job *j)
{
	if (!mu_job_state_ended(j->state))
		return false;
	for (uint32_t i = 0; j->run && i < j->run->alloc_count; i++)
		if (!j->run->alloc[i].released)
			return false;
	return !j->run || !j->run->left_count;
}

/* An ended job may be purged MinJobAge after its end, when no node holds anything of it, nor of its other
 * components: the job may yet wait again as a whole. */
void sch__tomb_in(struct sch_state *st, struct sch_job *j)
{
	uint8_t key[12];
	for (uint32_t k = 0; k < sch__het_size(j); k++) {
		const struct sch_job *m = sch__het_part(st, j, k);
		if (m && !is_gone(m))
			return;
	}
	for (uint32_t k = 0; k < sch__het_size(j); k++) {
		struct sch_job *m = sch__het_part(st, j, k);
		if (!m)
			continue;
		sch__pair_key(key, m->end_usec, m->id);
		if (!mu_map_get(&st->tombs, key, sizeof(key)))
			st->tomb_tasks += sch__job_size(m);
		mu_map_put(&st->tombs, key, sizeof(key), m);
	}
}

/* Out of the tombs, wherever it was. */
void sch__tomb_out(struct sch_state *st, struct sch_job *j)
{
	uint8_t key[12];
	sch__pair_key(key, j->end_usec, j->id);
	if (!mu_map_get(&st->tombs, key, sizeof(key)))
		return;
	mu_map_del(&st->tombs, key, sizeof(key));
	st->tomb_tasks -= sch__job_size(j);
}

bool sch__purge_oldest(struct sch_state *st, int64_t ended_until_usec)
{
	struct sch_job *j = mu_map_seek(&st->tombs, NULL, 0, 0, NULL, NULL);
	if (!j || j->end_usec > ended_until_usec)
		return false;
	sch__tomb_out(st, j);
	sch__steps_drop(st, j->id, UINT32_MAX);
	mu_map_del_u64(&st->jobs, j->id);
	st->job_tasks -= sch__job_size(j);
	sch__array_purge(st, j);
	sch__gone(st, &j->rec);
	return true;
}

bool sch__jobs_full(const struct sch_state *st, uint32_t tasks)
{
	uint32_t max = sch__conf(st)->max_job_count;
	return max && (uint64_t)st->job_tasks - st->tomb_tasks + tasks > max;
}

void sch__jobs_make_room(struct sch_ev *ev)
{
	uint32_t max = sch__conf(ev->st)->max_job_count;
	/* A bounded number, so that one submission does not pay for all that a smaller MaxJobCount asks for.
	 * What ended just now may still be in this event's hands. */
	for (int i = 0; i < PURGE_PER_SUBMISSION && max && ev->st->job_tasks > max; i++)
		if (!sch__purge_oldest(ev->st, ev->now - 1))
			return;
}

void sch__job_count(struct sch_state *st, const struct sch_job *j, int sign)
{
	sch__resv_count(st, j, sign);
	sch__lic_count(st, j, sign);
	uint32_t *counter = j->state == JOB_PENDING	 ? &st->pending
			    : j->state == JOB_RUNNING	 ? &st->live_running
			    : j->state == JOB_COMPLETING ? &st->completing
							 : NULL;
	sch__array_count(j, sign);
	if (!counter)
		return;
	uint32_t size = sch__job_size(j);
	assert(sign > 0 || *counter >= size);
	*counter = sign > 0 ? *counter + size : *counter - size;
}
