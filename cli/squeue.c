/* cli/squeue.c: lists jobs and steps. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/array.h"
#include "cli/column.h"
#include "cli/filter.h"
#include "cli/model.h"
#include "cli/option.h"
#include "proto/pb.h"
#include "proto/states.h"

#define FORMAT_SHORT "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
#define FORMAT_LONG "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
#define FORMAT_STEPS "%.15i %.8j %.9P %.8u %.9M %N"
#define FORMAT_START "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"

enum { SORT_LETTERS_MAX = 64 };

struct sort_key {
	char letter;
	bool down;
};
/* By what a job is sorted: numbers have no text. */
struct sort_value {
	const char *text;
	int64_t number;
};

struct squeue {
	struct cli *cli;
	const struct cli_args *args;
	struct cli_format format;
	Mu__Query query;
	struct cli_job_id *id; /* -j, -s */
	size_t ids;
	bool steps, start, by_partition, by_task, json;
	bool not_mine;
	unsigned cell_flags;
	const char *licenses, *reservation;
	struct sort_key sort[SORT_LETTERS_MAX];
	size_t sorts;
};

/* ---- order ---- */

static const char *shown_partition(const Mu__JobRow *j)
{
	return j->partition ? j->partition : "";
}

/* Letters whose order is not that of their text. */
static bool number_of(char letter, const Mu__JobRow *j, int64_t now_usec, int64_t *ret)
{
	switch (letter) {
	case 'i':
	case 'F':
		*ret = cli_job_family(j);
		return true;
	case 'A':
		*ret = j->id;
		return true;
	case 't':
	case 'T':
		*ret = j->state;
		return true;
	case 'p':
	case 'Q':
		*ret = j->priority;
		return true;
	case 'M':
		*ret = cli_job_elapsed_sec(j, now_usec);
		return true;
	case 'l':
		*ret = j->time_limit_sec < 0 ? INT64_MAX : j->time_limit_sec;
		return true;
	case 'L':
		*ret =
		    j->time_limit_sec < 0 ? INT64_MAX : j->time_limit_sec - cli_job_elapsed_sec(j, now_usec);
		return true;
	case 'S':
		*ret = j->state != JOB_PENDING ? j->start_usec
		       : j->plan_start_usec    ? j->plan_start_usec
					       : INT64_MAX;
		return true;
	case 'V':
		*ret = j->submit_usec;
		return true;
	case 'e':
		*ret = j->end_usec ? j->end_usec : INT64_MAX;
		return true;
	case 'D':
		*ret = j->node_count ? j->node_count : j->nodes_min;
		return true;
	case 'C':
		*ret = j->cpus_total;
		return true;
	case 'm':
		*ret = (int64_t)(j->mem_cpu_mib ? j->mem_cpu_mib : j->mem_node_mib);
		return true;
	case 'U':
		*ret = j->uid;
		return true;
	case 'y':
		*ret = cli_job_spec(j)->nice;
		return true;
	default:
		return false;
	}
}

static const struct cli_column *column_of(char letter)
{
	for (size_t i = 0; i < cli_job_columns.count; i++)
		if (cli_job_columns.column[i].letter == letter)
			return &cli_job_columns.column[i];
	return NULL;
}

/* The text by which a job is sorted. Neighbours often have the same, so *LAST, the one of the job before, is
 * given again. */
static void text_of(char letter, const struct cli_cell *cell, struct mu_buf *hold, struct mu_arena *arena,
		    const char **last)
{
	const struct cli_column *column = column_of(letter);

	mu_buf_reset(hold);
	if (letter == 'P')
		mu_buf_str(hold, shown_partition(cell->job));
	else if (column)
		column->get(cell, hold);
	if (!*last || strlen(*last) != hold->len || (hold->len && memcmp(*last, hold->data, hold->len) != 0))
		*last = mu_arena_printf(arena, "%.*s", (int)hold->len, hold->len ? (char *)hold->data : "");
}

/* What is kept of a job: its place in the order and its lines. */
struct line {
	const struct squeue_list *list;
	size_t at, len; /* in list->text */
	uint32_t family, task, job;
	size_t value; /* the first of its values in list->value */
};

/* The lines so far, a job's as one. */
struct squeue_list {
	struct squeue *q;
	struct mu_arena scratch; /* of one row */
	struct mu_buf text, hold;
	struct line *line;
	struct sort_value *value;
	const char *last[SORT_LETTERS_MAX];
	size_t count, cap;
	bool broken;
};

static int compare_lines(const void *va, const void *vb)
{
	const struct line *a = va, *b = vb;
	const struct squeue *q = a->list->q;
	const struct sort_value *x = a->list->value + a->value, *y = b->list->value + b->value;

	for (size_t i = 0; i < q->sorts; i++) {
		int d = x[i].text == y[i].text ? (x[i].number > y[i].number) - (x[i].number < y[i].number)
					       : strcmp(x[i].text, y[i].text);

		if (d)
			return q->sort[i].down ? -d : d;
	}
	if (a->family != b->family)
		return a->family < b->family ? -1 : 1;
	if (a->task != b->task)
		return a->task < b->task ? -1 : 1;
	return (a->job > b->job) - (a->job < b->job);
}

/* Jobs come in the order of their ids, which is often the one that is wanted. */
static void sort_lines(struct squeue_list *l)
{
	for (size_t i = 1; i < l->count; i++)
		if (compare_lines(&l->line[i - 1], &l->line[i]) > 0) {
			qsort(l->line, l->count, sizeof *l->line, compare_lines);
			return;
		}
}

static int read_sort(struct squeue *q, const char *letters, struct mu_err *err)
{
	bool down = false;

	for (const char *p = letters; *p; p++) {
		if (strchr("-+,#", *p)) {
			down = *p == '-' || (down && *p != ',');
			continue;
		}
		if (!column_of(*p))
			return mu_fail(err, MU_EINVAL,
				       "Invalid sort specification: \"%c\" is no column's letter", *p);
		if (q->sorts == SORT_LETTERS_MAX)
			return mu_fail(err, MU_ELIMIT, "A sort specification has at most %d letters",
				       SORT_LETTERS_MAX);
		q->sort[q->sorts++] = (struct sort_key){*p, down};
		down = false;
	}
	return 0;
}

/* ---- filters that the query does not have ---- */

static bool wanted(const struct squeue *q, const Mu__JobRow *j)
{
	const Mu__JobSpec *s = cli_job_spec(j);

	if (q->licenses) {
		bool some = false;
		size_t count;
		char **words = cli_split(&q->cli->arena, s->licenses ? s->licenses : "", &count);

		for (size_t i = 0; i < count; i++) {
			words[i][strcspn(words[i], ":=")] = 0;
			some = some || cli_in_list(q->licenses, words[i]);
		}
		if (!some)
			return false;
	}
	if (q->reservation && !cli_in_list(q->reservation, s->reservation))
		return false;
	if (q->not_mine && j->uid == getuid())
		return false;
	return true;
}

static bool step_wanted(const struct squeue *q, const Mu__JobRow *job, const Mu__StepRow *s)
{
	if (!q->ids)
		return true;
	for (size_t i = 0; i < q->ids; i++) {
		if (cli_id_names(&q->id[i], job) && (!q->id[i].has_step || q->id[i].step == s->step))
			return true;
	}
	return false;
}

/* ---- printing ---- */

static void flush(struct mu_buf *out)
{
	fwrite(out->data ? (char *)out->data : "", 1, out->len, stdout);
	mu_buf_reset(out);
}

static struct cli_cell cell_of(const struct squeue *q, const Mu__JobRow *j)
{
	return (struct cli_cell){.job = j,
				 .now_usec = q->cli->now_usec,
				 .cluster = q->cli->conf.cluster,
				 .arena = &q->cli->arena,
				 .flags = q->cell_flags};
}

static void print_job(const struct squeue *q, const Mu__JobRow *j, struct mu_buf *out)
{
	const Mu__JobSpec *s = cli_job_spec(j);
	struct cli_cell cell = cell_of(q, j);

	if (!q->by_partition || j->state != JOB_PENDING || s->n_partition < 2) {
		cli_table_row(&q->format, &cell, out);
		return;
	}
	for (size_t i = 0; i < s->n_partition; i++) {
		cell.partition = s->partition[i];
		cli_table_row(&q->format, &cell, out);
	}
}

static struct line *line_new(struct squeue_list *l)
{
	size_t sorts = l->q->sorts;

	if (l->count == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 256;
		l->line = realloc(l->line, l->cap * sizeof *l->line);
		l->value = realloc(l->value, l->cap * (sorts + 1) * sizeof *l->value);
		if (!l->line || !l->value)
			abort();
	}
	l->line[l->count] = (struct line){.list = l, .at = l->text.len, .value = l->count * sorts};
	return &l->line[l->count++];
}

static void list_job(void *arg, const Mu__JobRow *j)
{
	struct squeue_list *l = arg;
	struct squeue *q = l->q;
	struct cli_cell cell = cell_of(q, j);
	struct line *line = line_new(l);

	line->job = j->id;
	line->family = cli_job_family(j);
	line->task = j->array_job ? cli_job_first_task(j) : 0;
	print_job(q, j, &l->text);
	line->len = l->text.len - line->at;
	for (size_t i = 0; i < q->sorts; i++) {
		struct sort_value *v = &l->value[line->value + i];

		*v = (struct sort_value){0};
		if (!number_of(q->sort[i].letter, j, q->cli->now_usec, &v->number)) {
			text_of(q->sort[i].letter, &cell, &l->hold, &q->cli->arena, &l->last[i]);
			v->text = l->last[i];
		}
	}
}

/* One row becomes its lines at once: of thousands of jobs their lines are kept, not the unpacked rows. */
static void list_row(void *arg, struct mu_view row)
{
	struct squeue_list *l = arg;
	struct squeue *q = l->q;

	mu_arena_reset(&l->scratch);
	Mu__JobRow *j = (Mu__JobRow *)mu_pb_unpack(&mu__job_row__descriptor, row.data, row.len, &l->scratch);
	if (!j) {
		l->broken = true;
		return;
	}
	j = cli_job_named(&l->scratch, j, q->id, q->ids);
	if (!j || !wanted(q, j))
		return;
	if (q->by_task)
		cli_job_each(j, list_job, l);
	else
		list_job(l, j);
}

static void list_free(struct squeue_list *l)
{
	mu_arena_free(&l->scratch);
	mu_buf_free(&l->text);
	mu_buf_free(&l->hold);
	free(l->line);
	free(l->value);
}

static void print_list(const struct squeue_list *l)
{
	struct mu_buf out MU_CLEANUP(mu_buf_free) = {0};

	if (!cli_args_has(l->q->args, OPT_noheader))
		cli_table_heading(&l->q->format, &out);
	for (size_t i = 0; i < l->count; i++) {
		mu_buf_add(&out, l->text.data + l->line[i].at, l->line[i].len);
		if (out.len > 60000)
			flush(&out);
	}
	flush(&out);
}

/* An unknown id alone is an error; among several, also where one is written twice, it is none. */
static bool nobody_knows(const struct squeue *q, int rc)
{
	return rc == MU_EJOBID && q->ids > 1;
}

static int list_jobs(struct squeue *q, struct mu_err *err)
{
	MU_CLEANUP(list_free) struct squeue_list l = {.q = q};
	Mu__Query ask = q->query;
	int rc = cli_query(q->cli, &ask, list_row, &l, err);

	if (rc && !nobody_knows(q, rc))
		return rc;
	if (l.broken)
		return mu_fail(err, MU_EPROTO, "A controller sent a row that cannot be read");
	sort_lines(&l);
	print_list(&l);
	return 0;
}

static int load_error(const struct cli *c, const struct mu_err *err)
{
	/* What a controller says about jobs has Slurm's words before it; what is wrong on the command line
	 * has the command's name. */
	if (err->code == MU_EJOBID || err->code == MU_ECONNECT || err->code == MU_ETIMEOUT ||
	    err->code == MU_EAUTH || err->code == MU_EBUSY || err->code == MU_ENOTREADY)
		fprintf(stderr, "slurm_load_jobs error: %s\n", mu_strerror(err->code));
	if (!(err->code == MU_EJOBID) && strcmp(err->text, mu_strerror(err->code)) != 0)
		cli_error(c, "%s", err->text);
	return 1;
}

static int list_steps(struct squeue *q)
{
	Mu__Query ask = q->query;
	struct mu_buf out MU_CLEANUP(mu_buf_free) = {0};
	struct mu_err err = {0};
	void **steps, **jobs;
	size_t n_steps, n_jobs, next = 0;

	ask.what = MU__WHAT__WHAT_JOBS;
	ask.n_state = 0;
	if (cli_query_all(q->cli, &ask, &mu__job_row__descriptor, &jobs, &n_jobs, &err))
		return load_error(q->cli, &err);
	ask = (Mu__Query)MU__QUERY__INIT;
	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_STEPS;
	ask.job = q->query.job;
	ask.n_job = q->query.n_job;
	if (cli_query_all(q->cli, &ask, &mu__step_row__descriptor, &steps, &n_steps, &err))
		return load_error(q->cli, &err);
	if (!cli_args_has(q->args, OPT_noheader))
		cli_table_heading(&q->format, &out);
	for (size_t i = 0; i < n_steps; i++) {
		const Mu__StepRow *s = steps[i];
		const Mu__JobRow *job = NULL;

		for (size_t k = 0; k < n_jobs && !job; k++) { /* both come in the order of job ids */
			const Mu__JobRow *j = jobs[(next + k) % n_jobs];

			if (j->id == s->job) {
				job = j;
				next = (next + k) % n_jobs;
			}
		}
		if (job && s->state == JOB_RUNNING && step_wanted(q, job, s) && wanted(q, job))
			cli_table_row(
			    &q->format,
			    &(struct cli_cell){
				.step = s, .job = job, .now_usec = q->cli->now_usec, .arena = &q->cli->arena},
			    &out);
	}
	flush(&out);
	return 0;
}

/* The model of a job needs the whole row; it comes in the order of ids. */
static int list_json(struct squeue *q, struct mu_err *err)
{
	struct cli_model m = {0};
	Mu__Query ask = q->query;
	void **rows;
	size_t count;
	int rc = cli_query_all(q->cli, &ask, &mu__job_row__descriptor, &rows, &count, err);

	if (rc && !nobody_knows(q, rc))
		return load_error(q->cli, err);
	count = rc ? 0 : count;
	cli_model_begin(q->cli, &m);
	json_array(&m.json, "jobs");
	for (size_t i = 0; i < count; i++)
		if ((rows[i] = cli_job_named(&q->cli->arena, rows[i], q->id, q->ids)) && wanted(q, rows[i]))
			cli_model_job(&m.json, q->cli, rows[i]);
	json_array_end(&m.json);
	return cli_model_end(&m);
}

static int list_once(struct squeue *q)
{
	struct mu_err err = {0};

	if (q->steps)
		return list_steps(q);
	if (q->json)
		return list_json(q, &err);
	return list_jobs(q, &err) ? load_error(q->cli, &err) : 0;
}

/* ---- options ---- */

static int read_ids(struct squeue *q, const char *list, struct mu_err *err)
{
	size_t count;
	char **words = cli_split_ids(&q->cli->arena, list, &count);
	struct cli_job_id *more = mu_arena_alloc(&q->cli->arena, (q->ids + count + 1) * sizeof *more);

	if (q->ids)
		memcpy(more, q->id, q->ids * sizeof *more);
	q->id = more;
	for (size_t i = 0; i < count; i++) {
		int rc = cli_job_id_parse(&q->cli->arena, words[i], &q->id[q->ids], NULL);

		if (rc)
			return mu_fail(err, MU_EINVAL, "Invalid job id: %s", words[i]);
		cli_filter_id(q->cli, &q->query, &q->id[q->ids++]);
	}
	return 0;
}

static int read_states(struct squeue *q, struct mu_err *err)
{
	static const uint32_t shown[] = {JOB_PENDING,	  JOB_RUNNING,	    JOB_SUSPENDED,   JOB_COMPLETING,
					 JOB_CONFIGURING, JOB_REQUEUE_HOLD, JOB_STOPPED,     JOB_SIGNALING,
					 JOB_STAGE_OUT,	  JOB_RESIZING,	    JOB_SPECIAL_EXIT};
	const char *states = cli_args_value(q->args, OPT_list_states);

	if (q->start) {
		q->query.n_state = 1;
		q->query.state = mu_arena_dup(&q->cli->arena, shown, sizeof shown[0]);
		return 0;
	}
	if (states)
		return cli_filter_states(q->cli, states, &q->query, err);
	q->query.n_state = sizeof shown / sizeof *shown;
	q->query.state = mu_arena_dup(&q->cli->arena, shown, sizeof shown);
	return 0;
}

static int read_format(struct squeue *q, struct mu_err *err)
{
	const struct cli_given *letters = cli_args_last(q->args, OPT_format_letters),
			       *names = cli_args_last(q->args, OPT_format_names);
	const struct cli_columns *set = q->steps ? &cli_step_columns : &cli_job_columns;
	const char *text = FORMAT_SHORT;

	if (letters && names && letters->level == names->level)
		return mu_fail(err, MU_EINVAL,
			       "-o/--format and -O/--Format are incompatible: give one of them");
	if (names && (!letters || names->level > letters->level))
		return cli_format_names(set, names->value, &q->cli->arena, &q->format, err);
	if (letters)
		text = letters->value;
	else if (q->steps)
		text = FORMAT_STEPS;
	else if (q->start)
		text = FORMAT_START;
	else if (cli_args_has(q->args, OPT_long))
		text = FORMAT_LONG;
	return cli_format_letters(set, text, &q->cli->arena, &q->format, err);
}

static int prepare(struct squeue *q, struct mu_err *err)
{
	const struct cli_args *args = q->args;
	int rc;

	q->steps = cli_args_has(args, OPT_steps);
	q->start = cli_args_has(args, OPT_start);
	q->by_task = cli_args_has(args, OPT_list_array);
	q->by_partition = cli_args_has(args, OPT_list_priority);
	q->json = cli_model_wanted(args);
	q->query = (Mu__Query)MU__QUERY__INIT;
	q->query.has_what = q->query.has_slim = 1;
	q->query.what = MU__WHAT__WHAT_JOBS;
	q->query.slim = 1;
	if (args->word_count && cli_args_has(args, OPT_jobs) && !cli_args_value(args, OPT_jobs))
		return mu_fail(err, MU_EINVAL, "Invalid job id: %s", args->words[0]);
	if (args->word_count)
		return mu_fail(err, MU_EINVAL, "Unrecognized option: %s", args->words[0]);
	for (size_t i = 0; i < args->count; i++) {
		const struct cli_given *g = &args->given[i];

		if (g->option->arg == MU_ARG_IDS && g->value && (rc = read_ids(q, g->value, err)))
			return rc;
	}
	q->not_mine = cli_args_has(args, OPT_notme);
	q->licenses = cli_args_value(args, OPT_list_licenses);
	q->reservation = cli_args_value(args, OPT_list_reservation);
	q->cell_flags = cli_args_has(args, OPT_noconvert) ? CELL_NOCONVERT : 0;
	const char *sort = cli_args_value(args, OPT_sort);
	rc = read_sort(q, sort ? sort : q->start ? "S,i" : "P,t,-p", err);
	if (!rc)
		rc = read_format(q, err);
	if (!rc)
		rc = cli_filter_query(q->cli, args, &q->query, err);
	q->query.has_skip_hidden = 1;
	q->query.skip_hidden = !cli_args_has(args, OPT_all) && !q->query.n_partition && !q->query.n_job;
	if (!rc)
		rc = read_states(q, err);
	if (!rc)
		rc = cli_check_clusters(q->cli, args, err);
	if (!rc && cli_args_has(args, OPT_list_nodelist))
		rc = cli_filter_nodes(q->cli, cli_args_value(args, OPT_list_nodelist), true, &q->query, err);
	return rc;
}

static int run(struct cli *c, const struct cli_args *args, bool first)
{
	struct squeue q = {.cli = c, .args = args};
	struct mu_err err = {0};
	const char *iterate;
	int64_t seconds = 0;
	int rc;

	(void)first;
	if (c->many)
		printf("CLUSTER: %s\n", c->conf.cluster);
	if (prepare(&q, &err))
		return load_error(c, &err);
	iterate = cli_args_value(args, OPT_iterate);
	if (iterate && mu_number_parse("--iterate", iterate, 1, 86400 * 365, &seconds, &err)) {
		cli_error(c, "Invalid --iterate specification: \"%s\" (seconds, 1 and up)", iterate);
		return 1;
	}
	for (;;) {
		char date[64];

		if ((iterate || (cli_args_has(args, OPT_long) && !cli_args_has(args, OPT_noheader))) &&
		    !q.json) {
			cli_date_line(date, sizeof date);
			printf("%s\n", date);
		}
		rc = list_once(&q);
		if (!iterate)
			return rc;
		cli_as_of(c);
		printf("\n");
		fflush(stdout);
		nanosleep(&(struct timespec){.tv_sec = seconds}, NULL);
	}
}

int cli_squeue(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	int rc;

	if (cli_begin(c, argc, argv, false, &args, &rc))
		return rc;
	if (cli_args_has(&args, OPT_list_helpformat) || cli_args_has(&args, OPT_list_helpFormat)) {
		cli_table_names(cli_args_has(&args, OPT_steps) ? &cli_step_columns : &cli_job_columns,
				stdout);
		return 0;
	}
	return cli_each_cluster(c, &args, run);
}
