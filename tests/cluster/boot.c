/* tests/cluster/boot.c: another boot, for one process. Preloaded; whoever opens the kernel's boot id gets the file named by
 * MUSTER_BOOT_ID instead, so that a node's power can be cut on a host that goes on. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE *open_by(const char *name, const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *) = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, name);
	const char *other = getenv("MUSTER_BOOT_ID");

	return real(other && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0 ? other : path, mode);
}

/* By their names in the library: the compiler would make one of the two. */
FILE *boot_fopen(const char *path, const char *mode) __asm__("fopen");
FILE *boot_fopen64(const char *path, const char *mode) __asm__("fopen64");

FILE *boot_fopen(const char *path, const char *mode)
{
	return open_by("fopen", path, mode);
}

FILE *boot_fopen64(const char *path, const char *mode)
{
	return open_by("fopen64", path, mode);
}
