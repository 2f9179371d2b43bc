/* proto/units.c: text forms of spans, memory, counts and generic resources. See units.h. Dates are in
 * proto/date.c. */
#include "proto/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/base/arena.h"

/* Digits at *P as a number of at most MAX; -1 when there is none or it is larger. */
static int64_t take_number(const char **p, int64_t max)
{
	int64_t v = 0;
	if (**p < '0' || **p > '9')
		return -1;
	for (; **p >= '0' && **p <= '9'; (*p)++) {
		v = v * 10 + (**p - '0');
		if (v > max)
			return -1;
	}
	return v;
}

/* Largest span: 2^31 - 1 minutes, some 4,083 years. */
#define MAX_MINUTES INT64_C(2147483647)

/* Up to three numbers joined by colons; their count, or 0 for anything else. */
static int take_fields(const char *p, int64_t field[3])
{
	int n = 0;
	while (1) {
		field[n] = take_number(&p, MAX_MINUTES * 60);
		if (field[n] < 0)
			return 0;
		n++;
		if (!*p)
			return n;
		if (*p++ != ':' || n == 3)
			return 0;
	}
}

/* Seconds of one of the written forms, or -1. */
static int64_t span_seconds(const char *text)
{
	int64_t field[3], days = 0;
	const char *dash = strchr(text, '-');
	if (dash) {
		const char *p = text;
		days = take_number(&p, MAX_MINUTES / 1440);
		if (days < 0 || p != dash)
			return -1;
	}
	int n = take_fields(dash ? dash + 1 : text, field);
	if (!n)
		return -1;
	for (int i = n; i < 3; i++)
		field[i] = 0;
	if (dash) /* D-H[:M[:S]] */
		return days * 86400 + field[0] * 3600 + field[1] * 60 + field[2];
	if (n == 3)
		return field[0] * 3600 + field[1] * 60 + field[2];
	return field[0] * 60 + field[1]; /* M[:S] */
}

int mu_span_parse(const char *text, int64_t *ret_sec, struct mu_err *err)
{
	int rc = mu_pause_parse(text, ret_sec, err);
	if (!rc && *ret_sec != MU_UNLIMITED_SEC)
		*ret_sec = *ret_sec ? (*ret_sec + 59) / 60 * 60 : MU_UNLIMITED_SEC;
	return rc;
}

int mu_pause_parse(const char *text, int64_t *ret_sec, struct mu_err *err)
{
	if (!strcasecmp(text, "UNLIMITED") || !strcasecmp(text, "INFINITE") || !strcmp(text, "-1")) {
		*ret_sec = MU_UNLIMITED_SEC;
		return 0;
	}
	int64_t sec = span_seconds(text);
	if (sec < 0 || sec > MAX_MINUTES * 60)
		return mu_fail(err, MU_ETIMELIMIT,
			       "\"%.80s\" is no time limit; write minutes, minutes:seconds, "
			       "hours:minutes:seconds, days-hours, "
			       "days-hours:minutes, days-hours:minutes:seconds or UNLIMITED",
			       text);
	*ret_sec = sec;
	return 0;
}

void mu_span_print(int64_t sec, int short_form, char out[32])
{
	if (sec < 0) {
		snprintf(out, 32, "%s", sec == MU_UNLIMITED_SEC ? "UNLIMITED" : "INVALID");
		return;
	}
	long long d = sec / 86400, h = sec / 3600 % 24, m = sec / 60 % 60, s = sec % 60;
	if (d)
		snprintf(out, 32, "%lld-%02lld:%02lld:%02lld", d, h, m, s);
	else if (!short_form)
		snprintf(out, 32, "%02lld:%02lld:%02lld", h, m, s);
	else if (h)
		snprintf(out, 32, "%lld:%02lld:%02lld", h, m, s);
	else
		snprintf(out, 32, "%lld:%02lld", m, s);
}

int mu_mem_parse(const char *text, uint64_t *ret_mib, struct mu_err *err)
{
	static const char unit[] = "KMGTP";
	const char *p = text;
	int64_t n = take_number(&p, INT64_C(1) << 50);
	int power = 1; /* Of 1024, in KiB. */
	if (n >= 0 && *p) {
		const char *found = strchr(unit, *p >= 'a' ? *p - 'a' + 'A' : *p);
		if (!found)
			n = -1;
		else
			power = (int)(found - unit);
		p++;
		if (*p == 'B' || *p == 'b')
			p++;
		if (*p)
			n = -1;
	}
	/* 2^50 MiB is more than any machine has and keeps every sum of such amounts within 64 bits. */
	for (int i = 1; i < power && n >= 0; i++)
		n = n > (INT64_C(1) << 40) ? -1 : n * 1024;
	if (n < 0)
		return mu_fail(err, MU_EMEMORY,
			       "\"%.80s\" is no amount of memory; write a whole number with K, M, G or T "
			       "behind it (M when there is none)",
			       text);
	*ret_mib = power ? (uint64_t)n : ((uint64_t)n + 1023) / 1024;
	return 0;
}

void mu_mem_print(uint64_t mib, int noconvert, char out[24])
{
	static const char unit[] = "MGTP";
	int i = 0;
	if (!mib) {
		snprintf(out, 24, "0");
		return;
	}
	while (!noconvert && unit[i + 1] && mib % 1024 == 0) {
		mib /= 1024;
		i++;
	}
	snprintf(out, 24, "%llu%c", (unsigned long long)mib, unit[i]);
}

int mu_number_parse(const char *what, const char *text, int64_t min, int64_t max, int64_t *ret,
		    struct mu_err *err)
{
	const char *p = text;
	uint64_t v = 0, limit = (uint64_t)1 << 63;
	int negative = *p == '-', good = 1;
	if (*p == '-' || *p == '+')
		p++;
	if (*p < '0' || *p > '9')
		good = 0;
	for (; good && *p >= '0' && *p <= '9'; p++) {
		if (v > (limit - (uint64_t)(*p - '0')) / 10)
			good = 0;
		else
			v = v * 10 + (uint64_t)(*p - '0');
	}
	if (*p || (!negative && v >= limit))
		good = 0;
	int64_t n = !good ? 0 : negative ? (v == limit ? INT64_MIN : -(int64_t)v) : (int64_t)v;
	if (!good || n < min || n > max)
		return mu_fail(err, MU_EINVAL,
			       "%s is \"%.80s\", but must be a whole number from %lld to %lld", what, text,
			       (long long)min, (long long)max);
	*ret = n;
	return 0;
}

/* ---- generic resources ---- */

enum { MAX_GRES = 64, MAX_GRES_WORD = 64 };

static int is_word(const char *p, size_t len)
{
	if (!len || len > MAX_GRES_WORD || *p == '-' || *p == '+')
		return 0;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)p[i];
		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
		      c == '_' || c == '-' || c == '.' || c == '/' || c == '+'))
			return 0;
	}
	return 1;
}

/* "4", "2k": a count with a binary suffix; -1 for anything else. */
static int64_t gres_count(const char *p, size_t len)
{
	static const char unit[] = "KMGTP";
	const char *start = p;
	int64_t n = take_number(&p, INT64_C(1) << 40);
	if (n < 0)
		return -1;
	size_t used = (size_t)(p - start);
	if (used == len)
		return n;
	const char *found = used + 1 == len && *p ? strchr(unit, *p >= 'a' ? *p - 'a' + 'A' : *p) : NULL;
	if (!found)
		return -1;
	for (const char *u = unit; u <= found; u++)
		n = n > (INT64_C(1) << 40) ? -1 : n * 1024;
	return n < 0 ? -1 : n;
}

/* One item "name[:type][:count]" of LEN bytes. */
static int gres_item(const char *p, size_t len, const char **ret_type, size_t *ret_name_len,
		     size_t *ret_type_len, int64_t *ret_count)
{
	const char *end = p + len, *colon = memchr(p, ':', len);
	*ret_name_len = colon ? (size_t)(colon - p) : len;
	*ret_type = NULL;
	*ret_type_len = 0;
	*ret_count = 1;
	if (!is_word(p, *ret_name_len) || (*p >= '0' && *p <= '9'))
		return 0;
	if (!colon)
		return 1;
	const char *second = colon + 1;
	const char *next = memchr(second, ':', (size_t)(end - second));
	if (!next) {
		int64_t n = gres_count(second, (size_t)(end - second));
		if (n >= 0) {
			*ret_count = n;
			return 1;
		}
		next = end;
	} else {
		*ret_count = gres_count(next + 1, (size_t)(end - next - 1));
		if (*ret_count < 0)
			return 0;
	}
	*ret_type = second;
	*ret_type_len = (size_t)(next - second);
	/* Digits alone are a count that is too large, not a type. */
	return is_word(second, *ret_type_len) && strspn(second, "0123456789") < *ret_type_len;
}

static Mu__GresAsk *gres_find(Mu__GresAsk **list, size_t count, const Mu__GresAsk *ask)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(list[i]->name, ask->name) &&
		    !strcmp(list[i]->type ? list[i]->type : "", ask->type ? ask->type : ""))
			return list[i];
	return NULL;
}

static char *copy_word(struct mu_arena *arena, const char *p, size_t len)
{
	char *word = mu_arena_alloc(arena, len + 1);
	memcpy(word, p, len);
	return word;
}

int mu_gres_parse(const char *text, struct mu_arena *arena, Mu__GresAsk ***ret, size_t *ret_count,
		  struct mu_err *err)
{
	Mu__GresAsk **list = mu_arena_alloc(arena, MAX_GRES * sizeof(*list));
	size_t count = 0;
	if (!strcasecmp(text, "none")) {
		*ret = list;
		*ret_count = 0;
		return 0;
	}
	for (const char *p = text;;) {
		size_t len = strcspn(p, ","), name_len, type_len;
		const char *item = p, *type;
		int64_t n;
		if (len > 5 && !strncasecmp(item, "gres", 4) && (item[4] == ':' || item[4] == '/')) {
			item += 5;
			len -= 5;
		}
		if (!gres_item(item, len, &type, &name_len, &type_len, &n))
			return mu_fail(err, MU_EGRES,
				       "\"%.80s\" is no list of generic resources; write name, name:count or "
				       "name:type:count, joined by commas",
				       text);
		Mu__GresAsk *ask = mu_arena_alloc(arena, sizeof(*ask));
		mu__gres_ask__init(ask);
		ask->name = copy_word(arena, item, name_len);
		ask->type = type ? copy_word(arena, type, type_len) : NULL;
		ask->has_count = 1;
		ask->count = (uint64_t)n;
		Mu__GresAsk *same = gres_find(list, count, ask);
		if (same)
			same->count += ask->count;
		else if (count == MAX_GRES)
			return mu_fail(err, MU_EGRES,
				       "a list of generic resources has more than %d different ones",
				       MAX_GRES);
		else
			list[count++] = ask;
		p = item + len;
		if (!*p)
			break;
		p++;
	}
	*ret = list;
	*ret_count = count;
	return 0;
}

int mu_login_parse(const char *text, struct mu_login *ret, struct mu_err *err)
{
	char *end = (char *)text;
	unsigned long sec = 8;

	if (*text >= '0' && *text <= '9')
		sec = strtoul(text, &end, 10);
	ret->plain = *end == 'S';
	end += *end == 'S' || *end == 'L';
	ret->sec = (uint32_t)sec;
	return *end || sec < 1 || sec > 3600
		   ? mu_fail(
			 err, MU_EINVAL,
			 "Invalid --get-user-env specification: \"%s\" ([SECONDS][S|L], up to 3600 seconds)",
			 text)
		   : 0;
}
