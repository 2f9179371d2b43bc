/* cli/json.c: see json.h. */
#include "cli/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void indent(struct cli_json *j)
{
	size_t n = 2u * j->depth;

	mu_buf_str(j->out, "\n");
	if (n)
		memset(mu_buf_grow(j->out, n), ' ', n);
}

static void put_string(struct mu_buf *out, const uint8_t *p, size_t len)
{
	mu_buf_str(out, "\"");
	for (size_t i = 0; i < len;) {
		uint8_t c = p[i];
		size_t n = c < 0x80		   ? 1
			   : c >= 0xc2 && c < 0xe0 ? 2
			   : c >= 0xe0 && c < 0xf0 ? 3
			   : c >= 0xf0 && c < 0xf5 ? 4
						   : 0;

		for (size_t k = 1; k < n; k++) {
			if (i + k >= len || (p[i + k] & 0xc0) != 0x80)
				n = 0;
		}
		if (n == 0) {
			mu_buf_str(out, "\\ufffd");
			n = 1;
		} else if (n > 1) {
			mu_buf_add(out, p + i, n);
		} else if (c == '"' || c == '\\') {
			mu_buf_printf(out, "\\%c", c);
		} else if (c == '\n') {
			mu_buf_str(out, "\\n");
		} else if (c == '\t') {
			mu_buf_str(out, "\\t");
		} else if (c < 0x20 || c == 0x7f) {
			mu_buf_printf(out, "\\u%04x", c);
		} else {
			mu_buf_add(out, &c, 1);
		}
		i += n;
	}
	mu_buf_str(out, "\"");
}

/* A name that YAML takes as it is. */
static bool plain(const char *name)
{
	return *name && !strchr("-0123456789", *name) &&
	       name[strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.[]")] == 0;
}

/* A member of a YAML map or list: on a line of its own, or behind the dash that it is the first one of. */
static void begin_yaml(struct cli_json *j, const char *name)
{
	if (j->depth == 0) {
		mu_buf_str(j->out, "---");
		return;
	}
	if (j->dashed) {
		mu_buf_str(j->out, " ");
	} else {
		j->depth--;
		indent(j);
		j->depth++;
	}
	j->dashed = false;
	if (name && plain(name))
		mu_buf_str(j->out, name);
	else if (name)
		put_string(j->out, (const uint8_t *)name, strlen(name));
	mu_buf_str(j->out, name ? ":" : "-");
}

static void begin(struct cli_json *j, const char *name, bool value)
{
	if (j->yaml) {
		begin_yaml(j, name);
		if (value)
			mu_buf_str(j->out, " ");
		j->some = true;
		return;
	}
	if (j->some)
		mu_buf_str(j->out, ",");
	if (j->depth)
		indent(j);
	if (name) {
		put_string(j->out, (const uint8_t *)name, strlen(name));
		mu_buf_str(j->out, ": ");
	}
	j->some = true;
}

static void open_with(struct cli_json *j, const char *name, const char *bracket)
{
	begin(j, name, false);
	if (!j->yaml)
		mu_buf_str(j->out, bracket);
	j->dashed = j->yaml && !name && j->depth;
	j->depth++;
	j->some = false;
}

static void close_with(struct cli_json *j, const char *bracket, const char *empty)
{
	j->depth--;
	if (j->yaml && !j->some)
		mu_buf_str(j->out, empty);
	if (!j->yaml && j->some)
		indent(j);
	if (!j->yaml)
		mu_buf_str(j->out, bracket);
	j->dashed = false;
	j->some = true;
}

void json_object(struct cli_json *j, const char *name)
{
	open_with(j, name, "{");
}

void json_object_end(struct cli_json *j)
{
	close_with(j, "}", " {}");
}

void json_array(struct cli_json *j, const char *name)
{
	open_with(j, name, "[");
}

void json_array_end(struct cli_json *j)
{
	close_with(j, "]", " []");
}

void json_bytes(struct cli_json *j, const char *name, const void *data, size_t len)
{
	begin(j, name, true);
	put_string(j->out, data, len);
}

void json_text(struct cli_json *j, const char *name, const char *text)
{
	json_bytes(j, name, text ? text : "", text ? strlen(text) : 0);
}

void json_number(struct cli_json *j, const char *name, int64_t value)
{
	begin(j, name, true);
	mu_buf_printf(j->out, "%" PRId64, value);
}

/* The shortest digits that give VALUE back; what is no number is null. */
void json_real(struct cli_json *j, const char *name, double value)
{
	char text[40];

	if (!isfinite(value)) {
		json_null(j, name);
		return;
	}
	for (int digits = 6; digits <= 17; digits++) {
		snprintf(text, sizeof text, "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	begin(j, name, true);
	mu_buf_str(j->out, text);
}

void json_bool(struct cli_json *j, const char *name, bool value)
{
	begin(j, name, true);
	mu_buf_str(j->out, value ? "true" : "false");
}

void json_null(struct cli_json *j, const char *name)
{
	begin(j, name, true);
	mu_buf_str(j->out, "null");
}

void json_triple(struct cli_json *j, const char *name, bool set, bool infinite, int64_t value)
{
	json_object(j, name);
	json_bool(j, "set", set);
	json_bool(j, "infinite", infinite);
	json_number(j, "number", value);
	json_object_end(j);
}

void json_triple_real(struct cli_json *j, const char *name, bool set, bool infinite, double value)
{
	json_object(j, name);
	json_bool(j, "set", set);
	json_bool(j, "infinite", infinite);
	json_real(j, "number", value);
	json_object_end(j);
}
