/* query/view.c: opening, closing, and what is known about the view as a whole. */
#include "query/store.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *const family_names[VIEW_CFS] = {"default", "rows", "hist", "index",
						   "entry",   "part", "blob", "ckpt"};

enum {
	/* A small configuration: the view shares its host with other daemons. */
	WRITE_BUFFER = 4 * 1024 * 1024,
	WRITE_BUFFERS_ALL = 16 * 1024 * 1024,
	CACHE_BYTES = 32 * 1024 * 1024, /* holds the rows of 10,000 jobs with room for history */
	OPEN_FILES = 64,
	WAL_BYTES = 32 * 1024 * 1024,
	WARN_LEVEL = 2,
};

static rocksdb_options_t *family_options(enum view_cf cf, rocksdb_cache_t *cache)
{
	rocksdb_options_t *o = rocksdb_options_create();
	rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
	bool cold = cf == VIEW_PART || cf == VIEW_BLOB || cf == VIEW_CKPT || cf == VIEW_HIST;

	rocksdb_options_set_create_if_missing(o, 1);
	rocksdb_options_set_create_missing_column_families(o, 1);
	rocksdb_options_set_write_buffer_size(o, WRITE_BUFFER);
	rocksdb_options_set_max_write_buffer_number(o, 2);
	rocksdb_options_set_db_write_buffer_size(o, WRITE_BUFFERS_ALL);
	rocksdb_options_set_max_open_files(o, OPEN_FILES);
	rocksdb_options_set_max_background_jobs(o, 2);
	rocksdb_options_set_max_total_wal_size(o, WAL_BYTES);
	/* A torn last record is what a crash leaves; damage before it must not pass for the end. */
	rocksdb_options_set_wal_recovery_mode(o, rocksdb_tolerate_corrupted_tail_records_recovery);
	rocksdb_options_set_keep_log_file_num(o, 2);
	rocksdb_options_set_stats_dump_period_sec(o, 0);
	rocksdb_options_set_info_log_level(o, WARN_LEVEL);
	/* What is flushed is soon compacted: only where it comes to rest is the slow compression worth its
	 * time. */
	rocksdb_options_set_compression(o, rocksdb_lz4_compression);
	if (cold)
		rocksdb_options_set_bottommost_compression(o, rocksdb_zstd_compression);
	rocksdb_block_based_options_set_block_cache(table, cache);
	rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
	rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom(10));
	rocksdb_options_set_block_based_table_factory(o, table);
	rocksdb_block_based_options_destroy(table);
	return o;
}

enum { OPEN_TRIES = 20 };
#define GONE "No such file or directory"

/* The number of the oldest write-ahead log in DIR; 0: there is none. */
static uint64_t oldest_wal(const char *dir)
{
	uint64_t oldest = 0;
	DIR *d = opendir(dir);
	for (struct dirent *e; d && (e = readdir(d));) {
		char *end;
		uint64_t number = strtoull(e->d_name, &end, 10);
		if (end != e->d_name && strcmp(end, ".log") == 0 && (!oldest || number < oldest))
			oldest = number;
	}
	if (d)
		closedir(d);
	return oldest;
}

static void close_store(struct view *v)
{
	for (int i = 0; i < VIEW_CFS; i++)
		rocksdb_column_family_handle_destroy(v->cf[i]);
	rocksdb_close(v->db);
	v->db = NULL;
}

/* Beside a writer a table may go between the reading of the list and the opening of what it names; and where a
 * log goes meanwhile, what it held is in tables that the list did not have yet: such an opening is void. */
static int open_store(struct view *v, const char *dir, struct mu_err *err)
{
	char *message = NULL, current[PATH_MAX];

	if (v->read_only && (snprintf(current, sizeof current, "%s/CURRENT", dir) >= (int)sizeof current ||
			     access(current, F_OK) != 0))
		return mu_fail(err, MU_ENOENT, "%s holds no view", dir);
	v->cache = rocksdb_cache_create_lru(CACHE_BYTES);
	for (int i = 0; i < VIEW_CFS; i++)
		v->options[i] = family_options(i, v->cache);
	v->read = rocksdb_readoptions_create();
	v->write = rocksdb_writeoptions_create();
	for (int tries = 0; v->read_only && tries < OPEN_TRIES; tries++) {
		uint64_t oldest = oldest_wal(dir);
		rocksdb_free(message);
		message = NULL;
		v->db = rocksdb_open_for_read_only_column_families(
		    v->options[0], dir, VIEW_CFS, family_names, (const rocksdb_options_t *const *)v->options,
		    v->cf, 0, &message);
		if (message ? !strstr(message, GONE) : oldest_wal(dir) == oldest)
			break;
		if (!message && tries + 1 < OPEN_TRIES)
			close_store(v);
	}
	if (!v->read_only)
		v->db = rocksdb_open_column_families(v->options[0], dir, VIEW_CFS, family_names,
						     (const rocksdb_options_t *const *)v->options, v->cf,
						     &message);
	if (message) {
		v->db = NULL;
		view__fail(err, message, dir);
		return mu_wrap(err, "opening the view");
	}
	return 0;
}

/* A new directory gets the format's number, and so does one of the format before, whose indexes are made
 * anew; another number is refused. */
static int check_format(struct view *v, const char *dir, struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf hold = {0};
	uint8_t number[4];
	int code = view__get(v, NULL, VIEW_META, "format", 6, &hold, err);
	uint32_t format = code == 0 && hold.len == 4 ? mu_get_be32(hold.data) : 0;

	if (format == VIEW_FORMAT)
		return 0;
	if (code == 0 && (format != VIEW_FORMAT - 1 || v->read_only))
		return mu_fail(
		    err, MU_EVERSION, "the view in %s has format %u; this version reads format %d%s", dir,
		    format, VIEW_FORMAT,
		    format == VIEW_FORMAT - 1 ? ": a start of its controller brings it there" : "");
	if (code && code != MU_ENOENT)
		return code;
	if (v->read_only)
		return mu_fail(err, MU_ENOENT, "%s holds no view yet", dir);
	code = code ? 0 : view__hist_reindex(v, err);
	if (code)
		return code;
	mu_put_be32(number, VIEW_FORMAT);
	rocksdb_writebatch_t *wb = rocksdb_writebatch_create();
	view__put(v, wb, VIEW_META, "format", 6, number, sizeof number);
	code = view__write(v, wb, "founding the view", err);
	rocksdb_writebatch_destroy(wb);
	return code;
}

static int load_tips(struct view *v, struct mu_err *err)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf hold = {0};
	uint8_t config = SCH_ROW_CONFIG;
	int code = view__tip_read(v, NULL, "tip", &v->now.tip, err);

	if (code && code != MU_ENOENT)
		return code;
	code = view__get(v, NULL, VIEW_META, "life", 4, &hold, err);
	if (code == 0 && hold.len == 8)
		v->life_usec = (int64_t)mu_get_be64(hold.data);
	mu_buf_reset(&hold);
	if (view__get(v, NULL, VIEW_ROWS, &config, 1, &hold, NULL) == 0)
		view__config_changed(v, (struct mu_view){hold.data, hold.len});
	code = view__keep_open(v, err);
	if (code == 0)
		code = view__ckpt_open(v, &v->now, err);
	if (code == 0)
		code = view__fill_open(v, err);
	view__seen(v);
	return code;
}

int view_open(const char *dir, bool read_only, struct view **ret, struct mu_err *err)
{
	struct view *v = calloc(1, sizeof *v);
	pthread_condattr_t monotonic;

	if (!v)
		return mu_fail(err, MU_ENOMEM, "out of memory for the view");
	v->read_only = read_only;
	v->now.tip_key = "tip";
	v->fill.tip_key = "fill";
	v->fill.shadow = VIEW_SHADOW;
	pthread_mutex_init(&v->writer, NULL);
	pthread_mutex_init(&v->lock, NULL);
	pthread_mutex_init(&v->past_lock, NULL);
	for (int i = 0; i < VIEW_PAST_STATES; i++)
		pthread_mutex_init(&v->past[i].reading, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&v->moved, &monotonic);
	pthread_condattr_destroy(&monotonic);
	int code = 0;
	if (!read_only && mkdir(dir, 0700) != 0 && errno != EEXIST)
		code = mu_fail(err, MU_EIO, "%s cannot be made for the view: %s", dir, strerror(errno));
	if (code == 0)
		code = open_store(v, dir, err);
	if (code == 0)
		code = check_format(v, dir, err);
	if (code == 0)
		code = load_tips(v, err);
	if (code) {
		view_close(v);
		return code;
	}
	*ret = v;
	return 0;
}

struct view *view_close(struct view *v)
{
	if (!v)
		return NULL;
	if (v->db) {
		pthread_mutex_lock(&v->writer);
		view__ckpt_close(v, &v->now);
		view__ckpt_close(v, &v->fill);
		pthread_mutex_unlock(&v->writer);
	}
	view__past_free(v);
	sch_state_free(v->fill_state);
	if (v->db)
		close_store(v);
	for (int i = 0; i < VIEW_CFS; i++)
		if (v->options[i])
			rocksdb_options_destroy(v->options[i]);
	if (v->read)
		rocksdb_readoptions_destroy(v->read);
	if (v->write)
		rocksdb_writeoptions_destroy(v->write);
	if (v->cache)
		rocksdb_cache_destroy(v->cache);
	for (int i = 0; i < VIEW_PAST_STATES; i++)
		pthread_mutex_destroy(&v->past[i].reading);
	pthread_cond_destroy(&v->moved);
	pthread_mutex_destroy(&v->past_lock);
	pthread_mutex_destroy(&v->lock);
	pthread_mutex_destroy(&v->writer);
	free(v);
	return NULL;
}

int view_sync(struct view *v, struct mu_err *err)
{
	char *message = NULL;

	rocksdb_flush_wal(v->db, 1, &message);
	return message ? view__fail(err, message, "making the view durable") : 0;
}

uint64_t view_pos(const struct view *v)
{
	struct view *w = (struct view *)v;

	pthread_mutex_lock(&w->lock);
	uint64_t pos = w->seen.pos;
	pthread_mutex_unlock(&w->lock);
	return pos;
}

void view_tip(const struct view *v, struct mu_hash *ret_chain, struct mu_hash *ret_digest,
	      int64_t *ret_time_usec)
{
	struct view *w = (struct view *)v;

	pthread_mutex_lock(&w->lock);
	if (ret_chain)
		*ret_chain = w->seen.chain;
	if (ret_digest)
		*ret_digest = w->seen.digest;
	if (ret_time_usec)
		*ret_time_usec = w->seen.time_usec;
	pthread_mutex_unlock(&w->lock);
}

bool view_wait(struct view *v, uint64_t pos, unsigned timeout_msec)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_msec / 1000;
	until.tv_nsec += (long)(timeout_msec % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&v->lock);
	while (v->seen.pos < pos)
		if (pthread_cond_timedwait(&v->moved, &v->lock, &until) != 0)
			break;
	bool reached = v->seen.pos >= pos;
	pthread_mutex_unlock(&v->lock);
	return reached;
}

void view_stats(struct view *v, struct view_stats *ret)
{
	pthread_mutex_lock(&v->lock);
	*ret = v->stats;
	ret->fill_from = v->fill_to.pos ? v->fill.tip.pos + 1 : 0;
	ret->fill_to = v->fill_to.pos;
	ret->cut_pos = v->cut_pos;
	pthread_mutex_unlock(&v->lock);
	for (int i = 0; i < VIEW_CFS; i++) {
		uint64_t bytes = 0;
		if (rocksdb_property_int_cf(v->db, v->cf[i], "rocksdb.total-sst-files-size", &bytes) == 0)
			ret->disk_bytes += bytes;
		if (i == VIEW_HIST)
			rocksdb_property_int_cf(v->db, v->cf[i], "rocksdb.estimate-num-keys",
						&ret->hist_records);
		if (rocksdb_property_int_cf(v->db, v->cf[i], "rocksdb.cur-size-all-mem-tables", &bytes) == 0)
			ret->memory_bytes += bytes;
	}
	ret->memory_bytes += rocksdb_cache_get_usage(v->cache);
}
