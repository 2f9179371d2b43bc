/* cli/seff.c: how well a job used what it held. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/column.h"
#include "cli/filter.h"
#include "cli/life.h"
#include "cli/option.h"
#include "proto/states.h"

static double percent(double part, double whole)
{
	return whole > 0 ? 100.0 * part / whole : 0.0;
}

static void print_memory(const char *what, double mib)
{
	static const char *const units[] = {"MB", "GB", "TB", "PB"};
	int u = 0;

	while (mib >= 1024 && u < 3) {
		mib /= 1024;
		u++;
	}
	printf("%s%.2f %s", what, mib, units[u]);
}

/* Bytes at the peak: of each step the largest task on every task, of the job the largest step. */
static double peak_mib(const Mu__HistRow *h)
{
	double most = 0;

	for (size_t i = 0; i < h->n_step; i++) {
		const Mu__StepRow *s = h->step[i];
		double mib =
		    s->usage ? (double)s->usage->max_rss_kib / 1024.0 * (s->tasks ? s->tasks : 1) : 0;
		most = mib > most ? mib : most;
	}
	return most;
}

static void print(struct cli *c, const Mu__HistRow *h)
{
	const Mu__JobRow *j = h->job;
	char span[32];
	double cpu_sec = 0, held_mib = 0;
	uint32_t cpus = 0;
	int64_t wall = cli_job_elapsed_sec(j, c->now_usec);

	for (size_t i = 0; i < h->n_step; i++)
		if (h->step[i]->usage)
			cpu_sec +=
			    (double)(h->step[i]->usage->user_cpu_usec + h->step[i]->usage->sys_cpu_usec) /
			    1e6;
	for (size_t i = 0; i < j->n_alloc; i++) {
		cpus += j->alloc[i]->cpus;
		held_mib += (double)j->alloc[i]->mem_mib;
	}
	cpus = cpus ? cpus : j->cpus_total;
	printf("Job ID: %u\nCluster: %s\nUser/Group: %s/%s\nState: %s (exit code %d)\n", j->id,
	       c->conf.cluster, j->user ? j->user : "?", j->group ? j->group : "?",
	       mu_job_state_long(j->state), j->exit_code);
	if (j->node_count > 1)
		printf("Nodes: %u\nCores per node: %u\n", j->node_count, cpus / j->node_count);
	else
		printf("Cores: %u\n", cpus);
	if (!mu_job_state_ended(j->state))
		printf("WARNING: Efficiency statistics may be misleading for %s jobs.\n",
		       mu_job_state_long(j->state));
	mu_span_print((int64_t)cpu_sec, 0, span);
	printf("CPU Utilized: %s\n", span);
	mu_span_print(wall * cpus, 0, span);
	printf("CPU Efficiency: %.2f%% of %s core-walltime\n", percent(cpu_sec, (double)wall * cpus), span);
	mu_span_print(wall, 0, span);
	printf("Job Wall-clock time: %s\n", span);
	print_memory("Memory Utilized: ", peak_mib(h));
	printf("\nMemory Efficiency: %.2f%% of ", percent(peak_mib(h), held_mib));
	print_memory("", held_mib);
	printf("\n");
}

int cli_seff(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	Mu__Query ask = MU__QUERY__INIT;
	uint32_t id;
	struct mu_err err = {0};
	void **rows;
	size_t n;
	int rc;

	if (cli_begin(c, argc, argv, false, &args, &rc))
		return rc;
	if (args.word_count != 1) {
		cli_error(c, "Usage: seff JOBID");
		return 1;
	}
	if (life_id(c, args.words[0], true, &id))
		return 1;
	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_ACCT;
	cli_filter_job(c, &ask, id);
	if (cli_query_all(c, &ask, &mu__hist_row__descriptor, &rows, &n, &err) || !n) {
		cli_error(c, "%s", err.code && err.code != MU_EJOBID ? err.text : "Job not found.");
		return 1;
	}
	print(c, rows[n - 1]);
	return 0;
}
