/* cli/script.c: batch scripts: what may be submitted, and the options inside. */
#include <string.h>

#include "cli/spec.h"

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

int cli_script_check(const char *text, size_t len, struct mu_err *err)
{
	size_t blanks = 0;

	if (!len)
		return mu_fail(err, MU_ESCRIPT, "Batch script is empty!");
	while (blanks < len && (is_blank(text[blanks]) || text[blanks] == '\n'))
		blanks++;
	if (blanks == len)
		return mu_fail(err, MU_ESCRIPT, "Batch script contains only whitespace!");
	if (len < 2 || text[0] != '#' || text[1] != '!')
		return mu_fail(err, MU_ESCRIPT,
			       "This does not look like a batch script.  The first\n"
			       "line must start with #! followed by the path to an interpreter.\n"
			       "For instance: #!/bin/sh");
	if (memchr(text, 0, len))
		return mu_fail(
		    err, MU_ESCRIPT,
		    "The Slurm controller does not allow scripts that\ncontain a NULL character '\\0'.");
	if (memmem(text, len, "\r\n", 2))
		return mu_fail(err, MU_ESCRIPT,
			       "Batch script contains DOS line breaks (\\r\\n)\n"
			       "instead of expected UNIX line breaks (\\n).");
	return 0;
}

int cli_script_words(const char *text, size_t len, struct mu_arena *arena, char ***ret, size_t *ret_count,
		     struct mu_err *err)
{
	char **words = mu_arena_alloc(arena, (len / 2 + 2) * sizeof *words);
	size_t count = 0, i = 0;

	for (;;) {
		struct mu_buf word MU_CLEANUP(mu_buf_free) = {0};
		char quote = 0;
		bool some = false;

		while (i < len && is_blank(text[i]))
			i++;
		if (i == len || text[i] == '#')
			break;
		for (; i < len && (quote || !is_blank(text[i])); i++) {
			char c = text[i];

			if (!quote && c == '#') {
				i = len; /* the rest is a remark */
				break;
			}
			some = true;
			if (c == '\\' && quote != '\'' && i + 1 < len)
				mu_buf_add(&word, &text[++i], 1);
			else if (!quote && (c == '"' || c == '\''))
				quote = c;
			else if (c == quote)
				quote = 0;
			else
				mu_buf_add(&word, &c, 1);
		}
		if (quote)
			return mu_fail(err, MU_ESYNTAX, "Unmatched %c in [%.*s]", quote,
				       (int)(len < 200 ? len : 200), text);
		if (some)
			words[count++] = mu_arena_strdup(arena, word.data ? (char *)word.data : "");
	}
	words[count] = NULL;
	*ret = words;
	*ret_count = count;
	return 0;
}

/* *RET_NEXT: the directives of the next component follow. */
static int one_directive(const char *text, size_t len, size_t line, struct cli_args *args, bool *ret_next,
			 struct mu_arena *arena, struct mu_err *err)
{
	char **words;
	size_t count, before = args->word_count;
	int rc = cli_script_words(text, len, arena, &words, &count, err);

	if (rc)
		return mu_wrap(err, "script line %zu", line);
	*ret_next = count == 1 && (strcmp(words[0], "hetjob") == 0 || strcmp(words[0], "packjob") == 0);
	if (*ret_next)
		return 0;
	rc = cli_args_words(args, MU_SBATCH, CLI_SCRIPT, words, count, false, arena, err);
	if (rc)
		return rc;
	if (args->word_count > before)
		return mu_fail(err, MU_ESCRIPT, "Invalid directive found in batch script: %s",
			       args->words[before]);
	return 0;
}

int cli_script_options(const char *text, size_t len, struct cli_args *args, size_t component,
		       size_t *ret_components, struct mu_arena *arena, struct mu_err *err)
{
	struct cli_args others = {0};
	size_t line = 0, at_component = 0;

	for (size_t at = 0; at < len;) {
		const char *p = text + at, *newline = memchr(p, '\n', len - at);
		size_t n = newline ? (size_t)(newline - p) : len - at, skip = 0;

		at += n + 1;
		line++;
		if (n >= 7 && memcmp(p, "#SBATCH", 7) == 0) {
			bool mine = at_component == component, next;
			int rc = one_directive(p + 7, n - 7, line, mine ? args : &others, &next, arena, err);

			if (rc)
				return rc;
			at_component += next;
			continue;
		}
		while (skip < n && is_blank(p[skip]))
			skip++;
		if (skip < n && p[skip] != '#')
			break; /* the first command */
	}
	*ret_components = at_component + 1;
	return 0;
}
