/* tests/query/real.c: events for the real core, packed and folded. */
#include "tests/query/real.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/map.h"
#include "proto/conf.h"
#include "proto/pb.h"
#include "proto/states.h"

#define SET(row, field, value) ((row)->has_##field = 1, (row)->field = (value))

static Mu__Event *event(struct real *r, Mu__Event__KindCase kind, unsigned user)
{
	static char *const names[4] = {"root", "ann", "bob", "cyn"};
	Mu__Event *e = mu_arena_alloc(&r->arena, sizeof *e);
	Mu__Author *a = mu_arena_alloc(&r->arena, sizeof *a);

	mu__event__init(e);
	mu__author__init(a);
	e->kind_case = kind;
	e->author = a;
	a->user = names[user];
	a->group = "users";
	SET(a, uid, user ? 1000 + user : 0);
	SET(a, gid, 100);
	SET(a, operator_, user == 0);
	a->verifier = "socket";
	e->request = mu_arena_alloc(&r->arena, sizeof *e->request);
	mu__request_id__init(e->request);
	SET(e->request, birth_usec, r->now_usec);
	e->request->has_nonce = 1;
	e->request->nonce = (ProtobufCBinaryData){16, mu_arena_alloc(&r->arena, 16)};
	mu_put_be64(e->request->nonce.data, ++r->requests);
	return e;
}

/* BLOB, where it is not empty, and COUNT events as one entry. */
static void entry_of(struct real *r, struct mu_view blob, Mu__Event *const *events, size_t count)
{
	struct view_part *parts = mu_arena_alloc(&r->arena, (count + 1) * sizeof *parts);
	struct mu_buf *bytes = mu_arena_alloc(&r->arena, count * sizeof *bytes);
	size_t n = 0;

	if (blob.len)
		parts[n++] = (struct view_part){2, blob};
	for (size_t i = 0; i < count; i++) {
		mu_pb_pack(&events[i]->base, &bytes[i]);
		parts[n++] = (struct view_part){1, {bytes[i].data, bytes[i].len}};
	}
	fake_log_add(&r->log, r->now_usec, parts, n);
	for (size_t i = 0; i < count; i++)
		mu_buf_free(&bytes[i]);
	mu_arena_reset(&r->arena);
}

static void entry(struct real *r, Mu__Event *const *events, size_t count)
{
	entry_of(r, (struct mu_view){0}, events, count);
}

static void one(struct real *r, Mu__Event *e)
{
	entry(r, &e, 1);
}

static void found(struct real *r, unsigned nodes, unsigned cpus, unsigned silence_sec, const char *lines)
{
	char text[1024];
	struct mu_err err = {0};

	snprintf(text, sizeof text,
		 "ClusterName=view\nSlurmctldHost=c1\nSelectType=select/"
		 "cons_tres\nSelectTypeParameters=CR_CPU\nMinJobAge=300\nSlurmdTimeout=%u\n"
		 "NodeName=n[1-%u] CPUs=%u RealMemory=64000\nPartitionName=debug Nodes=ALL Default=YES "
		 "MaxTime=INFINITE State=UP\n%s",
		 silence_sec, nodes, cpus, lines);
	Mu__Event *e = event(r, MU__EVENT__KIND_FOUNDED, 0);
	Mu__Founded *f = e->founded = mu_arena_alloc(&r->arena, sizeof *f);
	mu__founded__init(f);
	e->author->verifier = "controller";
	f->name = "view";
	SET(f, cluster_id, ((ProtobufCBinaryData){16, (uint8_t *)"0123456789abcdef"}));
	SET(f, level, 1);
	if (mu_conf_parse("muster.conf", text, NULL, NULL, NULL, &r->arena, &f->config, &err)) {
		fprintf(stderr, "%s\n", err.text);
		abort();
	}
	one(r, e);
	for (unsigned i = 1; i <= nodes; i++) {
		e = event(r, MU__EVENT__KIND_NODE_REGISTERED, 0);
		Mu__NodeRegistered *n = e->node_registered = mu_arena_alloc(&r->arena, sizeof *n);
		Mu__NodeRow *row = mu_arena_alloc(&r->arena, sizeof *row);
		mu__node_registered__init(n);
		mu__node_row__init(row);
		n->inventory = row;
		row->name = mu_arena_printf(&r->arena, "n%u", i);
		e->author->node = row->name;
		SET(row, cpus, cpus);
		SET(row, sockets, 1);
		SET(row, cores_per_socket, cpus);
		SET(row, threads_per_core, 1);
		SET(row, real_memory_mib, 64000);
		SET(row, boot_id, ((ProtobufCBinaryData){6, (uint8_t *)"boot 1"}));
		one(r, e);
	}
}

void real_open_with(struct real *r, unsigned nodes, unsigned cpus, unsigned silence_sec, const char *lines)
{
	*r = (struct real){.now_usec = 1700000000000000};
	fake_log_init(&r->log, 1);
	found(r, nodes, cpus, silence_sec, lines);
}

void real_open(struct real *r, unsigned nodes, unsigned cpus, unsigned silence_sec)
{
	real_open_with(r, nodes, cpus, silence_sec, "");
}

void real_close(struct real *r)
{
	fake_log_done(&r->log);
	mu_arena_free(&r->arena);
}

static Mu__Event *submission(struct real *r, uint32_t cpus, unsigned user, bool hold)
{
	Mu__Event *e = event(r, MU__EVENT__KIND_SUBMITTED, user);
	Mu__Submitted *s = e->submitted = mu_arena_alloc(&r->arena, sizeof *s);
	Mu__JobSpec *spec = mu_arena_alloc(&r->arena, sizeof *spec);
	mu__submitted__init(s);
	mu__job_spec__init(spec);
	s->spec = spec;
	spec->name = mu_arena_printf(&r->arena, "job%u", r->last_job % 7);
	SET(spec, ntasks, 1);
	SET(spec, cpus_per_task, cpus);
	SET(spec, mem_node_mib, 100);
	SET(spec, time_limit_sec, 3600);
	SET(spec, batch, 1);
	SET(spec, requeue, 1);
	SET(spec, work_dir, ((ProtobufCBinaryData){9, (uint8_t *)"/home/ann"}));
	SET(spec, command, ((ProtobufCBinaryData){16, (uint8_t *)"/home/ann/job.sh"}));
	spec->submit_line = "sbatch --ntasks=1 --mem=100 --time=1:00:00 job.sh";
	SET(spec, hold, hold);
	SET(s, job_key, ((ProtobufCBinaryData){32, (uint8_t *)"SECRETSECRETSECRETSECRETSECRET!!"}));
	return e;
}

void real_submit(struct real *r, unsigned count, uint32_t cpus, unsigned user, bool hold)
{
	Mu__Event **events = calloc(count, sizeof *events);

	assert(events);
	for (unsigned i = 0; i < count; i++)
		events[i] = submission(r, cpus, user, hold);
	entry(r, events, count);
	if (!r->log.verdict.code)
		r->last_job = r->log.verdict.job;
	free(events);
}

void real_script(struct real *r, const char *script, bool send)
{
	struct mu_view bytes = {(const uint8_t *)script, strlen(script)};
	Mu__Event *e = submission(r, 1, 1, false);
	struct mu_hash hash;

	mu_hash_bytes(bytes.data, bytes.len, &hash);
	SET(e->submitted->spec, script_hash, ((ProtobufCBinaryData){MU_HASH_BYTES, hash.b}));
	entry_of(r, send ? bytes : (struct mu_view){0}, &e, 1);
	if (!r->log.verdict.code)
		r->last_job = r->log.verdict.job;
}

void real_decide(struct real *r)
{
	struct mu_arena arena = {0};
	Mu__Event *e;

	for (int i = 0; i < 1000 && sch_wants_decide(r->log.st); i++) {
		e = NULL;
		sch_decide(r->log.st, 100000, &arena, &e);
		if (!e)
			break;
		if (!e->author) {
			e->author = mu_arena_alloc(&arena, sizeof *e->author);
			mu__author__init(e->author);
			e->author->verifier = "controller";
		}
		one(r, e);
		mu_arena_reset(&arena);
	}
	mu_arena_free(&arena);
}

void real_end(struct real *r, uint32_t job, int exit_code)
{
	const Mu__JobRow *row = sch_job(r->log.st, job);
	const char *names[64];
	size_t count = sch_job_nodes(r->log.st, job, names, 64);
	uint32_t attempt = row ? row->attempt : 0;

	for (size_t i = 0; i < count; i++)
		names[i] = strdup(names[i]);
	for (size_t i = 0; i < count; i++) {
		Mu__Event *e = event(r, MU__EVENT__KIND_ATTEMPT_ENDED, 0);
		Mu__AttemptEnded *a = e->attempt_ended = mu_arena_alloc(&r->arena, sizeof *a);
		Mu__StepRow *step = mu_arena_alloc(&r->arena, sizeof *step),
			    **steps = mu_arena_alloc(&r->arena, sizeof *steps);
		mu__attempt_ended__init(a);
		mu__step_row__init(step);
		SET(a, job, job);
		SET(a, attempt, attempt);
		a->node = e->author->node = (char *)names[i];
		SET(a, batch, i == 0);
		SET(a, released, 1);
		SET(a, exit_code, exit_code);
		if (i == 0) {
			step->name = "batch";
			SET(step, step, MU_STEP_BATCH);
			SET(step, state, exit_code ? JOB_FAILED : JOB_COMPLETED);
			steps[0] = step;
			a->step = steps;
			a->n_step = 1;
		}
		one(r, e);
	}
	for (size_t i = 0; i < count; i++)
		free((char *)names[i]);
}

void real_kill(struct real *r, uint32_t job)
{
	Mu__Event *e = event(r, MU__EVENT__KIND_JOB_SIGNAL, 0);
	Mu__JobSignal *s = e->job_signal = mu_arena_alloc(&r->arena, sizeof *s);

	mu__job_signal__init(s);
	s->n_job = 1;
	s->job = &job;
	one(r, e);
}

void real_requeue(struct real *r, uint32_t job)
{
	Mu__Event *e = event(r, MU__EVENT__KIND_JOB_REQUEUE, 0);
	Mu__JobRequeue *q = e->job_requeue = mu_arena_alloc(&r->arena, sizeof *q);

	mu__job_requeue__init(q);
	q->n_job = 1;
	q->job = &job;
	one(r, e);
}

void real_steps(struct real *r, uint32_t job, uint32_t step, uint32_t state)
{
	const Mu__JobRow *row = sch_job(r->log.st, job);

	if (!row || !row->batch_host)
		return;
	Mu__Event *e = event(r, MU__EVENT__KIND_STEPS_REPORTED, 0);
	Mu__StepsReported *s = e->steps_reported = mu_arena_alloc(&r->arena, sizeof *s);
	Mu__StepRow *told = mu_arena_alloc(&r->arena, sizeof *told),
		    **steps = mu_arena_alloc(&r->arena, sizeof *steps);
	e->author->node = mu_arena_strdup(&r->arena, row->batch_host);
	mu__steps_reported__init(s);
	mu__step_row__init(told);
	SET(s, job, job);
	SET(s, attempt, row->attempt);
	SET(told, step, step);
	SET(told, state, state);
	told->name = "srun";
	steps[0] = told;
	s->step = steps;
	s->n_step = 1;
	one(r, e);
}

void real_tick(struct real *r, int64_t seconds)
{
	r->now_usec += seconds * 1000000;
	Mu__Event *e = event(r, MU__EVENT__KIND_TICK, 0);
	e->request = NULL;
	e->author->verifier = "controller";
	e->tick = mu_arena_alloc(&r->arena, sizeof *e->tick);
	mu__tick__init(e->tick);
	one(r, e);
}
