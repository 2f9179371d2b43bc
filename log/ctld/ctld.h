/* ctld/ctld.h: the inside of musterd: the only place that sees log, sched and query together.
 *
 * Threads: one core thread runs the loop and owns replica, State and everything in struct ctl that is not marked otherwise; nng
 * threads verify requests and post them (edge.c); one projector thread writes the view (project.c); reader threads answer queries
 * (read.c). They meet the core only through ctl_post and the atomics below. */
#ifndef LOG_CTLD_CTLD_H
#define LOG_CTLD_CTLD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "log/auth.h"
#include "log/replica.h"
#include "log/wire.h"
#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/base/map.h"
#include "proto/wire.pb-c.h"
#include "query/view.h"
#include "sched/sched.h"

/* Bounds, each with the sum that justifies it. */
enum {
	CTL_REQUESTS_MAX = 32768,            /* requests in the core at once, polls of all nodes among them: 32,768 x 2 KiB is 64 MiB */
	CTL_BATCH_EVENTS = 256,              /* events in one entry: 256 x 700 B stays under an entry's 256 KiB */
	CTL_BATCH_BYTES = 200 * 1024,        /* leaves room for one blob of 48 KiB in an entry of 256 KiB */
	CTL_BLOB_INLINE = 48 * 1024,         /* a larger blob rides in entries of its own before its event */
	CTL_BLOBS_HELD = 4096,               /* hashes remembered, so that a submission need not carry its script again */
	CTL_CONF_MAX = 240 * 1024,           /* a configuration, folded; the founding and its author fit beside it */
	CTL_BLOB_MAX = 16 * 1024 * 1024,     /* scripts and environments above are refused */
	CTL_PROJECT_MAX = 64 * 1024 * 1024,  /* bytes waiting for the projector before requests are refused as busy */
	CTL_IN_FLIGHT = 8,                   /* entries proposed and not yet committed */
	CTL_REQUEST_SEC = 12,                /* a request that found no leader for so long is answered */
	CTL_VERDICT_RING = 64,               /* entries whose verdicts are kept for their proposers; > CTL_IN_FLIGHT */
	CTL_DIGEST_EVERY = 1024,
	CTL_RESOLVED_ROWS = 20000,	     /* of one array's tasks in history, some 10 us each */
	CTL_RESOLVED_MAX = 100,              /* ended jobs of one dependency: so many reads of history, tens of microseconds each */
	CTL_DECIDE_STEPS = 30000,            /* counted steps of one slice, of 0.2 us each */
	CTL_READERS = 3,
	CTL_READ_QUEUE = 4096,
	CTL_POLL_MSEC_MAX = 30000
};

/* Kinds of messages between controllers (log_replica_send and log_replica_call). */
enum ctl_peer_kind {
	CTL_PEER_REQUEST = 1, /* call: Mu__Forward -> Mu__Reply */
	CTL_PEER_READPOS = 2, /* call: "" -> u64 pos (empty answer: not leading) */
	CTL_PEER_HEARD = 3,   /* send: Mu__HeardBatch-like list, see poll.c */
	CTL_PEER_CLOCK = 4,   /* send: i64 wall usec, u32 level, u64 pos, u8 disk_low, name */
	CTL_PEER_DIGEST = 5,  /* send: u64 pos, 32 digest, 32 chain */
	CTL_PEER_IMAGE = 6,   /* call: u64 image id, cursor -> page of rows */
	CTL_PEER_ENTRIES = 7, /* call: u64 from, u32 max bytes -> raw entries */
	CTL_PEER_BASE = 8     /* call: as IMAGE, of what lies below the archive's cut */
};

struct ctl;

/* A request inside the core: from the edge of this controller, or forwarded by another. */
struct ctl_req {
	struct ctl_req *next;
	struct mu_arena arena;
	Mu__Author *author;       /* in arena */
	Mu__Request *request;     /* in arena */
	struct mu_view raw;       /* its bytes, in arena */
	struct wire_call *call;   /* answered here when not NULL */
	struct log_reply_to *peer; /* else answered there */
	struct auth_who who;
	int64_t deadline_msec;    /* monotonic */
	unsigned parts_left;      /* events of it not yet committed */
	int code;                 /* worst verdict so far */
	struct sch_verdict verdict;
	uint64_t pos;
	bool maybe_in_log;        /* proposed at least once: a give-up answer is "unknown" */
	bool flying;              /* its id is in ctl.flying */
	struct ctl_past *past;    /* what history said of jobs that it depends on (resolve.c), in arena */
};

/* One part of an entry being gathered. */
struct ctl_part {
	uint8_t kind;
	size_t offset, len; /* in ctl_batch.bytes */
	struct ctl_req *req; /* NULL: the controller's own event */
};
struct ctl_batch {
	struct ctl *ctl;
	struct mu_buf bytes;
	struct ctl_part part[CTL_BATCH_EVENTS * 2];
	size_t count;
	bool has_decided;
	uint64_t term;
};

struct ctl_verdicts {
	uint64_t pos;
	struct sch_verdict *v; /* one per event part */
	size_t count, cap;
};

struct ctl_peer {
	uint64_t id;
	char name[64];
	int64_t ahead_usec; /* its wall clock minus our monotonic one when last heard */
	int64_t heard_msec;
	uint32_t level;
	uint64_t pos;
	bool disk_low;
};

/* A node's long poll. */
struct ctl_poll {
	struct ctl_poll *next; /* of the same node */
	uint8_t due_key[16];   /* in ctl.polls_due: deadline, serial */
	struct wire_call *call;
	struct auth_who who;
	char *node;
	uint8_t base_digest[MU_HASH_BYTES];
	bool has_base;
	int64_t deadline_msec;
};

/* A client that waits for a job. */
struct ctl_wait {
	struct ctl_wait *next;
	struct ctl_req *req;
	uint32_t job, until, state;
	bool want_key;
	int64_t deadline_msec;
	int64_t unknown_msec; /* until then an id that was not given out here yet may still come from the leader */
};

struct ctl_options {
	const char *conf_path;
	char name[64];
	bool foreground, check, follower;
	int verbose;
	int64_t clock_skew_usec; /* tests: this controller's clock is off by so much */
};

struct ctl_counters {
	_Atomic uint64_t requests, refused_busy, refused_auth, refused_admit, refused_disk, refused_bad, queries, submits;
	_Atomic uint64_t passes, pass_steps, pass_usec_last, pass_usec_max, starts;
	_Atomic uint64_t pass_slices, pass_usec, pass_steps_last, pass_steps_max; /* of whole passes, but slices */
	_Atomic uint64_t pass_depth, pass_planned; /* jobs that waited, that had a planned start, at the last pass */
};

struct ctl {
	struct ctl_options opt;
	struct mu_arena conf_arena;
	Mu__Config *conf; /* of the local file: addresses, directories, own name */
	const Mu__ControllerConf *self;
	struct auth_keys keys;
	uint32_t slurm_uid;
	char *state_dir, *raft_dir, *view_dir, *socket_path, *pid_path;

	uv_loop_t loop;
	uv_async_t wake;
	uv_timer_t tick;    /* 20 ms housekeeping */
	uv_check_t check;   /* after each round of I/O: flush, decide, wake pollers */
	uv_idle_t spin;     /* runs while a decide slice is owed */
	uv_signal_t sig_term, sig_int, sig_hup;
	pthread_mutex_t post_lock;
	struct ctl_note *post_first, **post_tail;

	struct log_replica *replica;
	struct sch_state *st;
	struct view *view;
	struct mu_hash chain;
	enum log_role role;
	uint64_t term, leader;
	int64_t leader_seen_msec;
	bool leader_ready;   /* our LeaderElected of this term is committed */
	_Atomic bool founded; /* State belongs to a cluster: before that a controller sends people and nodes to others */
	bool suspect;        /* digests differ without a majority */
	bool closing;

	struct ctl_batch *batch; /* being gathered; NULL: nothing */
	unsigned in_flight;
	bool decided_in_flight, tick_in_flight, level_in_flight, founded_in_flight;
	uint64_t decide_void_pos; /* nothing to decide over this position */
	struct ctl_verdicts ring[CTL_VERDICT_RING];
	struct mu_hash blob_held[CTL_BLOBS_HELD]; /* blobs committed lately, by their first bytes; for a while (keep.c) */
	struct sch_changes changes;
	struct mu_arena scratch;

	struct ctl_req *waiting, **waiting_tail; /* no leader, or to be tried again */
	struct mu_map flying;                    /* request id -> the request whose events are proposed and not settled */
	_Atomic unsigned requests;               /* all ctl_req alive */

	uint64_t poll_serial;
	struct mu_map polls_due; /* deadline and serial -> struct ctl_poll * */
	struct mu_map polls; /* node name -> list of struct ctl_poll: one as a rule, more after a client's retry */
	struct mu_map dirty_nodes; /* node name -> (void *)1 */
	bool all_nodes_dirty;
	char dirty_from[SCH_KEY_MAX + 1]; /* while all are dirty: the last node looked at */
	uint64_t beat_turn;
	struct mu_map heard;       /* node name -> struct ctl_heard * */
	int64_t heard_sent_msec, heard_logged_msec;
	struct ctl_wait *waits;

	struct ctl_peer peer[LOG_MEMBERS_MAX];
	unsigned peers;
	int64_t clock_sent_msec;
	int64_t clock_base_usec, clock_mono_usec; /* stamped time = base + (mono - clock_mono) */
	bool clock_bad;
	_Atomic int64_t clock_off_usec; /* from our wall clock to the controllers' median; 0 while that is unknown */
	bool disk_low;
	int64_t disk_checked_msec;

	struct ctl_project *project;
	struct ctl_readers *readers;
	struct wire_server *server;
	struct ctl_sealers *sealers;
	struct ctl_counters n;
	struct { uint64_t pos; struct mu_hash digest, chain; } announced[8];
	struct ctl_install *install;
	struct ctl_backfill *backfill;
	struct ctl_base *base;
	struct ctl_keep *keep;
	struct ctl_follow *follow; /* this is a follower (follow.h): no replica, no State */
	uint64_t replica_id;
	int exit_code;
};

/* ---- post.c: the mailbox of the core ---- */
typedef void (*ctl_fn)(struct ctl *c, void *arg);
void ctl_post(struct ctl *c, ctl_fn fn, void *arg); /* any thread; runs FN on the core thread, in order */
void ctl_post_init(struct ctl *c);
int64_t ctl_mono_msec(void);
int64_t ctl_mono_usec(void);
int64_t ctl_wall_usec(const struct ctl *c);

/* ---- core.c: replica's hooks ---- */
void ctl_core_hooks(struct log_hooks *hooks);
void ctl_core_housekeeping(struct ctl *c); /* every 20 ms */
void ctl_core_round(struct ctl *c);        /* after each round of I/O */
void ctl_elected(struct ctl *c, uint64_t pos);

/* ---- request.c ---- */
struct ctl_req *ctl_req_new(void);
void ctl_req_free(struct ctl *c, struct ctl_req *req);
void ctl_req_answer(struct ctl *c, struct ctl_req *req, const Mu__Reply *reply); /* answers and frees */
void ctl_req_fail(struct ctl *c, struct ctl_req *req, int code, const char *text); /* the same with a refusal */
int ctl_conf_fits(const Mu__Config *config, struct mu_err *err); /* 0, or MU_ELIMIT with the sentence */
void ctl_req_dispatch(struct ctl *c, struct ctl_req *req); /* core thread: takes REQ */
void ctl_req_retry_waiting(struct ctl *c);
void ctl_blob_committed(struct ctl *c, struct mu_view blob); /* need not be proposed again, for a while */
void ctl_req_landed(struct ctl *c, struct ctl_req *req); /* all its events are settled: a copy of it may go on */
void ctl_req_from_peer(struct ctl *c, struct mu_view bytes, struct log_reply_to *reply);

/* ---- propose.c ---- */
/* Adds one event (and BLOBS before it) to the entry being gathered. REQ may be NULL. */
void ctl_propose_event(struct ctl *c, const Mu__Event *event, struct ctl_req *req);
/* Fills SUBMITTED->resolved, in REQ's arena, for its dependencies: from State and from history. Core thread. 0; CTL_LATER: history
 * must be asked first, so REQ is with a reader and comes again by ctl_req_dispatch; MU_EDEPENDENCY, MU_EBUSY. */
enum { CTL_LATER = 1 };
int ctl_resolve(struct ctl *c, struct ctl_req *req, Mu__Submitted *submitted, struct mu_err *err);
int ctl_propose_blob(struct ctl *c, struct mu_view blob);
void ctl_propose_flush(struct ctl *c, bool force);
struct ctl_verdicts *ctl_verdicts_at(struct ctl *c, uint64_t pos, bool make);

/* ---- decide.c ---- */
void ctl_decide(struct ctl *c);
void ctl_due(struct ctl *c);

/* ---- clock.c ---- */
int64_t ctl_stamp(struct ctl *c); /* the time for the next entry */
void ctl_clock_housekeeping(struct ctl *c);
void ctl_clock_heard(struct ctl *c, uint64_t from, struct mu_view bytes);
struct ctl_peer *ctl_peer_of(struct ctl *c, uint64_t id);
/* From WALL_USEC, our clock, to the peer's. */
int64_t ctl_peer_offset_usec(const struct ctl_peer *p, int64_t wall_usec);
/* False for a peer whose clock is further from the median than a leader's may be. */
bool ctl_peer_clock_good(const struct ctl *c, const struct ctl_peer *p);

/* ---- poll.c ---- */
void ctl_poll_add(struct ctl *c, struct ctl_req *req); /* takes REQ */
void ctl_poll_changes(struct ctl *c, const struct sch_changes *changes);
void ctl_poll_wake(struct ctl *c);
void ctl_poll_housekeeping(struct ctl *c);
void ctl_heard_from_peer(struct ctl *c, struct mu_view bytes);
void ctl_wait_add(struct ctl *c, struct ctl_req *req); /* takes REQ */

/* ---- edge.c: wire in ---- */
int ctl_edge_open(struct ctl *c, struct mu_err *err);
int ctl_edge_listen(struct ctl *c, const char *const *addresses, size_t count, struct mu_err *err);

/* ---- reply.c: wire out ---- */
int ctl_reply_start(struct ctl *c, struct mu_err *err);
void ctl_reply_stop(struct ctl *c); /* after the readers: sends what is queued, joins */
/* Answers CALL of WHO with BODY (copied). Any thread; seals on another where it must be sealed. */
void ctl_reply(struct ctl *c, struct wire_call *call, const struct auth_who *who, struct mu_view body);

/* ---- read.c: readers ---- */
int ctl_readers_start(struct ctl *c, struct mu_err *err);
void ctl_readers_stop(struct ctl *c);
void ctl_read(struct ctl *c, struct ctl_req *req); /* any thread: takes REQ; refused as busy when the queue is full */
bool ctl_read_full(const struct ctl *c); /* as many wait as may */
void ctl_read_housekeeping(struct ctl *c);
/* Runs FN on a reader thread (image pages, blobs, entries for peers). */
void ctl_read_task(struct ctl *c, void (*fn)(struct ctl *c, void *arg), void *arg);
void ctl_readpos_from_peer(struct ctl *c, struct log_reply_to *reply);

/* ---- project.c ---- */
int ctl_project_start(struct ctl *c, struct mu_err *err);
void ctl_project_stop(struct ctl *c); /* writes what is queued, joins */
void ctl_project_push(struct ctl *c, uint64_t pos, const struct log_entry *entry, const struct sch_changes *changes);
/* After everything queued so far is applied, runs WORK(c, arg) on the projector's thread (the view's only writer), then posts DONE
 * (may be NULL) to the core with the same ARG. */
void ctl_project_work(struct ctl *c, ctl_fn work, ctl_fn done, void *arg);
size_t ctl_project_bytes(const struct ctl *c);

/* ---- snapshot.c ---- */
void ctl_snapshot_due(void *arg);
void ctl_snapshot_install(void *arg, const struct log_pointer *pointer, uint64_t from);
int ctl_snapshot_restore(void *arg, const struct log_pointer *pointer);
void ctl_image_from_peer(struct ctl *c, struct mu_view bytes, bool base, struct log_reply_to *reply);
void ctl_entries_from_peer(struct ctl *c, struct mu_view bytes, struct log_reply_to *reply);
void ctl_backfill_housekeeping(struct ctl *c);
void ctl_backfill_resume(struct ctl *c, int64_t msec); /* asks again, so long from now */

/* ---- base.c ---- */
void ctl_base_fetch(struct ctl *c, uint64_t from); /* from that controller; then ctl_backfill_resume */

/* ---- keep.c: letting history go, on a reader thread ---- */
void ctl_keep_housekeeping(struct ctl *c);

/* ---- member.c ---- */
void ctl_member(struct ctl *c, struct ctl_req *req); /* takes REQ */
void ctl_ping(struct ctl *c, struct ctl_req *req);   /* takes REQ */
void ctl_control(struct ctl *c, struct ctl_req *req); /* takes REQ */
void ctl_backup(struct ctl *c, struct ctl_req *req); /* backup.c; takes REQ */
void ctl_digest_ask(struct ctl *c, struct ctl_req *req);
void ctl_digest_check(struct ctl *c, uint64_t pos);
void ctl_digest_from_peer(struct ctl *c, uint64_t from, struct mu_view bytes);
void ctl_level_housekeeping(struct ctl *c);

/* ---- disk.c ---- */
void ctl_disk_housekeeping(struct ctl *c);
void ctl_disk_reserve(struct ctl *c);

/* ---- gauges.c ---- */
void ctl_metrics_close(void);
int ctl_metrics_open(struct ctl *c, struct mu_err *err);
void ctl_gauges_refresh(struct ctl *c);
void ctl_diag_ask(struct ctl *c, struct ctl_req *req); /* takes REQ */

/* ---- setup.c ---- */
int ctl_setup(struct ctl *c, struct mu_err *err);

#endif
