/* log/replica_backup.c: a copy of a replica's directory while it is in use, as a power cut would leave it. The caller is the
 * thread that runs the replica's loop, so that nothing new is written meanwhile; what the engine's own threads rename or
 * remove under our hands shows as a file that is gone, and the copy is begun again. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log/replica.h"

enum { TRIES = 8, CHUNK = 1 << 20, NAME_ROOM = 4096 };

static int copy_bytes(int in, int out)
{
	static const size_t chunk = CHUNK;
	char *bytes = malloc(chunk);
	ssize_t n = -1;
	int rv = 0;

	if (!bytes)
		abort();
	while (!rv && (n = read(in, bytes, chunk)) > 0)
		for (ssize_t at = 0, put; at < n && !rv; at += put) {
			put = write(out, bytes + at, (size_t)(n - at));
			if (put <= 0) {
				rv = MU_EIO;
				break;
			}
		}
	free(bytes);
	return rv || n < 0 || fsync(out) ? MU_EIO : 0;
}

/* MU_ENOENT: it is gone. Closed segments never change again: where the disk is the same one, a link is as good. */
static int copy_file(const char *from, const char *to, const char *name, struct mu_err *err)
{
	char source[NAME_ROOM], target[NAME_ROOM];
	int in, out, rv;

	(void)snprintf(source, sizeof source, "%s/%s", from, name);
	(void)snprintf(target, sizeof target, "%s/%s", to, name);
	if (name[0] >= '0' && name[0] <= '9' && link(source, target) == 0)
		return 0;
	in = open(source, O_RDONLY | O_CLOEXEC);
	if (in < 0)
		return errno == ENOENT ? MU_ENOENT : mu_fail(err, MU_EIO, "%s: %s", source, strerror(errno));
	out = open(target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	rv = out < 0 ? MU_EIO : copy_bytes(in, out);
	if (rv)
		mu_fail(err, rv, "%s cannot be written: %s", target, strerror(errno));
	if (out >= 0)
		close(out);
	close(in);
	return rv;
}

static bool is_plain(const char *name)
{
	return name[0] != '.' && strcmp(name, "lock") && strcmp(name, "raft") && !strstr(name, ".tmp");
}

static void empty_dir(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.')
			(void)unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
}

static int copy_dir(const char *from, const char *to, struct mu_err *err)
{
	int rv = MU_ENOENT;

	for (int i = 0; i < TRIES && rv == MU_ENOENT; i++) {
		DIR *d = opendir(from);
		struct dirent *e;

		if (!d)
			return mu_fail(err, MU_EIO, "%s: %s", from, strerror(errno));
		empty_dir(to);
		rv = 0;
		while (!rv && (e = readdir(d)))
			if (is_plain(e->d_name))
				rv = copy_file(from, to, e->d_name, err);
		closedir(d);
	}
	return rv == MU_ENOENT ? mu_fail(err, MU_EBUSY, "The files of %s do not come to rest; try again", from) : rv;
}

int log_replica_backup(const char *dir, const char *to, struct mu_err *err)
{
	char from[NAME_ROOM], below[NAME_ROOM];

	(void)snprintf(from, sizeof from, "%s/raft", dir);
	(void)snprintf(below, sizeof below, "%s/raft", to);
	if (mkdir(to, 0700) || mkdir(below, 0700))
		return mu_fail(err, MU_EIO, "%s: %s", to, strerror(errno));
	int rv = copy_dir(dir, to, err);
	return rv ? rv : copy_dir(from, below, err);
}
