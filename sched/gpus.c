/* sched/gpus.c: what counts of GPUs mean together: for the job, for each node, for each task; and what they
 * make of counts of tasks and nodes that were not given. Pure. */
#include "sched/state.h"

static uint64_t count_of(Mu__GresAsk *const *ask, size_t n)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += ask[i]->name && strcmp(ask[i]->name, "gpu") == 0 ? ask[i]->count : 0;
	return sum;
}

static int disagree(struct mu_err *err, const char *what)
{
	return mu_fail(err, MU_ENODECONFIG, "%s: %s", mu_strerror(MU_ENODECONFIG), what);
}

static int by_ntasks_per_gpu(const Mu__JobSpec *s, struct sch_want *w, uint64_t node, uint64_t task,
			     uint64_t *job, struct mu_err *err)
{
	uint64_t per = s->ntasks_per_gpu, tasks = 0;
	if (!per)
		return 0;
	if (task)
		return disagree(err, "--ntasks-per-gpu and --gpus-per-task exclude each other");
	if (s->has_ntasks && !*job && !node) {
		if (s->ntasks % per)
			return disagree(err, "--ntasks is no multiple of --ntasks-per-gpu");
		*job = s->ntasks / per;
		return 0;
	}
	if (*job)
		tasks = *job * per;
	else
		tasks = node * per * w->nodes_min;
	if (s->has_ntasks ? s->ntasks > tasks : tasks > UINT32_MAX || !tasks)
		return disagree(err, "--ntasks-per-gpu does not go with the number of GPUs");
	if (!s->has_ntasks) {
		w->ntasks = (uint32_t)tasks;
		w->tasks_by_gpus = true;
	}
	return 0;
}

static int job_and_task(const Mu__JobSpec *s, struct sch_want *w, uint64_t job, uint64_t task,
			struct mu_err *err)
{
	if (job % task || (s->has_ntasks && job / task != s->ntasks))
		return disagree(err, "--gpus is not the number of tasks times --gpus-per-task");
	w->ntasks = (uint32_t)(job / task);
	w->tasks_by_gpus = !s->has_ntasks;
	return 0;
}

static int job_and_node(const Mu__JobSpec *s, struct sch_want *w, uint64_t job, uint64_t node,
			struct mu_err *err)
{
	uint64_t nodes = job / node;
	if (job % node ||
	    (s->has_nodes_min && (nodes < s->nodes_min || (s->nodes_max && nodes > s->nodes_max))))
		return disagree(err, "--gpus is not the number of nodes times --gpus-per-node");
	w->nodes_min = w->nodes_max = (uint32_t)nodes;
	if (!s->has_ntasks && !w->tasks_by_gpus)
		w->ntasks = (uint32_t)nodes * (s->ntasks_per_node ? s->ntasks_per_node : 1);
	return 0;
}

int sch__want_gpus(const Mu__JobSpec *s, struct sch_want *w, struct mu_err *err)
{
	uint64_t job = count_of(s->gres_job, s->n_gres_job), node = count_of(s->gres, s->n_gres);
	uint64_t task = count_of(s->gres_task, s->n_gres_task);
	w->job_gpus = 0;
	w->tasks_by_gpus = false;
	if (s->n_gres_job > 1 || (s->n_gres_job && (!job || job > UINT32_MAX)) || node > UINT32_MAX ||
	    task > UINT32_MAX)
		return mu_fail(err, MU_EGRES, "%s: --gpus takes one type and a count", mu_strerror(MU_EGRES));
	int rc = by_ntasks_per_gpu(s, w, node, task, &job, err);
	if (!rc && job && task) {
		rc = job_and_task(s, w, job, task, err);
		job = 0;
	} else if (!rc && job && node) {
		rc = job_and_node(s, w, job, node, err);
		job = 0;
	} else if (!rc && node && task && !s->has_ntasks && !s->ntasks_per_node) {
		if (node % task)
			return disagree(err, "--gpus-per-node is no multiple of --gpus-per-task");
		w->ntasks = (uint32_t)(node / task) * w->nodes_min;
		w->tasks_by_gpus = true;
	}
	if (!rc && job && job < w->nodes_min)
		return disagree(err, "each node of a job with --gpus has at least one");
	if ((s->cpus_per_gpu || s->mem_gpu_mib) && !job && !node && !task)
		return disagree(err, "--cpus-per-gpu and --mem-per-gpu need a number of GPUs");
	w->job_gpus = (uint32_t)job;
	return rc;
}

/* A range of nodes without a number of tasks: each node that comes brings its own. */
bool sch__grows(const Mu__JobSpec *spec, const struct sch_want *w)
{
	return !spec->has_ntasks && !w->tasks_by_gpus && spec->nodes_max > spec->nodes_min;
}

uint64_t sch__gpus_total(const Mu__JobSpec *s, const struct sch_want *w)
{
	uint64_t node = count_of(s->gres, s->n_gres), task = count_of(s->gres_task, s->n_gres_task);
	return node ? node * w->nodes_min : task ? task * w->ntasks : w->job_gpus;
}

/* ---- defaults ---- */

static const char *value_of(Mu__KeyValue *const *list, size_t count, const char *key)
{
	for (size_t i = 0; i < count; i++)
		if (list[i]->key && strcasecmp(list[i]->key, key) == 0)
			return list[i]->value;
	return NULL;
}

static uint64_t digits(const char *p)
{
	uint64_t n = 0;
	for (; *p >= '0' && *p <= '9' && n < UINT32_MAX; p++)
		n = n * 10 + (uint64_t)(*p - '0');
	return n < UINT32_MAX ? n : UINT32_MAX;
}

/* NAME=N of a list such as DefCpuPerGPU=4,DefMemPerGPU=1024. */
static uint64_t in_list(const char *list, const char *name)
{
	size_t len = strlen(name);
	for (const char *p = list; p && *p; p += strcspn(p, ","), p += *p == ',')
		if (strncasecmp(p, name, len) == 0 && p[len] == '=')
			return digits(p + len + 1);
	return 0;
}

uint64_t sch__job_default(const struct sch_state *st, const struct sch_part *p, const char *name)
{
	const Mu__PartitionConf *c = p->row->conf;
	const Mu__Config *g = sch__conf(st);
	const char *own = value_of(c->extra, c->n_extra, name);
	uint64_t n = own ? digits(own) : in_list(value_of(c->extra, c->n_extra, "JobDefaults"), name);
	if (n)
		return n;
	own = value_of(g->key, g->n_key, name);
	return own && digits(own) ? digits(own) : in_list(value_of(g->key, g->n_key, "JobDefaults"), name);
}
