/* sched/veil.c: a pass looks through a job's eyes: CPUs that reservations keep from it seem taken for as long
 * as it is looked at. */
#include "sched/state.h"

static void hide(struct sch_veil *v, struct sch_node *n, const struct sch_resv *in, int64_t from,
		 int64_t until)
{
	struct mu_bits kept = {0};
	for (uint32_t i = 0; i < v->count; i++)
		if (v->item[i].node == n)
			return;
	sch__resv_cpus(v->overlay->st, in, n, from, until, &kept);
	if (!mu_bits_count(&kept)) {
		mu_bits_free(&kept);
		return;
	}
	struct sch_room *room = sch__overlay_own(v->overlay, n, v->arena);
	mu_bits_copy(&room->veil, &kept);
	mu_bits_andnot(&kept, &room->cpu);
	mu_bits_or(&room->cpu, &kept);
	sch__room_recount(room, n);
	v->item[v->count++] = (struct sch_veil_item){.node = n, .hidden = kept};
}

void sch__veil_on(struct sch_veil *v, struct sch_overlay *o, struct mu_arena *arena,
		  const struct sch_resv *in, int64_t from, int64_t until)
{
	uint32_t most = 0;
	*v = (struct sch_veil){.overlay = o, .arena = arena};
	for (const struct sch_resv *r = sch__resv_next(o->st, NULL); r; r = sch__resv_next(o->st, r))
		most += r->part_count;
	if (!most)
		return;
	v->item = mu_arena_alloc(arena, most * sizeof(v->item[0]));
	for (const struct sch_resv *r = sch__resv_next(o->st, NULL); r; r = sch__resv_next(o->st, r))
		for (uint32_t i = 0; i < r->part_count; i++)
			hide(v, r->part[i].node, in, from, until);
}

void sch__veil_off(struct sch_veil *v)
{
	for (uint32_t i = 0; i < v->count; i++) {
		struct sch_room *room = sch__overlay_own(v->overlay, v->item[i].node, v->arena);
		mu_bits_andnot(&room->cpu, &v->item[i].hidden);
		mu_bits_free(&room->veil);
		sch__room_recount(room, v->item[i].node);
		mu_bits_free(&v->item[i].hidden);
	}
	v->count = 0;
}
