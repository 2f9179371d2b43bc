/* cli/scontrol.c: the verbs of scontrol, and its prompt. */
#include "cli/scontrol.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/model.h"
#include "cli/prompt.h"
#include "proto/conf.h"
#include "proto/conf_fold.h"
#include "proto/version.h"

/* "primary", "backup", or where there are several "backup2". */
static const char *place_of(struct scontrol *s, const struct cli_conf *conf, unsigned i)
{
	return i == 0			? "primary"
	       : conf->controllers == 2 ? "backup"
					: mu_arena_printf(&s->cli->arena, "backup%u", i);
}

static bool is_up(const Mu__PingReply *reply, const char *name)
{
	for (size_t k = 0; reply && k < reply->n_controller; k++) {
		const Mu__ControllerState *c = reply->controller[k];

		if (c->name && strcmp(c->name, name) == 0)
			return c->role && strcmp(c->role, "down") != 0;
	}
	return false;
}

static int ping_json(struct scontrol *s, const struct cli_conf *conf, const Mu__PingReply *reply,
		     int64_t latency_usec)
{
	struct cli_model m = {0};
	struct cli_json *j = &m.json;

	cli_model_begin(s->cli, &m);
	json_array(j, "pings");
	for (unsigned i = 0; i < conf->controllers; i++) {
		bool up = is_up(reply, conf->controller[i].name);

		json_object(j, NULL);
		json_text(j, "hostname", conf->controller[i].name);
		json_text(j, "pinged", up ? "UP" : "DOWN");
		json_bool(j, "responding", up);
		json_number(j, "latency", up ? latency_usec : 0);
		json_text(j, "mode", place_of(s, conf, i));
		json_bool(j, "primary", i == 0);
		json_object_end(j);
	}
	json_array_end(j);
	cli_model_end(&m);
	return reply ? 0 : 1;
}

int scontrol_ping(struct scontrol *s, FILE *out)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__PingAsk ask = MU__PING_ASK__INIT;
	const Mu__PingReply *said = NULL;
	struct cli_conf conf;
	struct mu_err err = {0};
	Mu__Reply *reply = NULL;
	int64_t began = cli_now_usec();

	if (cli_conf_read(&s->cli->arena, &conf, &err)) {
		cli_error(s->cli, "%s", err.text);
		return 1;
	}
	request.ask_case = MU__REQUEST__ASK_PING;
	request.ping = &ask;
	if (cli_ask_done(s->cli, &request, &reply, &err) == 0 && reply->answer_case == MU__REPLY__ANSWER_PING)
		said = reply->ping;
	if (s->json)
		return ping_json(s, &conf, said, cli_now_usec() - began);
	for (unsigned i = 0; i < conf.controllers; i++)
		fprintf(out, "Slurmctld(%s) at %s is %s\n", place_of(s, &conf, i), conf.controller[i].name,
			is_up(said, conf.controller[i].name) ? "UP" : "DOWN");
	return said ? 0 : 1;
}

/* ---- configuration ---- */

struct conf_files {
	struct cli *cli;
	const char *path;
};

static int read_conf_file(void *arg, const char *name, struct mu_arena *arena, const char **ret_text,
			  struct mu_err *err)
{
	struct conf_files *f = arg;
	const char *slash = strrchr(f->path, '/'), *full = name;
	char *text;
	size_t len;
	int rc;

	if (name[0] != '/' && slash)
		full = mu_arena_printf(arena, "%.*s/%s", (int)(slash - f->path), f->path, name);
	rc = cli_read_file(full, 64 << 20, arena, &text, &len, err);
	*ret_text = rc ? NULL : text;
	return rc;
}

static void note(void *arg, const char *sentence)
{
	cli_say(((struct conf_files *)arg)->cli, "%s", sentence);
}

int scontrol_reconfigure(struct scontrol *s)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__ReconfigureAsk ask = MU__RECONFIGURE_ASK__INIT;
	struct conf_files files = {.cli = s->cli};
	struct mu_err err = {0};
	Mu__Config *config;
	Mu__Reply *reply;
	char *text;
	size_t len;

	if (cli_conf_find(&s->cli->arena, &files.path, &err) ||
	    cli_read_file(files.path, 64 << 20, &s->cli->arena, &text, &len, &err) ||
	    mu_conf_parse(files.path, text, read_conf_file, note, &files, &s->cli->arena, &config, &err)) {
		cli_error(s->cli, "%s", err.text);
		return 1;
	}
	ask.config = mu_conf_fold(config, &s->cli->arena);
	ask.source = (char *)files.path;
	if (cli_args_has(s->args, OPT_reconfigure_plan))
		return scontrol_plan(s->cli, ask.config);
	request.ask_case = MU__REQUEST__ASK_RECONFIGURE;
	request.reconfigure = &ask;
	if (cli_ask_done(s->cli, &request, &reply, &err)) {
		fprintf(stderr, "slurm_reconfigure error: %s\n", err.text);
		return 1;
	}
	if (reply->text && *reply->text && !s->cli->quiet)
		printf("%s\n", reply->text);
	return 0;
}

static int control(struct scontrol *s, const char *verb, const char *arg)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__ControlAsk ask = MU__CONTROL_ASK__INIT;
	struct mu_err err = {0};
	Mu__Reply *reply;

	ask.verb = (char *)verb;
	ask.arg = (char *)arg;
	request.ask_case = MU__REQUEST__ASK_CONTROL;
	request.control = &ask;
	if (cli_ask_done(s->cli, &request, &reply, &err)) {
		fprintf(stderr, "slurm_%s error: %s\n", verb, err.text);
		return 1;
	}
	if (reply->text && *reply->text)
		printf("%s\n", reply->text);
	return 0;
}

/* Each controller has its own level and flags: all of them are told. */
static int control_all(struct scontrol *s, const char *verb, const char *arg)
{
	struct mu_err err = {0};
	int rc = 0;

	if (cli_open(s->cli, &err)) {
		fprintf(stderr, "slurm_%s error: %s\n", verb, err.text);
		return 1;
	}
	for (unsigned i = 0; i < s->cli->conf.controllers; i++) {
		struct cli one;
		struct scontrol to = *s;

		to.cli = &one;
		if (cli_open_one(s->cli, i, &one, &err)) {
			fprintf(stderr, "slurm_%s error: %s\n", verb, err.text);
			rc = 1;
			continue;
		}
		rc |= control(&to, verb, arg);
		cli_done(&one);
	}
	return rc;
}

/* Leadership goes to the controller that is named, by its name or its place in the file, or else to the other
 * one that is furthest. Nobody stops for it: the one that led follows. */
static int takeover(struct scontrol *s, char **words, size_t count)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__MemberAsk ask = MU__MEMBER_ASK__INIT;
	struct mu_err err = {0};
	int64_t place;

	if (cli_open(s->cli, &err)) {
		fprintf(stderr, "slurm_takeover error: %s\n", err.text);
		return 1;
	}
	ask.verb = (char *)"transfer";
	if (count &&
	    mu_number_parse("takeover", words[0], 0, s->cli->conf.controllers - 1, &place, NULL) == 0)
		ask.name = (char *)s->cli->conf.controller[place].name;
	else if (count)
		ask.name = words[0];
	request.ask_case = MU__REQUEST__ASK_MEMBER;
	request.member = &ask;
	if (cli_ask_done(s->cli, &request, NULL, &err)) {
		fprintf(stderr, "slurm_takeover error: %s\n", err.text);
		return 1;
	}
	return 0;
}

/* Ends the controllers. A supervisor that is told to keep them up starts them again. What goes on without
 * them is said once they end. */
static int shutdown_all(struct scontrol *s, char **words, size_t count)
{
	bool alone =
	    count == 1 && (strcasecmp(words[0], "slurmctld") == 0 || strcasecmp(words[0], "controller") == 0);

	if (count && !alone) {
		cli_error(s->cli, "shutdown: \"%s\" is none of slurmctld and controller", words[0]);
		return 1;
	}
	if (control_all(s, "shutdown", ""))
		return 1;
	if (!alone)
		cli_say(s->cli, "the controllers end; nodes and their jobs go on (systemctl stop "
				"muster-agent on a node ends its agent)");
	return 0;
}

/* ---- words ---- */

bool scontrol_is_absent(struct scontrol *s, const char *verb, const struct scontrol_absent *list,
			size_t count, const char *word)
{
	for (size_t i = 0; i < count; i++) {
		if (strcasecmp(list[i].name, word) == 0) {
			cli_error(s->cli, "%s%s is not supported: %s", verb, list[i].name, list[i].why);
			return true;
		}
	}
	return false;
}

static int do_ping(struct scontrol *s, char **words, size_t count)
{
	return scontrol_ping(s, stdout);
}

static int do_reconfigure(struct scontrol *s, char **words, size_t count)
{
	return scontrol_reconfigure(s);
}

static int do_setdebug(struct scontrol *s, char **words, size_t count)
{
	return control_all(s, s->verb, words[0]);
}

static int do_completing(struct scontrol *s, char **words, size_t count)
{
	return scontrol_completing(s);
}

static int do_errnumstr(struct scontrol *s, char **words, size_t count)
{
	return scontrol_errnumstr(s, words[0]);
}

static int do_version(struct scontrol *s, char **words, size_t count)
{
	cli_version(stdout);
	return 0;
}

static int do_help(struct scontrol *s, char **words, size_t count)
{
	cli_help(s->cli, stdout);
	return 0;
}

/* Words of the prompt that hold for the lines behind them. */
static int do_mode(struct scontrol *s, char **words, size_t count)
{
	s->oneline = s->oneline || strcmp(s->verb, "oneliner") == 0;
	s->details = s->details || strcmp(s->verb, "details") == 0;
	s->all = strcmp(s->verb, "all") == 0 || (s->all && strcmp(s->verb, "hide") != 0);
	s->cli->quiet = s->cli->quiet || strcmp(s->verb, "quiet") == 0;
	return 0;
}

/* Ends the prompt, which looks for it itself; behind the command's name there is nothing to end. */
static int do_nothing(struct scontrol *s, char **words, size_t count)
{
	return 0;
}

enum { MANY = 65535 };
/* The first one that fits: a word with at least LEAST letters that begins NAME. */
static const struct verb {
	const char *name;
	unsigned least, from, to; /* how many words may stand behind it */
	int (*run)(struct scontrol *s, char **words, size_t count);
} verbs[] = {
    {"show", 3, 1, MANY, scontrol_show},
    {"ping", 3, 0, 0, do_ping},
    {"update", 1, 0, MANY, scontrol_update},
    {"create", 2, 0, MANY, scontrol_create},
    {"delete", 1, 0, MANY, scontrol_delete},
    {"hold", 4, 1, MANY, scontrol_jobs},
    {"uhold", 5, 1, MANY, scontrol_jobs},
    {"release", 3, 1, MANY, scontrol_jobs},
    {"requeue", 3, 1, MANY, scontrol_jobs},
    {"requeuehold", 8, 1, MANY, scontrol_jobs},
    {"suspend", 2, 1, MANY, scontrol_jobs},
    {"resume", 3, 1, MANY, scontrol_jobs},
    {"top", 3, 1, MANY, scontrol_jobs},
    {"reconfigure", 3, 0, 0, do_reconfigure},
    {"setdebug", 4, 1, 1, do_setdebug},
    {"setdebugflags", 9, 1, 1, do_setdebug},
    {"completing", 4, 0, 0, do_completing},
    {"errnumstr", 3, 1, 1, do_errnumstr},
    {"takeover", 4, 0, 1, takeover},
    {"shutdown", 2, 0, 1, shutdown_all},
    {"write", 2, 1, 3, scontrol_write},
    {"wait_job", 4, 1, 1, scontrol_wait_job},
    {"listpids", 5, 0, 2, scontrol_listpids},
    {"version", 2, 0, MANY, do_version},
    {"help", 1, 0, MANY, do_help},
    {"oneliner", 1, 0, 0, do_mode},
    {"details", 3, 0, 0, do_mode},
    {"all", 1, 0, 0, do_mode},
    {"quiet", 4, 0, 0, do_mode},
    {"verbose", 4, 0, 0, do_mode},
    {"hide", 2, 0, 0, do_mode},
    {"exit", 3, 0, 0, do_nothing},
    {"quit", 4, 0, 0, do_nothing},
};

static const struct scontrol_absent absent[] = {
    {"notify", "there is no channel to a job's own terminal; write to its output file"},
    {"pidinfo", "a process names its job in /proc/PID/cgroup; listpids JOB lists processes"},
    {"listjobs", "squeue -w NODE lists the jobs of a node"},
    {"liststeps", "squeue -s -w NODE lists the steps of a node"},
    {"cluster", "there is one cluster; -M asks a follower about others"},
    {"fsdampeningfactor", "shares are counted by the fair tree, which has no damping"},
    {"reboot", "nodes are not rebooted by the cluster; drain them and reboot them yourself"},
    {"cancel_reboot", "nodes are not rebooted by the cluster"},
    {"power", "nodes are not powered up or down by the cluster"},
    {"token", "users are proven by MUNGE or the local socket"},
    {"schedloglevel", "use setdebugflags"},
    {"abort", "stop a controller with its own service manager"},
    {"getent", "nodes take users and groups from their own name service"},
    {"gethost", "addresses are those of scontrol show node NAME"},
    {"checkpoint", "jobs are not checkpointed; requeue starts one anew"},
};

static const struct verb *verb_of(const char *word)
{
	size_t len = strlen(word);

	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
		const struct verb *v = &verbs[i];

		if (len >= v->least && strncasecmp(word, v->name, len) == 0)
			return v;
	}
	return strcasecmp(word, "holdu") == 0 ? verb_of("hold") : NULL;
}

static int run(struct scontrol *s, char **words, size_t count)
{
	const struct verb *v = verb_of(words[0]);

	if (!v) {
		if (!scontrol_is_absent(s, "", absent, sizeof absent / sizeof *absent, words[0]))
			cli_error(s->cli, "invalid keyword: %s", words[0]);
		return 1;
	}
	if (count - 1 < v->from || count - 1 > v->to) {
		cli_error(s->cli, "too %s arguments for keyword:%s", count - 1 < v->from ? "few" : "many",
			  v->name);
		return 1;
	}
	s->verb = v->name;
	return v->run(s, words + 1, count - 1);
}

static int prompt_line(void *arg, char **words, size_t count)
{
	const struct verb *v = verb_of(words[0]);

	return v && v->run == do_nothing ? CLI_PROMPT_END : run(arg, words, count);
}

int cli_scontrol(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	struct scontrol s = {.cli = c, .args = &args};
	struct mu_err err = {0};
	int rc;

	if (cli_begin(c, argc, argv, false, &args, &rc))
		return rc;
	s.oneline = cli_args_has(&args, OPT_oneliner);
	s.details = cli_args_has(&args, OPT_details);
	s.json = cli_model_wanted(&args);
	s.history = cli_args_has(&args, OPT_history);
	s.trail = cli_args_has(&args, OPT_trail);
	s.all = cli_args_has(&args, OPT_all);
	if ((cli_args_has(&args, OPT_at) && cli_set_at(c, cli_args_value(&args, OPT_at), &err)) ||
	    cli_check_clusters(c, &args, &err)) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	return args.word_count ? run(&s, args.words, args.word_count) : cli_prompt(c, prompt_line, &s);
}
