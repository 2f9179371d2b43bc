/* cli/people.c: users, groups, signals, times and lists as people write them. The only place of the commands
 * that asks the name service. */
#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "cli/cli.h"
#include "proto/states.h"

static int64_t zone_local(void *arg, struct tm *tm)
{
	return (int64_t)mktime(tm);
}

static void zone_breakdown(void *arg, int64_t sec, struct tm *ret_tm)
{
	time_t t = (time_t)sec;

	localtime_r(&t, ret_tm);
}

const struct mu_zone cli_zone = {zone_local, zone_breakdown, NULL};

int64_t cli_now_usec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

void cli_date_line(char *out, size_t cap)
{
	time_t t = (time_t)(cli_now_usec() / 1000000);
	struct tm tm;

	localtime_r(&t, &tm);
	strftime(out, cap, "%a %b %d %H:%M:%S %Y", &tm);
}

const char *cli_user_name(struct mu_arena *arena, uint32_t uid)
{
	struct passwd pw, *found = NULL;
	char buf[4096];

	if (getpwuid_r(uid, &pw, buf, sizeof buf, &found) == 0 && found)
		return mu_arena_strdup(arena, pw.pw_name);
	return mu_arena_printf(arena, "%u", uid);
}

const char *cli_group_name(struct mu_arena *arena, uint32_t gid)
{
	struct group gr, *found = NULL;
	char buf[16384];

	if (getgrgid_r(gid, &gr, buf, sizeof buf, &found) == 0 && found)
		return mu_arena_strdup(arena, gr.gr_name);
	return mu_arena_printf(arena, "%u", gid);
}

int cli_user_id(const char *text, uint32_t *ret_uid, struct mu_err *err)
{
	struct passwd pw, *found = NULL;
	char buf[4096], *end;
	unsigned long n;

	if (getpwnam_r(text, &pw, buf, sizeof buf, &found) == 0 && found) {
		*ret_uid = pw.pw_uid;
		return 0;
	}
	errno = 0;
	n = strtoul(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || n >= UINT32_MAX)
		return mu_fail(err, MU_EUSER, "Invalid user: %s", text);
	*ret_uid = (uint32_t)n;
	return 0;
}

int cli_group_id(const char *text, uint32_t *ret_gid, struct mu_err *err)
{
	struct group gr, *found = NULL;
	char buf[16384], *end;
	unsigned long n;

	if (getgrnam_r(text, &gr, buf, sizeof buf, &found) == 0 && found) {
		*ret_gid = gr.gr_gid;
		return 0;
	}
	errno = 0;
	n = strtoul(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || n >= UINT32_MAX)
		return mu_fail(err, MU_EINVAL, "Invalid group: %s", text);
	*ret_gid = (uint32_t)n;
	return 0;
}

int cli_signal_parse(const char *text, uint32_t *ret, struct mu_err *err)
{
	const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (isdigit((unsigned char)*text) && !*end && n >= 1 && n <= 64) {
		*ret = (uint32_t)n;
		return 0;
	}
	for (int i = 1; i < 32; i++) {
		const char *abbrev = sigabbrev_np(i);

		if (abbrev && strcasecmp(abbrev, name) == 0) {
			*ret = (uint32_t)i;
			return 0;
		}
	}
	return mu_fail(err, MU_EINVAL, "Unknown job signal: %s", text);
}

const char *cli_signal_name(int number)
{
	static _Thread_local char text[12];
	const char *abbrev = number > 0 && number < 32 ? sigabbrev_np(number) : NULL;

	if (abbrev)
		return abbrev;
	snprintf(text, sizeof text, "%d", number);
	return text;
}

char **cli_split(struct mu_arena *arena, const char *text, size_t *ret_count)
{
	size_t cap = 1, count = 0;
	char **list;

	for (const char *p = text; *p; p++)
		cap += *p == ',';
	list = mu_arena_alloc(arena, (cap + 1) * sizeof *list);
	for (const char *p = text; *p;) {
		size_t len = strcspn(p, ",");

		if (len)
			list[count++] = mu_arena_printf(arena, "%.*s", (int)len, p);
		p += len + (p[len] == ',');
	}
	*ret_count = count;
	return list;
}

static const char *read_u32(const char *p, uint32_t *ret)
{
	uint64_t n = 0;
	const char *start = p;

	while (isdigit((unsigned char)*p) && n <= UINT32_MAX)
		n = n * 10 + (uint64_t)(*p++ - '0');
	if (p == start || n > UINT32_MAX)
		return NULL;
	*ret = (uint32_t)n;
	return p;
}

static const char *read_step(const char *p, uint32_t *ret)
{
	if (strcmp(p, "batch") == 0) {
		*ret = MU_STEP_BATCH;
		return p + 5;
	}
	if (strcmp(p, "extern") == 0) {
		*ret = MU_STEP_EXTERN;
		return p + 6;
	}
	return read_u32(p, ret);
}

int cli_job_id_parse(struct mu_arena *arena, const char *text, struct cli_job_id *ret, struct mu_err *err)
{
	struct cli_job_id id = {0};
	const char *p = read_u32(text, &id.job);

	if (!p || id.job == 0)
		goto bad;
	if (*p == '_') {
		const char *end = *++p == '[' ? strchr(p, ']') : p + strspn(p, "0123456789");

		if (!end || end == p)
			goto bad;
		id.has_task = true;
		p += *p == '[';
		id.tasks = mu_arena_printf(arena, "%.*s", (int)(end - p), p);
		p = end + (*end == ']');
	} else if (*p == '+') {
		id.has_component = true;
		p = read_u32(p + 1, &id.component);
		if (!p)
			goto bad;
	}
	if (*p == '.') {
		id.has_step = true;
		p = read_step(p + 1, &id.step);
		if (!p)
			goto bad;
	}
	if (*p)
		goto bad;
	*ret = id;
	return 0;
bad:
	return mu_fail(err, MU_EJOBID, "Invalid job id %s", text);
}
