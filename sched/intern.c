/* sched/intern.c: one copy of equal texts, job specs and people, kept as long as something refers to it.
 * Jobs of one user from one script share nearly everything: this is what keeps a waiting job below 1 KiB. */
#include "sched/state.h"

#include <assert.h>
#include <stdlib.h>

struct sch_str *sch__str(struct sch_state *st, const char *text)
{
	if (!text || !*text)
		return NULL;
	struct sch_str *s = mu_map_get_str(&st->strs, text);
	if (!s) {
		size_t len = strlen(text);
		s = sch__alloc(st, sizeof(*s) + len + 1);
		s->len = (uint32_t)len;
		memcpy(s->text, text, len + 1);
		mu_map_put_str(&st->strs, text, s);
	}
	s->refs++;
	return s;
}

struct sch_str *sch__str_ref(struct sch_str *s)
{
	if (s)
		s->refs++;
	return s;
}

void sch__str_drop(struct sch_state *st, struct sch_str **s)
{
	struct sch_str *old = *s;
	*s = NULL;
	if (!old || --old->refs)
		return;
	mu_map_del_str(&st->strs, old->text);
	sch__free(st, old, sizeof(*old) + old->len + 1);
}

void sch__str_set(struct sch_state *st, struct sch_str **s, const char *text)
{
	struct sch_str *fresh = sch__str(st, text);
	sch__str_drop(st, s);
	*s = fresh;
}

struct sch_spec *sch__spec(struct sch_state *st, const Mu__JobSpec *spec)
{
	size_t len = mu__job_spec__get_packed_size(spec);
	uint8_t *bytes = malloc(len ? len : 1);
	if (!bytes)
		abort();
	mu__job_spec__pack(spec, bytes);
	struct mu_hash key;
	mu_hash_bytes(bytes, len, &key);
	struct sch_spec *s = mu_map_get(&st->specs, key.b, sizeof(key.b));
	if (!s) {
		s = sch__alloc(st, sizeof(*s) + len);
		s->len = (uint32_t)len;
		s->key = key;
		memcpy(s->bytes, bytes, len);
		mu_map_put(&st->specs, key.b, sizeof(key.b), s);
	}
	free(bytes);
	s->refs++;
	return s;
}

void sch__spec_drop(struct sch_state *st, struct sch_spec **s)
{
	struct sch_spec *old = *s;
	*s = NULL;
	if (!old || --old->refs)
		return;
	mu_map_del(&st->specs, old->key.b, sizeof(old->key.b));
	sch__free(st, old, sizeof(*old) + old->len);
}

Mu__JobSpec *sch__spec_open(const struct sch_spec *s, struct mu_arena *arena)
{
	ProtobufCMessage *m = mu_pb_unpack(&mu__job_spec__descriptor, s->bytes, s->len, arena);
	assert(m); /* We packed it. */
	return (Mu__JobSpec *)m;
}

static uint8_t *person_key(uint32_t uid, uint32_t gid, const char *user, const char *group,
			   const uint32_t *groups, size_t group_count, size_t *ret_len)
{
	size_t user_len = user ? strlen(user) : 0, group_len = group ? strlen(group) : 0;
	size_t len = 8 + user_len + 1 + group_len + 1 + 4 * group_count;
	uint8_t *key = calloc(1, len);
	if (!key)
		abort();
	mu_put_be32(key, uid);
	mu_put_be32(key + 4, gid);
	memcpy(key + 8, user ? user : "", user_len);
	memcpy(key + 8 + user_len + 1, group ? group : "", group_len);
	for (size_t i = 0; i < group_count; i++)
		mu_put_be32(key + 8 + user_len + 1 + group_len + 1 + 4 * i, groups[i]);
	*ret_len = len;
	return key;
}

struct sch_person *sch__person(struct sch_state *st, uint32_t uid, uint32_t gid, const char *user,
			       const char *group, const uint32_t *groups, size_t group_count)
{
	size_t len;
	uint8_t *key = person_key(uid, gid, user, group, groups, group_count, &len);
	struct sch_person *p = mu_map_get(&st->people, key, len);
	if (p) {
		free(key);
		p->refs++;
		return p;
	}
	p = sch__alloc(st, sizeof(*p) + group_count * sizeof(p->groups[0]));
	p->refs = 1;
	p->uid = uid;
	p->gid = gid;
	p->user = sch__str(st, user);
	p->group = sch__str(st, group);
	p->key = key;
	p->key_len = (uint32_t)len;
	p->group_count = (uint32_t)group_count;
	for (size_t i = 0; i < group_count; i++)
		p->groups[i] = groups[i];
	mu_map_put(&st->people, key, len, p);
	return p;
}

void sch__person_drop(struct sch_state *st, struct sch_person **p)
{
	struct sch_person *old = *p;
	*p = NULL;
	if (!old || --old->refs)
		return;
	mu_map_del(&st->people, old->key, old->key_len);
	free(old->key);
	sch__str_drop(st, &old->user);
	sch__str_drop(st, &old->group);
	sch__free(st, old, sizeof(*old) + old->group_count * sizeof(old->groups[0]));
}
