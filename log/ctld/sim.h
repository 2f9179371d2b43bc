/* ctld/sim.h: `muster sim`: workloads from files into the simulation and what comes of them into reports.
 *
 * Owns: files (SWF, CSV of the openb trace, SVG, JSON) and the words of the command. Leaves to others: time, the
 * core (sched/sim). */
#ifndef LOG_CTLD_SIM_H
#define LOG_CTLD_SIM_H

#include <stdio.h>

#include "proto/base/arena.h"
#include "proto/base/map.h"
#include "proto/conf.h"
#include "sched/sim/sim.h"

enum { SWF_FIELDS = 18, SIM_WORD = 64 };
struct swf_line {
	int64_t field[SWF_FIELDS];
};
struct sim_work {
	struct mu_arena arena;
	struct sch_sim_job *job;
	struct sch_sim_act *act; /* what happens besides; the arena's */
	uint32_t acts;
	struct swf_line *line; /* one for each job where the workload is SWF; else NULL */
	uint32_t count, cap, dropped;
	int64_t begin_usec;
	uint32_t procs; /* MaxProcs of the header; 0: it did not say */
	struct mu_map people;
};
void sim_work_free(struct sim_work *w);
struct sch_sim_job *sim_work_add(struct sim_work *w); /* valid until the next */
/* The author NAME with the number NUMBER, made once. */
Mu__Author *sim_work_user(struct sim_work *w, const char *name, uint32_t number);

/* Opens PATH for reading, through gzip where it is compressed. NULL with the reason. sim_close waits for gzip. */
struct sim_file {
	FILE *in;
	int pid;
};
int sim_open(const char *path, struct sim_file *ret, struct mu_err *err);
int sim_close(struct sim_file *f, const char *path, struct mu_err *err);

/* Reads an SWF file into W, jobs of more than PROCS (0: as the header says) and impossible ones dropped. A run time
 * stands in where no time was asked. Sorted by submission, then by job number. */
int sim_swf_read(const char *path, uint32_t procs, struct sim_work *w, struct mu_err *err);
/* The same lines with the simulated wait in field 3. */
int sim_swf_write(const char *path, const struct sim_work *w, const char *how, struct mu_err *err);

/* An archive: what was submitted there, with the run times that were seen; and the configuration at its end. */
int sim_archive_read(const char *dir, struct sim_work *w, Mu__Config **ret_conf, struct mu_err *err);

/* A new archive, DIR/view, of what a simulation does. NULL with the reason. */
struct sim_into;
struct sim_into *sim_into_new(const char *dir, struct mu_err *err);
int sim_into_entry(void *into, uint64_t pos, int64_t time_usec, const struct mu_view *event, size_t count); /* a tap */
/* Writes what is left, where CODE is 0, and frees. CODE, or why that failed. NULL is accepted. */
int sim_into_close(struct sim_into *s, int code, struct mu_err *err);

/* The openb GPU trace: tables of nodes and of tasks. */
struct sim_openb {
	struct sim_work *w;
	bool stay;    /* tasks come one a second and never leave: how much fits */
	bool spread;  /* the least loaded node first, instead of the first that fits */
	bool by_gpus; /* nodes of few GPUs first */
	struct mu_buf conf;
	uint32_t nodes, started, samples;
	uint64_t held;
	double held_sum, fragment_sum, held_last, fragment_last;
};
int sim_openb_read(struct sim_openb *o, const char *nodes, const char *tasks, struct mu_arena *arena, Mu__Config **ret,
		   struct mu_err *err);
void sim_openb_started(struct sim_openb *o, const struct sch_state *st, const Mu__Config *conf, uint32_t job);
/* With STAY a code that ends the simulation: the first to leave closes the account. */
enum { SIM_OPENB_OVER = 1 };
int sim_openb_ended(struct sim_openb *o, const struct sch_state *st, const Mu__Config *conf, uint32_t job);
void sim_openb_print(const struct sim_openb *o, const struct sch_state *st, FILE *out);

/* ---- the report ---- */
struct sim_picture;
struct sim_picture *sim_picture_new(const Mu__Config *conf);
struct sim_picture *sim_picture_free(struct sim_picture *p);
void sim_picture_start(struct sim_picture *p, uint32_t job, const Mu__Start *start, int64_t now_usec);
void sim_picture_end(struct sim_picture *p, uint32_t job, int64_t now_usec);
int sim_picture_write(const struct sim_picture *p, const char *path, const struct sim_work *w, const char *title,
		      struct mu_err *err);

struct sim_report {
	const struct sim_work *w;
	const struct sch_sim_figures *f;
	const char *source, *policy;
	double seconds; /* that the simulation took */
};
void sim_report_print(const struct sim_report *r, FILE *out);
int sim_report_write(const struct sim_report *r, const char *path, struct mu_err *err);
/* A JSON string in its quotation marks. */
void sim_json_text(FILE *out, const char *text);

/* The verb. ARGV[0] is "sim". */
int sim_main(int argc, char **argv);

#endif
