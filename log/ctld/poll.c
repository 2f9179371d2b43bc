/* ctld/poll.c: nodes' long polls (which are also their heartbeats) and clients that wait for a job.
 * Owns: who waits, which nodes' orders may have changed, who was heard since the last summary. */
#include "log/ctld/ctld.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/diag.h"
#include "proto/base/bits.h"
#include "proto/base/map.h"
#include "proto/pb.h"
#include "proto/states.h"

enum {
	WAIT_UNKNOWN_MSEC = 2000,
	POLL_SLICE = 256, /* polls looked at in one go: a few milliseconds; the rest has its turn 20 ms later at the latest */
	BEATS_MAX = 512	  /* loads and memories in one summary: each rewrites a node's row on every replica */
};

struct ctl_heard {
	uint32_t load_centi;
	uint64_t free_mem_mib;
	bool has_beat;
};

/* ---- heartbeats ---- */
static void heard(struct ctl *c, const char *node, const Mu__NodeBeat *beat)
{
	struct ctl_heard *h = mu_map_get_str(&c->heard, node);

	if (!h) {
		h = calloc(1, sizeof *h);
		if (!h)
			abort();
		mu_map_put_str(&c->heard, node, h);
	}
	if (beat) {
		h->load_centi = beat->load_centi;
		h->free_mem_mib = beat->free_mem_mib;
		h->has_beat = true;
	}
}

void ctl_heard_from_peer(struct ctl *c, struct mu_view bytes)
{
	struct mu_arena arena = {0};
	Mu__NodesHeard *m = (Mu__NodesHeard *)mu_pb_unpack(&mu__nodes_heard__descriptor, bytes.data, bytes.len, &arena);

	for (size_t i = 0; m && i < m->n_beat; i++)
		if (m->beat[i]->node && sch_node(c->st, m->beat[i]->node))
			heard(c, m->beat[i]->node, m->beat[i]->has_load_centi ? m->beat[i] : NULL);
	mu_arena_free(&arena);
}

static void heard_clear(struct ctl *c)
{
	struct ctl_heard *h;
	const uint8_t *key;
	size_t len;

	for (h = mu_map_seek(&c->heard, NULL, 0, 0, &key, &len); h; h = mu_map_seek(&c->heard, key, len, 1, &key, &len))
		free(h);
	mu_map_clear(&c->heard);
}

static Mu__NodeBeat *beat_of(struct mu_arena *arena, const char *node, const struct ctl_heard *h)
{
	Mu__NodeBeat *b = mu_arena_alloc(arena, sizeof *b);

	mu__node_beat__init(b);
	b->node = (char *)node;
	b->has_load_centi = b->has_free_mem_mib = h->has_beat;
	b->load_centi = h->load_centi;
	b->free_mem_mib = h->free_mem_mib;
	return b;
}

static void tell_leader(struct ctl *c)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf out = {0};
	struct mu_arena arena = {0};
	Mu__NodesHeard m = MU__NODES_HEARD__INIT;
	struct ctl_heard *h;
	const uint8_t *key;
	size_t len;

	m.beat = mu_arena_alloc(&arena, c->heard.count * sizeof *m.beat);
	for (h = mu_map_seek(&c->heard, NULL, 0, 0, &key, &len); h; h = mu_map_seek(&c->heard, key, len, 1, &key, &len)) {
		char *name = mu_arena_alloc(&arena, len + 1);

		memcpy(name, key, len);
		m.beat[m.n_beat++] = beat_of(&arena, name, h);
	}
	mu_pb_pack(&m.base, &out);
	if (!log_replica_send(c->replica, c->leader, CTL_PEER_HEARD, (struct mu_view){out.data, out.len}))
		heard_clear(c);
	mu_arena_free(&arena);
}

static bool noticeable(const Mu__NodeRow *row, const struct ctl_heard *h)
{
	uint32_t dl = h->load_centi > row->load_centi ? h->load_centi - row->load_centi : row->load_centi - h->load_centi;
	uint64_t dm = h->free_mem_mib > row->free_mem_mib ? h->free_mem_mib - row->free_mem_mib : row->free_mem_mib - h->free_mem_mib;

	return h->has_beat && (dl >= 50 || dm * 20 > row->free_mem_mib);
}

/* More than one summary may carry: every so-manieth, others at another turn. What is left out is noticed again. */
static void thin_beats(struct ctl *c, Mu__NodesHeard *m)
{
	size_t every = (m->n_beat + BEATS_MAX - 1) / BEATS_MAX, kept = 0;

	if (every < 2)
		return;
	for (size_t i = c->beat_turn % every; i < m->n_beat; i += every)
		m->beat[kept++] = m->beat[i];
	m->n_beat = kept;
}

/* The leader's summary: at most one an interval. */
static void log_heard(struct ctl *c)
{
	struct mu_arena arena = {0};
	struct mu_bits bits = {0};
	Mu__Author author = MU__AUTHOR__INIT;
	Mu__Event event = MU__EVENT__INIT;
	Mu__NodesHeard m = MU__NODES_HEARD__INIT;
	struct ctl_heard *h;
	const uint8_t *key;
	size_t len;
	uint32_t top = 0;

	m.beat = mu_arena_alloc(&arena, (c->heard.count + 1) * sizeof *m.beat);
	c->beat_turn++;
	for (h = mu_map_seek(&c->heard, NULL, 0, 0, &key, &len); h; h = mu_map_seek(&c->heard, key, len, 1, &key, &len)) {
		char *name = mu_arena_alloc(&arena, len + 1);
		const Mu__NodeRow *row;

		memcpy(name, key, len);
		row = sch_node(c->st, name);
		if (!row)
			continue;
		mu_bits_set(&bits, row->order);
		if (row->order >= top)
			top = row->order + 1;
		if (noticeable(row, h))
			m.beat[m.n_beat++] = beat_of(&arena, name, h);
	}
	heard_clear(c);
	thin_beats(c, &m);
	if (top) {
		m.heard.len = (top + 7) / 8;
		m.heard.data = mu_arena_alloc(&arena, m.heard.len);
		m.has_heard = 1;
		for (uint32_t i = mu_bits_next(&bits, 0); i != UINT32_MAX; i = mu_bits_next(&bits, i + 1))
			m.heard.data[i / 8] |= (uint8_t)(1u << (i % 8));
		author.verifier = "controller";
		event.author = &author;
		event.kind_case = MU__EVENT__KIND_NODES_HEARD;
		event.nodes_heard = &m;
		ctl_propose_event(c, &event, NULL);
	}
	mu_bits_free(&bits);
	mu_arena_free(&arena);
}

static int64_t beat_msec(const struct ctl *c)
{
	const Mu__Config *conf = sch_config(c->st);
	int64_t sec = conf && conf->heartbeat_sec ? conf->heartbeat_sec : 10;
	int64_t third = conf && conf->slurmd_timeout_sec ? conf->slurmd_timeout_sec * 1000 / 3 : 100000;

	return sec * 1000 < third ? sec * 1000 : third;
}

/* ---- polls ---- */
static void poll_answer(struct ctl *c, struct ctl_poll *p, const Mu__OrderSet *set, int code)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf body = {0};
	Mu__Reply reply = MU__REPLY__INIT;

	reply.has_code = 1;
	reply.code = code;
	if (set) {
		reply.answer_case = MU__REPLY__ANSWER_ORDERS;
		reply.orders = (Mu__OrderSet *)set;
	}
	mu_pb_pack(&reply.base, &body);
	ctl_reply(c, p->call, &p->who, (struct mu_view){body.data, body.len});
	free(p->node);
	free(p);
	atomic_fetch_sub(&c->requests, 1);
}

/* Answers P when its orders differ from what it holds, or when MUST; true when answered. */
static bool poll_try(struct ctl *c, struct ctl_poll *p, bool must)
{
	struct mu_arena arena = {0};
	Mu__OrderSet *set = NULL, none = MU__ORDER_SET__INIT;
	bool done = true;

	if (sch_orders(c->st, p->node, &arena, &set)) {
		poll_answer(c, p, NULL, MU_ENODENAME);
	} else if (!p->has_base || set->digest.len != MU_HASH_BYTES || memcmp(set->digest.data, p->base_digest, MU_HASH_BYTES)) {
		poll_answer(c, p, set, 0);
	} else if (must) {
		none.has_unchanged = none.unchanged = 1;
		none.has_pos = 1;
		none.pos = sch_pos(c->st);
		none.has_config_hash = set->has_config_hash;
		none.config_hash = set->config_hash;
		poll_answer(c, p, &none, 0);
	} else {
		done = false;
	}
	mu_arena_free(&arena);
	return done;
}

static bool must_register(const Mu__NodeRow *row, const Mu__PollAsk *ask)
{
	if (row->boot_id.len != ask->boot_id.len || memcmp(row->boot_id.data, ask->boot_id.data, row->boot_id.len))
		return true;
	if (row->agent_start_usec != ask->agent_start_usec)
		return true;
	return row->base_state == NODE_UNKNOWN || (row->flags & NODE_FLAG_NO_RESPOND);
}

/* With the orders as they are: a node that returns ends what is not in them before it registers, and says which it had seen. */
static void answer_register(struct ctl *c, struct ctl_req *req, const char *node)
{
	struct mu_arena arena = {0};
	Mu__Reply reply = MU__REPLY__INIT;
	Mu__OrderSet *set = NULL;

	if (sch_orders(c->st, node, &arena, &set)) {
		ctl_req_fail(c, req, MU_ENODENAME, NULL);
	} else {
		set->has_register_ = set->register_ = 1;
		reply.answer_case = MU__REPLY__ANSWER_ORDERS;
		reply.orders = set;
		ctl_req_answer(c, req, &reply);
	}
	mu_arena_free(&arena);
}

void ctl_poll_add(struct ctl *c, struct ctl_req *req)
{
	const Mu__PollAsk *ask = req->request->poll;
	const Mu__NodeRow *row = ask->node ? sch_node(c->st, ask->node) : NULL;
	struct ctl_poll *p;

	if (!req->call || !ask->node || !req->author->node || strcmp(req->author->node, ask->node)) {
		ctl_req_fail(c, req, MU_EPERM, "A node polls only for itself.");
		return;
	}
	if (!row || !sch_founded(c->st)) {
		ctl_req_fail(c, req, sch_founded(c->st) ? MU_ENODENAME : MU_ENOTREADY, NULL);
		return;
	}
	if (must_register(row, ask)) {
		answer_register(c, req, ask->node);
		return;
	}
	heard(c, ask->node, ask->beat);
	p = calloc(1, sizeof *p);
	if (!p)
		abort();
	p->call = req->call;
	req->call = NULL;
	p->who = req->who;
	p->node = strdup(ask->node);
	p->has_base = ask->base_digest.len == MU_HASH_BYTES;
	if (p->has_base)
		memcpy(p->base_digest, ask->base_digest.data, MU_HASH_BYTES);
	int64_t wait = ask->wait_msec > CTL_POLL_MSEC_MAX ? CTL_POLL_MSEC_MAX : ask->wait_msec;
	if (wait > beat_msec(c))
		wait = beat_msec(c);
	p->deadline_msec = ctl_mono_msec() + wait;
	atomic_fetch_add(&c->requests, 1); /* the poll's own */
	ctl_req_free(c, req);
	if (poll_try(c, p, wait == 0))
		return;
	p->next = mu_map_get_str(&c->polls, p->node);
	mu_map_put_str(&c->polls, p->node, p);
	mu_put_be64(p->due_key, (uint64_t)p->deadline_msec);
	mu_put_be64(p->due_key + 8, c->poll_serial++);
	mu_map_put(&c->polls_due, p->due_key, sizeof p->due_key, p);
}

static void mark(struct ctl *c, const char *node)
{
	mu_map_put_str(&c->dirty_nodes, node, c);
}

/* From the first one on, also where a walk over all is under way: those behind it may have changed since. */
static void all_dirty(struct ctl *c)
{
	c->all_nodes_dirty = true;
	c->dirty_from[0] = 0;
}

void ctl_poll_changes(struct ctl *c, const struct sch_changes *changes)
{
	for (size_t i = 0; i < changes->count; i++) {
		const struct sch_key *k = &changes->v[i].key;

		if (k->kind == SCH_ROW_NODE) {
			mu_map_put(&c->dirty_nodes, k->bytes, k->len, c);
		} else if (k->kind == SCH_ROW_CONFIG) {
			all_dirty(c);
		} else if (k->kind == SCH_ROW_JOB && k->len == 4 && !changes->v[i].gone) {
			const char *names[256];
			size_t n = sch_job_nodes(c->st, mu_get_be32(k->bytes), names, 256);

			if (n > 256)
				all_dirty(c);
			for (size_t j = 0; j < n && j < 256; j++)
				mark(c, names[j]);
		}
	}
}

/* ---- waiting for a job ---- */
/* The row that answers for a job; for an array one that has not ended, as long as there is one. */
static const Mu__JobRow *waited_for(struct ctl *c, uint32_t id)
{
	const Mu__JobRow *job = sch_array_job(c->st, id);

	return job ? job : sch_job(c->st, id);
}

static bool wait_over(struct ctl *c, const struct ctl_wait *w)
{
	struct sch_array_counts array;

	if (sch_array_counts(c->st, w->job, &array)) /* Asked often: its rows are looked at only for the answer. */
		return !(array.waiting + array.active) || (w->until == 2 && array.waiting < array.tasks);
	const Mu__JobRow *job = sch_job(c->st, w->job);
	if (!job)
		return w->job < sch_cluster(c->st)->next_job_id || ctl_mono_msec() >= w->unknown_msec;
	if (mu_job_state_ended(job->state))
		return true;
	if (w->until == 3)
		return job->state == w->state;
	return w->until == 2 && job->state != JOB_PENDING && job->state != JOB_CONFIGURING;
}

static void wait_answer(struct ctl *c, struct ctl_wait *w)
{
	const Mu__JobRow *job = waited_for(c, w->job);
	Mu__Reply reply = MU__REPLY__INIT;
	Mu__JobRow copy;

	if (job && !w->req->author->operator_ && job->uid != w->req->author->uid) {
		ctl_req_fail(c, w->req, MU_EPERM, NULL);
		free(w);
		return;
	}
	reply.has_code = 1;
	reply.code = job ? 0 : MU_EJOBID;
	if (job) {
		copy = *job;
		copy.has_job_key = copy.has_job_key && w->want_key && job->uid == w->req->author->uid;
		reply.answer_case = MU__REPLY__ANSWER_JOB_ROW;
		reply.job_row = &copy;
	}
	reply.has_pos = 1;
	reply.pos = sch_pos(c->st);
	ctl_req_answer(c, w->req, &reply);
	free(w);
}

void ctl_wait_add(struct ctl *c, struct ctl_req *req)
{
	const Mu__WaitAsk *ask = req->request->wait;
	const Mu__JobRow *job = waited_for(c, ask->job);
	struct ctl_wait *w;

	if (!sch_founded(c->st)) {
		ctl_req_fail(c, req, MU_ENOTREADY, NULL);
		return;
	}
	if (job && !req->author->operator_ && job->uid != req->author->uid) {
		ctl_req_fail(c, req, MU_EPERM, NULL);
		return;
	}
	w = calloc(1, sizeof *w);
	if (!w)
		abort();
	w->req = req;
	w->job = ask->job;
	w->until = ask->until;
	w->state = ask->state;
	w->want_key = ask->want_key;
	w->unknown_msec = ctl_mono_msec() + WAIT_UNKNOWN_MSEC;
	w->deadline_msec = ctl_mono_msec() + (ask->wait_msec > CTL_POLL_MSEC_MAX ? CTL_POLL_MSEC_MAX : ask->wait_msec);
	w->next = c->waits;
	c->waits = w;
}

/* ---- after a round, and every 20 ms ---- */
/* Tries every poll of one node; those that are answered leave the list. MUST_NOW: those whose time is over are answered anyway. */
static void wake_node(struct ctl *c, const char *name, bool must_now)
{
	struct ctl_poll *p = mu_map_get_str(&c->polls, name), *kept = NULL, **tail = &kept;
	int64_t now = must_now ? ctl_mono_msec() : 0;

	if (!p)
		return;
	while (p) {
		struct ctl_poll *next = p->next;
		uint8_t due_key[sizeof p->due_key];

		memcpy(due_key, p->due_key, sizeof due_key);
		if (poll_try(c, p, must_now && now >= p->deadline_msec)) {
			(void)mu_map_del(&c->polls_due, due_key, sizeof due_key);
		} else {
			*tail = p;
			tail = &p->next;
		}
		p = next;
	}
	*tail = NULL;
	if (kept)
		mu_map_put_str(&c->polls, name, kept);
	else
		(void)mu_map_del_str(&c->polls, name);
}

/* The next key behind NAME as text. */
static bool next_name(const struct mu_map *map, const char *after, char name[SCH_KEY_MAX + 1])
{
	const uint8_t *key;
	size_t len;

	if (!mu_map_seek(map, after, strlen(after), 1, &key, &len) || len > SCH_KEY_MAX)
		return false;
	memcpy(name, key, len);
	name[len] = 0;
	return true;
}

static void wake_dirty(struct ctl *c, unsigned budget)
{
	char name[SCH_KEY_MAX + 1] = "";

	while (budget-- && next_name(&c->dirty_nodes, "", name)) {
		(void)mu_map_del_str(&c->dirty_nodes, name);
		wake_node(c, name, false);
	}
}

static void wake_all(struct ctl *c, unsigned budget)
{
	while (budget--) {
		if (!next_name(&c->polls, c->dirty_from, c->dirty_from)) {
			c->all_nodes_dirty = false;
			c->dirty_from[0] = 0;
			return;
		}
		wake_node(c, c->dirty_from, false);
	}
}

static void wake_due(struct ctl *c, unsigned budget)
{
	int64_t now = ctl_mono_msec();

	while (budget--) {
		const uint8_t *key;
		size_t len;
		struct ctl_poll *p = mu_map_seek(&c->polls_due, NULL, 0, 0, &key, &len);
		char name[SCH_KEY_MAX + 1];

		if (!p || p->deadline_msec > now)
			return;
		(void)snprintf(name, sizeof name, "%s", p->node);
		wake_node(c, name, true);
	}
}

static void sweep_waits(struct ctl *c)
{
	struct ctl_wait **at = &c->waits;
	int64_t now = ctl_mono_msec();

	while (*at) {
		struct ctl_wait *w = *at, *next = w->next;

		if (now >= w->deadline_msec || wait_over(c, w)) {
			*at = next;
			wait_answer(c, w);
		} else {
			at = &w->next;
		}
	}
}

void ctl_poll_wake(struct ctl *c)
{
	if (!c->all_nodes_dirty && !c->dirty_nodes.count)
		return;
	wake_dirty(c, POLL_SLICE);
	if (c->all_nodes_dirty)
		wake_all(c, POLL_SLICE);
	if (c->waits)
		sweep_waits(c);
}

void ctl_poll_housekeeping(struct ctl *c)
{
	int64_t now = ctl_mono_msec();

	wake_due(c, POLL_SLICE);
	if (c->waits)
		sweep_waits(c);
	if (!c->heard.count)
		return;
	if (c->role == LOG_LEADER && c->leader_ready && now - c->heard_logged_msec >= beat_msec(c)) {
		c->heard_logged_msec = now;
		log_heard(c);
	} else if (c->role != LOG_LEADER && c->leader && now - c->heard_sent_msec >= beat_msec(c) / 3) {
		c->heard_sent_msec = now;
		tell_leader(c);
	}
}
