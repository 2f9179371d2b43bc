/* cli/sreport.h: the inside of sreport: what is asked for, what the controllers integrated, what it costs.
 *
 * Owns: grouping and lines. The sums themselves come as rows (WHAT_USAGE), each second of each job in exactly one
 * of them; so whatever they are grouped by, they add up to the same total. */
#ifndef CLI_SREPORT_H
#define CLI_SREPORT_H

#include "cli/column.h"
#include "cli/option.h"
#include "proto/why.pb-c.h"

enum { REPORT_SIZES = 10, REPORT_TRES_MAX = 64, REPORT_PRICES_MAX = 10000 };
enum report_unit { U_SECONDS, U_MINUTES, U_HOURS, U_PERCENT, U_SEC_PER, U_MIN_PER, U_HOUR_PER };
/* What jobs are grouped by; several together. */
enum report_key { BY_ACCOUNT, BY_USER, BY_WCKEY, BY_PARTITION, BY_QOS, BY_RESERVATION, REPORT_KEYS };
enum report_row { ROW_JOBS = 1, ROW_NODE, ROW_CLUSTER, ROW_DOWN, ROW_WAITED, ROW_RESERVATION }; /* UsageRow.kind */

typedef __int128 report_cost; /* millionths of the currency times 3,600: exact */

/* One line; which members count depends on the report. */
struct cli_report {
	const char *key[REPORT_KEYS];
	const char *node, *nodes, *tres;
	int depth;		/* of an account in the tree, for its indentation */
	int64_t used, unused;	/* TRES-seconds */
	int64_t total;		/* of the cluster, or of what the line is about */
	int64_t allocated, down, idle, planned;
	int64_t size[REPORT_SIZES];
	int64_t start_usec, end_usec;
	uint64_t flags, jobs;
	report_cost cost;
	enum report_unit unit;
	bool counts_jobs; /* sizes count jobs */
};

/* A price from a moment on, until the next line of the same TRES. */
struct report_price {
	int64_t from_usec;
	const char *tres;
	int64_t micro; /* millionths, for a TRES-hour */
};
/* Reads PATH: lines of "DATE TRES PRICE", in any order; # begins a remark. RET lies in the arena, by time. 0, or a
 * sentence with the line's number. */
int report_prices_read(struct cli *c, const char *path, struct report_price **ret, size_t *ret_count,
		       struct mu_err *err);
/* The price of TRES at USEC in millionths; 0 before the first. */
int64_t report_price_at(const struct report_price *price, size_t count, const char *tres, int64_t usec);
void report_cost_print(report_cost cost, struct mu_buf *out); /* "12.34", rounded */

/* Rows of a window. With prices it is asked for in pieces, so that each has one price. */
struct report_rows {
	Mu__UsageRow **row;
	report_cost *cost;
	size_t count, cap;
	Mu__AssocRow **assoc;
	size_t assocs;
};
int report_rows_load(struct cli *c, int64_t from_usec, int64_t to_usec, const struct report_price *price,
		     size_t prices, struct report_rows *ret, struct mu_err *err);

struct report_group {
	const char *key[REPORT_KEYS];
	int64_t used[REPORT_TRES_MAX], unused[REPORT_TRES_MAX];
	int64_t size[REPORT_SIZES];
	uint64_t jobs;
	report_cost cost;
};
struct report_filter {
	const char *users, *accounts, *wckeys, *partitions;
};
struct report_sums {
	const struct report_rows *rows;
	const struct report_filter *filter;
	char **tres;
	size_t tress;
	const uint32_t *border; /* of sizes: CPUs from which the next begins */
	size_t borders;
	bool count_jobs;
};
/* Jobs grouped by KEYS (bits 1 << enum report_key), each group once, sorted by its names. In the arena. */
struct report_group *report_groups(const struct report_sums *s, unsigned keys, struct mu_arena *arena,
				   size_t *ret_count);
/* Of rows of KIND. */
int64_t report_total(const struct report_rows *r, enum report_row kind, const char *tres);
int64_t report_used(const Mu__UsageRow *r, const char *tres);
/* The account above; NULL above root. */
const char *report_parent(const struct report_rows *r, const char *account);
bool report_below(const struct report_rows *r, const char *account, const char *above);

#endif
