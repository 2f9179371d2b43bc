#include "log/clock.h"

#include <errno.h>
#include <time.h>

static int64_t read_usec(clockid_t id)
{
	struct timespec t;
	clock_gettime(id, &t);
	return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int64_t clock_wall_usec(void)
{
	return read_usec(CLOCK_REALTIME);
}

int64_t clock_mono_usec(void)
{
	return read_usec(CLOCK_MONOTONIC);
}

int clock_left_msec(int64_t deadline_usec)
{
	const int64_t most_msec = 3600 * 1000;
	int64_t left_usec = deadline_usec - clock_mono_usec();
	if (left_usec <= 0)
		return 0;
	return left_usec / 1000 >= most_msec ? (int)most_msec : (int)((left_usec + 999) / 1000);
}

void clock_sleep_msec(unsigned msec)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += msec / 1000;
	t.tv_nsec += (long)(msec % 1000) * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}
