/* exec/agent_step.c: the step manager: srun asks on the node's socket, steps are placed inside the job's
 * allocation on this node, and the connection goes on to the step's shepherd. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exec/agent.h"
#include "exec/shepherd.h"
#include "exec/spool.h"
#include "log/diag.h"
#include "proto/base/bits.h"
#include "proto/pb.h"
#include "proto/states.h"

enum { READ_BYTES = 64 * 1024, TASKS_MAX = 4096 };

struct agent_client {
	struct agent_client *next;
	int fd;
	int64_t since_usec;
	struct stream_reader reader;
	struct mu_buf ask;
};

int agent_step_listen(struct agent *a, struct mu_err *err)
{
	char address[2400];
	snprintf(address, sizeof address, "ipc://%s/agent.%s.sock", a->run_dir, a->node);
	return stream_listen(address, 0666, &a->listener, err);
}

static void drop(struct agent *a, struct agent_client *c)
{
	for (struct agent_client **at = &a->client; *at; at = &(*at)->next)
		if (*at == c) {
			*at = c->next;
			break;
		}
	a->client_count--;
	if (c->fd >= 0)
		close(c->fd);
	stream_reader_free(&c->reader);
	mu_buf_free(&c->ask);
	free(c);
}

void agent_step_accept(struct agent *a)
{
	int fd = accept4(a->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;
	struct agent_client *c = a->client_count < AGENT_CLIENTS_MAX ? calloc(1, sizeof *c) : NULL;
	if (!c) {
		close(fd);
		return;
	}
	c->fd = fd;
	c->since_usec = exe_boot_usec();
	c->next = a->client;
	a->client = c;
	a->client_count++;
}

/* ---- answers ---- */

static void send_message(int fd, uint8_t kind, const ProtobufCMessage *m)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf body = {0}, out = {0};
	mu_pb_pack(m, &body);
	stream_put(&out, kind, 0, body.data, body.len);
	/* A few hundred bytes into an empty socket: what does not go at once goes nowhere. */
	if (send(fd, out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)out.len)
		diag_debug("an srun left before its answer");
}

static void refuse(int fd, int code, bool busy, const char *text)
{
	Mu__StepRefused m = MU__STEP_REFUSED__INIT;
	m.has_code = m.has_busy = 1;
	m.code = code;
	m.busy = busy;
	m.text = (char *)text;
	send_message(fd, STREAM_REFUSED, &m.base);
}

/* ---- placing ---- */

/* What a step will hold; the sentence and code of a refusal in err, BUSY when waiting may help. */
struct placing {
	const Mu__StepAsk *ask;
	const struct agent_attempt *t;
	struct mu_arena *arena;
	uint32_t tasks, cpus;
	bool exact, overlap, busy;
	char *cpu_list;
	uint64_t mem_mib;
	Mu__GresGot **gres;
	size_t gres_count;
};

static int busy(struct placing *p, struct mu_err *err)
{
	p->busy = true;
	return mu_fail(err, MU_ENODEBUSY, "%s", mu_strerror(MU_ENODEBUSY));
}

static int place_cpus(struct placing *p, struct mu_err *err)
{
	struct mu_bits have = {0}, got = {0};
	const Mu__AllocNode *here = p->t->order->here;
	uint32_t want = p->tasks *
			(p->ask->has_cpus_per_task && p->ask->cpus_per_task ? p->ask->cpus_per_task : 1),
		 n = 0;
	char text[8192];
	int code = 0;
	mu_bits_parse(&have, here->cpu_list ? here->cpu_list : "", EXE_CPUS_MAX);
	uint32_t all = mu_bits_count(&have);
	if (want > all && all > 0)
		code = mu_fail(err, MU_ECPUCOUNT, "%s", mu_strerror(MU_ECPUCOUNT));
	for (const struct agent_step *s = p->t->step; s && !p->overlap && code == 0; s = s->next)
		if (!s->ended && s->cpus && s->order->step != MU_STEP_BATCH)
			mu_bits_andnot(&have, s->cpus);
	if (code == 0 && !p->overlap && mu_bits_count(&have) < (p->exact ? want : all))
		code = busy(p, err);
	for (uint32_t k = mu_bits_next(&have, 0); code == 0 && k != UINT32_MAX && n < (p->exact ? want : all);
	     k = mu_bits_next(&have, k + 1), n++)
		mu_bits_set(&got, k);
	mu_bits_print(&got, text, sizeof text);
	p->cpu_list = mu_arena_strdup(p->arena, text);
	p->cpus = n;
	mu_bits_free(&have);
	mu_bits_free(&got);
	return code;
}

static int place_memory(struct placing *p, struct mu_err *err)
{
	const Mu__AllocNode *here = p->t->order->here;
	uint64_t used = 0;
	p->mem_mib = p->ask->mem_mib ? p->ask->mem_mib : p->ask->mem_cpu_mib * p->cpus;
	if (here->mem_mib && p->mem_mib > here->mem_mib)
		return mu_fail(err, MU_ESTEPMEMORY, "%s", mu_strerror(MU_ESTEPMEMORY));
	/* A step that asks for nothing may use the job's memory and takes none from the others. */
	for (const struct agent_step *s = p->t->step; s; s = s->next)
		used += !s->ended && !s->order->overlap && s->order->step != MU_STEP_BATCH ? s->order->mem_mib
											   : 0;
	if (!p->overlap && p->mem_mib && here->mem_mib && used + p->mem_mib > here->mem_mib)
		return busy(p, err);
	return 0;
}

static bool unit_is_taken(const struct placing *p, const char *name, uint32_t index)
{
	for (const struct agent_step *s = p->t->step; s; s = s->next) {
		if (s->ended || s->order->overlap || s->order->step == MU_STEP_BATCH ||
		    !s->order->gres_counted)
			continue;
		for (size_t g = 0; g < s->order->n_gres; g++)
			for (size_t i = 0; i < s->order->gres[g]->n_index; i++)
				if (s->order->gres[g]->index[i] == index &&
				    strcmp(s->order->gres[g]->name, name) == 0)
					return true;
	}
	return false;
}

static int place_one_gres(struct placing *p, const Mu__GresAsk *ask, Mu__GresGot *got, struct mu_err *err)
{
	const Mu__AllocNode *here = p->t->order->here;
	uint64_t total = 0, want = ask->has_count ? ask->count : 1;
	got->name = ask->name;
	got->type = ask->type;
	for (size_t g = 0; g < here->n_gres; g++) {
		const Mu__GresGot *have = here->gres[g];
		if (!have->name || !ask->name || strcmp(have->name, ask->name) != 0 ||
		    (ask->type && ask->type[0] && (!have->type || strcmp(have->type, ask->type) != 0)))
			continue;
		total += have->n_index;
		got->index = got->index ? got->index
					: mu_arena_alloc(p->arena, EXE_GRES_UNITS_MAX * sizeof *got->index);
		for (size_t i = 0;
		     i < have->n_index && got->n_index < want && got->n_index < EXE_GRES_UNITS_MAX; i++)
			if (p->overlap || !unit_is_taken(p, have->name, have->index[i]))
				got->index[got->n_index++] = have->index[i];
	}
	got->has_count = 1;
	got->count = got->n_index;
	if (want > total)
		return mu_fail(err, MU_EGRES, "%s", mu_strerror(MU_EGRES));
	return got->n_index < want ? busy(p, err) : 0;
}

static int place_gres(struct placing *p, struct mu_err *err)
{
	const Mu__AllocNode *here = p->t->order->here;
	p->gres = here->gres;
	p->gres_count = here->n_gres;
	if (p->ask->n_gres == 0)
		return 0;
	p->gres = mu_arena_alloc(p->arena, p->ask->n_gres * sizeof *p->gres);
	p->gres_count = p->ask->n_gres;
	for (size_t i = 0; i < p->ask->n_gres; i++) {
		p->gres[i] = mu_arena_alloc(p->arena, sizeof **p->gres);
		mu__gres_got__init(p->gres[i]);
		int code = place_one_gres(p, p->ask->gres[i], p->gres[i], err);
		if (code)
			return code;
	}
	return 0;
}

static int place(struct placing *p, struct mu_err *err)
{
	const Mu__StepAsk *ask = p->ask;
	p->tasks = ask->has_ntasks && ask->ntasks ? ask->ntasks : 1;
	p->overlap = ask->overlap;
	p->exact = ask->exact || ask->exclusive || ask->has_cpus_per_task;
	if (p->tasks > TASKS_MAX)
		return mu_fail(err, MU_ELIMIT,
			       "%u tasks are more than the %d that one node may run in a step", p->tasks,
			       TASKS_MAX);
	if (ask->nodes > 1)
		return mu_fail(err, MU_EDISABLED,
			       "a step on %u nodes cannot be started in this version: use -N 1", ask->nodes);
	if (!p->t->order->batch_host)
		return mu_fail(err, MU_EDISABLED, "steps of job %u are started on its first node",
			       p->t->order->job);
	if (ask->n_argv == 0)
		return mu_fail(err, MU_EINVAL, "no command was given");
	int code = place_cpus(p, err);
	if (code == 0)
		code = place_memory(p, err);
	return code ? code : place_gres(p, err);
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

static void put_program(struct agent *a, Mu__StepOrder *o, const struct placing *p)
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
	o->unbuffered = ask->unbuffered;
	o->kill_on_bad_exit = ask->kill_on_bad_exit;
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
}

static Mu__StepOrder *order_for(struct agent *a, struct agent_attempt *t, struct placing *p, uint32_t step)
{
	Mu__StepOrder *o = agent_order_new(a, t, step, p->arena);
	const Mu__StepAsk *ask = p->ask;
	o->task = mu_arena_alloc(p->arena, p->tasks * sizeof *o->task);
	o->n_task = p->tasks;
	for (uint32_t i = 0; i < p->tasks; i++)
		o->task[i] = i;
	o->has_streamed = o->has_cpus_count = o->has_mem_mib = o->has_overlap = o->has_gres_counted = 1;
	o->streamed = true;
	o->cpus_count = p->cpus;
	o->has_cpus_per_task = ask->has_cpus_per_task;
	o->cpus_per_task = ask->cpus_per_task;
	o->mem_mib = p->mem_mib;
	o->overlap = p->overlap;
	o->gres_counted = ask->n_gres > 0;
	o->cpu_list = p->cpu_list;
	o->gres = p->gres;
	o->n_gres = p->gres_count;
	if (ask->time_limit_sec > 0 && (o->time_limit_sec == 0 || ask->time_limit_sec < o->time_limit_sec))
		o->time_limit_sec = ask->time_limit_sec;
	put_streams(o, ask);
	put_program(a, o, p);
	return o;
}

static void grant(struct agent *a, struct agent_attempt *t, struct agent_client *c, struct placing *p,
		  struct mu_arena arena)
{
	struct mu_err err = {0};
	struct exe_cgroup_limits limits;
	uint32_t step = t->record->next_step, tasks = p->tasks, cpus = p->cpus;
	char *node = a->node;
	Mu__StepGranted m = MU__STEP_GRANTED__INIT;
	p->arena = &arena;
	uint64_t memory = p->mem_mib ? p->mem_mib : t->order->here->mem_mib;
	int code = agent_limits(a, t->order->here, memory, p->cpu_list, p->gres, p->gres_count, &arena,
				&limits, &err);
	if (code) {
		refuse(c->fd, code, false, err.text);
		mu_arena_free(&arena);
		return;
	}
	Mu__StepOrder *o = order_for(a, t, p, step);
	agent_order_limits(o, &limits, &arena);
	o->has_leftover = 1;
	o->leftover =
	    (ProtobufCBinaryData){c->reader.in.len - c->reader.used, c->reader.in.data + c->reader.used};
	t->record->has_next_step = 1;
	t->record->next_step = step + 1;
	agent_attempt_save(t, false);
	m.has_job = m.has_step = 1;
	m.job = t->order->job;
	m.step = step;
	m.node = &node;
	m.tasks = &tasks;
	m.cpus = &cpus;
	m.n_node = m.n_tasks = m.n_cpus = 1;
	send_message(c->fd, STREAM_GRANTED, &m.base);
	struct agent_step *s;
	if (agent_launch_step(a, t, o, arena, c->fd, &s, &err)) {
		Mu__StepEnded e = MU__STEP_ENDED__INIT;
		e.has_step = e.has_exit_code = 1;
		e.step = step;
		e.exit_code = 1;
		e.detail = err.text;
		send_message(c->fd, STREAM_STEP_ENDED, &e.base);
		diag_error("job %u step %u: %s", t->order->job, step, err.text);
	}
}

static void take_ask(struct agent *a, struct agent_client *c)
{
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	struct ucred who = {0};
	socklen_t len = sizeof who;
	const Mu__StepAsk *ask =
	    (Mu__StepAsk *)mu_pb_unpack(&mu__step_ask__descriptor, c->ask.data, c->ask.len, &arena);
	struct agent_attempt *t = ask ? agent_attempt_find(a, ask->job, 0) : NULL;
	if (t && t->phase == EXE_ENDED)
		t = NULL;
	if (!ask)
		refuse(c->fd, MU_EPROTO, false, "the step request is malformed");
	else if (!t)
		refuse(c->fd, MU_EJOBID, false, mu_strerror(MU_EJOBID));
	else if (getsockopt(c->fd, SOL_SOCKET, SO_PEERCRED, &who, &len) ||
		 (who.uid != t->order->uid && who.uid != 0))
		refuse(c->fd, MU_EPERM, false, mu_strerror(MU_EPERM));
	else if (t->phase == EXE_ENDING)
		refuse(c->fd, MU_EALREADYDONE, false, mu_strerror(MU_EALREADYDONE));
	else if (t->phase == EXE_STARTING || t->steps_live >= AGENT_STEPS_MAX)
		refuse(c->fd, MU_ENODEBUSY, true, mu_strerror(MU_ENODEBUSY));
	else {
		struct placing p = {.ask = ask, .t = t, .arena = &arena};
		int code = place(&p, &err);
		if (code == 0) {
			grant(a, t, c, &p, arena);
			return;
		}
		refuse(c->fd, code, p.busy, err.text);
	}
	mu_arena_free(&arena);
}

/* ---- reading ---- */

static size_t bytes_held(const struct agent *a)
{
	size_t bytes = 0;
	for (const struct agent_client *c = a->client; c; c = c->next)
		bytes += c->ask.len + c->reader.in.len;
	return bytes;
}

/* Reads what came; false when the client is done with. */
static bool serve(struct agent *a, struct agent_client *c)
{
	static uint8_t chunk[READ_BYTES];
	struct stream_frame f;
	ssize_t n = recv(c->fd, chunk, sizeof chunk, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n <= 0)
		return false;
	stream_feed(&c->reader, chunk, (size_t)n);
	if (bytes_held(a) > AGENT_ASKS_MAX)
		return false;
	for (int code; (code = stream_next(&c->reader, &f)) != 0;) {
		if (code < 0 || f.kind != STREAM_STEP_ASK)
			return false;
		int whole = stream_join(&c->ask, &f);
		if (whole == 1)
			take_ask(a, c);
		if (whole != 0)
			return false;
	}
	return true;
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
		if (fd[i].revents ? !serve(a, c) : now - c->since_usec > AGENT_CLIENT_USEC)
			drop(a, c);
	}
}

void agent_step_close(struct agent *a)
{
	while (a->client)
		drop(a, a->client);
	if (a->listener >= 0)
		close(a->listener);
	a->listener = -1;
}
