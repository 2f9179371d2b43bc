/* cli/column_node.c: the columns of sinfo. A cell is a group of nodes of one partition. Where nodes of a
 * group differ in a number and -e was not asked, the least is shown with a "+". */
#include <inttypes.h>
#include <string.h>

#include "cli/column.h"
#include "proto/base/bits.h"
#include "proto/hostlist.h"
#include "proto/states.h"

/* What registered, else what the configuration says. */
static uint32_t known(uint32_t said, bool has_conf, uint32_t conf, uint32_t otherwise)
{
	return said ? said : has_conf && conf ? conf : otherwise;
}

uint32_t cli_node_sockets(const Mu__NodeRow *n)
{
	return known(n->sockets, n->conf, n->conf ? n->conf->sockets : 0, 1);
}

uint32_t cli_node_threads(const Mu__NodeRow *n)
{
	return known(n->threads_per_core, n->conf, n->conf ? n->conf->threads_per_core : 0, 1);
}

uint32_t cli_node_cpus(const Mu__NodeRow *n)
{
	return known(n->conf ? n->conf->cpus : 0, true, n->cpus, 1);
}

uint32_t cli_node_cores(const Mu__NodeRow *n)
{
	uint32_t each = cli_node_cpus(n) / (cli_node_sockets(n) * cli_node_threads(n));

	return known(n->cores_per_socket, n->conf, n->conf ? n->conf->cores_per_socket : 0, each ? each : 1);
}

uint64_t cli_node_memory(const Mu__NodeRow *n)
{
	return n->conf && n->conf->real_memory_mib ? n->conf->real_memory_mib
	       : n->real_memory_mib		   ? n->real_memory_mib
						   : 1;
}

uint32_t cli_node_shown_base(const Mu__NodeRow *n)
{
	if (n->base_state != NODE_IDLE || !n->alloc_cpus)
		return n->base_state;
	return n->alloc_cpus >= cli_node_cpus(n) || n->exclusive ? NODE_ALLOCATED : NODE_MIXED;
}

uint32_t cli_node_state_rank(const Mu__NodeRow *n)
{
	uint32_t rank = cli_node_shown_base(n);

	if (n->flags & NODE_FLAG_DRAIN)
		rank += 0x200;
	if (n->flags & NODE_FLAG_NO_RESPOND)
		rank += 0x400;
	if (n->flags & NODE_FLAG_COMPLETING)
		rank += 0x800;
	return rank;
}

/* "(S:0-1)": the sockets that entry G's devices are near to, where that is known. */
static void put_sockets(const Mu__NodeRow *n, const Mu__GresHave *g, struct mu_buf *out)
{
	struct mu_bits cores MU_CLEANUP(mu_bits_free) = {0}, sockets MU_CLEANUP(mu_bits_free) = {0};
	char text[256];

	if (g->n_unit == 0 || !n->cores_per_socket)
		return;
	for (size_t i = 0; i < g->n_unit; i++) {
		struct mu_bits one MU_CLEANUP(mu_bits_free) = {0};

		if (g->unit[i]->cores && mu_bits_parse(&one, g->unit[i]->cores, UINT16_MAX) == 0)
			mu_bits_or(&cores, &one);
	}
	for (uint32_t c = mu_bits_next(&cores, 0); c != UINT32_MAX; c = mu_bits_next(&cores, c + 1))
		mu_bits_set(&sockets, c / n->cores_per_socket);
	if (mu_bits_print(&sockets, text, sizeof text) < sizeof text && *text)
		mu_buf_printf(out, "(S:%s)", text);
}

void cli_node_gres(const Mu__NodeRow *n, struct mu_buf *out)
{
	size_t count = n->n_gres ? n->n_gres : n->conf ? n->conf->n_gres : 0;

	for (size_t i = 0; i < count; i++) {
		const char *name = n->n_gres ? n->gres[i]->name : n->conf->gres[i]->name;
		const char *type = n->n_gres ? n->gres[i]->type : n->conf->gres[i]->type;
		uint64_t have = n->n_gres ? n->gres[i]->count : n->conf->gres[i]->count;

		mu_buf_printf(out, "%s%s%s%s:%" PRIu64, i ? "," : "", name ? name : "",
			      type && *type ? ":" : "", type ? type : "", have);
		if (n->n_gres)
			put_sockets(n, n->gres[i], out);
	}
}

void cli_node_gres_drain(const Mu__NodeRow *n, struct mu_buf *out)
{
	size_t start = out->len;

	for (size_t i = 0; i < n->n_gres; i++) {
		const Mu__GresHave *g = n->gres[i];
		struct mu_bits bad MU_CLEANUP(mu_bits_free) = {0};
		char text[256];

		for (uint32_t k = 0; k < g->n_unit; k++)
			if (g->unit[k]->fault && *g->unit[k]->fault)
				mu_bits_set(&bad, g->first_index + k);
		if (mu_bits_count(&bad) == 0 || mu_bits_print(&bad, text, sizeof text) >= sizeof text)
			continue;
		mu_buf_printf(out, "%s%s%s%s:%u(IDX:%s)", out->len > start ? "," : "", g->name ? g->name : "",
			      g->type && *g->type ? ":" : "", g->type ? g->type : "", mu_bits_count(&bad),
			      text);
	}
	if (out->len == start)
		mu_buf_str(out, "N/A");
}

static void put_unit(const Mu__GresHave *g, size_t k, struct mu_buf *out)
{
	const Mu__GresUnit *u = g->unit[k];

	mu_buf_printf(out, "GresIdx=%s:%zu", g->name ? g->name : "", g->first_index + k);
	if (u->uuid && *u->uuid)
		mu_buf_printf(out, " UUID=%s", u->uuid);
	if (u->pci && *u->pci)
		mu_buf_printf(out, " PCI=%s", u->pci);
	if (k < g->n_file && *g->file[k])
		mu_buf_printf(out, " File=%s", g->file[k]);
	for (size_t i = 0; i < u->n_file; i++)
		mu_buf_printf(out, ",%s", u->file[i]);
	if (u->mem_mib)
		mu_buf_printf(out, " Memory=%" PRIu64 "M", u->mem_mib);
	if (u->cores && *u->cores)
		mu_buf_printf(out, " Cores=%s", u->cores);
	for (size_t i = 0; i < u->n_link; i++)
		mu_buf_printf(out, "%s%d", i ? "," : " Links=", u->link[i]);
	if (u->fault && *u->fault)
		mu_buf_printf(out, " Fault=%s", u->fault);
}

void cli_node_gres_used(const Mu__NodeRow *n, struct mu_buf *out)
{
	for (size_t i = 0; i < n->n_gres; i++) {
		const Mu__GresHave *g = n->gres[i];
		const char *type = g->type && *g->type ? g->type : "(null)";

		mu_buf_printf(out, "%s%s:%s:%" PRIu64 "(IDX:", i ? "," : "", g->name ? g->name : "", type,
			      g->used);
		for (size_t k = 0; k < g->n_used_index; k++) {
			size_t last = k;

			while (last + 1 < g->n_used_index &&
			       g->used_index[last + 1] == g->used_index[last] + 1)
				last++;
			mu_buf_printf(out, "%s%u", k ? "," : "", g->first_index + g->used_index[k]);
			if (last > k)
				mu_buf_printf(out, "-%u", g->first_index + g->used_index[last]);
			k = last;
		}
		mu_buf_str(out, g->n_used_index ? ")" : "N/A)");
	}
}

void cli_node_devices(const Mu__NodeRow *n, const char *separator, struct mu_buf *out)
{
	mu_buf_str(out, "GresDrain=");
	cli_node_gres_drain(n, out);
	mu_buf_printf(out, "%sGresUsed=", separator);
	cli_node_gres_used(n, out);
	if (!n->n_gres)
		mu_buf_str(out, "(null)");
	for (size_t i = 0; i < n->n_gres; i++)
		for (size_t k = 0; k < n->gres[i]->n_unit; k++) {
			mu_buf_str(out, separator);
			put_unit(n->gres[i], k, out);
		}
}

/* One "gres/NAME=COUNT" for each name, all its types together. */
static void add_gres_tres(const Mu__NodeRow *n, bool used, struct mu_buf *out)
{
	for (size_t i = 0; i < n->n_gres; i++) {
		const char *name = n->gres[i]->name ? n->gres[i]->name : "";
		uint64_t count = 0;
		bool before = false;

		for (size_t k = 0; k < n->n_gres; k++) {
			if (strcmp(n->gres[k]->name ? n->gres[k]->name : "", name) != 0)
				continue;
			before = before || k < i;
			count += used ? n->gres[k]->used : n->gres[k]->count;
		}
		if (!before && count)
			mu_buf_printf(out, ",gres/%s=%" PRIu64, name, count);
	}
}

void cli_node_tres(const Mu__NodeRow *n, struct mu_buf *out)
{
	uint32_t cpus = cli_node_cpus(n);

	mu_buf_printf(out, "cpu=%u,mem=%" PRIu64 "M,billing=%u", cpus, cli_node_memory(n), cpus);
	add_gres_tres(n, false, out);
}

void cli_node_tres_used(const Mu__NodeRow *n, struct mu_buf *out)
{
	if (!n->alloc_cpus)
		return;
	mu_buf_printf(out, "cpu=%u", n->alloc_cpus);
	if (n->alloc_mem_mib)
		mu_buf_printf(out, ",mem=%" PRIu64 "M", n->alloc_mem_mib);
	add_gres_tres(n, true, out);
}

#define GET(column) static void get_##column(const struct cli_cell *c, struct mu_buf *out)
static const Mu__PartitionConf no_part = MU__PARTITION_CONF__INIT;

static const Mu__PartitionConf *part_of(const struct cli_cell *c)
{
	const Mu__PartitionRow *p = c->group->partition;

	return p && p->conf ? p->conf : &no_part;
}

static const Mu__NodeRow *first(const struct cli_cell *c)
{
	return c->group->count ? c->group->node[0] : NULL;
}

static void put_mark(struct mu_buf *out, const char *text, bool differ)
{
	mu_buf_printf(out, "%s%s", text, differ ? "+" : "");
}

/* The least value of FN over the group, with "+" when they differ. */
static void put_least(const struct cli_cell *c, struct mu_buf *out, uint64_t (*fn)(const Mu__NodeRow *))
{
	uint64_t least = 0, most = 0;
	char text[24];

	for (size_t i = 0; i < c->group->count; i++) {
		uint64_t v = fn(c->group->node[i]);

		least = i == 0 || v < least ? v : least;
		most = v > most ? v : most;
	}
	snprintf(text, sizeof text, "%" PRIu64, least);
	put_mark(out, text, most > least);
}

static uint64_t value_cpus(const Mu__NodeRow *n)
{
	return cli_node_cpus(n);
}
static uint64_t value_memory(const Mu__NodeRow *n)
{
	return cli_node_memory(n);
}
static uint64_t value_sockets(const Mu__NodeRow *n)
{
	return cli_node_sockets(n);
}
static uint64_t value_cores(const Mu__NodeRow *n)
{
	return cli_node_cores(n);
}
static uint64_t value_threads(const Mu__NodeRow *n)
{
	return cli_node_threads(n);
}
static uint64_t value_weight(const Mu__NodeRow *n)
{
	return n->conf && n->conf->weight ? n->conf->weight : 1;
}
static uint64_t value_disk(const Mu__NodeRow *n)
{
	return n->conf && n->conf->tmp_disk_mib ? n->conf->tmp_disk_mib : n->tmp_disk_mib;
}

GET(cpus)
{
	put_least(c, out, value_cpus);
}
GET(memory)
{
	put_least(c, out, value_memory);
}
GET(sockets)
{
	put_least(c, out, value_sockets);
}
GET(cores)
{
	put_least(c, out, value_cores);
}
GET(threads)
{
	put_least(c, out, value_threads);
}
GET(weight)
{
	put_least(c, out, value_weight);
}
GET(disk)
{
	put_least(c, out, value_disk);
}

GET(sct)
{
	put_least(c, out, value_sockets);
	mu_buf_str(out, ":");
	put_least(c, out, value_cores);
	mu_buf_str(out, ":");
	put_least(c, out, value_threads);
}

GET(load)
{
	uint32_t least = 0, most = 0;

	for (size_t i = 0; i < c->group->count; i++) {
		uint32_t v = c->group->node[i]->load_centi;

		least = i == 0 || v < least ? v : least;
		most = v > most ? v : most;
	}
	if (!c->group->count)
		mu_buf_str(out, "N/A");
	else if (most == least)
		mu_buf_printf(out, "%u.%02u", least / 100, least % 100);
	else
		mu_buf_printf(out, "%u.%02u-%u.%02u", least / 100, least % 100, most / 100, most % 100);
}

GET(free_mem)
{
	uint64_t least = 0, most = 0;

	for (size_t i = 0; i < c->group->count; i++) {
		uint64_t v = c->group->node[i]->free_mem_mib;

		least = i == 0 || v < least ? v : least;
		most = v > most ? v : most;
	}
	if (!most)
		mu_buf_str(out, "N/A");
	else if (most == least)
		mu_buf_printf(out, "%" PRIu64, least);
	else
		mu_buf_printf(out, "%" PRIu64 "-%" PRIu64, least, most);
}

GET(alloc_mem)
{
	mu_buf_printf(out, "%" PRIu64, first(c) ? first(c)->alloc_mem_mib : 0);
}
GET(partition)
{
	mu_buf_printf(out, "%s%s", part_of(c)->name ? part_of(c)->name : "N/A",
		      part_of(c)->is_default ? "*" : "");
}
GET(partition_name)
{
	mu_buf_str(out, part_of(c)->name ? part_of(c)->name : "N/A");
}
GET(nodes)
{
	mu_buf_printf(out, "%zu", c->group->count);
}
GET(empty)
{
	mu_buf_str(out, "");
}
GET(reservation)
{
	mu_buf_str(out, "");
}
GET(cluster)
{
	mu_buf_str(out, c->cluster ? c->cluster : "N/A");
}
GET(root)
{
	mu_buf_str(out, part_of(c)->root_only ? "yes" : "no");
}
GET(alloc_nodes)
{
	mu_buf_str(out, part_of(c)->alloc_nodes ? part_of(c)->alloc_nodes : "all");
}
GET(preempt)
{
	mu_buf_str(out, part_of(c)->preempt_mode ? part_of(c)->preempt_mode : "OFF");
}
GET(job_factor)
{
	mu_buf_printf(out, "%u", part_of(c)->has_priority_job_factor ? part_of(c)->priority_job_factor : 1);
}
GET(tier)
{
	mu_buf_printf(out, "%u", part_of(c)->has_priority_tier ? part_of(c)->priority_tier : 1);
}

GET(avail)
{
	const char *state = part_of(c)->state;

	mu_buf_str(out, !part_of(c)->name	      ? "n/a"
			: !state		      ? "up"
			: strcmp(state, "UP") == 0    ? "up"
			: strcmp(state, "DOWN") == 0  ? "down"
			: strcmp(state, "DRAIN") == 0 ? "drain"
						      : "inact");
}

static void put_limit(struct mu_buf *out, bool has, int64_t sec, const char *unlimited)
{
	char text[32];

	if (!has || sec < 0) {
		mu_buf_str(out, unlimited);
		return;
	}
	mu_span_print(sec, 1, text);
	mu_buf_str(out, text);
}

GET(time)
{
	put_limit(out, part_of(c)->has_max_time_sec, part_of(c)->max_time_sec,
		  part_of(c)->name ? "infinite" : "n/a");
}
GET(default_time)
{
	put_limit(out, part_of(c)->has_default_time_sec, part_of(c)->default_time_sec, "n/a");
}

GET(max_cpus)
{
	if (part_of(c)->max_cpus_node)
		mu_buf_printf(out, "%u", part_of(c)->max_cpus_node);
	else
		mu_buf_str(out, "UNLIMITED");
}

GET(size)
{
	const Mu__PartitionConf *p = part_of(c);
	uint32_t min = p->min_nodes ? p->min_nodes : 1;

	if (!p->has_max_nodes)
		mu_buf_printf(out, "%u-infinite", min);
	else if (p->max_nodes == min)
		mu_buf_printf(out, "%u", min);
	else
		mu_buf_printf(out, "%u-%u", min, p->max_nodes);
}

GET(groups)
{
	const Mu__PartitionConf *p = part_of(c);

	for (size_t i = 0; i < p->n_allow_groups; i++)
		mu_buf_printf(out, "%s%s", i ? "," : "", p->allow_groups[i]);
	if (!p->n_allow_groups)
		mu_buf_str(out, "all");
}

GET(oversubscribe)
{
	const char *o = part_of(c)->oversubscribe;

	if (!o || !*o)
		mu_buf_str(out, "NO");
	else if (strcmp(o, "EXCLUSIVE") == 0)
		mu_buf_str(out, "EXCLUSIV");
	else
		mu_buf_str(out, o);
}

static void put_state(const struct cli_cell *c, struct mu_buf *out, bool compact)
{
	const Mu__NodeRow *n = first(c);
	char text[64];

	if (!n) {
		mu_buf_str(out, "n/a");
		return;
	}
	mu_node_state_print(n->base_state, n->flags,
			    n->exclusive && n->alloc_cpus ? cli_node_cpus(n) : n->alloc_cpus,
			    cli_node_cpus(n), compact, text);
	mu_buf_str(out, text);
}

GET(state)
{
	put_state(c, out, true);
}
GET(state_long)
{
	put_state(c, out, false);
}
GET(state_complete)
{
	const Mu__NodeRow *n = first(c);
	char text[128];

	if (!n) {
		mu_buf_str(out, "n/a");
		return;
	}
	mu_node_state_scontrol(n->base_state, n->flags, n->alloc_cpus, cli_node_cpus(n), text);
	for (char *p = text; *p; p++)
		*p = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p;
	mu_buf_str(out, text);
}

GET(node_list)
{
	const char **names = mu_arena_alloc(c->arena, (c->group->count + 1) * sizeof *names);

	for (size_t i = 0; i < c->group->count; i++)
		names[i] = c->group->node[i]->name;
	mu_hostlist_fold_sorted(names, c->group->count, out);
}

GET(host)
{
	const Mu__NodeRow *n = first(c);

	mu_buf_str(out, !n						     ? ""
			: n->conf && n->conf->hostname && *n->conf->hostname ? n->conf->hostname
									     : n->name);
}

GET(addr)
{
	const Mu__NodeRow *n = first(c);

	mu_buf_str(out, !n ? "" : n->conf && n->conf->addr && *n->conf->addr ? n->conf->addr : n->name);
}

GET(port)
{
	mu_buf_printf(out, "%u", first(c) ? first(c)->port : 0);
}
GET(version)
{
	mu_buf_str(out, first(c) && first(c)->version ? first(c)->version : "");
}

GET(features)
{
	const Mu__NodeRow *n = first(c);

	if (!n || !n->conf || !n->conf->n_feature)
		mu_buf_str(out, "(null)");
	for (size_t i = 0; n && n->conf && i < n->conf->n_feature; i++)
		mu_buf_printf(out, "%s%s", i ? "," : "", n->conf->feature[i]);
}

GET(gres)
{
	size_t before = out->len;

	if (first(c))
		cli_node_gres(first(c), out);
	if (out->len == before)
		mu_buf_str(out, "(null)");
}

GET(gres_used)
{
	size_t before = out->len;

	if (first(c))
		cli_node_gres_used(first(c), out);
	if (out->len == before)
		mu_buf_str(out, "(null)");
}

GET(reason)
{
	const Mu__NodeRow *n = first(c);

	mu_buf_str(out, n && n->reason && *n->reason ? n->reason : n && n->emulated ? "emulated" : "none");
}

static bool has_reason(const Mu__NodeRow *n)
{
	return n && n->reason && *n->reason;
}

GET(timestamp)
{
	char text[32];

	if (!has_reason(first(c)) || !first(c)->reason_usec) {
		mu_buf_str(out, "Unknown");
		return;
	}
	mu_date_print(first(c)->reason_usec, &cli_zone, text);
	mu_buf_str(out, text);
}

GET(user)
{
	if (has_reason(first(c)))
		mu_buf_str(out, first(c)->reason_user ? first(c)->reason_user
						      : cli_user_name(c->arena, first(c)->reason_uid));
	else
		mu_buf_str(out, "Unknown");
}

GET(user_long)
{
	const Mu__NodeRow *n = first(c);

	if (has_reason(n))
		mu_buf_printf(out, "%s(%u)",
			      n->reason_user ? n->reason_user : cli_user_name(c->arena, n->reason_uid),
			      n->reason_uid);
	else
		mu_buf_str(out, "Unknown");
}

void cli_group_nodes(const struct cli_group *g, size_t ret[4])
{
	for (size_t i = 0; i < g->count; i++) {
		const Mu__NodeRow *n = g->node[i];

		if (n->base_state == NODE_IDLE && (n->alloc_cpus || (n->flags & NODE_FLAG_COMPLETING)))
			ret[0]++;
		else if (n->base_state == NODE_IDLE &&
			 !(n->flags & (NODE_FLAG_DRAIN | NODE_FLAG_NO_RESPOND | NODE_FLAG_FAIL)))
			ret[1]++;
		else
			ret[2]++;
		ret[3]++;
	}
}

void cli_group_cpus(const struct cli_group *g, size_t ret[4])
{
	for (size_t i = 0; i < g->count; i++) {
		const Mu__NodeRow *n = g->node[i];
		uint32_t cpus = cli_node_cpus(n), used = n->alloc_cpus < cpus ? n->alloc_cpus : cpus;
		bool other = n->base_state != NODE_IDLE ||
			     (n->flags & (NODE_FLAG_DRAIN | NODE_FLAG_NO_RESPOND | NODE_FLAG_FAIL));

		ret[3] += cpus;
		ret[0] += used;
		ret[other ? 2 : 1] += cpus - used;
	}
}

GET(node_ai)
{
	size_t n[4] = {0};

	cli_group_nodes(c->group, n);
	mu_buf_printf(out, "%zu/%zu", n[0], n[1]);
}

GET(node_aiot)
{
	size_t n[4] = {0};

	cli_group_nodes(c->group, n);
	mu_buf_printf(out, "%zu/%zu/%zu/%zu", n[0], n[1], n[2], n[3]);
}

GET(cpu_aiot)
{
	size_t n[4] = {0};

	cli_group_cpus(c->group, n);
	mu_buf_printf(out, "%zu/%zu/%zu/%zu", n[0], n[1], n[2], n[3]);
}

static const struct cli_column node_columns[] = {
#define MU_COLUMN_NODE(letter, name, heading, flags, getter) {letter, name, heading, 20, flags, get_##getter},
#include "proto/columns.def"
};
const struct cli_columns cli_node_columns = {node_columns, sizeof node_columns / sizeof *node_columns};
