/* cli/table.c: see table.h. */
#include "cli/table.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Length in bytes of the character at P. */
static size_t char_bytes(const char *p, size_t len)
{
	unsigned char c = (unsigned char)*p;
	size_t n = c < 0x80		? 1
		   : (c & 0xe0) == 0xc0 ? 2
		   : (c & 0xf0) == 0xe0 ? 3
		   : (c & 0xf8) == 0xf0 ? 4
					: 1;

	if (n > len)
		return 1;
	for (size_t i = 1; i < n; i++) {
		if (((unsigned char)p[i] & 0xc0) != 0x80)
			return 1;
	}
	return n;
}

/* How many bytes at the front of TEXT are characters of one byte each: nearly always all. */
static size_t plain_bytes(const char *text, size_t len)
{
	size_t n = 0;

	while (n < len && !((unsigned char)text[n] & 0x80))
		n++;
	return n;
}

size_t cli_chars(const char *text, size_t len)
{
	size_t chars = plain_bytes(text, len);

	for (size_t i = chars; i < len; chars++)
		i += char_bytes(text + i, len - i);
	return chars;
}

static void fill(struct mu_buf *out, char with, size_t n)
{
	if (n)
		memset(mu_buf_grow(out, n), with, n);
}

static void put_width(struct mu_buf *out, const char *text, size_t len, int width, bool right, char mark)
{
	size_t chars, bytes = 0, want = (size_t)width;

	if (width <= 0) {
		mu_buf_add(out, text, len);
		return;
	}
	chars = cli_chars(text, len);
	if (chars <= want) {
		if (right)
			fill(out, ' ', want - chars);
		mu_buf_add(out, text, len);
		if (!right)
			fill(out, ' ', want - chars);
		return;
	}
	for (size_t n = mark ? want - 1 : want; n > 0; n--)
		bytes += char_bytes(text + bytes, len - bytes);
	mu_buf_add(out, text, bytes);
	if (mark)
		mu_buf_add(out, &mark, 1);
}

void cli_mask(struct mu_buf *out, size_t from)
{
	for (size_t i = from; i < out->len; i++) {
		unsigned char c = (unsigned char)out->data[i];

		if (c < ' ' || c == 0x7f)
			out->data[i] = '?';
	}
}

void cli_put_width(struct mu_buf *out, const char *text, size_t len, int width, bool right, char mark)
{
	size_t from = out->len;

	put_width(out, text, len, width, right, mark);
	cli_mask(out, from);
}

/* ---- formats ---- */

static struct cli_item *add_item(struct cli_format *f, struct mu_arena *arena)
{
	if (f->count == CLI_ITEMS_MAX)
		return NULL;
	if ((f->count & (f->count - 1)) == 0) { /* full at each power of two */
		struct cli_item *more = mu_arena_alloc(arena, (f->count ? 2 * f->count : 1) * sizeof *more);

		if (f->count)
			memcpy(more, f->item, f->count * sizeof *more);
		f->item = more;
	}
	return &f->item[f->count++];
}

static const char *read_width(const char *p, int *ret_width, bool *ret_right, struct mu_err *err)
{
	long width = 0;

	*ret_right = *p == '.';
	if (*p == '.')
		p++;
	while (isdigit((unsigned char)*p) && width <= CLI_WIDTH_MAX)
		width = width * 10 + (*p++ - '0');
	if (width > CLI_WIDTH_MAX) {
		mu_fail(err, MU_ELIMIT, "A column is at most %d characters wide", CLI_WIDTH_MAX);
		return NULL;
	}
	*ret_width = (int)width;
	return p;
}

/* "%all": every column that has a letter, a bar between. */
static int format_all(const struct cli_columns *set, struct mu_arena *arena, struct cli_format *ret,
		      struct mu_err *err)
{
	struct cli_format f = {.before = ""};

	for (size_t i = 0; i < set->count; i++) {
		struct cli_item *item;

		if (!set->column[i].letter)
			continue;
		if (f.count)
			f.item[f.count - 1].after = "|";
		item = add_item(&f, arena);
		if (!item)
			return mu_fail(err, MU_ELIMIT, "A format has at most %d columns", CLI_ITEMS_MAX);
		*item = (struct cli_item){.column = &set->column[i], .after = ""};
	}
	*ret = f;
	return 0;
}

int cli_format_letters(const struct cli_columns *set, const char *text, struct mu_arena *arena,
		       struct cli_format *ret, struct mu_err *err)
{
	struct cli_format f = {.before = ""};
	struct mu_buf between MU_CLEANUP(mu_buf_free) = {0};
	const char *p = text;

	if (strcmp(text, "%all") == 0)
		return format_all(set, arena, ret, err);
	mu_buf_add(&between, "", 0);
	for (;;) {
		struct cli_item *item;
		const struct cli_column *column = NULL;
		bool right = false, widen = false;
		int width;

		mu_buf_reset(&between);
		for (; *p && (*p != '%' || p[1] == '%'); p++) {
			mu_buf_add(&between, p, 1);
			if (*p == '%')
				p++;
		}
		if (f.count == 0)
			f.before =
			    between.len ? mu_arena_printf(arena, "%.*s", (int)between.len, between.data) : "";
		else
			f.item[f.count - 1].after =
			    between.len ? mu_arena_printf(arena, "%.*s", (int)between.len, between.data) : "";
		if (!*p)
			break;
		p = read_width(p + 1, &width, &right, err);
		if (!p)
			return MU_ELIMIT;
		if (*p == '#') { /* our own defaults only: as wide as the longest */
			widen = true;
			p++;
		}
		for (size_t i = 0; i < set->count && *p; i++) {
			if (set->column[i].letter == *p) {
				column = &set->column[i];
				break;
			}
		}
		if (!column)
			return mu_fail(err, MU_ESYNTAX,
				       "Invalid format specification: no column has the letter \"%%%.1s\"",
				       p);
		item = add_item(&f, arena);
		if (!item)
			return mu_fail(err, MU_ELIMIT, "A format has at most %d columns", CLI_ITEMS_MAX);
		*item = (struct cli_item){
		    .column = column, .width = width, .right = right, .widen = widen, .after = ""};
		p++;
	}
	*ret = f;
	return 0;
}

/* Is NAME, of LEN letters, one of Slurm's spellings of WANT? Dashes and underscores in it count for nothing.
 */
static bool spelled(const char *want, const char *name, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (name[i] == '-' || name[i] == '_')
			continue;
		want += strspn(want, "-_");
		if (tolower((unsigned char)*want++) != tolower((unsigned char)name[i]))
			return false;
	}
	return !*want;
}

static const struct cli_column *by_spelling(const struct cli_columns *set, const char *name, size_t len)
{
	for (size_t i = 0; i < set->count; i++)
		if (spelled(set->column[i].name, name, len))
			return &set->column[i];
	return NULL;
}

static const struct cli_column *by_name(const struct cli_columns *set, const char *name, size_t len,
					bool prefix)
{
	const struct cli_column *found = NULL;

	for (size_t i = 0; i < set->count; i++) {
		const struct cli_column *c = &set->column[i];

		if (!*c->name || strncasecmp(c->name, name, len) != 0)
			continue;
		if (!c->name[len])
			return c;
		if (!prefix)
			continue;
		if (found)
			prefix = false; /* ambiguous: only a whole name will do */
		found = c;
	}
	return prefix ? found : NULL;
}

int cli_format_names(const struct cli_columns *set, const char *text, struct mu_arena *arena,
		     struct cli_format *ret, struct mu_err *err)
{
	struct cli_format f = {.before = ""};
	struct mu_buf all MU_CLEANUP(mu_buf_free) = {0};

	if (strcasecmp(text, "all") == 0) {
		for (size_t i = 0; i < set->count; i++)
			mu_buf_printf(&all, "%s%s", i ? "," : "", set->column[i].name);
		text = mu_arena_strdup(arena, all.data ? (char *)all.data : "");
	}
	for (const char *p = text; *p;) {
		size_t len = strcspn(p, ":,");
		const struct cli_column *column = by_spelling(set, p, len);
		struct cli_item *item, made = {.column = column, .width = 20, .after = ""};

		if (!column)
			return mu_fail(err, MU_ESYNTAX,
				       "Invalid job format specification: \"%.*s\" is no column's name",
				       (int)len, p);
		p += len;
		if (*p == ':') {
			size_t after;

			p = read_width(p + 1, &made.width, &made.right, err);
			if (!p)
				return MU_ELIMIT;
			after = strcspn(p, ",");
			/* "Name:." in use as "no width, a dot behind": a dot without a number is text. */
			if (made.right && !made.width) {
				made.right = false;
				made.after = mu_arena_printf(arena, ".%.*s", (int)after, p);
			} else {
				made.after = mu_arena_printf(arena, "%.*s", (int)after, p);
			}
			p += after;
		}
		item = add_item(&f, arena);
		if (!item)
			return mu_fail(err, MU_ELIMIT, "A format has at most %d columns", CLI_ITEMS_MAX);
		*item = made;
		if (*p == ',')
			p++;
	}
	if (!f.count)
		return mu_fail(err, MU_ESYNTAX, "Invalid format specification: it names no column");
	*ret = f;
	return 0;
}

int cli_format_acct(const struct cli_columns *set, const char *text, struct mu_arena *arena,
		    struct cli_format *ret, struct mu_err *err)
{
	struct cli_format f = {.before = ""};

	for (const char *p = text; *p;) {
		size_t len = strcspn(p, "%, \t\n");
		const struct cli_column *column;
		struct cli_item *item;
		char *end;
		long width;
		bool right;

		if (!len) {
			if (*p == '%')
				return mu_fail(err, MU_ESYNTAX, "Invalid field requested: \"%s\"", p);
			p++;
			continue;
		}
		column = by_name(set, p, len, true);
		if (!column)
			return mu_fail(err, MU_ESYNTAX, "Invalid field requested: \"%.*s\"", (int)len, p);
		width = column->width;
		right = !(column->flags & COL_LEFT);
		p += len;
		if (*p == '%') {
			width = strtol(p + 1, &end, 10);
			if (end == p + 1 || width > CLI_WIDTH_MAX || width < -CLI_WIDTH_MAX ||
			    strcspn(end, ", \t\n") != 0)
				return mu_fail(err, MU_ESYNTAX,
					       "Invalid width \"%.*s\" of field %s: a number up to %d",
					       (int)strcspn(p + 1, ","), p + 1, column->name, CLI_WIDTH_MAX);
			right = width > 0 && right;
			width = width < 0 ? -width : width;
			p = end;
		}
		item = add_item(&f, arena);
		if (!item)
			return mu_fail(err, MU_ELIMIT, "A format has at most %d columns", CLI_ITEMS_MAX);
		*item = (struct cli_item){.column = column, .width = (int)width, .right = right, .after = ""};
	}
	if (!f.count)
		return mu_fail(err, MU_ESYNTAX, "Invalid format: it names no field");
	*ret = f;
	return 0;
}

void cli_table_names(const struct cli_columns *set, FILE *out)
{
	for (size_t i = 0; i < set->count; i++)
		fprintf(out, "%-19s%s", set->column[i].name, i % 4 == 3 || i + 1 == set->count ? "\n" : " ");
}

/* ---- lines ---- */

void cli_table_heading(const struct cli_format *f, struct mu_buf *out)
{
	mu_buf_str(out, f->before);
	for (size_t i = 0; i < f->count; i++) {
		const struct cli_item *it = &f->item[i];

		cli_put_width(out, it->column->heading, strlen(it->column->heading), it->width, it->right, 0);
		mu_buf_str(out, it->after);
	}
	mu_buf_str(out, "\n");
}

/* What was written into OUT from FROM on becomes a column of WIDTH characters. */
static void fit_width(struct mu_buf *out, size_t from, size_t want, bool right)
{
	size_t len = out->len - from, chars = cli_chars((char *)out->data + from, len), bytes = 0;

	if (chars > want) {
		while (want--)
			bytes += char_bytes((char *)out->data + from + bytes, len - bytes);
		out->len = from + bytes;
		out->data[out->len] = 0;
		return;
	}
	fill(out, ' ', want - chars);
	if (right && chars < want) {
		memmove(out->data + from + want - chars, out->data + from, len);
		memset(out->data + from, ' ', want - chars);
	}
}

void cli_table_row(const struct cli_format *f, const struct cli_cell *cell, struct mu_buf *out)
{
	mu_buf_str(out, f->before);
	for (size_t i = 0; i < f->count; i++) {
		const struct cli_item *it = &f->item[i];
		size_t from = out->len;

		it->column->get(cell, out);
		cli_mask(out, from);
		if (it->width > 0)
			fit_width(out, from, (size_t)it->width, it->right);
		if (*it->after)
			mu_buf_str(out, it->after);
	}
	mu_buf_str(out, "\n");
}

void cli_acct_heading(const struct cli_format *f, const struct cli_acct_style *style, struct mu_buf *out)
{
	for (size_t i = 0; i < f->count; i++) {
		const struct cli_item *it = &f->item[i];
		const char *name = it->column->heading;

		if (style->delimiter) {
			mu_buf_str(out, name);
			if (style->trail || i + 1 < f->count)
				mu_buf_str(out, style->delimiter);
		} else {
			cli_put_width(out, name, strlen(name), it->width, it->right, 0);
			mu_buf_str(out, " ");
		}
	}
	mu_buf_str(out, "\n");
	if (style->delimiter)
		return;
	for (size_t i = 0; i < f->count; i++) {
		fill(out, '-', (size_t)f->item[i].width);
		mu_buf_str(out, " ");
	}
	mu_buf_str(out, "\n");
}

/* A field between delimiters: a delimiter or line end inside it would shift the fields behind it, so each
 * becomes its escape. */
static void put_delimited(struct mu_buf *out, const char *text, size_t len, const char *delimiter)
{
	for (size_t i = 0; i < len; i++) {
		if (delimiter[0] && !delimiter[1] && text[i] == delimiter[0])
			mu_buf_printf(out, "\\x%02x", (unsigned char)text[i]);
		else if (text[i] == '\n')
			mu_buf_str(out, "\\n");
		else
			mu_buf_add(out, text + i, 1);
	}
}

void cli_acct_row(const struct cli_format *f, const struct cli_acct_style *style, const struct cli_cell *cell,
		  struct mu_buf *out)
{
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};

	for (size_t i = 0; i < f->count; i++) {
		const struct cli_item *it = &f->item[i];

		mu_buf_reset(&text);
		mu_buf_add(&text, "", 0);
		it->column->get(cell, &text);
		if (style->delimiter) {
			put_delimited(out, (char *)text.data, text.len, style->delimiter);
			if (style->trail || i + 1 < f->count)
				mu_buf_str(out, style->delimiter);
		} else {
			cli_put_width(out, (char *)text.data, text.len, it->width, it->right, '+');
			mu_buf_str(out, " ");
		}
	}
	mu_buf_str(out, "\n");
}
