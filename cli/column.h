/* cli/column.h: what a getter of proto/columns.def sees, and the sets of columns made from its rows. */
#ifndef CLI_COLUMN_H
#define CLI_COLUMN_H

#include "cli/cli.h"
#include "cli/table.h"
#include "proto/account.pb-c.h"
#include "proto/rows.pb-c.h"

/* Nodes of one partition that a line of sinfo shows together. */
struct cli_group {
	const Mu__PartitionRow *partition;
	const Mu__NodeRow **node;
	size_t count;
};

/* Added to RET: allocated, idle, other, all of them. */
void cli_group_nodes(const struct cli_group *g, size_t ret[4]);
void cli_group_cpus(const struct cli_group *g, size_t ret[4]);

enum cli_cell_flags { CELL_NOCONVERT = 1, CELL_EXACT = 2 };
/* A line. Which members are set depends on the set of columns. All borrowed. */
struct cli_cell {
	const Mu__JobRow *job;
	const Mu__StepRow *step;
	const Mu__Usage *usage; /* sacct: what the steps of the job used together */
	const struct cli_group *group;
	const char *partition; /* squeue -P: instead of the job's own */
	const char *cluster;
	int64_t now_usec;
	int64_t from_usec, to_usec; /* sacct -T: times are cut to it; 0: no limit */
	unsigned flags;
	const struct mu_map *qos_ids; /* sacct: name -> Mu__QosRow; NULL: not asked for */
	char unit;		      /* sacct --units: 0, or one of K M G T P */
	/* sacctmgr, sshare, sprio */
	const struct cli_mgr_cell *mgr;
	const Mu__ShareRow *share;
	const Mu__PriorityRow *prio;
	const struct cli_report *report; /* sreport */
	struct mu_arena *arena;
	const char *pids; /* sstat */
};

extern const struct cli_columns cli_job_columns;  /* squeue */
extern const struct cli_columns cli_step_columns; /* squeue -s */
extern const struct cli_columns cli_node_columns; /* sinfo */
extern const struct cli_columns cli_acct_columns; /* sacct */

/* ---- shared by getters and by scontrol ---- */
const Mu__JobSpec *cli_job_spec(const Mu__JobRow *job); /* never NULL */
/* Seconds between two moments as both are shown, in whole seconds: what tables and reports add up. */
int64_t cli_between_sec(int64_t from_usec, int64_t to_usec);
/* As scontrol show job has them. */
void cli_job_preempt_fields(const Mu__JobRow *job, struct mu_buf *out);
void cli_job_suspend_fields(const Mu__JobRow *job, struct mu_buf *out);
uint32_t cli_job_state(const Mu__JobRow *job); /* as people know it: SPECIAL_EXIT is a way of waiting */
int64_t cli_job_elapsed_sec(const Mu__JobRow *job,
			    int64_t now_usec); /* without the time that it was suspended */
int64_t cli_job_suspended_sec(const Mu__JobRow *job, int64_t now_usec);
int64_t cli_job_end_planned(const Mu__JobRow *job,
			    int64_t now_usec); /* at its limit; it has one, and has started */
/* Nodes and end of the job as it is now: one that waits again, or ended while it waited, has neither nodes
 * nor (waiting) an end, whatever its last run had. "" and 0 then. */
const char *cli_job_nodes(const Mu__JobRow *job);
int64_t cli_job_end(const Mu__JobRow *job);
/* "Resources", or "ReqNodeNotAvail, UnavailableNodes:n1" when FULL. */
void cli_job_reason(const Mu__JobRow *job, bool full, struct mu_buf *out);
/* "cpu=1,mem=100M,node=1,billing=1,gres/gpu=2": id order, or sorted by name for accounting. HELD: what is
 * allocated. */
void cli_job_tres(const Mu__JobRow *job, bool held, bool by_name, struct mu_buf *out);
const char *cli_job_hint(const Mu__JobSpec *s,
			 const char *name); /* an option that was kept; NULL: not given */
/* "YES": it asked to share CPUs, or does. */
const char *cli_job_oversubscribe(const Mu__JobRow *job);
void cli_gres_text(Mu__GresAsk *const *gres, size_t count, const char *prefix, struct mu_buf *out);
/* "gpu:a100:2(S:0-1)" of a node; "" when there is none. */
void cli_node_gres(const Mu__NodeRow *n, struct mu_buf *out);
void cli_node_gres_used(const Mu__NodeRow *n, struct mu_buf *out);
void cli_node_gres_drain(const Mu__NodeRow *n, struct mu_buf *out); /* devices at fault, or N/A */
/* GresDrain=, GresUsed= and a record of each device of which something is known, SEPARATOR between them. */
void cli_node_devices(const Mu__NodeRow *n, const char *separator, struct mu_buf *out);
/* "cpu=4,mem=2048M,billing=4,gres/gpu=2": what the node has, and what of it is given out (empty: nothing). */
void cli_node_tres(const Mu__NodeRow *n, struct mu_buf *out);
void cli_node_tres_used(const Mu__NodeRow *n, struct mu_buf *out);
uint32_t cli_node_cpus(const Mu__NodeRow *n);
uint64_t cli_node_memory(const Mu__NodeRow *n);
uint32_t cli_node_sockets(const Mu__NodeRow *n);
uint32_t cli_node_cores(const Mu__NodeRow *n);
uint32_t cli_node_threads(const Mu__NodeRow *n);
/* Number by which sinfo sorts states: flags above the base. */
uint32_t cli_node_state_rank(const Mu__NodeRow *n);
uint32_t
cli_node_shown_base(const Mu__NodeRow *n); /* enum mu_node_base with ALLOCATED and MIXED told apart */
void cli_put_bytes(struct mu_buf *out, ProtobufCBinaryData bytes, const char *none);
void cli_put_dependency(struct mu_buf *out,
			const Mu__JobRow *job); /* what of it is not fulfilled, or (null) */
/* A pattern such as "slurm-%j.out" with what is known of the job filled in, made absolute by the work
 * directory. */
void cli_job_path(const Mu__JobRow *job, ProtobufCBinaryData pattern, const char *none, struct mu_buf *out);

#endif
