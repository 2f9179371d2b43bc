/* exec/cgroup_v1.c: limits, freezer and counters of the separate hierarchies. */
#include "exec/cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FREEZE_POLLS = 100, FREEZE_PAUSE_NSEC = 200000 };

/* A cpuset admits no process before it has CPUs and memory nodes: each new level takes over its parent's. */
static int inherit_cpuset(const char *mount, const char *parent, const char *path, struct mu_err *err)
{
	static const char *const file[] = {"cpuset.cpus", "cpuset.mems"};
	char text[4096];
	for (size_t i = 0; i < 2; i++) {
		if (exe__cgroup_read(mount, path, file[i], text, sizeof text) == 0 && text[0] &&
		    text[0] != '\n')
			continue;
		int code = exe__cgroup_read(mount, parent, file[i], text, sizeof text);
		if (code == 0)
			code = exe__cgroup_write(mount, path, file[i], text);
		if (code < 0)
			return mu_fail(err, MU_EIO, "cannot set %s of %s/%s: %s", file[i], mount, path,
				       strerror(-code));
	}
	return 0;
}

int exe__v1_level(const struct exe_cgroup_host *host, const char *parent, const char *path,
		  struct mu_err *err)
{
	char name[EXE_CGROUP_FILE];
	for (int c = 0; c < EXE_CONTROLLERS; c++) {
		if (!host->mount[c][0])
			continue;
		snprintf(name, sizeof name, "%s/%s", host->mount[c], path);
		if (mkdir(name, 0755) && errno != EEXIST)
			return mu_fail(err, MU_EIO, "cannot make control group %s: %s", name,
				       strerror(errno));
		int code = c == EXE_CPUSET ? inherit_cpuset(host->mount[c], parent, path, err) : 0;
		if (code)
			return code;
	}
	return 0;
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

static int allow(const struct exe_cgroup_host *host, const char *path, const struct exe_device *d,
		 const char *access_word, struct mu_err *err)
{
	char text[64];
	if (d->any_minor)
		snprintf(text, sizeof text, "%c %u:* %s", d->kind, d->major, access_word);
	else
		snprintf(text, sizeof text, "%c %u:%u %s", d->kind, d->major, d->minor, access_word);
	return set(host, EXE_DEVICES, path, "devices.allow", text, err);
}

static int fence_devices(const struct exe_cgroup_host *host, const char *path,
			 const struct exe_cgroup_limits *limits, struct mu_err *err)
{
	int code = set(host, EXE_DEVICES, path, "devices.deny", "a", err);
	for (size_t i = 0; code == 0 && i < exe__device_usual_count; i++)
		code = allow(host, path, &exe__device_usual[i], "rwm", err);
	for (size_t i = 0; code == 0 && i < limits->device_count; i++)
		code = allow(host, path, &limits->device[i], "rw", err);
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
	ret->memory_peak_bytes = exe__cgroup_number(memory, path, "memory.max_usage_in_bytes", NULL);
	ret->memory_now_bytes = exe__cgroup_number(memory, path, "memory.usage_in_bytes", NULL);
	ret->oom_kills = (uint32_t)exe__cgroup_number(memory, path, "memory.oom_control", "oom_kill");
}
