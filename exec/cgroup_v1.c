/* exec/cgroup_v1.c: limits, freezer and counters of the separate hierarchies. */
#include "exec/cgroup.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FREEZE_POLLS = 100, FREEZE_PAUSE_NSEC = 200000 };

static void parent_of(const char *path, char parent[EXE_CGROUP_PATH])
{
	const char *slash = strrchr(path, '/');
	snprintf(parent, EXE_CGROUP_PATH, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
}

static bool is_blank(const char *text)
{
	return !text[0] || text[0] == '\n';
}

/* A cpuset admits no process before it has CPUs and memory nodes: each new level takes over its parent's. */
static int inherit(const char *mount, const char *path, const char *file, int depth, struct mu_err *err)
{
	char text[4096], parent[EXE_CGROUP_PATH];
	parent_of(path, parent);
	int code = exe__cgroup_read(mount, parent, file, text, sizeof text);
	/* An agent that was killed may have left the parent without. */
	if (code == 0 && is_blank(text) && depth > 0 && strcmp(parent, ".") != 0) {
		code = inherit(mount, parent, file, depth - 1, err);
		if (code)
			return code;
		code = exe__cgroup_read(mount, parent, file, text, sizeof text);
	}
	if (code == 0)
		code = exe__cgroup_write(mount, path, file, text);
	if (code < 0)
		return mu_fail(err, MU_EIO, "cannot set %s of %s/%s: %s", file, mount, path, strerror(-code));
	return 0;
}

static int inherit_cpuset(const char *mount, const char *path, bool fresh, struct mu_err *err)
{
	static const char *const file[] = {"cpuset.cpus", "cpuset.mems"};
	char text[4096];
	int code = 0;
	for (size_t i = 0; i < 2 && code == 0; i++)
		if (fresh || exe__cgroup_read(mount, path, file[i], text, sizeof text) < 0 || is_blank(text))
			code = inherit(mount, path, file[i], EXE_CGROUP_DEPTH, err);
	return code;
}

/* The directory PATH below one mount, with the parents that are missing. Nearly always only the last is. */
static int make_dir(const struct exe_cgroup_host *host, enum exe_controller c, const char *path, int depth,
		    struct mu_err *err)
{
	char name[EXE_CGROUP_FILE], parent[EXE_CGROUP_PATH];
	snprintf(name, sizeof name, "%s/%s", host->mount[c], path);
	bool fresh = mkdir(name, 0755) == 0;
	if (!fresh && errno == ENOENT && depth > 0 && strchr(path, '/')) {
		parent_of(path, parent);
		int code = make_dir(host, c, parent, depth - 1, err);
		if (code)
			return code;
		fresh = mkdir(name, 0755) == 0;
	}
	if (!fresh && errno != EEXIST)
		return mu_fail(err, MU_EIO, "cannot make control group %s: %s", name, strerror(errno));
	return c == EXE_CPUSET ? inherit_cpuset(host->mount[c], path, fresh, err) : 0;
}

int exe__v1_make(const struct exe_cgroup_host *host, const char *path, const struct exe_cgroup_limits *limits,
		 struct mu_err *err)
{
	int code = 0;
	for (int c = 0; c < EXE_CONTROLLERS && code == 0; c++) {
		/* Nothing is read from pids: it is needed where it limits. */
		if (!host->mount[c][0] || (c == EXE_PIDS && !limits->pids_max))
			continue;
		code = make_dir(host, c, path, EXE_CGROUP_DEPTH, err);
	}
	return code;
}

static int set(const struct exe_cgroup_host *host, enum exe_controller c, const char *path, const char *file,
	       const char *text, struct mu_err *err)
{
	if (!host->mount[c][0])
		return mu_fail(err, MU_EIO, "%s=%s cannot be enforced: this host has no %s controller", file,
			       text, exe__controller_word(c));
	int code = exe__cgroup_write(host->mount[c], path, file, text);
	if (code < 0)
		return mu_fail(err, MU_EIO, "%s=%s cannot be set on %s: %s", file, text, path,
			       strerror(-code));
	return 0;
}

static int limit_memory(const struct exe_cgroup_host *host, const char *path, uint64_t bytes,
			struct mu_err *err)
{
	char text[32];
	snprintf(text, sizeof text, "%llu", (unsigned long long)bytes);
	int code = set(host, EXE_MEMORY, path, "memory.limit_in_bytes", text, err);
	if (code)
		return code;
	char name[EXE_CGROUP_FILE];
	snprintf(name, sizeof name, "%s/%s/memory.memsw.limit_in_bytes", host->mount[EXE_MEMORY], path);
	if (access(name, F_OK))
		return 0; /* the kernel does not count swap: memory alone is limited */
	return set(host, EXE_MEMORY, path, "memory.memsw.limit_in_bytes", text, err);
}

/* ---- devices ---- */

/* A rule as the kernel lists it: "c 1:3 rwm", "c 136:* rwm". */
static void rule_text(const struct exe_device *d, const char *access_word, char text[64])
{
	if (d->any_minor)
		snprintf(text, 64, "%c %u:* %s", d->kind, d->major, access_word);
	else
		snprintf(text, 64, "%c %u:%u %s", d->kind, d->major, d->minor, access_word);
}

static size_t rule_count(const struct exe_cgroup_limits *limits)
{
	return exe__device_usual_count + limits->device_count;
}

static void rule_of(const struct exe_cgroup_limits *limits, size_t i, char text[64])
{
	if (i < exe__device_usual_count)
		rule_text(&exe__device_usual[i], "rwm", text);
	else
		rule_text(&limits->device[i - exe__device_usual_count], "rw", text);
}

static bool is_wanted(const struct exe_cgroup_limits *limits, const char *line)
{
	char text[64];
	for (size_t i = 0; i < rule_count(limits); i++) {
		rule_of(limits, i, text);
		if (strcmp(text, line) == 0)
			return true;
	}
	return false;
}

static bool is_listed(const char *list, const char *rule)
{
	size_t len = strlen(rule);
	for (const char *at = list; (at = strstr(at, rule)); at += len)
		if ((at == list || at[-1] == '\n') && (at[len] == '\n' || !at[len]))
			return true;
	return false;
}

static int fence_anew(const struct exe_cgroup_host *host, const char *path,
		      const struct exe_cgroup_limits *limits, struct mu_err *err)
{
	char text[64];
	int code = set(host, EXE_DEVICES, path, "devices.deny", "a", err);
	for (size_t i = 0; code == 0 && i < rule_count(limits); i++) {
		rule_of(limits, i, text);
		code = set(host, EXE_DEVICES, path, "devices.allow", text, err);
	}
	return code;
}

/* A group starts with the rules of its parent. Where those allow only what they list, which a node's group
 * and a job's do, it is enough to strike what is not wanted. */
static int fence_devices(const struct exe_cgroup_host *host, const char *path,
			 const struct exe_cgroup_limits *limits, struct mu_err *err)
{
	char list[EXE_DEVICES_MAX * 32], line[64], text[64];
	int code = 0;
	if (!host->mount[EXE_DEVICES][0] ||
	    exe__cgroup_read(host->mount[EXE_DEVICES], path, "devices.list", list, sizeof list) < 0 ||
	    list[0] == 'a' || strstr(list, "\na ") || strlen(list) + 1 == sizeof list)
		return fence_anew(host, path, limits, err);
	for (const char *at = limits->devices_stay ? "" : list; *at && code == 0;) {
		size_t len = strcspn(at, "\n");
		snprintf(line, sizeof line, "%.*s", (int)len, at);
		if (len && !is_wanted(limits, line))
			code = set(host, EXE_DEVICES, path, "devices.deny", line, err);
		at += len + (at[len] != 0);
	}
	for (size_t i = 0; code == 0 && i < rule_count(limits); i++) {
		rule_of(limits, i, text);
		if (!is_listed(list, text))
			code = set(host, EXE_DEVICES, path, "devices.allow", text, err);
	}
	return code;
}

int exe__v1_limit(const struct exe_cgroup_host *host, const char *path,
		  const struct exe_cgroup_limits *limits, struct mu_err *err)
{
	char text[32];
	int code = 0;
	if (limits->memory_bytes)
		code = limit_memory(host, path, limits->memory_bytes, err);
	if (code == 0 && limits->cpus)
		code = set(host, EXE_CPUSET, path, "cpuset.cpus", limits->cpus, err);
	if (code == 0 && limits->pids_max) {
		snprintf(text, sizeof text, "%u", limits->pids_max);
		code = set(host, EXE_PIDS, path, "pids.max", text, err);
	}
	if (code == 0 && limits->fence_devices)
		code = fence_devices(host, path, limits, err);
	return code;
}

int exe__v1_freeze(const struct exe_cgroup_host *host, const char *path, bool frozen)
{
	const char *mount = host->mount[EXE_FREEZER];
	char state[64];
	int code = exe__cgroup_write(mount, path, "freezer.state", frozen ? "FROZEN" : "THAWED");
	/* A process in an uninterruptible wait freezes late; the caller comes round again. */
	for (int i = 0; frozen && code == 0 && i < FREEZE_POLLS; i++) {
		if (exe__cgroup_read(mount, path, "freezer.state", state, sizeof state) < 0 ||
		    strncmp(state, "FROZEN", 6) == 0)
			break;
		struct timespec pause = {0, FREEZE_PAUSE_NSEC};
		nanosleep(&pause, NULL);
	}
	return code;
}

void exe__v1_usage(const struct exe_cgroup_host *host, const char *path, struct exe_cgroup_usage *ret)
{
	const char *cpu = host->mount[EXE_CPUACCT], *memory = host->mount[EXE_MEMORY];
	ret->user_usec = exe__cgroup_number(cpu, path, "cpuacct.usage_user", NULL) / 1000;
	ret->sys_usec = exe__cgroup_number(cpu, path, "cpuacct.usage_sys", NULL) / 1000;
	ret->total_usec = exe__cgroup_number(cpu, path, "cpuacct.usage", NULL) / 1000;
	ret->memory_peak_bytes = exe__cgroup_number(memory, path, "memory.max_usage_in_bytes", NULL);
	ret->memory_now_bytes = exe__cgroup_number(memory, path, "memory.usage_in_bytes", NULL);
	ret->oom_kills = (uint32_t)exe__cgroup_number(memory, path, "memory.oom_control", "oom_kill");
}
