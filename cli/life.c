/* cli/life.c: the lives of jobs and nodes, moment by moment, each with its cause and author. */
#include "cli/array.h"
#include "cli/life.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/array.h"
#include "cli/dump.h"
#include "cli/filter.h"
#include "cli/muster.h"
#include "cli/scontrol.h"
#include "proto/event.pb-c.h"
#include "proto/pb.h"
#include "proto/states.h"

const char *life_event(uint32_t tag)
{
	const ProtobufCFieldDescriptor *f =
	    protobuf_c_message_descriptor_get_field(&mu__event__descriptor, tag);

	return f ? f->name : "event";
}

void life_cause(const Mu__Moment *m, struct mu_buf *out)
{
	if (m->event == MU__EVENT__KIND_DECIDED)
		mu_buf_printf(out, "decided in pass %" PRIu64, m->pass);
	else
		mu_buf_str(out, m->event ? life_event(m->event) : "an entry that is no longer kept");
	if (m->user && m->verifier && strcmp(m->verifier, "controller") != 0)
		mu_buf_printf(out, " by %s", m->user);
	if (m->host && m->event != MU__EVENT__KIND_DECIDED)
		mu_buf_printf(out, " from %s", m->host);
	mu_buf_printf(out, ", @%" PRIu64, m->pos);
}

int life_task(struct cli *c, const struct cli_job_id *id, bool alone, uint32_t *ret)
{
	uint32_t shared = 0;
	Mu__Query query = MU__QUERY__INIT;
	struct mu_err err = {0};
	void **rows;
	size_t n = 0;
	char *end = NULL;
	unsigned long task = id->has_task && id->tasks ? strtoul(id->tasks, &end, 10) : 0;

	*ret = id->job;
	if (!id->has_task)
		return 0;
	query.has_what = 1;
	query.what = MU__WHAT__WHAT_ACCT;
	cli_filter_job(c, &query, id->job);
	if (end && !*end && cli_query_all(c, &query, &mu__hist_row__descriptor, &rows, &n, &err) == 0)
		for (size_t i = 0; i < n; i++) {
			const Mu__JobRow *j = ((Mu__HistRow *)rows[i])->job;
			if (j && j->has_array_task && j->array_job == id->job && j->array_task == task) {
				*ret = j->id;
				return 0;
			}
			if (j && j->state == JOB_PENDING && cli_id_names(id, j))
				shared = j->id;
		}
	if (shared && !alone) {
		*ret = shared;
		return 0;
	}
	if (shared)
		cli_error(c,
			  "Task %s of array %u has no life of its own as long as it waits with others; name "
			  "the array",
			  id->tasks, id->job);
	else
		cli_error(c, "Invalid job id specified: %u_%s", id->job, id->tasks ? id->tasks : "?");
	return 1;
}

int life_id(struct cli *c, const char *word, bool alone, uint32_t *ret)
{
	struct cli_job_id id;

	if (cli_job_id_parse(&c->arena, word, &id, NULL)) {
		cli_error(c, "Invalid job id specified: %s", word);
		return 1;
	}
	if (id.has_component) {
		struct mu_err err = {0};

		if (cli_component(c, &id, ret, &err) == 0)
			return 0;
		cli_error(c, "%s: %s", word, err.text);
		return 1;
	}
	return life_task(c, &id, alone, ret);
}

static int ask(struct cli *c, Mu__Query *query, void ***ret, size_t *ret_count)
{
	struct mu_err err = {0};

	query->has_what = 1;
	query->what = MU__WHAT__WHAT_MOMENTS;
	if (cli_query_all(c, query, &mu__moment__descriptor, ret, ret_count, &err)) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	return 0;
}

static void print_line(const Mu__Moment *m, const char *what, FILE *out)
{
	struct mu_buf by MU_CLEANUP(mu_buf_free) = {0};
	char when[32];

	mu_date_print(m->time_usec, &cli_zone, when);
	life_cause(m, &by);
	fprintf(out, "%s.%06d  %-40s  %s\n", when, (int)(m->time_usec % 1000000), what, (char *)by.data);
}

/* One object a line. */
static int print_json(void **rows, size_t n, FILE *out)
{
	for (size_t i = 0; i < n; i++) {
		struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};
		struct cli_json j = {.out = &text};
		cli_dump_json(&j, NULL, rows[i]);
		for (size_t k = 0; k < text.len; k++)
			text.data[k] = text.data[k] == '\n' ? ' ' : text.data[k];
		fprintf(out, "%.*s\n", (int)text.len, (char *)text.data);
	}
	return 0;
}

/* What the moment says that the one before did not. */
static void job_words(const Mu__JobRow *j, const Mu__JobRow *before, struct mu_buf *out)
{
	char when[32];

	mu_buf_str(out, mu_job_state_long(j->state));
	if (j->state == JOB_PENDING && j->reason)
		mu_buf_printf(out, " (%s%s%s)", mu_job_reason_word(j->reason), j->reason_detail ? ", " : "",
			      j->reason_detail ? j->reason_detail : "");
	if (j->state == JOB_PENDING && j->plan_start_usec) {
		mu_date_print(j->plan_start_usec, &cli_zone, when);
		mu_buf_printf(out, " expected %s", when);
	}
	if (j->state != JOB_PENDING && j->node_list && (!before || before->state == JOB_PENDING))
		mu_buf_printf(out, " on %s", j->node_list);
	if (j->signal_seq && (!before || before->signal_seq != j->signal_seq))
		mu_buf_printf(out, " signal=%u", j->pending_signal);
	if (j->system_comment &&
	    (!before || !before->system_comment || strcmp(before->system_comment, j->system_comment) != 0))
		mu_buf_printf(out, ", %s", j->system_comment);
	if (j->restarts && before && before->restarts != j->restarts)
		mu_buf_printf(out, " restarts=%u", j->restarts);
	if (mu_job_state_ended(j->state))
		mu_buf_printf(out, " exit=%d:%d", j->exit_code, j->exit_signal);
	if (j->end_detail && (!before || !before->end_detail))
		mu_buf_printf(out, " %s", j->end_detail);
	if (before && before->time_limit_sec != j->time_limit_sec) {
		mu_span_print(j->time_limit_sec, 0, when);
		mu_buf_printf(out, " TimeLimit=%s", when);
	}
	if (before && before->partition && j->partition && strcmp(before->partition, j->partition) != 0)
		mu_buf_printf(out, " Partition=%s", j->partition);
}

int life_job(struct cli *c, uint32_t job, bool json, FILE *out)
{
	Mu__Query query = MU__QUERY__INIT;
	const Mu__JobRow *before = NULL;
	void **rows;
	size_t n;

	query.job = &job;
	query.n_job = 1;
	if (ask(c, &query, &rows, &n))
		return 1;
	if (!n) {
		fprintf(stderr, "slurm_load_jobs error: %s\n", mu_strerror(MU_EJOBID));
		return 1;
	}
	if (json)
		return print_json(rows, n, out);
	fprintf(out, "JobId=%u\n", job);
	for (size_t i = 0; i < n; i++) {
		const Mu__Moment *m = rows[i];
		struct mu_buf what MU_CLEANUP(mu_buf_free) = {0};
		if (!m->job)
			continue;
		job_words(m->job, before, &what);
		print_line(m, (char *)what.data, out);
		before = m->job;
	}
	return 0;
}

int life_node(struct cli *c, const char *node, bool json, FILE *out)
{
	Mu__Query query = MU__QUERY__INIT;
	char *name = (char *)node, state[128];
	void **rows;
	size_t n;

	query.node = &name;
	query.n_node = 1;
	if (ask(c, &query, &rows, &n))
		return 1;
	if (!n) {
		fprintf(stderr, "Node %s not found\n", node);
		return 1;
	}
	if (json)
		return print_json(rows, n, out);
	fprintf(out, "NodeName=%s\n", node);
	for (size_t i = 0; i < n; i++) {
		const Mu__Moment *m = rows[i];
		struct mu_buf what MU_CLEANUP(mu_buf_free) = {0};
		if (!m->node)
			continue;
		mu_node_state_scontrol(m->node->base_state, m->node->flags, 0, 1, state);
		mu_buf_str(&what, state);
		if (m->node->reason)
			mu_buf_printf(&what, " Reason=%s", m->node->reason);
		print_line(m, (char *)what.data, out);
	}
	return 0;
}

/* ---- acts ---- */

/* The event without its author and its request's number. */
static void act_words(const Mu__Event *e, struct mu_buf *out)
{
	Mu__Event bare = *e;

	bare.author = NULL;
	bare.request = NULL;
	cli_dump_text(&bare.base, out);
}

static void print_act(struct cli *c, const Mu__Moment *m)
{
	struct mu_buf what MU_CLEANUP(mu_buf_free) = {0};
	struct mu_buf by MU_CLEANUP(mu_buf_free) = {0};
	char when[32];
	const Mu__Event *e =
	    (Mu__Event *)mu_pb_unpack(&mu__event__descriptor, m->body.data, m->body.len, &c->arena);

	mu_date_print(m->time_usec, &cli_zone, when);
	if (e)
		act_words(e, &what);
	else
		mu_buf_printf(&what, "%s, no longer kept", life_event(m->event));
	printf("%s  %-10s  %-9s  %.*s%s%s\n", when, m->user ? m->user : "?", m->code ? "denied" : "done",
	       (int)(what.len > 300 ? 300 : what.len), (char *)what.data, m->text ? ": " : "",
	       m->text ? m->text : "");
}

static int read_when(struct cli *c, const char *option, const char *text, int64_t *ret)
{
	if (!text || !mu_date_parse(text, cli_now_usec(), 0, &cli_zone, ret, NULL))
		return 0;
	cli_error(c, "Invalid time specification: \"%s\" of --%s", text, option);
	return 1;
}

int muster_acts(struct cli *c, size_t count, char **words)
{
	const char *who = NULL, *since = NULL, *until = NULL, *json = NULL;
	const struct muster_word list[] = {{"who", MUSTER_VALUE, &who},
					   {"since", MUSTER_VALUE, &since},
					   {"until", MUSTER_VALUE, &until},
					   {"json", MUSTER_FLAG, &json}};
	Mu__Query query = MU__QUERY__INIT;
	struct mu_err err = {0};
	void **rows;
	size_t n;
	int left = muster_words(c, count, words, list, sizeof list / sizeof *list);

	if (left < 0)
		return 1;
	if (left) {
		cli_error(c, "usage: muster audit acts [--who USERS] [--since TIME] [--until TIME] [--json]");
		return 1;
	}
	query.has_what = query.has_from_usec = query.has_to_usec = 1;
	query.what = MU__WHAT__WHAT_ACTS;
	if (read_when(c, "since", since, &query.from_usec) || read_when(c, "until", until, &query.to_usec))
		return 1;
	if (who)
		query.user = cli_split(&c->arena, who, &query.n_user);
	if (cli_query_all(c, &query, &mu__moment__descriptor, &rows, &n, &err)) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	if (json)
		return print_json(rows, n, stdout);
	for (size_t i = 0; i < n; i++)
		print_act(c, rows[i]);
	return 0;
}

int muster_audit(struct cli *c, size_t count, char **words)
{
	if (count && strcmp(words[0], "acts") == 0)
		return muster_acts(c, count - 1, words + 1);
	return muster_history(c, "audit", count, words);
}

/* ---- plans ---- */

static void plan_words(uint32_t state, uint32_t reason, int64_t start, struct mu_buf *out)
{
	char when[32];

	mu_buf_str(out, mu_job_state_long(state));
	if (state == JOB_PENDING)
		mu_buf_printf(out, " (%s)", mu_job_reason_word(reason));
	if (start) {
		mu_date_print(start, &cli_zone, when);
		mu_buf_printf(out, " %s %s", state == JOB_PENDING ? "expected" : "started", when);
	}
}

int scontrol_plan(struct cli *c, Mu__Config *config)
{
	Mu__Query query = MU__QUERY__INIT;
	struct mu_err err = {0};
	void **rows;
	size_t n;

	query.has_what = 1;
	query.what = MU__WHAT__WHAT_PLAN;
	query.config = config;
	if (cli_query_all(c, &query, &mu__plan_row__descriptor, &rows, &n, &err)) {
		fprintf(stderr, "slurm_reconfigure error: %s\n", err.text);
		return 1;
	}
	printf(n ? "%zu jobs would stand otherwise:\n" : "Nothing would change in the queue.\n", n);
	for (size_t i = 0; i < n; i++) {
		const Mu__PlanRow *r = rows[i];
		struct mu_buf was MU_CLEANUP(mu_buf_free) = {0};
		struct mu_buf is MU_CLEANUP(mu_buf_free) = {0};
		plan_words(r->state, r->reason, r->start_usec, &was);
		plan_words(r->new_state, r->new_reason, r->new_start_usec, &is);
		printf("%10u %-10s %s -> %s\n", r->job, r->user ? r->user : "", (char *)was.data,
		       (char *)is.data);
	}
	return 0;
}
