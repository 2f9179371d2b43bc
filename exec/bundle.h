/* exec/bundle.h: OCI bundles as steps use them: the patterns of oci.conf, and what of a bundle's config.json
 * is the step's to say. Pure. */
#ifndef EXEC_BUNDLE_H
#define EXEC_BUNDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "exec/json.h"

struct exe_oci_words {
	const char *bundle, *env_file, *spool, *rootfs, *node, *user, *step; /* %b %e %m %r %n %u %s */
	uint32_t job, task, uid;					     /* %j %t %U */
	int pid;							     /* %p */
	char *const *argv; /* %@: each word in quotes of the shell; ends with NULL */
};

/* Appends PATTERN with its letters replaced to OUT; %% is %, an unknown letter stays as it is. A pattern with
 * %p cannot be used where no process is known. */
void exe_oci_expand(const char *pattern, const struct exe_oci_words *w, struct mu_buf *out);
bool exe_oci_uses(const char *pattern, char letter);

struct exe_bundle {
	const char *path; /* of the bundle: a relative root lies in it */
	char *const *argv, *const *env;
	const char *work_dir; /* NULL: the bundle's */
	const char *node;
	uint32_t uid, gid, umask;
	bool terminal;
	const char *spool,
	    *spool_at;	     /* a folder of the node and where the container sees it; NULL: nowhere */
	char *const *device; /* device files of the node */
	size_t devices;
	const char *disable_hooks; /* kinds, divided by commas; NULL: all run */
};

/* Makes CONFIG, a bundle's config.json, what one task is run with: program, environment (the bundle's
 * variables stand where the task has none of the name), folder, root, host name, devices and the spool's
 * mount are put in. What needs more rights than the task's user has, or belongs to the step's control group,
 * is taken out: resources, groups, limits, owners of mounts. A bundle without a map of its own gets a user
 * namespace in which the user is root; one with a map keeps it and its user. The tree shares ARENA and
 * borrows nothing. 0, or MU_EINVAL. */
int exe_bundle_fill(struct exe_json *config, const struct exe_bundle *b, struct mu_arena *arena,
		    struct mu_err *err);
/* The root's folder, absolute; NULL where CONFIG has none. */
char *exe_bundle_root(const struct exe_json *config, const char *path, struct mu_arena *arena);
/* Does the container see something of the node at PATH: is it, or a folder above it, a mount of CONFIG? */
bool exe_bundle_mounts(const struct exe_json *config, const char *path);

#endif
