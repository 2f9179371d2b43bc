/* exec/gpu_sysfs.c: cards by what their drivers show below /proc and /sys: AMD's by the compute driver's
 * topology, NVIDIA's without NVML by the driver's list. Names of files and their words are the kernels'
 * public interface. */
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/gpu.h"

enum { LINK_XGMI = 11, ENTRIES_MAX = 4096, PATH_CAP = 512, DRI_FIRST_RENDER = 128 };

static const char *root_dir;
static char place[EXE_GPUS_MAX][PATH_CAP]; /* folder of each card's device: gone with the card */
static uint64_t card_id[EXE_GPUS_MAX];	   /* AMD: the compute driver's number of it */
static bool told[EXE_GPUS_MAX];

static Mu__GpuCard *add_card(Mu__GpuReport *report, struct mu_arena *arena)
{
	Mu__GpuCard *c = mu_arena_alloc(arena, sizeof *c);
	mu__gpu_card__init(c);
	c->file = mu_arena_alloc(arena, EXE_GPU_FILES * sizeof *c->file);
	c->has_number = 1;
	if (!report->card)
		report->card = mu_arena_alloc(arena, EXE_GPUS_MAX * sizeof *report->card);
	report->card[report->n_card++] = c;
	return c;
}

static int by_number(const void *a, const void *b)
{
	unsigned long x = *(const unsigned long *)a, y = *(const unsigned long *)b;
	return x < y ? -1 : x > y;
}

/* Entries of folder PATH that are numbers, ascending; how many. */
static size_t numbers_in(const char *path, unsigned long *ret, size_t cap)
{
	char whole[4096], *end;
	size_t n = 0;
	snprintf(whole, sizeof whole, "%s%s", root_dir, path);
	DIR *d = opendir(whole);
	for (struct dirent *e; d && n < cap && (e = readdir(d));) {
		unsigned long v = strtoul(e->d_name, &end, 10);
		if (e->d_name[0] >= '0' && e->d_name[0] <= '9' && !*end)
			ret[n++] = v;
	}
	if (d)
		closedir(d);
	qsort(ret, n, sizeof *ret, by_number);
	return n;
}

/* The number behind WORD at the beginning of a line of TEXT. */
static uint64_t number_of(const char *text, const char *word)
{
	size_t len = strlen(word);
	for (const char *p = text; p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
		if (strncmp(p, word, len) == 0 && p[len] == ' ')
			return strtoull(p + len + 1, NULL, 10);
	return 0;
}

static uint64_t number_in(const char *folder, const char *file)
{
	char path[PATH_CAP + 64], text[64];
	snprintf(path, sizeof path, "%s/%s", folder, file);
	return exe_gpu_read(root_dir, path, text, sizeof text) ? strtoull(text, NULL, 10) : 0;
}

static char *text_in(const char *folder, const char *file, struct mu_arena *arena)
{
	char path[PATH_CAP + 64], text[512];
	snprintf(path, sizeof path, "%s/%s", folder, file);
	return exe_gpu_read(root_dir, path, text, sizeof text) && *text ? mu_arena_strdup(arena, text) : NULL;
}

static char *bus_of(const char *folder, struct mu_arena *arena)
{
	char path[4096], *end;
	snprintf(path, sizeof path, "%s%s", root_dir, folder);
	char *real = realpath(path, NULL), *slash = real ? strrchr(real, '/') : NULL;
	char *bus = slash && strtoul(slash + 1, &end, 16) + 1 && *end == ':'
			? mu_arena_strdup(arena, slash + 1)
			: NULL;
	free(real);
	return bus;
}

/* ---- AMD ---- */

static const char nodes_dir[] = "/sys/class/kfd/kfd/topology/nodes";

static void take_amd(unsigned long node, const char *properties, Mu__GpuReport *report,
		     struct mu_arena *arena)
{
	uint32_t at = (uint32_t)report->n_card;
	unsigned long minor = (unsigned long)number_of(properties, "drm_render_minor");
	Mu__GpuCard *c = add_card(report, arena);
	char folder[PATH_CAP];
	snprintf(place[at], sizeof place[at], "/sys/class/drm/renderD%lu/device", minor);
	snprintf(folder, sizeof folder, "%s/%lu", nodes_dir, node);
	card_id[at] = number_in(folder, "gpu_id");
	c->number = (uint32_t)(minor >= DRI_FIRST_RENDER ? minor - DRI_FIRST_RENDER : at);
	c->uuid =
	    mu_arena_printf(arena, "GPU-%016llx", (unsigned long long)number_of(properties, "unique_id"));
	c->product = text_in(place[at], "product_name", arena);
	if (!c->product)
		c->product = text_in(folder, "name", arena);
	c->cpus = text_in(place[at], "local_cpulist", arena);
	c->pci = bus_of(place[at], arena);
	c->has_mem_mib = 1;
	c->mem_mib = number_in(place[at], "mem_info_vram_total") >> 20;
	c->file[c->n_file++] = mu_arena_printf(arena, "/dev/dri/renderD%lu", minor);
	told[at] = false;
}

/* Connections of the card on topology node NODE; NODE_OF has the node of each card. */
static void take_xgmi(unsigned long node, const unsigned long *node_of, Mu__GpuCard *c, size_t cards,
		      struct mu_arena *arena)
{
	unsigned long number[64];
	char path[PATH_CAP], text[1024];
	snprintf(path, sizeof path, "%s/%lu/io_links", nodes_dir, node);
	size_t n = numbers_in(path, number, sizeof number / sizeof *number);
	int32_t *link = mu_arena_alloc(arena, cards * sizeof *link);
	bool any = false;
	for (size_t i = 0; i < n; i++) {
		snprintf(path, sizeof path, "%s/%lu/io_links/%lu/properties", nodes_dir, node, number[i]);
		if (!exe_gpu_read(root_dir, path, text, sizeof text) || number_of(text, "type") != LINK_XGMI)
			continue;
		for (size_t k = 0; k < cards; k++)
			if (node_of[k] == number_of(text, "node_to") && node_of[k] != node) {
				link[k]++;
				any = true;
			}
	}
	for (size_t k = 0; k < cards && any; k++)
		if (node_of[k] == node)
			link[k] = -1;
	c->link = any ? link : NULL;
	c->n_link = any ? cards : 0;
}

static int open_kfd(const char *root, struct mu_arena *arena, Mu__GpuReport *report, struct mu_err *err)
{
	unsigned long node[ENTRIES_MAX], node_of[EXE_GPUS_MAX];
	char path[PATH_CAP], text[4096];
	root_dir = root;
	size_t n = numbers_in(nodes_dir, node, ENTRIES_MAX);
	if (n == 0)
		return mu_fail(err, MU_ENOENT, "%s%s: AMD's compute driver is not there", root, nodes_dir);
	for (size_t i = 0; i < n && report->n_card < EXE_GPUS_MAX; i++) {
		snprintf(path, sizeof path, "%s/%lu/properties", nodes_dir, node[i]);
		if (!exe_gpu_read(root, path, text, sizeof text) || number_of(text, "simd_count") == 0)
			continue; /* the processor's own node */
		node_of[report->n_card] = node[i];
		take_amd(node[i], text, report, arena);
	}
	for (size_t i = 0; i < report->n_card; i++)
		take_xgmi(node_of[i], node_of, report->card[i], report->n_card, arena);
	return 0;
}

static void wait_sysfs(unsigned msec, const Mu__GpuReport *cards, struct mu_arena *arena,
		       Mu__GpuReport *report)
{
	char path[4096];
	poll(NULL, 0, (int)msec);
	for (uint32_t i = 0; i < cards->n_card; i++) {
		snprintf(path, sizeof path, "%s%s", root_dir, place[i]);
		if (told[i] || access(path, F_OK) == 0)
			continue;
		told[i] = true;
		exe_gpu_fault(report, arena, i, "it is no longer there");
	}
}

static void sample_kfd(const Mu__GpuReport *cards, struct mu_arena *arena, Mu__GpuReport *report)
{
	unsigned long pid[ENTRIES_MAX];
	char path[PATH_CAP];
	size_t n = numbers_in("/sys/class/kfd/kfd/proc", pid, ENTRIES_MAX);
	for (size_t k = 0; k < n; k++)
		for (uint32_t i = 0; i < cards->n_card; i++) {
			char file[64];
			snprintf(path, sizeof path, "/sys/class/kfd/kfd/proc/%lu", pid[k]);
			snprintf(file, sizeof file, "vram_%llu", (unsigned long long)card_id[i]);
			uint64_t bytes = number_in(path, file);
			if (bytes)
				exe_gpu_use(report, arena, i, (uint32_t)pid[k], bytes,
					    (uint32_t)number_in(place[i], "gpu_busy_percent"));
		}
}

const struct exe_gpu_source exe_gpu_kfd = {"rsmi", open_kfd, wait_sysfs, sample_kfd};

/* ---- NVIDIA without NVML ---- */

static char *word_behind(const char *text, const char *word, struct mu_arena *arena)
{
	const char *p = strstr(text, word);
	p = p ? p + strlen(word) : "";
	p += strspn(p, " \t");
	size_t len = strcspn(p, "\n");
	return len ? mu_arena_printf(arena, "%.*s", (int)len, p) : NULL;
}

static int open_proc(const char *root, struct mu_arena *arena, Mu__GpuReport *report, struct mu_err *err)
{
	static const char dir[] = "/proc/driver/nvidia/gpus";
	char path[4096], text[4096];
	struct dirent **entry = NULL;
	root_dir = root;
	snprintf(path, sizeof path, "%s%s", root, dir);
	int n = scandir(path, &entry, NULL, alphasort);
	if (n < 0)
		return mu_fail(err, MU_ENOENT, "%s: NVIDIA's driver is not there", path);
	for (int i = 0; i < n; i++) {
		uint32_t at = (uint32_t)report->n_card;
		snprintf(path, sizeof path, "%s/%s/information", dir, entry[i]->d_name);
		if (entry[i]->d_name[0] == '.' || at >= EXE_GPUS_MAX ||
		    !exe_gpu_read(root, path, text, sizeof text))
			continue;
		Mu__GpuCard *c = add_card(report, arena);
		const char *minor = word_behind(text, "Device Minor:", arena);
		c->number = minor ? (uint32_t)strtoul(minor, NULL, 10) : at;
		c->pci = mu_arena_strdup(arena, entry[i]->d_name);
		c->uuid = word_behind(text, "GPU UUID:", arena);
		c->product = word_behind(text, "Model:", arena);
		c->file[c->n_file++] = mu_arena_printf(arena, "/dev/nvidia%u", c->number);
		snprintf(place[at], sizeof place[at], "/sys/bus/pci/devices/%s", entry[i]->d_name);
		c->cpus = text_in(place[at], "local_cpulist", arena);
		snprintf(place[at], sizeof place[at], "%s/%s", dir, entry[i]->d_name);
		told[at] = false;
	}
	for (int i = 0; i < n; i++)
		free(entry[i]);
	free(entry);
	return 0;
}

static void sample_proc(const Mu__GpuReport *cards, struct mu_arena *arena, Mu__GpuReport *report)
{
	(void)cards, (void)arena, (void)report; /* The driver's list does not say who uses a card. */
}

const struct exe_gpu_source exe_gpu_proc = {"nvidia", open_proc, wait_sysfs, sample_proc};
