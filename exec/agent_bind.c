/* exec/agent_bind.c: what each task of a step uses of what the node gives the step: CPUs, memory nodes, GPUs.
 * The words are parsed and the shares are counted in proto/layout; here they meet what this node has. */
#include <string.h>
#include <strings.h>
#include <linux/mempolicy.h>

#include "exec/agent.h"
#include "proto/base/bits.h"
#include "proto/conf.h"
#include "proto/layout/near.h"

static bool has_word(const char *list, const char *word)
{
	for (const char *p = list; *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ','))
		if (strcspn(p, ",") == strlen(word) && strncasecmp(p, word, strlen(word)) == 0)
			return true;
	return false;
}

static uint32_t units_of(const struct mu_bits *cpus, uint32_t width)
{
	uint32_t n = 0;
	for (uint32_t cpu = mu_bits_next(cpus, 0); cpu != UINT32_MAX;
	     cpu = mu_bits_next(cpus, (cpu / width + 1) * width))
		n++;
	return n;
}

/* With TaskPlugin=task/affinity a step is bound without asking where its tasks just fill sockets, cores or
 * CPUs; TaskPluginParam says what holds for the others. */
static void bind_by_itself(const struct agent *a, const struct mu_bits *allowed, uint32_t wanted,
			   struct mu_bind *ret)
{
	static const struct {
		const char *word, *autobind;
		enum mu_bind_kind kind;
	} row[] = {{"sockets", "autobind=sockets", MU_BIND_SOCKETS},
		   {"cores", "autobind=cores", MU_BIND_CORES},
		   {"threads", "autobind=threads", MU_BIND_THREADS}};
	const char *param = mu_conf_get(a->live, "TaskPluginParam", "");
	const uint32_t threads = a->inventory.threads_per_core ? a->inventory.threads_per_core : 1;
	const uint32_t width[] = {threads * a->inventory.cores_per_socket, threads, 1};
	ret->kind = MU_BIND_NONE;
	if (!has_word(mu_conf_get(a->live, "TaskPlugin", ""), "task/affinity") || wanted == 0)
		return;
	ret->verbose = has_word(param, "verbose");
	if (has_word(param, "none"))
		return;
	for (size_t i = 0; i < 3; i++)
		if (has_word(param, row[i].word))
			ret->kind = row[i].kind;
	for (size_t i = 0; ret->kind == MU_BIND_NONE && i < 3; i++)
		if (width[i] && units_of(allowed, width[i]) == wanted)
			ret->kind = row[i].kind;
	for (size_t i = 0; ret->kind == MU_BIND_NONE && i < 3; i++)
		if (has_word(param, row[i].autobind))
			ret->kind = row[i].kind;
}

/* --threads-per-core: of each core only its first threads. */
static void keep_threads(const struct agent *a, uint32_t keep, struct mu_bits *allowed)
{
	const uint32_t threads = a->inventory.threads_per_core ? a->inventory.threads_per_core : 1;
	for (uint32_t cpu = mu_bits_next(allowed, 0); cpu != UINT32_MAX; cpu = mu_bits_next(allowed, cpu + 1))
		if (keep && cpu % threads >= keep)
			mu_bits_clear(allowed, cpu);
}

static int put_cpus(const struct agent *a, Mu__StepOrder *o, struct mu_bits *const task,
		    struct mu_arena *arena, struct mu_err *err)
{
	char text[8192];
	int code = 0;
	o->task_cpus = mu_arena_alloc(arena, o->n_task * sizeof *o->task_cpus);
	for (size_t i = 0; code == 0 && i < o->n_task; i++) {
		MU_CLEANUP(mu_buf_free) struct mu_buf host = {0};
		mu_bits_print(&task[i], text, sizeof text);
		code = exe_inventory_cpus(&a->inventory, text, &host, err);
		o->task_cpus[o->n_task_cpus++] = mu_arena_strdup(arena, host.len ? (char *)host.data : "");
	}
	return code;
}

/* Which of the step's CPUs each task here may use, in TASK: as --cpu-bind says, else as the cluster does.
 * Without either the group's limit is all there is. */
static int bind_cpus(const struct agent *a, Mu__StepOrder *o, const struct agent_placing *p,
		     struct mu_bits *task, struct mu_err *err)
{
	const Mu__StepAsk *ask = p->ask;
	struct mu_bind bind = {0};
	struct mu_distribution how = {0};
	struct mu_bits allowed = {0};
	const struct mu_cpu_shape shape = {a->inventory.sockets, a->inventory.cores_per_socket,
					   a->inventory.threads_per_core};
	uint32_t cpus_each = ask->has_cpus_per_task && ask->cpus_per_task ? ask->cpus_per_task : 1;
	int code = 0;
	mu_bits_parse(&allowed, o->cpu_list, EXE_CPUS_MAX);
	keep_threads(a, ask->threads_per_core, &allowed);
	if (ask->cpu_bind && ask->cpu_bind[0])
		code = mu_bind_parse(ask->cpu_bind, p->arena, &bind, err);
	else
		bind_by_itself(a, &allowed, (uint32_t)o->n_task * cpus_each, &bind);
	if (code == 0 && ask->distribution && ask->distribution[0])
		code = mu_distribution_parse(ask->distribution, &how, err);
	o->has_bind_verbose = 1;
	o->bind_verbose = bind.verbose;
	bool bound = bind.kind != MU_BIND_NONE && (bind.kind != MU_BIND_DEFAULT || bind.verbose);
	if (code == 0 && bound)
		code = mu_bind_masks(&shape, &allowed, (uint32_t)o->n_task, cpus_each, &bind, how.sockets,
				     task, err);
	for (size_t i = 0; !bound && i < o->n_task; i++)
		mu_bits_copy(&task[i], &allowed);
	if (code == 0 && (bound || ask->threads_per_core))
		code = put_cpus(a, o, task, p->arena, err);
	mu_bits_free(&allowed);
	mu_bind_free(&bind);
	return code;
}

static int bind_memory(Mu__StepOrder *o, const struct agent_placing *p, struct mu_err *err)
{
	struct mu_near near = {0};
	if (!p->ask->mem_bind || !p->ask->mem_bind[0])
		return 0;
	int code = mu_mem_bind_parse(p->ask->mem_bind, p->arena, &near, err);
	o->has_mem_verbose = 1;
	o->mem_verbose = near.verbose;
	o->has_mem_mode = code == 0 && near.kind != MU_NEAR_NONE;
	o->mem_mode = near.prefer ? MPOL_PREFERRED : near.kind == MU_NEAR_LOCAL ? MPOL_LOCAL : MPOL_BIND;
	o->task_mems = mu_arena_alloc(p->arena, o->n_task * sizeof *o->task_mems);
	for (size_t i = 0; o->has_mem_mode && i < o->n_task; i++)
		o->task_mems[o->n_task_mems++] = mu_near_mems(&near, (uint32_t)i);
	mu_bind_free(&near.list);
	return code;
}

/* The cores near the GPU of this INDEX, as it was found or as the configuration has them; NULL: not said. */
static const char *cores_of(const struct agent *a, uint32_t index)
{
	const struct exe_unit *u = exe_inventory_unit((struct exe_inventory *)&a->inventory, "gpu", index);
	if (u && u->row && u->row->cores && u->row->cores[0])
		return u->row->cores;
	for (size_t g = 0; g < a->inventory.gres_count; g++) {
		const Mu__GresHave *have = a->inventory.gres[g];
		if (have->name && strcmp(have->name, "gpu") == 0 && index >= have->first_index &&
		    index - have->first_index < have->count)
			return have->cores && have->cores[0] ? have->cores : NULL;
	}
	return NULL;
}

static bool is_near(const char *cores, uint32_t threads, const struct mu_bits *task)
{
	struct mu_bits near = {0};
	bool some = false;
	mu_bits_parse(&near, cores ? cores : "", EXE_CPUS_MAX);
	for (uint32_t core = mu_bits_next(&near, 0); core != UINT32_MAX && !some;
	     core = mu_bits_next(&near, core + 1))
		for (uint32_t t = 0; t < threads && !some; t++)
			some = mu_bits_test(task, core * threads + t);
	mu_bits_free(&near);
	return some;
}

static int bind_gpus(const struct agent *a, Mu__StepOrder *o, const struct agent_placing *p,
		     const struct mu_bits *task, struct mu_err *err)
{
	struct mu_near near = {0};
	const char *cores[MU_NEAR_GPUS];
	bool close[MU_NEAR_GPUS], given[MU_NEAR_GPUS] = {false};
	uint32_t count = 0;
	char text[2048];
	if (!p->ask->gpu_bind || !p->ask->gpu_bind[0])
		return 0;
	int code = mu_gpu_bind_parse(p->ask->gpu_bind, p->arena, &near, err);
	for (size_t g = 0; g < o->n_gres; g++)
		for (size_t i = 0; o->gres[g]->name && strcmp(o->gres[g]->name, "gpu") == 0 &&
				   i < o->gres[g]->n_index && count < MU_NEAR_GPUS;
		     i++)
			cores[count++] = cores_of(a, o->gres[g]->index[i]);
	o->has_gpu_verbose = 1;
	o->gpu_verbose = near.verbose;
	o->task_gpus = mu_arena_alloc(p->arena, o->n_task * sizeof *o->task_gpus);
	for (size_t t = 0; code == 0 && near.kind != MU_NEAR_NONE && count && t < o->n_task; t++) {
		struct mu_bits got = {0};
		for (uint32_t i = 0; i < count; i++)
			close[i] = is_near(cores[i], a->inventory.threads_per_core, &task[t]);
		mu_near_gpus(&near, (uint32_t)t, count, close, given, &got);
		mu_bits_print(&got, text, sizeof text);
		o->task_gpus[o->n_task_gpus++] = mu_arena_strdup(p->arena, text);
		mu_bits_free(&got);
	}
	mu_bind_free(&near.list);
	return code;
}

int agent_bind(const struct agent *a, Mu__StepOrder *o, const struct agent_placing *p, struct mu_err *err)
{
	struct mu_bits *task = mu_arena_alloc(p->arena, (o->n_task + 1) * sizeof *task);
	int code = bind_cpus(a, o, p, task, err);
	if (code == 0)
		code = bind_memory(o, p, err);
	if (code == 0)
		code = bind_gpus(a, o, p, task, err);
	for (size_t i = 0; i < o->n_task; i++)
		mu_bits_free(&task[i]);
	return code;
}

void agent_bind_copy(Mu__StepOrder *to, const Mu__StepOrder *from)
{
	to->task_cpus = from->task_cpus;
	to->n_task_cpus = from->n_task_cpus;
	to->has_bind_verbose = from->has_bind_verbose;
	to->bind_verbose = from->bind_verbose;
	to->task_mems = from->task_mems;
	to->n_task_mems = from->n_task_mems;
	to->has_mem_mode = from->has_mem_mode;
	to->mem_mode = from->mem_mode;
	to->has_mem_verbose = from->has_mem_verbose;
	to->mem_verbose = from->mem_verbose;
	to->task_gpus = from->task_gpus;
	to->n_task_gpus = from->n_task_gpus;
	to->has_gpu_verbose = from->has_gpu_verbose;
	to->gpu_verbose = from->gpu_verbose;
}
