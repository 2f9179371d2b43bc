/* cli/update.c: scontrol update, create, delete: KEY=VALUE words to events. Keys of a job are rows of the
 * registry of options, so that a value is read as its option reads it. */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "cli/array.h"
#include "cli/reservation.h"
#include "cli/scontrol.h"
#include "cli/spec.h"
#include "proto/hostlist.h"

enum { KEYS_MAX = 128 };

/* A word split at its first "=" (or "+=" and "-="). */
struct pair {
	const char *key, *value;
	char sign; /* 0, '+', '-' */
};

static int split(struct scontrol *s, char **words, size_t count, struct pair *pairs, struct mu_err *err)
{
	if (count > KEYS_MAX)
		return mu_fail(err, MU_ELIMIT, "at most %d words", KEYS_MAX);
	for (size_t i = 0; i < count; i++) {
		const char *equals = strchr(words[i], '=');
		size_t len = equals ? (size_t)(equals - words[i]) : strlen(words[i]);

		pairs[i] = (struct pair){.value = equals ? equals + 1 : NULL};
		if (equals && len > 1 && (equals[-1] == '+' || equals[-1] == '-'))
			pairs[i].sign = words[i][--len];
		pairs[i].key = mu_arena_printf(&s->cli->arena, "%.*s", (int)len, words[i]);
	}
	return 0;
}

/* Does KEY name NAME? Its first letters will do, at least LEAST of them. */
static bool is_key(const char *key, const char *name, size_t least)
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

/* ---- jobs ---- */

static const struct {
	const char *key;
	int option;
} job_keys[] = {
    {"Account", OPT_account},
    {"AdminComment", -1},
    {"ArrayTaskThrottle", -2},
    {"BeginTime", OPT_begin},
    {"Comment", OPT_comment},
    {"Contiguous", -3},
    {"CPUsPerTask", OPT_cpus_per_task},
    {"CPUs/Task", OPT_cpus_per_task},
    {"Deadline", OPT_deadline},
    {"Dependency", OPT_dependency},
    {"EligibleTime", OPT_begin},
    {"ExcNodeList", OPT_exclude},
    {"Features", OPT_constraint},
    {"Gres", OPT_gres},
    {"JobName", OPT_job_name},
    {"Licenses", OPT_licenses},
    {"MailType", OPT_mail_type},
    {"MailUser", OPT_mail_user},
    {"MinCPUsNode", OPT_mincpus},
    {"MinMemoryCPU", OPT_mem_per_cpu},
    {"MinMemoryNode", OPT_mem},
    {"MinTmpDiskNode", OPT_tmp},
    {"Name", OPT_job_name},
    {"Nice", OPT_nice},
    {"NodeList", OPT_nodelist},
    {"NumNodes", OPT_nodes},
    {"NumTasks", OPT_ntasks},
    {"OverSubscribe", -4},
    {"Partition", OPT_partition},
    {"Priority", OPT_priority},
    {"QOS", OPT_qos},
    {"ReqNodeList", OPT_nodelist},
    {"ReqNodes", OPT_nodes},
    {"Requeue", -5},
    {"ReservationName", OPT_reservation},
    {"StartTime", OPT_begin},
    {"StdErr", OPT_error},
    {"StdIn", OPT_input},
    {"StdOut", OPT_output},
    {"TimeLimit", OPT_time},
    {"TimeMin", OPT_time_min},
    {"TresPerNode", OPT_gres},
    {"WCKey", OPT_wckey},
    {"WorkDir", OPT_chdir},
};

static int yes_or_no(const struct pair *p, protobuf_c_boolean *has, protobuf_c_boolean *field,
		     struct mu_err *err)
{
	if (strcasecmp(p->value, "1") != 0 && strcasecmp(p->value, "0") != 0 &&
	    strcasecmp(p->value, "yes") != 0 && strcasecmp(p->value, "no") != 0)
		return mu_fail(err, MU_EINVAL, "Invalid %s value: %s (yes or no)", p->key, p->value);
	*has = 1;
	*field = *p->value == '1' || *p->value == 'y' || *p->value == 'Y';
	return 0;
}

/* What is no field of a job's spec. */
struct beside {
	bool now, has_throttle;
	int64_t throttle;
};

static int set_job_key(struct scontrol *s, const struct pair *p, struct cli_args *args, Mu__JobSpec *spec,
		       struct beside *beside, struct mu_err *err)
{
	size_t i = 0, count = sizeof job_keys / sizeof *job_keys;

	while (i < count && strcasecmp(job_keys[i].key, p->key) != 0)
		i++;
	if (i == count || !p->value)
		return mu_fail(err, MU_EINVAL, "Invalid input: %s%s%s", p->key, p->value ? "=" : "",
			       p->value ? p->value : "");
	switch (job_keys[i].option) {
	case -1:
		spec->admin_comment = (char *)p->value;
		return 0;
	case -2:
		if (mu_number_parse(p->key, p->value, 0, UINT32_MAX / 2, &beside->throttle, NULL))
			return mu_fail(err, MU_EINVAL, "Invalid ArrayTaskThrottle value: %s (a number)",
				       p->value);
		beside->has_throttle = true;
		return 0;
	case -3:
		return yes_or_no(p, &spec->has_contiguous, &spec->contiguous, err);
	case -4:
		return yes_or_no(p, &spec->has_oversubscribe, &spec->oversubscribe, err);
	case -5:
		return yes_or_no(p, &spec->has_requeue, &spec->requeue, err);
	case OPT_begin:
		if (strcasecmp(p->value, "now") == 0) {
			beside->now = true;
			return 0;
		}
		break;
	case OPT_priority:
		if (strcasecmp(p->value, "TOP") == 0)
			return mu_fail(err, MU_EPRIORITY,
				       "Invalid Priority value: %s (a number up to 4294967293)", p->value);
		break;
	default:
		break;
	}
	/* As one more option given; applied together below. */
	args->given[args->count++] = (struct cli_given){&mu_options[job_keys[i].option],
							mu_arena_strdup(&s->cli->arena, p->value), CLI_LINE};
	return 0;
}

static int update_one_job(struct scontrol *s, const struct cli_job_id *id, Mu__JobSpec *spec,
			  const struct beside *beside)
{
	Mu__Event e = MU__EVENT__INIT;
	Mu__JobUpdate u = MU__JOB_UPDATE__INIT;
	Mu__Request request = MU__REQUEST__INIT;
	Mu__EventAsk ask = MU__EVENT_ASK__INIT;
	struct mu_err err = {0};

	u.has_job = u.has_begin_now = 1;
	u.job = id->job;
	u.tasks = id->has_task ? (char *)id->tasks : NULL;
	u.begin_now = beside->now;
	u.has_array_throttle = beside->has_throttle;
	u.array_throttle = (uint32_t)beside->throttle;
	u.spec = spec;
	e.kind_case = MU__EVENT__KIND_JOB_UPDATE;
	e.job_update = &u;
	ask.event = &e;
	request.ask_case = MU__REQUEST__ASK_EVENT;
	request.event = &ask;
	if (!cli_ask_done(s->cli, &request, NULL, &err))
		return 0;
	if (err.code == MU_EJOBID)
		fprintf(stderr, "%s for job %u\n", mu_strerror(err.code), id->job);
	else
		fprintf(stderr, "slurm_update error: %s\n", err.text);
	return 1;
}

/* "TimeLimit+=30": from what the job has now. */
static int relative_limit(struct scontrol *s, const struct cli_job_id *id, const struct pair *p,
			  int64_t *ret_sec, struct mu_err *err)
{
	Mu__JobRow **rows;
	size_t n;
	int64_t by;
	int rc = mu_span_parse(p->value, &by, err);

	if (rc)
		return mu_fail(err, rc, "Invalid TimeLimit value: %s", p->value);
	rc = scontrol_load_jobs(s, id, 1, &rows, &n, err);
	if (rc || !n)
		return rc ? rc : mu_fail(err, MU_EJOBID, "%s", mu_strerror(MU_EJOBID));
	*ret_sec = p->sign == '+' ? rows[0]->time_limit_sec + by : rows[0]->time_limit_sec - by;
	if (rows[0]->time_limit_sec < 0 || *ret_sec < 60)
		return mu_fail(err, MU_ETIMELIMIT, "%s", mu_strerror(MU_ETIMELIMIT));
	return 0;
}

static int update_jobs(struct scontrol *s, const struct pair *pairs, size_t count)
{
	struct cli_given given[KEYS_MAX];
	struct cli_args args = {.given = given, .cap = KEYS_MAX};
	Mu__JobSpec spec = MU__JOB_SPEC__INIT;
	const struct pair *limit = NULL;
	struct cli_job_id *id = NULL;
	struct mu_err err = {0};
	size_t ids = 0;
	struct beside beside = {0};
	int rc = 0;

	for (size_t i = 0; i < count; i++) {
		char *word = (char *)pairs[i].value;

		if (is_key(pairs[i].key, "JobId", 3) && word) {
			if (scontrol_ids(s, &word, 1, &id, &ids, &err)) {
				fprintf(stderr, "%s\n", err.text);
				return 1;
			}
		} else if (strcasecmp(pairs[i].key, "TimeLimit") == 0 && pairs[i].sign) {
			limit = &pairs[i];
		} else if (set_job_key(s, &pairs[i], &args, &spec, &beside, &err)) {
			goto failed;
		}
	}
	if (!ids) {
		mu_fail(&err, MU_EJOBID, "No job id given: write JobId=N");
		goto failed;
	}
	if (cli_spec_make(&args, &s->cli->arena, &spec, &err) || cli_spec_check(&spec, &err))
		goto failed;
	for (size_t i = 0; i < ids; i++) {
		if (id[i].has_component) {
			fprintf(stderr, "%s for job %u\n", mu_strerror(MU_EJOBID), id[i].job);
			rc = 1;
			continue;
		}
		if (limit) {
			spec.has_time_limit_sec = 1;
			if (relative_limit(s, &id[i], limit, &spec.time_limit_sec, &err))
				goto failed;
		}
		rc |= update_one_job(s, &id[i], &spec, &beside);
	}
	return rc;
failed:
	if (err.code == MU_EJOBID || err.code == MU_ETIMELIMIT)
		fprintf(stderr, "slurm_update error: %s\n", err.text);
	else
		fprintf(stderr, "%s\n", err.text);
	return 1;
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

static int update_nodes(struct scontrol *s, const struct pair *pairs, size_t count)
{
	struct mu_arena *a = &s->cli->arena;
	Mu__Event e = MU__EVENT__INIT;
	Mu__NodeUpdate u = MU__NODE_UPDATE__INIT;
	struct mu_err err = {0};
	int64_t n;
	size_t names;

	for (size_t i = 0; i < count; i++) {
		const struct pair *p = &pairs[i];

		if (strcasecmp(p->key, "fenced") == 0) {
			u.has_fenced = u.fenced = 1;
		} else if (!p->value) {
			goto invalid;
		} else if (is_key(p->key, "NodeName", 3)) {
			if (strcasecmp(p->value, "ALL") == 0
				? all_nodes(s, &u.node, &names, &err)
				: mu_hostlist_expand(p->value, 65536, a, &u.node, &names, &err))
				goto bad_name;
			u.n_node = names;
		} else if (strcasecmp(p->key, "State") == 0) {
			char *word = mu_arena_strdup(a, p->value);

			for (char *q = word; *q; q++)
				*q = (char)toupper((unsigned char)*q);
			u.state = word;
		} else if (strcasecmp(p->key, "Reason") == 0) {
			u.reason = (char *)p->value;
		} else if (strcasecmp(p->key, "Weight") == 0 &&
			   !mu_number_parse("Weight", p->value, 0, UINT32_MAX - 2, &n, NULL)) {
			u.has_weight = 1;
			u.weight = (uint32_t)n;
		} else if (strcasecmp(p->key, "Features") == 0 ||
			   strcasecmp(p->key, "AvailableFeatures") == 0 ||
			   strcasecmp(p->key, "ActiveFeatures") == 0) {
			u.feature = cli_split(a, p->value, &u.n_feature);
			u.has_set_feature = u.set_feature = 1;
		} else {
			goto invalid;
		}
		continue;
	invalid:
		cli_error(s->cli,
			  "Invalid input: %s%s%s (of a node NodeName, State, Reason, Weight and Features can "
			  "be given)",
			  p->key, p->value ? "=" : "", p->value ? p->value : "");
		fprintf(stderr, "Request aborted\n");
		return 1;
	}
	if (!u.state && !u.reason && !u.has_fenced && !u.has_weight && !u.has_set_feature) {
		fprintf(stderr, "No changes specified\n");
		return 1;
	}
	if (u.state && !*u.state) {
		cli_error(s->cli, "Invalid input: State=");
		fprintf(stderr, "Request aborted\n");
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

static int set_partition_key(struct scontrol *s, const struct pair *p, Mu__PartitionConf *c,
			     struct mu_err *err)
{
	struct mu_arena *a = &s->cli->arena;
	const char *k = p->key, *v = p->value;
	int64_t n = 0;
	int rc = 0;

	if (!v)
		return mu_fail(err, MU_EINVAL, "Invalid input: %s", k);
	if (strcasecmp(k, "State") == 0) {
		char *word = mu_arena_strdup(a, v);

		for (char *q = word; *q; q++)
			*q = (char)toupper((unsigned char)*q);
		if (strcmp(word, "UP") != 0 && strcmp(word, "DOWN") != 0 && strcmp(word, "DRAIN") != 0 &&
		    strcmp(word, "INACTIVE") != 0)
			return mu_fail(err, MU_EINVAL,
				       "Invalid partition state: %s\nAcceptable State values are UP, DOWN, "
				       "DRAIN and INACTIVE",
				       v);
		c->state = word;
	} else if (strcasecmp(k, "MaxTime") == 0 || strcasecmp(k, "DefaultTime") == 0) {
		bool max = strcasecmp(k, "MaxTime") == 0;

		rc = mu_span_parse(v, max ? &c->max_time_sec : &c->default_time_sec, err);
		*(max ? &c->has_max_time_sec : &c->has_default_time_sec) = 1;
	} else if (strcasecmp(k, "Nodes") == 0) {
		c->nodes = (char *)v;
		if (strcasecmp(v, "ALL") != 0) /* which nodes those are, the controllers know */
			rc = mu_hostlist_expand(v, 65536, a, &c->node, &c->n_node, err);
	} else if (strcasecmp(k, "Default") == 0) {
		rc = yes_or_no(p, &c->has_is_default, &c->is_default, err);
	} else if (strcasecmp(k, "Hidden") == 0) {
		rc = yes_or_no(p, &c->has_hidden, &c->hidden, err);
	} else if (strcasecmp(k, "RootOnly") == 0) {
		rc = yes_or_no(p, &c->has_root_only, &c->root_only, err);
	} else if (strcasecmp(k, "DisableRootJobs") == 0) {
		rc = yes_or_no(p, &c->has_disable_root_jobs, &c->disable_root_jobs, err);
	} else if (strcasecmp(k, "MaxNodes") == 0 &&
		   (strcasecmp(v, "UNLIMITED") == 0 || strcasecmp(v, "INFINITE") == 0)) {
		c->has_max_nodes = 1;
		c->max_nodes = UINT32_MAX;
	} else if (strcasecmp(k, "AllowGroups") == 0) {
		c->allow_groups = cli_split(a, v, &c->n_allow_groups);
	} else if (strcasecmp(k, "AllowAccounts") == 0) {
		c->allow_accounts = cli_split(a, v, &c->n_allow_accounts);
	} else if (strcasecmp(k, "DenyAccounts") == 0) {
		c->deny_accounts = cli_split(a, v, &c->n_deny_accounts);
	} else if (strcasecmp(k, "AllowQos") == 0) {
		c->allow_qos = cli_split(a, v, &c->n_allow_qos);
	} else if (strcasecmp(k, "DenyQos") == 0) {
		c->deny_qos = cli_split(a, v, &c->n_deny_qos);
	} else if (strcasecmp(k, "OverSubscribe") == 0) {
		c->oversubscribe = (char *)v;
	} else if (strcasecmp(k, "QOS") == 0) {
		c->qos = (char *)v;
	} else {
		static const struct {
			const char *key, *field;
		} numbers[] = {
		    {"MaxNodes", "max_nodes"},		 {"MinNodes", "min_nodes"},
		    {"PriorityTier", "priority_tier"},	 {"PriorityJobFactor", "priority_job_factor"},
		    {"MaxCPUsPerNode", "max_cpus_node"}, {"GraceTime", "grace_time_sec"},
		    {"DefMemPerCPU", "def_mem_cpu_mib"}, {"DefMemPerNode", "def_mem_node_mib"},
		    {"MaxMemPerCPU", "max_mem_cpu_mib"}, {"MaxMemPerNode", "max_mem_node_mib"}};
		size_t i = 0, count = sizeof numbers / sizeof *numbers;
		struct mu_option row = {.kind = MU_KIND_COUNT, .name = k};

		while (i < count && strcasecmp(numbers[i].key, k) != 0)
			i++;
		if (i == count)
			return mu_fail(err, MU_EINVAL, "Invalid input: %s=%s", k, v);
		if (mu_number_parse(k, v, 0, INT32_MAX, &n, NULL))
			return mu_fail(err, MU_EINVAL, "Invalid %s value: %s (a number)", k, v);
		row.field = numbers[i].field;
		rc = cli_field_set(&c->base, &row, v, a, err);
	}
	return rc;
}

static int change_partition(struct scontrol *s, const struct pair *pairs, size_t count, bool create)
{
	Mu__Event e = MU__EVENT__INIT;
	Mu__PartitionUpdate u = MU__PARTITION_UPDATE__INIT;
	Mu__PartitionConf conf = MU__PARTITION_CONF__INIT;
	struct mu_err err = {0};

	for (size_t i = 0; i < count; i++) {
		if (is_key(pairs[i].key, "PartitionName", 3)) {
			conf.name = (char *)pairs[i].value;
		} else if (set_partition_key(s, &pairs[i], &conf, &err)) {
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
	u.conf = &conf;
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
	struct pair pairs[KEYS_MAX];
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
		if (is_key(pairs[i].key, "JobId", 3) && pairs[i].value)
			return update_jobs(s, pairs, count);
		if (is_key(pairs[i].key, "NodeName", 3) && pairs[i].value)
			return update_nodes(s, pairs, count);
		if (is_key(pairs[i].key, "PartitionName", 3) && pairs[i].value)
			return change_partition(s, pairs, count, false);
	}
	return refuse(s, "update");
}

int scontrol_create(struct scontrol *s, char **words, size_t count)
{
	struct pair pairs[KEYS_MAX];
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
		if (is_key(pairs[i].key, "PartitionName", 3) && pairs[i].value)
			return change_partition(s, pairs, count, true);
	}
	cli_error(s->cli,
		  "create knows ReservationName= and PartitionName=; nodes come from the configuration file");
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
	if (count != 1 || strncasecmp(words[0], "PartitionName=", 14) != 0) {
		cli_error(s->cli, "delete knows PartitionName=NAME and ReservationName=NAME");
		return 1;
	}
	conf.name = words[0] + 14;
	u.conf = &conf;
	u.has_remove = u.remove = 1;
	e.kind_case = MU__EVENT__KIND_PARTITION_UPDATE;
	e.partition_update = &u;
	return send(s, &e, "slurm_delete_partition");
}
