/* tests/proto: tasks to nodes and CPUs. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "proto/layout/bind.h"
#include "proto/layout/near.h"
#include "proto/layout/layout.h"

#define ROWS(table) (sizeof(table) / sizeof((table)[0]))

static void check_layout(const char *cpus, struct mu_layout_ask ask, const char *on, const char *nodes)
{
	struct mu_arena arena = {0};
	struct mu_buf out = {0};
	struct mu_err err = {0};
	struct mu_layout made;
	uint32_t *list;
	size_t n;
	cr_assert_eq(mu_counts_parse(cpus, 1000, &arena, &list, &n), 0);
	ask.cpus = list;
	ask.nodes = (uint32_t)n;
	int rc = mu_layout_make(&ask, &arena, &made, &err);
	if (!on) {
		cr_assert(rc && *err.text, "%s must be refused", cpus);
		mu_arena_free(&arena);
		return;
	}
	cr_assert_eq(rc, 0, "%s", err.text);
	mu_counts_print(made.tasks_on, made.nodes, &out);
	cr_assert_str_eq((char *)out.data, on);
	mu_buf_reset(&out);
	for (uint32_t t = 0; t < made.tasks; t++)
		mu_buf_printf(&out, "%u", made.node_of[t]);
	if (nodes)
		cr_assert_str_eq((char *)out.data, nodes);
	uint32_t last[64] = {0};
	for (uint32_t t = 0; t < made.tasks; t++)
		cr_assert_eq(made.local_of[t], last[made.node_of[t]]++);
	mu_buf_free(&out);
	mu_arena_free(&arena);
}

Test(layout, nodes)
{
	static const uint32_t hosts[] = {2, 0, 0, 1};
	static const struct {
		const char *cpus;
		struct mu_layout_ask ask;
		const char *on, *nodes;
	} row[] = {
	    /* tasks, cpus per task, tasks per node, overcommit, spread, plane, hosts, even */
	    {"4(x3)", {0, NULL, 6, 1, 0, false, MU_SPREAD_DEFAULT, 0, NULL, false}, "4,1(x2)", "000012"},
	    {"4(x3)", {0, NULL, 6, 1, 0, false, MU_SPREAD_DEFAULT, 0, NULL, true}, "2(x3)", "001122"},
	    {"4,1,4", {0, NULL, 7, 1, 0, false, MU_SPREAD_BLOCK, 0, NULL, true}, "3,1,3", "0001222"},
	    {"4(x3)", {0, NULL, 6, 1, 0, false, MU_SPREAD_CYCLIC, 0, NULL, false}, "2(x3)", "012012"},
	    {"4(x3)", {0, NULL, 8, 1, 0, false, MU_SPREAD_PLANE, 3, NULL, false}, "3(x2),2", "00011122"},
	    {"4(x3)", {0, NULL, 10, 1, 0, false, MU_SPREAD_PLANE, 3, NULL, false}, "4,3(x2)", "0001112220"},
	    {"4(x3)", {0, NULL, 4, 1, 0, false, MU_SPREAD_ARBITRARY, 0, hosts, false}, "2,1(x2)", "2001"},
	    {"4(x3)", {0, NULL, 12, 0, 0, false, MU_SPREAD_BLOCK, 0, NULL, false}, "4(x3)", NULL},
	    {"4(x3)", {0, NULL, 13, 1, 0, false, MU_SPREAD_BLOCK, 0, NULL, false}, NULL, NULL},
	    {"4(x3)", {0, NULL, 13, 1, 0, true, MU_SPREAD_BLOCK, 0, NULL, false}, "5,4(x2)", NULL},
	    {"4,2", {0, NULL, 5, 1, 0, false, MU_SPREAD_CYCLIC, 0, NULL, false}, "3,2", "01010"},
	    {"1(x2)", {0, NULL, 5, 1, 0, true, MU_SPREAD_CYCLIC, 0, NULL, false}, "3,2", "01010"},
	    {"4(x2)", {0, NULL, 3, 2, 0, false, MU_SPREAD_BLOCK, 0, NULL, false}, "2,1", "001"},
	    {"4(x2)", {0, NULL, 5, 2, 0, false, MU_SPREAD_BLOCK, 0, NULL, false}, NULL, NULL},
	    {"4(x2)", {0, NULL, 4, 1, 2, false, MU_SPREAD_BLOCK, 0, NULL, false}, "2(x2)", "0011"},
	    {"4(x2)", {0, NULL, 5, 1, 2, false, MU_SPREAD_BLOCK, 0, NULL, false}, NULL, NULL},
	    {"1(x2)", {0, NULL, 8, 1, 4, true, MU_SPREAD_BLOCK, 0, NULL, false}, "4(x2)", NULL},
	    {"4(x3)", {0, NULL, 2, 1, 0, false, MU_SPREAD_BLOCK, 0, NULL, false}, "1(x2),0", "01"},
	    {"4", {0, NULL, 1, 1, 0, false, MU_SPREAD_BLOCK, 0, NULL, false}, "1", "0"},
	    {"4", {0, NULL, 0, 1, 0, false, MU_SPREAD_BLOCK, 0, NULL, false}, NULL, NULL},
	    {"0,4", {0, NULL, 3, 1, 0, false, MU_SPREAD_BLOCK, 0, NULL, false}, "0,3", "111"},
	    {"4(x3)", {0, NULL, 4, 1, 0, false, MU_SPREAD_ARBITRARY, 0, NULL, false}, NULL, NULL},
	    {"4(x2)", {0, NULL, 4, 1, 0, false, MU_SPREAD_ARBITRARY, 0, hosts, false}, NULL, NULL},
	    {"4", {0, NULL, 2000000, 1, 0, true, MU_SPREAD_BLOCK, 0, NULL, false}, NULL, NULL},
	};
	for (size_t i = 0; i < ROWS(row); i++)
		check_layout(row[i].cpus, row[i].ask, row[i].on, row[i].nodes);
}

Test(layout, words)
{
	static const struct {
		const char *text;
		int good;
		enum mu_spread nodes, sockets, cores;
		uint32_t plane;
	} row[] = {
	    {"block", 1, MU_SPREAD_BLOCK, MU_SPREAD_DEFAULT, MU_SPREAD_DEFAULT, 0},
	    {"cyclic:block", 1, MU_SPREAD_CYCLIC, MU_SPREAD_BLOCK, MU_SPREAD_DEFAULT, 0},
	    {"block:cyclic:fcyclic,Pack", 1, MU_SPREAD_BLOCK, MU_SPREAD_CYCLIC, MU_SPREAD_FCYCLIC, 0},
	    {"plane=4", 1, MU_SPREAD_PLANE, MU_SPREAD_DEFAULT, MU_SPREAD_DEFAULT, 4},
	    {"*:block", 1, MU_SPREAD_DEFAULT, MU_SPREAD_BLOCK, MU_SPREAD_DEFAULT, 0},
	    {"arbitrary", 1, MU_SPREAD_ARBITRARY, MU_SPREAD_DEFAULT, MU_SPREAD_DEFAULT, 0},
	    {"NoPack,Cyclic", 1, MU_SPREAD_CYCLIC, MU_SPREAD_DEFAULT, MU_SPREAD_DEFAULT, 0},
	    {"", 0, 0, 0, 0, 0},
	    {"blok", 0, 0, 0, 0, 0},
	    {"plane", 0, 0, 0, 0, 0},
	    {"plane=0", 0, 0, 0, 0, 0},
	    {"plane=x", 0, 0, 0, 0, 0},
	    {"fcyclic", 0, 0, 0, 0, 0},
	    {"block:arbitrary", 0, 0, 0, 0, 0},
	    {"block:block:block:block", 0, 0, 0, 0, 0},
	    {"block,cyclic", 0, 0, 0, 0, 0},
	    {"block,", 0, 0, 0, 0, 0},
	    {"pack,nopack", 0, 0, 0, 0, 0},
	    {"block:", 0, 0, 0, 0, 0},
	};
	for (size_t i = 0; i < ROWS(row); i++) {
		struct mu_distribution d = {0};
		struct mu_err err = {0};
		int rc = mu_distribution_parse(row[i].text, &d, &err);
		cr_assert_eq(rc, row[i].good ? 0 : MU_EINVAL, "%s gives %d", row[i].text, rc);
		cr_assert(d.nodes == row[i].nodes && d.sockets == row[i].sockets && d.cores == row[i].cores &&
			      d.plane == row[i].plane,
			  "%s", row[i].text);
	}
	static const struct {
		const char *text;
		int code;
		const char *shown;
	} counts[] = {
	    {"4(x2),2", 0, "4(x2),2"},
	    {"4,4,2", 0, "4(x2),2"},
	    {"1", 0, "1"},
	    {"", 0, ""},
	    {"4(x2", MU_ESYNTAX, NULL},
	    {"4x2", MU_ESYNTAX, NULL},
	    {"4,", MU_ESYNTAX, NULL},
	    {"a", MU_ESYNTAX, NULL},
	    {"4(x101)", MU_ELIMIT, NULL},
	    {"4(x99999999999)", MU_ESYNTAX, NULL},
	};
	for (size_t i = 0; i < ROWS(counts); i++) {
		struct mu_arena arena = {0};
		struct mu_buf out = {0};
		uint32_t *list;
		size_t n;
		cr_assert_eq(mu_counts_parse(counts[i].text, 100, &arena, &list, &n), counts[i].code, "%s",
			     counts[i].text);
		if (!counts[i].code) {
			mu_counts_print(list, n, &out);
			cr_assert_str_eq((char *)out.data, counts[i].shown);
		}
		mu_buf_free(&out);
		mu_arena_free(&arena);
	}
}

Test(layout, binding)
{
	static const struct {
		struct mu_cpu_shape shape;
		const char *allowed;
		uint32_t tasks, cpus;
		const char *bind;
		enum mu_spread spread;
		const char *masks; /* NULL: refused */
	} row[] = {
	    {{1, 4, 1}, "0-3", 2, 1, "threads", MU_SPREAD_DEFAULT, "0 1"},
	    {{2, 4, 1}, "0-7", 4, 1, "threads", MU_SPREAD_DEFAULT, "0 4 1 5"},
	    {{2, 4, 1}, "0-7", 4, 1, "threads", MU_SPREAD_BLOCK, "0 1 2 3"},
	    {{2, 4, 1}, "0-7", 2, 3, "threads", MU_SPREAD_CYCLIC, "0-2 4-6"},
	    {{2, 4, 1}, "0-7", 2, 3, "threads", MU_SPREAD_BLOCK, "0-2 3-5"},
	    {{2, 4, 1}, "0-7", 2, 2, "threads", MU_SPREAD_FCYCLIC, "0,4 1,5"},
	    {{1, 4, 2}, "0-7", 2, 1, "cores", MU_SPREAD_DEFAULT, "0-1 2-3"},
	    {{1, 4, 2}, "0-7", 2, 3, "cores", MU_SPREAD_DEFAULT, "0-3 4-7"},
	    {{1, 4, 2}, "0-2,4", 2, 1, "cores", MU_SPREAD_DEFAULT, "0-1 2"},
	    {{2, 4, 1}, "0-2,4-5", 2, 1, "sockets", MU_SPREAD_DEFAULT, "0-2 4-5"},
	    {{1, 4, 1}, "1-3", 2, 1, "none", MU_SPREAD_DEFAULT, "1-3 1-3"},
	    {{1, 4, 1}, "1,3", 3, 1, "rank", MU_SPREAD_DEFAULT, "1 3 1"},
	    {{1, 4, 1}, "0-3", 3, 1, "map_cpu:3,0x", MU_SPREAD_DEFAULT, NULL},
	    {{1, 4, 1}, "0-3", 3, 1, "map_cpu:3,1", MU_SPREAD_DEFAULT, "3 1 3"},
	    {{1, 4, 1}, "0-3", 3, 1, "map_cpu:3*2,1", MU_SPREAD_DEFAULT, "3 3 1"},
	    {{1, 4, 1}, "0-3", 2, 1, "verbose,mask_cpu:0x3,C", MU_SPREAD_DEFAULT, "0-1 2-3"},
	    {{1, 4, 1}, "0-1", 1, 1, "mask_cpu:0xC", MU_SPREAD_DEFAULT, NULL},
	    {{1, 4, 1}, "0-1", 1, 1, "map_cpu:2", MU_SPREAD_DEFAULT, NULL},
	    {{1, 4, 1}, "", 1, 1, "threads", MU_SPREAD_DEFAULT, NULL},
	    {{2, 2, 1}, "0-3", 3, 1, "rank_ldom", MU_SPREAD_DEFAULT, "0-1 2-3 0-1"},
	    {{2, 2, 1}, "0-1", 2, 1, "rank_ldom", MU_SPREAD_DEFAULT, "0-1 0-1"},
	    {{2, 2, 1}, "0-2", 2, 1, "map_ldom:1,0", MU_SPREAD_DEFAULT, "2 0-1"},
	    {{2, 2, 1}, "0-3", 2, 1, "mask_ldom:0x2,0x3", MU_SPREAD_DEFAULT, "2-3 0-3"},
	    {{2, 2, 1}, "0-1", 1, 1, "map_ldom:1", MU_SPREAD_DEFAULT, NULL},
	    {{2, 2, 1}, "0-1", 1, 1, "map_ldoms:1", MU_SPREAD_DEFAULT, NULL},
	    {{1, 4, 1}, "0-4", 1, 1, "threads", MU_SPREAD_DEFAULT, NULL},
	    {{1, 2, 1}, "0-1", 3, 1, "threads", MU_SPREAD_DEFAULT, "0 1 0"},
	    {{1, 2, 1}, "0-1", 2, 9, "quiet,threads", MU_SPREAD_DEFAULT, "0-1 0-1"},
	    {{2, 2, 1}, "0-3", 1, 3, NULL, MU_SPREAD_DEFAULT, "0-2"},
	    {{1, 4, 1}, "0-3", 1, 1, "", MU_SPREAD_DEFAULT, NULL},
	    {{1, 4, 1}, "0-3", 1, 1, "tightly", MU_SPREAD_DEFAULT, NULL},
	    {{1, 4, 1}, "0-3", 1, 1, "mask_cpu:xyz", MU_SPREAD_DEFAULT, NULL},
	    {{1, 4, 1}, "0-3", 1, 1, "map_cpu:", MU_SPREAD_DEFAULT, NULL},
	};
	for (size_t i = 0; i < ROWS(row); i++) {
		struct mu_arena arena = {0};
		struct mu_bits allowed = {0}, mask[8] = {{0}};
		struct mu_bind bind = {0};
		struct mu_err err = {0};
		struct mu_buf out = {0};
		cr_assert_eq(mu_bits_parse(&allowed, row[i].allowed, 1000), 0);
		int rc = row[i].bind ? mu_bind_parse(row[i].bind, &arena, &bind, &err) : 0;
		if (!rc)
			rc = mu_bind_masks(&row[i].shape, &allowed, row[i].tasks, row[i].cpus,
					   row[i].bind ? &bind : NULL, row[i].spread, mask, &err);
		cr_assert_eq(rc, row[i].masks ? 0 : MU_EINVAL, "row %zu: %s", i, err.text);
		mu_buf_str(&out, "");
		for (uint32_t t = 0; t < row[i].tasks; t++) {
			char text[64];
			mu_bits_print(&mask[t], text, sizeof(text));
			mu_buf_printf(&out, "%s%s", t ? " " : "", text);
			mu_bits_free(&mask[t]);
		}
		if (!rc)
			cr_assert_str_eq((char *)out.data, row[i].masks, "row %zu: %s", i, (char *)out.data);
		mu_bind_free(&bind);
		mu_bits_free(&allowed);
		mu_buf_free(&out);
		mu_arena_free(&arena);
	}
	struct mu_bits m = {0};
	struct mu_buf out = {0};
	mu_mask_print(&m, &out);
	cr_assert_str_eq((char *)out.data, "0x0");
	mu_bits_set(&m, 0);
	mu_bits_set(&m, 68);
	mu_buf_reset(&out);
	mu_mask_print(&m, &out);
	cr_assert_str_eq((char *)out.data, "0x100000000000000001");
	mu_bits_free(&m);
	cr_assert_eq(mu_mask_parse((char *)out.data, out.len, &m), 0);
	cr_assert(mu_bits_test(&m, 68) && mu_bits_test(&m, 0) && mu_bits_count(&m) == 2);
	mu_bits_free(&m);
	mu_buf_free(&out);
}

Test(layout, memory_near)
{
	static const struct {
		const char *text;
		bool good, verbose, prefer;
		enum mu_near_kind kind;
		uint64_t mems[3];
	} row[] = {
	    {"none", true, false, false, MU_NEAR_NONE, {0, 0, 0}},
	    {"local", true, false, false, MU_NEAR_LOCAL, {0, 0, 0}},
	    {"verbose,sort,prefer,rank", true, true, true, MU_NEAR_RANK, {1, 2, 4}},
	    {"v,q,map_mem:1,0", true, false, false, MU_NEAR_MAP, {2, 1, 2}},
	    {"map_mem:64", true, false, false, MU_NEAR_MAP, {0, 0, 0}},
	    {"mask_mem:0x3,4*2", true, false, false, MU_NEAR_MASK, {3, 4, 4}},
	    {"verbose", true, true, false, MU_NEAR_NONE, {0, 0, 0}},
	    {"", false, false, false, MU_NEAR_NONE, {0}},
	    {"near", false, false, false, MU_NEAR_NONE, {0}},
	    {"rank,verbose", false, false, false, MU_NEAR_NONE, {0}},
	    {"map_mem:x", false, false, false, MU_NEAR_NONE, {0}},
	    {"mask_mem:", false, false, false, MU_NEAR_NONE, {0}},
	};
	for (size_t i = 0; i < ROWS(row); i++) {
		struct mu_arena arena = {0};
		struct mu_near near = {0};
		struct mu_err err = {0};
		int rc = mu_mem_bind_parse(row[i].text, &arena, &near, &err);
		cr_assert_eq(rc, row[i].good ? 0 : MU_EINVAL, "row %zu: %s", i, err.text);
		cr_assert(rc || (near.kind == row[i].kind && near.verbose == row[i].verbose &&
				 near.prefer == row[i].prefer),
			  "row %zu", i);
		for (uint32_t k = 0; !rc && k < 3; k++)
			cr_assert_eq(mu_near_mems(&near, k), row[i].mems[k], "row %zu task %u", i, k);
		mu_bind_free(&near.list);
		mu_arena_free(&arena);
	}
}

Test(layout, gpus_near)
{
	/* Four GPUs; CLOSE says of each whether it is near the tasks' CPUs. */
	static const struct {
		const char *text, *close, *gpus; /* of three tasks; NULL: refused */
	} row[] = {
	    {"none", "0011", "0-3 0-3 0-3"},
	    {"closest", "0011", "2-3 2-3 2-3"},
	    {"closest", "0000", "0-3 0-3 0-3"},
	    {"single:1", "0011", "2 3 2"},
	    {"gres/gpu:single:2", "0000", "0 0 1"},
	    {"per_task:2", "0011", "2-3 0-1 2-3"},
	    {"per_task:3", "1111", "0-2 3 0-2"},
	    {"verbose,map_gpu:3,1", "1111", "3 1 3"},
	    {"map_gpu:0*2,9", "1111", "0 0 "},
	    {"mask_gpu:0x5,A", "1111", "0,2 1,3 0,2"},
	    {"gres/gpu:verbose", "1111", "0-3 0-3 0-3"},
	    {"single", "1111", NULL},
	    {"single:0", "1111", NULL},
	    {"per_task:257", "1111", NULL},
	    {"map_gpu:", "1111", NULL},
	    {"closest,verbose", "1111", NULL},
	    {"", "1111", NULL},
	};
	for (size_t i = 0; i < ROWS(row); i++) {
		struct mu_arena arena = {0};
		struct mu_near near = {0};
		struct mu_err err = {0};
		struct mu_buf out = {0};
		bool close[4], given[4] = {false};
		int rc = mu_gpu_bind_parse(row[i].text, &arena, &near, &err);
		cr_assert_eq(rc, row[i].gpus ? 0 : MU_EINVAL, "row %zu: %s", i, err.text);
		for (int g = 0; g < 4; g++)
			close[g] = row[i].close[g] == '1';
		for (uint32_t k = 0; !rc && k < 3; k++) {
			struct mu_bits got = {0};
			char text[64];
			mu_near_gpus(&near, k, 4, close, given, &got);
			mu_bits_print(&got, text, sizeof text);
			mu_buf_printf(&out, "%s%s", k ? " " : "", text);
			mu_bits_free(&got);
		}
		if (!rc)
			cr_assert_str_eq((char *)out.data, row[i].gpus, "row %zu: %s", i, (char *)out.data);
		mu_buf_free(&out);
		mu_bind_free(&near.list);
		mu_arena_free(&arena);
	}
}
