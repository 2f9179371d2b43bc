/* cli/prompt.h: the prompt of a command that takes line after line, for people and for pipes. */
#ifndef CLI_PROMPT_H
#define CLI_PROMPT_H

#include "cli/cli.h"

/* What to do with the words of a line (at least one): its exit code, or CLI_PROMPT_END to end the prompt. */
typedef int (*cli_prompt_fn)(void *arg, char **words, size_t count);
enum { CLI_PROMPT_END = -1 };
/* Reads lines from standard input until its end, "!!" being the line before. The exit code of the last line.
 */
int cli_prompt(struct cli *c, cli_prompt_fn line, void *arg);

#endif
