/* proto/options.h: the registry of command-line options. Pure data.
 *
 * Owns: the rows of options.def as a table, and the meaning of their columns. From a row come getopt,
 * #SBATCH, the environment variables, help, manual page, completion and, for job options, the field of
 * Mu__JobSpec. Leaves to others: parsing words (cli/option.c) and what options mean together (cli/spec.c). */
#ifndef PROTO_OPTIONS_H
#define PROTO_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

/* Commands that take an option: a set of bits. */
enum mu_command {
	MU_SBATCH = 1 << 0,
	MU_SRUN = 1 << 1,
	MU_SALLOC = 1 << 2,
	MU_SQUEUE = 1 << 3,
	MU_SINFO = 1 << 4,
	MU_SCANCEL = 1 << 5,
	MU_SCONTROL = 1 << 6,
	MU_SACCT = 1 << 7,
	MU_MUSTER = 1 << 8,
	MU_SDIAG = 1 << 9,
	MU_SACCTMGR = 1 << 10,
	MU_SSHARE = 1 << 11,
	MU_SPRIO = 1 << 12,
	MU_SREPORT = 1 << 20,
	MU_SEFF = 1 << 21,
	MU_SSTAT = 1 << 16,
	MU_SBCAST = 1 << 18,
	MU_SATTACH = 1 << 22,
	MU_SUBMITTERS = MU_SBATCH | MU_SRUN | MU_SALLOC,
	MU_LISTERS = MU_SQUEUE | MU_SINFO | MU_SACCT,
	MU_EVERY = 0x751fff
};

enum mu_option_arg {
	MU_ARG_NONE,
	MU_ARG_NEEDED,
	MU_ARG_MAYBE, /* only when attached: --x=V, -xV */
	MU_ARG_IDS    /* attached, or the next word when that begins with a digit */
};

/* How the text of a value becomes the field named in the row (of JobSpec for submitters, of Query for
 * listers). */
enum mu_option_kind {
	MU_KIND_WORD,	/* string or bytes, as written */
	MU_KIND_WORDS,	/* repeated string: comma list */
	MU_KIND_NUMBER, /* whole number, 1 and up */
	MU_KIND_COUNT,	/* whole number, 0 and up */
	MU_KIND_SPAN,	/* seconds, mu_span_parse */
	MU_KIND_DATE,	/* microseconds, mu_date_parse */
	MU_KIND_MEMORY, /* MiB, mu_mem_parse */
	MU_KIND_ON,	/* bool true */
	MU_KIND_OFF,	/* bool false */
	MU_KIND_PATH,	/* bytes */
	MU_KIND_HOSTS,	/* host list, checked, folded */
	MU_KIND_HINT,	/* kept under the option's name in JobSpec.hint */
	MU_KIND_OWN,	/* the command's own code */
	MU_KIND_REFUSED /* known, and refused by name with the row's help as the reason */
};

struct mu_option {
	int id; /* enum mu_option_id */
	unsigned commands;
	char letter; /* short form; 0: none */
	const char *name;
	enum mu_option_arg arg;
	enum mu_option_kind kind;
	const char *field;   /* "" : none */
	const char *env;     /* words; "*X" stands for the command's prefix (SBATCH_, SALLOC_, SLURM_, SQUEUE_
				...) with X */
	const char *metavar; /* shown for the value */
	const char *help;
};

enum mu_option_id {
#define MU_OPTION(id, commands, letter, name, arg, kind, field, env, metavar, help) OPT_##id,
#include "proto/options.def"
#undef MU_OPTION
	OPT_COUNT
};

/* All rows, in the order of options.def; index = id. Static. */
extern const struct mu_option mu_options[OPT_COUNT];

/* "sbatch" and the like to the bit and back; 0 or NULL for a word that is no command. */
unsigned mu_command_parse(const char *word);
const char *mu_command_name(unsigned command);
/* "SBATCH_" and the like; "" when the command reads no variables. */
const char *mu_command_env_prefix(unsigned command);

#endif
