/* proto/keep.c: see keep.h. */
#include "proto/keep.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/base/map.h"
#include "proto/conf.h"
#include "proto/units.h"

static const struct {
	const char *key, *what;
} tiers[MU_KEEP_TIERS] = {
#define MU_KEEP(tier, key, what) {key, what},
#include "proto/keep.def"
#undef MU_KEEP
};

static const struct {
	const char *word;
	int64_t sec;
} units[] = {{"month", 365 * 86400 / 12}, {"day", 86400}, {"hour", 3600}};
enum { UNITS = sizeof units / sizeof units[0], COUNT_MAX = 100000 };

/* The unit's row; UNITS where the word is none. Nothing is months, as in slurmdbd.conf. */
static size_t unit_of(const char *word)
{
	size_t u = 0;

	for (; *word && u < UNITS; u++) {
		size_t len = strlen(units[u].word);
		if (!strncasecmp(word, units[u].word, len) && (!word[len] || !strcasecmp(word + len, "s")))
			break;
	}
	return u;
}

int mu_keep_parse(const char *text, int64_t *ret_sec, char ret_text[MU_KEEP_TEXT], struct mu_err *err)
{
	size_t digits = strspn(text, "0123456789");
	int64_t sec = 0;

	if (strpbrk(text, "-:")) {
		if (mu_pause_parse(text, &sec, NULL) || sec < 0)
			return mu_fail(err, MU_EINVAL, "\"%.40s\" is no span such as 30-00:00:00", text);
		*ret_sec = sec;
		mu_span_print(sec, 0, ret_text);
		return 0;
	}
	size_t u = unit_of(text + digits);
	errno = 0;
	long long n = digits ? strtoll(text, NULL, 10) : -1;
	if (errno || n < 0 || n > COUNT_MAX || u == UNITS)
		return mu_fail(err, MU_EINVAL,
			       "\"%.40s\" must be a number of months, or such as 12months, 30days, 24hours "
			       "or 30-00:00:00; 0 is for ever",
			       text);
	*ret_sec = n * units[u].sec;
	(void)snprintf(ret_text, MU_KEEP_TEXT, n ? "%lld%ss" : "0", n, units[u].word);
	return 0;
}

int64_t mu_keep_sec(const Mu__Config *config, enum mu_keep_tier tier)
{
	const char *value = config ? mu_conf_get(config, tiers[tier].key, NULL) : NULL;
	char text[MU_KEEP_TEXT];
	int64_t sec;

	return value && mu_keep_parse(value, &sec, text, NULL) == 0 ? sec : 0;
}

const char *mu_keep_key(enum mu_keep_tier tier)
{
	return tiers[tier].key;
}

const char *mu_keep_what(enum mu_keep_tier tier)
{
	return tiers[tier].what;
}

static void add_number(struct mu_hasher *h, uint64_t n)
{
	uint8_t bytes[8];

	mu_put_be64(bytes, n);
	mu_hasher_add(h, bytes, sizeof bytes);
}

static void add_bytes(struct mu_hasher *h, const void *data, size_t len)
{
	add_number(h, len);
	if (len)
		mu_hasher_add(h, data, len);
}

void mu_cut_hash(const Mu__Cut *cut, struct mu_hash *ret)
{
	struct mu_hasher h;
	const char *author = cut->author ? cut->author : "", *rule = cut->rule ? cut->rule : "";

	mu_hasher_init(&h);
	mu_hasher_add(&h, "muster cut 1", 12);
	add_number(&h, cut->pos);
	add_number(&h, (uint64_t)cut->time_usec);
	add_bytes(&h, cut->chain.data, cut->chain.len);
	add_bytes(&h, cut->digest.data, cut->digest.len);
	add_number(&h, cut->conf_pos);
	add_bytes(&h, author, strlen(author));
	add_bytes(&h, rule, strlen(rule));
	mu_hasher_done(&h, ret);
}
