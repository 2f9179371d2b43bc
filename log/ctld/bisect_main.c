/* ctld/bisect_main.c: `muster bisect`: which event changed a figure. Every act of an administrator between the good moment
 * and the bad one, and every loss of a node, is left out once and the rest told again (whatif.h). */
#include <stdlib.h>
#include <string.h>

#include "log/ctld/setup.h"
#include "log/ctld/whatif.h"
#include "log/ctld/words.h"
#include "proto/pb.h"
#include "proto/units.h"
#include "query/history.h"

static const char USAGE[] =
	"Usage: muster bisect [DIR] --metric WORD [--account A] --good TIME --bad TIME [--window SECONDS] [--json]\n"
	"Finds the event between both moments that changed a figure: the history is told again without each change of the\n"
	"configuration, of partitions, accounts, limits, reservations and nodes, and without each loss of a node.\n"
	"DIR is a controller's StateSaveLocation, or a copy of one; without it the configuration says where this host's is.\n"
	"  --metric WORD    wait:p50, wait:p90, wait:p99, wait:mean or slowdown\n"
	"  --account A      of this account's jobs only\n"
	"  --good TIME      a moment at which it was good: a date or @POSITION; jobs submitted in the window after it count\n"
	"  --bad TIME       a later one at which it was bad; jobs submitted in the window before it count\n"
	"  --window SECONDS (default: half of the time between both)\n"
	"  --json           JSON\n"
	"  -f FILE          configuration file that says where DIR is\n"
	"  --name NAME      the controller's name in it (default: the host's)\n";

/* Each is a telling of its own; more say nothing to a person either. */
enum { CANDIDATES_MAX = 200, TEXT_MAX = 160 };

struct args {
	const char *metric, *account, *good, *bad, *window, *file, *name, *dir;
	bool json;
};
struct candidate {
	uint64_t pos;
	uint32_t n;
	int64_t time_usec;
	const char *alive, *kind, *author, *text;
	double value, back; /* without it; which part of the change that takes back */
};
struct search {
	struct mu_arena arena, event;
	struct candidate *list;
	size_t count, left_out;
	int64_t from_usec, to_usec;
};

static int die(const struct mu_err *err)
{
	fprintf(stderr, "muster: error: bisect: %s\n", err->text);
	return 1;
}

static void options(struct args *a, int argc, char **argv)
{
	const struct ctl_word words[] = {{"metric", .text = &a->metric}, {"account", .text = &a->account}, {"good", .text = &a->good},
					 {"bad", .text = &a->bad},	 {"window", .text = &a->window},   {"json", .flag = &a->json},
					 {"name", .text = &a->name}};

	ctl_words("bisect", USAGE, words, sizeof words / sizeof *words, &a->file, &a->dir, argc, argv);
}

/* ---- candidates ---- */

static void candidate(struct search *s, const struct sch_at *at, const Mu__Event *e, const char *kind, const ProtobufCMessage *what, const char *alive)
{
	struct mu_buf text = {0};

	if (s->count == CANDIDATES_MAX) {
		s->left_out++;
		return;
	}
	if (alive)
		mu_buf_printf(&text, "node %s fell silent", alive);
	else if (what && e->kind_case != MU__EVENT__KIND_CONFIG_SET)
		dump_message(what, false, &text);
	s->list[s->count++] = (struct candidate){.pos = at->pos,
						 .n = at->n,
						 .time_usec = at->time_usec,
						 .kind = kind,
						 .alive = mu_arena_strdup(&s->arena, alive),
						 .author = mu_arena_strdup(&s->arena, e->author && e->author->user ? e->author->user : "slurm"),
						 .text = mu_arena_printf(&s->arena, "%.*s", text.len > TEXT_MAX ? TEXT_MAX : (int)text.len, text.len ? (const char *)text.data : "")};
	mu_buf_free(&text);
}

static int look(void *arg, const struct sch_state *st, const struct sch_at *at, const uint8_t *event, size_t len, const struct sch_verdict *verdict)
{
	struct search *s = arg;

	(void)st;
	if (!verdict || verdict->code || verdict->repeated || at->time_usec < s->from_usec || at->time_usec > s->to_usec)
		return 0;
	mu_arena_reset(&s->event);
	const Mu__Event *e = (Mu__Event *)mu_pb_unpack(&mu__event__descriptor, event, len, &s->event);
	if (!e)
		return MU_ECORRUPT;
	switch (e->kind_case) {
	case MU__EVENT__KIND_CONFIG_SET:
		candidate(s, at, e, "config_set", NULL, NULL);
		break;
	case MU__EVENT__KIND_PARTITION_UPDATE:
		candidate(s, at, e, "partition_update", &e->partition_update->base, NULL);
		break;
	case MU__EVENT__KIND_ACCOUNTS_CHANGED:
		candidate(s, at, e, "accounts_changed", &e->accounts_changed->base, NULL);
		break;
	case MU__EVENT__KIND_RESERVATION_CHANGED:
		candidate(s, at, e, "reservation_changed", &e->reservation_changed->base, NULL);
		break;
	case MU__EVENT__KIND_NODE_UPDATE:
		candidate(s, at, e, "node_update", &e->node_update->base, NULL);
		break;
	case MU__EVENT__KIND_DECIDED:
		for (size_t i = 0; i < e->decided->n_lost; i++)
			candidate(s, at, e, "node_lost", NULL, e->decided->lost[i]->node);
		break;
	default:
		break;
	}
	return 0;
}

static int without(struct view *v, struct candidate *c, int64_t from, int64_t to, const struct whatif_metric *m, double good, double bad, struct mu_err *err)
{
	struct whatif_rules rules = {0};
	struct whatif_run run;
	uint32_t jobs;

	if (c->alive) {
		rules.alive = c->alive;
	} else {
		rules.skip_pos = c->pos;
		rules.skip_n = c->n;
	}
	int code = whatif_tell(v, &rules, from, to, &run, err);
	if (!code) {
		c->value = whatif_measure(&run, m, true, &jobs);
		c->back = (bad - c->value) / (bad - good);
	}
	whatif_done(&run);
	return code;
}

static int by_back(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	if (x->back > y->back || x->back < y->back)
		return x->back > y->back ? -1 : 1;
	return x->pos < y->pos ? -1 : x->pos > y->pos;
}

/* ---- what was found ---- */

struct found {
	const struct args *a;
	double good, bad;
	uint32_t good_jobs, bad_jobs;
};

static void print(const struct search *s, const struct found *f)
{
	printf("%s%s%s: %.1f for %u jobs submitted after the good moment, %.1f for %u submitted before the bad one\n\n", f->a->metric, f->a->account ? " of account " : "",
	       f->a->account ? f->a->account : "", f->good, f->good_jobs, f->bad, f->bad_jobs);
	for (size_t i = 0; i < s->count; i++)
		printf("without @%llu.%u %-20s by %-10s %10.1f  takes back %4.0f %%  %s\n", (unsigned long long)s->list[i].pos, s->list[i].n, s->list[i].kind, s->list[i].author,
		       s->list[i].value, 100 * s->list[i].back, s->list[i].text);
	if (s->left_out)
		printf("(%zu later ones were not tried: bring the moments nearer)\n", s->left_out);
	if (s->count && s->list[0].back >= .5)
		printf("\nIt was @%llu.%u: %s by %s.\n", (unsigned long long)s->list[0].pos, s->list[0].n, s->list[0].kind, s->list[0].author);
	else
		printf("\nNo single event of the %zu between both moments takes back half of it.\n", s->count);
}

static void print_json(const struct search *s, const struct found *f)
{
	printf("{\"metric\":\"%s\",\"good\":%.6f,\"bad\":%.6f,\"good_jobs\":%u,\"bad_jobs\":%u,\"left_out\":%zu,\"events\":[", f->a->metric, f->good, f->bad, f->good_jobs,
	       f->bad_jobs, s->left_out);
	for (size_t i = 0; i < s->count; i++)
		printf("%s{\"pos\":%llu,\"n\":%u,\"time_usec\":%lld,\"kind\":\"%s\",\"node\":\"%s\",\"value\":%.6f,\"takes_back\":%.6f}", i ? "," : "",
		       (unsigned long long)s->list[i].pos, s->list[i].n, (long long)s->list[i].time_usec, s->list[i].kind, s->list[i].alive ? s->list[i].alive : "",
		       s->list[i].value, s->list[i].back);
	printf("]}\n");
}

static int search(const struct args *a, struct view *v, int64_t good, int64_t bad, int64_t window, struct mu_err *err)
{
	const struct whatif_metric before = {a->metric, a->account, good, good + window}, after = {a->metric, a->account, bad - window, bad + 1};
	const struct whatif_rules nothing = {0};
	struct search s = {.from_usec = good, .to_usec = bad};
	struct found f = {.a = a};
	struct hist_replay walk;
	struct whatif_run run;
	uint64_t wrong = 0;
	int code = whatif_tell(v, &nothing, good, bad, &run, err);

	if (!code) {
		f.good = whatif_measure(&run, &before, false, &f.good_jobs);
		f.bad = whatif_measure(&run, &after, false, &f.bad_jobs);
		if (!f.good_jobs || !f.bad_jobs)
			code = mu_fail(err, MU_ENOENT, "no such job %s", f.good_jobs ? "started that was submitted in the window before the bad moment"
										  : "started that was submitted in the window after the good moment");
		else if (f.bad <= f.good)
			code = mu_fail(err, MU_EINVAL, "%s is %.1f at the good moment and %.1f at the bad one: it is no worse", a->metric, f.good, f.bad);
	}
	s.list = mu_arena_alloc(&s.arena, CANDIDATES_MAX * sizeof s.list[0]);
	if (!code)
		code = hist_walk(v, run.from, run.to, look, &s, &walk, &wrong, err);
	whatif_done(&run);
	for (size_t i = 0; i < s.count && !code; i++)
		code = without(v, &s.list[i], good, bad, &after, f.good, f.bad, err);
	if (!code && s.count)
		qsort(s.list, s.count, sizeof s.list[0], by_back);
	if (!code && a->json)
		print_json(&s, &f);
	else if (!code)
		print(&s, &f);
	mu_arena_free(&s.arena);
	mu_arena_free(&s.event);
	return code;
}

int bisect_main(int argc, char **argv)
{
	struct args a = {0};
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	struct view *v = NULL;
	int64_t good = 0, bad = 0, window = 0;
	int code = 0;

	options(&a, argc, argv);
	if (!a.metric || !a.good || !a.bad)
		code = mu_fail(&err, MU_EINVAL, "say what and when: --metric, --good and --bad");
	else if (!whatif_metric_known(a.metric))
		code = mu_fail(&err, MU_EINVAL, "\"%s\" is no metric; wait:p50, wait:p90, wait:p99, wait:mean and slowdown are", a.metric);
	if (!code)
		code = ctl_archive_open(a.dir, a.file, a.name, &arena, &v, &err);
	if (!code)
		code = whatif_moment(v, a.good, &good, &err);
	if (!code)
		code = whatif_moment(v, a.bad, &bad, &err);
	if (!code && a.window) {
		code = mu_number_parse("the window", a.window, 1, INT32_MAX, &window, &err);
		window *= 1000000;
	} else {
		window = (bad - good) / 2;
	}
	if (!code && (bad <= good || window <= 0))
		code = mu_fail(&err, MU_EINVAL, "the bad moment must lie behind the good one, and the window be longer than nothing");
	if (!code)
		code = search(&a, v, good, bad, window, &err);
	view_close(v);
	mu_arena_free(&arena);
	return code ? die(&err) : 0;
}
