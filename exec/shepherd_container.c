/* exec/shepherd_container.c: tasks in OCI containers. Each task has a folder of its own in the attempt's
 * spool, the user's, with a config.json that says what the task is; the runtime that oci.conf names is called
 * as the user, in the step's control group: the container has no more rights and no more resources than any
 * other task, whatever its bundle says. Owns: these folders, and the runtime's processes. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "exec/bundle.h"
#include "exec/shepherd_step.h"
#include "exec/spool.h"
#include "proto/states.h"

enum { CLEAR_SEC = 30, QUERY_BYTES = 64 << 10, QUERY_PAUSE_MSEC = 100, WALK_FILES = 16 };

/* One task's container. */
struct box {
	struct shep_step *s;
	const Mu__ContainerOrder *o;
	struct mu_arena *arena;
	char *dir; /* of the copy */
	struct exe_oci_words words;
	char **env; /* of the runtime */
};

/* ---- names ---- */

static void folder_name(const struct shep_step *s, const struct shep_task *t, char out[48])
{
	snprintf(out, 48, "container_%s_%u", s->word, t->number);
}

static char *expand(const struct box *b, const char *pattern)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf text = {0};
	exe_oci_expand(pattern, &b->words, &text);
	return mu_arena_strdup(b->arena, (char *)text.data);
}

/* What the shell is given. One command takes its place, so that signals for the task come to the runtime; a
 * list of them, or one with variables before it, keeps its shell. */
static char *command(const struct box *b, const char *pattern)
{
	size_t word = strcspn(pattern, " \t");
	bool plain = !strpbrk(pattern, ";&|()<>`\n") && !memchr(pattern, '=', word);
	return mu_arena_printf(b->arena, "%s%s", plain ? "exec " : "", expand(b, pattern));
}

static void box_open(struct box *b, struct shep_step *s, const struct shep_task *t)
{
	const Mu__StepOrder *o = s->order;
	char name[48];
	folder_name(s, t, name);
	*b = (struct box){.s = s, .o = o->container, .arena = &s->arena};
	b->words = (struct exe_oci_words){.bundle = o->container->bundle,
					  .node = o->node,
					  .user = o->user ? o->user : "",
					  .step = s->word,
					  .job = o->job,
					  .task = t->number,
					  .uid = o->uid,
					  .pid = t->pid};
	b->words.spool = mu_arena_printf(b->arena, "%s/%s", o->container->spool, name);
	b->dir = o->container->path ? expand(b, o->container->path) : (char *)b->words.spool;
	b->words.spool = b->dir;
	b->words.env_file = mu_arena_printf(b->arena, "%s/environment", b->dir);
	if (!o->container->ignore_config)
		b->words.bundle = b->dir;
}

int shep_container_folder(const struct shep_step *s, const struct shep_task *t, struct mu_err *err)
{
	char name[48];
	folder_name(s, t, name);
	if (s->order->container->path)
		return 0;
	if (mkdirat(s->dir, name, 0700) && errno != EEXIST)
		return mu_fail(err, MU_EIO, "folder %s: %s", name, strerror(errno));
	if (getuid() == 0 && fchownat(s->dir, name, s->order->uid, s->order->gid, AT_SYMLINK_NOFOLLOW))
		return mu_fail(err, MU_EIO, "folder %s: %s", name, strerror(errno));
	return 0;
}

/* ---- the copy; as the user from here on ---- */

static int make_path(const char *path, struct mu_err *err)
{
	char part[4096];
	snprintf(part, sizeof part, "%s", path);
	for (char *p = part + 1; *p; p++)
		if (*p == '/') {
			*p = 0;
			mkdir(part, 0700);
			*p = '/';
		}
	if (mkdir(part, 0700) && errno != EEXIST)
		return mu_fail(err, MU_EIO, "ContainerPath %s: %s", path, strerror(errno));
	return 0;
}

static int open_folder(const char *path, struct mu_err *err)
{
	int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC); /* it need not be readable */
	if (fd < 0)
		mu_fail(err, MU_EIO, "%s: %s", path, strerror(errno));
	return fd;
}

static bool matches(const char *pattern, const char *text)
{
	regex_t re;
	if (!pattern || regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB))
		return false;
	bool found = regexec(&re, text, 0, NULL, 0) == 0;
	regfree(&re);
	return found;
}

/* ENV without what PATTERN matches. */
static char **filter(const struct box *b, char **env, size_t count, const char *pattern)
{
	char **kept = mu_arena_alloc(b->arena, (count + 2) * sizeof *kept);
	size_t n = 0;
	for (size_t i = 0; i < count && env[i]; i++)
		if (!matches(pattern, env[i]))
			kept[n++] = env[i];
	return kept;
}

static size_t count_words(char *const *list)
{
	size_t n = 0;
	while (list[n])
		n++;
	return n;
}

/* Runtimes lie where only administrators look. */
static void runtime_env(struct box *b, char **env)
{
	b->env = filter(b, env, count_words(env), b->o->run_env_exclude);
	for (char **e = b->env;; e++)
		if (!*e || strncmp(*e, "PATH=", 5) == 0) {
			*e = mu_arena_printf(b->arena, "%s:/usr/local/sbin:/usr/sbin:/sbin",
					     *e ? *e : "PATH=/usr/local/bin:/usr/bin:/bin");
			return;
		}
}

static int write_env(const struct box *b, int dir, char *const *env, struct mu_err *err)
{
	const char *how = b->o->env_file ? b->o->env_file : "disabled";
	bool lines = strcasecmp(how, "newline") == 0;
	MU_CLEANUP(mu_buf_free) struct mu_buf text = {0};
	if (strcasecmp(how, "disabled") == 0 || strcasecmp(how, "false") == 0)
		return 0;
	for (; *env; env++)
		if (!lines || !strchr(*env, '\n')) {
			mu_buf_str(&text, *env);
			mu_buf_add(&text, lines ? "\n" : "", 1);
		}
	return exe_spool_write(dir, "environment", text.data, text.len, 0600, false, err);
}

/* A folder that is not there inside leaves the bundle's own in force. */
static const char *work_dir(const struct box *b, const struct exe_json *config, const char *dir)
{
	const char *root = exe_bundle_root(config, b->o->bundle, b->arena);
	struct stat st;
	if (!dir[0] || !root)
		return NULL;
	if (exe_bundle_mounts(config, dir))
		return stat(dir, &st) == 0 ? dir : NULL;
	char *inside = mu_arena_printf(b->arena, "%s%s", root, dir);
	return stat(inside, &st) == 0 && S_ISDIR(st.st_mode) ? dir : NULL;
}

static int write_script(struct box *b, int dir, struct shep_plan *p, const char *seen_at, struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf text = {0};
	int from = open_folder(b->o->spool, err);
	int code = from < 0 ? MU_EIO : exe_spool_read(from, "slurm_script", &text, err);
	if (from >= 0)
		close(from);
	if (code == 0)
		code = exe_spool_write(dir, "slurm_script", text.data, text.len, 0500, false, err);
	p->argv[0] = mu_arena_printf(b->arena, "%s/slurm_script", seen_at);
	return code;
}

static int write_config(struct box *b, int dir, struct shep_plan *p, char **env, const char *seen_at,
			bool terminal, struct mu_err *err)
{
	const Mu__StepOrder *o = b->s->order;
	MU_CLEANUP(mu_buf_free) struct mu_buf text = {0}, out = {0};
	struct exe_json *config;
	int from = open_folder(b->o->bundle, err);
	int code = from < 0 ? MU_EIO : exe_spool_read(from, "config.json", &text, err);
	if (from >= 0)
		close(from);
	if (code == 0)
		code = exe_json_parse((struct mu_view){text.data, text.len}, b->arena, &config, err);
	if (code)
		return mu_wrap(err, "bundle %s", b->o->bundle), code;
	struct exe_bundle bundle = {.path = b->o->bundle,
				    .argv = p->argv,
				    .env = env,
				    .work_dir = work_dir(b, config, p->work_dir),
				    .node = o->node,
				    .uid = o->uid,
				    .gid = o->gid,
				    .umask = o->has_umask ? o->umask : 022,
				    .terminal = terminal,
				    .spool = seen_at ? b->dir : NULL,
				    .spool_at = seen_at,
				    .device = b->o->device,
				    .devices = b->o->n_device,
				    .disable_hooks = b->o->disable_hooks};
	code = exe_bundle_fill(config, &bundle, b->arena, err);
	if (code)
		return code;
	b->words.rootfs = exe_bundle_root(config, b->o->bundle, b->arena);
	exe_json_print(config, &out);
	return exe_spool_write(dir, "config.json", out.data, out.len, 0600, false, err);
}

static int make_copy(struct box *b, struct shep_plan *p, bool terminal, struct mu_err *err)
{
	const Mu__ContainerOrder *o = b->o;
	bool mounted = o->script || o->spool_at || (o->env_file && strcasecmp(o->env_file, "disabled") != 0);
	const char *seen_at = mounted ? expand(b, o->spool_at ? o->spool_at : "/dev/slurm") : NULL;
	char **env = filter(b, p->env, count_words(p->env), o->env_exclude);
	int code = o->path ? make_path(b->dir, err) : 0, dir = code ? -1 : open_folder(b->dir, err);
	if (dir < 0)
		return MU_EIO;
	if (o->script)
		code = write_script(b, dir, p, seen_at, err);
	if (code == 0)
		code = write_env(b, dir, env, err);
	if (code == 0 && !o->ignore_config)
		code = write_config(b, dir, p, env, seen_at, terminal, err);
	if (o->ignore_config)
		b->words.rootfs = mu_arena_printf(b->arena, "%s/rootfs", o->bundle);
	b->words.argv = p->argv;
	close(dir);
	return code;
}

/* ---- the runtime ---- */

static pid_t call(const struct box *b, const char *pattern, int out_fd)
{
	char *argv[] = {"/bin/sh", "-c", command(b, pattern), NULL};
	pid_t pid = fork();
	if (pid == 0) {
		if (out_fd >= 0 && dup2(out_fd, 1) < 0)
			_exit(126);
		execve(argv[0], argv, b->env);
		_exit(127);
	}
	return pid;
}

/* The wait status of PID; others that end meanwhile are no loss. */
static int wait_for(pid_t pid)
{
	int status;
	for (;;) {
		pid_t got = waitpid(pid, &status, 0);
		if (got == pid)
			return status;
		if (got < 0 && errno != EINTR)
			return -1;
	}
}

/* What RunTimeQuery says of the container: its process, and whether it has ended. */
static int query(const struct box *b, bool *ret_stopped)
{
	int fd[2], pid = 0;
	MU_CLEANUP(mu_buf_free) struct mu_buf text = {0};
	struct exe_json *state = NULL;
	char chunk[4096];
	*ret_stopped = true;
	if (pipe2(fd, O_CLOEXEC))
		return 0;
	pid_t child = call(b, b->o->query, fd[1]);
	close(fd[1]);
	for (ssize_t n; (n = read(fd[0], chunk, sizeof chunk)) > 0 || (n < 0 && errno == EINTR);)
		if (n > 0 && text.len < QUERY_BYTES)
			mu_buf_add(&text, chunk, (size_t)n);
	close(fd[0]);
	if (child > 0 && wait_for(child) == 0 &&
	    exe_json_parse((struct mu_view){text.data, text.len}, b->arena, &state, NULL) == 0) {
		const struct exe_json *number = exe_json_get(state, "pid");
		pid = number && number->kind == EXE_JSON_SCALAR ? (int)strtol(number->text, NULL, 10) : 0;
		*ret_stopped = exe_json_is(exe_json_get(state, "status"), "stopped");
	}
	return pid;
}

static volatile sig_atomic_t forward_to;
static void forward(int number)
{
	if (forward_to > 0)
		kill((pid_t)forward_to, number);
}

static void say(const char *what, const char *text)
{
	dprintf(2, "slurmstepd: error: container: %s%s\n", what, text);
}

/* Runs what PATTERN says and waits; false: it failed, and that was said. */
static bool done(const struct box *b, const char *key, const char *pattern)
{
	pid_t pid = call(b, pattern, -1);
	int status = pid > 0 ? wait_for(pid) : -1;
	if (status == 0)
		return true;
	say(key, status > 0 && WIFEXITED(status) ? " ended with an error" : " could not be run");
	return false;
}

/* The container's process is ours once it was created: we are its subreaper. */
static _Noreturn void create_and_wait(struct box *b)
{
	static const int passed[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,
				     SIGUSR2, SIGCONT, SIGALRM, SIGWINCH};
	struct sigaction pass = {.sa_handler = forward, .sa_flags = SA_RESTART};
	bool stopped;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (!done(b, "RunTimeCreate", b->o->create))
		_exit(1);
	pid_t pid = query(b, &stopped);
	if (pid <= 0) {
		say("RunTimeQuery", " names no process");
		_exit(1);
	}
	forward_to = pid;
	for (size_t i = 0; i < sizeof passed / sizeof *passed; i++)
		sigaction(passed[i], &pass, NULL);
	if (!done(b, "RunTimeStart", b->o->start)) {
		kill(pid, SIGKILL);
		_exit(1);
	}
	int status = wait_for(pid);
	/* A runtime that keeps its containers elsewhere is asked until it says that this one has ended. */
	while (status < 0 && query(b, &stopped) > 0 && !stopped)
		nanosleep(&(struct timespec){.tv_nsec = QUERY_PAUSE_MSEC * 1000000L}, NULL);
	forward_to = 0;
	if (status > 0 && WIFSIGNALED(status)) {
		sigaction(WTERMSIG(status), &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
		kill(getpid(), WTERMSIG(status));
	}
	_exit(status > 0 ? WEXITSTATUS(status) : 0);
}

void shep_container_enter(struct shep_step *s, size_t index, struct shep_plan *p, int launch_fd)
{
	struct box b;
	struct mu_err err = {0};
	bool whole = s->order->container->run != NULL;
	s->task[index].pid = getpid();
	box_open(&b, s, &s->task[index]);
	runtime_env(&b, p->env);
	if (make_copy(&b, p, whole && s->order->pty && s->task[index].number == 0 && isatty(0), &err)) {
		say(err.text, "");
		_exit(1);
	}
	if (chdir(b.dir))
		_exit(1);
	if (!whole) {
		close(launch_fd);
		/* What the shepherd holds must not be held open by us. */
		close_range(3, ~0U, 0);
		create_and_wait(&b);
	}
	p->argv = mu_arena_alloc(&s->arena, 4 * sizeof *p->argv);
	p->argv[0] = "/bin/sh";
	p->argv[1] = "-c";
	p->argv[2] = command(&b, b.o->run);
	p->env = b.env;
}

/* ---- afterwards ---- */

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	(void)st;
	(void)at;
	if (kind == FTW_DP || kind == FTW_DNR || kind == FTW_D)
		rmdir(path);
	else
		unlink(path);
	return 0;
}

static void clear_task(struct shep_step *s, const struct shep_task *t)
{
	static char *path[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};
	struct box b;
	box_open(&b, s, t);
	b.env = path;
	const char *const pattern[] = {b.o->kill, b.o->delete_};
	/* Every process of the step is dead: a pattern with a process's id would meet a stranger's. */
	for (size_t i = 0; i < sizeof pattern / sizeof *pattern; i++)
		if (pattern[i] && !exe_oci_uses(pattern[i], 'p')) {
			pid_t pid = call(&b, pattern[i], -1);
			if (pid > 0)
				wait_for(pid);
		}
	if (!b.o->keep)
		nftw(b.dir, remove_one, WALK_FILES, FTW_PHYS | FTW_DEPTH);
}

void shep_container_clear(struct shep_step *s)
{
	pid_t pid = s->order->container ? fork() : -1;
	if (pid == 0) {
		int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		for (int fd = 0; fd < 3 && null_fd >= 0; fd++)
			dup2(null_fd, fd);
		close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
		if (shep_as_user(s) == 0)
			for (size_t i = 0; i < s->task_count; i++)
				clear_task(s, &s->task[i]);
		_exit(0);
	}
	if (pid > 0)
		wait_for(pid);
	for (size_t i = 0; pid > 0 && i < s->task_count; i++) {
		char name[48];
		folder_name(s, &s->task[i], name);
		unlinkat(s->dir, name, AT_REMOVEDIR);
	}
}

bool shep_container_clearing(struct shep_step *s)
{
	struct mu_err err = {0};
	int enter_errno;
	if (!s->order->container)
		return false;
	if (s->clear_pid)
		return exe_boot_usec() < s->clear_boot_usec;
	if (s->cleared || s->tasks_live)
		return false;
	s->cleared = true;
	if (exe_cgroup_open(&s->host, s->order->cgroup, &s->door, &err))
		return false;
	s->clear_boot_usec = exe_boot_usec() + CLEAR_SEC * 1000000LL;
	pid_t pid = exe_cgroup_fork(&s->door, &enter_errno);
	exe_cgroup_close(&s->door);
	if (pid == 0) {
		shep_container_clear(s);
		_exit(0);
	}
	s->clear_pid = pid > 0 ? pid : 0;
	return pid > 0;
}
