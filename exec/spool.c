/* exec/spool.c: atomic small files and the two clocks. */
#include "exec/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

int exe_spool_write(int dir, const char *name, const void *data, size_t len, mode_t mode, bool sync,
		    struct mu_err *err)
{
	char beside[280];
	snprintf(beside, sizeof beside, "%s.new", name);
	MU_CLEANUP(close_fd)
	int fd = openat(dir, beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0)
		return mu_fail(err, MU_EIO, "spool file %s: %s", beside, strerror(errno));
	for (size_t done = 0; done < len;) {
		ssize_t n = write(fd, (const char *)data + done, len - done);
		if (n < 0 && errno != EINTR)
			return mu_fail(err, MU_EIO, "spool file %s: %s", beside, strerror(errno));
		done += n > 0 ? (size_t)n : 0;
	}
	if (sync && fdatasync(fd))
		return mu_fail(err, MU_EIO, "spool file %s: %s", beside, strerror(errno));
	if (renameat(dir, beside, dir, name))
		return mu_fail(err, MU_EIO, "spool file %s: %s", name, strerror(errno));
	if (sync && fsync(dir))
		return mu_fail(err, MU_EIO, "spool folder of %s: %s", name, strerror(errno));
	return 0;
}

int exe_spool_write_pb(int dir, const char *name, const ProtobufCMessage *message, bool sync,
		       struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf b = {0};
	mu_pb_pack(message, &b);
	return exe_spool_write(dir, name, b.data, b.len, 0600, sync, err);
}

int exe_spool_read(int dir, const char *name, struct mu_buf *out, struct mu_err *err)
{
	MU_CLEANUP(close_fd) int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	if (fd < 0 || fstat(fd, &st))
		return mu_fail(err, errno == ENOENT ? MU_ENOENT : MU_EIO, "spool file %s: %s", name,
			       strerror(errno));
	if (st.st_size > EXE_SPOOL_FILE_MAX)
		return mu_fail(err, MU_ELIMIT, "spool file %s is larger than %d bytes", name,
			       EXE_SPOOL_FILE_MAX);
	mu_buf_add(out, "", 0);
	for (;;) {
		uint8_t chunk[16384];
		ssize_t n = read(fd, chunk, sizeof chunk);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return mu_fail(err, MU_EIO, "spool file %s: %s", name, strerror(errno));
		if (n == 0)
			return 0;
		mu_buf_add(out, chunk, (size_t)n);
	}
}

int exe_spool_read_pb(int dir, const char *name, const ProtobufCMessageDescriptor *type,
		      struct mu_arena *arena, ProtobufCMessage **ret, struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf b = {0};
	int code = exe_spool_read(dir, name, &b, err);
	if (code)
		return code;
	ProtobufCMessage *m = mu_pb_unpack(type, b.data, b.len, arena);
	if (!m)
		return mu_fail(err, MU_ECORRUPT, "spool file %s does not hold a %s", name, type->short_name);
	*ret = m;
	return 0;
}

int exe_spool_remove(int dir, const char *name, struct mu_err *err)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	if (!d) {
		if (fd >= 0)
			close(fd);
		return errno == ENOENT ? 0
				       : mu_fail(err, MU_EIO, "spool folder %s: %s", name, strerror(errno));
	}
	for (struct dirent *e; (e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			unlinkat(fd, e->d_name, 0);
	closedir(d);
	if (unlinkat(dir, name, AT_REMOVEDIR) && errno != ENOENT)
		return mu_fail(err, MU_EIO, "spool folder %s: %s", name, strerror(errno));
	return 0;
}

static int64_t clock_usec(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}
int64_t exe_boot_usec(void)
{
	return clock_usec(CLOCK_BOOTTIME);
}
int64_t exe_wall_usec(void)
{
	return clock_usec(CLOCK_REALTIME);
}
