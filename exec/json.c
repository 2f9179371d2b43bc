/* exec/json.c: read by descent of bounded depth, written without blanks. */
#include "exec/json.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct reader {
	const char *at, *end, *start;
	struct mu_arena *arena;
	struct mu_err *err;
	unsigned depth;
};

static int fault(const struct reader *r, const char *what)
{
	return mu_fail(r->err, MU_EINVAL, "no JSON at byte %zu: %s", (size_t)(r->at - r->start), what);
}

static void skip_blanks(struct reader *r)
{
	while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
		r->at++;
}

static bool take(struct reader *r, char c)
{
	skip_blanks(r);
	if (r->at == r->end || *r->at != c)
		return false;
	r->at++;
	return true;
}

/* ---- strings ---- */

static int hex4(struct reader *r, uint32_t *ret)
{
	uint32_t value = 0;
	for (int i = 0; i < 4; i++, r->at++) {
		char c = r->at < r->end ? *r->at : 0;
		uint32_t digit = c >= '0' && c <= '9'	? (uint32_t)(c - '0')
				 : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
				 : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
							: 16;
		if (digit == 16)
			return fault(r, "four hexadecimal digits are wanted behind \\u");
		value = value << 4 | digit;
	}
	*ret = value;
	return 0;
}

static void put_utf8(struct mu_buf *b, uint32_t c)
{
	uint8_t byte[4];
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
	static const uint8_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
	for (size_t i = n; i-- > 0; c >>= 6)
		byte[i] = (uint8_t)(i ? 0x80 | (c & 0x3f) : lead[n] | c);
	mu_buf_add(b, byte, n);
}

static int take_code(struct reader *r, struct mu_buf *b)
{
	uint32_t high, low;
	int code = hex4(r, &high);
	if (code)
		return code;
	if (high == 0)
		return fault(r, "a string with a NUL");
	if (high >= 0xd800 && high < 0xdc00) {
		if (r->end - r->at < 2 || r->at[0] != '\\' || r->at[1] != 'u')
			return fault(r, "half a surrogate pair");
		r->at += 2;
		code = hex4(r, &low);
		if (code)
			return code;
		if (low < 0xdc00 || low > 0xdfff)
			return fault(r, "half a surrogate pair");
		high = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
	} else if (high >= 0xdc00 && high <= 0xdfff) {
		return fault(r, "half a surrogate pair");
	}
	put_utf8(b, high);
	return 0;
}

/* Behind the first quotation mark. */
static int take_string(struct reader *r, const char **ret)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	MU_CLEANUP(mu_buf_free) struct mu_buf b = {0};
	for (;;) {
		if (r->at == r->end || (unsigned char)*r->at < 0x20)
			return fault(r, "a string does not end");
		char c = *r->at++;
		if (c == '"')
			break;
		if (c != '\\') {
			mu_buf_add(&b, &c, 1);
			continue;
		}
		c = r->at < r->end ? *r->at++ : 0;
		const char *known = c ? strchr(from, c) : NULL;
		int code = 0;
		if (known)
			mu_buf_add(&b, &to[known - from], 1);
		else
			code = c == 'u' ? take_code(r, &b) : fault(r, "an unknown character behind \\");
		if (code)
			return code;
	}
	char *text = mu_arena_alloc(r->arena, b.len + 1);
	if (b.len)
		memcpy(text, b.data, b.len);
	*ret = text;
	return 0;
}

/* ---- values ---- */

static bool is_number(const char *text)
{
	char *end;
	if (!(*text == '-' || (*text >= '0' && *text <= '9')) || text[strspn(text, "+-.0123456789eE")])
		return false;
	strtod(text, &end);
	return *end == 0;
}

static int take_scalar(struct reader *r, struct exe_json *node)
{
	const char *start = r->at;
	while (r->at < r->end && strchr("+-.0123456789eEtrufalsn", *r->at) && *r->at)
		r->at++;
	char *text = mu_arena_alloc(r->arena, (size_t)(r->at - start) + 1);
	memcpy(text, start, (size_t)(r->at - start));
	node->text = text;
	if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0 && strcmp(text, "null") != 0 &&
	    !is_number(text)) {
		r->at = start;
		return fault(r, "a value is wanted");
	}
	return 0;
}

static int take_value(struct reader *r, struct exe_json **ret);

static int take_members(struct reader *r, struct exe_json *node)
{
	bool object = node->kind == EXE_JSON_OBJECT;
	struct exe_json **last = &node->child;
	char close = object ? '}' : ']';
	if (take(r, close))
		return 0;
	do {
		const char *key = NULL;
		if (object && !take(r, '"'))
			return fault(r, "a name is wanted");
		int code = object ? take_string(r, &key) : 0;
		if (code == 0 && object && !take(r, ':'))
			code = fault(r, "a colon is wanted");
		if (code == 0)
			code = take_value(r, last);
		if (code)
			return code;
		(*last)->key = key;
		last = &(*last)->next;
	} while (take(r, ','));
	return take(r, close) ? 0 : fault(r, object ? "} is wanted" : "] is wanted");
}

static int take_value(struct reader *r, struct exe_json **ret)
{
	struct exe_json *node = mu_arena_alloc(r->arena, sizeof *node);
	int code;
	if (++r->depth > EXE_JSON_DEPTH)
		return mu_fail(r->err, MU_ELIMIT, "JSON deeper than %d levels", EXE_JSON_DEPTH);
	*ret = node;
	skip_blanks(r);
	if (take(r, '"')) {
		node->kind = EXE_JSON_STRING;
		code = take_string(r, &node->text);
	} else if (take(r, '{') || take(r, '[')) {
		node->kind = r->at[-1] == '{' ? EXE_JSON_OBJECT : EXE_JSON_LIST;
		code = take_members(r, node);
	} else {
		code = r->at == r->end ? fault(r, "a value is wanted") : take_scalar(r, node);
	}
	r->depth--;
	return code;
}

int exe_json_parse(struct mu_view text, struct mu_arena *arena, struct exe_json **ret, struct mu_err *err)
{
	const char *start = (const char *)text.data;
	if (text.len > EXE_JSON_BYTES)
		return mu_fail(err, MU_ELIMIT, "JSON of more than %d bytes", EXE_JSON_BYTES);
	if (text.len == 0)
		return mu_fail(err, MU_EINVAL, "no JSON: it is empty");
	struct reader r = {start, start + text.len, start, arena, err, 0};
	struct exe_json *node;
	int code = take_value(&r, &node);
	skip_blanks(&r);
	if (code == 0 && r.at != r.end)
		code = fault(&r, "something follows the value");
	if (code == 0)
		*ret = node;
	return code;
}

/* ---- writing ---- */

static void print_string(const char *text, struct mu_buf *out)
{
	mu_buf_str(out, "\"");
	for (const char *p = text; *p; p++)
		if (*p == '"' || *p == '\\')
			mu_buf_printf(out, "\\%c", *p);
		else if ((unsigned char)*p < 0x20)
			mu_buf_printf(out, "\\u%04x", (unsigned)*p);
		else
			mu_buf_add(out, p, 1);
	mu_buf_str(out, "\"");
}

void exe_json_print(const struct exe_json *node, struct mu_buf *out)
{
	bool object = node->kind == EXE_JSON_OBJECT;
	if (node->kind == EXE_JSON_SCALAR) {
		mu_buf_str(out, node->text);
		return;
	}
	if (node->kind == EXE_JSON_STRING) {
		print_string(node->text, out);
		return;
	}
	mu_buf_str(out, object ? "{" : "[");
	for (const struct exe_json *c = node->child; c; c = c->next) {
		if (c != node->child)
			mu_buf_str(out, ",");
		if (object) {
			print_string(c->key, out);
			mu_buf_str(out, ":");
		}
		exe_json_print(c, out);
	}
	mu_buf_str(out, object ? "}" : "]");
}

/* ---- looking and changing ---- */

struct exe_json *exe_json_get(const struct exe_json *node, const char *name)
{
	struct exe_json *found = NULL;
	if (!node || node->kind != EXE_JSON_OBJECT)
		return NULL;
	for (struct exe_json *c = node->child; c; c = c->next)
		if (strcmp(c->key, name) == 0)
			found = c;
	return found;
}

bool exe_json_is(const struct exe_json *node, const char *text)
{
	return node && node->kind == EXE_JSON_STRING && strcmp(node->text, text) == 0;
}

struct exe_json *exe_json_new(struct mu_arena *arena, enum exe_json_kind kind, const char *text)
{
	struct exe_json *node = mu_arena_alloc(arena, sizeof *node);
	node->kind = kind;
	node->text = mu_arena_strdup(arena, text);
	return node;
}

void exe_json_add(struct exe_json *list, struct exe_json *value)
{
	struct exe_json **at = &list->child;
	while (*at)
		at = &(*at)->next;
	*at = value;
}

void exe_json_put(struct mu_arena *arena, struct exe_json *object, const char *name, struct exe_json *value)
{
	for (struct exe_json **at = &object->child; *at;)
		if (strcmp((*at)->key, name) == 0)
			*at = (*at)->next;
		else
			at = &(*at)->next;
	if (!value)
		return;
	value->key = mu_arena_strdup(arena, name);
	exe_json_add(object, value);
}

struct exe_json *exe_json_need(struct mu_arena *arena, struct exe_json *object, const char *name,
			       enum exe_json_kind kind)
{
	struct exe_json *found = exe_json_get(object, name);
	if (found && found->kind == kind)
		return found;
	found = exe_json_new(arena, kind, NULL);
	exe_json_put(arena, object, name, found);
	return found;
}
