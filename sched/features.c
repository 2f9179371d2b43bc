/* sched/features.c: --constraint expressions.
 *
 *   expression  term { ("&" | "|") term }           from left to right
 *   term        item [ "*" count ]                   so many nodes at least, of all the job's
 *   item        name | "(" expression ")" | "[" choice { "|" choice } "]"
 *   choice      term { "&" term }
 *
 * "[a|b]" is one choice for all nodes of the job: a choice is tried after the other. "[a*2&b*4]" asks for
 * nodes of each kind and no others. Read straight from the text, at most some levels deep: nothing is kept.
 */
#include "sched/state.h"

enum { DEPTH_MAX = 8 };

struct reader {
	const char *at;
	const struct sch_node *node;   /* NULL: nothing is judged */
	const struct sch_state *known; /* not NULL: every name must be some node's */
	uint32_t choice;	       /* which of [a|b]; SCH_ANY_CHOICE: whichever */
	uint32_t choices;	       /* how many there are */
	uint32_t groups, total;	       /* terms with a count, and the sum of their counts */
	uint32_t pick;		       /* the group that the caller looks for; SCH_NO_GROUP: none */
	uint32_t pick_count;	       /* its count */
	bool pick_match;	       /* the node belongs to it */
	bool bad, unknown, only;       /* only: the counted kinds stand in brackets */
};

static bool expression(struct reader *r, uint32_t depth);

static bool known(const struct sch_state *st, const char *name, size_t len)
{
	const uint8_t *key = NULL;
	size_t key_len = 0;
	for (const struct sch_class *c = mu_map_seek(&st->classes, NULL, 0, 0, &key, &key_len); c;
	     c = mu_map_seek(&st->classes, key, key_len, 1, &key, &key_len))
		if (sch__node_has_feature(c->sample, name, len))
			return true;
	return false;
}

static bool name(struct reader *r)
{
	size_t len = strcspn(r->at, "&|()[]*,! ");
	const char *word = r->at;
	r->at += len;
	if (!len) {
		r->bad = true;
		return false;
	}
	if (r->known && !known(r->known, word, len))
		r->unknown = true;
	return r->node && sch__node_has_feature(r->node, word, len);
}

/* A count behind an item makes it a group: a node need not belong to it. */
static bool counted(struct reader *r, bool value, bool inside)
{
	uint64_t count = 0;
	if (*r->at != '*')
		return value;
	for (r->at++; *r->at >= '0' && *r->at <= '9' && count <= SCH_NODES_MAX; r->at++)
		count = count * 10 + (uint64_t)(*r->at - '0');
	if (!count || count > SCH_NODES_MAX)
		r->bad = true;
	if (r->groups == r->pick) {
		r->pick_count = (uint32_t)count;
		r->pick_match = value;
	}
	r->groups++;
	r->total += (uint32_t)count;
	return inside ? value : true;
}

static bool choice_list(struct reader *r, uint32_t depth)
{
	bool any = false, chosen = false;
	uint32_t index = 0, groups = r->groups, terms = 0;
	for (;; r->at++) {
		bool all = true, some = false;
		for (;; r->at++, terms++) {
			uint32_t before = r->groups;
			bool v = false;
			if (*r->at == '(' && depth < DEPTH_MAX) {
				r->at++;
				v = expression(r, depth + 1);
				r->bad = r->bad || *r->at != ')';
				r->at += *r->at == ')';
			} else {
				v = name(r);
			}
			v = counted(r, v, true);
			all = all && v;
			some = some || v;
			if (r->groups > before)
				r->only = true;
			if (r->bad || *r->at != '&')
				break;
		}
		bool holds = r->groups > groups ? some : all; /* Of counted kinds a node is one. */
		any = any || holds;
		chosen = chosen || (index == r->choice && holds);
		index++;
		if (r->bad || *r->at != '|')
			break;
	}
	terms++;
	if (*r->at != ']' || (r->groups > groups && (index > 1 || r->groups - groups != terms)))
		r->bad = true;
	r->at += *r->at == ']';
	if (index > 1) {
		if (r->choices)
			r->bad = true; /* One such list. */
		r->choices = index;
	}
	return index > 1 && r->choice != SCH_ANY_CHOICE ? chosen : any;
}

static bool term(struct reader *r, uint32_t depth)
{
	bool v = false;
	if (depth >= DEPTH_MAX) {
		r->bad = true;
	} else if (*r->at == '(') {
		r->at++;
		v = expression(r, depth + 1);
		r->bad = r->bad || *r->at != ')';
		r->at += *r->at == ')';
	} else if (*r->at == '[') {
		r->at++;
		return choice_list(r, depth + 1);
	} else {
		v = name(r);
	}
	return counted(r, v, false);
}

static bool expression(struct reader *r, uint32_t depth)
{
	bool value = term(r, depth);
	while (!r->bad && (*r->at == '&' || *r->at == '|')) {
		bool and = *r->at++ == '&';
		bool v = term(r, depth);
		value = and? value && v : value || v;
	}
	return value;
}

static struct reader reader_of(const char *expr, const struct sch_node *n, uint32_t choice)
{
	return (struct reader){.at = expr, .node = n, .choice = choice, .pick = SCH_NO_GROUP};
}

bool sch__features_match(const char *expr, const struct sch_node *n, uint32_t choice)
{
	struct reader r = reader_of(expr, n, choice);
	return expression(&r, 0) && !r.bad;
}

void sch__features_kind(const char *expr, struct sch_features *ret)
{
	struct reader r = reader_of(expr, NULL, SCH_ANY_CHOICE);
	expression(&r, 0);
	*ret =
	    (struct sch_features){.choices = r.choices, .groups = r.groups, .nodes = r.total, .only = r.only};
}

bool sch__features_group(const char *expr, uint32_t group, const struct sch_node *n, uint32_t *ret_count)
{
	struct reader r = reader_of(expr, n, SCH_ANY_CHOICE);
	r.pick = group;
	expression(&r, 0);
	*ret_count = r.pick_count;
	return r.pick_match;
}

int sch__features_check(const struct sch_state *st, const char *expr, struct mu_err *err)
{
	struct reader r = reader_of(expr, NULL, SCH_ANY_CHOICE);
	r.known = st;
	expression(&r, 0);
	if (r.bad || *r.at || r.unknown || r.groups > SCH_FEATURE_GROUPS || (r.choices && r.groups))
		return sch__refuse(err, MU_EFEATURE);
	return 0;
}
