/* cli/show_system.c: what scontrol tells of the cluster as a whole: its configuration, jobs that are
 * completing, error numbers. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/column.h"
#include "cli/filter.h"
#include "cli/model.h"
#include "cli/scontrol.h"
#include "proto/base/err.h"
#include "proto/hostlist.h"
#include "proto/states.h"
#include "proto/version.h"

static const char *or_null(const char *text)
{
	return text && *text ? text : "(null)";
}

static const char *limit_of(struct mu_arena *a, uint64_t n)
{
	return n ? mu_arena_printf(a, "%" PRIu64, n) : "UNLIMITED";
}

static const char *date_of(struct mu_arena *a, int64_t usec)
{
	char text[32];

	if (!usec)
		return "Unknown";
	mu_date_print(usec, &cli_zone, text);
	return mu_arena_strdup(a, text);
}

/* ---- configuration ---- */

struct pair {
	const char *key, *value;
};

static int compare_pairs(const void *a, const void *b)
{
	return strcasecmp(((const struct pair *)a)->key, ((const struct pair *)b)->key);
}

static size_t core_keys(struct mu_arena *a, const Mu__Config *c, struct pair *out)
{
	size_t n = 0;

#define SECONDS(key, field) out[n++] = (struct pair){key, mu_arena_printf(a, "%u sec", c->field)}
#define NUMBER(key, field)                              \
	out[n++] = (struct pair)                        \
	{                                               \
		key, mu_arena_printf(a, "%u", c->field) \
	}
	out[n++] = (struct pair){"ClusterName", or_null(c->cluster_name)};
	SECONDS("MinJobAge", min_job_age_sec);
	SECONDS("SlurmdTimeout", slurmd_timeout_sec);
	SECONDS("KillWait", kill_wait_sec);
	SECONDS("InactiveLimit", inactive_limit_sec);
	SECONDS("OverTimeLimit", over_time_limit_sec);
	SECONDS("BatchStartTimeout", batch_start_timeout_sec);
	SECONDS("CompleteWait", complete_wait_sec);
	SECONDS("UnkillableStepTimeout", unkillable_timeout_sec);
	NUMBER("MaxJobCount", max_job_count);
	NUMBER("MaxJobId", max_job_id);
	NUMBER("FirstJobId", first_job_id);
	NUMBER("MaxArraySize", max_array_size);
	NUMBER("ReturnToService", return_to_service);
	NUMBER("MaxStepCount", max_step_count);
	out[n++] = (struct pair){"JobRequeue", c->job_requeue ? "1" : "0"};
	out[n++] = (struct pair){"JobFileAppend", c->job_file_append ? "1" : "0"};
	out[n++] = (struct pair){"SelectTypeParameters",
				 c->select_type_parameters ? c->select_type_parameters : "CR_CORE"};
	out[n++] = (struct pair){"EnforcePartLimits", c->enforce_part_limits ? c->enforce_part_limits : "NO"};
	out[n++] = (struct pair){"PriorityType", c->priority_type ? c->priority_type : "priority/basic"};
	if (c->def_mem_cpu_mib)
		out[n++] = (struct pair){"DefMemPerCPU", limit_of(a, c->def_mem_cpu_mib)};
	else
		out[n++] = (struct pair){"DefMemPerNode", limit_of(a, c->def_mem_node_mib)};
	if (c->max_mem_cpu_mib)
		out[n++] = (struct pair){"MaxMemPerCPU", limit_of(a, c->max_mem_cpu_mib)};
	else
		out[n++] = (struct pair){"MaxMemPerNode", limit_of(a, c->max_mem_node_mib)};
#undef SECONDS
#undef NUMBER
	for (size_t i = 0; i < c->n_controller && n < 60; i++)
		out[n++] = (struct pair){
		    mu_arena_printf(a, "SlurmctldHost[%zu]", i),
		    c->controller[i]->addr && strcmp(c->controller[i]->addr, c->controller[i]->name) != 0
			? mu_arena_printf(a, "%s(%s)", c->controller[i]->name, c->controller[i]->addr)
			: c->controller[i]->name};
	out[n++] = (struct pair){"SLURM_VERSION", MU_SLURM_VERSION};
	return n;
}

/* "setdebug" and "setdebugflags" hold until a controller starts anew, and are each controller's own: shown is
 * what the one says that answers. */
static size_t present_debug(struct scontrol *s, struct pair *out)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__PingAsk ask = MU__PING_ASK__INIT;
	Mu__Reply *reply;
	size_t n = 0;

	request.ask_case = MU__REQUEST__ASK_PING;
	request.ping = &ask;
	if (s->cli->at || cli_ask_done(s->cli, &request, &reply, NULL) ||
	    reply->answer_case != MU__REPLY__ANSWER_PING)
		return 0;
	if (reply->ping->debug_level)
		out[n++] = (struct pair){"SlurmctldDebug", reply->ping->debug_level};
	if (reply->ping->debug_flags)
		out[n++] = (struct pair){"DebugFlags", or_null(reply->ping->debug_flags)};
	return n;
}

static int config_json(struct scontrol *s, const struct pair *pairs, size_t count)
{
	struct cli_model m = {0};

	cli_model_begin(s->cli, &m);
	json_object(&m.json, "configuration");
	for (size_t i = 0; i < count; i++)
		json_text(&m.json, pairs[i].key, pairs[i].value);
	json_object_end(&m.json);
	return cli_model_end(&m);
}

int scontrol_show_config(struct scontrol *s)
{
	Mu__Query ask = MU__QUERY__INIT;
	struct mu_arena *a = &s->cli->arena;
	struct mu_err err = {0};
	const Mu__Config *c;
	struct pair *pairs;
	size_t n, total;
	void **rows;

	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_CONFIG;
	if (cli_query_all(s->cli, &ask, &mu__config_row__descriptor, &rows, &n, &err)) {
		fprintf(stderr, "slurm_load_ctl_conf error: %s\n",
			err.code == MU_ECONNECT ? mu_strerror(err.code) : err.text);
		return 1;
	}
	if (!n || !((Mu__ConfigRow *)rows[0])->config) {
		cli_error(s->cli, "The controllers hold no configuration yet");
		return 1;
	}
	c = ((Mu__ConfigRow *)rows[0])->config;
	pairs = mu_arena_alloc(a, (c->n_key + 80) * sizeof *pairs);
	total = core_keys(a, c, pairs);
	pairs[total++] = (struct pair){"SLURM_CONF", s->cli->conf.path};
	total += present_debug(s, pairs + total);
	n = total;
	for (size_t i = 0; i < c->n_key; i++) {
		bool have = false;

		for (size_t k = 0; k < n && !have; k++)
			have = strcasecmp(pairs[k].key, c->key[i]->key) == 0;
		if (!have)
			pairs[total++] = (struct pair){c->key[i]->key, or_null(c->key[i]->value)};
	}
	qsort(pairs, total, sizeof *pairs, compare_pairs);
	if (s->json)
		return config_json(s, pairs, total);
	printf("Configuration data as of %s\n", date_of(a, s->cli->now_usec));
	for (size_t i = 0; i < total; i++)
		printf("%-23s = %s\n", pairs[i].key, pairs[i].value);
	printf("\n");
	return scontrol_ping(s, stdout);
}

/* ---- jobs that are completing ---- */

/* Those of JOB's nodes that are down, or those that are not. */
static const char *some_nodes(struct scontrol *s, const Mu__JobRow *job, Mu__NodeRow *const *nodes,
			      size_t count, bool down)
{
	struct mu_buf list MU_CLEANUP(mu_buf_free) = {0};
	const char **name = mu_arena_alloc(&s->cli->arena, (job->n_alloc + 1) * sizeof *name);
	size_t n = 0;

	for (size_t i = 0; i < job->n_alloc; i++) {
		bool is_down = false;

		if (job->alloc[i]->released || !job->alloc[i]->node)
			continue;
		for (size_t k = 0; k < count; k++)
			if (nodes[k]->name && strcmp(nodes[k]->name, job->alloc[i]->node) == 0)
				is_down = nodes[k]->base_state == NODE_DOWN ||
					  (nodes[k]->flags & NODE_FLAG_NO_RESPOND);
		if (is_down == down)
			name[n++] = job->alloc[i]->node;
	}
	mu_hostlist_fold(name, n, &list);
	return n ? mu_arena_strdup(&s->cli->arena, (char *)list.data) : NULL;
}

int scontrol_completing(struct scontrol *s)
{
	Mu__Query ask = MU__QUERY__INIT, ask_nodes = MU__QUERY__INIT;
	uint32_t completing = JOB_COMPLETING;
	struct mu_err err = {0};
	void **jobs, **nodes;
	size_t n, n_nodes;

	ask.has_what = ask_nodes.has_what = 1;
	ask.what = MU__WHAT__WHAT_JOBS;
	ask.state = &completing;
	ask.n_state = 1;
	ask_nodes.what = MU__WHAT__WHAT_NODES;
	if (cli_query_all(s->cli, &ask, &mu__job_row__descriptor, &jobs, &n, &err) ||
	    cli_query_all(s->cli, &ask_nodes, &mu__node_row__descriptor, &nodes, &n_nodes, &err)) {
		fprintf(stderr, "slurm_load_jobs error: %s\n",
			err.code == MU_ECONNECT ? mu_strerror(err.code) : err.text);
		return 1;
	}
	for (size_t i = 0; i < n; i++) {
		const Mu__JobRow *job = jobs[i];
		const char *left = some_nodes(s, job, (Mu__NodeRow **)nodes, n_nodes, false),
			   *down = some_nodes(s, job, (Mu__NodeRow **)nodes, n_nodes, true);
		int64_t sec = job->end_usec ? (s->cli->now_usec - job->end_usec) / 1000000 : 0;
		char span[64];

		if (job->state != JOB_COMPLETING)
			continue;
		mu_span_print(sec > 0 ? sec : 0, 0, span);
		printf("JobId=%u EndTime=%s CompletingTime=%s", job->id,
		       date_of(&s->cli->arena, job->end_usec), span);
		if (left)
			printf(" Nodes(COMPLETING)=%s", left);
		if (down)
			printf(" Nodes(DOWN)=%s", down);
		printf("\n");
	}
	return 0;
}

/* ---- error numbers ---- */

int scontrol_errnumstr(struct scontrol *s, const char *word)
{
	/* The numbers that people meet in logs and scripts of Slurm. */
	static const struct {
		int number, code;
	} known[] = {{2000, MU_EPARTITION},   {2002, MU_EPERM},	  {2005, MU_ECPUCOUNT},
		     {2006, MU_ENODECOUNT},   {2012, MU_EPATH},	  {2014, MU_ENODECONFIG},
		     {2016, MU_ENODEBUSY},    {2017, MU_EJOBID},  {2018, MU_ENODENAME},
		     {2021, MU_EALREADYDONE}, {2024, MU_EPENDING}};
	char *end;
	long number = strtol(word, &end, 10);
	const char *text = NULL;

	if (!*word || *end || number < -100000 || number > 100000) {
		cli_error(s->cli, "\"%s\" is no error number", word);
		return 1;
	}
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (known[i].number == number)
			text = mu_strerror(known[i].code);
	if (!text)
		text = number < 0 ? mu_strerror((int)number) : strerror((int)number);
	printf("%s\n", text);
	return 0;
}
