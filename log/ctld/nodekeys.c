/* ctld/nodekeys.c: see nodekeys.h. One table a process: musterd is one replica. */
#include "log/ctld/nodekeys.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/map.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct mu_map keys;

static void set(const void *name, size_t len, const uint8_t *key)
{
	uint8_t *copy = NULL;

	if (key) {
		copy = malloc(32);
		if (!copy)
			abort();
		memcpy(copy, key, 32);
	}
	pthread_rwlock_wrlock(&lock);
	free(copy ? mu_map_put(&keys, name, len, copy) : mu_map_del(&keys, name, len));
	pthread_rwlock_unlock(&lock);
}

int ctl_node_key_get(void *arg, const char *node, uint8_t ret_public[32])
{
	const uint8_t *key;
	int code = MU_ENOENT;

	(void)arg;
	pthread_rwlock_rdlock(&lock);
	key = mu_map_get_str(&keys, node);
	if (key) {
		memcpy(ret_public, key, 32);
		code = 0;
	}
	pthread_rwlock_unlock(&lock);
	return code;
}

static void follow_one(const struct sch_state *st, const struct sch_key *k)
{
	const Mu__NodeKeyRow *row;
	char name[SCH_KEY_MAX + 1];

	memcpy(name, k->bytes, k->len);
	name[k->len] = 0;
	row = sch_node_key(st, name);
	set(k->bytes, k->len, row && row->public_key.len == 32 ? row->public_key.data : NULL);
}

static int on_row(void *arg, const struct sch_key *key, const uint8_t *row, size_t len)
{
	(void)row;
	(void)len;
	follow_one(arg, key);
	return 0;
}

void ctl_node_keys_follow(const struct sch_state *st, const struct sch_changes *changes)
{
	if (!changes) {
		(void)sch_rows(st, SCH_ROW_NODE_KEY, on_row, (void *)st);
		return;
	}
	for (size_t i = 0; i < changes->count; i++)
		if (changes->v[i].key.kind == SCH_ROW_NODE_KEY)
			follow_one(st, &changes->v[i].key);
}
