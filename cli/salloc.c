/* cli/salloc.c: an allocation, and a command or shell on the submitting side while it lasts. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/allocate.h"
#include "cli/het.h"
#include "cli/spec.h"
#include "proto/layout/layout.h"
#include "proto/states.h"

enum { AGAIN_MSEC = 1000 };

struct salloc {
	struct cli *cli;
	const struct cli_args *args;
	const Mu__JobSpec *spec;
	size_t components; /* of a heterogeneous job; else 1 */
	struct cli_job *component; /* those behind the first, once they run */
	struct cli_allocation a;
	char **command;
	bool terminal; /* the command gets it */
	pid_t pid;
	int signals;
	int aborted; /* by this signal */
};

/* ---- the command's variables ---- */

static void put(const char *name, const char *value)
{
	if (value && *value)
		setenv(name, value, 1);
}

static void put_number(struct salloc *s, const char *name, int64_t value)
{
	setenv(name, mu_arena_printf(&s->cli->arena, "%" PRId64, value), 1);
}

static void put_counts(struct salloc *s, const char *name, bool tasks)
{
	const Mu__JobRow *row = s->a.job.row;
	uint32_t *count = mu_arena_alloc(&s->cli->arena, (row->n_alloc + 1) * sizeof *count);
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};

	for (size_t i = 0; i < row->n_alloc; i++)
		count[i] = tasks ? row->alloc[i]->tasks : row->alloc[i]->cpus;
	mu_counts_print(count, row->n_alloc, &text);
	put(name, text.data ? (char *)text.data : "");
}

static void put_variables(struct salloc *s)
{
	const Mu__JobRow *row = s->a.job.row;
	const Mu__JobSpec *spec = s->spec;
	static const char *const lists[] = {"SLURM_JOB_NODELIST", "SLURM_NODELIST"},
				 *const counts[] = {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"},
				 *const ids[] = {"SLURM_JOB_ID", "SLURM_JOBID"},
				 *const tasks[] = {"SLURM_NTASKS", "SLURM_NPROCS"};

	for (size_t i = 0; i < 2; i++) {
		put_number(s, ids[i], row->id);
		put(lists[i], row->node_list);
		put_number(s, counts[i], row->node_count);
		if (spec->has_ntasks || spec->has_ntasks_per_node)
			put_number(s, tasks[i], row->ntasks);
	}
	put_counts(s, "SLURM_JOB_CPUS_PER_NODE", false);
	put_counts(s, "SLURM_TASKS_PER_NODE", true);
	if (spec->has_ntasks_per_node)
		put_number(s, "SLURM_NTASKS_PER_NODE", spec->ntasks_per_node);
	if (spec->has_cpus_per_task)
		put_number(s, "SLURM_CPUS_PER_TASK", spec->cpus_per_task);
	if (row->mem_cpu_mib)
		put_number(s, "SLURM_MEM_PER_CPU", (int64_t)row->mem_cpu_mib);
	else if (row->mem_node_mib)
		put_number(s, "SLURM_MEM_PER_NODE", (int64_t)row->mem_node_mib);
	put("SLURM_JOB_NAME", spec->name);
	put("SLURM_JOB_PARTITION", row->partition);
	put("SLURM_JOB_ACCOUNT", row->account);
	put("SLURM_JOB_QOS", row->qos);
	put("SLURM_JOB_USER", row->user);
	put_number(s, "SLURM_JOB_UID", row->uid);
	put_number(s, "SLURM_JOB_GID", row->gid);
	put("SLURM_SUBMIT_DIR", (char *)spec->work_dir.data);
	put("SLURM_SUBMIT_HOST", spec->submit_host);
	put("SLURM_CLUSTER_NAME", s->cli->conf.cluster);
	put("SLURM_CONF", s->cli->conf.path);
	put_number(s, "SLURM_JOB_START_TIME", row->start_usec / 1000000);
	if (row->time_limit_sec > 0)
		put_number(s, "SLURM_JOB_END_TIME", row->start_usec / 1000000 + row->time_limit_sec);
}

static void put_variable(void *arg, const char *name, const char *value)
{
	put(name, value);
}

static void put_components(struct salloc *s)
{
	struct mu_arena *arena = &s->cli->arena;

	if (s->components < 2)
		return;
	put_number(s, "SLURM_HET_SIZE", (int64_t)s->components);
	for (uint32_t k = 0; k < s->components; k++) {
		const Mu__JobRow *row = k ? s->component[k - 1].row : s->a.job.row;

		if (row)
			mu_het_variables(cli_het_component(row, arena), k, arena, put_variable, s);
	}
}

/* They run, as the first does: where. */
static void ask_components(struct salloc *s)
{
	s->component = mu_arena_alloc(&s->cli->arena, s->components * sizeof *s->component);
	for (size_t k = 1; k < s->components; k++) {
		struct cli_job *j = &s->component[k - 1];
		struct mu_err err = {0};

		*j = (struct cli_job){.job = s->a.job.job + (uint32_t)k};
		if (cli_job_ask(s->cli, j, 2, 0, &err))
			cli_error(s->cli, "job %u+%zu: %s", s->a.job.job, k, err.text);
		else if (!s->cli->quiet)
			cli_say(s->cli, "Nodes %s are ready for job",
				j->row->node_list ? j->row->node_list : "");
	}
}

/* ---- the command ---- */

static const char *base(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static const char *user_shell(void)
{
	const char *shell = getenv("SHELL");
	static char text[4096];
	struct passwd entry, *found = NULL;

	if (shell && *shell)
		return shell;
	getpwuid_r(getuid(), &entry, text, sizeof text, &found);
	return found && found->pw_shell && *found->pw_shell ? found->pw_shell : "/bin/sh";
}

static void run_child(struct salloc *s)
{
	sigset_t none;

	setpgid(0, 0);
	if (s->terminal)
		tcsetpgrp(STDIN_FILENO, getpid());
	sigaction(SIGTTOU, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	put_variables(s);
	put_components(s);
	execvp(s->command[0], s->command);
	cli_error(s->cli, "%s: %s", s->command[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

static void end_command(struct salloc *s)
{
	const struct cli_given *g = cli_args_last(s->args, OPT_kill_command);
	uint32_t number = SIGTERM;

	if (g && g->value)
		cli_signal_parse(g->value, &number, NULL);
	if (!g && !s->terminal && !s->aborted)
		return; /* it goes on: nobody asked for its end */
	kill(-s->pid, g ? (int)number : SIGHUP);
	kill(-s->pid, SIGCONT);
}

static void say_over(struct salloc *s)
{
	if (s->a.cause == END_TIME_LIMIT)
		cli_say(s->cli, "Job %u has exceeded its time limit and its allocation has been revoked.",
			s->a.job.job);
	else
		cli_say(s->cli, "Job allocation %u has been revoked.", s->a.job.job);
}

static void take_signals(struct salloc *s)
{
	struct signalfd_siginfo info;

	while (read(s->signals, &info, sizeof info) == (ssize_t)sizeof info) {
		if (info.ssi_signo != SIGHUP && info.ssi_signo != SIGTERM)
			continue; /* what the terminal sends is the command's */
		if (!s->aborted)
			cli_say(s->cli, "Job aborted due to signal");
		s->aborted = (int)info.ssi_signo;
		kill(-s->pid, s->aborted);
		kill(-s->pid, SIGCONT);
	}
}

/* True when it has ended. A command that stops stops salloc as well, and both go on together. */
static bool reap(struct salloc *s, int *ret_status)
{
	while (waitpid(s->pid, ret_status, WNOHANG | WUNTRACED) == s->pid) {
		if (!WIFSTOPPED(*ret_status))
			return true;
		if (!s->terminal)
			continue;
		tcsetpgrp(STDIN_FILENO, getpgrp());
		raise(SIGSTOP);
		tcsetpgrp(STDIN_FILENO, s->pid);
		kill(-s->pid, SIGCONT);
	}
	return false;
}

static int open_signals(void)
{
	static const int numbers[] = {SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		sigaddset(&set, numbers[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Runs the command to its end; 256 times a signal, or its exit code. */
static int run_command(struct salloc *s)
{
	int status = 0;

	s->terminal = isatty(STDIN_FILENO) && tcgetpgrp(STDIN_FILENO) == getpgrp();
	s->signals = open_signals();
	sigaction(SIGTTOU, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	fflush(NULL);
	s->pid = fork();
	if (s->pid == 0)
		run_child(s);
	if (s->pid < 0) {
		cli_error(s->cli, "fork: %s", strerror(errno));
		return 1;
	}
	setpgid(s->pid, s->pid);
	while (!reap(s, &status)) {
		struct pollfd p[2] = {{s->signals, POLLIN, 0}, {s->a.over ? -1 : s->a.fd, POLLIN, 0}};
		bool was_over = s->a.over;

		bool lost = s->a.fd < 0 && !s->a.over;

		if (poll(p, 2, lost ? AGAIN_MSEC : -1) < 0 && errno != EINTR)
			break;
		if (lost)
			cli_allocation_again(s->cli, &s->a);
		if (p[0].revents)
			take_signals(s);
		if (p[1].revents)
			cli_allocation_hear(&s->a);
		if (s->a.over && !was_over) {
			say_over(s);
			end_command(s);
		}
	}
	if (s->terminal)
		tcsetpgrp(STDIN_FILENO, getpgrp());
	close(s->signals);
	return WIFSIGNALED(status) ? WTERMSIG(status) << 8 : WEXITSTATUS(status);
}

static int work(struct salloc *s, bool shell)
{
	const Mu__JobRow *row = s->a.job.row;
	int code = 1;

	if (!s->cli->quiet)
		cli_say(s->cli, "Nodes %s are ready for job", row->node_list ? row->node_list : "");
	ask_components(s);
	if (cli_args_has(s->args, OPT_no_shell))
		return 0;
	if (cli_args_has(s->args, OPT_bell) && !cli_args_has(s->args, OPT_no_bell) && isatty(STDOUT_FILENO))
		fputc('\a', stdout);
	if (!shell && !cli_find_program(&s->cli->arena, s->command[0]))
		cli_error(s->cli, "_fork_command: Unable to find command \"%s\"", s->command[0]);
	else
		code = run_command(s);
	if (!s->a.over && !s->cli->quiet)
		cli_say(s->cli, "Relinquishing job allocation %u", s->a.job.job);
	cli_allocation_release(s->cli, &s->a, s->aborted ? s->aborted << 8 : code);
	if (s->aborted)
		return 1;
	return code > 255 ? 128 + (code >> 8) : code;
}

int cli_salloc(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	struct salloc s = {.cli = c};
	struct cli_part *parts;
	struct mu_err err = {0};
	static char *shell[3];
	size_t count;
	int rc;

	if (cli_begin(c, argc, argv, true, &args, &rc))
		return rc;
	if (c->verbose)
		cli_spec_dump(c, &args);
	if (cli_parts_split(c, &args, false, &parts, &count, &err) || cli_check_clusters(c, &args, &err) ||
	    cli_parts_specs(c, parts, count, &err)) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	const struct cli_args *first = s.args = &parts[0].args;
	Mu__JobSpec *spec = &parts[0].spec;

	shell[0] = (char *)user_shell();
	shell[1] = isatty(STDIN_FILENO) ? (char *)"-i" : NULL;
	s.command = first->word_count ? first->words : shell;
	if (!spec->name)
		spec->name = (char *)(first->word_count ? base(first->words[0]) : "interactive");
	rc = cli_spec_surroundings(c, "salloc", argc, argv, spec, &err);
	cli_parts_carry(parts, count);
	for (size_t i = 1; i < count && !rc; i++)
		rc = cli_spec_surroundings(c, "salloc", argc, argv, &parts[i].spec, &err);
	if (rc) {
		cli_error(c, "Job submit/allocate failed: %s", err.text);
		return 1;
	}
	s.spec = spec;
	s.components = count;
	if (cli_allocate(c, first, spec, cli_parts_others(c, parts, count), count - 1,
			 !cli_args_has(first, OPT_no_shell), &s.a, &rc) == 0)
		rc = work(&s, !first->word_count);
	cli_allocation_done(c, &s.a);
	return rc;
}
