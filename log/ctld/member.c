/* ctld/member.c: controllers among themselves: who is there, membership, levels, digests, and what an operator tells one of them. */
#include "log/ctld/setup.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "log/diag.h"
#include "proto/base/map.h"
#include "proto/version.h"

/* ---- ping ---- */
static Mu__ControllerState *state_of(struct ctl *c, struct ctl_req *req, const struct log_member *m)
{
	Mu__ControllerState *s = mu_arena_alloc(&req->arena, sizeof *s);
	struct ctl_peer *p = m->id == c->replica_id ? NULL : ctl_peer_of(c, m->id);
	bool up = m->id == c->replica_id || log_replica_peer_up(c->replica, m->id);

	mu__controller_state__init(s);
	s->has_replica = s->has_term = s->has_pos = s->has_level = s->has_voter = s->has_clock_offset_usec = 1;
	s->replica = m->id;
	s->name = mu_arena_strdup(&req->arena, m->name);
	s->address = mu_arena_strdup(&req->arena, m->address);
	s->voter = m->voter;
	s->term = c->term;
	s->pos = p ? p->pos : sch_pos(c->st);
	s->level = p ? p->level : MU_LEVEL;
	s->clock_offset_usec = p ? ctl_peer_offset_usec(p, ctl_wall_usec(c)) : 0;
	s->version = MU_VERSION;
	s->role = !up ? "down" : m->id == c->leader ? "leader" : m->voter ? "follower" : "spare";
	return s;
}

static void fill_members(struct ctl *c, struct ctl_req *req, Mu__PingReply *ping)
{
	struct log_member m[LOG_MEMBERS_MAX];
	size_t n = log_replica_members(c->replica, m, LOG_MEMBERS_MAX);
	char flags[1024];

	ping->controller = mu_arena_alloc(&req->arena, (n + 1) * sizeof *ping->controller);
	for (size_t i = 0; i < n; i++)
		ping->controller[ping->n_controller++] = state_of(c, req, &m[i]);
	ping->cluster = c->conf->cluster_name;
	diag_flags_print(flags, sizeof flags);
	ping->debug_flags = mu_arena_strdup(&req->arena, flags);
	ping->debug_level = mu_arena_strdup(&req->arena, diag_level_word(diag_get_level()));
	ping->has_leader = ping->has_self = 1;
	ping->leader = c->leader;
	ping->self = c->replica_id;
}

void ctl_ping(struct ctl *c, struct ctl_req *req)
{
	Mu__Reply reply = MU__REPLY__INIT;
	Mu__PingReply ping = MU__PING_REPLY__INIT;

	fill_members(c, req, &ping);
	reply.answer_case = MU__REPLY__ANSWER_PING;
	reply.ping = &ping;
	ctl_req_answer(c, req, &reply);
}

/* ---- membership ---- */
static uint64_t member_by_name(struct ctl *c, const char *name);

struct member_op {
	struct ctl *ctl;
	struct ctl_req *req;
};

static void on_member(void *arg, int code, uint64_t pos)
{
	struct member_op *op = arg;

	(void)pos;
	ctl_req_fail(op->ctl, op->req, code, code ? NULL : "");
	free(op);
}

/* An added controller becomes a voter as soon as it is level; who cannot wait for that asks again with promote. */
static void on_promoted(void *arg, int code, uint64_t pos)
{
	struct log_member *m = arg;

	(void)pos;
	if (code)
		diag_error("Controller %s was added but is no voter yet: %s; `muster controller promote %s` tries again.", m->name,
			   mu_strerror(code), m->name);
	else
		diag_info("Controller %s votes now.", m->name);
	free(m);
}

static void promote_added(struct ctl *c, const char *name)
{
	struct log_member *m = calloc(1, sizeof *m);
	struct mu_err err = {0};
	int code;

	if (!m)
		abort();
	(void)snprintf(m->name, sizeof m->name, "%s", name);
	code = log_replica_promote(c->replica, member_by_name(c, name), on_promoted, m, &err);
	if (code) {
		diag_error("Controller %s was added but cannot become a voter now: %s", name, err.text);
		free(m);
	}
}

static void on_added(void *arg, int code, uint64_t pos)
{
	struct member_op *op = arg;
	struct ctl *c = op->ctl;

	(void)pos;
	struct mu_err err = {0};

	if (!code)
		promote_added(c, op->req->request->member->name);
	if (code == MU_ECONNECT)
		(void)mu_fail(&err, code, "No controller answers there; start its musterd with an empty directory, then add it.");
	ctl_req_fail(c, op->req, code, code == MU_ECONNECT ? err.text : code ? NULL : "");
	free(op);
}

static uint64_t member_by_name(struct ctl *c, const char *name)
{
	struct log_member m[LOG_MEMBERS_MAX];
	size_t n = log_replica_members(c->replica, m, LOG_MEMBERS_MAX);

	for (size_t i = 0; i < n; i++)
		if (name && !strcmp(m[i].name, name))
			return m[i].id;
	return 0;
}

/* Name and peer address of the controller to add; the address comes from SlurmctldHost when the request gives none. */
static int new_member(const struct ctl *c, const Mu__MemberAsk *ask, struct log_member *ret, struct mu_err *err)
{
	const Mu__Config *held = sch_config(c->st);

	if (!ask->name || !*ask->name)
		return mu_fail(err, MU_EINVAL, "Which controller is to be added? Give its name in SlurmctldHost.");
	(void)snprintf(ret->name, sizeof ret->name, "%s", ask->name);
	if (ask->address && *ask->address) {
		(void)snprintf(ret->address, sizeof ret->address, "%s", ask->address);
		return 0;
	}
	for (unsigned k = 0; k < 2; k++) {
		const Mu__Config *conf = k ? c->conf : held;

		for (size_t i = 0; conf && i < conf->n_controller; i++)
			if (!strcmp(conf->controller[i]->name, ask->name))
				return ctl_peer_address(conf->controller[i], ret->address, sizeof ret->address, err);
	}
	return mu_fail(err, MU_ENOENT, "%s is no controller of the configuration; give its address (ip:peerport) too.", ask->name);
}

void ctl_member(struct ctl *c, struct ctl_req *req)
{
	const Mu__MemberAsk *ask = req->request->member;
	struct member_op *op;
	struct mu_err err = {0};
	uint64_t id = ask->replica ? ask->replica : member_by_name(c, ask->name);
	const char *verb = ask->verb ? ask->verb : "list";
	int code;

	if (!strcmp(verb, "list")) {
		ctl_ping(c, req);
		return;
	}
	if (!req->author->operator_) {
		ctl_req_fail(c, req, MU_EPERM, NULL);
		return;
	}
	op = calloc(1, sizeof *op);
	if (!op)
		abort();
	op->ctl = c;
	op->req = req;
	if (!id && ask->name && *ask->name && strcmp(verb, "add")) {
		code = mu_fail(&err, MU_ENOENT, "%s is no member of this cluster; list shows them.", ask->name);
	} else if (!strcmp(verb, "add")) {
		struct log_member m = {.id = ask->replica, .voter = false};

		code = new_member(c, ask, &m, &err);
		if (!code)
			code = log_replica_add(c->replica, &m, on_added, op, &err);
	} else if (!strcmp(verb, "promote")) {
		code = log_replica_promote(c->replica, id, on_member, op, &err);
	} else if (!strcmp(verb, "remove")) {
		code = log_replica_remove(c->replica, id, on_member, op, &err);
	} else if (!strcmp(verb, "transfer") && id == c->replica_id && c->role == LOG_LEADER) {
		free(op); /* it leads already */
		ctl_req_fail(c, req, 0, NULL);
		return;
	} else if (!strcmp(verb, "transfer")) {
		code = log_replica_transfer(c->replica, id, on_member, op, &err);
	} else {
		code = mu_fail(&err, MU_EINVAL, "\"%s\" is no membership verb; add, promote, remove, transfer and list are.", verb);
	}
	if (code) {
		free(op);
		ctl_req_fail(c, req, code, err.text);
	}
}

/* ---- control of this one controller ---- */
void ctl_control(struct ctl *c, struct ctl_req *req)
{
	const Mu__ControlAsk *ask = req->request->control;
	const char *verb = ask->verb ? ask->verb : "", *arg = ask->arg ? ask->arg : "";
	enum diag_level level;

	if (!req->author->operator_) {
		ctl_req_fail(c, req, MU_EPERM, NULL);
	} else if (!strcmp(verb, "setdebug")) {
		if (diag_level_parse(arg, &level)) {
			ctl_req_fail(c, req, MU_EINVAL, "The debug level is none of quiet, fatal, error, info, verbose, debug, debug2 ... debug5, 0-9.");
			return;
		}
		diag_set_level(level);
		diag_info("The debug level is %s, as %s asked.", arg, req->author->user ? req->author->user : "?");
		ctl_req_fail(c, req, 0, NULL);
	} else if (!strcmp(verb, "setdebugflags")) {
		if (diag_set_flags(arg))
			ctl_req_fail(c, req, MU_EINVAL, "A debug flag is not known.");
		else
			ctl_req_fail(c, req, 0, NULL);
	} else if (!strcmp(verb, "backup")) {
		ctl_backup(c, req);
	} else if (!strcmp(verb, "shutdown")) {
		ctl_req_fail(c, req, 0, NULL);
		raise(SIGTERM);
	} else {
		ctl_req_fail(c, req, MU_EINVAL, "The controller does not know this control word.");
	}
}

/* ---- digests ---- */
void ctl_digest_ask(struct ctl *c, struct ctl_req *req)
{
	Mu__Reply reply = MU__REPLY__INIT;
	Mu__DigestReply d = MU__DIGEST_REPLY__INIT;
	struct mu_hash digest;

	sch_digest(c->st, &digest);
	d.has_pos = d.has_digest = d.has_chain = d.has_replica = d.has_level = 1;
	d.pos = sch_pos(c->st);
	d.digest.data = digest.b;
	d.digest.len = sizeof digest.b;
	d.chain.data = c->chain.b;
	d.chain.len = sizeof c->chain.b;
	d.replica = c->replica_id;
	d.level = sch_level(c->st);
	reply.answer_case = MU__REPLY__ANSWER_DIGEST;
	reply.digest = &d;
	ctl_req_answer(c, req, &reply);
}

/* What the controllers said of one announced position. */
struct said {
	uint64_t pos;
	struct {
		uint64_t id;
		struct mu_hash digest, chain;
	} by[LOG_MEMBERS_MAX];
	unsigned n;
};
static struct said *said_of(uint64_t pos)
{
	static struct said ring[8];
	struct said *s = &ring[(pos / CTL_DIGEST_EVERY) % 8];

	if (s->pos != pos)
		*s = (struct said){.pos = pos};
	return s;
}

static void compare(struct ctl *c, const struct said *s)
{
	struct log_member m[LOG_MEMBERS_MAX];
	size_t members = log_replica_members(c->replica, m, LOG_MEMBERS_MAX), voters = 0;
	int mine = -1;
	unsigned like_me = 0, best = 0;

	for (size_t i = 0; i < members; i++)
		voters += m[i].voter;
	for (unsigned i = 0; i < s->n; i++)
		if (s->by[i].id == c->replica_id)
			mine = (int)i;
	if (mine < 0)
		return;
	for (unsigned i = 0; i < s->n; i++) {
		unsigned same = 0;

		for (unsigned j = 0; j < s->n; j++)
			same += !memcmp(&s->by[i].digest, &s->by[j].digest, 32) && !memcmp(&s->by[i].chain, &s->by[j].chain, 32);
		if ((int)i == mine)
			like_me = same;
		if (same > best)
			best = same;
	}
	if (like_me == s->n || like_me * 2 > voters)
		return;
	if (best * 2 > voters)
		diag_fatal("At position %llu this controller's State differs from the majority's; remove it and add it again with an empty disk.",
			   (unsigned long long)s->pos);
	if (s->n == voters && !c->suspect) {
		diag_error("At position %llu no majority of controllers agrees about the State; requests are refused, jobs go on.",
			   (unsigned long long)s->pos);
		c->suspect = true;
	}
}

static void said_add(struct ctl *c, uint64_t pos, uint64_t id, const uint8_t *digest, const uint8_t *chain)
{
	struct said *s = said_of(pos);

	for (unsigned i = 0; i < s->n; i++)
		if (s->by[i].id == id)
			return;
	if (s->n == LOG_MEMBERS_MAX)
		return;
	s->by[s->n].id = id;
	memcpy(s->by[s->n].digest.b, digest, 32);
	memcpy(s->by[s->n].chain.b, chain, 32);
	s->n++;
	compare(c, s);
}

void ctl_digest_check(struct ctl *c, uint64_t pos)
{
	struct log_member m[LOG_MEMBERS_MAX];
	size_t n = log_replica_members(c->replica, m, LOG_MEMBERS_MAX);
	uint8_t bytes[8 + 32 + 32];
	struct mu_hash digest;

	sch_digest(c->st, &digest);
	mu_put_be64(bytes, pos);
	memcpy(bytes + 8, digest.b, 32);
	memcpy(bytes + 40, c->chain.b, 32);
	for (size_t i = 0; i < n; i++)
		if (m[i].id != c->replica_id)
			(void)log_replica_send(c->replica, m[i].id, CTL_PEER_DIGEST, (struct mu_view){bytes, sizeof bytes});
	said_add(c, pos, c->replica_id, digest.b, c->chain.b);
	if (c->leader_ready) { /* for the record: offline replay compares with it */
		Mu__Author author = MU__AUTHOR__INIT;
		Mu__Event event = MU__EVENT__INIT;
		Mu__DigestAnnounced d = MU__DIGEST_ANNOUNCED__INIT;

		author.verifier = "controller";
		event.author = &author;
		event.kind_case = MU__EVENT__KIND_DIGEST_ANNOUNCED;
		event.digest_announced = &d;
		d.has_pos = d.has_chain = d.has_digest = 1;
		d.pos = pos;
		d.chain = (ProtobufCBinaryData){32, c->chain.b};
		d.digest = (ProtobufCBinaryData){32, digest.b};
		ctl_propose_event(c, &event, NULL);
	}
}

void ctl_digest_from_peer(struct ctl *c, uint64_t from, struct mu_view bytes)
{
	uint64_t pos;

	if (bytes.len != 8 + 32 + 32)
		return;
	pos = mu_get_be64(bytes.data);
	if (pos % CTL_DIGEST_EVERY || pos + 8 * CTL_DIGEST_EVERY < sch_pos(c->st))
		return;
	said_add(c, pos, from, bytes.data + 8, bytes.data + 40);
}

/* ---- levels ---- */
static uint32_t voter_level(struct ctl *c, uint64_t id)
{
	const Mu__ClusterRow *row = sch_cluster(c->st);

	for (size_t i = 0; i < row->n_voter; i++)
		if (row->voter[i]->replica == id)
			return row->voter[i]->level;
	return 0;
}

static void own_event(struct ctl *c, Mu__Event *event)
{
	Mu__Author author = MU__AUTHOR__INIT;

	author.verifier = "controller";
	author.has_operator_ = author.operator_ = 1;
	event->author = &author;
	ctl_propose_event(c, event, NULL);
	ctl_propose_flush(c, true);
}

/* The leader logs which level each voter's program knows, and raises the State's level when all know more. */
void ctl_level_housekeeping(struct ctl *c)
{
	struct log_member m[LOG_MEMBERS_MAX];
	size_t n;
	uint32_t lowest = UINT32_MAX;
	static int64_t last_msec;

	if (!c->leader_ready || c->role != LOG_LEADER || c->in_flight >= CTL_IN_FLIGHT / 2 || ctl_mono_msec() - last_msec < 1000)
		return;
	last_msec = ctl_mono_msec();
	n = log_replica_members(c->replica, m, LOG_MEMBERS_MAX);
	for (size_t i = 0; i < n; i++) {
		struct ctl_peer *p = m[i].id == c->replica_id ? NULL : ctl_peer_of(c, m[i].id);
		uint32_t level = p ? p->level : MU_LEVEL, known = voter_level(c, m[i].id);

		if (!m[i].voter)
			continue;
		if (level && level != known) {
			Mu__Event event = MU__EVENT__INIT;
			Mu__ReplicaLevel r = MU__REPLICA_LEVEL__INIT;

			r.has_replica = r.has_level = 1;
			r.replica = m[i].id;
			r.level = level;
			event.kind_case = MU__EVENT__KIND_REPLICA_LEVEL;
			event.replica_level = &r;
			own_event(c, &event);
			return;
		}
		if (known < lowest)
			lowest = known;
	}
	if (lowest != UINT32_MAX && lowest > sch_level(c->st)) {
		Mu__Event event = MU__EVENT__INIT;
		Mu__LevelRaised r = MU__LEVEL_RAISED__INIT;

		r.has_level = 1;
		r.level = lowest;
		event.kind_case = MU__EVENT__KIND_LEVEL_RAISED;
		event.level_raised = &r;
		own_event(c, &event);
		diag_info("All controllers know level %u: it is raised.", lowest);
	}
}
