/* ctld/whatif_run.c: an archive into two histories, and a configuration into another: see whatif.h. */
#include "log/ctld/whatif.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "log/ctld/setup.h"
#include "proto/conf_fold.h"
#include "proto/hostlist.h"
#include "proto/units.h"
#include "query/history.h"

enum { NODES_MAX = 100000 };

/* ---- moments ---- */

static int64_t local_seconds(void *arg, struct tm *tm)
{
	(void)arg;
	return (int64_t)mktime(tm);
}

static void broken_down(void *arg, int64_t sec, struct tm *ret)
{
	time_t t = (time_t)sec;

	(void)arg;
	(void)localtime_r(&t, ret);
}

int whatif_moment(struct view *v, const char *text, int64_t *ret_usec, struct mu_err *err)
{
	const struct mu_zone zone = {.local = local_seconds, .breakdown = broken_down};
	struct mu_hash chain, digest;
	bool known;
	int64_t pos;
	int code;

	if (*text != '@')
		return mu_date_parse(text, (int64_t)time(NULL) * 1000000, 0, &zone, ret_usec, err);
	code = mu_number_parse("the position", text + 1, 1, INT64_MAX, &pos, err);
	return code ? code : view_mark(v, (uint64_t)pos, &chain, &digest, &known, ret_usec, err);
}

/* ---- another configuration ---- */

/* One key as the configuration file's reader understands it: parsed beside a file without it, whatever
 * differs is what the key means. */
static int parse_key(const char *line, struct mu_arena *arena, Mu__Config **ret, struct mu_err *err)
{
	const char *text = mu_arena_printf(
	    arena, "ClusterName=x\nSlurmctldHost=x\n%s\nNodeName=x\nPartitionName=x Nodes=x\n", line);

	return mu_conf_parse("--set", text, NULL, NULL, NULL, arena, ret, err);
}

static bool same_field(const ProtobufCFieldDescriptor *f, const Mu__Config *a, const Mu__Config *b)
{
	const char *x = (const char *)a + f->offset, *y = (const char *)b + f->offset;

	if (f->type == PROTOBUF_C_TYPE_STRING) {
		const char *s = *(char *const *)x, *t = *(char *const *)y;
		return strcmp(s ? s : "", t ? t : "") == 0;
	}
	size_t size = f->type == PROTOBUF_C_TYPE_BOOL ? sizeof(protobuf_c_boolean)
		      : f->type == PROTOBUF_C_TYPE_UINT64 || f->type == PROTOBUF_C_TYPE_INT64 ? 8
											      : 4;
	return memcmp(x, y, size) == 0;
}

static void take_field(const ProtobufCFieldDescriptor *f, const Mu__Config *from, Mu__Config *to)
{
	size_t size = f->type == PROTOBUF_C_TYPE_STRING ? sizeof(char *)
		      : f->type == PROTOBUF_C_TYPE_BOOL ? sizeof(protobuf_c_boolean)
		      : f->type == PROTOBUF_C_TYPE_UINT64 || f->type == PROTOBUF_C_TYPE_INT64 ? 8
											      : 4;

	memcpy((char *)to + f->offset, (const char *)from + f->offset, size);
	if (f->type != PROTOBUF_C_TYPE_STRING)
		*(protobuf_c_boolean *)((char *)to + f->quantifier_offset) = 1;
}

static void set_key(Mu__Config *c, struct mu_arena *arena, const Mu__KeyValue *k)
{
	Mu__KeyValue **list = mu_arena_alloc(arena, (c->n_key + 1) * sizeof list[0]);
	size_t at = 0;

	if (c->n_key)
		memcpy(list, c->key, c->n_key * sizeof list[0]);
	while (at < c->n_key && strcasecmp(list[at]->key, k->key))
		at++;
	list[at] = mu_arena_dup(arena, k, sizeof *k);
	c->n_key += at == c->n_key;
	c->key = list;
}

static int set_one(Mu__Config *c, struct mu_arena *arena, const char *line, struct mu_err *err)
{
	static const char *const rows[] = {"NodeName",	  "PartitionName", "SlurmctldHost",
					   "ClusterName", "Include",	   "NodeSet"};
	Mu__Config *base = NULL, *with = NULL;
	size_t len = strcspn(line, "=");

	if (!len || !line[len])
		return mu_fail(err, MU_EINVAL, "--set takes KEY=VALUE, not \"%s\"", line);
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (strlen(rows[i]) == len && !strncasecmp(rows[i], line, len))
			return mu_fail(err, MU_EINVAL,
				       "--set changes one key; give a file with another %s to --conf",
				       rows[i]);
	int code = parse_key("", arena, &base, err);
	if (!code)
		code = parse_key(line, arena, &with, err);
	if (code)
		return code;
	for (unsigned i = 0; i < mu__config__descriptor.n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &mu__config__descriptor.fields[i];
		if (f->id >= 20 && f->label == PROTOBUF_C_LABEL_OPTIONAL && !same_field(f, base, with))
			take_field(f, with, c);
	}
	for (size_t i = 0; i < with->n_key; i++)
		if (strlen(with->key[i]->key) == len && !strncasecmp(with->key[i]->key, line, len))
			set_key(c, arena, with->key[i]);
	return 0;
}

static Mu__NodeConf *node_named(const Mu__Config *c, const char *name)
{
	for (size_t i = 0; i < c->n_node; i++)
		if (!strcmp(c->node[i]->name, name))
			return c->node[i];
	return NULL;
}

static bool has_node(const Mu__PartitionConf *p, const char *name)
{
	for (size_t i = 0; i < p->n_node; i++)
		if (!strcmp(p->node[i], name))
			return true;
	return false;
}

static void join(Mu__PartitionConf **p, struct mu_arena *arena, char **names, size_t count, const char *list)
{
	Mu__PartitionConf *own = mu_arena_dup(arena, *p, sizeof **p);

	own->node = mu_arena_alloc(arena, (own->n_node + count) * sizeof own->node[0]);
	memcpy(own->node, (*p)->node, own->n_node * sizeof own->node[0]);
	memcpy(own->node + own->n_node, names, count * sizeof names[0]);
	own->n_node += count;
	if (!own->nodes || strcasecmp(own->nodes, "ALL"))
		own->nodes = mu_arena_printf(arena, "%s,%s", own->nodes ? own->nodes : "", list);
	*p = own;
}

/* C is spelt out. */
static int add_nodes(Mu__Config *c, struct mu_arena *arena, const char *word, struct mu_err *err)
{
	const char *equals = strchr(word, '=');
	char *list = mu_arena_strdup(arena, word), **names;
	size_t count;

	if (!equals || equals == word || !equals[1])
		return mu_fail(err, MU_EINVAL,
			       "--add-nodes takes LIST=LIKE: names of new nodes, and a node that they are "
			       "like; not \"%s\"",
			       word);
	list[equals - word] = 0;
	const Mu__NodeConf *like = node_named(c, equals + 1);
	if (!like)
		return mu_fail(err, MU_ENODENAME, "--add-nodes: there is no node %s to be like", equals + 1);
	int code = mu_hostlist_expand(list, NODES_MAX, arena, &names, &count, err);
	if (code)
		return code;
	Mu__NodeConf **nodes = mu_arena_alloc(arena, (c->n_node + count) * sizeof nodes[0]);
	memcpy(nodes, c->node, c->n_node * sizeof nodes[0]);
	for (size_t i = 0; i < count; i++) {
		if (node_named(c, names[i]))
			return mu_fail(err, MU_EINVAL, "--add-nodes: node %s is there already", names[i]);
		Mu__NodeConf *n = nodes[c->n_node + i] = mu_arena_dup(arena, like, sizeof *like);
		n->name = n->addr = n->hostname = names[i];
	}
	Mu__PartitionConf **parts = mu_arena_dup(arena, c->partition, c->n_partition * sizeof parts[0]);
	for (size_t i = 0; i < c->n_partition; i++)
		if (has_node(parts[i], like->name))
			join(&parts[i], arena, names, count, list);
	c->partition = parts;
	c->node = nodes;
	c->n_node += count;
	return 0;
}

static int alter(void *arg, const Mu__Config *was, struct mu_arena *arena, Mu__Config **ret,
		 struct mu_err *err)
{
	struct whatif_run *r = arg;
	Mu__Config *c = NULL;

	if (r->conf && r->conf_given) {
		*ret = NULL; /* The file stands for all that were set. */
		return 0;
	}
	r->conf_given = true;
	int code = mu_conf_expand(r->conf ? r->conf : was, NODES_MAX, arena, &c, err);
	if (code)
		return code;
	c = mu_arena_dup(arena, c, sizeof *c);
	for (size_t i = 0; i < r->rules.set_count && !code; i++)
		code = set_one(c, arena, r->rules.set[i], err);
	for (size_t i = 0; i < r->rules.add_count && !code; i++)
		code = add_nodes(c, arena, r->rules.add[i], err);
	if (!code)
		*ret = mu_conf_fold(c, arena);
	return code;
}

/* ---- entries ---- */

static int learn(void *arg, const struct sch_state *st, const struct sch_at *at, const uint8_t *event,
		 size_t len, const struct sch_verdict *verdict)
{
	struct whatif_run *r = arg;

	return sch_whatif_learn(r->w, st, at, event, len, verdict);
}

enum { ENOUGH = 1 };

static int tell(void *arg, uint64_t pos, int64_t time_usec, const struct mu_view *event, size_t count)
{
	struct whatif_run *r = arg;
	int code = sch_whatif_entry(r->w, pos, time_usec, event, count, &r->why);

	if (time_usec <= r->to_usec)
		r->to = pos;
	return code ? code : sch_whatif_over(r->w) ? ENOUGH : 0;
}

static int state_before(struct view *v, uint64_t pos, struct sch_state **ret, struct mu_err *err)
{
	if (pos > 1)
		return view_state_at(v, pos - 1, ret, err);
	*ret = sch_state_new();
	return 0;
}

static int bounds(struct view *v, struct whatif_run *r, struct mu_err *err)
{
	uint64_t first = view_archive_first(v), before = 0;
	int code = view_pos_at(v, r->from_usec - 1, &before, err);

	if (code)
		return code;
	r->from = before + 1 > first ? before + 1 : first;
	if (!first || r->from > view_pos(v))
		return mu_fail(err, MU_ENOENT, "nothing is recorded from then on");
	return 0;
}

int whatif_tell(struct view *v, const struct whatif_rules *rules, int64_t from_usec, int64_t to_usec,
		struct whatif_run *ret, struct mu_err *err)
{
	struct sch_state *real = NULL, *other = NULL;
	struct hist_replay walk;
	uint64_t bad = 0;
	Mu__Config *conf = NULL;

	*ret = (struct whatif_run){.rules = *rules, .from_usec = from_usec, .to_usec = to_usec};
	ret->change = (struct sch_whatif_change){
	    .alter = rules->set_count || rules->add_count || rules->conf ? alter : NULL,
	    .arg = ret,
	    .drop = rules->drop,
	    .drop_count = rules->drop_count,
	    .skip_pos = rules->skip_pos,
	    .skip_n = rules->skip_n,
						 .alive = rules->alive};
	ret->w = sch_whatif_new(&ret->change, from_usec, to_usec);
	int code = rules->conf ? ctl_load_conf(rules->conf, &ret->arena, &conf, err) : 0;
	ret->conf = conf;
	if (!code)
		code = bounds(v, ret, err);
	if (!code)
		code = hist_walk(v, ret->from, 0, learn, ret, &walk, &bad, err);
	if (!code)
		code = state_before(v, ret->from, &real, err);
	if (!code)
		code = state_before(v, ret->from, &other, err);
	if (code) {
		sch_state_free(real);
		sch_state_free(other);
		return code;
	}
	code = sch_whatif_begin(ret->w, real, other, ret->from > 1 ? sch_now_usec(real) : from_usec, err);
	if (!code) {
		code = hist_entries(v, ret->from, 0, tell, ret, err);
		if (code && code != ENOUGH && ret->why.code)
			*err = ret->why;
	}
	if (code == ENOUGH)
		return 0;
	return code ? code : sch_whatif_finish(ret->w, err);
}

void whatif_done(struct whatif_run *r)
{
	r->w = sch_whatif_free(r->w);
	mu_arena_free(&r->arena);
}
