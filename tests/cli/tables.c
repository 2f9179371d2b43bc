/* tests/cli/tables.c: the contracts of cli's engines, as tables. */
#include <criterion/criterion.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/column.h"
#include "cli/json.h"
#include "cli/option.h"
#include "cli/spec.h"
#include "cli/table.h"
#include "proto/states.h"

static struct mu_arena arena;

/* ---- words of directives ---- */

Test(cli, directive_words)
{
	static const struct {
		const char *text, *words; /* words divided by |, NULL: refused */
	} table[] = {
	    {" -J x", "-J|x"},
	    {"\t--time=5\t-N 2", "--time=5|-N|2"},
	    {" --job-name=\"a b\" # remark", "--job-name=a b"},
	    {" --comment='it''s # here'", "--comment=its # here"},
	    {" -t 5 # don't", "-t|5"},
	    {" -t 5#7", "-t|5"},
	    {" -o \\# -e a\\ b", "-o|#|-e|a b"},
	    {" --x='a\\b'", "--x=a\\b"},
	    {" --x=\"\"", "--x="},
	    {" \"\"", ""},
	    {"", NULL + 0},
	    {" 'open", NULL},
	    {" \"open", NULL},
	};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct mu_buf got = {0};
		struct mu_err err = {0};
		char **words;
		size_t count;
		int rc = cli_script_words(table[i].text, strlen(table[i].text), &arena, &words, &count, &err);

		if (i == 10) {
			cr_assert(rc == 0 && count == 0);
			continue;
		}
		if (!table[i].words) {
			cr_assert(rc == MU_ESYNTAX && strstr(err.text, "Unmatched"), "%s", table[i].text);
			continue;
		}
		cr_assert(rc == 0);
		mu_buf_add(&got, "", 0);
		for (size_t k = 0; k < count; k++)
			mu_buf_printf(&got, "%s%s", k ? "|" : "", words[k]);
		cr_assert_str_eq((char *)got.data, table[i].words, "%s", table[i].text);
		mu_buf_free(&got);
	}
}

/* ---- directives of scripts: where they end, who wins ---- */

static Mu__JobSpec spec_of(const char *script, char *const *line, size_t count, int *ret_rc,
			   struct mu_err *err)
{
	struct cli_args args = {0};
	Mu__JobSpec spec = MU__JOB_SPEC__INIT;
	size_t components;

	*ret_rc = cli_args_words(&args, MU_SBATCH, CLI_LINE, line, count, true, &arena, err);
	if (!*ret_rc)
		*ret_rc = cli_script_options(script, strlen(script), &args, 0, &components, &arena, err);
	cli_args_order(&args);
	if (!*ret_rc)
		*ret_rc = cli_spec_make(&args, &arena, &spec, err);
	return spec;
}

Test(cli, scripts)
{
	static const struct {
		const char *script;
		int64_t time_sec; /* 0: none */
		const char *name; /* NULL: none */
		int rc;
	} table[] = {
	    {"#!/bin/sh\n#SBATCH -t 7\n", 420, NULL, 0},
	    {"#!/bin/sh\n#SBATCH -t 7\n#SBATCH -t 8\n", 480, NULL, 0},
	    {"#!/bin/sh\n\n# remark\n  # another\n#SBATCH -t 7\necho\n#SBATCH -t 9\n", 420, NULL, 0},
	    {"#!/bin/sh\n #SBATCH -t 7\n##SBATCH -t 7\n# SBATCH -t 7\n", 0, NULL, 0},
	    {"#!/bin/sh\n#SBATCH -t 7 -J a\n", 420, "a", 0},
	    {"#!/bin/sh\n#SBATCH --job-name=$NAME\n", 0, "$NAME", 0},
	    {"#!/bin/sh\n#SBATCH --job-name=big # sim\n", 0, "big", 0},
	    {"#!/bin/sh\n#SBATCH --tim=7\n", 0, NULL, MU_ESYNTAX},
	    {"#!/bin/sh\n#SBATCH --job-n=y\n", 0, "y", 0},
	    {"#!/bin/sh\n#SBATCH -t 7", 420, NULL, 0},
	    {"#!/bin/sh\n#SBATCH -t 90\n", 5400, NULL, 0},
	    {"#!/bin/sh\n#SBATCH -t 90:30\n", 5460, NULL, 0},
	    {"#!/bin/sh\n#SBATCH -t 0:30\n", 60, NULL, 0},
	    {"#!/bin/sh\n#SBATCH -t 1:30:00\n", 5400, NULL, 0},
	    {"#!/bin/sh\n#SBATCH -t 2-0\n", 172800, NULL, 0},
	    {"#!/bin/sh\n#SBATCH -t 2-12\n", 216000, NULL, 0},
	    {"#!/bin/sh\n#SBATCH -t 2-12:30\n", 217800, NULL, 0},
	    {"#!/bin/sh\n#SBATCH -t 1-2:3:4\n", 93840, NULL, 0},
	    {"#!/bin/sh\n#SBATCH -t 0\n", -1, NULL, 0},
	    {"#!/bin/sh\n#SBATCH -t -1\n", -1, NULL, 0},
	    {"#!/bin/sh\n#SBATCH -t UNLIMITED\n", -1, NULL, 0},
	    {"#!/bin/sh\n#SBATCH --job-name=Big sim\n", 0, NULL, MU_ESCRIPT},
	    {"#!/bin/sh\n#SBATCH --nosuch\n", 0, NULL, MU_ESYNTAX},
	    {"#!/bin/sh\n#SBATCH -t 1\n#SBATCH hetjob\n#SBATCH -t 2\n", 60, NULL, 0},
	    {"#!/bin/sh\n#SBATCH -t 1\n#SBATCH packjob\n#SBATCH --nosuch\n", 0, NULL, MU_ESYNTAX},
	};
	char *line[] = {(char *)"-t", (char *)"9"};
	struct mu_err err = {0};
	Mu__JobSpec spec;
	int rc;

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		spec = spec_of(table[i].script, NULL, 0, &rc, &err);
		cr_assert(rc == table[i].rc, "%s: %d %s", table[i].script, rc, err.text);
		if (rc)
			continue;
		cr_assert(table[i].time_sec ? spec.time_limit_sec == table[i].time_sec
					    : !spec.has_time_limit_sec,
			  "%s", table[i].script);
		cr_assert(table[i].name ? spec.name && strcmp(spec.name, table[i].name) == 0 : !spec.name,
			  "%s", table[i].script);
	}
	spec = spec_of("#!/bin/sh\n#SBATCH -t 7\n", line, 2, &rc, &err);
	cr_assert(rc == 0 && spec.time_limit_sec == 540);
	/* Of two kinds of memory on different levels the stronger one stands. */
	line[0] = (char *)"--mem-per-cpu=100";
	spec = spec_of("#!/bin/sh\n#SBATCH --mem=1G\n", line, 1, &rc, &err);
	cr_assert(rc == 0 && !spec.has_mem_node_mib && spec.mem_cpu_mib == 100);
}

/* ---- words of the command line ---- */

Test(cli, words)
{
	static const struct {
		unsigned command;
		const char *line, *want; /* "option=value ... | words"; NULL: refused */
	} table[] = {
	    {MU_SQUEUE, "-ho %i", "noheader format=%i |"},
	    {MU_SQUEUE, "-aho%i", "all noheader format=%i |"},
	    {MU_SINFO, "-hNO all", "noheader Node Format=all |"},
	    {MU_SACCT, "-nXP -j 1 -j2", "noheader allocations parsable2 jobs=1 jobs=2 |"},
	    {MU_SQUEUE, "-j 5 -j6 --jobs=7 --jobs 8", "jobs=5 jobs=6 jobs=7 jobs=8 |"},
	    {MU_SQUEUE, "-s", "steps |"},
	    {MU_SQUEUE, "-s 5.0 -l", "steps=5.0 long |"},
	    {MU_SQUEUE, "--state PD --account=a", "states=PD account=a |"},
	    {MU_SCANCEL, "5 --signal USR1 6", "signal=USR1 | 5 6"},
	    {MU_SCONTROL, "show part -o", "oneliner | show part"},
	    {MU_SCONTROL, "-dd show job 5", "details details | show job 5"},
	    {MU_SBATCH, "-N2 job.sh -N3 --x", "nodes=2 | job.sh -N3 --x"},
	    {MU_SBATCH, "--exclusive job.sh", "exclusive | job.sh"},
	    {MU_SBATCH, "--exclusive=user -- -odd", "exclusive=user | -odd"},
	    {MU_SBATCH, "--nod=2", NULL},
	    {MU_SBATCH, "--nodes", NULL},
	    {MU_SBATCH, "-N", NULL},
	    {MU_SBATCH, "--hold=1", NULL},
	    {MU_SBATCH, "--tasks=4", "tasks-per-node=4 |"},
	    {MU_SBATCH, "--out=x --err=y", "output=x error=y |"},
	    {MU_SBATCH, "-", "| -"},
	};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct cli_args args = {0};
		struct mu_buf got = {0};
		struct mu_err err = {0};
		char *words[32], *rest = mu_arena_strdup(&arena, table[i].line), *word;
		size_t count = 0;
		int rc;

		while ((word = strsep(&rest, " ")))
			words[count++] = word;
		rc = cli_args_words(&args, table[i].command, CLI_LINE, words, count,
				    table[i].command == MU_SBATCH, &arena, &err);
		if (!table[i].want) {
			cr_assert(rc == MU_ESYNTAX && *err.text, "%s", table[i].line);
			continue;
		}
		cr_assert(rc == 0, "%s: %s", table[i].line, err.text);
		for (size_t k = 0; k < args.count; k++)
			mu_buf_printf(&got, "%s%s%s ", args.given[k].option->name,
				      args.given[k].value ? "=" : "",
				      args.given[k].value ? args.given[k].value : "");
		mu_buf_str(&got, "|");
		for (size_t k = 0; k < args.word_count; k++)
			mu_buf_printf(&got, " %s", args.words[k]);
		cr_assert_str_eq((char *)got.data, table[i].want, "%s", table[i].line);
		mu_buf_free(&got);
	}
}

/* The registry itself: no letter and no name twice for one command, every field there. */
Test(cli, registry)
{
	for (int i = 0; i < OPT_COUNT; i++) {
		const struct mu_option *a = &mu_options[i];

		cr_assert(a->id == i && a->commands);
		if (*a->field && (a->commands & MU_SUBMITTERS) && a->kind != MU_KIND_OWN)
			cr_assert(protobuf_c_message_descriptor_get_field_by_name(&mu__job_spec__descriptor,
										  a->field),
				  "%s", a->name);
		if (*a->field && a->kind == MU_KIND_WORDS && !(a->commands & MU_SUBMITTERS))
			cr_assert(
			    protobuf_c_message_descriptor_get_field_by_name(&mu__query__descriptor, a->field),
			    "%s", a->name);
		for (int k = 0; k < i; k++) {
			const struct mu_option *b = &mu_options[k];

			if (!(a->commands & b->commands))
				continue;
			cr_assert(strcmp(a->name, b->name) != 0, "--%s twice", a->name);
			cr_assert(!a->letter || a->letter != b->letter, "-%c twice: --%s --%s", a->letter,
				  a->name, b->name);
		}
	}
	for (size_t i = 0; i < cli_job_columns.count; i++) {
		for (size_t k = 0; k < i; k++) {
			const struct cli_column *a = &cli_job_columns.column[i],
						*b = &cli_job_columns.column[k];

			cr_assert(strcasecmp(a->name, b->name) != 0 && (!a->letter || a->letter != b->letter),
				  "%s", a->name);
		}
	}
}

/* ---- widths, job ids, ranges, signals, configuration, JSON ---- */

Test(cli, widths)
{
	static const struct {
		const char *text;
		int width;
		bool right;
		char mark;
		const char *want;
	} table[] = {
	    {"abc", 5, false, 0, "abc  "}, {"abc", 5, true, 0, "  abc"},     {"abcdef", 3, false, 0, "abc"},
	    {"abcdef", 3, true, 0, "abc"}, {"abcdef", 4, true, '+', "abc+"}, {"größe", 5, false, 0, "größe"},
	    {"größe", 3, false, 0, "grö"}, {"größe", 4, true, '+', "grö+"},  {"abc", 0, true, 0, "abc"},
	    {"abc", 3, true, '+', "abc"},  {"", 2, true, 0, "  "},
	};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct mu_buf out = {0};

		cli_put_width(&out, table[i].text, strlen(table[i].text), table[i].width, table[i].right,
			      table[i].mark);
		cr_assert_str_eq(out.data ? (char *)out.data : "", table[i].want);
		mu_buf_free(&out);
	}
}

Test(cli, values)
{
	static const struct {
		const char *text;
		int rc;
		uint32_t job;
		const char *tasks;
		bool has_step;
		uint32_t step;
	} ids[] = {
	    {"42", 0, 42, NULL, false, 0},
	    {"42_3", 0, 42, "3", false, 0},
	    {"42_[1-3,5]", 0, 42, "1-3,5", false, 0},
	    {"42.0", 0, 42, NULL, true, 0},
	    {"42.batch", 0, 42, NULL, true, 4294967291u},
	    {"0", MU_EJOBID, 0, NULL, false, 0},
	    {"x", MU_EJOBID, 0, NULL, false, 0},
	    {"4x", MU_EJOBID, 0, NULL, false, 0},
	    {"42_", MU_EJOBID, 0, NULL, false, 0},
	    {"42.", MU_EJOBID, 0, NULL, false, 0},
	    {"4294967296", MU_EJOBID, 0, NULL, false, 0},
	    {"-1", MU_EJOBID, 0, NULL, false, 0},
	    {"42_[1", MU_EJOBID, 0, NULL, false, 0},
	};
	static const struct {
		const char *text;
		int rc;
		uint32_t number;
	} signals[] = {{"KILL", 0, 9},	    {"SIGKILL", 0, 9},	    {"usr1", 0, 10},
		       {"9", 0, 9},	    {"64", 0, 64},	    {"65", MU_EINVAL, 0},
		       {"0", MU_EINVAL, 0}, {"NOPE", MU_EINVAL, 0}, {"", MU_EINVAL, 0}};
	struct cli_job_id id;
	struct cli_conf conf;
	struct mu_err err = {0};
	uint32_t number;

	for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
		cr_assert(cli_job_id_parse(&arena, ids[i].text, &id, NULL) == ids[i].rc, "%s", ids[i].text);
		if (ids[i].rc)
			continue;
		cr_assert(id.job == ids[i].job && id.has_step == ids[i].has_step && id.step == ids[i].step,
			  "%s", ids[i].text);
		cr_assert(ids[i].tasks ? id.has_task && strcmp(id.tasks, ids[i].tasks) == 0 : !id.has_task,
			  "%s", ids[i].text);
	}
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		cr_assert(cli_signal_parse(signals[i].text, &number, NULL) == signals[i].rc &&
			      (signals[i].rc || number == signals[i].number),
			  "%s", signals[i].text);
	cr_assert(cli_conf_text(
		      "x.conf",
		      "# SlurmctldHost=no\nclustername = c # remark\nSlurmctldHost=a(10.0.0.1:7000:7001)\n  "
		      "SlurmctldHost=b\r\nSlurmctldPort=6900\n"
		      "MusterRunDir=\"/run/x y\"\nNodeName=n1 SlurmctldHost=no\nMessageTimeout=33\n",
		      &arena, &conf, &err) == 0);
	cr_assert(conf.controllers == 2 && conf.controller[0].port == 7000 &&
		  conf.controller[1].port == 6900 && conf.message_timeout_sec == 33);
	cr_assert_str_eq(conf.controller[0].addr, "10.0.0.1");
	cr_assert_str_eq(conf.controller[1].addr, "b");
	cr_assert_str_eq(conf.cluster, "c");
	cr_assert_str_eq(conf.run_dir, "/run/x y");
	cr_assert(cli_conf_text("x.conf", "SlurmctldHost=a(1\n", &arena, &conf, &err) == MU_ESYNTAX &&
		  strstr(err.text, "bracket"));
}

Test(cli, environment)
{
	static const struct {
		const char *export_text, *want; /* NULL: refused */
	} table[] = {
	    {NULL, "A=1;B=2;SLURM_X=3;"},
	    {"ALL", "A=1;B=2;SLURM_X=3;"},
	    {"NONE", "SLURM_X=3;"},
	    {"NIL", ""},
	    {"A", "SLURM_X=3;A=1;"},
	    {"A=7", "SLURM_X=3;A=7;"},
	    {"ALL,A=7", "B=2;SLURM_X=3;A=7;"},
	    {"A='x,y',C=", "SLURM_X=3;A=x,y;C=;"},
	    {"nosuch", "SLURM_X=3;"},
	    {"1A", NULL},
	    {"NONE,A=1", NULL},
	};
	char *list[] = {(char *)"A=1", (char *)"B=2", (char *)"SLURM_X=3", NULL};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		struct mu_buf out = {0};
		int rc = cli_environment_make(table[i].export_text, list, &out, NULL);

		cr_assert((rc == 0) == (table[i].want != NULL), "%s", table[i].export_text);
		for (size_t k = 0; k < out.len; k++)
			out.data[k] = out.data[k] ? out.data[k] : ';';
		if (table[i].want)
			cr_assert_str_eq(out.data ? (char *)out.data : "", table[i].want, "%s",
					 table[i].export_text);
		mu_buf_free(&out);
	}
}

Test(cli, json)
{
	struct mu_buf out = {0};
	struct cli_json j = {.out = &out};

	json_object(&j, NULL);
	json_text(&j, "a", "q\"\\\n\x01 \xc3\xb6 \xff");
	json_array(&j, "l");
	json_array_end(&j);
	json_triple(&j, "t", true, false, -5);
	json_object_end(&j);
	cr_assert_str_eq((char *)out.data, "{\n  \"a\": \"q\\\"\\\\\\n\\u0001 \xc3\xb6 \\ufffd\",\n  \"l\": "
					   "[],\n  \"t\": {\n    \"set\": true,\n"
					   "    \"infinite\": false,\n    \"number\": -5\n  }\n}");
	mu_buf_reset(&out);
	j = (struct cli_json){.out = &out, .yaml = true};
	json_object(&j, NULL);
	json_text(&j, "a", "q\"\n");
	json_array(&j, "l");
	json_array_end(&j);
	json_array(&j, "rows");
	json_object(&j, NULL);
	json_number(&j, "1st", 1);
	json_real(&j, "half", 0.5);
	json_object_end(&j);
	json_array(&j, NULL);
	json_null(&j, NULL);
	json_bool(&j, NULL, true);
	json_array_end(&j);
	json_object(&j, NULL);
	json_object_end(&j);
	json_array_end(&j);
	json_object_end(&j);
	cr_assert_str_eq((char *)out.data, "---\na: \"q\\\"\\n\"\nl: []\nrows:\n  - \"1st\": 1\n    half: 0.5\n"
					   "  - - null\n    - true\n  - {}");
	mu_buf_free(&out);
}

Test(cli, elapsed_never_goes_back)
{
	Mu__JobRow job = MU__JOB_ROW__INIT;

	job.start_usec = 10900000;
	job.state = JOB_RUNNING;
	cr_assert_eq(cli_job_elapsed_sec(&job, 12100000), 2);
	job.state = JOB_SUSPENDED;
	job.suspend_usec = 12100000;
	cr_assert_eq(cli_job_elapsed_sec(&job, 12200000), 2);
	job.state = JOB_RUNNING;
	job.suspended_usec = 200000;
	cr_assert_eq(cli_job_elapsed_sec(&job, 12300000), 2, "a resumed job has run as long as when it stopped");
	job.state = JOB_COMPLETED;
	job.end_usec = 13300000;
	cr_assert_eq(cli_job_elapsed_sec(&job, 99000000), 3);
}
