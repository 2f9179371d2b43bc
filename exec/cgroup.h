/* exec/cgroup.h: one interface over the kernel's two kinds of control groups.
 * Owns: the directories muster_<cluster>/<node>/job_<id>_<attempt>/step_<s> below each controller's mount,
 * the limits written into them, freezing, killing, counting and usage. Leaves to others: who gets what
 * (orders), processes' identities (spawn).
 *
 * v1: one mount for each controller (hybrid hosts included). v2: one hierarchy; devices are fenced by a small
 * eBPF program, which needs no controller, so that fence and freezer also work on the unified half of a
 * hybrid host. A limit that was asked for and cannot be set is an error with a sentence: the caller does not
 * start the job. Blocking only on the kernel; no allocation in what a forked child calls; not thread-safe on
 * one path. */
#ifndef EXEC_CGROUP_H
#define EXEC_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/base/err.h"

enum {
	EXE_CGROUP_PATH = 640,	/* our part of a path: two names of at most 255 bytes, job and step numbers */
	EXE_CGROUP_MOUNT = 128, /* a mount point */
	EXE_CGROUP_FILE = 1024, /* mount + path + file name */
	EXE_CGROUP_DEPTH = 6,	/* levels of our part of a path, and some more */
	EXE_DEVICES_MAX = 512	/* rules of one group: 64 devices with their control nodes, many times over */
};

enum exe_cgroup_kind { EXE_CGROUP_V1 = 1, EXE_CGROUP_V2 = 2 };
enum exe_controller {
	EXE_CPUSET,
	EXE_MEMORY,
	EXE_DEVICES,
	EXE_FREEZER,
	EXE_PIDS,
	EXE_CPUACCT,
	EXE_CONTROLLERS
};

/* What this host offers; plain data. mount[c] is "" where controller c cannot be had. */
struct exe_cgroup_host {
	enum exe_cgroup_kind kind;
	char mount[EXE_CONTROLLERS][EXE_CGROUP_MOUNT];
};

/* Finds the hierarchies in /proc/self/mounts: v2 where /sys/fs/cgroup is the unified hierarchy, else v1. 0 or
 * MU_ENOENT. */
int exe_cgroup_probe(struct exe_cgroup_host *ret, struct mu_err *err);
/* The v2 back-end on the cgroup2 hierarchy mounted at MOUNT, whatever else the host has. 0 or MU_ENOENT. */
int exe_cgroup_probe_v2(const char *mount, struct exe_cgroup_host *ret, struct mu_err *err);

/* One device that may be opened (read and write). */
struct exe_device {
	char kind;	/* 'c' or 'b' */
	bool any_minor; /* every minor number of MAJOR */
	uint32_t major, minor;
};

/* Limits of one group; zero or NULL: not limited by this group (its parents' limits hold). */
struct exe_cgroup_limits {
	uint64_t memory_bytes; /* memory and, where the kernel counts it, swap together */
	bool memory_group;     /* v2: the kernel kills the whole group, not one process of it */
	const char *cpus;      /* host CPUs, "0-3,8" */
	uint32_t pids_max;
	bool fence_devices; /* deny every device but the usual pseudo-devices and those listed */
	bool devices_stay;  /* v1: what is allowed already stays allowed */
	const struct exe_device *device;
	size_t device_count;
};

/* Makes PATH (and its parents) below every mount and sets LIMITS on it. Existing directories are taken over.
 * On failure what was made stays for exe_cgroup_remove. 0, MU_EIO (the kernel refused; the sentence says
 * what), MU_ELIMIT. */
int exe_cgroup_make(const struct exe_cgroup_host *host, const char *path,
		    const struct exe_cgroup_limits *limits, struct mu_err *err);

/* Descriptors by which a forked child enters a group. */
struct exe_cgroup_door {
	int fd[EXE_CONTROLLERS]; /* v1: cgroup.procs of each controller; v2: [0] the directory */
	enum exe_cgroup_kind kind;
};
int exe_cgroup_open(const struct exe_cgroup_host *host, const char *path, struct exe_cgroup_door *ret,
		    struct mu_err *err);
void exe_cgroup_close(struct exe_cgroup_door *door);
/* fork() whose child is inside the group before it returns (v2: no moment outside; v1: it moves itself
 * first). In the child RET_ERRNO says why it could not enter (then it must leave), 0 when it is inside. -1
 * and errno in the parent on failure. The caller is single-threaded. */
pid_t exe_cgroup_fork(const struct exe_cgroup_door *door, int *ret_errno);

/* Sends SIGNAL to every process of PATH and below; returns how many there were. A path that is gone has none.
 */
unsigned exe_cgroup_signal(const struct exe_cgroup_host *host, const char *path, int signal_number);
/* Calls VISIT for every process of PATH and below. */
typedef void (*exe_cgroup_visit)(void *arg, pid_t pid);
unsigned exe_cgroup_each(const struct exe_cgroup_host *host, const char *path, exe_cgroup_visit visit,
			 void *arg);
/* One round of: freeze, SIGKILL to all, thaw. Returns how many processes it saw; 0 means empty. The caller
 * reaps and calls again: a killed process leaves only after it has been thawed and scheduled. */
unsigned exe_cgroup_kill_once(const struct exe_cgroup_host *host, const char *path);
/* Rounds until empty, at most TIMEOUT_MSEC. 0, or MU_EBUSY with the number of those left in the sentence. */
int exe_cgroup_kill(const struct exe_cgroup_host *host, const char *path, unsigned timeout_msec,
		    struct mu_err *err);
/* Stops (thaws) all processes of PATH. 0 or MU_EIO. */
int exe_cgroup_freeze(const struct exe_cgroup_host *host, const char *path, bool frozen, struct mu_err *err);
/* Removes PATH and everything below it from every mount; a path that is gone is fine. 0 or MU_EBUSY. */
int exe_cgroup_remove(const struct exe_cgroup_host *host, const char *path, struct mu_err *err);
/* Removes PATH where nothing is in it, no process and no group below; true when it is gone from every mount. */
bool exe_cgroup_vanish(const struct exe_cgroup_host *host, const char *path);
/* Removes the directory PATH itself where nothing is in it; quietly. */
void exe_cgroup_prune(const struct exe_cgroup_host *host, const char *path);
/* Names of the directories directly below PATH (any mount), each given once. */
typedef void (*exe_cgroup_child)(void *arg, const char *name);
void exe_cgroup_children(const struct exe_cgroup_host *host, const char *path, exe_cgroup_child child,
			 void *arg);

/* The kernel's counters for PATH. Zero where a controller is absent. */
struct exe_cgroup_usage {
	uint64_t user_usec, sys_usec, total_usec; /* the total is exact, its parts may be of whole ticks */
	uint64_t memory_peak_bytes, memory_now_bytes;
	uint32_t oom_kills; /* processes of this very group that the kernel killed for memory */
};
void exe_cgroup_usage(const struct exe_cgroup_host *host, const char *path, struct exe_cgroup_usage *ret);

/* ---- inside the room ---- */
const char *exe__controller_word(enum exe_controller c);
/* Writes TEXT into MOUNT/PATH/FILE. 0 or negative errno. */
int exe__cgroup_write(const char *mount, const char *path, const char *file, const char *text);
/* Reads it into OUT (NUL-terminated, cut). 0 or negative errno. */
int exe__cgroup_read(const char *mount, const char *path, const char *file, char *out, size_t cap);
uint64_t exe__cgroup_number(const char *mount, const char *path, const char *file, const char *key);
/* The pseudo-devices that every job may open. */
extern const struct exe_device exe__device_usual[];
extern const size_t exe__device_usual_count;

/* PATH and its parents below the mounts that LIMITS need. */
int exe__v1_make(const struct exe_cgroup_host *host, const char *path, const struct exe_cgroup_limits *limits,
		 struct mu_err *err);
int exe__v1_limit(const struct exe_cgroup_host *host, const char *path,
		  const struct exe_cgroup_limits *limits, struct mu_err *err);
int exe__v1_freeze(const struct exe_cgroup_host *host, const char *path, bool frozen);
void exe__v1_usage(const struct exe_cgroup_host *host, const char *path, struct exe_cgroup_usage *ret);
int exe__v2_level(const struct exe_cgroup_host *host, const char *parent, const char *path,
		  struct mu_err *err);
int exe__v2_limit(const struct exe_cgroup_host *host, const char *path,
		  const struct exe_cgroup_limits *limits, struct mu_err *err);
int exe__v2_freeze(const struct exe_cgroup_host *host, const char *path, bool frozen);
void exe__v2_usage(const struct exe_cgroup_host *host, const char *path, struct exe_cgroup_usage *ret);

#endif
