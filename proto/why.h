/* proto/why.h: why a job waits, in words. Pure. */
#ifndef PROTO_WHY_H
#define PROTO_WHY_H

#include <stdbool.h>

#include "proto/base/buf.h"
#include "proto/units.h"
#include "proto/why.pb-c.h"

/* What a reason of states.def means, and what would let the job start sooner; NULL for one that has no row in
 * why.def and is no limit. */
const char *mu_why_meaning(uint32_t reason);
const char *mu_why_help(uint32_t reason);

/* Appends one paragraph: what blocks the job, which jobs and limits hold what it needs, when it would start,
 * what would let it start sooner. Sentences, no line ends. */
void mu_why_print(const Mu__WaitRow *wait, const struct mu_zone *zone, struct mu_buf *out);

#endif
