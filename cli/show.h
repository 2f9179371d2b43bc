/* cli/show.h: what the blocks of scontrol show are made with (show.c, show_node.c). */
#ifndef CLI_SHOW_H
#define CLI_SHOW_H

#include <inttypes.h>
#include <string.h>

#include "cli/scontrol.h"
#include "proto/units.h"

struct record {
	struct mu_buf out;
	bool oneline;
	size_t shown; /* so far nothing in it steers a terminal */
};

/* The next line of the block; with -o only a blank. */
static inline void line(struct record *r)
{
	cli_mask(&r->out, r->shown);
	mu_buf_str(&r->out, r->oneline ? " " : "\n   ");
	r->shown = r->out.len;
}

static inline void end_record(struct record *r)
{
	mu_buf_str(&r->out, r->oneline ? "\n" : "\n\n");
}

static inline void print_record(struct record *r)
{
	fwrite(r->out.data ? (char *)r->out.data : "", 1, r->out.len, stdout);
	mu_buf_free(&r->out);
}

static inline const char *or_null(const char *text)
{
	return text && *text ? text : "(null)";
}

static inline const char *or_empty(const char *text)
{
	return text ? text : "";
}

static inline const char *date_of(struct mu_arena *a, int64_t usec, const char *none)
{
	char text[32];

	if (!usec)
		return none;
	mu_date_print(usec, &cli_zone, text);
	return mu_arena_strdup(a, text);
}

static inline const char *span_of(struct mu_arena *a, bool has, int64_t sec, const char *none)
{
	char text[32];

	if (!has)
		return none;
	mu_span_print(sec, 0, text);
	return mu_arena_strdup(a, text);
}

static inline const char *mem_of(struct mu_arena *a, uint64_t mib)
{
	char text[24];

	if (!mib)
		return "0";
	mu_mem_print(mib, 0, text);
	return mu_arena_strdup(a, text);
}

static inline int show_load_error(const struct scontrol *s, const char *what, const struct mu_err *err)
{
	fprintf(stderr, "slurm_load_%s error: %s\n", what,
		err->code == MU_EJOBID || err->code == MU_ECONNECT ? mu_strerror(err->code) : err->text);
	return 1;
}

int scontrol_show_nodes(struct scontrol *s, char **words, size_t count);
int scontrol_show_topology(struct scontrol *s, char **words, size_t count);
int scontrol_show_daemons(struct scontrol *s, char **words, size_t count);
int scontrol_show_slurmd(struct scontrol *s, char **words, size_t count);
int scontrol_show_assoc_mgr(struct scontrol *s, char **words, size_t count);
int scontrol_show_partitions(struct scontrol *s, char **words, size_t count);

#endif
