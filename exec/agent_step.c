/* exec/agent_step.c: the step manager's door: srun and salloc ask on the node's Unix socket, where the kernel
 * vouches for them, or over TCP with a proof of the job's key. A step on this node alone begins at once and
 * the connection goes on to its shepherd. One on several nodes is placed here and granted as parts; srun then
 * asks each node for its part, and this connection stays until the step is over. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exec/agent.h"
#include "exec/shepherd.h"
#include "exec/spool.h"
#include "log/diag.h"
#include "proto/conf.h"
#include "proto/pb.h"
#include "proto/states.h"

enum { READ_BYTES = 64 * 1024, KEEP_IDLE_SEC = 60, KEEP_PAUSE_SEC = 15, KEEP_TRIES = 4 };

static void listen_tcp(struct agent *a)
{
	struct mu_err err = {0};
	const char *addr = a->conf->addr && a->conf->addr[0] ? a->conf->addr : a->node;
	if (a->conf->port == 0)
		return;
	const char *address = mu_arena_printf(&a->conf_arena, "tcp://%s:%u", addr, a->conf->port);
	/* Without it this node's own users go on by the Unix socket: no reason to be down. */
	if (stream_listen(address, 0, &a->tcp_listener, &err)) {
		a->tcp_listener = -1;
		diag_error("steps from other hosts cannot be started here: %s", err.text);
	}
}

int agent_step_listen(struct agent *a, struct mu_err *err)
{
	char address[2400];
	snprintf(address, sizeof address, "ipc://%s/agent.%s.sock", a->run_dir, a->node);
	listen_tcp(a);
	return stream_listen(address, 0666, &a->listener, err);
}

static void drop(struct agent *a, struct agent_client *c)
{
	for (struct agent_client **at = &a->client; *at; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			break;
		}
	if (c->kind == AGENT_ASKS)
		a->client_count--;
	else
		a->holder_count--;
	if (c->fd >= 0)
		close(c->fd);
	stream_reader_free(&c->reader);
	mu_buf_free(&c->ask);
	free(c);
}

static void say_hello(struct agent_client *c)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf out = {0};
	int on = 1, idle = KEEP_IDLE_SEC, pause = KEEP_PAUSE_SEC, tries = KEEP_TRIES;
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(c->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(c->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
	setsockopt(c->fd, IPPROTO_TCP, TCP_KEEPINTVL, &pause, sizeof pause);
	setsockopt(c->fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
	if (getrandom(c->nonce, sizeof c->nonce, 0) != (ssize_t)sizeof c->nonce)
		abort();
	stream_put(&out, STREAM_HELLO, 0, c->nonce, sizeof c->nonce);
	if (send(c->fd, out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)out.len)
		c->dead = true;
}

static void accept_on(struct agent *a, int listener, bool remote)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	struct agent_client *c = a->client_count < AGENT_CLIENTS_MAX ? calloc(1, sizeof *c) : NULL;
	if (!c) {
		close(fd);
		return;
	}
	c->fd = fd;
	c->remote = remote;
	c->since_usec = exe_boot_usec();
	c->next = a->client;
	a->client = c;
	a->client_count++;
	if (remote)
		say_hello(c);
}

void agent_step_accept(struct agent *a)
{
	accept_on(a, a->listener, false);
}

void agent_step_accept_tcp(struct agent *a)
{
	accept_on(a, a->tcp_listener, true);
}

/* ---- answers ---- */

void agent_send(int fd, uint8_t kind, const ProtobufCMessage *m)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf body = {0}, out = {0};
	mu_pb_pack(m, &body);
	stream_put(&out, kind, 0, body.data, body.len);
	/* A few hundred bytes into an empty socket: what does not go at once goes nowhere. */
	if (send(fd, out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)out.len)
		diag_debug("an srun left before its answer");
}

void agent_refuse(int fd, int code, bool busy, const char *text)
{
	Mu__StepRefused m = MU__STEP_REFUSED__INIT;
	m.has_code = m.has_busy = 1;
	m.code = code;
	m.busy = busy;
	m.text = (char *)text;
	agent_send(fd, STREAM_REFUSED, &m.base);
}

/* ---- the order ---- */

static bool is_word(const ProtobufCBinaryData *b, const char *word)
{
	return b->len == strlen(word) && memcmp(b->data, word, b->len) == 0;
}

static void put_streams(Mu__StepOrder *o, const Mu__StepAsk *ask)
{
	static uint8_t null_path[] = "/dev/null";
	const ProtobufCBinaryData none = {sizeof null_path - 1, null_path};
	const ProtobufCBinaryData *from[] = {&ask->std_out, &ask->std_err};
	ProtobufCBinaryData *to[] = {&o->std_out, &o->std_err};
	o->has_std_in = o->has_std_out = o->has_std_err = o->has_no_stdin = 1;
	for (size_t i = 0; i < 2; i++)
		if (from[i]->len && !is_word(from[i], "all"))
			*to[i] = is_word(from[i], "none") ? none : *from[i];
	o->no_stdin = is_word(&ask->std_in, "none");
	size_t digits = 0;
	while (digits < ask->std_in.len && ask->std_in.data[digits] >= '0' && ask->std_in.data[digits] <= '9')
		o->stdin_task = o->stdin_task * 10 + (uint32_t)(ask->std_in.data[digits++] - '0');
	o->has_stdin_task = digits > 0 && digits == ask->std_in.len;
	if (ask->std_in.len && !o->has_stdin_task && !o->no_stdin && !is_word(&ask->std_in, "all"))
		o->std_in = ask->std_in;
}

/* What srun did not say is the cluster's. */
static bool kills_on_bad_exit(const struct agent *a, const Mu__StepAsk *ask)
{
	return ask->has_kill_on_bad_exit ? ask->kill_on_bad_exit
					 : strcmp(mu_conf_get(a->live, "KillOnBadExit", "0"), "1") == 0;
}

static bool begins(const ProtobufCBinaryData *b, const char *word)
{
	return b->len >= strlen(word) && memcmp(b->data, word, strlen(word)) == 0;
}

/* --preserve-env: what srun's own environment says of nodes and tasks stands. */
static void preserve(Mu__StepOrder *o, const Mu__StepAsk *ask)
{
	static const char *const kept[] = {
	    "SLURM_JOB_NUM_NODES=", "SLURM_NNODES=", "SLURM_NTASKS=", "SLURM_NPROCS="};
	for (size_t k = 0; k < sizeof kept / sizeof *kept; k++)
		for (size_t i = 0; i < ask->n_env; i++)
			for (size_t e = 0; begins(&ask->env[i], kept[k]) && e < o->n_env; e++)
				if (begins(&o->env[e], kept[k]))
					o->env[e] = ask->env[i];
}

static void put_program(struct agent *a, Mu__StepOrder *o, const struct agent_placing *p)
{
	const Mu__StepAsk *ask = p->ask;
	struct exe_env_words words;
	agent_env_words(a, &words);
	MU_CLEANUP(mu_buf_free) struct mu_buf base = {0};
	o->argv = ask->argv;
	o->n_argv = ask->n_argv;
	o->has_work_dir = o->has_umask = o->has_label = o->has_unbuffered = o->has_kill_on_bad_exit =
	    o->has_open_append = 1;
	o->work_dir = ask->work_dir;
	o->umask = ask->has_umask ? ask->umask : 022;
	o->label = ask->label;
	o->unbuffered = ask->unbuffered || ask->pty;
	o->kill_on_bad_exit = kills_on_bad_exit(a, ask);
	o->has_multi_prog = ask->has_multi_prog;
	o->multi_prog = ask->multi_prog;
	o->open_append = ask->open_append;
	o->submit_line = ask->submit_line;
	const char *slash = memrchr(ask->argv[0].data, '/', ask->argv[0].len);
	const char *program = slash ? slash + 1 : (const char *)ask->argv[0].data;
	int len = (int)(ask->argv[0].len - (size_t)(program - (const char *)ask->argv[0].data));
	o->name = ask->name && ask->name[0] ? ask->name : mu_arena_printf(p->arena, "%.*s", len, program);
	for (size_t i = 0; i < ask->n_env; i++) {
		mu_buf_add(&base, ask->env[i].data, ask->env[i].len);
		mu_buf_add(&base, "", 1);
	}
	exe_env_build(p->t->order, &words, o, (struct mu_view){base.data, base.len}, p->arena, &o->env,
		      &o->n_env);
	if (ask->preserve_env)
		preserve(o, ask);
}

static void put_whole(Mu__StepOrder *o, const Mu__StepWhole *w)
{
	o->has_step_nodes = o->has_step_ntasks = o->has_step_node_index = 1;
	o->step_nodes = w->nodes;
	o->step_node_list = w->node_list;
	o->step_ntasks = w->ntasks;
	o->step_tasks_per_node = w->tasks_per_node;
	o->step_node_index = w->node_index;
}

/* The kind may name a version of PMIx: they understand each other. */
static bool wants_mpi(const struct agent *a, const Mu__StepAsk *ask, const char *kind)
{
	const char *wanted = ask->mpi && ask->mpi[0] ? ask->mpi : mu_conf_get(a->live, "MpiDefault", "none");
	size_t len = strlen(kind);
	return strncasecmp(wanted, kind, len) == 0 && (!wanted[len] || wanted[len] == '_');
}

/* What a step's order says whoever runs its tasks. */
static Mu__StepOrder *order_for(struct agent *a, struct agent_attempt *t, struct agent_placing *p,
				uint32_t step)
{
	Mu__StepOrder *o = agent_order_new(a, t, step, p->arena);
	const Mu__StepAsk *ask = p->ask;
	o->has_streamed = o->has_cpus_count = o->has_mem_mib = o->has_overlap = o->has_gres_counted = 1;
	o->has_cpus_per_task = ask->has_cpus_per_task;
	o->cpus_per_task = ask->cpus_per_task;
	o->overlap = p->overlap;
	o->gres_counted = ask->n_gres > 0;
	if (ask->time_limit_sec > 0 && (o->time_limit_sec == 0 || ask->time_limit_sec < o->time_limit_sec))
		o->time_limit_sec = ask->time_limit_sec;
	put_streams(o, ask);
	o->has_pty = o->has_rows = o->has_columns = 1;
	o->pty = ask->pty;
	o->rows = ask->rows;
	o->columns = ask->columns;
	o->has_pmi = o->has_pmix = 1;
	o->pmi = wants_mpi(a, ask, "pmi2");
	o->pmix = wants_mpi(a, ask, "pmix");
	o->has_pmix_job = 1;
	o->pmix_job = t->order->n_het ? t->order->het[0]->job : t->order->job;
	o->pmi_mapping = o->pmi || o->pmix ? p->whole->mapping : NULL;
	put_whole(o, p->whole);
	agent_task_programs(a, o, ask->task_prolog, ask->task_epilog, p->arena);
	return o;
}

static void put_part(Mu__StepOrder *o, const Mu__StepPart *part)
{
	o->task = part->task;
	o->n_task = part->n_task;
	o->streamed = true;
	o->cpus_count = part->cpus;
	o->mem_mib = part->mem_mib;
	o->cpu_list = part->cpu_list;
	o->gres = part->gres;
	o->n_gres = part->n_gres;
}

static struct agent_step *step_of(struct agent_attempt *t, uint32_t step, bool lead)
{
	for (struct agent_step *s = t->step; s; s = s->next)
		if (s->order->step == step && s->lead == lead)
			return s;
	return NULL;
}

/* The number that a step will have: the next one, or the one that it must have in common with its parts in
 * other components of a heterogeneous job. False where that is given already. */
static bool next_number(const struct agent_attempt *t, const Mu__StepAsk *ask, uint32_t *ret)
{
	*ret = ask->has_step ? ask->step : t->record->next_step;
	return *ret >= t->record->next_step && *ret < MU_STEP_BATCH;
}

static void take_number(struct agent_attempt *t, uint32_t step)
{
	t->record->has_next_step = 1;
	t->record->next_step = step + 1;
	agent_attempt_save(t, false);
}

static void answer_granted(const struct agent *a, struct agent_client *c, const struct agent_placing *p,
			   uint32_t step, bool parts)
{
	Mu__StepGranted m = MU__STEP_GRANTED__INIT;
	size_t n = p->n_part;
	m.has_job = m.has_step = 1;
	m.job = p->t->order->job;
	m.step = step;
	m.has_kill_on_bad_exit = m.has_wait_sec = 1;
	m.kill_on_bad_exit = kills_on_bad_exit(a, p->ask);
	m.wait_sec = (uint32_t)strtoul(mu_conf_get(a->live, "WaitTime", "0"), NULL, 10);
	m.node = mu_arena_alloc(p->arena, n * sizeof *m.node);
	m.tasks = mu_arena_alloc(p->arena, n * sizeof *m.tasks);
	m.cpus = mu_arena_alloc(p->arena, n * sizeof *m.cpus);
	m.n_node = m.n_tasks = m.n_cpus = n;
	for (size_t i = 0; i < n; i++) {
		m.node[i] = p->part[i]->node;
		m.tasks[i] = (uint32_t)p->part[i]->n_task;
		m.cpus[i] = p->part[i]->cpus;
	}
	if (parts) {
		m.part = p->part;
		m.n_part = n;
		m.whole = p->whole;
	}
	agent_send(c->fd, STREAM_GRANTED, &m.base);
}

static void answer_number(struct agent_client *c, const struct agent_attempt *t)
{
	Mu__StepGranted m = MU__STEP_GRANTED__INIT;
	m.has_job = m.has_step = 1;
	m.job = t->order->job;
	m.step = t->record->next_step;
	agent_send(c->fd, STREAM_GRANTED, &m.base);
}

/* A step, or its part, on this node: its shepherd takes the connection over. */
static void start_here(struct agent *a, struct agent_attempt *t, struct agent_client *c,
		       struct agent_placing *p, struct mu_arena arena)
{
	struct mu_err err = {0};
	struct exe_cgroup_limits limits;
	const Mu__StepPart *part = p->part[0];
	bool is_part = p->ask->part != NULL;
	p->arena = &arena;
	uint64_t memory = part->mem_mib ? part->mem_mib : t->order->here->mem_mib;
	int code = agent_limits(a, t->order->here, memory, part->cpu_list, part->gres, part->n_gres, &arena,
				&limits, &err);
	if (code == 0 && is_part && step_of(t, p->whole->step, false))
		code = mu_fail(&err, MU_EINVAL, "step %u.%u was started here before", t->order->job,
			       p->whole->step);
	Mu__StepOrder binding = MU__STEP_ORDER__INIT;
	put_part(&binding, part);
	if (code == 0)
		code = agent_bind(a, &binding, p, &err);
	if (code) {
		agent_refuse(c->fd, code, false, err.text);
		mu_arena_free(&arena);
		return;
	}
	uint32_t step = is_part ? p->whole->step : t->record->next_step;
	Mu__StepOrder *o = order_for(a, t, p, step);
	put_part(o, part);
	agent_bind_copy(o, &binding);
	agent_order_limits(o, &limits, &arena);
	code = agent_container_order(a, t, o, p->ask->container, p->ask->work_dir, &arena, &err);
	if (code) {
		agent_refuse(c->fd, code, false, err.text);
		mu_arena_free(&arena);
		return;
	}
	if (!is_part)
		take_number(t, step);
	put_program(a, o, p);
	o->has_leftover = o->has_is_part = 1;
	o->is_part = is_part;
	o->leftover =
	    (ProtobufCBinaryData){c->reader.in.len - c->reader.used, c->reader.in.data + c->reader.used};
	answer_granted(a, c, p, step, false);
	struct agent_step *s, *lead = step_of(t, step, true);
	if (agent_launch_step(a, t, o, arena, c->fd, &s, &err)) {
		Mu__StepEnded e = MU__STEP_ENDED__INIT;
		e.has_step = e.has_exit_code = 1;
		e.step = step;
		e.exit_code = 1;
		e.detail = err.text;
		agent_send(c->fd, STREAM_STEP_ENDED, &e.base);
		diag_error("job %u step %u: %s", t->order->job, step, err.text);
		return;
	}
	if (is_part)
		s->told_start = s->told_end = true;
	if (lead)
		lead->lead_here = true;
}

/* True when C stays. */
static bool grant_parts(struct agent *a, struct agent_attempt *t, struct agent_client *c,
			struct agent_placing *p, struct mu_arena arena)
{
	struct mu_err err = {0};
	p->arena = &arena;
	uint32_t step;
	bool given = !next_number(t, p->ask, &step);
	if (given)
		mu_fail(&err, MU_EBUSY, "step %u.%u was given already", t->order->job, step);
	if (given || agent_hold_add(a, t, c, AGENT_LEADS, step, &err)) {
		agent_refuse(c->fd, err.code, false, err.text);
		mu_arena_free(&arena);
		return false;
	}
	take_number(t, step);
	Mu__StepOrder *o = order_for(a, t, p, step);
	p->whole->has_step = 1;
	p->whole->step = step;
	put_program(a, o, p);
	o->task = mu_arena_alloc(&arena, p->tasks * sizeof *o->task);
	for (o->n_task = 0; o->n_task < p->tasks; o->n_task++)
		o->task[o->n_task] = (uint32_t)o->n_task;
	for (size_t i = 0; i < p->n_part; i++) {
		o->cpus_count += p->part[i]->cpus;
		o->mem_mib += p->part[i]->mem_mib;
	}
	o->gres = p->part[0]->gres;
	o->n_gres = p->part[0]->n_gres;
	if (p->ask->container && p->ask->container[0]) {
		o->container = mu_arena_alloc(&arena, sizeof *o->container);
		mu__container_order__init(o->container);
		o->container->bundle = p->ask->container;
	}
	answer_granted(a, c, p, step, true);
	agent_lead_add(t, o, arena, p->part, p->n_part);
	return true;
}

/* ---- requests ---- */

struct agent_attempt *agent_step_admit(struct agent *a, struct agent_client *c, uint32_t job, bool to_start)
{
	struct ucred who = {0};
	socklen_t len = sizeof who;
	struct agent_attempt *t = agent_attempt_find(a, job, 0);
	if (t && t->phase == EXE_ENDED)
		t = NULL;
	if (!t) {
		agent_refuse(c->fd, MU_EJOBID, false, mu_strerror(MU_EJOBID));
		return NULL;
	}
	bool good = false;
	if (!c->remote) {
		good = getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &who, &len) == 0 &&
		       (who.uid == t->order->uid || who.uid == 0);
	} else if (c->has_proof && t->order->job_key.len == STREAM_KEY) {
		uint8_t proof[MU_HASH_BYTES], differs = 0;
		stream_proof(t->order->job_key.data, c->nonce, (struct mu_view){c->ask.data, c->ask.len},
			     proof);
		for (size_t i = 0; i < sizeof proof; i++)
			differs |= proof[i] ^ c->proof[i];
		good = differs == 0;
	}
	if (!good)
		agent_refuse(c->fd, MU_EPERM, false, mu_strerror(MU_EPERM));
	else if (!to_start)
		return t;
	else if (t->phase == EXE_ENDING)
		agent_refuse(c->fd, MU_EALREADYDONE, false, mu_strerror(MU_EALREADYDONE));
	else if (t->phase == EXE_STARTING || t->steps_live >= AGENT_STEPS_MAX)
		agent_refuse(c->fd, MU_ENODEBUSY, true, mu_strerror(MU_ENODEBUSY));
	else
		return t;
	return NULL;
}

/* True when C stays. */
static bool take_ask(struct agent *a, struct agent_client *c)
{
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	const Mu__StepAsk *ask =
	    (Mu__StepAsk *)mu_pb_unpack(&mu__step_ask__descriptor, c->ask.data, c->ask.len, &arena);
	if (!ask)
		agent_refuse(c->fd, MU_EPROTO, false, "the step request is malformed");
	struct agent_attempt *t = ask ? agent_step_admit(a, c, ask->job, true) : NULL;
	if (t && ask->number_only) {
		answer_number(c, t);
	} else if (t) {
		struct agent_placing p = {.ask = ask,
					  .t = t,
					  .arena = &arena,
					  .overlap = ask->overlap,
					  .exact = ask->exact || ask->exclusive || ask->has_cpus_per_task};
		int code = ask->part ? agent_place_part(&p, &err) : agent_place(&p, &err);
		bool here =
		    ask->part || (p.n_part == 1 && !ask->as_parts && strcmp(p.part[0]->node, a->node) == 0);
		if (code == 0 && here) {
			start_here(a, t, c, &p, arena);
			return false;
		}
		if (code == 0)
			return grant_parts(a, t, c, &p, arena);
		agent_refuse(c->fd, code, p.busy, err.text);
	}
	mu_arena_free(&arena);
	return false;
}

static bool take_hold(struct agent *a, struct agent_client *c)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	struct mu_err err = {0};
	Mu__StepGranted granted = MU__STEP_GRANTED__INIT;
	const Mu__HoldAsk *ask =
	    (Mu__HoldAsk *)mu_pb_unpack(&mu__hold_ask__descriptor, c->ask.data, c->ask.len, &arena);
	if (!ask)
		agent_refuse(c->fd, MU_EPROTO, false, "the request to hold an allocation is malformed");
	struct agent_attempt *t = ask ? agent_step_admit(a, c, ask->job, true) : NULL;
	if (!t)
		return false;
	granted.has_job = 1;
	granted.job = ask->job;
	t->unheld_boot_usec = 0;
	if (!t->record->claimed) {
		t->record->has_claimed = t->record->claimed = 1;
		agent_attempt_save(t, false);
	}
	if (ask->look_only) {
		agent_send(c->fd, STREAM_GRANTED, &granted.base);
		return false;
	}
	if (t->order->spec->batch || !t->order->batch_host || agent_hold_add(a, t, c, AGENT_HOLDS, 0, &err)) {
		agent_refuse(c->fd, err.code ? err.code : MU_EINVAL, false,
			     err.code ? err.text : "this is no allocation to hold here");
		return false;
	}
	agent_send(c->fd, STREAM_GRANTED, &granted.base);
	return true;
}

/* ---- reading ---- */

static size_t bytes_held(const struct agent *a)
{
	size_t bytes = 0;
	for (const struct agent_client *c = a->client; c; c = c->next)
		bytes += c->ask.len + c->reader.in.len;
	return bytes;
}

static bool take_proof(struct agent_client *c, const struct stream_frame *f)
{
	if (!c->remote || c->has_proof || f->payload.len != sizeof c->proof)
		return false;
	memcpy(c->proof, f->payload.data, sizeof c->proof);
	c->has_proof = true;
	return true;
}

/* A frame of one that asks; false when the client is done with. */
static bool take_request(struct agent *a, struct agent_client *c, const struct stream_frame *f)
{
	if (f->kind == STREAM_PROOF)
		return take_proof(c, f);
	if (f->kind != STREAM_STEP_ASK && f->kind != STREAM_HOLD && f->kind != STREAM_USAGE_ASK &&
	    f->kind != STREAM_ATTACH && f->kind != STREAM_LEAD)
		return false;
	int whole = stream_join(&c->ask, f);
	if (whole == 0)
		return true;
	if (whole == 1 && f->kind == STREAM_ATTACH) {
		agent_attach_take(a, c);
		return false;
	}
	bool stays = whole == 1 && (f->kind == STREAM_HOLD	  ? take_hold(a, c)
				    : f->kind == STREAM_LEAD	  ? agent_hold_lead(a, c)
				    : f->kind == STREAM_USAGE_ASK ? agent_look_take(a, c)
								  : take_ask(a, c));
	mu_buf_free(&c->ask);
	return stays;
}

/* Reads what came; false when the client is done with. */
static bool serve(struct agent *a, struct agent_client *c)
{
	static uint8_t chunk[READ_BYTES];
	struct stream_frame f;
	ssize_t n = recv(c->fd, chunk, sizeof chunk, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0) {
		if (c->kind != AGENT_ASKS)
			agent_hold_lost(a, c);
		return false;
	}
	stream_feed(&c->reader, chunk, (size_t)n);
	if (bytes_held(a) > AGENT_ASKS_MAX)
		return false;
	for (int code; !c->dead && (code = stream_next(&c->reader, &f)) != 0;) {
		if (code < 0)
			return false;
		if (c->kind != AGENT_ASKS)
			agent_hold_frame(a, c, &f);
		else if (!take_request(a, c, &f))
			return false;
	}
	return !c->dead;
}

size_t agent_step_watch(struct agent *a, struct pollfd *fd, size_t cap)
{
	size_t n = 0;
	for (struct agent_client *c = a->client; c && n < cap; c = c->next)
		fd[n++] = (struct pollfd){c->fd, POLLIN, 0};
	return n;
}

void agent_step_serve(struct agent *a, const struct pollfd *fd, size_t count)
{
	size_t i = 0;
	int64_t now = exe_boot_usec();
	for (struct agent_client *c = a->client, *next; c && i < count; c = next, i++) {
		next = c->next;
		bool idle = c->kind == AGENT_ASKS && now - c->since_usec > AGENT_CLIENT_USEC;
		if (c->dead || (fd[i].revents ? !serve(a, c) : idle))
			drop(a, c);
	}
}

void agent_step_close(struct agent *a)
{
	while (a->client)
		drop(a, a->client);
	if (a->listener >= 0)
		close(a->listener);
	if (a->tcp_listener >= 0)
		close(a->tcp_listener);
	a->listener = a->tcp_listener = -1;
}
