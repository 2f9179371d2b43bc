/* ctld/entry_fold.h: a raw entry into a State, and what it did, as the view takes it. For those who write a view without a
 * replica: a follower, a simulation. */
#ifndef LOG_CTLD_ENTRY_FOLD_H
#define LOG_CTLD_ENTRY_FOLD_H

#include "query/view.h"

/* Folds RAW (header and parts) as the entry at POS into ST; CHAIN goes on. RET tells of it and borrows RAW and ARENA. 0, or
 * MU_EPROTO, or what evolve refuses: then ST is no longer whole. */
int ctl_entry_fold(struct sch_state *st, struct mu_hash *chain, uint64_t pos, struct mu_view raw, struct mu_arena *arena,
		   struct view_entry *ret, struct mu_err *err);

#endif
