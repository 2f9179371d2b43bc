/* query/frames.c: see frames.h. */
#include "query/frames.h"

#include <errno.h>
#include <string.h>
#include <zstd.h>

#include "proto/base/map.h"

enum { FRAME_HEAD = 5, FRAME_MAX = 32 << 20, ZSTD_LEVEL = 9 };

static int put(struct frames *s, const void *data, size_t len, ZSTD_EndDirective end)
{
	ZSTD_inBuffer in = {data, len, 0};
	size_t left;

	do {
		ZSTD_outBuffer out = {s->room.data, s->room.len, 0};
		left = ZSTD_compressStream2(s->out, &out, &in, end);
		if (ZSTD_isError(left) || fwrite(s->room.data, 1, out.pos, s->f) != out.pos)
			return mu_fail(s->err, MU_EIO, "The archive cannot be written: %s",
				       ZSTD_isError(left) ? ZSTD_getErrorName(left) : strerror(errno));
	} while (end == ZSTD_e_end ? left != 0 : in.pos < in.size);
	return 0;
}

int frames_put(struct frames *s, uint8_t kind, struct mu_view bytes)
{
	uint8_t head[FRAME_HEAD] = {kind};

	mu_put_be32(head + 1, (uint32_t)bytes.len);
	int code = put(s, head, sizeof head, ZSTD_e_continue);
	return code || !bytes.len ? code : put(s, bytes.data, bytes.len, ZSTD_e_continue);
}

static int get(struct frames *s, void *data, size_t len)
{
	ZSTD_outBuffer out = {data, len, 0};

	while (out.pos < out.size) {
		if (s->rest == s->rest_end) {
			s->rest = 0;
			s->rest_end = fread(s->room.data, 1, s->room.len, s->f);
			if (!s->rest_end)
				return mu_fail(s->err, MU_ECORRUPT, "The archive ends before its end");
		}
		ZSTD_inBuffer in = {s->room.data, s->rest_end, s->rest};
		size_t code = ZSTD_decompressStream(s->in, &out, &in);
		s->rest = in.pos;
		if (ZSTD_isError(code))
			return mu_fail(s->err, MU_ECORRUPT, "The archive cannot be read: %s",
				       ZSTD_getErrorName(code));
	}
	return 0;
}

int frames_get(struct frames *s, uint8_t *ret_kind, struct mu_buf *out)
{
	uint8_t head[FRAME_HEAD];
	int code = get(s, head, sizeof head);
	uint32_t len = code ? 0 : mu_get_be32(head + 1);

	mu_buf_reset(out);
	*ret_kind = head[0];
	if (len > FRAME_MAX)
		return mu_fail(s->err, MU_ECORRUPT,
			       "The archive has a frame of %u bytes, which is impossible", len);
	return code || !len ? code : get(s, mu_buf_grow(out, len), len);
}

void frames_open(struct frames *s, FILE *f, bool write, struct mu_err *err)
{
	*s = (struct frames){.f = f, .err = err};
	(void)mu_buf_grow(&s->room, ZSTD_CStreamOutSize());
	if (write) {
		s->out = ZSTD_createCCtx();
		(void)ZSTD_CCtx_setParameter(s->out, ZSTD_c_compressionLevel, ZSTD_LEVEL);
	} else {
		s->in = ZSTD_createDCtx();
	}
}

void frames_close(struct frames *s)
{
	ZSTD_freeCCtx(s->out);
	ZSTD_freeDCtx(s->in);
	mu_buf_free(&s->room);
}

int frames_end(struct frames *s)
{
	return put(s, NULL, 0, ZSTD_e_end);
}
