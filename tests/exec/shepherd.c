/* tests/exec/shepherd.c: a shepherd runs steps as it is told and always says how they ended. Needs root and
 * control groups. */
#include "exec/shepherd.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/cgroup.h"
#include "exec/herd.h"
#include "exec/shepherd.pb-c.h"
#include "exec/spool.h"
#include "log/stream.h"
#include "proto/pb.h"
#include "proto/states.h"
#include "proto/wire.pb-c.h"
#include "tests/exec/check.h"

enum { NOBODY = 65534, EXTRA_GROUP = 4242, JOB = 7 };

static const char *program;
static char dir[64], out_dir[80], group[128], node_group[64];
static struct exe_cgroup_host host;

/* One step: what it runs, with what, and how it must end. */
struct step_case {
	const char *name;
	const char *script;  /* run by /bin/sh -c, unless argv0 is given */
	const char *argv0;   /* the program itself */
	const char *std_out; /* pattern; NULL: "out" in the test's folder */
	const char *work_dir;
	int64_t time_limit_sec;
	uint64_t memory_bytes;
	uint32_t tasks; /* 0: 1 */
	bool append, bad_exit;
	int32_t code, signal;
	uint32_t cause;
	const char *detail; /* in the end record */
	const char *output; /* in the output file */
};

static char *slurp(const char *path)
{
	static char text[65536];
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	text[n > 0 ? n : 0] = 0;
	if (fd >= 0)
		close(fd);
	return text;
}

static ProtobufCBinaryData bytes(const char *text)
{
	return (ProtobufCBinaryData){text ? strlen(text) : 0, (uint8_t *)(text ? text : "")};
}

static int write_order(const struct step_case *c, uint32_t step, bool streamed)
{
	Mu__StepOrder o = MU__STEP_ORDER__INIT;
	static char path[256], pattern[256];
	uint32_t groups[] = {NOBODY, EXTRA_GROUP}, task[64];
	ProtobufCBinaryData argv[3], env[] = {bytes("PATH=/usr/bin:/bin"), bytes("COLOUR=green")};
	struct mu_err err = {0};
	snprintf(path, sizeof path, "%s/step_%u", group, step);
	snprintf(pattern, sizeof pattern, "%s", c->std_out ? c->std_out : "out");
	o.has_job = o.has_attempt = o.has_step = o.has_uid = o.has_gid = o.has_kill_wait_sec = 1;
	o.job = JOB;
	o.attempt = 1;
	o.step = step;
	o.node = "n1";
	o.cgroup = path;
	o.user = "nobody";
	o.job_name = "test";
	o.uid = o.gid = NOBODY;
	o.groups = groups;
	o.n_groups = 2;
	argv[0] = bytes(c->argv0 ? c->argv0 : "/bin/sh");
	argv[1] = bytes("-c");
	argv[2] = bytes(c->script);
	o.argv = argv;
	o.n_argv = c->argv0 ? 1 : 3;
	o.env = env;
	o.n_env = 2;
	o.has_work_dir = 1;
	o.work_dir = bytes(c->work_dir ? c->work_dir : out_dir);
	o.has_std_out = !streamed;
	o.std_out = bytes(pattern);
	if (streamed)
		o.std_out.len = 0;
	o.has_open_append = o.has_kill_on_bad_exit = o.has_streamed = 1;
	o.open_append = c->append;
	o.kill_on_bad_exit = c->bad_exit;
	o.streamed = streamed;
	o.has_time_limit_sec = o.has_memory_bytes = 1;
	o.time_limit_sec = c->time_limit_sec;
	o.memory_bytes = c->memory_bytes;
	o.kill_wait_sec = 1;
	o.n_task = c->tasks ? c->tasks : 1;
	for (size_t i = 0; i < o.n_task; i++)
		task[i] = (uint32_t)i;
	o.task = task;
	int fd = open(dir, O_RDONLY | O_DIRECTORY);
	char name[40], word[16];
	exe_step_word(step, word);
	snprintf(name, sizeof name, "step_%s.order", word);
	int code = exe_spool_write_pb(fd, name, &o.base, false, &err);
	CHECK(code == 0, "%s", err.text);
	close(fd);
	return code;
}

static Mu__StepEnd *read_end(uint32_t step, struct mu_arena *arena)
{
	ProtobufCMessage *m = NULL;
	struct mu_err err = {0};
	char name[40], word[16];
	exe_step_word(step, word);
	snprintf(name, sizeof name, "step_%s.end", word);
	int fd = open(dir, O_RDONLY | O_DIRECTORY);
	exe_spool_read_pb(fd, name, &mu__step_end__descriptor, arena, &m, &err);
	CHECK(m != NULL, "%s", err.text);
	unlinkat(fd, name, 0);
	close(fd);
	return (Mu__StepEnd *)m;
}

static pid_t start(uint32_t step, int stream, int *ret_control)
{
	pid_t pid = -1;
	struct mu_err err = {0};
	int code = exe_herd_start(program, dir, step, stream, &pid, ret_control, &err);
	CHECK(code == 0, "%s", err.text);
	return pid;
}

static void group_is_gone(const char *name, uint32_t step)
{
	char path[400];
	snprintf(path, sizeof path, "%s/%s/step_%u", host.mount[EXE_FREEZER], group, step);
	CHECK(access(path, F_OK) != 0, "%s: %s is still there", name, path);
}

static const char eat[] = "exec dd if=/dev/zero of=/dev/null bs=300M count=1";

static const struct step_case table[] = {
    {.name = "exit 0", .script = "echo $COLOUR; pwd; id -u; id -G", .output = "green\n"},
    {.name = "identity",
     .script = "id -u; id -g; id -G; umask",
     .output = "65534\n65534\n65534 4242\n0022\n"},
    {.name = "task variables",
     .script = "echo $SLURM_PROCID $SLURM_LOCALID; test $SLURM_TASK_PID = $$",
     .output = "0 0\n"},
    {.name = "exit 3", .script = "exit 3", .code = 3},
    {.name = "killed", .script = "kill -9 $$", .signal = 9},
    {.name = "time limit",
     .script = "sleep 60",
     .time_limit_sec = 1,
     .signal = 15,
     .cause = END_TIME_LIMIT,
     .output = "DUE TO TIME LIMIT ***"},
    {.name = "deaf to TERM",
     .script = "trap '' TERM; while :; do sleep 1; done",
     .time_limit_sec = 1,
     .signal = 9,
     .cause = END_TIME_LIMIT},
    {.name = "no folder",
     .script = "true",
     .std_out = "/nowhere/to/go/out",
     .signal = 53,
     .cause = END_LAUNCH_FAILED,
     .detail = "/nowhere/to/go does not exist"},
    {.name = "no permission",
     .script = "true",
     .std_out = "/root/out",
     .signal = 53,
     .cause = END_LAUNCH_FAILED,
     .detail = "Permission denied"},
    {.name = "no work folder",
     .script = "pwd",
     .std_out = "%W/out",
     .work_dir = "/nowhere",
     .output = "going to /tmp instead\n/tmp\n"},
    {.name = "no program",
     .argv0 = "/no/such/program",
     .code = 2,
     .output = "execve(): /no/such/program: No such file or directory"},
    {.name = "not executable", .argv0 = "/etc/passwd", .code = 13, .output = "Permission denied"},
    {.name = "along PATH", .argv0 = "true"},
    {.name = "memory",
     .script = eat,
     .memory_bytes = 64 << 20,
     .signal = 125,
     .cause = END_OOM,
     .output = "oom_kill event"},
    {.name = "daemons",
     .script = "setsid sh -c '(sleep 300 & sleep 301 &) &' & (setsid sleep 302 &) ; exit 0"},
    {.name = "highest code", .script = "exit $SLURM_PROCID", .tasks = 5, .code = 4},
    {.name = "file per task",
     .script = "echo I am $SLURM_PROCID",
     .tasks = 3,
     .std_out = "out-%3t",
     .output = "I am 2"},
    {.name = "one file", .script = "echo line $SLURM_PROCID; sleep 0.1", .tasks = 3, .output = "line "},
    {.name = "bad exit",
     .script = "test $SLURM_PROCID = 1 && exit 5; sleep 60",
     .tasks = 3,
     .bad_exit = true,
     .code = 5,
     .signal = 15},
};

static void run_case(const struct step_case *c, uint32_t step)
{
	struct mu_arena arena = {0};
	struct step_case here = *c;
	char path[256], text[64], *pattern = NULL;
	int control, status;
	if (c->std_out && strncmp(c->std_out, "%W/", 3) == 0 &&
	    asprintf(&pattern, "%s/%s", out_dir, c->std_out + 3) > 0)
		here.std_out = pattern;
	if (write_order(&here, step, false))
		return;
	pid_t pid = start(step, -1, &control);
	waitpid(pid, &status, 0);
	CHECK(status == 0, "%s: the shepherd ended with %x", c->name, status);
	Mu__StepEnd *e = read_end(step, &arena);
	if (e) {
		CHECK(e->exit_code == c->code && e->exit_signal == c->signal, "%s: %d:%d", c->name,
		      e->exit_code, e->exit_signal);
		CHECK(e->cause == c->cause, "%s: cause %s", c->name, mu_end_cause_word(e->cause));
		CHECK(!c->detail || (e->detail && strstr(e->detail, c->detail)), "%s: detail %s", c->name,
		      e->detail ? e->detail : "none");
		CHECK(e->clean && e->span_usec > 0 && e->end_usec >= e->start_usec, "%s: not clean", c->name);
		CHECK(c->cause != END_OOM || e->usage->oom_kills >= 1, "%s: %u kills", c->name,
		      e->usage->oom_kills);
	}
	snprintf(text, sizeof text, "%s",
		 c->std_out && strchr(c->std_out, 't') && c->tasks ? "out-002" : "out");
	snprintf(path, sizeof path, "%s/%s", out_dir, text);
	CHECK(!c->output || strstr(slurp(path), c->output), "%s: output %s", c->name, slurp(path));
	unlink(path);
	group_is_gone(c->name, step);
	close(control);
	free(pattern);
	mu_arena_free(&arena);
}

/* ---- an agent that comes and goes ---- */

static void agents_may_come_and_go(void)
{
	struct step_case c = {.name = "adopted",
			      .script = "trap 'echo got usr1' USR1; while :; do sleep 0.1; done"};
	struct mu_arena arena = {0};
	struct mu_buf out = {0};
	int control, other, status;
	char path[256];
	write_order(&c, 100, false);
	pid_t pid = start(100, -1, &control);
	struct mu_err err = {0};
	CHECK(exe_herd_start(program, dir, 100, -1, &pid, &other, &err) == MU_EBUSY,
	      "a second shepherd was started");
	close(control);
	snprintf(path, sizeof path, "%s/step_100.state", dir);
	while (access(path, F_OK))
		usleep(1000);
	CHECK(exe_herd_find(dir, 100, &control), "not found");
	while (control < 0 && exe_herd_find(dir, 100, &control))
		usleep(1000);
	usleep(300000);
	snprintf(path, sizeof path, "/proc/%d/statm", pid);
	unsigned long size, resident = 0;
	if (sscanf(slurp(path), "%lu %lu", &size, &resident) == 2)
		printf("a shepherd's resident set: %lu KiB\n", resident * 4);
#if !defined(__SANITIZE_ADDRESS__)
	CHECK(resident * 4 < 2048, "%lu KiB", resident * 4);
#endif
	exe_herd_put_signal(&out, SIGUSR1, true);
	CHECK(write(control, out.data, out.len) == (ssize_t)out.len, "control");
	snprintf(path, sizeof path, "%s/out", out_dir);
	for (int i = 0; i < 500 && !strstr(slurp(path), "got usr1"); i++)
		usleep(10000);
	CHECK(strstr(slurp(path), "got usr1"), "the signal did not arrive: %s", slurp(path));
	mu_buf_reset(&out);
	exe_herd_put_end(&out, END_CANCEL, 1000, false);
	CHECK(write(control, out.data, out.len) == (ssize_t)out.len, "control");
	waitpid(pid, &status, 0);
	Mu__StepEnd *e = read_end(100, &arena);
	if (e)
		CHECK(e->cause == END_CANCEL && e->by_uid == 1000 && e->exit_signal == 15, "%u %u %d",
		      e->cause, e->by_uid, e->exit_signal);
	CHECK(strstr(slurp(path), "*** STEP 7.100 ON n1 CANCELLED AT "), "%s", slurp(path));
	CHECK(!exe_herd_find(dir, 100, &other), "still found");
	group_is_gone("adopted", 100);
	close(control);
	mu_buf_free(&out);
	mu_arena_free(&arena);
}

static void killed_shepherd_leaves_a_group_that_can_be_cleared(void)
{
	struct step_case c = {.name = "orphans", .script = "setsid sleep 300 & sleep 301"};
	int control, other;
	char path[256];
	struct mu_err err = {0};
	write_order(&c, 101, false);
	pid_t pid = start(101, -1, &control);
	snprintf(path, sizeof path, "%s/step_101", group);
	while (exe_cgroup_each(&host, path, NULL, NULL) < 3)
		usleep(1000);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	CHECK(!exe_herd_find(dir, 101, &other), "its lock is still held");
	CHECK(exe_cgroup_kill(&host, path, 5000, &err) == 0, "%s", err.text);
	CHECK(exe_cgroup_remove(&host, path, &err) == 0, "%s", err.text);
	close(control);
}

/* ---- as srun would ---- */

struct client {
	int fd;
	struct stream_reader reader;
	struct mu_buf text[4], say;
	uint32_t ended, codes;
	bool over, gone;
	int32_t code, signal;
};

/* A step that is over takes nothing more; what it said before is still to be read. */
static void client_send(struct client *c, const struct mu_buf *out)
{
	if (!c->gone && stream_write_all(c->fd, out->data, out->len, NULL))
		c->gone = true;
}

static void client_frame(struct client *c, const struct stream_frame *f, bool grants)
{
	struct mu_buf out = {0};
	ProtobufCMessage *m;
	struct mu_arena arena = {0};
	switch (f->kind) {
	case STREAM_STDOUT:
	case STREAM_STDERR:
		mu_buf_add(&c->text[f->channel & 3], f->payload.data, f->payload.len);
		if (grants) {
			stream_put_u32(&out, STREAM_CREDIT_GRANT, 0, (uint32_t)f->payload.len);
			client_send(c, &out);
		}
		break;
	case STREAM_TEXT:
		mu_buf_add(&c->say, f->payload.data, f->payload.len);
		break;
	case STREAM_TASK_ENDED:
		m = mu_pb_unpack(&mu__task_ended__descriptor, f->payload.data, f->payload.len, &arena);
		c->ended++;
		c->codes += m ? (uint32_t)((Mu__TaskEnded *)m)->exit_code : 1000;
		break;
	case STREAM_STEP_ENDED:
		m = mu_pb_unpack(&mu__step_ended__descriptor, f->payload.data, f->payload.len, &arena);
		c->over = true;
		c->code = m ? ((Mu__StepEnded *)m)->exit_code : -1;
		c->signal = m ? ((Mu__StepEnded *)m)->exit_signal : -1;
		break;
	}
	mu_buf_free(&out);
	mu_arena_free(&arena);
}

/* Reads until the step is over or the connection is; sends INPUT meanwhile against the shepherd's credit. */
static void client_run(struct client *c, const char *input, size_t len)
{
	struct stream_credit credit;
	size_t sent = 0;
	bool eof = false;
	stream_credit_init(&credit, STREAM_CREDIT);
	while (!c->over) {
		struct mu_buf out = {0};
		struct stream_frame f;
		uint32_t may = stream_may_send(&credit), grant;
		size_t n = len - sent < may ? len - sent : may;
		if (n > 30000)
			n = 30000;
		if (n) {
			stream_put(&out, STREAM_STDIN, STREAM_ALL, input + sent, n);
			stream_sent(&credit, (uint32_t)n);
			sent += n;
		} else if (sent == len && !eof) {
			stream_put(&out, STREAM_STDIN, STREAM_ALL, NULL, 0);
			eof = true;
		}
		if (out.len)
			client_send(c, &out);
		mu_buf_free(&out);
		struct pollfd p = {c->fd, POLLIN, 0};
		if (poll(&p, 1, n || !eof ? 0 : 10000) == 0) {
			if (n || !eof)
				continue;
			CHECK(0, "the step is silent");
			return;
		}
		uint8_t chunk[40000];
		ssize_t got = read(c->fd, chunk, sizeof chunk);
		if (got <= 0)
			return;
		stream_feed(&c->reader, chunk, (size_t)got);
		while (stream_next(&c->reader, &f) > 0)
			if (f.kind == STREAM_CREDIT_GRANT && stream_get_u32(&f, &grant) == 0)
				CHECK(stream_granted(&credit, grant) == 0, "granted too much");
			else
				client_frame(c, &f, true);
	}
}

static void client_free(struct client *c)
{
	for (size_t i = 0; i < 4; i++)
		mu_buf_free(&c->text[i]);
	mu_buf_free(&c->say);
	stream_reader_free(&c->reader);
	if (c->fd >= 0)
		close(c->fd);
}

static pid_t start_streamed(const struct step_case *c, uint32_t step, struct client *ret, int *ret_control)
{
	int pair[2];
	memset(ret, 0, sizeof *ret);
	write_order(c, step, true);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
	pid_t pid = start(step, pair[1], ret_control);
	close(pair[1]);
	ret->fd = pair[0];
	return pid;
}

static void bytes_go_through_unharmed(void)
{
	struct step_case c = {.name = "cat", .script = "cat"};
	struct client client;
	int control;
	size_t len = 5 << 20;
	char *input = malloc(len);
	for (size_t i = 0; i < len; i++)
		input[i] = (char)((i * 2654435761u) >> 13);
	pid_t pid = start_streamed(&c, 102, &client, &control);
	client_run(&client, input, len);
	waitpid(pid, NULL, 0);
	CHECK(client.over && client.code == 0, "code %d", client.code);
	CHECK(client.text[0].len == len && memcmp(client.text[0].data, input, len) == 0,
	      "%zu bytes came back", client.text[0].len);
	client_free(&client);
	close(control);
	/* A task that never reads its input does not hold the step up. */
	c.script = "sleep 0.1; exit 6";
	pid = start_streamed(&c, 103, &client, &control);
	client_run(&client, input, len);
	waitpid(pid, NULL, 0);
	CHECK(client.over && client.code == 6, "code %d", client.code);
	client_free(&client);
	close(control);
	free(input);
}

static void tasks_have_their_own_channels_and_codes(void)
{
	struct step_case c = {.name = "channels",
			      .script =
				  "echo out $SLURM_PROCID; echo err $SLURM_PROCID >&2; exit $SLURM_PROCID",
			      .tasks = 3};
	struct client client;
	int control;
	pid_t pid = start_streamed(&c, 104, &client, &control);
	client_run(&client, "", 0);
	waitpid(pid, NULL, 0);
	CHECK(client.over && client.code == 2 && client.ended == 3 && client.codes == 3, "code %d, %u ended",
	      client.code, client.ended);
	for (size_t i = 0; i < 3; i++) {
		char want[32];
		snprintf(want, sizeof want, "out %zu\n", i);
		CHECK(client.text[i].len && strstr((char *)client.text[i].data, want), "%zu: %s", i,
		      client.text[i].data);
	}
	client_free(&client);
	close(control);
	c = (struct step_case){.name = "limit", .script = "sleep 60", .time_limit_sec = 1};
	pid = start_streamed(&c, 105, &client, &control);
	client_run(&client, "", 0);
	waitpid(pid, NULL, 0);
	CHECK(client.say.len && strstr((char *)client.say.data, "*** STEP 7.105 ON n1 CANCELLED AT"), "%s",
	      client.say.data);
	client_free(&client);
	close(control);
}

static void slow_reader_slows_the_task(void)
{
	struct step_case c = {.name = "slow", .script = "yes | head -c 3000000 | tee $PWD/count | cat"};
	struct client client;
	struct stat st = {0};
	int control;
	char path[256];
	pid_t pid = start_streamed(&c, 106, &client, &control);
	snprintf(path, sizeof path, "%s/count", out_dir);
	/* Until nothing moves any more. */
	for (off_t size = 0;; size = st.st_size) {
		usleep(300000);
		if (stat(path, &st) == 0 && st.st_size > 0 && st.st_size == size)
			break;
		st.st_size = access(path, F_OK) ? 0 : st.st_size;
	}
	CHECK(stat(path, &st) == 0 && st.st_size < 3000000,
	      "%ld bytes went ahead of a reader that reads nothing", (long)st.st_size);
	client_run(&client, "", 0);
	waitpid(pid, NULL, 0);
	CHECK(client.text[0].len == 3000000, "%zu bytes", client.text[0].len);
	unlink(path);
	client_free(&client);
	close(control);
}

static void step_ends_with_its_srun(void)
{
	struct step_case c = {.name = "srun dies", .script = "sleep 300"};
	struct client client;
	struct mu_arena arena = {0};
	int control;
	pid_t pid = start_streamed(&c, 107, &client, &control);
	usleep(100000);
	client_free(&client);
	waitpid(pid, NULL, 0);
	Mu__StepEnd *e = read_end(107, &arena);
	if (e)
		CHECK(e->cause == END_CANCEL && e->detail && strstr(e->detail, "srun"), "%u", e->cause);
	group_is_gone("srun dies", 107);
	close(control);
	mu_arena_free(&arena);
}

int main(int argc, char **argv)
{
	struct mu_err err = {0};
	program = argc > 1 ? realpath(argv[1], NULL) : NULL;
	if (!program || getuid() != 0 || exe_cgroup_probe(&host, &err)) {
		printf("skipped: %s\n", getuid() ? "not root" : err.text);
		return CHECK_SKIP;
	}
	snprintf(dir, sizeof dir, "/tmp/muster_shepherd_test.XXXXXX");
	if (!mkdtemp(dir))
		return 1;
	chmod(dir, 0755);
	snprintf(out_dir, sizeof out_dir, "%s/work", dir);
	if (mkdir(out_dir, 0755) || chown(out_dir, NOBODY, NOBODY))
		return 1;
	snprintf(node_group, sizeof node_group, "muster_test%d", getpid());
	snprintf(group, sizeof group, "%s/n1/job_7_1", node_group);
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		run_case(&table[i], (uint32_t)i);
	agents_may_come_and_go();
	killed_shepherd_leaves_a_group_that_can_be_cleared();
	bytes_go_through_unharmed();
	tasks_have_their_own_channels_and_codes();
	slow_reader_slows_the_task();
	step_ends_with_its_srun();
	CHECK(exe_cgroup_remove(&host, node_group, &err) == 0, "%s", err.text);
	char out[100];
	const char *const left[] = {"out-000", "out-001", "out-002", "out"};
	for (size_t i = 0; i < 4; i++) {
		snprintf(out, sizeof out, "%s/%s", out_dir, left[i]);
		unlink(out);
	}
	rmdir(out_dir);
	int tmp = open("/tmp", O_RDONLY | O_DIRECTORY);
	exe_spool_remove(tmp, dir + 5, &err);
	close(tmp);
	return check_done();
}
