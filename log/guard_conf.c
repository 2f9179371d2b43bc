/* log/guard_conf.c: the guard's own memory of configurations (G8, G11).
 *
 * The core keeps one configuration and two indexes, and fetches an older one from its log when it must go
 * back; after compaction that entry is gone (a NULL pointer), and after a restart the last configuration of
 * the log counts as committed although it need not be. So every configuration that stands in the log is kept
 * here as well. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "log/guard_int.h"

/* Reads a configuration entry: u8 1, u64 count, then for each server u64 id, text with its zero, u8 role. 0
 * or -1. */
static int decode(const struct raft_buffer *buf, struct raft_configuration *ret)
{
	const uint8_t *p = buf->base, *end = p + buf->len;
	uint64_t count;
	raft_configuration_init(ret);
	if (buf->len < 9 || *p++ != 1)
		return -1;
	memcpy(&count, p, 8);
	p += 8;
	while (count--) {
		uint64_t id;
		if (end - p < 8)
			return -1;
		memcpy(&id, p, 8);
		p += 8;
		const uint8_t *zero = memchr(p, 0, (size_t)(end - p));
		if (!zero || zero + 1 >= end)
			return -1;
		if (raft_configuration_add(ret, id, (const char *)p, zero[1]))
			return -1;
		p = zero + 2;
	}
	return 0;
}

void guard_conf_copy(const struct raft_configuration *from, struct raft_configuration *to)
{
	raft_configuration_init(to);
	for (unsigned i = 0; i < from->n; i++) {
		int rv = raft_configuration_add(to, from->servers[i].id, from->servers[i].address,
						from->servers[i].role);
		assert(rv == 0);
		(void)rv;
	}
}

void guard_conf_cut(struct log_guard *g, raft_index index)
{
	while (g->confs && g->conf[g->confs - 1].index >= index)
		raft_configuration_close(&g->conf[--g->confs].conf);
}

/* Room for one more; the caller fills it. What is committed and not the latest is of no use: the list is as
 * short as the log. */
static struct guard_conf *grow(struct log_guard *g, raft_index index)
{
	guard_conf_cut(g, index);
	g->conf = realloc(g->conf, (g->confs + 1) * sizeof *g->conf);
	if (!g->conf)
		abort();
	struct guard_conf *c = &g->conf[g->confs++];
	c->index = index;
	return c;
}

/* Committed configurations older than the latest committed one can never be needed again. */
static void prune(struct log_guard *g)
{
	size_t keep = 0;
	for (size_t i = 0; i < g->confs; i++)
		if (g->conf[i].index <= g->r->commit_index)
			keep = i;
	for (size_t i = 0; i < keep; i++)
		raft_configuration_close(&g->conf[i].conf);
	if (keep)
		memmove(g->conf, g->conf + keep, (g->confs - keep) * sizeof *g->conf);
	g->confs -= keep;
}

void guard_conf_add(struct log_guard *g, raft_index index, const struct raft_configuration *conf)
{
	guard_conf_copy(conf, &grow(g, index)->conf);
}

void guard_conf_entries(struct log_guard *g, raft_index first, const struct raft_entry *entries, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (entries[i].type != RAFT_CHANGE)
			continue;
		prune(g);
		int rv = decode(&entries[i].buf, &grow(g, first + i)->conf);
		assert(rv == 0); /* the core has decoded the same bytes already */
		(void)rv;
	}
}

void guard_conf_rollback(struct log_guard *g, raft_index index)
{
	struct raft *r = g->r;
	if (!guard_on(g, LOG_G8) || !index || r->configuration_uncommitted_index < index)
		return;
	for (size_t i = g->confs; i--;) {
		const struct guard_conf *c = &g->conf[i];
		if (c->index >= index)
			continue;
		bool uncommitted = c->index > r->commit_index && i > 0;
		raft_configuration_close(&r->configuration);
		guard_conf_copy(&c->conf, &r->configuration);
		r->configuration_uncommitted_index = uncommitted ? c->index : 0;
		r->configuration_index = uncommitted ? c[-1].index : c->index;
		g->stats.rolled++;
		return;
	}
}

void guard_conf_started(struct log_guard *g)
{
	struct raft *r = g->r;
	if (!guard_on(g, LOG_G8) || g->confs < 2 || r->state == RAFT_LEADER)
		return;
	const struct guard_conf *last = &g->conf[g->confs - 1];
	if (last->index > r->commit_index && last->index == r->configuration_index) {
		r->configuration_uncommitted_index = last->index;
		r->configuration_index = last[-1].index;
	}
}

void guard_conf_vote(struct log_guard *g, struct raft_message *message)
{
	struct raft *r = g->r;
	struct raft_configuration own = r->configuration, lent;
	bool listed = false, voter = false;
	for (unsigned i = 0; i < own.n; i++) {
		if (own.servers[i].id != r->id)
			continue;
		listed = true;
		voter = own.servers[i].role == RAFT_VOTER;
	}
	if (voter) {
		g->recv(r->io, message);
		return;
	}
	guard_conf_copy(&own, &lent);
	if (!listed)
		raft_configuration_add(&lent, r->id, r->address, RAFT_VOTER);
	for (unsigned i = 0; i < lent.n; i++)
		if (lent.servers[i].id == r->id)
			lent.servers[i].role = RAFT_VOTER;
	/* Handling a vote request never touches the configuration, so lending one for the call is enough. */
	r->configuration = lent;
	g->recv(r->io, message);
	raft_configuration_close(&r->configuration);
	r->configuration = own;
}
