/* proto/pieces.c: see the header. */
#include "proto/pieces.h"

#include <string.h>

bool mu_pieces_match(const void *data, size_t len, const uint8_t *hash)
{
	const uint8_t *bytes = data;
	struct mu_hasher list;
	struct mu_hash h;

	mu_hash_bytes(data, len, &h);
	if (memcmp(h.b, hash, sizeof h.b) == 0)
		return true;
	mu_hasher_init(&list);
	mu_hasher_add(&list, MU_PIECES_HEAD, MU_PIECES_HEAD_BYTES);
	for (size_t at = 0; at < len; at += MU_PIECE_BYTES) {
		mu_hash_bytes(bytes + at, len - at < MU_PIECE_BYTES ? len - at : MU_PIECE_BYTES, &h);
		mu_hasher_add(&list, h.b, sizeof h.b);
	}
	mu_hasher_done(&list, &h);
	return memcmp(h.b, hash, sizeof h.b) == 0;
}
