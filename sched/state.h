/* sched/state.h: what State is made of. Internal to the room.
 *
 * Every row of State is one record that begins with struct sch_rec. A change goes: sch__touch(record), write,
 * and at the end of the event sch__flush packs each touched record once, moves the digest and notes the
 * change. Everything else here is derived from rows: queues, bit sets, classes, counters. sch_load_done must
 * be able to rebuild all of it. */
#ifndef SCHED_STATE_H
#define SCHED_STATE_H

#include <string.h>

#include "proto/base/bits.h"
#include "proto/base/map.h"
#include "proto/base/pool.h"
#include "proto/depend.h"
#include "proto/pb.h"
#include "proto/states.h"
#include "proto/version.h"
#include "sched/bounds.h"
#include "sched/sched.h"
#include "sched/share.h"

struct sch_rec {
	struct mu_hash hash; /* of the row as the sum has it */
	uint32_t change;     /* where the caller's change list noted it last */
	uint8_t kind;	     /* enum sch_row_kind */
	bool counted;	     /* hash is in the sum */
	bool touched;
	bool gone; /* leaves State at the end of the event */
};

/* Shared texts, specs, people: one copy each, counted references. */
struct sch_str {
	uint32_t refs, len;
	char text[];
};
struct sch_spec {
	uint32_t refs, len;
	struct mu_hash key;
	uint8_t bytes[]; /* packed Mu__JobSpec */
};
struct sch_person {
	uint32_t refs;
	uint32_t uid, gid;
	struct sch_str *user, *group;
	uint32_t key_len, group_count;
	uint8_t *key; /* packed identity, the key in State's map */
	uint32_t groups[];
};

struct sch_ask {
	struct sch_str *name, *type; /* type NULL: any */
	uint64_t count;
};
enum sch_mem_kind { SCH_MEM_NONE, SCH_MEM_NODE, SCH_MEM_CPU, SCH_MEM_GPU };
/* What a --constraint asks beyond a yes or no of each node. */
struct sch_features {
	uint32_t choices; /* of [a|b]: one for all nodes; 0: none */
	uint32_t groups;  /* kinds that are counted */
	uint32_t nodes;	  /* the sum of their counts */
	bool only;	  /* no other nodes than those */
};
/* What a job needs of nodes, apart from time: jobs of one shape fit or fail together. Derived from spec and
 * resolved numbers. */
struct sch_shape {
	uint32_t refs, id; /* id: dense, for per-pass tables */
	struct mu_hash key;
	struct sch_str **part; /* in the order asked */
	uint32_t part_count;
	struct sch_part *first; /* of those, the first that exists; NULL: none */
	uint32_t nodes_min, nodes_max, ntasks, cpus_per_task, tasks_per_node, tasks_per_socket,
	    tasks_per_core;
	uint32_t mincpus, sockets, cores, threads;
	uint64_t mem_mib, tmp_mib;
	enum sch_mem_kind mem_kind;
	bool exclusive, overcommit, contiguous, spread;
	bool fewest;	     /* of a range of nodes the least, not the most */
	bool grows;	     /* tasks follow from the number of nodes */
	bool cpus_given;     /* the job names its CPUs per task */
	bool user_only;	     /* shares nodes with jobs of its user only */
	bool shares;	     /* asks to share CPUs */
	struct sch_ask *ask; /* of each node */
	uint32_t ask_count;
	struct sch_ask *task_ask; /* of each task */
	uint32_t task_ask_count;
	uint32_t job_gpus; /* of the whole job; 0 where they follow from nodes or tasks */
	struct sch_str *gpu_name, *job_gpu_type;
	uint32_t cpus_per_gpu;
	struct sch_features feature_kind;
	uint32_t switches; /* leaf switches at most; 0: any */
	int64_t switches_wait_sec;
	struct sch_str *features, *prefer, *batch, *required, *excluded;
	bool near, anywhere; /* only CPUs near its devices; whichever CPUs */
	bool own_spec;	     /* leaves these to the system, instead of what the node keeps */
	uint32_t spec_cores, spec_threads;
};

struct sch_node;
struct sch_part;
struct sch_job;

struct sch_got {
	struct sch_str *name, *type;
	struct mu_bits index; /* device indexes on the node, counted through all entries of the name */
	uint64_t count;
	uint32_t entry; /* which of the node's gres entries; valid while held */
};
/* What one attempt holds on one node. */
struct sch_alloc {
	struct sch_str *name;
	struct sch_node *node; /* NULL once released */
	struct mu_bits cpu;
	uint64_t mem_mib;
	uint32_t cpus, tasks, attempt, got_count;
	struct sch_got *got;
	uint8_t parked;	   /* 1: its CPUs are free for others; 2: and it had the node to itself */
	const char *share; /* the partition with whose jobs it shares its CPUs, of SHARE_NAME; NULL: it has
			      them alone */
	struct sch_str *share_name;
	bool released, lost;
};
/* What a job has from its first start on. */
struct sch_run {
	struct sch_alloc *alloc;    /* first: the batch host */
	uint32_t alloc_count, open; /* open: neither released nor lost */
	struct sch_alloc *left;	    /* held by earlier attempts on lost nodes */
	uint32_t left_count;
	struct sch_str *node_list, *batch_host, *end_detail, *note; /* note: JobRow.system_comment */
	int32_t exit_code, exit_signal, derived_code, derived_signal;
	uint32_t pending_signal, signal_flags, signal_step;
	bool signal_has_step;
	uint64_t signal_seq, signal_pos;
	int64_t span_usec, kill_usec, preempt_usec;
	int64_t suspend_usec, suspended_usec; /* last suspended or resumed; how long up to then */
	int64_t preempt_eligible_usec;	      /* exempt from preemption until then; 0: never was */
	int64_t preempt_end_usec;	      /* it gives way, and ends then */
	uint32_t preempted_by, preempt_how;   /* of its last run; enum sch_preempt_how */
};
struct sch_array;
struct sch_job {
	struct sch_rec rec;
	uint32_t id;
	uint32_t het_first; /* of a heterogeneous job: its first component's id; 0: none */
	uint32_t het_offset, het_count;
	uint32_t reason_of; /* its reason is that of this component; 0: its own */
	uint32_t task;		 /* of ARRAY, where it is one task */
	struct sch_array *array; /* NULL: no task of an array */
	struct mu_runs *tasks;	 /* several tasks of it; NULL: one */
	uint8_t state, reason, end_state, launch_failures;
	bool held_by_admin, has_canceller, requeue_after, hold_after;
	bool queued;	  /* in the queues of its partitions */
	bool exclusive;	  /* holds its nodes whole */
	bool limit_given; /* the spec names a time limit */
	struct sch_spec *spec;
	struct sch_person *who;
	struct sch_shape *shape;
	struct sch_str *partition, *account, *qos, *reason_detail, *plan_nodes;
	char *depend; /* a letter per item of the dependency: depend.c */
	uint32_t depend_count;
	bool depend_any; /* one of them is enough */
	int64_t depend_due_usec;
	uint64_t name_key;    /* of its name: first bytes of the hash */
	uint32_t *plan_tasks; /* by node of plan_nodes; one element: the same on each */
	uint32_t *plan_gpus;  /* likewise, of a job that asks for GPUs as a whole */
	uint32_t plan_task_count, plan_gpu_count;
	bool plan_claim; /* jobs give way to its plan: nobody may push it */
	bool special_exit;
	uint32_t priority, attempt, restarts, cancelled_by;
	uint32_t nodes_min, nodes_max, ntasks, cpus_per_task, cpus_total;
	uint64_t mem_node_mib, mem_cpu_mib;
	int64_t time_limit_sec, time_min_sec, deadline_usec;
	int64_t submit_usec, eligible_usec, start_usec, end_usec, last_sched_usec, plan_start_usec,
	    start_late_usec;
	uint64_t submit_pos, start_pos, end_pos;
	uint64_t queue_key; /* while queued */
	int64_t due_key;    /* where it lies in the due map; 0: nowhere */
	int64_t switch_key; /* likewise among the switch waits */
	int64_t exempt_key; /* likewise among those that are exempt from preemption */
	uint8_t job_key[32];
	uint8_t job_key_len;
	bool priority_fixed, tallied; /* tallied: what it holds is counted */
	struct sch_str *resv_want;    /* --reservation: names, the first that can will have it */
	struct sch_str *resv;	      /* the one it runs or ran in */
	struct sch_str *licenses;     /* as asked */
	int64_t resv_end_usec;	      /* when its reservation ends it; 0: never */
	uint32_t assoc, usage_factor_milli;
	uint64_t billing;
	struct sch_str *part_qos;
	struct sch_run *run;
};

struct sch_gres_room {
	struct mu_bits used; /* units of the entry */
	uint64_t count;
};
/* What is taken of one node: State has one each, a pass overlays copies. */
struct sch_room {
	struct mu_bits cpu;
	uint32_t cpus, cores; /* taken CPUs; cores with any CPU taken */
	uint32_t jobs;
	uint64_t mem_mib;
	bool exclusive;
	struct sch_gres_room *gres;
	struct sch_stack *stack; /* of CPU, what jobs share */
	struct mu_bits veil;	 /* CPUs that are kept from who looks, though jobs share them */
};
struct sch_hold {
	struct sch_job *job;
	uint32_t attempt;
};
/* Nodes that are alike in everything that a shape can ask. */
struct sch_class {
	struct mu_hash key;
	struct mu_bits nodes; /* by rank */
	uint32_t count;
	struct sch_node *sample; /* any member */
};
/* A switch of the topology, or a block: the leaves below it. */
struct sch_switch {
	struct mu_bits leaves; /* by number, from 1 */
	uint32_t level;	       /* 0: a leaf */
};
struct sch_node {
	struct sch_rec rec;
	Mu__NodeRow *row; /* own copy; allocated fields are filled when it is packed */
	uint32_t order, rank;
	uint32_t leaf;	     /* where a topology is drawn */
	struct mu_bits spec; /* CPUs that are the system's: CoreSpecCount, CPUSpecList */
	uint32_t spec_cpus;
	uint32_t tpc, cpu_end; /* what its class says: threads of a core, CPUs beside those of the system */
	struct sch_room room;
	struct sch_hold *hold; /* by job, attempt */
	uint32_t hold_count, hold_cap;
	struct sch_class *class;
	int64_t silent_key; /* where it lies in the silence map; 0: nowhere */
	int64_t resume_key; /* likewise among the nodes that will resume */
	bool usable;
};

enum sch_part_state { SCH_PART_UP, SCH_PART_DOWN, SCH_PART_DRAIN, SCH_PART_INACTIVE };
enum { SCH_REASONS = 240 };
struct sch_part {
	struct sch_rec rec;
	Mu__PartitionRow *row;
	uint32_t order;
	enum sch_part_state state;
	struct mu_bits nodes;		 /* by rank */
	struct mu_map queue;		 /* waiting jobs by sch__queue_key */
	struct mu_map unsettled;	 /* those of them, first here, whose reason a pass must look at */
	uint32_t first_count;		 /* waiting jobs whose first partition this is */
	uint32_t by_reason[SCH_REASONS]; /* of those, by reason */
	uint32_t job_refs;		 /* jobs that have not ended and name it */
};
/* Accounts, users, associations, QOS and what follows from them. */
#include "sched/account.h"
#include "sched/array.h"
#include "sched/resv.h"

/* How many licences of a name there are, and how many running jobs hold. Derived. */
struct sch_lic {
	uint32_t total, used;
};
struct sch_lic_ask {
	const char *name; /* LEN bytes of the text it was read from */
	uint32_t len, count;
};

struct sch_step {
	struct sch_rec rec;
	uint32_t job, attempt, step, len;
	uint8_t bytes[]; /* packed Mu__StepRow */
};
struct sch_answer {
	int64_t birth_usec;
	uint8_t nonce[16];
	int32_t code;
	uint32_t job;
	uint64_t pos;
	struct sch_str *text;
};
struct sch_key_rec {
	struct sch_rec rec;
	Mu__NodeKeyRow *row;
};
struct sch_config_rec {
	struct sch_rec rec;
	Mu__ConfigRow *row;
	bool by_core, by_socket, memory, lln, one_task_per_core, near; /* SelectTypeParameters */
	bool spec_usage;					       /* AllowSpecResourcesUsage */
	enum { SCH_ENFORCE_NO, SCH_ENFORCE_ANY, SCH_ENFORCE_ALL } enforce;
	bool backfill;		      /* SchedulerType */
	bool serial_at_end, user_top; /* SchedulerParameters: pack_serial_at_end, enable_user_top */
	uint32_t bf_max_job, bf_max_user, bf_max_part,
	    bf_max_array; /* SchedulerParameters; 0: no bound of its own */
	int64_t bf_window_usec, bf_resolution_usec, switch_wait_sec;
	enum { SCH_BY_NOTHING, SCH_BY_PARTITION, SCH_BY_QOS } preempt_by; /* PreemptType */
	uint32_t preempt_mode;						  /* enum sch_preempt_how */
	bool preempt_within, youngest_first, strict_order, send_user_signal;
	uint32_t min_exempt_priority, preempt_tries; /* 0: no bound of its own */
	int64_t preempt_exempt_sec;
};

/* Caches and scratch that no answer depends on. */
struct sch_scratch {
	struct mu_arena event; /* the event being folded */
	struct mu_arena read;  /* rows given out by sch_job and sch_node, until the next evolve */
	struct mu_buf row;
	uint64_t quiet_pos; /* position at which decide last had nothing to say */
};

struct sch_state {
	Mu__ClusterRow *cluster; /* its row's hash is computed when asked, not kept in the sum */
	uint32_t cluster_change;
	struct sch_config_rec config;
	struct mu_hash sum; /* of all rows but the cluster's */

	struct sch_part **part; /* by order */
	uint32_t part_count;
	struct mu_map part_by_name;
	struct sch_node **node;	   /* by order */
	struct sch_node **by_rank; /* by weight, then order */
	uint32_t node_count;
	struct mu_map node_by_name, node_key;
	struct mu_map classes; /* by key */
	struct mu_bits open;   /* by rank: usable nodes with something free */
	struct mu_bits usable; /* by rank */

	struct mu_map jobs;   /* by id */
	struct mu_map arrays; /* by id */
	struct mu_map tasks;  /* be32 array, be32 task, be32 id: records of arrays */
	uint32_t job_tasks;   /* jobs in State, each task of an array by itself */
	uint32_t tomb_tasks;  /* of them, those that have ended and hold nothing */
	struct mu_map steps;  /* be32 job, attempt, step */
	struct mu_map answers;
	struct mu_map begins;	/* be64 eligible, be32 id: jobs that wait for their begin time */
	struct mu_map due;	/* be64 moment, be32 id: limit backstops, deadlines */
	struct mu_map running;	/* be64 end as plans count it, be32 id */
	struct mu_map children; /* be32 parent, be32 child: open dependencies */
	struct mu_map named;	/* be32 uid, 8 bytes of the name's hash, be32 id: jobs that have not ended */
	struct mu_map plans;	/* by id: waiting jobs with a planned start */
	struct mu_map plan_starts; /* be64 planned start, be32 id: the same */
	struct mu_map tombs;	   /* be64 end, be32 id: ended jobs that may be purged */
	struct mu_map silent;	   /* be64 last heard, be32 order: nodes missed by the last summary */
	struct mu_map resumes;	   /* be64 moment, be32 order: nodes that then resume by themselves */
	uint32_t heard_count;	   /* nodes named by the last summary, whose silence counts */
	uint32_t pending, live_running, completing;

	struct sch_accounts accounts;
	struct mu_map resvs; /* reservations by name */
	struct mu_map lics;  /* struct sch_lic by name */

	struct mu_map strs, specs, people, shapes;
	struct mu_bits shape_ids;
	uint32_t shape_id_cap;
	struct sch_switch *switches;
	uint32_t switch_count;
	struct mu_map exempts;	    /* be64 moment, be32 id: running jobs that may then be preempted */
	struct mu_map stopped;	    /* by id: jobs that stand still by preemption */
	struct mu_map switch_waits; /* be64 moment, be32 id: waiting jobs that then take any switches */
	uint32_t user_shapes;	    /* of the shapes, those that are user_only */
	struct mu_pool job_pool, run_pool, answer_pool;

	uint64_t wake_pos;   /* position of the last event that could change a pass */
	uint64_t pass_basis; /* basis of the pass that last began */
	size_t bytes;	     /* allocated outside the pools */
	bool loading;

	struct sch_rec **touched;
	size_t touched_count, touched_cap;
	struct sch_scratch *scratch;
};

/* The event being folded. */
struct sch_ev {
	struct sch_state *st;
	const struct sch_at *at;
	int64_t now;
	const Mu__Event *event;
	const Mu__Author *author; /* never NULL */
	struct mu_arena *arena;
	struct mu_err err;
	uint32_t job;		 /* for the verdict */
	struct sch_job **parent; /* whose children are still to be looked at */
	uint32_t parent_count, parent_cap;
	bool parents_busy;
};

/* The reason of a node that was given up for its silence. */
#define SCH_NOT_RESPONDING "Not responding"

#define SCH_SET(row, field, value)                      \
	do {                                            \
		(row)->field = (value);                 \
		(row)->has_##field = (row)->field != 0; \
	} while (0)

/* Fails with Slurm's own sentence for CODE. */
static inline int sch__refuse(struct mu_err *err, int code)
{
	return mu_fail(err, code, "%s", mu_strerror(code));
}
/* It has an allocation that it may use, or will again. */
static inline bool sch__lives(const struct sch_job *j)
{
	return j->state == JOB_RUNNING || j->state == JOB_SUSPENDED;
}
/* When it would have started, had it never been suspended. */
static inline int64_t sch__run_since(const struct sch_job *j)
{
	return j->start_usec + (j->run ? j->run->suspended_usec : 0);
}
static inline const char *sch__text(const struct sch_str *s)
{
	return s ? s->text : NULL;
}
static inline bool sch__same(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

/* state.c: allocation and records */
void *sch__alloc(struct sch_state *st, size_t size); /* zeroed, counted */
void *sch__grow(struct sch_state *st, void *old, size_t old_size, size_t size);
void sch__free(struct sch_state *st, void *p, size_t size);
char *sch__copy_text(const char *text); /* for protobuf-c fields freed by __free_unpacked */
char *sch__strdup(const char *text);	/* the same; NULL for "" and NULL */
void sch__replace(char **field, const char *text);
void *sch__copy_message(const ProtobufCMessage *m); /* a copy made with malloc, unknown fields left out */
struct sch_job *sch__job(const struct sch_state *st, uint32_t id);
struct sch_node *sch__node(const struct sch_state *st, const char *name);
struct sch_part *sch__part(const struct sch_state *st, const char *name);
void sch__wake(struct sch_state *st);
void sch__pair_key(uint8_t key[12], int64_t moment, uint32_t id);
const Mu__Config *sch__conf(const struct sch_state *st); /* never NULL */

/* intern.c */
struct sch_str *sch__str(struct sch_state *st, const char *text); /* a reference; NULL for "" and NULL */
struct sch_str *sch__str_ref(struct sch_str *s);
void sch__str_drop(struct sch_state *st, struct sch_str **s);
void sch__str_set(struct sch_state *st, struct sch_str **s, const char *text);
struct sch_spec *sch__spec(struct sch_state *st, const Mu__JobSpec *spec);
void sch__spec_drop(struct sch_state *st, struct sch_spec **s);
Mu__JobSpec *sch__spec_open(const struct sch_spec *s, struct mu_arena *arena);
struct sch_person *sch__person(struct sch_state *st, uint32_t uid, uint32_t gid, const char *user,
			       const char *group, const uint32_t *groups, size_t group_count);
void sch__person_drop(struct sch_state *st, struct sch_person **p);

/* digest.c */
void sch__touch(struct sch_state *st, struct sch_rec *rec);
void sch__gone(struct sch_state *st, struct sch_rec *rec); /* freed by the flush */
void sch__retouch(struct sch_state *st, struct sch_rec *old,
		  struct sch_rec *fresh); /* FRESH takes OLD's place */
void sch__flush(struct sch_state *st, struct sch_changes *changes);
void sch__row_hash(const struct sch_key *key, const uint8_t *row, size_t len, struct mu_hash *ret);
/* ROW: its bytes, NULL where it is gone or was not packed. */
void sch__note(struct sch_changes *changes, uint32_t *at, const struct sch_key *key, bool gone,
	       const struct mu_buf *row);

/* rows.c */
void sch__rec_key(const struct sch_rec *rec, struct sch_key *ret);
struct sch_rec *sch__rec_find(struct sch_state *st, const struct sch_key *key);
void sch__rec_pack(const struct sch_state *st, const struct sch_rec *rec, struct mu_buf *out);
void sch__rec_free(struct sch_state *st, struct sch_rec *rec);
void sch__answer_key(const struct sch_answer *a, struct sch_key *ret);
void sch__answer_pack(const struct sch_answer *a, struct mu_buf *out);
void sch__cluster_pack(const struct sch_state *st, struct mu_buf *out);
Mu__NodeRow *sch__node_row(const struct sch_node *n, struct mu_arena *arena);

/* rows_job.c */
void sch__job_pack(const struct sch_job *j, struct mu_buf *out);
Mu__JobRow *sch__job_row(const struct sch_job *j, struct mu_arena *arena); /* complete, spec opened */
Mu__AllocNode *sch__alloc_row(const struct sch_alloc *a, struct mu_arena *arena);
int sch__job_load(struct sch_state *st, const Mu__JobRow *row, struct mu_err *err);
void sch__job_free(struct sch_state *st, struct sch_job *j);
void sch__alloc_clear(struct sch_state *st, struct sch_alloc *a);
void sch__run_left_drop(struct sch_state *st, struct sch_run *run, uint32_t index);

/* answers.c */
struct sch_answer *sch__answer_find(const struct sch_state *st, const Mu__RequestId *id);
bool sch__answer_stale(const struct sch_state *st, const Mu__RequestId *id);
void sch__answer_keep(struct sch_state *st, const Mu__RequestId *id, const struct sch_verdict *v,
		      uint64_t pos, struct sch_changes *changes);
void sch__answer_load(struct sch_state *st, const Mu__AnswerRow *row);

struct sch_want;
/* gpus.c */
/* What GPUs make of counts that were not given, into RET's ntasks, nodes_min, nodes_max. RET->job_gpus is
 * what is left to be shared out over nodes. 0 or a refusal. */
int sch__want_gpus(const Mu__JobSpec *spec, struct sch_want *ret, struct mu_err *err);
uint64_t sch__gpus_total(const Mu__JobSpec *spec, const struct sch_want *want);
bool sch__grows(const Mu__JobSpec *spec, const struct sch_want *want);
/* Cores near unit UNIT of HAVE, as text; NULL where nobody said. */
const char *sch__unit_cores(const Mu__GresHave *have, uint32_t unit);
/* Adds the CPUs of CORES ("0-3", may be NULL) to RET. */
void sch__near_cpus(const struct sch_node *n, const char *cores, struct mu_bits *ret);
/* Which COUNT free units of an entry go best together, for a job with CPUS CPUs on the node: most links among
 * them, then most free CPUs near them, then fewest places, then fewest links to what stays free, then the
 * lowest. Their indexes into RET, ascending. False: nothing is known of the units, or they are too many to
 * choose. */
bool sch__units_choose(const struct sch_node *n, const struct sch_room *r, uint32_t entry, uint64_t count,
		       uint64_t cpus, uint32_t *ret);

/* shape.c */
/* All of a shape but its lists and texts. */
void sch__shape_plain(const Mu__JobSpec *spec, const struct sch_want *want, struct sch_shape *ret);
struct sch_shape *sch__shape(struct sch_state *st, const Mu__JobSpec *spec, const struct sch_want *want);
void sch__shape_drop(struct sch_state *st, struct sch_shape **s);
void sch__shapes_parts(struct sch_state *st); /* after partitions came or went */

/* cluster.c: nodes and partitions as scheduling sees them */
void sch__rank_all(struct sch_state *st); /* after weights or the set of nodes changed */
void sch__node_index(struct sch_state *st,
		     struct sch_node *n); /* after state, room or inventory of one node changed */
void sch__node_class(struct sch_state *st, struct sch_node *n);
void sch__node_unclass(struct sch_state *st, struct sch_node *n);
void sch__node_heard(struct sch_state *st, struct sch_node *n,
		     int64_t usec); /* usec 0: named by the last summary */
void sch__node_moments_index(struct sch_state *st, struct sch_node *n);
void sch__part_derive(struct sch_state *st, struct sch_part *p); /* bits, totals, state */
void sch__config_derive(struct sch_state *st);
enum sch_part_state sch__part_state(const char *word);
uint32_t sch__tpc(const struct sch_node *n);
uint32_t sch__feature_mask(const struct sch_state *st, const char *name);
bool sch__node_has_feature(const struct sch_node *n, const char *name, size_t len);

void sch__node_moments_drop(struct sch_state *st,
			    struct sch_node *n);      /* out of the index, before orders change */
void sch__pass_clear(struct sch_state *st);	      /* no unfinished pass */
void sch__pass_restart(struct sch_state *st);	      /* the same, and a new one is wanted */
int64_t sch__min_job_age(const struct sch_state *st); /* microseconds */

/* evolve_attempt.c: by the node's own word it takes no more work */
void sch__node_drain(struct sch_ev *ev, struct sch_node *n, const char *reason);

/* inventory.c */
bool sch__inventory_same(const struct sch_node *n, const Mu__NodeConf *c);
void sch__inventory_spec(struct sch_node *n); /* which CPUs the system keeps */
void sch__inventory_set(struct sch_node *n, const Mu__NodeRow *said);
void sch__inventory_first_index(Mu__NodeRow *row);
/* Takes over what the node says of its devices, also while jobs hold them. Those that are newly at fault, as
 * one text in EV's arena, or NULL; jobs that hold one are told. */
const char *sch__inventory_faults(struct sch_ev *ev, struct sch_node *n, const Mu__NodeRow *said);
const char *sch__inventory_short(const struct sch_node *n, const Mu__NodeRow *said, struct mu_arena *arena);

/* merge.c */
bool sch__present(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f);
void sch__absent(ProtobufCMessage *m, const ProtobufCFieldDescriptor *f);
void sch__merge(ProtobufCMessage *into, const ProtobufCMessage *from);
void sch__strip(ProtobufCMessage *m);

/* room.c: taking and giving */
void sch__room_init(struct sch_room *r, const struct sch_node *n);
void sch__room_copy(struct sch_room *dst, const struct sch_room *src, const struct sch_node *n);
void sch__room_recount(struct sch_room *r, const struct sch_node *n);
void sch__room_free(struct sch_room *r, const struct sch_node *n);
/* No CPU and no device of A is held already, or only by less than MOST that share with it; sch__room_fits:
 * and there is memory for it. */
bool sch__room_apart(const struct sch_room *r, const struct sch_node *n, const struct sch_alloc *a,
		     uint32_t most);
bool sch__room_full(const struct sch_room *r, const struct sch_node *n);
bool sch__room_fits(const struct sch_state *st, const struct sch_room *r, const struct sch_node *n,
		    const struct sch_alloc *a);
void sch__room_take(struct sch_room *r, const struct sch_node *n, const struct sch_alloc *a, bool exclusive);
void sch__room_take_row(struct sch_room *r, const struct sch_node *n, const Mu__AllocNode *row,
			bool exclusive);
void sch__room_give_row(struct sch_room *r, const struct sch_node *n, const Mu__AllocNode *row,
			bool exclusive);
void sch__room_give(struct sch_room *r, const struct sch_node *n, const struct sch_alloc *a, bool exclusive);
void sch__hold_add(struct sch_state *st, struct sch_job *j, struct sch_alloc *a);
void sch__hold_end(struct sch_state *st, struct sch_job *j, struct sch_alloc *a); /* resources free again */
struct sch_alloc *sch__alloc_on(struct sch_job *j, uint32_t attempt, const struct sch_node *n);
int sch__alloc_from_row(struct sch_state *st, const Mu__AllocNode *row, const char *name,
			struct sch_alloc *ret);

/* het.c: the components of a heterogeneous job; any other job is the only one of its own. */
uint32_t sch__het_size(const struct sch_job *j);
/* Component OFFSET of J's job; NULL where it has left State. */
struct sch_job *sch__het_part(const struct sch_state *st, const struct sch_job *j, uint32_t offset);
struct sch_job *sch__het_leader(const struct sch_state *st, const struct sch_job *j);
/* What was submitted as one has one number: the array's id, the first component's, else the job's own. */
uint32_t sch__job_kin(const struct sch_job *j);
bool sch__het_same(const struct sch_job *a, const struct sch_job *b); /* components of one job; may be NULL */
bool sch__ready(const struct sch_job *j);			      /* waits for nothing but its place */
bool sch__het_ready(const struct sch_state *st,
		    const struct sch_job *j); /* all of them are there and ready */
bool sch__waits(const struct sch_state *st,
		const struct sch_job *j); /* in the queues, or its first component is */
void sch__het_unplan(struct sch_state *st, const struct sch_job *j);
/* The first component of J's job speaks for all: where it is ready and another is not, it has that one's reason. */
void sch__het_tell(struct sch_state *st, const struct sch_job *j);
/* All that is asked of a submission, one want for each component in ARENA: 0 or a refusal. */
int sch__submission_check(const struct sch_state *st, const Mu__Submitted *s, const Mu__Author *author,
			  struct mu_arena *arena, struct sch_want **ret, struct mu_err *err);
void sch__het_ending(struct sch_ev *ev, struct sch_job *j);
void sch__het_end_waiting(struct sch_ev *ev, struct sch_job *j, uint32_t state);

/* queue.c */
uint64_t sch__queue_key(uint32_t priority, uint32_t id);
void sch__queue_in(struct sch_state *st,
		   struct sch_job *j); /* by state, priority, reason: queue, begins or nowhere */
void sch__queue_out(struct sch_state *st, struct sch_job *j);
void sch__reason(struct sch_state *st, struct sch_job *j, uint32_t reason,
		 const char *detail); /* touches nothing; keeps counters */
bool sch__reason_settled(uint32_t reason);
void sch__due_set(struct sch_state *st, struct sch_job *j);
void sch__due_clear(struct sch_state *st, struct sch_job *j);
int64_t sch__job_end_usec(const struct sch_job *j); /* expected end of a running job; INT64_MAX: none */
/* How long running J may go on behind its time limit, as its partition says, else the cluster; UINT32_MAX:
 * for ever. */
uint32_t sch__over_time_sec(const struct sch_state *st, const struct sch_job *j);
void sch__due_again(struct sch_state *st); /* all, after a new configuration */
void sch__tomb_in(struct sch_state *st, struct sch_job *j);
void sch__tomb_out(struct sch_state *st, struct sch_job *j);
/* Forgets the job that ended longest ago, when that is not after ENDED_UNTIL_USEC and nothing refers to it.
 */
bool sch__purge_oldest(struct sch_state *st, int64_t ended_until_usec);
/* MaxJobCount bounds the jobs in State; those that have ended make room for new ones before MinJobAge is
 * over. */
bool sch__jobs_full(const struct sch_state *st, uint32_t tasks); /* for TASKS more */
void sch__jobs_make_room(struct sch_ev *ev);
void sch__job_count(struct sch_state *st, const struct sch_job *j, int sign);
struct sch_part *sch__first_part(const struct sch_state *st, const struct sch_job *j);

/* priority.c */
/* Also says in J whether the number was given by hand. */
uint32_t sch__priority(const struct sch_state *st, struct sch_job *j, const Mu__JobSpec *spec, bool operator);

/* resolve.c: from a spec to what a job needs, with every refusal */
struct sch_want {
	struct sch_part *part[SCH_PARTS_PER_JOB];
	uint32_t part_count;
	int64_t time_limit_sec;
	uint32_t nodes_min, nodes_max, ntasks, cpus_per_task, cpus_total;
	uint64_t mem_node_mib, mem_cpu_mib; /* as the first partition makes it, for rows */
	enum sch_mem_kind mem_kind;	    /* as asked */
	uint64_t mem_mib;
	bool exclusive, own_spec;
	const char *qos, *account;
	uint32_t assoc;
	uint32_t job_gpus;
	bool tasks_by_gpus; /* the number of tasks follows from them */
	uint32_t tasks;	    /* of an array; else 1 */
};
int sch__resolve(const struct sch_state *st, const Mu__JobSpec *spec, const Mu__Author *author,
		 struct mu_arena *arena, struct sch_want *ret, struct mu_err *err);
/* The code of what in P's limits, or in its nodes, the job can never meet; 0 when it fits. */
int sch__part_limits(const struct sch_part *p, const Mu__JobSpec *spec, const struct sch_want *w,
		     const Mu__Author *author);
int sch__part_size(const struct sch_state *st, const struct sch_part *p, const struct sch_shape *shape,
		   struct mu_arena *arena, struct mu_err *err);
/* Refuses what a submission may not ask of AUTHOR's job. */
int sch__rights(const Mu__JobSpec *spec, const Mu__Author *author, struct mu_err *err);
/* A shape of ARENA's memory, for one question. */
void sch__shape_in(struct mu_arena *arena, const Mu__JobSpec *spec, const struct sch_want *w,
		   struct sch_shape *ret);
int64_t sch__part_limit(const struct sch_part *p, const Mu__JobSpec *spec); /* the limit a job gets there */
void sch__mem_asked(const Mu__JobSpec *spec, enum sch_mem_kind *ret_kind, uint64_t *ret_mib);
/* NAME=N among the partition's words, else in its or the configuration's JobDefaults; 0: nowhere. */
uint64_t sch__job_default(const struct sch_state *st, const struct sch_part *p, const char *name);
void sch__part_mem(const struct sch_state *st, const struct sch_part *p, enum sch_mem_kind kind, uint64_t mib,
		   enum sch_mem_kind *ret_kind, uint64_t *ret_mib);

/* place.c */
struct sch_need { /* a shape in one partition */
	const struct sch_shape *shape;
	enum sch_mem_kind mem_kind;
	uint64_t mem_mib; /* SCH_MEM_NODE with 0: all memory */
	bool exclusive, by_core, by_socket, memory;
	bool emptiest;		 /* the nodes with the most idle CPUs come first */
	uint32_t max_nodes;	 /* of the partition; 0: no bound */
	uint32_t tasks_per_core; /* 0: as its threads allow */
	uint32_t node_gpus, task_gpus, cpus_per_gpu;
	uint32_t switches; /* leaf switches at most; 0: any */
	bool near;	   /* only CPUs near its devices */
	bool careful;	   /* company matters: see sch__fit_in */
	bool user_only;
	uint32_t uid;
	const struct sch_part *part;
	uint32_t cpu_cap;    /* CPUs of one node that it may have at most */
	uint32_t share_full; /* so many like it may have a CPU; 1: it does not share */
	uint32_t share;	     /* and so many are put up with by this look */
};
void sch__need(const struct sch_state *st, const struct sch_shape *shape, const struct sch_part *p,
	       uint32_t uid, struct sch_need *ret);
bool sch__node_serves(const struct sch_need *need, struct sch_node *n); /* could ever, when empty */
struct sch_pick {
	struct sch_node *node;
	uint32_t tasks;
	uint32_t gpus; /* of a job that asks for GPUs as a whole */
	uint32_t idle; /* CPUs free before it comes */
};
/* What N could give of R at most; no tasks: it cannot serve. */
struct sch_pick sch__fit(const struct sch_need *need, struct sch_node *n, const struct sch_room *r);
/* Rooms seen by a placement: State's, with copies laid over where a pass has taken or given. */
struct sch_overlay {
	const struct sch_state *st;
	struct sch_room **room; /* by rank; NULL: State's own */
	uint32_t *used;
	uint32_t used_count;
	struct sch_line *line; /* not NULL: rooms are what the line leaves from FROM until UNTIL */
	int64_t from_usec, until_usec;
	struct sch_guest **guest; /* by rank: starts laid over; may be NULL */
};
struct sch_guest {
	struct sch_guest *next;
	const struct sch_job *job;
	const struct sch_part *part;
	uint32_t cpus;
};
/* False where N has too few CPUs for TASKS, whatever else it has: told of most nodes of a full cluster, and
 * cheaply. True promises nothing. */
bool sch__cpus_reach(const struct sch_need *need, const struct sch_overlay *o, const struct sch_node *n,
		     uint32_t tasks);
void sch__overlay_init(struct sch_overlay *o, const struct sch_state *st, struct mu_arena *arena);
void sch__overlay_free(struct sch_overlay *o);
const struct sch_room *sch__overlay_see(const struct sch_overlay *o, const struct sch_node *n);
struct sch_room *sch__overlay_own(struct sch_overlay *o, const struct sch_node *n, struct mu_arena *arena);
/* topology.c */
void sch__topology_derive(struct sch_state *st); /* after ranks or the configuration changed */
void sch__topology_free(struct sch_state *st);
/* From when on J takes nodes below any switches; 0: it never minded. */
int64_t sch__switch_moment(const struct sch_state *st, const struct sch_job *j);
void sch__switch_wait_in(struct sch_state *st, struct sch_job *j);
void sch__switch_wait_out(struct sch_state *st, struct sch_job *j);
void sch__switch_waits_end(struct sch_ev *ev); /* those whose moment has come */

/* company.c */
struct sch_company {
	uint32_t part_cpus; /* held by jobs of the need's partition */
	bool strangers;	    /* jobs of other users */
	bool owned;	    /* one of those shares with its own user only */
};
bool sch__user_only(const struct sch_job *j, const struct sch_part *p);
bool sch__personal(const struct sch_state *st); /* it matters whose job is where */
void sch__company(const struct sch_need *need, const struct sch_overlay *o, const struct sch_node *n,
		  struct sch_company *ret);
/* Notes a start that is laid over O. */
void sch__guest_add(struct sch_overlay *o, const struct sch_node *n, const struct sch_job *j,
		    const struct sch_part *p, uint32_t cpus, struct mu_arena *arena);
bool sch__welcome(const struct sch_need *need, const struct sch_company *c);
/* sch__fit within what the overlay leaves, and in the company that is there. */
struct sch_pick sch__fit_in(const struct sch_need *need, const struct sch_overlay *o, struct sch_node *n);

/* choose.c */
/* Chooses among CANDIDATES (by rank), required ones first. Adds what it looked at to *steps. RET has
 * node_count places. Returns how many nodes were chosen; 0: does not fit. HINT (may be NULL): first rank
 * worth looking at for one-node needs, moved on. */
uint32_t sch__choose(const struct sch_need *need, const struct sch_overlay *o,
		     const struct mu_bits *candidates, const struct mu_bits *required, uint32_t *hint,
		     uint64_t *steps, struct sch_pick *ret);
/* 0, or MU_ENODECONFIG where not even empty NODES have places for a need that names neighbours or counts
 * kinds. */
int sch__possible(const struct sch_state *st, const struct sch_need *need, const struct mu_bits *nodes,
		  const struct mu_bits *required);
/* Which CPUs, how much memory, which devices of PICK's node: an AllocNode in ARENA. */
Mu__AllocNode *sch__cut(const struct sch_need *need, const struct sch_pick *pick, const struct sch_room *r,
			struct mu_arena *arena);

/* features.c: --constraint. CHOICE: which of those that must be the same on all nodes. */
#define SCH_ANY_CHOICE UINT32_MAX
#define SCH_NO_GROUP UINT32_MAX
int sch__features_check(const struct sch_state *st, const char *expr, struct mu_err *err);
void sch__features_kind(const char *expr, struct sch_features *ret); /* EXPR passed the check once */
bool sch__features_match(const char *expr, const struct sch_node *n, uint32_t choice);
/* Whether N is of the counted kind GROUP, and how many of it are wanted. */
bool sch__features_group(const char *expr, uint32_t group, const struct sch_node *n, uint32_t *ret_count);

/* filter.c: which nodes a shape may use at all */
/* Nodes of P (by rank) that could serve when empty; required nodes apart. Bits are the caller's to free. */
int sch__filter(const struct sch_state *st, const struct sch_need *need, const struct sch_part *p,
		struct mu_arena *arena, struct mu_bits *ret_nodes, struct mu_bits *ret_required,
		struct mu_err *err);
int sch__name_bits(const struct sch_state *st, const char *list, struct mu_arena *arena, struct mu_bits *ret,
		   struct mu_err *err);
/* 0: fits on the empty, healthy cluster; else MU_ENODECONFIG, MU_ENODECOUNT (too few nodes), MU_EMEMORY,
 * MU_EGRES. */
int sch__feasible(const struct sch_state *st, const struct sch_need *need, const struct sch_part *p,
		  const struct mu_bits *nodes, const struct mu_bits *required);

/* What one job takes of one node, in numbers. */
struct sch_use {
	uint32_t cpus, cores;
	uint64_t mem_mib;
	bool exclusive;
	bool parked;	   /* of a suspended job: no CPUs, and it does not count as being there */
	const char *share; /* the partition with whose jobs it shares its CPUs; NULL: none */
	const struct mu_bits *share_cpu; /* which those are, where it runs */
	uint64_t *gres;			 /* by entry of the node; NULL: none */
};
/* What sch__cut would take of R. RET->gres lies in ARENA. */
void sch__use(const struct sch_need *need, const struct sch_pick *pick, const struct sch_room *r,
	      struct mu_arena *arena, struct sch_use *ret);
uint32_t sch__gres_entry(const struct sch_node *n, const Mu__GresGot *row); /* UINT32_MAX: none */

/* depend.c */
enum sch_depend { SCH_DEPEND_MET, SCH_DEPEND_OPEN, SCH_DEPEND_NEVER };
enum sch_depend sch__depend(const struct sch_job *j);
/* Every job named is in State or among RESOLVED, has an id below BELOW, and the kinds are known: 0 or
 * MU_EDEPENDENCY. */
int sch__depends_check(const struct sch_state *st, const Mu__JobSpec *spec, uint32_t below,
		       Mu__ResolvedParent *const *resolved, size_t count, struct mu_arena *arena,
		       struct mu_err *err);
void sch__depend_new(struct sch_ev *ev, struct sch_job *j, const Mu__JobSpec *spec,
		     Mu__ResolvedParent *const *resolved, size_t count);
/* Of an array: tasks whose counterparts (aftercorr) have ended leave the others. J is in all indexes. */
void sch__depend_apart(struct sch_ev *ev, struct sch_job *j, Mu__ResolvedParent *const *resolved,
		       size_t count);
void sch__depend_load(struct sch_state *st, struct sch_job *j, const char *letters, int64_t due_usec);
void sch__depend_clear(struct sch_state *st, struct sch_job *j);
void sch__depend_index(struct sch_state *st, struct sch_job *j, bool in);
void sch__name_index_twin(struct sch_state *st, struct sch_job *j); /* in, its name known already */
void sch__name_index(struct sch_state *st, struct sch_job *j, bool in);
void sch__depend_again(struct sch_ev *ev, struct sch_job *j);  /* looks at its open items */
void sch__depend_parent(struct sch_ev *ev, struct sch_job *p); /* P started or ended */
void sch__depend_kill(struct sch_ev *ev, struct sch_job *j);   /* where it never can and asked for it */
bool sch__depend_kills(const struct sch_state *st, const struct sch_job *j);
void sch__waiting_reason(struct sch_ev *ev, struct sch_job *j);

/* evolve_job.c, evolve_attempt.c: shared between events */
bool sch__may_act(const struct sch_ev *ev, const struct sch_job *j);
void sch__job_renice(struct sch_ev *ev, struct sch_job *j, const Mu__JobSpec *spec);
bool sch__has_word(const char *list, const char *word); /* cluster.c: LIST of words between commas */
/* SHORTER_SEC: a limit below the one it asked for; 0: none. FROM: the moment from which it is counted. */
void sch__job_start(struct sch_ev *ev, struct sch_job *j, const struct sch_part *p, const struct sch_resv *in,
		    struct sch_alloc *alloc, uint32_t count, bool exclusive, int64_t shorter_sec,
		    int64_t from_usec);
/* due.c: when the first silent node is to be given up; 0: never. */
int64_t sch__silence_due(const struct sch_state *st);
void sch__job_part_refs(struct sch_state *st, const struct sch_job *j, int sign);
void sch__job_split_refs(struct sch_state *st, const struct sch_job *j); /* J was counted with another */
void sch__alloc_released(struct sch_ev *ev, struct sch_job *j, struct sch_alloc *a);
/* RUNNING -> COMPLETING, with all components of its job; alone: without them. */
void sch__job_ending(struct sch_ev *ev, struct sch_job *j, uint32_t end_state);
void sch__job_ending_alone(struct sch_ev *ev, struct sch_job *j, uint32_t end_state);
void sch__job_settle(struct sch_ev *ev,
		     struct sch_job *j); /* COMPLETING with nothing open -> final, or waiting again */
void sch__job_end_waiting(struct sch_ev *ev, struct sch_job *j, uint32_t state); /* likewise */
void sch__job_end_waiting_alone(struct sch_ev *ev, struct sch_job *j, uint32_t state);
void sch__job_node_failed(struct sch_ev *ev, struct sch_job *j, const struct sch_node *n);
bool sch__job_requeues(const struct sch_state *st, const struct sch_job *j);
void sch__job_wait_again(struct sch_ev *ev, struct sch_job *j);
void sch__node_release_all(struct sch_ev *ev,
			   struct sch_node *n); /* everything held on it is free: fenced or another boot */
void sch__node_down(struct sch_ev *ev, struct sch_node *n, const char *reason, const char *user,
		    uint32_t uid);
void sch__step_put(struct sch_state *st, struct sch_job *j, uint32_t attempt, const Mu__StepRow *row);
void sch__steps_drop(struct sch_state *st, uint32_t job, uint32_t attempt_below);
int sch__step_load(struct sch_state *st, const Mu__StepRow *row);
int sch__node_build(struct sch_state *st, Mu__NodeRow *row, struct sch_node **ret); /* takes ROW */
void sch__node_free(struct sch_state *st, struct sch_node *n);
struct sch_part *sch__part_build(struct sch_state *st, Mu__PartitionRow *row); /* takes ROW */
void sch__parts_order(struct sch_state *st);

/* help.c: copies of State to decide over again. A copy has neither answers nor steps; ROWS grows by those
 * copied; NULL when it does not load. Folding gives the verdict's code, with its sentence in ERR (may be
 * NULL); settling decides until nothing is left. */
struct sch_state *sch__copy(const struct sch_state *st, uint64_t *rows);
int sch__copy_fold(struct sch_state *st, Mu__Event *event, struct sch_changes *changes, struct mu_err *err);
void sch__copy_settle(struct sch_state *st, struct sch_changes *changes);

/* fold.c */
Mu__PlanSet *sch__fold_plan(const struct sch_state *st, const struct sch_job *j, int64_t start,
			    const struct sch_pick *picks, uint32_t count, struct mu_arena *arena);
const char *sch__fold_unavailable(const struct sch_state *st, const struct mu_bits *nodes,
				  const struct mu_bits *required, struct mu_arena *arena);

/* veil.c */
struct sch_veil_item {
	struct sch_node *node;
	struct mu_bits hidden;
};
struct sch_veil {
	struct sch_overlay *overlay;
	struct mu_arena *arena;
	struct sch_veil_item *item;
	uint32_t count;
};
/* Lets CPUs that are kept from a job in IN for the span seem taken, until the veil is off. */
void sch__veil_on(struct sch_veil *v, struct sch_overlay *o, struct mu_arena *arena,
		  const struct sch_resv *in, int64_t from, int64_t until);
void sch__veil_off(struct sch_veil *v);

/* licence.c */
void sch__lic_config(struct sch_state *st); /* totals, from the configuration */
void sch__lic_free(struct sch_state *st);
int sch__lic_check(const struct sch_state *st, const char *text, struct mu_err *err);
uint32_t sch__lic_parse(const char *text, struct mu_arena *arena,
			struct sch_lic_ask **ret); /* names borrowed */
uint32_t sch__lic_of(const struct sch_job *j, const struct sch_lic_ask *ask);
void sch__lic_count(struct sch_state *st, const struct sch_job *j, int sign); /* J's state changes */
/* How many of ASK are taken; NULL: as State has it. */
typedef uint64_t (*sch_lic_taken)(void *arg, const struct sch_lic_ask *ask);
/* Are the licences of TEXT there for a job in IN for the span? */
bool sch__lic_fits(const struct sch_state *st, const char *text, const struct sch_resv *in, int64_t from,
		   int64_t until, sch_lic_taken taken, void *arg);

/* evolve_node.c */
void sch__nodes_resume(struct sch_ev *ev); /* those whose moment has come */

/* evolve_resv.c */
bool sch__resv_replace_due(const struct sch_state *st);
void sch__job_forget_resv(struct sch_ev *ev, struct sch_job *j, const char *name,
			  bool hold); /* evolve_job.c */

/* evolve_*.c: one function per row of events.def */
#define MU_EVENT(NAME, field, tag, level, function, who) int sch__evolve_##function(struct sch_ev *ev);
#include "proto/events.def"
#undef MU_EVENT

#endif
