/* cli/words.c: options of muster's own commands. */
#include <string.h>

#include "cli/muster.h"

static const struct muster_word *word_named(const struct muster_word *list, size_t n, const char *name,
					    size_t len)
{
	for (size_t i = 0; i < n; i++)
		if (strlen(list[i].name) == len && strncmp(list[i].name, name, len) == 0)
			return &list[i];
	return NULL;
}

int muster_words(struct cli *c, size_t count, char **words, const struct muster_word *list, size_t n)
{
	int left = 0;

	for (size_t i = 0; i < count; i++) {
		const char *w = words[i], *equal = strchr(w, '=');
		if (strncmp(w, "--", 2) != 0 || !w[2]) {
			words[left++] = words[i];
			continue;
		}
		size_t len = equal ? (size_t)(equal - w - 2) : strlen(w + 2);
		const struct muster_word *m = word_named(list, n, w + 2, len);
		if (!m) {
			cli_error(c, "unrecognized option '%s'", w);
			return -1;
		}
		if (equal && m->kind == MUSTER_FLAG) {
			cli_error(c, "option '--%s' doesn't allow an argument", m->name);
			return -1;
		}
		if (!equal && m->kind == MUSTER_VALUE && i + 1 == count) {
			cli_error(c, "option '--%s' requires an argument", m->name);
			return -1;
		}
		*m->value = equal ? equal + 1 : m->kind == MUSTER_VALUE ? words[++i] : "";
	}
	return left;
}
