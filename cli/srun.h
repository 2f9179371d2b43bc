/* cli/srun.h: the two halves of srun: asking for a step, and being its terminal. */
#ifndef CLI_SRUN_H
#define CLI_SRUN_H

#include "cli/allocate.h"

struct srun;

/* The step on one node: its shepherd is at the other end. */
struct srun_conn {
	int fd;
	struct srun *of; /* whose part of the step it is: of the step itself, or of one component */
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
	int64_t manager_again_msec; /* its agent was restarted: when it is asked again; 0: it is there, or was given up */
	int manager_tries;
	struct mu_buf environment;
	ProtobufCBinaryData programs; /* --multi-prog: the file's text */
	Mu__StepGranted *granted;
	int signal; /* that gave srun's exit code; 0: it is a task's own */
	Mu__Usage usage; /* of all its nodes */
	/* A step over components of a heterogeneous job: one srun for each, which has no connections to nodes
	 * of its own. Here are those of all; the first component's manager gives the step its number. */
	struct srun *part;
	size_t parts;
	uint32_t group;
	bool joins; /* sattach: the step is another srun's, and goes on without us */
};

/* Moves input, output and signals until the step has ended. Returns srun's exit code: the highest of the
 * tasks', 128 + signal for a task that a signal ended. */
int srun_stream(struct srun *s);

/* Closes all of S's connections. */
void srun_hang_up(struct srun *s);

/* ---- between srun.c and srun_het.c ---- */
int srun_fill_ask(struct srun *s, Mu__StepAsk *ask, const Mu__JobSpec *spec, int argc, char **argv,
		  struct mu_err *err);
int srun_send_ask(struct srun *s, const Mu__StepAsk *ask, const struct cli_door *door, int *ret_fd,
		  struct stream_reader *ret_reader, Mu__StepGranted **ret, struct mu_err *err);
/* Starts PART of the step WHOLE, node NODE_INDEX of it, as S's; the connection is one of INTO's. */
int srun_start_part(struct srun *s, struct srun *into, const Mu__StepAsk *ask, Mu__StepPart *part,
		    const Mu__StepWhole *whole, uint32_t node_index, struct mu_err *err);
/* Waits a little longer each time that a step is refused as busy, and tells so once; false: it must not wait.
 */
struct srun_patience {
	unsigned msec;
	bool told;
};
bool srun_wait(struct srun *s, const Mu__StepAsk *ask, struct srun_patience *p);
/* Prolog, the step that START starts, its streams, epilog. Gives srun's exit code. */
int srun_run(struct srun *s, int (*start)(void *arg, struct mu_err *err), void *arg);
void srun_spec_from_row(Mu__JobSpec *spec, const Mu__JobRow *row); /* of an allocation of its own */
/* Reads what is said of GROUP's step: the environment's words for it, then ARGS's own. */
int srun_read_group(struct cli *c, const struct cli_args *args, uint32_t group, struct cli_args *ret_args,
		    Mu__JobSpec *ret_spec, struct mu_err *err);

/* True where the step is to run in other components than the first, or in several: then it has run, and
 * *RET_EXIT is srun's exit code. S->job is the job that srun belongs to; 0: none, then an allocation is made
 * where ARGS has more than one component. */
bool srun_het(struct srun *s, struct cli_args *args, int argc, char **argv, int *ret_exit);

#endif
