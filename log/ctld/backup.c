/* ctld/backup.c: `muster backup`: one directory with everything that a controller knows, taken while it works.
 * restore_main.c makes a controller's StateSaveLocation out of it.
 *
 * DIR/view is the view at one position, DIR/raft the log with what follows it, DIR/BACKUP a few lines that say so:
 * "muster-backup 1", then cluster, controller, position, digest, chain and time_usec, a word and its value each. Keys are not
 * in it. */
#include "log/ctld/ctld.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log/diag.h"

struct backup {
	struct ctl_req *req;
	char dir[3072];
	int code;
	uint64_t snapshots, pos;
	struct mu_hash digest, chain;
	int64_t time_usec;
	struct mu_err err;
};

static void path_in(const struct backup *b, const char *name, char *out, size_t cap)
{
	(void)snprintf(out, cap, "%s/%s", b->dir, name);
}

static uint64_t snapshots(struct ctl *c)
{
	struct log_stats s;

	log_replica_stats(c->replica, &s, false);
	return s.snapshots + s.installs;
}

/* Written last: a directory without it is no backup. */
static int note(struct ctl *c, struct backup *b)
{
	char path[4096], digest[2 * MU_HASH_BYTES + 1], chain[2 * MU_HASH_BYTES + 1];
	FILE *out;

	mu_hash_print(&b->digest, digest);
	mu_hash_print(&b->chain, chain);
	path_in(b, "BACKUP", path, sizeof path);
	out = fopen(path, "wxe");
	if (!out)
		return mu_fail(&b->err, MU_EIO, "%s: %s", path, strerror(errno));
	fprintf(out, "muster-backup 1\ncluster %s\ncontroller %s\nposition %llu\ndigest %s\nchain %s\ntime_usec %lld\n", sch_cluster(c->st)->name, c->opt.name,
		(unsigned long long)b->pos, digest, chain, (long long)b->time_usec);
	bool bad = fflush(out) || fsync(fileno(out));
	(void)fclose(out);
	return bad ? mu_fail(&b->err, MU_EIO, "%s cannot be written", path) : 0;
}

/* Core thread: the view is there. A snapshot of the log may lie behind the view's position where one was taken since. */
static void copy_log(struct ctl *c, void *arg)
{
	struct backup *b = arg;
	char path[4096];

	path_in(b, "raft", path, sizeof path);
	if (!b->code)
		b->code = log_replica_backup(c->raft_dir, path, &b->err);
	if (!b->code && snapshots(c) != b->snapshots)
		b->code = mu_fail(&b->err, MU_EBUSY, "A snapshot of the log was taken meanwhile: %s is not whole; remove it and try again.", b->dir);
	if (!b->code)
		b->code = note(c, b);
	if (b->code) {
		ctl_req_fail(c, b->req, b->code, b->err.text);
	} else {
		Mu__Reply reply = MU__REPLY__INIT;
		reply.has_pos = 1;
		reply.pos = b->pos;
		reply.text = mu_arena_printf(&b->req->arena, "%s holds what controller %s knew at position %llu, and the log behind it", b->dir, c->opt.name,
					     (unsigned long long)b->pos);
		diag_info("Backup: %s, as %s asked.", reply.text, b->req->author->user ? b->req->author->user : "?");
		ctl_req_answer(c, b->req, &reply);
	}
	free(b);
}

/* Reader thread. */
static void copy_view(struct ctl *c, void *arg)
{
	struct backup *b = arg;
	char path[4096];
	struct view *v = NULL;

	path_in(b, "view", path, sizeof path);
	b->code = view_backup(c->view, path, &b->err);
	if (!b->code)
		b->code = view_open(path, true, &v, &b->err);
	if (!b->code) {
		view_tip(v, &b->chain, &b->digest, &b->time_usec);
		b->pos = view_pos(v);
	}
	view_close(v);
	ctl_post(c, copy_log, b);
}

void ctl_backup(struct ctl *c, struct ctl_req *req)
{
	const char *dir = req->request->control->arg ? req->request->control->arg : "";
	struct backup *b = calloc(1, sizeof *b);

	if (!b)
		abort();
	b->req = req;
	if (*dir != '/' || strlen(dir) > sizeof b->dir - 64)
		b->code = mu_fail(&b->err, MU_EINVAL, "The directory of a backup is given by its whole path.");
	else if (mkdir(dir, 0700))
		b->code = mu_fail(&b->err, MU_EIO, "%s cannot be made: %s. A backup makes its own directory, on the controller's host.", dir, strerror(errno));
	if (b->code) {
		ctl_req_fail(c, req, b->code, b->err.text);
		free(b);
		return;
	}
	(void)snprintf(b->dir, sizeof b->dir, "%s", dir);
	b->snapshots = snapshots(c);
	ctl_read_task(c, copy_view, b);
}
