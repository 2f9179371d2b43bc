/* log/metrics.h: a page of figures in Prometheus' text form, over HTTP/1.0.
 *
 * Owns: the page's syntax, and a server that cannot hurt its program: a thread of its own, a Unix socket or a
 * loopback port only, one request a connection, everything bounded by METRICS_* and by time. Leaves to
 * others: which figures. */
#ifndef LOG_METRICS_H
#define LOG_METRICS_H

#include <stdint.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"

enum {
	METRICS_CONNECTIONS = 16,
	METRICS_LINE_MAX = 1024,     /* request line */
	METRICS_HEAD_MAX = 8 * 1024, /* request line and headers */
	METRICS_READ_MSEC = 2000,
	METRICS_WRITE_MSEC = 5000,
	METRICS_FRESH_MSEC = 200 /* a page is made at most this often */
};

/* ---- the page ---- */
enum metrics_type { METRICS_GAUGE, METRICS_COUNTER };
/* Opens the family NAME ([a-zA-Z_:][a-zA-Z0-9_:]*) with its HELP line; its values follow. Pure but for OUT,
 * like all of these. */
void metrics_family(struct mu_buf *out, const char *name, enum metrics_type type, const char *help);
/* One value. LABELS: name, value, name, value, ..., NULL; or NULL. Label names are ours
 * ([a-zA-Z_][a-zA-Z0-9_]*); label values may hold anything (they are escaped, bytes that are not UTF-8 become
 * '?'). */
void metrics_u64(struct mu_buf *out, const char *name, const char *const *labels, uint64_t value);
void metrics_i64(struct mu_buf *out, const char *name, const char *const *labels, int64_t value);
/* VALUE in millionths: microseconds show as seconds. */
void metrics_micro(struct mu_buf *out, const char *name, const char *const *labels, int64_t value);

/* ---- the server ---- */
struct metrics_server;
/* Appends the page to OUT. Runs on the server's thread. */
typedef void (*metrics_fill)(void *arg, struct mu_buf *out);
/* Serves GET / and GET /metrics on ADDRESS: "/path" of a Unix socket (mode 0660), "127.x.y.z:port" or
 * "[::1]:port". 0, MU_EINVAL (another kind of address), MU_EEXIST, MU_EIO. */
int metrics_open(const char *address, metrics_fill fill, void *arg, struct metrics_server **ret,
		 struct mu_err *err);
/* FILL does not run after it. NULL gives NULL. */
struct metrics_server *metrics_close(struct metrics_server *m);

#endif
