/* cli/array.c: tasks of job arrays on the command line and in listings. */
#include "cli/array.h"

#include <stdlib.h>
#include <string.h>

#include "cli/column.h"
#include "cli/filter.h"
#include "proto/array.h"
#include "proto/states.h"

enum { LIST_LENGTH = 64 };

/* The tasks of J as ordinals of TASKS; false when it has not several. */
static bool several(const Mu__JobRow *j, struct mu_tasks *tasks, struct mu_runs *runs)
{
	const char *text = cli_job_spec(j)->array;

	if (!j->n_array_run || !text || mu_tasks_parse(text, UINT32_MAX, tasks, NULL))
		return false;
	if (mu_runs_unpack(j->array_run, j->n_array_run, tasks->total, runs))
		return true;
	mu_tasks_free(tasks);
	return false;
}

uint32_t cli_job_family(const Mu__JobRow *j)
{
	return j->array_job ? j->array_job : j->id;
}

/* LIST cut to what the user wants to see. */
static void cut(struct mu_buf *list, size_t from)
{
	const char *text = getenv("SLURM_BITSTR_LEN");
	size_t most = text && *text ? strtoul(text, NULL, 10) : LIST_LENGTH;

	if (!most || list->len - from <= most || most < 4)
		return;
	size_t end = from + most - 3;
	while (end > from && list->data[end - 1] != ',')
		end--;
	list->len = end > from ? end : from + most - 3;
	mu_buf_str(list, "...");
}

static void put_tasks(const Mu__JobRow *j, uint32_t throttle, struct mu_buf *out)
{
	struct mu_tasks tasks = {0};
	struct mu_runs runs = {0};
	size_t from = out->len;

	if (j->has_array_task) {
		mu_buf_printf(out, "%u", j->array_task);
	} else if (several(j, &tasks, &runs)) {
		mu_runs_print(&runs, &tasks, 0, out);
		cut(out, from);
		if (throttle)
			mu_buf_printf(out, "%%%u", throttle);
	}
	mu_runs_free(&runs);
	mu_tasks_free(&tasks);
}

void cli_job_tasks(const Mu__JobRow *j, struct mu_buf *out)
{
	put_tasks(j, j->state == JOB_PENDING ? j->array_throttle : 0, out);
}

void cli_job_array_fields(const Mu__JobRow *j, struct mu_buf *out)
{
	if (j->het_job)
		mu_buf_printf(out, "HetJobId=%u HetJobOffset=%u ", j->het_job, j->het_offset);
	if (!j->array_job)
		return;
	mu_buf_printf(out, "ArrayJobId=%u ArrayTaskId=", j->array_job);
	put_tasks(j, 0, out);
	if (j->array_throttle)
		mu_buf_printf(out, " ArrayTaskThrottle=%u", j->array_throttle);
	mu_buf_str(out, " ");
}

void cli_job_name(const Mu__JobRow *j, struct mu_buf *out)
{
	if (j->het_job) {
		mu_buf_printf(out, "%u+%u", j->het_job, j->het_offset);
		return;
	}
	mu_buf_printf(out, "%u", cli_job_family(j));
	if (!j->array_job)
		return;
	mu_buf_str(out, j->has_array_task ? "_" : "_[");
	cli_job_tasks(j, out);
	if (!j->has_array_task)
		mu_buf_str(out, "]");
}

uint32_t cli_job_first_task(const Mu__JobRow *j)
{
	struct mu_tasks tasks = {0};
	struct mu_runs runs = {0};
	uint32_t first = j->array_task;

	if (several(j, &tasks, &runs))
		first = mu_tasks_index(&tasks, mu_runs_next(&runs, 0));
	mu_runs_free(&runs);
	mu_tasks_free(&tasks);
	return first;
}

int cli_job_order(const Mu__JobRow *a, const Mu__JobRow *b)
{
	uint32_t x = cli_job_family(a), y = cli_job_family(b);

	if (x == y && a->array_job) {
		x = cli_job_first_task(a);
		y = cli_job_first_task(b);
	}
	if (x == y) {
		x = a->id;
		y = b->id;
	}
	return (x > y) - (x < y);
}

/* Adds to PICKED those of the COUNT tasks in RUNS that ID names. */
static void pick(const struct cli_job_id *id, const struct mu_tasks *tasks, const struct mu_runs *runs,
		 struct mu_runs *picked)
{
	struct mu_runs asked = {0}, both = {0}, rest = {0};
	struct mu_tasks list;

	if (!id->has_task) {
		mu_runs_or(picked, runs);
		return;
	}
	if (mu_tasks_parse(id->tasks, UINT32_MAX, &list, NULL))
		return;
	mu_tasks_select(tasks, &list, &asked);
	mu_runs_cut(runs, &asked, &both, &rest);
	mu_runs_or(picked, &both);
	mu_runs_free(&asked);
	mu_runs_free(&both);
	mu_runs_free(&rest);
	mu_tasks_free(&list);
}

static bool lists(const char *text, uint32_t task)
{
	struct mu_tasks list;

	if (mu_tasks_parse(text, UINT32_MAX, &list, NULL))
		return false;
	bool found = mu_tasks_ordinal(&list, task) != UINT32_MAX;
	mu_tasks_free(&list);
	return found;
}

/* J by its own number, by its array's, or by that of its heterogeneous job. */
static bool same_job(const struct cli_job_id *id, const Mu__JobRow *j)
{
	if (id->has_component)
		return id->job == j->het_job && id->component == j->het_offset;
	if (id->has_task)
		return j->array_job && id->job == j->array_job;
	return id->job == j->id || (j->array_job && id->job == j->array_job) ||
	       (j->het_job && id->job == j->het_job);
}

static Mu__JobRow *narrowed(struct mu_arena *arena, Mu__JobRow *j, const struct mu_tasks *tasks,
			    const struct mu_runs *picked)
{
	Mu__JobRow *copy = mu_arena_dup(arena, j, sizeof *j);

	if (picked->total == 1) {
		copy->has_array_task = 1;
		copy->array_task = mu_tasks_index(tasks, mu_runs_next(picked, 0));
		copy->n_array_run = 0;
		return copy;
	}
	copy->n_array_run = 2 * mu_runs_count(picked);
	copy->array_run = mu_arena_alloc(arena, copy->n_array_run * sizeof copy->array_run[0]);
	mu_runs_pack(picked, copy->array_run);
	return copy;
}

Mu__JobRow *cli_job_named(struct mu_arena *arena, Mu__JobRow *j, const struct cli_job_id *id, size_t ids)
{
	struct mu_tasks tasks = {0};
	struct mu_runs runs = {0}, picked = {0};
	Mu__JobRow *found = ids ? NULL : j;
	bool many = ids && several(j, &tasks, &runs);

	for (size_t i = 0; i < ids && !found; i++) {
		if (!same_job(&id[i], j))
			continue;
		if (many)
			pick(&id[i], &tasks, &runs, &picked);
		else if (!id[i].has_task || (j->has_array_task && lists(id[i].tasks, j->array_task)))
			found = j;
	}
	if (many && picked.total)
		found = picked.total == runs.total ? j : narrowed(arena, j, &tasks, &picked);
	mu_runs_free(&picked);
	mu_runs_free(&runs);
	mu_tasks_free(&tasks);
	return found;
}

bool cli_id_names(const struct cli_job_id *id, const Mu__JobRow *j)
{
	struct mu_arena arena = {0};
	bool named = cli_job_named(&arena, (Mu__JobRow *)j, id, 1) != NULL;

	mu_arena_free(&arena);
	return named;
}

void cli_job_each(const Mu__JobRow *j, void (*give)(void *arg, const Mu__JobRow *task), void *arg)
{
	struct mu_tasks tasks = {0};
	struct mu_runs runs = {0};
	Mu__JobRow copy = *j;

	if (!several(j, &tasks, &runs)) {
		give(arg, j);
		return;
	}
	copy.has_array_task = 1;
	copy.n_array_run = 0;
	for (uint32_t n = mu_runs_next(&runs, 0); n != UINT32_MAX; n = mu_runs_next(&runs, n + 1)) {
		copy.array_task = mu_tasks_index(&tasks, n);
		give(arg, &copy);
	}
	mu_runs_free(&runs);
	mu_tasks_free(&tasks);
}

static Mu__ArrayTasks *new_tasks(struct mu_arena *arena, uint32_t job, const char *list)
{
	Mu__ArrayTasks *t = mu_arena_alloc(arena, sizeof *t);

	mu__array_tasks__init(t);
	t->has_job = 1;
	t->job = job;
	t->tasks = (char *)list;
	return t;
}

Mu__ArrayTasks *cli_array_tasks(struct mu_arena *arena, const Mu__JobRow *j)
{
	struct mu_tasks tasks = {0};
	struct mu_runs runs = {0};
	struct mu_buf list MU_CLEANUP(mu_buf_free) = {0};

	if (several(j, &tasks, &runs))
		mu_runs_print(&runs, &tasks, 0, &list);
	else
		mu_buf_printf(&list, "%u", j->array_task);
	mu_runs_free(&runs);
	mu_tasks_free(&tasks);
	return new_tasks(arena, j->array_job, mu_arena_strdup(arena, (char *)list.data));
}

Mu__ArrayTasks *cli_array_some(struct mu_arena *arena, const struct cli_job_id *id)
{
	return new_tasks(arena, id->job, id->tasks);
}

void cli_job_het_set(const Mu__JobRow *j, struct mu_buf *out)
{
	if (j->het_job)
		mu_buf_printf(out, "%u-%u", j->het_job, j->het_job + j->het_count - 1);
}

int cli_component(struct cli *c, const struct cli_job_id *id, uint32_t *ret, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	void **rows;
	size_t count;
	int rc;

	*ret = id->job;
	if (!id->has_component)
		return 0;
	ask.has_what = ask.has_slim = ask.slim = 1;
	ask.what = MU__WHAT__WHAT_ACCT;
	cli_filter_id(c, &ask, id);
	rc = cli_query_all(c, &ask, &mu__hist_row__descriptor, &rows, &count, err);
	for (size_t i = 0; i < count && !rc; i++) {
		const Mu__JobRow *j = ((Mu__HistRow *)rows[i])->job;

		if (j && same_job(id, j)) {
			*ret = j->id;
			return 0;
		}
	}
	return rc && rc != MU_EJOBID ? rc : mu_fail(err, MU_EJOBID, "%s", mu_strerror(MU_EJOBID));
}

const char *cli_job_output(const Mu__JobRow *j)
{
	return j->array_job ? "slurm-%A_%a.out" : "slurm-%j.out";
}

char **cli_split_ids(struct mu_arena *arena, const char *text, size_t *ret_count)
{
	size_t count, kept = 0;
	char **words = cli_split(arena, text, &count);

	for (size_t i = 0; i < count; i++) {
		char *word = words[i];

		while (strchr(word, '[') && !strchr(word, ']') && i + 1 < count)
			word = mu_arena_printf(arena, "%s,%s", word, words[++i]);
		words[kept++] = word;
	}
	*ret_count = kept;
	return words;
}
