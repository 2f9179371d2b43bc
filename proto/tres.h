/* proto/tres.h: trackable resources as text: "cpu=1,mem=50M,node=1,billing=1,gres/gpu=2". Pure. */
#ifndef PROTO_TRES_H
#define PROTO_TRES_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"

struct mu_tres_item {
	const char *name; /* "cpu", "mem", "energy", "node", "billing", "gres/gpu", "gres/gpu:a100", "license/x" */
	uint64_t count;	  /* mem in MiB */
};

struct mu_tres {
	struct mu_tres_item *item;
	size_t count;
};

enum mu_tres_order {
	MU_TRES_BY_ID,	/* scontrol: cpu, mem, energy, node, billing, then the others as given */
	MU_TRES_BY_NAME /* accounting: sorted by name */
};

/* Adds N of NAME (copied; an item that is there already grows). Items lie in ARENA. N of 0 adds nothing. */
void mu_tres_add(struct mu_tres *tres, struct mu_arena *arena, const char *name, uint64_t n);
uint64_t mu_tres_get(const struct mu_tres *tres, const char *name); /* 0 when it is not there */

/* Appends the text; memory in the largest unit that keeps it whole, unless NOCONVERT. */
void mu_tres_print(const struct mu_tres *tres, enum mu_tres_order order, int noconvert, struct mu_buf *out);

/* Reads the same form back, names case-blind. 0 or MU_EINVAL. */
int mu_tres_parse(const char *text, struct mu_arena *arena, struct mu_tres *ret, struct mu_err *err);

#endif
