/* cli/column_acct.c: the columns of sacct. A cell is a job (step NULL) or one of its steps. */
#include <inttypes.h>
#include <string.h>

#include "cli/array.h"
#include "cli/column.h"
#include "proto/base/map.h"
#include "proto/states.h"
#include "proto/usage.h"

#define GET(column) static void get_##column(const struct cli_cell *c, struct mu_buf *out)
#define SPEC cli_job_spec(c->job)

static void text(struct mu_buf *out, const char *s)
{
	mu_buf_str(out, s ? s : "");
}

static void put_span(struct mu_buf *out, int64_t sec)
{
	char span[32];

	mu_span_print(sec < 0 ? 0 : sec, 0, span);
	mu_buf_str(out, span);
}

static void put_date(struct mu_buf *out, int64_t usec)
{
	char date[32];

	mu_date_print(usec, &cli_zone, date); /* "Unknown" for 0 */
	mu_buf_str(out, date);
}

/* Slurm's CPU times: "00:00.123" under an hour, then HH:MM:SS, then days. */
static void put_cpu(struct mu_buf *out, int64_t usec)
{
	int64_t sec = usec / 1000000;

	if (sec < 3600)
		mu_buf_printf(out, "%02d:%02d.%03d", (int)(sec / 60), (int)(sec % 60),
			      (int)(usec % 1000000 / 1000));
	else
		put_span(out, sec);
}

static bool is_step(const struct cli_cell *c)
{
	return c->step != NULL;
}

/* Batch and extern rows belong to the job as a whole: no partition, no asked-for values. */
static int64_t start_of(const struct cli_cell *c)
{
	int64_t t = is_step(c) ? c->step->start_usec : c->job->start_usec;

	if (!is_step(c) && c->job->state == JOB_PENDING)
		return 0;
	return t && c->from_usec && t < c->from_usec ? c->from_usec : t;
}

static int64_t end_of(const struct cli_cell *c)
{
	int64_t t = is_step(c) ? c->step->end_usec : cli_job_end(c->job);

	if (t && c->to_usec && t > c->to_usec)
		return c->to_usec;
	return t;
}

static int64_t elapsed(const struct cli_cell *c)
{
	int64_t start = start_of(c), end = end_of(c);

	if (!start)
		return 0;
	if (!end)
		end = c->to_usec && c->to_usec < c->now_usec ? c->to_usec : c->now_usec;
	if (!is_step(c) && !c->from_usec && !c->to_usec)
		return cli_job_elapsed_sec(c->job, c->now_usec);
	return end > start ? cli_between_sec(start, end) : 0;
}

static bool started(const struct cli_cell *c)
{
	return c->job->start_usec || c->job->node_count;
}

static uint32_t held_cpus(const struct cli_cell *c)
{
	return is_step(c) ? c->step->cpus : started(c) ? c->job->cpus_total : 0;
}

static const Mu__Usage *usage(const struct cli_cell *c)
{
	return is_step(c) ? c->step->usage : NULL;
}

GET(empty)
{
	text(out, "");
}
GET(assoc_id)
{
	mu_buf_printf(out, "%u", c->job->assoc);
}
GET(account)
{
	text(out, c->job->account);
}
GET(admin_comment)
{
	text(out, is_step(c) ? "" : SPEC->admin_comment);
}
GET(system_comment)
{
	text(out, is_step(c) ? "" : c->job->system_comment);
}
GET(container)
{
	text(out, is_step(c) ? c->step->container : SPEC->container);
}
GET(comment)
{
	text(out, is_step(c) ? "" : SPEC->comment);
}
GET(cluster)
{
	text(out, c->cluster);
}
GET(constraints)
{
	text(out, is_step(c) ? "" : SPEC->features);
}
GET(licenses)
{
	text(out, is_step(c) ? "" : SPEC->licenses);
}
GET(reservation)
{
	text(out, is_step(c) ? "" : c->job->reservation ? c->job->reservation : SPEC->reservation);
}
GET(wckey)
{
	text(out, is_step(c) ? "" : SPEC->wckey);
}
GET(partition)
{
	text(out, is_step(c) ? "" : c->job->partition);
}
GET(qos)
{
	text(out, is_step(c) ? "" : c->job->qos);
}
GET(qos_raw)
{
	const Mu__QosRow *q = c->qos_ids && c->job->qos ? mu_map_get_str(c->qos_ids, c->job->qos) : NULL;

	if (!is_step(c))
		mu_buf_printf(out, "%u", q ? q->id : 0);
}
GET(qos_asked)
{
	text(out, is_step(c) ? "" : SPEC->qos);
}
GET(user)
{
	text(out, is_step(c) ? "" : c->job->user);
}
GET(group)
{
	text(out, is_step(c) ? "" : c->job->group);
}
GET(submit_line)
{
	text(out, is_step(c) ? c->step->submit_line : SPEC->submit_line);
}
GET(step_zero)
{
	text(out, is_step(c) ? "0" : "");
}
GET(job_zero)
{
	text(out, "0");
}
GET(flags)
{
	text(out, is_step(c) ? "" : started(c) ? "SchedMain" : "");
}
GET(layout)
{
	text(out, is_step(c) ? (c->step->step < MU_STEP_BATCH ? "Block" : "Unknown") : "");
}
GET(req_freq)
{
	text(out, is_step(c) ? (c->step->step < MU_STEP_BATCH ? "Unknown" : "0") : "Unknown");
}
GET(failed_node)
{
	text(out, "");
}
GET(alloc_cpus)
{
	mu_buf_printf(out, "%u", held_cpus(c));
}
GET(elapsed)
{
	put_span(out, elapsed(c));
}
GET(elapsed_raw)
{
	mu_buf_printf(out, "%" PRId64, elapsed(c));
}
GET(cpu_time)
{
	put_span(out, elapsed(c) * held_cpus(c));
}
GET(cpu_time_raw)
{
	mu_buf_printf(out, "%" PRId64, elapsed(c) * held_cpus(c));
}
GET(start)
{
	put_date(out, start_of(c));
}
GET(end)
{
	put_date(out, end_of(c));
}
GET(submit)
{
	put_date(out, is_step(c) ? c->step->start_usec : c->job->submit_usec);
}
GET(eligible)
{
	put_date(out, is_step(c) ? c->step->start_usec : c->job->eligible_usec);
}
GET(suspended)
{
	put_span(out, is_step(c) ? 0 : cli_job_suspended_sec(c->job, c->now_usec));
}
GET(db_index)
{
	mu_buf_printf(out, "%" PRIu64, c->job->submit_pos);
}

static void put_job_only(const struct cli_cell *c, struct mu_buf *out, uint64_t value)
{
	if (!is_step(c))
		mu_buf_printf(out, "%" PRIu64, value);
}

GET(gid)
{
	put_job_only(c, out, c->job->gid);
}
GET(uid)
{
	put_job_only(c, out, c->job->uid);
}
GET(priority)
{
	put_job_only(c, out, c->job->priority);
}
GET(restarts)
{
	put_job_only(c, out, c->job->restarts);
}

static void put_step(const struct cli_cell *c, struct mu_buf *out)
{
	if (is_step(c) && c->step->step == MU_STEP_BATCH)
		mu_buf_str(out, ".batch");
	else if (is_step(c) && c->step->step == MU_STEP_EXTERN)
		mu_buf_str(out, ".extern");
	else if (is_step(c))
		mu_buf_printf(out, ".%u", c->step->step);
}

GET(job_id)
{
	cli_job_name(c->job, out);
	put_step(c, out);
}

GET(job_id_raw)
{
	mu_buf_printf(out, "%u", c->job->id);
	put_step(c, out);
}

GET(job_name)
{
	if (is_step(c) && c->step->step == MU_STEP_BATCH)
		mu_buf_str(out, "batch");
	else
		text(out, is_step(c) ? c->step->name : SPEC->name);
}

GET(state)
{
	uint32_t state = is_step(c) ? c->step->state : c->job->state;
	bool told = is_step(c) ? c->step->has_canceller : c->job->has_canceller;

	/* Accounting knows no COMPLETING: until all nodes have let go the job has the state it will have; one
	 * that will wait again has not ended. */
	if (!is_step(c) && state == JOB_COMPLETING)
		state = c->job->requeue_after && c->job->end_state != JOB_PREEMPTED ? JOB_REQUEUED
			: c->job->end_state					    ? c->job->end_state
										    : JOB_RUNNING;
	mu_buf_str(out, mu_job_state_long(state));
	if (state == JOB_CANCELLED && told && !is_step(c))
		mu_buf_printf(out, " by %u", c->job->cancelled_by);
}

GET(exit_code)
{
	int32_t code = is_step(c) ? c->step->exit_code : c->job->exit_code;
	int32_t signal = is_step(c) ? c->step->exit_signal : c->job->exit_signal;

	mu_buf_printf(out, "%d:%d", code, signal);
}

GET(derived)
{
	if (!is_step(c))
		mu_buf_printf(out, "%d:%d", c->job->derived_code, c->job->derived_signal);
}

GET(alloc_nodes)
{
	mu_buf_printf(out, "%u", is_step(c) ? c->step->node_count : started(c) ? c->job->node_count : 0);
}
GET(nnodes)
{
	mu_buf_printf(out, "%u",
		      is_step(c)	   ? c->step->node_count
		      : c->job->node_count ? c->job->node_count
		      : c->job->nodes_min  ? c->job->nodes_min
					   : 1);
}
GET(req_nodes)
{
	mu_buf_printf(out, "%u",
		      is_step(c)	  ? c->step->node_count
		      : c->job->nodes_min ? c->job->nodes_min
					  : 1);
}
GET(req_cpus)
{
	mu_buf_printf(out, "%u", is_step(c) ? c->step->cpus : c->job->cpus_total);
}

GET(ntasks)
{
	if (is_step(c))
		mu_buf_printf(out, "%u", c->step->tasks ? c->step->tasks : 1);
}

GET(node_list)
{
	const char *list = is_step(c) ? c->step->node_list : cli_job_nodes(c->job);

	text(out, list && *list ? list : is_step(c) ? "" : "None assigned");
}

GET(reason)
{
	if (!is_step(c))
		mu_buf_str(out, mu_job_reason_word(c->job->reason));
}

GET(planned)
{
	if (!is_step(c))
		put_span(out, ((c->job->start_usec    ? c->job->start_usec
				: cli_job_end(c->job) ? cli_job_end(c->job)
						      : c->now_usec) -
			       (c->job->eligible_usec ? c->job->eligible_usec : c->job->submit_usec)) /
				  1000000);
}

static int64_t planned_cpu_sec(const struct cli_cell *c)
{
	int64_t until = c->job->start_usec    ? c->job->start_usec
			: cli_job_end(c->job) ? cli_job_end(c->job)
					      : c->now_usec;
	int64_t from = c->job->eligible_usec ? c->job->eligible_usec : c->job->submit_usec;

	return until > from ? (until - from) / 1000000 * c->job->cpus_total : 0;
}

GET(planned_cpu)
{
	if (!is_step(c))
		put_span(out, planned_cpu_sec(c));
}

GET(planned_cpu_raw)
{
	if (!is_step(c))
		mu_buf_printf(out, "%" PRId64, planned_cpu_sec(c));
}

/* Megabytes as "100M", "4G"; in the unit asked for with --units. */
static void put_mem(const struct cli_cell *c, struct mu_buf *out, uint64_t mib)
{
	static const char units[] = "KMGTP";
	const char *u = c->unit ? strchr(units, c->unit) : NULL;
	char size[24];

	if (!u) {
		mu_mem_print(mib, c->flags & CELL_NOCONVERT, size);
		mu_buf_str(out, size);
	} else if (u == units) {
		mu_buf_printf(out, "%" PRIu64 "K", mib * 1024);
	} else {
		uint64_t unit = UINT64_C(1) << (10 * (u - units - 1));

		mu_buf_printf(out, "%" PRIu64, mib / unit);
		if (mib % unit)
			mu_buf_printf(out, ".%02" PRIu64, mib % unit * 100 / unit);
		mu_buf_printf(out, "%c", *u);
	}
}

/* Kilobytes of use: "1234K" as long as that is short, in the unit asked for otherwise. */
static void put_kib(const struct cli_cell *c, struct mu_buf *out, uint64_t kib)
{
	static const char units[] = "KMGTP";
	const char *u = c->unit ? strchr(units, c->unit) : units;
	uint64_t unit;

	if (!kib) {
		mu_buf_str(out, "0");
		return;
	}
	if (c->flags & CELL_NOCONVERT)
		u = units;
	else if (!c->unit && kib >= 1024 * 1024 && kib % 1024 == 0)
		u = units + 1;
	unit = UINT64_C(1) << (10 * (u - units));
	mu_buf_printf(out, "%" PRIu64, kib / unit);
	if (kib % unit)
		mu_buf_printf(out, ".%02" PRIu64, kib % unit * 100 / unit);
	mu_buf_printf(out, "%c", *u);
}

GET(req_mem)
{
	uint64_t nodes = c->job->nodes_min ? c->job->nodes_min : 1;

	if (!is_step(c))
		put_mem(c, out,
			c->job->mem_cpu_mib ? c->job->mem_cpu_mib * c->job->cpus_total
					    : c->job->mem_node_mib * nodes);
}

GET(req_tres)
{
	if (!is_step(c))
		cli_job_tres(c->job, false, true, out);
}

GET(alloc_tres)
{
	if (!is_step(c)) {
		if (started(c))
			cli_job_tres(c->job, true, true, out);
		return;
	}
	mu_buf_printf(out, "cpu=%u", c->step->cpus);
	for (size_t i = 0; i < c->step->n_gres; i++)
		mu_buf_printf(out, ",gres/%s=%" PRIu64, c->step->gres[i]->name, c->step->gres[i]->count);
	if (c->step->mem_mib) {
		mu_buf_str(out, ",mem=");
		put_mem(&(struct cli_cell){0}, out, c->step->mem_mib);
	}
	mu_buf_printf(out, ",node=%u", c->step->node_count ? c->step->node_count : 1);
}

static void put_megabytes(struct mu_buf *out, uint64_t bytes)
{
	uint64_t hundredths = bytes * 100 / (1024 * 1024);

	mu_buf_printf(out, "%" PRIu64 ".%02" PRIu64 "M", hundredths / 100, hundredths % 100);
}

/* ---- what steps used, measure by measure ---- */

enum pick { AVE, MAX, MAX_NODE, MAX_TASK, MIN, MIN_NODE, MIN_TASK, TOT };

/* Records from before measures were kept have peaks and bytes alone. */
static bool find_measure(const struct cli_cell *c, uint32_t kind, Mu__UsageMeasure *ret)
{
	const Mu__Usage *u = usage(c);
	const Mu__UsageMeasure *m = mu_usage_measure(u, kind);

	if (m)
		*ret = *m;
	else
		mu__usage_measure__init(ret);
	if (m || !u)
		return m != NULL;
	switch (kind) {
	case MU_MEASURE_CPU:
		ret->total = (uint64_t)(u->user_cpu_usec + u->sys_cpu_usec);
		break;
	case MU_MEASURE_MEM:
		ret->max = u->max_rss_kib * 1024;
		ret->total = (u->ave_rss_kib ? u->ave_rss_kib : u->max_rss_kib) * 1024 *
			     (c->step->tasks ? c->step->tasks : 1);
		ret->max_node = u->max_rss_node;
		ret->max_task = u->max_rss_task;
		return true;
	case MU_MEASURE_VMEM:
		ret->total = u->max_vsize_kib * 1024;
		break;
	case MU_MEASURE_READ:
		ret->total = u->read_bytes;
		break;
	case MU_MEASURE_WRITE:
		ret->total = u->write_bytes;
		break;
	default:
		break;
	}
	ret->max = ret->min = ret->total;
	return true;
}

static void put_place(const struct cli_cell *c, struct mu_buf *out, const Mu__UsageMeasure *m, enum pick p)
{
	const char *node = p == MAX_NODE ? m->max_node : m->min_node;

	if (p == MAX_TASK || p == MIN_TASK)
		mu_buf_printf(out, "%u", p == MAX_TASK ? m->max_task : m->min_task);
	else
		text(out, node && *node ? node : c->step->node_list);
}

static uint64_t picked(const struct cli_cell *c, const Mu__UsageMeasure *m, enum pick p)
{
	return p == AVE	  ? m->total / (c->step->tasks ? c->step->tasks : 1)
	       : p == MAX ? m->max
	       : p == MIN ? m->min
			  : m->total;
}

static bool is_place(enum pick p)
{
	return p == MAX_NODE || p == MAX_TASK || p == MIN_NODE || p == MIN_TASK;
}

static void put_measure(const struct cli_cell *c, struct mu_buf *out, uint32_t kind, enum pick p)
{
	Mu__UsageMeasure m;

	if (!find_measure(c, kind, &m))
		return;
	uint64_t value = picked(c, &m, p);

	if (is_place(p))
		put_place(c, out, &m, p);
	else if (kind == MU_MEASURE_CPU)
		put_span(out, (int64_t)(value / 1000000));
	else if (kind == MU_MEASURE_MEM || kind == MU_MEASURE_VMEM)
		put_kib(c, out, value / 1024);
	else if (kind == MU_MEASURE_PAGES)
		mu_buf_printf(out, "%" PRIu64, value);
	else
		put_megabytes(out, value);
}

static bool is_gpu(uint32_t kind)
{
	return kind == MU_MEASURE_GPU_UTIL || kind == MU_MEASURE_GPU_MEM;
}

/* "cpu=00:00:01,energy=0,fs/disk=2012,mem=5188K,pages=0,vmem=148528K", or nodes, or tasks, in their place. */
static void put_usage(const struct cli_cell *c, struct mu_buf *out, bool in, enum pick p)
{
	static const struct {
		const char *name;
		uint32_t in, out; /* measures; 0: none */
	} row[] = {{"cpu", MU_MEASURE_CPU, 0},
		   {"energy", UINT32_MAX, UINT32_MAX},
		   {"fs/disk", MU_MEASURE_READ, MU_MEASURE_WRITE},
		   {"gres/gpumem", MU_MEASURE_GPU_MEM, 0},
		   {"gres/gpuutil", MU_MEASURE_GPU_UTIL, 0},
		   {"mem", MU_MEASURE_MEM, 0},
		   {"pages", MU_MEASURE_PAGES, 0},
		   {"vmem", MU_MEASURE_VMEM, 0}};
	bool first = true;

	for (size_t i = 0; usage(c) && i < sizeof row / sizeof *row; i++) {
		uint32_t kind = in ? row[i].in : row[i].out;
		Mu__UsageMeasure m = MU__USAGE_MEASURE__INIT;

		if (!kind || (kind != UINT32_MAX && !find_measure(c, kind, &m)))
			continue;
		if (is_gpu(kind) && !mu_usage_measure(usage(c), kind))
			continue;
		mu_buf_printf(out, "%s%s=", first ? "" : ",", row[i].name);
		first = false;
		if (is_place(p))
			put_place(c, out, &m, p);
		else if (kind == MU_MEASURE_CPU)
			put_span(out, (int64_t)(picked(c, &m, p) / 1000000));
		else if (kind == MU_MEASURE_MEM || kind == MU_MEASURE_VMEM || kind == MU_MEASURE_GPU_MEM)
			mu_buf_printf(out, "%" PRIu64 "K", picked(c, &m, p) / 1024);
		else
			mu_buf_printf(out, "%" PRIu64, picked(c, &m, p));
	}
}

#define MEASURE(name, kind, pick)                             \
	GET(name)                                             \
	{                                                     \
		put_measure(c, out, MU_MEASURE_##kind, pick); \
	}
#define USAGE(name, in, pick)                \
	GET(name)                            \
	{                                    \
		put_usage(c, out, in, pick); \
	}
MEASURE(ave_diskread, READ, AVE)
MEASURE(max_diskread, READ, MAX)
MEASURE(max_diskread_node, READ, MAX_NODE)
MEASURE(max_diskread_task, READ, MAX_TASK)
MEASURE(ave_diskwrite, WRITE, AVE)
MEASURE(max_diskwrite, WRITE, MAX)
MEASURE(max_diskwrite_node, WRITE, MAX_NODE)
MEASURE(max_diskwrite_task, WRITE, MAX_TASK)
MEASURE(ave_pages, PAGES, AVE)
MEASURE(max_pages, PAGES, MAX)
MEASURE(max_pages_node, PAGES, MAX_NODE)
MEASURE(max_pages_task, PAGES, MAX_TASK)
MEASURE(ave_rss, MEM, AVE)
MEASURE(max_rss, MEM, MAX)
MEASURE(max_rss_node, MEM, MAX_NODE)
MEASURE(max_rss_task, MEM, MAX_TASK)
MEASURE(ave_vmsize, VMEM, AVE)
MEASURE(max_vmsize, VMEM, MAX)
MEASURE(max_vmsize_node, VMEM, MAX_NODE)
MEASURE(max_vmsize_task, VMEM, MAX_TASK)
MEASURE(ave_cpu, CPU, AVE)
MEASURE(min_cpu, CPU, MIN)
MEASURE(min_cpu_node, CPU, MIN_NODE)
MEASURE(min_cpu_task, CPU, MIN_TASK)
USAGE(usage_in_ave, true, AVE)
USAGE(usage_in_max, true, MAX)
USAGE(usage_in_max_node, true, MAX_NODE)
USAGE(usage_in_max_task, true, MAX_TASK)
USAGE(usage_in_min, true, MIN)
USAGE(usage_in_min_node, true, MIN_NODE)
USAGE(usage_in_min_task, true, MIN_TASK)
USAGE(usage_in_tot, true, TOT)
USAGE(usage_out_ave, false, AVE)
USAGE(usage_out_max, false, MAX)
USAGE(usage_out_max_node, false, MAX_NODE)
USAGE(usage_out_max_task, false, MAX_TASK)
USAGE(usage_out_min, false, MIN)
USAGE(usage_out_min_node, false, MIN_NODE)
USAGE(usage_out_min_task, false, MIN_TASK)
USAGE(usage_out_tot, false, TOT)

/* A job's CPU time is that of its steps together. */
static const Mu__Usage *sum(const struct cli_cell *c)
{
	static const Mu__Usage none = MU__USAGE__INIT;
	const Mu__Usage *u = is_step(c) ? c->step->usage : c->usage;

	return u ? u : &none;
}

GET(user_cpu)
{
	put_cpu(out, sum(c)->user_cpu_usec);
}
GET(system_cpu)
{
	put_cpu(out, sum(c)->sys_cpu_usec);
}
GET(total_cpu)
{
	put_cpu(out, sum(c)->user_cpu_usec + sum(c)->sys_cpu_usec);
}

GET(time_limit)
{
	if (is_step(c))
		return;
	if (!SPEC->has_time_limit_sec)
		mu_buf_str(out, "Partition_Limit");
	else if (SPEC->time_limit_sec < 0)
		mu_buf_str(out, "UNLIMITED");
	else
		put_span(out, c->job->time_limit_sec ? c->job->time_limit_sec : SPEC->time_limit_sec);
}

GET(time_limit_raw)
{
	if (is_step(c))
		return;
	if (!SPEC->has_time_limit_sec)
		mu_buf_str(out, "Partition_Limit");
	else if (SPEC->time_limit_sec < 0)
		mu_buf_str(out, "UNLIMITED");
	else
		mu_buf_printf(out, "%" PRId64,
			      (c->job->time_limit_sec ? c->job->time_limit_sec : SPEC->time_limit_sec) / 60);
}

GET(work_dir)
{
	if (!is_step(c))
		cli_put_bytes(out, SPEC->work_dir, "");
}

GET(std_in)
{
	if (!is_step(c))
		cli_job_path(c->job, SPEC->std_in, "/dev/null", out);
}

GET(std_out)
{
	if (!is_step(c))
		cli_job_path(c->job, SPEC->std_out, cli_job_output(c->job), out);
}

GET(std_err)
{
	if (!is_step(c))
		cli_job_path(c->job, SPEC->std_err.len ? SPEC->std_err : SPEC->std_out,
			     cli_job_output(c->job), out);
}

static const struct cli_column acct_columns[] = {
#define MU_COLUMN_ACCT(name, width, flags, getter) {0, name, name, width, flags, get_##getter},
#include "proto/columns.def"
};
const struct cli_columns cli_acct_columns = {acct_columns, sizeof acct_columns / sizeof *acct_columns};
