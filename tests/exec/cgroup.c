/* tests/exec/cgroup.c: the kernel keeps the limits that exec/cgroup.h sets. Needs root and a host's control
 * groups. */
#include "exec/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/exec/check.h"

static struct exe_cgroup_host host;
static char top[128], dir[] = "/tmp/muster_cgroup_test.XXXXXX";

/* Runs WORK in a child inside PATH; its wait status. */
static int run_in(const char *path, int (*work)(void *), void *arg)
{
	struct exe_cgroup_door door;
	struct mu_err err = {0};
	int enter, status = -1;
	if (exe_cgroup_open(&host, path, &door, &err)) {
		CHECK(0, "%s", err.text);
		return -1;
	}
	fflush(stdout);
	pid_t pid = exe_cgroup_fork(&door, &enter);
	if (pid == 0)
		_exit(enter ? 99 : work(arg));
	exe_cgroup_close(&door);
	CHECK(pid > 0, "fork: %s", strerror(errno));
	waitpid(pid, &status, 0);
	return status;
}

static int eat(void *arg)
{
	size_t bytes = *(size_t *)arg;
	char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return 3;
	for (size_t i = 0; i < bytes; i += 4096)
		p[i] = 1;
	return 0;
}

static void make(const char *name, const struct exe_cgroup_limits *limits, char path[256])
{
	struct mu_err err = {0};
	snprintf(path, 256, "%s/%s", top, name);
	int code = exe_cgroup_make(&host, path, limits, &err);
	CHECK(code == 0, "%s", err.text);
}

static void memory_limit_kills_one_and_spares_its_neighbour(void)
{
	char small[256], beside[256];
	struct exe_cgroup_limits tight = {.memory_bytes = 32 << 20}, wide = {.memory_bytes = 256 << 20};
	struct exe_cgroup_usage u;
	size_t bytes = 128 << 20;
	make("job_1_1/step_0", &tight, small);
	make("job_2_1/step_0", &wide, beside);
	int status = run_in(small, eat, &bytes);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "status %x", status);
	exe_cgroup_usage(&host, small, &u);
	CHECK(u.oom_kills == 1, "the kernel counted %u", u.oom_kills);
	CHECK(u.memory_peak_bytes > 20 << 20 && u.memory_peak_bytes <= 32 << 20, "peak %llu",
	      (unsigned long long)u.memory_peak_bytes);
	status = run_in(beside, eat, &bytes);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "neighbour: status %x", status);
	exe_cgroup_usage(&host, beside, &u);
	CHECK(u.oom_kills == 0, "neighbour: %u", u.oom_kills);
	CHECK(u.memory_peak_bytes >= 128 << 20, "neighbour's peak %llu",
	      (unsigned long long)u.memory_peak_bytes);
}

static int count_cpus(void *arg)
{
	cpu_set_t set;
	(void)arg;
	sched_getaffinity(0, sizeof set, &set);
	return CPU_COUNT(&set) == 1 && CPU_ISSET(0, &set) ? 0 : 1;
}

static void cpus_are_exactly_those(void)
{
	char path[256];
	struct exe_cgroup_limits limits = {.cpus = "0"};
	make("job_3_1/step_0", &limits, path);
	CHECK(run_in(path, count_cpus, NULL) == 0, "affinity is not CPU 0 alone");
}

static int open_device(void *arg)
{
	int fd = open(arg, O_RDONLY | O_CLOEXEC);
	return fd >= 0 ? 0 : errno == EPERM ? 10 : 20;
}
static int make_device(void *arg)
{
	return mknod(arg, S_IFCHR | 0666, makedev(1, 11)) ? (errno == EPERM ? 10 : 20) : 0;
}

static void devices_are_those_allocated(const char *job)
{
	char path[256], gpu0[300], gpu1[300], gpux[300], name[64];
	/* The kernel log's numbers stand in for a card: a device that nobody gets by default and that opens
	 * without hardware. */
	snprintf(gpu0, sizeof gpu0, "%s/gpu0", dir);
	snprintf(gpu1, sizeof gpu1, "%s/gpu1", dir);
	snprintf(gpux, sizeof gpux, "%s/gpux", dir);
	unlink(gpu0);
	unlink(gpu1);
	CHECK(mknod(gpu0, S_IFCHR | 0666, makedev(10, 1023)) == 0 || errno == EEXIST, "mknod: %s",
	      strerror(errno));
	CHECK(mknod(gpu1, S_IFCHR | 0666, makedev(1, 11)) == 0 || errno == EEXIST, "mknod: %s",
	      strerror(errno));
	struct exe_device given = {'c', false, 1, 11};
	struct exe_cgroup_limits with = {.fence_devices = true, .device = &given, .device_count = 1};
	struct exe_cgroup_limits without = {.fence_devices = true};
	snprintf(name, sizeof name, "%s/step_0", job);
	make(name, &with, path);
	CHECK(WEXITSTATUS(run_in(path, open_device, gpu1)) == 0, "the allocated device does not open");
	CHECK(WEXITSTATUS(run_in(path, open_device, "/dev/null")) == 0, "/dev/null does not open");
	CHECK(WEXITSTATUS(run_in(path, open_device, "/dev/urandom")) == 0, "/dev/urandom does not open");
	CHECK(WEXITSTATUS(run_in(path, open_device, gpu0)) == 10,
	      "a device of other numbers is not refused with EPERM");
	snprintf(name, sizeof name, "%s/step_1", job);
	make(name, &without, path);
	CHECK(WEXITSTATUS(run_in(path, open_device, gpu1)) == 10,
	      "a device not allocated is not refused with EPERM");
	CHECK(WEXITSTATUS(run_in(path, make_device, gpux)) == 10, "its node can be made inside");
	CHECK(open_device(gpu1) == 0, "outside the group it must open");
}

static void fenced_parent(const char *job, const struct exe_device *device, size_t count)
{
	char path[256];
	struct exe_cgroup_limits limits = {
	    .fence_devices = true, .devices_stay = true, .device = device, .device_count = count};
	make(job, &limits, path);
}

static int fork_many(void *arg)
{
	int refused = 0;
	(void)arg;
	for (int i = 0; i < 12; i++) {
		pid_t p = fork();
		if (p == 0) {
			pause();
			_exit(0);
		}
		refused += p < 0;
	}
	return refused;
}

static void pids_are_counted_and_killed(void)
{
	char path[256];
	struct mu_err err = {0};
	struct exe_cgroup_limits limits = {.pids_max = 8};
	make("job_4_1/step_0", &limits, path);
	int status = run_in(path, fork_many, NULL);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5, "%d forks refused", WEXITSTATUS(status));
	CHECK(exe_cgroup_each(&host, path, NULL, NULL) == 7, "%u processes",
	      exe_cgroup_each(&host, path, NULL, NULL));
	CHECK(exe_cgroup_kill(&host, path, 5000, &err) == 0, "%s", err.text);
	CHECK(exe_cgroup_each(&host, path, NULL, NULL) == 0, "processes are left");
}

static int daemonise(void *arg)
{
	for (int i = 0; i < 4; i++)
		if (fork() == 0) {
			setsid();
			if (fork() == 0) {
				for (;;) /* keeps forking away from whoever kills one by one */
					if (fork() == 0)
						usleep(1000);
					else
						_exit(0);
			}
			_exit(0);
		}
	(void)arg;
	usleep(20000);
	return 0;
}

static void nothing_escapes_the_kill(const char *job)
{
	char path[256], name[64];
	struct mu_err err = {0};
	snprintf(name, sizeof name, "%s/step_0", job);
	make(name, &(struct exe_cgroup_limits){0}, path);
	run_in(path, daemonise, NULL);
	CHECK(exe_cgroup_each(&host, path, NULL, NULL) > 0, "the daemons have died by themselves");
	CHECK(exe_cgroup_kill(&host, path, 10000, &err) == 0, "%s", err.text);
	CHECK(exe_cgroup_remove(&host, path, &err) == 0, "%s", err.text);
}

static void impossible_limits_are_refused(void)
{
	char path[256];
	struct mu_err err = {0};
	struct exe_cgroup_limits limits = {.cpus = "4000"};
	snprintf(path, sizeof path, "%s/job_9_1", top);
	CHECK(exe_cgroup_make(&host, path, &limits, &err) == MU_EIO && strstr(err.text, "4000"), "%s",
	      err.text);
	struct exe_cgroup_host poor = host;
	poor.mount[EXE_MEMORY][0] = 0;
	limits = (struct exe_cgroup_limits){.memory_bytes = 1 << 20};
	CHECK(exe_cgroup_make(&poor, path, &limits, &err) == MU_EIO && strstr(err.text, "memory controller"),
	      "%s", err.text);
	char deep[2000];
	memset(deep, 'x', sizeof deep - 1);
	deep[sizeof deep - 1] = 0;
	CHECK(exe_cgroup_make(&host, deep, &limits, &err) == MU_ELIMIT, "%s", err.text);
}

static void frozen_means_stopped(const char *job)
{
	char path[256], name[64];
	struct exe_cgroup_door door;
	struct mu_err err = {0};
	int enter;
	snprintf(name, sizeof name, "%s/step_0", job);
	make(name, &(struct exe_cgroup_limits){0}, path);
	volatile unsigned *count =
	    mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	exe_cgroup_open(&host, path, &door, &err);
	pid_t pid = exe_cgroup_fork(&door, &enter);
	if (pid == 0)
		for (;; usleep(100))
			++*count;
	exe_cgroup_close(&door);
	while (*count == 0)
		usleep(1000);
	CHECK(exe_cgroup_freeze(&host, path, true, &err) == 0, "%s", err.text);
	unsigned stood = *count;
	usleep(50000);
	CHECK(*count == stood, "a frozen process went on");
	CHECK(exe_cgroup_freeze(&host, path, false, &err) == 0, "%s", err.text);
	while (*count == stood)
		usleep(1000);
	CHECK(exe_cgroup_signal(&host, path, SIGTERM) == 1, "it is not alone");
	CHECK(waitpid(pid, NULL, 0) == pid, "it does not die");
}

static void nothing_is_left(void)
{
	struct mu_err err = {0};
	CHECK(exe_cgroup_remove(&host, top, &err) == 0, "%s", err.text);
	for (int c = 0; c < EXE_CONTROLLERS; c++) {
		char name[400];
		snprintf(name, sizeof name, "%s/%s", host.mount[c], top);
		CHECK(!host.mount[c][0] || access(name, F_OK) != 0, "%s is still there", name);
	}
}

int main(int argc, char **argv)
{
	struct mu_err err = {0};
	if (getuid() != 0 || exe_cgroup_probe(&host, &err)) {
		printf("skipped: %s\n", getuid() ? "not root" : err.text);
		return CHECK_SKIP;
	}
	if (!mkdtemp(dir))
		return 1;
	snprintf(top, sizeof top, "muster_test%d", getpid());
	printf("control groups version %d\n", host.kind);
	memory_limit_kills_one_and_spares_its_neighbour();
	cpus_are_exactly_those();
	devices_are_those_allocated("job_5_1");
	/* The same below a group that lets some through already: what is not wanted is struck, what is
	 * missing added. */
	struct exe_device some[] = {{'c', false, 10, 1023}, {'c', false, 1, 11}};
	fenced_parent("job_51_1", &some[1], 1);
	devices_are_those_allocated("job_51_1");
	fenced_parent("job_52_1", some, 2);
	devices_are_those_allocated("job_52_1");
	pids_are_counted_and_killed();
	nothing_escapes_the_kill("job_6_1");
	frozen_means_stopped("job_7_1");
	impossible_limits_are_refused();
	nothing_is_left();
	/* The unified half of a hybrid host: device fence, freezer and kill need no controller. */
	if (host.kind == EXE_CGROUP_V1 && exe_cgroup_probe_v2("/sys/fs/cgroup/unified", &host, &err) == 0) {
		devices_are_those_allocated("job_5_1");
		nothing_escapes_the_kill("job_6_1");
		frozen_means_stopped("job_7_1");
		nothing_is_left();
	}
	char command[300];
	const char *const made[] = {"gpu0", "gpu1", "gpux"};
	for (size_t i = 0; i < 3; i++) {
		snprintf(command, sizeof command, "%s/%s", dir, made[i]);
		unlink(command);
	}
	rmdir(dir);
	return check_done();
}
