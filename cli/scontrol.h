/* cli/scontrol.h: the parts of scontrol. */
#ifndef CLI_SCONTROL_H
#define CLI_SCONTROL_H

#include "cli/cli.h"
#include "cli/option.h"

struct scontrol {
	struct cli *cli;
	const struct cli_args *args;
	const char *verb; /* the one under way, spelt out */
	bool oneline, details, json, all, history, trail;
};

/* Words of Slurm that are refused by name: is WORD one of LIST? Then that was said, with VERB before it. */
struct scontrol_absent {
	const char *name, *why;
};
bool scontrol_is_absent(struct scontrol *s, const char *verb, const struct scontrol_absent *list,
			size_t count, const char *word);

/* "show ENTITY [NAME...]": exit code. */
int scontrol_show(struct scontrol *s, char **words, size_t count);
/* One line per controller; 1 when none answers. */
int scontrol_ping(struct scontrol *s, FILE *out);
int scontrol_show_config(struct scontrol *s);
/* "completing": jobs whose nodes have not all said that nothing of them is left, a line each. */
int scontrol_completing(struct scontrol *s);
/* "errnumstr NUMBER": the sentence of Slurm's number, ours (negative) or the system's. */
int scontrol_errnumstr(struct scontrol *s, const char *word);
/* "update", "create", "delete" with KEY=VALUE words. */
int scontrol_update(struct scontrol *s, char **words, size_t count);
int scontrol_create(struct scontrol *s, char **words, size_t count);
int scontrol_delete(struct scontrol *s, char **words, size_t count);
/* A word of those, split at its first "=" (or "+=" and "-="). VALUE is NULL where there is none. */
enum { SCONTROL_KEYS_MAX = 128 };
struct scontrol_pair {
	const char *key, *value;
	char sign; /* 0, '+', '-' */
};
/* Does KEY name NAME? Its first letters will do, at least LEAST of them. */
bool scontrol_is_key(const char *key, const char *name, size_t least);
int scontrol_update_jobs(struct scontrol *s, const struct scontrol_pair *pairs, size_t count);
/* hold, uhold, release, requeue, requeuehold, suspend, resume, top on job lists. */
int scontrol_jobs(struct scontrol *s, char **words, size_t count);
int scontrol_write(struct scontrol *s, char **words, size_t count);
/* "wait_job JOB": 0 once it runs. */
int scontrol_wait_job(struct scontrol *s, char **words, size_t count);
/* "listpids [JOB[.STEP] [NODE]]": processes of jobs as the agents have them (cli/sstat.c). */
int scontrol_listpids(struct scontrol *s, char **words, size_t count);
int scontrol_reconfigure(struct scontrol *s);
/* What CONFIG would change in the live queue (cli/life.c). Exit code. */
int scontrol_plan(struct cli *c, Mu__Config *config);

/* Ids of "1,2_3 4" in words; 0 or a sentence. */
int scontrol_ids(struct scontrol *s, char **words, size_t count, struct cli_job_id **ret, size_t *ret_count,
		 struct mu_err *err);
/* Fetches the job rows of IDS. */
int scontrol_load_jobs(struct scontrol *s, const struct cli_job_id *id, size_t ids, Mu__JobRow ***ret,
		       size_t *ret_count, struct mu_err *err);

#endif
