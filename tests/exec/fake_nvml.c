/* tests/exec/fake_nvml.c: a library that answers as NVML does, for machines without a card. What it answers
 * is in the text file that FAKE_NVML names, read anew on every call, so that a test changes it by putting
 * another in its place (rename). One thing a line, words KEY=VALUE; in names _ stands for a blank:
 *   card uuid=GPU-0 pci=00000000:10:00.0 minor=0 name=NVIDIA_H100 mem=81920 cpus=0-1 links=1:6,2:6 mig=1
 *   part card=0 uuid=MIG-0 gi=3 ci=0 name=NVIDIA_H100_MIG_1g.10gb mem=9728       a part of a card with mig=1
 *   use card=0 pid=4711 mem=512 util=37                                          MiB, percent; part=0: of
 * that part xid card=2 code=79       an event, once          lost card=3        it fell off the bus ecc
 * card=1 count=1       uncorrected errors      remap card=1       a row could not be remapped links:
 * card:number of links; a card that is not there is a switch. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exec/nvml.h"

#define DECLARE(required, name, arguments) int name arguments;
NVML_CALLS(DECLARE)

enum { LINES = 256, LINE_CAP = 512, PART_BASE = 1000, SLICE_MSEC = 20, SUCCESS = 0, SWITCH_BUS = 0xf0 };

static char line[LINES][LINE_CAP];
static int lines, xids_told;

static void read_all(void)
{
	const char *path = getenv("FAKE_NVML");
	FILE *f = path ? fopen(path, "re") : NULL;
	lines = 0;
	while (f && lines < LINES && fgets(line[lines], LINE_CAP, f))
		lines++;
	if (f)
		fclose(f);
}

/* The Nth line that begins with KIND, or NULL. */
static const char *nth(const char *kind, int n)
{
	size_t len = strlen(kind);
	for (int i = 0; i < lines; i++)
		if (strncmp(line[i], kind, len) == 0 && line[i][len] == ' ' && n-- == 0)
			return line[i];
	return NULL;
}

static const char *text(const char *from, const char *key, char *out, size_t cap)
{
	char word[64];
	snprintf(word, sizeof word, " %s=", key);
	const char *p = from ? strstr(from, word) : NULL;
	size_t n = p ? strcspn(p + strlen(word), " \n") : 0;
	snprintf(out, cap, "%.*s", (int)n, p ? p + strlen(word) : "");
	return p ? out : NULL;
}

static long number(const char *from, const char *key, long otherwise)
{
	char out[64];
	return text(from, key, out, sizeof out) ? strtol(out, NULL, 0) : otherwise;
}

static long id_of(nvml_device_t d)
{
	return (long)(intptr_t)d - 1;
}

static nvml_device_t handle(long id)
{
	return (nvml_device_t)(intptr_t)(id + 1);
}

static const char *line_of(nvml_device_t d)
{
	long id = id_of(d);
	return id >= PART_BASE ? nth("part", (int)(id - PART_BASE)) : nth("card", (int)id);
}

static long card_of(nvml_device_t d)
{
	return id_of(d) >= PART_BASE ? number(line_of(d), "card", 0) : id_of(d);
}

/* What a line of KIND says of the card, or OTHERWISE. */
static long said(const char *kind, nvml_device_t d, const char *key, long otherwise)
{
	const char *l;
	for (int i = 0; (l = nth(kind, i)); i++)
		if (number(l, "card", -1) == card_of(d))
			return number(l, key, 1);
	return otherwise;
}

/* Begins every call on a device. */
static int look(nvml_device_t d)
{
	read_all();
	if (!line_of(d))
		return NVML_NOT_FOUND;
	return said("lost", d, "x", 0) ? NVML_GPU_IS_LOST : SUCCESS;
}

int nvmlInit_v2(void)
{
	read_all();
	return lines ? SUCCESS : 9; /* the driver is not loaded */
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
	read_all();
	for (*count = 0; nth("card", (int)*count); ++*count)
		;
	return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device_t *ret)
{
	*ret = handle((long)index);
	return look(*ret);
}

static int copy(nvml_device_t d, const char *key, char *out, unsigned length)
{
	int code = look(d);
	return code ? code : text(line_of(d), key, out, length) ? SUCCESS : NVML_NOT_FOUND;
}

int nvmlDeviceGetUUID(nvml_device_t d, char *uuid, unsigned length)
{
	return copy(d, "uuid", uuid, length);
}

int nvmlDeviceGetName(nvml_device_t d, char *name, unsigned length)
{
	int code = copy(d, "name", name, length);
	for (char *p = name; !code && *p; p++)
		*p = *p == '_' ? ' ' : *p;
	return code;
}

int nvmlDeviceGetMinorNumber(nvml_device_t d, unsigned *minor)
{
	int code = look(d);
	*minor = (unsigned)number(line_of(d), "minor", id_of(d));
	return code;
}

int nvmlDeviceGetPciInfo_v3(nvml_device_t d, struct nvml_pci *pci)
{
	memset(pci, 0, sizeof *pci);
	return copy(d, "pci", pci->bus_id, sizeof pci->bus_id);
}

int nvmlDeviceGetMemoryInfo(nvml_device_t d, struct nvml_memory *memory)
{
	int code = look(d);
	memory->total = memory->free = (unsigned long long)number(line_of(d), "mem", 0) << 20;
	memory->used = 0;
	return code;
}

int nvmlDeviceGetCpuAffinity(nvml_device_t d, unsigned words, unsigned long *set)
{
	char cpus[64];
	int code = look(d), first, last;
	memset(set, 0, words * sizeof *set);
	if (code || !text(line_of(d), "cpus", cpus, sizeof cpus))
		return code ? code : NVML_NOT_SUPPORTED;
	int n = sscanf(cpus, "%d-%d", &first, &last);
	for (int i = first; n > 0 && i <= (n == 2 ? last : first); i++)
		set[i / 64] |= 1UL << (i % 64);
	return SUCCESS;
}

/* Card at the far end of LINK; -1: there is none. */
static long far_end(nvml_device_t d, unsigned link)
{
	char links[256];
	if (!text(line_of(d), "links", links, sizeof links))
		return -1;
	for (const char *p = links; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
		unsigned to, count;
		if (sscanf(p, "%u:%u", &to, &count) != 2)
			return -1;
		if (link < count)
			return to;
		link -= count;
	}
	return -1;
}

int nvmlDeviceGetNvLinkState(nvml_device_t d, unsigned link, unsigned *active)
{
	int code = look(d);
	*active = code == 0 && far_end(d, link) >= 0;
	return code;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(nvml_device_t d, unsigned link, struct nvml_pci *pci)
{
	int code = look(d);
	long to = code ? -1 : far_end(d, link);
	memset(pci, 0, sizeof *pci);
	if (to < 0)
		return code ? code : NVML_NOT_SUPPORTED;
	if (!text(nth("card", (int)to), "pci", pci->bus_id, sizeof pci->bus_id))
		snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", SWITCH_BUS);
	return SUCCESS;
}

int nvmlDeviceGetMigMode(nvml_device_t d, unsigned *current, unsigned *pending)
{
	int code = look(d);
	*current = *pending = (unsigned)number(line_of(d), "mig", 0);
	return code;
}

int nvmlDeviceGetMaxMigDeviceCount(nvml_device_t d, unsigned *count)
{
	*count = 7;
	return look(d);
}

int nvmlDeviceGetMigDeviceHandleByIndex(nvml_device_t d, unsigned index, nvml_device_t *ret)
{
	int code = look(d);
	const char *l;
	for (int i = 0; !code && (l = nth("part", i)); i++)
		if (number(l, "card", -1) == id_of(d) && index-- == 0) {
			*ret = handle(PART_BASE + i);
			return SUCCESS;
		}
	return code ? code : NVML_NOT_FOUND;
}

int nvmlDeviceGetGpuInstanceId(nvml_device_t d, unsigned *id)
{
	int code = look(d);
	*id = (unsigned)number(line_of(d), "gi", 0);
	return code;
}

int nvmlDeviceGetComputeInstanceId(nvml_device_t d, unsigned *id)
{
	int code = look(d);
	*id = (unsigned)number(line_of(d), "ci", 0);
	return code;
}

int nvmlDeviceGetTotalEccErrors(nvml_device_t d, unsigned type, unsigned counter, unsigned long long *count)
{
	int code = look(d);
	*count = type == NVML_UNCORRECTED && counter == NVML_VOLATILE
		     ? (unsigned long long)said("ecc", d, "count", 0)
		     : 0;
	return code;
}

int nvmlDeviceGetRemappedRows(nvml_device_t d, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
			      unsigned *failed)
{
	int code = look(d);
	*corrected = *uncorrected = *pending = 0;
	*failed = (unsigned)said("remap", d, "x", 0);
	return code;
}

int nvmlDeviceGetUtilizationRates(nvml_device_t d, struct nvml_utilization *use)
{
	int code = look(d);
	use->gpu = (unsigned)said("use", d, "util", 0);
	use->memory = 0;
	return code;
}

/* The Nth use of just this card or part. */
static const char *use_of(nvml_device_t d, unsigned n)
{
	const char *l;
	for (int i = 0; (l = nth("use", i)); i++) {
		long part = number(l, "part", -1);
		bool mine = part >= 0 ? id_of(d) == PART_BASE + part : number(l, "card", -1) == id_of(d);
		if (mine && n-- == 0)
			return l;
	}
	return NULL;
}

int nvmlDeviceGetComputeRunningProcesses_v3(nvml_device_t d, unsigned *count, struct nvml_process *process)
{
	int code = look(d);
	const char *l;
	unsigned cap = *count;
	for (*count = 0; !code && *count < cap && (l = use_of(d, *count)); ++*count) {
		process[*count] = (struct nvml_process){.pid = (unsigned)number(l, "pid", 0)};
		process[*count].used_memory = (unsigned long long)number(l, "mem", 0) << 20;
	}
	return code;
}

int nvmlDeviceGetProcessUtilization(nvml_device_t d, struct nvml_process_sample *sample, unsigned *count,
				    unsigned long long since_usec)
{
	int code = look(d);
	const char *l;
	unsigned cap = *count;
	for (*count = 0; !code && *count < cap && (l = use_of(d, *count)); ++*count) {
		sample[*count] = (struct nvml_process_sample){.pid = (unsigned)number(l, "pid", 0)};
		sample[*count].time_usec = since_usec + 1;
		sample[*count].sm_util = (unsigned)number(l, "util", 0);
	}
	return code ? code : *count ? SUCCESS : NVML_NOT_FOUND;
}

int nvmlEventSetCreate(nvml_event_set_t *set)
{
	*set = (nvml_event_set_t)(intptr_t)1;
	return SUCCESS;
}

int nvmlDeviceGetSupportedEventTypes(nvml_device_t d, unsigned long long *types)
{
	*types = NVML_EVENT_XID;
	return look(d);
}

int nvmlDeviceRegisterEvents(nvml_device_t d, unsigned long long types, nvml_event_set_t set)
{
	return set && types == NVML_EVENT_XID ? look(d) : NVML_NOT_SUPPORTED;
}

int nvmlEventSetWait_v2(nvml_event_set_t set, struct nvml_event *event, unsigned msec)
{
	const struct timespec slice = {.tv_nsec = SLICE_MSEC * 1000000};
	for (unsigned spent = 0; set; spent += SLICE_MSEC) {
		read_all();
		const char *l = nth("xid", xids_told);
		if (l) {
			xids_told++;
			*event = (struct nvml_event){.device = handle(number(l, "card", 0)),
						     .type = NVML_EVENT_XID,
						     .data = (unsigned long long)number(l, "code", 0)};
			event->gpu_instance = (unsigned)number(l, "gi", -1);
			event->compute_instance = ~0U;
			return SUCCESS;
		}
		if (spent >= msec)
			break;
		nanosleep(&slice, NULL);
	}
	return NVML_TIMEOUT;
}
