/* tests/exec/check.h: what the plain test programs of this room share. A failed check prints its place and is
 * counted. */
#ifndef TESTS_EXEC_CHECK_H
#define TESTS_EXEC_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_failed, check_passed;

#define CHECK(condition, ...)                                                  \
	do {                                                                   \
		if (condition) {                                               \
			check_passed++;                                        \
		} else {                                                       \
			check_failed++;                                        \
			printf("%s:%d: %s: ", __FILE__, __LINE__, #condition); \
			printf(__VA_ARGS__);                                   \
			printf("\n");                                          \
		}                                                              \
	} while (0)

enum { CHECK_SKIP = 77 };

static inline int check_done(void)
{
	printf("%d passed, %d failed\n", check_passed, check_failed);
	return check_failed ? 1 : 0;
}

/* MUSTER_TEST_SIZE: how often a long loop runs. */
static inline int check_count(int fast, int ci, int full)
{
	const char *size = getenv("MUSTER_TEST_SIZE");
	if (size && strcmp(size, "full") == 0)
		return full;
	return size && strcmp(size, "fast") == 0 ? fast : ci;
}

#endif
