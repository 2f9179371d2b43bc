/* ctld/setup.c: what a controller reads before it starts: its configuration, its own place in it, keys, directories.
 * Every refusal is one sentence that names the thing, its value and the cure. */
#include "log/ctld/setup.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log/diag.h"
#include "proto/conf.h"

enum { CONF_FILE_MAX = 64 << 20 };

int ctl_read_file(const char *path, struct mu_arena *arena, const char **ret_text, struct mu_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	size_t got = 0;
	char *text;

	if (fd < 0)
		return mu_fail(err, errno == ENOENT ? MU_ENOENT : MU_EIO, "The file %s cannot be read: %m.", path);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size > CONF_FILE_MAX) {
		close(fd);
		return mu_fail(err, MU_EINVAL, "%s is no regular file of at most %d MiB.", path, CONF_FILE_MAX >> 20);
	}
	text = mu_arena_alloc(arena, (size_t)st.st_size + 1);
	while (got < (size_t)st.st_size) {
		ssize_t n = read(fd, text + got, (size_t)st.st_size - got);

		if (n <= 0)
			break;
		got += (size_t)n;
	}
	close(fd);
	if (got < (size_t)st.st_size)
		return mu_fail(err, MU_EIO, "The file %s could not be read to its end.", path);
	if (memchr(text, 0, got))
		return mu_fail(err, MU_ESYNTAX, "The file %s holds a NUL byte; it is no text.", path);
	*ret_text = text;
	return 0;
}

static int read_companion(void *arg, const char *name, struct mu_arena *arena, const char **ret_text, struct mu_err *err)
{
	const char *path = arg, *slash = strrchr(path, '/');
	char full[4096];

	if (name[0] == '/')
		return ctl_read_file(name, arena, ret_text, err);
	(void)snprintf(full, sizeof full, "%.*s%s", slash ? (int)(slash - path + 1) : 0, path, name);
	return ctl_read_file(full, arena, ret_text, err);
}

static void note(void *arg, const char *sentence)
{
	(void)arg;
	diag_info("%s", sentence);
}

const char *ctl_conf_path(const char *option)
{
	static const char *const places[] = {"/etc/muster/muster.conf", "/etc/slurm/slurm.conf"};
	const char *env = getenv("SLURM_CONF");

	if (option)
		return option;
	if (env && *env)
		return env;
	env = getenv("MUSTER_CONF");
	if (env && *env)
		return env;
	for (size_t i = 0; i < 2; i++)
		if (!access(places[i], R_OK))
			return places[i];
	return places[0];
}

int ctl_load_conf(const char *path, struct mu_arena *arena, Mu__Config **ret, struct mu_err *err)
{
	const char *text;
	int code = ctl_read_file(path, arena, &text, err);

	if (!code)
		code = mu_conf_parse(path, text, read_companion, note, (void *)path, arena, ret, err);
	return code;
}

/* NAME's place of "%n" in TEXT. */
static char *named(struct mu_arena *arena, const char *text, const char *name)
{
	const char *at = strstr(text, "%n");

	return at ? mu_arena_printf(arena, "%.*s%s%s", (int)(at - text), text, name, at + 2) : mu_arena_strdup(arena, text);
}

int ctl_own_dir(const struct ctl *c, const char *path, struct mu_err *err)
{
	struct stat st;

	if (mkdir(path, 0700) && errno != EEXIST)
		return mu_fail(err, MU_EIO, "The state directory %s cannot be made: %m; make it, owned by uid %u.", path, c->slurm_uid);
	if (stat(path, &st))
		return mu_fail(err, MU_EIO, "The state directory %s cannot be looked at: %m.", path);
	if (!S_ISDIR(st.st_mode))
		return mu_fail(err, MU_EINVAL, "StateSaveLocation %s is no directory.", path);
	if (st.st_uid != c->slurm_uid && st.st_uid != geteuid())
		return mu_fail(err, MU_EPERM, "The state directory %s belongs to uid %u, not to SlurmUser (uid %u); chown it.", path, st.st_uid,
			       c->slurm_uid);
	if (st.st_mode & 022)
		return mu_fail(err, MU_EPERM, "The state directory %s can be written by others (mode %03o); chmod 700 it.", path,
			       st.st_mode & 0777);
	return 0;
}

static int find_self(struct ctl *c, struct mu_err *err)
{
	struct mu_buf known = {0};

	for (size_t i = 0; i < c->conf->n_controller; i++) {
		if (!strcmp(c->conf->controller[i]->name, c->opt.name)) {
			c->self = c->conf->controller[i];
			mu_buf_free(&known);
			return 0;
		}
		mu_buf_printf(&known, "%s%s", i ? ", " : "", c->conf->controller[i]->name);
	}
	(void)mu_fail(err, MU_EINVAL, "This host is called %s, but SlurmctldHost in %s names only %s; run it there, correct the file, or give -n NAME.",
		      c->opt.name, c->opt.conf_path, known.len ? (char *)known.data : "nobody");
	mu_buf_free(&known);
	return MU_EINVAL;
}

/* "ip:port" of a controller's peer port; host names are looked up once. */
int ctl_peer_address(const Mu__ControllerConf *conf, char *out, size_t cap, struct mu_err *err)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
	const char *host = conf->addr && *conf->addr ? conf->addr : conf->name;
	char ip[INET_ADDRSTRLEN];
	int rv = getaddrinfo(host, NULL, &hints, &found);

	if (rv)
		return mu_fail(err, MU_EINVAL, "The address %s of controller %s cannot be found: %s.", host, conf->name, gai_strerror(rv));
	(void)inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)found->ai_addr)->sin_addr, ip, sizeof ip);
	freeaddrinfo(found);
	(void)snprintf(out, cap, "%s:%u", ip, conf->peer_port);
	return 0;
}

const char *ctl_archive_dir(const Mu__Config *conf, const char *name, struct mu_arena *arena)
{
	const char *pattern = mu_conf_get(conf, "StateSaveLocation", "/var/spool/muster");
	char host[HOST_NAME_MAX + 1] = "";

	(void)gethostname(host, sizeof host - 1);
	host[strcspn(host, ".")] = 0;
	const char *own = mu_conf_path(pattern, name ? name : host, arena);
	/* Several controllers on one host have names of their own: the first that is at home here will do. */
	for (size_t i = 0; i < conf->n_controller && !name && access(own, F_OK); i++) {
		const char *other = mu_conf_path(pattern, conf->controller[i]->name, arena);
		if (!access(other, F_OK))
			return other;
	}
	return own;
}

int ctl_archive_open(const char *dir, const char *conf_option, const char *name, struct mu_arena *arena, struct view **ret,
		     struct mu_err *err)
{
	Mu__Config *conf = NULL;
	int code = dir ? 0 : ctl_load_conf(ctl_conf_path(conf_option), arena, &conf, err);

	if (code)
		return code;
	if (!dir)
		dir = ctl_archive_dir(conf, name, arena);
	const char *path = mu_arena_printf(arena, "%s/view", dir);
	if (access(path, F_OK))
		return mu_fail(err, MU_ENOENT, "%s holds no view: name a controller's StateSaveLocation.", dir);
	return view_open(path, true, ret, err);
}

int ctl_slurm_user(struct ctl *c, struct mu_err *err)
{
	const char *name = mu_conf_get(c->conf, "SlurmUser", "root");
	char *end;
	unsigned long uid = strtoul(name, &end, 10);
	struct passwd space, *pw = NULL;
	char text[4096];

	if (!getpwnam_r(name, &space, text, sizeof text, &pw) && pw)
		c->slurm_uid = pw->pw_uid;
	else if (*name && !*end)
		c->slurm_uid = (uint32_t)uid;
	else
		return mu_fail(err, MU_EUSER, "SlurmUser %s is no user of this host.", name);
	return 0;
}

static int load_keys(struct ctl *c, struct mu_err *err)
{
	const char *dir = mu_conf_get(c->conf, "MusterKeyDir", "/etc/muster/keys");
	char path[4096];
	int code;

	(void)snprintf(path, sizeof path, "%s/cluster.secret", dir);
	code = auth_load_secret(path, c->keys.cluster_secret, c->keys.cluster_public, err);
	if (code)
		return mu_wrap(err, "Reading the cluster's key");
	c->keys.has_secret = c->keys.has_public = true;
	return 0;
}

int ctl_setup(struct ctl *c, struct mu_err *err)
{
	char name[HOST_NAME_MAX + 1] = "";
	const char *run;
	int code;

	if (!c->opt.name[0]) {
		(void)gethostname(name, sizeof name);
		(void)snprintf(c->opt.name, sizeof c->opt.name, "%.*s", (int)strcspn(name, "."), name);
	}
	c->opt.conf_path = ctl_conf_path(c->opt.conf_path);
	code = ctl_load_conf(c->opt.conf_path, &c->conf_arena, &c->conf, err);
	if (!code)
		code = find_self(c, err);
	if (!code)
		code = ctl_slurm_user(c, err);
	if (!code)
		code = load_keys(c, err);
	if (code)
		return code;
	auth_munge_info(mu_conf_get(c->conf, "AuthInfo", NULL));
	c->state_dir = named(&c->conf_arena, mu_conf_get(c->conf, "StateSaveLocation", "/var/spool/muster"), c->opt.name);
	c->raft_dir = mu_arena_printf(&c->conf_arena, "%s/raft", c->state_dir);
	c->view_dir = mu_arena_printf(&c->conf_arena, "%s/view", c->state_dir);
	run = named(&c->conf_arena, mu_conf_get(c->conf, "MusterRunDir", "/run/muster"), c->opt.name);
	c->socket_path = mu_arena_printf(&c->conf_arena, "%s/musterd.%s.sock", run, c->opt.name);
	c->pid_path = named(&c->conf_arena, mu_conf_get(c->conf, "SlurmctldPidFile", ""), c->opt.name);
	if (strlen(c->socket_path) > 100)
		return mu_fail(err, MU_ELIMIT, "The socket path %s is longer than the 100 bytes a Unix socket may have; shorten MusterRunDir.",
			       c->socket_path);
	(void)mkdir(run, 0755);
	code = ctl_own_dir(c, c->state_dir, err);
	if (!code)
		code = ctl_own_dir(c, c->raft_dir, err);
	if (!code)
		code = ctl_own_dir(c, c->view_dir, err);
	return code;
}
