/* tests/bench/agents.c: many simulated nodes in one process, each with a key and a TCP connection of its own, that speak the wire
 * as the agent does: they register, poll for orders, end at once whatever they are told to run, and report it. So one machine shows
 * thousands of nodes against real controllers. Prints what it saw once a second, and a summary.
 *
 *     agents FILE [--nodes N] [--seconds N] [--enroll] [--start-rate N]
 *
 * Nodes and controllers are those of the configuration FILE. --enroll first enrols the nodes' keys (as root, over the first
 * controller's Unix socket). The process ends after --seconds; with --seconds 0 when all nodes have registered. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log/auth.h"
#include "log/clock.h"
#include "log/wire.h"
#include "proto/base/map.h"
#include "proto/conf.h"
#include "proto/pb.h"
#include "proto/states.h"
#include "proto/wire.pb-c.h"

enum { DONE = 64, CONTROLLERS = 8, ENROLLERS = 16, REPORT_MAX = 64, POLL_MSEC = 10000, ANSWER_MSEC = 30000, BACK_OFF_MSEC = 1000 };
enum kind { NOTHING, CONNECTING, REGISTERING, POLLING, REPORTING, KINDS };

struct agent {
	const Mu__NodeConf *conf;
	uint8_t secret[64], public_key[32];
	int fd;
	unsigned at; /* controller */
	enum kind doing;
	bool registered, register_wanted, greeted;
	int64_t asked_usec, not_before_usec;
	struct auth_sent sent;
	uint8_t digest[MU_HASH_BYTES];
	bool has_digest;
	uint64_t pos, register_pos;
	uint64_t done[DONE];
	unsigned dones;
	Mu__AttemptEnded report[REPORT_MAX];
	unsigned reports;
	struct mu_buf in, out;
	size_t out_at;
};

static struct bench {
	struct agent *agent;
	size_t agents;
	const Mu__Config *conf;
	struct mu_arena arena;
	struct sockaddr_in controller[CONTROLLERS];
	size_t controllers;
	struct auth_keys keys;
	int epoll;
	int64_t start_usec;
	/* counters */
	uint64_t answers[KINDS], ended, refused, broken, timeouts, bytes_in;
	int64_t worst_usec[KINDS], registered_usec;
	size_t registered;
	char last_error[256];
} b;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "agents: %s: %s\n", what, why);
	exit(1);
}

/* ---- the configuration ---- */
static char *slurp(const char *path)
{
	FILE *f = fopen(path, "re");
	struct mu_buf text = {0};
	char page[65536];
	size_t n;

	if (!f)
		die(path, strerror(errno));
	while ((n = fread(page, 1, sizeof page, f)) > 0)
		mu_buf_add(&text, page, n);
	fclose(f);
	mu_buf_add(&text, "", 1);
	return (char *)text.data;
}

static int companion(void *arg, const char *name, struct mu_arena *arena, const char **ret_text, struct mu_err *err)
{
	const char *slash = strrchr(arg, '/');
	char *path = mu_arena_printf(arena, "%.*s/%s", slash ? (int)(slash - (const char *)arg) : 1, slash ? (const char *)arg : ".", name);

	if (access(path, R_OK))
		return MU_ENOENT;
	*ret_text = slurp(path);
	return 0;
}

static void load(const char *path, size_t limit)
{
	struct mu_err err = {0};
	Mu__Config *conf;
	char key[4096];

	if (mu_conf_parse(path, slurp(path), companion, NULL, (void *)path, &b.arena, &conf, &err))
		die(path, err.text);
	b.conf = conf;
	(void)snprintf(key, sizeof key, "%s/cluster.pub", mu_conf_get(conf, "MusterKeyDir", "/etc/muster/keys"));
	if (auth_load_public(key, b.keys.cluster_public, &err))
		die(key, err.text);
	b.keys.has_public = b.keys.has_node = true;
	for (size_t i = 0; i < conf->n_controller && b.controllers < CONTROLLERS; i++) {
		struct sockaddr_in *a = &b.controller[b.controllers];

		a->sin_family = AF_INET;
		a->sin_port = htons((uint16_t)conf->controller[i]->port);
		if (inet_pton(AF_INET, conf->controller[i]->addr, &a->sin_addr) == 1)
			b.controllers++;
	}
	b.agents = conf->n_node < limit ? conf->n_node : limit;
	b.agent = calloc(b.agents, sizeof *b.agent);
	if (!b.agent || !b.controllers)
		die(path, "no controller with an IPv4 address, or no memory");
	for (size_t i = 0; i < b.agents; i++) {
		struct agent *a = &b.agent[i];
		uint8_t seed[32];

		a->conf = conf->node[i];
		a->fd = -1;
		a->at = (unsigned)(i % b.controllers);
		crypto_generichash(seed, sizeof seed, (const uint8_t *)a->conf->name, strlen(a->conf->name), NULL, 0);
		crypto_sign_seed_keypair(a->public_key, a->secret, seed);
	}
}

static void new_id(Mu__Request *r, Mu__RequestId *id, uint8_t nonce[16])
{
	if (getrandom(nonce, 16, 0) != 16)
		die("getrandom", strerror(errno));
	id->has_birth_usec = id->has_nonce = 1;
	id->birth_usec = clock_wall_usec();
	id->nonce = (ProtobufCBinaryData){16, nonce};
	r->id = id;
}

/* ---- enrolment ---- */
static void enroll_one(struct wire_client *client, const struct agent *a)
{
	Mu__Request r = MU__REQUEST__INIT;
	Mu__RequestId id = MU__REQUEST_ID__INIT;
	Mu__EventAsk ask = MU__EVENT_ASK__INIT;
	Mu__Event event = MU__EVENT__INIT;
	Mu__NodeEnrolled enrolled = MU__NODE_ENROLLED__INIT;
	MU_CLEANUP(mu_buf_free) struct mu_buf body = {0}, envelope = {0}, answer = {0};
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	struct mu_err err = {0};
	struct mu_view view;
	uint8_t nonce[16];
	Mu__Reply *reply;

	new_id(&r, &id, nonce);
	enrolled.node = a->conf->name;
	enrolled.has_public_key = 1;
	enrolled.public_key = (ProtobufCBinaryData){32, (uint8_t *)a->public_key};
	event.kind_case = MU__EVENT__KIND_NODE_ENROLLED;
	event.node_enrolled = &enrolled;
	ask.event = &event;
	r.ask_case = MU__REQUEST__ASK_EVENT;
	r.event = &ask;
	mu_pb_pack(&r.base, &body);
	if (auth_seal_user(NULL, (struct mu_view){body.data, body.len}, false, &envelope, NULL, &err) ||
	    wire_request(client, (struct mu_view){envelope.data, envelope.len}, ANSWER_MSEC, &answer, &err) ||
	    auth_open_reply(NULL, &(struct auth_sent){0}, (struct mu_view){answer.data, answer.len}, &arena, &view, &err))
		die("enrolling", err.text);
	reply = (Mu__Reply *)mu_pb_unpack(&mu__reply__descriptor, view.data, view.len, &arena);
	if (!reply || (reply->code && reply->code != MU_EEXIST))
		die("enrolling", reply && reply->text ? reply->text : "refused");
}

static void enroll(void)
{
	const char *run = mu_conf_get(b.conf, "MusterRunDir", "/run/muster");
	char *address = mu_arena_printf(&b.arena, "ipc://%s/musterd.%s.sock", run, b.conf->controller[0]->name);
	int64_t began = clock_mono_usec();
	int status, bad = 0;

	for (unsigned k = 0; k < ENROLLERS; k++)
		if (fork() == 0) {
			struct wire_client *client = wire_client_new((const char *const *)&address, 1);

			for (size_t i = k; i < b.agents; i += ENROLLERS)
				enroll_one(client, &b.agent[i]);
			_exit(0);
		}
	while (wait(&status) > 0)
		bad += status != 0;
	if (bad)
		die("enrolling", "not all nodes are enrolled");
	printf("enrolled %zu nodes in %.1f s\n", b.agents, (double)(clock_mono_usec() - began) / 1e6);
}

/* ---- connections ---- */
static void hang_up(struct agent *a, const char *why)
{
	if (a->fd >= 0)
		close(a->fd);
	a->fd = -1;
	a->doing = NOTHING;
	a->greeted = false;
	mu_buf_reset(&a->in);
	mu_buf_reset(&a->out);
	a->out_at = 0;
	a->at = (a->at + 1) % (unsigned)b.controllers;
	a->not_before_usec = clock_mono_usec() + BACK_OFF_MSEC * 1000;
	(void)snprintf(b.last_error, sizeof b.last_error, "%s: %s", a->conf->name, why);
}

static void watch(struct agent *a, int op)
{
	struct epoll_event e = {.events = EPOLLIN | (a->out_at < a->out.len || a->doing == CONNECTING ? EPOLLOUT : 0), .data.ptr = a};

	epoll_ctl(b.epoll, op, a->fd, &e);
}

static void dial(struct agent *a)
{
	static const uint8_t hello[8] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
	int one = 1;

	a->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (a->fd < 0)
		die("socket", strerror(errno));
	setsockopt(a->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (connect(a->fd, (struct sockaddr *)&b.controller[a->at], sizeof b.controller[0]) && errno != EINPROGRESS) {
		b.broken++;
		hang_up(a, strerror(errno));
		return;
	}
	a->doing = CONNECTING;
	a->asked_usec = clock_mono_usec();
	mu_buf_add(&a->out, hello, sizeof hello);
	watch(a, EPOLL_CTL_ADD);
}

static void push(struct agent *a)
{
	while (a->out_at < a->out.len) {
		ssize_t n = send(a->fd, a->out.data + a->out_at, a->out.len - a->out_at, MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			b.broken++;
			hang_up(a, strerror(errno));
			return;
		}
		a->out_at += (size_t)n;
	}
	if (a->out_at == a->out.len) {
		mu_buf_reset(&a->out);
		a->out_at = 0;
	}
	watch(a, EPOLL_CTL_MOD);
}

/* ---- asking ---- */
static void ask(struct agent *a, Mu__Request *r, enum kind kind)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf body = {0}, envelope = {0};
	struct mu_err err = {0};
	uint8_t head[12];

	mu_pb_pack(&r->base, &body);
	memcpy(b.keys.node_secret, a->secret, sizeof a->secret);
	memcpy(b.keys.node_public, a->public_key, sizeof a->public_key);
	if (auth_seal_node(&b.keys, a->conf->name, clock_wall_usec(), (struct mu_view){body.data, body.len}, &envelope, &a->sent, &err))
		die("sealing a request", err.text);
	mu_put_be64(head, envelope.len + 4);
	mu_put_be32(head + 8, 0x80000000u | (uint32_t)kind);
	mu_buf_add(&a->out, head, sizeof head);
	mu_buf_add(&a->out, envelope.data, envelope.len);
	a->doing = kind;
	a->asked_usec = clock_mono_usec();
	push(a);
}

static ProtobufCBinaryData boot_id(const struct agent *a)
{
	return (ProtobufCBinaryData){16, (uint8_t *)a->public_key};
}

static void ask_register(struct agent *a)
{
	Mu__Request r = MU__REQUEST__INIT;
	Mu__RequestId id = MU__REQUEST_ID__INIT;
	Mu__RegisterAsk reg = MU__REGISTER_ASK__INIT;
	Mu__NodeRegistered node = MU__NODE_REGISTERED__INIT;
	Mu__NodeRow row = MU__NODE_ROW__INIT;
	uint8_t nonce[16];

	new_id(&r, &id, nonce);
	row.name = a->conf->name;
	row.has_cpus = row.has_sockets = row.has_cores_per_socket = row.has_threads_per_core = row.has_real_memory_mib = 1;
	row.cpus = a->conf->cpus ? a->conf->cpus : 8;
	row.sockets = row.threads_per_core = 1;
	row.cores_per_socket = row.cpus;
	row.real_memory_mib = a->conf->real_memory_mib ? a->conf->real_memory_mib : 16384;
	row.arch = (char *)"x86_64";
	row.os = (char *)"Linux";
	row.version = (char *)"24.05.0";
	row.has_boot_id = row.has_boot_usec = row.has_agent_start_usec = row.has_port = 1;
	row.boot_id = boot_id(a);
	row.boot_usec = row.agent_start_usec = b.start_usec;
	row.addr = a->conf->addr;
	row.port = a->conf->port;
	node.inventory = &row;
	reg.node = &node;
	r.ask_case = MU__REQUEST__ASK_REGISTER;
	r.register_ = &reg;
	ask(a, &r, REGISTERING);
}

static void ask_poll(struct agent *a)
{
	Mu__Request r = MU__REQUEST__INIT;
	Mu__PollAsk p = MU__POLL_ASK__INIT;
	Mu__NodeBeat beat = MU__NODE_BEAT__INIT;

	p.node = beat.node = a->conf->name;
	beat.has_load_centi = beat.has_free_mem_mib = 1;
	beat.load_centi = (uint32_t)(clock_mono_usec() / 1000000 % 40);
	beat.free_mem_mib = 12000;
	p.beat = &beat;
	p.has_boot_id = p.has_wait_msec = p.has_agent_start_usec = p.has_base_pos = 1;
	p.boot_id = boot_id(a);
	p.base_pos = a->pos;
	p.has_base_digest = a->has_digest;
	p.base_digest = (ProtobufCBinaryData){sizeof a->digest, a->digest};
	p.agent_start_usec = b.start_usec;
	p.wait_msec = POLL_MSEC;
	r.ask_case = MU__REQUEST__ASK_POLL;
	r.poll = &p;
	ask(a, &r, POLLING);
}

static void ask_report(struct agent *a)
{
	Mu__Request r = MU__REQUEST__INIT;
	Mu__RequestId id = MU__REQUEST_ID__INIT;
	Mu__ReportAsk report = MU__REPORT_ASK__INIT;
	Mu__AttemptEnded *list[REPORT_MAX];
	uint8_t nonce[16];

	new_id(&r, &id, nonce);
	for (unsigned i = 0; i < a->reports; i++)
		list[i] = &a->report[i];
	report.ended = list;
	report.n_ended = a->reports;
	r.ask_case = MU__REQUEST__ASK_REPORT;
	r.report = &report;
	ask(a, &r, REPORTING);
}

static void go_on(struct agent *a)
{
	if (a->reports)
		ask_report(a);
	else if (a->register_wanted)
		ask_register(a);
	else
		ask_poll(a);
}

/* ---- answers ---- */
static bool is_done(const struct agent *a, uint64_t which)
{
	for (unsigned i = 0; i < DONE; i++)
		if (a->done[i] == which)
			return true;
	return false;
}

static void obey(struct agent *a, const Mu__OrderSet *set)
{
	for (size_t i = 0; i < set->n_attempt && a->reports < REPORT_MAX; i++) {
		const Mu__AttemptOrder *o = set->attempt[i];
		Mu__AttemptEnded *e = &a->report[a->reports];

		if (is_done(a, (uint64_t)o->job << 32 | o->attempt))
			continue;
		mu__attempt_ended__init(e);
		e->has_job = e->has_attempt = e->has_batch = e->has_exit_code = e->has_cause = e->has_released = 1;
		e->job = o->job;
		e->attempt = o->attempt;
		e->node = a->conf->name;
		e->batch = o->batch_host;
		e->cause = o->phase == MU__PHASE__PHASE_END ? o->end_cause : END_NONE;
		e->released = 1;
		a->reports++;
	}
}

static void take_orders(struct agent *a, const Mu__OrderSet *set)
{
	if (set->register_ && (!set->has_pos || set->pos >= a->register_pos))
		a->register_wanted = true;
	if (set->unchanged || !set->has_pos)
		return;
	a->pos = set->pos;
	a->has_digest = set->digest.len == sizeof a->digest;
	if (a->has_digest)
		memcpy(a->digest, set->digest.data, sizeof a->digest);
	obey(a, set);
}

static void refused(struct agent *a, const Mu__Reply *reply)
{
	b.refused++;
	(void)snprintf(b.last_error, sizeof b.last_error, "%s: %s", a->conf->name,
		       reply->text && *reply->text ? reply->text : mu_strerror(reply->code));
	a->doing = NOTHING;
	a->not_before_usec = clock_mono_usec() + BACK_OFF_MSEC * 1000;
}

static void take(struct agent *a, struct mu_view envelope)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	struct mu_err err = {0};
	struct mu_view body;
	Mu__Reply *reply;
	enum kind kind = a->doing;
	int64_t span = clock_mono_usec() - a->asked_usec;

	if (auth_open_reply(&b.keys, &a->sent, envelope, &arena, &body, &err) ||
	    !(reply = (Mu__Reply *)mu_pb_unpack(&mu__reply__descriptor, body.data, body.len, &arena))) {
		b.refused++;
		hang_up(a, err.text);
		return;
	}
	b.answers[kind]++;
	if (kind != POLLING && span > b.worst_usec[kind])
		b.worst_usec[kind] = span;
	if (reply->code) {
		refused(a, reply);
		return;
	}
	if (kind == REGISTERING) {
		b.registered += !a->registered;
		b.registered_usec = clock_mono_usec();
		a->registered = true;
		a->register_wanted = false;
		a->register_pos = reply->pos;
	} else if (kind == REPORTING) {
		for (unsigned i = 0; i < a->reports; i++)
			a->done[a->dones++ % DONE] = (uint64_t)a->report[i].job << 32 | a->report[i].attempt;
		b.ended += a->reports;
		a->reports = 0;
	} else if (reply->answer_case == MU__REPLY__ANSWER_ORDERS) {
		take_orders(a, reply->orders);
	}
	go_on(a);
}

static void pull(struct agent *a)
{
	uint8_t page[65536];
	ssize_t n;

	while (a->fd >= 0 && (n = recv(a->fd, page, sizeof page, 0)) != 0) {
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			break;
		b.bytes_in += (uint64_t)n;
		mu_buf_add(&a->in, page, (size_t)n);
		if (!a->greeted && a->in.len >= 8) {
			a->greeted = true;
			a->in.len -= 8;
			memmove(a->in.data, a->in.data + 8, a->in.len);
		}
		if (a->greeted && a->in.len >= 12 && a->in.len >= 8 + mu_get_be64(a->in.data)) {
			MU_CLEANUP(mu_buf_free) struct mu_buf whole = a->in;

			a->in = (struct mu_buf){0}; /* one request, one answer: nothing follows */
			take(a, (struct mu_view){whole.data + 12, whole.len - 12});
		}
	}
	if (a->fd >= 0) {
		b.broken++;
		hang_up(a, n ? strerror(errno) : "closed by the controller");
	}
}

static void on_event(struct agent *a, uint32_t events)
{
	if (a->doing == CONNECTING && events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) {
		int code = 0;
		socklen_t len = sizeof code;

		getsockopt(a->fd, SOL_SOCKET, SO_ERROR, &code, &len);
		if (code) {
			b.broken++;
			hang_up(a, strerror(code));
			return;
		}
		a->register_wanted = !a->registered;
		go_on(a);
	} else if (a->out_at < a->out.len) {
		push(a);
	}
	if (a->fd >= 0 && events & (EPOLLIN | EPOLLERR | EPOLLHUP))
		pull(a);
}

/* ---- time ---- */
static void sweep(size_t rate)
{
	int64_t now = clock_mono_usec();
	size_t begun = 0;

	for (size_t i = 0; i < b.agents; i++) {
		struct agent *a = &b.agent[i];

		if (a->doing == NOTHING && now >= a->not_before_usec && begun < rate) {
			begun++;
			if (a->fd >= 0)
				go_on(a);
			else
				dial(a);
		} else if (a->doing != NOTHING && now - a->asked_usec > ANSWER_MSEC * 1000) {
			b.timeouts++;
			hang_up(a, "no answer in 30 s");
		}
	}
}

static void print(double seconds)
{
	static uint64_t polls, ended;

	printf("%6.1f s: %zu registered, %llu polls, %llu ended (%llu in all), %llu refused, %llu broken, %llu timed out; worst ms: register %.0f, report %.0f%s%s\n",
	       seconds, b.registered, (unsigned long long)(b.answers[POLLING] - polls), (unsigned long long)(b.ended - ended),
	       (unsigned long long)b.ended, (unsigned long long)b.refused, (unsigned long long)b.broken, (unsigned long long)b.timeouts,
	       (double)b.worst_usec[REGISTERING] / 1e3, (double)b.worst_usec[REPORTING] / 1e3, b.last_error[0] ? "; " : "", b.last_error);
	fflush(stdout);
	polls = b.answers[POLLING];
	ended = b.ended;
	b.worst_usec[REPORTING] = 0;
	b.last_error[0] = 0;
}

static void loop(double seconds, size_t rate)
{
	struct epoll_event event[256];
	int64_t began = clock_mono_usec(), swept = 0, printed = began;

	while (seconds > 0 ? clock_mono_usec() - began < (int64_t)(seconds * 1e6) : b.registered < b.agents) {
		int n = epoll_wait(b.epoll, event, 256, 20);

		for (int i = 0; i < n; i++)
			on_event(event[i].data.ptr, event[i].events);
		if (clock_mono_usec() - swept > 50000) {
			swept = clock_mono_usec();
			sweep(rate / 20 + 1);
		}
		if (clock_mono_usec() - printed > 1000000) {
			printed = clock_mono_usec();
			print((double)(printed - began) / 1e6);
		}
	}
	print((double)(clock_mono_usec() - began) / 1e6);
	if (b.registered == b.agents)
		printf("all %zu nodes registered within %.1f s\n", b.agents, (double)(b.registered_usec - began) / 1e6);
}

int main(int argc, char **argv)
{
	struct rlimit files;
	size_t nodes = SIZE_MAX, rate = 1000000;
	double seconds = 0;
	bool enrolling = false;

	if (argc < 2 || argv[1][0] == '-')
		die("usage", "agents FILE [--nodes N] [--seconds N] [--enroll] [--start-rate N]");
	for (int i = 2; i < argc; i++) {
		if (strcmp(argv[i], "--enroll") == 0)
			enrolling = true;
		else if (strcmp(argv[i], "--nodes") == 0 && i + 1 < argc)
			nodes = strtoul(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc)
			seconds = strtod(argv[++i], NULL);
		else if (strcmp(argv[i], "--start-rate") == 0 && i + 1 < argc)
			rate = strtoul(argv[++i], NULL, 10);
		else
			die("unknown word", argv[i]);
	}
	sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
	if (sodium_init() < 0)
		die("libsodium", "cannot start");
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	load(argv[1], nodes);
	b.start_usec = clock_wall_usec();
	b.epoll = epoll_create1(EPOLL_CLOEXEC);
	if (enrolling)
		enroll();
	loop(seconds, rate);
	return b.registered == b.agents ? 0 : 1;
}
