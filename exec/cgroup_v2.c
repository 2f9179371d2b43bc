/* exec/cgroup_v2.c: limits, freezer and counters of the unified hierarchy, and its device fence in eBPF. */
#include "exec/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	FREEZE_POLLS = 100,
	FREEZE_PAUSE_NSEC = 200000,
	RULE_INSNS = 5, /* kind, major, minor, verdict, exit */
	PROGRAM_MAX = 8 + RULE_INSNS * (EXE_DEVICES_MAX + 32)
};

int exe__v2_level(const struct exe_cgroup_host *host, const char *parent, const char *path,
		  struct mu_err *err)
{
	char name[EXE_CGROUP_FILE], text[32];
	const char *mount = host->mount[EXE_FREEZER];
	/* Children have a controller only when the parent hands it down. What is refused here shows when the
	 * limit is set. */
	static const enum exe_controller handed[] = {EXE_MEMORY, EXE_CPUSET, EXE_PIDS};
	for (size_t i = 0; i < sizeof handed / sizeof *handed; i++) {
		snprintf(text, sizeof text, "+%s", exe__controller_word(handed[i]));
		if (host->mount[handed[i]][0])
			exe__cgroup_write(mount, parent, "cgroup.subtree_control", text);
	}
	snprintf(name, sizeof name, "%s/%s", mount, path);
	if (mkdir(name, 0755) && errno != EEXIST)
		return mu_fail(err, MU_EIO, "cannot make control group %s: %s", name, strerror(errno));
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

#define INSN(c, d, s, o, i) \
	((struct bpf_insn){.code = (c), .dst_reg = (d), .src_reg = (s), .off = (o), .imm = (i)})

/* R2 kind (1 block, 2 character), R3 major, R4 minor; each rule leaves with 1 where all three fit, the end
 * with 0. */
static size_t program_rule(struct bpf_insn *p, const struct exe_device *d)
{
	size_t n = 0;
	int16_t over = d->any_minor ? 3 : 4; /* instructions from the first compare to the next rule */
	p[n++] = INSN(BPF_JMP | BPF_JNE | BPF_K, 2, 0, over, d->kind == 'b' ? 1 : 2);
	p[n++] = INSN(BPF_JMP | BPF_JNE | BPF_K, 3, 0, (int16_t)(over - 1), (int32_t)d->major);
	if (!d->any_minor)
		p[n++] = INSN(BPF_JMP | BPF_JNE | BPF_K, 4, 0, (int16_t)(over - 2), (int32_t)d->minor);
	p[n++] = INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 1);
	p[n++] = INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	return n;
}

static size_t program_make(struct bpf_insn *p, const struct exe_cgroup_limits *limits)
{
	size_t n = 0;
	p[n++] = INSN(BPF_LDX | BPF_MEM | BPF_W, 2, 1, 0, 0);
	p[n++] = INSN(BPF_ALU64 | BPF_AND | BPF_K, 2, 0, 0, 0xffff);
	p[n++] = INSN(BPF_LDX | BPF_MEM | BPF_W, 3, 1, 4, 0);
	p[n++] = INSN(BPF_LDX | BPF_MEM | BPF_W, 4, 1, 8, 0);
	for (size_t i = 0; i < exe__device_usual_count; i++)
		n += program_rule(p + n, &exe__device_usual[i]);
	for (size_t i = 0; i < limits->device_count; i++)
		n += program_rule(p + n, &limits->device[i]);
	p[n++] = INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0);
	p[n++] = INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
	return n;
}

static int fence_devices(const struct exe_cgroup_host *host, const char *path,
			 const struct exe_cgroup_limits *limits, struct mu_err *err)
{
	static struct bpf_insn program[PROGRAM_MAX];
	union bpf_attr a = {0};
	a.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
	a.insns = (uint64_t)(uintptr_t)program;
	a.insn_cnt = (uint32_t)program_make(program, limits);
	a.license = (uint64_t)(uintptr_t) "Apache-2.0";
	int fd = (int)syscall(SYS_bpf, BPF_PROG_LOAD, &a, sizeof a);
	if (fd < 0)
		return mu_fail(err, MU_EIO, "the device fence of %s cannot be loaded into the kernel: %s",
			       path, strerror(errno));
	char name[EXE_CGROUP_FILE];
	snprintf(name, sizeof name, "%s/%s", host->mount[EXE_DEVICES], path);
	int dir = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), code = 0;
	memset(&a, 0, sizeof a);
	a.target_fd = (uint32_t)dir;
	a.attach_bpf_fd = (uint32_t)fd;
	a.attach_type = BPF_CGROUP_DEVICE;
	a.attach_flags = BPF_F_ALLOW_MULTI;
	if (dir < 0 || syscall(SYS_bpf, BPF_PROG_ATTACH, &a, sizeof a))
		code = mu_fail(err, MU_EIO, "the device fence cannot be attached to %s: %s", name,
			       strerror(errno));
	if (dir >= 0)
		close(dir);
	close(fd);
	return code;
}

static int limit_memory(const struct exe_cgroup_host *host, const char *path,
			const struct exe_cgroup_limits *limits, struct mu_err *err)
{
	char text[32], name[EXE_CGROUP_FILE];
	snprintf(text, sizeof text, "%llu", (unsigned long long)limits->memory_bytes);
	int code = set(host, EXE_MEMORY, path, "memory.max", text, err);
	snprintf(name, sizeof name, "%s/%s/memory.swap.max", host->mount[EXE_MEMORY], path);
	if (code == 0 && access(name, F_OK) == 0)
		code = set(host, EXE_MEMORY, path, "memory.swap.max", "0", err);
	if (code == 0 && limits->memory_group)
		code = set(host, EXE_MEMORY, path, "memory.oom.group", "1", err);
	return code;
}

int exe__v2_limit(const struct exe_cgroup_host *host, const char *path,
		  const struct exe_cgroup_limits *limits, struct mu_err *err)
{
	char text[32];
	int code = 0;
	if (limits->device_count > EXE_DEVICES_MAX)
		return mu_fail(err, MU_ELIMIT, "%zu devices are more than the %d that one group may hold",
			       limits->device_count, EXE_DEVICES_MAX);
	if (limits->memory_bytes)
		code = limit_memory(host, path, limits, err);
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

int exe__v2_freeze(const struct exe_cgroup_host *host, const char *path, bool frozen)
{
	const char *mount = host->mount[EXE_FREEZER];
	int code = exe__cgroup_write(mount, path, "cgroup.freeze", frozen ? "1" : "0");
	for (int i = 0; frozen && code == 0 && i < FREEZE_POLLS; i++) {
		if (exe__cgroup_number(mount, path, "cgroup.events", "frozen") == 1)
			break;
		struct timespec pause = {0, FREEZE_PAUSE_NSEC};
		nanosleep(&pause, NULL);
	}
	return code;
}

void exe__v2_usage(const struct exe_cgroup_host *host, const char *path, struct exe_cgroup_usage *ret)
{
	const char *cpu = host->mount[EXE_CPUACCT], *memory = host->mount[EXE_MEMORY];
	ret->user_usec = exe__cgroup_number(cpu, path, "cpu.stat", "user_usec");
	ret->sys_usec = exe__cgroup_number(cpu, path, "cpu.stat", "system_usec");
	ret->total_usec = exe__cgroup_number(cpu, path, "cpu.stat", "usage_usec");
	ret->memory_peak_bytes = exe__cgroup_number(memory, path, "memory.peak", NULL);
	ret->memory_now_bytes = exe__cgroup_number(memory, path, "memory.current", NULL);
	/* The local count: kills in a step's own group, not in those beside it. */
	ret->oom_kills = (uint32_t)exe__cgroup_number(memory, path, "memory.events.local", "oom_kill");
	if (ret->oom_kills == 0)
		ret->oom_kills = (uint32_t)exe__cgroup_number(memory, path, "memory.events", "oom_kill");
}
