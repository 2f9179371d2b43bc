/* tests/query/fake_log.c: logs of entries, folded by whichever sched is linked: the real one or the fake.
 */
#include "tests/query/fake.h"

#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/map.h"
#include "proto/pb.h"
#include "proto/rows.pb-c.h"
#include "proto/states.h"

static void put_le(uint8_t *p, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static void pack_raw(struct mu_buf *raw, int64_t time_usec, const struct view_part *parts, size_t count)
{
	uint8_t *head = mu_buf_grow(raw, 32);

	memset(head, 0, 32);
	for (size_t i = 0; i < count; i++) {
		uint8_t *p = mu_buf_grow(raw, 8);
		memset(p, 0, 8);
		put_le(p, parts[i].bytes.len, 4);
		p[4] = parts[i].kind;
		mu_buf_add(raw, parts[i].bytes.data, parts[i].bytes.len);
	}
	memcpy(raw->data, "MUE1", 4);
	put_le(raw->data + 4, raw->len, 4);
	put_le(raw->data + 8, (uint64_t)time_usec, 8);
	put_le(raw->data + 24, count, 4);
}

static void chain_next(struct mu_hash *chain, const struct view_entry *e)
{
	struct mu_hasher h, leaf;
	struct mu_hash hash;

	mu_hasher_init(&h);
	mu_hasher_add(&h, chain->b, 32);
	mu_hasher_add(&h, e->header.data, 32);
	for (size_t i = 0; i < e->part_count; i++) {
		mu_hasher_init(&leaf);
		mu_hasher_add(&leaf, &e->parts[i].kind, 1);
		mu_hasher_add(&leaf, e->parts[i].bytes.data, e->parts[i].bytes.len);
		mu_hasher_done(&leaf, &hash);
		mu_hasher_add(&h, hash.b, 32);
	}
	mu_hasher_done(&h, chain);
}

void fake_log_add(struct fake_log *log, int64_t time_usec, const struct view_part *parts, size_t count)
{
	struct sch_changes changes = {0};

	if (log->count == log->cap) {
		log->cap = log->cap ? 2 * log->cap : 256;
		log->v = realloc(log->v, log->cap * sizeof *log->v);
		assert(log->v);
	}
	struct fake_entry *f = &log->v[log->count];
	memset(f, 0, sizeof *f);
	pack_raw(&f->raw, time_usec, parts, count);
	f->e.pos = log->count + 1;
	f->e.time_usec = time_usec;
	f->e.header = (struct mu_view){f->raw.data, 32};
	struct view_part *kept = mu_arena_alloc(&f->arena, (count + 1) * sizeof *kept);
	size_t at = 32;
	for (size_t i = 0; i < count; i++) {
		kept[i].kind = parts[i].kind;
		kept[i].bytes = (struct mu_view){f->raw.data + at + 8, parts[i].bytes.len};
		at += 8 + parts[i].bytes.len;
	}
	f->e.parts = kept;
	f->e.part_count = count;
	if (log->count)
		f->e.chain = log->v[log->count - 1].e.chain;
	chain_next(&f->e.chain, &f->e);
	struct sch_at when = {f->e.pos, 0, time_usec};
	for (size_t i = 0; i < count; i++)
		if (kept[i].kind == 1) {
			int code = sch_evolve(log->st, &when, kept[i].bytes.data, kept[i].bytes.len,
					      &log->verdict, &changes, NULL);
			assert(code == 0);
			when.n++;
		}
	sch_entry_done(log->st, f->e.pos, time_usec, &changes);
	sch_digest(log->st, &f->e.digest);
	struct view_row *rows = mu_arena_alloc(&f->arena, (changes.count + 1) * sizeof *rows);
	for (size_t i = 0; i < changes.count; i++) {
		struct mu_buf row = {0};
		rows[i].key = changes.v[i].key;
		rows[i].gone = changes.v[i].gone;
		if (!rows[i].gone) {
			int code = sch_row_pack(log->st, &rows[i].key, &row);
			assert(code == 0);
			rows[i].row = (struct mu_view){mu_arena_dup(&f->arena, row.data, row.len), row.len};
		}
		mu_buf_free(&row);
	}
	f->e.rows = rows;
	f->e.row_count = changes.count;
	sch_changes_free(&changes);
	log->count++;
}

void fake_log_init(struct fake_log *log, uint64_t seed)
{
	*log = (struct fake_log){.events_each = 2};
	mu_seed_init(&log->seed, seed);
	log->st = sch_state_new();
}

void fake_log_done(struct fake_log *log)
{
	for (size_t i = 0; i < log->count; i++) {
		mu_buf_free(&log->v[i].raw);
		mu_arena_free(&log->v[i].arena);
	}
	free(log->v);
	sch_state_free(log->st);
	*log = (struct fake_log){0};
}

void fake_remove_dir(const char *dir)
{
	DIR *d = opendir(dir);
	char path[512];

	if (!d)
		return;
	for (struct dirent *e; (e = readdir(d));) {
		snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
		if (e->d_name[0] != '.')
			unlink(path);
	}
	closedir(d);
	rmdir(dir);
}
