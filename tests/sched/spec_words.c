/* tests/sched/spec_words.c: sbatch's option words of a scenario line to a JobSpec. */
#include <stdlib.h>
#include <string.h>

#include "proto/units.h"
#include "tests/sched/story.h"

struct word_of {
	const char *name, *letter;
	bool (*set)(struct story *, Mu__JobSpec *, const char *);
};
#define NUMBER(function, field)                                              \
	static bool function(struct story *s, Mu__JobSpec *j, const char *v) \
	{                                                                    \
		SET(j, field, strtoul(v, NULL, 10));                         \
		return true;                                                 \
	}
#define TEXT(function, field)                                                \
	static bool function(struct story *s, Mu__JobSpec *j, const char *v) \
	{                                                                    \
		j->field = mu_arena_strdup(&s->arena, v);                    \
		return true;                                                 \
	}
#define SWITCH(function, field, yes)                                         \
	static bool function(struct story *s, Mu__JobSpec *j, const char *v) \
	{                                                                    \
		SET(j, field, yes);                                          \
		return true;                                                 \
	}
NUMBER(set_ntasks, ntasks)
NUMBER(set_cpus, cpus_per_task)
NUMBER(set_per_node, ntasks_per_node)
NUMBER(set_per_core, ntasks_per_core)
NUMBER(set_threads, threads_per_core)
NUMBER(set_mincpus, mincpus)
NUMBER(set_priority, priority)
TEXT(set_name, name)
TEXT(set_account, account)
TEXT(set_qos, qos)
TEXT(set_features, features)
TEXT(set_required, nodes_required)
TEXT(set_excluded, nodes_excluded)
TEXT(set_dependency, dependency)
TEXT(set_array, array)
TEXT(set_licenses, licenses)
TEXT(set_reservation, reservation)
TEXT(set_comment, comment)
SWITCH(set_hold, hold, 1)
SWITCH(set_requeue, requeue, 1)
SWITCH(set_no_requeue, requeue, 0)
SWITCH(set_exclusive, exclusive, 1)
SWITCH(set_contiguous, contiguous, 1)
SWITCH(set_overcommit, overcommit, 1)

static bool set_nodes(struct story *s, Mu__JobSpec *j, const char *v)
{
	char *end;
	SET(j, nodes_min, strtoul(v, &end, 10));
	SET(j, nodes_max, *end == '-' ? strtoul(end + 1, NULL, 10) : j->nodes_min);
	return true;
}

static bool set_nice(struct story *s, Mu__JobSpec *j, const char *v)
{
	SET(j, nice, (int32_t)strtol(v, NULL, 10));
	return true;
}

static bool set_time(struct story *s, Mu__JobSpec *j, const char *v)
{
	int64_t sec;
	struct mu_err err = {0};
	if (mu_span_parse(v, &sec, &err))
		return wrong(s, "%s", err.text);
	SET(j, time_limit_sec, sec);
	return true;
}

static bool set_mem(struct story *s, Mu__JobSpec *j, const char *v)
{
	SET(j, mem_node_mib, strtoull(v, NULL, 10));
	return true;
}

static bool set_mem_cpu(struct story *s, Mu__JobSpec *j, const char *v)
{
	SET(j, mem_cpu_mib, strtoull(v, NULL, 10));
	return true;
}

static bool set_begin(struct story *s, Mu__JobSpec *j, const char *v)
{
	SET(j, begin_usec, s->h.now_usec + strtoll(v, NULL, 10) * 1000000);
	return true;
}

static bool set_deadline(struct story *s, Mu__JobSpec *j, const char *v)
{
	SET(j, deadline_usec, s->h.now_usec + strtoll(v, NULL, 10) * 1000000);
	return true;
}

static bool set_gres(struct story *s, Mu__JobSpec *j, const char *v)
{
	struct mu_err err = {0};
	return mu_gres_parse(v, &s->arena, &j->gres, &j->n_gres, &err) == 0 || wrong(s, "%s", err.text);
}

static bool set_partition(struct story *s, Mu__JobSpec *j, const char *v)
{
	char *copy = mu_arena_strdup(&s->arena, v), *save = NULL;
	j->partition = mu_arena_alloc(&s->arena, 64 * sizeof(char *));
	for (char *w = strtok_r(copy, ",", &save); w && j->n_partition < 64; w = strtok_r(NULL, ",", &save))
		j->partition[j->n_partition++] = w;
	return true;
}

static const struct word_of words[] = {
    {"--ntasks", "-n", set_ntasks},
    {"--nodes", "-N", set_nodes},
    {"--cpus-per-task", "-c", set_cpus},
    {"--time", "-t", set_time},
    {"--partition", "-p", set_partition},
    {"--mem", NULL, set_mem},
    {"--mem-per-cpu", NULL, set_mem_cpu},
    {"--gres", NULL, set_gres},
    {"--constraint", "-C", set_features},
    {"--nodelist", "-w", set_required},
    {"--exclude", "-x", set_excluded},
    {"--exclusive", NULL, set_exclusive},
    {"--begin", NULL, set_begin},
    {"--deadline", NULL, set_deadline},
    {"--hold", "-H", set_hold},
    {"--priority", NULL, set_priority},
    {"--nice", NULL, set_nice},
    {"--requeue", NULL, set_requeue},
    {"--no-requeue", NULL, set_no_requeue},
    {"--ntasks-per-node", NULL, set_per_node},
    {"--job-name", "-J", set_name},
    {"--account", "-A", set_account},
    {"--qos", "-q", set_qos},
    {"--dependency", "-d", set_dependency},
    {"--array", "-a", set_array},
    {"--licenses", "-L", set_licenses},
    {"--reservation", NULL, set_reservation},
    {"--contiguous", NULL, set_contiguous},
    {"--overcommit", "-O", set_overcommit},
    {"--ntasks-per-core", NULL, set_per_core},
    {"--threads-per-core", NULL, set_threads},
    {"--mincpus", NULL, set_mincpus},
    {"--comment", NULL, set_comment},
};

static bool spec_word(struct story *s, Mu__JobSpec *j, const char *word)
{
	size_t name = strcspn(word, "=");
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strlen(words[i].name) == name && strncmp(word, words[i].name, name) == 0)
			return words[i].set(s, j, word[name] ? word + name + 1 : "");
		if (words[i].letter && strncmp(word, words[i].letter, 2) == 0 && word[0] == '-' &&
		    word[1] != '-')
			return words[i].set(s, j, word + 2);
	}
	return wrong(s, "unknown option %s", word);
}

Mu__JobSpec *spec(struct story *s, char **word)
{
	Mu__JobSpec *j = mu_arena_alloc(&s->arena, sizeof(*j));
	mu__job_spec__init(j);
	for (; *word; word++)
		if ((*word)[0] == '-' && !spec_word(s, j, *word))
			return NULL;
	return j;
}
