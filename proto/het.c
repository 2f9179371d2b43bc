/* proto/het.c: see het.h. */
#include "proto/het.h"

#include <string.h>

static const char *number(struct mu_arena *arena, uint64_t value)
{
	return value ? mu_arena_printf(arena, "%llu", (unsigned long long)value) : NULL;
}

static const struct row {
	const char *name;
	enum what { JOB, NODE_LIST, NODES, PARTITION, TASKS, CPUS_EACH, MEM_CPU, MEM_NODE, CPUS, TASKS_ON } what;
} rows[MU_HET_VARIABLES] = {{"SLURM_JOB_ID", JOB},
			    {"SLURM_JOBID", JOB},
			    {"SLURM_JOB_NODELIST", NODE_LIST},
			    {"SLURM_NODELIST", NODE_LIST},
			    {"SLURM_JOB_NUM_NODES", NODES},
			    {"SLURM_NNODES", NODES},
			    {"SLURM_JOB_PARTITION", PARTITION},
			    {"SLURM_NTASKS", TASKS},
			    {"SLURM_NPROCS", TASKS},
			    {"SLURM_CPUS_PER_TASK", CPUS_EACH},
			    {"SLURM_MEM_PER_CPU", MEM_CPU},
			    {"SLURM_MEM_PER_NODE", MEM_NODE},
			    {"SLURM_JOB_CPUS_PER_NODE", CPUS},
			    {"SLURM_TASKS_PER_NODE", TASKS_ON}};

static const char *value_of(const Mu__HetComponent *c, enum what what, struct mu_arena *arena)
{
	switch (what) {
	case JOB:
		return number(arena, c->job);
	case NODE_LIST:
		return c->node_list;
	case NODES:
		return number(arena, c->nodes);
	case PARTITION:
		return c->partition;
	case TASKS:
		return number(arena, c->ntasks);
	case CPUS_EACH:
		return number(arena, c->cpus_per_task);
	case MEM_CPU:
		return number(arena, c->mem_cpu_mib);
	case MEM_NODE:
		return c->mem_cpu_mib ? NULL : number(arena, c->mem_node_mib);
	case CPUS:
		return c->cpus_per_node;
	default:
		return c->tasks_per_node;
	}
}

void mu_het_variables(const Mu__HetComponent *c, uint32_t group, struct mu_arena *arena,
		      void (*put)(void *arg, const char *name, const char *value), void *arg)
{
	for (size_t i = 0; i < MU_HET_VARIABLES; i++) {
		const char *value = value_of(c, rows[i].what, arena);

		if (value && *value)
			put(arg, mu_arena_printf(arena, "%s_HET_GROUP_%u", rows[i].name, group), value);
	}
}

bool mu_het_variable(const char *name)
{
	bool found = false;

	for (size_t i = 0; i < MU_HET_VARIABLES; i++)
		found = found || strcmp(rows[i].name, name) == 0;
	return found;
}

static const char *read_group(const char *p, uint32_t *ret)
{
	uint32_t value = 0;

	if (*p < '0' || *p > '9')
		return NULL;
	for (; *p >= '0' && *p <= '9'; p++)
		value = value < MU_HET_MAX ? 10 * value + (uint32_t)(*p - '0') : value;
	*ret = value;
	return p;
}

int mu_het_groups_parse(const char *text, uint32_t size, uint32_t *ret, uint32_t *ret_count,
			struct mu_err *err)
{
	uint32_t count = 0, first, last;
	bool seen[MU_HET_MAX] = {false};

	for (const char *p = text;;) {
		p = read_group(p, &first);
		last = first;
		if (p && *p == '-')
			p = read_group(p + 1, &last);
		if (!p || last < first || (*p && *p != ','))
			return mu_fail(err, MU_EINVAL, "Invalid --het-group specification: \"%s\" (0,2-4)",
				       text);
		if (last >= size || last >= MU_HET_MAX)
			return mu_fail(err, MU_EINVAL,
				       "Attempt to run a job step with het group value of %u, but the job "
				       "allocation has maximum value of %u",
				       last, size - 1);
		for (uint32_t g = first; g <= last; g++) {
			if (seen[g])
				return mu_fail(err, MU_EINVAL,
					       "Duplicate het groups in single srun not supported");
			seen[g] = true;
			ret[count++] = g;
		}
		if (!*p)
			break;
		p++;
	}
	*ret_count = count;
	return 0;
}
