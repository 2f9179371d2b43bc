/* cli/why.c: muster why: what keeps a job from starting, now and over its life, in words. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/dump.h"
#include "cli/filter.h"
#include "cli/life.h"
#include "cli/muster.h"
#include "proto/states.h"
#include "proto/why.h"

static void print_span(const Mu__WaitSpan *s, int64_t now)
{
	struct mu_buf by MU_CLEANUP(mu_buf_free) = {0};
	char from[32], to[32], length[32];
	int64_t end = s->has_to_usec ? s->to_usec : now;

	mu_date_print(s->from_usec, &cli_zone, from);
	mu_date_print(end, &cli_zone, to);
	mu_span_print((end - s->from_usec) / 1000000, 0, length);
	if (s->by)
		life_cause(s->by, &by);
	printf("  %s  %-19s  %11s  %s%s%s%s  %s\n", from, s->has_to_usec ? to : "now", length,
	       mu_job_reason_word(s->reason), s->detail ? " (" : "", s->detail ? s->detail : "",
	       s->detail ? ")" : "", by.data ? (char *)by.data : "");
}

static void print_wait(const char *head, const Mu__WaitRow *wait)
{
	struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};

	mu_why_print(wait, &cli_zone, &text);
	printf("%s%s\n", head, (char *)text.data);
}

static void print_life(const struct cli *c, const Mu__WhyRow *why)
{
	char total[32];

	int64_t sum = 0;

	for (size_t i = 0; i < why->n_span; i++)
		sum += (why->span[i]->has_to_usec ? why->span[i]->to_usec : c->now_usec) -
		       why->span[i]->from_usec;
	mu_span_print(sum / 1000000, 0, total);
	printf("%s in all:\n", total);
	for (size_t i = 0; i < why->n_span; i++)
		print_span(why->span[i], c->now_usec);
	for (size_t i = 0; i < why->n_span; i++) {
		char from[40];
		if (!why->span[i]->wait)
			continue;
		mu_date_print(why->span[i]->from_usec, &cli_zone, from);
		memcpy(from + strlen(from), ": ", 3);
		print_wait(from, why->span[i]->wait);
	}
}

static void print_head(const Mu__WhyRow *why)
{
	const Mu__JobRow *j = why->job;
	char when[32];

	mu_date_print(j->submit_usec, &cli_zone, when);
	printf("Job %u of %s, submitted %s, ", j->id, j->user ? j->user : "?", when);
	if (j->state == JOB_PENDING) {
		printf("waits: %s.\n", mu_job_reason_word(j->reason));
		return;
	}
	mu_date_print(j->start_usec, &cli_zone, when);
	printf("is %s", mu_job_state_long(j->state));
	if (j->start_usec)
		printf(", started %s%s%s", when, j->node_list ? " on " : "",
		       j->node_list ? j->node_list : "");
	printf(".\n");
}

/* ---- before ---- */

static void print_factors(const char *name, const Mu__PriorityRow *p)
{
	if (!p) {
		printf("  %-10s did not wait then\n", name);
		return;
	}
	printf("  %-10s priority %u", name, p->priority);
	if (!p->basic)
		printf(" = age %" PRIu64 " + assoc %" PRIu64 " + fairshare %" PRIu64 " + size %" PRIu64
		       " + partition %" PRIu64 " + QOS %" PRIu64 " + TRES %" PRIu64 " - nice %" PRId64
		       " + site %" PRIu64,
		       p->age, p->assoc, p->fair, p->size, p->part, p->qos_part, p->tres, p->nice, p->site);
	printf("\n");
}

static void print_before(struct cli *c, uint32_t id, const Mu__Before *b)
{
	struct mu_buf by MU_CLEANUP(mu_buf_free) = {0};
	uint32_t other = b->other->id;
	char when[32], ends[32];

	life_cause(b->start, &by);
	mu_date_print(b->start->time_usec, &cli_zone, when);
	mu_date_print(b->ends_usec, &cli_zone, ends);
	printf("Job %u started at %s%s%s, %s. ", other, when, b->start->job->node_list ? " on " : "",
	       b->start->job->node_list ? b->start->job->node_list : "", by.data ? (char *)by.data : "");
	switch (b->rule) {
	case MU__BEFORE_RULE__BEFORE_ABSENT:
		printf("Job %u did not wait at that moment.\n", id);
		break;
	case MU__BEFORE_RULE__BEFORE_NOT_ELIGIBLE:
		printf("Job %u could not have started then, whoever else waited.\n", id);
		break;
	case MU__BEFORE_RULE__BEFORE_GAP:
		printf("It stood behind job %u but fitted into a gap: %s%s%s.\n", id,
		       b->ends_usec ? "its limit ends it at " : "it holds nothing that job was promised",
		       b->ends_usec ? ends : "",
		       b->wait && b->wait->planned && b->ends_usec
			   ? ", before it is in the way of the planned start"
			   : "");
		break;
	default:
		printf("It stood before job %u in the queue: %s.\n", id,
		       b->mine && b->theirs && b->mine->priority == b->theirs->priority
			   ? "of equal priority, the lower number goes first"
			   : "its priority or its partition's tier was higher");
	}
	print_factors(mu_arena_printf(&c->arena, "Job %u", other), b->theirs);
	print_factors(mu_arena_printf(&c->arena, "Job %u", id), b->mine);
	if (b->wait)
		print_wait(mu_arena_printf(&c->arena, "Job %u then: ", id), b->wait);
}

/* ---- help ---- */

static const char *amount(struct cli *c, const char *what, const char *value)
{
	char text[32];

	if (!value)
		return "";
	if (strcmp(what, "TimeLimit") == 0) {
		mu_span_print(strtoll(value, NULL, 10) * 60, 0, text);
		return mu_arena_strdup(&c->arena, text);
	}
	if (strncmp(what, "MinMemory", 9) == 0) {
		mu_mem_print(strtoull(value, NULL, 10), 0, text);
		return mu_arena_strdup(&c->arena, text);
	}
	return value;
}

/* Why it waits, or waited last. */
static uint32_t last_reason(const Mu__WhyRow *why)
{
	return why->job->state == JOB_PENDING ? why->job->reason
	       : why->n_span			  ? why->span[why->n_span - 1]->reason
						  : 0;
}

static bool is_over_unstarted(const Mu__WhyRow *why)
{
	return mu_job_state_ended(why->job->state) && !why->job->start_usec;
}

static void print_help(struct cli *c, const Mu__WhyRow *why)
{
	char by[32], start[32];
	uint32_t reason = last_reason(why);

	mu_date_print(why->help_by_usec, &cli_zone, by);
	if (why->n_help == 1 && strcmp(why->help[0]->what, "nothing") == 0) {
		mu_date_print(why->help[0]->start_usec, &cli_zone, start);
		printf("By %s it starts as it is, at %s.\n", by, start);
		return;
	}
	if (is_over_unstarted(why))
		printf("It is over: what follows would have helped before it ended.\n");
	if (reason == REASON_JobHeldUser || reason == REASON_JobHeldAdmin)
		printf("Nothing helps while it is held: scontrol release %u first.\n", why->job->id);
	printf("To start by %s, decided again over @%" PRIu64 " (%u tries):%s\n", by, why->help_pos,
	       why->help_tried, why->n_help ? "" : " no change of one thing alone would do.");
	for (size_t i = 0; i < why->n_help; i++) {
		const Mu__Help *h = why->help[i];
		mu_date_print(h->start_usec, &cli_zone, start);
		printf("  %s=%s instead of %s: starts at %s%s%s%s\n", h->what, amount(c, h->what, h->to),
		       amount(c, h->what, h->from), start, h->nodes ? " on " : "", h->nodes ? h->nodes : "",
		       h->decided ? "" : ", as far as it can be foreseen");
	}
}

/* ---- the command ---- */

static int read_by(struct cli *c, const char *text, Mu__Query *ask)
{
	struct mu_err err = {0};

	ask->has_help_by_usec = 1;
	if (!*text)
		return 0;
	if (mu_date_parse(text, cli_now_usec(), 1, &cli_zone, &ask->help_by_usec, &err)) {
		cli_error(c, "Invalid time specification: \"%s\" of --what-would-help", text);
		return 1;
	}
	return 0;
}

int muster_why(struct cli *c, size_t count, char **words)
{
	const char *before = NULL, *help = NULL, *at = NULL, *json = NULL;
	const struct muster_word list[] = {{"before", MUSTER_VALUE, &before},
					   {"what-would-help", MUSTER_MAYBE, &help},
					   {"at", MUSTER_VALUE, &at},
					   {"json", MUSTER_FLAG, &json}};
	Mu__Query ask = MU__QUERY__INIT;
	struct mu_err err = {0};
	uint32_t id, other = 0;
	void **rows;
	size_t n;
	int left = muster_words(c, count, words, list, sizeof list / sizeof *list);

	if (left < 0)
		return 1;
	if (left != 1) {
		cli_error(
		    c,
		    "usage: muster why JOB [--before OTHER] [--what-would-help[=TIME]] [--at TIME] [--json]");
		return 1;
	}
	if (life_id(c, words[0], false, &id) || (before && life_id(c, before, true, &other)) ||
	    (help && read_by(c, help, &ask)))
		return 1;
	if (at && cli_set_at(c, at, &err)) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_WHY;
	cli_filter_job(c, &ask, id);
	if (before) {
		ask.has_before = 1;
		ask.before = other;
	}
	if (cli_query_all(c, &ask, &mu__why_row__descriptor, &rows, &n, &err) || n != 1) {
		cli_error(c, "%s", err.code ? err.text : "A controller answered without a reason");
		return 1;
	}
	const Mu__WhyRow *why = rows[0];
	if (json) {
		struct mu_buf out MU_CLEANUP(mu_buf_free) = {0};
		struct cli_json j = {.out = &out};
		cli_dump_json(&j, NULL, &why->base);
		printf("%.*s\n", (int)out.len, (char *)out.data);
		return 0;
	}
	print_head(why);
	if (why->wait)
		print_wait("", why->wait);
	if (why->n_span) {
		printf("It %s ", why->wait ? "has waited" : "waited");
		print_life(c, why);
	}
	if (why->before)
		print_before(c, id, why->before);
	if (why->has_help_tried)
		print_help(c, why);
	return 0;
}
