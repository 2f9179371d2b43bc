/* ctld/main.c: musterd: options, start, the loop, stop. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log/ctld/follow.h"
#include "log/ctld/nodekeys.h"
#include "log/ctld/setup.h"
#include "log/diag.h"
#include "proto/conf.h"
#include "proto/version.h"

static const char USAGE[] =
	"Usage: musterd [OPTIONS...]\n"
	"  -D            stay in the foreground\n"
	"  -f FILE       configuration file (default: $SLURM_CONF, /etc/muster/muster.conf)\n"
	"  -n NAME       this controller's name in SlurmctldHost (default: the host's name)\n"
	"  -t            only check the configuration with its companion files, and say what is wrong\n"
	"  -v            more messages; repeat for more\n"
	"  -c            start clean: refused, because the queue lives in the replicated log;\n"
	"                to forget a cluster remove StateSaveLocation on every controller\n"
	"  --follower    keep the history of the clusters that MusterFollow names, and answer for them\n"
	"  --clock-skew SECONDS  for tests: act as if this host's clock were off by so much\n"
	"\nHelp options:\n"
	"  -h, --help    show this help\n"
	"  -V, --version print the version and exit\n";

static void start_clean_refused(void)
{
	fprintf(stderr, "musterd: error: -c would forget every job of the cluster and is refused; to found a new cluster remove "
			"StateSaveLocation on all controllers first\n");
	exit(1);
}

static void options(struct ctl *c, int argc, char **argv)
{
	static const struct option longs[] = {{"help", no_argument, NULL, 'h'},
					      {"version", no_argument, NULL, 'V'},
					      {"clock-skew", required_argument, NULL, 1},
					      {"follower", no_argument, NULL, 2},
					      {NULL, 0, NULL, 0}};
	int o;

	while ((o = getopt_long(argc, argv, "Df:n:tvchV", longs, NULL)) != -1) {
		switch (o) {
		case 'D':
			c->opt.foreground = true;
			break;
		case 'f':
			c->opt.conf_path = optarg;
			break;
		case 'n':
			(void)snprintf(c->opt.name, sizeof c->opt.name, "%s", optarg);
			break;
		case 't':
			c->opt.check = true;
			break;
		case 'v':
			c->opt.verbose++;
			break;
		case 'c':
			start_clean_refused();
			break;
		case 1:
			c->opt.clock_skew_usec = strtoll(optarg, NULL, 10) * 1000000;
			break;
		case 2:
			c->opt.follower = true;
			break;
		case 'V':
			printf("slurm %s (muster %s)\n", MU_SLURM_VERSION, MU_VERSION);
			exit(0);
		case 'h':
			fputs(USAGE, stdout);
			exit(0);
		default:
			fprintf(stderr, "Try \"musterd --help\" for more information\n");
			exit(1);
		}
	}
	if (optind < argc) {
		fprintf(stderr, "musterd: error: \"%s\" is no option; musterd takes no words\n", argv[optind]);
		exit(1);
	}
}

/* What musterd -t ends with: 0 where every controller, node and command could read the file. */
static int check_only(struct ctl *c)
{
	struct mu_err err = {0};
	const char *path = ctl_conf_path(c->opt.conf_path);

	if (ctl_load_conf(path, &c->conf_arena, &c->conf, &err)) {
		fprintf(stderr, "musterd: error: %s\n", err.text);
		return 1;
	}
	printf("%s is right: cluster %s, controllers %zu, partitions %zu\n", path, c->conf->cluster_name, c->conf->n_controller,
	       c->conf->n_partition);
	return 0;
}

static void daemonize(void)
{
	int null;

	if (fork() > 0)
		_exit(0);
	(void)setsid();
	if (fork() > 0)
		_exit(0);
	null = open("/dev/null", O_RDWR);
	for (int fd = 0; null >= 0 && fd < 3; fd++)
		(void)dup2(null, fd);
	if (null > 2)
		close(null);
}

static void write_pid(const struct ctl *c)
{
	FILE *f = c->pid_path && *c->pid_path ? fopen(c->pid_path, "we") : NULL;

	if (!f)
		return;
	fprintf(f, "%ld\n", (long)getpid());
	fclose(f);
}

static void open_diag(struct ctl *c)
{
	const char *file = mu_conf_get(c->conf, "SlurmctldLogFile", NULL), *word = mu_conf_get(c->conf, "SlurmctldDebug", "info");
	const char *flags = mu_conf_get(c->conf, "DebugFlags", NULL), *at;
	enum diag_level level = DIAG_INFO;
	char *path = NULL;

	if (diag_level_parse(word, &level))
		diag_fatal("SlurmctldDebug=%s is none of quiet, fatal, error, info, verbose, debug, debug2 ... debug5, 0-9.", word);
	level += (enum diag_level)c->opt.verbose;
	if (file && !strcmp(file, "(null)"))
		file = NULL;
	if (file) {
		at = strstr(file, "%n");
		path = at ? mu_arena_printf(&c->conf_arena, "%.*s%s%s", (int)(at - file), file, c->opt.name, at + 2) : mu_arena_strdup(&c->conf_arena, file);
	}
	if (diag_open(c->opt.follower ? "muster-follower" : "musterd", path, level > DIAG_DEBUG5 ? DIAG_DEBUG5 : level, c->opt.foreground && c->opt.verbose))
		diag_fatal("The file %s of SlurmctldLogFile cannot be written: %m.", path);
	if (flags && strcmp(flags, "(null)") && *flags && diag_set_flags(flags))
		diag_fatal("DebugFlags=%s holds a flag that is not known.", flags);
}

static void on_tick(uv_timer_t *t)
{
	ctl_core_housekeeping(t->data);
}

static void on_check(uv_check_t *h)
{
	ctl_core_round(h->data);
}

static void on_closed(void *arg)
{
	struct ctl *c = arg;

	uv_stop(&c->loop);
}

static void on_term(uv_signal_t *s, int signum)
{
	struct ctl *c = s->data;

	if (c->closing)
		return;
	diag_info("Controller %s stops (signal %d).", c->opt.name, signum);
	c->closing = true;
	log_replica_close(c->replica, on_closed, c);
}

static void on_hup(uv_signal_t *s, int signum)
{
	(void)s;
	(void)signum;
	if (diag_reopen())
		diag_error("The message file could not be opened again.");
}

static void watch(struct ctl *c, uv_signal_t *s, uv_signal_cb cb, int signum)
{
	uv_signal_init(&c->loop, s);
	s->data = c;
	uv_signal_start(s, cb, signum);
}

static int open_replica(struct ctl *c, struct mu_err *err)
{
	struct log_config config = {
		.loop = &c->loop,
		.dir = c->raft_dir,
		.name = c->opt.name,
		.election_msec = 500,
		.heartbeat_msec = 50,
		.snapshot_bytes = 64ull << 20,
		.snapshot_entries = 8192,
		.trailing_entries = 2048,
		.found = true,
		.arg = c,
	};
	static char listen[64];
	int code = ctl_peer_address(c->self, listen, sizeof listen, err);
	const char *p;

	if (code)
		return code;
	config.listen = listen;
	auth_peer_key(c->keys.cluster_secret, config.cluster_key);
	for (size_t i = 0; i < c->conf->n_controller && i < LOG_MEMBERS_MAX; i++) {
		struct log_member *m = &config.founder[config.founders++];

		(void)snprintf(m->name, sizeof m->name, "%s", c->conf->controller[i]->name);
		code = ctl_peer_address(c->conf->controller[i], m->address, sizeof m->address, err);
		if (code)
			return code;
		m->voter = true;
	}
	p = getenv("MUSTER_SNAPSHOT_ENTRIES"); /* tests: snapshots early */
	if (p && *p) {
		config.snapshot_entries = strtoull(p, NULL, 10);
		config.trailing_entries = config.snapshot_entries / 4 + 16;
	}
	ctl_core_hooks(&config.hooks);
	code = log_replica_open(&config, &c->replica, err);
	if (!code)
		c->replica_id = log_replica_id(c->replica);
	return code;
}

/* A controller needs no privilege: it goes on as SlurmUser once its socket directory is made. */
static void drop_privilege(const struct ctl *c)
{
	const char *const dirs[] = {c->state_dir, c->raft_dir, c->view_dir};
	struct auth_user user;
	struct mu_err err = {0};

	if (geteuid() || !c->slurm_uid)
		return;
	if (auth_user_lookup(c->slurm_uid, &user, &err))
		diag_fatal("SlurmUser cannot be looked up: %s", err.text);
	for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++)
		if (chown(dirs[i], c->slurm_uid, user.gid))
			diag_fatal("The directory %s cannot be given to SlurmUser: %m.", dirs[i]);
	if (initgroups(user.user, user.gid) || setgid(user.gid) || setuid(c->slurm_uid))
		diag_fatal("This process cannot become SlurmUser (uid %u): %m.", c->slurm_uid);
}

static void run(struct ctl *c)
{
	uv_timer_init(&c->loop, &c->tick);
	c->tick.data = c;
	uv_timer_start(&c->tick, on_tick, 20, 20);
	uv_check_init(&c->loop, &c->check);
	c->check.data = c;
	uv_check_start(&c->check, on_check);
	watch(c, &c->sig_term, on_term, SIGTERM);
	watch(c, &c->sig_int, on_term, SIGINT);
	watch(c, &c->sig_hup, on_hup, SIGHUP);
	uv_run(&c->loop, UV_RUN_DEFAULT);
}

static void start_or_die(struct ctl *c)
{
	struct mu_err err = {0};

	if (view_open(c->view_dir, false, &c->view, &err) || view_load_state(c->view, &c->st, &err))
		diag_fatal("%s", err.text);
	if (sch_level(c->st) > MU_LEVEL)
		diag_fatal("The State in %s has level %u, and this program (muster %s) knows levels up to %u: a cluster's level is never lowered; start a newer musterd.",
			   c->state_dir, sch_level(c->st), MU_VERSION, MU_LEVEL);
	view_tip(c->view, &c->chain, NULL, NULL);
	ctl_node_keys_follow(c->st, NULL);
	atomic_store(&c->founded, sch_founded(c->st));
	if (ctl_project_start(c, &err) || ctl_reply_start(c, &err) || ctl_readers_start(c, &err) || open_replica(c, &err) || ctl_edge_open(c, &err) ||
	    ctl_metrics_open(c, &err))
		diag_fatal("%s", err.text);
	ctl_disk_reserve(c);
	diag_info("Controller %s of cluster %s (muster %s) starts at position %llu.", c->opt.name, c->conf->cluster_name, MU_VERSION,
		  (unsigned long long)sch_pos(c->st));
}

static void stop(struct ctl *c)
{
	ctl_metrics_close();
	wire_server_close(c->server);
	ctl_readers_stop(c);
	ctl_reply_stop(c);
	ctl_project_stop(c);
	view_close(c->view);
	if (c->pid_path && *c->pid_path)
		(void)unlink(c->pid_path);
	(void)unlink(c->socket_path);
	diag_info("Controller %s has stopped.", c->opt.name);
}

int main(int argc, char **argv)
{
	static struct ctl ctl;
	struct ctl *c = &ctl;
	struct mu_err err = {0};
	struct rlimit files = {65536, 65536};
	struct sigaction ignore = {.sa_handler = SIG_IGN};

	(void)sigaction(SIGPIPE, &ignore, NULL);
	/* Answers of megabytes come and go: their memory stays ours instead of being asked for anew each time. */
	(void)mallopt(M_MMAP_THRESHOLD, 32 << 20);
	(void)mallopt(M_TRIM_THRESHOLD, 64 << 20);
	(void)setrlimit(RLIMIT_NOFILE, &files);
	umask(022);
	(void)diag_open("musterd", NULL, DIAG_INFO, 1);
	options(c, argc, argv);
	if (c->opt.check)
		return check_only(c);
	if (c->opt.follower ? ctl_follow_setup(c, &err) : ctl_setup(c, &err)) {
		fprintf(stderr, "musterd: fatal: %s\n", err.text);
		return 1;
	}
	if (!c->opt.foreground)
		daemonize();
	open_diag(c);
	diag_catch_crashes();
	write_pid(c);
	drop_privilege(c);
	if (c->opt.follower)
		return ctl_follow_run(c);
	uv_loop_init(&c->loop);
	c->waiting_tail = &c->waiting;
	c->changes.keep_rows = true;
	ctl_post_init(c);
	start_or_die(c);
	run(c);
	stop(c);
	return 0;
}
