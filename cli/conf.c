/* cli/conf.c: the quick reader of the configuration file. A command needs where the controllers are and
 * nothing else, and a file of 10,000 nodes must not cost it a parse: lines whose first letter cannot begin a
 * wanted key are skipped by memchr. proto/conf.c is the judge of the whole syntax; here what cannot be read
 * as a wanted key is somebody else's line. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "log/auth.h"

#ifndef MU_SYSCONFDIR
#define MU_SYSCONFDIR "/etc"
#endif

enum { PIECE_BYTES = 64 * 1024, CONF_DEPTH_MAX = 8 };

/* What FD gives until its end: a pipe has no size, and a file may grow while it is read. */
static int read_all(int fd, const char *path, size_t max, struct mu_buf *text, struct mu_err *err)
{
	char piece[PIECE_BYTES];

	for (;;) {
		ssize_t n = read(fd, piece, PIECE_BYTES);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return mu_fail(err, MU_EIO, "Unable to read file %s: %s", path, strerror(errno));
		if (n == 0)
			return 0;
		mu_buf_add(text, piece, (size_t)n);
		if (text->len > max)
			return mu_fail(err, MU_ELIMIT, "%s is too large", path);
	}
}

int cli_read_file(const char *path, size_t max, struct mu_arena *arena, char **ret, size_t *ret_len,
		  struct mu_err *err)
{
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	int rc;

	if (fd < 0)
		return mu_fail(err, errno == ENOENT ? MU_ENOENT : MU_EIO, "Unable to open file %s: %s", path,
			       strerror(errno));
	if (fstat(fd, &st) || S_ISDIR(st.st_mode))
		rc = mu_fail(err, MU_ELIMIT, "%s is a directory", path);
	else
		rc = read_all(fd, path, max, &text, err);
	close(fd);
	if (rc)
		return rc;
	*ret = mu_arena_dup(arena, text.data ? (char *)text.data : "", text.len + 1);
	*ret_len = text.len;
	return 0;
}

int cli_conf_find(struct mu_arena *arena, const char **ret_path, struct mu_err *err)
{
	static const char *const places[] = {MU_SYSCONFDIR "/muster/muster.conf", "/etc/muster/muster.conf",
					     "/etc/slurm/slurm.conf"};
	static const char *const variables[] = {"SLURM_CONF", "MUSTER_CONF"};

	for (size_t i = 0; i < 2; i++) {
		const char *path = getenv(variables[i]);

		if (path && *path) {
			*ret_path = mu_arena_strdup(arena, path);
			return 0;
		}
	}
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		if (access(places[i], F_OK) == 0) {
			*ret_path = places[i];
			return 0;
		}
	}
	return mu_fail(err, MU_ENOENT, "No configuration file: set SLURM_CONF, or write %s or %s", places[0],
		       places[2]);
}

/* "name(addr:port:peerport)", "name(addr)", "name". */
static int add_controller(struct cli_conf *conf, const char *value, struct mu_arena *arena,
			  struct mu_err *err)
{
	const char *open = strchr(value, '('), *close = open ? strchr(open, ')') : NULL;
	char *addr, *colon, *name;

	if (open && !close)
		return mu_fail(err, MU_ESYNTAX, "%s: SlurmctldHost=%s lacks its closing bracket", conf->path,
			       value);
	if (conf->controllers == CLI_CONTROLLERS_MAX)
		return 0;
	name =
	    open ? mu_arena_printf(arena, "%.*s", (int)(open - value), value) : mu_arena_strdup(arena, value);
	addr = open ? mu_arena_printf(arena, "%.*s", (int)(close - open - 1), open + 1) : name;
	conf->controller[conf->controllers].name = name;
	conf->controller[conf->controllers].port = 0;
	colon = open ? strchr(addr, ':') : NULL;
	if (colon) {
		*colon = 0;
		conf->controller[conf->controllers].port = (unsigned)strtoul(colon + 1, NULL, 10);
	}
	conf->controller[conf->controllers].addr = *addr ? addr : name;
	conf->controllers++;
	return 0;
}

static unsigned read_port(const char *value)
{
	return (unsigned)strtoul(value, NULL, 10); /* "6817-6820": the first */
}

static int take(struct cli_conf *conf, const char *key, const char *value, struct mu_arena *arena,
		struct mu_err *err)
{
	if (strcasecmp(key, "ClusterName") == 0)
		conf->cluster = value;
	else if (strcasecmp(key, "SlurmctldHost") == 0)
		return add_controller(conf, value, arena, err);
	else if (strcasecmp(key, "ControlMachine") == 0 || strcasecmp(key, "BackupController") == 0)
		return add_controller(conf, value, arena, err);
	else if (strcasecmp(key, "SlurmctldPort") == 0)
		conf->port = read_port(value);
	else if (strcasecmp(key, "MessageTimeout") == 0)
		conf->message_timeout_sec = (unsigned)strtoul(value, NULL, 10);
	else if (strcasecmp(key, "AuthInfo") == 0)
		auth_munge_info(value);
	else if (strcasecmp(key, "KillWait") == 0)
		conf->kill_wait_sec = (unsigned)strtoul(value, NULL, 10);
	else if (strcasecmp(key, "SrunProlog") == 0)
		conf->srun_prolog = value;
	else if (strcasecmp(key, "SrunEpilog") == 0)
		conf->srun_epilog = value;
	else if (strcasecmp(key, "MusterRunDir") == 0)
		conf->run_dir = value;
	else if (strcasecmp(key, "MusterFollower") == 0)
		conf->follower = value;
	else if (strcasecmp(key, "MusterKeyDir") == 0)
		conf->key_dir = value;
	return 0;
}

static int scan_file(const char *path, unsigned depth, struct mu_arena *arena, struct cli_conf *conf,
		     struct mu_err *err);

static int scan_include(const char *path, const char *name, unsigned depth, struct mu_arena *arena,
			struct cli_conf *conf, struct mu_err *err)
{
	const char *slash = strrchr(path, '/'), *full = name;

	if (depth == CONF_DEPTH_MAX)
		return mu_fail(err, MU_ELIMIT, "%s: include files nest deeper than %d", path, CONF_DEPTH_MAX);
	if (name[0] != '/' && slash)
		full = mu_arena_printf(arena, "%.*s/%s", (int)(slash - path), path, name);
	return scan_file(full, depth + 1, arena, conf, err);
}

static bool may_matter(char c)
{
	c = (char)tolower((unsigned char)c);
	return c == 'a' || c == 'b' || c == 'c' || c == 'i' || c == 'k' || c == 'm' || c == 's';
}

static int scan(const char *path, const char *text, size_t size, unsigned depth, struct mu_arena *arena,
		struct cli_conf *conf, struct mu_err *err)
{
	const char *limit = text + size;

	for (const char *p = text; p < limit;) {
		const char *newline = memchr(p, '\n', (size_t)(limit - p)), *end = newline ? newline : limit;
		char *line, *equals, *value;
		size_t len;

		while (p < end && (*p == ' ' || *p == '\t'))
			p++;
		if (p == end || !may_matter(*p)) {
			p = end + 1;
			continue;
		}
		line = mu_arena_printf(arena, "%.*s", (int)(end - p), p);
		p = end + 1;
		line[strcspn(line, "#\r")] = 0;
		for (len = strlen(line); len && isspace((unsigned char)line[len - 1]); len--)
			line[len - 1] = 0;
		if (strncasecmp(line, "include", 7) == 0 && isspace((unsigned char)line[7])) {
			int rc =
			    scan_include(path, line + 7 + strspn(line + 7, " \t"), depth, arena, conf, err);

			if (rc)
				return rc;
			continue;
		}
		equals = strchr(line, '=');
		if (!equals)
			continue;
		value = equals + 1 + strspn(equals + 1, " \t");
		for (*equals = 0; equals > line && isspace((unsigned char)equals[-1]); equals--)
			equals[-1] = 0;
		len = strlen(value);
		if (*value == '"' && len > 1 && value[len - 1] == '"') {
			value[len - 1] = 0;
			value++;
		}
		if (take(conf, line, value, arena, err))
			return err ? err->code : MU_ESYNTAX;
	}
	return 0;
}

/* In pieces of a few pages: touching memory for a whole large file would cost more than reading it. */
static int scan_file(const char *path, unsigned depth, struct mu_arena *arena, struct cli_conf *conf,
		     struct mu_err *err)
{
	char *piece = mu_arena_alloc(arena, PIECE_BYTES);
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
	size_t have = 0;
	bool skipping = false; /* the rest of a line longer than a piece: none that is wanted is */

	if (fd < 0)
		return mu_fail(err, errno == ENOENT ? MU_ENOENT : MU_EIO, "Unable to open file %s: %s", path,
			       strerror(errno));
	while (!rc) {
		ssize_t n = read(fd, piece + have, PIECE_BYTES - have);
		char *last;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			rc = mu_fail(err, MU_EIO, "Unable to read file %s: %s", path, strerror(errno));
			break;
		}
		if (n == 0) {
			rc = skipping ? 0 : scan(path, piece, have, depth, arena, conf, err);
			break;
		}
		have += (size_t)n;
		last = memrchr(piece, '\n', have);
		if (last) {
			char *first = skipping ? (char *)memchr(piece, '\n', have) + 1 : piece;

			rc = scan(path, first, (size_t)(last + 1 - first), depth, arena, conf, err);
			have -= (size_t)(last + 1 - piece);
			memmove(piece, last + 1, have);
			skipping = false;
		} else if (have == PIECE_BYTES) {
			skipping = true;
			have = 0;
		}
	}
	close(fd);
	return rc;
}

static struct cli_conf defaults(const char *path)
{
	return (struct cli_conf){.path = path,
				 .cluster = "",
				 .run_dir = "/run/muster",
				 .key_dir = "/etc/muster/keys",
				 .port = 6817,
				 .message_timeout_sec = 10,
				 .kill_wait_sec = 30};
}

static void finish(struct cli_conf *conf)
{
	for (unsigned i = 0; i < conf->controllers; i++) {
		if (!conf->controller[i].port)
			conf->controller[i].port = conf->port;
	}
}

int cli_conf_text(const char *path, const char *text, struct mu_arena *arena, struct cli_conf *ret,
		  struct mu_err *err)
{
	struct cli_conf conf = defaults(path);
	int rc = scan(path, text, strlen(text), 0, arena, &conf, err);

	if (rc)
		return rc;
	finish(&conf);
	*ret = conf;
	return 0;
}

int cli_conf_read(struct mu_arena *arena, struct cli_conf *ret, struct mu_err *err)
{
	const char *path;
	struct cli_conf conf;
	int rc = cli_conf_find(arena, &path, err);

	if (rc)
		return rc;
	conf = defaults(path);
	rc = scan_file(path, 0, arena, &conf, err);
	if (rc)
		return rc;
	finish(&conf);
	*ret = conf;
	return 0;
}
