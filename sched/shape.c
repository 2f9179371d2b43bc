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
	if (want->mem_kind == SCH_MEM_NODE) {
		ret->has_mem_node_mib = true;
		ret->mem_node_mib = want->mem_mib;
	} else if (want->mem_kind == SCH_MEM_CPU) {
		ret->has_mem_cpu_mib = true;
		ret->mem_cpu_mib = want->mem_mib;
	}
	ret->n_gres = spec->n_gres;
	ret->gres = spec->gres;
	ret->features = spec->features;
	ret->nodes_required = spec->nodes_required;
	ret->nodes_excluded = spec->nodes_excluded;
}

static struct sch_shape *build(struct sch_state *st, const Mu__JobSpec *c, const struct sch_want *want)
{
	struct sch_shape *s = sch__alloc(st, sizeof(*s));
	s->id = mu_bits_next_clear(&st->shape_ids, 0);
	mu_bits_set(&st->shape_ids, s->id);
	if (s->id >= st->shape_id_cap)
		st->shape_id_cap = s->id + 1;
	s->part_count = (uint32_t)c->n_partition;
	s->part = sch__alloc(st, c->n_partition * sizeof(s->part[0]));
	for (size_t i = 0; i < c->n_partition; i++)
		s->part[i] = sch__str(st, c->partition[i]);
	s->nodes_min = c->nodes_min;
	s->nodes_max = c->nodes_max;
	s->ntasks = c->ntasks;
	s->cpus_per_task = c->cpus_per_task;
	s->tasks_per_node = c->ntasks_per_node;
	s->tasks_per_socket = c->ntasks_per_socket;
	s->tasks_per_core = c->ntasks_per_core;
	s->mincpus = c->mincpus;
	s->sockets = c->sockets_per_node;
	s->cores = c->cores_per_socket;
	s->threads = c->threads_per_core;
	s->tmp_mib = c->tmp_mib;
	s->exclusive = c->exclusive;
	s->overcommit = c->overcommit;
	s->mem_kind = want->mem_kind;
	s->mem_mib = want->mem_mib;
	s->ask_count = (uint32_t)c->n_gres;
	s->ask = sch__alloc(st, c->n_gres * sizeof(s->ask[0]));
	for (size_t i = 0; i < c->n_gres; i++) {
		s->ask[i].name = sch__str(st, c->gres[i]->name);
		s->ask[i].type = sch__str(st, c->gres[i]->type);
		s->ask[i].count = c->gres[i]->count;
	}
	s->features = sch__str(st, c->features);
	s->required = sch__str(st, c->nodes_required);
	s->excluded = sch__str(st, c->nodes_excluded);
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
		s = build(st, &c, want);
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
	for (uint32_t i = 0; i < old->part_count; i++)
		sch__str_drop(st, &old->part[i]);
	sch__free(st, old->part, old->part_count * sizeof(old->part[0]));
	for (uint32_t i = 0; i < old->ask_count; i++) {
		sch__str_drop(st, &old->ask[i].name);
		sch__str_drop(st, &old->ask[i].type);
	}
	sch__free(st, old->ask, old->ask_count * sizeof(old->ask[0]));
	sch__str_drop(st, &old->features);
	sch__str_drop(st, &old->required);
	sch__str_drop(st, &old->excluded);
	sch__free(st, old, sizeof(*old));
}
