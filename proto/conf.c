/* proto/conf.c: slurm.conf, gres.conf and cgroup.conf to Mu__Config. See conf.h. The syntax is in
 * conf_text.c, keys in conf_key.c, nodes and partitions in conf_node.c, devices in conf_gres.c,
 * switches in conf_topology.c. */
#include "proto/conf.h"

#include <string.h>
#include <strings.h>

#include "proto/conf_impl.h"

static int parse(struct conf *c, const char *text)
{
	int rc = conf__read(c, c->main, text, true, conf__take_keys);
	if (!rc)
		rc = conf__companion(c, "cgroup.conf", conf__take_cgroup);
	if (rc && rc != MU_ENOENT)
		return rc;
	c->file = c->main;
	c->line = 0;
	rc = conf__finish_keys(c);
	if (!rc)
		rc = conf__finish_nodes(c);
	if (!rc)
		rc = conf__finish_gres(c);
	if (!rc)
		rc = conf__finish_partitions(c);
	if (!rc)
		rc = conf__finish_topology(c);
	return rc;
}

static int run(struct conf *c, const char *text, Mu__Config **ret_config)
{
	c->config = mu_arena_alloc(c->arena, sizeof(*c->config));
	mu__config__init(c->config);
	c->value = mu_arena_alloc(c->arena, conf__keys() * sizeof(*c->value));
	c->nodes.end = &c->nodes.first;
	c->partitions.end = &c->partitions.first;
	c->sets.end = &c->sets.first;
	c->downs.end = &c->downs.first;
	c->switches.end = &c->switches.first;
	mu_buf_str(&c->idle, "");
	mu_hasher_init(&c->hash);
	int rc = parse(c, text);
	if (!rc) {
		struct mu_hash hash;
		mu_hasher_done(&c->hash, &hash);
		c->config->has_source_hash = 1;
		c->config->source_hash.len = sizeof(hash.b);
		c->config->source_hash.data = mu_arena_dup(c->arena, hash.b, sizeof(hash.b));
		*ret_config = c->config;
	}
	mu_map_clear(&c->notes);
	mu_map_clear(&c->node_at);
	mu_map_clear(&c->set_at);
	mu_map_clear(&c->switch_at);
	mu_buf_free(&c->idle);
	return rc == MU_ESYNTAX || !rc ? rc : MU_EINVAL;
}

int mu_conf_parse(const char *file, const char *text, mu_conf_reader reader, mu_conf_note note, void *arg,
		  struct mu_arena *arena, Mu__Config **ret_config, struct mu_err *err)
{
	struct conf c = {.reader = reader,
			 .note = note,
			 .arg = arg,
			 .arena = arena,
			 .err = err,
			 .main = file,
			 .file = file};
	return run(&c, text, ret_config);
}

const char *mu_conf_get(const Mu__Config *config, const char *key, const char *default_value)
{
	for (size_t i = 0; i < config->n_key; i++)
		if (config->key[i]->key && !strcasecmp(config->key[i]->key, key)) {
			const char *value = config->key[i]->value;
			return value && strcmp(value, "(null)") ? value : default_value;
		}
	return default_value;
}

int mu_conf_on(const Mu__Config *config, const char *key, int default_value)
{
	const char *value = mu_conf_get(config, key, NULL);
	bool on;
	return value && conf__yes(value, &on) ? on : default_value;
}

char *mu_conf_path(const char *template_text, const char *name, struct mu_arena *arena)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf out = {0};
	mu_buf_str(&out, "");
	for (const char *p = template_text; *p; p++) {
		if (*p == '%' && p[1] == 'n')
			mu_buf_str(&out, name);
		else if (*p == '%' && p[1] == '%')
			mu_buf_str(&out, "%");
		else {
			mu_buf_add(&out, p, 1);
			continue;
		}
		p++;
	}
	return mu_arena_strdup(arena, (const char *)out.data);
}
