/* ctld/nodekeys.h: the enrolled nodes' keys, for threads that verify requests. A copy that the core keeps in step with State. */
#ifndef LOG_CTLD_NODEKEYS_H
#define LOG_CTLD_NODEKEYS_H

#include <stdint.h>

#include "sched/sched.h"

/* auth_node_key: ARG is a struct ctl. Any thread. 0 or MU_ENOENT. */
int ctl_node_key_get(void *arg, const char *node, uint8_t ret_public[32]);
/* Core thread: takes over every node key row in CHANGES; NULL: all rows of ST. */
void ctl_node_keys_follow(const struct sch_state *st, const struct sch_changes *changes);

#endif
