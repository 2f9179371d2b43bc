/* tests/log/vopr.c: the whole in virtual time: replicas with the real guard, the real State, evolve and
 * decide; clients that submit and cancel and ask again; nodes that pull orders from any controller, die and
 * return. Beside the world's judges: a request is answered the same however often it is sent, no CPU and no
 * GPU is given to two attempts at once as the nodes see it, the digest kept is the digest walked, and when
 * the chaos ends every job ends.
 *
 * vopr                       seeds by MUSTER_TEST_SIZE or COUNT, from SEED
 * vopr careless              nodes obey orders older than those they know: good when the judge sees what
 * comes of it vopr one SEED AREAS FOUNDERS [TRACE] */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/map.h"
#include "proto/conf.h"
#include "tests/log/vopr_int.h"

enum {
	WAITING_MAX = 30 /* more could not end in the time after healing */,
	DECIDE_STEPS = 2000,
	HEARD_USEC = 1000000,
	WALK_EVERY = 64
};

/* One controller's process. */
struct server {
	struct vopr *v;
	unsigned number;
	struct sch_state *st;
	struct sch_changes changes;
	struct mu_arena arena;
	struct mu_buf part[WORLD_PARTS];
	uint64_t decided_pos; /* nothing new can come of deciding again over it */
	int64_t heard_usec, ticked_usec;
	bool announced; /* our election stands in the log */
	unsigned next_ask;
	uint8_t in_flight[ASKS_MAX]; /* proposed by this leader and not committed yet: a retry waits for it */
};

void vopr_wrong(struct vopr *v, const char *format, ...)
{
	va_list args;
	if (v->wrong[0])
		return;
	va_start(args, format);
	vsnprintf(v->wrong, sizeof v->wrong, format, args);
	va_end(args);
}

const struct sch_state *vopr_any_state(void)
{
	struct server *s = world_state(world_now(), world_random(world_now(), SIM_MAX));
	return s && sch_founded(s->st) ? s->st : NULL;
}

/* ---- requests ---- */

int vopr_ask(struct vopr *v, Mu__Event *e, int node, int64_t now_usec)
{
	Mu__RequestId id = MU__REQUEST_ID__INIT;
	uint8_t nonce[16] = {0};
	if (v->asks == ASKS_MAX) {
		vopr_wrong(v, "more than %d requests", ASKS_MAX);
		return -1;
	}
	struct ask *a = &v->ask[v->asks];
	mu_put_be64(nonce, v->asks);
	SET(&id, birth_usec, now_usec);
	id.has_nonce = 1;
	id.nonce = (ProtobufCBinaryData){sizeof nonce, nonce};
	e->request = &id;
	*a = (struct ask){.node = node, .open = true, .ready_usec = now_usec};
	if (world_random(world_now(), 8) == 0)
		a->ready_usec += (int64_t)world_random(world_now(), 8000) * 1000;
	mu_pb_pack(&e->base, &a->event);
	e->request = NULL;
	return (int)v->asks++;
}

static struct ask *ask_of(struct vopr *v, const Mu__Event *e)
{
	if (!e || !e->request || e->request->nonce.len != 16)
		return NULL;
	uint64_t i = mu_get_be64(e->request->nonce.data);
	return i < v->asks ? &v->ask[i] : NULL;
}

static void answered(struct vopr *v, struct ask *a, uint64_t pos, const struct sch_verdict *verdict)
{
	if (a->answered) {
		if (a->code != verdict->code || a->job != verdict->job)
			vopr_wrong(v, "request %td was answered %d, job %u, and later %d, job %u", a - v->ask,
				   a->code, a->job, verdict->code, verdict->job);
		if (pos != a->pos) {
			v->repeated++;
			a->open = false;
		}
		return;
	}
	a->answered = true;
	a->code = verdict->code;
	a->job = verdict->job;
	a->pos = pos;
	a->open = world_random(world_now(), 4) == 0; /* the answer was lost: it is asked once more */
	if (a->job > v->last_job)
		v->last_job = a->job;
}

/* ---- clients ---- */

static void submit(struct vopr *v, int64_t now_usec)
{
	Mu__Event e = MU__EVENT__INIT;
	Mu__Author who = MU__AUTHOR__INIT;
	Mu__Submitted s = MU__SUBMITTED__INIT;
	Mu__JobSpec spec = MU__JOB_SPEC__INIT;
	Mu__GresAsk gpu = MU__GRES_ASK__INIT, *gres[1] = {&gpu};
	uint8_t key[32] = {1}, hash[32] = {2};
	struct world *w = world_now();
	who.user = (char *)"u";
	who.group = (char *)"g";
	SET(&who, uid, 1000);
	SET(&who, gid, 1000);
	who.verifier = (char *)"munge";
	spec.name = (char *)"job";
	SET(&spec, batch, true);
	spec.has_script_hash = 1;
	spec.script_hash = (ProtobufCBinaryData){32, hash};
	SET(&spec, ntasks, 1 + world_random(w, 4));
	SET(&spec, nodes_min, 1 + (world_random(w, 4) == 0 && spec.ntasks > 1));
	SET(&spec, time_limit_sec, 3 + world_random(w, 60));
	SET(&spec, mem_node_mib, 100 + world_random(w, 3000));
	if (world_random(w, 2)) {
		gpu.name = (char *)"gpu";
		SET(&gpu, count, 1 + world_random(w, NODE_GPUS));
		spec.gres = gres;
		spec.n_gres = 1;
	}
	s.spec = &spec;
	s.has_job_key = 1;
	s.job_key = (ProtobufCBinaryData){32, key};
	e.author = &who;
	e.kind_case = MU__EVENT__KIND_SUBMITTED;
	e.submitted = &s;
	vopr_ask(v, &e, -1, now_usec);
	v->submitted++;
}

static void cancel(struct vopr *v, int64_t now_usec)
{
	Mu__Event e = MU__EVENT__INIT;
	Mu__Author who = MU__AUTHOR__INIT;
	Mu__JobSignal s = MU__JOB_SIGNAL__INIT;
	uint32_t job = 1 + world_random(world_now(), v->last_job);
	who.user = (char *)"u";
	SET(&who, uid, 1000);
	who.verifier = (char *)"munge";
	s.job = &job;
	s.n_job = 1;
	e.author = &who;
	e.kind_case = MU__EVENT__KIND_JOB_SIGNAL;
	e.job_signal = &s;
	vopr_ask(v, &e, -1, now_usec);
}

static bool due(int64_t *at_usec, int64_t now_usec, unsigned mean_msec)
{
	if (now_usec < *at_usec)
		return false;
	*at_usec = now_usec + (int64_t)world_random(world_now(), 2 * mean_msec) * 1000;
	return !world_healed(world_now());
}

static void step(void *world_arg, int64_t now_usec)
{
	struct vopr *v = world_arg;
	if (due(&v->submit_usec, now_usec, 400) && v->submitted < v->launched + WAITING_MAX)
		submit(v, EPOCH_USEC + now_usec);
	if (due(&v->cancel_usec, now_usec, 1000) && v->last_job)
		cancel(v, EPOCH_USEC + now_usec);
	agents_step(v, EPOCH_USEC + now_usec, due(&v->chaos_usec, now_usec, 2000));
}

/* ---- the leader's work ---- */

static void add_part(struct server *s, Mu__Event *e, struct log_part *parts, size_t *count)
{
	static Mu__Author leader = MU__AUTHOR__INIT;
	struct mu_buf *b = &s->part[*count];
	leader.verifier = (char *)"controller";
	e->author = &leader;
	mu_buf_reset(b);
	mu_pb_pack(&e->base, b);
	parts[(*count)++] = (struct log_part){LOG_PART_EVENT, {b->data, b->len}};
}

static void found(struct server *s, struct log_part *parts, size_t *count)
{
	Mu__Event e = MU__EVENT__INIT;
	Mu__Founded f = MU__FOUNDED__INIT;
	struct mu_err err = {0};
	char text[1024];
	snprintf(text, sizeof text,
		 "ClusterName=vopr\nSlurmctldHost=c1\nGresTypes=gpu\nSelectType=select/cons_tres\n"
		 "SelectTypeParameters=CR_CORE_MEMORY\nSlurmdTimeout=6\nMinJobAge=5\nKillWait="
		 "1\nReturnToService=2\n"
		 "NodeName=n[1-%d] CPUs=%d Sockets=1 CoresPerSocket=%d ThreadsPerCore=1 RealMemory=8000 "
		 "Gres=gpu:%d\n"
		 "PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
		 NODES, NODE_CPUS, NODE_CPUS, NODE_GPUS);
	if (mu_conf_parse("vopr.conf", text, NULL, NULL, NULL, &s->arena, &f.config, &err)) {
		vopr_wrong(s->v, "%s", err.text);
		return;
	}
	f.name = (char *)"vopr";
	f.has_cluster_id = 1;
	f.cluster_id = (ProtobufCBinaryData){16, (uint8_t *)"0123456789abcdef"};
	SET(&f, level, 1);
	e.kind_case = MU__EVENT__KIND_FOUNDED;
	e.founded = &f;
	add_part(s, &e, parts, count);
}

static void announce(struct server *s, struct log_part *parts, size_t *count)
{
	Mu__Event e = MU__EVENT__INIT;
	Mu__LeaderElected l = MU__LEADER_ELECTED__INIT;
	SET(&l, replica, s->number + 1);
	e.kind_case = MU__EVENT__KIND_LEADER_ELECTED;
	e.leader_elected = &l;
	add_part(s, &e, parts, count);
}

static void heard(struct server *s, int64_t now_usec, struct log_part *parts, size_t *count)
{
	Mu__Event e = MU__EVENT__INIT;
	Mu__NodesHeard h = MU__NODES_HEARD__INIT;
	uint8_t bits[(NODES + 7) / 8] = {0};
	if (now_usec - s->heard_usec < HEARD_USEC)
		return;
	s->heard_usec = now_usec;
	for (unsigned i = 0; i < NODES; i++) {
		const Mu__NodeRow *n = sch_node(s->st, s->v->agent[i].name);
		if (n && agents_reachable(&s->v->agent[i], now_usec))
			bits[n->order / 8] |= (uint8_t)(1u << n->order % 8);
	}
	h.has_heard = 1;
	h.heard = (ProtobufCBinaryData){sizeof bits, bits};
	e.kind_case = MU__EVENT__KIND_NODES_HEARD;
	e.nodes_heard = &h;
	add_part(s, &e, parts, count);
}

static void decide(struct server *s, struct log_part *parts, size_t *count)
{
	Mu__Event *e = NULL;
	if (s->decided_pos == sch_pos(s->st) || !sch_wants_decide(s->st))
		return;
	s->decided_pos = sch_pos(s->st);
	if (sch_decide(s->st, DECIDE_STEPS, &s->arena, &e) == 0 && e)
		add_part(s, e, parts, count);
}

static void tick(struct server *s, int64_t now_usec, struct log_part *parts, size_t *count)
{
	Mu__Event e = MU__EVENT__INIT;
	Mu__Tick t = MU__TICK__INIT;
	int64_t due = sch_due_usec(s->st);
	if (!due || due > now_usec || now_usec - s->ticked_usec < 500000)
		return;
	s->ticked_usec = now_usec;
	e.kind_case = MU__EVENT__KIND_TICK;
	e.tick = &t;
	add_part(s, &e, parts, count);
}

/* Some of the open requests, each as its sender would send it to whoever leads. */
static void take_asks(struct server *s, int64_t now_usec, struct log_part *parts, size_t *count)
{
	struct vopr *v = s->v;
	for (unsigned k = 0; k < v->asks && *count < WORLD_PARTS - 1; k++) {
		struct ask *a = &v->ask[s->next_ask++ % v->asks];
		struct mu_err err = {0};
		if (a->forget_usec && now_usec > a->forget_usec)
			a->open = false;
		if (!a->open || now_usec < a->ready_usec || s->in_flight[a - v->ask] ||
		    world_random(world_now(), 3) == 0)
			continue;
		if (!a->forget_usec && a->node >= 0 && !agents_reachable(&v->agent[a->node], now_usec))
			continue;
		Mu__Event *e =
		    (Mu__Event *)mu_pb_unpack(&mu__event__descriptor, a->event.data, a->event.len, &s->arena);
		int rv = e ? sch_admit(s->st, e, &err) : MU_EPROTO;
		if (rv) {
			a->open = false; /* refused: that was the answer */
			if (!a->answered)
				a->code = rv;
			a->answered = true;
			continue;
		}
		struct mu_buf *b = &s->part[*count];
		mu_buf_reset(b);
		mu_pb_pack(&e->base, b);
		s->in_flight[a - v->ask] = 1;
		parts[(*count)++] = (struct log_part){LOG_PART_EVENT, {b->data, b->len}};
	}
}

static size_t propose(void *st, int64_t now_usec, struct log_part parts[WORLD_PARTS], int64_t *ret_time_usec)
{
	struct server *s = st;
	size_t count = 0;
	int64_t now = EPOCH_USEC + now_usec, last = sch_now_usec(s->st);
	*ret_time_usec = now > last ? now : last;
	mu_arena_reset(&s->arena);
	if (!sch_founded(s->st)) {
		found(s, parts, &count);
		return count;
	}
	if (!s->announced)
		announce(s, parts, &count);
	else
		decide(s, parts, &count);
	heard(s, now, parts, &count);
	tick(s, now, parts, &count);
	take_asks(s, now, parts, &count);
	return count;
}

/* ---- the State as the world's application ---- */

static void *app_open(void *world_arg, unsigned number)
{
	struct server *s = calloc(1, sizeof *s);
	s->v = world_arg;
	s->number = number;
	s->st = sch_state_new();
	return s;
}

static void app_close(void *st)
{
	struct server *s = st;
	sch_state_free(s->st);
	sch_changes_free(&s->changes);
	mu_arena_free(&s->arena);
	for (unsigned i = 0; i < WORLD_PARTS; i++)
		mu_buf_free(&s->part[i]);
	free(s);
}

static void app_apply(void *st, uint64_t pos, const struct log_entry *entry)
{
	struct server *s = st;
	struct log_part part;
	struct sch_at at = {.pos = pos, .time_usec = entry->time_usec};
	struct mu_arena arena = {0};
	size_t cursor = 0;
	sch_changes_reset(&s->changes);
	for (; log_entry_next(entry, &cursor, &part); at.n++) {
		struct sch_verdict verdict;
		struct mu_err err = {0};
		if (sch_evolve(s->st, &at, part.bytes.data, part.bytes.len, &verdict, &s->changes, &err))
			vopr_wrong(s->v, "evolve stops at %" PRIu64 ": %s", pos, err.text);
		Mu__Event *e = (Mu__Event *)mu_pb_unpack(&mu__event__descriptor, part.bytes.data,
							 part.bytes.len, &arena);
		struct ask *a = ask_of(s->v, e);
		if (a && !a->answered && e->kind_case == MU__EVENT__KIND_NODE_REGISTERED)
			world_say(world_now(), "request %td is folded at %" PRIu64 ": %s registers, %d",
				  a - s->v->ask, pos, e->node_registered->inventory->name, verdict.code);
		if (a) {
			answered(s->v, a, pos, &verdict);
			s->in_flight[a - s->v->ask] = 0;
		}
		if (e && e->kind_case == MU__EVENT__KIND_LEADER_ELECTED)
			s->announced = e->leader_elected->replica == s->number + 1;
	}
	mu_arena_free(&arena);
	sch_entry_done(s->st, pos, entry->time_usec, &s->changes);
	if (pos % WALK_EVERY == 0) {
		struct mu_hash kept, walked;
		sch_digest(s->st, &kept);
		sch_digest_walk(s->st, &walked);
		if (memcmp(&kept, &walked, sizeof kept))
			vopr_wrong(s->v, "the digest kept at %" PRIu64 " is not the digest walked", pos);
	}
}

/* What was proposed before may be lost, or committed by others: from now on a retry is proposed again. */
static void app_deposed(void *st)
{
	struct server *s = st;
	memset(s->in_flight, 0, sizeof s->in_flight);
}

static void app_digest(void *st, struct mu_hash *ret)
{
	sch_digest(((struct server *)st)->st, ret);
}

static int put_row(void *arg, const struct sch_key *key, const uint8_t *row, size_t len)
{
	struct mu_buf *out = arg;
	uint32_t n = (uint32_t)len;
	mu_buf_add(out, &key->kind, 1);
	mu_buf_add(out, &n, sizeof n);
	mu_buf_add(out, row, len);
	return 0;
}

static void app_rows(void *st, struct mu_buf *out)
{
	sch_rows(((struct server *)st)->st, 0, put_row, out);
}

static bool app_restore(void *st, const uint8_t *rows, size_t len)
{
	struct server *s = st;
	struct mu_err err = {0};
	for (size_t at = 0; at < len;) {
		uint32_t n;
		memcpy(&n, rows + at + 1, sizeof n);
		if (sch_load_row(s->st, rows[at], rows + at + 5, n, &err))
			return false;
		at += 5 + n;
	}
	return sch_load_done(s->st, &err) == 0;
}

/* For the story of a seed: why what waits waits. */
static void tell(struct vopr *v, const struct sch_state *st)
{
	for (unsigned i = 0; i < NODES; i++) {
		const Mu__NodeRow *n = sch_node(st, v->agent[i].name);
		if (n)
			world_say(world_now(), "%s: base %u flags %x, %u CPUs held, registered %d, up %d: %s",
				  n->name, n->base_state, n->flags, n->alloc_cpus, v->agent[i].registered,
				  v->agent[i].up, n->reason ? n->reason : "");
	}
	for (uint32_t id = 1; id <= v->last_job; id++) {
		const Mu__JobRow *j = sch_job(st, id);
		if (j && j->state <= 1)
			world_say(world_now(),
				  "job %u: state %u reason %u %s priority %u eligible in %" PRId64 " ms", id,
				  j->state, j->reason, j->reason_detail ? j->reason_detail : "", j->priority,
				  (j->eligible_usec - sch_now_usec(st)) / 1000);
	}
	world_say(world_now(), "wants to decide: %d, due in %" PRId64 " ms", sch_wants_decide(st),
		  (sch_due_usec(st) - sch_now_usec(st)) / 1000);
}

static const char *judge(void *world_arg)
{
	struct vopr *v = world_arg;
	return v->wrong[0] ? v->wrong : NULL;
}

/* Every request is answered and every job has ended. */
static bool progressed(void *world_arg)
{
	struct vopr *v = world_arg;
	struct server *l = world_leader(world_now());
	struct sch_counts c;
	if (!l)
		return false;
	for (unsigned i = 0; i < v->asks; i++)
		if (!v->ask[i].answered && !v->ask[i].forget_usec)
			return false;
	sch_counts(l->st, &c);
	world_say(world_now(),
		  "%u submitted, %u launched, %u repeated; pending %u, running %u, completing %u",
		  v->submitted, v->launched, v->repeated, c.jobs_pending, c.jobs_running, c.jobs_completing);
	if (c.jobs_pending + c.jobs_running + c.jobs_completing == 0)
		return true;
	tell(v, l->st);
	return false;
}

static const struct world_app state_app = {.open = app_open,
					   .close = app_close,
					   .apply = app_apply,
					   .digest = app_digest,
					   .rows = app_rows,
					   .restore = app_restore,
					   .propose = propose,
					   .deposed = app_deposed,
					   .step = step,
					   .judge = judge,
					   .progressed = progressed,
					   .propose_msec = 30};

static struct vopr *vopr_new(void)
{
	struct vopr *v = calloc(1, sizeof *v);
	agents_init(v);
	return v;
}

int main(int argc, char **argv)
{
	static const struct {
		unsigned areas, founders, share;
	} table[] = {{WORLD_CUTS | WORLD_CRASHES, 3, 30}, {511, 3, 45}, {511, 5, 25}};
	const char *from = getenv("SEED");
	unsigned seeds = world_size(12, 200, 1000), failed = 0;
	struct world_setup s = {.closures = LOG_GUARD_ALL,
				.wild_msec = 60000,
				.pace_msec = 300,
				.app = &state_app,
				.arg = vopr_new()};
	if (argc > 4 && !strcmp(argv[1], "one")) {
		const char *sentence;
		s.seed = strtoull(argv[2], NULL, 10);
		s.areas = (unsigned)strtoul(argv[3], NULL, 10);
		s.founders = (unsigned)strtoul(argv[4], NULL, 10);
		s.trace = argc > 5 ? (int)strtol(argv[5], NULL, 10) : 1;
		setvbuf(stdout, NULL, _IOLBF, 0);
		int result = (int)world_run(&s, &sentence);
		printf("seed %" PRIu64 ": %d %s\n", s.seed, result, sentence);
		return result;
	}
	bool careless = argc > 1 && !strcmp(argv[1], "careless");
	((struct vopr *)s.arg)->careless = careless;
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		unsigned share = seeds * table[i].share / 100;
		s.areas = table[i].areas;
		s.founders = table[i].founders;
		failed += world_run_many(&s, from ? strtoull(from, NULL, 10) : 1, share ? share : 1, NULL);
	}
	return careless ? failed == 0 : failed != 0;
}
