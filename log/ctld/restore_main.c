/* ctld/restore_main.c: see restore.h. The copy is checked against what BACKUP says before it becomes a cluster of one. */
#include "log/ctld/restore.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log/ctld/setup.h"

static const char USAGE[] =
	"Usage: muster restore BACKUP DIR --name NAME [-f FILE]\n"
	"Makes DIR, a controller's StateSaveLocation, out of what `muster backup` made: a cluster of one. Its musterd is started\n"
	"then, and others are added with `muster controller add`. The keys of the cluster are not in a backup.\n"
	"  --name NAME  the controller's name in the configuration\n"
	"  -f FILE      configuration file\n";

enum { DEPTH_MAX = 3, CHUNK = 1 << 20, PATH_ROOM = 4096 };

static int die(const struct mu_err *err)
{
	fprintf(stderr, "muster: error: restore: %s\n", err->text);
	return 1;
}

static int copy_file(const char *from, const char *to, struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf bytes = {0};
	uint8_t *chunk = mu_buf_grow(&bytes, CHUNK);
	int in = open(from, O_RDONLY | O_CLOEXEC), out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t n = -1;
	bool good = in >= 0 && out >= 0;

	while (good && (n = read(in, chunk, CHUNK)) > 0)
		good = write(out, chunk, (size_t)n) == n;
	good = good && n == 0 && fsync(out) == 0;
	if (!good)
		mu_fail(err, MU_EIO, "%s cannot be copied to %s: %s", from, to, strerror(errno));
	if (in >= 0)
		close(in);
	if (out >= 0)
		close(out);
	return good ? 0 : MU_EIO;
}

static int copy_tree(const char *from, const char *to, int depth, struct mu_err *err)
{
	DIR *d = opendir(from);
	struct dirent *e;
	int code = 0;

	if (!d || depth > DEPTH_MAX || mkdir(to, 0700)) {
		code = mu_fail(err, MU_EIO, "%s cannot be copied to %s: %s", from, to, strerror(errno));
		if (d)
			closedir(d);
		return code;
	}
	while (!code && (e = readdir(d))) {
		char source[PATH_ROOM], target[PATH_ROOM];
		struct stat st;
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !strcmp(e->d_name, "BACKUP"))
			continue;
		(void)snprintf(source, sizeof source, "%s/%s", from, e->d_name);
		(void)snprintf(target, sizeof target, "%s/%s", to, e->d_name);
		if (lstat(source, &st) || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
			code = mu_fail(err, MU_EIO, "%s is no file of a backup", source);
		else
			code = S_ISDIR(st.st_mode) ? copy_tree(source, target, depth + 1, err) : copy_file(source, target, err);
	}
	closedir(d);
	return code;
}

/* The value of WORD in the text of a file BACKUP; "" where it is not there. */
static const char *value_of(const char *text, const char *word, struct mu_arena *arena)
{
	size_t len = strlen(word);

	for (const char *l = text; l && *l; l = strchr(l, '\n') ? strchr(l, '\n') + 1 : NULL)
		if (!strncmp(l, word, len) && l[len] == ' ')
			return mu_arena_printf(arena, "%.*s", (int)strcspn(l + len + 1, "\n"), l + len + 1);
	return "";
}

/* The rows give the State whose digest was noted. */
static int check(const char *dir, const char *text, struct mu_arena *arena, struct mu_err *err)
{
	char digest[2 * MU_HASH_BYTES + 1], chain[2 * MU_HASH_BYTES + 1];
	struct sch_state *st = NULL;
	struct mu_hash d, h;
	struct view *v = NULL;
	int64_t usec;
	int code = view_open(mu_arena_printf(arena, "%s/view", dir), true, &v, err);

	if (!code)
		code = view_load_state(v, &st, err);
	if (!code) {
		view_tip(v, &h, &d, &usec);
		mu_hash_print(&d, digest);
		mu_hash_print(&h, chain);
		if (strcmp(digest, value_of(text, "digest", arena)) || strcmp(chain, value_of(text, "chain", arena)) ||
		    view_pos(v) != strtoull(value_of(text, "position", arena), NULL, 10))
			code = mu_fail(err, MU_ECORRUPT, "%s is not what BACKUP says of it", dir);
	}
	sch_state_free(st);
	view_close(v);
	return code;
}

static int restore(const char *backup, const char *dir, const char *name, const char *file, struct mu_arena *arena, struct mu_err *err)
{
	const Mu__ControllerConf *self = NULL;
	char address[64];
	Mu__Config *conf = NULL;
	const char *text = NULL;
	int code = ctl_read_file(mu_arena_printf(arena, "%s/BACKUP", backup), arena, &text, err);

	if (code)
		return mu_fail(err, code, "%s is no backup, or one that was not finished: it has no file BACKUP", backup);
	if (strncmp(text, "muster-backup 1\n", 16))
		return mu_fail(err, MU_EVERSION, "%s was made by a version that this one does not know", backup);
	code = ctl_load_conf(ctl_conf_path(file), arena, &conf, err);
	if (code)
		return code;
	for (size_t i = 0; i < conf->n_controller; i++)
		if (!strcmp(conf->controller[i]->name, name))
			self = conf->controller[i];
	if (!self)
		return mu_fail(err, MU_ENOENT, "%s is no controller of the configuration; say which with --name", name);
	code = ctl_peer_address(self, address, sizeof address, err);
	(void)rmdir(dir); /* An empty one is as good as none. */
	if (!code)
		code = copy_tree(backup, dir, 0, err);
	if (!code)
		code = check(dir, text, arena, err);
	if (!code)
		code = log_replica_recover(mu_arena_printf(arena, "%s/raft", dir), name, address, err);
	if (!code)
		printf("%s holds cluster %s at position %s with digest %s, and the log behind it\n"
		       "start musterd %s on it; add others with `muster controller add`\n",
		       dir, value_of(text, "cluster", arena), value_of(text, "position", arena), value_of(text, "digest", arena), name);
	return code;
}

int restore_main(int argc, char **argv)
{
	static const struct option longs[] = {{"name", 1, NULL, 'n'}, {"help", 0, NULL, 'h'}, {NULL, 0, NULL, 0}};
	const char *name = NULL, *file = NULL;
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	int o;

	while ((o = getopt_long(argc, argv, "f:h", longs, NULL)) != -1) {
		if (o == 'h') {
			fputs(USAGE, stdout);
			return 0;
		}
		if (o == '?') {
			fputs("Try \"muster restore --help\" for more information\n", stderr);
			return 1;
		}
		if (o == 'n')
			name = optarg;
		else
			file = optarg;
	}
	if (argc - optind != 2 || !name) {
		fputs(USAGE, stderr);
		return 1;
	}
	int code = restore(argv[optind], argv[optind + 1], name, file, &arena, &err);
	mu_arena_free(&arena);
	return code ? die(&err) : 0;
}
