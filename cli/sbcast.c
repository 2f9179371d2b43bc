/* cli/sbcast.c: copies a file to every node of a job: a step of one task on each node, whose standard input
 * is the file. It comes whole or not at all: written beside its place and renamed. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/array.h"
#include "cli/door.h"
#include "cli/option.h"
#include "cli/spec.h"
#include "proto/states.h"

/* $1: where to, $2: mode, $3: 1 to replace, $4: time of the last change, or nothing. */
static const char receive[] =
    "f=$1; [ ! -d \"$f\" ] || { echo \"sbcast: error: $SLURMD_NODENAME: $f is a directory\" >&2; exit 1; }\n"
    "[ \"$3\" = 1 ] || [ ! -e \"$f\" ] || { echo \"sbcast: error: $SLURMD_NODENAME: $f: File exists\" >&2; "
    "exit 1; }\n"
    "t=$f.sbcast.$$; umask 077\n"
    "if cat >\"$t\" && chmod \"$2\" \"$t\" && { [ -z \"$4\" ] || touch -d \"$4\" \"$t\"; } && mv -f \"$t\" "
    "\"$f\"\n"
    "then exit 0; fi\nrm -f \"$t\"; exit 1\n";

enum { WORDS_MAX = 32 };

/* Standard input becomes the file; its mode and time. */
static int open_source(const char *path, struct stat *ret, struct mu_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return mu_fail(err, MU_EIO, "Can't open `%s`: %s", path, strerror(errno));
	if (fstat(fd, ret) || !S_ISREG(ret->st_mode)) {
		close(fd);
		return mu_fail(err, MU_EINVAL, "`%s` is no regular file", path);
	}
	if (dup2(fd, STDIN_FILENO) < 0) {
		close(fd);
		return mu_fail(err, MU_EIO, "Can't read `%s`: %s", path, strerror(errno));
	}
	close(fd);
	return 0;
}

static int find_job(struct cli *c, const struct cli_args *args, struct cli_job *ret, struct mu_err *err)
{
	const char *word = cli_args_value(args, OPT_bcast_jobid);
	struct cli_job_id id;

	if (!word)
		word = getenv("SLURM_JOB_ID");
	if (!word || !*word)
		return mu_fail(err, MU_EINVAL, "Command only valid from within SLURM job");
	if (cli_job_id_parse(&c->arena, word, &id, err))
		return MU_EINVAL;
	if (cli_component(c, &id, &ret->job, err))
		return err->code;
	return cli_job_ask(c, ret, 2, 0, err);
}

static int copy(struct cli *c, const struct cli_args *args, const struct cli_job *job, const struct stat *st)
{
	uint32_t nodes = job->row->node_count ? job->row->node_count : 1;
	char *number = mu_arena_printf(&c->arena, "%u", nodes);
	char *words[WORDS_MAX] = {"-Q",
				  "--overlap",
				  "-J",
				  "sbcast",
				  mu_arena_printf(&c->arena, "--jobid=%u", job->job),
				  mu_arena_printf(&c->arena, "--nodes=%s", number),
				  mu_arena_printf(&c->arena, "--ntasks=%s", number),
				  "--ntasks-per-node=1",
				  "--input=all",
				  "--mpi=none",
				  "--cpu-bind=none",
				  "sh",
				  "-c",
				  (char *)receive,
				  "sbcast",
				  args->words[1],
				  mu_arena_printf(&c->arena, "%04o", (unsigned)st->st_mode & 07777),
				  cli_args_has(args, OPT_bcast_force) ? "1" : "0",
				  cli_args_has(args, OPT_bcast_preserve)
				      ? mu_arena_printf(&c->arena, "@%lld", (long long)st->st_mtim.tv_sec)
				      : ""};
	struct cli srun = {.name = "srun", .command = MU_SRUN};
	int count = 0, rc;

	while (count < WORDS_MAX && words[count])
		count++;
	rc = cli_srun(&srun, count, words);
	cli_done(&srun);
	return rc;
}

int cli_sbcast(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	struct cli_job job = {0};
	struct mu_err err = {0};
	struct stat st;
	int rc;

	if (cli_begin(c, argc, argv, false, &args, &rc))
		return rc;
	if (args.word_count != 2) {
		cli_error(c, "Need two file names, have %zu names", args.word_count);
		return 1;
	}
	rc = open_source(args.words[0], &st, &err);
	if (!rc)
		rc = cli_conf_read(&c->arena, &c->conf, &err);
	if (!rc)
		rc = find_job(c, &args, &job, &err);
	if (!rc && job.row->state != JOB_RUNNING)
		rc = mu_fail(&err, MU_EJOBID, "job %u does not run", job.job);
	if (rc) {
		cli_error(c, "%s", err.text);
		return 1;
	}
	return copy(c, &args, &job, &st) ? 1 : 0;
}
