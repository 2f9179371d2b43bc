/* log/replica_found.c: the first start of a cluster.
 *
 * Disks draw their ids themselves, so the founding members first have to hear each other's. A replica with an
 * empty directory asks every other founder until each has answered "empty" with its id; then all make the
 * same configuration, sorted by id. Two of them can never found different clusters that both have a majority:
 * a configuration names disks, and each disk founds once. Where one answers with a log, the cluster exists.
 * If it was founded with this very disk (which then never voted: its log is empty), this one makes the same
 * beginning; else it starts without one and waits to be added, as a replaced disk has to.
 *
 *   ask     32 bytes: hash over the founders' names and addresses as configured here
 *   answer  u8 1 when there is a log, u8[7] 0, u64 id, 32 bytes hash, u64 count, count times {u64 id, address
 * 64, name 64} */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "log/replica_int.h"

enum { ASK_MSEC = 300, SAY_MSEC = 3000, HEAD_BYTES = 56, MEMBER_BYTES = 136 };

static void put_u64(uint8_t *p, uint64_t v)
{
	for (unsigned i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t get_u64(const uint8_t *p)
{
	uint64_t v = 0;
	for (unsigned i = 8; i--;)
		v = v << 8 | p[i];
	return v;
}

/* The order of the lines in the file does not matter: the sum of the lines' hashes is taken. */
static void hash_founders(const struct log_replica *r, struct mu_hash *ret)
{
	memset(ret, 0, sizeof *ret);
	for (unsigned i = 0; i < r->config.founders; i++) {
		char line[REPLICA_ADDRESS];
		struct mu_hash one;
		replica_compose(line, r->config.founder[i].address, r->config.founder[i].name);
		mu_hash_bytes(line, strlen(line), &one);
		mu_hash_sum_add(ret, &one);
	}
}

void replica_found_answer(struct log_replica *r, struct mu_view ask, struct mu_buf *out)
{
	struct mu_hash hash;
	bool member = r->phase != REPLICA_FOUNDING;
	(void)ask;
	hash_founders(r, &hash);
	uint8_t *p = mu_buf_grow(out, HEAD_BYTES);
	memset(p, 0, HEAD_BYTES);
	p[0] = member && !log_identity_is_zero(r->self.cluster);
	put_u64(p + 8, r->self.id);
	memcpy(p + 16, hash.b, 32);
	put_u64(p + 48, p[0] ? r->self.founders : 0);
	for (unsigned i = 0; out->data[0] && i < r->self.founders; i++) {
		uint8_t *m = mu_buf_grow(out, MEMBER_BYTES);
		memset(m, 0, MEMBER_BYTES);
		put_u64(m, r->self.founder[i].id);
		memcpy(m + 8, r->self.founder[i].address, strnlen(r->self.founder[i].address, 63));
		memcpy(m + 72, r->self.founder[i].name, strnlen(r->self.founder[i].name, 63));
	}
}

static void start(struct log_replica *r, bool found)
{
	struct mu_err err = {0};
	if (replica_start(r, found, &err))
		replica_fatal(r, "%s", err.text);
}

/* Everybody's ids are in self.founder now. */
static void found(struct log_replica *r)
{
	log_identity_sort(r->self.founder, r->self.founders);
	log_identity_cluster(r->self.founder, r->self.founders, r->self.cluster);
	/* Stored before the log begins: a crash in between goes on from here. */
	replica_store(r);
	r->reset_links = true;
	replica_say(r, "founding a cluster of %u controllers as replica %" PRIu64, r->self.founders,
		    r->self.id);
	start(r, true);
}

static void wait_to_be_added(struct log_replica *r, const char *by)
{
	replica_say(r,
		    "controller %s has a log already that does not know this disk: replica %" PRIu64
		    " waits to be added to the cluster",
		    by, r->self.id);
	start(r, false);
}

/* A member's answer: were we among its founders? */
static void join(struct log_replica *r, const struct replica_peer *p, struct mu_view bytes)
{
	uint64_t count = get_u64(bytes.data + 48);
	bool listed = false;
	struct log_member members[LOG_MEMBERS_MAX];
	memset(members, 0, sizeof members);
	if (count > LOG_MEMBERS_MAX || bytes.len != HEAD_BYTES + count * MEMBER_BYTES)
		return;
	for (uint64_t i = 0; i < count; i++) {
		const uint8_t *m = bytes.data + HEAD_BYTES + i * MEMBER_BYTES;
		members[i].id = get_u64(m);
		members[i].voter = true;
		memcpy(members[i].address, m + 8, 63);
		memcpy(members[i].name, m + 72, 63);
		listed = listed || members[i].id == r->self.id;
	}
	if (!listed) {
		wait_to_be_added(r, p->name);
		return;
	}
	memcpy(r->self.founder, members, sizeof members);
	r->self.founders = (unsigned)count;
	found(r);
}

static void answered(void *arg, int code, struct mu_view bytes)
{
	struct replica_peer *p = arg;
	struct log_replica *r = p->r;
	struct mu_hash hash;
	if (code || r->phase != REPLICA_FOUNDING || bytes.len < HEAD_BYTES)
		return;
	if (bytes.data[0]) {
		join(r, p, bytes);
		return;
	}
	hash_founders(r, &hash);
	p->answered_msec = 0;
	if (memcmp(bytes.data + 16, hash.b, 32)) {
		replica_say(r,
			    "controller %s was configured with other controllers than this one: the cluster "
			    "is not founded "
			    "before their configuration files agree",
			    p->name);
		return;
	}
	p->answer_id = get_u64(bytes.data + 8);
	p->answered_msec = replica_now_msec(r);
}

static struct replica_peer *founder_peer(struct log_replica *r, const struct log_member *m)
{
	for (struct replica_peer *p = r->peers; p; p = p->next)
		if (!strcmp(p->address, m->address))
			return p;
	return replica_peer_add(r, 0, m->address, m->name);
}

static void say_who_is_missing(struct log_replica *r, const char *names)
{
	uint64_t now = replica_now_msec(r);
	if (!r->found_said_msec) /* the first seconds need no words */
		r->found_said_msec = now;
	else if (now - r->found_said_msec >= SAY_MSEC)
		replica_say(r, "the cluster is not founded yet: waiting for%s", names);
}

void replica_found_tick(struct log_replica *r)
{
	struct mu_hash hash;
	char missing[512] = "";
	uint64_t now = replica_now_msec(r);
	bool own = false, all = true;
	hash_founders(r, &hash);
	r->self.founders = 0;
	for (unsigned i = 0; i < r->config.founders; i++) {
		struct log_member m = r->config.founder[i];
		m.voter = true;
		if (!strcmp(m.name, r->name)) {
			own = true;
			m.id = r->self.id;
		} else {
			struct replica_peer *p = founder_peer(r, &m);
			m.id = p->answered_msec ? p->answer_id : 0;
			if (now - p->asked_msec >= ASK_MSEC &&
			    replica_peer_call(p, REPLICA_FOUND, (struct mu_view){hash.b, sizeof hash.b},
					      ASK_MSEC * 3, answered, p) == 0)
				p->asked_msec = now;
		}
		if (!m.id) {
			size_t n = strlen(missing);
			all = false;
			snprintf(missing + n, sizeof missing - n, " %s", m.name);
		}
		r->self.founder[r->self.founders++] = m;
	}
	if (!own) {
		r->self.founders = 0;
		wait_to_be_added(r, "(none of this name in the configuration)");
	} else if (all) {
		found(r);
	} else {
		r->self.founders = 0;
		say_who_is_missing(r, missing);
	}
}
