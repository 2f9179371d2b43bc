/* The memory of accepted credentials: a table of fixed size, filled and emptied in the order of time, since
 * all live equally long. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "log/auth.h"
#include "log/auth_parts.h"

enum { BUCKETS_LOG2 = 18, NONE = -1 };

struct entry {
	struct auth__seen seen;
	int32_t next;
	bool live; /* false: replaced by a younger one */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *ring; /* AUTH_SEEN_MAX; untouched pages cost nothing */
static int32_t buckets[1 << BUCKETS_LOG2];
static uint64_t first, count; /* ring[first % MAX] is the oldest */
static uint64_t factor;

/* Multiplication by a secret odd number: whoever can choose marks cannot choose buckets. */
static int32_t *bucket(const struct mu_hash *mark)
{
	uint64_t x;
	memcpy(&x, mark->b, sizeof x);
	return &buckets[(x * factor) >> (64 - BUCKETS_LOG2)];
}

static void prepare(void)
{
	if (ring)
		return;
	ring = calloc(AUTH_SEEN_MAX, sizeof *ring);
	if (!ring || getrandom(&factor, sizeof factor, 0) != sizeof factor)
		abort();
	factor |= 1;
	for (int i = 0; i < 1 << BUCKETS_LOG2; i++)
		buckets[i] = NONE;
}

static int32_t *link_to(const struct mu_hash *mark)
{
	int32_t *p = bucket(mark);
	while (*p != NONE && memcmp(ring[*p].seen.mark.b, mark->b, sizeof mark->b) != 0)
		p = &ring[*p].next;
	return p;
}

static void forget(int32_t *link)
{
	struct entry *e = &ring[*link];
	*link = e->next;
	e->live = false;
}

static void expire(int64_t now_usec)
{
	while (count > 0) {
		struct entry *e = &ring[first % AUTH_SEEN_MAX];
		if (e->live && e->seen.until_usec > now_usec)
			return;
		if (e->live)
			forget(link_to(&e->seen.mark));
		first++;
		count--;
	}
}

bool auth__seen_find(const struct mu_hash *mark, int64_t now_usec, struct auth__seen *ret)
{
	pthread_mutex_lock(&lock);
	prepare();
	expire(now_usec);
	int32_t at = *link_to(mark);
	if (at != NONE) {
		ring[at].seen.times++;
		*ret = ring[at].seen;
	}
	pthread_mutex_unlock(&lock);
	return at != NONE;
}

int auth__seen_add(const struct auth__seen *new_one, int64_t now_usec)
{
	int code = 0;
	pthread_mutex_lock(&lock);
	prepare();
	expire(now_usec);
	if (count == AUTH_SEEN_MAX) {
		code = MU_EBUSY;
	} else {
		int32_t *old = link_to(&new_one->mark), at = (int32_t)((first + count) % AUTH_SEEN_MAX);
		if (*old != NONE)
			forget(old);
		int32_t *head = bucket(&new_one->mark);
		ring[at] = (struct entry){.seen = *new_one, .next = *head, .live = true};
		*head = at;
		count++;
	}
	pthread_mutex_unlock(&lock);
	return code;
}

void auth_seen_clear(void)
{
	pthread_mutex_lock(&lock);
	free(ring);
	ring = NULL;
	first = count = 0;
	pthread_mutex_unlock(&lock);
}

unsigned auth_seen_count(void)
{
	pthread_mutex_lock(&lock);
	unsigned n = (unsigned)count;
	pthread_mutex_unlock(&lock);
	return n;
}
