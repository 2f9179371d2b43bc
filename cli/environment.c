/* cli/environment.c: which variables a job takes along. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <strings.h>
#include <sys/resource.h>

#include "cli/spec.h"

static void put(struct mu_buf *out, const char *text, size_t len)
{
	mu_buf_add(out, text, len);
	mu_buf_add(out, "", 1);
}

static const char *find(char *const *list, const char *name, size_t len)
{
	for (; *list; list++) {
		if (strncmp(*list, name, len) == 0 && (*list)[len] == '=')
			return *list;
	}
	return NULL;
}

static bool is_ours(const char *entry)
{
	return strncmp(entry, "SLURM_", 6) == 0;
}

/* One piece of --export up to a comma outside quotes; quotes are undone into WORD. Returns what is behind the
 * comma. */
static const char *piece(const char *p, struct mu_buf *word)
{
	char quote = 0;

	mu_buf_reset(word);
	mu_buf_add(word, "", 0);
	for (; *p && (quote || *p != ','); p++) {
		if (!quote && (*p == '"' || *p == '\''))
			quote = *p;
		else if (*p == quote)
			quote = 0;
		else
			mu_buf_add(word, p, 1);
	}
	return *p ? p + 1 : p;
}

int cli_environment_make(const char *export_text, char *const *list, struct mu_buf *out, struct mu_err *err)
{
	struct mu_buf word MU_CLEANUP(mu_buf_free) = {0}, set MU_CLEANUP(mu_buf_free) = {0};
	bool all = !export_text || !*export_text, none = false, nil = false;

	/* First what is named or set, so that it wins over what ALL brings. */
	for (const char *p = export_text ? export_text : ""; *p;) {
		const char *text, *equals;
		size_t len;

		p = piece(p, &word);
		text = (char *)word.data;
		equals = strchr(text, '=');
		len = equals ? (size_t)(equals - text) : strlen(text);
		if (!*text)
			continue;
		if (strcasecmp(text, "ALL") == 0) {
			all = true;
		} else if (strcasecmp(text, "NONE") == 0) {
			none = true;
		} else if (strcasecmp(text, "NIL") == 0) {
			nil = true;
		} else if (!len || isdigit((unsigned char)*text) || strcspn(text, " \t") < len) {
			return mu_fail(err, MU_EINVAL,
				       "Invalid --export specification: \"%s\" is no variable's name", text);
		} else if (equals) {
			put(&set, text, strlen(text));
		} else {
			const char *entry = find(list, text, len);

			if (entry)
				put(&set, entry, strlen(entry));
		}
	}
	if ((none || nil) && !all && set.len)
		return mu_fail(err, MU_EINVAL,
			       "Invalid --export specification: \"%s\" (NONE and NIL stand alone)",
			       export_text);
	for (char *const *e = list; *e && !nil; e++) {
		size_t name = strcspn(*e, "=");
		bool replaced = false;

		if (!all && !is_ours(*e))
			continue;
		for (size_t at = 0; at < set.len; at += strlen((char *)set.data + at) + 1) {
			if (strncmp((char *)set.data + at, *e, name + 1) == 0)
				replaced = true;
		}
		if (!replaced)
			put(out, *e, strlen(*e));
	}
	mu_buf_add(out, set.data, set.len);
	return 0;
}

/* Is NAME one of the words of --propagate (ALL for every one, RLIMIT_ may stand before it)? */
static bool is_named(const char *list, const char *name)
{
	for (const char *p = list; *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ',')) {
		const char *word = strncasecmp(p, "RLIMIT_", 7) == 0 ? p + 7 : p;
		size_t len = strcspn(word, ",");

		if ((len == 3 && strncasecmp(word, "ALL", 3) == 0) ||
		    (len == strlen(name) && strncasecmp(word, name, len) == 0))
			return true;
	}
	return false;
}

int cli_environment_check_limits(const char *propagate, struct mu_err *err)
{
	static const char *const known[] = {
#define MU_RLIMIT(name) #name,
#include "proto/rlimits.def"
#undef MU_RLIMIT
	    "ALL", "NONE"};

	for (const char *p = propagate; *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ',')) {
		bool found = false;

		for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
			const char *word = strncasecmp(p, "RLIMIT_", 7) == 0 ? p + 7 : p;

			found = found || (strcspn(word, ",") == strlen(known[i]) &&
					  strncasecmp(word, known[i], strlen(known[i])) == 0);
		}
		if (!found)
			return mu_fail(
			    err, MU_EINVAL,
			    "--propagate=%s: %.*s is no limit; write ALL, NONE, AS, CORE, CPU, DATA, "
			    "FSIZE, MEMLOCK, NOFILE, NPROC, RSS or STACK",
			    propagate, (int)strcspn(p, ","), p);
	}
	return 0;
}

void cli_environment_limits(const char *propagate, struct mu_buf *out)
{
	static const struct {
		const char *name;
		int resource;
	} row[] = {
#define MU_RLIMIT(name) {#name, RLIMIT_##name},
#include "proto/rlimits.def"
#undef MU_RLIMIT
	};

	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		struct rlimit limit;

		if (propagate && *propagate && !is_named(propagate, row[i].name))
			continue;
		if (getrlimit((__rlimit_resource_t)row[i].resource, &limit) == 0)
			mu_buf_printf(out, "SLURM_RLIMIT_%s=%s%llu%c", row[i].name, propagate ? "U" : "",
				      (unsigned long long)limit.rlim_cur, 0);
	}
}

char *cli_find_program(struct mu_arena *arena, const char *name)
{
	const char *path = getenv("PATH");

	if (strchr(name, '/'))
		return access(name, X_OK) ? NULL : mu_arena_strdup(arena, name);
	for (path = path ? path : "/usr/local/bin:/usr/bin:/bin"; *path;) {
		int len = (int)strcspn(path, ":");
		char *full = mu_arena_printf(arena, "%.*s/%s", len ? len : 1, len ? path : ".", name);

		if (access(full, X_OK) == 0)
			return full;
		path += len + (path[len] == ':');
	}
	return NULL;
}
