/* proto/depend.h: --dependency. Pure. */
#ifndef PROTO_DEPEND_H
#define PROTO_DEPEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"

enum mu_depend_kind {
	MU_DEPEND_AFTER,      /* started or cancelled, MINUTES ago */
	MU_DEPEND_AFTERANY,   /* ended */
	MU_DEPEND_AFTEROK,    /* ended with 0 */
	MU_DEPEND_AFTERNOTOK, /* ended otherwise */
	MU_DEPEND_AFTERCORR,  /* the task of the same index ended with 0 */
	MU_DEPEND_AFTERBURST, /* afterburstbuffer: ended and staged out */
	MU_DEPEND_EXPAND,     /* resources for another job */
	MU_DEPEND_SINGLETON   /* no earlier job of the same user and name */
};

struct mu_depend {
	enum mu_depend_kind kind;
	uint32_t job; /* 0 for singleton */
	bool has_task;
	uint32_t task;
	uint32_t minutes; /* only of after */
};

struct mu_depends {
	struct mu_depend *item;
	size_t count;
	bool any; /* '?' between the parts: one of them is enough */
};

/* "afterok:1:2_3,afterany:4", "after:10+5", "singleton", "afterok:1?afterok:2"; kinds case-blind. The empty text gives no items.
 * At most 1,000 items. 0 or MU_EDEPENDENCY with a sentence. Items lie in ARENA. */
int mu_depends_parse(const char *text, struct mu_arena *arena, struct mu_depends *ret, struct mu_err *err);

const char *mu_depend_word(enum mu_depend_kind kind);

/* Appends "afterok:123_4", "after:10+5", "singleton". */
void mu_depend_print(const struct mu_depend *item, struct mu_buf *out);

/* Appends what scontrol shows: the items of TEXT that are open or failed by their letters in STATE (u, f, x),
 * "afterany:123(unfulfilled),afterok:4(failed)"; TEXT itself where STATE does not belong to it; nothing when all
 * are fulfilled. */
void mu_depends_show(const char *text, const char *state, struct mu_arena *arena, struct mu_buf *out);

#endif
