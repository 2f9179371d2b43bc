/* exec/herd.h: the agent's hand on shepherds: start one, find those of an earlier agent, tell them things.
 * Owns: descriptors at their start, the lock that says "a shepherd lives". Leaves to others: what a step does
 * (StepOrder in the spool), what its end means. A shepherd belongs to no agent: losing the connection changes
 * nothing. */
#ifndef EXEC_HERD_H
#define EXEC_HERD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"

/* Starts PROGRAM for STEP of the attempt folder DIR, whose step_<s>.order is there already. STREAM_FD (or -1)
 * is srun's connection; it stays the caller's to close. On success *RET_CONTROL (non-blocking, close-on-exec)
 * is the control connection and *RET_PID a child of the caller. 0, MU_EBUSY when a shepherd has the step's
 * lock, MU_EIO. */
int exe_herd_start(const char *program, const char *dir, uint32_t step, int stream_fd, pid_t *ret_pid,
		   int *ret_control, struct mu_err *err);

/* Whether a shepherd of STEP lives. Then *RET_CONTROL is a connection to it, or -1 while it does not listen
 * yet (ask again). */
bool exe_herd_find(const char *dir, uint32_t step, int *ret_control);

/* Frames for the control connection (exec/shepherd.h), appended to OUT. */
void exe_herd_put_signal(struct mu_buf *out, uint32_t signal_number, bool tasks_only);
void exe_herd_put_end(struct mu_buf *out, uint32_t cause, uint32_t by_uid, bool at_once);
void exe_herd_put_limit(struct mu_buf *out, int64_t seconds); /* 0 or less: none */

#endif
