/* proto/units.h: text forms of times, spans, memory, counts. Pure: "now" and the zone's offset rule come from the caller. */
#ifndef PROTO_UNITS_H
#define PROTO_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "proto/base/err.h"
#include "proto/spec.pb-c.h"

#define MU_UNLIMITED_SEC (-1)

/* --time: minutes, M:S, H:M:S, D-H, D-H:M, D-H:M:S, UNLIMITED, INFINITE, 0 and -1 (both unlimited). Seconds round up to whole
 * minutes. 0 or MU_ETIMELIMIT. Result in seconds or MU_UNLIMITED_SEC. */
int mu_span_parse(const char *text, int64_t *ret_sec, struct mu_err *err);
/* The same forms for a pause, such as PreemptExemptTime: to the second, and 0 is none. */
int mu_pause_parse(const char *text, int64_t *ret_sec, struct mu_err *err);
/* "[D-]HH:MM:SS" (scontrol, sacct) or, with SHORT, squeue's form with leading parts dropped ("0:03", "1:00:00", "1-00:00:00");
 * UNLIMITED for -1. OUT has 32 bytes. */
void mu_span_print(int64_t sec, int short_form, char out[32]);

/* Dates as people write them: now, now+600, now+1hour, now-2days, today, yesterday, tomorrow, midnight, noon, teatime, elevenses,
 * HH:MM[:SS][AM|PM], MMDD[YY], MM/DD[/YY], MM.DD[.YY], YYYY-MM-DD[THH:MM[:SS]], the same with a dash or blank before the time,
 * "yesterday 15:00", "noon-tomorrow", "-3days", and today+2days. A date without a year is this year's, with FUTURE the next one that comes. LOCAL turns a broken-down local time into seconds (mktime) and BREAK the reverse (localtime_r); a
 * time that falls into a daylight-saving gap moves on. With FUTURE a bare HH:MM that has passed means tomorrow (--begin).
 * 0 or MU_ESYNTAX. */
struct mu_zone {
	int64_t (*local)(void *arg, struct tm *tm);
	void (*breakdown)(void *arg, int64_t sec, struct tm *ret_tm);
	void *arg;
};
int mu_date_parse(const char *text, int64_t now_usec, int future, const struct mu_zone *zone, int64_t *ret_usec, struct mu_err *err);
/* "2026-10-01T15:00:00"; "Unknown" for 0. OUT has 32 bytes. */
void mu_date_print(int64_t usec, const struct mu_zone *zone, char out[32]);

/* Memory: number with optional K M G T (P) and optional B, default unit M. Result in MiB, rounded up. 0 or MU_EMEMORY. */
int mu_mem_parse(const char *text, uint64_t *ret_mib, struct mu_err *err);
/* Slurm's "4G", "1500M": the largest unit that keeps it whole unless NOCONVERT. OUT has 24 bytes. */
void mu_mem_print(uint64_t mib, int noconvert, char out[24]);

/* Whole number within [MIN, MAX] and nothing behind it. 0 or MU_EINVAL. */
int mu_number_parse(const char *what, const char *text, int64_t min, int64_t max, int64_t *ret, struct mu_err *err);

/* "gpu:2", "gpu:a100:1,gpu:h100:1", "gpu" (one), "none" (an empty list): a list in ARENA; the same name and type twice add up. 0 or MU_EGRES. */
struct mu_arena;
int mu_gres_parse(const char *text, struct mu_arena *arena, Mu__GresAsk ***ret, size_t *ret_count, struct mu_err *err);

/* --get-user-env: "10L". Nothing, a count of seconds up to 3600 (8 when left out), and S or L. */
struct mu_login {
	uint32_t sec;
	bool plain; /* S: su without a login */
};
int mu_login_parse(const char *text, struct mu_login *ret, struct mu_err *err);

#endif
