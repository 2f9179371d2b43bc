/* log/identity.h: who this replica is. An id belongs to a disk: drawn when a directory is first used, never
 * used again when it is lost.
 *
 * DIR/identity is text, replaced as a whole: "muster-replica 1", then lines id, cluster, generation, joined,
 * founder (id address name, one for each founding member), and last "sum", the BLAKE2b of all before.
 * DIR/lock is locked while a process uses the directory. DIR/raft holds the log. */
#ifndef LOG_IDENTITY_H
#define LOG_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "log/replica.h"

struct log_identity {
	uint64_t id;
	uint8_t cluster[16]; /* zero: not founded and not added yet */
	uint64_t generation; /* 1, raised by recovery */
	uint64_t shut_out;   /* the later generation that this replica was told of: it never starts again; 0: none */
	bool joined;	     /* the log held something once: found empty later, it was lost */
	unsigned founders;
	struct log_member founder[LOG_MEMBERS_MAX]; /* sorted by id */
};

/* Locks DIR and reads or draws its identity; checks that the log is there when it must be. RET_LOCK is a
 * descriptor to keep open. RET_EMPTY: the log holds nothing yet. 0, MU_EIO, MU_EBUSY (in use), MU_ECORRUPT
 * (damaged, or its log is gone), MU_EVERSION. */
int log_identity_open(const char *dir, struct log_identity *ret, int *ret_lock, bool *ret_empty,
		      struct mu_err *err);
/* Replaces the stored identity; durable when it returns 0. */
int log_identity_store(const char *dir, const struct log_identity *self, struct mu_err *err);
/* A fresh id: never zero, and small enough for every signed number. */
uint64_t log_identity_draw(void);
/* Sorts by id; the founding configuration must be the same bytes everywhere. */
void log_identity_sort(struct log_member *members, unsigned count);
/* The cluster's id that follows from its founding members. */
void log_identity_cluster(const struct log_member *members, unsigned count, uint8_t ret[16]);
bool log_identity_is_zero(const uint8_t cluster[16]);

#endif
