/* cli/filter.c: see filter.h. */
#include "cli/filter.h"

#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "proto/hostlist.h"
#include "proto/states.h"

static void add_u32(struct cli *c, uint32_t **list, size_t *count, uint32_t value)
{
	uint32_t *more;

	for (size_t i = 0; i < *count; i++) {
		if ((*list)[i] == value)
			return;
	}
	/* Full at each power of two. */
	if ((*count & (*count - 1)) == 0) {
		more = mu_arena_alloc(&c->arena, (*count ? 2 * *count : 1) * sizeof *more);
		if (*count)
			memcpy(more, *list, *count * sizeof *more);
		*list = more;
	}
	(*list)[(*count)++] = value;
}

void cli_filter_job(struct cli *c, Mu__Query *query, uint32_t id)
{
	add_u32(c, &query->job, &query->n_job, id);
}

void cli_filter_id(struct cli *c, Mu__Query *query, const struct cli_job_id *id)
{
	cli_filter_job(c, query, id->job);
	if (id->has_component)
		cli_filter_job(c, query, id->job + id->component);
}

static int add_users(struct cli *c, const char *list, Mu__Query *query, struct mu_err *err)
{
	size_t count;
	char **words = cli_split(&c->arena, list, &count);

	for (size_t i = 0; i < count; i++) {
		uint32_t uid;
		int rc = cli_user_id(words[i], &uid, err);

		if (rc)
			return rc;
		add_u32(c, &query->uid, &query->n_uid, uid);
	}
	return 0;
}

int cli_filter_query(struct cli *c, const struct cli_args *args, Mu__Query *query, struct mu_err *err)
{
	for (size_t i = 0; i < args->count; i++) {
		const struct cli_given *g = &args->given[i];
		int rc = 0;

		/* A variable is only the default of its option. */
		if (g->level == CLI_ENVIRONMENT &&
		    cli_args_last(args, g->option->id)->level > CLI_ENVIRONMENT)
			continue;
		if (g->option->kind == MU_KIND_WORDS || (g->option->kind == MU_KIND_ON && *g->option->field))
			rc = cli_field_set(&query->base, g->option, g->value, &c->arena, err);
		else if (g->option->id == OPT_list_user || g->option->id == OPT_list_uid)
			rc = add_users(c, g->value, query, err);
		else if (g->option->id == OPT_me)
			add_u32(c, &query->uid, &query->n_uid, (uint32_t)getuid());
		else if (g->option->id == OPT_at)
			rc = cli_set_at(c, g->value, err);
		if (rc)
			return rc;
	}
	return 0;
}

int cli_filter_states(struct cli *c, const char *states, Mu__Query *query, struct mu_err *err)
{
	size_t count;
	char **words = cli_split(&c->arena, states, &count);

	for (size_t i = 0; i < count; i++) {
		uint32_t state;

		if (strcasecmp(words[i], "all") == 0) {
			query->n_state = 0;
			return 0;
		}
		if (mu_job_state_parse(words[i], &state)) {
			struct mu_buf known MU_CLEANUP(mu_buf_free) = {0};

#define MU_JOB_STATE(name, number, compact, word, ended) \
	mu_buf_printf(&known, "%s" word, known.len ? "," : "");
#include "proto/states.def"
#undef MU_JOB_STATE
			return mu_fail(err, MU_EINVAL,
				       "Invalid job state specified: %s\nValid job states include: %s",
				       words[i], (char *)known.data);
		}
		add_u32(c, &query->state, &query->n_state, state);
	}
	return 0;
}

int cli_filter_nodes(struct cli *c, const char *list, bool must_exist, Mu__Query *query, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	char **names;
	size_t count, n_rows;
	void **rows;
	int rc = mu_hostlist_expand(list, 65536, &c->arena, &names, &count, err);

	if (rc)
		return mu_wrap(err, "Invalid node list \"%s\"", list);
	if (must_exist) {
		ask.has_what = 1;
		ask.what = MU__WHAT__WHAT_NODES;
		rc = cli_query_all(c, &ask, &mu__node_row__descriptor, &rows, &n_rows, err);
		if (rc)
			return rc;
		for (size_t i = 0; i < count; i++) {
			bool found = false;

			for (size_t k = 0; k < n_rows && !found; k++)
				found = strcmp(((Mu__NodeRow *)rows[k])->name, names[i]) == 0;
			if (!found)
				return mu_fail(err, MU_ENODENAME, "Invalid node name %s", names[i]);
		}
	}
	query->node = names;
	query->n_node = count;
	return 0;
}

bool cli_in_list(const char *list, const char *word)
{
	size_t len = word ? strlen(word) : 0;

	for (const char *p = list; len && *p;) {
		size_t n = strcspn(p, ",");

		if (n == len && strncmp(p, word, n) == 0)
			return true;
		p += n + (p[n] == ',');
	}
	return false;
}
