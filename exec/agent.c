/* exec/agent.c: muster-agent, the program of a compute node: configuration, start, the loop.
 * Owns: one node's attempts and steps, in memory and in the spool. Leaves to others: processes (their
 * shepherds), decisions (the controllers). It may be killed at any instant: the next one goes on from the
 * spool. */
#include "exec/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/herd.h"
#include "exec/shepherd.h"
#include "exec/spool.h"
#include "log/clock.h"
#include "log/diag.h"
#include "proto/conf.h"
#include "proto/pb.h"
#include "proto/version.h"

enum { FIXED_SLOTS = 5, RETRY_CONNECT_USEC = 100000, LOOP_MAX_MSEC = 60000, CONF_FILE_MAX = 16 << 20 };

#ifndef MU_SYSCONFDIR
#define MU_SYSCONFDIR "/etc"
#endif
#ifndef MU_LIBEXECDIR
#define MU_LIBEXECDIR "/usr/libexec"
#endif

/* ---- options ---- */

static void usage(FILE *to)
{
	fprintf(to, "Usage: muster-agent [OPTIONS]\n"
		    "  -D            stay in the foreground, messages on standard error\n"
		    "  -v            say more; twice: debug messages\n"
		    "  -c            end and forget whatever the spool holds\n"
		    "  -C            print this host as a NodeName line, and end\n"
		    "  -G            print the devices of this node's gres.conf as they were found, and end\n"
		    "  -f FILE       configuration file\n"
		    "  -N NODE       be this node; else the one named like this host\n"
		    "  --emulate     be the node as configured, on fewer CPUs (local clusters and tests)\n"
		    "  --shepherd P  the shepherd program\n"
		    "Help options:\n"
		    "  -h, --help    this text\n"
		    "  -V, --version version\n");
}

static void read_options(struct agent *a, int argc, char **argv)
{
	enum { EMULATE = 256, SHEPHERD, WATCH_GPUS };
	static const struct option longs[] = {{"emulate", no_argument, NULL, EMULATE},
					      {"shepherd", required_argument, NULL, SHEPHERD},
					      {"watch-gpus", required_argument, NULL, WATCH_GPUS},
					      {"help", no_argument, NULL, 'h'},
					      {"version", no_argument, NULL, 'V'},
					      {0}};
	for (int c; (c = getopt_long(argc, argv, "DvcCGf:N:hV", longs, NULL)) != -1;)
		switch (c) {
		case 'D':
			a->foreground = true;
			break;
		case 'v':
			a->verbose++;
			break;
		case 'c':
			a->clean = true;
			break;
		case 'C':
			a->print_node = true;
			break;
		case 'G':
			a->print_gres = true;
			break;
		case 'f':
			a->conf_option = optarg;
			break;
		case 'N':
			snprintf(a->node, sizeof a->node, "%s", optarg);
			break;
		case EMULATE:
			a->emulate = true;
			break;
		case SHEPHERD:
			snprintf(a->shepherd, sizeof a->shepherd, "%s", optarg);
			break;
		case WATCH_GPUS: /* the agent started itself: exec/gpu.h */
			exit(exe_gpu_watch(optarg, EXE_GPU_FD));
		case 'h':
			usage(stdout);
			exit(0);
		case 'V':
			printf("slurm %s (muster %s)\n", MU_SLURM_VERSION, MU_VERSION);
			exit(0);
		default:
			usage(stderr);
			exit(1);
		}
	if (optind < argc) {
		fprintf(stderr, "muster-agent: error: unexpected argument %s\n", argv[optind]);
		exit(1);
	}
}

/* ---- configuration ---- */

static int read_text(const char *path, struct mu_arena *arena, const char **ret, struct mu_err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st))
		return mu_fail(err, errno == ENOENT ? MU_ENOENT : MU_EIO, "%s: %s", path, strerror(errno));
	size_t used = 0, cap = st.st_size < CONF_FILE_MAX ? (size_t)st.st_size : CONF_FILE_MAX;
	char *text = mu_arena_alloc(arena, cap + 1);
	for (ssize_t n; used < cap && (n = read(fd, text + used, cap - used)) > 0;)
		used += (size_t)n;
	close(fd);
	*ret = text;
	return 0;
}

static int read_beside(void *arg, const char *name, struct mu_arena *arena, const char **ret,
		       struct mu_err *err)
{
	const struct agent *a = arg;
	const char *slash = strrchr(a->conf_path, '/');
	char path[8192];
	if (name[0] == '/' || !slash)
		snprintf(path, sizeof path, "%s", name);
	else
		snprintf(path, sizeof path, "%.*s/%s", (int)(slash - a->conf_path), a->conf_path, name);
	return read_text(path, arena, ret, err);
}

static void note(void *arg, const char *sentence)
{
	(void)arg;
	diag(DIAG_VERBOSE, "%s", sentence);
}

static void find_conf(struct agent *a)
{
	const char *named[] = {a->conf_option, getenv("SLURM_CONF"), getenv("MUSTER_CONF")};
	static const char *const usual[] = {MU_SYSCONFDIR "/muster/muster.conf", "/etc/muster/muster.conf",
					    "/etc/slurm/slurm.conf"};
	const char *path = NULL;
	for (size_t i = 0; i < 3 && !path; i++)
		path = named[i] && named[i][0] ? named[i] : NULL;
	for (size_t i = 0; i < 3 && !path; i++)
		path = access(usual[i], R_OK) == 0 ? usual[i] : NULL;
	if (!path)
		diag_fatal("no configuration: none of SLURM_CONF, MUSTER_CONF, %s, /etc/muster/muster.conf, "
			   "/etc/slurm/slurm.conf names "
			   "a readable file; name one with -f",
			   usual[0]);
	if (!realpath(path, a->conf_path))
		diag_fatal("configuration file %s: %s", path, strerror(errno));
}

static void host_name(char out[256])
{
	if (gethostname(out, 256))
		diag_fatal("this host's name: %s", strerror(errno));
	out[255] = 0;
	out[strcspn(out, ".")] = 0;
}

static void find_node(struct agent *a)
{
	char host[256];
	host_name(host);
	for (size_t i = 0; i < a->config->n_node; i++) {
		const Mu__NodeConf *n = a->config->node[i];
		if (a->emulate && strcmp(n->name, host) == 0)
			diag_fatal(
			    "--emulate is refused: this host, %s, is itself a node of the configuration",
			    host);
		bool here = a->node[0] ? strcmp(n->name, a->node) == 0
				       : strcmp(n->name, host) == 0 ||
					     (n->hostname && strcmp(n->hostname, host) == 0);
		if (here && !a->conf)
			a->conf = n;
	}
	if (!a->conf)
		diag_fatal("%s has no NodeName=%s; name this node there or start with -N", a->conf_path,
			   a->node[0] ? a->node : host);
	snprintf(a->node, sizeof a->node, "%s", a->conf->name);
}

void agent_config_follow(struct agent *a, const Mu__Config *config)
{
	a->kill_wait_sec = config->has_kill_wait_sec ? config->kill_wait_sec : 30;
	a->heartbeat_sec = config->heartbeat_sec ? config->heartbeat_sec : 10;
	a->config->unkillable_timeout_sec =
	    config->unkillable_timeout_sec ? config->unkillable_timeout_sec : 60;
	a->config->job_file_append = config->job_file_append;
}

/* How many processes and threads a job may have: MusterPidsMax, else what leaves the host half of its
 * numbers. */
static uint32_t pids_max(const struct agent *a)
{
	unsigned long most = 0;
	const char *asked = mu_conf_get(a->config, "MusterPidsMax", NULL);
	if (asked)
		return (uint32_t)strtoul(asked, NULL, 10);
	FILE *f = fopen("/proc/sys/kernel/pid_max", "re");
	if (f && fscanf(f, "%lu", &most) != 1)
		most = 0;
	if (f)
		fclose(f);
	return (uint32_t)(most / 2);
}

static void read_conf(struct agent *a)
{
	const char *text;
	struct mu_err err = {0};
	find_conf(a);
	if (read_text(a->conf_path, &a->conf_arena, &text, &err) ||
	    mu_conf_parse(a->conf_path, text, read_beside, note, a, &a->conf_arena, &a->config, &err))
		diag_fatal("%s", err.text);
	snprintf(a->cluster, sizeof a->cluster, "%s",
		 a->config->cluster_name ? a->config->cluster_name : "cluster");
	find_node(a);
	snprintf(a->spool, sizeof a->spool, "%s",
		 mu_conf_path(mu_conf_get(a->config, "SlurmdSpoolDir", "/var/spool/muster/%n"), a->node,
			      &a->conf_arena));
	snprintf(a->run_dir, sizeof a->run_dir, "%s", mu_conf_get(a->config, "MusterRunDir", "/run/muster"));
	a->limit_cpus = mu_conf_on(a->config, "ConstrainCores", 1);
	a->limit_memory = mu_conf_on(a->config, "ConstrainRAMSpace", 1);
	a->fence_devices = mu_conf_on(a->config, "ConstrainDevices", 1);
	a->live = a->config;
	a->pids_max = pids_max(a);
	struct mu_err err2 = {0};
	if (agent_private_read(a, &err2))
		diag_fatal("%s", err2.text);
	agent_config_follow(a, a->config);
}

static void load_keys(struct agent *a)
{
	struct mu_err err = {0};
	char path[4096];
	const char *dir = mu_conf_get(a->config, "MusterKeyDir", "/etc/muster/keys");
	snprintf(path, sizeof path, "%s/cluster.pub", dir);
	if (auth_load_public(path, a->keys.cluster_public, &err))
		diag_fatal("the cluster's public key: %s", err.text);
	a->keys.has_public = true;
	snprintf(path, sizeof path, "%s/node.%s.secret", dir, a->node);
	if (auth_load_secret(path, a->keys.node_secret, a->keys.node_public, &err))
		diag_fatal("this node's key: %s", err.text);
	a->keys.has_node = true;
}

static void open_diag(struct agent *a)
{
	enum diag_level level = DIAG_INFO;
	const char *file = mu_conf_get(a->config, "SlurmdLogFile", NULL);
	if (diag_level_parse(mu_conf_get(a->config, "SlurmdDebug", "info"), &level))
		level = DIAG_INFO;
	if (a->verbose)
		level = a->verbose > 1 ? DIAG_DEBUG : DIAG_VERBOSE;
	if (file)
		file = mu_conf_path(file, a->node, &a->conf_arena);
	if (diag_open("muster-agent", file, level, a->foreground))
		diag_fatal("SlurmdLogFile=%s cannot be opened: %s", file ? file : "", strerror(errno));
	diag_catch_crashes();
}

/* ---- places ---- */

static int make_dirs(const char *path, mode_t mode)
{
	char part[4096];
	snprintf(part, sizeof part, "%s", path);
	for (char *p = part + 1; (p = strchr(p, '/')); *p++ = '/') {
		*p = 0;
		if (mkdir(part, 0755) && errno != EEXIST)
			return -errno;
	}
	return mkdir(part, mode) && errno != EEXIST ? -errno : 0;
}

static void open_spool(struct agent *a)
{
	int code = make_dirs(a->spool, 0755);
	a->spool_dir = code ? -1 : open(a->spool, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (a->spool_dir < 0)
		diag_fatal("SlurmdSpoolDir=%s: %s", a->spool, strerror(code ? -code : errno));
	a->lock_fd = openat(a->spool_dir, "agent.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (a->lock_fd < 0)
		diag_fatal("%s/agent.lock: %s", a->spool, strerror(errno));
	/* One that is being killed may still hold it for a moment. */
	for (int tries = 0; flock(a->lock_fd, LOCK_EX | LOCK_NB); tries++) {
		if (tries == 50)
			diag_fatal("another muster-agent of node %s runs here: it holds %s/agent.lock",
				   a->node, a->spool);
		clock_sleep_msec(20);
	}
	code = make_dirs(a->run_dir, 0755);
	if (code)
		diag_fatal("MusterRunDir=%s: %s", a->run_dir, strerror(-code));
}

static void find_shepherd(struct agent *a)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	self[n > 0 ? n : 0] = 0;
	char *slash = strrchr(self, '/');
	if (a->shepherd[0]) {
		char *real = realpath(a->shepherd, NULL);
		if (!real)
			diag_fatal("--shepherd %s: %s", a->shepherd, strerror(errno));
		snprintf(a->shepherd, sizeof a->shepherd, "%s", real);
		free(real);
		return;
	}
	if (slash)
		*slash = 0;
	snprintf(a->shepherd, sizeof a->shepherd, "%.4000s/muster-shepherd", self);
	if (access(a->shepherd, X_OK) == 0)
		return;
	snprintf(a->shepherd, sizeof a->shepherd, "%.4000s/../libexec/muster/muster-shepherd", self);
	if (access(a->shepherd, X_OK) == 0)
		return;
	snprintf(a->shepherd, sizeof a->shepherd, "%s", MU_LIBEXECDIR "/muster/muster-shepherd");
	if (access(a->shepherd, X_OK))
		diag_fatal("muster-shepherd is neither beside muster-agent nor at %s", a->shepherd);
}

static void go_background(void)
{
	pid_t pid = fork();
	if (pid < 0)
		diag_fatal("fork: %s", strerror(errno));
	if (pid > 0)
		_exit(0);
	setsid();
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3 && null_fd >= 0; fd++)
		dup2(null_fd, fd);
	if (null_fd > 2)
		close(null_fd);
}

static void write_pid(const struct agent *a, struct mu_arena *arena, bool there)
{
	const char *file = mu_conf_get(a->config, "SlurmdPidFile", NULL);
	if (!file)
		return;
	file = mu_conf_path(file, a->node, arena);
	if (!there) {
		unlink(file);
		return;
	}
	FILE *f = fopen(file, "we");
	if (f) {
		fprintf(f, "%d\n", getpid());
		fclose(f);
	} else {
		diag_error("SlurmdPidFile=%s: %s", file, strerror(errno));
	}
}

static void open_links(struct agent *a)
{
	const char *address[2 * 64];
	size_t n = 0, controllers = a->config->n_controller < 64 ? a->config->n_controller : 64, first = 0;
	/* Nodes begin at different controllers, so that the load spreads. */
	for (const char *p = a->node; *p; p++)
		first += (unsigned char)*p;
	for (size_t i = 0; i < controllers; i++) {
		const Mu__ControllerConf *c = a->config->controller[(first + i) % controllers];
		address[n] = mu_arena_printf(&a->conf_arena, "ipc://%s/musterd.%s.sock", a->run_dir, c->name);
		if (access(address[n] + strlen("ipc://"), F_OK) == 0)
			n++;
		address[n++] = mu_arena_printf(&a->conf_arena, "tcp://%s:%u",
					       c->addr && c->addr[0] ? c->addr : c->name, c->port);
	}
	if (n == 0)
		diag_fatal("%s names no controller: SlurmctldHost is missing", a->conf_path);
	a->poll_link = agent_link_new(address, n, &a->keys, a->node, a->wake_fd);
	a->report_link = agent_link_new(address, n, &a->keys, a->node, a->wake_fd);
	a->blob_link = agent_link_new(address, n, &a->keys, a->node, a->wake_fd);
}

static void own_signals(struct agent *a)
{
	sigset_t set;
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigaction(SIGPIPE, &ignore, NULL);
	a->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	a->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (a->signal_fd < 0 || a->wake_fd < 0)
		diag_fatal("signals: %s", strerror(errno));
	/* What a killed shepherd leaves comes to us and is waited for. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* ---- the loop ---- */

static struct agent_step *step_of_pid(struct agent *a, pid_t pid, struct agent_attempt **ret)
{
	for (*ret = a->attempt; *ret; *ret = (*ret)->next)
		for (struct agent_step *s = (*ret)->step; s; s = s->next)
			if (s->pid == pid)
				return s;
	return NULL;
}

static void reap(struct agent *a)
{
	int status;
	for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
		struct agent_attempt *t;
		if (agent_gpu_reaped(a, pid) || agent_prog_reaped(a, pid, status))
			continue;
		struct agent_step *s = step_of_pid(a, pid, &t);
		if (!s)
			continue;
		s->pid = 0;
		if (!s->ended)
			agent_attempt_step_ended(a, t, s);
	}
}

static void take_signals(struct agent *a)
{
	struct signalfd_siginfo info;
	while (read(a->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
		if (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT)
			a->stop = true;
		if (info.ssi_signo == SIGHUP && diag_reopen())
			diag_error("SlurmdLogFile cannot be opened again");
	}
	reap(a);
}

/* Frames of a shepherd; true when it says that its step is over. */
static bool hear(struct agent_step *s)
{
	uint8_t chunk[4096];
	struct stream_frame f;
	bool over = false;
	ssize_t n = recv(s->control, chunk, sizeof chunk, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		close(s->control);
		s->control = -1;
		return false;
	}
	stream_feed(&s->reader, chunk, (size_t)n);
	while (stream_next(&s->reader, &f) > 0) {
		over = over || f.kind == EXE_SHEPHERD_ENDED;
		if (f.kind == EXE_SHEPHERD_STATE)
			agent_look_hear(s, &f);
	}
	return over;
}

/* A shepherd said something, or its connection ended. An adopted one is no child: its lock tells whether it
 * lives. */
static void serve_control(struct agent *a, struct agent_attempt *t, struct agent_step *s)
{
	bool over = s->control >= 0 && hear(s);
	if (!over && s->control < 0 && s->pid < 0)
		over = !exe_herd_find(t->dir, s->order->step, &s->control);
	if (over && !s->ended)
		agent_attempt_step_ended(a, t, s);
}

static void retry_controls(struct agent *a)
{
	for (struct agent_attempt *t = a->attempt; t; t = t->next)
		for (struct agent_step *s = t->step; s; s = s->next)
			if (!s->ended && s->pid < 0 && s->control < 0)
				serve_control(a, t, s);
}

static int timeout_msec(struct agent *a)
{
	int64_t now = exe_boot_usec(), due = agent_attempts_due(a), other = agent_cluster_due(a);
	due = other < due ? other : due;
	other = agent_prog_due(a);
	due = other < due ? other : due;
	other = agent_gpu_due(a);
	due = other < due ? other : due;
	for (struct agent_attempt *t = a->attempt; t; t = t->next)
		for (struct agent_step *s = t->step; s; s = s->next)
			if (!s->ended && s->pid < 0 && s->control < 0 && now + RETRY_CONNECT_USEC < due)
				due = now + RETRY_CONNECT_USEC;
	if (a->client_count && now + AGENT_CLIENT_USEC / 4 < due)
		due = now + AGENT_CLIENT_USEC / 4; /* idle connections are looked at */
	if (due <= now)
		return 0;
	int64_t msec = (due - now + 999) / 1000;
	return msec < LOOP_MAX_MSEC ? (int)msec : LOOP_MAX_MSEC;
}

struct slots {
	struct pollfd *fd;
	size_t cap;
};

static size_t watch_controls(struct agent *a, struct slots *p, size_t n)
{
	for (struct agent_attempt *t = a->attempt; t; t = t->next)
		for (struct agent_step *s = t->step; s; s = s->next) {
			if (s->ended || s->control < 0)
				continue;
			if (n == p->cap) {
				p->cap = 2 * p->cap;
				p->fd = realloc(p->fd, p->cap * sizeof *p->fd);
				if (!p->fd)
					abort();
			}
			p->fd[n++] = (struct pollfd){s->control, POLLIN | (s->out.len ? POLLOUT : 0), 0};
		}
	return n;
}

static void serve_controls(struct agent *a, const struct slots *p, size_t from, size_t count)
{
	/* Attempts and steps neither come nor go while the list is walked in the order of the slots. */
	size_t i = from;
	for (struct agent_attempt *t = a->attempt; t; t = t->next)
		for (struct agent_step *s = t->step; s; s = s->next) {
			if (i >= from + count || s->ended || s->control < 0 || s->control != p->fd[i].fd)
				continue;
			short events = p->fd[i++].revents;
			if (events & POLLOUT)
				agent_step_flush(s);
			if (events & ~POLLOUT)
				serve_control(a, t, s);
		}
}

static void turn(struct agent *a, struct slots *p)
{
	p->fd[0] = (struct pollfd){a->signal_fd, POLLIN, 0};
	p->fd[1] = (struct pollfd){a->wake_fd, POLLIN, 0};
	p->fd[2] = (struct pollfd){a->listener, POLLIN, 0};
	p->fd[3] = (struct pollfd){a->tcp_listener, POLLIN, 0};
	p->fd[4] = (struct pollfd){a->gpu.fd, POLLIN, 0};
	size_t clients = agent_step_watch(a, p->fd + FIXED_SLOTS, AGENT_CLIENTS_MAX + AGENT_HOLDERS_MAX);
	size_t end = watch_controls(a, p, FIXED_SLOTS + clients);
	if (poll(p->fd, end, timeout_msec(a)) < 0 && errno != EINTR)
		diag_fatal("poll: %s", strerror(errno));
	uint64_t count;
	if (p->fd[1].revents && read(a->wake_fd, &count, sizeof count) < 0 && errno != EAGAIN)
		diag_fatal("eventfd: %s", strerror(errno));
	serve_controls(a, p, FIXED_SLOTS + clients, end - FIXED_SLOTS - clients);
	agent_step_serve(a, p->fd + FIXED_SLOTS, clients);
	if (p->fd[2].revents)
		agent_step_accept(a);
	if (p->fd[3].revents)
		agent_step_accept_tcp(a);
	if (p->fd[0].revents)
		take_signals(a);
	if (p->fd[4].revents)
		agent_gpu_serve(a);
	retry_controls(a);
	agent_look_turn(a);
	agent_attempts_timer(a);
	agent_prog_timer(a);
	agent_gpu_timer(a);
	agent_cluster_turn(a);
}

static void take_stock(struct agent *a)
{
	struct mu_err err = {0};
	if (exe_inventory_take(a->conf, a->emulate, mu_conf_get(a->config, "TmpFS", "/tmp"),
			       agent_gpu_start(a), &a->inventory, &err))
		diag_fatal("%s", err.text);
}

/* -C needs no configuration; what a file says of this host is not asked. */
static void print_node(void)
{
	static struct exe_inventory inv;
	Mu__NodeConf conf = MU__NODE_CONF__INIT;
	MU_CLEANUP(mu_buf_free) struct mu_buf gpus = {0};
	struct mu_err err = {0};
	char host[256];
	static const char *const how[] = {"nvml", "nvidia", "rsmi"};
	host_name(host);
	if (exe_inventory_take(&conf, false, "/tmp", NULL, &inv, &err))
		diag_fatal("%s", err.text);
	printf("NodeName=%s CPUs=%u Boards=1 SocketsPerBoard=%u CoresPerSocket=%u ThreadsPerCore=%u "
	       "RealMemory=%llu",
	       host, inv.cpus, inv.sockets, inv.cores_per_socket, inv.threads_per_core,
	       (unsigned long long)inv.real_memory_mib);
	for (size_t i = 0; i < sizeof how / sizeof *how && gpus.len == 0; i++) {
		struct mu_arena arena = {0};
		Mu__GpuReport cards = MU__GPU_REPORT__INIT;
		if (exe_gpu_source_find(how[i])->open(exe_gpu_root(), &arena, &cards, &err) == 0)
			agent_gpu_counts(&cards, &gpus);
		if (gpus.len)
			printf(" Gres=%s\nFound %s with AutoDetect=%s (a part of a GPU's name may be used "
			       "instead)",
			       (char *)gpus.data, (char *)gpus.data, how[i]);
		mu_arena_free(&arena);
	}
	int64_t up = exe_boot_usec() / 1000000;
	printf("\nUpTime=%lld-%02d:%02d:%02d\n", (long long)(up / 86400), (int)(up / 3600 % 24),
	       (int)(up / 60 % 60), (int)(up % 60));
	exe_inventory_free(&inv);
}

static void start(struct agent *a)
{
	struct mu_err err = {0};
	read_conf(a);
	open_diag(a);
	load_keys(a);
	find_shepherd(a);
	open_spool(a);
	if (exe_cgroup_probe(&a->host, &err))
		diag_fatal("%s", err.text);
	take_stock(a);
	if (!a->foreground)
		go_background();
	write_pid(a, &a->conf_arena, true);
	own_signals(a);
	a->start_usec = exe_wall_usec();
	a->register_wanted = true;
	diag_info("muster-agent %s of node %s in cluster %s: %u CPUs%s, cgroup v%d, spool %s", MU_VERSION,
		  a->node, a->cluster, a->inventory.cpus, a->emulate ? " (emulated)" : "", a->host.kind,
		  a->spool);
	agent_fence_node(a);
	agent_recover(a);
	if (agent_step_listen(a, &err))
		diag_fatal("%s", err.text);
	open_links(a);
}

/* An idle node leaves no group behind; the cluster's goes with its last node on this host. */
static void remove_groups(struct agent *a)
{
	char path[EXE_CGROUP_PATH];
	snprintf(path, sizeof path, "muster_%s/%s", a->cluster, a->node);
	exe_cgroup_prune(&a->host, path);
	snprintf(path, sizeof path, "muster_%s", a->cluster);
	exe_cgroup_prune(&a->host, path);
}

int main(int argc, char **argv)
{
	static struct agent a = {
	    .listener = -1, .tcp_listener = -1, .spool_dir = -1, .lock_fd = -1, .gpu = {.fd = -1}};
	umask(022);
	read_options(&a, argc, argv);
	diag_open("muster-agent", NULL, a.verbose > 1 ? DIAG_DEBUG : a.verbose ? DIAG_VERBOSE : DIAG_INFO, 1);
	if (a.print_node) {
		print_node();
		return 0;
	}
	if (a.print_gres) {
		read_conf(&a);
		take_stock(&a);
		agent_gpu_print(&a);
		agent_gpu_stop(&a);
		return 0;
	}
	start(&a);
	struct slots p = {.cap = FIXED_SLOTS + AGENT_CLIENTS_MAX + AGENT_HOLDERS_MAX + 64};
	p.fd = calloc(p.cap, sizeof *p.fd);
	if (!p.fd)
		abort();
	while (!a.stop)
		turn(&a, &p);
	diag_info("muster-agent of node %s stops; %zu attempts go on with their shepherds", a.node,
		  a.attempt_count);
	agent_gpu_stop(&a);
	agent_floor_save(&a);
	agent_step_close(&a);
	if (a.attempt_count == 0)
		remove_groups(&a);
	write_pid(&a, &a.conf_arena, false);
	agent_link_free(a.poll_link);
	agent_link_free(a.report_link);
	agent_link_free(a.blob_link);
	free(p.fd);
	return 0;
}
