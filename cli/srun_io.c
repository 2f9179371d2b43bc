/* cli/srun_io.c: srun as the terminal of its step: standard input to the tasks, their output here, signals
 * there. One thread, poll. Each direction is held by credit, so that neither side buffers without bound. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "cli/spec.h"
#include "cli/srun.h"
#include "proto/pb.h"
#include "proto/usage.h"

enum { READ_BYTES = 64 * 1024, OUT_MAX = 128 * 1024, TASKS_MAX = 65536, SECOND_MSEC = 1000 };

enum { ONLY_ALL = -1, ONLY_NONE = -2 };

struct ended {
	bool known;
	int code, signal;
	bool oom, told;
	const char *node;
};

struct io {
	struct srun *srun;
	struct cli *cli;
	int signals;
	bool pty, raw; /* raw: the terminal is to be given back as BEFORE */
	struct termios before;
	bool stdin_open, label;
	size_t open;   /* nodes whose step is not over */
	bool kill_all; /* a task failed and -K was given */
	uint16_t stdin_channel;
	int label_width;
	int partial[2]; /* channel + 1 of an unfinished line on standard output and error */
	int only[2];	/* --output-filter, --error-filter: this task, ONLY_ALL or ONLY_NONE */
	bool left;	/* sattach was told to go */
	bool broken[2]; /* nobody reads it any more */
	bool abort_told;
	struct ended *task;
	uint32_t tasks, tasks_over;
	int64_t interrupt_msec, first_end_msec;
	unsigned interrupts;
	int64_t wait_sec;
	int step_code, step_signal;
	const char *detail;
};

/* ---- output ---- */

static void send_signal(struct io *io, int number);

/* As in a pipe on one host the tasks get SIGPIPE once nobody reads their output, and those that ignore it go
 * on. */
static void reader_gone(struct io *io, int which, int cause)
{
	if (which || cause != EPIPE)
		return;
	if (io->srun->joins)
		io->left = true;
	else
		send_signal(io, SIGPIPE);
}

static void put_all(struct io *io, int which, const uint8_t *data, size_t len)
{
	int fd = which ? STDERR_FILENO : STDOUT_FILENO;

	while (len && !io->broken[which]) {
		ssize_t n = write(fd, data, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			struct pollfd p = {fd, POLLOUT, 0};

			poll(&p, 1, -1);
			continue;
		}
		if (n < 0) {
			io->broken[which] = true;
			reader_gone(io, which, errno);
			return;
		}
		data += n;
		len -= (size_t)n;
	}
}

/* In a step over components of a heterogeneous job the component's number comes first. */
static void put_labelled(struct io *io, const struct srun *of, int which, uint16_t channel,
			 const uint8_t *data, size_t len)
{
	char label[32];
	int n = io->srun->parts > 1
		    ? snprintf(label, sizeof label, "%u: %*u: ", of->group, io->label_width, channel)
		    : snprintf(label, sizeof label, "%*u: ", io->label_width, channel);

	while (len) {
		const uint8_t *newline = memchr(data, '\n', len);
		size_t part = newline ? (size_t)(newline - data) + 1 : len;

		/* Another task's line begins: the unfinished one ends here. */
		if (io->partial[which] && io->partial[which] != channel + 1)
			put_all(io, which, (const uint8_t *)"\n", 1);
		if (io->partial[which] != channel + 1)
			put_all(io, which, (const uint8_t *)label, (size_t)n);
		put_all(io, which, data, part);
		io->partial[which] = newline ? 0 : channel + 1;
		data += part;
		len -= part;
	}
}

static int take_output(struct io *io, struct srun_conn *c, int which, const struct stream_frame *f)
{
	uint32_t grant;

	if (stream_received(&c->out, (uint32_t)f->payload.len))
		return MU_EPROTO;
	if (io->only[which] != ONLY_ALL && io->only[which] != f->channel)
		;
	else if (io->label)
		put_labelled(io, c->of, which, f->channel, f->payload.data, f->payload.len);
	else
		put_all(io, which, f->payload.data, f->payload.len);
	grant = stream_consumed(&c->out, (uint32_t)f->payload.len);
	if (grant)
		stream_put_u32(&c->to_send, STREAM_CREDIT_GRANT, 0, grant);
	return 0;
}

/* ---- ends ---- */

static void take_task_end(struct io *io, struct srun_conn *c, const struct stream_frame *f)
{
	const Mu__TaskEnded *m = (Mu__TaskEnded *)mu_pb_unpack(&mu__task_ended__descriptor, f->payload.data,
							       f->payload.len, &io->cli->arena);

	if (!m || m->task >= io->tasks || io->task[m->task].known)
		return;
	io->task[m->task] =
	    (struct ended){true, m->exit_code, m->exit_signal, m->oom, false, m->node ? m->node : c->node};
	io->tasks_over++;
	if (!io->first_end_msec)
		io->first_end_msec = cli_mono_msec();
	/* On its own node the step ends by itself; the others are told. */
	if (io->kill_all && io->srun->conns > 1 && (m->exit_code || m->exit_signal)) {
		io->kill_all = false;
		send_signal(io, SIGKILL);
	}
}

static void close_conn(struct io *io, struct srun_conn *c, bool lost)
{
	if (c->over || c->lost)
		return;
	c->over = !lost;
	c->lost = lost;
	io->open--;
}

static void take_step_end(struct io *io, struct srun_conn *c, const struct stream_frame *f)
{
	const Mu__StepEnded *m = (Mu__StepEnded *)mu_pb_unpack(&mu__step_ended__descriptor, f->payload.data,
							       f->payload.len, &io->cli->arena);

	close_conn(io, c, false);
	if (!m)
		return;
	io->step_code = m->exit_code > io->step_code ? m->exit_code : io->step_code;
	io->step_signal = m->exit_signal > io->step_signal ? m->exit_signal : io->step_signal;
	if (m->detail && *m->detail)
		io->detail = m->detail;
	if (m->usage)
		mu_usage_merge(&c->of->usage, m->usage, c->node, &io->cli->arena);
}

static bool same_end(const struct ended *a, const struct ended *b)
{
	return b->known && !b->told && a->code == b->code && a->signal == b->signal && a->oom == b->oom &&
	       strcmp(a->node, b->node) == 0;
}

/* "task 0", "tasks 0-2,5" of those that ended like FIRST; marks them as told. */
static void name_tasks(struct io *io, uint32_t first, struct mu_buf *out)
{
	struct ended like = io->task[first];
	unsigned count = 0;
	struct mu_buf list MU_CLEANUP(mu_buf_free) = {0};

	for (uint32_t i = first; i < io->tasks; i++) {
		uint32_t last = i;

		if (!same_end(&like, &io->task[i]))
			continue;
		while (last + 1 < io->tasks && same_end(&like, &io->task[last + 1]))
			last++;
		mu_buf_printf(&list, "%s%u", count ? "," : "", i);
		if (last > i)
			mu_buf_printf(&list, "-%u", last);
		for (uint32_t k = i; k <= last; k++)
			io->task[k].told = true;
		count += last - i + 1;
		i = last;
	}
	mu_buf_printf(out, "%s %s", count > 1 ? "tasks" : "task", (char *)list.data);
}

/* Failures since the last call, those alike on one line. */
static void tell_failures(struct io *io)
{
	for (uint32_t i = 0; i < io->tasks; i++) {
		const struct ended *e = &io->task[i];
		struct mu_buf names MU_CLEANUP(mu_buf_free) = {0};

		if (!e->known || e->told || (!e->code && !e->signal && !e->oom))
			continue;
		name_tasks(io, i, &names);
		if (e->oom)
			cli_error(io->cli, "%s: %s: Out Of Memory", e->node, (char *)names.data);
		else if (e->signal)
			cli_error(io->cli, "%s: %s: %s", e->node, (char *)names.data, strsignal(e->signal));
		else
			cli_error(io->cli, "%s: %s: Exited with exit code %d", e->node, (char *)names.data,
				  e->code);
	}
}

static int exit_code(struct io *io)
{
	int highest = 0;
	bool killed = false;

	for (uint32_t i = 0; i < io->tasks; i++) {
		const struct ended *e = &io->task[i];
		int code = e->signal ? 128 + e->signal : e->code;

		killed = killed || e->signal;
		if (code > highest)
			io->srun->signal = e->signal;
		highest = code > highest ? code : highest;
	}
	if (killed && !io->srun->joins)
		cli_say(io->cli, "Force Terminated StepId=%u.%u", io->srun->job.job, io->srun->granted->step);
	if (io->detail)
		cli_error(io->cli, "%s", io->detail);
	bool lost = false;

	for (size_t i = 0; i < io->srun->conns; i++)
		lost = lost || io->srun->conn[i].lost;
	if (lost) {
		cli_error(io->cli,
			  "The connection to StepId=%u.%u was lost; the step's own record tells how it ended",
			  io->srun->job.job, io->srun->granted->step);
		return highest ? highest : 1;
	}
	if (!highest && io->tasks_over < io->tasks) {
		io->srun->signal = io->step_signal;
		highest = io->step_signal ? 128 + io->step_signal : io->step_code ? io->step_code : 1;
	}
	return highest;
}

/* ---- signals ---- */

static void send_signal(struct io *io, int number)
{
	for (size_t i = 0; i < io->srun->conns; i++)
		if (!io->srun->conn[i].over && !io->srun->conn[i].lost)
			stream_put_u32(&io->srun->conn[i].to_send, STREAM_SIGNAL, STREAM_ALL,
				       (uint32_t)number);
}

static void tell_running(struct io *io)
{
	struct mu_buf list MU_CLEANUP(mu_buf_free) = {0};
	unsigned count = 0;

	for (uint32_t i = 0; i < io->tasks; i++) {
		uint32_t last = i;

		if (io->task[i].known)
			continue;
		while (last + 1 < io->tasks && !io->task[last + 1].known)
			last++;
		mu_buf_printf(&list, "%s%u", count ? "," : "", i);
		if (last > i)
			mu_buf_printf(&list, "-%u", last);
		count += last - i + 1;
		i = last;
	}
	if (count)
		cli_say(io->cli, "step:%u.%u %s %s: running", io->srun->job.job, io->srun->granted->step,
			count > 1 ? "tasks" : "task", (char *)list.data);
}

static void interrupted(struct io *io)
{
	int64_t now = cli_mono_msec();
	const struct cli_args *args = io->srun->args;

	if (cli_args_has(args, OPT_quit_on_interrupt)) {
		send_signal(io, SIGKILL);
		return;
	}
	if (cli_args_has(args, OPT_disable_status) ||
	    (io->interrupts && now - io->interrupt_msec <= SECOND_MSEC)) {
		if (io->interrupts < 2) {
			cli_say(io->cli, "sending Ctrl-C to StepId=%u.%u", io->srun->job.job,
				io->srun->granted->step);
			send_signal(io, SIGINT);
		} else {
			cli_say(io->cli, "forcing the end of StepId=%u.%u", io->srun->job.job,
				io->srun->granted->step);
			send_signal(io, SIGKILL);
		}
		io->interrupts++;
	} else {
		cli_say(io->cli, "interrupt (one more within 1 sec to abort)");
		tell_running(io);
		io->interrupts = 1;
	}
	io->interrupt_msec = now;
}

/* ---- the terminal ---- */

static void send_size(struct io *io)
{
	struct winsize size = {0};

	if (!io->pty || io->srun->joins || ioctl(STDIN_FILENO, TIOCGWINSZ, &size))
		return;
	const uint8_t payload[4] = {(uint8_t)(size.ws_row >> 8), (uint8_t)size.ws_row,
				    (uint8_t)(size.ws_col >> 8), (uint8_t)size.ws_col};
	for (size_t i = 0; i < io->srun->conns; i++)
		if (!io->srun->conn[i].over && !io->srun->conn[i].lost)
			stream_put(&io->srun->conn[i].to_send, STREAM_WINSIZE, 0, payload, sizeof payload);
}

/* Every key is the task's: its own terminal makes signals of them. */
static void take_terminal(struct io *io)
{
	struct termios raw;

	if (!io->pty || tcgetattr(STDIN_FILENO, &io->before))
		return;
	raw = io->before;
	cfmakeraw(&raw);
	io->raw = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
	send_size(io); /* it may have changed since the request */
}

static void give_terminal_back(struct io *io)
{
	if (io->raw)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &io->before);
	io->raw = false;
}

static int open_signals(void)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		sigaddset(&set, numbers[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void take_signals(struct io *io)
{
	struct signalfd_siginfo info;

	while (read(io->signals, &info, sizeof info) == sizeof info) {
		if (io->srun->joins)
			io->left = io->left || info.ssi_signo != SIGWINCH;
		else if (info.ssi_signo == SIGWINCH)
			send_size(io);
		else if (info.ssi_signo == SIGINT && !io->raw)
			interrupted(io);
		else
			send_signal(io, (int)info.ssi_signo);
	}
}

/* ---- input ---- */

/* Every node gets all of it and hands it to the tasks that it is for. */
static void send_stdin(struct io *io, const uint8_t *data, size_t len)
{
	for (size_t i = 0; i < io->srun->conns; i++) {
		struct srun_conn *c = &io->srun->conn[i];

		if (c->over || c->lost)
			continue;
		stream_put(&c->to_send, STREAM_STDIN, io->stdin_channel, data, len);
		if (len)
			stream_sent(&c->in, (uint32_t)len);
	}
}

/* What every node can take. */
static uint32_t stdin_room(const struct io *io)
{
	uint32_t least = UINT32_MAX;

	for (size_t i = 0; i < io->srun->conns; i++) {
		const struct srun_conn *c = &io->srun->conn[i];
		uint32_t may = stream_may_send(&c->in);

		if (c->over || c->lost)
			continue;
		if (c->to_send.len - c->sent >= OUT_MAX)
			may = 0;
		least = may < least ? may : least;
	}
	return least == UINT32_MAX ? 0 : least;
}

static void take_stdin(struct io *io)
{
	uint8_t chunk[READ_BYTES];
	uint32_t may = stdin_room(io);
	ssize_t n = read(STDIN_FILENO, chunk, may < sizeof chunk ? may : sizeof chunk);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	if (n <= 0) {
		if (!io->srun->joins)
			send_stdin(io, NULL, 0);
		io->stdin_open = false;
		return;
	}
	send_stdin(io, chunk, (size_t)n);
}

static void choose_stdin(struct io *io)
{
	const char *how = cli_args_value(io->srun->args, io->srun->joins ? OPT_attach_input : OPT_input);

	io->stdin_channel = STREAM_ALL;
	io->stdin_open = !how || strcmp(how, "all") == 0;
	if (how && *how && strspn(how, "0123456789") == strlen(how)) {
		io->stdin_channel = (uint16_t)strtoul(how, NULL, 10);
		io->stdin_open = true;
	}
	/* A closed descriptor is an end of file, not an error. */
	if (io->stdin_open && fcntl(STDIN_FILENO, F_GETFD) < 0) {
		io->stdin_open = false;
		if (!io->srun->joins)
			send_stdin(io, NULL, 0);
	}
}

static int filter(const struct io *io, int option)
{
	const char *how = cli_args_value(io->srun->args, option);

	if (!io->srun->joins || !how || strcmp(how, "all") == 0)
		return ONLY_ALL;
	return strcmp(how, "none") == 0 ? ONLY_NONE : (int)strtoul(how, NULL, 10);
}

/* ---- the connection ---- */

/* A node's tasks wait at a fence. It opens when those of every node do: each gets what all have put. */
static int take_pmi(struct io *io, struct srun_conn *c, const struct stream_frame *f)
{
	struct mu_buf all MU_CLEANUP(mu_buf_free) = {0};
	int rc = stream_join(&c->pmi, f);

	if (rc != 1)
		return rc;
	c->at_fence = true;
	for (size_t i = 0; i < io->srun->conns; i++)
		if (!io->srun->conn[i].at_fence)
			return 0;
	for (size_t i = 0; i < io->srun->conns; i++)
		mu_buf_add(&all, io->srun->conn[i].pmi.data, io->srun->conn[i].pmi.len);
	for (size_t i = 0; i < io->srun->conns; i++) {
		struct srun_conn *to = &io->srun->conn[i];

		mu_buf_reset(&to->pmi);
		to->at_fence = false;
		if (!to->over && !to->lost)
			stream_put(&to->to_send, STREAM_PMI, 0, all.data ? (void *)all.data : (void *)"",
				   all.len);
	}
	return 0;
}

/* A node says why it ends the step: KillWait, and the time that the ends take to come here. */
static void tell_abort(struct io *io, const struct stream_frame *f)
{
	static const char begins[] = "slurmstepd: error: *** STEP ";

	if (io->abort_told || f->payload.len < sizeof begins ||
	    memcmp(f->payload.data, begins, sizeof begins - 1) != 0)
		return;
	io->abort_told = true;
	cli_say(io->cli, "Job step aborted: Waiting up to %u seconds for job step to finish.",
		io->cli->conf.kill_wait_sec + 2);
}

static int take_frame(struct io *io, struct srun_conn *c, const struct stream_frame *f)
{
	uint32_t bytes;

	switch (f->kind) {
	case STREAM_STDOUT:
		return take_output(io, c, 0, f);
	case STREAM_STDERR:
		return take_output(io, c, 1, f);
	case STREAM_CREDIT_GRANT:
		return stream_get_u32(f, &bytes) ? MU_EPROTO : stream_granted(&c->in, bytes);
	case STREAM_TASK_ENDED:
		take_task_end(io, c, f);
		return 0;
	case STREAM_STEP_ENDED:
		take_step_end(io, c, f);
		return 0;
	case STREAM_TEXT: {
		tell_abort(io, f);
		bool ends = f->payload.len && f->payload.data[f->payload.len - 1] == '\n';

		put_all(io, 1, f->payload.data, f->payload.len);
		if (!ends)
			put_all(io, 1, (const uint8_t *)"\n", 1);
		return 0;
	}
	case STREAM_PMI:
		return take_pmi(io, c, f);
	case STREAM_PING:
		return 0;
	default:
		return 0; /* STARTED and what later versions may add */
	}
}

/* A node that is lost takes the step with it. */
static void lose(struct io *io, struct srun_conn *c)
{
	close_conn(io, c, true);
	if (io->open && !io->srun->joins)
		send_signal(io, SIGKILL);
}

static void take_frames(struct io *io, struct srun_conn *c)
{
	struct stream_frame f;
	int rc;

	while (!c->over && (rc = stream_next(&c->reader, &f)) != 0) {
		if (rc < 0 || take_frame(io, c, &f)) {
			cli_error(io->cli, "The step's connection to %s carried what cannot be read",
				  c->node);
			lose(io, c);
			return;
		}
	}
	tell_failures(io);
}

static void receive(struct io *io, struct srun_conn *c)
{
	uint8_t chunk[READ_BYTES];
	ssize_t n = recv(c->fd, chunk, sizeof chunk, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		lose(io, c);
		return;
	}
	stream_feed(&c->reader, chunk, (size_t)n);
	take_frames(io, c);
}

static void transmit(struct srun_conn *c)
{
	ssize_t n =
	    send(c->fd, c->to_send.data + c->sent, c->to_send.len - c->sent, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0) {
		if (errno != EAGAIN && errno != EINTR) /* what the step still had to say is read first */
			c->sent = c->to_send.len;
		return;
	}
	c->sent += (size_t)n;
	if (c->sent == c->to_send.len) {
		c->sent = 0;
		mu_buf_reset(&c->to_send);
	}
}

/* ---- the step manager ---- */

enum { MANAGER_TRIES = 25, MANAGER_PAUSE_MSEC = 1000 };

/* An agent that was restarted holds what the step was given until its srun comes again. */
static void lead_again(struct srun *s, int64_t now_msec)
{
	Mu__AttachAsk ask = MU__ATTACH_ASK__INIT;
	struct mu_buf body MU_CLEANUP(mu_buf_free) = {0};
	struct mu_err err = {0};
	Mu__StepGranted *granted;

	if (!s->manager_again_msec || now_msec < s->manager_again_msec)
		return;
	/* Streams go on while it is away: one look, and no waiting. */
	if (!cli_door_answers(s->cli, &s->job.first)) {
		s->manager_again_msec =
		    ++s->manager_tries < MANAGER_TRIES ? cli_mono_msec() + MANAGER_PAUSE_MSEC : 0;
		return;
	}
	ask.has_job = ask.has_step = 1;
	ask.job = s->job.job;
	ask.step = s->granted->step;
	mu_pb_pack(&ask.base, &body);
	int rc =
	    cli_door_ask(s->cli, &s->job, &s->job.first, STREAM_LEAD, (struct mu_view){body.data, body.len},
			 &s->manager, &s->manager_reader, &granted, &err);
	if (rc)
		s->manager = -1;
	s->manager_again_msec =
	    rc > 0 && ++s->manager_tries < MANAGER_TRIES ? cli_mono_msec() + MANAGER_PAUSE_MSEC : 0;
}

static void manager_gone(struct srun *s)
{
	close(s->manager);
	stream_reader_free(&s->manager_reader);
	s->manager_reader = (struct stream_reader){0};
	s->manager = -1;
	s->manager_tries = 0;
	s->manager_again_msec = cli_mono_msec() + 1;
}

/* --wait: the others get this long after the first task has ended. */
static int time_left(struct io *io)
{
	int64_t left;

	if (!io->wait_sec || !io->first_end_msec)
		return -1;
	left = io->first_end_msec + io->wait_sec * 1000 - cli_mono_msec();
	if (left > 0)
		return (int)left;
	cli_error(io->cli, "First task exited %llds ago", (long long)io->wait_sec);
	tell_running(io);
	send_signal(io, SIGKILL);
	io->wait_sec = 0;
	return -1;
}

static void serve(struct io *io, struct srun_conn *c, short events)
{
	if (c->over || c->lost)
		return;
	if (c->to_send.len > c->sent)
		transmit(c);
	if (events & (POLLIN | POLLHUP | POLLERR))
		receive(io, c);
}

static void loop(struct io *io)
{
	struct srun *s = io->srun;
	struct pollfd *p = mu_arena_alloc(&io->cli->arena, (s->conns + 3 + s->parts) * sizeof *p);

	for (size_t i = 0; i < s->conns; i++)
		take_frames(io, &s->conn[i]); /* what came with the grant */
	while (io->open && !io->left) {
		int timeout = time_left(io);

		for (size_t k = 0; k <= s->parts; k++) {
			struct srun *of = k ? &s->part[k - 1] : s;

			lead_again(of, cli_mono_msec());
			if (of->manager_again_msec && (timeout < 0 || timeout > MANAGER_PAUSE_MSEC))
				timeout = MANAGER_PAUSE_MSEC;
			/* It says nothing before it is told that the step is over: only its end is looked
			 * for. */
			p[s->conns + 2 + k] = (struct pollfd){of->manager, POLLRDHUP, 0};
		}
		for (size_t i = 0; i < s->conns; i++) {
			struct srun_conn *c = &s->conn[i];
			bool more = c->to_send.len > c->sent;

			p[i] = (struct pollfd){c->over || c->lost ? -1 : c->fd,
					       (short)(POLLIN | (more ? POLLOUT : 0)), 0};
		}
		p[s->conns] = (struct pollfd){io->signals, POLLIN, 0};
		p[s->conns + 1] =
		    (struct pollfd){io->stdin_open && stdin_room(io) ? STDIN_FILENO : -1, POLLIN, 0};
		if (poll(p, s->conns + 3 + s->parts, timeout) < 0 && errno != EINTR)
			break;
		for (size_t k = 0; k <= s->parts; k++)
			if (p[s->conns + 2 + k].revents)
				manager_gone(k ? &s->part[k - 1] : s);
		if (p[s->conns].revents)
			take_signals(io);
		if (p[s->conns + 1].revents)
			take_stdin(io);
		for (size_t i = 0; i < s->conns; i++)
			serve(io, &s->conn[i], p[i].revents);
	}
	tell_failures(io);
}

/* The step manager hears how it ended, and its answer (it hangs up) says that the CPUs are free again. */
static void tell_manager(const struct io *io, struct srun *s, int code)
{
	Mu__StepEnded m = MU__STEP_ENDED__INIT;
	struct mu_buf body MU_CLEANUP(mu_buf_free) = {0}, out MU_CLEANUP(mu_buf_free) = {0};
	struct stream_frame f;

	lead_again(s, INT64_MAX);
	if (s->manager < 0)
		return;
	m.has_exit_code = m.has_exit_signal = 1;
	m.exit_code = code > 128 && io->step_signal ? 0 : code;
	m.exit_signal = io->step_signal;
	m.usage = &s->usage;
	mu_pb_pack(&m.base, &body);
	stream_put(&out, STREAM_STEP_DONE, 0, body.data, body.len);
	if (stream_write_all(s->manager, out.data, out.len, NULL) == 0)
		stream_read_frame(s->manager, &s->manager_reader, 2 * SECOND_MSEC, &f, NULL);
}

int srun_stream(struct srun *s)
{
	struct io io = {
	    .srun = s,
	    .cli = s->cli,
	};
	const char *wait = cli_args_value(s->args, OPT_wait_step);
	uint32_t most;
	int rc;

	io.only[0] = filter(&io, OPT_attach_output);
	io.only[1] = filter(&io, OPT_attach_error);
	for (size_t i = 0; i < s->granted->n_tasks; i++)
		io.tasks += s->granted->tasks[i];
	if (io.tasks > TASKS_MAX)
		io.tasks = TASKS_MAX;
	io.task = mu_arena_alloc(&s->cli->arena, (io.tasks + 1) * sizeof *io.task);
	io.pty = cli_args_has(s->args, OPT_pty);
	io.label = cli_args_has(s->args, OPT_label) && !io.pty;
	io.label_width = 1;
	for (most = io.tasks ? io.tasks - 1 : 0; most >= 10; most /= 10)
		io.label_width++;
	io.wait_sec = wait ? (int64_t)strtoul(wait, NULL, 10) : s->granted->wait_sec;
	io.open = s->conns;
	io.kill_all = s->granted->kill_on_bad_exit;
	for (size_t i = 0; i < s->conns; i++) {
		stream_credit_init(&s->conn[i].in, STREAM_CREDIT);
		stream_credit_init(&s->conn[i].out, STREAM_CREDIT);
	}
	io.signals = open_signals();
	choose_stdin(&io);
	take_terminal(&io);
	loop(&io);
	give_terminal_back(&io);
	rc = io.left ? 1 : exit_code(&io);
	tell_manager(&io, s, rc > 255 ? 255 : rc);
	for (size_t k = 0; k < s->parts; k++)
		tell_manager(&io, &s->part[k], rc > 255 ? 255 : rc);
	if (io.signals >= 0)
		close(io.signals);
	return rc > 255 ? 255 : rc;
}
