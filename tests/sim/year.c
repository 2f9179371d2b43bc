/* tests/sim/year.c: a generated site's history, asked about itself. Of every job `why` tells spans that add
 * up to its wait, and each with the reason that the queue showed then. Every decision comes out again; an
 * altered one, an altered byte and a decision of another planner are each found for what they are.
 * A user's accounts are those that all have of him, also of a store that an older version wrote.
 *
 * Usage: year [SEED [JOBS]]; without JOBS MUSTER_SIZE_YEAR_JOBS says how many, else 150. */
#include <assert.h>
#include <rocksdb/c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log/ctld/sim.h"
#include "proto/states.h"
#include "proto/why.pb-c.h"
#include "proto/wire.pb-c.h"
#include "query/history.h"
#include "query/rows.h"
#include "tests/query/fake.h"

static const char SITE[] =
    "ClusterName=year\nSlurmctldHost=c\nSelectTypeParameters=CR_CPU\nSlurmdTimeout=0\n"
    "PriorityType=priority/multifactor\nPriorityWeightFairshare=10000\nPriorityWeightAge=1000\n"
    "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE\n"
    "NodeName=n[1-4] CPUs=32\nPartitionName=all Nodes=ALL Default=YES MaxTime=UNLIMITED PriorityTier=1\n"
    "PartitionName=urgent Nodes=n[1-2] MaxTime=1-0 PriorityTier=10 PreemptMode=OFF\n";
enum { CFS_MAX = 32 };

static void ok(int code, const struct mu_err *err, const char *what)
{
	if (!code)
		return;
	printf("%s: %d: %s\n", what, code, err->text);
	exit(1);
}

static void expect(bool good, const char *what)
{
	if (good)
		return;
	printf("%s\n", what);
	exit(1);
}

/* ---- the history ---- */

static void make(const char *dir, uint64_t seed, uint32_t jobs)
{
	struct sch_sim_model m = {.seed = seed,
				  .jobs = jobs,
				  .users = 8,
				  .cpus_max = 32,
				  .load_percent = 130,
				  .cpus = 128,
				  .begin_usec = INT64_C(1735689600000000)};
	struct sch_sim_job *job = calloc(jobs, sizeof *job);
	struct sch_sim_figures f;
	struct sch_sim_tap tap = {.entry = sim_into_entry};
	struct sch_sim_act *act;
	struct sch_sim *sim;
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	Mu__Config *conf;
	uint32_t acts;

	ok(mu_conf_parse("site", SITE, NULL, NULL, NULL, &arena, &conf, &err), &err, "the configuration");
	sch_sim_generate(&m, &arena, job);
	sch_sim_year(&m, conf, &arena, job, &act, &acts);
	tap.arg = sim_into_new(dir, &err);
	ok(tap.arg ? 0 : MU_EIO, &err, "the archive");
	ok(sch_sim_new_tapped(conf, m.begin_usec, &tap, &sim, &err), &err, "the cluster");
	sch_sim_plan(sim, act, acts);
	ok(sch_sim_run(sim, job, jobs, 0, NULL, &f, &err), &err, "the run");
	ok(sim_into_close(tap.arg, 0, &err), &err, "the archive");
	sch_sim_free(sim);
	printf("%u jobs, %u refused, %llu starts, %llu acts, %llu of them void, at most %u waiting\n", jobs,
	       f.refused, (unsigned long long)f.starts, (unsigned long long)f.acts,
	       (unsigned long long)f.acts_void, f.waiting_max);
	mu_arena_free(&arena);
	free(job);
}

static struct view *opened(const char *dir)
{
	struct mu_err err = {0};
	struct view *v;
	char path[256];

	snprintf(path, sizeof path, "%s/view", dir);
	ok(view_open(path, true, &v, &err), &err, path);
	return v;
}

static void removed(const char *dir)
{
	char path[256];

	snprintf(path, sizeof path, "%s/view", dir);
	fake_remove_dir(path);
	rmdir(path);
	rmdir(dir);
}

/* ---- spans, as the State of each entry has them ---- */

struct span {
	int64_t from_usec, to_usec; /* to: 0 while it lasts */
	uint64_t from_pos, to_pos;
	uint32_t reason;
	char *detail;
};
struct life {
	struct span *span;
	uint32_t count, cap;
	uint64_t seen_pos;
};
struct lives {
	struct life *of; /* by id */
	uint32_t count, cap;
	uint64_t pos;
	int64_t usec;
};

static struct span *add_span(struct life *l, struct span s)
{
	if (l->count == l->cap) {
		l->cap = l->cap ? 2 * l->cap : 4;
		l->span = realloc(l->span, l->cap * sizeof l->span[0]);
		assert(l->span);
	}
	l->span[l->count] = s;
	return &l->span[l->count++];
}

static struct span *open_span(struct life *l)
{
	return l->count && !l->span[l->count - 1].to_pos ? &l->span[l->count - 1] : NULL;
}

static void end_span(const struct lives *all, struct span *s)
{
	s->to_pos = all->pos;
	s->to_usec = all->usec;
}

static const char *text(const char *s)
{
	return s ? s : "";
}

/* J waits, with its reason, as the entry left it. */
static void waits(struct lives *all, struct life *l, const Mu__JobRow *j)
{
	struct span *s = open_span(l);

	l->seen_pos = all->pos;
	if (s && s->reason == j->reason && !strcmp(s->detail, text(j->reason_detail)))
		return;
	if (s)
		end_span(all, s);
	add_span(l, (struct span){.from_usec = all->usec,
				  .from_pos = all->pos,
				  .reason = j->reason,
				  .detail = strdup(text(j->reason_detail))});
}

/* Records that the entry made: a task of an array has waited with the others until now. */
static void newcomers(struct lives *all, const struct sch_state *st)
{
	for (const Mu__JobRow *j = sch_job(st, all->count); j; j = sch_job(st, ++all->count)) {
		const struct life *array;
		if (all->count + 1 >= all->cap) {
			all->of = realloc(all->of, 2 * all->cap * sizeof all->of[0]);
			assert(all->of);
			memset(all->of + all->cap, 0, all->cap * sizeof all->of[0]);
			all->cap *= 2;
		}
		if (!j->array_job || j->array_job == j->id)
			continue;
		array = &all->of[j->array_job];
		for (uint32_t i = 0; i < array->count; i++) {
			struct span s = array->span[i];
			s.detail = strdup(s.detail);
			add_span(&all->of[j->id], s);
		}
	}
}

/* The State is as the entry before this one left it. */
static void entry_over(struct lives *all, const struct sch_state *st)
{
	newcomers(all, st);
	for (uint32_t id = sch_next_waiting(st, 0); id; id = sch_next_waiting(st, id))
		waits(all, &all->of[id], sch_job(st, id));
	for (uint32_t id = 1; id < all->count; id++) {
		struct span *s = open_span(&all->of[id]);
		if (s && all->of[id].seen_pos != all->pos)
			end_span(all, s);
	}
}

static int see(void *arg, const struct sch_state *st, const struct sch_at *at, const uint8_t *event,
	       size_t len, const struct sch_verdict *verdict)
{
	struct lives *all = arg;

	(void)event, (void)len;
	if (verdict || at->n)
		return 0;
	if (all->pos && all->pos < at->pos)
		entry_over(all, st);
	all->pos = at->pos;
	all->usec = at->time_usec;
	return 0;
}

static struct lives lives_of(struct view *v)
{
	struct lives all = {.count = 1, .cap = 64, .of = calloc(64, sizeof(struct life))};
	struct hist_replay r;
	struct mu_err err = {0};
	struct sch_state *st;
	uint64_t bad = 0;

	ok(hist_walk(v, 0, 0, see, &all, &r, &bad, &err), &err, "the walk");
	ok(view_state_at(v, r.last, &st, &err), &err, "the last State");
	entry_over(&all, st);
	sch_state_free(st);
	return all;
}

static void free_lives(struct lives *all)
{
	for (uint32_t id = 0; id < all->count; id++) {
		for (uint32_t i = 0; i < all->of[id].count; i++)
			free(all->of[id].span[i].detail);
		free(all->of[id].span);
	}
	free(all->of);
}

/* ---- what why says ---- */

static const struct query_caller ROOT = {.uid = 0, .operator= true, .user = "root"};

static void differ(const struct life *l, const Mu__WhyRow *w, uint32_t id)
{
	printf("job %u waited otherwise than why says:\n", id);
	for (uint32_t i = 0; i < l->count; i++)
		printf("  was  %lld %lld %u %s\n", (long long)l->span[i].from_usec,
		       (long long)l->span[i].to_usec, l->span[i].reason, l->span[i].detail);
	for (size_t i = 0; i < w->n_span; i++)
		printf("  says %lld %lld %u %s\n", (long long)w->span[i]->from_usec,
		       (long long)w->span[i]->to_usec, w->span[i]->reason, text(w->span[i]->detail));
	exit(1);
}

static void why(struct view *v, const struct lives *all, uint32_t id)
{
	Mu__Query q = MU__QUERY__INIT;
	Mu__Rows rows = MU__ROWS__INIT;
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	const struct life *l = &all->of[id];
	int64_t sum = 0;

	q.has_what = 1;
	q.what = MU__WHAT__WHAT_WHY;
	q.job = &id;
	q.n_job = 1;
	ok(query_rows(v, &q, &ROOT, &arena, &rows, &err), &err, "why");
	expect(rows.n_row == 1, "why has no row");
	Mu__WhyRow *w =
	    (Mu__WhyRow *)mu_pb_unpack(&mu__why_row__descriptor, rows.row[0].data, rows.row[0].len, &arena);
	if (!w || w->n_span != l->count)
		differ(l, w, id);
	for (uint32_t i = 0; i < l->count; i++) {
		const struct span *s = &l->span[i];
		const Mu__WaitSpan *k = w->span[i];
		if (k->from_usec != s->from_usec || k->has_to_usec != (s->to_pos != 0) ||
		    (s->to_pos && k->to_usec != s->to_usec) || k->reason != s->reason ||
		    strcmp(text(k->detail), s->detail))
			differ(l, w, id);
		sum += (s->to_pos ? s->to_usec : rows.now_usec) - s->from_usec;
	}
	expect(sum == w->waited_usec, "the spans do not add up to the wait");
	mu_arena_free(&arena);
}

/* ---- what the queue shows of a past moment ---- */

static uint32_t shown(const Mu__Rows *rows, const struct lives *all, uint64_t pos, struct mu_arena *arena)
{
	uint32_t pending = 0;

	for (size_t i = 0; i < rows->n_row; i++) {
		const Mu__JobRow *j = (Mu__JobRow *)mu_pb_unpack(&mu__job_row__descriptor, rows->row[i].data,
								 rows->row[i].len, arena);
		const struct life *l = &all->of[j->id];
		const struct span *then = NULL;
		if (j->state != JOB_PENDING)
			continue;
		for (uint32_t k = 0; k < l->count; k++)
			if (l->span[k].from_pos <= pos && (!l->span[k].to_pos || pos < l->span[k].to_pos))
				then = &l->span[k];
		if (!then || then->reason != j->reason || strcmp(then->detail, text(j->reason_detail))) {
			printf("job %u at position %llu: the queue shows reason %u, it was %d\n", j->id,
			       (unsigned long long)pos, j->reason, then ? (int)then->reason : -1);
			exit(1);
		}
		pending++;
	}
	return pending;
}

static uint32_t queue(struct view *v, const struct lives *all, uint64_t pos)
{
	Mu__Query q = MU__QUERY__INIT;
	Mu__Rows rows = MU__ROWS__INIT;
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	char at[32];

	snprintf(at, sizeof at, "@%llu", (unsigned long long)pos);
	q.has_what = 1;
	q.what = MU__WHAT__WHAT_JOBS;
	q.at = at;
	q.has_page_bytes = 1;
	q.page_bytes = 16 << 20;
	ok(query_rows(v, &q, &ROOT, &arena, &rows, &err), &err, "the queue of then");
	uint32_t pending = shown(&rows, all, pos, &arena);
	mu_arena_free(&arena);
	return pending;
}

static void reasons(const char *dir)
{
	struct view *v = opened(dir);
	struct lives all = lives_of(v);
	uint64_t step = view_pos(v) / 200 + 1, seen = 0;
	uint32_t told = 0;

	for (uint32_t id = 1; id < all.count; id++) {
		why(v, &all, id);
		told += all.of[id].count > 1;
	}
	for (uint64_t pos = 1 + step / 2; pos <= view_pos(v); pos += step)
		seen += queue(v, &all, pos);
	printf("%u jobs asked why, %u of them with several reasons; %llu waiting rows of past queues\n",
	       all.count - 1, told, (unsigned long long)seen);
	expect(told && seen, "nobody waited: nothing was shown");
	free_lives(&all);
	view_close(v);
}

/* ---- the accounts of one user ---- */

/* Runs in history, by UID or (NULL) by nobody; a page after the other. */
static uint32_t runs_of(struct view *v, const uint32_t *uid, uint32_t per_uid[], uint32_t users)
{
	Mu__Query q = MU__QUERY__INIT;
	uint32_t runs = 0;
	uint8_t after[256];
	bool more = true;

	q.has_what = q.has_duplicates = q.duplicates = q.has_page_bytes = 1;
	q.what = MU__WHAT__WHAT_ACCT;
	q.page_bytes = 1 << 16;
	q.uid = (uint32_t *)uid;
	q.n_uid = uid != NULL;
	while (more) {
		struct mu_arena arena = {0};
		struct mu_err err = {0};
		Mu__Rows rows = MU__ROWS__INIT;
		ok(query_rows(v, &q, &ROOT, &arena, &rows, &err), &err, "accounts");
		for (size_t i = 0; i < rows.n_row; i++) {
			Mu__HistRow *h = (Mu__HistRow *)mu_pb_unpack(
			    &mu__hist_row__descriptor, rows.row[i].data, rows.row[i].len, &arena);
			expect(h && h->job->uid >= 1000 && h->job->uid < 1000 + users &&
				   (!uid || h->job->uid == *uid),
			       "a record of somebody else");
			if (per_uid)
				per_uid[h->job->uid - 1000]++;
		}
		runs += (uint32_t)rows.n_row;
		more = rows.next_key.len > 0;
		expect(rows.next_key.len <= sizeof after, "a page key");
		if (more)
			memcpy(after, rows.next_key.data, rows.next_key.len);
		q.has_after_key = more;
		q.after_key = (ProtobufCBinaryData){.len = rows.next_key.len, .data = after};
		mu_arena_free(&arena);
	}
	return runs;
}

static void users(const char *dir)
{
	struct view *v = opened(dir);
	uint32_t of[8] = {0}, all = runs_of(v, NULL, of, 8), sum = 0;

	for (uint32_t i = 0; i < 8; i++) {
		uint32_t uid = 1000 + i;
		expect(runs_of(v, &uid, NULL, 8) == of[i],
		       "a user's own records are not those that all have of him");
		sum += of[i];
	}
	expect(all && sum == all, "nobody ran anything");
	view_close(v);
}

/* ---- decisions made again ---- */

enum twist { PLAIN, OTHER_DECISION, OTHER_PLANNER };
struct copy {
	void *into;
	enum twist twist;
	uint32_t start; /* the start whose decision is twisted, counted over all */
	uint64_t twisted;
	struct mu_err err;
};

static bool twist(struct copy *c, Mu__Decided *d)
{
	if (!d->n_start || c->start-- != 0)
		return false;
	if (c->twist == OTHER_PLANNER) {
		d->has_planner = 1;
		d->planner = 99;
	} else {
		d->n_start--; /* One job less begins: what there is of its run later is void. */
	}
	return true;
}

static int copy_entry(void *arg, uint64_t pos, int64_t time_usec, const struct mu_view *event, size_t count)
{
	struct copy *c = arg;
	struct mu_arena arena = {0};
	struct mu_view *view = mu_arena_alloc(&arena, (count + 1) * sizeof view[0]);
	struct mu_buf out = {0};

	for (size_t i = 0; i < count; i++) {
		Mu__Event *e =
		    (Mu__Event *)mu_pb_unpack(&mu__event__descriptor, event[i].data, event[i].len, &arena);
		view[i] = event[i];
		if (c->twist == PLAIN || c->twisted || e->kind_case != MU__EVENT__KIND_DECIDED ||
		    !twist(c, e->decided))
			continue;
		c->twisted = pos;
		mu_pb_pack(&e->base, &out);
		view[i] = (struct mu_view){out.data, out.len};
	}
	int code = sim_into_entry(c->into, pos, time_usec, view, count);
	mu_buf_free(&out);
	mu_arena_free(&arena);
	return code;
}

/* The position that was twisted; 0: none. */
static uint64_t copied(const char *from, const char *to, enum twist how, uint32_t start)
{
	struct view *v = opened(from);
	struct copy c = {.twist = how, .start = start};
	struct mu_err err = {0};

	c.into = sim_into_new(to, &err);
	ok(c.into ? 0 : MU_EIO, &err, "the copy");
	ok(hist_entries(v, 0, 0, copy_entry, &c, &err), &err, "copying");
	ok(sim_into_close(c.into, 0, &err), &err, "the copy");
	view_close(v);
	return c.twisted;
}

static int audited(const char *dir, struct hist_audit *ret, uint64_t *ret_bad)
{
	struct view *v = opened(dir);
	struct mu_buf difference = {0};
	struct mu_err err = {0};

	*ret_bad = 0;
	int code = hist_audit(v, 0, 0, ret, ret_bad, &difference, &err);
	expect(!code == !difference.len, "a difference without words, or words without one");
	mu_buf_free(&difference);
	view_close(v);
	return code;
}

/* Sees each row of the store, and may put another value there; the rows that were changed or dropped. */
enum row_fate { KEEP, CHANGE, DROP };
typedef enum row_fate (*store_row)(struct mu_view key, uint8_t *value, size_t len, void *arg);
static unsigned each_row(const char *dir, store_row fn, void *arg)
{
	char path[256], *error = NULL;
	size_t families = 0;
	unsigned changed = 0;
	rocksdb_options_t *o = rocksdb_options_create();

	snprintf(path, sizeof path, "%s/view", dir);
	char **names = rocksdb_list_column_families(o, path, &families, &error);
	expect(!error && families <= CFS_MAX, "the store's families");
	const rocksdb_options_t *options[CFS_MAX];
	rocksdb_column_family_handle_t *cf[CFS_MAX];
	for (size_t i = 0; i < families; i++)
		options[i] = o;
	rocksdb_t *db = rocksdb_open_column_families(o, path, (int)families, (const char *const *)names,
						     options, cf, &error);
	expect(!error, "the store cannot be opened");
	rocksdb_readoptions_t *ro = rocksdb_readoptions_create();
	rocksdb_writeoptions_t *wo = rocksdb_writeoptions_create();
	for (size_t i = 0; i < families; i++) {
		rocksdb_iterator_t *it = rocksdb_create_iterator_cf(db, ro, cf[i]);
		for (rocksdb_iter_seek_to_first(it); rocksdb_iter_valid(it); rocksdb_iter_next(it)) {
			size_t key_len, value_len;
			const char *key = rocksdb_iter_key(it, &key_len),
				   *value = rocksdb_iter_value(it, &value_len);
			uint8_t *other = malloc(value_len + 1);
			assert(other);
			memcpy(other, value, value_len);
			enum row_fate fate =
			    fn((struct mu_view){(const uint8_t *)key, key_len}, other, value_len, arg);
			if (fate == CHANGE)
				rocksdb_put_cf(db, wo, cf[i], key, key_len, (const char *)other, value_len,
					       &error);
			else if (fate == DROP)
				rocksdb_delete_cf(db, wo, cf[i], key, key_len, &error);
			expect(!error, "the store takes no row");
			changed += fate != KEEP;
			free(other);
		}
		rocksdb_iter_destroy(it);
	}
	rocksdb_readoptions_destroy(ro);
	rocksdb_writeoptions_destroy(wo);
	for (size_t i = 0; i < families; i++)
		rocksdb_column_family_handle_destroy(cf[i]);
	rocksdb_close(db);
	rocksdb_list_column_families_destroy(names, families);
	rocksdb_options_destroy(o);
	return changed;
}

/* One byte of the event ARG is another: in whatever rows of the store hold it. */
static enum row_fate flip(struct mu_view key, uint8_t *value, size_t len, void *arg)
{
	const struct mu_buf *event = arg;
	uint8_t *found = memmem(value, len, event->data, event->len);

	(void)key;
	if (found)
		found[event->len - 1] ^= 1;
	return found ? CHANGE : KEEP;
}

/* Format 1 had no index by uid: "I", digits, and 17 bytes more. */
static enum row_fate format_before(struct mu_view key, uint8_t *value, size_t len, void *arg)
{
	bool is = key.len == 6 && !memcmp(key.data, "format", 6);

	(void)arg;
	if (is)
		value[len - 1]--;
	return is										? CHANGE
	       : key.len > 18 && key.data[0] == 'I' && key.data[1] >= '0' && key.data[1] <= '9' ? DROP
												: KEEP;
}

/* A store of the format before is refused to readers, and made anew by whoever writes. */
static void older(const char *dir)
{
	struct view *v = NULL;
	struct mu_err err = {0};
	char path[256];

	expect(each_row(dir, format_before, NULL) > 100, "the store had no index by uid");
	snprintf(path, sizeof path, "%s/view", dir);
	expect(view_open(path, true, &v, &err) == MU_EVERSION, "an older store is read as it is");
	ok(view_open(path, false, &v, &err), &err, "an older store");
	view_close(v);
	users(dir);
}

static int hold_event(void *arg, uint64_t pos, int64_t time_usec, const struct mu_view *event, size_t count)
{
	struct mu_buf *out = arg;

	(void)pos, (void)time_usec;
	if (count)
		mu_buf_add(out, event[0].data, event[0].len);
	return 0;
}

static void altered_byte(const char *dir, uint64_t pos)
{
	struct view *v = opened(dir);
	struct mu_buf bytes = {0};
	struct hist_replay r;
	struct mu_err err = {0};
	uint64_t bad = 0;

	ok(hist_entries(v, pos, pos, hold_event, &bytes, &err), &err, "an entry");
	view_close(v);
	expect(each_row(dir, flip, &bytes) > 0, "the event is nowhere in the store");
	mu_buf_free(&bytes);
	v = opened(dir);
	expect(view_verify(v, 0, 0, &bad, &err) == MU_ECORRUPT && bad == pos,
	       "verify does not find the altered byte where it is");
	bad = 0;
	expect(hist_replay(v, 0, 0, NULL, NULL, &r, &bad, &err) == MU_ECORRUPT && bad == pos,
	       "replay does not find the altered byte where it is");
	view_close(v);
}

static void decisions(const char *dir, struct mu_seed *g)
{
	struct hist_audit all, r;
	char copy[] = "/tmp/muster-year-copy-XXXXXX";
	uint64_t bad, at;

	expect(!audited(dir, &all, &bad) && all.passes && all.equal == all.passes && !all.unchecked,
	       "a decision comes out otherwise");
	assert(mkdtemp(copy));
	at = copied(dir, copy, OTHER_PLANNER, mu_seed_below(g, 30));
	expect(at && !audited(copy, &r, &bad) && r.unchecked == 1 && r.passes == all.passes - 1 &&
		   r.equal == r.passes,
	       "the decision of another planner is not the one that was not checked");
	removed(copy);
	at = copied(dir, copy, OTHER_DECISION, mu_seed_below(g, 30));
	expect(at && audited(copy, &r, &bad) == MU_ECORRUPT && bad == at,
	       "the altered decision is not found where it is");
	altered_byte(copy, at);
	removed(copy);
	printf("%llu decisions made again\n", (unsigned long long)all.passes);
}

int main(int argc, char **argv)
{
	const char *size = getenv("MUSTER_SIZE_YEAR_JOBS");
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	uint32_t jobs = (uint32_t)strtoul(argc > 2 ? argv[2] : size ? size : "150", NULL, 10);
	char dir[] = "/tmp/muster-year-XXXXXX";
	struct mu_seed g;

	assert(mkdtemp(dir));
	mu_seed_init(&g, seed);
	printf("seed %llu: ", (unsigned long long)seed);
	make(dir, seed, jobs);
	reasons(dir);
	users(dir);
	decisions(dir, &g);
	older(dir);
	removed(dir);
	return 0;
}
