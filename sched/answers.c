/* sched/answers.c: what each request id was answered, for a day and at most a million: a repeated request
 * never acts twice. An answer never changes, so its row is hashed when it comes and again when it goes, and
 * no hash is kept. The floor is the birth up to which answers may have been forgotten; requests born at or
 * before it are refused. */
#include "sched/state.h"

static bool key_of(const Mu__RequestId *id, uint8_t key[24])
{
	if (!id || id->nonce.len != 16 || id->birth_usec <= 0)
		return false;
	mu_put_be64(key, (uint64_t)id->birth_usec);
	memcpy(key + 8, id->nonce.data, 16);
	return true;
}

struct sch_answer *sch__answer_find(const struct sch_state *st, const Mu__RequestId *id)
{
	uint8_t key[24];
	return key_of(id, key) ? mu_map_get(&st->answers, key, sizeof(key)) : NULL;
}

bool sch__answer_stale(const struct sch_state *st, const Mu__RequestId *id)
{
	uint8_t key[24];
	if (!key_of(id, key))
		return false;
	return id->birth_usec <= st->cluster->answer_floor_usec ||
	       id->birth_usec < st->cluster->now_usec - SCH_ANSWER_AGE_USEC;
}

/* AT: where the answer stands in the change list, UINT32_MAX where it does not. */
static void count(struct sch_state *st, const struct sch_answer *a, bool gone, struct sch_changes *changes,
		  uint32_t *at)
{
	struct sch_key key;
	struct mu_hash hash;
	sch__answer_key(a, &key);
	mu_buf_reset(&st->scratch->row);
	sch__answer_pack(a, &st->scratch->row);
	sch__row_hash(&key, st->scratch->row.data, st->scratch->row.len, &hash);
	if (gone)
		mu_hash_sum_sub(&st->sum, &hash);
	else
		mu_hash_sum_add(&st->sum, &hash);
	sch__note(changes, at, &key, gone, gone ? NULL : &st->scratch->row);
}

/* FRESH was just noted at FRESH_AT; a request older than any answer that is kept goes again at once. */
static void evict(struct sch_state *st, struct sch_changes *changes, const struct sch_answer *fresh,
		  uint32_t fresh_at)
{
	for (uint32_t n = 0; n < SCH_EVICT_PER_ANSWER; n++) {
		struct sch_answer *a = mu_map_seek(&st->answers, NULL, 0, 0, NULL, NULL);
		if (!a || (st->answers.count <= SCH_ANSWERS_MAX &&
			   a->birth_usec >= st->cluster->now_usec - SCH_ANSWER_AGE_USEC))
			return;
		struct sch_key key;
		uint32_t at = a == fresh ? fresh_at : UINT32_MAX;
		sch__answer_key(a, &key);
		count(st, a, true, changes, &at);
		if (a->birth_usec > st->cluster->answer_floor_usec)
			st->cluster->answer_floor_usec = a->birth_usec;
		mu_map_del(&st->answers, key.bytes, key.len);
		sch__str_drop(st, &a->text);
		mu_pool_put(&st->answer_pool, a);
	}
}

static struct sch_answer *add(struct sch_state *st, int64_t birth_usec, const uint8_t nonce[16], int32_t code,
			      uint32_t job, const char *text, uint64_t pos)
{
	struct sch_answer *a = mu_pool_get(&st->answer_pool);
	struct sch_key key;
	a->birth_usec = birth_usec;
	memcpy(a->nonce, nonce, sizeof(a->nonce));
	a->code = code;
	a->job = job;
	a->pos = pos;
	a->text = sch__str(st, text);
	sch__answer_key(a, &key);
	mu_map_put(&st->answers, key.bytes, key.len, a);
	return a;
}

void sch__answer_keep(struct sch_state *st, const Mu__RequestId *id, const struct sch_verdict *v,
		      uint64_t pos, struct sch_changes *changes)
{
	uint8_t key[24];
	if (!key_of(id, key) || mu_map_get(&st->answers, key, sizeof(key)))
		return;
	struct sch_answer *a = add(st, id->birth_usec, id->nonce.data, v->code, v->job, v->text, pos);
	uint32_t at = UINT32_MAX;
	count(st, a, false, changes, &at);
	evict(st, changes, a, at);
}

void sch__answer_load(struct sch_state *st, const Mu__AnswerRow *row)
{
	if (row->nonce.len == 16)
		add(st, row->birth_usec, row->nonce.data, row->code, row->job, row->text, row->pos);
}
