/* cli/muster.c: what Muster has beside Slurm's commands. */
#include <string.h>

#include "cli/cli.h"
#include "cli/option.h"
#include "log/auth.h"

static int key_make(struct cli *c, size_t count, char **words)
{
	struct mu_err err = {0};
	const char *who, *secret, *public;

	if (count < 2 || count > 3 || strcmp(words[0], "make") != 0) {
		cli_error(c, "usage: muster key make DIR [NODE]");
		return 1;
	}
	who = count == 3 ? mu_arena_printf(&c->arena, "node.%s", words[2]) : "cluster";
	secret = mu_arena_printf(&c->arena, "%s/%s.secret", words[1], who);
	public = mu_arena_printf(&c->arena, "%s/%s.pub", words[1], who);
	if (auth_keygen(secret, public, &err)) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	if (count == 3)
		printf("%s: for the node %s only\n%s: to be enrolled (muster node enroll)\n", secret, words[2], public);
	else
		printf("%s: for the controllers only\n%s: for every node and every host of users\n", secret, public);
	return 0;
}

static int send_event(struct cli *c, Mu__Event *event)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__EventAsk ask = MU__EVENT_ASK__INIT;
	struct mu_err err = {0};

	ask.event = event;
	request.ask_case = MU__REQUEST__ASK_EVENT;
	request.event = &ask;
	if (cli_ask_done(c, &request, NULL, &err)) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	return 0;
}

static int node_list(struct cli *c)
{
	Mu__Query query = MU__QUERY__INIT;
	struct mu_err err = {0};
	Mu__NodeKeyRow **rows;
	size_t n;

	query.has_what = 1;
	query.what = MU__WHAT__WHAT_KEYS;
	if (cli_query_all(c, &query, &mu__node_key_row__descriptor, (void ***)&rows, &n, &err)) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	for (size_t i = 0; i < n; i++) {
		char hex[65] = "?";

		if (rows[i]->public_key.len == 32)
			auth_public_print(rows[i]->public_key.data, hex);
		printf("%s %s enrolled by %s\n", rows[i]->node, hex, rows[i]->author ? rows[i]->author : "?");
	}
	return 0;
}

/* A node may speak once its public key is enrolled under its name. */
static int node_verb(struct cli *c, size_t count, char **words)
{
	Mu__Event event = MU__EVENT__INIT;
	Mu__NodeEnrolled enrolled = MU__NODE_ENROLLED__INIT;
	struct mu_err err = {0};
	uint8_t key[32];

	if (count == 1 && !strcmp(words[0], "list"))
		return node_list(c);
	event.kind_case = MU__EVENT__KIND_NODE_ENROLLED;
	event.node_enrolled = &enrolled;
	if (count == 3 && !strcmp(words[0], "enroll")) {
		if (auth_load_public(words[2], key, &err)) {
			cli_error(c, "%s", err.text);
			return 1;
		}
		enrolled.has_public_key = 1;
		enrolled.public_key = (ProtobufCBinaryData){sizeof key, key};
	} else if (count == 2 && !strcmp(words[0], "remove")) {
		enrolled.has_remove = enrolled.remove = 1;
	} else {
		cli_error(c, "usage: muster node enroll NODE PUBLIC-KEY-FILE | remove NODE | list");
		return 1;
	}
	enrolled.node = words[1];
	return send_event(c, &event);
}

static const struct {
	const char *name, *words;
	int (*run)(struct cli *c, size_t count, char **words);
} commands[] = {
    {"key", "make DIR [NODE]", key_make},
    {"node", "enroll NODE FILE | remove NODE | list", node_verb},
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
