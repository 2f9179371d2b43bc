/* tests/cluster/skew.c: a clock that is wrong, for one process. Preloaded; adds to the wall clock the microseconds that stand, as one
 * int64, in the file named by MUSTER_SKEW: the test writes another number there and the clock jumps. The monotonic clock is left alone. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *skew_usec;
static int (*real_clock_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void skew_open(void)
{
	const char *path = getenv("MUSTER_SKEW");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *page = fd >= 0 ? mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

	if (fd >= 0)
		close(fd);
	if (page != MAP_FAILED)
		skew_usec = page;
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	if (!real_clock_gettime)
		real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	int code = real_clock_gettime(clock, ret);
	if (code || !skew_usec || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
		return code;
	int64_t usec = (int64_t)ret->tv_sec * 1000000 + ret->tv_nsec / 1000 + *skew_usec;
	ret->tv_sec = usec / 1000000;
	ret->tv_nsec = usec % 1000000 * 1000 + ret->tv_nsec % 1000;
	return 0;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	ret->tv_sec = now.tv_sec;
	ret->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *ret)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (ret)
		*ret = now.tv_sec;
	return now.tv_sec;
}
