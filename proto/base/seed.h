/* base/seed.h: a seeded generator for tests and simulation (splitmix64 + xoshiro256**). Never used inside evolve or decide. Pure. */
#ifndef PROTO_BASE_SEED_H
#define PROTO_BASE_SEED_H

#include <stdint.h>

struct mu_seed {
	uint64_t s[4];
};

void mu_seed_init(struct mu_seed *g, uint64_t seed);
uint64_t mu_seed_next(struct mu_seed *g);
uint32_t mu_seed_below(struct mu_seed *g, uint32_t n); /* 0..n-1; 0 for n = 0 */

#endif
