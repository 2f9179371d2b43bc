/* ctld/history_main.c: muster-history: the offline verbs over one controller's directory. `muster VERB` runs it.
 * It never writes to an archive; `controller recover` alone changes a directory, and says what that means. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log/ctld/archive.h"
#include "log/ctld/setup.h"
#include "log/ctld/sim.h"
#include "log/ctld/restore.h"
#include "log/ctld/whatif.h"
#include "log/diag.h"
#include "proto/conf.h"
#include "proto/units.h"
#include "proto/version.h"
#include "query/history.h"
#include "query/keep.h"

static const char USAGE[] =
	"Usage: muster-history VERB [DIR] [OPTIONS...]\n"
	"  replay [DIR]              fold the archive and print the position, digest and chain it reaches\n"
	"  audit replay [DIR]        decide every recorded pass again and compare, byte for byte\n"
	"  sim ...                   run the scheduler in virtual time over a workload: sim --help\n"
	"  whatif ...                what would have been under other rules: whatif --help\n"
	"  bisect ...                which event changed what jobs wait: bisect --help\n"
	"  archive export|import ... history into a file, and back for reading: archive --help\n"
	"  restore BACKUP DIR        make a controller's directory out of a backup: restore --help\n"
	"  log verify [DIR]          recompute the hash chain; names the first position that is wrong\n"
	"  log dump [DIR]            print every entry, a line for each part\n"
	"  log tail [DIR]            print the last entries\n"
	"  controller recover DIR    make a cluster of one out of DIR after the others are lost for ever\n"
	"DIR is a controller's StateSaveLocation; without it the configuration says where this host's is.\n"
	"  --from POS, --to POS      the positions to look at (default: all)\n"
	"  -n COUNT                  entries that tail prints (default 10)\n"
	"  --name NAME               the controller's name (default: the last part of DIR, else the host's name)\n"
	"  --json                    JSON lines\n"
	"  --i-have-lost-the-others  needed by recover\n"
	"  -f FILE                   configuration file\n"
	"\nHelp options:\n"
	"  -h, --help                show this help\n"
	"  -V, --version             print the version and exit\n";

struct args {
	const char *conf, *dir, *name;
	uint64_t from, to, count;
	bool json, lost;
};

static int die(const struct mu_err *err)
{
	fprintf(stderr, "muster: error: %s\n", err->text);
	return 1;
}

static int print_line(void *arg, const char *text, size_t len)
{
	(void)arg;
	return fwrite(text, 1, len, stdout) == len ? 0 : MU_EIO;
}

static int open_view(const struct args *a, struct view **ret, struct mu_err *err)
{
	struct mu_arena arena = {0};
	int code = ctl_archive_open(a->dir, NULL, NULL, &arena, ret, err);

	mu_arena_free(&arena);
	return code;
}

static int replay(const struct args *a)
{
	char digest[65], chain[65];
	struct hist_replay r = {0};
	struct mu_err err = {0};
	struct view *v = NULL;
	uint64_t bad = 0;
	int code = open_view(a, &v, &err);

	if (!code)
		code = hist_replay(v, a->from, a->to, NULL, NULL, &r, &bad, &err);
	view_close(v);
	if (code)
		return die(&err);
	mu_hash_print(&r.digest, digest);
	mu_hash_print(&r.chain, chain);
	if (a->json)
		printf("{\"pos\":%llu,\"digest\":\"%s\",\"chain\":\"%s\",\"first\":%llu,\"events\":%llu,\"voided\":%llu,\"digests_checked\":%llu}\n",
		       (unsigned long long)r.last, digest, chain, (unsigned long long)r.first, (unsigned long long)r.events,
		       (unsigned long long)r.voided, (unsigned long long)r.digests_checked);
	else
		printf("pos %llu digest %s chain %s\nfolded %llu events of positions %llu to %llu, %llu void; compared %llu recorded digests\n",
		       (unsigned long long)r.last, digest, chain, (unsigned long long)r.events, (unsigned long long)r.first,
		       (unsigned long long)r.last, (unsigned long long)r.voided, (unsigned long long)r.digests_checked);
	return 0;
}

static int audit(const struct args *a)
{
	struct mu_buf difference = {0};
	struct hist_audit r = {0};
	struct mu_err err = {0};
	struct view *v = NULL;
	uint64_t bad = 0;
	int code = open_view(a, &v, &err);

	if (!code)
		code = hist_audit(v, a->from, a->to, &r, &bad, &difference, &err);
	view_close(v);
	if (code && bad)
		fprintf(stderr, "muster: error: position %llu: %s\n%s", (unsigned long long)bad, err.text, difference.data ? (const char *)difference.data : "");
	else if (code)
		(void)die(&err);
	mu_buf_free(&difference);
	if (code)
		return 1;
	if (a->json)
		printf("{\"decided\":%llu,\"equal\":%llu,\"unchecked\":%llu,\"starts\":%llu,\"planner\":%u}\n", (unsigned long long)r.passes,
		       (unsigned long long)r.equal, (unsigned long long)r.unchecked, (unsigned long long)r.starts, r.planner);
	else
		printf("decided again: %llu slices with %llu starts, all equal; %llu not checked (this is planner version %u)\n",
		       (unsigned long long)r.passes, (unsigned long long)r.starts, (unsigned long long)r.unchecked, r.planner);
	return 0;
}

/* The statement of the archive's cut, where there is one: signed by the key that the configuration names, else by the one that
 * State was founded with. */
static int verify_cut(const struct args *a, struct view *v, struct mu_err *err)
{
	struct mu_arena arena = {0};
	Mu__Config *conf = NULL;
	struct mu_hash statement;
	uint8_t key[32];
	Mu__Cut *cut = NULL;
	int code = view_cut(v, &arena, &cut, err);

	if (code == MU_ENOENT) {
		mu_arena_free(&arena);
		return 0;
	}
	if (!code)
		code = ctl_load_conf(ctl_conf_path(a->conf), &arena, &conf, err);
	if (!code)
		code = auth_load_public(mu_arena_printf(&arena, "%s/cluster.pub", mu_conf_get(conf, "MusterKeyDir", "/etc/muster/keys")), key, err);
	if (!code) {
		mu_cut_hash(cut, &statement);
		if (cut->signature.len != AUTH_SIGN_BYTES || !auth_chain_check(key, cut->pos, &statement, cut->signature.data))
			code = mu_fail(err, MU_EAUTH, "The statement of the archive's cut at position %llu is not signed by this cluster",
				       (unsigned long long)cut->pos);
	} else {
		(void)mu_wrap(err, "Checking who signed the archive's cut");
	}
	if (!code)
		printf("entries up to position %llu are no longer kept: %s, configured by %s at position %llu; signed by the cluster\n",
		       (unsigned long long)cut->pos, cut->rule, cut->author && *cut->author ? cut->author : "the founding",
		       (unsigned long long)cut->conf_pos);
	mu_arena_free(&arena);
	return code;
}

static int verify(const struct args *a)
{
	struct mu_err err = {0};
	struct view *v = NULL;
	uint64_t bad = 0, last;
	int code = open_view(a, &v, &err);

	if (!code)
		code = verify_cut(a, v, &err);
	if (!code)
		code = view_verify(v, a->from, a->to, &bad, &err);
	last = v ? view_pos(v) : 0;
	view_close(v);
	if (code && bad) {
		fprintf(stderr, "muster: error: position %llu: %s\n", (unsigned long long)bad, err.text);
		return 1;
	}
	if (code)
		return die(&err);
	printf("the chain is whole up to position %llu\n", (unsigned long long)(a->to ? a->to : last));
	return 0;
}

static int dump(const struct args *a, bool tail)
{
	struct mu_err err = {0};
	struct view *v = NULL;
	uint64_t from = a->from, last;
	int code = open_view(a, &v, &err);

	if (!code && tail) {
		last = view_pos(v);
		from = last > a->count ? last - a->count + 1 : view_archive_first(v);
	}
	if (!code && view_pos(v))
		code = hist_dump(v, from, a->to, a->json, print_line, NULL, &err);
	view_close(v);
	return code ? die(&err) : 0;
}

static int recover(const struct args *a, const Mu__Config *conf)
{
	const char *slash = strrchr(a->dir, '/'), *name = a->name ? a->name : slash ? slash + 1 : a->dir;
	const Mu__ControllerConf *self = NULL;
	char address[64], raft[4096];
	struct mu_err err = {0};

	if (!a->lost) {
		fprintf(stderr, "muster: error: recover makes a cluster of one out of %s: whatever only the other controllers had acknowledged is lost, and they are shut out for ever; "
				"repeat it with --i-have-lost-the-others when that is so\n", a->dir);
		return 1;
	}
	for (size_t i = 0; i < conf->n_controller; i++)
		if (!strcmp(conf->controller[i]->name, name))
			self = conf->controller[i];
	if (!self) {
		fprintf(stderr, "muster: error: %s is no controller of the configuration; say which with --name\n", name);
		return 1;
	}
	(void)snprintf(raft, sizeof raft, "%s/raft", a->dir);
	if (ctl_peer_address(self, address, sizeof address, &err))
		return die(&err);
	for (unsigned tries = 0;; tries++) { /* a killed controller's threads may need a moment to let go of its lock */
		int code = log_replica_recover(raft, name, address, &err);

		if (!code)
			break;
		if (code != MU_EBUSY || tries == 20)
			return die(&err);
		(void)usleep(100000);
	}
	printf("controller %s is now a cluster of one; what only the others had acknowledged is missing from it\n"
	       "start its musterd; add replacements with `muster controller add`; the old controllers are shut out\n", name);
	return 0;
}

static uint64_t number(const char *what, const char *text)
{
	struct mu_err err = {0};
	int64_t n;

	if (mu_number_parse(what, text, 0, INT64_MAX, &n, &err)) {
		fprintf(stderr, "muster: error: %s\n", err.text);
		exit(1);
	}
	return (uint64_t)n;
}

static void options(struct args *a, int argc, char **argv)
{
	static const struct option longs[] = {
		{"from", required_argument, NULL, 1}, {"to", required_argument, NULL, 2},
		{"name", required_argument, NULL, 3}, {"json", no_argument, NULL, 4},
		{"i-have-lost-the-others", no_argument, NULL, 5}, {"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'V'}, {NULL, 0, NULL, 0}};
	int o;

	while ((o = getopt_long(argc, argv, "f:n:hV", longs, NULL)) != -1) {
		switch (o) {
		case 1:
			a->from = number("--from", optarg);
			break;
		case 2:
			a->to = number("--to", optarg);
			break;
		case 3:
			a->name = optarg;
			break;
		case 4:
			a->json = true;
			break;
		case 5:
			a->lost = true;
			break;
		case 'f':
			a->conf = optarg;
			break;
		case 'n':
			a->count = number("-n", optarg);
			break;
		case 'V':
			printf("slurm %s (muster %s)\n", MU_SLURM_VERSION, MU_VERSION);
			exit(0);
		case 'h':
			fputs(USAGE, stdout);
			exit(0);
		default:
			fprintf(stderr, "Try \"muster-history --help\" for more information\n");
			exit(1);
		}
	}
}

/* The configuration, and the directory that it names when none was given. */
static int place(struct args *a, struct mu_arena *arena, Mu__Config **ret_conf, bool need_conf)
{
	struct mu_err err = {0};
	int code = 0;

	if (need_conf || !a->dir)
		code = ctl_load_conf(ctl_conf_path(a->conf), arena, ret_conf, &err);
	if (code)
		return die(&err);
	if (a->dir)
		return 0;
	a->dir = ctl_archive_dir(*ret_conf, a->name, arena);
	return 0;
}

int main(int argc, char **argv)
{
	struct args a = {.count = 10};
	struct mu_arena arena = {0};
	Mu__Config *conf = NULL;
	const char *verb, *word = "";
	int code;

	(void)diag_open("muster", NULL, DIAG_ERROR, 1);
	if (argc > 1 && !strcmp(argv[1], "sim"))
		return sim_main(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "whatif"))
		return whatif_main(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "bisect"))
		return bisect_main(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "restore"))
		return restore_main(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "archive"))
		return archive_main(argc - 1, argv + 1);
	options(&a, argc, argv);
	if (optind >= argc) {
		fputs(USAGE, stderr);
		return 1;
	}
	verb = argv[optind++];
	if ((!strcmp(verb, "log") || !strcmp(verb, "controller") || !strcmp(verb, "audit")) && optind < argc)
		word = argv[optind++];
	if (optind < argc)
		a.dir = argv[optind++];
	if (optind < argc) {
		fprintf(stderr, "muster: error: \"%s\" is one word too many\n", argv[optind]);
		return 1;
	}
	code = place(&a, &arena, &conf, !strcmp(word, "recover"));
	if (code)
		return code;
	if (!strcmp(verb, "replay"))
		code = replay(&a);
	else if (!strcmp(verb, "audit") && !strcmp(word, "replay"))
		code = audit(&a);
	else if (!strcmp(word, "verify"))
		code = verify(&a);
	else if (!strcmp(word, "dump") || !strcmp(word, "tail"))
		code = dump(&a, !strcmp(word, "tail"));
	else if (!strcmp(word, "recover"))
		code = recover(&a, conf);
	else {
		fprintf(stderr, "muster: error: \"%s%s%s\" is no verb; replay, sim, whatif, bisect, restore, archive, audit replay, log verify, log dump, log tail and controller recover are\n", verb,
			*word ? " " : "", word);
		code = 1;
	}
	mu_arena_free(&arena);
	return code;
}
