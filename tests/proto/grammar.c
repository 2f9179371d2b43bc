/* tests/proto: arrays, dependencies, patterns, exports, signals, resources; refused cases beside accepted
 * ones. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "proto/array.h"
#include "proto/depend.h"
#include "proto/export.h"
#include "proto/pattern.h"
#include "proto/signals.h"
#include "proto/states.h"
#include "proto/tres.h"

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

/* Tasks by ordinal say the same as the set of indexes; sets of them are cut, joined, packed. */
static void check_tasks(const char *text)
{
	struct mu_array a = {0};
	struct mu_tasks t = {0};
	struct mu_runs all = {0}, odd = {0}, both, rest, back;
	struct mu_buf out = {0}, again = {0};
	uint32_t packed[4096], n = 0;
	cr_assert_eq(mu_array_parse(text, 1001, &a, NULL), 0);
	cr_assert_eq(mu_tasks_parse(text, 1001, &t, NULL), 0, "%s", text);
	cr_assert_eq(t.total, mu_bits_count(&a.tasks), "%s has %u tasks", text, t.total);
	cr_assert_eq(t.throttle, a.throttle);
	for (uint32_t i = mu_bits_next(&a.tasks, 0); i != UINT32_MAX;
	     i = mu_bits_next(&a.tasks, i + 1), n++) {
		cr_assert_eq(mu_tasks_index(&t, n), i, "%s: task %u", text, n);
		cr_assert_eq(mu_tasks_ordinal(&t, i), n);
		cr_assert_eq(mu_tasks_below(&t, i), n);
		if (n % 2)
			mu_runs_add(&odd, n, n + 1);
	}
	for (uint32_t i = 0; i < 1001; i++)
		cr_assert_eq(mu_tasks_ordinal(&t, i) != UINT32_MAX, mu_bits_test(&a.tasks, i), "%s: %u", text,
			     i);
	mu_runs_add(&all, 0, t.total);
	mu_runs_cut(&all, &odd, &both, &rest);
	cr_assert_eq(both.total, odd.total);
	cr_assert_eq(rest.total, t.total - odd.total);
	mu_runs_free(&both);
	mu_runs_or(&rest, &odd);
	cr_assert_eq(mu_runs_count(&rest), 1, "%s: joined again", text);
	mu_runs_print(&rest, &t, t.throttle, &out);
	mu_array_print(&a.tasks, a.throttle, &again);
	cr_assert_str_eq((char *)out.data, (char *)again.data);
	mu_buf_reset(&out);
	mu_buf_reset(&again);
	mu_bits_free(&a.tasks);
	for (uint32_t k = 0; k < t.total; k++)
		if (mu_runs_has(&odd, k))
			mu_bits_set(&a.tasks, mu_tasks_index(&t, k));
	mu_runs_print(&odd, &t, 0, &out);
	mu_array_print(&a.tasks, 0, &again);
	cr_assert(!odd.total || !strcmp((char *)out.data, (char *)again.data), "%s printed %s", text,
		  (char *)out.data);
	mu_runs_pack(&odd, packed);
	cr_assert(mu_runs_unpack(packed, 2 * mu_runs_count(&odd), t.total, &back));
	cr_assert_eq(back.total, odd.total);
	cr_assert(!odd.total || !mu_runs_unpack(packed, 2 * mu_runs_count(&odd), 1, &both) || t.total == 1);
	for (uint32_t k = 0; k < t.total; k++)
		cr_assert_eq(mu_runs_remove(&all, k), true);
	cr_assert_eq(mu_runs_next(&all, 0), UINT32_MAX);
	cr_assert(!mu_runs_remove(&all, 0));
	mu_runs_free(&all);
	mu_runs_free(&odd);
	mu_runs_free(&rest);
	mu_runs_free(&back);
	mu_buf_free(&out);
	mu_buf_free(&again);
	mu_tasks_free(&t);
	mu_array_free(&a);
}

Test(grammar, arrays)
{
	static const struct {
		const char *text, *shown; /* NULL: refused */
	} row[] = {
	    {"0-9:2%3", "0-8:2%3"},
	    {"[1-3]", "1-3"},
	    {"1,1,2", "1-2"},
	    {"007-009", "7-9"},
	    {"1-3%0", "1-3"},
	    {"5", "5"},
	    {"0", "0"},
	    {"1-5,7%2", "1-5,7%2"},
	    {"0-15:4", "0-12:4"},
	    {"1,3", "1,3"},
	    {"1,3,5", "1-5:2"},
	    {"1000", "1000"},
	    {"[1,4-6%2]", "1,4-6%2"},
	    {"3-3:9", "3"},
	    {"5-3", NULL},
	    {"0-4:0", NULL},
	    {"1001", NULL},
	    {"0-1001", NULL},
	    {"", NULL},
	    {"[1-3", NULL},
	    {"1-3]", NULL},
	    {"a", NULL},
	    {"1-", NULL},
	    {"-1", NULL},
	    {"1,", NULL},
	    {"1,,2", NULL},
	    {"1%", NULL},
	    {"1%x", NULL},
	    {"%3", NULL},
	    {"1-3:", NULL},
	    {"1 2", NULL},
	    {"99999999999999999999", NULL},
	    {"1-3%2%2", NULL},
	    {"1:2", NULL},
	};
	for (size_t i = 0; i < ROWS(row); i++) {
		struct mu_array a = {.throttle = 77};
		struct mu_err err = {0};
		struct mu_buf out = {0};
		int rc = mu_array_parse(row[i].text, 1001, &a, &err);
		cr_assert_eq(rc, row[i].shown ? 0 : MU_EARRAY, "%s gives %d", row[i].text, rc);
		cr_assert(!rc || strstr(err.text, row[i].text), "%s", err.text);
		cr_assert(!rc || a.throttle == 77);
		if (!rc) {
			check_tasks(row[i].text);
			mu_array_print(&a.tasks, a.throttle, &out);
			cr_assert_str_eq((char *)out.data, row[i].shown);
		}
		mu_array_free(&a);
		mu_buf_free(&out);
	}
}

Test(grammar, job_names)
{
	static const struct {
		const char *text;
		int good;
		uint32_t job;
		const char *tasks;
		int component;
		int64_t step;
	} row[] = {
	    {"42", 1, 42, "", -1, -1},
	    {"42_3", 1, 42, "3", -1, -1},
	    {"42_[1-3,7]", 1, 42, "1-3,7", -1, -1},
	    {"42+1", 1, 42, "", 1, -1},
	    {"42.0", 1, 42, "", -1, 0},
	    {"42.batch", 1, 42, "", -1, MU_STEP_BATCH},
	    {"42.extern", 1, 42, "", -1, MU_STEP_EXTERN},
	    {"42_3.1", 1, 42, "3", -1, 1},
	    {"4294967295", 1, UINT32_MAX, "", -1, -1},
	    {"0", 0, 0, "", 0, 0},
	    {"", 0, 0, "", 0, 0},
	    {"x", 0, 0, "", 0, 0},
	    {"42x", 0, 0, "", 0, 0},
	    {"42_", 0, 0, "", 0, 0},
	    {"42_[1", 0, 0, "", 0, 0},
	    {"42_[1-2%3]", 0, 0, "", 0, 0},
	    {"42.", 0, 0, "", 0, 0},
	    {"42.bat", 0, 0, "", 0, 0},
	    {"42.batchx", 0, 0, "", 0, 0},
	    {"4294967296", 0, 0, "", 0, 0},
	    {"42+", 0, 0, "", 0, 0},
	    {"-1", 0, 0, "", 0, 0},
	    {" 42", 0, 0, "", 0, 0},
	    {"42.4294967291", 0, 0, "", 0, 0},
	    {"42_4000001", 0, 0, "", 0, 0},
	};
	for (size_t i = 0; i < ROWS(row); i++) {
		struct mu_job_name name = {0};
		struct mu_err err = {0};
		char tasks[64];
		int rc = mu_job_name_parse(row[i].text, &name, &err);
		cr_assert_eq(rc, row[i].good ? 0 : MU_EJOBID, "%s gives %d", row[i].text, rc);
		if (rc) {
			cr_assert(strstr(err.text, "Invalid job id"));
			continue;
		}
		mu_bits_print(&name.tasks, tasks, sizeof(tasks));
		cr_assert_str_eq(tasks, row[i].tasks);
		cr_assert_eq(name.job, row[i].job);
		cr_assert_eq(name.has_tasks, *row[i].tasks != 0);
		cr_assert_eq(name.has_component ? (int)name.component : -1, row[i].component);
		cr_assert_eq(name.has_step ? (int64_t)name.step : -1, row[i].step);
		mu_job_name_free(&name);
	}
}

Test(grammar, dependencies_shown)
{
	static const struct {
		const char *text, *state, *shown;
	} row[] = {{"afterany:123", "u", "afterany:123(unfulfilled)"},
		   {"afterok:1:2,after:3+5", "fux", "afterok:2(unfulfilled),after:3+5(failed)"},
		   {"afterok:1?singleton", "xu", "afterok:1(failed)?singleton(unfulfilled)"},
		   {"afterok:1", "f", ""},
		   {"afterok:1", NULL, "afterok:1"},
		   {"afterok:1", "uu", "afterok:1"}};
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct mu_arena arena = {0};
		struct mu_buf out = {0};
		mu_buf_str(&out, "");
		mu_depends_show(row[i].text, row[i].state, &arena, &out);
		cr_assert_str_eq((const char *)out.data, row[i].shown);
		mu_buf_free(&out);
		mu_arena_free(&arena);
	}
}

Test(grammar, dependencies)
{
	static const struct {
		const char *text, *shown; /* NULL: refused */
		bool any;
	} row[] = {
	    {"afterok:1:2_3,afterany:4", "afterok:1 afterok:2_3 afterany:4", false},
	    {"after:10+5", "after:10+5", false},
	    {"singleton", "singleton", false},
	    {"afterok:1?afterok:2", "afterok:1 afterok:2", true},
	    {"AFTEROK:1", "afterok:1", false},
	    {"aftercorr:7", "aftercorr:7", false},
	    {"afternotok:7_*", "afternotok:7", false},
	    {"expand:3", "expand:3", false},
	    {"after:1+5:2+6", "after:1+5 after:2+6", false},
	    {"", "", false},
	    {"afterburstbuffer:2", "afterburstbuffer:2", false},
	    {"singleton,afterok:4", "singleton afterok:4", false},
	    {"nosuch:1", NULL, false},
	    {"afterok", NULL, false},
	    {"afterok:", NULL, false},
	    {"afterok:0", NULL, false},
	    {"afterok:x", NULL, false},
	    {"afterok:1,", NULL, false},
	    {"afterok:1?afterok:2,afterok:3", NULL, false},
	    {"singleton:3", NULL, false},
	    {"afterok:1+5", NULL, false},
	    {"42", NULL, false},
	    {",", NULL, false},
	    {"afterok:1 afterok:2", NULL, false},
	    {"afterok:99999999999", NULL, false},
	    {"after:1+", NULL, false},
	    {"afterok:1_", NULL, false},
	};
	for (size_t i = 0; i < ROWS(row); i++) {
		struct mu_arena arena = {0};
		struct mu_buf out = {0};
		struct mu_err err = {0};
		struct mu_depends d = {0};
		int rc = mu_depends_parse(row[i].text, &arena, &d, &err);
		cr_assert_eq(rc, row[i].shown ? 0 : MU_EDEPENDENCY, "%s gives %d", row[i].text, rc);
		mu_buf_str(&out, "");
		for (size_t k = 0; k < d.count; k++) {
			mu_buf_str(&out, k ? " " : "");
			mu_depend_print(&d.item[k], &out);
		}
		if (!rc) {
			cr_assert_str_eq((char *)out.data, row[i].shown);
			cr_assert_eq(d.any, row[i].any);
		} else {
			cr_assert(*err.text);
		}
		mu_buf_free(&out);
		mu_arena_free(&arena);
	}
}

Test(grammar, patterns)
{
	static const struct mu_pattern job = {.job = 42,
					      .step = MU_STEP_BATCH,
					      .task = 3,
					      .node_index = 1,
					      .user = "ann",
					      .job_name = "a/b",
					      .node = "n7"};
	static const struct mu_pattern step = {.job = 42,
					       .step = 5,
					       .task = 3,
					       .node_index = 1,
					       .user = "ann",
					       .job_name = "x",
					       .node = "n7",
					       .is_array = true,
					       .array_job = 40,
					       .array_task = 9};
	static const struct {
		const char *text, *batch, *task;
	} row[] = {
	    {"slurm-%j.out", "/w/slurm-42.out", "/w/slurm-42.out"},
	    {"%J", "/w/42", "/w/42.5"},
	    {"/o/%x_%u_%N", "/o/a_b_ann_n7", "/o/x_ann_n7"},
	    {"%5j-%05t%3n", "/w/00042-00003001", "/w/00042-00003001"},
	    {"%A_%a", "/w/42_4294967294", "/w/40_9"},
	    {"%4a", "/w/4294967294", "/w/0009"},
	    {"%s", "/w/batch", "/w/5"},
	    {"%%j%", "/w/%j%", "/w/%j%"},
	    {"%q%5q", "/w/%q%5q", "/w/%q%5q"},
	    {"\\%j", "/w/%j", "/w/%j"},
	    {"a\\b%j", "/w/ab%j", "/w/ab%j"},
	    {"\\/x%j", "/x%j", "/x%j"},
	    {"%999999999999j", "/w/0000000042", "/w/0000000042"},
	    {"%5%", "/w/%", "/w/%"},
	    {"", "/w/", "/w/"},
	};
	for (size_t i = 0; i < ROWS(row); i++) {
		struct mu_buf out = {0};
		mu_pattern_expand(row[i].text, "/w", &job, &out);
		cr_assert_str_eq((char *)out.data, row[i].batch);
		mu_buf_reset(&out);
		mu_pattern_expand(row[i].text, "/w/", &step, &out);
		cr_assert_str_eq((char *)out.data, row[i].task);
		mu_buf_free(&out);
	}
	cr_assert(mu_pattern_per_task("a%03t") && !mu_pattern_per_task("a%%t") &&
		  !mu_pattern_per_task("\\%t") && !mu_pattern_per_task("%"));
	cr_assert(mu_pattern_per_node("%N") && mu_pattern_per_node("%2n") && !mu_pattern_per_node("%j"));
}

Test(grammar, exports)
{
	static char *const env[] = {"PATH=/bin", "A=1", "B=2", "HOME=/h", "SLURM_X=y", "A_B=3", NULL};
	static const struct {
		const char *text, *shown; /* NULL: refused */
		bool login;
	} row[] = {
	    {"ALL", "PATH=/bin A=1 B=2 HOME=/h SLURM_X=y A_B=3 ", false},
	    {"all", "PATH=/bin A=1 B=2 HOME=/h SLURM_X=y A_B=3 ", false},
	    {"", "PATH=/bin A=1 B=2 HOME=/h SLURM_X=y A_B=3 ", false},
	    {"NONE", "SLURM_X=y ", true},
	    {"NIL", "SLURM_X=y ", false},
	    {"A", "A=1 SLURM_X=y ", true},
	    {"A=7", "SLURM_X=y A=7 ", true},
	    {"ALL,A=7", "PATH=/bin B=2 HOME=/h SLURM_X=y A_B=3 A=7 ", false},
	    {"A=7,ALL", "PATH=/bin B=2 HOME=/h SLURM_X=y A_B=3 A=7 ", false},
	    {"A=x y", "SLURM_X=y A=x y ", true},
	    {"A='x,y',B", "B=2 SLURM_X=y A=x,y ", true},
	    {"A=\"x'y\"", "SLURM_X=y A=x'y ", true},
	    {"A=1,A=2", "SLURM_X=y A=2 ", true},
	    {"A=", "SLURM_X=y A= ", true},
	    {"A==b", "SLURM_X=y A==b ", true},
	    {"NOTSET", "SLURM_X=y ", true},
	    {"IN_SLURM=1", "SLURM_X=y IN_SLURM=1 ", true},
	    {"SLURM_X=z", "SLURM_X=z ", true},
	    {"A=\"x", NULL, false},
	    {"=1", NULL, false},
	    {"A,,B", NULL, false},
	    {"1A", NULL, false},
	    {"$A", NULL, false},
	    {"A B", NULL, false},
	    {"NONE,A", NULL, false},
	    {"A,NIL", NULL, false},
	};
	for (size_t i = 0; i < ROWS(row); i++) {
		struct mu_arena arena = {0};
		struct mu_buf out = {0};
		struct mu_err err = {0};
		struct mu_export e = {0};
		int rc = mu_export_parse(row[i].text, &arena, &e, &err);
		cr_assert_eq(rc, row[i].shown ? 0 : MU_EINVAL, "%s gives %d", row[i].text, rc);
		if (!rc) {
			mu_export_apply(&e, env, &out);
			for (size_t k = 0; k < out.len; k++)
				out.data[k] = out.data[k] ? out.data[k] : ' ';
			cr_assert_str_eq((char *)out.data, row[i].shown);
			cr_assert_eq(e.login, row[i].login);
		} else {
			cr_assert(*err.text);
		}
		mu_buf_free(&out);
		mu_arena_free(&arena);
	}
}

Test(grammar, signals)
{
	static const struct {
		const char *text;
		uint32_t signal; /* 0: refused */
	} row[] = {
	    {"USR1", 10}, {"SIGUSR1", 10}, {"sigterm", 15}, {"9", 9},  {"64", 64},
	    {"IOT", 6},	  {"hup", 1},	   {"0", 0},	    {"65", 0}, {"", 0},
	    {"SIG", 0},	  {"USR3", 0},	   {"-9", 0},	    {"9x", 0}, {"SIG9", 0},
	};
	for (size_t i = 0; i < ROWS(row); i++) {
		uint32_t signal = 77;
		struct mu_err err = {0};
		int rc = mu_signal_parse(row[i].text, &signal, &err);
		cr_assert_eq(rc, row[i].signal ? 0 : MU_EINVAL, "%s", row[i].text);
		cr_assert_eq(signal, rc ? 77 : row[i].signal);
	}
	cr_assert_str_eq(mu_signal_name(10), "USR1");
	cr_assert_str_eq(mu_signal_name(6), "ABRT");
	cr_assert_null(mu_signal_name(40));
	static const struct {
		const char *text;
		uint32_t signal, before;
		int batch;
	} option[] = {
	    {"B:USR1@60", 10, 60, 1},
	    {"USR1", 10, 60, 0},
	    {"10@0", 10, 0, 0},
	    {"R:TERM@120", 15, 120, 0},
	    {"RB:TERM@120", 15, 120, 1},
	    {"BUS@5", 7, 5, 0},
	    {"@5", 0, 0, 0},
	    {"USR1@", 0, 0, 0},
	    {"USR1@x", 0, 0, 0},
	    {"USR1@65536", 0, 0, 0},
	    {"C:USR1", 0, 0, 0},
	    {"", 0, 0, 0},
	    {"B:", 0, 0, 0},
	};
	for (size_t i = 0; i < ROWS(option); i++) {
		uint32_t signal = 0, before = 0;
		int batch = 0;
		struct mu_err err = {0};
		int rc = mu_signal_option_parse(option[i].text, &signal, &before, &batch, &err);
		cr_assert_eq(rc, option[i].signal ? 0 : MU_EINVAL, "%s", option[i].text);
		cr_assert(signal == option[i].signal && before == option[i].before &&
			      batch == option[i].batch,
			  "%s", option[i].text);
	}
	char out[24];
	mu_exit_print(3, 0, out);
	cr_assert_str_eq(out, "3:0");
	mu_exit_print(INT32_MIN, INT32_MIN, out);
	cr_assert_str_eq(out, "-2147483648:-2147483648");
}

Test(grammar, resources)
{
	static const struct {
		const char *text, *by_id, *by_name; /* NULL: refused */
	} row[] = {
	    {"cpu=1,mem=50M,node=1,billing=1,gres/gpu=2", "cpu=1,mem=50M,node=1,billing=1,gres/gpu=2",
	     "billing=1,cpu=1,gres/gpu=2,mem=50M,node=1"},
	    {"MEM=4096,CPU=2", "cpu=2,mem=4G", "cpu=2,mem=4G"},
	    {"gres/gpu:A100=1,cpu=1,cpu=2", "cpu=3,gres/gpu:A100=1", "cpu=3,gres/gpu:A100=1"},
	    {"", "", ""},
	    {"cpu=0", "", ""},
	    {"cpu", NULL, NULL},
	    {"=1", NULL, NULL},
	    {"cpu=x", NULL, NULL},
	    {"mem=x", NULL, NULL},
	    {"cpu=1,,mem=1", NULL, NULL},
	    {"cpu=-1", NULL, NULL},
	    {"cpu=99999999999999999999", NULL, NULL},
	};
	for (size_t i = 0; i < ROWS(row); i++) {
		struct mu_arena arena = {0};
		struct mu_buf out = {0};
		struct mu_err err = {0};
		struct mu_tres tres = {0};
		int rc = mu_tres_parse(row[i].text, &arena, &tres, &err);
		cr_assert_eq(rc, row[i].by_id ? 0 : MU_EINVAL, "%s gives %d", row[i].text, rc);
		if (!rc) {
			mu_tres_print(&tres, MU_TRES_BY_ID, 0, &out);
			cr_assert_str_eq((char *)out.data, row[i].by_id);
			mu_buf_reset(&out);
			mu_tres_print(&tres, MU_TRES_BY_NAME, 0, &out);
			cr_assert_str_eq((char *)out.data, row[i].by_name);
		} else {
			cr_assert(*err.text && err.code == MU_EINVAL);
		}
		mu_buf_free(&out);
		mu_arena_free(&arena);
	}
}
