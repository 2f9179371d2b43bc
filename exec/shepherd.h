/* exec/shepherd.h: how an agent talks to the shepherd of a running step, and what a shepherd is started with.
 *
 * Start: muster-shepherd ATTEMPT_DIR STEP (the word of exe_step_word), with descriptors
 *   3 control (one end of a socket pair; the other end is the agent's)    4 the locked step_<s>.order    5
 * srun's connection, if any. Control, over descriptor 3 and over the Unix socket step_<s>.sock alike: frames
 * of log/stream.h with the kinds below. An agent that was restarted connects to the socket and goes on;
 * losing an agent changes nothing for the step. The shepherd's end shows as end of file on the control
 * connection; step_<s>.end tells how the step ended. */
#ifndef EXEC_SHEPHERD_H
#define EXEC_SHEPHERD_H

#include <stdint.h>

enum { EXE_FD_CONTROL = 3, EXE_FD_LOCK = 4, EXE_FD_STREAM = 5, EXE_FD_PMIX = 3 /* of muster-pmix */ };

enum exe_shepherd_kind {
	EXE_SHEPHERD_SIGNAL =
	    64, /* u32 signal, u32 1: the tasks alone (batch shell), 0: every process of the step */
	EXE_SHEPHERD_END = 65,	  /* u32 cause, u32 uid, u32 1: KILL at once: TERM, KillWait, KILL */
	EXE_SHEPHERD_LIMIT = 66,  /* u64 seconds from the step's start, 0: no limit */
	EXE_SHEPHERD_ASK = 67,	  /* answered with */
	EXE_SHEPHERD_STATE = 68,  /* Mu__StepState with usage */
	EXE_SHEPHERD_ENDED = 70,  /* shepherd -> agent: step_<s>.end is there; said before srun hears of it */
	EXE_SHEPHERD_FREEZE = 69, /* u32 1: stop, 0: go on */
	EXE_SHEPHERD_ATTACH = 71, /* a sattach's connection comes with it (SCM_RIGHTS) */
	EXE_SHEPHERD_SAY = 72,	  /* a line for the job's error output */
	EXE_SHEPHERD_GPUS = 73,	  /* Mu__GpuSample: what processes use of the job's GPUs now */
	EXE_PMIX_ENV = 76,	  /* muster-pmix and the shepherd: see exec/pmix.c */
	EXE_PMIX_FENCE = 77,
	EXE_PMIX_ABORT = 78,
	EXE_PMIX_FAIL = 79
};

/* "batch", "extern" or the number. OUT has 16 bytes. */
void exe_step_word(uint32_t step, char out[16]);

#endif
