/* exec/agent_container.c: containers of steps, as the agent sees them. Owns: reading oci.conf, and the call
 * that takes away what a container leaves where its shepherd was killed. Leaves to the shepherd: the bundle's
 * copy and the runtime, which run as the job's user (shepherd_container.c). */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <regex.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "exec/agent.h"
#include "exec/shepherd.h"
#include "log/diag.h"
#include "proto/states.h"

enum { CONF_MAX = 1 << 20, KEY_MAX = 64 };

enum key_kind { TEXT, PATTERN, REGEX, YES, WORD_ENV, QUIET };
static const struct {
	const char *name;
	enum key_kind kind;
	size_t field;
} key_row[] = {{"ContainerPath", PATTERN, offsetof(Mu__ContainerOrder, path)},
	       {"CreateEnvFile", WORD_ENV, offsetof(Mu__ContainerOrder, env_file)},
	       {"DisableCleanup", YES, offsetof(Mu__ContainerOrder, keep)},
	       {"DisableHooks", TEXT, offsetof(Mu__ContainerOrder, disable_hooks)},
	       {"EnvExclude", REGEX, offsetof(Mu__ContainerOrder, env_exclude)},
	       {"IgnoreFileConfigJson", YES, offsetof(Mu__ContainerOrder, ignore_config)},
	       {"MountSpoolDir", PATTERN, offsetof(Mu__ContainerOrder, spool_at)},
	       {"RunTimeCreate", PATTERN, offsetof(Mu__ContainerOrder, create)},
	       {"RunTimeDelete", PATTERN, offsetof(Mu__ContainerOrder, delete_)},
	       {"RunTimeEnvExclude", REGEX, offsetof(Mu__ContainerOrder, run_env_exclude)},
	       {"RunTimeKill", PATTERN, offsetof(Mu__ContainerOrder, kill)},
	       {"RunTimeQuery", PATTERN, offsetof(Mu__ContainerOrder, query)},
	       {"RunTimeRun", PATTERN, offsetof(Mu__ContainerOrder, run)},
	       {"RunTimeStart", PATTERN, offsetof(Mu__ContainerOrder, start)},
	       /* What they say more of is said in the logs as it is. */
	       {"DebugFlags", QUIET, 0},
	       {"FileDebug", QUIET, 0},
	       {"StdIODebug", QUIET, 0},
	       {"SyslogDebug", QUIET, 0},
	       {"SrunPath", QUIET, 0},
	       {"SrunArgs", QUIET, 0}};

static bool is_one_of(const char *value, const char *const *word)
{
	for (; *word; word++)
		if (strcasecmp(value, *word) == 0)
			return true;
	return false;
}

static int check_regex(const char *key, const char *value, struct mu_err *err)
{
	regex_t re;
	char why[128];
	int code = regcomp(&re, value, REG_EXTENDED | REG_NOSUB);
	if (code) {
		regerror(code, &re, why, sizeof why);
		return mu_fail(err, MU_EINVAL, "oci.conf: %s=\"%s\": %s", key, value, why);
	}
	regfree(&re);
	return 0;
}

static int take_key(Mu__ContainerOrder *c, const char *name, const char *value, struct mu_arena *arena,
		    struct mu_err *err)
{
	static const char *const yes[] = {"true", "yes", "1", NULL}, *const no[] = {"false", "no", "0", NULL},
				 *const env[] = {"null", "newline", "disabled", "true", "false", NULL};
	size_t i = 0;
	while (i < sizeof key_row / sizeof *key_row && strcasecmp(key_row[i].name, name) != 0)
		i++;
	if (i == sizeof key_row / sizeof *key_row)
		return mu_fail(err, MU_EINVAL, "oci.conf: unknown key %s", name);
	void *field = (char *)c + key_row[i].field;
	switch (key_row[i].kind) {
	case QUIET:
		return 0;
	case YES:
		if (!is_one_of(value, yes) && !is_one_of(value, no))
			return mu_fail(err, MU_EINVAL, "oci.conf: %s=%s: true or false is wanted", name,
				       value);
		*(protobuf_c_boolean *)field = is_one_of(value, yes);
		return 0;
	case WORD_ENV:
		if (!is_one_of(value, env))
			return mu_fail(err, MU_EINVAL, "oci.conf: %s=%s: null, newline or disabled is wanted",
				       name, value);
		break;
	case REGEX:
		if (check_regex(name, value, err))
			return err->code;
		break;
	case TEXT:
	case PATTERN:
		break;
	}
	*(char **)field = mu_arena_strdup(arena, value);
	return 0;
}

/* KEY = VALUE or KEY = "VALUE"; # begins a remark outside of quotes. */
static int take_line(Mu__ContainerOrder *c, char *line, struct mu_arena *arena, struct mu_err *err)
{
	char *name = line + strspn(line, " \t"), *value, *end;
	if (!*name || *name == '#' || *name == '\r')
		return 0;
	value = strchr(name, '=');
	if (!value)
		return mu_fail(err, MU_EINVAL, "oci.conf: no value: %s", name);
	for (end = value; end > name && strchr(" \t", end[-1]); end--) {
	}
	*value++ = 0;
	*end = 0;
	value += strspn(value, " \t");
	if (*value == '"') {
		end = strrchr(++value, '"');
		if (!end)
			return mu_fail(err, MU_EINVAL, "oci.conf: %s: a quotation mark is missing", name);
	} else {
		end = value + strcspn(value, "#\r");
		while (end > value && strchr(" \t", end[-1]))
			end--;
	}
	*end = 0;
	return take_key(c, name, value, arena, err);
}

static int read_conf(const struct agent *a, Mu__ContainerOrder *c, struct mu_arena *arena, struct mu_err *err)
{
	char path[sizeof a->conf_path + 16], *save = NULL;
	const char *slash = strrchr(a->conf_path, '/');
	snprintf(path, sizeof path, "%.*s/oci.conf", (int)(slash - a->conf_path), a->conf_path);
	int fd = open(path, O_RDONLY | O_CLOEXEC), code = 0;
	char *text = fd < 0 ? NULL : mu_arena_alloc(arena, CONF_MAX + 1);
	ssize_t n = text ? read(fd, text, CONF_MAX) : -1;
	int error = errno;
	if (fd >= 0)
		close(fd);
	if (n < 0)
		return mu_fail(err, MU_EINVAL, "containers need %s on node %s: %s", path, a->node,
			       strerror(error));
	for (char *line = strtok_r(text, "\n", &save); line && code == 0; line = strtok_r(NULL, "\n", &save))
		code = take_line(c, line, arena, err);
	if (code == 0 && !c->run && !(c->create && c->start && c->query))
		code = mu_fail(
		    err, MU_EINVAL,
		    "%s names no runtime: RunTimeRun, or RunTimeCreate, RunTimeStart and RunTimeQuery", path);
	return code;
}

/* ---- devices ---- */

static bool is_given(const Mu__StepOrder *o, const char *path)
{
	struct stat st;
	if (stat(path, &st) || !(S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)))
		return false;
	for (size_t i = 0; i < o->n_device; i++)
		if (o->device[i]->block == S_ISBLK(st.st_mode) && o->device[i]->major == major(st.st_rdev) &&
		    (o->device[i]->any_minor || o->device[i]->minor == minor(st.st_rdev)))
			return true;
	return false;
}

static void add_device(Mu__ContainerOrder *c, const Mu__StepOrder *o, const char *path,
		       struct mu_arena *arena)
{
	bool known = c->n_device == EXE_DEVICES_MAX || !is_given(o, path);
	for (size_t i = 0; !known && i < c->n_device; i++)
		known = strcmp(c->device[i], path) == 0;
	if (!known)
		c->device[c->n_device++] = mu_arena_strdup(arena, path);
}

/* The files of the devices that the step's fence lets through: those of gres.conf, and their companions. */
static void find_devices(const struct agent *a, Mu__ContainerOrder *c, const Mu__StepOrder *o,
			 struct mu_arena *arena)
{
	static const char *const where[] = {"/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/dri/*", "/dev/kfd",
					    "/dev/infiniband/*"};
	c->device = mu_arena_alloc(arena, EXE_DEVICES_MAX * sizeof *c->device);
	for (size_t i = 0; o->n_device && i < a->inventory.unit_count; i++)
		if (a->inventory.unit[i].file)
			add_device(c, o, a->inventory.unit[i].file, arena);
	for (size_t i = 0; i < sizeof where / sizeof *where; i++) {
		glob_t g;
		if (glob(where[i], 0, NULL, &g))
			continue;
		for (size_t k = 0; k < g.gl_pathc; k++)
			add_device(c, o, g.gl_pathv[k], arena);
		globfree(&g);
	}
}

int agent_container_order(const struct agent *a, const struct agent_attempt *t, Mu__StepOrder *o,
			  const char *bundle, ProtobufCBinaryData work_dir, struct mu_arena *arena,
			  struct mu_err *err)
{
	if (!bundle || !bundle[0])
		return 0;
	Mu__ContainerOrder *c = mu_arena_alloc(arena, sizeof *c);
	mu__container_order__init(c);
	int code = read_conf(a, c, arena, err);
	if (code)
		return code;
	c->has_keep = c->has_ignore_config = c->has_script = 1;
	c->script = o->step == MU_STEP_BATCH;
	c->bundle = bundle[0] == '/'
			? mu_arena_strdup(arena, bundle)
			: mu_arena_printf(arena, "%.*s/%s", (int)work_dir.len, (char *)work_dir.data, bundle);
	c->spool = mu_arena_strdup(arena, t->dir);
	find_devices(a, c, o, arena);
	o->container = c;
	return 0;
}

void agent_container_clear(struct agent *a, struct agent_attempt *t, const struct agent_step *s)
{
	char word[16];
	struct mu_err err = {0};
	if (!s->order->container)
		return;
	exe_step_word(s->order->step, word);
	if (agent_prog_clear(a, t, a->shepherd, t->dir, word, &err))
		diag_error("%s step %s: its container: %s", t->name, word, err.text);
	else
		t->clearing++;
}
