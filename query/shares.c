/* query/shares.c: answers that are computed, not stored: shares and priorities out of a whole State. The
 * present is opened as if it were a past moment; pages of one answer and askers at one position share it. */
#include "query/answer.h"

static int add_message(struct answer *a, const ProtobufCMessage *m, uint32_t key)
{
	uint8_t bytes[4];
	size_t len = protobuf_c_message_get_packed_size(m);
	uint8_t *room = answer_room(a, len);

	if (!room)
		return ANSWER_FULL;
	protobuf_c_message_pack(m, room);
	mu_put_be32(bytes, key);
	answer_add(a, room, len, bytes, sizeof bytes);
	return 0;
}

static uint32_t page_from(const struct answer *a)
{
	return a->query->after_key.len == 4 ? mu_get_be32(a->query->after_key.data) : 0;
}

static bool any_of(char *const *list, size_t n, const char *word)
{
	for (size_t i = 0; i < n; i++)
		if (word && strcmp(list[i], word) == 0)
			return true;
	return n == 0;
}

static int add_shares(struct answer *a, const struct sch_state *st)
{
	struct mu_arena arena = {0};
	Mu__ShareRow *row;
	int code = 0;

	for (uint32_t i = page_from(a); !code && !sch_explain_share(st, i, &arena, &row); i++) {
		if (!row->user || !answer_hides(a, VIEW_PRIVATE_USAGE) || answer_is_caller(a, row->user))
			code = add_message(a, &row->base, i + 1);
		mu_arena_reset(&arena);
	}
	mu_arena_free(&arena);
	return code;
}

static bool job_asked(const struct answer *a, uint32_t id)
{
	for (size_t i = 0; i < a->query->n_job; i++)
		if (a->query->job[i] == id)
			return true;
	return a->query->n_job == 0;
}

static bool wanted(const struct answer *a, const Mu__PriorityRow *row)
{
	const Mu__Query *q = a->query;
	bool uid = q->n_uid == 0;

	for (size_t i = 0; i < q->n_uid && !uid; i++)
		uid = q->uid[i] == row->uid;
	return uid && job_asked(a, row->job) && any_of(q->user, q->n_user, row->user) &&
	       any_of(q->partition, q->n_partition, row->partition) &&
	       any_of(q->account, q->n_account, row->account) && answer_may_see(a, row->uid);
}

static int add_priorities(struct answer *a, const struct sch_state *st)
{
	struct mu_arena arena = {0};
	Mu__PriorityRow *row;
	int code = 0;

	for (uint32_t id = sch_next_waiting(st, page_from(a)); id && !code; id = sch_next_waiting(st, id)) {
		if (!job_asked(a, id) || sch_explain_priority(st, id, &arena, &row))
			continue;
		if (wanted(a, row))
			code = add_message(a, &row->base, id);
		mu_arena_reset(&arena);
	}
	mu_arena_free(&arena);
	return code;
}

int answer_computed(struct answer *a)
{
	struct view_past *past = a->source.past;
	int code = past ? 0 : view__past_get(a->source.v, a->source.pos, &past, a->err);

	if (code)
		return code;
	code = a->query->what == MU__WHAT__WHAT_SHARES ? add_shares(a, past->state)
						       : add_priorities(a, past->state);
	if (past != a->source.past)
		view__past_put(a->source.v, past);
	return code;
}
