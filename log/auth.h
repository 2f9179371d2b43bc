/* log/auth.h: credentials of requests. Start closed: there is no open default.
 *
 * Owns: envelope bytes in and out (log/envelope.proto draws them), key files, the memory of credentials seen,
 * the name service. Leaves to others: what a proven identity may do, where the keys of nodes are enrolled,
 * moving bytes (log/wire.h).
 *
 * Three kinds of proof: the kernel's word on a Unix socket; a MUNGE credential (users over TCP); an Ed25519
 * signature (nodes). The last two cross networks: their bodies are sealed to the cluster's key and the
 * replies to a key drawn for the one request, and signed.
 *
 * A client that lost its connection sends the same bytes again, perhaps to another controller. So a
 * credential seen before is accepted from the host that first used it (a few times) and refused from any
 * other. What a thief at another controller could still do is harmless: a write gets its first answer by its
 * request id, and the answer is sealed to a key that he lacks.
 *
 * Threads: every function may be called from any thread. Only auth_user_lookup and the MUNGE paths may block
 * for long. */
#ifndef LOG_AUTH_H
#define LOG_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "log/wire.h"
#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/base/hash.h"

enum {
	AUTH_VERSION = 1,      /* of the envelope */
	AUTH_WINDOW_SEC = 300, /* a node's clock may differ by this much; a MUNGE credential lives as long */
	AUTH_NODE_MAX = 255,   /* bytes of a node's name */
	AUTH_RESENDS_MAX = 16, /* times that one credential is taken from its own host */
	AUTH_SEEN_MAX = 1 << 20, /* credentials remembered: 1 Mi x 80 B = 80 MiB at most, taken as they come;
				    1,600 a second for the whole window and its slack: 10,000 nodes at one
				    controller ask 1,000 times a second */
	AUTH_GROUPS_MAX = 256	 /* supplementary groups of a user that are carried; the rest is cut */
};

/* Keys are files of 0600 (secret) or 0644 (public), hex text, one line. Zero-initialise. */
struct auth_keys {
	uint8_t cluster_secret[64]; /* Ed25519, controllers only */
	bool has_secret;
	uint8_t cluster_public[32]; /* everyone */
	bool
	    has_public; /* auth_load_* callers set it: replies must be signed, requests over TCP are sealed */
	uint8_t node_secret[64]; /* agents only: the node's own */
	uint8_t node_public[32];
	bool has_node;
};

/* Draws a key pair into SECRET_PATH (0600) and PUBLIC_PATH (0644). Neither may exist: MU_EEXIST. 0, MU_EIO.
 */
int auth_keygen(const char *secret_path, const char *public_path, struct mu_err *err);
/* Reads a secret key. One sentence in ERR names the file and the cure when others can read it (MU_EPERM), it
 * is missing (MU_ENOENT), or it is no key (MU_ESYNTAX). RET_PUBLIC may be NULL. */
int auth_load_secret(const char *path, uint8_t ret_secret[64], uint8_t ret_public[32], struct mu_err *err);
/* The same for a public key, which anyone may read but only its owner or root may write. */
int auth_load_public(const char *path, uint8_t ret_public[32], struct mu_err *err);
/* 64 hex digits and NUL, and back (0 or MU_ESYNTAX). */
void auth_public_print(const uint8_t key[32], char ret[65]);
int auth_public_parse(const char *text, uint8_t ret[32]);
/* 32 bytes derived from the secret for the peers' transport. Pure. */
void auth_peer_key(const uint8_t secret[64], uint8_t ret[32]);

/* The cluster's word on the chain value CHAIN of its log at POS, for those who check it without the cluster. Pure. */
enum { AUTH_SIGN_BYTES = 64 };
void auth_chain_sign(const uint8_t secret[64], uint64_t pos, const struct mu_hash *chain, uint8_t ret[AUTH_SIGN_BYTES]);
bool auth_chain_check(const uint8_t public[32], uint64_t pos, const struct mu_hash *chain,
		      const uint8_t signature[AUTH_SIGN_BYTES]);

/* ---- making requests ---- */
/* What the sender keeps to open the reply. Plain data; the same for every resend of the same bytes. */
struct auth_sent {
	struct mu_hash request;	  /* of the envelope */
	uint8_t reply_secret[32]; /* X25519 */
	uint8_t reply_public[32];
	bool sealed;	 /* the request was; the reply will be */
	bool credential; /* one was sent: the reply must be signed */
};

/* Appends the envelope of a user's request to OUT. MUNGE false (Unix socket): no credential, the kernel
 * vouches. MUNGE true: a MUNGE credential, and sealed when KEYS (may be NULL) has the cluster's public key.
 * RET_SENT may be NULL when MUNGE is false. 0, or MU_EAUTH with the daemon's reason. */
int auth_seal_user(const struct auth_keys *keys, struct mu_view body, bool munge, struct mu_buf *out,
		   struct auth_sent *ret_sent, struct mu_err *err);
/* The same for node NODE: signed by KEYS->node_secret and sealed to the cluster. 0, MU_EAUTH when KEYS lacks
 * a key. */
int auth_seal_node(const struct auth_keys *keys, const char *node, int64_t now_usec, struct mu_view body,
		   struct mu_buf *out, struct auth_sent *ret_sent, struct mu_err *err);
/* Opens the reply to SENT. With KEYS that have the public key the cluster's signature is demanded of every
 * reply to a credential. RET_BODY lies in ENVELOPE or ARENA. 0; MU_EPROTO, MU_EVERSION, MU_EAUTH (a wrong
 * signature or seal), MU_EBUSY (no signature: as an overloaded controller's refusal has none; ask again, or
 * another). */
int auth_open_reply(const struct auth_keys *keys, const struct auth_sent *sent, struct mu_view envelope,
		    struct mu_arena *arena, struct mu_view *ret_body, struct mu_err *err);

/* ---- verifying requests (controllers) ---- */
struct auth_who {
	bool is_node;
	char node[AUTH_NODE_MAX + 1]; /* claimed, and proven by the key that LOOKUP gave */
	uint32_t uid, gid;	      /* of a user; 0 for a node */
	char verifier[16];	      /* "socket", "munge", "node-key" */
	char host[64];		      /* address without port; "localhost" on the Unix socket */
	struct mu_hash request;	      /* of the request's envelope: the reply's signature names it */
	uint8_t reply_key[32];
	bool seal_reply; /* reply_key was given */
	bool sign_reply; /* the request came over a network */
};
/* Gives the enrolled public key of NODE; MU_ENOENT when it is not enrolled. Any thread. */
typedef int (*auth_node_key)(void *arg, const char *node, uint8_t ret_public[32]);
/* Says who sent ENVELOPE. KEYS opens sealed bodies (NULL: they are refused). LOOKUP NULL: no node is known.
 * RET_BODY lies in ENVELOPE or ARENA. On failure RET_WHO names nobody (uid -1, verifier empty) but says where
 * and how a refusal must be sent (host, request, reply_key, flags): give it to auth_seal_reply, and the asker
 * can believe the refusal. 0; MU_EPROTO (malformed), MU_EVERSION, MU_EAUTH (not proven: the sentence says
 * why), MU_EBUSY (AUTH_SEEN_MAX reached). */
int auth_verify(const struct auth_keys *keys, struct mu_view envelope, const struct wire_peer *peer,
		int64_t now_usec, auth_node_key lookup, void *arg, struct mu_arena *arena,
		struct auth_who *ret_who, struct mu_view *ret_body, struct mu_err *err);
/* Appends the envelope of the reply to WHO: signed and sealed where the request crossed a network; plain for
 * WHO NULL. 0 or MU_EAUTH when KEYS lacks the secret and WHO is a node. */
int auth_seal_reply(const struct auth_keys *keys, const struct auth_who *who, struct mu_view body,
		    struct mu_buf *out, struct mu_err *err);

/* Path of the MUNGE daemon's socket (copied; NULL: the library's default). Before the first use. */
void auth_munge_socket(const char *path);
/* The same from the configuration's AuthInfo, "socket=PATH[,...]"; NULL or no such word: MUNGE's own default. */
void auth_munge_info(const char *info);
/* Forgets every credential seen (tests) and says how many are remembered. */
void auth_seen_clear(void);
unsigned auth_seen_count(void);

/* ---- name service ---- */
/* User name, primary group name and groups of a uid by the host's name service. */
struct auth_user {
	char user[64], group[64];
	uint32_t gid;
	uint32_t groups[AUTH_GROUPS_MAX];
	unsigned group_count;
};
/* Fills RET, from a cache of some seconds. Blocks: not on the core thread. 0, MU_EUSER (no such uid), MU_EIO.
 */
int auth_user_lookup(uint32_t uid, struct auth_user *ret, struct mu_err *err);

#endif
