/* sched/rows.c: State to rows: keys, packing, walking. One switch over the kinds each; jobs have rows_job.c,
 * the way back load.c. Fields with their default value are left out, so that equal States have equal bytes.
 */
#include "sched/state.h"

#include <assert.h>
#include <stdlib.h>

static void text_key(struct sch_key *key, const char *text)
{
	size_t len = strlen(text);
	assert(len <= SCH_KEY_MAX);
	key->len = (uint8_t)len;
	memcpy(key->bytes, text, len);
}

void sch__rec_key(const struct sch_rec *rec, struct sch_key *ret)
{
	ret->kind = rec->kind;
	ret->len = 0;
	switch (rec->kind) {
	case SCH_ROW_PARTITION:
		text_key(ret, ((const struct sch_part *)rec)->row->conf->name);
		break;
	case SCH_ROW_NODE:
		text_key(ret, ((const struct sch_node *)rec)->row->name);
		break;
	case SCH_ROW_JOB:
		mu_put_be32(ret->bytes, ((const struct sch_job *)rec)->id);
		ret->len = 4;
		break;
	case SCH_ROW_STEP:
		mu_put_be32(ret->bytes, ((const struct sch_step *)rec)->job);
		mu_put_be32(ret->bytes + 4, ((const struct sch_step *)rec)->attempt);
		mu_put_be32(ret->bytes + 8, ((const struct sch_step *)rec)->step);
		ret->len = 12;
		break;
	case SCH_ROW_ARRAY:
		mu_put_be32(ret->bytes, ((const struct sch_array *)rec)->id);
		ret->len = 4;
		break;
	case SCH_ROW_NODE_KEY:
		text_key(ret, ((const struct sch_key_rec *)rec)->row->node);
		break;
	case SCH_ROW_RESERVATION:
		text_key(ret, ((const struct sch_resv *)rec)->row->name);
		break;
	case SCH_ROW_ACCOUNT:
	case SCH_ROW_USER:
	case SCH_ROW_ASSOC:
	case SCH_ROW_QOS:
		sch__accounts_rec_key(rec, ret);
		break;
	default:
		assert(rec->kind == SCH_ROW_CONFIG);
		break;
	}
}

void sch__answer_key(const struct sch_answer *a, struct sch_key *ret)
{
	ret->kind = SCH_ROW_ANSWER;
	ret->len = 24;
	mu_put_be64(ret->bytes, (uint64_t)a->birth_usec);
	memcpy(ret->bytes + 8, a->nonce, sizeof(a->nonce));
}

void sch__answer_pack(const struct sch_answer *a, struct mu_buf *out)
{
	Mu__AnswerRow row = MU__ANSWER_ROW__INIT;
	SCH_SET(&row, birth_usec, a->birth_usec);
	row.has_nonce = true;
	row.nonce.data = (uint8_t *)a->nonce;
	row.nonce.len = sizeof(a->nonce);
	SCH_SET(&row, code, a->code);
	SCH_SET(&row, job, a->job);
	SCH_SET(&row, pos, a->pos);
	row.text = a->text ? a->text->text : NULL;
	mu_pb_pack(&row.base, out);
}

void sch__cluster_pack(const struct sch_state *st, struct mu_buf *out)
{
	Mu__ClusterRow row = *st->cluster;
	SCH_SET(&row, level, row.level);
	SCH_SET(&row, next_job_id, row.next_job_id);
	SCH_SET(&row, now_usec, row.now_usec);
	SCH_SET(&row, last_tick_usec, row.last_tick_usec);
	SCH_SET(&row, leader, row.leader);
	SCH_SET(&row, leader_since_usec, row.leader_since_usec);
	SCH_SET(&row, pass, row.pass);
	SCH_SET(&row, cursor, row.cursor);
	SCH_SET(&row, voided, row.voided);
	SCH_SET(&row, starts_void, row.starts_void);
	SCH_SET(&row, entries, row.entries);
	SCH_SET(&row, heard_usec, row.heard_usec);
	SCH_SET(&row, answer_floor_usec, row.answer_floor_usec);
	SCH_SET(&row, cursor_tier, row.cursor_tier);
	SCH_SET(&row, cursor_priority, row.cursor_priority);
	SCH_SET(&row, cursor_part, row.cursor_part);
	SCH_SET(&row, probe, row.probe);
	SCH_SET(&row, next_assoc_id, row.next_assoc_id);
	SCH_SET(&row, next_qos_id, row.next_qos_id);
	SCH_SET(&row, next_resv_id, row.next_resv_id);
	SCH_SET(&row, priority_usec, row.priority_usec);
	SCH_SET(&row, limits_usec, row.limits_usec);
	SCH_SET(&row, priority_cursor, row.priority_cursor);
	SCH_SET(&row, jobs_submitted, row.jobs_submitted);
	SCH_SET(&row, jobs_started, row.jobs_started);
	SCH_SET(&row, jobs_completed, row.jobs_completed);
	SCH_SET(&row, jobs_failed, row.jobs_failed);
	SCH_SET(&row, jobs_cancelled, row.jobs_cancelled);
	row.has_cluster_id = row.cluster_id.len > 0;
	row.has_public_key = row.public_key.len > 0;
	mu_pb_pack(&row.base, out);
}

/* CPU ids as "0-3,8", in ARENA. */
static char *cpu_list(const struct mu_bits *b, struct mu_arena *arena)
{
	size_t len = mu_bits_print(b, NULL, 0);
	char *text = mu_arena_alloc(arena, len + 1);
	mu_bits_print(b, text, len + 1);
	return text;
}

static Mu__GresHave *gres_row(const Mu__GresHave *have, const struct sch_gres_room *room,
			      struct mu_arena *arena)
{
	Mu__GresHave *row = mu_arena_dup(arena, have, sizeof(*have));
	SCH_SET(row, count, have->count);
	SCH_SET(row, used, room->count);
	SCH_SET(row, first_index, have->first_index);
	row->n_used_index = mu_bits_count(&room->used);
	row->used_index = mu_arena_alloc(arena, row->n_used_index * sizeof(uint32_t));
	size_t n = 0;
	for (uint32_t u = mu_bits_next(&room->used, 0); u != UINT32_MAX; u = mu_bits_next(&room->used, u + 1))
		row->used_index[n++] = u;
	return row;
}

Mu__NodeRow *sch__node_row(const struct sch_node *n, struct mu_arena *arena)
{
	Mu__NodeRow *row = mu_arena_dup(arena, n->row, sizeof(*n->row));
	SCH_SET(row, order, n->order);
	SCH_SET(row, base_state, row->base_state);
	SCH_SET(row, flags, row->flags);
	SCH_SET(row, heard_usec, row->heard_usec);
	SCH_SET(row, alloc_cpus, n->room.cpus);
	SCH_SET(row, alloc_mem_mib, n->room.mem_mib);
	SCH_SET(row, exclusive, n->room.exclusive);
	SCH_SET(row, registered_pos, row->registered_pos);
	SCH_SET(row, load_centi, row->load_centi);
	SCH_SET(row, free_mem_mib, row->free_mem_mib);
	SCH_SET(row, last_busy_usec, row->last_busy_usec);
	SCH_SET(row, reason_uid, row->reason_uid);
	SCH_SET(row, reason_usec, row->reason_usec);
	row->alloc_cpu_list = n->room.cpus ? cpu_list(&n->room.cpu, arena) : NULL;
	row->gres = mu_arena_alloc(arena, (row->n_gres + 1) * sizeof(row->gres[0]));
	for (size_t i = 0; i < row->n_gres; i++)
		row->gres[i] = gres_row(n->row->gres[i], &n->room.gres[i], arena);
	row->job = mu_arena_alloc(arena, (n->hold_count + 1) * sizeof(row->job[0]));
	row->n_job = 0;
	for (uint32_t i = 0; i < n->hold_count; i++)
		if (!row->n_job || row->job[row->n_job - 1] != n->hold[i].job->id)
			row->job[row->n_job++] = n->hold[i].job->id;
	return row;
}

void sch__rec_pack(const struct sch_state *st, const struct sch_rec *rec, struct mu_buf *out)
{
	switch (rec->kind) {
	case SCH_ROW_CONFIG:
		mu_pb_pack(&st->config.row->base, out);
		break;
	case SCH_ROW_PARTITION:
		mu_pb_pack(&((const struct sch_part *)rec)->row->base, out);
		break;
	case SCH_ROW_NODE: {
		struct mu_arena arena = {0};
		mu_pb_pack(&sch__node_row((const struct sch_node *)rec, &arena)->base, out);
		mu_arena_free(&arena);
		break;
	}
	case SCH_ROW_JOB:
		sch__job_pack((const struct sch_job *)rec, out);
		break;
	case SCH_ROW_STEP:
		mu_buf_add(out, ((const struct sch_step *)rec)->bytes, ((const struct sch_step *)rec)->len);
		break;
	case SCH_ROW_ARRAY:
		sch__array_pack((const struct sch_array *)rec, out);
		break;
	case SCH_ROW_RESERVATION:
		mu_pb_pack(&((const struct sch_resv *)rec)->row->base, out);
		break;
	case SCH_ROW_ACCOUNT:
	case SCH_ROW_USER:
	case SCH_ROW_ASSOC:
	case SCH_ROW_QOS:
		sch__accounts_rec_pack(st, rec, out);
		break;
	default:
		assert(rec->kind == SCH_ROW_NODE_KEY);
		mu_pb_pack(&((const struct sch_key_rec *)rec)->row->base, out);
		break;
	}
}

void sch__rec_free(struct sch_state *st, struct sch_rec *rec)
{
	switch (rec->kind) {
	case SCH_ROW_PARTITION: {
		struct sch_part *p = (struct sch_part *)rec;
		mu_map_clear(&p->queue);
		mu_map_clear(&p->unsettled);
		mu_bits_free(&p->nodes);
		mu__partition_row__free_unpacked(p->row, NULL);
		sch__free(st, p, sizeof(*p));
		break;
	}
	case SCH_ROW_NODE:
		sch__node_free(st, (struct sch_node *)rec);
		break;
	case SCH_ROW_JOB:
		sch__job_free(st, (struct sch_job *)rec);
		break;
	case SCH_ROW_STEP:
		sch__free(st, rec, sizeof(struct sch_step) + ((struct sch_step *)rec)->len);
		break;
	case SCH_ROW_ARRAY:
		sch__array_free(st, (struct sch_array *)rec);
		break;
	case SCH_ROW_RESERVATION:
		sch__resv_free(st, (struct sch_resv *)rec);
		break;
	case SCH_ROW_ACCOUNT:
	case SCH_ROW_USER:
	case SCH_ROW_ASSOC:
	case SCH_ROW_QOS:
		sch__accounts_rec_free(st, rec);
		break;
	default:
		assert(rec->kind == SCH_ROW_NODE_KEY);
		mu__node_key_row__free_unpacked(((struct sch_key_rec *)rec)->row, NULL);
		sch__free(st, rec, sizeof(struct sch_key_rec));
		break;
	}
}

/* The record that KEY names; NULL when State has none. Answers and the cluster's row are no records. */
struct sch_rec *sch__rec_find(struct sch_state *st, const struct sch_key *key)
{
	switch (key->kind) {
	case SCH_ROW_CONFIG:
		return st->config.rec.counted && !key->len ? &st->config.rec : NULL;
	case SCH_ROW_PARTITION:
		return mu_map_get(&st->part_by_name, key->bytes, key->len);
	case SCH_ROW_NODE:
		return mu_map_get(&st->node_by_name, key->bytes, key->len);
	case SCH_ROW_JOB:
		return key->len == 4 ? mu_map_get_u64(&st->jobs, mu_get_be32(key->bytes)) : NULL;
	case SCH_ROW_ARRAY:
		return key->len == 4 ? mu_map_get_u64(&st->arrays, mu_get_be32(key->bytes)) : NULL;
	case SCH_ROW_STEP:
		return mu_map_get(&st->steps, key->bytes, key->len);
	case SCH_ROW_NODE_KEY:
		return mu_map_get(&st->node_key, key->bytes, key->len);
	case SCH_ROW_RESERVATION:
		return mu_map_get(&st->resvs, key->bytes, key->len);
	default:
		return sch__accounts_rec_find(st, key);
	}
}

int sch_row_pack(const struct sch_state *st, const struct sch_key *key, struct mu_buf *out)
{
	if (key->kind == SCH_ROW_CLUSTER && !key->len) {
		sch__cluster_pack(st, out);
		return 0;
	}
	if (key->kind == SCH_ROW_ANSWER) {
		const struct sch_answer *a = mu_map_get(&st->answers, key->bytes, key->len);
		if (!a)
			return MU_ENOENT;
		sch__answer_pack(a, out);
		return 0;
	}
	const struct sch_rec *rec = sch__rec_find((struct sch_state *)st, key); /* Only read here. */
	if (!rec)
		return MU_ENOENT;
	sch__rec_pack(st, rec, out);
	return 0;
}

static int walk_answers(const struct sch_state *st, struct mu_buf *buf, sch_row_sink sink, void *arg)
{
	const uint8_t *k = NULL;
	size_t len = 0;
	int rc = 0;
	for (void *v = mu_map_seek(&st->answers, NULL, 0, 0, &k, &len); v && !rc;
	     v = mu_map_seek(&st->answers, k, len, 1, &k, &len)) {
		struct sch_key key;
		sch__answer_key(v, &key);
		mu_buf_reset(buf);
		sch__answer_pack(v, buf);
		rc = sink(arg, &key, buf->data, buf->len);
	}
	return rc;
}

static int walk_map(const struct sch_state *st, const struct mu_map *map, struct mu_buf *buf,
		    sch_row_sink sink, void *arg)
{
	const uint8_t *k = NULL;
	size_t len = 0;
	int rc = 0;
	for (void *v = mu_map_seek(map, NULL, 0, 0, &k, &len); v && !rc;
	     v = mu_map_seek(map, k, len, 1, &k, &len)) {
		struct sch_key key;
		sch__rec_key(v, &key);
		mu_buf_reset(buf);
		sch__rec_pack(st, v, buf);
		rc = sink(arg, &key, buf->data, buf->len);
	}
	return rc;
}

static int walk_kind(const struct sch_state *st, uint8_t kind, struct mu_buf *buf, sch_row_sink sink,
		     void *arg)
{
	struct sch_key key = {.kind = kind};
	const struct mu_map *maps[SCH_ROW_KINDS] = {[SCH_ROW_PARTITION] = &st->part_by_name,
						    [SCH_ROW_NODE] = &st->node_by_name,
						    [SCH_ROW_JOB] = &st->jobs,
						    [SCH_ROW_STEP] = &st->steps,
						    [SCH_ROW_NODE_KEY] = &st->node_key,
						    [SCH_ROW_ACCOUNT] = &st->accounts.account,
						    [SCH_ROW_USER] = &st->accounts.user,
						    [SCH_ROW_ASSOC] = &st->accounts.assoc,
						    [SCH_ROW_QOS] = &st->accounts.qos,
						    [SCH_ROW_ARRAY] = &st->arrays,
						    [SCH_ROW_RESERVATION] = &st->resvs};
	if (kind == SCH_ROW_ANSWER)
		return walk_answers(st, buf, sink, arg);
	if (kind != SCH_ROW_CLUSTER && kind != SCH_ROW_CONFIG)
		return !maps[kind] ? 0 : walk_map(st, maps[kind], buf, sink, arg);
	if (kind == SCH_ROW_CONFIG && !st->config.rec.counted)
		return 0;
	mu_buf_reset(buf);
	sch_row_pack(st, &key, buf);
	return sink(arg, &key, buf->data, buf->len);
}

int sch_rows(const struct sch_state *st, uint8_t kind, sch_row_sink sink, void *arg)
{
	struct mu_buf buf = {0};
	int rc = 0;
	for (uint8_t k = kind ? kind : SCH_ROW_CLUSTER; k < SCH_ROW_KINDS && !rc; k++) {
		rc = walk_kind(st, k, &buf, sink, arg);
		if (kind)
			break;
	}
	mu_buf_free(&buf);
	return rc;
}
