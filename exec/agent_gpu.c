/* exec/agent_gpu.c: the watcher of this node's GPUs as its agent sees it: started before stock is taken and
 * again when it ends; a fault marks the device, is said in the jobs that have it, and goes to the controllers
 * with a new registration; what processes use goes to the shepherds of their steps. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/agent.h"
#include "exec/shepherd.h"
#include "exec/spool.h"
#include "log/diag.h"
#include "proto/conf.h"
#include "proto/pb.h"
#include "proto/states.h"

enum { FIRST_REPORT_MSEC = 60000, START_AGAIN_USEC = 5000000 };

/* ---- the process ---- */

static void child(const struct agent *a, int fd)
{
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (a->foreground)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fd == EXE_GPU_FD ? fcntl(fd, F_SETFD, 0) : dup2(fd, EXE_GPU_FD) < 0)
		_exit(126);
	close_range(EXE_GPU_FD + 1, ~0U, CLOSE_RANGE_CLOEXEC);
	execl("/proc/self/exe", "muster-agent", "--watch-gpus", a->conf->gpu_detect, NULL);
	_exit(127);
}

static void start_watcher(struct agent *a)
{
	int fd[2];
	a->gpu.again_boot_usec = exe_boot_usec() + START_AGAIN_USEC;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd))
		return;
	a->gpu.pid = fork();
	if (a->gpu.pid == 0)
		child(a, fd[1]);
	close(fd[1]);
	if (a->gpu.pid < 0) {
		close(fd[0]);
		return;
	}
	a->gpu.fd = fd[0];
	mu_buf_reset(&a->gpu.whole);
	stream_reader_free(&a->gpu.reader);
	a->gpu.reader = (struct stream_reader){0};
}

static void lose_watcher(struct agent *a, const char *why)
{
	diag_error("the watcher of GPUs is gone: %s", why);
	close(a->gpu.fd);
	a->gpu.fd = -1;
}

bool agent_gpu_reaped(struct agent *a, pid_t pid)
{
	if (pid != a->gpu.pid)
		return false;
	a->gpu.pid = 0;
	return true;
}

int64_t agent_gpu_due(const struct agent *a)
{
	return a->conf->gpu_detect && a->gpu.fd < 0 ? a->gpu.again_boot_usec : INT64_MAX;
}

void agent_gpu_timer(struct agent *a)
{
	if (exe_boot_usec() >= agent_gpu_due(a))
		start_watcher(a);
}

void agent_gpu_stop(struct agent *a)
{
	if (a->gpu.fd >= 0)
		close(a->gpu.fd);
	a->gpu.fd = -1;
	if (a->gpu.pid > 0)
		kill(a->gpu.pid, SIGKILL);
}

/* ---- faults ---- */

static bool has_unit(const struct agent_attempt *t, const struct exe_unit *u)
{
	const Mu__AllocNode *here = t->order->here;
	for (size_t g = 0; here && g < here->n_gres; g++)
		for (size_t i = 0; here->gres[g]->name && strcmp(here->gres[g]->name, u->name) == 0 &&
				   i < here->gres[g]->n_index;
		     i++)
			if (here->gres[g]->index[i] == u->index)
				return true;
	return false;
}

/* The batch script's own output has it, else every step's. */
static void tell_job(struct agent_attempt *t, const char *text)
{
	bool batch = false;
	for (const struct agent_step *s = t->step; s; s = s->next)
		batch = batch || (s->order->step == MU_STEP_BATCH && !s->ended);
	for (struct agent_step *s = t->step; s; s = s->next)
		if (!s->ended && s->control >= 0 && (!batch || s->order->step == MU_STEP_BATCH)) {
			stream_put(&s->out, EXE_SHEPHERD_SAY, 0, text, strlen(text));
			agent_step_flush(s);
		}
}

/* The first fault of a device stays. */
static void set_fault(struct agent *a, struct exe_unit *u, const char *fault)
{
	if (u->row->fault)
		return;
	u->row->fault = mu_arena_strdup(&a->inventory.arena, fault);
	const char *text = mu_arena_printf(&a->inventory.arena, "GPU %u (%s) of node %s: %s", u->index,
					   u->card->uuid ? u->card->uuid : "no UUID", a->node, fault);
	diag_error("%s", text);
	a->register_wanted = true;
	for (struct agent_attempt *t = a->attempt; t; t = t->next)
		if (t->phase != EXE_ENDED && has_unit(t, u))
			tell_job(t, text);
}

/* Which unit is CARD of the watcher that runs now? */
static struct exe_unit *unit_of(struct agent *a, uint32_t card)
{
	const char *uuid = a->gpu.now && card < a->gpu.now->n_card ? a->gpu.now->card[card]->uuid : NULL;
	for (size_t i = 0; uuid && i < a->inventory.unit_count; i++) {
		struct exe_unit *u = &a->inventory.unit[i];
		if (u->card && u->card->uuid && strcmp(u->card->uuid, uuid) == 0)
			return u;
	}
	return NULL;
}

/* A watcher that was started again may find less than the first did. */
static void compare(struct agent *a)
{
	for (size_t i = 0; i < a->inventory.unit_count; i++) {
		struct exe_unit *u = &a->inventory.unit[i];
		bool there = !u->card || !u->card->uuid;
		for (size_t k = 0; !there && k < a->gpu.now->n_card; k++)
			there = a->gpu.now->card[k]->uuid &&
				strcmp(a->gpu.now->card[k]->uuid, u->card->uuid) == 0;
		if (!there)
			set_fault(a, u, "it is no longer there");
	}
}

/* ---- use ---- */

static bool uses_wanted(const struct agent *a)
{
	const char *tres = mu_conf_get(a->live, "AccountingStorageTRES", "");
	return strcasestr(tres, "gres/gpuutil") || strcasestr(tres, "gres/gpumem");
}

/* Every shepherd of T looks which of the processes are its own. */
static void send_uses(struct agent *a, struct agent_attempt *t, const Mu__GpuReport *report)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf body = {0};
	Mu__GpuSample sample = MU__GPU_SAMPLE__INIT;
	sample.process = mu_arena_alloc(&arena, (report->n_process + 1) * sizeof *sample.process);
	for (size_t i = 0; i < report->n_process; i++) {
		const struct exe_unit *u = unit_of(a, report->process[i]->card);
		if (u && has_unit(t, u))
			sample.process[sample.n_process++] = report->process[i];
	}
	mu_pb_pack(&sample.base, &body);
	for (struct agent_step *s = t->step; s; s = s->next)
		if (!s->ended && s->control >= 0) {
			stream_put(&s->out, EXE_SHEPHERD_GPUS, 0, body.data, body.len);
			agent_step_flush(s);
		}
}

static bool has_gpus(const struct agent_attempt *t)
{
	const Mu__AllocNode *here = t->order->here;
	for (size_t g = 0; here && g < here->n_gres; g++)
		if (here->gres[g]->name && strcmp(here->gres[g]->name, "gpu") == 0)
			return true;
	return false;
}

/* ---- reports ---- */

static void take_report(struct agent *a, const Mu__GpuReport *report)
{
	for (size_t i = 0; i < report->n_fault; i++) {
		struct exe_unit *u = unit_of(a, report->fault[i]->card);
		if (u)
			set_fault(a, u, report->fault[i]->text ? report->fault[i]->text : "at fault");
	}
	if (!report->sampled || !uses_wanted(a))
		return;
	for (struct agent_attempt *t = a->attempt; t; t = t->next)
		if (t->phase != EXE_ENDED && has_gpus(t))
			send_uses(a, t, report);
}

/* Takes one whole message. */
static void take_message(struct agent *a)
{
	struct mu_arena arena = {0};
	Mu__GpuReport *report = (Mu__GpuReport *)mu_pb_unpack(&mu__gpu_report__descriptor, a->gpu.whole.data,
							      a->gpu.whole.len, &arena);
	mu_buf_reset(&a->gpu.whole);
	if (report && report->first) {
		/* Stock was taken of the first one's cards: they are kept. */
		if (a->gpu.now != a->gpu.cards)
			mu_arena_free(&a->gpu.now_arena);
		a->gpu.now = report;
		if (report->trouble)
			diag_error("AutoDetect=%s: %s", a->conf->gpu_detect, report->trouble);
		if (!a->gpu.cards) {
			a->gpu.cards = report;
			a->gpu.arena = arena;
			return;
		}
		a->gpu.now_arena = arena;
		compare(a);
		return;
	}
	if (report)
		take_report(a, report);
	mu_arena_free(&arena);
}

void agent_gpu_serve(struct agent *a)
{
	uint8_t chunk[16384];
	struct stream_frame f;
	int code = 0;
	ssize_t n = recv(a->gpu.fd, chunk, sizeof chunk, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		lose_watcher(a, "it ended");
		return;
	}
	stream_feed(&a->gpu.reader, chunk, (size_t)n);
	while ((code = stream_next(&a->gpu.reader, &f)) > 0) {
		int joined = stream_join(&a->gpu.whole, &f);
		if (joined > 0 && f.kind == EXE_GPU_REPORT)
			take_message(a);
		if (joined < 0)
			code = joined;
	}
	if (code < 0)
		lose_watcher(a, "what it said is no report");
}

const Mu__GpuReport *agent_gpu_start(struct agent *a)
{
	int64_t end = exe_boot_usec() + FIRST_REPORT_MSEC * 1000LL;
	a->gpu.fd = -1;
	if (!a->conf->gpu_detect)
		return NULL;
	start_watcher(a);
	while (a->gpu.fd >= 0 && !a->gpu.cards && exe_boot_usec() < end) {
		struct pollfd p = {a->gpu.fd, POLLIN, 0};
		if (poll(&p, 1, (int)((end - exe_boot_usec()) / 1000 + 1)) > 0)
			agent_gpu_serve(a);
	}
	static Mu__GpuReport none;
	if (!a->gpu.cards) {
		diag_error("AutoDetect=%s: the driver did not answer within %d s", a->conf->gpu_detect,
			   FIRST_REPORT_MSEC / 1000);
		mu__gpu_report__init(&none);
		a->gpu.cards = a->gpu.now = &none;
	}
	return a->gpu.cards;
}

/* ---- what people ask on the spot ---- */

static void print_env(uint32_t env)
{
	static const struct {
		uint32_t bit;
		const char *word;
	} row[] = {{MU_GPU_ENV_NVIDIA, "ENV_NVML"},
		   {MU_GPU_ENV_AMD, "ENV_RSMI"},
		   {MU_GPU_ENV_INTEL, "ENV_ONEAPI"},
		   {MU_GPU_ENV_OPENCL, "ENV_OPENCL"}};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		if (env & row[i].bit)
			printf(",%s", row[i].word);
}

void agent_gpu_print(const struct agent *a)
{
	const struct exe_inventory *inv = &a->inventory;
	for (size_t i = 0; i < inv->unit_count; i++) {
		const struct exe_unit *u = &inv->unit[i];
		printf("Gres Name=%s Type=%s Count=1 Index=%u File=%s", u->name,
		       u->type[0] ? u->type
		       : u->card  ? exe_gpu_type(u->card->product, &((struct agent *)a)->conf_arena)
				  : "(null)",
		       u->index, u->file);
		for (size_t k = 0; u->card && k + 1 < u->card->n_file; k++)
			printf(",%s", u->card->file[k + 1]);
		if (u->row && u->row->cores)
			printf(" Cores=%s CoreCnt=%u", u->row->cores, inv->cpus / inv->threads_per_core);
		for (size_t k = 0; u->row && k < u->row->n_link; k++)
			printf("%s%d", k ? "," : " Links=", u->row->link[k]);
		printf(" Flags=HAS_FILE%s", u->type[0] || u->card ? ",HAS_TYPE" : "");
		print_env(u->env);
		if (u->card)
			printf(" UUID=%s PCI=%s Memory=%lluM", u->card->uuid ? u->card->uuid : "(null)",
			       u->card->pci ? u->card->pci : "(null)", (unsigned long long)u->card->mem_mib);
		printf("\n");
	}
}

/* "gpu:nvidia_a100:8,gpu:nvidia_t4:2" of all cards that were found. */
void agent_gpu_counts(const Mu__GpuReport *cards, struct mu_buf *out)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	for (size_t i = 0; i < cards->n_card; i++) {
		const char *type = exe_gpu_type(cards->card[i]->product, &arena);
		size_t before = 0, same = 0;
		for (size_t k = 0; k < cards->n_card; k++)
			if (strcmp(exe_gpu_type(cards->card[k]->product, &arena), type) == 0) {
				before += k < i;
				same++;
			}
		if (!before)
			mu_buf_printf(out, "%sgpu:%s:%zu", out->len ? "," : "", type, same);
	}
}
