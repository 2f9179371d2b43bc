/* exec/cgroup.c: what both kinds of control groups share: paths, entering, walking, killing, removing. */
#include "exec/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

enum { WALK_DEPTH = 6, FREEZE_POLLS = 50, PROCS_CHUNK = 4096 };

const struct exe_device exe__device_usual[] = {{'c', false, 1, 3},  {'c', false, 1, 5},	 {'c', false, 1, 7},
					       {'c', false, 1, 8},  {'c', false, 1, 9},	 {'c', false, 5, 0},
					       {'c', false, 5, 1},  {'c', false, 5, 2},	 {'c', true, 136, 0},
					       {'c', true, 137, 0}, {'c', true, 138, 0}, {'c', true, 139, 0}};
const size_t exe__device_usual_count = sizeof exe__device_usual / sizeof *exe__device_usual;

const char *exe__controller_word(enum exe_controller c)
{
	static const char *const word[EXE_CONTROLLERS] = {"cpuset",  "memory", "devices",
							  "freezer", "pids",   "cpuacct"};
	return word[c];
}

/* ---- small files ---- */

int exe__cgroup_write(const char *mount, const char *path, const char *file, const char *text)
{
	char name[EXE_CGROUP_FILE];
	snprintf(name, sizeof name, "%s/%s/%s", mount, path, file);
	int fd = open(name, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ssize_t n = write(fd, text, strlen(text));
	int code = n < 0 ? -errno : 0;
	close(fd);
	return code;
}

int exe__cgroup_read(const char *mount, const char *path, const char *file, char *out, size_t cap)
{
	char name[EXE_CGROUP_FILE];
	snprintf(name, sizeof name, "%s/%s/%s", mount, path, file);
	out[0] = 0;
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	size_t used = 0;
	for (ssize_t n; used + 1 < cap && (n = read(fd, out + used, cap - 1 - used)) > 0;)
		used += (size_t)n;
	out[used] = 0;
	close(fd);
	return 0;
}

uint64_t exe__cgroup_number(const char *mount, const char *path, const char *file, const char *key)
{
	char text[4096];
	if (!mount[0] || exe__cgroup_read(mount, path, file, text, sizeof text) < 0)
		return 0;
	if (!key)
		return strtoull(text, NULL, 10);
	size_t len = strlen(key);
	for (const char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL)
		if (strncmp(line, key, len) == 0 && line[len] == ' ')
			return strtoull(line + len + 1, NULL, 10);
	return 0;
}

/* ---- probing ---- */

static void probe_v1_mount(struct exe_cgroup_host *host, const char *mount, const char *options)
{
	for (int c = 0; c < EXE_CONTROLLERS; c++) {
		const char *word = exe__controller_word(c);
		size_t len = strlen(word);
		for (const char *at = strstr(options, word); at; at = strstr(at + 1, word))
			if ((at == options || at[-1] == ',') && (at[len] == 0 || at[len] == ',') &&
			    !host->mount[c][0])
				snprintf(host->mount[c], EXE_CGROUP_MOUNT, "%s", mount);
	}
}

static int probe_v1(struct exe_cgroup_host *ret, struct mu_err *err)
{
	FILE *f = fopen("/proc/self/mounts", "re");
	if (!f)
		return mu_fail(err, MU_ENOENT, "/proc/self/mounts: %s", strerror(errno));
	char line[1024], mount[512], type[64], options[512];
	ret->kind = EXE_CGROUP_V1;
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "%*s %511s %63s %511s", mount, type, options) == 3 &&
		    strcmp(type, "cgroup") == 0 && strlen(mount) < EXE_CGROUP_MOUNT)
			probe_v1_mount(ret, mount, options);
	fclose(f);
	if (!ret->mount[EXE_FREEZER][0])
		return mu_fail(err, MU_ENOENT,
			       "no control groups: neither /sys/fs/cgroup is a cgroup2 mount nor is a v1 "
			       "freezer mounted");
	return 0;
}

int exe_cgroup_probe_v2(const char *mount, struct exe_cgroup_host *ret, struct mu_err *err)
{
	struct statfs fs;
	if (statfs(mount, &fs) || fs.f_type != CGROUP2_SUPER_MAGIC)
		return mu_fail(err, MU_ENOENT, "%s is not a cgroup2 hierarchy", mount);
	if (strlen(mount) >= EXE_CGROUP_MOUNT)
		return mu_fail(err, MU_ELIMIT, "mount point %s is too long", mount);
	memset(ret, 0, sizeof *ret);
	ret->kind = EXE_CGROUP_V2;
	char have[512];
	exe__cgroup_read(mount, ".", "cgroup.controllers", have, sizeof have);
	for (int c = 0; c < EXE_CONTROLLERS; c++)
		if (c == EXE_DEVICES || c == EXE_FREEZER || c == EXE_CPUACCT ||
		    strstr(have, exe__controller_word(c)))
			snprintf(ret->mount[c], EXE_CGROUP_MOUNT, "%s", mount);
	return 0;
}

int exe_cgroup_probe(struct exe_cgroup_host *ret, struct mu_err *err)
{
	memset(ret, 0, sizeof *ret);
	if (exe_cgroup_probe_v2("/sys/fs/cgroup", ret, NULL) == 0)
		return 0;
	return probe_v1(ret, err);
}

/* ---- making ---- */

static int make_v2(const struct exe_cgroup_host *host, const char *path, struct mu_err *err)
{
	char part[EXE_CGROUP_PATH], parent[EXE_CGROUP_PATH] = ".";
	for (const char *end = path; end;) {
		end = strchr(end, '/');
		size_t len = end ? (size_t)(end - path) : strlen(path);
		memcpy(part, path, len);
		part[len] = 0;
		int code = exe__v2_level(host, parent, part, err);
		if (code)
			return code;
		memcpy(parent, part, len + 1);
		end = end ? end + 1 : NULL;
	}
	return 0;
}

int exe_cgroup_make(const struct exe_cgroup_host *host, const char *path,
		    const struct exe_cgroup_limits *limits, struct mu_err *err)
{
	bool v1 = host->kind == EXE_CGROUP_V1;
	if (strlen(path) >= EXE_CGROUP_PATH)
		return mu_fail(err, MU_ELIMIT, "control group path %s is longer than %d bytes", path,
			       EXE_CGROUP_PATH);
	int code = v1 ? exe__v1_make(host, path, limits, err) : make_v2(host, path, err);
	if (code)
		return code;
	return v1 ? exe__v1_limit(host, path, limits, err) : exe__v2_limit(host, path, limits, err);
}

/* ---- entering ---- */

int exe_cgroup_open(const struct exe_cgroup_host *host, const char *path, struct exe_cgroup_door *ret,
		    struct mu_err *err)
{
	char name[EXE_CGROUP_FILE];
	ret->kind = host->kind;
	for (int c = 0; c < EXE_CONTROLLERS; c++)
		ret->fd[c] = -1;
	for (int c = 0; c < EXE_CONTROLLERS; c++) {
		bool v2 = host->kind == EXE_CGROUP_V2;
		if (v2 ? c > 0 : !host->mount[c][0])
			continue;
		snprintf(name, sizeof name, v2 ? "%s/%s" : "%s/%s/tasks", host->mount[v2 ? EXE_FREEZER : c],
			 path);
		ret->fd[c] = open(name, v2 ? O_RDONLY | O_DIRECTORY | O_CLOEXEC : O_WRONLY | O_CLOEXEC);
		if (ret->fd[c] < 0 && c == EXE_PIDS && errno == ENOENT)
			continue; /* made only where it limits */
		if (ret->fd[c] < 0) {
			int saved = errno;
			exe_cgroup_close(ret);
			return mu_fail(err, MU_EIO, "%s: %s", name, strerror(saved));
		}
	}
	return 0;
}

void exe_cgroup_close(struct exe_cgroup_door *door)
{
	for (int c = 0; c < EXE_CONTROLLERS; c++) {
		if (door->fd[c] >= 0)
			close(door->fd[c]);
		door->fd[c] = -1;
	}
}

pid_t exe_cgroup_fork(const struct exe_cgroup_door *door, int *ret_errno)
{
	*ret_errno = 0;
	if (door->kind == EXE_CGROUP_V2) {
		struct clone_args a = {.flags = CLONE_INTO_CGROUP,
				       .exit_signal = SIGCHLD,
				       .cgroup = (uint64_t)(unsigned)door->fd[0]};
		return (pid_t)syscall(SYS_clone3, &a, sizeof a);
	}
	pid_t pid = fork();
	if (pid)
		return pid;
	/* It has one thread, so its `tasks` entry is the whole of it; `cgroup.procs` would stop every fork of
	 * the host for some ten milliseconds. */
	for (int c = 0; c < EXE_CONTROLLERS; c++)
		if (door->fd[c] >= 0 && write(door->fd[c], "0", 1) < 0) {
			*ret_errno = errno;
			break;
		}
	return 0;
}

/* ---- walking ---- */

static unsigned visit_procs(const char *mount, const char *path, exe_cgroup_visit visit, void *arg)
{
	char name[EXE_CGROUP_FILE];
	snprintf(name, sizeof name, "%s/%s/cgroup.procs", mount, path);
	FILE *f = fopen(name, "re");
	unsigned count = 0;
	if (!f)
		return 0;
	for (int pid; fscanf(f, "%d", &pid) == 1;) {
		if (pid <= 0)
			continue; /* of another pid namespace */
		count++;
		if (visit)
			visit(arg, pid);
	}
	fclose(f);
	return count;
}

/* Calls ENTER for every directory below MOUNT/PATH, deepest first, PATH itself last. */
typedef void (*dir_visit)(void *arg, const char *mount, const char *path);
static void walk(const char *mount, const char *path, int depth, dir_visit enter, void *arg)
{
	char name[EXE_CGROUP_FILE];
	snprintf(name, sizeof name, "%s/%s", mount, path);
	DIR *d = opendir(name);
	if (!d)
		return;
	for (struct dirent *e; depth < WALK_DEPTH && (e = readdir(d));) {
		char below[EXE_CGROUP_FILE];
		if (e->d_type != DT_DIR || e->d_name[0] == '.')
			continue;
		if ((size_t)snprintf(below, sizeof below, "%s/%s", path, e->d_name) < EXE_CGROUP_PATH)
			walk(mount, below, depth + 1, enter, arg);
	}
	closedir(d);
	enter(arg, mount, path);
}

struct each {
	exe_cgroup_visit visit;
	void *arg;
	unsigned count;
};
static void each_dir(void *arg, const char *mount, const char *path)
{
	struct each *e = arg;
	e->count += visit_procs(mount, path, e->visit, e->arg);
}

unsigned exe_cgroup_each(const struct exe_cgroup_host *host, const char *path, exe_cgroup_visit visit,
			 void *arg)
{
	struct each e = {visit, arg, 0};
	walk(host->mount[EXE_FREEZER], path, 0, each_dir, &e);
	return e.count;
}

static void send_signal(void *arg, pid_t pid)
{
	kill(pid, *(int *)arg);
}

unsigned exe_cgroup_signal(const struct exe_cgroup_host *host, const char *path, int signal_number)
{
	return exe_cgroup_each(host, path, send_signal, &signal_number);
}

void exe_cgroup_children(const struct exe_cgroup_host *host, const char *path, exe_cgroup_child child,
			 void *arg)
{
	char name[EXE_CGROUP_FILE];
	for (int c = 0; c < EXE_CONTROLLERS; c++) {
		if (!host->mount[c][0] || (host->kind == EXE_CGROUP_V2 && c != EXE_FREEZER))
			continue;
		snprintf(name, sizeof name, "%s/%s", host->mount[c], path);
		DIR *d = opendir(name);
		for (struct dirent *e; d && (e = readdir(d));) {
			bool seen = e->d_type != DT_DIR || e->d_name[0] == '.';
			for (int b = 0; b < c && !seen && host->kind == EXE_CGROUP_V1; b++) {
				char other[EXE_CGROUP_FILE + 256];
				snprintf(other, sizeof other, "%s/%s/%s", host->mount[b], path, e->d_name);
				seen = host->mount[b][0] && access(other, F_OK) == 0;
			}
			if (!seen)
				child(arg, e->d_name);
		}
		if (d)
			closedir(d);
	}
}

/* ---- freezing and killing ---- */

static void sleep_usec(unsigned usec)
{
	struct timespec t = {usec / 1000000, (long)(usec % 1000000) * 1000};
	nanosleep(&t, NULL);
}

int exe_cgroup_freeze(const struct exe_cgroup_host *host, const char *path, bool frozen, struct mu_err *err)
{
	int code = host->kind == EXE_CGROUP_V1 ? exe__v1_freeze(host, path, frozen)
					       : exe__v2_freeze(host, path, frozen);
	if (code < 0 && code != -ENOENT)
		return mu_fail(err, MU_EIO, "cannot %s control group %s: %s", frozen ? "freeze" : "thaw",
			       path, strerror(-code));
	return 0;
}

unsigned exe_cgroup_kill_once(const struct exe_cgroup_host *host, const char *path)
{
	if (exe_cgroup_each(host, path, NULL, NULL) == 0)
		return 0;
	if (host->kind == EXE_CGROUP_V2 &&
	    exe__cgroup_write(host->mount[EXE_FREEZER], path, "cgroup.kill", "1") == 0)
		return exe_cgroup_each(host, path, NULL, NULL) + 1;
	/* Frozen processes cannot fork away from the list that is being worked through. */
	exe_cgroup_freeze(host, path, true, NULL);
	unsigned seen = exe_cgroup_signal(host, path, SIGKILL);
	exe_cgroup_freeze(host, path, false, NULL);
	return seen + 1;
}

int exe_cgroup_kill(const struct exe_cgroup_host *host, const char *path, unsigned timeout_msec,
		    struct mu_err *err)
{
	struct timespec begin, now;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (unsigned pause_usec = 500;;) {
		unsigned left = exe_cgroup_kill_once(host, path);
		if (left == 0)
			return 0;
		clock_gettime(CLOCK_MONOTONIC, &now);
		int64_t msec = (now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000;
		if (msec >= (int64_t)timeout_msec)
			return mu_fail(err, MU_EBUSY, "%u processes in control group %s survive SIGKILL",
				       left, path);
		sleep_usec(pause_usec);
		pause_usec = pause_usec < 20000 ? pause_usec * 2 : pause_usec;
	}
}

/* ---- removing ---- */

struct removing {
	int code;
	char path[EXE_CGROUP_FILE];
};
static void remove_dir(void *arg, const char *mount, const char *path)
{
	struct removing *r = arg;
	char name[EXE_CGROUP_FILE];
	snprintf(name, sizeof name, "%s/%s", mount, path);
	/* A directory stays busy for a moment after its last process was reaped. */
	for (int tries = 0; rmdir(name) && errno != ENOENT; tries++) {
		if (errno != EBUSY || tries == FREEZE_POLLS) {
			r->code = -errno;
			snprintf(r->path, sizeof r->path, "%s", name);
			return;
		}
		sleep_usec(2000);
	}
}

bool exe_cgroup_vanish(const struct exe_cgroup_host *host, const char *path)
{
	char name[EXE_CGROUP_FILE];
	/* The freezer's goes last: while a process is left, it is what ends it. */
	static const enum exe_controller order[] = {EXE_CPUSET, EXE_MEMORY,  EXE_DEVICES,
						    EXE_PIDS,	EXE_CPUACCT, EXE_FREEZER};
	for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
		if (!host->mount[order[i]][0] || (host->kind == EXE_CGROUP_V2 && order[i] != EXE_FREEZER))
			continue;
		snprintf(name, sizeof name, "%s/%s", host->mount[order[i]], path);
		if (rmdir(name) && errno != ENOENT)
			return false;
	}
	return true;
}

int exe_cgroup_remove(const struct exe_cgroup_host *host, const char *path, struct mu_err *err)
{
	struct removing r = {0};
	if (exe_cgroup_vanish(host, path))
		return 0;
	for (int c = 0; c < EXE_CONTROLLERS; c++)
		if (host->mount[c][0] && (host->kind == EXE_CGROUP_V1 || c == EXE_FREEZER))
			walk(host->mount[c], path, 0, remove_dir, &r);
	if (r.code)
		return mu_fail(err, MU_EBUSY, "cannot remove control group %s: %s", r.path,
			       strerror(-r.code));
	return 0;
}

void exe_cgroup_prune(const struct exe_cgroup_host *host, const char *path)
{
	char name[EXE_CGROUP_FILE];
	for (int c = 0; c < EXE_CONTROLLERS; c++) {
		snprintf(name, sizeof name, "%s/%s", host->mount[c], path);
		if (host->mount[c][0])
			rmdir(name);
	}
}

void exe_cgroup_usage(const struct exe_cgroup_host *host, const char *path, struct exe_cgroup_usage *ret)
{
	memset(ret, 0, sizeof *ret);
	if (host->kind == EXE_CGROUP_V1)
		exe__v1_usage(host, path, ret);
	else
		exe__v2_usage(host, path, ret);
}
