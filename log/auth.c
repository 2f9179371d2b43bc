/* Envelopes: made, opened, proven. log/envelope.proto says what the marks and seals cover. */
#include "log/auth.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/auth_parts.h"
#include "log/envelope.pb-c.h"

enum {
	FIELDS_MAX = 16, /* an envelope has 9; protobuf-c would spend 20 bytes and more on each of millions of
			    unknown ones */
	MUNGE_MAX = 4096,
	SEAL_PREFIX = MU_HASH_BYTES
};

/* An envelope as it lies in its bytes: everything is borrowed, nothing is allocated for a stranger. */
struct envelope {
	uint64_t version;
	struct mu_view field[10]; /* by number; data NULL: absent */
	int64_t node_time_usec;
	bool has_node_time;
};
enum {
	F_VERSION = 1,
	F_BODY,
	F_MUNGE,
	F_NODE,
	F_NODE_TIME,
	F_NODE_SIG,
	F_CLUSTER_SIG,
	F_SEALED,
	F_REPLY_KEY,
	F_END
};
_Static_assert((int)F_END == 10, "envelope.field has a place for each number");

/* ---- parsing ---- */

static int take_varint(struct mu_view *in, uint64_t *ret)
{
	uint64_t v = 0;
	for (unsigned i = 0; i < 10 && i < in->len; i++) {
		v |= (uint64_t)(in->data[i] & 0x7f) << (7 * i);
		if (in->data[i] & 0x80)
			continue;
		in->data += i + 1;
		in->len -= i + 1;
		*ret = v;
		return 0;
	}
	return MU_EPROTO;
}

static int take_bytes(struct mu_view *in, uint64_t len, struct mu_view *ret)
{
	if (len > in->len)
		return MU_EPROTO;
	*ret = (struct mu_view){in->data, (size_t)len};
	in->data += len;
	in->len -= (size_t)len;
	return 0;
}

/* One field: numbers that a later version adds are skipped, as protobuf does. */
static int take_field(struct mu_view *in, struct envelope *e)
{
	uint64_t tag, value = 0;
	struct mu_view bytes = {0};
	if (take_varint(in, &tag))
		return MU_EPROTO;
	uint64_t number = tag >> 3, type = tag & 7;
	bool is_number = number == F_VERSION || number == F_NODE_TIME;
	if (type == 0	? take_varint(in, &value)
	    : type == 2 ? take_varint(in, &value) || take_bytes(in, value, &bytes)
	    : type == 1 ? take_bytes(in, 8, &bytes)
	    : type == 5 ? take_bytes(in, 4, &bytes)
			: MU_EPROTO)
		return MU_EPROTO;
	if (number == 0 || number >= F_END)
		return number == 0 ? MU_EPROTO : 0;
	if (e->field[number].data || type != (is_number ? 0 : 2))
		return MU_EPROTO; /* Twice, or of another type: nobody sends that by accident. */
	e->field[number] = is_number ? (struct mu_view){in->data, 0} : bytes;
	if (number == F_VERSION)
		e->version = value;
	if (number == F_NODE_TIME) {
		e->node_time_usec = (int64_t)value;
		e->has_node_time = true;
	}
	return 0;
}

static bool node_name_ok(struct mu_view name)
{
	if (name.len == 0 || name.len > AUTH_NODE_MAX)
		return false;
	for (size_t i = 0; i < name.len; i++) {
		uint8_t c = name.data[i];
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      c == '.' || c == '_' || c == '-'))
			return false;
	}
	return true;
}

static int parse(struct mu_view bytes, struct envelope *ret, struct mu_err *err)
{
	struct envelope e = {0};
	const struct mu_view *f = e.field;
	struct mu_view in = bytes;
	int fields = 0, code = 0;
	while (in.len > 0 && !code)
		code = ++fields > FIELDS_MAX ? MU_EPROTO : take_field(&in, &e);
	if (code)
		return mu_fail(err, MU_EPROTO, "the message is not an envelope");
	if (e.version != AUTH_VERSION)
		return mu_fail(err, MU_EVERSION,
			       "the envelope has version %llu; this program speaks version %d",
			       (unsigned long long)e.version, AUTH_VERSION);
	if (!f[F_BODY].data == !f[F_SEALED].data)
		return mu_fail(err, MU_EPROTO, "an envelope has either a body or a sealed one");
	if (f[F_REPLY_KEY].data && f[F_REPLY_KEY].len != crypto_box_PUBLICKEYBYTES)
		return mu_fail(err, MU_EPROTO, "the envelope's reply key has %zu bytes", f[F_REPLY_KEY].len);
	if (f[F_MUNGE].len > MUNGE_MAX)
		return mu_fail(err, MU_EPROTO, "the envelope's credential has %zu bytes", f[F_MUNGE].len);
	if (!f[F_NODE].data != !f[F_NODE_SIG].data || !f[F_NODE].data != !e.has_node_time)
		return mu_fail(err, MU_EAUTH, "a node's name, time and signature come together");
	if (f[F_NODE].data && !node_name_ok(f[F_NODE]))
		return mu_fail(err, MU_EPROTO, "the envelope's node name is malformed");
	*ret = e;
	return 0;
}

/* ---- marks and seals ---- */

static void add_u32(struct mu_hasher *h, uint32_t v)
{
	uint8_t b[4] = {(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
	mu_hasher_add(h, b, sizeof b);
}

static void add_i64(struct mu_hasher *h, int64_t v)
{
	add_u32(h, (uint32_t)v);
	add_u32(h, (uint32_t)((uint64_t)v >> 32));
}

static void add_reply_key(struct mu_hasher *h, struct mu_view key)
{
	static const uint8_t none[crypto_box_PUBLICKEYBYTES];
	mu_hasher_add(h, key.data ? key.data : none, sizeof none);
}

/* What a request's credential proves. */
static void mark_of(const struct envelope *e, struct mu_hash *ret)
{
	const struct mu_view *f = e->field, content = f[F_SEALED].data ? f[F_SEALED] : f[F_BODY];
	uint8_t flags = f[F_SEALED].data != NULL;
	struct mu_hash hash;
	struct mu_hasher h;
	mu_hash_bytes(content.data, content.len, &hash);
	mu_hasher_init(&h);
	mu_hasher_add(&h, "muster-request-1", 16);
	mu_hasher_add(&h, &flags, 1);
	add_u32(&h, (uint32_t)f[F_NODE].len);
	mu_hasher_add(&h, f[F_NODE].data, f[F_NODE].len);
	add_i64(&h, e->node_time_usec);
	add_reply_key(&h, f[F_REPLY_KEY]);
	mu_hasher_add(&h, hash.b, sizeof hash.b);
	mu_hasher_done(&h, ret);
}

/* What the cluster's signature of a reply proves. */
static void answer_of(const struct mu_hash *request, const struct envelope *e, struct mu_hash *ret)
{
	const struct mu_view *f = e->field, content = f[F_SEALED].data ? f[F_SEALED] : f[F_BODY];
	uint8_t flags = f[F_SEALED].data != NULL;
	struct mu_hash hash;
	struct mu_hasher h;
	mu_hash_bytes(content.data, content.len, &hash);
	mu_hasher_init(&h);
	mu_hasher_add(&h, "muster-answer-1", 15);
	mu_hasher_add(&h, request->b, sizeof request->b);
	mu_hasher_add(&h, &flags, 1);
	mu_hasher_add(&h, hash.b, sizeof hash.b);
	mu_hasher_done(&h, ret);
}

/* Names the sender inside the seal, so that a sealed request cannot be sent again under another name. */
static void seal_prefix(const struct envelope *e, struct mu_hash *ret)
{
	struct mu_hasher h;
	mu_hasher_init(&h);
	mu_hasher_add(&h, "muster-seal-1", 13);
	add_u32(&h, (uint32_t)e->field[F_NODE].len);
	mu_hasher_add(&h, e->field[F_NODE].data, e->field[F_NODE].len);
	add_i64(&h, e->node_time_usec);
	add_reply_key(&h, e->field[F_REPLY_KEY]);
	mu_hasher_done(&h, ret);
}

/* Appends the sealed form of PREFIX and BODY to OUT. False for a key that is no point. */
static bool seal(const uint8_t to[32], const struct mu_hash *prefix, struct mu_view body, struct mu_buf *out)
{
	struct mu_buf plain = {0};
	mu_buf_add(&plain, prefix->b, SEAL_PREFIX);
	mu_buf_add(&plain, body.data, body.len);
	uint8_t *p = mu_buf_grow(out, plain.len + crypto_box_SEALBYTES);
	bool ok = crypto_box_seal(p, plain.data, plain.len, to) == 0;
	sodium_memzero(plain.data, plain.len);
	mu_buf_free(&plain);
	return ok;
}

/* Opens what was sealed to the X25519 pair; the body lies in ARENA. */
static int unseal(struct mu_view sealed, const uint8_t public_key[32], const uint8_t secret[32],
		  const struct mu_hash *prefix, struct mu_arena *arena, struct mu_view *ret_body)
{
	if (sealed.len < crypto_box_SEALBYTES + SEAL_PREFIX)
		return MU_EPROTO;
	size_t len = sealed.len - crypto_box_SEALBYTES;
	uint8_t *plain = mu_arena_alloc(arena, len);
	if (crypto_box_seal_open(plain, sealed.data, sealed.len, public_key, secret) != 0 ||
	    sodium_memcmp(plain, prefix->b, SEAL_PREFIX) != 0)
		return MU_EAUTH;
	*ret_body = (struct mu_view){plain + SEAL_PREFIX, len - SEAL_PREFIX};
	return 0;
}

/* ---- making requests ---- */

static ProtobufCBinaryData bytes_of(struct mu_view v)
{
	return (ProtobufCBinaryData){v.len, (uint8_t *)v.data};
}

static void pack(const struct envelope *e, struct mu_buf *out)
{
	const struct mu_view *f = e->field;
	char node[AUTH_NODE_MAX + 1];
	Mu__Envelope m = MU__ENVELOPE__INIT;
	m.has_version = 1;
	m.version = AUTH_VERSION;
	m.has_body = f[F_BODY].data != NULL;
	m.body = bytes_of(f[F_BODY]);
	m.has_munge = f[F_MUNGE].data != NULL;
	m.munge = bytes_of(f[F_MUNGE]);
	if (f[F_NODE].data) {
		snprintf(node, sizeof node, "%.*s", (int)f[F_NODE].len, (const char *)f[F_NODE].data);
		m.node = node;
	}
	m.has_node_time_usec = e->has_node_time;
	m.node_time_usec = e->node_time_usec;
	m.has_node_sig = f[F_NODE_SIG].data != NULL;
	m.node_sig = bytes_of(f[F_NODE_SIG]);
	m.has_cluster_sig = f[F_CLUSTER_SIG].data != NULL;
	m.cluster_sig = bytes_of(f[F_CLUSTER_SIG]);
	m.has_sealed = f[F_SEALED].data != NULL;
	m.sealed = bytes_of(f[F_SEALED]);
	m.has_reply_key = f[F_REPLY_KEY].data != NULL;
	m.reply_key = bytes_of(f[F_REPLY_KEY]);
	mu__envelope__pack(&m, mu_buf_grow(out, mu__envelope__get_packed_size(&m)));
}

/* Present, though perhaps empty: data is never NULL. */
static struct mu_view present(struct mu_view v)
{
	return (struct mu_view){v.data ? v.data : (const uint8_t *)"", v.len};
}

/* Puts BODY into E: sealed to the cluster in ROOM, with a reply key, when KEYS know the cluster. */
static int fill_body(const struct auth_keys *keys, struct mu_view body, struct envelope *e,
		     struct mu_buf *room, struct auth_sent *sent, struct mu_err *err)
{
	uint8_t curve[32];
	struct mu_hash prefix;
	*sent = (struct auth_sent){0};
	if (!keys || !keys->has_public) {
		e->field[F_BODY] = present(body);
		return 0;
	}
	crypto_box_keypair(sent->reply_public, sent->reply_secret);
	sent->sealed = true;
	e->field[F_REPLY_KEY] = (struct mu_view){sent->reply_public, sizeof sent->reply_public};
	seal_prefix(e, &prefix);
	if (crypto_sign_ed25519_pk_to_curve25519(curve, keys->cluster_public) != 0 ||
	    !seal(curve, &prefix, body, room))
		return mu_fail(err, MU_EAUTH, "the cluster's public key is no key");
	e->field[F_SEALED] = (struct mu_view){room->data, room->len};
	return 0;
}

static void finish_request(const struct envelope *e, struct mu_buf *out, struct auth_sent *sent)
{
	size_t from = out->len;
	pack(e, out);
	sent->credential = e->field[F_MUNGE].data || e->field[F_NODE].data;
	if (sent->credential)
		mu_hash_bytes(out->data + from, out->len - from, &sent->request);
}

int auth_seal_user(const struct auth_keys *keys, struct mu_view body, bool munge, struct mu_buf *out,
		   struct auth_sent *ret_sent, struct mu_err *err)
{
	struct envelope e = {0};
	struct auth_sent sent = {0};
	if (!munge) {
		e.field[F_BODY] = present(body);
		finish_request(&e, out, &sent);
		if (ret_sent)
			*ret_sent = sent;
		return 0;
	}
	MU_CLEANUP(mu_buf_free) struct mu_buf room = {0}, credential = {0};
	struct mu_hash mark;
	auth__sodium();
	int code = fill_body(keys, body, &e, &room, &sent, err);
	if (code)
		return code;
	mark_of(&e, &mark);
	code = auth__munge_encode(&mark, &credential, err);
	if (code)
		return code;
	e.field[F_MUNGE] = (struct mu_view){credential.data, credential.len};
	finish_request(&e, out, &sent);
	if (ret_sent)
		*ret_sent = sent;
	sodium_memzero(&sent, sizeof sent);
	return 0;
}

int auth_seal_node(const struct auth_keys *keys, const char *node, int64_t now_usec, struct mu_view body,
		   struct mu_buf *out, struct auth_sent *ret_sent, struct mu_err *err)
{
	struct envelope e = {.node_time_usec = now_usec, .has_node_time = true};
	MU_CLEANUP(mu_buf_free) struct mu_buf room = {0};
	struct auth_sent sent = {0};
	struct mu_hash mark;
	uint8_t sig[crypto_sign_BYTES];
	e.field[F_NODE] = (struct mu_view){(const uint8_t *)node, strlen(node)};
	if (!keys || !keys->has_node || !keys->has_public)
		return mu_fail(err, MU_EAUTH, "node %s lacks its own key or the cluster's public key", node);
	if (!node_name_ok(e.field[F_NODE]))
		return mu_fail(err, MU_EAUTH, "node name '%s' is malformed", node);
	auth__sodium();
	int code = fill_body(keys, body, &e, &room, &sent, err);
	if (code)
		return code;
	mark_of(&e, &mark);
	crypto_sign_detached(sig, NULL, mark.b, sizeof mark.b, keys->node_secret);
	e.field[F_NODE_SIG] = (struct mu_view){sig, sizeof sig};
	finish_request(&e, out, &sent);
	*ret_sent = sent;
	sodium_memzero(&sent, sizeof sent);
	return 0;
}

int auth_open_reply(const struct auth_keys *keys, const struct auth_sent *sent, struct mu_view envelope,
		    struct mu_arena *arena, struct mu_view *ret_body, struct mu_err *err)
{
	static const struct mu_hash zeros;
	struct envelope e;
	struct mu_hash answer;
	int code = parse(envelope, &e, err);
	if (code)
		return code;
	const struct mu_view *f = e.field;
	if (sent && sent->credential && keys && keys->has_public) {
		/* Signing for whoever knocks would be work that a flood could ask for. */
		if (!f[F_CLUSTER_SIG].data)
			return mu_fail(err, MU_EBUSY,
				       "a controller refused without a signature: it is overloaded, or has "
				       "not this cluster's key");
		auth__sodium();
		answer_of(&sent->request, &e, &answer);
		if (f[F_CLUSTER_SIG].len != crypto_sign_BYTES ||
		    crypto_sign_verify_detached(f[F_CLUSTER_SIG].data, answer.b, sizeof answer.b,
						keys->cluster_public) != 0)
			return mu_fail(err, MU_EAUTH, "the reply is not signed by this cluster's key");
	}
	if (!f[F_SEALED].data) {
		*ret_body = f[F_BODY];
		return 0;
	}
	if (!sent || !sent->sealed)
		return mu_fail(err, MU_EPROTO, "the reply is sealed to somebody else");
	auth__sodium();
	if (unseal(f[F_SEALED], sent->reply_public, sent->reply_secret, &zeros, arena, ret_body))
		return mu_fail(err, MU_EAUTH, "the reply cannot be opened");
	return 0;
}

/* ---- verifying requests ---- */

/* Address without its port and without brackets. */
static void host_of(const char *address, char ret[64])
{
	const char *colon = strrchr(address, ':'), *end = colon ? colon : address + strlen(address);
	bool bracket = *address == '[' && end > address + 1 && end[-1] == ']';
	const char *from = address + bracket;
	snprintf(ret, 64, "%.*s", (int)(end - bracket - from), from);
}

static int prove_node(const struct envelope *e, const struct mu_hash *mark, int64_t now_usec,
		      auth_node_key lookup, void *arg, struct auth_who *who, struct mu_err *err)
{
	const struct mu_view *f = e->field;
	char name[AUTH_NODE_MAX + 1];
	uint8_t key[32];
	int64_t window = AUTH_WINDOW_SEC * INT64_C(1000000);
	snprintf(name, sizeof name, "%.*s", (int)f[F_NODE].len, (const char *)f[F_NODE].data);
	if (!lookup || lookup(arg, name, key) != 0)
		return mu_fail(err, MU_EAUTH, "node %s is not enrolled", name);
	if (f[F_NODE_SIG].len != crypto_sign_BYTES ||
	    crypto_sign_verify_detached(f[F_NODE_SIG].data, mark->b, sizeof mark->b, key) != 0)
		return mu_fail(err, MU_EAUTH, "the signature is not that of node %s's enrolled key", name);
	if (e->node_time_usec < now_usec - window || e->node_time_usec > now_usec + window)
		return mu_fail(
		    err, MU_EAUTH,
		    "node %s's clock differs by more than %d s from the controller's; set it right", name,
		    AUTH_WINDOW_SEC);
	who->is_node = true;
	memcpy(who->node, name, sizeof name);
	who->uid = who->gid = 0;
	snprintf(who->verifier, sizeof who->verifier, "node-key");
	return 0;
}

static int refuse_replay(const char *host, const char *first, struct mu_err *err)
{
	return mu_fail(err, MU_EAUTH, "the credential that %s sends was used before, from %s", host, first);
}

/* Whether a proven credential of MARK was used before: by its own host a few times is a resend, by another a
 * replay. */
static int check_seen(const struct mu_hash *mark, struct mu_view credential, int64_t now_usec,
		      const struct auth_who *who, struct mu_err *err)
{
	struct auth__seen seen;
	if (auth__seen_find(mark, now_usec, &seen)) {
		if (strcmp(seen.host, who->host) != 0 || seen.times > AUTH_RESENDS_MAX)
			return refuse_replay(who->host, seen.host, err);
		return 0;
	}
	seen = (struct auth__seen){.mark = *mark, .uid = who->uid, .gid = who->gid, .times = 1};
	mu_hash_bytes(credential.data, credential.len, &seen.credential);
	memcpy(seen.host, who->host, sizeof seen.host);
	/* Twice the window: a clock may be one window ahead, and a credential lives for another. */
	seen.until_usec = now_usec + 2 * AUTH_WINDOW_SEC * INT64_C(1000000);
	if (auth__seen_add(&seen, now_usec))
		return mu_fail(err, MU_EBUSY, "too many requests in %d s; try again", AUTH_WINDOW_SEC);
	return 0;
}

static int prove_munge(const struct envelope *e, const struct mu_hash *mark, int64_t now_usec,
		       struct auth_who *who, struct mu_err *err)
{
	struct auth__seen seen;
	struct mu_hash credential;
	struct mu_view text = e->field[F_MUNGE];
	mu_hash_bytes(text.data, text.len, &credential);
	bool known = auth__seen_find(mark, now_usec, &seen), again = false;
	if (known && (strcmp(seen.host, who->host) != 0 || seen.times > AUTH_RESENDS_MAX))
		return refuse_replay(who->host, seen.host, err);
	if (known && memcmp(seen.credential.b, credential.b, sizeof credential.b) == 0) {
		/* The same bytes again: munged would refuse what it has decoded once. */
		who->uid = seen.uid;
		who->gid = seen.gid;
	} else {
		/* Decoded before, but not by us: a controller that shares this host's daemon, or we before a
		 * restart. */
		int code = auth__munge_decode(text, mark, &who->uid, &who->gid, &again, err);
		if (code)
			return code;
		seen = (struct auth__seen){
		    .mark = *mark, .credential = credential, .uid = who->uid, .gid = who->gid, .times = 1};
		memcpy(seen.host, who->host, sizeof seen.host);
		seen.until_usec = now_usec + 2 * AUTH_WINDOW_SEC * INT64_C(1000000);
		if (auth__seen_add(&seen, now_usec))
			return mu_fail(err, MU_EBUSY, "too many requests in %d s; try again",
				       AUTH_WINDOW_SEC);
	}
	snprintf(who->verifier, sizeof who->verifier, "munge");
	return 0;
}

/* Whose word is taken: a node's key, MUNGE's, the kernel's; in that order, and never two of them. */
static int prove(const struct envelope *e, const struct wire_peer *peer, int64_t now_usec,
		 auth_node_key lookup, void *arg, struct auth_who *who, struct mu_err *err)
{
	const struct mu_view *f = e->field;
	struct mu_hash mark;
	if (f[F_NODE].data && f[F_MUNGE].data)
		return mu_fail(err, MU_EAUTH, "a request speaks either for a node or for a user");
	if (f[F_CLUSTER_SIG].data)
		return mu_fail(err, MU_EPROTO, "a request does not carry the cluster's signature");
	if (f[F_NODE].data || f[F_MUNGE].data)
		mark_of(e, &mark);
	if (f[F_NODE].data) {
		int code = prove_node(e, &mark, now_usec, lookup, arg, who, err);
		return code ? code : check_seen(&mark, f[F_NODE_SIG], now_usec, who, err);
	}
	if (f[F_MUNGE].data)
		return prove_munge(e, &mark, now_usec, who, err);
	if (!peer->local)
		return mu_fail(
		    err, MU_EAUTH,
		    "a request over the network needs a MUNGE credential or a node's signature; %s sent none",
		    who->host);
	who->uid = peer->uid;
	who->gid = peer->gid;
	snprintf(who->verifier, sizeof who->verifier, "socket");
	return 0;
}

static int open_body(const struct auth_keys *keys, const struct envelope *e, struct mu_arena *arena,
		     struct mu_view *ret_body, struct mu_err *err)
{
	uint8_t public_key[32], secret[32];
	struct mu_hash prefix;
	if (!e->field[F_SEALED].data) {
		*ret_body = e->field[F_BODY];
		return 0;
	}
	if (!keys || !keys->has_secret)
		return mu_fail(err, MU_EAUTH,
			       "a sealed request came, but this controller has no cluster key");
	seal_prefix(e, &prefix);
	int code = MU_EAUTH;
	if (crypto_sign_ed25519_sk_to_curve25519(secret, keys->cluster_secret) == 0 &&
	    crypto_scalarmult_base(public_key, secret) == 0)
		code = unseal(e->field[F_SEALED], public_key, secret, &prefix, arena, ret_body);
	sodium_memzero(secret, sizeof secret);
	if (code)
		return mu_fail(err, MU_EAUTH,
			       "the request is not sealed to this cluster's key, or not by its sender");
	return 0;
}

int auth_verify(const struct auth_keys *keys, struct mu_view envelope, const struct wire_peer *peer,
		int64_t now_usec, auth_node_key lookup, void *arg, struct mu_arena *arena,
		struct auth_who *ret_who, struct mu_view *ret_body, struct mu_err *err)
{
	struct envelope e;
	struct auth_who who = {.uid = UINT32_MAX, .gid = UINT32_MAX};
	auth__sodium();
	host_of(peer->address, who.host);
	*ret_who = who;
	int code = parse(envelope, &e, err);
	if (code)
		return code;
	ret_who->sign_reply = e.field[F_NODE].data || e.field[F_MUNGE].data;
	ret_who->seal_reply = e.field[F_REPLY_KEY].data != NULL;
	if (ret_who->sign_reply)
		mu_hash_bytes(envelope.data, envelope.len, &ret_who->request);
	if (ret_who->seal_reply)
		memcpy(ret_who->reply_key, e.field[F_REPLY_KEY].data, sizeof ret_who->reply_key);
	who = *ret_who;
	code = prove(&e, peer, now_usec, lookup, arg, &who, err);
	if (!code)
		code = open_body(keys, &e, arena, ret_body, err);
	if (!code)
		*ret_who = who;
	return code;
}

int auth_seal_reply(const struct auth_keys *keys, const struct auth_who *who, struct mu_view body,
		    struct mu_buf *out, struct mu_err *err)
{
	static const struct mu_hash zeros;
	struct envelope e = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf room = {0};
	struct mu_hash answer;
	uint8_t sig[crypto_sign_BYTES];
	e.field[F_BODY] = present(body);
	if (who && who->seal_reply) {
		auth__sodium();
		if (!seal(who->reply_key, &zeros, body, &room))
			return mu_fail(err, MU_EAUTH, "the request's reply key is no key");
		e.field[F_BODY] = (struct mu_view){0};
		e.field[F_SEALED] = (struct mu_view){room.data, room.len};
	}
	if (who && who->sign_reply && keys && keys->has_secret) {
		auth__sodium();
		answer_of(&who->request, &e, &answer);
		crypto_sign_detached(sig, NULL, answer.b, sizeof answer.b, keys->cluster_secret);
		e.field[F_CLUSTER_SIG] = (struct mu_view){sig, sizeof sig};
	} else if (who && who->is_node) {
		return mu_fail(err, MU_EAUTH, "this controller has no cluster key to sign with");
	}
	pack(&e, out);
	return 0;
}
