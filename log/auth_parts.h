/* log/auth_parts.h: what the files of auth share and nobody else includes. */
#ifndef LOG_AUTH_PARTS_H
#define LOG_AUTH_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/base/hash.h"

/* Prepares libsodium once. Any thread. */
void auth__sodium(void);

/* A credential for MARK as text in OUT. 0 or MU_EAUTH. */
int auth__munge_encode(const struct mu_hash *mark, struct mu_buf *out, struct mu_err *err);
/* The identity behind CREDENTIAL, which must carry MARK. RET_AGAIN: this host's daemon has decoded it before.
 * 0 or MU_EAUTH. Blocks. */
int auth__munge_decode(struct mu_view credential, const struct mu_hash *mark, uint32_t *ret_uid,
		       uint32_t *ret_gid, bool *ret_again, struct mu_err *err);

/* What is remembered of a credential that was accepted. */
struct auth__seen {
	struct mu_hash mark;	   /* what it proved */
	struct mu_hash credential; /* its own bytes */
	char host[64];
	uint32_t uid, gid;
	uint32_t times;
	int64_t until_usec;
};
/* Finds MARK; true and a copy in RET, whose use is counted. */
bool auth__seen_find(const struct mu_hash *mark, int64_t now_usec, struct auth__seen *ret);
/* Remembers NEW, instead of an older one of the same mark. 0, or MU_EBUSY when AUTH_SEEN_MAX are remembered.
 */
int auth__seen_add(const struct auth__seen *new_one, int64_t now_usec);

#endif
