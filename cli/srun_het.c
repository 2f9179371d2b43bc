/* cli/srun_het.c: one step over components of a heterogeneous job. Each component has a step manager of its
 * own, which places and grants that component's share under a number that all have in common. Then srun
 * starts every share as parts of one step: tasks are numbered through, in the order of the components, and
 * one process manager serves them all. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "cli/het.h"
#include "cli/spec.h"
#include "cli/srun.h"
#include "proto/hostlist.h"

enum { TRIES = 300, PAUSE_MSEC = 100, NUMBER_TRIES = 20, HOSTS_MAX = 65536, ALL_TASKS_MAX = 65535 };

/* One component's share. */
struct share {
	struct cli_args args;
	Mu__JobSpec spec;
	Mu__StepAsk ask;
	uint32_t group;
};
struct het {
	struct srun *s;
	struct share *v;
	size_t count;
};

static void pause_a_little(void)
{
	nanosleep(&(struct timespec){.tv_nsec = PAUSE_MSEC * 1000000L}, NULL);
}

/* Asks a component's step manager, which may not have heard of the job yet. */
static int ask_manager(struct srun *part, const Mu__StepAsk *ask, int *ret_fd,
		       struct stream_reader *ret_reader, Mu__StepGranted **ret, struct mu_err *err)
{
	int rc = cli_job_door(part->cli, &part->job, err);

	for (int tries = 0; rc == 0 && tries < TRIES; tries++) {
		rc = srun_send_ask(part, ask, &part->job.first, ret_fd, ret_reader, ret, err);
		if (rc != MU_EJOBID)
			return rc;
		pause_a_little();
		rc = 0;
	}
	return rc ? rc : mu_fail(err, MU_EJOBID, "%s", mu_strerror(MU_EJOBID));
}

/* ---- granting ---- */

static void give_back(struct het *h)
{
	for (size_t k = 0; k < h->count; k++) {
		struct srun *part = &h->s->part[k];

		if (part->manager >= 0)
			close(part->manager);
		part->manager = -1;
		stream_reader_free(&part->manager_reader);
		part->manager_reader = (struct stream_reader){0};
	}
}

/* A number that is free in all of the components. */
static int find_number(struct het *h, uint32_t *ret, struct mu_err *err)
{
	*ret = 0;
	for (size_t k = 0; k < h->count; k++) {
		Mu__StepAsk ask = MU__STEP_ASK__INIT;
		struct srun *part = &h->s->part[k];
		struct srun_patience patience = {0};
		struct stream_reader reader = {0};
		Mu__StepGranted *granted;
		int fd = -1, rc;

		ask.has_job = ask.has_number_only = ask.number_only = 1;
		ask.job = part->job.job;
		while ((rc = ask_manager(part, &ask, &fd, &reader, &granted, err)) > 0)
			if (!srun_wait(h->s, &h->v[k].ask, &patience))
				return mu_fail(err, MU_ENODEBUSY, "%s", mu_strerror(MU_ENODEBUSY));
		if (rc)
			return rc;
		close(fd);
		stream_reader_free(&reader);
		*ret = granted->step > *ret ? granted->step : *ret;
	}
	return 0;
}

/* Every step over several components takes them in the same order, so that none holds what another waits for
 * while it waits for what that one holds. MU_EBUSY: the number has been given meanwhile. */
static int grant_all(struct het *h, uint32_t step, struct mu_err *err)
{
	for (size_t k = 0; k < h->count; k++) {
		struct srun *part = &h->s->part[k];
		Mu__StepAsk *ask = &h->v[k].ask;
		struct srun_patience patience = {0};
		int rc;

		ask->has_step = ask->has_as_parts = ask->as_parts = 1;
		ask->step = step;
		while ((rc = ask_manager(part, ask, &part->manager, &part->manager_reader, &part->granted,
					 err)) > 0)
			if (!srun_wait(h->s, ask, &patience))
				return mu_fail(err, MU_ENODEBUSY, "%s", mu_strerror(MU_ENODEBUSY));
		if (rc)
			return rc;
		if (!part->granted->whole)
			return mu_fail(err, MU_EPROTO, "the step manager of component %u granted no parts",
				       part->group);
	}
	return 0;
}

/* ---- one step of many shares ---- */

/* "(vector,(0,2,4))" with its nodes moved by FIRST, without the word and the outer brackets. */
static void add_mapping(struct mu_buf *out, const char *mapping, uint32_t first)
{
	for (const char *p = strchr(mapping, ','); p && *p == ',';) {
		unsigned from, nodes, tasks;
		int len = 0;

		if (sscanf(p, ",(%u,%u,%u)%n", &from, &nodes, &tasks, &len) != 3 || !len)
			return;
		mu_buf_printf(out, ",(%u,%u,%u)", from + first, nodes, tasks);
		p += len;
	}
}

static void add_lists(Mu__StepGranted *all, const Mu__StepGranted *g)
{
	for (size_t i = 0; i < g->n_node; i++) {
		all->node[all->n_node++] = g->node[i];
		all->tasks[all->n_tasks++] = g->tasks[i];
		all->cpus[all->n_cpus++] = g->cpus[i];
	}
	all->has_kill_on_bad_exit = all->has_wait_sec = 1;
	all->kill_on_bad_exit = all->kill_on_bad_exit || g->kill_on_bad_exit;
	all->wait_sec = g->wait_sec > all->wait_sec ? g->wait_sec : all->wait_sec;
}

static Mu__StepGranted *new_granted(struct het *h, uint32_t step)
{
	struct mu_arena *a = &h->s->cli->arena;
	Mu__StepGranted *all = mu_arena_alloc(a, sizeof *all);
	size_t nodes = 0;

	for (size_t k = 0; k < h->count; k++)
		nodes += h->s->part[k].granted->n_node;
	mu__step_granted__init(all);
	all->node = mu_arena_alloc(a, (nodes + 1) * sizeof *all->node);
	all->tasks = mu_arena_alloc(a, (nodes + 1) * sizeof *all->tasks);
	all->cpus = mu_arena_alloc(a, (nodes + 1) * sizeof *all->cpus);
	all->whole = mu_arena_alloc(a, sizeof *all->whole);
	mu__step_whole__init(all->whole);
	all->has_job = all->has_step = 1;
	all->job = h->s->job.job;
	all->step = step;
	return all;
}

/* What the nodes of all components say of the step alike. Tasks are numbered through. */
static int join(struct het *h, uint32_t step, struct mu_err *err)
{
	struct srun *s = h->s;
	struct mu_arena *a = &s->cli->arena;
	Mu__StepGranted *all = new_granted(h, step);
	Mu__StepWhole *whole = all->whole;
	MU_CLEANUP(mu_buf_free) struct mu_buf tasks = {0}, mapping = {0}, nodes = {0};
	bool mapped = true;

	mu_buf_str(&mapping, "(vector");
	for (size_t k = 0; k < h->count; k++) {
		const Mu__StepGranted *g = s->part[k].granted;

		for (size_t i = 0; i < g->n_part; i++)
			for (size_t t = 0; t < g->part[i]->n_task; t++)
				g->part[i]->task[t] += whole->ntasks;
		mapped = mapped && g->whole->mapping;
		if (mapped)
			add_mapping(&mapping, g->whole->mapping, whole->nodes);
		mu_buf_printf(&tasks, "%s%s", k ? "," : "", g->whole->tasks_per_node);
		whole->nodes += g->whole->nodes;
		whole->ntasks += g->whole->ntasks;
		add_lists(all, g);
	}
	if (whole->ntasks > ALL_TASKS_MAX)
		return mu_fail(err, MU_ELIMIT, "%u tasks are more than the %d that a step may have",
			       whole->ntasks, ALL_TASKS_MAX);
	mu_buf_str(&mapping, ")");
	mu_hostlist_fold((const char *const *)all->node, all->n_node, &nodes);
	whole->has_step = whole->has_nodes = whole->has_ntasks = 1;
	whole->step = step;
	whole->node_list = mu_arena_strdup(a, (char *)nodes.data);
	whole->tasks_per_node = mu_arena_strdup(a, (char *)tasks.data);
	whole->mapping = mapped ? mu_arena_strdup(a, (char *)mapping.data) : NULL;
	s->granted = all;
	return 0;
}

static int start_all(struct het *h, struct mu_err *err)
{
	struct srun *s = h->s;
	uint32_t node = 0;
	int rc = 0;

	s->conn = mu_arena_alloc(&s->cli->arena, (s->granted->n_node + 1) * sizeof *s->conn);
	for (size_t k = 0; k < h->count; k++) {
		const Mu__StepGranted *g = s->part[k].granted;

		for (size_t i = 0; i < g->n_part && rc == 0; i++)
			rc = srun_start_part(&s->part[k], s, &h->v[k].ask, g->part[i], s->granted->whole,
					     node++, err);
	}
	return rc;
}

static int start(void *arg, struct mu_err *err)
{
	struct het *h = arg;
	uint32_t step;
	int rc = MU_EBUSY;

	for (int tries = 0; rc == MU_EBUSY && tries < NUMBER_TRIES; tries++) {
		rc = find_number(h, &step, err);
		if (!rc)
			rc = grant_all(h, step, err);
		if (rc)
			give_back(h);
	}
	if (!rc)
		rc = join(h, step, err);
	if (!rc)
		rc = start_all(h, err);
	if (rc) {
		srun_hang_up(h->s);
		give_back(h);
	}
	return rc;
}

static void close_parts(struct het *h)
{
	if (h->s->part)
		give_back(h);
	for (size_t k = 0; k < h->s->parts; k++)
		mu_buf_free(&h->s->part[k].environment);
}

/* Runs the step of all shares and gives srun's exit code. */
static int run_step(struct het *h)
{
	int rc = srun_run(h->s, start, h);

	close_parts(h);
	return rc;
}

/* ---- which components ---- */

/* Makes the srun of each share: FIRST is the job's first component. */
static int open_parts(struct het *h, uint32_t first, int argc, char **argv, struct mu_err *err)
{
	struct srun *s = h->s;
	int rc = 0;

	s->part = mu_arena_alloc(&s->cli->arena, h->count * sizeof *s->part);
	for (size_t k = 0; k < h->count; k++)
		s->part[k] = (struct srun){.manager = -1};
	s->parts = h->count;
	for (size_t k = 0; k < h->count && !rc; k++) {
		struct share *share = &h->v[k];
		const char *list =
		    getenv(mu_arena_printf(&s->cli->arena, "SLURM_JOB_NODELIST_HET_GROUP_%u", share->group));
		struct srun *part = &s->part[k];
		char **names;
		size_t count = 0;

		*part = (struct srun){.cli = s->cli,
				      .args = &share->args,
				      .job = {.job = first + share->group},
				      .manager = -1,
				      .group = share->group,
				      .usage = MU__USAGE__INIT};
		if (list && *list &&
		    mu_hostlist_expand(list, HOSTS_MAX, &s->cli->arena, &names, &count, NULL) == 0 && count)
			part->job.first.node = names[0];
		mu__step_ask__init(&share->ask);
		rc = srun_fill_ask(part, &share->ask, &share->spec, argc, argv, err);
	}
	s->job = s->part[0].job;
	return rc;
}

static int by_group(const void *a, const void *b)
{
	const struct share *x = a, *y = b;

	return (x->group > y->group) - (x->group < y->group);
}

static int add_share(struct het *h, const struct cli_args *args, uint32_t group, struct mu_err *err)
{
	for (size_t k = 0; k < h->count; k++)
		if (h->v[k].group == group)
			return mu_fail(err, MU_EINVAL, "Duplicate het groups in single srun not supported");
	struct share *share = &h->v[h->count++];

	share->group = group;
	mu__job_spec__init(&share->spec);
	return srun_read_group(h->s->cli, args, group, &share->args, &share->spec, err);
}

/* Inside a job: --het-group of each component of the line, else the component of the same place. */
static int find_shares(struct het *h, struct cli_part *parts, size_t count, struct mu_err *err)
{
	const char *size_text = getenv("SLURM_HET_SIZE");
	uint32_t size = size_text ? (uint32_t)strtoul(size_text, NULL, 10) : 1;
	int rc = 0;

	for (size_t i = 0; i < count && !rc; i++) {
		const char *list = cli_args_value(&parts[i].args, OPT_het_group);
		uint32_t group[MU_HET_MAX], groups = 0;

		if (!parts[i].args.word_count)
			return mu_fail(err, MU_EINVAL, "No command given to execute.");
		rc = mu_het_groups_parse(list ? list : mu_arena_printf(&h->s->cli->arena, "%zu", i),
					 size ? size : 1, group, &groups, err);
		for (uint32_t g = 0; g < groups && !rc; g++)
			rc = add_share(h, &parts[i].args, group[g], err);
	}
	qsort(h->v, h->count, sizeof *h->v, by_group);
	return rc;
}

/* ---- an allocation of its own ---- */

static int make_specs(struct srun *s, struct cli_part *parts, size_t count, int argc, char **argv,
		      Mu__JobSpec *job, struct mu_err *err)
{
	int rc = cli_parts_specs(s->cli, parts, count, err);

	for (size_t i = 0; i < count && !rc; i++) {
		const char *program = parts[i].args.word_count ? parts[i].args.words[0] : NULL,
			   *slash = program ? strrchr(program, '/') : NULL;

		if (!program)
			return mu_fail(err, MU_EINVAL, "No command given to execute.");
		if (i == 0 && !parts[i].spec.name)
			parts[i].spec.name = (char *)(slash ? slash + 1 : program);
		if (i == 0)
			cli_parts_carry(parts, count);
		job[i] = parts[i].spec;
		job[i].has_std_in = job[i].has_std_out = job[i].has_std_err = 0;
		rc = cli_spec_surroundings(s->cli, "srun", argc, argv, &job[i], err);
	}
	return rc;
}

static int shares_of_rows(struct het *h, struct cli_part *parts, size_t count, uint32_t first,
			  struct mu_err *err)
{
	for (size_t i = 0; i < count; i++) {
		struct cli_job j = {.job = first + (uint32_t)i};
		struct share *share = &h->v[h->count++];
		int rc = cli_job_ask(h->s->cli, &j, 2, 0, err);

		if (rc)
			return rc;
		share->group = (uint32_t)i;
		share->args = parts[i].args;
		share->spec = parts[i].spec;
		srun_spec_from_row(&share->spec, j.row);
	}
	return 0;
}

static int run_alone(struct het *h, struct cli_part *parts, size_t count, int argc, char **argv)
{
	struct srun *s = h->s;
	struct cli *c = s->cli;
	struct cli_allocation a;
	struct mu_err err = {0};
	Mu__JobSpec *job = mu_arena_alloc(&c->arena, count * sizeof *job);
	Mu__JobSpec **others = mu_arena_alloc(&c->arena, count * sizeof *others);
	int rc = make_specs(s, parts, count, argc, argv, job, &err);

	if (rc) {
		cli_error(c, "Unable to allocate resources: %s", err.text);
		return 1;
	}
	for (size_t i = 1; i < count; i++)
		others[i - 1] = &job[i];
	if (cli_allocate(c, s->args, &job[0], others, count - 1, true, &a, &rc) == 0) {
		if (shares_of_rows(h, parts, count, a.job.job, &err) ||
		    open_parts(h, a.job.job, argc, argv, &err)) {
			cli_error(c, "%s", err.text);
			close_parts(h);
			rc = 1;
		} else {
			rc = run_step(h);
		}
		cli_allocation_release(c, &a, s->signal ? s->signal << 8 : rc);
	}
	cli_allocation_done(c, &a);
	return rc;
}

/* ---- the way in ---- */

static int run(struct het *h, struct cli_part *parts, size_t count, int argc, char **argv)
{
	struct cli *c = h->s->cli;
	struct mu_err err = {0};
	uint32_t first = h->s->job.job;
	int rc = cli_conf_read(&c->arena, &c->conf, &err);

	if (!rc && cli_args_has(h->s->args, OPT_bcast))
		rc = mu_fail(
		    &err, MU_EDISABLED,
		    "--bcast is not supported in a step over components: copy the program with sbcast "
		    "to each of them");
	if (!rc && !first && cli_args_has(h->s->args, OPT_test_only))
		rc = mu_fail(
		    &err, MU_EDISABLED,
		    "--test-only is not supported for heterogeneous jobs: ask for each component by itself");
	if (!rc && !first)
		return run_alone(h, parts, count, argc, argv);
	if (!rc)
		rc = find_shares(h, parts, count, &err);
	if (!rc)
		rc = open_parts(h, first, argc, argv, &err);
	if (rc) {
		cli_error(c, "%s", err.text);
		close_parts(h);
		return 1;
	}
	return run_step(h);
}

bool srun_het(struct srun *s, struct cli_args *args, int argc, char **argv, int *ret_exit)
{
	const char *group = cli_args_value(args, OPT_het_group);
	struct het h = {.s = s};
	struct cli_part *parts;
	struct mu_err err = {0};
	size_t count;

	*ret_exit = 0;
	if (cli_parts_split(s->cli, args, true, &parts, &count, &err)) {
		cli_error(s->cli, "%s", err.text);
		*ret_exit = 1;
		return true;
	}
	/* Outside a job the groups are those of its own allocation. */
	if (count == 1 && (!group || !s->job.job || strcmp(group, "0") == 0))
		return false;
	h.v = mu_arena_alloc(&s->cli->arena, MU_HET_MAX * sizeof *h.v);
	*args = parts[0].args;
	*ret_exit = run(&h, parts, count, argc, argv);
	return true;
}
