/* sched/share.c: CPUs that several jobs have at once. See share.h. */
#include "sched/share.h"
#include "sched/timeline.h"

#include <assert.h>
#include <stdlib.h>

/* ---- who shares ---- */

/* The N of FORCE:N or YES:N; 1: neither. */
static uint32_t share_count(const struct sch_part *p, bool *ret_forced)
{
	const char *text = p->row->conf->oversubscribe, *colon = text ? strchr(text, ':') : NULL;
	uint32_t n = 0;
	*ret_forced = colon && strncasecmp(text, "FORCE:", 6) == 0;
	if (!colon || (!*ret_forced && strncasecmp(text, "YES:", 4) != 0))
		return 1;
	for (const char *c = colon + 1; *c >= '0' && *c <= '9' && n < SCH_CPUS_PER_NODE; c++)
		n = 10 * n + (uint32_t)(*c - '0');
	return n < 1 ? 1 : n < UINT16_MAX ? n : UINT16_MAX;
}

uint32_t sch__share_most(const struct sch_part *p, const struct sch_shape *shape)
{
	bool forced;
	uint32_t n = share_count(p, &forced);
	return !shape->own_spec && (forced || (shape->shares && !shape->exclusive)) ? n : 1;
}

uint32_t sch__share_most_in(const struct sch_state *st, const char *part)
{
	bool forced;
	const struct sch_part *p = sch__part(st, part);
	return p ? share_count(p, &forced) : 1;
}

/* ---- stacks ---- */

const struct sch_stack *sch__stack_of(const struct sch_room *r, const char *part)
{
	const struct sch_stack *s = r->stack;
	while (s && strcmp(s->part, part) != 0)
		s = s->next;
	return s;
}

static struct sch_stack *stack_new(const char *part)
{
	struct sch_stack *s = calloc(1, sizeof(*s));
	if (!s)
		abort();
	s->part = part;
	return s;
}

static void add_level(struct sch_stack *s, const struct mu_bits *cpu)
{
	struct mu_bits *level = realloc(s->level, (s->levels + 1) * sizeof(level[0]));
	if (!level)
		abort();
	s->level = level;
	s->level[s->levels] = (struct mu_bits){0};
	mu_bits_copy(&s->level[s->levels++], cpu);
}

void sch__stack_take(struct sch_room *r, const char *part, const struct mu_bits *cpu)
{
	struct sch_stack *s = (struct sch_stack *)sch__stack_of(r, part);
	struct mu_bits up = {0}, both = {0};
	if (!s) {
		s = stack_new(part);
		s->next = r->stack;
		r->stack = s;
	}
	mu_bits_or(&r->cpu, cpu);
	mu_bits_copy(&up, cpu);
	for (uint32_t k = 0; k < s->levels; k++) {
		mu_bits_copy(&both, &up);
		mu_bits_and(&both, &s->level[k]);
		mu_bits_or(&s->level[k], &up);
		mu_bits_copy(&up, &both);
	}
	if (mu_bits_next(&up, 0) != UINT32_MAX)
		add_level(s, &up);
	mu_bits_free(&up);
	mu_bits_free(&both);
}

static void drop_stack(struct sch_room *r, struct sch_stack *s)
{
	struct sch_stack **at = &r->stack;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	free(s->level);
	free(s);
}

void sch__stack_give(struct sch_room *r, const char *part, const struct mu_bits *cpu)
{
	struct sch_stack *s = (struct sch_stack *)sch__stack_of(r, part);
	struct mu_bits left = {0}, here = {0};
	assert(s);
	mu_bits_copy(&left, cpu);
	for (uint32_t k = s->levels; k-- > 0;) {
		mu_bits_copy(&here, &left);
		mu_bits_and(&here, &s->level[k]);
		mu_bits_andnot(&s->level[k], &here);
		mu_bits_andnot(&left, &here);
	}
	assert(mu_bits_next(&left, 0) == UINT32_MAX); /* It had them. */
	mu_bits_andnot(&r->cpu, &here);		      /* Of the lowest level: nobody has those any more. */
	while (s->levels && mu_bits_next(&s->level[s->levels - 1], 0) == UINT32_MAX)
		mu_bits_free(&s->level[--s->levels]);
	if (!s->levels)
		drop_stack(r, s);
	mu_bits_free(&left);
	mu_bits_free(&here);
}

void sch__stacks_copy(struct sch_room *dst, const struct sch_room *src)
{
	struct sch_stack **at = &dst->stack;
	for (const struct sch_stack *s = src->stack; s; s = s->next) {
		*at = stack_new(s->part);
		for (uint32_t k = 0; k < s->levels; k++)
			add_level(*at, &s->level[k]);
		at = &(*at)->next;
	}
}

void sch__stacks_free(struct sch_room *r)
{
	while (r->stack) {
		struct sch_stack *s = r->stack;
		for (uint32_t k = 0; k < s->levels; k++)
			mu_bits_free(&s->level[k]);
		drop_stack(r, s);
	}
}

/* The CPUs of R that are taken for a job of PART of whose kind MOST may have one. */
static void taken_for(const struct sch_room *r, const char *part, uint32_t most, struct mu_bits *ret)
{
	const struct sch_stack *s = part ? sch__stack_of(r, part) : NULL;
	mu_bits_copy(ret, &r->cpu);
	if (!s)
		return;
	mu_bits_andnot(ret, &s->level[0]);
	if (most <= s->levels)
		mu_bits_or(ret, &s->level[most - 1]);
	mu_bits_or(ret, &r->veil);
}

bool sch__share_clash(const struct sch_room *r, const struct sch_alloc *a, uint32_t most)
{
	struct mu_bits taken = {0};
	if (!a->share)
		return mu_bits_intersects(&r->cpu, &a->cpu);
	taken_for(r, a->share, most, &taken);
	bool clash = mu_bits_intersects(&taken, &a->cpu);
	mu_bits_free(&taken);
	return clash;
}

/* ---- a room, seen by a job that shares ---- */

bool sch__share_see(const struct sch_need *need, const struct sch_node *n, const struct sch_room *r,
		    struct sch_room *ret)
{
	if (need->share <= 1 || !r->stack)
		return false;
	*ret = *r;
	ret->cpu = ret->veil = (struct mu_bits){0};
	taken_for(r, need->part->row->conf->name, need->share, &ret->cpu);
	sch__room_recount(ret, n);
	return true;
}

void sch__share_unsee(struct sch_room *r)
{
	mu_bits_free(&r->cpu);
}

uint32_t sch__share_load(const struct sch_need *need, const struct sch_room *r, uint32_t b, uint32_t step)
{
	const struct sch_stack *s = r->stack ? sch__stack_of(r, need->part->row->conf->name) : NULL;
	for (uint32_t k = s ? s->levels : 0; k > 0; k--)
		for (uint32_t t = 0; t < step; t++)
			if (mu_bits_test(&s->level[k - 1], b + t))
				return k;
	return 0;
}

/* ---- on the line ---- */

void sch__share_look(struct sch_line *line, const struct sch_need *need)
{
	const struct sch_shape *s = need->shape;
	uint64_t cpus = (uint64_t)s->ntasks * s->cpus_per_task;
	bool plain = !need->by_core && !need->by_socket && !s->grows && !need->cpus_per_gpu;
	line->share = need->share_full > 1 ? need->part->row->conf->name : NULL;
	line->share_most = need->share;
	line->share_full = need->share_full;
	line->share_cpus = !plain ? UINT32_MAX : (uint32_t)(cpus > s->mincpus ? cpus : s->mincpus);
}

void sch__share_look_held(struct sch_line *line, const struct sch_alloc *a)
{
	line->share = a->share;
	line->share_most = line->share_full = a->share ? sch__share_most_in(line->st, a->share) : 1;
	line->share_cpus = a->cpus;
}

void sch__share_apart(const struct sch_node *n, const struct sch_room *base, struct sch_room *ret)
{
	for (const struct sch_stack *s = base->stack; s; s = s->next) {
		uint32_t cpus = mu_bits_count(&s->level[0]), cores = (cpus + n->tpc - 1) / n->tpc;
		ret->cpus -= cpus;
		ret->cores = ret->cores > cores ? ret->cores - cores : 0;
	}
}

/* What sharing jobs have of one node at one moment. */
struct moment {
	const uint16_t *own;   /* by CPU: how many of the looker's kind have it */
	uint32_t cpus;	       /* of the node */
	uint32_t others;       /* CPUs of sharing jobs of other partitions */
	uint32_t own_any;      /* CPUs that any of its kind has */
	uint32_t planned;      /* jobs of its kind that are planned then */
	uint64_t planned_cpus; /* theirs together */
	bool strangers;	       /* jobs of another kind are planned then */
};

/* How many CPUs can have MOST jobs when COUNT jobs with CPUS together come, each of which has a CPU once. */
enum { DEEP = 32 };
static uint32_t full_at_worst(const struct moment *m, uint32_t most, uint32_t count, uint64_t cpus)
{
	uint32_t missing[DEEP + 1] = {0}, full = 0;
	for (uint32_t b = 0; b < m->cpus; b++) {
		uint32_t d = most > m->own[b] ? most - m->own[b] : 0;
		full += d == 0;
		if (d > 0 && d <= count)
			missing[d < DEEP ? d : DEEP]++;
	}
	for (uint32_t d = 1; d <= DEEP; d++) { /* What is nearest to it is full first. */
		uint64_t more = cpus / d < missing[d] ? cpus / d : missing[d];
		full += (uint32_t)more;
		cpus -= more * d;
	}
	return full;
}

static void count_stacks(struct sch_line *line, const struct sch_node *n, const struct sch_room *base,
			 int64_t at, uint16_t *own, uint16_t *others)
{
	for (const struct sch_stack *s = base->stack; s; s = s->next) {
		uint16_t *v = line->share && strcmp(s->part, line->share) == 0 ? own : others;
		for (uint32_t k = 0; k < s->levels; k++)
			for (uint32_t b = mu_bits_next(&s->level[k], 0); b != UINT32_MAX;
			     b = mu_bits_next(&s->level[k], b + 1))
				v[b]++;
	}
	for (const struct sch_line_end *e = line->ends[n->rank]; e; e = e->next, ++*line->steps) {
		const struct mu_bits *cpu = e->use.share_cpu;
		if (!e->use.share || !cpu || e->at_usec > at || e->out)
			continue;
		uint16_t *v = line->share && strcmp(e->use.share, line->share) == 0 ? own : others;
		for (uint32_t b = mu_bits_next(cpu, 0); b != UINT32_MAX; b = mu_bits_next(cpu, b + 1)) {
			assert(v[b] > 0);
			v[b]--;
		}
	}
	for (uint32_t b = mu_bits_next(&base->veil, 0); b != UINT32_MAX; b = mu_bits_next(&base->veil, b + 1))
		own[b] = own[b] ? UINT16_MAX : 0;
}

static bool stands(struct sch_line *line, const struct sch_line_span *s, const struct sch_node *n, int64_t at)
{
	++*line->steps;
	return s->from_usec <= at && at < s->until_usec && sch__line_sees(line, s, n);
}

static void count_plans(struct sch_line *line, const struct sch_node *n, int64_t at, struct moment *m)
{
	for (const struct sch_line_span *s = line->spans[n->rank]; s; s = s->next) {
		if (!stands(line, s, n, at))
			continue;
		if (!s->use.share || !line->share || strcmp(s->use.share, line->share) != 0) {
			m->strangers = m->strangers || s->use.cpus;
			m->others += s->use.share ? s->use.cpus : 0;
			continue;
		}
		m->planned++;
		m->planned_cpus += s->use.cpus;
	}
}

/* Whoever looks may come to lie on any CPUs: have those planned of its kind enough all the same? */
static bool planned_keep(struct sch_line *line, const struct sch_node *n, int64_t at, const struct moment *m,
			 uint32_t taken)
{
	uint32_t more = line->share_cpus < m->cpus ? line->share_cpus : m->cpus;
	for (const struct sch_line_span *s = line->spans[n->rank]; s && m->planned; s = s->next) {
		if (!stands(line, s, n, at) || !s->use.share || strcmp(s->use.share, line->share) != 0)
			continue;
		uint64_t full =
		    full_at_worst(m, line->share_full, m->planned, m->planned_cpus - s->use.cpus + more);
		if (taken + full + s->use.cpus > n->cpu_end)
			return false;
	}
	return true;
}

void sch__share_at(struct sch_line *line, const struct sch_node *n, const struct sch_room *base,
		   int64_t at_usec, struct sch_room *ret)
{
	uint32_t cpus = n->row->cpus, taken;
	if (line->times_cap < cpus) {
		line->share_times = mu_arena_alloc(line->arena, 2 * cpus * sizeof(uint16_t));
		line->times_cap = cpus;
	}
	uint16_t *own = line->share_times, *others = own + cpus;
	memset(own, 0, 2 * cpus * sizeof(uint16_t));
	struct moment m = {.own = own, .cpus = cpus};
	*line->steps += cpus / SCH_CPUS_PER_STEP;
	count_stacks(line, n, base, at_usec, own, others);
	count_plans(line, n, at_usec, &m);
	for (uint32_t b = 0; b < cpus; b++) {
		m.others += others[b] > 0;
		m.own_any += own[b] > 0;
	}
	taken = m.others;
	if (!line->share || m.strangers) /* It might have them, and they might not be theirs then. */
		taken += m.own_any + (uint32_t)m.planned_cpus;
	else
		taken += full_at_worst(&m, line->share_most, m.planned, m.planned_cpus);
	if (line->share && !planned_keep(line, n, at_usec, &m, ret->cpus + m.others))
		taken = cpus;
	ret->cpus += taken;
	ret->cores += (taken + n->tpc - 1) / n->tpc;
}
