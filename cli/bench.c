/* cli/bench.c: muster bench submit: how many submissions a second a cluster takes through connections that
 * stay open. Each client is a process with one connection; the jobs are held, so that nothing but submission
 * is measured. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/muster.h"
#include "cli/option.h"
#include "proto/base/hash.h"

enum { CLIENTS_MAX = 1024, JOBS_MAX = 10000000, KEPT_MAX = 1 << 20 };

struct bench {
	struct cli *cli;
	unsigned clients;
	uint64_t jobs;
	bool run; /* not held */
	const char *partition;
};

/* What one client reports over its pipe, followed by its latencies in microseconds. */
struct report {
	uint64_t done, refused;
	uint64_t count;
};

static int64_t mono_usec(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static int submit_one(const struct bench *b, struct cli *c, Mu__JobSpec *spec, Mu__Blob **blobs)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__SubmitAsk ask = MU__SUBMIT_ASK__INIT;
	struct mu_err err = {0};

	ask.spec = spec;
	ask.blob = blobs;
	ask.n_blob = 2;
	request.ask_case = MU__REQUEST__ASK_SUBMIT;
	request.submit = &ask;
	return cli_ask_done(c, &request, NULL, &err) ? (cli_error(b->cli, "%s", err.text), 1) : 0;
}

static void write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = write(fd, p, len);

		if (n <= 0)
			return;
		p += n;
		len -= (size_t)n;
	}
}

static void client(const struct bench *b, unsigned index, int go, int out)
{
	static const char script[] = "#!/bin/sh\nexit 0\n", env[] = "PATH=/usr/bin:/bin";
	struct cli c = {.name = b->cli->name, .command = b->cli->command};
	Mu__JobSpec spec = MU__JOB_SPEC__INIT;
	Mu__Blob script_blob = MU__BLOB__INIT, env_blob = MU__BLOB__INIT,
		 *blobs[] = {&script_blob, &env_blob};
	struct mu_hash script_hash, env_hash;
	struct report report = {0};
	struct mu_arena page = {0}, keep;
	uint64_t mine = b->jobs / b->clients + (index < b->jobs % b->clients);
	uint32_t *latency = calloc(mine < KEPT_MAX ? mine + 1 : KEPT_MAX, sizeof *latency);
	char cwd[4096], word;
	char *partition[] = {(char *)b->partition};
	struct mu_err err = {0};

	mu_hash_bytes(script, sizeof script - 1, &script_hash);
	mu_hash_bytes(env, sizeof env, &env_hash);
	script_blob = (Mu__Blob){script_blob.base,
				 1,
				 {sizeof script_hash.b, script_hash.b},
				 1,
				 {sizeof script - 1, (uint8_t *)script}};
	env_blob =
	    (Mu__Blob){env_blob.base, 1, {sizeof env_hash.b, env_hash.b}, 1, {sizeof env, (uint8_t *)env}};
	spec.name = (char *)"bench";
	spec.has_batch = spec.batch = spec.has_script_hash = spec.has_env_hash = 1;
	spec.script_hash = script_blob.hash;
	spec.env_hash = env_blob.hash;
	spec.has_hold = spec.hold = !b->run;
	spec.has_time_limit_sec = spec.has_work_dir = spec.has_std_out = 1;
	spec.time_limit_sec = 60;
	spec.work_dir = (ProtobufCBinaryData){strlen(getcwd(cwd, sizeof cwd) ? cwd : "/"), (uint8_t *)cwd};
	spec.std_out = (ProtobufCBinaryData){9, (uint8_t *)"/dev/null"};
	if (b->partition) {
		spec.partition = partition;
		spec.n_partition = 1;
	}
	if (!latency || cli_open(&c, &err) || read(go, &word, 1) != 1)
		_exit(1);
	keep = c.arena;
	for (uint64_t i = 0; i < mine; i++) {
		int64_t begin = mono_usec();

		c.arena = page;
		if (submit_one(b, &c, &spec, blobs))
			report.refused++;
		else
			report.done++;
		page = c.arena;
		mu_arena_reset(&page);
		if (report.count < KEPT_MAX)
			latency[report.count++] = (uint32_t)(mono_usec() - begin);
		if (report.refused > 100)
			break;
	}
	c.arena = keep;
	write_all(out, &report, sizeof report);
	write_all(out, latency, report.count * sizeof *latency);
	_exit(0);
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

static bool read_all(int fd, void *data, size_t len)
{
	char *p = data;

	while (len) {
		ssize_t n = read(fd, p, len);

		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

static void print(const struct report *sum, const uint32_t *latency, int64_t usec, bool json)
{
	struct rusage used;
	int64_t cpu;

	getrusage(RUSAGE_CHILDREN, &used);
	cpu = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * INT64_C(1000000) + used.ru_utime.tv_usec +
	      used.ru_stime.tv_usec;
	if (usec < 1)
		usec = 1;
#define AT(percent) (sum->count ? latency[(sum->count - 1) * (percent) / 100] : 0)
	if (json)
		printf("{\"submitted\": %" PRIu64 ", \"refused\": %" PRIu64 ", \"seconds\": %" PRId64
		       ".%06d, \"per_second\": %" PRIu64
		       ", \"p50_usec\": %u, \"p99_usec\": %u, \"max_usec\": %u, \"client_cpu_usec_each\": "
		       "%" PRId64 "}\n",
		       sum->done, sum->refused, usec / 1000000, (int)(usec % 1000000),
		       sum->done * 1000000 / (uint64_t)usec, AT(50), AT(99), AT(100),
		       sum->done ? cpu / (int64_t)sum->done : 0);
	else
		printf("%" PRIu64 " submitted, %" PRIu64 " refused in %" PRId64 ".%03d s: %" PRIu64
		       " a second\n"
		       "latency in microseconds: median %u, 99 %% %u, most %u\nclient CPU: %" PRId64
		       " microseconds a submission\n",
		       sum->done, sum->refused, usec / 1000000, (int)(usec % 1000000 / 1000),
		       sum->done * 1000000 / (uint64_t)usec, AT(50), AT(99), AT(100),
		       sum->done ? cpu / (int64_t)sum->done : 0);
#undef AT
}

static int run(struct bench *b, bool json)
{
	int go[2], out[CLIENTS_MAX], failed = 0;
	struct report sum = {0};
	uint32_t *latency = NULL;
	int64_t begin, end;

	if (pipe(go))
		return 1;
	for (unsigned i = 0; i < b->clients; i++) {
		int back[2];
		pid_t pid;

		if (pipe(back))
			return 1;
		fflush(stdout);
		pid = fork();
		if (pid < 0) {
			cli_error(b->cli, "cannot start client %u", i);
			return 1;
		}
		if (pid == 0) {
			close(back[0]);
			client(b, i, go[0], back[1]);
		}
		close(back[1]);
		out[i] = back[0];
	}
	begin = mono_usec();
	for (unsigned i = 0; i < b->clients; i++)
		write_all(go[1], "g", 1);
	for (unsigned i = 0; i < b->clients; i++) {
		struct report r;

		if (!read_all(out[i], &r, sizeof r)) {
			failed = 1;
			continue;
		}
		latency = reallocarray(latency, sum.count + r.count + 1, sizeof *latency);
		if (!latency || !read_all(out[i], latency + sum.count, r.count * sizeof *latency))
			return 1;
		sum.done += r.done;
		sum.refused += r.refused;
		sum.count += r.count;
	}
	end = mono_usec();
	while (wait(NULL) > 0)
		continue;
	if (sum.count)
		qsort(latency, sum.count, sizeof *latency, compare_u32);
	print(&sum, latency, end - begin, json);
	free(latency);
	return failed || sum.refused ? 1 : 0;
}

int muster_bench(struct cli *c, size_t count, char **words)
{
	struct bench b = {.cli = c, .clients = 16, .jobs = 10000};
	bool json = false;
	int64_t n;

	if (!count || strcmp(words[0], "submit") != 0) {
		cli_error(
		    c, "usage: muster bench submit [-c CLIENTS] [-n JOBS] [-p PARTITION] [--run] [--json]");
		return 1;
	}
	for (size_t i = 1; i < count; i++) {
		const char *value = i + 1 < count ? words[i + 1] : NULL;

		if (strcmp(words[i], "--json") == 0) {
			json = true;
		} else if (strcmp(words[i], "--run") == 0) {
			b.run = true;
		} else if (strcmp(words[i], "-p") == 0 && value) {
			b.partition = words[++i];
		} else if (strcmp(words[i], "-c") == 0 && value &&
			   !mu_number_parse("-c", value, 1, CLIENTS_MAX, &n, NULL)) {
			b.clients = (unsigned)n;
			i++;
		} else if (strcmp(words[i], "-n") == 0 && value &&
			   !mu_number_parse("-n", value, 1, JOBS_MAX, &n, NULL)) {
			b.jobs = (uint64_t)n;
			i++;
		} else {
			cli_error(c,
				  "bench submit does not understand \"%s\": -c takes 1 to %d clients, -n 1 "
				  "to %d jobs",
				  words[i], CLIENTS_MAX, JOBS_MAX);
			return 1;
		}
	}
	return run(&b, json);
}
