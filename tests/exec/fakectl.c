/* tests/exec/fakectl.c */
#include "tests/exec/fakectl.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/auth.h"
#include "log/clock.h"
#include "log/wire.h"
#include "proto/base/hash.h"
#include "proto/base/map.h"
#include "proto/pb.h"
#include "proto/wire.pb-c.h"

enum { JOBS_MAX = 512, PARKED_MAX = 16 };

struct job {
	struct fakectl_job ask;
	struct mu_hash script, env;
	size_t env_len;
	bool ordered, ending;
	uint32_t cause, signal_number, signal_flags;
	uint64_t signal_seq;
	unsigned steps;
	struct fakectl_end_seen seen;
};

struct parked {
	struct wire_call *call;
	struct auth_who who;
	int64_t deadline_usec;
};

struct fakectl {
	struct auth_keys keys;
	uint8_t node_public[32];
	char node[64];
	struct wire_server *server;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t ticker;
	bool stop, refuse;
	uint64_t pos;
	struct job job[JOBS_MAX];
	size_t job_count;
	struct parked parked[PARKED_MAX];
	size_t parked_count;
	unsigned registrations;
	uint32_t held[JOBS_MAX];
	size_t held_count;
};

static struct job *find(struct fakectl *f, uint32_t id)
{
	for (size_t i = 0; i < f->job_count; i++)
		if (f->job[i].ask.job == id)
			return &f->job[i];
	return NULL;
}

static ProtobufCBinaryData bytes(const void *data, size_t len)
{
	return (ProtobufCBinaryData){len, (uint8_t *)data};
}

/* ---- orders ---- */

static Mu__AttemptOrder *order_of(struct job *j, struct fakectl *f, struct mu_arena *arena)
{
	Mu__AttemptOrder *o = mu_arena_alloc(arena, sizeof *o);
	Mu__JobSpec *s = mu_arena_alloc(arena, sizeof *s);
	Mu__AllocNode *here = mu_arena_alloc(arena, sizeof *here);
	mu__attempt_order__init(o);
	mu__job_spec__init(s);
	mu__alloc_node__init(here);
	o->has_job = o->has_attempt = o->has_phase = o->has_uid = o->has_gid = o->has_batch_host =
	    o->has_time_limit_sec = 1;
	o->job = j->ask.job;
	o->attempt = 1;
	o->phase = j->ending ? MU__PHASE__PHASE_END : MU__PHASE__PHASE_RUN;
	o->has_end_cause = j->ending;
	o->end_cause = j->cause;
	o->uid = o->gid = j->ask.uid;
	o->user = "tester";
	o->batch_host = true;
	o->time_limit_sec = j->ask.time_limit_sec ? j->ask.time_limit_sec : -1;
	o->has_signal_seq = o->has_signal_number = o->has_signal_flags = j->signal_seq > 0;
	o->signal_seq = j->signal_seq;
	o->signal_number = j->signal_number;
	o->signal_flags = j->signal_flags;
	o->has_ntasks = 1;
	o->ntasks = 1;
	o->node_list = here->node = f->node;
	here->cpu_list = (char *)(j->ask.cpu_list ? j->ask.cpu_list : "0");
	here->has_cpus = here->has_mem_mib = here->has_tasks = 1;
	here->cpus = j->ask.cpus ? j->ask.cpus : 1;
	here->mem_mib = j->ask.mem_mib;
	here->tasks = 1;
	if (j->ask.gpu >= 0) {
		Mu__GresGot *g = mu_arena_alloc(arena, sizeof *g);
		mu__gres_got__init(g);
		g->name = "gpu";
		g->index = mu_arena_alloc(arena, sizeof *g->index);
		g->index[0] = (uint32_t)j->ask.gpu;
		g->n_index = 1;
		here->gres = mu_arena_alloc(arena, sizeof *here->gres);
		here->gres[0] = g;
		here->n_gres = 1;
	}
	o->here = here;
	o->alloc = mu_arena_alloc(arena, sizeof *o->alloc);
	o->alloc[0] = here;
	o->n_alloc = 1;
	s->name = "testjob";
	s->has_batch = 1;
	s->batch = !j->ask.allocation;
	s->has_script_hash = s->batch;
	s->script_hash = bytes(j->script.b, sizeof j->script.b);
	s->has_env_hash = j->ask.env != NULL;
	s->env_hash = bytes(j->env.b, sizeof j->env.b);
	s->has_work_dir = s->has_std_out = 1;
	s->work_dir = bytes(j->ask.work_dir, strlen(j->ask.work_dir));
	s->std_out = bytes(j->ask.std_out, strlen(j->ask.std_out));
	o->spec = s;
	return o;
}

static Mu__OrderSet *set_of(struct fakectl *f, struct mu_arena *arena)
{
	Mu__OrderSet *set = mu_arena_alloc(arena, sizeof *set);
	struct mu_hash *digest = mu_arena_alloc(arena, sizeof *digest);
	MU_CLEANUP(mu_buf_free) struct mu_buf packed = {0};
	mu__order_set__init(set);
	set->attempt = mu_arena_alloc(arena, (f->job_count + 1) * sizeof *set->attempt);
	for (size_t i = 0; i < f->job_count; i++)
		if (f->job[i].ordered)
			set->attempt[set->n_attempt++] = order_of(&f->job[i], f, arena);
	mu_pb_pack(&set->base, &packed);
	mu_hash_bytes(packed.data, packed.len, digest);
	set->has_pos = set->has_digest = set->has_register_ = 1;
	set->pos = f->pos;
	set->digest = bytes(digest->b, sizeof digest->b);
	set->register_ = f->registrations == 0;
	return set;
}

/* ---- answers ---- */

static void answer(struct fakectl *f, struct wire_call *call, const struct auth_who *who, Mu__Reply *reply)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf body = {0}, envelope = {0};
	struct mu_err err = {0};
	mu_pb_pack(&reply->base, &body);
	if (auth_seal_reply(&f->keys, who, (struct mu_view){body.data, body.len}, &envelope, &err))
		printf("fakectl: %s\n", err.text);
	wire_reply(call, (struct mu_view){envelope.data, envelope.len});
}

static void answer_orders(struct fakectl *f, struct wire_call *call, const struct auth_who *who,
			  Mu__OrderSet *set)
{
	Mu__Reply reply = MU__REPLY__INIT;
	reply.answer_case = MU__REPLY__ANSWER_ORDERS;
	reply.orders = set;
	answer(f, call, who, &reply);
}

static void changed(struct fakectl *f)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	f->pos++;
	for (size_t i = 0; i < f->parked_count; i++)
		answer_orders(f, f->parked[i].call, &f->parked[i].who, set_of(f, &arena));
	f->parked_count = 0;
	pthread_cond_broadcast(&f->changed);
}

static void poll_asked(struct fakectl *f, struct wire_call *call, const struct auth_who *who,
		       const Mu__PollAsk *ask, struct mu_arena *arena)
{
	Mu__OrderSet *set = set_of(f, arena);
	bool same = ask->base_digest.len == set->digest.len &&
		    memcmp(ask->base_digest.data, set->digest.data, set->digest.len) == 0;
	if (same && ask->wait_msec && f->parked_count < PARKED_MAX && !set->register_) {
		f->parked[f->parked_count++] =
		    (struct parked){call, *who, clock_mono_usec() + (int64_t)ask->wait_msec * 1000};
		return;
	}
	answer_orders(f, call, who, set);
}

static void registered(struct fakectl *f, const Mu__RegisterAsk *ask)
{
	f->registrations++;
	f->held_count = 0;
	for (size_t i = 0; i < ask->node->n_held && i < JOBS_MAX; i++)
		f->held[f->held_count++] = ask->node->held[i]->job;
	pthread_cond_broadcast(&f->changed);
}

static void reported(struct fakectl *f, const Mu__ReportAsk *ask)
{
	for (size_t i = 0; i < ask->n_ended; i++) {
		const Mu__AttemptEnded *e = ask->ended[i];
		struct job *j = find(f, e->job);
		if (!j)
			continue;
		struct fakectl_end_seen *s = &j->seen;
		s->count++;
		s->code = e->exit_code;
		s->signal = e->exit_signal;
		s->cause = e->cause;
		s->oom_kills = e->oom_kills;
		s->steps += (uint32_t)e->n_step;
		s->released = e->released;
		s->batch = e->batch;
		snprintf(s->detail, sizeof s->detail, "%s", e->detail ? e->detail : "");
		j->ordered = false;
	}
	for (size_t i = 0; i < ask->n_steps; i++) {
		struct job *j = find(f, ask->steps[i]->job);
		if (j)
			j->steps += (unsigned)ask->steps[i]->n_step;
	}
	if (ask->n_ended)
		changed(f);
}

static void blob_asked(struct fakectl *f, const Mu__BlobAsk *ask, Mu__Reply *reply, struct mu_arena *arena)
{
	struct job *j = find(f, ask->job);
	Mu__BlobReply *b = mu_arena_alloc(arena, sizeof *b);
	mu__blob_reply__init(b);
	bool env = j && j->ask.env && memcmp(ask->hash.data, j->env.b, 32) == 0;
	const char *data = !j ? "" : env ? j->ask.env : j->ask.script;
	size_t len = !j ? 0 : env ? j->env_len : strlen(j->ask.script);
	b->has_data = b->has_total = 1;
	b->total = len;
	/* In two pieces, so that offsets are tried. */
	size_t left = len - ask->offset, half = left > 20 ? left / 2 : left;
	b->data = bytes(data + ask->offset, half);
	reply->answer_case = MU__REPLY__ANSWER_BLOB;
	reply->blob = b;
}

static int node_key(void *arg, const char *node, uint8_t ret[32])
{
	struct fakectl *f = arg;
	if (strcmp(node, f->node) != 0)
		return MU_ENOENT;
	memcpy(ret, f->node_public, 32);
	return 0;
}

static void handle(void *arg, struct wire_call *call, const struct wire_peer *peer, struct mu_view request)
{
	struct fakectl *f = arg;
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	struct auth_who who = {0};
	struct mu_view body;
	struct mu_err err = {0};
	Mu__Reply reply = MU__REPLY__INIT;
	Mu__Request *r = NULL;
	if (auth_verify(&f->keys, request, peer, clock_wall_usec(), node_key, f, &arena, &who, &body, &err) ==
	    0)
		r = (Mu__Request *)mu_pb_unpack(&mu__request__descriptor, body.data, body.len, &arena);
	pthread_mutex_lock(&f->lock);
	if (!r || !who.is_node) {
		printf("fakectl: a request is refused: %s\n", err.text);
		reply.has_code = 1;
		reply.code = MU_EAUTH;
	} else if (r->ask_case == MU__REQUEST__ASK_POLL) {
		poll_asked(f, call, &who, r->poll, &arena);
		pthread_mutex_unlock(&f->lock);
		return;
	} else if (r->ask_case == MU__REQUEST__ASK_REGISTER) {
		registered(f, r->register_);
		reply.has_pos = 1;
		reply.pos = f->pos;
	} else if (r->ask_case == MU__REQUEST__ASK_REPORT && f->refuse) {
		reply.has_code = 1;
		reply.code = MU_ENOTREADY;
	} else if (r->ask_case == MU__REQUEST__ASK_REPORT) {
		reported(f, r->report);
	} else if (r->ask_case == MU__REQUEST__ASK_BLOB) {
		blob_asked(f, r->blob, &reply, &arena);
	}
	answer(f, call, &who, &reply);
	pthread_mutex_unlock(&f->lock);
}

static void *tick(void *arg)
{
	struct fakectl *f = arg;
	for (;;) {
		clock_sleep_msec(50);
		pthread_mutex_lock(&f->lock);
		if (f->stop)
			break;
		MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
		for (size_t i = 0; i < f->parked_count;) {
			if (f->parked[i].deadline_usec > clock_mono_usec()) {
				i++;
				continue;
			}
			Mu__OrderSet *same = mu_arena_alloc(&arena, sizeof *same);
			mu__order_set__init(same);
			same->has_pos = same->has_unchanged = 1;
			same->pos = f->pos;
			same->unchanged = true;
			answer_orders(f, f->parked[i].call, &f->parked[i].who, same);
			f->parked[i] = f->parked[--f->parked_count];
		}
		pthread_mutex_unlock(&f->lock);
	}
	pthread_mutex_unlock(&f->lock);
	return NULL;
}

/* ---- the test's side ---- */

int fakectl_open(const char *address, const char *key_dir, const char *node, struct fakectl **ret,
		 struct mu_err *err)
{
	struct fakectl *f = calloc(1, sizeof *f);
	char path[512];
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->changed, NULL);
	snprintf(f->node, sizeof f->node, "%s", node);
	snprintf(path, sizeof path, "%s/cluster.secret", key_dir);
	int code = auth_load_secret(path, f->keys.cluster_secret, f->keys.cluster_public, err);
	f->keys.has_secret = f->keys.has_public = code == 0;
	snprintf(path, sizeof path, "%s/node.%s.pub", key_dir, node);
	if (code == 0)
		code = auth_load_public(path, f->node_public, err);
	f->pos = 10;
	if (code == 0)
		code = wire_server_open(&address, 1, 1024, (struct mu_view){0}, handle, f, &f->server, err);
	if (code) {
		free(f);
		return code;
	}
	pthread_create(&f->ticker, NULL, tick, f);
	*ret = f;
	return 0;
}

struct fakectl *fakectl_close(struct fakectl *f)
{
	pthread_mutex_lock(&f->lock);
	f->stop = true;
	changed(f); /* whoever waits is answered */
	pthread_mutex_unlock(&f->lock);
	pthread_join(f->ticker, NULL);
	wire_server_close(f->server);
	free(f);
	return NULL;
}

void fakectl_run(struct fakectl *f, const struct fakectl_job *job)
{
	pthread_mutex_lock(&f->lock);
	struct job *j = f->job_count < JOBS_MAX ? &f->job[f->job_count++] : NULL;
	if (j) {
		memset(j, 0, sizeof *j);
		j->ask = *job;
		mu_hash_bytes(job->script ? job->script : "", job->script ? strlen(job->script) : 0,
			      &j->script);
		j->env_len = job->env ? strlen(job->env) + 1 : 0;
		mu_hash_bytes(job->env ? job->env : "", j->env_len, &j->env);
		j->ordered = true;
		changed(f);
	}
	pthread_mutex_unlock(&f->lock);
}

void fakectl_end(struct fakectl *f, uint32_t job, uint32_t cause)
{
	pthread_mutex_lock(&f->lock);
	struct job *j = find(f, job);
	if (j) {
		j->ending = true;
		j->cause = cause;
		changed(f);
	}
	pthread_mutex_unlock(&f->lock);
}

void fakectl_signal(struct fakectl *f, uint32_t job, uint32_t number, uint32_t flags)
{
	pthread_mutex_lock(&f->lock);
	struct job *j = find(f, job);
	if (j) {
		j->signal_seq++;
		j->signal_number = number;
		j->signal_flags = flags;
		changed(f);
	}
	pthread_mutex_unlock(&f->lock);
}

void fakectl_limit(struct fakectl *f, uint32_t job, int64_t time_limit_sec)
{
	pthread_mutex_lock(&f->lock);
	struct job *j = find(f, job);
	if (j) {
		j->ask.time_limit_sec = time_limit_sec;
		changed(f);
	}
	pthread_mutex_unlock(&f->lock);
}

void fakectl_drop(struct fakectl *f, uint32_t job)
{
	pthread_mutex_lock(&f->lock);
	struct job *j = find(f, job);
	if (j) {
		j->ordered = false;
		changed(f);
	}
	pthread_mutex_unlock(&f->lock);
}

void fakectl_refuse(struct fakectl *f, bool refuse)
{
	pthread_mutex_lock(&f->lock);
	f->refuse = refuse;
	pthread_mutex_unlock(&f->lock);
}

/* Waits on the condition until DONE or MSEC are over; the lock is held. */
#define WAIT_UNTIL(f, msec, done)                                       \
	do {                                                            \
		int64_t end = clock_mono_usec() + (int64_t)(msec)*1000; \
		while (!(done) && clock_mono_usec() < end) {            \
			pthread_mutex_unlock(&(f)->lock);               \
			clock_sleep_msec(5);                            \
			pthread_mutex_lock(&(f)->lock);                 \
		}                                                       \
	} while (0)

bool fakectl_wait_end(struct fakectl *f, uint32_t job, unsigned msec, struct fakectl_end_seen *ret)
{
	pthread_mutex_lock(&f->lock);
	struct job *j = find(f, job);
	WAIT_UNTIL(f, msec, j && j->seen.count);
	bool there = j && j->seen.count;
	memset(ret, 0, sizeof *ret);
	if (there)
		*ret = j->seen;
	pthread_mutex_unlock(&f->lock);
	return there;
}

bool fakectl_wait_registered(struct fakectl *f, unsigned count, unsigned msec)
{
	pthread_mutex_lock(&f->lock);
	WAIT_UNTIL(f, msec, f->registrations >= count);
	bool there = f->registrations >= count;
	pthread_mutex_unlock(&f->lock);
	return there;
}

bool fakectl_held(struct fakectl *f, uint32_t job)
{
	bool held = false;
	pthread_mutex_lock(&f->lock);
	for (size_t i = 0; i < f->held_count; i++)
		held = held || f->held[i] == job;
	pthread_mutex_unlock(&f->lock);
	return held;
}

unsigned fakectl_steps_seen(struct fakectl *f, uint32_t job)
{
	pthread_mutex_lock(&f->lock);
	struct job *j = find(f, job);
	unsigned n = j ? j->steps : 0;
	pthread_mutex_unlock(&f->lock);
	return n;
}
