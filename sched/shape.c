/* sched/shape.c: what a job needs of nodes, shared by all jobs that need the same. A pass tries each shape
 * once. */
#include "sched/state.h"

/* The part of a spec that placement looks at, with the numbers that admission resolved. SPEC names every
 * partition. */
static void canonical(const Mu__JobSpec *spec, const struct sch_want *want, Mu__JobSpec *ret)
{
	mu__job_spec__init(ret);
	ret->n_partition = spec->n_partition;
	ret->partition = spec->partition;
	SCH_SET(ret, nodes_min, want->nodes_min);
	SCH_SET(ret, nodes_max, want->nodes_max);
	SCH_SET(ret, ntasks, want->ntasks);
	SCH_SET(ret, cpus_per_task, want->cpus_per_task);
	SCH_SET(ret, ntasks_per_node, spec->ntasks_per_node);
	SCH_SET(ret, ntasks_per_socket, spec->ntasks_per_socket);
	SCH_SET(ret, ntasks_per_core, spec->ntasks_per_core);
	SCH_SET(ret, mincpus, spec->mincpus);
	SCH_SET(ret, sockets_per_node, spec->sockets_per_node);
	SCH_SET(ret, cores_per_socket, spec->cores_per_socket);
	SCH_SET(ret, threads_per_core, spec->threads_per_core);
	SCH_SET(ret, tmp_mib, spec->tmp_mib);
	SCH_SET(ret, exclusive, want->exclusive);
	SCH_SET(ret, overcommit, spec->overcommit);
	SCH_SET(ret, oversubscribe, spec->oversubscribe);
	if (want->mem_kind == SCH_MEM_NODE) {
		ret->has_mem_node_mib = true;
		ret->mem_node_mib = want->mem_mib;
	} else if (want->mem_kind == SCH_MEM_CPU) {
		ret->has_mem_cpu_mib = true;
		ret->mem_cpu_mib = want->mem_mib;
	}
	if (want->mem_kind == SCH_MEM_GPU)
		SCH_SET(ret, mem_gpu_mib, want->mem_mib);
	ret->n_gres = spec->n_gres;
	ret->gres = spec->gres;
	ret->n_gres_task = spec->n_gres_task;
	ret->gres_task = spec->gres_task;
	ret->n_gres_job = want->job_gpus ? spec->n_gres_job : 0;
	ret->gres_job = spec->gres_job;
	SCH_SET(ret, ntasks_per_gpu, want->job_gpus); /* Only a number of GPUs without a type. */
	SCH_SET(ret, cpus_per_gpu, spec->cpus_per_gpu);
	SCH_SET(ret, contiguous, spec->contiguous);
	SCH_SET(ret, spread_job, spec->spread_job);
	SCH_SET(ret, exclusive_user, spec->exclusive_user);
	SCH_SET(ret, switches, spec->switches);
	SCH_SET(ret, switches_wait_sec, spec->switches_wait_sec);
	SCH_SET(ret, use_min_nodes, spec->use_min_nodes);
	SCH_SET(ret, requeue, sch__grows(spec, want)); /* Two that only the key knows. */
	SCH_SET(ret, no_kill, spec->has_cpus_per_task);
	ret->features = spec->features;
	ret->prefer = spec->prefer;
	ret->batch_features = spec->batch_features;
	if (want->own_spec) {
		SCH_SET(ret, core_spec, spec->core_spec + 1);
		SCH_SET(ret, thread_spec, spec->thread_spec);
	}
	SCH_SET(ret, near_gpus, spec->near_gpus);
	SCH_SET(ret, any_cpus, spec->any_cpus);
	ret->nodes_required = spec->nodes_required;
	ret->nodes_excluded = spec->nodes_excluded;
}

void sch__shape_plain(const Mu__JobSpec *spec, const struct sch_want *w, struct sch_shape *ret)
{
	ret->nodes_min = w->nodes_min;
	ret->nodes_max = w->nodes_max;
	ret->ntasks = w->ntasks;
	ret->cpus_per_task = w->cpus_per_task;
	ret->tasks_per_node = spec->ntasks_per_node;
	ret->tasks_per_socket = spec->ntasks_per_socket;
	ret->tasks_per_core = spec->ntasks_per_core;
	ret->mincpus = spec->mincpus;
	ret->sockets = spec->sockets_per_node;
	ret->cores = spec->cores_per_socket;
	ret->threads = spec->threads_per_core;
	ret->mem_kind = w->mem_kind;
	ret->mem_mib = w->mem_mib;
	ret->tmp_mib = spec->tmp_mib;
	ret->exclusive = w->exclusive;
	ret->overcommit = spec->overcommit;
	ret->contiguous = spec->contiguous;
	ret->spread = spec->spread_job;
	ret->fewest = spec->use_min_nodes;
	ret->user_only = spec->exclusive_user;
	ret->shares = spec->oversubscribe;
	ret->switches = spec->switches;
	ret->switches_wait_sec = spec->switches_wait_sec;
	ret->grows = sch__grows(spec, w);
	ret->cpus_given = spec->has_cpus_per_task;
	ret->job_gpus = w->job_gpus;
	ret->cpus_per_gpu = spec->cpus_per_gpu;
	ret->near = spec->near_gpus;
	ret->anywhere = spec->any_cpus;
	ret->own_spec = w->own_spec;
	ret->spec_cores = spec->core_spec;
	ret->spec_threads = spec->thread_spec;
	if (spec->features && *spec->features)
		sch__features_kind(spec->features, &ret->feature_kind);
}

static struct sch_ask *asks(struct sch_state *st, Mu__GresAsk *const *list, size_t count)
{
	struct sch_ask *v = sch__alloc(st, count * sizeof(v[0]));
	for (size_t i = 0; i < count; i++) {
		v[i].name = sch__str(st, list[i]->name);
		v[i].type = sch__str(st, list[i]->type);
		v[i].count = list[i]->count;
	}
	return v;
}

static void asks_drop(struct sch_state *st, struct sch_ask *v, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		sch__str_drop(st, &v[i].name);
		sch__str_drop(st, &v[i].type);
	}
	sch__free(st, v, count * sizeof(v[0]));
}

static void find_first(const struct sch_state *st, struct sch_shape *s)
{
	s->first = NULL;
	for (uint32_t i = 0; i < s->part_count && !s->first; i++)
		s->first = sch__part(st, s->part[i]->text);
}

void sch__shapes_parts(struct sch_state *st)
{
	const uint8_t *key = NULL;
	size_t len = 0;
	for (struct sch_shape *s = mu_map_seek(&st->shapes, NULL, 0, 0, &key, &len); s;
	     s = mu_map_seek(&st->shapes, key, len, 1, &key, &len))
		find_first(st, s);
}

static struct sch_shape *build(struct sch_state *st, const Mu__JobSpec *spec, const struct sch_want *want)
{
	struct sch_shape *s = sch__alloc(st, sizeof(*s));
	s->id = mu_bits_next_clear(&st->shape_ids, 0);
	mu_bits_set(&st->shape_ids, s->id);
	if (s->id >= st->shape_id_cap)
		st->shape_id_cap = s->id + 1;
	sch__shape_plain(spec, want, s);
	st->user_shapes += s->user_only;
	s->part_count = (uint32_t)spec->n_partition;
	s->part = sch__alloc(st, spec->n_partition * sizeof(s->part[0]));
	for (size_t i = 0; i < spec->n_partition; i++)
		s->part[i] = sch__str(st, spec->partition[i]);
	find_first(st, s);
	s->ask_count = (uint32_t)spec->n_gres;
	s->ask = asks(st, spec->gres, spec->n_gres);
	s->task_ask_count = (uint32_t)spec->n_gres_task;
	s->task_ask = asks(st, spec->gres_task, spec->n_gres_task);
	s->gpu_name = want->job_gpus ? sch__str(st, "gpu") : NULL;
	s->job_gpu_type = want->job_gpus && spec->n_gres_job ? sch__str(st, spec->gres_job[0]->type) : NULL;
	s->features = sch__str(st, spec->features);
	s->prefer = sch__str(st, spec->prefer);
	s->batch = sch__str(st, spec->batch_features);
	s->required = sch__str(st, spec->nodes_required);
	s->excluded = sch__str(st, spec->nodes_excluded);
	return s;
}

struct sch_shape *sch__shape(struct sch_state *st, const Mu__JobSpec *spec, const struct sch_want *want)
{
	Mu__JobSpec c;
	struct mu_buf buf = {0};
	struct mu_hash key;
	canonical(spec, want, &c);
	mu_pb_pack(&c.base, &buf);
	mu_hash_bytes(buf.data, buf.len, &key);
	mu_buf_free(&buf);
	struct sch_shape *s = mu_map_get(&st->shapes, key.b, sizeof(key.b));
	if (!s) {
		s = build(st, spec, want);
		s->key = key;
		mu_map_put(&st->shapes, key.b, sizeof(key.b), s);
	}
	s->refs++;
	return s;
}

void sch__shape_drop(struct sch_state *st, struct sch_shape **s)
{
	struct sch_shape *old = *s;
	*s = NULL;
	if (!old || --old->refs)
		return;
	mu_map_del(&st->shapes, old->key.b, sizeof(old->key.b));
	mu_bits_clear(&st->shape_ids, old->id);
	st->user_shapes -= old->user_only;
	for (uint32_t i = 0; i < old->part_count; i++)
		sch__str_drop(st, &old->part[i]);
	sch__free(st, old->part, old->part_count * sizeof(old->part[0]));
	asks_drop(st, old->ask, old->ask_count);
	asks_drop(st, old->task_ask, old->task_ask_count);
	sch__str_drop(st, &old->gpu_name);
	sch__str_drop(st, &old->job_gpu_type);
	sch__str_drop(st, &old->features);
	sch__str_drop(st, &old->prefer);
	sch__str_drop(st, &old->batch);
	sch__str_drop(st, &old->required);
	sch__str_drop(st, &old->excluded);
	sch__free(st, old, sizeof(*old));
}
