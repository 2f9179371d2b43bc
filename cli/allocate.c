/* cli/allocate.c: allocations without a script. */
#include "cli/allocate.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "cli/spec.h"
#include "proto/pb.h"
#include "proto/states.h"

enum {
	AT_ONCE_MSEC = 1000, /* what starts within this time has not waited */
	ROUND_MSEC = 1000,   /* one question while waiting; an interrupt is seen between two */
	LOST_SEC = 300,
	READY_TRIES = 600,
	READY_FIRST_MSEC = 20,
	READY_LAST_MSEC = 500,
	GOODBYE_MSEC = 5000
};

static void pause_msec(unsigned msec)
{
	nanosleep(&(struct timespec){.tv_sec = msec / 1000, .tv_nsec = msec % 1000 * 1000000L}, NULL);
}

static bool is_salloc(const struct cli *c)
{
	return c->command == MU_SALLOC;
}

static void refuse(const struct cli *c, const char *text)
{
	cli_error(c, "%s: %s", is_salloc(c) ? "Job submit/allocate failed" : "Unable to allocate resources",
		  text);
}

/* ---- signals while waiting ---- */

static int open_signals(void)
{
	static const int numbers[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		sigaddset(&set, numbers[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static bool interrupted(const struct cli_allocation *a)
{
	struct pollfd p = {a->signals, POLLIN, 0};

	return poll(&p, 1, 0) > 0;
}

/* ---- giving back ---- */

static void cancel(struct cli *c, uint32_t job)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__KillAsk ask = MU__KILL_ASK__INIT;
	Mu__JobSignal signal = MU__JOB_SIGNAL__INIT;
	Mu__Reply *reply;
	struct mu_err err = {0};

	signal.job = &job;
	signal.n_job = 1;
	ask.signal = &signal;
	request.ask_case = MU__REQUEST__ASK_KILL;
	request.kill = &ask;
	if (cli_ask(c, &request, &reply, &err))
		cli_error(c, "Job %u could not be given back: %s", job, err.text);
}

void cli_allocation_hear(struct cli_allocation *a)
{
	uint8_t chunk[1024];
	struct stream_frame f;
	ssize_t n = recv(a->fd, chunk, sizeof chunk, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		close(a->fd);
		a->fd = -1;
		return;
	}
	stream_feed(&a->reader, chunk, (size_t)n);
	while (stream_next(&a->reader, &f) > 0)
		if (f.kind == STREAM_OVER)
			a->over = stream_get_u32(&f, &a->cause) == 0;
}

void cli_allocation_release(struct cli *c, struct cli_allocation *a, int code)
{
	struct mu_buf out MU_CLEANUP(mu_buf_free) = {0};
	int64_t until = cli_mono_msec() + GOODBYE_MSEC;

	if (a->over)
		return;
	stream_put_u32(&out, STREAM_RELEASE, 0, (uint32_t)code);
	if (a->fd < 0)
		cli_allocation_again(c, a);
	if (a->over)
		return;
	if (a->fd < 0 || stream_write_all(a->fd, out.data, out.len, NULL)) {
		cancel(c, a->job.job);
		return;
	}
	while (a->fd >= 0 && !a->over && cli_mono_msec() < until) {
		struct pollfd p = {a->fd, POLLIN, 0};

		if (poll(&p, 1, (int)(until - cli_mono_msec())) > 0)
			cli_allocation_hear(a);
	}
	if (a->fd >= 0 && !a->over) /* Its node hangs: the controllers are told. */
		cancel(c, a->job.job);
}

void cli_allocation_done(struct cli *c, struct cli_allocation *a)
{
	if (a->fd >= 0)
		close(a->fd);
	c->stop = NULL;
	if (a->signals >= 0)
		close(a->signals);
	stream_reader_free(&a->reader);
}

/* ---- waiting ---- */

static void say_revoked(const struct cli *c, uint32_t job)
{
	cli_say(c, "Job allocation %u has been revoked%s", job, is_salloc(c) ? "." : "");
}

static void say_queued(const struct cli *c, uint32_t job)
{
	if (c->quiet)
		return;
	if (is_salloc(c))
		cli_say(c, "Pending job allocation %u", job);
	cli_say(c, "job %u queued and waiting for resources", job);
}

/* When --immediate gives up: milliseconds from now, -1 never. */
static int64_t patience(const struct cli_args *args)
{
	const struct cli_given *g = cli_args_last(args, OPT_immediate);

	long seconds = g && g->value ? strtol(g->value, NULL, 10) : 0;

	if (!g)
		return -1;
	return seconds > 0 ? (int64_t)seconds * 1000 : AT_ONCE_MSEC;
}

/* 0 when it runs; else everything is said. */
static int wait_start(struct cli *c, const struct cli_args *args, struct cli_allocation *a)
{
	int64_t lost_usec = 0, began = cli_mono_msec(), give_up = patience(args);
	bool told = false;

	for (;;) {
		struct mu_err err = {0};
		int rc = cli_job_ask(c, &a->job, 2, told ? ROUND_MSEC : AT_ONCE_MSEC, &err);

		if (interrupted(a)) {
			cancel(c, a->job.job);
			say_revoked(c, a->job.job);
			return 1;
		}
		if (rc == MU_ECONNECT || rc == MU_ETIMEOUT || rc == MU_ENOTREADY || rc == MU_ENOTLEADER) {
			lost_usec = lost_usec ? lost_usec : cli_now_usec();
			if (cli_now_usec() - lost_usec < LOST_SEC * INT64_C(1000000)) {
				pause_msec(ROUND_MSEC);
				continue;
			}
		}
		if (rc) {
			refuse(c, err.text);
			return 1;
		}
		lost_usec = 0;
		if (mu_job_state_ended(a->job.row->state) || a->job.row->state == JOB_COMPLETING) {
			say_revoked(c, a->job.job);
			return 1;
		}
		if (a->job.row->state == JOB_RUNNING && a->job.row->n_alloc)
			break;
		if (give_up >= 0 && cli_mono_msec() - began >= give_up) {
			cancel(c, a->job.job);
			refuse(c, mu_strerror(MU_ENODEBUSY));
			return 1;
		}
		if (!told)
			say_queued(c, a->job.job);
		told = true;
	}
	if (told && !c->quiet)
		cli_say(c, "job %u has been allocated resources", a->job.job);
	return 0;
}

static int ask_hold(struct cli *c, struct cli_allocation *a, bool hold, struct mu_err *err)
{
	Mu__HoldAsk ask = MU__HOLD_ASK__INIT;
	struct mu_buf body MU_CLEANUP(mu_buf_free) = {0};
	struct stream_reader reader = {0};
	Mu__StepGranted *granted;
	int fd = -1, rc;

	ask.has_job = ask.has_look_only = 1;
	ask.job = a->job.job;
	ask.look_only = !hold;
	mu_pb_pack(&ask.base, &body);
	rc = cli_door_ask(c, &a->job, &a->job.first, STREAM_HOLD, (struct mu_view){body.data, body.len}, &fd,
			  &reader, &granted, err);
	if (rc)
		return rc;
	stream_reader_free(&a->reader);
	a->fd = fd;
	a->reader = reader;
	return 0;
}

int cli_allocation_again(struct cli *c, struct cli_allocation *a)
{
	int rc = ask_hold(c, a, true, NULL);

	if (rc == MU_EJOBID || rc == MU_EALREADYDONE) {
		a->over = true;
		a->cause = END_CANCEL;
	}
	return rc;
}

/* The node knows nothing of it, or no more: does it still run? */
static bool is_over(struct cli *c, struct cli_allocation *a)
{
	struct mu_err err = {0};

	return cli_job_ask(c, &a->job, 2, 0, &err) == 0 && a->job.row->state != JOB_RUNNING;
}

/* The first node's agent has the order and holds the allocation. Its prolog may take as long as it likes. */
static int wait_ready(struct cli *c, struct cli_allocation *a, bool hold, struct mu_err *err)
{
	unsigned msec = READY_FIRST_MSEC;
	bool told = false;
	int rc;

	for (int tries = 0;; tries++) {
		rc = ask_hold(c, a, hold, err);
		if (rc == 0)
			return 0;
		if (rc == MU_EJOBID && told && is_over(c, a))
			return mu_fail(err, MU_EALREADYDONE, "%s", mu_strerror(MU_EALREADYDONE));
		tries -= rc > 0 && tries > 5;
		if ((rc < 0 && rc != MU_EJOBID && rc != MU_ECONNECT) || tries == READY_TRIES ||
		    interrupted(a))
			return rc < 0 ? rc : mu_fail(err, MU_ENODEBUSY, "%s", mu_strerror(MU_ENODEBUSY));
		if (tries > 4 && !told && is_salloc(c) && !c->quiet && !is_over(c, a))
			cli_say(c, "Waiting for resource configuration");
		told = told || tries > 4;
		pause_msec(msec);
		msec = msec * 2 < READY_LAST_MSEC ? msec * 2 : READY_LAST_MSEC;
	}
}

static int submit(struct cli *c, Mu__JobSpec *spec, Mu__JobSpec **others, size_t count, uint32_t *ret_job)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__SubmitAsk ask = MU__SUBMIT_ASK__INIT;
	Mu__Reply *reply = NULL;
	struct mu_err err = {0};

	ask.spec = spec;
	ask.component = others;
	ask.n_component = count;
	request.ask_case = MU__REQUEST__ASK_SUBMIT;
	request.submit = &ask;
	if (cli_ask(c, &request, &reply, &err)) {
		refuse(c, err.text);
		return 1;
	}
	if (reply->code) {
		const char *fixed = mu_strerror(reply->code);

		if (reply->text && *reply->text && strcmp(reply->text, fixed) != 0)
			cli_error(c, "%s", reply->text);
		refuse(c, fixed);
		return 1;
	}
	*ret_job = reply->job;
	return 0;
}

void cli_say_test(const struct cli *c, const Mu__Reply *reply)
{
	char when[32];

	mu_date_print(reply->start_usec, &cli_zone, when);
	cli_say(c, "Job %u to start at %s using %u processors on nodes %s in partition %s", reply->job, when,
		reply->cpus, reply->nodes ? reply->nodes : "", reply->partition ? reply->partition : "");
}

int cli_allocate_test(struct cli *c, Mu__JobSpec *spec)
{
	Mu__Request request = MU__REQUEST__INIT;
	Mu__SubmitAsk ask = MU__SUBMIT_ASK__INIT;
	Mu__Reply *reply = NULL;
	struct mu_err err = {0};

	ask.spec = spec;
	ask.has_test_only = ask.test_only = 1;
	request.ask_case = MU__REQUEST__ASK_SUBMIT;
	request.submit = &ask;
	if (cli_ask(c, &request, &reply, &err) || reply->code) {
		const char *text = reply && reply->text && *reply->text ? reply->text : err.text;

		fprintf(stderr, "allocation failure: %s\n",
			*text ? text : mu_strerror(reply ? reply->code : err.code));
		return 1;
	}
	cli_say_test(c, reply);
	return 0;
}

int cli_allocate(struct cli *c, const struct cli_args *args, Mu__JobSpec *spec, Mu__JobSpec **others,
		 size_t count, bool hold, struct cli_allocation *a, int *ret_exit)
{
	struct mu_err err = {0};
	int rc;

	*a = (struct cli_allocation){.fd = -1, .signals = -1};
	*ret_exit = 1;
	a->signals = open_signals();
	c->stop = a->signals >= 0 ? &a->signals : NULL;
	if (submit(c, spec, others, count, &a->job.job))
		return 1;
	if (wait_start(c, args, a))
		return 1;
	if (is_salloc(c) && !c->quiet)
		cli_say(c, "Granted job allocation %u", a->job.job);
	rc = cli_job_door(c, &a->job, &err);
	if (!rc)
		rc = wait_ready(c, a, hold, &err);
	if (rc == MU_EALREADYDONE || (rc && interrupted(a))) {
		say_revoked(c, a->job.job);
		cancel(c, a->job.job);
		return 1;
	}
	if (rc) {
		cli_error(c, "Job %u: its first node %s cannot be used: %s", a->job.job,
			  a->job.first.node ? a->job.first.node : "", err.text);
		cancel(c, a->job.job);
		return 1;
	}
	*ret_exit = 0;
	return 0;
}
