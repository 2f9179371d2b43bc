/* sched/evolve.c: the fold's frame: decode, recognise, answer repeated requests, dispatch through events.def,
 * count what was void, keep the answer, flush the digest. What each event does is in evolve_cluster.c,
 * evolve_node.c, evolve_job.c, evolve_attempt.c and evolve_decided.c; each makes all its checks before its
 * first write. */
#include "sched/timeline.h"

#include <assert.h>

#include "proto/version.h"

struct event_kind {
	uint32_t tag, level;
	int (*fold)(struct sch_ev *ev);
};

static const struct event_kind kinds[] = {
#define MU_EVENT(NAME, field, tag, level, function, who) {tag, level, sch__evolve_##function},
#include "proto/events.def"
#undef MU_EVENT
};

static const struct event_kind *kind_of(uint32_t tag)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kinds[i].tag == tag)
			return &kinds[i];
	return NULL;
}

static void verdict_text(struct sch_verdict *v, const char *text)
{
	size_t len = text ? strlen(text) : 0;
	if (len >= sizeof(v->text))
		len = sizeof(v->text) - 1;
	memcpy(v->text, text ? text : "", len);
	v->text[len] = 0;
}

static int version_failure(const Mu__Event *event, struct mu_err *err)
{
	if (event->kind_case != MU__EVENT__KIND__NOT_SET)
		return mu_fail(err, MU_EVERSION, "event type %u needs a newer version than %s",
			       event->kind_case, MU_VERSION);
	return mu_fail(err, MU_EVERSION, "an event of a type that %s (level %u) does not know", MU_VERSION,
		       MU_LEVEL);
}

static void answer_again(const struct sch_answer *a, struct sch_verdict *ret)
{
	ret->code = a->code;
	ret->job = a->job;
	ret->repeated = true;
	verdict_text(ret, sch__text(a->text));
}

/* Checks that hold for every event. */
static int frame_check(const struct sch_ev *ev, const struct event_kind *kind, struct mu_err *err)
{
	const Mu__RequestId *id = ev->event->request;
	if (kind->level > ev->st->cluster->level)
		return mu_fail(err, MU_EVOID, "event type %u is switched on at level %u; the State is at %u",
			       kind->tag, kind->level, ev->st->cluster->level);
	if (sch__answer_stale(ev->st, id))
		return sch__refuse(err, MU_ESTALE);
	if (id && id->birth_usec > ev->now + SCH_BIRTH_AHEAD_USEC)
		return mu_fail(err, MU_EINVAL,
			       "The asking machine's clock is more than an hour ahead of the cluster's");
	return 0;
}

static void fold(struct sch_ev *ev, const struct event_kind *kind, struct sch_verdict *ret)
{
	ret->code = frame_check(ev, kind, &ev->err);
	if (!ret->code)
		ret->code = kind->fold(ev);
	ret->job = ev->job;
	verdict_text(ret, ev->err.text);
}

int sch_evolve(struct sch_state *st, const struct sch_at *at, const uint8_t *event, size_t len,
	       struct sch_verdict *ret_verdict, struct sch_changes *changes, struct mu_err *err)
{
	static const Mu__Author nobody = MU__AUTHOR__INIT;
	assert(at->pos == st->cluster->entries + 1);
	memset(ret_verdict, 0, sizeof(*ret_verdict));
	mu_arena_reset(&st->scratch->event);
	bool unknown = false;
	Mu__Event *e = (Mu__Event *)mu_pb_unpack_known(&mu__event__descriptor, event, len,
						       &st->scratch->event, &unknown);
	const struct event_kind *kind = e ? kind_of(e->kind_case) : NULL;
	if (e && !kind && (e->kind_case != MU__EVENT__KIND__NOT_SET || e->base.n_unknown_fields))
		return version_failure(e, err);
	if (e && unknown)
		sch__strip(&e->base);
	int64_t before = st->cluster->now_usec;
	mu_arena_reset(&st->scratch->read);
	if (at->time_usec > before)
		st->cluster->now_usec = at->time_usec;
	sch__limits_time(st, before);
	sch__plans_time(st, before);
	struct sch_ev ev = {
	    .st = st, .at = at, .now = st->cluster->now_usec, .event = e, .arena = &st->scratch->event};
	ev.author = e && e->author ? e->author : &nobody;
	if (e && e->author && e->kind_case != MU__EVENT__KIND_ACCOUNTS_CHANGED)
		e->author->operator_ = sch_is_operator(st, e->author); /* Operators are rows, too. */
	const struct sch_answer *known = e ? sch__answer_find(st, e->request) : NULL;
	if (known) {
		answer_again(known, ret_verdict);
		return 0;
	}
	if (!kind) {
		ret_verdict->code = MU_EPROTO;
		verdict_text(ret_verdict, mu_strerror(MU_EPROTO));
	} else {
		fold(&ev, kind, ret_verdict);
	}
	if (ret_verdict->code == MU_EVERSION) {
		st->cluster->now_usec = before;
		return mu_fail(err, MU_EVERSION, "%s", ret_verdict->text);
	}
	if (ret_verdict->code)
		st->cluster->voided++;
	if (e)
		sch__answer_keep(st, e->request, ret_verdict, at->pos, changes);
	sch__flush(st, changes);
	return 0;
}

void sch_entry_done(struct sch_state *st, uint64_t pos, int64_t time_usec, struct sch_changes *changes)
{
	struct sch_key key = {.kind = SCH_ROW_CLUSTER};
	assert(pos == st->cluster->entries + 1);
	int64_t before = st->cluster->now_usec;
	if (time_usec > before)
		st->cluster->now_usec = time_usec;
	sch__limits_time(st, before);
	sch__plans_time(st, before);
	st->cluster->entries = pos;
	mu_arena_reset(&st->scratch->read);
	sch__note(changes, &st->cluster_change, &key, false, NULL);
}
