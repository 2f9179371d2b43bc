/* exec/agent_place.c: where a step's tasks go inside its job's allocation, and what they hold on each node.
 * The first node's agent places for all nodes; each node looks again at its own part, so that one manager
 * that forgot (it was restarted) gives nothing away twice. */
#include <string.h>

#include "exec/agent.h"
#include "proto/base/bits.h"
#include "proto/hostlist.h"
#include "proto/layout/layout.h"
#include "proto/states.h"

enum { TASKS_MAX = 4096, ALL_TASKS_MAX = 65535 /* channels of a stream */ };

static int busy(struct agent_placing *p, struct mu_err *err)
{
	p->busy = true;
	return mu_fail(err, MU_ENODEBUSY, "%s", mu_strerror(MU_ENODEBUSY));
}

/* ---- what is held on a node ---- */

struct held {
	const char *cpu_list;
	uint64_t mem_mib;
	Mu__GresGot *const *gres;
	size_t n_gres;
};

/* One after another: *AT and *PART begin at the first step and 0. False at the end. */
static bool next_held(const struct agent_placing *p, uint32_t node, const struct agent_step **at,
		      size_t *part, struct held *ret)
{
	const Mu__AttemptOrder *o = p->t->order;
	uint32_t own_step = p->ask->part && p->ask->whole ? p->ask->whole->step : UINT32_MAX;
	for (; *at; *at = (*at)->next, *part = 0) {
		const struct agent_step *s = *at;
		if (s->ended || s->order->step == MU_STEP_BATCH || s->order->overlap ||
		    s->order->step == own_step)
			continue;
		if (!s->lead && node == o->node_index) {
			*ret = (struct held){s->order->cpu_list, s->order->mem_mib, s->order->gres,
					     s->order->gres_counted ? s->order->n_gres : 0};
			*at = s->next;
			*part = 0;
			return true;
		}
		while (s->lead && *part < s->n_part) {
			const Mu__StepPart *g = s->part[(*part)++];
			if (strcmp(g->node, o->alloc[node]->node) != 0 ||
			    (node == o->node_index && s->lead_here))
				continue;
			*ret = (struct held){g->cpu_list, g->mem_mib, g->gres,
					     s->order->gres_counted ? g->n_gres : 0};
			return true;
		}
	}
	return false;
}

static bool unit_is_taken(const struct agent_placing *p, uint32_t node, const char *name, uint32_t index)
{
	const struct agent_step *at = p->t->step;
	size_t part = 0;
	for (struct held h; next_held(p, node, &at, &part, &h);)
		for (size_t g = 0; g < h.n_gres; g++)
			for (size_t i = 0; i < h.gres[g]->n_index; i++)
				if (h.gres[g]->index[i] == index && strcmp(h.gres[g]->name, name) == 0)
					return true;
	return false;
}

/* CPUs of NODE that no other step holds, and the memory that others hold. */
static void look(const struct agent_placing *p, uint32_t node, struct mu_bits *ret_free,
		 uint64_t *ret_mem_used)
{
	const Mu__AllocNode *n = p->t->order->alloc[node];
	const struct agent_step *at = p->t->step;
	size_t part = 0;
	*ret_mem_used = 0;
	mu_bits_parse(ret_free, n->cpu_list ? n->cpu_list : "", EXE_CPUS_MAX);
	for (struct held h; !p->overlap && next_held(p, node, &at, &part, &h);) {
		struct mu_bits taken = {0};
		mu_bits_parse(&taken, h.cpu_list ? h.cpu_list : "", EXE_CPUS_MAX);
		mu_bits_andnot(ret_free, &taken);
		mu_bits_free(&taken);
		*ret_mem_used += h.mem_mib;
	}
}

/* ---- devices ---- */

static int place_one_gres(struct agent_placing *p, uint32_t node, const Mu__GresAsk *ask, Mu__GresGot *got,
			  struct mu_err *err)
{
	const Mu__AllocNode *n = p->t->order->alloc[node];
	uint64_t total = 0, want = ask->has_count ? ask->count : 1;
	got->name = ask->name;
	got->type = ask->type;
	for (size_t g = 0; g < n->n_gres; g++) {
		const Mu__GresGot *have = n->gres[g];
		if (!have->name || !ask->name || strcmp(have->name, ask->name) != 0 ||
		    (ask->type && ask->type[0] && (!have->type || strcmp(have->type, ask->type) != 0)))
			continue;
		total += have->n_index;
		got->index = got->index ? got->index
					: mu_arena_alloc(p->arena, EXE_GRES_UNITS_MAX * sizeof *got->index);
		for (size_t i = 0;
		     i < have->n_index && got->n_index < want && got->n_index < EXE_GRES_UNITS_MAX; i++)
			if (p->overlap || !unit_is_taken(p, node, have->name, have->index[i]))
				got->index[got->n_index++] = have->index[i];
	}
	got->has_count = 1;
	got->count = got->n_index;
	if (want > total)
		return mu_fail(err, MU_EGRES, "%s", mu_strerror(MU_EGRES));
	return got->n_index < want ? busy(p, err) : 0;
}

static int place_gres(struct agent_placing *p, uint32_t node, Mu__StepPart *ret, struct mu_err *err)
{
	const Mu__AllocNode *n = p->t->order->alloc[node];
	ret->gres = n->gres;
	ret->n_gres = n->n_gres;
	if (p->ask->n_gres == 0)
		return 0;
	ret->gres = mu_arena_alloc(p->arena, p->ask->n_gres * sizeof *ret->gres);
	ret->n_gres = p->ask->n_gres;
	for (size_t i = 0; i < p->ask->n_gres; i++) {
		ret->gres[i] = mu_arena_alloc(p->arena, sizeof **ret->gres);
		mu__gres_got__init(ret->gres[i]);
		int code = place_one_gres(p, node, p->ask->gres[i], ret->gres[i], err);
		if (code)
			return code;
	}
	return 0;
}

/* ---- which nodes ---- */

/* What a node could take: in all, and now. */
struct room {
	uint32_t all, now; /* CPUs; now: 0 when another step is in the way */
	bool wanted, chosen;
};

static uint32_t cpus_each(const struct agent_placing *p)
{
	return p->ask->has_cpus_per_task && p->ask->cpus_per_task ? p->ask->cpus_per_task : 1;
}

/* 0, or a hard refusal: what the node can never give. */
static int look_at(struct agent_placing *p, uint32_t node, struct room *r, struct mu_err *err)
{
	const Mu__AllocNode *n = p->t->order->alloc[node];
	struct mu_bits all = {0}, free = {0};
	Mu__StepPart trial = MU__STEP_PART__INIT;
	uint64_t used, mem = p->ask->mem_mib ? p->ask->mem_mib : p->ask->mem_cpu_mib * cpus_each(p);
	mu_bits_parse(&all, n->cpu_list ? n->cpu_list : "", EXE_CPUS_MAX);
	look(p, node, &free, &used);
	r->all = mu_bits_count(&all);
	r->now = mu_bits_count(&free);
	if (!p->exact && !p->overlap && r->now < r->all)
		r->now = 0;
	mu_bits_free(&all);
	mu_bits_free(&free);
	if (n->mem_mib && mem > n->mem_mib)
		return mu_fail(err, MU_ESTEPMEMORY, "%s", mu_strerror(MU_ESTEPMEMORY));
	if (!p->overlap && mem && n->mem_mib && used + mem > n->mem_mib)
		r->now = 0;
	bool was_busy = p->busy;
	int code = place_gres(p, node, &trial, err);
	if (code && p->busy && !was_busy) {
		r->now = 0;
		code = 0;
	}
	p->busy = was_busy;
	return code;
}

static bool named(char *const *list, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(list[i], name) == 0)
			return true;
	return false;
}

static int check_names(const struct agent_placing *p, struct mu_err *err)
{
	const Mu__AttemptOrder *o = p->t->order;
	for (size_t i = 0; i < p->ask->n_nodes_required; i++) {
		bool here = false;
		for (size_t k = 0; k < o->n_alloc; k++)
			here = here || strcmp(o->alloc[k]->node, p->ask->nodes_required[i]) == 0;
		if (!here)
			return mu_fail(err, MU_ENODECONFIG,
				       "Requested node configuration is not available: %s is no node of "
				       "job %u",
				       p->ask->nodes_required[i], o->job);
		if (named(p->ask->nodes_excluded, p->ask->n_nodes_excluded, p->ask->nodes_required[i]))
			return mu_fail(err, MU_ENODECONFIG,
				       "Requested node configuration is not available: %s is both required "
				       "and excluded",
				       p->ask->nodes_required[i]);
	}
	return 0;
}

static uint32_t tasks_in(const struct agent_placing *p, uint32_t cpus)
{
	uint32_t n = cpus / cpus_each(p);
	if (p->ask->overcommit && cpus)
		n = p->tasks;
	return p->ask->ntasks_per_node && n > p->ask->ntasks_per_node ? p->ask->ntasks_per_node : n;
}

/* Marks the nodes, those required first; true when they hold the step. NOW: beside the other steps. */
static bool choose(const struct agent_placing *p, struct room *room, uint32_t count, uint32_t least,
		   uint32_t most, bool now)
{
	const Mu__AttemptOrder *o = p->t->order;
	uint32_t chosen = 0;
	uint64_t fit = 0;
	for (uint32_t i = 0; i < count; i++) {
		room[i].chosen = named(p->ask->nodes_required, p->ask->n_nodes_required, o->alloc[i]->node);
		if (!room[i].chosen)
			continue;
		uint32_t n = tasks_in(p, now ? room[i].now : room[i].all);
		if (n == 0)
			return false;
		fit += n;
		chosen++;
	}
	for (uint32_t i = 0; i < count && (chosen < least || (fit < p->tasks && chosen < most)); i++) {
		uint32_t n = tasks_in(p, now ? room[i].now : room[i].all);
		if (!room[i].wanted || room[i].chosen || n == 0)
			continue;
		room[i].chosen = true;
		fit += n;
		chosen++;
	}
	return chosen >= least && fit >= p->tasks;
}

/* ---- the tasks ---- */

static int host_list(struct agent_placing *p, const struct room *room, uint32_t count, uint32_t **ret,
		     struct mu_err *err)
{
	const Mu__AttemptOrder *o = p->t->order;
	*ret = mu_arena_alloc(p->arena, (p->tasks + 1) * sizeof **ret);
	if (p->ask->n_host < p->tasks)
		return mu_fail(err, MU_EINVAL, "%zu lines of hosts are too few for %u tasks", p->ask->n_host,
			       p->tasks);
	for (uint32_t t = 0; t < p->tasks; t++) {
		uint32_t index = 0, found = UINT32_MAX;
		for (uint32_t i = 0; i < count; i++) {
			if (room[i].chosen && strcmp(o->alloc[i]->node, p->ask->host[t]) == 0)
				found = index;
			index += room[i].chosen;
		}
		if (found == UINT32_MAX)
			return mu_fail(err, MU_ENODECONFIG, "%s is no node of the step", p->ask->host[t]);
		(*ret)[t] = found;
	}
	return 0;
}

static int lay_out(struct agent_placing *p, const struct room *room, uint32_t count, struct mu_layout *ret,
		   struct mu_err *err)
{
	struct mu_distribution how = {0};
	uint32_t *cpus = mu_arena_alloc(p->arena, (count + 1) * sizeof *cpus), *host = NULL, nodes = 0;
	int code = 0;
	if (p->ask->distribution && p->ask->distribution[0])
		code = mu_distribution_parse(p->ask->distribution, &how, err);
	for (uint32_t i = 0; i < count; i++)
		if (room[i].chosen)
			cpus[nodes++] = room[i].now;
	if (code == 0 && how.nodes == MU_SPREAD_ARBITRARY)
		code = host_list(p, room, count, &host, err);
	struct mu_layout_ask ask = {.nodes = nodes,
				    .cpus = cpus,
				    .tasks = p->tasks,
				    .cpus_per_task = cpus_each(p),
				    .tasks_per_node = p->ask->ntasks_per_node,
				    .overcommit = p->ask->overcommit,
				    .spread = how.nodes,
				    .even = how.nopack,
				    .plane = how.plane,
				    .host = host};
	return code ? code : mu_layout_make(&ask, p->arena, ret, err);
}

static int fill_part(struct agent_placing *p, uint32_t node, const struct mu_layout *layout, uint32_t index,
		     Mu__StepPart *ret, struct mu_err *err)
{
	const Mu__AttemptOrder *o = p->t->order;
	struct mu_bits have = {0}, got = {0};
	uint32_t tasks = layout->tasks_on[index], want = tasks * cpus_each(p), n = 0;
	uint64_t used;
	char text[8192];
	mu__step_part__init(ret);
	ret->node = o->alloc[node]->node;
	for (size_t i = 0; i < o->n_peer; i++)
		if (o->peer[i]->node && strcmp(o->peer[i]->node, ret->node) == 0) {
			ret->addr = o->peer[i]->addr;
			ret->has_port = 1;
			ret->port = o->peer[i]->port;
		}
	ret->task = mu_arena_alloc(p->arena, (tasks + 1) * sizeof *ret->task);
	for (uint32_t t = 0; t < layout->tasks; t++)
		if (layout->node_of[t] == index)
			ret->task[ret->n_task++] = t;
	look(p, node, &have, &used);
	for (uint32_t k = mu_bits_next(&have, 0); k != UINT32_MAX && (!p->exact || n < want);
	     k = mu_bits_next(&have, k + 1), n++)
		mu_bits_set(&got, k);
	mu_bits_print(&got, text, sizeof text);
	mu_bits_free(&have);
	mu_bits_free(&got);
	ret->cpu_list = mu_arena_strdup(p->arena, text);
	ret->has_cpus = ret->has_mem_mib = 1;
	ret->cpus = n;
	ret->mem_mib = p->ask->mem_mib ? p->ask->mem_mib : p->ask->mem_cpu_mib * n;
	uint64_t most = o->alloc[node]->mem_mib;
	if (most && ret->mem_mib > most)
		return mu_fail(err, MU_ESTEPMEMORY, "%s", mu_strerror(MU_ESTEPMEMORY));
	if (!p->overlap && ret->mem_mib && most && used + ret->mem_mib > most)
		return busy(p, err);
	if (tasks > TASKS_MAX)
		return mu_fail(err, MU_ELIMIT,
			       "%u tasks are more than the %d that one node may run in a step", tasks,
			       TASKS_MAX);
	return place_gres(p, node, ret, err);
}

/* "(vector,(0,2,4))": from node 0 on, two nodes with four tasks each, and so on in the order of the tasks.
 * PLACE gives a node of the layout its number among those that have tasks. NULL where it would be too long.
 */
static char *print_mapping(struct agent_placing *p, const struct mu_layout *layout, const uint32_t *place)
{
	enum { MAPPING_MAX = 1000 };
	MU_CLEANUP(mu_buf_free) struct mu_buf b = {0};
	mu_buf_str(&b, "(vector");
	for (uint32_t t = 0; t < layout->tasks && b.len < MAPPING_MAX;) {
		uint32_t first = place[layout->node_of[t]], nodes = 0, each = 0;
		while (t < layout->tasks && place[layout->node_of[t]] == first + nodes) {
			uint32_t run = 0;
			while (t + run < layout->tasks && layout->node_of[t + run] == layout->node_of[t])
				run++;
			if (nodes && run != each)
				break;
			each = run;
			nodes++;
			t += run;
		}
		mu_buf_printf(&b, ",(%u,%u,%u)", first, nodes, each);
	}
	mu_buf_str(&b, ")");
	return b.len < MAPPING_MAX ? mu_arena_strdup(p->arena, (char *)b.data) : NULL;
}

static int fill_parts(struct agent_placing *p, const struct room *room, uint32_t count, struct mu_err *err)
{
	struct mu_layout layout;
	MU_CLEANUP(mu_buf_free) struct mu_buf folded = {0}, counts = {0};
	const char **names = mu_arena_alloc(p->arena, (count + 1) * sizeof *names);
	uint32_t *tasks = mu_arena_alloc(p->arena, (count + 1) * sizeof *tasks), index = 0;
	uint32_t *place = mu_arena_alloc(p->arena, (count + 1) * sizeof *place);
	int code = lay_out(p, room, count, &layout, err);
	p->part = mu_arena_alloc(p->arena, (count + 1) * sizeof *p->part);
	for (uint32_t i = 0; code == 0 && i < count; i++) {
		if (!room[i].chosen)
			continue;
		if (layout.tasks_on[index]) { /* a node without a task is no node of the step */
			Mu__StepPart *part = mu_arena_alloc(p->arena, sizeof *part);
			code = fill_part(p, i, &layout, index, part, err);
			place[index] = (uint32_t)p->n_part;
			names[p->n_part] = part->node;
			tasks[p->n_part] = layout.tasks_on[index];
			p->part[p->n_part++] = part;
		}
		index++;
	}
	if (code)
		return code;
	mu_hostlist_fold(names, p->n_part, &folded);
	mu_counts_print(tasks, p->n_part, &counts);
	p->whole = mu_arena_alloc(p->arena, sizeof *p->whole);
	mu__step_whole__init(p->whole);
	p->whole->has_nodes = p->whole->has_ntasks = 1;
	p->whole->nodes = (uint32_t)p->n_part;
	p->whole->ntasks = p->tasks;
	p->whole->node_list = mu_arena_strdup(p->arena, (char *)folded.data);
	p->whole->tasks_per_node = mu_arena_strdup(p->arena, (char *)counts.data);
	p->whole->mapping = print_mapping(p, &layout, place);
	return 0;
}

int agent_place(struct agent_placing *p, struct mu_err *err)
{
	const Mu__StepAsk *ask = p->ask;
	const Mu__AttemptOrder *o = p->t->order;
	uint32_t count = (uint32_t)o->n_alloc, least = ask->nodes ? ask->nodes : 1, candidates = 0;
	p->tasks = ask->has_ntasks && ask->ntasks ? ask->ntasks : 1;
	if (!o->batch_host)
		return mu_fail(err, MU_EDISABLED, "steps of job %u are started on its first node", o->job);
	if (ask->n_argv == 0)
		return mu_fail(err, MU_EINVAL, "no command was given");
	if (p->tasks > ALL_TASKS_MAX)
		return mu_fail(err, MU_ELIMIT, "%u tasks are more than the %d that a step may have", p->tasks,
			       ALL_TASKS_MAX);
	struct room *room = mu_arena_alloc(p->arena, (count + 1) * sizeof *room);
	int code = check_names(p, err);
	for (uint32_t i = 0; code == 0 && i < count; i++) {
		room[i].wanted = i >= ask->relative &&
				 !named(ask->nodes_excluded, ask->n_nodes_excluded, o->alloc[i]->node);
		if (!room[i].wanted)
			continue;
		candidates++;
		code = look_at(p, i, &room[i], err);
	}
	if (code)
		return code;
	uint32_t most = ask->has_nodes_max && ask->nodes_max >= least ? ask->nodes_max
			: ask->nodes_asked			      ? least
								      : count;
	if (least > candidates)
		return mu_fail(err, MU_ENODECOUNT,
			       "Requested node configuration is not available: %u nodes are asked for and "
			       "job %u has %u to give",
			       least, o->job, candidates);
	if (!choose(p, room, count, least, most, false))
		return mu_fail(err, MU_ECPUCOUNT, "%s", mu_strerror(MU_ECPUCOUNT));
	if (!choose(p, room, count, least, most, true))
		return busy(p, err);
	return fill_parts(p, room, count, err);
}

/* ---- a part ---- */

static bool has_unit(const Mu__AllocNode *n, const char *name, uint32_t index)
{
	for (size_t g = 0; g < n->n_gres; g++)
		for (size_t i = 0; i < n->gres[g]->n_index; i++)
			if (n->gres[g]->index[i] == index && n->gres[g]->name &&
			    strcmp(n->gres[g]->name, name) == 0)
				return true;
	return false;
}

static int check_cpus(struct agent_placing *p, const Mu__StepPart *part, uint32_t node, struct mu_err *err)
{
	struct mu_bits all = {0}, want = {0}, free = {0};
	uint64_t used;
	const Mu__AllocNode *n = p->t->order->alloc[node];
	int code = 0;
	mu_bits_parse(&all, n->cpu_list ? n->cpu_list : "", EXE_CPUS_MAX);
	mu_bits_parse(&want, part->cpu_list ? part->cpu_list : "", EXE_CPUS_MAX);
	look(p, node, &free, &used);
	uint32_t count = mu_bits_count(&want);
	for (uint32_t k = mu_bits_next(&want, 0); code == 0 && k != UINT32_MAX;
	     k = mu_bits_next(&want, k + 1)) {
		if (!mu_bits_test(&all, k))
			code = mu_fail(err, MU_EPERM, "CPU %u of %s is not job %u's", k, n->node,
				       p->t->order->job);
		else if (!mu_bits_test(&free, k))
			code = busy(p, err);
	}
	if (code == 0 && (count == 0 || (part->mem_mib && n->mem_mib && part->mem_mib > n->mem_mib)))
		code = mu_fail(err, MU_EINVAL, "the part of a step on %s is not what the job has there",
			       n->node);
	if (code == 0 && !p->overlap && part->mem_mib && n->mem_mib && used + part->mem_mib > n->mem_mib)
		code = busy(p, err);
	mu_bits_free(&all);
	mu_bits_free(&want);
	mu_bits_free(&free);
	return code;
}

int agent_place_part(struct agent_placing *p, struct mu_err *err)
{
	Mu__StepPart *part = p->ask->part;
	const Mu__AttemptOrder *o = p->t->order;
	uint32_t node = o->node_index;
	if (!p->ask->whole || !part->node || node >= o->n_alloc ||
	    strcmp(part->node, o->alloc[node]->node) != 0 || part->n_task == 0 || part->n_task > TASKS_MAX ||
	    p->ask->whole->step >= MU_STEP_BATCH || p->ask->n_argv == 0)
		return mu_fail(err, MU_EINVAL, "the part of a step that was sent here is malformed");
	for (size_t i = 0; i < part->n_task; i++)
		if (part->task[i] >= ALL_TASKS_MAX || (i && part->task[i] <= part->task[i - 1]))
			return mu_fail(err, MU_EINVAL, "task %u of a step's part is out of order",
				       part->task[i]);
	for (size_t g = 0; g < part->n_gres; g++)
		for (size_t i = 0; i < part->gres[g]->n_index; i++) {
			const char *name = part->gres[g]->name;
			if (!name || !has_unit(o->alloc[node], name, part->gres[g]->index[i]))
				return mu_fail(err, MU_EPERM, "a device of a step's part is not job %u's",
					       o->job);
			if (p->ask->n_gres && !p->overlap &&
			    unit_is_taken(p, node, name, part->gres[g]->index[i]))
				return busy(p, err);
		}
	p->tasks = (uint32_t)part->n_task;
	p->whole = p->ask->whole;
	p->part = mu_arena_alloc(p->arena, sizeof *p->part);
	p->part[0] = part;
	p->n_part = 1;
	return check_cpus(p, part, node, err);
}
