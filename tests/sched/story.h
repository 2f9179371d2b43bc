/* tests/sched/story.h: what the parts of the scenario runner share. */
#ifndef TESTS_SCHED_STORY_H
#define TESTS_SCHED_STORY_H

#include "proto/base/map.h"
#include "tests/sched/harness.h"
#include "tests/sched/make.h"

enum { WORDS = 64 };
struct story {
	struct harness h;
	struct mu_arena arena;
	struct mu_buf conf, gres; /* the configuration, and its gres.conf */
	unsigned nodes, line;
	const char *file;
	bool founded, show;
	int refused; /* expected code of this line */
	int64_t start_usec;
	Mu__Event *last;
};

/* Notes the first broken expectation; false. */
bool wrong(struct story *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* sbatch's option words among WORD; NULL when one is unknown. */
Mu__JobSpec *spec(struct story *s, char **word);
/* expect ... and show ... (looks.c). */
bool act_expect(struct story *s, char **word);
bool act_show(struct story *s, char **word);

/* Shared by the acts: KEY= among words, who asks, a fresh event, admission and fold. */
const char *story_value(char **word, const char *key);
Mu__Author *story_author(struct story *s, char **word);
Mu__Event *story_event(struct story *s, Mu__Event__KindCase kind);
bool story_ask(struct story *s, Mu__Event *e);
uint32_t story_job(struct story *s, const char *name); /* 12, or of 12_3 the id of its own; 0: none */
/* account_words.c */
bool act_account(struct story *s, char **word);
bool act_user(struct story *s, char **word);
bool act_qos(struct story *s, char **word);
bool act_remove(struct story *s, char **word);
/* resv_words.c */
bool act_resv(struct story *s, char **word);
bool expect_resv(struct story *s, char **word);
bool expect_share(struct story *s, char **word);
bool expect_sprio(struct story *s, char **word);

#endif
