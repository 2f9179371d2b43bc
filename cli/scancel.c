/* cli/scancel.c: ends jobs and steps, or sends them signals. Ids that need no look at the jobs go out in one
 * request. */
#include <stdlib.h>
#include <string.h>

#include "cli/array.h"
#include "cli/column.h"
#include "cli/filter.h"
#include "cli/option.h"
#include "proto/states.h"

enum { BATCH_ONLY = 1, FULL = 2, IDS_MAX = 10000 /* ids in one request: 5 bytes each */ };

struct scancel {
	struct cli *cli;
	const struct cli_args *args;
	Mu__Query query;
	uint32_t signal, flags;
	bool ask, filtered;
	struct cli_job_id *id;
	size_t ids;
	int exit_code;
};

/* "job 5", "batch job 5", "step 5.0" */
static const char *target(const struct scancel *s, uint32_t job, bool has_step, uint32_t step)
{
	struct mu_arena *a = &s->cli->arena;

	if (has_step && step == MU_STEP_BATCH)
		return mu_arena_printf(a, "step %u.batch", job);
	if (has_step)
		return mu_arena_printf(a, "step %u.%u", job, step);
	return mu_arena_printf(a, "%sjob %u", s->flags & BATCH_ONLY && s->signal ? "batch " : "", job);
}

static void announce(const struct scancel *s, uint32_t job, bool has_step, uint32_t step)
{
	if (!s->cli->verbose)
		return;
	if (s->signal)
		cli_say(s->cli, "Signal %u to %s", s->signal, target(s, job, has_step, step));
	else
		cli_say(s->cli, "Terminating %s", target(s, job, has_step, step));
}

static void complain(struct scancel *s, uint32_t job, bool has_step, uint32_t step, int code,
		     const char *text)
{
	bool over = code == MU_EJOBID || code == MU_EALREADYDONE;

	/* What is over already is no failure, and is told only to those who watch. */
	if (!over)
		s->exit_code = 1;
	if (s->cli->quiet || (over && !s->cli->verbose && !s->ask))
		return;
	if (has_step)
		cli_error(s->cli, "Kill job error on job step id %s: %s", target(s, job, true, step) + 5,
			  text && *text ? text : mu_strerror(code));
	else
		cli_error(s->cli, "Kill job error on job id %u: %s", job,
			  text && *text ? text : mu_strerror(code));
}

/* Jobs, and tasks of arrays, that one request names. */
struct victims {
	uint32_t *job;
	size_t count;
	Mu__ArrayTasks **some;
	size_t n_some;
};

static void send_some(struct scancel *s, uint32_t *jobs, size_t count, Mu__ArrayTasks **some, size_t n_some,
		      bool has_step, uint32_t step)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__KillAsk ask = MU__KILL_ASK__INIT;
	Mu__JobSignal what = MU__JOB_SIGNAL__INIT;
	Mu__Reply *reply;
	struct mu_err err = {0};

	what.job = jobs;
	what.n_job = count;
	what.some = some;
	what.n_some = n_some;
	what.has_signal = what.has_flags = 1;
	what.signal = s->signal;
	what.flags = s->flags;
	what.has_step = has_step;
	what.step = step;
	ask.signal = &what;
	request.ask_case = MU__REQUEST__ASK_KILL;
	request.kill = &ask;
	if (cli_ask(s->cli, &request, &reply, &err)) {
		cli_error(s->cli, "Kill job error on job id %u: %s", count ? jobs[0] : some[0]->job,
			  err.text);
		s->exit_code = 1;
		return;
	}
	if (reply->code && !reply->n_verdict) {
		for (size_t i = 0; i < count; i++)
			complain(s, jobs[i], has_step, step, reply->code, reply->text);
		for (size_t i = 0; i < n_some; i++)
			complain(s, some[i]->job, has_step, step, reply->code, reply->text);
	}
	for (size_t i = 0; i < reply->n_verdict; i++) {
		if (reply->verdict[i]->code)
			complain(s, reply->verdict[i]->job, has_step, step, reply->verdict[i]->code,
				 reply->verdict[i]->text);
	}
}

static void send_kill(struct scancel *s, const struct victims *v, bool has_step, uint32_t step)
{
	for (size_t at = 0; at < v->count; at += IDS_MAX)
		send_some(s, v->job + at, v->count - at < IDS_MAX ? v->count - at : IDS_MAX, NULL, 0,
			  has_step, step);
	for (size_t at = 0; at < v->n_some; at += IDS_MAX)
		send_some(s, NULL, 0, v->some + at, v->n_some - at < IDS_MAX ? v->n_some - at : IDS_MAX,
			  has_step, step);
}

static void send_step(struct scancel *s, uint32_t job, uint32_t step)
{
	struct victims one = {.job = &job, .count = 1};

	send_kill(s, &one, true, step);
}

static struct victims room_for(struct scancel *s, size_t count)
{
	return (struct victims){.job = mu_arena_alloc(&s->cli->arena, (count + 1) * sizeof(uint32_t)),
				.some =
				    mu_arena_alloc(&s->cli->arena, (count + 1) * sizeof(Mu__ArrayTasks *))};
}

/* A row's own tasks only: its number may be the array's, which stands for all. */
static void add_row(struct scancel *s, struct victims *v, const Mu__JobRow *j)
{
	if (j->array_job)
		v->some[v->n_some++] = cli_array_tasks(&s->cli->arena, j);
	else
		v->job[v->count++] = j->id;
}

static const char *name_of(const struct scancel *s, const Mu__JobRow *j)
{
	struct mu_buf name MU_CLEANUP(mu_buf_free) = {0};

	cli_job_name(j, &name);
	return mu_arena_strdup(&s->cli->arena, (char *)name.data);
}

static bool confirm(const struct scancel *s, const Mu__JobRow *j, bool has_step, uint32_t step)
{
	char answer[64];
	const char *name = cli_job_spec(j)->name ? cli_job_spec(j)->name : "",
		   *partition = j->partition ? j->partition : "";

	if (!s->ask)
		return true;
	if (has_step)
		printf("Cancel step_id=%s name=%s partition=%s [y/n]? ", target(s, j->id, true, step) + 5,
		       name, partition);
	else
		printf("Cancel job_id=%s name=%s partition=%s [y/n]? ", name_of(s, j), name, partition);
	fflush(stdout);
	return fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y');
}

static void say_none(const struct scancel *s)
{
	static const struct {
		int option;
		const char *name;
	} names[] = {{OPT_list_account, "account"},   {OPT_list_name, "job_name"},
		     {OPT_jobname, "job_name"},	      {OPT_list_partition, "partition"},
		     {OPT_list_qos, "qos"},	      {OPT_list_reservation, "reservation"},
		     {OPT_kill_state, "state"},	      {OPT_list_user, "user_name"},
		     {OPT_list_nodelist, "nodelist"}, {OPT_wckey, "wckey"}};
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};

	if (!s->cli->verbose)
		return;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		const char *value = cli_args_value(s->args, names[i].option);

		if (value)
			mu_buf_printf(&text, " %s=%s", names[i].name, value);
	}
	if (cli_args_has(s->args, OPT_me))
		mu_buf_str(&text, " user_name=me");
	cli_error(s->cli, "No active jobs match ALL job filters, including:%s",
		  text.data ? (char *)text.data : "");
}

static bool row_wanted(const struct scancel *s, const Mu__JobRow *j)
{
	const char *reservation = cli_args_value(s->args, OPT_list_reservation),
		   *wckey = cli_args_value(s->args, OPT_wckey);

	if (mu_job_state_ended(j->state))
		return false;
	if (reservation && !cli_in_list(reservation, cli_job_spec(j)->reservation))
		return false;
	return !wckey || cli_in_list(wckey, cli_job_spec(j)->wckey);
}

/* What of J was named, in V; its steps at once. */
static void look_at(struct scancel *s, struct victims *v, Mu__JobRow *j)
{
	struct cli_job_id *whole = mu_arena_alloc(&s->cli->arena, (s->ids + 1) * sizeof *whole);
	size_t n = 0;

	for (size_t k = 0; k < s->ids; k++) {
		if (!s->id[k].has_step) {
			whole[n++] = s->id[k];
		} else if (cli_id_names(&s->id[k], j) && confirm(s, j, true, s->id[k].step)) {
			announce(s, j->id, true, s->id[k].step);
			send_step(s, j->id, s->id[k].step);
		}
	}
	if (s->ids)
		j = n ? cli_job_named(&s->cli->arena, j, whole, n) : NULL;
	if (j && confirm(s, j, false, 0)) {
		announce(s, j->id, false, 0);
		add_row(s, v, j);
	}
}

/* Ids that name no job, or one that is over. */
static void say_over(struct scancel *s, Mu__JobRow *const *rows, size_t count)
{
	for (size_t k = 0; k < s->ids; k++) {
		bool found = false, alive = false;

		for (size_t i = 0; i < count && !alive; i++) {
			bool named = cli_id_names(&s->id[k], rows[i]);

			found = found || named;
			alive = named && !mu_job_state_ended(rows[i]->state);
		}
		if (!alive)
			complain(s, s->id[k].job, false, 0, found ? MU_EALREADYDONE : MU_EJOBID, NULL);
	}
}

/* Jobs are looked at first: filters or questions. */
static void by_query(struct scancel *s)
{
	struct mu_err err = {0};
	void **rows;
	size_t count;

	if (cli_query_all(s->cli, &s->query, &mu__job_row__descriptor, &rows, &count, &err)) {
		if (err.code != MU_EJOBID) {
			cli_error(s->cli, "%s", err.text);
			s->exit_code = 1;
			return;
		}
		count = 0;
	}
	struct victims v = room_for(s, count);
	for (size_t i = 0; i < count; i++)
		if (row_wanted(s, rows[i]))
			look_at(s, &v, rows[i]);
	if (v.count + v.n_some)
		send_kill(s, &v, false, 0);
	else if (!count && s->filtered)
		say_none(s);
	if (!s->filtered)
		say_over(s, (Mu__JobRow *const *)rows, count);
}

static void by_ids(struct scancel *s)
{
	struct victims v = room_for(s, s->ids);

	for (size_t i = 0; i < s->ids; i++) {
		const struct cli_job_id *id = &s->id[i];

		struct mu_err err = {0};
		uint32_t job;

		if (cli_component(s->cli, id, &job, &err)) {
			complain(s, id->job, false, 0, err.code, err.text);
			continue;
		}
		announce(s, job, id->has_step, id->step);
		if (id->has_step)
			send_step(s, job, id->step);
		else if (id->has_task)
			v.some[v.n_some++] = cli_array_some(&s->cli->arena, id);
		else
			v.job[v.count++] = job;
	}
	send_kill(s, &v, false, 0);
}

/* A step of a task is known by the task's own number. */
static bool names_task_step(const struct scancel *s)
{
	for (size_t i = 0; i < s->ids; i++)
		if (s->id[i].has_task && s->id[i].has_step)
			return true;
	return false;
}

static int read_words(struct scancel *s, struct mu_err *err)
{
	size_t total = 0;

	for (size_t i = 0; i < s->args->word_count; i++) {
		size_t count;
		char **words = cli_split_ids(&s->cli->arena, s->args->words[i], &count);
		struct cli_job_id *more = mu_arena_alloc(&s->cli->arena, (s->ids + count + 1) * sizeof *more);
		size_t open = 0;

		if (s->ids)
			memcpy(more, s->id, s->ids * sizeof *more);
		s->id = more;
		for (size_t k = 0; k < count; k++) {
			if (cli_job_id_parse(&s->cli->arena, words[k], &s->id[s->ids], err))
				return err->code;
			cli_filter_id(s->cli, &s->query, &s->id[s->ids++]);
			open++;
		}
		total += open;
	}
	return 0;
}

static int prepare(struct scancel *s, struct mu_err *err)
{
	static const uint32_t alive[] = {JOB_PENDING,	  JOB_RUNNING,	    JOB_SUSPENDED,    JOB_COMPLETING,
					 JOB_CONFIGURING, JOB_REQUEUE_HOLD, JOB_SPECIAL_EXIT, JOB_STOPPED};
	static const int filters[] = {OPT_list_account,	 OPT_list_name,
				      OPT_jobname,	 OPT_list_partition,
				      OPT_list_qos,	 OPT_list_reservation,
				      OPT_kill_state,	 OPT_list_user,
				      OPT_list_nodelist, OPT_me,
				      OPT_wckey};
	const char *signal = cli_args_value(s->args, OPT_kill_signal),
		   *states = cli_args_value(s->args, OPT_kill_state);
	int rc = 0;

	s->query = (Mu__Query)MU__QUERY__INIT;
	s->query.has_what = s->query.has_slim = s->query.slim = 1;
	s->query.what = MU__WHAT__WHAT_JOBS;
	for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
		const struct cli_given *g = cli_args_last(s->args, filters[i]);

		/* An empty word is an unset variable of a script, not "all of them". */
		if (g && g->value && !g->value[strspn(g->value, ", ")])
			return mu_fail(err, MU_EINVAL, "Invalid --%s specification: \"%s\"", g->option->name,
				       g->value);
		s->filtered = s->filtered || g;
	}
	s->ask = cli_args_has(s->args, OPT_interactive);
	if (cli_args_has(s->args, OPT_kill_batch))
		s->flags = BATCH_ONLY;
	if (cli_args_has(s->args, OPT_full))
		s->flags = FULL;
	for (size_t i = 0; i < s->args->word_count; i++)
		if (!s->args->words[i][strspn(s->args->words[i], ", ")])
			return mu_fail(err, MU_EINVAL, "Invalid job id %s", s->args->words[i]);
	if (!s->args->word_count && !s->filtered)
		return mu_fail(err, MU_EINVAL, "No job identification provided");
	if (signal)
		rc = cli_signal_parse(signal, &s->signal, err);
	/* KILL for a job as a whole is its end, and is recorded as a cancellation. */
	if (s->signal == 9 && !(s->flags & BATCH_ONLY))
		s->signal = 0;
	if (!rc)
		rc = read_words(s, err);
	if (!rc) /* one option of --wckey is shared with submitters and has no field in a query */
		rc = cli_filter_query(s->cli, s->args, &s->query, err);
	if (!rc && states)
		rc = cli_filter_states(s->cli, states, &s->query, err);
	if (!rc && s->filtered && !s->query.n_state) {
		s->query.n_state = sizeof alive / sizeof *alive;
		s->query.state = mu_arena_dup(&s->cli->arena, alive, sizeof alive);
	}
	if (!rc)
		rc = cli_check_clusters(s->cli, s->args, err);
	if (!rc && cli_args_has(s->args, OPT_list_nodelist))
		rc = cli_filter_nodes(s->cli, cli_args_value(s->args, OPT_list_nodelist), true, &s->query,
				      err);
	return rc;
}

int cli_scancel(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	struct scancel s = {.cli = c, .args = &args};
	struct mu_err err = {0};
	int rc;

	if (cli_begin(c, argc, argv, false, &args, &rc))
		return rc;
	if (prepare(&s, &err)) {
		char *rest = err.text, *line;

		while ((line = strsep(&rest, "\n")))
			cli_error(c, "%s", line);
		return 1;
	}
	if (s.filtered || s.ask || names_task_step(&s))
		by_query(&s);
	else
		by_ids(&s);
	return s.exit_code;
}
