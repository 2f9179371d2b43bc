/* ctld/gauges.c: figures for people and for Prometheus. The core refreshes a text once a second at most; the page's thread copies it. */
#include "log/ctld/ctld.h"

#include <stdlib.h>
#include <string.h>

#include "log/diag.h"
#include "log/metrics.h"
#include "proto/conf.h"

enum { GAUGES_MAX = 80 };

/* One figure. VALUE counts units, or millionths of them where MICRO is set (seconds in microseconds). */
struct gauge {
	const char *name, *label, *word, *help;
	enum metrics_type type;
	int64_t value;
	bool micro;
};

static struct {
	pthread_mutex_t lock;
	struct mu_buf text;
	struct metrics_server *page;
} shown = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void add(struct gauge *g, size_t *n, const char *name, const char *label, const char *word, enum metrics_type type, const char *help,
		uint64_t value)
{
	if (*n < GAUGES_MAX)
		g[(*n)++] = (struct gauge){name, label, word, help, type, (int64_t)value, strstr(name, "_seconds") != NULL};
}

static size_t gather_state(struct ctl *c, struct gauge *g, size_t n)
{
	struct sch_counts k;

	sch_counts(c->st, &k);
	add(g, &n, "muster_jobs", "state", "pending", METRICS_GAUGE, "Jobs in State by state.", k.jobs_pending);
	add(g, &n, "muster_jobs", "state", "running", METRICS_GAUGE, NULL, k.jobs_running);
	add(g, &n, "muster_jobs", "state", "completing", METRICS_GAUGE, NULL, k.jobs_completing);
	add(g, &n, "muster_nodes", "state", "idle", METRICS_GAUGE, "Nodes by state.", k.nodes_idle);
	add(g, &n, "muster_nodes", "state", "mixed", METRICS_GAUGE, NULL, k.nodes_mixed);
	add(g, &n, "muster_nodes", "state", "allocated", METRICS_GAUGE, NULL, k.nodes_allocated);
	add(g, &n, "muster_nodes", "state", "down", METRICS_GAUGE, NULL, k.nodes_down);
	add(g, &n, "muster_nodes", "state", "drain", METRICS_GAUGE, NULL, k.nodes_drain);
	add(g, &n, "muster_gpus", "state", "total", METRICS_GAUGE, "GPUs.", k.gpus_total);
	add(g, &n, "muster_gpus", "state", "allocated", METRICS_GAUGE, NULL, k.gpus_allocated);
	add(g, &n, "muster_cpus", "state", "total", METRICS_GAUGE, "CPUs.", k.cpus_total);
	add(g, &n, "muster_cpus", "state", "allocated", METRICS_GAUGE, NULL, k.cpus_allocated);
	add(g, &n, "muster_state_bytes", NULL, NULL, METRICS_GAUGE, "Memory that State holds, in bytes.", k.state_bytes);
	add(g, &n, "muster_position", NULL, NULL, METRICS_COUNTER, "Entries folded.", sch_pos(c->st));
	return n;
}

static size_t gather(struct ctl *c, struct gauge *g)
{
	struct log_stats s;
	size_t n = gather_state(c, g, 0);
	uint64_t shown_pos = view_pos(c->view);

	log_replica_stats(c->replica, &s, false);
	add(g, &n, "muster_leader", NULL, NULL, METRICS_GAUGE, "1 on the controller that leads.", c->role == LOG_LEADER && c->leader_ready);
	add(g, &n, "muster_term", NULL, NULL, METRICS_COUNTER, "Raft term.", c->term);
	add(g, &n, "muster_projector_lag_entries", NULL, NULL, METRICS_GAUGE, "Entries folded and not yet in the view.", (sch_pos(c->st) - shown_pos));
	add(g, &n, "muster_projector_bytes", NULL, NULL, METRICS_GAUGE, "Bytes waiting for the projector.", ctl_project_bytes(c));
	add(g, &n, "muster_commit_seconds", NULL, NULL, METRICS_GAUGE, "Time of the last proposal to its commit.", s.last_commit_latency_usec);
	add(g, &n, "muster_proposed_total", NULL, NULL, METRICS_COUNTER, "Entries proposed here.", s.proposed);
	add(g, &n, "muster_committed_total", NULL, NULL, METRICS_COUNTER, "Entries delivered here.", s.committed);
	add(g, &n, "muster_log_bytes_total", NULL, NULL, METRICS_COUNTER, "Bytes of entries delivered here.", s.bytes);
	add(g, &n, "muster_elections_total", NULL, NULL, METRICS_COUNTER, "Elections seen here.", s.elections);
	add(g, &n, "muster_snapshots_total", NULL, NULL, METRICS_COUNTER, "Snapshots taken here.", s.snapshots);
	add(g, &n, "muster_installs_total", NULL, NULL, METRICS_COUNTER, "Snapshots installed here.", s.installs);
	add(g, &n, "muster_loop_stalls_total", NULL, NULL, METRICS_COUNTER, "Times the core thread was busy for over 10 ms.", s.loop_stalls);
	add(g, &n, "muster_loop_stall_max_seconds", NULL, NULL, METRICS_GAUGE, "Longest such time.", s.loop_stall_usec_max);
	add(g, &n, "muster_loop_stall_cpu_max_seconds", NULL, NULL, METRICS_GAUGE, "Most CPU time of its own in such a time; the rest was waiting for a CPU.",
	    s.loop_stall_cpu_usec_max);
	add(g, &n, "muster_requests_total", NULL, NULL, METRICS_COUNTER, "Requests received.", c->n.requests);
	add(g, &n, "muster_queries_total", NULL, NULL, METRICS_COUNTER, "Queries received.", c->n.queries);
	add(g, &n, "muster_submits_total", NULL, NULL, METRICS_COUNTER, "Submissions seen by this leader.", c->n.submits);
	add(g, &n, "muster_refused_total", "kind", "busy", METRICS_COUNTER, "Requests refused by kind.", c->n.refused_busy);
	add(g, &n, "muster_refused_total", "kind", "auth", METRICS_COUNTER, NULL, c->n.refused_auth);
	add(g, &n, "muster_refused_total", "kind", "admission", METRICS_COUNTER, NULL, c->n.refused_admit);
	add(g, &n, "muster_refused_total", "kind", "disk", METRICS_COUNTER, NULL, c->n.refused_disk);
	add(g, &n, "muster_refused_total", "kind", "malformed", METRICS_COUNTER, NULL, c->n.refused_bad);
	add(g, &n, "muster_passes_total", NULL, NULL, METRICS_COUNTER, "Scheduling passes decided here.", c->n.passes);
	add(g, &n, "muster_pass_seconds", NULL, NULL, METRICS_GAUGE, "Length of the last pass.", c->n.pass_usec_last);
	add(g, &n, "muster_pass_max_seconds", NULL, NULL, METRICS_GAUGE, "Longest pass.", c->n.pass_usec_max);
	add(g, &n, "muster_pass_steps_total", NULL, NULL, METRICS_COUNTER, "Counted steps of all passes.", c->n.pass_steps);
	add(g, &n, "muster_pass_slices_total", NULL, NULL, METRICS_COUNTER, "Slices that passes took.", c->n.pass_slices);
	add(g, &n, "muster_pass_seconds_total", NULL, NULL, METRICS_COUNTER, "Time of all passes.", c->n.pass_usec);
	add(g, &n, "muster_pass_steps", NULL, NULL, METRICS_GAUGE, "Counted steps of the last pass that said something.", c->n.pass_steps_last);
	add(g, &n, "muster_pass_steps_max", NULL, NULL, METRICS_GAUGE, "Counted steps of the longest pass.", c->n.pass_steps_max);
	add(g, &n, "muster_pass_queue_depth", NULL, NULL, METRICS_GAUGE, "Jobs that waited at the last pass.", c->n.pass_depth);
	add(g, &n, "muster_pass_backfill_depth", NULL, NULL, METRICS_GAUGE, "Jobs that had a planned start then.", c->n.pass_planned);
	add(g, &n, "muster_starts_total", NULL, NULL, METRICS_COUNTER, "Job starts decided here.", c->n.starts);
	add(g, &n, "muster_requests_waiting", NULL, NULL, METRICS_GAUGE, "Requests and polls held open.", atomic_load(&c->requests));
	add(g, &n, "muster_disk_low", NULL, NULL, METRICS_GAUGE, "1 while submissions are refused for want of room.", c->disk_low);
	return n;
}

void ctl_gauges_refresh(struct ctl *c)
{
	struct gauge g[GAUGES_MAX];
	size_t n;
	static int64_t last_msec;

	if (!shown.page || ctl_mono_msec() - last_msec < 1000)
		return;
	last_msec = ctl_mono_msec();
	n = gather(c, g);
	pthread_mutex_lock(&shown.lock);
	mu_buf_reset(&shown.text);
	for (size_t i = 0; i < n; i++) {
		const char *const labels[] = {g[i].label, g[i].word, NULL};

		if (g[i].help)
			metrics_family(&shown.text, g[i].name, g[i].type, g[i].help);
		(g[i].micro ? metrics_micro : metrics_i64)(&shown.text, g[i].name, labels, g[i].value);
	}
	pthread_mutex_unlock(&shown.lock);
}

static void page_text(void *arg, struct mu_buf *out)
{
	(void)arg;
	pthread_mutex_lock(&shown.lock);
	mu_buf_add(out, shown.text.data, shown.text.len);
	pthread_mutex_unlock(&shown.lock);
}

void ctl_diag_ask(struct ctl *c, struct ctl_req *req)
{
	struct gauge g[GAUGES_MAX];
	size_t n = gather(c, g);
	Mu__Reply reply = MU__REPLY__INIT;
	Mu__DiagReply d = MU__DIAG_REPLY__INIT;

	d.metric = mu_arena_alloc(&req->arena, (n + 1) * sizeof *d.metric);
	for (size_t i = 0; i < n; i++) {
		Mu__Metric *m = mu_arena_alloc(&req->arena, sizeof *m);

		mu__metric__init(m);
		m->name = (char *)g[i].name;
		m->labels = g[i].label ? mu_arena_printf(&req->arena, "%s=\"%s\"", g[i].label, g[i].word) : NULL;
		m->has_value = 1;
		m->value = g[i].micro ? (double)g[i].value / 1e6 : (double)g[i].value;
		d.metric[d.n_metric++] = m;
	}
	reply.answer_case = MU__REPLY__ANSWER_DIAG;
	reply.diag = &d;
	ctl_req_answer(c, req, &reply);
}

int ctl_metrics_open(struct ctl *c, struct mu_err *err)
{
	const char *address = mu_conf_get(c->conf, "MusterMetrics", NULL), *at;

	if (!address || !*address || !strcmp(address, "(null)"))
		return 0;
	at = strstr(address, "%n");
	if (at)
		address = mu_arena_printf(&c->conf_arena, "%.*s%s%s", (int)(at - address), address, c->opt.name, at + 2);
	if (metrics_open(address, page_text, c, &shown.page, err))
		return mu_wrap(err, "Serving the figures of MusterMetrics=%s", address);
	return 0;
}

void ctl_metrics_close(void)
{
	shown.page = metrics_close(shown.page);
	mu_buf_free(&shown.text);
}
