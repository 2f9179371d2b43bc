/* sched/test_only.c: sbatch --test-only: when and where a job would start, seen from the present State,
 * without submitting it: as running jobs reach their limits, beside the planned starts of jobs that wait. */
#include "sched/timeline.h"

#include "proto/hostlist.h"

struct answer {
	int64_t start_usec;
	uint32_t count, cpus;
	const struct sch_part *part;
};

static void ask_part(struct sch_line *line, const struct sch_shape *shape, const struct sch_part *p,
		     uint32_t uid, int64_t length, struct mu_arena *arena, struct sch_pick *pick,
		     struct answer *ret)
{
	const struct sch_state *st = line->st;
	struct sch_need need;
	struct mu_bits nodes = {0}, required = {0};
	int64_t now = line->now_usec;
	sch__need(st, shape, p, uid, &need);
	ret->part = p;
	if (p->state == SCH_PART_UP && sch__filter(st, &need, p, arena, &nodes, &required, NULL) == 0) {
		const struct sch_resv *in = line->in;
		for (uint32_t i = 0; in && !sch__resv_flag(in, RESV_FLAG_FLEX) && i < nodes.words; i++)
			nodes.word[i] &= i < in->nodes.words ? in->nodes.word[i] : 0;
		for (uint32_t i = 0; i < nodes.words; i++)
			nodes.word[i] &= i < st->usable.words ? st->usable.word[i] : 0;
		ret->start_usec = now;
		ret->count = sch__line_choose(line, &need, &nodes, &required, now, now + length, pick);
		if (!ret->count)
			ret->start_usec = sch__line_earliest(line, &need, &nodes, &required, length,
							     INT64_MAX, pick, &ret->count);
	}
	struct sch_gres_room none[SCH_GRES_PER_NODE] = {0};
	for (uint32_t i = 0; i < ret->count; i++) {
		struct sch_room empty = {.gres = none};
		ret->cpus += sch__cut(&need, &pick[i], &empty, arena)->cpus;
	}
	mu_bits_free(&nodes);
	mu_bits_free(&required);
}

int sch_test_only(const struct sch_state *st, const Mu__Event *event, struct mu_arena *arena, Mu__Reply *ret,
		  struct mu_err *err)
{
	const Mu__JobSpec *spec =
	    event->kind_case == MU__EVENT__KIND_SUBMITTED ? event->submitted->spec : NULL;
	struct sch_want want;
	struct sch_shape shape;
	struct answer best = {0};
	if (!spec || !event->author)
		return mu_fail(err, MU_EINVAL, "A submission without a job");
	int rc = sch__resolve(st, spec, event->author, arena, &want, err);
	if (rc)
		return rc;
	sch__shape_in(arena, spec, &want, &shape);
	struct sch_pick *pick = mu_arena_alloc(arena, (st->node_count + 1) * sizeof(*pick));
	const char **names = mu_arena_alloc(arena, (st->node_count + 1) * sizeof(*names));
	struct sch_overlay rooms;
	struct sch_line line;
	uint64_t steps = 0;
	sch__overlay_init(&rooms, st, arena);
	sch__line_init(&line, &rooms, arena, &steps);
	line.in = sch__resv(st, spec->reservation);
	line.licenses = spec->licenses && *spec->licenses ? spec->licenses : NULL;
	int why = 0; /* what keeps the job out of a partition for good, where it waits for nothing else */
	for (uint32_t i = 0; i < want.part_count; i++) {
		struct answer a = {0};
		rc = sch__part_limits(want.part[i], spec, &want, event->author);
		if (!rc)
			rc = sch__part_size(st, want.part[i], &shape, arena, NULL);
		if (rc) {
			why = why ? why : rc;
			continue;
		}
		int64_t length = sch__length(sch__part_limit(want.part[i], spec));
		ask_part(&line, &shape, want.part[i], event->author->uid, length, arena, pick, &a);
		if (!a.count || (best.count && a.start_usec >= best.start_usec))
			continue;
		best = a;
		for (uint32_t k = 0; k < a.count; k++)
			names[k] = pick[k].node->row->name;
	}
	if (!best.count)
		return sch__refuse(err, why ? why : MU_ENODEUNAVAIL);
	struct mu_buf buf = {0};
	mu_hostlist_fold_sorted(names, best.count, &buf);
	ret->nodes = mu_arena_strdup(arena, (const char *)buf.data);
	mu_buf_free(&buf);
	int64_t begin = spec->begin_usec > best.start_usec ? spec->begin_usec : best.start_usec;
	SCH_SET(ret, start_usec, begin);
	SCH_SET(ret, cpus, best.cpus);
	SCH_SET(ret, job, st->cluster->next_job_id);
	ret->partition = best.part->row->conf->name;
	return 0;
}
