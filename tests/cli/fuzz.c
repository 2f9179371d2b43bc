/* tests/cli/fuzz.c: random scripts, formats, lists and configuration texts. Nothing may crash or read beyond;
 * what is accepted must print. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/column.h"
#include "cli/option.h"
#include "cli/spec.h"
#include "cli/table.h"
#include "proto/base/seed.h"

static const char *const pieces[] = {"#!/bin/sh\n",
				     "#SBATCH",
				     " -t",
				     " 5",
				     "\n",
				     "\"",
				     "'",
				     "\\",
				     "#",
				     " --mem=1G",
				     "--",
				     "-",
				     "=",
				     "%",
				     ".",
				     "18",
				     "i",
				     ":",
				     ",",
				     "[",
				     "]",
				     "n1",
				     "_",
				     "+",
				     "\t",
				     "\xc3\xb6",
				     "\xff",
				     "JobID",
				     "State",
				     "%.8j",
				     "SlurmctldHost=",
				     "(",
				     ")",
				     "include ",
				     "\r",
				     "ALL",
				     "A=1",
				     " --gres=gpu",
				     " -N 1-2",
				     "B:USR1@9",
				     "99999999999",
				     "0"};

static size_t draw(struct mu_seed *g, char *out, size_t cap)
{
	size_t len = 0, want = mu_seed_below(g, 24);

	for (size_t i = 0; i < want; i++) {
		const char *p = pieces[mu_seed_below(g, sizeof pieces / sizeof *pieces)];
		size_t n = strlen(p);

		if (mu_seed_below(g, 12) == 0) {
			out[len++] = (char)(1 + mu_seed_below(g, 255));
		} else if (len + n + 2 < cap) {
			memcpy(out + len, p, n);
			len += n;
		}
	}
	out[len] = 0;
	return len;
}

static void formats(const char *text, struct mu_arena *arena)
{
	static const Mu__JobRow row = MU__JOB_ROW__INIT;
	struct cli_cell cell = {.job = &row, .arena = arena};
	struct cli_acct_style style = {.delimiter = "|"};
	struct mu_buf out = {0};
	struct cli_format f;

	if (cli_format_letters(&cli_job_columns, text, arena, &f, NULL) == 0) {
		cli_table_heading(&f, &out);
		cli_table_row(&f, &cell, &out);
		assert(out.data[out.len - 1] == '\n');
	}
	if (cli_format_names(&cli_job_columns, text, arena, &f, NULL) == 0)
		cli_table_row(&f, &cell, &out);
	if (cli_format_acct(&cli_acct_columns, text, arena, &f, NULL) == 0)
		cli_acct_row(&f, &style, &cell, &out);
	mu_buf_free(&out);
}

static void scripts(const char *text, size_t len, struct mu_arena *arena)
{
	struct cli_args args = {0};
	Mu__JobSpec spec = MU__JOB_SPEC__INIT;
	struct mu_err err = {0};
	int rc;

	cli_script_check(text, len, &err);
	size_t components;

	rc = cli_script_options(text, len, &args, 0, &components, arena, &err);
	assert(rc == 0 || *err.text);
	cli_args_order(&args);
	if (rc == 0 && cli_spec_make(&args, arena, &spec, &err) == 0)
		cli_spec_check(&spec, &err);
}

int main(int argc, char **argv)
{
	const char *size = getenv("MUSTER_TEST_SIZE");
	unsigned rounds = size && strcmp(size, "full") == 0 ? 300000
			  : size && strcmp(size, "ci") == 0 ? 40000
							    : 8000;
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	struct mu_arena arena = {0};
	char text[1024];

	for (unsigned i = 0; i < rounds; i++, seed++) {
		struct mu_seed g;
		struct mu_buf env = {0};
		struct cli_job_id id;
		struct cli_conf conf;
		char *list[] = {(char *)"A=1", NULL};
		size_t len;

		mu_seed_init(&g, seed);
		len = draw(&g, text, sizeof text);
		formats(text, &arena);
		scripts(text, len, &arena);
		cli_job_id_parse(&arena, text, &id, NULL);
		cli_conf_text("/nonexistent/fuzz.conf", text, &arena, &conf, NULL);
		cli_environment_make(text, list, &env, NULL);
		mu_buf_free(&env);
		mu_arena_reset(&arena);
	}
	mu_arena_free(&arena);
	printf("%u rounds\n", rounds);
	return 0;
}
