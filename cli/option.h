/* cli/option.h: from words, directives and environment to a list of options given. Knows the registry, not
 * what options mean.
 *
 * Words are read as GNU getopt_long does: clustered letters, values attached or in the next word, unique
 * prefixes of long names, options behind other words unless the command's words begin a command line of their
 * own. */
#ifndef CLI_OPTION_H
#define CLI_OPTION_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/base/arena.h"
#include "proto/base/err.h"
#include "proto/options.h"

/* From the weakest to the strongest. */
enum cli_level { CLI_SCRIPT, CLI_ENVIRONMENT, CLI_LINE };

struct cli_given {
	const struct mu_option *option;
	const char *value; /* NULL: none */
	enum cli_level level;
};

enum { CLI_GIVEN_MAX = 4096 };

/* Zero-initialise. In the order of levels, then as written. Memory is the arena's. */
struct cli_args {
	struct cli_given *given;
	size_t count, cap;
	char **words; /* what is no option */
	size_t word_count;
};

/* Reads COUNT words (the command's name not among them). STOP_AT_WORD: the first word that is no option ends
 * the options. 0; MU_ESYNTAX with getopt's sentence for an option that does not exist or lacks its value;
 * MU_EDISABLED for one refused by name. */
int cli_args_words(struct cli_args *args, unsigned command, enum cli_level level, char *const *words,
		   size_t count, bool stop_at_word, struct mu_arena *arena, struct mu_err *err);
/* Adds what the environment says (GET: getenv or a test's). */
void cli_args_environment(struct cli_args *args, unsigned command, const char *(*get)(const char *name),
			  struct mu_arena *arena);
/* Adds what FROM has of LEVEL; with COUNT only of the options whose ids are in ONLY. */
void cli_args_append(struct cli_args *args, const struct cli_args *from, enum cli_level level,
		     const int *only, size_t count, struct mu_arena *arena);
/* Stable: weakest level first. Call when all are read. */
void cli_args_order(struct cli_args *args);
/* The last and strongest one of ID, or NULL. */
const struct cli_given *cli_args_last(const struct cli_args *args, int id);
bool cli_args_has(const struct cli_args *args, int id);
/* Its value, or NULL. */
const char *cli_args_value(const struct cli_args *args, int id);

/* Sets the field FIELD of MESSAGE (found by name) from text, by KIND; memory from ARENA. WHAT names the
 * option in sentences ("--time"). */
struct ProtobufCMessage;
int cli_field_set(struct ProtobufCMessage *message, const struct mu_option *option, const char *value,
		  struct mu_arena *arena, struct mu_err *err);

/* Common to all commands: parses words and environment and answers --help, --usage, --version and mistakes,
 * printing what is due. 0: go on; else *ret_exit is the exit code to end with (1 returned). */
struct cli;
int cli_begin(struct cli *c, int argc, char **argv, bool stop_at_word, struct cli_args *ret, int *ret_exit);
/* --at of a command that asks for everything as of one moment: 0, or a sentence. */
int cli_take_at(struct cli *c, const struct cli_args *args, struct mu_err *err);
/* Calls RUN for each cluster that --clusters (or sacct's --allclusters) names, C turned to it; for the configured one
 * alone, as it is, where it names no other. FIRST is false for those behind the first. The worst exit code. */
typedef int (*cli_cluster_fn)(struct cli *c, const struct cli_args *args, bool first);
int cli_each_cluster(struct cli *c, const struct cli_args *args, cli_cluster_fn run);
/* --clusters may name the configured cluster only: 0, or MU_EINVAL naming both. */
int cli_check_clusters(struct cli *c, const struct cli_args *args, struct mu_err *err);

#endif
