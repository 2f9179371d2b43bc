/* ctld/disk.c: room on the disk that holds log and view. Below the mark new submissions are refused by name; a reserve file gives
 * ends and cancels their last room. */
#include "log/ctld/ctld.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "log/diag.h"

enum { DISK_EVERY_MSEC = 1000 };
#define DISK_LOW_BYTES (1ull << 30)
#define DISK_RESERVE_BYTES (32ull << 20)

static void reserve_path(const struct ctl *c, char *out, size_t cap)
{
	(void)snprintf(out, cap, "%s/reserve", c->state_dir);
}

void ctl_disk_reserve(struct ctl *c)
{
	char path[512];
	int fd;

	reserve_path(c, path, sizeof path);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (posix_fallocate(fd, 0, DISK_RESERVE_BYTES))
		(void)unlink(path);
	close(fd);
}

void ctl_disk_housekeeping(struct ctl *c)
{
	struct statvfs fs;
	uint64_t free_bytes, mark;
	char path[512];
	bool low;

	if (ctl_mono_msec() - c->disk_checked_msec < DISK_EVERY_MSEC)
		return;
	c->disk_checked_msec = ctl_mono_msec();
	if (statvfs(c->state_dir, &fs))
		return;
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	mark = (uint64_t)fs.f_blocks * fs.f_frsize / 20;
	if (mark > DISK_LOW_BYTES)
		mark = DISK_LOW_BYTES;
	low = c->disk_low ? free_bytes < mark + mark / 4 : free_bytes < mark;
	reserve_path(c, path, sizeof path);
	if (low && !c->disk_low) {
		diag_error("The disk of %s has %llu MiB free, less than %llu MiB: new submissions are refused until there is room.",
			   c->state_dir, (unsigned long long)(free_bytes >> 20), (unsigned long long)(mark >> 20));
		(void)unlink(path);
	} else if (!low && c->disk_low) {
		diag_info("The disk of %s has room again: submissions are taken.", c->state_dir);
		ctl_disk_reserve(c);
	}
	c->disk_low = low;
}
