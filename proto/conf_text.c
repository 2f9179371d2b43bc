/* proto/conf_text.c: the syntax of slurm.conf: lines, pairs, includes, and the sentences about them. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "proto/conf_impl.h"
#include "proto/pb.h"

int conf__fail(struct conf *c, int code, const char *format, ...)
{
	char sentence[MU_ERR_TEXT];
	va_list args;
	va_start(args, format);
	vsnprintf(sentence, sizeof(sentence), format, args);
	va_end(args);
	if (!c->file) /* One word alone. */
		return mu_fail(c->err, code, "%s", sentence);
	if (!c->line)
		return mu_fail(c->err, code, "%s: %s", c->file, sentence);
	return mu_fail(c->err, code, "%s line %d: %s", c->file, c->line, sentence);
}

void conf__note(struct conf *c, const char *key, const char *note)
{
	if (!*note || mu_map_put_str(&c->notes, note, c))
		return;
	if (!c->note)
		return;
	if (!c->file)
		c->note(c->arg, mu_arena_printf(c->arena, "%s: %s", key, note));
	else if (c->line)
		c->note(c->arg, mu_arena_printf(c->arena, "%s line %d: %s: %s", c->file, c->line, key, note));
	else
		c->note(c->arg, mu_arena_printf(c->arena, "%s: %s: %s", c->file, key, note));
}

bool conf__yes(const char *text, bool *ret)
{
	static const char *const yes[] = {"yes", "true", "up", "on", "1"}, *const no[] = {"no", "false",
											  "down", "off", "0"};
	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++)
		if (!strcasecmp(text, yes[i]) || !strcasecmp(text, no[i])) {
			*ret = !strcasecmp(text, yes[i]);
			return true;
		}
	return false;
}

/* ---- the nearest name ---- */

enum { MAX_WORD = 48 };

static char lower(char c)
{
	return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static int least(int a, int b)
{
	return a < b ? a : b;
}

/* Edits (insert, delete, change, swap of neighbours) from A to B, without regard to case. */
static int distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	int row[3][MAX_WORD + 1];
	for (size_t k = 0; k <= b_len; k++)
		row[0][k] = (int)k;
	for (size_t i = 1; i <= a_len; i++) {
		int *now = row[i % 3], *above = row[(i + 2) % 3], *before = row[(i + 1) % 3];
		now[0] = (int)i;
		for (size_t k = 1; k <= b_len; k++) {
			int same = lower(a[i - 1]) == lower(b[k - 1]);
			now[k] = least(least(above[k], now[k - 1]) + 1, above[k - 1] + !same);
			if (i > 1 && k > 1 && lower(a[i - 1]) == lower(b[k - 2]) &&
			    lower(a[i - 2]) == lower(b[k - 1]))
				now[k] = least(now[k], before[k - 2] + 1);
		}
	}
	return row[a_len % 3][b_len];
}

const char *conf__nearest(const char *word, const char *const *names, size_t count)
{
	size_t len = strlen(word);
	const char *found = NULL;
	if (len > MAX_WORD)
		return NULL;
	int best = (int)(len / 3) + 1; /* Further off is no likeness. */
	for (size_t i = 0; i < count; i++) {
		size_t name_len = strlen(names[i]);
		if (name_len > MAX_WORD)
			continue;
		int d = distance(word, len, names[i], name_len);
		if (d < best || (d == best && !found)) {
			best = d;
			found = names[i];
		}
	}
	return found;
}

/* ---- lines and pairs ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static bool is_key(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
	       c == '.' || c == '-';
}

/* One logical line starting at *P, continuation lines joined and the comment removed, into OUT. */
static void take_line(struct conf *c, const char **p, int *number, struct mu_buf *out)
{
	bool quoted = false, comment = false;
	const char *s = *p;
	mu_buf_reset(out);
	mu_buf_add(out, "", 0);
	for (; *s && *s != '\n'; s++) {
		const char *end = s + 1;
		if (comment) /* It ends with its line, whatever its last character. */
			continue;
		if (*s == '\\' && *end == '\r')
			end++;
		if (*s == '\\' && *end == '\n') { /* The next line goes on here. */
			s = end;
			++*number;
			continue;
		}
		if (*s == '\\' && s[1] == '#') {
			mu_buf_add(out, "#", 1);
			s++;
			continue;
		}
		if (*s == '"')
			quoted = !quoted;
		if (*s == '#' && !quoted)
			comment = true;
		else
			mu_buf_add(out, s, 1);
	}
	*p = *s ? s + 1 : s;
}

/* The value at *P, quotes removed. */
static int take_value(struct conf *c, const char *key, const char **p, const char **ret)
{
	const char *s = *p, *end;
	size_t len = 0;
	bool quoted = false;
	while (is_blank(*s))
		s++;
	for (end = s; *end && (quoted || !is_blank(*end)); end++)
		if (*end == '"')
			quoted = !quoted;
	if (quoted)
		return conf__fail(c, MU_ESYNTAX,
				  "the value of %s opens a quotation mark that it does not close", key);
	char *value = mu_arena_alloc(c->arena, (size_t)(end - s) + 1);
	for (const char *q = s; q < end; q++)
		if (*q != '"')
			value[len++] = *q;
	if (end == s)
		return conf__fail(c, MU_ESYNTAX, "%s has no value; write %s=VALUE, or leave the key out", key,
				  key);
	*p = end;
	*ret = value;
	return 0;
}

static int refuse_shell(struct conf *c, const char *key, const char *value)
{
	if (!strstr(value, "$(") && !strstr(value, "${") && !strchr(value, '`'))
		return 0;
	return conf__fail(c, MU_EINVAL,
			  "%s=%.80s: this looks like an unexpanded shell expression on line %d; write what "
			  "the shell should have put "
			  "there%s",
			  key, value, c->line,
			  strstr(value, "hostname") ? " (the output of: hostname -s)" : "");
}

static int take_pairs(struct conf *c, const char *text, struct conf__line *line)
{
	struct conf__pair pair[CONF__MAX_PAIRS];
	const char *p = text;
	while (1) {
		while (is_blank(*p))
			p++;
		if (!*p)
			break;
		if (line->count == CONF__MAX_PAIRS)
			return conf__fail(c, MU_ELIMIT, "the line has more than %d words", CONF__MAX_PAIRS);
		size_t len = 0;
		while (is_key(p[len]))
			len++;
		const char *after = p + len;
		while (is_blank(*after))
			after++;
		if (!len || *after != '=') {
			int word = (int)strcspn(p, " \t\r");
			char shown[81];
			snprintf(shown, sizeof(shown), "%.*s", word, p);
			int rc = refuse_shell(c, "the word", shown);
			return rc ? rc
				  : conf__fail(c, MU_ESYNTAX,
					       "\"%s\" stands alone; every word must be KEY=VALUE", shown);
		}
		char *key = mu_arena_alloc(c->arena, len + 1);
		memcpy(key, p, len);
		p = after + 1;
		struct conf__pair *now = &pair[line->count];
		now->key = key;
		int rc = take_value(c, key, &p, &now->value);
		if (!rc)
			rc = refuse_shell(c, key, now->value);
		if (rc)
			return rc;
		line->count++;
	}
	line->pair = mu_arena_dup(c->arena, pair, (size_t)line->count * sizeof(pair[0]));
	return 0;
}

/* ---- files ---- */

static int read_text(struct conf *c, const char *file, const char *text, int depth, bool includes,
		     int (*take)(struct conf *, struct conf__line *));

static int fetch(struct conf *c, const char *name, const char **ret_text)
{
	struct mu_err inner = {0};
	if (c->files == CONF__MAX_FILES)
		return conf__fail(c, MU_ELIMIT, "more than %d files are included", CONF__MAX_FILES);
	int rc = c->reader ? c->reader(c->arg, name, c->arena, ret_text, &inner) : MU_ENOENT;
	if (rc == MU_ENOENT)
		return rc;
	if (rc)
		return conf__fail(c, rc, "%s: %s", name, *inner.text ? inner.text : mu_strerror(rc));
	return 0;
}

static int include(struct conf *c, const char *text, int depth,
		   int (*take)(struct conf *, struct conf__line *))
{
	const char *p = text + strlen("include"), *content;
	while (is_blank(*p))
		p++;
	size_t len = strlen(p);
	while (len && is_blank(p[len - 1]))
		len--;
	char *name = mu_arena_alloc(c->arena, len + 1);
	memcpy(name, p, len);
	if (!len)
		return conf__fail(c, MU_ESYNTAX, "Include names no file");
	int rc = refuse_shell(c, "Include", name);
	if (rc)
		return rc;
	if (depth == CONF__MAX_DEPTH)
		return conf__fail(c, MU_ELIMIT,
				  "Include %s lies more than %d files deep; does a file include itself?",
				  name, CONF__MAX_DEPTH);
	rc = fetch(c, name, &content);
	if (rc == MU_ENOENT)
		return conf__fail(c, MU_EINVAL, "the included file %s is not there", name);
	const char *file = c->file;
	int line = c->line;
	if (!rc)
		rc = read_text(c, name, content, depth + 1, true, take);
	if (!rc) {
		c->file = file;
		c->line = line;
	}
	return rc;
}

static bool is_include(const char *text)
{
	size_t n = strlen("include");
	return !strncasecmp(text, "include", n) && is_blank(text[n]);
}

static int read_line(struct conf *c, const char *text, int depth, bool includes,
		     int (*take)(struct conf *, struct conf__line *))
{
	while (is_blank(*text))
		text++;
	if (!*text)
		return 0;
	if (includes && is_include(text))
		return include(c, text, depth, take);
	struct conf__line *line = mu_arena_alloc(c->arena, sizeof(*line));
	line->file = c->file;
	line->number = c->line;
	int rc = take_pairs(c, text, line);
	return rc ? rc : take(c, line);
}

static int read_text(struct conf *c, const char *file, const char *text, int depth, bool includes,
		     int (*take)(struct conf *, struct conf__line *))
{
	MU_CLEANUP(mu_buf_free) struct mu_buf buf = {0};
	int number = 0, rc = 0;
	c->files++;
	c->file = mu_arena_strdup(c->arena, file);
	mu_hasher_add(&c->hash, file, strlen(file) + 1);
	mu_hasher_add(&c->hash, text, strlen(text) + 1);
	for (const char *p = text; *p && !rc;) {
		c->line = ++number;
		if (++c->lines > CONF__MAX_LINES)
			return conf__fail(c, MU_ELIMIT, "the configuration has more than %d lines",
					  CONF__MAX_LINES);
		take_line(c, &p, &number, &buf);
		if (!mu_pb_is_text((const char *)buf.data))
			return conf__fail(c, MU_ESYNTAX, "the line holds bytes that are no UTF-8 text");
		rc = read_line(c, (const char *)buf.data, depth, includes, take);
	}
	return rc;
}

int conf__read(struct conf *c, const char *file, const char *text, bool includes,
	       int (*take)(struct conf *, struct conf__line *))
{
	return read_text(c, file, text, 0, includes, take);
}

int conf__companion(struct conf *c, const char *name, int (*take)(struct conf *, struct conf__line *))
{
	const char *text;
	int rc = fetch(c, name, &text);
	return rc ? rc : conf__read(c, name, text, false, take);
}
