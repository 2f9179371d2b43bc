/* proto/pattern.c: file name patterns. See pattern.h. */
#include "proto/pattern.h"

#include <string.h>

#include "proto/states.h"

enum { MAX_WIDTH = 10 };

static void add_number(struct mu_buf *out, uint32_t n, int width)
{
	mu_buf_printf(out, "%0*u", width, n);
}

static void add_step(struct mu_buf *out, uint32_t step, int width)
{
	if (step == MU_STEP_BATCH)
		mu_buf_str(out, "batch");
	else if (step == MU_STEP_EXTERN)
		mu_buf_str(out, "extern");
	else
		add_number(out, step, width);
}

static void add_word(struct mu_buf *out, const char *word)
{
	size_t from = out->len;
	mu_buf_str(out, word ? word : "");
	for (size_t i = from; i < out->len; i++)
		if (out->data[i] == '/')
			out->data[i] = '_';
}

/* Replaces the letter; false when it is none of ours. */
static bool add_letter(struct mu_buf *out, char letter, int width, const struct mu_pattern *w)
{
	switch (letter) {
	case '%':
		mu_buf_str(out, "%");
		return true;
	case 'A':
		add_number(out, w->is_array ? w->array_job : w->job, width);
		return true;
	case 'a':
		add_number(out, w->is_array ? w->array_task : MU_STEP_BATCH + 3,
			   width); /* As Slurm: 4294967294 outside an array. */
		return true;
	case 'J':
		add_number(out, w->job, width);
		if (w->step != MU_STEP_BATCH) {
			mu_buf_str(out, ".");
			add_step(out, w->step, 0);
		}
		return true;
	case 'j':
		add_number(out, w->job, width);
		return true;
	case 'N':
		add_word(out, w->node);
		return true;
	case 'n':
		add_number(out, w->node_index, width);
		return true;
	case 's':
		add_step(out, w->step, width);
		return true;
	case 't':
		add_number(out, w->task, width);
		return true;
	case 'u':
		add_word(out, w->user);
		return true;
	case 'x':
		add_word(out, w->job_name);
		return true;
	}
	return false;
}

void mu_pattern_expand(const char *text, const char *work_dir, const struct mu_pattern *words,
		       struct mu_buf *out)
{
	bool plain = strchr(text, '\\');
	if (*text != '/' && work_dir && *work_dir && !(*text == '\\' && text[1] == '/'))
		mu_buf_printf(out, "%s%s", work_dir, work_dir[strlen(work_dir) - 1] == '/' ? "" : "/");
	mu_buf_add(out, "", 0);
	for (const char *p = text; *p; p++) {
		if (*p == '\\')
			continue;
		if (plain || *p != '%') {
			mu_buf_add(out, p, 1);
			continue;
		}
		const char *letter = p + 1;
		int width = 0;
		for (; *letter >= '0' && *letter <= '9'; letter++)
			width = width * 10 + (*letter - '0') > MAX_WIDTH ? MAX_WIDTH
									 : width * 10 + (*letter - '0');
		if (add_letter(out, *letter, width, words))
			p = letter;
		else
			mu_buf_add(out, p, 1);
	}
}

static bool has_letter(const char *text, const char *letters)
{
	if (strchr(text, '\\'))
		return false;
	for (const char *p = text; *p; p++) {
		if (*p != '%')
			continue;
		for (p++; *p >= '0' && *p <= '9'; p++)
			;
		if (!*p)
			return false;
		if (strchr(letters, *p))
			return true;
	}
	return false;
}

bool mu_pattern_per_node(const char *text)
{
	return has_letter(text, "Nn");
}

bool mu_pattern_per_task(const char *text)
{
	return has_letter(text, "t");
}
