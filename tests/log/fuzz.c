/* tests/log/fuzz.c: random schedules against the guarded core, with a counter for an application.
 *
 * fuzz                          the areas below, seeds by MUSTER_TEST_SIZE (fast, ci, full) or COUNT, from
 * SEED fuzz off                      the same without the guard: must fail (that proves the suite) fuzz one
 * SEED AREAS FOUNDERS CLOSURES [TRACE]   tells the story of one seed fuzz votes [CLOSURES]         does a
 * server that hands leadership over vote twice in a term? */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/log/world.h"

/* ---- the counter ---- */

struct counter {
	uint64_t sum, entries;
	uint8_t bytes[64];
};
static uint64_t next_value; /* of this process: values never repeat in one world */

static void *counter_open(void *world_arg, unsigned server)
{
	(void)world_arg;
	(void)server;
	return calloc(1, sizeof(struct counter));
}

static void counter_close(void *st)
{
	free(st);
}

static void counter_apply(void *st, uint64_t pos, const struct log_entry *entry)
{
	struct counter *c = st;
	struct log_part part;
	size_t cursor = 0;
	uint64_t value = 0;
	if (log_entry_next(entry, &cursor, &part))
		memcpy(&value, part.bytes.data, 8);
	c->sum = c->sum * 31 + value + pos;
	c->entries++;
}

static void counter_digest(void *st, struct mu_hash *ret)
{
	mu_hash_bytes(st, 16, ret);
}

static void counter_rows(void *st, struct mu_buf *out)
{
	mu_buf_add(out, st, 16);
}

static bool counter_restore(void *st, const uint8_t *rows, size_t len)
{
	if (len != 16)
		return false;
	memcpy(st, rows, 16);
	return true;
}

static size_t counter_propose(void *st, int64_t now_usec, struct log_part ret_part[WORLD_PARTS],
			      int64_t *ret_time_usec)
{
	struct counter *c = st;
	next_value++;
	memcpy(c->bytes, &next_value, 8);
	ret_part[0] = (struct log_part){LOG_PART_EVENT, {c->bytes, 8 + next_value % 50}};
	*ret_time_usec = now_usec;
	return 1;
}

static const struct world_app counter = {.open = counter_open,
					 .close = counter_close,
					 .apply = counter_apply,
					 .digest = counter_digest,
					 .rows = counter_rows,
					 .restore = counter_restore,
					 .propose = counter_propose,
					 .propose_msec = 30};

/* ---- areas ---- */

static const struct {
	unsigned areas, founders, share; /* SHARE of a hundred of the seeds */
	bool one_down;
} table[] = {
    {WORLD_CUTS | WORLD_CRASHES, 3, 15, false},
    {WORLD_CUTS | WORLD_CRASHES | WORLD_SMALL, 3, 10, true},
    {WORLD_CUTS | WORLD_CRASHES | WORLD_FAULTS, 3, 10, false},
    {WORLD_CUTS | WORLD_CRASHES | WORLD_SNAPSHOTS | WORLD_SMALL, 3, 20, false},
    {WORLD_CUTS | WORLD_CRASHES | WORLD_SNAPSHOTS | WORLD_MEMBERS | WORLD_TRANSFER, 3, 10, false},
    {511, 3, 25, false},
    {511, 5, 10, false},
};

static unsigned run_table(unsigned closures, uint64_t first, unsigned seeds, unsigned *unsafe)
{
	unsigned failed = 0;
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		struct world_setup s = {.areas = table[i].areas,
					.founders = table[i].founders,
					.one_down = table[i].one_down,
					.closures = closures,
					.wild_msec = 60000,
					.app = &counter};
		unsigned share = seeds * table[i].share / 100;
		failed += world_run_many(&s, first, share ? share : 1, unsafe);
	}
	return failed;
}

/* ---- one voter, two votes ---- */

static unsigned granted;
static int (*send_below)(struct raft_io *io, struct raft_io_send *req, const struct raft_message *m,
			 raft_io_send_cb cb);

static int spy(struct raft_io *io, struct raft_io_send *req, const struct raft_message *m, raft_io_send_cb cb)
{
	if (m->type == RAFT_IO_REQUEST_VOTE_RESULT && m->request_vote_result.vote_granted)
		granted++;
	return send_below(io, req, m, cb);
}

struct voter {
	struct raft raft;
	struct raft_fsm fsm;
	struct log_guard *guard;
	struct raft_transfer transfer;
};

static void vote_fatal(void *arg, const char *what, int status)
{
	(void)arg;
	(void)what;
	(void)status;
	abort();
}

/* A leads term t and has begun a transfer to B. It hears of term t+1, votes for C there, then B asks in t+1
 * too. */
static int two_votes(unsigned closures)
{
	struct sim *w = calloc(1, sizeof *w);
	struct voter *v = calloc(3, sizeof *v), *a = NULL;
	struct raft_configuration c;
	raft_configuration_init(&c);
	sim_init(w, 3, 7);
	for (unsigned i = 0; i < 3; i++)
		raft_configuration_add(&c, i + 1, w->server[i].address, RAFT_VOTER);
	for (unsigned i = 0; i < 3; i++) {
		struct raft_io *io = sim_start(w, i);
		struct log_guard_config g = {.closures = closures, .fatal = vote_fatal};
		send_below = io->send;
		io->send = spy;
		v[i].fsm = (struct raft_fsm){.version = 1};
		raft_init(&v[i].raft, io, &v[i].fsm, i + 1, w->server[i].address);
		v[i].guard = log_guard_new(&v[i].raft, &g);
		raft_bootstrap(&v[i].raft, &c);
		raft_start(&v[i].raft);
		log_guard_started(v[i].guard);
	}
	while (sim_step(w, 6000) != -2)
		;
	unsigned at = 0;
	for (unsigned i = 0; i < 3; i++)
		if (v[i].raft.state == RAFT_LEADER) {
			a = &v[i];
			at = i;
		}
	if (!a)
		return 2;
	unsigned b = (at + 1) % 3, d = (at + 2) % 3;
	memset(w->cut, 1, sizeof w->cut);
	raft_transfer(&a->raft, &a->transfer, b + 1, NULL);
	raft_term term = a->raft.current_term + 1;
	raft_index last = raft_last_index(&a->raft);
	granted = 0;
	struct raft_message m = {.type = RAFT_IO_APPEND_ENTRIES_RESULT,
				 .server_id = d + 1,
				 .server_address = w->server[d].address};
	m.append_entries_result =
	    (struct raft_append_entries_result){.term = term, .rejected = 1, .last_log_index = last};
	log_guard_receive(a->guard, &m);
	for (unsigned k = 0; k < 2; k++) {
		unsigned x = k ? b : d;
		struct raft_message q = {
		    .type = RAFT_IO_REQUEST_VOTE, .server_id = x + 1, .server_address = w->server[x].address};
		q.request_vote = (struct raft_request_vote){.term = term,
							    .candidate_id = x + 1,
							    .last_log_index = last,
							    .last_log_term = term - 1,
							    .disrupt_leader = k};
		log_guard_receive(a->guard, &q);
	}
	raft_configuration_close(&c);
	printf("closures %u: %u votes of one server in one term\n", closures, granted);
	return granted > 1 ? 1 : granted == 1 ? 0 : 2;
}

static unsigned long argument(int argc, char **argv, int i, unsigned long otherwise)
{
	return argc > i ? strtoul(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
	const char *from = getenv("SEED");
	uint64_t first = from ? strtoull(from, NULL, 10) : 1;
	unsigned seeds = world_size(20, 200, 1000);
	if (argc > 2 && !strcmp(argv[1], "one")) {
		struct world_setup s = {.seed = argument(argc, argv, 2, 1),
					.areas = (unsigned)argument(argc, argv, 3, 511),
					.founders = (unsigned)argument(argc, argv, 4, 3),
					.closures = (unsigned)argument(argc, argv, 5, LOG_GUARD_ALL),
					.trace = (int)argument(argc, argv, 6, 1),
					.one_down = getenv("ONE_DOWN") != NULL,
					.wild_msec = 60000,
					.app = &counter};
		const char *sentence = "";
		setvbuf(stdout, NULL, _IOLBF, 0);
		int result = (int)world_run(&s, &sentence);
		printf("seed %" PRIu64 ": %d %s\n", s.seed, result, sentence);
		return result;
	}
	if (argc > 1 && !strcmp(argv[1], "votes")) {
		if (argc > 2)
			return two_votes((unsigned)argument(argc, argv, 2, LOG_GUARD_ALL));
		/* With the guard one vote; without G7 two, else this test shows nothing. */
		return two_votes(LOG_GUARD_ALL) != 0 || two_votes(LOG_GUARD_ALL & ~(unsigned)LOG_G7) != 1;
	}
	if (argc > 1 && !strcmp(argv[1], "off")) {
		/* Fewer may meet nothing. */
		unsigned unsafe = 0, failed = run_table(0, first, seeds < 200 ? 200 : seeds, &unsafe);
		printf("without the guard: %u failures, %u of them lose or change history\n", failed, unsafe);
		return failed > unsafe && unsafe ? 0 : 1;
	}
	return run_table((unsigned)argument(argc, argv, 1, LOG_GUARD_ALL), first, seeds, NULL) != 0;
}
