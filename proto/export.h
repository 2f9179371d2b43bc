/* proto/export.h: --export: which environment variables a job gets. Pure. */
#ifndef PROTO_EXPORT_H
#define PROTO_EXPORT_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"

struct mu_export_word {
	const char *name;
	const char *value; /* NULL: the submitter's value, if there is one */
};

struct mu_export {
	bool all;	   /* everything the submitter has */
	bool login;	   /* NONE or a list without ALL: what a login would give, and SLURM_ variables */
	bool nil;	   /* NIL: SLURM_ variables only, not even a login's */
	struct mu_export_word *word;
	size_t words;
};

/* "ALL", "NONE", "NIL" (case-blind), or a comma list of NAME, NAME=VALUE and ALL; a value may stand in single or double quotes and
 * then hold commas. The empty text means ALL. 0 or MU_EINVAL. Words lie in ARENA. */
int mu_export_parse(const char *text, struct mu_arena *arena, struct mu_export *ret, struct mu_err *err);

/* Appends "NAME=VALUE" and a NUL byte for every variable of ENV (NULL-terminated) that passes, with the values that EXPORT sets in
 * place of or after them. SLURM_ and SPANK_ variables always pass. */
void mu_export_apply(const struct mu_export *export, char *const *env, struct mu_buf *out);

#endif
