/* tests/query/real.h: a small cluster driven by the real core, one entry after the other, as a log that a
 * view can be given. */
#ifndef TESTS_QUERY_REAL_H
#define TESTS_QUERY_REAL_H

#include "tests/query/fake.h"

struct real {
	struct fake_log log; /* its State is the core's */
	struct mu_arena arena;
	int64_t now_usec;
	uint64_t requests;
	uint32_t last_job; /* highest id given */
};
/* NODES nodes of CPUS CPUs each, one partition; all registered. No node is heard again: it is lost
 * SILENCE_SEC later. */
void real_open(struct real *r, unsigned nodes, unsigned cpus, unsigned silence_sec);
/* The same with more lines in its configuration. */
void real_open_with(struct real *r, unsigned nodes, unsigned cpus, unsigned silence_sec, const char *lines);
void real_close(struct real *r);
/* Each of these is one entry, SECONDS after the last one where time goes on; the event's verdict. */
void real_submit(struct real *r, unsigned count, uint32_t cpus, unsigned user, bool hold);
/* A job with this script; SEND: the script comes with it, else it is known already. */
void real_script(struct real *r, const char *script, bool send);
void real_decide(struct real *r); /* until there is nothing to decide: an entry for each event */
void real_end(struct real *r, uint32_t job, int exit_code);
void real_kill(struct real *r, uint32_t job);
void real_requeue(struct real *r, uint32_t job);
void real_steps(struct real *r, uint32_t job, uint32_t step, uint32_t state);
void real_tick(struct real *r, int64_t seconds);

#endif
