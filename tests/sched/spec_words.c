/* tests/sched/spec_words.c: sbatch's option words of a scenario line to a JobSpec. */
#include <stdlib.h>
#include <string.h>

#include "proto/units.h"
#include "tests/sched/story.h"

struct word_of {
	const char *name, *letter;
	bool (*set)(struct story *, Mu__JobSpec *, const char *);
	bool needs;
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
NUMBER(set_per_gpu, ntasks_per_gpu)
NUMBER(set_cpus_per_gpu, cpus_per_gpu)
NUMBER(set_switches, switches)
NUMBER(set_switches_wait, switches_wait_sec)
NUMBER(set_mem_gpu, mem_gpu_mib)
NUMBER(set_threads, threads_per_core)
NUMBER(set_mincpus, mincpus)
NUMBER(set_core_spec, core_spec)
NUMBER(set_thread_spec, thread_spec)
NUMBER(set_priority, priority)
TEXT(set_name, name)
TEXT(set_account, account)
TEXT(set_qos, qos)
TEXT(set_features, features)
TEXT(set_prefer, prefer)
TEXT(set_batch, batch_features)
TEXT(set_host, submit_host)
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
SWITCH(set_spread, spread_job, 1)
SWITCH(set_fewest, use_min_nodes, 1)
SWITCH(set_user_only, exclusive_user, 1)
SWITCH(set_near, near_gpus, 1)
SWITCH(set_anywhere, any_cpus, 1)
SWITCH(set_overcommit, overcommit, 1)
SWITCH(set_oversubscribe, oversubscribe, 1)

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

static bool set_site(struct story *s, Mu__JobSpec *j, const char *v)
{
	SET(j, site_factor, (int32_t)strtol(v, NULL, 10));
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

static bool set_gpus(struct story *s, Mu__JobSpec *j, const char *v)
{
	struct mu_err err = {0};
	return mu_gres_parse(mu_arena_printf(&s->arena, "gpu:%s", v), &s->arena, &j->gres_job, &j->n_gres_job,
			     &err) == 0 ||
	       wrong(s, "%s", err.text);
}

static bool set_gpus_per_task(struct story *s, Mu__JobSpec *j, const char *v)
{
	struct mu_err err = {0};
	return mu_gres_parse(mu_arena_printf(&s->arena, "gpu:%s", v), &s->arena, &j->gres_task,
			     &j->n_gres_task, &err) == 0 ||
	       wrong(s, "%s", err.text);
}

static bool set_time_min(struct story *s, Mu__JobSpec *j, const char *v)
{
	int64_t sec;
	struct mu_err err = {0};
	if (mu_span_parse(v, &sec, &err))
		return wrong(s, "%s", err.text);
	SET(j, time_min_sec, sec);
	return true;
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
    {"--ntasks", "-n", set_ntasks, true},
    {"--nodes", "-N", set_nodes, true},
    {"--cpus-per-task", "-c", set_cpus, true},
    {"--time", "-t", set_time, true},
    {"--partition", "-p", set_partition, true},
    {"--mem", NULL, set_mem, true},
    {"--mem-per-cpu", NULL, set_mem_cpu, true},
    {"--gres", NULL, set_gres, true},
    {"--constraint", "-C", set_features, true},
    {"--nodelist", "-w", set_required, true},
    {"--exclude", "-x", set_excluded, true},
    {"--exclusive", NULL, set_exclusive, false},
    {"--begin", NULL, set_begin, true},
    {"--deadline", NULL, set_deadline, true},
    {"--hold", "-H", set_hold, false},
    {"--priority", NULL, set_priority, true},
    {"--nice", NULL, set_nice, true},
    {"--requeue", NULL, set_requeue, false},
    {"--no-requeue", NULL, set_no_requeue, false},
    {"--ntasks-per-node", NULL, set_per_node, true},
    {"--job-name", "-J", set_name, true},
    {"--account", "-A", set_account, true},
    {"--qos", "-q", set_qos, true},
    {"--dependency", "-d", set_dependency, true},
    {"--array", "-a", set_array, true},
    {"--licenses", "-L", set_licenses, true},
    {"--reservation", NULL, set_reservation, true},
    {"--contiguous", NULL, set_contiguous, false},
    {"--gpus", "-G", set_gpus, true},
    {"--gpus-per-task", NULL, set_gpus_per_task, true},
    {"--ntasks-per-gpu", NULL, set_per_gpu, true},
    {"--cpus-per-gpu", NULL, set_cpus_per_gpu, true},
    {"--mem-per-gpu", NULL, set_mem_gpu, true},
    {"--spread-job", NULL, set_spread, false},
    {"--use-min-nodes", NULL, set_fewest, false},
    {"--exclusive-user", NULL, set_user_only, false},
    {"--enforce-binding", NULL, set_near, false},
    {"--disable-binding", NULL, set_anywhere, false},
    {"--prefer", NULL, set_prefer, true},
    {"--batch", NULL, set_batch, true},
    {"--core-spec", "-S", set_core_spec, true},
    {"--thread-spec", NULL, set_thread_spec, true},
    {"--submit-host", NULL, set_host, true},
    {"--switches", NULL, set_switches, true},
    {"--switches-wait", NULL, set_switches_wait, true},
    {"--time-min", NULL, set_time_min, true},
    {"--overcommit", "-O", set_overcommit, false},
    {"--oversubscribe", "-s", set_oversubscribe, false},
    {"--ntasks-per-core", NULL, set_per_core, true},
    {"--threads-per-core", NULL, set_threads, true},
    {"--mincpus", NULL, set_mincpus, true},
    {"--comment", NULL, set_comment, true},
    {"--site-factor", NULL, set_site, true},
};

/* A value is attached (-n2, --mem=100) or the next word; NULL for a switch. */
static bool spec_word(struct story *s, Mu__JobSpec *j, char ***word)
{
	const char *w = **word;
	size_t name = strcspn(w, "=");
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		const char *v = NULL;
		if (strlen(words[i].name) == name && strncmp(w, words[i].name, name) == 0)
			v = w[name] ? w + name + 1 : "";
		else if (words[i].letter && strncmp(w, words[i].letter, 2) == 0)
			v = w + 2;
		if (!v)
			continue;
		if (!*v && words[i].needs && (*word)[1])
			v = *++*word;
		return words[i].set(s, j, v);
	}
	return wrong(s, "unknown option %s", w);
}

Mu__JobSpec *spec(struct story *s, char **word)
{
	Mu__JobSpec *j = mu_arena_alloc(&s->arena, sizeof(*j));
	mu__job_spec__init(j);
	for (; *word; word++)
		if ((*word)[0] == '-' && !spec_word(s, j, &word))
			return NULL;
	return j;
}
