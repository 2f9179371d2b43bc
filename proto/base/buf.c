/* base/buf.c: the growing buffer. See buf.h. */
#include "proto/base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mu_buf_free(struct mu_buf *buf)
{
	if (!buf)
		return;
	free(buf->data);
	*buf = (struct mu_buf){0};
}

void mu_buf_reset(struct mu_buf *buf)
{
	buf->len = 0;
	if (buf->data)
		buf->data[0] = 0;
}

uint8_t *mu_buf_grow(struct mu_buf *buf, size_t n)
{
	if (n > SIZE_MAX / 4 || buf->len > SIZE_MAX / 4)
		abort();
	size_t need = buf->len + n + 1; /* One more for the closing NUL. */
	if (need > buf->cap) {
		size_t cap = buf->cap ? buf->cap * 2 : 64;
		if (cap < need)
			cap = need;
		uint8_t *data = realloc(buf->data, cap);
		if (!data)
			abort();
		buf->data = data;
		buf->cap = cap;
	}
	uint8_t *start = buf->data + buf->len;
	buf->len += n;
	buf->data[buf->len] = 0;
	return start;
}

void mu_buf_add(struct mu_buf *buf, const void *data, size_t len)
{
	uint8_t *start = mu_buf_grow(buf, len);
	if (len)
		memcpy(start, data, len);
}

void mu_buf_str(struct mu_buf *buf, const char *text)
{
	mu_buf_add(buf, text, strlen(text));
}

void mu_buf_printf(struct mu_buf *buf, const char *format, ...)
{
	va_list args, again;
	va_start(args, format);
	va_copy(again, args);
	/* Most texts fit into what is left, so they are formatted once. */
	size_t left = buf->data ? buf->cap - buf->len : 0;
	int len = vsnprintf(left ? (char *)buf->data + buf->len : NULL, left, format, args);
	if (len < 0)
		abort();
	if ((size_t)len < left)
		buf->len += (size_t)len;
	else
		vsnprintf((char *)mu_buf_grow(buf, (size_t)len), (size_t)len + 1, format, again);
	va_end(again);
	va_end(args);
}
