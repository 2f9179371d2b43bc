/* cli/srun.h: the two halves of srun: asking for a step, and being its terminal. */
#ifndef CLI_SRUN_H
#define CLI_SRUN_H

#include "cli/allocate.h"

/* The step on one node: its shepherd is at the other end. */
struct srun_conn {
	int fd;
	const char *node;
	struct stream_reader reader;
	struct mu_buf to_send;
	size_t sent;
	struct mu_buf pmi; /* what its tasks put before a fence */
	bool at_fence;
	struct stream_credit in, out; /* in: what we may send; out: what may come */
	bool over, lost;
};

struct srun {
	struct cli *cli;
	const struct cli_args *args;
	struct cli_job job;
	struct srun_conn *conn;
	size_t conns;
	int manager; /* the step manager's connection of a step on several nodes; -1: none */
	struct stream_reader manager_reader;
	struct mu_buf environment;
	ProtobufCBinaryData programs; /* --multi-prog: the file's text */
	Mu__StepGranted *granted;
	int signal; /* that gave srun's exit code; 0: it is a task's own */
	bool joins; /* sattach: the step is another srun's, and goes on without us */
};

/* Moves input, output and signals until the step has ended. Returns srun's exit code: the highest of the
 * tasks', 128 + signal for a task that a signal ended. */
int srun_stream(struct srun *s);

/* Closes all of S's connections. */
void srun_hang_up(struct srun *s);

#endif
