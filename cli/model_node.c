/* cli/model_node.c: nodes, partitions and sinfo's groups of nodes as JSON or YAML. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/column.h"
#include "cli/model.h"
#include "cli/model_parts.h"
#include "proto/hostlist.h"
#include "proto/states.h"

static void node_devices(struct cli_json *j, const Mu__NodeRow *n)
{
	json_array(j, "gres_devices");
	for (size_t i = 0; i < n->n_gres; i++)
		for (size_t k = 0; k < n->gres[i]->n_unit; k++) {
			const Mu__GresHave *g = n->gres[i];
			const Mu__GresUnit *u = g->unit[k];

			json_object(j, NULL);
			json_text(j, "name", g->name);
			json_text(j, "type", g->type);
			json_number(j, "index", (int64_t)(g->first_index + k));
			json_text(j, "uuid", u->uuid);
			json_text(j, "pci", u->pci);
			json_text(j, "product", u->product);
			json_number(j, "memory", (int64_t)u->mem_mib);
			json_text(j, "cores", u->cores);
			json_text(j, "fault", u->fault);
			json_array(j, "files");
			json_text(j, NULL, k < g->n_file ? g->file[k] : "");
			for (size_t m = 0; m < u->n_file; m++)
				json_text(j, NULL, u->file[m]);
			json_array_end(j);
			json_array(j, "links");
			for (size_t m = 0; m < u->n_link; m++)
				json_number(j, NULL, u->link[m]);
			json_array_end(j);
			json_object_end(j);
		}
	json_array_end(j);
}

void cli_model_node(struct cli_json *j, const struct cli *c, const Mu__NodeRow *n,
		    const char *const *partitions, size_t count)
{
	struct mu_buf gres MU_CLEANUP(mu_buf_free) = {0}, used MU_CLEANUP(mu_buf_free) = {0};
	char words[128], *rest = words, *word;
	uint32_t cpus = cli_node_cpus(n);
	bool usable = n->base_state == NODE_IDLE &&
		      !(n->flags & (NODE_FLAG_DRAIN | NODE_FLAG_NO_RESPOND | NODE_FLAG_FAIL));

	cli_node_gres(n, &gres);
	cli_node_gres_used(n, &used);
	json_object(j, NULL);
	json_text(j, "name", n->name);
	json_text(j, "hostname",
		  n->conf && n->conf->hostname && *n->conf->hostname ? n->conf->hostname : n->name);
	json_text(j, "address", n->conf && n->conf->addr && *n->conf->addr ? n->conf->addr : n->name);
	json_number(j, "port", n->port);
	json_text(j, "cluster_name", c->conf.cluster);
	json_text(j, "architecture", n->arch);
	json_text(j, "operating_system", n->os);
	json_text(j, "version", n->version);
	mu_node_state_scontrol(n->base_state, n->flags, n->alloc_cpus, cpus, words);
	json_array(j, "state");
	while ((word = strsep(&rest, "+")))
		json_text(j, NULL, word);
	json_array_end(j);
	texts(j, "partitions", (char *const *)partitions, count);
	texts(j, "features", n->conf ? n->conf->feature : NULL, n->conf ? n->conf->n_feature : 0);
	texts(j, "active_features", n->conf ? n->conf->feature : NULL, n->conf ? n->conf->n_feature : 0);
	json_number(j, "boards", 1);
	json_number(j, "sockets", cli_node_sockets(n));
	json_number(j, "cores", cli_node_cores(n));
	json_number(j, "threads", cli_node_threads(n));
	json_number(j, "cpus", cpus);
	json_number(j, "effective_cpus", cpus);
	json_number(j, "specialized_cores", n->conf ? n->conf->core_spec_count : 0);
	json_number(j, "specialized_memory", n->conf ? (int64_t)n->conf->mem_spec_limit_mib : 0);
	json_text(j, "owner", "");
	json_text(j, "mcs_label", "");
	json_text(j, "reservation", "");
	json_number(j, "alloc_cpus", n->alloc_cpus);
	json_number(j, "alloc_idle_cpus", usable && n->alloc_cpus < cpus ? cpus - n->alloc_cpus : 0);
	json_number(j, "idle_cpus", usable && n->alloc_cpus < cpus ? cpus - n->alloc_cpus : 0);
	json_number(j, "real_memory", (int64_t)cli_node_memory(n));
	json_number(j, "alloc_memory", (int64_t)n->alloc_mem_mib);
	json_triple(j, "free_mem", n->free_mem_mib != 0, false, (int64_t)n->free_mem_mib);
	json_number(j, "free_memory", (int64_t)n->free_mem_mib);
	json_triple(j, "cpu_load", true, false, n->load_centi);
	json_number(j, "temporary_disk", (int64_t)n->tmp_disk_mib);
	json_number(j, "weight", n->conf && n->conf->weight ? n->conf->weight : 1);
	with(j, "gres", &gres);
	with(j, "gres_used", &used);
	mu_buf_reset(&gres);
	cli_node_gres_drain(n, &gres);
	with(j, "gres_drained", &gres);
	node_devices(j, n);
	json_text(j, "reason", n->reason);
	when(j, "reason_changed_at", n->reason_usec);
	json_text(j, "reason_set_by_user", n->reason_user);
	when(j, "boot_time", n->boot_usec);
	when(j, "slurmd_start_time", n->agent_start_usec);
	when(j, "last_busy", n->last_busy_usec);
	when(j, "resume_after", n->resume_usec);
	json_array(j, "next_state_after_reboot");
	json_array_end(j);
	json_text(j, "comment", n->comment);
	json_text(j, "extra", n->extra);
	json_text(j, "instance_id", n->instance_id);
	json_text(j, "instance_type", n->instance_type);
	mu_buf_reset(&gres);
	cli_node_tres(n, &gres);
	with(j, "tres", &gres);
	mu_buf_reset(&gres);
	cli_node_tres_used(n, &gres);
	with(j, "tres_used", &gres);
	json_object_end(j);
}

/* ---- partitions ---- */

static void joined(struct cli_json *j, const char *name, char *const *list, size_t count)
{
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};

	for (size_t i = 0; i < count; i++)
		mu_buf_printf(&text, "%s%s", i ? "," : "", list[i]);
	with(j, name, &text);
}

static const char *word_of(const Mu__PartitionConf *p, const char *key)
{
	for (size_t i = 0; i < p->n_extra; i++) {
		if (strcasecmp(p->extra[i]->key, key) == 0)
			return p->extra[i]->value;
	}
	return "";
}

static void partition_access(struct cli_json *j, const Mu__PartitionConf *p)
{
	json_object(j, "groups");
	joined(j, "allowed", p->allow_groups, p->n_allow_groups);
	json_object_end(j);
	json_object(j, "accounts");
	joined(j, "allowed", p->allow_accounts, p->n_allow_accounts);
	joined(j, "deny", p->deny_accounts, p->n_deny_accounts);
	json_object_end(j);
	json_object(j, "qos");
	joined(j, "allowed", p->allow_qos, p->n_allow_qos);
	joined(j, "deny", p->deny_qos, p->n_deny_qos);
	json_text(j, "assigned", p->qos);
	json_object_end(j);
}

static void partition_limits(struct cli_json *j, const Mu__PartitionConf *p)
{
	json_object(j, "defaults");
	json_number(j, "memory_per_cpu", (int64_t)p->def_mem_cpu_mib);
	some(j, "partition_memory_per_cpu", (int64_t)p->def_mem_cpu_mib);
	some(j, "partition_memory_per_node", (int64_t)p->def_mem_node_mib);
	json_triple(j, "time", p->has_default_time_sec && p->default_time_sec >= 0,
		    p->has_default_time_sec && p->default_time_sec<0, p->default_time_sec> 0
			? p->default_time_sec / 60
			: 0);
	json_text(j, "job", word_of(p, "JobDefaults"));
	json_object_end(j);
	json_object(j, "maximums");
	json_triple(j, "cpus_per_node", p->max_cpus_node != 0, p->max_cpus_node == 0, p->max_cpus_node);
	json_number(j, "memory_per_cpu", (int64_t)p->max_mem_cpu_mib);
	some(j, "partition_memory_per_cpu", (int64_t)p->max_mem_cpu_mib);
	some(j, "partition_memory_per_node", (int64_t)p->max_mem_node_mib);
	json_triple(j, "nodes", p->has_max_nodes, !p->has_max_nodes, p->max_nodes);
	json_triple(j, "time", p->max_time_sec > 0, p->max_time_sec < 0 || !p->has_max_time_sec,
		    p->max_time_sec > 0 ? p->max_time_sec / 60 : 0);
	json_object_end(j);
	json_object(j, "minimums");
	json_number(j, "nodes", p->min_nodes);
	json_object_end(j);
}

static void put_partition(struct cli_json *j, const char *name, const struct cli *c,
			  const Mu__PartitionRow *row)
{
	static const Mu__PartitionConf none = MU__PARTITION_CONF__INIT;
	const Mu__PartitionConf *p = row->conf ? row->conf : &none;
	struct mu_buf tres MU_CLEANUP(mu_buf_free) = {0};

	json_object(j, name);
	json_text(j, "name", p->name);
	json_text(j, "alternate", p->alternate);
	json_text(j, "cluster", c->conf.cluster);
	json_object(j, "nodes");
	json_text(j, "configured", p->nodes);
	json_text(j, "allowed_allocation", p->alloc_nodes);
	json_number(j, "total", row->total_nodes);
	json_object_end(j);
	json_text(j, "node_sets", "");
	json_object(j, "cpus");
	json_number(j, "task_binding", 0);
	json_number(j, "total", row->total_cpus);
	json_object_end(j);
	mu_buf_printf(&tres, "cpu=%u,node=%u,billing=%u", row->total_cpus, row->total_nodes, row->total_cpus);
	json_object(j, "tres");
	json_text(j, "billing_weights", word_of(p, "TRESBillingWeights"));
	with(j, "configured", &tres);
	json_object_end(j);
	partition_access(j, p);
	partition_limits(j, p);
	json_number(j, "grace_time", p->grace_time_sec);
	json_object(j, "priority");
	json_number(j, "job_factor", p->has_priority_job_factor ? p->priority_job_factor : 1);
	json_number(j, "tier", p->has_priority_tier ? p->priority_tier : 1);
	json_object_end(j);
	json_object(j, "partition");
	json_array(j, "state");
	json_text(j, NULL, p->state ? p->state : "UP");
	json_array_end(j);
	json_object_end(j);
	json_bool(j, "default", p->is_default);
	json_object_end(j);
}

void cli_model_partition(struct cli_json *j, const struct cli *c, const Mu__PartitionRow *row)
{
	put_partition(j, NULL, c, row);
}

/* ---- groups of nodes ---- */

static void four(struct cli_json *j, const size_t n[4])
{
	json_number(j, "allocated", (int64_t)n[0]);
	json_number(j, "idle", (int64_t)n[1]);
	json_number(j, "other", (int64_t)n[2]);
	json_number(j, "total", (int64_t)n[3]);
}

typedef uint64_t (*value_fn)(const Mu__NodeRow *n);

static void least_and_most(const struct cli_group *g, value_fn fn, int64_t ret[2])
{
	ret[0] = ret[1] = 0;
	for (size_t i = 0; i < g->count; i++) {
		int64_t v = (int64_t)fn(g->node[i]);

		ret[0] = i == 0 || v < ret[0] ? v : ret[0];
		ret[1] = v > ret[1] ? v : ret[1];
	}
}

static void bounds(struct cli_json *j, const char *name, const struct cli_group *g, value_fn fn)
{
	int64_t v[2];

	least_and_most(g, fn, v);
	json_object(j, name);
	json_number(j, "minimum", v[0]);
	json_number(j, "maximum", v[1]);
	json_object_end(j);
}

static uint64_t sockets(const Mu__NodeRow *n)
{
	return cli_node_sockets(n);
}
static uint64_t cores(const Mu__NodeRow *n)
{
	return cli_node_cores(n);
}
static uint64_t threads(const Mu__NodeRow *n)
{
	return cli_node_threads(n);
}
static uint64_t disk(const Mu__NodeRow *n)
{
	return n->conf && n->conf->tmp_disk_mib ? n->conf->tmp_disk_mib : n->tmp_disk_mib;
}
static uint64_t weight(const Mu__NodeRow *n)
{
	return n->conf && n->conf->weight ? n->conf->weight : 1;
}
static uint64_t load(const Mu__NodeRow *n)
{
	return n->load_centi;
}
static uint64_t free_memory(const Mu__NodeRow *n)
{
	return n->free_mem_mib;
}

static void group_memory(struct cli_json *j, const struct cli_group *g)
{
	int64_t v[2], allocated = 0;

	least_and_most(g, cli_node_memory, v);
	json_object(j, "memory");
	json_number(j, "minimum", v[0]);
	json_number(j, "maximum", v[1]);
	least_and_most(g, free_memory, v);
	json_object(j, "free");
	json_triple(j, "minimum", v[0] != 0, false, v[0]);
	json_triple(j, "maximum", v[1] != 0, false, v[1]);
	json_object_end(j);
	for (size_t i = 0; i < g->count; i++)
		allocated += (int64_t)g->node[i]->alloc_mem_mib;
	json_number(j, "allocated", allocated);
	json_object_end(j);
}

static void group_nodes(struct cli_json *j, const struct cli_group *g)
{
	size_t n[4] = {0}, cpus[4] = {0};

	cli_group_nodes(g, n);
	cli_group_cpus(g, cpus);
	json_object(j, "nodes");
	four(j, n);
	for (int k = 0; k < 3; k++) {
		json_array(j, k == 0 ? "hostnames" : k == 1 ? "addresses" : "nodes");
		for (size_t i = 0; i < g->count; i++) {
			const Mu__NodeRow *row = g->node[i];
			const char *other = !row->conf ? NULL
					    : k == 0   ? row->conf->hostname
					    : k == 1   ? row->conf->addr
						       : NULL;

			json_text(j, NULL, other && *other ? other : row->name);
		}
		json_array_end(j);
	}
	json_object_end(j);
	json_object(j, "cpus");
	four(j, cpus);
	int64_t v[2];
	least_and_most(g, load, v);
	json_object(j, "load");
	json_triple(j, "minimum", g->count != 0, false, v[0]);
	json_triple(j, "maximum", g->count != 0, false, v[1]);
	json_object_end(j);
	json_object_end(j);
}

/* What the nodes of a group have in common is that of the first. */
static void group_words(struct cli_json *j, const Mu__NodeRow *n)
{
	struct mu_buf features MU_CLEANUP(mu_buf_free) = {0}, gres MU_CLEANUP(mu_buf_free) = {0},
			       used MU_CLEANUP(mu_buf_free) = {0};

	for (size_t i = 0; n && n->conf && i < n->conf->n_feature; i++)
		mu_buf_printf(&features, "%s%s", i ? "," : "", n->conf->feature[i]);
	if (n) {
		cli_node_gres(n, &gres);
		cli_node_gres_used(n, &used);
	}
	json_object(j, "features");
	with(j, "total", &features);
	with(j, "active", &features);
	json_object_end(j);
	json_object(j, "gres");
	with(j, "total", &gres);
	with(j, "used", &used);
	json_object_end(j);
	json_text(j, "comment", n ? n->comment : "");
	json_text(j, "extra", n ? n->extra : "");
	json_object(j, "reason");
	json_text(j, "description", n ? n->reason : "");
	json_number(j, "time", n ? n->reason_usec / 1000000 : 0);
	json_text(j, "user", n ? n->reason_user : "");
	json_object_end(j);
}

void cli_model_group(struct cli_json *j, const struct cli *c, const struct cli_group *g)
{
	static const Mu__PartitionRow none = MU__PARTITION_ROW__INIT;
	const Mu__NodeRow *n = g->count ? g->node[0] : NULL;
	char words[128], *rest = words, *word;

	json_object(j, NULL);
	json_number(j, "port", n ? n->port : 0);
	json_object(j, "node");
	json_array(j, "state");
	if (n) {
		mu_node_state_scontrol(n->base_state, n->flags, n->alloc_cpus, cli_node_cpus(n), words);
		while ((word = strsep(&rest, "+")))
			json_text(j, NULL, word);
	}
	json_array_end(j);
	json_object_end(j);
	group_nodes(j, g);
	bounds(j, "sockets", g, sockets);
	bounds(j, "cores", g, cores);
	bounds(j, "threads", g, threads);
	bounds(j, "disk", g, disk);
	group_memory(j, g);
	bounds(j, "weight", g, weight);
	group_words(j, n);
	json_text(j, "cluster", c->conf.cluster);
	json_text(j, "reservation", "");
	put_partition(j, "partition", c, g->partition ? g->partition : &none);
	json_object_end(j);
}
