/* exec/shepherd_spawn.c: the tasks' files, opened as the user, and the tasks themselves. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "exec/env.h"
#include "exec/pattern.h"
#include "exec/shepherd_step.h"
#include "proto/multiprog.h"
#include "proto/states.h"

/* What a child says before exec when it cannot become what it should. */
struct launch_word {
	int stage, error;
};
enum launch_stage { STAGE_GROUP, STAGE_GROUPS, STAGE_GID, STAGE_UID };
static const char *const stage_text[] = {"entering the control group", "taking the supplementary groups",
					 "taking the group id", "taking the user id"};

struct task_files {
	int in, out, err;
	char out_path[4096]; /* "": not a file */
};

/* ---- as the user ---- */

static int gid_list(const Mu__StepOrder *o, gid_t *list)
{
	size_t n = o->n_groups < 256 ? o->n_groups : 256;
	for (size_t i = 0; i < n; i++)
		list[i] = o->groups[i];
	return (int)n;
}

/* The effective identity becomes the user's (and back): files are found, refused and made as for the user. */
static int become(const Mu__StepOrder *o, bool user)
{
	gid_t list[256];
	if (getuid() != 0)
		return 0;
	if (!user)
		return seteuid(0) || setegid(0) || setgroups(0, NULL) ? -errno : 0;
	if (setgroups((size_t)gid_list(o, list), list) || setegid(o->gid) || seteuid(o->uid))
		return -errno;
	return 0;
}

static int say_open_failed(const char *what, const char *path, int error, struct mu_err *err)
{
	char folder[4096];
	struct stat st;
	snprintf(folder, sizeof folder, "%s", path);
	dirname(folder);
	if (error == ENOENT && stat(folder, &st))
		return mu_fail(err, MU_EIO, "cannot open %s %s: the folder %s does not exist", what, path,
			       folder);
	return mu_fail(err, MU_EIO, "cannot open %s %s: %s", what, path, strerror(error));
}

static int open_as_user(const Mu__StepOrder *o, const char *what, const char *path, int flags, int *ret_fd,
			struct mu_err *err)
{
	int code = become(o, true);
	if (code == 0) {
		mode_t old = umask(o->has_umask ? o->umask : 022);
		*ret_fd = open(path, flags | O_CLOEXEC | O_NOCTTY, 0666);
		int error = errno;
		if (*ret_fd < 0)
			code = say_open_failed(what, path, error, err);
		umask(old);
	} else {
		code = mu_fail(err, MU_EPERM, "cannot act as uid %u: %s", o->uid, strerror(-code));
	}
	if (become(o, false) && code == 0)
		code = mu_fail(err, MU_EINTERNAL, "cannot return to root: %s", strerror(errno));
	return code;
}

/* ---- files ---- */

static void expand(const struct shep_step *s, const struct shep_task *t, const ProtobufCBinaryData *pattern,
		   char out[4096])
{
	const Mu__StepOrder *o = s->order;
	struct exe_pattern_words w = {.job = o->job,
				      .step = o->step,
				      .task = t->number,
				      .node_index = o->node_index,
				      .user = o->user ? o->user : "",
				      .job_name = o->job_name ? o->job_name : "",
				      .node = o->node ? o->node : "",
				      .has_array = o->has_array,
				      .array_job = o->array_job,
				      .array_task = o->array_task};
	MU_CLEANUP(mu_buf_free) struct mu_buf text = {0}, dir = {0}, path = {0};
	mu_buf_add(&text, pattern->data, pattern->len);
	mu_buf_add(&dir, o->work_dir.data, o->work_dir.len);
	exe_pattern_expand((const char *)text.data, dir.len ? (const char *)dir.data : NULL, &w, &path);
	snprintf(out, 4096, "%s", (const char *)path.data);
}

static int open_output(struct shep_step *s, const struct shep_task *t, const char *what,
		       const ProtobufCBinaryData *pattern, const char *path, int *ret_fd, struct mu_err *err)
{
	/* A name without the task number is one file for all tasks: the first truncates it, all append. */
	char first[4096];
	bool fresh = !s->order->open_append;
	if (t != &s->task[0]) {
		expand(s, &s->task[0], pattern, first);
		fresh = fresh && strcmp(first, path) != 0;
	}
	return open_as_user(s->order, what, path, O_WRONLY | O_CREAT | O_APPEND | (fresh ? O_TRUNC : 0),
			    ret_fd, err);
}

/* A pipe whose task end is RET_TASK and whose end here is non-blocking. */
static int make_pipe(bool task_writes, int *ret_task, int *ret_here, struct mu_err *err)
{
	int fd[2];
	if (pipe2(fd, O_CLOEXEC))
		return mu_fail(err, MU_EIO, "cannot make a pipe: %s", strerror(errno));
	*ret_task = fd[task_writes];
	*ret_here = fd[!task_writes];
	fcntl(*ret_here, F_SETFL, O_NONBLOCK);
	return 0;
}

static int open_input(struct shep_step *s, struct shep_task *t, struct task_files *f, struct mu_err *err)
{
	const Mu__StepOrder *o = s->order;
	char path[4096];
	bool here = s->srun_there && !o->no_stdin && (!o->has_stdin_task || o->stdin_task == t->number);
	if (o->std_in.len) {
		expand(s, t, &o->std_in, path);
		return open_as_user(o, "standard input", path, O_RDONLY, &f->in, err);
	}
	if (here)
		return make_pipe(false, &f->in, &t->in_fd, err);
	f->in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return f->in < 0 ? mu_fail(err, MU_EIO, "/dev/null: %s", strerror(errno)) : 0;
}

/* One output: its own file, the stream, or nothing. */
static int open_one(struct shep_step *s, struct shep_task *t, const char *what,
		    const ProtobufCBinaryData *pattern, struct shep_flow *flow, char path[4096], int *ret_fd,
		    struct mu_err *err)
{
	path[0] = 0;
	if (pattern->len) {
		expand(s, t, pattern, path);
		return open_output(s, t, what, pattern, path, ret_fd, err);
	}
	if (s->srun_there)
		return make_pipe(true, ret_fd, &flow->fd, err);
	*ret_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	return *ret_fd < 0 ? mu_fail(err, MU_EIO, "/dev/null: %s", strerror(errno)) : 0;
}

/* A terminal of the user's: its other side is both the task's input and output here. */
static int open_terminal(struct shep_step *s, struct shep_task *t, struct task_files *f, struct mu_err *err)
{
	const Mu__StepOrder *o = s->order;
	struct winsize size = {.ws_row = (unsigned short)o->rows, .ws_col = (unsigned short)o->columns};
	char name[64];
	t->in_fd = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (t->in_fd < 0 || unlockpt(t->in_fd) || ptsname_r(t->in_fd, name, sizeof name))
		return mu_fail(err, MU_EIO, "cannot make a terminal: %s", strerror(errno));
	f->in = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
	f->out = f->in < 0 ? -1 : fcntl(f->in, F_DUPFD_CLOEXEC, 3);
	f->err = f->in < 0 ? -1 : fcntl(f->in, F_DUPFD_CLOEXEC, 3);
	t->out.fd = fcntl(t->in_fd, F_DUPFD_CLOEXEC, 3);
	if (f->err < 0 || f->out < 0 || t->out.fd < 0)
		return mu_fail(err, MU_EIO, "cannot open the terminal %s: %s", name, strerror(errno));
	if (getuid() == 0 && (fchown(f->in, o->uid, (gid_t)-1) || fchmod(f->in, 0620)))
		return mu_fail(err, MU_EIO, "cannot give the terminal %s away: %s", name, strerror(errno));
	fcntl(t->in_fd, F_SETFL, O_NONBLOCK); /* of both: they share the description */
	if (size.ws_row && size.ws_col)
		ioctl(t->in_fd, TIOCSWINSZ, &size);
	return 0;
}

static int open_nothing(struct task_files *f, struct mu_err *err)
{
	f->in = open("/dev/null", O_RDWR | O_CLOEXEC);
	f->out = f->in < 0 ? -1 : fcntl(f->in, F_DUPFD_CLOEXEC, 3);
	f->err = f->in < 0 ? -1 : fcntl(f->in, F_DUPFD_CLOEXEC, 3);
	return f->err < 0 || f->out < 0 ? mu_fail(err, MU_EIO, "/dev/null: %s", strerror(errno)) : 0;
}

static int open_files(struct shep_step *s, struct shep_task *t, struct task_files *f, struct mu_err *err)
{
	if (s->order->pty && s->srun_there)
		return t->number == 0 ? open_terminal(s, t, f, err) : open_nothing(f, err);
	char path[4096];
	const Mu__StepOrder *o = s->order;
	int code = open_input(s, t, f, err);
	if (code == 0)
		code = open_one(s, t, "standard output", &o->std_out, &t->out, f->out_path, &f->out, err);
	if (code)
		return code;
	if (o->std_err.len)
		expand(s, t, &o->std_err, path);
	if (f->out_path[0] && (!o->std_err.len || strcmp(path, f->out_path) == 0)) {
		f->err = fcntl(f->out, F_DUPFD_CLOEXEC, 0);
		return f->err < 0 ? mu_fail(err, MU_EIO, "cannot share the output file: %s", strerror(errno))
				  : 0;
	}
	return open_one(s, t, "standard error", &o->std_err, &t->err, path, &f->err, err);
}

static void close_files(struct task_files *f)
{
	int *fd[] = {&f->in, &f->out, &f->err};
	for (size_t i = 0; i < 3; i++) {
		if (*fd[i] >= 0)
			close(*fd[i]);
		*fd[i] = -1;
	}
}

/* ---- the child ---- */

/* The limits that a job takes along; without it the agent's hold. */
static const struct {
	const char *name;
	int resource;
} limit_row[] = {
#define MU_RLIMIT(name) {#name, RLIMIT_##name},
#include "proto/rlimits.def"
#undef MU_RLIMIT
};
enum { LIMITS = sizeof limit_row / sizeof *limit_row };
_Static_assert(sizeof limit_row / sizeof *limit_row <= SHEP_LIMITS, "a plan has room for every limit");

/* Takes the limits out of the environment. */
static void take_limits(struct shep_plan *p)
{
	size_t kept = 0;
	for (size_t i = 0; i < p->env_count; i++) {
		char *entry = p->env[i], *end;
		const char *name = entry + sizeof EXE_RLIMIT_PREFIX - 1;
		if (strncmp(entry, EXE_RLIMIT_PREFIX, sizeof EXE_RLIMIT_PREFIX - 1) != 0) {
			p->env[kept++] = entry;
			continue;
		}
		size_t len = strcspn(name, "=");
		for (size_t k = 0; name[len] && k < LIMITS; k++)
			if (strlen(limit_row[k].name) == len && memcmp(limit_row[k].name, name, len) == 0) {
				const char *value = name + len + 1 + (name[len + 1] == 'U');
				p->limit[k] = strtoull(value, &end, 10);
				p->limited[k] = end > value && *end == 0;
			}
	}
	p->env_count = kept;
	p->env[kept] = NULL;
}

/* Soft limits only, and never above the hard ones of this node. */
static void set_limits(const struct shep_plan *p)
{
	for (size_t k = 0; k < LIMITS; k++) {
		__rlimit_resource_t resource = (__rlimit_resource_t)limit_row[k].resource;
		struct rlimit now;
		if (!p->limited[k] || getrlimit(resource, &now))
			continue;
		now.rlim_cur = p->limit[k] < now.rlim_max ? p->limit[k] : now.rlim_max;
		setrlimit(resource, &now);
	}
}

static void child_fail(int launch_fd, int stage)
{
	struct launch_word w = {stage, errno};
	if (write(launch_fd, &w, sizeof w) < 0)
		_exit(253);
	_exit(254);
}

static void child_say(const char *a, const char *b, const char *c)
{
	dprintf(2, "slurmstepd: error: %s%s: %s\n", a, b, c);
}

static int exec_along_path(struct shep_plan *p)
{
	const char *name = p->argv[0], *path = NULL;
	char full[4096];
	int worst = ENOENT;
	if (strchr(name, '/')) {
		execve(name, p->argv, p->env);
		return errno;
	}
	for (char **e = p->env; *e; e++)
		if (strncmp(*e, "PATH=", 5) == 0)
			path = *e + 5;
	for (path = path ? path : "/usr/local/bin:/usr/bin:/bin"; path;) {
		const char *end = strchrnul(path, ':');
		int dir_len = (int)(end - path);
		snprintf(full, sizeof full, "%.*s/%s", dir_len ? dir_len : 1, dir_len ? path : ".", name);
		execve(full, p->argv, p->env);
		if (errno != ENOENT && errno != ENOTDIR)
			worst = errno;
		path = *end ? end + 1 : NULL;
	}
	return worst;
}

/* "0-3,8" of host CPUs, as the agent wrote it. */
static void child_bind(const struct shep_step *s, size_t index)
{
	const Mu__StepOrder *o = s->order;
	cpu_set_t set;
	unsigned long long low = 0;
	if (index >= o->n_task_cpus || !o->task_cpus[index][0])
		return;
	CPU_ZERO(&set);
	for (const char *p = o->task_cpus[index]; *p;) {
		char *end;
		unsigned long first = strtoul(p, &end, 10), last = first;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (; first <= last && first < CPU_SETSIZE; first++) {
			CPU_SET(first, &set);
			low |= first < 64 ? 1ULL << first : 0;
		}
		p = *end == ',' ? end + 1 : end;
		if (*end && *end != ',')
			break;
	}
	bool done = sched_setaffinity(0, sizeof set, &set) == 0;
	if (o->bind_verbose || !done)
		dprintf(2, "cpu-bind=MASK - %s, task %2u %2zu [%d]: mask 0x%llx %s\n", o->node,
			s->task[index].number, index, getpid(), low, done ? "set" : "set FAILED");
}

static void child_bind_memory(const struct shep_step *s, size_t index)
{
	const Mu__StepOrder *o = s->order;
	if (!o->has_mem_mode || index >= o->n_task_mems)
		return;
	unsigned long nodes = o->task_mems[index];
	long failed = syscall(SYS_set_mempolicy, (int)o->mem_mode, nodes ? &nodes : NULL,
			      nodes ? 8 * sizeof nodes + 1 : 0);
	if (o->mem_verbose || failed)
		dprintf(2, "mem-bind=MASK - %s, task %2u %2zu [%d]: mask 0x%lx %s\n", o->node,
			s->task[index].number, index, getpid(), nodes, failed ? "set FAILED" : "set");
}

/* -1, or the stage that failed. */
static int become_for_good(const Mu__StepOrder *o, const struct shep_plan *p)
{
	if (p->root && setgroups((size_t)p->group_count, p->groups))
		return STAGE_GROUPS;
	if (p->root && setresgid(o->gid, o->gid, o->gid))
		return STAGE_GID;
	if (p->root && setresuid(o->uid, o->uid, o->uid))
		return STAGE_UID;
	return -1;
}

static void plain_signals(void)
{
	sigset_t none;
	struct sigaction normal = {.sa_handler = SIG_DFL};
	for (int n = 1; n < NSIG; n++)
		sigaction(n, &normal, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

int shep_as_user(const struct shep_step *s)
{
	struct shep_plan p = {.root = getuid() == 0};
	p.group_count = gid_list(s->order, p.groups);
	plain_signals();
	setsid();
	return become_for_good(s->order, &p) >= 0;
}

static void child_run(struct shep_step *s, size_t index, struct shep_plan *p, const struct task_files *f,
		      int launch_fd)
{
	const Mu__StepOrder *o = s->order;
	plain_signals();
	setsid();
	if (o->pty && isatty(f->in))
		ioctl(f->in, TIOCSCTTY, 0);
	if (dup2(f->in, 0) < 0 || dup2(f->out, 1) < 0 || dup2(f->err, 2) < 0)
		child_fail(launch_fd, STAGE_GROUP);
	set_limits(p);
	struct mu_err err = {0};
	if (o->container && shep_container_folder(s, &s->task[index], &err)) {
		child_say("container", "", err.text);
		_exit(1);
	}
	int stage = become_for_good(o, p);
	if (stage >= 0)
		child_fail(launch_fd, stage);
	umask(o->has_umask ? o->umask : 022);
	if (!o->container && p->work_dir[0] && chdir(p->work_dir)) {
		dprintf(2, "slurmstepd: error: couldn't chdir to `%s': %s: going to /tmp instead\n",
			p->work_dir, strerror(errno));
		if (chdir("/tmp"))
			child_say("chdir(): ", "/tmp", strerror(errno));
	}
	child_bind(s, index);
	child_bind_memory(s, index);
	if (o->gpu_verbose && index < o->n_task_gpus)
		dprintf(2, "gpu-bind=%s - %s, task %2u %2zu [%d]\n",
			o->task_gpus[index][0] ? o->task_gpus[index] : "none", o->node, s->task[index].number,
			index, getpid());
	if (o->n_task_prolog)
		shep_task_prologs(s, p);
	if (o->container)
		shep_container_enter(s, index, p, launch_fd);
	int error = exec_along_path(p);
	child_say("execve(): ", p->argv[0], strerror(error));
	_exit(error == ENOENT || error == EACCES ? error : 126);
}

/* ---- starting ---- */

static char **word_list(struct mu_arena *arena, const ProtobufCBinaryData *word, size_t count, size_t extra)
{
	char **list = mu_arena_alloc(arena, (count + extra + 1) * sizeof *list);
	for (size_t i = 0; i < count; i++) {
		list[i] = mu_arena_alloc(arena, word[i].len + 1);
		if (word[i].len)
			memcpy(list[i], word[i].data, word[i].len);
	}
	return list;
}

/* Sets NAME in ENV, which has *COUNT entries and room for one more: two of one name would be read differently
 * by different programs. */
static void set_env(char **env, size_t *count, char *entry)
{
	size_t len = strcspn(entry, "=") + 1, at = 0;
	while (at < *count && strncmp(env[at], entry, len) != 0)
		at++;
	env[at] = entry;
	*count += at == *count;
	env[*count] = NULL;
}

static char *find_env(char **env, size_t count, const char *name)
{
	size_t len = strlen(name);
	for (size_t i = 0; i < count; i++)
		if (strncmp(env[i], name, len) == 0 && env[i][len] == '=')
			return env[i] + len + 1;
	return NULL;
}

/* The numbers of LIST at the POSITIONS "0,2-3", in OUT. False when one is not there. */
static bool some_words(const char *list, const char *positions, struct mu_buf *out)
{
	for (const char *p = positions; *p;) {
		char *end;
		unsigned long first = strtoul(p, &end, 10), last = first;
		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (; first <= last; first++) {
			const char *word = list;
			for (unsigned long k = 0; k < first && *word; k++)
				word += strcspn(word, ",") + (word[strcspn(word, ",")] == ',');
			if (!*word)
				return false;
			mu_buf_printf(out, "%s%.*s", out->len ? "," : "", (int)strcspn(word, ","), word);
		}
		p = end + (*end == ',');
		if (*end && *end != ',')
			return false;
	}
	return true;
}

/* Each task sees its own of the step's GPUs, where the agent chose. */
static void task_gpus(struct shep_step *s, size_t local, char **env, size_t *used)
{
	static const char *const name[] = {"CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES",
					   "ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK"};
	const Mu__StepOrder *o = s->order;
	if (local >= o->n_task_gpus)
		return;
	for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
		MU_CLEANUP(mu_buf_free) struct mu_buf own = {0};
		const char *list = find_env(env, *used, name[i]);
		if (list && some_words(list, o->task_gpus[local], &own))
			set_env(
			    env, used,
			    mu_arena_printf(&s->arena, "%s=%s", name[i], own.len ? (char *)own.data : ""));
	}
}

static void task_env(struct shep_step *s, struct shep_task *t, size_t local, char **env, size_t used)
{
	const struct {
		const char *name;
		uint32_t value;
	} row[] = {{"SLURM_PROCID", t->number},
		   {"SLURM_LOCALID", (uint32_t)local},
		   {"SLURM_TASK_PID", (uint32_t)getpid()}};
	char *pmi[SHEP_PMI_ENV];
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		set_env(env, &used, mu_arena_printf(&s->arena, "%s=%u", row[i].name, row[i].value));
	task_gpus(s, local, env, &used);
	size_t count = shep_pmi_env(s, t, pmi);
	for (size_t i = 0; i < count; i++)
		set_env(env, &used, pmi[i]);
}

static int read_programs(struct shep_step *s, struct shep_plan *p, struct mu_err *err)
{
	const ProtobufCBinaryData *text = &s->order->argv[0];
	p->more = p->argv + 1;
	p->more_count = s->order->n_argv - 1;
	return mu_multiprog_parse((const char *)text->data, text->len, &s->arena, &p->prog, err);
}

static int choose_program(struct shep_step *s, const struct shep_task *t, struct shep_plan *p,
			  struct mu_err *err)
{
	char **words;
	size_t count;
	int code = mu_multiprog_words(&p->prog, t->number, &s->arena, &words, &count, err);
	if (code)
		return code;
	p->argv = mu_arena_alloc(&s->arena, (count + p->more_count + 1) * sizeof *p->argv);
	memcpy(p->argv, words, count * sizeof *p->argv);
	memcpy(p->argv + count, p->more, p->more_count * sizeof *p->argv);
	return 0;
}

int shep_epilog_start(struct shep_step *s, struct shep_task *t)
{
	const Mu__StepOrder *o = s->order;
	struct shep_plan *p = s->plan;
	struct mu_err err = {0};
	int enter_errno;
	if (!p || exe_cgroup_open(&s->host, o->cgroup, &s->door, &err))
		return MU_EIO;
	pid_t pid = exe_cgroup_fork(&s->door, &enter_errno);
	exe_cgroup_close(&s->door);
	if (pid == 0) {
		plain_signals();
		setsid();
		if (enter_errno || become_for_good(o, p) >= 0)
			_exit(254);
		umask(o->has_umask ? o->umask : 022);
		if (chdir(p->work_dir[0] ? p->work_dir : "/") && chdir("/tmp"))
			_exit(254);
		task_env(s, t, (size_t)(t - s->task), p->env, p->env_count);
		shep_task_epilogs(s, p);
		_exit(0);
	}
	t->epilog_pid = pid > 0 ? pid : 0;
	return pid > 0 ? 0 : MU_EIO;
}

static int start_task(struct shep_step *s, size_t index, struct shep_plan *p, struct mu_err *err)
{
	struct shep_task *t = &s->task[index];
	struct task_files f = {-1, -1, -1, ""};
	int launch[2], enter_errno, code = s->order->multi_prog ? choose_program(s, t, p, err) : 0;
	if (code == 0) {
		code = open_files(s, t, &f, err);
		s->files_failed = code != 0;
	}
	if (code == 0 && pipe2(launch, O_CLOEXEC))
		code = mu_fail(err, MU_EIO, "cannot make a pipe: %s", strerror(errno));
	if (code) {
		close_files(&f);
		return code;
	}
	pid_t pid = exe_cgroup_fork(&s->door, &enter_errno);
	if (pid == 0) {
		errno = enter_errno;
		if (enter_errno)
			child_fail(launch[1], STAGE_GROUP);
		if (s->order->login_sec) {
			plain_signals();
			shep_login(s, p, 3 + SHEP_PMI_ENV, f.err);
		}
		task_env(s, t, index, p->env, p->env_count);
		child_run(s, index, p, &f, launch[1]);
	}
	int error = errno;
	close(launch[1]);
	if (pid > 0) {
		t->pid = pid;
		shep_pmi_started(t);
		t->launch_fd = launch[0];
		fcntl(t->launch_fd, F_SETFL, O_NONBLOCK);
		s->tasks_live++;
		if (s->say_fd < 0 && (s->order->std_err.len || f.out_path[0]))
			s->say_fd = fcntl(f.err, F_DUPFD_CLOEXEC, 6);
	} else {
		close(launch[0]);
		code =
		    mu_fail(err, MU_EIO, "cannot start a process in the control group: %s", strerror(error));
	}
	close_files(&f);
	return code;
}

int shep_spawn(struct shep_step *s, struct mu_err *err)
{
	const Mu__StepOrder *o = s->order;
	struct shep_plan *p = mu_arena_alloc(&s->arena, sizeof *p);
	p->root = getuid() == 0;
	s->plan = p;
	if (o->n_argv == 0)
		return mu_fail(err, MU_EINVAL, "no program was named");
	p->argv = word_list(&s->arena, o->argv, o->n_argv, 0);
	if (o->multi_prog) {
		int code = read_programs(s, p, err);
		if (code)
			return code;
	}
	p->env = word_list(&s->arena, o->env, o->n_env, 3 + SHEP_PMI_ENV);
	p->env_count = o->n_env;
	take_limits(p);
	p->work_dir = mu_arena_alloc(&s->arena, o->work_dir.len + 1);
	memcpy(p->work_dir, o->work_dir.data, o->work_dir.len);
	p->group_count = gid_list(o, p->groups);
	for (size_t i = 0; i < s->task_count; i++) {
		int code = start_task(s, i, p, err);
		if (code)
			return code;
	}
	return 0;
}

void shep_launch_read(struct shep_step *s, struct shep_task *t)
{
	struct launch_word w;
	char text[256];
	ssize_t n = read(t->launch_fd, &w, sizeof w);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == (ssize_t)sizeof w && w.stage >= STAGE_GROUP && w.stage <= STAGE_UID) {
		snprintf(text, sizeof text, "task %u: %s: %s", t->number, stage_text[w.stage],
			 strerror(w.error));
		shep_fail(s, END_LAUNCH_FAILED, text);
		shep_end(s, END_LAUNCH_FAILED, 0, true);
	}
	close(t->launch_fd);
	t->launch_fd = -1;
	shep_signal_owed(t);
}
