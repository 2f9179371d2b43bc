/* cli/srun.c: runs a program as a step of the job that this process belongs to. Asks the step manager (the
 * agent of this node, on its Unix socket) and then talks to the step itself over the same connection;
 * cli/srun_io.c moves the bytes. */
#include "cli/srun.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/spec.h"
#include "proto/hostlist.h"
#include "proto/pb.h"

enum {
	ENVIRONMENT_MAX = 3 << 20,
	CONNECT_MSEC = 5000,
	ANSWER_MSEC = 60000,
	RETRY_FIRST_MSEC = 100,
	RETRY_LAST_MSEC = 2000
};

extern char **environ;

/* Variables of the job that are no wish of the step: the step has the job's memory and devices anyway. */
static bool from_job(const struct cli_given *g)
{
	switch (g->option->id) {
	case OPT_ntasks:
	case OPT_nodes:
	case OPT_cpus_per_task:
	case OPT_ntasks_per_node:
	case OPT_jobid:
	case OPT_export:
	case OPT_label:
	case OPT_overlap:
	case OPT_exact:
	case OPT_unbuffered:
	case OPT_kill_on_bad_exit:
	case OPT_wait_step:
	case OPT_output:
	case OPT_error:
	case OPT_input:
	case OPT_open_mode:
	case OPT_cpu_bind:
	case OPT_distribution:
	case OPT_disable_status:
	case OPT_quit_on_interrupt:
	case OPT_verbose:
	case OPT_time:
	case OPT_mpi:
		return true;
	default:
		return false;
	}
}

static void drop_job_variables(struct cli_args *args)
{
	size_t kept = 0;

	for (size_t i = 0; i < args->count; i++) {
		if (args->given[i].level == CLI_LINE || from_job(&args->given[i]))
			args->given[kept++] = args->given[i];
	}
	args->count = kept;
}

static ProtobufCBinaryData bytes(const char *text)
{
	return (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
}

/* ---- what is asked ---- */

static int fill_words(struct srun *s, Mu__StepAsk *ask, const Mu__JobSpec *spec, struct mu_err *err)
{
	struct mu_arena *a = &s->cli->arena;
	struct mu_buf *env = &s->environment;
	char *cwd = getcwd(NULL, 0);
	int rc = cli_environment_make(spec->export, environ, env, err);

	cli_environment_limits(env);
	if (!rc && env->len > ENVIRONMENT_MAX)
		rc = mu_fail(err, MU_ELIMIT,
			     "The environment has %zu bytes and a step takes at most %d along; use --export",
			     env->len, ENVIRONMENT_MAX);
	if (rc) {
		free(cwd);
		return rc;
	}
	ask->env = mu_arena_alloc(a, (env->len / 2 + 1) * sizeof *ask->env);
	for (size_t at = 0; at < env->len; at += ask->env[ask->n_env - 1].len + 1)
		ask->env[ask->n_env++] = bytes((char *)env->data + at);
	ask->argv = mu_arena_alloc(a, s->args->word_count * sizeof *ask->argv);
	for (size_t i = 0; i < s->args->word_count; i++)
		ask->argv[ask->n_argv++] = bytes(s->args->words[i]);
	ask->has_work_dir = 1;
	ask->work_dir = spec->work_dir.len && spec->work_dir.data[0] == '/' ? spec->work_dir
			: spec->work_dir.len
			    ? bytes(mu_arena_printf(a, "%s/%s", cwd ? cwd : "", (char *)spec->work_dir.data))
			    : bytes(mu_arena_strdup(a, cwd ? cwd : "/"));
	free(cwd);
	return 0;
}

static void fill_streams(Mu__StepAsk *ask, const Mu__JobSpec *spec)
{
	if (spec->std_in.len) {
		ask->has_std_in = 1;
		ask->std_in = spec->std_in;
	}
	if (spec->std_out.len) {
		ask->has_std_out = 1;
		ask->std_out = spec->std_out;
	}
	if (spec->std_err.len) {
		ask->has_std_err = 1;
		ask->std_err = spec->std_err;
	}
	ask->has_open_append = spec->has_open_append;
	ask->open_append = spec->open_append;
}

static int fill_nodes(struct srun *s, Mu__StepAsk *ask, const Mu__JobSpec *spec, struct mu_err *err)
{
	const struct cli_given *nodes = cli_args_last(s->args, OPT_nodes),
			       *tasks = cli_args_last(s->args, OPT_ntasks);
	bool tasks_asked = tasks && (tasks->level == CLI_LINE || !nodes || nodes->level != CLI_LINE);
	uint32_t n = spec->has_nodes_min ? spec->nodes_min : 1;

	ask->has_ntasks = ask->has_nodes = 1;
	ask->ntasks = spec->has_ntasks && (tasks_asked || !nodes)
			  ? spec->ntasks
			  : n * (spec->ntasks_per_node ? spec->ntasks_per_node : 1);
	if (tasks && nodes && nodes->level == CLI_LINE && tasks->level != CLI_LINE)
		ask->ntasks = spec->ntasks > n ? spec->ntasks : n;
	/* What the job has is no wish for all of its nodes. */
	if (nodes && nodes->level != CLI_LINE && ask->ntasks < n)
		n = ask->ntasks;
	if (n > ask->ntasks)
		return mu_fail(err, MU_ENODECOUNT, "%u tasks cannot run on %u nodes", ask->ntasks, n);
	ask->nodes = n;
	for (int k = 0; k < 2; k++) {
		const char *list = k ? spec->nodes_excluded : spec->nodes_required;
		char **names;
		size_t count;
		bool here = false;
		int rc;

		if (!list)
			continue;
		rc = mu_hostlist_expand(list, 65536, &s->cli->arena, &names, &count, err);
		if (rc)
			return rc;
		for (size_t i = 0; i < count; i++)
			here = here || strcmp(names[i], s->node) == 0;
		if (here == (k == 1))
			return mu_fail(err, MU_ENODECONFIG,
				       "Requested node configuration is not available: steps run on %s",
				       s->node);
	}
	return 0;
}

static int fill_ask(struct srun *s, Mu__StepAsk *ask, const Mu__JobSpec *spec, int argc, char **argv,
		    struct mu_err *err)
{
	const struct cli_args *args = s->args;
	const char *kill = cli_args_value(args, OPT_kill_on_bad_exit),
		   *bind = cli_args_value(args, OPT_cpu_bind);
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};
	mode_t mask = umask(0);
	int rc = fill_nodes(s, ask, spec, err);

	umask(mask);
	if (!rc)
		rc = fill_words(s, ask, spec, err);
	if (rc)
		return rc;
	fill_streams(ask, spec);
	ask->has_job = 1;
	ask->job = s->job;
	ask->has_cpus_per_task = spec->has_cpus_per_task;
	ask->cpus_per_task = spec->cpus_per_task;
	ask->has_ntasks_per_node = spec->has_ntasks_per_node;
	ask->ntasks_per_node = spec->ntasks_per_node;
	ask->has_mem_mib = spec->has_mem_node_mib;
	ask->mem_mib = spec->mem_node_mib;
	ask->has_mem_cpu_mib = spec->has_mem_cpu_mib;
	ask->mem_cpu_mib = spec->mem_cpu_mib;
	ask->gres = spec->gres;
	ask->n_gres = spec->n_gres;
	ask->has_overlap = ask->has_exact = ask->has_exclusive = ask->has_label = ask->has_unbuffered =
	    ask->has_kill_on_bad_exit = 1;
	ask->overlap = cli_args_has(args, OPT_overlap);
	ask->exact = cli_args_has(args, OPT_exact);
	ask->exclusive = cli_args_has(args, OPT_exclusive);
	ask->label = cli_args_has(args, OPT_label);
	ask->unbuffered = cli_args_has(args, OPT_unbuffered);
	ask->kill_on_bad_exit = cli_args_has(args, OPT_kill_on_bad_exit) && (!kill || strcmp(kill, "0") != 0);
	ask->has_umask = ask->has_immediate = 1;
	ask->umask = mask;
	ask->immediate = cli_args_has(args, OPT_immediate);
	ask->has_time_limit_sec = spec->has_time_limit_sec;
	ask->time_limit_sec = spec->time_limit_sec;
	/* The name in the environment is the job's, not this step's. */
	ask->name = cli_args_has(args, OPT_job_name) ? spec->name : NULL;
	ask->cpu_bind = (char *)(bind ? bind : cli_args_value(args, OPT_cpu_bind_old));
	ask->distribution = (char *)cli_args_value(args, OPT_distribution);
	mu_buf_str(&text, "srun");
	for (int i = 0; i < argc && text.len < 8192; i++)
		mu_buf_printf(&text, " %s", argv[i]);
	for (size_t i = 0; i < text.len; i++)
		text.data[i] = text.data[i] < 0x20 || text.data[i] > 0x7e ? '?' : text.data[i];
	ask->submit_line = mu_arena_strdup(&s->cli->arena, (char *)text.data);
	return cli_spec_check(spec, err);
}

/* ---- asking ---- */

static int connect_agent(struct srun *s, struct mu_err *err)
{
	const char *address =
	    mu_arena_printf(&s->cli->arena, "ipc://%s/agent.%s.sock", s->cli->conf.run_dir, s->node);
	int rc = MU_ECONNECT;

	/* An agent that is being restarted is back in a moment. */
	for (int tries = 0; tries < 50; tries++) {
		rc = stream_connect(address, CONNECT_MSEC, &s->fd, err);
		if (rc != MU_ECONNECT)
			break;
		nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
	}
	return rc;
}

/* 0: granted; 1: busy, ask again; negative: refused. */
static int ask_once(struct srun *s, const Mu__StepAsk *ask, struct mu_err *err)
{
	struct mu_buf body MU_CLEANUP(mu_buf_free) = {0}, out MU_CLEANUP(mu_buf_free) = {0};
	struct stream_frame f;
	Mu__StepRefused *refused;
	int rc = connect_agent(s, err);

	if (rc)
		return rc;
	mu_pb_pack(&ask->base, &body);
	stream_put(&out, STREAM_STEP_ASK, 0, body.data, body.len);
	rc = stream_write_all(s->fd, out.data, out.len, err);
	while (!rc) {
		rc = stream_read_frame(s->fd, &s->reader, ANSWER_MSEC, &f, err);
		if (!rc && f.kind != STREAM_PING)
			break;
	}
	if (rc)
		goto out;
	if (f.kind == STREAM_GRANTED) {
		s->granted = (Mu__StepGranted *)mu_pb_unpack(&mu__step_granted__descriptor, f.payload.data,
							     f.payload.len, &s->cli->arena);
		return s->granted ? 0 : mu_fail(err, MU_EPROTO, "The node's answer cannot be read");
	}
	refused = f.kind == STREAM_REFUSED
		      ? (Mu__StepRefused *)mu_pb_unpack(&mu__step_refused__descriptor, f.payload.data,
							f.payload.len, &s->cli->arena)
		      : NULL;
	if (!refused)
		rc = mu_fail(err, MU_EPROTO, "The node's answer cannot be read");
	else if (refused->busy)
		rc = 1;
	else
		rc = mu_fail(err, refused->code ? refused->code : MU_EINTERNAL, "%s",
			     refused->text && *refused->text ? refused->text : mu_strerror(refused->code));
out:
	close(s->fd);
	s->fd = -1;
	stream_reader_free(&s->reader);
	s->reader = (struct stream_reader){0};
	return rc;
}

static int ask_until_granted(struct srun *s, const Mu__StepAsk *ask, struct mu_err *err)
{
	unsigned msec = RETRY_FIRST_MSEC;
	bool told = false;

	for (;;) {
		int rc = ask_once(s, ask, err);

		if (rc < 0)
			return rc;
		if (rc == 0) {
			if (told && !s->cli->quiet)
				cli_say(s->cli, "Step created for StepId=%u.%u", s->job, s->granted->step);
			return 0;
		}
		if (ask->immediate)
			return mu_fail(err, MU_ENODEBUSY, "%s", mu_strerror(MU_ENODEBUSY));
		if (!told && !s->cli->quiet)
			cli_say(s->cli, "Job %u step creation temporarily disabled, retrying (%s)", s->job,
				mu_strerror(MU_ENODEBUSY));
		told = true;
		nanosleep(&(struct timespec){.tv_sec = msec / 1000, .tv_nsec = msec % 1000 * 1000000L}, NULL);
		msec = msec * 2 < RETRY_LAST_MSEC ? msec * 2 : RETRY_LAST_MSEC;
	}
}

static void say_launch(const struct srun *s)
{
	const Mu__StepGranted *g = s->granted;
	struct mu_buf nodes MU_CLEANUP(mu_buf_free) = {0};

	if (!s->cli->verbose)
		return;
	mu_buf_add(&nodes, "", 0);
	mu_hostlist_fold((const char *const *)g->node, g->n_node, &nodes);
	cli_say(s->cli, "jobid %u: nodes(%zu):`%s', cpu counts: %u(x%zu)", s->job, g->n_node,
		nodes.data ? (char *)nodes.data : "", g->n_cpus ? g->cpus[0] : 1, g->n_node);
	for (size_t i = 0, first = 0; i < g->n_node && i < g->n_tasks; first += g->tasks[i++]) {
		if (g->tasks[i] == 1)
			cli_say(s->cli, "launching StepId=%u.%u on host %s, 1 tasks: %zu", s->job, g->step,
				g->node[i], first);
		else
			cli_say(s->cli, "launching StepId=%u.%u on host %s, %u tasks: [%zu-%zu]", s->job,
				g->step, g->node[i], g->tasks[i], first, first + g->tasks[i] - 1);
	}
}

/* ---- options ---- */

static int check(struct srun *s, struct mu_err *err)
{
	const struct cli_given *mpi = cli_args_last(s->args, OPT_mpi);
	const char *job = cli_args_value(s->args, OPT_jobid),
		   *relative = cli_args_value(s->args, OPT_relative);
	const char *inside = getenv("SLURM_JOB_ID");
	int64_t n = 0;

	if (mpi && mpi->level == CLI_LINE && strcasecmp(mpi->value, "none") != 0)
		return mu_fail(err, MU_EDISABLED,
			       "--mpi=%s is not supported: none is the only kind; start MPI programs with "
			       "their own mpirun",
			       mpi->value);
	if (mpi && mpi->level != CLI_LINE && strcasecmp(mpi->value, "none") != 0)
		cli_say(s->cli,
			"SLURM_MPI_TYPE=%s is not supported: the tasks start without a process manager",
			mpi->value);
	if (!inside)
		inside = getenv("SLURM_JOBID");
	if (!job && !inside)
		return mu_fail(err, MU_EDISABLED,
			       "Unable to allocate resources: srun works inside a job in this version; put "
			       "it into a script and give that to sbatch");
	if (mu_number_parse("--jobid", job ? job : inside, 1, UINT32_MAX, &n, NULL))
		return mu_fail(err, MU_EINVAL, "Invalid job id: %s", job ? job : inside);
	s->job = (uint32_t)n;
	if (inside && job && strcmp(job, inside) != 0)
		return mu_fail(
		    err, MU_EDISABLED,
		    "--jobid=%s is not supported: a step runs in the job that srun is called from, %s", job,
		    inside);
	s->node = getenv("SLURMD_NODENAME");
	if (!s->node || !inside)
		return mu_fail(err, MU_EDISABLED,
			       "--jobid=%u is not supported outside the job: a step runs in the job that "
			       "srun is called from",
			       s->job);
	if (relative && strcmp(relative, "0") != 0)
		return mu_fail(err, MU_EDISABLED,
			       "--relative=%s is not supported: a step runs on the job's first node",
			       relative);
	if (cli_args_has(s->args, OPT_test_only))
		return mu_fail(err, MU_EDISABLED, "--test-only is not supported inside a job");
	if (!s->args->word_count)
		return mu_fail(err, MU_EINVAL, "No command given to execute.");
	return 0;
}

int cli_srun(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	struct srun s = {.cli = c, .args = &args, .fd = -1};
	Mu__JobSpec spec = MU__JOB_SPEC__INIT;
	Mu__StepAsk ask = MU__STEP_ASK__INIT;
	struct mu_err err = {0};
	int rc;

	if (cli_begin(c, argc, argv, true, &args, &rc))
		return rc;
	drop_job_variables(&args);
	if (c->verbose)
		cli_spec_dump(c, &args);
	if (check(&s, &err) || cli_spec_make(&args, &c->arena, &spec, &err) ||
	    fill_ask(&s, &ask, &spec, argc, argv, &err) || cli_conf_read(&c->arena, &c->conf, &err)) {
		cli_error(c, "%s", err.text);
		mu_buf_free(&s.environment);
		return 1;
	}
	if (ask_until_granted(&s, &ask, &err)) {
		if (err.code == MU_ECONNECT)
			cli_error(c, "Unable to create step for job %u: the agent of %s does not answer (%s)",
				  s.job, s.node, err.text);
		else
			cli_error(c, "Unable to create step for job %u: %s", s.job, err.text);
		mu_buf_free(&s.environment);
		return 1;
	}
	mu_buf_free(&s.environment);
	say_launch(&s);
	rc = srun_stream(&s);
	stream_reader_free(&s.reader);
	close(s.fd);
	return rc;
}
