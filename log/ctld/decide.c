/* ctld/decide.c: when the leader decides, and when time itself is an event. */
#include "log/ctld/ctld.h"

#include "log/diag.h"

static void own_author(Mu__Author *author)
{
	mu__author__init(author);
	author->verifier = "controller";
	author->has_operator_ = 1;
	author->operator_ = 1;
}

static void keep_most(_Atomic uint64_t *most, uint64_t value)
{
	if (value > atomic_load(most))
		atomic_store(most, value);
}

/* A pass is as long as its slices together; the one that hands nothing on ends it. */
static void count_slice(struct ctl *c, const Mu__Decided *d, uint64_t usec)
{
	static uint64_t pass_usec, pass_steps;
	struct sch_counts k;

	atomic_fetch_add(&c->n.pass_slices, 1);
	atomic_fetch_add(&c->n.pass_usec, usec);
	if (!d || !d->cursor_in)
		pass_usec = pass_steps = 0;
	pass_usec += usec;
	if (d) {
		atomic_fetch_add(&c->n.starts, d->n_start);
		atomic_fetch_add(&c->n.pass_steps, d->steps);
		pass_steps += d->steps;
	}
	if (d && d->cursor_out)
		return;
	sch_counts(c->st, &k);
	atomic_fetch_add(&c->n.passes, 1);
	atomic_store(&c->n.pass_usec_last, pass_usec);
	atomic_store(&c->n.pass_depth, k.jobs_pending);
	atomic_store(&c->n.pass_planned, k.jobs_planned);
	if (d)
		atomic_store(&c->n.pass_steps_last, pass_steps);
	keep_most(&c->n.pass_usec_max, pass_usec);
	keep_most(&c->n.pass_steps_max, pass_steps);
}

void ctl_decide(struct ctl *c)
{
	Mu__Author author;
	Mu__Event *event = NULL;
	int64_t t0, span;

	if (!c->leader_ready || c->suspect || c->decided_in_flight || !sch_founded(c->st) || (c->batch && c->batch->has_decided))
		return;
	if (c->decide_void_pos == sch_pos(c->st) || !sch_wants_decide(c->st))
		return;
	mu_arena_reset(&c->scratch);
	t0 = ctl_mono_usec();
	if (sch_decide(c->st, CTL_DECIDE_STEPS, &c->scratch, &event))
		diag_error("The scheduler could not decide over position %llu.", (unsigned long long)sch_pos(c->st));
	span = ctl_mono_usec() - t0;
	count_slice(c, event ? event->decided : NULL, (uint64_t)span);
	if (!event) {
		c->decide_void_pos = sch_pos(c->st);
		return;
	}
	own_author(&author);
	event->author = &author;
	ctl_propose_event(c, event, NULL);
	ctl_propose_flush(c, true);
}

void ctl_due(struct ctl *c)
{
	Mu__Author author;
	Mu__Event event = MU__EVENT__INIT;
	Mu__Tick tick = MU__TICK__INIT;
	int64_t due;

	if (!c->leader_ready || c->tick_in_flight || c->in_flight >= CTL_IN_FLIGHT || !sch_founded(c->st))
		return;
	due = sch_due_usec(c->st);
	if (!due || ctl_stamp(c) < due || due <= sch_cluster(c->st)->last_tick_usec)
		return;
	own_author(&author);
	event.author = &author;
	event.kind_case = MU__EVENT__KIND_TICK;
	event.tick = &tick;
	ctl_propose_event(c, &event, NULL);
	ctl_propose_flush(c, true);
	c->tick_in_flight = true;
}
