/* tests/log/wire_nng.c: the wire speaks the framing of nng's REQ and REP: each half talks to nng's other
 * half. */
#include <nng/nng.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>
#include <pthread.h>

#include "log/wire.h"
#include "tests/log/wire_help.h"

enum { SIZES = 4 };
static const size_t sizes[SIZES] = {0, 1, 5000, 1000000};
static char dir[] = "/tmp/mu-nng-XXXXXX";

static void echo(void *arg, struct wire_call *call, const struct wire_peer *peer, struct mu_view request)
{
	wire_reply(call, request);
}

static void *echo_nng(void *arg)
{
	nng_socket s = *(nng_socket *)arg;
	nng_msg *m;
	for (int i = 0; i < SIZES; i++)
		CHECK(nng_recvmsg(s, &m, 0) == 0 && nng_sendmsg(s, m, 0) == 0);
	return NULL;
}

/* nng asks us. */
static void serve_nng(const char *url)
{
	struct wire_server *server = NULL;
	nng_socket s;
	CHECK(wire_server_open(&url, 1, 16, view("busy"), echo, NULL, &server, NULL) == 0);
	CHECK(nng_req0_open(&s) == 0 && nng_socket_set_ms(s, NNG_OPT_RECVTIMEO, 20000) == 0 &&
	      nng_dial(s, url, NULL, 0) == 0);
	for (int i = 0; i < SIZES; i++) {
		nng_msg *m;
		CHECK(nng_msg_alloc(&m, sizes[i]) == 0);
		memset(nng_msg_body(m), 'a' + i, sizes[i]);
		CHECK(nng_sendmsg(s, m, 0) == 0 && nng_recvmsg(s, &m, 0) == 0 && nng_msg_len(m) == sizes[i]);
		CHECK(sizes[i] == 0 || ((char *)nng_msg_body(m))[sizes[i] - 1] == 'a' + i);
		nng_msg_free(m);
	}
	nng_close(s);
	wire_server_close(server);
}

/* We ask nng. */
static void ask_nng(const char *url)
{
	nng_socket s;
	pthread_t thread;
	struct mu_buf in = {0}, out = {0};
	CHECK(nng_rep0_open(&s) == 0 && nng_listen(s, url, NULL, 0) == 0);
	CHECK(pthread_create(&thread, NULL, echo_nng, &s) == 0);
	struct wire_client *c = wire_client_new(&url, 1);
	for (int i = 0; i < SIZES; i++) {
		mu_buf_reset(&in);
		mu_buf_reset(&out);
		memset(mu_buf_grow(&in, sizes[i]), 'a' + i, sizes[i]);
		CHECK(wire_request(c, (struct mu_view){in.data, in.len}, 20000, &out, NULL) == 0);
		CHECK(out.len == sizes[i] && (sizes[i] == 0 || memcmp(out.data, in.data, in.len) == 0));
	}
	pthread_join(thread, NULL);
	wire_client_free(c);
	nng_close(s);
	mu_buf_free(&in);
	mu_buf_free(&out);
}

int main(void)
{
	char local[128], remote[64];
	CHECK(mkdtemp(dir) != NULL);
	snprintf(local, sizeof local, "ipc://%s/s", dir);
	snprintf(remote, sizeof remote, "tcp://127.0.0.1:%u", free_port());
	serve_nng(local);
	serve_nng(remote);
	ask_nng(local);
	ask_nng(remote);
	unlink(local + 6);
	CHECK(rmdir(dir) == 0);
	return 0;
}
