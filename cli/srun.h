/* cli/srun.h: the two halves of srun: asking for a step, and being its terminal. */
#ifndef CLI_SRUN_H
#define CLI_SRUN_H

#include "cli/cli.h"
#include "cli/option.h"
#include "log/stream.h"

struct srun {
	struct cli *cli;
	const struct cli_args *args;
	const char *node;
	uint32_t job;
	int fd; /* the connection: first to the agent, then to the step */
	struct stream_reader reader;
	struct mu_buf environment;
	Mu__StepGranted *granted;
};

/* Moves input, output and signals until the step has ended. Returns srun's exit code: the highest of the
 * tasks', 128 + signal for a task that a signal ended. */
int srun_stream(struct srun *s);

#endif
