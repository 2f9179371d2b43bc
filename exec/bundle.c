/* exec/bundle.c: see the header. */
#include "exec/bundle.h"

#include <string.h>

/* ---- patterns ---- */

static void put_quoted(const char *word, struct mu_buf *out)
{
	mu_buf_str(out, "'");
	for (const char *p = word; *p; p++)
		if (*p == '\'')
			mu_buf_str(out, "'\\''");
		else
			mu_buf_add(out, p, 1);
	mu_buf_str(out, "'");
}

/* False: the letter is none of ours. */
static bool put_letter(char letter, const struct exe_oci_words *w, struct mu_buf *out)
{
	const struct {
		char letter;
		const char *text;
	} text[] = {{'%', "%"},	      {'b', w->bundle}, {'e', w->env_file}, {'m', w->spool},
		    {'r', w->rootfs}, {'n', w->node},	{'u', w->user},	    {'s', w->step}};
	const struct {
		char letter;
		uint32_t number;
	} number[] = {{'j', w->job}, {'t', w->task}, {'U', w->uid}, {'p', (uint32_t)w->pid}};
	for (size_t i = 0; i < sizeof text / sizeof *text; i++)
		if (text[i].letter == letter) {
			mu_buf_str(out, text[i].text ? text[i].text : "");
			return true;
		}
	for (size_t i = 0; i < sizeof number / sizeof *number; i++)
		if (number[i].letter == letter) {
			mu_buf_printf(out, "%u", number[i].number);
			return true;
		}
	if (letter != '@')
		return false;
	for (size_t i = 0; w->argv && w->argv[i]; i++) {
		mu_buf_str(out, i ? " " : "");
		put_quoted(w->argv[i], out);
	}
	return true;
}

void exe_oci_expand(const char *pattern, const struct exe_oci_words *w, struct mu_buf *out)
{
	mu_buf_str(out, "");
	for (const char *p = pattern; *p; p++)
		if (*p == '%' && p[1] && put_letter(p[1], w, out))
			p++;
		else
			mu_buf_add(out, p, 1);
	mu_buf_add(out, "", 1);
	out->len--;
}

bool exe_oci_uses(const char *pattern, char letter)
{
	for (const char *p = pattern; *p; p++)
		if (*p == '%' && p[1]) {
			if (p[1] == letter)
				return true;
			p++;
		}
	return false;
}

/* ---- config.json ---- */

static struct exe_json *string(struct mu_arena *arena, const char *text)
{
	return exe_json_new(arena, EXE_JSON_STRING, text);
}

static struct exe_json *number(struct mu_arena *arena, uint32_t value)
{
	return exe_json_new(arena, EXE_JSON_SCALAR, mu_arena_printf(arena, "%u", value));
}

static struct exe_json *words(struct mu_arena *arena, char *const *word, size_t count)
{
	struct exe_json *list = exe_json_new(arena, EXE_JSON_LIST, NULL), **at = &list->child;
	for (size_t i = 0; word && i < count && word[i]; i++, at = &(*at)->next)
		*at = string(arena, word[i]);
	return list;
}

char *exe_bundle_root(const struct exe_json *config, const char *path, struct mu_arena *arena)
{
	const struct exe_json *root = exe_json_get(exe_json_get(config, "root"), "path");
	if (!root || root->kind != EXE_JSON_STRING)
		return NULL;
	return root->text[0] == '/' ? mu_arena_strdup(arena, root->text)
				    : mu_arena_printf(arena, "%s/%s", path, root->text);
}

static bool is_below(const char *path, const char *folder)
{
	size_t len = strlen(folder);
	while (len && folder[len - 1] == '/')
		len--;
	return len && strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == 0);
}

bool exe_bundle_mounts(const struct exe_json *config, const char *path)
{
	const struct exe_json *mounts = exe_json_get(config, "mounts");
	for (const struct exe_json *m = mounts ? mounts->child : NULL; m; m = m->next) {
		const struct exe_json *to = exe_json_get(m, "destination"), *from = exe_json_get(m, "source");
		if (to && to->kind == EXE_JSON_STRING && from && from->kind == EXE_JSON_STRING &&
		    from->text[0] == '/' && is_below(path, to->text))
			return true;
	}
	return false;
}

static bool has_namespace(const struct exe_json *linux_part, const char *type)
{
	const struct exe_json *list = exe_json_get(linux_part, "namespaces");
	for (const struct exe_json *n = list ? list->child : NULL; n; n = n->next)
		if (exe_json_is(exe_json_get(n, "type"), type))
			return true;
	return false;
}

/* The bundle's variables stay where the task has none of their names. */
static void fill_env(struct exe_json *process, char *const *env, struct mu_arena *arena)
{
	const struct exe_json *old = exe_json_get(process, "env");
	struct exe_json *list = words(arena, env, SIZE_MAX), **at = &list->child;
	while (*at)
		at = &(*at)->next;
	for (const struct exe_json *e = old ? old->child : NULL; e; e = e->next) {
		bool known = e->kind != EXE_JSON_STRING;
		size_t len = known ? 0 : strcspn(e->text, "=") + 1;
		for (size_t i = 0; !known && env[i]; i++)
			known = strncmp(env[i], e->text, len) == 0;
		if (known)
			continue;
		*at = string(arena, e->text);
		at = &(*at)->next;
	}
	exe_json_put(arena, process, "env", list);
}

static void fill_process(struct exe_json *process, const struct exe_bundle *b, struct mu_arena *arena)
{
	exe_json_put(arena, process, "args", words(arena, b->argv, SIZE_MAX));
	fill_env(process, b->env, arena);
	if (b->work_dir)
		exe_json_put(arena, process, "cwd", string(arena, b->work_dir));
	exe_json_put(arena, process, "terminal",
		     exe_json_new(arena, EXE_JSON_SCALAR, b->terminal ? "true" : "false"));
	/* The task's limits are what the job took along. */
	exe_json_put(arena, process, "rlimits", NULL);
	exe_json_put(arena, process, "oomScoreAdj", NULL);
}

static struct exe_json *map(struct mu_arena *arena, uint32_t id)
{
	struct exe_json *list = exe_json_new(arena, EXE_JSON_LIST, NULL);
	struct exe_json *one = exe_json_new(arena, EXE_JSON_OBJECT, NULL);
	exe_json_put(arena, one, "containerID", number(arena, 0));
	exe_json_put(arena, one, "hostID", number(arena, id));
	exe_json_put(arena, one, "size", number(arena, 1));
	exe_json_add(list, one);
	return list;
}

/* Only root exists inside: what names another owner cannot be mounted. */
static void plain_options(struct exe_json *mount)
{
	struct exe_json *options = exe_json_get(mount, "options");
	for (struct exe_json **at = options ? &options->child : NULL; at && *at;) {
		const char *text = (*at)->kind == EXE_JSON_STRING ? (*at)->text : "";
		if (strncmp(text, "gid=", 4) == 0 || strncmp(text, "uid=", 4) == 0)
			*at = (*at)->next;
		else
			at = &(*at)->next;
	}
}

static struct exe_json *bind_mount(struct mu_arena *arena, const char *from, const char *to,
				   const char *options)
{
	struct exe_json *m = exe_json_new(arena, EXE_JSON_OBJECT, NULL);
	struct exe_json *list = exe_json_new(arena, EXE_JSON_LIST, NULL);
	exe_json_put(arena, m, "destination", string(arena, to));
	exe_json_put(arena, m, "type", string(arena, "bind"));
	exe_json_put(arena, m, "source", string(arena, from));
	for (const char *p = options; *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ','))
		exe_json_add(list, string(arena, mu_arena_printf(arena, "%.*s", (int)strcspn(p, ","), p)));
	exe_json_put(arena, m, "options", list);
	return m;
}

static void fill_user(struct exe_json *config, struct exe_json *linux_part, const struct exe_bundle *b,
		      struct mu_arena *arena)
{
	const struct exe_json *had = exe_json_get(linux_part, "uidMappings");
	struct exe_json *process = exe_json_get(config, "process"), *mounts = exe_json_get(config, "mounts");
	if (has_namespace(linux_part, "user") && had && had->child)
		return;
	if (!has_namespace(linux_part, "user")) {
		struct exe_json *user = exe_json_new(arena, EXE_JSON_OBJECT, NULL);
		exe_json_put(arena, user, "type", string(arena, "user"));
		exe_json_add(exe_json_need(arena, linux_part, "namespaces", EXE_JSON_LIST), user);
	}
	exe_json_put(arena, linux_part, "uidMappings", map(arena, b->uid));
	exe_json_put(arena, linux_part, "gidMappings", map(arena, b->gid));
	struct exe_json *user = exe_json_new(arena, EXE_JSON_OBJECT, NULL);
	exe_json_put(arena, user, "uid", number(arena, 0));
	exe_json_put(arena, user, "gid", number(arena, 0));
	exe_json_put(arena, user, "umask", number(arena, b->umask));
	exe_json_put(arena, process, "user", user);
	for (struct exe_json *m = mounts ? mounts->child : NULL; m; m = m->next)
		plain_options(m);
}

/* Without a network of its own the container may not mount a sysfs: it sees the node's. */
static void shared_sys(struct exe_json *config, const struct exe_json *linux_part, struct mu_arena *arena)
{
	struct exe_json *mounts = exe_json_get(config, "mounts");
	if (!mounts || has_namespace(linux_part, "network"))
		return;
	for (struct exe_json **at = &mounts->child; *at; at = &(*at)->next)
		if (exe_json_is(exe_json_get(*at, "type"), "sysfs")) {
			struct exe_json *next = (*at)->next;
			*at = bind_mount(arena, "/sys",
					 exe_json_get(*at, "destination")
					     ? exe_json_get(*at, "destination")->text
					     : "/sys",
					 "rbind,nosuid,noexec,nodev,ro");
			(*at)->next = next;
		}
}

static void drop_hooks(struct exe_json *config, const char *kinds, struct mu_arena *arena)
{
	struct exe_json *hooks = exe_json_get(config, "hooks");
	for (const char *p = kinds; hooks && p && *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ','))
		exe_json_put(arena, hooks, mu_arena_printf(arena, "%.*s", (int)strcspn(p, ","), p), NULL);
}

int exe_bundle_fill(struct exe_json *config, const struct exe_bundle *b, struct mu_arena *arena,
		    struct mu_err *err)
{
	char *root = config->kind == EXE_JSON_OBJECT ? exe_bundle_root(config, b->path, arena) : NULL;
	if (!root)
		return mu_fail(err, MU_EINVAL, "config.json of the bundle %s names no root", b->path);
	struct exe_json *process = exe_json_need(arena, config, "process", EXE_JSON_OBJECT);
	struct exe_json *linux_part = exe_json_need(arena, config, "linux", EXE_JSON_OBJECT);
	struct exe_json *mounts = exe_json_need(arena, config, "mounts", EXE_JSON_LIST);
	exe_json_put(arena, exe_json_get(config, "root"), "path", string(arena, root));
	fill_process(process, b, arena);
	fill_user(config, linux_part, b, arena);
	shared_sys(config, linux_part, arena);
	/* The step's control group holds the container from its first process on. */
	exe_json_put(arena, linux_part, "resources", NULL);
	exe_json_put(arena, linux_part, "cgroupsPath", NULL);
	exe_json_put(arena, config, "hostname",
		     has_namespace(linux_part, "uts") ? string(arena, b->node) : NULL);
	for (size_t i = 0; i < b->devices; i++)
		exe_json_add(mounts, bind_mount(arena, b->device[i], b->device[i], "bind,nosuid,noexec"));
	if (b->spool)
		exe_json_add(mounts, bind_mount(arena, b->spool, b->spool_at, "bind,ro,nosuid,nodev"));
	drop_hooks(config, b->disable_hooks, arena);
	return 0;
}
