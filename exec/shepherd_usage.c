/* exec/shepherd_usage.c: what the step used, task by task. What has ended is counted from the kernel's own
 * figures of each process that is waited for (its rusage, and the I/O counters that a zombie still has), so
 * that nothing is lost however short it was; what lives is looked up when somebody asks, and from time to
 * time for the peaks of whole trees and of address space, which no counter keeps. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/shepherd_step.h"
#include "exec/spool.h"
#include "proto/pb.h"
#include "proto/usage.h"

enum { SAMPLE_FIRST_USEC = 20000, SAMPLE_LAST_USEC = 30000000, STAT_FIELDS = 24 };

static size_t read_proc(pid_t pid, const char *file, char *out, size_t cap)
{
	char path[64];
	snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, out, cap - 1);
	if (fd >= 0)
		close(fd);
	out[n > 0 ? n : 0] = 0;
	return n > 0 ? (size_t)n : 0;
}

static uint64_t number_after(const char *text, const char *word)
{
	const char *at = strstr(text, word);
	return at ? strtoull(at + strlen(word), NULL, 10) : 0;
}

static void add_io(pid_t pid, struct shep_use *use)
{
	char text[512];
	if (read_proc(pid, "io", text, sizeof text) == 0)
		return;
	use->read_bytes += number_after(text, "rchar: ");
	use->write_bytes += number_after(text, "wchar: ");
}

/* Fields 3 and on of /proc/PID/stat, numbered as proc(5) does. False when the process is gone. */
static bool read_stat(pid_t pid, uint64_t field[STAT_FIELDS + 1])
{
	char text[1024];
	if (read_proc(pid, "stat", text, sizeof text) == 0)
		return false;
	const char *p = strrchr(text, ')');
	if (!p || p[1] != ' ' || !p[2])
		return false;
	p += 3; /* behind the state */
	for (int i = 4; i <= STAT_FIELDS; i++) {
		char *end;
		field[i] = strtoull(p, &end, 10);
		p = end;
	}
	return true;
}

/* Every task has a session of its own. What left it is counted with the first task. */
static struct shep_task *task_of(struct shep_step *s, pid_t pid, uint64_t session)
{
	for (size_t i = 0; i < s->task_count; i++)
		if (s->task[i].pid && (s->task[i].pid == pid || (uint64_t)s->task[i].pid == session))
			return &s->task[i];
	return &s->task[0];
}

static uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void look_at_gpus(const struct shep_step *s, pid_t pid, struct shep_use *use)
{
	for (size_t i = 0; s->gpu && i < s->gpu->n_process; i++)
		if (s->gpu->process[i]->pid == (uint32_t)pid) {
			use->gpu_percent += s->gpu->process[i]->util_percent;
			use->gpu_bytes += s->gpu->process[i]->mem_bytes;
		}
}

static void look_at(void *arg, pid_t pid)
{
	struct shep_step *s = arg;
	uint64_t f[STAT_FIELDS + 1];
	char status[2048];
	if (!read_stat(pid, f))
		return;
	const uint64_t tick = 1000000 / (uint64_t)sysconf(_SC_CLK_TCK);
	struct shep_task *t = task_of(s, pid, f[6]);
	t->now.cpu_usec += (f[14] + f[15] + f[16] + f[17]) * tick;
	t->now.pages += f[12] + f[13];
	t->now.vm_kib += f[23] / 1024;
	t->now.rss_kib += f[24] * (uint64_t)(sysconf(_SC_PAGESIZE) / 1024);
	add_io(pid, &t->now);
	look_at_gpus(s, pid, &t->now);
	if (read_proc(pid, "status", status, sizeof status)) {
		t->peak.rss_kib = most(t->peak.rss_kib, number_after(status, "VmHWM:"));
		t->peak.vm_kib = most(t->peak.vm_kib, number_after(status, "VmPeak:"));
	}
}

static void sample(struct shep_step *s)
{
	for (size_t i = 0; i < s->task_count; i++)
		s->task[i].now = (struct shep_use){0};
	exe_cgroup_each(&s->host, s->order->cgroup, look_at, s);
	for (size_t i = 0; i < s->task_count; i++) {
		struct shep_task *t = &s->task[i];
		t->peak.rss_kib = most(t->peak.rss_kib, t->now.rss_kib);
		t->peak.vm_kib = most(t->peak.vm_kib, t->now.vm_kib);
		t->peak.gpu_percent = most(t->peak.gpu_percent, t->now.gpu_percent);
		t->peak.gpu_bytes = most(t->peak.gpu_bytes, t->now.gpu_bytes);
	}
}

void shep_usage_gpus(struct shep_step *s, struct mu_view bytes)
{
	mu_arena_free(&s->gpu_arena);
	s->gpu =
	    (Mu__GpuSample *)mu_pb_unpack(&mu__gpu_sample__descriptor, bytes.data, bytes.len, &s->gpu_arena);
	if (s->gpu)
		sample(s);
}

int64_t shep_usage_due(const struct shep_step *s)
{
	return s->phase == SHEP_RUNNING ? s->sample_boot_usec : INT64_MAX;
}

void shep_usage_timer(struct shep_step *s, int64_t now_boot_usec)
{
	if (now_boot_usec < shep_usage_due(s))
		return;
	if (s->sample_boot_usec)
		sample(s);
	s->sample_pause_usec = s->sample_pause_usec ? 2 * s->sample_pause_usec : SAMPLE_FIRST_USEC;
	if (s->sample_pause_usec > SAMPLE_LAST_USEC)
		s->sample_pause_usec = SAMPLE_LAST_USEC;
	s->sample_boot_usec = now_boot_usec + s->sample_pause_usec;
}

static int64_t usec(struct timeval t)
{
	return (int64_t)t.tv_sec * 1000000 + t.tv_usec;
}

pid_t shep_usage_wait(struct shep_step *s, int *ret_status)
{
	siginfo_t info = {0};
	struct rusage u;
	uint64_t f[STAT_FIELDS + 1] = {0};
	struct shep_use io = {0};
	if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid == 0)
		return 0;
	read_stat(info.si_pid, f);
	add_io(info.si_pid, &io);
	pid_t pid = wait4(info.si_pid, ret_status, WNOHANG, &u);
	if (pid <= 0)
		return 0;
	struct shep_task *t = task_of(s, pid, f[6]);
	t->done.cpu_usec += (uint64_t)(usec(u.ru_utime) + usec(u.ru_stime));
	t->done.pages += (uint64_t)u.ru_majflt;
	t->done.read_bytes += io.read_bytes;
	t->done.write_bytes += io.write_bytes;
	t->peak.rss_kib = most(t->peak.rss_kib, (uint64_t)u.ru_maxrss);
	s->user_usec += usec(u.ru_utime);
	s->sys_usec += usec(u.ru_stime);
	return pid;
}

/* ---- as it is told ---- */

static uint64_t value_of(const struct shep_task *t, uint32_t kind)
{
	uint64_t rss = t->peak.rss_kib * 1024;
	switch (kind) {
	case MU_MEASURE_CPU:
		return t->done.cpu_usec + t->now.cpu_usec;
	case MU_MEASURE_MEM:
		return rss;
	case MU_MEASURE_VMEM:
		return most(rss, t->peak.vm_kib * 1024);
	case MU_MEASURE_PAGES:
		return t->done.pages + t->now.pages;
	case MU_MEASURE_GPU_UTIL:
		return t->peak.gpu_percent;
	case MU_MEASURE_GPU_MEM:
		return t->peak.gpu_bytes;
	case MU_MEASURE_READ:
		return t->done.read_bytes + t->now.read_bytes;
	default:
		return t->done.write_bytes + t->now.write_bytes;
	}
}

/* The group's clock is the finest; the processes' own tell user from system. */
static void put_cpu(const struct shep_step *s, const struct exe_cgroup_usage *u, Mu__Usage *ret)
{
	int64_t waited = s->user_usec + s->sys_usec, total = (int64_t)u->total_usec;
	bool by_process = s->tasks_live == 0 && waited > 0;
	int64_t user = by_process ? s->user_usec : (int64_t)u->user_usec;
	int64_t all = by_process ? waited : (int64_t)(u->user_usec + u->sys_usec);
	if (total < waited)
		total = waited;
	ret->has_user_cpu_usec = ret->has_sys_cpu_usec = 1;
	ret->user_cpu_usec = all > 0 ? (int64_t)((double)total * (double)user / (double)all) : total;
	ret->sys_cpu_usec = total - ret->user_cpu_usec;
}

void shep_usage(struct shep_step *s, Mu__Usage *ret)
{
	struct exe_cgroup_usage u;
	exe_cgroup_usage(&s->host, s->order->cgroup, &u);
	sample(s);
	put_cpu(s, &u, ret);
	ret->has_oom_kills = 1;
	ret->oom_kills = u.oom_kills;
	ret->measure = s->measure_list;
	for (uint32_t kind = 1; kind <= MU_MEASURES; kind++) {
		if ((kind == MU_MEASURE_GPU_UTIL || kind == MU_MEASURE_GPU_MEM) && !s->gpu)
			continue;
		Mu__UsageMeasure *m = s->measure_list[ret->n_measure] = &s->measure[kind - 1];
		mu__usage_measure__init(m);
		m->has_kind = 1;
		m->kind = kind;
		for (size_t i = 0; i < s->task_count; i++)
			mu_measure_add(m, value_of(&s->task[i], kind), s->task[i].number);
		ret->n_measure++;
	}
	mu_usage_sum_up(ret, (uint32_t)s->task_count);
	ret->max_rss_node = s->order->node;
}
