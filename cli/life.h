/* cli/life.h: moments of the past in words. */
#ifndef CLI_LIFE_H
#define CLI_LIFE_H

#include "cli/cli.h"
#include "proto/why.pb-c.h"

/* Name of an event by its tag, as events.def has it: "job_hold"; "event" for an unknown one. Static. */
const char *life_event(uint32_t tag);
/* Appends what brought MOMENT about: "decided in pass 7, @120", "job_hold by root on host c1, @121". */
void life_cause(const Mu__Moment *moment, struct mu_buf *out);
/* The job meant by WORD: "42", or "42_3", a task of an array. One that waits with others has their row,
 * unless it must stand ALONE. 0, or 1 with a sentence printed. */
int life_id(struct cli *c, const char *word, bool alone, uint32_t *ret);
/* The same of one that has been read already. */
int life_task(struct cli *c, const struct cli_job_id *id, bool alone, uint32_t *ret);
/* scontrol show job N --history, show node X --history: lines, or one JSON object each. Exit code. */
int life_job(struct cli *c, uint32_t job, bool json, FILE *out);
int life_node(struct cli *c, const char *node, bool json, FILE *out);
/* scontrol show job N --trail (cli/trail.c): what was done to its processes, by whom, and how they ended. */
int life_trail(struct cli *c, uint32_t job, FILE *out);

#endif
