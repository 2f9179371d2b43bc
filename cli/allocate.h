/* cli/allocate.h: an allocation without a script, as salloc and srun alone ask for it: submitted, waited for,
 * held by a connection to its first node's agent, and given back. */
#ifndef CLI_ALLOCATE_H
#define CLI_ALLOCATE_H

#include "cli/door.h"
#include "cli/option.h"

struct cli_allocation {
	struct cli_job job;
	int fd; /* the agent's connection: as long as it lives the allocation does; -1: none */
	struct stream_reader reader;
	int signals; /* signalfd of what ends a wait: HUP, INT, QUIT, TERM */
	bool over;   /* the agent said that it has ended */
	uint32_t cause;
};

/* Fills SPEC with what the submitting process brings along: host, session, umask, directory, command line. */
int cli_spec_surroundings(struct cli *c, const char *command, int argc, char **argv, Mu__JobSpec *spec,
			  struct mu_err *err);

/* --test-only: says when and where SPEC would start, and submits nothing. The exit code. */
void cli_say_test(const struct cli *c, const Mu__Reply *reply);
int cli_allocate_test(struct cli *c, Mu__JobSpec *spec);

/* Submits SPEC, with COUNT further components of a heterogeneous job in OTHERS, and waits until it runs and
 * its first node is ready, telling on the way as Slurm does. HOLD: the allocation ends when this process
 * does. 0, or the exit code to end with: everything is said and given back. From here on the signals above
 * are blocked. */
int cli_allocate(struct cli *c, const struct cli_args *args, Mu__JobSpec *spec, Mu__JobSpec **others,
		 size_t count, bool hold, struct cli_allocation *ret, int *ret_exit);
/* Reads what the agent says; call when A->fd is readable. */
void cli_allocation_hear(struct cli_allocation *a);
/* Takes hold again where the connection was lost (the agent was restarted). 0, or a code; A->over where there
 * is nothing to hold any more. */
int cli_allocation_again(struct cli *c, struct cli_allocation *a);
/* Gives it back with the command's exit code, and 256 times the signal that ended it. */
void cli_allocation_release(struct cli *c, struct cli_allocation *a, int code);
void cli_allocation_done(struct cli *c, struct cli_allocation *a);

#endif
