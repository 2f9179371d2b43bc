/* exec/shepherd_flow.c: srun's connection: output in whole lines against credit, input to the tasks, signals.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/shepherd_step.h"
#include "exec/spool.h"
#include "proto/pb.h"
#include "proto/states.h"
#include "proto/wire.pb-c.h"

enum { READ_BYTES = 64 * 1024 };

/* ---- a peer's bytes ---- */

void shep_peer_close(struct shep_peer *p)
{
	if (p->fd >= 0)
		close(p->fd);
	if (p->passed)
		close(p->passed - 1);
	p->fd = -1;
	p->passed = 0;
	p->out_used = 0;
	stream_reader_free(&p->reader);
	mu_buf_free(&p->out);
}

bool shep_peer_flush(struct shep_peer *p)
{
	while (p->fd >= 0 && p->out_used < p->out.len) {
		ssize_t n = send(p->fd, p->out.data + p->out_used, p->out.len - p->out_used,
				 MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return true;
		if (n < 0) {
			shep_peer_close(p);
			return false;
		}
		p->out_used += (size_t)n;
	}
	p->out_used = 0;
	mu_buf_reset(&p->out);
	return p->fd >= 0;
}

static size_t waiting(const struct shep_peer *p)
{
	return p->out.len - p->out_used;
}

/* ---- output ---- */

static bool listened(const struct shep_step *s)
{
	return s->srun.fd >= 0 || shep_watched(s);
}

/* Output that srun and every sattach can take now. */
static uint32_t room(const struct shep_step *s)
{
	uint32_t here = UINT32_MAX, there = shep_watch_room(s);
	if (s->srun.fd >= 0)
		here = waiting(&s->srun) < SHEP_OUT_MAX ? stream_may_send(&s->out_credit) : 0;
	return here < there ? here : there;
}

bool shep_flow_wants(const struct shep_step *s, const struct shep_flow *f)
{
	if (f->fd < 0)
		return false;
	/* Where nobody listens the bytes are read and dropped: srun's end has begun the step's. */
	return !listened(s) || (f->due == 0 && room(s) > 0);
}

/* Sends what is due and what credit allows. A line that is cut keeps the others back, so that lines stay
 * whole. */
static void emit(struct shep_step *s, struct shep_task *t, struct shep_flow *f)
{
	if (f->due == 0 || (s->cut && s->cut != f && listened(s)))
		return;
	size_t len = f->due;
	if (listened(s)) {
		uint8_t kind = f == &t->out ? STREAM_STDOUT : STREAM_STDERR;
		uint32_t may = room(s);
		len = len < may ? len : may;
		if (len && s->srun.fd >= 0) {
			stream_put(&s->srun.out, kind, (uint16_t)t->number, f->held.data, len);
			stream_sent(&s->out_credit, (uint32_t)len);
		}
		if (len)
			shep_watch_put(s, kind, (uint16_t)t->number, f->held.data, len, true);
	}
	f->due -= len;
	s->cut = f->due ? f : NULL;
	memmove(f->held.data, f->held.data + len, f->held.len - len);
	f->held.len -= len;
	f->held_since_usec = exe_boot_usec();
}

/* Finds what may go: whole lines; everything at the end, without buffering, or when the line has grown too
 * long to hold. */
static void find_due(struct shep_step *s, struct shep_flow *f, bool all)
{
	const uint8_t *end = f->held.len ? memrchr(f->held.data, '\n', f->held.len) : NULL;
	if (all || s->order->unbuffered || f->held.len >= SHEP_LINE_MAX)
		f->due = f->held.len;
	else if (end)
		f->due = (size_t)(end - f->held.data) + 1;
}

void shep_flow_read(struct shep_step *s, struct shep_task *t, struct shep_flow *f)
{
	uint8_t chunk[READ_BYTES];
	ssize_t n = read(f->fd, chunk, sizeof chunk);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		close(f->fd);
		f->fd = -1;
		find_due(s, f, true);
		emit(s, t, f);
		return;
	}
	if (f->held.len == 0)
		f->held_since_usec = exe_boot_usec();
	mu_buf_add(&f->held, chunk, (size_t)n);
	find_due(s, f, false);
	emit(s, t, f);
}

void shep_flow_timer(struct shep_step *s, int64_t now_boot_usec)
{
	for (size_t i = 0; i < s->task_count; i++) {
		struct shep_flow *both[] = {&s->task[i].out, &s->task[i].err};
		for (size_t k = 0; k < 2; k++) {
			if (!s->order->label && both[k]->held.len &&
			    now_boot_usec - both[k]->held_since_usec >= SHEP_PARTIAL_USEC)
				find_due(s, both[k], true);
			emit(s, &s->task[i], both[k]);
		}
	}
}

void shep_flow_free(struct shep_step *s)
{
	for (size_t i = 0; i < s->task_count; i++) {
		mu_buf_free(&s->task[i].in);
		mu_buf_free(&s->task[i].out.held);
		mu_buf_free(&s->task[i].err.held);
	}
	shep_peer_close(&s->srun);
}

bool shep_flow_drained(const struct shep_step *s)
{
	for (size_t i = 0; i < s->task_count; i++)
		if (s->task[i].out.fd >= 0 || s->task[i].err.fd >= 0 ||
		    (listened(s) && (s->task[i].out.held.len || s->task[i].err.held.len)))
			return false;
	return true;
}

void shep_flow_put_end(const struct shep_step *s, const struct shep_task *t, struct mu_buf *out)
{
	Mu__TaskEnded m = MU__TASK_ENDED__INIT;
	m.has_task = m.has_exit_code = m.has_exit_signal = m.has_oom = 1;
	m.task = t->number;
	m.exit_code = WIFEXITED(t->status) ? WEXITSTATUS(t->status) : 0;
	m.exit_signal = WIFSIGNALED(t->status) ? WTERMSIG(t->status) : 0;
	m.node = s->order->node;
	m.oom = t->oom;
	MU_CLEANUP(mu_buf_free) struct mu_buf b = {0};
	mu_pb_pack(&m.base, &b);
	stream_put(out, STREAM_TASK_ENDED, (uint16_t)t->number, b.data, b.len);
}

void shep_flow_task_ended(struct shep_step *s, struct shep_task *t)
{
	if (s->srun.fd >= 0)
		shep_flow_put_end(s, t, &s->srun.out);
	for (size_t i = 0; i < SHEP_WATCHERS; i++)
		if (s->watch[i].peer.fd >= 0)
			shep_flow_put_end(s, t, &s->watch[i].peer.out);
}

/* ---- input ---- */

static bool takes_input(const struct shep_task *t, uint16_t channel)
{
	return t->in_fd >= 0 && !t->in_eof && (channel == STREAM_ALL || channel == (t->number & 0xffff));
}

void shep_flow_stdin(struct shep_step *s, struct shep_task *t)
{
	while (t->in_fd >= 0 && t->in_used < t->in.len) {
		ssize_t n = write(t->in_fd, t->in.data + t->in_used, t->in.len - t->in_used);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) { /* the task closed its input: what follows for it is dropped */
			close(t->in_fd);
			t->in_fd = -1;
			break;
		}
		t->in_used += (size_t)n;
	}
	mu_buf_reset(&t->in);
	t->in_used = 0;
	if (t->in_fd >= 0 && t->in_eof) {
		/* A terminal has no end of file but the character for it; one that is full has a reader. */
		if (s->order->pty && write(t->in_fd, "\4", 1) < 0 && errno == EAGAIN)
			return;
		close(t->in_fd);
		t->in_fd = -1;
	}
}

size_t shep_flow_backlog(const struct shep_step *s)
{
	size_t held = 0;
	for (size_t i = 0; i < s->task_count; i++) {
		size_t here = s->task[i].in.len - s->task[i].in_used;
		if (s->task[i].in_fd >= 0 && here > held)
			held = here;
	}
	return held;
}

/* Lets srun send as much again as the slowest task has taken. What sattachs have sent counts with it: the
 * grant comes a little later. */
static void grant(struct shep_step *s)
{
	uint64_t held = shep_flow_backlog(s);
	if (s->srun.fd < 0 || held > s->in_received || s->in_received - held <= s->in_consumed)
		return;
	uint32_t more = stream_consumed(&s->in_credit, (uint32_t)(s->in_received - held - s->in_consumed));
	s->in_consumed = s->in_received - held;
	if (more)
		stream_put_u32(&s->srun.out, STREAM_CREDIT_GRANT, 0, more);
}

void shep_flow_input(struct shep_step *s, const struct stream_frame *f)
{
	for (size_t i = 0; i < s->task_count; i++) {
		struct shep_task *t = &s->task[i];
		if (!takes_input(t, f->channel))
			continue;
		if (f->payload.len == 0)
			t->in_eof = true;
		else
			mu_buf_add(&t->in, f->payload.data, f->payload.len);
		shep_flow_stdin(s, t);
	}
}

static bool take_stdin(struct shep_step *s, const struct stream_frame *f)
{
	if (stream_received(&s->in_credit, (uint32_t)f->payload.len))
		return false;
	s->in_received += f->payload.len;
	shep_flow_input(s, f);
	return true;
}

/* ---- srun's frames ---- */

/* Without a terminal it changes nothing. */
static bool take_size(struct shep_step *s, const struct stream_frame *f)
{
	const uint8_t *p = f->payload.data;
	if (f->payload.len != 4)
		return false;
	struct winsize size = {.ws_row = (unsigned short)(p[0] << 8 | p[1]),
			       .ws_col = (unsigned short)(p[2] << 8 | p[3])};
	if (s->order->pty && s->task[0].out.fd >= 0)
		ioctl(s->task[0].out.fd, TIOCSWINSZ, &size);
	return true;
}

static bool take_frame(struct shep_step *s, const struct stream_frame *f)
{
	uint32_t word = 0;
	switch (f->kind) {
	case STREAM_STDIN:
		return take_stdin(s, f);
	case STREAM_CREDIT_GRANT:
		return stream_get_u32(f, &word) == 0 && stream_granted(&s->out_credit, word) == 0;
	case STREAM_SIGNAL:
		if (stream_get_u32(f, &word) == 0 && word > 0 && word <= (uint32_t)SIGRTMAX &&
		    s->phase <= SHEP_ENDING)
			shep_signal(s, (int)word, false);
		return true;
	case STREAM_PING:
		stream_put(&s->srun.out, STREAM_PING, 0, NULL, 0);
		return true;
	case STREAM_PMI:
		if (s->order->pmix)
			shep_pmix_frame(s, f);
		else
			shep_pmi_frame(s, f);
		return true;
	case STREAM_WINSIZE:
		return take_size(s, f);
	default:
		return false;
	}
}

static void srun_gone(struct shep_step *s)
{
	shep_peer_close(&s->srun);
	if (s->phase < SHEP_CLEARING) {
		shep_fail(s, END_CANCEL, "srun is gone");
		shep_end(s, END_CANCEL, s->order->uid, false);
	}
}

static void srun_frames(struct shep_step *s)
{
	struct stream_frame f;
	int code;
	while (s->srun.fd >= 0 && (code = stream_next(&s->srun.reader, &f)) != 0)
		if (code < 0 || !take_frame(s, &f)) {
			srun_gone(s);
			return;
		}
}

void shep_flow_srun(struct shep_step *s)
{
	uint8_t chunk[READ_BYTES];
	ssize_t n = recv(s->srun.fd, chunk, sizeof chunk, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		srun_gone(s);
		return;
	}
	stream_feed(&s->srun.reader, chunk, (size_t)n);
	srun_frames(s);
	grant(s);
}

void shep_flow_open(struct shep_step *s, int fd)
{
	s->srun.fd = fd;
	s->srun_there = true;
	stream_credit_init(&s->out_credit, STREAM_CREDIT);
	stream_credit_init(&s->in_credit, STREAM_CREDIT);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	if (s->order->leftover.len)
		stream_feed(&s->srun.reader, s->order->leftover.data, s->order->leftover.len);
}

void shep_flow_turn(struct shep_step *s)
{
	srun_frames(s);
	grant(s);
}
