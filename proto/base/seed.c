/* base/seed.c: xoshiro256** seeded by splitmix64 (both public domain algorithms). See seed.h. */
#include "proto/base/seed.h"

static uint64_t splitmix(uint64_t *x)
{
	uint64_t z = *x += 0x9e3779b97f4a7c15;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static uint64_t turn(uint64_t v, int n)
{
	return v << n | v >> (64 - n);
}

void mu_seed_init(struct mu_seed *g, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		g->s[i] = splitmix(&seed);
}

uint64_t mu_seed_next(struct mu_seed *g)
{
	uint64_t result = turn(g->s[1] * 5, 7) * 9;
	uint64_t t = g->s[1] << 17;
	g->s[2] ^= g->s[0];
	g->s[3] ^= g->s[1];
	g->s[1] ^= g->s[2];
	g->s[0] ^= g->s[3];
	g->s[2] ^= t;
	g->s[3] = turn(g->s[3], 45);
	return result;
}

uint32_t mu_seed_below(struct mu_seed *g, uint32_t n)
{
	/* The bias of a multiply-shift over 32 bits is under n / 2^32, and runs repeat exactly. */
	return (uint32_t)((mu_seed_next(g) >> 32) * n >> 32);
}
