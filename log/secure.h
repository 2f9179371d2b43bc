/* log/secure.h: how two controllers prove the cluster's key to each other and then speak in private. Bytes
 * only: no sockets, no loop.
 *
 *   client -> server  HELLO   magic 8, cluster 16, generation 8, replica 8, purpose 1, zero 7, name 64,
 * address 64, ephemeral X25519 key 32, MAC 32 = BLAKE2b keyed by the cluster key over all before server ->
 * client  REPLY   the same fields without purpose, MAC over HELLO and REPLY; then its stream header 24 client
 * -> server          its stream header 24, then frames frame                     u32 little-endian length of
 * the ciphertext, ciphertext (secretstream, 17 bytes longer than the text)
 *
 * keys = BLAKE2b keyed by the cluster key over (shared secret, HELLO, REPLY): one for each direction. The
 * first frame that opens proves that the client is no replay; the server must believe nothing before. Neither
 * side learns anything from one that lacks the key but its claims, and allocates nothing for it. Numbers are
 * little-endian. Pure but for the ephemeral keys' randomness. */
#ifndef LOG_SECURE_H
#define LOG_SECURE_H

#include <sodium.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SECURE_CHUNK = 32 * 1024,
	SECURE_OVERHEAD = crypto_secretstream_xchacha20poly1305_ABYTES,
	SECURE_FRAME_MAX = 4 + SECURE_CHUNK + SECURE_OVERHEAD,
	SECURE_HEADER = crypto_secretstream_xchacha20poly1305_HEADERBYTES,
	SECURE_CLAIM = 8 + 16 + 8 + 8 + 8 + 64 + 64 + 32,
	SECURE_HELLO = SECURE_CLAIM + 32,
	SECURE_REPLY = SECURE_CLAIM + 32
};

/* Who speaks. Proven as far as the cluster key goes: whoever holds it may claim any identity. */
struct secure_identity {
	uint8_t cluster[16]; /* zero: not founded yet */
	uint64_t generation; /* raised by recovery from a lost majority */
	uint64_t id;
	uint8_t purpose;
	char name[64];
	char address[64];
};

struct secure_session {
	uint8_t key[32];
	uint8_t ephemeral[32];
	uint8_t hello[SECURE_HELLO], reply[SECURE_REPLY];
	crypto_secretstream_xchacha20poly1305_state push, pull;
	int client;
};

/* Client's side. 0, MU_EPROTO (not our protocol), MU_EAUTH (another key), MU_EINTERNAL (the generator
 * failed). */
int secure_hello(struct secure_session *s, const uint8_t key[32],
		 const struct secure_identity *self); /* fills s->hello */
int secure_take_reply(struct secure_session *s, const uint8_t reply[SECURE_REPLY],
		      struct secure_identity *ret_peer,
		      uint8_t ret_header[SECURE_HEADER]); /* RET_HEADER is to be sent */
/* Server's side. */
int secure_take_hello(struct secure_session *s, const uint8_t key[32], const uint8_t hello[SECURE_HELLO],
		      const struct secure_identity *self, struct secure_identity *ret_peer,
		      uint8_t ret_header[SECURE_HEADER]); /* fills s->reply; send it, then RET_HEADER */
/* Both: the other side's stream header. 0 or MU_EAUTH. */
int secure_take_header(struct secure_session *s, const uint8_t header[SECURE_HEADER]);

/* Seals LEN <= SECURE_CHUNK bytes into OUT (SECURE_FRAME_MAX bytes); returns the frame's length. */
size_t secure_seal(struct secure_session *s, const uint8_t *text, size_t len, uint8_t *out);
/* Length of the frame that begins at BYTES (4 bytes at least), or MU_EPROTO. */
int secure_frame_length(const uint8_t *bytes);
/* Opens a whole frame into OUT (SECURE_CHUNK bytes). Returns the text's length or MU_EAUTH. */
int secure_open(struct secure_session *s, const uint8_t *frame, size_t len, uint8_t *out);
void secure_wipe(struct secure_session *s);

#endif
