/* tests/bench/wire.c: round trips per second through log/wire.h, and what they cost.
 *   bench_wire [SECONDS [BYTES]]: 1 and 16 clients, each on one open connection, and one connection for each
 * request; client and server in one process; CPU is that of both. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "log/clock.h"
#include "log/wire.h"

enum { CLIENTS_MAX = 64 };

static void on_request(void *arg, struct wire_call *call, const struct wire_peer *peer,
		       struct mu_view request)
{
	wire_reply(call, request);
}

struct client {
	pthread_t thread;
	const char *url;
	size_t bytes;
	int64_t until_usec;
	bool anew;
	unsigned long count;
};

static void *ask(void *arg)
{
	struct client *c = arg;
	struct wire_client *w = wire_client_new(&c->url, 1);
	uint8_t *data = calloc(1, c->bytes);
	struct mu_buf out = {0};
	while (clock_mono_usec() < c->until_usec) {
		mu_buf_reset(&out);
		if (wire_request(w, (struct mu_view){data, c->bytes}, 5000, &out, NULL) != 0 ||
		    out.len != c->bytes)
			abort();
		c->count++;
		if (c->anew)
			wire_client_rotate(w);
	}
	wire_client_free(w);
	mu_buf_free(&out);
	free(data);
	return NULL;
}

static double cpu_usec(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e6 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void row(const char *name, const char *url, unsigned clients, double seconds, size_t bytes, bool anew)
{
	struct client c[CLIENTS_MAX];
	double cpu = cpu_usec(), total = 0;
	int64_t until = clock_mono_usec() + (int64_t)(seconds * 1e6);
	for (unsigned i = 0; i < clients; i++) {
		c[i] = (struct client){.url = url, .bytes = bytes, .until_usec = until, .anew = anew};
		pthread_create(&c[i].thread, NULL, ask, &c[i]);
	}
	for (unsigned i = 0; i < clients; i++) {
		pthread_join(c[i].thread, NULL);
		total += (double)c[i].count;
	}
	printf("%-5s %2u clients, %s connection: %8.0f round trips/s, mean %6.1f us, CPU %5.1f us each\n",
	       name, clients, anew ? "new " : "open", total / seconds, seconds * 1e6 * clients / total,
	       (cpu_usec() - cpu) / total);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
	size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) : 256;
	char path[64], tcp[64];
	snprintf(path, sizeof path, "ipc:///tmp/mu-bench-wire.%d", (int)getpid());
	snprintf(tcp, sizeof tcp, "tcp://127.0.0.1:%d", 20000 + (int)getpid() % 20000);
	const char *urls[] = {path, tcp};
	struct wire_server *s = NULL;
	struct mu_err err = {0};
	if (wire_server_open(urls, 2, 4096, (struct mu_view){0}, on_request, NULL, &s, &err) != 0) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	for (int u = 0; u < 2; u++) {
		row(u ? "TCP" : "Unix", urls[u], 1, seconds, bytes, false);
		row(u ? "TCP" : "Unix", urls[u], 16, seconds, bytes, false);
		row(u ? "TCP" : "Unix", urls[u], 16, seconds, bytes, true);
	}
	wire_server_close(s);
	return 0;
}
