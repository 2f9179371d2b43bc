/* tests/proto/fuzz: random and mutated text at every parser of the vocabulary. A plain program, meant for
 * AddressSanitizer. fuzz [SEED] What parses must print, and what is printed must parse to the same again.
 * MUSTER_TEST_SIZE=fast|ci|full sets the count. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/array.h"
#include "proto/base/seed.h"
#include "proto/conf.h"
#include "proto/depend.h"
#include "proto/export.h"
#include "proto/hostlist.h"
#include "proto/layout/bind.h"
#include "proto/pattern.h"
#include "proto/pb.h"
#include "proto/signals.h"
#include "proto/states.h"
#include "proto/tres.h"
#include "proto/units.h"
#include "proto/wire.pb-c.h"

static const char *const grains[] = {
    "n[1-3,5]",
    "r[1-2]n[01-10]-ib,x",
    "1-2:3:4",
    "90:30",
    "UNLIMITED",
    "now+1hour",
    "noon-tomorrow",
    "2026-02-29T10:00",
    "12/25/27-08:00",
    "-3days",
    "3:05PM",
    "1500M",
    "4Gb",
    "gpu:a100:2,fpga:1k",
    "gres/gpu:nvidia_h100:1(S:0-1)",
    "0-9:2%3",
    "[1-5,7%2]",
    "42_[1-3].batch",
    "42+1.0",
    "afterok:1:2_3,after:4+5",
    "afterany:1?singleton",
    "ALL,A=1,B='x,y'",
    "NONE",
    "slurm-%5j-%x_%N.%t\\",
    "B:USR1@60",
    "cpu=1,mem=50M,gres/gpu=2",
    "4(x2),2",
    "block:cyclic:fcyclic,Pack",
    "plane=4",
    "verbose,mask_cpu:0x3*2,FF",
    "map_cpu:0,3",
    "0-3,8",
    "a&b|c*2",
    "%",
    "\\",
    "\"",
    ",",
    "[",
    "]",
    "(",
    "-",
    "=",
    ":",
    "+",
    "99999999999999999999",
    "-1",
    "0",
    " ",
    "$(hostname)",
    "é",
    "\x01",
    "\xff",
    "ClusterName=c\nSlurmctldHost=a(b:1:3)\nGresTypes=gpu\n",
    "NodeName=n[1-3] CPUs=4 Gres=gpu:2 State=IDLE\n",
    "NodeName=DEFAULT Weight=5\n",
    "PartitionName=p Nodes=ALL Default=YES MaxTime=1:00 OverSubscribe=FORCE:2\n",
    "Include x\n",
    "SelectType=select/cons_res \\\n",
    "# remark\n",
    "NodeSet=s Feature=f\n",
    "DownNodes=n1 Reason=\"a b\"\n",
    "Name=gpu File=/dev/nvidia[0-1] Cores=0-3\n",
    "ConstrainCores=yes\n",
    "KillWait=30\n",
};
enum { GRAINS = sizeof(grains) / sizeof(grains[0]), TEXT = 1024 };

static struct mu_seed rng;

/* A text of some grains, then damaged a little. */
static size_t make_text(char *text)
{
	size_t len = 0;
	for (uint32_t n = 1 + mu_seed_below(&rng, 4); n; n--) {
		const char *g = grains[mu_seed_below(&rng, GRAINS)];
		size_t g_len = strlen(g);
		if (len + g_len >= TEXT - 1)
			break;
		memcpy(text + len, g, g_len);
		len += g_len;
		if (mu_seed_below(&rng, 3) == 0 && len < TEXT - 2)
			text[len++] = ',';
	}
	for (uint32_t n = mu_seed_below(&rng, 4); n && len; n--) {
		size_t at = mu_seed_below(&rng, (uint32_t)len);
		switch (mu_seed_below(&rng, 4)) {
		case 0:
			text[at] = (char)(1 + mu_seed_below(&rng, 255));
			break;
		case 1:
			memmove(text + at, text + at + 1, len - at - 1);
			len--;
			break;
		case 2:
			text[at] = text[mu_seed_below(&rng, (uint32_t)len)];
			break;
		default:
			len = at;
		}
	}
	text[len] = 0;
	return len;
}

static void must(int good, const char *what, const char *text)
{
	if (good)
		return;
	fprintf(stderr, "%s: \"%s\"\n", what, text);
	abort();
}

static void try_hosts(const char *text, struct mu_arena *arena, struct mu_err *err)
{
	char **names, **again;
	size_t count, count_again;
	struct mu_buf out = {0};
	if (mu_hostlist_expand(text, 2000, arena, &names, &count, err))
		return;
	mu_hostlist_fold((const char *const *)names, count, &out);
	must(!mu_hostlist_expand((char *)out.data, 2000, arena, &again, &count_again, err) &&
		 count == count_again,
	     "folded host list", text);
	for (size_t i = 0; i < count; i++)
		must(!strcmp(names[i], again[i]), "folded host list", text);
	mu_buf_reset(&out);
	mu_hostlist_fold_sorted((const char *const *)names, count, &out);
	mu_buf_free(&out);
}

static void try_sets(const char *text, struct mu_arena *arena, struct mu_err *err)
{
	struct mu_bits bits = {0};
	struct mu_array array, array_again;
	struct mu_job_name name;
	struct mu_buf out = {0};
	uint32_t *counts;
	size_t n;
	char shown[4096];
	if (!mu_bits_parse(&bits, text, 5000) && mu_bits_print(&bits, shown, sizeof(shown)) < sizeof(shown)) {
		struct mu_bits other = {0};
		must(!mu_bits_parse(&other, shown, 5000) && mu_bits_count(&other) == mu_bits_count(&bits),
		     "bits", text);
		mu_bits_free(&other);
	}
	mu_bits_free(&bits);
	if (!mu_array_parse(text, 5000, &array, err)) {
		mu_array_print(&array.tasks, array.throttle, &out);
		must(!mu_array_parse((char *)out.data, 5000, &array_again, err) &&
			 array.throttle == array_again.throttle &&
			 mu_bits_count(&array.tasks) == mu_bits_count(&array_again.tasks),
		     "array", text);
		mu_array_free(&array_again);
		struct mu_tasks tasks;
		must(!mu_tasks_parse(text, 5000, &tasks, err) && tasks.total == mu_bits_count(&array.tasks),
		     "tasks", text);
		for (uint32_t k = 0; k < tasks.total; k++)
			must(mu_bits_test(&array.tasks, mu_tasks_index(&tasks, k)) &&
				 mu_tasks_ordinal(&tasks, mu_tasks_index(&tasks, k)) == k,
			     "task", text);
		mu_tasks_free(&tasks);
		mu_array_free(&array);
	}
	if (!mu_job_name_parse(text, &name, err)) {
		must(name.job > 0, "job name", text);
		mu_job_name_free(&name);
	}
	if (!mu_counts_parse(text, 5000, arena, &counts, &n)) {
		mu_buf_reset(&out);
		mu_counts_print(counts, n, &out);
	}
	mu_buf_free(&out);
}

static int64_t zone_local(void *arg, struct tm *tm)
{
	return timegm(tm);
}

static void zone_breakdown(void *arg, int64_t sec, struct tm *ret_tm)
{
	time_t t = sec;
	gmtime_r(&t, ret_tm);
}

static void try_values(const char *text, struct mu_arena *arena, struct mu_err *err)
{
	static const struct mu_zone zone = {zone_local, zone_breakdown, NULL};
	int64_t sec, again, number;
	uint64_t mib, mib_again;
	uint32_t u, before, state;
	int batch;
	char out[32];
	size_t count;
	Mu__GresAsk **ask;
	if (!mu_span_parse(text, &sec, err) && sec > 0) {
		mu_span_print(sec, 0, out);
		must(!mu_span_parse(out, &again, err) && again == sec, "span", text);
	}
	if (!mu_mem_parse(text, &mib, err)) {
		mu_mem_print(mib, 0, out);
		must(!mu_mem_parse(out, &mib_again, err) && mib == mib_again, "memory", text);
	}
	if (!mu_date_parse(text, INT64_C(1790861400) * 1000000, 1, &zone, &sec, err)) {
		mu_date_print(sec, &zone, out);
		must(sec == 0 ||
			 (!mu_date_parse(out, 0, 0, &zone, &again, err) && again / 1000000 == sec / 1000000),
		     "date", text);
	}
	mu_number_parse("x", text, -100, 100, &number, err);
	if (!mu_gres_parse(text, arena, &ask, &count, err))
		must(count <= 64, "gres", text);
	mu_signal_parse(text, &u, err);
	mu_signal_option_parse(text, &u, &before, &batch, err);
	mu_job_state_parse(text, &state);
}

static void try_lists(const char *text, struct mu_arena *arena, struct mu_err *err)
{
	static char *const env[] = {"A=1", "PATH=/bin", "SLURM_X=2", "odd", NULL};
	static const struct mu_pattern words = {
	    .job = 1, .step = 2, .user = "u", .job_name = "j", .node = "n"};
	struct mu_depends depends;
	struct mu_export export;
	struct mu_tres tres, tres_again;
	struct mu_buf out = {0};
	if (!mu_depends_parse(text, arena, &depends, err))
		for (size_t i = 0; i < depends.count; i++) {
			struct mu_depends one;
			mu_buf_reset(&out);
			mu_depend_print(&depends.item[i], &out);
			must(!mu_depends_parse((char *)out.data, arena, &one, err) && one.count == 1,
			     "dependency", text);
		}
	if (!mu_export_parse(text, arena, &export, err))
		mu_export_apply(&export, env, &out);
	mu_buf_reset(&out);
	mu_pattern_expand(text, "/w", &words, &out);
	mu_pattern_per_node(text);
	mu_pattern_per_task(text);
	if (!mu_tres_parse(text, arena, &tres, err)) {
		mu_buf_reset(&out);
		mu_tres_print(&tres, MU_TRES_BY_NAME, 0, &out);
		must(!mu_tres_parse((char *)out.data, arena, &tres_again, err) &&
			 tres.count == tres_again.count,
		     "resources", text);
	}
	mu_buf_free(&out);
}

static void try_layout(const char *text, struct mu_arena *arena, struct mu_err *err)
{
	static const struct mu_cpu_shape shape = {2, 3, 2};
	struct mu_distribution d;
	struct mu_bind bind;
	struct mu_bits allowed = {0}, mask[5] = {{0}};
	if (!mu_distribution_parse(text, &d, err)) {
		uint32_t cpus[4], tasks = 1 + mu_seed_below(&rng, 20);
		for (int i = 0; i < 4; i++)
			cpus[i] = mu_seed_below(&rng, 6);
		struct mu_layout made;
		struct mu_layout_ask ask = {.nodes = 4,
					    .cpus = cpus,
					    .tasks = tasks,
					    .cpus_per_task = mu_seed_below(&rng, 3),
					    .tasks_per_node = mu_seed_below(&rng, 3),
					    .overcommit = mu_seed_below(&rng, 2),
					    .spread = d.nodes,
					    .plane = d.plane};
		if (!mu_layout_make(&ask, arena, &made, err)) {
			uint32_t sum = 0;
			for (int i = 0; i < 4; i++)
				sum += made.tasks_on[i];
			must(sum == tasks, "layout", text);
		}
	}
	if (mu_bind_parse(text, arena, &bind, err))
		return;
	for (uint32_t cpu = 0; cpu < 12; cpu++)
		if (mu_seed_below(&rng, 2))
			mu_bits_set(&allowed, cpu);
	if (!mu_bind_masks(&shape, &allowed, 5, mu_seed_below(&rng, 4), &bind,
			   (enum mu_spread)mu_seed_below(&rng, 6), mask, err))
		for (int t = 0; t < 5; t++) {
			must(mu_bits_count(&mask[t]) > 0, "a task without a CPU", text);
			mu_bits_andnot(&mask[t], &allowed);
			must(!mu_bits_count(&mask[t]), "a task on a CPU that the step has not", text);
		}
	for (int t = 0; t < 5; t++)
		mu_bits_free(&mask[t]);
	mu_bits_free(&allowed);
	mu_bind_free(&bind);
}

static int read_other(void *arg, const char *name, struct mu_arena *arena, const char **ret_text,
		      struct mu_err *err)
{
	char text[TEXT];
	if (mu_seed_below(&rng, 2))
		return MU_ENOENT;
	make_text(text);
	*ret_text = mu_arena_strdup(arena, text);
	return 0;
}

static void ignore_note(void *arg, const char *sentence)
{
}

static int try_conf(const char *text, struct mu_arena *arena, struct mu_err *err)
{
	static const char *const start =
	    "ClusterName=c\nSlurmctldHost=a\nGresTypes=gpu\nNodeName=n[1-3] CPUs=4 Gres=gpu:1\n";
	Mu__Config *config = NULL;
	const char *whole = mu_seed_below(&rng, 4) ? mu_arena_printf(arena, "%s%s", start, text) : text;
	*err = (struct mu_err){0};
	int rc = mu_conf_parse("fuzz.conf", whole, read_other, ignore_note, NULL, arena, &config, err);
	must(!rc == !*err->text, "a refusal needs a sentence", whole);
	if (rc)
		return 0;
	struct mu_buf out = {0};
	size_t len = mu_pb_pack(&config->base, &out);
	must(config->n_controller > 0 && config->cluster_name, "configuration", whole);
	/* What the log keeps must come back. */
	ProtobufCMessage *back = mu_pb_unpack(&mu__config__descriptor, out.data, len, arena);
	must(back != NULL, "packed configuration", whole);
	mu_buf_free(&out);
	return 1;
}

static void try_bytes(const char *text, size_t len, struct mu_arena *arena)
{
	Mu__Query query = MU__QUERY__INIT;
	Mu__Request request = MU__REQUEST__INIT;
	char *name = (char *)text;
	struct mu_buf out = {0};
	mu_pb_unpack(&mu__request__descriptor, text, len, arena);
	query.name = &name;
	query.n_name = 1;
	query.has_what = 1;
	query.what = MU__WHAT__WHAT_JOBS;
	request.ask_case = MU__REQUEST__ASK_QUERY;
	request.query = &query;
	size_t n = mu_pb_pack(&request.base, &out);
	for (uint32_t k = mu_seed_below(&rng, 3); k && n; k--)
		out.data[mu_seed_below(&rng, (uint32_t)n)] = (uint8_t)mu_seed_next(&rng);
	mu_pb_unpack(&mu__request__descriptor, out.data, n ? mu_seed_below(&rng, (uint32_t)n + 1) : 0, arena);
	mu_buf_free(&out);
}

int main(int argc, char **argv)
{
	const char *size = getenv("MUSTER_TEST_SIZE");
	int rounds = !size || !strcmp(size, "ci") ? 20000 : !strcmp(size, "full") ? 1000000 : 4000, confs = 0;
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	struct mu_arena arena = {0};
	mu_seed_init(&rng, seed);
	printf("seed %llu, %d rounds\n", (unsigned long long)seed, rounds);
	for (int i = 0; i < rounds; i++) {
		char text[TEXT];
		struct mu_err err = {0};
		size_t len = make_text(text);
		try_hosts(text, &arena, &err);
		try_sets(text, &arena, &err);
		try_values(text, &arena, &err);
		try_lists(text, &arena, &err);
		try_layout(text, &arena, &err);
		confs += try_conf(text, &arena, &err);
		try_bytes(text, len, &arena);
		mu_arena_reset(&arena);
	}
	mu_arena_free(&arena);
	printf("%d configurations were right\n", confs);
	return confs ? 0 : 1;
}
