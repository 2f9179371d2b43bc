/* tests/exec/agent.c: an agent against a controller that the test plays: jobs, limits, srun, and deaths of
 * agent and shepherd. Needs root and control groups. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/cgroup.h"
#include "exec/spool.h"
#include "log/auth.h"
#include "log/stream.h"
#include "proto/base/seed.h"
#include "proto/pb.h"
#include "proto/states.h"
#include "proto/wire.pb-c.h"
#include "tests/exec/check.h"
#include "tests/exec/fakectl.h"

enum { USER = 65534, WAIT_MSEC = 30000 };

static const char *program;
static char top[64], work[96], cluster[48], conf[128];
static struct exe_cgroup_host host;
static struct fakectl *ctl;
static pid_t agent = -1;
static uint32_t next_job = 1;
static bool devices;

/* ---- the place ---- */

static void put_file(const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", top, name);
	FILE *f = fopen(path, "we");
	if (!f || fputs(text, f) < 0)
		exit(1);
	fclose(f);
}

static char *slurp(const char *name)
{
	static char text[65536];
	char path[256];
	snprintf(path, sizeof path, "%s/%s", work, name);
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	text[n > 0 ? n : 0] = 0;
	if (fd >= 0)
		close(fd);
	return text;
}

/* Two devices that an ordinary user can open on this host stand in for cards: character nodes with the
 * numbers of what the kernel has, made by mknod. False where there are no two. */
static bool make_devices(void)
{
	char path[256], line[128], name[64];
	unsigned number, made = 0;
	FILE *f = fopen("/proc/misc", "re");
	while (f && made < 2 && fgets(line, sizeof line, f)) {
		if (sscanf(line, "%u %63s", &number, name) != 2 || strstr(name, "watchdog") ||
		    strstr(name, "snapshot"))
			continue;
		snprintf(path, sizeof path, "%s/gpu%u", top, made);
		if (mknod(path, S_IFCHR | 0666, makedev(10, number)) || chmod(path, 0666))
			continue;
		int status = 1;
		pid_t pid = fork();
		if (pid == 0)
			_exit(setuid(USER) || open(path, O_RDONLY | O_CLOEXEC) < 0);
		waitpid(pid, &status, 0);
		if (status == 0)
			made++;
		else
			unlink(path);
	}
	if (f)
		fclose(f);
	return made == 2;
}

static void make_place(void)
{
	char path[256], text[4096];
	struct mu_err err = {0};
	snprintf(top, sizeof top, "/tmp/muster_agent_test.XXXXXX");
	if (!mkdtemp(top) || chmod(top, 0755))
		exit(1);
	snprintf(work, sizeof work, "%s/work", top);
	snprintf(cluster, sizeof cluster, "test%d", getpid());
	if (mkdir(work, 0755) || chown(work, USER, USER))
		exit(1);
	snprintf(path, sizeof path, "%s/keys", top);
	mkdir(path, 0755);
	static const char *const key[] = {"cluster", "node.n1"};
	for (size_t i = 0; i < 2; i++) {
		char secret[300], public_path[300];
		snprintf(secret, sizeof secret, "%s/%s.secret", path, key[i]);
		snprintf(public_path, sizeof public_path, "%s/%s.pub", path, key[i]);
		if (auth_keygen(secret, public_path, &err)) {
			printf("%s\n", err.text);
			exit(1);
		}
	}
	devices = make_devices();
	snprintf(text, sizeof text,
		 "ClusterName=%s\nSlurmctldHost=c1(127.0.0.1)\nMusterRunDir=%s/run\nMusterKeyDir=%s/"
		 "keys\nSlurmdSpoolDir=%s/spool/%%n\n"
		 "SlurmdPidFile=%s/run/%%n.pid\nKillWait=1\nMusterHeartbeat=1\n%s"
		 "NodeName=n1 NodeAddr=127.0.0.1 CPUs=8 RealMemory=4096 %s\n"
		 "PartitionName=debug Nodes=n1 Default=YES\n",
		 cluster, top, top, top, top, devices ? "GresTypes=gpu\n" : "", devices ? "Gres=gpu:2" : "");
	put_file("muster.conf", text);
	snprintf(text, sizeof text, "NodeName=n1 Name=gpu File=%s/gpu[0-1]\n", top);
	if (devices)
		put_file("gres.conf", text);
	else
		printf("no two devices stand in for cards here: those jobs are left out\n");
	snprintf(conf, sizeof conf, "%s/muster.conf", top);
	snprintf(path, sizeof path, "%s/run", top);
	mkdir(path, 0755);
}

static void remove_tree(const char *path)
{
	pid_t pid = fork();
	if (pid == 0) {
		execlp("rm", "rm", "-rf", path, (char *)NULL);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
}

static void start_agent(void)
{
	fflush(stdout);
	agent = fork();
	if (agent == 0) {
		const char *debug = getenv("MUSTER_TEST_DEBUG");
		if (!debug) {
			int fd = open("/dev/null", O_WRONLY);
			dup2(fd, 2);
		}
		execl(program, "muster-agent", "-D", "-v", "-v", "-f", conf, "-N", "n1", "--emulate",
		      (char *)NULL);
		_exit(127);
	}
}

static void kill_agent(int number)
{
	kill(agent, number);
	waitpid(agent, NULL, 0);
	agent = -1;
}

static unsigned job_groups(void)
{
	char path[EXE_CGROUP_FILE];
	unsigned n = 0;
	for (int c = 0; c < EXE_CONTROLLERS; c++) {
		snprintf(path, sizeof path, "%s/muster_%s/n1", host.mount[c], cluster);
		pid_t pid = fork();
		if (pid == 0) {
			int fd = open("/dev/null", O_WRONLY);
			dup2(fd, 1);
			dup2(fd, 2);
			execl("/bin/sh", "sh", "-c", "test -d $0 && ls -d $0/job_*", path, (char *)NULL);
			_exit(1);
		}
		int status;
		waitpid(pid, &status, 0);
		n += host.mount[c][0] && status == 0;
	}
	return n;
}

/* ---- single jobs ---- */

struct job_case {
	const char *name, *script, *env, *cpu_list, *work_dir;
	uint32_t cpus;
	uint64_t mem_mib;
	int64_t limit;
	int gpu;	    /* 1 + index; 0: none */
	uint32_t end_cause; /* ended by order once "ready" is there */
	int32_t code, signal;
	uint32_t cause;
	const char *output, *detail;
};

static const struct job_case table[] = {
    {.name = "hello",
     .script = "#!/bin/bash\necho Hello from $SLURMD_NODENAME\n",
     .output = "Hello from n1\n"},
    {.name = "environment",
     .script = "#!/bin/sh\necho $COLOUR $SLURM_JOB_ID:$SLURM_JOBID $SLURM_JOB_NAME $SLURM_NNODES "
	       "$SLURM_JOB_CPUS_PER_NODE $ENVIRONMENT "
	       "$SLURM_CLUSTER_NAME $SLURM_PROCID $HOME\n",
     .env = "COLOUR=red",
     .output = "testjob 1 1 BATCH test"},
    {.name = "exit code", .script = "#!/bin/sh\nexit 3\n", .code = 3},
    {.name = "signal", .script = "#!/bin/sh\nkill -9 $$\n", .signal = 9},
    {.name = "user", .script = "#!/bin/sh\nid -u; cat $0 | head -1\n", .output = "65534\n#!/bin/sh\n"},
    {.name = "CPUs",
     .script = "#!/bin/sh\ngrep Cpus_allowed_list /proc/self/status\n",
     .cpu_list = "2,4",
     .cpus = 2,
     .output = "list:\t0\n"},
    {.name = "memory",
     .script = "#!/bin/sh\ndd if=/dev/zero of=/dev/null bs=300M count=1\n",
     .mem_mib = 64,
     .signal = 125,
     .cause = END_OOM,
     .output = "oom_kill"},
    {.name = "time limit",
     .script = "#!/bin/sh\nsleep 100\n",
     .limit = 1,
     .signal = 15,
     .cause = END_TIME_LIMIT,
     .output = "DUE TO TIME LIMIT ***"},
    {.name = "cancelled",
     .script = "#!/bin/sh\n> ready; sleep 100\n",
     .end_cause = END_CANCEL,
     .signal = 15,
     .cause = END_CANCEL,
     .output = "*** JOB "},
    {.name = "deaf",
     .script = "#!/bin/sh\ntrap '' TERM; > ready; while :; do sleep 1; done\n",
     .end_cause = END_CANCEL,
     .signal = 9,
     .cause = END_CANCEL},
    {.name = "no device",
     .script = "#!/bin/sh\nhead -c0 < $GPUS/gpu0 && echo opened; echo ${CUDA_VISIBLE_DEVICES-unset}\n",
     .output = "Operation not permitted"},
    {.name = "its device",
     .script = "#!/bin/sh\nexec 3< $GPUS/gpu0 && echo opened; head -c0 < $GPUS/gpu1; echo "
	       "$CUDA_VISIBLE_DEVICES $SLURM_JOB_GPUS\n",
     .gpu = 1,
     .output = "opened\n"},
    {.name = "second device",
     .script = "#!/bin/sh\necho $CUDA_VISIBLE_DEVICES $SLURM_JOB_GPUS; head -c0 < $GPUS/gpu0; true\n",
     .gpu = 2,
     .output = "0 1\n"},
    {.name = "no folder",
     .script = "#!/bin/sh\ntrue\n",
     .work_dir = "/no/such/folder",
     .signal = 53,
     .cause = END_LAUNCH_FAILED,
     .detail = "/no/such/folder does not exist"},
    {.name = "no interpreter",
     .script = "#!/no/such/shell\ntrue\n",
     .code = 2,
     .output = "No such file or directory"},
    {.name = "CRLF", .script = "#!/bin/sh\r\ntrue\r\n", .code = 2, .output = "No such file or directory"},
    {.name = "CPUs it has not",
     .script = "#!/bin/sh\ntrue\n",
     .cpu_list = "90",
     .cause = END_LAUNCH_FAILED,
     .detail = "CPU 90"},
};

static uint32_t submit(const struct job_case *c)
{
	static char out[32], env[64][256];
	uint32_t id = next_job++;
	snprintf(out, sizeof out, "out-%%j");
	snprintf(env[id % 64], sizeof *env, "GPUS=%s", top);
	struct fakectl_job j = {.job = id,
				.script = c->script,
				.std_out = out,
				.work_dir = c->work_dir ? c->work_dir : work,
				.env = c->env ? c->env : env[id % 64],
				.uid = USER,
				.cpu_list = c->cpu_list,
				.cpus = c->cpus,
				.mem_mib = c->mem_mib,
				.time_limit_sec = c->limit,
				.gpu = c->gpu - 1};
	fakectl_run(ctl, &j);
	return id;
}

static void wait_file(const char *name)
{
	char path[256];
	snprintf(path, sizeof path, "%s/%s", work, name);
	for (int i = 0; i < WAIT_MSEC / 5 && access(path, F_OK); i++)
		usleep(5000);
	unlink(path);
}

static void run_table(void)
{
	struct fakectl_end_seen e;
	char name[32];
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		const struct job_case *c = &table[i];
		if (!devices && strstr(c->name, "device"))
			continue;
		uint32_t id = submit(c);
		if (c->end_cause) {
			wait_file("ready");
			fakectl_end(ctl, id, c->end_cause);
		}
		bool there = fakectl_wait_end(ctl, id, WAIT_MSEC, &e);
		CHECK(there && e.count == 1 && e.released && e.batch, "%s: %u reports", c->name, e.count);
		CHECK(e.code == c->code && e.signal == c->signal, "%s: %d:%d", c->name, e.code, e.signal);
		CHECK(e.cause == c->cause, "%s: cause %s", c->name, mu_end_cause_word(e.cause));
		CHECK(!c->detail || strstr(e.detail, c->detail), "%s: detail \"%s\"", c->name, e.detail);
		snprintf(name, sizeof name, "out-%u", id);
		CHECK(!c->output || strstr(slurp(name), c->output), "%s: output \"%s\"", c->name,
		      slurp(name));
		CHECK(strcmp(c->name, "its device") != 0 || strstr(slurp(name), "Operation not permitted"),
		      "%s: gpu1: %s", c->name, slurp(name));
	}
	CHECK(job_groups() == 0, "%u control groups are left", job_groups());
}

/* ---- orders ---- */

static void signals_and_limits(void)
{
	struct fakectl_end_seen e;
	struct job_case c = {
	    .script = "#!/bin/bash\ntrap 'echo got it; exit 7' USR1\n> ready\nwhile :; do sleep 0.1; done\n"};
	uint32_t id = submit(&c);
	wait_file("ready");
	fakectl_signal(ctl, id, SIGUSR1, 0); /* steps only: the shell does not get it */
	usleep(300000);
	CHECK(!fakectl_wait_end(ctl, id, 1, &e), "the batch shell got a signal for steps");
	fakectl_signal(ctl, id, SIGUSR1, 1);
	CHECK(fakectl_wait_end(ctl, id, WAIT_MSEC, &e) && e.code == 7, "code %d", e.code);
	c.script = "#!/bin/sh\n> ready\nsleep 100\n";
	c.limit = 1000;
	id = submit(&c);
	wait_file("ready");
	fakectl_limit(ctl, id, 1);
	CHECK(fakectl_wait_end(ctl, id, WAIT_MSEC, &e) && e.cause == END_TIME_LIMIT, "cause %u", e.cause);
}

static void what_is_not_ordered_ends(void)
{
	struct fakectl_end_seen e;
	struct job_case c = {.script = "#!/bin/sh\n> ready\nsetsid sleep 100 &\nsleep 100\n"};
	uint32_t id = submit(&c);
	wait_file("ready");
	fakectl_drop(ctl, id);
	for (int i = 0; i < 1000 && job_groups(); i++)
		usleep(5000);
	CHECK(job_groups() == 0, "it goes on");
	/* An end of something that the node never had is answered all the same. */
	struct fakectl_job ghost = {
	    .job = next_job++, .script = "#!/bin/sh\n", .std_out = "x", .work_dir = work, .gpu = -1};
	kill_agent(SIGTERM);
	fakectl_run(ctl, &ghost);
	fakectl_end(ctl, ghost.job, END_CANCEL);
	start_agent();
	CHECK(fakectl_wait_end(ctl, ghost.job, WAIT_MSEC, &e) && e.cause == END_NO_SUCH_ATTEMPT && e.released,
	      "cause %u", e.cause);
	(void)id;
}

static void reports_are_repeated_until_heard(void)
{
	struct fakectl_end_seen e;
	struct job_case c = {.script = "#!/bin/sh\nexit 4\n"};
	fakectl_refuse(ctl, true);
	uint32_t id = submit(&c);
	CHECK(!fakectl_wait_end(ctl, id, 700, &e), "heard although refused");
	kill_agent(SIGKILL);
	fakectl_refuse(ctl, false);
	start_agent();
	CHECK(fakectl_wait_end(ctl, id, WAIT_MSEC, &e) && e.code == 4, "code %d", e.code);
}

/* ---- srun ---- */

static bool step(uint32_t job, const char *script, bool exact, uint32_t cpus, char *out, size_t cap,
		 int *ret_code)
{
	char address[160];
	int fd;
	struct mu_err err = {0};
	Mu__StepAsk ask = MU__STEP_ASK__INIT;
	ProtobufCBinaryData argv[3] = {
	    {7, (uint8_t *)"/bin/sh"}, {2, (uint8_t *)"-c"}, {strlen(script), (uint8_t *)script}};
	struct mu_buf body = {0}, frame = {0};
	snprintf(address, sizeof address, "ipc://%s/run/agent.n1.sock", top);
	out[0] = 0;
	*ret_code = -1;
	if (stream_connect(address, 5000, &fd, &err)) {
		CHECK(0, "%s", err.text);
		return false;
	}
	ask.has_job = ask.has_exact = ask.has_work_dir = 1;
	ask.job = job;
	ask.exact = exact;
	ask.has_cpus_per_task = exact;
	ask.cpus_per_task = cpus;
	ask.argv = argv;
	ask.n_argv = 3;
	ask.work_dir = (ProtobufCBinaryData){strlen(work), (uint8_t *)work};
	mu_pb_pack(&ask.base, &body);
	stream_put(&frame, STREAM_STEP_ASK, 0, body.data, body.len);
	stream_write_all(fd, frame.data, frame.len, NULL);
	mu_buf_reset(&frame);
	stream_put(&frame, STREAM_STDIN, STREAM_ALL, "from stdin\n", 11);
	stream_put(&frame, STREAM_STDIN, STREAM_ALL, NULL, 0);
	stream_write_all(fd, frame.data, frame.len, NULL);
	mu_buf_free(&frame);
	mu_buf_free(&body);
	struct stream_reader r = {0};
	struct stream_frame f;
	struct mu_arena arena = {0};
	bool granted = false;
	size_t used = 0;
	while (stream_read_frame(fd, &r, WAIT_MSEC, &f, &err) == 0) {
		if (f.kind == STREAM_GRANTED)
			granted = true;
		if (f.kind == STREAM_REFUSED) {
			Mu__StepRefused *m = (Mu__StepRefused *)mu_pb_unpack(
			    &mu__step_refused__descriptor, f.payload.data, f.payload.len, &arena);
			snprintf(out, cap, "%s%s", m && m->busy ? "busy: " : "", m && m->text ? m->text : "");
		}
		if (f.kind == STREAM_STDOUT && used + f.payload.len < cap) {
			memcpy(out + used, f.payload.data, f.payload.len);
			used += f.payload.len;
			out[used] = 0;
		}
		if (f.kind == STREAM_STEP_ENDED) {
			Mu__StepEnded *m = (Mu__StepEnded *)mu_pb_unpack(
			    &mu__step_ended__descriptor, f.payload.data, f.payload.len, &arena);
			*ret_code = m ? m->exit_code : -2;
			break;
		}
	}
	mu_arena_free(&arena);
	stream_reader_free(&r);
	close(fd);
	return granted;
}

static void steps_inside_an_allocation(void)
{
	struct fakectl_end_seen e;
	struct fakectl_job j = {.job = next_job++,
				.std_out = "x",
				.work_dir = work,
				.gpu = -1,
				.allocation = true,
				.uid = USER,
				.cpu_list = "0-3",
				.cpus = 4,
				.mem_mib = 512};
	char out[4096];
	int code;
	CHECK(!step(j.job, "true", false, 0, out, sizeof out, &code) &&
		  strcmp(out, "Invalid job id specified") == 0,
	      "%s", out);
	fakectl_run(ctl, &j);
	bool granted = false;
	for (int i = 0; i < 500 && !granted; i++) {
		granted = step(
		    j.job, "cat; echo step $SLURM_STEP_ID task $SLURM_PROCID of $SLURM_NTASKS; id -u; exit 9",
		    false, 0, out, sizeof out, &code);
		if (!granted)
			usleep(10000);
	}
	CHECK(granted && code == 9, "code %d", code);
	CHECK(strcmp(out, "from stdin\nstep 0 task 0 of 1\n65534\n") == 0, "%s", out);
	CHECK(!step(j.job, "true", true, 5, out, sizeof out, &code) &&
		  strstr(out, "More processors requested"),
	      "%s", out);
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0)
		_exit(step(j.job, "> ready; sleep 2", true, 3, out, sizeof out, &code) ? code : 99);
	wait_file("ready");
	CHECK(!step(j.job, "true", true, 2, out, sizeof out, &code) && strncmp(out, "busy: ", 6) == 0, "%s",
	      out);
	CHECK(step(j.job, "exit 1", true, 1, out, sizeof out, &code) && code == 1, "one CPU is free: %s",
	      out);
	int status;
	waitpid(pid, &status, 0);
	CHECK(status == 0, "the first step: %x", status);
	CHECK(step(j.job, "exit 2", true, 4, out, sizeof out, &code) && code == 2, "all are free again: %s",
	      out);
	usleep(1200000);
	CHECK(fakectl_steps_seen(ctl, j.job) >= 4, "%u steps were reported", fakectl_steps_seen(ctl, j.job));
	fakectl_end(ctl, j.job, END_CANCEL);
	CHECK(fakectl_wait_end(ctl, j.job, WAIT_MSEC, &e) && e.cause == END_CANCEL && e.batch, "cause %u",
	      e.cause);
}

static void rubbish_on_the_socket_harms_nobody(void)
{
	struct mu_seed seed;
	struct mu_err err = {0};
	char address[160], out[256];
	int idle[300], code, fd;
	snprintf(address, sizeof address, "ipc://%s/run/agent.n1.sock", top);
	mu_seed_init(&seed, 99);
	for (int i = 0; i < check_count(200, 1000, 20000); i++) {
		uint8_t bytes[256];
		size_t len = mu_seed_below(&seed, sizeof bytes);
		for (size_t k = 0; k < len; k++)
			bytes[k] = (uint8_t)mu_seed_next(&seed);
		/* Half of them begin as a request does. */
		if (len > 8 && i % 2) {
			memset(bytes, 0, 8);
			bytes[3] = (uint8_t)(len - 8);
			bytes[4] = STREAM_STEP_ASK;
		}
		if (stream_connect(address, 5000, &fd, &err))
			continue;
		stream_write_all(fd, bytes, len, NULL);
		close(fd);
	}
	for (size_t i = 0; i < 300; i++)
		idle[i] = stream_connect(address, 5000, &fd, &err) ? -1 : fd;
	for (size_t i = 0; i < 300; i++)
		if (idle[i] >= 0)
			close(idle[i]);
	usleep(100000);
	CHECK(!step(999999, "true", false, 0, out, sizeof out, &code) &&
		  strcmp(out, "Invalid job id specified") == 0,
	      "%s", out);
}

/* ---- deaths ---- */

static void agent_may_die_at_any_moment(void)
{
	struct mu_seed seed;
	struct fakectl_end_seen e;
	uint32_t id[64];
	int rounds = check_count(3, 6, 50);
	mu_seed_init(&seed, 4711);
	for (int r = 0; r < rounds; r++) {
		static const char *const script[] = {"#!/bin/sh\necho once\nexit 5\n",
						     "#!/bin/sh\necho once\nsleep 0.2\nexit 5\n",
						     "#!/bin/sh\necho once\nsleep 1\nexit 5\n"};
		for (size_t i = 0; i < 3; i++) {
			struct job_case c = {.script = script[i]};
			id[i] = submit(&c);
		}
		usleep(mu_seed_below(&seed, 60000));
		kill_agent(SIGKILL);
		usleep(mu_seed_below(&seed, 400000));
		start_agent();
		for (size_t i = 0; i < 3; i++) {
			char name[32];
			bool there = fakectl_wait_end(ctl, id[i], WAIT_MSEC, &e);
			CHECK(there && e.code == 5 && e.signal == 0,
			      "round %d, script %zu: %d:%d, cause %s, %s", r, i, e.code, e.signal,
			      mu_end_cause_word(e.cause), e.detail);
			snprintf(name, sizeof name, "out-%u", id[i]);
			CHECK(strcmp(slurp(name), "once\n") == 0, "round %d, script %zu ran so: \"%s\"", r, i,
			      slurp(name));
		}
	}
	CHECK(job_groups() == 0, "control groups are left");
}

static pid_t shepherd_of_children(void)
{
	char path[64], text[256];
	snprintf(path, sizeof path, "/proc/%d/task/%d/children", agent, agent);
	int fd = open(path, O_RDONLY), pid = 0;
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	text[n > 0 ? n : 0] = 0;
	if (fd >= 0)
		close(fd);
	sscanf(text, "%d", &pid);
	return pid;
}

static void killed_shepherd_is_told(void)
{
	struct fakectl_end_seen e;
	struct job_case c = {.script = "#!/bin/sh\nsetsid sleep 100 &\n> ready\nsleep 100\n"};
	uint32_t id = submit(&c);
	wait_file("ready");
	pid_t pid = shepherd_of_children();
	CHECK(pid > 0 && kill(pid, SIGKILL) == 0, "no shepherd: %d", pid);
	CHECK(fakectl_wait_end(ctl, id, WAIT_MSEC, &e) && e.cause == END_SHEPHERD_LOST, "cause %s",
	      mu_end_cause_word(e.cause));
	CHECK(job_groups() == 0, "control groups are left");
	/* The same while no agent is there. */
	id = submit(&c);
	wait_file("ready");
	pid = shepherd_of_children();
	kill_agent(SIGKILL);
	kill(pid, SIGKILL);
	start_agent();
	CHECK(fakectl_wait_end(ctl, id, WAIT_MSEC, &e) && e.cause == END_SHEPHERD_LOST, "cause %s",
	      mu_end_cause_word(e.cause));
	CHECK(job_groups() == 0, "control groups are left");
}

static void nothing_is_left(void)
{
	char path[EXE_CGROUP_FILE];
	for (int i = 0; i < 200; i++) {
		snprintf(path, sizeof path, "ls -d %s/spool/n1/job_* >/dev/null 2>&1", top);
		pid_t pid = fork();
		if (pid == 0) {
			execl("/bin/sh", "sh", "-c", path, (char *)NULL);
			_exit(1);
		}
		int status;
		waitpid(pid, &status, 0);
		if (status)
			break;
		usleep(20000);
		CHECK(i < 199, "attempts stay in the spool");
	}
	kill_agent(SIGTERM);
	for (int c = 0; c < EXE_CONTROLLERS; c++) {
		snprintf(path, sizeof path, "%s/muster_%s", host.mount[c], cluster);
		CHECK(!host.mount[c][0] || access(path, F_OK) != 0, "%s is left", path);
	}
}

int main(int argc, char **argv)
{
	struct mu_err err = {0};
	char address[160], keys[96];
	program = argc > 1 ? realpath(argv[1], NULL) : NULL;
	if (!program || getuid() != 0 || exe_cgroup_probe(&host, &err)) {
		printf("skipped: %s\n", getuid() ? "not root" : err.text);
		return CHECK_SKIP;
	}
	make_place();
	snprintf(address, sizeof address, "ipc://%s/run/musterd.c1.sock", top);
	snprintf(keys, sizeof keys, "%s/keys", top);
	if (fakectl_open(address, keys, "n1", &ctl, &err)) {
		printf("%s\n", err.text);
		return 1;
	}
	start_agent();
	CHECK(fakectl_wait_registered(ctl, 1, WAIT_MSEC), "the agent does not register");
	run_table();
	signals_and_limits();
	steps_inside_an_allocation();
	rubbish_on_the_socket_harms_nobody();
	what_is_not_ordered_ends();
	reports_are_repeated_until_heard();
	killed_shepherd_is_told();
	agent_may_die_at_any_moment();
	nothing_is_left();
	fakectl_close(ctl);
	remove_tree(top);
	return check_done();
}
