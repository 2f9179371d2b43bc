/* proto/conf_node.c: NodeName, NodeSet, DownNodes and PartitionName lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/conf_impl.h"
#include "proto/hostlist.h"
#include "proto/units.h"

/* How the text of one word of a line becomes a member of NodeConf or PartitionConf. */
/* KEEP: whoever uses the word finds it among the extra ones; IDLE: nobody does, and the administrator is
 * told. */
enum kind { NUMBER, LIMIT, MEMORY, TEXT, WORD, YESNO, SPAN, LIST, KEEP, IDLE, MODE, OWN };

struct word {
	const char *name;
	enum kind kind;
	size_t at, has; /* offsets of the member and of has_member, or of the list and n_list */
	int64_t low, high;
	const char *words; /* of WORD */
};

#define NODE(member) offsetof(Mu__NodeConf, member)
#define PART(member) offsetof(Mu__PartitionConf, member)

static const struct word node_words[] = {
    {"NodeAddr", OWN, 0, 0, 0, 0, NULL},
    {"NodeHostName", OWN, 0, 0, 0, 0, NULL},
    {"Port", OWN, 0, 0, 0, 0, NULL},
    {"BcastAddr", IDLE, 0, 0, 0, 0, NULL},
    {"Boards", NUMBER, NODE(boards), NODE(has_boards), 1, 65535, NULL},
    {"CPUs", NUMBER, NODE(cpus), NODE(has_cpus), 1, 65535, NULL},
    {"Procs", NUMBER, NODE(cpus), NODE(has_cpus), 1, 65535, NULL},
    {"CPUSpecList", KEEP, 0, 0, 0, 0, NULL},
    {"CoreSpecCount", NUMBER, NODE(core_spec_count), NODE(has_core_spec_count), 0, 65535, NULL},
    {"CoresPerSocket", NUMBER, NODE(cores_per_socket), NODE(has_cores_per_socket), 1, 65535, NULL},
    {"CpuBind", IDLE, 0, 0, 0, 0, NULL},
    {"Feature", LIST, NODE(feature), NODE(n_feature), 0, 0, NULL},
    {"Features", LIST, NODE(feature), NODE(n_feature), 0, 0, NULL},
    {"Gres", OWN, 0, 0, 0, 0, NULL},
    {"MemSpecLimit", MEMORY, NODE(mem_spec_limit_mib), NODE(has_mem_spec_limit_mib), 0, 0, NULL},
    {"RealMemory", MEMORY, NODE(real_memory_mib), NODE(has_real_memory_mib), 1, 0, NULL},
    {"Reason", TEXT, NODE(reason), 0, 0, 0, NULL},
    {"RestrictedCoresPerGPU", IDLE, 0, 0, 0, 0, NULL},
    {"Sockets", NUMBER, NODE(sockets), NODE(has_sockets), 1, 65535, NULL},
    {"SocketsPerBoard", NUMBER, NODE(sockets), NODE(has_sockets), 1, 65535, NULL},
    {"State", WORD, NODE(state), 0, 0, 0, "UNKNOWN CLOUD DOWN DRAIN FAIL FAILING FUTURE IDLE"},
    {"ThreadsPerCore", NUMBER, NODE(threads_per_core), NODE(has_threads_per_core), 1, 1024, NULL},
    {"TmpDisk", MEMORY, NODE(tmp_disk_mib), NODE(has_tmp_disk_mib), 0, 0, NULL},
    {"Topology", IDLE, 0, 0, 0, 0, NULL},
    {"Weight", NUMBER, NODE(weight), NODE(has_weight), 0, 4294967280, NULL},
};

static const struct word part_words[] = {
    {"AllocNodes", TEXT, PART(alloc_nodes), 0, 0, 0, NULL},
    {"AllowAccounts", LIST, PART(allow_accounts), PART(n_allow_accounts), 0, 0, NULL},
    {"AllowGroups", LIST, PART(allow_groups), PART(n_allow_groups), 0, 0, NULL},
    {"AllowQos", LIST, PART(allow_qos), PART(n_allow_qos), 0, 0, NULL},
    {"Alternate", TEXT, PART(alternate), 0, 0, 0, NULL},
    {"CpuBind", IDLE, 0, 0, 0, 0, NULL},
    {"Default", YESNO, PART(is_default), PART(has_is_default), 0, 0, NULL},
    {"DefaultTime", SPAN, PART(default_time_sec), PART(has_default_time_sec), 0, 0, NULL},
    {"DefCpuPerGPU", KEEP, 0, 0, 0, 0, NULL},
    {"DefMemPerCPU", MEMORY, PART(def_mem_cpu_mib), PART(has_def_mem_cpu_mib), 0, 0, NULL},
    {"DefMemPerGPU", KEEP, 0, 0, 0, 0, NULL},
    {"DefMemPerNode", MEMORY, PART(def_mem_node_mib), PART(has_def_mem_node_mib), 0, 0, NULL},
    {"DenyAccounts", LIST, PART(deny_accounts), PART(n_deny_accounts), 0, 0, NULL},
    {"DenyQos", LIST, PART(deny_qos), PART(n_deny_qos), 0, 0, NULL},
    {"DisableRootJobs", YESNO, PART(disable_root_jobs), PART(has_disable_root_jobs), 0, 0, NULL},
    {"ExclusiveTopo", IDLE, 0, 0, 0, 0, NULL},
    {"ExclusiveUser", YESNO, PART(exclusive_user), PART(has_exclusive_user), 0, 0, NULL},
    {"GraceTime", NUMBER, PART(grace_time_sec), PART(has_grace_time_sec), 0, 4294967293, NULL},
    {"Hidden", YESNO, PART(hidden), PART(has_hidden), 0, 0, NULL},
    {"JobDefaults", KEEP, 0, 0, 0, 0, NULL},
    {"LLN", YESNO, PART(lln), PART(has_lln), 0, 0, NULL},
    {"MaxCPUsPerNode", LIMIT, PART(max_cpus_node), PART(has_max_cpus_node), 1, 4294967293, NULL},
    {"MaxCPUsPerSocket", IDLE, 0, 0, 0, 0, NULL},
    {"MaxMemPerCPU", MEMORY, PART(max_mem_cpu_mib), PART(has_max_mem_cpu_mib), 0, 0, NULL},
    {"MaxMemPerNode", MEMORY, PART(max_mem_node_mib), PART(has_max_mem_node_mib), 0, 0, NULL},
    {"MaxNodes", LIMIT, PART(max_nodes), PART(has_max_nodes), 0, 65536, NULL},
    {"MaxTime", SPAN, PART(max_time_sec), PART(has_max_time_sec), 0, 0, NULL},
    {"MinNodes", NUMBER, PART(min_nodes), PART(has_min_nodes), 0, 65536, NULL},
    {"Nodes", TEXT, PART(nodes), 0, 0, 0, NULL},
    {"OverSubscribe", OWN, 0, 0, 0, 0, NULL},
    {"OverTimeLimit", OWN, 0, 0, 0, 0, NULL},
    {"PowerDownOnIdle", IDLE, 0, 0, 0, 0, NULL},
    {"PreemptMode", MODE, PART(preempt_mode), 0, 0, 0, NULL},
    {"Priority", OWN, 0, 0, 0, 65533, NULL},
    {"PriorityJobFactor", NUMBER, PART(priority_job_factor), PART(has_priority_job_factor), 0, 65533, NULL},
    {"PriorityTier", NUMBER, PART(priority_tier), PART(has_priority_tier), 0, 65533, NULL},
    {"QOS", TEXT, PART(qos), 0, 0, 0, NULL},
    {"ReqResv", YESNO, PART(req_resv), PART(has_req_resv), 0, 0, NULL},
    {"ResumeTimeout", IDLE, 0, 0, 0, 0, NULL},
    {"RootOnly", YESNO, PART(root_only), PART(has_root_only), 0, 0, NULL},
    {"SelectTypeParameters", IDLE, 0, 0, 0, 0, NULL},
    {"Shared", OWN, 0, 0, 0, 0, NULL},
    {"State", WORD, PART(state), 0, 0, 0, "UP DOWN DRAIN INACTIVE"},
    {"SuspendTime", IDLE, 0, 0, 0, 0, NULL},
    {"SuspendTimeout", IDLE, 0, 0, 0, 0, NULL},
    {"TRESBillingWeights", KEEP, 0, 0, 0, 0, NULL},
};

enum {
	NODE_WORDS = sizeof(node_words) / sizeof(node_words[0]),
	PART_WORDS = sizeof(part_words) / sizeof(part_words[0])
};

int conf__node_index(const struct conf *c, const char *name)
{
	return (int)(uintptr_t)mu_map_get_str(&c->node_at, name) - 1;
}

static void stand_at(struct conf *c, const struct conf__line *line)
{
	c->file = line->file;
	c->line = line->number;
}

static const struct word *find_word(struct conf *c, const struct word *words, size_t count, const char *key,
				    const char *line_name)
{
	const char *names[PART_WORDS + NODE_WORDS];
	for (size_t i = 0; i < count; i++) {
		if (!strcasecmp(words[i].name, key))
			return &words[i];
		names[i] = words[i].name;
	}
	const char *near = conf__nearest(key, names, count);
	if (near)
		conf__fail(c, MU_EINVAL, "a %s line has no word %s; did you mean %s?", line_name, key, near);
	else
		conf__fail(c, MU_EINVAL, "a %s line has no word %s", line_name, key);
	return NULL;
}

/* A comma list into a repeated string; ALL leaves it empty. */
static int set_list(struct conf *c, const struct word *w, const char *value, uint8_t *message)
{
	size_t count = 0, cap = 1;
	for (const char *p = value; *p; p++)
		cap += *p == ',';
	char **list = mu_arena_alloc(c->arena, cap * sizeof(*list));
	for (const char *p = value; *p;) {
		size_t len = strcspn(p, ",");
		if (len)
			list[count++] = memcpy(mu_arena_alloc(c->arena, len + 1), p, len);
		p += len + (p[len] == ',');
	}
	if (count == 1 && !strcasecmp(list[0], "ALL"))
		count = 0;
	memcpy(message + w->at, &list, sizeof(list));
	memcpy(message + w->has, &count, sizeof(count));
	return 0;
}

static void without_effect(struct conf *c, const char *name)
{
	conf__note(c, name, mu_arena_printf(c->arena, "kept and shown, but without effect: %s", name));
}

static int keep(struct conf *c, const struct word *w, const char *value, size_t *n, Mu__KeyValue ***list)
{
	Mu__KeyValue **grown = mu_arena_alloc(c->arena, (*n + 1) * sizeof(*grown)),
		     *pair = mu_arena_alloc(c->arena, sizeof(*pair));
	mu__key_value__init(pair);
	pair->key = (char *)w->name;
	pair->value = (char *)value;
	if (*n)
		memcpy(grown, *list, *n * sizeof(*grown));
	grown[(*n)++] = pair;
	*list = grown;
	if (w->kind == IDLE)
		without_effect(c, w->name);
	return 0;
}

static int set_number(struct conf *c, const struct word *w, const char *value, uint8_t *message)
{
	int64_t n;
	protobuf_c_boolean has = 1;
	struct mu_err inner = {0};
	if (w->kind == LIMIT && (!strcasecmp(value, "UNLIMITED") || !strcasecmp(value, "INFINITE"))) {
		has = 0;
		n = 0;
	} else if (mu_number_parse(w->name, value, w->low, w->high, &n, &inner)) {
		return conf__fail(c, MU_EINVAL, "%s%s", inner.text, w->kind == LIMIT ? ", or UNLIMITED" : "");
	}
	uint32_t small = (uint32_t)n;
	memcpy(message + w->at, &small, sizeof(small));
	memcpy(message + w->has, &has, sizeof(has));
	return 0;
}

static int set_memory(struct conf *c, const struct word *w, const char *value, uint8_t *message)
{
	uint64_t mib = 0;
	protobuf_c_boolean has = 1;
	struct mu_err inner = {0};
	if (!w->low && !strcasecmp(value, "UNLIMITED"))
		has = 0;
	else if (mu_mem_parse(value, &mib, &inner))
		return conf__fail(c, MU_EINVAL, "%s: %s", w->name, inner.text);
	else if (mib < (uint64_t)w->low)
		return conf__fail(c, MU_EINVAL, "%s is 0, but must be at least 1 megabyte", w->name);
	if (!mib && !strncmp(w->name, "Max", 3))
		has = 0;
	memcpy(message + w->at, &mib, sizeof(mib));
	memcpy(message + w->has, &has, sizeof(has));
	return 0;
}

static int set_word(struct conf *c, const struct word *w, const char *value, uint8_t *message)
{
	size_t n;
	for (const char *p = w->words; *p; p += n + (p[n] == ' ')) {
		n = strcspn(p, " ");
		if (n != strlen(value) || strncasecmp(p, value, n))
			continue;
		char *copy = memcpy(mu_arena_alloc(c->arena, n + 1), p, n);
		memcpy(message + w->at, &copy, sizeof(copy));
		return 0;
	}
	return conf__fail(c, MU_EINVAL, "%s is \"%.80s\", but must be one of %s", w->name, value, w->words);
}

static int set_value(struct conf *c, const struct word *w, const char *value, uint8_t *message)
{
	protobuf_c_boolean has = 1, on;
	struct mu_err inner = {0};
	int64_t sec;
	bool yes;
	switch (w->kind) {
	case NUMBER:
	case LIMIT:
		return set_number(c, w, value, message);
	case MEMORY:
		return set_memory(c, w, value, message);
	case MODE:
		if (mu_preempt_mode_check(value, &inner))
			return conf__fail(c, MU_EINVAL, "%s", inner.text);
		memcpy(message + w->at, &value, sizeof(value));
		return 0;
	case TEXT:
		memcpy(message + w->at, &value, sizeof(value));
		return 0;
	case WORD:
		return set_word(c, w, value, message);
	case LIST:
		return set_list(c, w, value, message);
	case YESNO:
		if (!conf__yes(value, &yes))
			return conf__fail(c, MU_EINVAL, "%s is \"%.80s\", but must be YES or NO", w->name,
					  value);
		on = yes;
		memcpy(message + w->at, &on, sizeof(on));
		memcpy(message + w->has, &has, sizeof(has));
		return 0;
	case SPAN:
		if (mu_span_parse(value, &sec, &inner))
			return conf__fail(c, MU_EINVAL, "%s: %s", w->name, inner.text);
		memcpy(message + w->at, &sec, sizeof(sec));
		memcpy(message + w->has, &has, sizeof(has));
		return 0;
	case KEEP:
	case IDLE:
	case OWN:
		break;
	}
	return MU_EINTERNAL;
}

static int check_twice(struct conf *c, const struct conf__line *line, int at)
{
	for (int i = 0; i < at; i++)
		if (!strcasecmp(line->pair[i].key, line->pair[at].key))
			return conf__fail(c, MU_EINVAL, "%s stands twice on the line", line->pair[at].key);
	return 0;
}

static int expand(struct conf *c, const char *what, const char *value, size_t max, char ***ret,
		  size_t *ret_count)
{
	struct mu_err inner = {0};
	int rc = mu_hostlist_expand(value, max, c->arena, ret, ret_count, &inner);
	return rc ? conf__fail(c, MU_EINVAL, "%s: %s", what, inner.text) : 0;
}

/* ---- nodes ---- */

/* Lists that go with the names of one line, one value each or one for all. */
struct names {
	char **name, **addr, **host, **port;
	size_t names, addrs, hosts, ports;
};

static int take_list(struct conf *c, const char *what, const char *value, size_t names, char ***ret,
		     size_t *ret_count)
{
	int rc = expand(c, what, value, CONF__MAX_NODES, ret, ret_count);
	if (!rc && *ret_count != names && *ret_count != 1)
		return conf__fail(c, MU_EINVAL,
				  "%s gives %zu values for %zu nodes; give one for each, or one for all",
				  what, *ret_count, names);
	return rc;
}

static int check_cpus(struct conf *c, Mu__NodeConf *node)
{
	uint64_t sockets = node->has_sockets ? node->sockets : 1,
		 boards = node->has_boards ? node->boards : 1;
	uint64_t cores = node->has_cores_per_socket ? node->cores_per_socket : 1;
	uint64_t threads = node->has_threads_per_core ? node->threads_per_core : 1;
	bool shaped = node->has_sockets || node->has_cores_per_socket || node->has_threads_per_core;
	if (node->has_cpus && !node->has_sockets && node->cpus % (cores * threads) == 0) {
		sockets = node->cpus / (cores * threads); /* As many as the CPUs need. */
		boards = 1;
	}
	uint64_t all = boards * sockets * cores * threads;
	if (all > 65535)
		return conf__fail(c, MU_EINVAL,
				  "the node's boards, sockets, cores and threads make %llu CPUs, but at most "
				  "65535 are possible",
				  (unsigned long long)all);
	if (shaped && node->has_cpus && node->cpus != all && node->cpus != all / threads &&
	    node->cpus != sockets)
		return conf__fail(
		    c, MU_EINVAL,
		    "CPUs is %u, but sockets, cores and threads make %llu; leave CPUs out or make them agree",
		    node->cpus, (unsigned long long)all);
	if (!node->has_cpus && !shaped)
		return 0; /* Whatever registers. */
	node->has_cpus = node->has_sockets = node->has_cores_per_socket = node->has_threads_per_core = 1;
	node->cpus = node->cpus ? node->cpus : (uint32_t)all;
	node->sockets = (uint32_t)sockets;
	node->cores_per_socket = (uint32_t)cores;
	node->threads_per_core = (uint32_t)threads;
	return 0;
}

static const char *pick(char **list, size_t count, size_t i, const char *fallback)
{
	return !count ? fallback : count == 1 ? list[0] : list[i];
}

static int add_node(struct conf *c, const Mu__NodeConf *base, const struct names *n, size_t i)
{
	Mu__Config *config = c->config;
	if (config->n_node == CONF__MAX_NODES)
		return conf__fail(c, MU_ELIMIT, "there are more than %d nodes", CONF__MAX_NODES);
	const char *name = n->name[i];
	if (strlen(name) > 64)
		return conf__fail(c, MU_EINVAL, "the node name \"%.70s...\" is longer than 64 characters",
				  name);
	if (conf__node_index(c, name) >= 0)
		return conf__fail(c, MU_EINVAL, "the node %s is declared twice", name);
	Mu__NodeConf *node = mu_arena_dup(c->arena, base, sizeof(*base));
	node->name = (char *)name;
	node->hostname = (char *)pick(n->host, n->hosts, i, name);
	node->addr = (char *)pick(n->addr, n->addrs, i, node->hostname);
	int64_t port;
	const char *text = pick(n->port, n->ports, i, conf__value(c, "SlurmdPort"));
	struct mu_err inner = {0};
	if (mu_number_parse("Port", text, 1, 65535, &port, &inner))
		return conf__fail(c, MU_EINVAL, "%s", inner.text);
	node->has_port = 1;
	node->port = (uint32_t)port;
	if ((config->n_node & (config->n_node - 1)) == 0) { /* Room doubles at powers of two. */
		Mu__NodeConf **grown =
		    mu_arena_alloc(c->arena, (config->n_node ? config->n_node * 2 : 1) * sizeof(*grown));
		if (config->n_node)
			memcpy(grown, config->node, config->n_node * sizeof(*grown));
		config->node = grown;
	}
	config->node[config->n_node++] = node;
	mu_map_put_str(&c->node_at, name, (void *)(uintptr_t)config->n_node);
	return 0;
}

static int node_word(struct conf *c, const struct conf__pair *pair, Mu__NodeConf *node, struct names *n)
{
	const struct word *w = find_word(c, node_words, NODE_WORDS, pair->key, "NodeName");
	if (!w)
		return MU_EINVAL;
	if (w->kind == KEEP || w->kind == IDLE)
		return keep(c, w, pair->value, &node->n_extra, &node->extra);
	if (w->kind != OWN)
		return set_value(c, w, pair->value, (uint8_t *)node);
	if (!strcmp(w->name, "Gres"))
		return conf__node_gres(c, pair->value, node);
	if (!n->names)
		return conf__fail(c, MU_EINVAL, "NodeName=DEFAULT cannot give %s", w->name);
	if (!strcmp(w->name, "NodeAddr"))
		return take_list(c, w->name, pair->value, n->names, &n->addr, &n->addrs);
	if (!strcmp(w->name, "NodeHostName"))
		return take_list(c, w->name, pair->value, n->names, &n->host, &n->hosts);
	return take_list(c, w->name, pair->value, n->names, &n->port, &n->ports);
}

static int node_line(struct conf *c, const struct conf__line *line, Mu__NodeConf *base)
{
	Mu__NodeConf node = *base;
	struct names n = {0};
	bool is_base = !strcasecmp(line->pair[0].value, "DEFAULT");
	int rc = is_base ? 0 : expand(c, "NodeName", line->pair[0].value, CONF__MAX_NODES, &n.name, &n.names);
	if (!rc && !is_base && !n.names)
		rc = conf__fail(c, MU_EINVAL, "NodeName is \"%s\", which names no node", line->pair[0].value);
	for (int i = 1; i < line->count && !rc; i++) {
		rc = check_twice(c, line, i);
		if (!rc)
			rc = node_word(c, &line->pair[i], &node, &n);
	}
	if (rc)
		return rc;
	if (is_base) {
		*base = node;
		return 0;
	}
	rc = check_cpus(c, &node);
	for (size_t i = 0; i < n.names && !rc; i++)
		rc = add_node(c, &node, &n, i);
	return rc;
}

static int unknown_node(struct conf *c, const char *who, const char *name)
{
	const char *near = NULL;
	size_t count = c->config->n_node < 2000 ? c->config->n_node : 2000; /* A hint is not worth more. */
	const char **names = mu_arena_alloc(c->arena, (count + 1) * sizeof(*names));
	for (size_t i = 0; i < count; i++)
		names[i] = c->config->node[i]->name;
	near = conf__nearest(name, names, count);
	if (near)
		return conf__fail(c, MU_EINVAL,
				  "%s names the node %s, which no NodeName line declares; did you mean %s?",
				  who, name, near);
	return conf__fail(c, MU_EINVAL, "%s names the node %s, which no NodeName line declares", who, name);
}

static int down_line(struct conf *c, const struct conf__line *line)
{
	char **names, *state = NULL;
	const char *reason = NULL;
	size_t count;
	int rc = expand(c, "DownNodes", line->pair[0].value, CONF__MAX_NODES, &names, &count);
	static const struct word state_word = {"State", WORD, 0, 0, 0, 0, "DOWN DRAIN FAIL FAILING UNKNOWN"};
	for (int i = 1; i < line->count && !rc; i++) {
		if (!strcasecmp(line->pair[i].key, "Reason"))
			reason = line->pair[i].value;
		else if (!strcasecmp(line->pair[i].key, "State"))
			rc = set_word(c, &state_word, line->pair[i].value, (uint8_t *)&state);
		else
			rc = conf__fail(c, MU_EINVAL,
					"a DownNodes line has no word %s; it takes Reason and State",
					line->pair[i].key);
	}
	for (size_t i = 0; i < count && !rc; i++) {
		int at = conf__node_index(c, names[i]);
		if (at < 0)
			return unknown_node(c, "DownNodes", names[i]);
		Mu__NodeConf *node = c->config->node[at];
		node->state = state ? state : (char *)"DOWN";
		if (reason)
			node->reason = (char *)reason;
	}
	return rc;
}

int conf__finish_nodes(struct conf *c)
{
	Mu__NodeConf base;
	int rc = 0;
	mu__node_conf__init(&base);
	base.has_weight = 1;
	base.weight = 1;
	base.state = (char *)"UNKNOWN";
	for (struct conf__line *line = c->nodes.first; line && !rc; line = line->next) {
		stand_at(c, line);
		rc = node_line(c, line, &base);
	}
	for (struct conf__line *line = c->downs.first; line && !rc; line = line->next) {
		stand_at(c, line);
		rc = down_line(c, line);
	}
	return rc;
}

/* ---- node sets and partitions ---- */

static const char *line_value(const struct conf__line *line, const char *key)
{
	for (int i = 0; i < line->count; i++)
		if (!strcasecmp(line->pair[i].key, key))
			return line->pair[i].value;
	return NULL;
}

static int set_line(struct conf *c, struct conf__line *line)
{
	for (int i = 1; i < line->count; i++)
		if (strcasecmp(line->pair[i].key, "Nodes") && strcasecmp(line->pair[i].key, "Feature"))
			return conf__fail(c, MU_EINVAL,
					  "a NodeSet line has no word %s; it takes Nodes and Feature",
					  line->pair[i].key);
	if (line->count < 2)
		return conf__fail(c, MU_EINVAL, "the node set %s is empty; give it Nodes= or Feature=",
				  line->pair[0].value);
	if (conf__node_index(c, line->pair[0].value) >= 0)
		return conf__fail(c, MU_EINVAL, "%s is a node's name and cannot be a node set's",
				  line->pair[0].value);
	if (mu_map_put_str(&c->set_at, line->pair[0].value, line))
		return conf__fail(c, MU_EINVAL, "the node set %s is declared twice", line->pair[0].value);
	return 0;
}

/* Marks in CHOSEN (by the node's place in the configuration) what NAME stands for. */
static int mark_names(struct conf *c, const char *who, const char *list, int depth, struct mu_bits *chosen);

static int mark_set(struct conf *c, const char *who, const struct conf__line *set, struct mu_bits *chosen)
{
	const char *nodes = line_value(set, "Nodes"), *feature = line_value(set, "Feature");
	for (size_t i = 0; feature && i < c->config->n_node; i++)
		for (size_t k = 0; k < c->config->node[i]->n_feature; k++)
			if (!strcmp(c->config->node[i]->feature[k], feature))
				mu_bits_set(chosen, (uint32_t)i);
	return nodes ? mark_names(c, who, nodes, 1, chosen) : 0;
}

static int mark_names(struct conf *c, const char *who, const char *list, int depth, struct mu_bits *chosen)
{
	char **names;
	size_t count;
	if (!strcasecmp(list, "ALL")) {
		for (size_t i = 0; i < c->config->n_node; i++)
			mu_bits_set(chosen, (uint32_t)i);
		return 0;
	}
	int rc = expand(c, who, list, CONF__MAX_NODES, &names, &count);
	for (size_t i = 0; i < count && !rc; i++) {
		int at = conf__node_index(c, names[i]);
		const struct conf__line *set = depth ? NULL : mu_map_get_str(&c->set_at, names[i]);
		if (at >= 0)
			mu_bits_set(chosen, (uint32_t)at);
		else if (set)
			rc = mark_set(c, who, set, chosen);
		else
			rc = unknown_node(c, who, names[i]);
	}
	return rc;
}

static int fill_nodes(struct conf *c, Mu__PartitionConf *part)
{
	struct mu_bits chosen = {0};
	if (!part->nodes || !*part->nodes || !strcmp(part->nodes, "\"\""))
		return 0;
	const char *who = mu_arena_printf(c->arena, "the partition %s", part->name);
	int rc = mark_names(c, who, part->nodes, 0, &chosen);
	if (!rc) {
		part->node = mu_arena_alloc(c->arena, (mu_bits_count(&chosen) + 1) * sizeof(*part->node));
		for (uint32_t i = mu_bits_next(&chosen, 0); i != UINT32_MAX; i = mu_bits_next(&chosen, i + 1))
			part->node[part->n_node++] = c->config->node[i]->name;
	}
	mu_bits_free(&chosen);
	return rc;
}

/* NO, EXCLUSIVE, YES[:N], FORCE[:N] */
static int oversubscribe(struct conf *c, const char *value, Mu__PartitionConf *part)
{
	size_t len = strcspn(value, ":");
	int64_t n = 4;
	bool counted =
	    (len == 3 && !strncasecmp(value, "YES", 3)) || (len == 5 && !strncasecmp(value, "FORCE", 5));
	if (!strcasecmp(value, "NO") || !strcasecmp(value, "EXCLUSIVE")) {
		part->oversubscribe = (char *)(strcasecmp(value, "NO") ? "EXCLUSIVE" : "NO");
		return 0;
	}
	if (!counted || (value[len] && mu_number_parse("", value + len + 1, 1, 65533, &n, NULL)))
		return conf__fail(
		    c, MU_EINVAL,
		    "OverSubscribe is \"%.80s\", but must be NO, EXCLUSIVE, YES[:COUNT] or FORCE[:COUNT]",
		    value);
	part->oversubscribe = mu_arena_printf(c->arena, "%s:%lld", len == 3 ? "YES" : "FORCE", (long long)n);
	return 0;
}

/* Minutes, or UNLIMITED. */
static int over_time(struct conf *c, const char *value, Mu__PartitionConf *part)
{
	struct mu_err inner = {0};
	int64_t n = 0;
	bool endless = !strcasecmp(value, "UNLIMITED") || !strcasecmp(value, "INFINITE");
	if (!endless && mu_number_parse("OverTimeLimit", value, 0, 65533, &n, &inner))
		return conf__fail(c, MU_EINVAL, "%s, or UNLIMITED", inner.text);
	part->has_over_time_limit_sec = 1;
	part->over_time_limit_sec = endless ? UINT32_MAX : (uint32_t)n * 60;
	return 0;
}

static int part_word(struct conf *c, const struct conf__pair *pair, Mu__PartitionConf *part)
{
	const struct word *w = find_word(c, part_words, PART_WORDS, pair->key, "PartitionName");
	int64_t n;
	struct mu_err inner = {0};
	if (!w)
		return MU_EINVAL;
	if (w->kind == KEEP || w->kind == IDLE)
		return keep(c, w, pair->value, &part->n_extra, &part->extra);
	if (w->kind != OWN)
		return set_value(c, w, pair->value, (uint8_t *)part);
	if (!strcmp(w->name, "OverTimeLimit"))
		return over_time(c, pair->value, part);
	if (strcmp(w->name, "Priority"))
		return oversubscribe(c, pair->value, part);
	if (mu_number_parse(w->name, pair->value, w->low, w->high, &n, &inner))
		return conf__fail(c, MU_EINVAL, "%s", inner.text);
	part->has_priority_job_factor = part->has_priority_tier = 1;
	part->priority_job_factor = part->priority_tier = (uint32_t)n;
	conf__note(c, "Priority", "the word is obsolete; it sets both PriorityTier and PriorityJobFactor");
	return 0;
}

static int check_partition(struct conf *c, const Mu__PartitionConf *part)
{
	if (part->has_def_mem_cpu_mib && part->has_def_mem_node_mib)
		return conf__fail(c, MU_EINVAL,
				  "DefMemPerCPU and DefMemPerNode exclude each other; keep one");
	if (part->has_max_mem_cpu_mib && part->has_max_mem_node_mib)
		return conf__fail(c, MU_EINVAL,
				  "MaxMemPerCPU and MaxMemPerNode exclude each other; keep one");
	if (part->has_max_nodes && part->min_nodes > part->max_nodes)
		return conf__fail(c, MU_EINVAL, "MinNodes (%u) is above MaxNodes (%u)", part->min_nodes,
				  part->max_nodes);
	if (part->has_default_time_sec && part->max_time_sec >= 0 &&
	    (part->default_time_sec < 0 || part->default_time_sec > part->max_time_sec))
		return conf__fail(c, MU_EINVAL, "DefaultTime is above MaxTime");
	if (part->n_allow_accounts && part->n_deny_accounts)
		conf__note(c, "DenyAccounts", "AllowAccounts is given too, so DenyAccounts is not used");
	if (part->n_allow_qos && part->n_deny_qos)
		conf__note(c, "DenyQos", "AllowQos is given too, so DenyQos is not used");
	return 0;
}

static int part_line(struct conf *c, const struct conf__line *line, Mu__PartitionConf *base)
{
	Mu__PartitionConf part = *base;
	Mu__Config *config = c->config;
	bool is_base = !strcasecmp(line->pair[0].value, "DEFAULT");
	int rc = 0;
	for (int i = 1; i < line->count && !rc; i++) {
		rc = check_twice(c, line, i);
		if (!rc)
			rc = part_word(c, &line->pair[i], &part);
	}
	if (rc)
		return rc;
	if (is_base) {
		*base = part;
		return 0;
	}
	part.name = (char *)line->pair[0].value;
	size_t len = strlen(part.name);
	if (len > 64 || strcspn(part.name, ",[]()*\"'/ \t") < len)
		return conf__fail(c, MU_EINVAL,
				  "PartitionName is \"%.80s\", but must be one name of at most 64 characters "
				  "without commas, brackets, slashes and stars",
				  part.name);
	for (size_t i = 0; i < config->n_partition; i++) {
		if (!strcmp(config->partition[i]->name, part.name))
			return conf__fail(c, MU_EINVAL, "the partition %s is declared twice", part.name);
		if (part.is_default && config->partition[i]->is_default) {
			config->partition[i]->is_default = 0;
			conf__note(c, "Default",
				   "more than one partition is the default; the last one counts");
		}
	}
	rc = check_partition(c, &part);
	if (!rc)
		rc = fill_nodes(c, &part);
	if (!rc)
		config->partition[config->n_partition++] = mu_arena_dup(c->arena, &part, sizeof(part));
	return rc;
}

int conf__finish_partitions(struct conf *c)
{
	Mu__PartitionConf base;
	int rc = 0;
	mu__partition_conf__init(&base);
	base.has_max_time_sec = 1;
	base.max_time_sec = MU_UNLIMITED_SEC;
	base.has_priority_job_factor = base.has_priority_tier = 1;
	base.priority_job_factor = base.priority_tier = 1;
	base.state = (char *)"UP";
	base.oversubscribe = (char *)"NO";
	if (strcasecmp(conf__value(c, "PreemptMode"), "OFF"))
		base.preempt_mode = (char *)conf__value(c, "PreemptMode");
	for (struct conf__line *line = c->sets.first; line && !rc; line = line->next) {
		stand_at(c, line);
		rc = set_line(c, line);
	}
	if (rc)
		return rc;
	if (c->partitions.count > CONF__MAX_PARTITIONS) {
		stand_at(c, c->partitions.first);
		return conf__fail(c, MU_ELIMIT, "there are more than %d partitions", CONF__MAX_PARTITIONS);
	}
	c->config->partition =
	    mu_arena_alloc(c->arena, (c->partitions.count + 1) * sizeof(*c->config->partition));
	for (struct conf__line *line = c->partitions.first; line && !rc; line = line->next) {
		stand_at(c, line);
		rc = part_line(c, line, &base);
	}
	return rc;
}

/* ---- one word at a time ---- */

static void note_clear(Mu__PartitionUpdate *u, uint32_t field, struct mu_arena *arena)
{
	uint32_t *grown = mu_arena_alloc(arena, (u->n_clear + 1) * sizeof(*grown));
	if (u->n_clear)
		memcpy(grown, u->clear, u->n_clear * sizeof(*grown));
	grown[u->n_clear++] = field;
	u->clear = grown;
}

static const ProtobufCFieldDescriptor *field_at(const Mu__PartitionConf *part, size_t offset)
{
	const ProtobufCMessageDescriptor *d = part->base.descriptor;
	for (unsigned i = 0; i < d->n_fields; i++)
		if (d->fields[i].offset == offset)
			return &d->fields[i];
	return NULL;
}

/* Whether the word, as it was just read, says nothing. */
static bool says_nothing(const struct word *w, const Mu__PartitionConf *part)
{
	const uint8_t *at = (const uint8_t *)part;
	if (w->kind == LIST)
		return *(const size_t *)(at + w->has) == 0;
	if (w->kind == TEXT || w->kind == WORD)
		return !**(char *const *)(at + w->at);
	return !*(const protobuf_c_boolean *)(at + w->has);
}

/* Of two words that exclude each other the one that is given last stands. */
static const char *rival(const char *name)
{
	static const char *const pairs[][2] = {{"DefMemPerCPU", "DefMemPerNode"},
					       {"MaxMemPerCPU", "MaxMemPerNode"}};
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		for (int k = 0; k < 2; k++)
			if (!strcmp(pairs[i][k], name))
				return pairs[i][!k];
	return NULL;
}

static int partition_word(struct conf *c, const char *key, const char *value, Mu__PartitionUpdate *u)
{
	struct conf__pair pair = {key, value};
	const struct word *w = find_word(c, part_words, PART_WORDS, key, "PartitionName");
	Mu__PartitionConf *part = u->conf;
	if (!w)
		return MU_EINVAL;
	if (!*value && w->kind != KEEP && w->kind != IDLE) {
		const ProtobufCFieldDescriptor *f = w->kind == OWN ? NULL : field_at(part, w->at);
		if (!f)
			return conf__fail(c, MU_EINVAL, "%s has no value", w->name);
		note_clear(u, f->id, c->arena);
		return 0;
	}
	int rc = part_word(c, &pair, part);
	if (rc || w->kind == KEEP || w->kind == IDLE || w->kind == OWN)
		return rc;
	if (says_nothing(w, part))
		note_clear(u, field_at(part, w->at)->id, c->arena);
	const char *other = rival(w->name);
	for (size_t i = 0; other && i < PART_WORDS; i++)
		if (!strcmp(part_words[i].name, other))
			note_clear(u, field_at(part, part_words[i].at)->id, c->arena);
	return 0;
}

int mu_conf_partition_word(const char *key, const char *value, mu_conf_note note, void *arg,
			   struct mu_arena *arena, Mu__PartitionUpdate *update, struct mu_err *err)
{
	struct conf c = {.note = note, .arg = arg, .arena = arena, .err = err};
	int rc = partition_word(&c, key, value, update);
	mu_map_clear(&c.notes);
	return rc;
}
