/* log/clock.h: the one place where clocks are read.
 * Times are int64 microseconds. Wall time since 1970 may jump; monotonic time never goes back and counts from
 * an arbitrary start. Both may be called from anywhere, signal handlers included, and do not block. */
#ifndef LOG_CLOCK_H
#define LOG_CLOCK_H

#include <stdint.h>

int64_t clock_wall_usec(void);
int64_t clock_mono_usec(void);
/* Milliseconds from now until the monotonic moment DEADLINE_USEC, rounded up, for poll(2): 0 when it is over,
 * at most an hour. */
int clock_left_msec(int64_t deadline_usec);
/* Sleeps on the monotonic clock, through interruptions by signals. */
void clock_sleep_msec(unsigned msec);

#endif
