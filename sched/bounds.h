/* sched/bounds.h: every bound of the core, with the sum that justifies it. (Not limits.h: the compiler would
 * find it for the system's.) */
#ifndef SCHED_BOUNDS_H
#define SCHED_BOUNDS_H

#include <stdint.h>

/* Answers kept for repeated requests: a million of some 150 bytes are 150 MiB, a day is longer than any
 * client retries. */
#define SCH_ANSWERS_MAX 1000000u
#define SCH_ANSWER_AGE_USEC (INT64_C(86400) * 1000000)
/* A birth further ahead of the entry's time than this would hold its answer beyond its day: void. */
#define SCH_BIRTH_AHEAD_USEC (INT64_C(3600) * 1000000)
/* Evicted per new answer: two keep up with any backlog while one is added. */
#define SCH_EVICT_PER_ANSWER 2u

/* Work of one Tick: 1,000 rows of some 4 microseconds each stay under the loop's 10 ms. */
#define SCH_PURGE_PER_TICK 1000u
#define SCH_BEGIN_PER_TICK 1000u

/* Partitions that one job may name, nodes of a cluster (ten times the design figure), gres entries of a node.
 */
#define SCH_PARTS_PER_JOB 32u
#define SCH_NODES_MAX 100000u
#define SCH_GRES_PER_NODE 64u
/* Of at most so many devices the best are chosen: its cube is the work. A card has no more than 7 parts. */
#define SCH_UNITS_CHOICE 32u
#define SCH_SHARE_TRIES 4u /* loads of CPUs that are tried one by one, from none on */
#define SCH_CPUS_PER_STEP 32u /* looked at in the stacks of a node */
#define SCH_CPUS_PER_NODE 65536u

/* Switches of a topology, and how many may stand one above the other. */
#define SCH_SWITCHES_MAX 20000u
#define SCH_SWITCH_LEVELS 16u

/* How long a job waits for few switches at most (max_switch_wait), seconds. */
#define SCH_SWITCH_WAIT_SEC INT64_C(300)

/* Kinds of nodes that one --constraint may count: each is looked for once whenever the job is tried. */
#define SCH_FEATURE_GROUPS 16u

/* Bytes of one Decided event: an entry takes 256 KiB and other events share it. A start of one node is under
 * 100 bytes. */
#define SCH_SLICE_BYTES (96u * 1024u)

/* How many budgets of steps a slice may take before it has anything to say: what the loop can bear now and
 * then. */
#define SCH_QUIET_BUDGETS 4u

/* Nodes that have too few CPUs free, which two numbers tell, go for one look at a node. */
#define SCH_PASSED_PER_STEP 8u

/* Attempts that may fail to launch before the job is held, and how far apart they are (doubled each time). */
#define SCH_LAUNCH_FAILURES_MAX 3u
#define SCH_LAUNCH_SPACE_SEC 60

/* The agent ends a job at its limit; the controller waits KillWait, OverTimeLimit and this much longer. */
#define SCH_BACKSTOP_SEC 60

/* Moments tried for one planned start, beyond the first at which running jobs leave enough: each looks at the
 * job's nodes once. Where that is cheap, more of them, for as many steps as a slice bears a dozen times:
 * behind a hundred plans on few nodes the first moment that serves may be the last. */
#define SCH_PLAN_TRIES 64u
#define SCH_PLAN_STEPS 32768u

/* A job that starts this little after its planned moment is counted from that moment: ends at limits come a
 * little late, and the log takes its time, and neither should move the plans behind. */
#define SCH_PLAN_GRACE_USEC (INT64_C(5) * 1000000)

/* A job without a time limit is planned with this: nothing waits for it sooner, nothing waits for ever. */
#define SCH_NO_LIMIT_SEC (INT64_C(365) * 86400)

/* Defaults of SchedulerParameters: reserved jobs of a pass, and in seconds how far plans reach and how close
 * two tried moments may lie. */
#define SCH_BF_MAX_JOB_TEST 500u
#define SCH_BF_MAX_JOB_ARRAY_RESV 20u
#define SCH_BF_WINDOW_SEC (INT64_C(1440) * 60)
#define SCH_BF_RESOLUTION_SEC INT64_C(60)

/* Components of a heterogeneous job: all of them start in one decision, whose bytes are bounded above. */
#define SCH_HET_MAX 128u

/* Jobs that one JobSignal, JobHold or JobRequeue may name: 4 bytes each, well inside an entry. */
#define SCH_JOBS_PER_EVENT 10000u

/* Jobs that one scontrol top may name: each looks through the queue of its partition once. */
#define SCH_TOP_MAX 64u

/* Counted steps after which a search for jobs that give way takes what it has: a slice bears some of them.
 * Jobs that are tried alone, where PreemptParameters does not say (reorder_count). */
#define SCH_PREEMPT_STEPS 65536u
#define SCH_PREEMPT_TRIES 32u

/* Kinds of licences that one job or reservation may ask for. */
#define SCH_LICS_PER_JOB 64u

#define SCH_USEC INT64_C(1000000)

#endif
