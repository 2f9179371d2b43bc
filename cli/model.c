/* cli/model.c: rows as JSON or YAML: arrays for states, triples for numbers that may be missing. */
#include "cli/model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/array.h"
#include "cli/column.h"
#include "cli/model_parts.h"
#include "cli/option.h"
#include "proto/states.h"
#include "proto/version.h"

enum { MODEL_OLD = 40, MODEL = 41 };

bool cli_model_wanted(const struct cli_args *args)
{
	return cli_args_has(args, OPT_json) || cli_args_has(args, OPT_yaml);
}

int cli_model_read(struct cli *c, const struct cli_args *args, struct mu_err *err)
{
	bool yaml = cli_args_has(args, OPT_yaml);
	const char *model = cli_args_value(args, yaml ? OPT_yaml : OPT_json);
	size_t skip = model && strncmp(model, "data_parser/", 12) == 0 ? 12 : 0, len;

	c->model = MODEL;
	c->yaml = yaml;
	if (!cli_model_wanted(args))
		return 0;
	if (yaml && cli_args_has(args, OPT_json))
		return mu_fail(err, MU_EINVAL, "--json and --yaml: give one of them");
	if (!model || !*model)
		return 0;
	if (strcmp(model, "list") == 0) {
		printf("Possible data_parser plugins:\ndata_parser/v0.0.41\ndata_parser/v0.0.40\n");
		return 1;
	}
	model += skip;
	len = strcspn(model, "+");
	if (len != 7 || (strncmp(model, "v0.0.41", len) != 0 && strncmp(model, "v0.0.40", len) != 0))
		return mu_fail(err, MU_EINVAL,
			       "Invalid --%s specification: \"%s\" (--%s=list names what there is: v0.0.41 "
			       "and v0.0.40)",
			       yaml ? "yaml" : "json", model, yaml ? "yaml" : "json");
	c->model = model[6] == '0' ? MODEL_OLD : MODEL;
	return 0;
}

static void put_meta(struct cli_json *j, struct cli *c)
{
	char parser[32];

	snprintf(parser, sizeof parser, "data_parser/v0.0.%u", c->model ? c->model : MODEL);
	json_object(j, "plugin");
	json_text(j, "type", "");
	json_text(j, "name", "");
	json_text(j, "data_parser", parser);
	json_text(j, "accounting_storage", "");
	json_object_end(j);
	json_object(j, "client");
	json_text(j, "source", isatty(STDIN_FILENO) ? ttyname(STDIN_FILENO) : c->name);
	json_text(j, "user", cli_user_name(&c->arena, getuid()));
	json_text(j, "group", cli_group_name(&c->arena, getgid()));
	json_object_end(j);
	/* The moment is told by as_of: asked for again by that, an answer is the same to the byte. */
	json_array(j, "command");
	for (int i = 0; i < c->argc; i++)
		if (strcmp(c->argv[i], "--at") == 0)
			i++;
		else if (strncmp(c->argv[i], "--at=", 5) != 0)
			json_text(j, NULL, c->argv[i]);
	json_array_end(j);
	/* Both spellings are read by programs in use. */
	for (int k = 0; k < 2; k++) {
		json_object(j, k ? "Slurm" : "slurm");
		json_object(j, "version");
		json_text(j, "major", "24");
		json_text(j, "micro", "0");
		json_text(j, "minor", "05");
		json_object_end(j);
		json_text(j, "release", MU_SLURM_VERSION);
		json_text(j, "cluster", c->conf.cluster);
		json_object_end(j);
	}
}

void cli_model_begin(struct cli *c, struct cli_model *m)
{
	struct cli_json *j = &m->json;

	j->out = &m->out;
	j->yaml = c->yaml;
	m->cli = c;
	json_object(j, NULL);
	json_object(j, "meta");
	put_meta(j, c);
	m->meta_end = m->out.len;
	json_object_end(j);
}

/* Which moment the rows are of, as --at takes it, into the meta part. */
static void put_as_of(struct cli_model *m)
{
	struct mu_buf rest MU_CLEANUP(mu_buf_free) = {0};
	struct cli_json j = {.out = &m->out, .depth = 2, .some = true, .yaml = m->json.yaml};

	if (!m->cli->pos)
		return;
	mu_buf_add(&rest, m->out.data + m->meta_end, m->out.len - m->meta_end);
	m->out.len = m->meta_end;
	json_object(&j, "as_of");
	json_number(&j, "position", (int64_t)m->cli->pos);
	json_number(&j, "now_usec", m->cli->now_usec);
	json_object_end(&j);
	mu_buf_add(&m->out, rest.data, rest.len);
}

int cli_model_end(struct cli_model *m)
{
	put_as_of(m);
	json_array(&m->json, "errors");
	json_array_end(&m->json);
	json_array(&m->json, "warnings");
	json_array_end(&m->json);
	json_object_end(&m->json);
	mu_buf_str(&m->out, "\n");
	fwrite(m->out.data, 1, m->out.len, stdout);
	mu_buf_free(&m->out);
	return 0;
}

static void path(struct cli_json *j, const char *name, const Mu__JobRow *job, ProtobufCBinaryData pattern,
		 const char *none)
{
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};

	cli_job_path(job, pattern, none, &text);
	with(j, name, &text);
}

/* A list of the older model, an object with the same list in the newer one. */
static void job_nodes_old(struct cli_json *j, const Mu__JobRow *job)
{
	json_text(j, "nodes", cli_job_nodes(job));
	json_number(j, "allocated_cores", job->cpus_total);
	json_number(j, "allocated_hosts", job->node_count);
	json_array(j, "allocated_nodes");
	for (size_t i = 0; i < job->n_alloc; i++) {
		json_object(j, NULL);
		json_text(j, "nodename", job->alloc[i]->node);
		json_number(j, "cpus_used", job->alloc[i]->cpus);
		json_number(j, "memory_used", (int64_t)job->alloc[i]->mem_mib);
		json_number(j, "memory_allocated", (int64_t)job->alloc[i]->mem_mib);
		json_object_end(j);
	}
	json_array_end(j);
}

static void job_nodes(struct cli_json *j, const Mu__JobRow *job)
{
	json_object(j, "nodes");
	json_number(j, "count", job->node_count);
	json_text(j, "list", cli_job_nodes(job));
	json_bool(j, "whole", cli_job_spec(job)->exclusive);
	json_array(j, "allocation");
	for (size_t i = 0; i < job->n_alloc; i++) {
		const Mu__AllocNode *n = job->alloc[i];

		json_object(j, NULL);
		json_number(j, "index", (int64_t)i);
		json_text(j, "name", n->node);
		json_object(j, "cpus");
		json_number(j, "count", n->cpus);
		json_number(j, "used", n->cpus);
		json_text(j, "list", n->cpu_list);
		json_object_end(j);
		json_object(j, "memory");
		json_number(j, "used", (int64_t)n->mem_mib);
		json_number(j, "allocated", (int64_t)n->mem_mib);
		json_object_end(j);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

static void job_resources(struct cli_json *j, const struct cli *c, const Mu__JobRow *job)
{
	json_object(j, "job_resources");
	if (c->model == MODEL_OLD)
		job_nodes_old(j, job);
	else
		job_nodes(j, job);
	json_number(j, "cpus", job->cpus_total);
	some(j, "threads_per_core", cli_job_spec(job)->threads_per_core);
	json_object_end(j);
}

static void job_request(struct cli_json *j, const Mu__JobRow *job, const Mu__JobSpec *s)
{
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};

	json_number(j, "nice", s->nice);
	some(j, "cpus_per_task", job->cpus_per_task);
	some(j, "cpus", job->cpus_total);
	some(j, "node_count", job->node_count ? job->node_count : job->nodes_min);
	some(j, "tasks", job->ntasks);
	some(j, "max_nodes", job->nodes_max);
	some(j, "tasks_per_node", s->ntasks_per_node);
	some(j, "memory_per_cpu", (int64_t)job->mem_cpu_mib);
	some(j, "memory_per_node", (int64_t)job->mem_node_mib);
	some(j, "minimum_cpus_per_node", s->mincpus ? s->mincpus : 1);
	json_triple(j, "time_limit", job->time_limit_sec > 0,
		    job->time_limit_sec<0, job->time_limit_sec> 0 ? job->time_limit_sec / 60 : 0);
	json_text(j, "features", s->features);
	json_text(j, "required_nodes", s->nodes_required);
	json_text(j, "excluded_nodes", s->nodes_excluded);
	json_text(j, "dependency", s->dependency);
	json_text(j, "licenses", s->licenses);
	json_text(j, "comment", s->comment);
	json_text(j, "container", s->container);
	json_text(j, "container_id", s->container_id);
	json_text(j, "admin_comment", s->admin_comment);
	json_text(j, "system_comment", job->system_comment);
	json_text(j, "wckey", s->wckey);
	json_text(j, "resv_name", s->reservation);
	json_text(j, "extra", cli_job_hint(s, "extra"));
	json_text(j, "network", cli_job_hint(s, "network"));
	json_text(j, "prefer", s->prefer);
	json_text(j, "batch_features", s->batch_features);
	json_text(j, "cluster_features", "");
	json_text(j, "burst_buffer", "");
	json_text(j, "container", "");
	json_text(j, "mcs_label", cli_job_hint(s, "mcs-label"));
	json_text(j, "federation_origin", "");
	json_text(j, "failed_node", "");
	some(j, "cores_per_socket", s->cores_per_socket);
	some(j, "sockets_per_node", s->sockets_per_node);
	some(j, "threads_per_core", s->threads_per_core);
	some(j, "tasks_per_core", s->ntasks_per_core);
	json_number(j, "tasks_per_socket", s->ntasks_per_socket);
	json_number(j, "minimum_switches", s->switches);
	json_number(j, "maximum_switch_wait_time", s->switches_wait_sec);
	some(j, "minimum_tmp_disk_per_node", (int64_t)s->tmp_mib);
	some(j, "time_minimum", s->time_min_sec / 60);
	some(j, "core_spec", s->core_spec);
	some(j, "thread_spec", s->thread_spec);
	json_bool(j, "reboot", false);
	json_text(j, "selinux_context", "");
	json_array(j, "shared");
	if (s->exclusive || s->oversubscribe)
		json_text(j, NULL, s->exclusive ? "none" : "oversubscribe");
	json_array_end(j);
	json_array(j, "mail_type");
	for (const char *p = s->mail_type ? s->mail_type : ""; *p;) {
		size_t len = strcspn(p, ",");

		json_bytes(j, NULL, p, len);
		p += len + (p[len] == ',');
	}
	json_array_end(j);
	json_bool(j, "contiguous", s->contiguous);
	json_bool(j, "requeue", !s->has_requeue || s->requeue);
	json_bool(j, "batch_flag", s->batch);
	json_bool(j, "hold", job->priority == 0 && job->state == JOB_PENDING);
	json_text(j, "mail_user", s->mail_user);
	cli_job_tres(job, false, false, &text);
	with(j, "tres_req_str", &text);
	mu_buf_reset(&text);
	if (job->n_alloc || job->node_count)
		cli_job_tres(job, true, false, &text);
	with(j, "tres_alloc_str", &text);
	mu_buf_reset(&text);
	cli_gres_text(s->gres, s->n_gres, "gres:", &text);
	with(j, "tres_per_node", &text);
	mu_buf_reset(&text);
	cli_gres_text(s->gres_job, s->n_gres_job, "gres:", &text);
	with(j, "tres_per_job", &text);
	mu_buf_reset(&text);
	cli_gres_text(s->gres_task, s->n_gres_task, "gres:", &text);
	with(j, "tres_per_task", &text);
}

static void gres_detail(struct cli_json *j, const Mu__JobRow *job)
{
	json_array(j, "gres_detail");
	for (size_t i = 0; i < job->n_alloc; i++) {
		struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};

		for (size_t k = 0; k < job->alloc[i]->n_gres; k++) {
			const Mu__GresGot *g = job->alloc[i]->gres[k];

			mu_buf_printf(&text, "%s%s%s%s:%" PRIu64 "(IDX:", text.len ? "," : "", g->name,
				      g->type && *g->type ? ":" : "", g->type ? g->type : "", g->count);
			for (size_t n = 0; n < g->n_index; n++)
				mu_buf_printf(&text, "%s%u", n ? "," : "", g->index[n]);
			mu_buf_str(&text, ")");
		}
		if (text.len)
			with(j, NULL, &text);
	}
	json_array_end(j);
}

/* The tasks that one record stands for together; "" for one task. */
static void array_string(struct cli_json *j, const char *name, const Mu__JobRow *job)
{
	struct mu_buf tasks MU_CLEANUP(mu_buf_free) = {0};

	mu_buf_str(&tasks, "");
	if (job->array_job && !job->has_array_task)
		cli_job_tasks(job, &tasks);
	json_text(j, name, (char *)tasks.data);
}

void cli_model_job(struct cli_json *j, const struct cli *c, const Mu__JobRow *job)
{
	const Mu__JobSpec *s = cli_job_spec(job);
	struct mu_buf partition MU_CLEANUP(mu_buf_free) = {0};

	for (size_t i = 0; job->state == JOB_PENDING && i < s->n_partition; i++)
		mu_buf_printf(&partition, "%s%s", i ? "," : "", s->partition[i]);
	json_object(j, NULL);
	json_number(j, "job_id", job->id);
	json_text(j, "name", s->name);
	json_text(j, "account", job->account);
	json_text(j, "partition", partition.len ? (char *)partition.data : job->partition);
	json_text(j, "qos", job->qos);
	json_text(j, "cluster", c->conf.cluster);
	json_text(j, "user_name", job->user);
	json_number(j, "user_id", job->uid);
	json_text(j, "group_name", job->group);
	json_number(j, "group_id", job->gid);
	json_triple(j, "array_job_id", true, false, job->array_job);
	json_triple(j, "array_task_id", job->has_array_task, false, job->array_task);
	json_triple(j, "array_max_tasks", true, false, job->array_throttle);
	array_string(j, "array_task_string", job);
	struct mu_buf set MU_CLEANUP(mu_buf_free) = {0};

	mu_buf_str(&set, "");
	cli_job_het_set(job, &set);
	json_triple(j, "het_job_id", true, false, job->het_job);
	json_triple(j, "het_job_offset", true, false, job->het_offset);
	json_text(j, "het_job_id_set", (char *)set.data);
	state(j, "job_state", cli_job_state(job));
	json_text(j, "state_reason", mu_job_reason_word(job->reason));
	json_text(j, "state_description", job->reason_detail);
	json_triple(j, "priority", true, false, job->priority);
	json_number(j, "restart_cnt", job->restarts);
	exit_code(j, "exit_code", job->exit_code, job->exit_signal);
	exit_code(j, "derived_exit_code", job->derived_code, job->derived_signal);
	when(j, "submit_time", job->submit_usec);
	when(j, "eligible_time", job->eligible_usec);
	when(j, "start_time", job->start_usec ? job->start_usec : job->plan_start_usec);
	when(j, "accrue_time", job->eligible_usec);
	when(j, "suspend_time", job->suspend_usec);
	when(j, "preempt_time", job->preempt_usec);
	when(j, "preemptable_time", job->preempt_eligible_usec);
	json_triple(j, "pre_sus_time", true, false, cli_job_suspended_sec(job, c->now_usec));
	when(j, "resize_time", 0);
	json_number(j, "association_id", job->assoc);
	json_triple_real(j, "billable_tres", job->billing != 0, false, (double)job->billing);
	when(j, "end_time",
	     cli_job_end(job)				  ? cli_job_end(job)
	     : job->start_usec && job->time_limit_sec > 0 ? cli_job_end_planned(job, c->now_usec)
							  : 0);
	when(j, "last_sched_evaluation", job->last_sched_usec);
	when(j, "deadline", s->deadline_usec);
	json_text(j, "batch_host", job->batch_host);
	json_text(j, "allocating_node", s->submit_host);
	json_text(j, "nodes", cli_job_nodes(job));
	json_text(j, "scheduled_nodes", job->plan_nodes);
	json_bytes(j, "command", s->command.data, s->command.len);
	json_bytes(j, "current_working_directory", s->work_dir.data, s->work_dir.len);
	path(j, "standard_input", job, s->std_in, "/dev/null");
	path(j, "standard_output", job, s->std_out, cli_job_output(job));
	path(j, "standard_error", job, s->std_err.len ? s->std_err : s->std_out, cli_job_output(job));
	job_request(j, job, s);
	gres_detail(j, job);
	job_resources(j, c, job);
	json_array(j, "flags");
	json_array_end(j);
	json_object_end(j);
}

void cli_model_step(struct cli_json *j, const Mu__StepRow *s)
{
	char id[32];

	json_object(j, NULL);
	json_object(j, "time");
	json_number(j, "elapsed", cli_between_sec(s->start_usec, s->end_usec));
	when(j, "start", s->start_usec);
	when(j, "end", s->end_usec);
	json_object(j, "total");
	json_number(j, "seconds",
		    s->usage ? (s->usage->user_cpu_usec + s->usage->sys_cpu_usec) / 1000000 : 0);
	json_number(j, "microseconds",
		    s->usage ? (s->usage->user_cpu_usec + s->usage->sys_cpu_usec) % 1000000 : 0);
	json_object_end(j);
	json_object_end(j);
	exit_code(j, "exit_code", s->exit_code, s->exit_signal);
	state(j, "state", s->state);
	json_object(j, "nodes");
	json_number(j, "count", s->node_count);
	json_text(j, "range", s->node_list);
	json_object_end(j);
	json_object(j, "tasks");
	json_number(j, "count", s->tasks);
	json_object_end(j);
	json_object(j, "step");
	if (s->step == MU_STEP_BATCH)
		snprintf(id, sizeof id, "%u.batch", s->job);
	else
		snprintf(id, sizeof id, "%u.%u", s->job, s->step);
	json_text(j, "id", id);
	json_text(j, "name", s->step == MU_STEP_BATCH ? "batch" : s->name);
	json_object_end(j);
	json_object_end(j);
}

/* "4", "100M", "2G": memory counts in megabytes. */
static int64_t tres_count(const char *text)
{
	uint64_t mib;

	if (text[strspn(text, "0123456789")] && mu_mem_parse(text, &mib, NULL) == 0)
		return (int64_t)mib;
	return (int64_t)strtoull(text, NULL, 10);
}

static void tres_list(struct cli_json *j, const char *name, const Mu__JobRow *job, bool is_held)
{
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};
	char *rest, *pair;

	cli_job_tres(job, is_held, false, &text);
	rest = (char *)text.data;
	json_array(j, name);
	while (rest && (pair = strsep(&rest, ","))) {
		char *equals = strchr(pair, '='), *slash = strchr(pair, '/');

		if (!equals)
			continue;
		*equals = 0;
		if (slash)
			*slash = 0;
		json_object(j, NULL);
		json_text(j, "type", pair);
		json_text(j, "name", slash ? slash + 1 : "");
		json_number(j, "count", tres_count(equals + 1));
		json_object_end(j);
	}
	json_array_end(j);
}

void cli_model_history(struct cli_json *j, const struct cli *c, const Mu__HistRow *row)
{
	const Mu__JobRow *job = row->job;
	const Mu__JobSpec *s = cli_job_spec(job);

	json_object(j, NULL);
	json_number(j, "job_id", job->id);
	json_object(j, "array");
	json_number(j, "job_id", job->array_job);
	json_object(j, "limits");
	json_object(j, "max");
	json_object(j, "running");
	json_number(j, "tasks", job->array_throttle);
	json_object_end(j);
	json_object_end(j);
	json_object_end(j);
	json_triple(j, "task_id", job->has_array_task, false, job->array_task);
	array_string(j, "task", job);
	json_object_end(j);
	json_object(j, "het");
	json_number(j, "job_id", job->het_job);
	json_triple(j, "job_offset", job->het_job, false, job->het_offset);
	json_object_end(j);
	json_text(j, "name", s->name);
	json_text(j, "account", job->account);
	json_text(j, "cluster", c->conf.cluster);
	json_text(j, "partition", job->partition);
	json_text(j, "qos", job->qos);
	json_text(j, "user", job->user);
	json_text(j, "group", job->group);
	json_text(j, "nodes", cli_job_nodes(job));
	json_number(j, "allocation_nodes", job->node_count);
	json_triple(j, "priority", true, false, job->priority);
	json_number(j, "restart_cnt", job->restarts);
	json_object(j, "state");
	state(j, "current",
	      job->state != JOB_COMPLETING			      ? job->state
	      : job->requeue_after && job->end_state != JOB_PREEMPTED ? JOB_REQUEUED
	      : job->end_state					      ? job->end_state
								      : job->state);
	json_text(j, "reason", mu_job_reason_word(job->reason));
	json_object_end(j);
	json_object(j, "time");
	json_number(j, "elapsed", cli_job_elapsed_sec(job, c->now_usec));
	json_number(j, "eligible", job->eligible_usec / 1000000);
	json_number(j, "submission", job->submit_usec / 1000000);
	json_number(j, "start", job->start_usec / 1000000);
	json_number(j, "end", cli_job_end(job) / 1000000);
	json_number(j, "suspended", cli_job_suspended_sec(job, c->now_usec));
	json_triple(j, "limit", job->time_limit_sec > 0,
		    job->time_limit_sec<0, job->time_limit_sec> 0 ? job->time_limit_sec / 60 : 0);
	json_object_end(j);
	exit_code(j, "exit_code", job->exit_code, job->exit_signal);
	exit_code(j, "derived_exit_code", job->derived_code, job->derived_signal);
	json_object(j, "required");
	json_number(j, "CPUs", job->cpus_total);
	some(j, "memory_per_cpu", (int64_t)job->mem_cpu_mib);
	some(j, "memory_per_node", (int64_t)job->mem_node_mib);
	json_object_end(j);
	json_object(j, "tres");
	tres_list(j, "allocated", job, true);
	tres_list(j, "requested", job, false);
	json_object_end(j);
	json_object(j, "wckey");
	json_text(j, "wckey", s->wckey);
	json_object_end(j);
	json_object(j, "comment");
	json_text(j, "job", s->comment);
	json_text(j, "administrator", s->admin_comment);
	json_object_end(j);
	json_text(j, "container", s->container);
	json_text(j, "submit_line", s->submit_line);
	json_bytes(j, "working_directory", s->work_dir.data, s->work_dir.len);
	json_array(j, "steps");
	for (size_t i = 0; i < row->n_step; i++)
		cli_model_step(j, row->step[i]);
	json_array_end(j);
	json_object_end(j);
}
