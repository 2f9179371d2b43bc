/* query/plan.c: what another configuration would change in the live queue. */
#include "query/answer.h"

static int add_row(struct answer *a, const Mu__PlanRow *row)
{
	uint8_t key[4];
	size_t len = protobuf_c_message_get_packed_size(&row->base);
	uint8_t *room = answer_room(a, len);

	if (!room)
		return ANSWER_FULL;
	protobuf_c_message_pack(&row->base, room);
	mu_put_be32(key, row->job);
	answer_add(a, room, len, key, sizeof key);
	return 0;
}

int answer_plan(struct answer *a)
{
	struct view_past *past = a->source.past;
	Mu__PlanRow **rows = NULL;
	size_t count = 0;
	uint32_t after = a->query->after_key.len == 4 ? mu_get_be32(a->query->after_key.data) : 0;

	if (!a->caller->operator)
		return mu_fail(a->err, MU_EPERM, "%s", mu_strerror(MU_EPERM));
	if (!a->query->config)
		return mu_fail(a->err, MU_EINVAL, "a configuration is needed");
	int code = past ? 0 : view__past_get(a->source.v, a->source.pos, &past, a->err);
	if (code)
		return code;
	code = sch_explain_config(past->state, a->query->config, a->arena, &rows, &count, a->err);
	if (past != a->source.past)
		view__past_put(a->source.v, past);
	for (size_t i = 0; i < count && code == 0; i++)
		if (rows[i]->job > after)
			code = add_row(a, rows[i]);
	return code;
}
