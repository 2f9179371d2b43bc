/* ctld/setup.h: reading configuration and files at start, for musterd and muster-history. */
#ifndef LOG_CTLD_SETUP_H
#define LOG_CTLD_SETUP_H

#include "log/ctld/ctld.h"

/* OPTION, else $SLURM_CONF, else $MUSTER_CONF, else the first place that has one. Borrowed. */
const char *ctl_conf_path(const char *option);
/* The whole text of PATH in ARENA, NUL-terminated. 0, MU_ENOENT, MU_EIO, MU_EINVAL, MU_ESYNTAX. */
int ctl_read_file(const char *path, struct mu_arena *arena, const char **ret_text, struct mu_err *err);
/* Reads and checks the configuration with its companion files; remarks go to diag. */
int ctl_load_conf(const char *path, struct mu_arena *arena, Mu__Config **ret, struct mu_err *err);
/* Opens the view of an archive for reading: of DIR, a StateSaveLocation; NULL: the one that the configuration (CONF_OPTION as
 * for ctl_conf_path) says for controller NAME (NULL: this host). MU_ENOENT where there is none. */
int ctl_archive_open(const char *dir, const char *conf_option, const char *name, struct mu_arena *arena, struct view **ret,
		     struct mu_err *err);
/* The directory that the configuration says for NAME (NULL: this host, else the first controller whose directory is here), in
 * ARENA. */
const char *ctl_archive_dir(const Mu__Config *conf, const char *name, struct mu_arena *arena);
/* Makes PATH, mode 0700, where it is not there; it must be SlurmUser's or ours, and nobody else's to write. */
int ctl_own_dir(const struct ctl *c, const char *path, struct mu_err *err);
int ctl_slurm_user(struct ctl *c, struct mu_err *err); /* C->slurm_uid, from C->conf */
/* Numeric "ip:port" of a controller's peer port. */
int ctl_peer_address(const Mu__ControllerConf *conf, char *out, size_t cap, struct mu_err *err);

#endif
