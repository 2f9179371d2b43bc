/* sched/wait.c: what keeps a waiting job from starting, for those who ask: which jobs hold what it needs,
 * which go before it, which limit or dependency is in the way, and when it would start as things are. Reads
 * only. What a pass decided stands in the job's reason; this says what lies behind it in the same State. */
#include "sched/preempt.h"
#include "sched/timeline.h"

#include <stdlib.h>

#include "proto/hostlist.h"
#include "proto/why.pb-c.h"

/* Named in one answer: what a person reads. The counts are whole. */
enum { HOLDERS_MAX = 12, AHEAD_MAX = 8, AWAY_MAX = 8, ITEMS_MAX = 32 };

struct wait {
	const struct sch_state *st;
	const struct sch_job *j;
	const struct sch_part *part;
	struct mu_arena *arena;
	struct sch_need need;
	struct mu_bits nodes, required, start; /* by rank: would serve; named; where it would start */
	bool filtered;
	Mu__WaitRow *row;
};

static char *text_of(struct wait *w, const char *text)
{
	return text && *text ? mu_arena_strdup(w->arena, text) : NULL;
}

static char *fold(struct wait *w, const char **names, size_t count)
{
	struct mu_buf buf = {0};
	if (!count)
		return NULL;
	mu_hostlist_fold_sorted(names, count, &buf);
	char *text = mu_arena_strdup(w->arena, (const char *)buf.data);
	mu_buf_free(&buf);
	return text;
}

/* ---- jobs that are named ---- */

static Mu__WaitJob *name_job(struct wait *w, const struct sch_job *j)
{
	Mu__WaitJob *row = mu_arena_alloc(w->arena, sizeof(*row));
	mu__wait_job__init(row);
	SCH_SET(row, job, j->id);
	row->user = text_of(w, sch__text(j->who->user));
	row->account = text_of(w, sch__text(j->account));
	row->partition = text_of(w, sch__text(j->partition));
	SCH_SET(row, state, j->state);
	row->has_state = 1;
	SCH_SET(row, priority, j->priority);
	SCH_SET(row, reason, j->reason);
	SCH_SET(row, plan_usec, j->plan_start_usec);
	SCH_SET(row, nodes, j->nodes_min);
	SCH_SET(row, cpus, j->cpus_total);
	return row;
}

static int64_t ends(const struct sch_job *j, int64_t now)
{
	if (j->state == JOB_COMPLETING)
		return now;
	if (j->state == JOB_SUSPENDED || j->time_limit_sec < 0)
		return 0;
	return sch__run_since(j) + j->time_limit_sec * SCH_USEC;
}

/* A job that holds something of W's nodes, or of its limit: what it holds, on nodes of ONLY where given. */
static Mu__WaitJob *name_holder(struct wait *w, const struct sch_job *j, const struct mu_bits *only)
{
	Mu__WaitJob *row = name_job(w, j);
	const char **names = mu_arena_alloc(w->arena, (j->run->alloc_count + 1) * sizeof(names[0]));
	size_t n = 0;
	row->has_nodes = row->has_cpus = 1;
	row->nodes = row->cpus = 0;
	for (uint32_t i = 0; i < j->run->alloc_count; i++) {
		const struct sch_alloc *a = &j->run->alloc[i];
		if (a->released || !a->node || (only && !mu_bits_test(only, a->node->rank)))
			continue;
		names[n++] = a->node->row->name;
		row->cpus += a->cpus;
		row->mem_mib += a->mem_mib;
		for (uint32_t g = 0; g < a->got_count; g++)
			row->devices += a->got[g].count;
	}
	row->nodes = (uint32_t)n;
	row->has_mem_mib = row->mem_mib != 0;
	row->has_devices = row->devices != 0;
	row->node_list = fold(w, names, n);
	SCH_SET(row, until_usec, ends(j, w->st->cluster->now_usec));
	return row;
}

/* Sooner ends first; those without a limit last. */
static int by_end(const void *a, const void *b)
{
	const struct sch_job *x = *(const struct sch_job *const *)a, *y = *(const struct sch_job *const *)b;
	int64_t s = x->state == JOB_COMPLETING ? 1 : ends(x, 1),
		t = y->state == JOB_COMPLETING ? 1 : ends(y, 1);
	s = s ? s : INT64_MAX;
	t = t ? t : INT64_MAX;
	return s != t ? (s < t ? -1 : 1) : x->id < y->id ? -1 : x->id > y->id;
}

static void put_holders(struct wait *w, const struct sch_job **v, size_t count, const struct mu_bits *only)
{
	qsort(v, count, sizeof(v[0]), by_end);
	w->row->holder = mu_arena_alloc(w->arena, HOLDERS_MAX * sizeof(w->row->holder[0]));
	for (size_t i = 0; i < count && i < HOLDERS_MAX; i++)
		w->row->holder[w->row->n_holder++] = name_holder(w, v[i], only);
	SCH_SET(w->row, holder_count, (uint32_t)count);
}

/* Whoever holds something on the nodes of ON, and lets go by UNTIL (0: at any time). */
static void holders_on(struct wait *w, const struct mu_bits *on, int64_t until)
{
	const struct sch_state *st = w->st;
	struct mu_map seen = {0};
	uint64_t id = 0;
	for (uint32_t r = mu_bits_next(on, 0); r != UINT32_MAX; r = mu_bits_next(on, r + 1))
		for (uint32_t i = 0; i < st->by_rank[r]->hold_count; i++) {
			struct sch_job *j = st->by_rank[r]->hold[i].job;
			/* Plans count from the moment of the decision that started it. */
			int64_t end = ends(j, st->cluster->now_usec) - j->start_late_usec;
			if (j != w->j && j->run && (!until || (end > 0 && end <= until)))
				mu_map_put_u64(&seen, j->id, j);
		}
	const struct sch_job **v = mu_arena_alloc(w->arena, (seen.count + 1) * sizeof(v[0]));
	size_t n = 0;
	for (struct sch_job *j = mu_map_next_u64(&seen, 0, &id); j; j = mu_map_next_u64(&seen, id + 1, &id))
		v[n++] = j;
	mu_map_clear(&seen);
	put_holders(w, v, n, on);
}

/* ---- nodes ---- */

static const char *device_of(const struct sch_shape *s)
{
	return s->ask_count ? s->ask[0].name->text : NULL;
}

static void say_demand(struct wait *w)
{
	const struct sch_job *j = w->j;
	SCH_SET(w->row, nodes, j->nodes_min);
	SCH_SET(w->row, tasks, j->ntasks);
	SCH_SET(w->row, cpus, j->cpus_total);
	SCH_SET(w->row, mem_mib, j->mem_cpu_mib ? j->mem_cpu_mib : j->mem_node_mib);
	SCH_SET(w->row, mem_per_cpu, j->mem_cpu_mib != 0);
	if (j->shape && j->shape->ask_count) {
		SCH_SET(w->row, devices, j->shape->ask[0].count);
		w->row->device = text_of(w, device_of(j->shape));
	}
}

/* Why N, in service, has no room for a task: the first of memory and devices without which it would. */
static void say_short(struct wait *w, struct sch_node *n)
{
	struct sch_need easy = w->need;
	struct sch_shape plain = *w->need.shape;
	easy.mem_kind = SCH_MEM_NONE;
	if (sch__fit(&easy, n, &n->room).tasks) {
		w->row->short_mem++;
		return;
	}
	easy = w->need;
	plain.ask_count = plain.task_ask_count = plain.job_gpus = 0;
	easy.shape = &plain;
	easy.node_gpus = easy.task_gpus = easy.cpus_per_gpu = 0;
	if (sch__fit(&easy, n, &n->room).tasks)
		w->row->short_devices++;
	else
		w->row->short_cpus++;
}

static void say_away(struct wait *w, const struct sch_node *n)
{
	w->row->away_count++;
	if (w->row->n_away == AWAY_MAX)
		return;
	Mu__WaitNode *row = mu_arena_alloc(w->arena, sizeof(*row));
	mu__wait_node__init(row);
	row->name = text_of(w, n->row->name);
	SCH_SET(row, base_state, n->row->base_state);
	SCH_SET(row, flags, n->row->flags);
	row->reason = text_of(w, n->row->reason);
	row->reason_user = text_of(w, n->row->reason_user);
	SCH_SET(row, reason_usec, n->row->reason_usec);
	w->row->away[w->row->n_away++] = row;
}

static void say_nodes(struct wait *w)
{
	const struct sch_state *st = w->st;
	Mu__WaitRow *row = w->row;
	row->away = mu_arena_alloc(w->arena, AWAY_MAX * sizeof(row->away[0]));
	for (uint32_t r = mu_bits_next(&w->nodes, 0); r != UINT32_MAX; r = mu_bits_next(&w->nodes, r + 1)) {
		struct sch_node *n = st->by_rank[r];
		row->nodes_able++;
		if (!n->usable) {
			say_away(w, n);
			continue;
		}
		row->nodes_up++;
		if (sch__fit(&w->need, n, &n->room).tasks)
			row->nodes_free++;
		else
			say_short(w, n);
	}
	row->has_nodes_able = row->has_nodes_up = row->has_nodes_free = 1;
	row->has_short_cpus = row->short_cpus != 0;
	row->has_short_mem = row->short_mem != 0;
	row->has_short_devices = row->short_devices != 0;
	row->has_away_count = row->away_count != 0;
}

/* ---- when, and who holds that ---- */

static void start_at(struct wait *w, int64_t usec, const struct sch_pick *pick, uint32_t count)
{
	const char **names = mu_arena_alloc(w->arena, (count + 1) * sizeof(names[0]));
	for (uint32_t i = 0; i < count; i++) {
		names[i] = pick[i].node->row->name;
		mu_bits_set(&w->start, pick[i].node->rank);
	}
	w->row->start_nodes = fold(w, names, count);
	SCH_SET(w->row, start_usec, usec);
}

/* Its planned start, else when it would find its places behind all that runs and is planned. */
static void say_start(struct wait *w)
{
	const struct sch_state *st = w->st;
	struct sch_pick *pick = mu_arena_alloc(w->arena, (st->node_count + 1) * sizeof(pick[0]));
	struct sch_overlay rooms;
	struct sch_line line;
	struct mu_bits up = {0};
	uint64_t steps = 0;
	uint32_t count = sch__plan_picks(st, w->j, w->arena, pick);
	int64_t now = st->cluster->now_usec, length = sch__length(sch__job_limit_in(w->j, w->part)), at = now;
	if (w->j->plan_start_usec && count) {
		SCH_SET(w->row, planned, 1);
		start_at(w, w->j->plan_start_usec, pick, count);
		return;
	}
	sch__overlay_init(&rooms, st, w->arena);
	sch__line_init(&line, &rooms, w->arena, &steps);
	line.me = w->j;
	mu_bits_copy(&up, &w->nodes);
	for (uint32_t i = 0; i < up.words; i++)
		up.word[i] &= i < st->usable.words ? st->usable.word[i] : 0;
	count = sch__line_choose(&line, &w->need, &up, &w->required, now, now + length, pick);
	if (!count)
		at = sch__line_earliest(&line, &w->need, &up, &w->required, length, INT64_MAX, pick, &count);
	if (count)
		start_at(w, at, pick, count);
	sch__overlay_free(&rooms);
	mu_bits_free(&up);
}

static void say_holders(struct wait *w)
{
	int64_t start = w->row->start_usec;
	if (start && mu_bits_next(&w->start, 0) != UINT32_MAX)
		holders_on(w, &w->start, start);
	if (!w->row->holder_count)
		holders_on(w, &w->nodes, 0);
}

/* Those before it in the order of a pass whose partition shares nodes with its own. */
static void say_ahead(struct wait *w)
{
	const struct sch_state *st = w->st;
	Mu__WaitRow *row = w->row;
	uint32_t tier = sch__tier(w->part);
	row->ahead = mu_arena_alloc(w->arena, AHEAD_MAX * sizeof(row->ahead[0]));
	for (uint32_t i = 0; i < st->part_count; i++) {
		const struct sch_part *p = st->part[i];
		uint64_t key = 0;
		if (sch__tier(p) < tier || !mu_bits_intersects(&p->nodes, &w->nodes))
			continue;
		for (const struct sch_job *j = mu_map_next_u64(&p->queue, 0, &key);
		     j && (sch__tier(p) > tier || key < sch__het_leader(st, w->j)->queue_key);
		     j = mu_map_next_u64(&p->queue, key + 1, &key)) {
			if (sch__first_part(st, j) != p ||
			    (j->reason != REASON_Resources && j->reason != REASON_Priority && j->reason))
				continue;
			row->ahead_count++;
			if (row->n_ahead < AHEAD_MAX)
				row->ahead[row->n_ahead++] = name_job(w, j);
		}
	}
	row->has_ahead_count = row->ahead_count != 0;
}

static void look_at_nodes(struct wait *w)
{
	if (!w->j->shape)
		return;
	sch__need(w->st, w->j->shape, w->part, w->j->who->uid, &w->need);
	if (sch__filter(w->st, &w->need, w->part, w->arena, &w->nodes, &w->required, NULL))
		return;
	say_nodes(w);
	if (!sch__waits(w->st, w->j))
		return;
	say_start(w);
	say_holders(w);
	say_ahead(w);
}

/* ---- limits, dependencies, partition ---- */

static char *first_word(struct wait *w, const char *words)
{
	return mu_arena_printf(w->arena, "%.*s", (int)strcspn(words, " "), words);
}

static bool look_at_limit(struct wait *w)
{
	struct sch_blame b;
	const uint8_t *key = NULL;
	size_t len = 0, n = 0;
	const struct sch_state *st = w->st;
	if (!sch__limit_blame(st, w->j, w->part, &b))
		return false;
	Mu__WaitLimit *l = w->row->limit = mu_arena_alloc(w->arena, sizeof(*l));
	mu__wait_limit__init(l);
	l->name = first_word(w, b.name);
	l->owner_kind = text_of(w, b.kind == 'A' ? "association" : "QOS");
	l->owner = text_of(w, b.owner);
	l->whose = text_of(w, b.whose);
	l->tres = text_of(w, b.tres);
	l->has_limit = l->has_used = l->has_wanted = 1;
	l->limit = b.limit;
	l->used = b.used;
	l->wanted = b.wanted;
	SCH_SET(l, of_job, b.of_job);
	SCH_SET(l, seconds, b.seconds);
	if (b.of_job)
		return true;
	const struct sch_job **v = mu_arena_alloc(w->arena, (st->running.count + 1) * sizeof(v[0]));
	for (struct sch_job *j = mu_map_seek(&st->running, NULL, 0, 0, &key, &len); j;
	     j = mu_map_seek(&st->running, key, len, 1, &key, &len))
		if (j->tallied && sch__limit_counts(st, j, &b))
			v[n++] = j;
	put_holders(w, v, n, NULL);
	return true;
}

static void look_at_items(struct wait *w)
{
	struct mu_depends d;
	const Mu__JobSpec *spec = sch__spec_open(w->j->spec, w->arena);
	struct mu_err err = {0};
	if (!spec->dependency || mu_depends_parse(spec->dependency, w->arena, &d, &err) ||
	    d.count != w->j->depend_count)
		return;
	w->row->item = mu_arena_alloc(w->arena, ITEMS_MAX * sizeof(w->row->item[0]));
	for (size_t i = 0; i < d.count && w->row->n_item < ITEMS_MAX; i++) {
		struct mu_buf text MU_CLEANUP(mu_buf_free) = {0};
		const struct sch_job *j = sch__job(w->st, d.item[i].job);
		if (w->j->depend[i] == 'f')
			continue;
		Mu__WaitItem *row = mu_arena_alloc(w->arena, sizeof(*row));
		mu__wait_item__init(row);
		mu_depend_print(&d.item[i], &text);
		row->item = text_of(w, (const char *)text.data);
		SCH_SET(row, job, d.item[i].job);
		row->has_state = j != NULL;
		row->state = j ? j->state : 0;
		SCH_SET(row, never, w->j->depend[i] == 'x');
		w->row->item[w->row->n_item++] = row;
	}
}

static void look_at_partition(struct wait *w)
{
	static const char *const words[] = {"UP", "DOWN", "DRAIN", "INACTIVE"};
	const Mu__PartitionConf *c = w->part->row->conf;
	w->row->part_state = text_of(w, words[w->part->state]);
	w->row->has_part_max_sec = 1;
	w->row->part_max_sec = c->has_max_time_sec ? c->max_time_sec : -1;
	SCH_SET(w->row, part_min_nodes, c->min_nodes);
	SCH_SET(w->row, part_max_nodes, c->has_max_nodes ? c->max_nodes : 0);
}

/* Nodes that an earlier attempt has not let go of. */
static void look_at_own(struct wait *w)
{
	const struct sch_run *run = w->j->run;
	for (uint32_t i = 0; run && i < run->alloc_count; i++)
		if (!run->alloc[i].released && run->alloc[i].node)
			say_away(w, run->alloc[i].node);
	for (uint32_t i = 0; run && i < run->left_count; i++)
		if (run->left[i].node)
			say_away(w, run->left[i].node);
}

/* Who gives way to it, to whom it gave way, and until when those are exempt that could. */
static void look_at_preemption(struct wait *w)
{
	const struct sch_state *st = w->st;
	const uint8_t *key = NULL;
	size_t len = 0;
	uint32_t rank;
	uint64_t id = 0;
	if (w->j->run)
		SCH_SET(w->row, preempted_by, w->j->run->preempted_by);
	if (st->config.preempt_by == SCH_BY_NOTHING || !w->j->queued)
		return;
	w->row->victim = mu_arena_alloc(w->arena, HOLDERS_MAX * sizeof(w->row->victim[0]));
	for (struct sch_job *v = w->j->plan_claim ? mu_map_next_u64(&st->jobs, 0, &id) : NULL; v;
	     v = mu_map_next_u64(&st->jobs, id + 1, &id))
		if (v->run && v->run->preempted_by == w->j->id &&
		    (sch__lives(v) || v->state == JOB_COMPLETING) && w->row->n_victim < HOLDERS_MAX)
			w->row->victim[w->row->n_victim++] = name_holder(w, v, NULL);
	for (struct sch_job *v = mu_map_seek(&st->exempts, NULL, 0, 0, &key, &len); v && !w->row->exempt_usec;
	     v = mu_map_seek(&st->exempts, key, len, 1, &key, &len))
		if (sch__preempt_way(st, v, w->j, w->part, &rank) != SCH_PREEMPT_OFF)
			SCH_SET(w->row, exempt_usec, v->run->preempt_eligible_usec);
}

int sch_explain_wait(const struct sch_state *st, uint32_t id, struct mu_arena *arena, Mu__WaitRow **ret)
{
	const struct sch_job *j = sch__job(st, id),
			     *cause = j && j->reason_of ? sch__job(st, j->reason_of) : j;
	struct wait w = {.st = st, .j = cause, .arena = arena};
	if (!cause || j->state != JOB_PENDING)
		return MU_ENOENT;
	Mu__WaitRow *row = w.row = mu_arena_alloc(arena, sizeof(*row));
	mu__wait_row__init(row);
	w.part = sch__first_part(st, j);
	SCH_SET(row, job, j->id);
	SCH_SET(row, reason, j->reason);
	row->has_reason = 1;
	row->detail = cause == j ? text_of(&w, sch__text(j->reason_detail))
				 : mu_arena_printf(arena, "of component %u", cause->het_offset);
	j = cause;
	SCH_SET(row, pos, st->cluster->entries);
	SCH_SET(row, now_usec, st->cluster->now_usec);
	SCH_SET(row, eligible_usec, j->eligible_usec);
	SCH_SET(row, priority, j->priority);
	SCH_SET(row, time_limit_sec, j->time_limit_sec);
	SCH_SET(row, held_by_admin, j->held_by_admin);
	say_demand(&w);
	look_at_items(&w);
	if (w.part) {
		row->partition = text_of(&w, w.part->row->conf->name);
		look_at_partition(&w);
		look_at_preemption(&w);
		if (!look_at_limit(&w) && j->reason == REASON_Cleaning) {
			row->away = mu_arena_alloc(arena, AWAY_MAX * sizeof(row->away[0]));
			look_at_own(&w);
			row->has_away_count = row->away_count != 0;
		} else if (!row->limit) {
			look_at_nodes(&w);
		}
	}
	mu_bits_free(&w.nodes);
	mu_bits_free(&w.required);
	mu_bits_free(&w.start);
	*ret = row;
	return 0;
}
