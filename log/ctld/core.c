/* ctld/core.c: what the replica tells the application, and the round after each batch of input. */
#include "log/ctld/ctld.h"

#include <stdlib.h>
#include <string.h>

#include "log/ctld/nodekeys.h"
#include "log/diag.h"
#include "proto/conf_fold.h"
#include "proto/pb.h"
#include "proto/version.h"

static struct sch_verdict *verdict_slot(struct ctl_verdicts *v)
{
	if (v->count == v->cap) {
		v->cap = v->cap ? 2 * v->cap : 16;
		v->v = realloc(v->v, v->cap * sizeof *v->v);
		if (!v->v)
			abort();
	}
	return memset(&v->v[v->count++], 0, sizeof *v->v);
}

/* Folds the events of one entry. An unknown type, or content that evolve promised never to meet, stops this replica. */
static void fold(struct ctl *c, uint64_t pos, const struct log_entry *entry)
{
	struct ctl_verdicts *v = ctl_verdicts_at(c, pos, true);
	struct sch_at at = {.pos = pos, .time_usec = entry->time_usec};
	struct log_part part;
	struct mu_err err = {0};
	size_t cursor = 0;

	while (log_entry_next(entry, &cursor, &part)) {
		struct sch_verdict *verdict;
		int code;

		if (part.kind == LOG_PART_BLOB)
			ctl_blob_committed(c, part.bytes);
		if (part.kind != LOG_PART_EVENT)
			continue;
		verdict = verdict_slot(v);
		code = sch_evolve(c->st, &at, part.bytes.data, part.bytes.len, verdict, &c->changes, &err);
		if (code)
			diag_fatal("Position %llu cannot be folded by this program (version %s, level %u): %s", (unsigned long long)pos,
				   MU_VERSION, MU_LEVEL, err.text[0] ? err.text : mu_strerror(code));
		if (verdict->code)
			diag_debug("Event %u of position %llu is void: %s", at.n, (unsigned long long)pos, verdict->text);
		at.n++;
	}
	sch_entry_done(c->st, pos, entry->time_usec, &c->changes);
}

static void on_committed(void *arg, uint64_t pos, const struct log_entry *entry, const struct mu_hash *chain)
{
	struct ctl *c = arg;

	if (pos <= sch_pos(c->st)) { /* the view was ahead of the snapshot: already folded, but it must be the same history */
		if (pos == sch_pos(c->st) && memcmp(chain->b, c->chain.b, MU_HASH_BYTES))
			diag_fatal("The view and the log of this controller tell different histories at position %llu; remove the controller and add it again.",
				   (unsigned long long)pos);
		return;
	}
	sch_changes_reset(&c->changes);
	fold(c, pos, entry);
	c->chain = *chain;
	ctl_project_push(c, pos, entry, &c->changes);
	ctl_poll_changes(c, &c->changes);
	ctl_node_keys_follow(c->st, &c->changes);
	atomic_store(&c->founded, sch_founded(c->st));
	if (pos % CTL_DIGEST_EVERY == 0)
		ctl_digest_check(c, pos);
}

static void elect_self(struct ctl *c)
{
	Mu__Author author = MU__AUTHOR__INIT;
	Mu__Event event = MU__EVENT__INIT;
	Mu__LeaderElected elected = MU__LEADER_ELECTED__INIT;

	author.verifier = "controller";
	author.has_operator_ = author.operator_ = 1;
	event.author = &author;
	event.kind_case = MU__EVENT__KIND_LEADER_ELECTED;
	event.leader_elected = &elected;
	elected.has_replica = elected.has_term = 1;
	elected.replica = c->replica_id;
	elected.term = c->term;
	ctl_propose_event(c, &event, NULL);
	c->batch->term = c->term;
	ctl_propose_flush(c, true);
}

/* The first event of a cluster: its name, its identity, its configuration. */
static void found(struct ctl *c)
{
	Mu__Author author = MU__AUTHOR__INIT;
	Mu__Event event = MU__EVENT__INIT;
	Mu__Founded founded = MU__FOUNDED__INIT;
	struct mu_err err = {0};
	uint8_t id[16];
	struct mu_hash h;

	mu_hash_bytes(&c->replica_id, sizeof c->replica_id, &h);
	memcpy(id, h.b, sizeof id);
	author.verifier = "controller";
	author.has_operator_ = author.operator_ = 1;
	event.author = &author;
	event.kind_case = MU__EVENT__KIND_FOUNDED;
	event.founded = &founded;
	founded.name = c->conf->cluster_name;
	founded.has_cluster_id = 1;
	founded.cluster_id.data = id;
	founded.cluster_id.len = sizeof id;
	founded.has_public_key = 1;
	founded.public_key.data = c->keys.cluster_public;
	founded.public_key.len = 32;
	mu_arena_reset(&c->scratch);
	founded.config = mu_conf_fold(c->conf, &c->scratch);
	if (ctl_conf_fits(founded.config, &err))
		diag_fatal("The cluster cannot be founded with %s: %s", c->opt.conf_path, err.text);
	founded.has_level = 1;
	founded.level = MU_LEVEL;
	ctl_propose_event(c, &event, NULL);
	c->founded_in_flight = true;
	elect_self(c); /* same entry: the new State knows its leader at once */
	diag_info("Cluster %s is founded.", c->conf->cluster_name);
}

static void on_role(void *arg, enum log_role role, uint64_t term, uint64_t leader_id)
{
	struct ctl *c = arg;
	bool lost = c->role == LOG_LEADER && (role != LOG_LEADER || term != c->term);
	bool won = role == LOG_LEADER && (c->role != LOG_LEADER || term != c->term);

	if (won || lost || leader_id != c->leader)
		diag_info("Controller %s: %s in term %llu, leader %016llx.", c->opt.name,
			  role == LOG_LEADER ? "leads" : role == LOG_FOLLOWER ? "follows" : role == LOG_CANDIDATE ? "stands" : "stopped",
			  (unsigned long long)term, (unsigned long long)leader_id);
	c->role = role;
	c->term = term;
	c->leader = leader_id;
	if (leader_id)
		c->leader_seen_msec = ctl_mono_msec();
	if (lost || won) {
		c->leader_ready = false;
		c->decided_in_flight = c->tick_in_flight = c->level_in_flight = c->founded_in_flight = false;
		c->decide_void_pos = 0;
	}
	if (won)
		elect_self(c);
}

/* Our LeaderElected of this term is committed, so all earlier entries are folded: we may admit over State. */
void ctl_elected(struct ctl *c, uint64_t pos)
{
	if (c->role != LOG_LEADER || c->leader_ready)
		return;
	if (!sch_founded(c->st)) {
		if (!c->founded_in_flight)
			found(c);
		return;
	}
	c->leader_ready = true;
	diag_info("Controller %s is ready to lead at position %llu.", c->opt.name, (unsigned long long)pos);
}

static void on_message(void *arg, uint64_t from, uint16_t kind, struct mu_view bytes, struct log_reply_to *reply)
{
	struct ctl *c = arg;

	switch (kind) {
	case CTL_PEER_REQUEST:
		ctl_req_from_peer(c, bytes, reply);
		return;
	case CTL_PEER_READPOS:
		ctl_readpos_from_peer(c, reply);
		return;
	case CTL_PEER_HEARD:
		ctl_heard_from_peer(c, bytes);
		return;
	case CTL_PEER_CLOCK:
		ctl_clock_heard(c, from, bytes);
		return;
	case CTL_PEER_DIGEST:
		ctl_digest_from_peer(c, from, bytes);
		return;
	case CTL_PEER_IMAGE:
	case CTL_PEER_BASE:
		ctl_image_from_peer(c, bytes, kind == CTL_PEER_BASE, reply);
		return;
	case CTL_PEER_ENTRIES:
		ctl_entries_from_peer(c, bytes, reply);
		return;
	default:
		diag_debug("A message of unknown kind %u from controller %016llx was passed over.", kind, (unsigned long long)from);
		if (reply)
			log_replica_answer(c->replica, reply, (struct mu_view){NULL, 0});
	}
}

static void on_fatal(void *arg, const char *sentence)
{
	(void)arg;
	diag_fatal("%s", sentence);
}

static void on_say(void *arg, const char *sentence)
{
	(void)arg;
	diag_info("%s", sentence);
}

void ctl_core_hooks(struct log_hooks *hooks)
{
	*hooks = (struct log_hooks){
		.committed = on_committed,
		.role = on_role,
		.snapshot_due = ctl_snapshot_due,
		.install = ctl_snapshot_install,
		.restore = ctl_snapshot_restore,
		.message = on_message,
		.fatal = on_fatal,
		.say = on_say,
	};
}

void ctl_core_round(struct ctl *c)
{
	if (c->closing || !c->replica)
		return;
	ctl_decide(c);
	ctl_propose_flush(c, false);
	ctl_poll_wake(c);
}

/* Says once, after the State is known, when the local file differs from the configuration that the log holds: the log's is in force. */
static void conf_compare(struct ctl *c)
{
	const Mu__Config *held = sch_config(c->st);
	const Mu__ClusterRow *row = sch_cluster(c->st);
	static bool said;

	if (said || !sch_founded(c->st) || !held || !c->leader || !row)
		return;
	said = true;
	if (held->source_hash.len != c->conf->source_hash.len ||
	    memcmp(held->source_hash.data, c->conf->source_hash.data, held->source_hash.len))
		diag_info("The file %s differs from the configuration in force, which the log holds; `scontrol reconfigure` would send the file's, `muster config diff` shows the difference.",
			  c->opt.conf_path);
}

static void on_left(void *arg, int code, uint64_t pos)
{
	(void)arg;
	(void)pos;
	if (code)
		diag_debug("Leadership was not taken over: %s", mu_strerror(code));
}

/* A controller whose clock or disk is bad hands leadership to one whose are good. */
static void leave_when_unfit(struct ctl *c)
{
	struct mu_err err = {0};
	static const int64_t every_msec = 2000;
	uint64_t to = 0;
	int64_t now = ctl_mono_msec();

	if (c->role != LOG_LEADER || !(c->clock_bad || c->disk_low) || now % every_msec > 20)
		return;
	for (unsigned i = 0; i < c->peers && !to; i++)
		if (now - c->peer[i].heard_msec < 2000 && !c->peer[i].disk_low && ctl_peer_clock_good(c, &c->peer[i]))
			to = c->peer[i].id;
	if (!to)
		return;
	diag_info("Controller %s hands leadership over: its %s.", c->opt.name, c->clock_bad ? "clock is off" : "disk is full");
	if (log_replica_transfer(c->replica, to, on_left, NULL, &err))
		diag_debug("Leadership could not be handed over: %s", err.text);
}

void ctl_core_housekeeping(struct ctl *c)
{
	if (c->closing || !c->replica)
		return;
	if (c->leader)
		c->leader_seen_msec = ctl_mono_msec();
	ctl_clock_housekeeping(c);
	ctl_disk_housekeeping(c);
	leave_when_unfit(c);
	ctl_due(c);
	ctl_level_housekeeping(c);
	if (c->waiting)
		ctl_req_retry_waiting(c);
	ctl_poll_housekeeping(c);
	ctl_read_housekeeping(c);
	ctl_backfill_housekeeping(c);
	ctl_keep_housekeeping(c);
	ctl_gauges_refresh(c);
	conf_compare(c);
	ctl_core_round(c);
}
