/* cli/srun.c: runs a program as a step: of the job that this process belongs to, of another one (--jobid), or
 * of an allocation of its own. Asks the step manager, which is the agent of the job's first node. A step on
 * that node alone goes on over the same connection; one on several nodes is started by asking each node's
 * agent for its part. cli/srun_io.c moves the bytes. */
#include "cli/srun.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/spec.h"
#include "proto/het.h"
#include "proto/hostlist.h"
#include "proto/layout/near.h"
#include "proto/multiprog.h"
#include "proto/pb.h"

enum {
	ENVIRONMENT_MAX = 3 << 20,
	RETRY_FIRST_MSEC = 100,
	RETRY_LAST_MSEC = 2000,
	PART_TRIES = 300, /* a node to which the job's order has not come yet */
	PART_PAUSE_MSEC = 100,
	HOSTS_MAX = 65536
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
	case OPT_mem_bind:
	case OPT_gpu_bind:
	case OPT_tres_bind:
	case OPT_accel_bind:
	case OPT_preserve_env:
	case OPT_bcast:
	case OPT_send_libs:
	case OPT_distribution:
	case OPT_disable_status:
	case OPT_quit_on_interrupt:
	case OPT_verbose:
	case OPT_time:
	case OPT_mpi:
	case OPT_propagate:
	case OPT_overcommit:
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

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool mpi_known(const char *kind)
{
	static const char *const known[] = {"none",    "pmi2",	  "pmix",    "pmix_v2",
					    "pmix_v3", "pmix_v4", "pmix_v5", "list"};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strcasecmp(kind, known[i]) == 0)
			return true;
	return false;
}

/* ---- what is asked ---- */

/* --multi-prog: the file is read here, and every task must have its line before a node is asked. */
static int read_programs(struct srun *s, uint32_t tasks, struct mu_err *err)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena scratch = {0};
	const char *path = s->args->words[0];
	struct mu_multiprog prog;
	char *text, **words;
	size_t len, count;
	int rc;

	if (!cli_args_has(s->args, OPT_multi_prog))
		return 0;
	rc = cli_read_file(path, MU_MULTIPROG_BYTES, &s->cli->arena, &text, &len, err);
	if (rc)
		return rc;
	rc = mu_multiprog_parse(text, len, &scratch, &prog, err);
	for (uint32_t t = 0; rc == 0 && t < tasks; t++)
		rc = mu_multiprog_words(&prog, t, &scratch, &words, &count, err);
	if (rc)
		return mu_wrap(err, "Configuration file %s invalid", path);
	s->programs = (ProtobufCBinaryData){len, (uint8_t *)text};
	return 0;
}

static int fill_words(struct srun *s, Mu__StepAsk *ask, const Mu__JobSpec *spec, struct mu_err *err)
{
	struct mu_arena *a = &s->cli->arena;
	struct mu_buf *env = &s->environment;
	char *cwd = getcwd(NULL, 0);
	int rc = cli_environment_make(spec->export, environ, env, err);

	cli_environment_limits(cli_propagate(s->args), env);
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
	ask->has_multi_prog = ask->multi_prog = s->programs.len > 0;
	if (ask->multi_prog)
		ask->argv[0] = s->programs;
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

static int expand(struct srun *s, const char *list, char ***ret, size_t *ret_count, struct mu_err *err)
{
	return list ? mu_hostlist_expand(list, HOSTS_MAX, &s->cli->arena, ret, ret_count, err) : 0;
}

/* A host for each task, in order. */
static int fill_hosts(struct srun *s, Mu__StepAsk *ask, struct mu_err *err)
{
	const char *path = cli_spec_by_file(s->args, true);

	if (!path)
		return mu_fail(
		    err, MU_EINVAL,
		    "--distribution=arbitrary needs SLURM_HOSTFILE, a file with a host for each task");
	return cli_host_file(path, &s->cli->arena, &ask->host, &ask->n_host, err);
}

static int fill_nodes(struct srun *s, Mu__StepAsk *ask, const Mu__JobSpec *spec, struct mu_err *err)
{
	const struct cli_given *nodes = cli_args_last(s->args, OPT_nodes),
			       *tasks = cli_args_last(s->args, OPT_ntasks);
	const char *relative = cli_args_value(s->args, OPT_relative);
	bool tasks_asked = tasks && (tasks->level == CLI_LINE || !nodes || nodes->level != CLI_LINE);
	bool nodes_asked = nodes && nodes->level == CLI_LINE;
	uint32_t n = spec->has_nodes_min ? spec->nodes_min : 1;
	int64_t first = 0;
	int rc = expand(s, spec->nodes_required, &ask->nodes_required, &ask->n_nodes_required, err);

	if (!rc)
		rc = expand(s, spec->nodes_excluded, &ask->nodes_excluded, &ask->n_nodes_excluded, err);
	if (!rc && relative && mu_number_parse("--relative", relative, 0, HOSTS_MAX, &first, NULL))
		rc = mu_fail(err, MU_EINVAL, "Invalid numeric value \"%s\" for --relative.", relative);
	if (!rc && ask->distribution && strncasecmp(ask->distribution, "arbitrary", 9) == 0)
		rc = fill_hosts(s, ask, err);
	if (rc)
		return rc;
	/* Nodes by name are a wish for at least those. */
	if (!nodes_asked && ask->n_nodes_required)
		n = (uint32_t)ask->n_nodes_required;
	ask->has_ntasks = ask->has_nodes = ask->has_relative = ask->has_nodes_asked = 1;
	ask->relative = (uint32_t)first;
	ask->ntasks = spec->has_ntasks && (tasks_asked || !nodes)
			  ? spec->ntasks
			  : n * (spec->ntasks_per_node ? spec->ntasks_per_node : 1);
	if (tasks && nodes && nodes->level == CLI_LINE && tasks->level != CLI_LINE)
		ask->ntasks = spec->ntasks > n ? spec->ntasks : n;
	if (!tasks_asked && !nodes_asked && ask->n_nodes_required)
		ask->ntasks = n * (spec->ntasks_per_node ? spec->ntasks_per_node : 1);
	/* What the job has is no wish for all of its nodes. */
	if (!nodes_asked && ask->ntasks < n)
		n = ask->ntasks;
	if (n > ask->ntasks)
		return mu_fail(err, MU_ENODECOUNT, "%u tasks cannot run on %u nodes", ask->ntasks, n);
	ask->nodes = n;
	ask->nodes_asked = nodes_asked;
	if (nodes_asked && spec->has_nodes_max && spec->nodes_max >= n) {
		ask->has_nodes_max = 1;
		ask->nodes_max = spec->nodes_max;
	}
	ask->has_overcommit = spec->has_overcommit;
	ask->overcommit = spec->overcommit;
	return 0;
}

static void put_path(struct srun *s, const struct cli_args *args, int option, protobuf_c_boolean *ret_has,
		     ProtobufCBinaryData *ret)
{
	const char *value = cli_args_value(args, option);
	char cwd[4096];

	if (!value || !*value)
		return;
	if (value[0] != '/' && getcwd(cwd, sizeof cwd))
		value = mu_arena_printf(&s->cli->arena, "%s/%s", cwd, value);
	*ret_has = 1;
	*ret = bytes(value);
}

/* The last word on a task's GPUs: --gpu-bind or one of its other names, else a share each by --gpus-per-task,
 * but for --gres-flags=allow-task-sharing.
 */
static char *gpu_binding(struct srun *s, const Mu__JobSpec *spec)
{
	const char *bind = cli_args_value(s->args, OPT_gpu_bind),
		   *tres = cli_args_value(s->args, OPT_tres_bind),
		   *near = cli_args_value(s->args, OPT_accel_bind), *each = getenv("SLURM_GPUS_PER_TASK"),
		   *count = each ? strrchr(each, ':') : NULL;

	if (!getenv("SLURM_GPU_BIND")) /* the job's, and this step asks for devices of its own */
		bind = NULL;
	if (bind && *bind && strcasecmp(bind, "verbose") != 0 && strcasecmp(bind, "v") != 0)
		return (char *)bind;
	if (tres && strncasecmp(tres, "gres/gpu:", 9) == 0)
		return (char *)tres;
	if (near)
		return mu_arena_printf(&s->cli->arena, "%sclosest", strpbrk(near, "vV") ? "verbose," : "");
	if (each && *each && !spec->task_sharing)
		return mu_arena_printf(&s->cli->arena, "%sper_task:%s", bind ? "verbose," : "",
				       count ? count + 1 : each);
	return (char *)bind;
}

static int fill_binding(struct srun *s, Mu__StepAsk *ask, const Mu__JobSpec *spec, struct mu_err *err)
{
	const char *bind = cli_args_value(s->args, OPT_cpu_bind),
		   *tres = cli_args_value(s->args, OPT_tres_bind);
	struct mu_near near = {0};
	int rc = 0;

	ask->cpu_bind = (char *)(bind ? bind : cli_args_value(s->args, OPT_cpu_bind_old));
	ask->mem_bind = (char *)cli_args_value(s->args, OPT_mem_bind);
	ask->gpu_bind = gpu_binding(s, spec);
	ask->has_threads_per_core = spec->has_threads_per_core;
	ask->threads_per_core = spec->threads_per_core;
	ask->has_preserve_env = ask->preserve_env = cli_args_has(s->args, OPT_preserve_env);
	if (tres && *tres && strncasecmp(tres, "gres/gpu:", 9) != 0)
		return mu_fail(err, MU_EINVAL, "--tres-bind=%s: tasks are bound to gres/gpu only", tres);
	if (ask->mem_bind && *ask->mem_bind)
		rc = mu_mem_bind_parse(ask->mem_bind, &s->cli->arena, &near, err);
	mu_bind_free(&near.list);
	if (!rc && ask->gpu_bind && *ask->gpu_bind)
		rc = mu_gpu_bind_parse(ask->gpu_bind, &s->cli->arena, &near, err);
	mu_bind_free(&near.list);
	return rc;
}

int srun_fill_ask(struct srun *s, Mu__StepAsk *ask, const Mu__JobSpec *spec, int argc, char **argv,
		  struct mu_err *err)
{
	const struct cli_args *args = s->args;
	const char *kill = cli_args_value(args, OPT_kill_on_bad_exit);
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};
	mode_t mask = umask(0);
	int rc;

	ask->distribution = (char *)cli_args_value(args, OPT_distribution);
	if (cli_spec_by_file(args, true))
		ask->distribution = (char *)"arbitrary";
	rc = fill_nodes(s, ask, spec, err);
	umask(mask);
	if (!rc)
		rc = read_programs(s, ask->ntasks, err);
	if (!rc)
		rc = fill_words(s, ask, spec, err);
	if (rc)
		return rc;
	fill_streams(ask, spec);
	if (cli_args_has(args, OPT_pty)) {
		struct winsize size = {0};

		ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
		ask->has_pty = ask->has_rows = ask->has_columns = 1;
		ask->pty = 1;
		ask->rows = size.ws_row;
		ask->columns = size.ws_col;
	}
	ask->has_job = 1;
	ask->job = s->job.job;
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
	ask->has_overlap = ask->has_exact = ask->has_exclusive = ask->has_label = ask->has_unbuffered = 1;
	ask->has_kill_on_bad_exit = cli_args_has(args, OPT_kill_on_bad_exit);
	ask->overlap = cli_args_has(args, OPT_overlap);
	ask->exact = cli_args_has(args, OPT_exact);
	ask->exclusive = cli_args_has(args, OPT_exclusive);
	ask->label = cli_args_has(args, OPT_label);
	ask->unbuffered = cli_args_has(args, OPT_unbuffered);
	ask->kill_on_bad_exit = cli_args_has(args, OPT_kill_on_bad_exit) && (!kill || strcmp(kill, "0") != 0);
	put_path(s, args, OPT_task_prolog, &ask->has_task_prolog, &ask->task_prolog);
	put_path(s, args, OPT_task_epilog, &ask->has_task_epilog, &ask->task_epilog);
	const char *mpi = cli_args_value(args, OPT_mpi);

	ask->mpi = (char *)(mpi && !mpi_known(mpi) ? "none" : mpi);
	ask->has_umask = ask->has_immediate = 1;
	ask->umask = mask;
	ask->immediate = cli_args_has(args, OPT_immediate);
	ask->container = spec->container;
	ask->has_time_limit_sec = spec->has_time_limit_sec;
	ask->time_limit_sec = spec->time_limit_sec;
	/* The name in the environment is the job's, not this step's. */
	ask->name = cli_args_has(args, OPT_job_name) ? spec->name : NULL;
	if (!ask->name && ask->multi_prog)
		ask->name = (char *)base_name(s->args->words[0]);
	rc = fill_binding(s, ask, spec, err);
	if (rc)
		return rc;
	mu_buf_str(&text, "srun");
	for (int i = 0; i < argc && text.len < 8192; i++)
		mu_buf_printf(&text, " %s", argv[i]);
	for (size_t i = 0; i < text.len; i++)
		text.data[i] = text.data[i] < 0x20 || text.data[i] > 0x7e ? '?' : text.data[i];
	ask->submit_line = mu_arena_strdup(&s->cli->arena, (char *)text.data);
	return cli_spec_check(spec, err);
}

/* ---- asking ---- */

void srun_hang_up(struct srun *s)
{
	for (size_t i = 0; i < s->conns; i++) {
		close(s->conn[i].fd);
		stream_reader_free(&s->conn[i].reader);
		mu_buf_free(&s->conn[i].to_send);
		mu_buf_free(&s->conn[i].pmi);
	}
	s->conns = 0;
	if (s->manager >= 0)
		close(s->manager);
	s->manager = -1;
	stream_reader_free(&s->manager_reader);
	s->manager_reader = (struct stream_reader){0};
}

int srun_send_ask(struct srun *s, const Mu__StepAsk *ask, const struct cli_door *door, int *ret_fd,
		  struct stream_reader *ret_reader, Mu__StepGranted **ret, struct mu_err *err)
{
	struct mu_buf body MU_CLEANUP(mu_buf_free) = {0};

	mu_pb_pack(&ask->base, &body);
	return cli_door_ask(s->cli, &s->job, door, STREAM_STEP_ASK, (struct mu_view){body.data, body.len},
			    ret_fd, ret_reader, ret, err);
}

static void add_conn(struct srun *s, struct srun *of, int fd, struct stream_reader reader, const char *node)
{
	s->conn[s->conns++] = (struct srun_conn){.fd = fd, .of = of, .node = node, .reader = reader};
}

/* Starts one node's part. A node that has not heard of the job yet is asked again. */
int srun_start_part(struct srun *s, struct srun *into, const Mu__StepAsk *ask, Mu__StepPart *part,
		    const Mu__StepWhole *step, uint32_t node_index, struct mu_err *err)
{
	Mu__StepAsk one = *ask;
	Mu__StepWhole whole = *step;
	const struct cli_door door = {part->node, part->addr && *part->addr ? part->addr : part->node,
				      part->port};
	struct stream_reader reader = {0};
	Mu__StepGranted *granted;
	int fd = -1, rc = 0;

	whole.has_node_index = 1;
	whole.node_index = node_index;
	one.part = part;
	one.whole = &whole;
	if (!cli_door_local(s->cli, part->node) && !s->job.has_key &&
	    (rc = cli_job_ask(s->cli, &s->job, 2, 0, err)))
		return rc;
	for (int tries = 0; tries < PART_TRIES; tries++) {
		rc = srun_send_ask(s, &one, &door, &fd, &reader, &granted, err);
		if (rc != MU_EJOBID)
			break;
		nanosleep(&(struct timespec){.tv_nsec = PART_PAUSE_MSEC * 1000000L}, NULL);
	}
	if (rc == 0)
		add_conn(into, s, fd, reader, part->node);
	return rc;
}

/* 0: granted; 1: busy, ask again; negative: refused. */
static int ask_once(struct srun *s, const Mu__StepAsk *ask, struct mu_err *err)
{
	struct stream_reader reader = {0};
	int fd = -1, rc = srun_send_ask(s, ask, &s->job.first, &fd, &reader, &s->granted, err);

	if (rc)
		return rc;
	s->conn = mu_arena_alloc(&s->cli->arena, (s->granted->n_part + 1) * sizeof *s->conn);
	if (!s->granted->n_part || !s->granted->whole) {
		add_conn(s, s, fd, reader, s->granted->n_node ? s->granted->node[0] : s->job.first.node);
		return 0;
	}
	s->manager = fd;
	s->manager_reader = reader;
	for (size_t i = 0; i < s->granted->n_part && rc == 0; i++)
		rc = srun_start_part(s, s, ask, s->granted->part[i], s->granted->whole, (uint32_t)i, err);
	if (rc)
		srun_hang_up(s);
	return rc;
}

bool srun_wait(struct srun *s, const Mu__StepAsk *ask, struct srun_patience *p)
{
	if (ask->immediate)
		return false;
	if (!p->told && !s->cli->quiet)
		cli_say(s->cli, "Job %u step creation temporarily disabled, retrying (%s)", s->job.job,
			mu_strerror(MU_ENODEBUSY));
	p->told = true;
	p->msec = p->msec ? p->msec : RETRY_FIRST_MSEC;
	nanosleep(&(struct timespec){.tv_sec = p->msec / 1000, .tv_nsec = p->msec % 1000 * 1000000L}, NULL);
	p->msec = p->msec * 2 < RETRY_LAST_MSEC ? p->msec * 2 : RETRY_LAST_MSEC;
	return true;
}

static int ask_until_granted(struct srun *s, const Mu__StepAsk *ask, struct mu_err *err)
{
	struct srun_patience patience = {0};

	for (;;) {
		int rc = ask_once(s, ask, err);

		if (rc < 0)
			return rc;
		if (rc == 0) {
			if (patience.told && !s->cli->quiet)
				cli_say(s->cli, "Step created for StepId=%u.%u", s->job.job,
					s->granted->step);
			return 0;
		}
		if (!srun_wait(s, ask, &patience))
			return mu_fail(err, MU_ENODEBUSY, "%s", mu_strerror(MU_ENODEBUSY));
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
	cli_say(s->cli, "jobid %u: nodes(%zu):`%s', cpu counts: %u(x%zu)", s->job.job, g->n_node,
		nodes.data ? (char *)nodes.data : "", g->n_cpus ? g->cpus[0] : 1, g->n_node);
	for (size_t i = 0, first = 0; i < g->n_node && i < g->n_tasks; first += g->tasks[i++]) {
		if (g->tasks[i] == 1)
			cli_say(s->cli, "launching StepId=%u.%u on host %s, 1 tasks: %zu", s->job.job,
				g->step, g->node[i], first);
		else
			cli_say(s->cli, "launching StepId=%u.%u on host %s, %u tasks: [%zu-%zu]", s->job.job,
				g->step, g->node[i], g->tasks[i], first, first + g->tasks[i] - 1);
	}
}

/* ---- options ---- */

/* What would come to light only once a job is granted. */
static int check_numbers(const struct srun *s, struct mu_err *err)
{
	const char *kill = cli_args_value(s->args, OPT_kill_on_bad_exit),
		   *wait = cli_args_value(s->args, OPT_wait_step);
	int64_t seconds;

	if (kill && *kill && strcmp(kill, "0") != 0 && strcmp(kill, "1") != 0)
		return mu_fail(err, MU_EINVAL, "Invalid --kill-on-bad-exit specification: \"%s\" (0 or 1)",
			       kill);
	if (wait && mu_number_parse("--wait", wait, 0, INT32_MAX, &seconds, NULL))
		return mu_fail(err, MU_EINVAL, "Invalid --wait specification: \"%s\" (seconds)", wait);
	return 0;
}

static int check(struct srun *s, struct mu_err *err)
{
	const struct cli_given *mpi = cli_args_last(s->args, OPT_mpi);

	if (mpi && !mpi_known(mpi->value) && mpi->level == CLI_LINE)
		return mu_fail(err, MU_EDISABLED,
			       "--mpi=%s is not supported: none, pmi2 and pmix are the kinds", mpi->value);
	if (mpi && !mpi_known(mpi->value))
		cli_say(s->cli,
			"SLURM_MPI_TYPE=%s is not supported: the tasks start without a process manager",
			mpi->value);
	if (cli_args_has(s->args, OPT_pty) && cli_args_value(s->args, OPT_pty))
		return mu_fail(err, MU_EDISABLED,
			       "--pty=%s is not supported: the terminal is that of standard input",
			       cli_args_value(s->args, OPT_pty));
	if (!s->args->word_count)
		return mu_fail(err, MU_EINVAL, "No command given to execute.");
	return 0;
}

/* The job whose step it is to be; s->job.job stays 0 where srun is to allocate for itself. */
static int find_job(struct srun *s, struct mu_err *err)
{
	const char *job = cli_args_value(s->args, OPT_jobid), *inside = getenv("SLURM_JOB_ID"),
		   *list = getenv("SLURM_JOB_NODELIST");
	char **names;
	size_t count = 0;
	int64_t n = 0;

	if (!inside || !*inside)
		inside = getenv("SLURM_JOBID");
	if (!job || !*job)
		job = inside;
	if (!job || !*job)
		return 0;
	if (mu_number_parse("--jobid", job, 1, UINT32_MAX, &n, NULL))
		return mu_fail(err, MU_EINVAL, "Invalid job id: %s", job);
	s->job.job = (uint32_t)n;
	if (inside && strcmp(job, inside) == 0 && list && *list &&
	    mu_hostlist_expand(list, HOSTS_MAX, &s->cli->arena, &names, &count, NULL) == 0 && count)
		s->job.first.node = names[0];
	else if (inside && strcmp(job, inside) == 0)
		s->job.first.node = getenv("SLURMD_NODENAME");
	if (cli_args_has(s->args, OPT_test_only))
		return mu_fail(err, MU_EDISABLED,
			       "--test-only asks when an allocation would start, and job %u has one",
			       s->job.job);
	return 0;
}

/* SrunProlog and SrunEpilog, or what --prolog and --epilog name instead: they see the step's command line,
 * and their end changes nothing. */
static void run_here(struct srun *s, int option, const char *usual, const char *context)
{
	const char *program = cli_args_value(s->args, option);
	char **argv = mu_arena_alloc(&s->cli->arena, (s->args->word_count + 2) * sizeof *argv);
	int status;

	program = program ? program : usual;
	if (!program || !*program || strcasecmp(program, "none") == 0)
		return;
	argv[0] = (char *)program;
	for (size_t i = 0; i < s->args->word_count; i++)
		argv[i + 1] = s->args->words[i];
	pid_t pid = fork();

	if (pid == 0) {
		char id[16];

		snprintf(id, sizeof id, "%u", s->job.job);
		setenv("SLURM_SCRIPT_CONTEXT", context, 1);
		setenv("SLURM_JOB_ID", id, 1);
		setenv("SLURM_JOBID", id, 1);
		execvp(program, argv);
		cli_error(s->cli, "%s: %s", program, strerror(errno));
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid < 0)
		cli_error(s->cli, "%s: %s", program, strerror(errno));
	else if (WIFEXITED(status) && WEXITSTATUS(status) && s->cli->verbose)
		cli_say(s->cli, "%s: %s rc=%d", context, program, WEXITSTATUS(status));
}

/* --bcast: the program goes to every node by a step of its own, as sbcast does it, and runs from there. */
static int broadcast(struct srun *s)
{
	struct mu_arena *a = &s->cli->arena;
	const char *where = cli_args_value(s->args, OPT_bcast),
		   *libs = cli_args_value(s->args, OPT_send_libs);
	char *program = cli_find_program(a, s->args->words[0]), cwd[4096] = ".";
	int status = -1;

	if (cli_args_has(s->args, OPT_send_libs) && (!libs || strcasecmp(libs, "no") != 0)) {
		cli_error(s->cli, "--send-libs is not supported: --bcast copies the program alone");
		return 1;
	}
	if (!cli_args_has(s->args, OPT_bcast))
		return 0;
	if (!program || cli_args_has(s->args, OPT_multi_prog)) {
		cli_error(s->cli, "--bcast: %s is no program that can be copied", s->args->words[0]);
		return 1;
	}
	if (!getcwd(cwd, sizeof cwd))
		cwd[0] = 0;
	where = where && *where ? where : mu_arena_printf(a, "%s/", cwd);
	if (where[strlen(where) - 1] == '/')
		where = mu_arena_printf(a, "%sslurm_bcast_%u_%d_%s", where, s->job.job, getpid(),
					base_name(program));
	pid_t pid = fork();

	if (pid == 0) {
		char *words[] = {"-f", mu_arena_printf(a, "--jobid=%u", s->job.job), program, (char *)where};
		struct cli sbcast = {.name = "sbcast", .command = MU_SBCAST};

		unsetenv("SLURM_STEP_ID");
		_exit(cli_sbcast(&sbcast, sizeof words / sizeof *words, words));
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid < 0 || status != 0) {
		cli_error(s->cli, "--bcast: %s could not be copied to %s", program, where);
		return 1;
	}
	s->args->words[0] = (char *)where;
	return 0;
}

int srun_run(struct srun *s, int (*start)(void *arg, struct mu_err *err), void *arg)
{
	struct mu_err err = {0};
	int rc = cli_job_door(s->cli, &s->job, &err);

	if (!rc)
		run_here(s, OPT_prolog, s->cli->conf.srun_prolog, "srun_prolog");
	if (!rc)
		rc = start(arg, &err);
	mu_buf_free(&s->environment);
	if (rc == MU_ECONNECT && s->job.first.node)
		cli_error(s->cli, "Unable to create step for job %u: the agent of %s does not answer (%s)",
			  s->job.job, s->job.first.node, err.text);
	else if (rc)
		cli_error(s->cli, "Unable to create step for job %u: %s", s->job.job, err.text);
	if (rc)
		return 1;
	say_launch(s);
	rc = srun_stream(s);
	srun_hang_up(s);
	run_here(s, OPT_epilog, s->cli->conf.srun_epilog, "srun_epilog");
	return rc;
}

struct step {
	struct srun *s;
	Mu__StepAsk ask;
};

static int start_step(void *arg, struct mu_err *err)
{
	struct step *step = arg;

	return ask_until_granted(step->s, &step->ask, err);
}

/* Runs the step in s->job and gives srun's exit code. */
static int run_step(struct srun *s, const Mu__JobSpec *spec, int argc, char **argv)
{
	struct step step = {.s = s, .ask = MU__STEP_ASK__INIT};
	struct mu_err err = {0};

	if (broadcast(s))
		return 1;
	if (srun_fill_ask(s, &step.ask, spec, argc, argv, &err)) {
		cli_error(s->cli, "%s", err.text);
		return 1;
	}
	return srun_run(s, start_step, &step);
}

/* What admission made of the request is what the step gets. */
void srun_spec_from_row(Mu__JobSpec *spec, const Mu__JobRow *row)
{
	spec->has_ntasks = spec->has_nodes_min = 1;
	spec->has_nodes_max = 0;
	spec->nodes_min = row->node_count;
	spec->ntasks = row->ntasks > spec->nodes_min ? row->ntasks : spec->nodes_min;
	spec->nodes_required = spec->nodes_excluded = NULL;
	spec->has_mem_node_mib = spec->has_mem_cpu_mib = 0;
	spec->mem_node_mib = spec->mem_cpu_mib = 0;
	spec->n_gres = spec->n_gres_job = spec->n_gres_task = 0;
	if (spec->cpus_per_gpu) {
		spec->has_cpus_per_task = 1;
		spec->cpus_per_task = (row->cpus_total + spec->ntasks - 1) / spec->ntasks;
	}
}

/* Its own allocation, of which its step is all that there is. */
static int run_alone(struct srun *s, Mu__JobSpec *spec, int argc, char **argv)
{
	struct cli_allocation a;
	Mu__JobSpec job = *spec;
	struct mu_err err = {0};
	int rc;

	job.has_std_in = job.has_std_out = job.has_std_err = 0;
	if (!job.name)
		job.name = (char *)base_name(s->args->words[0]);
	if (cli_spec_surroundings(s->cli, "srun", argc, argv, &job, &err)) {
		cli_error(s->cli, "Unable to allocate resources: %s", err.text);
		return 1;
	}
	if (cli_args_has(s->args, OPT_test_only))
		return cli_allocate_test(s->cli, &job);
	if (cli_allocate(s->cli, s->args, &job, NULL, 0, true, &a, &rc) == 0) {
		s->job = a.job;
		srun_spec_from_row(spec, a.job.row);
		rc = run_step(s, spec, argc, argv);
		cli_allocation_release(s->cli, &a, s->signal ? s->signal << 8 : rc);
	}
	cli_allocation_done(s->cli, &a);
	return rc;
}

static bool on_line(const struct cli_args *args, int option)
{
	const struct cli_given *g = cli_args_last(args, option);

	return g && g->level == CLI_LINE;
}

/* How a task is bound to devices is in its environment. What the job around said of it stands until this step
 * asks for devices of its own. */
static void tell_task(const struct cli_args *args, int option, const char *name)
{
	const struct cli_given *g = cli_args_last(args, option);
	bool own = on_line(args, OPT_gpus) || on_line(args, OPT_gpus_per_node) || on_line(args, OPT_gres) ||
		   on_line(args, OPT_gpus_per_task);

	if (g && g->value && (g->level == CLI_LINE || !own))
		setenv(name, g->value, 1);
	else
		unsetenv(name);
}

/* Of variables that tell of components one by one, that of the group. */
static uint32_t group_asked;

static const char *of_group(const char *name)
{
	char text[128];

	if (!getenv("SLURM_HET_SIZE") || !mu_het_variable(name))
		return group_asked && strcmp(name, "SLURM_NTASKS_PER_NODE") == 0 ? NULL : getenv(name);
	snprintf(text, sizeof text, "%s_HET_GROUP_%u", name, group_asked);
	return getenv(text);
}

int srun_read_group(struct cli *c, const struct cli_args *args, uint32_t group, struct cli_args *ret_args,
		    Mu__JobSpec *spec, struct mu_err *err)
{
	*ret_args = (struct cli_args){.words = args->words, .word_count = args->word_count};
	group_asked = group;
	cli_args_environment(ret_args, MU_SRUN, of_group, &c->arena);
	cli_args_append(ret_args, args, CLI_LINE, NULL, 0, &c->arena);
	drop_job_variables(ret_args);
	int rc = cli_spec_make(ret_args, &c->arena, spec, err);

	if (!rc)
		cli_spec_nodes(c, ret_args, spec);
	return rc ? rc : cli_spec_step(&c->arena, spec, err);
}

int cli_srun(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	struct srun s = {.cli = c, .args = &args, .manager = -1, .usage = MU__USAGE__INIT};
	Mu__JobSpec spec = MU__JOB_SPEC__INIT;
	struct mu_err err = {0};
	int rc;

	if (cli_begin(c, argc, argv, true, &args, &rc))
		return rc;
	if (cli_args_value(&args, OPT_mpi) && strcasecmp(cli_args_value(&args, OPT_mpi), "list") == 0) {
		printf("MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\n");
		return 0;
	}
	rc = check(&s, &err);
	if (!rc)
		rc = check_numbers(&s, &err);
	if (!rc)
		rc = find_job(&s, &err);
	if (!rc) {
		tell_task(&args, OPT_gpus_per_task, "SLURM_GPUS_PER_TASK");
		tell_task(&args, OPT_gpu_bind, "SLURM_GPU_BIND");
	}
	if (!rc && srun_het(&s, &args, argc, argv, &rc))
		return rc;
	if (!rc && s.job.job)
		drop_job_variables(&args);
	if (!rc && c->verbose)
		cli_spec_dump(c, &args);
	if (!rc)
		rc = cli_spec_make(&args, &c->arena, &spec, &err);
	if (!rc && !s.job.job)
		rc = cli_spec_hosts(&args, true, &c->arena, &spec, &err);
	if (!rc)
		cli_spec_nodes(c, &args, &spec);
	if (!rc && s.job.job)
		rc = cli_spec_step(&c->arena, &spec, &err);
	if (!rc)
		rc = cli_conf_read(&c->arena, &c->conf, &err);
	if (rc) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	return s.job.job ? run_step(&s, &spec, argc, argv) : run_alone(&s, &spec, argc, argv);
}
