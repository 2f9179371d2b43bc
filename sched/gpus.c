/* sched/gpus.c: what counts of GPUs mean together: for the job, for each node, for each task; what they make
 * of counts of tasks and nodes that were not given; and which devices of a node go best together. Pure. */
#include "sched/state.h"

#include <assert.h>

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

/* ---- which devices ---- */

const char *sch__unit_cores(const Mu__GresHave *have, uint32_t unit)
{
	const char *own = unit < have->n_unit ? have->unit[unit]->cores : NULL;
	return own && *own ? own : have->cores;
}

void sch__near_cpus(const struct sch_node *n, const char *cores, struct mu_bits *ret)
{
	struct mu_bits core = {0};
	uint32_t tpc = sch__tpc(n);
	if (cores && *cores && mu_bits_parse(&core, cores, SCH_CPUS_PER_NODE - 1) == 0)
		for (uint32_t c = mu_bits_next(&core, 0); c != UINT32_MAX; c = mu_bits_next(&core, c + 1))
			for (uint32_t t = 0; t < tpc && c * tpc + t < n->row->cpus; t++)
				mu_bits_set(ret, c * tpc + t);
	mu_bits_free(&core);
}

/* The free units of one entry, as a choice is made among them. */
struct choice {
	const Mu__GresHave *have;
	uint32_t count;			       /* free ones */
	uint32_t unit[SCH_UNITS_CHOICE];       /* ascending */
	struct mu_bits near[SCH_UNITS_CHOICE]; /* free CPUs near each */
};

struct merit {
	uint64_t links, near, places, broken;
};

static uint64_t link_from(const Mu__GresHave *have, uint32_t a, uint32_t b)
{
	const Mu__GresUnit *u = have->unit[a];
	uint64_t at = (uint64_t)have->first_index + b;
	return at < u->n_link && u->link[at] > 0 ? (uint64_t)u->link[at] : 0;
}

static uint64_t links(const struct choice *c, uint32_t a, uint32_t b)
{
	uint64_t x = link_from(c->have, c->unit[a], c->unit[b]),
		 y = link_from(c->have, c->unit[b], c->unit[a]);
	return x > y ? x : y;
}

static bool same_place(const struct choice *c, uint32_t a, uint32_t b)
{
	return sch__same(sch__unit_cores(c->have, c->unit[a]), sch__unit_cores(c->have, c->unit[b]));
}

/* Of those not in SET the one with most links to it, then near the seed, then the lowest. */
static uint32_t best_next(const struct choice *c, const struct mu_bits *set, uint32_t seed)
{
	uint32_t best = UINT32_MAX;
	uint64_t best_links = 0;
	bool best_place = false;
	for (uint32_t v = 0; v < c->count; v++) {
		uint64_t sum = 0;
		bool place = same_place(c, seed, v);
		if (mu_bits_test(set, v))
			continue;
		for (uint32_t u = mu_bits_next(set, 0); u != UINT32_MAX; u = mu_bits_next(set, u + 1))
			sum += links(c, u, v);
		if (best != UINT32_MAX && (sum < best_links || (sum == best_links && (best_place || !place))))
			continue;
		best = v;
		best_links = sum;
		best_place = place;
	}
	return best;
}

static struct merit merit_of(const struct choice *c, const struct mu_bits *set, uint64_t cpus)
{
	struct merit m = {0};
	struct mu_bits near = {0};
	for (uint32_t u = mu_bits_next(set, 0); u != UINT32_MAX; u = mu_bits_next(set, u + 1)) {
		bool known = false;
		mu_bits_or(&near, &c->near[u]);
		for (uint32_t v = 0; v < c->count; v++) {
			bool in = mu_bits_test(set, v);
			m.links += in && v < u ? links(c, u, v) : 0;
			m.broken += in || v == u ? 0 : links(c, u, v);
			known = known || (in && v < u && same_place(c, u, v));
		}
		m.places += !known;
	}
	m.near = mu_bits_count(&near);
	m.near = m.near < cpus ? m.near : cpus;
	mu_bits_free(&near);
	return m;
}

static bool is_better(const struct merit *a, const struct merit *b)
{
	if (a->links != b->links)
		return a->links > b->links;
	if (a->near != b->near)
		return a->near > b->near;
	if (a->places != b->places)
		return a->places < b->places;
	return a->broken < b->broken;
}

/* From each free unit a set is grown; of these the best stays, of equals the one from the lowest unit. */
static void choose(const struct choice *c, uint64_t count, uint64_t cpus, struct mu_bits *ret)
{
	struct merit best = {0};
	for (uint32_t seed = 0; seed < c->count; seed++) {
		struct mu_bits set = {0};
		mu_bits_set(&set, seed);
		for (uint64_t k = 1; k < count; k++)
			mu_bits_set(&set, best_next(c, &set, seed));
		struct merit m = merit_of(c, &set, cpus);
		if (seed == 0 || is_better(&m, &best)) {
			best = m;
			mu_bits_free(ret);
			*ret = set;
		} else {
			mu_bits_free(&set);
		}
	}
}

bool sch__units_choose(const struct sch_node *n, const struct sch_room *r, uint32_t entry, uint64_t count,
		       uint64_t cpus, uint32_t *ret)
{
	struct choice c = {.have = n->row->gres[entry]};
	struct mu_bits set = {0};
	if (!count || !c.have->n_unit || c.have->n_unit != c.have->count || c.have->count > SCH_UNITS_CHOICE)
		return false;
	for (uint32_t u = 0; u < c.have->count; u++)
		if (!mu_bits_test(&r->gres[entry].used, u)) {
			sch__near_cpus(n, sch__unit_cores(c.have, u), &c.near[c.count]);
			mu_bits_andnot(&c.near[c.count], &r->cpu);
			c.unit[c.count++] = u;
		}
	assert(count <= c.count);
	choose(&c, count, cpus, &set);
	for (uint32_t i = mu_bits_next(&set, 0); i != UINT32_MAX; i = mu_bits_next(&set, i + 1))
		*ret++ = c.have->first_index + c.unit[i];
	mu_bits_free(&set);
	for (uint32_t i = 0; i < c.count; i++)
		mu_bits_free(&c.near[i]);
	return true;
}
