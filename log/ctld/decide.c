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
	atomic_fetch_add(&c->n.passes, 1);
	atomic_store(&c->n.pass_usec_last, (uint64_t)span);
	if ((uint64_t)span > atomic_load(&c->n.pass_usec_max))
		atomic_store(&c->n.pass_usec_max, (uint64_t)span);
	if (!event) {
		c->decide_void_pos = sch_pos(c->st);
		return;
	}
	if (event->kind_case == MU__EVENT__KIND_DECIDED) {
		atomic_fetch_add(&c->n.starts, event->decided->n_start);
		atomic_fetch_add(&c->n.pass_steps, event->decided->steps);
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
