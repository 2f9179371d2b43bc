/* sched/sim/whatif.c: two histories side by side: see whatif.h. */
#include "sched/sim/whatif_int.h"

#include <stdlib.h>

/* Slices at one moment of the other history's own; a pass over all that wait ends long before. */
enum { OWN_SLICES_MAX = 4096, EVENTS_MAX = 4096 };
/* A recorded slice so near is waited for. */
enum { NEAR_USEC = 1000000 };
/* Steps behind the archive's end: attempts still to end, and ticks of months. */
enum { FINISH_MAX = 4000000, IDLE_TICKS = 20000 };

struct sch_whatif *sch_whatif_new(const struct sch_whatif_change *change, int64_t from_usec, int64_t to_usec)
{
	struct sch_whatif *w = calloc(1, sizeof(*w));
	if (!w)
		abort();
	w->change = change;
	w->from_usec = from_usec;
	w->to_usec = to_usec;
	w->altered = change->alter || change->drop_count || change->skip_pos || change->alive;
	return w;
}

struct sch_whatif *sch_whatif_free(struct sch_whatif *w)
{
	if (!w)
		return NULL;
	sch_state_free(w->a);
	sch_state_free(w->b);
	sch_changes_free(&w->changes);
	mu_arena_free(&w->keep);
	mu_arena_free(&w->entry);
	mu_arena_free(&w->event);
	mu_arena_free(&w->slice);
	mu_buf_free(&w->buf);
	mu_buf_free(&w->decided);
	mu_map_clear(&w->tales);
	mu_map_clear(&w->reals);
	mu_map_clear(&w->said);
	mu_map_clear(&w->ids);
	mu_map_clear(&w->backs);
	mu_map_clear(&w->names);
	free(w->slices);
	free(w->heap);
	free(w);
	return NULL;
}

const struct sch_state *sch_whatif_real(const struct sch_whatif *w)
{
	return w->a;
}

const struct sch_state *sch_whatif_other(const struct sch_whatif *w)
{
	return w->b;
}

const struct sch_whatif_figures *sch_whatif_figures(const struct sch_whatif *w)
{
	return &w->f;
}

bool sch_whatif_over(const struct sch_whatif *w)
{
	return w->now_usec > w->to_usec && !w->waiting;
}

const struct sch_whatif_job *sch_whatif_job(struct sch_whatif *w, size_t at)
{
	const uint8_t *key = NULL;
	size_t len = 0;
	/* Asked for in order: the walk begins anew at the first. */
	struct whatif_tale *t = at ? mu_map_seek(&w->tales, w->walk, sizeof(w->walk), 1, &key, &len)
				   : mu_map_seek(&w->tales, NULL, 0, 0, &key, &len);
	while (t && !t->in_period)
		t = mu_map_seek(&w->tales, key, len, 1, &key, &len);
	if (!t)
		return NULL;
	memcpy(w->walk, key, sizeof(w->walk));
	return &t->job;
}

/* ---- tales ---- */

static const char *name_of(struct sch_whatif *w, const char *text)
{
	char *own = mu_map_get_str(&w->names, text ? text : "");
	if (!own) {
		own = mu_arena_strdup(&w->keep, text ? text : "");
		mu_map_put_str(&w->names, own, own);
	}
	return own;
}

struct whatif_tale *whatif__tale(struct sch_whatif *w, const struct sch_job *j, bool other)
{
	uint8_t key[8];
	uint32_t family = sch__job_family(j);
	const void *back = other ? mu_map_get_u64(&w->backs, family) : NULL;
	family = back ? (uint32_t)(uintptr_t)back : family;
	mu_put_be32(key, family);
	mu_put_be32(key + 4, j->array ? j->task + 1 : 0);
	struct whatif_tale *t = mu_map_get(&w->tales, key, sizeof(key));
	if (t)
		return t;
	t = mu_arena_alloc(&w->keep, sizeof(*t));
	t->job = (struct sch_whatif_job){.id = j->array ? j->id : family,
					 .array = j->array ? family : 0,
					 .task = j->task,
					 .user = name_of(w, sch__text(j->who->user)),
					 .account = name_of(w, sch__text(j->account)),
					 .submit_usec = j->submit_usec};
	t->in_period = j->submit_usec >= w->from_usec && j->submit_usec <= w->to_usec;
	mu_map_put(&w->tales, key, sizeof(key), t);
	return t;
}

struct whatif_attempt *whatif__attempt(struct whatif_tale *t, uint32_t number)
{
	struct whatif_attempt *a = t->attempt;
	while (a && a->number != number)
		a = a->next;
	return a;
}

/* ---- events ---- */

Mu__Event *whatif__open(const void *bytes, size_t len, struct mu_arena *arena)
{
	return (Mu__Event *)mu_pb_unpack(&mu__event__descriptor, bytes, len, arena);
}

Mu__Event *whatif__blank(struct mu_arena *arena, Mu__Event__KindCase kind, const char *verifier)
{
	Mu__Event *e = mu_arena_alloc(arena, sizeof(*e));
	mu__event__init(e);
	e->kind_case = kind;
	e->author = mu_arena_alloc(arena, sizeof(*e->author));
	mu__author__init(e->author);
	e->author->verifier = (char *)verifier;
	SCH_SET(e->author, operator_, true);
	return e;
}

static int fold(struct sch_whatif *w, struct sch_state *st, uint32_t n, struct mu_view bytes,
		struct sch_verdict *ret, struct mu_err *err)
{
	struct sch_at at = {.pos = sch_pos(st) + 1, .n = n, .time_usec = w->now_usec};
	return sch_evolve(st, &at, bytes.data, bytes.len, ret, &w->changes, err);
}

static void close_entry(struct sch_whatif *w, bool other)
{
	struct sch_state *st = other ? w->b : w->a;
	sch_entry_done(st, sch_pos(st) + 1, w->now_usec, &w->changes);
	if (other)
		w->f.other.entries++;
	else
		w->f.real.entries++;
	whatif__observe(w, other);
	sch_changes_reset(&w->changes);
}

static struct mu_view packed(struct sch_whatif *w, const Mu__Event *e)
{
	mu_buf_reset(&w->buf);
	mu_pb_pack(&e->base, &w->buf);
	return (struct mu_view){w->buf.data, w->buf.len};
}

static void own_author(Mu__Author *a)
{
	mu__author__init(a);
	a->verifier = (char *)"controller";
	SCH_SET(a, operator_, true);
}

/* Passes at moments of its own: where State wants one and none was recorded that soon. */
static int own_passes(struct sch_whatif *w, struct mu_err *err)
{
	for (uint32_t i = 0; i < OWN_SLICES_MAX && whatif__different(w) && !w->decided_ready &&
			     sch_founded(w->b) && sch_wants_decide(w->b);
	     i++) {
		const struct whatif_slice *next =
		    w->slice_at < w->slice_count ? &w->slices[w->slice_at] : NULL;
		struct sch_verdict v = {0};
		Mu__Event *e = NULL;
		Mu__Author leader;
		if (next && next->basis_usec <= w->now_usec + NEAR_USEC)
			return 0;
		mu_arena_reset(&w->slice);
		int rc = sch_decide(w->b, w->budget, &w->slice, &e);
		if (rc || !e)
			return rc;
		own_author(&leader);
		e->author = &leader;
		rc = fold(w, w->b, 0, packed(w, e), &v, err);
		if (rc)
			return rc;
		w->f.own++;
		close_entry(w, true);
	}
	return 0;
}

int whatif__own_entry(struct sch_whatif *w, Mu__Event *const *e, size_t count, struct mu_err *err)
{
	int rc = 0;
	for (size_t i = 0; i < count && !rc; i++) {
		struct sch_verdict v = {0};
		rc = fold(w, w->b, (uint32_t)i, packed(w, e[i]), &v, err);
	}
	if (!rc)
		close_entry(w, true);
	return rc ? rc : own_passes(w, err);
}

/* ---- recorded slices ---- */

/* The other history decides where the real one did; what comes of it waits for the recorded commit. */
static int decide_at(struct sch_whatif *w, uint64_t pos)
{
	while (w->slice_at < w->slice_count && w->slices[w->slice_at].basis < pos)
		w->slice_at++;
	if (w->slice_at == w->slice_count || w->slices[w->slice_at].basis != pos)
		return 0;
	const struct whatif_slice *s = &w->slices[w->slice_at];
	Mu__Event *e = NULL;
	w->budget = s->budget;
	w->decided_for = w->slice_at++;
	w->decided_ready = true;
	mu_buf_reset(&w->decided);
	mu_arena_reset(&w->slice);
	int rc =
	    sch_wants_decide(w->b) || !whatif__different(w) ? sch_decide(w->b, s->budget, &w->slice, &e) : 0;
	if (rc || !e)
		return rc;
	if (s->bare)
		e->decided->has_budget = 0;
	e->author = NULL;
	mu_pb_pack(&e->base, &w->decided);
	return 0;
}

/* The recorded slice's place has come. Its author and request stand before the rest. */
static int fold_decided(struct sch_whatif *w, const Mu__Event *e, uint64_t pos, uint32_t n, uint32_t *at,
			struct mu_view recorded, struct mu_err *err)
{
	const struct whatif_slice *s = w->decided_ready ? &w->slices[w->decided_for] : NULL;
	bool mine = s && s->pos == pos && s->n == n;
	struct sch_verdict v = {0};
	if (mine)
		w->decided_ready = false;
	w->f.slices++;
	if (!whatif__different(w) && (!mine || s->foreign)) {
		w->f.foreign++;
		return fold(w, w->b, (*at)++, recorded, &v, err);
	}
	if (!mine)
		return 0;
	Mu__Event head = MU__EVENT__INIT;
	head.author = e->author;
	head.request = e->request;
	mu_buf_reset(&w->buf);
	mu_pb_pack(&head.base, &w->buf);
	mu_buf_add(&w->buf, w->decided.data, w->decided.len);
	struct mu_view bytes = {w->buf.data, w->buf.len};
	if (w->decided.len && bytes.len == recorded.len && memcmp(bytes.data, recorded.data, bytes.len) == 0)
		w->f.equal++;
	else if (!w->f.different)
		w->f.different = pos;
	return w->decided.len ? fold(w, w->b, (*at)++, bytes, &v, err) : 0;
}

/* ---- entries ---- */

/* Of a heterogeneous job those of all COUNT components, which follow one another. */
static void know_ids(struct sch_whatif *w, uint32_t real, const struct sch_verdict *other, size_t count)
{
	uint32_t id = other->code ? 0 : other->job;
	for (size_t k = 0; k < count && id != real; k++) {
		mu_map_put_u64(&w->ids, real + k, (void *)((uintptr_t)(id ? id + k : 0) + 1));
		if (id)
			mu_map_put_u64(&w->backs, id + k, (void *)(uintptr_t)(real + k));
	}
}

static int fold_other(struct sch_whatif *w, uint64_t pos, uint32_t n, struct mu_view bytes,
		      const struct sch_verdict *real, uint32_t *at, struct mu_err *err)
{
	bool changed = false;
	struct sch_verdict v = {0};
	struct mu_err why = {0};
	mu_arena_reset(&w->event);
	Mu__Event *e = whatif__open(bytes.data, bytes.len, &w->event);
	if (!e)
		return mu_fail(err, MU_ECORRUPT, "An event of position %llu cannot be read",
			       (unsigned long long)pos);
	if (e->kind_case == MU__EVENT__KIND_DECIDED)
		return fold_decided(w, e, pos, n, at, bytes, err);
	bool submission = e->kind_case == MU__EVENT__KIND_SUBMITTED && !real->code && !real->repeated;
	err->code = 0;
	bool there = whatif__translate(w, e, pos, n, real, &changed, err);
	if (err->code)
		return err->code;
	if (there && submission && w->altered)
		v.code = sch_admit(w->b, e, &why);
	int rc = 0;
	if (there && !v.code)
		rc = fold(w, w->b, (*at)++, changed ? packed(w, e) : bytes, &v, err);
	if (rc || !submission)
		return rc;
	know_ids(w, real->job, &v, 1 + e->submitted->n_component);
	if (v.code) {
		const struct sch_job *j = sch__job(w->a, real->job);
		w->f.refused++;
		if (j && !j->tasks)
			whatif__tale(w, j, false)->job.refused = true;
	}
	return 0;
}

int sch_whatif_entry(struct sch_whatif *w, uint64_t pos, int64_t time_usec, const struct mu_view *event,
		     size_t count, struct mu_err *err)
{
	struct sch_verdict *real;
	uint32_t at = 0;
	int rc = whatif__fire_until(w, time_usec, err);
	if (rc)
		return rc;
	w->now_usec = time_usec > w->now_usec ? time_usec : w->now_usec;
	mu_arena_reset(&w->entry);
	real = mu_arena_alloc(&w->entry, (count + 1) * sizeof(real[0]));
	for (size_t i = 0; i < count && !rc; i++)
		rc = fold(w, w->a, (uint32_t)i, event[i], &real[i], err);
	if (rc)
		return rc;
	close_entry(w, false);
	for (size_t i = 0; i < count && !rc; i++)
		rc = fold_other(w, pos, (uint32_t)i, event[i], &real[i], &at, err);
	if (rc)
		return rc;
	close_entry(w, true);
	if (w->config_new)
		rc = whatif__register(w, err);
	if (!rc)
		rc = decide_at(w, pos);
	return rc ? rc : own_passes(w, err);
}

/* ---- beginning and end ---- */

static int set_config(struct sch_whatif *w, struct mu_err *err)
{
	const struct sch_state *st = w->b;
	Mu__Config was = *sch__conf(st), *now = NULL;
	Mu__Event *e = whatif__blank(&w->event, MU__EVENT__KIND_CONFIG_SET, "socket");
	was.n_partition = st->part_count;
	was.partition = mu_arena_alloc(&w->event, (st->part_count + 1) * sizeof(was.partition[0]));
	for (uint32_t i = 0; i < st->part_count; i++) /* What operators changed since it was read stays. */
		was.partition[i] = st->part[i]->row->conf;
	int rc = w->change->alter(w->change->arg, &was, &w->event, &now, err);
	if (rc || !now)
		return rc;
	e->config_set = mu_arena_alloc(&w->event, sizeof(*e->config_set));
	mu__config_set__init(e->config_set);
	e->config_set->config = now;
	struct sch_verdict v = {0};
	rc = fold(w, w->b, 0, packed(w, e), &v, err);
	if (!rc && v.code)
		rc = mu_fail(err, v.code, "%s", v.text);
	close_entry(w, true);
	return rc ? rc : whatif__register(w, err);
}

static int drop_reservations(struct sch_whatif *w, struct mu_err *err)
{
	int rc = 0;
	for (size_t i = 0; i < w->change->drop_count && !rc; i++) {
		Mu__Event *e = whatif__blank(&w->event, MU__EVENT__KIND_RESERVATION_CHANGED, "socket");
		if (!sch__resv(w->b, w->change->drop[i]))
			continue;
		e->reservation_changed = mu_arena_alloc(&w->event, sizeof(*e->reservation_changed));
		mu__reservation_changed__init(e->reservation_changed);
		e->reservation_changed->row = mu_arena_alloc(&w->event, sizeof(*e->reservation_changed->row));
		mu__reservation_row__init(e->reservation_changed->row);
		e->reservation_changed->row->name = (char *)w->change->drop[i];
		SCH_SET(e->reservation_changed, remove, true);
		rc = whatif__own_entry(w, &e, 1, err);
	}
	return rc;
}

int sch_whatif_begin(struct sch_whatif *w, struct sch_state *real, struct sch_state *other, int64_t now_usec,
		     struct mu_err *err)
{
	int rc = 0;
	uint64_t id = 0;
	w->a = real;
	w->b = other;
	w->now_usec = w->cpus_from_usec = now_usec;
	w->budget = w->slice_count ? w->slices[0].budget : UINT32_MAX;
	/* What runs at the beginning runs in both. */
	for (const struct sch_job *j = mu_map_next_u64(&real->jobs, 0, &id); j;
	     j = mu_map_next_u64(&real->jobs, id + 1, &id))
		if (!j->tasks && !mu_job_state_ended(j->state))
			whatif__first_sight(w, j);
	whatif__under_way(w);
	whatif__capacity(w);
	mu_arena_reset(&w->event);
	if (w->change->alter && sch_founded(other))
		rc = set_config(w, err);
	if (!rc)
		rc = drop_reservations(w, err);
	return rc ? rc : decide_at(w, sch_pos(real));
}

int sch_whatif_finish(struct sch_whatif *w, struct mu_err *err)
{
	bool fired = true;
	uint32_t idle = 0;
	int rc = 0;
	w->slice_at = w->slice_count;
	w->decided_ready = false;
	if (!whatif__different(w))
		return 0;
	rc = own_passes(w, err);
	for (uint32_t i = 0; i < FINISH_MAX && fired && !rc && !sch_whatif_over(w) && idle < IDLE_TICKS;
	     i++) {
		idle = w->heap_count ? 0 : idle + 1;
		rc = whatif__fire_next(w, INT64_MAX, &fired, err);
	}
	whatif__capacity(w);
	return rc;
}
