/* exec/pmix.c: muster-pmix, the process manager's side of PMIx for one step on one node. Started by the
 * shepherd in the step's control group as the step's user, so that libpmix, its threads and what clients send
 * to it stay out of the shepherd, and so that it ends when the step is cleared. Owns: libpmix. Leaves to the
 * shepherd: everything that crosses nodes, which goes to srun and comes back as all nodes' words in one.
 *
 * muster-pmix NAMESPACE NODES MAPPING NODE TASKS TMP with NODES a host list, MAPPING as PMI_process_mapping,
 * NODE the index of this one, TASKS the step's number. On descriptor 3, frames of log/stream.h: EXE_PMIX_ENV
 * to the shepherd, one for each task here (channel: its place): NAME=VALUE, each ended by a NUL byte
 *   EXE_PMIX_FENCE  to the shepherd: what the tasks here put; back: what all tasks put
 *   EXE_PMIX_ABORT  to the shepherd: u32 exit code: a task called for the step's end
 * End of file there is its own end. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pmix.h>
#include <pmix_server.h>

#include "exec/shepherd.h"
#include "log/stream.h"
#include "proto/base/arena.h"
#include "proto/base/buf.h"
#include "proto/base/err.h"
#include "proto/hostlist.h"

enum { SHEPHERD = EXE_FD_PMIX, NODES_MAX = 65536, TASKS_MAX = 65536, INFO_MAX = 24, WAIT_MSEC = 3600000 };

struct server {
	const char *nspace;
	char **node;
	size_t nodes;
	uint32_t size, here; /* tasks of the step; index of this node */
	uint32_t *node_of, *local_rank;
	pthread_mutex_t lock;
	pmix_modex_cbfunc_t open; /* of the fence that waits; NULL: none */
	void *open_arg;
};
static struct server g = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void say(uint8_t kind, uint16_t channel, const void *data, size_t len)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf out = {0};
	stream_put(&out, kind, channel, data, len);
	stream_write_all(SHEPHERD, out.data, out.len, NULL);
}

static void fatal(const char *what, const char *why)
{
	char text[512];
	int len = snprintf(text, sizeof text, "%s: %s", what, why);
	say(EXE_PMIX_FAIL, 0, text, (size_t)len < sizeof text ? (size_t)len : sizeof text - 1);
	_exit(1);
}

static void *take(size_t count, size_t bytes)
{
	void *p = calloc(count + 1, bytes);
	if (!p)
		fatal("memory", strerror(errno));
	return p;
}

/* ---- what libpmix asks; on its thread ---- */

static bool is_everybody(const pmix_proc_t *procs, size_t count)
{
	return (count == 1 && procs[0].rank == PMIX_RANK_WILDCARD) || count == g.size;
}

static pmix_status_t fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo,
			   char *data, size_t ndata, pmix_modex_cbfunc_t cbfunc, void *cbdata)
{
	(void)info;
	(void)ninfo;
	pthread_mutex_lock(&g.lock);
	bool good = is_everybody(procs, nprocs) && !g.open;
	if (good) {
		g.open = cbfunc;
		g.open_arg = cbdata;
	}
	pthread_mutex_unlock(&g.lock);
	if (good)
		say(EXE_PMIX_FENCE, 0, data ? data : "", ndata);
	free(data);
	return good ? PMIX_SUCCESS : PMIX_ERR_NOT_SUPPORTED;
}

static pmix_status_t client_comes(const pmix_proc_t *proc, void *object, pmix_op_cbfunc_t cbfunc,
				  void *cbdata)
{
	(void)proc;
	(void)object;
	(void)cbfunc;
	(void)cbdata;
	return PMIX_OPERATION_SUCCEEDED;
}

static pmix_status_t client_aborts(const pmix_proc_t *proc, void *object, int status, const char msg[],
				   pmix_proc_t procs[], size_t nprocs, pmix_op_cbfunc_t cbfunc, void *cbdata)
{
	uint32_t code = (uint32_t)status & 0xff;
	const uint8_t payload[4] = {0, 0, 0, (uint8_t)code};
	(void)proc;
	(void)object;
	(void)msg;
	(void)procs;
	(void)nprocs;
	(void)cbfunc;
	(void)cbdata;
	say(EXE_PMIX_ABORT, 0, payload, sizeof payload);
	return PMIX_OPERATION_SUCCEEDED;
}

/* Every task's values come with the fence: who asks for more asks for what is not there. */
static pmix_status_t ask_elsewhere(const pmix_proc_t *proc, const pmix_info_t info[], size_t ninfo,
				   pmix_modex_cbfunc_t cbfunc, void *cbdata)
{
	(void)proc;
	(void)info;
	(void)ninfo;
	(void)cbfunc;
	(void)cbdata;
	return PMIX_ERR_NOT_FOUND;
}

static void done(pmix_status_t status, void *arg)
{
	(void)status;
	*(volatile bool *)arg = true;
}

static void wait_for(pmix_status_t started, volatile bool *over, const char *what)
{
	if (started == PMIX_OPERATION_SUCCEEDED)
		return;
	if (started != PMIX_SUCCESS)
		fatal(what, PMIx_Error_string(started));
	while (!*over)
		usleep(1000);
}

/* ---- who is where ---- */

static void read_nodes(const char *list)
{
	static struct mu_arena arena;
	struct mu_err err = {0};
	if (mu_hostlist_expand(list, NODES_MAX, &arena, &g.node, &g.nodes, &err))
		fatal("nodes", err.text);
}

/* "(vector,(FIRST,NODES,TASKS),...)": blocks in the order of ranks, from the start again until all have a
 * node. */
static void read_mapping(const char *text)
{
	uint32_t rank = 0;
	uint32_t *on_node = take(NODES_MAX, sizeof *on_node);
	g.node_of = take(TASKS_MAX, sizeof *g.node_of);
	g.local_rank = take(TASKS_MAX, sizeof *g.local_rank);
	while (rank < g.size) {
		uint32_t before = rank;
		for (const char *p = strstr(text, ",("); p && rank < g.size; p = strstr(p + 1, ",(")) {
			unsigned first, nodes, tasks;
			if (sscanf(p, ",(%u,%u,%u)", &first, &nodes, &tasks) != 3 || first >= g.nodes ||
			    nodes > g.nodes - first)
				fatal("process mapping", text);
			for (unsigned n = first; n < first + nodes; n++)
				for (unsigned k = 0; k < tasks && rank < g.size; k++, rank++) {
					g.node_of[rank] = n;
					g.local_rank[rank] = on_node[n]++;
				}
		}
		if (rank == before)
			fatal("process mapping", text);
	}
	free(on_node);
}

/* The ranks of node N: "0,1". */
static void ranks_of(uint32_t n, struct mu_buf *out)
{
	bool some = false;
	for (uint32_t rank = 0; rank < g.size; rank++)
		if (g.node_of[rank] == n) {
			mu_buf_printf(out, some ? ",%u" : "%u", rank);
			some = true;
		}
}

static uint32_t tasks_here(void)
{
	uint32_t n = 0;
	for (uint32_t rank = 0; rank < g.size; rank++)
		n += g.node_of[rank] == g.here;
	return n;
}

/* ---- the namespace ---- */

struct facts {
	pmix_info_t *info;
	size_t count;
};

static void add_u32(struct facts *f, const char *key, uint32_t value)
{
	PMIX_INFO_LOAD(&f->info[f->count++], key, &value, PMIX_UINT32);
}
static void add_text(struct facts *f, const char *key, const char *value)
{
	PMIX_INFO_LOAD(&f->info[f->count++], key, value, PMIX_STRING);
}

static void add_rank(struct facts *f, uint32_t rank)
{
	enum { FACTS = 6 };
	pmix_data_array_t *array;
	pmix_rank_t number = rank;
	uint16_t local = (uint16_t)g.local_rank[rank];
	PMIX_DATA_ARRAY_CREATE(array, FACTS, PMIX_INFO);
	struct facts one = {array->array, 0};
	PMIX_INFO_LOAD(&one.info[one.count++], PMIX_RANK, &number, PMIX_PROC_RANK);
	add_u32(&one, PMIX_APPNUM, 0);
	PMIX_INFO_LOAD(&one.info[one.count++], PMIX_LOCAL_RANK, &local, PMIX_UINT16);
	PMIX_INFO_LOAD(&one.info[one.count++], PMIX_NODE_RANK, &local, PMIX_UINT16);
	add_u32(&one, PMIX_NODEID, g.node_of[rank]);
	add_text(&one, PMIX_HOSTNAME, g.node[g.node_of[rank]]);
	PMIX_LOAD_KEY(f->info[f->count].key, PMIX_PROC_DATA);
	f->info[f->count].value.type = PMIX_DATA_ARRAY;
	f->info[f->count++].value.data.darray = array;
}

static void add_maps(struct facts *f)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf nodes = {0}, tasks = {0};
	char *node_map = NULL, *task_map = NULL;
	for (uint32_t n = 0; n < g.nodes; n++) {
		mu_buf_printf(&nodes, n ? ",%s" : "%s", g.node[n]);
		if (n)
			mu_buf_str(&tasks, ";");
		ranks_of(n, &tasks);
	}
	if (PMIx_generate_regex((char *)nodes.data, &node_map) != PMIX_SUCCESS ||
	    PMIx_generate_ppn((char *)tasks.data, &task_map) != PMIX_SUCCESS)
		fatal("maps of nodes and tasks", "libpmix made none");
	PMIX_INFO_LOAD(&f->info[f->count++], PMIX_NODE_MAP, node_map, PMIX_REGEX);
	PMIX_INFO_LOAD(&f->info[f->count++], PMIX_PROC_MAP, task_map, PMIX_REGEX);
	free(node_map);
	free(task_map);
}

static void register_namespace(const char *tmp)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf peers = {0};
	volatile bool over = false;
	struct facts f = {take(INFO_MAX + g.size, sizeof *f.info), 0};
	pmix_rank_t first = 0;
	while (g.node_of[first] != g.here)
		first++;
	ranks_of(g.here, &peers);
	add_u32(&f, PMIX_UNIV_SIZE, g.size);
	add_u32(&f, PMIX_JOB_SIZE, g.size);
	add_u32(&f, PMIX_JOB_NUM_APPS, 1);
	add_u32(&f, PMIX_APP_SIZE, g.size);
	add_u32(&f, PMIX_MAX_PROCS, g.size);
	add_u32(&f, PMIX_LOCAL_SIZE, tasks_here());
	add_u32(&f, PMIX_NODE_SIZE, tasks_here());
	add_u32(&f, PMIX_NUM_NODES, (uint32_t)g.nodes);
	add_u32(&f, PMIX_NODEID, g.here);
	add_text(&f, PMIX_LOCAL_PEERS, (char *)peers.data);
	add_text(&f, PMIX_JOBID, g.nspace);
	add_text(&f, PMIX_TMPDIR, tmp);
	PMIX_INFO_LOAD(&f.info[f.count++], PMIX_LOCALLDR, &first, PMIX_PROC_RANK);
	add_maps(&f);
	for (uint32_t rank = 0; rank < g.size; rank++)
		add_rank(&f, rank);
	pmix_nspace_t nspace;
	PMIX_LOAD_NSPACE(nspace, g.nspace);
	wait_for(PMIx_server_register_nspace(nspace, (int)tasks_here(), f.info, f.count, done, (void *)&over),
		 &over, "registering the step");
}

/* Tells of each task here what it must be started with. */
static void register_tasks(void)
{
	uint16_t place = 0;
	for (uint32_t rank = 0; rank < g.size; rank++) {
		MU_CLEANUP(mu_buf_free) struct mu_buf out = {0};
		volatile bool over = false;
		pmix_proc_t proc;
		char **env = NULL;
		if (g.node_of[rank] != g.here)
			continue;
		PMIX_LOAD_PROCID(&proc, g.nspace, rank);
		wait_for(PMIx_server_register_client(&proc, getuid(), getgid(), NULL, done, (void *)&over),
			 &over, "registering a task");
		pmix_status_t code = PMIx_server_setup_fork(&proc, &env);
		if (code != PMIX_SUCCESS)
			fatal("the environment of a task", PMIx_Error_string(code));
		for (char **e = env; e && *e; e++)
			mu_buf_add(&out, *e, strlen(*e) + 1);
		say(EXE_PMIX_ENV, place++, out.data ? (char *)out.data : "", out.len);
	}
}

/* ---- the shepherd's words ---- */

static void open_fence(const struct mu_buf *all)
{
	char *data = take(all->len, 1);
	if (all->len)
		memcpy(data, all->data, all->len);
	pthread_mutex_lock(&g.lock);
	pmix_modex_cbfunc_t open = g.open;
	void *arg = g.open_arg;
	g.open = NULL;
	pthread_mutex_unlock(&g.lock);
	if (open)
		open(PMIX_SUCCESS, data, all->len, arg, free, data);
	else
		free(data);
}

static void serve(void)
{
	struct stream_reader reader = {0};
	struct mu_buf whole = {0};
	struct stream_frame f;
	for (int code;
	     (code = stream_read_frame(SHEPHERD, &reader, WAIT_MSEC, &f, NULL)) == 0 || code == MU_ETIMEOUT;)
		if (code == 0 && f.kind == EXE_PMIX_FENCE && stream_join(&whole, &f) == 1) {
			open_fence(&whole);
			mu_buf_reset(&whole);
		}
	stream_reader_free(&reader);
	mu_buf_free(&whole);
}

int main(int argc, char **argv)
{
	static pmix_server_module_t module = {.client_connected = client_comes,
					      .client_finalized = client_comes,
					      .abort = client_aborts,
					      .fence_nb = fence,
					      .direct_modex = ask_elsewhere};
	if (argc != 7)
		fatal("usage",
		      "muster-pmix NAMESPACE NODES MAPPING NODE TASKS TMP (started by muster-shepherd)");
	g.nspace = argv[1];
	g.here = (uint32_t)strtoul(argv[4], NULL, 10);
	g.size = (uint32_t)strtoul(argv[5], NULL, 10);
	read_nodes(argv[2]);
	if (g.size == 0 || g.size > TASKS_MAX || g.here >= g.nodes)
		fatal("usage", "the tasks or the node make no sense");
	read_mapping(argv[3]);
	/* Values in memory: files would outlive us. */
	setenv("PMIX_MCA_gds", "hash", 1);
	pmix_info_t info[2];
	PMIX_INFO_LOAD(&info[0], PMIX_SERVER_TMPDIR, argv[6], PMIX_STRING);
	PMIX_INFO_LOAD(&info[1], PMIX_HOSTNAME, g.node[g.here], PMIX_STRING);
	pmix_status_t code = PMIx_server_init(&module, info, 2);
	if (code != PMIX_SUCCESS)
		fatal("libpmix", PMIx_Error_string(code));
	register_namespace(argv[6]);
	register_tasks();
	serve();
	return 0;
}
