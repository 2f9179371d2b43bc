/* proto/conf_impl.h: what the parts of the configuration parser share. Only proto/conf*.c may include this.
 */
#ifndef PROTO_CONF_IMPL_H
#define PROTO_CONF_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/bits.h"
#include "proto/base/buf.h"
#include "proto/base/hash.h"
#include "proto/base/map.h"
#include "proto/conf.h"

enum {
	CONF__MAX_PAIRS = 128,	     /* in one line */
	CONF__MAX_FILES = 64,	     /* the main one, includes and companions */
	CONF__MAX_DEPTH = 4,	     /* of includes */
	CONF__MAX_LINES = 200000,    /* of all files */
	CONF__MAX_NODES = 65536,     /* as many as Slurm numbers */
	CONF__MAX_PARTITIONS = 1000, /* squeue and sinfo list them all */
	CONF__MAX_CONTROLLERS = 9,
	CONF__MAX_SWITCHES = 20000,
	CONF__MAX_FILES_GRES = 256, /* devices in one File= */
};

struct conf__pair {
	const char *key, *value;
};

/* A logical line: continuation joined, comment removed. */
struct conf__line {
	const char *file;
	int number; /* of its first physical line */
	struct conf__pair *pair;
	int count;
	struct conf__line *next;
};

struct conf__lines {
	struct conf__line *first, **end;
	size_t count;
};

struct records;

struct conf__host { /* one controller as it was written */
	const char *name, *addr, *file;
	int line, port, peer_port;
};

struct conf {
	mu_conf_reader reader;
	mu_conf_note note;
	void *arg;
	struct mu_arena *arena;
	struct mu_err *err;
	Mu__Config *config;
	const char *main; /* the main file's name */
	const char *file; /* where we are, for messages */
	int line;
	int files, lines;
	struct mu_hasher hash;
	struct conf__lines nodes, partitions, sets, downs, switches;
	const char **value;	 /* by row of confkeys.def; NULL: not written */
	struct mu_map notes;	 /* sentences given already */
	struct mu_map node_at;	 /* name to index + 1 */
	struct mu_map switch_at; /* name to its Mu__SwitchConf */
	struct mu_map set_at;	 /* node set's name to its conf__line */
	struct mu_buf idle;	 /* keys that act on nothing */
	struct conf__host host[CONF__MAX_CONTROLLERS], control, backup;
	int hosts;
	struct records *gres; /* of conf_gres.c, while gres.conf is read */
};

/* ---- conf_text.c ---- */
/* Fails with "FILE line N: " before the sentence. */
int conf__fail(struct conf *c, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Gives the sentence "FILE line N: KEY: NOTE" once for each NOTE. */
void conf__note(struct conf *c, const char *key, const char *note);
/* Hands every line of TEXT to TAKE; follows Include lines when INCLUDES. */
int conf__read(struct conf *c, const char *file, const char *text, bool includes,
	       int (*take)(struct conf *, struct conf__line *));
/* Reads a companion file through the reader; MU_ENOENT when there is none. */
int conf__companion(struct conf *c, const char *name, int (*take)(struct conf *, struct conf__line *));
/* Of COUNT names the one that is fewest edits away from WORD, or NULL when none is near. */
const char *conf__nearest(const char *word, const char *const *names, size_t count);
bool conf__yes(const char *text, bool *ret);

/* ---- conf_key.c ---- */
int conf__take_keys(struct conf *c, struct conf__line *line);	/* a line of general keys */
int conf__take_cgroup(struct conf *c, struct conf__line *line); /* a line of cgroup.conf */
int conf__finish_keys(struct conf *c);
size_t conf__keys(void);					/* rows of confkeys.def */
const char *conf__value(const struct conf *c, const char *key); /* as shown, default included */

/* ---- conf_node.c ---- */
/* The node's place in the configuration, or -1. */
int conf__node_index(const struct conf *c, const char *name);
int conf__finish_nodes(struct conf *c);
int conf__finish_partitions(struct conf *c);

/* ---- conf_topology.c ---- */
bool conf__is_topology(const char *key); /* a line of the main file that begins so belongs there */
int conf__take_topology(struct conf *c, struct conf__line *line);
int conf__finish_topology(struct conf *c); /* after nodes and keys */

/* ---- conf_gres.c ---- */
int conf__node_gres(struct conf *c, const char *value, Mu__NodeConf *node); /* Gres= of a NodeName line */
int conf__finish_gres(struct conf *c); /* joins gres.conf with what the nodes say */

#endif
