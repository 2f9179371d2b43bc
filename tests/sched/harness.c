/* tests/sched/harness.c: see harness.h. */
#include "tests/sched/harness.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/bits.h"
#include "proto/base/map.h"
#include "proto/hostlist.h"
#include "proto/states.h"

bool h_fail(struct harness *h, const char *format, ...)
{
	va_list args;
	if (h->failure[0])
		return false;
	va_start(args, format);
	vsnprintf(h->failure, sizeof(h->failure), format, args);
	va_end(args);
	return false;
}

void h_open(struct harness *h, bool check)
{
	memset(h, 0, sizeof(*h));
	h->st = sch_state_new();
	h->now_usec = INT64_C(1790000000) * 1000000;
	h->check = check;
	h->changes.keep_rows = check;
	h->budget = 1000000;
}

void h_close(struct harness *h)
{
	for (size_t i = 0; i < h->count; i++)
		free(h->event[i].bytes);
	free(h->event);
	sch_changes_free(&h->changes);
	h->st = sch_state_free(h->st);
}

/* ---- rows against each other ---- */

struct usage {
	struct harness *h;
	struct mu_map nodes; /* name -> struct on_node */
	struct mu_map most;  /* partition -> how many of its jobs may share a CPU; absent: one */
};
enum { CPUS_SEEN = 64 };
struct on_node {
	struct mu_bits cpu;
	uint32_t times[CPUS_SEEN]; /* by CPU: how many jobs that share have it */
	char share[CPUS_SEEN][64]; /* and of which partition they are */
	struct mu_map gres;	   /* "name index" */
	uint64_t mem;
	uint32_t cpus;
};

static void use_gres(struct usage *u, struct on_node *n, const Mu__AllocNode *a, uint32_t job)
{
	char key[128];
	for (size_t g = 0; g < a->n_gres; g++)
		for (size_t i = 0; i < a->gres[g]->n_index; i++) {
			snprintf(key, sizeof(key), "%s %u", a->gres[g]->name, a->gres[g]->index[i]);
			if (mu_map_put_str(&n->gres, key, n))
				h_fail(u->h, "%s %s is given twice (job %u)", a->node, key, job);
		}
}

/* Never more of one partition than it lets, and never beside a job that has its CPUs alone. */
static void use_shared(struct usage *u, struct on_node *n, const Mu__AllocNode *a, uint32_t job,
		       const struct mu_bits *cpu)
{
	uintptr_t most = (uintptr_t)mu_map_get_str(&u->most, a->share);
	for (uint32_t b = mu_bits_next(cpu, 0); b != UINT32_MAX; b = mu_bits_next(cpu, b + 1)) {
		bool mine = b < CPUS_SEEN && n->times[b] && strcmp(n->share[b], a->share) == 0;
		if (b >= CPUS_SEEN || (mu_bits_test(&n->cpu, b) && (!mine || n->times[b] >= most))) {
			h_fail(u->h, "CPU %u of %s is shared by too many, or with a stranger (job %u, %s)", b,
			       a->node, job, a->cpu_list);
			return;
		}
		n->cpus += !n->times[b]++;
		snprintf(n->share[b], sizeof(n->share[b]), "%s", a->share);
	}
	mu_bits_or(&n->cpu, cpu);
}

static void use_alloc(struct usage *u, const Mu__AllocNode *a, uint32_t job)
{
	struct mu_bits cpu = {0};
	if (a->released)
		return;
	struct on_node *n = mu_map_get_str(&u->nodes, a->node);
	if (!n) {
		h_fail(u->h, "job %u holds something on %s, which is no node", job, a->node);
		return;
	}
	if (mu_bits_parse(&cpu, a->cpu_list ? a->cpu_list : "", 65535))
		h_fail(u->h, "job %u: CPU list %s", job, a->cpu_list);
	if (!a->parked && a->share && *a->share) {
		use_shared(u, n, a, job, &cpu);
	} else if (!a->parked) { /* A suspended job leaves its CPUs to others. */
		if (mu_bits_intersects(&cpu, &n->cpu))
			h_fail(u->h, "a CPU of %s is given twice (job %u, %s)", a->node, job, a->cpu_list);
		mu_bits_or(&n->cpu, &cpu);
		n->cpus += mu_bits_count(&cpu);
	}
	n->mem += a->mem_mib;
	use_gres(u, n, a, job);
	mu_bits_free(&cpu);
}

static int add_node(void *arg, const struct sch_key *key, const uint8_t *row, size_t len)
{
	struct usage *u = arg;
	char name[256];
	snprintf(name, sizeof(name), "%.*s", key->len, key->bytes);
	mu_map_put_str(&u->nodes, name, calloc(1, sizeof(struct on_node)));
	return 0;
}

static int add_part(void *arg, const struct sch_key *key, const uint8_t *row, size_t len)
{
	struct usage *u = arg;
	struct mu_arena arena = {0};
	Mu__PartitionRow *p =
	    (Mu__PartitionRow *)mu_pb_unpack(&mu__partition_row__descriptor, row, len, &arena);
	const char *over = p && p->conf ? p->conf->oversubscribe : NULL, *n = over ? strchr(over, ':') : NULL;
	if (n)
		mu_map_put_str(&u->most, p->conf->name, (void *)(uintptr_t)strtoul(n + 1, NULL, 10));
	mu_arena_free(&arena);
	return 0;
}

static int add_job(void *arg, const struct sch_key *key, const uint8_t *row, size_t len)
{
	struct usage *u = arg;
	struct mu_arena arena = {0};
	Mu__JobRow *j = (Mu__JobRow *)mu_pb_unpack(&mu__job_row__descriptor, row, len, &arena);
	if (!j) {
		h_fail(u->h, "a job row does not decode");
		return 1;
	}
	for (size_t i = 0; i < j->n_alloc; i++)
		if (j->alloc[i]->parked && j->state == JOB_RUNNING)
			h_fail(u->h, "job %u runs without its CPUs", j->id);
	if ((j->state == JOB_RUNNING || j->state == JOB_SUSPENDED) && !j->n_alloc)
		h_fail(u->h, "job %u runs nowhere", j->id);
	for (size_t i = 0; i < j->n_alloc; i++)
		use_alloc(u, j->alloc[i], j->id);
	for (size_t i = 0; i < j->n_left; i++)
		use_alloc(u, j->left[i], j->id);
	if (mu_job_state_ended(j->state) && j->state != JOB_REQUEUED && !j->end_usec)
		h_fail(u->h, "job %u ended at no time", j->id);
	mu_arena_free(&arena);
	return 0;
}

static int check_node(void *arg, const struct sch_key *key, const uint8_t *row, size_t len)
{
	struct usage *u = arg;
	struct mu_arena arena = {0};
	Mu__NodeRow *r = (Mu__NodeRow *)mu_pb_unpack(&mu__node_row__descriptor, row, len, &arena);
	struct on_node *n = r ? mu_map_get_str(&u->nodes, r->name) : NULL;
	if (!n)
		h_fail(u->h, "a node row does not decode");
	else if (n->cpus != r->alloc_cpus || n->mem != r->alloc_mem_mib || n->cpus > r->cpus)
		h_fail(u->h, "%s says %u CPUs and %llu MiB are held, its jobs say %u and %llu", r->name,
		       r->alloc_cpus, (unsigned long long)r->alloc_mem_mib, n->cpus,
		       (unsigned long long)n->mem);
	mu_arena_free(&arena);
	return 0;
}

static void check_usage(struct harness *h)
{
	struct usage u = {.h = h};
	const uint8_t *key = NULL;
	size_t len = 0;
	sch_rows(h->st, SCH_ROW_NODE, add_node, &u);
	sch_rows(h->st, SCH_ROW_PARTITION, add_part, &u);
	sch_rows(h->st, SCH_ROW_JOB, add_job, &u);
	sch_rows(h->st, SCH_ROW_NODE, check_node, &u);
	for (struct on_node *n = mu_map_seek(&u.nodes, NULL, 0, 0, &key, &len); n;
	     n = mu_map_seek(&u.nodes, key, len, 1, &key, &len)) {
		mu_bits_free(&n->cpu);
		mu_map_clear(&n->gres);
		free(n);
	}
	mu_map_clear(&u.nodes);
	mu_map_clear(&u.most);
}

/* ---- State against its copy ---- */

static int load_one(void *arg, const struct sch_key *key, const uint8_t *row, size_t len)
{
	struct mu_err err = {0};
	int rc = sch_load_row(arg, key->kind, row, len, &err);
	if (rc)
		fprintf(stderr, "load: %s\n", err.text);
	return rc;
}

struct sch_state *h_copy(const struct sch_state *st, struct mu_err *err)
{
	struct sch_state *copy = sch_state_new();
	if (sch_rows(st, 0, load_one, copy) || sch_load_done(copy, err))
		return sch_state_free(copy);
	return copy;
}

static bool decide_bytes(const struct sch_state *st, uint32_t budget, struct mu_buf *out)
{
	struct mu_arena arena = {0};
	Mu__Event *e = NULL;
	sch_decide(st, budget, &arena, &e);
	if (e)
		mu_pb_pack(&e->base, out);
	mu_arena_free(&arena);
	return e != NULL;
}

/* A slice of a pass that comes to nothing has only its place to hand on; plans move with the clock and are
 * renewed when a pass has another cause. */
static int count_row(void *arg, const struct sch_key *key, const uint8_t *row, size_t len)
{
	++*(size_t *)arg;
	return 0;
}

static bool says_something(const struct sch_state *st, const struct mu_buf *b)
{
	size_t reservations = 0;
	sch_rows(st, SCH_ROW_RESERVATION, count_row, &reservations);
	struct mu_arena arena = {0};
	const Mu__Event *e =
	    b->len ? (Mu__Event *)mu_pb_unpack(&mu__event__descriptor, b->data, b->len, &arena) : NULL;
	const Mu__Decided *d = e ? e->decided : NULL;
	/* As a reservation comes nearer, other words fit the same waiting: no cause for a pass. */
	bool yes = d && (d->n_start || d->n_preempt || d->n_resume || (d->n_reason && !reservations) ||
			 d->n_stop || d->n_lost);
	mu_arena_free(&arena);
	return yes;
}

static void check_copy(struct harness *h)
{
	struct mu_err err = {0};
	struct mu_hash a, b;
	struct mu_buf x = {0}, y = {0}, z = {0};
	struct sch_state *copy = h_copy(h->st, &err);
	if (!copy) {
		h_fail(h, "the State does not load from its rows: %s", err.text);
		return;
	}
	sch_digest(h->st, &a);
	sch_digest(copy, &b);
	if (memcmp(&a, &b, sizeof(a)) != 0)
		h_fail(h, "the copy made from rows has another digest");
	decide_bytes(h->st, h->budget, &x);
	decide_bytes(h->st, h->budget, &y);
	decide_bytes(copy, h->budget, &z);
	if (x.len != y.len || (x.len && memcmp(x.data, y.data, x.len) != 0))
		h_fail(h, "decide gives other bytes the second time");
	if (x.len != z.len || (x.len && memcmp(x.data, z.data, x.len) != 0))
		h_fail(h, "decide gives other bytes over the copy (%zu, %zu)", x.len, z.len);
	if (sch_due_usec(h->st) != sch_due_usec(copy))
		h_fail(h, "the copy is due at %lld, the State at %lld", (long long)sch_due_usec(copy),
		       (long long)sch_due_usec(h->st));
	if (says_something(h->st, &x) && !sch_wants_decide(h->st))
		h_fail(h, "decide has something to say that sch_wants_decide does not know of");
	mu_buf_free(&x);
	mu_buf_free(&y);
	mu_buf_free(&z);
	sch_state_free(copy);
}

/* ---- a start within a reservation's time is of that reservation ---- */

struct guard {
	struct harness *h;
	const Mu__JobRow *job;
	struct mu_arena *arena;
};

static bool shares_node(struct guard *g, const Mu__ReservationRow *r)
{
	char **names;
	size_t count;
	if (r->n_cores) { /* Only the CPUs that are kept. */
		for (size_t i = 0; i < r->n_cores; i++)
			for (size_t k = 0; k < g->job->n_alloc; k++) {
				struct mu_bits a = {0}, b = {0};
				bool same = strcmp(g->job->alloc[k]->node, r->cores[i]->node) == 0 &&
					    mu_bits_parse(&a, g->job->alloc[k]->cpu_list, 65535) == 0 &&
					    mu_bits_parse(&b, r->cores[i]->cpu_list, 65535) == 0 &&
					    mu_bits_intersects(&a, &b);
				mu_bits_free(&a);
				mu_bits_free(&b);
				if (same)
					return true;
			}
		return false;
	}
	if (!r->nodes || mu_hostlist_expand(r->nodes, 10000, g->arena, &names, &count, NULL))
		return false;
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < g->job->n_alloc; k++)
			if (strcmp(names[i], g->job->alloc[k]->node) == 0)
				return true;
	return false;
}

static int one_reservation(void *arg, const struct sch_key *key, const uint8_t *row, size_t len)
{
	struct guard *g = arg;
	const Mu__JobRow *j = g->job;
	Mu__ReservationRow *r =
	    (Mu__ReservationRow *)mu_pb_unpack(&mu__reservation_row__descriptor, row, len, g->arena);
	bool own = j->reservation && strcmp(j->reservation, r->name) == 0;
	int64_t end = j->time_limit_sec < 0 ? INT64_MAX : j->start_usec + j->time_limit_sec * 1000000;
	int64_t from = r->start_usec;
	if (j->resv_end_usec && j->resv_end_usec < end)
		end = j->resv_end_usec;
	if (r->flags & RESV_FLAG_TIME_FLOAT)
		from = j->start_usec + r->float_usec;
	if (!own && !j->reservation && end > from && j->start_usec < r->end_usec && shares_node(g, r))
		h_fail(g->h, "job %u started on nodes of reservation %s without being of it", j->id, r->name);
	if (own && !(r->flags & RESV_FLAG_FLEX) && !r->active)
		h_fail(g->h, "job %u started in reservation %s before its time", j->id, r->name);
	return 0;
}

/* All components of a job start in one entry, and have their planned start in common. */
static void check_components(struct harness *h, const Mu__JobRow *j)
{
	if (!j || !j->het_job)
		return;
	uint64_t start = j->start_pos;
	int64_t plan = j->plan_start_usec;
	uint32_t state = j->state;
	for (uint32_t k = 0; k < j->het_count; k++) {
		const Mu__JobRow *m = sch_job(h->st, j->het_job + k);
		if (!m && !mu_job_state_ended(state))
			h_fail(h, "component %u of job %u has left State before it ended", k, j->het_job);
		if (!m)
			continue;
		if (state == JOB_RUNNING && (m->state == JOB_PENDING || m->start_pos != start))
			h_fail(h, "component %u of job %u did not start with the others", k, j->het_job);
		if (state == JOB_PENDING && m->state == JOB_PENDING && m->plan_start_usec != plan)
			h_fail(h, "component %u of job %u is planned for another moment", k, j->het_job);
		if (state == JOB_PENDING && m->state == JOB_RUNNING)
			h_fail(h, "component %u of job %u runs and another waits", k, j->het_job);
	}
}

/* What evolve kept of each changed row is the row. */
static void check_kept(struct harness *h)
{
	struct mu_buf kept = {0}, row = {0};
	for (size_t i = 0; i < h->changes.count; i++) {
		if (h->changes.v[i].gone)
			continue;
		mu_buf_reset(&kept);
		mu_buf_reset(&row);
		sch_row_pack(h->st, &h->changes.v[i].key, &row);
		if (sch_changes_row(h->st, &h->changes, i, &kept) || kept.len != row.len ||
		    memcmp(kept.data, row.data, row.len) != 0)
			h_fail(h, "a changed row of kind %u is not what evolve kept of it",
			       h->changes.v[i].key.kind);
	}
	mu_buf_free(&kept);
	mu_buf_free(&row);
}

static void check_starts(struct harness *h)
{
	struct mu_arena arena = {0};
	struct mu_buf buf = {0};
	for (size_t i = 0; i < h->changes.count; i++) {
		const struct sch_key *key = &h->changes.v[i].key;
		if (key->kind != SCH_ROW_JOB || h->changes.v[i].gone)
			continue;
		mu_buf_reset(&buf);
		sch_row_pack(h->st, key, &buf);
		Mu__JobRow *j =
		    (Mu__JobRow *)mu_pb_unpack(&mu__job_row__descriptor, buf.data, buf.len, &arena);
		check_components(h, j);
		struct guard g = {h, j, &arena};
		if (j && j->state == JOB_RUNNING && j->start_pos == sch_pos(h->st))
			sch_rows(h->st, SCH_ROW_RESERVATION, one_reservation, &g);
	}
	mu_buf_free(&buf);
	mu_arena_free(&arena);
}

bool h_invariants(struct harness *h)
{
	struct mu_hash kept, walked;
	sch_digest(h->st, &kept);
	sch_digest_walk(h->st, &walked);
	if (memcmp(&kept, &walked, sizeof(kept)) != 0)
		h_fail(h, "the digest kept is not the digest walked");
	check_kept(h);
	check_starts(h);
	if (h->every > 1 && h->count % h->every)
		return !h->failure[0];
	check_usage(h);
	check_copy(h);
	return !h->failure[0];
}

/* A void event changes nothing but counters and answers. */
static void check_void(struct harness *h)
{
	for (size_t i = 0; i < h->changes.count; i++)
		if (h->changes.v[i].key.kind != SCH_ROW_CLUSTER && h->changes.v[i].key.kind != SCH_ROW_ANSWER)
			h_fail(h, "a void event (%s) changed a row of kind %u", h->verdict.text,
			       h->changes.v[i].key.kind);
}

int h_apply_bytes(struct harness *h, const uint8_t *bytes, size_t len)
{
	struct mu_err err = {0};
	struct sch_at at = {.pos = sch_pos(h->st) + 1, .time_usec = h->now_usec};
	sch_changes_reset(&h->changes);
	int rc = sch_evolve(h->st, &at, bytes, len, &h->verdict, &h->changes, &err);
	if (rc)
		return rc;
	sch_entry_done(h->st, at.pos, h->now_usec, &h->changes);
	if (h->count == h->cap) {
		h->cap = h->cap ? 2 * h->cap : 64;
		h->event = realloc(h->event, h->cap * sizeof(h->event[0]));
	}
	struct h_event *e = &h->event[h->count++];
	*e = (struct h_event){.bytes = malloc(len ? len : 1), .len = len, .time_usec = h->now_usec};
	memcpy(e->bytes, bytes, len);
	sch_digest(h->st, &e->digest);
	if (h->check) {
		if (h->verdict.code && !h->verdict.repeated)
			check_void(h);
		h_invariants(h);
	}
	return h->verdict.code;
}

int h_apply(struct harness *h, const Mu__Event *event)
{
	struct mu_buf buf = {0};
	mu_pb_pack(&event->base, &buf);
	int rc = h_apply_bytes(h, buf.data, buf.len);
	mu_buf_free(&buf);
	return rc;
}

int h_decide(struct harness *h)
{
	struct mu_arena arena = {0};
	Mu__Event *e = NULL;
	Mu__Author leader = MU__AUTHOR__INIT;
	if (!sch_wants_decide(h->st))
		return 0;
	sch_decide(h->st, h->budget, &arena, &e);
	if (e) {
		leader.verifier = (char *)"controller";
		e->author = &leader;
		if (h_apply(h, e))
			h_fail(h, "a fresh decision was void: %s", h->verdict.text);
	}
	mu_arena_free(&arena);
	return e != NULL;
}

bool h_replay(struct harness *h)
{
	struct sch_state *st = sch_state_new();
	struct sch_changes changes = {0};
	for (size_t i = 0; i < h->count && !h->failure[0]; i++) {
		struct sch_at at = {.pos = i + 1, .time_usec = h->event[i].time_usec};
		struct sch_verdict v;
		struct mu_err err = {0};
		struct mu_hash digest;
		sch_changes_reset(&changes);
		if (sch_evolve(st, &at, h->event[i].bytes, h->event[i].len, &v, &changes, &err)) {
			h_fail(h, "replay stops at %zu: %s", i + 1, err.text);
			break;
		}
		sch_entry_done(st, at.pos, at.time_usec, &changes);
		sch_digest(st, &digest);
		if (memcmp(&digest, &h->event[i].digest, sizeof(digest)) != 0)
			h_fail(h, "replay has another digest at %zu", i + 1);
	}
	sch_changes_free(&changes);
	sch_state_free(st);
	return !h->failure[0];
}
