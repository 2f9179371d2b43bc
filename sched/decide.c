/* sched/decide.c: one slice of a pass: from State to a Decided event, and nothing else changes.
 *
 * Jobs are visited by partition tier, priority, id. A job that does not fit stops its partition, and keeps
 * the partition's nodes from partitions that share them; a job that can never run as things are (limits,
 * constraints, nodes down) stops nobody. What fits is put into an overlay, so that the next job sees it
 * taken. When the steps or bytes of the slice are used up, the place, the stopped partitions and the kept
 * nodes go into the event: the next slice goes on from State alone.
 *
 * With sched/backfill a job that does not fit stops nobody: the first of them get a planned start, and the
 * jobs behind may start where they are gone again, or out of the way, before every planned start. A plan
 * stands in State until its job starts. What keeps it from moving later: whoever starts or is planned
 * respects every plan that stands, also of jobs behind it; only a job that no pass has seen yet may push
 * those behind it. A plan moves earlier when something became free, and gives up its old place only then. */
#include "sched/pass.h"

/* ---- silence and limits ---- */

static void lose_nodes(struct sch_pass *p)
{
	const struct sch_state *st = p->st;
	const Mu__Config *c = sch__conf(st);
	int64_t timeout = (c->has_slurmd_timeout_sec ? c->slurmd_timeout_sec : 300) * SCH_USEC,
		now = st->cluster->now_usec;
	int64_t due = sch__silence_due(st);
	for (uint32_t i = 0; due && due <= now && i < st->node_count && !sch__pass_exhausted(p); i++) {
		struct sch_node *n = st->node[i];
		int64_t heard = n->silent_key > 0 ? n->silent_key : st->cluster->heard_usec;
		if (!n->silent_key)
			continue;
		if (heard < st->cluster->leader_since_usec)
			heard = st->cluster->leader_since_usec;
		p->steps++;
		if (heard + timeout > now)
			continue;
		Mu__NodeLost *l = mu_arena_alloc(p->arena, sizeof(*l));
		mu__node_lost__init(l);
		l->node = n->row->name;
		l->reason = (char *)SCH_NOT_RESPONDING;
		sch__pass_add(p, &p->lost, l, strlen(l->node) + 24);
		mu_bits_clear(&p->avail, n->rank);
	}
}

static void stop_jobs(struct sch_pass *p)
{
	const uint8_t *key = NULL;
	size_t len = 0;
	const struct sch_state *st = p->st;
	for (struct sch_job *j = mu_map_seek(&st->due, NULL, 0, 0, &key, &len);
	     j && j->due_key <= st->cluster->now_usec && !sch__pass_exhausted(p);
	     j = mu_map_seek(&st->due, key, len, 1, &key, &len)) {
		Mu__Stop *s = mu_arena_alloc(p->arena, sizeof(*s));
		mu__stop__init(s);
		SCH_SET(s, job, j->id);
		bool preempted = j->run && j->run->preempt_end_usec == j->due_key;
		SCH_SET(s, cause,
			j->state == JOB_PENDING ? END_DEADLINE
			: preempted		? END_PREEMPT
						: END_TIME_LIMIT);
		sch__pass_add(p, &p->stop, s, 10);
		p->steps++;
	}
}

/* ---- reasons ---- */

void sch__pass_reason(struct sch_pass *p, struct sch_job *j, uint32_t reason, const char *detail)
{
	if (j->reason == reason && sch__same(sch__text(j->reason_detail), detail))
		return;
	Mu__ReasonSet *r = mu_arena_alloc(p->arena, sizeof(*r));
	mu__reason_set__init(r);
	SCH_SET(r, job, j->id);
	SCH_SET(r, reason, reason);
	r->detail = (char *)detail;
	sch__pass_add(p, &p->reason, r, 10 + (detail ? strlen(detail) : 0));
}

static void set_reason(struct sch_pass *p, const struct sch_lane *l, struct sch_job *j, uint32_t reason,
		       const char *detail)
{
	/* One partition speaks for a job, the first it named, and so does the first component. */
	for (uint32_t k = 0; k < sch__het_size(j) && sch__first_part(p->st, j) == l->part; k++)
		sch__pass_reason(p, sch__het_part(p->st, j, k), reason, detail);
}

/* ---- starts ---- */

/* Whole cores and whole nodes can be more than was asked for: limits count what is held. */
static bool over_limit(struct sch_pass *p, const struct sch_lane *l, struct sch_job *j, Mu__AllocNode **row,
		       size_t count)
{
	struct sch_demand d;
	if (!p->st->accounts.policy.limits)
		return false;
	sch__demand_rows(p->st, j, l->part, row, count, &d);
	uint32_t reason = sch__limit_start(p->st, j, l->part, &d, j->time_limit_sec, &p->extra);
	if (reason)
		set_reason(p, l, j, reason, NULL);
	else
		sch__limit_note(p->st, j, l->part, &d, j->time_limit_sec, 1, &p->extra);
	return reason != REASON_None;
}

static int64_t limit_of(const struct sch_pass *p, const struct sch_job *j, const struct sch_part *part)
{
	return p->limit_sec ? p->limit_sec : sch__job_limit_in(j, part);
}

static void begin_on(struct sch_pass *p, const struct sch_node *n, const Mu__AllocNode *row,
		     const struct sch_job *j, const struct sch_attempt *a)
{
	struct sch_pass_begun *b = mu_arena_alloc(p->arena, sizeof(*b));
	b->node = n;
	b->row = row;
	b->exclusive = a->need.exclusive;
	b->job = j;
	b->part = a->part;
	int64_t now = p->st->cluster->now_usec,
		from = sch__pass_plan_of(p, j) ? sch__counted_from(j, now) : now;
	b->until_usec = from + sch__resv_length(p->st, p->in, from, sch__span(limit_of(p, j, a->part)));
	sch__pass_add(p, &p->begun, b, 0);
	if (p->line)
		sch__line_ends(p->line, n, j, a->part, row, b->exclusive, b->until_usec);
	if (a->need.careful)
		sch__guest_add(&p->overlay, n, j, a->part, row->cpus, p->arena);
}

Mu__Start *sch__pass_cut(struct sch_pass *p, const struct sch_attempt *a, const struct sch_job *j,
			 uint32_t count)
{
	Mu__Start *s = mu_arena_alloc(p->arena, sizeof(*s));
	mu__start__init(s);
	SCH_SET(s, job, j->id);
	SCH_SET(s, attempt, j->attempt + 1);
	s->partition = a->part->row->conf->name;
	s->reservation = p->in ? p->in->row->name : NULL;
	SCH_SET(s, limit_sec, p->limit_sec);
	s->alloc = mu_arena_alloc(p->arena, (count + 1) * sizeof(s->alloc[0]));
	s->n_alloc = count;
	for (uint32_t i = 0; i < count; i++)
		s->alloc[i] =
		    sch__cut(&a->need, &p->pick[i], sch__overlay_see(&p->overlay, p->pick[i].node), p->arena);
	return s;
}

void sch__pass_take(struct sch_pass *p, const struct sch_attempt *a, const struct sch_job *j, Mu__Start *s)
{
	uint32_t tasks = j->shape->grows ? UINT32_MAX : j->shape->ntasks;
	for (size_t i = 0; i < s->n_alloc; i++) {
		struct sch_node *n = p->pick[i].node;
		struct sch_room *room = sch__overlay_own(&p->overlay, n, p->arena);
		Mu__AllocNode *row = s->alloc[i];
		sch__room_take_row(room, n, row, a->need.exclusive);
		if (sch__room_full(room, n))
			mu_bits_clear(&p->avail, n->rank);
		SCH_SET(row, tasks,
			row->tasks < tasks ? row->tasks
					   : tasks); /* More nodes than tasks: the last ones have none. */
		tasks -= row->tasks;
		s->alloc[i] = row;
		begin_on(p, n, row, j, a);
	}
}

/* False when a limit of accounts forbids it after all. */
static bool start(struct sch_pass *p, struct sch_lane *l, struct sch_attempt *a, struct sch_job *j,
		  uint32_t count)
{
	Mu__Start *s = sch__pass_cut(p, a, j, count);
	if (over_limit(p, l, j, s->alloc, count))
		return false;
	sch__pass_take(p, a, j, s);
	sch__fold_allocs(s, p->arena);
	bool planned = sch__pass_plan_of(p, j) != 0;
	sch__pass_take_task(p, j, s);
	sch__pass_add(p, &p->start, s, mu__start__get_packed_size(s) + 4);
	p->given_up += planned;
	if (p->line)
		sch__line_lic(p->line, j, p->st->cluster->now_usec,
			      p->st->cluster->now_usec + sch__span(limit_of(p, j, a->part)), false);
	if (planned && p->line) {
		count = sch__plan_picks(p->st, j, p->arena, p->pick);
		sch__line_unplan(p->line, j, p->pick, count);
		p->moves++;
	}
	return true;
}

/* ---- one visit ---- */

/* Why the shape cannot run in the partition as things are, whatever is free. */
static void judge(struct sch_pass *p, struct sch_attempt *a)
{
	const struct sch_state *st = p->st;
	int rc = sch__filter(st, &a->need, a->part, p->arena, &a->nodes, &a->required, NULL);
	if (!rc)
		rc = sch__feasible(st, &a->need, a->part, &a->nodes, &a->required);
	p->steps += st->classes.count + a->nodes.words / 8;
	if (rc) {
		bool many = a->need.shape->nodes_min > mu_bits_count(&a->part->nodes);
		a->reason = rc != MU_ENODECOUNT ? REASON_BadConstraints
			    : many		? REASON_PartitionConfig
						: REASON_PartitionNodeLimit;
		return;
	}
	struct mu_bits up = {0};
	mu_bits_copy(&up, &a->nodes);
	mu_bits_and(&up, &st->usable);
	if (sch__feasible(st, &a->need, a->part, &up, &a->required)) {
		a->reason = REASON_ReqNodeNotAvail;
		a->detail = sch__fold_unavailable(p->st, &a->nodes, &a->required, p->arena);
	}
	mu_bits_free(&up);
}

struct sch_attempt *sch__pass_attempt(struct sch_pass *p, const struct sch_job *j,
				      const struct sch_part *part)
{
	const struct sch_shape *shape = j->shape;
	struct sch_attempt *a = p->attempt[shape->id];
	int64_t moment = sch__switch_moment(p->st, j);
	uint32_t switches = moment > p->st->cluster->now_usec ? shape->switches : 0;
	while (a && (a->part != part || a->need.switches != switches ||
		     (p->personal && a->need.uid != j->who->uid)))
		a = a->next;
	if (a)
		return a;
	a = mu_arena_alloc(p->arena, sizeof(*a));
	a->next = p->attempt[shape->id];
	a->part = part;
	p->attempt[shape->id] = a;
	sch__need(p->st, shape, part, j->who->uid, &a->need);
	a->need.switches = switches;
	sch__pass_add(p, &p->attempts, a, 0);
	judge(p, a);
	return a;
}

/* What accounts and QOS say, before nodes are looked for. */
static uint32_t account_reason(const struct sch_pass *p, const struct sch_part *part, const struct sch_job *j)
{
	struct sch_demand d;
	if (!p->st->accounts.policy.limits)
		return REASON_None;
	sch__demand_waiting(p->st, j, part, &d);
	return sch__limit_start(p->st, j, part, &d, j->time_limit_sec, &p->extra);
}

/* Nodes that a job needs by name are all that it keeps from others; otherwise it stops its partition. */
static void block(struct sch_pass *p, struct sch_lane *l, struct sch_attempt *a, struct sch_job *j,
		  bool claimed)
{
	bool named = mu_bits_next(&a->required, 0) != UINT32_MAX;
	bool behind = mu_bits_intersects(named ? &a->required : &a->nodes, &p->kept);
	bool by_name = j->shape->required && mu_bits_count(&a->required) >= j->shape->nodes_min;
	if (p->in && !sch__resv_flag(p->in, RESV_FLAG_FLEX))
		by_name = true; /* In a reservation it keeps that one's nodes. */
	const struct mu_bits *keep = !by_name ? &l->part->nodes : named ? &a->required : &p->in->nodes;
	behind = behind || l->blocked;
	set_reason(p, l, j, behind ? REASON_Priority : REASON_Resources, NULL);
	bool mine = sch__first_part(p->st, j) == l->part && !claimed;
	if (mine && (!behind || p->st->config.backfill || j->plan_claim))
		sch__pass_reserve(p, a, j);
	else if (mine)
		sch__pass_drop_plan(p, j);
	mu_bits_or(&p->kept, keep);
	if (!p->st->config.backfill)
		mu_bits_andnot(&p->avail, keep);
	if (by_name)
		mu_bits_or(&p->named, keep);
	if (by_name || l->blocked)
		return;
	l->blocked = true;
	l->blocked_key = l->head_key;
	l->blocker = j;
}

/* It does not fit: perhaps others give way to it. True when it starts by that. */
static bool give_way(struct sch_pass *p, struct sch_lane *l, struct sch_attempt *a, struct sch_job *j)
{
	uint32_t count = 0;
	bool stands_behind =
	    !p->st->config.backfill && (l->blocked || mu_bits_intersects(&a->nodes, &p->kept));
	enum sch_hunt found = stands_behind ? SCH_HUNT_NOTHING : sch__pass_preempt(p, a, j, &count);
	p->limit_sec = 0;
	if (found == SCH_HUNT_START)
		return start(p, l, a, j, count);
	block(p, l, a, j, found == SCH_HUNT_CLAIM);
	return false;
}

/* The line knows numbers only: which CPUs lie near the devices is seen in the room as it is now. */
static bool near_now(struct sch_pass *p, const struct sch_attempt *a, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct sch_pick *want = &p->pick[i];
		struct sch_pick fit =
		    sch__fit(&a->need, want->node, sch__overlay_see(&p->overlay, want->node));
		if (fit.tasks < want->tasks || fit.gpus < want->gpus)
			return false;
		p->steps++;
	}
	return true;
}

/* How many nodes of p->pick the job gets now for LIMIT_SEC; 0: it does not fit. */
static uint32_t choose_for(struct sch_pass *p, struct sch_attempt *a, struct sch_job *j, int64_t limit_sec)
{
	int64_t now = p->st->cluster->now_usec, length = sch__length(limit_sec);
	if (p->in)
		length = sch__resv_length(p->st, p->in, now, length);
	int64_t until = now + length;
	bool newcomer = j->reason == REASON_None && p->last && !sch__behind(p->st, j, p->last);
	int64_t planned = sch__pass_plan_of(p, j);
	/* Sees every plan, and what reservations keep is the same for all of its kind. */
	bool plain = !planned && !newcomer && !p->st->resvs.count && !j->licenses;
	if (planned && planned <= now) /* It may have its promised place, come what may behind. */
		until = planned + length > now ? planned + length : now + 1;
	if (a->failed || (plain && a->failed_usec && length >= a->failed_usec && a->failed_moves == p->moves))
		return 0;
	struct mu_bits candidates = {0};
	uint32_t count;
	mu_bits_copy(&candidates, &a->nodes);
	mu_bits_and(&candidates, &p->avail);
	p->steps += candidates.words / 16;
	bool masked =
	    p->st->resvs.count && (sch__resv_mask(p->st, p->in, now, until, &candidates) || p->veiled);
	if (p->line && p->line->span_count && (p->st->config.backfill || p->claims)) {
		sch__pass_look_as(p, j);
		count = sch__line_choose(p->line, &a->need, &candidates, &a->required, now, until, p->pick);
		if (count && a->need.near && !near_now(p, a, count))
			count = 0;
		if (!count && plain) {
			a->failed_usec = length;
			a->failed_moves = p->moves;
		}
	} else {
		count = sch__choose(&a->need, &p->overlay, &candidates, &a->required,
				    masked ? NULL : &a->hint, &p->steps, p->pick);
		a->failed = !count && !masked;
	}
	mu_bits_free(&candidates);
	return count;
}

/* The same for its limit or, where --time-min allows it, for the longest of shorter ones, to the minute. */
static uint32_t choose_now(struct sch_pass *p, struct sch_attempt *a, struct sch_job *j)
{
	int64_t most = sch__job_limit_in(j, a->part), least = j->time_min_sec;
	uint32_t count = choose_for(p, a, j, most);
	p->limit_sec = 0;
	if (count || a->failed || !p->st->config.backfill || !sch__job_limit_may(j, a->part, least) ||
	    !choose_for(p, a, j, least))
		return count;
	int64_t over = most < 0 ? least + p->st->config.bf_window_usec / SCH_USEC : most;
	while (over - least > 60) {
		int64_t mid = over - least < 120 ? least + 60 : least + (over - least) / 120 * 60;
		if (choose_for(p, a, j, mid))
			least = mid;
		else
			over = mid;
	}
	p->limit_sec = least;
	return choose_for(p, a, j, least);
}

static void drop_own_plan(struct sch_pass *p, const struct sch_lane *l, const struct sch_job *j)
{
	if (sch__first_part(p->st, j) == l->part)
		sch__pass_drop_plan(p, j);
}

/* ---- reservations and licences ---- */

/* Starts J in IN (NULL: in none) if it can now; else *why may say what is in the way beside room. */
static bool try_in(struct sch_pass *p, struct sch_lane *l, struct sch_attempt *a, struct sch_job *j,
		   const struct sch_resv *in, uint32_t *why, bool *ret_started)
{
	struct sch_veil veil = {0};
	int64_t now = p->st->cluster->now_usec, length = sch__length(sch__job_limit_in(j, a->part));
	uint32_t reason = sch__resv_reason(p->st, j, in, now, length), count = 0;
	p->in = in;
	length = sch__resv_length(p->st, in, now, length);
	if (!reason && j->licenses) {
		sch__pass_line(p);
		sch__pass_look_as(p, j);
		reason = sch__line_licences(p->line, now, now + length) ? REASON_None : REASON_Licenses;
	}
	if (!reason) {
		sch__veil_on(&veil, &p->overlay, p->arena, in, now, now + length);
		p->veiled = sch__resv_parts(p->st);
		if (p->line)
			p->line->veiled = p->veiled;
		count = choose_now(p, a, j);
		*ret_started = count && start(p, l, a, j, count);
		sch__veil_off(&veil);
		p->veiled = false;
		if (p->line)
			p->line->veiled = false;
	}
	*why = *why ? *why : reason;
	return count > 0;
}

/* True when the job, or a task of it, starts. */
static bool visit_reserved(struct sch_pass *p, struct sch_lane *l, struct sch_attempt *a, struct sch_job *j)
{
	const struct sch_resv **choice =
	    mu_arena_alloc(p->arena, (p->st->resvs.count + 1) * sizeof(const struct sch_resv *));
	uint32_t n = sch__resv_choices(p->st, j, choice), why = n ? REASON_None : REASON_Reservation;
	bool first = sch__first_part(p->st, j) == l->part, started = false;
	p->steps += p->st->resvs.count;
	for (uint32_t i = 0; i < n; i++)
		if (try_in(p, l, a, j, choice[i], &why, &started))
			return started;
	const char *kept = NULL;
	if (!why)
		kept = sch__resv_kept(p->st, &a->need, a->part, &a->nodes, &a->required, p->in,
				      sch__length(sch__job_limit_in(j, a->part)));
	if (kept || why) {
		set_reason(p, l, j,
			   why	   ? why
			   : p->in ? REASON_Reservation
				   : REASON_ReqNodeNotAvail,
			   p->in ? NULL : kept);
		if (first && (why == REASON_Licenses || (kept && !p->in)))
			sch__pass_reserve(p, a, j);
		else
			drop_own_plan(p, l, j);
		return false;
	}
	return give_way(p, l, a, j);
}

uint32_t sch__pass_never(const struct sch_pass *p, const struct sch_part *part, const struct sch_job *j)
{
	uint32_t reason = sch__waits_for_fence(p->st, j) ? REASON_Cleaning : sch__part_reason(j, part);
	if (!reason && !sch__pass_array_room(p, j))
		reason = REASON_JobArrayTaskLimit;
	return reason ? reason : account_reason(p, part, j);
}

/* True when the job, or a task of it, starts. */
static bool try(struct sch_pass *p, struct sch_lane *l, struct sch_job *j)
{
	p->steps++;
	if (j->het_count)
		return sch__pass_together(p, l, j);
	uint32_t never = sch__pass_never(p, l->part, j);
	if (never) {
		set_reason(p, l, j, never, NULL);
		drop_own_plan(p, l, j);
		return false;
	}
	if (j->tasks && p->ids >= sch__ids_left(p->st)) {
		set_reason(p, l, j, REASON_JobArrayTaskLimit, "all job ids are used");
		drop_own_plan(p, l, j);
		return false;
	}
	struct sch_attempt *a = sch__pass_attempt(p, j, l->part);
	if (a->reason) {
		set_reason(p, l, j, a->reason, a->detail);
		drop_own_plan(p, l, j);
		return false;
	}
	p->in = NULL;
	if (p->st->resvs.count || j->licenses)
		return visit_reserved(p, l, a, j);
	uint32_t count = choose_now(p, a, j);
	if (count)
		return start(p, l, a, j, count);
	return give_way(p, l, a, j);
}

/* True when tasks of an array are left for the next slice. */
static bool visit(struct sch_pass *p, struct sch_lane *l, struct sch_job *j)
{
	if (sch__pass_all_taken(p, j))
		return false;
	for (uint32_t k = 0; k < sch__het_size(j); k++) {
		const struct sch_job *m = sch__het_part(p->st, j, k);
		if (m->due_key && m->due_key <= p->st->cluster->now_usec)
			return false; /* Past its deadline: stopped by this same decision. */
	}
	while (try(p, l, j)) {
		if (sch__pass_all_taken(p, j))
			return false;
		if (sch__pass_exhausted(p))
			return true;
	}
	return false;
}

/* ---- the walk ---- */

/* Nothing more can come of a partition that is blocked, has its plans and no node with anything free. */
static bool hopeless(const struct sch_pass *p, const struct sch_lane *l)
{
	if (!l->blocked || !p->st->config.backfill)
		return l->blocked;
	if (p->last && p->last->queue_key > l->seen_key)
		return false; /* A plan may have to go. */
	return p->reserved >= p->st->config.bf_max_job && !mu_bits_intersects(&l->part->nodes, &p->avail);
}

static void step_lane(const struct sch_pass *p, struct sch_lane *l, uint64_t from)
{
	l->head = hopeless(p, l) ? NULL : mu_map_next_u64(&l->part->queue, from, &l->head_key);
}

/* Where the lane begins: at its first job, or where the last slice stopped. */
static void open_lane(struct sch_pass *p, struct sch_lane *l)
{
	const Mu__ClusterRow *c = p->st->cluster;
	uint64_t from = 0;
	if (c->cursor && l->tier > c->cursor_tier)
		return;
	if (c->cursor && l->tier == c->cursor_tier)
		from = sch__queue_key(c->cursor_priority, c->cursor) + (l - p->lane < c->cursor_part);
	step_lane(p, l, from);
}

static void open_lanes(struct sch_pass *p)
{
	const struct sch_state *st = p->st;
	const Mu__ClusterRow *c = st->cluster;
	p->lane = mu_arena_alloc(p->arena, (st->part_count + 1) * sizeof(p->lane[0]));
	p->lane_count = st->part_count;
	for (uint32_t i = 0; i < st->part_count; i++)
		p->lane[i] = (struct sch_lane){.part = st->part[i],
					       .tier = sch__tier(st->part[i]),
					       .seen_key = i < c->n_seen ? c->seen[i] : 0};
	for (size_t i = 0; i + 1 < c->n_blocked; i += 2) {
		struct sch_job *j = sch__job(st, c->blocked[i + 1]);
		if (c->blocked[i] >= st->part_count)
			continue;
		struct sch_lane *l = &p->lane[c->blocked[i]];
		l->blocked = true;
		l->blocker = j && j->queued ? j : NULL;
		l->blocked_key = l->blocker ? j->queue_key : 0;
		mu_bits_or(&p->kept, &l->part->nodes);
		if (!st->config.backfill)
			mu_bits_andnot(&p->avail, &l->part->nodes);
	}
	for (size_t i = 0; i < c->n_taken; i++) {
		const struct sch_node *n = sch__node(st, c->taken[i]);
		if (!n)
			continue;
		mu_bits_set(&p->named, n->rank);
		mu_bits_set(&p->kept, n->rank);
		if (!st->config.backfill)
			mu_bits_clear(&p->avail, n->rank);
	}
	for (uint32_t i = 0; i < p->lane_count; i++)
		if (p->lane[i].part->state == SCH_PART_UP || p->lane[i].part->state == SCH_PART_DRAIN)
			open_lane(p, &p->lane[i]);
}

static struct sch_lane *next_lane(struct sch_pass *p)
{
	struct sch_lane *best = NULL;
	for (uint32_t i = 0; i < p->lane_count; i++) {
		struct sch_lane *l = &p->lane[i];
		if (l->head && (!best || l->tier > best->tier ||
				(l->tier == best->tier && l->head_key < best->head_key)))
			best = l;
	}
	return best;
}

/* ---- jobs that nobody visits ---- */

/* Behind a job that stopped its partition everyone waits for Priority. */
static bool fill_behind(struct sch_pass *p, struct sch_lane *l)
{
	uint64_t key = 0, after = l->seen_key > l->blocked_key ? l->seen_key : l->blocked_key;
	for (struct sch_job *j = mu_map_next_u64(&l->part->unsettled, after ? after + 1 : 0, &key); j;
	     j = mu_map_next_u64(&l->part->unsettled, key + 1, &key)) {
		if (sch__pass_exhausted(p))
			return false;
		p->steps++;
		if (!sch__pass_all_taken(p, j))
			set_reason(p, l, j, REASON_Priority, NULL);
	}
	return true;
}

/* Nobody starts in a partition that is down or inactive. */
static bool fill_closed(struct sch_pass *p, struct sch_lane *l)
{
	uint32_t reason = l->part->state == SCH_PART_DOWN ? REASON_PartitionDown : REASON_PartitionInactive;
	uint64_t key = 0;
	if (l->part->by_reason[reason] == l->part->first_count)
		return true;
	for (struct sch_job *j = mu_map_next_u64(&l->part->queue, 0, &key); j;
	     j = mu_map_next_u64(&l->part->queue, key + 1, &key)) {
		if (sch__pass_exhausted(p))
			return false;
		if (j->reason == reason)
			continue;
		p->steps++;
		if (!sch__pass_all_taken(p, j))
			set_reason(p, l, j, reason, NULL);
	}
	return true;
}

static bool fill(struct sch_pass *p)
{
	bool done = true;
	for (uint32_t i = 0; i < p->lane_count && done; i++) {
		struct sch_lane *l = &p->lane[i];
		if (l->part->state == SCH_PART_DOWN || l->part->state == SCH_PART_INACTIVE)
			done = fill_closed(p, l);
		else if (l->blocked)
			done = fill_behind(p, l);
	}
	return done;
}

/* ---- the slice ---- */

static void hand_over(struct sch_pass *p, uint32_t tier, uint32_t priority, uint32_t id, uint32_t part)
{
	Mu__Decided *d = p->d;
	SCH_SET(d, cursor_part, part);
	SCH_SET(d, cursor_out, id);
	SCH_SET(d, cursor_tier, tier);
	SCH_SET(d, cursor_priority, priority);
	d->blocked = mu_arena_alloc(p->arena, (2 * p->lane_count + 1) * sizeof(d->blocked[0]));
	for (uint32_t i = 0; i < p->lane_count; i++)
		if (p->lane[i].blocked) {
			d->blocked[d->n_blocked++] = i;
			d->blocked[d->n_blocked++] = p->lane[i].blocker ? p->lane[i].blocker->id : 0;
		}
	d->seen = mu_arena_alloc(p->arena, (p->lane_count + 1) * sizeof(d->seen[0]));
	for (; d->n_seen < p->lane_count; d->n_seen++)
		d->seen[d->n_seen] = p->lane[d->n_seen].seen_key;
	d->taken = mu_arena_alloc(p->arena, (mu_bits_count(&p->named) + 1) * sizeof(d->taken[0]));
	for (uint32_t r = mu_bits_next(&p->named, 0); r != UINT32_MAX; r = mu_bits_next(&p->named, r + 1))
		d->taken[d->n_taken++] = p->st->by_rank[r]->row->name;
}

/* Past the last job: only the jobs that nobody visits are left. */
#define CURSOR_FILL UINT32_MAX

/* Jobs for which others gave way go before everyone: what was freed for them is theirs. */
static void start_claims(struct sch_pass *p)
{
	uint64_t id = 0;
	for (struct sch_job *j = p->claims ? mu_map_next_u64(&p->st->plans, 0, &id) : NULL; j;
	     j = mu_map_next_u64(&p->st->plans, id + 1, &id)) {
		struct sch_lane *l = p->lane;
		if (!j->plan_claim || !j->queued || p->st->resvs.count || j->licenses)
			continue;
		while (l < p->lane + p->lane_count && l->part != sch__first_part(p->st, j))
			l++;
		bool open = l < p->lane + p->lane_count &&
			    (l->part->state == SCH_PART_UP || l->part->state == SCH_PART_DRAIN);
		struct sch_attempt *a =
		    open && !sch__pass_never(p, l->part, j) ? sch__pass_attempt(p, j, l->part) : NULL;
		p->in = NULL;
		uint32_t count = a && !a->reason ? choose_now(p, a, j) : 0;
		if (count)
			start(p, l, a, j, count);
	}
}

static void walk(struct sch_pass *p)
{
	start_claims(p);
	for (struct sch_lane *l = next_lane(p); l; l = next_lane(p)) {
		if (sch__pass_exhausted(p)) {
			hand_over(p, l->tier, l->head->priority, l->head->id, (uint32_t)(l - p->lane));
			return;
		}
		struct sch_job *j = l->head;
		if (p->st->stopped.count)
			sch__pass_resume(p, l->tier, l->head_key);
		l->seen_key = l->head_key;
		if (visit(p, l, j)) {
			hand_over(p, l->tier, j->priority, j->id, (uint32_t)(l - p->lane));
			return;
		}
		step_lane(p, l, l->head_key + 1);
	}
	if (p->st->stopped.count)
		sch__pass_resume(p, 0, UINT64_MAX);
	if (!fill(p))
		hand_over(p, 0, 0, CURSOR_FILL, 0);
}

/* Plans that stand: the line is needed from the first job on. Those that this pass has visited count. */
static void open_plans(struct sch_pass *p)
{
	const struct sch_state *st = p->st;
	const Mu__ClusterRow *c = st->cluster;
	uint64_t id = 0, cursor = sch__queue_key(c->cursor_priority, c->cursor);
	for (struct sch_job *j = mu_map_next_u64(&st->plans, 0, &id); j;
	     j = mu_map_next_u64(&st->plans, id + 1, &id)) {
		const struct sch_part *part = sch__first_part(st, j);
		uint32_t tier = part ? sch__tier(part) : 0;
		p->steps++;
		if (!j->queued || !part)
			continue;
		p->claims = p->claims || j->plan_claim;
		if (!p->last || sch__behind(st, j, p->last))
			p->last = j;
		bool before =
		    c->cursor && (tier > c->cursor_tier || (tier == c->cursor_tier && j->queue_key < cursor));
		p->reserved += before;
		if (before && sch__pass_more_behind(p, j))
			mu_bits_or(&p->arrays, &sch__pass_attempt(p, j, part)->nodes);
	}
	if (p->last && (st->config.backfill || p->claims))
		sch__pass_line(p);
}

static void open_pass(struct sch_pass *p, const struct sch_state *st, uint32_t budget, struct mu_arena *arena)
{
	const Mu__ClusterRow *c = st->cluster;
	*p = (struct sch_pass){.st = st, .arena = arena, .budget = budget ? budget : 1, .extra.arena = arena};
	p->d = mu_arena_alloc(arena, sizeof(*p->d));
	mu__decided__init(p->d);
	SCH_SET(p->d, basis, c->entries);
	SCH_SET(p->d, now_usec, c->now_usec);
	SCH_SET(p->d, pass, c->cursor ? c->pass : c->pass + 1);
	SCH_SET(p->d, cursor_in, c->cursor);
	SCH_SET(p->d, planner, SCH_PLANNER_VERSION);
	SCH_SET(p->d, budget, budget);
	sch__overlay_init(&p->overlay, st, arena);
	p->personal = sch__personal(st);
	mu_bits_copy(&p->avail, &st->open);
	p->attempt = mu_arena_alloc(arena, (st->shape_id_cap + 1) * sizeof(p->attempt[0]));
	p->pick = mu_arena_alloc(arena, (st->node_count + 1) * sizeof(p->pick[0]));
}

static void close_pass(struct sch_pass *p)
{
	for (size_t i = 0; i < p->attempts.count; i++) {
		struct sch_attempt *a = p->attempts.v[i];
		mu_bits_free(&a->nodes);
		mu_bits_free(&a->required);
	}
	sch__overlay_free(&p->overlay);
	mu_bits_free(&p->avail);
	mu_bits_free(&p->kept);
	mu_bits_free(&p->named);
	mu_map_clear(&p->started);
	mu_map_clear(&p->families);
	mu_bits_free(&p->arrays);
	mu_map_clear(&p->extra.tally);
	mu_map_clear(&p->preempted);
}

static bool says_something(const struct sch_pass *p)
{
	return p->start.count || p->reason.count || p->plan.count || p->stop.count || p->lost.count ||
	       p->preempt.count || p->resume.count || p->d->cursor_in || p->d->cursor_out;
}

int sch_decide(const struct sch_state *st, uint32_t budget_steps, struct mu_arena *arena,
	       Mu__Event **ret_event)
{
	struct sch_pass p;
	*ret_event = NULL;
	if (!sch_founded(st))
		return 0;
	open_pass(&p, st, budget_steps, arena);
	lose_nodes(&p);
	stop_jobs(&p);
	open_plans(&p);
	p.setup = p.steps;
	open_lanes(&p);
	walk(&p);
	Mu__Decided *d = p.d;
	SCH_SET(d, steps, p.steps > UINT32_MAX ? UINT32_MAX : (uint32_t)p.steps);
	d->start = (Mu__Start **)p.start.v;
	d->n_start = p.start.count;
	d->reason = (Mu__ReasonSet **)p.reason.v;
	d->n_reason = p.reason.count;
	d->plan = (Mu__PlanSet **)p.plan.v;
	d->n_plan = p.plan.count;
	d->stop = (Mu__Stop **)p.stop.v;
	d->n_stop = p.stop.count;
	d->preempt = (Mu__Preempt **)p.preempt.v;
	d->n_preempt = p.preempt.count;
	d->resume = mu_arena_alloc(arena, (p.resume.count + 1) * sizeof(d->resume[0]));
	for (; d->n_resume < p.resume.count; d->n_resume++)
		d->resume[d->n_resume] = ((const struct sch_job *)p.resume.v[d->n_resume])->id;
	d->lost = (Mu__NodeLost **)p.lost.v;
	d->n_lost = p.lost.count;
	bool speaks = says_something(&p);
	close_pass(&p);
	if (!speaks) {
		st->scratch->quiet_pos = st->cluster->entries;
		return 0;
	}
	*ret_event = mu_arena_alloc(arena, sizeof(**ret_event));
	mu__event__init(*ret_event);
	(*ret_event)->kind_case = MU__EVENT__KIND_DECIDED;
	(*ret_event)->decided = d;
	return 0;
}
