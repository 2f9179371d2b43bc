/* tests/proto: what unpacking refuses, and that it takes what packing made. */
#include <criterion/criterion.h>
#include <string.h>

#include "proto/pb.h"
#include "proto/wire.pb-c.h"

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))
#define BYTES(text) (text), sizeof(text) - 1

Test(pb, refusals)
{
	/* Mu__JobSpec: name is field 1 (0a), partition 4 (22), nodes_min 10 (50), gres 17 (8a 01), work_dir
	 * 65 (8a 04, any bytes). */
	static const struct {
		const char *what, *bytes;
		size_t len;
		int good;
	} row[] = {
	    {"empty", BYTES(""), 1},
	    {"a name", BYTES("\x0a\x02hi"), 1},
	    {"umlauts", BYTES("\x0a\x02\xc3\xb6"), 1},
	    {"four bytes", BYTES("\x0a\x04\xf0\x9f\x98\x80"), 1},
	    {"NUL in a string", BYTES("\x0a\x03h\0i"), 0},
	    {"bad start", BYTES("\x0a\x01\xff"), 0},
	    {"lone continuation", BYTES("\x0a\x01\x80"), 0},
	    {"cut character", BYTES("\x0a\x01\xc3"), 0},
	    {"overlong", BYTES("\x0a\x02\xc0\xaf"), 0},
	    {"overlong in three", BYTES("\x0a\x03\xe0\x80\xaf"), 0},
	    {"surrogate", BYTES("\x0a\x03\xed\xa0\x80"), 0},
	    {"beyond Unicode", BYTES("\x0a\x04\xf4\x90\x80\x80"), 0},
	    {"in a list",
	     BYTES("\x22\x01"
		   "a"
		   "\x22\x01\xff"),
	     0},
	    {"in a message within", BYTES("\x8a\x01\x03\x0a\x01\xff"), 0},
	    {"NUL in bytes", BYTES("\x8a\x04\x03h\0i"), 1},
	    {"no UTF-8 in bytes", BYTES("\x8a\x04\x01\xff"), 1},
	    {"unknown field", BYTES("\xfa\x7f\x01\xff"), 1},
	    {"length beyond the end", BYTES("\x0a\x05hi"), 0},
	    {"huge length", BYTES("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), 0},
	    {"cut number", BYTES("\x50\x80"), 0},
	    {"number without end", BYTES("\x50\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"), 0},
	    {"group", BYTES("\x0b"), 0},
	    {"wire type 7", BYTES("\x0f"), 0},
	    {"cut fixed number", BYTES("\x51\x01\x02"), 0},
	};
	for (size_t i = 0; i < ROWS(row); i++) {
		struct mu_arena arena = {0};
		cr_assert_eq(mu_pb_unpack(&mu__job_spec__descriptor, row[i].bytes, row[i].len, &arena) !=
				 NULL,
			     row[i].good, "%s", row[i].what);
		mu_arena_free(&arena);
	}
	struct mu_arena arena = {0};
	cr_assert_not_null(mu_pb_unpack(&mu__job_spec__descriptor, NULL, 0, &arena));
	cr_assert_null(mu_pb_unpack(&mu__job_spec__descriptor, NULL, 5, &arena));
	cr_assert(mu_pb_is_text("gr\xc3\xb6\xc3\x9f"
				"e") &&
		  mu_pb_is_text("") && !mu_pb_is_text("\xc3"));
	mu_arena_free(&arena);
}

/* HistRow.step is field 2: "12 00" asks for a whole StepRow with two bytes. */
Test(pb, memory)
{
	static const size_t rows[] = {1000, 100000};
	for (size_t i = 0; i < ROWS(rows); i++) {
		struct mu_arena arena = {0};
		struct mu_buf buf = {0};
		for (size_t k = 0; k < rows[i]; k++)
			mu_buf_add(&buf, "\x12\x00", 2);
		cr_assert_eq(mu_pb_unpack(&mu__hist_row__descriptor, buf.data, buf.len, &arena) != NULL,
			     i == 0);
		mu_arena_free(&arena);
		mu_buf_free(&buf);
	}
}

Test(pb, round_trip)
{
	struct mu_arena arena = {0};
	struct mu_buf buf = {0};
	Mu__JobSpec spec = MU__JOB_SPEC__INIT, *back;
	char *partition[] = {(char *)"a", (char *)"b"};
	mu_buf_str(&buf, "before");
	spec.name = (char *)"gr\xc3\xb6\xc3\x9f"
			    "e|x";
	spec.n_partition = 2;
	spec.partition = partition;
	spec.has_nodes_min = 1;
	spec.nodes_min = 7;
	size_t len = mu_pb_pack(&spec.base, &buf);
	cr_assert_eq(buf.len, len + 6);
	cr_assert_eq(memcmp(buf.data, "before", 6), 0);
	back = (Mu__JobSpec *)mu_pb_unpack(&mu__job_spec__descriptor, buf.data + 6, len, &arena);
	cr_assert_not_null(back);
	cr_assert_str_eq(back->name, spec.name);
	cr_assert(back->n_partition == 2 && !strcmp(back->partition[1], "b") && back->nodes_min == 7 &&
		  !back->has_ntasks);
	mu_arena_free(&arena);
	mu_buf_free(&buf);
}
