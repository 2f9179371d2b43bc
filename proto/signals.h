/* proto/signals.h: signals by name and number, and exit codes as people read them. Pure. */
#ifndef PROTO_SIGNALS_H
#define PROTO_SIGNALS_H

#include <stdint.h>

#include "proto/base/err.h"

/* To whom of a job a signal goes: with neither of the first two to its steps alone. */
enum { MU_SIGNAL_BATCH_ONLY = 1, MU_SIGNAL_FULL = 2, MU_SIGNAL_CONTINUE = 4 /* SIGCONT goes before it */ };

/* "USR1", "SIGUSR1", "10", case-blind; numbers 1 to 64. 0 or MU_EINVAL with a sentence. */
int mu_signal_parse(const char *text, uint32_t *ret_signal, struct mu_err *err);

/* "USR1" for 10; NULL for a number without a name (real-time signals). Static. */
const char *mu_signal_name(uint32_t signal);

/* --signal's value "[R|B:]SIG[@SECONDS]"; without @ the seconds are 60, at most 65535. R: is read and means what its absence means
 * (reservations send no signals). 0 or MU_EINVAL. */
int mu_signal_option_parse(const char *text, uint32_t *ret_signal, uint32_t *ret_before_sec, int *ret_batch, struct mu_err *err);

/* "3:0", "0:9": the code and the signal kept apart. OUT has 24 bytes. */
void mu_exit_print(int32_t code, int32_t signal, char out[24]);

#endif
