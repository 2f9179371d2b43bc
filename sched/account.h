/* sched/account.h: accounts, users, associations and QOS in State; what their jobs hold; what they used.
 * Room-internal.
 *
 * Rows say what was set and what was used. Derived from them and from the job rows: the tree, the compiled
 * limits, and the tallies: for each association, QOS, and user or account within a QOS, how many jobs wait
 * and run and what the running ones hold. A tally is kept up by two calls, one when a job comes or leaves
 * State's living jobs, one when it starts or stops running, so that a check costs the depth of the tree. */
#ifndef SCHED_ACCOUNT_H
#define SCHED_ACCOUNT_H

#include "proto/account.pb-c.h"
#include "proto/base/fixed.h"

struct sch_state;
struct sch_job;
struct sch_part;
struct sch_ev;
struct sch_rec;
struct sch_node;

/* Kinds of trackable resources that are told apart, each a number within one State: the first are fixed,
 * others come with the names of devices. 32 are twice what any site lists. */
enum { SCH_TRES_CPU, SCH_TRES_MEM, SCH_TRES_NODE, SCH_TRES_BILLING, SCH_TRES_WALL, SCH_TRES_FIXED };
enum { SCH_TRES_MAX = 32 };
/* Depth of the tree of accounts, changes in one event (some 100 bytes each), associations of a cluster. */
enum { SCH_TREE_DEPTH_MAX = 64, SCH_CHANGES_MAX = 1000, SCH_ASSOCS_MAX = 100000 };
#define SCH_SHARES_PARENT 2147483647u

/* What a job holds or would hold, by TRES number; node: the most of it on one node. */
struct sch_demand {
	int64_t v[SCH_TRES_MAX], node[SCH_TRES_MAX];
};

enum sch_limit {
#define MU_LIMIT_PLAIN(id, field, owners, names, heading, width, kind, assoc_reason, qos_reason) \
	SCH_LIMIT_##id,
#define MU_LIMIT_TRES(id, field, owners, names, heading, width, assoc_reason, qos_reason) SCH_LIMIT_##id,
#include "proto/limits.def"
	SCH_LIMITS
};
struct sch_cap {
	uint8_t limit, tres;
	int64_t count;
};
/* Limits of one row, compiled. */
struct sch_caps {
	int64_t plain[SCH_LIMITS]; /* -1: none */
	struct sch_cap *v;
	uint32_t count;
	bool any;
};

struct sch_tally_item {
	int64_t used;  /* held by running jobs */
	uint64_t rate; /* by which usage grows per second, as amounts count */
	__int128 end;  /* sum of used * expected end in seconds, of those that are not suspended */
	int64_t still; /* of used: held by suspended jobs */
};
struct sch_tally {
	uint32_t jobs, submits; /* running; all that have not ended */
	uint32_t count;
	struct sch_tally_item *item; /* by TRES number */
};
/* Amounts as TresUsed counts them, up to a moment. */
struct sch_usage {
	uint32_t count;
	uint64_t *amount;
	int64_t usec;
};

struct sch_account {
	struct sch_rec rec;
	Mu__AccountRow *row;
};
struct sch_user {
	struct sch_rec rec;
	Mu__UserRow *row;
};
struct sch_assoc {
	struct sch_rec rec;
	Mu__AssocRow *row; /* used and used_usec are filled in when it is packed */
	struct sch_assoc *parent, **child;
	uint32_t child_count, order; /* order: in the tree, parents first */
	struct sch_caps caps;
	struct sch_tally tally;
	struct sch_usage usage;
	uint64_t level_fs; /* as last computed */
};
struct sch_qos {
	struct sch_rec rec;
	Mu__QosRow *row;
	struct sch_caps caps;
	struct sch_tally tally;
	struct sch_usage usage;
	struct mu_map by_user, by_account; /* struct sch_tally */
};

enum { SCH_WEIGHTS = 7 };
enum sch_weight { SCH_W_AGE, SCH_W_ASSOC, SCH_W_FAIR, SCH_W_SIZE, SCH_W_PART, SCH_W_QOS, SCH_W_TRES };
/* What the configuration says of accounts and priorities. */
struct sch_policy {
	bool associations, limits, safe, qos, multifactor;
	bool favor_small, accrue_always, small_relative, no_normal_part, no_normal_qos, no_normal_assoc;
	uint64_t weight[SCH_WEIGHTS];
	uint64_t tres_weight[SCH_TRES_MAX];
	int64_t max_age_usec, half_life_usec, calc_usec;
	enum {
		SCH_RESET_NONE,
		SCH_RESET_DAILY,
		SCH_RESET_WEEKLY,
		SCH_RESET_MONTHLY,
		SCH_RESET_QUARTERLY,
		SCH_RESET_YEARLY
	} reset;
	uint32_t part_max, qos_max, assoc_max; /* largest of each, for normalising; 0: none */
	uint64_t total[SCH_TRES_MAX];	       /* of the cluster */
};

struct sch_accounts {
	struct mu_map account, user, qos; /* by name */
	struct mu_map assoc;		  /* by number */
	struct mu_map place;		  /* account NUL user NUL partition: association */
	struct sch_assoc **tree;	  /* parents before children */
	uint32_t tree_count;
	struct mu_map tres; /* name: its number and one */
	char *tres_name[SCH_TRES_MAX];
	uint32_t tres_count;
	struct sch_policy policy;
	bool timed; /* some limit depends on the time */
};

/* account.c */
void sch__accounts_free(struct sch_state *st);
void sch__accounts_found(struct sch_ev *ev); /* root, its user, QOS normal */
int sch__accounts_load(struct sch_state *st, uint8_t kind, const void *row,
		       struct mu_err *err); /* takes ROW */
int sch__accounts_load_done(struct sch_state *st, struct mu_err *err);
void sch__accounts_rec_key(const struct sch_rec *rec, struct sch_key *ret);
void sch__accounts_rec_pack(const struct sch_state *st, const struct sch_rec *rec, struct mu_buf *out);
void sch__accounts_rec_free(struct sch_state *st, struct sch_rec *rec);
struct sch_rec *sch__accounts_rec_find(const struct sch_state *st, const struct sch_key *key);
const struct mu_map *sch__accounts_map(const struct sch_state *st, uint8_t kind);
void sch__accounts_tree(
    struct sch_state *st); /* after associations came, went or moved: all that is derived */
struct sch_account *sch__account(const struct sch_state *st, const char *name);
struct sch_user *sch__user(const struct sch_state *st, const char *name);
struct sch_qos *sch__qos(const struct sch_state *st, const char *name);
struct sch_assoc *sch__assoc(const struct sch_state *st, uint32_t id);
struct sch_assoc *sch__assoc_at(const struct sch_state *st, const char *account, const char *user,
				const char *partition);
/* The association that a job of USER in ACCOUNT and PARTITION counts under, or NULL. */
struct sch_assoc *sch__assoc_for(const struct sch_state *st, const char *account, const char *user,
				 const char *partition);
/* Number of the resource NAME; SCH_TRES_MAX when there are too many. */
uint32_t sch__tres(struct sch_state *st, const char *name);
uint32_t sch__tres_known(const struct sch_state *st, const char *name); /* SCH_TRES_MAX: unknown */
enum { SCH_TRES_NAME = 260 };
/* "gres/gpu" or, with TYPE, "gres/gpu:a100". */
void sch__tres_gres(char out[SCH_TRES_NAME], const char *name, const char *type);
/* 0 None, 1 Operator, 2 Administrator. */
unsigned sch__admin_level(const struct sch_state *st, const Mu__Author *a);
struct sch_account *sch__account_build(struct sch_state *st, Mu__AccountRow *row);
struct sch_user *sch__user_build(struct sch_state *st, Mu__UserRow *row);
struct sch_assoc *sch__assoc_build(struct sch_state *st, Mu__AssocRow *row);
struct sch_qos *sch__qos_build(struct sch_state *st, Mu__QosRow *row);
void sch__caps_compile(struct sch_state *st, struct sch_caps *c, const Mu__Limits *l);

/* account_change.c */
int sch__accounts_check(const struct sch_state *st, const Mu__Author *a, const Mu__AccountsChanged *c,
			struct mu_err *err);

/* limit.c */
void sch__demand_waiting(const struct sch_state *st, const struct sch_job *j, const struct sch_part *p,
			 struct sch_demand *ret);
void sch__demand_rows(const struct sch_state *st, const struct sch_job *j, const struct sch_part *p,
		      Mu__AllocNode *const *rows, size_t count, struct sch_demand *ret);
struct sch_alloc;
void sch__demand_allocs(const struct sch_state *st, const struct sch_part *p, const struct sch_alloc *a,
			uint32_t count, struct sch_demand *ret);
void sch__demand_running(const struct sch_state *st, const struct sch_job *j, struct sch_demand *ret);
void sch__count_submit(struct sch_state *st, const struct sch_job *j, int sign);
void sch__count_running(struct sch_state *st, struct sch_job *j, int sign);
/* While J, which is counted, is suspended: what it holds counts for limits, and no usage grows of it. */
void sch__count_pause(struct sch_state *st, struct sch_job *j, int sign);
/* What a pass has given on top of State. Zeroed; memory is the arena's, the map is cleared by its owner. */
struct sch_extra {
	struct mu_map tally;
	struct mu_arena *arena;
};
/* REASON_None, or why J, wanting D for LIMIT_SEC in P, may not start now. EXTRA may be NULL. */
uint32_t sch__limit_start(const struct sch_state *st, const struct sch_job *j, const struct sch_part *p,
			  const struct sch_demand *d, int64_t limit_sec, const struct sch_extra *extra);
/* The limit behind the reason that sch__limit_start gives J in P without EXTRA. Texts are State's. */
struct sch_blame {
	char kind;   /* A association, Q QOS, U user in a QOS, C account in a QOS */
	uint32_t id; /* of the association or QOS */
	const char *name, *owner, *whose, *tres; /* name: sacctmgr's words for it, the first is to be shown */
	int64_t limit, used, wanted;
	bool of_job, seconds;
};
uint32_t sch__limit_blame(const struct sch_state *st, const struct sch_job *j, const struct sch_part *p,
			  struct sch_blame *ret);
bool sch__limit_counts(const struct sch_state *st, const struct sch_job *j,
		       const struct sch_blame *b); /* does the running J count under it? */
/* Counts it as started within the pass. */
void sch__limit_note(const struct sch_state *st, const struct sch_job *j, const struct sch_part *p,
		     const struct sch_demand *d, int64_t limit_sec, int sign, struct sch_extra *extra);
/* The longest that a job without a limit of its own may run by accounts and QOS; -1: no limit. */
int64_t sch__limit_wall(const struct sch_state *st, uint32_t assoc, const char *qos,
			const struct sch_part *p);
/* Tally as it stands at NOW: what running jobs may still use until their limits, in seconds of the resource.
 */
int64_t sch__tally_ahead(const struct sch_tally *t, uint32_t tres, int64_t now_usec);
struct sch_want;
/* Limits in minutes move with time: once a minute is a pass due while something waits. They are judged as of
 * ClusterRow.limits_usec, the last time at which a pass became due, so that nothing changes between passes.
 */
void sch__limits_timed(struct sch_state *st);
void sch__limits_time(struct sch_state *st, int64_t before_usec);
int64_t sch__limits_due(const struct sch_state *st);
/* Refuses a submission beyond a submit limit, or one that could never run where QOS says DenyOnLimit. */
int sch__limit_submit(const struct sch_state *st, const Mu__JobSpec *spec, const struct sch_want *w,
		      const Mu__Author *a, struct mu_err *err);
/* Account, association and QOS of a submission; defaults filled in. */
int sch__account_resolve(const struct sch_state *st, const Mu__JobSpec *spec, const Mu__Author *a,
			 struct sch_want *w, struct mu_err *err);

/* fairshare.c */
int64_t sch__conf_span_usec(const Mu__Config *c, const char *key, int64_t otherwise_sec);
void sch__policy(struct sch_state *st); /* from the configuration */
/* N's share of the totals, before and after what it has changes. */
void sch__policy_node(struct sch_state *st, const struct sch_node *n, int sign);
/* Amounts of U at NOW, COUNT of them, into RET. */
void sch__usage_at(const struct sch_state *st, const struct sch_usage *u, const struct sch_tally *t,
		   bool decays, int64_t now, uint64_t *ret, uint32_t count);
void sch__usage_settle(struct sch_state *st, struct sch_usage *u, const struct sch_tally *t, bool decays);
bool sch__qos_flag(const struct sch_qos *q, const char *flag);
void sch__usage_settle_all(struct sch_state *st);
void sch__fair(struct sch_state *st); /* all fair-share factors anew */

/* factor.c */
struct sch_factors {
	uint64_t factor[SCH_WEIGHTS]; /* Q32 */
	uint64_t part[SCH_WEIGHTS];   /* weighted, whole */
	uint64_t tres[SCH_TRES_MAX];  /* weighted, whole; part[SCH_W_TRES] is their sum */
	int64_t nice, site;
	uint32_t priority;
};
void sch__factors(const struct sch_state *st, const struct sch_job *j, const struct sch_part *p,
		  const Mu__JobSpec *spec, struct sch_factors *ret);
void sch__priorities_tick(struct sch_ev *ev); /* a slice of computing them anew, when that is due */
int64_t sch__priorities_due(const struct sch_state *st);

#endif
