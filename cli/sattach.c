/* cli/sattach.c: joins the streams of a step that runs already, as one more terminal of it. The step manager
 * names the step's nodes, each node's agent passes the connection to the step's shepherd, and cli/srun_io.c
 * moves the bytes. Leaving changes nothing for the step. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/array.h"
#include "cli/spec.h"
#include "cli/srun.h"
#include "proto/hostlist.h"
#include "proto/pb.h"
#include "proto/states.h"

static int ask(struct srun *s, const struct cli_door *door, uint32_t step, bool here, int *ret_fd,
	       struct stream_reader *ret_reader, Mu__StepGranted **ret, struct mu_err *err)
{
	Mu__AttachAsk ask = MU__ATTACH_ASK__INIT;
	struct mu_buf body MU_CLEANUP(mu_buf_free) = {0};
	int rc;

	ask.has_job = ask.has_step = ask.has_pty = ask.has_here = ask.has_look_only = 1;
	ask.job = s->job.job;
	ask.step = step;
	ask.pty = cli_args_has(s->args, OPT_pty);
	ask.here = here;
	ask.look_only = cli_args_has(s->args, OPT_attach_layout);
	mu_pb_pack(&ask.base, &body);
	rc = cli_door_ask(s->cli, &s->job, door, STREAM_ATTACH, (struct mu_view){body.data, body.len}, ret_fd,
			  ret_reader, ret, err);
	return rc > 0 ? mu_fail(err, MU_ENODEBUSY, "%s", mu_strerror(MU_ENODEBUSY)) : rc;
}

static void keep(struct srun *s, int fd, struct stream_reader reader, const char *node)
{
	s->conn[s->conns++] = (struct srun_conn){.fd = fd, .of = s, .node = node, .reader = reader};
}

/* A connection to each node of the step. */
static int join(struct srun *s, uint32_t step, struct mu_err *err)
{
	struct stream_reader reader = {0};
	Mu__StepGranted *part;
	int fd = -1, rc = ask(s, &s->job.first, step, false, &fd, &reader, &s->granted, err);

	if (rc)
		return rc;
	s->conn = mu_arena_alloc(&s->cli->arena, (s->granted->n_part + 1) * sizeof *s->conn);
	if (!s->granted->n_part) {
		keep(s, fd, reader, s->granted->n_node ? s->granted->node[0] : s->job.first.node);
		return 0;
	}
	close(fd);
	stream_reader_free(&reader);
	for (size_t i = 0; i < s->granted->n_part && !cli_args_has(s->args, OPT_attach_layout); i++) {
		const Mu__StepPart *p = s->granted->part[i];
		const struct cli_door door = {p->node, p->addr && *p->addr ? p->addr : p->node, p->port};

		reader = (struct stream_reader){0};
		if (!cli_door_local(s->cli, p->node) && !s->job.has_key &&
		    (rc = cli_job_ask(s->cli, &s->job, 2, 0, err)))
			return rc;
		rc = ask(s, &door, step, true, &fd, &reader, &part, err);
		if (rc)
			return mu_wrap(err, "%s", p->node);
		keep(s, fd, reader, p->node);
	}
	return 0;
}

static void layout(const struct srun *s)
{
	const Mu__StepGranted *g = s->granted;
	struct mu_buf nodes MU_CLEANUP(mu_buf_free) = {0};
	uint32_t tasks = 0;

	for (size_t i = 0; i < g->n_tasks; i++)
		tasks += g->tasks[i];
	mu_hostlist_fold((const char *const *)g->node, g->n_node, &nodes);
	printf("Job step layout:\n  %u tasks, %zu nodes (%s)\n\n", tasks, g->n_node,
	       nodes.data ? (char *)nodes.data : "");
	for (size_t i = 0; i < g->n_node && i < g->n_tasks; i++) {
		printf("  Node %zu (%s), %u task(s): ", i, g->node[i], g->tasks[i]);
		for (uint32_t k = 0; k < g->tasks[i]; k++)
			printf("%u ", g->n_part ? g->part[i]->task[k] : k);
		printf("\n");
	}
}

static int check(const struct srun *s, struct mu_err *err)
{
	static const int filters[] = {OPT_attach_input, OPT_attach_output, OPT_attach_error};
	const struct cli_args *args = s->args;
	int64_t n;

	for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
		const char *value = cli_args_value(args, filters[i]);

		if (value && cli_args_has(args, OPT_pty))
			return mu_fail(err, MU_EINVAL, "--pty and --%s exclude each other",
				       mu_options[filters[i]].name);
		if (value && strcmp(value, "all") != 0 && strcmp(value, "none") != 0 &&
		    mu_number_parse("task", value, 0, UINT16_MAX - 1, &n, NULL))
			return mu_fail(err, MU_EINVAL, "--%s=%s is no task number, all or none",
				       mu_options[filters[i]].name, value);
	}
	if (args->word_count != 1)
		return mu_fail(err, MU_EINVAL, "One job step is to be named, as JOB.STEP");
	return 0;
}

int cli_sattach(struct cli *c, int argc, char **argv)
{
	struct cli_args args = {0};
	struct srun s = {.cli = c, .args = &args, .manager = -1, .joins = true, .usage = MU__USAGE__INIT};
	struct cli_job_id id = {0};
	struct mu_err err = {0};
	int rc;

	if (cli_begin(c, argc, argv, false, &args, &rc))
		return rc;
	rc = check(&s, &err);
	if (!rc)
		rc = cli_job_id_parse(&c->arena, args.words[0], &id, &err);
	if (!rc && (!id.has_step || id.has_task))
		rc = mu_fail(&err, MU_EINVAL, "Invalid job step id: %s", args.words[0]);
	if (!rc)
		rc = cli_component(c, &id, &s.job.job, &err);
	if (!rc)
		rc = cli_conf_read(&c->arena, &c->conf, &err);
	if (!rc)
		rc = cli_job_door(c, &s.job, &err);
	if (!rc)
		rc = join(&s, id.step, &err);
	if (rc) {
		/* A batch script has no streams to join: Slurm finds no layout for it and says so. */
		if (id.step >= MU_STEP_BATCH && rc == MU_EJOBID)
			cli_error(c, "Could not get job step info: %s", err.text);
		else
			cli_error(c, "Could not join job step %s: %s", args.words[0], err.text);
		srun_hang_up(&s);
		return 1;
	}
	if (cli_args_has(&args, OPT_attach_layout)) {
		layout(&s);
		rc = 0;
	} else {
		rc = srun_stream(&s);
	}
	srun_hang_up(&s);
	return rc;
}
