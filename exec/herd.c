/* exec/herd.c: starting and finding shepherds. */
#include "exec/herd.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "exec/shepherd.h"
#include "log/stream.h"
#include "proto/base/map.h"

enum {
	HIGH_FD = 16, /* above every number that a shepherd expects */
	CHILD_STACK = 64 << 10
};

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

/* The order's file is the lock: it is there before the shepherd and is not written again. */
static int open_lock(const char *dir, uint32_t step)
{
	char word[16], path[4200];
	exe_step_word(step, word);
	snprintf(path, sizeof path, "%s/step_%s.order", dir, word);
	return open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
}

struct birth {
	const char *program, *dir, *word;
	int fd[3]; /* control, lock, srun's connection or -1 */
};

/* In the child: the descriptors to their places, everything else shut, then exec. It has its own descriptors
 * but the parent's memory: it changes nothing but its own variables. */
static int child_exec(void *arg)
{
	const struct birth *b = arg;
	static const int place[3] = {EXE_FD_CONTROL, EXE_FD_LOCK, EXE_FD_STREAM};
	int high[3];
	sigset_t none;
	for (size_t i = 0; i < 3; i++)
		high[i] = b->fd[i] >= 0 ? fcntl(b->fd[i], F_DUPFD, HIGH_FD) : -1;
	for (size_t i = 0; i < 3; i++)
		if (high[i] >= 0)
			dup2(high[i], place[i]);
	close_range(b->fd[2] >= 0 ? EXE_FD_STREAM + 1 : EXE_FD_LOCK + 1, ~0U, 0);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	if (chdir("/"))
		_exit(126);
	int null_fd = open("/dev/null", O_RDWR);
	if (null_fd >= 0) {
		dup2(null_fd, 0);
		dup2(null_fd, 1);
		if (null_fd > 2 && null_fd != EXE_FD_CONTROL && null_fd != EXE_FD_LOCK &&
		    null_fd != EXE_FD_STREAM)
			close(null_fd);
	}
	execl(b->program, "muster-shepherd", b->dir, b->word, (char *)NULL);
	dprintf(2, "muster-agent: error: %s: %s\n", b->program, strerror(errno));
	_exit(127);
}

/* The agent's memory is not copied for a child that only changes into another program: it waits meanwhile. */
static pid_t give_birth(struct birth *b)
{
	uint8_t *stack =
	    mmap(NULL, CHILD_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stack == MAP_FAILED)
		return -1;
	pid_t pid = clone(child_exec, stack + CHILD_STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, b);
	int error = errno;
	munmap(stack, CHILD_STACK);
	errno = error;
	return pid;
}

int exe_herd_start(const char *program, const char *dir, uint32_t step, int stream_fd, pid_t *ret_pid,
		   int *ret_control, struct mu_err *err)
{
	char word[16];
	int pair[2];
	exe_step_word(step, word);
	MU_CLEANUP(close_fd) int lock = open_lock(dir, step);
	if (lock < 0)
		return mu_fail(err, MU_EIO, "lock of step %s in %s: %s", word, dir, strerror(errno));
	if (flock(lock, LOCK_EX | LOCK_NB))
		return mu_fail(err, errno == EWOULDBLOCK ? MU_EBUSY : MU_EIO,
			       "step %s in %s already has a shepherd", word, dir);
	if (access(program, X_OK))
		return mu_fail(err, MU_EIO, "%s: %s", program, strerror(errno));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
		return mu_fail(err, MU_EIO, "control connection of step %s: %s", word, strerror(errno));
	struct birth b = {program, dir, word, {pair[1], lock, stream_fd}};
	pid_t pid = give_birth(&b);
	int error = errno;
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return mu_fail(err, MU_EIO, "cannot start a shepherd: %s", strerror(error));
	}
	*ret_pid = pid;
	*ret_control = pair[0];
	return 0;
}

bool exe_herd_find(const char *dir, uint32_t step, int *ret_control)
{
	*ret_control = -1;
	MU_CLEANUP(close_fd) int lock = open_lock(dir, step);
	if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) == 0)
		return false;
	char word[16];
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	exe_step_word(step, word);
	MU_CLEANUP(close_fd) int folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(a.sun_path, sizeof a.sun_path, "/proc/self/fd/%d/step_%s.sock", folder, word);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0) {
		fcntl(fd, F_SETFL, O_NONBLOCK);
		*ret_control = fd;
	} else if (fd >= 0) {
		close(fd);
	}
	return true;
}

static void put_words(struct mu_buf *out, uint8_t kind, uint32_t a, uint32_t b, uint32_t c)
{
	uint8_t payload[12];
	mu_put_be32(payload, a);
	mu_put_be32(payload + 4, b);
	mu_put_be32(payload + 8, c);
	stream_put(out, kind, 0, payload, sizeof payload);
}

void exe_herd_put_signal(struct mu_buf *out, uint32_t signal_number, bool tasks_only)
{
	put_words(out, EXE_SHEPHERD_SIGNAL, signal_number, tasks_only, 0);
}
void exe_herd_put_end(struct mu_buf *out, uint32_t cause, uint32_t by_uid, bool at_once)
{
	put_words(out, EXE_SHEPHERD_END, cause, by_uid, at_once);
}
void exe_herd_put_limit(struct mu_buf *out, int64_t seconds)
{
	uint8_t payload[8];
	mu_put_be64(payload, seconds > 0 ? (uint64_t)seconds : 0);
	stream_put(out, EXE_SHEPHERD_LIMIT, 0, payload, sizeof payload);
}
