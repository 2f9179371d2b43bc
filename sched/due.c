/* sched/due.c: when there is something to decide, and when time alone will make it so. */
#include "sched/timeline.h"

int64_t sch__silence_due(const struct sch_state *st)
{
	const Mu__Config *c = sch__conf(st);
	int64_t timeout = (c->has_slurmd_timeout_sec ? c->slurmd_timeout_sec : 300) * SCH_USEC,
		first = INT64_MAX;
	const struct sch_node *n = mu_map_seek(&st->silent, NULL, 0, 0, NULL, NULL);
	if (!timeout)
		return 0;
	if (n)
		first = n->silent_key;
	if (st->heard_count && st->cluster->heard_usec < first)
		first = st->cluster->heard_usec;
	if (first == INT64_MAX)
		return 0;
	if (first < st->cluster->leader_since_usec)
		first = st->cluster->leader_since_usec;
	return first + timeout;
}

static int64_t first_moment(const struct mu_map *map)
{
	const uint8_t *key = NULL;
	size_t len = 0;
	return mu_map_seek(map, NULL, 0, 0, &key, &len) ? (int64_t)mu_get_be64(key) : 0;
}

bool sch_wants_decide(const struct sch_state *st)
{
	int64_t now = st->cluster->now_usec, due = first_moment(&st->due), silence = sch__silence_due(st);
	if (!sch_founded(st))
		return false;
	if (st->cluster->cursor || (due && due <= now) || (silence && silence <= now))
		return true;
	uint64_t seen = st->pass_basis > st->scratch->quiet_pos ? st->pass_basis : st->scratch->quiet_pos;
	return st->wake_pos > seen;
}

int64_t sch_due_usec(const struct sch_state *st)
{
	int64_t first = 0, last_tick = st->cluster->last_tick_usec;
	int64_t v[] = {sch__silence_due(st),
		       first_moment(&st->due),
		       first_moment(&st->begins),
		       first_moment(&st->tombs),
		       sch__priorities_due(st),
		       sch__limits_due(st),
		       sch__resv_due(st),
		       sch__resv_replace_due(st) ? last_tick + 1 : 0,
		       first_moment(&st->switch_waits),
		       first_moment(&st->resumes),
		       sch__plans_due(st, last_tick),
		       first_moment(&st->exempts)};
	if (v[3])
		v[3] += sch__min_job_age(st);
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		if (v[i] && v[i] <= last_tick) /* Due already: a decision sees to the first two, the next tick
						  to the rest. */
			v[i] = i < 2 ? 0 : last_tick + 1;
		if (v[i] && (!first || v[i] < first))
			first = v[i];
	}
	return first;
}
