/* cli/show_node.c: scontrol show node and partition. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/column.h"
#include "cli/filter.h"
#include "cli/life.h"
#include "cli/model.h"
#include "cli/show.h"
#include "proto/base/bits.h"
#include "proto/conf.h"
#include "proto/hostlist.h"
#include "proto/states.h"

/* ---- nodes ---- */

/* How many CPUs the node keeps for the system; which in LIST (may be NULL). */
static uint32_t node_spec(const Mu__NodeRow *n, struct mu_buf *list)
{
	const char *text = NULL;
	uint32_t cpus = cli_node_cpus(n),
		 count = n->conf ? n->conf->core_spec_count * cli_node_threads(n) : 0;
	struct mu_bits bits = {0};

	for (size_t i = 0; n->conf && i < n->conf->n_extra; i++) {
		if (strcmp(n->conf->extra[i]->key, "CPUSpecList") == 0)
			text = n->conf->extra[i]->value;
	}
	if (!text || mu_bits_parse(&bits, text, 65535)) {
		for (uint32_t b = cpus > count ? cpus - count : 0; b < cpus; b++)
			mu_bits_set(&bits, b);
	}
	count = mu_bits_count(&bits);
	if (list && count) {
		size_t len = mu_bits_print(&bits, NULL, 0);
		char *printed = calloc(1, len + 1);

		if (printed)
			mu_bits_print(&bits, printed, len + 1);
		mu_buf_printf(list, "CPUSpecList=%s ", printed ? printed : "");
		free(printed);
	}
	mu_bits_free(&bits);
	return count < cpus ? count : cpus;
}

static void node_head(struct scontrol *sc, struct record *r, const Mu__NodeRow *n)
{
	struct mu_buf *o = &r->out;
	bool registered = n->boot_usec || n->version;

	mu_buf_printf(o, "NodeName=%s ", n->name);
	if (n->arch && *n->arch)
		mu_buf_printf(o, "Arch=%s ", n->arch);
	mu_buf_printf(o, "CoresPerSocket=%u ", cli_node_cores(n));
	line(r);
	mu_buf_printf(o, "CPUAlloc=%u CPUEfctv=%u CPUTot=%u CPULoad=", n->alloc_cpus,
		      cli_node_cpus(n) - node_spec(n, NULL), cli_node_cpus(n));
	if (registered)
		mu_buf_printf(o, "%u.%02u", n->load_centi / 100, n->load_centi % 100);
	else
		mu_buf_str(o, "N/A");
	for (int k = 0; k < 2; k++) {
		line(r);
		mu_buf_str(o, k ? "ActiveFeatures=" : "AvailableFeatures=");
		for (size_t i = 0; n->conf && i < n->conf->n_feature; i++)
			mu_buf_printf(o, "%s%s", i ? "," : "", n->conf->feature[i]);
		if (!n->conf || !n->conf->n_feature)
			mu_buf_str(o, "(null)");
	}
	line(r);
	mu_buf_str(o, "Gres=");
	cli_node_gres(n, o);
	if (!n->n_gres && (!n->conf || !n->conf->n_gres))
		mu_buf_str(o, "(null)");
	if (sc->details) {
		line(r);
		cli_node_devices(n, r->oneline ? " " : "\n   ", o);
	}
	line(r);
	mu_buf_printf(o, "NodeAddr=%s NodeHostName=%s ",
		      n->conf && n->conf->addr && *n->conf->addr ? n->conf->addr : n->name,
		      n->conf && n->conf->hostname && *n->conf->hostname ? n->conf->hostname : n->name);
	if (n->port)
		mu_buf_printf(o, "Port=%u ", n->port);
	if (n->version && *n->version)
		mu_buf_printf(o, "Version=%s", n->version);
	if (n->os && *n->os) {
		line(r);
		mu_buf_printf(o, "OS=%s ", n->os);
	}
}

static bool holds(const Mu__PartitionRow *p, const char *node)
{
	for (size_t i = 0; p->conf && i < p->conf->n_node; i++) {
		if (strcmp(p->conf->node[i], node) == 0)
			return true;
	}
	return false;
}

static void node_tres(struct record *r, const Mu__NodeRow *n)
{
	struct mu_buf *o = &r->out;

	line(r);
	mu_buf_str(o, "CfgTRES=");
	cli_node_tres(n, o);
	line(r);
	mu_buf_str(o, "AllocTRES=");
	cli_node_tres_used(n, o);
}

/* What operators noted about it. */
static void node_notes(struct record *r, const Mu__NodeRow *n)
{
	const struct {
		const char *key, *value;
	} notes[] = {{"Comment", n->comment},
		     {"Extra", n->extra	     ? n->extra
			       : n->emulated ? "emulated"
					     : NULL},
		     {"InstanceId", n->instance_id},
		     {"InstanceType", n->instance_type}};

	for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
		if (!notes[i].value)
			continue;
		line(r);
		mu_buf_printf(&r->out, "%s=%s", notes[i].key, notes[i].value);
	}
}

static void show_one_node(struct scontrol *sc, const Mu__NodeRow *n, Mu__PartitionRow *const *parts,
			  size_t n_parts)
{
	struct record r = {.oneline = sc->oneline};
	struct mu_arena *a = &sc->cli->arena;
	struct mu_buf *o = &r.out;
	char state[128];
	bool some = false;

	node_head(sc, &r, n);
	line(&r);
	mu_buf_printf(o, "RealMemory=%" PRIu64 " AllocMem=%" PRIu64 " FreeMem=", cli_node_memory(n),
		      n->alloc_mem_mib);
	if (n->free_mem_mib)
		mu_buf_printf(o, "%" PRIu64, n->free_mem_mib);
	else
		mu_buf_str(o, "N/A");
	mu_buf_printf(o, " Sockets=%u Boards=1", cli_node_sockets(n));
	line(&r);
	mu_node_state_scontrol(n->base_state, n->flags,
			       n->exclusive && n->alloc_cpus ? cli_node_cpus(n) : n->alloc_cpus,
			       cli_node_cpus(n), state);
	mu_buf_printf(o, "State=%s ThreadsPerCore=%u TmpDisk=%" PRIu64 " Weight=%u Owner=N/A MCS_label=N/A",
		      state, cli_node_threads(n),
		      n->tmp_disk_mib ? n->tmp_disk_mib
		      : n->conf	      ? n->conf->tmp_disk_mib
				      : 0,
		      n->conf && n->conf->weight ? n->conf->weight : 1);
	if (node_spec(n, NULL) || (n->conf && n->conf->mem_spec_limit_mib)) {
		line(&r);
		if (n->conf->core_spec_count)
			mu_buf_printf(o, "CoreSpecCount=%u ", n->conf->core_spec_count);
		node_spec(n, o);
		if (n->conf->mem_spec_limit_mib)
			mu_buf_printf(o, "MemSpecLimit=%" PRIu64, n->conf->mem_spec_limit_mib);
	}
	line(&r);
	mu_buf_str(o, "Partitions=");
	for (size_t i = 0; i < n_parts; i++) {
		if (holds(parts[i], n->name)) {
			mu_buf_printf(o, "%s%s", some ? "," : "", parts[i]->conf->name);
			some = true;
		}
	}
	mu_buf_str(o, " ");
	line(&r);
	mu_buf_printf(o, "BootTime=%s SlurmdStartTime=%s", date_of(a, n->boot_usec, "None"),
		      date_of(a, n->agent_start_usec, "None"));
	line(&r);
	mu_buf_printf(o, "LastBusyTime=%s ResumeAfterTime=%s",
		      n->alloc_cpus ? date_of(a, sc->cli->now_usec, "Unknown")
				    : date_of(a, n->last_busy_usec, "Unknown"),
		      date_of(a, n->resume_usec, "None"));
	node_tres(&r, n);
	line(&r);
	mu_buf_str(o, "CapWatts=n/a");
	line(&r);
	mu_buf_str(o, "CurrentWatts=0 AveWatts=0");
	line(&r);
	mu_buf_str(o, "ExtSensorsJoules=n/a ExtSensorsWatts=0 ExtSensorsTemp=n/a");
	node_notes(&r, n);
	if (n->reason && *n->reason) {
		line(&r);
		mu_buf_printf(o, "Reason=%s [%s@%s]", n->reason,
			      n->reason_user ? n->reason_user : cli_user_name(a, n->reason_uid),
			      date_of(a, n->reason_usec, "Unknown"));
	}
	end_record(&r);
	print_record(&r);
}

static int load_partitions(struct scontrol *s, Mu__PartitionRow ***ret, size_t *ret_count, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	void **rows;
	int rc;

	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_PARTITIONS;
	rc = cli_query_all(s->cli, &ask, &mu__partition_row__descriptor, &rows, ret_count, err);
	*ret = (Mu__PartitionRow **)rows;
	for (size_t i = 1; !rc && i < *ret_count; i++) { /* a handful: into the configuration's order */
		Mu__PartitionRow *p = (*ret)[i];
		size_t k = i;

		for (; k > 0 && (*ret)[k - 1]->order > p->order; k--)
			(*ret)[k] = (*ret)[k - 1];
		(*ret)[k] = p;
	}
	return rc;
}

static int compare_nodes(const void *a, const void *b)
{
	const Mu__NodeRow *x = *(Mu__NodeRow *const *)a, *y = *(Mu__NodeRow *const *)b;

	return x->order < y->order ? -1 : x->order > y->order;
}

int scontrol_show_nodes(struct scontrol *s, char **words, size_t count)
{
	Mu__Query ask = MU__QUERY__INIT;
	Mu__PartitionRow **parts;
	struct cli_model m = {0};
	struct mu_err err = {0};
	char **names = NULL;
	size_t n_parts, n, wanted = 0;
	void **rows;
	int rc = 0;

	if (count && (rc = mu_hostlist_expand(words[0], 65536, &s->cli->arena, &names, &wanted, &err)))
		return show_load_error(s, "node", &err);
	if (s->history && !wanted) {
		cli_error(s->cli, "--history of which node?");
		return 1;
	}
	for (size_t i = 0; s->history && i < wanted; i++)
		rc |= life_node(s->cli, names[i], s->json, stdout);
	if (s->history)
		return rc;
	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_NODES;
	if (load_partitions(s, &parts, &n_parts, &err) ||
	    cli_query_all(s->cli, &ask, &mu__node_row__descriptor, &rows, &n, &err))
		return show_load_error(s, "node", &err);
	if (n)
		qsort(rows, n, sizeof *rows, compare_nodes);
	if (s->json) {
		cli_model_begin(s->cli, &m);
		json_array(&m.json, "nodes");
	}
	for (size_t w = 0; w < (count ? wanted : 1); w++) {
		bool found = false;

		for (size_t i = 0; i < n; i++) {
			const Mu__NodeRow *node = rows[i];
			const char *in[256];
			size_t in_count = 0;

			if (names && strcmp(node->name, names[w]) != 0)
				continue;
			found = true;
			if (!s->json) {
				show_one_node(s, node, parts, n_parts);
				continue;
			}
			for (size_t p = 0; p < n_parts && in_count < 256; p++) {
				if (holds(parts[p], node->name))
					in[in_count++] = parts[p]->conf->name;
			}
			cli_model_node(&m.json, s->cli, node, in, in_count);
		}
		if (names && !found) {
			if (!s->json)
				printf("Node %s not found\n", names[w]);
			rc = 1;
		}
	}
	if (s->json) {
		json_array_end(&m.json);
		cli_model_end(&m);
	}
	return rc;
}

/* ---- partitions ---- */

static void put_list(struct mu_buf *o, const char *allow, char *const *allowed, size_t n_allowed,
		     const char *deny, char *const *denied, size_t n_denied)
{
	char *const *list = n_denied ? denied : allowed;
	size_t n = n_denied ? n_denied : n_allowed;

	mu_buf_printf(o, "%s=", n_denied ? deny : allow);
	for (size_t i = 0; i < n; i++)
		mu_buf_printf(o, "%s%s", i ? "," : "", list[i]);
	if (!n)
		mu_buf_str(o, "ALL");
}

static const char *yes_no(bool yes)
{
	return yes ? "YES" : "NO";
}

static const char *limit_of(struct mu_arena *a, uint64_t n)
{
	return n ? mu_arena_printf(a, "%" PRIu64, n) : "UNLIMITED";
}

/* A word of the partition's line that has no field of its own; NULL: not written. */
static const char *word_of(const Mu__PartitionConf *p, const char *key)
{
	for (size_t i = 0; i < p->n_extra; i++) {
		if (strcasecmp(p->extra[i]->key, key) == 0)
			return p->extra[i]->value;
	}
	return NULL;
}

static const char *over_time_of(struct mu_arena *a, const Mu__PartitionConf *p)
{
	if (!p->has_over_time_limit_sec)
		return "NONE";
	return p->over_time_limit_sec == UINT32_MAX ? "UNLIMITED"
						    : mu_arena_printf(a, "%u", p->over_time_limit_sec / 60);
}

static const char *word_or(const Mu__PartitionConf *p, const char *key, const char *none)
{
	const char *value = word_of(p, key);

	return value && *value ? value : none;
}

/* "DefCpuPerGPU=4,DefMemPerGPU=100", however they were written. */
static void put_job_defaults(const Mu__PartitionConf *p, struct mu_buf *o)
{
	static const char *const keys[] = {"DefCpuPerGPU", "DefMemPerGPU"};
	const char *all = word_of(p, "JobDefaults");
	bool some = all != NULL;

	mu_buf_printf(o, "JobDefaults=%s", all ? all : "");
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const char *value = word_of(p, keys[i]);

		if (!value)
			continue;
		mu_buf_printf(o, "%s%s=%s", some ? "," : "", keys[i], value);
		some = true;
	}
	if (!some)
		mu_buf_str(o, "(null)");
}

static void show_one_partition(struct scontrol *sc, const Mu__PartitionRow *row)
{
	struct record r = {.oneline = sc->oneline};
	struct mu_arena *a = &sc->cli->arena;
	struct mu_buf *o = &r.out;
	const Mu__PartitionConf *p = row->conf;
	uint32_t cpus = row->total_cpus;

	mu_buf_printf(o, "PartitionName=%s", p->name);
	line(&r);
	put_list(o, "AllowGroups", p->allow_groups, p->n_allow_groups, "", NULL, 0);
	put_list(o, " AllowAccounts", p->allow_accounts, p->n_allow_accounts, " DenyAccounts",
		 p->deny_accounts, p->n_deny_accounts);
	put_list(o, " AllowQos", p->allow_qos, p->n_allow_qos, " DenyQos", p->deny_qos, p->n_deny_qos);
	line(&r);
	mu_buf_printf(o, "AllocNodes=%s Default=%s QoS=%s", p->alloc_nodes ? p->alloc_nodes : "ALL",
		      yes_no(p->is_default), p->qos && *p->qos ? p->qos : "N/A");
	line(&r);
	if (p->alternate && *p->alternate) {
		mu_buf_printf(o, "Alternate=%s", p->alternate);
		line(&r);
	}
	mu_buf_printf(o, "DefaultTime=%s DisableRootJobs=%s ExclusiveUser=%s GraceTime=%u Hidden=%s",
		      span_of(a, p->has_default_time_sec, p->default_time_sec, "NONE"),
		      yes_no(p->disable_root_jobs), yes_no(p->exclusive_user), p->grace_time_sec,
		      yes_no(p->hidden));
	line(&r);
	mu_buf_printf(o, "MaxNodes=%s MaxTime=%s MinNodes=%u LLN=%s MaxCPUsPerNode=%s MaxCPUsPerSocket=%s",
		      p->has_max_nodes ? mu_arena_printf(a, "%u", p->max_nodes) : "UNLIMITED",
		      span_of(a, p->has_max_time_sec, p->max_time_sec, "UNLIMITED"), p->min_nodes,
		      yes_no(p->lln), limit_of(a, p->max_cpus_node),
		      word_or(p, "MaxCPUsPerSocket", "UNLIMITED"));
	line(&r);
	mu_buf_printf(o, "Nodes=%s", or_null(p->nodes));
	line(&r);
	mu_buf_printf(o, "PriorityJobFactor=%u PriorityTier=%u RootOnly=%s ReqResv=%s OverSubscribe=%s",
		      p->has_priority_job_factor ? p->priority_job_factor : 1,
		      p->has_priority_tier ? p->priority_tier : 1, yes_no(p->root_only), yes_no(p->req_resv),
		      p->oversubscribe && *p->oversubscribe ? p->oversubscribe : "NO");
	line(&r);
	mu_buf_printf(o, "OverTimeLimit=%s PreemptMode=%s", over_time_of(a, p),
		      p->preempt_mode && *p->preempt_mode ? p->preempt_mode : "OFF");
	line(&r);
	mu_buf_printf(o, "State=%s TotalCPUs=%u TotalNodes=%u SelectTypeParameters=%s",
		      p->state && *p->state ? p->state : "UP", cpus, row->total_nodes,
		      word_or(p, "SelectTypeParameters", "NONE"));
	line(&r);
	put_job_defaults(p, o);
	line(&r);
	mu_buf_printf(o, "%s=%s %s=%s", p->def_mem_cpu_mib ? "DefMemPerCPU" : "DefMemPerNode",
		      limit_of(a, p->def_mem_cpu_mib ? p->def_mem_cpu_mib : p->def_mem_node_mib),
		      p->max_mem_cpu_mib ? "MaxMemPerCPU" : "MaxMemPerNode",
		      limit_of(a, p->max_mem_cpu_mib ? p->max_mem_cpu_mib : p->max_mem_node_mib));
	line(&r);
	mu_buf_printf(o, "TRES=cpu=%u,node=%u,billing=%u", cpus, row->total_nodes, cpus);
	if (word_of(p, "TRESBillingWeights")) {
		line(&r);
		mu_buf_printf(o, "TRESBillingWeights=%s", word_of(p, "TRESBillingWeights"));
	}
	end_record(&r);
	print_record(&r);
}

int scontrol_show_partitions(struct scontrol *s, char **words, size_t count)
{
	Mu__PartitionRow **rows;
	struct cli_model m = {0};
	struct mu_err err = {0};
	size_t n, shown = 0;

	if (load_partitions(s, &rows, &n, &err))
		return show_load_error(s, "partitions", &err);
	if (s->json) {
		cli_model_begin(s->cli, &m);
		json_array(&m.json, "partitions");
	}
	for (size_t i = 0; i < n; i++) {
		if (!rows[i]->conf || (count && !cli_in_list(words[0], rows[i]->conf->name)))
			continue;
		shown++;
		if (s->json)
			cli_model_partition(&m.json, s->cli, rows[i]);
		else
			show_one_partition(s, rows[i]);
	}
	if (s->json) {
		json_array_end(&m.json);
		cli_model_end(&m);
	}
	if (count && !shown) {
		if (!s->json)
			printf("Partition %s not found\n", words[0]);
		return 1;
	}
	if (!shown && !s->json)
		printf("No partitions in the system\n");
	return 0;
}
