/* tests/sched/looks.c: what a scenario expects of rows, counts and orders, and what it shows. */
#include <stdlib.h>
#include <string.h>

#include "proto/array.h"
#include "proto/states.h"
#include "proto/why.h"
#include "tests/sched/story.h"

static const char *task_list(struct story *s, const Mu__JobRow *j);

static const char *exit_text(struct story *s, const Mu__JobRow *j)
{
	return mu_arena_printf(&s->arena, "%d:%d", j->exit_code, j->exit_signal);
}

static const char *relative(struct story *s, int64_t usec)
{
	return usec ? mu_arena_printf(&s->arena, "%lld", (long long)((usec - s->start_usec) / 1000000))
		    : "none";
}

static const Mu__AllocNode *on(const Mu__JobRow *j, const char *node)
{
	for (size_t i = 0; i < j->n_alloc; i++)
		if (strcmp(j->alloc[i]->node, node) == 0)
			return j->alloc[i];
	return NULL;
}

static const char *devices(struct story *s, const Mu__AllocNode *a)
{
	char *text = mu_arena_strdup(&s->arena, "");
	for (size_t g = 0; a && g < a->n_gres; g++)
		for (size_t i = 0; i < a->gres[g]->n_index; i++)
			text = mu_arena_printf(&s->arena, "%s%s%u", text, *text ? "," : "",
					       a->gres[g]->index[i]);
	return text;
}

static const char *job_value(struct story *s, const Mu__JobRow *j, const char *key)
{
	const char *node = strchr(key, '@');
	const Mu__AllocNode *a = node ? on(j, node + 1) : NULL;
	if (node && !a)
		return "none";
	if (strncmp(key, "cpus@", 5) == 0)
		return a->cpu_list;
	if (strncmp(key, "mem@", 4) == 0)
		return mu_arena_printf(&s->arena, "%llu", (unsigned long long)a->mem_mib);
	if (strncmp(key, "tasks@", 6) == 0)
		return mu_arena_printf(&s->arena, "%u", a->tasks);
	if (strncmp(key, "gpu@", 4) == 0)
		return devices(s, a);
	if (strncmp(key, "released@", 9) == 0)
		return a->released ? "yes" : a->lost ? "lost" : "no";
	const struct {
		const char *key, *value;
	} v[] = {{"state", mu_job_state_long(j->state)},
		 {"endstate", mu_job_state_long(j->end_state)},
		 {"reason", mu_job_reason_word(j->reason)},
		 {"detail", j->reason_detail ? j->reason_detail : "none"},
		 {"why", j->end_detail ? j->end_detail : "none"},
		 {"nodes", j->node_list ? j->node_list : "none"},
		 {"partition", j->partition},
		 {"batchhost", j->batch_host ? j->batch_host : "none"},
		 {"exit", exit_text(s, j)},
		 {"start", relative(s, j->start_usec)},
		 {"end", relative(s, j->end_usec)},
		 {"plan", relative(s, j->plan_start_usec)},
		 {"plannodes", j->plan_nodes ? j->plan_nodes : "none"},
		 {"eligible", relative(s, j->eligible_usec)},
		 {"preempted", relative(s, j->preempt_usec)},
		 {"cpus", mu_arena_printf(&s->arena, "%u", j->cpus_total)},
		 {"attempt", mu_arena_printf(&s->arena, "%u", j->attempt)},
		 {"restarts", mu_arena_printf(&s->arena, "%u", j->restarts)},
		 {"priority", mu_arena_printf(&s->arena, "%u", j->priority)},
		 {"limit", mu_arena_printf(&s->arena, "%lld",
					   (long long)(j->time_limit_sec < 0 ? -1 : j->time_limit_sec / 60))},
		 {"left", mu_arena_printf(&s->arena, "%zu", j->n_left)},
		 {"by", j->has_canceller ? mu_arena_printf(&s->arena, "%u", j->cancelled_by) : "none"},
		 {"signal", mu_arena_printf(&s->arena, "%u/%llu", j->pending_signal,
					    (unsigned long long)j->signal_seq)},
		 {"account", j->account ? j->account : "none"},
		 {"qos", j->qos ? j->qos : "none"},
		 {"id", mu_arena_printf(&s->arena, "%u", j->id)},
		 {"tasks", task_list(s, j)},
		 {"het", j->het_job
			     ? mu_arena_printf(&s->arena, "%u+%u/%u", j->het_job, j->het_offset, j->het_count)
			     : "none"},
		 {"resv", j->reservation ? j->reservation : "none"},
		 {"note", j->system_comment ? j->system_comment : "none"},
		 {"want", j->spec->reservation ? j->spec->reservation : "none"},
		 {"name", j->spec->name ? j->spec->name : "none"}};
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		if (strcmp(v[i].key, key) == 0)
			return v[i].value ? v[i].value : "none";
	return NULL;
}

static const char *node_value(struct story *s, const Mu__NodeRow *n, const char *key)
{
	char *state = mu_arena_alloc(&s->arena, 128);
	mu_node_state_scontrol(n->base_state, n->flags, n->alloc_cpus, n->cpus, state);
	const struct {
		const char *key, *value;
	} v[] = {{"state", state},
		 {"reason", n->reason ? n->reason : "none"},
		 {"alloc", mu_arena_printf(&s->arena, "%u", n->alloc_cpus)},
		 {"cpulist", n->alloc_cpu_list ? n->alloc_cpu_list : "none"},
		 {"mem", mu_arena_printf(&s->arena, "%llu", (unsigned long long)n->alloc_mem_mib)},
		 {"jobs", mu_arena_printf(&s->arena, "%zu", n->n_job)},
		 {"by", n->reason_user ? n->reason_user : "none"}};
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		if (strcmp(v[i].key, key) == 0)
			return v[i].value;
	return NULL;
}

/* Words in a story have no blanks: an underscore stands for one. */
static bool equal(const char *have, const char *want)
{
	for (; *have && *want; have++, want++)
		if (*have != *want && !(*have == ' ' && *want == '_'))
			return false;
	return !*have && !*want;
}

static bool expect_pairs(struct story *s, char **word, const void *row, bool job)
{
	for (; *word; word++) {
		char *at = strchr(*word, '=');
		if (!at)
			return wrong(s, "%s is no key=value", *word);
		char *key = mu_arena_strdup(&s->arena, *word);
		key[at - *word] = 0;
		const char *have = job ? job_value(s, row, key) : node_value(s, row, key);
		if (!have)
			return wrong(s, "there is no %s to look at", key);
		if (!equal(have, at + 1))
			return wrong(s, "%s is \"%s\" instead of \"%s\"", key, have, at + 1);
	}
	return true;
}

/* ---- why ---- */

static int64_t utc(void *arg, struct tm *tm)
{
	return timegm(tm);
}

static void broken_down(void *arg, int64_t sec, struct tm *ret_tm)
{
	gmtime_r(&(time_t){sec}, ret_tm);
}

/* The paragraph of a waiting job, with blanks as underscores; NULL when it cannot be said. */
static char *paragraph(struct story *s, uint32_t id)
{
	static const struct mu_zone zone = {utc, broken_down, NULL};
	Mu__WaitRow *wait = NULL;
	struct mu_buf out MU_CLEANUP(mu_buf_free) = {0};
	const Mu__JobRow *j = sch_job(s->h.st, id);
	if (!j || sch_explain_wait(s->h.st, id, &s->arena, &wait))
		return NULL;
	mu_why_print(wait, &zone, &out);
	char *text = mu_arena_strdup(&s->arena, (const char *)out.data);
	for (char *p = text; *p; p++)
		*p = *p == ' ' ? '_' : *p;
	return text;
}

/* Whatever reason a story provokes has its paragraph, and a limit that holds can be named. */
static bool has_why(struct story *s, const Mu__JobRow *j)
{
	Mu__WaitRow *wait = NULL;
	if (j->state != JOB_PENDING)
		return true;
	if (sch_explain_wait(s->h.st, j->id, &s->arena, &wait) || wait->reason != j->reason)
		return wrong(s, "job %u waits and nothing says why", j->id);
	const char *word = mu_job_reason_word(j->reason);
	if (!mu_why_meaning(j->reason) || !mu_why_help(j->reason))
		return wrong(s, "%s has no row in why.def", word);
	bool limit = strncmp(word, "Assoc", 5) == 0 || strncmp(word, "QOS", 3) == 0;
	return !limit || wait->limit || wrong(s, "%s names no limit", word);
}

/* expect why JOB WORDS...: each piece is in the paragraph, an underscore for a blank. */
static bool expect_why(struct story *s, char **word)
{
	const char *text = paragraph(s, (uint32_t)strtoul(word[0], NULL, 10));
	if (!text)
		return wrong(s, "job %s does not wait", word[0]);
	if (s->show)
		printf("%s: %s\n", word[0], text);
	for (char **w = word + 1; *w; w++)
		if (!strstr(text, *w))
			return wrong(s, "\"%s\" is not in \"%s\"", *w, text);
	return true;
}

/* expect help JOB BY Key:from->to ...: exactly these changes would let it start within BY seconds of the
 * story's beginning. */
static bool expect_help(struct story *s, char **word)
{
	Mu__WhyRow why = MU__WHY_ROW__INIT;
	int64_t by = s->start_usec + strtoll(word[1], NULL, 10) * 1000000;
	if (sch_explain_help(s->h.st, (uint32_t)strtoul(word[0], NULL, 10), by, &s->arena, &why))
		return wrong(s, "job %s does not wait", word[0]);
	char **w = word + 2;
	for (size_t i = 0; i < why.n_help; i++) {
		const Mu__Help *h = why.help[i];
		const char *have =
		    h->to ? mu_arena_printf(&s->arena, "%s:%s->%s", h->what, h->from, h->to) : h->what;
		if (!*w || strcmp(*w, have) != 0)
			return wrong(s, "%s would help, not %s", have, *w ? *w : "nothing more");
		w++;
	}
	return !*w || strcmp(*w, "none") == 0 || wrong(s, "%s would not help", *w);
}

static bool expect_orders(struct story *s, char **word)
{
	Mu__OrderSet *set = NULL;
	if (sch_orders(s->h.st, word[0], &s->arena, &set))
		return wrong(s, "no node %s", word[0]);
	char **w = word + 1;
	for (size_t i = 0; i < set->n_attempt; i++) {
		const Mu__AttemptOrder *o = set->attempt[i];
		const char *have = mu_arena_printf(&s->arena, "%u.%u:%s", o->job, o->attempt,
						   o->phase == MU__PHASE__PHASE_RUN ? "run" : "end");
		if (!*w || strcmp(*w, have) != 0)
			return wrong(s, "%s is ordered, not %s", have, *w ? *w : "nothing");
		w++;
	}
	return !*w || strcmp(*w, "nothing") == 0 || wrong(s, "%s is not ordered", *w);
}

static bool expect_count(struct story *s, char **word)
{
	struct sch_counts c;
	const Mu__ClusterRow *r = sch_cluster(s->h.st);
	sch_counts(s->h.st, &c);
	const struct {
		const char *key;
		uint64_t value;
	} v[] = {{"pending", c.jobs_pending}, {"running", c.jobs_running}, {"completing", c.jobs_completing},
		 {"jobs", c.jobs_total},      {"voided", r->voided},	   {"starts_void", r->starts_void},
		 {"idle", c.nodes_idle},      {"gpus", c.gpus_allocated},  {"cpus", c.cpus_allocated}};
	for (; *word; word++) {
		bool known = false;
		for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
			size_t len = strlen(v[i].key);
			if (strncmp(*word, v[i].key, len) != 0 || (*word)[len] != '=')
				continue;
			known = true;
			if (v[i].value != strtoull(*word + len + 1, NULL, 10))
				return wrong(s, "%s is %llu instead of %s", v[i].key,
					     (unsigned long long)v[i].value, *word + len + 1);
		}
		if (!known)
			return wrong(s, "there is no count %s", *word);
	}
	return true;
}

struct search {
	uint32_t array, task, id;
};

static int find_task(void *arg, const struct sch_key *key, const uint8_t *row, size_t len)
{
	struct search *f = arg;
	struct mu_arena arena = {0};
	struct mu_tasks tasks = {0};
	struct mu_runs runs = {0};
	const Mu__JobRow *j = (Mu__JobRow *)mu_pb_unpack(&mu__job_row__descriptor, row, len, &arena);
	bool ours = j->array_job == f->array && j->has_array_task && j->array_task == f->task;
	if (j->array_job == f->array && j->n_array_run &&
	    mu_tasks_parse(j->spec->array, UINT32_MAX, &tasks, NULL) == 0) {
		mu_runs_unpack(j->array_run, j->n_array_run, tasks.total, &runs);
		uint32_t ordinal = mu_tasks_ordinal(&tasks, f->task);
		ours = ordinal != UINT32_MAX && mu_runs_has(&runs, ordinal);
	}
	if (ours)
		f->id = j->id;
	mu_runs_free(&runs);
	mu_tasks_free(&tasks);
	mu_arena_free(&arena);
	return 0;
}

uint32_t story_job(struct story *s, const char *name)
{
	char *end;
	struct search f = {.array = (uint32_t)strtoul(name, &end, 10)};
	if (*end != '_')
		return f.array;
	f.task = (uint32_t)strtoul(end + 1, NULL, 10);
	sch_rows(s->h.st, SCH_ROW_JOB, find_task, &f);
	return f.id;
}

static const char *task_list(struct story *s, const Mu__JobRow *j)
{
	struct mu_tasks tasks = {0};
	struct mu_runs runs = {0};
	struct mu_buf text = {0};
	if (!j->array_job || mu_tasks_parse(j->spec->array, UINT32_MAX, &tasks, NULL))
		return "none";
	if (j->has_array_task) {
		mu_tasks_free(&tasks);
		return mu_arena_printf(&s->arena, "%u", j->array_task);
	}
	mu_runs_unpack(j->array_run, j->n_array_run, tasks.total, &runs);
	mu_runs_print(&runs, &tasks, j->array_throttle, &text);
	const char *list = mu_arena_strdup(&s->arena, (const char *)text.data);
	mu_buf_free(&text);
	mu_runs_free(&runs);
	mu_tasks_free(&tasks);
	return list;
}

bool act_expect(struct story *s, char **word)
{
	if (strcmp(word[0], "job") == 0) {
		const Mu__JobRow *j = sch_job(s->h.st, story_job(s, word[1]));
		if (word[2] && strcmp(word[2], "gone") == 0)
			return !j || wrong(s, "job %s is still there", word[1]);
		return j ? expect_pairs(s, word + 2, j, true) && has_why(s, sch_job(s->h.st, j->id))
			 : wrong(s, "no job %s", word[1]);
	}
	if (strcmp(word[0], "node") == 0) {
		const Mu__NodeRow *n = sch_node(s->h.st, word[1]);
		return n ? expect_pairs(s, word + 2, n, false) : wrong(s, "no node %s", word[1]);
	}
	if (strcmp(word[0], "resv") == 0)
		return expect_resv(s, word + 1);
	if (strcmp(word[0], "share") == 0)
		return expect_share(s, word + 1);
	if (strcmp(word[0], "sprio") == 0)
		return expect_sprio(s, word + 1);
	if (strcmp(word[0], "why") == 0)
		return expect_why(s, word + 1);
	if (strcmp(word[0], "help") == 0)
		return expect_help(s, word + 1);
	if (strcmp(word[0], "orders") == 0)
		return expect_orders(s, word + 1);
	if (strcmp(word[0], "count") == 0)
		return expect_count(s, word + 1);
	return wrong(s, "expect what?");
}

static int show_job(void *arg, const struct sch_key *key, const uint8_t *row, size_t len)
{
	struct story *s = arg;
	Mu__JobRow *j = (Mu__JobRow *)mu_pb_unpack(&mu__job_row__descriptor, row, len, &s->arena);
	printf("%6u %-10s %-8s %-2s %3u %s%s%s%s\n", j->id, j->partition, j->user,
	       mu_job_state_compact(j->state), j->nodes_min, j->state == JOB_PENDING ? "(" : "",
	       j->state == JOB_PENDING ? mu_job_reason_word(j->reason)
	       : j->node_list	       ? j->node_list
				       : "",
	       j->state == JOB_PENDING && j->reason_detail ? ", " : "", j->state == JOB_PENDING ? ")" : "");
	return 0;
}

bool act_show(struct story *s, char **word)
{
	if (s->show)
		sch_rows(s->h.st, SCH_ROW_JOB, show_job, s);
	return true;
}
