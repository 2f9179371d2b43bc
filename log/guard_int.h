/* log/guard_int.h: shared by guard.c (receiving, sending, writing) and guard_conf.c (configurations). Nobody
 * else includes it. */
#ifndef LOG_GUARD_INT_H
#define LOG_GUARD_INT_H

#include "log/guard.h"

/* A configuration that stands in the log or in the snapshot below it. */
struct guard_conf {
	raft_index index;
	struct raft_configuration conf;
};

/* A send of the core that we completed ourselves by copying; its callback is due. */
struct guard_sent {
	struct guard_sent *next;
	struct raft_io_send *req;
};

/* What is on the way to one server, and what it was told last. */
struct guard_peer {
	raft_id id;
	size_t in_flight;
	raft_index told_commit;
	raft_index next; /* after a cut: where the core has to go on; 0: nothing was cut */
};
enum { GUARD_PEERS_MAX = 16 };

struct log_guard {
	struct raft *r;
	struct raft_io in; /* the io below, as it was */
	raft_io_recv_cb recv;
	raft_io_tick_cb tick;
	struct log_guard_config config;
	struct log_guard_stats stats;
	raft_time born; /* when log_guard_started was called */
	bool closing;
	raft_io_close_cb closed; /* until it was called */

	/* G1 */
	raft_term lead_term; /* term whose opening barrier was proposed */
	raft_index floor;    /* index of that barrier */

	/* G2, G3, G12: what the present leader has verified of our log */
	raft_term match_term;
	raft_index match;
	raft_index request_upto; /* end of the request being handled */
	bool in_request, rejected;
	unsigned streak; /* refusals in a row */

	/* G4, G5 */
	unsigned writes;
	struct guard_sent *sent, **sent_tail;
	struct raft_message waiting; /* an InstallSnapshot held back */
	char *waiting_address;
	bool has_waiting;
	bool waits_for_app; /* held for the application, not for our writes */

	/* own snapshot waiting for the application */
	struct guard_put *put_held;

	/* G8: oldest first; the first one is the snapshot's or the founding one */
	struct guard_conf *conf;
	size_t confs;

	struct guard_peer peer[GUARD_PEERS_MAX];
};

static inline bool guard_on(const struct log_guard *g, enum log_guard_closure closure)
{
	return (g->config.closures & (unsigned)closure) != 0;
}

raft_term guard_term_of(const struct raft *r, raft_index index);

void guard_conf_copy(const struct raft_configuration *from, struct raft_configuration *to);
/* Forgets configurations at INDEX and later. */
void guard_conf_cut(struct log_guard *g, raft_index index);
void guard_conf_add(struct log_guard *g, raft_index index, const struct raft_configuration *conf);
/* Remembers the configurations among N entries of which the first has index FIRST. */
void guard_conf_entries(struct log_guard *g, raft_index first, const struct raft_entry *entries, size_t n);
/* The log will be cut from INDEX on: puts the core's configuration back to the latest one that is left. */
void guard_conf_rollback(struct log_guard *g, raft_index index);
/* After a restart: the last configuration of the log may not be committed yet. */
void guard_conf_started(struct log_guard *g);
/* Handles a vote request as if this server were a voter (G11). */
void guard_conf_vote(struct log_guard *g, struct raft_message *message);

#endif
