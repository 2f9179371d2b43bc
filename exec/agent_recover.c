/* exec/agent_recover.c: what an earlier agent of this node left: attempts to go on with, ends to report,
 * strays to end. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/agent.h"
#include "exec/herd.h"
#include "exec/shepherd.h"
#include "exec/spool.h"
#include "log/diag.h"
#include "proto/conf.h"
#include "proto/pb.h"
#include "proto/states.h"

enum { STRAY_KILL_MSEC = 5000 };

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

/* ---- the floor ---- */

/* Not forced to disk: a node that lost its power registers under another boot id, and starts nothing that was
 * ordered before. */
void agent_floor_save(struct agent *a)
{
	Mu__SpoolFloor f = MU__SPOOL_FLOOR__INIT;
	struct mu_err err = {0};
	if (a->floor_saved_pos && a->floor_saved_pos == a->floor_pos)
		return;
	f.has_pos = f.has_cluster_public = 1;
	f.pos = a->floor_pos;
	f.cluster_public = (ProtobufCBinaryData){sizeof a->keys.cluster_public, a->keys.cluster_public};
	if (exe_spool_write_pb(a->spool_dir, "floor", &f.base, false, &err))
		diag_error("%s", err.text);
	else
		a->floor_saved_pos = a->floor_pos;
}

/* True when the spool is this cluster's (or empty). */
static bool floor_load(struct agent *a)
{
	MU_CLEANUP(mu_arena_free) struct mu_arena arena = {0};
	ProtobufCMessage *m = NULL;
	if (exe_spool_read_pb(a->spool_dir, "floor", &mu__spool_floor__descriptor, &arena, &m, NULL))
		return true;
	const Mu__SpoolFloor *f = (Mu__SpoolFloor *)m;
	/* A power cut may leave it empty: it says nothing then, and least of all that the spool is another's.
	 */
	if (!f->has_pos && !f->cluster_public.len)
		return true;
	if (f->cluster_public.len != sizeof a->keys.cluster_public ||
	    memcmp(f->cluster_public.data, a->keys.cluster_public, f->cluster_public.len) != 0)
		return false;
	a->floor_pos = f->pos;
	return true;
}

/* ---- steps ---- */

static void unlink_step(const struct agent_attempt *t, uint32_t step)
{
	static const char *const ending[] = {"order", "state", "sock", "end"};
	char word[16], path[4200];
	exe_step_word(step, word);
	for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
		snprintf(path, sizeof path, "%s/step_%s.%s", t->dir, word, ending[i]);
		unlink(path);
	}
}

void agent_steps_prune(struct agent_attempt *t)
{
	/* The rows in the report of the attempt's end are the steps' own memory. */
	if (t->phase == EXE_ENDED)
		return;
	for (struct agent_step **at = &t->step; *at;) {
		struct agent_step *s = *at;
		if (!s->ended || !s->told_end || s->order->step == MU_STEP_BATCH || s->pid > 0) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		if (!s->lead)
			unlink_step(t, s->order->step);
		agent_step_free(s);
	}
}

static bool file_there(int dir, const char *word, const char *ending)
{
	char name[40];
	snprintf(name, sizeof name, "step_%s.%s", word, ending);
	return faccessat(dir, name, F_OK, 0) == 0;
}

/* True when the step ran or runs; false when its order was written and nothing came of it. */
static bool recover_step(struct agent *a, struct agent_attempt *t, int dir, const char *word)
{
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	ProtobufCMessage *m = NULL;
	char name[40];
	snprintf(name, sizeof name, "step_%s.order", word);
	if (exe_spool_read_pb(dir, name, &mu__step_order__descriptor, &arena, &m, &err)) {
		diag_error("%s: %s", t->name, err.text);
		mu_arena_free(&arena);
		return false;
	}
	Mu__StepOrder *o = (Mu__StepOrder *)m;
	int control = -1;
	bool alive = exe_herd_find(t->dir, o->step, &control);
	if (!alive && !file_there(dir, word, "state") && !file_there(dir, word, "end")) {
		mu_arena_free(&arena);
		return false;
	}
	struct agent_step *s = agent_step_add(t, o, arena);
	s->control = control;
	if (o->is_part)
		s->told_start = s->told_end = true;
	if (o->step < MU_STEP_BATCH && o->step >= t->record->next_step) {
		t->record->has_next_step = 1;
		t->record->next_step = o->step + 1;
	}
	if (!alive)
		agent_step_read_end(a, t, s);
	else
		diag_info("job %u step %s goes on with its shepherd", o->job, word);
	return true;
}

static void recover_steps(struct agent *a, struct agent_attempt *t)
{
	int dir = open(t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = dir < 0 ? NULL : fdopendir(dir);
	for (struct dirent *e; d && (e = readdir(d));) {
		char word[16];
		int end = 0;
		if (sscanf(e->d_name, "step_%15[a-z0-9].order%n", word, &end) == 1 && end > 0 &&
		    e->d_name[end] == 0)
			recover_step(a, t, dir, word);
		end = 0;
		if (sscanf(e->d_name, "step_%15[a-z0-9].lead%n", word, &end) == 1 && end > 0 &&
		    e->d_name[end] == 0)
			agent_lead_recover(a, t, dir, word);
	}
	if (d)
		closedir(d);
	for (struct agent_step *s = t->step; s; s = s->next)
		for (const struct agent_step *part = t->step; s->lead && part; part = part->next)
			if (!part->lead && part->order->step == s->order->step)
				s->lead_here = true;
}

/* ---- attempts ---- */

/* Ends go on being ends: the batch script's that came while no agent was there, and those that had begun. */
static void resume(struct agent *a, struct agent_attempt *t)
{
	for (struct agent_step *s = t->step; s && t->phase == EXE_RUNNING; s = s->next)
		if (s->order->step == MU_STEP_BATCH && s->ended) {
			agent_attempt_end(a, t, s->end->cause, s->end->by_uid,
					  s->end->cause == END_SHEPHERD_LOST);
			return;
		}
	if (t->phase == EXE_ENDING)
		agent_attempt_end(a, t, t->record->end_cause, 0, false);
	agent_attempt_settle(a, t);
}

static void recover_attempt(struct agent *a, const char *name)
{
	struct mu_arena arena = {0};
	struct mu_err err = {0};
	ProtobufCMessage *m = NULL;
	MU_CLEANUP(close_fd)
	int dir = openat(a->spool_dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	int code = dir < 0
		       ? MU_EIO
		       : exe_spool_read_pb(dir, "attempt", &mu__attempt_record__descriptor, &arena, &m, &err);
	Mu__AttemptRecord *r = (Mu__AttemptRecord *)m;
	if (code || !r->order || !r->order->spec || !r->cgroup) {
		/* Written before anything was launched: a folder without it never ran. */
		diag_info("%s: a folder without a record is removed", name);
		exe_spool_remove(a->spool_dir, name, &err);
		mu_arena_free(&arena);
		return;
	}
	struct agent_attempt *t = agent_attempt_add(a, r, arena);
	t->group_made = true;
	if (r->pos > a->floor_pos)
		a->floor_pos = r->pos;
	bool same_boot = r->boot_id.len == 16 && memcmp(r->boot_id.data, a->inventory.boot_id, 16) == 0;
	t->of_old_boot = !same_boot;
	recover_steps(a, t);
	if (r->ended && r->ended->has_released) {
		t->phase = EXE_ENDED;
	} else if (!same_boot) {
		t->phase = EXE_ENDING;
		r->has_end_cause = 1;
		r->end_cause = END_NODE_FAIL;
	} else if (r->ending) {
		t->phase = EXE_ENDING;
	} else if (t->step || (!(t->order->batch_host && t->order->spec->batch) &&
			       (r->prologed || !mu_conf_get(a->live, "Prolog", NULL)))) {
		t->phase = EXE_RUNNING;
		agent_suspend_apply(a, t);
	} else {
		agent_attempt_begin(a, t);
	}
	resume(a, t);
}

/* ---- groups without a record ---- */

struct strays {
	struct agent *a;
	char path[EXE_CGROUP_PATH];
};
static void end_stray(void *arg, const char *name)
{
	struct strays *s = arg;
	struct mu_err err = {0};
	char path[EXE_CGROUP_PATH + 300];
	for (struct agent_attempt *t = s->a->attempt; t; t = t->next)
		if (strcmp(t->name, name) == 0)
			return;
	snprintf(path, sizeof path, "%s/%s", s->path, name);
	diag_info("control group %s belongs to no attempt: ending it", path);
	if (exe_cgroup_kill(&s->a->host, path, STRAY_KILL_MSEC, &err) ||
	    exe_cgroup_remove(&s->a->host, path, &err))
		diag_error("%s", err.text);
}

static void drop_everything(struct agent *a)
{
	struct mu_err err = {0};
	diag_info("the spool %s is of another cluster or is to be cleaned: everything in it is ended",
		  a->spool);
	DIR *d = fdopendir(openat(a->spool_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	for (struct dirent *e; d && (e = readdir(d));)
		if (strncmp(e->d_name, "job_", 4) == 0)
			exe_spool_remove(a->spool_dir, e->d_name, &err);
	if (d)
		closedir(d);
	unlinkat(a->spool_dir, "floor", 0);
}

void agent_recover(struct agent *a)
{
	struct strays s = {.a = a};
	if (!floor_load(a) || a->clean)
		drop_everything(a);
	DIR *d = fdopendir(openat(a->spool_dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	for (struct dirent *e; d && (e = readdir(d));)
		if (strncmp(e->d_name, "job_", 4) == 0)
			recover_attempt(a, e->d_name);
	if (d)
		closedir(d);
	snprintf(s.path, sizeof s.path, "muster_%s/%s", a->cluster, a->node);
	exe_cgroup_children(&a->host, s.path, end_stray, &s);
	agent_floor_save(a);
}
