/* proto/multiprog.c: see multiprog.h. */
#include "proto/multiprog.h"

#include <stdbool.h>
#include <string.h>

#include "proto/base/buf.h"
#include "proto/units.h"

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* One word from *AT; marks it as plain when single quotes were in it. */
static char *take_word(const char **at, const char *end, struct mu_arena *arena, char *ret_plain)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf b = {0};
	char quote = 0;
	const char *p = *at;
	*ret_plain = 0;
	mu_buf_add(&b, "", 0);
	for (; p < end && (quote || !is_space(*p)); p++) {
		if (quote ? *p == quote : *p == '\'' || *p == '"') {
			*ret_plain = (char)(*ret_plain || *p == '\'');
			quote = quote ? 0 : *p;
		} else {
			if (*p == '\\' && quote != '\'' && p + 1 < end)
				p++;
			mu_buf_add(&b, p, 1);
		}
	}
	*at = p;
	return mu_arena_strdup(arena, b.len ? (char *)b.data : "");
}

/* Position of TASK in the list, -1: not there, -2: the list is malformed. TASK may be none (UINT32_MAX). */
static int64_t place_in(const char *list, uint32_t task)
{
	int64_t place = -1, before = 0;
	for (const char *p = list; *p;) {
		char word[32];
		size_t len = strcspn(p, ",");
		int64_t first, last;
		if (len == 0 || len >= sizeof word)
			return -2;
		memcpy(word, p, len);
		word[len] = 0;
		char *dash = strchr(word, '-');
		if (dash)
			*dash = 0;
		if (mu_number_parse("", word, 0, MU_MULTIPROG_TASKS, &first, NULL))
			return -2;
		last = first;
		if (dash && mu_number_parse("", dash + 1, first, MU_MULTIPROG_TASKS, &last, NULL))
			return -2;
		if (place < 0 && task >= first && task <= last)
			place = before + (int64_t)task - first;
		before += last - first + 1;
		p += len + (p[len] == ',');
	}
	return place;
}

static int take_line(const char *p, const char *end, size_t number, struct mu_arena *arena,
		     struct mu_multiprog *out, struct mu_err *err)
{
	struct mu_multiprog_line *l = &out->line[out->lines];
	char plain, *word;
	while (p < end && is_space(*p))
		p++;
	if (p == end || *p == '#')
		return 0;
	if (out->lines == MU_MULTIPROG_LINES)
		return mu_fail(err, MU_ELIMIT, "line %zu: more than %d lines name programs", number,
			       MU_MULTIPROG_LINES);
	l->tasks = take_word(&p, end, arena, &plain);
	if (strcmp(l->tasks, "*") != 0 && place_in(l->tasks, UINT32_MAX) == -2)
		return mu_fail(err, MU_ESYNTAX, "line %zu: \"%.64s\" is no list of tasks, such as 0,2-4 or *",
			       number, l->tasks);
	char **list = mu_arena_alloc(arena, sizeof *list * (size_t)(end - p + 2));
	char *quoted = mu_arena_alloc(arena, (size_t)(end - p + 2));
	for (;;) {
		while (p < end && is_space(*p))
			p++;
		if (p == end || *p == '#')
			break;
		if (l->words == MU_MULTIPROG_WORDS)
			return mu_fail(err, MU_ELIMIT, "line %zu has more than %d words", number,
				       MU_MULTIPROG_WORDS);
		word = take_word(&p, end, arena, &quoted[l->words]);
		list[l->words++] = word;
	}
	if (l->words == 0)
		return mu_fail(err, MU_ESYNTAX, "line %zu: no program for task %s", number, l->tasks);
	l->word = list;
	l->plain = quoted;
	out->lines++;
	return 0;
}

int mu_multiprog_parse(const char *text, size_t len, struct mu_arena *arena, struct mu_multiprog *ret,
		       struct mu_err *err)
{
	struct mu_multiprog out = {.lines = 0};
	const char *end = text + len;
	size_t number = 0;
	if (len > MU_MULTIPROG_BYTES)
		return mu_fail(err, MU_ELIMIT, "the file is larger than %d bytes", MU_MULTIPROG_BYTES);
	out.line = mu_arena_alloc(arena, (MU_MULTIPROG_LINES + 1) * sizeof *out.line);
	for (const char *p = text; p < end;) {
		MU_CLEANUP(mu_buf_free) struct mu_buf whole = {0};
		size_t first = number + 1;
		for (bool more = true; more && p < end;) {
			const char *stop = memchr(p, '\n', (size_t)(end - p));
			size_t n = (size_t)((stop ? stop : end) - p);
			more = n && p[n - 1] == '\\';
			mu_buf_add(&whole, p, more ? n - 1 : n);
			p += n + (stop != NULL);
			number++;
		}
		const char *line = whole.len ? (const char *)whole.data : "";
		int code = take_line(line, line + whole.len, first, arena, &out, err);
		if (code)
			return code;
	}
	*ret = out;
	return 0;
}

static char *fill(const char *word, uint32_t task, int64_t offset, struct mu_arena *arena)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf b = {0};
	mu_buf_add(&b, "", 0);
	for (; *word; word++) {
		if (word[0] == '%' && (word[1] == 't' || word[1] == 'o'))
			mu_buf_printf(&b, "%lld", *++word == 't' ? (long long)task : (long long)offset);
		else
			mu_buf_add(&b, word, 1);
	}
	return mu_arena_strdup(arena, b.len ? (char *)b.data : "");
}

int mu_multiprog_words(const struct mu_multiprog *prog, uint32_t task, struct mu_arena *arena, char ***ret,
		       size_t *ret_count, struct mu_err *err)
{
	const struct mu_multiprog_line *l = NULL;
	int64_t offset = -1;
	for (size_t i = 0; i < prog->lines && offset < 0; i++)
		if (strcmp(prog->line[i].tasks, "*") != 0) {
			offset = place_in(prog->line[i].tasks, task);
			l = offset >= 0 ? &prog->line[i] : NULL;
		}
	for (size_t i = 0; i < prog->lines && !l; i++)
		if (strcmp(prog->line[i].tasks, "*") == 0) {
			l = &prog->line[i];
			offset = task;
		}
	if (!l)
		return mu_fail(err, MU_EINVAL, "task %u: No executable program specified for this task",
			       task);
	char **list = mu_arena_alloc(arena, (l->words + 1) * sizeof *list);
	for (size_t i = 0; i < l->words; i++)
		list[i] = l->plain[i] ? l->word[i] : fill(l->word[i], task, offset, arena);
	*ret = list;
	*ret_count = l->words;
	return 0;
}
