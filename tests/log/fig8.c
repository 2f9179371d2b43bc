/* tests/log/fig8.c: the schedule of figure 8 of the Raft paper, on three servers of libraft's own fixture:
 * does a new leader commit an entry of an old term by counting copies? Good when it does not with the guard,
 * and does without closure G1 (else this shows nothing).
 *
 * The fixture's traps: it must be zeroed before, it crashes when a precondition is broken, and "has no
 * leader" is true long before the old one has stepped down. */
#include <raft/fixture.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/guard.h"

enum { SERVERS = 3 };

static struct raft_fixture fx;
static struct raft_fsm fsm[SERVERS];
static char applied[SERVERS][64];

static int fsm_apply(struct raft_fsm *f, const struct raft_buffer *buf, void **result)
{
	char *list = applied[(intptr_t)f->data];
	size_t n = strlen(list);
	list[n] = *(char *)buf->base;
	*result = NULL;
	return 0;
}

static void done(struct raft_apply *req, int status, void *result)
{
	(void)status;
	(void)result;
	free(req);
}

static void fatal(void *arg, const char *what, int status)
{
	(void)arg;
	fprintf(stderr, "%s failed: %d\n", what, status);
	exit(3);
}

static void cut(unsigned a, unsigned b, bool on)
{
	if (on) {
		raft_fixture_saturate(&fx, a, b);
		raft_fixture_saturate(&fx, b, a);
	} else {
		raft_fixture_desaturate(&fx, a, b);
		raft_fixture_desaturate(&fx, b, a);
	}
}

static void isolate(unsigned a)
{
	for (unsigned i = 0; i < SERVERS; i++)
		if (i != a)
			cut(a, i, true);
}

static void put(unsigned i, char c)
{
	struct raft_buffer buf = {raft_calloc(1, 8), 8};
	struct raft_apply *req = calloc(1, sizeof *req);
	*(char *)buf.base = c;
	if (raft_apply(raft_fixture_get(&fx, i), req, &buf, 1, done)) {
		raft_free(buf.base);
		free(req);
	}
}

static void step_down(unsigned i)
{
	if (!raft_fixture_step_until_state_is(&fx, i, RAFT_FOLLOWER, 5000))
		fprintf(stderr, "server %u does not step down\n", i);
}

static bool zero_applied(struct raft_fixture *f, void *arg)
{
	(void)f;
	(void)arg;
	return applied[0][0] != 0;
}

static bool diverged(unsigned closures)
{
	struct raft_configuration conf;
	struct log_guard *guard[SERVERS];
	memset(&fx, 0, sizeof fx);
	memset(applied, 0, sizeof applied);
	raft_fixture_initialize(&fx);
	for (unsigned i = 0; i < SERVERS; i++) {
		fsm[i] = (struct raft_fsm){.version = 1, .data = (void *)(intptr_t)i, .apply = fsm_apply};
		raft_fixture_grow(&fx, &fsm[i]);
	}
	raft_fixture_configuration(&fx, SERVERS, &conf);
	raft_fixture_bootstrap(&fx, &conf);
	raft_configuration_close(&conf);
	for (unsigned i = 0; i < SERVERS; i++) {
		struct log_guard_config c = {.closures = closures, .fatal = fatal};
		raft_set_snapshot_threshold(raft_fixture_get(&fx, i), 1000000);
		guard[i] = log_guard_new(raft_fixture_get(&fx, i), &c);
	}
	raft_fixture_start(&fx);

	raft_fixture_elect(&fx, 0);
	isolate(0);
	put(0, 'A'); /* stored on 0 only */
	raft_fixture_step_until_elapsed(&fx, 100);
	step_down(0);
	raft_fixture_elect(&fx, 2); /* by 1 */
	isolate(2);
	put(2, 'B'); /* stored on 2 only */
	raft_fixture_step_until_elapsed(&fx, 100);
	step_down(2);
	cut(0, 1, false); /* 0 is elected by 1, copies A, and must not count that as committed */
	raft_fixture_step_until(&fx, zero_applied, NULL, 60000);
	isolate(0);
	step_down(0);
	cut(2, 1, false); /* 2 is elected by 1 where that holds only A: its log ends in a later term */
	raft_fixture_step_until_state_is(&fx, 2, RAFT_LEADER, 60000);
	if (raft_state(raft_fixture_get(&fx, 2)) == RAFT_LEADER)
		put(2, 'C');
	raft_fixture_step_until_elapsed(&fx, 1000);
	printf("closures %u: applied %s, %s, %s\n", closures, applied[0], applied[1], applied[2]);
	raft_fixture_close(&fx);
	for (unsigned i = 0; i < SERVERS; i++)
		log_guard_free(guard[i]);
	return applied[0][0] && applied[2][0] && applied[0][0] != applied[2][0];
}

int main(void)
{
	if (!diverged(LOG_GUARD_ALL & ~(unsigned)LOG_G1)) {
		puts("without G1 nothing is lost: the schedule does not show what it should");
		return 1;
	}
	if (diverged(LOG_GUARD_ALL)) {
		puts("a committed entry is lost");
		return 1;
	}
	return 0;
}
