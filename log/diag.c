/* A line is built on the stack and leaves by one write(2) on a descriptor whose number never changes, so
 * nothing here takes a lock: a child between fork and exec may speak, and so may a crash handler. */
#include "log/diag.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "log/clock.h"
#include "proto/base/err.h"

enum { LINE_BYTES = 4096, FLAGS_MAX = 64, FRAMES_MAX = 64, CRASH_STACK = 64 * 1024 };

static const struct {
	const char *word;   /* as diag_level_parse takes it */
	const char *prefix; /* as a line shows it */
	int priority;	    /* of syslog */
} levels[] = {
    [DIAG_QUIET] = {"quiet", "", 2},	       [DIAG_FATAL] = {"fatal", "fatal: ", 2},
    [DIAG_ERROR] = {"error", "error: ", 3},    [DIAG_INFO] = {"info", "", 6},
    [DIAG_VERBOSE] = {"verbose", "", 6},       [DIAG_DEBUG] = {"debug", "debug: ", 7},
    [DIAG_DEBUG2] = {"debug2", "debug2: ", 7}, [DIAG_DEBUG3] = {"debug3", "debug3: ", 7},
    [DIAG_DEBUG4] = {"debug4", "debug4: ", 7}, [DIAG_DEBUG5] = {"debug5", "debug5: ", 7},
};
enum { LEVELS = sizeof levels / sizeof *levels };

/* The order is the bit; it is not stored anywhere. */
static const char *const flag_names[] = {
    "Accrue",	    "Agent",
    "AuditRPCs",    "Backfill",
    "BackfillMap",  "BurstBuffer",
    "Cgroup",	    "ConMgr",
    "CPU_Bind",	    "CpuFrequency",
    "Data",	    "DBD_Agent",
    "Dependency",   "Elasticsearch",
    "Energy",	    "Federation",
    "FrontEnd",	    "Gang",
    "GLOB_SILENCE", "Gres",
    "Hetjob",	    "JobAccountGather",
    "JobComp",	    "JobContainer",
    "License",	    "Network",
    "NetworkRaw",   "NodeFeatures",
    "NO_CONF_HASH", "Power",
    "Priority",	    "Profile",
    "Protocol",	    "Reservation",
    "Route",	    "Script",
    "SelectType",   "Steps",
    "Switch",	    "TLS",
    "TraceJobs",    "Triggers",
    "WorkQueue",    "Raft",
    "Wire",	    "View",
    "Snapshot",
};
enum { FLAGS = sizeof flag_names / sizeof *flag_names };
_Static_assert((int)FLAGS <= (int)FLAGS_MAX, "a flag is a bit of 64");

static const char *program = "muster";
static char path[PATH_MAX];
static atomic_int file_fd = -1;
static atomic_int to_stderr = 1, journal;
static atomic_int level_now = DIAG_INFO;
static atomic_ullong flags_now;

/* systemd names the socket that stderr is in JOURNAL_STREAM. */
static int stderr_is_journal(void)
{
	const char *text = getenv("JOURNAL_STREAM");
	struct stat st;
	unsigned long long dev, ino;
	return text && sscanf(text, "%llu:%llu", &dev, &ino) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
	       st.st_dev == (dev_t)dev && st.st_ino == (ino_t)ino;
}

static int open_file(void)
{
	return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);
}

int diag_open(const char *program_name, const char *file, enum diag_level level, int also_stderr)
{
	int fd = -1;
	if (file && strlen(file) >= sizeof path)
		return MU_EIO;
	program = program_name;
	diag_set_level(level);
	atomic_store(&journal, stderr_is_journal());
	path[0] = '\0';
	if (file) {
		memcpy(path, file, strlen(file) + 1);
		fd = open_file();
		if (fd < 0)
			return MU_EIO;
	}
	int old = atomic_exchange(&file_fd, fd);
	if (old >= 0)
		close(old);
	atomic_store(&to_stderr, !file || also_stderr);
	return 0;
}

int diag_reopen(void)
{
	int fd = atomic_load(&file_fd);
	if (fd < 0)
		return 0;
	int fresh = open_file();
	if (fresh < 0)
		return MU_EIO;
	int r = dup3(fresh, fd, O_CLOEXEC);
	close(fresh);
	return r < 0 ? MU_EIO : 0;
}

void diag_set_level(enum diag_level level)
{
	atomic_store(&level_now, (int)level);
}

enum diag_level diag_get_level(void)
{
	return (enum diag_level)atomic_load(&level_now);
}

int diag_level_parse(const char *word, enum diag_level *ret)
{
	for (int i = 0; i < (int)LEVELS; i++) {
		char digit[2] = {(char)('0' + i), '\0'};
		if (strcasecmp(word, levels[i].word) == 0 || strcmp(word, digit) == 0) {
			*ret = (enum diag_level)i;
			return 0;
		}
	}
	return MU_EINVAL;
}

static int flag_find(const char *name, size_t len)
{
	for (int i = 0; i < FLAGS; i++)
		if (strlen(flag_names[i]) == len && strncasecmp(flag_names[i], name, len) == 0)
			return i;
	return -1;
}

int diag_set_flags(const char *text)
{
	unsigned long long bits = atomic_load(&flags_now);
	if (*text != '+' && *text != '-')
		bits = 0;
	for (const char *p = text; *p;) {
		size_t len = strcspn(p, ",");
		int off = *p == '-', skip = *p == '+' || *p == '-';
		int bit = flag_find(p + skip, len - (size_t)skip);
		if (bit < 0)
			return MU_EINVAL;
		bits = off ? bits & ~(1ull << bit) : bits | 1ull << bit;
		p += len + (p[len] == ',');
	}
	atomic_store(&flags_now, bits);
	return 0;
}

const char *diag_level_word(enum diag_level level)
{
	return (unsigned)level < LEVELS ? levels[level].word : "?";
}

void diag_flags_print(char *out, size_t len)
{
	unsigned long long bits = atomic_load(&flags_now);
	size_t used = 0;

	*out = 0;
	for (int i = 0; i < FLAGS; i++) {
		size_t n = strlen(flag_names[i]) + (used > 0);

		if (!(bits >> i & 1) || used + n >= len)
			continue;
		(void)snprintf(out + used, len - used, "%s%s", used ? "," : "", flag_names[i]);
		used += n;
	}
}

int diag_flag(const char *name)
{
	int bit = flag_find(name, strlen(name));
	return bit >= 0 && (atomic_load(&flags_now) >> bit & 1);
}

/* One fact is one line: whatever a message quotes, its control characters do not start another. */
static void tame(char *line, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = line[i] == '\n' || line[i] == '\t' ? ' ' : '?';
}

static void put(int fd, const char *line, size_t len)
{
	while (len > 0) {
		ssize_t n = write(fd, line, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return; /* A full disk must not stop the program that would report it. */
		line += n;
		len -= (size_t)n;
	}
}

static size_t head_file(char *line, size_t cap)
{
	int64_t now = clock_wall_usec();
	time_t sec = (time_t)(now / 1000000);
	struct tm tm;
	localtime_r(&sec, &tm);
	size_t n = strftime(line, cap, "[%Y-%m-%dT%H:%M:%S", &tm);
	return n + (size_t)snprintf(line + n, cap - n, ".%03d] ", (int)(now / 1000 % 1000));
}

static void emit(int fd, int is_stderr, enum diag_level level, const char *format, va_list args)
{
	char line[LINE_BYTES];
	size_t n;
	if (!is_stderr)
		n = head_file(line, sizeof line);
	else if (atomic_load(&journal))
		n = (size_t)snprintf(line, sizeof line, "<%d>", levels[level].priority);
	else
		n = (size_t)snprintf(line, sizeof line, "%s: ", program);
	n += (size_t)snprintf(line + n, sizeof line - n, "%s", levels[level].prefix);
	size_t body = n;
	int more = vsnprintf(line + n, sizeof line - n, format, args);
	if (more < 0)
		return;
	n += (size_t)more;
	if (n > sizeof line - 2)
		n = sizeof line - 2;
	while (n > body && line[n - 1] == '\n')
		n--;
	tame(line + body, n - body);
	line[n++] = '\n';
	put(fd, line, n);
}

static void say(enum diag_level level, const char *format, va_list args)
{
	int keep = errno, fd = atomic_load(&file_fd);
	va_list again;
	if (fd >= 0) {
		va_copy(again, args);
		emit(fd, 0, level, format, again);
		va_end(again);
	}
	if (fd < 0 || atomic_load(&to_stderr)) {
		va_copy(again, args);
		emit(STDERR_FILENO, 1, level, format, again);
		va_end(again);
	}
	errno = keep;
}

void diag(enum diag_level level, const char *format, ...)
{
	if (level <= DIAG_QUIET || (int)level >= (int)LEVELS || (int)level > atomic_load(&level_now))
		return;
	va_list args;
	va_start(args, format);
	say(level, format, args);
	va_end(args);
}

void diag_fatal(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	say(DIAG_FATAL, format, args);
	va_end(args);
	_exit(1); /* No destructors: other threads still run, and what is acknowledged is on disk. */
}

static void crash_to(int fd, int sig, void *const *frames, int count)
{
	char line[64] = "fatal: signal ";
	size_t n = strlen(line);
	if (sig >= 10)
		line[n++] = (char)('0' + sig / 10);
	line[n++] = (char)('0' + sig % 10);
	line[n++] = '\n';
	put(fd, line, n);
	backtrace_symbols_fd(frames, count, fd);
}

static void on_crash(int sig)
{
	void *frames[FRAMES_MAX];
	int count = backtrace(frames, FRAMES_MAX), fd = atomic_load(&file_fd);
	if (fd >= 0)
		crash_to(fd, sig, frames, count);
	crash_to(STDERR_FILENO, sig, frames, count);
	raise(sig); /* SA_RESETHAND: the default action, with its core file. */
}

void diag_catch_crashes(void)
{
	static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
	static char stack[CRASH_STACK];
	void *warm[1];
	backtrace(warm, 1); /* Loads the unwinder while memory may still be allocated. */
	stack_t alt = {.ss_sp = stack, .ss_size = sizeof stack};
	sigaltstack(&alt, NULL);
	struct sigaction sa = {.sa_handler = on_crash, .sa_flags = SA_RESETHAND | SA_ONSTACK | SA_NODEFER};
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		sigaction(signals[i], &sa, NULL);
}
