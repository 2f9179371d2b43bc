/* cli/main.c: the multi-call program. Its name, or as "muster" its first word, says which command it is. */
#include <stdarg.h>
#include <string.h>

#include "cli/cli.h"
#include "proto/version.h"

static void say(const struct cli *c, const char *kind, const char *format, va_list args)
{
	struct mu_buf line MU_CLEANUP(mu_buf_free) = {0};
	char text[1024];

	vsnprintf(text, sizeof text, format, args);
	mu_buf_printf(&line, "%s: %s%s\n", c->name, kind, text);
	fflush(stdout);
	fwrite(line.data, 1, line.len, stderr);
}

void cli_say(const struct cli *c, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(c, "", format, args);
	va_end(args);
}

void cli_error(const struct cli *c, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(c, "error: ", format, args);
	va_end(args);
}

void cli_fatal(const struct cli *c, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(c, "fatal: ", format, args);
	va_end(args);
}

/* Commands of the family that this version does not have, with what to use instead. */
static const struct {
	const char *name, *instead;
} absent[] = {
    {"strigger", "watch states with squeue or sacct instead"},
    {"scrontab", "submit with sbatch --begin instead"},
};

static const struct {
	const char *name;
	int (*run)(struct cli *c, int argc, char **argv);
} commands[] = {
    {"sbatch", cli_sbatch},   {"salloc", cli_salloc},   {"srun", cli_srun},	  {"squeue", cli_squeue}, {"sinfo", cli_sinfo},
    {"scancel", cli_scancel}, {"scontrol", cli_scontrol}, {"sacct", cli_sacct},	  {"sdiag", cli_sdiag},
    {"sacctmgr", cli_sacctmgr}, {"sshare", cli_sshare}, {"sprio", cli_sprio},
    {"sreport", cli_sreport}, {"seff", cli_seff},
    {"sstat", cli_sstat}, {"sbcast", cli_sbcast}, {"sattach", cli_sattach},
};

static int run(const char *name, int argc, char **argv, bool *ret_known)
{
	*ret_known = true;
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		if (strcmp(commands[i].name, name) == 0) {
			struct cli c = {.name = commands[i].name, .command = mu_command_parse(name)};
			int rc = commands[i].run(&c, argc, argv);

			cli_as_of(&c);
			cli_done(&c);
			return rc;
		}
	}
	for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
		if (strcmp(absent[i].name, name) == 0) {
			struct cli c = {.name = absent[i].name};

			if (argc > 0 && (strcmp(argv[0], "-V") == 0 || strcmp(argv[0], "--version") == 0)) {
				cli_version(stdout);
				return 0;
			}
			cli_error(&c, "%s is not part of this version: %s", absent[i].name,
				  absent[i].instead);
			return 1;
		}
	}
	*ret_known = false;
	return 1;
}

int cli_main(int argc, char **argv)
{
	const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
	const char *name = argc > 0 ? (slash ? slash + 1 : argv[0]) : "muster";
	struct cli c = {.name = "muster", .command = MU_MUSTER};
	bool known;
	int rc;

	rc = run(name, argc - 1, argv + 1, &known);
	if (known)
		return rc;
	if (argc > 1) {
		rc = run(argv[1], argc - 2, argv + 2, &known);
		if (known)
			return rc;
	}
	rc = cli_muster(&c, argc - 1, argv + 1);
	cli_done(&c);
	return rc;
}
