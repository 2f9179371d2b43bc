/* exec/agent_prog.c: the site's own programs on a node: prolog, epilog, health check, what is called when
 * processes survive. Each runs as the agent's user in a process group of its own, beside the loop, for as
 * long as PrologEpilogTimeout lets it. Owns: their processes. Leaves to agent_attempt.c: what their ends
 * mean. An agent that ends takes them along; the next one runs a prolog or an epilog that had not ended
 * again. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/agent.h"
#include "exec/spool.h"
#include "log/diag.h"
#include "proto/conf.h"
#include "proto/states.h"

enum {
	PROGS_MAX = 2 * AGENT_ATTEMPTS_MAX,
	FILES_MAX = 64,
	ENV_MAX = 160,
	HEALTH_LIMIT_SEC = 60,
	CLEAR_LIMIT_SEC = 60
};

struct agent_prog {
	struct agent_prog *next;
	struct mu_arena arena;
	enum agent_prog_kind kind;
	uint32_t job, attempt;
	pid_t pid;
	char *file[FILES_MAX];
	size_t files, at;
	char **env;
	char *argv[5];
	int64_t deadline_boot_usec; /* 0: none */
	bool late;
};

static const struct {
	const char *word, *context;
} kind_row[] = {[AGENT_PROLOG] = {"Prolog", "prolog_slurmd"},
		[AGENT_EPILOG] = {"Epilog", "epilog_slurmd"},
		[AGENT_HEALTH] = {"HealthCheckProgram", "health_check"},
		[AGENT_UNKILLABLE] = {"UnkillableStepProgram", "unkillable_step"},
		[AGENT_MAIL] = {"MailProg", "mail"},
		[AGENT_REMOVE] = {"rm", "remove"},
		[AGENT_CLEAR] = {"container", "clear"}};

/* ---- what it is given ---- */

static bool is_for_programs(const char *entry)
{
	static const char *const prefix[] = {"SLURM", "CUDA_", "NVIDIA_", "ROCR_", "GPU_", "ZE_"};
	for (size_t i = 0; i < sizeof prefix / sizeof *prefix; i++)
		if (strncmp(entry, prefix[i], strlen(prefix[i])) == 0)
			return true;
	return false;
}

static void make_env(const struct agent *a, const struct agent_attempt *t, struct agent_prog *p)
{
	struct exe_env_words words;
	ProtobufCBinaryData *entry = NULL;
	size_t count = 0, used = 0;
	agent_env_words(a, &words);
	if (t && t->order->spec && t->order->here)
		exe_env_build(t->order, &words, NULL, (struct mu_view){NULL, 0}, &p->arena, &entry, &count);
	p->env = mu_arena_alloc(&p->arena, (ENV_MAX + 8) * sizeof *p->env);
	for (size_t i = 0; i < count && used < ENV_MAX; i++)
		if (is_for_programs((char *)entry[i].data))
			p->env[used++] = (char *)entry[i].data;
	p->env[used++] = mu_arena_printf(&p->arena, "SLURM_SCRIPT_CONTEXT=%s", kind_row[p->kind].context);
	p->env[used++] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
	if (!t) {
		p->env[used++] = mu_arena_printf(&p->arena, "SLURMD_NODENAME=%s", a->node);
		p->env[used++] = mu_arena_printf(&p->arena, "SLURM_CLUSTER_NAME=%s", a->cluster);
		p->env[used++] = mu_arena_printf(&p->arena, "SLURM_CONF=%s", a->conf_path);
	}
}

/* PATTERN names a file, or with *, ? or [ any number of them, which run in the order of their names. */
static int find_files(struct agent_prog *p, const char *pattern, struct mu_err *err)
{
	glob_t found = {0};
	int code = glob(pattern, 0, NULL, &found);
	if (code && code != GLOB_NOMATCH)
		return mu_fail(err, MU_EIO, "%s=%s cannot be looked up", kind_row[p->kind].word, pattern);
	for (size_t i = 0; code == 0 && i < found.gl_pathc && p->files < FILES_MAX; i++)
		p->file[p->files++] = mu_arena_strdup(&p->arena, found.gl_pathv[i]);
	globfree(&found);
	if (p->files == 0 && !strpbrk(pattern, "*?["))
		return mu_fail(err, MU_ENOENT, "%s=%s: no such file", kind_row[p->kind].word, pattern);
	return 0;
}

/* ---- running ---- */

static void child(struct agent_prog *p)
{
	sigset_t none;
	struct sigaction normal = {.sa_handler = SIG_DFL};
	p->argv[0] = p->file[p->at];
	for (int n = 1; n < NSIG; n++)
		sigaction(n, &normal, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3 && null_fd >= 0; fd++)
		dup2(null_fd, fd);
	close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
	if (chdir("/"))
		_exit(126);
	execve(p->argv[0], p->argv, p->env);
	_exit(127);
}

static int64_t limit_usec(const struct agent *a, enum agent_prog_kind kind)
{
	int64_t sec = (int64_t)strtoul(mu_conf_get(a->live, "PrologEpilogTimeout", "65534"), NULL, 10);
	if (kind == AGENT_HEALTH)
		sec = HEALTH_LIMIT_SEC;
	if (kind == AGENT_CLEAR)
		sec = CLEAR_LIMIT_SEC;
	if (kind == AGENT_REMOVE)
		return 0;
	return sec == 0 || sec >= 65534 ? 0 : sec * 1000000;
}

static int start_file(const struct agent *a, struct agent_prog *p, struct mu_err *err)
{
	int64_t limit = limit_usec(a, p->kind);
	p->deadline_boot_usec = limit ? exe_boot_usec() + limit : 0;
	p->late = false;
	p->pid = fork();
	if (p->pid == 0)
		child(p);
	if (p->pid < 0)
		return mu_fail(err, MU_EIO, "%s cannot be started: %s", p->file[p->at], strerror(errno));
	return 0;
}

static void prog_free(struct agent_prog *p)
{
	mu_arena_free(&p->arena);
	free(p);
}

static struct agent_prog *prog_new(struct agent *a, enum agent_prog_kind kind, const struct agent_attempt *t,
				   const char *pattern, struct mu_err *err)
{
	struct agent_prog *p = a->prog_count < PROGS_MAX ? calloc(1, sizeof *p) : NULL;
	if (!p) {
		mu_fail(err, MU_ELIMIT, "%s: %zu programs run already", kind_row[kind].word, a->prog_count);
		return NULL;
	}
	p->kind = kind;
	p->job = t ? t->order->job : 0;
	p->attempt = t ? t->order->attempt : 0;
	if (find_files(p, pattern, err)) {
		prog_free(p);
		return NULL;
	}
	make_env(a, t, p);
	return p;
}

/* Takes P over. */
static int prog_run(struct agent *a, struct agent_prog *p, bool *ret_running, struct mu_err *err)
{
	int code = p->files ? start_file(a, p, err) : 0;
	if (code || p->files == 0) {
		prog_free(p);
		return code;
	}
	p->next = a->prog;
	a->prog = p;
	a->prog_count++;
	*ret_running = true;
	return 0;
}

int agent_prog_start(struct agent *a, enum agent_prog_kind kind, const struct agent_attempt *t,
		     const char *pattern, bool *ret_running, struct mu_err *err)
{
	struct agent_prog *p = prog_new(a, kind, t, pattern, err);
	*ret_running = false;
	return p ? prog_run(a, p, ret_running, err) : err->code;
}

int agent_prog_mail(struct agent *a, const struct agent_attempt *t, const char *program, const char *subject,
		    const char *to, const char *type, struct mu_err *err)
{
	struct agent_prog *p = prog_new(a, AGENT_MAIL, t, program, err);
	bool running;
	size_t last = 0;
	if (!p)
		return err->code;
	p->argv[1] = "-s";
	p->argv[2] = mu_arena_strdup(&p->arena, subject);
	p->argv[3] = mu_arena_strdup(&p->arena, to);
	while (p->env[last])
		last++;
	p->env[last] = mu_arena_printf(&p->arena, "SLURM_JOB_MAIL_TYPE=%s", type);
	return prog_run(a, p, &running, err);
}

int agent_prog_remove(struct agent *a, const struct agent_attempt *t, const char *path, struct mu_err *err)
{
	struct agent_prog *p = prog_new(a, AGENT_REMOVE, t, "/bin/rm", err);
	bool running;
	if (!p)
		return err->code;
	p->argv[1] = "-rf";
	p->argv[2] = "--one-file-system";
	p->argv[3] = mu_arena_strdup(&p->arena, path);
	return prog_run(a, p, &running, err);
}

int agent_prog_clear(struct agent *a, const struct agent_attempt *t, const char *program, const char *dir,
		     const char *step, struct mu_err *err)
{
	struct agent_prog *p = prog_new(a, AGENT_CLEAR, t, program, err);
	bool running;
	if (!p)
		return err->code;
	p->argv[1] = mu_arena_strdup(&p->arena, dir);
	p->argv[2] = mu_arena_strdup(&p->arena, step);
	p->argv[3] = "clear";
	return prog_run(a, p, &running, err);
}

/* ---- ending ---- */

static void finished(struct agent *a, struct agent_prog *p, bool good, const char *detail)
{
	struct agent_attempt *t = p->job ? agent_attempt_find(a, p->job, p->attempt) : NULL;
	if (!good)
		diag_error("%s%s%s", detail, p->job ? ", for job " : "",
			   p->job ? mu_arena_printf(&p->arena, "%u", p->job) : "");
	if (t && p->kind == AGENT_PROLOG)
		agent_attempt_prolog_ended(a, t, good, detail);
	else if (t && p->kind == AGENT_EPILOG)
		agent_attempt_epilog_ended(a, t, good, detail);
	else if (t && p->kind == AGENT_REMOVE) {
		t->prog_running = false;
		agent_attempt_settle(a, t);
	} else if (t && p->kind == AGENT_CLEAR) {
		t->clearing--;
		agent_attempt_settle(a, t);
	} else if (p->kind == AGENT_HEALTH)
		a->health_running = false;
}

bool agent_prog_reaped(struct agent *a, pid_t pid, int status)
{
	char detail[MU_ERR_TEXT];
	struct mu_err err = {0};
	struct agent_prog **at = &a->prog, *p;
	while (*at && (*at)->pid != pid)
		at = &(*at)->next;
	p = *at;
	if (!p)
		return false;
	kill(-pid, SIGKILL); /* what it left in its group */
	bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	if (good && ++p->at < p->files) {
		if (start_file(a, p, &err) == 0)
			return true;
		good = false;
		snprintf(detail, sizeof detail, "%s", err.text);
	} else if (p->late) {
		snprintf(detail, sizeof detail, "%s=%.300s took longer than PrologEpilogTimeout",
			 kind_row[p->kind].word, p->file[p->at]);
	} else if (!good && WIFEXITED(status)) {
		snprintf(detail, sizeof detail, "%s=%.300s ended with exit code %d", kind_row[p->kind].word,
			 p->file[p->at], WEXITSTATUS(status));
	} else {
		snprintf(detail, sizeof detail, "%s=%.300s was ended by signal %d", kind_row[p->kind].word,
			 p->file[p->at < p->files ? p->at : 0], WIFSIGNALED(status) ? WTERMSIG(status) : 0);
	}
	*at = p->next;
	a->prog_count--;
	finished(a, p, good, detail);
	prog_free(p);
	return true;
}

/* ---- health ---- */

static bool state_matches(const struct agent *a)
{
	const char *states = mu_conf_get(a->live, "HealthCheckNodeState", "ANY");
	uint32_t used = 0;
	for (const struct agent_attempt *t = a->attempt; t; t = t->next)
		used += t->order->here && t->phase != EXE_ENDED ? t->order->here->cpus : 0;
	const char *now = used == 0 ? "IDLE" : used < a->inventory.cpus ? "MIXED" : "ALLOC";
	return strstr(states, "ANY") || strstr(states, now) || (strcmp(states, "CYCLE") == 0) ||
	       (strstr(states, "START_ONLY") && !a->health_done);
}

static void check_health(struct agent *a, int64_t now)
{
	const char *program = mu_conf_get(a->live, "HealthCheckProgram", NULL);
	int64_t every = (int64_t)strtoul(mu_conf_get(a->live, "HealthCheckInterval", "0"), NULL, 10);
	struct mu_err err = {0};
	if (!program || !program[0] || (every == 0 && a->health_done) || !a->registered ||
	    a->health_running || now < a->health_boot_usec)
		return;
	a->health_boot_usec = now + (every ? every : 3600) * 1000000;
	bool wanted = state_matches(a);
	a->health_done = true;
	if (wanted && agent_prog_start(a, AGENT_HEALTH, NULL, program, &a->health_running, &err))
		diag_error("%s", err.text);
}

void agent_prog_timer(struct agent *a)
{
	int64_t now = exe_boot_usec();
	for (struct agent_prog *p = a->prog; p; p = p->next)
		if (p->deadline_boot_usec && now >= p->deadline_boot_usec) {
			p->late = true;
			p->deadline_boot_usec = 0;
			kill(-p->pid, SIGKILL);
			kill(p->pid, SIGKILL);
		}
	check_health(a, now);
}

int64_t agent_prog_due(struct agent *a)
{
	int64_t due = INT64_MAX;
	const char *program = mu_conf_get(a->live, "HealthCheckProgram", NULL);
	for (const struct agent_prog *p = a->prog; p; p = p->next)
		if (p->deadline_boot_usec && p->deadline_boot_usec < due)
			due = p->deadline_boot_usec;
	if (program && program[0] && a->registered && !a->health_running && a->health_boot_usec < due &&
	    (!a->health_done || strtoul(mu_conf_get(a->live, "HealthCheckInterval", "0"), NULL, 10)))
		due = a->health_boot_usec;
	return due;
}
