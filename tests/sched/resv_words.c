/* tests/sched/resv_words.c: reservations of a scenario line. */
#include <stdlib.h>
#include <string.h>

#include "proto/states.h"
#include "tests/sched/story.h"

static int64_t number(char **word, const char *key)
{
	return strtoll(story_value(word, key), NULL, 10);
}

static uint64_t flags(const char *text)
{
	uint64_t all = 0;
	for (const char *p = text; p && *p;) {
		size_t len = strcspn(p, ",");
		all |= mu_resv_flag_parse(p, len);
		p += len + (p[len] == ',');
	}
	return all;
}

static char **list(struct story *s, const char *text, size_t *ret)
{
	char *copy = mu_arena_strdup(&s->arena, text), *save = NULL;
	char **v = mu_arena_alloc(&s->arena, 32 * sizeof(*v));
	*ret = 0;
	for (char *w = strtok_r(copy, ",", &save); w && *ret < 32; w = strtok_r(NULL, ",", &save))
		v[(*ret)++] = w;
	return v;
}

static bool has_word(char **word, const char *key)
{
	for (; *word; word++)
		if (strcmp(*word, key) == 0)
			return true;
	return false;
}

bool act_resv(struct story *s, char **word)
{
	Mu__Event *e = story_event(s, MU__EVENT__KIND_RESERVATION_CHANGED);
	Mu__ReservationChanged *c = mu_arena_alloc(&s->arena, sizeof(*c));
	Mu__ReservationRow *r = mu_arena_alloc(&s->arena, sizeof(*r));
	mu__reservation_changed__init(c);
	mu__reservation_row__init(r);
	e->reservation_changed = c;
	c->row = r;
	r->name = mu_arena_strdup(&s->arena, word[0]);
	SET(c, create, has_word(word, "create"));
	SET(c, remove, has_word(word, "delete"));
	SET(c, skip, has_word(word, "skip"));
	if (story_value(word, "start"))
		SET(r, start_usec, s->start_usec + number(word, "start") * 1000000);
	if (story_value(word, "end"))
		SET(r, end_usec, s->start_usec + number(word, "end") * 1000000);
	if (story_value(word, "duration"))
		SET(c, duration_sec, number(word, "duration") * 60);
	if (story_value(word, "nodecnt"))
		SET(r, node_cnt, (uint32_t)number(word, "nodecnt"));
	if (story_value(word, "corecnt"))
		SET(r, core_cnt, (uint32_t)number(word, "corecnt"));
	if (story_value(word, "purge"))
		SET(r, purge_sec, number(word, "purge"));
	r->nodes = mu_arena_strdup(&s->arena, story_value(word, "nodes"));
	r->partition = mu_arena_strdup(&s->arena, story_value(word, "partition"));
	r->features = mu_arena_strdup(&s->arena, story_value(word, "features"));
	r->licenses = mu_arena_strdup(&s->arena, story_value(word, "licenses"));
	SET(r, flags, flags(story_value(word, "flags")));
	SET(c, flags_clear, flags(story_value(word, "noflags")));
	if (story_value(word, "users")) {
		SET(c, set_users, 1);
		r->user = list(s, story_value(word, "users"), &r->n_user);
	}
	if (story_value(word, "notusers")) {
		SET(c, set_users, 1);
		SET(r, deny_users, 1);
		r->user = list(s, story_value(word, "notusers"), &r->n_user);
	}
	if (story_value(word, "accounts")) {
		SET(c, set_accounts, 1);
		r->account = list(s, story_value(word, "accounts"), &r->n_account);
	}
	e->author = story_author(s, word);
	return story_ask(s, e);
}

struct look {
	const char *name;
	struct story *s;
	Mu__ReservationRow *row;
};

static int look(void *arg, const struct sch_key *key, const uint8_t *row, size_t len)
{
	struct look *l = arg;
	Mu__ReservationRow *r =
	    (Mu__ReservationRow *)mu_pb_unpack(&mu__reservation_row__descriptor, row, len, &l->s->arena);
	if (r && strcmp(r->name, l->name) == 0)
		l->row = r;
	return 0;
}

bool expect_resv(struct story *s, char **word)
{
	struct look l = {.name = word[0], .s = s};
	sch_rows(s->h.st, SCH_ROW_RESERVATION, look, &l);
	if (word[1] && strcmp(word[1], "gone") == 0)
		return !l.row || wrong(s, "reservation %s is still there", word[0]);
	if (!l.row)
		return wrong(s, "there is no reservation %s", word[0]);
	char *cores = mu_arena_strdup(&s->arena, "");
	for (size_t i = 0; i < l.row->n_cores; i++)
		cores = mu_arena_printf(&s->arena, "%s%s%s:%s", cores, *cores ? "+" : "",
					l.row->cores[i]->node, l.row->cores[i]->cpu_list);
	const struct {
		const char *key, *value;
	} v[] = {{"nodes", l.row->nodes ? l.row->nodes : "none"},
		 {"active", l.row->active ? "yes" : "no"},
		 {"cores", cores},
		 {"start", mu_arena_printf(&s->arena, "%lld",
					   (long long)((l.row->start_usec - s->start_usec) / 1000000))},
		 {"end", mu_arena_printf(&s->arena, "%lld",
					 (long long)((l.row->end_usec - s->start_usec) / 1000000))}};
	for (size_t k = 0; k < sizeof(v) / sizeof(v[0]); k++)
		if (story_value(word, v[k].key) && strcmp(story_value(word, v[k].key), v[k].value) != 0)
			return wrong(s, "%s of %s is %s instead of %s", v[k].key, word[0], v[k].value,
				     story_value(word, v[k].key));
	return true;
}
