/* tests/log/wire_stress.c: many clients, answers from other threads, clients that leave, servers that close
 * under load. Built plain and with the thread sanitizer. Every reply must be the one to its own request. */
#include <pthread.h>
#include <stdatomic.h>

#include "log/clock.h"
#include "log/wire.h"
#include "proto/base/seed.h"
#include "tests/log/wire_help.h"

enum { CLIENTS = 12, ANSWERERS = 3, QUEUE = 256 };

static char dir[] = "/tmp/mu-stress-XXXXXX";
static char unix_url[128], tcp_url[64];
static atomic_bool stop_clients, stop_answerers;
static atomic_ulong answered, busy, failed;

static struct {
	struct wire_call *call;
	char text[64];
} queue[QUEUE];
static unsigned queued;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* "NUMBER inline|later|large ..." */
static void on_request(void *arg, struct wire_call *call, const struct wire_peer *peer,
		       struct mu_view request)
{
	static char big[300000];
	unsigned long number = strtoul((const char *)request.data, NULL, 10);
	if (request.len > 20 && strstr((const char *)request.data, "later")) {
		pthread_mutex_lock(&lock);
		CHECK(queued < QUEUE);
		queue[queued].call = call;
		snprintf(queue[queued].text, sizeof queue[queued].text, "%lu", number);
		queued++;
		pthread_mutex_unlock(&lock);
		return;
	}
	struct mu_buf out = {0};
	mu_buf_printf(&out, "%lu", number);
	if (strstr((const char *)request.data, "large"))
		mu_buf_add(&out, big, sizeof big);
	wire_reply(call, (struct mu_view){out.data, out.len});
	mu_buf_free(&out);
	CHECK(strtoul((const char *)request.data, NULL, 10) == number);
}

static void *answer(void *arg)
{
	struct mu_seed seed;
	mu_seed_init(&seed, (uint64_t)(uintptr_t)arg + seed_of_run());
	for (;;) {
		struct wire_call *call = NULL;
		char text[64];
		pthread_mutex_lock(&lock);
		if (queued > 0) {
			unsigned i = mu_seed_below(&seed, queued);
			call = queue[i].call;
			memcpy(text, queue[i].text, sizeof text);
			queue[i] = queue[--queued];
		}
		pthread_mutex_unlock(&lock);
		if (call)
			wire_reply(call, view(text));
		else if (atomic_load(&stop_answerers))
			return NULL;
		else
			clock_sleep_msec(1);
	}
}

static void *ask(void *arg)
{
	static const char *const kinds[] = {"inline is how this is answered",
					    "later by another thread is how",
					    "large is the answer to this one"};
	uint64_t me = (uint64_t)(uintptr_t)arg;
	struct mu_seed seed;
	struct mu_buf in = {0}, out = {0};
	const char *urls[] = {me % 2 ? unix_url : tcp_url};
	struct wire_client *c = wire_client_new(urls, 1);
	mu_seed_init(&seed, me * 7919 + seed_of_run());
	for (unsigned long n = me * 1000000; !atomic_load(&stop_clients); n++) {
		mu_buf_reset(&in);
		mu_buf_reset(&out);
		mu_buf_printf(&in, "%lu %s", n, kinds[mu_seed_below(&seed, 3)]);
		if (mu_seed_below(&seed, 20) == 0)
			memset(mu_buf_grow(&in, 150000), ' ', 150000);
		unsigned patience = mu_seed_below(&seed, 10) == 0 ? 1 : 1500;
		if (mu_seed_below(&seed, 50) == 0)
			wire_client_rotate(c); /* a new connection */
		int code = wire_request(c, (struct mu_view){in.data, in.len}, patience, &out, NULL);
		if (code) {
			atomic_fetch_add(&failed, 1);
			continue;
		}
		bool was_busy = out.len == 4 && memcmp(out.data, "busy", 4) == 0;
		CHECK(was_busy || strtoul((char *)out.data, NULL, 10) == n);
		atomic_fetch_add(was_busy ? &busy : &answered, 1);
	}
	wire_client_free(c);
	mu_buf_free(&in);
	mu_buf_free(&out);
	return NULL;
}

int main(void)
{
	CHECK(mkdtemp(dir) != NULL);
	snprintf(unix_url, sizeof unix_url, "ipc://%s/sock", dir);
	snprintf(tcp_url, sizeof tcp_url, "tcp://127.0.0.1:%u", free_port());
	const char *urls[] = {unix_url, tcp_url};
	pthread_t clients[CLIENTS], answerers[ANSWERERS];
	unsigned rounds = sized(3, 5, 20);
	for (uintptr_t i = 0; i < CLIENTS; i++)
		CHECK(pthread_create(&clients[i], NULL, ask, (void *)(i + 1)) == 0);
	for (uintptr_t i = 0; i < ANSWERERS; i++)
		CHECK(pthread_create(&answerers[i], NULL, answer, (void *)i) == 0);
	for (unsigned i = 0; i < rounds; i++) {
		struct wire_server *s = NULL;
		struct mu_err err = {0};
		unsigned long before = atomic_load(&answered);
		if (wire_server_open(urls, 2, i % 2 ? 4 : 64, view("busy"), on_request, NULL, &s, &err))
			fprintf(stderr, "%s\n", err.text);
		CHECK(s != NULL);
		for (int k = 0; k < 2000 && atomic_load(&answered) < before + 200; k++) {
			struct wire_stats stats;
			wire_server_stats(s, &stats);
			CHECK(stats.waiting <= 64);
			clock_sleep_msec(5);
		}
		CHECK(atomic_load(&answered) > before);
		wire_server_close(s); /* while clients ask and calls wait */
	}
	atomic_store(&stop_clients, true);
	for (int i = 0; i < CLIENTS; i++)
		pthread_join(clients[i], NULL);
	atomic_store(&stop_answerers, true);
	for (int i = 0; i < ANSWERERS; i++)
		pthread_join(answerers[i], NULL);
	CHECK(rmdir(dir) == 0);
	printf("%lu answered, %lu busy, %lu failed\n", atomic_load(&answered), atomic_load(&busy),
	       atomic_load(&failed));
	return 0;
}
