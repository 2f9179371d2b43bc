/* query/pick.h: reads single fields out of encoded rows, without decoding the rest. Room-internal, pure.
 *
 * A query over 10,000 jobs looks at six fields of each and hands the bytes on: decoding would cost more than
 * everything else. The encoding is protobuf's own (tag, varint, length); field numbers are those of
 * proto/rows.proto. Rows come from evolve and are well formed; on malformed bytes a walk ends early. */
#ifndef QUERY_PICK_H
#define QUERY_PICK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/buf.h"

struct pick {
	uint32_t number;      /* field number */
	uint8_t type;	      /* 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes */
	uint64_t value;	      /* of types 0, 1, 5 */
	struct mu_view bytes; /* of type 2 */
	const uint8_t *begin; /* the whole field with its tag */
	const uint8_t *end;
};
/* Takes the next field from the front of REST; false at the end or at malformed bytes (then REST is not
 * empty). */
bool pick_next(struct mu_view *rest, struct pick *ret);

enum pick_job_part {
	PICK_JOB_STATE = 8, /* id, owner, spec, state */
	PICK_JOB_QOS = 22,  /* and partition, account, QOS */
	PICK_JOB_ALL = INT32_MAX
};
/* What filters and history ask of a JobRow. Borrowed from the row. A job that waits again, or ended while it
 * waited, has no start but still carries end and nodes of the run before; they are left out here, as that run
 * has its own record. */
struct pick_job {
	uint32_t id, uid, state, attempt, restarts, end_state;
	uint32_t array_job, het_job, het_count;
	struct mu_view user, partition, account, qos, spec, node_list;
	int64_t submit_usec, eligible_usec, start_usec, end_usec;
	uint64_t end_pos;
	bool special_exit;
};
void pick_job(struct mu_view row, struct pick_job *ret);
/* The same of the fields up to number LAST only, which come first in a row. */
void pick_job_head(struct mu_view row, uint32_t last, struct pick_job *ret);
/* True while the job's latest attempt runs or was its last; false when it waits, again or not, or ended while
 * it waited. */
bool pick_job_ran(const struct pick_job *job);
/* First field NUMBER of MESSAGE that holds bytes; empty when absent. */
struct mu_view pick_bytes(struct mu_view message, uint32_t number);
uint64_t pick_number(struct mu_view message, uint32_t number); /* last field NUMBER; 0 when absent */

/* Copies the JobRow without its secret (job_key) and, with SLIM, without its spec's words, environment and
 * submit line, to OUT, which has room for row.len bytes; returns the length. */
size_t pick_job_public(struct mu_view row, bool slim, uint8_t *out);

/* Appends one field. */
void pick_put_bytes(struct mu_buf *out, uint32_t number, struct mu_view bytes);
void pick_put_number(struct mu_buf *out, uint32_t number, uint64_t value);

/* Compares with a NUL-terminated text. */
bool pick_equals(struct mu_view bytes, const char *text);

#endif
