/* proto/signals.c: signal names. See signals.h. */
#include "proto/signals.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "proto/units.h"

enum { MAX_SIGNAL = 64, DEFAULT_BEFORE_SEC = 60, MAX_BEFORE_SEC = 65535 };

static const struct {
	const char *name;
	uint32_t number;
} names[] = {
    {"HUP", SIGHUP},	   {"INT", SIGINT},   {"QUIT", SIGQUIT},   {"ILL", SIGILL},   {"TRAP", SIGTRAP},
    {"ABRT", SIGABRT},	   {"BUS", SIGBUS},   {"FPE", SIGFPE},	   {"KILL", SIGKILL}, {"USR1", SIGUSR1},
    {"SEGV", SIGSEGV},	   {"USR2", SIGUSR2}, {"PIPE", SIGPIPE},   {"ALRM", SIGALRM}, {"TERM", SIGTERM},
    {"STKFLT", SIGSTKFLT}, {"CHLD", SIGCHLD}, {"CONT", SIGCONT},   {"STOP", SIGSTOP}, {"TSTP", SIGTSTP},
    {"TTIN", SIGTTIN},	   {"TTOU", SIGTTOU}, {"URG", SIGURG},	   {"XCPU", SIGXCPU}, {"XFSZ", SIGXFSZ},
    {"VTALRM", SIGVTALRM}, {"PROF", SIGPROF}, {"WINCH", SIGWINCH}, {"IO", SIGIO},     {"PWR", SIGPWR},
    {"SYS", SIGSYS},	   {"IOT", SIGABRT},  {"POLL", SIGIO},	   {"CLD", SIGCHLD},
};

const char *mu_signal_name(uint32_t signal)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].number == signal)
			return names[i].name;
	return NULL;
}

int mu_signal_parse(const char *text, uint32_t *ret_signal, struct mu_err *err)
{
	const char *word = strncasecmp(text, "SIG", 3) ? text : text + 3;
	int64_t n;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcasecmp(names[i].name, word)) {
			*ret_signal = names[i].number;
			return 0;
		}
	if (*text >= '0' && *text <= '9' && !mu_number_parse("", text, 1, MAX_SIGNAL, &n, NULL)) {
		*ret_signal = (uint32_t)n;
		return 0;
	}
	return mu_fail(
	    err, MU_EINVAL,
	    "\"%.40s\" is no signal; write a name such as USR1 or SIGTERM, or a number from 1 to %d", text,
	    MAX_SIGNAL);
}

int mu_signal_option_parse(const char *text, uint32_t *ret_signal, uint32_t *ret_before_sec, int *ret_batch,
			   struct mu_err *err)
{
	char word[24];
	const char *p = text;
	int batch = 0;
	uint32_t signal;
	int64_t before = DEFAULT_BEFORE_SEC;
	for (; (*p == 'B' || *p == 'R' || *p == 'b' || *p == 'r') &&
	       (p[1] == ':' || ((p[1] | 32) == 'b' && p[2] == ':') || ((p[1] | 32) == 'r' && p[2] == ':'));) {
		batch |= *p == 'B' || *p == 'b';
		p += p[1] == ':' ? 2 : 1;
	}
	size_t len = strcspn(p, "@");
	if (!len || len >= sizeof(word))
		return mu_fail(err, MU_EINVAL, "\"%.40s\" is no early signal; write [B:]SIGNAL[@SECONDS]",
			       text);
	memcpy(word, p, len);
	word[len] = 0;
	int rc = mu_signal_parse(word, &signal, err);
	if (!rc && p[len])
		rc = mu_number_parse("the time before the limit", p + len + 1, 0, MAX_BEFORE_SEC, &before,
				     err);
	if (rc)
		return rc;
	*ret_signal = signal;
	*ret_before_sec = (uint32_t)before;
	*ret_batch = batch;
	return 0;
}

void mu_exit_print(int32_t code, int32_t signal, char out[24])
{
	snprintf(out, 24, "%d:%d", (int)code, (int)signal);
}
