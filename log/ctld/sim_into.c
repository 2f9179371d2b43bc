/* ctld/sim_into.c: the entries of a simulation into an archive, as a controller would have written them. */
#include "log/ctld/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "log/ctld/entry_fold.h"
#include "log/entry.h"

enum { BATCH = 128 };

struct sim_into {
	struct view *view;
	struct sch_state *st;
	struct mu_hash chain;
	struct mu_arena arena; /* of the batch */
	struct view_entry batch[BATCH];
	size_t count;
	struct mu_err err;
};

static int flush(struct sim_into *s)
{
	int code = s->count ? view_apply(s->view, s->batch, s->count, &s->err) : 0;

	s->count = 0;
	mu_arena_reset(&s->arena);
	return code;
}

int sim_into_entry(void *arg, uint64_t pos, int64_t time_usec, const struct mu_view *event, size_t count)
{
	struct sim_into *s = arg;
	MU_CLEANUP(mu_buf_free) struct mu_buf out = {0};
	struct log_part *parts = mu_arena_alloc(&s->arena, (count + 1) * sizeof *parts);
	struct log_entry entry;

	for (size_t i = 0; i < count; i++)
		parts[i] = (struct log_part){LOG_PART_EVENT, event[i]};
	int code = log_entry_pack(time_usec, 1, parts, count, &out);
	if (!code)
		code = log_entry_parse(out.data, out.len, &entry);
	if (code)
		return mu_fail(&s->err, code, "the entry at position %llu is larger than one may be", (unsigned long long)pos);
	struct mu_view raw = {mu_arena_dup(&s->arena, entry.raw, entry.raw_len), entry.raw_len};
	code = ctl_entry_fold(s->st, &s->chain, pos, raw, &s->arena, &s->batch[s->count], &s->err);
	s->count += !code;
	return !code && s->count == BATCH ? flush(s) : code;
}

struct sim_into *sim_into_new(const char *dir, struct mu_err *err)
{
	struct sim_into *s = calloc(1, sizeof *s);
	char path[4096];

	if (!s)
		abort();
	(void)snprintf(path, sizeof path, "%s/view", dir);
	if ((mkdir(dir, 0700) && errno != EEXIST) || mkdir(path, 0700)) {
		(void)mu_fail(err, MU_EIO, "The directory %s cannot be made: %m.", path);
		free(s);
		return NULL;
	}
	s->st = sch_state_new();
	if (view_open(path, false, &s->view, err)) {
		sch_state_free(s->st);
		free(s);
		return NULL;
	}
	return s;
}

int sim_into_close(struct sim_into *s, int code, struct mu_err *err)
{
	if (!s)
		return code;
	if (!code)
		code = flush(s);
	if (!code)
		code = view_sync(s->view, &s->err);
	if (code && s->err.text[0])
		*err = s->err;
	view_close(s->view);
	sch_state_free(s->st);
	mu_arena_free(&s->arena);
	free(s);
	return code;
}
