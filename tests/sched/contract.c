/* tests/sched/contract.c: promises of sched.h that no story shows: versions, levels, malformed input,
 * forgetting, loading, size. */
#include <stdlib.h>
#include <string.h>

#include "proto/states.h"
#include "proto/version.h"
#include "tests/sched/harness.h"
#include "tests/sched/make.h"

static int failures;
static void check(bool ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "FAILED %s\n", what);
		failures++;
	}
}

static Mu__Author *controller(void)
{
	static Mu__Author a = MU__AUTHOR__INIT;
	a.user = (char *)"root";
	a.verifier = (char *)"controller";
	SET(&a, operator_, 1);
	return &a;
}

/* COUNT nodes n0.. of four CPUs, registered. */
static void found(struct harness *h, uint32_t count, uint32_t level)
{
	struct mu_arena arena = {0};
	Mu__Config c = MU__CONFIG__INIT;
	Mu__PartitionConf p = MU__PARTITION_CONF__INIT, *parts[] = {&p};
	Mu__Founded f = MU__FOUNDED__INIT;
	Mu__Event e = MU__EVENT__INIT;
	c.node = mu_arena_alloc(&arena, count * sizeof(c.node[0]));
	p.node = mu_arena_alloc(&arena, count * sizeof(p.node[0]));
	for (uint32_t i = 0; i < count; i++) {
		c.node[i] = mu_arena_alloc(&arena, sizeof(*c.node[i]));
		mu__node_conf__init(c.node[i]);
		c.node[i]->name = p.node[i] = mu_arena_printf(&arena, "n%u", i);
		SET(c.node[i], cpus, 4);
	}
	c.n_node = p.n_node = count;
	p.name = (char *)"debug";
	SET(&p, is_default, 1);
	c.partition = parts;
	c.n_partition = 1;
	SET(&c, slurmd_timeout_sec, 0);
	SET(&c, min_job_age_sec, 10);
	f.config = &c;
	f.has_cluster_id = 1;
	f.cluster_id = (ProtobufCBinaryData){4, (uint8_t *)"abcd"};
	SET(&f, level, level);
	e.kind_case = MU__EVENT__KIND_FOUNDED;
	e.founded = &f;
	e.author = controller();
	h_apply(h, &e);
	for (uint32_t i = 0; i < count && level == 1; i++) {
		Mu__NodeRow n = MU__NODE_ROW__INIT;
		Mu__NodeRegistered r = MU__NODE_REGISTERED__INIT;
		Mu__Author a = MU__AUTHOR__INIT;
		n.name = a.node = p.node[i];
		SET(&n, cpus, 4);
		n.has_boot_id = 1;
		n.boot_id = (ProtobufCBinaryData){4, (uint8_t *)"boot"};
		r.inventory = &n;
		mu__event__init(&e);
		e.kind_case = MU__EVENT__KIND_NODE_REGISTERED;
		e.node_registered = &r;
		e.author = &a;
		h_apply(h, &e);
	}
	mu_arena_free(&arena);
}

static Mu__Event *submission(struct mu_arena *arena, uint32_t nodes)
{
	Mu__Event *e = mu_arena_alloc(arena, sizeof(*e));
	Mu__JobSpec *s = mu_arena_alloc(arena, sizeof(*s));
	mu__event__init(e);
	mu__job_spec__init(s);
	e->kind_case = MU__EVENT__KIND_SUBMITTED;
	e->submitted = mu_arena_alloc(arena, sizeof(*e->submitted));
	mu__submitted__init(e->submitted);
	e->submitted->spec = s;
	SET(s, nodes_min, nodes);
	SET(s, batch, 1);
	e->author = controller();
	return e;
}

static Mu__Event *tick(struct mu_arena *arena)
{
	Mu__Event *e = mu_arena_alloc(arena, sizeof(*e));
	mu__event__init(e);
	e->kind_case = MU__EVENT__KIND_TICK;
	e->tick = mu_arena_alloc(arena, sizeof(*e->tick));
	mu__tick__init(e->tick);
	e->author = controller();
	return e;
}

static void digest(const struct harness *h, struct mu_hash *ret)
{
	sch_digest(h->st, ret);
}

static void versions(void)
{
	static const uint8_t unknown[] = {0xa2, 0x3f, 0x00}; /* field 1012, an empty message */
	static const uint8_t broken[] = {0xf2, 0x01, 0x7f};
	struct harness h;
	struct mu_hash a, b;
	h_open(&h, true);
	found(&h, 2, 99);
	check(h.count == 0 && !sch_founded(h.st), "a founding above our level stops the replica");
	found(&h, 2, 1);
	digest(&h, &a);
	check(h_apply_bytes(&h, unknown, sizeof(unknown)) == MU_EVERSION,
	      "an unknown type stops the replica");
	digest(&h, &b);
	check(memcmp(&a, &b, sizeof(a)) == 0, "and changes nothing");
	check(h_apply_bytes(&h, broken, sizeof(broken)) == MU_EPROTO, "malformed bytes are void");
	check(h_apply_bytes(&h, broken, 0) == MU_EPROTO, "no bytes are void");
	check(!h.failure[0], h.failure);
	h_close(&h);
}

static int raise_level(struct harness *h, uint32_t level)
{
	Mu__LevelRaised l = MU__LEVEL_RAISED__INIT;
	Mu__Event e = MU__EVENT__INIT;
	SET(&l, level, level);
	e.kind_case = MU__EVENT__KIND_LEVEL_RAISED;
	e.level_raised = &l;
	e.author = controller();
	return h_apply(h, &e);
}

static void levels(void)
{
	struct harness h;
	Mu__ReplicaLevel r = MU__REPLICA_LEVEL__INIT;
	Mu__Event e = MU__EVENT__INIT;
	h_open(&h, true);
	found(&h, 1, 1);
	check(raise_level(&h, MU_LEVEL + 1) == MU_EVERSION, "a level above ours stops the replica");
	check(raise_level(&h, 1) == MU_EVOID, "the present level is void");
	e.kind_case = MU__EVENT__KIND_REPLICA_LEVEL;
	e.replica_level = &r;
	e.author = controller();
	SET(&r, replica, 1);
	SET(&r, level, MU_LEVEL - 1);
	check(h_apply(&h, &e) == 0, "a controller reports its level");
#if MU_LEVEL >= 2
	Mu__LevelProbe probe = MU__LEVEL_PROBE__INIT;
	Mu__Event p = MU__EVENT__INIT;
	SET(&probe, value, 7);
	p.kind_case = MU__EVENT__KIND_LEVEL_PROBE;
	p.level_probe = &probe;
	p.author = controller();
	check(h_apply(&h, &p) == MU_EVOID, "an event of the next level is void before it");
	check(raise_level(&h, 2) == MU_EVOID, "no level before every controller has reported it");
	SET(&r, level, 2);
	h_apply(&h, &e);
	check(raise_level(&h, 2) == 0 && sch_level(h.st) == 2, "then it is raised");
	check(h_apply(&h, &p) == 0 && sch_cluster(h.st)->probe == 7, "and the event is known");
#else
	Mu__LevelProbe probe = MU__LEVEL_PROBE__INIT;
	Mu__Event p = MU__EVENT__INIT;
	p.kind_case = MU__EVENT__KIND_LEVEL_PROBE;
	p.level_probe = &probe;
	check(h_apply(&h, &p) == MU_EVERSION, "an event of the next level stops this build");
#endif
	check(!h.failure[0], h.failure);
	h_close(&h);
}

static void requests(void)
{
	struct harness h;
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	Mu__RequestId id = MU__REQUEST_ID__INIT;
	h_open(&h, true);
	found(&h, 1, 1);
	Mu__Event *e = submission(&arena, 1);
	e->request = &id;
	id.has_nonce = 1;
	id.nonce = (ProtobufCBinaryData){16, (uint8_t *)"0123456789abcdef"};
	SET(&id, birth_usec, h.now_usec);
	check(h_apply(&h, e) == 0 && h.verdict.job == 1, "a request is done");
	check(h_apply(&h, e) == 0 && h.verdict.repeated && h.verdict.job == 1, "and answered again");
	h.now_usec += INT64_C(86401) * 1000000;
	h_apply(&h, tick(&arena));
	Mu__RequestId other = id;
	Mu__Event *f = submission(&arena, 1);
	f->request = &other;
	other.nonce = (ProtobufCBinaryData){16, (uint8_t *)"fedcba9876543210"};
	SET(&other, birth_usec, h.now_usec);
	check(h_apply(&h, f) == 0 && h.verdict.job == 2, "a day later another is done");
	check(sch_admit(h.st, e, &err) == MU_ESTALE, "the first is refused now");
	check(h_apply(&h, e) == MU_ESTALE, "and void when it slips through");
	SET(&other, birth_usec, h.now_usec + INT64_C(7200) * 1000000);
	check(h_apply(&h, f) == MU_EINVAL, "a birth hours ahead is refused");
	check(!h.failure[0], h.failure);
	h_close(&h);
	mu_arena_free(&arena);
}

static void authors(void)
{
	struct harness h;
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	Mu__Author user = MU__AUTHOR__INIT;
	h_open(&h, true);
	found(&h, 1, 1);
	Mu__Event *e = tick(&arena);
	SET(&user, uid, 1000);
	e->author = &user;
	check(sch_admit(h.st, e, &err) == MU_EPERM, "nobody else makes a leader's events");
	e->author = NULL;
	check(sch_admit(h.st, e, &err) == MU_EAUTH, "nobody unknown asks for anything");
	h_close(&h);
	mu_arena_free(&arena);
}

static void test_only(void)
{
	struct harness h;
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	struct mu_hash a, b;
	Mu__Reply reply = MU__REPLY__INIT;
	h_open(&h, true);
	found(&h, 2, 1);
	Mu__Event *e = submission(&arena, 2);
	SET(e->submitted->spec, time_limit_sec, 600);
	digest(&h, &a);
	check(sch_test_only(h.st, e, &arena, &reply, &err) == 0 && reply.start_usec == h.now_usec &&
		  strcmp(reply.nodes, "n[0-1]") == 0 && reply.cpus == 2 && reply.job == 1 &&
		  strcmp(reply.partition, "debug") == 0,
	      "when and where on an idle cluster");
	digest(&h, &b);
	check(memcmp(&a, &b, sizeof(a)) == 0, "asking changes nothing");
	SET(e->submitted->spec, exclusive, 1);
	h_apply(&h, e);
	h_decide(&h);
	check(sch_test_only(h.st, e, &arena, &reply, &err) == 0 &&
		  reply.start_usec == h.now_usec + INT64_C(600) * 1000000,
	      "when on a full one");
	SET(e->submitted->spec, nodes_min, 3);
	SET(e->submitted->spec, ntasks, 9);
	check(sch_test_only(h.st, e, &arena, &reply, &err) == MU_ENODECONFIG && err.text[0],
	      "never, with a sentence");
	h_close(&h);
	mu_arena_free(&arena);
}

/* One job on many nodes that all give it the same: its start must fit an entry. */
static void wide_start(void)
{
	struct harness h;
	struct mu_arena arena = {0};
	h_open(&h, false);
	found(&h, 3000, 1);
	Mu__Event *e = submission(&arena, 3000), *d = NULL;
	h_apply(&h, e);
	sch_decide(h.st, 1000000, &arena, &d);
	check(d && d->decided->n_start == 1 && mu__event__get_packed_size(d) < 1000,
	      "a start on 3,000 like nodes is one element");
	h_decide(&h);
	const Mu__JobRow *j = sch_job(h.st, 1);
	check(j->state == JOB_RUNNING && j->n_alloc == 3000 && strcmp(j->node_list, "n[0-2999]") == 0,
	      "and starts on all of them");
	check(h_invariants(&h), "with all invariants");
	h_close(&h);
	mu_arena_free(&arena);
}

static uint64_t bytes(const struct harness *h)
{
	struct sch_counts c;
	sch_counts(h->st, &c);
	return c.state_bytes;
}

/* State's size after many finished jobs is what it was before them. */
static void forgetting(void)
{
	struct harness h;
	struct mu_arena arena = {0};
	uint64_t before = 0;
	h_open(&h, false);
	found(&h, 1, 1);
	for (uint32_t round = 0; round < 20; round++) {
		for (uint32_t i = 0; i < 100; i++) {
			mu_arena_reset(&arena);
			Mu__Event *e = submission(&arena, 1), c = MU__EVENT__INIT;
			e->submitted->spec->name = mu_arena_printf(&arena, "job %u", round * 100 + i);
			h_apply(&h, e);
			Mu__JobSignal s = MU__JOB_SIGNAL__INIT;
			uint32_t id = h.verdict.job;
			s.job = &id;
			s.n_job = 1;
			c.kind_case = MU__EVENT__KIND_JOB_SIGNAL;
			c.job_signal = &s;
			c.author = controller();
			h_apply(&h, &c);
		}
		h.now_usec += 20 * 1000000;
		h_apply(&h, tick(&arena));
		if (round == 0)
			before = bytes(&h);
	}
	check(bytes(&h) == before, "State does not grow with finished jobs");
	h_close(&h);
	mu_arena_free(&arena);
}

static void loading(void)
{
	struct mu_err err = {0};
	struct harness h;
	struct mu_buf row = {0};
	struct sch_key key = {.kind = SCH_ROW_NODE, .len = 2, .bytes = "n0"};
	h_open(&h, true);
	found(&h, 1, 1);
	sch_row_pack(h.st, &key, &row);
	struct sch_state *st = sch_state_new();
	check(sch_load_row(st, 77, row.data, row.len, &err) == MU_EPROTO, "no such kind of row");
	check(sch_load_row(st, SCH_ROW_NODE, (const uint8_t *)"\xff\xff", 2, &err) == MU_EPROTO,
	      "garbage is no row");
	check(sch_load_row(st, SCH_ROW_NODE, row.data, row.len, &err) == 0, "a row loads");
	check(sch_load_row(st, SCH_ROW_NODE, row.data, row.len, &err) == MU_ECORRUPT, "once");
	key.bytes[1] = '7';
	check(sch_row_pack(h.st, &key, &row) == MU_ENOENT, "a row that is not there");
	sch_state_free(st);
	mu_buf_free(&row);
	h_close(&h);
}

int main(void)
{
	versions();
	levels();
	requests();
	authors();
	test_only();
	wide_start();
	forgetting();
	loading();
	printf("%d failures\n", failures);
	return failures ? 1 : 0;
}
