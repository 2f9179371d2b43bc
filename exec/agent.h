/* exec/agent.h: inside muster-agent: the state of one node's agent and how its files share it.
 *   agent.c          options, configuration, start, the loop
 *   agent_link.c     threads that ask controllers
 *   agent_cluster.c  registering, polling, reports, configuration: what is said to controllers
 *   agent_attempt.c  attempts: start, end, signal, forget
 *   agent_launch.c   limits, script and order of a step; its shepherd
 *   agent_suspend.c  attempts that stand still
 *   agent_recover.c  what an earlier agent left in the spool and in control groups
 *   agent_step.c     srun and salloc: connections, requests, grants: the step manager
 *   agent_bind.c     CPUs, memory nodes and GPUs of each task
 *   agent_attach.c   sattach: the connection goes to the step's shepherd
 *   agent_place.c    where a step's tasks go inside the allocation
 *   agent_prog.c     prolog, epilog, health check: the site's programs
 *   agent_look.c     what the steps here use now, for sstat
 *   agent_mail.c     what a job's owner is told by mail
 *   agent_container.c  containers of steps: oci.conf, what is left of them
 *   agent_private.c  folders of a job's own in place of /tmp
 *   agent_gpu.c      the watcher of GPUs: faults, use
 *   agent_hold.c     allocations and steps on several nodes that live as long as a client's connection
 * One thread holds all of it; the link threads know only bytes. */
#ifndef EXEC_AGENT_H
#define EXEC_AGENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "exec/cgroup.h"
#include "exec/env.h"
#include "exec/inventory.h"
#include "exec/orders.h"
#include "exec/shepherd.pb-c.h"
#include "log/auth.h"
#include "log/stream.h"
#include "proto/base/arena.h"
#include "proto/base/hash.h"
#include "proto/base/map.h"
#include "proto/conf.pb-c.h"
#include "proto/wire.pb-c.h"

enum {
	AGENT_ATTEMPTS_MAX = 4096, /* held at a time: two per CPU of the largest node */
	AGENT_STEPS_MAX = 4096,	   /* running steps of one attempt */
	AGENT_CLIENTS_MAX = 256,   /* sruns whose request is being read */
	AGENT_HOLDERS_MAX = 4096,  /* connections that hold an allocation or a step: one for each attempt */
	AGENT_HOLD_GRACE_USEC = 30000000, /* a holder on another host may come back within this time */
	AGENT_CLAIM_USEC = 60000000, /* an allocation that nobody asks for in this time has lost its holder */
	AGENT_CLIENT_USEC = 10000000, /* a request is there within this time, or its connection is cut */
	AGENT_ASKS_MAX = 64 << 20,    /* bytes of requests not yet complete, all together */
	AGENT_REPORT_BATCH = 256,     /* ends in one report */
	AGENT_BLOB_MAX = 64 << 20,    /* a script or an environment */
	AGENT_BLOBS_KEPT = 64,	      /* of at most so many bytes each: 4 MiB */
	AGENT_BLOB_KEPT_MAX = 64 << 10,
	AGENT_POLL_SLACK_MSEC = 15000, /* beyond the long poll's own wait */
	AGENT_ASK_MSEC = 20000,
	AGENT_REPORT_SLOW_USEC =
	    1000000, /* from here on a power cut must not take an end that nobody has taken yet */
	AGENT_STEP_REPORT_USEC = 1000000, /* steps are reported at most this often */
	AGENT_RETRY_USEC = 500000
};

/* ---- agent_link.c ---- */
/* One thread with one connection: a request at a time. */
struct agent_link;
struct agent_link *agent_link_new(const char *const *addresses, size_t count, const struct auth_keys *keys,
				  const char *node, int wake_fd);
struct agent_link *agent_link_free(struct agent_link *l);
bool agent_link_idle(struct agent_link *l);
/* Hands REQUEST over (only when idle). Its answer comes by agent_link_take after WAKE_FD was written. */
void agent_link_ask(struct agent_link *l, const Mu__Request *request, unsigned timeout_msec);
/* True once for every answer: RET_CODE 0 and the reply in ARENA, or why there is none. */
bool agent_link_take(struct agent_link *l, struct mu_arena *arena, int *ret_code, Mu__Reply **ret,
		     struct mu_err *err);

/* ---- attempts ---- */
struct agent_step {
	struct agent_step *next;
	struct mu_arena arena;
	Mu__StepOrder *order;
	pid_t pid; /* -1: the child of an earlier agent; 0: waited for */
	int control;
	struct stream_reader reader;
	struct mu_buf out;    /* frames for the shepherd */
	struct mu_bits *cpus; /* abstract CPUs it holds alone; NULL: it shares */
	bool ended;
	bool lead;	/* a step on several nodes, as its manager sees it: it has no shepherd of its own */
	bool lead_here; /* its part on this node was started and counts by itself */
	Mu__StepPart **part; /* of a lead, in ARENA */
	size_t n_part;
	int64_t unled_boot_usec; /* a lead whose srun has not come again since a restart ends then; 0: it is led */
	bool looked_at;	     /* its shepherd was asked what it uses */
	Mu__StepState *look; /* its answer, in LOOK_ARENA */
	struct mu_arena look_arena;
	bool told_start, told_end, asked_start,
	    asked_end;	  /* told: a controller has it; asked: it is on its way */
	Mu__StepEnd *end; /* in ARENA */
};

struct agent_attempt {
	struct agent_attempt *next;
	struct mu_arena arena;
	Mu__AttemptRecord *record;
	const Mu__AttemptOrder *order; /* record->order */
	enum exe_phase phase;
	char name[32];	/* job_<id>_<attempt> */
	char dir[4096]; /* of the spool */
	char cgroup[EXE_CGROUP_PATH];
	bool group_made, wants_script, wants_env, end_at_once;
	struct mu_buf script, env; /* blobs so far */
	struct agent_step *step;
	size_t steps_live;
	int64_t deadline_boot_usec;   /* of an allocation without a batch script here; 0: none */
	int64_t warn_boot_usec;	      /* when --signal is due; 0: not any more */
	int64_t unkillable_boot_usec; /* what lives past this moment survives SIGKILL; 0: not ending */
	int64_t force_boot_usec;      /* an end that did not come by itself is forced from here on */
	int64_t unheld_boot_usec;     /* its holder was lost: it ends at this moment; 0: not so */
	int64_t blob_since_usec;
	uint32_t blob_failures;
	bool steps_changed, report_sent, extern_told;
	bool of_old_boot; /* found in the spool of a node that was off since */
	bool end_on_disk; /* forced there, for nobody else had it */
	bool private_removed;
	bool prog_running;	     /* its prolog or epilog */
	unsigned clearing;	     /* programs that take away what containers left */
	Mu__AttemptEnded *early;     /* its end, while something of it is still there; in ARENA */
	bool early_sent, early_told; /* on its way; a controller has it */
};

struct agent_client;
struct agent_prog;

/* A script or environment that was fetched lately: jobs of one array, or one loop, have the same. */
struct agent_blob {
	uint8_t hash[MU_HASH_BYTES];
	struct mu_buf bytes; /* empty: none */
	uint64_t used;	     /* turn at which it was last wanted */
};

/* The watcher of GPUs, where gres.conf wants them looked for. */
struct agent_gpu {
	pid_t pid; /* 0: not ours to wait for */
	int fd;	   /* -1: none runs */
	struct stream_reader reader;
	struct mu_buf whole;		  /* a message so far */
	const Mu__GpuReport *cards, *now; /* what the first watcher found, and the one that runs */
	struct mu_arena arena, now_arena;
	int64_t again_boot_usec;
};

struct agent {
	/* What it was started with. */
	char node[256], cluster[256], conf_path[4096], spool[3072], run_dir[2048], shepherd[4096],
	    self_dir[4096];
	bool emulate, foreground, clean, print_node, print_gres;
	int verbose;
	char private_base[2048], private_dirs[1024]; /* "": jobs share the host's folders */
	bool private_auto;
	uint32_t pids_max; /* of a job; 0: no limit */
	const char *conf_option;
	struct mu_arena conf_arena;
	Mu__Config *config;
	const Mu__NodeConf *conf;
	const Mu__Config *live; /* as the log has it now: what concerns jobs is read here */
	struct mu_arena live_arena;
	struct auth_keys keys;
	struct exe_inventory inventory;
	struct agent_gpu gpu;
	struct exe_cgroup_host host;
	bool fence_devices, limit_cpus, limit_memory;
	uint32_t kill_wait_sec, heartbeat_sec;
	int64_t start_usec;
	/* What it holds. */
	int spool_dir, lock_fd;
	struct agent_attempt *attempt;
	size_t attempt_count;
	struct agent_client *client;
	size_t client_count, holder_count;
	struct agent_prog *prog;
	size_t prog_count;
	bool health_running, health_done;
	int64_t health_boot_usec; /* when the next check is due */
	int listener, tcp_listener, signal_fd, wake_fd;
	/* What it has with the controllers. */
	struct agent_link *poll_link, *report_link, *blob_link;
	enum { AGENT_ASKED_NOTHING, AGENT_ASKED_POLL, AGENT_ASKED_REGISTER, AGENT_ASKED_CONFIG } asked;
	bool registered, register_wanted, config_wanted, looked;
	uint64_t seen_pos; /* position of the orders last received: a registration says what it rests on */
	uint64_t floor_saved_pos;
	uint64_t base_pos, floor_pos, register_pos; /* position of the last set; sets before floor are old
						       news; starts wait for register */
	uint8_t base_digest[64];
	size_t base_digest_len;
	uint8_t config_hash[64];
	size_t config_hash_len;
	int last_code; /* of the orders' link: said once */
	int64_t poll_again_usec, report_again_usec, blob_again_usec, steps_told_usec;
	int64_t report_asked_usec; /* when the report went out that is on its way */
	struct agent_attempt *blob_for;
	bool blob_is_env;
	struct agent_blob blob[AGENT_BLOBS_KEPT];
	uint64_t blob_turn;
	bool stop, hangup;
};

/* agent_cluster.c */
void agent_cluster_turn(struct agent *a); /* takes answers, asks what is due */
/* Adds the blob of this HASH to OUT if it was fetched lately. */
bool agent_blob_known(struct agent *a, const ProtobufCBinaryData *hash, struct mu_buf *out);
int64_t agent_cluster_due(struct agent *a); /* boot clock moment of the next thing to ask */

/* agent_attempt.c */
struct agent_attempt *agent_attempt_find(struct agent *a, uint32_t job, uint32_t attempt);
void agent_apply(struct agent *a, const Mu__OrderSet *set);
struct agent_attempt *agent_attempt_add(struct agent *a, Mu__AttemptRecord *record_in_arena,
					struct mu_arena arena);
void agent_attempt_save(struct agent_attempt *t, bool sync);
void agent_attempt_begin(struct agent *a,
			 struct agent_attempt *t); /* recorded: asks for what it needs, or runs */
void agent_attempt_blobs(struct agent *a, struct agent_attempt *t); /* runs it if all its blobs are here */
void agent_attempt_fail(struct agent *a, struct agent_attempt *t,
			const char *detail); /* could not be launched */
void agent_attempt_end(struct agent *a, struct agent_attempt *t, uint32_t cause, uint32_t by_uid,
		       bool at_once);
void agent_attempt_step_ended(struct agent *a, struct agent_attempt *t, struct agent_step *s);
void agent_attempt_settle(struct agent *a, struct agent_attempt *t); /* finishes what has no step left */
void agent_attempts_timer(struct agent *a);
int64_t agent_attempts_due(struct agent *a);
void agent_attempt_forget(struct agent *a, struct agent_attempt *t); /* the floor is on disk */

/* The site's prolog and epilog for T have ended. */
void agent_attempt_prolog_ended(struct agent *a, struct agent_attempt *t, bool good, const char *detail);
void agent_attempt_epilog_ended(struct agent *a, struct agent_attempt *t, bool good, const char *detail);

/* agent_prog.c */
enum agent_prog_kind { AGENT_PROLOG, AGENT_EPILOG, AGENT_HEALTH, AGENT_UNKILLABLE, AGENT_MAIL, AGENT_REMOVE, AGENT_CLEAR };
/* Starts the program that PATTERN names (or all that it matches, one after another) for T, or for the node
 * where T is NULL. RET_RUNNING is false where nothing matches. 0, or why it cannot be started. */
int agent_prog_start(struct agent *a, enum agent_prog_kind kind, const struct agent_attempt *t,
		     const char *pattern, bool *ret_running, struct mu_err *err);
/* Runs PROGRAM -s SUBJECT TO with nothing to read; TYPE is the event's word. 0, or why not. */
int agent_prog_mail(struct agent *a, const struct agent_attempt *t, const char *program, const char *subject,
		    const char *to, const char *type, struct mu_err *err);
/* Removes the folder PATH and all in it; agent_attempt_settle is called when that is over. */
int agent_prog_remove(struct agent *a, const struct agent_attempt *t, const char *path, struct mu_err *err);
/* Runs PROGRAM DIR STEP clear; agent_attempt_settle is called when that is over. */
int agent_prog_clear(struct agent *a, const struct agent_attempt *t, const char *program, const char *dir,
		     const char *step, struct mu_err *err);
bool agent_prog_reaped(struct agent *a, pid_t pid, int status); /* false: it was none of these */
void agent_prog_timer(struct agent *a);
int64_t agent_prog_due(struct agent *a);

/* agent_launch.c */
int agent_group_make(struct agent *a, struct agent_attempt *t, struct mu_err *err);
/* v1: the node's own group lets through what any of its jobs may get, so that a job's only strikes the rest.
 */
void agent_fence_node(struct agent *a);
int agent_launch_batch(struct agent *a, struct agent_attempt *t, struct mu_err *err);
/* Writes ORDER into the spool and starts its shepherd; STREAM_FD may be -1. The step joins T's list. ORDER
 * lies in ARENA, which the step takes over. */
int agent_launch_step(struct agent *a, struct agent_attempt *t, Mu__StepOrder *order, struct mu_arena arena,
		      int stream_fd, struct agent_step **ret, struct mu_err *err);
struct agent_step *agent_step_add(struct agent_attempt *t, Mu__StepOrder *order, struct mu_arena arena);
void agent_step_read_end(struct agent *a, struct agent_attempt *t,
			 struct agent_step *s); /* the shepherd is gone: what did it leave? */
void agent_step_flush(struct agent_step *s);
void agent_step_free(struct agent_step *s);	 /* the caller has taken it from its list */
void agent_steps_prune(struct agent_attempt *t); /* drops steps that are over and told */
/* What this node and its configuration put into environments; borrows from A. */
void agent_env_words(const struct agent *a, struct exe_env_words *ret);
/* RET borrows from S and A. */
void agent_step_row(const struct agent *a, const struct agent_step *s, Mu__StepRow *ret);
/* With PrologFlags=Contain an allocation has a step of its own as long as it lives. False: not here. */
bool agent_extern_row(const struct agent *a, struct agent_attempt *t, bool over, Mu__StepRow *ret);
void agent_order_limits(Mu__StepOrder *o, const struct exe_cgroup_limits *limits, struct mu_arena *arena);
Mu__StepOrder *agent_order_new(const struct agent *a, const struct agent_attempt *t, uint32_t step,
			       struct mu_arena *arena);
/* The groups' limits of what HERE gives, in ARENA. */
int agent_limits(struct agent *a, const Mu__AllocNode *here, uint64_t memory_mib, const char *cpu_list,
		 Mu__GresGot *const *gres, size_t gres_count, struct mu_arena *arena,
		 struct exe_cgroup_limits *ret, struct mu_err *err);
/* TaskProlog and TaskEpilog with srun's own, which may be empty. */
void agent_task_programs(const struct agent *a, Mu__StepOrder *o, ProtobufCBinaryData prolog,
			 ProtobufCBinaryData epilog, struct mu_arena *arena);
/* Until its time limit, and until it is ended for it, OverTimeLimit later. 0: never, or not while suspended; at
 * least 1 otherwise. */
int64_t agent_limit_left_sec(const struct agent_attempt *t);
int64_t agent_time_left_sec(const struct agent_attempt *t);

/* agent.c */
void agent_config_follow(struct agent *a,
			 const Mu__Config *config); /* what may change while the agent runs */

/* agent_suspend.c */
/* Follows what ORDER says of T's standing still. */
void agent_suspend_follow(struct agent *a, struct agent_attempt *t, const Mu__AttemptOrder *order);
/* Stops the processes of T where it is suspended: again after they were launched, or found. */
void agent_suspend_apply(struct agent *a, struct agent_attempt *t);
void agent_suspend_over(struct agent *a,
			struct agent_attempt *t); /* it ends: its processes must hear of it */
/* agent_attempt.c: all that is due at some part of T's time limit, anew. */
void agent_attempt_limits(struct agent_attempt *t);

/* agent_recover.c */
void agent_recover(struct agent *a);
void agent_floor_save(struct agent *a);

/* agent_step.c */
int agent_step_listen(struct agent *a, struct mu_err *err);
void agent_step_accept(struct agent *a);
struct pollfd;
void agent_step_accept_tcp(struct agent *a);
size_t agent_step_watch(struct agent *a, struct pollfd *fd, size_t cap);
void agent_step_serve(struct agent *a, const struct pollfd *fd, size_t count);
void agent_step_close(struct agent *a);
void agent_send(int fd, uint8_t kind, const ProtobufCMessage *m);

/* ---- clients: agent_step.c owns the list, agent_hold.c those that stay ---- */
enum agent_client_kind { AGENT_ASKS, AGENT_HOLDS /* an allocation */, AGENT_LEADS /* a step */ };
struct agent_client {
	struct agent_client *next;
	int fd;
	bool remote, dead; /* dead: dropped on the next turn */
	enum agent_client_kind kind;
	int64_t since_usec;
	struct stream_reader reader;
	struct mu_buf ask;
	uint8_t nonce[STREAM_NONCE], proof[MU_HASH_BYTES];
	bool has_proof;
	uint32_t job, attempt, step; /* what it holds, or looks at */
	int64_t look_until_usec;     /* 0: it does not look */
};

/* agent_step.c: the attempt that a request of C is about, when C may ask; else NULL, and it is refused. */
struct agent_attempt *agent_step_admit(struct agent *a, struct agent_client *c, uint32_t job, bool to_start);

/* agent_step.c: the last answer to a client. */
void agent_refuse(int fd, int code, bool busy, const char *text);

/* agent_bind.c: what each task of the step uses of what the node gives it, into O, whose tasks, CPUs and devices are
 * known. 0, or MU_EINVAL. */
struct agent_placing;
int agent_bind(const struct agent *a, Mu__StepOrder *o, const struct agent_placing *p, struct mu_err *err);
void agent_bind_copy(Mu__StepOrder *to, const Mu__StepOrder *from);

/* agent_attach.c: answers C's sattach and passes its connection on; C is done with. */
void agent_attach_take(struct agent *a, struct agent_client *c);

/* agent_mail.c */
void agent_mail_begin(struct agent *a, struct agent_attempt *t);
void agent_mail_end(struct agent *a, struct agent_attempt *t, const Mu__AttemptEnded *e);
void agent_mail_timer(struct agent *a, struct agent_attempt *t, int64_t now_boot_usec);
int64_t agent_mail_due(const struct agent_attempt *t);

/* agent_private.c */
int agent_private_read(struct agent *a, struct mu_err *err); /* job_container.conf; 0, MU_EINVAL, MU_EIO */
int agent_private_make(struct agent *a, struct agent_attempt *t, struct mu_err *err);
void agent_private_order(const struct agent *a, const struct agent_attempt *t, Mu__StepOrder *o,
			 struct mu_arena *arena);
bool agent_private_remove(struct agent *a, struct agent_attempt *t); /* true: it goes on, T waits for it */

/* agent_container.c */
/* Puts the container of BUNDLE, relative to WORK_DIR, into O, whose devices are known; nothing where BUNDLE is NULL
 * or empty. 0, or MU_EINVAL with what is wrong with oci.conf. */
int agent_container_order(const struct agent *a, const struct agent_attempt *t, Mu__StepOrder *o,
			  const char *bundle, ProtobufCBinaryData work_dir, struct mu_arena *arena,
			  struct mu_err *err);
/* The shepherd of S was killed: what its containers left is taken away, T waits for it. */
void agent_container_clear(struct agent *a, struct agent_attempt *t, const struct agent_step *s);

/* agent_look.c */
bool agent_look_take(struct agent *a, struct agent_client *c);		  /* true when C stays */
void agent_look_hear(struct agent_step *s, const struct stream_frame *f); /* a shepherd's answer */
void agent_look_turn(struct agent *a);					  /* answers what can be answered */

/* agent_gpu.c */
/* Starts the watcher, if one is wanted, and waits for what it found: NULL where nothing is looked for. */
const Mu__GpuReport *agent_gpu_start(struct agent *a);
void agent_gpu_serve(struct agent *a); /* its descriptor has something */
void agent_gpu_timer(struct agent *a); /* starts it again */
int64_t agent_gpu_due(const struct agent *a);
bool agent_gpu_reaped(struct agent *a, pid_t pid);
void agent_gpu_stop(struct agent *a);
void agent_gpu_print(const struct agent *a); /* one line for each device of gres.conf */
void agent_gpu_counts(const Mu__GpuReport *cards, struct mu_buf *out);

/* agent_hold.c */
/* C becomes a holder of T. 0, or MU_ELIMIT. */
int agent_hold_add(struct agent *a, struct agent_attempt *t, struct agent_client *c,
		   enum agent_client_kind kind, uint32_t step, struct mu_err *err);
void agent_hold_frame(struct agent *a, struct agent_client *c, const struct stream_frame *f);
/* C, whose STREAM_LEAD is in c->ask, leads its step again; true when C stays. */
bool agent_hold_lead(struct agent *a, struct agent_client *c);
/* Ends leads of T that nobody leads any more. */
void agent_hold_timer(struct agent *a, struct agent_attempt *t, int64_t now_boot_usec);
int64_t agent_hold_due(const struct agent_attempt *t);
void agent_hold_lost(struct agent *a, struct agent_client *c);			/* its connection ended */
void agent_hold_over(struct agent *a, struct agent_attempt *t, uint32_t cause); /* tells T's holders */
/* A lead with its parts; ORDER lies in ARENA, which the step takes over. */
struct agent_step *agent_lead_add(struct agent_attempt *t, Mu__StepOrder *order, struct mu_arena arena,
				  Mu__StepPart **part, size_t count);
/* Takes up the lead that an earlier agent left in DIR; its srun has AGENT_HOLD_GRACE_USEC to come again. */
void agent_lead_recover(struct agent *a, struct agent_attempt *t, int dir, const char *word);
/* USAGE may be NULL; it is copied. */
void agent_lead_end(struct agent_attempt *t, struct agent_step *s, int exit_code, int exit_signal,
		    uint32_t cause, uint32_t by_uid, const Mu__Usage *usage);

/* agent_place.c */
struct agent_placing {
	const Mu__StepAsk *ask;
	const struct agent_attempt *t;
	struct mu_arena *arena;
	bool exact, overlap, busy; /* busy: waiting may help */
	uint32_t tasks;
	Mu__StepPart **part; /* in the order of the allocation */
	size_t n_part;
	Mu__StepWhole *whole; /* without a step's number */
};
/* Places a step over the allocation. 0, or a code with a sentence. */
int agent_place(struct agent_placing *p, struct mu_err *err);
/* Is the part that ASK brings this node's to give, and free? */
int agent_place_part(struct agent_placing *p, struct mu_err *err);

#endif
