/* query/usage.c: what was used in a window of time, integrated exactly over the allocations of jobs and the
 * states of nodes.
 *
 * A job holds what it was allocated from its start to its end, but for the time in which it is suspended; a
 * second belongs to the window in which it begins. So windows that meet add up, and each job's seconds are
 * computed once: whatever they are grouped by, the sums are the same. A node reports from when it was first
 * known; it is down while its state is DOWN or UNKNOWN, drained or failing, as far as no job holds it then.
 *
 * A device that a job holds is unused while no step of the job has it. A batch script may use devices itself: where
 * no step of a batch job was ever given one, they count as used by the script. */
#include "query/answer.h"

#include <stdio.h>

#include "proto/base/bits.h"
#include "proto/hostlist.h"
#include "proto/pb.h"
#include "proto/states.h"

enum { GROUPS_MAX = 1000000, NODE_LIFE_MAX = 20000, RESV_LIFE_MAX = 100000, SPANS_MAX = 4096, JOB_LIFE_MAX = 20000 };

#define SEC INT64_C(1000000)

struct down {
	int64_t from, to; /* seconds */
};
struct node {
	char *name;
	int64_t since;
	struct down *down;
	size_t downs;
	Mu__NodeRow *row;
	Mu__UsageRow *use;    /* what jobs held of it */
	Mu__UsageRow *hidden; /* of that, while it was down */
};
struct still {
	int64_t from, to; /* microseconds; to 0: it lasts */
};
struct usage {
	struct answer *a;
	int64_t from, to; /* seconds */
	struct mu_map group, node, resv; /* resv: name and start */
	Mu__UsageRow *others; /* what is not shown to the caller */
	Mu__UsageRow *waited; /* what eligible jobs asked for while they waited */
	struct still *still;  /* when the job that is looked at was suspended */
	size_t stills;
	size_t groups;
};

static int64_t floor_sec(int64_t usec)
{
	return usec / SEC;
}

/* Seconds of [BEGIN, END) microseconds within [FROM, TO) seconds; END 0: it lasts. */
static int64_t overlap(int64_t begin, int64_t end, int64_t from, int64_t to)
{
	int64_t x = floor_sec(begin), y = end ? floor_sec(end) : to;

	x = x > from ? x : from;
	y = y < to ? y : to;
	return y > x ? y - x : 0;
}

/* ---- sums ---- */

static Mu__UsageRow *row_new(struct usage *u, uint32_t kind)
{
	Mu__UsageRow *r = mu_arena_alloc(u->a->arena, sizeof *r);

	mu__usage_row__init(r);
	r->has_kind = 1;
	r->kind = kind;
	return r;
}

static void add_to(struct usage *u, Mu__TresCount ***list, size_t *count, const char *tres, int64_t amount)
{
	if (!amount)
		return;
	for (size_t i = 0; i < *count; i++)
		if (strcmp((*list)[i]->name, tres) == 0) {
			(*list)[i]->count += amount;
			return;
		}
	Mu__TresCount **v = mu_arena_alloc(u->a->arena, (*count + 1) * sizeof *v);
	Mu__TresCount *t = mu_arena_alloc(u->a->arena, sizeof *t);
	if (*count)
		memcpy(v, *list, *count * sizeof *v);
	mu__tres_count__init(t);
	t->name = mu_arena_strdup(u->a->arena, tres);
	t->has_count = 1;
	t->count = amount;
	v[(*count)++] = t;
	*list = v;
}

static void add(struct usage *u, Mu__UsageRow *r, const char *tres, int64_t amount)
{
	add_to(u, &r->used, &r->n_used, tres, amount);
}

/* "gres/NAME", and "gres/NAME:TYPE" where there is a type. */
static void add_gres(struct usage *u, Mu__TresCount ***list, size_t *count, const char *name, const char *type,
		     int64_t amount)
{
	char text[300];

	snprintf(text, sizeof text, "gres/%s", name ? name : "?");
	add_to(u, list, count, text, amount);
	if (!type || !*type)
		return;
	snprintf(text, sizeof text, "gres/%s:%s", name ? name : "?", type);
	add_to(u, list, count, text, amount);
}

static void add_alloc(struct usage *u, Mu__UsageRow *r, const Mu__AllocNode *n, int64_t sec)
{
	add(u, r, "cpu", sec * n->cpus);
	add(u, r, "mem", sec * (int64_t)n->mem_mib);
	add(u, r, "node", sec);
	for (size_t i = 0; i < n->n_gres; i++)
		add_gres(u, &r->used, &r->n_used, n->gres[i]->name, n->gres[i]->type,
			 sec * (int64_t)n->gres[i]->count);
}

static char *copy(struct usage *u, const char *text)
{
	return mu_arena_strdup(u->a->arena, text ? text : "");
}

/* The group that the job belongs to: of equal account, user, partition, QOS, wckey, reservation and number of
 * CPUs. */
static Mu__UsageRow *group_of(struct usage *u, const Mu__JobRow *j, uint32_t cpus)
{
	const char *words[] = {j->account, j->user, j->partition, j->qos, j->spec ? j->spec->wckey : NULL,
			       j->reservation};
	char text[1024];
	struct mu_hash key;
	int n = snprintf(text, sizeof text, "%u", cpus);

	for (size_t i = 0; i < sizeof words / sizeof *words && n < (int)sizeof text; i++)
		n += snprintf(text + n, sizeof text - (size_t)n, "%c%s", 1, words[i] ? words[i] : "");
	mu_hash_bytes(text, n < (int)sizeof text ? (size_t)n : sizeof text - 1, &key);
	Mu__UsageRow *r = mu_map_get(&u->group, key.b, sizeof key.b);

	if (r)
		return r;
	r = row_new(u, 1);
	r->account = copy(u, j->account);
	r->user = copy(u, j->user);
	r->partition = copy(u, j->partition);
	r->qos = copy(u, j->qos);
	r->wckey = copy(u, j->spec ? j->spec->wckey : NULL);
	r->reservation = copy(u, j->reservation);
	r->has_cpus = r->has_jobs = r->has_uid = 1;
	r->cpus = cpus;
	r->uid = j->uid;
	mu_map_put(&u->group, key.b, sizeof key.b, r);
	u->groups++;
	return r;
}

/* ---- jobs that stand still ---- */

/* When J was suspended, from what it became. */
static int job_stills(struct usage *u, const Mu__JobRow *j)
{
	Mu__Moment **life;
	size_t count;

	u->stills = 0;
	if (!j->suspend_usec)
		return 0;
	int code = answer_life(u->a, j->id, NULL, 0, JOB_LIFE_MAX, &life, &count);
	if (code)
		return code;
	u->still = mu_arena_alloc(u->a->arena, (count + 1) * sizeof *u->still);
	for (size_t i = 0; i < count; i++) {
		bool open = u->stills && u->still[u->stills - 1].to == 0;
		bool still = life[i]->job && life[i]->job->state == JOB_SUSPENDED;
		if (still && !open)
			u->still[u->stills++] = (struct still){life[i]->time_usec, 0};
		else if (!still && open)
			u->still[u->stills - 1].to = life[i]->time_usec;
	}
	return 0;
}

/* Seconds of [FROM, TO) in which J held what it was allocated. */
static int64_t held_sec(const struct usage *u, const Mu__JobRow *j, int64_t from, int64_t to)
{
	int64_t sec = overlap(j->start_usec, j->end_usec, from, to);
	int64_t first = floor_sec(j->start_usec), last = j->end_usec ? floor_sec(j->end_usec) : to;

	first = first > from ? first : from;
	last = last < to ? last : to;
	for (size_t i = 0; i < u->stills && last > first; i++)
		sec -= overlap(u->still[i].from, u->still[i].to, first, last);
	return sec;
}

/* ---- nodes ---- */

static bool is_down(const Mu__NodeRow *n)
{
	return n->base_state == NODE_DOWN || n->base_state == NODE_UNKNOWN ||
	       (n->flags & (NODE_FLAG_DRAIN | NODE_FLAG_FAIL));
}

static int node_life(struct usage *u, struct node *n)
{
	Mu__Moment **life;
	size_t count;
	int code = answer_life(u->a, 0, n->name, 0, NODE_LIFE_MAX, &life, &count);

	n->since = count ? floor_sec(life[0]->time_usec) : u->from;
	n->down = mu_arena_alloc(u->a->arena, (count + 1) * sizeof *n->down);
	for (size_t i = 0; i < count; i++) {
		int64_t at = floor_sec(life[i]->time_usec);
		bool down = life[i]->node && is_down(life[i]->node);
		bool open = n->downs && n->down[n->downs - 1].to == INT64_MAX;
		if (down && !open)
			n->down[n->downs++] = (struct down){at, INT64_MAX};
		else if (!down && open)
			n->down[n->downs - 1].to = at;
	}
	return code;
}

static int add_node(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err)
{
	struct usage *u = arg;
	struct node *n = mu_arena_alloc(u->a->arena, sizeof *n);

	(void)err;
	n->name = mu_arena_alloc(u->a->arena, key.len + 1);
	memcpy(n->name, key.data, key.len);
	n->row = (Mu__NodeRow *)mu_pb_unpack(&mu__node_row__descriptor, row.data, row.len, u->a->arena);
	n->use = row_new(u, 2);
	n->use->node = n->name;
	n->hidden = row_new(u, 0);
	mu_map_put(&u->node, key.data, key.len, n);
	return 0;
}

static void node_held(struct usage *u, const Mu__JobRow *j, const Mu__AllocNode *alloc, int64_t sec)
{
	struct node *n = alloc->node ? mu_map_get_str(&u->node, alloc->node) : NULL;

	if (!n)
		return;
	add_alloc(u, n->use, alloc, sec);
	for (size_t i = 0; i < n->downs; i++) {
		int64_t from = n->down[i].from > u->from ? n->down[i].from : u->from;
		int64_t to = n->down[i].to < u->to ? n->down[i].to : u->to;
		int64_t hidden = to > from ? held_sec(u, j, from, to) : 0;
		if (hidden)
			add_alloc(u, n->hidden, alloc, hidden);
	}
}

static int64_t used_of(const Mu__UsageRow *r, const char *tres)
{
	for (size_t i = 0; i < r->n_used; i++)
		if (strcmp(r->used[i]->name, tres) == 0)
			return r->used[i]->count;
	return 0;
}

static void node_tres(struct usage *u, const struct node *n, const char *tres, int64_t have, int64_t known,
		      int64_t down, Mu__UsageRow *total, Mu__UsageRow *away)
{
	(void)u;
	add(u, total, tres, have * known);
	/* What a job holds of a node that drains is held, not down. */
	int64_t lost = have * down - used_of(n->hidden, tres);
	add(u, away, tres, lost > 0 ? lost : 0);
}

/* The node's share of what the cluster reports and of what was down. */
static void node_totals(struct usage *u, const struct node *n, Mu__UsageRow *total, Mu__UsageRow *away)
{
	const Mu__NodeRow *row = n->row;
	int64_t from = n->since > u->from ? n->since : u->from, down = 0;
	int64_t known = u->to > from ? u->to - from : 0;
	char text[300];

	for (size_t i = 0; i < n->downs; i++) {
		int64_t x = n->down[i].from > from ? n->down[i].from : from;
		int64_t y = n->down[i].to < u->to ? n->down[i].to : u->to;
		down += y > x ? y - x : 0;
	}
	if (!row || row->base_state == NODE_FUTURE)
		return;
	node_tres(u, n, "cpu", row->cpus, known, down, total, away);
	node_tres(u, n, "mem", (int64_t)row->real_memory_mib, known, down, total, away);
	node_tres(u, n, "node", 1, known, down, total, away);
	for (size_t i = 0; i < row->n_gres; i++) {
		const Mu__GresHave *g = row->gres[i];
		snprintf(text, sizeof text, "gres/%s", g->name ? g->name : "?");
		node_tres(u, n, text, (int64_t)g->count, known, down, total, away);
		if (!g->type || !*g->type)
			continue;
		snprintf(text, sizeof text, "gres/%s:%s", g->name ? g->name : "?", g->type);
		node_tres(u, n, text, (int64_t)g->count, known, down, total, away);
	}
}

/* ---- devices that nobody uses ---- */

static bool has_devices(const Mu__StepRow *s)
{
	return s->n_gres > 0 && s->step != MU_STEP_EXTERN;
}

struct span {
	int64_t from, to; /* seconds */
	uint64_t count;
};

/* Device-seconds in which the spans together have up to MOST devices: the spans end where the window does. */
static int64_t covered(const struct span *v, size_t n, uint64_t most, int64_t from, int64_t to)
{
	int64_t sum = 0;

	/* From border to border; steps of one job are few. */
	for (int64_t at = from; at < to;) {
		int64_t next = to;
		uint64_t count = 0;
		for (size_t i = 0; i < n; i++) {
			if (v[i].from <= at && v[i].to > at) {
				count += v[i].count;
				next = v[i].to < next ? v[i].to : next;
			} else if (v[i].from > at && v[i].from < next) {
				next = v[i].from;
			}
		}
		sum += (int64_t)(count < most ? count : most) * (next - at);
		at = next;
	}
	return sum;
}

/* Of DEVICE (a name and type), what the job's steps had of it within the window. */
static int64_t used_by_steps(struct usage *u, Mu__StepRow *const *step, size_t steps, const Mu__JobRow *j,
			     const Mu__GresGot *device, uint64_t most)
{
	struct span *v = mu_arena_alloc(u->a->arena, (steps + 1) * sizeof *v);
	int64_t from = floor_sec(j->start_usec), to = j->end_usec ? floor_sec(j->end_usec) : u->to;
	size_t n = 0;

	from = from > u->from ? from : u->from;
	to = to < u->to ? to : u->to;
	for (size_t i = 0; i < steps; i++)
		for (size_t g = 0; g < step[i]->n_gres && n < steps; g++) {
			const Mu__GresGot *got = step[i]->gres[g];
			const char *type = got->type ? got->type : "", *asked = device->type ? device->type : "";
			if (!has_devices(step[i]) || !got->name || strcmp(got->name, device->name) != 0 ||
			    (*type && strcmp(type, asked) != 0))
				continue;
			v[n++] = (struct span){floor_sec(step[i]->start_usec),
					       step[i]->end_usec ? floor_sec(step[i]->end_usec) : to,
					       got->count};
		}
	return covered(v, n, most, from, to);
}

/* Counts into R what the job held of devices in SEC seconds while no step had them. */
static void unused_devices(struct usage *u, Mu__UsageRow *r, const Mu__HistRow *row, int64_t sec)
{
	const Mu__JobRow *j = row->job;
	Mu__GresGot *device[16];
	uint64_t held[16] = {0};
	size_t n = 0, k;
	bool asked = false, batch = false;

	for (size_t i = 0; i < row->n_step; i++) {
		asked = asked || has_devices(row->step[i]);
		batch = batch || row->step[i]->step == MU_STEP_BATCH;
	}
	if ((batch && !asked) || row->n_step > SPANS_MAX)
		return;
	for (size_t i = 0; i < j->n_alloc; i++)
		for (size_t g = 0; g < j->alloc[i]->n_gres; g++) {
			Mu__GresGot *got = j->alloc[i]->gres[g];
			for (k = 0; k < n && (strcmp(device[k]->name, got->name) != 0 ||
					      strcmp(device[k]->type ? device[k]->type : "",
						     got->type ? got->type : "") != 0);)
				k++;
			if (k == 16)
				continue;
			if (k == n)
				device[n++] = got;
			held[k] += got->count;
		}
	for (k = 0; k < n; k++) {
		int64_t rest = sec * (int64_t)held[k] -
			       used_by_steps(u, row->step, row->n_step, j, device[k], held[k]);
		if (rest > 0)
			add_gres(u, &r->unused, &r->n_unused, device[k]->name, device[k]->type, rest);
	}
}

/* ---- jobs ---- */

static int take_job(struct answer *a, struct mu_view hist_row)
{
	struct usage *u = a->each_arg;
	struct mu_arena arena = {0};
	const Mu__HistRow *row =
	    (Mu__HistRow *)mu_pb_unpack(&mu__hist_row__descriptor, hist_row.data, hist_row.len, &arena);
	const Mu__JobRow *j = row ? row->job : NULL;
	int64_t sec = 0;
	int code = 0;

	if (j && j->eligible_usec && j->eligible_usec <= a->source.now_usec) {
		int64_t until = j->start_usec ? j->start_usec : j->end_usec;
		add(u, u->waited, "cpu", overlap(j->eligible_usec, until, u->from, u->to) * j->cpus_total);
	}
	if (j && j->start_usec && overlap(j->start_usec, j->end_usec, u->from, u->to)) {
		code = job_stills(u, j);
		sec = held_sec(u, j, u->from, u->to);
	}
	/* A job that began within the window counts as one of it, however short it was. */
	bool began =
	    j && j->start_usec && floor_sec(j->start_usec) >= u->from && floor_sec(j->start_usec) < u->to;
	if (sec || began) {
		uint32_t cpus = 0;
		for (size_t i = 0; i < j->n_alloc; i++)
			cpus += j->alloc[i]->cpus;
		bool hidden = answer_hides(a, VIEW_PRIVATE_USAGE) && j->uid != a->caller->uid;
		Mu__UsageRow *r = hidden ? u->others : group_of(u, j, cpus ? cpus : j->cpus_total);
		r->jobs += began;
		for (size_t i = 0; i < j->n_alloc && sec; i++) {
			add_alloc(u, r, j->alloc[i], sec);
			node_held(u, j, j->alloc[i], sec);
		}
		if (sec) {
			add(u, r, "billing", sec * (int64_t)(j->billing ? j->billing : cpus));
			unused_devices(u, r, row, sec);
		}
	}
	mu_arena_free(&arena);
	if (code)
		return code;
	return u->groups > GROUPS_MAX
		   ? mu_fail(a->err, MU_ELIMIT, "more than %d groups; ask for a shorter time", GROUPS_MAX)
		   : 0;
}

/* ---- reservations ---- */

/* What a reservation keeps of one node of it: all, or the CPUs that are named. */
static void keep_node(struct usage *u, Mu__UsageRow *r, const struct node *n, uint64_t cpus, int64_t sec)
{
	const Mu__NodeRow *row = n->row;

	if (!row)
		return;
	add(u, r, "cpu", sec * (int64_t)(cpus ? cpus : row->cpus));
	add(u, r, "node", sec);
	if (cpus)
		return;
	add(u, r, "mem", sec * (int64_t)row->real_memory_mib);
	for (size_t i = 0; i < row->n_gres; i++)
		add_gres(u, &r->used, &r->n_used, row->gres[i]->name, row->gres[i]->type,
			 sec * (int64_t)row->gres[i]->count);
}

static uint64_t count_cpus(const char *list)
{
	struct mu_bits bits = {0};
	uint64_t count = list && !mu_bits_parse(&bits, list, 65535) ? mu_bits_count(&bits) : 0;

	mu_bits_free(&bits);
	return count;
}

static uint64_t cores_of(const Mu__ReservationRow *v, const char *node)
{
	for (size_t i = 0; i < v->n_cores; i++)
		if (v->cores[i]->node && strcmp(v->cores[i]->node, node) == 0)
			return count_cpus(v->cores[i]->cpu_list);
	return 0;
}

/* V as it stood from BEGIN to END (0: still), as one row for each of its times within the window. */
static int keep_span(struct usage *u, const Mu__ReservationRow *v, int64_t begin_usec, int64_t end_usec)
{
	int64_t from = v->start_usec > begin_usec ? v->start_usec : begin_usec;
	int64_t to = end_usec && end_usec < v->end_usec ? end_usec : v->end_usec;
	int64_t sec = to > from ? overlap(from, to, u->from, u->to) : 0;
	char **names, key[300];
	size_t count = 0;

	if (!sec || !v->nodes || mu_hostlist_expand(v->nodes, ANSWER_HOSTS_MAX, u->a->arena, &names, &count, NULL))
		return 0;
	int len = snprintf(key, sizeof key, "%.200s%c%lld", v->name, 1, (long long)v->start_usec);
	Mu__UsageRow *r = mu_map_get(&u->resv, key, (size_t)len);
	if (!r) {
		r = row_new(u, 6);
		mu_map_put(&u->resv, key, (size_t)len, r);
		r->reservation = copy(u, v->name);
		r->has_start_usec = r->has_end_usec = r->has_flags = 1;
		r->start_usec = v->start_usec;
	}
	r->end_usec = to;
	r->flags = v->flags;
	r->nodes = copy(u, v->nodes);
	for (size_t i = 0; i < count; i++) {
		const struct node *n = mu_map_get_str(&u->node, names[i]);
		if (n)
			keep_node(u, r, n, cores_of(v, names[i]), sec);
	}
	return 0;
}

struct resv_life {
	struct usage *u;
	const Mu__ReservationRow *is; /* since */
	int64_t since;
	struct mu_map seen;
};

static void life_ends(struct resv_life *l, int64_t usec)
{
	if (l->is)
		keep_span(l->u, l->is, l->since, usec);
	l->is = NULL;
}

static int resv_moment(void *arg, const char *name, int64_t usec, struct mu_view row)
{
	struct resv_life *l = arg;

	if (l->is && strcmp(l->is->name, name) != 0)
		life_ends(l, 0);
	life_ends(l, usec);
	mu_map_put_str(&l->seen, name, l);
	l->is = row.len ? (Mu__ReservationRow *)mu_pb_unpack(&mu__reservation_row__descriptor, row.data, row.len,
							     l->u->a->arena)
			: NULL;
	if (l->is && !l->is->name)
		l->is = NULL;
	l->since = usec;
	return 0;
}

/* One that was there before lives were kept is taken as it is now. */
static int resv_now(void *arg, struct mu_view key, struct mu_view row, struct mu_err *err)
{
	struct resv_life *l = arg;
	const Mu__ReservationRow *v;

	(void)err;
	if (mu_map_get(&l->seen, key.data, key.len))
		return 0;
	v = (Mu__ReservationRow *)mu_pb_unpack(&mu__reservation_row__descriptor, row.data, row.len, l->u->a->arena);
	return v && v->name ? keep_span(l->u, v, 0, 0) : 0;
}

static int reservations(struct usage *u)
{
	struct resv_life l = {.u = u};
	struct mu_view none = {0};
	int code;

	if (answer_hides(u->a, VIEW_PRIVATE_RESERVATIONS))
		return 0;
	code = answer_resv_lives(u->a, RESV_LIFE_MAX, resv_moment, &l);
	life_ends(&l, 0);
	if (!code)
		code = source_each(&u->a->source, SCH_ROW_RESERVATION, none, none, resv_now, &l, u->a->err);
	mu_map_clear(&l.seen);
	return code;
}

/* ---- the answer ---- */

static int send(struct answer *a, const Mu__UsageRow *r)
{
	uint8_t key[1] = {0};
	size_t len = protobuf_c_message_get_packed_size(&r->base);
	uint8_t *room = mu_arena_alloc(a->arena, len ? len : 1);

	protobuf_c_message_pack(&r->base, room);
	answer_add(a, room, len, key, sizeof key);
	return a->bytes > ANSWER_PAGE_MAX
		   ? mu_fail(a->err, MU_ELIMIT, "the answer is too large; ask for a shorter time")
		   : 0;
}

static int send_all(struct usage *u)
{
	Mu__UsageRow *total = row_new(u, 3), *away = row_new(u, 4);
	const uint8_t *key = NULL;
	size_t len = 0;
	int code = 0;

	for (Mu__UsageRow *r = mu_map_seek(&u->group, NULL, 0, 0, &key, &len); r && !code;
	     r = mu_map_seek(&u->group, key, len, 1, &key, &len))
		code = send(u->a, r);
	key = NULL;
	for (struct node *n = mu_map_seek(&u->node, NULL, 0, 0, &key, &len); n && !code;
	     n = mu_map_seek(&u->node, key, len, 1, &key, &len)) {
		node_totals(u, n, total, away);
		code = send(u->a, n->use);
	}
	key = NULL;
	for (Mu__UsageRow *r = mu_map_seek(&u->resv, NULL, 0, 0, &key, &len); r && !code;
	     r = mu_map_seek(&u->resv, key, len, 1, &key, &len))
		code = send(u->a, r);
	code = code ? code : send(u->a, total);
	code = code ? code : send(u->a, away);
	return code ? code : send(u->a, u->waited);
}

int answer_usage(struct answer *a)
{
	struct usage u = {.a = a};
	Mu__Query query = *a->query;
	int code;

	if (!a->query->from_usec || !a->query->to_usec || a->query->to_usec <= a->query->from_usec)
		return mu_fail(a->err, MU_EINVAL,
			       "a window of time is needed, and its end must lie behind its start");
	if (a->query->after_key.len)
		return 0; /* one page */
	u.from = floor_sec(a->query->from_usec);
	u.to = floor_sec(a->query->to_usec < a->source.now_usec ? a->query->to_usec : a->source.now_usec);
	u.waited = row_new(&u, 5);
	u.others = row_new(&u, 0);
	query.has_duplicates = query.duplicates = 1;
	query.n_state = 0;
	const Mu__Query *asked = a->query;
	a->query = &query;
	a->each = take_job;
	a->each_arg = &u;
	code = source_each(&a->source, SCH_ROW_NODE, (struct mu_view){0}, (struct mu_view){0}, add_node, &u,
			   a->err);
	const uint8_t *key = NULL;
	size_t len = 0;
	for (struct node *n = mu_map_seek(&u.node, NULL, 0, 0, &key, &len); n && !code;
	     n = mu_map_seek(&u.node, key, len, 1, &key, &len))
		code = node_life(&u, n);
	if (!code)
		code = reservations(&u);
	if (!code)
		code = answer_acct(a);
	if (!code)
		code = send_all(&u);
	a->query = asked;
	mu_map_clear(&u.group);
	mu_map_clear(&u.node);
	mu_map_clear(&u.resv);
	return code;
}
