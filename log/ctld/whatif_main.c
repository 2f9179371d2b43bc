/* ctld/whatif_main.c: the words of `muster whatif`: see whatif.h. */
#include "log/ctld/whatif.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "log/ctld/setup.h"

static const char USAGE[] =
    "Usage: muster whatif [DIR] --from TIME [--to TIME] [CHANGES...] [--json] [--svg FILE]\n"
    "Tells what is recorded of a period again under other rules, and shows waits and use beside the real "
    "ones. With\n"
    "nothing changed it is the real history, position for position.\n"
    "DIR is a controller's StateSaveLocation, or a copy of one; without it the configuration says where this "
    "host's is.\n"
    "  --from TIME              beginning: a date (\"yesterday 15:00\", -3days, 2026-10-01) or @POSITION\n"
    "  --to TIME                end of the submissions that are reported (default: now)\n"
    "  --set KEY=VALUE          another value of a key of the configuration; may be repeated\n"
    "  --conf FILE              another configuration as a whole\n"
    "  --add-nodes LIST=LIKE    more nodes, like one that there is, in its partitions; may be repeated\n"
    "  --drop-reservation NAME  as if there were no such reservation; jobs that asked for it ask for none; "
    "may be repeated\n"
    "  --json                   all accounts and shapes, digests and counts as JSON\n"
    "  --svg FILE               a picture of both: CPUs in use over time, waits\n"
    "  -f FILE                  configuration file that says where DIR is\n"
    "  --name NAME              the controller's name in it (default: the host's)\n";

enum {
	OPT_FROM = 1,
	OPT_TO,
	OPT_SET,
	OPT_CONF,
	OPT_ADD,
	OPT_DROP,
	OPT_JSON,
	OPT_SVG,
	OPT_NAME,
	LIST_MAX = 256
};

struct args {
	struct whatif_rules rules;
	const char *set[LIST_MAX], *add[LIST_MAX], *drop[LIST_MAX];
	const char *from, *to, *svg, *file, *name, *dir;
	bool json;
};

static int die(const struct mu_err *err)
{
	fprintf(stderr, "muster: error: whatif: %s\n", err->text);
	return 1;
}

static void put(const char **list, size_t *count, const char *word)
{
	if (*count == LIST_MAX) {
		fprintf(stderr, "muster: error: whatif: more than %d changes of one kind\n", LIST_MAX);
		exit(1);
	}
	list[(*count)++] = word;
}

static void options(struct args *a, int argc, char **argv)
{
	static const struct option longs[] = {{"from", 1, NULL, OPT_FROM},
					      {"to", 1, NULL, OPT_TO},
					      {"set", 1, NULL, OPT_SET},
					      {"conf", 1, NULL, OPT_CONF},
					      {"add-nodes", 1, NULL, OPT_ADD},
					      {"drop-reservation", 1, NULL, OPT_DROP},
					      {"json", 0, NULL, OPT_JSON},
					      {"svg", 1, NULL, OPT_SVG},
					      {"name", 1, NULL, OPT_NAME},
					      {"help", 0, NULL, 'h'},
					      {NULL, 0, NULL, 0}};
	const char **words[] = {[OPT_FROM] = &a->from,
				[OPT_TO] = &a->to,
				[OPT_CONF] = &a->rules.conf,
				[OPT_SVG] = &a->svg,
				[OPT_NAME] = &a->name};
	int o;

	while ((o = getopt_long(argc, argv, "f:h", longs, NULL)) != -1) {
		if (o == 'h') {
			fputs(USAGE, stdout);
			exit(0);
		}
		if (o == '?') {
			fputs("Try \"muster whatif --help\" for more information\n", stderr);
			exit(1);
		}
		if (o == 'f')
			a->file = optarg;
		else if (o == OPT_SET)
			put(a->set, &a->rules.set_count, optarg);
		else if (o == OPT_ADD)
			put(a->add, &a->rules.add_count, optarg);
		else if (o == OPT_DROP)
			put(a->drop, &a->rules.drop_count, optarg);
		else if (o == OPT_JSON)
			a->json = true;
		else
			*words[o] = optarg;
	}
	if (optind < argc)
		a->dir = argv[optind++];
	if (optind < argc) {
		fprintf(stderr, "muster: error: whatif: \"%s\" is one word too many\n", argv[optind]);
		exit(1);
	}
	a->rules.set = a->set;
	a->rules.add = a->add;
	a->rules.drop = a->drop;
}

static int tell(const struct args *a, struct view *v, int64_t from, int64_t to)
{
	struct whatif_run run;
	struct whatif_groups g;
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	int code = whatif_tell(v, &a->rules, from, to, &run, &err);

	if (!code) {
		whatif_sum(&run, &arena, &g);
		if (a->json)
			whatif_json(&run, &g, stdout);
		else
			whatif_print(&run, &g, stdout);
		if (a->svg)
			code = whatif_picture(&run, a->svg, &err);
	}
	whatif_done(&run);
	mu_arena_free(&arena);
	return code ? die(&err) : 0;
}

int whatif_main(int argc, char **argv)
{
	struct args a = {.to = "now"};
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	struct view *v = NULL;
	int64_t from = 0, to = 0;
	int code = 0;

	options(&a, argc, argv);
	if (!a.from)
		code = mu_fail(&err, MU_EINVAL, "say from when on: --from TIME or --from @POSITION");
	if (!code)
		code = ctl_archive_open(a.dir, a.file, a.name, &arena, &v, &err);
	if (!code)
		code = whatif_moment(v, a.from, &from, &err);
	if (!code)
		code = whatif_moment(v, a.to, &to, &err);
	if (!code && to < from)
		code = mu_fail(&err, MU_EINVAL, "--to is before --from");
	code = code ? die(&err) : tell(&a, v, from, to);
	view_close(v);
	mu_arena_free(&arena);
	return code;
}
