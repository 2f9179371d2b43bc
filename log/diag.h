/* log/diag.h: what programs print about themselves. One line per fact. Thread-safe.
 * Owns: destination (stderr, file, syslog/journald), level, debug flags. SIGHUP: the owner calls diag_reopen.
 */
#ifndef LOG_DIAG_H
#define LOG_DIAG_H

#include <stddef.h>
#include <stdint.h>

enum diag_level {
	DIAG_QUIET,
	DIAG_FATAL,
	DIAG_ERROR,
	DIAG_INFO,
	DIAG_VERBOSE,
	DIAG_DEBUG,
	DIAG_DEBUG2,
	DIAG_DEBUG3,
	DIAG_DEBUG4,
	DIAG_DEBUG5
};

/* PROGRAM is borrowed for ever. FILE NULL: stderr only (and journald when started by systemd: priority
 * prefixes "<3>"). 0 or MU_EIO. */
int diag_open(const char *program, const char *file, enum diag_level level, int also_stderr);
int diag_reopen(void);
void diag_set_level(enum diag_level level);
enum diag_level diag_get_level(void);
int diag_level_parse(const char *word, enum diag_level *ret); /* "info", "debug2", "3" ...; 0 or MU_EINVAL */
/* Debug flags by Slurm's names (Agent, Backfill, Steps ...) and our own (Raft, Wire). "+X", "-X" or "X,Y". 0
 * or MU_EINVAL. */
int diag_set_flags(const char *text);
int diag_flag(const char *name);
/* The level's word, and the names of the flags that are set, "A,B" (cut to LEN bytes; empty: none). */
const char *diag_level_word(enum diag_level level);
void diag_flags_print(char *out, size_t len);

void diag(enum diag_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define diag_error(...) diag(DIAG_ERROR, __VA_ARGS__)
#define diag_info(...) diag(DIAG_INFO, __VA_ARGS__)
#define diag_debug(...) diag(DIAG_DEBUG, __VA_ARGS__)
/* Says why and ends the process with exit code 1; a supervisor restarts it. */
void diag_fatal(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* Fatal-signal handler prints a backtrace line per frame; call once. */
void diag_catch_crashes(void);

#endif
