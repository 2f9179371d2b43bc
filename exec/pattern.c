/* exec/pattern.c: the letters of output file names. */
#include "exec/pattern.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exec/shepherd.h"
#include "proto/states.h"

enum { PAD_MAX = 10 };

void exe_step_word(uint32_t step, char out[16])
{
	if (step == MU_STEP_BATCH)
		snprintf(out, 16, "batch");
	else if (step == MU_STEP_EXTERN)
		snprintf(out, 16, "extern");
	else
		snprintf(out, 16, "%u", step);
}

static void put_number(struct mu_buf *out, uint32_t number, int pad)
{
	mu_buf_printf(out, "%0*u", pad, number);
}

static bool put_letter(struct mu_buf *out, char letter, int pad, const struct exe_pattern_words *w)
{
	char word[16];
	switch (letter) {
	case '%':
		mu_buf_str(out, "%");
		return true;
	case 'A':
		put_number(out, w->has_array ? w->array_job : w->job, pad);
		return true;
	case 'a':
		put_number(out, w->has_array ? w->array_task : UINT32_MAX - 1, pad);
		return true;
	case 'J':
	case 's':
		exe_step_word(w->step, word);
		if (letter == 's') {
			mu_buf_str(out, word);
			return true;
		}
		put_number(out, w->job, pad);
		if (w->step < MU_STEP_BATCH)
			mu_buf_printf(out, ".%s", word);
		return true;
	case 'j':
		put_number(out, w->job, pad);
		return true;
	case 'n':
		put_number(out, w->node_index, pad);
		return true;
	case 't':
		put_number(out, w->task, pad);
		return true;
	case 'N':
		mu_buf_str(out, w->node);
		return true;
	case 'u':
		mu_buf_str(out, w->user);
		return true;
	case 'x':
		mu_buf_str(out, w->job_name);
		return true;
	default:
		return false;
	}
}

void exe_pattern_expand(const char *pattern, const char *work_dir, const struct exe_pattern_words *w,
			struct mu_buf *out)
{
	bool plain = strchr(pattern, '\\') != NULL;
	if (pattern[0] != '/' && work_dir)
		mu_buf_printf(out, "%s/", strcmp(work_dir, "/") == 0 ? "" : work_dir);
	for (const char *p = pattern; *p; p++) {
		const char *digits = p + 1;
		char *letter = NULL;
		if (*p == '\\')
			continue;
		long pad = *p == '%' && isdigit((unsigned char)*digits) ? strtol(digits, &letter, 10) : 0;
		if (!letter)
			letter = (char *)digits;
		if (!plain && *p == '%' && *letter &&
		    put_letter(out, *letter, pad > PAD_MAX ? PAD_MAX : (int)pad, w))
			p = letter;
		else
			mu_buf_add(out, p, 1);
	}
}
