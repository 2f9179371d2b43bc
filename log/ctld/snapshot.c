/* ctld/snapshot.c: Raft snapshots are pointers; the rows they name travel between controllers as images of the view.
 *
 * Due: the view is made durable, then the pointer is handed to the replica. Install: pages of a peer's image go into a fresh State on
 * a reader thread; when all is there and right, the projector switches the view and the core takes the State; only then is the
 * leader's InstallSnapshot let through. Afterwards the archive below is fetched from a peer, from the position that the view names. */
#include "log/ctld/ctld.h"

#include <stdlib.h>
#include <string.h>

#include "log/ctld/nodekeys.h"
#include "log/diag.h"
#include "proto/base/map.h"
#include "query/keep.h"

enum { IMAGE_PAGE = 512 * 1024, IMAGES_OPEN = 4, IMAGE_HEAD = 8 + 8 + 32 + 1 + 4, CURSOR_MAX = 1024 };
enum { IMAGE_IDLE_MSEC = 30000, CALL_MSEC = 10000, BACKFILL_PAGE = 1 << 20, ENTRY_HEAD = 44 };

/* ---- a snapshot of ours is due ---- */
static void sync_view(struct ctl *c, void *arg)
{
	struct mu_err err = {0};

	(void)arg;
	if (view_sync(c->view, &err))
		diag_fatal("The view could not be made durable: %s", err.text);
}

static void synced(struct ctl *c, void *arg)
{
	struct log_pointer *pointer = arg;

	if (!c->closing)
		log_replica_snapshot_ready(c->replica, pointer);
	free(pointer);
}

void ctl_snapshot_due(void *arg)
{
	struct ctl *c = arg;
	struct log_pointer *pointer = calloc(1, sizeof *pointer);

	if (!pointer)
		abort();
	pointer->pos = sch_pos(c->st);
	pointer->time_usec = sch_now_usec(c->st);
	pointer->chain = c->chain;
	sch_digest(c->st, &pointer->digest);
	ctl_project_work(c, sync_view, synced, pointer);
}

/* ---- serving an image ---- */
struct open_image {
	uint64_t id, pos;
	struct mu_hash chain;
	struct view_image *image;
	int64_t used_msec;
	bool busy;
};
static struct open_image images[IMAGES_OPEN];
static uint64_t next_image = 1;
static pthread_mutex_t images_lock = PTHREAD_MUTEX_INITIALIZER;

struct page_ask {
	struct log_reply_to *reply;
	bool base; /* what lies below the archive's cut instead of the present rows */
	uint64_t image;
	struct mu_buf cursor, out;
};

static struct open_image *image_new(struct ctl *c)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf raw = {0};
	struct open_image *im = NULL;
	struct mu_err err = {0};

	for (unsigned i = 0; i < IMAGES_OPEN; i++)
		if (!images[i].busy && (!im || !images[i].image || images[i].used_msec < im->used_msec))
			im = &images[i];
	if (!im || (im->image && ctl_mono_msec() - im->used_msec < IMAGE_IDLE_MSEC))
		return NULL;
	im->image = view_image_close(im->image);
	if (view_image_open(c->view, &im->image, &im->pos, &err) || view_entry_get(c->view, im->pos, &raw, &im->chain, &err)) {
		diag_error("An image of the view could not be opened: %s", err.text);
		im->image = view_image_close(im->image);
		return NULL;
	}
	im->id = next_image++;
	return im;
}

static struct open_image *image_take(struct ctl *c, uint64_t id)
{
	struct open_image *im = NULL;

	pthread_mutex_lock(&images_lock);
	if (!id)
		im = image_new(c);
	for (unsigned i = 0; id && i < IMAGES_OPEN; i++)
		if (images[i].id == id && images[i].image && !images[i].busy)
			im = &images[i];
	if (im)
		im->busy = true;
	pthread_mutex_unlock(&images_lock);
	return im;
}

static void image_page_done(struct ctl *c, void *arg)
{
	struct page_ask *ask = arg;

	if (!c->closing)
		log_replica_answer(c->replica, ask->reply, (struct mu_view){ask->out.data, ask->out.len});
	mu_buf_free(&ask->cursor);
	mu_buf_free(&ask->out);
	free(ask);
}

/* Page: u64 image, u64 pos, 32 chain, u8 more, u32 cursor length, cursor, rows. Empty: no image can be had. */
static void image_page(struct ctl *c, void *arg)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf rows = {0};
	struct page_ask *ask = arg;
	struct open_image *im = image_take(c, ask->image);
	struct mu_err err = {0};
	uint8_t head[IMAGE_HEAD];
	bool more = false;
	int code = MU_EBUSY;

	if (im && ask->base)
		code = view_base_read(im->image, &ask->cursor, IMAGE_PAGE, &rows, &more, &err);
	else if (im)
		code = view_image_read(im->image, &ask->cursor, IMAGE_PAGE, &rows, &more, &err);
	if (!code) {
		mu_put_be64(head, im->id);
		mu_put_be64(head + 8, im->pos);
		memcpy(head + 16, im->chain.b, 32);
		head[48] = more;
		mu_put_be32(head + 49, (uint32_t)ask->cursor.len);
		mu_buf_add(&ask->out, head, sizeof head);
		mu_buf_add(&ask->out, ask->cursor.data, ask->cursor.len);
		mu_buf_add(&ask->out, rows.data, rows.len);
	}
	pthread_mutex_lock(&images_lock);
	if (im) {
		im->busy = false;
		im->used_msec = ctl_mono_msec();
		if (!more)
			im->image = view_image_close(im->image);
	}
	pthread_mutex_unlock(&images_lock);
	ctl_post(c, image_page_done, ask);
}

void ctl_image_from_peer(struct ctl *c, struct mu_view bytes, bool base, struct log_reply_to *reply)
{
	struct page_ask *ask;

	if (bytes.len < 8 || bytes.len > 8 + CURSOR_MAX) {
		log_replica_answer(c->replica, reply, (struct mu_view){NULL, 0});
		return;
	}
	ask = calloc(1, sizeof *ask);
	if (!ask)
		abort();
	ask->reply = reply;
	ask->base = base;
	ask->image = mu_get_be64(bytes.data);
	mu_buf_add(&ask->cursor, bytes.data + 8, bytes.len - 8);
	ctl_read_task(c, image_page, ask);
}

/* ---- taking an image ---- */
struct ctl_install {
	struct log_pointer pointer;
	uint64_t from, image, pos;
	struct mu_hash chain;
	struct mu_buf cursor, page;
	struct sch_state *st;
	bool more, bad;
};

static void install_end(struct ctl *c, bool ok)
{
	struct ctl_install *in = c->install;

	c->install = NULL;
	if (!ok)
		diag_error("Fetching the State of position %llu from controller %016llx failed; it will be tried again.",
			   (unsigned long long)in->pointer.pos, (unsigned long long)in->from);
	log_replica_install_ready(c->replica, &in->pointer, ok);
	sch_state_free(in->st);
	mu_buf_free(&in->cursor);
	mu_buf_free(&in->page);
	free(in);
}

static void switch_view(struct ctl *c, void *arg)
{
	struct ctl_install *in = arg;
	struct mu_err err = {0};

	if (view_switch(c->view, in->st, &in->chain, &err) || view_sync(c->view, &err))
		diag_fatal("The view could not take the fetched State: %s", err.text);
}

static void switched(struct ctl *c, void *arg)
{
	struct ctl_install *in = arg;

	sch_state_free(c->st);
	c->st = in->st;
	in->st = NULL;
	c->chain = in->chain;
	c->all_nodes_dirty = true;
	ctl_node_keys_follow(c->st, NULL);
	atomic_store(&c->founded, sch_founded(c->st));
	diag_info("Controller %s took the State of position %llu from another.", c->opt.name, (unsigned long long)in->pos);
	install_end(c, true);
}

static void install_next(struct ctl *c);

static void install_work(struct ctl *c, void *arg)
{
	struct ctl_install *in = arg;
	struct mu_err err = {0};
	struct mu_hash digest;

	in->bad = view_image_feed(in->st, (struct mu_view){in->page.data, in->page.len}, &err) != 0;
	if (!in->bad && !in->more) {
		in->bad = sch_load_done(in->st, &err) || sch_pos(in->st) != in->pos || in->pos < in->pointer.pos;
		sch_digest(in->st, &digest);
		if (!in->bad && in->pos == in->pointer.pos)
			in->bad = memcmp(&digest, &in->pointer.digest, sizeof digest) || memcmp(&in->chain, &in->pointer.chain, sizeof digest);
	}
	if (in->bad)
		diag_error("The fetched State is not right: %s", err.text[0] ? err.text : "position, chain or digest differ");
}

static void install_worked(struct ctl *c, void *arg)
{
	struct ctl_install *in = arg;

	if (c->closing)
		return;
	if (in->bad)
		install_end(c, false);
	else if (in->more)
		install_next(c);
	else
		ctl_project_work(c, switch_view, switched, in);
}

static void install_task(struct ctl *c, void *arg)
{
	install_work(c, arg);
	ctl_post(c, install_worked, arg);
}

static void on_page(void *arg, int code, struct mu_view bytes)
{
	struct ctl *c = arg;
	struct ctl_install *in = c->install;
	uint32_t cursor;

	if (!in)
		return;
	if (code || bytes.len < IMAGE_HEAD) {
		install_end(c, false);
		return;
	}
	cursor = mu_get_be32(bytes.data + 49);
	if (cursor > CURSOR_MAX || IMAGE_HEAD + cursor > bytes.len) {
		install_end(c, false);
		return;
	}
	in->image = mu_get_be64(bytes.data);
	in->pos = mu_get_be64(bytes.data + 8);
	memcpy(in->chain.b, bytes.data + 16, 32);
	in->more = bytes.data[48];
	mu_buf_reset(&in->cursor);
	mu_buf_add(&in->cursor, bytes.data + IMAGE_HEAD, cursor);
	mu_buf_reset(&in->page);
	mu_buf_add(&in->page, bytes.data + IMAGE_HEAD + cursor, bytes.len - IMAGE_HEAD - cursor);
	ctl_read_task(c, install_task, in);
}

static void install_next(struct ctl *c)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf ask = {0};
	struct ctl_install *in = c->install;

	mu_put_be64(mu_buf_grow(&ask, 8), in->image);
	mu_buf_add(&ask, in->cursor.data, in->cursor.len);
	if (log_replica_call(c->replica, in->from, CTL_PEER_IMAGE, (struct mu_view){ask.data, ask.len}, CALL_MSEC, on_page, c))
		install_end(c, false);
}

void ctl_snapshot_install(void *arg, const struct log_pointer *pointer, uint64_t from)
{
	struct ctl *c = arg;
	struct ctl_install *in;

	if (c->install || c->closing)
		return;
	if (sch_pos(c->st) >= pointer->pos) { /* we have it already */
		log_replica_install_ready(c->replica, pointer, true);
		return;
	}
	in = calloc(1, sizeof *in);
	if (!in)
		abort();
	in->pointer = *pointer;
	in->from = from;
	in->st = sch_state_new();
	c->install = in;
	install_next(c);
}

int ctl_snapshot_restore(void *arg, const struct log_pointer *pointer)
{
	struct ctl *c = arg;

	if (sch_pos(c->st) < pointer->pos) {
		diag_error("The view stands at position %llu, before the snapshot at %llu; the view directory was lost or replaced.",
			   (unsigned long long)sch_pos(c->st), (unsigned long long)pointer->pos);
		return MU_ECORRUPT;
	}
	return 0;
}

/* ---- the archive below ---- */
struct ctl_backfill {
	bool busy;
	uint64_t from;
	struct mu_buf page;
	int64_t again_msec;
};

void ctl_backfill_resume(struct ctl *c, int64_t msec)
{
	c->backfill->busy = false;
	c->backfill->again_msec = ctl_mono_msec() + msec;
}

static void backfill_work(struct ctl *c, void *arg)
{
	struct ctl_backfill *b = arg;
	const uint8_t *p = b->page.data, *end = p + b->page.len;
	struct mu_err err = {0};

	while (end - p > ENTRY_HEAD) {
		struct mu_hash chain;
		uint64_t pos = mu_get_be64(p);
		uint32_t len = mu_get_be32(p + 40);

		memcpy(chain.b, p + 8, 32);
		p += ENTRY_HEAD;
		if ((size_t)(end - p) < len || !view_backfill_next(c->view))
			break;
		if (view_backfill(c->view, pos, (struct mu_view){p, len}, &chain, &err)) {
			diag_error("Archive entry %llu could not be taken over: %s", (unsigned long long)pos, err.text);
			b->again_msec = ctl_mono_msec() + 5000;
			break;
		}
		p += len;
	}
}

static void backfill_worked(struct ctl *c, void *arg)
{
	struct ctl_backfill *b = arg;

	b->busy = false;
	if (!view_backfill_next(c->view))
		diag_info("The archive of controller %s is complete.", c->opt.name);
}

static void on_entries(void *arg, int code, struct mu_view bytes)
{
	struct ctl *c = arg;
	struct ctl_backfill *b = c->backfill;

	if (c->closing || code || !bytes.len) {
		b->busy = false;
		b->again_msec = ctl_mono_msec() + 1000;
		return;
	}
	if (bytes.len == 8) { /* the peer let go of what comes next, and says up to where */
		ctl_base_fetch(c, b->from);
		return;
	}
	mu_buf_reset(&b->page);
	mu_buf_add(&b->page, bytes.data, bytes.len);
	ctl_project_work(c, backfill_work, backfill_worked, b);
}

/* Another controller that is up, the leader first; 0: none. */
static uint64_t some_peer(struct ctl *c)
{
	if (c->leader && c->leader != c->replica_id)
		return c->leader;
	for (unsigned i = 0; i < c->peers; i++)
		if (log_replica_peer_up(c->replica, c->peer[i].id))
			return c->peer[i].id;
	return 0;
}

void ctl_backfill_housekeeping(struct ctl *c)
{
	struct ctl_backfill *b = c->backfill;
	uint64_t next, from;
	uint8_t ask[12];

	if (!b) {
		b = c->backfill = calloc(1, sizeof *b);
		if (!b)
			abort();
	}
	if (b->busy || c->install || ctl_mono_msec() < b->again_msec)
		return;
	b->again_msec = ctl_mono_msec() + 100;
	next = view_backfill_next(c->view);
	from = next ? some_peer(c) : 0;
	if (!from)
		return;
	b->again_msec = 0;
	b->busy = true;
	b->from = from;
	mu_put_be64(ask, next);
	mu_put_be32(ask + 8, BACKFILL_PAGE);
	if (log_replica_call(c->replica, from, CTL_PEER_ENTRIES, (struct mu_view){ask, sizeof ask}, CALL_MSEC, on_entries, c))
		on_entries(c, MU_ECONNECT, (struct mu_view){NULL, 0});
}

/* Page of entries: per entry u64 pos, 32 chain, u32 length, raw. Where the first is no longer kept: u64, the last that is not. */
struct entries_ask {
	struct log_reply_to *reply;
	uint64_t from;
	uint32_t max;
	struct mu_buf out;
};

static void entries_done(struct ctl *c, void *arg)
{
	struct entries_ask *ask = arg;

	if (!c->closing)
		log_replica_answer(c->replica, ask->reply, (struct mu_view){ask->out.data, ask->out.len});
	mu_buf_free(&ask->out);
	free(ask);
}

static void entries_page(struct ctl *c, void *arg)
{
	struct entries_ask *ask = arg;
	struct mu_err err = {0};
	struct view_stats stats;

	view_stats(c->view, &stats);
	if (ask->from <= stats.cut_pos)
		mu_put_be64(mu_buf_grow(&ask->out, 8), stats.cut_pos);
	for (uint64_t pos = ask->from; pos > stats.cut_pos && ask->out.len < ask->max; pos++) {
		MU_CLEANUP(mu_buf_free) struct mu_buf raw = {0};
		struct mu_hash chain;
		uint8_t head[ENTRY_HEAD];

		if (view_entry_get(c->view, pos, &raw, &chain, &err))
			break;
		mu_put_be64(head, pos);
		memcpy(head + 8, chain.b, 32);
		mu_put_be32(head + 40, (uint32_t)raw.len);
		mu_buf_add(&ask->out, head, sizeof head);
		mu_buf_add(&ask->out, raw.data, raw.len);
	}
	ctl_post(c, entries_done, ask);
}

void ctl_entries_from_peer(struct ctl *c, struct mu_view bytes, struct log_reply_to *reply)
{
	struct entries_ask *ask;

	if (bytes.len != 12) {
		log_replica_answer(c->replica, reply, (struct mu_view){NULL, 0});
		return;
	}
	ask = calloc(1, sizeof *ask);
	if (!ask)
		abort();
	ask->reply = reply;
	ask->from = mu_get_be64(bytes.data);
	ask->max = mu_get_be32(bytes.data + 8);
	if (ask->max > BACKFILL_PAGE)
		ask->max = BACKFILL_PAGE;
	ctl_read_task(c, entries_page, ask);
}
