/* tests/log/wire_help.h: what the tests of wire, auth and stream share. */
#ifndef TESTS_LOG_WIRE_HELP_H
#define TESTS_LOG_WIRE_HELP_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/buf.h"

#define CHECK(x)                                                                              \
	do {                                                                                  \
		if (!(x)) {                                                                   \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #x); \
			exit(1);                                                              \
		}                                                                             \
	} while (0)

static inline struct mu_view view(const char *text)
{
	return (struct mu_view){(const uint8_t *)text, strlen(text)};
}

/* A loopback port that nobody listens on just now. */
static inline unsigned free_port(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&a, len) == 0 &&
	      getsockname(fd, (struct sockaddr *)&a, &len) == 0);
	close(fd);
	return ntohs(a.sin_port);
}

/* FAST, CI or FULL by MUSTER_TEST_SIZE. */
static inline unsigned sized(unsigned fast, unsigned ci, unsigned full)
{
	const char *size = getenv("MUSTER_TEST_SIZE");
	if (size && strcmp(size, "full") == 0)
		return full;
	return size && strcmp(size, "ci") == 0 ? ci : fast;
}

/* The row of tests/sizes called NAME, or DEFAULT when no runner set it. */
static inline unsigned size_row(const char *name, unsigned fallback)
{
	const char *text = getenv(name);
	return text ? (unsigned)strtoul(text, NULL, 10) : fallback;
}

static inline unsigned seed_of_run(void)
{
	const char *text = getenv("MUSTER_TEST_SEED");
	return text ? (unsigned)strtoul(text, NULL, 10) : 1;
}

#endif
