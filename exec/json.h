/* exec/json.h: a JSON text as a tree that can be changed in places and written again. What is not touched
 * comes out as it was read: numbers and strings keep their bytes. Pure. */
#ifndef EXEC_JSON_H
#define EXEC_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"

enum { EXE_JSON_DEPTH = 64, EXE_JSON_BYTES = 4 << 20 };

enum exe_json_kind {
	EXE_JSON_SCALAR /* number, true, false, null */,
	EXE_JSON_STRING,
	EXE_JSON_LIST,
	EXE_JSON_OBJECT
};
struct exe_json {
	enum exe_json_kind kind;
	const char *key;  /* decoded; NULL: not a member of an object */
	const char *text; /* of a scalar as written, of a string decoded */
	struct exe_json *child, *next;
};

/* The tree of TEXT in ARENA. 0; MU_EINVAL with the place of the fault, also for a NUL in a string; MU_ELIMIT
 * beyond the bounds above. */
int exe_json_parse(struct mu_view text, struct mu_arena *arena, struct exe_json **ret, struct mu_err *err);
void exe_json_print(const struct exe_json *node, struct mu_buf *out);

/* The member NAME of NODE; NULL where there is none, or NODE is NULL or no object. Of several the last holds.
 */
struct exe_json *exe_json_get(const struct exe_json *node, const char *name);
bool exe_json_is(const struct exe_json *node, const char *text); /* a string that says TEXT */

struct exe_json *exe_json_new(struct mu_arena *arena, enum exe_json_kind kind,
			      const char *text); /* TEXT is copied */
/* Makes VALUE the member NAME of OBJECT in place of what has that name; NULL takes it away. */
void exe_json_put(struct mu_arena *arena, struct exe_json *object, const char *name, struct exe_json *value);
void exe_json_add(struct exe_json *list, struct exe_json *value); /* at the end */
/* The member NAME, made an empty object or list where it is missing or another kind. */
struct exe_json *exe_json_need(struct mu_arena *arena, struct exe_json *object, const char *name,
			       enum exe_json_kind kind);

#endif
