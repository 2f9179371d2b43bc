/* cli/environment.c: which variables a job takes along. */
#include <ctype.h>
#include <string.h>
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
		if (!len)
			continue;
		if (strcasecmp(text, "ALL") == 0) {
			all = true;
		} else if (strcasecmp(text, "NONE") == 0) {
			none = true;
		} else if (strcasecmp(text, "NIL") == 0) {
			nil = true;
		} else if (isdigit((unsigned char)*text) || strcspn(text, " \t") < len) {
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

void cli_environment_limits(struct mu_buf *out)
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

		if (getrlimit((__rlimit_resource_t)row[i].resource, &limit) == 0)
			mu_buf_printf(out, "SLURM_RLIMIT_%s=%llu%c", row[i].name,
				      (unsigned long long)limit.rlim_cur, 0);
	}
}
