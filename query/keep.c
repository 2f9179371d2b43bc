/* query/keep.c: see keep.h. */
#include "query/keep.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "proto/conf.h"
#include "proto/pb.h"
#include "query/pick.h"
#include "query/store.h"

enum {
	RECORDS_MAX = 256, /* of jobs, in a round: some 40 us each */
	MOMENTS_MAX = 4096,
	CHECKPOINTS_MAX = 64,
	CKPT_PARTS = 8, /* while entries go, a checkpoint is at most this part of their span old */
	USEC = 1000000
};

/* ---- what was let go ---- */

int64_t view__kept_usec(struct view *v, enum mu_keep_tier tier)
{
	pthread_mutex_lock(&v->lock);
	int64_t usec = v->kept_usec[tier];
	pthread_mutex_unlock(&v->lock);
	return usec;
}

uint64_t view__cut_pos(struct view *v)
{
	pthread_mutex_lock(&v->lock);
	uint64_t pos = v->cut_pos;
	pthread_mutex_unlock(&v->lock);
	return pos;
}

void view__cut_set(struct view *v, uint64_t pos, int64_t usec)
{
	pthread_mutex_lock(&v->lock);
	v->cut_pos = pos;
	v->cut_usec = usec;
	pthread_mutex_unlock(&v->lock);
}

int view__too_old(struct view *v, struct mu_err *err)
{
	char when[32] = "";
	struct tm tm;

	pthread_mutex_lock(&v->lock);
	uint64_t pos = v->cut_pos;
	/* Whoever asks by the second must come to lie behind the cut. */
	time_t sec = (time_t)((v->cut_usec + USEC - 1) / USEC);
	pthread_mutex_unlock(&v->lock);
	if (localtime_r(&sec, &tm))
		strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &tm);
	return mu_fail(
	    err, MU_ENOENT,
	    "the history before %s is no longer kept (%s); the earliest moment that can be asked for is %s, "
	    "position @%llu",
	    when, mu_keep_key(MU_KEEP_EVENTS), when, (unsigned long long)pos);
}

int view__cut_parse(struct mu_view bytes, struct mu_arena *arena, Mu__Cut **ret, struct mu_err *err)
{
	*ret = (Mu__Cut *)mu_pb_unpack(&mu__cut__descriptor, bytes.data, bytes.len, arena);
	if (!*ret || (*ret)->chain.len != MU_HASH_BYTES || (*ret)->digest.len != MU_HASH_BYTES)
		return mu_fail(err, MU_ECORRUPT, "the statement of the archive's cut cannot be read");
	return 0;
}

int view__cut_read(struct view *v, const rocksdb_snapshot_t *snapshot, struct mu_arena *arena, Mu__Cut **ret,
		   struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf hold = {0};
	rocksdb_readoptions_t *read = rocksdb_readoptions_create();

	if (snapshot)
		rocksdb_readoptions_set_snapshot(read, snapshot);
	int code = view__get(v, read, VIEW_META, "cut", 3, &hold, err);
	rocksdb_readoptions_destroy(read);
	return code ? code : view__cut_parse((struct mu_view){hold.data, hold.len}, arena, ret, err);
}

int view_cut(struct view *v, struct mu_arena *arena, Mu__Cut **ret, struct mu_err *err)
{
	return view__cut_read(v, NULL, arena, ret, err);
}

int view__cut_chain(struct view *v, struct mu_hash *ret, struct mu_err *err)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	MU_CLEANUP(view__archived_done) struct view_archived a = {0};
	Mu__Cut *cut = NULL;
	int code = view_cut(v, &arena, &cut, err);

	if (code == 0)
		code = view__archived(v, cut->pos, &a, err);
	if (code)
		return code == MU_ENOENT ? MU_ECORRUPT : code;
	if (memcmp(cut->chain.data, a.chain.b, MU_HASH_BYTES) != 0 ||
	    memcmp(cut->digest.data, a.digest.b, MU_HASH_BYTES) != 0)
		return mu_fail(err, MU_ECORRUPT,
			       "the archive at its cut is not what the cut's statement says");
	*ret = a.chain;
	return 0;
}

static size_t kept_key(uint8_t out[2], enum mu_keep_tier tier)
{
	out[0] = 'K';
	out[1] = (uint8_t)tier;
	return 2;
}

int view__keep_open(struct view *v, struct mu_err *err)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf hold = {0};
	Mu__Cut *cut;
	uint8_t key[2];
	int code = view_cut(v, &arena, &cut, err);

	if (code == 0)
		view__cut_set(v, cut->pos, cut->time_usec);
	for (int i = 0; i < MU_KEEP_TIERS && (code == 0 || code == MU_ENOENT); i++) {
		mu_buf_reset(&hold);
		code = view__get(v, NULL, VIEW_META, key, kept_key(key, (enum mu_keep_tier)i), &hold, err);
		if (code == 0 && hold.len == 8)
			v->kept_usec[i] = (int64_t)mu_get_be64(hold.data);
	}
	return code == MU_ENOENT ? 0 : code;
}

/* ---- a round ---- */

struct keeper {
	struct view *v;
	struct keep_round *round;
	int64_t now_usec;
	int64_t sec[MU_KEEP_TIERS];
	struct mu_err *err;
};

/* What ended before is to go; 0: nothing is. */
static int64_t horizon(const struct keeper *k, enum mu_keep_tier tier)
{
	int64_t usec = k->sec[tier] ? k->now_usec - k->sec[tier] * USEC : 0;

	return usec > 0 ? usec : 0;
}

static void put_kept(struct keeper *k, rocksdb_writebatch_t *wb, enum mu_keep_tier tier, int64_t usec)
{
	uint8_t key[2], value[8];

	mu_put_be64(value, (uint64_t)usec);
	view__put(k->v, wb, VIEW_META, key, kept_key(key, tier), value, sizeof value);
}

/* Writes WB and notes that TIER was let go up to USEC. */
static int commit(struct keeper *k, rocksdb_writebatch_t *wb, enum mu_keep_tier tier, int64_t usec)
{
	if (usec < view__kept_usec(k->v, tier))
		usec = view__kept_usec(k->v, tier);
	put_kept(k, wb, tier, usec);
	int code = view__write(k->v, wb, "letting history go", k->err);
	pthread_mutex_lock(&k->v->lock);
	if (code == 0)
		k->v->kept_usec[tier] = usec;
	pthread_mutex_unlock(&k->v->lock);
	return code;
}

/* ---- entries ---- */

static ProtobufCBinaryData bytes_of(const struct mu_hash *h)
{
	return (ProtobufCBinaryData){MU_HASH_BYTES, (uint8_t *)h->b};
}

/* The statement of a cut at the archived entry A, signed, as it is stored. */
static void state_cut(struct keeper *k, const struct view_archived *a, keep_sign sign, void *arg,
		      struct mu_buf *out)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf hold = {0};
	uint8_t config = SCH_ROW_CONFIG, signature[KEEP_SIGN_BYTES] = {0};
	Mu__Cut cut = MU__CUT__INIT;
	struct mu_hash statement;
	Mu__ConfigRow *row = NULL;

	if (view__get(k->v, NULL, VIEW_ROWS, &config, 1, &hold, NULL) == 0)
		row = (Mu__ConfigRow *)mu_pb_unpack(&mu__config_row__descriptor, hold.data, hold.len, &arena);
	cut.has_pos = cut.has_time_usec = cut.has_chain = cut.has_digest = cut.has_conf_pos = 1;
	cut.pos = a->pos;
	cut.time_usec = a->time_usec;
	cut.chain = bytes_of(&a->chain);
	cut.digest = bytes_of(&a->digest);
	cut.conf_pos = row ? row->since_pos : 0;
	cut.author = row && row->author ? row->author : "";
	cut.rule = mu_arena_printf(&arena, "%s=%s", mu_keep_key(MU_KEEP_EVENTS),
				   row ? mu_conf_get(row->config, mu_keep_key(MU_KEEP_EVENTS), "0") : "0");
	mu_cut_hash(&cut, &statement);
	sign(arg, cut.pos, &statement, signature);
	cut.has_signature = 1;
	cut.signature = (ProtobufCBinaryData){sizeof signature, signature};
	mu_pb_pack(&cut.base, out);
}

/* All that lies below the entry A, whose own record stays for its chain value, in one batch. */
void view__cut_batch(struct view *v, rocksdb_writebatch_t *wb, const struct view_archived *a, uint64_t base,
		     struct mu_view statement)
{
	uint8_t zero[1] = {0}, entry[8], part[8], from[1] = {'T'}, to[17] = {'T'}, refused[1] = {'Z'}, upto[9] = {'Z'};

	mu_put_be64(entry, a->pos);
	mu_put_be64(part, a->pos + 1);
	view__put(v, wb, VIEW_META, "cut", 3, statement.data, statement.len);
	view__del_range(v, wb, VIEW_ENTRY, (struct mu_view){zero, 1}, (struct mu_view){entry, 8});
	view__del_range(v, wb, VIEW_PART, (struct mu_view){zero, 1}, (struct mu_view){part, 8});
	view__ckpt_cut(v, wb, base);
	mu_put_be64(to + 1, (uint64_t)a->time_usec);
	mu_put_be64(to + 9, a->pos);
	view__del_range(v, wb, VIEW_INDEX, (struct mu_view){from, 1}, (struct mu_view){to, sizeof to});
	mu_put_be64(upto + 1, a->pos + 1);
	view__del_range(v, wb, VIEW_INDEX, (struct mu_view){refused, 1}, (struct mu_view){upto, sizeof upto});
}

/* The State there must give the digest that was recorded, or everything stays. */
static int prove(struct keeper *k, uint64_t pos)
{
	struct sch_state *st = NULL;
	int code = view_state_at(k->v, pos, &st, k->err);

	sch_state_free(st);
	return code;
}

static int cut_at(struct keeper *k, uint64_t pos, uint64_t base, keep_sign sign, void *arg)
{
	MU_CLEANUP(view__archived_done) struct view_archived a = {0};
	MU_CLEANUP(mu_buf_free) struct mu_buf statement = {0};
	struct view *v = k->v;
	int code = prove(k, pos);

	if (code == 0)
		code = view__archived(v, pos, &a, k->err);
	if (code || !a.digest_known)
		return code;
	state_cut(k, &a, sign, arg, &statement);
	rocksdb_writebatch_t *wb = rocksdb_writebatch_create();
	view__cut_batch(v, wb, &a, base, (struct mu_view){statement.data, statement.len});
	pthread_mutex_lock(&v->writer);
	pthread_mutex_lock(&v->lock);
	uint64_t was = v->cut_pos;
	int64_t was_usec = v->cut_usec;
	pthread_mutex_unlock(&v->lock);
	/* Readers are told before the entries are gone. */
	view__cut_set(v, pos, a.time_usec);
	code = view__write(v, wb, "cutting the archive", k->err);
	if (code)
		view__cut_set(v, was, was_usec);
	pthread_mutex_unlock(&v->writer);
	rocksdb_writebatch_destroy(wb);
	if (code == 0)
		k->round->cut_pos = pos;
	return code;
}

/* While entries are to go, checkpoints come often enough for them to go up to. */
static int checkpoint_when_due(struct keeper *k)
{
	struct view *v = k->v;
	struct mu_hash chain, digest;
	bool known;
	int64_t usec = 0;
	int code = 0;

	pthread_mutex_lock(&v->writer);
	if (v->now.last_pos && view_mark(v, v->now.last_pos, &chain, &digest, &known, &usec, NULL))
		usec = 0;
	if (k->now_usec - usec > k->sec[MU_KEEP_EVENTS] * (USEC / CKPT_PARTS))
		code = view__ckpt_now(v, &v->now, k->err);
	pthread_mutex_unlock(&v->writer);
	return code;
}

static int entries(struct keeper *k, keep_sign sign, void *arg)
{
	int64_t upto = horizon(k, MU_KEEP_EVENTS);
	uint64_t pos = 0, base = 0, cut = view__cut_pos(k->v);
	int code;

	if (!k->sec[MU_KEEP_EVENTS])
		return 0;
	code = checkpoint_when_due(k);
	if (code || !upto || view_pos_at(k->v, upto, &pos, NULL) || pos <= cut)
		return code;
	pos = view__ckpt_before(k->v, pos, &base);
	return pos > cut ? cut_at(k, pos, base, sign, arg) : 0;
}

/* ---- checkpoints ---- */

static int checkpoints(struct keeper *k)
{
	int64_t upto = horizon(k, MU_KEEP_CHECKPOINTS);
	uint64_t pos = 0;

	if (!upto || view_pos_at(k->v, upto, &pos, NULL) || !pos)
		return 0;
	pthread_mutex_lock(&k->v->writer);
	int code =
	    view__ckpt_thin(k->v, view__cut_pos(k->v), pos, CHECKPOINTS_MAX, &k->round->checkpoints, k->err);
	pthread_mutex_unlock(&k->v->writer);
	k->round->more = k->round->more || k->round->checkpoints == CHECKPOINTS_MAX;
	return code;
}

/* ---- jobs ---- */

/* Calls FN with the keys of the records that ended in [FROM, TO), some of them; those of one instant stay
 * together. *RET_LAST: the end of the last one; TO where there are no more. */
typedef int (*record_fn)(struct keeper *k, rocksdb_writebatch_t *wb, const uint8_t key[8], void *arg);
static int each_record(struct keeper *k, rocksdb_writebatch_t *wb, int64_t from_usec, int64_t to_usec,
		       record_fn fn, void *arg, uint64_t *ret_count, int64_t *ret_last)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	uint8_t from[9] = {'E'}, to[9] = {'E'};
	int64_t last = -1;
	int code = 0;

	mu_put_be64(from + 1, (uint64_t)from_usec);
	mu_put_be64(to + 1, (uint64_t)to_usec);
	view__scan(k->v, NULL, VIEW_INDEX, (struct mu_view){from, 9}, (struct mu_view){to, 9}, &scan);
	for (*ret_count = 0; code == 0 && view__scan_valid(&scan); view__scan_next(&scan)) {
		struct mu_view key = view__scan_key(&scan);
		if (key.len != 17)
			continue;
		int64_t usec = (int64_t)mu_get_be64(key.data + 1);
		if (*ret_count >= RECORDS_MAX && usec != last)
			break;
		code = fn(k, wb, key.data + 9, arg);
		last = usec;
		++*ret_count;
	}
	*ret_last = view__scan_valid(&scan) ? last : to_usec;
	return code ? code : view__scan_end(&scan, "looking for old records", k->err);
}

/* Has the job other records than those of this round? */
static bool has_others(struct keeper *k, const uint8_t job[4], const struct mu_map *going)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	uint8_t to[4];
	bool yes = false;

	memcpy(to, job, 4);
	view__scan(k->v, NULL, VIEW_HIST, (struct mu_view){job, 4},
		   (struct mu_view){to, view__after_prefix(to, 4)}, &scan);
	for (; !yes && view__scan_valid(&scan); view__scan_next(&scan)) {
		struct mu_view key = view__scan_key(&scan);
		yes = !mu_map_get((struct mu_map *)going, key.data, key.len);
	}
	return yes;
}

static int drop_record(struct keeper *k, rocksdb_writebatch_t *wb, const uint8_t key[8], void *arg)
{
	struct mu_map *going = arg;
	uint8_t row[5] = {SCH_ROW_JOB}, from[5] = {'J'}, to[5];
	int code = view__hist_drop(k->v, wb, key, k->err);

	mu_map_put(going, key, 8, k);
	memcpy(row + 1, key, 4);
	if (code || view__has(k->v, VIEW_ROWS, row, 5) || has_others(k, key, going))
		return code;
	/* Its life goes with the last of it. */
	memcpy(from + 1, key, 4);
	memcpy(to, from, 5);
	view__del_range(k->v, wb, VIEW_INDEX, (struct mu_view){from, 5},
			(struct mu_view){to, view__after_prefix(to, 5)});
	return 0;
}

static int strip_record(struct keeper *k, rocksdb_writebatch_t *wb, const uint8_t key[8], void *arg)
{
	(void)arg;
	return view__hist_strip(k->v, wb, key, k->err);
}

static int jobs(struct keeper *k)
{
	MU_CLEANUP(mu_map_clear) struct mu_map going = {0};
	int64_t upto = horizon(k, MU_KEEP_JOBS), last;
	int code;

	if (!upto)
		return 0;
	pthread_mutex_lock(&k->v->writer);
	rocksdb_writebatch_t *wb = rocksdb_writebatch_create();
	code = each_record(k, wb, 0, upto, drop_record, &going, &k->round->jobs, &last);
	/* From the first round on it is true that what ended before may be missing. */
	if (code == 0 && k->round->jobs)
		code = commit(k, wb, MU_KEEP_JOBS, upto);
	rocksdb_writebatch_destroy(wb);
	pthread_mutex_unlock(&k->v->writer);
	k->round->more = k->round->more || (code == 0 && last < upto);
	return code;
}

static int steps(struct keeper *k)
{
	int64_t upto = horizon(k, MU_KEEP_STEPS), from = view__kept_usec(k->v, MU_KEEP_STEPS), last;
	int code;

	if (!upto || upto <= from)
		return 0;
	pthread_mutex_lock(&k->v->writer);
	rocksdb_writebatch_t *wb = rocksdb_writebatch_create();
	code = each_record(k, wb, from, upto, strip_record, NULL, &k->round->steps, &last);
	if (code == 0 && k->round->steps)
		code = commit(k, wb, MU_KEEP_STEPS, last);
	rocksdb_writebatch_destroy(wb);
	pthread_mutex_unlock(&k->v->writer);
	k->round->more = k->round->more || (code == 0 && last < upto);
	return code;
}

/* ---- moments ---- */

/* Of each name of KIND ('N', 'V') the moments before UPTO go, but the last of them: it says how things stood
 * then. */
static int lives(struct keeper *k, uint8_t kind, enum mu_keep_tier tier)
{
	MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
	uint8_t from[1] = {kind}, to[1] = {kind + 1}, held[SCH_KEY_MAX + 16];
	int64_t upto = horizon(k, tier);
	size_t held_len = 0;
	uint64_t gone = 0;
	int code = 0;

	if (!upto)
		return 0;
	/* Whoever writes only adds behind them: nobody need wait. */
	rocksdb_writebatch_t *wb = rocksdb_writebatch_create();
	view__scan(k->v, NULL, VIEW_INDEX, (struct mu_view){from, 1}, (struct mu_view){to, 1}, &scan);
	for (; view__scan_valid(&scan) && gone < MOMENTS_MAX; view__scan_next(&scan)) {
		struct mu_view key = view__scan_key(&scan), value = view__scan_value(&scan);
		bool old = value.len >= 8 && (int64_t)mu_get_be64(value.data) < upto;
		if (key.len < 10 || key.len > sizeof held)
			continue;
		if (old && held_len == key.len && memcmp(held, key.data, key.len - 8) == 0) {
			view__del(k->v, wb, VIEW_INDEX, held, held_len);
			gone++;
		}
		held_len = key.len;
		memcpy(held, key.data, key.len);
	}
	k->round->more = k->round->more || gone == MOMENTS_MAX;
	k->round->moments += gone;
	if (gone)
		code = commit(k, wb, tier, upto);
	rocksdb_writebatch_destroy(wb);
	return code;
}

static int acts(struct keeper *k)
{
	int64_t upto = horizon(k, MU_KEEP_ACTS);
	uint8_t from[1] = {'X'}, to[9] = {'X'};
	int code;

	if (!upto)
		return 0;
	{
		MU_CLEANUP(view__scan_done) struct view_scan scan = {0};
		mu_put_be64(to + 1, (uint64_t)upto);
		view__scan(k->v, NULL, VIEW_INDEX, (struct mu_view){from, 1}, (struct mu_view){to, 9}, &scan);
		if (!view__scan_valid(&scan))
			return 0;
	}
	rocksdb_writebatch_t *wb = rocksdb_writebatch_create();
	view__del_range(k->v, wb, VIEW_INDEX, (struct mu_view){from, 1}, (struct mu_view){to, 9});
	code = commit(k, wb, MU_KEEP_ACTS, upto);
	rocksdb_writebatch_destroy(wb);
	k->round->moments++;
	return code;
}

/* ---- all of it ---- */

static void count(struct view *v, const struct keep_round *r)
{
	pthread_mutex_lock(&v->lock);
	v->stats.kept_rounds++;
	v->stats.dropped_jobs += r->jobs;
	v->stats.dropped_blobs += r->blobs;
	v->stats.dropped_moments += r->moments;
	v->stats.dropped_checkpoints += r->checkpoints;
	pthread_mutex_unlock(&v->lock);
}

int view_keep(struct view *v, keep_sign sign, void *arg, struct keep_round *ret, struct mu_err *err)
{
	struct keeper k = {.v = v, .round = ret, .err = err};
	int code;

	*ret = (struct keep_round){0};
	pthread_mutex_lock(&v->lock);
	k.now_usec = v->seen.time_usec;
	memcpy(k.sec, v->keep_sec, sizeof k.sec);
	bool filling = v->fill_to.pos != 0;
	pthread_mutex_unlock(&v->lock);
	if (filling || v->read_only)
		return 0;
	code = entries(&k, sign, arg);
	if (code == 0)
		code = checkpoints(&k);
	if (code == 0)
		code = steps(&k);
	if (code == 0)
		code = jobs(&k);
	if (code == 0)
		code = lives(&k, 'N', MU_KEEP_NODES);
	if (code == 0)
		code = lives(&k, 'V', MU_KEEP_RESERVATIONS);
	if (code == 0)
		code = acts(&k);
	if (code == 0) {
		pthread_mutex_lock(&v->writer);
		code = view__blob_sweep(v, k.now_usec, &ret->blobs, &ret->more, err);
		pthread_mutex_unlock(&v->writer);
	}
	count(v, ret);
	return code;
}

int64_t view_keep_shortest_sec(struct view *v)
{
	int64_t least = 0;

	pthread_mutex_lock(&v->lock);
	for (int i = 0; i < MU_KEEP_TIERS; i++)
		if (v->keep_sec[i] && (!least || v->keep_sec[i] < least))
			least = v->keep_sec[i];
	pthread_mutex_unlock(&v->lock);
	return least;
}
