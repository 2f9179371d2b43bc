/* proto/conf_key.c: the keys that stand on lines of their own, by the table confkeys.def. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/conf_impl.h"
#include "proto/keep.h"
#include "proto/units.h"

enum kind { KEEP, NUMBER, LIMIT, MEMORY, SPAN, YESNO, FLAG, WORD, WORDS, TEXT };
enum use { USED, ALIAS, KEPT, GONE, HOST, CGROUP };

struct key {
	const char *name;
	enum kind kind;
	int64_t low, high;
	const char *words, *unit, *fallback;
	enum use use;
	const char *note;
};

static const struct key keys[] = {
#define MU_CONF_KEY(name, kind, low, high, words, unit, fallback, use, note) \
	{#name, kind, low, high, words, unit, fallback, use, note},
#include "proto/confkeys.def"
#undef MU_CONF_KEY
};
enum { KEYS = sizeof(keys) / sizeof(keys[0]) };

/* Rows by name, for what is read into fields. */
enum row {
#define MU_CONF_KEY(name, kind, low, high, words, unit, fallback, use, note) ROW_##name,
#include "proto/confkeys.def"
#undef MU_CONF_KEY
};

static int find(const char *name)
{
	for (int i = 0; i < KEYS; i++)
		if (!strcasecmp(keys[i].name, name))
			return i;
	return -1;
}

const char *conf__value(const struct conf *c, const char *key)
{
	int row = find(key);
	return c->value[row] ? c->value[row] : keys[row].fallback;
}

/* ---- one value ---- */

/* The next word of a blank-separated list: its start and length; 0 at the end. */
static size_t next_word(const char **list)
{
	while (**list == ' ')
		++*list;
	return strcspn(*list, " ");
}

/* Looks VALUE up in the row's words; RET is the spelling to keep, or NULL for unset. */
static int match_word(struct conf *c, const struct key *key, const char *value, size_t len, const char **ret)
{
	size_t n;
	for (const char *w = key->words; (n = next_word(&w)); w += n) {
		size_t skip = *w == '-';
		const char *to = memchr(w, '>', n);
		size_t from_len = (to ? (size_t)(to - w) : n) - skip;
		if (from_len != len || strncasecmp(w + skip, value, len))
			continue;
		if (skip) {
			*ret = NULL;
			return 0;
		}
		if (to)
			conf__note(c, key->name, key->note);
		const char *kept = to ? to + 1 : w;
		size_t kept_len = to ? n - from_len - 1 : n;
		char *copy = mu_arena_alloc(c->arena, kept_len + 1);
		memcpy(copy, kept, kept_len);
		*ret = copy;
		return 0;
	}
	struct mu_buf all = {0};
	for (const char *w = key->words; (n = next_word(&w)); w += n) {
		size_t skip = *w == '-';
		if (memchr(w, '>', n))
			continue;
		mu_buf_str(&all, all.len ? ", " : "");
		mu_buf_add(&all, w + skip, n - skip);
	}
	int rc = conf__fail(c, MU_EINVAL, "%s is \"%.*s\", but must be %s%s", key->name,
			    (int)(len > 80 ? 80 : len), value, key->kind == WORDS ? "among " : "one of ",
			    (const char *)all.data);
	mu_buf_free(&all);
	return rc;
}

static int read_words(struct conf *c, const struct key *key, const char *value, const char **ret)
{
	struct mu_buf out = {0};
	int rc = 0;
	for (const char *p = value; *p && !rc;) {
		size_t len = strcspn(p, ",");
		const char *word = NULL;
		if (len)
			rc = match_word(c, key, p, len, &word);
		if (!rc && word)
			mu_buf_printf(&out, "%s%s", out.len ? "," : "", word);
		p += len + (p[len] == ',');
	}
	if (!rc)
		*ret = out.len ? mu_arena_strdup(c->arena, (const char *)out.data) : NULL;
	mu_buf_free(&out);
	return rc;
}

static int read_span(struct conf *c, const struct key *key, const char *value, const char **ret)
{
	int64_t sec;
	char text[32];
	struct mu_err inner = {0};
	if (mu_pause_parse(value, &sec, &inner))
		return conf__fail(c, MU_EINVAL, "%s: %s", key->name, inner.text);
	mu_span_print(sec, 0, text);
	*ret = mu_arena_strdup(c->arena, text);
	return 0;
}

static int read_keep(struct conf *c, const struct key *key, const char *value, const char **ret)
{
	int64_t sec;
	char text[MU_KEEP_TEXT];
	struct mu_err inner = {0};
	if (mu_keep_parse(value, &sec, text, &inner))
		return conf__fail(c, MU_EINVAL, "%s: %s", key->name, inner.text);
	*ret = mu_arena_strdup(c->arena, text);
	return 0;
}

static int read_number(struct conf *c, const struct key *key, const char *value, const char **ret)
{
	int64_t n;
	struct mu_err inner = {0};
	if (key->kind == LIMIT && (!strcasecmp(value, "UNLIMITED") || !strcasecmp(value, "INFINITE"))) {
		*ret = strcasecmp(value, "INFINITE") ? "UNLIMITED" : "INFINITE";
		return 0;
	}
	if (mu_number_parse(key->name, value, key->low, key->high, &n, &inner))
		return conf__fail(c, MU_EINVAL, "%s%s", inner.text,
				  key->kind == LIMIT ? ", or UNLIMITED" : "");
	if (n < 0) /* Only a limit may be -1. */
		*ret = "INFINITE";
	else
		*ret = mu_arena_printf(c->arena, "%lld%s", (long long)n, key->unit);
	return 0;
}

static int read_memory(struct conf *c, const struct key *key, const char *value, const char **ret)
{
	uint64_t mib;
	struct mu_err inner = {0};
	if (!strcasecmp(value, "UNLIMITED") || !strcmp(value, "0")) {
		*ret = "UNLIMITED";
		return 0;
	}
	if (mu_mem_parse(value, &mib, &inner))
		return conf__fail(c, MU_EINVAL, "%s: %s", key->name, inner.text);
	*ret = mu_arena_printf(c->arena, "%llu", (unsigned long long)mib);
	return 0;
}

static int read_value(struct conf *c, const struct key *key, const char *value, const char **ret)
{
	bool yes;
	switch (key->kind) {
	case KEEP:
		return read_keep(c, key, value, ret);
	case NUMBER:
	case LIMIT:
		return read_number(c, key, value, ret);
	case MEMORY:
		return read_memory(c, key, value, ret);
	case SPAN:
		return read_span(c, key, value, ret);
	case YESNO:
	case FLAG:
		if (!conf__yes(value, &yes))
			return conf__fail(c, MU_EINVAL, "%s is \"%.80s\", but must be yes or no", key->name,
					  value);
		*ret = key->kind == FLAG ? (yes ? "1" : "0") : (yes ? "Yes" : "No");
		return 0;
	case WORD:
		return match_word(c, key, value, strlen(value), ret);
	case WORDS:
		return read_words(c, key, value, ret);
	case TEXT:
		*ret = value;
		return 0;
	}
	return MU_EINTERNAL;
}

/* ---- controllers ---- */

static int bad_host(struct conf *c, const char *value)
{
	return conf__fail(c, MU_EINVAL,
			  "SlurmctldHost is \"%.80s\", but must be NAME, NAME(ADDRESS), NAME(ADDRESS:PORT) "
			  "or NAME(ADDRESS:PORT:PEERPORT)",
			  value);
}

static bool is_host_name(const char *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!((p[i] >= 'a' && p[i] <= 'z') || (p[i] >= 'A' && p[i] <= 'Z') ||
		      (p[i] >= '0' && p[i] <= '9') || strchr("._-", p[i])))
			return false;
	return len > 0 && len < 256;
}

static int host_port(struct conf *c, const char *value, const char *p, size_t len, int *ret)
{
	char digits[8];
	int64_t port;
	struct mu_err inner;
	if (!len || len >= sizeof(digits))
		return bad_host(c, value);
	memcpy(digits, p, len);
	digits[len] = 0;
	if (mu_number_parse("the port", digits, 1, 65535, &port, &inner))
		return bad_host(c, value);
	*ret = (int)port;
	return 0;
}

/* NAME[(ADDR[:PORT[:PEER]])] */
static int read_host(struct conf *c, const char *value, struct conf__host *ret)
{
	struct conf__host h = {.file = c->file, .line = c->line};
	size_t name_len = strcspn(value, "(");
	if (!is_host_name(value, name_len))
		return bad_host(c, value);
	h.name = memcpy(mu_arena_alloc(c->arena, name_len + 1), value, name_len);
	h.addr = h.name;
	if (value[name_len]) {
		const char *p = value + name_len + 1;
		size_t addr_len = strcspn(p, ":)");
		if (!is_host_name(p, addr_len))
			return bad_host(c, value);
		h.addr = memcpy(mu_arena_alloc(c->arena, addr_len + 1), p, addr_len);
		p += addr_len;
		for (int i = 0; *p == ':'; i++) {
			size_t len = strcspn(p + 1, ":)");
			int rc = i > 1 ? bad_host(c, value)
				       : host_port(c, value, p + 1, len, i ? &h.peer_port : &h.port);
			if (rc)
				return rc;
			p += 1 + len;
		}
		if (strcmp(p, ")"))
			return bad_host(c, value);
	}
	*ret = h;
	return 0;
}

static int take_host(struct conf *c, int row, const char *value)
{
	struct conf__host h;
	int rc = read_host(c, value, &h);
	if (rc)
		return rc;
	conf__note(c, keys[row].name, keys[row].note);
	if (row == ROW_ControlMachine)
		c->control.name = h.name, c->control.file = h.file, c->control.line = h.line;
	else if (row == ROW_ControlAddr)
		c->control.addr = h.addr;
	else if (row == ROW_BackupController)
		c->backup.name = h.name, c->backup.file = h.file, c->backup.line = h.line;
	else if (row == ROW_BackupAddr)
		c->backup.addr = h.addr;
	else if (c->hosts == CONF__MAX_CONTROLLERS)
		return conf__fail(c, MU_ELIMIT, "there are more than %d controllers", CONF__MAX_CONTROLLERS);
	else
		c->host[c->hosts++] = h;
	return 0;
}

static int finish_hosts(struct conf *c)
{
	const struct conf__host *old[] = {&c->control, &c->backup};
	for (int i = 0; i < 2;
	     i++) { /* ControlMachine and BackupController count where there is no SlurmctldHost. */
		bool given = false;
		for (int k = 0; k < c->hosts; k++)
			given |= !old[i]->name || !strcmp(c->host[k].name, old[i]->name);
		if (!old[i]->name || given || c->hosts == CONF__MAX_CONTROLLERS)
			continue;
		c->host[c->hosts] = *old[i];
		if (!old[i]->addr)
			c->host[c->hosts].addr = old[i]->name;
		c->hosts++;
	}
	c->line = 0;
	if (!c->hosts)
		return conf__fail(c, MU_EINVAL, "no controller is named; add a line SlurmctldHost=NAME");
	Mu__Config *config = c->config;
	config->controller = mu_arena_alloc(c->arena, (size_t)c->hosts * sizeof(*config->controller));
	int port = (int)strtol(conf__value(c, "SlurmctldPort"), NULL, 10);
	for (int i = 0; i < c->hosts; i++) {
		const struct conf__host *h = &c->host[i];
		c->file = h->file;
		c->line = h->line;
		for (int k = 0; k < i; k++)
			if (!strcmp(c->host[k].name, h->name))
				return conf__fail(c, MU_EINVAL,
						  "the controller %s is named twice, first on line %d",
						  h->name, c->host[k].line);
		Mu__ControllerConf *ctl = mu_arena_alloc(c->arena, sizeof(*ctl));
		mu__controller_conf__init(ctl);
		ctl->name = (char *)h->name;
		ctl->addr = (char *)h->addr;
		ctl->has_port = ctl->has_peer_port = 1;
		ctl->port = (uint32_t)(h->port ? h->port : port);
		ctl->peer_port = (uint32_t)(h->peer_port ? h->peer_port : (int)ctl->port + 2);
		if (ctl->peer_port == ctl->port || ctl->peer_port > 65535)
			return conf__fail(c, MU_EINVAL,
					  "the controller %s cannot have %u as its peer port; write "
					  "NAME(ADDRESS:PORT:PEERPORT) with two different ports up to 65535",
					  h->name, ctl->peer_port);
		config->controller[config->n_controller++] = ctl;
	}
	if (c->hosts % 2 == 0)
		conf__note(c, "SlurmctldHost",
			   "an even number of controllers survives no more failures than one controller "
			   "less; use 1, 3 or 5");
	return 0;
}

/* ---- lines ---- */

static int unknown_key(struct conf *c, const char *name, enum use use)
{
	static const char *const of_nodes[] =
	    {"CPUs",	       "Boards",     "Sockets",	     "SocketsPerBoard", "CoresPerSocket",
	     "ThreadsPerCore", "RealMemory", "TmpDisk",	     "Weight",		"Gres",
	     "Features",       "NodeAddr",   "NodeHostName", "State",		"Procs"},
				 *const of_partitions[] = {"Nodes",	  "MaxTime",	   "DefaultTime",
							   "MaxNodes",	  "OverSubscribe", "PriorityTier",
							   "AllowGroups", "AllowAccounts", "Default"};
	for (size_t i = 0; i < sizeof(of_nodes) / sizeof(of_nodes[0]); i++)
		if (!strcasecmp(name, of_nodes[i]))
			return conf__fail(c, MU_EINVAL,
					  "%s belongs on a line that begins with NodeName=", of_nodes[i]);
	for (size_t i = 0; i < sizeof(of_partitions) / sizeof(of_partitions[0]); i++)
		if (!strcasecmp(name, of_partitions[i]))
			return conf__fail(
			    c, MU_EINVAL,
			    "%s belongs on a line that begins with PartitionName=", of_partitions[i]);
	const char *names[KEYS + 3];
	size_t count = 0;
	for (int i = 0; i < KEYS; i++)
		if ((keys[i].use == CGROUP) == (use == CGROUP))
			names[count++] = keys[i].name;
	if (use != CGROUP) {
		names[count++] = "NodeName";
		names[count++] = "PartitionName";
		names[count++] = "NodeSet";
	}
	const char *near = conf__nearest(name, names, count);
	if (near)
		return conf__fail(c, MU_EINVAL, "unknown key %s; did you mean %s?", name, near);
	return conf__fail(c, MU_EINVAL, "unknown key %s", name);
}

static int take_key(struct conf *c, const struct conf__pair *pair, enum use use)
{
	int row = find(pair->key);
	if (row < 0)
		return unknown_key(c, pair->key, use);
	const struct key *key = &keys[row];
	if (key->use == CGROUP && use != CGROUP)
		return conf__fail(c, MU_EINVAL, "%s belongs in cgroup.conf", key->name);
	if (key->use != CGROUP && use == CGROUP)
		return conf__fail(c, MU_EINVAL, "%s belongs in the main file, not in cgroup.conf", key->name);
	if (key->use == HOST)
		return take_host(c, row, pair->value);
	if (key->use == ALIAS) {
		conf__note(c, key->name, key->note);
		row = find(key->words);
		key = &keys[row];
	}
	const char *value;
	int rc = read_value(c, key, pair->value, &value);
	if (rc)
		return rc;
	if (key->use == GONE && value) {
		conf__note(c, key->name, key->note);
		return 0;
	}
	if (key->use == GONE)
		return 0;
	if (c->value[row] && value && strcmp(c->value[row], value))
		conf__note(
		    c, key->name,
		    mu_arena_printf(c->arena, "%s is set more than once; the last value counts", key->name));
	bool first = !c->value[row];
	c->value[row] = value ? value : "(null)";
	if (first && key->use == KEPT && strcmp(c->value[row], key->fallback))
		mu_buf_printf(&c->idle, "%s%s", c->idle.len ? ", " : "", key->name);
	return 0;
}

static void append(struct conf__lines *lines, struct conf__line *line)
{
	*lines->end = line;
	lines->end = &line->next;
	lines->count++;
}

int conf__take_keys(struct conf *c, struct conf__line *line)
{
	const char *first = line->pair[0].key;
	if (!strcasecmp(first, "NodeName"))
		append(&c->nodes, line);
	else if (!strcasecmp(first, "PartitionName"))
		append(&c->partitions, line);
	else if (!strcasecmp(first, "NodeSet"))
		append(&c->sets, line);
	else if (!strcasecmp(first, "DownNodes"))
		append(&c->downs, line);
	else if (conf__is_topology(first))
		return conf__take_topology(c, line);
	else if (!strcasecmp(first, "FrontendName"))
		conf__note(c, "FrontendName", "there are no front-end nodes; the line is unused");
	else
		for (int i = 0; i < line->count; i++) {
			int rc = take_key(c, &line->pair[i], USED);
			if (rc)
				return rc;
		}
	return 0;
}

int conf__take_cgroup(struct conf *c, struct conf__line *line)
{
	for (int i = 0; i < line->count; i++) {
		int rc = take_key(c, &line->pair[i], CGROUP);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- what the core reads itself ---- */

static uint64_t memory_of(const char *value)
{
	return *value >= '0' && *value <= '9' ? strtoull(value, NULL, 10) : 0;
}

/* 0: nobody reads the word; 1: it is one by itself; 2: a number belongs to it. */
static int sched_param(const char *word, size_t len)
{
	static const struct {
		const char *name;
		int kind;
	} words[] = {
#define MU_SCHED_PARAM(name, member, fallback, scale) {#name, 2},
#define MU_SCHED_FLAG(name, member) {#name, 1},
#include "proto/schedparams.def"
#undef MU_SCHED_FLAG
#undef MU_SCHED_PARAM
	};
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strlen(words[i].name) == len && !strncasecmp(word, words[i].name, len))
			return words[i].kind;
	return 0;
}

/* Names the words that act on nothing, or less than they say. */
static void sched_params(struct conf *c)
{
	const char *key = "SchedulerParameters", *text = conf__value(c, key);
	if (!strcmp(text, "(null)"))
		return;
	for (size_t len = 0; *text; text += len + (text[len] == ',')) {
		len = strcspn(text, ",");
		size_t name = strcspn(text, "=,");
		bool number = text[name] == '=' && text[name + 1] >= '0' && text[name + 1] <= '9';
		int kind = sched_param(text, name);
		if (!kind && len)
			mu_buf_printf(&c->idle, "%s%s=%.*s", c->idle.len ? ", " : "", key, (int)len, text);
		else if (kind == 2 && !number)
			conf__note(c, key,
				   mu_arena_printf(c->arena, "%.*s needs a number; its default counts",
						   (int)name, text));
		else if (!strncasecmp(text, "bf_max_job_array_resv=", 22) && strtol(text + 22, NULL, 10) > 1)
			conf__note(
			    c, key,
			    "bf_max_job_array_resv above 1 acts as 1: of an array the next task is planned "
			    "ahead, whatever waits behind it");
	}
}

#define SET(field, value)                \
	do {                             \
		config->has_##field = 1; \
		config->field = (value); \
	} while (0)
#define NUMBER_OF(key) ((uint32_t)strtoul(conf__value(c, key), NULL, 10))

static void fill_fields(struct conf *c)
{
	Mu__Config *config = c->config;
	SET(min_job_age_sec, NUMBER_OF("MinJobAge"));
	SET(slurmd_timeout_sec, NUMBER_OF("SlurmdTimeout"));
	SET(kill_wait_sec, NUMBER_OF("KillWait"));
	SET(max_job_count, NUMBER_OF("MaxJobCount"));
	SET(max_job_id, NUMBER_OF("MaxJobId"));
	SET(first_job_id, NUMBER_OF("FirstJobId"));
	SET(max_array_size, NUMBER_OF("MaxArraySize"));
	SET(return_to_service, NUMBER_OF("ReturnToService"));
	SET(job_requeue, *conf__value(c, "JobRequeue") == '1');
	SET(requeue_needs_fence, *conf__value(c, "RequeueNeedsFence") == 'Y');
	SET(inactive_limit_sec, NUMBER_OF("InactiveLimit"));
	SET(heartbeat_sec, NUMBER_OF("MusterHeartbeat"));
	SET(batch_start_timeout_sec, NUMBER_OF("BatchStartTimeout"));
	SET(max_step_count, NUMBER_OF("MaxStepCount"));
	SET(job_file_append, *conf__value(c, "JobFileAppend") == '1');
	SET(complete_wait_sec, NUMBER_OF("CompleteWait"));
	SET(unkillable_timeout_sec, NUMBER_OF("UnkillableStepTimeout"));
	const char *over = conf__value(c, "OverTimeLimit");
	SET(over_time_limit_sec, *over >= '0' && *over <= '9' ? NUMBER_OF("OverTimeLimit") * 60 : UINT32_MAX);
	if (memory_of(conf__value(c, "DefMemPerCPU")))
		SET(def_mem_cpu_mib, memory_of(conf__value(c, "DefMemPerCPU")));
	if (memory_of(conf__value(c, "DefMemPerNode")))
		SET(def_mem_node_mib, memory_of(conf__value(c, "DefMemPerNode")));
	if (memory_of(conf__value(c, "MaxMemPerCPU")))
		SET(max_mem_cpu_mib, memory_of(conf__value(c, "MaxMemPerCPU")));
	if (memory_of(conf__value(c, "MaxMemPerNode")))
		SET(max_mem_node_mib, memory_of(conf__value(c, "MaxMemPerNode")));
	config->cluster_name = (char *)conf__value(c, "ClusterName");
	config->select_type_parameters = (char *)conf__value(c, "SelectTypeParameters");
	if (strcasestr(config->select_type_parameters, "CR_PACK_NODES"))
		conf__note(c, "SelectTypeParameters",
			   "tasks fill one node before the next without CR_PACK_NODES too; "
			   "--distribution=NoPack spreads them evenly");
	sched_params(c);
	config->enforce_part_limits = (char *)conf__value(c, "EnforcePartLimits");
	config->priority_type = (char *)conf__value(c, "PriorityType");
}

/* What PreemptParameters may say. */
static int check_preempt(struct conf *c)
{
	static const char *const known[] = {"youngest_first", "strict_order", "send_user_signal",
					    "reorder_count=", "min_exempt_priority="};
	const char *text = conf__value(c, "PreemptParameters"), *type = conf__value(c, "PreemptType");
	struct mu_err inner = {0};
	size_t n;
	if (mu_preempt_mode_check(conf__value(c, "PreemptMode"), &inner))
		return conf__fail(c, MU_EINVAL, "%s", inner.text);
	if (strcasestr(conf__value(c, "PreemptMode"), "SUSPEND") &&
	    !strcasestr(conf__value(c, "PreemptMode"), "GANG"))
		return conf__fail(
		    c, MU_EINVAL,
		    "PreemptMode is SUSPEND, but must be SUSPEND,GANG: suspended jobs go on again");
	if (!strcasestr(type, "preempt/") && strcasecmp(conf__value(c, "PreemptMode"), "OFF"))
		conf__note(c, "PreemptMode",
			   "nobody preempts without PreemptType=preempt/partition_prio or preempt/qos");
	for (size_t i = 0; i < c->config->n_partition && strcasestr(conf__value(c, "PreemptMode"), "GANG");
	     i++) {
		const char *over = c->config->partition[i]->oversubscribe;
		if (over && strchr(over, ':') && strcmp(strchr(over, ':'), ":1"))
			conf__note(c, "PreemptMode",
				   "jobs that share CPUs run at the same time: GANG makes none take turns");
	}
	for (const char *p = strcmp(text, "(null)") ? text : ""; *p; p += n + (p[n] == ',')) {
		size_t i = 0, all = sizeof(known) / sizeof(known[0]);
		n = strcspn(p, ",");
		for (; i < all; i++) {
			size_t len = strlen(known[i]);
			if (strncasecmp(p, known[i], len) == 0 &&
			    (known[i][len - 1] == '=' ? n > len : n == len))
				break;
		}
		if (i == all)
			return conf__fail(c, MU_EINVAL,
					  "PreemptParameters has \"%.*s\", but youngest_first, strict_order, "
					  "send_user_signal, "
					  "reorder_count=N and min_exempt_priority=N are what is honoured",
					  (int)(n > 80 ? 80 : n), p);
	}
	return 0;
}

static int check_pairs(struct conf *c)
{
	static const enum row excluding[][2] = {{ROW_DefMemPerCPU, ROW_DefMemPerNode},
						{ROW_MaxMemPerCPU, ROW_MaxMemPerNode}};
	c->line = 0;
	for (size_t i = 0; i < sizeof(excluding) / sizeof(excluding[0]); i++) {
		enum row cpu = excluding[i][0], node = excluding[i][1];
		if (c->value[cpu] && c->value[node])
			return conf__fail(c, MU_EINVAL, "%s and %s exclude each other; keep one",
					  keys[cpu].name, keys[node].name);
		if (c->value[cpu])
			c->value[node] = "(null)";
	}
	if (!c->value[ROW_ClusterName])
		return conf__fail(c, MU_EINVAL, "the cluster has no name; add a line ClusterName=NAME");
	const char *name = c->value[ROW_ClusterName];
	if (!is_host_name(name, strlen(name)) || strlen(name) > 40)
		return conf__fail(c, MU_EINVAL,
				  "ClusterName is \"%.80s\", but must be up to 40 letters, digits, dots, "
				  "dashes and underscores",
				  name);
	if (c->config->first_job_id > c->config->max_job_id)
		return conf__fail(c, MU_EINVAL, "FirstJobId (%u) is above MaxJobId (%u)",
				  c->config->first_job_id, c->config->max_job_id);
	for (int i = 0; i < KEYS; i++)
		if (c->value[i] && keys[i].use == USED &&
		    (strstr(keys[i].name, "LogFile") || strstr(keys[i].name, "PidFile") ||
		     strstr(keys[i].name, "Dir") || i == ROW_StateSaveLocation) &&
		    *c->value[i] != '/' && strcmp(c->value[i], "(null)"))
			return conf__fail(c, MU_EINVAL,
					  "%s is \"%.80s\", but must be an absolute path, beginning with /",
					  keys[i].name, c->value[i]);
	return 0;
}

static void list_keys(struct conf *c)
{
	Mu__Config *config = c->config;
	config->key = mu_arena_alloc(c->arena, KEYS * sizeof(*config->key));
	for (int i = 0; i < KEYS; i++) {
		if (keys[i].use == GONE || keys[i].use == HOST || keys[i].use == ALIAS ||
		    (keys[i].use == CGROUP && !c->value[i]))
			continue;
		Mu__KeyValue *pair = mu_arena_alloc(c->arena, sizeof(*pair));
		mu__key_value__init(pair);
		pair->key = (char *)keys[i].name;
		pair->value = (char *)(c->value[i] ? c->value[i] : keys[i].fallback);
		config->key[config->n_key++] = pair;
	}
}

int conf__finish_keys(struct conf *c)
{
	fill_fields(c);
	int rc = check_pairs(c);
	if (!rc)
		rc = check_preempt(c);
	if (!rc)
		rc = finish_hosts(c);
	if (rc)
		return rc;
	c->line = 0;
	if (c->idle.len && c->note)
		c->note(c->arg, mu_arena_printf(c->arena, "%s: kept and shown, but without effect: %s",
						c->main, (const char *)c->idle.data));
	list_keys(c);
	return 0;
}

size_t conf__keys(void)
{
	return KEYS;
}
