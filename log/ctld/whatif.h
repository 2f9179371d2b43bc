/* ctld/whatif.h: `muster whatif` and `muster bisect`: an archive told again under other rules
 * (sched/sim/whatif.h).
 *
 * Owns: the archive's entries on their way into the two histories, changes of a configuration, the figures of
 * both and their words. Leaves to others: what is decided (the core), what is kept of an attempt (sched/sim).
 */
#ifndef LOG_CTLD_WHATIF_H
#define LOG_CTLD_WHATIF_H

#include <stdio.h>

#include "proto/base/arena.h"
#include "proto/conf.h"
#include "query/view.h"
#include "sched/sim/whatif.h"

/* What is to be otherwise. */
struct whatif_rules {
	const char **set; /* KEY=VALUE */
	size_t set_count;
	const char *conf; /* file; NULL: the recorded one */
	const char **add; /* LIST=LIKE: nodes, like another */
	size_t add_count;
	const char **drop; /* reservations */
	size_t drop_count;
	uint64_t skip_pos; /* an event that did not happen; 0: none */
	uint32_t skip_n;
	const char *alive; /* a node that never falls silent */
};
struct whatif_run {
	struct whatif_rules rules;
	struct sch_whatif_change change;
	struct sch_whatif *w;
	struct mu_arena arena;
	const Mu__Config *conf; /* of rules.conf */
	bool conf_given;
	uint64_t from, to; /* first position; last of the period */
	int64_t from_usec, to_usec;
	struct mu_err why;
};

/* A time as people write it, or @POS, to microseconds of V's history. 0, MU_ESYNTAX, MU_ENOENT. */
int whatif_moment(struct view *v, const char *text, int64_t *ret_usec, struct mu_err *err);
/* Tells V's history from FROM_USEC on again, by RULES (borrowed until whatif_done), up to TO_USEC and as long
 * as jobs of that time wait. 0, or what a view, a configuration or the core says. */
int whatif_tell(struct view *v, const struct whatif_rules *rules, int64_t from_usec, int64_t to_usec,
		struct whatif_run *ret, struct mu_err *err);
void whatif_done(struct whatif_run *r);

/* ---- figures ---- */
struct whatif_tally {
	uint32_t jobs, started, waiting; /* submitted; that began; that still waited at the end */
	double p50, p90, p99, mean,
	    slowdown; /* of the waits in seconds; mean bounded slowdown of those that ended */
};
struct whatif_group {
	const char *name;
	struct whatif_tally real, other;
};
struct whatif_groups {
	struct whatif_group all, *account, *shape;
	size_t accounts, shapes;
	uint32_t same, sooner, later; /* jobs by their first start, beside the real one */
};
void whatif_sum(struct whatif_run *r, struct mu_arena *arena, struct whatif_groups *ret);
void whatif_print(const struct whatif_run *r, const struct whatif_groups *g, FILE *out);
void whatif_json(const struct whatif_run *r, const struct whatif_groups *g, FILE *out);
int whatif_picture(const struct whatif_run *r, const char *path, struct mu_err *err);

/* A figure of the jobs of ACCOUNT (NULL: all) submitted from FROM_USEC up to TO_USEC. */
struct whatif_metric {
	const char *word; /* "wait:p50", wait:p90, wait:p99, wait:mean, slowdown */
	const char *account;
	int64_t from_usec, to_usec;
};
bool whatif_metric_known(const char *word);
double whatif_measure(struct whatif_run *r, const struct whatif_metric *m, bool other, uint32_t *ret_jobs);

/* The verbs. ARGV[0] is the verb. */
int bisect_main(int argc, char **argv);
int whatif_main(int argc, char **argv);

#endif
