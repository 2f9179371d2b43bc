/* log/fdpass.h: descriptors in a message over a Unix socket (SCM_RIGHTS).
 * Owns: the control message. Leaves to others: what the bytes mean, where one message ends (use
 * SOCK_SEQPACKET, or a length inside). */
#ifndef LOG_FDPASS_H
#define LOG_FDPASS_H

#include <stddef.h>

#include "proto/base/err.h"

enum { FDPASS_MAX = 8 };

/* Sends LEN > 0 bytes with FD_COUNT descriptors (which stay the caller's) on SOCK. Blocks if SOCK does. On a
 * stream the rest of a long message follows without descriptors. 0, MU_EIO, MU_ELIMIT (more than FDPASS_MAX).
 */
int fdpass_send(int sock, const void *data, size_t len, const int *fds, size_t fd_count, struct mu_err *err);

/* Receives up to CAP bytes and up to FD_CAP descriptors, which are the caller's from now on and
 * close-on-exec. *RET_LEN 0: the peer closed. *RET_COUNT tells how many came. More than fit are closed and
 * refused. 0, MU_EIO, MU_ENOTREADY (non-blocking SOCK has nothing), MU_EPROTO (cut message). */
int fdpass_receive(int sock, void *data, size_t cap, size_t *ret_len, int *fds, size_t fd_cap,
		   size_t *ret_count, struct mu_err *err);

#endif
