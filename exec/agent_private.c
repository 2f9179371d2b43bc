/* exec/agent_private.c: folders of a job's own in place of shared ones
 * (JobContainerType=job_container/tmpfs): made when its attempt begins, mounted by its shepherds, removed
 * when nothing of the attempt is left. Owns: job_container.conf, and what lies below its BasePath. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exec/agent.h"
#include "log/diag.h"
#include "proto/conf.h"
#include "proto/hostlist.h"

enum { CONF_MAX = 1 << 20, NODES_MAX = 65536 };

static bool names_this_node(const struct agent *a, const char *list)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	char **name;
	size_t count;
	if (mu_hostlist_expand(list, NODES_MAX, &arena, &name, &count, NULL))
		return false;
	for (size_t i = 0; i < count; i++)
		if (strcmp(name[i], a->node) == 0)
			return true;
	return false;
}

/* One line: KEY=VALUE pairs divided by blanks. A line with NodeName= is for those nodes. */
static void take_line(struct agent *a, char *line)
{
	char *base = NULL, *dirs = NULL, *save = NULL;
	bool mine = true;
	line[strcspn(line, "#\r")] = 0;
	for (char *word = strtok_r(line, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
		if (strncasecmp(word, "NodeName=", 9) == 0)
			mine = names_this_node(a, word + 9);
		else if (strncasecmp(word, "BasePath=", 9) == 0)
			base = word + 9;
		else if (strncasecmp(word, "Dirs=", 5) == 0)
			dirs = word + 5;
		else if (strncasecmp(word, "AutoBasePath=", 13) == 0)
			a->private_auto =
			    strcasecmp(word + 13, "true") == 0 || strcasecmp(word + 13, "yes") == 0;
	}
	if (mine && base)
		snprintf(a->private_base, sizeof a->private_base, "%s", base);
	if (mine && dirs)
		snprintf(a->private_dirs, sizeof a->private_dirs, "%s", dirs);
}

int agent_private_read(struct agent *a, struct mu_err *err)
{
	char path[sizeof a->conf_path + 32], *text, *save = NULL;
	const char *slash = strrchr(a->conf_path, '/');
	a->private_base[0] = 0;
	snprintf(a->private_dirs, sizeof a->private_dirs, "/tmp,/dev/shm");
	if (strcmp(mu_conf_get(a->config, "JobContainerType", ""), "job_container/tmpfs") != 0)
		return 0;
	snprintf(path, sizeof path, "%.*s/job_container.conf", (int)(slash - a->conf_path), a->conf_path);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	text = fd < 0 ? NULL : calloc(1, CONF_MAX + 1);
	ssize_t n = text ? read(fd, text, CONF_MAX) : -1;
	if (fd >= 0)
		close(fd);
	for (char *line = n > 0 ? strtok_r(text, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save))
		take_line(a, line);
	free(text);
	if (a->private_base[0] != '/')
		return mu_fail(err, MU_EINVAL,
			       "JobContainerType=job_container/tmpfs needs %s with BasePath=/...", path);
	if (a->private_auto && mkdir(a->private_base, 0711) && errno != EEXIST)
		return mu_fail(err, MU_EIO, "BasePath=%s: %s", a->private_base, strerror(errno));
	return 0;
}

/* "/dev/shm" lies in "dev_shm" of the job's folder. */
static void folder_of(const struct agent *a, const struct agent_attempt *t, const char *dir, size_t len,
		      char out[4096])
{
	int used = snprintf(out, 4096, "%s/%s/", a->private_base, t->name);
	for (size_t i = 1; i < len && used < 4094; i++)
		out[used++] = dir[i] == '/' ? '_' : dir[i];
	out[used] = 0;
}

int agent_private_make(struct agent *a, struct agent_attempt *t, struct mu_err *err)
{
	char path[4096];
	if (!a->private_base[0])
		return 0;
	snprintf(path, sizeof path, "%s/%s", a->private_base, t->name);
	if (mkdir(path, 0700) && errno != EEXIST)
		return mu_fail(err, MU_EIO, "private folder %s: %s", path, strerror(errno));
	for (const char *p = a->private_dirs; *p; p += strspn(p, ",")) {
		size_t len = strcspn(p, ",");
		folder_of(a, t, p, len, path);
		if ((mkdir(path, 0700) && errno != EEXIST) || chmod(path, 01777))
			return mu_fail(err, MU_EIO, "private folder %s: %s", path, strerror(errno));
		p += len;
	}
	return 0;
}

void agent_private_order(const struct agent *a, const struct agent_attempt *t, Mu__StepOrder *o,
			 struct mu_arena *arena)
{
	size_t most = strlen(a->private_dirs) + 1;
	char path[4096];
	if (!a->private_base[0])
		return;
	o->private_from = mu_arena_alloc(arena, most * sizeof *o->private_from);
	o->private_to = mu_arena_alloc(arena, most * sizeof *o->private_to);
	for (const char *p = a->private_dirs; *p; p += strspn(p, ",")) {
		size_t len = strcspn(p, ",");
		folder_of(a, t, p, len, path);
		o->private_from[o->n_private_from++] = mu_arena_strdup(arena, path);
		o->private_to[o->n_private_to++] = mu_arena_printf(arena, "%.*s", (int)len, p);
		p += len;
	}
}

bool agent_private_remove(struct agent *a, struct agent_attempt *t)
{
	char path[4096];
	struct stat st;
	struct mu_err err = {0};
	snprintf(path, sizeof path, "%s/%s", a->private_base, t->name);
	if (!a->private_base[0] || t->private_removed || lstat(path, &st))
		return false;
	t->private_removed = true;
	if (agent_prog_remove(a, t, path, &err)) {
		diag_error("%s: %s", t->name, err.text);
		return false;
	}
	t->prog_running = true;
	return true;
}
