/* query/moment.c: the index of lives: when a job's, a node's or a reservation's state changed, and what people did to the
 * cluster. Written with each entry's rows, read by why, --history and audit.
 *
 *   'J' be32 job, be64 pos -> i64 usec, JobRow of a few fields
 *   'N' node NUL, be64 pos -> i64 usec, NodeRow of a few fields
 *   'V' reservation NUL, be64 pos -> i64 usec, ReservationRow; nothing more: it went
 *   'X' be64 usec, be64 pos, be32 part -> Moment of a few fields
 *   'Z' be64 pos, be32 part -> Moment of a code and its sentence: a request that changed nothing
 *
 * A record is the new face of the row where it differs from the face before, so folding an entry again writes
 * the same. What brought it about stands in the entry itself and is looked up when somebody asks. */
#include "query/answer.h"

#include <stdlib.h>

#include "proto/pb.h"
#include "proto/states.h"

enum { /* fields of rows and events, see proto/rows.proto, proto/event.proto, proto/why.proto */
       NODE_BASE = 30,
       NODE_FLAGS = 31,
       JOB_SUBMIT_POS = 71,
       RESV_IDLE = 23,
       ANSWER_NONCE = 2,
       ANSWER_CODE = 3,
       ANSWER_TEXT = 5,
       EVENT_AUTHOR = 1,
       EVENT_REQUEST = 2,
       REQUEST_NONCE = 2,
       AUTHOR_UID = 1,
       AUTHOR_USER = 3,
       AUTHOR_HOST = 6,
       AUTHOR_VERIFIER = 7,
       AUTHOR_NODE = 8,
       AUTHOR_OPERATOR = 9,
       MOMENT_EVENT = 10,
       MOMENT_USER = 12,
       MOMENT_UID = 13,
       MOMENT_CODE = 17,
       MOMENT_TEXT = 18,
       JOB_KEY_BYTES = 1 + 4 + 8,
       ACT_KEY_BYTES = 1 + 8 + 8 + 4,
       REFUSAL_KEY_BYTES = 1 + 8 + 4,
};

/* ---- faces ---- */

static bool among(uint32_t number, const uint32_t *list, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (list[i] == number)
			return true;
	return false;
}

static void face_of(struct mu_view row, const uint32_t *list, size_t count, struct mu_buf *out)
{
	struct pick f;

	while (pick_next(&row, &f))
		if (among(f.number, list, count))
			mu_buf_add(out, f.begin, (size_t)(f.end - f.begin));
}

/* uid, state, reason, detail, attempt, restarts, partition, limit, plan, nodes, end, signal, what befell it.
 */
static void job_face(struct mu_view row, struct mu_buf *out)
{
	static const uint32_t list[] = {3,  8,	9,  10, 13, 14, 20, 23, 46, 51, 60, 61,
					64, 65, 66, 67, 68, 69, 70, 81, 82, 92, 94};

	face_of(row, list, sizeof list / sizeof *list, out);
}

/* What jobs do to a node is no change of its own. */
static void node_face(struct mu_view row, struct mu_buf *out)
{
	static const uint32_t list[] = {NODE_BASE, 32, 33, 34, 35, 47};
	uint32_t flags = (uint32_t)pick_number(row, NODE_FLAGS);

	face_of(row, list, sizeof list / sizeof *list, out);
	pick_put_number(out, NODE_FLAGS, flags & ~(uint32_t)(NODE_FLAG_COMPLETING | NODE_FLAG_PLANNED));
}

static bool same(const struct mu_buf *a, const struct mu_buf *b)
{
	return a->len == b->len && (a->len == 0 || memcmp(a->data, b->data, a->len) == 0);
}

static void put(struct view_batch *b, const uint8_t *key, size_t len, const struct view_entry *entry,
		const struct mu_buf *face)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf value = {0};

	mu_put_be64(mu_buf_grow(&value, 8), (uint64_t)entry->time_usec);
	if (face->len)
		mu_buf_add(&value, face->data, face->len);
	view__put(b->v, b->wb, VIEW_INDEX, key, len, value.data, value.len);
}

/* ---- writing ---- */

static int job_moment(struct view_batch *b, const struct view_entry *entry, const struct view_row *row,
		      struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf hold = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf was = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf is = {0};
	struct mu_view before = {0};
	uint8_t key[JOB_KEY_BYTES] = {'J'};
	/* A job that came with this entry has no row before; most rows of a busy cluster are such. */
	int found = pick_number(row->row, JOB_SUBMIT_POS) == entry->pos
			? 0
			: view__row(b, SCH_ROW_JOB, row->key.bytes, row->key.len, &hold, &before, err);

	if (found < 0 || row->key.len != 4)
		return found < 0 ? found : 0;
	job_face(row->row, &is);
	if (found)
		job_face(before, &was);
	if (found && same(&was, &is))
		return 0;
	memcpy(key + 1, row->key.bytes, 4);
	mu_put_be64(key + 5, entry->pos);
	put(b, key, sizeof key, entry, &is);
	return 0;
}

static size_t name_key(uint8_t *out, uint8_t kind, const void *name, size_t len, uint64_t pos)
{
	out[0] = kind;
	memcpy(out + 1, name, len);
	out[1 + len] = 0;
	mu_put_be64(out + 2 + len, pos);
	return 2 + len + 8;
}

/* The faces of nodes are kept in memory: their rows change with every start and end of a job. */
static int node_moment(struct view_batch *b, const struct view_entry *entry, const struct view_row *row,
		       struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf hold = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf was = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf is = {0};
	uint8_t key[VIEW_KEY_MAX + 16];
	struct mu_map *faces = &b->line->node_faces;
	struct mu_hash hash;

	node_face(row->row, &is);
	mu_hash_bytes(is.data, is.len, &hash);
	void *mark = (void *)(uintptr_t)(mu_get_be64(hash.b) | 1),
	     *old = mu_map_get(faces, row->key.bytes, row->key.len);
	if (old == mark)
		return 0;
	mu_map_put(faces, row->key.bytes, row->key.len, mark);
	if (!entry->header.data)
		return 0;
	if (!old) {
		struct mu_view before = {0};
		int found = view__row(b, SCH_ROW_NODE, row->key.bytes, row->key.len, &hold, &before, err);
		if (found < 0)
			return found;
		if (found)
			node_face(before, &was);
		if (found && same(&was, &is))
			return 0;
	}
	put(b, key, name_key(key, 'N', row->key.bytes, row->key.len, entry->pos), entry, &is);
	return 0;
}

/* Since when it is idle is no change of its own; whoever integrates wants the rest whole. */
static void resv_face(struct mu_view row, struct mu_buf *out)
{
	struct pick f;

	while (pick_next(&row, &f))
		if (f.number != RESV_IDLE)
			mu_buf_add(out, f.begin, (size_t)(f.end - f.begin));
}

static int resv_moment(struct view_batch *b, const struct view_entry *entry, const struct view_row *row,
		       struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf hold = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf was = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf is = {0};
	struct mu_view before = {0};
	uint8_t key[VIEW_KEY_MAX + 16];
	int found = view__row(b, SCH_ROW_RESERVATION, row->key.bytes, row->key.len, &hold, &before, err);

	if (found < 0)
		return found;
	if (found)
		resv_face(before, &was);
	if (!row->gone)
		resv_face(row->row, &is);
	if (found && same(&was, &is))
		return 0;
	put(b, key, name_key(key, 'V', row->key.bytes, row->key.len, entry->pos), entry, &is);
	return 0;
}

/* One event as its encoding shows it. */
struct face {
	uint32_t kind; /* tag of its body */
	struct mu_view author, request, body;
};

static void event_face(struct mu_view event, struct face *ret)
{
	struct pick f;

	*ret = (struct face){0};
	while (pick_next(&event, &f)) {
		if (f.type != 2)
			continue;
		if (f.number == EVENT_AUTHOR)
			ret->author = f.bytes;
		else if (f.number == EVENT_REQUEST)
			ret->request = f.bytes;
		else {
			ret->kind = f.number;
			ret->body = f.bytes;
		}
	}
}

/* What people do to the cluster: configuration, nodes, partitions, accounts; and to jobs as operators. */
static bool is_act(const struct face *e)
{
	bool by_node = pick_bytes(e->author, AUTHOR_NODE).len > 0;
	bool by_operator = pick_number(e->author, AUTHOR_OPERATOR) != 0;

	if (by_node || pick_equals(pick_bytes(e->author, AUTHOR_VERIFIER), "controller"))
		return false;
	return e->kind == 11 || (e->kind >= 50 && e->kind <= 59) ||
	       (e->kind >= 31 && e->kind <= 39 && by_operator);
}

/* The answer that the entry's rows keep for a request. */
static struct mu_view answer_to(const struct view_entry *entry, struct mu_view nonce)
{
	for (size_t i = 0; nonce.len && i < entry->row_count; i++) {
		const struct view_row *row = &entry->rows[i];
		struct mu_view n = {0};
		if (row->key.kind == SCH_ROW_ANSWER && !row->gone)
			n = pick_bytes(row->row, ANSWER_NONCE);
		if (n.len == nonce.len && memcmp(n.data, nonce.data, n.len) == 0)
			return row->row;
	}
	return (struct mu_view){0};
}

static void put_refusal(struct mu_buf *out, struct mu_view answer, int32_t code)
{
	pick_put_number(out, MOMENT_CODE, ((uint32_t)code << 1) ^ (uint32_t)(code >> 31)); /* sint32 */
	pick_put_bytes(out, MOMENT_TEXT, pick_bytes(answer, ANSWER_TEXT));
}

static void act(struct view_batch *b, const struct view_entry *entry, uint32_t part)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf value = {0};
	uint8_t key[ACT_KEY_BYTES] = {'X'};
	struct face e;

	event_face(entry->parts[part].bytes, &e);
	if (!is_act(&e))
		return;
	struct mu_view answer = answer_to(entry, pick_bytes(e.request, REQUEST_NONCE));
	uint64_t code = pick_number(answer, ANSWER_CODE);
	int32_t number = (int32_t)code;
	pick_put_number(&value, MOMENT_EVENT, e.kind);
	pick_put_bytes(&value, MOMENT_USER, pick_bytes(e.author, AUTHOR_USER));
	pick_put_number(&value, MOMENT_UID, pick_number(e.author, AUTHOR_UID));
	if (number)
		put_refusal(&value, answer, number);
	mu_put_be64(key + 1, (uint64_t)entry->time_usec);
	mu_put_be64(key + 9, entry->pos);
	mu_put_be32(key + 17, part);
	view__put(b->v, b->wb, VIEW_INDEX, key, sizeof key, value.data, value.len);
}

/* Notes the event whose request got ANSWER, which refuses it. */
static void refusal(struct view_batch *b, const struct view_entry *entry, struct mu_view answer)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf value = {0};
	struct mu_view nonce = pick_bytes(answer, ANSWER_NONCE);
	uint8_t key[REFUSAL_KEY_BYTES] = {'Z'};

	put_refusal(&value, answer, (int32_t)pick_number(answer, ANSWER_CODE));
	mu_put_be64(key + 1, entry->pos);
	for (size_t i = 0; nonce.len && i < entry->part_count; i++) {
		struct face e = {0};

		if (entry->parts[i].kind == VIEW_PART_EVENT)
			event_face(entry->parts[i].bytes, &e);
		struct mu_view own = pick_bytes(e.request, REQUEST_NONCE);
		if (own.len != nonce.len || memcmp(own.data, nonce.data, own.len) != 0)
			continue;
		mu_put_be32(key + 9, (uint32_t)i);
		view__put(b->v, b->wb, VIEW_INDEX, key, sizeof key, value.data, value.len);
	}
}

int view_refusals(struct view *v, uint64_t from, uint64_t to, view_refusal_fn fn, void *arg, struct mu_err *err)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	uint8_t low[9] = {'Z'}, high[9] = {'Z'};

	mu_put_be64(low + 1, from);
	mu_put_be64(high + 1, to + 1);
	view__scan(v, NULL, VIEW_INDEX, (struct mu_view){low, sizeof low}, (struct mu_view){high, sizeof high}, &scan);
	for (; view__scan_valid(&scan); view__scan_next(&scan)) {
		struct mu_view key = view__scan_key(&scan), value = view__scan_value(&scan);
		uint32_t code = (uint32_t)pick_number(value, MOMENT_CODE);

		if (key.len == REFUSAL_KEY_BYTES)
			fn(arg, mu_get_be64(key.data + 1), mu_get_be32(key.data + 9),
			   (int32_t)(code >> 1) ^ -(int32_t)(code & 1), pick_bytes(value, MOMENT_TEXT));
	}
	return view__scan_end(&scan, "reading what was refused", err);
}

int view__moments(struct view_batch *b, const struct view_entry *entry, struct mu_err *err)
{
	int code = 0;

	for (size_t i = 0; i < entry->row_count && code == 0; i++) {
		const struct view_row *row = &entry->rows[i];
		if (row->key.kind == SCH_ROW_RESERVATION && entry->header.data)
			code = resv_moment(b, entry, row, err);
		if (row->gone)
			continue;
		/* Where a whole State came, filling in tells how its jobs came to be what they are. */
		if (row->key.kind == SCH_ROW_JOB && entry->header.data)
			code = job_moment(b, entry, row, err);
		else if (row->key.kind == SCH_ROW_NODE)
			code = node_moment(b, entry, row, err);
		else if (row->key.kind == SCH_ROW_ANSWER && pick_number(row->row, ANSWER_CODE))
			refusal(b, entry, row->row);
	}
	for (size_t i = 0; i < entry->part_count && code == 0; i++)
		if (entry->parts[i].kind == VIEW_PART_EVENT)
			act(b, entry, (uint32_t)i);
	return code;
}

/* ---- what brought it about ---- */

static bool names_number(struct mu_view body, uint32_t field, uint32_t value)
{
	struct pick f;

	while (pick_next(&body, &f))
		if (f.number == field && f.type == 0 && f.value == value)
			return true;
	return false;
}

static bool names_text(struct mu_view body, uint32_t field, const char *value)
{
	struct pick f;

	while (pick_next(&body, &f))
		if (f.number == field && f.type == 2 && pick_equals(f.bytes, value))
			return true;
	return false;
}

/* Has a Decided an item for the job, or gave it the node up? Fields 7 to 11, each with the job or node first.
 */
static bool decided_names(struct mu_view body, uint32_t job, const char *node)
{
	struct pick f;

	while (pick_next(&body, &f)) {
		if (f.type != 2 || f.number < 7 || f.number > 11)
			continue;
		if (f.number == 11 ? node && names_text(f.bytes, 1, node)
				   : job && names_number(f.bytes, 1, job))
			return true;
	}
	return false;
}

/* 2: the event names it; 1: it may well have been this; 0: no. */
static int fits(const struct face *e, uint32_t job, const char *node, uint32_t uid, bool first)
{
	switch (e->kind) {
	case 30:
		return job && first && pick_number(e->author, AUTHOR_UID) == uid ? 2 : 0;
	case 31:
	case 32:
	case 33:
	case 34:
	case 61:
		return job && names_number(e->body, 1, job) ? 2 : 0;
	case 51:
		return node && names_text(pick_bytes(e->body, 1), 1, node) ? 2 : 1;
	case 53:
	case 54:
		return node && names_text(e->body, 1, node) ? 2 : 1;
	case 60:
		return (job && names_number(e->body, 1, job)) || (node && names_text(e->body, 3, node)) ? 2
													: 1;
	case 70:
		/* A task of an array gets its row as it starts: the decision names the row in which it
		 * waited. */
		return decided_names(e->body, job, node) ? 2 : job && first;
	default:
		return 1;
	}
}

static char *text_of(struct mu_arena *arena, struct mu_view bytes)
{
	char *text = mu_arena_alloc(arena, bytes.len + 1);

	if (!bytes.len)
		return NULL;
	memcpy(text, bytes.data, bytes.len);
	return text;
}

static void author(Mu__Moment *m, const struct face *e, uint32_t part, struct mu_arena *arena)
{
	m->has_event = m->has_part = m->has_uid = 1;
	m->event = e->kind;
	m->part = part;
	m->uid = (uint32_t)pick_number(e->author, AUTHOR_UID);
	m->user = text_of(arena, pick_bytes(e->author, AUTHOR_USER));
	m->host = text_of(arena, pick_bytes(e->author, AUTHOR_NODE).len ? pick_bytes(e->author, AUTHOR_NODE)
									: pick_bytes(e->author, AUTHOR_HOST));
	m->verifier = text_of(arena, pick_bytes(e->author, AUTHOR_VERIFIER));
	if (e->kind == 70) {
		m->has_pass = 1;
		m->pass = pick_number(e->body, 2);
	}
}

int answer_cause(struct answer *a, Mu__Moment *m, uint32_t job, const char *node, bool first)
{
	MU_CLEANUP(view__archived_done) struct view_archived entry = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf part = {0};
	int best = 0, code = view__archived(a->source.v, m->pos, &entry, a->err);

	if (code)
		return code == MU_ENOENT ? 0 : code;
	for (uint32_t n = 0; n < entry.parts && best < 2; n++) {
		struct face e;
		uint8_t kind;
		if (entry.leaf[(size_t)n * VIEW_LEAF_BYTES] != VIEW_PART_EVENT)
			continue;
		mu_buf_reset(&part);
		if (view__archived_part(a->source.v, &entry, n, &kind, &part, NULL))
			continue;
		event_face((struct mu_view){part.data, part.len}, &e);
		int fit = fits(&e, job, node, m->job ? m->job->uid : 0, first);
		if (fit > best) {
			best = fit;
			author(m, &e, n, a->arena);
		}
	}
	return 0;
}

/* ---- reading ---- */

static Mu__Moment *moment_new(struct answer *a, uint64_t pos, int64_t usec)
{
	Mu__Moment *m = mu_arena_alloc(a->arena, sizeof *m);

	mu__moment__init(m);
	m->has_pos = m->has_time_usec = 1;
	m->pos = pos;
	m->time_usec = usec;
	return m;
}

int answer_life(struct answer *a, uint32_t job, const char *node, uint64_t after, size_t max,
		Mu__Moment ***ret, size_t *ret_count)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	uint8_t from[VIEW_KEY_MAX + 16] = {'J'}, to[VIEW_KEY_MAX + 16];
	size_t len = JOB_KEY_BYTES, n = 0, cap = 16;
	Mu__Moment **v = mu_arena_alloc(a->arena, cap * sizeof *v);

	if (node && strlen(node) > SCH_KEY_MAX - 1)
		return MU_ENOENT;
	if (node) {
		len = name_key(from, 'N', node, strlen(node), after + 1);
	} else {
		mu_put_be32(from + 1, job);
		mu_put_be64(from + 5, after + 1);
	}
	memcpy(to, from, len - 8);
	view__scan(a->source.v, a->source.snapshot, VIEW_INDEX, (struct mu_view){from, len},
		   (struct mu_view){to, view__after_prefix(to, len - 8)}, &scan);
	for (; view__scan_valid(&scan) && n < max; view__scan_next(&scan)) {
		struct mu_view key = view__scan_key(&scan), value = view__scan_value(&scan);
		uint64_t pos = key.len == len ? mu_get_be64(key.data + len - 8) : 0;
		if (pos > a->source.pos)
			break;
		if (!pos || value.len < 8)
			continue;
		Mu__Moment *m = moment_new(a, pos, (int64_t)mu_get_be64(value.data));
		const ProtobufCMessageDescriptor *type =
		    node ? &mu__node_row__descriptor : &mu__job_row__descriptor;
		void *face = mu_pb_unpack(type, value.data + 8, value.len - 8, a->arena);
		if (node)
			m->node = face;
		else
			m->job = face;
		if (n == cap) {
			Mu__Moment **more = mu_arena_alloc(a->arena, 2 * cap * sizeof *more);
			memcpy(more, v, n * sizeof *v);
			v = more;
			cap *= 2;
		}
		v[n++] = m;
	}
	*ret = v;
	*ret_count = n;
	return view__scan_end(&scan, "reading a life", a->err);
}

static int add_message(struct answer *a, const ProtobufCMessage *m, const void *key, size_t key_len)
{
	size_t len = protobuf_c_message_get_packed_size(m);
	uint8_t *room = answer_room(a, len);

	if (!room)
		return ANSWER_FULL;
	protobuf_c_message_pack(m, room);
	answer_add(a, room, len, key, key_len);
	return 0;
}

enum { LIFE_PAGE = 2000 };

/* One life behind position AFTER; page keys are be32 index of what was asked for, be64 pos. */
static int add_life(struct answer *a, uint32_t index, uint32_t job, const char *node, uint64_t after)
{
	Mu__Moment **v;
	size_t count;
	uint8_t key[12];
	int code;

	do {
		code = answer_life(a, job, node, after, LIFE_PAGE, &v, &count);
		for (size_t i = 0; i < count && code == 0; i++) {
			if (v[i]->job && !answer_may_see(a, v[i]->job->uid))
				return 0;
			code = answer_cause(a, v[i], job, node, after == 0 && i == 0);
			mu_put_be32(key, index);
			mu_put_be64(key + 4, v[i]->pos);
			if (code == 0)
				code = add_message(a, &v[i]->base, key, sizeof key);
			after = v[i]->pos;
		}
	} while (code == 0 && count == LIFE_PAGE);
	return code;
}

int answer_resv_lives(struct answer *a, size_t max, answer_resv_sink sink, void *arg)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	uint8_t from[1] = {'V'}, to[1] = {'V' + 1};
	int code = 0;

	view__scan(a->source.v, a->source.snapshot, VIEW_INDEX, (struct mu_view){from, 1}, (struct mu_view){to, 1}, &scan);
	for (; view__scan_valid(&scan) && code == 0; view__scan_next(&scan)) {
		struct mu_view key = view__scan_key(&scan), value = view__scan_value(&scan);
		if (key.len < 1 + 1 + 8 || value.len < 8 || mu_get_be64(key.data + key.len - 8) > a->source.pos)
			continue;
		if (max-- == 0)
			return mu_fail(a->err, MU_ELIMIT, "the archive tells of too many changes of reservations");
		code = sink(arg, (const char *)key.data + 1, (int64_t)mu_get_be64(value.data),
			    (struct mu_view){value.data + 8, value.len - 8});
	}
	return code ? code : view__scan_end(&scan, "reading the lives of reservations", a->err);
}

int answer_moments(struct answer *a)
{
	const Mu__Query *q = a->query;
	uint32_t index = 0, from = 0;
	uint64_t after = 0;
	const uint8_t *key = NULL;
	size_t len = 0;
	int code = 0;

	if (q->after_key.len == 12) {
		from = mu_get_be32(q->after_key.data);
		after = mu_get_be64(q->after_key.data + 4);
	}
	for (size_t i = 0; i < q->n_job && code == 0; i++, index++)
		if (index >= from)
			code = add_life(a, index, q->job[i], NULL, index == from ? after : 0);
	if (answer_hides(a, VIEW_PRIVATE_NODES | VIEW_PRIVATE_EVENTS))
		return code;
	while (code == 0 && mu_map_seek(&a->nodes, key, len, key != NULL, &key, &len)) {
		char *name = mu_arena_alloc(a->arena, len + 1);
		memcpy(name, key, len);
		if (index >= from)
			code = add_life(a, index, 0, name, index == from ? after : 0);
		index++;
	}
	return code;
}

/* ---- acts ---- */

/* The event itself, whole, for those who want to know what was done. */
static int act_event(struct answer *a, Mu__Moment *m)
{
	MU_CLEANUP(view__archived_done) struct view_archived entry = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf part = {0};
	struct face e;
	uint8_t kind;
	int code = view__archived(a->source.v, m->pos, &entry, a->err);

	if (code == 0 && m->part < entry.parts)
		code = view__archived_part(a->source.v, &entry, m->part, &kind, &part, a->err);
	if (code)
		return code == MU_ENOENT ? 0 : code;
	event_face((struct mu_view){part.data, part.len}, &e);
	author(m, &e, m->part, a->arena);
	m->has_body = 1;
	m->body = (ProtobufCBinaryData){part.len, mu_arena_dup(a->arena, part.data, part.len)};
	return 0;
}

static bool wants_act(const struct answer *a, const Mu__Moment *m)
{
	const Mu__Query *q = a->query;
	bool yes = q->n_uid == 0 && q->n_user == 0;

	for (size_t i = 0; i < q->n_uid && !yes; i++)
		yes = q->uid[i] == m->uid;
	for (size_t i = 0; i < q->n_user && !yes; i++)
		yes = m->user && strcmp(q->user[i], m->user) == 0;
	return yes;
}

int answer_acts(struct answer *a)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	const Mu__Query *q = a->query;
	uint8_t from[ACT_KEY_BYTES] = {'X'}, to[9] = {'X'};
	int code = 0;

	if (!a->caller->operator)
		return mu_fail(a->err, MU_EPERM, "what was done to the cluster is shown to operators only");
	mu_put_be64(from + 1, q->from_usec > 0 ? (uint64_t)q->from_usec : 0);
	mu_put_be64(to + 1, q->to_usec > 0 ? (uint64_t)q->to_usec + 1 : UINT64_MAX);
	struct mu_view first = {from, sizeof from};
	if (q->after_key.len == sizeof from)
		first = (struct mu_view){q->after_key.data, q->after_key.len};
	view__scan(a->source.v, a->source.snapshot, VIEW_INDEX, first, (struct mu_view){to, sizeof to},
		   &scan);
	for (; code == 0 && view__scan_valid(&scan); view__scan_next(&scan)) {
		struct mu_view key = view__scan_key(&scan), value = view__scan_value(&scan);
		if (key.len != ACT_KEY_BYTES || mu_get_be64(key.data + 9) > a->source.pos ||
		    (q->after_key.len == key.len && memcmp(q->after_key.data, key.data, key.len) == 0))
			continue;
		Mu__Moment *m =
		    (Mu__Moment *)mu_pb_unpack(&mu__moment__descriptor, value.data, value.len, a->arena);
		if (!m || !wants_act(a, m))
			continue;
		m->has_pos = m->has_time_usec = m->has_part = 1;
		m->time_usec = (int64_t)mu_get_be64(key.data + 1);
		m->pos = mu_get_be64(key.data + 9);
		m->part = mu_get_be32(key.data + 17);
		code = act_event(a, m);
		if (code == 0)
			code = add_message(a, &m->base, key.data, key.len);
	}
	return code ? code : view__scan_end(&scan, "reading what was done", a->err);
}
