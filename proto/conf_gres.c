/* proto/conf_gres.c: devices: Gres= of the nodes joined with the lines of gres.conf. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "proto/conf_impl.h"
#include "proto/hostlist.h"
#include "proto/units.h"

/* One line of gres.conf. */
struct record {
	const char *file_name; /* where it stands */
	int line;
	char **node; /* the nodes that it is for; 0 of them: all */
	size_t nodes;
	const char *name, *type, *cores;
	char **file;
	size_t files;
	int64_t count;		    /* -1: as many as files, or one */
	const char *links, *detect; /* detect: of AutoDetect=, "" for off; NULL: not said */
	int64_t env;		    /* -1: Flags= says nothing of it */
	struct record *next;
};

struct records {
	struct record *first, **end; /* lines that give devices */
	size_t count;
	struct record *detect, **detect_end; /* lines with AutoDetect= */
};

static bool is_declared(const struct conf *c, const char *name)
{
	const char *types = conf__value(c, "GresTypes");
	size_t len = strlen(name);
	for (const char *p = types; *p;) {
		size_t n = strcspn(p, ",");
		if (n == len && !strncasecmp(p, name, n))
			return true;
		p += n + (p[n] == ',');
	}
	return false;
}

/* VALUE without what stands in round brackets, such as (S:0-1). */
static char *without_sockets(struct conf *c, const char *value)
{
	char *out = mu_arena_alloc(c->arena, strlen(value) + 1);
	size_t len = 0;
	for (const char *p = value; *p; p++) {
		const char *close = *p == '(' ? strchr(p, ')') : NULL;
		if (close)
			p = close;
		else
			out[len++] = *p;
	}
	return out;
}

int conf__node_gres(struct conf *c, const char *value, Mu__NodeConf *node)
{
	Mu__GresAsk **ask;
	size_t count;
	struct mu_err inner = {0};
	if (mu_gres_parse(without_sockets(c, value), c->arena, &ask, &count, &inner))
		return conf__fail(c, MU_EINVAL, "Gres: %s", inner.text);
	node->gres = mu_arena_alloc(c->arena, (count + 1) * sizeof(*node->gres));
	node->n_gres = 0;
	for (size_t i = 0; i < count; i++) {
		if (!is_declared(c, ask[i]->name))
			return conf__fail(c, MU_EINVAL,
					  "Gres=%.80s needs %s among GresTypes; add a line GresTypes=%s",
					  value, ask[i]->name, ask[i]->name);
		if (!ask[i]->count)
			continue;
		Mu__GresConf *gres = mu_arena_alloc(c->arena, sizeof(*gres));
		mu__gres_conf__init(gres);
		gres->name = ask[i]->name;
		gres->type = ask[i]->type;
		gres->has_count = 1;
		gres->count = ask[i]->count;
		node->gres[node->n_gres++] = gres;
	}
	return 0;
}

/* ---- gres.conf ---- */

static int expand(struct conf *c, const char *what, const char *value, size_t max, char ***ret,
		  size_t *ret_count)
{
	struct mu_err inner = {0};
	return mu_hostlist_expand(value, max, c->arena, ret, ret_count, &inner)
		   ? conf__fail(c, MU_EINVAL, "%s: %s", what, inner.text)
		   : 0;
}

static int check_nodes(struct conf *c, const struct record *r)
{
	for (size_t i = 0; i < r->nodes; i++)
		if (conf__node_index(c, r->node[i]) < 0)
			return conf__fail(c, MU_EINVAL,
					  "the line names the node %s, which no NodeName line declares",
					  r->node[i]);
	return 0;
}

static int check_files(struct conf *c, const struct record *r)
{
	for (size_t i = 0; i < r->files; i++)
		if (*r->file[i] != '/')
			return conf__fail(c, MU_EINVAL,
					  "File is \"%.80s\", but must be an absolute path, beginning with /",
					  r->file[i]);
	return 0;
}

static int take_detect(struct conf *c, const char *value, struct record *r)
{
	static const char *const works[] = {"nvml", "nvidia", "rsmi"};
	static const char *const idle[] = {"nrt", "oneapi"};
	for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); i++)
		if (!strcasecmp(value, works[i])) {
			r->detect = works[i];
			return 0;
		}
	for (size_t i = 0; i < sizeof(idle) / sizeof(idle[0]); i++)
		if (!strcasecmp(value, idle[i]))
			return conf__fail(
			    c, MU_EINVAL,
			    "AutoDetect=%s is not known to this version, which finds GPUs by nvml, "
			    "nvidia and rsmi; name the devices with File=",
			    idle[i]);
	r->detect = "";
	return strcasecmp(value, "off")
		   ? conf__fail(c, MU_EINVAL,
				"AutoDetect is \"%.80s\", but must be nvml, nvidia, rsmi or off", value)
		   : 0;
}

/* Words of Flags= that say which variables a job gets; the others change nothing here. */
static int take_flags(struct conf *c, const char *value, struct record *r)
{
	static const struct {
		const char *word;
		int64_t env;
	} row[] = {{"nvidia_gpu_env", MU_GPU_ENV_NVIDIA},
		   {"amd_gpu_env", MU_GPU_ENV_AMD},
		   {"intel_gpu_env", MU_GPU_ENV_INTEL},
		   {"opencl_env", MU_GPU_ENV_OPENCL},
		   {"no_gpu_env", 0},
		   {"CountOnly", -1},
		   {"explicit", -1},
		   {"one_sharing", -1},
		   {"all_sharing", -1}};
	for (const char *p = value; *p;) {
		size_t n = strcspn(p, ","), i = 0, rows = sizeof(row) / sizeof(row[0]);
		while (i < rows && (strlen(row[i].word) != n || strncasecmp(p, row[i].word, n)))
			i++;
		if (i == rows)
			return conf__fail(c, MU_EINVAL, "Flags has no word %.*s", (int)n, p);
		if (row[i].env >= 0)
			r->env = (r->env < 0 ? 0 : r->env) | row[i].env;
		p += n + (p[n] == ',');
	}
	return 0;
}

/* "-1,16,16": whole numbers. */
static int take_links(struct conf *c, const char *value, struct record *r)
{
	bool digit = false;
	for (const char *p = value; *p; p++) {
		digit = *p >= '0' && *p <= '9';
		if (!digit && *p != ',' && *p != '-')
			break;
	}
	r->links = value;
	return digit ? 0
		     : conf__fail(c, MU_EINVAL,
				  "Links is \"%.80s\", but must be a list of whole numbers such as -1,16,16",
				  value);
}

static int record_word(struct conf *c, const struct conf__pair *pair, struct record *r)
{
	static const char *const known[] = {"NodeName", "Name", "Type",	 "File",  "MultipleFiles", "Count",
					    "Cores",	"CPUs", "Links", "Flags", "AutoDetect"};
	static const char *const cores_form =
	    "Cores is \"%.80s\", but must be a list of CPU numbers such as 0-3,8";
	const char *key = pair->key, *value = pair->value;
	uint64_t count;
	struct mu_bits bits = {0};
	if (!strcasecmp(key, "NodeName")) {
		int rc = expand(c, "NodeName", value, CONF__MAX_NODES, &r->node, &r->nodes);
		return rc ? rc : check_nodes(c, r);
	}
	if (!strcasecmp(key, "Name")) {
		r->name = value;
		return is_declared(c, value) ? 0
					     : conf__fail(c, MU_EINVAL,
							  "Name=%.80s is not among GresTypes; add a line "
							  "GresTypes=%.80s to the main file",
							  value, value);
	}
	if (!strcasecmp(key, "Type")) {
		r->type = value;
		return 0;
	}
	if (!strcasecmp(key, "File") || !strcasecmp(key, "MultipleFiles")) {
		int rc = expand(c, key, value, CONF__MAX_FILES_GRES, &r->file, &r->files);
		return rc ? rc : check_files(c, r);
	}
	if (!strcasecmp(key, "Count")) {
		Mu__GresAsk **ask;
		size_t asks;
		if (strchr(value, ',') || strchr(value, ':') ||
		    mu_gres_parse(mu_arena_printf(c->arena, "x:%s", value), c->arena, &ask, &asks, NULL) ||
		    ask[0]->type)
			return conf__fail(c, MU_EINVAL, "Count is \"%.80s\", but must be a whole number",
					  value);
		count = ask[0]->count;
		r->count = (int64_t)count;
		return 0;
	}
	if (!strcasecmp(key, "Cores") || !strcasecmp(key, "CPUs")) {
		r->cores = value;
		int rc = mu_bits_parse(&bits, value, 65535);
		mu_bits_free(&bits);
		return rc ? conf__fail(c, MU_EINVAL, cores_form, value) : 0;
	}
	if (!strcasecmp(key, "AutoDetect"))
		return take_detect(c, value, r);
	if (!strcasecmp(key, "Links"))
		return take_links(c, value, r);
	if (!strcasecmp(key, "Flags"))
		return take_flags(c, value, r);
	const char *near = conf__nearest(key, known, sizeof(known) / sizeof(known[0]));
	return near ? conf__fail(c, MU_EINVAL, "gres.conf has no word %s; did you mean %s?", key, near)
		    : conf__fail(c, MU_EINVAL, "gres.conf has no word %s", key);
}

static int take_record(struct conf *c, struct conf__line *line)
{
	struct record *r = mu_arena_alloc(c->arena, sizeof(*r));
	r->file_name = line->file;
	r->line = line->number;
	r->count = r->env = -1;
	for (int i = 0; i < line->count; i++) {
		int rc = record_word(c, &line->pair[i], r);
		if (rc)
			return rc;
	}
	if (!r->name && (r->files || r->type || r->count >= 0))
		return conf__fail(
		    c, MU_EINVAL,
		    "the line says nothing of which resource it is; add Name=, for example Name=gpu");
	struct records *list = c->gres;
	if (r->detect) {
		*list->detect_end = r;
		list->detect_end = &r->next;
	}
	/* What is detected comes from such a line; one that names or counts devices stands for itself. */
	if (!r->name || (r->detect && !r->files && r->count < 0))
		return 0;
	if (r->detect)
		r = mu_arena_dup(c->arena, r, sizeof(*r));
	if (r->files && r->count >= 0 && (uint64_t)r->count != r->files)
		return conf__fail(
		    c, MU_EINVAL,
		    "Count is %lld, but File names %zu devices; leave Count out or make them agree",
		    (long long)r->count, r->files);
	if (r->count < 0)
		r->count = r->files ? (int64_t)r->files : 1;
	r->next = NULL;
	*list->end = r;
	list->end = &r->next;
	list->count++;
	return 0;
}

/* The records that are for one node, in the order of the file. */
struct use {
	const struct record *record;
	struct use *next;
};

struct uses {
	struct use *first, *last;
};

static void add_use(struct conf *c, struct uses *uses, const struct record *r)
{
	if (uses->last && uses->last->record == r)
		return;
	struct use *use = mu_arena_alloc(c->arena, sizeof(*use));
	use->record = r;
	if (uses->last)
		uses->last->next = use;
	else
		uses->first = use;
	uses->last = use;
}

static struct uses *by_node(struct conf *c, const struct records *list)
{
	size_t nodes = c->config->n_node;
	struct uses *uses = mu_arena_alloc(c->arena, (nodes + 1) * sizeof(*uses));
	for (const struct record *r = list->first; r; r = r->next) {
		for (size_t i = 0; i < r->nodes; i++)
			add_use(c, &uses[conf__node_index(c, r->node[i])], r);
		for (size_t i = 0; i < nodes && !r->nodes; i++)
			add_use(c, &uses[i], r);
	}
	return uses;
}

static bool is_of(const struct record *r, const Mu__GresConf *gres)
{
	return !strcasecmp(r->name, gres->name) && (!gres->type || (r->type && !strcmp(r->type, gres->type)));
}

/* A device list for WANT units of GRES out of record R. */
static Mu__GresConf *from_record(struct conf *c, const struct record *r, const Mu__GresConf *gres,
				 uint64_t count)
{
	Mu__GresConf *made = mu_arena_alloc(c->arena, sizeof(*made));
	mu__gres_conf__init(made);
	made->name = gres->name;
	made->type = gres->type ? gres->type : (char *)r->type;
	made->has_count = 1;
	made->count = count;
	made->cores = (char *)r->cores;
	made->file = r->file;
	made->n_file = r->files ? (size_t)count : 0;
	if (r->env >= 0) {
		made->has_env = 1;
		made->env = (uint32_t)r->env;
	}
	if (!r->links || !made->n_file)
		return made;
	made->links = mu_arena_alloc(c->arena, made->n_file * sizeof(*made->links));
	for (; made->n_links < made->n_file; made->n_links++)
		made->links[made->n_links] = (char *)r->links;
	return made;
}

static int join_one(struct conf *c, Mu__NodeConf *node, const Mu__GresConf *gres, const struct uses *uses,
		    Mu__GresConf **out, size_t *n)
{
	uint64_t want = gres->count;
	const struct record *last = NULL;
	for (const struct use *use = uses->first; use; use = use->next) {
		const struct record *r = use->record;
		if (!is_of(r, gres))
			continue;
		last = r;
		uint64_t take = (uint64_t)r->count < want ? (uint64_t)r->count : want;
		if (take)
			out[(*n)++] = from_record(c, r, gres, take);
		want -= take;
	}
	if (!last) { /* A bare counter. */
		out[*n] = mu_arena_dup(c->arena, gres, sizeof(*gres));
		++*n;
		return 0;
	}
	/* What no line names is looked for where that is on. */
	if (want && node->gpu_detect && !strcasecmp(gres->name, "gpu")) {
		Mu__GresConf *rest = mu_arena_dup(c->arena, gres, sizeof(*gres));
		rest->count = want;
		out[(*n)++] = rest;
		want = 0;
	}
	if (!want)
		return 0;
	c->file = last->file_name;
	c->line = last->line;
	return conf__fail(c, MU_EINVAL,
			  "the node %s should have %llu of Gres=%s%s%s, but gres.conf gives it only %llu",
			  node->name, (unsigned long long)gres->count, gres->name, gres->type ? ":" : "",
			  gres->type ? gres->type : "", (unsigned long long)(gres->count - want));
}

/* A record for nodes that do not have such a resource is an oversight worth a remark. */
static void check_used(struct conf *c, const struct records *list)
{
	for (const struct record *r = list->first; r; r = r->next) {
		c->file = r->file_name;
		c->line = r->line;
		for (size_t i = 0; i < r->nodes; i++) {
			const Mu__NodeConf *node = c->config->node[conf__node_index(c, r->node[i])];
			bool used = false;
			for (size_t k = 0; k < node->n_gres; k++)
				used |= !strcasecmp(node->gres[k]->name, r->name);
			if (!used)
				conf__note(c, r->name,
					   mu_arena_printf(c->arena,
							   "the NodeName line of %s has no Gres=%s, so these "
							   "devices are not used",
							   node->name, r->name));
		}
	}
}

/* AutoDetect= of a node's own line, else of a line for all. Devices of its kind tell jobs in its way. */
static void set_detect(struct conf *c, const struct records *list)
{
	for (int own = 0; own < 2; own++)
		for (const struct record *r = list->detect; r; r = r->next)
			for (size_t i = 0; !r->nodes == !own && i < (own ? r->nodes : c->config->n_node);
			     i++) {
				Mu__NodeConf *node =
				    c->config->node[own ? (size_t)conf__node_index(c, r->node[i]) : i];
				node->gpu_detect = *r->detect ? (char *)r->detect : NULL;
			}
}

static void set_env(Mu__NodeConf *node, const struct records *list)
{
	int64_t env = -1;
	for (const struct record *r = list->detect; r; r = r->next)
		env = r->env >= 0 ? r->env : env;
	if (env < 0)
		env = node->gpu_detect && !strcmp(node->gpu_detect, "rsmi") ? MU_GPU_ENV_AMD
									    : MU_GPU_ENV_NVIDIA;
	for (size_t i = 0; i < node->n_gres && node->gpu_detect; i++)
		if (!strcasecmp(node->gres[i]->name, "gpu") && !node->gres[i]->has_env) {
			node->gres[i]->has_env = 1;
			node->gres[i]->env = (uint32_t)env;
		}
}

int conf__finish_gres(struct conf *c)
{
	struct records list = {0};
	list.end = &list.first;
	list.detect_end = &list.detect;
	c->gres = &list;
	int rc = conf__companion(c, "gres.conf", take_record);
	if (rc == MU_ENOENT)
		return 0;
	struct uses *uses = rc ? NULL : by_node(c, &list);
	if (!rc)
		set_detect(c, &list);
	for (size_t i = 0; i < c->config->n_node && !rc; i++) {
		Mu__NodeConf *node = c->config->node[i];
		if (!node->n_gres)
			continue;
		size_t n = 0, records = 0;
		for (const struct use *use = uses[i].first; use; use = use->next)
			records++;
		Mu__GresConf **out = mu_arena_alloc(c->arena, (node->n_gres * (records + 1)) * sizeof(*out));
		for (size_t k = 0; k < node->n_gres && !rc; k++)
			rc = join_one(c, node, node->gres[k], &uses[i], out, &n);
		node->gres = out;
		node->n_gres = n;
		set_env(node, &list);
	}
	if (!rc)
		check_used(c, &list);
	c->gres = NULL;
	return rc;
}
