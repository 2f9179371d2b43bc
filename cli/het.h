/* cli/het.h: the components of a heterogeneous job on the command line: options of one after the other, with
 * lone colons between them. */
#ifndef CLI_HET_H
#define CLI_HET_H

#include "cli/cli.h"
#include "cli/option.h"
#include "proto/het.h"
#include "proto/spec.pb-c.h"

/* One component. */
struct cli_part {
	struct cli_args args;
	Mu__JobSpec spec;
};

/* FIRST has been read up to its words: splits off the components behind it, each with what the environment
 * says. ANYWHERE: a colon may stand behind a command, as srun's do; else only before it. RET has at least
 * one, in the order written, FIRST's words without what became others'; it has MU_HET_MAX places, all
 * initialised. 0 or a sentence. */
int cli_parts_split(struct cli *c, const struct cli_args *first, bool anywhere, struct cli_part **ret,
		    size_t *ret_count, struct mu_err *err);
/* Another component, with what the environment says. */
int cli_parts_add(struct cli *c, struct cli_part *parts, size_t *count, struct mu_err *err);
/* Options to specs. 0 or a sentence. */
int cli_parts_specs(struct cli *c, struct cli_part *parts, size_t count, struct mu_err *err);
/* What concerns the job as a whole (account, limit, name ...) and only the first component says holds for the
 * others too; what each asks of nodes is its own. */
void cli_parts_carry(struct cli_part *parts, size_t count);
/* The specs behind the first, as requests take them. In C's arena. */
Mu__JobSpec **cli_parts_others(struct cli *c, struct cli_part *parts, size_t count);

/* What a component's row says of it for the variables of processes. In ARENA. */
Mu__HetComponent *cli_het_component(const Mu__JobRow *row, struct mu_arena *arena);

#endif
