/* ctld/keep.c: when history is let go (query/keep.h): rounds on a reader thread, often where much is to go,
 * seldom else. Nothing of it is in the log: each controller does it for itself. */
#include "query/keep.h"

#include <stdlib.h>
#include <string.h>

#include "log/ctld/ctld.h"
#include "log/diag.h"

enum {
	LOOK_MSEC = 500, /* how often the configuration is asked */
	MORE_MSEC = 20,	 /* between rounds that find something: two thirds of the time are the others' */
	REST_MSEC_MAX = 600000,
	TROUBLE_MSEC = 60000, /* after a round that failed */
	SPAN_PARTS = 16	      /* rounds in the shortest span that anything is kept */
};

struct ctl_keep {
	bool busy;
	int64_t look_msec, again_msec, blobs_msec;
	int64_t span; /* the shortest, when it was last looked at */
	struct keep_round round;
	int code;
	struct mu_err err;
};

static void sign(void *arg, uint64_t pos, const struct mu_hash *statement, uint8_t ret[KEEP_SIGN_BYTES])
{
	const struct ctl *c = arg;

	auth_chain_sign(c->keys.cluster_secret, pos, statement, ret);
}

static void worked(struct ctl *c, void *arg)
{
	struct ctl_keep *k = arg;
	int64_t rest = view_keep_shortest_sec(c->view) * 1000 / SPAN_PARTS;

	k->busy = false;
	if (k->code)
		diag_error("History could not be let go: %s", k->err.text);
	if (k->round.cut_pos)
		diag_info("The entries up to position %llu are no longer kept, as MusterKeepEvents says.",
			  (unsigned long long)k->round.cut_pos);
	if (k->round.jobs || k->round.blobs || k->round.moments)
		diag_debug(
		    "No longer kept: %llu records of jobs, %llu scripts and environments, %llu moments.",
		    (unsigned long long)k->round.jobs, (unsigned long long)k->round.blobs,
		    (unsigned long long)k->round.moments);
	rest = rest < LOOK_MSEC ? LOOK_MSEC : rest > REST_MSEC_MAX ? REST_MSEC_MAX : rest;
	k->again_msec = ctl_mono_msec() + (k->code ? TROUBLE_MSEC : k->round.more ? MORE_MSEC : rest);
}

static void work(struct ctl *c, void *arg)
{
	struct ctl_keep *k = arg;

	k->err = (struct mu_err){0};
	k->code = view_keep(c->view, sign, c, &k->round, &k->err);
	ctl_post(c, worked, k);
}

void ctl_keep_housekeeping(struct ctl *c)
{
	struct ctl_keep *k = c->keep;
	int64_t now = ctl_mono_msec(), span;

	if (!k) {
		k = c->keep = calloc(1, sizeof *k);
		if (!k)
			abort();
	}
	if (now < k->look_msec)
		return;
	k->look_msec = now + MORE_MSEC;
	span = view_keep_shortest_sec(c->view) * 1000;
	/* A blob is kept for the span from when it was committed last; a leader sends it again well before that ends. */
	if (span && now - k->blobs_msec > span / 4) {
		memset(c->blob_held, 0, sizeof c->blob_held);
		k->blobs_msec = now;
	}
	/* Another configuration does not wait for the rest that the one before allowed. */
	if (k->busy || c->install || !span || (span == k->span && now < k->again_msec))
		return;
	k->span = span;
	k->busy = true;
	ctl_read_task(c, work, k);
}
