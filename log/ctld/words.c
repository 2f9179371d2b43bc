/* log/ctld/words.c: see words.h. */
#include "log/ctld/words.h"

#include <assert.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORD_FIRST = 256 }; /* above every letter */

static void take(const char *verb, const struct ctl_word *w, const char *value)
{
	if (w->flag) {
		*w->flag = true;
	} else if (w->text) {
		*w->text = value;
	} else {
		if (*w->count == w->max) {
			fprintf(stderr, "muster: error: %s: --%s is given more than %zu times\n", verb,
				w->name, w->max);
			exit(1);
		}
		w->list[(*w->count)++] = value;
	}
}

void ctl_words(const char *verb, const char *usage, const struct ctl_word *table, size_t count,
	       const char **file, const char **dir, int argc, char **argv)
{
	struct option longs[CTL_WORDS_MAX + 2] = {0};
	int o;

	assert(count <= CTL_WORDS_MAX);
	for (size_t i = 0; i < count; i++)
		longs[i] = (struct option){table[i].name, !table[i].flag, NULL, WORD_FIRST + (int)i};
	longs[count] = (struct option){"help", 0, NULL, 'h'};
	while ((o = getopt_long(argc, argv, file ? "f:h" : "h", longs, NULL)) != -1) {
		if (o == 'h') {
			fputs(usage, stdout);
			exit(0);
		}
		if (o == '?') {
			fprintf(stderr, "Try \"muster %s --help\" for more information\n", verb);
			exit(1);
		}
		if (o == 'f')
			*file = optarg;
		else
			take(verb, &table[o - WORD_FIRST], optarg);
	}
	if (dir && optind < argc)
		*dir = argv[optind++];
	if (optind < argc) {
		fprintf(stderr, "muster: error: %s: \"%s\" is one word too many\n", verb, argv[optind]);
		exit(1);
	}
}
