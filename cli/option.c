/* cli/option.c: see option.h. */
#include "cli/option.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/cli.h"
#include "cli/model.h"
#include "proto/hostlist.h"
#include "proto/pb.h"

static void add(struct cli_args *args, const struct mu_option *option, const char *value,
		enum cli_level level, struct mu_arena *arena)
{
	if (args->count == CLI_GIVEN_MAX)
		return;
	if (args->count == args->cap) {
		size_t cap = args->cap ? args->cap * 2 : 32;
		struct cli_given *more = mu_arena_alloc(arena, cap * sizeof *more);

		if (args->count)
			memcpy(more, args->given, args->count * sizeof *more);
		args->given = more;
		args->cap = cap;
	}
	args->given[args->count++] = (struct cli_given){option, value, level};
}

static const struct mu_option *by_letter(unsigned command, char letter)
{
	for (int i = 0; i < OPT_COUNT; i++) {
		if ((mu_options[i].commands & command) && mu_options[i].letter == letter)
			return &mu_options[i];
	}
	return NULL;
}

/* NAME of length LEN, whole or a unique beginning. */
static int by_name(unsigned command, const char *name, size_t len, const struct mu_option **ret,
		   struct mu_err *err)
{
	const struct mu_option *found = NULL;
	struct mu_buf list MU_CLEANUP(mu_buf_free) = {0};
	int matches = 0;

	for (int i = 0; i < OPT_COUNT; i++) {
		const struct mu_option *o = &mu_options[i];

		if (!(o->commands & command) || strncmp(o->name, name, len) != 0)
			continue;
		if (!o->name[len]) {
			*ret = o;
			return 0;
		}
		/* Two spellings of one field are no ambiguity. */
		if (found && o->kind == found->kind && *o->field && strcmp(o->field, found->field) == 0)
			continue;
		mu_buf_printf(&list, " '--%s'", o->name);
		found = o;
		matches++;
	}
	if (matches == 0)
		return mu_fail(err, MU_ESYNTAX, "unrecognized option '--%.*s'", (int)len, name);
	if (matches > 1)
		return mu_fail(err, MU_ESYNTAX, "option '--%.*s' is ambiguous; possibilities:%s", (int)len,
			       name, (char *)list.data);
	*ret = found;
	return 0;
}

static int refuse(const struct mu_option *o, struct mu_err *err)
{
	if (o->kind == MU_KIND_REFUSED)
		return mu_fail(err, MU_EDISABLED, "--%s is not supported: %s", o->name, o->help);
	return 0;
}

static bool begins_with_digit(const char *word)
{
	return word && word[0] >= '0' && word[0] <= '9';
}

/* One "--name" or "--name=value"; *I is its place in WORDS and moves on when the next word is the value. */
static int read_long(struct cli_args *args, unsigned command, enum cli_level level, char *const *words,
		     size_t count, size_t *i, struct mu_arena *arena, struct mu_err *err)
{
	const char *name = words[*i] + 2, *equals = strchr(name, '=');
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	const char *value = equals ? equals + 1 : NULL;
	const struct mu_option *o = NULL;
	int rc = by_name(command, name, len, &o, err);

	if (rc || (rc = refuse(o, err)))
		return rc;
	if (o->arg == MU_ARG_NONE && value)
		return mu_fail(err, MU_ESYNTAX, "option '--%s' doesn't allow an argument", o->name);
	if (o->arg == MU_ARG_NEEDED && !value) {
		if (*i + 1 >= count)
			return mu_fail(err, MU_ESYNTAX, "option '--%s' requires an argument", o->name);
		value = words[++*i];
	}
	if (o->arg == MU_ARG_IDS && !value && *i + 1 < count && begins_with_digit(words[*i + 1]))
		value = words[++*i];
	add(args, o, value, level, arena);
	return 0;
}

/* One "-abcVALUE". */
static int read_letters(struct cli_args *args, unsigned command, enum cli_level level, char *const *words,
			size_t count, size_t *i, struct mu_arena *arena, struct mu_err *err)
{
	for (const char *p = words[*i] + 1; *p; p++) {
		const struct mu_option *o = by_letter(command, *p);
		const char *value = NULL;
		int rc;

		if (!o)
			return mu_fail(err, MU_ESYNTAX, "invalid option -- '%c'", *p);
		if ((rc = refuse(o, err)))
			return rc;
		if (o->arg != MU_ARG_NONE && p[1])
			value = p + 1;
		else if (o->arg == MU_ARG_NEEDED && *i + 1 >= count)
			return mu_fail(err, MU_ESYNTAX, "option requires an argument -- '%c'", *p);
		else if (o->arg == MU_ARG_NEEDED ||
			 (o->arg == MU_ARG_IDS && *i + 1 < count && begins_with_digit(words[*i + 1])))
			value = words[++*i];
		/* "-j=5" is what people write for "--jobs=5". */
		if (value && o->arg == MU_ARG_IDS && *value == '=')
			value++;
		add(args, o, value, level, arena);
		if (o->arg != MU_ARG_NONE && p[1])
			break;
	}
	return 0;
}

int cli_args_words(struct cli_args *args, unsigned command, enum cli_level level, char *const *words,
		   size_t count, bool stop_at_word, struct mu_arena *arena, struct mu_err *err)
{
	char **rest = mu_arena_alloc(arena, (args->word_count + count + 1) * sizeof *rest);
	size_t rests = args->word_count;
	int rc;

	if (rests)
		memcpy(rest, args->words, rests * sizeof *rest);
	for (size_t i = 0; i < count; i++) {
		const char *w = words[i];

		if (w[0] != '-' || !w[1]) {
			if (stop_at_word) {
				while (i < count)
					rest[rests++] = words[i++];
				break;
			}
			rest[rests++] = words[i];
		} else if (strcmp(w, "--") == 0) {
			while (++i < count)
				rest[rests++] = words[i];
			break;
		} else {
			rc = w[1] == '-' ? read_long(args, command, level, words, count, &i, arena, err)
					 : read_letters(args, command, level, words, count, &i, arena, err);
			if (rc)
				return rc;
		}
	}
	args->words = rest;
	args->word_count = rests;
	return 0;
}

static bool says_no(const char *value)
{
	return strcmp(value, "0") == 0 || strcasecmp(value, "no") == 0 || strcasecmp(value, "false") == 0;
}

void cli_args_environment(struct cli_args *args, unsigned command, const char *(*get)(const char *name),
			  struct mu_arena *arena)
{
	const char *prefix = mu_command_env_prefix(command);
	size_t prefix_len = strlen(prefix);

	if (!prefix_len)
		return;
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct mu_option *o = &mu_options[i];

		if (!(o->commands & command) || !*o->env)
			continue;
		for (const char *p = o->env; *p;) {
			size_t len = strcspn(p, " ");
			const char *name = *p == '*'
					       ? mu_arena_printf(arena, "%s%.*s", prefix, (int)len - 1, p + 1)
					       : mu_arena_printf(arena, "%.*s", (int)len, p);
			const char *value = strncmp(name, prefix, prefix_len) == 0 ? get(name) : NULL;

			p += len + (p[len] == ' ');
			if (!value || o->kind == MU_KIND_REFUSED)
				continue;
			if (o->arg == MU_ARG_NONE) {
				if (!says_no(value))
					add(args, o, o->id == OPT_verbose ? value : NULL, CLI_ENVIRONMENT,
					    arena);
			} else if (*value || o->arg == MU_ARG_MAYBE) {
				add(args, o, *value ? value : NULL, CLI_ENVIRONMENT, arena);
			}
			break;
		}
	}
}

void cli_args_append(struct cli_args *args, const struct cli_args *from, enum cli_level level,
		     const int *only, size_t count, struct mu_arena *arena)
{
	for (size_t i = 0; i < from->count; i++) {
		const struct cli_given *g = &from->given[i];
		bool wanted = count == 0;

		for (size_t k = 0; k < count && !wanted; k++)
			wanted = g->option->id == only[k];
		if (wanted && g->level == level)
			add(args, g->option, g->value, level, arena);
	}
}

void cli_args_order(struct cli_args *args)
{
	/* Insertion keeps equal levels in order; the list is short and nearly sorted. */
	for (size_t i = 1; i < args->count; i++) {
		struct cli_given g = args->given[i];
		size_t j = i;

		for (; j > 0 && args->given[j - 1].level > g.level; j--)
			args->given[j] = args->given[j - 1];
		args->given[j] = g;
	}
}

const struct cli_given *cli_args_last(const struct cli_args *args, int id)
{
	const struct cli_given *found = NULL;

	for (size_t i = 0; i < args->count; i++) {
		const struct cli_given *g = &args->given[i];

		if (g->option->id == id && (!found || g->level >= found->level))
			found = g;
	}
	return found;
}

bool cli_args_has(const struct cli_args *args, int id)
{
	return cli_args_last(args, id) != NULL;
}

const char *cli_args_value(const struct cli_args *args, int id)
{
	const struct cli_given *g = cli_args_last(args, id);

	return g ? g->value : NULL;
}

/* ---- fields ---- */

static void *member(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
	return (char *)m + f->offset;
}

static void put_number(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, int64_t value)
{
	switch (f->type) {
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_INT32:
	case PROTOBUF_C_TYPE_SINT32:
		*(uint32_t *)member(m, f) = (uint32_t)value;
		break;
	case PROTOBUF_C_TYPE_BOOL:
		*(protobuf_c_boolean *)member(m, f) = value != 0;
		break;
	default:
		*(int64_t *)member(m, f) = value;
		break;
	}
	*(protobuf_c_boolean *)((char *)m + f->quantifier_offset) = 1;
}

static void put_text(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, const char *value,
		     struct mu_arena *arena)
{
	if (f->type == PROTOBUF_C_TYPE_BYTES) {
		ProtobufCBinaryData *b = member(m, f);

		b->len = strlen(value);
		b->data = (uint8_t *)mu_arena_strdup(arena, value);
		*(protobuf_c_boolean *)((char *)m + f->quantifier_offset) = 1;
	} else {
		*(char **)member(m, f) = mu_arena_strdup(arena, value);
	}
}

static int put_words(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, const char *value,
		     struct mu_arena *arena)
{
	size_t count;
	char **list = cli_split(arena, value, &count);
	size_t *have = (size_t *)((char *)m + f->quantifier_offset);
	char ***words = member(m, f);

	/* A listing's filters add up; a job's list is replaced as a whole. */
	if (m->descriptor == &mu__query__descriptor && *have) {
		char **more = mu_arena_alloc(arena, (*have + count) * sizeof *more);

		memcpy(more, *words, *have * sizeof *more);
		memcpy(more + *have, list, count * sizeof *more);
		list = more;
		count += *have;
	}
	*words = list;
	*have = count;
	return 0;
}

static int put_hosts(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, const char *what,
		     const char *value, struct mu_arena *arena, struct mu_err *err)
{
	struct mu_buf folded MU_CLEANUP(mu_buf_free) = {0};
	char **names;
	size_t count;
	int rc = mu_hostlist_expand(value, 65536, arena, &names, &count, err);

	if (rc)
		return mu_wrap(err, "Invalid %s specification \"%s\"", what, value);
	mu_hostlist_fold((const char *const *)names, count, &folded);
	put_text(m, f, folded.data ? (char *)folded.data : "", arena);
	return 0;
}

int cli_field_set(ProtobufCMessage *message, const struct mu_option *o, const char *value,
		  struct mu_arena *arena, struct mu_err *err)
{
	const ProtobufCFieldDescriptor *f =
	    protobuf_c_message_descriptor_get_field_by_name(message->descriptor, o->field);
	const char *what = mu_arena_printf(arena, "--%s", o->name);
	int64_t number = 0;
	uint64_t size = 0;
	int rc = 0;

	if (!f)
		return mu_fail(err, MU_EINTERNAL, "%s has no field %s", what, o->field);
	switch (o->kind) {
	case MU_KIND_WORD:
	case MU_KIND_PATH:
		put_text(message, f, value, arena);
		return 0;
	case MU_KIND_WORDS:
		return put_words(message, f, value, arena);
	case MU_KIND_HOSTS:
		return put_hosts(message, f, what, value, arena, err);
	case MU_KIND_NUMBER:
	case MU_KIND_COUNT:
		if (mu_number_parse(what, value, o->kind == MU_KIND_NUMBER, INT32_MAX, &number, NULL))
			return mu_fail(err, MU_EINVAL, "Invalid numeric value \"%s\" for %s.", value, what);
		break;
	case MU_KIND_SPAN:
		rc = mu_span_parse(value, &number, err);
		break;
	case MU_KIND_DATE:
		rc = mu_date_parse(value, cli_now_usec(), 1, &cli_zone, &number, err);
		break;
	case MU_KIND_MEMORY:
		rc = mu_mem_parse(value, &size, err);
		number = (int64_t)size;
		break;
	case MU_KIND_ON:
	case MU_KIND_OFF:
		number = o->kind == MU_KIND_ON;
		break;
	default:
		return mu_fail(err, MU_EINTERNAL, "%s is no plain field", what);
	}
	if (rc)
		return mu_fail(err, rc, "Invalid %s specification: \"%s\" (%s)", what, value, o->help);
	put_number(message, f, number);
	return 0;
}

/* ---- what all commands do first ---- */

static const char *from_environment(const char *name)
{
	return getenv(name);
}

static unsigned count_verbose(const struct cli_args *args)
{
	unsigned n = 0;

	for (size_t i = 0; i < args->count; i++) {
		const struct cli_given *g = &args->given[i];

		if (g->option->id == OPT_verbose)
			n += g->value ? (unsigned)strtoul(g->value, NULL, 10) : 1;
	}
	return n;
}

int cli_begin(struct cli *c, int argc, char **argv, bool stop_at_word, struct cli_args *ret, int *ret_exit)
{
	struct mu_err err = {0};
	int rc;

	cli_args_environment(ret, c->command, from_environment, &c->arena);
	rc = cli_args_words(ret, c->command, CLI_LINE, argv, (size_t)argc, stop_at_word, &c->arena, &err);
	if (rc == MU_ESYNTAX) {
		cli_say(c, "%s", err.text);
		fprintf(stderr, "Try \"%s --help\" for more information\n", c->name);
		*ret_exit = c->command & MU_SUBMITTERS ? CLI_EXIT_USAGE_SUBMIT : 1;
		return 1;
	}
	if (rc) {
		cli_error(c, "%s", err.text);
		*ret_exit = 1;
		return 1;
	}
	cli_args_order(ret);
	c->verbose = count_verbose(ret);
	c->quiet = cli_args_has(ret, OPT_quiet);
	*ret_exit = 0;
	if (cli_args_has(ret, OPT_help) || cli_args_has(ret, OPT_help_h)) {
		cli_help(c, stdout);
		return 1;
	}
	if (cli_args_has(ret, OPT_usage)) {
		cli_usage(c, stdout);
		return 1;
	}
	if (cli_args_has(ret, OPT_version)) {
		cli_version(stdout);
		return 1;
	}
	c->argc = argc;
	c->argv = argv;
	c->as_of = cli_args_has(ret, OPT_as_of) && !cli_model_wanted(ret);
	c->pin = c->as_of || cli_model_wanted(ret);
	rc = cli_model_read(c, ret, &err);
	if (rc < 0) {
		cli_error(c, "%s", err.text);
		*ret_exit = 1;
	}
	return rc != 0;
}

int cli_check_clusters(struct cli *c, const struct cli_args *args, struct mu_err *err)
{
	const char *asked = cli_args_value(args, OPT_clusters);
	struct cli_conf conf;
	int rc;

	if (!asked || strcasecmp(asked, "all") == 0 || c->many)
		return 0;
	rc = cli_conf_read(&c->arena, &conf, err);
	if (rc)
		return rc;
	if (strcasecmp(asked, conf.cluster) != 0)
		return mu_fail(
		    err, MU_EINVAL,
		    "'%s' can't be reached now, or it is an invalid entry for --cluster; this cluster is %s",
		    asked, conf.cluster);
	return 0;
}

int cli_each_cluster(struct cli *c, const struct cli_args *args, cli_cluster_fn run)
{
	const char *list = cli_args_has(args, OPT_allclusters) ? "all" : cli_args_value(args, OPT_clusters);
	struct mu_err err = {0};
	struct cli_conf own;
	char **names;
	size_t count;
	int worst = 0;

	if (!list)
		return run(c, args, true);
	if (cli_conf_read(&c->arena, &own, &err) || cli_cluster_names(c, list, &names, &count, &err)) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	if (count == 1 && strcasecmp(names[0], own.cluster) == 0)
		return run(c, args, true);
	if (cli_model_wanted(args)) {
		cli_error(c, "--json and --yaml show one cluster at a time");
		return 1;
	}
	c->many = true;
	for (size_t i = 0; i < count; i++) {
		int rc = 1;
		if (cli_turn_to(c, names[i], &err))
			cli_error(c, "%s", err.text);
		else
			rc = run(c, args, i == 0);
		worst = rc > worst ? rc : worst;
	}
	return worst;
}

int cli_take_at(struct cli *c, const struct cli_args *args, struct mu_err *err)
{
	return cli_args_has(args, OPT_at) ? cli_set_at(c, cli_args_value(args, OPT_at), err) : 0;
}
