/* proto/options.c: the table made from options.def. */
#include "proto/options.h"

#include <string.h>

const struct mu_option mu_options[OPT_COUNT] = {
#define MU_OPTION(id, commands, letter, name, arg, kind, field, env, metavar, help) \
	{OPT_##id, (commands), (letter), name, arg, kind, field, env, metavar, help},
#include "proto/options.def"
#undef MU_OPTION
};

static const struct command {
	unsigned bit;
	const char *name, *env_prefix;
} commands[] = {
    {MU_SBATCH, "sbatch", "SBATCH_"},
    {MU_SRUN, "srun", "SLURM_"},
    {MU_SALLOC, "salloc", "SALLOC_"},
    {MU_SQUEUE, "squeue", "SQUEUE_"},
    {MU_SINFO, "sinfo", "SINFO_"},
    {MU_SCANCEL, "scancel", "SCANCEL_"},
    {MU_SCONTROL, "scontrol", "SCONTROL_"},
    {MU_SACCT, "sacct", "SACCT_"},
    {MU_MUSTER, "muster", ""},
    {MU_SDIAG, "sdiag", ""},	    {MU_SACCTMGR, "sacctmgr", ""}, {MU_SSHARE, "sshare", ""}, {MU_SPRIO, "sprio", "SPRIO_"},
    {MU_SREPORT, "sreport", "SREPORT_"}, {MU_SEFF, "seff", ""},
    {MU_SSTAT, "sstat", "SSTAT_"},
    {MU_SBCAST, "sbcast", "SBCAST_"},
    {MU_SATTACH, "sattach", ""},
};

unsigned mu_command_parse(const char *word)
{
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		if (strcmp(commands[i].name, word) == 0)
			return commands[i].bit;
	}
	return 0;
}

static const struct command *command_of(unsigned command)
{
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		if (commands[i].bit == command)
			return &commands[i];
	}
	return NULL;
}

const char *mu_command_name(unsigned command)
{
	const struct command *c = command_of(command);

	return c ? c->name : NULL;
}

const char *mu_command_env_prefix(unsigned command)
{
	const struct command *c = command_of(command);

	return c ? c->env_prefix : "";
}
