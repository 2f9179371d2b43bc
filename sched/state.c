/* sched/state.c: birth and death of a State, its memory, and the questions that others may ask of it. */
#include "sched/state.h"

#include <assert.h>
#include <stdlib.h>

void *sch__alloc(struct sch_state *st, size_t size)
{
	void *p = calloc(1, size ? size : 1);
	if (!p)
		abort();
	st->bytes += size;
	return p;
}

void *sch__grow(struct sch_state *st, void *old, size_t old_size, size_t size)
{
	assert(size >= old_size);
	void *p = realloc(old, size ? size : 1);
	if (!p)
		abort();
	memset((char *)p + old_size, 0, size - old_size);
	st->bytes += size - old_size;
	return p;
}

void sch__free(struct sch_state *st, void *p, size_t size)
{
	if (!p)
		return;
	assert(st->bytes >= size);
	st->bytes -= size;
	free(p);
}

char *sch__copy_text(const char *text)
{
	size_t len = strlen(text) + 1;
	char *copy = malloc(len);
	if (!copy)
		abort();
	return memcpy(copy, text, len);
}

char *sch__strdup(const char *text)
{
	if (!text || !*text)
		return NULL;
	return sch__copy_text(text);
}

void sch__replace(char **field, const char *text)
{
	char *copy = sch__strdup(text);
	free(*field);
	*field = copy;
}

void *sch__copy_message(const ProtobufCMessage *m)
{
	size_t len = protobuf_c_message_get_packed_size(m);
	uint8_t *bytes = malloc(len ? len : 1);
	if (!bytes)
		abort();
	protobuf_c_message_pack(m, bytes);
	ProtobufCMessage *copy = protobuf_c_message_unpack(m->descriptor, NULL, len, bytes);
	free(bytes);
	if (!copy)
		abort();
	return copy;
}

struct sch_state *sch_state_new(void)
{
	struct sch_state *st = calloc(1, sizeof(*st));
	if (!st)
		abort();
	st->scratch = calloc(1, sizeof(*st->scratch));
	st->cluster = calloc(1, sizeof(*st->cluster));
	st->config.row = calloc(1, sizeof(*st->config.row));
	if (!st->scratch || !st->cluster || !st->config.row)
		abort();
	mu__cluster_row__init(st->cluster);
	mu__config_row__init(st->config.row);
	st->config.rec.kind = SCH_ROW_CONFIG;
	st->cluster_change = UINT32_MAX;
	mu_pool_init(&st->job_pool, sizeof(struct sch_job));
	mu_pool_init(&st->run_pool, sizeof(struct sch_run));
	mu_pool_init(&st->answer_pool, sizeof(struct sch_answer));
	return st;
}

/* Values of MAP, one after the other, out of the map and into DROP. */
static void drain(struct sch_state *st, struct mu_map *map, void (*drop)(struct sch_state *, void *))
{
	const uint8_t *key = NULL;
	size_t len = 0;
	for (void *v = mu_map_seek(map, NULL, 0, 0, &key, &len); v;
	     v = mu_map_seek(map, key, len, 1, &key, &len))
		drop(st, v);
	mu_map_clear(map);
}

static void drop_job(struct sch_state *st, void *v)
{
	sch__job_free(st, v);
}

static void drop_array(struct sch_state *st, void *v)
{
	sch__array_free(st, v);
}

static void drop_answer(struct sch_state *st, void *v)
{
	struct sch_answer *a = v;
	sch__str_drop(st, &a->text);
}

static void drop_step(struct sch_state *st, void *v)
{
	struct sch_step *s = v;
	sch__free(st, s, sizeof(*s) + s->len);
}

static void drop_key(struct sch_state *st, void *v)
{
	struct sch_key_rec *k = v;
	mu__node_key_row__free_unpacked(k->row, NULL);
	sch__free(st, k, sizeof(*k));
}

static void drop_node(struct sch_state *st, void *v)
{
	sch__node_free(st, v);
}

static void drop_part(struct sch_state *st, void *v)
{
	sch__rec_free(st, v);
}

struct sch_state *sch_state_free(struct sch_state *st)
{
	if (!st)
		return NULL;
	drain(st, &st->jobs, drop_job);
	drain(st, &st->arrays, drop_array);
	drain(st, &st->answers, drop_answer);
	drain(st, &st->steps, drop_step);
	drain(st, &st->node_key, drop_key);
	drain(st, &st->node_by_name, drop_node); /* The arrays are missing where loading failed. */
	drain(st, &st->resvs, drop_part);
	sch__lic_free(st);
	sch__accounts_free(st);
	sch__free(st, st->node, st->node_count * sizeof(struct sch_node *));
	sch__free(st, st->by_rank, st->node_count * sizeof(struct sch_node *));
	drain(st, &st->part_by_name, drop_part);
	sch__free(st, st->part, st->part_count * sizeof(struct sch_part *));
	mu_map_clear(&st->classes);
	sch__topology_free(st);
	struct mu_map *index[] = {&st->begins, &st->due,	  &st->running,	 &st->tombs,
				  &st->silent, &st->plans, &st->plan_starts, &st->children, &st->named,
				  &st->tasks,  &st->switch_waits, &st->resumes, &st->exempts, &st->stopped};
	for (size_t i = 0; i < sizeof(index) / sizeof(index[0]); i++)
		mu_map_clear(index[i]);
	mu_map_clear(&st->strs);
	mu_map_clear(&st->specs);
	mu_map_clear(&st->people);
	mu_map_clear(&st->shapes);
	mu_bits_free(&st->shape_ids);
	mu_bits_free(&st->open);
	mu_bits_free(&st->usable);
	mu_pool_free(&st->job_pool);
	mu_pool_free(&st->run_pool);
	mu_pool_free(&st->answer_pool);
	mu__cluster_row__free_unpacked(st->cluster, NULL);
	mu__config_row__free_unpacked(st->config.row, NULL);
	free(st->touched);
	mu_arena_free(&st->scratch->event);
	mu_arena_free(&st->scratch->read);
	mu_buf_free(&st->scratch->row);
	free(st->scratch);
	free(st);
	return NULL;
}

uint64_t sch_pos(const struct sch_state *st)
{
	return st->cluster->entries;
}

int64_t sch_now_usec(const struct sch_state *st)
{
	return st->cluster->now_usec;
}

uint32_t sch_level(const struct sch_state *st)
{
	return st->cluster->level;
}

bool sch_founded(const struct sch_state *st)
{
	return st->cluster->cluster_id.len > 0;
}

const Mu__ClusterRow *sch_cluster(const struct sch_state *st)
{
	return st->cluster;
}

const Mu__Config *sch__conf(const struct sch_state *st)
{
	static const Mu__Config none = MU__CONFIG__INIT;
	return st->config.row->config ? st->config.row->config : &none;
}

const Mu__Config *sch_config(const struct sch_state *st)
{
	return sch__conf(st);
}

const Mu__JobRow *sch_job(const struct sch_state *st, uint32_t id)
{
	const struct sch_job *j = sch__job(st, id);
	return j ? sch__job_row(j, &st->scratch->read) : NULL;
}

const Mu__NodeRow *sch_node(const struct sch_state *st, const char *name)
{
	const struct sch_node *n = sch__node(st, name);
	return n ? sch__node_row(n, &st->scratch->read) : NULL;
}

const Mu__NodeKeyRow *sch_node_key(const struct sch_state *st, const char *name)
{
	const struct sch_key_rec *k = mu_map_get_str(&st->node_key, name);
	return k ? k->row : NULL;
}

struct sch_job *sch__job(const struct sch_state *st, uint32_t id)
{
	return mu_map_get_u64(&st->jobs, id);
}

struct sch_node *sch__node(const struct sch_state *st, const char *name)
{
	return name && *name ? mu_map_get_str(&st->node_by_name, name) : NULL;
}

struct sch_part *sch__part(const struct sch_state *st, const char *name)
{
	return name && *name ? mu_map_get_str(&st->part_by_name, name) : NULL;
}

void sch__wake(struct sch_state *st)
{
	st->wake_pos = st->cluster->entries + 1;
	if (!st->loading)
		st->cluster->limits_usec = st->cluster->now_usec;
}

void sch__pair_key(uint8_t key[12], int64_t moment, uint32_t id)
{
	assert(moment >= 0);
	mu_put_be64(key, (uint64_t)moment);
	mu_put_be32(key + 8, id);
}

size_t sch_job_nodes(const struct sch_state *st, uint32_t id, const char **names, size_t cap)
{
	const struct sch_job *j = sch__job(st, id);
	if (!j || !j->run)
		return 0;
	size_t count = 0;
	for (uint32_t i = 0; i < j->run->alloc_count + j->run->left_count && count < cap; i++) {
		const struct sch_alloc *a =
		    i < j->run->alloc_count ? &j->run->alloc[i] : &j->run->left[i - j->run->alloc_count];
		names[count++] = a->name->text;
	}
	return count;
}

/* GPUs are the gres entries of that name; other names are counted nowhere here. */
static void count_gpus(const struct sch_node *n, struct sch_counts *ret)
{
	for (size_t i = 0; i < n->row->n_gres; i++) {
		if (strcmp(n->row->gres[i]->name ? n->row->gres[i]->name : "", "gpu") != 0)
			continue;
		ret->gpus_total += n->row->gres[i]->count;
		ret->gpus_allocated += n->room.gres[i].count;
	}
}

void sch_counts(const struct sch_state *st, struct sch_counts *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->jobs_pending = st->pending;
	ret->jobs_running = st->live_running;
	ret->jobs_completing = st->completing;
	ret->jobs_total = (uint32_t)st->jobs.count;
	ret->jobs_planned = (uint32_t)st->plans.count;
	ret->nodes_total = st->node_count;
	for (uint32_t i = 0; i < st->node_count; i++) {
		const struct sch_node *n = st->node[i];
		ret->cpus_total += n->row->cpus;
		ret->cpus_allocated += n->room.cpus;
		if (n->row->base_state == NODE_DOWN || n->row->base_state == NODE_UNKNOWN)
			ret->nodes_down++;
		else if (n->row->flags & (NODE_FLAG_DRAIN | NODE_FLAG_FAIL))
			ret->nodes_drain++;
		else if (n->room.cpus == 0 && !n->room.exclusive)
			ret->nodes_idle++;
		else if (n->room.cpus < n->row->cpus && !n->room.exclusive)
			ret->nodes_mixed++;
		else
			ret->nodes_allocated++;
		count_gpus(n, ret);
	}
	/* A map's entry takes some 64 bytes beside its value; a waiting job has two. */
	size_t entries = 2 * st->jobs.count + st->tasks.count + st->arrays.count + st->steps.count +
			 st->answers.count + st->strs.count + st->specs.count;
	ret->state_bytes =
	    sizeof(*st) + 64 * entries + st->bytes + st->job_pool.total * sizeof(struct sch_job) +
	    st->run_pool.total * sizeof(struct sch_run) + st->answer_pool.total * sizeof(struct sch_answer);
}
