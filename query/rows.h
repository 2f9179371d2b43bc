/* query/rows.h: answers a Mu__Query from the view (now) or from a past State (--at), by the same filters. Any
 * thread. */
#ifndef QUERY_ROWS_H
#define QUERY_ROWS_H

#include "query/view.h"

struct query_caller {
	uint32_t uid;
	bool operator;	  /* sees what PrivateData hides from others */
	const char *user; /* the name of UID; borrowed; NULL: unknown */
};

/* Packs a Mu__Rows answer's bytes into OUT. Bounded by the page size. 0, MU_EJOBID (a lone unknown job id),
 * MU_EINVAL (bad --at), MU_ENOENT (a moment before the first entry). */
int query_rows(struct view *v, const Mu__Query *query, const struct query_caller *caller,
	       struct mu_arena *arena, Mu__Rows *ret, struct mu_err *err);

#endif
