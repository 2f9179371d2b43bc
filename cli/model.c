/* cli/model.c: rows as JSON, in the data model v0.0.40: arrays for states, triples for numbers that may be
 * missing. */
#include "cli/model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/array.h"
#include "cli/column.h"
#include "proto/states.h"
#include "proto/version.h"

int cli_model_check(const char *model, struct mu_err *err)
{
	size_t skip = model && strncmp(model, "data_parser/", 12) == 0 ? 12 : 0;

	if (!model || !*model || strcmp(model + skip, "v0.0.40") == 0 ||
	    strncmp(model + skip, "v0.0.40+", 8) == 0)
		return 0;
	if (strcmp(model, "list") == 0) {
		printf("Possible data_parser plugins:\ndata_parser/v0.0.40\n");
		return 1;
	}
	return mu_fail(err, MU_EINVAL,
		       "Invalid --json specification: \"%s\" (--json=list names what there is: v0.0.40)",
		       model);
}

void cli_model_begin(struct cli *c, struct cli_model *m)
{
	struct cli_json *j = &m->json;

	j->out = &m->out;
	m->cli = c;
	json_object(j, NULL);
	json_object(j, "meta");
	json_object(j, "plugin");
	json_text(j, "type", "");
	json_text(j, "name", "");
	json_text(j, "data_parser", "data_parser/v0.0.40");
	json_text(j, "accounting_storage", "");
	json_object_end(j);
	json_object(j, "client");
	json_text(j, "source", c->name);
	json_text(j, "user", "");
	json_text(j, "group", "");
	json_object_end(j);
	json_array(j, "command");
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
	m->meta_end = m->out.len;
	json_object_end(j);
}

/* Which moment the rows are of, as --at takes it, into the meta part. */
static void put_as_of(struct cli_model *m)
{
	struct mu_buf rest MU_CLEANUP(mu_buf_free) = {0};
	struct cli_json j = {.out = &m->out, .depth = 2, .some = true};

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

static void some(struct cli_json *j, const char *name, int64_t value)
{
	json_triple(j, name, value != 0, false, value);
}

static void when(struct cli_json *j, const char *name, int64_t usec)
{
	json_triple(j, name, true, false, usec / 1000000);
}

static void exit_code(struct cli_json *j, const char *name, int32_t code, int32_t signal)
{
	json_object(j, name);
	json_array(j, "status");
	json_text(j, NULL, signal ? "SIGNALED" : code ? "ERROR" : "SUCCESS");
	json_array_end(j);
	json_triple(j, "return_code", true, false, code);
	json_object(j, "signal");
	json_triple(j, "id", signal != 0, false, signal);
	json_text(j, "name", signal ? cli_signal_name(signal) : "");
	json_object_end(j);
	json_object_end(j);
}

static void state(struct cli_json *j, const char *name, uint32_t value)
{
	json_array(j, name);
	json_text(j, NULL, mu_job_state_long(value));
	json_array_end(j);
}

static void with(struct cli_json *j, const char *name, const struct mu_buf *text)
{
	json_bytes(j, name, text->data, text->len);
}

static void path(struct cli_json *j, const char *name, const Mu__JobRow *job, ProtobufCBinaryData pattern,
		 const char *none)
{
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};

	cli_job_path(job, pattern, none, &text);
	with(j, name, &text);
}

static void job_resources(struct cli_json *j, const Mu__JobRow *job)
{
	json_object(j, "job_resources");
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
	json_text(j, "admin_comment", s->admin_comment);
	json_text(j, "system_comment", job->system_comment);
	json_text(j, "wckey", s->wckey);
	json_text(j, "resv_name", s->reservation);
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
	state(j, "job_state", job->state);
	json_text(j, "state_reason", mu_job_reason_word(job->reason));
	json_text(j, "state_description", job->reason_detail);
	json_triple(j, "priority", true, false, job->priority);
	json_number(j, "restart_cnt", job->restarts);
	exit_code(j, "exit_code", job->exit_code, job->exit_signal);
	exit_code(j, "derived_exit_code", job->derived_code, job->derived_signal);
	when(j, "submit_time", job->submit_usec);
	when(j, "eligible_time", job->eligible_usec);
	when(j, "start_time", job->start_usec ? job->start_usec : job->plan_start_usec);
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
	job_resources(j, job);
	json_array(j, "flags");
	json_array_end(j);
	json_object_end(j);
}

static void texts(struct cli_json *j, const char *name, char *const *list, size_t count)
{
	json_array(j, name);
	for (size_t i = 0; i < count; i++)
		json_text(j, NULL, list[i]);
	json_array_end(j);
}

static void node_devices(struct cli_json *j, const Mu__NodeRow *n)
{
	json_array(j, "gres_devices");
	for (size_t i = 0; i < n->n_gres; i++)
		for (size_t k = 0; k < n->gres[i]->n_unit; k++) {
			const Mu__GresHave *g = n->gres[i];
			const Mu__GresUnit *u = g->unit[k];

			json_object(j, NULL);
			json_text(j, "name", g->name);
			json_text(j, "type", g->type);
			json_number(j, "index", (int64_t)(g->first_index + k));
			json_text(j, "uuid", u->uuid);
			json_text(j, "pci", u->pci);
			json_text(j, "product", u->product);
			json_number(j, "memory", (int64_t)u->mem_mib);
			json_text(j, "cores", u->cores);
			json_text(j, "fault", u->fault);
			json_array(j, "files");
			json_text(j, NULL, k < g->n_file ? g->file[k] : "");
			for (size_t m = 0; m < u->n_file; m++)
				json_text(j, NULL, u->file[m]);
			json_array_end(j);
			json_array(j, "links");
			for (size_t m = 0; m < u->n_link; m++)
				json_number(j, NULL, u->link[m]);
			json_array_end(j);
			json_object_end(j);
		}
	json_array_end(j);
}

void cli_model_node(struct cli_json *j, const struct cli *c, const Mu__NodeRow *n,
		    const char *const *partitions, size_t count)
{
	struct mu_buf gres MU_CLEANUP(mu_buf_free) = {0}, used MU_CLEANUP(mu_buf_free) = {0};
	char words[128], *rest = words, *word;
	uint32_t cpus = cli_node_cpus(n);
	bool usable = n->base_state == NODE_IDLE &&
		      !(n->flags & (NODE_FLAG_DRAIN | NODE_FLAG_NO_RESPOND | NODE_FLAG_FAIL));

	cli_node_gres(n, &gres);
	cli_node_gres_used(n, &used);
	json_object(j, NULL);
	json_text(j, "name", n->name);
	json_text(j, "hostname",
		  n->conf && n->conf->hostname && *n->conf->hostname ? n->conf->hostname : n->name);
	json_text(j, "address", n->conf && n->conf->addr && *n->conf->addr ? n->conf->addr : n->name);
	json_number(j, "port", n->port);
	json_text(j, "cluster_name", c->conf.cluster);
	json_text(j, "architecture", n->arch);
	json_text(j, "operating_system", n->os);
	json_text(j, "version", n->version);
	mu_node_state_scontrol(n->base_state, n->flags, n->alloc_cpus, cpus, words);
	json_array(j, "state");
	while ((word = strsep(&rest, "+")))
		json_text(j, NULL, word);
	json_array_end(j);
	texts(j, "partitions", (char *const *)partitions, count);
	texts(j, "features", n->conf ? n->conf->feature : NULL, n->conf ? n->conf->n_feature : 0);
	texts(j, "active_features", n->conf ? n->conf->feature : NULL, n->conf ? n->conf->n_feature : 0);
	json_number(j, "boards", 1);
	json_number(j, "sockets", cli_node_sockets(n));
	json_number(j, "cores", cli_node_cores(n));
	json_number(j, "threads", cli_node_threads(n));
	json_number(j, "cpus", cpus);
	json_number(j, "effective_cpus", cpus);
	json_number(j, "alloc_cpus", n->alloc_cpus);
	json_number(j, "alloc_idle_cpus", usable && n->alloc_cpus < cpus ? cpus - n->alloc_cpus : 0);
	json_number(j, "idle_cpus", usable && n->alloc_cpus < cpus ? cpus - n->alloc_cpus : 0);
	json_number(j, "real_memory", (int64_t)cli_node_memory(n));
	json_number(j, "alloc_memory", (int64_t)n->alloc_mem_mib);
	json_triple(j, "free_mem", n->free_mem_mib != 0, false, (int64_t)n->free_mem_mib);
	json_number(j, "free_memory", (int64_t)n->free_mem_mib);
	json_triple(j, "cpu_load", true, false, n->load_centi);
	json_number(j, "temporary_disk", (int64_t)n->tmp_disk_mib);
	json_number(j, "weight", n->conf && n->conf->weight ? n->conf->weight : 1);
	with(j, "gres", &gres);
	with(j, "gres_used", &used);
	mu_buf_reset(&gres);
	cli_node_gres_drain(n, &gres);
	with(j, "gres_drained", &gres);
	node_devices(j, n);
	json_text(j, "reason", n->reason);
	when(j, "reason_changed_at", n->reason_usec);
	json_text(j, "reason_set_by_user", n->reason_user);
	when(j, "boot_time", n->boot_usec);
	when(j, "slurmd_start_time", n->agent_start_usec);
	when(j, "last_busy", n->last_busy_usec);
	when(j, "resume_after", n->resume_usec);
	json_text(j, "comment", n->comment);
	json_text(j, "extra", n->extra);
	json_text(j, "instance_id", n->instance_id);
	json_text(j, "instance_type", n->instance_type);
	mu_buf_reset(&gres);
	cli_node_tres(n, &gres);
	with(j, "tres", &gres);
	mu_buf_reset(&gres);
	cli_node_tres_used(n, &gres);
	with(j, "tres_used", &gres);
	json_object_end(j);
}

void cli_model_partition(struct cli_json *j, const struct cli *c, const Mu__PartitionRow *row)
{
	static const Mu__PartitionConf none = MU__PARTITION_CONF__INIT;
	const Mu__PartitionConf *p = row->conf ? row->conf : &none;

	json_object(j, NULL);
	json_text(j, "name", p->name);
	json_text(j, "cluster", c->conf.cluster);
	json_object(j, "nodes");
	json_text(j, "configured", p->nodes);
	json_text(j, "allowed_allocation", p->alloc_nodes);
	json_number(j, "total", row->total_nodes);
	json_object_end(j);
	json_object(j, "cpus");
	json_number(j, "total", row->total_cpus);
	json_object_end(j);
	json_object(j, "maximums");
	json_triple(j, "nodes", p->has_max_nodes, !p->has_max_nodes, p->max_nodes);
	json_triple(j, "time", p->max_time_sec > 0, p->max_time_sec < 0 || !p->has_max_time_sec,
		    p->max_time_sec > 0 ? p->max_time_sec / 60 : 0);
	json_object_end(j);
	json_object(j, "minimums");
	json_number(j, "nodes", p->min_nodes);
	json_object_end(j);
	json_object(j, "defaults");
	json_triple(j, "time", p->has_default_time_sec, false, p->default_time_sec / 60);
	json_object_end(j);
	json_object(j, "priority");
	json_number(j, "job_factor", p->has_priority_job_factor ? p->priority_job_factor : 1);
	json_number(j, "tier", p->has_priority_tier ? p->priority_tier : 1);
	json_object_end(j);
	json_object(j, "partition");
	json_array(j, "state");
	json_text(j, NULL, p->state ? p->state : "UP");
	json_array_end(j);
	json_object_end(j);
	json_bool(j, "default", p->is_default);
	json_object_end(j);
}

static void history_step(struct cli_json *j, const Mu__StepRow *s)
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
	json_text(j, "submit_line", s->submit_line);
	json_bytes(j, "working_directory", s->work_dir.data, s->work_dir.len);
	json_array(j, "steps");
	for (size_t i = 0; i < row->n_step; i++)
		history_step(j, row->step[i]);
	json_array_end(j);
	json_object_end(j);
}
