/* cli/column_job.c: the columns of squeue. One getter, one column of proto/columns.def. */
#include <inttypes.h>
#include <string.h>

#include "cli/array.h"
#include "cli/column.h"
#include "proto/depend.h"
#include "proto/states.h"

static const Mu__JobSpec no_spec = MU__JOB_SPEC__INIT;

const Mu__JobSpec *cli_job_spec(const Mu__JobRow *job)
{
	return job->spec ? job->spec : &no_spec;
}

static void text_or(struct mu_buf *out, const char *text, const char *none)
{
	mu_buf_str(out, text && *text ? text : none);
}

void cli_put_dependency(struct mu_buf *out, const Mu__JobRow *job)
{
	struct mu_arena arena = {0};
	const char *text = cli_job_spec(job)->dependency;
	size_t before = out->len;

	if (text && *text)
		mu_depends_show(text, job->depend_state, &arena, out);
	if (out->len == before)
		mu_buf_str(out, "(null)");
	mu_arena_free(&arena);
}

void cli_put_bytes(struct mu_buf *out, ProtobufCBinaryData bytes, const char *none)
{
	if (bytes.len)
		mu_buf_add(out, bytes.data, bytes.len);
	else
		mu_buf_str(out, none);
}

static void put_date(struct mu_buf *out, int64_t usec, const char *none)
{
	char text[32];

	if (!usec) {
		mu_buf_str(out, none);
		return;
	}
	mu_date_print(usec, &cli_zone, text);
	mu_buf_str(out, text);
}

static void put_span(struct mu_buf *out, int64_t sec)
{
	char text[32];

	mu_span_print(sec, 1, text);
	mu_buf_str(out, text);
}

const char *cli_job_nodes(const Mu__JobRow *j)
{
	return j->state == JOB_PENDING || !j->start_usec || !j->node_list ? "" : j->node_list;
}

int64_t cli_job_end(const Mu__JobRow *j)
{
	return j->state == JOB_PENDING ? 0 : j->end_usec;
}

int64_t cli_between_sec(int64_t from_usec, int64_t to_usec)
{
	return to_usec > from_usec ? to_usec / 1000000 - from_usec / 1000000 : 0;
}

uint32_t cli_job_state(const Mu__JobRow *j)
{
	return j->state == JOB_PENDING && j->special_exit ? JOB_SPECIAL_EXIT : j->state;
}

int64_t cli_job_elapsed_sec(const Mu__JobRow *j, int64_t now_usec)
{
	int64_t end = j->end_usec ? j->end_usec : j->state == JOB_SUSPENDED ? j->suspend_usec : now_usec;

	if (!j->start_usec || j->state == JOB_PENDING || end < j->start_usec + j->suspended_usec)
		return 0;
	/* The time that it stood still is taken off the end: taken off the start, a part of a second more there would
	 * let the whole go back by one. */
	return cli_between_sec(j->start_usec, end - j->suspended_usec);
}

int64_t cli_job_suspended_sec(const Mu__JobRow *j, int64_t now_usec)
{
	int64_t still =
	    j->state == JOB_SUSPENDED && now_usec > j->suspend_usec ? now_usec - j->suspend_usec : 0;

	return (j->suspended_usec + still) / 1000000;
}

int64_t cli_job_end_planned(const Mu__JobRow *j, int64_t now_usec)
{
	int64_t still =
	    j->state == JOB_SUSPENDED && now_usec > j->suspend_usec ? now_usec - j->suspend_usec : 0;

	return j->start_usec + j->suspended_usec + still + j->time_limit_sec * 1000000;
}

void cli_job_preempt_fields(const Mu__JobRow *j, struct mu_buf *out)
{
	mu_buf_str(out, "PreemptEligibleTime=");
	put_date(out, j->preempt_eligible_usec ? j->preempt_eligible_usec : j->start_usec, "Unknown");
	mu_buf_str(out, " PreemptTime=");
	put_date(out, j->preempt_usec, "None");
}

void cli_job_suspend_fields(const Mu__JobRow *j, struct mu_buf *out)
{
	bool ever = j->state != JOB_PENDING && j->suspend_usec;

	mu_buf_str(out, "SuspendTime=");
	put_date(out, ever ? j->suspend_usec : 0, "None");
	mu_buf_printf(out, " SecsPreSuspend=%" PRId64 " LastSchedEval=",
		      ever ? (j->suspend_usec - j->start_usec - j->suspended_usec) / 1000000 : 0);
	put_date(out, j->last_sched_usec, "Unknown");
	mu_buf_str(out, " Scheduler=Main");
}

void cli_job_reason(const Mu__JobRow *j, bool full, struct mu_buf *out)
{
	mu_buf_str(out, mu_job_reason_word(j->reason));
	if (j->reason == REASON_RaisedSignal && j->exit_signal) {
		const char *name = sigdescr_np(j->exit_signal);

		mu_buf_printf(out, ":%d(", j->exit_signal);
		for (; name && *name; name++) /* no blank: the reason is one word */
			mu_buf_printf(out, "%c", *name == ' ' ? '_' : *name);
		mu_buf_str(out, ")");
	}
	if (full && j->reason == REASON_ReqNodeNotAvail && j->reason_detail && *j->reason_detail)
		mu_buf_printf(out,
			      strncmp(j->reason_detail, "Unavail", 7) == 0 || strchr(j->reason_detail, ' ')
				  ? ", %s"
				  : ", UnavailableNodes:%s",
			      j->reason_detail);
}

void cli_gres_text(Mu__GresAsk *const *gres, size_t count, const char *prefix, struct mu_buf *out)
{
	for (size_t i = 0; i < count; i++) {
		mu_buf_printf(out, "%s%s%s", i ? "," : "", prefix, gres[i]->name ? gres[i]->name : "");
		if (gres[i]->type && *gres[i]->type)
			mu_buf_printf(out, ":%s", gres[i]->type);
		mu_buf_printf(out, ":%" PRIu64, gres[i]->count);
	}
}

const char *cli_job_hint(const Mu__JobSpec *s, const char *name)
{
	for (size_t i = 0; i < s->n_hint; i++) {
		if (strcmp(s->hint[i]->name, name) == 0)
			return s->hint[i]->value;
	}
	return NULL;
}

static uint32_t job_nodes(const Mu__JobRow *j)
{
	return j->node_count ? j->node_count : j->nodes_min ? j->nodes_min : 1;
}

static uint64_t job_memory(const Mu__JobRow *j, bool held)
{
	uint64_t mib = 0;

	if (held && j->n_alloc) {
		for (size_t i = 0; i < j->n_alloc; i++)
			mib += j->alloc[i]->mem_mib;
		return mib;
	}
	return j->mem_cpu_mib ? j->mem_cpu_mib * j->cpus_total : j->mem_node_mib * job_nodes(j);
}

/* What a job asks of one kind of device in all, as far as counts of nodes and tasks say. */
static void asked_gres(Mu__GresAsk *const *ask, size_t count, uint64_t times, struct mu_buf *out)
{
	for (size_t i = 0; i < count; i++) {
		const char *name = ask[i]->name ? ask[i]->name : "";

		mu_buf_printf(out, ",gres/%s=%" PRIu64, name, ask[i]->count * times);
		if (ask[i]->type && *ask[i]->type)
			mu_buf_printf(out, ",gres/%s:%s=%" PRIu64, name, ask[i]->type, ask[i]->count * times);
	}
}

static bool has_gpus(Mu__GresAsk *const *ask, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (ask[i]->name && strcmp(ask[i]->name, "gpu") == 0)
			return true;
	}
	return false;
}

static bool same_gres(const Mu__GresGot *a, const Mu__GresGot *b, bool type)
{
	return strcmp(a->name ? a->name : "", b->name ? b->name : "") == 0 &&
	       (!type || strcmp(a->type ? a->type : "", b->type ? b->type : "") == 0);
}

/* What it holds: each name in the order met, and each type of it. */
static void held_gres(const Mu__JobRow *j, struct mu_buf *out)
{
	const Mu__GresGot *seen[128];
	size_t n = 0;

	for (size_t i = 0; i < j->n_alloc; i++) {
		for (size_t g = 0; g < j->alloc[i]->n_gres; g++) {
			const Mu__GresGot *got = j->alloc[i]->gres[g];
			size_t k = 0;

			while (k < n && !same_gres(seen[k], got, true))
				k++;
			if (k == n && n < sizeof seen / sizeof *seen)
				seen[n++] = got;
		}
	}
	for (size_t k = 0; k < n; k++) {
		uint64_t all = 0, typed = 0;
		bool first = true;

		for (size_t m = 0; m < k; m++)
			first = first && !same_gres(seen[m], seen[k], false);
		for (size_t i = 0; i < j->n_alloc; i++) {
			for (size_t g = 0; g < j->alloc[i]->n_gres; g++) {
				const Mu__GresGot *got = j->alloc[i]->gres[g];

				all += same_gres(got, seen[k], false) ? got->count : 0;
				typed += same_gres(got, seen[k], true) ? got->count : 0;
			}
		}
		if (first)
			mu_buf_printf(out, ",gres/%s=%" PRIu64, seen[k]->name, all);
		if (seen[k]->type && *seen[k]->type)
			mu_buf_printf(out, ",gres/%s:%s=%" PRIu64, seen[k]->name, seen[k]->type, typed);
	}
}

static void job_gres(const Mu__JobRow *j, bool held, struct mu_buf *out)
{
	const Mu__JobSpec *s = cli_job_spec(j);
	bool task = has_gpus(s->gres_task, s->n_gres_task), node = has_gpus(s->gres, s->n_gres);

	if (held && j->n_alloc) {
		held_gres(j, out);
		return;
	}
	asked_gres(s->gres, s->n_gres, job_nodes(j), out);
	if (!node)
		asked_gres(s->gres_task, s->n_gres_task, j->ntasks ? j->ntasks : 1, out);
	if (!node && !task)
		asked_gres(s->gres_job, s->n_gres_job, 1, out);
}

void cli_job_tres(const Mu__JobRow *j, bool held, bool by_name, struct mu_buf *out)
{
	struct mu_buf gres MU_CLEANUP(mu_buf_free) = {0};
	uint64_t mem = job_memory(j, held);
	char size[24];

	mu_mem_print(mem, 0, size);
	job_gres(j, held, &gres);
	if (by_name) {
		mu_buf_printf(out, "billing=%u,cpu=%u%s", j->cpus_total, j->cpus_total,
			      gres.data ? (char *)gres.data : "");
		if (mem)
			mu_buf_printf(out, ",mem=%s", size);
		mu_buf_printf(out, ",node=%u", job_nodes(j));
	} else {
		mu_buf_printf(out, "cpu=%u", j->cpus_total);
		if (mem)
			mu_buf_printf(out, ",mem=%s", size);
		mu_buf_printf(out, ",node=%u,billing=%u%s", job_nodes(j), j->cpus_total,
			      gres.data ? (char *)gres.data : "");
	}
}

/* A pattern's letter for the batch step of JOB; NULL when only the node knows. */
static bool put_pattern(const Mu__JobRow *j, char letter, struct mu_buf *out)
{
	const Mu__JobSpec *s = cli_job_spec(j);

	switch (letter) {
	case 'j':
	case 'J':
		mu_buf_printf(out, "%u", j->id);
		return true;
	case 'A':
		mu_buf_printf(out, "%u", cli_job_family(j));
		return true;
	case 'a':
		mu_buf_printf(out, "%u", j->has_array_task ? j->array_task : 4294967294u);
		return true;
	case 'x':
		mu_buf_str(out, s->name ? s->name : "");
		return true;
	case 'u':
		mu_buf_str(out, j->user ? j->user : "");
		return true;
	case 'N':
		if (!j->batch_host)
			return false;
		mu_buf_str(out, j->batch_host);
		return true;
	case 'n':
	case 't':
		mu_buf_str(out, "0");
		return true;
	case '%':
		mu_buf_str(out, "%");
		return true;
	default:
		return false;
	}
}

void cli_job_path(const Mu__JobRow *j, ProtobufCBinaryData pattern, const char *none, struct mu_buf *out)
{
	const Mu__JobSpec *s = cli_job_spec(j);
	const char *p = pattern.len ? (const char *)pattern.data : none;
	size_t len = pattern.len ? pattern.len : strlen(none);
	bool literal = memchr(p, '\\', len) != NULL;

	if (len && p[0] != '/' && s->work_dir.len) {
		cli_put_bytes(out, s->work_dir, "");
		mu_buf_str(out, "/");
	}
	for (size_t i = 0; i < len; i++) {
		size_t k = i + 1, width = 0;
		struct mu_buf value MU_CLEANUP(mu_buf_free) = {0};

		if (literal && p[i] == '\\')
			continue;
		while (p[i] == '%' && k < len && p[k] >= '0' && p[k] <= '9' && width < 10)
			width = width * 10 + (size_t)(p[k++] - '0');
		if (literal || p[i] != '%' || k >= len || !put_pattern(j, p[k], &value)) {
			mu_buf_add(out, p + i, 1);
			continue;
		}
		for (size_t n = value.len; n < width && n < 10; n++)
			mu_buf_str(out, "0");
		mu_buf_add(out, value.data, value.len);
		i = k;
	}
}

#define GET(column) static void get_##column(const struct cli_cell *c, struct mu_buf *out)
#define SPEC cli_job_spec(c->job)

GET(zero)
{
	mu_buf_str(out, "0");
}
GET(zero_time)
{
	mu_buf_str(out, "0:00");
}
GET(star)
{
	mu_buf_str(out, "*");
}
GET(null)
{
	mu_buf_str(out, "(null)");
}
GET(empty)
{
	mu_buf_str(out, "");
}
GET(not_available)
{
	mu_buf_str(out, "N/A");
}
GET(account)
{
	text_or(out, c->job->account, "(null)");
}
GET(admin_comment)
{
	text_or(out, SPEC->admin_comment, "(null)");
}
GET(system_comment)
{
	text_or(out, c->job->system_comment, "(null)");
}
GET(container)
{
	text_or(out, SPEC->container, "");
}
GET(container_id)
{
	text_or(out, SPEC->container_id, "");
}
GET(comment)
{
	text_or(out, SPEC->comment, "(null)");
}
GET(dependency)
{
	cli_put_dependency(out, c->job);
}
GET(features)
{
	text_or(out, SPEC->features, "(null)");
}
GET(licenses)
{
	text_or(out, SPEC->licenses, "(null)");
}
GET(reservation)
{
	text_or(out, c->job->reservation && *c->job->reservation ? c->job->reservation : SPEC->reservation,
		"(null)");
}
GET(wckey)
{
	text_or(out, SPEC->wckey, "(null)");
}
GET(excluded)
{
	text_or(out, SPEC->nodes_excluded, "");
}
GET(required)
{
	text_or(out, SPEC->nodes_required, "");
}
GET(alloc_host)
{
	text_or(out, SPEC->submit_host, "N/A");
}
GET(qos)
{
	text_or(out, c->job->qos, "(null)");
}
GET(name)
{
	text_or(out, SPEC->name, "");
}
GET(user)
{
	text_or(out, c->job->user, "");
}
GET(group_name)
{
	text_or(out, c->job->group, "");
}
GET(cluster)
{
	text_or(out, c->cluster, "N/A");
}
GET(node_list)
{
	text_or(out, c->job->state == JOB_PENDING ? "" : c->job->node_list, "");
}
GET(alloc_sid)
{
	mu_buf_printf(out, "%u", SPEC->submit_sid);
}
GET(job_number)
{
	mu_buf_printf(out, "%u", c->job->id);
}
GET(job_id)
{
	cli_job_name(c->job, out);
}
GET(het_job)
{
	if (c->job->het_job)
		mu_buf_printf(out, "%u", c->job->het_job);
	else
		mu_buf_str(out, "N/A");
}
GET(het_offset)
{
	if (c->job->het_job)
		mu_buf_printf(out, "%u", c->job->het_offset);
	else
		mu_buf_str(out, "N/A");
}
GET(het_set)
{
	if (c->job->het_job)
		cli_job_het_set(c->job, out);
	else
		mu_buf_str(out, "N/A");
}
GET(array_job)
{
	mu_buf_printf(out, "%u", cli_job_family(c->job));
}
GET(array_task)
{
	if (c->job->array_job)
		cli_job_tasks(c->job, out);
	else
		mu_buf_str(out, "N/A");
}
GET(batch_flag)
{
	mu_buf_printf(out, "%d", SPEC->batch ? 1 : 0);
}
GET(core_spec)
{
	if (SPEC->has_core_spec)
		mu_buf_printf(out, "%u", SPEC->core_spec);
	else
		mu_buf_str(out, "N/A");
}
GET(contiguous)
{
	mu_buf_printf(out, "%d", SPEC->contiguous ? 1 : 0);
}
GET(requeue)
{
	mu_buf_printf(out, "%d", !SPEC->has_requeue || SPEC->requeue ? 1 : 0);
}
GET(restarts)
{
	mu_buf_printf(out, "%u", c->job->restarts);
}
GET(user_id)
{
	mu_buf_printf(out, "%u", c->job->uid);
}
GET(group_id)
{
	mu_buf_printf(out, "%u", c->job->gid);
}
GET(priority)
{
	mu_buf_printf(out, "%u", c->job->priority);
}
GET(nice)
{
	mu_buf_printf(out, "%d", SPEC->nice);
}
GET(cpus)
{
	mu_buf_printf(out, "%u", c->job->cpus_total);
}
GET(nodes)
{
	mu_buf_printf(out, "%u", job_nodes(c->job));
}
GET(tasks)
{
	mu_buf_printf(out, "%u", c->job->ntasks ? c->job->ntasks : 1);
}
GET(max_nodes)
{
	mu_buf_printf(out, "%u", c->job->nodes_max);
}
GET(tasks_per_core)
{
	mu_buf_printf(out, "%u", SPEC->ntasks_per_core);
}
GET(tasks_per_node)
{
	mu_buf_printf(out, "%u", SPEC->ntasks_per_node);
}
GET(tasks_per_socket)
{
	mu_buf_printf(out, "%u", SPEC->ntasks_per_socket);
}
GET(state)
{
	mu_buf_str(out, mu_job_state_compact(cli_job_state(c->job)));
}
GET(state_long)
{
	mu_buf_str(out, mu_job_state_long(cli_job_state(c->job)));
}
GET(reason)
{
	cli_job_reason(c->job, false, out);
}
GET(eligible_time)
{
	put_date(out, c->job->eligible_usec, "N/A");
}
GET(deadline)
{
	put_date(out, SPEC->deadline_usec, "N/A");
}
GET(last_sched)
{
	put_date(out, c->job->last_sched_usec, "N/A");
}
GET(submit_time)
{
	put_date(out, c->job->submit_usec, "N/A");
}
GET(preempt_time)
{
	put_date(out, c->job->preempt_usec, "N/A");
}
GET(exit_code)
{
	mu_buf_printf(out, "%d", c->job->exit_code);
}
GET(derived)
{
	mu_buf_printf(out, "%d", c->job->derived_code);
}
GET(std_in)
{
	cli_job_path(c->job, SPEC->std_in, "/dev/null", out);
}
GET(std_out)
{
	cli_job_path(c->job, SPEC->std_out, cli_job_output(c->job), out);
}
GET(work_dir)
{
	cli_put_bytes(out, SPEC->work_dir, "N/A");
}
GET(command)
{
	cli_put_bytes(out, SPEC->command, "(null)");
}

GET(std_err)
{
	const Mu__JobSpec *s = SPEC;

	cli_job_path(c->job, s->std_err.len ? s->std_err : s->std_out, cli_job_output(c->job), out);
}

GET(batch_host)
{
	text_or(out, c->job->state == JOB_PENDING ? NULL : c->job->batch_host, "n/a");
}

GET(cpus_per_task)
{
	if (c->job->cpus_per_task)
		mu_buf_printf(out, "%u", c->job->cpus_per_task);
	else
		mu_buf_str(out, "N/A");
}

GET(min_cpus)
{
	uint32_t n = SPEC->mincpus > c->job->cpus_per_task ? SPEC->mincpus : c->job->cpus_per_task;

	mu_buf_printf(out, "%u", n ? n : 1);
}

static void put_star(struct mu_buf *out, uint32_t n)
{
	if (n)
		mu_buf_printf(out, "%u", n);
	else
		mu_buf_str(out, "*");
}

GET(cores)
{
	put_star(out, SPEC->cores_per_socket);
}
GET(sockets)
{
	put_star(out, SPEC->sockets_per_node);
}
GET(threads)
{
	put_star(out, SPEC->threads_per_core);
}
GET(sct)
{
	put_star(out, SPEC->sockets_per_node);
	mu_buf_str(out, ":");
	put_star(out, SPEC->cores_per_socket);
	mu_buf_str(out, ":");
	put_star(out, SPEC->threads_per_core);
}

GET(min_memory)
{
	char text[24];

	mu_mem_print(c->job->mem_cpu_mib ? c->job->mem_cpu_mib : c->job->mem_node_mib,
		     c->flags & CELL_NOCONVERT, text);
	mu_buf_str(out, text);
}

GET(min_tmp)
{
	char text[24];

	mu_mem_print(SPEC->tmp_mib, c->flags & CELL_NOCONVERT, text);
	mu_buf_str(out, SPEC->tmp_mib ? text : "0");
}

GET(min_time)
{
	if (SPEC->has_time_min_sec)
		put_span(out, SPEC->time_min_sec);
	else
		mu_buf_str(out, "N/A");
}

GET(network)
{
	const Mu__JobSpec *s = SPEC;

	for (size_t i = 0; i < s->n_hint; i++) {
		if (strcmp(s->hint[i]->name, "network") == 0) {
			text_or(out, s->hint[i]->value, "(null)");
			return;
		}
	}
	mu_buf_str(out, "(null)");
}

const char *cli_job_oversubscribe(const Mu__JobRow *job)
{
	const Mu__JobSpec *s = cli_job_spec(job);
	for (size_t i = 0; i < job->n_alloc; i++)
		if (job->alloc[i]->share && *job->alloc[i]->share)
			return "YES";
	return s->exclusive ? "NO" : s->exclusive_user ? "USER" : s->oversubscribe ? "YES" : "OK";
}

GET(oversubscribe)
{
	mu_buf_str(out, cli_job_oversubscribe(c->job));
}

GET(partition)
{
	const Mu__JobSpec *s = SPEC;

	if (c->partition) {
		mu_buf_str(out, c->partition);
	} else if (c->job->state == JOB_PENDING && s->n_partition > 1) {
		for (size_t i = 0; i < s->n_partition; i++)
			mu_buf_printf(out, "%s%s", i ? "," : "", s->partition[i]);
	} else {
		mu_buf_str(out, c->job->partition ? c->job->partition : "");
	}
}

GET(pending_time)
{
	int64_t until = c->job->start_usec ? c->job->start_usec : c->now_usec;

	mu_buf_printf(out, "%" PRId64,
		      until > c->job->submit_usec ? (until - c->job->submit_usec) / 1000000 : 0);
}

/* The priority as a part of the greatest one, which Slurm prints with 14 digits; integers only. */
GET(priority_normal)
{
	uint64_t p = c->job->priority, scaled = p * 100000000000000ull / 4294967295ull;

	/* p * 1e14 overflows 64 bits for p > 184467: divide in two steps there. */
	if (p > 184467)
		scaled = p * 1000000ull / 4294967295ull * 100000000ull +
			 p * 1000000ull % 4294967295ull * 1000ull / 42949ull;
	mu_buf_printf(out, "0.%014" PRIu64, scaled);
}

GET(reason_list)
{
	switch (c->job->state) {
	case JOB_PENDING:
	case JOB_TIMEOUT:
	case JOB_OUT_OF_MEMORY:
	case JOB_DEADLINE:
	case JOB_FAILED:
		mu_buf_str(out, "(");
		cli_job_reason(c->job, true, out);
		mu_buf_str(out, ")");
		break;
	default:
		mu_buf_str(out, cli_job_nodes(c->job));
		break;
	}
}

GET(sched_nodes)
{
	text_or(out, c->job->state == JOB_PENDING ? c->job->plan_nodes : NULL, "(null)");
}

GET(start_time)
{
	const Mu__JobRow *j = c->job;
	int64_t begin = j->eligible_usec > c->now_usec ? j->eligible_usec : 0;

	put_date(out,
		 j->state != JOB_PENDING ? j->start_usec
		 : j->plan_start_usec	 ? j->plan_start_usec
					 : begin,
		 "N/A");
}

GET(end_time)
{
	const Mu__JobRow *j = c->job;
	int64_t end = cli_job_end(j);

	if (!end && j->start_usec && j->time_limit_sec > 0)
		end = cli_job_end_planned(j, c->now_usec);
	if (!end && j->plan_start_usec && j->time_limit_sec > 0)
		end = j->plan_start_usec + j->time_limit_sec * 1000000;
	put_date(out, j->state == JOB_PENDING && !j->plan_start_usec ? 0 : end, "N/A");
}

GET(time_limit)
{
	if (c->job->has_time_limit_sec && c->job->time_limit_sec)
		put_span(out, c->job->time_limit_sec);
	else
		mu_buf_str(out, "NOT_SET");
}

GET(time_left)
{
	if (!c->job->has_time_limit_sec || !c->job->time_limit_sec)
		mu_buf_str(out, "NOT_SET");
	else if (c->job->time_limit_sec < 0)
		mu_buf_str(out, "UNLIMITED");
	else if (c->job->time_limit_sec < cli_job_elapsed_sec(c->job, c->now_usec))
		put_span(out, 0);
	else
		put_span(out, c->job->time_limit_sec - cli_job_elapsed_sec(c->job, c->now_usec));
}

GET(time_used)
{
	put_span(out, cli_job_elapsed_sec(c->job, c->now_usec));
}

GET(tres_alloc)
{
	if (c->job->state == JOB_PENDING)
		mu_buf_str(out, "N/A");
	else
		cli_job_tres(c->job, true, false, out);
}

GET(gres)
{
	const Mu__JobSpec *s = SPEC;

	if (s->n_gres)
		cli_gres_text(s->gres, s->n_gres, "gres:", out);
	else
		mu_buf_str(out, "N/A");
}

GET(gres_job)
{
	if (SPEC->n_gres_job)
		cli_gres_text(SPEC->gres_job, SPEC->n_gres_job, "gres:", out);
	else
		mu_buf_str(out, "N/A");
}

GET(gres_task)
{
	if (SPEC->n_gres_task)
		cli_gres_text(SPEC->gres_task, SPEC->n_gres_task, "gres:", out);
	else
		mu_buf_str(out, "N/A");
}

GET(gres_socket)
{
	const char *text = cli_job_hint(SPEC, "gpus-per-socket");

	if (text)
		mu_buf_printf(out, "gres:gpu:%s", text);
	else
		mu_buf_str(out, "N/A");
}

/* ---- steps ---- */

GET(step_id)
{
	if (c->job)
		cli_job_name(c->job, out);
	else
		mu_buf_printf(out, "%u", c->step->job);
	if (c->step->step == MU_STEP_BATCH)
		mu_buf_str(out, ".batch");
	else if (c->step->step == MU_STEP_EXTERN)
		mu_buf_str(out, ".extern");
	else
		mu_buf_printf(out, ".%u", c->step->step);
}

GET(step_name)
{
	text_or(out, c->step->name, "");
}
GET(step_partition)
{
	text_or(out, c->job ? c->job->partition : NULL, "N/A");
}
GET(step_user)
{
	text_or(out, c->job ? c->job->user : NULL, "N/A");
}
GET(step_user_id)
{
	mu_buf_printf(out, "%u", c->job ? c->job->uid : 0);
}
GET(step_nodes)
{
	text_or(out, c->step->node_list, "");
}
GET(step_tasks)
{
	mu_buf_printf(out, "%u", c->step->tasks);
}
GET(step_cpus)
{
	mu_buf_printf(out, "%u", c->step->cpus);
}
GET(step_start)
{
	put_date(out, c->step->start_usec, "N/A");
}
GET(step_job)
{
	mu_buf_printf(out, "%u", c->step->job);
}
GET(step_state)
{
	mu_buf_str(out, mu_job_state_long(c->step->state));
}
GET(step_limit)
{
	mu_buf_str(out, "UNLIMITED");
}
GET(step_time)
{
	int64_t end = c->step->end_usec ? c->step->end_usec : c->now_usec;

	put_span(out, cli_between_sec(c->step->start_usec, end));
}

GET(step_gres)
{
	for (size_t i = 0; i < c->step->n_gres; i++)
		mu_buf_printf(out, "%sgres:%s:%" PRIu64, i ? "," : "", c->step->gres[i]->name,
			      c->step->gres[i]->count);
	if (!c->step->n_gres)
		mu_buf_str(out, "N/A");
}

static const struct cli_column job_columns[] = {
#define MU_COLUMN_JOB(letter, name, heading, getter) {letter, name, heading, 20, 0, get_##getter},
#include "proto/columns.def"
};
static const struct cli_column step_columns[] = {
#define MU_COLUMN_STEP(letter, name, heading, getter) {letter, name, heading, 20, 0, get_##getter},
#include "proto/columns.def"
};
const struct cli_columns cli_job_columns = {job_columns, sizeof job_columns / sizeof *job_columns};
const struct cli_columns cli_step_columns = {step_columns, sizeof step_columns / sizeof *step_columns};
