/* exec/agent_launch.c: what a job or a step may use becomes limits, a script in the spool, an order, and a
 * shepherd. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exec/agent.h"
#include "exec/herd.h"
#include "exec/shepherd.h"
#include "exec/spool.h"
#include "log/diag.h"
#include "proto/base/bits.h"
#include "proto/conf.h"
#include "proto/pb.h"
#include "proto/states.h"
#include "proto/units.h"

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static int open_dir(const struct agent_attempt *t, struct mu_err *err)
{
	int fd = open(t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		mu_fail(err, MU_EIO, "spool folder %s: %s", t->dir, strerror(errno));
	return fd;
}

/* ---- limits ---- */

int agent_limits(struct agent *a, const Mu__AllocNode *here, uint64_t memory_mib, const char *cpu_list,
		 Mu__GresGot *const *gres, size_t gres_count, struct mu_arena *arena,
		 struct exe_cgroup_limits *ret, struct mu_err *err)
{
	memset(ret, 0, sizeof *ret);
	if (a->limit_cpus && cpu_list && cpu_list[0]) {
		MU_CLEANUP(mu_buf_free) struct mu_buf cpus = {0};
		int code = exe_inventory_cpus(&a->inventory, cpu_list, &cpus, err);
		if (code)
			return code;
		ret->cpus = mu_arena_strdup(arena, (char *)cpus.data);
	}
	if (a->limit_memory)
		ret->memory_bytes = memory_mib << 20;
	if (a->fence_devices) {
		struct exe_device *device = mu_arena_alloc(arena, EXE_DEVICES_MAX * sizeof *device);
		ret->fence_devices = true;
		ret->device = device;
		ret->device_count =
		    exe_inventory_devices(&a->inventory, gres, gres_count, device, EXE_DEVICES_MAX);
	}
	return 0;
}

void agent_fence_node(struct agent *a)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	struct exe_device *device = mu_arena_alloc(&arena, EXE_DEVICES_MAX * sizeof *device);
	struct exe_cgroup_limits limits = {.fence_devices = true, .devices_stay = true, .device = device};
	struct mu_err err = {0};
	char path[EXE_CGROUP_PATH];
	if (!a->fence_devices || a->host.kind != EXE_CGROUP_V1)
		return;
	limits.device_count = exe_inventory_all_devices(&a->inventory, device, EXE_DEVICES_MAX);
	snprintf(path, sizeof path, "muster_%s/%s", a->cluster, a->node);
	/* A group with jobs in it that was made without a fence cannot get one: each job has its own whole.
	 */
	if (exe_cgroup_make(&a->host, path, &limits, &err))
		diag_debug("%s", err.text);
}

int agent_group_make(struct agent *a, struct agent_attempt *t, struct mu_err *err)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	struct exe_cgroup_limits limits;
	const Mu__AllocNode *here = t->order->here;
	if (!here)
		return mu_fail(err, MU_EINVAL, "the order does not say what the job may use on this node");
	int code = agent_limits(a, here, here->mem_mib, here->cpu_list, here->gres, here->n_gres, &arena,
				&limits, err);
	t->group_made = true;
	limits.pids_max = a->pids_max;
	if (code == 0)
		code = agent_private_make(a, t, err);
	if (code || exe_cgroup_make(&a->host, t->cgroup, &limits, err) == 0)
		return code;
	/* Devices may have come since the node's group was made. */
	agent_fence_node(a);
	return exe_cgroup_make(&a->host, t->cgroup, &limits, err);
}

/* Until it has run MORE seconds longer than its limit; 0: it has none, or stands still. */
static int64_t left_sec(const struct agent_attempt *t, int64_t more)
{
	int64_t limit = t->order->time_limit_sec;
	if (!t->order->has_time_limit_sec || limit <= 0 || t->order->suspended)
		return 0;
	int64_t gone = (exe_boot_usec() - t->record->begin_mono_usec - t->order->suspended_usec) / 1000000;
	return gone < limit + more ? limit + more - gone : 1;
}

int64_t agent_limit_left_sec(const struct agent_attempt *t)
{
	return left_sec(t, 0);
}

int64_t agent_time_left_sec(const struct agent_attempt *t)
{
	return t->order->over_time_sec == UINT32_MAX ? 0 : left_sec(t, t->order->over_time_sec);
}

void agent_env_words(const struct agent *a, struct exe_env_words *ret)
{
	*ret = (struct exe_env_words){.inventory = (struct exe_inventory *)&a->inventory,
				      .open_devices = !a->fence_devices,
				      .cluster = a->cluster,
				      .node = a->node,
				      .conf_path = a->conf_path,
				      .propagate = mu_conf_get(a->live, "PropagateResourceLimits", NULL),
				      .propagate_except =
					  mu_conf_get(a->live, "PropagateResourceLimitsExcept", NULL)};
}

/* ---- orders ---- */

void agent_order_limits(Mu__StepOrder *o, const struct exe_cgroup_limits *limits, struct mu_arena *arena)
{
	o->has_memory_bytes = o->has_fence_devices = 1;
	o->memory_bytes = limits->memory_bytes;
	o->cpus = (char *)limits->cpus;
	o->fence_devices = limits->fence_devices;
	o->device = mu_arena_alloc(arena, (limits->device_count + 1) * sizeof *o->device);
	for (size_t i = 0; i < limits->device_count; i++) {
		Mu__DeviceRule *r = mu_arena_alloc(arena, sizeof *r);
		mu__device_rule__init(r);
		r->has_block = r->has_major = r->has_minor = r->has_any_minor = 1;
		r->block = limits->device[i].kind == 'b';
		r->major = limits->device[i].major;
		r->minor = limits->device[i].minor;
		r->any_minor = limits->device[i].any_minor;
		o->device[i] = r;
	}
	o->n_device = limits->device_count;
}

/* What every step of the attempt shares. */
Mu__StepOrder *agent_order_new(const struct agent *a, const struct agent_attempt *t, uint32_t step,
			       struct mu_arena *arena)
{
	Mu__StepOrder *o = mu_arena_alloc(arena, sizeof *o);
	const Mu__AttemptOrder *job = t->order;
	char word[16];
	mu__step_order__init(o);
	exe_step_word(step, word);
	o->has_job = o->has_attempt = o->has_step = o->has_uid = o->has_gid = o->has_node_index = 1;
	o->has_kill_wait_sec = o->has_time_limit_sec = o->has_start_usec = 1;
	o->job = job->job;
	o->attempt = job->attempt;
	o->step = step;
	o->node = (char *)a->node;
	o->node_index = job->node_index;
	o->cgroup = mu_arena_printf(arena, "%s/step_%s", t->cgroup, word);
	o->uid = job->uid;
	o->gid = job->gid;
	o->groups = job->groups;
	o->n_groups = job->n_groups;
	o->user = job->user;
	if (job->has_array_task) {
		o->has_has_array = o->has_array = o->has_array_job = o->has_array_task = 1;
		o->array_job = job->array_job;
		o->array_task = job->array_task;
	}
	o->job_name = job->spec ? job->spec->name : NULL;
	o->kill_wait_sec = a->kill_wait_sec;
	o->time_limit_sec = agent_time_left_sec(t);
	o->has_suspended_before_usec = 1;
	o->suspended_before_usec = t->order->suspended_usec;
	o->start_usec = exe_wall_usec();
	o->has_pids_max = 1;
	o->pids_max = a->pids_max;
	agent_private_order(a, t, o, arena);
	return o;
}

static int write_script(struct agent_attempt *t, struct mu_err *err)
{
	MU_CLEANUP(close_fd) int dir = open_dir(t, err);
	if (dir < 0)
		return MU_EIO;
	int code = exe_spool_write(dir, "slurm_script", t->script.data, t->script.len, 0500, false, err);
	if (code == 0 && getuid() == 0 &&
	    fchownat(dir, "slurm_script", t->order->uid, t->order->gid, AT_SYMLINK_NOFOLLOW))
		code = mu_fail(err, MU_EIO, "script in %s: %s", t->dir, strerror(errno));
	return code;
}

static ProtobufCBinaryData text_bytes(struct mu_arena *arena, const char *text)
{
	char *copy = mu_arena_strdup(arena, text);
	return (ProtobufCBinaryData){strlen(copy), (uint8_t *)copy};
}

static void add_program(ProtobufCBinaryData **list, size_t *count, ProtobufCBinaryData word,
			struct mu_arena *arena)
{
	if (word.len == 0)
		return;
	if (!*list)
		*list = mu_arena_alloc(arena, 2 * sizeof **list);
	(*list)[(*count)++] = word;
}

void agent_task_programs(const struct agent *a, Mu__StepOrder *o, ProtobufCBinaryData prolog,
			 ProtobufCBinaryData epilog, struct mu_arena *arena)
{
	add_program(&o->task_prolog, &o->n_task_prolog,
		    text_bytes(arena, mu_conf_get(a->live, "TaskProlog", "")), arena);
	add_program(&o->task_prolog, &o->n_task_prolog, prolog, arena);
	add_program(&o->task_epilog, &o->n_task_epilog, epilog, arena);
	add_program(&o->task_epilog, &o->n_task_epilog,
		    text_bytes(arena, mu_conf_get(a->live, "TaskEpilog", "")), arena);
}

static void batch_files(struct agent *a, Mu__StepOrder *o, const Mu__JobSpec *spec, struct mu_arena *arena)
{
	const char *name = o->has_array ? "slurm-%A_%a.out" : "slurm-%j.out";

	o->has_std_in = o->has_std_out = o->has_std_err = o->has_work_dir = o->has_open_append =
	    o->has_umask = 1;
	o->work_dir = spec->work_dir;
	o->std_in = spec->std_in.len ? spec->std_in : text_bytes(arena, "/dev/null");
	o->std_out = spec->std_out.len ? spec->std_out : text_bytes(arena, name);
	o->std_err = spec->std_err;
	o->open_append = spec->has_open_append ? spec->open_append : a->config->job_file_append;
	o->umask = spec->has_umask ? spec->umask : 022;
}

/* --get-user-env, which --export=NONE asks for too. */
static void login_order(Mu__StepOrder *o, const Mu__JobSpec *spec)
{
	const char *text = spec->export && strcasecmp(spec->export, "NONE") == 0 ? "" : NULL;
	struct mu_login login;
	for (size_t i = 0; i < spec->n_hint; i++)
		if (spec->hint[i]->name && strcmp(spec->hint[i]->name, "get-user-env") == 0)
			text = spec->hint[i]->value ? spec->hint[i]->value : "";
	if (!text || mu_login_parse(text, &login, NULL))
		return;
	o->has_login_sec = o->has_login_plain = o->has_login_defaults = 1;
	o->login_sec = login.sec;
	o->login_plain = login.plain;
}

int agent_launch_batch(struct agent *a, struct agent_attempt *t, struct mu_err *err)
{
	struct mu_arena arena = {0};
	const Mu__AttemptOrder *job = t->order;
	const Mu__JobSpec *spec = job->spec;
	struct exe_env_words words;
	agent_env_words(a, &words);
	struct exe_cgroup_limits limits;
	int code = write_script(t, err);
	if (code == 0)
		code = agent_limits(a, job->here, job->here->mem_mib, job->here->cpu_list, job->here->gres,
				    job->here->n_gres, &arena, &limits, err);
	if (code) {
		mu_arena_free(&arena);
		return code;
	}
	Mu__StepOrder *o = agent_order_new(a, t, MU_STEP_BATCH, &arena);
	agent_order_limits(o, &limits, &arena);
	code = agent_container_order(a, t, o, spec->container, spec->work_dir, &arena, err);
	if (code) {
		mu_arena_free(&arena);
		return code;
	}
	o->argv = mu_arena_alloc(&arena, (spec->n_argv + 1) * sizeof *o->argv);
	o->argv[0] = text_bytes(&arena, mu_arena_printf(&arena, "%s/slurm_script", t->dir));
	for (size_t i = 0; i < spec->n_argv; i++)
		o->argv[i + 1] = spec->argv[i];
	o->n_argv = spec->n_argv + 1;
	login_order(o, spec);
	words.ret_defaults = &o->login_defaults;
	exe_env_build(job, &words, NULL, (struct mu_view){t->env.data, t->env.len}, &arena, &o->env,
		      &o->n_env);
	batch_files(a, o, spec, &arena);
	agent_task_programs(a, o, (ProtobufCBinaryData){0}, (ProtobufCBinaryData){0}, &arena);
	o->task = mu_arena_alloc(&arena, sizeof *o->task);
	o->n_task = 1;
	o->name = mu_arena_strdup(&arena, "batch");
	o->has_cpus_count = o->has_mem_mib = 1;
	o->cpus_count = job->here->cpus;
	o->mem_mib = job->here->mem_mib;
	o->gres = job->here->gres;
	o->n_gres = job->here->n_gres;
	struct agent_step *step;
	return agent_launch_step(a, t, o, arena, -1, &step, err);
}

/* ---- steps ---- */

struct agent_step *agent_step_add(struct agent_attempt *t, Mu__StepOrder *order, struct mu_arena arena)
{
	struct agent_step *s = calloc(1, sizeof *s), **at = &t->step;
	if (!s)
		abort();
	s->arena = arena;
	s->order = order;
	s->pid = -1;
	s->control = -1;
	while (*at)
		at = &(*at)->next;
	*at = s;
	t->steps_live++;
	t->steps_changed = true;
	if (order->cpu_list && !order->overlap) {
		s->cpus = mu_arena_alloc(&s->arena, sizeof *s->cpus);
		mu_bits_parse(s->cpus, order->cpu_list, EXE_CPUS_MAX);
	}
	return s;
}

int agent_launch_step(struct agent *a, struct agent_attempt *t, Mu__StepOrder *order, struct mu_arena arena,
		      int stream_fd, struct agent_step **ret, struct mu_err *err)
{
	char word[16], name[40];
	pid_t pid;
	int control, code = MU_EIO;
	MU_CLEANUP(close_fd) int dir = open_dir(t, err);
	exe_step_word(order->step, word);
	snprintf(name, sizeof name, "step_%s.order", word);
	if (dir >= 0)
		code = exe_spool_write_pb(dir, name, &order->base, false, err);
	if (code == 0)
		code = exe_herd_start(a->shepherd, t->dir, order->step, stream_fd, &pid, &control, err);
	if (code) {
		mu_arena_free(&arena);
		return code;
	}
	struct agent_step *s = agent_step_add(t, order, arena);
	s->pid = pid;
	s->control = control;
	*ret = s;
	diag_debug("job %u step %s: shepherd %d", order->job, word, pid);
	return 0;
}

void agent_step_flush(struct agent_step *s)
{
	while (s->control >= 0 && s->out.len) {
		ssize_t n = send(s->control, s->out.data, s->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0)
			return;
		memmove(s->out.data, s->out.data + n, s->out.len - (size_t)n);
		s->out.len -= (size_t)n;
	}
}

void agent_step_read_end(struct agent *a, struct agent_attempt *t, struct agent_step *s)
{
	char word[16], name[40];
	ProtobufCMessage *m = NULL;
	struct mu_err err = {0};
	MU_CLEANUP(close_fd) int dir = open_dir(t, &err);
	exe_step_word(s->order->step, word);
	snprintf(name, sizeof name, "step_%s.end", word);
	int code =
	    dir < 0 ? MU_EIO : exe_spool_read_pb(dir, name, &mu__step_end__descriptor, &s->arena, &m, &err);
	s->end = (Mu__StepEnd *)m;
	if (code) {
		Mu__StepEnd *lost = mu_arena_alloc(&s->arena, sizeof *lost);
		mu__step_end__init(lost);
		lost->cause = END_SHEPHERD_LOST;
		lost->exit_signal = 9;
		lost->start_usec = s->order->start_usec;
		lost->end_usec = exe_wall_usec();
		lost->detail = mu_arena_printf(&s->arena, "the shepherd of step %s was killed", word);
		s->end = lost;
		diag_error("job %u step %s: its shepherd is gone without a word", t->order->job, word);
		/* What it left behind is ours to end. */
		if (exe_cgroup_kill(&a->host, s->order->cgroup, 2000, &err) ||
		    exe_cgroup_remove(&a->host, s->order->cgroup, &err))
			diag_error("job %u step %s: %s", t->order->job, word, err.text);
		agent_container_clear(a, t, s);
	}
	if (s->control >= 0)
		close(s->control);
	s->control = -1;
	s->ended = true;
	t->steps_live--;
	t->steps_changed = true;
}

static uint32_t step_state(const Mu__StepEnd *e)
{
	switch (e->cause) {
	case END_CANCEL:
	case END_REQUEUE:
	case END_JOB_OVER:
		return JOB_CANCELLED;
	case END_TIME_LIMIT:
		return JOB_TIMEOUT;
	case END_OOM:
		return JOB_OUT_OF_MEMORY;
	case END_NODE_FAIL:
		return JOB_NODE_FAIL;
	case END_PREEMPT:
		return JOB_PREEMPTED;
	case END_DEADLINE:
		return JOB_DEADLINE;
	case END_NONE:
		return e->exit_code || e->exit_signal ? JOB_FAILED : JOB_COMPLETED;
	default:
		return JOB_FAILED;
	}
}

bool agent_extern_row(const struct agent *a, struct agent_attempt *t, bool over, Mu__StepRow *ret)
{
	const char *flags = mu_conf_get(a->live, "PrologFlags", "");
	const Mu__AttemptOrder *o = t->order;
	if (!o->batch_host || !(strcasestr(flags, "contain") || strcasestr(flags, "x11")))
		return false;
	mu__step_row__init(ret);
	ret->has_job = ret->has_attempt = ret->has_step = ret->has_state = ret->has_start_usec =
	    ret->has_tasks = ret->has_cpus = ret->has_node_count = 1;
	ret->job = o->job;
	ret->attempt = o->attempt;
	ret->step = MU_STEP_EXTERN;
	ret->name = "extern";
	ret->state = JOB_RUNNING;
	ret->start_usec = t->record->begin_usec;
	ret->tasks = ret->node_count = (uint32_t)o->n_alloc;
	ret->node_list = o->node_list;
	for (size_t i = 0; i < o->n_alloc; i++)
		ret->cpus += o->alloc[i]->cpus;
	if (!over)
		return true;
	ret->has_end_usec = ret->has_exit_code = ret->has_exit_signal = 1;
	ret->end_usec = exe_wall_usec();
	ret->state = t->record->end_cause == END_CANCEL ? JOB_CANCELLED : JOB_COMPLETED;
	return true;
}

void agent_step_row(const struct agent *a, const struct agent_step *s, Mu__StepRow *ret)
{
	const Mu__StepOrder *o = s->order;
	mu__step_row__init(ret);
	ret->has_job = ret->has_attempt = ret->has_step = ret->has_state = ret->has_start_usec =
	    ret->has_tasks = 1;
	ret->has_cpus = ret->has_node_count = ret->has_mem_mib = 1;
	ret->job = o->job;
	ret->attempt = o->attempt;
	ret->step = o->step;
	ret->name = o->name;
	ret->state = JOB_RUNNING;
	ret->start_usec = o->start_usec;
	ret->tasks = (uint32_t)o->n_task;
	ret->cpus = o->cpus_count;
	ret->node_list = s->lead ? o->step_node_list : (char *)a->node;
	ret->node_count = s->lead ? o->step_nodes : 1;
	ret->mem_mib = o->mem_mib;
	ret->gres = o->gres;
	ret->n_gres = o->n_gres;
	ret->submit_line = o->submit_line;
	ret->container = o->container ? o->container->bundle : NULL;
	if (!s->ended)
		return;
	const Mu__StepEnd *e = s->end;
	ret->state = step_state(e);
	ret->has_end_usec = ret->has_exit_code = ret->has_exit_signal = 1;
	ret->end_usec = e->end_usec;
	ret->exit_code = e->exit_code;
	ret->exit_signal = e->exit_signal;
	ret->usage = e->usage;
	ret->detail = e->detail;
	if (e->cause == END_CANCEL) {
		ret->has_has_canceller = ret->has_cancelled_by = 1;
		ret->has_canceller = true;
		ret->cancelled_by = e->by_uid;
	}
}
