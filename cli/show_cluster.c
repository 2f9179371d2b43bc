/* cli/show_cluster.c: scontrol show topology, daemons, slurmd and assoc_mgr: the cluster as the controllers
 * have it, and this host's place in it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/column.h"
#include "cli/filter.h"
#include "cli/show.h"
#include "proto/conf.h"
#include "proto/hostlist.h"
#include "proto/states.h"
#include "proto/version.h"

static int load(struct scontrol *s, Mu__What what, const ProtobufCMessageDescriptor *type, void ***ret,
		size_t *ret_count, struct mu_err *err)
{
	Mu__Query ask = MU__QUERY__INIT;

	ask.has_what = 1;
	ask.what = what;
	return cli_query_all(s->cli, &ask, type, ret, ret_count, err);
}

static int load_config(struct scontrol *s, const Mu__Config **ret, struct mu_err *err)
{
	void **rows;
	size_t n;
	int rc = load(s, MU__WHAT__WHAT_CONFIG, &mu__config_row__descriptor, &rows, &n, err);

	if (!rc && !n)
		rc = mu_fail(err, MU_ENOTREADY, "The cluster has no configuration yet");
	if (!rc)
		*ret = ((Mu__ConfigRow *)rows[0])->config;
	return rc;
}

/* ---- topology ---- */

enum { LEVELS_MAX = 16 };

static const Mu__SwitchConf *switch_named(const Mu__Config *c, const char *name)
{
	for (size_t i = 0; i < c->n_topology; i++) {
		if (c->topology[i]->name && strcmp(c->topology[i]->name, name) == 0)
			return c->topology[i];
	}
	return NULL;
}

/* The level of SW, and the nodes below it added to NODES, comma-divided. */
static unsigned gather(struct mu_arena *a, const Mu__Config *c, const Mu__SwitchConf *sw, unsigned depth,
		       struct mu_buf *nodes)
{
	char **names = NULL;
	size_t n = 0;
	unsigned level = 0;

	if (sw->nodes && *sw->nodes)
		mu_buf_printf(nodes, "%s%s", nodes->len ? "," : "", sw->nodes);
	if (!sw->switches || !*sw->switches || depth >= LEVELS_MAX ||
	    mu_hostlist_expand(sw->switches, 65536, a, &names, &n, NULL))
		return 0;
	for (size_t i = 0; i < n; i++) {
		const Mu__SwitchConf *below = switch_named(c, names[i]);
		unsigned under = below ? gather(a, c, below, depth + 1, nodes) + 1 : 1;

		level = under > level ? under : level;
	}
	return level;
}

static bool among(struct mu_arena *a, const char *list, const char *name)
{
	char **names;
	size_t n;

	if (mu_hostlist_expand(list, 65536, a, &names, &n, NULL))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (strcmp(names[i], name) == 0)
			return true;
	}
	return false;
}

int scontrol_show_topology(struct scontrol *s, char **words, size_t count)
{
	const char *only = count ? words[0] : NULL;
	struct mu_arena *a = &s->cli->arena;
	const Mu__Config *c;
	struct mu_err err = {0};
	unsigned shown = 0, block = 0;

	if (load_config(s, &c, &err))
		return show_load_error(s, "topo", &err);
	if (!c->n_topology) {
		printf("No topology information available\n");
		return 0;
	}
	for (size_t i = 0; i < c->n_topology; i++) {
		const Mu__SwitchConf *sw = c->topology[i];
		struct mu_buf all MU_CLEANUP(mu_buf_free) = {0}, folded MU_CLEANUP(mu_buf_free) = {0};
		char **names = NULL;
		size_t n = 0;
		unsigned level, index = block;

		block += sw->block;
		mu_buf_str(&all, "");
		level = gather(a, c, sw, 0, &all);
		if (only && strcmp(only, sw->name) != 0 && !among(a, (char *)all.data, only))
			continue;
		shown++;
		if (all.len && !mu_hostlist_expand((char *)all.data, 65536, a, &names, &n, NULL))
			mu_hostlist_fold((const char *const *)names, n, &folded);
		if (sw->block) {
			printf("BlockName=%s BlockIndex=%u Nodes=%s BlockSize=%zu\n", sw->name, index,
			       folded.len ? (char *)folded.data : "", n);
			continue;
		}
		printf("SwitchName=%s Level=%u LinkSpeed=1", sw->name, level);
		if (folded.len)
			printf(" Nodes=%s", (char *)folded.data);
		if (sw->switches && *sw->switches)
			printf(" Switches=%s", sw->switches);
		printf("\n");
	}
	if (!shown) {
		printf("Topology information contains no switch or node named %s\n", only);
		return 1;
	}
	return 0;
}

/* ---- this host ---- */

static bool is_here(const char *host, const char *name)
{
	size_t len = strcspn(host, ".");

	return name && strncasecmp(host, name, len) == 0 && (!name[len] || name[len] == '.');
}

/* "slurmctld slurmd": those that this host should run. */
int scontrol_show_daemons(struct scontrol *s, char **words, size_t count)
{
	const Mu__Config *c;
	struct mu_err err = {0};
	char host[256] = "";
	bool leads = false, works = false;

	if (load_config(s, &c, &err))
		return show_load_error(s, "ctl_conf", &err);
	gethostname(host, sizeof host - 1);
	for (size_t i = 0; i < c->n_controller; i++)
		leads = leads || is_here(host, c->controller[i]->name);
	for (size_t i = 0; i < c->n_node; i++)
		works =
		    works || is_here(host, c->node[i]->hostname ? c->node[i]->hostname : c->node[i]->name);
	printf("%s%s%s\n", leads ? "slurmctld" : "", leads && works ? " " : "", works ? "slurmd" : "");
	return 0;
}

static const Mu__NodeRow *node_here(Mu__NodeRow *const *rows, size_t count)
{
	const char *named = getenv("SLURMD_NODENAME");
	char host[256] = "";

	gethostname(host, sizeof host - 1);
	for (size_t i = 0; i < count; i++) {
		const Mu__NodeConf *c = rows[i]->conf;

		if (named ? strcmp(named, rows[i]->name) == 0
			  : is_here(host, c && c->hostname ? c->hostname : rows[i]->name))
			return rows[i];
	}
	return NULL;
}

/* What the controllers know of the agent of this host. */
int scontrol_show_slurmd(struct scontrol *s, char **words, size_t count)
{
	struct mu_arena *a = &s->cli->arena;
	struct mu_err err = {0};
	void **nodes, **steps;
	size_t n, n_steps, active = 0;

	if (load(s, MU__WHAT__WHAT_NODES, &mu__node_row__descriptor, &nodes, &n, &err) ||
	    load(s, MU__WHAT__WHAT_STEPS, &mu__step_row__descriptor, &steps, &n_steps, &err))
		return show_load_error(s, "node", &err);
	const Mu__NodeRow *row = node_here((Mu__NodeRow **)nodes, n);
	if (!row) {
		cli_error(s->cli, "this host is no node of the cluster");
		return 1;
	}
	printf("%-24s = ", "Active Steps");
	for (size_t i = 0; i < n_steps; i++) {
		const Mu__StepRow *step = steps[i];

		if (step->state != JOB_RUNNING || !step->node_list || !among(a, step->node_list, row->name))
			continue;
		if (step->step < 0xfffffff0)
			printf("%s%u.%u", active++ ? "," : "", step->job, step->step);
		else
			printf("%s%u.%s", active++ ? "," : "", step->job, step->name ? step->name : "batch");
	}
	printf("%s\n", active ? "" : "NONE");
	printf("%-24s = %u\n", "Actual CPUs", row->cpus);
	printf("%-24s = %u\n", "Actual Boards", 1u);
	printf("%-24s = %u\n", "Actual sockets", row->sockets);
	printf("%-24s = %u\n", "Actual cores", row->cores_per_socket);
	printf("%-24s = %u\n", "Actual threads per core", row->threads_per_core);
	printf("%-24s = %" PRIu64 " MB\n", "Actual real memory", row->real_memory_mib);
	printf("%-24s = %" PRIu64 " MB\n", "Actual temp disk space", row->tmp_disk_mib);
	printf("%-24s = %s\n", "Boot time", date_of(a, row->agent_start_usec, "NONE"));
	printf("%-24s = %s\n", "Hostname", row->name);
	printf("%-24s = %s\n", "Last slurmctld msg time",
	       date_of(a, row->heard_usec ? row->heard_usec : s->cli->now_usec, "NONE"));
	printf("%-24s = %s\n", "Version", row->version ? row->version : MU_VERSION);
	return 0;
}

/* ---- what the controllers know of accounts ---- */

/* What the jobs of an association, or of a QOS, hold now. */
struct held {
	uint64_t jobs, submitted, cpus, mem_mib, nodes;
};

static void add_job(struct held *h, const Mu__JobRow *j)
{
	bool runs = j->state == JOB_RUNNING || j->state == JOB_SUSPENDED || j->state == JOB_COMPLETING;

	h->submitted++;
	if (!runs)
		return;
	h->jobs++;
	h->cpus += j->cpus_total;
	h->nodes += j->node_count;
	for (size_t i = 0; i < j->n_alloc; i++)
		h->mem_mib += j->alloc[i]->mem_mib;
}

static const char *number_or(struct mu_arena *a, bool has, int64_t n, const char *none)
{
	return has && n >= 0 ? mu_arena_printf(a, "%" PRId64, n) : none;
}

static const char *minutes_or(struct mu_arena *a, bool has, int64_t sec, const char *none)
{
	return number_or(a, has, sec / 60, none);
}

static bool tres_limit(Mu__TresCount *const *v, size_t n, const char *name, int64_t *ret)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(v[i]->name, name) == 0) {
			*ret = v[i]->count;
			return true;
		}
	}
	return false;
}

/* "cpu=8(4),mem=N(100),node=N(1)", and what else has a limit. */
static void put_group(const char *key, Mu__TresCount *const *v, size_t n, const struct held *h)
{
	const struct {
		const char *name;
		uint64_t held;
	} known[] = {{"cpu", h->cpus}, {"mem", h->mem_mib}, {"node", h->nodes}};
	int64_t limit;

	printf("    %s=", key);
	for (size_t i = 0; i < 3; i++) {
		printf("%s%s=", i ? "," : "", known[i].name);
		if (tres_limit(v, n, known[i].name, &limit))
			printf("%" PRId64, limit);
		else
			printf("N");
		printf("(%" PRIu64 ")", known[i].held);
	}
	for (size_t i = 0; i < n; i++) {
		if (strcmp(v[i]->name, "cpu") != 0 && strcmp(v[i]->name, "mem") != 0 &&
		    strcmp(v[i]->name, "node") != 0)
			printf(",%s=%" PRId64, v[i]->name, v[i]->count);
	}
	printf("\n");
}

static void put_tres(const char *key, Mu__TresCount *const *v, size_t n)
{
	printf("    %s=", key);
	for (size_t i = 0; i < n; i++)
		printf("%s%s=%" PRId64, i ? "," : "", v[i]->name, v[i]->count);
	printf("\n");
}

static void put_limits(struct mu_arena *a, const Mu__Limits *given, const struct held *h)
{
	static const Mu__Limits none = MU__LIMITS__INIT;
	const Mu__Limits *l = given ? given : &none;

	printf("    GrpJobs=%s(%" PRIu64 ") GrpSubmitJobs=%s(%" PRIu64 ") GrpWall=%s\n",
	       number_or(a, l->has_grp_jobs, l->grp_jobs, "N"), h->jobs,
	       number_or(a, l->has_grp_submit, l->grp_submit, "N"), h->submitted,
	       minutes_or(a, l->has_grp_wall_sec, l->grp_wall_sec, "N"));
	put_group("GrpTRES", l->grp_tres, l->n_grp_tres, h);
	put_tres("GrpTRESMins", l->grp_tres_mins, l->n_grp_tres_mins);
	put_tres("GrpTRESRunMins", l->grp_tres_run_mins, l->n_grp_tres_run_mins);
	printf("    MaxJobs=%s MaxSubmitJobs=%s MaxWallPJ=%s\n",
	       number_or(a, l->has_max_jobs, l->max_jobs, ""),
	       number_or(a, l->has_max_submit, l->max_submit, ""),
	       minutes_or(a, l->has_max_wall_sec, l->max_wall_sec, ""));
	put_tres("MaxTRESPJ", l->max_tres_job, l->n_max_tres_job);
	put_tres("MaxTRESPN", l->max_tres_node, l->n_max_tres_node);
	put_tres("MaxTRESMinsPJ", l->max_tres_mins_job, l->n_max_tres_mins_job);
}

struct records {
	void **user, **assoc, **qos, **job;
	size_t users, assocs, qoss, jobs;
};

static const Mu__AssocRow *assoc_of(const struct records *r, uint32_t id)
{
	for (size_t i = 0; i < r->assocs; i++) {
		if (((Mu__AssocRow *)r->assoc[i])->id == id)
			return r->assoc[i];
	}
	return NULL;
}

static bool is_user(const Mu__AssocRow *a)
{
	return a->user && *a->user;
}

/* The association above; NULL: it is the root. */
static const Mu__AssocRow *above(const struct records *r, const Mu__AssocRow *a)
{
	const char *account = is_user(a) ? a->account : a->parent && *a->parent ? a->parent : "root";

	for (size_t i = 0; i < r->assocs; i++) {
		const Mu__AssocRow *b = r->assoc[i];

		if (b != a && !is_user(b) && strcmp(b->account, account) == 0)
			return b;
	}
	return NULL;
}

static void hold_of_assoc(const struct records *r, const Mu__AssocRow *a, struct held *ret)
{
	for (size_t i = 0; i < r->jobs; i++) {
		const Mu__JobRow *j = r->job[i];
		const Mu__AssocRow *at = assoc_of(r, j->assoc);

		for (unsigned depth = 0; at && at != a && depth < 64; depth++)
			at = above(r, at);
		if (at)
			add_job(ret, j);
	}
}

static void show_assocs(struct scontrol *s, const struct records *r, const char *cluster)
{
	printf("\nAssociation Records\n\n");
	for (size_t i = 0; i < r->assocs; i++) {
		const Mu__AssocRow *a = r->assoc[i], *up = above(r, a);
		struct held h = {0};
		uint32_t uid;

		hold_of_assoc(r, a, &h);
		printf("ClusterName=%s Account=%s UserName=%s", cluster, a->account,
		       is_user(a) ? a->user : "");
		if (is_user(a) && !cli_user_id(a->user, &uid, NULL))
			printf("(%u)", uid);
		printf(" Partition=%s Priority=%u ID=%u\n", a->partition ? a->partition : "", a->priority,
		       a->id);
		printf("    SharesRaw=%u\n", a->has_shares ? a->shares : 1);
		printf("    ParentAccount=%s%s DefAssoc=%s\n", up && !is_user(a) ? up->account : "",
		       up && !is_user(a) ? mu_arena_printf(&s->cli->arena, "(%u)", up->id) : "",
		       is_user(a) ? "Yes" : "No");
		put_limits(&s->cli->arena, a->limits, &h);
	}
}

static void show_qos(struct scontrol *s, const struct records *r)
{
	printf("\nQOS Records\n\n");
	for (size_t i = 0; i < r->qoss; i++) {
		const Mu__QosRow *q = r->qos[i];
		struct held h = {0};

		for (size_t k = 0; k < r->jobs; k++) {
			const Mu__JobRow *j = r->job[k];

			if (j->qos && strcmp(j->qos, q->name) == 0)
				add_job(&h, j);
		}
		printf("QOS=%s(%u)\n", q->name, q->id);
		put_limits(&s->cli->arena, q->limits, &h);
	}
}

int scontrol_show_assoc_mgr(struct scontrol *s, char **words, size_t count)
{
	static const char *const admin[] = {"None", "Operator", "Administrator"};
	uint32_t living[] = {JOB_PENDING, JOB_RUNNING, JOB_SUSPENDED, JOB_COMPLETING};
	struct records r;
	const Mu__Config *c;
	Mu__Query ask = MU__QUERY__INIT;
	struct mu_err err = {0};

	ask.has_what = 1;
	ask.what = MU__WHAT__WHAT_JOBS;
	ask.state = living;
	ask.n_state = sizeof living / sizeof *living;
	if (load_config(s, &c, &err) ||
	    load(s, MU__WHAT__WHAT_USERS, &mu__user_row__descriptor, &r.user, &r.users, &err) ||
	    load(s, MU__WHAT__WHAT_ASSOCS, &mu__assoc_row__descriptor, &r.assoc, &r.assocs, &err) ||
	    load(s, MU__WHAT__WHAT_QOS, &mu__qos_row__descriptor, &r.qos, &r.qoss, &err) ||
	    cli_query_all(s->cli, &ask, &mu__job_row__descriptor, &r.job, &r.jobs, &err))
		return show_load_error(s, "assoc_mgr_info", &err);
	printf("Current Association Manager state\n\nUser Records\n\n");
	for (size_t i = 0; i < r.users; i++) {
		const Mu__UserRow *u = r.user[i];
		uint32_t uid = 0;

		printf("UserName=%s", u->name);
		if (!cli_user_id(u->name, &uid, NULL))
			printf("(%u)", uid);
		printf(" DefAccount=%s DefWckey=(null) AdminLevel=%s\n", or_null(u->default_account),
		       admin[u->admin <= 2 ? u->admin : 0]);
	}
	show_assocs(s, &r, c->cluster_name ? c->cluster_name : "");
	show_qos(s, &r);
	return 0;
}
