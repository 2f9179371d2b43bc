/* sched/whatif.c: what another configuration would do to the live queue, before anybody takes it into the
 * log: two copies of State are decided to the end, one as it is and one with the configuration folded in. */
#include "sched/state.h"

/* Priorities are computed anew over a few ticks. */
enum { TICKS_MAX = 64 };

static void tick(struct sch_state *st, struct sch_changes *changes)
{
	Mu__Event event = MU__EVENT__INIT;
	Mu__Tick t = MU__TICK__INIT;
	Mu__Author leader = MU__AUTHOR__INIT;
	leader.verifier = (char *)"controller";
	event.author = &leader;
	event.kind_case = MU__EVENT__KIND_TICK;
	event.tick = &t;
	(void)sch__copy_fold(st, &event, changes, NULL);
}

static int configure(struct sch_state *st, const Mu__Config *config, struct sch_changes *changes,
		     struct mu_err *err)
{
	Mu__Event event = MU__EVENT__INIT;
	Mu__ConfigSet set = MU__CONFIG_SET__INIT;
	Mu__Author root = MU__AUTHOR__INIT;
	SCH_SET(&root, operator_, 1);
	root.has_uid = 1;
	root.user = (char *)"root";
	root.verifier = (char *)"socket";
	set.config = (Mu__Config *)config;
	event.author = &root;
	event.kind_case = MU__EVENT__KIND_CONFIG_SET;
	event.config_set = &set;
	return sch__copy_fold(st, &event, changes, err);
}

static void decide_all(struct sch_state *st, struct sch_changes *changes)
{
	for (int i = 0; i < TICKS_MAX; i++) {
		int64_t due = sch__priorities_due(st);
		if (!due || due > st->cluster->now_usec)
			break;
		tick(st, changes);
	}
	sch__copy_settle(st, changes);
}

static int64_t start_of(const struct sch_job *j)
{
	return j->state == JOB_PENDING ? j->plan_start_usec : j->start_usec;
}

static bool differs(const struct sch_job *a, const struct sch_job *b)
{
	return a->state != b->state || (a->state == JOB_PENDING && a->reason != b->reason) ||
	       start_of(a) != start_of(b) || !sch__same(sch__text(a->partition), sch__text(b->partition));
}

static Mu__PlanRow *row_of(const struct sch_job *a, const struct sch_job *b, struct mu_arena *arena)
{
	Mu__PlanRow *row = mu_arena_alloc(arena, sizeof(*row));
	mu__plan_row__init(row);
	SCH_SET(row, job, a->id);
	row->user = mu_arena_strdup(arena, sch__text(a->who->user));
	row->has_state = row->has_new_state = row->has_reason = row->has_new_reason = 1;
	row->state = a->state;
	row->reason = a->reason;
	SCH_SET(row, start_usec, start_of(a));
	row->new_state = b ? b->state : JOB_CANCELLED;
	row->new_reason = b ? b->reason : REASON_None;
	SCH_SET(row, new_start_usec, b ? start_of(b) : 0);
	SCH_SET(row, priority, a->priority);
	SCH_SET(row, new_priority, b ? b->priority : 0);
	return row;
}

int sch_explain_config(const struct sch_state *st, const Mu__Config *config, struct mu_arena *arena,
		       Mu__PlanRow ***ret, size_t *ret_count, struct mu_err *err)
{
	uint64_t rows = 0, id = 0;
	size_t n = 0;
	struct sch_changes changes = {0};
	struct sch_state *a = sch__copy(st, &rows), *b = sch__copy(st, &rows);
	int rc = a && b ? configure(b, config, &changes, err)
			: mu_fail(err, MU_ECORRUPT, "The State cannot be copied");
	*ret_count = 0;
	if (!rc) {
		decide_all(a, &changes);
		decide_all(b, &changes);
		*ret = mu_arena_alloc(arena, (a->jobs.count + 1) * sizeof(**ret));
		for (const struct sch_job *j = mu_map_next_u64(&a->jobs, 0, &id); j;
		     j = mu_map_next_u64(&a->jobs, id + 1, &id)) {
			const struct sch_job *k = sch__job(b, j->id);
			if (!mu_job_state_ended(j->state) && (!k || differs(j, k)))
				(*ret)[n++] = row_of(j, k, arena);
		}
		*ret_count = n;
	}
	sch_changes_free(&changes);
	sch_state_free(a);
	sch_state_free(b);
	return rc;
}
