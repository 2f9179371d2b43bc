/* ctld/whatif_main.c: the words of `muster whatif`: see whatif.h. */
#include "log/ctld/whatif.h"

#include <stdlib.h>
#include <string.h>

#include "log/ctld/setup.h"
#include "log/ctld/words.h"

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

enum { LIST_MAX = 256 };

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

static void options(struct args *a, int argc, char **argv)
{
	struct whatif_rules *r = &a->rules;
	const struct ctl_word words[] = {{"from", .text = &a->from},
					 {"to", .text = &a->to},
					 {"set", .list = a->set, .count = &r->set_count, .max = LIST_MAX},
					 {"conf", .text = &r->conf},
					 {"add-nodes", .list = a->add, .count = &r->add_count, .max = LIST_MAX},
					 {"drop-reservation", .list = a->drop, .count = &r->drop_count, .max = LIST_MAX},
					 {"json", .flag = &a->json},
					 {"svg", .text = &a->svg},
					 {"name", .text = &a->name}};

	ctl_words("whatif", USAGE, words, sizeof words / sizeof *words, &a->file, &a->dir, argc, argv);
	r->set = a->set;
	r->add = a->add;
	r->drop = a->drop;
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
