/* proto/export.c: --export. See export.h. */
#include "proto/export.h"

#include <string.h>
#include <strings.h>

enum { MAX_WORDS = 4096 };

/* The value at *P up to a comma outside quotation marks, which are dropped; NULL when one is not closed. */
static const char *take_value(const char **p, struct mu_arena *arena)
{
	char *out = mu_arena_alloc(arena, strlen(*p) + 1);
	size_t len = 0;
	char quote = 0;
	const char *s = *p;
	for (; *s && (quote || *s != ','); s++) {
		if (quote ? *s == quote : (*s == '"' || *s == '\''))
			quote = quote ? 0 : *s;
		else
			out[len++] = *s;
	}
	*p = s;
	return quote ? NULL : out;
}

static bool is_name(const char *p, size_t len)
{
	if (!len || (*p >= '0' && *p <= '9'))
		return false;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)p[i] <= ' ' || strchr("\"'`$\\;&|<>", p[i]))
			return false;
	return true;
}

static int take_word(const char **p, struct mu_arena *arena, struct mu_export *ret, struct mu_err *err)
{
	size_t len = strcspn(*p, ",=");
	const char *name = *p;
	if (!is_name(name, len))
		return mu_fail(err, MU_EINVAL,
			       "\"%.80s\" is no list of environment variables; write ALL, NONE, NAME or "
			       "NAME=VALUE, joined by commas",
			       name);
	if (ret->words == MAX_WORDS)
		return mu_fail(err, MU_EINVAL, "--export lists more than %d variables", MAX_WORDS);
	struct mu_export_word *word = &ret->word[ret->words++];
	word->name = memcpy(mu_arena_alloc(arena, len + 1), name, len);
	*p += len;
	if (**p != '=')
		return 0;
	++*p;
	word->value = take_value(p, arena);
	if (!word->value)
		return mu_fail(err, MU_EINVAL,
			       "the value of %.80s in --export opens a quotation mark that it does not close",
			       word->name);
	return 0;
}

int mu_export_parse(const char *text, struct mu_arena *arena, struct mu_export *ret, struct mu_err *err)
{
	struct mu_export out = {0};
	size_t commas = 1;
	if (!strcasecmp(text, "NONE") || !strcasecmp(text, "NIL")) {
		out.nil = !strcasecmp(text, "NIL");
		out.login = !out.nil;
		*ret = out;
		return 0;
	}
	for (const char *p = text; *p; p++)
		commas += *p == ',';
	out.word = mu_arena_alloc(arena, (commas < MAX_WORDS ? commas : MAX_WORDS) * sizeof(*out.word));
	out.all = !*text;
	for (const char *p = text; *p;) {
		size_t len = strcspn(p, ",");
		if (len == 3 && !strncasecmp(p, "ALL", 3)) {
			out.all = true;
			p += len;
		} else if ((len == 4 && !strncasecmp(p, "NONE", 4)) ||
			   (len == 3 && !strncasecmp(p, "NIL", 3))) {
			return mu_fail(err, MU_EINVAL,
				       "NONE and NIL stand alone in --export, but \"%.80s\" names more",
				       text);
		} else {
			int rc = take_word(&p, arena, &out, err);
			if (rc)
				return rc;
		}
		p += *p == ',';
	}
	out.login = !out.all;
	*ret = out;
	return 0;
}

static const struct mu_export_word *find_word(const struct mu_export *export, const char *name, size_t len)
{
	const struct mu_export_word *found = NULL; /* The last one counts. */
	for (size_t i = 0; i < export->words; i++)
		if (!strncmp(export->word[i].name, name, len) && !export->word[i].name[len])
			found = &export->word[i];
	return found;
}

void mu_export_apply(const struct mu_export *export, char *const *env, struct mu_buf *out)
{
	for (char *const *e = env; *e; e++) {
		size_t len = strcspn(*e, "=");
		const struct mu_export_word *word = find_word(export, *e, len);
		bool ours = !strncmp(*e, "SLURM_", 6) || !strncmp(*e, "SPANK_", 6);
		if (!(*e)[len] || (word && word->value))
			continue;
		if (export->all || word || ours)
			mu_buf_add(out, *e, strlen(*e) + 1);
	}
	for (size_t i = 0; i < export->words; i++) {
		const struct mu_export_word *word = &export->word[i];
		if (!word->value || find_word(export, word->name, strlen(word->name)) != word)
			continue;
		mu_buf_str(out, word->name);
		mu_buf_str(out, "=");
		mu_buf_add(out, word->value, strlen(word->value) + 1);
	}
}
