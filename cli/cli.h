/* cli/cli.h: what every command shares: its context, its words for people, and the way to the controllers.
 *
 * A command is one function from parsed words to an exit code. It links neither RocksDB nor libraft nor nng,
 * opens the configuration only when it must speak to a controller, and prints errors once, as "NAME: error:
 * sentence". */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/options.h"
#include "proto/units.h"
#include "proto/wire.pb-c.h"

enum {
	CLI_CONTROLLERS_MAX = 16,
	CLI_EXIT_USAGE_SUBMIT = 255 /* unknown option of sbatch, salloc, srun: as Slurm ends */
};

/* The few keys of the configuration file that a command needs. */
struct cli_conf {
	const char *path;
	const char *cluster;
	const char *run_dir, *key_dir;
	const char *follower; /* MusterFollower: who answers for other clusters; NULL: nobody */
	const char *srun_prolog, *srun_epilog; /* NULL: none */
	unsigned port;
	unsigned message_timeout_sec, kill_wait_sec;
	struct {
		const char *name, *addr;
		unsigned port;
	} controller[CLI_CONTROLLERS_MAX];
	unsigned controllers;
};

struct wire_client;
struct cli_page;
/* The command's context. Zeroed but for name and command. */
struct cli {
	const char *name; /* as shown: "squeue" */
	unsigned command; /* enum mu_command */
	struct mu_arena arena;
	unsigned verbose;
	bool quiet;
	bool has_conf;
	struct cli_conf conf;
	struct wire_client *local, *remote;
	bool all_local, skip_local;
	bool age_told, kept_told;
	struct cli_page *page; /* while rows are asked for: where they go instead of into the reply */
	const char *followed;  /* the cluster that the follower is asked about; NULL: the controllers are */
	const int *stop; /* borrowed: readable once a signal asks to end a wait for a node; NULL: none does */
	bool many;	 /* --clusters named others: each is turned to */
	const char *at;	 /* "" or NULL: now; else "@POS" or "=USEC" */
	int64_t now_usec; /* cluster time of the last answer, else the host's */
	unsigned model;	  /* of --json and --yaml: 41 for v0.0.41; 0: not read yet */
	bool yaml;
	int argc; /* the words of the command line, behind the name */
	char **argv;
	/* Every answer of one showing is of one position and moment (with --json and --as-of). */
	bool pin, as_of;	 /* as_of: cli_as_of says which */
	const char *pinned;	 /* "@POS" of the first answer; NULL: none yet */
	int64_t pinned_now_usec; /* given with --at @POS,NOW, or of the first answer; 0: none */
	uint64_t pos;		 /* of the last answer; 0: none */
};

/* ---- words for people (stderr) ---- */
void cli_say(const struct cli *c, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* "NAME: ..." */
void cli_error(const struct cli *c, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* "NAME: error: ..." */
void cli_fatal(const struct cli *c, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* "NAME: fatal: ..."; returns */

/* ---- configuration (cli/conf.c) ---- */
/* Reads the keys above from $SLURM_CONF, else $MUSTER_CONF, else the default places. Skips everything else
 * unread. 0, MU_ENOENT (no file: names the places), MU_EIO, MU_ESYNTAX. Strings live in ARENA. */
int cli_conf_read(struct mu_arena *arena, struct cli_conf *ret, struct mu_err *err);
/* The same from text; INCLUDE lines are followed relative to PATH. */
int cli_conf_text(const char *path, const char *text, struct mu_arena *arena, struct cli_conf *ret,
		  struct mu_err *err);
/* Where the file is: borrowed from ARENA; MU_ENOENT. */
int cli_conf_find(struct mu_arena *arena, const char **ret_path, struct mu_err *err);
/* The whole of PATH in ARENA, at most 64 MiB. 0, MU_ENOENT, MU_EIO, MU_ELIMIT. */
int cli_read_file(const char *path, size_t max, struct mu_arena *arena, char **ret, size_t *ret_len,
		  struct mu_err *err);

/* ---- controllers (cli/ask.c) ---- */
/* Sends REQUEST, whose id is filled in here, to any controller and gives its reply, allocated in C's arena.
 * Local sockets first. 0 when there is a reply (whose code may be an error), MU_ECONNECT, MU_ETIMEOUT,
 * MU_EAUTH, MU_ENOENT, MU_EPROTO. */
int cli_ask(struct cli *c, Mu__Request *request, Mu__Reply **ret, struct mu_err *err);
/* The same with a time-out of its own. */
int cli_ask_within(struct cli *c, Mu__Request *request, unsigned timeout_msec, Mu__Reply **ret,
		   struct mu_err *err);
/* The same, and a reply's error becomes the result. */
int cli_ask_done(struct cli *c, Mu__Request *request, Mu__Reply **ret, struct mu_err *err);
/* Asks for all pages of QUERY and calls ROW for each row (borrowed for the call). Fills C->now_usec before
 * the first row of a page. */
typedef void (*cli_row_fn)(void *arg, struct mu_view row);
int cli_query(struct cli *c, Mu__Query *query, cli_row_fn row, void *arg, struct mu_err *err);
/* All rows of QUERY, unpacked as TYPE into an array in C's arena. */
int cli_query_all(struct cli *c, Mu__Query *query, const ProtobufCMessageDescriptor *type, void ***ret,
		  size_t *ret_count, struct mu_err *err);
/* Reads the configuration and names the controllers; every question does it where it was not done. Connects
 * to nobody. */
int cli_open(struct cli *c, struct mu_err *err);
/* A context whose only controller is number INDEX of the configuration; end it with cli_done. */
int cli_open_one(struct cli *c, unsigned index, struct cli *ret, struct mu_err *err);
/* Turns C to CLUSTER: its own by its controllers, another by the follower. 0, or a sentence. */
int cli_turn_to(struct cli *c, const char *cluster, struct mu_err *err);
/* The names of the clusters that LIST ("a,b", or "all") means, in C's arena. */
int cli_cluster_names(struct cli *c, const char *list, char ***ret, size_t *ret_count, struct mu_err *err);
void cli_done(struct cli *c); /* closes connections, frees the arena */
/* Says which moment was shown where --as-of asks for it; the next answer may be of another. */
void cli_as_of(struct cli *c);
/* Reads --at TEXT into C->at. */
int cli_set_at(struct cli *c, const char *text, struct mu_err *err);

/* ---- people and times (cli/people.c) ---- */
extern const struct mu_zone cli_zone; /* this process's time zone */
int64_t cli_now_usec(void);
int64_t cli_mono_msec(void); /* CLOCK_MONOTONIC */
/* Name of UID by the name service, else its number. In ARENA. */
const char *cli_user_name(struct mu_arena *arena, uint32_t uid);
const char *cli_group_name(struct mu_arena *arena, uint32_t gid);
/* NAME or number to a uid; MU_EUSER when there is no such user. */
int cli_user_id(const char *text, uint32_t *ret_uid, struct mu_err *err);
int cli_group_id(const char *text, uint32_t *ret_gid, struct mu_err *err);
/* "KILL", "SIGKILL", "9": 1..64. 0 or MU_EINVAL. */
int cli_signal_parse(const char *text, uint32_t *ret, struct mu_err *err);
const char *cli_signal_name(int number); /* "KILL"; "35" for one without a name: static */
/* "Tue Oct 13 12:00:00 2026" of now, as the listings' date line shows it. */
void cli_date_line(char *out, size_t cap);

/* ---- lists (cli/people.c) ---- */
/* Splits TEXT at commas (empty pieces dropped) into ARENA. */
/* NAME as it can be run: a path, or found along PATH. NULL: it is not there, or cannot be run. */
char *cli_find_program(struct mu_arena *arena, const char *name);
char **cli_split(struct mu_arena *arena, const char *text, size_t *ret_count);
/* One job of a command line: "42", "42_3", "42_[1-3]", "42.0", "42.batch", "42+1". */
struct cli_job_id {
	uint32_t job;
	bool has_task, has_step, has_component;
	const char *tasks; /* text after "_", brackets taken off; borrowed from ARENA */
	uint32_t step;
	uint32_t component;
};
int cli_job_id_parse(struct mu_arena *arena, const char *text, struct cli_job_id *ret, struct mu_err *err);

/* ---- help (cli/help.c) ---- */
void cli_help(const struct cli *c, FILE *out);
void cli_usage(const struct cli *c, FILE *out);
void cli_version(FILE *out);
void cli_man(unsigned command, const char *prose, FILE *out);
void cli_completion(FILE *out);

/* ---- commands: words after the name; exit code ---- */
int cli_sbatch(struct cli *c, int argc, char **argv);
int cli_salloc(struct cli *c, int argc, char **argv);
int cli_srun(struct cli *c, int argc, char **argv);
int cli_squeue(struct cli *c, int argc, char **argv);
int cli_sinfo(struct cli *c, int argc, char **argv);
int cli_scancel(struct cli *c, int argc, char **argv);
int cli_scontrol(struct cli *c, int argc, char **argv);
int cli_sacct(struct cli *c, int argc, char **argv);
int cli_sdiag(struct cli *c, int argc, char **argv);
int cli_sacctmgr(struct cli *c, int argc, char **argv);
int cli_sshare(struct cli *c, int argc, char **argv);
int cli_sprio(struct cli *c, int argc, char **argv);
int cli_sreport(struct cli *c, int argc, char **argv);
int cli_seff(struct cli *c, int argc, char **argv);
int cli_sattach(struct cli *c, int argc, char **argv);
int cli_sstat(struct cli *c, int argc, char **argv);
int cli_sbcast(struct cli *c, int argc, char **argv);
int cli_muster(struct cli *c, int argc, char **argv);
/* Any of them by the name in ARGV[0] or, as "muster", by the first word. */
int cli_main(int argc, char **argv);

#endif
