/* cli/muster.h: the commands of muster beside Slurm's. COUNT words behind the command's name; exit code. */
#ifndef CLI_MUSTER_H
#define CLI_MUSTER_H

#include "cli/cli.h"

int muster_log(struct cli *c, size_t count, char **words);
int muster_bench(struct cli *c, size_t count, char **words);
int muster_config(struct cli *c, size_t count, char **words);
int muster_why(struct cli *c, size_t count, char **words);
int muster_forecast(struct cli *c, size_t count, char **words);
int muster_events(struct cli *c, size_t count, char **words);
int muster_wait(struct cli *c, size_t count, char **words);
/* undo @POS[.N] --plan|--apply: events that make up for one that was a mistake. */
int muster_undo(struct cli *c, size_t count, char **words);
int muster_diff(struct cli *c, size_t count, char **words);
/* cli/slice.c: signed slices of the log, and receipts. Exit codes. */
int slice_export(struct cli *c, const char *path, uint64_t from, uint64_t to);
bool slice_is(const char *path);
/* Checks the statement of an archive's cut, whose entries go on from CHAIN (NULL: not known), with the cluster's public key, and
 * prints what it says. 0, MU_ECORRUPT, MU_EAUTH, or why the key cannot be had. */
int slice_cut(struct cli *c, const Mu__Cut *cut, const uint8_t *chain, struct mu_err *err);
int slice_verify(struct cli *c, const char *path, const char *key_path); /* KEY_PATH NULL: the configuration's */
int receipt_write(struct cli *c, const char *path, uint32_t job, uint64_t pos, ProtobufCBinaryData script);
int muster_receipt(struct cli *c, size_t count, char **words);
/* audit acts: what people did to the cluster; any other audit is muster-history's. */
int muster_acts(struct cli *c, size_t count, char **words);
int muster_audit(struct cli *c, size_t count, char **words);
/* Options of one of these commands: "--name VALUE", "--name=VALUE", or "--name" alone. */
struct muster_word {
	const char *name;				       /* without dashes */
	enum { MUSTER_FLAG, MUSTER_VALUE, MUSTER_MAYBE } kind; /* MAYBE: a value only behind '=' */
	const char **value;				       /* "" for a flag given */
};
/* Takes the options out of WORDS; what is left over is moved to the front, its number is returned; -1 with a
 * sentence printed. */
int muster_words(struct cli *c, size_t count, char **words, const struct muster_word *list, size_t n);
/* Becomes the program muster-history VERB WORDS. Returns only when that cannot be started. */
int muster_history(struct cli *c, const char *verb, size_t count, char **words);

#endif
