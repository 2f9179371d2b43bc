/* Users and groups by the host's name service, with a small memory so that a burst of one user's jobs asks
 * once. */
#include <errno.h>
#include <grp.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/auth.h"
#include "log/clock.h"

enum { CACHED_MAX = 256, FRESH_SEC = 10, SCRATCH_FIRST = 4096, SCRATCH_MOST = 4 << 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	uint32_t uid;
	int64_t until_usec; /* 0: empty */
	struct auth_user user;
} cache[CACHED_MAX]; /* one place for each uid modulo its size: a collision costs a look-up */

static int find_user(uint32_t uid, struct auth_user *u, struct mu_buf *scratch, struct mu_err *err)
{
	struct passwd pw, *found = NULL;
	int r;
	mu_buf_grow(scratch, SCRATCH_FIRST);
	while ((r = getpwuid_r(uid, &pw, (char *)scratch->data, scratch->len, &found)) == ERANGE &&
	       scratch->len < SCRATCH_MOST)
		mu_buf_grow(scratch, scratch->len);
	if (r)
		return mu_fail(err, MU_EIO, "cannot look up uid %u: %s", uid, strerror(r));
	if (!found || strlen(pw.pw_name) >= sizeof u->user)
		return mu_fail(err, MU_EUSER, "uid %u has no name on this host", uid);
	snprintf(u->user, sizeof u->user, "%s", pw.pw_name);
	u->gid = pw.pw_gid;
	return 0;
}

static void find_group(struct auth_user *u, struct mu_buf *scratch)
{
	struct group gr, *found = NULL;
	int r;
	while ((r = getgrgid_r(u->gid, &gr, (char *)scratch->data, scratch->len, &found)) == ERANGE &&
	       scratch->len < SCRATCH_MOST)
		mu_buf_grow(scratch, scratch->len);
	if (r == 0 && found && strlen(gr.gr_name) < sizeof u->group)
		snprintf(u->group, sizeof u->group, "%s", gr.gr_name);
	else
		snprintf(u->group, sizeof u->group, "%u", u->gid);
}

int auth_user_lookup(uint32_t uid, struct auth_user *ret, struct mu_err *err)
{
	size_t at = uid % CACHED_MAX;
	int64_t now = clock_mono_usec();
	pthread_mutex_lock(&lock);
	bool hit = cache[at].uid == uid && cache[at].until_usec > now;
	if (hit)
		*ret = cache[at].user;
	pthread_mutex_unlock(&lock);
	if (hit)
		return 0;
	struct auth_user u = {0};
	struct mu_buf scratch = {0};
	int code = find_user(uid, &u, &scratch, err);
	if (!code)
		find_group(&u, &scratch);
	mu_buf_free(&scratch);
	if (code)
		return code;
	gid_t groups[AUTH_GROUPS_MAX];
	int n = AUTH_GROUPS_MAX;
	getgrouplist(u.user, u.gid, groups, &n);
	u.group_count = n < AUTH_GROUPS_MAX ? (unsigned)n : AUTH_GROUPS_MAX;
	for (unsigned i = 0; i < u.group_count; i++)
		u.groups[i] = groups[i];
	pthread_mutex_lock(&lock);
	cache[at].uid = uid;
	cache[at].until_usec = now + FRESH_SEC * INT64_C(1000000);
	cache[at].user = u;
	pthread_mutex_unlock(&lock);
	*ret = u;
	return 0;
}
