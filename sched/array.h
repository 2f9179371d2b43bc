/* sched/array.h: job arrays. Room-internal.
 *
 * An array is submitted as one job and stays one job row until something happens to a task of its own. Its
 * id A is the id that submission gave. Tasks are counted by ordinal (proto/array.h): the row that waits keeps
 * its tasks as runs of ordinals, so that a million waiting tasks are one row, one place in the queue, and one
 * run.
 *
 * A record of an array is a struct sch_job with array set. It holds one task (tasks NULL, the index in task)
 * or several that share one fate (tasks: two or more): they wait together, or were cancelled together before
 * they started. A record with several tasks never runs.
 *
 * Splitting takes some of a record's tasks away into a new record with the next job id; the last that are
 * left keep the record and its id. Tasks are split off when they start (one each, lowest index first), when a
 * person names some of them (they go together), and when the task they correspond to (aftercorr) has ended.
 * Nothing is ever joined again. A pass that starts k tasks costs k splits, whatever waits.
 *
 * What the array as a whole knows is a row of its own (Mu__ArrayRow), kept as long as State has a record of
 * it: the limit of running tasks, how many have ended and how. So dependencies on the whole array need no
 * look at its tasks, and those may be forgotten one by one as all ended jobs are.
 *
 * Derived: refs, waiting, active; the index of records by array and task. Each task counts as a job where
 * jobs are counted (MaxJobCount, MaxSubmit, the number that wait). */
#ifndef SCHED_ARRAY_H
#define SCHED_ARRAY_H

#include "proto/array.h"

/* Records with several tasks that one array may have: each costs a look when a task is searched for. People
 * name tasks in a few lists; a script that names them one by one makes records of one task. */
enum { SCH_ARRAY_PARTS_MAX = 1000 };

struct sch_array {
	struct sch_rec rec;
	uint32_t id, throttle, done, failed, last_id;
	int64_t last_start_usec;
	struct sch_str *text;
	struct mu_tasks tasks;
	uint32_t refs;	  /* records in State */
	uint32_t parts;	  /* of those, with several tasks */
	uint32_t waiting; /* tasks that are PENDING */
	uint32_t active;  /* tasks that run or are ending */
};

static inline uint32_t sch__array_ended(const struct sch_array *a)
{
	return a->done + a->failed;
}

uint32_t sch__max_array_size(const struct sch_state *st);
struct sch_array *sch__array(const struct sch_state *st, uint32_t id);
uint32_t sch__job_size(const struct sch_job *j);   /* tasks that it stands for; 1 outside arrays */
uint32_t sch__job_family(const struct sch_job *j); /* the array's id, else its own */
bool sch__job_has_task(const struct sch_job *j, uint32_t ordinal);
/* The record of ARRAY that has the task; NULL when it has left State. */
struct sch_job *sch__array_task(const struct sch_state *st, const struct sch_array *a, uint32_t index);
/* Records of ARRAY in order of task (those with several last), one after the other: AT is zeroed before the
 * first call. NULL at the end. */
struct sch_array_at {
	uint8_t key[12];
	bool on;
};
struct sch_job *sch__array_each(const struct sch_state *st, const struct sch_array *a,
				struct sch_array_at *at);

/* Makes J, fresh and with its id, the record of all tasks of TEXT, which has been checked. */
void sch__array_new(struct sch_state *st, struct sch_job *j, const char *text);
/* The new record is in every index that its state asks for, and touched, as J is. TAKE is a part of J's
 * ordinals, not all; it is taken over. An id must be left (sch__ids_left). */
struct sch_job *sch__array_split(struct sch_state *st, struct sch_job *j, struct mu_runs *take);
struct sch_job *sch__array_split_one(struct sch_state *st, struct sch_job *j, uint32_t ordinal);
uint32_t sch__ids_left(const struct sch_state *st);
void sch__array_purge(struct sch_state *st, struct sch_job *j); /* J leaves State */
/* J passes from WAS to its present state, of which one is final: counts and wakes. */
void sch__array_moved(struct sch_state *st, struct sch_job *j, uint32_t was);
void sch__array_count(const struct sch_job *j, int sign); /* J's tasks among those that wait, or are active */
void sch__array_touch(struct sch_state *st, struct sch_job *j);
void sch__array_throttle(struct sch_state *st, struct sch_array *a, uint32_t throttle);

/* Rows. */
void sch__array_pack(const struct sch_array *a, struct mu_buf *out);
int sch__array_load(struct sch_state *st, const Mu__ArrayRow *row, struct mu_err *err);
/* Joins J, made from ROW, to its array. Job rows come first: the array's own fields follow with its row. */
int sch__array_join(struct sch_state *st, struct sch_job *j, const Mu__JobRow *row, struct mu_err *err);
void sch__job_array_row(const struct sch_job *j, Mu__JobRow *row, struct mu_arena *arena);
int sch__array_check_loaded(struct sch_state *st, struct mu_err *err);
void sch__array_free(struct sch_state *st, struct sch_array *a);
void sch__job_tasks_free(struct sch_state *st, struct sch_job *j);

#endif
