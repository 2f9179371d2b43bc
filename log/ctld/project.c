/* ctld/project.c: the projector thread: what entries did, into the view, in order, many entries a batch.
 * Owns: the queue between core and view. Bounded by bytes: the core refuses new requests while it is over CTL_PROJECT_MAX, so it
 * is at most that plus what was in flight. */
#include "log/ctld/ctld.h"

#include <stdlib.h>
#include <string.h>

#include "log/diag.h"

enum { PROJECT_BATCH = 128 };

struct item {
	struct item *next;
	ctl_fn work; /* something to do between entries instead of an entry, on this thread */
	ctl_fn done; /* then posted to the core; may be NULL */
	void *arg;
	struct view_entry entry;
	size_t bytes;
};

struct ctl_project {
	struct ctl *ctl;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t cond;
	struct item *first, **tail;
	_Atomic size_t bytes;
	bool stop;
};

static void item_free(struct item *it)
{
	free(it);
}

static void push(struct ctl_project *p, struct item *it)
{
	it->next = NULL;
	atomic_fetch_add(&p->bytes, it->bytes);
	pthread_mutex_lock(&p->lock);
	*p->tail = it;
	p->tail = &it->next;
	pthread_cond_signal(&p->cond);
	pthread_mutex_unlock(&p->lock);
}

/* Applies the items of one round; a piece of work ends a batch, so that it sees all that stood before it. */
static void apply_round(struct ctl_project *p, struct item *list)
{
	struct view_entry batch[PROJECT_BATCH];
	struct mu_err err = {0};

	while (list) {
		size_t n = 0;
		struct item *it = list;

		for (; it && !it->work && n < PROJECT_BATCH; it = it->next)
			batch[n++] = it->entry;
		if (n && view_apply(p->ctl->view, batch, n, &err))
			diag_fatal("The view could not be written: %s", err.text);
		while (n--) {
			struct item *gone = list;

			list = list->next;
			atomic_fetch_sub(&p->bytes, gone->bytes);
			item_free(gone);
		}
		if (list && list->work) {
			struct item *gone = list;

			gone->work(p->ctl, gone->arg);
			if (gone->done)
				ctl_post(p->ctl, gone->done, gone->arg);
			list = list->next;
			item_free(gone);
		}
	}
}

static void *run(void *arg)
{
	struct ctl_project *p = arg;

	for (;;) {
		struct item *list;
		bool stop;

		pthread_mutex_lock(&p->lock);
		while (!p->first && !p->stop)
			pthread_cond_wait(&p->cond, &p->lock);
		list = p->first;
		stop = p->stop;
		p->first = NULL;
		p->tail = &p->first;
		pthread_mutex_unlock(&p->lock);
		apply_round(p, list);
		if (stop && !list)
			return NULL;
	}
}

int ctl_project_start(struct ctl *c, struct mu_err *err)
{
	struct ctl_project *p = calloc(1, sizeof *p);

	if (!p)
		return mu_fail(err, MU_ENOMEM, "No memory for the projector.");
	p->ctl = c;
	p->tail = &p->first;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->cond, NULL);
	if (pthread_create(&p->thread, NULL, run, p)) {
		free(p);
		return mu_fail(err, MU_EINTERNAL, "The projector's thread could not be started.");
	}
	c->project = p;
	return 0;
}

void ctl_project_stop(struct ctl *c)
{
	struct ctl_project *p = c->project;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_signal(&p->cond);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->cond);
	free(p);
	c->project = NULL;
}

size_t ctl_project_bytes(const struct ctl *c)
{
	return c->project ? atomic_load(&c->project->bytes) : 0;
}

/* One allocation holds the item, its parts, rows and all bytes. */
void ctl_project_push(struct ctl *c, uint64_t pos, const struct log_entry *entry, const struct sch_changes *changes)
{
	MU_CLEANUP(mu_buf_free) struct mu_buf rows = {0};
	size_t *end = calloc(changes->count + 1, sizeof *end);
	size_t total, cursor = 0, n = 0;
	struct log_part part;
	struct item *it;
	uint8_t *p, *raw;

	if (!end)
		abort();
	for (size_t i = 0; i < changes->count; i++) {
		if (!changes->v[i].gone && sch_changes_row(c->st, changes, i, &rows))
			diag_fatal("A changed row of kind %u is not in State.", changes->v[i].key.kind);
		end[i] = rows.len;
	}
	total = sizeof *it + entry->part_count * sizeof(struct view_part) + changes->count * sizeof(struct view_row) + entry->raw_len +
		rows.len;
	it = calloc(1, total);
	if (!it)
		abort();
	p = (uint8_t *)(it + 1);
	struct view_part *parts = (struct view_part *)p;
	p += entry->part_count * sizeof *parts;
	struct view_row *out = (struct view_row *)p;
	p += changes->count * sizeof *out;
	raw = p;
	memcpy(raw, entry->raw, entry->raw_len);
	p += entry->raw_len;
	if (rows.len)
		memcpy(p, rows.data, rows.len);
	struct log_entry copy = *entry;
	copy.raw = raw;
	while (n < entry->part_count && log_entry_next(&copy, &cursor, &part)) {
		parts[n].kind = part.kind;
		parts[n++].bytes = part.bytes;
	}
	for (size_t i = 0; i < changes->count; i++) {
		size_t from = i ? end[i - 1] : 0;

		out[i].key = changes->v[i].key;
		out[i].gone = changes->v[i].gone;
		out[i].row = (struct mu_view){p + from, end[i] - from};
	}
	free(end);
	it->bytes = total;
	it->entry = (struct view_entry){
		.pos = pos,
		.time_usec = entry->time_usec,
		.header = {raw, LOG_ENTRY_HEADER},
		.parts = parts,
		.part_count = n,
		.chain = c->chain,
		.rows = out,
		.row_count = changes->count,
	};
	sch_digest(c->st, &it->entry.digest);
	push(c->project, it);
}

void ctl_project_work(struct ctl *c, ctl_fn work, ctl_fn done, void *arg)
{
	struct item *it = calloc(1, sizeof *it);

	if (!it)
		abort();
	it->work = work;
	it->done = done;
	it->arg = arg;
	push(c->project, it);
}
