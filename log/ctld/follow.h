/* ctld/follow.h: a follower: one process that keeps the history of several clusters and answers for all of them.
 *
 * It is musterd without a replica: of each cluster that MusterFollow names it reads the log as anybody with the right to
 * may, folds it, and keeps a view of its own, from which it answers queries whose request names the cluster. It goes on
 * from the position where its view stands, so a cluster that was away is late and never lacks anything; while it is
 * away the answers say how old they are. */
#ifndef LOG_CTLD_FOLLOW_H
#define LOG_CTLD_FOLLOW_H

#include "log/ctld/ctld.h"

enum { FOLLOW_CLUSTERS_MAX = 64 };

struct ctl_follow;
/* Reads the configuration: where to listen (MusterFollower), whom to follow (MusterFollow), where to keep it. */
int ctl_follow_setup(struct ctl *c, struct mu_err *err);
/* Follows and answers until SIGTERM or SIGINT. The process's exit code. */
int ctl_follow_run(struct ctl *c);
/* A verified request; takes REQ. Any thread. */
void ctl_follow_route(struct ctl *c, struct ctl_req *req);

/* ---- one cluster (follow_log.c) ---- */
struct followed {
	struct ctl *ctl;
	const char *name, *conf_path;
	struct mu_arena arena;
	Mu__Config *conf;
	struct auth_keys keys; /* the cluster's public one, where it is there */
	struct view *view;
	struct sch_state *st;
	struct mu_hash chain;
	struct wire_client *local, *remote;
	pthread_t thread;
	bool started;
	_Atomic int64_t heard_msec; /* monotonic; 0: never */
	_Atomic bool lost;	    /* its log cannot be followed any more */
	pthread_mutex_t lock;
	char trouble[512]; /* under the lock: why it is not up to date; "" */
};
/* Opens F->view in DIR/NAME, where NAME is that of the cluster in its configuration. */
int followed_open(struct followed *f, const char *dir, struct mu_err *err);
int followed_start(struct followed *f, const _Atomic bool *stop, struct mu_err *err);
void followed_close(struct followed *f); /* joins the thread */

#endif
