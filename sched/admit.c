/* sched/admit.c: refusing early, over the present State, what evolve would void anyway: the client gets its
 * sentence before anything is written anywhere. Who may ask for which event is a column of events.def; the
 * rest are the rules of resolve.c. */
#include "sched/state.h"

enum { REASON_BYTES_MAX = 1024 };
enum who { CONTROLLER, USER, OPERATOR, NODE };

static int who_may(const Mu__Event *e, enum who *ret)
{
	static const struct {
		uint32_t tag;
		enum who who;
	} rows[] = {
#define MU_EVENT(NAME, field, tag, level, function, who) {tag, who},
#include "proto/events.def"
#undef MU_EVENT
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].tag == e->kind_case) {
			*ret = rows[i].who;
			return 0;
		}
	return MU_EVERSION;
}

static int check_author(const Mu__Event *e, struct mu_err *err)
{
	const Mu__Author *a = e->author;
	enum who who;
	if (!a)
		return mu_fail(err, MU_EAUTH, "%s", mu_strerror(MU_EAUTH));
	if (who_may(e, &who))
		return mu_fail(err, MU_EVERSION, "This controller knows no event of type %u", e->kind_case);
	bool controller = a->verifier && strcmp(a->verifier, "controller") == 0;
	if (who == CONTROLLER && !controller)
		return sch__refuse(err, MU_EPERM);
	if (who == OPERATOR && !a->operator_)
		return sch__refuse(err, e->kind_case == MU__EVENT__KIND_NODE_UPDATE ? MU_EUSER : MU_EPERM);
	if (who == NODE && (!a->node || !*a->node))
		return sch__refuse(err, MU_EPERM);
	return 0;
}

static int admit_submitted(const struct sch_state *st, Mu__Event *e, struct mu_err *err)
{
	struct sch_want *want;
	struct mu_arena arena = {0};
	if (!e->submitted->spec)
		return mu_fail(err, MU_EINVAL, "A submission without a job");
	const char *qos = e->submitted->spec->qos;
	if (qos && *qos && !sch__qos(st, qos))
		return sch__refuse(err, MU_EQOS);
	int rc = sch__submission_check(st, e->submitted, e->author, &arena, &want, err);
	mu_arena_free(&arena);
	return rc;
}

/* Lists of partitions are written with commas, lines with blanks. */
static int admit_partition(const Mu__PartitionUpdate *u, struct mu_err *err)
{
	const char *name = u->conf ? u->conf->name : NULL;
	for (const unsigned char *p = (const unsigned char *)name; u->create && p && *p; p++)
		if (*p <= ' ' || *p == 0x7f || strchr(",=|:;[]\"'`\\", *p))
			return mu_fail(err, MU_EPARTITION,
				       "%s: a name has no blank and none of , = | : ; [ ] \\ and quotes",
				       mu_strerror(MU_EPARTITION));
	return 0;
}

static int admit_node(const Mu__NodeUpdate *u, struct mu_err *err)
{
	if (u->reason && strlen(u->reason) > REASON_BYTES_MAX)
		return mu_fail(err, MU_EPATH, "A reason takes at most %d bytes", REASON_BYTES_MAX);
	return 0;
}

/* A request about jobs is refused when it fits none of them. */
static int admit_jobs(const struct sch_state *st, const Mu__Event *e, const uint32_t *id, size_t count,
		      Mu__ArrayTasks *const *some, size_t some_count, struct mu_err *err)
{
	int first = count || some_count ? 0 : MU_EJOBID;
	if (count + some_count > SCH_JOBS_PER_EVENT)
		return mu_fail(err, MU_ELIMIT, "One request may name at most %u jobs", SCH_JOBS_PER_EVENT);
	for (size_t i = 0; i < count + some_count; i++) {
		uint32_t named = i < count ? id[i] : some[i - count]->job;
		const struct sch_array *a = sch__array(st, named);
		struct sch_array_at at = {0};
		const struct sch_job *j = a	      ? sch__array_each(st, a, &at)
					  : i < count ? sch__job(st, named)
						      : NULL;
		int rc = !j							 ? MU_EJOBID
			 : e->author->operator_ || e->author->uid == j->who->uid ? 0
										 : MU_EPERM;
		if (!rc)
			return 0;
		first = first ? first : rc;
	}
	return sch__refuse(err, first);
}

static int admit(const struct sch_state *st, Mu__Event *event, struct mu_err *err)
{
	int rc = check_author(event, err);
	if (rc)
		return rc;
	if (event->request && sch__answer_find(st, event->request))
		return 0; /* Evolve gives the first answer again. */
	if (sch__answer_stale(st, event->request))
		return sch__refuse(err, MU_ESTALE);
	switch (event->kind_case) {
	case MU__EVENT__KIND_SUBMITTED:
		return admit_submitted(st, event, err);
	case MU__EVENT__KIND_PARTITION_UPDATE:
		return admit_partition(event->partition_update, err);
	case MU__EVENT__KIND_NODE_UPDATE:
		return admit_node(event->node_update, err);
	case MU__EVENT__KIND_ACCOUNTS_CHANGED:
		return sch__accounts_check(st, event->author, event->accounts_changed, err);
	case MU__EVENT__KIND_JOB_SIGNAL:
		return admit_jobs(st, event, event->job_signal->job, event->job_signal->n_job,
				  event->job_signal->some, event->job_signal->n_some, err);
	case MU__EVENT__KIND_JOB_HOLD:
		return admit_jobs(st, event, event->job_hold->job, event->job_hold->n_job,
				  event->job_hold->some, event->job_hold->n_some, err);
	case MU__EVENT__KIND_JOB_REQUEUE:
		return admit_jobs(st, event, event->job_requeue->job, event->job_requeue->n_job,
				  event->job_requeue->some, event->job_requeue->n_some, err);
	case MU__EVENT__KIND_JOB_SUSPEND:
		return admit_jobs(st, event, event->job_suspend->job, event->job_suspend->n_job,
				  event->job_suspend->some, event->job_suspend->n_some, err);
	case MU__EVENT__KIND_JOB_TOP:
		return admit_jobs(st, event, event->job_top->job, event->job_top->n_job, NULL, 0, err);
	case MU__EVENT__KIND_JOB_UPDATE:
		return admit_jobs(st, event, &event->job_update->job, 1, NULL, 0, err);
	default:
		return 0;
	}
}

/* Who is an operator by his row is so for the length of the question: evolve looks again. */
int sch_admit(const struct sch_state *st, Mu__Event *event, struct mu_err *err)
{
	bool vouched = event->author && event->author->operator_;
	if (event->author && event->kind_case != MU__EVENT__KIND_ACCOUNTS_CHANGED)
		event->author->operator_ = sch_is_operator(st, event->author);
	int rc = admit(st, event, err);
	if (event->author)
		event->author->operator_ = vouched;
	return rc;
}
