/* ctld/clock.c: the time that entries carry: never backwards, never frozen, at most 5 s ahead of the controllers' median.
 * A controller whose own clock is off by more neither leads nor stamps by it, and says so. */
#include "log/ctld/ctld.h"

#include <stdlib.h>
#include <string.h>

#include "log/diag.h"
#include "proto/base/map.h"
#include "proto/version.h"

enum { CLOCK_AHEAD_USEC = 5000000, CLOCK_EVERY_MSEC = 500, CLOCK_FRESH_MSEC = 5000 };

struct ctl_peer *ctl_peer_of(struct ctl *c, uint64_t id)
{
	struct ctl_peer *oldest = &c->peer[0];

	for (unsigned i = 0; i < c->peers; i++) {
		if (c->peer[i].id == id)
			return &c->peer[i];
		if (c->peer[i].heard_msec < oldest->heard_msec)
			oldest = &c->peer[i];
	}
	if (c->peers < LOG_MEMBERS_MAX)
		oldest = &c->peer[c->peers++];
	memset(oldest, 0, sizeof *oldest);
	oldest->id = id;
	return oldest;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* Kept against the monotonic clock: when our own clock jumps the others' offsets are right at once. */
int64_t ctl_peer_offset_usec(const struct ctl_peer *p, int64_t wall_usec)
{
	return p->ahead_usec + ctl_mono_usec() - wall_usec;
}

/* What must be added to our wall clock to reach the median of the controllers heard lately, ourselves included. */
static int64_t median_offset(const struct ctl *c, unsigned *ret_heard)
{
	int64_t off[LOG_MEMBERS_MAX + 1], now = ctl_mono_msec();
	unsigned n = 0;

	off[n++] = 0;
	for (unsigned i = 0; i < c->peers; i++)
		if (now - c->peer[i].heard_msec < CLOCK_FRESH_MSEC)
			off[n++] = ctl_peer_offset_usec(&c->peer[i], ctl_wall_usec(c));
	qsort(off, n, sizeof off[0], by_value);
	*ret_heard = n;
	if (n == 2) /* of two, neither can be called wrong: the slower one is followed, within reach of both */
		return off[0];
	return off[n / 2];
}

int64_t ctl_stamp(struct ctl *c)
{
	int64_t mono = ctl_mono_usec(), wall = ctl_wall_usec(c), last = sch_now_usec(c->st);
	int64_t target, passed;
	unsigned heard;

	target = wall + median_offset(c, &heard);
	if (!c->clock_bad)
		target = wall < target + CLOCK_AHEAD_USEC ? wall : target + CLOCK_AHEAD_USEC;
	passed = c->clock_mono_usec ? mono - c->clock_mono_usec : 0;
	if (c->clock_base_usec < last)
		c->clock_base_usec = last;
	/* When the clock says less than what was stamped, time goes on at half speed until it is caught up: never back, never frozen. */
	if (target < c->clock_base_usec + passed / 2)
		target = c->clock_base_usec + passed / 2;
	c->clock_base_usec = target;
	c->clock_mono_usec = mono;
	return target;
}

bool ctl_peer_clock_good(const struct ctl *c, const struct ctl_peer *p)
{
	unsigned heard;
	int64_t d = ctl_peer_offset_usec(p, ctl_wall_usec(c)) - median_offset(c, &heard);

	return heard < 3 || llabs(d) <= CLOCK_AHEAD_USEC;
}

static void judge(struct ctl *c)
{
	unsigned heard;
	int64_t off = median_offset(c, &heard);
	bool bad = heard >= 3 && (off > CLOCK_AHEAD_USEC || off < -CLOCK_AHEAD_USEC);

	if (bad && !c->clock_bad)
		diag_error("The clock of controller %s is %lld s %s the median of the controllers; it neither leads nor stamps until that is put right.",
			   c->opt.name, (long long)(llabs(off) / 1000000), off < 0 ? "ahead of" : "behind");
	if (!bad && c->clock_bad)
		diag_info("The clock of controller %s agrees with the others again.", c->opt.name);
	c->clock_bad = bad;
	atomic_store(&c->clock_off_usec, heard >= 3 ? off : 0);
	for (unsigned i = 0; i < c->peers; i++) {
		int64_t d = ctl_peer_offset_usec(&c->peer[i], ctl_wall_usec(c)) - off;

		if (heard >= 3 && c->peer[i].heard_msec == ctl_mono_msec() && llabs(d) > CLOCK_AHEAD_USEC)
			diag_debug("The clock of controller %s is %lld s off the median.", c->peer[i].name, (long long)(d / 1000000));
	}
}

void ctl_clock_housekeeping(struct ctl *c)
{
	struct log_member m[LOG_MEMBERS_MAX];
	uint8_t bytes[8 + 4 + 8 + 1 + 64] = {0};
	size_t n;

	if (ctl_mono_msec() - c->clock_sent_msec < CLOCK_EVERY_MSEC)
		return;
	c->clock_sent_msec = ctl_mono_msec();
	judge(c);
	mu_put_be64(bytes, (uint64_t)ctl_wall_usec(c));
	mu_put_be32(bytes + 8, MU_LEVEL);
	mu_put_be64(bytes + 12, sch_pos(c->st));
	bytes[20] = c->disk_low;
	memcpy(bytes + 21, c->opt.name, strnlen(c->opt.name, 63));
	n = log_replica_members(c->replica, m, LOG_MEMBERS_MAX);
	for (size_t i = 0; i < n; i++)
		if (m[i].id != c->replica_id)
			(void)log_replica_send(c->replica, m[i].id, CTL_PEER_CLOCK, (struct mu_view){bytes, sizeof bytes});
}

void ctl_clock_heard(struct ctl *c, uint64_t from, struct mu_view bytes)
{
	struct ctl_peer *p;

	if (bytes.len != 8 + 4 + 8 + 1 + 64)
		return;
	p = ctl_peer_of(c, from);
	p->ahead_usec = (int64_t)mu_get_be64(bytes.data) - ctl_mono_usec();
	p->level = mu_get_be32(bytes.data + 8);
	p->pos = mu_get_be64(bytes.data + 12);
	p->disk_low = bytes.data[20];
	memcpy(p->name, bytes.data + 21, 63);
	p->name[63] = 0;
	p->heard_msec = ctl_mono_msec();
}
