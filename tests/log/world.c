/* tests/log/world.c: see world.h. */
#include <assert.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/log/world.h"

enum {
	HISTORY_MAX = 200000,
	TERMS_MAX = 20000,
	HEAL_MSEC = 60000,
	ELECTION_MSEC = 500,
	HEARTBEAT_MSEC = 50,
	CHECKPOINTS = 8,
	POINTER_BYTES = 80,
	LAG = 60
};

/* Rows durable on a server's disk, beside its log. */
struct checkpoint {
	uint64_t pos;
	struct mu_hash digest;
	struct mu_buf rows;
};

struct replica {
	struct world *w;
	unsigned number;
	struct raft *raft;
	struct raft_fsm fsm;
	struct log_guard *guard;
	void *st;
	uint64_t pos;
	struct mu_hash chain;
	bool must_crash, was_leader;
	uint64_t put_ready, put_asked, install_ready, install_asked;
	unsigned install_from;
	/* survives crashes */
	struct checkpoint checkpoint[CHECKPOINTS];
	unsigned next_checkpoint;
};

struct world {
	struct sim sim;
	const struct world_setup *setup;
	struct replica replica[SIM_MAX];
	bool healed;
	int dead; /* the founder that stays down, -1 */
	unsigned pace;
	raft_time next_chaos, next_proposal;
	unsigned acknowledged, unavailable, crashes, installs, changes, fatals;
	/* What was applied, by libraft's index and by position. */
	uint64_t value_at[HISTORY_MAX];
	raft_term term_at[HISTORY_MAX];
	raft_index last_applied;
	struct mu_hash chain_at[HISTORY_MAX], digest_at[HISTORY_MAX];
	bool known_at[HISTORY_MAX];
	unsigned leader_of[TERMS_MAX];
	jmp_buf out;
	enum world_result result;
	char sentence[300];
};

static struct world *the_world; /* one a process */

struct world *world_now(void)
{
	return the_world;
}

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

void world_say(struct world *w, const char *format, ...)
{
	va_list args;
	if (!w->setup->trace)
		return;
	printf("%8llu  ", w->sim.now);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
}

static void verdict(struct world *w, enum world_result result, const char *format, ...)
    __attribute__((format(printf, 3, 4), noreturn));
static void verdict(struct world *w, enum world_result result, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(w->sentence, sizeof w->sentence, format, args);
	va_end(args);
	world_say(w, "END: %s", w->sentence);
	w->result = result;
	longjmp(w->out, 1);
}

int64_t world_usec(const struct world *w)
{
	return (int64_t)w->sim.now * 1000;
}

unsigned world_random(struct world *w, unsigned below)
{
	return sim_random(&w->sim, below);
}

bool world_healed(const struct world *w)
{
	return w->healed;
}

void *world_state(struct world *w, unsigned server)
{
	return w->sim.server[server].up ? w->replica[server].st : NULL;
}

static struct replica *leader(struct world *w)
{
	struct replica *l = NULL;
	for (unsigned i = 0; i < w->sim.count; i++) {
		struct replica *x = &w->replica[i];
		if (w->sim.server[i].up && x->raft->state == RAFT_LEADER &&
		    (!l || x->raft->current_term > l->raft->current_term))
			l = x;
	}
	return l;
}

void *world_leader(struct world *w)
{
	struct replica *l = leader(w);
	return l ? l->st : NULL;
}

/* ---- the state machine ---- */

static uint64_t value_of(const struct raft_buffer *buf)
{
	struct mu_hash h;
	uint64_t v;
	mu_hash_bytes(buf->base, buf->len, &h);
	memcpy(&v, h.b, 8);
	return v | 1; /* 0 means unknown */
}

/* All that stands at POS must be the same on every server for ever. */
static void judge_position(struct replica *x)
{
	struct world *w = x->w;
	struct mu_hash digest;
	if (x->pos >= HISTORY_MAX)
		return;
	w->setup->app->digest(x->st, &digest);
	if (w->known_at[x->pos] && memcmp(&w->chain_at[x->pos], &x->chain, sizeof x->chain))
		verdict(w, WORLD_DIVERGED, "server %u has another chain at position %" PRIu64, x->number,
			x->pos);
	if (w->known_at[x->pos] && memcmp(&w->digest_at[x->pos], &digest, sizeof digest))
		verdict(w, WORLD_DIVERGED, "server %u has another digest at position %" PRIu64, x->number,
			x->pos);
	w->known_at[x->pos] = true;
	w->chain_at[x->pos] = x->chain;
	w->digest_at[x->pos] = digest;
}

static int fsm_apply(struct raft_fsm *fsm, const struct raft_buffer *buf, void **result)
{
	struct replica *x = fsm->data;
	struct world *w = x->w;
	raft_index index = x->raft->last_applied + 1;
	struct log_entry entry;
	*result = NULL;
	if (log_entry_parse(buf->base, buf->len, &entry))
		verdict(w, WORLD_DIVERGED, "server %u: entry %llu was damaged on its way", x->number, index);
	uint64_t value = value_of(buf);
	if (index < HISTORY_MAX) {
		if (w->value_at[index] && w->value_at[index] != value)
			verdict(w, WORLD_DIVERGED, "server %u applied another entry at index %llu", x->number,
				index);
		w->value_at[index] = value;
		if (!w->term_at[index] || x->raft->current_term < w->term_at[index])
			w->term_at[index] = x->raft->current_term;
	}
	if (index > w->last_applied)
		w->last_applied = index;
	log_chain_next(&x->chain, &entry);
	x->pos++;
	w->setup->app->apply(x->st, x->pos, &entry);
	judge_position(x);
	return 0;
}

static void pointer_put(uint8_t *out, uint64_t pos, const struct mu_hash *chain, const struct mu_hash *digest)
{
	memset(out, 0, POINTER_BYTES);
	memcpy(out, &pos, 8);
	memcpy(out + 8, chain, 32);
	memcpy(out + 40, digest, 32);
}

static const struct checkpoint *find_checkpoint(const struct replica *x, uint64_t pos)
{
	for (unsigned i = 0; i < CHECKPOINTS; i++)
		if (x->checkpoint[i].rows.data && x->checkpoint[i].pos == pos)
			return &x->checkpoint[i];
	return NULL;
}

static void keep_checkpoint(struct replica *x, uint64_t pos, const struct mu_hash *digest, const void *rows,
			    size_t len)
{
	struct checkpoint *c = &x->checkpoint[x->next_checkpoint];
	if (find_checkpoint(x, pos))
		return;
	x->next_checkpoint = (x->next_checkpoint + 1) % CHECKPOINTS;
	mu_buf_reset(&c->rows);
	mu_buf_add(&c->rows, rows, len);
	mu_buf_add(&c->rows, "", 1); /* an empty state has rows too */
	c->rows.len = len;
	c->pos = pos;
	c->digest = *digest;
}

static int fsm_snapshot(struct raft_fsm *fsm, struct raft_buffer *bufs[], unsigned *n)
{
	struct replica *x = fsm->data;
	struct mu_hash digest;
	struct mu_buf rows = {0};
	if (!log_guard_may_snapshot(x->guard) || !x->pos)
		return RAFT_BUSY;
	struct raft_buffer *buf = must(raft_malloc(sizeof *buf));
	*buf = (struct raft_buffer){must(raft_malloc(POINTER_BYTES)), POINTER_BYTES};
	x->w->setup->app->digest(x->st, &digest);
	x->w->setup->app->rows(x->st, &rows);
	/* Durable only when may_put lets it pass; a crash before then leaves the rows without a snapshot,
	 * which is harmless. */
	keep_checkpoint(x, x->pos, &digest, rows.data, rows.len);
	mu_buf_free(&rows);
	pointer_put(buf->base, x->pos, &x->chain, &digest);
	*bufs = buf;
	*n = 1;
	return 0;
}

static int fsm_restore(struct raft_fsm *fsm, struct raft_buffer *buf)
{
	struct replica *x = fsm->data;
	struct world *w = x->w;
	const struct world_app *app = w->setup->app;
	memcpy(&x->pos, buf->base, 8);
	memcpy(&x->chain, (uint8_t *)buf->base + 8, 32);
	raft_free(buf->base);
	const struct checkpoint *c = find_checkpoint(x, x->pos);
	if (!c)
		verdict(w, WORLD_DIVERGED, "server %u installs position %" PRIu64 " without its rows",
			x->number, x->pos);
	app->close(x->st);
	x->st = app->open(w->setup->arg, x->number);
	if (!app->restore(x->st, c->rows.data, c->rows.len))
		verdict(w, WORLD_APP, "server %u cannot take up the rows of position %" PRIu64, x->number,
			x->pos);
	w->installs++;
	judge_position(x);
	return 0;
}

/* ---- the guard's questions ---- */

static void put_is_ready(void *arg)
{
	struct replica *x = arg;
	x->put_ready = x->put_asked;
	log_guard_put_held(x->guard);
}

static bool may_put(void *arg, struct raft_buffer *data)
{
	struct replica *x = arg;
	uint64_t pos;
	memcpy(&pos, data->base, 8);
	if (x->put_ready == pos)
		return true;
	x->put_asked = pos;
	sim_after(&x->w->sim, x->number, 1 + sim_random(&x->w->sim, 400), put_is_ready, x);
	return false;
}

/* The rows came over from the leader, if it is still there and still has them. */
static void rows_come(void *arg)
{
	struct replica *x = arg;
	struct world *w = x->w;
	struct replica *from = &w->replica[x->install_from];
	uint64_t pos = x->install_asked;
	x->install_asked = 0;
	const struct checkpoint *c = find_checkpoint(from, pos);
	if (!c || !w->sim.server[from->number].up || w->sim.cut[from->number][x->number])
		return;
	keep_checkpoint(x, pos, &c->digest, c->rows.data, c->rows.len);
	x->install_ready = pos;
	log_guard_release(x->guard);
}

static bool may_install(void *arg, const struct raft_buffer *data, raft_id from)
{
	struct replica *x = arg;
	uint64_t pos;
	memcpy(&pos, data->base, 8);
	if (x->install_ready == pos && find_checkpoint(x, pos))
		return true;
	if (x->install_asked)
		return false;
	x->install_asked = pos;
	x->install_from = (unsigned)from - 1;
	sim_after(&x->w->sim, x->number, 1 + sim_random(&x->w->sim, 600), rows_come, x);
	return false;
}

static void fatal(void *arg, const char *what, int status)
{
	struct replica *x = arg;
	world_say(x->w, "s%u: %s failed (%d), the process ends itself", x->number, what, status);
	x->must_crash = true;
	x->w->fatals++;
}

/* ---- processes ---- */

static void start(struct world *w, unsigned i, const struct raft_configuration *founding)
{
	const struct world_setup *s = w->setup;
	struct replica *x = &w->replica[i];
	bool snapshots = s->areas & WORLD_SNAPSHOTS, small = (s->areas & WORLD_SMALL) && (s->seed & 4);
	struct raft_io *io = sim_start(&w->sim, i);
	x->raft = must(calloc(1, sizeof *x->raft));
	x->fsm = (struct raft_fsm){
	    .version = 1, .data = x, .apply = fsm_apply, .snapshot = fsm_snapshot, .restore = fsm_restore};
	x->st = s->app->open(s->arg, i);
	x->pos = 0;
	memset(&x->chain, 0, sizeof x->chain);
	x->must_crash = x->was_leader = false;
	x->put_ready = x->put_asked = x->install_ready = x->install_asked = 0;
	raft_init(x->raft, io, &x->fsm, i + 1, w->sim.server[i].address);
	raft_set_election_timeout(x->raft, ELECTION_MSEC);
	raft_set_heartbeat_timeout(x->raft, HEARTBEAT_MSEC);
	raft_set_pre_vote(x->raft, s->seed & 1);
	raft_set_install_snapshot_timeout(x->raft, 3000);
	raft_set_snapshot_threshold(x->raft, snapshots ? 10 + sim_random(&w->sim, 30) : 1000000);
	raft_set_snapshot_trailing(x->raft, snapshots ? 1 + sim_random(&w->sim, 10) : 1000000);
	struct log_guard_config guard = {.closures = s->closures,
					 .append_bytes = !s->closures ? 0
							 : small      ? 300
								      : 1 << 20,
					 .in_flight_bytes = !s->closures ? 0
							    : small	 ? 600
									 : 4 << 20,
					 .quiet_msec = founding || !s->closures ? 0 : ELECTION_MSEC,
					 .fatal = fatal,
					 .may_install = may_install,
					 .may_put = may_put,
					 .arg = x};
	x->guard = log_guard_new(x->raft, &guard);
	if (founding)
		raft_bootstrap(x->raft, founding);
	int rv = raft_start(x->raft);
	if (rv)
		verdict(w, WORLD_NO_START, "server %u does not start: %s", i, raft_strerror(rv));
	log_guard_started(x->guard);
}

static void crash(struct world *w, unsigned i)
{
	struct replica *x = &w->replica[i];
	world_say(w, "s%u crashes (term %llu, last %llu, commit %llu)", i, x->raft->current_term,
		  raft_last_index(x->raft), x->raft->commit_index);
	sim_crash(&w->sim, i);
	/* The core's memory is left to the end of the test's process: it cannot be taken down in the middle
	 * of anything. */
	w->setup->app->close(x->st);
	x->st = NULL;
	x->raft = NULL;
	w->crashes++;
}

/* ---- judges ---- */

static void judge_leader(struct world *w, struct replica *x)
{
	struct raft *r = x->raft;
	raft_term term = r->current_term;
	world_say(w, "s%u leads term %llu: last %llu, stored %llu, commit %llu", x->number, term,
		  raft_last_index(r), r->last_stored, r->commit_index);
	if (term < TERMS_MAX) {
		if (w->leader_of[term] && w->leader_of[term] != x->number + 1)
			verdict(w, WORLD_TWO_LEADERS, "servers %u and %u both lead term %llu",
				w->leader_of[term] - 1, x->number, term);
		w->leader_of[term] = x->number + 1;
	}
	for (raft_index i = r->log.offset + 1; i <= w->last_applied && i < HISTORY_MAX; i++) {
		if (!w->value_at[i] || w->term_at[i] >= term)
			continue;
		const struct raft_entry *e = log_guard_entry(r, i);
		uint64_t value = e && e->type == RAFT_COMMAND ? value_of(&e->buf) : 0;
		if (value != w->value_at[i] && (e || i > r->log.snapshot.last_index))
			verdict(w, WORLD_LOST,
				"server %u leads term %llu without entry %llu, applied in term %llu",
				x->number, term, i, w->term_at[i]);
	}
}

static void look(struct world *w, unsigned i)
{
	struct replica *x = &w->replica[i];
	if (!w->sim.server[i].up)
		return;
	if (w->sim.log_hole)
		verdict(w, WORLD_LOG_HOLE, "server %u writes an entry that does not follow its log on disk",
			i);
	if (x->must_crash) {
		crash(w, i);
		return;
	}
	if (x->raft->state == RAFT_UNAVAILABLE) {
		world_say(w, "s%u gives up: %s", i, raft_errmsg(x->raft));
		w->unavailable++;
		crash(w, i);
		return;
	}
	bool leads = x->raft->state == RAFT_LEADER;
	if (leads && !x->was_leader)
		judge_leader(w, x);
	if (x->was_leader && !leads && w->setup->app->deposed)
		w->setup->app->deposed(x->st);
	x->was_leader = leads;
	if (leads && w->setup->closures)
		log_guard_announce(x->guard);
}

/* ---- proposals ---- */

static void applied(struct raft_apply *req, int status, void *result)
{
	struct world *w = the_world;
	uint64_t value = (uint64_t)(uintptr_t)req->data;
	raft_index index = req->index;
	(void)result;
	free(req);
	if (status || index >= HISTORY_MAX)
		return;
	if (w->value_at[index] != value)
		verdict(w, WORLD_DIVERGED, "the entry acknowledged at index %llu is not the one applied",
			index);
	w->acknowledged++;
}

static void propose(struct world *w, struct replica *x)
{
	struct log_part part[WORLD_PARTS];
	int64_t time;
	struct mu_buf packed = {0};
	if ((w->setup->closures & LOG_G1) && !log_guard_settled(x->guard))
		return;
	size_t parts = w->setup->app->propose(x->st, world_usec(w), part, &time);
	if (!parts)
		return;
	if (log_entry_pack(time, x->raft->current_term, part, parts, &packed))
		abort();
	struct raft_buffer buf = {must(raft_malloc(packed.len)), packed.len};
	memcpy(buf.base, packed.data, packed.len);
	mu_buf_free(&packed);
	struct raft_apply *req = must(calloc(1, sizeof *req));
	req->data = (void *)(uintptr_t)value_of(&buf);
	if (raft_apply(x->raft, req, &buf, 1, applied)) {
		raft_free(buf.base);
		free(req);
	}
}

/* ---- chaos ---- */

static void changed(struct raft_change *req, int status)
{
	struct world *w = the_world;
	world_say(w, "the change is done: %d", status);
	free(req);
	if (!status)
		w->changes++;
}

static void change_members(struct world *w, struct replica *x)
{
	struct raft *r = x->raft;
	struct raft_configuration *c = &r->configuration;
	unsigned id = 1 + sim_random(&w->sim, w->sim.count), voters = 0;
	int role = -1, to = sim_random(&w->sim, 3) ? RAFT_VOTER : RAFT_STANDBY, rv;
	if (!log_guard_may_change(x->guard))
		return;
	for (unsigned i = 0; i < c->n; i++) {
		voters += c->servers[i].role == RAFT_VOTER;
		if (c->servers[i].id == id)
			role = c->servers[i].role;
	}
	if (role == RAFT_VOTER && voters <= 2)
		return;
	struct raft_change *req = must(calloc(1, sizeof *req));
	if (role < 0)
		rv = raft_add(r, req, id, w->sim.server[id - 1].address, changed);
	else if (role == RAFT_SPARE && sim_random(&w->sim, 3))
		rv = raft_assign(r, req, id, to, changed);
	else if (role == RAFT_STANDBY && sim_random(&w->sim, 4))
		rv = raft_assign(r, req, id, sim_random(&w->sim, 4) ? RAFT_VOTER : RAFT_SPARE, changed);
	else if (role == RAFT_VOTER && sim_random(&w->sim, 2))
		rv = raft_assign(r, req, id, sim_random(&w->sim, 2) ? RAFT_STANDBY : RAFT_SPARE, changed);
	else
		rv = raft_remove(r, req, id, changed);
	if (rv)
		free(req);
	else
		world_say(w, "s%u changes member %u (role %d)", x->number, id, role);
}

static void transferred(struct raft_transfer *req)
{
	free(req);
}

static void transfer(struct world *w, struct replica *x, unsigned to)
{
	if (x->raft->transfer)
		return;
	struct raft_transfer *req = must(calloc(1, sizeof *req));
	if (raft_transfer(x->raft, req, to, transferred))
		free(req);
	else
		world_say(w, "s%u hands over", x->number);
}

static void isolate(struct world *w, unsigned i, bool cut)
{
	for (unsigned j = 0; j < w->sim.count; j++)
		w->sim.cut[i][j] = w->sim.cut[j][i] = cut;
}

/* One act of malice or mercy; what its area is not asked for is left out. */
static void chaos(struct world *w)
{
	struct sim *sim = &w->sim;
	unsigned areas = w->setup->areas, i = sim_random(sim, sim->count), j = sim_random(sim, sim->count);
	struct sim_server *s = &sim->server[i];
	bool leads = s->up && w->replica[i].raft->state == RAFT_LEADER;
	switch (sim_random(sim, 24)) {
	case 0:
	case 1:
		if (areas & WORLD_CUTS)
			sim->cut[i][j] = true;
		break;
	case 2:
		if (areas & WORLD_CUTS)
			sim->cut[i][j] = sim->cut[j][i] = true;
		break;
	case 3:
	case 4:
	case 5:
		sim->cut[i][j] = sim->cut[j][i] = false;
		break;
	case 6:
		if (areas & WORLD_CUTS)
			isolate(w, i, true);
		break;
	case 7:
	case 8:
		isolate(w, i, false);
		break;
	case 9:
	case 10:
		if ((areas & WORLD_CRASHES) && s->up)
			crash(w, i);
		break;
	case 11: /* a power cut */
		if (!(areas & WORLD_CRASHES) || sim_random(sim, 4))
			break;
		for (j = 0; j < sim->count; j++)
			if (sim->server[j].up && sim_random(sim, 3))
				crash(w, j);
		break;
	case 12:
	case 13:
		if (!s->up)
			start(w, i, NULL);
		break;
	case 14:
		s->net_msec = 1 + sim_random(sim, sim_random(sim, 4) ? 20 : 300);
		break;
	case 15:
		s->disk_msec = 1 + sim_random(sim, sim_random(sim, 4) ? 10 : areas & WORLD_SLOW ? 800 : 100);
		break;
	case 16:
		if (areas & WORLD_FAULTS)
			s->fail_1000 = sim_random(sim, 2) ? 0 : 1 + sim_random(sim, 10);
		break;
	case 17:
	case 18:
	case 19:
		if ((areas & WORLD_MEMBERS) && leads)
			change_members(w, &w->replica[i]);
		break;
	case 20:
		if ((areas & WORLD_TRANSFER) && leads)
			transfer(w, &w->replica[i], sim_random(sim, 2) ? 0 : j + 1);
		break;
	case 21:
		sim->loss_1000 = areas & WORLD_CUTS ? sim_random(sim, sim_random(sim, 3) ? 20 : 200) : 0;
		break;
	default:
		break;
	}
}

/* ---- time ---- */

static void supervise(struct world *w)
{
	for (unsigned i = 0; i < w->sim.count; i++) {
		struct sim_server *s = &w->sim.server[i];
		if (!s->up && (int)i != w->dead && w->sim.now - s->down_since > (w->healed ? 500 : 3000))
			start(w, i, NULL);
	}
}

static void act(struct world *w)
{
	const struct world_app *app = w->setup->app;
	if (w->sim.now < w->next_proposal)
		return;
	w->next_proposal = w->sim.now + 1 + sim_random(&w->sim, 2 * app->propose_msec);
	for (unsigned i = 0; i < w->sim.count; i++)
		if (w->sim.server[i].up && w->replica[i].raft->state == RAFT_LEADER) {
			propose(w, &w->replica[i]);
			look(w, i);
		}
}

static void run_until(struct world *w, raft_time until)
{
	const struct world_app *app = w->setup->app;
	for (;;) {
		int i = sim_step(&w->sim, until);
		if (i == -2)
			return;
		if (i >= 0)
			look(w, (unsigned)i);
		supervise(w);
		if (!w->healed && w->sim.now >= w->next_chaos) {
			w->next_chaos = w->sim.now + 1 + sim_random(&w->sim, w->pace);
			chaos(w);
		}
		act(w);
		if (app->step)
			app->step(w->setup->arg, world_usec(w));
		const char *wrong = app->judge ? app->judge(w->setup->arg) : NULL;
		if (wrong)
			verdict(w, WORLD_APP, "%s", wrong);
	}
}

static void begin(struct world *w)
{
	const struct world_setup *s = w->setup;
	struct raft_configuration c;
	unsigned count = s->founders + (s->areas & WORLD_MEMBERS ? 2 : 0);
	sim_init(&w->sim, count > SIM_MAX ? SIM_MAX : count, s->seed);
	w->sim.trace = s->trace;
	w->sim.reorder = (s->areas & WORLD_REORDER) && (s->seed & 2);
	w->sim.repeat_1000 = w->sim.reorder ? 30 : 0;
	w->pace = (s->pace_msec ? s->pace_msec : 100u) << sim_random(&w->sim, 5);
	w->dead = -1;
	raft_configuration_init(&c);
	for (unsigned i = 0; i < w->sim.count; i++) {
		w->replica[i].w = w;
		w->replica[i].number = i;
		if (i < s->founders)
			raft_configuration_add(&c, i + 1, w->sim.server[i].address, RAFT_VOTER);
	}
	for (unsigned i = 0; i < w->sim.count; i++)
		start(w, i, i < s->founders ? &c : NULL);
	raft_configuration_close(&c);
}

static void heal(struct world *w)
{
	world_say(w, "HEAL");
	w->healed = true;
	if (w->setup->one_down) {
		w->dead = (int)sim_random(&w->sim, w->setup->founders);
		if (w->sim.server[w->dead].up)
			crash(w, (unsigned)w->dead);
	}
	memset(w->sim.cut, 0, sizeof w->sim.cut);
	w->sim.loss_1000 = 0;
	for (unsigned i = 0; i < w->sim.count; i++) {
		struct sim_server *s = &w->sim.server[i];
		s->disk_msec = 5;
		s->net_msec = 8;
		s->fail_1000 = 0;
		if (!s->up && (int)i != w->dead)
			start(w, i, NULL);
	}
}

/* Has every member that follows the log nearly everything? */
static bool members_level(struct world *w, const struct replica *l)
{
	const struct raft_configuration *c = &l->raft->configuration;
	for (unsigned i = 0; i < c->n; i++) {
		unsigned k = (unsigned)c->servers[i].id - 1;
		if (c->servers[i].role == RAFT_SPARE || (int)k == w->dead)
			continue;
		if (!w->sim.server[k].up || w->replica[k].pos + LAG < l->pos)
			return false;
	}
	return true;
}

static void live(struct world *w)
{
	const struct world_app *app = w->setup->app;
	unsigned before = w->acknowledged, unavailable = w->unavailable;
	raft_time end = w->sim.now + HEAL_MSEC;
	struct replica *l = NULL;
	while (w->sim.now < end) {
		run_until(w, w->sim.now + 2000);
		l = leader(w);
		if (l && w->acknowledged > before + 5 && members_level(w, l) &&
		    (!app->progressed || app->progressed(w->setup->arg)))
			return;
	}
	if (!l || w->acknowledged <= before + 5)
		verdict(w, WORLD_NO_PROGRESS, "no progress within %d virtual seconds after healing",
			HEAL_MSEC / 1000);
	if (w->unavailable > unavailable + 5)
		verdict(w, WORLD_NO_START, "a server gives up again and again");
	verdict(w, WORLD_BEHIND, "a member, or the application, does not get on after healing");
}

enum world_result world_run(const struct world_setup *setup, const char **ret_sentence)
{
	struct world *w = must(calloc(1, sizeof *w));
	the_world = w;
	w->setup = setup;
	if (!setjmp(w->out)) {
		begin(w);
		run_until(w, setup->wild_msec);
		heal(w);
		live(w);
		snprintf(w->sentence, sizeof w->sentence,
			 "%u acknowledged, %u crashes, %u unavailable, %u restored, %u changes, %u fatal",
			 w->acknowledged, w->crashes, w->unavailable, w->installs, w->changes, w->fatals);
		world_say(w, "%s", w->sentence);
	}
	/* A closure that is on must keep servers from giving up; without it that is its own failure. */
	if (!w->result && w->unavailable && setup->closures == LOG_GUARD_ALL) {
		w->result = WORLD_NO_START;
		snprintf(w->sentence, sizeof w->sentence, "%u times a server gave up", w->unavailable);
	}
	*ret_sentence = w->sentence;
	return w->result;
}

/* ---- many ---- */

static const char *const result_name[WORLD_RESULTS] = {"good",		"diverged",    "two leaders",
						       "lost an entry", "no progress", "left behind",
						       "no start",	"log hole",    "application"};

unsigned world_size(unsigned fast, unsigned ci, unsigned full)
{
	const char *size = getenv("MUSTER_TEST_SIZE"), *count = getenv("COUNT");
	if (count)
		return (unsigned)strtoul(count, NULL, 10);
	return !size || !strcmp(size, "fast") ? fast : !strcmp(size, "full") ? full : ci;
}

static void run_child(const struct world_setup *setup, int pipe_end)
{
	const char *sentence = "";
	setrlimit(RLIMIT_CPU, &(struct rlimit){60, 90});
	setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
	enum world_result result = world_run(setup, &sentence);
	fflush(stdout);
	if (write(pipe_end, sentence, strlen(sentence)) < 0)
		_exit(99);
	_exit((int)result);
}

unsigned world_run_many(const struct world_setup *setup, uint64_t first, unsigned seeds, unsigned *unsafe)
{
	unsigned count[WORLD_RESULTS] = {0}, crashed = 0, hung = 0, shown = 0;
	for (uint64_t seed = first; seed < first + seeds; seed++) {
		struct world_setup s = *setup;
		char sentence[301] = "";
		int ends[2], status;
		s.seed = seed;
		fflush(stdout);
		if (pipe(ends))
			abort();
		pid_t pid = fork();
		if (pid == 0)
			run_child(&s, ends[1]);
		close(ends[1]);
		if (read(ends[0], sentence, sizeof sentence - 1) < 0)
			sentence[0] = 0;
		close(ends[0]);
		waitpid(pid, &status, 0);
		unsigned result = WIFEXITED(status) ? (unsigned)WEXITSTATUS(status) : WORLD_RESULTS;
		if (result < WORLD_RESULTS) {
			count[result]++;
		} else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) {
			hung++;
			snprintf(sentence, sizeof sentence, "hung");
		} else {
			crashed++;
			snprintf(sentence, sizeof sentence, "crashed");
		}
		if (result && shown++ < 10)
			printf("  SEED=%" PRIu64 " areas %u founders %u closures %u: %s\n", seed, s.areas,
			       s.founders, s.closures, sentence);
	}
	printf("areas %3u founders %u closures %4u, %u seeds:", setup->areas, setup->founders,
	       setup->closures, seeds);
	for (unsigned i = 0; i < WORLD_RESULTS; i++)
		if (count[i])
			printf(" %s %u", result_name[i], count[i]);
	printf("%s%s\n", crashed ? " crashed" : "", hung ? " hung" : "");
	if (unsafe)
		*unsafe += count[WORLD_DIVERGED] + count[WORLD_TWO_LEADERS] + count[WORLD_LOST];
	if (crashed || hung)
		printf("  crashed %u, hung %u\n", crashed, hung);
	return seeds - count[WORLD_GOOD];
}
