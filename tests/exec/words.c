/* tests/exec/words.c: file name patterns, CPU lists and environments. No privileges needed. */
#include <stdlib.h>
#include <unistd.h>

#include "exec/bundle.h"
#include "exec/env.h"
#include "exec/inventory.h"
#include "exec/pattern.h"
#include "proto/states.h"
#include "tests/exec/check.h"

static void json(void)
{
	/* What is read comes out in one way; what is no JSON is refused. */
	const struct {
		const char *text, *want; /* NULL: refused */
	} row[] = {{" { \"a\" : [ 1 , -2.5e3, true,null , \"x\" ] } ", "{\"a\":[1,-2.5e3,true,null,\"x\"]}"},
		   {"[]", "[]"},
		   {"{\"\\u0061\":\"\\ud83d\\ude00\\n\\\"\"}", "{\"a\":\"\xf0\x9f\x98\x80\\u000a\\\"\"}"},
		   {"{\"a\":1,\"a\":2}", "{\"a\":1,\"a\":2}"},
		   {"", NULL},
		   {"[1,]", NULL},
		   {"{\"a\"}", NULL},
		   {"{1:2}", NULL},
		   {"[1] 2", NULL},
		   {"truth", NULL},
		   {"nul", NULL},
		   {"-", NULL},
		   {"1e", NULL},
		   {"0x10", NULL},
		   {"\"a", NULL},
		   {"\"\\u0000\"", NULL},
		   {"\"\\ud83d\"", NULL},
		   {"\"\\q\"", NULL},
		   {"\"\n\"", NULL}};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
		MU_CLEANUP(mu_buf_free) struct mu_buf out = {0};
		struct mu_err err = {0};
		struct exe_json *node = NULL;
		size_t len = strlen(row[i].text);
		char *text = mu_arena_alloc(&arena, len + 1);
		memcpy(text, row[i].text, len);
		int code = exe_json_parse((struct mu_view){(uint8_t *)text, len}, &arena, &node, &err);
		CHECK((code == 0) == (row[i].want != NULL), "%s", row[i].text);
		if (code == 0) {
			exe_json_print(node, &out);
			mu_buf_add(&out, "", 1);
			CHECK(strcmp((char *)out.data, row[i].want) == 0, "%s", row[i].text);
		}
	}
	char deep[2 * EXE_JSON_DEPTH + 2];
	for (int levels = EXE_JSON_DEPTH; levels <= EXE_JSON_DEPTH + 1; levels++) {
		MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
		struct exe_json *node;
		memset(deep, '[', (size_t)levels);
		memset(deep + levels, ']', (size_t)levels);
		CHECK((exe_json_parse((struct mu_view){(uint8_t *)deep, 2 * (size_t)levels}, &arena, &node,
				      NULL) == 0) == (levels == EXE_JSON_DEPTH),
		      "%d levels", levels);
	}
}

static void bundles(void)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf out = {0};
	struct mu_err err = {0};
	struct exe_json *config;
	static const char text[] =
	    "{\"root\":{\"path\":\"r\"},\"process\":{\"env\":[\"A=old\",\"B=kept\"],\"rlimits\":[1],\"cwd\":"
	    "\"/c\"},"
	    "\"mounts\":[{\"destination\":\"/in\",\"source\":\"/out\",\"options\":[\"gid=5\",\"ro\"]}],"
	    "\"linux\":{\"resources\":{},\"cgroupsPath\":\"/x\",\"namespaces\":[{\"type\":\"network\"}]},"
	    "\"hooks\":{\"prestart\":[],\"poststop\":[]},\"hostname\":\"old\",\"more\":1}";
	char *argv[] = {"run", "it's", NULL}, *env[] = {"A=new", NULL}, *device[] = {"/dev/x0"};
	const struct exe_bundle b = {.path = "/b",
				     .argv = argv,
				     .env = env,
				     .node = "n1",
				     .uid = 1000,
				     .gid = 100,
				     .umask = 18,
				     .device = device,
				     .devices = 1,
				     .disable_hooks = "prestart,poststart"};
	CHECK(exe_json_parse((struct mu_view){(uint8_t *)(uintptr_t)text, sizeof text - 1}, &arena, &config,
			     &err) == 0,
	      "%s", err.text);
	CHECK(exe_bundle_mounts(config, "/in/deep") && exe_bundle_mounts(config, "/in"), "%s", err.text);
	CHECK(!exe_bundle_mounts(config, "/inner") && !exe_bundle_mounts(config, "/"), "%s", err.text);
	CHECK(exe_bundle_fill(config, &b, &arena, &err) == 0, "%s", err.text);
	exe_json_print(config, &out);
	mu_buf_add(&out, "", 1);
	CHECK(strcmp((char *)out.data,
		     "{\"root\":{\"path\":\"/b/r\"},\"process\":{\"cwd\":\"/c\",\"args\":[\"run\",\"it's\"],"
		     "\"env\":[\"A=new\",\"B=kept\"],\"terminal\":false,\"user\":{\"uid\":0,\"gid\":0,"
		     "\"umask\":18}},"
		     "\"mounts\":[{\"destination\":\"/in\",\"source\":\"/out\",\"options\":[\"ro\"]},"
		     "{\"destination\":\"/dev/x0\",\"type\":\"bind\",\"source\":\"/dev/"
		     "x0\",\"options\":[\"bind\",\"nosuid\",\"noexec\"]}],"
		     "\"linux\":{\"namespaces\":[{\"type\":\"network\"},{\"type\":\"user\"}],"
		     "\"uidMappings\":[{\"containerID\":0,\"hostID\":1000,\"size\":1}],"
		     "\"gidMappings\":[{\"containerID\":0,\"hostID\":100,\"size\":1}]},\"hooks\":{"
		     "\"poststop\":[]},\"more\":1}") == 0,
	      "%s", err.text);
	struct exe_json *bare = exe_json_new(&arena, EXE_JSON_OBJECT, NULL);
	CHECK(exe_bundle_fill(bare, &b, &arena, &err) == MU_EINVAL, "%s", err.text);
	MU_CLEANUP(mu_buf_free) struct mu_buf line = {0};
	const struct exe_oci_words w = {
	    .bundle = "/b", .node = "n1", .step = "batch", .job = 7, .uid = 5, .argv = argv};
	exe_oci_expand("%n.%j.%s.%t %U %b %@ %% %q %", &w, &line);
	CHECK(strcmp((char *)line.data, "n1.7.batch.0 5 /b 'run' 'it'\\''s' % %q %") == 0, "%s", err.text);
	CHECK(exe_oci_uses("kill %p", 'p') && !exe_oci_uses("kill %%p", 'p'), "%s", err.text);
}

static void patterns(void)
{
	const struct exe_pattern_words job = {.job = 42,
					      .step = MU_STEP_BATCH,
					      .user = "anna",
					      .job_name = "my job",
					      .node = "n7",
					      .node_index = 3};
	struct exe_pattern_words task = job, array = job;
	task.step = 5;
	task.task = 12;
	array.has_array = true;
	array.array_job = 40;
	array.array_task = 7;
	const struct {
		const char *pattern, *want;
		const struct exe_pattern_words *words;
	} row[] = {{"slurm-%j.out", "/w/slurm-42.out", &job},
		   {"/abs/%x.%u.%N.%n", "/abs/my job.anna.n7.3", &job},
		   {"%8j", "/w/00000042", &job},
		   {"%J", "/w/42", &job},
		   {"%J-%s-%t-%4t", "/w/42.5-5-12-0012", &task},
		   {"%s", "/w/batch", &job},
		   {"%A_%a", "/w/40_7", &array},
		   {"%A_%3a", "/w/40_007", &array},
		   {"%99j", "/w/0000000042", &job},
		   {"100%%", "/w/100%", &job},
		   {"%", "/w/%", &job},
		   {"%q%5", "/w/%q%5", &job},
		   {"a\\%j", "/w/a%j", &job},
		   {"", "/w/", &job}};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		MU_CLEANUP(mu_buf_free) struct mu_buf out = {0};
		exe_pattern_expand(row[i].pattern, "/w", row[i].words, &out);
		CHECK(strcmp((char *)out.data, row[i].want) == 0, "%s gives %s", row[i].pattern,
		      (char *)out.data);
	}
}

static void emulated_nodes(void)
{
	Mu__NodeConf conf = MU__NODE_CONF__INIT;
	Mu__GresConf gres = MU__GRES_CONF__INIT, *list = &gres;
	struct exe_inventory inv;
	struct mu_err err = {0};
	char *file = "/dev/null";
	MU_CLEANUP(mu_buf_free) struct mu_buf out = {0};
	long host = sysconf(_SC_NPROCESSORS_ONLN);
	conf.cpus = 64;
	conf.sockets = 2;
	conf.real_memory_mib = 1000000;
	gres.name = "gpu";
	gres.file = &file;
	gres.n_file = 1;
	conf.gres = &list;
	conf.n_gres = 1;
	CHECK(exe_inventory_take(&conf, true, "/tmp", NULL, &inv, &err) == 0, "%s", err.text);
	CHECK(inv.cpus == 64 && inv.sockets == 2 && inv.cores_per_socket == 32 &&
		  inv.real_memory_mib == 1000000,
	      "%u", inv.cpus);
	CHECK(exe_inventory_cpus(&inv, "0-63", &out, &err) == 0, "%s", err.text);
	char want[32];
	snprintf(want, sizeof want, host > 1 ? "0-%ld" : "0", host - 1);
	CHECK(strcmp((char *)out.data, want) == 0, "all CPUs are %s", (char *)out.data);
	CHECK(exe_inventory_cpus(&inv, "64", &out, &err) == MU_EINVAL && strstr(err.text, "64 CPUs"), "%s",
	      err.text);
	CHECK(exe_inventory_cpus(&inv, "x", &out, &err) == MU_ESYNTAX, "%s", err.text);
	struct exe_device device[4];
	Mu__GresGot got = MU__GRES_GOT__INIT, *gots = &got;
	uint32_t index = 0;
	got.name = "gpu";
	got.index = &index;
	got.n_index = 1;
	CHECK(exe_inventory_devices(&inv, &gots, 1, device, 4) >= 1 && device[0].major == 1 &&
		  device[0].minor == 3,
	      "no device");
	exe_inventory_free(&inv);
	file = "/no/device";
	CHECK(exe_inventory_take(&conf, true, "/tmp", NULL, &inv, &err) == MU_EINVAL &&
		  strstr(err.text, "/no/device"),
	      "%s", err.text);
	file = "/etc/passwd";
	CHECK(exe_inventory_take(&conf, true, "/tmp", NULL, &inv, &err) == MU_EINVAL &&
		  strstr(err.text, "not a device"),
	      "%s", err.text);
	conf.n_gres = 0;
	CHECK(exe_inventory_take(&conf, false, "/tmp", NULL, &inv, &err) == 0 && inv.cpus == (uint32_t)host,
	      "%u CPUs", inv.cpus);
	exe_inventory_free(&inv);
}

static const char *value(const ProtobufCBinaryData *env, size_t count, const char *name)
{
	static char text[256];
	const char *found = "(unset)";
	unsigned times = 0;
	for (size_t i = 0; i < count; i++)
		if (env[i].len > strlen(name) && memcmp(env[i].data, name, strlen(name)) == 0 &&
		    env[i].data[strlen(name)] == '=') {
			snprintf(text, sizeof text, "%s", (char *)env[i].data + strlen(name) + 1);
			found = text;
			times++;
		}
	return times > 1 ? "(twice)" : found;
}

static void environments(void)
{
	Mu__AttemptOrder o = MU__ATTEMPT_ORDER__INIT;
	Mu__JobSpec spec = MU__JOB_SPEC__INIT;
	Mu__AllocNode a = MU__ALLOC_NODE__INIT, b = MU__ALLOC_NODE__INIT, c = MU__ALLOC_NODE__INIT,
		      *alloc[] = {&a, &b, &c};
	Mu__GresGot got = MU__GRES_GOT__INIT, *gots = &got;
	uint32_t index[] = {1, 3};
	struct exe_env_words words = {.cluster = "c", .node = "n1", .conf_path = "/etc/m.conf"};
	static const char user[] =
	    "PATH=/mine\0HOME=/h\0SLURM_JOB_ID=1\0SHELL=/bin/zsh\0USER=x\0broken\0EMPTY=\0";
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	ProtobufCBinaryData *env;
	size_t n;
	a.cpus = b.cpus = 4;
	c.cpus = 2;
	a.tasks = b.tasks = c.tasks = 1;
	got.name = "gpu";
	got.index = index;
	got.n_index = 2;
	a.gres = &gots;
	a.n_gres = 1;
	o.job = 77;
	o.spec = &spec;
	o.here = &a;
	o.alloc = alloc;
	o.n_alloc = 3;
	o.node_list = "n[1-3]";
	o.ntasks = spec.ntasks = 3;
	spec.has_ntasks = 1;
	o.mem_cpu_mib = 100;
	spec.name = "name";
	exe_env_build(&o, &words, NULL, (struct mu_view){(const uint8_t *)user, sizeof user - 1}, &arena,
		      &env, &n);
	const char *const row[][2] = {{"SLURM_JOB_ID", "77"},
				      {"SLURM_JOBID", "77"},
				      {"SLURM_JOB_NODELIST", "n[1-3]"},
				      {"SLURM_NODELIST", "n[1-3]"},
				      {"SLURM_NNODES", "3"},
				      {"SLURM_JOB_NUM_NODES", "3"},
				      {"SLURM_JOB_CPUS_PER_NODE", "4(x2),2"},
				      {"SLURM_TASKS_PER_NODE", "1(x3)"},
				      {"SLURM_NTASKS", "3"},
				      {"SLURM_NPROCS", "3"},
				      {"SLURM_CPUS_PER_TASK", "(unset)"},
				      {"SLURM_MEM_PER_CPU", "100"},
				      {"SLURM_MEM_PER_NODE", "(unset)"},
				      {"SLURM_JOB_GPUS", "1,3"},
				      {"CUDA_VISIBLE_DEVICES", "0,1"},
				      {"ENVIRONMENT", "BATCH"},
				      {"SLURM_STEP_ID", "(unset)"},
				      {"PATH", "/mine"},
				      {"HOME", "/h"},
				      {"EMPTY", ""},
				      {"SLURM_CONF", "/etc/m.conf"},
				      {"SLURM_RESTART_COUNT", "(unset)"}};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++)
		CHECK(strcmp(value(env, n, row[i][0]), row[i][1]) == 0, "%s is %s", row[i][0],
		      value(env, n, row[i][0]));
	Mu__StepOrder step = MU__STEP_ORDER__INIT;
	uint32_t task[] = {0, 1};
	step.step = 4;
	step.task = task;
	step.n_task = 2;
	spec.has_cpus_per_task = 1;
	spec.cpus_per_task = 2;
	step.has_cpus_per_task = 1;
	step.cpus_per_task = 3;
	exe_env_build(&o, &words, &step, (struct mu_view){0}, &arena, &env, &n);
	const char *const more[][2] = {{"SLURM_STEP_ID", "4"},	     {"SLURM_STEPID", "4"},
				       {"SLURM_NTASKS", "2"},	     {"SLURM_GTIDS", "0,1"},
				       {"SLURM_JOB_ID", "77"},	     {"ENVIRONMENT", "(unset)"},
				       {"SLURM_CPUS_PER_TASK", "3"}, {"TMPDIR", "/tmp"}};
	for (size_t i = 0; i < sizeof more / sizeof *more; i++)
		CHECK(strcmp(value(env, n, more[i][0]), more[i][1]) == 0, "step: %s is %s", more[i][0],
		      value(env, n, more[i][0]));
}

/* Which limits of the submitting process a job takes along. */
static void limits(void)
{
	static const char sent[] = "SLURM_RLIMIT_NOFILE=5\0SLURM_RLIMIT_STACK=6\0";
	static const struct {
		const char *propagate, *except, *nofile, *stack;
	} row[] = {{NULL, NULL, "5", "6"},
		   {"ALL", NULL, "5", "6"},
		   {"NONE", NULL, "(unset)", "(unset)"},
		   {"NOFILE,CORE", NULL, "5", "(unset)"},
		   {"ALL", "RLIMIT_NOFILE", "(unset)", "6"},
		   {NULL, "memlock, stack", "5", "(unset)"}};
	for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
		Mu__AttemptOrder o = MU__ATTEMPT_ORDER__INIT;
		Mu__JobSpec spec = MU__JOB_SPEC__INIT;
		struct exe_env_words words = {.cluster = "c", .node = "n1", .conf_path = "/etc/m.conf"};
		MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
		ProtobufCBinaryData *env;
		size_t n;
		o.spec = &spec;
		words.propagate = row[i].propagate;
		words.propagate_except = row[i].except;
		exe_env_build(&o, &words, NULL, (struct mu_view){(const uint8_t *)sent, sizeof sent - 1},
			      &arena, &env, &n);
		CHECK(strcmp(value(env, n, "SLURM_RLIMIT_NOFILE"), row[i].nofile) == 0 &&
			  strcmp(value(env, n, "SLURM_RLIMIT_STACK"), row[i].stack) == 0,
		      "row %zu: %s, %s", i, value(env, n, "SLURM_RLIMIT_NOFILE"),
		      value(env, n, "SLURM_RLIMIT_STACK"));
	}
}

int main(void)
{
	limits();
	json();
	bundles();
	patterns();
	emulated_nodes();
	environments();
	return check_done();
}
