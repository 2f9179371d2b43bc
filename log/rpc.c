/* log/rpc.c: see rpc.h. */
#include <stdlib.h>
#include <string.h>

#include "log/rpc.h"
#include "proto/base/err.h"

static size_t pad8(size_t n)
{
	return (n + 7) & ~(size_t)7;
}

static void put(struct mu_buf *out, uint64_t v, unsigned bytes)
{
	uint8_t *p = mu_buf_grow(out, bytes);
	for (unsigned i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static void put_padded(struct mu_buf *out, const void *data, size_t len)
{
	uint8_t *p = mu_buf_grow(out, pad8(len));
	if (len)
		memcpy(p, data, len);
	memset(p + len, 0, pad8(len) - len);
}

static void encode_append(const struct raft_append_entries *a, struct mu_buf *out)
{
	put(out, a->term, 8);
	put(out, a->prev_log_index, 8);
	put(out, a->prev_log_term, 8);
	put(out, a->leader_commit, 8);
	put(out, a->n_entries, 4);
	put(out, 0, 4);
	for (unsigned i = 0; i < a->n_entries; i++) {
		put(out, a->entries[i].term, 8);
		put(out, a->entries[i].buf.len, 4);
		put(out, a->entries[i].type, 4);
	}
	for (unsigned i = 0; i < a->n_entries; i++)
		put_padded(out, a->entries[i].buf.base, a->entries[i].buf.len);
}

static int encode_install(const struct raft_install_snapshot *s, struct mu_buf *out)
{
	struct raft_buffer conf;
	if (raft_configuration_encode(&s->conf, &conf))
		return MU_EINVAL;
	put(out, s->term, 8);
	put(out, s->last_index, 8);
	put(out, s->last_term, 8);
	put(out, s->conf_index, 8);
	put(out, conf.len, 4);
	put(out, s->data.len, 4);
	put_padded(out, conf.base, conf.len);
	put_padded(out, s->data.base, s->data.len);
	raft_free(conf.base);
	return 0;
}

int rpc_encode(const struct raft_message *m, struct mu_buf *out)
{
	switch (m->type) {
	case RAFT_IO_APPEND_ENTRIES:
		encode_append(&m->append_entries, out);
		return 0;
	case RAFT_IO_APPEND_ENTRIES_RESULT:
		put(out, m->append_entries_result.term, 8);
		put(out, m->append_entries_result.rejected, 8);
		put(out, m->append_entries_result.last_log_index, 8);
		return 0;
	case RAFT_IO_REQUEST_VOTE:
		put(out, m->request_vote.term, 8);
		put(out, m->request_vote.candidate_id, 8);
		put(out, m->request_vote.last_log_index, 8);
		put(out, m->request_vote.last_log_term, 8);
		put(out, m->request_vote.disrupt_leader, 4);
		put(out, m->request_vote.pre_vote, 4);
		return 0;
	case RAFT_IO_REQUEST_VOTE_RESULT:
		put(out, m->request_vote_result.term, 8);
		put(out, m->request_vote_result.vote_granted, 4);
		put(out, m->request_vote_result.pre_vote, 4);
		return 0;
	case RAFT_IO_INSTALL_SNAPSHOT:
		return encode_install(&m->install_snapshot, out);
	case RAFT_IO_TIMEOUT_NOW:
		put(out, m->timeout_now.term, 8);
		put(out, m->timeout_now.last_log_index, 8);
		put(out, m->timeout_now.last_log_term, 8);
		return 0;
	default:
		return MU_EINVAL;
	}
}

/* A reader that goes bad instead of outside. */
struct reader {
	const uint8_t *p, *end;
	bool bad;
};

static const uint8_t *take(struct reader *in, size_t n)
{
	if (in->bad || (size_t)(in->end - in->p) < n) {
		in->bad = true;
		return NULL;
	}
	const uint8_t *p = in->p;
	in->p += n;
	return p;
}

static uint64_t get(struct reader *in, unsigned bytes)
{
	const uint8_t *p = take(in, bytes);
	uint64_t v = 0;
	for (unsigned i = bytes; p && i--;)
		v = v << 8 | p[i];
	return v;
}

static void *copy(const void *data, size_t len)
{
	void *p = raft_malloc(len ? len : 1);
	if (!p)
		abort();
	if (len)
		memcpy(p, data, len);
	return p;
}

static int decode_append(struct reader *in, struct raft_append_entries *a)
{
	a->term = get(in, 8);
	a->prev_log_index = get(in, 8);
	a->prev_log_term = get(in, 8);
	a->leader_commit = get(in, 8);
	uint64_t n = get(in, 4);
	get(in, 4);
	a->n_entries = 0;
	a->entries = NULL;
	if (in->bad || n > RPC_ENTRIES_MAX || (size_t)(in->end - in->p) < n * 16)
		return MU_EPROTO;
	if (n == 0)
		return in->p == in->end ? 0 : MU_EPROTO;
	struct reader heads = *in, data = *in;
	take(&data, n * 16);
	/* One batch holds all entries' bytes; the core frees it when the last of them is gone. */
	size_t bytes = (size_t)(data.end - data.p);
	uint8_t *batch = copy(data.p, bytes);
	struct raft_entry *e = raft_calloc(n, sizeof *e);
	size_t at = 0;
	if (!e)
		abort();
	for (uint64_t i = 0; i < n; i++) {
		e[i].term = get(&heads, 8);
		e[i].buf.len = get(&heads, 4);
		e[i].type = (unsigned short)get(&heads, 4);
		e[i].buf.base = batch + at;
		e[i].batch = batch;
		if (e[i].type < RAFT_COMMAND || e[i].type > RAFT_CHANGE || e[i].buf.len > bytes - at ||
		    pad8(e[i].buf.len) > bytes - at)
			goto bad;
		at += pad8(e[i].buf.len);
	}
	if (at != bytes)
		goto bad;
	a->n_entries = (unsigned)n;
	a->entries = e;
	return 0;
bad:
	raft_free(batch);
	raft_free(e);
	return MU_EPROTO;
}

/* The configuration as libraft encodes it: u8 1, u64 count, per server u64 id, text with its zero, u8 role;
 * padded to 8. */
static int decode_configuration(const uint8_t *p, size_t len, struct raft_configuration *ret)
{
	struct reader in = {p, p + len, false};
	raft_configuration_init(ret);
	if (get(&in, 1) != 1)
		return MU_EPROTO;
	uint64_t n = get(&in, 8);
	for (uint64_t i = 0; i < n && !in.bad; i++) {
		uint64_t id = get(&in, 8);
		const uint8_t *zero = in.bad ? NULL : memchr(in.p, 0, (size_t)(in.end - in.p));
		if (!zero)
			break;
		const char *address = (const char *)take(&in, (size_t)(zero - in.p) + 1);
		int role = (int)get(&in, 1);
		if (in.bad || raft_configuration_add(ret, id, address, role))
			break;
	}
	if (!in.bad && ret->n == n)
		return 0;
	raft_configuration_close(ret);
	return MU_EPROTO;
}

static int decode_install(struct reader *in, struct raft_install_snapshot *s)
{
	s->term = get(in, 8);
	s->last_index = get(in, 8);
	s->last_term = get(in, 8);
	s->conf_index = get(in, 8);
	size_t conf_len = get(in, 4), data_len = get(in, 4);
	const uint8_t *conf = take(in, pad8(conf_len)), *data = take(in, pad8(data_len));
	if (in->bad || in->p != in->end || decode_configuration(conf, conf_len, &s->conf))
		return MU_EPROTO;
	s->data.base = copy(data, data_len);
	s->data.len = data_len;
	return 0;
}

int rpc_decode(unsigned type, struct mu_view bytes, struct raft_message *ret)
{
	struct reader in = {bytes.data, bytes.data + bytes.len, false};
	struct raft_message m = {.type = (unsigned short)type};
	int rv = 0;
	switch (type) {
	case RAFT_IO_APPEND_ENTRIES:
		rv = decode_append(&in, &m.append_entries);
		if (rv)
			return rv;
		*ret = m;
		return 0;
	case RAFT_IO_INSTALL_SNAPSHOT:
		rv = decode_install(&in, &m.install_snapshot);
		if (rv)
			return rv;
		*ret = m;
		return 0;
	case RAFT_IO_APPEND_ENTRIES_RESULT:
		m.append_entries_result.term = get(&in, 8);
		m.append_entries_result.rejected = get(&in, 8);
		m.append_entries_result.last_log_index = get(&in, 8);
		break;
	case RAFT_IO_REQUEST_VOTE:
		m.request_vote.term = get(&in, 8);
		m.request_vote.candidate_id = get(&in, 8);
		m.request_vote.last_log_index = get(&in, 8);
		m.request_vote.last_log_term = get(&in, 8);
		m.request_vote.disrupt_leader = get(&in, 4) != 0;
		m.request_vote.pre_vote = get(&in, 4) != 0;
		break;
	case RAFT_IO_REQUEST_VOTE_RESULT:
		m.request_vote_result.term = get(&in, 8);
		m.request_vote_result.vote_granted = get(&in, 4) != 0;
		m.request_vote_result.pre_vote = (raft_tribool)get(&in, 4);
		break;
	case RAFT_IO_TIMEOUT_NOW:
		m.timeout_now.term = get(&in, 8);
		m.timeout_now.last_log_index = get(&in, 8);
		m.timeout_now.last_log_term = get(&in, 8);
		break;
	default:
		return MU_EPROTO;
	}
	if (in.bad || in.p != in.end)
		return MU_EPROTO;
	*ret = m;
	return 0;
}
