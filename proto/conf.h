/* proto/conf.h: slurm.conf and gres.conf syntax to Mu__Config. Pure: the caller reads files, this reads text.
 * Source of the syntax: the public manual pages slurm.conf(5) and gres.conf(5). */
#ifndef PROTO_CONF_H
#define PROTO_CONF_H

#include <stddef.h>

#include "proto/base/arena.h"
#include "proto/base/err.h"
#include "proto/conf.pb-c.h"
#include "proto/event.pb-c.h"

/* GresConf.env: which variables tell a job of its GPUs, Flags= of gres.conf. Numbers in the log. */
enum mu_gpu_env {
	MU_GPU_ENV_NVIDIA = 1, /* CUDA_VISIBLE_DEVICES */
	MU_GPU_ENV_AMD = 2,    /* ROCR_VISIBLE_DEVICES */
	MU_GPU_ENV_INTEL = 4,  /* ZE_AFFINITY_MASK */
	MU_GPU_ENV_OPENCL = 8, /* GPU_DEVICE_ORDINAL */
	MU_GPU_ENV_ALL = 15
};

/* Gives the text of an included or companion file (gres.conf, topology.conf, cgroup.conf), relative to the main file, in the
 * arena; 0, or MU_ENOENT when there is none. */
typedef int (*mu_conf_reader)(void *arg, const char *name, struct mu_arena *arena, const char **ret_text, struct mu_err *err);

/* A remark that is no error, naming file and line: an obsolete key mapped or unused, keys that are kept and shown but act on
 * nothing. Each is given once. May be NULL. */
typedef void (*mu_conf_note)(void *arg, const char *sentence);

/* Parses TEXT (named FILE in messages) into a configuration allocated in ARENA with every default filled in: all keys of
 * slurm.conf(5) and our own in Config.key, canonical spelling and alphabetical, in the form in which scontrol shows them
 * ("300 sec", "(null)"); after them those keys of cgroup.conf that were written. READER may be NULL: then there are no other
 * files. Text that borrows from the file is copied.
 * Errors name file, line, value and cure: a misspelt key with the nearest name, an unexpanded $(...), a node named twice, a
 * partition of unknown nodes. 0, MU_ESYNTAX or MU_EINVAL. */
int mu_conf_parse(const char *file, const char *text, mu_conf_reader reader, mu_conf_note note, void *arg, struct mu_arena *arena,
		  Mu__Config **ret_config, struct mu_err *err);

/* Reads one word of a PartitionName line, as scontrol update and create take it, into UPDATE: its conf gets the value, its clear
 * the numbers of fields that the value makes absent (ALL, UNLIMITED, none). "" takes a word back. Nodes stays text. NOTE gets
 * the remark about a word that acts on nothing; may be NULL. All memory is ARENA's. 0, or MU_EINVAL with what may be given. */
int mu_conf_partition_word(const char *key, const char *value, mu_conf_note note, void *arg, struct mu_arena *arena,
			   Mu__PartitionUpdate *update, struct mu_err *err);

/* The value of KEY (case-blind) in CONFIG->key, or DEFAULT_VALUE where the key is not there or unset. Borrowed. Numbers come
 * with their unit ("300 sec"), which strtol leaves alone. */
const char *mu_conf_get(const Mu__Config *config, const char *key, const char *default_value);

/* True when KEY's value is yes, true, on, up or 1; DEFAULT_VALUE where the key is not there or unset. */
int mu_conf_on(const Mu__Config *config, const char *key, int default_value);

/* PreemptMode's words, of the cluster, a partition or a QOS: one of OFF, CANCEL, REQUEUE and SUSPEND at most; GANG with SUSPEND
 * only (time is not sliced), WITHIN with any. 0 or MU_EINVAL with a sentence. Pure. */
int mu_preempt_mode_check(const char *words, struct mu_err *err);

/* Replaces %n in TEMPLATE by NAME (a controller's or node's), %% by a percent sign; other letters stay. In ARENA. */
char *mu_conf_path(const char *template_text, const char *name, struct mu_arena *arena);

#endif
