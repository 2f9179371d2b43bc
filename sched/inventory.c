/* sched/inventory.c: what a node has: the configuration where it says, else what the node said of itself; and
 * whether what it said is enough. */
#include "sched/state.h"

#include <stdlib.h>

static uint32_t conf_cpus(const Mu__NodeConf *c)
{
	if (c->cpus)
		return c->cpus;
	uint64_t product =
	    (uint64_t)c->sockets * c->cores_per_socket * (c->threads_per_core ? c->threads_per_core : 1);
	return product <= SCH_CPUS_PER_NODE ? (uint32_t)product : SCH_CPUS_PER_NODE;
}

bool sch__inventory_same(const struct sch_node *n, const Mu__NodeConf *c)
{
	if ((conf_cpus(c) && conf_cpus(c) != n->row->cpus) ||
	    (c->threads_per_core && c->threads_per_core != sch__tpc(n)))
		return false;
	if (!c->n_gres && !(n->row->conf && n->row->conf->n_gres))
		return true;
	if (c->n_gres != n->row->n_gres)
		return false;
	for (size_t i = 0; i < c->n_gres; i++)
		if (!sch__same(c->gres[i]->name, n->row->gres[i]->name) ||
		    !sch__same(c->gres[i]->type, n->row->gres[i]->type) ||
		    c->gres[i]->count != n->row->gres[i]->count)
			return false;
	return true;
}

static void cpu_shape(Mu__NodeRow *row, const Mu__NodeConf *c, const Mu__NodeRow *said)
{
	uint32_t cpus = conf_cpus(c) ? conf_cpus(c) : said && said->cpus ? said->cpus : row->cpus;
	uint32_t threads = c->threads_per_core				? c->threads_per_core
			   : said && said->threads_per_core && !c->cpus ? said->threads_per_core
			   : row->threads_per_core			? row->threads_per_core
									: 1;
	uint32_t sockets = c->sockets		   ? c->sockets
			   : said && said->sockets ? said->sockets
			   : row->sockets	   ? row->sockets
						   : 1;
	if (cpus && cpus % threads)
		threads = 1;
	if (cpus && cpus < sockets * threads)
		sockets = 1;
	SCH_SET(row, cpus, cpus);
	SCH_SET(row, threads_per_core, threads);
	SCH_SET(row, sockets, sockets);
	SCH_SET(row, cores_per_socket, c->cores_per_socket ? c->cores_per_socket : cpus / sockets / threads);
}

static Mu__GresHave *have_new(const char *name, const char *type, uint64_t count, char *const *file,
			      size_t n_file, const char *cores)
{
	Mu__GresHave *h = calloc(1, sizeof(*h));
	if (!h)
		abort();
	mu__gres_have__init(h);
	h->name = sch__strdup(name);
	h->type = sch__strdup(type);
	h->cores = sch__strdup(cores);
	SCH_SET(h, count, count);
	h->file = calloc(n_file + 1, sizeof(h->file[0]));
	if (!h->file)
		abort();
	for (size_t i = 0; i < n_file; i++)
		h->file[i] = sch__copy_text(file[i] ? file[i] : "");
	h->n_file = n_file;
	return h;
}

static void gres_clear(Mu__NodeRow *row)
{
	for (size_t i = 0; i < row->n_gres; i++)
		mu__gres_have__free_unpacked(row->gres[i], NULL);
	free(row->gres);
	row->gres = NULL;
	row->n_gres = 0;
}

void sch__inventory_first_index(Mu__NodeRow *row)
{
	for (size_t i = 0; i < row->n_gres; i++) {
		uint32_t first = 0;
		for (size_t k = 0; k < i; k++)
			if (sch__same(row->gres[k]->name, row->gres[i]->name))
				first += (uint32_t)row->gres[k]->count;
		SCH_SET(row->gres[i], first_index, first);
	}
}

static bool same_entry(const Mu__GresHave *a, const Mu__GresHave *b)
{
	return sch__same(a->name, b->name) && sch__same(a->type, b->type) && a->count == b->count;
}

static void units_clear(Mu__GresHave *h)
{
	for (size_t i = 0; i < h->n_unit; i++)
		mu__gres_unit__free_unpacked(h->unit[i], NULL);
	free(h->unit);
	h->unit = NULL;
	h->n_unit = 0;
}

/* What FROM knows of each of its devices, which are H's too: with their files where the configuration names
 * none. */
static void units_take(Mu__GresHave *h, const Mu__GresHave *from)
{
	if (from->n_unit != h->count || (h->n_file && h->n_file != from->n_unit))
		return;
	units_clear(h);
	h->unit = calloc(from->n_unit + 1, sizeof(h->unit[0]));
	char **file = calloc(from->n_unit + 1, sizeof(file[0]));
	if (!h->unit || !file)
		abort();
	for (; h->n_unit < from->n_unit; h->n_unit++) {
		h->unit[h->n_unit] = sch__copy_message(&from->unit[h->n_unit]->base);
		file[h->n_unit] = sch__copy_text(h->n_unit < from->n_file ? from->file[h->n_unit] : "");
	}
	for (size_t i = 0; i < h->n_file; i++)
		free(h->file[i]);
	free(h->file);
	h->file = file;
	h->n_file = h->n_unit;
}

/* An entry of its own for each that the configuration has, else for each that the node said. What is known of
 * the devices is what was said last. */
static void gres_set(Mu__NodeRow *row, const Mu__NodeConf *c, const Mu__NodeRow *said)
{
	if (!c->n_gres && !said)
		return;
	const Mu__NodeRow *known = said ? said : row;
	size_t count = c->n_gres ? c->n_gres : said->n_gres;
	Mu__GresHave **list = calloc(count + 1, sizeof(list[0]));
	if (!list)
		abort();
	for (size_t i = 0; i < count; i++) {
		list[i] = c->n_gres
			      ? have_new(c->gres[i]->name, c->gres[i]->type, c->gres[i]->count,
					 c->gres[i]->file, c->gres[i]->n_file, c->gres[i]->cores)
			      : have_new(said->gres[i]->name, said->gres[i]->type, said->gres[i]->count,
					 said->gres[i]->file, said->gres[i]->n_file, said->gres[i]->cores);
		if (i < known->n_gres && same_entry(list[i], known->gres[i]))
			units_take(list[i], known->gres[i]);
	}
	gres_clear(row);
	row->gres = list;
	row->n_gres = count;
	sch__inventory_first_index(row);
}

/* ---- faults ---- */

static bool holds_unit(struct sch_job *j, uint32_t attempt, const struct sch_node *n, uint32_t entry,
		       uint32_t index)
{
	const struct sch_alloc *a = sch__alloc_on(j, attempt, n);
	for (uint32_t i = 0; a && i < a->got_count; i++)
		if (a->got[i].entry == entry && mu_bits_test(&a->got[i].index, index))
			return true;
	return false;
}

/* The job with the device is told; it may go on. */
static void tell_holders(struct sch_ev *ev, const struct sch_node *n, uint32_t entry, uint32_t index,
			 const char *what)
{
	for (uint32_t i = 0; i < n->hold_count; i++) {
		struct sch_job *j = n->hold[i].job;
		if (!holds_unit(j, n->hold[i].attempt, n, entry, index))
			continue;
		sch__str_set(ev->st, &j->run->note,
			     mu_arena_printf(ev->arena, "node %s, %s", n->row->name, what));
		sch__touch(ev->st, &j->rec);
	}
}

const char *sch__inventory_faults(struct sch_ev *ev, struct sch_node *n, const Mu__NodeRow *said)
{
	const char *all = NULL;
	for (uint32_t g = 0; g < n->row->n_gres && g < said->n_gres; g++) {
		Mu__GresHave *have = n->row->gres[g];
		const Mu__GresHave *now = said->gres[g];
		if (!same_entry(have, now) || now->n_unit != have->count)
			continue;
		for (uint32_t u = 0; u < now->n_unit; u++) {
			const Mu__GresUnit *unit = now->unit[u];
			const char *old = u < have->n_unit ? have->unit[u]->fault : NULL;
			if (!unit->fault || !*unit->fault || sch__same(old, unit->fault))
				continue;
			const char *what =
			    mu_arena_printf(ev->arena, "%s %u (%s): %s", have->name, have->first_index + u,
					    unit->uuid ? unit->uuid : "no UUID", unit->fault);
			tell_holders(ev, n, g, have->first_index + u, what);
			all = all ? mu_arena_printf(ev->arena, "%s; %s", all, what) : what;
		}
		units_take(have, now);
	}
	return all;
}

/* Whole cores: of those a job could use only a part, it gets none. */
void sch__inventory_spec(struct sch_node *n)
{
	const Mu__NodeConf *c = n->row->conf;
	uint32_t tpc = sch__tpc(n), cpus = n->row->cpus, count = c ? c->core_spec_count * tpc : 0;
	struct mu_bits named = {0};
	const char *list = NULL;
	mu_bits_free(&n->spec);
	for (size_t i = 0; c && i < c->n_extra; i++)
		if (sch__same(c->extra[i]->key, "CPUSpecList"))
			list = c->extra[i]->value;
	if (list && mu_bits_parse(&named, list, SCH_CPUS_PER_NODE - 1))
		mu_bits_free(&named);
	for (uint32_t b = cpus > count ? cpus - count : 0; b < cpus && !list; b++)
		mu_bits_set(&named, b);
	for (uint32_t b = mu_bits_next(&named, 0); b < cpus; b = mu_bits_next(&named, (b / tpc + 1) * tpc))
		for (uint32_t t = b / tpc * tpc; t < b / tpc * tpc + tpc && t < cpus; t++)
			mu_bits_set(&n->spec, t);
	mu_bits_free(&named);
	n->spec_cpus = mu_bits_count(&n->spec);
}

/* Only for a node on which nothing is held: its room is made anew. A node with jobs keeps what it has. */
void sch__inventory_set(struct sch_node *n, const Mu__NodeRow *said)
{
	const Mu__NodeConf *c = n->row->conf;
	uint64_t mem = c->real_memory_mib	       ? c->real_memory_mib
		       : said && said->real_memory_mib ? said->real_memory_mib
						       : n->row->real_memory_mib;
	uint64_t tmp = c->tmp_disk_mib		    ? c->tmp_disk_mib
		       : said && said->tmp_disk_mib ? said->tmp_disk_mib
						    : n->row->tmp_disk_mib;
	SCH_SET(n->row, real_memory_mib, mem);
	SCH_SET(n->row, tmp_disk_mib, tmp);
	if (n->hold_count) {
		sch__inventory_spec(n);
		return;
	}
	sch__room_free(&n->room, n);
	cpu_shape(n->row, c, said);
	gres_set(n->row, c, said);
	sch__inventory_spec(n);
	sch__room_init(&n->room, n);
}

/* Why what the node said is less than its configuration promises, in ARENA; NULL when it is enough. */
const char *sch__inventory_short(const struct sch_node *n, const Mu__NodeRow *said, struct mu_arena *arena)
{
	const Mu__NodeConf *c = n->row->conf;
	if (conf_cpus(c) && said->cpus < conf_cpus(c))
		return mu_arena_printf(arena,
				       "Low socket*core*thread count, Low CPUs (reported:%u, configured:%u)",
				       said->cpus, conf_cpus(c));
	if (c->real_memory_mib && said->real_memory_mib < c->real_memory_mib)
		return mu_arena_printf(arena, "Low RealMemory (reported:%llu < 100.00%% of configured:%llu)",
				       (unsigned long long)said->real_memory_mib,
				       (unsigned long long)c->real_memory_mib);
	if (c->tmp_disk_mib && said->tmp_disk_mib < c->tmp_disk_mib)
		return "Low TmpDisk";
	for (size_t i = 0; i < c->n_gres; i++) {
		uint64_t want = 0, have = 0;
		for (size_t k = 0; k < c->n_gres; k++)
			want += sch__same(c->gres[k]->name, c->gres[i]->name) ? c->gres[k]->count : 0;
		for (size_t k = 0; k < said->n_gres; k++)
			have += sch__same(said->gres[k]->name, c->gres[i]->name) ? said->gres[k]->count : 0;
		if (have < want)
			return mu_arena_printf(
			    arena, "gres/%s count reported lower than configured (%llu < %llu)",
			    c->gres[i]->name, (unsigned long long)have, (unsigned long long)want);
	}
	return NULL;
}
