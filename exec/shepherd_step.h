/* exec/shepherd_step.h: the one step that a shepherd looks after. Inside the shepherd only; one thread.
 * shepherd.c: life (start, loop, limits, end); shepherd_spawn.c: files and processes; shepherd_flow.c: srun's
 * connection; shepherd_control.c: the agent's connections. */
#ifndef EXEC_SHEPHERD_STEP_H
#define EXEC_SHEPHERD_STEP_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "exec/cgroup.h"
#include "exec/gpu.pb-c.h"
#include "exec/shepherd.pb-c.h"
#include "log/stream.h"
#include "proto/base/arena.h"
#include "proto/multiprog.h"
#include "proto/usage.h"

enum {
	SHEP_TASKS_MAX = 4096, /* a node's tasks of one step */
	SHEP_CONTROLS =
	    4, /* the agent that started us, the one after it, and two that are on their way out */
	SHEP_WATCHERS = 8,	    /* sattachs at a time */
	SHEP_STALL_USEC = 10000000, /* a sattach that takes nothing for so long is cut off: it may slow the
				       step, not stop it */
	SHEP_OUT_MAX = 256 * 1024,  /* bytes waiting for srun before its tasks' pipes are left alone */
	SHEP_LINE_MAX =
	    1024 *
	    1024, /* a line held back for being whole; longer ones are cut into frames that belong together */
	SHEP_PARTIAL_USEC = 200000 /* an unfinished line goes out after this when nothing is labelled */
};

/* One direction from a task to srun. */
struct shep_flow {
	int fd; /* our end of the task's pipe; -1: at its end, or a file */
	struct mu_buf held;
	int64_t held_since_usec;
	size_t due; /* bytes of HELD that wait for credit only */
};

struct shep_use {
	uint64_t cpu_usec, rss_kib, vm_kib, pages, read_bytes, write_bytes;
	uint64_t gpu_percent, gpu_bytes;
};

struct shep_pmi;
struct shep_pmi_step;
struct shep_task {
	uint32_t number;
	pid_t pid; /* 0: not started */
	bool ended;
	int status;	  /* wait status */
	pid_t epilog_pid; /* 0: none runs */
	bool oom;
	struct shep_pmi *pmi; /* NULL: none */
	char **pmix_env;      /* what muster-pmix wants it to be started with */
	size_t pmix_env_count;
	struct shep_use done, now,
	    peak;      /* ended processes; living ones when last looked at; peaks of memory */
	int launch_fd; /* the child's word on its launch: end of file means that exec succeeded */
	uint64_t owed; /* signals (bit N-1) that came before that */
	int in_fd;     /* -1: no pipe, or closed */
	bool in_eof;
	struct mu_buf in;
	size_t in_used;
	struct shep_flow out, err;
};

struct shep_peer {
	int fd;	    /* -1: free */
	int passed; /* control only, counted from 1: a descriptor that came and whose frame has not; 0: none
		     */
	struct stream_reader reader;
	struct mu_buf out;
	size_t out_used;
};

/* A sattach: output goes to it as to srun, what it sends joins srun's input, its end changes nothing. */
struct shep_watch {
	struct shep_peer peer;
	struct stream_credit out, in;
	uint32_t in_owed;	/* input got and not granted again */
	int64_t full_boot_usec; /* since when nothing more could be sent; 0: something can */
};

enum shep_phase {
	SHEP_RUNNING,
	SHEP_ENDING /* TERM sent */,
	SHEP_CLEARING /* KILL until empty */,
	SHEP_DRAINING,
	SHEP_DONE
};

enum { SHEP_LIMITS = 24, SHEP_GROUPS = 256 };
/* What every task is started with. */
struct shep_plan {
	char **argv, **env;
	size_t env_count;
	bool limited[SHEP_LIMITS];
	rlim_t limit[SHEP_LIMITS];
	struct mu_multiprog prog; /* of a step with several programs */
	char **more;		  /* words behind its file: every task gets them */
	size_t more_count;
	char *work_dir;
	gid_t groups[SHEP_GROUPS];
	int group_count;
	bool root;
};

struct shep_step {
	struct mu_arena arena;
	Mu__StepOrder *order;
	char word[16]; /* "batch", "0" */
	int dir, lock, listener, child_signal;
	struct exe_cgroup_host host;
	struct exe_cgroup_door door;
	struct shep_plan *plan; /* NULL: nothing was started */
	struct shep_pmi_step *pmi;
	bool cleared;	/* what its containers leave is, or was, taken away */
	pid_t clear_pid; /* by this process; 0: none */
	int64_t clear_boot_usec;
	struct shep_task *task;
	size_t task_count, tasks_live;
	int say_fd; /* the job's stderr file, for our own lines; -1: srun's connection */
	struct shep_peer control[SHEP_CONTROLS];
	struct shep_peer srun;
	struct shep_peer pmix;		      /* muster-pmix */
	struct mu_buf pmix_whole, pmix_fresh; /* messages that have come in part: from srun, from it */
	struct shep_watch watch[SHEP_WATCHERS];
	bool srun_there;
	struct stream_credit out_credit, in_credit;
	uint64_t in_received,
	    in_consumed;       /* stdin bytes got from srun, and those that the slowest task took */
	struct shep_flow *cut; /* its line went out in part: nothing else may go before the rest */
	enum shep_phase phase;
	int64_t start_usec, start_boot_usec;
	int64_t deadline_boot_usec; /* 0: none */
	int64_t kill_boot_usec;	    /* when TERM turns into KILL */
	uint32_t clear_rounds;
	bool files_failed; /* the launch failed by what the job named, not by the node */
	uint32_t cause, by_uid;
	char detail[MU_ERR_TEXT];
	int64_t user_usec, sys_usec; /* of everything that was waited for */
	int64_t sample_boot_usec, sample_pause_usec;
	Mu__UsageMeasure measure[MU_MEASURES], *measure_list[MU_MEASURES];
	uint32_t oom_seen;
	struct mu_arena gpu_arena;
	const Mu__GpuSample *gpu; /* what processes use of GPUs, as last told; NULL: nothing was told */
};

/* shepherd.c */
void shep_say(struct shep_step *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Begins the end: TERM, KillWait, KILL. The first cause stays. AT_ONCE: KILL now. */
void shep_end(struct shep_step *s, uint32_t cause, uint32_t by_uid, bool at_once);
void shep_fail(struct shep_step *s, uint32_t cause, const char *detail);

/* shepherd_usage.c */
/* What was used so far; RET borrows from S until the next call. */
void shep_usage(struct shep_step *s, Mu__Usage *ret);
/* Waits for one process that has ended, without blocking, and counts what it used. Its id, or 0. */
pid_t shep_usage_wait(struct shep_step *s, int *ret_status);
void shep_usage_gpus(struct shep_step *s, struct mu_view sample); /* the agent's Mu__GpuSample */
int64_t shep_usage_due(const struct shep_step *s);
void shep_usage_timer(struct shep_step *s, int64_t now_boot_usec);

/* shepherd_spawn.c */
/* Opens the files and starts every task. 0, or a code with the sentence for the job's owner. */
int shep_spawn(struct shep_step *s, struct mu_err *err);
/* Runs the task's epilogs as its user in its group; t->epilog_pid ends when they have. 0 or MU_EIO. */
int shep_epilog_start(struct shep_step *s, struct shep_task *t);
/* In a child: signals as usual, a session of its own, the user for good. 0, or it cannot. */
int shep_as_user(const struct shep_step *s);
/* The child's word on its launch, or the end of file that means success. */
void shep_launch_read(struct shep_step *s, struct shep_task *t);

/* shepherd_login.c: in a child that is root still */
/* Puts the user's login environment below PLAN's own, for which it leaves ROOM entries; why it could not goes
 * to SAY_FD. Takes order->login_sec at most. */
void shep_login(struct shep_step *s, struct shep_plan *plan, size_t room, int say_fd);

/* shepherd_task.c: both in a child that is the user already */
/* Runs the prologs and lets their output change PLAN's environment. */
void shep_task_prologs(struct shep_step *s, struct shep_plan *plan);
void shep_task_epilogs(const struct shep_step *s, const struct shep_plan *plan);

/* shepherd_container.c: for steps whose order has a container */
/* In a task's child that is root still: makes the folder for the bundle's copy. 0, or why not. */
int shep_container_folder(const struct shep_step *s, const struct shep_task *t, struct mu_err *err);
/* In the child that is the user: copies the bundle for the task and either puts the runtime's call into PLAN's
 * program, or runs it and ends with the container's exit. Does not come back where it fails. */
void shep_container_enter(struct shep_step *s, size_t index, struct shep_plan *plan, int launch_fd);
/* Takes away what the step's containers left, as the user, and their folders. Blocks on the runtime. */
void shep_container_clear(struct shep_step *s);
/* Starts that in a child, once; true while it runs, within CLEAR_SEC. */
bool shep_container_clearing(struct shep_step *s);

/* shepherd_flow.c */
void shep_flow_open(struct shep_step *s, int fd);
bool shep_flow_wants(const struct shep_step *s, const struct shep_flow *f);
void shep_flow_read(struct shep_step *s, struct shep_task *t, struct shep_flow *f);
void shep_flow_timer(struct shep_step *s, int64_t now_boot_usec); /* lets old unfinished lines go */
void shep_flow_stdin(struct shep_step *s, struct shep_task *t);	  /* writes what is held to the task */
void shep_flow_srun(struct shep_step *s);			  /* reads srun's frames */
void shep_flow_task_ended(struct shep_step *s, struct shep_task *t);
void shep_flow_free(struct shep_step *s);
bool shep_flow_drained(const struct shep_step *s);
void shep_flow_turn(struct shep_step *s); /* frames that came with the request, and new credit */

/* Hands input to the tasks that it is for; an empty payload ends it. */
void shep_flow_input(struct shep_step *s, const struct stream_frame *f);
size_t shep_flow_backlog(const struct shep_step *s); /* input that the slowest task has not taken */
void shep_flow_put_end(const struct shep_step *s, const struct shep_task *t, struct mu_buf *out);

/* shepherd_watch.c */
void shep_watch_add(struct shep_step *s, int fd);
bool shep_watched(const struct shep_step *s);
uint32_t
shep_watch_room(const struct shep_step *s); /* output that every sattach can take; UINT32_MAX: no sattach */
/* A frame for all of them; SPENDS: it is output and within the room. */
void shep_watch_put(struct shep_step *s, uint8_t kind, uint16_t channel, const void *payload, size_t len,
		    bool spends);
void shep_watch_read(struct shep_step *s, struct shep_watch *w);
void shep_watch_turn(struct shep_step *s, int64_t now_boot_usec); /* grants, cuts off who stalls, writes */
int64_t shep_watch_due(const struct shep_step *s);
void shep_watch_last(struct shep_step *s); /* the step is over: what they have not read waits a little */

/* shepherd_pmi.c */
enum { SHEP_PMI_ENV = 40 };
int shep_pmi_open(struct shep_step *s, struct mu_err *err); /* before the tasks are started */
/* In a task's child: its variables into ENV, which has room for SHEP_PMI_ENV; how many. */
size_t shep_pmi_env(struct shep_step *s, const struct shep_task *t, char **env);
void shep_pmi_started(struct shep_task *t); /* the task has its end */
int shep_pmi_fd(const struct shep_task *t); /* to be watched; -1: none */
bool shep_pmi_has_output(const struct shep_task *t);
void shep_pmi_serve(struct shep_step *s, struct shep_task *t);
void shep_pmi_frame(struct shep_step *s, const struct stream_frame *f); /* from srun */
void shep_pmi_close(struct shep_step *s);

/* shepherd_pmix.c: nothing for a step without PMIx */
int shep_pmix_open(struct shep_step *s, struct mu_err *err); /* before the tasks; waits for it to be ready */
void shep_pmix_read(struct shep_step *s);
void shep_pmix_frame(struct shep_step *s, const struct stream_frame *f); /* from srun */
void shep_pmix_close(struct shep_step *s);

/* shepherd_control.c */
int shep_control_listen(struct shep_step *s, struct mu_err *err);
void shep_control_accept(struct shep_step *s);
void shep_control_add(struct shep_step *s, int fd);
void shep_control_read(struct shep_step *s, struct shep_peer *p);
/* A signal for every process of the step, or for its tasks alone. A task that has not come to its exec yet
 * has neither the dispositions of its program nor, with v1, its control group: it gets the signal right
 * after. SIGKILL does not wait. */
void shep_signal(struct shep_step *s, int number, bool tasks_only);
void shep_signal_owed(struct shep_task *t);

/* Writes what waits for P; false when the peer is gone (closed then). */
bool shep_peer_flush(struct shep_peer *p);
void shep_peer_close(struct shep_peer *p);

#endif
