/* sched/plan.c: planned starts of waiting jobs as State keeps them: a moment, nodes, tasks on each. They are
 * what one pass promises to the next. */
#include "sched/timeline.h"

#include "proto/hostlist.h"

int64_t sch__counted_from(const struct sch_job *j, int64_t now_usec)
{
	bool due = j->plan_start_usec > 0 && j->plan_start_usec <= now_usec;
	return due && now_usec - j->plan_start_usec <= SCH_PLAN_GRACE_USEC ? j->plan_start_usec : now_usec;
}

int64_t sch__span(int64_t limit_sec)
{
	return limit_sec < 0 ? SCH_NO_LIMIT_SEC * SCH_USEC : limit_sec ? limit_sec * SCH_USEC : 1;
}

/* Without a limit a job could run past whatever is planned behind jobs without a limit. */
int64_t sch__length(int64_t limit_sec)
{
	return limit_sec < 0 ? 2 * SCH_NO_LIMIT_SEC * SCH_USEC : sch__span(limit_sec);
}

uint32_t sch__tier(const struct sch_part *p)
{
	return p->row->conf->has_priority_tier ? p->row->conf->priority_tier : 1;
}

bool sch__behind(const struct sch_state *st, const struct sch_job *a, const struct sch_job *b)
{
	const struct sch_job *lead_a = sch__het_leader(st, a), *lead_b = sch__het_leader(st, b);
	a = lead_a ? lead_a : a;
	b = lead_b ? lead_b : b;
	const struct sch_part *x = sch__first_part(st, a), *y = sch__first_part(st, b);
	uint32_t tier_a = x ? sch__tier(x) : 0, tier_b = y ? sch__tier(y) : 0;
	/* Of those in no queue as well, such as jobs that stand still. */
	return tier_a != tier_b ? tier_a < tier_b
				: sch__queue_key(a->priority, a->id) > sch__queue_key(b->priority, b->id);
}

int64_t sch__job_limit_in(const struct sch_job *j, const struct sch_part *p)
{
	const Mu__PartitionConf *c = p->row->conf;
	if (j->limit_given)
		return j->time_limit_sec;
	return c->has_default_time_sec ? c->default_time_sec : c->has_max_time_sec ? c->max_time_sec : -1;
}

bool sch__job_limit_may(const struct sch_job *j, const struct sch_part *p, int64_t limit_sec)
{
	int64_t own = sch__job_limit_in(j, p);
	return j->time_min_sec > 0 && limit_sec >= j->time_min_sec && (own < 0 || limit_sec < own);
}

static void numbers_set(struct sch_state *st, uint32_t **v, uint32_t *n, const uint32_t *from, size_t count)
{
	if (*n)
		sch__free(st, *v, *n * sizeof((*v)[0]));
	*v = NULL;
	*n = 0;
	if (!count || count > SCH_NODES_MAX)
		return;
	*v = sch__alloc(st, count * sizeof((*v)[0]));
	memcpy(*v, from, count * sizeof((*v)[0]));
	*n = (uint32_t)count;
}

void sch__plan_set(struct sch_state *st, struct sch_job *j, int64_t start_usec, const char *nodes,
		   const uint32_t *tasks, size_t count, const uint32_t *gpus, size_t gpu_count)
{
	uint8_t key[12];
	if (j->plan_start_usec > 0) {
		sch__pair_key(key, j->plan_start_usec, j->id);
		mu_map_del(&st->plan_starts, key, sizeof(key));
	}
	numbers_set(st, &j->plan_tasks, &j->plan_task_count, tasks, count);
	numbers_set(st, &j->plan_gpus, &j->plan_gpu_count, gpus, gpu_count);
	j->plan_start_usec = start_usec;
	j->plan_claim = false;
	sch__str_set(st, &j->plan_nodes, nodes);
	if (start_usec <= 0) {
		mu_map_del_u64(&st->plans, j->id);
		return;
	}
	sch__pair_key(key, start_usec, j->id);
	mu_map_put(&st->plan_starts, key, sizeof(key), j);
	mu_map_put_u64(&st->plans, j->id, j);
}

void sch__plan_clear(struct sch_state *st, struct sch_job *j)
{
	if (j->plan_start_usec || j->plan_nodes || j->plan_task_count)
		sch__plan_set(st, j, 0, NULL, NULL, 0, NULL, 0);
}

/* ---- plans whose moment has come ---- */

/* The first moment of MAP after SINCE; INT64_MAX: none. */
static int64_t first_after(const struct mu_map *map, int64_t since)
{
	uint8_t from[12];
	const uint8_t *key = NULL;
	size_t len = 0;
	sch__pair_key(from, since, UINT32_MAX);
	return mu_map_seek(map, from, sizeof(from), 1, &key, &len) ? (int64_t)mu_get_be64(key) : INT64_MAX;
}

/* The next moment after SINCE (as of NOW) at which a plan that is overdue, or what lies beside it on the
 * line, is seen otherwise; the line moves what is past its time to one microsecond after now, so a moment
 * counts that much before it comes. INT64_MAX: none. */
static int64_t next_turn(const struct sch_state *st, int64_t since, int64_t now)
{
	const uint8_t *key = NULL;
	size_t len = 0;
	int64_t first = first_after(&st->plan_starts, since + 1), end = first_after(&st->running, since + 1);
	first = end < first ? end : first;
	for (const struct sch_job *j = mu_map_seek(&st->plan_starts, NULL, 0, 0, &key, &len);
	     j && j->plan_start_usec <= now; j = mu_map_seek(&st->plan_starts, key, len, 1, &key, &len)) {
		const struct sch_part *p = sch__first_part(st, j);
		int64_t limit = p ? sch__job_limit_in(j, p) : 0,
			until = j->plan_start_usec + sch__length(limit);
		if (p && until > since + 1 && until < first)
			first = until;
		until = j->plan_start_usec + sch__length(j->time_min_sec);
		if (p && sch__job_limit_may(j, p, j->time_min_sec) && until > since + 1 && until < first)
			first = until;
	}
	return first == INT64_MAX ? first : first - 1;
}

static bool any_overdue(const struct sch_state *st, int64_t now)
{
	return first_after(&st->plan_starts, 0) <= now;
}

void sch__plans_time(struct sch_state *st, int64_t before_usec)
{
	int64_t now = st->cluster->now_usec;
	if (now > before_usec && any_overdue(st, now) && next_turn(st, before_usec, now) <= now)
		sch__wake(st);
}

int64_t sch__plans_due(const struct sch_state *st, int64_t since_usec)
{
	int64_t now = st->cluster->now_usec, first = first_after(&st->plan_starts, since_usec);
	if (any_overdue(st, now))
		first = next_turn(st, since_usec, now);
	return first == INT64_MAX ? 0 : first;
}

uint32_t sch__plan_picks(const struct sch_state *st, const struct sch_job *j, struct mu_arena *arena,
			 struct sch_pick *pick)
{
	char **names;
	size_t count;
	if (!j->plan_nodes || !j->plan_task_count ||
	    mu_hostlist_expand(j->plan_nodes->text, SCH_NODES_MAX, arena, &names, &count, NULL) ||
	    count > st->node_count || (j->plan_task_count != 1 && j->plan_task_count != count) ||
	    (j->plan_gpu_count > 1 && j->plan_gpu_count != count))
		return 0;
	for (size_t i = 0; i < count; i++) {
		pick[i].node = sch__node(st, names[i]);
		pick[i].tasks = j->plan_tasks[j->plan_task_count == 1 ? 0 : i];
		pick[i].gpus = !j->plan_gpu_count ? 0 : j->plan_gpus[j->plan_gpu_count == 1 ? 0 : i];
		pick[i].idle = 0;
		if (!pick[i].node)
			return 0;
	}
	return (uint32_t)count;
}

static bool same_but_node(const Mu__AllocNode *a, const Mu__AllocNode *b)
{
	if (a->cpus != b->cpus || a->mem_mib != b->mem_mib || a->tasks != b->tasks ||
	    a->n_gres != b->n_gres || !sch__same(a->share, b->share) || strcmp(a->cpu_list, b->cpu_list) != 0)
		return false;
	for (size_t i = 0; i < a->n_gres; i++) {
		const Mu__GresGot *x = a->gres[i], *y = b->gres[i];
		if (!sch__same(x->name, y->name) || !sch__same(x->type, y->type) || x->count != y->count ||
		    x->n_index != y->n_index)
			return false;
		for (size_t k = 0; k < x->n_index; k++)
			if (x->index[k] != y->index[k])
				return false;
	}
	return true;
}

/* Neighbours that hold the same become one element with a folded list. */
void sch__fold_allocs(Mu__Start *s, struct mu_arena *arena)
{
	size_t out = 0;
	const char **names = mu_arena_alloc(arena, (s->n_alloc + 1) * sizeof(names[0]));
	for (size_t i = 0; i < s->n_alloc;) {
		Mu__AllocNode *first = s->alloc[i];
		size_t count = 0;
		while (i < s->n_alloc && same_but_node(first, s->alloc[i]))
			names[count++] = s->alloc[i++]->node;
		if (count > 1) {
			struct mu_buf buf = {0};
			mu_hostlist_fold(names, count, &buf);
			first->node = mu_arena_strdup(arena, (const char *)buf.data);
			mu_buf_free(&buf);
		}
		s->alloc[out++] = first;
	}
	s->n_alloc = out;
}

uint32_t sch__part_reason(const struct sch_job *j, const struct sch_part *part)
{
	const Mu__PartitionConf *c = part->row->conf;
	int64_t max = c->has_max_time_sec ? c->max_time_sec : -1, limit = sch__job_limit_in(j, part);
	if (j->who->uid == 0)
		return REASON_None;
	if (max >= 0 && (limit < 0 || limit > max))
		return REASON_PartitionTimeLimit;
	if ((c->has_max_nodes && j->nodes_min > c->max_nodes) ||
	    (j->nodes_max && j->nodes_max < c->min_nodes))
		return REASON_PartitionNodeLimit;
	return REASON_None;
}

bool sch__waits_for_fence(const struct sch_state *st, const struct sch_job *j)
{
	if (!sch__conf(st)->requeue_needs_fence || !j->run)
		return false;
	bool open = j->run->left_count > 0;
	for (uint32_t i = 0; i < j->run->alloc_count; i++)
		open = open || !j->run->alloc[i].released;
	return open;
}
