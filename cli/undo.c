/* cli/undo.c: muster undo: events that make up for one that was a mistake. What an event set is set back to what held before
 * it, where it still is as the event left it; nothing is taken out of the log. What cannot be made up for is said by name. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/muster.h"
#include "log/entry.h"
#include "proto/account.pb-c.h"
#include "proto/pb.h"
#include "proto/states.h"
#include "proto/units.h"
#include "proto/wire.pb-c.h"

enum { STEPS_MAX = 1024 };

struct step {
	const char *text;
	Mu__Request *request; /* NULL: it cannot be made up for */
};
struct undo {
	struct cli *c;
	uint64_t pos;
	uint32_t n;
	Mu__Event *event;
	int64_t time_usec;
	struct step step[STEPS_MAX];
	size_t steps, cannot;
};

static int say(struct cli *c, const struct mu_err *err)
{
	cli_error(c, "undo: %s", err->text);
	return 1;
}

static void put(struct undo *u, Mu__Request *request, const char *text)
{
	if (u->steps == STEPS_MAX) { /* An entry holds no more events than that; jobs of one may be more. */
		u->cannot++;
		return;
	}
	u->cannot += !request;
	u->step[u->steps++] = (struct step){text, request};
}

#define CANNOT(u, ...) put((u), NULL, mu_arena_printf(&(u)->c->arena, __VA_ARGS__))

static Mu__Event *step_event(struct undo *u, Mu__Event__KindCase kind, const char *text)
{
	Mu__Request *r = mu_arena_alloc(&u->c->arena, sizeof *r);

	mu__request__init(r);
	r->ask_case = MU__REQUEST__ASK_EVENT;
	r->event = mu_arena_alloc(&u->c->arena, sizeof *r->event);
	mu__event_ask__init(r->event);
	r->event->event = mu_arena_alloc(&u->c->arena, sizeof *r->event->event);
	mu__event__init(r->event->event);
	r->event->event->kind_case = kind;
	put(u, r, text);
	return r->event->event;
}

/* ---- what held ---- */

enum when { BEFORE, NOW };

static int rows_at(struct undo *u, enum when when, Mu__What what, const ProtobufCMessageDescriptor *type, void ***ret, size_t *ret_count,
		   struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;

	ask.has_what = 1;
	ask.what = what;
	u->c->at = when == NOW || u->pos < 2 ? NULL : mu_arena_printf(&u->c->arena, "@%" PRIu64, u->pos - 1);
	int rc = cli_query_all(u->c, &ask, type, ret, ret_count, err);
	u->c->at = NULL;
	return rc;
}

static bool same(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static const char *text_of(const void *row, const ProtobufCFieldDescriptor *f)
{
	return f ? *(char *const *)((const char *)row + f->offset) : NULL;
}

/* The row whose text fields KEYS (NULL-terminated) are as in LIKE, which may be of another type. */
static void *row_like(void **rows, size_t count, const ProtobufCMessageDescriptor *type, const ProtobufCMessage *like, const char *const *keys)
{
	for (size_t i = 0; i < count; i++) {
		bool equal = true;
		for (const char *const *k = keys; *k && equal; k++)
			equal = same(text_of(rows[i], protobuf_c_message_descriptor_get_field_by_name(type, *k)),
				     text_of(like, protobuf_c_message_descriptor_get_field_by_name(like->descriptor, *k)));
		if (equal)
			return rows[i];
	}
	return NULL;
}

static bool is_there(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f)
{
	const char *p = (const char *)m;

	if (f->label == PROTOBUF_C_LABEL_REPEATED)
		return *(const size_t *)(p + f->quantifier_offset) > 0;
	if (f->type == PROTOBUF_C_TYPE_STRING || f->type == PROTOBUF_C_TYPE_MESSAGE)
		return *(void *const *)(p + f->offset) != NULL;
	return *(const protobuf_c_boolean *)(p + f->quantifier_offset);
}

static size_t size_of(const ProtobufCFieldDescriptor *f)
{
	switch (f->type) {
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE:
		return sizeof(void *);
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_UINT64:
		return 8;
	default:
		return 4;
	}
}

/* FROM's field, which is there, to field F of TO; both of one type and label. */
static void take(const ProtobufCMessage *from, const ProtobufCFieldDescriptor *g, ProtobufCMessage *to, const ProtobufCFieldDescriptor *f)
{
	if (f->label == PROTOBUF_C_LABEL_REPEATED) {
		memcpy((char *)to + f->offset, (const char *)from + g->offset, sizeof(void *));
		memcpy((char *)to + f->quantifier_offset, (const char *)from + g->quantifier_offset, sizeof(size_t));
		return;
	}
	memcpy((char *)to + f->offset, (const char *)from + g->offset, size_of(f));
	if (f->type != PROTOBUF_C_TYPE_STRING && f->type != PROTOBUF_C_TYPE_MESSAGE)
		*(protobuf_c_boolean *)((char *)to + f->quantifier_offset) = 1;
}

static void list(struct mu_buf *text, const char *word)
{
	mu_buf_printf(text, "%s%s", text->len ? ", " : "", word);
}

static char *taken(struct undo *u, struct mu_buf *text)
{
	char *own = mu_arena_printf(&u->c->arena, "%.*s", (int)text->len, text->len ? (const char *)text->data : "");

	mu_buf_free(text);
	return own;
}

/* ---- nodes ---- */

static const char *flag_word(uint32_t flags)
{
	return flags & NODE_FLAG_DRAIN ? "DRAIN" : "FAIL";
}

static void node_state(struct undo *u, const Mu__NodeUpdate *did, const Mu__NodeRow *was, const Mu__NodeRow *is, Mu__NodeUpdate *back, struct mu_buf *text)
{
	const uint32_t out = NODE_FLAG_DRAIN | NODE_FLAG_FAIL;

	if (!did->state || !*did->state)
		return;
	if (did->fenced) {
		CANNOT(u, "node %s was declared fenced: what it held was given away", is->name);
	} else if (!strcasecmp(did->state, "DRAIN") || !strcasecmp(did->state, "FAIL")) {
		if (was->flags & out)
			CANNOT(u, "node %s was %s already", is->name, flag_word(was->flags));
		else if (!(is->flags & out))
			CANNOT(u, "node %s is in service again", is->name);
		else
			back->state = (char *)"UNDRAIN";
	} else if (!strcasecmp(did->state, "DOWN")) {
		if (was->base_state == NODE_DOWN)
			CANNOT(u, "node %s was DOWN already", is->name);
		else if (is->base_state != NODE_DOWN)
			CANNOT(u, "node %s is in service again", is->name);
		else
			back->state = (char *)"RESUME";
		if (was->n_job)
			CANNOT(u, "the %zu jobs that node %s ran were ended with it", was->n_job, is->name);
	} else if (was->flags & out) {
		if (is->flags & out)
			CANNOT(u, "node %s is %s again", is->name, flag_word(is->flags));
		else
			back->state = (char *)flag_word(was->flags);
	} else if (was->base_state == NODE_DOWN && is->base_state != NODE_DOWN) {
		if (is->n_job)
			CANNOT(u, "node %s was DOWN, and now runs jobs that would end with it", is->name);
		else
			back->state = (char *)"DOWN";
	}
	if (back->state) {
		list(text, back->state);
		if (strcasecmp(back->state, "UNDRAIN") && strcasecmp(back->state, "RESUME"))
			back->reason = was->reason ? was->reason : (char *)"undone";
	}
}

static const char *words_of(struct undo *u, char *const *word, size_t count)
{
	struct mu_buf text = {0};

	for (size_t i = 0; i < count; i++)
		mu_buf_printf(&text, "%s%s", i ? "," : "", word[i]);
	return taken(u, &text);
}

static bool same_words(char *const *a, size_t n_a, char *const *b, size_t n_b)
{
	bool equal = n_a == n_b;

	for (size_t i = 0; equal && i < n_a; i++)
		equal = same(a[i], b[i]);
	return equal;
}

static void one_node(struct undo *u, const Mu__NodeUpdate *did, const Mu__NodeRow *was, const Mu__NodeRow *is)
{
	Mu__NodeUpdate *back = mu_arena_alloc(&u->c->arena, sizeof *back);
	struct mu_buf text = {0};

	mu__node_update__init(back);
	node_state(u, did, was, is, back, &text);
	if (did->has_weight && is->conf && was->conf && is->conf->weight == did->weight && was->conf->weight != did->weight) {
		back->has_weight = 1;
		back->weight = was->conf->weight;
		list(&text, mu_arena_printf(&u->c->arena, "Weight=%u", back->weight));
	}
	if (did->set_feature && is->conf && was->conf &&
	    same_words(is->conf->feature, is->conf->n_feature, did->feature, did->n_feature) &&
	    !same_words(was->conf->feature, was->conf->n_feature, did->feature, did->n_feature)) {
		back->has_set_feature = back->set_feature = 1;
		back->feature = was->conf->feature;
		back->n_feature = was->conf->n_feature;
		list(&text, mu_arena_printf(&u->c->arena, "Features=%s", words_of(u, back->feature, back->n_feature)));
	}
	if ((!did->state || !*did->state) && did->reason && same(did->reason, is->reason)) {
		back->reason = was->reason ? was->reason : (char *)"";
		list(&text, mu_arena_printf(&u->c->arena, "Reason=%s", back->reason));
	}
	const struct {
		const char *word, *did, *was, *is;
		char **back;
	} texts[] = {{"Comment", did->comment, was->comment, is->comment, &back->comment},
		     {"Extra", did->extra, was->extra, is->extra, &back->extra},
		     {"InstanceId", did->instance_id, was->instance_id, is->instance_id, &back->instance_id},
		     {"InstanceType", did->instance_type, was->instance_type, is->instance_type, &back->instance_type}};
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
		if (texts[i].did && same(texts[i].did, texts[i].is) && !same(texts[i].did, texts[i].was)) {
			*texts[i].back = (char *)(texts[i].was ? texts[i].was : "");
			list(&text, mu_arena_printf(&u->c->arena, "%s=%s", texts[i].word, *texts[i].back));
		}
	if (!text.len)
		return;
	char **name = mu_arena_alloc(&u->c->arena, sizeof *name);
	*name = is->name;
	back->node = name;
	back->n_node = 1;
	step_event(u, MU__EVENT__KIND_NODE_UPDATE, mu_arena_printf(&u->c->arena, "node %s: %s", is->name, taken(u, &text)))->node_update = back;
}

static int nodes(struct undo *u, struct mu_err *err)
{
	static const char *const name[] = {"name", NULL};
	const Mu__NodeUpdate *did = u->event->node_update;
	void **was, **is;
	size_t was_count, is_count;
	int rc = rows_at(u, BEFORE, MU__WHAT__WHAT_NODES, &mu__node_row__descriptor, &was, &was_count, err);

	if (!rc)
		rc = rows_at(u, NOW, MU__WHAT__WHAT_NODES, &mu__node_row__descriptor, &is, &is_count, err);
	for (size_t i = 0; i < did->n_node && !rc; i++) {
		Mu__NodeRow like = MU__NODE_ROW__INIT;
		like.name = did->node[i];
		const Mu__NodeRow *a = row_like(was, was_count, &mu__node_row__descriptor, &like.base, name),
				  *b = row_like(is, is_count, &mu__node_row__descriptor, &like.base, name);
		if (a && b)
			one_node(u, did, a, b);
		else
			CANNOT(u, "node %s is no more", did->node[i]);
	}
	return rc;
}

/* ---- partitions ---- */

/* Fields that the event set, back to what they were; those that were not there are cleared. */
static void part_fields(struct undo *u, const Mu__PartitionUpdate *did, const Mu__PartitionConf *was, Mu__PartitionUpdate *back, struct mu_buf *text)
{
	back->clear = mu_arena_alloc(&u->c->arena, (mu__partition_conf__descriptor.n_fields + 1) * sizeof back->clear[0]);
	for (unsigned i = 0; i < mu__partition_conf__descriptor.n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &mu__partition_conf__descriptor.fields[i];
		bool touched = is_there(&did->conf->base, f);
		for (size_t k = 0; k < did->n_clear && !touched; k++)
			touched = did->clear[k] == f->id;
		touched = touched || ((did->nodes_more || did->nodes_less) && (!strcmp(f->name, "nodes") || !strcmp(f->name, "node")));
		if (!touched || !strcmp(f->name, "name"))
			continue;
		if (is_there(&was->base, f))
			take(&was->base, f, &back->conf->base, f);
		else
			back->clear[back->n_clear++] = f->id;
		list(text, f->name);
	}
}

static int partition(struct undo *u, struct mu_err *err)
{
	const Mu__PartitionUpdate *did = u->event->partition_update;
	const char *name = did->conf && did->conf->name ? did->conf->name : "";
	const Mu__PartitionRow *was = NULL, *is = NULL;
	void **rows;
	size_t count;
	struct mu_buf text = {0};
	int rc = rows_at(u, BEFORE, MU__WHAT__WHAT_PARTITIONS, &mu__partition_row__descriptor, &rows, &count, err);

	for (size_t i = 0; i < count && !rc; i++)
		was = same(((Mu__PartitionRow *)rows[i])->conf->name, name) ? rows[i] : was;
	if (!rc)
		rc = rows_at(u, NOW, MU__WHAT__WHAT_PARTITIONS, &mu__partition_row__descriptor, &rows, &count, err);
	for (size_t i = 0; i < count && !rc; i++)
		is = same(((Mu__PartitionRow *)rows[i])->conf->name, name) ? rows[i] : is;
	if (rc)
		return rc;
	Mu__PartitionUpdate *back = mu_arena_alloc(&u->c->arena, sizeof *back);
	mu__partition_update__init(back);
	back->conf = mu_arena_alloc(&u->c->arena, sizeof *back->conf);
	mu__partition_conf__init(back->conf);
	back->conf->name = (char *)name;
	if (did->remove && was && !is) {
		back->has_create = back->create = 1;
		back->conf = was->conf;
		list(&text, "made again");
	} else if (!did->remove && !was && is) {
		back->has_remove = back->remove = 1;
		list(&text, "removed");
	} else if (!did->remove && was && is) {
		part_fields(u, did, was->conf, back, &text);
	}
	if (!text.len)
		CANNOT(u, "partition %s is no longer as the event left it", name);
	else
		step_event(u, MU__EVENT__KIND_PARTITION_UPDATE, mu_arena_printf(&u->c->arena, "partition %s: %s", name, taken(u, &text)))->partition_update = back;
	return 0;
}

/* ---- the configuration ---- */

static int configuration(struct undo *u, struct mu_err *err)
{
	void **was, **is;
	size_t a, b;
	int rc = rows_at(u, BEFORE, MU__WHAT__WHAT_CONFIG, &mu__config_row__descriptor, &was, &a, err);

	if (!rc)
		rc = rows_at(u, NOW, MU__WHAT__WHAT_CONFIG, &mu__config_row__descriptor, &is, &b, err);
	if (rc)
		return rc;
	const Mu__ConfigRow *before = a ? was[0] : NULL, *now = b ? is[0] : NULL;
	if (!before || !now) {
		CANNOT(u, "there was no configuration before");
	} else if (now->since_pos != u->pos) {
		CANNOT(u, "another configuration was set at @%" PRIu64 " since; undo that one", now->since_pos);
	} else {
		Mu__Request *r = mu_arena_alloc(&u->c->arena, sizeof *r);
		mu__request__init(r);
		r->ask_case = MU__REQUEST__ASK_RECONFIGURE;
		r->reconfigure = mu_arena_alloc(&u->c->arena, sizeof *r->reconfigure);
		mu__reconfigure_ask__init(r->reconfigure);
		r->reconfigure->config = before->config;
		r->reconfigure->source = mu_arena_printf(&u->c->arena, "undo of @%" PRIu64, u->pos);
		put(u, r, mu_arena_printf(&u->c->arena, "the configuration of @%" PRIu64 " as a whole", before->since_pos));
	}
	return 0;
}

/* ---- accounts ---- */

static int64_t tres_was(const Mu__Limits *was, const ProtobufCFieldDescriptor *f, const char *name)
{
	size_t n = was ? *(const size_t *)((const char *)was + f->quantifier_offset) : 0;
	Mu__TresCount **v = was ? *(Mu__TresCount ***)((const char *)was + f->offset) : NULL;

	for (size_t i = 0; i < n; i++)
		if (same(v[i]->name, name))
			return v[i]->count;
	return -1;
}

/* Limits that were set, back to what they were; -1 takes one away. */
static Mu__Limits *limits_back(struct undo *u, const Mu__Limits *did, const Mu__Limits *was, struct mu_buf *text)
{
	Mu__Limits *back = mu_arena_alloc(&u->c->arena, sizeof *back);

	mu__limits__init(back);
	for (unsigned i = 0; i < mu__limits__descriptor.n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &mu__limits__descriptor.fields[i];
		if (!is_there(&did->base, f))
			continue;
		list(text, f->name);
		if (f->label != PROTOBUF_C_LABEL_REPEATED) {
			int64_t value = was && is_there(&was->base, f) ? *(const int64_t *)((const char *)was + f->offset) : -1;
			memcpy((char *)back + f->offset, &value, sizeof value);
			*(protobuf_c_boolean *)((char *)back + f->quantifier_offset) = 1;
			continue;
		}
		size_t n = *(const size_t *)((const char *)did + f->quantifier_offset);
		Mu__TresCount **set = *(Mu__TresCount ***)((const char *)did + f->offset), **v = mu_arena_alloc(&u->c->arena, n * sizeof *v);
		for (size_t k = 0; k < n; k++) {
			v[k] = mu_arena_alloc(&u->c->arena, sizeof *v[k]);
			mu__tres_count__init(v[k]);
			v[k]->name = set[k]->name;
			v[k]->has_count = 1;
			v[k]->count = tres_was(was, f, set[k]->name);
		}
		memcpy((char *)back + f->offset, &v, sizeof v);
		memcpy((char *)back + f->quantifier_offset, &n, sizeof n);
	}
	return back;
}

/* What an absent field of a row stands for. */
static uint32_t default_of(const char *name)
{
	return !strcmp(name, "usage_factor_milli") ? 1000 : !strcmp(name, "shares");
}

/* BACK (a fresh message of DID's type, with its keys) gets WAS's value of each field that DID sets. */
static void fields_back(struct undo *u, const ProtobufCMessage *did, const ProtobufCMessage *was, ProtobufCMessage *back, const char *const *keys,
			struct mu_buf *text)
{
	static char none[] = "";

	for (unsigned i = 0; i < did->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &did->descriptor->fields[i], *g = protobuf_c_message_descriptor_get_field_by_name(was->descriptor, f->name);
		bool key = false, word = !strncmp(f->name, "set_", 4);
		for (const char *const *k = keys; *k; k++)
			key = key || !strcmp(*k, f->name);
		if (!is_there(did, f))
			continue;
		if (key || word) {
			take(did, f, back, f);
			if (word) { /* The list that it sets may have been empty, or become so. */
				const ProtobufCFieldDescriptor *h = protobuf_c_message_descriptor_get_field_by_name(was->descriptor, !strcmp(f->name, "set_flags") ? "flag" : f->name + 4),
							       *to = protobuf_c_message_descriptor_get_field_by_name(back->descriptor, !strcmp(f->name, "set_flags") ? "flag" : f->name + 4);
				if (h && to)
					take(was, h, back, to);
				list(text, f->name + 4);
			}
		} else if (!strcmp(f->name, "reset_usage")) {
			CANNOT(u, "usage that was reset does not come back");
		} else if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
			Mu__Limits *l = limits_back(u, *(Mu__Limits *const *)((const char *)did + f->offset), g ? *(Mu__Limits *const *)((const char *)was + g->offset) : NULL, text);
			memcpy((char *)back + f->offset, &l, sizeof l);
		} else if (f->label == PROTOBUF_C_LABEL_REPEATED) {
			continue; /* With its set_ word. */
		} else if (g && is_there(was, g)) {
			take(was, g, back, f);
			list(text, f->name);
		} else if (f->type == PROTOBUF_C_TYPE_STRING) {
			char *empty = none;
			memcpy((char *)back + f->offset, &empty, sizeof empty);
			list(text, f->name);
		} else {
			uint64_t value = default_of(f->name);
			memcpy((char *)back + f->offset, &value, size_of(f));
			*(protobuf_c_boolean *)((char *)back + f->quantifier_offset) = 1;
			list(text, f->name);
		}
	}
}

static Mu__AccountsChange *account_step(struct undo *u, Mu__AccountsChange__KindCase kind, const char *text)
{
	Mu__AccountsChanged *all = mu_arena_alloc(&u->c->arena, sizeof *all);
	Mu__AccountsChange *one = mu_arena_alloc(&u->c->arena, sizeof *one), **v = mu_arena_alloc(&u->c->arena, sizeof *v);

	mu__accounts_changed__init(all);
	mu__accounts_change__init(one);
	one->kind_case = kind;
	*v = one;
	all->change = v;
	all->n_change = 1;
	all->line = mu_arena_printf(&u->c->arena, "muster undo @%" PRIu64, u->pos);
	step_event(u, MU__EVENT__KIND_ACCOUNTS_CHANGED, text)->accounts_changed = all;
	return one;
}

static int one_account(struct undo *u, const Mu__AccountsChange *did, struct mu_err *err)
{
	static const char *const qos_key[] = {"name", NULL}, *const assoc_key[] = {"account", "user", "partition", NULL};
	struct mu_buf text = {0};
	void **rows;
	size_t count;
	int rc;

	if (did->kind_case == MU__ACCOUNTS_CHANGE__KIND_QOS && !did->qos->create) {
		rc = rows_at(u, BEFORE, MU__WHAT__WHAT_QOS, &mu__qos_row__descriptor, &rows, &count, err);
		const Mu__QosRow *was = rc ? NULL : row_like(rows, count, &mu__qos_row__descriptor, &did->qos->base, qos_key);
		if (!was)
			return rc;
		Mu__QosPut *back = mu_arena_alloc(&u->c->arena, sizeof *back);
		mu__qos_put__init(back);
		fields_back(u, &did->qos->base, &was->base, &back->base, qos_key, &text);
		if (text.len)
			account_step(u, MU__ACCOUNTS_CHANGE__KIND_QOS, mu_arena_printf(&u->c->arena, "QOS %s: %s", was->name, taken(u, &text)))->qos = back;
	} else if (did->kind_case == MU__ACCOUNTS_CHANGE__KIND_ASSOC && !did->assoc->create) {
		rc = rows_at(u, BEFORE, MU__WHAT__WHAT_ASSOCS, &mu__assoc_row__descriptor, &rows, &count, err);
		const Mu__AssocRow *was = rc ? NULL : row_like(rows, count, &mu__assoc_row__descriptor, &did->assoc->base, assoc_key);
		if (!was)
			return rc;
		Mu__AssocPut *back = mu_arena_alloc(&u->c->arena, sizeof *back);
		mu__assoc_put__init(back);
		fields_back(u, &did->assoc->base, &was->base, &back->base, assoc_key, &text);
		if (text.len)
			account_step(u, MU__ACCOUNTS_CHANGE__KIND_ASSOC,
				     mu_arena_printf(&u->c->arena, "account %s%s%s: %s", was->account, was->user ? " user " : "", was->user ? was->user : "", taken(u, &text)))
				->assoc = back;
	} else if (did->kind_case == MU__ACCOUNTS_CHANGE__KIND_REMOVE) {
		CANNOT(u, "what was removed among accounts has lost its usage: add it again with sacctmgr");
	} else {
		CANNOT(u, "what was added among accounts may be in use: remove it with sacctmgr");
	}
	return 0;
}

/* ---- jobs ---- */

/* A job of the same submission that came after the act: it made up for it already. */
static const Mu__JobRow *submitted_since(const struct undo *u, const Mu__JobRow *was, void *const *now, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const Mu__JobRow *j = now[i];

		if (j->uid == was->uid && j->id > was->id && j->submit_usec > u->time_usec && j->spec && was->spec &&
		    same(j->spec->name, was->spec->name) && same(j->spec->submit_line, was->spec->submit_line) &&
		    j->spec->script_hash.len == was->spec->script_hash.len &&
		    (!was->spec->script_hash.len ||
		     memcmp(j->spec->script_hash.data, was->spec->script_hash.data, was->spec->script_hash.len) == 0))
			return j;
	}
	return NULL;
}

static void one_job(struct undo *u, uint32_t id, const Mu__JobRow *was, void *const *now, size_t count)
{
	const Mu__JobRow *again = was ? submitted_since(u, was, now, count) : NULL;

	const Mu__Author *me = u->event->author;

	if (!was) {
		CANNOT(u, "job %u was not there before", id);
	} else if (was->state != JOB_PENDING) {
		CANNOT(u, "job %u was %s: what it had done is lost", id, mu_job_state_long(was->state));
	} else if (was->array_job) {
		CANNOT(u, "job %u is of array %u: submit those tasks again", id, was->array_job);
	} else if (again) {
		CANNOT(u, "job %u was submitted again since, as job %u", id, again->id);
	} else if (!was->spec || was->uid != (uint32_t)getuid() || !me) {
		CANNOT(u, "job %u is %s's, who alone can submit it again", id, was->user ? was->user : "somebody");
	} else {
		Mu__Request *r = mu_arena_alloc(&u->c->arena, sizeof *r);
		mu__request__init(r);
		r->ask_case = MU__REQUEST__ASK_SUBMIT;
		r->submit = mu_arena_alloc(&u->c->arena, sizeof *r->submit);
		mu__submit_ask__init(r->submit);
		r->submit->spec = was->spec;
		put(u, r, mu_arena_printf(&u->c->arena, "job %u submitted again, under a new id and with a new place in the queue", id));
	}
}

static int cancelled(struct undo *u, struct mu_err *err)
{
	const Mu__JobSignal *did = u->event->job_signal;
	void **rows, **now;
	size_t count, now_count;
	int rc = rows_at(u, BEFORE, MU__WHAT__WHAT_JOBS, &mu__job_row__descriptor, &rows, &count, err);

	if (!rc)
		rc = rows_at(u, NOW, MU__WHAT__WHAT_JOBS, &mu__job_row__descriptor, &now, &now_count, err);
	if (!rc && did->signal) {
		CANNOT(u, "a signal that was sent does not come back");
		return 0;
	}
	for (size_t i = 0; i < did->n_job && !rc; i++) {
		const Mu__JobRow *was = NULL;
		for (size_t k = 0; k < count && !was; k++)
			was = ((Mu__JobRow *)rows[k])->id == did->job[i] ? rows[k] : NULL;
		one_job(u, did->job[i], was, now, now_count);
	}
	for (size_t i = 0; i < did->n_some && !rc; i++)
		CANNOT(u, "tasks %s of array %u: submit them again", did->some[i]->tasks, did->some[i]->job);
	return rc;
}

/* Is J as the act left it: held, or not? */
static bool is_left_so(const struct undo *u, const Mu__JobRow *j)
{
	return j->state == JOB_PENDING && (j->priority == 0) == !u->event->job_hold->release;
}

static int held(struct undo *u, struct mu_err *err)
{
	const Mu__JobHold *did = u->event->job_hold;
	Mu__JobHold *back = mu_arena_dup(&u->c->arena, did, sizeof *did);
	void **rows;
	size_t count, kept = 0;
	int rc = rows_at(u, NOW, MU__WHAT__WHAT_JOBS, &mu__job_row__descriptor, &rows, &count, err);

	if (rc)
		return rc;
	back->has_release = 1;
	back->release = !did->release;
	back->job = mu_arena_alloc(&u->c->arena, (did->n_job + 1) * sizeof *back->job);
	for (size_t i = 0; i < did->n_job; i++) {
		bool left = false;

		for (size_t k = 0; k < count && !left; k++)
			left = ((Mu__JobRow *)rows[k])->id == did->job[i] && is_left_so(u, rows[k]);
		if (left)
			back->job[kept++] = did->job[i];
	}
	back->n_job = kept;
	if (kept || did->n_some)
		step_event(u, MU__EVENT__KIND_JOB_HOLD,
			   mu_arena_printf(&u->c->arena, "%zu jobs %s", kept + did->n_some,
					   back->release ? "released" : "held"))
		    ->job_hold = back;
	return 0;
}

/* ---- reservations ---- */

static int reservation(struct undo *u, struct mu_err *err)
{
	static const char *const key[] = {"name", NULL};
	const Mu__ReservationChanged *did = u->event->reservation_changed;
	const char *name = did->row && did->row->name ? did->row->name : "";
	void **rows, **now;
	size_t count, now_count;
	int rc = rows_at(u, BEFORE, MU__WHAT__WHAT_RESERVATIONS, &mu__reservation_row__descriptor, &rows, &count, err);

	if (!rc)
		rc = rows_at(u, NOW, MU__WHAT__WHAT_RESERVATIONS, &mu__reservation_row__descriptor, &now, &now_count, err);
	bool there = !rc && did->row && row_like(now, now_count, &mu__reservation_row__descriptor, &did->row->base, key);
	Mu__ReservationRow *was = rc || !did->row ? NULL : row_like(rows, count, &mu__reservation_row__descriptor, &did->row->base, key);
	Mu__ReservationChanged *back = mu_arena_alloc(&u->c->arena, sizeof *back);

	mu__reservation_changed__init(back);
	if (rc)
		return rc;
	if ((did->create && *name && !there) || (did->remove && there))
		return 0; /* It is as it was before. */
	if (did->create && *name) {
		back->row = mu_arena_alloc(&u->c->arena, sizeof *back->row);
		mu__reservation_row__init(back->row);
		back->row->name = (char *)name;
		back->has_remove = back->remove = 1;
		step_event(u, MU__EVENT__KIND_RESERVATION_CHANGED, mu_arena_printf(&u->c->arena, "reservation %s removed", name))->reservation_changed = back;
	} else if (did->remove && was && was->end_usec > cli_now_usec()) {
		was->has_id = was->has_active = 0;
		was->has_idle_usec = 0;
		back->row = was;
		back->has_create = back->create = 1;
		step_event(u, MU__EVENT__KIND_RESERVATION_CHANGED, mu_arena_printf(&u->c->arena, "reservation %s made again", name))->reservation_changed = back;
	} else {
		CANNOT(u, "reservation %s: %s", name, did->remove ? "its time is over" : "set it back with scontrol update, by what muster diff shows");
	}
	return 0;
}

/* ---- the event ---- */

static int plan(struct undo *u, struct mu_err *err)
{
	int rc = 0;

	switch (u->event->kind_case) {
	case MU__EVENT__KIND_NODE_UPDATE:
		return nodes(u, err);
	case MU__EVENT__KIND_PARTITION_UPDATE:
		return partition(u, err);
	case MU__EVENT__KIND_CONFIG_SET:
		return configuration(u, err);
	case MU__EVENT__KIND_ACCOUNTS_CHANGED:
		for (size_t i = u->event->accounts_changed->n_change; i-- > 0 && !rc;)
			rc = one_account(u, u->event->accounts_changed->change[i], err);
		return rc;
	case MU__EVENT__KIND_RESERVATION_CHANGED:
		return reservation(u, err);
	case MU__EVENT__KIND_JOB_SIGNAL:
		return cancelled(u, err);
	case MU__EVENT__KIND_JOB_HOLD:
		return held(u, err);
	default:
		return mu_fail(err, MU_EINVAL, "@%" PRIu64 ".%u is no act of an administrator that can be made up for: changes of nodes, partitions, configuration, QOS and "
					       "associations, reservations, holds and cancelled jobs are", u->pos, u->n);
	}
}

static int parse_index(struct undo *u, const char *text, struct mu_err *err)
{
	const char *digits = *text == '@' ? text + 1 : text;
	char *end = NULL;

	u->pos = strtoull(digits, &end, 10);
	if (end && *end == '.')
		u->n = (uint32_t)strtoul(end + 1, &end, 10);
	return digits[0] >= '0' && digits[0] <= '9' && !*end && u->pos
		       ? 0
		       : mu_fail(err, MU_EINVAL, "\"%s\" is no place in the log: @POSITION or @POSITION.NUMBER, as muster audit acts shows it", text);
}

static int fetch(struct undo *u, struct mu_err *err)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__LogAsk ask = MU__LOG_ASK__INIT;
	Mu__Reply *reply;
	struct log_entry e;
	struct log_part part;
	size_t cursor = 0;

	ask.has_from = ask.has_to = 1;
	ask.from = ask.to = u->pos;
	request.ask_case = MU__REQUEST__ASK_LOG;
	request.log = &ask;
	int rc = cli_ask_done(u->c, &request, &reply, err);
	if (rc)
		return rc;
	if (reply->answer_case != MU__REPLY__ANSWER_LOG || !reply->log->n_entry || log_entry_parse_kept(reply->log->entry[0].data, reply->log->entry[0].len, &e))
		return mu_fail(err, MU_ENOENT, "the log has nothing at @%" PRIu64, u->pos);
	for (size_t i = 0; i < reply->log->n_refusal; i++)
		if (reply->log->refusal[i]->part == u->n)
			return mu_fail(err, MU_EINVAL, "@%" PRIu64 ".%u was refused and changed nothing: %s", u->pos, u->n,
				       reply->log->refusal[i]->text);
	u->time_usec = e.time_usec;
	for (uint32_t n = 0; log_entry_next(&e, &cursor, &part) == 1; n++)
		if (n == u->n && part.kind == LOG_PART_EVENT)
			u->event = (Mu__Event *)mu_pb_unpack(&mu__event__descriptor, part.bytes.data, part.bytes.len, &u->c->arena);
	return u->event ? 0 : mu_fail(err, MU_ENOENT, "@%" PRIu64 ".%u is no event", u->pos, u->n);
}

static int apply(struct undo *u)
{
	struct mu_err err = {0};

	for (size_t i = 0; i < u->steps; i++) {
		Mu__Reply *reply = NULL;
		if (!u->step[i].request)
			continue;
		if (cli_ask_done(u->c, u->step[i].request, &reply, &err)) {
			cli_error(u->c, "undo: %s: %s", u->step[i].text, err.text);
			return 1;
		}
		printf("done: %s%s\n", u->step[i].text, reply->job && u->step[i].request->ask_case == MU__REQUEST__ASK_SUBMIT ? mu_arena_printf(&u->c->arena, " %u", reply->job) : "");
	}
	return 0;
}

int muster_undo(struct cli *c, size_t count, char **words)
{
	const char *planned = NULL, *applied = NULL;
	const struct muster_word options[] = {{"plan", MUSTER_FLAG, &planned}, {"apply", MUSTER_FLAG, &applied}};
	struct undo *u = mu_arena_alloc(&c->arena, sizeof *u);
	struct mu_err err = {0};
	char when[32];
	int left = muster_words(c, count, words, options, 2);

	if (left < 0)
		return 1;
	if (left != 1 || !planned == !applied) {
		cli_error(c, "usage: muster undo @POSITION[.NUMBER] --plan|--apply");
		return 1;
	}
	u->c = c;
	if (parse_index(u, words[0], &err) || cli_open(c, &err) || fetch(u, &err) || plan(u, &err))
		return say(c, &err);
	mu_date_print(u->time_usec, &cli_zone, when);
	if (planned)
		printf("@%" PRIu64 ".%u by %s at %s\n", u->pos, u->n, u->event->author && u->event->author->user ? u->event->author->user : "slurm", when);
	for (size_t i = 0; i < u->steps; i++) {
		if (!u->step[i].request)
			printf("cannot: %s\n", u->step[i].text);
		else if (planned)
			printf("would: %s\n", u->step[i].text);
	}
	if (!u->steps) {
		printf("undo: nothing of @%" PRIu64 ".%u holds any more\n", u->pos, u->n);
		return 0;
	}
	if (u->steps == u->cannot) {
		cli_error(c, "undo: nothing of @%" PRIu64 ".%u can be made up for", u->pos, u->n);
		return 1;
	}
	return planned ? 0 : apply(u);
}
