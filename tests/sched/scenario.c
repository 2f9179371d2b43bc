/* tests/sched/scenario.c: runs scenario files: stories that drive the core alone. Each line is one act or one
 * expectation.
 *
 *   nodes 4 cpus=8 gpu=2 [mem=MIB] [feature=a,b] [weight=W] [threads=T] [sockets=S] [state=DRAIN]   n1, n2
 * ... numbered on partition debug nodes=n[1-4] default [MaxTime=60] ...       any slurm.conf key of a
 * partition config SlurmdTimeout=300 ...                                any other key of slurm.conf found
 * [silent]              found the cluster (done by itself before the first act); nodes register unless silent
 *   gres NodeName=n1 Name=gpu Cores=0-3 ...     a line of gres.conf
 *   submit user=alice [op] -n2 -t10 --mem=100 ... [: -n1 ...]   sbatch's option words
 *   (jobs are 12, or tasks of an array 12_3 and 12_[1-4]; update 12 throttle=N)
 *   tick SECONDS · decide [slices] · leader · heard all|n1,n2
 *   end JOB [exit=N] [signal=N] [oom=N]                         the batch script ends and every node has
 * suspend JOB[,JOB] · resume JOB[,JOB]
 * released report JOB NODE [batch] [exit=N] [signal=N] [cause=WORD] [detail=TEXT] [released] [attempt=N] node
 * n1 down|drain|resume|undrain|fail|idle [reason=TEXT] [fenced] · node n1 register|reboot [cpus=N]
 * [held=JOB.ATTEMPT] [group=G link=L] [fault=INDEX:TEXT]      its first gres: devices G by G joined by L
 * links and near to a share of the cores; one at fault              node n1 fenced · node n1 weight=N · node
 * n1 feature=a,b reconfigure [mem=MIB] · cancel JOB[,JOB] · signal JOB NUMBER · hold JOB · release JOB ·
 * requeue JOB [hold] · update JOB <sbatch words>   user=NAME op part NAME State=DOWN ... scontrol update
 * PartitionName= again the last request is sent once more, with its id refused CODE <act> the act is refused
 * with that error show queue|nodes|jobs|orders NODE expect job N key=value ... · expect node NAME key=value
 * ... · expect count jobs|starts_void|voided=N · expect orders NODE JOB.ATTEMPT:run|end
 *
 *   account NAME [parent=P] [fairshare=N] [qos=LIST] [coordinator=LIST] <limits> [by=USER]
 *   user NAME account=A [admin=N] <limits> · qos NAME [priority=N] [flags=LIST] <limits> · remove KIND NAME
 *   expect why JOB TEXT...      in the paragraph that says why it waits, an underscore for a blank
 *   expect help JOB SECONDS Key:from->to ...    the smallest changes with which it would start by then
 *   resv NAME [create|delete|skip] [start=SEC] [end=SEC] [duration=MIN] [nodes=LIST] [nodecnt=N] [corecnt=N]
 *     [users=LIST] [accounts=LIST] [flags=LIST] [noflags=LIST] [licenses=LIST] ...   times since the story
 * began expect resv NAME key=value ... | gone expect share ACCOUNT[/USER] usage=SEC fair=PERMILLE · expect
 * sprio JOB age=N fair=N ... (parts add up)
 *
 * Usage: scenario FILE...            run; exit 1 on the first broken expectation or invariant
 *        scenario --record FILE OUT  run and write the event stream with its final digest
 *        scenario --replay LOG...    fold recorded streams and compare their digests */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "proto/conf.h"
#include "proto/hostlist.h"
#include "proto/states.h"
#include "tests/sched/story.h"

bool wrong(struct story *s, const char *format, ...)
{
	char text[512];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return h_fail(&s->h, "%s:%u: %s", s->file, s->line, text);
}

static int code_of(const char *word)
{
	for (int c = 0; c > -200; c--)
		if (strcmp(mu_errname(c), word) == 0)
			return c;
	return 1;
}

/* The value behind KEY= among WORDS, or NULL. */
const char *story_value(char **word, const char *key)
{
	size_t len = strlen(key);
	for (; *word; word++)
		if (strncmp(*word, key, len) == 0 && (*word)[len] == '=')
			return *word + len + 1;
	return NULL;
}

static bool flag(char **word, const char *key)
{
	for (; *word; word++)
		if (strcmp(*word, key) == 0)
			return true;
	return false;
}

static uint64_t number(char **word, const char *key, uint64_t otherwise)
{
	const char *v = story_value(word, key);
	return v ? strtoull(v, NULL, 10) : otherwise;
}

/* ---- events ---- */

Mu__Author *story_author(struct story *s, char **word)
{
	static const struct {
		const char *name;
		uint32_t uid;
	} people[] = {{"root", 0}, {"alice", 1001}, {"bob", 1002}, {"carol", 1003}, {"dave", 1004}};
	const char *user = story_value(word, "user");
	Mu__Author *a = mu_arena_alloc(&s->arena, sizeof(*a));
	mu__author__init(a);
	a->user = mu_arena_strdup(&s->arena, user ? user : "root");
	a->group =
	    mu_arena_strdup(&s->arena, story_value(word, "group") ? story_value(word, "group") : "users");
	SET(a, uid, 2000);
	for (size_t i = 0; i < sizeof(people) / sizeof(people[0]); i++)
		if (strcmp(people[i].name, a->user) == 0)
			SET(a, uid, people[i].uid);
	SET(a, gid, 100);
	SET(a, operator_, a->uid == 0 || flag(word, "op"));
	a->verifier = (char *)"socket";
	return a;
}

Mu__Event *story_event(struct story *s, Mu__Event__KindCase kind)
{
	Mu__Event *e = mu_arena_alloc(&s->arena, sizeof(*e));
	mu__event__init(e);
	e->kind_case = kind;
	e->request = mu_arena_alloc(&s->arena, sizeof(*e->request));
	mu__request_id__init(e->request);
	SET(e->request, birth_usec, s->h.now_usec);
	e->request->has_nonce = 1;
	e->request->nonce.len = 16;
	e->request->nonce.data = mu_arena_alloc(&s->arena, 16);
	mu_put_be64(e->request->nonce.data, ++s->h.request);
	return e;
}

static bool found(struct story *s, bool silent);

/* Admission and fold, as a controller would. */
bool story_ask(struct story *s, Mu__Event *e)
{
	struct mu_err err = {0};
	int rc = sch_admit(s->h.st, e, &err);
	const char *text = err.text;
	if (!rc) {
		s->last = e;
		rc = h_apply(&s->h, e);
		text = s->h.verdict.text;
	}
	if (rc != s->refused)
		return wrong(s, "gave %s \"%s\" instead of %s", mu_errname(rc), text, mu_errname(s->refused));
	if (rc && !*text)
		return wrong(s, "was refused without a sentence");
	return true;
}

static bool lead(struct story *s, Mu__Event *e)
{
	static Mu__Author leader = MU__AUTHOR__INIT;
	leader.verifier = (char *)"controller";
	e->author = &leader;
	return story_ask(s, e);
}

/* ---- the cluster ---- */

static bool act_nodes(struct story *s, char **word)
{
	unsigned count = (unsigned)strtoul(word[0], NULL, 10), first = s->nodes + 1;
	s->nodes += count;
	if (count > 1)
		mu_buf_printf(&s->conf, "NodeName=n[%u-%u]", first, s->nodes);
	else
		mu_buf_printf(&s->conf, "NodeName=n%u", first);
	uint64_t threads = number(word, "threads", 1), sockets = number(word, "sockets", 1),
		 cpus = number(word, "cpus", 1);
	mu_buf_printf(&s->conf,
		      " CPUs=%llu Sockets=%llu CoresPerSocket=%llu ThreadsPerCore=%llu RealMemory=%llu",
		      (unsigned long long)cpus, (unsigned long long)sockets,
		      (unsigned long long)(cpus / sockets / threads), (unsigned long long)threads,
		      (unsigned long long)number(word, "mem", 16000));
	if (story_value(word, "gpu"))
		mu_buf_printf(&s->conf, " Gres=gpu:%s", story_value(word, "gpu"));
	if (story_value(word, "gres"))
		mu_buf_printf(&s->conf, " Gres=%s", story_value(word, "gres"));
	if (story_value(word, "feature"))
		mu_buf_printf(&s->conf, " Feature=%s", story_value(word, "feature"));
	if (story_value(word, "weight"))
		mu_buf_printf(&s->conf, " Weight=%s", story_value(word, "weight"));
	if (story_value(word, "state"))
		mu_buf_printf(&s->conf, " State=%s", story_value(word, "state"));
	for (char **w = word + 1; *w; w++) /* Any other word of a NodeName line. */
		if (isupper((unsigned char)**w))
			mu_buf_printf(&s->conf, " %s", *w);
	mu_buf_str(&s->conf, "\n");
	return true;
}

static bool act_partition(struct story *s, char **word)
{
	mu_buf_printf(&s->conf, "PartitionName=%s", word[0]);
	for (char **w = word + 1; *w; w++)
		mu_buf_printf(&s->conf, " %s", strcmp(*w, "default") == 0 ? "Default=YES" : *w);
	mu_buf_str(&s->conf, "\n");
	return true;
}

static bool act_switch(struct story *s, char **word)
{
	mu_buf_printf(&s->conf, "SwitchName=%s", word[0]);
	for (char **w = word + 1; *w; w++)
		mu_buf_printf(&s->conf, " %s", *w);
	mu_buf_str(&s->conf, "\n");
	return true;
}

static bool act_gres(struct story *s, char **word)
{
	for (; *word; word++)
		mu_buf_printf(&s->gres, "%s%s", *word, word[1] ? " " : "\n");
	return true;
}

static int read_gres(void *arg, const char *name, struct mu_arena *arena, const char **ret_text,
		     struct mu_err *err)
{
	struct story *s = arg;
	if (strcmp(name, "gres.conf") != 0 || !s->gres.len)
		return mu_fail(err, MU_ENOENT, "There is no %s", name);
	*ret_text = mu_arena_printf(arena, "%.*s", (int)s->gres.len, (const char *)s->gres.data);
	return 0;
}

static bool act_config(struct story *s, char **word)
{
	for (; *word; word++)
		mu_buf_printf(&s->conf, "%s\n", *word);
	return true;
}

static Mu__Config *parse_conf(struct story *s)
{
	struct mu_err err = {0};
	Mu__Config *c = NULL;
	struct mu_buf text = {0};
	mu_buf_str(&text,
		   "ClusterName=story\nSlurmctldHost=c1\nGresTypes=gpu,shard\nSelectType=select/cons_tres\n");
	if (!strstr((const char *)s->conf.data, "SelectTypeParameters"))
		mu_buf_str(&text, "SelectTypeParameters=CR_CORE\n");
	if (!strstr((const char *)s->conf.data,
		    "SlurmdTimeout")) /* Stories without heartbeats lose no nodes. */
		mu_buf_str(&text, "SlurmdTimeout=0\n");
	mu_buf_add(&text, s->conf.data, s->conf.len);
	if (!strstr((const char *)s->conf.data, "PartitionName"))
		mu_buf_printf(&text, "PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n");
	if (mu_conf_parse("story.conf", (const char *)text.data, read_gres, NULL, s, &s->arena, &c, &err))
		wrong(s, "%s", err.text);
	mu_buf_free(&text);
	return c;
}

/* Devices of the node's first gres, in groups with links and cores of their own. */
static Mu__GresHave **devices(struct story *s, const Mu__NodeRow *row, char **word)
{
	Mu__GresHave **list = mu_arena_alloc(&s->arena, row->n_gres * sizeof(*list));
	Mu__GresHave *have = mu_arena_dup(&s->arena, row->gres[0], sizeof(*have));
	uint32_t count = (uint32_t)have->count, group = (uint32_t)number(word, "group", count);
	uint32_t cores = row->sockets * row->cores_per_socket, share = cores * group / count;
	const char *fault = story_value(word, "fault");
	memcpy(list, row->gres, row->n_gres * sizeof(*list));
	list[0] = have;
	have->unit = mu_arena_alloc(&s->arena, count * sizeof(*have->unit));
	have->file = mu_arena_alloc(&s->arena, count * sizeof(*have->file));
	have->n_unit = have->n_file = count;
	for (uint32_t i = 0; i < count; i++) {
		Mu__GresUnit *u = have->unit[i] = mu_arena_alloc(&s->arena, sizeof(*u));
		mu__gres_unit__init(u);
		have->file[i] = mu_arena_printf(&s->arena, "/dev/nvidia%u", i);
		u->uuid = mu_arena_printf(&s->arena, "GPU-%u", i);
		u->cores =
		    mu_arena_printf(&s->arena, "%u-%u", i / group * share, i / group * share + share - 1);
		u->n_link = count;
		u->link = mu_arena_alloc(&s->arena, count * sizeof(*u->link));
		for (uint32_t k = 0; k < count; k++)
			u->link[k] = i == k		      ? -1
				     : i / group == k / group ? (int32_t)number(word, "link", 0)
							      : 0;
		if (fault && strtoul(fault, NULL, 10) == i)
			u->fault = mu_arena_strdup(&s->arena, strchr(fault, ':') + 1);
	}
	return list;
}

static bool registers(struct story *s, const char *name, const char *boot, char **word)
{
	const Mu__NodeRow *row = sch_node(s->h.st, name);
	Mu__Event *e = story_event(s, MU__EVENT__KIND_NODE_REGISTERED);
	Mu__NodeRegistered *r = e->node_registered = mu_arena_alloc(&s->arena, sizeof(*r));
	Mu__NodeRow *n = mu_arena_alloc(&s->arena, sizeof(*n));
	if (!row)
		return wrong(s, "no node %s", name);
	mu__node_registered__init(r);
	mu__node_row__init(n);
	r->inventory = n;
	n->name = mu_arena_strdup(&s->arena, name);
	SET(n, cpus, (uint32_t)number(word, "cpus", row->cpus));
	SET(n, sockets, row->sockets);
	SET(n, cores_per_socket, row->cores_per_socket);
	SET(n, threads_per_core, row->threads_per_core);
	SET(n, real_memory_mib, number(word, "mem", row->real_memory_mib));
	SET(n, tmp_disk_mib, row->tmp_disk_mib);
	n->n_gres = row->n_gres;
	n->gres = row->n_gres && story_value(word, "group") ? devices(s, row, word) : row->gres;
	n->has_boot_id = 1;
	n->boot_id.data = (uint8_t *)boot;
	n->boot_id.len = strlen(boot);
	if (story_value(word, "held")) {
		static Mu__HeldAttempt held;
		static Mu__HeldAttempt *list[] = {&held};
		char *end;
		mu__held_attempt__init(&held);
		SET(&held, job, (uint32_t)strtoul(story_value(word, "held"), &end, 10));
		SET(&held, attempt, (uint32_t)strtoul(end + 1, NULL, 10));
		r->held = list;
		r->n_held = 1;
	}
	e->author = story_author(s, word);
	e->author->node = n->name;
	return story_ask(s, e);
}

static bool found(struct story *s, bool silent)
{
	s->founded = true;
	Mu__Event *e = story_event(s, MU__EVENT__KIND_FOUNDED);
	Mu__Founded *f = e->founded = mu_arena_alloc(&s->arena, sizeof(*f));
	char *none[] = {NULL};
	mu__founded__init(f);
	f->config = parse_conf(s);
	f->name = (char *)"story";
	f->has_cluster_id = 1;
	f->cluster_id.data = (uint8_t *)"0123456789abcdef";
	f->cluster_id.len = 16;
	SET(f, level, 1);
	int refused = s->refused;
	s->refused = 0;
	bool ok = f->config && lead(s, e);
	for (unsigned i = 1; i <= s->nodes && ok && !silent; i++)
		ok = registers(s, mu_arena_printf(&s->arena, "n%u", i), "boot 1", none);
	s->refused = refused;
	return ok;
}

/* reconfigure [mem=MIB]: the same file again, with another memory of each node. */
static bool act_reconfigure(struct story *s, char **word)
{
	Mu__Event *e = story_event(s, MU__EVENT__KIND_CONFIG_SET);
	Mu__ConfigSet *set = e->config_set = mu_arena_alloc(&s->arena, sizeof(*set));
	mu__config_set__init(set);
	e->author = story_author(s, word);
	set->config = parse_conf(s);
	for (size_t i = 0; set->config && i < set->config->n_node; i++)
		SET(set->config->node[i], real_memory_mib,
		    number(word, "mem", set->config->node[i]->real_memory_mib));
	return set->config && story_ask(s, e);
}

/* ---- jobs ---- */

static bool act_submit(struct story *s, char **word)
{
	Mu__Event *e = story_event(s, MU__EVENT__KIND_SUBMITTED);
	e->submitted = mu_arena_alloc(&s->arena, sizeof(*e->submitted));
	mu__submitted__init(e->submitted);
	e->author = story_author(s, word);
	e->submitted->component = mu_arena_alloc(&s->arena, 256 * sizeof(e->submitted->component[0]));
	for (char **w = word, **next; w; w = next) { /* A colon begins the next component. */
		for (next = w; *next && strcmp(*next, ":") != 0;)
			next++;
		char *colon = *next;
		*next = NULL;
		Mu__JobSpec *j = spec(s, w);
		if (!j)
			return false;
		if (!e->submitted->spec)
			e->submitted->spec = j;
		else if (e->submitted->n_component < 256)
			e->submitted->component[e->submitted->n_component++] = j;
		next = colon ? next + 1 : NULL;
	}
	if (!flag(word, "interactive"))
		SET(e->submitted->spec, batch, 1);
	return story_ask(s, e);
}

/* "3,5_[1-2],7_4": jobs, and tasks of arrays. */
struct named {
	uint32_t *id;
	size_t count;
	Mu__ArrayTasks **some;
	size_t some_count;
};

static struct named ids(struct story *s, const char *text)
{
	struct named n = {.id = mu_arena_alloc(&s->arena, 64 * sizeof(uint32_t)),
			  .some = mu_arena_alloc(&s->arena, 64 * sizeof(n.some[0]))};
	while (text && *text && n.count + n.some_count < 64) {
		char *end;
		uint32_t id = (uint32_t)strtoul(text, &end, 10);
		if (*end == '_') {
			const char *list = end + 1 + (end[1] == '[');
			size_t len = strcspn(list, end[1] == '[' ? "]" : ",");
			Mu__ArrayTasks *t = mu_arena_alloc(&s->arena, sizeof(*t));
			mu__array_tasks__init(t);
			SET(t, job, id);
			t->tasks = mu_arena_printf(&s->arena, "%.*s", (int)len, list);
			n.some[n.some_count++] = t;
			end = (char *)list + len + (end[1] == '[');
		} else {
			n.id[n.count++] = id;
		}
		text = *end == ',' ? end + 1 : NULL;
	}
	return n;
}

static bool act_signal(struct story *s, char **word)
{
	Mu__Event *e = story_event(s, MU__EVENT__KIND_JOB_SIGNAL);
	e->job_signal = mu_arena_alloc(&s->arena, sizeof(*e->job_signal));
	mu__job_signal__init(e->job_signal);
	struct named n = ids(s, word[0]);
	e->job_signal->job = n.id;
	e->job_signal->n_job = n.count;
	e->job_signal->some = n.some;
	e->job_signal->n_some = n.some_count;
	if (word[1] && isdigit((unsigned char)word[1][0]))
		SET(e->job_signal, signal, (uint32_t)strtoul(word[1], NULL, 10));
	e->author = story_author(s, word);
	return story_ask(s, e);
}

static bool hold(struct story *s, char **word, bool release)
{
	Mu__Event *e = story_event(s, MU__EVENT__KIND_JOB_HOLD);
	e->job_hold = mu_arena_alloc(&s->arena, sizeof(*e->job_hold));
	mu__job_hold__init(e->job_hold);
	struct named n = ids(s, word[0]);
	e->job_hold->job = n.id;
	e->job_hold->n_job = n.count;
	e->job_hold->some = n.some;
	e->job_hold->n_some = n.some_count;
	SET(e->job_hold, release, release);
	e->author = story_author(s, word);
	SET(e->job_hold, by_admin, e->author->operator_);
	return story_ask(s, e);
}

static bool act_hold(struct story *s, char **word)
{
	return hold(s, word, false);
}

static bool act_release(struct story *s, char **word)
{
	return hold(s, word, true);
}

static bool act_requeue(struct story *s, char **word)
{
	Mu__Event *e = story_event(s, MU__EVENT__KIND_JOB_REQUEUE);
	e->job_requeue = mu_arena_alloc(&s->arena, sizeof(*e->job_requeue));
	mu__job_requeue__init(e->job_requeue);
	struct named n = ids(s, word[0]);
	e->job_requeue->job = n.id;
	e->job_requeue->n_job = n.count;
	e->job_requeue->some = n.some;
	e->job_requeue->n_some = n.some_count;
	SET(e->job_requeue, hold, flag(word, "hold"));
	SET(e->job_requeue, incomplete, flag(word, "incomplete"));
	e->author = story_author(s, word);
	return story_ask(s, e);
}

static bool suspend(struct story *s, char **word, bool resume)
{
	Mu__Event *e = story_event(s, MU__EVENT__KIND_JOB_SUSPEND);
	e->job_suspend = mu_arena_alloc(&s->arena, sizeof(*e->job_suspend));
	mu__job_suspend__init(e->job_suspend);
	struct named n = ids(s, word[0]);
	e->job_suspend->job = n.id;
	e->job_suspend->n_job = n.count;
	e->job_suspend->some = n.some;
	e->job_suspend->n_some = n.some_count;
	SET(e->job_suspend, resume, resume);
	e->author = story_author(s, word);
	return story_ask(s, e);
}

static bool act_suspend(struct story *s, char **word)
{
	return suspend(s, word, false);
}

static bool act_resume(struct story *s, char **word)
{
	return suspend(s, word, true);
}

/* "features,licenses": their numbers. */
static uint32_t *field_numbers(struct story *s, const ProtobufCMessageDescriptor *d, const char *names,
			       size_t *ret_count)
{
	uint32_t *v = mu_arena_alloc(&s->arena, 32 * sizeof(*v));
	char *save = NULL, *copy = mu_arena_strdup(&s->arena, names ? names : "");
	for (char *w = strtok_r(copy, ",", &save); w && *ret_count < 32; w = strtok_r(NULL, ",", &save)) {
		const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field_by_name(d, w);
		v[(*ret_count)++] = f ? f->id : 0;
	}
	return v;
}

static bool act_update(struct story *s, char **word)
{
	Mu__Event *e = story_event(s, MU__EVENT__KIND_JOB_UPDATE);
	e->job_update = mu_arena_alloc(&s->arena, sizeof(*e->job_update));
	mu__job_update__init(e->job_update);
	struct named n = ids(s, word[0]);
	SET(e->job_update, job, n.count ? n.id[0] : n.some[0]->job);
	e->job_update->tasks = n.count ? NULL : n.some[0]->tasks;
	if (story_value(word, "throttle"))
		SET(e->job_update, array_throttle, (uint32_t)number(word, "throttle", 0));
	e->job_update->spec = spec(s, word + 1);
	SET(e->job_update, begin_now, flag(word, "now"));
	if (story_value(word, "by"))
		SET(e->job_update, limit_by_sec, strtoll(story_value(word, "by"), NULL, 10) * 60);
	if (story_value(word, "end"))
		SET(e->job_update, end_usec, s->h.now_usec + (int64_t)number(word, "end", 0) * 1000000);
	if (story_value(word, "cpus"))
		SET(e->job_update, cpus, (uint32_t)number(word, "cpus", 1));
	SET(e->job_update, accrue_again, flag(word, "accrue"));
	e->job_update->clear =
	    field_numbers(s, &mu__job_spec__descriptor, story_value(word, "clear"), &e->job_update->n_clear);
	e->author = story_author(s, word);
	return e->job_update->spec && story_ask(s, e);
}

static bool act_part(struct story *s, char **word)
{
	Mu__Event *e = story_event(s, MU__EVENT__KIND_PARTITION_UPDATE);
	Mu__PartitionConf *c = mu_arena_alloc(&s->arena, sizeof(*c));
	e->partition_update = mu_arena_alloc(&s->arena, sizeof(*e->partition_update));
	mu__partition_update__init(e->partition_update);
	mu__partition_conf__init(c);
	c->name = mu_arena_strdup(&s->arena, word[0]);
	e->partition_update->conf = c;
	for (char **w = word + 1; *w; w++) { /* KEY=VALUE as in the configuration; other words are ours. */
		char *equals = strchr(*w, '='), *key = mu_arena_strdup(&s->arena, *w);
		struct mu_err err = {0};
		if (!equals || !isupper((unsigned char)**w))
			continue;
		key[equals - *w] = 0;
		if (strcmp(key, "Nodes+") == 0)
			e->partition_update->nodes_more = mu_arena_strdup(&s->arena, equals + 1);
		else if (strcmp(key, "Nodes-") == 0)
			e->partition_update->nodes_less = mu_arena_strdup(&s->arena, equals + 1);
		else if (mu_conf_partition_word(key, mu_arena_strdup(&s->arena, equals + 1), NULL, NULL,
						&s->arena, e->partition_update, &err))
			return wrong(s, "%s", err.text);
	}
	SET(e->partition_update, create, flag(word, "create"));
	SET(e->partition_update, remove, flag(word, "remove"));
	e->author = story_author(s, word);
	return story_ask(s, e);
}

/* ---- what nodes say ---- */

static uint32_t cause_of(const char *word)
{
	static const struct {
		const char *word;
		uint32_t cause;
	} v[] = {
	    {"cancel", END_CANCEL},	   {"timeout", END_TIME_LIMIT},	    {"oom", END_OOM},
	    {"launch", END_LAUNCH_FAILED}, {"shepherd", END_SHEPHERD_LOST}, {"nosuch", END_NO_SUCH_ATTEMPT},
	    {"over", END_JOB_OVER}};
	for (size_t i = 0; word && i < sizeof(v) / sizeof(v[0]); i++)
		if (strcmp(v[i].word, word) == 0)
			return v[i].cause;
	return END_NONE;
}

static bool report(struct story *s, uint32_t job, const char *node, char **word, bool batch, bool released)
{
	const Mu__JobRow *row = sch_job(s->h.st, job);
	Mu__Event *e = story_event(s, MU__EVENT__KIND_ATTEMPT_ENDED);
	Mu__AttemptEnded *a = e->attempt_ended = mu_arena_alloc(&s->arena, sizeof(*a));
	mu__attempt_ended__init(a);
	SET(a, job, job);
	SET(a, attempt, (uint32_t)number(word, "attempt", row ? row->attempt : 1));
	a->node = mu_arena_strdup(&s->arena, node);
	SET(a, batch, batch);
	SET(a, released, released);
	if (batch) {
		SET(a, exit_code, (int32_t)number(word, "exit", 0));
		SET(a, exit_signal, (int32_t)number(word, "signal", 0));
		SET(a, oom_kills, (uint32_t)number(word, "oom", 0));
	}
	SET(a, cause, cause_of(story_value(word, "cause")));
	a->detail = mu_arena_strdup(&s->arena, story_value(word, "detail"));
	a->drain = mu_arena_strdup(&s->arena, story_value(word, "drain"));
	if (batch && flag(word, "step")) {
		static Mu__StepRow step;
		static Mu__StepRow *list[] = {&step};
		mu__step_row__init(&step);
		step.name = (char *)"batch";
		SET(&step, step, MU_STEP_BATCH);
		SET(&step, state, JOB_COMPLETED);
		a->step = list;
		a->n_step = 1;
	}
	e->author = story_author(s, word);
	e->author->node = a->node;
	return story_ask(s, e);
}

static bool act_end(struct story *s, char **word)
{
	const char *names[256];
	uint32_t job = story_job(s, word[0]);
	size_t count = sch_job_nodes(s->h.st, job, names, 256);
	if (!count)
		return wrong(s, "job %u runs nowhere", job);
	for (size_t i = 0; i < count; i++)
		names[i] = mu_arena_strdup(&s->arena, names[i]);
	bool ok = true;
	for (size_t i = 0; i < count && ok; i++)
		ok = report(s, job, names[i], word, i == 0, true);
	return ok;
}

static bool act_report(struct story *s, char **word)
{
	return report(s, story_job(s, word[0]), word[1], word, flag(word, "batch"), flag(word, "released"));
}

static bool act_node(struct story *s, char **word)
{
	const char *verb = word[1] ? word[1] : "";
	if (strcmp(verb, "register") == 0)
		return registers(s, word[0], "boot 1", word);
	if (strcmp(verb, "reboot") == 0)
		return registers(s, word[0], story_value(word, "boot") ? story_value(word, "boot") : "boot 2",
				 word);
	if (strcmp(verb, "fenced") == 0) {
		Mu__Event *e = story_event(s, MU__EVENT__KIND_NODE_FENCED);
		e->node_fenced = mu_arena_alloc(&s->arena, sizeof(*e->node_fenced));
		mu__node_fenced__init(e->node_fenced);
		e->node_fenced->node = mu_arena_strdup(&s->arena, word[0]);
		return lead(s, e);
	}
	Mu__Event *e = story_event(s, MU__EVENT__KIND_NODE_UPDATE);
	Mu__NodeUpdate *u = e->node_update = mu_arena_alloc(&s->arena, sizeof(*u));
	struct mu_err err = {0};
	mu__node_update__init(u);
	if (mu_hostlist_expand(word[0], 1000, &s->arena, &u->node, &u->n_node, &err))
		return wrong(s, "%s", err.text);
	if (!strchr(verb, '='))
		u->state = mu_arena_strdup(&s->arena, verb);
	u->reason = mu_arena_strdup(&s->arena, story_value(word, "reason"));
	u->comment = mu_arena_strdup(&s->arena, story_value(word, "comment"));
	if (story_value(word, "after"))
		SET(u, resume_after_sec, (uint32_t)number(word, "after", 0));
	SET(u, fenced, flag(word + 2, "fenced"));
	if (story_value(word, "weight"))
		SET(u, weight, (uint32_t)number(word, "weight", 1));
	if (story_value(word, "feature")) {
		SET(u, set_feature, 1);
		u->feature = mu_arena_alloc(&s->arena, sizeof(char *));
		u->feature[0] = mu_arena_strdup(&s->arena, story_value(word, "feature"));
		u->n_feature = 1;
	}
	e->author = story_author(s, word);
	return story_ask(s, e);
}

static bool act_heard(struct story *s, char **word)
{
	uint8_t bits[32] = {0};
	Mu__Event *e = story_event(s, MU__EVENT__KIND_NODES_HEARD);
	for (unsigned i = 0; i < s->nodes && i < 256; i++) {
		char name[16];
		snprintf(name, sizeof(name), "n%u", i + 1);
		bool in = strcmp(word[0], "all") == 0;
		char *copy = mu_arena_strdup(&s->arena, word[0]), *save = NULL;
		for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save))
			in = in || strcmp(w, name) == 0;
		if (in)
			bits[i / 8] |= (uint8_t)(1 << (i % 8));
	}
	e->nodes_heard = mu_arena_alloc(&s->arena, sizeof(*e->nodes_heard));
	mu__nodes_heard__init(e->nodes_heard);
	e->nodes_heard->has_heard = 1;
	e->nodes_heard->heard.data = bits;
	e->nodes_heard->heard.len = sizeof(bits);
	return lead(s, e);
}

static bool act_leader(struct story *s, char **word)
{
	Mu__Event *e = story_event(s, MU__EVENT__KIND_LEADER_ELECTED);
	e->leader_elected = mu_arena_alloc(&s->arena, sizeof(*e->leader_elected));
	mu__leader_elected__init(e->leader_elected);
	SET(e->leader_elected, replica, 2);
	return lead(s, e);
}

static bool act_tick(struct story *s, char **word)
{
	s->h.now_usec += strtoll(word[0], NULL, 10) * 1000000;
	Mu__Event *e = story_event(s, MU__EVENT__KIND_TICK);
	e->tick = mu_arena_alloc(&s->arena, sizeof(*e->tick));
	mu__tick__init(e->tick);
	return lead(s, e);
}

static bool act_decide(struct story *s, char **word)
{
	for (int i = 0; i < 1000; i++)
		if (!h_decide(&s->h))
			return true;
	return wrong(s, "decisions do not come to an end");
}

static bool act_again(struct story *s, char **word)
{
	struct sch_verdict first = s->h.verdict;
	if (!s->last)
		return wrong(s, "nothing was asked yet");
	h_apply(&s->h, s->last);
	if (!s->h.verdict.repeated || s->h.verdict.job != first.job || s->h.verdict.code != first.code)
		return wrong(s, "the repeated request got another answer");
	return true;
}

static bool act_budget(struct story *s, char **word)
{
	s->h.budget = (uint32_t)strtoul(word[0], NULL, 10);
	return true;
}

static bool act_found(struct story *s, char **word)
{
	return true; /* Done before any act. */
}

/* ---- lines ---- */

static const struct {
	const char *word;
	bool (*act)(struct story *, char **);
	bool before; /* belongs before the founding */
} acts[] = {
    {"gres", act_gres, true},	     {"nodes", act_nodes, true},    {"partition", act_partition, true},
    {"config", act_config, true},    {"switch", act_switch, true},  {"found", act_found, false},
    {"submit", act_submit, false},   {"tick", act_tick, false},	    {"decide", act_decide, false},
    {"leader", act_leader, false},   {"heard", act_heard, false},   {"end", act_end, false},
    {"report", act_report, false},   {"node", act_node, false},	    {"cancel", act_signal, false},
    {"signal", act_signal, false},   {"hold", act_hold, false},	    {"release", act_release, false},
    {"requeue", act_requeue, false}, {"update", act_update, false}, {"part", act_part, false},
    {"again", act_again, false},     {"show", act_show, false},	    {"account", act_account, false},
    {"user", act_user, false},	     {"qos", act_qos, false},	    {"resv", act_resv, false},
    {"remove", act_remove, false},   {"expect", act_expect, false}, {"budget", act_budget, false},
    {"suspend", act_suspend, false}, {"resume", act_resume, false}, {"reconfigure", act_reconfigure, false},
};

static bool run_line(struct story *s, char *line)
{
	char *word[WORDS + 1], *save = NULL;
	size_t n = 0;
	line[strcspn(line, "#\n")] = 0;
	for (char *w = strtok_r(line, " \t", &save); w && n < WORDS; w = strtok_r(NULL, " \t", &save))
		word[n++] = w;
	word[n] = NULL;
	if (!n)
		return true;
	char **first = word;
	s->refused = 0;
	if (strcmp(word[0], "refused") == 0 && n > 2) {
		s->refused = code_of(word[1]);
		first += 2;
	}
	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
		if (strcmp(acts[i].word, first[0]) != 0)
			continue;
		if (!acts[i].before && !s->founded && !found(s, flag(first, "silent")))
			return false;
		if (!first[1])
			first[1] = first[2] = NULL;
		return acts[i].act(s, first + 1) && !s->h.failure[0];
	}
	return wrong(s, "unknown word %s", first[0]);
}

static bool run_file(struct story *s, const char *path)
{
	char line[1024];
	FILE *f = fopen(path, "re");
	memset(s, 0, sizeof(*s));
	h_open(&s->h, true);
	mu_buf_str(&s->conf, "");
	s->start_usec = s->h.now_usec;
	s->file = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	s->show = getenv("SHOW") != NULL;
	bool ok = f != NULL || wrong(s, "cannot be read");
	while (ok && fgets(line, sizeof(line), f)) {
		s->line++;
		ok = run_line(s, line);
	}
	if (f)
		fclose(f);
	ok = ok && h_replay(&s->h);
	if (!ok)
		fprintf(stderr, "FAILED %s (line %u)\n", s->h.failure, s->line);
	return ok;
}

static void close_story(struct story *s)
{
	h_close(&s->h);
	mu_arena_free(&s->arena);
	mu_buf_free(&s->conf);
	mu_buf_free(&s->gres);
}

/* ---- recorded streams: "MUL1", then per event be64 time, be32 length, bytes; at the end be64 0, be32 0 and
 * the digest ---- */

static bool record(const char *scenario, const char *out)
{
	struct story s;
	uint8_t head[12];
	bool ok = run_file(&s, scenario);
	FILE *f = ok ? fopen(out, "we") : NULL;
	if (f) {
		fwrite("MUL1", 1, 4, f);
		for (size_t i = 0; i < s.h.count; i++) {
			mu_put_be64(head, (uint64_t)s.h.event[i].time_usec);
			mu_put_be32(head + 8, (uint32_t)s.h.event[i].len);
			fwrite(head, 1, sizeof(head), f);
			fwrite(s.h.event[i].bytes, 1, s.h.event[i].len, f);
		}
		memset(head, 0, sizeof(head));
		fwrite(head, 1, sizeof(head), f);
		fwrite(s.h.event[s.h.count - 1].digest.b, 1, MU_HASH_BYTES, f);
		ok = fclose(f) == 0;
	}
	close_story(&s);
	return ok && f;
}

static bool replay(const char *path)
{
	static uint8_t bytes[256 * 1024];
	uint8_t head[12];
	struct mu_hash want, have;
	struct harness h;
	FILE *f = fopen(path, "re");
	h_open(&h, false);
	bool ok = f && fread(head, 1, 4, f) == 4 && memcmp(head, "MUL1", 4) == 0;
	while (ok && fread(head, 1, sizeof(head), f) == sizeof(head) && mu_get_be64(head)) {
		uint32_t len = mu_get_be32(head + 8);
		h.now_usec = (int64_t)mu_get_be64(head);
		ok = len <= sizeof(bytes) && fread(bytes, 1, len, f) == len &&
		     h_apply_bytes(&h, bytes, len) != MU_EVERSION;
	}
	ok = ok && fread(want.b, 1, sizeof(want.b), f) == sizeof(want.b);
	sch_digest(h.st, &have);
	ok = ok && memcmp(&want, &have, sizeof(want)) == 0;
	printf("%s %s: %zu events\n", ok ? "ok" : "FAILED", path, h.count);
	if (f)
		fclose(f);
	h_close(&h);
	return ok;
}

int main(int argc, char **argv)
{
	bool ok = true;
	if (argc == 4 && strcmp(argv[1], "--record") == 0)
		return record(argv[2], argv[3]) ? 0 : 1;
	if (argc > 1 && strcmp(argv[1], "--replay") == 0) {
		for (int i = 2; i < argc; i++)
			ok = replay(argv[i]) && ok;
		return ok ? 0 : 1;
	}
	for (int i = 1; i < argc; i++) {
		struct story s;
		bool good = run_file(&s, argv[i]);
		printf("%s %s: %zu events\n", good ? "ok" : "FAILED", argv[i], s.h.count);
		ok = ok && good;
		close_story(&s);
	}
	return ok && argc > 1 ? 0 : 1;
}
