/* sched/sim/year.c: what happens at a site besides plain jobs, out of a seed: see sim.h. */
#include "proto/base/seed.h"
#include "proto/conf.h"
#include "proto/states.h"
#include "sched/sim/sim.h"
#include "sched/state.h"

enum {
	ACCOUNTS = 12,
	TASKS_MAX = 40,
	RESV_EVERY = 2000,
	FALL_EVERY = 1500,
	DRAIN_EVERY = 4000,
	CONF_EVERY = 10000
};

struct year {
	const struct sch_sim_model *m;
	const Mu__Config *config;
	struct mu_arena *arena;
	struct mu_seed g;
	struct sch_sim_job *job;
	struct sch_sim_act *act;
	uint32_t count, cap;
	int64_t begin_usec, span_usec;
};

static bool one_in(struct year *y, uint32_t n)
{
	return mu_seed_below(&y->g, n) == 0;
}

static int64_t some_time(struct year *y)
{
	return y->begin_usec +
	       (int64_t)mu_seed_below(&y->g, (uint32_t)(y->span_usec / SCH_USEC) + 1) * SCH_USEC;
}

/* Acts of root, who sits at a controller. */
static Mu__Event *add(struct year *y, int64_t usec, Mu__Event__KindCase kind)
{
	Mu__Event *e = mu_arena_alloc(y->arena, sizeof(*e));
	if (y->count == y->cap) {
		struct sch_sim_act *was = y->act;
		y->cap = y->cap ? 2 * y->cap : 64;
		y->act = mu_arena_alloc(y->arena, y->cap * sizeof(y->act[0]));
		if (was)
			memcpy(y->act, was, y->count * sizeof(was[0]));
	}
	mu__event__init(e);
	e->kind_case = kind;
	e->author = mu_arena_alloc(y->arena, sizeof(*e->author));
	mu__author__init(e->author);
	SCH_SET(e->author, uid, 0);
	SCH_SET(e->author, gid, 0);
	SCH_SET(e->author, operator_, true);
	e->author->user = e->author->group = (char *)"root";
	e->author->verifier = (char *)"socket";
	y->act[y->count++] = (struct sch_sim_act){usec, e};
	return e;
}

/* ---- accounts ---- */

static Mu__AccountsChange *change(struct year *y, Mu__AccountsChanged *c, Mu__AccountsChange__KindCase kind)
{
	Mu__AccountsChange *k = mu_arena_alloc(y->arena, sizeof(*k));
	mu__accounts_change__init(k);
	k->kind_case = kind;
	c->change[c->n_change++] = k;
	return k;
}

static char *account_name(struct year *y, uint32_t n)
{
	return mu_arena_printf(y->arena, "a%u", n);
}

static void associate(struct year *y, Mu__AccountsChanged *c, uint32_t account, char *user, char *parent)
{
	Mu__AssocPut *p = mu_arena_alloc(y->arena, sizeof(*p));
	mu__assoc_put__init(p);
	p->account = account_name(y, account);
	p->user = user;
	p->parent = parent;
	SCH_SET(p, create, true);
	SCH_SET(p, shares, 1 + mu_seed_below(&y->g, 9));
	change(y, c, MU__ACCOUNTS_CHANGE__KIND_ASSOC)->assoc = p;
}

/* A tree: each account but the first few is below another; each user in one of them, as the model names
 * users. */
static void accounts(struct year *y)
{
	Mu__Event *e = add(y, y->begin_usec, MU__EVENT__KIND_ACCOUNTS_CHANGED);
	Mu__AccountsChanged *c = e->accounts_changed = mu_arena_alloc(y->arena, sizeof(*c));
	mu__accounts_changed__init(c);
	c->change = mu_arena_alloc(y->arena, (2 * ACCOUNTS + 2 * (y->m->users + 1)) * sizeof(c->change[0]));
	for (uint32_t i = 0; i < ACCOUNTS; i++) {
		Mu__AccountPut *a = mu_arena_alloc(y->arena, sizeof(*a));
		mu__account_put__init(a);
		a->name = account_name(y, i);
		SCH_SET(a, create, true);
		change(y, c, MU__ACCOUNTS_CHANGE__KIND_ACCOUNT)->account = a;
		associate(y, c, i, NULL, i < 3 ? NULL : account_name(y, mu_seed_below(&y->g, i)));
	}
	for (uint32_t i = 0; i < y->m->users; i++) {
		Mu__UserPut *u = mu_arena_alloc(y->arena, sizeof(*u));
		uint32_t of = mu_seed_below(&y->g, ACCOUNTS);
		mu__user_put__init(u);
		u->name = mu_arena_printf(y->arena, "u%u", i);
		u->default_account = account_name(y, of);
		SCH_SET(u, create, true);
		change(y, c, MU__ACCOUNTS_CHANGE__KIND_USER)->user = u;
		associate(y, c, of, u->name, NULL);
	}
}

/* ---- the machine ---- */

static void node_act(struct year *y, int64_t usec, char *node, const char *state, const char *reason)
{
	Mu__NodeUpdate *u = mu_arena_alloc(y->arena, sizeof(*u));
	mu__node_update__init(u);
	u->node = mu_arena_dup(y->arena, &node, sizeof(node));
	u->n_node = 1;
	u->state = (char *)state;
	u->reason = (char *)reason;
	if (strcmp(state, "DOWN") == 0)
		SCH_SET(u, fenced, true);
	add(y, usec, MU__EVENT__KIND_NODE_UPDATE)->node_update = u;
}

static char *some_node(struct year *y)
{
	return y->config->node[mu_seed_below(&y->g, (uint32_t)y->config->n_node)]->name;
}

static void nodes(struct year *y)
{
	for (uint32_t i = 0; i < 1 + y->m->jobs / FALL_EVERY; i++) {
		int64_t usec = some_time(y);
		char *node = some_node(y);
		node_act(y, usec, node, "DOWN", "power supply");
		node_act(y, usec + (1 + mu_seed_below(&y->g, 7200)) * SCH_USEC, node, "RESUME", NULL);
	}
	for (uint32_t i = 0; i < 1 + y->m->jobs / DRAIN_EVERY; i++) {
		int64_t usec = some_time(y);
		char *node = some_node(y);
		node_act(y, usec, node, "DRAIN", "firmware");
		node_act(y, usec + (1 + mu_seed_below(&y->g, 86400)) * SCH_USEC, node, "RESUME", NULL);
	}
}

/* The same file with another weight, as an administrator who tries things would have it. */
static void configurations(struct year *y)
{
	static const char *const weights[] = {"PriorityWeightAge", "PriorityWeightFairshare",
					      "PriorityWeightJobSize"};
	for (uint32_t i = 0; i < 1 + y->m->jobs / CONF_EVERY; i++) {
		Mu__ConfigSet *set = mu_arena_alloc(y->arena, sizeof(*set));
		Mu__Config *c = mu_arena_dup(y->arena, y->config, sizeof(*c));
		const char *key = weights[mu_seed_below(&y->g, 3)];
		Mu__KeyValue *kv = mu_arena_alloc(y->arena, sizeof(*kv));
		mu__config_set__init(set);
		mu__key_value__init(kv);
		kv->key = (char *)key;
		kv->value = mu_arena_printf(y->arena, "%u", 100 * mu_seed_below(&y->g, 100));
		c->key = mu_arena_alloc(y->arena, (c->n_key + 1) * sizeof(c->key[0]));
		c->n_key = 0;
		for (size_t k = 0; k < y->config->n_key; k++)
			if (strcmp(y->config->key[k]->key, key) != 0)
				c->key[c->n_key++] = y->config->key[k];
		c->key[c->n_key++] = kv;
		set->config = c;
		add(y, some_time(y), MU__EVENT__KIND_CONFIG_SET)->config_set = set;
	}
}

/* ---- reservations ---- */

/* The jobs that its owner sends to it while it lasts: he takes over the next ones that come then. */
static void fill(struct year *y, const Mu__ReservationRow *r, Mu__Author *owner, uint32_t from)
{
	for (uint32_t i = from, n = 0; i < y->m->jobs && n < 4 && y->job[i].submit_usec < r->end_usec; i++) {
		struct sch_sim_job *j = &y->job[i];
		if (j->submit_usec < r->start_usec || j->tasks || j->task_of || j->after ||
		    j->spec->reservation)
			continue;
		j->author = owner;
		j->spec->n_partition = 0;
		j->spec->reservation = r->name;
		SCH_SET(j->spec, ntasks, 1 + mu_seed_below(&y->g, 8));
		j->cancel_usec = r->end_usec - j->submit_usec; /* Later it would wait for ever. */
		n++;
	}
}

static uint32_t first_after(const struct year *y, int64_t usec)
{
	uint32_t low = 0, high = y->m->jobs;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (y->job[middle].submit_usec < usec)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void reservations(struct year *y)
{
	for (uint32_t i = 0; i < 1 + y->m->jobs / RESV_EVERY; i++) {
		int64_t usec = some_time(y);
		Mu__ReservationChanged *c = mu_arena_alloc(y->arena, sizeof(*c));
		Mu__ReservationRow *r = mu_arena_alloc(y->arena, sizeof(*r));
		Mu__Author *owner = y->job[mu_seed_below(&y->g, y->m->jobs)].author;
		mu__reservation_changed__init(c);
		mu__reservation_row__init(r);
		r->name = mu_arena_printf(y->arena, "r%u", i);
		r->user = mu_arena_dup(y->arena, &owner->user, sizeof(owner->user));
		r->n_user = 1;
		SCH_SET(r, start_usec, usec + (600 + mu_seed_below(&y->g, 86400)) * SCH_USEC);
		SCH_SET(r, end_usec, r->start_usec + (1800 + mu_seed_below(&y->g, 28800)) * SCH_USEC);
		r->nodes = some_node(y);
		SCH_SET(r, flags, one_in(y, 2) ? RESV_FLAG_IGNORE_JOBS : 0);
		c->row = r;
		SCH_SET(c, create, true);
		add(y, usec, MU__EVENT__KIND_RESERVATION_CHANGED)->reservation_changed = c;
		fill(y, r, owner, first_after(y, r->start_usec));
	}
}

/* ---- jobs ---- */

/* The jobs from AT on become one array; how many. */
static uint32_t make_array(struct year *y, uint32_t at)
{
	struct sch_sim_job *first = &y->job[at];
	uint32_t left = y->m->jobs - at, n = 2 + mu_seed_below(&y->g, TASKS_MAX - 1);
	n = n < left ? n : left;
	if (n < 2)
		return 1;
	first->tasks = n;
	first->spec->array = one_in(y, 3) ? mu_arena_printf(y->arena, "0-%u%%%u", n - 1, 1 + n / 4)
					  : mu_arena_printf(y->arena, "0-%u", n - 1);
	SCH_SET(first->spec, ntasks, 1 + mu_seed_below(&y->g, 4));
	for (uint32_t i = 1; i < n; i++) {
		struct sch_sim_job *j = &first[i];
		j->spec = first->spec;
		j->author = first->author;
		j->submit_usec = first->submit_usec;
		j->task_of = at + 1;
		j->exit_code = one_in(y, 12);
	}
	return n;
}

/* To another partition, within its limit. */
static void elsewhere(Mu__JobSpec *s, Mu__PartitionConf *p)
{
	s->partition = &p->name;
	s->n_partition = 1;
	if (p->max_time_sec > 0 && s->time_limit_sec > p->max_time_sec)
		SCH_SET(s, time_limit_sec, p->max_time_sec);
}

static void jobs(struct year *y)
{
	size_t parts = y->config->n_partition;
	for (uint32_t i = 0; i < y->m->jobs;) {
		struct sch_sim_job *j = &y->job[i];
		int64_t run_sec = j->run_usec / SCH_USEC;
		j->exit_code = one_in(y, 12) ? 1 + (int)mu_seed_below(&y->g, 3) : 0;
		if (parts > 1 && one_in(y, 16))
			elsewhere(j->spec, y->config->partition[mu_seed_below(&y->g, (uint32_t)parts)]);
		if (one_in(y, 40))
			j->cancel_usec =
			    (1 + (int64_t)mu_seed_below(&y->g, (uint32_t)(2 * run_sec))) * SCH_USEC;
		if (i && one_in(y, 25))
			j->after = 1 + i - 1 - mu_seed_below(&y->g, i < 20 ? i : 20);
		if (one_in(y, 50)) /* It asked for too little. */
			SCH_SET(j->spec, time_limit_sec, (run_sec / 120 + 1) * 60);
		i += one_in(y, 60) ? make_array(y, i) : 1;
	}
}

void sch_sim_year(const struct sch_sim_model *m, const Mu__Config *config, struct mu_arena *arena,
		  struct sch_sim_job *job, struct sch_sim_act **ret_acts, uint32_t *ret_count)
{
	struct year y = {.m = m, .config = config, .arena = arena, .job = job, .begin_usec = m->begin_usec};
	int64_t last = m->jobs ? job[m->jobs - 1].submit_usec : m->begin_usec;
	y.span_usec = last - m->begin_usec;
	mu_seed_init(&y.g, m->seed ^ UINT64_C(0x79656172));
	jobs(&y);
	accounts(&y);
	if (m->jobs && config->n_node) {
		nodes(&y);
		reservations(&y);
	}
	configurations(&y);
	*ret_acts = y.act;
	*ret_count = y.count;
}
