/* cli/array.h: what people call tasks of job arrays, and which of them a line is about. Pure but for one
 * variable of the environment. */
#ifndef CLI_ARRAY_H
#define CLI_ARRAY_H

#include "cli/cli.h"
#include "proto/rows.pb-c.h"

/* "12", "12_3", "12_[4-9%2]", "12+1" for a component of a heterogeneous job. A list longer than 64 characters is cut, with "..." at its end;
 * SLURM_BITSTR_LEN sets another length, 0 none. */
void cli_job_name(const Mu__JobRow *j, struct mu_buf *out);
/* "3" or "4-9%2"; "" outside arrays. */
void cli_job_tasks(const Mu__JobRow *j, struct mu_buf *out);
/* "ArrayJobId=12 ArrayTaskId=4-9 ArrayTaskThrottle=2 ", "HetJobId=12 HetJobOffset=1 " as scontrol shows them;
 * nothing of other jobs. */
void cli_job_array_fields(const Mu__JobRow *j, struct mu_buf *out);
void cli_job_het_set(const Mu__JobRow *j, struct mu_buf *out); /* "12-14"; "" of other jobs */
/* The number of the job that ID names: of 12+1 the component's own, which is asked for. 0, or MU_EJOBID. */
int cli_component(struct cli *c, const struct cli_job_id *id, uint32_t *ret, struct mu_err *err);
uint32_t cli_job_family(const Mu__JobRow *j); /* the array's id, else its own */
uint32_t cli_job_first_task(const Mu__JobRow *j);
/* Order of listings: by array, task, id. */
int cli_job_order(const Mu__JobRow *a, const Mu__JobRow *b);
/* The row when no id is given or an id names all of it; a copy in ARENA with those of its tasks that are
 * named; NULL when none is. */
Mu__JobRow *cli_job_named(struct mu_arena *arena, Mu__JobRow *j, const struct cli_job_id *id, size_t ids);
bool cli_id_names(const struct cli_job_id *id,
		  const Mu__JobRow *j); /* any of its tasks, with or without a step */
/* Calls GIVE with a copy of J for each of its tasks; with J itself where it is one job. */
void cli_job_each(const Mu__JobRow *j, void (*give)(void *arg, const Mu__JobRow *task), void *arg);
/* All tasks of J for a request. In ARENA. */
Mu__ArrayTasks *cli_array_tasks(struct mu_arena *arena, const Mu__JobRow *j);
Mu__ArrayTasks *cli_array_some(struct mu_arena *arena, const struct cli_job_id *id);
/* Default output file of a batch job: its pattern. */
const char *cli_job_output(const Mu__JobRow *j);
/* Splits at commas, those within brackets left alone. */
char **cli_split_ids(struct mu_arena *arena, const char *text, size_t *ret_count);

#endif
