/* proto/keep.h: for how long the tiers of history are kept, and the word that a cut archive carries about
 * what it let go.
 *
 * Owns: the keys MusterKeep... as numbers, the hash of a cut's statement. Leaves to others: letting go
 * (query/keep.h), signing (log/auth.h). Pure. */
#ifndef PROTO_KEEP_H
#define PROTO_KEEP_H

#include <stdint.h>

#include "proto/base/err.h"
#include "proto/base/hash.h"
#include "proto/conf.pb-c.h"
#include "proto/wire.pb-c.h"

enum mu_keep_tier {
#define MU_KEEP(tier, key, what) MU_KEEP_##tier,
#include "proto/keep.def"
#undef MU_KEEP
	MU_KEEP_TIERS
};

enum { MU_KEEP_TEXT = 32 };

/* A span as slurmdbd.conf has them: N or Nmonths, Ndays, Nhours (singular too; a month is a twelfth of 365
 * days), and [D-]HH:MM:SS. 0 is for ever. RET_TEXT gets the form in which it is shown. 0 or MU_EINVAL. */
int mu_keep_parse(const char *text, int64_t *ret_sec, char ret_text[MU_KEEP_TEXT], struct mu_err *err);

/* For how long TIER is kept by CONFIG (NULL: no configuration yet), in seconds; 0: for ever. */
int64_t mu_keep_sec(const Mu__Config *config, enum mu_keep_tier tier);
const char *mu_keep_key(enum mu_keep_tier tier);  /* "MusterKeepJobs" */
const char *mu_keep_what(enum mu_keep_tier tier); /* "the records of ended jobs" */

/* What the cluster's key signs of a cut: everything in it but the signature. */
void mu_cut_hash(const Mu__Cut *cut, struct mu_hash *ret);

#endif
