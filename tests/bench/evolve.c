/* tests/bench/evolve.c: what the core costs: entries per second in evolve, a pass over many waiting jobs on
 * many nodes, bytes of State for a waiting job, and whether a submission costs more behind a long queue.
 *
 * Usage: bench_evolve [JOBS [NODES [SHAPES]]] (100000, 10000, 200). Prints a table; times are CPU time of
 * this process. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/pb.h"
#include "proto/states.h"
#include "sched/sched.h"

#define SET(row, field, v)              \
	do {                            \
		(row)->field = (v);     \
		(row)->has_##field = 1; \
	} while (0)

enum { BUDGET = 30000 }; /* steps of a slice, as the controllers have it */

struct bench {
	struct sch_state *st;
	struct sch_changes changes;
	struct mu_buf row, event;
	int64_t now_usec;
	uint64_t bytes; /* of changed rows, as the projector would get them */
};

static uint64_t nanoseconds(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int apply(struct bench *b, const Mu__Event *e)
{
	struct sch_at at = {.pos = sch_pos(b->st) + 1, .time_usec = b->now_usec};
	struct sch_verdict v;
	struct mu_err err = {0};
	mu_buf_reset(&b->event);
	mu_pb_pack(&e->base, &b->event);
	sch_changes_reset(&b->changes);
	int rc = sch_evolve(b->st, &at, b->event.data, b->event.len, &v, &b->changes, &err);
	sch_entry_done(b->st, at.pos, b->now_usec, &b->changes);
	for (size_t i = 0; i < b->changes.count; i++) {
		mu_buf_reset(&b->row);
		if (!b->changes.v[i].gone)
			sch_changes_row(b->st, &b->changes, i, &b->row);
		b->bytes += b->row.len;
	}
	if (rc || v.code) {
		fprintf(stderr, "event void: %s %s\n", v.text, err.text);
		exit(1);
	}
	return 0;
}

static Mu__Author *author(void)
{
	static Mu__Author a = MU__AUTHOR__INIT;
	a.user = (char *)"alice";
	a.group = (char *)"users";
	SET(&a, uid, 1001);
	SET(&a, gid, 100);
	SET(&a, operator_, 1);
	a.verifier = (char *)"controller";
	return &a;
}

static void found(struct bench *b, uint32_t nodes)
{
	struct mu_arena arena = {0};
	Mu__Config c = MU__CONFIG__INIT;
	Mu__PartitionConf p = MU__PARTITION_CONF__INIT, *parts[] = {&p};
	Mu__Founded f = MU__FOUNDED__INIT;
	Mu__Event e = MU__EVENT__INIT;
	c.node = mu_arena_alloc(&arena, nodes * sizeof(c.node[0]));
	p.node = mu_arena_alloc(&arena, nodes * sizeof(p.node[0]));
	for (uint32_t i = 0; i < nodes; i++) {
		Mu__NodeConf *n = c.node[i] = mu_arena_alloc(&arena, sizeof(*n));
		mu__node_conf__init(n);
		n->name = p.node[i] = mu_arena_printf(&arena, "n%05u", i);
		SET(n, cpus, 64);
		SET(n, real_memory_mib, 256000);
		Mu__GresConf *g = mu_arena_alloc(&arena, sizeof(*g));
		mu__gres_conf__init(g);
		g->name = (char *)"gpu";
		SET(g, count, 8);
		n->gres = mu_arena_dup(&arena, &g, sizeof(g));
		n->n_gres = 1;
	}
	c.n_node = p.n_node = nodes;
	p.name = (char *)"debug";
	SET(&p, is_default, 1);
	SET(&p, max_time_sec, -1);
	c.partition = parts;
	c.n_partition = 1;
	SET(&c, slurmd_timeout_sec, 0);
	SET(&c, max_job_count, 10000000);
	SET(&c, max_array_size, 1000001);
	SET(&c, def_mem_cpu_mib, 1000);
	c.select_type_parameters = (char *)"CR_CORE_MEMORY";
	f.config = &c;
	f.has_cluster_id = 1;
	f.cluster_id.data = (uint8_t *)"0123456789abcdef";
	f.cluster_id.len = 16;
	SET(&f, level, 1);
	e.kind_case = MU__EVENT__KIND_FOUNDED;
	e.founded = &f;
	e.author = author();
	apply(b, &e);
	mu_arena_free(&arena);
}

static void register_node(struct bench *b, uint32_t i)
{
	char name[16];
	Mu__NodeRow n = MU__NODE_ROW__INIT;
	Mu__NodeRegistered r = MU__NODE_REGISTERED__INIT;
	Mu__GresHave g = MU__GRES_HAVE__INIT, *gres[] = {&g};
	Mu__Author a = *author();
	Mu__Event e = MU__EVENT__INIT;
	snprintf(name, sizeof(name), "n%05u", i);
	n.name = a.node = name;
	SET(&n, cpus, 64);
	SET(&n, real_memory_mib, 256000);
	g.name = (char *)"gpu";
	SET(&g, count, 8);
	n.gres = gres;
	n.n_gres = 1;
	n.has_boot_id = 1;
	n.boot_id.data = (uint8_t *)"boot";
	n.boot_id.len = 4;
	r.inventory = &n;
	e.kind_case = MU__EVENT__KIND_NODE_REGISTERED;
	e.node_registered = &r;
	e.author = &a;
	apply(b, &e);
}

/* A job as people submit it: its own name and line, one of SHAPES demands. */
static void submit(struct bench *b, uint32_t i, uint32_t shapes)
{
	char name[32], line[160], nonce[16] = {0};
	Mu__JobSpec s = MU__JOB_SPEC__INIT;
	Mu__Submitted m = MU__SUBMITTED__INIT;
	Mu__RequestId id = MU__REQUEST_ID__INIT;
	Mu__Event e = MU__EVENT__INIT;
	uint32_t shape = i % shapes;
	snprintf(name, sizeof(name), "run-%u", i);
	snprintf(line, sizeof(line),
		 "sbatch -J %s -n %u -c 2 --mem-per-cpu=1000 -t 60 /home/alice/project/run.sh --seed %u",
		 name, shape, i);
	s.name = name;
	s.submit_line = line;
	SET(&s, nodes_min, 1 + shape / 100);
	SET(&s, ntasks, 1 + shape);
	SET(&s, cpus_per_task, 2);
	SET(&s, mem_cpu_mib, 1000);
	SET(&s, time_limit_sec, 3600);
	SET(&s, batch, 1);
	s.has_script_hash = s.has_env_hash = s.has_work_dir = s.has_command = s.has_std_out = 1;
	s.script_hash = s.env_hash = (ProtobufCBinaryData){32, (uint8_t *)"01234567890123456789012345678901"};
	s.work_dir = (ProtobufCBinaryData){24, (uint8_t *)"/home/alice/project/work"};
	s.command = (ProtobufCBinaryData){26, (uint8_t *)"/home/alice/project/run.sh"};
	s.std_out = (ProtobufCBinaryData){12, (uint8_t *)"slurm-%j.out"};
	m.spec = &s;
	m.has_job_key = 1;
	m.job_key = (ProtobufCBinaryData){32, (uint8_t *)"01234567890123456789012345678901"};
	memcpy(nonce, &i, sizeof(i));
	SET(&id, birth_usec, b->now_usec);
	id.has_nonce = 1;
	id.nonce = (ProtobufCBinaryData){16, (uint8_t *)nonce};
	e.kind_case = MU__EVENT__KIND_SUBMITTED;
	e.submitted = &m;
	e.request = &id;
	e.author = author();
	b->now_usec += 100;
	apply(b, &e);
}

static uint64_t state_bytes(const struct bench *b)
{
	struct sch_counts c;
	sch_counts(b->st, &c);
	return c.state_bytes;
}

static void result(const char *what, const char *format, ...)
{
	va_list args;
	printf("%-58s ", what);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
}

struct pass {
	unsigned slices, starts, reasons;
	uint64_t steps, decide_ns, evolve_ns, worst_ns;
};

/* A pass, or as much of it as it takes until FIRST jobs have started. */
static struct pass decide_until(struct bench *b, uint32_t budget, unsigned first)
{
	struct pass p = {0};
	struct mu_arena arena = {0};
	while (sch_wants_decide(b->st) && p.starts < first) {
		Mu__Event *e = NULL;
		mu_arena_reset(&arena);
		uint64_t from = nanoseconds();
		sch_decide(b->st, budget, &arena, &e);
		uint64_t took = nanoseconds() - from;
		p.decide_ns += took;
		p.worst_ns = took > p.worst_ns ? took : p.worst_ns;
		if (!e)
			break;
		p.slices++;
		p.starts += (unsigned)e->decided->n_start;
		p.reasons += (unsigned)e->decided->n_reason;
		p.steps += e->decided->steps;
		e->author = author();
		from = nanoseconds();
		apply(b, e);
		p.evolve_ns += nanoseconds() - from;
	}
	mu_arena_free(&arena);
	return p;
}

static struct pass decide(struct bench *b, uint32_t budget)
{
	return decide_until(b, budget, UINT_MAX);
}

static void show_pass(const char *what, const struct pass *p)
{
	result(
	    what,
	    "%8.1f ms decide, %8.1f ms evolve; %u slices (worst %.1f ms), %llu steps, %u starts, %u reasons",
	    (double)p->decide_ns / 1e6, (double)p->evolve_ns / 1e6, p->slices, (double)p->worst_ns / 1e6,
	    (unsigned long long)p->steps, p->starts, p->reasons);
}

static uint64_t time_submits(struct bench *b, uint32_t from, uint32_t count, uint32_t shapes)
{
	uint64_t begin = nanoseconds();
	for (uint32_t i = 0; i < count; i++)
		submit(b, from + i, shapes);
	return (nanoseconds() - begin) / count;
}

static void end_job(struct bench *b, uint32_t id)
{
	const Mu__JobRow *j = sch_job(b->st, id);
	Mu__AttemptEnded a = MU__ATTEMPT_ENDED__INIT;
	Mu__Author by = *author();
	Mu__Event e = MU__EVENT__INIT;
	if (!j || j->state != JOB_RUNNING || j->n_alloc != 1)
		return;
	SET(&a, job, id);
	SET(&a, attempt, j->attempt);
	a.node = by.node = j->alloc[0]->node;
	SET(&a, batch, 1);
	SET(&a, released, 1);
	e.kind_case = MU__EVENT__KIND_ATTEMPT_ENDED;
	e.attempt_ended = &a;
	e.author = &by;
	apply(b, &e);
}

/* Ends all jobs of one node alone that run where the last of them does. Returns how many. */
static uint32_t free_node(struct bench *b, uint32_t jobs)
{
	char name[16] = "";
	uint32_t count = 0;
	for (uint32_t id = jobs; id > 0; id--) {
		const Mu__JobRow *j = sch_job(b->st, id);
		if (!j || j->state != JOB_RUNNING || j->n_alloc != 1 ||
		    (count && strcmp(j->alloc[0]->node, name)))
			continue;
		snprintf(name, sizeof(name), "%s", j->alloc[0]->node);
		end_job(b, id);
		count++;
	}
	return count;
}

/* A million tasks in one row: submitted, started a node-full at a time, cancelled. */
static void array(void)
{
	struct bench b = {.st = sch_state_new(), .now_usec = INT64_C(1790000000) * 1000000};
	Mu__JobSpec s = MU__JOB_SPEC__INIT;
	Mu__Submitted m = MU__SUBMITTED__INIT;
	Mu__JobSignal kill = MU__JOB_SIGNAL__INIT;
	Mu__Event e = MU__EVENT__INIT;
	uint32_t id = 1, nodes = 100;
	found(&b, nodes);
	for (uint32_t i = 0; i < nodes; i++)
		register_node(&b, i);
	s.name = (char *)"many";
	s.array = (char *)"0-999999";
	SET(&s, batch, 1);
	SET(&s, time_limit_sec, 3600);
	m.spec = &s;
	e.kind_case = MU__EVENT__KIND_SUBMITTED;
	e.submitted = &m;
	e.author = author();
	uint64_t before = state_bytes(&b), from = nanoseconds();
	apply(&b, &e);
	result("an array of 1,000,000 tasks, submitted", "%.1f microseconds, %llu bytes of State",
	       (double)(nanoseconds() - from) / 1e3, (unsigned long long)(state_bytes(&b) - before));
	struct pass p = decide(&b, BUDGET);
	show_pass("  pass that starts its first tasks", &p);
	for (uint32_t n = 2; n < 66; n++)
		end_job(&b, n);
	p = decide(&b, BUDGET);
	show_pass("  pass after 64 of them have ended", &p);
	kill.job = &id;
	kill.n_job = 1;
	e.kind_case = MU__EVENT__KIND_JOB_SIGNAL;
	e.job_signal = &kill;
	from = nanoseconds();
	apply(&b, &e);
	result("  cancelled, with its running tasks", "%.1f ms", (double)(nanoseconds() - from) / 1e6);
	sch_changes_free(&b.changes);
	mu_buf_free(&b.row);
	mu_buf_free(&b.event);
	sch_state_free(b.st);
}

int main(int argc, char **argv)
{
	uint32_t jobs = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 100000,
		 nodes = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 10000;
	uint32_t shapes = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 200;
	struct bench b = {.st = sch_state_new(), .now_usec = INT64_C(1790000000) * 1000000};
	uint64_t t = nanoseconds();
	found(&b, nodes);
	for (uint32_t i = 0; i < nodes; i++)
		register_node(&b, i);
	result("found and register", "%u nodes in %.0f ms", nodes, (double)(nanoseconds() - t) / 1e6);
	uint64_t first = time_submits(&b, 0, 1000, shapes), before = state_bytes(&b);
	uint64_t all = time_submits(&b, 1000, jobs - 1000, shapes);
	uint64_t after = state_bytes(&b), last = time_submits(&b, jobs, 1000, shapes);
	result("evolve, submissions with request ids, rows packed again", "%.0f entries/s",
	       1e9 / (double)all);
	result("a submission behind 0 and behind all", "%.1f and %.1f microseconds", (double)first / 1e3,
	       (double)last / 1e3);
	result("State of a waiting job, its answer and map entries included", "%.0f bytes",
	       (double)(after - before) / (jobs - 1000));
	struct pass p = decide(&b, BUDGET);
	show_pass("first pass over all", &p);
	struct sch_counts c;
	sch_counts(b.st, &c);
	result("  then", "%u run on %u of %u nodes, %u wait", c.jobs_running, c.nodes_total - c.nodes_idle,
	       c.nodes_total, c.jobs_pending);
	for (uint32_t id = 1; id <= 200; id++)
		end_job(&b, id);
	p = decide(&b, BUDGET);
	show_pass("pass after 200 ends", &p);
	result("a node frees up", "%u jobs end on it", free_node(&b, jobs));
	p = decide_until(&b, BUDGET, 1);
	show_pass("  until the first start after that", &p);
	p = decide(&b, BUDGET);
	show_pass("  the rest of that pass", &p);
	struct mu_hash d, w;
	t = nanoseconds();
	sch_digest(b.st, &d);
	result("digest", "%.1f microseconds", (double)(nanoseconds() - t) / 1e3);
	t = nanoseconds();
	sch_digest_walk(b.st, &w);
	result("walk", "%.0f ms, %s", (double)(nanoseconds() - t) / 1e6,
	       memcmp(&d, &w, sizeof(d)) ? "DIFFERENT" : "equal");
	sch_changes_free(&b.changes);
	mu_buf_free(&b.row);
	mu_buf_free(&b.event);
	sch_state_free(b.st);
	array();
	return 0;
}
