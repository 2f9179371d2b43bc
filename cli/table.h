/* cli/table.h: rows of text in Slurm's layouts. Pure but for the getters.
 *
 * A format is text, columns, text: three ways of writing one ("%.18i %j", "JobID:.20,Name",
 * "JobID%20,State"). Widths count characters, not bytes; what is longer is cut (accounting marks the cut with
 * +). */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"

struct cli_cell; /* what a getter looks at: cli/column.h */
typedef void (*cli_getter)(const struct cli_cell *cell, struct mu_buf *out);

enum cli_column_flags {
	COL_KEY = 1,   /* sinfo: nodes that differ in it are not grouped */
	COL_EXACT = 2, /* the same with -e only */
	COL_LEFT = 4   /* accounting: aligned to the left */
};
struct cli_column {
	char letter; /* 0: none */
	const char *name, *heading;
	int width; /* default of accounting */
	unsigned flags;
	cli_getter get;
};
struct cli_columns {
	const struct cli_column *column;
	size_t count;
};

struct cli_item {
	const struct cli_column *column;
	int width; /* 0: as long as it is */
	bool right;
	bool widen;	   /* width grows to the longest cell (sinfo's names) */
	const char *after; /* text behind it */
};
struct cli_format {
	const char *before;
	struct cli_item *item;
	size_t count;
};

enum { CLI_WIDTH_MAX = 4096, CLI_ITEMS_MAX = 1024 };

/* "%[[.]width]letter" with any text between; %% is a per cent sign; \n and \t are not special; "%all" alone
 * is every column, a bar between. MU_ESYNTAX names the letter. */
int cli_format_letters(const struct cli_columns *set, const char *text, struct mu_arena *arena,
		       struct cli_format *ret, struct mu_err *err);
/* "Name[:[.][width][suffix]]" divided by commas, case-blind, dashes and underscores left out; default
 * width 20. "all" is every column. */
int cli_format_names(const struct cli_columns *set, const char *text, struct mu_arena *arena,
		     struct cli_format *ret, struct mu_err *err);
/* What --helpformat lists: the names of all columns, four a line. */
void cli_table_names(const struct cli_columns *set, FILE *out);
/* "Name[%[-]width]" divided by commas or blanks, case-blind, unique prefixes too. */
int cli_format_acct(const struct cli_columns *set, const char *text, struct mu_arena *arena,
		    struct cli_format *ret, struct mu_err *err);

/* Number of characters of UTF-8 text (a broken byte counts as one). */
size_t cli_chars(const char *text, size_t len);
/* What a user calls a job may hold line ends and the words that steer a terminal: from FROM on, each becomes
 * "?". */
void cli_mask(struct mu_buf *out, size_t from);
/* TEXT in WIDTH characters, cut or filled with blanks (0: as it is); a cut leaves MARK at the end when MARK
 * is not 0. */
void cli_put_width(struct mu_buf *out, const char *text, size_t len, int width, bool right, char mark);

void cli_table_heading(const struct cli_format *f, struct mu_buf *out);
void cli_table_row(const struct cli_format *f, const struct cli_cell *cell, struct mu_buf *out);

/* Accounting: blanks, or DELIMITER (NULL: aligned) with one at the end of the line when TRAIL. */
struct cli_acct_style {
	const char *delimiter;
	bool trail;
};
void cli_acct_heading(const struct cli_format *f, const struct cli_acct_style *style, struct mu_buf *out);
void cli_acct_row(const struct cli_format *f, const struct cli_acct_style *style, const struct cli_cell *cell,
		  struct mu_buf *out);

#endif
