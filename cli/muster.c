/* cli/muster.c: what Muster has beside Slurm's commands. */
#include "cli/muster.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/dump.h"
#include "cli/option.h"
#include "log/auth.h"
#include "proto/base/hash.h"
#include "proto/conf.h"
#include "proto/conf_fold.h"

enum { MEMBER_MSEC = 120000, SHOWN_HASH = 64, DIGEST_MSEC = 3000, DIGEST_ROUNDS = 20 };

static int say(struct cli *c, const struct mu_err *err)
{
	cli_error(c, "%s", err->text);
	return 1;
}

static int usage(struct cli *c, const char *text)
{
	cli_error(c, "usage: muster %s", text);
	return 1;
}

/* ---- key ---- */

static int key_make(struct cli *c, size_t count, char **words)
{
	struct mu_err err = {0};
	const char *who, *secret, *public;

	if (count < 2 || count > 3 || strcmp(words[0], "make") != 0)
		return usage(c, "key make DIR [NODE]");
	who = count == 3 ? mu_arena_printf(&c->arena, "node.%s", words[2]) : "cluster";
	secret = mu_arena_printf(&c->arena, "%s/%s.secret", words[1], who);
	public = mu_arena_printf(&c->arena, "%s/%s.pub", words[1], who);
	if (auth_keygen(secret, public, &err))
		return say(c, &err);
	if (count == 3)
		printf("%s: for the node %s only\n%s: to be enrolled (muster node enroll)\n", secret,
		       words[2], public);
	else
		printf("%s: for the controllers only\n%s: for every node and every host of users\n", secret,
		       public);
	return 0;
}

/* ---- digest ---- */

struct told {
	struct cli one;
	const Mu__DigestReply *digest; /* NULL: it did not answer */
	struct mu_err err;
};

static void ask_digest(struct told *t)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__DigestAsk ask = MU__DIGEST_ASK__INIT;
	Mu__Reply *reply;

	request.ask_case = MU__REQUEST__ASK_DIGEST;
	request.digest = &ask;
	t->digest = NULL;
	if (cli_ask_within(&t->one, &request, DIGEST_MSEC, &reply, &t->err))
		return;
	if (reply->code)
		mu_fail(&t->err, reply->code, "%s", reply->text ? reply->text : mu_strerror(reply->code));
	else if (reply->answer_case != MU__REPLY__ANSWER_DIGEST)
		mu_fail(&t->err, MU_EPROTO, "no digest in its answer");
	else
		t->digest = reply->digest;
}

static bool level_with_each_other(const struct told *t, unsigned count)
{
	const Mu__DigestReply *first = NULL;

	for (unsigned i = 0; i < count; i++) {
		if (t[i].digest && first && t[i].digest->pos != first->pos)
			return false;
		first = first ? first : t[i].digest;
	}
	return true;
}

static void print_digest(const char *name, const Mu__DigestReply *d)
{
	struct mu_buf line MU_CLEANUP(mu_buf_free) = {0};

	mu_buf_printf(&line, "%s @%" PRIu64 " digest ", name, d->pos);
	for (size_t k = 0; k < d->digest.len && k < SHOWN_HASH; k++)
		mu_buf_printf(&line, "%02x", d->digest.data[k]);
	mu_buf_str(&line, " chain ");
	for (size_t k = 0; k < d->chain.len && k < SHOWN_HASH; k++)
		mu_buf_printf(&line, "%02x", d->chain.data[k]);
	printf("%s level %u\n", (char *)line.data, d->level);
}

static int digest(struct cli *c, size_t count, char **words)
{
	struct told told[CLI_CONTROLLERS_MAX] = {0};
	struct mu_err err = {0};
	int rc = 0;

	if (count)
		return usage(c, "digest");
	if (cli_open(c, &err))
		return say(c, &err);
	for (unsigned i = 0; i < c->conf.controllers; i++) {
		if (cli_open_one(c, i, &told[i].one, &err))
			return say(c, &err);
		ask_digest(&told[i]);
	}
	/* Entries commit while we ask: a few rounds usually find all at one position. */
	for (int round = 0; round < DIGEST_ROUNDS && !level_with_each_other(told, c->conf.controllers);
	     round++) {
		for (unsigned i = 0; i < c->conf.controllers; i++) {
			if (told[i].digest)
				ask_digest(&told[i]);
		}
	}
	for (unsigned i = 0; i < c->conf.controllers; i++) {
		if (told[i].digest) {
			print_digest(c->conf.controller[i].name, told[i].digest);
		} else {
			cli_error(c, "%s: %s", c->conf.controller[i].name, told[i].err.text);
			rc = 1;
		}
		cli_done(&told[i].one);
	}
	return rc;
}

/* ---- backup ---- */

enum { BACKUP_MSEC = 3600 * 1000 };

static int backup(struct cli *c, size_t count, char **words)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__ControlAsk ask = MU__CONTROL_ASK__INIT;
	Mu__Reply *reply = NULL;
	struct mu_err err = {0};
	char here[4096];

	if (count != 1 || !*words[0])
		return usage(c, "backup DIR");
	ask.verb = (char *)"backup";
	ask.arg = words[0];
	if (*words[0] != '/' && getcwd(here, sizeof here))
		ask.arg = mu_arena_printf(&c->arena, "%s/%s", here, words[0]);
	request.ask_case = MU__REQUEST__ASK_CONTROL;
	request.control = &ask;
	int rc = cli_ask_within(c, &request, BACKUP_MSEC, &reply, &err);
	if (rc)
		return say(c, &err);
	if (reply->code) {
		cli_error(c, "%s", reply->text ? reply->text : mu_strerror(reply->code));
		return 1;
	}
	printf("%s\n", reply->text);
	return 0;
}

/* ---- controller ---- */

static int controller_list(struct cli *c)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__PingAsk ask = MU__PING_ASK__INIT;
	struct mu_err err = {0};
	Mu__Reply *reply;

	request.ask_case = MU__REQUEST__ASK_PING;
	request.ping = &ask;
	if (cli_ask_done(c, &request, &reply, &err))
		return say(c, &err);
	if (reply->answer_case != MU__REPLY__ANSWER_PING)
		return say(c, &(struct mu_err){.text = "A controller answered without the list"});
	printf("%-16s %-24s %-10s %-6s %-6s %12s %6s %s\n", "NAME", "ADDRESS", "ROLE", "VOTER", "TERM",
	       "POSITION", "LEVEL", "REPLICA");
	for (size_t i = 0; i < reply->ping->n_controller; i++) {
		const Mu__ControllerState *s = reply->ping->controller[i];

		printf("%-16s %-24s %-10s %-6s %-6" PRIu64 " %12" PRIu64 " %6u %" PRIu64 "\n",
		       s->name ? s->name : "?", s->address ? s->address : "?", s->role ? s->role : "?",
		       s->voter ? "yes" : "no", s->term, s->pos, s->level, s->replica);
	}
	return 0;
}

static int controller(struct cli *c, size_t count, char **words)
{
	static const char text[] = "controller list | add NAME [ADDRESS:PORT [REPLICA]] | promote NAME | "
				   "remove NAME | transfer NAME | "
				   "recover DIR --i-have-lost-the-others";
	Mu__Request request = MU__REQUEST__INIT;
	Mu__MemberAsk ask = MU__MEMBER_ASK__INIT;
	const char *verb = count ? words[0] : "list";
	struct mu_err err = {0};
	Mu__Reply *reply;

	if (strcmp(verb, "list") == 0 && count <= 1)
		return controller_list(c);
	if (strcmp(verb, "recover") == 0)
		return muster_history(c, "controller", count, words);
	if (strcmp(verb, "add") == 0
		? count < 2 || count > 4
		: count != 2 || (strcmp(verb, "promote") != 0 && strcmp(verb, "remove") != 0 &&
				 strcmp(verb, "transfer") != 0))
		return usage(c, text);
	ask.verb = words[0];
	ask.name = words[1];
	if (count > 2)
		ask.address = words[2];
	if (count > 3) {
		ask.has_replica = 1;
		ask.replica = strtoull(words[3], NULL, 10);
	} else if (strcmp(verb, "add") != 0 && words[1][0] >= '0' && words[1][0] <= '9') {
		ask.has_replica = 1; /* by its number where it has lost its name */
		ask.replica = strtoull(words[1], NULL, 10);
	}
	request.ask_case = MU__REQUEST__ASK_MEMBER;
	request.member = &ask;
	if (cli_ask_within(c, &request, MEMBER_MSEC, &reply, &err))
		return say(c, &err);
	if (reply->code) {
		cli_error(c, "%s", reply->text ? reply->text : mu_strerror(reply->code));
		return 1;
	}
	if (reply->text && *reply->text)
		printf("%s\n", reply->text);
	return 0;
}

/* ---- node ---- */

static int node_list(struct cli *c)
{
	Mu__Query ask = MU__QUERY__INIT;
	struct mu_err err = {0};
	void **rows;
	size_t n;

	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_KEYS;
	if (cli_query_all(c, &ask, &mu__node_key_row__descriptor, &rows, &n, &err))
		return say(c, &err);
	for (size_t i = 0; i < n; i++) {
		const Mu__NodeKeyRow *k = rows[i];
		char hex[65] = "?";

		if (k->public_key.len == 32)
			auth_public_print(k->public_key.data, hex);
		printf("%-24s %s @%" PRIu64 " by %s\n", k->node ? k->node : "?", hex, k->since_pos,
		       k->author ? k->author : "?");
	}
	return 0;
}

static int node(struct cli *c, size_t count, char **words)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__EventAsk ask = MU__EVENT_ASK__INIT;
	Mu__Event event = MU__EVENT__INIT;
	Mu__NodeEnrolled enrolled = MU__NODE_ENROLLED__INIT;
	struct mu_err err = {0};
	uint8_t key[32];

	if (count == 1 && strcmp(words[0], "list") == 0)
		return node_list(c);
	if (count == 3 && strcmp(words[0], "enroll") == 0) {
		/* The key as hex, or the file that holds it. */
		if (auth_public_parse(words[2], key) && auth_load_public(words[2], key, &err))
			return say(c, &err);
		enrolled.has_public_key = 1;
		enrolled.public_key = (ProtobufCBinaryData){sizeof key, key};
	} else if (count == 2 && strcmp(words[0], "remove") == 0) {
		enrolled.has_remove = enrolled.remove = 1;
	} else {
		return usage(c, "node list | enroll NODE PUBLIC_KEY_OR_FILE | remove NODE");
	}
	enrolled.node = words[1];
	event.kind_case = MU__EVENT__KIND_NODE_ENROLLED;
	event.node_enrolled = &enrolled;
	ask.event = &event;
	request.ask_case = MU__REQUEST__ASK_EVENT;
	request.event = &ask;
	return cli_ask_done(c, &request, NULL, &err) ? say(c, &err) : 0;
}

/* ---- config ---- */

static int held_config(struct cli *c, const Mu__ConfigRow **ret, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	void **rows;
	size_t n;
	int rc;

	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_CONFIG;
	rc = cli_query_all(c, &ask, &mu__config_row__descriptor, &rows, &n, err);
	if (rc)
		return rc;
	if (!n || !((Mu__ConfigRow *)rows[0])->config)
		return mu_fail(err, MU_ENOTREADY, "The controllers hold no configuration yet");
	*ret = rows[0];
	return 0;
}

static int read_companion(void *arg, const char *name, struct mu_arena *arena, const char **ret_text,
			  struct mu_err *err)
{
	const char *path = arg, *slash = strrchr(path, '/');
	char *text;
	size_t len;
	int rc = cli_read_file(name[0] == '/' || !slash
				   ? name
				   : mu_arena_printf(arena, "%.*s/%s", (int)(slash - path), path, name),
			       64 << 20, arena, &text, &len, err);

	*ret_text = rc ? NULL : text;
	return rc;
}

static void no_note(void *arg, const char *sentence)
{
}

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static char **sorted_lines(struct cli *c, const Mu__Config *config, size_t *ret_count)
{
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};
	char **lines, *rest, *line;
	size_t count = 0, cap = 1;

	mu_buf_add(&text, "", 0);
	cli_dump_lines(&config->base, "", &text);
	for (size_t i = 0; i < text.len; i++)
		cap += text.data[i] == '\n';
	lines = mu_arena_alloc(&c->arena, cap * sizeof *lines);
	rest = mu_arena_strdup(&c->arena, (char *)text.data);
	while ((line = strsep(&rest, "\n"))) {
		/* The hash of the text differs with every remark in it. */
		if (*line && strncmp(line, "source_hash", 11) != 0)
			lines[count++] = line;
	}
	qsort(lines, count, sizeof *lines, compare_lines);
	*ret_count = count;
	return lines;
}

static int config_diff(struct cli *c, const Mu__ConfigRow *held)
{
	struct mu_err err = {0};
	Mu__Config *mine;
	const char *path;
	char *text, **a, **b;
	size_t len, na, nb, i = 0, k = 0, differ = 0;

	if (cli_conf_find(&c->arena, &path, &err) ||
	    cli_read_file(path, 64 << 20, &c->arena, &text, &len, &err) ||
	    mu_conf_parse(path, text, read_companion, no_note, (void *)path, &c->arena, &mine, &err))
		return say(c, &err);
	a = sorted_lines(c, mu_conf_fold(held->config, &c->arena), &na);
	b = sorted_lines(c, mu_conf_fold(mine, &c->arena), &nb);
	while (i < na || k < nb) {
		int d = i == na ? 1 : k == nb ? -1 : strcmp(a[i], b[k]);

		if (d < 0)
			printf("- %s\n", a[i]);
		if (d > 0)
			printf("+ %s\n", b[k]);
		differ += d != 0;
		i += d <= 0;
		k += d >= 0;
	}
	if (!differ)
		printf("%s is what the cluster holds since @%" PRIu64 "\n", path, held->since_pos);
	return differ != 0;
}

int muster_config(struct cli *c, size_t count, char **words)
{
	const Mu__ConfigRow *held = NULL;
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};
	struct mu_err err = {0};

	if (count < 1 || count > 2 ||
	    (strcmp(words[0], "get") != 0 && (strcmp(words[0], "diff") != 0 || count != 1)))
		return usage(c, "config get [KEY] | diff");
	if (held_config(c, &held, &err))
		return say(c, &err);
	if (strcmp(words[0], "diff") == 0)
		return config_diff(c, held);
	if (count == 2) {
		const char *value = mu_conf_get(held->config, words[1], NULL);

		if (!value) {
			cli_error(c, "The configuration has no key %s", words[1]);
			return 1;
		}
		printf("%s\n", value);
		return 0;
	}
	cli_dump_lines(&held->config->base, "", &text);
	fwrite(text.data ? (char *)text.data : "", 1, text.len, stdout);
	return 0;
}

/* ---- muster-history ---- */

int muster_history(struct cli *c, const char *verb, size_t count, char **words)
{
	char **argv = mu_arena_alloc(&c->arena, (count + 3) * sizeof *argv), self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 64);
	size_t k = 0;
	char *slash;

	argv[k++] = (char *)"muster-history";
	argv[k++] = (char *)verb;
	for (size_t i = 0; i < count; i++)
		argv[k++] = words[i];
	fflush(stdout);
	/* The one beside this program or where it is installed, else the one on the path. */
	if (n > 0) {
		self[n] = 0;
		slash = strrchr(self, '/');
		if (slash) {
			snprintf(slash + 1, 20, "muster-history");
			execv(self, argv);
			snprintf(slash + 1, 48, "../libexec/muster/muster-history");
			execv(self, argv);
		}
	}
	execvp("muster-history", argv);
	cli_error(c, "%s is done by the program muster-history, which is not here: %s", verb,
		  strerror(errno));
	return 1;
}

static const struct {
	const char *name, *words, *what;
	int (*run)(struct cli *c, size_t count, char **words);
} commands[] = {
    {"receipt", "verify FILE [--key FILE]", "check a receipt of sbatch --receipt, without the cluster",
     muster_receipt},
    {"log", "dump|verify [FROM[-TO]|DIR|SLICE] [--json] | tail [-n N] [-f] | export FILE [FROM-TO]",
     "print or check the log", muster_log},
    {"why", "JOB [--before OTHER] [--what-would-help[=TIME]] [--at TIME] [--json]",
     "why a job waits or waited", muster_why},
    {"events", "[--from @POS|TIME] [--kind K] [--user U] [--job N] [--node X] [--follow] [--json]",
     "what happens, a line each", muster_events},
    {"wait", "JOB [--state STATE] [--timeout SECONDS]", "until a job is in a state", muster_wait},
    {"forecast", "[JOBS] [--days N] [--json] | --score [--from TIME] [--json]",
     "when waiting jobs may start, learnt from how long jobs really ran; how good that was", muster_forecast},
    {"diff", "--from TIME|@POS [--to TIME|@POS]", "what changed between two moments", muster_diff},
    {"audit", "acts [--who USERS] [--since TIME] [--until TIME] [--json] | ...",
     "what people did; others by muster-history", muster_audit},
    {"digest", "", "position, digest and chain of every controller", digest},
    {"controller", "list | add | promote | remove | transfer | recover", "members of the cluster",
     controller},
    {"undo", "@POS[.N] --plan | --apply", "make up for what an administrator did", muster_undo},
    {"backup", "DIR", "all that a controller of this host knows, into DIR", backup},
    {"node", "list | enroll NODE KEY | remove NODE", "keys of the nodes", node},
    {"config", "get [KEY] | diff", "the configuration that the cluster holds", muster_config},
    {"bench", "submit [-c CLIENTS] [-n JOBS]", "submissions a second", muster_bench},
    {"key", "make DIR [NODE]", "draw the cluster's key, or a node's", key_make},
};
static const char *const history[] = {"replay", "sim", "audit", "whatif", "bisect", "restore", "archive"};

static void list_commands(FILE *out)
{
	fprintf(out, "\nCommands:\n");
	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		fprintf(out, "  %-11s %-58s %s\n", commands[i].name, commands[i].words, commands[i].what);
	fprintf(out, "  replay ...  done by muster-history over an archive: muster-history --help\n"
		     "  sbatch srun squeue sinfo scancel scontrol sacct sdiag ...: Slurm's commands\n");
}

static bool asks_help(size_t count, char **words)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0)
			return true;
	}
	return false;
}

int cli_muster(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	int rc;

	if (cli_begin(c, argc, argv, true, &args, &rc)) {
		if (cli_args_has(&args, OPT_help_h))
			list_commands(stdout);
		return rc;
	}
	if (args.word_count == 1 && strcmp(args.words[0], "version") == 0) {
		cli_version(stdout);
		return 0;
	}
	if (args.word_count == 1 && strcmp(args.words[0], "help") == 0) {
		cli_help(c, stdout);
		list_commands(stdout);
		return 0;
	}
	for (size_t i = 0; args.word_count && i < sizeof commands / sizeof *commands; i++) {
		if (strcmp(commands[i].name, args.words[0]) != 0)
			continue;
		if (asks_help(args.word_count - 1, args.words + 1)) {
			printf("Usage: muster %s %s\n  %s\n", commands[i].name, commands[i].words,
			       commands[i].what);
			return 0;
		}
		return commands[i].run(c, args.word_count - 1, args.words + 1);
	}
	for (size_t i = 0; args.word_count && i < sizeof history / sizeof *history; i++) {
		if (strcmp(history[i], args.words[0]) == 0)
			return muster_history(c, args.words[0], args.word_count - 1, args.words + 1);
	}
	/* What the build makes manual pages and completions from. */
	if (args.word_count == 3 && strcmp(args.words[0], "man") == 0 && mu_command_parse(args.words[1])) {
		struct mu_err err = {0};
		char *prose;
		size_t len;

		if (cli_read_file(args.words[2], 1 << 20, &c->arena, &prose, &len, &err))
			return say(c, &err);
		cli_man(mu_command_parse(args.words[1]), prose, stdout);
		return 0;
	}
	if (args.word_count == 2 && strcmp(args.words[0], "completion") == 0 &&
	    strcmp(args.words[1], "bash") == 0) {
		cli_completion(stdout);
		return 0;
	}
	if (args.word_count)
		cli_error(c, "\"%s\" is no command of muster; muster --help lists them", args.words[0]);
	else
		cli_error(c, "which command? muster --help lists them");
	return 1;
}
