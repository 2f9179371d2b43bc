/* sched/licence.c: licences: counted things that belong to no node. How many there are is in the
 * configuration, who holds them follows from the jobs that run; nothing of it is a row of its own. */
#include "sched/state.h"

#include <assert.h>
#include <stdlib.h>

#include "proto/conf.h"

/* One "name[:count]" of a list at *text, moved on; false at the end. LEN 0 or COUNT 0: does not read. */
static bool next_word(const char **text, const char **ret_name, size_t *ret_len, uint32_t *ret_count)
{
	const char *p = *text;
	if (!p || !*p)
		return false;
	size_t all = strcspn(p, ",;"), len = strcspn(p, ",;:=");
	uint64_t count = 1;
	if (len < all) {
		const char *d = p + len + 1;
		bool ok = d < p + all;
		count = 0;
		for (; d < p + all; d++) {
			ok = ok && *d >= '0' && *d <= '9';
			count = count < UINT32_MAX ? 10 * count + (uint64_t)(*d - '0') : count;
		}
		if (!ok)
			count = 0;
	}
	*ret_name = p;
	*ret_len = len;
	*ret_count = count > INT32_MAX ? 0 : (uint32_t)count;
	*text = p + all + (p[all] != 0);
	return true;
}

static struct sch_lic *find(const struct sch_state *st, const char *name, size_t len)
{
	return mu_map_get(&st->lics, name, len);
}

static struct sch_lic *make(struct sch_state *st, const char *name, size_t len)
{
	struct sch_lic *l = find(st, name, len);
	if (l)
		return l;
	l = sch__alloc(st, sizeof(*l));
	mu_map_put(&st->lics, name, len, l);
	return l;
}

void sch__lic_config(struct sch_state *st)
{
	const char *text = mu_conf_get(sch__conf(st), "Licenses", ""), *name;
	const uint8_t *key = NULL;
	size_t len = 0;
	uint32_t count;
	for (struct sch_lic *l = mu_map_seek(&st->lics, NULL, 0, 0, &key, &len); l;
	     l = mu_map_seek(&st->lics, key, len, 1, &key, &len))
		l->total = 0;
	while (next_word(&text, &name, &len, &count))
		if (len && len <= SCH_KEY_MAX)
			make(st, name, len)->total = count;
}

void sch__lic_free(struct sch_state *st)
{
	const uint8_t *key = NULL;
	size_t len = 0;
	for (struct sch_lic *l = mu_map_seek(&st->lics, NULL, 0, 0, &key, &len); l;
	     l = mu_map_seek(&st->lics, key, len, 1, &key, &len))
		sch__free(st, l, sizeof(*l));
	mu_map_clear(&st->lics);
}

int sch__lic_check(const struct sch_state *st, const char *text, struct mu_err *err)
{
	const char *name;
	size_t len, words = 0;
	uint32_t count;
	if (strchr(text, '|'))
		return mu_fail(err, MU_ELICENSE,
			       "Invalid license specification: one licence or another (|) is not supported");
	while (next_word(&text, &name, &len, &count)) {
		const struct sch_lic *l = len <= SCH_KEY_MAX ? find(st, name, len) : NULL;
		if (!len || !count || !l || count > l->total || ++words > SCH_LICS_PER_JOB)
			return sch__refuse(err, MU_ELICENSE);
	}
	return 0;
}

uint32_t sch__lic_parse(const char *text, struct mu_arena *arena, struct sch_lic_ask **ret)
{
	const char *name;
	size_t len;
	uint32_t count, n = 0;
	*ret = mu_arena_alloc(arena, SCH_LICS_PER_JOB * sizeof(**ret));
	while (n < SCH_LICS_PER_JOB && next_word(&text, &name, &len, &count)) {
		uint32_t i = 0;
		if (!len || len > SCH_KEY_MAX)
			continue;
		while (i < n && !((*ret)[i].len == len && memcmp((*ret)[i].name, name, len) == 0))
			i++;
		if (i == n)
			(*ret)[n++] = (struct sch_lic_ask){.name = name, .len = (uint32_t)len};
		(*ret)[i].count += count;
	}
	return n;
}

/* How many of ASK the jobs that wish for them in TEXT are given. */
static uint32_t asked(const char *text, const struct sch_lic_ask *ask)
{
	const char *name;
	size_t len;
	uint32_t count, sum = 0;
	while (next_word(&text, &name, &len, &count))
		if (len == ask->len && memcmp(name, ask->name, len) == 0)
			sum += count;
	return sum;
}

uint32_t sch__lic_of(const struct sch_job *j, const struct sch_lic_ask *ask)
{
	return j->licenses ? asked(j->licenses->text, ask) : 0;
}

void sch__lic_count(struct sch_state *st, const struct sch_job *j, int sign)
{
	const char *text = sch__text(j->licenses), *name;
	size_t len;
	uint32_t count;
	if (j->state != JOB_RUNNING && j->state != JOB_SUSPENDED)
		return;
	while (next_word(&text, &name, &len, &count))
		if (len && len <= SCH_KEY_MAX) {
			struct sch_lic *l = make(st, name, len);
			assert(sign > 0 || l->used >= count);
			l->used += sign > 0 ? count : (uint32_t) - (int64_t)count;
		}
}

/* Of what reservations keep from a job in IN for the span, what is not in use within them. */
static uint32_t kept(const struct sch_state *st, const struct sch_lic_ask *ask, const struct sch_resv *in,
		     int64_t from, int64_t until)
{
	uint32_t sum = 0;
	for (const struct sch_resv *r = sch__resv_next(st, NULL); r; r = sch__resv_next(st, r)) {
		uint32_t has = asked(r->row->licenses, ask), used = 0;
		const uint8_t *key = NULL;
		size_t len = 0;
		if (!has || !sch__resv_bars(r, in, st->cluster->now_usec, from, until))
			continue;
		for (const struct sch_job *j = r->jobs ? mu_map_seek(&st->running, NULL, 0, 0, &key, &len)
						       : NULL;
		     j; j = mu_map_seek(&st->running, key, len, 1, &key, &len))
			if (j->resv && sch__same(j->resv->text, r->row->name))
				used += sch__lic_of(j, ask);
		sum += has > used ? has - used : 0;
	}
	return sum;
}

bool sch__lic_fits(const struct sch_state *st, const char *text, const struct sch_resv *in, int64_t from,
		   int64_t until, sch_lic_taken taken, void *arg)
{
	struct mu_arena arena = {0};
	struct sch_lic_ask *ask;
	uint32_t n = sch__lic_parse(text, &arena, &ask);
	bool ok = true;
	for (uint32_t i = 0; i < n && ok; i++) {
		const struct sch_lic *l = find(st, ask[i].name, ask[i].len);
		uint64_t used = taken ? taken(arg, &ask[i]) : l ? l->used : 0;
		ok = l && used + kept(st, &ask[i], in, from, until) + ask[i].count <= l->total;
	}
	mu_arena_free(&arena);
	return ok;
}
