/* proto/hostlist.h: node lists, "n[1-3,5]" and back. Pure.
 * Zero padding is kept as a group of its own (n[1-2,5,01-02]); up to three bracket groups expand in order. */
#ifndef PROTO_HOSTLIST_H
#define PROTO_HOSTLIST_H

#include <stddef.h>

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"

/* Expands TEXT into names (order kept, duplicates kept) allocated in ARENA. More than MAX names is MU_ELIMIT, bad brackets MU_ESYNTAX. */
int mu_hostlist_expand(const char *text, size_t max, struct mu_arena *arena, char ***ret_names, size_t *ret_count, struct mu_err *err);

/* Appends the folded form of COUNT names, in the order given, to OUT (NUL-terminated, the NUL not counted). */
void mu_hostlist_fold(const char *const *names, size_t count, struct mu_buf *out);

/* The same, sorted by prefix and number first. NAMES itself is not changed. */
void mu_hostlist_fold_sorted(const char *const *names, size_t count, struct mu_buf *out);

#endif
