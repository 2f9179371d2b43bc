/* query/answer.h: an answer under construction, and the filters of a Mu__Query. Room-internal. */
#ifndef QUERY_ANSWER_H
#define QUERY_ANSWER_H

#include "proto/why.pb-c.h"
#include "query/pick.h"
#include "query/rows.h"
#include "query/source.h"

enum {
	ANSWER_PAGE_DEFAULT = 4 * 1024 * 1024,
	ANSWER_PAGE_MAX = 12 * 1024 * 1024, /* stays below the largest message (16 MiB) */
	ANSWER_HOSTS_MAX = 100000,	    /* names in a query's node lists */
	ANSWER_FULL = 1,		    /* a sink's return: the page is full */
};

struct answer {
	struct source source;
	const Mu__Query *query;
	const struct query_caller *caller;
	struct mu_arena *arena;
	struct mu_err *err;
	unsigned private_data;
	struct mu_map nodes; /* names asked for, expanded; empty: no filter */
	int (*each)(struct answer *a, struct mu_view hist_row); /* not NULL: takes what would be rows of accounts */
	void *each_arg;
	struct mu_map hidden; /* partitions whose jobs of others are left out */
	/* The page. */
	ProtobufCBinaryData *row;
	size_t count, cap, bytes, limit;
	struct mu_view last_key; /* of the last row added, in the arena */
	bool more;
};

/* Room for a row of LEN bytes in the page, or NULL when the page is full (then a.more is set). The first row
 * always fits. */
uint8_t *answer_room(struct answer *a, size_t len);
/* Adds what was written there, LEN bytes, as the row of page key KEY (copied). */
void answer_add(struct answer *a, uint8_t *row, size_t len, const void *key, size_t key_len);

/* True when the job passes every filter but those of time, and the caller may see it. WITH_STATE false leaves
 * the states filter out. */
bool answer_wants_job(const struct answer *a, const struct pick_job *job, bool with_state);
bool answer_may_see(const struct answer *a, uint32_t uid);
/* private.c: what PrivateData hides from people who are no operators. */
bool answer_hides(const struct answer *a, unsigned private_bit);
bool answer_is_caller(const struct answer *a, const char *user);
int answer_people(struct answer *a); /* accounts, users and associations */
int answer_reservations(struct answer *a);
int answer_plain(struct answer *a, struct mu_view key, struct mu_view row);
struct mu_view answer_page_key(const struct answer *a);
bool answer_on_nodes(const struct answer *a, struct mu_view node_list);

/* moment.c */
int answer_moments(struct answer *a);
int answer_acts(struct answer *a);
/* Up to MAX moments of a job, or of NODE where not NULL, behind position AFTER and up to the answer's own, in the arena, without their
 * causes. */
int answer_life(struct answer *a, uint32_t job, const char *node, uint64_t after, size_t max, Mu__Moment ***ret,
		size_t *ret_count);
/* Tells SINK what each reservation became and when, by name, then in order of time, up to the answer's own moment; an
 * empty row: it went. A non-zero return ends the walk and is returned. */
typedef int (*answer_resv_sink)(void *arg, const char *name, int64_t usec, struct mu_view row);
int answer_resv_lives(struct answer *a, size_t max, answer_resv_sink sink, void *arg);
/* Fills in what brought M about, out of its entry; FIRST: it is the job's first. */
int answer_cause(struct answer *a, Mu__Moment *m, uint32_t job, const char *node, bool first);
/* plan.c */
int answer_plan(struct answer *a);
/* usage.c */
int answer_usage(struct answer *a);
/* why.c */
int answer_why(struct answer *a);
/* The ids that the query names, ascending, behind AFTER, arrays with all of their jobs; HISTORY: also those that
 * have ended. Where there are too many for one page the list ends with id *RET_CUT, else that is 0. Ids lie in
 * the arena. 0 or an error. */
int answer_ids(struct answer *a, uint32_t after, bool history, uint32_t **ret, size_t *ret_count,
	       uint32_t *ret_cut);
void answer_cut(struct answer *a, const void *key, size_t len); /* another page follows, from KEY on */

/* acct.c */
int answer_acct(struct answer *a);
/* shares.c */
int answer_computed(struct answer *a);

#endif
