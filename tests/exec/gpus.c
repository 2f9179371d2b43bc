/* tests/exec/gpus.c: cards by each of the ways in which they are found, from made-up drivers' files and from
 * the stand-in for NVML; what a node makes of them, and what a job is told. The stand-in is found
 * by LD_LIBRARY_PATH. */
#include <ftw.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "exec/env.h"
#include "exec/gpu.h"
#include "exec/inventory.h"
#include "proto/conf.h"
#include "tests/exec/check.h"

static char root[] = "/tmp/muster-gpus-XXXXXX";

/* Writes TEXT into ROOT/PATH and makes the folders above it. */
static void put(const char *path, const char *text)
{
	char whole[PATH_MAX];
	snprintf(whole, sizeof whole, "%s%s", root, path);
	for (char *p = whole + strlen(root) + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = 0;
		mkdir(whole, 0755);
	}
	FILE *f = fopen(whole, "we");
	CHECK(f && fputs(text, f) >= 0, "%s", whole);
	fclose(f);
}

static void move_away(const char *path)
{
	char from[PATH_MAX], to[PATH_MAX + 8];
	snprintf(from, sizeof from, "%s%s", root, path);
	snprintf(to, sizeof to, "%s.gone", from);
	CHECK(rename(from, to) == 0, "%s", from);
}

static const char *text_of(const char *text)
{
	return text ? text : "(none)";
}

static void put_amd(int node, int minor, const char *bus, int other)
{
	char path[256], text[256], link[PATH_MAX], target[PATH_MAX];
	snprintf(path, sizeof path, "/sys/class/kfd/kfd/topology/nodes/%d/properties", node);
	snprintf(text, sizeof text, "simd_count 304\ndrm_render_minor %d\nunique_id %d\n", minor,
		 4096 + node);
	put(path, text);
	snprintf(path, sizeof path, "/sys/class/kfd/kfd/topology/nodes/%d/gpu_id", node);
	snprintf(text, sizeof text, "%d\n", 5000 + node);
	put(path, text);
	snprintf(path, sizeof path, "/sys/class/kfd/kfd/topology/nodes/%d/io_links/0/properties", node);
	put(path, "type 2\nnode_from 1\nnode_to 0\n");
	snprintf(path, sizeof path, "/sys/class/kfd/kfd/topology/nodes/%d/io_links/1/properties", node);
	snprintf(text, sizeof text, "type 11\nnode_from %d\nnode_to %d\n", node, other);
	put(path, text);
	snprintf(path, sizeof path, "/sys/devices/%s/product_name", bus);
	put(path, "AMD Instinct MI300X\n");
	snprintf(path, sizeof path, "/sys/devices/%s/local_cpulist", bus);
	put(path, minor == 128 ? "0-3\n" : "4-7\n");
	snprintf(path, sizeof path, "/sys/devices/%s/mem_info_vram_total", bus);
	put(path, "206141652992\n");
	snprintf(path, sizeof path, "/sys/devices/%s/gpu_busy_percent", bus);
	put(path, "42\n");
	snprintf(path, sizeof path, "/sys/class/drm/renderD%d/dev", minor);
	put(path, "226:128\n");
	snprintf(link, sizeof link, "%s/sys/class/drm/renderD%d/device", root, minor);
	snprintf(target, sizeof target, "%s/sys/devices/%s", root, bus);
	CHECK(symlink(target, link) == 0, "%s", link);
}

static void amd(void)
{
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	Mu__GpuReport r = MU__GPU_REPORT__INIT, news = MU__GPU_REPORT__INIT;
	CHECK(exe_gpu_kfd.open(root, &arena, &r, &err) == MU_ENOENT, "no driver: %s", err.text);
	put("/sys/class/kfd/kfd/topology/nodes/0/properties", "cpu_cores_count 64\nsimd_count 0\n");
	put_amd(1, 128, "0000:03:00.0", 2);
	put_amd(2, 129, "0000:43:00.0", 1);
	CHECK(exe_gpu_kfd.open(root, &arena, &r, &err) == 0 && r.n_card == 2, "%zu cards, %s", r.n_card,
	      err.text);
	const Mu__GpuCard *c = r.card[1];
	CHECK(strcmp(text_of(c->product), "AMD Instinct MI300X") == 0 &&
		  strcmp(text_of(c->pci), "0000:43:00.0") == 0 && strcmp(text_of(c->cpus), "4-7") == 0 &&
		  strcmp(c->file[0], "/dev/dri/renderD129") == 0 && c->mem_mib == 196592 && c->number == 1 &&
		  strcmp(c->uuid, "GPU-0000000000001002") == 0,
	      "%s %s %s %s %llu %s", text_of(c->product), text_of(c->pci), text_of(c->cpus), c->file[0],
	      (unsigned long long)c->mem_mib, c->uuid);
	CHECK(c->n_link == 2 && c->link[0] == 1 && c->link[1] == -1, "%zu links", c->n_link);
	put("/sys/class/kfd/kfd/proc/4711/vram_5002", "1048576\n");
	exe_gpu_kfd.sample(&r, &arena, &news);
	CHECK(news.n_process == 1 && news.process[0]->card == 1 && news.process[0]->pid == 4711 &&
		  news.process[0]->mem_bytes == 1048576 && news.process[0]->util_percent == 42,
	      "%zu processes", news.n_process);
	exe_gpu_kfd.wait(0, &r, &arena, &news);
	CHECK(news.n_fault == 0, "a fault of a card that is there");
	move_away("/sys/class/drm/renderD128");
	exe_gpu_kfd.wait(0, &r, &arena, &news);
	exe_gpu_kfd.wait(0, &r, &arena, &news);
	CHECK(news.n_fault == 1 && news.fault[0]->card == 0, "%zu faults", news.n_fault);
	mu_arena_free(&arena);
}

static void nvidia_without_nvml(void)
{
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	Mu__GpuReport r = MU__GPU_REPORT__INIT, news = MU__GPU_REPORT__INIT;
	CHECK(exe_gpu_proc.open(root, &arena, &r, &err) == MU_ENOENT, "no driver: %s", err.text);
	put("/proc/driver/nvidia/gpus/0000:3b:00.0/information",
	    "Model: \t\t NVIDIA T4\nIRQ:   \t\t 33\nGPU UUID: \t GPU-1\nDevice Minor: \t 3\n");
	put("/sys/bus/pci/devices/0000:3b:00.0/local_cpulist", "8-15\n");
	CHECK(exe_gpu_proc.open(root, &arena, &r, &err) == 0 && r.n_card == 1, "%zu cards", r.n_card);
	const Mu__GpuCard *c = r.card[0];
	CHECK(strcmp(text_of(c->product), "NVIDIA T4") == 0 && strcmp(text_of(c->uuid), "GPU-1") == 0 &&
		  strcmp(c->file[0], "/dev/nvidia3") == 0 && strcmp(text_of(c->cpus), "8-15") == 0 &&
		  c->number == 3,
	      "%s %s %s", text_of(c->product), text_of(c->uuid), c->file[0]);
	move_away("/proc/driver/nvidia/gpus/0000:3b:00.0");
	exe_gpu_proc.wait(0, &r, &arena, &news);
	CHECK(news.n_fault == 1, "%zu faults", news.n_fault);
	mu_arena_free(&arena);
}

/* ---- NVML ---- */

#define CARD(n, more)                                              \
	"card uuid=GPU-" #n " pci=00000000:1" #n ":00.0 minor=" #n \
	" name=NVIDIA_A100 mem=40960 cpus=0-1" more "\n"
#define CARDS                                                                                             \
	CARD(0, " links=1:4,9:2")                                                                         \
	CARD(1, " links=0:4,9:2") CARD(2, " links=9:2")                                                   \
	    CARD(3, " mig=1") "part card=3 uuid=MIG-a gi=1 ci=0 name=NVIDIA_A100_MIG_3g.20gb mem=19968\n" \
			      "part card=3 uuid=MIG-b gi=2 ci=0 name=NVIDIA_A100_MIG_3g.20gb mem=19968\n"

/* One turn of the watcher over what the library says now. */
static Mu__GpuReport look(const char *more, const Mu__GpuReport *cards, struct mu_arena *arena)
{
	Mu__GpuReport news = MU__GPU_REPORT__INIT;
	char text[4096];
	snprintf(text, sizeof text, CARDS "%s", more);
	put("/cards", text);
	exe_gpu_nvml.wait(0, cards, arena, &news);
	exe_gpu_nvml.sample(cards, arena, &news);
	return news;
}

static void one_fault(const Mu__GpuReport *news, uint32_t card, const char *text)
{
	CHECK(news->n_fault == 1 && news->fault[0]->card == card && strcmp(news->fault[0]->text, text) == 0,
	      "%zu faults, of card %u: %s", news->n_fault, news->n_fault ? news->fault[0]->card : 0,
	      news->n_fault ? news->fault[0]->text : "");
}

static void nvml(struct mu_arena *arena, Mu__GpuReport *cards)
{
	static const int32_t links[3][3] = {{-1, 6, 2}, {6, -1, 2}, {2, 2, -1}};
	struct mu_err err = {0};
	char path[PATH_MAX];
	snprintf(path, sizeof path, "%s/cards", root);
	setenv("FAKE_NVML", path, 1);
	put("/cards", CARDS);
	put("/proc/driver/nvidia-caps/mig-minors",
	    "config 1\ngpu3/gi1/access 30\ngpu3/gi1/ci0/access 31\ngpu3/gi2/access 39\n");
	CHECK(exe_gpu_nvml.open(root, arena, cards, &err) == 0 && cards->n_card == 5, "%zu cards, %s",
	      cards->n_card, err.text);
	if (cards->n_card != 5)
		return;
	for (int i = 0; i < 9; i++)
		CHECK(cards->card[i / 3]->link[i % 3] == links[i / 3][i % 3], "link %d-%d is %d", i / 3,
		      i % 3, cards->card[i / 3]->link[i % 3]);
	const Mu__GpuCard *c = cards->card[3];
	CHECK(c->mig && strcmp(c->uuid, "MIG-a") == 0 && c->n_file == 3 &&
		  strcmp(c->file[0], "/dev/nvidia3") == 0 &&
		  strcmp(c->file[1], "/dev/nvidia-caps/nvidia-cap30") == 0 &&
		  strcmp(c->file[2], "/dev/nvidia-caps/nvidia-cap31") == 0 &&
		  strcmp(text_of(c->pci), "00000000:13:00.0") == 0 && cards->card[4]->n_file == 2,
	      "part %s has %zu files", c->uuid, c->n_file);
	Mu__GpuReport news =
	    look("use card=0 pid=7 mem=100 util=30\nuse part=1 card=3 pid=8 mem=5 util=1\n", cards, arena);
	CHECK(news.n_fault == 0 && news.n_process == 2 && news.process[0]->card == 0 &&
		  news.process[0]->pid == 7 && news.process[0]->mem_bytes == 100 << 20 &&
		  news.process[0]->util_percent == 30 && news.process[1]->card == 4,
	      "%zu processes, %zu faults", news.n_process, news.n_fault);
}

/* Each fault is told once; a program's error is none. */
static void nvml_faults(struct mu_arena *arena, const Mu__GpuReport *cards)
{
	Mu__GpuReport news = look("xid card=0 code=13\n", cards, arena);
	CHECK(news.n_fault == 0, "an error of a program counts: %s", news.n_fault ? news.fault[0]->text : "");
	news = look("xid card=0 code=13\nxid card=0 code=79\nxid card=0 code=79\n", cards, arena);
	one_fault(&news, 0, "Xid 79");
	news = look("ecc card=1 count=2\n", cards, arena);
	one_fault(&news, 1, "uncorrectable ECC error");
	news = look("ecc card=1 count=3\nlost card=2\n", cards, arena);
	one_fault(&news, 2, "it is no longer there");
	/* Of a part alone, then of the whole card. */
	news = look("xid card=0 code=13\nxid card=0 code=79\nxid card=0 code=79\nxid card=3 code=48 gi=2\n",
		    cards, arena);
	one_fault(&news, 4, "Xid 48");
	news = look("remap card=3\n", cards, arena);
	one_fault(&news, 3, "a row of its memory could not be remapped");
}

/* ---- what a node makes of them ---- */

static const char *value(const ProtobufCBinaryData *env, size_t count, const char *name)
{
	size_t len = strlen(name);
	for (size_t i = 0; i < count; i++)
		if (env[i].len > len && memcmp(env[i].data, name, len) == 0 && env[i].data[len] == '=')
			return (const char *)env[i].data + len + 1;
	return "(unset)";
}

static void told(struct exe_inventory *inv, uint32_t *index, size_t n, bool open, const char *name,
		 const char *want)
{
	struct mu_arena arena = {0};
	Mu__AttemptOrder o = MU__ATTEMPT_ORDER__INIT;
	Mu__JobSpec spec = MU__JOB_SPEC__INIT;
	Mu__AllocNode here = MU__ALLOC_NODE__INIT, *all = &here;
	Mu__GresGot got = MU__GRES_GOT__INIT, *gots = &got;
	struct exe_env_words words = {.inventory = inv, .open_devices = open};
	ProtobufCBinaryData *env;
	size_t count;
	got.name = "gpu";
	got.index = index;
	got.n_index = n;
	here.gres = &gots;
	here.n_gres = 1;
	o.spec = &spec;
	o.here = &here;
	o.alloc = &all;
	o.n_alloc = 1;
	o.user = "x";
	exe_env_build(&o, &words, NULL, (struct mu_view){NULL, 0}, &arena, &env, &count);
	CHECK(strcmp(value(env, count, name), want) == 0, "%s is %s instead of %s", name,
	      value(env, count, name), want);
	mu_arena_free(&arena);
}

static void device(const char *path, unsigned minor)
{
	char whole[PATH_MAX];
	put(path, "");
	snprintf(whole, sizeof whole, "%s%s", root, path);
	unlink(whole);
	CHECK(mknod(whole, S_IFCHR | 0600, makedev(1, minor)) == 0, "%s", whole);
}

static void node(const Mu__GpuReport *cards)
{
	static struct exe_inventory inv;
	Mu__NodeConf conf = MU__NODE_CONF__INIT;
	Mu__GresConf part = MU__GRES_CONF__INIT, whole = MU__GRES_CONF__INIT, *list[] = {&whole, &part};
	struct mu_err err = {0};
	struct exe_device dev[8];
	Mu__GresGot got = MU__GRES_GOT__INIT, *gots = &got;
	uint32_t first[] = {1, 2}, parts[] = {4, 3};
	static const char *const file[] = {"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2", "/dev/nvidia3"};
	for (unsigned i = 0; i < 4; i++)
		device(file[i], 3 + i);
	device("/dev/nvidia-caps/nvidia-cap30", 7);
	device("/dev/nvidia-caps/nvidia-cap31", 8);
	device("/dev/nvidia-caps/nvidia-cap39", 9);
	setenv("MUSTER_GPU_ROOT", root, 1);
	conf.cpus = 4;
	conf.threads_per_core = 2;
	conf.gres = list;
	conf.n_gres = 2;
	whole.name = part.name = "gpu";
	whole.type = "a100";
	whole.count = 3;
	part.type = "3g.20gb";
	part.count = 4;
	whole.has_env = part.has_env = 1;
	whole.env = MU_GPU_ENV_NVIDIA;
	part.env = MU_GPU_ENV_NVIDIA | MU_GPU_ENV_OPENCL;
	CHECK(exe_inventory_take(&conf, true, "/tmp", cards, &inv, &err) == 0, "%s", err.text);
	CHECK(inv.gres_count == 2 && inv.gres[0]->count == 3 && inv.gres[0]->n_unit == 3 &&
		  inv.gres[1]->count == 2,
	      "%llu whole cards and %llu parts", (unsigned long long)inv.gres[0]->count,
	      (unsigned long long)inv.gres[1]->count);
	const Mu__GresUnit *u = inv.gres[0]->unit[1];
	CHECK(strcmp(u->uuid, "GPU-1") == 0 && strcmp(text_of(u->cores), "0") == 0 && u->n_link == 5 &&
		  u->link[0] == 6,
	      "%s near %s", u->uuid, text_of(u->cores));
	told(&inv, first, 2, false, "CUDA_VISIBLE_DEVICES", "0,1");
	told(&inv, first, 2, true, "CUDA_VISIBLE_DEVICES", "1,2");
	told(&inv, first, 2, false, "NVIDIA_VISIBLE_DEVICES", "GPU-1,GPU-2");
	told(&inv, first, 2, false, "GPU_DEVICE_ORDINAL", "(unset)");
	told(&inv, first, 2, false, "SLURM_JOB_GPUS", "1,2");
	told(&inv, parts, 2, false, "CUDA_VISIBLE_DEVICES", "MIG-b,MIG-a");
	told(&inv, parts, 2, false, "GPU_DEVICE_ORDINAL", "0,1");
	got.name = "gpu";
	got.index = parts + 1;
	got.n_index = 1;
	CHECK(exe_inventory_devices(&inv, &gots, 1, dev, 8) >= 3 && dev[0].minor == 6 && dev[1].minor == 7 &&
		  dev[2].minor == 8,
	      "devices of a part are %u %u %u", dev[0].minor, dev[1].minor, dev[2].minor);
	exe_inventory_free(&inv);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
	return remove(path);
}

int main(void)
{
	struct mu_arena arena = {0};
	Mu__GpuReport cards = MU__GPU_REPORT__INIT;
	CHECK(mkdtemp(root), "%s", root);
	CHECK(exe_gpu_source_find("NVML") == &exe_gpu_nvml && !exe_gpu_source_find("off"), "words");
	amd();
	nvidia_without_nvml();
	nvml(&arena, &cards);
	if (cards.n_card == 5) {
		node(&cards);
		nvml_faults(&arena, &cards);
	}
	mu_arena_free(&arena);
	CHECK(nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0, "%s stays", root);
	return check_done();
}
