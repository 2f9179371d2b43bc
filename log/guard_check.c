/* log/guard_check.c: is the library that this process runs with the one whose structures the guard was
 * written for?
 *
 * At build time the package's version is pinned and the size of struct raft checked here. The shared library
 * on another host may differ, and it has no function that tells its version: so raft_init is run once on a
 * marked piece of memory, and the defaults must appear exactly where the header says, with nothing written
 * behind the end. */
#include <stdlib.h>
#include <string.h>

#include "log/guard.h"

_Static_assert(sizeof(void *) != 8 || sizeof(struct raft) == 656, "struct raft is not libraft 0.15.0's");

static int probe_init(struct raft_io *io, raft_id id, const char *address)
{
	(void)io;
	(void)id;
	(void)address;
	return 0;
}

static raft_time probe_time(struct raft_io *io)
{
	(void)io;
	return 12345;
}

static int probe_random(struct raft_io *io, int min, int max)
{
	(void)io;
	(void)max;
	return min;
}

static void probe_close(struct raft_io *io, raft_io_close_cb cb)
{
	cb(io);
}

int log_guard_check_library(struct mu_err *err)
{
	enum { TAIL = 1024, MARK = 0x5a };
	struct raft_io io = {.version = 2,
			     .init = probe_init,
			     .time = probe_time,
			     .random = probe_random,
			     .close = probe_close};
	struct raft_fsm fsm = {.version = 1};
	uint8_t *memory = malloc(sizeof(struct raft) + TAIL);
	if (!memory)
		abort();
	memset(memory, MARK, sizeof(struct raft) + TAIL);
	struct raft *r = (struct raft *)memory;
	bool good = raft_init(r, &io, &fsm, 77, "probe") == 0;
	good = good && io.data == r && r->id == 77 && r->election_timeout == 1000 &&
	       r->heartbeat_timeout == 100 && r->install_snapshot_timeout == 30000 &&
	       r->snapshot.threshold == 1024 && r->snapshot.trailing == 2048 &&
	       r->max_catch_up_rounds == 10 && r->max_catch_up_round_duration == 5000 && !r->pre_vote &&
	       r->state == RAFT_UNAVAILABLE && r->transfer == NULL && r->configuration.n == 0;
	for (unsigned i = 0; good && i < TAIL; i++)
		good = memory[sizeof(struct raft) + i] == MARK;
	if (good) {
		raft_set_pre_vote(r, true);
		good = r->pre_vote;
		raft_close(r, NULL);
	}
	free(memory);
	if (!good)
		return mu_fail(err, MU_EVERSION,
			       "the Raft library found here is not version 0.15.0, which this program was "
			       "built and checked for: install that version");
	return 0;
}
