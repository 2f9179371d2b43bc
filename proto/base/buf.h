/* base/buf.h: a growing byte buffer and a borrowed byte view.
 * Owns: heap bytes of struct mu_buf. Allocation failure aborts (the process restarts; nothing acknowledged is lost). */
#ifndef PROTO_BASE_BUF_H
#define PROTO_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

/* Borrowed bytes: valid as long as whatever they lie in. */
struct mu_view {
	const uint8_t *data;
	size_t len;
};

/* Zero-initialise before use. data[len] is always a NUL byte once anything was added. */
struct mu_buf {
	uint8_t *data;
	size_t len;
	size_t cap;
};

void mu_buf_free(struct mu_buf *buf);              /* releases and zeroes; NULL is accepted */
void mu_buf_reset(struct mu_buf *buf);             /* len = 0, keeps the memory */
uint8_t *mu_buf_grow(struct mu_buf *buf, size_t n); /* makes room for N more bytes, adds them to len, returns where they start (uninitialised) */
void mu_buf_add(struct mu_buf *buf, const void *data, size_t len);
void mu_buf_str(struct mu_buf *buf, const char *text);
void mu_buf_printf(struct mu_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define MU_CLEANUP(fn) __attribute__((cleanup(fn)))

#endif
