/* query/past.c: a few past States kept between queries, so that pages of one answer and loops over one moment
 * cost one fold. */
#include "query/store.h"

static struct view_past *find(struct view *v, uint64_t pos)
{
	for (int i = 0; i < VIEW_PAST_STATES; i++)
		if (v->past[i].pos == pos)
			return &v->past[i];
	return NULL;
}

/* The least recently used one that nobody reads; NULL when all are being read. */
static struct view_past *victim(struct view *v)
{
	struct view_past *best = NULL;

	for (int i = 0; i < VIEW_PAST_STATES; i++) {
		struct view_past *p = &v->past[i];
		if (p->readers == 0 && (!best || p->used < best->used))
			best = p;
	}
	return best;
}

int view__past_get(struct view *v, uint64_t pos, struct view_past **ret, struct mu_err *err)
{
	struct sch_state *st = NULL;
	struct view_past *p;

	pthread_mutex_lock(&v->past_lock);
	p = find(v, pos);
	if (!p) {
		pthread_mutex_unlock(&v->past_lock);
		int code = view_state_at(v, pos, &st, err);
		if (code)
			return code;
		pthread_mutex_lock(&v->past_lock);
		p = find(v, pos);
	}
	if (!p) {
		p = victim(v);
		if (!p) {
			pthread_mutex_unlock(&v->past_lock);
			sch_state_free(st);
			return mu_fail(err, MU_EBUSY,
				       "%d other past moments are being read just now; try again",
				       VIEW_PAST_STATES);
		}
		sch_state_free(p->state);
		p->state = st;
		p->pos = pos;
		st = NULL;
	}
	p->readers++;
	p->used = ++v->past_clock;
	pthread_mutex_unlock(&v->past_lock);
	sch_state_free(st);
	pthread_mutex_lock(&p->reading);
	*ret = p;
	return 0;
}

void view__past_put(struct view *v, struct view_past *past)
{
	pthread_mutex_unlock(&past->reading);
	pthread_mutex_lock(&v->past_lock);
	past->readers--;
	pthread_mutex_unlock(&v->past_lock);
}

void view__past_free(struct view *v)
{
	for (int i = 0; i < VIEW_PAST_STATES; i++) {
		v->past[i].state = sch_state_free(v->past[i].state);
		v->past[i].pos = 0;
	}
}
