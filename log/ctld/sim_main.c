/* ctld/sim_main.c: the words of `muster sim`. */
#include "log/ctld/sim.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "log/ctld/setup.h"
#include "proto/units.h"

static const char USAGE[] =
	"Usage: muster sim --swf FILE[.gz] --procs N --policy fcfs|easy|conservative|default --out RESULT.swf [--report FILE.json]\n"
	"       muster sim --archive DIR [--conf FILE]\n"
	"       muster sim --generate JOBS [--seed N] [--load PERCENT] [--users N] [--year]\n"
	"       muster sim --openb NODES.csv[.gz] --tasks TASKS.csv[.gz] [--select first|spread|few] [--stay]\n"
	"Runs the scheduler in virtual time over a workload and says what jobs waited.\n"
	"  --swf FILE       jobs of a file in the Standard Workload Format, plain or compressed\n"
	"  --archive DIR    jobs of a controller's StateSaveLocation, with the run times seen there\n"
	"  --generate JOBS  as many jobs out of a seed (--seed, default 1; --load in percent of the CPUs, default 90; --users, default 20)\n"
	"  --year           with what else a site sees: accounts, arrays, jobs that wait for others, fail or are cancelled,\n"
	"                   reservations, nodes that fall, changes of the configuration; a job fits on one node\n"
	"  --begin SECONDS  when a generated workload begins, since 1970 (default 1000000000)\n"
	"  --openb, --tasks two tables of the openb GPU trace; --select: the first node that fits, the least loaded, those of\n"
	"                   few GPUs before others; --stay: nobody leaves, to see how much fits\n"
	"  --procs N        a machine of N processors (default: as the SWF header says; --generate needs it)\n"
	"  --nodes N        so many nodes of equal size instead of one (N must divide the processors)\n"
	"  --conf FILE      another configuration: its nodes, partitions and scheduler\n"
	"  --policy WORD    fcfs: in order; easy: the first that waits keeps its start; conservative: each does; default: as configured\n"
	"  --out FILE       SWF with the simulated wait in field 3\n"
	"  --report FILE    figures as JSON, for each class and user\n"
	"  --svg FILE       a picture: nodes by time\n"
	"  --into DIR       an archive, DIR/view, that holds every entry, as a controller would have written it\n"
	"  --steps N        counted steps of a slice (default: a pass is one slice)\n";

struct args {
	const char *openb, *tasks, *select;
	bool stay, year;
	const char *swf, *archive, *conf, *policy, *out, *report, *svg, *into;
	uint64_t generate, seed, load, users, procs, nodes, steps, begin;
};

static int die(const struct mu_err *err)
{
	fprintf(stderr, "muster: error: sim: %s\n", err->text);
	return 1;
}

static uint64_t number(const char *what, const char *text, int64_t low, int64_t high)
{
	struct mu_err err = {0};
	int64_t n;

	if (mu_number_parse(what, text, low, high, &n, &err))
		exit(die(&err));
	return (uint64_t)n;
}

enum { OPT_SWF = 1, OPT_ARCHIVE, OPT_GENERATE, OPT_SEED, OPT_LOAD, OPT_USERS, OPT_PROCS, OPT_NODES, OPT_CONF, OPT_POLICY, OPT_OUT, OPT_REPORT,
       OPT_SVG, OPT_STEPS, OPT_OPENB, OPT_TASKS, OPT_SELECT, OPT_STAY, OPT_INTO, OPT_YEAR, OPT_BEGIN };

static void options(struct args *a, int argc, char **argv)
{
	static const struct option longs[] = {
		{"swf", 1, NULL, OPT_SWF}, {"archive", 1, NULL, OPT_ARCHIVE}, {"generate", 1, NULL, OPT_GENERATE}, {"seed", 1, NULL, OPT_SEED},
		{"load", 1, NULL, OPT_LOAD}, {"users", 1, NULL, OPT_USERS}, {"procs", 1, NULL, OPT_PROCS}, {"nodes", 1, NULL, OPT_NODES},
		{"conf", 1, NULL, OPT_CONF}, {"policy", 1, NULL, OPT_POLICY}, {"out", 1, NULL, OPT_OUT}, {"report", 1, NULL, OPT_REPORT},
		{"svg", 1, NULL, OPT_SVG}, {"steps", 1, NULL, OPT_STEPS}, {"openb", 1, NULL, OPT_OPENB}, {"tasks", 1, NULL, OPT_TASKS}, {"select", 1, NULL, OPT_SELECT}, {"stay", 0, NULL, OPT_STAY}, {"into", 1, NULL, OPT_INTO}, {"year", 0, NULL, OPT_YEAR}, {"begin", 1, NULL, OPT_BEGIN},
		{"help", 0, NULL, 'h'}, {NULL, 0, NULL, 0}};
	const char **words[] = {[OPT_SWF] = &a->swf, [OPT_ARCHIVE] = &a->archive, [OPT_CONF] = &a->conf, [OPT_POLICY] = &a->policy, [OPT_OUT] = &a->out,
				[OPT_REPORT] = &a->report, [OPT_SVG] = &a->svg, [OPT_OPENB] = &a->openb, [OPT_TASKS] = &a->tasks, [OPT_SELECT] = &a->select, [OPT_INTO] = &a->into};
	uint64_t *numbers[] = {[OPT_GENERATE] = &a->generate, [OPT_SEED] = &a->seed, [OPT_LOAD] = &a->load, [OPT_USERS] = &a->users,
			       [OPT_PROCS] = &a->procs, [OPT_NODES] = &a->nodes, [OPT_STEPS] = &a->steps, [OPT_BEGIN] = &a->begin};
	int o, at = 0;

	while ((o = getopt_long(argc, argv, "h", longs, &at)) != -1) {
		if (o == 'h') {
			fputs(USAGE, stdout);
			exit(0);
		}
		if (o == '?') {
			fputs("Try \"muster sim --help\" for more information\n", stderr);
			exit(1);
		}
		if (o == OPT_STAY)
			a->stay = true;
		else if (o == OPT_YEAR)
			a->year = true;
		else if (words[o])
			*words[o] = optarg;
		else
			*numbers[o] = number(longs[at].name, optarg, o == OPT_SEED ? 0 : 1,
							    o == OPT_SEED ? INT64_MAX : o == OPT_BEGIN ? 4000000000 : 100000000);
	}
	if (optind < argc) {
		fprintf(stderr, "muster: error: sim: \"%s\" is one word too many\n", argv[optind]);
		exit(1);
	}
}

/* ---- what the machine is ---- */

static const struct policy {
	const char *name, *lines;
} POLICIES[] = {
	{"fcfs", "SchedulerType=sched/builtin\n"},
	{"easy", "SchedulerType=sched/backfill\nSchedulerParameters=bf_max_job_test=1,bf_resolution=1,bf_window=10000000\n"},
	{"conservative", "SchedulerType=sched/backfill\nSchedulerParameters=bf_max_job_test=1000000,bf_resolution=1,bf_window=10000000\n"},
	{"default", ""},
};

static int policy(const char *name, const char **ret_lines, struct mu_err *err)
{
	for (size_t i = 0; i < sizeof POLICIES / sizeof POLICIES[0]; i++)
		if (!strcmp(POLICIES[i].name, name)) {
			*ret_lines = POLICIES[i].lines;
			return 0;
		}
	return mu_fail(err, MU_EINVAL, "\"%s\" is no policy; fcfs, easy, conservative and default are", name);
}

/* A machine of processors and nothing else. */
static int plain_machine(const struct args *a, const char *lines, uint64_t procs, struct mu_arena *arena, Mu__Config **ret, struct mu_err *err)
{
	uint64_t nodes = a->nodes ? a->nodes : 1;

	if (!procs)
		return mu_fail(err, MU_EINVAL, "the workload does not say how many processors the machine has: give --procs");
	if (procs % nodes || procs / nodes > 65536)
		return mu_fail(err, MU_EINVAL, "%llu processors are not %llu nodes of equal size of at most 65536: give --nodes",
			       (unsigned long long)procs, (unsigned long long)nodes);
	const char *text = mu_arena_printf(arena,
					   "ClusterName=sim\nSlurmctldHost=sim\nSelectTypeParameters=CR_CPU\nSlurmdTimeout=0\nPriorityType=priority/basic\n%s"
					   "NodeName=n[1-%llu] CPUs=%llu\nPartitionName=all Nodes=ALL Default=YES MaxTime=UNLIMITED\n",
					   lines, (unsigned long long)nodes, (unsigned long long)(procs / nodes));
	return mu_conf_parse("sim", text, NULL, NULL, NULL, arena, ret, err);
}

/* Another policy over a configuration that was read. */
static void set_key(Mu__Config *c, struct mu_arena *arena, const char *key, const char *value)
{
	for (size_t i = 0; i < c->n_key; i++)
		if (!strcasecmp(c->key[i]->key, key)) {
			c->key[i]->value = (char *)value;
			return;
		}
	Mu__KeyValue **list = mu_arena_alloc(arena, (c->n_key + 1) * sizeof list[0]);
	if (c->n_key)
		memcpy(list, c->key, c->n_key * sizeof list[0]);
	list[c->n_key] = mu_arena_alloc(arena, sizeof *list[0]);
	mu__key_value__init(list[c->n_key]);
	list[c->n_key]->key = (char *)key;
	list[c->n_key]->value = (char *)value;
	c->key = list;
	c->n_key++;
}

static void set_policy(Mu__Config *c, struct mu_arena *arena, const char *lines)
{
	char *text = mu_arena_strdup(arena, lines), *save = NULL;

	for (char *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save)) {
		char *equals = strchr(l, '=');
		*equals = 0;
		set_key(c, arena, l, equals + 1);
	}
}

/* Nodes do not fall silent in virtual time. */
static int machine(const struct args *a, struct sim_work *w, Mu__Config *own, struct mu_arena *arena, Mu__Config **ret, struct mu_err *err)
{
	const char *lines = "";
	int code = policy(a->policy ? a->policy : "default", &lines, err);

	if (code)
		return code;
	if (!a->conf && !own)
		return plain_machine(a, lines, a->procs ? a->procs : w->procs, arena, ret, err);
	*ret = own;
	if (a->conf)
		code = ctl_load_conf(a->conf, arena, ret, err);
	if (code)
		return code;
	set_policy(*ret, arena, lines);
	(*ret)->has_slurmd_timeout_sec = 1;
	(*ret)->slurmd_timeout_sec = 0;
	return 0;
}

static uint64_t cpus_of_node(const Mu__NodeConf *n)
{
	uint64_t threads = n->threads_per_core ? n->threads_per_core : 1;

	return n->cpus ? n->cpus : (n->sockets ? n->sockets : 1) * (n->cores_per_socket ? n->cores_per_socket : 1) * threads;
}

static uint64_t cpus_of(const Mu__Config *c)
{
	uint64_t cpus = 0;

	for (size_t i = 0; i < c->n_node; i++)
		cpus += cpus_of_node(c->node[i]);
	return cpus;
}

/* ---- the workload ---- */

static void generate(const struct args *a, const Mu__Config *c, struct sim_work *w)
{
	uint64_t cpus = cpus_of(c), most = a->year && c->n_node ? cpus_of_node(c->node[0]) : cpus;
	struct sch_sim_model m = {.seed = a->seed, .jobs = (uint32_t)a->generate, .users = (uint32_t)a->users, .load_percent = (uint32_t)a->load, .cpus = cpus,
				  .cpus_max = (uint32_t)(most < UINT32_MAX ? most : UINT32_MAX), .begin_usec = w->begin_usec};

	w->job = calloc(a->generate, sizeof w->job[0]);
	if (!w->job)
		abort();
	w->count = w->cap = (uint32_t)a->generate;
	sch_sim_generate(&m, &w->arena, w->job);
	if (a->year)
		sch_sim_year(&m, c, &w->arena, w->job, &w->act, &w->acts);
}

struct eyes {
	struct sim_picture *picture;
	struct sim_openb *openb;
	const struct sch_state *st;
	const Mu__Config *conf;
	struct sim_work *w;
};

static int watch(void *arg, enum sch_sim_what what, uint32_t job, const Mu__Start *start, const uint8_t *event, size_t len)
{
	struct eyes *e = arg;

	(void)event, (void)len;
	if (e->picture && what == SCH_SIM_STARTED)
		sim_picture_start(e->picture, job, start, e->w->job[job].start_usec);
	if (e->picture && what == SCH_SIM_ENDED)
		sim_picture_end(e->picture, job, e->w->job[job].end_usec);
	if (e->openb && what == SCH_SIM_STARTED)
		sim_openb_started(e->openb, e->st, e->conf, job);
	if (e->openb && what == SCH_SIM_ENDED)
		return sim_openb_ended(e->openb, e->st, e->conf, job);
	return 0;
}

static double seconds(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int simulate(const struct args *a, struct sim_work *w, struct sim_openb *openb, const Mu__Config *conf, const char *source, struct mu_err *err)
{
	struct sch_sim_figures f;
	struct sch_sim *sim = NULL;
	struct eyes eyes = {.w = w};
	struct sch_sim_watch watcher = {.arg = &eyes, .tell = a->svg || openb ? watch : NULL};
	const char *name = a->policy ? a->policy : "default";
	struct mu_err refusal = {0};
	double before = seconds();
	struct sch_sim_tap tap = {.entry = sim_into_entry};
	int code = 0;

	if (a->into && !(tap.arg = sim_into_new(a->into, err)))
		return MU_EIO;
	code = sch_sim_new_tapped(conf, w->begin_usec, tap.arg ? &tap : NULL, &sim, err);
	if (code)
		return sim_into_close(tap.arg, code, err);
	if (a->svg)
		eyes.picture = sim_picture_new(conf);
	eyes.openb = openb;
	eyes.st = sch_sim_state(sim);
	eyes.conf = conf;
	sch_sim_plan(sim, w->act, w->acts);
	code = sch_sim_run(sim, w->job, w->count, (uint32_t)a->steps, &watcher, &f, &refusal);
	if (openb && code == SIM_OPENB_OVER)
		code = 0;
	if (code)
		*err = refusal;
	struct sim_report r = {.w = w, .f = &f, .source = source, .policy = name, .seconds = seconds() - before};
	if (!code && f.refused)
		fprintf(stderr, "muster: sim: %u jobs were refused, the first because: %s\n", f.refused, refusal.text);
	if (!code)
		sim_report_print(&r, stdout);
	if (!code && openb)
		sim_openb_print(openb, eyes.st, stdout);
	if (!code && a->out)
		code = sim_swf_write(a->out, w, name, err);
	if (!code && a->report)
		code = sim_report_write(&r, a->report, err);
	if (!code && a->svg)
		code = sim_picture_write(eyes.picture, a->svg, w, mu_arena_printf(&w->arena, "%s, policy %s", source, name), err);
	sim_picture_free(eyes.picture);
	sch_sim_free(sim);
	return sim_into_close(tap.arg, code, err);
}

int sim_main(int argc, char **argv)
{
	struct args a = {.seed = 1, .load = 90, .users = 20, .begin = 1000000000};
	struct sim_work w = {0};
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	Mu__Config *conf = NULL, *own = NULL;
	struct sim_openb openb = {.w = &w};
	int code = 0;

	options(&a, argc, argv);
	w.begin_usec = (int64_t)a.begin * 1000000;
	openb.stay = a.stay;
	openb.spread = a.select && !strcmp(a.select, "spread");
	openb.by_gpus = a.select && !strcmp(a.select, "few");
	if (!!a.swf + !!a.archive + !!a.generate + !!a.openb != 1 || !a.openb != !a.tasks)
		code = mu_fail(&err, MU_EINVAL, "give one workload: --swf, --archive, --generate, or --openb with --tasks");
	if (!code && a.year && !a.generate)
		code = mu_fail(&err, MU_EINVAL, "--year goes with --generate");
	if (!code && a.select && strcmp(a.select, "first") && strcmp(a.select, "spread") && strcmp(a.select, "few"))
		code = mu_fail(&err, MU_EINVAL, "\"%s\" is no way to select nodes; first, spread and few are", a.select);
	if (!code && a.openb)
		code = sim_openb_read(&openb, a.openb, a.tasks, &arena, &own, &err);
	if (!code && a.swf)
		code = sim_swf_read(a.swf, (uint32_t)a.procs, &w, &err);
	if (!code && a.archive)
		code = sim_archive_read(a.archive, &w, &own, &err);
	if (!code)
		code = machine(&a, &w, own, &arena, &conf, &err);
	if (!code && a.generate)
		generate(&a, conf, &w);
	if (!code)
		code = simulate(&a, &w, a.openb ? &openb : NULL, conf, a.swf ? a.swf : a.archive ? a.archive : a.openb ? a.openb : "generated", &err);
	mu_buf_free(&openb.conf);
	sim_work_free(&w);
	mu_arena_free(&arena);
	return code ? die(&err) : 0;
}
