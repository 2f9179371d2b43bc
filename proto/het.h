/* proto/het.h: heterogeneous jobs as their processes see them: each variable below with _HET_GROUP_K behind
 * its name tells of component K. Pure. */
#ifndef PROTO_HET_H
#define PROTO_HET_H

#include <stdbool.h>

#include "proto/base/err.h"
#include "proto/base/arena.h"
#include "proto/orders.pb-c.h"

enum { MU_HET_MAX = 128, MU_HET_VARIABLES = 14 };

/* Calls PUT with the name (in ARENA) and value of each variable of component GROUP; those without a value are
 * left out. */
void mu_het_variables(const Mu__HetComponent *c, uint32_t group, struct mu_arena *arena,
		      void (*put)(void *arg, const char *name, const char *value), void *arg);
/* Is there a variable NAME_HET_GROUP_K? Then NAME alone tells of component 0 only. */
bool mu_het_variable(const char *name);

/* "0,2-4" of --het-group, into RET (MU_HET_MAX places) in the order written. 0, or MU_EINVAL for what does
 * not read, lies at or above SIZE, or stands there twice. */
int mu_het_groups_parse(const char *text, uint32_t size, uint32_t *ret, uint32_t *ret_count,
			struct mu_err *err);

#endif
