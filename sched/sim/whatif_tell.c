/* sched/sim/whatif_tell.c: what the other history has instead of an event of the real one: see whatif.h.
 * Ids are given out in the order of events, so that a submission refused, or tasks of arrays started in
 * another order, shift them: jobs are named by what they are, not by their numbers. */
#include "sched/sim/whatif_int.h"

#include <stdlib.h>

struct translation {
	struct sch_whatif *w;
	uint64_t pos;
	uint32_t n;
	bool changed;
};

/* Of a whole array, or a job of its own. 0: it was refused. */
static uint32_t family_of(const struct sch_whatif *w, uint32_t real)
{
	const void *v = mu_map_get_u64(&w->ids, real);
	return v ? (uint32_t)((uintptr_t)v - 1) : real;
}

/* The job of the other history that real job REAL is. *RET_ARRAY where only a task of an array that waits
 * with others is meant: that one. False: there is none. */
static bool job_of(const struct sch_whatif *w, uint32_t real, uint32_t *ret_id, uint32_t *ret_array,
		   uint32_t *ret_task)
{
	const struct sch_job *j = sch__array(w->a, real) ? NULL : sch__job(w->a, real);
	*ret_array = 0;
	if (!j || !j->array || j->tasks) {
		*ret_id = family_of(w, real);
		return *ret_id != 0;
	}
	const struct sch_array *a = sch__array(w->b, family_of(w, sch__job_family(j)));
	const struct sch_job *k = a ? sch__array_task(w->b, a, j->task) : NULL;
	if (!k)
		return false;
	*ret_id = k->id;
	if (k->tasks) {
		*ret_array = a->id;
		*ret_task = j->task;
	}
	return true;
}

/* The jobs of a request by people: those that ran are left to what moves with them. */
static bool jobs(struct translation *t, size_t *n_job, uint32_t *job, size_t *n_some, Mu__ArrayTasks ***some)
{
	struct mu_arena *arena = &t->w->event;
	size_t kept = 0, count = *n_some;
	Mu__ArrayTasks **list = mu_arena_alloc(arena, (*n_job + *n_some + 1) * sizeof(list[0]));
	for (size_t i = 0; i < *n_some; i++) {
		list[i] = (*some)[i];
		uint32_t id = family_of(t->w, list[i]->job);
		t->changed = t->changed || id != list[i]->job;
		list[i]->job = id;
	}
	for (size_t i = 0; i < *n_job; i++) {
		const struct whatif_attempt *spoken = whatif__spoken_to(t->w, t->pos, t->n, job[i]);
		uint32_t id = 0, array = 0, task = 0;
		if ((spoken && spoken->told != WHATIF_SAME) || !job_of(t->w, job[i], &id, &array, &task)) {
			t->changed = true;
			continue;
		}
		t->changed = t->changed || array || id != job[i];
		if (!array) {
			job[kept++] = id;
			continue;
		}
		list[count] = mu_arena_alloc(arena, sizeof(*list[count]));
		mu__array_tasks__init(list[count]);
		SCH_SET(list[count], job, array);
		list[count++]->tasks = mu_arena_printf(arena, "%u", task);
	}
	*n_job = kept;
	*n_some = count;
	*some = list;
	return kept || count;
}

/* "afterok:12:13_4" with the ids of the other history. */
static char *depends(struct translation *t, const char *text)
{
	struct mu_buf out = {0};
	for (const char *p = text; *p;) {
		char *end = NULL;
		if (p == text || p[-1] != ':' || *p < '0' || *p > '9') {
			mu_buf_add(&out, p++, 1);
			continue;
		}
		uint32_t real = (uint32_t)strtoul(p, &end, 10), id = 0, array = 0, task = 0;
		if (!job_of(t->w, real, &id, &array, &task))
			id = real;
		if (array)
			mu_buf_printf(&out, "%u_%u", array, task);
		else
			mu_buf_printf(&out, "%u", id);
		p = end;
	}
	mu_buf_add(&out, "", 1);
	char *text_out = mu_arena_strdup(&t->w->event, (const char *)out.data);
	mu_buf_free(&out);
	return text_out;
}

static bool names_dropped(const struct sch_whatif *w, const char *list)
{
	for (size_t i = 0; list && i < w->change->drop_count; i++) {
		size_t len = strlen(w->change->drop[i]);
		for (const char *p = strstr(list, w->change->drop[i]); p;
		     p = strstr(p + 1, w->change->drop[i]))
			if ((p == list || p[-1] == ',') && (!p[len] || p[len] == ','))
				return true;
	}
	return false;
}

static void spec(struct translation *t, Mu__JobSpec *s)
{
	if (s && s->dependency && t->w->ids.root) {
		s->dependency = depends(t, s->dependency);
		t->changed = true;
	}
	if (s && names_dropped(t->w, s->reservation)) {
		s->reservation = NULL;
		t->changed = true;
	}
}

static bool submitted(struct translation *t, Mu__Submitted *s)
{
	spec(t, s->spec);
	for (size_t i = 0; i < s->n_component; i++)
		spec(t, s->component[i]);
	for (size_t i = 0; i < s->n_resolved; i++) {
		uint32_t id = family_of(t->w, s->resolved[i]->job);
		t->changed = t->changed || id != s->resolved[i]->job;
		s->resolved[i]->job = id;
	}
	return true;
}

static bool updated(struct translation *t, Mu__JobUpdate *u)
{
	const struct whatif_attempt *spoken = whatif__spoken_to(t->w, t->pos, t->n, u->job);
	uint32_t id = 0, array = 0, task = 0;
	if ((spoken && spoken->told != WHATIF_SAME) || !job_of(t->w, u->job, &id, &array, &task))
		return false;
	t->changed = t->changed || array || id != u->job;
	SCH_SET(u, job, array ? array : id);
	if (array)
		u->tasks = mu_arena_printf(&t->w->event, "%u", task);
	spec(t, u->spec);
	return true;
}

/* A node's word of an attempt. */
static bool of_attempt(struct translation *t, uint32_t *job, uint32_t number)
{
	struct whatif_tale *tale = mu_map_get_u64(&t->w->reals, *job);
	const struct whatif_attempt *a = tale ? whatif__attempt(tale, number) : NULL;
	uint32_t id = 0, array = 0, task = 0;
	if ((a && a->told != WHATIF_SAME) || !job_of(t->w, *job, &id, &array, &task) || array)
		return false;
	t->changed = t->changed || id != *job;
	*job = id;
	return true;
}

/* ---- nodes ---- */

/* What the node holds in the other history, as long as it is the same boot. */
static bool registered(struct translation *t, Mu__NodeRegistered *r)
{
	struct sch_state *st = t->w->b;
	const struct sch_node *n = r->inventory ? sch__node(st, r->inventory->name) : NULL;
	if (!n || (sch__same(n->row->name, t->w->change->alive) && n->row->boot_id.len))
		return false;
	const ProtobufCBinaryData *boot = &r->inventory->boot_id;
	bool same = boot->len == n->row->boot_id.len && boot->len &&
		    memcmp(boot->data, n->row->boot_id.data, boot->len) == 0;
	r->held = mu_arena_alloc(&t->w->event, (n->hold_count + 1) * sizeof(r->held[0]));
	r->n_held = 0;
	for (uint32_t i = 0; i < n->hold_count && same; i++) {
		const struct sch_alloc *a = sch__alloc_on(n->hold[i].job, n->hold[i].attempt, n);
		if (!a || a->lost)
			continue;
		Mu__HeldAttempt *h = r->held[r->n_held++] = mu_arena_alloc(&t->w->event, sizeof(*h));
		mu__held_attempt__init(h);
		SCH_SET(h, job, n->hold[i].job->id);
		SCH_SET(h, attempt, n->hold[i].attempt);
	}
	r->has_seen_pos = 1;
	r->seen_pos = sch_pos(st);
	return t->changed = true;
}

/* Heartbeats are by a node's place among those of the configuration. Nodes that are not there in reality are
 * never silent. */
static bool heard(struct translation *t, Mu__NodesHeard *h)
{
	const struct sch_state *a = t->w->a, *b = t->w->b;
	if (h->has_config_pos && h->config_pos != a->config.row->since_pos)
		return false;
	size_t len = b->node_count / 8 + 1;
	uint8_t *bits = mu_arena_alloc(&t->w->event, len);
	for (uint32_t i = 0; i < b->node_count; i++) {
		const struct sch_node *n = sch__node(a, b->node[i]->row->name);
		if (!n || sch__same(n->row->name, t->w->change->alive) || (n->order / 8 < h->heard.len && h->heard.data[n->order / 8] >> (n->order % 8) & 1))
			bits[i / 8] |= (uint8_t)(1u << (i % 8));
	}
	h->has_heard = 1;
	h->heard = (ProtobufCBinaryData){.data = bits, .len = len};
	if (h->has_config_pos)
		h->config_pos = b->config.row->since_pos;
	return t->changed = true;
}

int whatif__register(struct sch_whatif *w, struct mu_err *err)
{
	struct mu_arena arena = {0};
	int rc = 0;
	w->config_new = false;
	for (uint32_t i = 0; i < w->b->node_count && !rc; i++) {
		Mu__NodeRow *row = w->b->node[i]->row;
		if (row->base_state != NODE_UNKNOWN || sch__node(w->a, row->name))
			continue;
		Mu__Event *e = whatif__blank(&arena, MU__EVENT__KIND_NODE_REGISTERED, "node-key");
		Mu__NodeRow *said = mu_arena_alloc(&arena, sizeof(*said));
		e->node_registered = mu_arena_alloc(&arena, sizeof(*e->node_registered));
		mu__node_registered__init(e->node_registered);
		*said = *row;
		said->has_boot_id = 1;
		said->boot_id = (ProtobufCBinaryData){.len = 7, .data = (uint8_t *)"what-if"};
		said->name = e->author->node = mu_arena_strdup(&arena, row->name);
		e->node_registered->inventory = said;
		rc = whatif__own_entry(w, &e, 1, err);
	}
	mu_arena_free(&arena);
	return rc;
}

/* ---- configurations ---- */

static bool configured(struct translation *t, Mu__Config **config, struct mu_err *err)
{
	Mu__Config *now = NULL;
	if (!t->w->change->alter)
		return true;
	err->code = t->w->change->alter(t->w->change->arg, *config, &t->w->event, &now, err);
	if (err->code || !now)
		return false;
	*config = now;
	t->w->config_new = true;
	return t->changed = true;
}

bool whatif__translate(struct sch_whatif *w, Mu__Event *e, uint64_t pos, uint32_t n,
		       const struct sch_verdict *real, bool *ret_changed, struct mu_err *err)
{
	struct translation t = {.w = w, .pos = pos, .n = n};
	bool there = true;
	if (!whatif__different(w))
		return true;
	if (w->change->skip_pos == pos && w->change->skip_n == n)
		return false;
	if (real->code)
		return false; /* What was refused then is not asked again. */
	switch (e->kind_case) {
	case MU__EVENT__KIND_FOUNDED:
		there = configured(&t, &e->founded->config, err);
		break;
	case MU__EVENT__KIND_CONFIG_SET:
		there = configured(&t, &e->config_set->config, err);
		break;
	case MU__EVENT__KIND_SUBMITTED:
		there = submitted(&t, e->submitted);
		break;
	case MU__EVENT__KIND_JOB_SIGNAL:
		there = jobs(&t, &e->job_signal->n_job, e->job_signal->job, &e->job_signal->n_some,
			     &e->job_signal->some);
		break;
	case MU__EVENT__KIND_JOB_HOLD:
		there =
		    jobs(&t, &e->job_hold->n_job, e->job_hold->job, &e->job_hold->n_some, &e->job_hold->some);
		break;
	case MU__EVENT__KIND_JOB_REQUEUE:
		there = jobs(&t, &e->job_requeue->n_job, e->job_requeue->job, &e->job_requeue->n_some,
			     &e->job_requeue->some);
		break;
	case MU__EVENT__KIND_JOB_UPDATE:
		there = updated(&t, e->job_update);
		break;
	case MU__EVENT__KIND_NODE_REGISTERED:
		there = registered(&t, e->node_registered);
		break;
	case MU__EVENT__KIND_NODES_HEARD:
		there = heard(&t, e->nodes_heard);
		break;
	case MU__EVENT__KIND_ATTEMPT_ENDED:
		there = of_attempt(&t, &e->attempt_ended->job, e->attempt_ended->attempt);
		break;
	case MU__EVENT__KIND_STEPS_REPORTED:
		there = of_attempt(&t, &e->steps_reported->job, e->steps_reported->attempt);
		break;
	case MU__EVENT__KIND_RESERVATION_CHANGED:
		there = !e->reservation_changed->row || !names_dropped(w, e->reservation_changed->row->name);
		break;
	default:
		break;
	}
	*ret_changed = t.changed;
	return there;
}
