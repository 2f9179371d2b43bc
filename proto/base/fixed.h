/* base/fixed.h: fractions in integers: the same digits on every machine. Pure.
 *
 * Q32 is a fraction of 1 in 2^-32 (UINT64_C(1) << 32 is one), Q63 one in 2^-63. Everything rounds down. */
#ifndef PROTO_BASE_FIXED_H
#define PROTO_BASE_FIXED_H

#include <stdint.h>

#define MU_FIXED_ONE (UINT64_C(1) << 32)

/* A * B / C without overflow between; UINT64_MAX where the result is larger, or C is 0 and A and B are not. */
uint64_t mu_fixed_muldiv(uint64_t a, uint64_t b, uint64_t c);
/* A + B, UINT64_MAX where that is larger. */
uint64_t mu_fixed_add(uint64_t a, uint64_t b);
/* NUM / DEN as Q32, at most one; 0 where DEN is 0. */
uint64_t mu_fixed_ratio(uint64_t num, uint64_t den);
/* 2 to the power of -(SPAN / HALF) as Q63: what is left after SPAN. One where HALF is 0. Off by less than 2^-57.
 */
uint64_t mu_fixed_left(uint64_t span, uint64_t half);
/* VALUE times a Q63. */
uint64_t mu_fixed_scale(uint64_t value, uint64_t q63);
/* The span that counts when something goes on for SPAN while what it adds up to decays with HALF: the integral
 * of 2^-(t / HALF) over SPAN. SPAN itself where HALF is 0; never more than SPAN. */
uint64_t mu_fixed_decayed_span(uint64_t span, uint64_t half);

#endif
