/* proto/multiprog.h: the file of srun --multi-prog: which program each task of a step runs. Pure.
 *
 * A line is TASKS PROGRAM ARGUMENT...; TASKS is 0, 1-3, 1,4-6 or * (all that no other line names). A line
 * that ends with a backslash goes on in the next one; # begins a comment. In arguments %t is the task's
 * number and %o its place within TASKS; single quotes keep a word as it is. */
#ifndef PROTO_MULTIPROG_H
#define PROTO_MULTIPROG_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/err.h"

enum {
	MU_MULTIPROG_BYTES = 1 << 20,
	MU_MULTIPROG_LINES = 8192,
	MU_MULTIPROG_WORDS = 4096, /* of one line */
	MU_MULTIPROG_TASKS = 1 << 20
};

struct mu_multiprog_line {
	char *tasks; /* as written; "*" */
	char **word; /* the program first */
	char *plain; /* word k was quoted: its % signs stay */
	size_t words;
};
/* Everything lies in the arena that it was read into. */
struct mu_multiprog {
	struct mu_multiprog_line *line;
	size_t lines;
};

/* Reads LEN bytes of TEXT. MU_ESYNTAX with the line's number; MU_ELIMIT. */
int mu_multiprog_parse(const char *text, size_t len, struct mu_arena *arena, struct mu_multiprog *ret,
		       struct mu_err *err);
/* The command line of TASK in ARENA: RET has *RET_COUNT words and a NULL behind them. MU_EINVAL when no line
 * names the task. */
int mu_multiprog_words(const struct mu_multiprog *prog, uint32_t task, struct mu_arena *arena, char ***ret,
		       size_t *ret_count, struct mu_err *err);

#endif
