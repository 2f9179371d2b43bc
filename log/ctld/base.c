/* ctld/base.c: what lies below a peer's cut, fetched by a controller whose history is filled in and whose next entry no peer has
 * any more (query/base.c). Afterwards the archive is filled in from the cut on, as ever. */
#include "log/ctld/ctld.h"

#include <stdlib.h>
#include <string.h>

#include "log/diag.h"
#include "query/keep.h"

/* As snapshot.c draws a page of an image. */
enum { PAGE_HEAD = 8 + 8 + 32 + 1 + 4, PAGE_MORE = 48, PAGE_CURSOR = 49, CURSOR_MAX = 1024, CALL_MSEC = 10000, AGAIN_MSEC = 5000 };

/* ---- fetching ---- */
struct ctl_base {
	uint64_t from, image;
	struct mu_buf cursor, page;
	bool more, bad;
};

static void ask_page(struct ctl *c);

static void end(struct ctl *c, bool ok)
{
	struct ctl_base *b = c->base;

	c->base = NULL;
	if (ok)
		diag_info("Controller %s keeps history from another's cut on.", c->opt.name);
	ctl_backfill_resume(c, ok ? 0 : AGAIN_MSEC);
	mu_buf_free(&b->cursor);
	mu_buf_free(&b->page);
	free(b);
}

/* On the projector's thread, which alone writes the view. */
static void take(struct ctl *c, void *arg)
{
	struct ctl_base *b = arg;
	struct mu_err err = {0};

	b->bad = view_base_take(c->view, (struct mu_view){b->page.data, b->page.len}, &err) != 0 ||
		 (!b->more && view_base_done(c->view, &err) != 0);
	if (b->bad)
		diag_error("What lies below another controller's cut could not be taken over: %s", err.text);
}

static void taken(struct ctl *c, void *arg)
{
	struct ctl_base *b = arg;

	if (c->closing)
		return;
	if (b->bad || !b->more)
		end(c, !b->bad);
	else
		ask_page(c);
}

static void on_page(void *arg, int code, struct mu_view bytes)
{
	struct ctl *c = arg;
	struct ctl_base *b = c->base;
	uint32_t cursor = !code && bytes.len >= PAGE_HEAD ? mu_get_be32(bytes.data + PAGE_CURSOR) : UINT32_MAX;

	if (!b || c->closing)
		return;
	if (cursor > CURSOR_MAX || PAGE_HEAD + cursor > bytes.len) {
		end(c, false);
		return;
	}
	b->image = mu_get_be64(bytes.data);
	b->more = bytes.data[PAGE_MORE];
	mu_buf_reset(&b->cursor);
	mu_buf_add(&b->cursor, bytes.data + PAGE_HEAD, cursor);
	mu_buf_reset(&b->page);
	mu_buf_add(&b->page, bytes.data + PAGE_HEAD + cursor, bytes.len - PAGE_HEAD - cursor);
	ctl_project_work(c, take, taken, b);
}

static void ask_page(struct ctl *c)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf ask = {0};
	struct ctl_base *b = c->base;

	mu_put_be64(mu_buf_grow(&ask, 8), b->image);
	if (b->cursor.len)
		mu_buf_add(&ask, b->cursor.data, b->cursor.len);
	if (log_replica_call(c->replica, b->from, CTL_PEER_BASE, (struct mu_view){ask.data, ask.len}, CALL_MSEC, on_page, c))
		end(c, false);
}

void ctl_base_fetch(struct ctl *c, uint64_t from)
{
	struct ctl_base *b;

	if (c->base || c->closing)
		return;
	b = c->base = calloc(1, sizeof *b);
	if (!b)
		abort();
	b->from = from;
	diag_info("What comes next in history is no longer kept by the others: their cut is taken over.");
	ask_page(c);
}
