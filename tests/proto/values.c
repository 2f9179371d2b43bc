/* tests/proto: the text forms of values, in tables; refused cases beside accepted ones. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/het.h"
#include "proto/hostlist.h"
#include "proto/states.h"
#include "proto/units.h"

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

Test(values, spans)
{
	static const struct {
		const char *text;
		int64_t sec; /* -2: refused */
	} row[] = {
	    {"90", 5400},
	    {"90:30", 5460},
	    {"0:30", 60},
	    {"1:30:00", 5400},
	    {"2-0", 172800},
	    {"2-12", 216000},
	    {"2-12:30", 217800},
	    {"1-2:3:4", 93840},
	    {"0", -1},
	    {"-1", -1},
	    {"UNLIMITED", -1},
	    {"infinite", -1},
	    {"0:00", -1},
	    {"0:1", 60},
	    {"0-0:0:1", 60},
	    {"1", 60},
	    {"2147483647", 128849018820},
	    {"5m", -2},
	    {"1:2:3:4", -2},
	    {"", -2},
	    {"-5", -2},
	    {"1-", -2},
	    {"-", -2},
	    {"1:", -2},
	    {":1", -2},
	    {"1--2", -2},
	    {"1-2:", -2},
	    {"1 ", -2},
	    {" 1", -2},
	    {"1.5", -2},
	    {"2147483648", -2},
	    {"99999999999999999999", -2},
	    {"unlimite", -2},
	    {"1-2-3", -2},
	    {"+5", -2},
	    {"2147483647-0", -2},
	};
	for (size_t i = 0; i < ROWS(row); i++) {
		int64_t sec = 77;
		struct mu_err err = {0};
		int rc = mu_span_parse(row[i].text, &sec, &err);
		cr_assert_eq(rc, row[i].sec == -2 ? MU_ETIMELIMIT : 0, "%s gives %d", row[i].text, rc);
		cr_assert_eq(sec, rc ? 77 : row[i].sec, "%s gives %lld", row[i].text, (long long)sec);
		cr_assert(!rc || strstr(err.text, row[i].text), "the sentence names the value: %s", err.text);
	}
	static const struct {
		const char *text;
		int64_t sec;
	} pause[] = {{"0", 0}, {"0:10", 10}, {"1:01", 61}, {"2", 120}, {"-1", -1}, {"1-0", 86400}};
	for (size_t i = 0; i < ROWS(pause); i++) {
		int64_t sec = 77;
		cr_assert_eq(mu_pause_parse(pause[i].text, &sec, NULL), 0, "%s", pause[i].text);
		cr_assert_eq(sec, pause[i].sec, "%s gives %lld", pause[i].text, (long long)sec);
	}
	static const struct {
		int64_t sec;
		const char *full, *brief;
	} shown[] = {
	    {0, "00:00:00", "0:00"},
	    {3, "00:00:03", "0:03"},
	    {3600, "01:00:00", "1:00:00"},
	    {86400, "1-00:00:00", "1-00:00:00"},
	    {3599, "00:59:59", "59:59"},
	    {86400 * 40 + 36001, "40-10:00:01", "40-10:00:01"},
	    {-1, "UNLIMITED", "UNLIMITED"},
	    {-7, "INVALID", "INVALID"},
	    {INT64_MAX, "106751991167300-15:30:07", "106751991167300-15:30:07"},
	};
	for (size_t i = 0; i < ROWS(shown); i++) {
		char out[32];
		mu_span_print(shown[i].sec, 0, out);
		cr_assert_str_eq(out, shown[i].full);
		mu_span_print(shown[i].sec, 1, out);
		cr_assert_str_eq(out, shown[i].brief);
	}
}

Test(values, memory_and_numbers)
{
	static const struct {
		const char *text;
		int64_t mib; /* -1: refused */
	} row[] = {
	    {"100", 100},
	    {"1G", 1024},
	    {"4gb", 4096},
	    {"4Gb", 4096},
	    {"4GB", 4096},
	    {"1500M", 1500},
	    {"1K", 1},
	    {"1025K", 2},
	    {"2T", 2097152},
	    {"1P", 1073741824},
	    {"0", 0},
	    {"0K", 0},
	    {"", -1},
	    {"G", -1},
	    {"1.5G", -1},
	    {"-1", -1},
	    {"1X", -1},
	    {"1GBB", -1},
	    {"1 G", -1},
	    {"1B", -1},
	    {"99999999999999999999", -1},
	    {"9999999999999P", -1},
	    {"x", -1},
	    {"<mem>", -1},
	};
	for (size_t i = 0; i < ROWS(row); i++) {
		uint64_t mib = 77;
		struct mu_err err = {0};
		int rc = mu_mem_parse(row[i].text, &mib, &err);
		cr_assert_eq(rc, row[i].mib < 0 ? MU_EMEMORY : 0, "%s", row[i].text);
		cr_assert_eq(mib, rc ? 77 : (uint64_t)row[i].mib, "%s gives %llu", row[i].text,
			     (unsigned long long)mib);
	}
	static const struct {
		uint64_t mib;
		const char *text, *plain;
	} shown[] = {{0, "0", "0"},
		     {50, "50M", "50M"},
		     {4096, "4G", "4096M"},
		     {1500, "1500M", "1500M"},
		     {1048576, "1T", "1048576M"}};
	for (size_t i = 0; i < ROWS(shown); i++) {
		char out[24];
		mu_mem_print(shown[i].mib, 0, out);
		cr_assert_str_eq(out, shown[i].text);
		mu_mem_print(shown[i].mib, 1, out);
		cr_assert_str_eq(out, shown[i].plain);
	}
	static const struct {
		const char *text;
		int64_t min, max, value;
		int good;
	} number[] = {
	    {"5", 1, 10, 5, 1},
	    {"-3", -5, 5, -3, 1},
	    {"+3", -5, 5, 3, 1},
	    {"11", 1, 10, 0, 0},
	    {"0", 1, 10, 0, 0},
	    {"", 0, 9, 0, 0},
	    {"5x", 0, 9, 0, 0},
	    {"-", -9, 9, 0, 0},
	    {"9223372036854775807", 0, INT64_MAX, INT64_MAX, 1},
	    {"9223372036854775808", 0, INT64_MAX, 0, 0},
	    {"-9223372036854775808", INT64_MIN, 0, INT64_MIN, 1},
	    {"-9223372036854775809", INT64_MIN, 0, 0, 0},
	    {"0x10", 0, 99, 0, 0},
	    {"1e3", 0, 9999, 0, 0},
	};
	for (size_t i = 0; i < ROWS(number); i++) {
		int64_t value = 77;
		struct mu_err err = {0};
		int rc =
		    mu_number_parse("--ntasks", number[i].text, number[i].min, number[i].max, &value, &err);
		cr_assert_eq(rc, number[i].good ? 0 : MU_EINVAL, "%s", number[i].text);
		cr_assert_eq(value, rc ? 77 : number[i].value);
		cr_assert(!rc || strstr(err.text, "--ntasks"));
	}
	static const struct {
		const char *text;
		uint32_t sec; /* 0: refused */
		bool plain;
	} login[] = {{"", 8, false},	 {"10", 10, false},	{"10L", 10, false},
		     {"S", 8, true},	 {"3600S", 3600, true}, {"0", 0, false},
		     {"3601", 0, false}, {"-1", 0, false},	{"LS", 0, false},
		     {"5X", 0, false},	 {"5L ", 0, false},	{"99999999999999999999", 0, false}};
	for (size_t i = 0; i < ROWS(login); i++) {
		struct mu_login got = {0};
		int rc = mu_login_parse(login[i].text, &got, NULL);
		cr_assert_eq(rc != 0, login[i].sec == 0, "%s", login[i].text);
		cr_assert(rc || (got.sec == login[i].sec && got.plain == login[i].plain), "%s",
			  login[i].text);
	}
}

Test(values, gres)
{
	static const struct {
		const char *text, *shown; /* NULL: refused */
	} row[] = {
	    {"gpu:2", "gpu::2"},
	    {"gpu", "gpu::1"},
	    {"gpu:a100:1,gpu:h100:1", "gpu:a100:1 gpu:h100:1"},
	    {"none", ""},
	    {"NONE", ""},
	    {"gpu:a100", "gpu:a100:1"},
	    {"gpu:1,gpu:2", "gpu::3"},
	    {"gpu:0", "gpu::0"},
	    {"bw:2k", "bw::2048"},
	    {"gres/gpu:3", "gpu::3"},
	    {"gres:gpu:3", "gpu::3"},
	    {"gpu:nvidia_h100_80gb_hbm3_1g.10gb:1", "gpu:nvidia_h100_80gb_hbm3_1g.10gb:1"},
	    {"gpu:v100:x", NULL},
	    {"", NULL},
	    {"gpu:", NULL},
	    {"gpu::2", NULL},
	    {",gpu", NULL},
	    {"gpu,", NULL},
	    {"gpu:-1", NULL},
	    {"gpu:a100:1:2", NULL},
	    {"3", NULL},
	    {"gpu 2", NULL},
	    {"gpu:${N}", NULL},
	    {"gpu:99999999999999999999", NULL},
	    {"gpu:a:9999999P", NULL},
	};
	for (size_t i = 0; i < ROWS(row); i++) {
		struct mu_arena arena = {0};
		struct mu_buf out = {0};
		Mu__GresAsk **list = NULL;
		size_t count = 0;
		struct mu_err err = {0};
		int rc = mu_gres_parse(row[i].text, &arena, &list, &count, &err);
		cr_assert_eq(rc, row[i].shown ? 0 : MU_EGRES, "%s", row[i].text);
		mu_buf_str(&out, "");
		for (size_t k = 0; k < count; k++)
			mu_buf_printf(&out, "%s%s:%s:%llu", k ? " " : "", list[k]->name,
				      list[k]->type ? list[k]->type : "", (unsigned long long)list[k]->count);
		if (!rc)
			cr_assert_str_eq((char *)out.data, row[i].shown);
		mu_buf_free(&out);
		mu_arena_free(&arena);
	}
}

Test(values, host_lists)
{
	static const struct {
		const char *text, *names, *folded, *sorted;
	} row[] = {
	    {"n1", "n1", "n1", "n1"},
	    {"n[1-3,5]", "n1 n2 n3 n5", "n[1-3,5]", "n[1-3,5]"},
	    {"n[1-2,5,01-02]", "n1 n2 n5 n01 n02", "n[1-2,5,01-02]", "n[1,01,2,02,5]"},
	    {"n[08-11]", "n08 n09 n10 n11", "n[08-11]", "n[08-11]"},
	    {"n[8-11]", "n8 n9 n10 n11", "n[8-11]", "n[8-11]"},
	    {"n[098-101]", "n098 n099 n100 n101", "n[098-101]", "n[098-101]"},
	    {"r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2", "r1n[1-2],r2n[1-2]", "r1n[1-2],r2n[1-2]"},
	    {"a[1-2]b[3]c[4-5]", "a1b3c4 a1b3c5 a2b3c4 a2b3c5", "a1b3c[4-5],a2b3c[4-5]",
	     "a1b3c[4-5],a2b3c[4-5]"},
	    {"n3,n1,n2", "n3 n1 n2", "n[3,1-2]", "n[1-3]"},
	    {"b1,a1,b2", "b1 a1 b2", "b1,a1,b2", "a1,b[1-2]"},
	    {"n1,n1", "n1 n1", "n[1,1]", "n[1,1]"},
	    {"login", "login", "login", "login"},
	    {"n[1-2]-ib,x", "n1-ib n2-ib x", "n1-ib,n2-ib,x", "n1-ib,n2-ib,x"},
	    {"[1-3]", "1 2 3", "[1-3]", "[1-3]"},
	    {"", "", "", ""},
	    {"n1,,n2,", "n1 n2", "n[1-2]", "n[1-2]"},
	    {"n99999999999999999999", "n99999999999999999999", "n99999999999999999999",
	     "n99999999999999999999"},
	    {"ml-64-node-001,ml-64-node-002", "ml-64-node-001 ml-64-node-002", "ml-64-node-[001-002]",
	     "ml-64-node-[001-002]"},
	};
	for (size_t i = 0; i < ROWS(row); i++) {
		struct mu_arena arena = {0};
		struct mu_buf out = {0};
		char **names;
		size_t count;
		struct mu_err err = {0};
		cr_assert_eq(mu_hostlist_expand(row[i].text, 100, &arena, &names, &count, &err), 0, "%s: %s",
			     row[i].text, err.text);
		mu_buf_str(&out, "");
		for (size_t k = 0; k < count; k++)
			mu_buf_printf(&out, "%s%s", k ? " " : "", names[k]);
		cr_assert_str_eq((char *)out.data, row[i].names);
		mu_buf_reset(&out);
		mu_hostlist_fold((const char *const *)names, count, &out);
		cr_assert_str_eq((char *)out.data, row[i].folded);
		mu_buf_reset(&out);
		mu_hostlist_fold_sorted((const char *const *)names, count, &out);
		cr_assert_str_eq((char *)out.data, row[i].sorted);
		mu_buf_free(&out);
		mu_arena_free(&arena);
	}
	static const struct {
		const char *text;
		int code;
	} bad[] = {
	    {"n[1-3", MU_ESYNTAX},
	    {"n1-3]", MU_ESYNTAX},
	    {"n[]", MU_ESYNTAX},
	    {"n[3-1]", MU_ESYNTAX},
	    {"n[a-b]", MU_ESYNTAX},
	    {"n[1,]", MU_ESYNTAX},
	    {"n[1-]", MU_ESYNTAX},
	    {"n[[1]]", MU_ESYNTAX},
	    {"n 1", MU_ESYNTAX},
	    {"a[1]b[1]c[1]d[1]", MU_ESYNTAX},
	    {"n[1;2]", MU_ESYNTAX},
	    {"n[1-101]", MU_ELIMIT},
	    {"n[1-11]m[1-11]", MU_ELIMIT},
	    {"n[0-999999999999999999]", MU_ELIMIT},
	    {"n[9999999999999999999]", MU_ESYNTAX},
	};
	for (size_t i = 0; i < ROWS(bad); i++) {
		struct mu_arena arena = {0};
		char **names;
		size_t count;
		struct mu_err err = {0};
		cr_assert_eq(mu_hostlist_expand(bad[i].text, 100, &arena, &names, &count, &err), bad[i].code,
			     "%s", bad[i].text);
		cr_assert(strstr(err.text, bad[i].text), "%s", err.text);
		mu_arena_free(&arena);
	}
}

static int64_t zone_local(void *arg, struct tm *tm)
{
	return mktime(tm);
}

static void zone_breakdown(void *arg, int64_t sec, struct tm *ret_tm)
{
	time_t t = sec;
	localtime_r(&t, ret_tm);
}

Test(values, dates)
{
	static const struct mu_zone zone = {zone_local, zone_breakdown, NULL};
	/* Thursday 2026-10-01 15:30:00 in Berlin. */
	static const struct {
		const char *text;
		int future;
		const char *shown; /* NULL: refused */
	} row[] = {
	    {"now", 0, "2026-10-01T15:30:00"},
	    {"now+600", 0, "2026-10-01T15:40:00"},
	    {"now+1hour", 1, "2026-10-01T16:30:00"},
	    {"now+1hours", 1, "2026-10-01T16:30:00"},
	    {"now-2days", 0, "2026-09-29T15:30:00"},
	    {"-3days", 0, "2026-09-28T15:30:00"},
	    {"now+2weeks", 0, "2026-10-15T15:30:00"},
	    {"now+90min", 0, "2026-10-01T17:00:00"},
	    {"+1day", 0, "2026-10-02T15:30:00"},
	    {"today", 0, "2026-10-01T00:00:00"},
	    {"yesterday", 0, "2026-09-30T00:00:00"},
	    {"tomorrow", 0, "2026-10-02T00:00:00"},
	    {"today+2days", 0, "2026-10-03T00:00:00"},
	    {"midnight", 0, "2026-10-01T00:00:00"},
	    {"midnight", 1, "2026-10-02T00:00:00"},
	    {"noon", 0, "2026-10-01T12:00:00"},
	    {"noon", 1, "2026-10-02T12:00:00"},
	    {"teatime", 1, "2026-10-01T16:00:00"},
	    {"elevenses", 0, "2026-10-01T11:00:00"},
	    {"NOON", 0, "2026-10-01T12:00:00"},
	    {"noon-tomorrow", 1, "2026-10-02T12:00:00"},
	    {"tomorrow-noon", 1, "2026-10-02T12:00:00"},
	    {"yesterday 15:00", 0, "2026-09-30T15:00:00"},
	    {"16:00", 1, "2026-10-01T16:00:00"},
	    {"15:00", 1, "2026-10-02T15:00:00"},
	    {"15:00", 0, "2026-10-01T15:00:00"},
	    {"3:05PM", 0, "2026-10-01T15:05:00"},
	    {"12:00 am", 0, "2026-10-01T00:00:00"},
	    {"12:30pm", 0, "2026-10-01T12:30:00"},
	    {"23:59:59", 0, "2026-10-01T23:59:59"},
	    {"1225", 0, "2026-12-25T00:00:00"},
	    {"122527", 0, "2027-12-25T00:00:00"},
	    {"12/25", 0, "2026-12-25T00:00:00"},
	    {"12/25/27", 0, "2027-12-25T00:00:00"},
	    {"12/25/2027", 0, "2027-12-25T00:00:00"},
	    {"12.25.27", 0, "2027-12-25T00:00:00"},
	    {"9/1", 0, "2026-09-01T00:00:00"},
	    {"9/1", 1, "2027-09-01T00:00:00"},
	    {"10/1", 1, "2026-10-01T00:00:00"},
	    {"12/25-08:00", 0, "2026-12-25T08:00:00"},
	    {"12/25/27-08:00:01", 0, "2027-12-25T08:00:01"},
	    {"08:00 12/25", 0, "2026-12-25T08:00:00"},
	    {"2026-10-01", 0, "2026-10-01T00:00:00"},
	    {"2026-10-01T15:00", 0, "2026-10-01T15:00:00"},
	    {"2026-10-01T15:00:07", 0, "2026-10-01T15:00:07"},
	    {"2026-10-01-15:00", 0, "2026-10-01T15:00:00"},
	    {"2026-10-01 15:00", 0, "2026-10-01T15:00:00"},
	    {"2028-02-29", 0, "2028-02-29T00:00:00"},
	    {"2026-1-2", 0, "2026-01-02T00:00:00"},
	    {" now ", 0, "2026-10-01T15:30:00"},
	    /* The hour that Berlin skips on 29 March 2026 moves on. */
	    {"2026-03-29T02:30:00", 0, "2026-03-29T03:30:00"},
	    {"2026-03-29T03:30:00", 0, "2026-03-29T03:30:00"},
	    {"2026-03-29T01:59:59", 0, "2026-03-29T01:59:59"},
	    {"2026-10-25T02:30:00", 0, "2026-10-25T02:30:00"},
	    {"", 0, NULL},
	    {"soon", 0, NULL},
	    {"25:00", 0, NULL},
	    {"10:60", 0, NULL},
	    {"13/01", 0, NULL},
	    {"02/30", 0, NULL},
	    {"2026-02-29", 0, NULL},
	    {"2026-13-01", 0, NULL},
	    {"now+", 0, NULL},
	    {"now+1fortnight", 0, NULL},
	    {"now now", 0, NULL},
	    {"10:00 11:00", 0, NULL},
	    {"0:30am", 0, NULL},
	    {"13:00pm", 0, NULL},
	    {"noon noon", 0, NULL},
	    {"12/25 12/26", 0, NULL},
	    {"123", 0, NULL},
	    {"5", 0, NULL},
	    {"now+99999999999", 0, NULL},
	    {"2026-10-01T", 0, NULL},
	    {"10:00x", 0, NULL},
	    {"todaynoon", 0, NULL},
	    {"-", 0, NULL},
	    {"T10:00", 0, NULL},
	};
	setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
	tzset();
	int64_t now = INT64_C(1790861400) * 1000000;
	char out[32];
	mu_date_print(now, &zone, out);
	cr_assert_str_eq(out, "2026-10-01T15:30:00");
	mu_date_print(0, &zone, out);
	cr_assert_str_eq(out, "Unknown");
	for (size_t i = 0; i < ROWS(row); i++) {
		int64_t usec = 77;
		struct mu_err err = {0};
		int rc = mu_date_parse(row[i].text, now, row[i].future, &zone, &usec, &err);
		cr_assert_eq(rc, row[i].shown ? 0 : MU_ESYNTAX, "%s gives %d", row[i].text, rc);
		if (rc) {
			cr_assert_eq(usec, 77);
			continue;
		}
		mu_date_print(usec, &zone, out);
		cr_assert_str_eq(out, row[i].shown, "%s gives %s", row[i].text, out);
	}
}

Test(values, states)
{
	uint32_t state;
	cr_assert_eq(mu_job_state_parse("pd", &state), 0);
	cr_assert_eq(state, JOB_PENDING);
	cr_assert_eq(mu_job_state_parse("Out_Of_Memory", &state), 0);
	cr_assert_eq(state, JOB_OUT_OF_MEMORY);
	cr_assert_eq(mu_job_state_parse("xx", &state), MU_EINVAL);
	cr_assert_eq(mu_job_state_parse("", &state), MU_EINVAL);
	cr_assert(mu_job_state_ended(JOB_FAILED) && !mu_job_state_ended(JOB_COMPLETING) &&
		  !mu_job_state_ended(999));
	cr_assert_str_eq(mu_job_state_compact(999), "?");
	cr_assert_str_eq(mu_job_reason_word(REASON_JobHeldUser), "JobHeldUser");
	cr_assert_str_eq(mu_end_cause_word(END_OOM), "out of memory");
	static const struct {
		uint32_t base, flags, alloc;
		const char *compact, *word, *scontrol;
	} row[] = {
	    {NODE_IDLE, 0, 0, "idle", "idle", "IDLE"},
	    {NODE_IDLE, 0, 2, "mix", "mixed", "MIXED"},
	    {NODE_IDLE, 0, 4, "alloc", "allocated", "ALLOCATED"},
	    {NODE_IDLE, NODE_FLAG_DRAIN, 0, "drain", "drained", "IDLE+DRAIN"},
	    {NODE_IDLE, NODE_FLAG_DRAIN, 1, "drng", "draining", "MIXED+DRAIN"},
	    {NODE_IDLE, NODE_FLAG_DRAIN | NODE_FLAG_COMPLETING, 0, "drng", "draining",
	     "IDLE+DRAIN+COMPLETING"},
	    {NODE_IDLE, NODE_FLAG_COMPLETING, 0, "comp", "completing", "IDLE+COMPLETING"},
	    {NODE_DOWN, NODE_FLAG_NO_RESPOND, 0, "down*", "down*", "DOWN+NOT_RESPONDING"},
	    {NODE_DOWN, NODE_FLAG_DRAIN, 0, "drain", "drained", "DOWN+DRAIN"},
	    {NODE_IDLE, NODE_FLAG_NO_RESPOND, 4, "alloc*", "allocated*", "ALLOCATED+NOT_RESPONDING"},
	    {NODE_UNKNOWN, 0, 0, "unk", "unknown", "UNKNOWN"},
	    {NODE_IDLE, NODE_FLAG_MAINT, 0, "maint", "maint", "IDLE+MAINTENANCE"},
	    {NODE_IDLE, NODE_FLAG_MAINT, 1, "mix$", "mixed$", "MIXED+MAINTENANCE"},
	    {NODE_IDLE, NODE_FLAG_PLANNED, 0, "plnd", "planned", "IDLE+PLANNED"},
	    {NODE_IDLE, NODE_FLAG_PLANNED, 1, "mix-", "mixed-", "MIXED+PLANNED"},
	    {NODE_IDLE, NODE_FLAG_FAIL, 1, "failg", "failing", "MIXED+FAIL"},
	    {NODE_FUTURE, 0, 0, "futr", "future", "FUTURE"},
	};
	for (size_t i = 0; i < ROWS(row); i++) {
		char out[128];
		mu_node_state_print(row[i].base, row[i].flags, row[i].alloc, 4, true, out);
		cr_assert_str_eq(out, row[i].compact);
		mu_node_state_print(row[i].base, row[i].flags, row[i].alloc, 4, false, out);
		cr_assert_str_eq(out, row[i].word);
		mu_node_state_scontrol(row[i].base, row[i].flags, row[i].alloc, 4, out);
		cr_assert_str_eq(out, row[i].scontrol);
	}
}

Test(values, het_groups)
{
	static const struct {
		const char *text;
		uint32_t size, count, group[4]; /* count 0: refused */
	} row[] = {{"0", 1, 1, {0}},
		   {"1", 2, 1, {1}},
		   {"0,2-4", 5, 4, {0, 2, 3, 4}},
		   {"2,0", 3, 2, {2, 0}},
		   {"1", 1, 0, {0}},
		   {"0,0", 2, 0, {0}},
		   {"1-2,2", 3, 0, {0}},
		   {"2-1", 3, 0, {0}},
		   {"", 1, 0, {0}},
		   {"0,", 1, 0, {0}},
		   {"a", 1, 0, {0}},
		   {"0-", 3, 0, {0}},
		   {"999999999999", 1000, 0, {0}}};
	for (size_t i = 0; i < ROWS(row); i++) {
		uint32_t group[MU_HET_MAX], count = 77;
		struct mu_err err = {0};
		int rc = mu_het_groups_parse(row[i].text, row[i].size, group, &count, &err);
		cr_assert_eq(rc == 0, row[i].count > 0, "%s: %s", row[i].text, err.text);
		cr_assert_eq(count, rc ? 77 : row[i].count, "%s", row[i].text);
		cr_assert(rc == 0 || *err.text);
		for (uint32_t k = 0; rc == 0 && k < count; k++)
			cr_assert_eq(group[k], row[i].group[k], "%s", row[i].text);
	}
	cr_assert(mu_het_variable("SLURM_NTASKS"));
	cr_assert_not(mu_het_variable("SLURM_NTASKS_PER_NODE"));
}
