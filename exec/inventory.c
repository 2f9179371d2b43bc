/* exec/inventory.c: taking stock of a node. */
#include "exec/inventory.h"

#include <errno.h>
#include <glob.h>
#include <hwloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>
#include <time.h>

#include "proto/base/bits.h"

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

static int take_gres(struct exe_inventory *inv, const Mu__GresConf *g, struct mu_err *err)
{
	const char *name = g->name ? g->name : "", *type = g->type ? g->type : "";
	uint32_t first = units_of(inv, name);
	uint64_t count = g->n_file ? g->n_file : g->count;
	Mu__GresHave *have = mu_arena_alloc(&inv->arena, sizeof *have);
	mu__gres_have__init(have);
	/* A counter (licences of a tool, bandwidth) may be large; only what has a device is kept unit by
	 * unit. */
	for (size_t i = 0; i < g->n_file; i++) {
		if (inv->unit_count == EXE_GRES_UNITS_MAX)
			return mu_fail(err, MU_ELIMIT, "more than %d gres devices on one node",
				       EXE_GRES_UNITS_MAX);
		struct exe_unit *u = &inv->unit[inv->unit_count];
		int code = take_device(g->file[i], &u->device, err);
		if (code)
			return code;
		u->name = name;
		u->type = type;
		u->file = g->file[i];
		u->index = first + (uint32_t)i;
		inv->unit_count++;
	}
	have->name = (char *)name;
	have->type = g->type;
	have->has_count = have->has_first_index = 1;
	have->count = count;
	have->first_index = first;
	have->file = g->file;
	have->n_file = g->n_file;
	have->cores = g->cores;
	inv->gres[inv->gres_count++] = have;
	return 0;
}

int exe_inventory_take(const Mu__NodeConf *conf, bool emulate, const char *tmp_fs, struct exe_inventory *ret,
		       struct mu_err *err)
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
		code = take_gres(ret, conf->gres[i], err);
	if (code)
		exe_inventory_free(ret);
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

static const struct exe_unit *find_unit(const struct exe_inventory *inv, const char *name, uint32_t index)
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
			const struct exe_unit *u =
			    find_unit(inv, got[g]->name ? got[g]->name : "", got[g]->index[i]);
			if (!u)
				continue;
			ret[n++] = u->device;
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
		ret[n++] = u->device;
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
