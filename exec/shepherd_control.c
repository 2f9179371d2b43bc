/* exec/shepherd_control.c: what the agent asks of a shepherd. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "exec/shepherd.h"
#include "exec/shepherd_step.h"
#include "exec/spool.h"
#include "proto/base/map.h"
#include "proto/pb.h"
#include "proto/states.h"

int shep_control_listen(struct shep_step *s, struct mu_err *err)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	char name[32];
	snprintf(name, sizeof name, "step_%s.sock", s->word);
	/* The spool's path may be longer than a socket address: the folder's descriptor is short. */
	snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/%s", s->dir, name);
	unlinkat(s->dir, name, 0);
	s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mode_t old = umask(0177);
	int code = s->listener < 0 || bind(s->listener, (struct sockaddr *)&a, sizeof a) ||
		   listen(s->listener, SHEP_CONTROLS);
	int error = errno;
	umask(old);
	return code ? mu_fail(err, MU_EIO, "control socket %s: %s", name, strerror(error)) : 0;
}

void shep_control_add(struct shep_step *s, int fd)
{
	for (size_t i = 0; i < SHEP_CONTROLS; i++)
		if (s->control[i].fd < 0) {
			s->control[i].fd = fd;
			return;
		}
	close(fd);
}

void shep_control_accept(struct shep_step *s)
{
	int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred who;
	socklen_t len = sizeof who;
	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len) || (who.uid != 0 && who.uid != getuid()))
		close(fd);
	else
		shep_control_add(s, fd);
}

static bool launching(const struct shep_task *t)
{
	return t->pid && !t->ended && t->launch_fd >= 0;
}

struct signalled {
	const struct shep_step *s;
	int number;
	bool runtimes; /* nothing but runtimes is there: they get it themselves */
};
static void signal_settled(void *arg, pid_t pid)
{
	const struct signalled *x = arg;
	/* A container's processes get it once: their runtime, which is the task, would pass it on. */
	for (size_t i = 0; i < x->s->task_count; i++)
		if (x->s->task[i].pid == pid &&
		    (launching(&x->s->task[i]) || (x->s->order->container && !x->runtimes)))
			return;
	kill(pid, x->number);
}

static void count_inside(void *arg, pid_t pid)
{
	struct signalled *x = arg;
	for (size_t i = 0; i < x->s->task_count; i++)
		if (x->s->task[i].pid == pid)
			return;
	x->runtimes = false;
}

void shep_signal(struct shep_step *s, int number, bool tasks_only)
{
	struct signalled settled = {s, number, true};
	bool some = false;
	for (size_t i = 0; i < s->task_count; i++) {
		struct shep_task *t = &s->task[i];
		if (launching(t) && number != SIGKILL) {
			t->owed |= 1ULL << (number - 1);
			some = true;
		} else if (launching(t) || (tasks_only && t->pid && !t->ended)) {
			kill(t->pid, number);
		}
	}
	if (tasks_only)
		return;
	if (s->order->container)
		exe_cgroup_each(&s->host, s->order->cgroup, count_inside, &settled);
	if (some || s->order->container)
		exe_cgroup_each(&s->host, s->order->cgroup, signal_settled, &settled);
	else
		exe_cgroup_signal(&s->host, s->order->cgroup, number);
}

void shep_signal_owed(struct shep_task *t)
{
	for (int number = 1; t->owed; number++) {
		if ((t->owed & 1ULL << (number - 1)) && t->pid && !t->ended)
			kill(t->pid, number);
		t->owed &= ~(1ULL << (number - 1));
	}
}

enum { STATE_PIDS_MAX = 1024 };
struct pid_list {
	uint32_t *pid;
	size_t count;
};

static void add_pid(void *arg, pid_t pid)
{
	struct pid_list *l = arg;
	if (l->count < STATE_PIDS_MAX)
		l->pid[l->count++] = (uint32_t)pid;
}

static void answer_state(struct shep_step *s, struct shep_peer *p)
{
	Mu__StepState m = MU__STEP_STATE__INIT;
	Mu__Usage usage = MU__USAGE__INIT;
	m.has_pid = m.has_start_usec = 1;
	m.pid = (uint32_t)getpid();
	m.start_usec = s->start_usec;
	shep_usage(s, &usage);
	m.usage = &usage;
	uint32_t pid[STATE_PIDS_MAX];
	struct pid_list list = {pid, 0};
	exe_cgroup_each(&s->host, s->order->cgroup, add_pid, &list);
	m.process = pid;
	m.n_process = list.count;
	MU_CLEANUP(mu_buf_free) struct mu_buf b = {0};
	mu_pb_pack(&m.base, &b);
	stream_put(&p->out, EXE_SHEPHERD_STATE, 0, b.data, b.len);
}

static void take_watch(struct shep_step *s, struct shep_peer *p)
{
	int fd = p->passed - 1;
	p->passed = 0;
	if (fd >= 0 && s->order->streamed && s->phase < SHEP_DONE)
		shep_watch_add(s, fd);
	else if (fd >= 0)
		close(fd);
}

static void take_frame(struct shep_step *s, struct shep_peer *p, const struct stream_frame *f)
{
	uint32_t w[3] = {0};
	for (size_t i = 0; i < 3 && f->payload.len >= 4 * (i + 1); i++)
		w[i] = mu_get_be32(f->payload.data + 4 * i);
	switch (f->kind) {
	case EXE_SHEPHERD_SIGNAL:
		if (w[0] > 0 && w[0] <= (uint32_t)SIGRTMAX && s->phase <= SHEP_ENDING)
			shep_signal(s, (int)w[0], w[1] != 0);
		break;
	case EXE_SHEPHERD_END:
		shep_end(s, w[0], w[1], w[2] != 0);
		break;
	case EXE_SHEPHERD_LIMIT:
		if (f->payload.len >= 8) {
			int64_t sec = (int64_t)mu_get_be64(f->payload.data);
			s->deadline_boot_usec = sec > 0 ? s->start_boot_usec + sec * 1000000 : 0;
		}
		break;
	case EXE_SHEPHERD_ASK:
		answer_state(s, p);
		break;
	case EXE_SHEPHERD_FREEZE:
		exe_cgroup_freeze(&s->host, s->order->cgroup, w[0] != 0, NULL);
		break;
	case EXE_SHEPHERD_ATTACH:
		take_watch(s, p);
		break;
	case EXE_SHEPHERD_SAY:
		shep_say(s, "%.*s", (int)f->payload.len, (const char *)f->payload.data);
		break;
	case EXE_SHEPHERD_GPUS:
		shep_usage_gpus(s, f->payload);
		break;
	default: /* of a newer agent: nothing that we could do */
		break;
	}
}

/* A read ends behind the bytes that a descriptor came with: there is never more than one to keep. */
static ssize_t receive(struct shep_peer *p, uint8_t *chunk, size_t len)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec io = {chunk, len};
	struct msghdr m = {.msg_iov = &io,
			   .msg_iovlen = 1,
			   .msg_control = control.room,
			   .msg_controllen = sizeof control.room};
	ssize_t n = recvmsg(p->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	int fd;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
	    c->cmsg_len == CMSG_LEN(sizeof fd)) {
		memcpy(&fd, CMSG_DATA(c), sizeof fd);
		if (p->passed)
			close(p->passed - 1);
		p->passed = fd + 1;
	}
	return n;
}

void shep_control_read(struct shep_step *s, struct shep_peer *p)
{
	uint8_t chunk[1024];
	struct stream_frame f;
	ssize_t n = receive(p, chunk, sizeof chunk);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		shep_peer_close(p);
		return;
	}
	stream_feed(&p->reader, chunk, (size_t)n);
	int code = 0;
	while (p->fd >= 0 && (code = stream_next(&p->reader, &f)) > 0)
		take_frame(s, p, &f);
	if (code < 0)
		shep_peer_close(p);
}
