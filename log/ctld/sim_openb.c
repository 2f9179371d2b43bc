/* ctld/sim_openb.c: the openb GPU trace: its nodes as a configuration, its tasks as jobs, and how well the GPUs were
 * used. A task that asks for a part of a GPU gets a whole one: nodes give out devices, not parts of them; what is
 * asked for is counted beside what is held. */
#include "log/ctld/sim.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/pb.h"

enum { COLUMNS = 16, SAMPLE_EVERY = 256 };
/* Longer than the trace: with --stay nobody leaves. */
static const int64_t STAY_USEC = INT64_C(3650) * 86400 * 1000000;

/* ---- reading ---- */

/* Fields of one line, which is cut up. The trace quotes nothing. */
static size_t fields(char *text, char **ret)
{
	size_t n = 0;

	text[strcspn(text, "\r\n")] = 0;
	for (char *p = text; p && n < COLUMNS; n++) {
		ret[n] = p;
		p = strchr(p, ',');
		if (p)
			*p++ = 0;
	}
	return n;
}

typedef int (*line_sink)(void *arg, char **field, struct mu_err *err);

static int read_csv(const char *path, size_t columns, line_sink sink, void *arg, struct mu_err *err)
{
	struct sim_file file;
	struct mu_err late = {0};
	char *text = NULL, *field[COLUMNS];
	size_t room = 0, number = 0;
	int code = sim_open(path, &file, err);

	while (!code && getline(&text, &room, file.in) > 0) {
		if (!number++ || !text[strspn(text, "\r\n")])
			continue;
		if (fields(text, field) != columns)
			code = mu_fail(err, MU_EINVAL, "%s:%zu: a line of this table has %zu columns", path, number, columns);
		else
			code = sink(arg, field, err);
	}
	free(text);
	if (file.in && sim_close(&file, path, code ? &late : err) && !code)
		code = MU_ECORRUPT;
	return code;
}

static int64_t whole(const char *text)
{
	return strtoll(text, NULL, 10);
}

/* sn,cpu_milli,memory_mib,gpu,model */
static int add_node(void *arg, char **f, struct mu_err *err)
{
	struct sim_openb *o = arg;

	(void)err;
	mu_buf_printf(&o->conf, "NodeName=%s CPUs=%" PRId64 " RealMemory=%s Weight=%" PRId64 " Feature=%s", f[0], whole(f[1]) / 1000, f[2],
		      o->by_gpus ? 1 + whole(f[3]) : 1, f[4]);
	mu_buf_printf(&o->conf, whole(f[3]) ? " Gres=gpu:%s:%s\n" : "\n", f[4], f[3]);
	o->nodes++;
	return 0;
}

/* name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time */
static int add_task(void *arg, char **f, struct mu_err *err)
{
	struct sim_openb *o = arg;
	struct sim_work *w = o->w;
	struct sch_sim_job *j = sim_work_add(w);
	int64_t since = whole(f[8]), until = whole(f[9]), begun = f[10][0] ? whole(f[10]) : since;

	(void)err;
	j->spec = mu_arena_alloc(&w->arena, sizeof *j->spec);
	mu__job_spec__init(j->spec);
	j->spec->has_ntasks = j->spec->has_batch = j->spec->has_cpus_per_task = j->spec->has_mem_node_mib = 1;
	j->spec->has_nodes_min = j->spec->has_nodes_max = 1;
	j->spec->nodes_min = j->spec->nodes_max = 1;
	j->spec->ntasks = j->spec->batch = 1;
	j->spec->cpus_per_task = (uint32_t)((whole(f[1]) + 999) / 1000);
	if (!j->spec->cpus_per_task)
		j->spec->cpus_per_task = 1;
	j->spec->mem_node_mib = (uint64_t)whole(f[2]) ? (uint64_t)whole(f[2]) : 1;
	if (f[5][0])
		j->spec->features = mu_arena_strdup(&w->arena, f[5]);
	if (whole(f[3])) {
		Mu__GresAsk *g = mu_arena_alloc(&w->arena, sizeof *g);
		mu__gres_ask__init(g);
		g->name = "gpu";
		g->has_count = 1;
		g->count = (uint64_t)whole(f[3]);
		j->spec->gres = mu_arena_dup(&w->arena, &g, sizeof g);
		j->spec->n_gres = 1;
	}
	j->author = sim_work_user(w, f[6][0] ? f[6] : "none", 1000 + (uint32_t)w->people.count);
	j->submit_usec = w->begin_usec + (o->stay ? (int64_t)w->count : since) * 1000000;
	j->run_usec = o->stay ? STAY_USEC : (until > begun ? until - begun : 1) * 1000000;
	return 0;
}

static int by_time(const void *a, const void *b)
{
	const struct sch_sim_job *x = a, *y = b;

	return x->submit_usec < y->submit_usec ? -1 : x->submit_usec > y->submit_usec;
}

int sim_openb_read(struct sim_openb *o, const char *nodes, const char *tasks, struct mu_arena *arena, Mu__Config **ret, struct mu_err *err)
{
	int code;

	mu_buf_printf(&o->conf, "ClusterName=openb\nSlurmctldHost=openb\nGresTypes=gpu\nSlurmdTimeout=0\nMinJobAge=300\n"
				"SelectTypeParameters=%s\nSchedulerParameters=bf_max_job_test=1\n", o->spread ? "CR_CPU_Memory,CR_LLN" : "CR_CPU_Memory");
	code = read_csv(nodes, 5, add_node, o, err);
	mu_buf_str(&o->conf, "PartitionName=all Nodes=ALL Default=YES MaxTime=UNLIMITED\n");
	if (!code)
		code = read_csv(tasks, 11, add_task, o, err);
	if (!code && o->w->count)
		qsort(o->w->job, o->w->count, sizeof o->w->job[0], by_time);
	if (!code)
		code = mu_conf_parse("openb", (const char *)o->conf.data, NULL, NULL, NULL, arena, ret, err);
	return code;
}

/* ---- how well GPUs are used ---- */

static uint64_t gpus_of(const struct sch_sim_job *j)
{
	return j->spec->n_gres ? j->spec->gres[0]->count : 0;
}

/* Free GPUs that a task drawn from the trace cannot use, because its node has too few of them, or too few CPUs or
 * too little memory beside them: their share of all GPUs. */
static double fragmented(const struct sim_openb *o, const struct sch_state *st, const Mu__Config *conf)
{
	double lost = 0, tasks = 0, all = 0;

	for (uint32_t i = 0; i < o->w->count; i += 7) /* A sample of the tasks: each is as likely. */
		tasks += gpus_of(&o->w->job[i]) > 0;
	for (size_t n = 0; n < conf->n_node; n++) {
		const Mu__NodeRow *row = sch_node(st, conf->node[n]->name);
		uint64_t total = row->n_gres ? row->gres[0]->count : 0, free = total - (row->n_gres ? row->gres[0]->used : 0), fail = 0;
		all += (double)total;
		for (uint32_t i = 0; free && i < o->w->count; i += 7) {
			const Mu__JobSpec *s = o->w->job[i].spec;
			fail += s->n_gres && (s->gres[0]->count > free || s->cpus_per_task > row->cpus - row->alloc_cpus ||
					      s->mem_node_mib > row->real_memory_mib - row->alloc_mem_mib);
		}
		lost += tasks > 0 ? (double)free * (double)fail / tasks : 0;
	}
	return all > 0 ? lost / all : 0;
}

void sim_openb_started(struct sim_openb *o, const struct sch_state *st, const Mu__Config *conf, uint32_t job)
{
	struct sch_counts k;

	o->held += gpus_of(&o->w->job[job]);
	if (o->started++ % SAMPLE_EVERY)
		return;
	sch_counts(st, &k);
	o->samples++;
	o->fragment_sum += fragmented(o, st, conf);
	o->held_sum += k.gpus_total ? (double)o->held / (double)k.gpus_total : 0;
}

int sim_openb_ended(struct sim_openb *o, const struct sch_state *st, const Mu__Config *conf, uint32_t job)
{
	struct sch_counts k;

	if (o->stay) {
		sch_counts(st, &k);
		o->held_last = k.gpus_total ? (double)o->held / (double)k.gpus_total : 0;
		o->fragment_last = fragmented(o, st, conf);
	}
	o->held -= gpus_of(&o->w->job[job]);
	return o->stay ? SIM_OPENB_OVER : 0;
}

void sim_openb_print(const struct sim_openb *o, const struct sch_state *st, FILE *out)
{
	struct sch_counts k;
	uint64_t asked = 0;

	sch_counts(st, &k);
	for (uint32_t i = 0; i < o->w->count; i++)
		asked += gpus_of(&o->w->job[i]);
	fprintf(out, "GPUs: %" PRIu64 " on %u nodes, %" PRIu64 " asked for; at starts on average held %.2f %%, fragmented %.2f %%\n", k.gpus_total, o->nodes, asked,
		o->samples ? 100 * o->held_sum / o->samples : 0, o->samples ? 100 * o->fragment_sum / o->samples : 0);
	if (o->stay)
		fprintf(out, "when all have come: %u of %u tasks placed, GPUs held %.2f %%, fragmented %.2f %%\n", o->started, o->w->count, 100 * o->held_last,
			100 * o->fragment_last);
}
