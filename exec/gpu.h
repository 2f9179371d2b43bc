/* exec/gpu.h: the GPUs of this host: which there are, whether they are well, who uses them.
 * Owns: NVML (opened when first needed: nothing here is linked with it), the driver's files below /proc and
 * /sys, and the watcher: a process of its own beside the agent, because a driver in trouble may block for
 * minutes or take its caller along. Leaves to others: which device is whose (exec/inventory.h), and what a
 * fault means for the node and its jobs (exec/agent_gpu.c).
 *
 * The watcher is muster-agent itself, started with --watch-gpus HOW and one end of a socket pair as
 * descriptor 3. It sends frames of log/stream.h with kind EXE_GPU_REPORT: one Mu__GpuReport with all cards,
 * then faults when they happen and, once a second, who uses what. It ends when the agent does. */
#ifndef EXEC_GPU_H
#define EXEC_GPU_H

#include <stdbool.h>
#include <stdint.h>

#include "exec/gpu.pb-c.h"
#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"

enum {
	EXE_GPU_REPORT = 74, /* a kind beside those of exec/shepherd.h */
	EXE_GPU_FD = 3,
	EXE_GPUS_MAX = 256,   /* cards and parts of cards: eight cards of seven parts are 56 */
	EXE_GPU_FILES = 4,    /* device files of one: itself and two capabilities */
	EXE_GPU_USERS = 1024, /* processes in one sample */
	EXE_GPU_WAIT_MSEC = 1000
};

/* What one way of looking at GPUs can do. Every function runs in the watcher and may block. */
struct exe_gpu_source {
	const char *word; /* as AutoDetect= names it */
	/* Fills REPORT->card from ARENA, which lives as long as the watcher. 0 also where there is none, or a
	 * code with the reason. ROOT is put before /dev, /proc and /sys: "" but in tests. */
	int (*open)(const char *root, struct mu_arena *arena, Mu__GpuReport *report, struct mu_err *err);
	/* Waits up to MSEC for something to happen and appends faults that are not in REPORT yet (at most one
	 * for each card at a time), from ARENA. */
	void (*wait)(unsigned msec, const Mu__GpuReport *cards, struct mu_arena *arena,
		     Mu__GpuReport *report);
	/* Fills REPORT->process, at most EXE_GPU_USERS, from ARENA. */
	void (*sample)(const Mu__GpuReport *cards, struct mu_arena *arena, Mu__GpuReport *report);
};
extern const struct exe_gpu_source exe_gpu_nvml, exe_gpu_proc, exe_gpu_kfd;

/* The source that AutoDetect=WORD means, or NULL. */
const struct exe_gpu_source *exe_gpu_source_find(const char *word);
/* Adds a fault of CARD to REPORT; its text from ARENA. */
void exe_gpu_fault(Mu__GpuReport *report, struct mu_arena *arena, uint32_t card, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Adds a use of CARD to REPORT, if there is room. */
void exe_gpu_use(Mu__GpuReport *report, struct mu_arena *arena, uint32_t card, uint32_t pid,
		 uint64_t mem_bytes, uint32_t util_percent);
/* Reads a small file below ROOT into OUT, NUL-terminated, without the last newline. False: there is none. */
bool exe_gpu_read(const char *root, const char *path, char *out, size_t cap);

/* The watcher's life. Returns when FD is closed by the other side. */
int exe_gpu_watch(const char *word, int fd);
/* Is the test-only prefix of device and driver files: MUSTER_GPU_ROOT, or "". */
const char *exe_gpu_root(void);

#endif
