/* proto/date.c: dates as people write them. See units.h. A text is a date part and a time part, each at most
 * once and in any order, or "now" and an offset. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "proto/units.h"

#define DAY_SEC INT64_C(86400)
#define MAX_COUNT INT64_C(1000000000)

struct date {
	const char *p; /* What is still to be read. */
	int has_now, has_day, has_year, has_time, has_offset;
	int day_shift; /* -1 yesterday, 1 tomorrow. */
	int named_day; /* The day came as a word. */
	int year, month, day;
	int hour, minute, second;
	int64_t offset_sec;
};

static const struct {
	const char *word;
	char kind; /* n now, d day, t time */
	int value; /* Shift of days, or hour. */
} words[] = {
    {"now", 'n', 0},	    {"today", 'd', 0},	  {"tomorrow", 'd', 1},
    {"yesterday", 'd', -1}, {"midnight", 't', 0}, {"elevenses", 't', 11},
    {"noon", 't', 12},	    {"fika", 't', 15},	  {"teatime", 't', 16},
};

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static int is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static size_t digits_at(const char *p)
{
	size_t n = 0;
	while (is_digit(p[n]))
		n++;
	return n;
}

/* LEN digits at P as a number; LEN is at most 9. */
static int number_of(const char *p, size_t len)
{
	int v = 0;
	for (size_t i = 0; i < len; i++)
		v = v * 10 + (p[i] - '0');
	return v;
}

/* Reads one to MAX digits. */
static int take(struct date *d, size_t max, int *ret)
{
	size_t n = digits_at(d->p);
	if (!n || n > max)
		return 0;
	*ret = number_of(d->p, n);
	d->p += n;
	return 1;
}

static int set_day(struct date *d, int year, int month, int day)
{
	static const int length[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	if (d->has_day || d->has_now || month < 1 || month > 12 || day < 1 || day > length[month - 1])
		return 0;
	if (year >= 0 && month == 2 && day == 29 && (year % 4 || (year % 100 == 0 && year % 400)))
		return 0;
	d->has_day = 1;
	d->has_year = year >= 0;
	d->year = year;
	d->month = month;
	d->day = day;
	return 1;
}

/* Two digits of a year mean this century. */
static int full_year(int year, size_t digits)
{
	return digits <= 2 ? 2000 + year : year;
}

/* [+-]COUNT[UNIT] behind "now" and the like. */
static int read_offset(struct date *d)
{
	static const struct {
		const char *word;
		int64_t sec;
	} unit[] = {
	    {"seconds", 1}, {"minutes", 60}, {"hours", 3600}, {"days", DAY_SEC}, {"weeks", 7 * DAY_SEC}};
	int sign = *d->p++ == '-' ? -1 : 1, count;
	if (d->has_offset || !take(d, 9, &count))
		return 0;
	while (*d->p == ' ')
		d->p++;
	size_t len = 0;
	while (is_letter(d->p[len]))
		len++;
	int64_t sec = len ? 0 : 1;
	for (size_t i = 0; i < sizeof(unit) / sizeof(unit[0]) && len; i++)
		if (len <= strlen(unit[i].word) && !strncasecmp(d->p, unit[i].word, len))
			sec = sec ? sec : unit[i].sec;
	if (!sec)
		return 0;
	d->p += len;
	d->has_offset = 1;
	d->offset_sec = sign * (int64_t)count * sec;
	return 1;
}

static int read_word(struct date *d)
{
	size_t len = 0;
	while (is_letter(d->p[len]))
		len++;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strlen(words[i].word) != len || strncasecmp(d->p, words[i].word, len))
			continue;
		d->p += len;
		if (words[i].kind == 't') {
			if (d->has_time || d->has_now)
				return 0;
			d->has_time = 1;
			d->hour = words[i].value;
		} else {
			if (d->has_day || d->has_now || (words[i].kind == 'n' && d->has_time))
				return 0;
			d->has_now = words[i].kind == 'n';
			d->has_day = d->named_day = !d->has_now;
			d->day_shift = words[i].value;
		}
		/* A dash starts an offset unless a time of day follows it. */
		if (*d->p == '+' ||
		    (*d->p == '-' && is_digit(d->p[1]) && d->p[1 + digits_at(d->p + 1)] != ':' &&
		     d->p[1 + digits_at(d->p + 1)] != '/' && words[i].kind != 't'))
			return read_offset(d);
		return 1;
	}
	return 0;
}

/* HH:MM[:SS][ ][AM|PM] */
static int read_time(struct date *d)
{
	if (d->has_time || d->has_now || !take(d, 2, &d->hour) || *d->p++ != ':' || !take(d, 2, &d->minute))
		return 0;
	if (*d->p == ':') {
		d->p++;
		if (!take(d, 2, &d->second))
			return 0;
	}
	const char *half = d->p;
	while (*half == ' ')
		half++;
	if ((!strncasecmp(half, "am", 2) || !strncasecmp(half, "pm", 2)) && !is_letter(half[2])) {
		if (d->hour < 1 || d->hour > 12)
			return 0;
		d->hour = d->hour % 12 + (*half == 'p' || *half == 'P' ? 12 : 0);
		d->p = half + 2;
	}
	d->has_time = 1;
	return d->hour < 24 && d->minute < 60 && d->second < 60;
}

/* MM/DD[/YY[YY]] and MM.DD[.YY[YY]] */
static int read_slashed(struct date *d, char between)
{
	int month, day, year = -1;
	if (!take(d, 2, &month) || *d->p++ != between || !take(d, 2, &day))
		return 0;
	if (*d->p == between) {
		d->p++;
		size_t digits = digits_at(d->p);
		if (!take(d, 4, &year) || digits == 1 || digits == 3)
			return 0;
		year = full_year(year, digits);
	}
	return set_day(d, year, month, day);
}

static int read_digits(struct date *d)
{
	size_t n = digits_at(d->p);
	char next = d->p[n];
	int year, month, day;
	if (next == ':')
		return read_time(d);
	if (next == '/' || next == '.')
		return read_slashed(d, next);
	if (n == 4 && next == '-' && is_digit(d->p[5]) &&
	    (d->p[6] == '-' || (is_digit(d->p[6]) && d->p[7] == '-'))) {
		take(d, 4, &year);
		d->p++;
		take(d, 2, &month);
		d->p++;
		return take(d, 2, &day) && set_day(d, year, month, day);
	}
	if (n != 4 && n != 6)
		return 0;
	month = number_of(d->p, 2);
	day = number_of(d->p + 2, 2);
	year = n == 6 ? full_year(number_of(d->p + 4, 2), 2) : -1;
	d->p += n;
	return set_day(d, year, month, day);
}

static int read_date(struct date *d)
{
	while (*d->p == ' ')
		d->p++;
	if (*d->p == '+' || *d->p == '-') {
		d->has_now = 1;
		if (!read_offset(d))
			return 0;
	}
	int parts = d->has_now;
	while (*d->p) {
		const char *before = d->p;
		while (*d->p == ' ')
			d->p++;
		if (!*d->p)
			break;
		if (parts && *d->p == '-')
			d->p++;
		else if (parts && (*d->p == 'T' || *d->p == 't') && is_digit(d->p[1]))
			d->p++;
		else if (parts && d->p == before)
			return 0; /* Nothing stands between two parts. */
		if (!(is_digit(*d->p) ? read_digits(d) : read_word(d)))
			return 0;
		parts++;
	}
	return parts > 0;
}

/* Days since 1970 of a date, so that broken-down times can be compared as numbers. */
static int64_t day_number(int64_t year, int month, int day)
{
	year -= month <= 2;
	int64_t era = (year >= 0 ? year : year - 399) / 400, in_era = year - era * 400;
	int64_t in_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
	return era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + in_year - 719468;
}

static int64_t naive_seconds(const struct tm *tm)
{
	return day_number(tm->tm_year + 1900, tm->tm_mon + 1, tm->tm_mday) * DAY_SEC + tm->tm_hour * 3600 +
	       tm->tm_min * 60 + tm->tm_sec;
}

/* Seconds of the local time in TM, whose day of the month may lie outside the month. */
static int64_t to_seconds(const struct mu_zone *zone, const struct tm *tm)
{
	struct tm asked = *tm, got;
	asked.tm_isdst = -1;
	int64_t sec = zone->local(zone->arg, &asked);
	zone->breakdown(zone->arg, sec, &got);
	int64_t delta = naive_seconds(&got) - naive_seconds(tm);
	return delta < 0 ? sec - delta : sec; /* An hour that does not exist moves on, never back. */
}

static int64_t resolve(const struct date *d, int64_t now_sec, int future, const struct mu_zone *zone)
{
	if (d->has_now)
		return now_sec + d->offset_sec;
	struct tm tm;
	zone->breakdown(zone->arg, now_sec, &tm);
	tm.tm_hour = d->hour;
	tm.tm_min = d->minute;
	tm.tm_sec = d->second;
	if (d->has_day && !d->named_day) {
		tm.tm_mon = d->month - 1;
		tm.tm_mday = d->day;
		if (d->has_year)
			tm.tm_year = d->year - 1900;
	}
	tm.tm_mday += d->day_shift;
	int64_t sec = to_seconds(zone, &tm);
	if (future && sec < now_sec && !d->has_day) {
		tm.tm_mday++;
		sec = to_seconds(zone, &tm);
	} else if (future && d->has_day && !d->named_day && !d->has_year && sec < now_sec) {
		struct tm today;
		zone->breakdown(zone->arg, now_sec, &today);
		if (tm.tm_mon != today.tm_mon || tm.tm_mday != today.tm_mday)
			tm.tm_year++;
		sec = to_seconds(zone, &tm);
	}
	return sec + d->offset_sec;
}

int mu_date_parse(const char *text, int64_t now_usec, int future, const struct mu_zone *zone,
		  int64_t *ret_usec, struct mu_err *err)
{
	struct date d = {.p = text};
	if (!read_date(&d))
		return mu_fail(err, MU_ESYNTAX,
			       "\"%.80s\" is no time; write YYYY-MM-DD[THH:MM[:SS]], MM/DD[/YY], HH:MM[:SS], "
			       "now, today, tomorrow, noon or "
			       "now+COUNT[seconds|minutes|hours|days|weeks]",
			       text);
	*ret_usec = resolve(&d, now_usec / 1000000, future, zone) * 1000000;
	return 0;
}

void mu_date_print(int64_t usec, const struct mu_zone *zone, char out[32])
{
	struct tm tm;
	if (!usec) {
		snprintf(out, 32, "Unknown");
		return;
	}
	zone->breakdown(zone->arg, usec / 1000000, &tm);
	snprintf(out, 32, "%04u-%02u-%02uT%02u:%02u:%02u", (unsigned)(tm.tm_year + 1900) % 10000,
		 (unsigned)(tm.tm_mon + 1) % 100, (unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100,
		 (unsigned)tm.tm_min % 100, (unsigned)tm.tm_sec % 100);
}
