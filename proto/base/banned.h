/* base/banned.h: calls that do not compile in this house, and what to use instead. The compiler reads it before every file (meson.build).
 *
 * Declares only what the C library declares itself, with an attribute that makes any use an error, and includes no header that would
 * lend a pure room names that it did not ask for. Add to it when a review teaches us something; tests/lint knows the same list. */
#ifndef PROTO_BASE_BANNED_H
#define PROTO_BASE_BANNED_H

#include <stdarg.h>
#include <stddef.h>
#include <sys/types.h>

#if defined(__has_attribute) && !defined(__cplusplus)
#if __has_attribute(unavailable)
#define MU__BANNED(instead) __attribute__((unavailable("banned: use " instead)))
#endif
#endif
#ifdef MU__BANNED

struct _IO_FILE;
struct passwd;
struct group;
struct tm;

/* Writes without knowing how much room there is. */
extern char *strcpy(char *restrict, const char *restrict) MU__BANNED("mu_buf or snprintf");
extern char *strcat(char *restrict, const char *restrict) MU__BANNED("mu_buf");
extern char *strncpy(char *restrict, const char *restrict, size_t) MU__BANNED("snprintf or memcpy: it may leave no end");
extern char *strncat(char *restrict, const char *restrict, size_t) MU__BANNED("mu_buf");
extern char *stpcpy(char *restrict, const char *restrict) MU__BANNED("mu_buf");
extern int sprintf(char *restrict, const char *restrict, ...) MU__BANNED("snprintf");
extern int vsprintf(char *restrict, const char *restrict, va_list) MU__BANNED("vsnprintf");

/* Cannot say that the text was no number. */
extern int atoi(const char *) MU__BANNED("strtol, or the vocabulary's parsers");
extern long atol(const char *) MU__BANNED("strtol, or the vocabulary's parsers");
extern long long atoll(const char *) MU__BANNED("strtoll, or the vocabulary's parsers");

/* One hidden state for the whole process. */
extern char *strtok(char *restrict, const char *restrict) MU__BANNED("strtok_r");
extern struct tm *localtime(const time_t *) MU__BANNED("localtime_r");
extern struct tm *gmtime(const time_t *) MU__BANNED("gmtime_r");
extern char *ctime(const time_t *) MU__BANNED("strftime");
extern char *asctime(const struct tm *) MU__BANNED("strftime");
extern struct passwd *getpwuid(uid_t) MU__BANNED("getpwuid_r");
extern struct passwd *getpwnam(const char *) MU__BANNED("getpwnam_r");
extern struct group *getgrgid(gid_t) MU__BANNED("getgrgid_r");
extern struct group *getgrnam(const char *) MU__BANNED("getgrnam_r");
extern int rand(void) MU__BANNED("proto/base/seed.h");
extern void srand(unsigned) MU__BANNED("proto/base/seed.h");
extern long random(void) MU__BANNED("proto/base/seed.h");

/* A shell, a race, or a name that somebody else may take first. */
extern int system(const char *) MU__BANNED("posix_spawn");
extern struct _IO_FILE *popen(const char *, const char *) MU__BANNED("posix_spawn and a pipe");
extern char *tmpnam(char *) MU__BANNED("mkostemp");
extern char *tempnam(const char *, const char *) MU__BANNED("mkostemp");
extern char *mktemp(char *) MU__BANNED("mkostemp");
extern int creat(const char *, mode_t) MU__BANNED("open with O_CLOEXEC");
/* What a handler's second run does differs between systems. */
extern void (*signal(int, void (*)(int)))(int) MU__BANNED("sigaction");

#endif
#endif
