/* proto/conf_topology.c: SwitchName and BlockName lines, of topology.conf or of the main file. */
#include <string.h>
#include <strings.h>

#include "proto/conf_impl.h"
#include "proto/hostlist.h"

static bool is(const char *a, const char *b)
{
	return strcasecmp(a, b) == 0;
}

static void append(struct conf__lines *lines, struct conf__line *line)
{
	*lines->end = line;
	lines->end = &line->next;
	lines->count++;
}

bool conf__is_topology(const char *key)
{
	return is(key, "SwitchName") || is(key, "BlockName") || is(key, "BlockSizes");
}

int conf__take_topology(struct conf *c, struct conf__line *line)
{
	const char *first = line->pair[0].key;
	if (is(first, "SwitchName") || is(first, "BlockName"))
		append(&c->switches, line);
	else if (is(first, "BlockSizes"))
		conf__note(c, first, "jobs are kept below as few blocks as will do, whatever their sizes");
	else
		return conf__fail(
		    c, MU_EINVAL,
		    "%s is no key of a topology; lines begin with SwitchName= or BlockName=", first);
	return 0;
}

static int check_nodes(struct conf *c, const char *who, const char *list)
{
	char **names;
	size_t count;
	struct mu_err inner = {0};
	if (mu_hostlist_expand(list, CONF__MAX_NODES, c->arena, &names, &count, &inner))
		return conf__fail(c, MU_EINVAL, "%s: %s", who, inner.text);
	for (size_t i = 0; i < count; i++)
		if (conf__node_index(c, names[i]) < 0)
			return conf__fail(c, MU_EINVAL,
					  "%s names the node %s, which no NodeName line declares", who,
					  names[i]);
	return 0;
}

static int take_line(struct conf *c, const struct conf__line *line, const char *name, Mu__SwitchConf *s)
{
	bool block = is(line->pair[0].key, "BlockName");
	mu__switch_conf__init(s);
	s->name = (char *)name;
	s->has_block = block;
	s->block = block;
	for (int i = 1; i < line->count; i++) {
		const struct conf__pair *p = &line->pair[i];
		if (is(p->key, "Nodes"))
			s->nodes = (char *)p->value;
		else if (is(p->key, "Switches") && !block)
			s->switches = (char *)p->value;
		else if (!is(p->key, "LinkSpeed") || block)
			return conf__fail(c, MU_EINVAL,
					  "%s does not belong on a line that begins with %s=", p->key,
					  line->pair[0].key);
	}
	if (!s->nodes && !s->switches)
		return conf__fail(c, MU_EINVAL, "%s=%s names neither Nodes nor Switches", line->pair[0].key,
				  name);
	return s->nodes ? check_nodes(c, name, s->nodes) : 0;
}

/* The switches that lines name below them exist. */
static int check_switches(struct conf *c)
{
	for (size_t i = 0; i < c->config->n_topology; i++) {
		char **names;
		size_t count = 0;
		struct mu_err inner = {0};
		const Mu__SwitchConf *s = c->config->topology[i];
		if (s->switches &&
		    mu_hostlist_expand(s->switches, CONF__MAX_NODES, c->arena, &names, &count, &inner))
			return conf__fail(c, MU_EINVAL, "SwitchName=%s: %s", s->name, inner.text);
		for (size_t k = 0; k < count; k++)
			if (!mu_map_get_str(&c->switch_at, names[k]))
				return conf__fail(c, MU_EINVAL,
						  "SwitchName=%s names the switch %s, which no line declares",
						  s->name, names[k]);
	}
	return 0;
}

static int add_line(struct conf *c, const struct conf__line *line)
{
	char **names;
	size_t count;
	struct mu_err inner = {0};
	if (mu_hostlist_expand(line->pair[0].value, CONF__MAX_SWITCHES, c->arena, &names, &count, &inner))
		return conf__fail(c, MU_EINVAL, "%s: %s", line->pair[0].key, inner.text);
	for (size_t i = 0; i < count; i++) {
		Mu__SwitchConf *s = mu_arena_alloc(c->arena, sizeof(*s));
		int rc = take_line(c, line, names[i], s);
		if (rc)
			return rc;
		if (c->config->n_topology == CONF__MAX_SWITCHES)
			return conf__fail(c, MU_ELIMIT, "there are more than %d switches",
					  CONF__MAX_SWITCHES);
		if (mu_map_put_str(&c->switch_at, names[i], s))
			return conf__fail(c, MU_EINVAL, "%s=%s is declared twice", line->pair[0].key,
					  names[i]);
		c->config->topology[c->config->n_topology++] = s;
	}
	return 0;
}

int conf__finish_topology(struct conf *c)
{
	const char *plugin = conf__value(c, "TopologyPlugin");
	bool drawn = is(plugin, "topology/tree") || is(plugin, "topology/block");
	int rc = drawn ? conf__companion(c, "topology.conf", conf__take_topology) : 0;
	if (rc && rc != MU_ENOENT)
		return rc;
	rc = 0;
	if (drawn && !c->switches.count)
		conf__note(c, "TopologyPlugin",
			   "no SwitchName or BlockName line draws it; nodes are chosen as if flat");
	if (!drawn && c->switches.count)
		conf__note(c, "SwitchName",
			   "without TopologyPlugin=topology/tree or topology/block it is unused");
	if (!drawn || !c->switches.count)
		return 0;
	c->config->topology = mu_arena_alloc(c->arena, CONF__MAX_SWITCHES * sizeof(c->config->topology[0]));
	for (const struct conf__line *line = c->switches.first; line && !rc; line = line->next) {
		c->file = line->file;
		c->line = line->number;
		rc = add_line(c, line);
	}
	if (!rc)
		rc = check_switches(c);
	c->file = c->main;
	c->line = 0;
	return rc;
}
