/* cli/muster.c: what Muster has beside Slurm's commands. */
#include <string.h>

#include "cli/cli.h"
#include "cli/option.h"
#include "log/auth.h"

static int key_make(struct cli *c, size_t count, char **words)
{
	struct mu_err err = {0};
	const char *secret, *public;

	if (count != 2 || strcmp(words[0], "make") != 0) {
		cli_error(c, "usage: muster key make DIR");
		return 1;
	}
	secret = mu_arena_printf(&c->arena, "%s/cluster.secret", words[1]);
	public = mu_arena_printf(&c->arena, "%s/cluster.pub", words[1]);
	if (auth_keygen(secret, public, &err)) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	printf("%s: for the controllers only\n%s: for every node and every host of users\n", secret, public);
	return 0;
}

static const struct {
	const char *name, *words;
	int (*run)(struct cli *c, size_t count, char **words);
} commands[] = {
    {"key", "make DIR", key_make},
};

int cli_muster(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	int rc;

	if (cli_begin(c, argc, argv, true, &args, &rc))
		return rc;
	for (size_t i = 0; args.word_count && i < sizeof commands / sizeof *commands; i++) {
		if (strcmp(commands[i].name, args.words[0]) == 0)
			return commands[i].run(c, args.word_count - 1, args.words + 1);
	}
	if (args.word_count)
		cli_error(c, "%s is no command of muster", args.words[0]);
	else
		cli_error(c, "which command? muster --help lists them");
	return 1;
}
