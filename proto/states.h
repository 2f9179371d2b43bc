/* proto/states.h: the enumerations of states.def and their words. Pure. */
#ifndef PROTO_STATES_H
#define PROTO_STATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mu_job_state {
#define MU_JOB_STATE(name, number, compact, word, ended) JOB_##name = (number),
#include "proto/states.def"
#undef MU_JOB_STATE
};
enum mu_job_reason {
#define MU_JOB_REASON(name, number, word) REASON_##name = (number),
#include "proto/states.def"
#undef MU_JOB_REASON
};
enum mu_node_base {
#define MU_NODE_BASE(name, number, compact, word) NODE_##name = (number),
#include "proto/states.def"
#undef MU_NODE_BASE
};
enum mu_node_flag {
#define MU_NODE_FLAG(name, bit, suffix, word) NODE_FLAG_##name = 1 << (bit),
#include "proto/states.def"
#undef MU_NODE_FLAG
};
#define MU_RESV_FLAG(name, bit, word) static const uint64_t RESV_FLAG_##name = UINT64_C(1) << (bit);
#include "proto/states.def"
#undef MU_RESV_FLAG
enum mu_end_cause {
#define MU_END_CAUSE(name, number, word) END_##name = (number),
#include "proto/states.def"
#undef MU_END_CAUSE
};

/* Step numbers with a meaning of their own (Slurm's values). */
#define MU_STEP_BATCH 4294967291u
#define MU_STEP_EXTERN 4294967292u

const char *mu_job_state_compact(uint32_t state); /* "PD"; "?" for a number that is no row */
const char *mu_job_state_long(uint32_t state);    /* "PENDING" */
bool mu_job_state_ended(uint32_t state);
int mu_job_state_parse(const char *word, uint32_t *ret_state); /* either form, case-blind; 0 or MU_EINVAL */
const char *mu_job_reason_word(uint32_t reason);
const char *mu_end_cause_word(uint32_t cause);
uint64_t mu_resv_flag_parse(const char *word, size_t len); /* its bit, also of a word cut short; 0: unknown */
const char *mu_resv_flag_word(unsigned bit); /* NULL: no row */
/* "idle", "mix*", "drain", "drng", "down*", "comp": compact (or long) word as sinfo prints it, from base, flags and what is
 * allocated. OUT has at least 64 bytes. */
void mu_node_state_print(uint32_t base, uint32_t flags, uint32_t cpus_alloc, uint32_t cpus_total, bool compact, char *out);
/* "IDLE+DRAIN" as scontrol prints it. OUT has at least 128 bytes. */
void mu_node_state_scontrol(uint32_t base, uint32_t flags, uint32_t cpus_alloc, uint32_t cpus_total, char *out);

#endif
