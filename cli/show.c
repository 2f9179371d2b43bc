/* cli/show.c: scontrol show: records as blocks of Key=value, in Slurm's order. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/array.h"
#include "cli/column.h"
#include "cli/filter.h"
#include "cli/life.h"
#include "cli/model.h"
#include "cli/reservation.h"
#include "cli/scontrol.h"
#include "cli/show.h"
#include "proto/hostlist.h"
#include "proto/states.h"
#include "proto/version.h"

/* ---- jobs ---- */

static const char *star(struct mu_arena *a, uint32_t n)
{
	return n ? mu_arena_printf(a, "%u", n) : "*";
}

static void job_head(struct record *r, const Mu__JobRow *j, const Mu__JobSpec *s)
{
	struct mu_buf *o = &r->out;
	size_t reason;

	mu_buf_printf(o, "JobId=%u ", j->id);
	cli_job_array_fields(j, o);
	mu_buf_printf(o, "JobName=%s", or_empty(s->name));
	line(r);
	if (j->het_job) {
		mu_buf_str(o, "HetJobIdSet=");
		cli_job_het_set(j, o);
		line(r);
	}
	mu_buf_printf(o, "UserId=%s(%u) GroupId=%s(%u) MCS_label=N/A", or_empty(j->user), j->uid,
		      or_empty(j->group), j->gid);
	line(r);
	mu_buf_printf(o, "Priority=%u Nice=%d Account=%s QOS=%s", j->priority, s->nice, or_null(j->account),
		      or_null(j->qos));
	if (s->wckey && *s->wckey)
		mu_buf_printf(o, " WCKey=%s", s->wckey);
	line(r);
	mu_buf_printf(o, "JobState=%s Reason=", mu_job_state_long(cli_job_state(j)));
	reason = o->len;
	cli_job_reason(j, true, o);
	for (size_t i = reason; i < o->len; i++) /* no blank inside a value */
		o->data[i] = o->data[i] == ' ' ? '_' : o->data[i];
	mu_buf_str(o, " Dependency=");
	cli_put_dependency(o, j);
	line(r);
	mu_buf_printf(o, "Requeue=%d Restarts=%u BatchFlag=%d Reboot=0 ExitCode=%d:%d",
		      !s->has_requeue || s->requeue, j->restarts, s->batch, j->exit_code, j->exit_signal);
}

static void job_times(struct scontrol *sc, struct record *r, const Mu__JobRow *j, const Mu__JobSpec *s)
{
	struct mu_arena *a = &sc->cli->arena;
	struct mu_buf *o = &r->out;
	bool waits = j->state == JOB_PENDING;
	int64_t start = !waits				       ? j->start_usec
			: j->plan_start_usec		       ? j->plan_start_usec
			: j->eligible_usec > sc->cli->now_usec ? j->eligible_usec
							       : 0;
	int64_t end = cli_job_end(j);

	if (!end && start && j->time_limit_sec > 0)
		end = waits ? start + j->time_limit_sec * 1000000 : cli_job_end_planned(j, sc->cli->now_usec);
	if (sc->details) {
		line(r);
		mu_buf_printf(o, "DerivedExitCode=%d:%d", j->derived_code, j->derived_signal);
	}
	line(r);
	mu_buf_printf(o, "RunTime=%s TimeLimit=%s TimeMin=%s",
		      span_of(a, true, cli_job_elapsed_sec(j, sc->cli->now_usec), ""),
		      span_of(a, j->has_time_limit_sec && j->time_limit_sec, j->time_limit_sec, "NOT_SET"),
		      span_of(a, s->has_time_min_sec, s->time_min_sec, "N/A"));
	line(r);
	mu_buf_printf(o, "SubmitTime=%s EligibleTime=%s", date_of(a, j->submit_usec, "Unknown"),
		      date_of(a, j->eligible_usec, "Unknown"));
	line(r);
	mu_buf_printf(o, "AccrueTime=%s", date_of(a, j->eligible_usec, "Unknown"));
	line(r);
	mu_buf_printf(o, "StartTime=%s EndTime=%s Deadline=%s", date_of(a, start, "Unknown"),
		      date_of(a, end, "Unknown"), date_of(a, s->deadline_usec, "N/A"));
	if (!waits && (j->preempt_eligible_usec || j->preempt_usec)) {
		line(r);
		cli_job_preempt_fields(j, o);
	}
	line(r);
	cli_job_suspend_fields(j, o);
}

static void job_place(struct scontrol *sc, struct record *r, const Mu__JobRow *j, const Mu__JobSpec *s)
{
	struct mu_arena *a = &sc->cli->arena;
	struct mu_buf *o = &r->out;
	bool waits = j->state == JOB_PENDING;
	uint32_t nodes = waits || !j->node_count ? (j->nodes_min ? j->nodes_min : 1) : j->node_count;
	uint32_t tasks = j->ntasks ? j->ntasks : 1;

	line(r);
	mu_buf_str(o, "Partition=");
	if (waits && s->n_partition > 1) {
		for (size_t i = 0; i < s->n_partition; i++)
			mu_buf_printf(o, "%s%s", i ? "," : "", s->partition[i]);
	} else {
		mu_buf_str(o, or_null(j->partition));
	}
	mu_buf_printf(o, " AllocNode:Sid=%s:%u", s->submit_host && *s->submit_host ? s->submit_host : "N/A",
		      s->submit_sid);
	line(r);
	mu_buf_printf(o, "ReqNodeList=%s ExcNodeList=%s", or_null(s->nodes_required),
		      or_null(s->nodes_excluded));
	line(r);
	mu_buf_printf(o, "NodeList=%s", waits ? "" : or_null(cli_job_nodes(j)));
	if (waits && j->plan_nodes && *j->plan_nodes)
		mu_buf_printf(o, " SchedNodeList=%s", j->plan_nodes);
	if (!waits && j->batch_host && *j->batch_host) {
		line(r);
		mu_buf_printf(o, "BatchHost=%s", j->batch_host);
	}
	line(r);
	if (s->switches) {
		mu_buf_printf(o, "ReqSwitch=%u", s->switches);
		if (s->has_switches_wait_sec)
			mu_buf_printf(o, " WaitForSwitch=%s", span_of(a, true, s->switches_wait_sec, ""));
		line(r);
	}
	mu_buf_printf(o, "NumNodes=%u", nodes);
	if (waits && j->nodes_max > nodes)
		mu_buf_printf(o, "-%u", j->nodes_max);
	mu_buf_printf(o, " NumCPUs=%u NumTasks=%u CPUs/Task=%u ReqB:S:C:T=0:0:%s:%s",
		      j->cpus_total ? j->cpus_total : tasks, tasks, j->cpus_per_task ? j->cpus_per_task : 1,
		      star(a, s->cores_per_socket), star(a, s->threads_per_core));
	line(r);
	mu_buf_str(o, "TRES=");
	cli_job_tres(j, !waits && j->node_count, false, o);
	line(r);
	mu_buf_printf(o, "Socks/Node=%s NtasksPerN:B:S:C=%u:0:%s:%s ", star(a, s->sockets_per_node),
		      s->ntasks_per_node, star(a, s->ntasks_per_socket), star(a, s->ntasks_per_core));
	if (s->has_core_spec)
		mu_buf_printf(o, "CoreSpec=%u", s->core_spec);
	else if (s->has_thread_spec)
		mu_buf_printf(o, "ThreadSpec=%u", s->thread_spec);
	else
		mu_buf_str(o, "CoreSpec=*");
}

static void job_details(struct record *r, const Mu__JobRow *j)
{
	struct mu_buf *o = &r->out;

	line(r);
	mu_buf_str(o, "JOB_GRES=");
	cli_gres_text(cli_job_spec(j)->gres, cli_job_spec(j)->n_gres, "", o);
	if (!cli_job_spec(j)->n_gres)
		mu_buf_str(o, "(null)");
	for (size_t i = 0; i < j->n_alloc; i++) {
		const Mu__AllocNode *n = j->alloc[i];

		mu_buf_str(o, r->oneline ? " " : "\n     ");
		mu_buf_printf(o, "Nodes=%s CPU_IDs=%s Mem=%" PRIu64 " GRES=", n->node, or_empty(n->cpu_list),
			      n->mem_mib);
		for (size_t k = 0; k < n->n_gres; k++) {
			const Mu__GresGot *g = n->gres[k];

			mu_buf_printf(o, "%s%s%s%s:%" PRIu64 "(IDX:", k ? "," : "", g->name,
				      g->type && *g->type ? ":" : "", or_empty(g->type), g->count);
			for (size_t m = 0; m < g->n_index; m++)
				mu_buf_printf(o, "%s%u", m ? "," : "", g->index[m]);
			mu_buf_str(o, ")");
		}
	}
}

/* Lines that only jobs with such a request have. */
static void job_per(struct record *r, const Mu__JobSpec *s)
{
	const char *socket = cli_job_hint(s, "gpus-per-socket"), *bind = cli_job_hint(s, "gpu-bind"),
		   *frequency = cli_job_hint(s, "gpu-freq");
	struct mu_buf *o = &r->out;

	if (s->n_gres_job) {
		line(r);
		mu_buf_str(o, "TresPerJob=");
		cli_gres_text(s->gres_job, s->n_gres_job, "gres:", o);
	}
	if (s->n_gres && !socket) {
		line(r);
		mu_buf_str(o, "TresPerNode=");
		cli_gres_text(s->gres, s->n_gres, "gres:", o);
	}
	if (socket) {
		line(r);
		mu_buf_printf(o, "TresPerSocket=gres:gpu:%s", socket);
	}
	if (s->n_gres_task) {
		line(r);
		mu_buf_str(o, "TresPerTask=");
		cli_gres_text(s->gres_task, s->n_gres_task, "gres:", o);
	}
	if (s->cpus_per_gpu) {
		line(r);
		mu_buf_printf(o, "CpusPerTres=gres:gpu:%u", s->cpus_per_gpu);
	}
	if (s->has_mem_gpu_mib) {
		line(r);
		mu_buf_printf(o, "MemPerTres=gres:gpu:%" PRIu64, s->mem_gpu_mib);
	}
	if (bind) {
		line(r);
		mu_buf_printf(o, "TresBind=gpu:%s", bind);
	}
	if (frequency) {
		line(r);
		mu_buf_printf(o, "TresFreq=gpu:%s", frequency);
	}
}

static const char *delay_boot(struct mu_arena *a, const Mu__JobSpec *s)
{
	const char *text = cli_job_hint(s, "delay-boot");
	int64_t sec = 0;

	if (text && mu_span_parse(text, &sec, NULL))
		sec = 0;
	return span_of(a, true, sec, "");
}

static void job_rest(struct scontrol *sc, struct record *r, const Mu__JobRow *j, const Mu__JobSpec *s)
{
	struct mu_arena *a = &sc->cli->arena;
	struct mu_buf *o = &r->out;

	line(r);
	mu_buf_printf(o, "MinCPUsNode=%u %s=%s MinTmpDiskNode=%s",
		      s->mincpus	 ? s->mincpus
		      : j->cpus_per_task ? j->cpus_per_task
					 : 1,
		      j->mem_cpu_mib ? "MinMemoryCPU" : "MinMemoryNode",
		      mem_of(a, j->mem_cpu_mib ? j->mem_cpu_mib : j->mem_node_mib), mem_of(a, s->tmp_mib));
	line(r);
	mu_buf_printf(o, "Features=%s ", or_null(s->features));
	if (s->prefer && *s->prefer)
		mu_buf_printf(o, "Prefer=%s ", s->prefer);
	if (s->batch_features && *s->batch_features)
		mu_buf_printf(o, "BatchFeatures=%s ", s->batch_features);
	mu_buf_printf(o, "DelayBoot=%s", delay_boot(a, s));
	const char *reservation = j->reservation && *j->reservation ? j->reservation : s->reservation;
	if (reservation && *reservation) {
		line(r);
		mu_buf_printf(o, "Reservation=%s", reservation);
	}
	line(r);
	mu_buf_printf(o, "OverSubscribe=%s Contiguous=%d Licenses=%s Network=%s", cli_job_oversubscribe(j),
		      s->contiguous, or_null(s->licenses), or_null(cli_job_hint(s, "network")));
	line(r);
	mu_buf_str(o, "Command=");
	cli_put_bytes(o, s->command, "(null)");
	for (size_t i = 0; i < s->n_argv; i++) {
		mu_buf_str(o, " ");
		cli_put_bytes(o, s->argv[i], "");
	}
	line(r);
	mu_buf_str(o, "WorkDir=");
	cli_put_bytes(o, s->work_dir, "(null)");
	if (s->comment && *s->comment) {
		line(r);
		mu_buf_printf(o, "Comment=%s", s->comment);
	}
	if (s->container && *s->container) {
		line(r);
		mu_buf_printf(o, "Container=%s", s->container);
	}
	if (s->container_id && *s->container_id) {
		line(r);
		mu_buf_printf(o, "ContainerID=%s", s->container_id);
	}
	if (s->admin_comment && *s->admin_comment) {
		line(r);
		mu_buf_printf(o, "AdminComment=%s", s->admin_comment);
	}
	if (cli_job_hint(s, "extra")) {
		line(r);
		mu_buf_printf(o, "Extra=%s", cli_job_hint(s, "extra"));
	}
	if (j->system_comment && *j->system_comment) {
		line(r);
		mu_buf_printf(o, "SystemComment=%s", j->system_comment);
	}
	if (j->reason_detail && *j->reason_detail && j->reason != REASON_ReqNodeNotAvail) {
		line(r);
		mu_buf_printf(o, "StateDesc=%s", j->reason_detail);
	}
	if (s->batch) {
		line(r);
		mu_buf_str(o, "StdErr=");
		cli_job_path(j, s->std_err.len ? s->std_err : s->std_out, cli_job_output(j), o);
		line(r);
		mu_buf_str(o, "StdIn=");
		cli_job_path(j, s->std_in, "/dev/null", o);
		line(r);
		mu_buf_str(o, "StdOut=");
		cli_job_path(j, s->std_out, cli_job_output(j), o);
	}
	job_per(r, s);
	if (s->mail_type && *s->mail_type) {
		line(r);
		mu_buf_printf(o, "MailUser=%s MailType=%s",
			      s->mail_user && *s->mail_user ? s->mail_user : or_empty(j->user), s->mail_type);
	}
	line(r);
	mu_buf_str(o, "Power=");
}

static void show_one_job(struct scontrol *sc, const Mu__JobRow *j)
{
	struct record r = {.oneline = sc->oneline};
	const Mu__JobSpec *s = cli_job_spec(j);

	job_head(&r, j, s);
	job_times(sc, &r, j, s);
	job_place(sc, &r, j, s);
	if (sc->details)
		job_details(&r, j);
	job_rest(sc, &r, j, s);
	end_record(&r);
	print_record(&r);
}

static int compare_jobs(const void *a, const void *b)
{
	return cli_job_order(*(Mu__JobRow *const *)a, *(Mu__JobRow *const *)b);
}

static bool all_found(const struct cli_job_id *id, size_t ids, Mu__JobRow *const *rows, size_t count)
{
	for (size_t i = 0; i < ids; i++) {
		bool found = false;

		for (size_t k = 0; k < count && !found; k++)
			found = cli_id_names(&id[i], rows[k]);
		if (!found)
			return false;
	}
	return true;
}

int scontrol_load_jobs(struct scontrol *s, const struct cli_job_id *id, size_t ids, Mu__JobRow ***ret,
		       size_t *ret_count, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	void **rows;
	int rc;

	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_JOBS;
	size_t kept = 0;

	for (size_t i = 0; i < ids; i++)
		cli_filter_id(s->cli, &ask, &id[i]);
	rc = cli_query_all(s->cli, &ask, &mu__job_row__descriptor, &rows, ret_count, err);
	for (size_t i = 0; i < (rc ? 0 : *ret_count); i++) {
		rows[kept] = cli_job_named(&s->cli->arena, rows[i], id, ids);
		kept += rows[kept] != NULL;
	}
	if (!rc) {
		*ret_count = kept;
		qsort(rows, kept, sizeof *rows, compare_jobs);
	}
	if (!rc && ids && !kept)
		rc = mu_fail(err, MU_EJOBID, "%s", mu_strerror(MU_EJOBID));
	*ret = (Mu__JobRow **)rows;
	return rc;
}

static int jobs_history(struct scontrol *s, const struct cli_job_id *id, size_t ids)
{
	uint32_t job;
	int rc = 0;

	if (!ids) {
		cli_error(s->cli, "--%s of which job?", s->trail ? "trail" : "history");
		return 1;
	}
	for (size_t i = 0; i < ids; i++)
		rc |= life_task(s->cli, &id[i], false, &job) ? 1
		      : s->trail			     ? life_trail(s->cli, job, stdout)
							     : life_job(s->cli, job, s->json, stdout);
	return rc;
}

static int show_jobs(struct scontrol *s, char **words, size_t count)
{
	struct cli_job_id *id;
	size_t ids, n;
	Mu__JobRow **rows;
	struct mu_err err = {0};

	if (scontrol_ids(s, words, count, &id, &ids, &err)) {
		fprintf(stderr, "slurm_load_jobs error: %s\n", mu_strerror(MU_EJOBID));
		return 1;
	}
	if (s->history || s->trail)
		return jobs_history(s, id, ids);
	if (scontrol_load_jobs(s, id, ids, &rows, &n, &err))
		return show_load_error(s, "jobs", &err);
	if (s->json) {
		struct cli_model m = {0};

		cli_model_begin(s->cli, &m);
		json_array(&m.json, "jobs");
		for (size_t i = 0; i < n; i++)
			cli_model_job(&m.json, s->cli, rows[i]);
		json_array_end(&m.json);
		return cli_model_end(&m);
	}
	for (size_t i = 0; i < n; i++)
		show_one_job(s, rows[i]);
	if (!n && !ids)
		printf("No jobs in the system\n");
	if (!all_found(id, ids, rows, n)) {
		fprintf(stderr, "slurm_load_jobs error: %s\n", mu_strerror(MU_EJOBID));
		return 1;
	}
	return 0;
}

/* ---- steps ---- */

/* The jobs of ROWS: owner and partition are theirs. */
static int load_jobs_of(struct scontrol *s, Mu__StepRow **rows, size_t count, Mu__JobRow ***ret,
			size_t *ret_count, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	void **jobs;
	int rc;

	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_JOBS;
	for (size_t i = 0; i < count; i++)
		if (!i || rows[i]->job != rows[i - 1]->job)
			cli_filter_job(s->cli, &ask, rows[i]->job);
	rc = cli_query_all(s->cli, &ask, &mu__job_row__descriptor, &jobs, ret_count, err);
	*ret = (Mu__JobRow **)jobs;
	return rc == MU_EJOBID ? 0 : rc;
}

static const Mu__JobRow *job_of(Mu__JobRow *const *jobs, size_t count, uint32_t id)
{
	for (size_t i = 0; i < count; i++)
		if (jobs[i]->id == id)
			return jobs[i];
	return NULL;
}

static void show_one_step(struct scontrol *s, const Mu__StepRow *row, const Mu__JobRow *job)
{
	struct record r = {.oneline = s->oneline};

	if (row->step == MU_STEP_BATCH)
		mu_buf_printf(&r.out, "StepId=%u.batch", row->job);
	else
		mu_buf_printf(&r.out, "StepId=%u.%u", row->job, row->step);
	if (job)
		mu_buf_printf(&r.out, " UserId=%u", job->uid);
	mu_buf_printf(&r.out, " StartTime=%s TimeLimit=UNLIMITED",
		      date_of(&s->cli->arena, row->start_usec, "Unknown"));
	line(&r);
	mu_buf_printf(&r.out, "State=%s Partition=%s NodeList=%s Gres=", mu_job_state_long(row->state),
		      or_null(job ? job->partition : NULL), or_null(row->node_list));
	for (size_t k = 0; k < row->n_gres; k++)
		mu_buf_printf(&r.out, "%s%s:%" PRIu64, k ? "," : "", row->gres[k]->name, row->gres[k]->count);
	line(&r);
	mu_buf_printf(&r.out, "Nodes=%u CPUs=%u Tasks=%u Name=%s Network=(null)", row->node_count, row->cpus,
		      row->tasks, or_empty(row->name));
	line(&r);
	mu_buf_printf(&r.out, "TRES=cpu=%u", row->cpus);
	if (row->mem_mib)
		mu_buf_printf(&r.out, ",mem=%" PRIu64 "M", row->mem_mib);
	mu_buf_printf(&r.out, ",node=%u", row->node_count);
	for (size_t k = 0; k < row->n_gres; k++)
		mu_buf_printf(&r.out, ",gres/%s=%" PRIu64, row->gres[k]->name, row->gres[k]->count);
	if (row->container) {
		line(&r);
		mu_buf_printf(&r.out, "Container=%s", row->container);
	}
	end_record(&r);
	print_record(&r);
}

static int show_steps(struct scontrol *s, char **words, size_t count)
{
	Mu__Query ask = MU__QUERY__INIT;
	struct mu_err err = {0};
	struct cli_job_id *id;
	size_t ids, n, n_jobs = 0, shown = 0;
	struct cli_model m = {0};
	Mu__JobRow **jobs = NULL;
	void **rows;

	if (scontrol_ids(s, words, count, &id, &ids, &err))
		return show_load_error(s, "job_step_get", &err);
	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_STEPS;
	for (size_t i = 0; i < ids; i++)
		cli_filter_job(s->cli, &ask, id[i].job);
	if (cli_query_all(s->cli, &ask, &mu__step_row__descriptor, &rows, &n, &err) ||
	    (n && load_jobs_of(s, (Mu__StepRow **)rows, n, &jobs, &n_jobs, &err)))
		return show_load_error(s, "job_step_get", &err);
	if (s->json) {
		cli_model_begin(s->cli, &m);
		json_array(&m.json, "steps");
	}
	for (size_t i = 0; i < n; i++) {
		const Mu__StepRow *row = rows[i];
		bool wanted = ids == 0;

		for (size_t k = 0; k < ids && !wanted; k++)
			wanted = id[k].job == row->job && (!id[k].has_step || id[k].step == row->step);
		if (!wanted || (row->state != JOB_RUNNING && !ids))
			continue;
		shown++;
		if (s->json)
			cli_model_step(&m.json, row);
		else
			show_one_step(s, row, job_of(jobs, n_jobs, row->job));
	}
	if (s->json) {
		json_array_end(&m.json);
		cli_model_end(&m);
		return ids && !shown;
	}
	if (!shown && !ids)
		printf("No job steps in the system\n");
	if (!shown && ids) {
		fprintf(stderr, "slurm_load_job_step_get error: %s\n", mu_strerror(MU_EJOBID));
		return 1;
	}
	return 0;
}

/* ---- host lists: no controller needed ---- */

static int show_hosts(struct scontrol *s, const char *how, char **words, size_t count)
{
	const char *text = count ? words[0] : getenv("SLURM_JOB_NODELIST");
	struct mu_buf out MU_CLEANUP(mu_buf_free) = {0};
	struct mu_err err = {0};
	char **names, *file;
	size_t n, len;

	if (!text)
		text = getenv("SLURM_NODELIST");
	if (!text) {
		cli_error(s->cli, "host list is empty");
		return 1;
	}
	if (text[0] == '/') { /* a file of names, as hostlist takes them */
		if (cli_read_file(text, 1 << 24, &s->cli->arena, &file, &len, &err)) {
			cli_error(s->cli, "%s", err.text);
			return 1;
		}
		for (size_t i = 0; i < len; i++)
			file[i] = isspace((unsigned char)file[i]) ? ',' : file[i];
		while (len && file[len - 1] == ',')
			file[--len] = 0;
		text = file;
	}
	if (mu_hostlist_expand(text, 1 << 20, &s->cli->arena, &names, &n, &err)) {
		cli_error(s->cli, "Invalid hostlist: %s", text);
		return 1;
	}
	if (strncasecmp(how, "hostnames", 8) == 0) {
		for (size_t i = 0; i < n; i++)
			mu_buf_printf(&out, "%s\n", names[i]);
	} else {
		if (strcasecmp(how, "hostlistsorted") == 0)
			mu_hostlist_fold_sorted((const char *const *)names, n, &out);
		else
			mu_hostlist_fold((const char *const *)names, n, &out);
		mu_buf_str(&out, "\n");
	}
	fwrite(out.data ? (char *)out.data : "", 1, out.len, stdout);
	return 0;
}

static int show_hostnames(struct scontrol *s, char **words, size_t count)
{
	return show_hosts(s, "hostnames", words, count);
}

static int show_hostlist(struct scontrol *s, char **words, size_t count)
{
	return show_hosts(s, "hostlist", words, count);
}

static int show_sorted(struct scontrol *s, char **words, size_t count)
{
	return show_hosts(s, "hostlistsorted", words, count);
}

static int show_config(struct scontrol *s, char **words, size_t count)
{
	return scontrol_show_config(s);
}

static int show_version(struct scontrol *s, char **words, size_t count)
{
	cli_version(stdout);
	return 0;
}

/* What a site without them is told, as an answer that is empty. */
static int show_federation(struct scontrol *s, char **words, size_t count)
{
	printf("There are no federations.\n");
	return 0;
}

static int show_burst(struct scontrol *s, char **words, size_t count)
{
	cli_error(s->cli, "No burst buffer information available");
	return 0;
}

/* The first one that fits: a word with at least LEAST letters that begins NAME, or ALSO as a whole. */
static const struct {
	const char *name, *also;
	size_t least;
	bool json;
	int (*show)(struct scontrol *s, char **words, size_t count);
} entities[] = {
    {"hostnames", NULL, 5, false, show_hostnames},
    {"hostlist", NULL, 8, false, show_hostlist},
    {"hostlistsorted", NULL, 14, false, show_sorted},
    {"jobs", "jobid", 1, true, show_jobs},
    {"jobid", NULL, 1, true, show_jobs},
    {"nodes", "nodename", 1, true, scontrol_show_nodes},
    {"partitions", "partitionname", 1, true, scontrol_show_partitions},
    {"steps", "stepid", 1, true, show_steps},
    {"config", NULL, 1, true, show_config},
    {"reservations", "reservationname", 1, true, scontrol_show_reservations},
    {"licenses", NULL, 1, true, scontrol_show_licenses},
    {"version", NULL, 1, false, show_version},
    {"topology", "topoconf", 1, false, scontrol_show_topology},
    {"daemons", NULL, 1, false, scontrol_show_daemons},
    {"slurmd", NULL, 2, false, scontrol_show_slurmd},
    {"assoc_mgr", NULL, 2, false, scontrol_show_assoc_mgr},
    {"federations", NULL, 2, false, show_federation},
    {"burstbuffer", NULL, 2, false, show_burst},
};

static const struct scontrol_absent absent[] = {
    {"bbstat", "there are no burst buffers"},
    {"dwstat", "there are no burst buffers"},
    {"aliases", "a node's address is that of show node NAME"},
    {"frontend", "there are no front end nodes"},
    {"powercap", "power is not capped"},
    {"layouts", "there are no layouts; show topology tells where nodes lie"},
};

int scontrol_show(struct scontrol *s, char **words, size_t count)
{
	const char *what = words[0], *equals = strchr(what, '=');
	size_t len = strlen(what);

	/* "show job=5" is read like "show job 5". */
	if (equals) {
		char **both = mu_arena_alloc(&s->cli->arena, (count + 1) * sizeof *both);

		both[0] = mu_arena_printf(&s->cli->arena, "%.*s", (int)(equals - what), what);
		both[1] = (char *)equals + 1;
		memcpy(both + 2, words + 1, (count - 1) * sizeof *both);
		return scontrol_show(s, both, count + 1);
	}
	for (size_t i = 0; i < sizeof entities / sizeof *entities; i++) {
		if ((len < entities[i].least || strncasecmp(entities[i].name, what, len) != 0) &&
		    !(entities[i].also && strcasecmp(entities[i].also, what) == 0))
			continue;
		if (s->json && !entities[i].json) {
			cli_error(s->cli, "show %s knows no --json and --yaml", entities[i].name);
			return 1;
		}
		return entities[i].show(s, words + 1, count - 1);
	}
	if (!scontrol_is_absent(s, "show ", absent, sizeof absent / sizeof *absent, what))
		cli_error(s->cli, "invalid entity:%s for keyword:show", what);
	return 1;
}
