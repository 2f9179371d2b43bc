/* cli/help.c: help, usage, version, manual pages and completions, all from the registries. */
#include <string.h>

#include "cli/cli.h"
#include "proto/version.h"

static const struct {
	unsigned command;
	const char *words, *what;
} about[] = {
    {MU_SBATCH, "[OPTIONS...] SCRIPT [ARGS...]", "submit a batch script"},
    {MU_SRUN, "[OPTIONS...] PROGRAM [ARGS...]", "run a program as a step of this job"},
    {MU_SALLOC, "[OPTIONS...] [PROGRAM [ARGS...]]", "get an allocation"},
    {MU_SQUEUE, "[OPTIONS...]", "list jobs"},
    {MU_SINFO, "[OPTIONS...]", "list partitions and nodes"},
    {MU_SCANCEL, "[OPTIONS...] [JOB_ID[_TASK_ID][.STEP_ID]...]", "end jobs and steps, or send them signals"},
    {MU_SCONTROL, "[OPTIONS...] [COMMAND...]", "show and change jobs, nodes, partitions and configuration"},
    {MU_SACCT, "[OPTIONS...]", "list jobs and steps, finished ones too"},
    {MU_SDIAG, "[OPTIONS...]", "show what the controllers count"},
    {MU_SACCTMGR, "[OPTIONS...] [COMMAND...]", "show and change accounts, users, associations and QOS"},
    {MU_SSHARE, "[OPTIONS...]", "show shares and usage of accounts and users"},
    {MU_SBCAST, "[OPTIONS...] SOURCE DEST", "copy a file to every node of a job"},
    {MU_SATTACH, "[OPTIONS...] JOB.STEP", "join the input and output of a running step"},
    {MU_SSTAT, "[OPTIONS...] -j JOB[.STEP]", "show what running steps use"},
    {MU_SPRIO, "[OPTIONS...]", "show what the priorities of waiting jobs are made of"},
    {MU_SREPORT, "[OPTIONS...] REPORT [FIELD=VALUE...]", "report what accounts, users and reservations used"},
    {MU_SEFF, "[OPTIONS...] JOB", "show how well a finished job used what it held"},
    {MU_MUSTER, "[OPTIONS...] COMMAND [ARGS...]", "everything that is not one of Slurm's commands"},
};

static size_t about_index(unsigned command)
{
	size_t i = 0;

	while (i + 1 < sizeof about / sizeof *about && about[i].command != command)
		i++;
	return i;
}

static bool is_common(const struct mu_option *o)
{
	return o->id == OPT_help || o->id == OPT_help_h || o->id == OPT_usage || o->id == OPT_version;
}

/* "-p, --partition=NAMES" */
static void spelling(const struct mu_option *o, char *out, size_t cap)
{
	char letter[8] = "    ";

	if (o->letter)
		snprintf(letter, sizeof letter, "-%c, ", o->letter);
	snprintf(out, cap, "%s--%s%s%s%s", letter, o->name,
		 o->arg == MU_ARG_NONE	   ? ""
		 : o->arg == MU_ARG_NEEDED ? "="
					   : "[=",
		 o->metavar, o->arg == MU_ARG_MAYBE || o->arg == MU_ARG_IDS ? "]" : "");
}

void cli_help(const struct cli *c, FILE *out)
{
	size_t k = about_index(c->command);

	fprintf(out, "Usage: %s %s\n  %s\n\nOptions:\n", c->name, about[k].words, about[k].what);
	for (int pass = 0; pass < 2; pass++) {
		if (pass == 1)
			fprintf(out, "\nHelp options:\n");
		for (int i = 0; i < OPT_COUNT; i++) {
			const struct mu_option *o = &mu_options[i];
			char text[128];

			if (!(o->commands & c->command) || o->kind == MU_KIND_REFUSED ||
			    is_common(o) != (pass == 1))
				continue;
			spelling(o, text, sizeof text);
			fprintf(out, "  %-34s %s\n", text, o->help);
		}
	}
}

void cli_usage(const struct cli *c, FILE *out)
{
	size_t column = (size_t)fprintf(out, "Usage: %s", c->name);

	for (int i = 0; i < OPT_COUNT; i++) {
		const struct mu_option *o = &mu_options[i];
		char text[128];
		size_t len;

		if (!(o->commands & c->command) || o->kind == MU_KIND_REFUSED)
			continue;
		if (o->letter)
			len = (size_t)snprintf(text, sizeof text, " [-%c%s%s]", o->letter,
					       o->arg == MU_ARG_NEEDED ? " " : "",
					       o->arg == MU_ARG_NONE ? "" : o->metavar);
		else
			len = (size_t)snprintf(text, sizeof text, " [--%s%s%s]", o->name,
					       o->arg == MU_ARG_NONE ? "" : "=", o->metavar);
		if (column + len > 100)
			column = (size_t)fprintf(out, "\n       ") - 1;
		fputs(text, out);
		column += len;
	}
	fprintf(out, "\n");
}

void cli_version(FILE *out)
{
	fprintf(out, "slurm " MU_SLURM_VERSION " (muster " MU_VERSION ")\n");
}

/* Text with what troff would take as its own escaped. */
static void roff(FILE *out, const char *text)
{
	for (const char *p = text; *p; p++) {
		if (*p == '\\')
			fputs("\\e", out);
		else if (*p == '-')
			fputs("\\-", out);
		else if ((*p == '.' || *p == '\'') && (p == text || p[-1] == '\n'))
			fprintf(out, "\\&%c", *p);
		else
			fputc(*p, out);
	}
}

static void man_options(unsigned command, FILE *out)
{
	const char *prefix = mu_command_env_prefix(command);

	fputs(".SH OPTIONS\n", out);
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct mu_option *o = &mu_options[i];
		char text[128];

		if (!(o->commands & command))
			continue;
		spelling(o, text, sizeof text);
		fputs(".TP\n.B ", out);
		roff(out, text + strspn(text, " "));
		fputs("\n", out);
		if (o->kind == MU_KIND_REFUSED)
			fputs("Refused: ", out);
		roff(out, o->help);
		fputs(".\n", out);
	}
	if (!*prefix)
		return;
	fputs(".SH ENVIRONMENT\nAn option on the command line beats its variable, a variable beats the "
	      "script.\n",
	      out);
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct mu_option *o = &mu_options[i];

		if (!(o->commands & command) || !*o->env)
			continue;
		for (const char *p = o->env; *p;) {
			size_t len = strcspn(p, " ");

			if (*p == '*' || strncmp(p, prefix, strlen(prefix)) == 0) {
				fprintf(out, ".TP\n.B %s%.*s\nSame as \\fB\\-\\-", *p == '*' ? prefix : "",
					(int)(len - (*p == '*')), p + (*p == '*'));
				roff(out, o->name);
				fputs("\\fR.\n", out);
			}
			p += len + (p[len] == ' ');
		}
	}
}

struct man_column {
	char letter;
	const char *name, *heading;
};
static const struct man_column job_columns[] = {
#define MU_COLUMN_JOB(letter, name, heading, getter) {letter, name, heading},
#include "proto/columns.def"
};
static const struct man_column node_columns[] = {
#define MU_COLUMN_NODE(letter, name, heading, flags, getter) {letter, name, heading},
#include "proto/columns.def"
};
static const struct man_column acct_columns[] = {
#define MU_COLUMN_ACCT(name, width, flags, getter) {0, name, name},
#include "proto/columns.def"
};

static void man_columns(const struct man_column *column, size_t count, FILE *out)
{
	fputs(".SH COLUMNS\n", out);
	for (size_t i = 0; i < count; i++) {
		fputs(".TP\n.B ", out);
		roff(out, column[i].name);
		if (column[i].letter)
			fprintf(out, " (%%%c)", column[i].letter);
		fputs("\nHeading ", out);
		roff(out, column[i].heading);
		fputs(".\n", out);
	}
}

/* The codes that listings show, from proto/states.def. */
static void man_states(FILE *out)
{
	fputs(".SH STATES\n", out);
#define MU_JOB_STATE(name, number, compact, word, ended) \
	fputs(".TP\n.B " compact " " word "\n" #name ".\n", out);
#include "proto/states.def"
#undef MU_JOB_STATE
}

void cli_man(unsigned command, const char *prose, FILE *out)
{
	const char *name = mu_command_name(command);
	size_t k = about_index(command);

	fprintf(out, ".TH %s 1 \"\" \"muster " MU_VERSION "\" \"Muster\"\n.SH NAME\n%s \\- ", name, name);
	roff(out, about[k].what);
	fprintf(out, "\n.SH SYNOPSIS\n.B %s\n", name);
	roff(out, about[k].words);
	fputs("\n.SH DESCRIPTION\n", out);
	fputs(prose, out);
	man_options(command, out);
	if (command == MU_SQUEUE)
		man_columns(job_columns, sizeof job_columns / sizeof *job_columns, out);
	if (command == MU_SINFO)
		man_columns(node_columns, sizeof node_columns / sizeof *node_columns, out);
	if (command == MU_SACCT)
		man_columns(acct_columns, sizeof acct_columns / sizeof *acct_columns, out);
	if (command & (MU_SQUEUE | MU_SACCT))
		man_states(out);
	fputs(".SH EXIT STATUS\n0 when all went well, 1 on any error, 255 for an option that sbatch or srun "
	      "does not have.\n",
	      out);
}

void cli_completion(FILE *out)
{
	fputs("# Completion of Muster's commands for bash; generated from the registry of options.\n", out);
	for (size_t k = 0; k < sizeof about / sizeof *about; k++) {
		const char *name = mu_command_name(about[k].command);

		fprintf(out,
			"_muster_%s()\n{\n\tlocal word=\"${COMP_WORDS[COMP_CWORD]}\"\n\tCOMPREPLY=()\n\tcase "
			"\"$word\" in\n"
			"\t-*) COMPREPLY=($(compgen -W \"",
			name);
		for (int i = 0; i < OPT_COUNT; i++) {
			const struct mu_option *o = &mu_options[i];

			if (!(o->commands & about[k].command) || o->kind == MU_KIND_REFUSED)
				continue;
			fprintf(out, "--%s%s ", o->name, o->arg == MU_ARG_NEEDED ? "=" : "");
		}
		fprintf(out,
			"\" -- \"$word\")) ;;\n\t*) COMPREPLY=($(compgen -f -- \"$word\")) "
			";;\n\tesac\n}\ncomplete -o nospace -F _muster_%s %s\n",
			name, name);
	}
}
