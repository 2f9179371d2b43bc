/* cli/sacctmgr.h: what the parts of sacctmgr share. Private to cli/sacctmgr*.c. */
#ifndef CLI_SACCTMGR_H
#define CLI_SACCTMGR_H

#include "cli/cli.h"
#include "cli/option.h"
#include "proto/account.pb-c.h"

enum mgr_entity {
	MGR_ACCOUNT = 1,
	MGR_ASSOC,
	MGR_CLUSTER,
	MGR_COORDINATOR,
	MGR_CONFIGURATION,
	MGR_EVENT,
	MGR_PROBLEM,
	MGR_QOS,
	MGR_RESOURCE,
	MGR_RUNAWAY,
	MGR_STATS,
	MGR_TRANSACTION,
	MGR_TRES,
	MGR_USER,
	MGR_WCKEY
};
/* Words of the command line that mean something; limits follow with their number in limits.def. */
enum mgr_field {
	F_CLUSTER,
	F_ACCOUNT,
	F_USER,
	F_NAME,
	F_PARTITION,
	F_PARENT,
	F_DESCRIPTION,
	F_ORGANIZATION,
	F_SHARES,
	F_PRIORITY,
	F_QOS,
	F_DEFAULT_QOS,
	F_DEFAULT_ACCOUNT,
	F_ADMIN,
	F_COMMENT,
	F_RAW_USAGE,
	F_FORMAT,
	F_FLAGS,
	F_GRACE,
	F_PREEMPT,
	F_PREEMPT_MODE,
	F_EXEMPT,
	F_USAGE_FACTOR,
	F_USAGE_THRESHOLD,
	F_LIMIT_FACTOR,
	F_WITH_ASSOC,
	F_WITH_COORD,
	F_TREE,
	F_START,
	F_ID,
	F_IGNORED,
	F_LIMIT,
	F_LEGACY,
	F_FILE,
	F_UNKNOWN
};
enum { MGR_WORDS_MAX = 256 };
struct mgr_word {
	enum mgr_field field;
	unsigned limit; /* of F_LIMIT: place in limits.def; of F_LEGACY: place in the table of old names */
	char sign;	/* '=', '+', '-' */
	const char *value;
	bool set; /* behind "set"; else it says which */
};
struct mgr {
	struct cli *cli;
	const struct cli_args *args;
	Mu__AccountRow **account;
	Mu__UserRow **user;
	Mu__AssocRow **assoc; /* in the order of the tree */
	uint32_t *depth, *lft, *rgt;
	Mu__QosRow **qos;
	size_t accounts, users, assocs, qoses;
	struct mgr_word word[MGR_WORDS_MAX];
	size_t words;
	Mu__AccountsChange **change;
	size_t changes, change_cap;
	const char *line;
};

/* ---- words (sacctmgr.c) ---- */
const struct mgr_word *mgr_find(const struct mgr *m, enum mgr_field field, bool set); /* the last one; NULL */
const char *mgr_value(const struct mgr *m, enum mgr_field field, bool set);
bool mgr_listed(const struct mgr *m, enum mgr_field field, const char *name); /* no such word: yes */
int mgr_load(struct mgr *m, struct mu_err *err);
Mu__AssocRow *mgr_assoc(const struct mgr *m, const char *account, const char *user, const char *partition);
/* Whose list of QOS holds at A: its own, or that of the nearest account above; NULL when none has a list. */
const Mu__AssocRow *mgr_qos_holder(const struct mgr *m, const Mu__AssocRow *a);
Mu__AccountRow *mgr_account(const struct mgr *m, const char *name);
Mu__UserRow *mgr_user(const struct mgr *m, const char *name);
Mu__QosRow *mgr_qos(const struct mgr *m, const char *name);
void mgr_say(const struct mgr *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
void mgr_join(char *const *list, size_t n, struct mu_buf *out);
/* "cpu=4,mem=10G". */
void mgr_tres(Mu__TresCount *const *v, size_t n, struct mu_buf *out);
void mgr_limit_text(const Mu__Limits *l, unsigned limit, struct mu_buf *out);
const char *mgr_limit_name(unsigned limit);				      /* first of its names */
unsigned mgr_limit_of(const char *key, size_t len, bool qos, bool *ret_many); /* SIZE of the table: none */
extern const unsigned mgr_limits;
int mgr_limit_set(struct mgr *m, Mu__Limits **l, const struct mgr_word *w, struct mu_err *err);

/* ---- changes ---- */
Mu__AccountsChange *mgr_change(struct mgr *m, Mu__AccountsChange__KindCase kind);
bool mgr_confirm(struct mgr *m); /* the question, unless -i */
/* Sends what was collected, 1,000 changes at a time. */
int mgr_send(struct mgr *m, struct mu_err *err);
int mgr_add(struct mgr *m, enum mgr_entity e);
int mgr_modify(struct mgr *m, enum mgr_entity e);
int mgr_delete(struct mgr *m, enum mgr_entity e);
int mgr_list(struct mgr *m, enum mgr_entity e);
/* The same with --json or --yaml (sacctmgr_json.c). */
int mgr_list_json(struct mgr *m, enum mgr_entity e);
/* Do the words of the line ask for it? */
bool mgr_account_wanted(const struct mgr *m, const Mu__AccountRow *a);
bool mgr_user_wanted(const struct mgr *m, const Mu__UserRow *u);
bool mgr_assoc_wanted(const struct mgr *m, const Mu__AssocRow *a);
bool mgr_qos_wanted(const struct mgr *m, const Mu__QosRow *q);
bool mgr_cluster_wanted(const struct mgr *m);
/* ---- sacctmgr_info.c: exit codes ---- */
int mgr_show_config(struct mgr *m);
int mgr_show_stats(struct mgr *m);
int mgr_dump(struct mgr *m, char **words, size_t n);
int mgr_read(struct mgr *m, char **words, size_t n);

#endif
