/* exec/gpu_nvml.c: NVIDIA's cards, through NVML. One process uses this: the watcher. */
#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/gpu.h"
#include "exec/nvml.h"
#include "proto/base/bits.h"

enum { AFFINITY_WORDS = 128, CPU_BITS = 8 * sizeof(unsigned long), FAULTS_A_TURN = 64, SAMPLES = 1024 };

struct card {
	nvml_device_t device, parent; /* of a part of a card its card, else NULL */
	unsigned gpu_instance, compute_instance;
	unsigned long long uncorrected, sampled_usec;
	unsigned char to_switch;
	bool told; /* it has a fault: nothing more is said of it */
};

/* The library's functions, and the cards in the order of the report. */
static struct {
#define FIELD(required, name, arguments) int(*name) arguments;
	NVML_CALLS(FIELD)
#undef FIELD
	nvml_event_set_t events;
	bool has_events;
	struct card card[EXE_GPUS_MAX];
	unsigned char link[EXE_GPUS_MAX][EXE_GPUS_MAX];
} nvml;

static int load(struct mu_err *err)
{
	static const struct {
		const char *name;
		bool required;
	} row[] = {
#define ROW(required, name, arguments) {#name, required},
	    NVML_CALLS(ROW)
#undef ROW
	};
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	void *found[sizeof row / sizeof *row];
	if (!library)
		return mu_fail(err, MU_ENOENT, "NVML cannot be opened: %s", dlerror());
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		found[i] = dlsym(library, row[i].name);
		if (!found[i] && row[i].required)
			return mu_fail(err, MU_ENOENT, "NVML is too old: it has no %s", row[i].name);
	}
	/* The structure begins with these pointers, in this order. */
	memcpy(&nvml, found, sizeof found);
	int code = nvml.nvmlInit_v2();
	return code ? mu_fail(err, MU_EIO, "NVML cannot be started: its code is %d", code) : 0;
}

/* ---- stock ---- */

static Mu__GpuCard *add_card(Mu__GpuReport *report, struct mu_arena *arena, nvml_device_t device)
{
	char name[128] = "", uuid[128] = "";
	struct nvml_memory memory = {0};
	if (report->n_card >= EXE_GPUS_MAX || nvml.nvmlDeviceGetUUID(device, uuid, sizeof uuid))
		return NULL;
	nvml.nvmlDeviceGetName(device, name, sizeof name);
	nvml.nvmlDeviceGetMemoryInfo(device, &memory);
	Mu__GpuCard *c = mu_arena_alloc(arena, sizeof *c);
	mu__gpu_card__init(c);
	c->uuid = mu_arena_strdup(arena, uuid);
	c->product = mu_arena_strdup(arena, name);
	c->has_mem_mib = c->has_number = 1;
	c->mem_mib = memory.total >> 20;
	c->file = mu_arena_alloc(arena, EXE_GPU_FILES * sizeof *c->file);
	nvml.card[report->n_card] = (struct card){.device = device};
	report->card[report->n_card++] = c;
	return c;
}

static char *nearest_cpus(nvml_device_t device, struct mu_arena *arena)
{
	unsigned long set[AFFINITY_WORDS] = {0};
	struct mu_bits cpus = {0};
	if (!nvml.nvmlDeviceGetCpuAffinity || nvml.nvmlDeviceGetCpuAffinity(device, AFFINITY_WORDS, set))
		return NULL;
	for (uint32_t i = 0; i < AFFINITY_WORDS * CPU_BITS; i++)
		if (set[i / CPU_BITS] >> (i % CPU_BITS) & 1)
			mu_bits_set(&cpus, i);
	size_t len = mu_bits_print(&cpus, NULL, 0);
	char *text = mu_arena_alloc(arena, len + 1);
	mu_bits_print(&cpus, text, len + 1);
	mu_bits_free(&cpus);
	return *text ? text : NULL;
}

/* The driver names the device file of each right to use a part in lines such as "gpu0/gi3/access 30". */
static void add_capability(const char *minors, const char *right, Mu__GpuCard *c, struct mu_arena *arena)
{
	size_t len = strlen(right);
	for (const char *line = minors; line && *line;
	     line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
		if (strncmp(line, right, len) == 0 && line[len] == ' ' && c->n_file < EXE_GPU_FILES)
			c->file[c->n_file++] = mu_arena_printf(arena, "/dev/nvidia-caps/nvidia-cap%lu",
							       strtoul(line + len + 1, NULL, 10));
}

static void part_files(const char *minors, unsigned number, struct card *s, Mu__GpuCard *c,
		       struct mu_arena *arena)
{
	char right[64];
	nvml.nvmlDeviceGetGpuInstanceId(s->device, &s->gpu_instance);
	nvml.nvmlDeviceGetComputeInstanceId(s->device, &s->compute_instance);
	snprintf(right, sizeof right, "gpu%u/gi%u/access", number, s->gpu_instance);
	add_capability(minors, right, c, arena);
	snprintf(right, sizeof right, "gpu%u/gi%u/ci%u/access", number, s->gpu_instance, s->compute_instance);
	add_capability(minors, right, c, arena);
}

/* The parts that DEVICE is cut into; how many. 0: it is given out whole. */
static unsigned add_parts(const char *minors, nvml_device_t device, const Mu__GpuCard *whole,
			  Mu__GpuReport *report, struct mu_arena *arena)
{
	unsigned on = 0, pending, most = 0, added = 0;
	if (!nvml.nvmlDeviceGetMigMode || !nvml.nvmlDeviceGetMaxMigDeviceCount ||
	    !nvml.nvmlDeviceGetMigDeviceHandleByIndex || !nvml.nvmlDeviceGetGpuInstanceId ||
	    !nvml.nvmlDeviceGetComputeInstanceId || nvml.nvmlDeviceGetMigMode(device, &on, &pending) || !on ||
	    nvml.nvmlDeviceGetMaxMigDeviceCount(device, &most))
		return 0;
	for (unsigned i = 0; i < most && i < EXE_GPUS_MAX; i++) {
		nvml_device_t part;
		if (nvml.nvmlDeviceGetMigDeviceHandleByIndex(device, i, &part))
			continue;
		Mu__GpuCard *c = add_card(report, arena, part);
		if (!c)
			break;
		struct card *s = &nvml.card[report->n_card - 1];
		s->parent = device;
		c->has_mig = c->mig = 1;
		c->pci = whole->pci;
		c->cpus = whole->cpus;
		c->number = whole->number;
		c->file[c->n_file++] = whole->file[0];
		part_files(minors, whole->number, s, c, arena);
		added++;
	}
	return added;
}

static void take_card(const char *minors, unsigned index, Mu__GpuReport *report, struct mu_arena *arena)
{
	nvml_device_t device;
	struct nvml_pci pci = {0};
	unsigned minor = index;
	if (nvml.nvmlDeviceGetHandleByIndex_v2(index, &device))
		return;
	Mu__GpuCard *c = add_card(report, arena, device);
	if (!c)
		return;
	nvml.nvmlDeviceGetPciInfo_v3(device, &pci);
	nvml.nvmlDeviceGetMinorNumber(device, &minor);
	c->number = minor;
	c->pci = mu_arena_strdup(arena, pci.bus_id);
	c->cpus = nearest_cpus(device, arena);
	c->file[c->n_file++] = mu_arena_printf(arena, "/dev/nvidia%u", minor);
	/* A card in parts is not itself given out; its place goes to the first part. */
	size_t at = report->n_card - 1;
	if (add_parts(minors, device, c, report, arena)) {
		memmove(&report->card[at], &report->card[at + 1],
			(report->n_card - at - 1) * sizeof *report->card);
		memmove(&nvml.card[at], &nvml.card[at + 1], (report->n_card - at - 1) * sizeof *nvml.card);
		report->n_card--;
	}
}

static int card_at(const Mu__GpuReport *report, const char *pci)
{
	for (size_t i = 0; i < report->n_card; i++)
		if (!report->card[i]->mig && report->card[i]->pci &&
		    strcasecmp(report->card[i]->pci, pci) == 0)
			return (int)i;
	return -1;
}

/* Links go from card to card, or all to a switch that joins every card on it. */
static void count_links(const Mu__GpuReport *report, size_t at)
{
	struct nvml_pci far;
	unsigned active;
	for (unsigned link = 0; link < NVML_LINKS; link++) {
		if (nvml.nvmlDeviceGetNvLinkState(nvml.card[at].device, link, &active) || !active ||
		    nvml.nvmlDeviceGetNvLinkRemotePciInfo_v2(nvml.card[at].device, link, &far))
			continue;
		int to = card_at(report, far.bus_id);
		if (to >= 0 && to != (int)at)
			nvml.link[at][to]++;
		else if (to < 0)
			nvml.card[at].to_switch++;
	}
}

static void take_links(Mu__GpuReport *report, struct mu_arena *arena)
{
	bool any = false;
	for (size_t i = 0;
	     i < report->n_card && nvml.nvmlDeviceGetNvLinkState && nvml.nvmlDeviceGetNvLinkRemotePciInfo_v2;
	     i++)
		if (!report->card[i]->mig)
			count_links(report, i);
	for (size_t i = 0; i < report->n_card; i++)
		for (size_t k = 0; k < report->n_card; k++) {
			unsigned a = nvml.card[i].to_switch, b = nvml.card[k].to_switch;
			nvml.link[i][k] += i == k ? 0 : a < b ? (unsigned char)a : (unsigned char)b;
			any = any || nvml.link[i][k];
		}
	for (size_t i = 0; i < report->n_card && any; i++) {
		Mu__GpuCard *c = report->card[i];
		c->link = mu_arena_alloc(arena, report->n_card * sizeof *c->link);
		c->n_link = report->n_card;
		for (size_t k = 0; k < report->n_card; k++)
			c->link[k] = i == k ? -1 : nvml.link[i][k];
	}
}

static unsigned long long uncorrected(nvml_device_t device)
{
	unsigned long long count = 0;
	if (nvml.nvmlDeviceGetTotalEccErrors)
		nvml.nvmlDeviceGetTotalEccErrors(device, NVML_UNCORRECTED, NVML_VOLATILE, &count);
	return count;
}

static void begin_watch(const Mu__GpuReport *report)
{
	nvml.has_events = nvml.nvmlEventSetCreate && nvml.nvmlDeviceRegisterEvents &&
			  nvml.nvmlEventSetWait_v2 && nvml.nvmlEventSetCreate(&nvml.events) == NVML_OK;
	for (size_t i = 0; i < report->n_card; i++) {
		struct card *s = &nvml.card[i];
		nvml_device_t device = s->parent ? s->parent : s->device;
		unsigned long long types = NVML_EVENT_XID | NVML_EVENT_DOUBLE_BIT, can = types;
		s->uncorrected = uncorrected(device);
		if (s->parent && i && nvml.card[i - 1].parent == s->parent)
			continue; /* its card is registered already */
		if (nvml.nvmlDeviceGetSupportedEventTypes &&
		    nvml.nvmlDeviceGetSupportedEventTypes(device, &can) == NVML_OK)
			types &= can;
		if (nvml.has_events && types)
			nvml.nvmlDeviceRegisterEvents(device, types, nvml.events);
	}
}

static int open_nvml(const char *root, struct mu_arena *arena, Mu__GpuReport *report, struct mu_err *err)
{
	static char minors[1 << 18];
	unsigned count = 0;
	int code = load(err);
	if (code)
		return code;
	code = nvml.nvmlDeviceGetCount_v2(&count);
	if (code)
		return mu_fail(err, MU_EIO, "NVML cannot count the cards: its code is %d", code);
	exe_gpu_read(root, "/proc/driver/nvidia-caps/mig-minors", minors, sizeof minors);
	report->card = mu_arena_alloc(arena, EXE_GPUS_MAX * sizeof *report->card);
	for (unsigned i = 0; i < count && i < EXE_GPUS_MAX; i++)
		take_card(minors, i, report, arena);
	take_links(report, arena);
	begin_watch(report);
	return 0;
}

/* ---- health ---- */

/* Errors of the program on the card, not of the card: what the vendor's own tools do not count either. */
static bool is_fatal(unsigned long long xid)
{
	static const unsigned char harmless[] = {13, 31, 43, 45, 68, 109};
	for (size_t i = 0; i < sizeof harmless; i++)
		if (harmless[i] == xid)
			return false;
	return true;
}

/* An event names a card: all of its parts are concerned, unless it names one of them. */
static void tell(const struct nvml_event *e, const Mu__GpuReport *cards, struct mu_arena *arena,
		 Mu__GpuReport *report, const char *what)
{
	const unsigned any = ~0U;
	for (uint32_t i = 0; i < cards->n_card; i++) {
		struct card *s = &nvml.card[i];
		bool is = s->device == e->device || s->parent == e->device;
		if (s->parent && e->gpu_instance != any && e->gpu_instance != s->gpu_instance)
			is = false;
		if (!is || s->told)
			continue;
		s->told = true;
		exe_gpu_fault(report, arena, i, "%s", what);
	}
}

static void take_event(const struct nvml_event *e, const Mu__GpuReport *cards, struct mu_arena *arena,
		       Mu__GpuReport *report)
{
	char what[64];
	if (e->type == NVML_EVENT_XID && !is_fatal(e->data))
		return;
	if (e->type == NVML_EVENT_XID)
		snprintf(what, sizeof what, "Xid %llu", e->data);
	else
		snprintf(what, sizeof what, "double-bit ECC error");
	tell(e, cards, arena, report, what);
}

static void look_at(uint32_t i, struct mu_arena *arena, Mu__GpuReport *report)
{
	struct card *s = &nvml.card[i];
	nvml_device_t device = s->parent ? s->parent : s->device;
	struct nvml_memory memory;
	unsigned corrected, remapped, pending, failed = 0;
	int code = nvml.nvmlDeviceGetMemoryInfo(s->device, &memory);
	size_t before = report->n_fault;
	if (s->told)
		return;
	if (nvml.nvmlDeviceGetRemappedRows)
		nvml.nvmlDeviceGetRemappedRows(device, &corrected, &remapped, &pending, &failed);
	if (code == NVML_GPU_IS_LOST || code == NVML_NOT_FOUND)
		exe_gpu_fault(report, arena, i, "it is no longer there");
	else if (failed)
		exe_gpu_fault(report, arena, i, "a row of its memory could not be remapped");
	else if (uncorrected(device) > s->uncorrected)
		exe_gpu_fault(report, arena, i, "uncorrectable ECC error");
	s->told = report->n_fault > before;
}

static void wait_nvml(unsigned msec, const Mu__GpuReport *cards, struct mu_arena *arena,
		      Mu__GpuReport *report)
{
	struct nvml_event e;
	int code = NVML_NOT_SUPPORTED;
	for (int n = 0; n < FAULTS_A_TURN && nvml.has_events; n++) {
		e = (struct nvml_event){0};
		code = nvml.nvmlEventSetWait_v2(nvml.events, &e, n ? 0 : msec);
		if (code)
			break;
		take_event(&e, cards, arena, report);
	}
	/* Without events, or where waiting for them fails at once, the pace is ours. */
	if (code && code != NVML_TIMEOUT)
		poll(NULL, 0, (int)msec);
	for (uint32_t i = 0; i < cards->n_card; i++)
		look_at(i, arena, report);
}

/* ---- use ---- */

/* What PID did on the card since the last look: the most of its samples. */
static unsigned util_of(const struct nvml_process_sample *sample, unsigned count, unsigned pid)
{
	unsigned most = 0;
	for (unsigned i = 0; i < count; i++)
		if (sample[i].pid == pid && sample[i].sm_util > most && sample[i].sm_util <= 100)
			most = sample[i].sm_util;
	return most;
}

static void sample_card(uint32_t at, struct mu_arena *arena, Mu__GpuReport *report)
{
	static struct nvml_process process[SAMPLES];
	static struct nvml_process_sample sample[SAMPLES];
	struct card *s = &nvml.card[at];
	unsigned count = SAMPLES, samples = SAMPLES;
	struct nvml_utilization use = {0};
	bool by_process = nvml.nvmlDeviceGetProcessUtilization && !s->parent;
	if (!nvml.nvmlDeviceGetComputeRunningProcesses_v3 ||
	    nvml.nvmlDeviceGetComputeRunningProcesses_v3(s->device, &count, process))
		return;
	if (!by_process || nvml.nvmlDeviceGetProcessUtilization(s->device, sample, &samples, s->sampled_usec))
		samples = 0;
	for (unsigned k = 0; k < samples; k++)
		s->sampled_usec =
		    sample[k].time_usec > s->sampled_usec ? sample[k].time_usec : s->sampled_usec;
	/* Where processes are not told apart, one that is alone did it all. */
	if (samples == 0 && count == 1 && nvml.nvmlDeviceGetUtilizationRates)
		nvml.nvmlDeviceGetUtilizationRates(s->device, &use);
	for (unsigned k = 0; k < count && k < SAMPLES; k++)
		exe_gpu_use(report, arena, at, process[k].pid,
			    process[k].used_memory == ~0ULL ? 0 : process[k].used_memory,
			    samples ? util_of(sample, samples, process[k].pid) : use.gpu);
}

static void sample_nvml(const Mu__GpuReport *cards, struct mu_arena *arena, Mu__GpuReport *report)
{
	for (uint32_t i = 0; i < cards->n_card; i++)
		if (!nvml.card[i].told)
			sample_card(i, arena, report);
}

const struct exe_gpu_source exe_gpu_nvml = {"nvml", open_nvml, wait_nvml, sample_nvml};
