/* log/auth.h: credentials of requests. Start closed: there is no open default.
 * Envelope bytes in and out (log/envelope.proto); the only file besides wire users that knows its fields is auth.c. */
#ifndef LOG_AUTH_H
#define LOG_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "log/wire.h"
#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/base/hash.h"

/* Keys are files of 0600 (secret) or 0644 (public), hex text, one line. */
struct auth_keys {
	uint8_t cluster_secret[64]; /* Ed25519, controllers only */
	bool has_secret;
	uint8_t cluster_public[32]; /* everyone */
	uint8_t node_secret[64];    /* agents only: the node's own */
	uint8_t node_public[32];
	bool has_node;
};
/* Draws a key pair into SECRET_PATH and PUBLIC_PATH (neither may exist). */
int auth_keygen(const char *secret_path, const char *public_path, struct mu_err *err);
int auth_load_secret(const char *path, uint8_t ret_secret[64], uint8_t ret_public[32], struct mu_err *err); /* refuses a file that others can read */
int auth_load_public(const char *path, uint8_t ret_public[32], struct mu_err *err);
/* 32 bytes derived from the secret for the peers' transport. */
void auth_peer_key(const uint8_t secret[64], uint8_t ret[32]);

/* ---- making requests ---- */
/* Command: over a Unix socket nothing is added; else a MUNGE credential over BLAKE2b(body). 0 or MU_EAUTH. */
int auth_seal_user(struct mu_view body, bool munge, struct mu_buf *out, struct mu_err *err);
int auth_seal_node(const struct auth_keys *keys, const char *node, int64_t now_usec, struct mu_view body, struct mu_buf *out, struct mu_err *err);
/* Opens a reply; with KEYS, an agent insists on the cluster's signature. Body is borrowed from ARENA. */
int auth_open_reply(const struct auth_keys *keys, struct mu_view envelope, struct mu_arena *arena, struct mu_view *ret_body, struct mu_err *err);

/* ---- verifying requests (controllers) ---- */
struct auth_who {
	bool is_node;
	char node[256];       /* claimed and proven by the key that LOOKUP gave */
	uint32_t uid, gid;
	char verifier[16];    /* "socket", "munge", "node-key" */
	char host[64];
};
/* Gives the enrolled public key of NODE; MU_ENOENT when it is not enrolled. Any thread. */
typedef int (*auth_node_key)(void *arg, const char *node, uint8_t ret_public[32]);
int auth_verify(struct mu_view envelope, const struct wire_peer *peer, int64_t now_usec, auth_node_key lookup, void *arg,
		struct mu_arena *arena, struct auth_who *ret_who, struct mu_view *ret_body, struct mu_err *err);
/* Reply to WHO: signed when a node asked. */
int auth_seal_reply(const struct auth_keys *keys, const struct auth_who *who, struct mu_view body, struct mu_buf *out, struct mu_err *err);

/* ---- name service ---- */
/* Fills user name, primary group name and supplementary groups of UID by the host's name service. Blocks: not on the core thread. */
struct auth_user {
	char user[64], group[64];
	uint32_t gid;
	uint32_t groups[256];
	unsigned group_count;
};
int auth_user_lookup(uint32_t uid, struct auth_user *ret, struct mu_err *err);

#endif
