/* cli/update.c: scontrol update, create, delete: KEY=VALUE words to events. Keys of a partition are the words
 * of its line in the configuration; those of a job are update_job.c's. */
#include <ctype.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "cli/reservation.h"
#include "cli/scontrol.h"
#include "proto/conf.h"
#include "proto/hostlist.h"

static int split(struct scontrol *s, char **words, size_t count, struct scontrol_pair *pairs,
		 struct mu_err *err)
{
	if (count > SCONTROL_KEYS_MAX)
		return mu_fail(err, MU_ELIMIT, "at most %d words", SCONTROL_KEYS_MAX);
	for (size_t i = 0; i < count; i++) {
		const char *equals = strchr(words[i], '=');
		size_t len = equals ? (size_t)(equals - words[i]) : strlen(words[i]);

		pairs[i] = (struct scontrol_pair){.value = equals ? equals + 1 : NULL};
		if (equals && len > 1 && (equals[-1] == '+' || equals[-1] == '-'))
			pairs[i].sign = words[i][--len];
		pairs[i].key = mu_arena_printf(&s->cli->arena, "%.*s", (int)len, words[i]);
	}
	return 0;
}

bool scontrol_is_key(const char *key, const char *name, size_t least)
{
	size_t len = strlen(key);

	return len >= least && strncasecmp(key, name, len) == 0;
}

static int send(struct scontrol *s, Mu__Event *event, const char *what)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__EventAsk ask = MU__EVENT_ASK__INIT;
	struct mu_err err = {0};
	Mu__Reply *reply;

	ask.event = event;
	request.ask_case = MU__REQUEST__ASK_EVENT;
	request.event = &ask;
	if (cli_ask_done(s->cli, &request, &reply, &err)) {
		fprintf(stderr, "%s error: %s\n", what, err.text);
		return 1;
	}
	return 0;
}

/* ---- nodes ---- */

static int all_nodes(struct scontrol *s, char ***ret_names, size_t *ret_count, struct mu_err *err)
{
	Mu__Query query = MU__QUERY__INIT;
	void **rows;
	size_t count;
	int rc;

	query.has_what = 1;
	query.what = MU__WHAT__WHAT_NODES;
	rc = cli_query_all(s->cli, &query, &mu__node_row__descriptor, &rows, &count, err);
	if (rc)
		return rc;
	*ret_names = mu_arena_alloc(&s->cli->arena, (count + 1) * sizeof **ret_names);
	for (size_t i = 0; i < count; i++)
		(*ret_names)[i] = ((Mu__NodeRow *)rows[i])->name;
	*ret_count = count;
	return 0;
}

/* What can be said of a node. */
static const struct node_key {
	const char *key;
	enum { NODE_TEXT, NODE_STATE, NODE_FEATURES, NODE_WEIGHT, NODE_AFTER, NODE_UID, NODE_REFUSED } kind;
	size_t at;	  /* NODE_TEXT */
	const char *note; /* NODE_REFUSED: why */
} node_keys[] = {
    {"ActiveFeatures", NODE_FEATURES, 0, NULL},
    {"AvailableFeatures", NODE_FEATURES, 0, NULL},
    {"Comment", NODE_TEXT, offsetof(Mu__NodeUpdate, comment), NULL},
    {"CpuBind", NODE_REFUSED, 0, "nodes have no binding of their own; srun --cpu-bind chooses"},
    {"Extra", NODE_TEXT, offsetof(Mu__NodeUpdate, extra), NULL},
    {"Features", NODE_FEATURES, 0, NULL},
    {"Gres", NODE_REFUSED, 0, "devices are what the configuration and the node itself say"},
    {"InstanceId", NODE_TEXT, offsetof(Mu__NodeUpdate, instance_id), NULL},
    {"InstanceType", NODE_TEXT, offsetof(Mu__NodeUpdate, instance_type), NULL},
    {"NodeAddr", NODE_REFUSED, 0, "a node says itself where it listens"},
    {"NodeHostName", NODE_REFUSED, 0, "a node says itself where it listens"},
    {"Reason", NODE_TEXT, offsetof(Mu__NodeUpdate, reason), NULL},
    {"ReasonUid", NODE_UID, 0, NULL},
    {"ResumeAfter", NODE_AFTER, 0, NULL},
    {"State", NODE_STATE, 0, NULL},
    {"Weight", NODE_WEIGHT, 0, NULL},
};

static int set_node_state(struct scontrol *s, const struct scontrol_pair *p, Mu__NodeUpdate *u,
			  struct mu_err *err)
{
	char *word = mu_arena_strdup(&s->cli->arena, p->value);

	for (char *q = word; *q; q++)
		*q = (char)toupper((unsigned char)*q);
	if (strcmp(word, "NORESP") == 0)
		word = (char *)"NO_RESP";
	if (!*word)
		return mu_fail(err, MU_EINVAL, "Invalid input: State=");
	if (strncmp(word, "POWER", 5) == 0 || strcmp(word, "CANCEL_REBOOT") == 0)
		return mu_fail(err, MU_EINVAL,
			       "Invalid input: State=%s (nodes are neither powered nor rebooted)", p->value);
	u->state = word;
	return 0;
}

static int set_node_uid(struct scontrol *s, const struct scontrol_pair *p, Mu__NodeUpdate *u,
			struct mu_err *err)
{
	uint32_t uid;

	if (cli_user_id(p->value, &uid, NULL))
		return mu_fail(err, MU_EUSER, "Invalid input: ReasonUid=%s (a user's name or number)",
			       p->value);
	u->has_reason_uid = 1;
	u->reason_uid = uid;
	u->reason_user = (char *)cli_user_name(&s->cli->arena, uid);
	return 0;
}

static int set_node_key(struct scontrol *s, const struct scontrol_pair *p, Mu__NodeUpdate *u,
			struct mu_err *err)
{
	struct mu_arena *a = &s->cli->arena;
	size_t i = 0, count = sizeof node_keys / sizeof *node_keys;
	int64_t n;

	while (i < count && strcasecmp(node_keys[i].key, p->key) != 0)
		i++;
	if (i == count || !p->value || p->sign)
		return mu_fail(err, MU_EINVAL,
			       "Invalid input: %s%s%s (of a node NodeName, State, Reason, Weight, Features, "
			       "Comment, Extra, InstanceId, InstanceType and ResumeAfter can be given)",
			       p->key, p->value ? "=" : "", p->value ? p->value : "");
	switch (node_keys[i].kind) {
	case NODE_TEXT:
		*(char **)((char *)u + node_keys[i].at) = (char *)p->value;
		return 0;
	case NODE_STATE:
		return set_node_state(s, p, u, err);
	case NODE_FEATURES:
		u->feature = cli_split(a, p->value, &u->n_feature);
		u->has_set_feature = u->set_feature = 1;
		return 0;
	case NODE_WEIGHT:
		u->has_weight = 1;
		if (mu_number_parse("Weight", p->value, 0, UINT32_MAX - 2, &n, NULL))
			break;
		u->weight = (uint32_t)n;
		return 0;
	case NODE_AFTER:
		u->has_resume_after_sec = 1;
		if (strcasecmp(p->value, "-1") == 0 || strcasecmp(p->value, "INFINITE") == 0)
			return 0;
		if (mu_number_parse("ResumeAfter", p->value, 0, INT32_MAX, &n, NULL))
			break;
		u->resume_after_sec = (uint32_t)n;
		return 0;
	case NODE_UID:
		return set_node_uid(s, p, u, err);
	case NODE_REFUSED:
		return mu_fail(err, MU_EINVAL, "Invalid input: %s=%s (%s)", p->key, p->value,
			       node_keys[i].note);
	}
	return mu_fail(err, MU_EINVAL, "Invalid input: %s=%s (a number)", p->key, p->value);
}

static int update_nodes(struct scontrol *s, const struct scontrol_pair *pairs, size_t count)
{
	struct mu_arena *a = &s->cli->arena;
	Mu__Event e = MU__EVENT__INIT;
	Mu__NodeUpdate u = MU__NODE_UPDATE__INIT;
	struct mu_err err = {0};
	size_t names, said = 0;

	for (size_t i = 0; i < count; i++) {
		const struct scontrol_pair *p = &pairs[i];

		if (p->value && scontrol_is_key(p->key, "NodeName", 3)) {
			if (strcasecmp(p->value, "ALL") == 0
				? all_nodes(s, &u.node, &names, &err)
				: mu_hostlist_expand(p->value, 65536, a, &u.node, &names, &err))
				goto bad_name;
			u.n_node = names;
			continue;
		}
		said++;
		if (strcasecmp(p->key, "fenced") == 0) {
			u.has_fenced = u.fenced = 1;
		} else if (set_node_key(s, p, &u, &err)) {
			cli_error(s->cli, "%s", err.text);
			fprintf(stderr, "Request aborted\n");
			return 1;
		}
	}
	if (!said) {
		fprintf(stderr, "No changes specified\n");
		return 1;
	}
	if (u.state &&
	    (strcmp(u.state, "DOWN") == 0 || strcmp(u.state, "DRAIN") == 0 || strcmp(u.state, "FAIL") == 0) &&
	    (!u.reason || !*u.reason)) {
		fprintf(stderr, "%s\n", mu_strerror(MU_EREASON));
		return 1;
	}
	e.kind_case = MU__EVENT__KIND_NODE_UPDATE;
	e.node_update = &u;
	return send(s, &e, "slurm_update");
bad_name:
	fprintf(stderr, "slurm_update error: %s\n", mu_strerror(MU_ENODENAME));
	return 1;
}

/* ---- partitions ---- */

static void note(void *arg, const char *sentence)
{
	cli_say(arg, "%s", sentence);
}

/* "Nodes=...", "Nodes+=...", "Nodes-=...": which nodes ALL are, the controllers know. */
static int set_partition_nodes(struct scontrol *s, const struct scontrol_pair *p, Mu__PartitionUpdate *u,
			       struct mu_err *err)
{
	char **names;
	size_t count;

	if (p->sign == '+')
		u->nodes_more = (char *)p->value;
	else if (p->sign == '-')
		u->nodes_less = (char *)p->value;
	else
		u->conf->nodes = (char *)p->value;
	if (strcasecmp(p->value, "ALL") == 0 && !p->sign)
		return 0;
	if (!p->sign)
		return mu_hostlist_expand(p->value, 65536, &s->cli->arena, &u->conf->node, &u->conf->n_node,
					  err);
	return mu_hostlist_expand(p->value, 65536, &s->cli->arena, &names, &count, err);
}

static int set_partition_key(struct scontrol *s, const struct scontrol_pair *p, Mu__PartitionUpdate *u,
			     struct mu_err *err)
{
	if (!p->value)
		return mu_fail(err, MU_EINVAL, "Invalid input: %s", p->key);
	if (strcasecmp(p->key, "Nodes") == 0)
		return set_partition_nodes(s, p, u, err);
	if (p->sign)
		return mu_fail(err, MU_EINVAL, "Invalid input: %s%c=%s", p->key, p->sign, p->value);
	if (mu_conf_partition_word(p->key, p->value, note, s->cli, &s->cli->arena, u, err) == 0)
		return 0;
	if (strcasecmp(p->key, "State") == 0)
		return mu_fail(err, MU_EINVAL,
			       "Invalid partition state: %s\nAcceptable State values are UP, DOWN, DRAIN and "
			       "INACTIVE",
			       p->value);
	return mu_fail(err, MU_EINVAL, "Invalid input: %s=%s (%s)", p->key, p->value,
		       mu_arena_strdup(&s->cli->arena, err->text));
}

static int change_partition(struct scontrol *s, const struct scontrol_pair *pairs, size_t count, bool create)
{
	Mu__Event e = MU__EVENT__INIT;
	Mu__PartitionUpdate u = MU__PARTITION_UPDATE__INIT;
	Mu__PartitionConf conf = MU__PARTITION_CONF__INIT;
	struct mu_err err = {0};

	u.conf = &conf;
	for (size_t i = 0; i < count; i++) {
		if (scontrol_is_key(pairs[i].key, "PartitionName", 3)) {
			conf.name = (char *)pairs[i].value;
		} else if (set_partition_key(s, &pairs[i], &u, &err)) {
			char *rest = err.text, *text;

			while ((text = strsep(&rest, "\n")))
				cli_error(s->cli, "%s", text);
			return 1;
		}
	}
	if (!create && count < 2) {
		fprintf(stderr, "No changes specified\n");
		return 1;
	}
	u.has_create = 1;
	u.create = create;
	e.kind_case = MU__EVENT__KIND_PARTITION_UPDATE;
	e.partition_update = &u;
	return send(s, &e, create ? "Error creating the partition:" : "slurm_update");
}

static int refuse(struct scontrol *s, const char *verb)
{
	cli_error(
	    s->cli,
	    "%s knows JobId=, NodeName=, PartitionName= and ReservationName=; steps and licenses cannot be "
	    "changed",
	    verb);
	return 1;
}

/* "create reservation StartTime=..." need not name it; "update ReservationName=X ..." does. A job's update
 * may have that key as well. */
static bool names_reservation(char **words, size_t count, bool create)
{
	bool named = false;

	if (count && !strchr(words[0], '='))
		return strncasecmp(words[0], "reservation", strlen(words[0])) == 0 && strlen(words[0]) >= 3;
	for (size_t i = 0; i < count; i++) {
		if (strncasecmp(words[i], "job", 3) == 0 && !create)
			return false;
		named = named || (strncasecmp(words[i], "reservation", 11) == 0 && strchr(words[i], '='));
	}
	return named;
}

int scontrol_update(struct scontrol *s, char **words, size_t count)
{
	struct scontrol_pair pairs[SCONTROL_KEYS_MAX];
	struct mu_err err = {0};

	if (names_reservation(words, count, false)) {
		size_t skip = strchr(words[0], '=') || strcasecmp(words[0], "skip") == 0 ? 0 : 1;

		return scontrol_change_reservation(s, words + skip, count - skip, false);
	}
	/* "update job 5 ..." is what people write for "update JobId=5 ...". */
	if (count >= 2 && !strchr(words[0], '=') &&
	    (strncasecmp(words[0], "job", 3) == 0 || strncasecmp(words[0], "node", 4) == 0 ||
	     strncasecmp(words[0], "part", 4) == 0)) {
		const char *key = tolower((unsigned char)words[0][0]) == 'j'   ? "JobId"
				  : tolower((unsigned char)words[0][0]) == 'n' ? "NodeName"
									       : "PartitionName";

		words[1] = strchr(words[1], '=') ? words[1]
						 : mu_arena_printf(&s->cli->arena, "%s=%s", key, words[1]);
		words++;
		count--;
	}
	if (split(s, words, count, pairs, &err)) {
		cli_error(s->cli, "%s", err.text);
		return 1;
	}
	for (size_t i = 0; i < count; i++) {
		if (pairs[i].value && scontrol_is_key(pairs[i].key, "JobId", 3))
			return scontrol_update_jobs(s, pairs, count);
	}
	for (size_t i = 0; i < count; i++) {
		if (strcasecmp(pairs[i].key, "JobName") == 0 && pairs[i].value)
			return scontrol_update_jobs(s, pairs, count);
		if (strcasecmp(pairs[i].key, "StepId") == 0)
			break;
		if (scontrol_is_key(pairs[i].key, "NodeName", 3) && pairs[i].value)
			return update_nodes(s, pairs, count);
		if (scontrol_is_key(pairs[i].key, "PartitionName", 3) && pairs[i].value)
			return change_partition(s, pairs, count, false);
	}
	return refuse(s, "update");
}

int scontrol_create(struct scontrol *s, char **words, size_t count)
{
	struct scontrol_pair pairs[SCONTROL_KEYS_MAX];
	struct mu_err err = {0};

	if (names_reservation(words, count, true)) {
		size_t skip = strchr(words[0], '=') ? 0 : 1;

		return scontrol_change_reservation(s, words + skip, count - skip, true);
	}
	if (count && !strchr(words[0], '=') && strncasecmp(words[0], "partition", strlen(words[0])) == 0) {
		words++;
		count--;
	}
	if (split(s, words, count, pairs, &err)) {
		cli_error(s->cli, "%s", err.text);
		return 1;
	}
	for (size_t i = 0; i < count; i++) {
		if (scontrol_is_key(pairs[i].key, "PartitionName", 3) && pairs[i].value)
			return change_partition(s, pairs, count, true);
	}
	cli_error(s->cli,
		  "create knows ReservationName= and PartitionName=; nodes come from the configuration "
		  "file, which scontrol reconfigure takes in");
	return 1;
}

int scontrol_delete(struct scontrol *s, char **words, size_t count)
{
	Mu__Event e = MU__EVENT__INIT;
	Mu__PartitionUpdate u = MU__PARTITION_UPDATE__INIT;
	Mu__PartitionConf conf = MU__PARTITION_CONF__INIT;

	if (count == 1 && strncasecmp(words[0], "reservation", 11) == 0 && strchr(words[0], '='))
		return scontrol_delete_reservation(s, strchr(words[0], '=') + 1);
	if (count == 2 && !strchr(words[0], '=') &&
	    strncasecmp(words[0], "reservation", strlen(words[0])) == 0)
		return scontrol_delete_reservation(s, strchr(words[1], '=') ? strchr(words[1], '=') + 1
									    : words[1]);
	if (count && strncasecmp(words[0], "node", 4) == 0) {
		cli_error(s->cli,
			  "nodes leave with the configuration file, which scontrol reconfigure takes in");
		return 1;
	}
	if (count && strncasecmp(words[0], "partition", 9) == 0)
		conf.name = strchr(words[0], '=') ? strchr(words[0], '=') + 1
			    : count == 2 ? (strchr(words[1], '=') ? strchr(words[1], '=') + 1 : words[1])
					 : NULL;
	if (!conf.name || count > 2) {
		cli_error(s->cli, "delete knows PartitionName=NAME and ReservationName=NAME");
		return 1;
	}
	u.conf = &conf;
	u.has_remove = u.remove = 1;
	e.kind_case = MU__EVENT__KIND_PARTITION_UPDATE;
	e.partition_update = &u;
	return send(s, &e, "slurm_delete_partition");
}
