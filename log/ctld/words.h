/* log/ctld/words.h: the words behind an offline verb of muster-history, read by a table. */
#ifndef CTLD_WORDS_H
#define CTLD_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* A long option. Exactly one of TEXT, FLAG and LIST is set. */
struct ctl_word {
	const char *name;
	const char **text; /* its value; the last one holds */
	bool *flag;	   /* it takes none */
	const char **list; /* its values, each time it is given: COUNT of them, at most MAX */
	size_t *count, max;
};
enum { CTL_WORDS_MAX = 32 };

/* Reads ARGV, whose first word is the verb's name. -f FILE is taken where FILE is not NULL, and one word that
 * is no option where DIR is not. --help prints USAGE and ends the program with 0; a mistake is said, with
 * VERB before it, and ends it with 1. */
void ctl_words(const char *verb, const char *usage, const struct ctl_word *table, size_t count,
	       const char **file, const char **dir, int argc, char **argv);

#endif
