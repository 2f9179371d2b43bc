/* sched/resolve.c: from what a user wrote to what the job needs, with every reason to refuse it. Used by
 * admit, by evolve (the configuration may have changed in between) and by updates: one set of rules. Pure;
 * the cost does not depend on the queue. */
#include "sched/state.h"

#include <assert.h>

#include "proto/hostlist.h"

#define LIMIT_SEC_MAX (INT64_C(60) * UINT32_MAX)

/* ---- partitions ---- */

static bool listed(char *const *list, size_t count, const char *word)
{
	for (size_t i = 0; word && i < count; i++)
		if (strcasecmp(list[i], word) == 0 || strcasecmp(list[i], "ALL") == 0)
			return true;
	return false;
}

static bool group_allowed(const Mu__PartitionConf *c, const Mu__Author *a)
{
	if (!c->n_allow_groups || a->operator_ || a->uid == 0 ||
	    listed(c->allow_groups, c->n_allow_groups, a->group))
		return true;
	for (size_t i = 0; i < a->n_group_name; i++)
		if (listed(c->allow_groups, c->n_allow_groups, a->group_name[i]))
			return true;
	return false;
}

/* AllocNodes: hosts from which the partition takes jobs. Who does not say where he is comes from anywhere. */
static bool host_allowed(const Mu__PartitionConf *c, const char *host, struct mu_arena *arena)
{
	char **names;
	size_t count;
	if (!host || !*host || !c->alloc_nodes || !*c->alloc_nodes || strcasecmp(c->alloc_nodes, "ALL") == 0)
		return true;
	if (mu_hostlist_expand(c->alloc_nodes, SCH_NODES_MAX, arena, &names, &count, NULL))
		return false;
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], host) == 0)
			return true;
	return false;
}

static int part_open(const struct sch_part *p, const Mu__JobSpec *spec, const Mu__Author *author,
		     const char *account, const char *qos, struct mu_arena *arena)
{
	const Mu__PartitionConf *c = p->row->conf;
	if (c->req_resv && !(spec->reservation && *spec->reservation))
		return MU_EPERM;
	if (!host_allowed(c, spec->submit_host, arena))
		return MU_EPERM;
	if (p->state == SCH_PART_DRAIN || p->state == SCH_PART_INACTIVE)
		return MU_EPARTDOWN;
	if (c->root_only && author->uid != 0)
		return MU_EPERM;
	if (c->disable_root_jobs && author->uid == 0)
		return MU_EPERM;
	if (!group_allowed(c, author))
		return MU_EGROUPPART;
	if (c->n_allow_accounts ? !listed(c->allow_accounts, c->n_allow_accounts, account)
				: c->n_deny_accounts && listed(c->deny_accounts, c->n_deny_accounts, account))
		return MU_EACCOUNT;
	if (c->n_allow_qos ? !listed(c->allow_qos, c->n_allow_qos, qos)
			   : c->n_deny_qos && listed(c->deny_qos, c->n_deny_qos, qos))
		return MU_EQOS;
	return 0;
}

/* Alternate= stands in for a partition that takes no jobs. */
static struct sch_part *stand_in(const struct sch_state *st, struct sch_part *p)
{
	for (uint32_t i = 0;
	     i < st->part_count && (p->state == SCH_PART_DRAIN || p->state == SCH_PART_INACTIVE); i++) {
		struct sch_part *other =
		    p->row->conf->alternate ? sch__part(st, p->row->conf->alternate) : NULL;
		if (!other)
			break;
		p = other;
	}
	return p;
}

static int find_parts(const struct sch_state *st, const Mu__JobSpec *spec, struct sch_want *ret,
		      struct mu_err *err)
{
	if (spec->n_partition > SCH_PARTS_PER_JOB)
		return mu_fail(err, MU_EPARTITION, "A job may name at most %u partitions", SCH_PARTS_PER_JOB);
	for (size_t i = 0; i < spec->n_partition; i++) {
		struct sch_part *p = sch__part(st, spec->partition[i]);
		if (!p)
			return sch__refuse(err, MU_EPARTITION);
		bool twice = false;
		p = stand_in(st, p);
		for (uint32_t k = 0; k < ret->part_count; k++)
			twice = twice || ret->part[k] == p;
		if (!twice)
			ret->part[ret->part_count++] = p;
	}
	for (uint32_t i = 0; i < st->part_count && !spec->n_partition; i++)
		if (st->part[i]->row->conf->is_default && !ret->part_count)
			ret->part[ret->part_count++] = stand_in(st, st->part[i]);
	return ret->part_count ? 0 : sch__refuse(err, MU_EPARTITION);
}

int64_t sch__part_limit(const struct sch_part *p, const Mu__JobSpec *spec)
{
	const Mu__PartitionConf *c = p->row->conf;
	if (spec->has_time_limit_sec)
		return spec->time_limit_sec;
	if (c->has_default_time_sec)
		return c->default_time_sec;
	return c->has_max_time_sec ? c->max_time_sec : -1;
}

/* ---- memory ---- */

void sch__part_mem(const struct sch_state *st, const struct sch_part *p, enum sch_mem_kind kind, uint64_t mib,
		   enum sch_mem_kind *ret_kind, uint64_t *ret_mib)
{
	const Mu__PartitionConf *c = p->row->conf;
	const Mu__Config *g = sch__conf(st);
	*ret_kind = kind;
	*ret_mib = mib;
	uint64_t max = c->max_mem_node_mib ? c->max_mem_node_mib : g->max_mem_node_mib;
	if (kind == SCH_MEM_NODE && mib == 0 && max)
		*ret_mib = max;
	if (kind != SCH_MEM_NONE)
		return;
	bool own = c->def_mem_cpu_mib || c->def_mem_node_mib;
	uint64_t cpu = own ? c->def_mem_cpu_mib : g->def_mem_cpu_mib;
	uint64_t node = own ? c->def_mem_node_mib : g->def_mem_node_mib;
	if (cpu) {
		*ret_kind = SCH_MEM_CPU;
		*ret_mib = cpu;
	} else if (node || st->config.memory) {
		*ret_kind = SCH_MEM_NODE;
		*ret_mib = node ? node : max;
	}
}

void sch__mem_asked(const Mu__JobSpec *spec, enum sch_mem_kind *ret_kind, uint64_t *ret_mib)
{
	*ret_kind = spec->has_mem_cpu_mib    ? SCH_MEM_CPU
		    : spec->has_mem_node_mib ? SCH_MEM_NODE
		    : spec->has_mem_gpu_mib  ? SCH_MEM_GPU
					     : SCH_MEM_NONE;
	*ret_mib = spec->has_mem_cpu_mib    ? spec->mem_cpu_mib
		   : spec->has_mem_node_mib ? spec->mem_node_mib
					    : spec->mem_gpu_mib;
}

/* More memory per CPU than MaxMemPerCPU becomes more CPUs per task, as people know it. */
static int want_mem(const struct sch_state *st, const Mu__JobSpec *spec, struct sch_want *ret,
		    struct mu_err *err)
{
	const Mu__PartitionConf *c = ret->part[0]->row->conf;
	uint64_t max_cpu = c->max_mem_cpu_mib ? c->max_mem_cpu_mib : sch__conf(st)->max_mem_cpu_mib;
	uint64_t max_node = c->max_mem_node_mib ? c->max_mem_node_mib : sch__conf(st)->max_mem_node_mib;
	sch__mem_asked(spec, &ret->mem_kind, &ret->mem_mib);
	if (ret->mem_mib > UINT64_C(1) << 40)
		return sch__refuse(err, MU_EMEMORY);
	if (ret->mem_kind == SCH_MEM_NODE && max_node && ret->mem_mib > max_node)
		return sch__refuse(err, MU_EMEMORY);
	if (ret->mem_kind == SCH_MEM_CPU && max_cpu && ret->mem_mib > max_cpu) {
		uint64_t factor = (ret->mem_mib + max_cpu - 1) / max_cpu;
		if (factor * ret->cpus_per_task > SCH_CPUS_PER_NODE)
			return sch__refuse(err, MU_EMEMORY);
		ret->cpus_per_task *= (uint32_t)factor;
		ret->mem_mib = (ret->mem_mib + factor - 1) / factor;
	}
	enum sch_mem_kind kind;
	uint64_t mib;
	sch__part_mem(st, ret->part[0], ret->mem_kind, ret->mem_mib, &kind, &mib);
	ret->mem_node_mib = kind == SCH_MEM_NODE ? mib : 0;
	ret->mem_cpu_mib = kind == SCH_MEM_CPU ? mib : 0;
	return 0;
}

/* ---- counts ---- */

static int want_counts(const Mu__JobSpec *s, struct sch_want *ret, struct mu_err *err)
{
	uint32_t per_node = s->ntasks_per_node;
	if ((s->has_nodes_min && !s->nodes_min) ||
	    (s->has_nodes_max && s->nodes_max && s->nodes_max < s->nodes_min))
		return sch__refuse(err, MU_ENODECOUNT);
	if ((s->has_ntasks && !s->ntasks) || (s->has_cpus_per_task && !s->cpus_per_task))
		return mu_fail(err, MU_EINVAL, "A job needs at least one task of at least one CPU");
	ret->cpus_per_task = s->has_cpus_per_task ? s->cpus_per_task : 1;
	ret->nodes_min = s->has_nodes_min ? s->nodes_min : 1;
	ret->nodes_max = s->nodes_max;
	if (per_node && !s->has_ntasks && !s->has_nodes_min && !s->n_gres_job &&
	    !s->nodes_required) /* That many on one node, not over several. */
		ret->nodes_max = ret->nodes_max ? ret->nodes_max : 1;
	uint64_t ntasks = s->has_ntasks ? s->ntasks : (uint64_t)ret->nodes_min * (per_node ? per_node : 1);
	if (ntasks > UINT32_MAX || ret->cpus_per_task > SCH_CPUS_PER_NODE)
		return sch__refuse(err, MU_ENODECONFIG);
	ret->ntasks = (uint32_t)ntasks;
	int rc = sch__want_gpus(s, ret, err);
	if (rc)
		return rc;
	if (per_node && (ret->ntasks + (uint64_t)per_node - 1) / per_node > ret->nodes_min)
		ret->nodes_min = (uint32_t)((ret->ntasks + (uint64_t)per_node - 1) / per_node);
	if (ret->nodes_max && ret->nodes_max < ret->nodes_min)
		return sch__refuse(err, MU_ENODECOUNT);
	return 0;
}

static int want_times(const struct sch_state *st, const Mu__JobSpec *s, struct mu_err *err)
{
	int64_t now = st->cluster->now_usec;
	if (s->has_time_limit_sec &&
	    (s->time_limit_sec < -1 || s->time_limit_sec == 0 || s->time_limit_sec > LIMIT_SEC_MAX))
		return sch__refuse(err, MU_ETIMELIMIT);
	if (s->begin_usec < 0 || s->deadline_usec < 0 || s->begin_usec > INT64_MAX / 2 ||
	    s->deadline_usec > INT64_MAX / 2)
		return mu_fail(err, MU_EINVAL, "Begin time or deadline lies outside the calendar");
	if (!s->deadline_usec)
		return 0;
	int64_t from = s->begin_usec > now ? s->begin_usec : now;
	int64_t least = s->time_min_sec > 0 ? s->time_min_sec : s->time_limit_sec > 0 ? s->time_limit_sec : 1;
	return s->deadline_usec < from + least * SCH_USEC ? sch__refuse(err, MU_ETIMELIMIT) : 0;
}

static int want_gres(Mu__GresAsk *const *list, size_t count, struct mu_err *err)
{
	if (count > SCH_GRES_PER_NODE)
		return sch__refuse(err, MU_EGRES);
	for (size_t i = 0; i < count; i++)
		if (!list[i]->name || !*list[i]->name || list[i]->count > UINT32_MAX)
			return sch__refuse(err, MU_EGRES);
	return 0;
}

/* Some node must have each gres asked for, by name and type. */
static int gres_known(const struct sch_state *st, Mu__GresAsk *const *list, size_t count, struct mu_err *err)
{
	for (size_t i = 0; i < count; i++) {
		bool found = false;
		const uint8_t *key = NULL;
		size_t len = 0;
		for (const struct sch_class *c = mu_map_seek(&st->classes, NULL, 0, 0, &key, &len);
		     c && !found; c = mu_map_seek(&st->classes, key, len, 1, &key, &len))
			for (size_t g = 0; g < c->sample->row->n_gres; g++)
				found = found || (sch__same(c->sample->row->gres[g]->name, list[i]->name) &&
						  (!list[i]->type || !*list[i]->type ||
						   sch__same(c->sample->row->gres[g]->type, list[i]->type)));
		if (!found)
			return sch__refuse(err, MU_EGRES);
	}
	return 0;
}

static int all_gres(const struct sch_state *st, const Mu__JobSpec *s, struct mu_err *err)
{
	const struct {
		Mu__GresAsk *const *list;
		size_t count;
	} v[] = {{s->gres, s->n_gres}, {s->gres_task, s->n_gres_task}, {s->gres_job, s->n_gres_job}};
	int rc = 0;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]) && !rc; i++) {
		rc = want_gres(v[i].list, v[i].count, err);
		rc = rc ? rc : gres_known(st, v[i].list, v[i].count, err);
	}
	return rc;
}

/* Features that are asked of single nodes. */
static int plain_features(const struct sch_state *st, const char *option, const char *expr,
			  struct mu_err *err)
{
	struct sch_features kind;
	if (!expr || !*expr)
		return 0;
	int rc = sch__features_check(st, expr, err);
	if (rc)
		return rc;
	sch__features_kind(expr, &kind);
	return kind.groups || kind.choices
		   ? mu_fail(err, MU_EFEATURE, "%s: --%s takes neither counts nor brackets",
			     mu_strerror(MU_EFEATURE), option)
		   : 0;
}

/* Nodes that --constraint counts are nodes of the job. */
static int want_features(const struct sch_state *st, const Mu__JobSpec *spec, struct sch_want *ret,
			 struct mu_err *err)
{
	struct sch_features kind;
	int rc = plain_features(st, "prefer", spec->prefer, err);
	if (!rc)
		rc = plain_features(st, "batch", spec->batch_features, err);
	if (!rc && spec->features && *spec->features)
		rc = sch__features_check(st, spec->features, err);
	if (rc || !spec->features || !*spec->features)
		return rc;
	sch__features_kind(spec->features, &kind);
	if (kind.groups && spec->contiguous)
		return mu_fail(err, MU_EFEATURE, "%s: --contiguous does not go with counts of features",
			       mu_strerror(MU_EFEATURE));
	if (kind.nodes <= ret->nodes_min)
		return 0;
	if (ret->nodes_max && ret->nodes_max < kind.nodes)
		return sch__refuse(err, MU_ENODECOUNT);
	ret->nodes_min = kind.nodes;
	if (!spec->has_ntasks)
		ret->ntasks = kind.nodes * (spec->ntasks_per_node ? spec->ntasks_per_node : 1);
	return 0;
}

/* How many jobs it will be. */
static int want_tasks(const struct sch_state *st, const Mu__JobSpec *s, struct sch_want *ret,
		      struct mu_err *err)
{
	struct mu_tasks tasks;
	ret->tasks = 1;
	if (!s->array || !*s->array)
		return 0;
	if (!s->batch)
		return mu_fail(err, MU_EARRAY, "%s: only a batch job can be an array",
			       mu_strerror(MU_EARRAY));
	if (mu_tasks_parse(s->array, sch__max_array_size(st), &tasks, err))
		return sch__refuse(err, MU_EARRAY);
	ret->tasks = tasks.total;
	mu_tasks_free(&tasks);
	return 0;
}

int sch__rights(const Mu__JobSpec *spec, const Mu__Author *author, struct mu_err *err)
{
	return spec->nice < 0 && !author->operator_ ? sch__refuse(err, MU_EPERM) : 0;
}

/* ---- size against limits and nodes ---- */

int sch__part_limits(const struct sch_part *p, const Mu__JobSpec *spec, const struct sch_want *w,
		     const Mu__Author *author)
{
	const Mu__PartitionConf *c = p->row->conf;
	int64_t max = c->has_max_time_sec ? c->max_time_sec : -1, limit = sch__part_limit(p, spec);
	if (author->operator_ && author->uid == 0)
		return 0;
	if (max >= 0 && (limit < 0 || limit > max))
		return MU_ETIMELIMIT;
	if ((c->has_max_nodes && w->nodes_min > c->max_nodes) ||
	    (w->nodes_max && w->nodes_max < c->min_nodes))
		return MU_ENODECOUNT;
	return 0;
}

int sch__part_size(const struct sch_state *st, const struct sch_part *p, const struct sch_shape *shape,
		   struct mu_arena *arena, struct mu_err *err)
{
	struct sch_need need;
	struct mu_bits nodes = {0}, required = {0};
	sch__need(st, shape, p, 0, &need);
	int rc = sch__filter(st, &need, p, arena, &nodes, &required, err);
	if (!rc)
		rc = sch__feasible(st, &need, p, &nodes, &required);
	mu_bits_free(&nodes);
	mu_bits_free(&required);
	return rc;
}

static struct sch_str *text_in(struct mu_arena *arena, const char *text)
{
	if (!text || !*text)
		return NULL;
	size_t len = strlen(text);
	struct sch_str *s = mu_arena_alloc(arena, sizeof(*s) + len + 1);
	s->len = (uint32_t)len;
	memcpy(s->text, text, len + 1);
	return s;
}

static struct sch_ask *asks_in(struct mu_arena *arena, Mu__GresAsk *const *list, size_t count)
{
	struct sch_ask *v = mu_arena_alloc(arena, (count + 1) * sizeof(v[0]));
	for (size_t i = 0; i < count; i++)
		v[i] = (struct sch_ask){.name = text_in(arena, list[i]->name),
					.type = text_in(arena, list[i]->type),
					.count = list[i]->count};
	return v;
}

void sch__shape_in(struct mu_arena *arena, const Mu__JobSpec *spec, const struct sch_want *w,
		   struct sch_shape *ret)
{
	*ret = (struct sch_shape){.ask_count = (uint32_t)spec->n_gres,
				  .task_ask_count = (uint32_t)spec->n_gres_task};
	sch__shape_plain(spec, w, ret);
	ret->ask = asks_in(arena, spec->gres, spec->n_gres);
	ret->task_ask = asks_in(arena, spec->gres_task, spec->n_gres_task);
	ret->gpu_name = w->job_gpus ? text_in(arena, "gpu") : NULL;
	ret->job_gpu_type = w->job_gpus && spec->n_gres_job ? text_in(arena, spec->gres_job[0]->type) : NULL;
	ret->features = text_in(arena, spec->features);
	ret->prefer = text_in(arena, spec->prefer);
	ret->batch = text_in(arena, spec->batch_features);
	ret->required = text_in(arena, spec->nodes_required);
	ret->excluded = text_in(arena, spec->nodes_excluded);
}

/* EnforcePartLimits: NO takes a job beyond a partition's limits and lets it wait with the reason; ANY needs
 * one partition that takes it; ALL needs every one. What no node could ever give is refused in any case. */
static int judge(const struct sch_state *st, const Mu__JobSpec *spec, const Mu__Author *author,
		 struct mu_arena *arena, const struct sch_want *w, struct mu_err *err)
{
	int first = 0;
	uint32_t bad = 0;
	struct sch_shape shape;
	sch__shape_in(arena, spec, w, &shape);
	for (uint32_t i = 0; i < w->part_count; i++) {
		struct mu_err why = {0};
		const struct sch_part *p = w->part[i];
		int rc = part_open(p, spec, author, w->account, w->qos, arena);
		if (!rc && st->config.enforce != SCH_ENFORCE_NO)
			rc = sch__part_limits(p, spec, w, author);
		if (!rc)
			rc = sch__part_size(st, p, &shape, arena, &why);
		if (rc == MU_ENODECOUNT && shape.nodes_min > mu_bits_count(&p->nodes))
			rc = MU_ENODECONFIG; /* No limit that could be raised: there are not so many. */
		if (rc == MU_ENODECOUNT && st->config.enforce == SCH_ENFORCE_NO)
			rc = 0;
		if (rc && !first)
			first = rc;
		bad += rc != 0;
	}
	bool refused = st->config.enforce == SCH_ENFORCE_ALL ? bad > 0 : bad == w->part_count;
	return refused ? sch__refuse(err, first) : 0;
}

int sch__resolve(const struct sch_state *st, const Mu__JobSpec *spec, const Mu__Author *author,
		 struct mu_arena *arena, struct sch_want *ret, struct mu_err *err)
{
	struct sch_want w = {.qos = spec->qos && *spec->qos ? spec->qos : "normal",
			     .exclusive = spec->exclusive,
			     .own_spec =
				 st->config.spec_usage && (spec->has_core_spec || spec->has_thread_spec)};
	w.exclusive = w.exclusive || w.own_spec;
	int rc = find_parts(st, spec, &w, err);
	if (!rc)
		rc = want_tasks(st, spec, &w, err);
	if (!rc)
		rc = want_counts(spec, &w, err);
	if (!rc)
		rc = want_times(st, spec, err);
	if (!rc)
		rc = want_mem(st, spec, &w, err);
	if (!rc)
		rc = all_gres(st, spec, err);
	if (!rc)
		rc = want_features(st, spec, &w, err);
	struct mu_bits named = {0};
	if (!rc && spec->nodes_required && *spec->nodes_required)
		rc = sch__name_bits(st, spec->nodes_required, arena, &named, err);
	uint32_t required = mu_bits_count(&named);
	if (!rc && spec->nodes_excluded && *spec->nodes_excluded)
		rc = sch__name_bits(st, spec->nodes_excluded, arena, &named, err);
	mu_bits_free(&named);
	if (rc)
		return rc;
	if (required > w.nodes_min) {
		if (w.nodes_max && required > w.nodes_max)
			return sch__refuse(err, MU_ENODECOUNT);
		w.nodes_min = required;
		if (!spec->has_ntasks)
			w.ntasks = required * (spec->ntasks_per_node ? spec->ntasks_per_node : 1);
		w.ntasks = w.ntasks < required ? required : w.ntasks;
	}
	rc = sch__account_resolve(st, spec, author, &w, err);
	if (!rc && spec->licenses && *spec->licenses)
		rc = sch__lic_check(st, spec->licenses, err);
	if (!rc && spec->reservation && *spec->reservation) {
		struct sch_resv_asker who = {.user = author->user,
					     .account = w.account,
					     .assoc = w.assoc,
					     .gid = author->gid,
					     .group_count = (uint32_t)author->n_groups,
					     .groups = author->groups};
		rc = sch__resv_check(st, spec->reservation, &who, err);
	}
	if (!rc)
		rc = judge(st, spec, author, arena, &w, err);
	if (rc)
		return rc;
	w.time_limit_sec = sch__part_limit(w.part[0], spec);
	uint64_t tasks = w.ntasks > w.nodes_min && !spec->overcommit ? w.ntasks : w.nodes_min;
	uint64_t cpus = tasks * w.cpus_per_task, by_gpus = sch__gpus_total(spec, &w) * spec->cpus_per_gpu;
	cpus = cpus < by_gpus ? by_gpus : cpus;
	w.cpus_total = cpus > UINT32_MAX ? UINT32_MAX : (uint32_t)cpus;
	*ret = w;
	return 0;
}
