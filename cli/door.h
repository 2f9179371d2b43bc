/* cli/door.h: the way to the agents of a job's nodes. By a node's Unix socket where this host has it, where
 * the kernel vouches for the user; else over TCP with a proof that the job's key is known. */
#ifndef CLI_DOOR_H
#define CLI_DOOR_H

#include "cli/cli.h"
#include "log/stream.h"

struct cli_door {
	const char *node, *addr; /* addr NULL: to be asked for */
	uint32_t port;
};

/* A job as a client knows it. Zero-initialise; strings and rows live in the context's arena. */
struct cli_job {
	uint32_t job;
	struct cli_door first; /* its first node: the step manager */
	uint8_t key[STREAM_KEY];
	bool has_key;
	Mu__JobRow *row; /* once it was asked for */
};

/* Has this host the socket of NODE's agent? */
bool cli_door_local(struct cli *c, const char *node);
/* Asks the controllers for J: its row (waiting for its start when UNTIL is 2, for its end when it is 1, at
 * most WAIT_MSEC) and its key. 0, or a code with a sentence. */
int cli_job_ask(struct cli *c, struct cli_job *j, uint32_t until, uint32_t wait_msec, struct mu_err *err);
/* Fills J->first, and asks the controllers for key and address where it cannot be reached without. */
int cli_job_door(struct cli *c, struct cli_job *j, struct mu_err *err);

/* Sends BODY as KIND to DOOR's agent and reads the answer. 0: granted (RET, connection and what came behind
 * the grant are the caller's); 1: busy, ask again later; negative: refused or not reached. */
int cli_door_ask(struct cli *c, const struct cli_job *j, const struct cli_door *door, uint8_t kind,
		 struct mu_view body, int *ret_fd, struct stream_reader *ret_reader, Mu__StepGranted **ret,
		 struct mu_err *err);

/* Fills DOOR's address where NODE has no socket here. */
int cli_door_find(struct cli *c, struct cli_door *door, struct mu_err *err);
/* Does DOOR's agent take connections at this moment? Does not wait for it. */
bool cli_door_answers(struct cli *c, const struct cli_door *door);
/* Asks DOOR's agent what the steps of J use there; BODY is a Mu__UsageAsk. RET lives in C's arena. 0, or a code
 * with a sentence. */
int cli_door_look(struct cli *c, const struct cli_job *j, const struct cli_door *door, struct mu_view body,
		  Mu__UsageReply **ret, struct mu_err *err);

#endif
