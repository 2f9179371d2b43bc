/* sched/timeline.c: what will be free when. A line is made for one slice from State: what is taken now, the
 * moments at which running jobs reach their limits, and the places of planned jobs. It answers two questions:
 * what is the most that is taken of a node within a span of time, and when does a job first find its places.
 *
 * A job that is ending, or is past its limit, gives its places back "right after now": a plan may count on
 * them, a start may not. */
#include "sched/timeline.h"

#include <assert.h>
#include <stdlib.h>

/* ---- what is on the line ---- */

static void add_time(struct sch_line *line, int64_t at)
{
	if (at <= line->now_usec || at == INT64_MAX)
		return;
	if (line->time_count == line->time_cap) {
		uint32_t cap = line->time_cap ? 2 * line->time_cap : 256;
		int64_t *v = mu_arena_alloc(line->arena, cap * sizeof(v[0]));
		if (line->time_count)
			memcpy(v, line->times, line->time_count * sizeof(v[0]));
		line->times = v;
		line->time_cap = cap;
	}
	line->times[line->time_count++] = at;
	line->sorted = false;
}

static struct sch_line_end *add_end(struct sch_line *line, struct sch_line_end *e, const struct sch_node *n,
				    int64_t at)
{
	e->at_usec = at > line->now_usec ? at : line->now_usec + 1;
	e->next = line->ends[n->rank];
	line->ends[n->rank] = e;
	++*line->steps;
	return e;
}

void sch__line_lift(struct sch_line *line, const struct sch_node *n, const struct sch_job *j, bool out)
{
	for (struct sch_line_end *e = line->ends[n->rank]; e; e = e->next, ++*line->steps)
		if (e->job == j)
			e->out = out;
}

static uint64_t *new_gres(struct sch_line *line, const struct sch_node *n)
{
	return mu_arena_alloc(line->arena, (n->row->n_gres + 1) * sizeof(uint64_t));
}

static const struct mu_bits *cpus_of(struct sch_line *line, const Mu__AllocNode *row)
{
	struct mu_bits cpu = {0}, *ret = mu_arena_alloc(line->arena, sizeof(*ret));
	int rc = mu_bits_parse(&cpu, row->cpu_list, SCH_CPUS_PER_NODE - 1);
	assert(rc == 0); /* We printed it. */
	ret->word = mu_arena_alloc(line->arena, (cpu.words + 1) * sizeof(ret->word[0]));
	if (cpu.words)
		memcpy(ret->word, cpu.word, cpu.words * sizeof(ret->word[0]));
	ret->words = cpu.words;
	mu_bits_free(&cpu);
	return ret;
}

static void alloc_ends(struct sch_line *line, struct sch_line_end *e, const struct sch_job *j,
		       const struct sch_part *p, const struct sch_alloc *a, int64_t at)
{
	uint32_t tpc = a->node->tpc;
	add_end(line, e, a->node, at);
	e->job = j;
	e->use.parked = a->parked;
	e->part = p;
	e->use.cpus = a->parked ? 0 : mu_bits_count(&a->cpu);
	e->use.share = a->share;
	e->use.share_cpu = a->share && !a->parked ? &a->cpu : NULL;
	e->use.cores = (e->use.cpus + tpc - 1) / tpc;
	e->use.mem_mib = a->mem_mib;
	e->use.exclusive = a->node->room.exclusive && !a->parked;
	e->use.gres = a->got_count ? new_gres(line, a->node) : NULL;
	for (uint32_t i = 0; i < a->got_count; i++)
		e->use.gres[a->got[i].entry] += a->got[i].count;
}

void sch__line_ends(struct sch_line *line, const struct sch_node *n, const struct sch_job *j,
		    const struct sch_part *p, const Mu__AllocNode *row, bool exclusive, int64_t at_usec)
{
	struct sch_line_end *e = add_end(line, mu_arena_alloc(line->arena, sizeof(*e)), n, at_usec);
	e->job = j;
	e->part = p;
	uint32_t tpc = n->tpc;
	e->use.cpus = row->cpus;
	e->use.cores = (row->cpus + tpc - 1) / tpc;
	e->use.mem_mib = row->mem_mib;
	if (row->share && *row->share) {
		e->use.share = row->share;
		e->use.share_cpu = cpus_of(line, row);
	}
	e->use.exclusive = exclusive;
	e->use.gres = row->n_gres ? new_gres(line, n) : NULL;
	for (size_t i = 0; i < row->n_gres; i++) {
		uint32_t entry = sch__gres_entry(n, row->gres[i]);
		assert(entry != UINT32_MAX);
		e->use.gres[entry] += row->gres[i]->count;
	}
	add_time(line, e->at_usec);
}

/* Counted as the pass did that started it: the little that the log takes moves no plan. */
int64_t sch__line_end_usec(const struct sch_job *j)
{
	int64_t at = sch__run_since(j) - j->start_late_usec + sch__span(j->time_limit_sec);
	if (j->run && j->run->preempt_end_usec && j->run->preempt_end_usec < at)
		at = j->run->preempt_end_usec;
	return j->resv_end_usec && j->resv_end_usec < at ? j->resv_end_usec : at;
}

static void running_ends(struct sch_line *line)
{
	const uint8_t *key = NULL;
	size_t len = 0;
	const struct mu_map *running = &line->st->running;
	for (struct sch_job *j = mu_map_seek(running, NULL, 0, 0, &key, &len); j;
	     j = mu_map_seek(running, key, len, 1, &key, &len)) {
		int64_t at = sch__line_end_usec(j);
		add_time(line, at);
		/* Whoever is past its limit has its licences until it is gone. */
		sch__line_lic(line, j, 0, at > line->now_usec ? at : line->now_usec + 1, false);
		const struct sch_part *part = sch__part(line->st, sch__text(j->partition));
		struct sch_line_end *e = mu_arena_alloc(line->arena, (j->run->alloc_count + 1) * sizeof(*e));
		for (uint32_t i = 0; i < j->run->alloc_count; i++)
			if (!j->run->alloc[i].released && !j->run->alloc[i].lost)
				alloc_ends(line, e++, j, part, &j->run->alloc[i], at);
	}
}

static void completing_ends(struct sch_line *line)
{
	const struct sch_state *st = line->st;
	for (uint32_t r = 0; st->completing && r < st->node_count; r++) {
		struct sch_node *n = st->by_rank[r];
		for (uint32_t i = 0; n->row->flags & NODE_FLAG_COMPLETING && i < n->hold_count; i++) {
			const struct sch_alloc *a = sch__alloc_on(n->hold[i].job, n->hold[i].attempt, n);
			if (n->hold[i].job->state == JOB_COMPLETING && !a->lost)
				alloc_ends(line, mu_arena_alloc(line->arena, sizeof(struct sch_line_end)),
					   n->hold[i].job,
					   sch__part(st, sch__text(n->hold[i].job->partition)), a,
					   line->now_usec);
		}
	}
}

/* ---- licences ---- */

void sch__line_lic(struct sch_line *line, const struct sch_job *j, int64_t from_usec, int64_t until_usec,
		   bool plan)
{
	if (!j->licenses)
		return;
	struct sch_line_lic *l = mu_arena_alloc(line->arena, sizeof(*l));
	*l = (struct sch_line_lic){
	    .next = line->lic, .job = j, .from_usec = from_usec, .until_usec = until_usec, .plan = plan};
	line->lic = l;
}

struct lic_span {
	struct sch_line *line;
	int64_t from, until;
};

/* What suspended jobs have is never given back; of plans all that touch the span count. */
static uint64_t lic_taken(void *arg, const struct sch_lic_ask *ask)
{
	struct lic_span *s = arg;
	const struct sch_line *line = s->line;
	const struct sch_lic *lic = mu_map_get(&line->st->lics, ask->name, ask->len);
	uint64_t used = lic ? lic->used : 0;
	for (const struct sch_line_lic *l = line->lic; l; l = l->next, ++*line->steps) {
		if (l->dead)
			continue;
		bool theirs = line->no_spans || (sch__het_same(l->job, line->me) && !line->siblings) ||
			      (line->above_only && line->me && sch__behind(line->st, l->job, line->me));
		uint32_t has = sch__lic_of(l->job, ask);
		if (!l->plan && l->from_usec) /* Started within the pass. */
			used += l->until_usec > s->from ? has : 0;
		else if (!l->plan)
			used -= l->until_usec > s->from || used < has ? 0 : has;
		else if (!theirs && l->from_usec < s->until && l->until_usec > s->from)
			used += has;
	}
	return used;
}

bool sch__line_licences(struct sch_line *line, int64_t from_usec, int64_t until_usec)
{
	struct lic_span s = {line, from_usec, until_usec};
	return !line->licenses ||
	       sch__lic_fits(line->st, line->licenses, line->in, from_usec, until_usec, lic_taken, &s);
}

void sch__line_plan(struct sch_line *line, const struct sch_job *j, const struct sch_need *need,
		    int64_t from_usec, int64_t until_usec, const struct sch_pick *pick, uint32_t count)
{
	line->me = NULL;
	line->above_only = line->claims_only = line->no_spans = line->siblings = false;
	for (uint32_t i = 0; i < count; i++) {
		const struct sch_node *n = pick[i].node;
		struct sch_line_span *s = mu_arena_alloc(line->arena, sizeof(*s));
		sch__use(need, &pick[i], sch__line_room(line, n, from_usec, until_usec), line->arena,
			 &s->use);
		s->job = j;
		s->from_usec = from_usec;
		s->until_usec = until_usec;
		s->next = line->spans[n->rank];
		line->spans[n->rank] = s;
		line->sharing = line->sharing || s->use.share;
		++*line->steps;
	}
	line->span_count += count;
	sch__line_lic(line, j, from_usec, until_usec, true);
	add_time(line, until_usec);
}

void sch__line_unplan(struct sch_line *line, const struct sch_job *j, const struct sch_pick *pick,
		      uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		for (struct sch_line_span *s = line->spans[pick[i].node->rank]; s; s = s->next)
			s->dead = s->dead || s->job == j;
	for (struct sch_line_lic *l = line->lic; l; l = l->next)
		l->dead = l->dead || (l->plan && l->job == j);
}

/* A plan whose moment has come but whose nodes have not: it stays where it was promised. */
static void standing_plan(struct sch_line *line, const struct sch_job *j, struct sch_pick *pick)
{
	const struct sch_part *p = sch__first_part(line->st, j);
	uint32_t count = p && sch__waits(line->st, j) ? sch__plan_picks(line->st, j, line->arena, pick) : 0;
	if (!count)
		return;
	struct sch_need need;
	int64_t from = j->plan_start_usec, until = from + sch__length(sch__job_limit_in(j, p));
	sch__need(line->st, j->shape, p, j->who->uid, &need);
	if (from <= line->now_usec)
		from = line->now_usec + 1;
	if (j->plan_claim) /* However long those take that give way: it is kept whole. */
		until = from + sch__length(sch__job_limit_in(j, p));
	sch__line_plan(line, j, &need, from, until > from ? until : from + 1, pick, count);
}

/* What a reservation keeps on one node at one of its times. */
static void resv_span(struct sch_line *line, const struct sch_resv *r, const struct sch_node *n,
		      uint32_t cpus, bool whole, int64_t from, int64_t until)
{
	struct sch_line_span *s = mu_arena_alloc(line->arena, sizeof(*s));
	s->resv = r;
	s->from_usec = from;
	s->until_usec = until;
	s->use.cpus = cpus;
	s->use.cores = (cpus + sch__tpc(n) - 1) / sch__tpc(n);
	s->use.exclusive = whole;
	s->use.gres = mu_arena_alloc(line->arena, (n->row->n_gres + 1) * sizeof(s->use.gres[0]));
	s->next = line->spans[n->rank];
	line->spans[n->rank] = s;
	line->span_count++;
	++*line->steps;
}

static void reservations(struct sch_line *line)
{
	const struct sch_state *st = line->st;
	int64_t from, until;
	for (const struct sch_resv *r = sch__resv_next(st, NULL); r; r = sch__resv_next(st, r))
		for (uint32_t k = 0;
		     k < SCH_RESV_LINE_TIMES && sch__resv_time(r, line->now_usec, k, &from, &until); k++) {
			if (until <= line->now_usec)
				continue;
			add_time(line, until);
			for (uint32_t i = 0; i < r->part_count; i++)
				resv_span(line, r, r->part[i].node, r->part[i].cpus, false, from, until);
			for (uint32_t n = r->part_count ? UINT32_MAX : mu_bits_next(&r->nodes, 0);
			     n != UINT32_MAX; n = mu_bits_next(&r->nodes, n + 1))
				resv_span(line, r, st->by_rank[n], 0, true, from, until);
		}
}

static void sort_plans(const struct sch_state *st, struct sch_job **v, uint32_t count)
{
	for (uint32_t gap = count / 2; gap > 0; gap /= 2)
		for (uint32_t i = gap; i < count; i++)
			for (uint32_t k = i; k >= gap && sch__behind(st, v[k - gap], v[k]); k -= gap) {
				struct sch_job *swap = v[k];
				v[k] = v[k - gap];
				v[k - gap] = swap;
			}
}

static void standing_plans(struct sch_line *line)
{
	const struct sch_state *st = line->st;
	struct sch_job **v = mu_arena_alloc(line->arena, (st->plans.count + 1) * sizeof(v[0]));
	struct sch_pick *pick = mu_arena_alloc(line->arena, (st->node_count + 1) * sizeof(pick[0]));
	uint32_t count = 0;
	uint64_t id = 0;
	for (struct sch_job *j = mu_map_next_u64(&st->plans, 0, &id); j;
	     j = mu_map_next_u64(&st->plans, id + 1, &id))
		v[count++] = j;
	sort_plans(st, v, count);
	for (uint32_t i = 0; i < count; i++)
		standing_plan(line, v[i], pick);
}

void sch__line_init(struct sch_line *line, const struct sch_overlay *rooms, struct mu_arena *arena,
		    uint64_t *steps)
{
	const struct sch_state *st = rooms->st;
	*line = (struct sch_line){
	    .st = st, .arena = arena, .rooms = rooms, .now_usec = st->cluster->now_usec, .steps = steps};
	line->ends = mu_arena_alloc(arena, (st->node_count + 1) * sizeof(line->ends[0]));
	line->spans = mu_arena_alloc(arena, (st->node_count + 1) * sizeof(line->spans[0]));
	line->order = mu_arena_alloc(arena, (st->node_count + 1) * sizeof(line->order[0]));
	add_time(line, line->now_usec + 1);
	running_ends(line);
	completing_ends(line);
	reservations(line);
	standing_plans(line);
}

/* ---- one node ---- */

bool sch__line_sees(const struct sch_line *line, const struct sch_line_span *s, const struct sch_node *n)
{
	if (s->resv) { /* Whole nodes are asked of the mask where the moment is now; so are CPUs. */
		const struct sch_resv *in = line->in;
		if (line->no_spans || s->resv == in || (line->veiled && s->resv->part_count))
			return false;
		return !(in && sch__resv_flag(in, RESV_FLAG_MAINT | RESV_FLAG_OVERLAP) &&
			 mu_bits_test(&in->nodes, n->rank));
	}
	if (line->no_spans || s->dead)
		return false;
	if (line->me && sch__het_same(s->job, line->me))
		return line->siblings;
	if (s->job->plan_claim)
		return true;
	return !line->claims_only && (!line->above_only || !sch__behind(line->st, s->job, line->me));
}

static void take(struct sch_room *r, const struct sch_node *n, const struct sch_use *u)
{
	if (!u->share) {
		r->cpus += u->cpus;
		r->cores += u->cores;
	}
	r->mem_mib += u->mem_mib;
	r->jobs++;
	r->exclusive = r->exclusive || u->exclusive;
	for (size_t g = 0; u->gres && g < n->row->n_gres; g++)
		r->gres[g].count += u->gres[g];
}

static void give(struct sch_room *r, const struct sch_node *n, const struct sch_use *u)
{
	assert(u->share || r->cpus >= u->cpus);
	assert(r->mem_mib >= u->mem_mib);
	assert(u->parked || r->jobs > 0);
	if (!u->share) {
		r->cpus -= u->cpus;
		r->cores = r->cores > u->cores ? r->cores - u->cores : 0;
	}
	r->mem_mib -= u->mem_mib;
	r->jobs -= !u->parked;
	r->exclusive = r->exclusive && !u->exclusive;
	for (size_t g = 0; u->gres && g < n->row->n_gres; g++)
		r->gres[g].count -= u->gres[g];
}

/* Everything that changes on one node, in order of time, what is given back first. */
struct sch_line_delta {
	int64_t at_usec;
	const struct sch_use *use;
	const struct sch_line_span *span; /* NULL: of a running job */
	const struct sch_line_end *end;
	bool take;
};

static int by_moment(const void *a, const void *b)
{
	const struct sch_line_delta *x = a, *y = b;
	if (x->at_usec != y->at_usec)
		return x->at_usec < y->at_usec ? -1 : 1;
	return (int)x->take - (int)y->take;
}

static const struct sch_line_order *order_of(struct sch_line *line, const struct sch_node *n)
{
	struct sch_line_order *o = &line->order[n->rank];
	uint32_t count = 0;
	if (o->ends == line->ends[n->rank] && o->spans == line->spans[n->rank])
		return o;
	o->ends = line->ends[n->rank];
	o->spans = line->spans[n->rank];
	for (const struct sch_line_end *e = o->ends; e; e = e->next)
		count++;
	for (const struct sch_line_span *s = o->spans; s; s = s->next)
		count += 2;
	if (count > o->cap) {
		o->cap = 2 * count;
		o->v = mu_arena_alloc(line->arena, o->cap * sizeof(o->v[0]));
	}
	o->count = 0;
	for (const struct sch_line_end *e = o->ends; e; e = e->next)
		o->v[o->count++] = (struct sch_line_delta){e->at_usec, &e->use, NULL, e, false};
	for (const struct sch_line_span *s = o->spans; s; s = s->next) {
		o->v[o->count++] = (struct sch_line_delta){s->from_usec, &s->use, s, NULL, true};
		o->v[o->count++] = (struct sch_line_delta){s->until_usec, &s->use, s, NULL, false};
	}
	if (o->count > 1)
		qsort(o->v, o->count, sizeof(o->v[0]), by_moment);
	*line->steps += o->count;
	return o;
}

static void copy_room(struct sch_room *dst, const struct sch_room *src, const struct sch_node *n)
{
	struct sch_gres_room *gres = dst->gres;
	*dst = *src;
	dst->gres = gres;
	dst->stack = NULL;
	dst->cpu = dst->veil = (struct mu_bits){0}; /* Which ones will be free nobody knows: only how many. */
	for (size_t g = 0; g < n->row->n_gres; g++)
		dst->gres[g].count = src->gres[g].count;
}

static void raise_to(struct sch_room *peak, const struct sch_node *n, const struct sch_room *r)
{
	peak->cpus = peak->cpus > r->cpus ? peak->cpus : r->cpus;
	peak->cores = peak->cores > r->cores ? peak->cores : r->cores;
	peak->jobs = peak->jobs > r->jobs ? peak->jobs : r->jobs;
	peak->mem_mib = peak->mem_mib > r->mem_mib ? peak->mem_mib : r->mem_mib;
	peak->exclusive = peak->exclusive || r->exclusive;
	for (size_t g = 0; g < n->row->n_gres; g++)
		if (r->gres[g].count > peak->gres[g].count)
			peak->gres[g].count = r->gres[g].count;
}

/* Whole nodes may be promised more than once (reservations that overlap): they are counted. */
static void apply(struct sch_room *r, const struct sch_node *n, const struct sch_line_delta *d,
		  uint32_t *exclusive)
{
	if (d->take)
		take(r, n, d->use);
	else
		give(r, n, d->use);
	if (d->use->exclusive && d->take)
		++*exclusive;
	else if (d->use->exclusive && *exclusive)
		--*exclusive;
	r->exclusive = *exclusive > 0;
}

static bool counts(const struct sch_line *line, const struct sch_line_delta *d, const struct sch_node *n)
{
	return d->span ? sch__line_sees(line, d->span, n) : !d->end->out;
}

const struct sch_room *sch__line_room(struct sch_line *line, const struct sch_node *n, int64_t from_usec,
				      int64_t until_usec)
{
	struct sch_gres_room gres[SCH_GRES_PER_NODE];
	struct sch_room at = {.gres = gres};
	const struct sch_room *base = line->rooms->room[n->rank] ? line->rooms->room[n->rank] : &n->room;
	uint32_t i = 0, exclusive = base->exclusive;
	bool sharing = base->stack || line->sharing;
	line->peak.gres = line->gres;
	if (!line->spans[n->rank] ||
	    line->no_spans) { /* Most nodes: nothing is taken later, all only comes free. */
		copy_room(&line->peak, base, n);
		sch__share_apart(n, base, &line->peak);
		for (const struct sch_line_end *e = line->ends[n->rank]; e; e = e->next, ++*line->steps)
			if (e->at_usec <= from_usec && !e->out)
				give(&line->peak, n, &e->use);
		if (base->stack)
			sch__share_at(line, n, base, from_usec, &line->peak);
		return &line->peak;
	}
	const struct sch_line_order *o = order_of(line, n);
	copy_room(&at, base, n);
	sch__share_apart(n, base, &at);
	for (; i < o->count && o->v[i].at_usec <= from_usec; i++)
		if (counts(line, &o->v[i], n))
			apply(&at, n, &o->v[i], &exclusive);
	copy_room(&line->peak, &at, n);
	if (sharing)
		sch__share_at(line, n, base, from_usec, &line->peak);
	/* Within the span more can only be taken where a plan begins. */
	while (i < o->count && o->v[i].at_usec < until_usec) {
		int64_t moment = o->v[i].at_usec;
		bool more = false;
		for (; i < o->count && o->v[i].at_usec == moment; i++) {
			if (!counts(line, &o->v[i], n))
				continue;
			apply(&at, n, &o->v[i], &exclusive);
			more = more || o->v[i].take;
		}
		if (!more)
			continue;
		struct sch_room then = at;
		if (sharing)
			sch__share_at(line, n, base, moment, &then);
		raise_to(&line->peak, n, &then);
	}
	*line->steps += i;
	return &line->peak;
}

/* ---- one job ---- */

uint32_t sch__line_choose(struct sch_line *line, const struct sch_need *need, const struct mu_bits *nodes,
			  const struct mu_bits *required, int64_t from_usec, int64_t until_usec,
			  struct sch_pick *pick)
{
	struct sch_overlay view = {
	    .st = line->st, .line = line, .from_usec = from_usec, .until_usec = until_usec};
	if (!sch__line_licences(line, from_usec, until_usec))
		return 0;
	return sch__choose(need, &view, nodes, required, NULL, line->steps, pick);
}

static int by_time(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return x < y ? -1 : x > y;
}

static void sort_times(struct sch_line *line)
{
	uint32_t out = 0;
	if (line->sorted)
		return;
	qsort(line->times, line->time_count, sizeof(line->times[0]), by_time);
	for (uint32_t i = 0; i < line->time_count; i++)
		if (!out || line->times[i] != line->times[out - 1])
			line->times[out++] = line->times[i];
	line->time_count = out;
	line->sorted = true;
}

int64_t sch__line_after(struct sch_line *line, int64_t at_usec)
{
	uint32_t low = 0, high;
	sort_times(line);
	for (high = line->time_count; low < high;) {
		uint32_t middle = low + (high - low) / 2;
		if (line->times[middle] > at_usec)
			high = middle;
		else
			low = middle + 1;
	}
	return low < line->time_count ? line->times[low] : 0;
}

/* The first moment at which running jobs leave enough, whoever is planned: from there on they always do.
 * time_count when never. */
static uint32_t first_time(struct sch_line *line, const struct sch_need *need, const struct mu_bits *nodes,
			   const struct mu_bits *required, struct sch_pick *pick)
{
	uint32_t low = 0, high = line->time_count - 1;
	int64_t last = line->times[high];
	line->no_spans = true;
	if (!sch__line_choose(line, need, nodes, required, last, last + 1, pick))
		low = high = line->time_count;
	while (low < high) { /* HIGH is late enough; before LOW it is too early. */
		uint32_t middle = low + (high - low) / 2;
		int64_t at = line->times[middle];
		if (sch__line_choose(line, need, nodes, required, at, at + 1, pick))
			high = middle;
		else
			low = middle + 1;
	}
	line->no_spans = false;
	return low;
}

int64_t sch__line_earliest(struct sch_line *line, const struct sch_need *need, const struct mu_bits *nodes,
			   const struct mu_bits *required, int64_t length_usec, int64_t before_usec,
			   struct sch_pick *pick, uint32_t *ret_count)
{
	*ret_count = 0;
	sort_times(line);
	uint32_t i = first_time(line, need, nodes, required, pick), count = line->time_count;
	uint64_t until_steps = *line->steps + SCH_PLAN_STEPS;
	for (uint32_t tries = 0; i < count && (tries < SCH_PLAN_TRIES || *line->steps < until_steps);
	     tries++) {
		int64_t at = line->times[i], near = at + line->st->config.bf_resolution_usec;
		if (at >= before_usec)
			return 0;
		*ret_count = sch__line_choose(line, need, nodes, required, at, at + length_usec, pick);
		if (*ret_count)
			return at;
		for (i++; i + 1 < count && line->times[i + 1] <= near && line->times[i + 1] < before_usec;
		     i++)
			;
	}
	return 0;
}
