/* exec/shepherd_pmix.c: the shepherd's end of muster-pmix (exec/pmix.c): starts it in the step's group as the
 * step's user, takes each task's variables from it, and carries fences between it and srun. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exec/shepherd.h"
#include "exec/shepherd_step.h"
#include "proto/states.h"

enum { READY_MSEC = 20000, HIGH_FD = 16 };

static void run(const struct shep_step *s, int fd, const char *program)
{
	const Mu__StepOrder *o = s->order;
	char nspace[64], index[16], size[16];
	char *argv[] = {"muster-pmix",	nspace, o->step_node_list ? o->step_node_list : o->node,
			o->pmi_mapping, index,	size,
			"/tmp",		NULL};
	char *env[] = {"PATH=/usr/bin:/bin", "HOME=/", NULL};
	snprintf(nspace, sizeof nspace, "muster.%u.%u", o->pmix_job ? o->pmix_job : o->job, o->step);
	snprintf(index, sizeof index, "%u", o->step_node_index);
	snprintf(size, sizeof size, "%u", o->step_ntasks ? o->step_ntasks : (uint32_t)o->n_task);
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int i = 0; i < 3; i++)
		dup2(null_fd, i);
	if (shep_as_user(s) || dup2(fd, EXE_FD_PMIX) < 0 || chdir("/"))
		_exit(254);
	execve(program, argv, env);
	_exit(127);
}

static int start(struct shep_step *s, struct mu_err *err)
{
	char program[4096];
	int pair[2], enter_errno;
	ssize_t len = readlink("/proc/self/exe", program, sizeof program - sizeof "muster-pmix");
	char *slash = len > 0 ? memrchr(program, '/', (size_t)len) : NULL;
	if (!slash)
		return mu_fail(err, MU_EIO, "where muster-pmix is cannot be told: %s", strerror(errno));
	memcpy(slash + 1, "muster-pmix", sizeof "muster-pmix");
	if (access(program, X_OK))
		return mu_fail(err, MU_EIO,
			       "--mpi=pmix needs %s, which is built where libpmix-dev is installed: %s",
			       program, strerror(errno));
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return mu_fail(err, MU_EIO, "no socket for PMIx: %s", strerror(errno));
	int high = fcntl(pair[1], F_DUPFD_CLOEXEC, HIGH_FD);
	pid_t pid = high < 0 ? -1 : exe_cgroup_fork(&s->door, &enter_errno);
	if (pid == 0) {
		if (enter_errno)
			_exit(254);
		run(s, high, program);
	}
	close(pair[1]);
	if (high >= 0)
		close(high);
	s->pmix.fd = pair[0];
	return pid < 0 ? mu_fail(err, MU_EIO, "muster-pmix cannot be started: %s", strerror(errno)) : 0;
}

/* "NAME=VALUE" words, each ended by a NUL byte. */
static int keep_env(struct shep_step *s, size_t place, const struct mu_buf *words, struct mu_err *err)
{
	struct shep_task *t = &s->task[place];
	t->pmix_env = mu_arena_alloc(&s->arena, SHEP_PMI_ENV * sizeof *t->pmix_env);
	for (size_t at = 0; at < words->len;) {
		const char *word = (const char *)words->data + at;
		size_t len = strnlen(word, words->len - at);
		if (t->pmix_env_count == SHEP_PMI_ENV || at + len == words->len)
			return mu_fail(err, MU_EPROTO, "muster-pmix gives a task too many variables");
		t->pmix_env[t->pmix_env_count++] = mu_arena_strdup(&s->arena, word);
		at += len + 1;
	}
	return 0;
}

int shep_pmix_open(struct shep_step *s, struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf whole = {0};
	struct stream_frame f;
	int code = 0;
	if (!s->order->pmix)
		return 0;
	if (!s->order->pmi_mapping)
		return mu_fail(err, MU_EINVAL, "the step's tasks are spread too unevenly for PMIx");
	code = start(s, err);
	for (size_t ready = 0; code == 0 && ready < s->task_count;) {
		code = stream_read_frame(s->pmix.fd, &s->pmix.reader, READY_MSEC, &f, err);
		if (code)
			return mu_wrap(err, "muster-pmix does not start");
		if (f.kind == EXE_PMIX_FAIL)
			return mu_fail(err, MU_EINTERNAL, "muster-pmix: %.*s", (int)f.payload.len,
				       (const char *)f.payload.data);
		if (f.kind != EXE_PMIX_ENV || f.channel != ready || stream_join(&whole, &f) != 1)
			continue;
		code = keep_env(s, ready++, &whole, err);
		mu_buf_reset(&whole);
	}
	return code;
}

void shep_pmix_frame(struct shep_step *s, const struct stream_frame *f)
{
	if (stream_join(&s->pmix_whole, f) != 1)
		return;
	stream_put(&s->pmix.out, EXE_PMIX_FENCE, 0, s->pmix_whole.data ? (char *)s->pmix_whole.data : "",
		   s->pmix_whole.len);
	mu_buf_reset(&s->pmix_whole);
}

static void take_frame(struct shep_step *s, const struct stream_frame *f)
{
	uint32_t code = 0;
	switch (f->kind) {
	case EXE_PMIX_FENCE:
		if (stream_join(&s->pmix_fresh, f) != 1)
			return;
		if (s->srun.fd >= 0)
			stream_put(&s->srun.out, STREAM_PMI, 0,
				   s->pmix_fresh.data ? (char *)s->pmix_fresh.data : "", s->pmix_fresh.len);
		mu_buf_reset(&s->pmix_fresh);
		break;
	case EXE_PMIX_ABORT:
		stream_get_u32(f, &code);
		shep_say(s, "a task called for the step's end by PMIx, exit code %u", code);
		shep_end(s, END_NONE, 0, true);
		break;
	case EXE_PMIX_FAIL:
		shep_say(s, "muster-pmix: %.*s", (int)f->payload.len, (const char *)f->payload.data);
		break;
	default:
		break;
	}
}

void shep_pmix_read(struct shep_step *s)
{
	uint8_t chunk[16384];
	struct stream_frame f;
	int code = 0;
	ssize_t n = recv(s->pmix.fd, chunk, sizeof chunk, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0)
		stream_feed(&s->pmix.reader, chunk, (size_t)n);
	while (n > 0 && (code = stream_next(&s->pmix.reader, &f)) > 0)
		take_frame(s, &f);
	if (n > 0 && code == 0)
		return;
	shep_peer_close(&s->pmix);
	if (s->phase == SHEP_RUNNING && s->tasks_live) {
		shep_say(s, "muster-pmix has ended before the tasks of StepId=%u.%s", s->order->job, s->word);
		shep_end(s, END_NONE, 0, true);
	}
}

void shep_pmix_close(struct shep_step *s)
{
	shep_peer_close(&s->pmix);
	mu_buf_free(&s->pmix_whole);
	mu_buf_free(&s->pmix_fresh);
}
