/* sched/rows_job.c: one job's record to its row and back. The record keeps shared parts as references; the
 * row is complete. A packed row is id, then the spec's own bytes, then the rest: field order, without
 * unpacking the spec. */
#include "sched/timeline.h"

#include <assert.h>
#include <stdlib.h>

static Mu__GresGot *got_row(const struct sch_got *g, struct mu_arena *arena)
{
	Mu__GresGot *row = mu_arena_alloc(arena, sizeof(*row));
	mu__gres_got__init(row);
	row->name = (char *)sch__text(g->name);
	row->type = (char *)sch__text(g->type);
	SCH_SET(row, count, g->count);
	row->n_index = mu_bits_count(&g->index);
	row->index = mu_arena_alloc(arena, (row->n_index + 1) * sizeof(row->index[0]));
	size_t n = 0;
	for (uint32_t u = mu_bits_next(&g->index, 0); u != UINT32_MAX; u = mu_bits_next(&g->index, u + 1))
		row->index[n++] = u;
	return row;
}

Mu__AllocNode *sch__alloc_row(const struct sch_alloc *a, struct mu_arena *arena)
{
	Mu__AllocNode *row = mu_arena_alloc(arena, sizeof(*row));
	mu__alloc_node__init(row);
	row->node = a->name->text;
	size_t len = mu_bits_print(&a->cpu, NULL, 0);
	row->cpu_list = mu_arena_alloc(arena, len + 1);
	mu_bits_print(&a->cpu, row->cpu_list, len + 1);
	SCH_SET(row, cpus, a->cpus);
	SCH_SET(row, mem_mib, a->mem_mib);
	SCH_SET(row, tasks, a->tasks);
	SCH_SET(row, released, a->released);
	SCH_SET(row, lost, a->lost);
	SCH_SET(row, parked, a->parked);
	SCH_SET(row, attempt, a->attempt);
	row->share = (char *)a->share;
	row->n_gres = a->got_count;
	row->gres = mu_arena_alloc(arena, (a->got_count + 1) * sizeof(row->gres[0]));
	for (uint32_t i = 0; i < a->got_count; i++)
		row->gres[i] = got_row(&a->got[i], arena);
	return row;
}

static void run_row(const struct sch_run *run, Mu__JobRow *row, struct mu_arena *arena)
{
	row->n_alloc = run->alloc_count;
	row->alloc = mu_arena_alloc(arena, (run->alloc_count + 1) * sizeof(row->alloc[0]));
	for (uint32_t i = 0; i < run->alloc_count; i++) {
		row->alloc[i] = sch__alloc_row(&run->alloc[i], arena);
		SCH_SET(row->alloc[i], attempt, 0);
	}
	row->n_left = run->left_count;
	row->left = mu_arena_alloc(arena, (run->left_count + 1) * sizeof(row->left[0]));
	for (uint32_t i = 0; i < run->left_count; i++)
		row->left[i] = sch__alloc_row(&run->left[i], arena);
	row->node_list = (char *)sch__text(run->node_list);
	row->batch_host = (char *)sch__text(run->batch_host);
	row->end_detail = (char *)sch__text(run->end_detail);
	row->system_comment = (char *)sch__text(run->note);
	SCH_SET(row, node_count, run->alloc_count);
	SCH_SET(row, exit_code, run->exit_code);
	SCH_SET(row, exit_signal, run->exit_signal);
	SCH_SET(row, derived_code, run->derived_code);
	SCH_SET(row, derived_signal, run->derived_signal);
	SCH_SET(row, pending_signal, run->pending_signal);
	SCH_SET(row, signal_seq, run->signal_seq);
	SCH_SET(row, signal_flags, run->signal_flags);
	SCH_SET(row, signal_pos, run->signal_pos);
	SCH_SET(row, signal_step, run->signal_step);
	SCH_SET(row, signal_has_step, run->signal_has_step);
	SCH_SET(row, span_usec, run->span_usec);
	SCH_SET(row, kill_usec, run->kill_usec);
	SCH_SET(row, preempt_usec, run->preempt_usec);
	SCH_SET(row, suspend_usec, run->suspend_usec);
	SCH_SET(row, suspended_usec, run->suspended_usec);
	SCH_SET(row, preempt_eligible_usec, run->preempt_eligible_usec);
	SCH_SET(row, preempt_end_usec, run->preempt_end_usec);
	SCH_SET(row, preempted_by, run->preempted_by);
	SCH_SET(row, preempt_how, run->preempt_how);
}

static void plain_row(const struct sch_job *j, Mu__JobRow *row)
{
	SCH_SET(row, uid, j->who->uid);
	SCH_SET(row, gid, j->who->gid);
	row->user = (char *)sch__text(j->who->user);
	row->group = (char *)sch__text(j->who->group);
	row->n_groups = j->who->group_count;
	row->groups = j->who->groups;
	SCH_SET(row, state, j->state);
	SCH_SET(row, reason, j->reason);
	SCH_SET(row, reason_of, j->reason_of);
	row->reason_detail = (char *)sch__text(j->reason_detail);
	SCH_SET(row, priority, j->priority);
	SCH_SET(row, held_by_admin, j->held_by_admin);
	SCH_SET(row, attempt, j->attempt);
	SCH_SET(row, restarts, j->restarts);
	row->partition = (char *)sch__text(j->partition);
	row->account = (char *)sch__text(j->account);
	row->qos = (char *)sch__text(j->qos);
	SCH_SET(row, time_limit_sec, j->time_limit_sec);
	SCH_SET(row, nodes_min, j->nodes_min);
	SCH_SET(row, nodes_max, j->nodes_max);
	SCH_SET(row, ntasks, j->ntasks);
	SCH_SET(row, cpus_per_task, j->cpus_per_task);
	SCH_SET(row, cpus_total, j->cpus_total);
	SCH_SET(row, mem_node_mib, j->mem_node_mib);
	SCH_SET(row, mem_cpu_mib, j->mem_cpu_mib);
	SCH_SET(row, submit_usec, j->submit_usec);
	SCH_SET(row, eligible_usec, j->eligible_usec);
	SCH_SET(row, start_usec, j->start_usec);
	SCH_SET(row, end_usec, j->end_usec);
	SCH_SET(row, last_sched_usec, j->last_sched_usec);
	SCH_SET(row, plan_start_usec, j->plan_start_usec);
	SCH_SET(row, plan_claim, j->plan_claim);
	SCH_SET(row, special_exit, j->special_exit);
	row->depend_state = j->depend;
	SCH_SET(row, depend_due_usec, j->depend_due_usec);
	SCH_SET(row, start_late_usec, j->start_late_usec);
	row->plan_nodes = (char *)sch__text(j->plan_nodes);
	row->plan_tasks = j->plan_tasks;
	row->n_plan_tasks = j->plan_task_count;
	row->plan_gpus = j->plan_gpus;
	row->n_plan_gpus = j->plan_gpu_count;
	SCH_SET(row, cancelled_by, j->cancelled_by);
	SCH_SET(row, has_canceller, j->has_canceller);
	SCH_SET(row, end_state, j->end_state);
	SCH_SET(row, submit_pos, j->submit_pos);
	SCH_SET(row, start_pos, j->start_pos);
	SCH_SET(row, end_pos, j->end_pos);
	SCH_SET(row, requeue_after, j->requeue_after);
	SCH_SET(row, hold_after, j->hold_after);
	SCH_SET(row, launch_failures, j->launch_failures);
	SCH_SET(row, het_job, j->het_first);
	SCH_SET(row, het_offset, j->het_offset);
	SCH_SET(row, het_count, j->het_count);
	SCH_SET(row, assoc, j->assoc);
	row->reservation = (char *)sch__text(j->resv);
	SCH_SET(row, resv_end_usec, j->resv_end_usec);
	SCH_SET(row, priority_fixed, j->priority_fixed);
	SCH_SET(row, billing, j->billing);
	SCH_SET(row, usage_factor_milli, j->usage_factor_milli);
	row->part_qos = (char *)sch__text(j->part_qos);
	row->has_job_key = j->job_key_len > 0;
	row->job_key.data = (uint8_t *)j->job_key;
	row->job_key.len = j->job_key_len;
}

static void fill(const struct sch_job *j, Mu__JobRow *row, struct mu_arena *arena)
{
	mu__job_row__init(row);
	plain_row(j, row);
	sch__job_array_row(j, row, arena);
	if (j->run)
		run_row(j->run, row, arena);
}

static void put_varint(struct mu_buf *out, uint64_t v)
{
	uint8_t byte;
	for (; v >= 0x80; v >>= 7) {
		byte = (uint8_t)(v | 0x80);
		mu_buf_add(out, &byte, 1);
	}
	byte = (uint8_t)v;
	mu_buf_add(out, &byte, 1);
}

void sch__job_pack(const struct sch_job *j, struct mu_buf *out)
{
	struct mu_arena arena = {0};
	Mu__JobRow row;
	fill(j, &row, &arena);
	put_varint(out, 1u << 3); /* id, a varint */
	put_varint(out, j->id);
	put_varint(out, 2u << 3 | 2u); /* spec, bytes with a length */
	put_varint(out, j->spec->len);
	mu_buf_add(out, j->spec->bytes, j->spec->len);
	mu_pb_pack(&row.base, out);
	mu_arena_free(&arena);
}

Mu__JobRow *sch__job_row(const struct sch_job *j, struct mu_arena *arena)
{
	Mu__JobRow *row = mu_arena_alloc(arena, sizeof(*row));
	fill(j, row, arena);
	SCH_SET(row, id, j->id);
	row->spec = sch__spec_open(j->spec, arena);
	return row;
}

void sch__alloc_clear(struct sch_state *st, struct sch_alloc *a)
{
	for (uint32_t i = 0; i < a->got_count; i++) {
		sch__str_drop(st, &a->got[i].name);
		sch__str_drop(st, &a->got[i].type);
		mu_bits_free(&a->got[i].index);
	}
	sch__free(st, a->got, a->got_count * sizeof(a->got[0]));
	mu_bits_free(&a->cpu);
	sch__str_drop(st, &a->name);
	sch__str_drop(st, &a->share_name);
	memset(a, 0, sizeof(*a));
}

void sch__run_left_drop(struct sch_state *st, struct sch_run *run, uint32_t index)
{
	sch__alloc_clear(st, &run->left[index]);
	memmove(&run->left[index], &run->left[index + 1],
		(run->left_count - index - 1) * sizeof(run->left[0]));
	run->left_count--;
	st->bytes -= sizeof(run->left[0]);
}

static void run_free(struct sch_state *st, struct sch_run *run)
{
	for (uint32_t i = 0; i < run->alloc_count; i++)
		sch__alloc_clear(st, &run->alloc[i]);
	for (uint32_t i = 0; i < run->left_count; i++)
		sch__alloc_clear(st, &run->left[i]);
	sch__free(st, run->alloc, run->alloc_count * sizeof(run->alloc[0]));
	sch__free(st, run->left, run->left_count * sizeof(run->left[0]));
	sch__str_drop(st, &run->node_list);
	sch__str_drop(st, &run->batch_host);
	sch__str_drop(st, &run->end_detail);
	sch__str_drop(st, &run->note);
	mu_pool_put(&st->run_pool, run);
}

void sch__job_free(struct sch_state *st, struct sch_job *j)
{
	if (j->run)
		run_free(st, j->run);
	sch__spec_drop(st, &j->spec);
	sch__person_drop(st, &j->who);
	sch__shape_drop(st, &j->shape);
	sch__str_drop(st, &j->partition);
	sch__str_drop(st, &j->account);
	sch__str_drop(st, &j->qos);
	sch__str_drop(st, &j->reason_detail);
	sch__str_drop(st, &j->part_qos);
	sch__str_drop(st, &j->resv_want);
	sch__str_drop(st, &j->resv);
	sch__str_drop(st, &j->licenses);
	sch__plan_clear(st, j);
	sch__depend_clear(st, j);
	sch__job_tasks_free(st, j);
	mu_pool_put(&st->job_pool, j);
}

/* ---- the way back ---- */

static int load_allocs(struct sch_state *st, Mu__AllocNode *const *rows, size_t count, struct sch_alloc **ret,
		       uint32_t attempt)
{
	struct sch_alloc *v = sch__alloc(st, count * sizeof(*v));
	*ret = v;
	for (size_t i = 0; i < count; i++) {
		int rc = sch__alloc_from_row(st, rows[i], rows[i]->node, &v[i]);
		if (rc)
			return rc;
		v[i].attempt = rows[i]->attempt ? rows[i]->attempt : attempt;
	}
	return 0;
}

static int load_run(struct sch_state *st, struct sch_job *j, const Mu__JobRow *row)
{
	struct sch_run *run = j->run = mu_pool_get(&st->run_pool);
	run->alloc_count = (uint32_t)row->n_alloc;
	int rc = load_allocs(st, row->alloc, row->n_alloc, &run->alloc, j->attempt);
	run->left_count = (uint32_t)row->n_left;
	int rc2 = load_allocs(st, row->left, row->n_left, &run->left, 0);
	run->node_list = sch__str(st, row->node_list);
	run->batch_host = sch__str(st, row->batch_host);
	run->end_detail = sch__str(st, row->end_detail);
	run->note = sch__str(st, row->system_comment);
	run->exit_code = row->exit_code;
	run->exit_signal = row->exit_signal;
	run->derived_code = row->derived_code;
	run->derived_signal = row->derived_signal;
	run->pending_signal = row->pending_signal;
	run->signal_seq = row->signal_seq;
	run->signal_flags = row->signal_flags;
	run->signal_pos = row->signal_pos;
	run->signal_step = row->signal_step;
	run->signal_has_step = row->signal_has_step;
	run->span_usec = row->span_usec;
	run->kill_usec = row->kill_usec;
	run->preempt_usec = row->preempt_usec;
	run->suspend_usec = row->suspend_usec;
	run->suspended_usec = row->suspended_usec;
	run->preempt_eligible_usec = row->preempt_eligible_usec;
	run->preempt_end_usec = row->preempt_end_usec;
	run->preempted_by = row->preempted_by;
	run->preempt_how = row->preempt_how;
	return rc ? rc : rc2;
}

static void load_plain(struct sch_state *st, struct sch_job *j, const Mu__JobRow *row)
{
	j->state = (uint8_t)row->state;
	j->reason = (uint8_t)row->reason;
	j->reason_of = row->reason_of;
	j->reason_detail = sch__str(st, row->reason_detail);
	j->priority = row->priority;
	j->held_by_admin = row->held_by_admin;
	j->attempt = row->attempt;
	j->restarts = row->restarts;
	j->partition = sch__str(st, row->partition);
	j->account = sch__str(st, row->account);
	j->qos = sch__str(st, row->qos);
	j->time_limit_sec = row->time_limit_sec;
	j->nodes_min = row->nodes_min;
	j->nodes_max = row->nodes_max;
	j->ntasks = row->ntasks;
	j->cpus_per_task = row->cpus_per_task;
	j->cpus_total = row->cpus_total;
	j->mem_node_mib = row->mem_node_mib;
	j->mem_cpu_mib = row->mem_cpu_mib;
	j->submit_usec = row->submit_usec;
	j->eligible_usec = row->eligible_usec;
	j->start_usec = row->start_usec;
	j->end_usec = row->end_usec;
	j->last_sched_usec = row->last_sched_usec;
	j->start_late_usec = row->start_late_usec;
	sch__depend_load(st, j, row->depend_state, row->depend_due_usec);
	sch__plan_set(st, j, row->plan_start_usec, row->plan_nodes, row->plan_tasks, row->n_plan_tasks,
		      row->plan_gpus, row->n_plan_gpus);
	j->plan_claim = row->plan_claim;
	j->special_exit = row->special_exit;
	j->cancelled_by = row->cancelled_by;
	j->has_canceller = row->has_canceller;
	j->end_state = (uint8_t)row->end_state;
	j->submit_pos = row->submit_pos;
	j->start_pos = row->start_pos;
	j->end_pos = row->end_pos;
	j->requeue_after = row->requeue_after;
	j->hold_after = row->hold_after;
	j->launch_failures = (uint8_t)row->launch_failures;
	j->het_first = row->het_job;
	j->het_offset = row->het_offset;
	j->het_count = row->het_count;
	j->assoc = row->assoc;
	j->resv = sch__str(st, row->reservation);
	j->resv_end_usec = row->resv_end_usec;
	j->priority_fixed = row->priority_fixed;
	j->billing = row->billing;
	j->usage_factor_milli = row->usage_factor_milli;
	j->part_qos = sch__str(st, row->part_qos);
	j->job_key_len = (uint8_t)(row->job_key.len <= sizeof(j->job_key) ? row->job_key.len : 0);
	if (j->job_key_len)
		memcpy(j->job_key, row->job_key.data, j->job_key_len);
}

int sch__job_load(struct sch_state *st, const Mu__JobRow *row, struct mu_err *err)
{
	if (!row->id || !row->spec || row->state > JOB_STAGE_OUT || row->reason >= SCH_REASONS ||
	    mu_map_get_u64(&st->jobs, row->id))
		return mu_fail(err, MU_ECORRUPT, "job row %u: no spec, an unknown state, or twice", row->id);
	bool het = row->het_job || row->het_offset || row->het_count;
	if (het && (row->het_count < 2 || row->het_count > SCH_HET_MAX || row->het_offset >= row->het_count ||
		    row->id < row->het_offset || row->id - row->het_offset != row->het_job || !row->het_job))
		return mu_fail(err, MU_ECORRUPT, "job row %u: no component %u of %u", row->id,
			       row->het_offset, row->het_count);
	struct sch_job *j = mu_pool_get(&st->job_pool);
	j->rec.kind = SCH_ROW_JOB;
	j->rec.change = UINT32_MAX;
	j->id = row->id;
	j->spec = sch__spec(st, row->spec);
	j->deadline_usec = row->spec->deadline_usec;
	j->limit_given = row->spec->has_time_limit_sec;
	j->time_min_sec = row->spec->time_min_sec;
	j->resv_want = sch__str(st, row->spec->reservation);
	j->licenses = sch__str(st, row->spec->licenses);
	j->who = sch__person(st, row->uid, row->gid, row->user, row->group, row->groups, row->n_groups);
	load_plain(st, j, row);
	mu_map_put_u64(&st->jobs, j->id, j);
	int rc = sch__array_join(st, j, row, err);
	if (rc)
		return rc;
	if (row->attempt || row->n_alloc || row->n_left || row->node_list) {
		rc = load_run(st, j, row);
		if (rc)
			return mu_fail(err, MU_ECORRUPT,
				       "job row %u: an allocation on a node or device that State lacks",
				       j->id);
	}
	return 0;
}
