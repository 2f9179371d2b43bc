/* tests/log/vopr_agents.c: simulated nodes: they register, pull orders from any controller (also one that
 * lags), launch, end and report as the real agent has to, die, restart and are cut off. Here it is seen
 * whether anything is given to two attempts at once. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/states.h"
#include "tests/log/vopr_int.h"

enum { POLL_USEC = 150000, BEAT_USEC = 500000 };

static unsigned random_below(unsigned below)
{
	return world_random(world_now(), below);
}

bool agents_reachable(const struct agent *a, int64_t now_usec)
{
	return a->up && now_usec >= a->cut_until_usec;
}

static struct held *find(struct agent *a, uint32_t job, uint32_t attempt)
{
	for (unsigned i = 0; i < HELD_MAX; i++)
		if (a->held[i].used && a->held[i].job == job && a->held[i].attempt == attempt)
			return &a->held[i];
	return NULL;
}

static void forget(struct held *h)
{
	mu_bits_free(&h->cpus);
	memset(h, 0, sizeof *h);
	h->report = -1;
}

static bool is_done(const struct agent *a, uint32_t job, uint32_t attempt)
{
	for (unsigned i = 0; i < DONE_MAX; i++)
		if (a->done[i] == ((uint64_t)job << 32 | attempt))
			return true;
	return false;
}

static void set_done(struct agent *a, const struct held *h)
{
	a->done[a->dones++ % DONE_MAX] = (uint64_t)h->job << 32 | h->attempt;
}

/* ---- asking ---- */

static Mu__Author *author(struct agent *a, Mu__Author *out)
{
	mu__author__init(out);
	out->node = a->name;
	out->verifier = (char *)"node-key";
	return out;
}

static void add_register(struct vopr *v, struct agent *a, int64_t now_usec)
{
	Mu__Event e = MU__EVENT__INIT;
	Mu__Author who;
	Mu__NodeRegistered r = MU__NODE_REGISTERED__INIT;
	Mu__NodeRow n = MU__NODE_ROW__INIT;
	Mu__GresHave gpu = MU__GRES_HAVE__INIT, *gres[1] = {&gpu};
	Mu__HeldAttempt held[HELD_MAX], *list[HELD_MAX];
	char boot[32];
	snprintf(boot, sizeof boot, "%s boot %u", a->name, a->boots);
	n.name = a->name;
	SET(&n, cpus, NODE_CPUS);
	SET(&n, sockets, 1);
	SET(&n, cores_per_socket, NODE_CPUS);
	SET(&n, threads_per_core, 1);
	SET(&n, real_memory_mib, 8000);
	n.has_boot_id = 1;
	n.boot_id = (ProtobufCBinaryData){strlen(boot), (uint8_t *)boot};
	SET(&n, boot_usec, a->started_usec);
	SET(&n, agent_start_usec, a->started_usec);
	gpu.name = (char *)"gpu";
	SET(&gpu, count, NODE_GPUS);
	n.gres = gres;
	n.n_gres = 1;
	for (unsigned i = 0; i < HELD_MAX; i++) {
		if (!a->held[i].used)
			continue;
		Mu__HeldAttempt *h = &held[r.n_held];
		mu__held_attempt__init(h);
		SET(h, job, a->held[i].job);
		SET(h, attempt, a->held[i].attempt);
		list[r.n_held++] = h;
	}
	r.held = list;
	r.inventory = &n;
	SET(&r, seen_pos, a->seen_pos);
	e.author = author(a, &who);
	e.kind_case = MU__EVENT__KIND_NODE_REGISTERED;
	e.node_registered = &r;
	a->registration = vopr_ask(v, &e, (int)(a - v->agent), now_usec);
	world_say(world_now(), "%s asks to register (boot %u, %zu held, request %d)", a->name, a->boots,
		  r.n_held, a->registration);
}

static void report(struct vopr *v, struct agent *a, struct held *h, uint32_t cause, int64_t now_usec)
{
	Mu__Event e = MU__EVENT__INIT;
	Mu__Author who;
	Mu__AttemptEnded r = MU__ATTEMPT_ENDED__INIT;
	h->ended = true;
	SET(&r, job, h->job);
	SET(&r, attempt, h->attempt);
	r.node = a->name;
	SET(&r, batch, h->batch);
	SET(&r, exit_code, 0);
	SET(&r, cause, cause);
	SET(&r, released, true);
	e.author = author(a, &who);
	e.kind_case = MU__EVENT__KIND_ATTEMPT_ENDED;
	e.attempt_ended = &r;
	h->report = vopr_ask(v, &e, (int)(a - v->agent), now_usec);
}

/* ---- orders ---- */

static struct held *launch(struct vopr *v, struct agent *a, const Mu__AttemptOrder *o, int64_t now_usec)
{
	struct held *h = NULL;
	for (unsigned i = 0; i < HELD_MAX && !h; i++)
		if (!a->held[i].used)
			h = &a->held[i];
	if (!h) {
		vopr_wrong(v, "%s holds more than %d attempts", a->name, HELD_MAX);
		return NULL;
	}
	*h = (struct held){.job = o->job, .attempt = o->attempt, .used = true, .report = -1};
	if (!o->here)
		return h;
	h->batch = o->batch_host;
	h->ends_usec = now_usec + 100000 + (int64_t)random_below(2000) * 1000;
	mu_bits_parse(&h->cpus, o->here->cpu_list ? o->here->cpu_list : "", 4095);
	for (size_t g = 0; g < o->here->n_gres; g++)
		for (size_t k = 0; k < o->here->gres[g]->n_index; k++)
			h->gpus |= 1u << o->here->gres[g]->index[k];
	return h;
}

/* The promise of the whole: what one living attempt has, no other has. */
static void judge_launch(struct vopr *v, const struct agent *a, const struct held *h)
{
	for (unsigned i = 0; i < HELD_MAX; i++) {
		const struct held *o = &a->held[i];
		if (!o->used || o == h || o->ended)
			continue;
		if (mu_bits_intersects(&o->cpus, &h->cpus) || (o->gpus & h->gpus))
			vopr_wrong(v, "%s: a %s is given to %u.%u while %u.%u still has it", a->name,
				   o->gpus & h->gpus ? "GPU" : "CPU", h->job, h->attempt, o->job, o->attempt);
	}
	if (mu_bits_next(&h->cpus, NODE_CPUS) != UINT32_MAX || h->gpus >> NODE_GPUS)
		vopr_wrong(v, "%s: %u.%u is given what the node does not have", a->name, h->job, h->attempt);
}

static void obey(struct vopr *v, struct agent *a, const Mu__OrderSet *set, int64_t now_usec)
{
	bool wanted[HELD_MAX] = {false};
	for (size_t i = 0; i < set->n_attempt; i++) {
		const Mu__AttemptOrder *o = set->attempt[i];
		struct held *h = find(a, o->job, o->attempt);
		if (!h && is_done(a, o->job, o->attempt))
			continue; /* reported, and this controller does not know yet */
		if (!h) {
			h = launch(v, a, o, now_usec);
			if (!h)
				return;
			if (o->phase == MU__PHASE__PHASE_END) {
				report(v, a, h, o->end_cause, now_usec);
			} else {
				world_say(world_now(), "%s launches %u.%u from orders at %" PRIu64, a->name,
					  o->job, o->attempt, set->pos);
				judge_launch(v, a, h);
				v->launched++;
			}
		} else if (o->phase == MU__PHASE__PHASE_END && !h->ended) {
			report(v, a, h, o->end_cause, now_usec);
		}
		wanted[h - a->held] = true;
	}
	/* What is not ordered ends; nobody waits for word of it. */
	for (unsigned i = 0; i < HELD_MAX; i++)
		if (a->held[i].used && !wanted[i] && a->held[i].report < 0) {
			set_done(a, &a->held[i]);
			forget(&a->held[i]);
		}
}

static void poll(struct vopr *v, struct agent *a, int64_t now_usec)
{
	struct mu_arena arena = {0};
	Mu__OrderSet *set;
	const struct sch_state *st = vopr_any_state();
	if (!st || sch_orders(st, a->name, &arena, &set)) {
		mu_arena_free(&arena);
		return;
	}
	if (set->pos >= a->seen_pos || v->careless) {
		a->seen_pos = set->pos;
		if (!a->registered || set->register_) {
			if (a->registration < 0)
				add_register(v, a, now_usec);
		} else {
			obey(v, a, set, now_usec);
		}
	}
	mu_arena_free(&arena);
}

/* ---- life ---- */

static void take_answers(struct vopr *v, struct agent *a)
{
	struct ask *r = a->registration >= 0 ? &v->ask[a->registration] : NULL;
	if (r && r->answered) {
		a->registered = r->code == 0;
		/* Orders made before the registration may hold what it ended. */
		if (a->registered && r->pos > a->seen_pos)
			a->seen_pos = r->pos;
		a->registration = -1;
	}
	for (unsigned i = 0; i < HELD_MAX; i++) {
		struct held *h = &a->held[i];
		if (h->used && h->report >= 0 && v->ask[h->report].answered) {
			set_done(a, h);
			forget(h);
		}
	}
}

static void drop_asks(struct vopr *v, unsigned node, int64_t now_usec)
{
	for (unsigned i = 0; i < v->asks; i++)
		if (v->ask[i].node == (int)node && v->ask[i].open && !v->ask[i].forget_usec)
			v->ask[i].forget_usec = now_usec + (int64_t)random_below(9000) * 1000;
}

static void begin_process(struct agent *a, int64_t now_usec)
{
	a->registered = false;
	a->registration = -1;
	a->started_usec = now_usec;
	a->up_again_usec = 0;
	a->up = true;
}

static void chaos(struct vopr *v, unsigned i, int64_t now_usec)
{
	struct agent *a = &v->agent[i];
	unsigned what = random_below(6);
	world_say(world_now(), "%s: %s", a->name,
		  what == 0  ? "power cut"
		  : what < 3 ? "agent restarts"
			     : "cut off");
	switch (what) {
	case 0: /* power cut: whatever ran is gone */
		for (unsigned k = 0; k < HELD_MAX; k++)
			forget(&a->held[k]);
		drop_asks(v, i, now_usec);
		memset(a->done, 0, sizeof a->done);
		a->boots++;
		a->up = false;
		a->up_again_usec = now_usec + (int64_t)random_below(9000) * 1000;
		a->seen_pos = 0;
		break;
	case 1:
	case 2: /* the agent alone: shepherds go on, and what they have to tell is told again */
		drop_asks(v, i, now_usec);
		for (unsigned k = 0; k < HELD_MAX; k++)
			if (a->held[k].used && a->held[k].report >= 0) {
				a->held[k].report = -1;
				a->held[k].ended = true;
			}
		begin_process(a, now_usec);
		a->seen_pos = 0;
		break;
	default: /* the network */
		a->cut_until_usec = now_usec + (int64_t)random_below(10000) * 1000;
		break;
	}
}

static void live(struct vopr *v, unsigned i, int64_t now_usec)
{
	struct agent *a = &v->agent[i];
	if (!a->up) {
		if (now_usec >= a->up_again_usec || world_healed(world_now()))
			begin_process(a, now_usec);
		return;
	}
	for (unsigned k = 0; k < HELD_MAX; k++) {
		struct held *h = &a->held[k];
		bool over = h->used && !h->ended && h->batch && now_usec >= h->ends_usec;
		if (over || (h->used && h->ended && h->report < 0 && a->registered))
			report(v, a, h, END_NONE, now_usec);
	}
	if (!agents_reachable(a, now_usec))
		return;
	if (now_usec >= a->beat_usec)
		a->beat_usec = now_usec + BEAT_USEC;
	take_answers(v, a);
	if (now_usec >= a->poll_usec) {
		a->poll_usec = now_usec + (int64_t)random_below(2 * POLL_USEC);
		poll(v, a, now_usec);
	}
}

void agents_step(struct vopr *v, int64_t now_usec, bool accident)
{
	if (accident)
		chaos(v, random_below(NODES), now_usec);
	for (unsigned i = 0; i < NODES; i++) {
		if (world_healed(world_now()))
			v->agent[i].cut_until_usec = 0;
		live(v, i, now_usec);
	}
}

void agents_init(struct vopr *v)
{
	for (unsigned i = 0; i < NODES; i++) {
		struct agent *a = &v->agent[i];
		snprintf(a->name, sizeof a->name, "n%u", i + 1);
		begin_process(a, EPOCH_USEC);
		for (unsigned k = 0; k < HELD_MAX; k++)
			a->held[k].report = -1;
	}
}
