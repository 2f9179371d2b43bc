/* cli/het.c: see het.h. */
#include "cli/het.h"

#include <stdlib.h>
#include <string.h>

#include "cli/column.h"
#include "cli/spec.h"
#include "proto/layout/layout.h"

static const char *from_environment(const char *name)
{
	return getenv(name);
}

int cli_parts_add(struct cli *c, struct cli_part *parts, size_t *count, struct mu_err *err)
{
	if (*count == MU_HET_MAX)
		return mu_fail(err, MU_ELIMIT, "A heterogeneous job has at most %d components", MU_HET_MAX);
	struct cli_part *p = &parts[(*count)++];

	cli_args_environment(&p->args, c->command, from_environment, &c->arena);
	return 0;
}

/* How many of the COUNT words are before the next colon. */
static size_t until_colon(char *const *words, size_t count, bool anywhere)
{
	for (size_t i = 0; i < count && (anywhere || i == 0); i++)
		if (strcmp(words[i], ":") == 0)
			return i;
	return count;
}

int cli_parts_split(struct cli *c, const struct cli_args *first, bool anywhere, struct cli_part **ret,
		    size_t *ret_count, struct mu_err *err)
{
	struct cli_part *parts = mu_arena_alloc(&c->arena, MU_HET_MAX * sizeof *parts), *last = parts;
	int rc = 0;

	for (size_t i = 0; i < MU_HET_MAX; i++) {
		parts[i] = (struct cli_part){0};
		mu__job_spec__init(&parts[i].spec);
	}
	parts[0].args = *first;
	*ret_count = 1;
	for (;;) {
		size_t n = until_colon(last->args.words, last->args.word_count, anywhere);
		char **rest = last->args.words + n + 1;
		size_t rests = last->args.word_count - n;

		if (!rests)
			break;
		last->args.word_count = n;
		rc = cli_parts_add(c, parts, ret_count, err);
		if (rc)
			break;
		last = &parts[*ret_count - 1];
		rc = cli_args_words(&last->args, c->command, CLI_LINE, rest, rests - 1, true, &c->arena, err);
		if (rc)
			break;
	}
	for (size_t i = 1; i < *ret_count; i++)
		cli_args_order(&parts[i].args);
	/* The command stands behind the last component's options. */
	if (!rc && !anywhere && last != parts) {
		parts[0].args.words = last->args.words;
		parts[0].args.word_count = last->args.word_count;
	}
	*ret = parts;
	return rc;
}

int cli_parts_specs(struct cli *c, struct cli_part *parts, size_t count, struct mu_err *err)
{
	for (size_t i = 0; i < count; i++) {
		int rc = cli_spec_make(&parts[i].args, &c->arena, &parts[i].spec, err);

		if (!rc)
			rc = cli_spec_hosts(&parts[i].args, false, &c->arena, &parts[i].spec, err);
		if (rc && count > 1)
			return mu_wrap(err, "component %zu", i);
		if (rc)
			return rc;
		cli_spec_nodes(c, &parts[i].args, &parts[i].spec);
	}
	return 0;
}

/* ---- what carries over ---- */

static bool has(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
	const void *member = (const char *)m + f->offset,
		   *quantifier = (const char *)m + f->quantifier_offset;

	if (f->label == PROTOBUF_C_LABEL_REPEATED)
		return *(const size_t *)quantifier > 0;
	if (f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_MESSAGE)
		return *(void *const *)member != NULL;
	return *(const protobuf_c_boolean *)quantifier;
}

static size_t size_of(const ProtobufCFieldDescriptor *f)
{
	if (f->label == PROTOBUF_C_LABEL_REPEATED || f->type == PROTOBUF_C_TYPE_STRING)
		return sizeof(void *);
	switch (f->type) {
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
	case PROTOBUF_C_TYPE_BOOL:
		return sizeof(protobuf_c_boolean);
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_UINT64:
		return sizeof(int64_t);
	default:
		return sizeof(int32_t);
	}
}

static void copy_field(ProtobufCMessage *to, const ProtobufCMessage *from, const ProtobufCFieldDescriptor *f)
{
	memcpy((char *)to + f->offset, (const char *)from + f->offset, size_of(f));
	if (f->label == PROTOBUF_C_LABEL_REPEATED)
		memcpy((char *)to + f->quantifier_offset, (const char *)from + f->quantifier_offset,
		       sizeof(size_t));
	else if (f->type != PROTOBUF_C_TYPE_STRING)
		*(protobuf_c_boolean *)((char *)to + f->quantifier_offset) = 1;
}

void cli_parts_carry(struct cli_part *parts, size_t count)
{
	static const char *const names[] = {"name",	     "account",	       "qos",
					    "partition",     "comment",	       "wckey",
					    "reservation",   "time_limit_sec", "time_min_sec",
					    "begin_usec",    "deadline_usec",  "dependency",
					    "hold",	     "priority",       "nice",
					    "requeue",	     "no_kill",	       "kill_on_invalid_dep",
					    "work_dir",	     "mail_user",      "mail_type",
					    "admin_comment", "signal_number",  "signal_before_sec",
					    "signal_batch",  "export"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const ProtobufCFieldDescriptor *f =
		    protobuf_c_message_descriptor_get_field_by_name(&mu__job_spec__descriptor, names[i]);

		for (size_t k = 1; k < count; k++)
			if (has(&parts[0].spec.base, f) && !has(&parts[k].spec.base, f))
				copy_field(&parts[k].spec.base, &parts[0].spec.base, f);
	}
}

Mu__JobSpec **cli_parts_others(struct cli *c, struct cli_part *parts, size_t count)
{
	Mu__JobSpec **others = mu_arena_alloc(&c->arena, count * sizeof *others);

	for (size_t i = 1; i < count; i++)
		others[i - 1] = &parts[i].spec;
	return others;
}

/* ---- variables ---- */

static char *counts(const Mu__JobRow *row, bool tasks, struct mu_arena *arena)
{
	uint32_t *count = mu_arena_alloc(arena, (row->n_alloc + 1) * sizeof *count);
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};

	for (size_t i = 0; i < row->n_alloc; i++)
		count[i] = tasks ? row->alloc[i]->tasks : row->alloc[i]->cpus;
	mu_counts_print(count, row->n_alloc, &text);
	return mu_arena_strdup(arena, text.data ? (char *)text.data : "");
}

Mu__HetComponent *cli_het_component(const Mu__JobRow *row, struct mu_arena *arena)
{
	Mu__HetComponent *c = mu_arena_alloc(arena, sizeof *c);

	mu__het_component__init(c);
	c->job = row->id;
	c->node_list = row->node_list;
	c->partition = row->partition;
	c->ntasks = row->ntasks;
	c->cpus_per_task = cli_job_spec(row)->has_cpus_per_task ? row->cpus_per_task : 0;
	c->mem_cpu_mib = row->mem_cpu_mib;
	c->mem_node_mib = row->mem_node_mib;
	c->nodes = row->node_count;
	c->cpus_per_node = counts(row, false, arena);
	c->tasks_per_node = counts(row, true, arena);
	return c;
}
