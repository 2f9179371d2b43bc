/* tests/log/sim_io.c: see sim_io.h. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/log/sim_io.h"

enum sim_op_kind { OP_APPEND, OP_TRUNCATE, OP_INSTALL, OP_SNAPSHOT };

struct sim_op {
	struct sim_op *next;
	enum sim_op_kind kind;
	raft_index index; /* of the first entry, or to cut from */
	struct sim_entry *entry;
	unsigned count, trailing;
	struct sim_snapshot *snapshot;
	void *req;
};

struct sim_message {
	struct raft_message m;
	struct sim_entry *entry;
	struct sim_snapshot *snapshot;
	unsigned from, to, to_incarnation;
};

enum sim_event_kind { EV_TICK, EV_DISK, EV_SENT, EV_MESSAGE, EV_GET, EV_SNAPSHOT, EV_WORK, EV_CALL };

struct sim_event {
	raft_time at;
	uint64_t born;
	enum sim_event_kind kind;
	unsigned server, incarnation;
	void *what;
	void (*fn)(void *arg);
	int status;
};

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

static void *copy(const void *p, size_t len)
{
	void *q = must(malloc(len ? len : 1));
	if (len)
		memcpy(q, p, len);
	return q;
}

unsigned sim_random(struct sim *w, unsigned below)
{
	return below ? mu_seed_below(&w->seed, below) : 0;
}

/* ---- the heap of events ---- */

static bool before(const struct sim_event *a, const struct sim_event *b)
{
	return a->at < b->at || (a->at == b->at && a->born < b->born);
}

static void put(struct sim *w, struct sim_event e)
{
	if (w->events == w->event_cap) {
		w->event_cap = w->event_cap ? 2 * w->event_cap : 256;
		w->event = must(realloc(w->event, w->event_cap * sizeof *w->event));
	}
	e.born = ++w->born;
	e.incarnation = w->server[e.server].incarnation;
	size_t i = w->events++;
	for (; i && before(&e, &w->event[(i - 1) / 2]); i = (i - 1) / 2)
		w->event[i] = w->event[(i - 1) / 2];
	w->event[i] = e;
}

static void put_in(struct sim_server *s, raft_time delay, enum sim_event_kind kind, void *what, int status)
{
	put(s->sim, (struct sim_event){.at = s->sim->now + delay,
				       .kind = kind,
				       .server = s->number,
				       .what = what,
				       .status = status});
}

static struct sim_event get(struct sim *w)
{
	struct sim_event top = w->event[0], last = w->event[--w->events];
	size_t i = 0;
	for (size_t c = 1; c < w->events; c = 2 * i + 1) {
		if (c + 1 < w->events && before(&w->event[c + 1], &w->event[c]))
			c++;
		if (!before(&w->event[c], &last))
			break;
		w->event[i] = w->event[c];
		i = c;
	}
	if (w->events)
		w->event[i] = last;
	return top;
}

void sim_after(struct sim *w, unsigned number, raft_time delay, void (*fn)(void *arg), void *arg)
{
	put(w, (struct sim_event){
		   .at = w->now + delay, .kind = EV_CALL, .server = number, .what = arg, .fn = fn});
}

/* ---- copies between the core's memory and ours ---- */

static void copy_conf(const struct raft_configuration *from, struct raft_configuration *to)
{
	raft_configuration_init(to);
	for (unsigned i = 0; i < from->n; i++)
		raft_configuration_add(to, from->servers[i].id, from->servers[i].address,
				       from->servers[i].role);
}

static struct sim_entry *entries_in(const struct raft_entry *e, unsigned n)
{
	struct sim_entry *x = must(calloc(n ? n : 1, sizeof *x));
	for (unsigned i = 0; i < n; i++)
		x[i] =
		    (struct sim_entry){e[i].term, e[i].type, e[i].buf.len, copy(e[i].buf.base, e[i].buf.len)};
	return x;
}

/* One batch, as the core expects from the network and from load. */
static void entries_out(const struct sim_entry *x, size_t n, struct raft_entry **ret)
{
	size_t len = 0;
	*ret = NULL;
	if (!n)
		return;
	for (size_t i = 0; i < n; i++)
		len += x[i].len;
	uint8_t *batch = must(raft_malloc(len ? len : 1)), *p = batch;
	struct raft_entry *e = must(raft_malloc(n * sizeof *e));
	for (size_t i = 0; i < n; i++) {
		e[i] = (struct raft_entry){
		    .term = x[i].term, .type = x[i].type, .buf = {p, x[i].len}, .batch = batch};
		memcpy(p, x[i].data, x[i].len);
		p += x[i].len;
	}
	*ret = e;
}

static struct sim_snapshot *snapshot_in(const struct raft_snapshot *from)
{
	struct sim_snapshot *s = must(calloc(1, sizeof *s));
	*s = (struct sim_snapshot){
	    .index = from->index, .term = from->term, .conf_index = from->configuration_index};
	copy_conf(&from->configuration, &s->conf);
	assert(from->n_bufs == 1);
	s->len = from->bufs[0].len;
	s->data = copy(from->bufs[0].base, s->len);
	return s;
}

static struct raft_snapshot *snapshot_out(const struct sim_snapshot *s)
{
	struct raft_snapshot *x = must(raft_calloc(1, sizeof *x));
	x->index = s->index;
	x->term = s->term;
	x->configuration_index = s->conf_index;
	copy_conf(&s->conf, &x->configuration);
	x->bufs = must(raft_malloc(sizeof *x->bufs));
	x->n_bufs = 1;
	x->bufs[0].len = s->len;
	x->bufs[0].base = must(raft_malloc(s->len));
	memcpy(x->bufs[0].base, s->data, s->len);
	return x;
}

/* ---- the disk ---- */

static void disk_append(struct sim_server *s, const struct sim_op *o)
{
	struct sim_disk *d = &s->disk;
	if (d->count + o->count > d->cap) {
		d->cap = 2 * (d->count + o->count) + 16;
		d->entry = must(realloc(d->entry, d->cap * sizeof *d->entry));
	}
	if (d->count == 0)
		d->first = o->index;
	if (o->index != d->first + d->count) {
		s->sim->log_hole = true;
		return;
	}
	memcpy(d->entry + d->count, o->entry, o->count * sizeof *d->entry);
	d->count += o->count;
}

static void disk_snapshot(struct sim_disk *d, const struct sim_op *o)
{
	d->snapshot = o->snapshot;
	if (o->kind == OP_INSTALL) {
		d->count = 0;
		d->first = o->snapshot->index + 1;
		return;
	}
	if (o->snapshot->index <= o->trailing)
		return;
	raft_index keep = o->snapshot->index - o->trailing + 1;
	if (keep <= d->first)
		return;
	size_t gone = (size_t)(keep - d->first);
	if (gone > d->count)
		gone = d->count;
	memmove(d->entry, d->entry + gone, (d->count - gone) * sizeof *d->entry);
	d->count -= gone;
	d->first += gone;
}

static void disk_do(struct sim_server *s, const struct sim_op *o)
{
	struct sim_disk *d = &s->disk;
	switch (o->kind) {
	case OP_APPEND:
		disk_append(s, o);
		break;
	case OP_TRUNCATE:
		if (o->index < d->first)
			d->count = 0;
		else if (o->index < d->first + d->count)
			d->count = (size_t)(o->index - d->first);
		break;
	case OP_INSTALL:
	case OP_SNAPSHOT:
		disk_snapshot(d, o);
		break;
	}
}

static raft_time disk_delay(struct sim_server *s)
{
	return 1 + sim_random(s->sim, 2 * s->disk_msec);
}

static void enqueue(struct sim_server *s, struct sim_op *o)
{
	o->next = NULL;
	if (s->queue)
		s->queue_last->next = o;
	else {
		s->queue = o;
		put_in(s, disk_delay(s), EV_DISK, NULL, 0);
	}
	s->queue_last = o;
}

static struct sim_op *op_new(enum sim_op_kind kind)
{
	struct sim_op *o = must(calloc(1, sizeof *o));
	o->kind = kind;
	return o;
}

/* Index of the next entry once everything queued is done. */
static raft_index next_index(const struct sim_server *s)
{
	const struct sim_disk *d = &s->disk;
	raft_index next = d->count ? d->first + d->count : d->snapshot ? d->snapshot->index + 1 : 1;
	for (const struct sim_op *o = s->queue; o; o = o->next) {
		if (o->kind == OP_APPEND)
			next = o->index + o->count;
		else if (o->kind == OP_TRUNCATE && o->index < next)
			next = o->index;
		else if (o->kind == OP_INSTALL)
			next = o->snapshot->index + 1;
	}
	return next;
}

/* ---- raft_io ---- */

static struct sim_server *server_of(struct raft_io *io)
{
	return io->impl;
}

static int io_init(struct raft_io *io, raft_id id, const char *address)
{
	(void)io;
	(void)id;
	(void)address;
	return 0;
}

static void io_close(struct raft_io *io, raft_io_close_cb cb)
{
	if (cb)
		cb(io);
}

static int io_load(struct raft_io *io, raft_term *term, raft_id *vote, struct raft_snapshot **snapshot,
		   raft_index *start, struct raft_entry **entries, size_t *n)
{
	struct sim_disk *d = &server_of(io)->disk;
	*term = d->term;
	*vote = d->vote;
	*snapshot = NULL;
	*start = 1;
	if (d->snapshot) {
		*snapshot = snapshot_out(d->snapshot);
		if (d->count && d->first + d->count - 1 < d->snapshot->index)
			d->count = 0; /* as raft_uv treats a log that ends before the snapshot */
		if (!d->count)
			d->first = d->snapshot->index + 1;
		*start = d->first;
	} else if (d->count) {
		*start = d->first;
	}
	*n = d->count;
	entries_out(d->entry, d->count, entries);
	return 0;
}

static int io_start(struct raft_io *io, unsigned msecs, raft_io_tick_cb tick, raft_io_recv_cb recv)
{
	struct sim_server *s = server_of(io);
	s->tick = tick;
	s->recv = recv;
	s->tick_msec = msecs;
	put_in(s, 1 + sim_random(s->sim, msecs), EV_TICK, NULL, 0);
	return 0;
}

static int io_bootstrap(struct raft_io *io, const struct raft_configuration *conf)
{
	struct sim_disk *d = &server_of(io)->disk;
	struct raft_buffer b;
	if (d->count || d->snapshot)
		return RAFT_CANTBOOTSTRAP;
	raft_configuration_encode(conf, &b);
	d->cap = 16;
	d->entry = must(calloc(d->cap, sizeof *d->entry));
	d->entry[0] = (struct sim_entry){1, RAFT_CHANGE, b.len, copy(b.base, b.len)};
	raft_free(b.base);
	d->count = 1;
	d->first = 1;
	d->term = 1;
	return 0;
}

static int io_recover(struct raft_io *io, const struct raft_configuration *conf)
{
	(void)io;
	(void)conf;
	return RAFT_IOERR;
}

static int io_set_term(struct raft_io *io, raft_term term)
{
	struct sim_server *s = server_of(io);
	if (s->disk_broken)
		return RAFT_IOERR;
	s->disk.term = term;
	s->disk.vote = 0;
	return 0;
}

static int io_set_vote(struct raft_io *io, raft_id vote)
{
	struct sim_server *s = server_of(io);
	if (s->disk_broken)
		return RAFT_IOERR;
	s->disk.vote = vote;
	return 0;
}

static int io_append(struct raft_io *io, struct raft_io_append *req, const struct raft_entry *entries,
		     unsigned n, raft_io_append_cb cb)
{
	struct sim_server *s = server_of(io);
	if (s->disk_broken)
		return RAFT_IOERR;
	struct sim_op *o = op_new(OP_APPEND);
	o->entry = entries_in(entries, n);
	o->count = n;
	o->index = next_index(s);
	o->req = req;
	req->cb = cb;
	enqueue(s, o);
	return 0;
}

static int io_truncate(struct raft_io *io, raft_index index)
{
	struct sim_server *s = server_of(io);
	if (s->disk_broken)
		return RAFT_IOERR;
	struct sim_op *o = op_new(OP_TRUNCATE);
	o->index = index;
	enqueue(s, o);
	return 0;
}

static int io_put(struct raft_io *io, unsigned trailing, struct raft_io_snapshot_put *req,
		  const struct raft_snapshot *snapshot, raft_io_snapshot_put_cb cb)
{
	struct sim_server *s = server_of(io);
	struct sim_op *o = op_new(trailing ? OP_SNAPSHOT : OP_INSTALL);
	o->snapshot = snapshot_in(snapshot);
	o->trailing = trailing;
	o->req = req;
	req->cb = cb;
	if (trailing)
		put_in(s, 3 * disk_delay(s), EV_SNAPSHOT, o, 0);
	else
		enqueue(s, o);
	return 0;
}

static int io_get(struct raft_io *io, struct raft_io_snapshot_get *req, raft_io_snapshot_get_cb cb)
{
	struct sim_server *s = server_of(io);
	req->cb = cb;
	put_in(s, disk_delay(s), EV_GET, req, 0);
	return 0;
}

static raft_time io_time(struct raft_io *io)
{
	return server_of(io)->sim->now;
}

static int io_random(struct raft_io *io, int min, int max)
{
	return min + (int)sim_random(server_of(io)->sim, (unsigned)(max - min));
}

static int io_work(struct raft_io *io, struct raft_io_async_work *req, raft_io_async_work_cb cb)
{
	struct sim_server *s = server_of(io);
	req->cb = cb;
	put_in(s, 1 + sim_random(s->sim, 100), EV_WORK, req, 0);
	return 0;
}

/* ---- the network ---- */

static void post(struct sim *w, struct sim_message *x)
{
	raft_time at = w->now + 1 + sim_random(w, 2 * w->server[x->from].net_msec);
	raft_time *free_at = &w->link_free[x->from][x->to];
	if (sim_random(w, 1000) < 4)
		at += sim_random(w, 3000);
	if (!w->reorder || sim_random(w, 4)) {
		if (at <= *free_at)
			at = *free_at;
		*free_at = at;
	}
	put(w, (struct sim_event){.at = at, .kind = EV_MESSAGE, .server = x->to, .what = x});
}

static int io_send(struct raft_io *io, struct raft_io_send *req, const struct raft_message *m,
		   raft_io_send_cb cb)
{
	struct sim_server *s = server_of(io);
	struct sim *w = s->sim;
	volatile size_t touch = strlen(m->server_address); /* a network layer copies it */
	(void)touch;
	req->cb = cb;
	if (m->server_id < 1 || m->server_id > w->count) {
		put_in(s, 1, EV_SENT, req, RAFT_NOCONNECTION);
		return 0;
	}
	unsigned to = (unsigned)m->server_id - 1;
	bool down = w->cut[s->number][to] || !w->server[to].up;
	put_in(s, down ? sim_random(w, 1500) : sim_random(w, 4), EV_SENT, req,
	       down && sim_random(w, 2) ? RAFT_NOCONNECTION : 0);
	if (down || sim_random(w, 1000) < w->loss_1000)
		return 0;
	struct sim_message *x = must(calloc(1, sizeof *x));
	*x = (struct sim_message){
	    .m = *m, .from = s->number, .to = to, .to_incarnation = w->server[to].incarnation};
	if (m->type == RAFT_IO_APPEND_ENTRIES)
		x->entry = entries_in(m->append_entries.entries, m->append_entries.n_entries);
	if (m->type == RAFT_IO_INSTALL_SNAPSHOT) {
		struct raft_buffer data = m->install_snapshot.data;
		struct raft_snapshot y = {
		    .configuration = m->install_snapshot.conf, .bufs = &data, .n_bufs = 1};
		x->snapshot = snapshot_in(&y);
	}
	post(w, x);
	if (sim_random(w, 1000) < w->repeat_1000)
		post(w, copy(x, sizeof *x));
	return 0;
}

static void print_message(const struct sim *w, const struct sim_message *x)
{
	static const char *const name[] = {"", "append", "appended", "vote?", "vote", "install", "stand"};
	const struct raft_message *m = &x->m;
	printf("%8llu   s%u<-s%u %s ", w->now, x->to, x->from, name[m->type]);
	if (m->type == RAFT_IO_APPEND_ENTRIES)
		printf("t%llu prev %llu/%llu n %u commit %llu", m->append_entries.term,
		       m->append_entries.prev_log_index, m->append_entries.prev_log_term,
		       m->append_entries.n_entries, m->append_entries.leader_commit);
	if (m->type == RAFT_IO_APPEND_ENTRIES_RESULT)
		printf("t%llu rejected %llu last %llu", m->append_entries_result.term,
		       m->append_entries_result.rejected, m->append_entries_result.last_log_index);
	if (m->type == RAFT_IO_REQUEST_VOTE)
		printf("t%llu last %llu/%llu pre %d disrupt %d", m->request_vote.term,
		       m->request_vote.last_log_index, m->request_vote.last_log_term,
		       m->request_vote.pre_vote, m->request_vote.disrupt_leader);
	if (m->type == RAFT_IO_REQUEST_VOTE_RESULT)
		printf("t%llu granted %d", m->request_vote_result.term, m->request_vote_result.vote_granted);
	if (m->type == RAFT_IO_INSTALL_SNAPSHOT)
		printf("t%llu last %llu/%llu", m->install_snapshot.term, m->install_snapshot.last_index,
		       m->install_snapshot.last_term);
	putchar('\n');
}

static int deliver(struct sim *w, struct sim_message *x)
{
	struct sim_server *s = &w->server[x->to];
	struct raft_message m = x->m;
	if (!s->up || w->cut[x->from][x->to] || (!w->reorder && x->to_incarnation != s->incarnation))
		return -1;
	m.server_id = x->from + 1;
	m.server_address = w->server[x->from].address;
	if (m.type == RAFT_IO_APPEND_ENTRIES)
		entries_out(x->entry, m.append_entries.n_entries, &m.append_entries.entries);
	if (m.type == RAFT_IO_INSTALL_SNAPSHOT) {
		copy_conf(&x->snapshot->conf, &m.install_snapshot.conf);
		m.install_snapshot.data.len = x->snapshot->len;
		m.install_snapshot.data.base = must(raft_malloc(x->snapshot->len));
		memcpy(m.install_snapshot.data.base, x->snapshot->data, x->snapshot->len);
	}
	if (w->trace > 1)
		print_message(w, x);
	s->recv(s->io, &m);
	return (int)s->number;
}

/* ---- time ---- */

static void disk_event(struct sim_server *s)
{
	struct sim *w = s->sim;
	struct sim_op *o = s->queue;
	int status = 0;
	s->queue = o->next;
	if (s->fail_1000 && o->kind != OP_TRUNCATE && sim_random(w, 1000) < s->fail_1000) {
		status = sim_random(w, 2) ? RAFT_NOSPACE : RAFT_IOERR;
		s->disk_broken = true;
	}
	if (s->disk_broken && !status)
		status = RAFT_IOERR;
	if (!status)
		disk_do(s, o);
	if (s->queue)
		put_in(s, disk_delay(s), EV_DISK, NULL, 0);
	if (o->kind == OP_APPEND)
		((struct raft_io_append *)o->req)->cb(o->req, status);
	else if (o->kind == OP_INSTALL)
		((struct raft_io_snapshot_put *)o->req)->cb(o->req, status);
}

static void happen(struct sim_server *s, const struct sim_event *e)
{
	struct sim_op *o = e->what;
	switch (e->kind) {
	case EV_TICK:
		put_in(s, s->tick_msec, EV_TICK, NULL, 0);
		s->tick(s->io);
		break;
	case EV_SENT: {
		struct raft_io_send *q = e->what;
		if (q->cb)
			q->cb(q, e->status);
		break;
	}
	case EV_DISK:
		disk_event(s);
		break;
	case EV_SNAPSHOT:
		if (!s->disk_broken)
			disk_do(s, o);
		((struct raft_io_snapshot_put *)o->req)->cb(o->req, s->disk_broken ? RAFT_IOERR : 0);
		break;
	case EV_GET: {
		struct raft_io_snapshot_get *q = e->what;
		struct sim_snapshot *have = s->disk.snapshot;
		q->cb(q, have ? snapshot_out(have) : NULL, have ? 0 : RAFT_NOTFOUND);
		break;
	}
	case EV_WORK: {
		struct raft_io_async_work *q = e->what;
		q->cb(q, q->work(q));
		break;
	}
	case EV_CALL:
		e->fn(e->what);
		break;
	case EV_MESSAGE:
		break;
	}
}

int sim_step(struct sim *w, raft_time until)
{
	if (!w->events || w->event[0].at > until) {
		w->now = until;
		return -2;
	}
	struct sim_event e = get(w);
	struct sim_server *s = &w->server[e.server];
	w->now = e.at;
	if (e.kind == EV_MESSAGE)
		return deliver(w, e.what);
	if (!s->up || e.incarnation != s->incarnation)
		return -1;
	happen(s, &e);
	return (int)s->number;
}

void sim_init(struct sim *w, unsigned count, uint64_t seed)
{
	assert(count <= SIM_MAX);
	memset(w, 0, sizeof *w);
	w->count = count;
	mu_seed_init(&w->seed, seed);
	for (unsigned i = 0; i < count; i++) {
		struct sim_server *s = &w->server[i];
		s->sim = w;
		s->number = i;
		s->disk_msec = 5;
		s->net_msec = 8;
		snprintf(s->address, sizeof s->address, "127.0.0.1:%u", 9000 + i);
	}
}

struct raft_io *sim_start(struct sim *w, unsigned number)
{
	struct sim_server *s = &w->server[number];
	struct raft_io *io = must(calloc(1, sizeof *io));
	*io = (struct raft_io){.version = 2,
			       .impl = s,
			       .init = io_init,
			       .close = io_close,
			       .load = io_load,
			       .start = io_start,
			       .bootstrap = io_bootstrap,
			       .recover = io_recover,
			       .set_term = io_set_term,
			       .set_vote = io_set_vote,
			       .send = io_send,
			       .append = io_append,
			       .truncate = io_truncate,
			       .snapshot_put = io_put,
			       .snapshot_get = io_get,
			       .time = io_time,
			       .random = io_random,
			       .async_work = io_work};
	s->io = io;
	s->up = true;
	return io;
}

void sim_crash(struct sim *w, unsigned number)
{
	struct sim_server *s = &w->server[number];
	unsigned queued = 0, done = 0;
	struct sim_op *o;
	for (o = s->queue; o; o = o->next)
		queued++;
	if (!s->disk_broken && queued && sim_random(w, 2))
		done = sim_random(w, queued + 1);
	for (o = s->queue; o && done; o = o->next, done--)
		disk_do(s, o);
	/* The snapshot was renamed into place, the old segments are still there. */
	if (o && o->kind == OP_INSTALL && !s->disk_broken && sim_random(w, 3) == 0)
		s->disk.snapshot = o->snapshot;
	s->queue = NULL;
	s->up = false;
	s->disk_broken = false;
	s->incarnation++;
	s->down_since = w->now;
}
