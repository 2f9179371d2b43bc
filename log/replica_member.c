/* log/replica_member.c: adding, promoting, removing members, handing leadership over, recovery from a lost
 * majority.
 *
 * libraft changes one server at a time and was fuzzed with all voters up; so a change begins only when every
 * voter (but the one that leaves) is connected and level. One job runs at a time; run_clock moves it on. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log/replica_int.h"

enum { DIAL_MSEC = 5000, LEVEL_MSEC = 60000, LEVEL_ENTRIES = 64 };

static const struct raft_server *server_of(const struct log_replica *r, uint64_t id)
{
	const struct raft_configuration *c = &r->raft.configuration;
	for (unsigned i = 0; i < c->n; i++)
		if (c->servers[i].id == id)
			return &c->servers[i];
	return NULL;
}

static unsigned voters(const struct log_replica *r)
{
	unsigned n = 0;
	for (unsigned i = 0; i < r->raft.configuration.n; i++)
		n += r->raft.configuration.servers[i].role == RAFT_VOTER;
	return n;
}

static bool level(struct log_replica *r, uint64_t id)
{
	return log_guard_match(r->guard, id) + LEVEL_ENTRIES >= raft_last_index(&r->raft);
}

/* Can a change begin? EXCEPT: the member that leaves. */
static int may_begin(struct log_replica *r, uint64_t except, struct mu_err *err)
{
	const struct raft_configuration *c = &r->raft.configuration;
	if (!r->raft_open || r->phase != REPLICA_RUNNING || !log_guard_settled(r->guard))
		return mu_fail(err, MU_ENOTLEADER, "this controller does not lead");
	if (r->job.kind != JOB_NONE || !log_guard_may_change(r->guard))
		return mu_fail(err, MU_EBUSY, "another change of the controllers is under way");
	for (unsigned i = 0; i < c->n; i++) {
		char address[64], name[64];
		uint64_t id = c->servers[i].id;
		if (c->servers[i].role != RAFT_VOTER || id == except || id == r->self.id)
			continue;
		replica_split(c->servers[i].address, address, name);
		if (!replica_is_up(r, id))
			return mu_fail(err, MU_ENOTREADY,
				       "controller %s (%s) does not answer: all must be up while controllers "
				       "change; start it or "
				       "remove it first",
				       name, address);
		if (!level(r, id))
			return mu_fail(err, MU_ENOTREADY, "controller %s (%s) has not caught up yet", name,
				       address);
	}
	return 0;
}

void replica_job_end(struct log_replica *r, int code)
{
	struct replica_job job = r->job;
	if (job.kind == JOB_NONE)
		return;
	memset(&r->job, 0, sizeof r->job);
	if (job.cb)
		job.cb(job.arg, code, 0);
}

static void job_begin(struct log_replica *r, enum replica_job_kind kind, uint64_t id, unsigned msec,
		      log_proposed cb, void *arg)
{
	r->job = (struct replica_job){
	    .kind = kind, .id = id, .deadline_msec = replica_now_msec(r) + msec, .cb = cb, .arg = arg};
}

static int code_of(int raft_code)
{
	switch (raft_code) {
	case 0:
		return 0;
	case RAFT_NOTLEADER:
		return MU_ENOTLEADER;
	case RAFT_CANTCHANGE:
		return MU_EBUSY;
	case RAFT_DUPLICATEID:
	case RAFT_DUPLICATEADDRESS:
		return MU_EEXIST;
	case RAFT_BADID:
	case RAFT_NOTFOUND:
		return MU_ENOENT;
	case RAFT_NOCONNECTION:
		return MU_ETIMEOUT; /* the catch-up rounds took too long */
	default:
		return MU_EUNKNOWN;
	}
}

static void changed(struct raft_change *req, int status)
{
	struct log_replica *r = req->data;
	free(req);
	if (r->job.kind == JOB_NONE || !r->job.waiting)
		return;
	r->job.waiting = false;
	if (status)
		replica_job_end(r, code_of(status));
	else
		r->job.step++;
}

/* Gives one change to libraft: role < -1 adds, -1 removes, else assigns. */
enum { CHANGE_ADD = -2, CHANGE_REMOVE = -1 };
static void change(struct log_replica *r, int role)
{
	struct raft_change *req = calloc(1, sizeof *req);
	char composed[REPLICA_ADDRESS];
	int rv;
	if (!req)
		abort();
	req->data = r;
	r->job.waiting = true;
	replica_compose(composed, r->job.member.address, r->job.member.name);
	if (role == CHANGE_ADD)
		rv = raft_add(&r->raft, req, r->job.id, composed, changed);
	else if (role == CHANGE_REMOVE)
		rv = raft_remove(&r->raft, req, r->job.id, changed);
	else
		rv = raft_assign(&r->raft, req, r->job.id, role, changed);
	if (rv) {
		free(req);
		replica_job_end(r, code_of(rv));
	}
}

/* Who answers at the new member's address? */
static void add_dial(struct log_replica *r)
{
	const struct secure_identity *who = transport_link_peer(r->job.candidate->talk);
	if (!who)
		return;
	if (!log_identity_is_zero(who->cluster) || server_of(r, who->id)) {
		replica_say(r, "the controller at %s has a log already: empty its data directory first",
			    r->job.member.address);
		replica_job_end(r, MU_EEXIST);
		return;
	}
	r->job.id = who->id;
	change(r, CHANGE_ADD);
}

static void add_tick(struct log_replica *r)
{
	if (r->job.step == 0)
		add_dial(r);
	else if (r->job.step == 1)
		change(r, RAFT_STANDBY); /* a spare gets no entries */
	else
		replica_job_end(r, 0);
}

static void promote_tick(struct log_replica *r)
{
	const struct raft_server *s = server_of(r, r->job.id);
	if (!s)
		replica_job_end(r, MU_ENOENT);
	else if (r->job.step == 0 && s->role == RAFT_SPARE)
		change(r, RAFT_STANDBY);
	else if (s->role == RAFT_VOTER)
		replica_job_end(r, 0);
	else if (level(r, r->job.id) && log_guard_may_change(r->guard))
		change(r, RAFT_VOTER);
}

void replica_job_tick(struct log_replica *r)
{
	if (r->job.kind == JOB_NONE || r->job.waiting || r->job.kind == JOB_TRANSFER)
		return;
	if (raft_state(&r->raft) != RAFT_LEADER)
		replica_job_end(r, MU_EUNKNOWN);
	else if (replica_now_msec(r) >= r->job.deadline_msec)
		replica_job_end(r, r->job.kind == JOB_ADD ? MU_ECONNECT : MU_ETIMEOUT);
	else if (r->job.kind == JOB_ADD)
		add_tick(r);
	else if (r->job.kind == JOB_PROMOTE)
		promote_tick(r);
	else if (r->job.step == 0)
		change(r, CHANGE_REMOVE);
	else
		replica_job_end(r, 0);
}

int log_replica_add(struct log_replica *r, const struct log_member *m, log_proposed cb, void *arg,
		    struct mu_err *err)
{
	int rv = may_begin(r, 0, err);
	if (rv)
		return rv;
	if (!m->name[0] || strpbrk(m->name, " \t\n"))
		return mu_fail(err, MU_EINVAL, "\"%s\" is no name for a controller", m->name);
	if (r->raft.configuration.n >= LOG_MEMBERS_MAX)
		return mu_fail(err, MU_ELIMIT, "a cluster has at most %d controllers", LOG_MEMBERS_MAX);
	for (unsigned i = 0; i < r->raft.configuration.n; i++) {
		char address[64], name[64];
		replica_split(r->raft.configuration.servers[i].address, address, name);
		if (!strcmp(name, m->name) || !strcmp(address, m->address))
			return mu_fail(err, MU_EEXIST,
				       "controller %s (%s) is a member already; remove it first", name,
				       address);
	}
	job_begin(r, JOB_ADD, m->id, DIAL_MSEC, cb, arg);
	r->job.member = *m;
	/* A fresh peer, whatever an earlier attempt has left. */
	for (struct replica_peer *p = r->peers; p; p = p->next) {
		if (strcmp(p->address, m->address))
			continue;
		replica_peer_drop(p);
		break;
	}
	r->job.candidate = replica_peer_add(r, m->id, m->address, m->name);
	return 0;
}

static int member_of(struct log_replica *r, uint64_t id, const struct raft_server **ret, struct mu_err *err)
{
	*ret = server_of(r, id);
	return *ret ? 0 : mu_fail(err, MU_ENOENT, "replica %" PRIu64 " is no member of this cluster", id);
}

int log_replica_promote(struct log_replica *r, uint64_t id, log_proposed cb, void *arg, struct mu_err *err)
{
	const struct raft_server *s;
	int rv = may_begin(r, 0, err);
	if (!rv)
		rv = member_of(r, id, &s, err);
	if (rv)
		return rv;
	if (s->role == RAFT_VOTER)
		return mu_fail(err, MU_EEXIST, "replica %" PRIu64 " votes already", id);
	job_begin(r, JOB_PROMOTE, id, LEVEL_MSEC, cb, arg);
	replica_job_tick(r);
	return 0;
}

int log_replica_remove(struct log_replica *r, uint64_t id, log_proposed cb, void *arg, struct mu_err *err)
{
	const struct raft_server *s;
	int rv = may_begin(r, id, err);
	if (!rv)
		rv = member_of(r, id, &s, err);
	if (rv)
		return rv;
	if (s->role == RAFT_VOTER && voters(r) == 1)
		return mu_fail(err, MU_EINVAL, "the last controller cannot be removed");
	if (id == r->self.id) {
		rv = log_replica_transfer(r, 0, cb, arg, err);
		if (!rv)
			r->job.step = 1; /* after it, the next leader has to be asked */
		return rv;
	}
	job_begin(r, JOB_REMOVE, id, LEVEL_MSEC, cb, arg);
	replica_job_tick(r);
	return 0;
}

/* ---- handing leadership over ---- */

static void transferred(struct raft_transfer *req)
{
	struct log_replica *r = req->data;
	raft_id leader = 0;
	const char *address;
	r->transferring = false;
	r->no_lease_until_msec = uv_hrtime() / 1000000 + 2 * r->config.election_msec;
	replica_later(r);
	if (r->job.kind != JOB_TRANSFER)
		return;
	if (r->raft_open)
		raft_leader(&r->raft, &leader, &address);
	if (raft_state(&r->raft) == RAFT_LEADER)
		replica_job_end(r, MU_ETIMEOUT);
	else
		replica_job_end(r, r->job.step ? MU_ENOTLEADER : 0);
}

int replica_transfer_begin(struct log_replica *r, uint64_t to)
{
	const struct raft_configuration *c = &r->raft.configuration;
	for (unsigned i = 0; !to && i < c->n; i++) {
		uint64_t id = c->servers[i].id;
		if (c->servers[i].role == RAFT_VOTER && id != r->self.id && replica_is_up(r, id) &&
		    (!to || log_guard_match(r->guard, id) > log_guard_match(r->guard, to)))
			to = id;
	}
	if (!to)
		return MU_ENOENT;
	if (r->transferring)
		return MU_EBUSY;
	memset(&r->transfer, 0, sizeof r->transfer);
	r->transfer.data = r;
	int rv = raft_transfer(&r->raft, &r->transfer, to, transferred);
	if (rv)
		return code_of(rv);
	r->transferring = true;
	r->no_lease_until_msec = UINT64_MAX;
	return 0;
}

int log_replica_transfer(struct log_replica *r, uint64_t to, log_proposed cb, void *arg, struct mu_err *err)
{
	const struct raft_server *s;
	int rv = may_begin(r, r->self.id, err);
	if (!rv && to)
		rv = member_of(r, to, &s, err);
	if (rv)
		return rv;
	rv = replica_transfer_begin(r, to);
	if (rv)
		return mu_fail(err, rv, "no other controller can take over now");
	job_begin(r, JOB_TRANSFER, to, 0, cb, arg);
	return 0;
}

/* ---- recovery ---- */

static int offline_init(struct raft_uv_transport *t, raft_id id, const char *address)
{
	(void)t;
	(void)id;
	(void)address;
	return 0;
}

static void offline_close(struct raft_uv_transport *t, raft_uv_transport_close_cb cb)
{
	cb(t);
}

static int force_configuration(uv_loop_t *loop, const char *raft_dir, uint64_t id, const char *composed,
			       struct mu_err *err)
{
	struct raft_uv_transport none = {.init = offline_init, .close = offline_close};
	struct raft_io io = {.version = 0};
	struct raft_fsm fsm = {.version = 1};
	struct raft raft;
	struct raft_configuration conf;
	int rv = raft_uv_init(&io, loop, raft_dir, &none);
	if (rv)
		return mu_fail(err, MU_EIO, "the log in %s cannot be used: %s", raft_dir, io.errmsg);
	raft_uv_set_auto_recovery(&io, false);
	rv = raft_init(&raft, &io, &fsm, id, composed);
	if (rv)
		return mu_fail(err, MU_EIO, "the log in %s cannot be used: %s", raft_dir, raft_strerror(rv));
	raft_configuration_init(&conf);
	rv = raft_configuration_add(&conf, id, composed, RAFT_VOTER);
	if (!rv)
		rv = raft_recover(&raft, &conf);
	if (rv)
		mu_fail(err, rv == RAFT_CORRUPT ? MU_ECORRUPT : MU_EIO,
			"the log in %s cannot be recovered: %s %s", raft_dir, raft_strerror(rv), io.errmsg);
	raft_configuration_close(&conf);
	raft_close(&raft, NULL);
	uv_run(loop, UV_RUN_DEFAULT);
	raft_uv_close(&io);
	return rv ? err->code : 0;
}

int log_replica_recover(const char *dir, const char *name, const char *address, struct mu_err *err)
{
	struct log_identity self;
	struct mu_err own = {0};
	char composed[REPLICA_ADDRESS], *raft_dir;
	bool empty;
	int lock;
	uv_loop_t loop;
	int rv = log_guard_check_library(err);
	if (!rv)
		rv = log_identity_open(dir, &self, &lock, &empty, err);
	if (rv)
		return rv;
	if (empty) {
		close(lock);
		return mu_fail(err, MU_ENOENT, "%s holds no log to recover from", dir);
	}
	if (asprintf(&raft_dir, "%s/raft", dir) < 0 || uv_loop_init(&loop))
		abort();
	self.id = log_identity_draw();
	self.generation++;
	self.founders = 0;
	self.joined = true;
	replica_compose(composed, address, name);
	/* The log first: when this is cut short, the old id finds itself no member, and recovery can be run
	 * again. */
	rv = force_configuration(&loop, raft_dir, self.id, composed, &own);
	if (rv)
		rv = mu_fail(err, own.code, "%s", own.text);
	else
		rv = log_identity_store(dir, &self, err);
	uv_loop_close(&loop);
	free(raft_dir);
	close(lock);
	return rv;
}
