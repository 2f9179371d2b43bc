/* cli/listpids.c: scontrol listpids: the processes of jobs, as the agents of their nodes see them. Those of
 * the nodes of this host are listed, or of the node that is named. */
#include <stdlib.h>
#include <string.h>

#include "cli/array.h"
#include "cli/column.h"
#include "cli/door.h"
#include "cli/filter.h"
#include "cli/scontrol.h"
#include "proto/pb.h"
#include "proto/states.h"

struct pids {
	struct scontrol *s;
	const char *node; /* NULL: this host's */
	bool has_step;
	uint32_t step;
	size_t nodes, shown; /* nodes that answered */
	struct mu_buf out;
};

static void put_step(struct pids *p, uint32_t job, const Mu__StepUsage *u)
{
	char step[16];

	if (!u->step || (p->has_step && u->step->step != p->step))
		return;
	if (u->step->step < MU_STEP_EXTERN && u->step->step < MU_STEP_BATCH)
		snprintf(step, sizeof step, "%u", u->step->step);
	else
		snprintf(step, sizeof step, "%s", u->step->step == MU_STEP_BATCH ? "batch" : "extern");
	/* Which of them are tasks is known to their shepherd alone. */
	for (size_t i = 0; i < u->n_process; i++, p->shown++)
		mu_buf_printf(&p->out, "%-8u %-8u %-8s %-7s %s\n", u->process[i], job, step, "-", "-");
}

static int list_job(struct pids *p, uint32_t id, struct mu_err *err)
{
	struct cli *c = p->s->cli;
	struct cli_job job = {.job = id};
	Mu__UsageAsk ask = MU__USAGE_ASK__INIT;
	struct mu_buf body MU_CLEANUP(mu_buf_free) = {0};
	int rc = cli_job_ask(c, &job, 2, 0, err);

	ask.has_job = 1;
	ask.job = id;
	mu_pb_pack(&ask.base, &body);
	for (size_t i = 0; !rc && i < job.row->n_alloc; i++) {
		struct cli_door door = {.node = job.row->alloc[i]->node};
		Mu__UsageReply *reply;

		if (p->node ? strcmp(p->node, door.node) != 0 : !cli_door_local(c, door.node))
			continue;
		rc = cli_door_find(c, &door, err);
		if (!rc)
			rc =
			    cli_door_look(c, &job, &door, (struct mu_view){body.data, body.len}, &reply, err);
		if (rc == MU_EJOBID) {
			rc = 0; /* Nothing of it runs there. */
			continue;
		}
		p->nodes += !rc;
		for (size_t k = 0; !rc && k < reply->n_step; k++)
			put_step(p, id, reply->step[k]);
	}
	return rc;
}

static int running_jobs(struct cli *c, Mu__JobRow ***ret, size_t *ret_count, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;
	uint32_t states[] = {JOB_RUNNING, JOB_SUSPENDED, JOB_COMPLETING};
	void **rows;
	int rc;

	ask.has_what = ask.has_slim = ask.slim = 1;
	ask.what = MU__WHAT__WHAT_JOBS;
	ask.state = states;
	ask.n_state = sizeof states / sizeof *states;
	rc = cli_query_all(c, &ask, &mu__job_row__descriptor, &rows, ret_count, err);
	*ret = (Mu__JobRow **)rows;
	return rc;
}

int scontrol_listpids(struct scontrol *s, char **words, size_t count)
{
	struct pids p = {.s = s, .node = count > 1 ? words[1] : NULL};
	struct mu_err err = {0};
	struct cli_job_id id = {0};
	Mu__JobRow **rows = NULL;
	size_t n = 0;
	int rc;

	if (count) {
		rc = cli_job_id_parse(&s->cli->arena, words[0], &id, &err);
		p.has_step = id.has_step;
		p.step = id.step;
		if (!rc)
			rc = cli_component(s->cli, &id, &id.job, &err);
		if (!rc)
			rc = list_job(&p, id.job, &err);
	} else {
		rc = running_jobs(s->cli, &rows, &n, &err);
		for (size_t i = 0; !rc && i < n; i++)
			rc = list_job(&p, rows[i]->id, &err);
	}
	if (!rc && count && !p.shown)
		rc = mu_fail(&err, MU_EJOBID, "job %s has no processes on %s", words[0],
			     p.node ? p.node : "the nodes of this host");
	if (rc) {
		cli_error(s->cli, "%s", err.text);
	} else {
		printf("%-8s %-8s %-8s %-7s %s\n", "PID", "JOBID", "STEPID", "LOCALID", "GLOBALID");
		fwrite(p.out.data ? (char *)p.out.data : "", 1, p.out.len, stdout);
	}
	mu_buf_free(&p.out);
	return rc ? 1 : 0;
}
