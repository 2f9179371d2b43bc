/* proto/usage.c: see usage.h. */
#include "proto/usage.h"

#include <string.h>

const Mu__UsageMeasure *mu_usage_measure(const Mu__Usage *u, uint32_t kind)
{
	for (size_t i = 0; u && i < u->n_measure; i++)
		if (u->measure[i]->kind == kind)
			return u->measure[i];
	return NULL;
}

void mu_measure_add(Mu__UsageMeasure *m, uint64_t value, uint32_t task)
{
	bool first = !m->has_max;
	m->has_total = m->has_max = m->has_min = 1;
	m->total += value;
	if (first || value > m->max) {
		m->max = value;
		m->has_max_task = 1;
		m->max_task = task;
	}
	if (first || value < m->min) {
		m->min = value;
		m->has_min_task = 1;
		m->min_task = task;
	}
}

static Mu__UsageMeasure *own(Mu__Usage *u, uint32_t kind, struct mu_arena *arena)
{
	for (size_t i = 0; i < u->n_measure; i++)
		if (u->measure[i]->kind == kind)
			return u->measure[i];
	if (u->n_measure >= MU_MEASURES)
		return NULL;
	if (!u->measure)
		u->measure = mu_arena_alloc(arena, MU_MEASURES * sizeof *u->measure);
	Mu__UsageMeasure *m = mu_arena_alloc(arena, sizeof *m);
	mu__usage_measure__init(m);
	m->has_kind = 1;
	m->kind = kind;
	u->measure[u->n_measure++] = m;
	return m;
}

static void merge(Mu__UsageMeasure *m, const Mu__UsageMeasure *p, const char *node, struct mu_arena *arena)
{
	const char *max_node = p->max_node && *p->max_node ? p->max_node : node;
	const char *min_node = p->min_node && *p->min_node ? p->min_node : node;
	bool first = !m->has_max;
	m->has_total = m->has_max = m->has_min = m->has_max_task = m->has_min_task = 1;
	m->total += p->total;
	if (first || p->max > m->max) {
		m->max = p->max;
		m->max_task = p->max_task;
		m->max_node = mu_arena_strdup(arena, max_node);
	}
	if (first || p->min < m->min) {
		m->min = p->min;
		m->min_task = p->min_task;
		m->min_node = mu_arena_strdup(arena, min_node);
	}
}

void mu_usage_merge(Mu__Usage *into, const Mu__Usage *part, const char *node, struct mu_arena *arena)
{
	into->has_user_cpu_usec = into->has_sys_cpu_usec = into->has_oom_kills = 1;
	into->user_cpu_usec += part->user_cpu_usec;
	into->sys_cpu_usec += part->sys_cpu_usec;
	into->oom_kills += part->oom_kills;
	for (size_t i = 0; i < part->n_measure; i++) {
		Mu__UsageMeasure *m = own(into, part->measure[i]->kind, arena);
		if (m)
			merge(m, part->measure[i], node, arena);
	}
}

void mu_usage_sum_up(Mu__Usage *u, uint32_t tasks)
{
	const Mu__UsageMeasure *mem = mu_usage_measure(u, MU_MEASURE_MEM),
			       *vmem = mu_usage_measure(u, MU_MEASURE_VMEM),
			       *in = mu_usage_measure(u, MU_MEASURE_READ),
			       *out = mu_usage_measure(u, MU_MEASURE_WRITE);
	if (mem) {
		u->has_max_rss_kib = u->has_ave_rss_kib = u->has_max_rss_task = 1;
		u->max_rss_kib = mem->max / 1024;
		u->ave_rss_kib = tasks ? mem->total / tasks / 1024 : 0;
		u->max_rss_task = mem->max_task;
		u->max_rss_node = mem->max_node;
	}
	if (vmem) {
		u->has_max_vsize_kib = 1;
		u->max_vsize_kib = vmem->max / 1024;
	}
	if (in) {
		u->has_read_bytes = 1;
		u->read_bytes = in->total;
	}
	if (out) {
		u->has_write_bytes = 1;
		u->write_bytes = out->total;
	}
}
