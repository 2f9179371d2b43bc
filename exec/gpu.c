/* exec/gpu.c: the watcher of GPUs, and what its sources share. */
#include "exec/gpu.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "log/stream.h"
#include "proto/pb.h"

const struct exe_gpu_source *exe_gpu_source_find(const char *word)
{
	static const struct exe_gpu_source *const all[] = {&exe_gpu_nvml, &exe_gpu_proc, &exe_gpu_kfd};
	for (size_t i = 0; word && i < sizeof all / sizeof *all; i++)
		if (strcasecmp(all[i]->word, word) == 0)
			return all[i];
	return NULL;
}

const char *exe_gpu_root(void)
{
	const char *root = getenv("MUSTER_GPU_ROOT");
	return root ? root : "";
}

bool exe_gpu_read(const char *root, const char *path, char *out, size_t cap)
{
	char whole[4096];
	snprintf(whole, sizeof whole, "%s%s", root, path);
	int fd = open(whole, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, out, cap - 1);
	if (fd >= 0)
		close(fd);
	out[n > 0 ? n : 0] = 0;
	if (n > 0 && out[n - 1] == '\n')
		out[n - 1] = 0;
	return n >= 0;
}

void exe_gpu_fault(Mu__GpuReport *report, struct mu_arena *arena, uint32_t card, const char *format, ...)
{
	char text[512];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (report->n_fault >= EXE_GPUS_MAX)
		return;
	if (!report->fault)
		report->fault = mu_arena_alloc(arena, EXE_GPUS_MAX * sizeof *report->fault);
	Mu__GpuFault *f = mu_arena_alloc(arena, sizeof *f);
	mu__gpu_fault__init(f);
	f->has_card = 1;
	f->card = card;
	f->text = mu_arena_strdup(arena, text);
	report->fault[report->n_fault++] = f;
}

void exe_gpu_use(Mu__GpuReport *report, struct mu_arena *arena, uint32_t card, uint32_t pid,
		 uint64_t mem_bytes, uint32_t util_percent)
{
	if (report->n_process >= EXE_GPU_USERS)
		return;
	if (!report->process)
		report->process = mu_arena_alloc(arena, EXE_GPU_USERS * sizeof *report->process);
	Mu__GpuProcess *p = mu_arena_alloc(arena, sizeof *p);
	mu__gpu_process__init(p);
	p->has_card = p->has_pid = p->has_mem_bytes = p->has_util_percent = 1;
	p->card = card;
	p->pid = pid;
	p->mem_bytes = mem_bytes;
	p->util_percent = util_percent;
	report->process[report->n_process++] = p;
}

/* ---- the watcher ---- */

static bool send_report(int fd, const Mu__GpuReport *report)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf body = {0}, frame = {0};
	mu_pb_pack(&report->base, &body);
	stream_put(&frame, EXE_GPU_REPORT, 0, body.data, body.len);
	return stream_write_all(fd, frame.data, frame.len, NULL) == 0;
}

static bool agent_is_there(int fd)
{
	struct pollfd p = {fd, POLLIN | POLLRDHUP, 0};
	return poll(&p, 1, 0) >= 0 && !(p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* One turn: new faults, then who uses what. A sample of nobody is told once. */
static bool turn(const struct exe_gpu_source *source, const Mu__GpuReport *cards, int fd, bool *quiet)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	Mu__GpuReport news = MU__GPU_REPORT__INIT;
	if (cards->n_card)
		source->wait(EXE_GPU_WAIT_MSEC, cards, &arena, &news);
	else
		poll(NULL, 0, EXE_GPU_WAIT_MSEC);
	if (cards->n_card)
		source->sample(cards, &arena, &news);
	news.has_sampled = news.sampled = 1;
	bool nothing = news.n_process == 0 && news.n_fault == 0;
	bool said = *quiet && nothing;
	*quiet = nothing;
	return said || send_report(fd, &news);
}

int exe_gpu_watch(const char *word, int fd)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	const struct exe_gpu_source *source = exe_gpu_source_find(word);
	Mu__GpuReport cards = MU__GPU_REPORT__INIT;
	struct mu_err err = {0};
	bool quiet = false;
	cards.has_first = cards.first = 1;
	if (!source || source->open(exe_gpu_root(), &arena, &cards, &err)) {
		cards.n_card = 0;
		cards.trouble = source ? err.text : "AutoDetect has no such word";
	}
	if (!send_report(fd, &cards))
		return 1;
	while (agent_is_there(fd) && turn(source, &cards, fd, &quiet))
		;
	return 0;
}
