/* proto/conf_fold.h: a configuration as the log keeps it: short. Equal neighbours of Config.node become one
 * NodeConf whose name, address and host name are host lists, and a partition names its nodes once. Pure. */
#ifndef PROTO_CONF_FOLD_H
#define PROTO_CONF_FOLD_H

#include <stddef.h>

#include "proto/base/arena.h"
#include "proto/base/err.h"
#include "proto/conf.pb-c.h"

/* CONFIG folded, in ARENA and borrowing from CONFIG, which is not changed. Folding what is folded changes
 * nothing. The order of nodes is kept; nodes that differ in more than name, NodeAddr and NodeHostname stay
 * apart. */
Mu__Config *mu_conf_fold(const Mu__Config *config, struct mu_arena *arena);

/* The inverse: one NodeConf a node, every partition with its nodes. A configuration that was never folded
 * comes out as it is. MU_ELIMIT where the nodes, or the nodes of a partition, are more than MAX_NODES;
 * MU_ESYNTAX or MU_EINVAL for a list that is none, or of another length than the names. */
int mu_conf_expand(const Mu__Config *config, size_t max_nodes, struct mu_arena *arena, Mu__Config **ret,
		   struct mu_err *err);

#endif
