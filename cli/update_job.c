/* cli/update_job.c: scontrol update JobId=: a table of keys. Most are read as the option of the same meaning
 * is read; what the job's own state decides (TimeLimit+=, EndTime, NumCPUs) goes to the controllers as it is.
 */
#include <inttypes.h>
#include <string.h>
#include <strings.h>

#include "cli/array.h"
#include "cli/scontrol.h"
#include "cli/spec.h"
#include "proto/states.h"

enum how {
	OPTION,	  /* as the option reads it; "" takes the field away */
	YES_NO,	  /* a switch of the spec */
	TEXT,	  /* a text of the spec; "" takes it away */
	COUNT,	  /* a number of the spec */
	LIMIT,	  /* TimeLimit, also relative */
	BEGIN,	  /* a date, or now */
	END,	  /* a date */
	CPUS,	  /* whole tasks of what the job has */
	THROTTLE, /* of its array */
	AGAIN,	  /* its age counts from now */
	PRIORITY,
	REFUSED, /* the note says why */
};
static const struct job_key {
	const char *key;
	enum how how;
	int option;
	const char *note; /* field of the spec, or why it is refused */
} job_keys[] = {
    {"Account", OPTION, OPT_account, NULL},
    {"AdminComment", TEXT, 0, "admin_comment"},
    {"ArrayTaskThrottle", THROTTLE, 0, NULL},
    {"BeginTime", BEGIN, OPT_begin, NULL},
    {"BurstBuffer", REFUSED, 0, "there are no burst buffers"},
    {"ClusterFeatures", REFUSED, 0, "there are no federated clusters"},
    {"Clusters", REFUSED, 0, "there are no federated clusters"},
    {"Comment", OPTION, OPT_comment, NULL},
    {"Contiguous", YES_NO, 0, "contiguous"},
    {"CoreSpec", OPTION, OPT_core_spec, NULL},
    {"CPUs/Task", OPTION, OPT_cpus_per_task, NULL},
    {"CPUsPerTask", OPTION, OPT_cpus_per_task, NULL},
    {"Deadline", OPTION, OPT_deadline, NULL},
    {"DelayBoot", OPTION, OPT_delay_boot, NULL},
    {"Dependency", OPTION, OPT_dependency, NULL},
    {"EligibleTime", BEGIN, OPT_begin, NULL},
    {"EndTime", END, 0, NULL},
    {"ExcNodeList", OPTION, OPT_exclude, NULL},
    {"Extra", OPTION, OPT_extra, NULL},
    {"Features", OPTION, OPT_constraint, NULL},
    {"Gres", OPTION, OPT_gres, NULL},
    {"JobName", OPTION, OPT_job_name, NULL},
    {"Licenses", OPTION, OPT_licenses, NULL},
    {"MailType", OPTION, OPT_mail_type, NULL},
    {"MailUser", OPTION, OPT_mail_user, NULL},
    {"MCSLabel", OPTION, OPT_mcs_label, NULL},
    {"MinCPUsNode", OPTION, OPT_mincpus, NULL},
    {"MinMemoryCPU", OPTION, OPT_mem_per_cpu, NULL},
    {"MinMemoryNode", OPTION, OPT_mem, NULL},
    {"MinTmpDiskNode", OPTION, OPT_tmp, NULL},
    {"Name", OPTION, OPT_job_name, NULL},
    {"Nice", OPTION, OPT_nice, NULL},
    {"NodeList", OPTION, OPT_nodelist, NULL},
    {"NumCPUs", CPUS, 0, NULL},
    {"NumNodes", OPTION, OPT_nodes, NULL},
    {"NumTasks", OPTION, OPT_ntasks, NULL},
    {"OverSubscribe", YES_NO, 0, "oversubscribe"},
    {"Partition", OPTION, OPT_partition, NULL},
    {"Prefer", OPTION, OPT_prefer, NULL},
    {"Priority", PRIORITY, OPT_priority, NULL},
    {"QOS", OPTION, OPT_qos, NULL},
    {"ReqCores", COUNT, 0, "cores_per_socket"},
    {"ReqNodeList", OPTION, OPT_nodelist, NULL},
    {"ReqNodes", OPTION, OPT_nodes, NULL},
    {"ReqProcs", CPUS, 0, NULL},
    {"ReqSockets", COUNT, 0, "sockets_per_node"},
    {"ReqThreads", COUNT, 0, "threads_per_core"},
    {"Requeue", YES_NO, 0, "requeue"},
    {"ReservationName", OPTION, OPT_reservation, NULL},
    {"ResetAccrueTime", AGAIN, 0, NULL},
    {"Shared", YES_NO, 0, "oversubscribe"},
    {"SiteFactor", COUNT, 0, "site_factor"},
    {"StartTime", BEGIN, OPT_begin, NULL},
    {"StdErr", OPTION, OPT_error, NULL},
    {"StdIn", OPTION, OPT_input, NULL},
    {"StdOut", OPTION, OPT_output, NULL},
    {"Switches", OPTION, OPT_switches, NULL},
    {"TasksPerNode", OPTION, OPT_ntasks_per_node, NULL},
    {"ThreadSpec", OPTION, OPT_thread_spec, NULL},
    {"TimeLimit", LIMIT, OPT_time, NULL},
    {"TimeMin", OPTION, OPT_time_min, NULL},
    {"TresPerNode", OPTION, OPT_gres, NULL},
    {"UserID", REFUSED, 0, "a job stays its submitter's"},
    {"wait-for-switch", COUNT, 0, "switches_wait_sec"},
    {"WCKey", OPTION, OPT_wckey, NULL},
    {"WorkDir", OPTION, OPT_chdir, NULL},
};

/* What is asked, before it is known of which jobs. */
struct asked {
	struct scontrol *s;
	struct cli_given given[SCONTROL_KEYS_MAX];
	struct cli_args args;
	Mu__JobSpec spec;
	Mu__JobUpdate update;
	uint32_t clear[SCONTROL_KEYS_MAX];
	const char *name; /* whose jobs, where no id is given */
	const char *user;
};

static int invalid(const struct scontrol_pair *p, const char *why, struct mu_err *err)
{
	return mu_fail(err, MU_EINVAL, "Invalid input: %s%s%s%s%s%s", p->key, p->value ? "=" : "",
		       p->value ? p->value : "", why ? " (" : "", why ? why : "", why ? ")" : "");
}

static const ProtobufCFieldDescriptor *field_named(const char *name)
{
	return protobuf_c_message_descriptor_get_field_by_name(&mu__job_spec__descriptor, name);
}

static int clear_field(struct asked *a, const struct scontrol_pair *p, const char *name, struct mu_err *err)
{
	const ProtobufCFieldDescriptor *f = name && *name ? field_named(name) : NULL;

	if (!f)
		return invalid(p, "a value is needed", err);
	a->clear[a->update.n_clear++] = f->id;
	a->update.clear = a->clear;
	return 0;
}

static void give(struct asked *a, int option, const char *value)
{
	a->given[a->args.count++] = (struct cli_given){
	    &mu_options[option], value ? mu_arena_strdup(&a->s->cli->arena, value) : NULL, CLI_LINE};
}

static int set_option(struct asked *a, const struct scontrol_pair *p, int option, struct mu_err *err)
{
	const struct mu_option *o = &mu_options[option];

	if (!p->value && o->arg != MU_ARG_MAYBE)
		return invalid(p, "a value is needed", err);
	if (p->value && !*p->value && o->kind != MU_KIND_HINT)
		return clear_field(a, p, o->field, err);
	give(a, option, p->value);
	return 0;
}

static int set_yes_no(struct asked *a, const struct scontrol_pair *p, const char *name, struct mu_err *err)
{
	const ProtobufCFieldDescriptor *f = field_named(name);
	char *at = (char *)&a->spec;
	bool yes = strcasecmp(p->value, "1") == 0 || strcasecmp(p->value, "yes") == 0;

	if (!yes && strcasecmp(p->value, "0") != 0 && strcasecmp(p->value, "no") != 0)
		return mu_fail(err, MU_EINVAL, "Invalid %s value: %s (yes or no)", p->key, p->value);
	*(protobuf_c_boolean *)(at + f->quantifier_offset) = 1;
	*(protobuf_c_boolean *)(at + f->offset) = yes;
	return 0;
}

static int set_count(struct asked *a, const struct scontrol_pair *p, const char *name, struct mu_err *err)
{
	const ProtobufCFieldDescriptor *f = field_named(name);
	char *at = (char *)&a->spec;
	bool sign = f->type == PROTOBUF_C_TYPE_SINT32;
	int64_t n;

	if (mu_number_parse(p->key, p->value, sign ? -2147483645 : 0, INT32_MAX - 2, &n, NULL))
		return mu_fail(err, MU_EINVAL, "Invalid %s value: %s (a number)", p->key, p->value);
	*(protobuf_c_boolean *)(at + f->quantifier_offset) = 1;
	if (f->type == PROTOBUF_C_TYPE_INT64)
		memcpy(at + f->offset, &n, sizeof n);
	else
		memcpy(at + f->offset, &(int32_t){(int32_t)n}, sizeof(int32_t));
	return 0;
}

/* "TimeLimit=60", "TimeLimit+=30", "TimeLimit=-30" */
static int set_limit(struct asked *a, const struct scontrol_pair *p, struct mu_err *err)
{
	const char *value = p->value;
	char sign = p->sign;
	int64_t by;

	if (!sign && (*value == '+' || (*value == '-' && strcmp(value, "-1") != 0)))
		sign = *value++;
	if (!sign)
		return set_option(a, p, OPT_time, err);
	if (mu_span_parse(value, &by, err) || by < 0)
		return mu_fail(err, MU_ETIMELIMIT, "Invalid TimeLimit value: %s", p->value);
	a->update.has_limit_by_sec = 1;
	a->update.limit_by_sec = sign == '+' ? by : -by;
	return 0;
}

static int set_begin(struct asked *a, const struct scontrol_pair *p, struct mu_err *err)
{
	if (strcasecmp(p->value, "now") != 0)
		return set_option(a, p, OPT_begin, err);
	a->update.has_begin_now = a->update.begin_now = 1;
	return 0;
}

static int set_end(struct asked *a, const struct scontrol_pair *p, struct mu_err *err)
{
	a->update.has_end_usec = 1;
	if (mu_date_parse(p->value, cli_now_usec(), 1, &cli_zone, &a->update.end_usec, err))
		return mu_fail(err, MU_EINVAL, "Invalid EndTime value: %s", p->value);
	return 0;
}

/* "8", or of "8-16" the least. */
static int set_cpus(struct asked *a, const struct scontrol_pair *p, struct mu_err *err)
{
	uint32_t most;

	a->update.has_cpus = 1;
	if (cli_spec_range(p->key, p->value, &a->update.cpus, &most, NULL))
		return mu_fail(err, MU_EINVAL, "Invalid %s value: %s (a count)", p->key, p->value);
	return 0;
}

static int set_throttle(struct asked *a, const struct scontrol_pair *p, struct mu_err *err)
{
	int64_t n;

	if (mu_number_parse(p->key, p->value, 0, UINT32_MAX / 2, &n, NULL))
		return mu_fail(err, MU_EINVAL, "Invalid ArrayTaskThrottle value: %s (a number)", p->value);
	a->update.has_array_throttle = 1;
	a->update.array_throttle = (uint32_t)n;
	return 0;
}

static int set_text(struct asked *a, const struct scontrol_pair *p, const char *name, struct mu_err *err)
{
	if (!*p->value)
		return clear_field(a, p, name, err);
	*(char **)((char *)&a->spec + field_named(name)->offset) = (char *)p->value;
	return 0;
}

static const struct job_key *find_key(const char *word)
{
	for (size_t i = 0; i < sizeof job_keys / sizeof *job_keys; i++) {
		if (strcasecmp(job_keys[i].key, word) == 0)
			return &job_keys[i];
	}
	return NULL;
}

static int set_key(struct asked *a, const struct scontrol_pair *p, struct mu_err *err)
{
	const struct job_key *k = find_key(p->key);

	if (!k || (p->sign && k->how != LIMIT))
		return invalid(p, NULL, err);
	if (!p->value && k->how != AGAIN && k->how != OPTION)
		return invalid(p, "a value is needed", err);
	switch (k->how) {
	case OPTION:
		return set_option(a, p, k->option, err);
	case YES_NO:
		return set_yes_no(a, p, k->note, err);
	case TEXT:
		return set_text(a, p, k->note, err);
	case COUNT:
		return set_count(a, p, k->note, err);
	case LIMIT:
		return set_limit(a, p, err);
	case BEGIN:
		return set_begin(a, p, err);
	case END:
		return set_end(a, p, err);
	case CPUS:
		return set_cpus(a, p, err);
	case THROTTLE:
		return set_throttle(a, p, err);
	case AGAIN:
		a->update.has_accrue_again = a->update.accrue_again = 1;
		return 0;
	case PRIORITY:
		if (strcasecmp(p->value, "TOP") == 0)
			return mu_fail(err, MU_EPRIORITY,
				       "Invalid Priority value: %s (a number up to 4294967293)", p->value);
		return set_option(a, p, OPT_priority, err);
	case REFUSED:
		break;
	}
	return invalid(p, k->note, err);
}

static int update_one(struct scontrol *s, Mu__JobUpdate *u, const struct cli_job_id *id)
{
	Mu__Event e = MU__EVENT__INIT;
	Mu__Request request = MU__REQUEST__INIT;
	Mu__EventAsk ask = MU__EVENT_ASK__INIT;
	struct mu_err err = {0};

	u->has_job = 1;
	u->job = id->job;
	u->tasks = id->has_task ? (char *)id->tasks : NULL;
	e.kind_case = MU__EVENT__KIND_JOB_UPDATE;
	e.job_update = u;
	ask.event = &e;
	request.ask_case = MU__REQUEST__ASK_EVENT;
	request.event = &ask;
	if (!cli_component(s->cli, id, &u->job, &err) && !cli_ask_done(s->cli, &request, NULL, &err))
		return 0;
	if (err.code == MU_EJOBID)
		fprintf(stderr, "%s for job %u\n", mu_strerror(err.code), id->job);
	else
		fprintf(stderr, "slurm_update error: %s\n", err.text);
	return 1;
}

/* The jobs of a name, of one user or of all. */
static int named_jobs(struct scontrol *s, const struct asked *a, struct cli_job_id **ret, size_t *ret_count,
		      struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	uint32_t uid, states[] = {JOB_PENDING, JOB_RUNNING, JOB_SUSPENDED};
	char *name = (char *)a->name;
	void **rows;
	size_t n;
	int rc = a->user ? cli_user_id(a->user, &uid, err) : 0;

	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_JOBS;
	ask.name = &name;
	ask.n_name = 1;
	ask.uid = &uid;
	ask.n_uid = a->user != NULL;
	ask.state = states;
	ask.n_state = sizeof states / sizeof *states;
	if (!rc)
		rc = cli_query_all(s->cli, &ask, &mu__job_row__descriptor, &rows, &n, err);
	if (rc)
		return rc;
	*ret = mu_arena_alloc(&s->cli->arena, (n + 1) * sizeof **ret);
	*ret_count = 0;
	for (size_t i = 0; i < n; i++) {
		const Mu__JobRow *j = rows[i];
		uint32_t id = cli_job_family(j);
		bool again = false;

		for (size_t k = 0; k < *ret_count; k++)
			again = again || (*ret)[k].job == id;
		if (!again)
			(*ret)[(*ret_count)++] = (struct cli_job_id){.job = id};
	}
	return n ? 0 : mu_fail(err, MU_EJOBID, "No jobs with name %s", a->name);
}

static bool wants_name(const struct scontrol_pair *pairs, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (scontrol_is_key(pairs[i].key, "JobId", 3) && pairs[i].value)
			return false;
	}
	return true;
}

static int read_words(struct asked *a, const struct scontrol_pair *pairs, size_t count,
		      struct cli_job_id **ret, size_t *ret_count, struct mu_err *err)
{
	bool by_name = wants_name(pairs, count);
	int rc = 0;

	for (size_t i = 0; i < count && !rc; i++) {
		const struct scontrol_pair *p = &pairs[i];
		char *word = (char *)p->value;

		if (by_name && word && strcasecmp(p->key, "JobName") == 0)
			a->name = word;
		else if (by_name && word && strcasecmp(p->key, "UserID") == 0)
			a->user = word;
		else if (word && scontrol_is_key(p->key, "JobId", 3))
			rc = scontrol_ids(a->s, &word, 1, ret, ret_count, err);
		else
			rc = set_key(a, p, err);
	}
	if (!rc && a->name)
		rc = named_jobs(a->s, a, ret, ret_count, err);
	return rc;
}

int scontrol_update_jobs(struct scontrol *s, const struct scontrol_pair *pairs, size_t count)
{
	struct asked a = {.s = s,
			  .spec = MU__JOB_SPEC__INIT,
			  .update = MU__JOB_UPDATE__INIT,
			  .args = {.cap = SCONTROL_KEYS_MAX}};
	struct cli_job_id *id = NULL;
	struct mu_err err = {0};
	size_t ids = 0;
	int rc;

	a.args.given = a.given;
	a.update.spec = &a.spec;
	if (read_words(&a, pairs, count, &id, &ids, &err) ||
	    cli_spec_make(&a.args, &s->cli->arena, &a.spec, &err) || cli_spec_check(&a.spec, &err)) {
		fprintf(stderr, "%s%s\n",
			err.code == MU_EJOBID || err.code == MU_ETIMELIMIT ? "slurm_update error: " : "",
			err.text);
		return 1;
	}
	if (count < 2) {
		fprintf(stderr, "No changes specified\n");
		return 1;
	}
	rc = 0;
	for (size_t i = 0; i < ids; i++)
		rc |= update_one(s, &a.update, &id[i]);
	return rc;
}
