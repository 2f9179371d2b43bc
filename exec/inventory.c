/* exec/inventory.c: taking stock of a node. */
#include "exec/inventory.h"

#include <errno.h>
#include <glob.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <time.h>

#include "proto/base/bits.h"
#include "proto/conf.h"

/* Nodes that go with a device of the name's kind. */
static const struct {
	const char *prefix, *glob;
} companion[] = {{"/dev/nvidia", "/dev/nvidiactl"},
		 {"/dev/nvidia", "/dev/nvidia-uvm*"},
		 {"/dev/nvidia", "/dev/nvidia-modeset"},
		 {"/dev/dri/render", "/dev/kfd"}};

/* ---- processors ---- */

static int take_cpus(struct exe_inventory *inv, struct mu_err *err)
{
	hwloc_topology_t t;
	if (hwloc_topology_init(&t))
		return mu_fail(err, MU_EIO, "hwloc cannot be started: %s", strerror(errno));
	if (hwloc_topology_load(t)) {
		hwloc_topology_destroy(t);
		return mu_fail(err, MU_EIO, "hwloc cannot read this host's topology: %s", strerror(errno));
	}
	int cpus = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PU),
	    cores = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_CORE);
	int sockets = hwloc_get_nbobjs_by_type(t, HWLOC_OBJ_PACKAGE);
	int code = 0;
	if (cpus <= 0 || cpus > EXE_CPUS_MAX) {
		code = mu_fail(err, MU_EIO, "hwloc reports %d processors", cpus);
	} else {
		inv->cpus = (uint32_t)cpus;
		inv->sockets = sockets > 0 ? (uint32_t)sockets : 1;
		cores = cores > 0 ? cores : cpus;
		inv->cores_per_socket = (uint32_t)cores / inv->sockets ? (uint32_t)cores / inv->sockets : 1;
		inv->threads_per_core = inv->cpus / (uint32_t)cores ? inv->cpus / (uint32_t)cores : 1;
		inv->host_cpu = mu_arena_alloc(&inv->arena, (size_t)cpus * sizeof *inv->host_cpu);
		/* Logical order: the threads of one core are neighbours, the cores of one socket too. */
		for (int i = 0; i < cpus; i++)
			inv->host_cpu[i] = hwloc_get_obj_by_type(t, HWLOC_OBJ_PU, (unsigned)i)->os_index;
	}
	hwloc_topology_destroy(t);
	return code;
}

static void emulate_cpus(struct exe_inventory *inv, const Mu__NodeConf *conf)
{
	uint32_t host = inv->cpus, *host_cpu = inv->host_cpu;
	if (conf->cpus == 0 || conf->cpus > EXE_CPUS_MAX)
		return;
	inv->cpus = conf->cpus;
	inv->sockets = conf->sockets ? conf->sockets : 1;
	inv->threads_per_core = conf->threads_per_core ? conf->threads_per_core : 1;
	inv->cores_per_socket = conf->cores_per_socket ? conf->cores_per_socket
						       : conf->cpus / inv->sockets / inv->threads_per_core;
	inv->host_cpu = mu_arena_alloc(&inv->arena, inv->cpus * sizeof *inv->host_cpu);
	for (uint32_t k = 0; k < inv->cpus; k++)
		inv->host_cpu[k] = host_cpu[k % host];
}

/* ---- memory, disk, boot ---- */

static uint64_t meminfo_kib(const char *key)
{
	FILE *f = fopen("/proc/meminfo", "re");
	char line[128], name[64];
	unsigned long long value, found = 0;
	while (f && !found && fgets(line, sizeof line, f))
		if (sscanf(line, "%63[^:]: %llu", name, &value) == 2 && strcmp(name, key) == 0)
			found = value;
	if (f)
		fclose(f);
	return found;
}

static int hex(int c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int take_boot(struct exe_inventory *inv, struct mu_err *err)
{
	char text[64] = "";
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0, used = 0;
	if (f)
		fclose(f);
	for (size_t i = 0; i + 1 < n && used < sizeof inv->boot_id; i++)
		if (hex(text[i]) >= 0 && hex(text[i + 1]) >= 0) {
			inv->boot_id[used++] = (uint8_t)(hex(text[i]) << 4 | hex(text[i + 1]));
			i++;
		}
	if (used != sizeof inv->boot_id)
		return mu_fail(err, MU_EIO, "/proc/sys/kernel/random/boot_id cannot be read");
	struct timespec now, up;
	clock_gettime(CLOCK_REALTIME, &now);
	clock_gettime(CLOCK_BOOTTIME, &up);
	inv->boot_usec = ((int64_t)now.tv_sec - up.tv_sec) * 1000000;
	return 0;
}

static void take_system(struct exe_inventory *inv, const Mu__NodeConf *conf, const char *tmp_fs)
{
	struct utsname u;
	struct statvfs fs;
	if (uname(&u) == 0) {
		snprintf(inv->arch, sizeof inv->arch, "%s", u.machine);
		snprintf(inv->os, sizeof inv->os, "%s %s", u.sysname, u.release);
	}
	if (statvfs(tmp_fs, &fs) == 0)
		inv->tmp_disk_mib = (uint64_t)fs.f_blocks * fs.f_frsize >> 20;
	inv->real_memory_mib = meminfo_kib("MemTotal") >> 10;
	if (inv->emulated && conf->real_memory_mib)
		inv->real_memory_mib = conf->real_memory_mib;
	if (inv->emulated && conf->tmp_disk_mib)
		inv->tmp_disk_mib = conf->tmp_disk_mib;
}

/* ---- generic resources ---- */

static int take_device(const char *path, struct exe_device *ret, struct mu_err *err)
{
	struct stat st;
	if (stat(path, &st))
		return mu_fail(err, MU_EINVAL, "gres device File=%s: %s", path, strerror(errno));
	if (!S_ISCHR(st.st_mode) && !S_ISBLK(st.st_mode))
		return mu_fail(err, MU_EINVAL, "gres device File=%s is not a device", path);
	*ret =
	    (struct exe_device){S_ISBLK(st.st_mode) ? 'b' : 'c', false, major(st.st_rdev), minor(st.st_rdev)};
	return 0;
}

static uint32_t units_of(const struct exe_inventory *inv, const char *name)
{
	uint32_t n = 0;
	for (size_t i = 0; i < inv->unit_count; i++)
		n += strcmp(inv->unit[i].name, name) == 0;
	return n;
}

char *exe_gpu_type(const char *product, struct mu_arena *arena)
{
	char *type = mu_arena_strdup(arena, product ? product : "gpu");
	for (char *p = type; *p; p++)
		*p = *p == ' ' ? '_' : *p >= 'A' && *p <= 'Z' ? (char)(*p + 'a' - 'A') : *p;
	return type;
}

/* The cluster's cores whose CPUs are in CPUS, the host's numbers. An emulated node's are taken as they are.
 */
static char *nearest_cores(struct exe_inventory *inv, const char *cpus)
{
	struct mu_bits near = {0}, cores = {0};
	if (!cpus || mu_bits_parse(&near, cpus, EXE_CPUS_MAX))
		return NULL;
	for (uint32_t k = 0; k < inv->cpus; k++)
		if (mu_bits_test(&near, inv->emulated ? k : inv->host_cpu[k]))
			mu_bits_set(&cores, k / inv->threads_per_core);
	size_t len = mu_bits_print(&cores, NULL, 0);
	char *text = mu_arena_alloc(&inv->arena, len + 1);
	mu_bits_print(&cores, text, len + 1);
	mu_bits_free(&near);
	mu_bits_free(&cores);
	return *text ? text : NULL;
}

static Mu__GresUnit *unit_row(struct exe_inventory *inv, const Mu__GpuCard *c)
{
	Mu__GresUnit *row = mu_arena_alloc(&inv->arena, sizeof *row);
	mu__gres_unit__init(row);
	row->uuid = c->uuid;
	row->pci = c->pci;
	row->product = c->product;
	row->has_mem_mib = c->has_mem_mib;
	row->mem_mib = c->mem_mib;
	row->cores = nearest_cores(inv, c->cpus);
	row->n_file = c->n_file > 1 ? c->n_file - 1 : 0;
	row->file = c->file + 1;
	return row;
}

static struct exe_unit *add_unit(struct exe_inventory *inv, const char *name, const Mu__GresConf *g,
				 const char *file, struct mu_err *err)
{
	if (inv->unit_count == EXE_GRES_UNITS_MAX) {
		mu_fail(err, MU_ELIMIT, "more than %d gres devices on one node", EXE_GRES_UNITS_MAX);
		return NULL;
	}
	struct exe_unit *u = &inv->unit[inv->unit_count];
	u->index = units_of(inv, name);
	u->name = name;
	u->type = g->type ? g->type : "";
	u->file = file;
	u->env = g->has_env ? g->env : MU_GPU_ENV_ALL;
	inv->unit_count++;
	return u;
}

static int set_card(struct exe_inventory *inv, struct exe_unit *u, const Mu__GpuReport *gpus, uint32_t at,
		    bool files, struct mu_err *err)
{
	u->card = gpus->card[at];
	u->card_index = at;
	u->row = unit_row(inv, u->card);
	for (size_t i = files ? 0 : u->device_count; i < u->card->n_file && i < EXE_GPU_FILES; i++) {
		char path[4096];
		snprintf(path, sizeof path, "%s%s", exe_gpu_root(), u->card->file[i]);
		int code = take_device(path, &u->device[i], err);
		if (code)
			return code;
		u->device_count = i + 1;
	}
	return 0;
}

static bool is_given(const struct exe_inventory *inv, uint32_t card)
{
	for (size_t i = 0; i < inv->unit_count; i++)
		if (inv->unit[i].card && inv->unit[i].card_index == card)
			return true;
	return false;
}

/* A type of the configuration is a part of the card's own. */
static bool is_type(struct exe_inventory *inv, const Mu__GpuCard *c, const char *type)
{
	return !type || !*type || strcasestr(exe_gpu_type(c->product, &inv->arena), type);
}

/* The cards that the configuration counts, as many as there are. */
static int take_detected(struct exe_inventory *inv, const Mu__GresConf *g, const Mu__GpuReport *gpus,
			 Mu__GresHave *have, struct mu_err *err)
{
	have->count = 0;
	have->file = mu_arena_alloc(&inv->arena, (gpus->n_card + 1) * sizeof *have->file);
	/* Whole cards first: the name of a part has its card's in it. */
	for (uint32_t i = 0; i < 2 * gpus->n_card && have->count < g->count; i++) {
		uint32_t at = i % (uint32_t)gpus->n_card;
		const Mu__GpuCard *c = gpus->card[at];
		if (is_given(inv, at) || !c->n_file || !is_type(inv, c, g->type) ||
		    (i < gpus->n_card && c->mig))
			continue;
		struct exe_unit *u = add_unit(inv, have->name, g, c->file[0], err);
		int code = u ? set_card(inv, u, gpus, at, true, err) : MU_ELIMIT;
		if (code)
			return code;
		have->file[have->n_file++] = c->file[0];
		have->count++;
	}
	return 0;
}

/* Devices that the configuration names; of those that were detected too, more is known. */
static int take_files(struct exe_inventory *inv, const Mu__GresConf *g, const Mu__GpuReport *gpus,
		      const char *name, struct mu_err *err)
{
	for (size_t i = 0; i < g->n_file; i++) {
		struct exe_unit *u = add_unit(inv, name, g, g->file[i], err);
		int code = u ? take_device(g->file[i], &u->device[0], err) : MU_ELIMIT;
		if (code)
			return code;
		u->device_count = 1;
		for (uint32_t at = 0; gpus && at < gpus->n_card && !u->card; at++)
			if (gpus->card[at]->n_file && !gpus->card[at]->mig &&
			    strcmp(gpus->card[at]->file[0], g->file[i]) == 0 &&
			    set_card(inv, u, gpus, at, false, err))
				return MU_EINVAL;
	}
	return 0;
}

/* The links that gres.conf tells of, file by file. */
static void told_links(struct exe_inventory *inv, const Mu__GresConf *g, uint32_t first, const char *name)
{
	for (size_t i = 0; i < g->n_links && i < g->n_file; i++) {
		struct exe_unit *u = exe_inventory_unit(inv, name, first + (uint32_t)i);
		const char *p = g->links[i];
		if (!u || !p || !*p)
			continue;
		if (!u->row) {
			u->row = mu_arena_alloc(&inv->arena, sizeof *u->row);
			mu__gres_unit__init(u->row);
			u->row->cores = g->cores;
		}
		u->row->link = mu_arena_alloc(&inv->arena, EXE_GRES_UNITS_MAX * sizeof *u->row->link);
		u->row->n_link = 0;
		for (; *p && u->row->n_link < EXE_GRES_UNITS_MAX; p += strcspn(p, ","), p += *p == ',')
			u->row->link[u->row->n_link++] = (int32_t)strtol(p, NULL, 10);
	}
}

/* What is counted by card becomes counted by unit. */
static void detected_links(struct exe_inventory *inv)
{
	for (size_t i = 0; i < inv->unit_count; i++) {
		struct exe_unit *u = &inv->unit[i];
		if (!u->card || !u->card->n_link || u->row->n_link)
			continue;
		u->row->n_link = units_of(inv, u->name);
		u->row->link = mu_arena_alloc(&inv->arena, u->row->n_link * sizeof *u->row->link);
		for (size_t k = 0; k < inv->unit_count; k++) {
			const struct exe_unit *v = &inv->unit[k];
			if (v->card && strcmp(v->name, u->name) == 0 && v->card_index < u->card->n_link)
				u->row->link[v->index] = u->card->link[v->card_index];
		}
	}
}

/* Units in the order of the entries: what is registered says more of them where one is known. */
static void set_units(struct exe_inventory *inv)
{
	for (size_t g = 0; g < inv->gres_count; g++) {
		Mu__GresHave *have = inv->gres[g];
		bool known = false;
		have->unit = mu_arena_alloc(&inv->arena, (have->n_file + 1) * sizeof *have->unit);
		for (uint32_t k = 0; k < have->n_file; k++) {
			struct exe_unit *u = exe_inventory_unit(inv, have->name, have->first_index + k);
			known = known || (u && u->row);
			if (u && !u->row) {
				u->row = mu_arena_alloc(&inv->arena, sizeof *u->row);
				mu__gres_unit__init(u->row);
			}
			have->unit[k] = u ? u->row : NULL;
		}
		have->n_unit = known ? have->n_file : 0;
	}
}

static int take_gres(struct exe_inventory *inv, const Mu__GresConf *g, const Mu__GpuReport *gpus,
		     struct mu_err *err)
{
	const char *name = g->name ? g->name : "";
	uint32_t first = units_of(inv, name);
	Mu__GresHave *have = mu_arena_alloc(&inv->arena, sizeof *have);
	mu__gres_have__init(have);
	have->name = (char *)name;
	have->type = g->type;
	have->has_count = have->has_first_index = 1;
	have->count = g->n_file ? g->n_file : g->count;
	have->first_index = first;
	have->file = g->file;
	have->n_file = g->n_file;
	have->cores = g->cores;
	inv->gres[inv->gres_count++] = have;
	/* A counter (licences of a tool, bandwidth) may be large; only what has a device is kept unit by
	 * unit. */
	if (gpus && !g->n_file && strcmp(name, "gpu") == 0)
		return take_detected(inv, g, gpus, have, err);
	int code = take_files(inv, g, gpus, name, err);
	if (code == 0)
		told_links(inv, g, first, name);
	return code;
}

int exe_inventory_take(const Mu__NodeConf *conf, bool emulate, const char *tmp_fs, const Mu__GpuReport *gpus,
		       struct exe_inventory *ret, struct mu_err *err)
{
	memset(ret, 0, sizeof *ret);
	ret->emulated = emulate;
	int code = take_cpus(ret, err);
	if (code == 0)
		code = take_boot(ret, err);
	if (code == 0) {
		if (emulate)
			emulate_cpus(ret, conf);
		take_system(ret, conf, tmp_fs);
		ret->gres = mu_arena_alloc(&ret->arena, (conf->n_gres + 1) * sizeof *ret->gres);
	}
	for (size_t i = 0; code == 0 && i < conf->n_gres; i++)
		code = take_gres(ret, conf->gres[i], gpus, err);
	if (code == 0) {
		detected_links(ret);
		set_units(ret);
	} else {
		exe_inventory_free(ret);
	}
	return code;
}

void exe_inventory_free(struct exe_inventory *inv)
{
	mu_arena_free(&inv->arena);
	memset(inv, 0, sizeof *inv);
}

void exe_inventory_row(const struct exe_inventory *inv, Mu__NodeRow *row)
{
	row->has_cpus = row->has_sockets = row->has_cores_per_socket = row->has_threads_per_core = 1;
	row->has_real_memory_mib = row->has_tmp_disk_mib = row->has_boot_id = row->has_boot_usec = 1;
	row->cpus = inv->cpus;
	row->sockets = inv->sockets;
	row->cores_per_socket = inv->cores_per_socket;
	row->threads_per_core = inv->threads_per_core;
	row->real_memory_mib = inv->real_memory_mib;
	row->tmp_disk_mib = inv->tmp_disk_mib;
	row->boot_id = (ProtobufCBinaryData){sizeof inv->boot_id, (uint8_t *)inv->boot_id};
	row->boot_usec = inv->boot_usec;
	row->arch = (char *)inv->arch;
	row->os = (char *)inv->os;
	row->gres = inv->gres;
	row->n_gres = inv->gres_count;
	row->has_emulated = inv->emulated;
	row->emulated = inv->emulated;
}

/* ---- what jobs get ---- */

int exe_inventory_cpus(const struct exe_inventory *inv, const char *list, struct mu_buf *out,
		       struct mu_err *err)
{
	struct mu_bits asked = {0}, host = {0};
	char text[8192];
	int code = mu_bits_parse(&asked, list, EXE_CPUS_MAX);
	if (code)
		code = mu_fail(err, MU_ESYNTAX, "CPU list \"%s\" is not of the form 0-3,8", list);
	for (uint32_t k = mu_bits_next(&asked, 0); code == 0 && k != UINT32_MAX;
	     k = mu_bits_next(&asked, k + 1)) {
		if (k >= inv->cpus)
			code = mu_fail(err, MU_EINVAL, "CPU %u was allocated, but this node has %u CPUs", k,
				       inv->cpus);
		else
			mu_bits_set(&host, inv->host_cpu[k]);
	}
	if (code == 0 && mu_bits_print(&host, text, sizeof text) < sizeof text)
		mu_buf_str(out, text);
	mu_bits_free(&asked);
	mu_bits_free(&host);
	return code;
}

static size_t add_companions(const char *file, struct exe_device *ret, size_t n, size_t cap)
{
	for (size_t i = 0; i < sizeof companion / sizeof *companion; i++) {
		glob_t g;
		if (strncmp(file, companion[i].prefix, strlen(companion[i].prefix)) != 0 ||
		    glob(companion[i].glob, 0, NULL, &g))
			continue;
		for (size_t k = 0; k < g.gl_pathc && n < cap; k++)
			n += take_device(g.gl_pathv[k], &ret[n], NULL) == 0;
		globfree(&g);
	}
	return n;
}

struct exe_unit *exe_inventory_unit(struct exe_inventory *inv, const char *name, uint32_t index)
{
	for (size_t i = 0; i < inv->unit_count; i++)
		if (inv->unit[i].index == index && strcmp(inv->unit[i].name, name) == 0)
			return &inv->unit[i];
	return NULL;
}

/* Fabric cards have no owner: every job may use them. */
static size_t add_fabric(struct exe_device *ret, size_t n, size_t cap)
{
	glob_t fabric;
	if (glob("/dev/infiniband/*", 0, NULL, &fabric) == 0) {
		for (size_t k = 0; k < fabric.gl_pathc && n < cap; k++)
			n += take_device(fabric.gl_pathv[k], &ret[n], NULL) == 0;
		globfree(&fabric);
	}
	return n;
}

size_t exe_inventory_devices(const struct exe_inventory *inv, Mu__GresGot *const *got, size_t got_count,
			     struct exe_device *ret, size_t cap)
{
	size_t n = 0;
	for (size_t g = 0; g < got_count; g++)
		for (size_t i = 0; i < got[g]->n_index && n < cap; i++) {
			const struct exe_unit *u = exe_inventory_unit(
			    (struct exe_inventory *)inv, got[g]->name ? got[g]->name : "", got[g]->index[i]);
			if (!u)
				continue;
			for (size_t k = 0; k < u->device_count && n < cap; k++)
				ret[n++] = u->device[k];
			if (i == 0)
				n = add_companions(u->file, ret, n, cap);
		}
	return add_fabric(ret, n, cap);
}

size_t exe_inventory_all_devices(const struct exe_inventory *inv, struct exe_device *ret, size_t cap)
{
	size_t n = 0;
	for (size_t i = 0; i < inv->unit_count && n < cap; i++) {
		const struct exe_unit *u = &inv->unit[i];
		if (!u->file)
			continue;
		for (size_t k = 0; k < u->device_count && n < cap; k++)
			ret[n++] = u->device[k];
		if (u->index == 0)
			n = add_companions(u->file, ret, n, cap);
	}
	return add_fabric(ret, n, cap);
}

void exe_inventory_beat(uint32_t *ret_load_centi, uint64_t *ret_free_mib)
{
	double load = 0;
	*ret_load_centi = getloadavg(&load, 1) == 1 ? (uint32_t)(load * 100) : 0;
	*ret_free_mib = meminfo_kib("MemFree") >> 10;
}
