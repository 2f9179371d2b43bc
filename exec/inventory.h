/* exec/inventory.h: what this node is: CPUs, memory, devices, identity of the boot.
 * Owns: reading the host (hwloc, /proc, device nodes) and the map from the cluster's CPU numbers to the
 * host's. An emulated node is what its configuration says; its CPU k is host CPU k modulo the host's count.
 */
#ifndef EXEC_INVENTORY_H
#define EXEC_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exec/cgroup.h"
#include "exec/gpu.h"
#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/conf.pb-c.h"
#include "proto/rows.pb-c.h"

enum { EXE_CPUS_MAX = 65536, EXE_GRES_UNITS_MAX = 256 /* of one node, all kinds together */ };

/* One unit of a generic resource. */
struct exe_unit {
	const char *name, *type;		 /* "gpu", "a100" or "" */
	uint32_t index;				 /* within its name on this node */
	const char *file;			 /* NULL: a counter without a device */
	struct exe_device device[EXE_GPU_FILES]; /* its own first */
	size_t device_count;
	const Mu__GpuCard *card; /* NULL: nothing is known of it */
	uint32_t card_index;
	uint32_t env;	   /* MU_GPU_ENV_* */
	Mu__GresUnit *row; /* as registered; NULL where CARD is */
};

struct exe_inventory {
	struct mu_arena arena;
	bool emulated;
	uint32_t cpus, sockets, cores_per_socket, threads_per_core;
	uint32_t *host_cpu; /* host CPU of CPU k, k < cpus */
	uint64_t real_memory_mib, tmp_disk_mib;
	uint8_t boot_id[16];
	int64_t boot_usec;
	char arch[72], os[200];
	struct exe_unit unit[EXE_GRES_UNITS_MAX];
	size_t unit_count;
	Mu__GresHave **gres; /* as registered */
	size_t gres_count;
};

/* Takes stock. CONF and GPUS (what the watcher found; NULL: nothing is looked for) are borrowed for as long
 * as RET. A device file of CONF that is missing or is no device is an error that names it. Where GPUS is
 * given, GPUs that CONF counts without a file are the cards whose type is asked for, in their order; too few
 * of them are no error: the count that is registered is lower. 0, MU_EIO, MU_EINVAL, MU_ELIMIT. */
int exe_inventory_take(const Mu__NodeConf *conf, bool emulate, const char *tmp_fs, const Mu__GpuReport *gpus,
		       struct exe_inventory *ret, struct mu_err *err);
/* "NVIDIA H100 80GB HBM3" as a type: "nvidia_h100_80gb_hbm3". In ARENA. */
char *exe_gpu_type(const char *product, struct mu_arena *arena);
/* The unit of NAME with INDEX, or NULL. */
struct exe_unit *exe_inventory_unit(struct exe_inventory *inv, const char *name, uint32_t index);
void exe_inventory_free(struct exe_inventory *inv);

/* The fields that a node says of itself, in ROW (borrowed from INV). */
void exe_inventory_row(const struct exe_inventory *inv, Mu__NodeRow *row);
/* Appends the host's CPUs for the cluster's "0-3,8" to OUT as "0-3,8". 0, MU_ESYNTAX, MU_EINVAL (a CPU the
 * node has not). */
int exe_inventory_cpus(const struct exe_inventory *inv, const char *list, struct mu_buf *out,
		       struct mu_err *err);
/* The devices of what a job got: at most CAP rules; returns how many. Control nodes that every user of a card
 * needs come along. 0 units is fine. */
size_t exe_inventory_devices(const struct exe_inventory *inv, Mu__GresGot *const *got, size_t got_count,
			     struct exe_device *ret, size_t cap);

/* The devices of all units, likewise: what any job of this node may get. */
size_t exe_inventory_all_devices(const struct exe_inventory *inv, struct exe_device *ret, size_t cap);

/* Now: load average times 100 and free memory. */
void exe_inventory_beat(uint32_t *ret_load_centi, uint64_t *ret_free_mib);

#endif
