/* cli/muster.h: the commands of muster beside Slurm's. COUNT words behind the command's name; exit code. */
#ifndef CLI_MUSTER_H
#define CLI_MUSTER_H

#include "cli/cli.h"

int muster_log(struct cli *c, size_t count, char **words);
int muster_bench(struct cli *c, size_t count, char **words);
int muster_config(struct cli *c, size_t count, char **words);
/* Becomes the program muster-history VERB WORDS. Returns only when that cannot be started. */
int muster_history(struct cli *c, const char *verb, size_t count, char **words);

#endif
