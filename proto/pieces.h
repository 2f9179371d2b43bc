/* proto/pieces.h: how a script or an environment that is larger than an entry holds is kept: as pieces of
 * MU_PIECE_BYTES, each under its own hash, and a list of those hashes, under whose hash the whole is known.
 *
 *     list = MU_PIECES_HEAD ‖ hash of piece 0 ‖ hash of piece 1 ‖ ...
 *
 * Controllers cut and join, nodes check what they were given. Pure. */
#ifndef PROTO_PIECES_H
#define PROTO_PIECES_H

#include <stdbool.h>
#include <stddef.h>

#include "proto/base/hash.h"

/* No script (#!...) and no environment (NAME=...) can begin like this. */
#define MU_PIECES_HEAD "\001muster-pieces-1\n"
enum { MU_PIECE_BYTES = 96 * 1024, MU_PIECES_HEAD_BYTES = sizeof MU_PIECES_HEAD - 1 };

/* True when HASH (MU_HASH_BYTES long) names the LEN bytes at DATA: it is their own hash, or that of the list
 * of their pieces. */
bool mu_pieces_match(const void *data, size_t len, const uint8_t *hash);

#endif
