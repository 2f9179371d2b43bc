/* cli/prompt.c: see prompt.h. */
#include "cli/prompt.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 256 };

/* Words of one typed line; quotes keep blanks together. */
static size_t split_line(char *text, char **words)
{
	size_t count = 0;

	for (char *p = text; *p && count < WORDS_MAX;) {
		char *out, quote = 0;

		p += strspn(p, " \t\n");
		if (!*p)
			break;
		words[count++] = out = p;
		for (; *p && (quote || !strchr(" \t\n", *p)); p++) {
			if (!quote && (*p == '"' || *p == '\''))
				quote = *p;
			else if (*p == quote)
				quote = 0;
			else
				*out++ = *p;
		}
		if (*p)
			p++;
		*out = 0;
	}
	return count;
}

int cli_prompt(struct cli *c, cli_prompt_fn line, void *arg)
{
	char *text = NULL, *last = NULL, *words[WORDS_MAX];
	size_t cap = 0;
	int rc = 0;

	for (;;) {
		size_t count;
		char *copy;
		int ended;

		printf("%s: ", c->name);
		fflush(stdout);
		if (getline(&text, &cap, stdin) < 0)
			break;
		copy = mu_arena_strdup(&c->arena, strncmp(text, "!!", 2) == 0 && last ? last : text);
		if (strncmp(text, "!!", 2) == 0)
			printf("%s", copy);
		last = mu_arena_strdup(&c->arena, copy);
		count = split_line(copy, words);
		if (!count)
			continue;
		ended = line(arg, words, count);
		if (ended == CLI_PROMPT_END)
			break;
		rc = ended;
	}
	free(text);
	return rc;
}
