/* ctld/sim_archive.c: the workload of an archive: what was submitted, by whom, and how long it ran there. */
#include "log/ctld/sim.h"

#include <stdlib.h>
#include <string.h>

#include "proto/pb.h"
#include "proto/states.h"
#include "query/history.h"

struct reader {
	struct sim_work *w;
	struct mu_map by_id;	   /* id -> index + 1 */
	struct mu_arena arena;	   /* the event at hand */
	const Mu__Config *conf;	   /* borrowed by nobody: in W's arena */
};

static void *keep(struct reader *r, const ProtobufCMessage *m)
{
	struct mu_buf buf = {0};

	mu_pb_pack(m, &buf);
	void *copy = mu_pb_unpack(m->descriptor, buf.data, buf.len, &r->w->arena);
	mu_buf_free(&buf);
	return copy;
}

static void submitted(struct reader *r, const Mu__Event *e, const struct sch_at *at, uint32_t id)
{
	struct sch_sim_job *j;

	/* What depends on others, or stands for many, has no place among single jobs. */
	if (!e->submitted->spec || e->submitted->n_resolved || e->submitted->spec->array || e->submitted->spec->dependency) {
		r->w->dropped++;
		return;
	}
	j = sim_work_add(r->w);
	j->spec = keep(r, &e->submitted->spec->base);
	j->author = keep(r, &e->author->base);
	j->submit_usec = at->time_usec;
	mu_map_put_u64(&r->by_id, id, (void *)(uintptr_t)r->w->count);
}

static void ended(struct reader *r, const struct sch_state *st, uint32_t id)
{
	size_t at = (size_t)mu_map_get_u64(&r->by_id, id);
	const Mu__JobRow *j = at ? sch_job(st, id) : NULL;

	if (j && j->start_usec && j->end_usec > j->start_usec)
		r->w->job[at - 1].run_usec = j->end_usec - j->start_usec;
}

static int look(void *arg, const struct sch_state *st, const struct sch_at *at, const uint8_t *bytes, size_t len, const struct sch_verdict *verdict)
{
	struct reader *r = arg;

	if (!verdict || verdict->code || verdict->repeated)
		return 0;
	mu_arena_reset(&r->arena);
	const Mu__Event *e = (Mu__Event *)mu_pb_unpack(&mu__event__descriptor, bytes, len, &r->arena);
	if (!e)
		return MU_ECORRUPT;
	if (e->kind_case == MU__EVENT__KIND_FOUNDED)
		r->w->begin_usec = at->time_usec;
	else if (e->kind_case == MU__EVENT__KIND_SUBMITTED)
		submitted(r, e, at, verdict->job);
	else if (e->kind_case == MU__EVENT__KIND_ATTEMPT_ENDED)
		ended(r, st, e->attempt_ended->job);
	if (e->kind_case == MU__EVENT__KIND_FOUNDED || e->kind_case == MU__EVENT__KIND_CONFIG_SET)
		r->conf = keep(r, &sch_config(st)->base);
	return 0;
}

/* Jobs that never ran say nothing of how long they would have. */
static void drop_unknown(struct sim_work *w)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < w->count; i++)
		if (w->job[i].run_usec > 0)
			w->job[kept++] = w->job[i];
	w->dropped += w->count - kept;
	w->count = kept;
}

int sim_archive_read(const char *dir, struct sim_work *w, Mu__Config **ret_conf, struct mu_err *err)
{
	struct reader r = {.w = w};
	struct hist_replay replay;
	struct view *v = NULL;
	uint64_t bad = 0;
	int code = view_open(mu_arena_printf(&w->arena, "%s/view", dir), true, &v, err);

	if (!code)
		code = hist_walk(v, 0, 0, look, &r, &replay, &bad, err);
	view_close(v);
	mu_map_clear(&r.by_id);
	mu_arena_free(&r.arena);
	if (code)
		return code;
	drop_unknown(w);
	*ret_conf = (Mu__Config *)r.conf;
	if (!r.conf || !w->count)
		return mu_fail(err, MU_ENOENT, "%s holds no job that ran from beginning to end", dir);
	return 0;
}
