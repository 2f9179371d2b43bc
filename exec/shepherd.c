/* exec/shepherd.c: muster-shepherd, the process that looks after one step on one node until nothing of it is
 * left. Owns: the step's control group, its processes, its output and its last word in the spool. One thread,
 * no service that could be away: it goes on when agent and controllers are gone. Leaves to the agent: what is
 * to run, and telling the controllers. */
#include "exec/shepherd.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "exec/shepherd_step.h"
#include "exec/spool.h"
#include "proto/pb.h"
#include "proto/states.h"
#include "proto/wire.pb-c.h"

enum {
	CLEAR_PAUSE_MSEC = 5,
	CLEAR_PAUSE_MAX_MSEC = 500,
	IDLE_MSEC = 60000,
	OOM_STATUS_SIGNAL = 125, /* shown as 0:125, Slurm's exit for a step that ran out of memory */
	IO_STATUS_SIGNAL = 53	 /* 0:53: its files could not be opened */
};

/* ---- what is said ---- */

void shep_say(struct shep_step *s, const char *format, ...)
{
	char line[1024];
	va_list args;
	int used = snprintf(line, sizeof line, "slurmstepd: error: ");
	va_start(args, format);
	vsnprintf(line + used, sizeof line - (size_t)used - 1, format, args);
	va_end(args);
	if (s->srun.fd >= 0)
		stream_put(&s->srun.out, STREAM_TEXT, 0, line, strlen(line));
	shep_watch_put(s, STREAM_TEXT, 0, line, strlen(line), false);
	if (s->say_fd >= 0)
		dprintf(s->say_fd, "%s\n", line);
}

static const char *cause_words(uint32_t cause)
{
	static const struct {
		uint32_t cause;
		const char *words;
	} row[] = {{END_CANCEL, ""},
		   {END_TIME_LIMIT, " DUE TO TIME LIMIT"},
		   {END_PREEMPT, " DUE TO PREEMPTION"},
		   {END_REQUEUE, " DUE TO JOB REQUEUE"},
		   {END_NODE_FAIL, " DUE TO NODE FAILURE"},
		   {END_DEADLINE, " DUE TO JOB DEADLINE"}};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		if (row[i].cause == cause)
			return row[i].words;
	return NULL;
}

static void say_end(struct shep_step *s, uint32_t cause)
{
	char date[32], what[48];
	time_t now = (time_t)(exe_wall_usec() / 1000000);
	struct tm tm;
	const char *words = cause_words(cause);
	if (!words)
		return;
	strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", localtime_r(&now, &tm));
	if (s->order->step == MU_STEP_BATCH)
		snprintf(what, sizeof what, "JOB %u", s->order->job);
	else
		snprintf(what, sizeof what, "STEP %u.%s", s->order->job, s->word);
	shep_say(s, "*** %s ON %s CANCELLED AT %s%s ***", what, s->order->node, date, words);
}

/* ---- ending ---- */

void shep_fail(struct shep_step *s, uint32_t cause, const char *detail)
{
	if (s->cause == END_NONE)
		s->cause = cause;
	if (!s->detail[0])
		snprintf(s->detail, sizeof s->detail, "%s", detail);
}

void shep_end(struct shep_step *s, uint32_t cause, uint32_t by_uid, bool at_once)
{
	if (s->phase >= SHEP_CLEARING)
		return;
	if (s->phase == SHEP_RUNNING) {
		if (s->cause == END_NONE) {
			s->cause = cause;
			s->by_uid = by_uid;
		}
		say_end(s, cause);
		s->phase = SHEP_ENDING;
		s->kill_boot_usec = exe_boot_usec() + (int64_t)s->order->kill_wait_sec * 1000000;
		exe_cgroup_freeze(&s->host, s->order->cgroup, false, NULL);
		exe_cgroup_signal(&s->host, s->order->cgroup, SIGCONT);
		shep_signal(s, SIGTERM, false);
	}
	if (at_once)
		s->phase = SHEP_CLEARING;
}

static uint32_t oom_count(struct shep_step *s)
{
	struct exe_cgroup_usage u;
	exe_cgroup_usage(&s->host, s->order->cgroup, &u);
	return u.oom_kills;
}

static void task_over(struct shep_step *s, struct shep_task *t);

static void task_ended(struct shep_step *s, struct shep_task *t, int status)
{
	t->ended = true;
	t->status = status;
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
		uint32_t kills = oom_count(s);
		t->oom = kills > s->oom_seen;
		s->oom_seen = kills;
	}
	if (s->order->n_task_epilog == 0 || s->phase >= SHEP_CLEARING || shep_epilog_start(s, t))
		task_over(s, t);
}

/* The task and its epilog are over. */
static void task_over(struct shep_step *s, struct shep_task *t)
{
	t->epilog_pid = 0;
	s->tasks_live--;
	shep_flow_task_ended(s, t);
	if (s->tasks_live == 0) {
		if (s->phase < SHEP_CLEARING)
			s->phase = SHEP_CLEARING;
	} else if (s->order->kill_on_bad_exit && t->status != 0) {
		shep_end(s, END_NONE, 0, false);
	}
}

/* Every process of the step comes here in the end: tasks by birth, the rest because we are their subreaper.
 */
static void reap(struct shep_step *s)
{
	struct signalfd_siginfo info[16];
	int status;
	while (read(s->child_signal, info, sizeof info) > 0) {
	}
	for (pid_t pid; (pid = shep_usage_wait(s, &status)) > 0;) {
		if (pid == s->clear_pid)
			s->clear_pid = 0;
		for (size_t i = 0; i < s->task_count; i++)
			if (s->task[i].pid == pid && !s->task[i].ended)
				task_ended(s, &s->task[i], status);
			else if (s->task[i].epilog_pid == pid)
				task_over(s, &s->task[i]);
	}
}

/* ---- the last word ---- */

static void step_status(const struct shep_step *s, int32_t *ret_code, int32_t *ret_signal)
{
	*ret_code = *ret_signal = 0;
	for (size_t i = 0; i < s->task_count; i++) {
		const struct shep_task *t = &s->task[i];
		if (t->ended && WIFEXITED(t->status) && WEXITSTATUS(t->status) > *ret_code)
			*ret_code = WEXITSTATUS(t->status);
		if (t->ended && WIFSIGNALED(t->status) && WTERMSIG(t->status) > *ret_signal)
			*ret_signal = WTERMSIG(t->status);
	}
}

static void judge_memory(struct shep_step *s, const Mu__Usage *usage, Mu__StepEnd *end)
{
	if (usage->oom_kills == 0)
		return;
	shep_say(s,
		 "Detected %u oom_kill event%s in StepId=%u.%s. Some of the step tasks have been OOM Killed.",
		 usage->oom_kills, usage->oom_kills == 1 ? "" : "s", s->order->job, s->word);
	if (end->cause == END_NONE) {
		end->cause = END_OOM;
		end->exit_code = 0;
		end->exit_signal = OOM_STATUS_SIGNAL;
	}
}

static bool agent_listens(const struct shep_step *s)
{
	for (size_t i = 0; i < SHEP_CONTROLS; i++)
		if (s->control[i].fd >= 0)
			return true;
	return false;
}

static void write_end(struct shep_step *s, Mu__StepEnd *end)
{
	char name[32];
	struct mu_err err = {0};
	/* An agent that is there reports the end at once, and forces it to disk where that must wait. */
	bool sync = !agent_listens(s);
	snprintf(name, sizeof name, "step_%s.end", s->word);
	/* A full or failing disk must not lose the end: it is tried until it is written. A spool that was
	 * removed takes nothing. */
	struct stat st;
	while (exe_spool_write_pb(s->dir, name, &end->base, sync, &err) && fstat(s->dir, &st) == 0 &&
	       st.st_nlink > 0) {
		shep_say(s, "%s", err.text);
		struct timespec pause = {1, 0};
		nanosleep(&pause, NULL);
	}
}

static void finish(struct shep_step *s)
{
	Mu__StepEnd end = MU__STEP_END__INIT;
	Mu__Usage usage = MU__USAGE__INIT;
	shep_usage(s, &usage);
	end.has_exit_code = end.has_exit_signal = end.has_cause = end.has_start_usec = end.has_end_usec = 1;
	end.has_span_usec = end.has_by_uid = end.has_clean = 1;
	step_status(s, &end.exit_code, &end.exit_signal);
	end.cause = s->cause;
	judge_memory(s, &usage, &end);
	if (s->files_failed && end.exit_code == 0 && end.exit_signal == 0)
		end.exit_signal = IO_STATUS_SIGNAL;
	end.detail = s->detail[0] ? s->detail : NULL;
	end.start_usec = s->start_usec;
	end.end_usec = exe_wall_usec();
	end.span_usec = exe_boot_usec() - s->start_boot_usec;
	end.usage = &usage;
	end.by_uid = s->by_uid;
	struct mu_err err = {0};
	end.clean = exe_cgroup_remove(&s->host, s->order->cgroup, &err) == 0;
	if (!end.clean && !end.detail)
		end.detail = err.text;
	write_end(s, &end);
	/* The agent first: an srun that hears of the end may ask for the same CPUs at once. */
	for (size_t i = 0; i < SHEP_CONTROLS; i++)
		if (s->control[i].fd >= 0) {
			stream_put(&s->control[i].out, EXE_SHEPHERD_ENDED, 0, NULL, 0);
			shep_peer_flush(&s->control[i]);
		}
	if (s->srun.fd >= 0 || shep_watched(s)) {
		Mu__StepEnded m = MU__STEP_ENDED__INIT;
		m.has_step = m.has_exit_code = m.has_exit_signal = 1;
		m.step = s->order->step;
		m.exit_code = end.exit_code;
		m.exit_signal = end.exit_signal;
		m.detail = end.detail;
		m.usage = &usage;
		MU_CLEANUP(mu_buf_free) struct mu_buf b = {0};
		mu_pb_pack(&m.base, &b);
		if (s->srun.fd >= 0)
			stream_put(&s->srun.out, STREAM_STEP_ENDED, 0, b.data, b.len);
		shep_watch_put(s, STREAM_STEP_ENDED, 0, b.data, b.len, false);
	}
}

/* ---- the loop ---- */

struct poll_set {
	struct pollfd *fd;
	size_t count, cap;
};
static size_t add(struct poll_set *p, int fd, short events)
{
	if (fd < 0 || p->count == p->cap)
		return SIZE_MAX;
	p->fd[p->count] = (struct pollfd){fd, events, 0};
	return p->count++;
}
static bool ready(const struct poll_set *p, size_t at)
{
	return at != SIZE_MAX && p->fd[at].revents != 0;
}

static int timeout_msec(struct shep_step *s)
{
	int64_t now = exe_boot_usec(), due = now + (int64_t)IDLE_MSEC * 1000;
	if (s->phase == SHEP_CLEARING) {
		int msec = CLEAR_PAUSE_MSEC << (s->clear_rounds < 8 ? s->clear_rounds / 4 : 7);
		return msec < CLEAR_PAUSE_MAX_MSEC ? msec : CLEAR_PAUSE_MAX_MSEC;
	}
	if (s->deadline_boot_usec && s->phase == SHEP_RUNNING && s->deadline_boot_usec < due)
		due = s->deadline_boot_usec;
	if (shep_watch_due(s) < due)
		due = shep_watch_due(s);
	if (shep_usage_due(s) < due)
		due = shep_usage_due(s);
	if (s->phase == SHEP_ENDING && s->kill_boot_usec < due)
		due = s->kill_boot_usec;
	for (size_t i = 0; i < s->task_count; i++)
		if ((s->task[i].out.held.len || s->task[i].err.held.len) && now + SHEP_PARTIAL_USEC < due)
			due = now + SHEP_PARTIAL_USEC;
	return due > now ? (int)((due - now + 999) / 1000) : 0;
}

static void act_on_time(struct shep_step *s)
{
	int64_t now = exe_boot_usec();
	shep_flow_timer(s, now);
	shep_usage_timer(s, now);
	if (s->phase == SHEP_RUNNING && s->deadline_boot_usec && now >= s->deadline_boot_usec)
		shep_end(s, END_TIME_LIMIT, 0, false);
	if (s->phase == SHEP_ENDING && now >= s->kill_boot_usec)
		s->phase = SHEP_CLEARING;
	bool waits = s->clear_pid && now < s->clear_boot_usec;
	if (s->phase == SHEP_CLEARING && !waits) {
		s->clear_rounds++;
		if (exe_cgroup_kill_once(&s->host, s->order->cgroup) == 0 && s->tasks_live == 0 &&
		    !shep_container_clearing(s))
			s->phase = SHEP_DRAINING;
	}
	if (s->phase == SHEP_DRAINING && shep_flow_drained(s)) {
		finish(s);
		s->phase = SHEP_DONE;
	}
}

/* Slots of one task in the poll set. */
struct slots {
	size_t launch, in, out, err, pmi;
};

static void watch_tasks(struct shep_step *s, struct poll_set *p, struct slots *slot)
{
	for (size_t i = 0; i < s->task_count; i++) {
		struct shep_task *t = &s->task[i];
		slot[i].launch = add(p, t->launch_fd, POLLIN);
		slot[i].in = add(p, t->in.len > t->in_used ? t->in_fd : -1, POLLOUT);
		slot[i].out = add(p, shep_flow_wants(s, &t->out) ? t->out.fd : -1, POLLIN);
		slot[i].err = add(p, shep_flow_wants(s, &t->err) ? t->err.fd : -1, POLLIN);
		slot[i].pmi = add(p, shep_pmi_fd(t), shep_pmi_has_output(t) ? POLLIN | POLLOUT : POLLIN);
	}
}

static void serve_tasks(struct shep_step *s, const struct poll_set *p, const struct slots *slot)
{
	for (size_t i = 0; i < s->task_count; i++) {
		struct shep_task *t = &s->task[i];
		if (ready(p, slot[i].launch))
			shep_launch_read(s, t);
		if (ready(p, slot[i].in))
			shep_flow_stdin(s, t);
		if (ready(p, slot[i].out))
			shep_flow_read(s, t, &t->out);
		if (ready(p, slot[i].err))
			shep_flow_read(s, t, &t->err);
		if (ready(p, slot[i].pmi))
			shep_pmi_serve(s, t);
	}
}

static void turn(struct shep_step *s, struct poll_set *p, struct slots *slot)
{
	size_t control[SHEP_CONTROLS], watch[SHEP_WATCHERS];
	p->count = 0;
	size_t child = add(p, s->child_signal, POLLIN), listener = add(p, s->listener, POLLIN);
	size_t srun = add(p, s->srun.fd, POLLIN | (s->srun.out.len ? POLLOUT : 0));
	size_t pmix = add(p, s->pmix.fd, POLLIN | (s->pmix.out.len ? POLLOUT : 0));
	for (size_t i = 0; i < SHEP_CONTROLS; i++)
		control[i] = add(p, s->control[i].fd, POLLIN | (s->control[i].out.len ? POLLOUT : 0));
	for (size_t i = 0; i < SHEP_WATCHERS; i++)
		watch[i] = add(p, s->watch[i].peer.fd, POLLIN | (s->watch[i].peer.out.len ? POLLOUT : 0));
	watch_tasks(s, p, slot);
	if (poll(p->fd, p->count, timeout_msec(s)) < 0 && errno != EINTR)
		abort();
	for (size_t i = 0; i < SHEP_CONTROLS; i++)
		if (ready(p, control[i]))
			shep_control_read(s, &s->control[i]);
	if (ready(p, listener))
		shep_control_accept(s);
	if (ready(p, srun) && (p->fd[srun].revents & ~POLLOUT) && s->srun.fd >= 0)
		shep_flow_srun(s);
	for (size_t i = 0; i < SHEP_WATCHERS; i++)
		if (ready(p, watch[i]) && (p->fd[watch[i]].revents & ~POLLOUT))
			shep_watch_read(s, &s->watch[i]);
	if (ready(p, pmix) && (p->fd[pmix].revents & ~POLLOUT))
		shep_pmix_read(s);
	serve_tasks(s, p, slot);
	if (ready(p, child) || s->phase == SHEP_CLEARING)
		reap(s);
	act_on_time(s);
	shep_flow_turn(s);
	for (size_t i = 0; i < SHEP_CONTROLS; i++)
		shep_peer_flush(&s->control[i]);
	shep_peer_flush(&s->srun);
	shep_peer_flush(&s->pmix);
	shep_watch_turn(s, exe_boot_usec());
}

/* The step has ended and the spool knows; only srun's bytes may still wait for a slow reader. */
static void flush_srun(struct shep_step *s)
{
	while (shep_peer_flush(&s->srun) && s->srun.out.len) {
		struct pollfd p = {s->srun.fd, POLLOUT, 0};
		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			return;
	}
}

/* ---- start ---- */

static int open_step(struct shep_step *s, const char *dir, const char *word, struct mu_err *err)
{
	char name[40];
	ProtobufCMessage *m;
	snprintf(s->word, sizeof s->word, "%s", word);
	snprintf(name, sizeof name, "step_%s.order", s->word);
	s->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->dir < 0)
		return mu_fail(err, MU_EIO, "%s: %s", dir, strerror(errno));
	int code = exe_spool_read_pb(s->dir, name, &mu__step_order__descriptor, &s->arena, &m, err);
	if (code)
		return code;
	s->order = (Mu__StepOrder *)m;
	if (!s->order->cgroup || !s->order->node || s->order->n_task == 0 ||
	    s->order->n_task > SHEP_TASKS_MAX)
		return mu_fail(err, MU_EINVAL, "%s names no control group, no node, or not 1 to %d tasks",
			       name, SHEP_TASKS_MAX);
	s->task_count = s->order->n_task;
	s->task = mu_arena_alloc(&s->arena, s->task_count * sizeof *s->task);
	for (size_t i = 0; i < s->task_count; i++) {
		struct shep_task *t = &s->task[i];
		t->number = s->order->task[i];
		t->launch_fd = t->in_fd = t->out.fd = t->err.fd = -1;
	}
	return 0;
}

static int make_group(struct shep_step *s, struct mu_err *err)
{
	const Mu__StepOrder *o = s->order;
	struct exe_device *device = mu_arena_alloc(&s->arena, (o->n_device + 1) * sizeof *device);
	for (size_t i = 0; i < o->n_device; i++)
		device[i] = (struct exe_device){o->device[i]->block ? 'b' : 'c', o->device[i]->any_minor,
						o->device[i]->major, o->device[i]->minor};
	struct exe_cgroup_limits limits = {.memory_bytes = o->memory_bytes,
					   .memory_group = o->memory_bytes != 0,
					   .cpus = o->cpus && o->cpus[0] ? o->cpus : NULL,
					   .pids_max = o->pids_max,
					   .fence_devices = o->fence_devices,
					   .device = device,
					   .device_count = o->n_device};
	int code = exe_cgroup_probe(&s->host, err);
	if (code == 0)
		code = exe_cgroup_make(&s->host, o->cgroup, &limits, err);
	return code ? code : exe_cgroup_open(&s->host, o->cgroup, &s->door, err);
}

static void write_state(struct shep_step *s)
{
	char name[40];
	Mu__StepState m = MU__STEP_STATE__INIT;
	m.has_pid = m.has_start_usec = 1;
	m.pid = (uint32_t)getpid();
	m.start_usec = s->start_usec;
	snprintf(name, sizeof name, "step_%s.state", s->word);
	struct mu_err err = {0};
	if (exe_spool_write_pb(s->dir, name, &m.base, false, &err))
		shep_fail(s, END_LAUNCH_FAILED, err.text);
}

static void tell_started(struct shep_step *s)
{
	for (size_t i = 0; s->srun.fd >= 0 && i < s->task_count; i++)
		if (s->task[i].pid)
			stream_put_u32(&s->srun.out, STREAM_STARTED, (uint16_t)s->task[i].number,
				       (uint32_t)s->task[i].pid);
}

/* From here on we and all tasks see the job's own folders: files are opened in them too. The spool is known
 * by its descriptor. */
static int go_private(struct shep_step *s, struct mu_err *err)
{
	const Mu__StepOrder *o = s->order;
	if (o->n_private_from == 0)
		return 0;
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return mu_fail(err, MU_EIO, "no mounts of the job's own: %s", strerror(errno));
	for (size_t i = 0; i < o->n_private_from && i < o->n_private_to; i++)
		if (mount(o->private_from[i], o->private_to[i], NULL, MS_BIND, NULL))
			return mu_fail(err, MU_EIO, "cannot give the job its own %s: %s", o->private_to[i],
				       strerror(errno));
	return 0;
}

static void begin(struct shep_step *s)
{
	struct mu_err err = {0};
	s->start_usec = exe_wall_usec();
	s->start_boot_usec = exe_boot_usec();
	if (s->order->time_limit_sec > 0)
		s->deadline_boot_usec = s->start_boot_usec + s->order->time_limit_sec * 1000000;
	int code = shep_control_listen(s, &err);
	if (code == 0)
		code = make_group(s, &err);
	write_state(s);
	if (code == 0)
		code = go_private(s, &err);
	if (code == 0)
		code = shep_pmi_open(s, &err);
	if (code == 0)
		code = shep_pmix_open(s, &err);
	if (code == 0)
		code = shep_spawn(s, &err);
	exe_cgroup_close(&s->door);
	tell_started(s);
	if (code) {
		shep_fail(s, END_LAUNCH_FAILED, err.text);
		shep_say(s, "%s", err.text);
		s->phase = SHEP_CLEARING;
	}
}

static void own_signals(struct shep_step *s)
{
	/* Nothing but the step's end ends us: what a terminal or a service manager sends to the agent's group
	 * passes by. */
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	s->child_signal = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	static const int deaf[] = {SIGPIPE, SIGHUP,  SIGINT,  SIGTERM, SIGQUIT,
				   SIGUSR1, SIGUSR2, SIGTTOU, SIGTTIN, SIGTSTP};
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	for (size_t i = 0; i < sizeof deaf / sizeof *deaf; i++)
		sigaction(deaf[i], &ignore, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

int main(int argc, char **argv)
{
	static struct shep_step s = {.dir = -1,
				     .listener = -1,
				     .child_signal = -1,
				     .say_fd = -1,
				     .srun = {.fd = -1},
				     .pmix = {.fd = -1}};
	struct mu_err err = {0};
	for (size_t i = 0; i < SHEP_CONTROLS; i++)
		s.control[i].fd = -1;
	for (size_t i = 0; i < SHEP_WATCHERS; i++)
		s.watch[i].peer.fd = -1;
	for (int c = 0; c < EXE_CONTROLLERS; c++)
		s.door.fd[c] = -1;
	bool clear = argc == 4 && strcmp(argv[3], "clear") == 0;
	if (argc != 3 && !clear) {
		dprintf(2, "usage: muster-shepherd ATTEMPT_DIR STEP [clear] (started by muster-agent)\n");
		return 1;
	}
	if (open_step(&s, argv[1], argv[2], &err)) {
		dprintf(2, "muster-shepherd: error: %s\n", err.text);
		return 1;
	}
	if (clear) {
		shep_container_clear(&s);
		return 0;
	}
	s.lock = EXE_FD_LOCK;
	fcntl(EXE_FD_LOCK, F_SETFD, FD_CLOEXEC);
	fcntl(EXE_FD_CONTROL, F_SETFD, FD_CLOEXEC);
	fcntl(EXE_FD_STREAM, F_SETFD, FD_CLOEXEC);
	own_signals(&s);
	shep_control_add(&s, EXE_FD_CONTROL);
	if (s.order->streamed)
		shep_flow_open(&s, EXE_FD_STREAM);
	begin(&s);
	size_t cap = 8 + SHEP_CONTROLS + SHEP_WATCHERS + 5 * s.task_count;
	struct poll_set p = {.fd = mu_arena_alloc(&s.arena, cap * sizeof(struct pollfd)), .cap = cap};
	struct slots *slot = mu_arena_alloc(&s.arena, s.task_count * sizeof *slot);
	while (s.phase != SHEP_DONE)
		turn(&s, &p, slot);
	flush_srun(&s);
	shep_watch_last(&s);
	shep_flow_free(&s);
	shep_pmi_close(&s);
	shep_pmix_close(&s);
	for (size_t i = 0; i < SHEP_CONTROLS; i++)
		shep_peer_close(&s.control[i]);
	mu_arena_free(&s.arena);
	return 0;
}
